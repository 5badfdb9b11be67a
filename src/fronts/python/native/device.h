// A device as models share it, and memory on it that Python owns.
//
// The emulated driver's device memory cannot be touched by the host, pinned memory can by both. So
// what Python owns is pinned memory there, and the arrays are CPU arrays to DLPack; on a GPU it is
// device memory.
#pragma once

#include "dtypes.h"

#include <cugrt/cugrt.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace cugrt::python {

/// A runtime with facts that are asked for often. Shared by threads.
class Device {
public:
  explicit Device(const RuntimeOptions &options, std::shared_ptr<Device> whole = nullptr);
  /// The live device of these options in this process, or a new one. `driver`: "system",
  /// "emulated", a library's path, or empty: by the environment.
  static std::shared_ptr<Device> open(const std::string &driver, int ordinal,
                                      const std::string &nvrtc);
  /// A device with at least so many of its multiprocessors; 0: `whole` itself. Shared likewise.
  static std::shared_ptr<Device> part(const std::shared_ptr<Device> &whole,
                                      uint32_t multiprocessors);
  /// Whether memory of one is memory of the other.
  bool shares_memory_with(const Device &other) const { return whole() == other.whole(); }

  Runtime &runtime() { return runtime_; }
  const cugrt_runtime_info &info() const { return info_; }
  bool emulated() const { return info_.emulated != 0; }
  int ordinal() const { return ordinal_; }
  /// "cuda:0", or "emulated:0".
  std::string name() const;

private:
  const Device *whole() const { return whole_ ? whole_.get() : this; }

  RuntimeOptions options_;
  std::shared_ptr<Device> whole_; // of a part
  Runtime runtime_;
  cugrt_runtime_info info_;
  int ordinal_;
  std::mutex parts_mutex_; // guards parts_
  std::map<uint32_t, std::weak_ptr<Device>> parts_;
};

/// Device memory, with the last work that touches it. Freed when that has ended.
class Block {
public:
  Block(std::shared_ptr<Device> device, uint64_t bytes);
  ~Block();
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;

  uint64_t address() const { return buffer_.address(); }
  Device &device() { return *device_; }

  /// Later work on the stream follows the block's last work.
  void follow(void *native_stream);
  /// The event's record becomes the block's last work; it follows the earlier work.
  void used_until(std::shared_ptr<Event> event);
  /// Waits for the last work.
  void wait();

private:
  std::shared_ptr<Device> device_;
  Buffer buffer_;
  std::mutex mutex_;
  std::shared_ptr<Event> last_;
};

/// How large a dimension is that the device decides: an i64 in an array's block.
struct Count {
  uint64_t address = 0;
  uint32_t dim = 0;
  std::mutex mutex{};
  std::optional<int64_t> known{}; // once somebody has waited for it
};
/// The count, which is to lie within the bound; else an error.
int64_t checked_count(int64_t count, int64_t bound);

/// A contiguous array on a device. Immutable but for its elements; shared by threads.
struct DeviceArray {
  std::shared_ptr<Block> block;
  cugrt_tensor bound; // dimensions, a counted one at its upper bound
  std::shared_ptr<Count> count{};

  static DeviceArray allocate(std::shared_ptr<Device> device, int32_t dtype, uint32_t rank,
                              const int64_t *dims);
  /// An array of `tensor`'s dtype and dimensions, of which the device decides `dim`.
  static DeviceArray allocate_counted(std::shared_ptr<Device> device, const cugrt_tensor &tensor,
                                      uint32_t dim);
  uint64_t address() const { return bound.address; }
  /// The tensor with its own dimensions; waits, without the held GIL, for one that the device
  /// decides.
  cugrt_tensor tensor() const;
  uint64_t bytes() const {
    const cugrt_tensor own = tensor();
    return bytes_of(own.dtype, own.rank, own.dims);
  }
  /// A new NumPy array with these elements; waits for them.
  nb::object to_numpy() const;
  /// Makes a capsule of the protocol.
  nb::object to_dlpack(int64_t stream, bool versioned) const;
  DlDeviceId dl_device() const;
};

/// An uninitialised NumPy array, and where its elements are.
nb::object new_numpy(int32_t dtype, uint32_t rank, const int64_t *dims, void **data);

/// Models that share a device's memory.
struct SharedDevice {
  SharedDevice(std::shared_ptr<Device> on, uint64_t budget_bytes, uint32_t low_priority_ahead,
               uint64_t instance_budget_bytes)
      : device(std::move(on)),
        group(device->runtime(), budget_bytes, low_priority_ahead, instance_budget_bytes) {}
  std::shared_ptr<Device> device;
  Group group;
};

/// Memory of a session: arena, weights, results, instances, and device, the sum without instances.
nb::dict described_memory(const cugrt_memory &memory);

void bind_device_array(nb::module_ &module);

} // namespace cugrt::python
