#include "device.h"

#include "dtypes.h"
#include "errors.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace cugrt::python {

Device::Device(const RuntimeOptions &options, std::shared_ptr<Device> whole)
    : options_(options), whole_(std::move(whole)), runtime_(options), info_(runtime_.info()),
      ordinal_(options.device) {}

std::shared_ptr<Device> Device::open(const std::string &driver, int ordinal,
                                     const std::string &nvrtc) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, int, std::string>, std::weak_ptr<Device>> alive;
  std::lock_guard lock(mutex);
  std::weak_ptr<Device> &kept = alive[{driver, ordinal, nvrtc}];
  if (std::shared_ptr<Device> device = kept.lock())
    return device;
  RuntimeOptions options;
  options.device = ordinal;
  options.nvrtc_path = nvrtc;
  if (driver == "system")
    options.driver = CUGRT_DRIVER_SYSTEM;
  else if (driver == "emulated")
    options.driver = CUGRT_DRIVER_EMULATED;
  else if (driver == "none")
    options.driver = CUGRT_DRIVER_NONE;
  else if (!driver.empty()) {
    options.driver = CUGRT_DRIVER_PATH;
    options.driver_path = driver;
  }
  auto device = std::make_shared<Device>(options);
  kept = device;
  return device;
}

std::shared_ptr<Device> Device::part(const std::shared_ptr<Device> &whole,
                                     uint32_t multiprocessors) {
  if (multiprocessors == 0)
    return whole;
  std::lock_guard lock(whole->parts_mutex_);
  std::weak_ptr<Device> &kept = whole->parts_[multiprocessors];
  if (std::shared_ptr<Device> device = kept.lock())
    return device;
  RuntimeOptions options = whole->options_;
  options.multiprocessors = multiprocessors;
  auto device = std::make_shared<Device>(options, whole);
  kept = device;
  return device;
}

std::string Device::name() const {
  return (emulated() ? "emulated:" : "cuda:") + std::to_string(ordinal_);
}

Block::Block(std::shared_ptr<Device> device, uint64_t bytes)
    : device_(std::move(device)),
      buffer_(device_->runtime(), std::max<uint64_t>(bytes, 1),
              device_->emulated() ? CUGRT_MEMORY_PINNED : CUGRT_MEMORY_DEVICE) {}

Block::~Block() {
  try {
    wait();
  } catch (const Error &) {
    // Work that failed has ended.
  }
}

void Block::follow(void *native_stream) {
  std::lock_guard lock(mutex_);
  if (last_)
    last_->stream_wait(native_stream);
}

void Block::used_until(std::shared_ptr<Event> event) {
  std::lock_guard lock(mutex_);
  last_ = std::move(event);
}

void Block::wait() {
  std::shared_ptr<Event> last;
  {
    std::lock_guard lock(mutex_);
    last = last_;
  }
  if (!last)
    return;
  last->synchronize();
  std::lock_guard lock(mutex_);
  if (last_ == last)
    last_.reset();
}

DeviceArray DeviceArray::allocate(std::shared_ptr<Device> device, int32_t dtype, uint32_t rank,
                                  const int64_t *dims) {
  const uint64_t bytes = bytes_of(dtype, rank, dims);
  if (bytes > device->info().memory_bytes)
    fail(CUGRT_OUT_OF_DEVICE_MEMORY,
         "an array of shape " + shape_text(rank, dims) + " is larger than the device's memory");
  DeviceArray array{std::make_shared<Block>(std::move(device), bytes), {}};
  array.bound = make_tensor(array.block->address(), static_cast<cugrt_dtype>(dtype), {dims, rank});
  return array;
}

DeviceArray DeviceArray::allocate_counted(std::shared_ptr<Device> device,
                                          const cugrt_tensor &tensor, uint32_t dim) {
  const uint64_t bytes = (bytes_of(tensor.dtype, tensor.rank, tensor.dims) + 7) / 8 * 8;
  DeviceArray array{std::make_shared<Block>(std::move(device), bytes + sizeof(int64_t)), tensor};
  array.bound.address = array.block->address();
  array.count = std::make_shared<Count>();
  array.count->address = array.block->address() + bytes;
  array.count->dim = dim;
  return array;
}

int64_t checked_count(int64_t count, int64_t bound) {
  if (count < 0 || count > bound)
    fail(CUGRT_OUT_OF_RANGE, "the device counts " + std::to_string(count) +
                                 " elements along a dimension of at most " + std::to_string(bound));
  return count;
}

