// cugrt: the C++20 API. Header-only and move-only, over the C ABI of cugrt.h.
//
//   cugrt::Runtime runtime({.driver = CUGRT_DRIVER_EMULATED});
//   cugrt::Module module = cugrt::Module::load("model.onnx");
//   cugrt::Executable executable(runtime, module);
//   cugrt::Session session(executable, runtime, module.weights());
//   cugrt::Buffer x(runtime, bytes);
//   auto results = session.run(executable.function("main"), {x.tensor(CUGRT_F32, {8, 64})});
//
// Failures are thrown as cugrt::Error. Objects own their handle and free it; get() lends the handle
// to the C API. Thread safety and lifetimes are those of cugrt.h: only Session is for one thread at
// a time.
#pragma once

#include <cugrt/cugrt.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace cugrt {

/// The library's table of functions; throws std::runtime_error when the library is older than this
/// header.
inline const cugrt_api &api() {
  static const cugrt_api *const table = cugrt_get_api(CUGRT_API_VERSION);
  if (!table)
    throw std::runtime_error("libcugrt.so is older than the header this program was compiled with");
  return *table;
}

/// A failure: what() is "location: message (CUDA error)", with the parts that are known.
class Error : public std::runtime_error {
public:
  /// Takes ownership of `status`.
  explicit Error(cugrt_status *status)
      : std::runtime_error(text(status)), code_(api().status_code(status)),
        location_(api().status_location(status)), cuda_error_(api().status_cuda_error(status)) {
    api().status_free(status);
  }
  cugrt_code code() const noexcept { return code_; }
  const std::string &location() const noexcept { return location_; }
  const std::string &cuda_error() const noexcept { return cuda_error_; }

private:
  static std::string text(const cugrt_status *status) {
    std::string location = api().status_location(status), cuda = api().status_cuda_error(status);
    return (location.empty() ? "" : location + ": ") + api().status_message(status) +
           (cuda.empty() ? "" : " (" + cuda + ")");
  }
  cugrt_code code_;
  std::string location_, cuda_error_;
};

/// Throws Error when `status` is a failure.
inline void check(cugrt_status *status) {
  if (status)
    throw Error(status);
}

namespace detail {

/// Valid as long as the strings.
inline std::vector<const char *> pointers(const std::vector<std::string> &strings) {
  std::vector<const char *> list;
  for (const std::string &string : strings)
    list.push_back(string.c_str());
  return list;
}

/// A struct of the C ABI with struct_size set and everything else zero.
template <class T> T sized() {
  T value;
  std::memset(&value, 0, sizeof value);
  value.struct_size = sizeof value;
  return value;
}

/// Calls a function of the C API and returns the value that its last parameter receives.
template <class... Parameters, class... Given>
auto got(cugrt_status *(*function)(Parameters...), Given... given) {
  using Last = std::tuple_element_t<sizeof...(Given), std::tuple<Parameters...>>;
  std::remove_pointer_t<Last> out{};
  if constexpr (requires { out.struct_size; })
    out = sized<std::remove_pointer_t<Last>>();
  check(function(given..., &out));
  return out;
}

/// Owns a handle; `Free` names the member of the table `Api` that frees it.
template <class T, auto Free, auto Api = &api> class Handle {
public:
  Handle() = default;
  explicit Handle(T *handle) noexcept : handle_(handle) {}
  Handle(Handle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle &operator=(Handle &&other) noexcept {
    if (this != &other)
      reset(std::exchange(other.handle_, nullptr));
    return *this;
  }
  ~Handle() { reset(nullptr); }

  T *get() const noexcept { return handle_; }
  T *release() noexcept { return std::exchange(handle_, nullptr); }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

protected:
  void reset(T *handle) noexcept {
    if (handle_)
      (Api().*Free)(handle_);
    handle_ = handle;
  }
  T *handle_ = nullptr;
};

inline std::string take_text(cugrt_text *text) {
  Handle<cugrt_text, &cugrt_api::text_free> owner(text);
  return {api().text_data(text), api().text_size(text)};
}

} // namespace detail

/// Options of a runtime; every field may be left out.
struct RuntimeOptions {
  cugrt_driver_kind driver = CUGRT_DRIVER_DEFAULT;
  std::string driver_path = {};
  int device = 0;
  std::string nvrtc_path = {}, cache_folder = {}; // empty: the defaults
  cugrt_log_callback log = nullptr;
  void *log_user = nullptr;
  cugrt_log_level log_level = CUGRT_LOG_WARNING;
  uint32_t multiprocessors = 0; // at least this many of the device's; 0: all of them

