// Functions of the C ABI that compile: executables and packs from modules, and the doctor, which
// looks for a compiler.
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "device/api/handles.h"
#include "library/compile/compile.h"

namespace cugrt::runtime::api {

constexpr size_t kCompileOptionsBytes = CUGRT_SIZE_THROUGH(cugrt_compile_options, code_count);
constexpr size_t kPackOptionsBytes = CUGRT_SIZE_THROUGH(cugrt_pack_options, full_edges);

static Result<CompileOptions> compile_options(const cugrt_compile_options &options) {
  CompileOptions result;
  result.architecture = options.architecture ? options.architecture : "";
  result.threads = options.threads;
  result.cancel = options.cancel;
  if (options.progress)
    result.progress = [callback = options.progress,
                       user = options.progress_user](const jit::CompileProgress &progress) {
      callback(user, progress.done, progress.total, progress.request->name.c_str(),
               progress.milliseconds, progress.cached);
    };
  if (options.code_count && !options.codes)
    return null_argument("codes");
  for (size_t i = 0; i < options.code_count; ++i) {
    const cugrt_kernel_code &code = options.codes[i];
    if (!code.kernel || (!code.bytes && code.byte_count))
      return null_argument("codes[].kernel or codes[].bytes");
    if (code.kind < CUGRT_CODE_SOURCE || code.kind > CUGRT_CODE_CUBIN)
      return Status::error(Code::invalid_argument,
                           "unknown code kind " + std::to_string(code.kind));
    std::string bytes(static_cast<const char *>(code.bytes), code.byte_count);
    // Compilers and drivers read text up to its first NUL, which may end it.
    const size_t nul = bytes.find('\0');
    if (code.kind != CUGRT_CODE_CUBIN && nul != std::string::npos && nul + 1 != bytes.size())
      return Status::error(Code::invalid_argument,
                           "the code of kernel @" + std::string(code.kernel) +
                               " is text and has a NUL at byte " + std::to_string(nul));
    result.overrides[code.kernel] = {static_cast<cugrt_code_kind>(code.kind), std::move(bytes)};
  }
  return result;
}

static Status executable_compile(cugrt_runtime *runtime, const cugrt_module *module,
                                 const cugrt_compile_options *given,
                                 cugrt_executable **executable) {
  CUGRT_REQUIRE(runtime, module, executable);
  CUGRT_ASSIGN(
      cugrt_compile_options options,
      read_struct(given, "cugrt_compile_options", kCompileOptionsBytes, cugrt_compile_options{}));
  CUGRT_ASSIGN(CompileOptions compile, compile_options(options));
  CUGRT_ASSIGN(PlanningOptions planning, planning_options(options));
  planning.source = *module->text;
  CUGRT_ASSIGN(std::shared_ptr<const Executable> made,
               compile_module(*runtime->device,
                              {*module->module, module->name, module->base_folder},
                              std::move(planning), compile));
  *executable = new cugrt_executable{make_executable_data(std::move(made))};
  return {};
}

static Result<PackOptions> pack_options(const cugrt_pack_options &options) {
  PackOptions result;
  CUGRT_ASSIGN(result.planning, planning_options(options));
  if (options.architecture_count && !options.architectures)
    return null_argument("architectures");
  for (size_t i = 0; i < options.architecture_count; ++i) {
    if (!options.architectures[i])
      return null_argument("architectures[]");
    result.architectures.emplace_back(options.architectures[i]);
  }
  if (options.weights_path && options.weights)
    return Status::error(Code::invalid_argument,
                         "weights_path and weights are both given; a pack takes one of them");
  result.weights_path = options.weights_path ? options.weights_path : "";
  result.weights = options.weights ? &options.weights->set : nullptr;
  result.weights_inside = options.weights_inside != 0;
  result.threads = options.threads;
  result.names = options.names != 0;
  result.cancel = options.cancel;
  if (options.progress)
    result.progress = [callback = options.progress,
                       user = options.progress_user](const jit::CompileProgress &progress) {
      std::string kernel = progress.request->name + " for " + progress.request->architecture;
      callback(user, progress.done, progress.total, kernel.c_str(), progress.milliseconds,
               progress.cached);
    };
  return result;
}

static Status pack_write(cugrt_runtime *runtime, const cugrt_module *module,
                         const cugrt_pack_options *given, const char *path) {
  CUGRT_REQUIRE(runtime, module, path);
  CUGRT_ASSIGN(cugrt_pack_options read,
               read_struct(given, "cugrt_pack_options", kPackOptionsBytes, cugrt_pack_options{}));
  CUGRT_ASSIGN(PackOptions options, pack_options(read));
  options.planning.source = *module->text;
  if (options.names)
    options.names_of_lines = module->names;
  return build_pack(*runtime->device, *module->module, module->name, module->base_folder, options,
                    path);
}

static cugrt_status *doctor(const cugrt_runtime_options *options, cugrt_report_format format,
                            cugrt_text **report, int32_t *usable) {
  return report_doctor(options, format, report, usable, examine);
}

void add_compile_entries(cugrt_api &table) {
  set_entry<executable_compile>(table.executable_compile);
  set_entry<pack_write>(table.pack_write);
  table.doctor = doctor;
}

} // namespace cugrt::runtime::api
