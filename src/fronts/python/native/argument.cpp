#include "argument.h"

#include "dtypes.h"
#include "errors.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cugrt::python {

static std::string type_name(PyObject *object) {
  return nb::cast<std::string>(
      nb::object(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(object))).attr("__name__")));
}

/// Returns the text of Python's current error and clears it.
static std::string take_python_error() {
  nb::python_error error;
  return text_of(error.value());
}

static void set_dims(cugrt_tensor &tensor, Subject what, int rank, const int64_t *dims) {
  if (rank < 0 || rank > CUGRT_MAX_RANK)
    fail(CUGRT_INVALID_ARGUMENT,
         std::string(what) + " has " + std::to_string(rank) + " dimensions; at most 8 are taken");
  if (rank && !dims)
    fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " has dimensions without sizes");
  tensor.rank = static_cast<uint32_t>(rank);
  for (int i = 0; i < rank; ++i) {
    if (dims[i] < 0)
      fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " has " + std::to_string(dims[i]) +
                                       " elements in dimension " + std::to_string(i));
    tensor.dims[i] = dims[i];
  }
}

static bool is_contiguous(const DlTensor &tensor) {
  if (!tensor.strides || std::count(tensor.shape, tensor.shape + tensor.rank, 0))
    return true;
  int64_t expected = 1;
  for (int32_t i = tensor.rank; i-- > 0;) {
    if ((tensor.shape[i] != 1 && tensor.strides[i] != expected) ||
        __builtin_mul_overflow(expected, tensor.shape[i], &expected))
      return false;
  }
  return true;
}

[[noreturn]] static void fail_strided(Subject what) {
  fail(CUGRT_INVALID_ARGUMENT,
       std::string(what) + " is not contiguous; numpy.ascontiguousarray makes a copy that is");
}

GivenArray::GivenArray(GivenArray &&other) noexcept { *this = std::move(other); }

GivenArray &GivenArray::operator=(GivenArray &&other) noexcept {
  if (this != &other) {
    drop();
    tensor_ = other.tensor_;
    host_ = std::exchange(other.host_, nullptr);
    kept_ = std::exchange(other.kept_, nullptr);
    view_ = other.view_;
    has_view_ = std::exchange(other.has_view_, false);
    managed_ = std::exchange(other.managed_, nullptr);
    versioned_ = std::exchange(other.versioned_, nullptr);
    block_ = std::move(other.block_);
  }
  return *this;
}

void GivenArray::drop() noexcept {
  if (has_view_)
    PyBuffer_Release(&view_);
  if (managed_ && managed_->deleter)
    managed_->deleter(managed_);
  if (versioned_ && versioned_->deleter)
    versioned_->deleter(versioned_);
  Py_CLEAR(kept_);
  has_view_ = false;
  managed_ = nullptr;
  versioned_ = nullptr;
  host_ = nullptr;
  block_.reset();
}

void GivenArray::take(PyObject *object, Subject what, Device &device, void *stream, bool writable) {
  drop();
  if (take_numpy(object, what, writable))
    return;
  if (DeviceArray *array = nullptr; nb::try_cast(nb::handle(object), array) && array) {
    if (!array->block->device().shares_memory_with(device))
      fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " is an array on " +
                                       array->block->device().name() + ", the model is on " +
                                       device.name());
    tensor_ = array->tensor();
    block_ = array->block;
    return;
  }
  if (PyObject_CheckBuffer(object) &&
      (take_buffer(object, what, writable) || take_bfloat16(object, what, writable)))
    return;
  if (take_dlpack(object, what, device, stream, writable))
    return;
  fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " is of type " + type_name(object) +
                                   ", which is no array: it has neither a buffer nor __dlpack__");
}

/// An object that this cannot take goes the way of other buffers, which names it.
bool GivenArray::take_numpy(PyObject *object, Subject what, bool writable) {
  const NumpyArray *array = numpy_array(object);
  if (!array || array->dtype() < 0 || array->rank > CUGRT_MAX_RANK ||
      !array->has(NumpyArray::kContiguous | (writable ? NumpyArray::kWritable : 0)))
    return false;
  tensor_.dtype = array->dtype();
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  set_dims(tensor_, what, array->rank, reinterpret_cast<const int64_t *>(array->dims));
  set_host(array->data);
  kept_ = nb::borrow(object).release().ptr();
  return true;
}

bool GivenArray::take_buffer(PyObject *object, Subject what, bool writable) {
  if (PyObject_GetBuffer(object, &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)) {
    const std::string reason = take_python_error();
    if (reason.find("contiguous") != std::string::npos)
      fail_strided(what);
    return false;
  }
  has_view_ = true;
  const int32_t dtype = dtype_from_format(view_.format, view_.itemsize);
  if (dtype < 0)
    fail(CUGRT_INVALID_ARGUMENT,
         std::string(what) + " has elements of format '" + (view_.format ? view_.format : "") +
             "', which no dtype here has; numpy.asarray(x, dtype=...) converts");
  if (writable && view_.readonly)
    fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " is read-only, and is to be written");
  tensor_.dtype = dtype;
  set_dims(tensor_, what, view_.ndim, reinterpret_cast<const int64_t *>(view_.shape));
  set_host(view_.buf);
  return true;
}