  /// Borrows the strings: valid while *this is.
  cugrt_runtime_options c_options() const {
    auto options = detail::sized<cugrt_runtime_options>();
    options.driver = driver;
    options.driver_path = driver_path.empty() ? nullptr : driver_path.c_str();
    options.device = device;
    options.nvrtc_path = nvrtc_path.empty() ? nullptr : nvrtc_path.c_str();
    options.cache_folder = cache_folder.empty() ? nullptr : cache_folder.c_str();
    options.log = log;
    options.log_user = log_user;
    options.log_level = log_level;
    options.multiprocessors = multiprocessors;
    return options;
  }
};

/// Driver, device context, compiler and code cache. Shared by threads.
class Runtime : public detail::Handle<cugrt_runtime, &cugrt_api::runtime_free> {
public:
  explicit Runtime(const RuntimeOptions &options = {}) {
    auto c = options.c_options();
    check(api().runtime_create(&c, &handle_));
  }
  cugrt_runtime_info info() const { return detail::got(api().runtime_get_info, handle_); }
  void register_host_function(const std::string &name, cugrt_host_function function,
                              void *user = nullptr) {
    check(api().runtime_register_host_function(handle_, name.c_str(), function, user));
  }
};

/// A contiguous device tensor at `address`; at most CUGRT_MAX_RANK dimensions.
inline cugrt_tensor make_tensor(uint64_t address, cugrt_dtype dtype,
                                std::span<const int64_t> dims) {
  if (dims.size() > CUGRT_MAX_RANK)
    throw std::invalid_argument("a tensor has at most " + std::to_string(CUGRT_MAX_RANK) +
                                " dimensions");
  cugrt_tensor tensor{};
  tensor.address = address;
  tensor.dtype = dtype;
  tensor.rank = static_cast<uint32_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    tensor.dims[i] = dims[i];
  return tensor;
}

/// An argument or result of a run.
struct Value : cugrt_value {
  Value() : cugrt_value{} {}
  Value(const cugrt_tensor &tensor) : cugrt_value{} {
    kind = CUGRT_VALUE_TENSOR;
    as.tensor = tensor;
  }
  Value(int64_t integer) : cugrt_value{} {
    kind = CUGRT_VALUE_INT;
    as.integer = integer;
  }
  Value(int integer) : Value(static_cast<int64_t>(integer)) {}
  Value(double floating) : cugrt_value{} {
    kind = CUGRT_VALUE_FLOAT;
    as.floating = floating;
  }
  Value(bool boolean) : cugrt_value{} {
    kind = CUGRT_VALUE_BOOL;
    as.integer = boolean;
  }
  static Value shape(std::span<const int64_t> dims) {
    cugrt_tensor checked = make_tensor(0, CUGRT_F32, dims);
    Value value;
    value.kind = CUGRT_VALUE_SHAPE;
    value.as.shape.rank = checked.rank;
    std::memcpy(value.as.shape.dims, checked.dims, sizeof checked.dims);
    return value;
  }
};
static_assert(sizeof(Value) == sizeof(cugrt_value),
              "arrays of Value are passed as arrays of cugrt_value");

/// Models that share one device's memory: sessions that are opened with `options.group`. Lives at
/// least as long as these sessions.
class Group : public detail::Handle<cugrt_group, &cugrt_api::group_free> {
public:
  /// `budget_bytes` limits all sessions' arenas, weights and results, and buffers; 0: no limit. The
  /// other parameters are as in cugrt_group_options.
  explicit Group(Runtime &runtime, uint64_t budget_bytes = 0, uint32_t low_priority_ahead = 0,
                 uint64_t instance_budget_bytes = 0) {
    auto options = detail::sized<cugrt_group_options>();
    options.budget_bytes = budget_bytes;
    options.low_priority_ahead = low_priority_ahead;
    options.instance_budget_bytes = instance_budget_bytes;
    check(api().group_create(runtime.get(), &options, &handle_));
  }
  cugrt_memory memory() const { return detail::got(api().group_get_memory, handle_); }
  /// See group_set_budget.
  void set_budget(uint64_t budget_bytes) { check(api().group_set_budget(handle_, budget_bytes)); }
};

/// Device or pinned host memory.
class Buffer : public detail::Handle<cugrt_buffer, &cugrt_api::buffer_free> {
public:
  Buffer() = default;
  Buffer(Runtime &runtime, uint64_t bytes, cugrt_memory_kind kind = CUGRT_MEMORY_DEVICE) {
    check(api().buffer_create(runtime.get(), kind, bytes, &handle_));
  }
  /// Device memory in the group's budget.
  Buffer(Group &group, uint64_t bytes) {
    check(api().group_buffer_create(group.get(), bytes, &handle_));
  }
  uint64_t address() const { return api().buffer_address(handle_); }
  void *host_pointer() const { return api().buffer_host_pointer(handle_); }
  uint64_t bytes() const { return api().buffer_bytes(handle_); }
  cugrt_tensor tensor(cugrt_dtype dtype, std::span<const int64_t> dims) const {
    return make_tensor(address(), dtype, dims);
  }
  cugrt_tensor tensor(cugrt_dtype dtype, std::initializer_list<int64_t> dims) const {
    return tensor(dtype, std::span(dims.begin(), dims.size()));
  }
};

class Stream : public detail::Handle<cugrt_stream, &cugrt_api::stream_free> {
public:
  /// `priority` is as in cugrt_session_options.
  explicit Stream(Runtime &runtime, int32_t priority = 0) {
    check(api().stream_create_with_priority(runtime.get(), priority, &handle_));
  }
  void *native() const { return api().stream_native(handle_); }
  void synchronize() { check(api().stream_synchronize(handle_)); }
};

class Event : public detail::Handle<cugrt_event, &cugrt_api::event_free> {
public:
  explicit Event(Runtime &runtime) { check(api().event_create(runtime.get(), &handle_)); }
  void record(void *native_stream) { check(api().event_record(handle_, native_stream)); }
  /// Later work of the stream waits for the last record; the caller does not wait.
  void stream_wait(void *native_stream) { check(api().event_stream_wait(handle_, native_stream)); }
  void synchronize() { check(api().event_synchronize(handle_)); }
  double milliseconds_since(const Event &begin) const {
    return detail::got(api().event_elapsed_milliseconds, begin.get(), handle_);
  }
};

/// Copies. Without a stream they return when the bytes are there.
inline void copy_to_device(Runtime &runtime, uint64_t address, std::span<const std::byte> bytes,
                           Stream *stream = nullptr) {
  check(api().copy_to_device(runtime.get(), address, bytes.data(), bytes.size(),
                             stream ? stream->get() : nullptr));
}
inline void copy_to_host(Runtime &runtime, std::span<std::byte> bytes, uint64_t address,
                         Stream *stream = nullptr) {
  check(api().copy_to_host(runtime.get(), bytes.data(), address, bytes.size(),
                           stream ? stream->get() : nullptr));
}

inline void copy_on_device(Runtime &runtime, uint64_t to, uint64_t from, uint64_t bytes,
                           Stream *stream = nullptr) {
  check(api().copy_on_device(runtime.get(), to, from, bytes, stream ? stream->get() : nullptr));
}
inline void fill(Runtime &runtime, uint64_t address, uint8_t byte, uint64_t bytes,
                 Stream *stream = nullptr) {
  check(api().fill(runtime.get(), address, byte, bytes, stream ? stream->get() : nullptr));
}

/// Host tensors by name.
class Weights : public detail::Handle<cugrt_weights, &cugrt_api::weights_free> {
public:
  Weights() { check(api().weights_create(&handle_)); }
  static Weights load(const std::string &safetensors_path) {
    return Weights(detail::got(api().weights_load, safetensors_path.c_str()));
  }
  /// Copies the bytes.
  void add(const std::string &name, const void *bytes, cugrt_dtype dtype,
           std::span<const int64_t> dims) {
    cugrt_tensor tensor = make_tensor(reinterpret_cast<uintptr_t>(bytes), dtype, dims);
    check(api().weights_add(handle_, name.c_str(), &tensor));
  }
  /// Keeps the caller's bytes, as those of a mapped file. `owner` keeps them alive as long as these
  /// weights or a session that was opened with them lives.
  void add_shared(const std::string &name, const void *bytes, cugrt_dtype dtype,
                  std::span<const int64_t> dims, std::shared_ptr<const void> owner) {
    cugrt_tensor tensor = make_tensor(reinterpret_cast<uintptr_t>(bytes), dtype, dims);
    auto *kept = new std::shared_ptr<const void>(std::move(owner));
    const auto release = [](void *user) {
      delete static_cast<std::shared_ptr<const void> *>(user);
    };
    check(api().weights_add_shared(handle_, name.c_str(), &tensor, release, kept));
  }
  size_t count() const { return api().weights_count(handle_); }
  /// These weights, where those of `changes` replace the ones of the same names.
  Weights replaced(const Weights &changes) const {
    return Weights(detail::got(api().weights_replace, handle_, changes.get()));
  }
  /// Writes a safetensors file, whole or not at all.
  void save(const std::string &path) const { check(api().weights_save(handle_, path.c_str())); }

private:
  friend class Module;
  friend class Pack;
  explicit Weights(cugrt_weights *weights) : Handle(weights) {}
};

/// Options for reading a file of another format; see cugrt_import_options.
struct ImportOptions {
  std::vector<std::string> dims = {}, bounds = {}, bind = {}, preprocess = {};
};

class Module;

/// A module to link with others. Everything that it refers to must outlive the call.
struct LinkPart {
  std::string name; // letters, digits and '_'
  const Module &module;
  const Weights *weights = nullptr; // null: the weights that the module was imported with, if any
};

/// Verified IR. Immutable.
class Module : public detail::Handle<cugrt_module, &cugrt_api::module_free> {
public:
  /// The content of the file decides its format: text, or an ONNX model.
  static Module load(const std::string &path) {
    return Module(detail::got(api().module_load, path.c_str()));
  }
  /// Imports an ONNX model.
  static Module load(const std::string &path, const ImportOptions &options) {
    auto c = detail::sized<cugrt_import_options>();
    auto dims = detail::pointers(options.dims), bounds = detail::pointers(options.bounds),
         bind = detail::pointers(options.bind), preprocess = detail::pointers(options.preprocess);
    c.dims = dims.data(), c.dim_count = dims.size();
    c.bounds = bounds.data(), c.bound_count = bounds.size();
    c.bind = bind.data(), c.bind_count = bind.size();
    c.preprocess = preprocess.data(), c.preprocess_count = preprocess.size();
    return Module(detail::got(api().module_import, path.c_str(), &c));
  }
  /// `name` stands for the file in messages; kernel source paths are relative to `base_folder`.
  static Module parse(std::string_view text, const std::string &name = "module",
                      const std::string &base_folder = ".") {
    return Module(detail::got(api().module_parse, text.data(), text.size(), name.c_str(),
                              base_folder.c_str()));
  }
  /// Takes a module that a library built in memory; see module_adopt of cugrt_api.
  static Module adopt(const cugrt_built_module *built, const std::string &name) {
    return Module(detail::got(api().module_adopt, built, name.c_str()));
  }
  /// Links several modules into one; see module_link of cugrt_api. `connect` pairs a "PART.INPUT"
  /// with the "PART.resultN" that it takes.
  static Module link(const std::vector<LinkPart> &parts,
                     const std::vector<std::pair<std::string, std::string>> &connect) {
    std::vector<cugrt_link_part> c_parts;
    for (const LinkPart &part : parts)
      c_parts.push_back(
          {part.name.c_str(), part.module.get(), part.weights ? part.weights->get() : nullptr});
    std::vector<cugrt_link_join> joins;
    for (const auto &[input, result] : connect)
      joins.push_back({input.c_str(), result.c_str()});
    return Module(
        detail::got(api().module_link, c_parts.data(), c_parts.size(), joins.data(), joins.size()));
  }
  /// The weights that came with the file; without tensors if there were none.
  Weights weights() const {
    cugrt_weights *weights = nullptr;
    check(api().module_weights(handle_, &weights));
    return weights ? Weights(weights) : Weights();
  }
  /// The names that the file has for main's inputs and results, in order; none for text.
  std::vector<std::string> input_names() const { return names(&cugrt_api::module_input_name); }
  std::vector<std::string> result_names() const { return names(&cugrt_api::module_result_name); }
  std::string print() const { return detail::take_text(detail::got(api().module_print, handle_)); }
  /// Runs passes; no names: the default pipeline. Options are "name=value".
  Module run_passes(const std::vector<std::string> &passes = {},
                    const std::vector<std::string> &options = {}) const {
    auto names = detail::pointers(passes), settings = detail::pointers(options);
    return Module(detail::got(api().module_run_passes, handle_, names.data(), names.size(),
                              settings.data(), settings.size()));
  }
  std::string plan_report(cugrt_report_format format = CUGRT_REPORT_TEXT,
                          cugrt_policy policy = CUGRT_POLICY_PATCH,
                          const std::vector<std::pair<std::string, int64_t>> &symbols = {}) const {
    std::vector<cugrt_symbol_value> values;
    for (const auto &[name, value] : symbols)
      values.push_back({name.c_str(), value});
    auto options = detail::sized<cugrt_plan_options>();
    options.policy = policy;
    options.format = format;
    options.symbols = values.data();
    options.symbol_count = values.size();
    return plan_report(options);
  }
  std::string plan_report(const cugrt_plan_options &options) const {
    return detail::take_text(detail::got(api().module_plan_report, handle_, &options));
  }

private:
  using Handle::Handle;
  std::vector<std::string> names(const char *(*cugrt_api::*name_of)(const cugrt_module *,
                                                                    size_t)) const {
    std::vector<std::string> list;
    while (const char *name = (api().*name_of)(handle_, list.size()))
      list.emplace_back(name);
    return list;
  }
};

/// A module planned and compiled for machines without a compiler. Immutable, shared by threads.
class Pack : public detail::Handle<cugrt_pack, &cugrt_api::pack_free> {
public:
  static Pack load(const std::string &path) {
    return Pack(detail::got(api().pack_load, path.c_str()));
  }
  /// Copies the bytes. `base_folder` is where a file of weights is looked for.
  static Pack parse(std::span<const std::byte> bytes, const std::string &name = "pack",
                    const std::string &base_folder = ".") {
    return Pack(detail::got(api().pack_parse, bytes.data(), bytes.size(), name.c_str(),
                            base_folder.c_str()));
  }
  std::string report(cugrt_report_format format = CUGRT_REPORT_TEXT,
                     const std::vector<std::pair<std::string, int64_t>> &symbols = {}) const {
    std::vector<cugrt_symbol_value> values;
    for (const auto &[name, value] : symbols)
      values.push_back({name.c_str(), value});
    auto options = detail::sized<cugrt_plan_options>();
    options.format = format;
    options.symbols = values.data();
    options.symbol_count = values.size();
    return detail::take_text(detail::got(api().pack_report, handle_, &options));
  }
  /// The pack's weights; without tensors if it has none.
  Weights weights() const {
    cugrt_weights *weights = nullptr;
    check(api().pack_weights(handle_, &weights));
    return weights ? Weights(weights) : Weights();
  }

private:
  using Handle::Handle;
};

/// Plans and compiles for the architectures that `options` name, and writes the file.
inline void write_pack(Runtime &runtime, const Module &module, const cugrt_pack_options &options,
                       const std::string &path) {
  check(api().pack_write(runtime.get(), module.get(), &options, path.c_str()));
}

/// A function of an executable; a plain reference, valid while the executable lives.
class Function {
public:
  explicit Function(const cugrt_function *function) : function_(function) {}
  const cugrt_function *get() const { return function_; }
  std::string name() const { return api().function_name(function_); }
  size_t param_count() const { return api().function_param_count(function_); }
  size_t result_count() const { return api().function_result_count(function_); }
  cugrt_param_info param(size_t index) const {
    return detail::got(api().function_param, function_, index);
  }
  cugrt_param_info result(size_t index) const {
    return detail::got(api().function_result, function_, index);
  }

