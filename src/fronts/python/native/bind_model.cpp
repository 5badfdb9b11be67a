// Models as Python sees them. cugrt/_model.py builds on it, and says everything else in Python.
#include "errors.h"
#include "model.h"
#include "progress.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

namespace cugrt::python {

namespace {

using Symbols = std::vector<std::pair<std::string, int64_t>>;

/// name, dtype ("int" and the like of host scalars), dimensions.
nb::tuple described(const Slot &slot) {
  static constexpr const char *kKinds[] = {"none", "", "int", "float", "bool", "shape"};
  const cugrt_param_info &declared = slot.declared;
  const bool is_tensor = declared.kind == CUGRT_VALUE_TENSOR;
  nb::list shape;
  for (uint32_t i = 0; is_tensor && i < declared.rank; ++i) {
    const std::string text = declared.dim_names[i];
    if (declared.counted && declared.counted_dim == i)
      shape.append(nb::str(("<= " + text).c_str()));
    else if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos)
      shape.append(nb::int_(std::stoll(text)));
    else
      shape.append(nb::str(text.c_str()));
  }
  const std::string type = is_tensor                            ? dtype_name(declared.dtype)
                           : declared.kind <= CUGRT_VALUE_SHAPE ? kKinds[declared.kind]
                                                                : "object";
  static constexpr const char *kAccess[] = {"in", "out", "inout"};
  return nb::make_tuple(slot.name, type, nb::tuple(shape), kAccess[declared.access]);
}

nb::list described(const std::vector<Slot> &slots) {
  nb::list all;
  for (const Slot &slot : slots)
    all.append(described(slot));
  return all;
}

nb::dict counters_of(Model &model) {
  const cugrt_counters c = without_gil([&] { return model.counters(); });
  nb::dict all;
#define CUGRT_COUNTER(name) all[#name] = c.name;
  CUGRT_COUNTER(runs)
  CUGRT_COUNTER(regions_built)
  CUGRT_COUNTER(regions_hit)
  CUGRT_COUNTER(regions_patched)
  CUGRT_COUNTER(regions_eager)
  CUGRT_COUNTER(regions_prepared)
  CUGRT_COUNTER(fields_patched)
  CUGRT_COUNTER(eager_steps)
  CUGRT_COUNTER(instances)
  CUGRT_COUNTER(instances_evicted)
  CUGRT_COUNTER(instance_bytes)
  CUGRT_COUNTER(largest_nodes)
  CUGRT_COUNTER(largest_edges)
  CUGRT_COUNTER(arena_bytes)
  CUGRT_COUNTER(arena_committed_bytes)
  CUGRT_COUNTER(weight_bytes)
  CUGRT_COUNTER(weight_bytes_in_place)
  CUGRT_COUNTER(result_bytes)
#undef CUGRT_COUNTER
  return all;
}

nb::dict memory_of(Model &model) {
  return described_memory(without_gil([&] { return model.memory(); }));
}

/// Times in microseconds.
nb::dict described(const cugrt_latency &latency) {
  const auto us = [](uint64_t ns) { return double(ns) / 1e3; };
  nb::dict all;
  all["count"] = latency.count;
  all["p50"] = us(latency.p50_ns);
  all["p99"] = us(latency.p99_ns);
  all["p999"] = us(latency.p999_ns);
  all["max"] = us(latency.max_ns);
  return all;
}

nb::dict latency_of(Model &model) {
  const Model::Latency times = without_gil([&] { return model.latency(); });
  nb::dict all;
  all["host"] = described(times.host);
  all["device"] = described(times.device);
  if (model.has_deadline()) {
    all["whole"] = described(times.whole);
    all["missed"] = times.missed;
    model.tell_missed();
  }
  return all;
}

nb::dict prepare(Model &model, const std::string &function, const Symbols &symbols) {
  std::vector<cugrt_symbol_value> values;
  for (const auto &[name, value] : symbols)
    values.push_back({name.c_str(), value});
  const cugrt_prepare_report report = model.prepare(model.find_function(function), values);
  nb::dict all;
  all["regions"] = report.regions;
  all["built"] = report.built;
  all["present"] = report.present;
  all["unknown"] = report.unknown;
  all["refused"] = report.refused;
  all["built_bytes"] = report.built_bytes;
  return all;
}

nb::dict described(const cugrt_launch_record &record) {
  static constexpr const char *kKinds[] = {"hit", "patched", "built", "eager", "step"};
  nb::dict all;
  all["name"] = record.name;
  all["kind"] =
      record.kind >= 0 && record.kind <= CUGRT_LAUNCH_STEP ? kKinds[record.kind] : "launch";
  all["run"] = record.run;
  all["reason"] = record.reason;
  nb::dict key;
  for (uint32_t i = 0; i < std::min<uint32_t>(record.key_size, CUGRT_MAX_KEY); ++i)
    key[record.key_names[i]] = record.key_values[i];
  all["key"] = key;
  all["nodes"] = record.nodes;
  all["fields_patched"] = record.fields_patched;
  all["begin_ns"] = record.begin_ns;
  all["host_ns"] = record.host_ns;
  all["build_ns"] = record.build_ns;
  all["patch_ns"] = record.patch_ns;
  all["launch_ns"] = record.launch_ns;
  all["device_us"] = record.device_us;
  return all;
}

/// A list for each session: its calls, and its launches.
nb::list end_trace(Model &model) {
  std::vector<std::unique_ptr<OpenSession>> traced;
  std::vector<std::vector<cugrt_launch_record>> records;
  {
    nb::gil_scoped_release released;
    traced = model.end_trace();
    for (auto &session : traced)
      records.push_back(session->session.read_launches());
  }
  nb::list all;
  for (size_t i = 0; i < traced.size(); ++i) {
    nb::list calls, launches;
    for (const CallSpan &span : traced[i]->spans)
      calls.append(nb::make_tuple(model.functions()[span.function].name, span.begin_ns,
                                  span.queued_ns, span.end_ns));
    for (const cugrt_launch_record &record : records[i])
      launches.append(described(record));
    all.append(nb::make_tuple(calls, launches));
  }
  return all;
}

cugrt_report_format format_of(const std::string &name) {
  static constexpr const char *kNames[] = {"text", "json", "dot", "svg"};
  for (int i = 0; i < 4; ++i)
    if (name == kNames[i])
      return static_cast<cugrt_report_format>(i);
  fail(CUGRT_INVALID_ARGUMENT, "a report's format is text, json, dot or svg, not '" + name + "'");
}

nb::object plan_of(Model &model, const std::string &format, const Symbols &symbols) {
  return shown(without_gil([&] { return model.plan(format_of(format), symbols); }));
}

DeviceArray zeros(Model &model, const std::vector<int64_t> &shape, const std::string &dtype) {
  if (shape.size() > CUGRT_MAX_RANK)
    fail(CUGRT_INVALID_ARGUMENT, "an array has at most 8 dimensions");
  DeviceArray array = DeviceArray::allocate(model.shared_device(), dtype_from_name(dtype),
                                            static_cast<uint32_t>(shape.size()), shape.data());
  if (array.bytes())
    check(api().fill(model.device().runtime().get(), array.address(), 0, array.bytes(), nullptr));
  return array;
}

DeviceArray to_device(Model &model, nb::object object) {
  GivenArray given;
  given.take(object.ptr(), {"the array"}, model.device(), nullptr, false);
  const cugrt_tensor &from = given.tensor();
  DeviceArray array =
      DeviceArray::allocate(model.shared_device(), from.dtype, from.rank, from.dims);
  if (given.block())
    given.block()->wait();
  if (const uint64_t bytes = array.bytes()) {
    Runtime &runtime = model.device().runtime();
    nb::gil_scoped_release released;
    check(given.host()
              ? api().copy_to_device(runtime.get(), array.address(), given.host(), bytes, nullptr)
              : api().copy_on_device(runtime.get(), array.address(), from.address, bytes, nullptr));
  }
  return array;
}

std::vector<int64_t> dims_of(Model &model, const std::string &function, const std::string &name,
                             const Symbols &symbols) {
  const Function described(model.functions()[model.find_function(function)].function);
  std::vector<cugrt_symbol_value> values;
  for (const auto &[symbol, value] : symbols)
    values.push_back({symbol.c_str(), value});
  for (size_t i = 0; i < described.param_count(); ++i)
    if (name == described.param(i).name)
      return described.dims(i, values);
  fail(CUGRT_NOT_FOUND, "there is no parameter '" + name + "'");
}

/// `model(x=x)`. Python's own slot: nanobind would look each name up and copy them once more, which
/// takes a fifth of a call.
PyObject *call_model(PyObject *self, PyObject *positional, PyObject *named) {
  try {
    if (!nb::inst_ready(self) || PyTuple_Size(positional) > 0) {
      PyErr_SetString(PyExc_TypeError, "a model is called with arrays by name, as model(x=x)");
      return nullptr;
    }
    Model &model = *nb::inst_ptr<Model>(self);
    const nb::dict arrays = named ? nb::borrow<nb::dict>(named) : nb::dict();
    return model.call(model.find_function(""), arrays, std::nullopt, false, true).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

} // namespace

void bind_model(nb::module_ &module) {
  static const PyType_Slot kSlots[] = {{Py_tp_call, reinterpret_cast<void *>(&call_model)},
                                       {0, nullptr}};
  nb::class_<SharedDevice>(module, "SharedDevice")
      .def("__init__",
           [](SharedDevice *self, const std::string &driver, int device, const std::string &nvrtc,
              uint64_t budget_bytes, uint32_t low_priority_ahead, uint64_t instance_budget_bytes) {
             nb::gil_scoped_release released;
             new (self) SharedDevice(Device::open(driver, device, nvrtc), budget_bytes,
                                     low_priority_ahead, instance_budget_bytes);
           })
      .def(
          "_set_budget", [](SharedDevice &self, uint64_t bytes) { self.group.set_budget(bytes); },
          WithoutGil())
      .def("_memory", [](SharedDevice &self) {
        nb::dict all = described_memory(self.group.memory());
        PyDict_DelItemString(all.ptr(), "instances"); // of sessions alone
        all["buffers"] = self.group.memory().buffer_bytes;
        return all;
      });
  nb::class_<Model>(module, "Model", nb::type_slots(kSlots))
      .def("__init__", [](Model *self, nb::dict source) { open_model(self, source); })
      .def(
          "run",
          [](Model &self, nb::handle arrays, nb::handle function, nb::handle device,
             nb::handle out) {
            std::optional<nb::dict> places;
            if (!out.is_none())
              places = argument<nb::dict>(out, "out", "a dict of arrays by the outputs' names");
            return self.call(
                self.find_function(
                    argument<std::string>(function, "function", "a str without surrogates")),
                argument<nb::dict>(arrays, "arrays", "a dict of arrays by the inputs' names"),
                places, argument<bool>(device, "device", "True or False"), false);
          },
          nb::arg("arrays").none(), nb::kw_only(), nb::arg("function").none() = "",
          nb::arg("device").none() = false, nb::arg("out") = nb::none(),
          nb::sig("def run(self, arrays: dict[str, Any], *, function: str = '', device: bool = "
                  "False, out: dict[str, Any] | None = None) -> tuple[Any, ...]"),
          "Runs a function and returns a tuple of its outputs.\n\n"
          "``function``: its name; main, or the only one, by default. ``device``: outputs are\n"
          ":class:`cugrt.DeviceArray`; when all inputs are such as well, the call returns before "
          "the work has\n"
          "ended, and a failure of it is told by the next call. ``out``: arrays by the outputs' "
          "names that\n"
          "results are written to, contiguous, writable and of the results' shape.\n\n"
          "A parameter declared inout is written in place: its array is to be writable.")
      .def_prop_ro(
          "functions",
          [](Model &self) {
            std::vector<std::string> names;
            for (const FunctionInfo &function : self.functions())
              names.push_back(function.name);
            return names;
          },
          "Names of the model's functions.")
      .def("_inputs",
           [](Model &self, const std::string &function) {
             return described(self.functions()[self.find_function(function)].params);
           })
      .def("_outputs",
           [](Model &self, const std::string &function) {
             return described(self.functions()[self.find_function(function)].results);
           })
      .def("_plan", &plan_of)
      .def("_prepare", &prepare)
      .def("_counters", &counters_of)
      .def("_update_weights",
           [](Model &self, nb::object given, bool in_place) {
             Weights changes;
             add_weights(changes, given, self.device());
             nb::gil_scoped_release released;
             self.update_weights(changes, in_place);
           })
      .def("_memory", &memory_of)
      .def("_evict", &Model::evict, WithoutGil())
      .def("_is_resident", &Model::is_resident)
      .def("_seal", &Model::seal, WithoutGil())
      .def("_latency", &latency_of)
      .def("_begin_trace", &Model::begin_trace)
      .def("_end_trace", &end_trace)
      .def("_dims", &dims_of)
      .def("_zeros", &zeros)
      .def("to_device", &to_device, nb::arg("array").none(),
           "A copy of an array on the model's device.")
      .def_prop_ro(
          "device", [](Model &self) { return self.device().name(); },
          "``'cuda:0'``, or ``'emulated:0'``.")
      .def_prop_ro(
          "multiprocessors", [](Model &self) { return self.device().info().multiprocessors; },
          "How many the model's kernels have: the device's, or as many as the driver gave.")
      .def_prop_ro("closed", &Model::closed, "Whether :meth:`close` was called.")
      .def("close", &Model::close, WithoutGil(),
           "Frees what the model has on its device, once calls that run have ended. Later calls "
           "fail.");
}

} // namespace cugrt::python
