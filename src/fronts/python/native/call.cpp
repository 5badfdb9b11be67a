// One call: arrays in, a run, arrays out.
//
// Host arrays are copied to device memory that the session keeps, on the session's stream, behind
// whatever ran on it; arrays on the device are bound where they are. Results lie in the session's
// memory until they have been copied to the caller's. A call waits for its work before it returns,
// unless everything that it was given and gives is a device array of ours: then each of these
// carries the event that the next user of its memory waits for.
#include "errors.h"
#include "model.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace cugrt::python {

namespace {

int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

class Call {
public:
  Call(Model &model, size_t function, OpenSession &session)
      : model_(model), index_(function), function_(model.functions()[function]), session_(session),
        bound_(session.bound[function]), stream_(session.stream.native()) {
    for (Value &result : bound_.results)
      result = Value();
  }
  ~Call() {
    for (GivenArray &given : bound_.given)
      given.drop();
  }
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  void take_arguments(nb::dict arrays);
  void take_outputs(const nb::dict &out);
  void check_written() const;
  /// Queues copies and the run.
  void run();
  nb::object result(size_t index, bool device);
  nb::object counted_result(const Slot &slot, cugrt_tensor tensor, bool device);
  void finish(bool device);
  /// Parameters that are results of a call: `out` ones that nobody gave.
  const std::vector<size_t> &allocated() const { return allocated_; }
  nb::object allocated_output(size_t parameter, bool device);

private:
  void take(size_t index, PyObject *object);
  void allocate_outputs();
  void stage(size_t index);
  void copy_to_host(void *to, uint64_t from, uint64_t bytes) {
    if (bytes)
      check(api().copy_to_host(model_.device().runtime().get(), to, from, bytes,
                               session_.stream.get()));
  }
  void copy_on_device(uint64_t to, uint64_t from, uint64_t bytes) {
    if (bytes)
      check(api().copy_on_device(model_.device().runtime().get(), to, from, bytes,
                                 session_.stream.get()));
  }
  /// Copies at the call's end, without the GIL: copies to pageable memory wait for the run.
  void fetch(void *to, uint64_t from, uint64_t bytes) { fetched_.push_back({to, from, bytes}); }
  Subject what(size_t index) const { return {"input", function_.params[index].name}; }
  [[noreturn]] void fail_unknown(nb::dict arrays) const;