/// ml_dtypes' type has no buffer; its bits have one.
bool GivenArray::take_bfloat16(PyObject *object, Subject what, bool writable) {
  nb::handle array(object);
  if (!nb::hasattr(array, "view") || text_of(nb::getattr(array, "dtype", nb::none())) != "bfloat16")
    return false;
  nb::object bits = array.attr("view")("uint16"); // the view keeps the array
  if (!take_buffer(bits.ptr(), what, writable))
    return false;
  tensor_.dtype = CUGRT_BF16;
  return true;
}

/// An array without elements may have no address, and is the host's all the same.
void GivenArray::set_host(void *data) {
  static char nothing;
  host_ = data ? data : &nothing;
}

void GivenArray::check_address(const void *data, Subject what) const {
  if (!data && !std::count(tensor_.dims, tensor_.dims + tensor_.rank, 0))
    fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " has elements and no address");
}

static bool is_host(int32_t kind) { return kind == kDlCpu || kind == kDlCudaHost; }

/// Calls `__dlpack__` with the newest form that its owner knows. The older one cannot say that
/// memory is read-only, so owners of such memory give the newer one alone.
static nb::object capsule_of(nb::handle array, nb::dict arguments) {
  nb::dict newest;
  newest.update(arguments);
  newest["max_version"] = nb::make_tuple(kDlMajor, kDlMinor);
  const nb::object give = array.attr("__dlpack__");
  try {
    return give(**newest);
  } catch (nb::python_error &error) {
    if (!error.matches(PyExc_TypeError)) // as the protocol says: an owner that knows no versions
      throw;
  }
  return give(**arguments);
}

/// Takes the capsule's ownership, and returns its tensor, which lives as long.
const DlTensor &GivenArray::take_capsule(nb::handle capsule, Subject what, bool writable) {
  if (!PyCapsule_IsValid(capsule.ptr(), kDlVersionedName)) {
    auto *managed = static_cast<DlManaged *>(PyCapsule_GetPointer(capsule.ptr(), kDlName));
    if (!managed)
      fail(CUGRT_INVALID_ARGUMENT,
           std::string(what) + " gives a DLPack capsule that is none: " + take_python_error());
    PyCapsule_SetName(capsule.ptr(), kDlUsedName);
    managed_ = managed;
    return managed->tensor;
  }
  auto *versioned =
      static_cast<DlManagedVersioned *>(PyCapsule_GetPointer(capsule.ptr(), kDlVersionedName));
  PyCapsule_SetName(capsule.ptr(), kDlUsedVersionedName);
  versioned_ = versioned;
  if (versioned->major != kDlMajor)
    fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " is shared by DLPack " +
                                     std::to_string(versioned->major) +
                                     ", which is not known here");
  if (writable && (versioned->flags & (kDlReadOnly | kDlIsCopied)))
    fail(CUGRT_INVALID_ARGUMENT,
         std::string(what) +
             (versioned->flags & kDlReadOnly ? " is read-only" : " is shared as a copy") +
             ", and is to be written");
  return versioned->tensor;
}