  size_t symbol_count() const { return api().function_symbol_count(function_); }
  std::string symbol_name(size_t index) const {
    const char *name = api().function_symbol_name(function_, index);
    if (!name)
      check(api().status_create(CUGRT_OUT_OF_RANGE, "the function has no symbol of that number"));
    return name;
  }
  /// The dimensions of a parameter (or result) at these symbol values.
  std::vector<int64_t> dims(size_t index, std::span<const cugrt_symbol_value> symbols,
                            bool is_result = false) const {
    int64_t dims[CUGRT_MAX_RANK];
    check(api().function_dims(function_, is_result, index, symbols.data(), symbols.size(), dims));
    return {dims, dims + (is_result ? result(index) : param(index)).rank};
  }

  /// Reports which nodes' fields differ between two sets of values.
  std::string key_difference(std::span<const cugrt_symbol_value> from,
                             std::span<const cugrt_symbol_value> to,
                             cugrt_report_format format = CUGRT_REPORT_TEXT) const {
    return detail::take_text(detail::got(api().function_key_difference, function_, from.data(),
                                         from.size(), to.data(), to.size(), format));
  }

private:
  const cugrt_function *function_;
};

/// Plan and code. Immutable, shared by threads.
class Executable : public detail::Handle<cugrt_executable, &cugrt_api::executable_free> {
public:
  Executable(Runtime &runtime, const Module &module,
             const cugrt_compile_options *options = nullptr) {
    auto defaults = detail::sized<cugrt_compile_options>();
    check(api().executable_compile(runtime.get(), module.get(), options ? options : &defaults,
                                   &handle_));
  }
  /// Compiles with settings of passes, "name=value".
  Executable(Runtime &runtime, const Module &module, const std::vector<std::string> &pass_options) {
    const std::vector<const char *> settings = detail::pointers(pass_options);
    auto options = detail::sized<cugrt_compile_options>();
    options.pass_options = settings.data();
    options.pass_option_count = settings.size();
    check(api().executable_compile(runtime.get(), module.get(), &options, &handle_));
  }
  /// Takes the pack's code for the runtime's device.
  Executable(Runtime &runtime, const Pack &pack) {
    check(api().executable_from_pack(runtime.get(), pack.get(), &handle_));
  }
  size_t function_count() const { return api().executable_function_count(handle_); }
  Function function(size_t index) const {
    const cugrt_function *function = api().executable_function_at(handle_, index);
    if (!function)
      check(
          api().status_create(CUGRT_OUT_OF_RANGE, "the executable has no function of that number"));
    return Function(function);
  }
  Function function(const std::string &name) const {
    return Function(detail::got(api().executable_find_function, handle_, name.c_str()));
  }
};

/// Arena and graph instances; one thread at a time.
class Session : public detail::Handle<cugrt_session, &cugrt_api::session_free> {
public:
  /// Uses all fields of `options` but the weights as they are.
  Session(Executable &executable, Runtime &runtime, const Weights &weights = {},
          cugrt_session_options options = detail::sized<cugrt_session_options>()) {
    options.weights = weights.get();
    check(api().session_open(executable.get(), runtime.get(), &options, &handle_));
  }