  Model &model_;
  size_t index_;
  const FunctionInfo &function_;
  OpenSession &session_;
  Bound &bound_;
  void *stream_;
  bool must_wait_ = false;
  std::vector<size_t> allocated_;
  std::vector<DeviceArray> allocated_arrays_;
  // Results that the caller gives a place for: a host array or one of ours.
  std::vector<std::pair<nb::object, GivenArray>> outputs_;
  std::vector<DeviceArray> made_; // device arrays that this call writes
  struct Fetched {
    void *to;
    uint64_t from, bytes;
  };
  std::vector<Fetched> fetched_;
};

void Call::fail_unknown(nb::dict arrays) const {
  std::string known;
  for (const Slot &slot : function_.params)
    known += (known.empty() ? "'" : ", '") + slot.name + "'";
  for (auto [key, value] : arrays) {
    const std::string name = text_of(key);
    if (std::none_of(function_.params.begin(), function_.params.end(),
                     [&](const Slot &slot) { return slot.name == name; }))
      fail(CUGRT_INVALID_ARGUMENT, "there is no input '" + name + "'; " +
                                       (known.empty() ? "there are none" : "there are " + known));
  }
  fail(CUGRT_INVALID_ARGUMENT, "names of inputs are strings");
}

void Call::take(size_t index, PyObject *object) {
  const cugrt_param_info &declared = function_.params[index].declared;
  Value &argument = bound_.arguments[index];
  if (declared.kind != CUGRT_VALUE_TENSOR) {
    static_cast<cugrt_value &>(argument) = scalar_of(object, declared, what(index));
    return;
  }
  GivenArray &given = bound_.given[index];
  given.take(object, what(index), model_.device(), stream_, declared.access != CUGRT_IN);
  check_declared(given.tensor(), declared, what(index));
  argument.kind = CUGRT_VALUE_TENSOR;
  argument.as.tensor = given.tensor();
  if (given.block())
    given.block()->follow(stream_);
  else
    must_wait_ = true;
}

void Call::take_arguments(nb::dict arrays) {
  size_t found = 0;
  for (size_t i = 0; i < function_.params.size(); ++i) {
    const Slot &slot = function_.params[i];
    PyObject *object = PyDict_GetItemWithError(arrays.ptr(), slot.key.ptr());
    if (object) {
      take(i, object);
      ++found;
    } else if (slot.declared.access == CUGRT_OUT) {
      allocated_.push_back(i);
    } else {
      if (static_cast<size_t>(PyDict_Size(arrays.ptr())) > found)
        for (auto [key, value] : arrays)
          if (std::none_of(function_.params.begin(), function_.params.end(),
                           [&](const Slot &known) { return key.equal(known.key); }))
            fail_unknown(arrays);
      fail(CUGRT_INVALID_ARGUMENT,
           std::string(what(i)) + " is missing: " +
               (slot.declared.kind == CUGRT_VALUE_TENSOR ? declared_text(slot.declared)
                                                         : "a number") +
               " is declared");
    }
  }
  if (found != static_cast<size_t>(PyDict_Size(arrays.ptr())))
    fail_unknown(arrays);
  if (!allocated_.empty())
    allocate_outputs();
}

/// Their dimensions follow from symbols, which the arguments give.
void Call::allocate_outputs() {
  std::vector<cugrt_symbol_value> symbols;
  const Function function(function_.function);
  for (size_t s = 0; s < function.symbol_count(); ++s) {
    const char *name = api().function_symbol_name(function_.function, s);
    for (size_t i = 0; i < function_.params.size(); ++i) {
      const cugrt_param_info &declared = function_.params[i].declared;
      const Value &value = bound_.arguments[i];
      if (std::find(allocated_.begin(), allocated_.end(), i) != allocated_.end())
        continue;
      for (uint32_t d = 0; d < declared.rank; ++d)
        if (declared.dim_names[d] && std::string_view(declared.dim_names[d]) == name &&
            (symbols.empty() || symbols.back().name != name))
          symbols.push_back({name, value.kind == CUGRT_VALUE_TENSOR ? value.as.tensor.dims[d]
                                                                    : value.as.integer});
    }
  }
  for (size_t i : allocated_) {
    // The function's own numbering counts weights too; names tell which one it is.
    size_t index = 0;
    while (std::string_view(function.param(index).name) != function_.params[i].declared.name)
      ++index;
    const std::vector<int64_t> dims = function.dims(index, symbols);
    const cugrt_param_info &declared = function_.params[i].declared;
    allocated_arrays_.push_back(DeviceArray::allocate(
        model_.shared_device(), declared.dtype, static_cast<uint32_t>(dims.size()), dims.data()));
    bound_.arguments[i] = Value(allocated_arrays_.back().tensor());
  }
}

void Call::take_outputs(const nb::dict &out) {
  outputs_.resize(function_.results.size());
  for (auto [key, value] : out) {
    const auto slot = std::find_if(function_.results.begin(), function_.results.end(),
                                   [&, k = key](const Slot &known) { return k.equal(known.key); });
    if (slot == function_.results.end())
      fail(CUGRT_INVALID_ARGUMENT, "there is no output '" + text_of(key) + "'");
    const std::string &name = slot->name;
    if (slot->declared.kind != CUGRT_VALUE_TENSOR)
      fail(CUGRT_INVALID_ARGUMENT, "output '" + name + "' is no array: it has no place");
    if (slot->declared.counted)
      fail(CUGRT_INVALID_ARGUMENT, "output '" + name +
                                       "' has a size that the data decide: it is given, and takes "
                                       "no array");
    const auto index = static_cast<size_t>(slot - function_.results.begin());
    auto &[object, array] = outputs_[index];
    array.take(value.ptr(), {"output", name}, model_.device(), stream_, true);
    check_declared(array.tensor(), slot->declared, {"output", name});
    object = nb::borrow(value);
    if (array.host()) {
      must_wait_ = true;
      continue;
    }
    if (array.block())
      array.block()->follow(stream_);
    else
      must_wait_ = true;
    bound_.results[slot->index] = Value(array.tensor());
  }
}

/// No byte is written twice: the session knows the arrays on the device alone. Host arrays that are
/// read are copied before anything is written, so results may lie over them.
void Call::check_written() const {
  struct Place {
    uint64_t begin, end;
    Subject what;
  };
  std::vector<Place> places;
  auto add = [&](const GivenArray &array, Subject subject) {
    const cugrt_tensor &tensor = array.tensor();
    const uint64_t begin =
        array.host() ? reinterpret_cast<uintptr_t>(array.host()) : tensor.address;
    if (const uint64_t bytes = bytes_of(tensor.dtype, tensor.rank, tensor.dims))
      places.push_back({begin, begin + bytes, subject});
  };
  for (size_t i = 0; i < function_.params.size(); ++i)
    if (const cugrt_param_info &declared = function_.params[i].declared;
        declared.kind == CUGRT_VALUE_TENSOR && declared.access != CUGRT_IN &&
        std::find(allocated_.begin(), allocated_.end(), i) == allocated_.end())
      add(bound_.given[i], what(i));
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].first.is_valid())
      add(outputs_[i].second, {"output", function_.results[i].name});
  std::sort(places.begin(), places.end(),
            [](const Place &a, const Place &b) { return a.begin < b.begin; });
  // If any places overlap, two neighbours by begin do.
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i].begin < places[i - 1].end)
      fail(
          CUGRT_INVALID_ARGUMENT,
          std::string(places[i - 1].what) + " and " + std::string(places[i].what) +
              " overlap in memory; what a run writes may not overlap anything else that it writes");
}