bool GivenArray::take_dlpack(PyObject *object, Subject what, Device &device, void *stream,
                             bool writable) {
  nb::handle array(object);
  if (!nb::hasattr(array, "__dlpack__") || !nb::hasattr(array, "__dlpack_device__"))
    return false;
  nb::object capsule;
  DlDeviceId place{};
  try {
    nb::object where = array.attr("__dlpack_device__")();
    place = {nb::cast<int32_t>(nb::object(where[0])), nb::cast<int32_t>(nb::object(where[1]))};
    const bool on_device = place.type == kDlCuda || place.type == kDlCudaManaged;
    if (on_device && device.emulated())
      fail(CUGRT_INVALID_ARGUMENT, std::string(what) +
                                       " is on a CUDA device, and the model on the emulated "
                                       "driver, which takes arrays of the host");
    if (on_device && place.index != device.ordinal())
      fail(CUGRT_INVALID_ARGUMENT, std::string(what) +
                                       " is on cuda:" + std::to_string(place.index) +
                                       ", the model is on " + device.name());
    if (!on_device && !is_host(place.type))
      fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " is on a device of DLPack's kind " +
                                       std::to_string(place.type) +
                                       ", which is neither the host nor CUDA");
    nb::dict arguments;
    if (on_device)
      arguments["stream"] = reinterpret_cast<intptr_t>(stream);
    capsule = capsule_of(array, arguments);
  } catch (nb::python_error &error) {
    if (!error.matches(PyExc_Exception)) // an interrupt is not the array's
      throw;
    fail(CUGRT_INVALID_ARGUMENT,
         std::string(what) + " cannot be shared by DLPack: " + text_of(error.value()));
  } catch (const nb::cast_error &) {
    fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " cannot be shared by DLPack: its "
                                                     "__dlpack_device__ gives no pair of numbers");
  }
  const DlTensor &from = take_capsule(capsule, what, writable);
  tensor_.dtype = dtype_from_dl(from.dtype);
  if (tensor_.dtype < 0)
    fail(CUGRT_INVALID_ARGUMENT,
         std::string(what) + " has elements of DLPack's type (" + std::to_string(from.dtype.code) +
             ", " + std::to_string(from.dtype.bits) + " bits), which no dtype here has");
  set_dims(tensor_, what, from.rank, from.shape);
  if (!is_contiguous(from))
    fail_strided(what);
  check_address(from.data, what);
  // Pinned and managed memory has one kind in some of the two and another in others.
  if (is_host(from.device.type) != is_host(place.type))
    fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " is on a device of DLPack's kind " +
                                     std::to_string(from.device.type) +
                                     ", and its __dlpack_device__ says " +
                                     std::to_string(place.type));
  char *data = static_cast<char *>(from.data) + from.offset_bytes;
  if (is_host(place.type))
    set_host(data);
  else
    tensor_.address = reinterpret_cast<uintptr_t>(data);
  return true;
}

std::string declared_text(const cugrt_param_info &declared) {
  std::string text = dtype_name(declared.dtype) + "[";
  for (uint32_t i = 0; i < declared.rank; ++i)
    text += std::string(i ? ", " : "") + declared.dim_names[i];
  return text + "]";
}

static bool is_number(const char *text) {
  return *text && std::strspn(text, "0123456789") == std::strlen(text);
}

[[noreturn]] static void fail_declared(const cugrt_tensor &tensor, const cugrt_param_info &declared,
                                       Subject what, const std::string &why) {
  fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " is " + dtype_name(tensor.dtype) +
                                   shape_text(tensor.rank, tensor.dims) + " where " +
                                   declared_text(declared) + " is declared: " + why);
}

void check_declared(const cugrt_tensor &tensor, const cugrt_param_info &declared, Subject what) {
  if (tensor.dtype != declared.dtype)
    fail_declared(tensor, declared, what, "another dtype");
  if (tensor.rank != declared.rank)
    fail_declared(tensor, declared, what, "another number of dimensions");
  for (uint32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.dims[i] == declared.dims[i] || declared.dims[i] < 0)
      continue;
    if (is_number(declared.dim_names[i]))
      fail_declared(tensor, declared, what,
                    "dimension " + std::to_string(i) + " is " + declared.dim_names[i]);
    if (tensor.dims[i] > declared.dims[i])
      fail_declared(tensor, declared, what,
                    "dimension " + std::to_string(i) + " is at most " +
                        std::to_string(declared.dims[i]));
  }
}

cugrt_value scalar_of(PyObject *object, const cugrt_param_info &declared, Subject what) {
  cugrt_value value{};
  value.kind = declared.kind;
  nb::object item = nb::borrow(object);
  try {
    if (nb::hasattr(item, "item") && declared.kind != CUGRT_VALUE_SHAPE)
      item = item.attr("item")();
    switch (declared.kind) {
    case CUGRT_VALUE_INT:
      value.as.integer = nb::cast<int64_t>(item);
      return value;
    case CUGRT_VALUE_FLOAT:
      value.as.floating = nb::cast<double>(item);
      return value;
    case CUGRT_VALUE_BOOL:
      value.as.integer = nb::cast<bool>(item);
      return value;
    case CUGRT_VALUE_SHAPE: {
      const auto count = nb::len(item);
      if (count <= CUGRT_MAX_RANK) {
        value.as.shape.rank = static_cast<uint32_t>(count);
        for (size_t i = 0; i < count; ++i)
          value.as.shape.dims[i] = nb::cast<int64_t>(nb::object(item[i]));
        return value;
      }
      break;
    }
    default:
      break;
    }
  } catch (const nb::cast_error &) {
  } catch (nb::python_error &error) {
    if (!error.matches(PyExc_Exception))
      throw;
  }
  static constexpr const char *kKinds[] = {"nothing", "an array", "an int",
                                           "a float", "a bool",   "a tuple of at most 8 ints"};
  fail(CUGRT_INVALID_ARGUMENT, std::string(what) + " is of type " + type_name(object) + " where " +
                                   kKinds[declared.kind <= CUGRT_VALUE_SHAPE ? declared.kind : 0] +
                                   " is declared");
}

} // namespace cugrt::python