cugrt_tensor DeviceArray::tensor() const {
  cugrt_tensor own = bound;
  if (!count)
    return own;
  nb::gil_scoped_release released; // before the lock, which another thread may hold and wait
  std::lock_guard lock(count->mutex);
  if (!count->known) {
    int64_t read = 0;
    block->wait();
    check(api().copy_to_host(block->device().runtime().get(), &read, count->address, sizeof read,
                             nullptr));
    count->known = checked_count(read, bound.dims[count->dim]);
  }
  own.dims[count->dim] = *count->known;
  return own;
}

nb::object new_numpy(int32_t dtype, uint32_t rank, const int64_t *dims, void **data) {
  static PyObject *empty = nb::object(nb::module_::import_("numpy").attr("empty")).release().ptr();
  const bool is_bfloat = dtype == CUGRT_BF16; // not known to the buffer protocol: made of its bits
  PyObject *type = numpy_dtype(is_bfloat ? CUGRT_U16 : dtype);
  (void)bytes_of(dtype, rank, dims);
  nb::object shape = nb::steal(PyTuple_New(rank));
  for (uint32_t i = 0; i < rank; ++i)
    PyTuple_SetItem(shape.ptr(), i, PyLong_FromLongLong(dims[i]));
  PyObject *arguments[] = {nullptr, shape.ptr(), type};
  nb::object array = nb::steal(
      PyObject_Vectorcall(empty, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!array.is_valid())
    throw nb::python_error();
  *data = numpy_array(array.ptr())->data;
  return is_bfloat ? nb::object(array.attr("view")(nb::handle(numpy_dtype(dtype)))) : array;
}

nb::object DeviceArray::to_numpy() const {
  void *data = nullptr;
  const cugrt_tensor own = tensor();
  nb::object array = new_numpy(own.dtype, own.rank, own.dims, &data);
  const uint64_t size = bytes_of(own.dtype, own.rank, own.dims);
  nb::gil_scoped_release released;
  block->wait();
  if (size)
    check(api().copy_to_host(block->device().runtime().get(), data, own.address, size, nullptr));
  return array;
}

DlDeviceId DeviceArray::dl_device() const {
  if (block->device().emulated())
    return {kDlCpu, 0};
  return {kDlCuda, block->device().ordinal()};
}

namespace {

/// The object that a capsule owns; `managed` comes first, so that both have one address.
template <class Managed> struct Shared {
  Managed managed;
  DeviceArray array;
  int64_t shape[CUGRT_MAX_RANK], strides[CUGRT_MAX_RANK];

  static void release(Managed *managed) { delete reinterpret_cast<Shared *>(managed); }
};

template <class Managed> Managed *share(const DeviceArray &array) {
  const cugrt_tensor own = array.tensor();
  auto *shared = new Shared<Managed>{{}, array, {}, {}};
  int64_t stride = 1;
  for (uint32_t i = own.rank; i-- > 0;) {
    shared->shape[i] = own.dims[i];
    shared->strides[i] = stride;
    stride *= std::max<int64_t>(own.dims[i], 1);
  }
  Managed &managed = shared->managed;
  managed.owner = shared;
  managed.deleter = Shared<Managed>::release;
  managed.tensor = {reinterpret_cast<void *>(own.address),
                    array.dl_device(),
                    static_cast<int32_t>(own.rank),
                    dtype_of(own.dtype)->dl,
                    shared->shape,
                    shared->strides,
                    0};
  return &managed;
}

template <class Managed> nb::object capsule(const DeviceArray &array, const char *name) {
  Managed *managed = share<Managed>(array);
  PyObject *made = PyCapsule_New(managed, name, [](PyObject *unused) {
    // A capsule that nobody took frees the tensor; taking it renames the capsule.
    const char *name = PyCapsule_GetName(unused);
    if (!name || (std::string_view(name) != kDlName && std::string_view(name) != kDlVersionedName))
      return;
    auto *left = static_cast<Managed *>(PyCapsule_GetPointer(unused, name));
    left->deleter(left);
  });
  if (!made) {
    managed->deleter(managed);
    throw nb::python_error();
  }
  return nb::steal(made);
}

} // namespace

nb::object DeviceArray::to_dlpack(int64_t stream, bool versioned) const {
  // 1 and 2 are CUDA's default streams by the protocol, and -1 asks for no order. A consumer on the
  // host and one on a default stream get elements that are there.
  if (stream > 2 && !block->device().emulated())
    block->follow(reinterpret_cast<void *>(stream));
  else if (stream != -1) {
    nb::gil_scoped_release released;
    block->wait();
  }
  if (!versioned)
    return capsule<DlManaged>(*this, kDlName);
  nb::object made = capsule<DlManagedVersioned>(*this, kDlVersionedName);
  static_cast<DlManagedVersioned *>(PyCapsule_GetPointer(made.ptr(), kDlVersionedName))->major =
      kDlMajor;
  return made;
}

/// A keyword's value, None at its default.
template <class T>
static T given(nb::handle value, const char *name, const char *kind, T fallback) {
  return value.is_none() ? fallback : argument<T>(value, name, kind);
}

nb::dict described_memory(const cugrt_memory &memory) {
  nb::dict all;
  all["arena"] = memory.arena_bytes;
  all["weights"] = memory.weight_bytes;
  all["results"] = memory.result_bytes;
  all["instances"] = memory.instance_bytes;
  all["device"] = memory.device_bytes;
  return all;
}

void bind_device_array(nb::module_ &module) {
  nb::class_<DeviceArray>(module, "DeviceArray",
                          "A contiguous array on a device.\n\n"
                          "It speaks DLPack: ``torch.from_dlpack(a)``, ``cupy.from_dlpack(a)`` "
                          "and, on the emulated driver,\n"
                          "whose arrays lie in host memory, ``numpy.from_dlpack(a)`` share its "
                          "memory. ``numpy.asarray(a)``\n"
                          "copies. Its memory lives as long as anything that shares it, and may be "
                          "used from any thread.")
      .def_prop_ro(
          "shape",
          [](const DeviceArray &a) {
            const cugrt_tensor own = a.tensor();
            nb::object shape = nb::steal(PyTuple_New(own.rank));
            for (uint32_t i = 0; i < own.rank; ++i)
              PyTuple_SetItem(shape.ptr(), i, PyLong_FromLongLong(own.dims[i]));
            return shape;
          },
          nb::sig("def shape(self) -> tuple[int, ...]"),
          "Dimensions, in elements. One that the data decide is waited for when it is first asked.")
      .def_prop_ro(
          "dtype", [](const DeviceArray &a) { return dtype_name(a.bound.dtype); },
          "NumPy's name of the type, as ``'float32'``.")
      .def_prop_ro("nbytes", &DeviceArray::bytes, "Size in bytes.")
      .def_prop_ro(
          "device", [](const DeviceArray &a) { return a.block->device().name(); },
          "``'cuda:0'``, or ``'emulated:0'``.")
      .def("numpy", &DeviceArray::to_numpy,
           "A NumPy array with a copy of the elements. Waits for the work that makes them.")
      .def(
          "__array__",
          [](const DeviceArray &a, nb::object dtype, nb::object copy) {
            if (!given(copy, "copy", "True, False or None", true))
              throw nb::value_error("an array on a device is copied to become a NumPy array");
            nb::object array = a.to_numpy();
            try {
              return dtype.is_none() ? array : array.attr("astype")(dtype);
            } catch (const nb::python_error &error) {
              fail(CUGRT_INVALID_ARGUMENT,
                   "dtype is none that NumPy converts to: " + text_of(error.value()));
            }
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def(
          "__dlpack__",
          [](const DeviceArray &a, nb::object stream, nb::object max_version, nb::object wanted,
             nb::object copy) {
            using Pair = std::pair<int64_t, int64_t>;
            const DlDeviceId own = a.dl_device();
            const int64_t number = given<int64_t>(stream, "stream", "a whole number or None", 0);
            const Pair version =
                given<Pair>(max_version, "max_version", "a pair of whole numbers or None", {});
            if (given<Pair>(wanted, "dl_device", "a pair of whole numbers or None", {own.type, 0})
                    .first != own.type)
              throw nb::buffer_error(
                  "a cugrt.DeviceArray is shared on its own device; numpy() copies it to the host");
            if (given(copy, "copy", "True, False or None", false))
              throw nb::buffer_error("cugrt.DeviceArray shares its memory and makes no copy of it");
            return a.to_dlpack(number, version.first >= 1);
          },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
          "The protocol's capsule. ``stream``: what the consumer puts on it follows the work that "
          "makes the elements.")
      .def(
          "__dlpack_device__",
          [](const DeviceArray &a) {
            const DlDeviceId id = a.dl_device();
            return nb::make_tuple(id.type, id.index);
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"),
          "(2, ordinal) of a GPU; (1, 0), the host, of the emulated driver.")
      .def("__repr__", [](const DeviceArray &a) {
        const cugrt_tensor own = a.tensor();
        return "cugrt.DeviceArray(" + dtype_name(own.dtype) + shape_text(own.rank, own.dims) +
               " on " + a.block->device().name() + ")";
      });
}

} // namespace cugrt::python