void Call::stage(size_t index) {
  const GivenArray &given = bound_.given[index];
  const cugrt_tensor &tensor = given.tensor();
  const uint64_t bytes = bytes_of(tensor.dtype, tensor.rank, tensor.dims);
  Bound::Staging &staging = bound_.staging[index];
  if (bytes > staging.bytes || !staging.buffer) {
    if (bytes > model_.device().info().memory_bytes)
      fail(CUGRT_OUT_OF_DEVICE_MEMORY,
           std::string(what(index)) + " is larger than the device's memory");
    session_.stream.synchronize(); // the old memory may be in use
    staging = {};
    const uint64_t room = std::max<uint64_t>(bytes, 256);
    staging.buffer =
        Buffer(model_.device().runtime(), room,
               model_.device().info().integrated ? CUGRT_MEMORY_PINNED : CUGRT_MEMORY_DEVICE);
    staging.host = staging.buffer.host_pointer();
    staging.bytes = room;
  }
  bound_.arguments[index].as.tensor.address = staging.buffer.address();
  if (!bytes || function_.params[index].declared.access == CUGRT_OUT)
    return;
  if (staging.host) {
    session_.stream.synchronize(); // the last run has read it, also one of a call that failed
    std::memcpy(staging.host, given.host(), bytes);
    return;
  }
  check(api().copy_to_device(model_.device().runtime().get(), staging.buffer.address(),
                             given.host(), bytes, session_.stream.get()));
}

void Call::run() {
  nb::gil_scoped_release released;
  const int64_t begin = session_.records ? now_ns() : 0;
  try {
    for (size_t i = 0; i < bound_.given.size(); ++i)
      if (bound_.given[i].host())
        stage(i);
    auto options = detail::sized<cugrt_run_options>();
    options.arguments = bound_.arguments.data();
    options.argument_count = bound_.arguments.size();
    options.results = bound_.results.data();
    options.result_count = bound_.results.size();
    options.stream = stream_;
    check(api().session_run(session_.session.get(), function_.function, &options));
    const int64_t queued = session_.records ? now_ns() : 0;
    for (size_t i = 0; i < bound_.given.size(); ++i)
      if (const GivenArray &given = bound_.given[i];
          given.host() && function_.params[i].declared.access != CUGRT_IN)
        copy_to_host(given.host(), bound_.arguments[i].as.tensor.address,
                     bytes_of(given.tensor().dtype, given.tensor().rank, given.tensor().dims));
    if (session_.records) {
      session_.stream.synchronize();
      session_.spans.push_back({index_, begin, queued, now_ns()});
    }
  } catch (...) {
    (void)api().stream_synchronize(
        session_.stream.get()); // copies that were queued read the caller's arrays
    throw;
  }
}

nb::object Call::result(size_t index, bool device) {
  const Slot &slot = function_.results[index];
  const Value &value = bound_.results[slot.index];
  switch (value.kind) {
  case CUGRT_VALUE_TENSOR:
    break;
  case CUGRT_VALUE_INT:
    return nb::int_(value.as.integer);
  case CUGRT_VALUE_FLOAT:
    return nb::float_(value.as.floating);
  case CUGRT_VALUE_BOOL:
    return nb::bool_(value.as.integer != 0);
  case CUGRT_VALUE_SHAPE: {
    nb::object shape = nb::steal(PyTuple_New(value.as.shape.rank));
    for (uint32_t i = 0; i < value.as.shape.rank; ++i)
      PyTuple_SetItem(shape.ptr(), i, PyLong_FromLongLong(value.as.shape.dims[i]));
    return shape;
  }
  default:
    return nb::none();
  }
  if (slot.declared.counted)
    return counted_result(slot, value.as.tensor, device);
  const cugrt_tensor &tensor = value.as.tensor;
  const uint64_t bytes = bytes_of(tensor.dtype, tensor.rank, tensor.dims);
  if (!outputs_.empty() && outputs_[index].first.is_valid()) {
    auto &[object, array] = outputs_[index];
    if (array.host()) {
      if (!std::equal(tensor.dims, tensor.dims + tensor.rank, array.tensor().dims))
        fail(CUGRT_INVALID_ARGUMENT, "output '" + function_.results[index].name + "' has shape " +
                                         shape_text(tensor.rank, tensor.dims) +
                                         "; the array that was given for it has " +
                                         shape_text(array.tensor().rank, array.tensor().dims));
      fetch(array.host(), tensor.address, bytes);
    }
    return object;
  }
  if (device) {
    DeviceArray made =
        DeviceArray::allocate(model_.shared_device(), tensor.dtype, tensor.rank, tensor.dims);
    copy_on_device(made.address(), tensor.address, bytes);
    made_.push_back(made);
    return nb::cast(std::move(made));
  }
  void *data = nullptr;
  nb::object array = new_numpy(tensor.dtype, tensor.rank, tensor.dims, &data);
  fetch(data, tensor.address, bytes);
  return array;
}

