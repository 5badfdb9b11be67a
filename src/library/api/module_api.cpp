// Modules of the C ABI: parsing, printing, passes, plan reports.
#include "base/diagnostics.h"
#include "base/file.h"
#include "base/first_bytes.h"
#include "compiler/passes/pass.h"
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "device/api/handles.h"
#include "ir/module/module.h"
#include "ir/text/text.h"
#include "library/api/imported_file.h"
#include "library/report/module_report.h"

#include <filesystem>

namespace cugrt::runtime::api {

namespace {

constexpr size_t kImportOptionsBytes = CUGRT_SIZE_THROUGH(cugrt_import_options, bind_count);

Status make_module(std::string_view text, std::string name, std::string base_folder,
                   cugrt_module **module) {
  CUGRT_ASSIGN(ir::Module parsed, ir::parse_and_verify(text, name));
  *module = new cugrt_module{std::make_shared<const ir::Module>(std::move(parsed)), std::move(name),
                             std::move(base_folder), std::make_shared<const std::string>(text)};
  return {};
}

Status import_module(const char *path, const cugrt_import_options &options, cugrt_module **module) {
  CUGRT_ASSIGN(ImportedModule imported, import_file(path, options));
  CUGRT_ASSIGN(auto made, adopt_module(imported.built, path));
  made->imported = std::make_shared<const ImportedFile>(std::move(imported.file));
  *module = made.release();
  return {};
}

Status module_load(const char *path, cugrt_module **module) {
  CUGRT_REQUIRE(path, module);
  const std::string begin = first_bytes(path), name = "'" + std::string(path) + "'";
  if (begins_as_importable(begin))
    return import_module(path, cugrt_import_options{}, module);
  if (begin.substr(0, std::string_view(CUGRT_PACK_MAGIC).size()) == CUGRT_PACK_MAGIC)
    return Status::error(Code::invalid_argument, name + " is a pack: pack_load opens it");
  if (const std::string_view what = told_by_first_bytes(begin);
      !what.empty() && begin.substr(0, 6) != "cugrt ")
    return Status::error(Code::invalid_argument, name + " is " + std::string(what));
  CUGRT_ASSIGN(std::string text, read_file(path, ir::kMaxTextBytes));
  return make_module(text, path, std::filesystem::path(path).parent_path().string(), module);
}

Status module_parse(const char *text, size_t size, const char *name, const char *base_folder,
                    cugrt_module **module) {
  CUGRT_REQUIRE(text || !size, module);
  if (size > ir::kMaxTextBytes)
    return Status::error(Code::invalid_argument, "the module's text is longer than 512 MiB");
  return make_module(std::string_view(text ? text : "", size), name ? name : "module",
                     base_folder ? base_folder : "", module);
}

Status module_import(const char *path, const cugrt_import_options *given, cugrt_module **module) {
  CUGRT_REQUIRE(path, module);
  CUGRT_ASSIGN(
      const cugrt_import_options options,
      read_struct(given, "cugrt_import_options", kImportOptionsBytes, cugrt_import_options{}));
  CUGRT_REQUIRE(options.dims || !options.dim_count, options.bounds || !options.bound_count,
                options.bind || !options.bind_count,
                options.preprocess || !options.preprocess_count);
  return import_module(path, options, module);
}

void module_free(cugrt_module *module) { delete module; }

Status module_weights(const cugrt_module *module, cugrt_weights **weights) {
  CUGRT_REQUIRE(module, weights);
  *weights = module->imported && module->imported->weights.size()
                 ? new cugrt_weights{module->imported->weights}
                 : nullptr;
  return {};
}

const char *name_in_file(const cugrt_module *module, size_t index,
                         std::vector<std::string> ImportedFile::*names) {
  if (!module || !module->imported || index >= (*module->imported.*names).size())
    return nullptr;
  return (*module->imported.*names)[index].c_str();
}
const char *module_input_name(const cugrt_module *module, size_t index) {
  return name_in_file(module, index, &ImportedFile::inputs);
}
const char *module_result_name(const cugrt_module *module, size_t index) {
  return name_in_file(module, index, &ImportedFile::results);
}

Status module_print(const cugrt_module *module, cugrt_text **text) {
  CUGRT_REQUIRE(module, text);
  if (Status status = ir::check_text_limits(*module->module); !status.ok())
    return in_source(std::move(status), module->name, *module->text);
  *text = new cugrt_text{ir::print(*module->module)};
  return {};
}

Status module_run_passes(const cugrt_module *module, const char *const *names, size_t pass_count,
                         const char *const *options, size_t option_count, cugrt_module **result) {
  CUGRT_REQUIRE(module, result, names || !pass_count, options || !option_count);
  CUGRT_ASSIGN(const passes::PassContext context, pass_context(options, option_count));
  std::vector<const passes::Pass *> pipeline;
  for (size_t i = 0; i < pass_count; ++i) {
    CUGRT_REQUIRE(names[i]);
    CUGRT_ASSIGN(const passes::Pass *pass, passes::require_pass(names[i]));
    pipeline.push_back(pass);
  }
  std::span<const passes::Pass *const> order = passes::default_pipeline();
  if (pass_count)
    order = pipeline;
  auto made = passes::run_passes(*module->module, order, context);
  if (!made.ok())
    return in_source(made.take_status(), module->name, *module->text);
  *result = new cugrt_module{std::make_shared<const ir::Module>(std::move(*made)),
                             module->name,
                             module->base_folder,
                             module->text,
                             module->imported,
                             module->names};
  return {};
}

size_t pass_count() { return passes::all_passes().size(); }

const char *pass_text(size_t index, std::string_view passes::Pass::*member) {
  std::span<const passes::Pass> all = passes::all_passes();
  // Names and descriptions are literals, so they end with NUL.
  return index < all.size() ? (all[index].*member).data() : nullptr;
}
const char *pass_name(size_t index) { return pass_text(index, &passes::Pass::name); }
const char *pass_description(size_t index) { return pass_text(index, &passes::Pass::description); }

Status module_plan_report(const cugrt_module *module, const cugrt_plan_options *given,
                          cugrt_text **report) {
  CUGRT_REQUIRE(module, report);
  CUGRT_ASSIGN(cugrt_plan_options options,
               read_struct(given, "cugrt_plan_options", kPlanOptionsBytes, cugrt_plan_options{}));
  CUGRT_REQUIRE(options.symbols || !options.symbol_count);
  PlanReportOptions plan_options;
  CUGRT_ASSIGN(plan_options.planning, planning_options(options));
  plan_options.planning.source = *module->text;
  plan_options.format = static_cast<cugrt_report_format>(options.format);
  plan_options.symbols = {options.symbols, options.symbol_count};
  CUGRT_ASSIGN(std::string text, plan_report(*module->module, module->name, plan_options));
  *report = new cugrt_text{std::move(text)};
  return {};
}

Status module_adopt(const cugrt_built_module *built, const char *name, cugrt_module **module) {
  CUGRT_REQUIRE(built, module);
  CUGRT_ASSIGN(auto made, adopt_module(*built, name ? name : "module"));
  *module = made.release();
  return {};
}

} // namespace

Result<std::unique_ptr<cugrt_module>> adopt_module(const cugrt_built_module &built,
                                                   std::string name) {
  CUGRT_TRY(ir::check_built(built, name));
  return std::unique_ptr<cugrt_module>(
      new cugrt_module{built.module, std::move(name), "", built.text, nullptr, built.names});
}

void add_module_entries(cugrt_api &table) {
  set_entry<module_load>(table.module_load);
  set_entry<module_parse>(table.module_parse);
  set_entry<module_adopt>(table.module_adopt);
  table.module_free = module_free;
  set_entry<module_print>(table.module_print);
  set_entry<module_run_passes>(table.module_run_passes);
  table.pass_count = pass_count;
  table.pass_name = pass_name;
  table.pass_description = pass_description;
  set_entry<module_plan_report>(table.module_plan_report);
  set_entry<module_import>(table.module_import);
  set_entry<module_weights>(table.module_weights);
  table.module_input_name = module_input_name;
  table.module_result_name = module_result_name;
}

} // namespace cugrt::runtime::api