  /// Queues a run on `stream` (the session's own when null) and returns its results: tensors in
  /// memory of the session, valid until the function's next run.
  std::vector<Value> run(Function function, std::span<const Value> arguments,
                         void *stream = nullptr) {
    std::vector<Value> results(function.result_count());
    run_into(function, arguments, results, stream);
    return results;
  }
  std::vector<Value> run(Function function, std::initializer_list<Value> arguments,
                         void *stream = nullptr) {
    return run(function, std::span(arguments.begin(), arguments.size()), stream);
  }
  /// Likewise; writes results that are tensors with an address there. Allocates nothing.
  void run_into(Function function, std::span<const Value> arguments, std::span<Value> results,
                void *stream = nullptr) {
    auto options = detail::sized<cugrt_run_options>();
    options.arguments = arguments.data();
    options.argument_count = arguments.size();
    options.results = results.data();
    options.result_count = results.size();
    options.stream = stream;
    check(api().session_run(handle_, function.get(), &options));
  }
  void synchronize() { check(api().session_synchronize(handle_)); }
  /// Later runs use these weights, which must be complete. See session_update_weights.
  void update_weights(const Weights &weights) {
    check(api().session_update_weights(handle_, weights.get()));
  }
  /// Likewise, in the memory of the old weights, which no other session may read; patches no
  /// instance.
  void update_weights_in_place(const Weights &weights) {
    check(api().session_update_weights_in_place(handle_, weights.get()));
  }
  /// For a session in a group: frees its weights' device memory until the next run.
  void evict() { check(api().session_evict(handle_)); }
  bool is_resident() const { return detail::got(api().session_is_resident, handle_) != 0; }
  cugrt_memory memory() const { return detail::got(api().session_get_memory, handle_); }
  /// Later runs allocate no device memory and make no graph instance; see session_seal.
  void seal() { check(api().session_seal(handle_)); }
  /// Latencies of a session that measures them; see sessions_get_latency.
  cugrt_latency host_latency() const {
    auto latency = detail::sized<cugrt_latency>();
    check(api().sessions_get_latency(&handle_, 1, &latency, nullptr));
    return latency;
  }
  cugrt_latency device_latency() const {
    return detail::got(api().sessions_get_latency, &handle_, 1, nullptr);
  }
  /// Waits for the work of a session with a deadline; see sessions_get_deadlines.
  cugrt_latency whole_latency() const {
    auto latency = detail::sized<cugrt_latency>();
    check(api().sessions_get_deadlines(&handle_, 1, &latency, nullptr));
    return latency;
  }
  uint64_t missed_deadlines() const {
    return detail::got(api().sessions_get_deadlines, &handle_, 1, nullptr);
  }
  /// Tensor `index` of `results`, which a run returned, with its own dimensions. Where the device
  /// decides one (cugrt_param_info.counted), waits for the session's work and reads it.
  cugrt_tensor counted(Runtime &runtime, Function function, std::span<const Value> results,
                       size_t index) {
    cugrt_tensor tensor = results[index].as.tensor;
    const cugrt_param_info info = function.result(index);
    if (!info.counted)
      return tensor;
    synchronize();
    int64_t count = 0;
    copy_to_host(runtime, std::as_writable_bytes(std::span(&count, 1)),
                 results[info.counted_by].as.tensor.address);
    if (count < 0 || count > tensor.dims[info.counted_dim])
      check(api().status_create(CUGRT_OUT_OF_RANGE,
                                ("result " + std::to_string(info.counted_by) + " counts " +
                                 std::to_string(count) + ", outside of what result " +
                                 std::to_string(index) + " has room for")
                                    .c_str()));
    tensor.dims[info.counted_dim] = count;
    return tensor;
  }
  /// Whether the session's work has ended, without waiting for it.
  bool is_idle() { return detail::got(api().session_is_idle, handle_) != 0; }
  cugrt_counters counters() const { return detail::got(api().session_get_counters, handle_); }
  /// Makes and uploads instances for these values; see cugrt_api.session_prepare.
  cugrt_prepare_report prepare(Function function, std::span<const cugrt_symbol_value> symbols) {
    return detail::got(api().session_prepare, handle_, function.get(), symbols.data(),
                       symbols.size());
  }
  cugrt_costs costs() const { return detail::got(api().session_get_costs, handle_); }
  /// The launches since the last call, the oldest first; empty unless the session was opened with
  /// record_capacity.
  std::vector<cugrt_launch_record> read_launches() {
    std::vector<cugrt_launch_record> all;
    std::vector<cugrt_launch_record> part(256, detail::sized<cugrt_launch_record>());
    size_t count = 0;
    do {
      check(api().session_read_launches(handle_, part.data(), part.size(), &count));
      all.insert(all.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(count));
    } while (count == part.size());
    return all;
  }
  std::string graph_report(cugrt_report_format format = CUGRT_REPORT_TEXT) const {
    return detail::take_text(detail::got(api().session_graph_report, handle_, format));
  }
};

} // namespace cugrt