/// A device array is as large as it may be, with the count behind it. A host array has its own
/// size: the call waits for the count before it makes the array.
nb::object Call::counted_result(const Slot &slot, cugrt_tensor tensor, bool device) {
  const uint64_t count_address = bound_.results[slot.declared.counted_by].as.tensor.address;
  const uint32_t dim = slot.declared.counted_dim;
  if (device) {
    DeviceArray made = DeviceArray::allocate_counted(model_.shared_device(), tensor, dim);
    copy_on_device(made.address(), tensor.address,
                   bytes_of(tensor.dtype, tensor.rank, tensor.dims));
    copy_on_device(made.count->address, count_address, sizeof(int64_t));
    made_.push_back(made);
    return nb::cast(std::move(made));
  }
  int64_t count = 0;
  without_gil([&] {
    copy_to_host(&count, count_address, sizeof count);
    session_.stream.synchronize();
  });
  tensor.dims[dim] = checked_count(count, tensor.dims[dim]);
  void *data = nullptr;
  nb::object array = new_numpy(tensor.dtype, tensor.rank, tensor.dims, &data);
  fetch(data, tensor.address, bytes_of(tensor.dtype, tensor.rank, tensor.dims));
  return array;
}

nb::object Call::allocated_output(size_t which, bool device) {
  DeviceArray &array = allocated_arrays_[which];
  if (device) {
    made_.push_back(array);
    return nb::cast(array);
  }
  void *data = nullptr;
  const cugrt_tensor tensor = array.tensor();
  nb::object host = new_numpy(tensor.dtype, tensor.rank, tensor.dims, &data);
  fetch(data, tensor.address, array.bytes());
  return host;
}

void Call::finish(bool device) {
  if (!device || must_wait_) {
    nb::gil_scoped_release released;
    if (model_.waits_its_way())
      check(api().session_synchronize(session_.session.get()));
    for (const Fetched &one : fetched_)
      copy_to_host(one.to, one.from, one.bytes);
    session_.stream.synchronize();
    return;
  }
  auto event = std::make_shared<Event>(model_.device().runtime());
  event->record(stream_);
  for (const GivenArray &given : bound_.given)
    if (given.block())
      given.block()->used_until(event);
  for (auto &[object, array] : outputs_)
    if (array.block())
      array.block()->used_until(event);
  for (const DeviceArray &array : made_)
    array.block->used_until(event);
}

} // namespace

nb::object Model::call(size_t function, nb::dict arrays, const std::optional<nb::dict> &out,
                       bool device, bool unwrap) {
  nb::object values = call_once(function, arrays, out, device, unwrap);
  if (missed_.any())
    tell_missed();
  return values;
}

void Model::tell_missed() {
  for (const cugrt_missed_run &run : missed_.take()) {
    nb::dict all;
    all["run"] = run.run;
    all["begin_ns"] = run.begin_ns;
    all["took_ns"] = run.took_ns;
    all["deadline_ns"] = run.deadline_ns;
    source_.missed(all);
  }
}

nb::object Model::call_once(size_t function, nb::dict arrays, const std::optional<nb::dict> &out,
                            bool device, bool unwrap) {
  Lease lease(*this);
  Call call(*this, function, *lease);
  call.take_arguments(arrays);
  if (out)
    call.take_outputs(*out);
  call.check_written();
  call.run();
  const size_t results = functions_[function].results.size(),
               all = results + call.allocated().size();
  nb::object values = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(all)));
  try {
    for (size_t i = 0; i < all; ++i)
      PyTuple_SetItem(
          values.ptr(), static_cast<Py_ssize_t>(i),
          (i < results ? call.result(i, device) : call.allocated_output(i - results, device))
              .release()
              .ptr());
    call.finish(device);
  } catch (...) {
    nb::gil_scoped_release released;
    (void)api().stream_synchronize(
        lease->stream.get()); // results that were queued go with this call
    throw;
  }
  return unwrap && all == 1 ? nb::object(values[0]) : values;
}

} // namespace cugrt::python
