// Packs of the C ABI.
#include "runtime/api/entries.h"
#include "runtime/api/guard.h"
#include "runtime/api/handles.h"
#include "runtime/pack_build.h"
#include "runtime/pack_open.h"
#include "support/file.h"

#include <filesystem>

namespace cugrt::runtime::api {

namespace {

constexpr size_t kPackOptionsBytes = CUGRT_SIZE_THROUGH(cugrt_pack_options, full_edges);
constexpr size_t kPlanOptionsBytes = CUGRT_SIZE_THROUGH(cugrt_plan_options, symbol_count);

Result<PackOptions> pack_options(const cugrt_pack_options &options) {
  PackOptions result;
  CUGRT_ASSIGN(result.planning, planning_options(options));
  if (options.architecture_count && !options.architectures)
    return null_argument("architectures");
  for (size_t i = 0; i < options.architecture_count; ++i) {
    if (!options.architectures[i])
      return null_argument("architectures[]");
    result.architectures.emplace_back(options.architectures[i]);
  }
  result.weights_path = options.weights_path ? options.weights_path : "";
  result.weights_inside = options.weights_inside != 0;
  result.threads = options.threads;
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

cugrt_status *pack_write(cugrt_runtime *runtime, const cugrt_module *module,
                         const cugrt_pack_options *given, const char *path) {
  return guarded([&]() -> Status {
    CUGRT_REQUIRE(runtime);
    CUGRT_REQUIRE(module);
    CUGRT_REQUIRE(path);
    CUGRT_ASSIGN(cugrt_pack_options read,
                 read_struct(given, "cugrt_pack_options", kPackOptionsBytes, cugrt_pack_options{}));
    CUGRT_ASSIGN(PackOptions options, pack_options(read));
    options.planning.source = *module->text;
    CUGRT_ASSIGN(std::string bytes, build_pack(*runtime->device, *module->module, module->name,
                                               module->base_folder, options));
    return write_file(path, bytes);
  });
}

Status make_pack(std::string bytes, std::string name, std::string base_folder, cugrt_pack **pack) {
  CUGRT_ASSIGN(Pack read,
               read_pack(std::make_shared<const std::string>(std::move(bytes)), std::move(name)));
  *pack = new cugrt_pack{std::move(read), std::move(base_folder)};
  return {};
}

cugrt_status *pack_load(const char *path, cugrt_pack **pack) {
  return guarded([&]() -> Status {
    CUGRT_REQUIRE(path);
    CUGRT_REQUIRE(pack);
    CUGRT_ASSIGN(std::string bytes, read_file(path, kMaxPackBytes));
    return make_pack(std::move(bytes), path, std::filesystem::path(path).parent_path().string(),
                     pack);
  });
}

cugrt_status *pack_parse(const void *bytes, size_t size, const char *name, const char *base_folder,
                         cugrt_pack **pack) {
  return guarded([&]() -> Status {
    CUGRT_REQUIRE(bytes || !size);
    CUGRT_REQUIRE(pack);
    if (size > kMaxPackBytes)
      return Status::error(Code::invalid_argument, "the pack is larger than 1 TiB");
    return make_pack(size ? std::string(static_cast<const char *>(bytes), size) : std::string(),
                     name ? name : "in memory", base_folder ? base_folder : "", pack);
  });
}

void pack_free(cugrt_pack *pack) { delete pack; }

cugrt_status *pack_report(const cugrt_pack *pack, const cugrt_plan_options *given,
                          cugrt_text **report) {
  return guarded([&]() -> Status {
    CUGRT_REQUIRE(pack);
    CUGRT_REQUIRE(report);
    CUGRT_ASSIGN(cugrt_plan_options options,
                 read_struct(given, "cugrt_plan_options", kPlanOptionsBytes, cugrt_plan_options{}));
    CUGRT_REQUIRE(options.symbols || !options.symbol_count);
    PlanReportOptions plan_options;
    plan_options.format = static_cast<cugrt_report_format>(options.format);
    plan_options.symbols = {options.symbols, options.symbol_count};
    CUGRT_ASSIGN(std::string text, runtime::pack_report(pack->pack, plan_options));
    *report = new cugrt_text{std::move(text)};
    return {};
  });
}

cugrt_status *pack_weights(const cugrt_pack *pack, cugrt_weights **weights) {
  return guarded([&]() -> Status {
    CUGRT_REQUIRE(pack);
    CUGRT_REQUIRE(weights);
    CUGRT_ASSIGN(std::optional<WeightSet> set,
                 runtime::pack_weights(pack->pack, pack->base_folder));
    *weights = set ? new cugrt_weights{std::move(*set)} : nullptr;
    return {};
  });
}

cugrt_status *executable_from_pack(cugrt_runtime *runtime, const cugrt_pack *pack,
                                   cugrt_executable **executable) {
  return guarded([&]() -> Status {
    CUGRT_REQUIRE(runtime);
    CUGRT_REQUIRE(pack);
    CUGRT_REQUIRE(executable);
    CUGRT_ASSIGN(std::shared_ptr<const Executable> made, open_pack(*runtime->device, pack->pack));
    *executable = new cugrt_executable{make_executable_data(std::move(made))};
    return {};
  });
}

} // namespace

void add_pack_entries(cugrt_api &table) {
  table.pack_write = pack_write;
  table.pack_load = pack_load;
  table.pack_parse = pack_parse;
  table.pack_free = pack_free;
  table.pack_report = pack_report;
  table.pack_weights = pack_weights;
  table.executable_from_pack = executable_from_pack;
}

} // namespace cugrt::runtime::api
