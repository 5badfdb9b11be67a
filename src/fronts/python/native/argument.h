// A Python argument as a tensor or scalar of the C ABI: NumPy and other buffers, DLPack, numbers.
#pragma once

#include "device.h"

#include <memory>
#include <string>
#include <string_view>

namespace cugrt::python {

/// The subject of a message: "input 'x'". The text is made on failure only.
struct Subject {
  const char *kind;
  std::string_view name = {};

  operator std::string() const {
    return name.empty() ? kind : kind + (" '" + std::string(name)) + "'";
  }
};

/// An array as it was given. Holds on to it; made, moved and destroyed with the GIL held.
class GivenArray {
public:
  GivenArray() = default;
  GivenArray(GivenArray &&other) noexcept;
  GivenArray &operator=(GivenArray &&other) noexcept;
  ~GivenArray() { drop(); }

  /// `what` begins the message of a failure. The maker of an array on a device orders it behind
  /// `stream`. `writable`: read-only memory is an error.
  void take(PyObject *object, Subject what, Device &device, void *stream, bool writable);
  /// Memory of the host, or null: then the tensor's address is on the device.
  void *host() const { return host_; }
  const cugrt_tensor &tensor() const { return tensor_; }
  /// Null unless it is one of ours.
  const std::shared_ptr<Block> &block() const { return block_; }
  /// An array on a device that is not ours must live until the work on it has ended.
  bool is_foreign() const { return (managed_ || versioned_) && !host_; }
  void drop() noexcept;

private:
  bool take_numpy(PyObject *object, Subject what, bool writable);
  bool take_buffer(PyObject *object, Subject what, bool writable);
  bool take_dlpack(PyObject *object, Subject what, Device &device, void *stream, bool writable);
  const DlTensor &take_capsule(nb::handle capsule, Subject what, bool writable);
  void set_host(void *data);
  /// Elements have an address; memory is read there.
  void check_address(const void *data, Subject what) const;
  bool take_bfloat16(PyObject *object, Subject what, bool writable);

  cugrt_tensor tensor_{};
  void *host_ = nullptr;
  PyObject *kept_ = nullptr; // a NumPy array
  Py_buffer view_{};
  bool has_view_ = false;
  DlManaged *managed_ = nullptr;
  DlManagedVersioned *versioned_ = nullptr;
  std::shared_ptr<Block> block_;
};

/// Compares `tensor` with the declaration of a parameter or result; throws if type, rank or a
/// dimension that is a number differs, or a dimension exceeds its bound.
void check_declared(const cugrt_tensor &tensor, const cugrt_param_info &declared, Subject what);

/// A host scalar: int, float, bool, or a tuple of dimensions, by the parameter's kind. Arrays of
/// one element count as numbers.
cugrt_value scalar_of(PyObject *object, const cugrt_param_info &declared, Subject what);

/// "float32[n, 64]", as a parameter is declared.
std::string declared_text(const cugrt_param_info &declared);

} // namespace cugrt::python
