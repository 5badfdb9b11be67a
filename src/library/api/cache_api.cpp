// The code cache through the C ABI.
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "jit/code_cache.h"
#include "library/compile/compile.h"
#include "library/report/module_report.h"

namespace cugrt::runtime::api {

/// The cache that the options name, or why there is none to work on.
static Result<std::unique_ptr<jit::CodeCache>> open_cache(const cugrt_runtime_options *given) {
  CUGRT_ASSIGN(
      cugrt_runtime_options options,
      read_struct(given, "cugrt_runtime_options", kRuntimeOptionsBytes, cugrt_runtime_options{}));
  auto cache = std::make_unique<jit::CodeCache>(
      compiler_config("", options.cache_folder ? options.cache_folder : "").cache);
  jit::CacheReport report = cache->report();
  if (!report.readable)
    return Status::error(Code::not_found, report.problem.empty()
                                              ? "the code cache is off; name a folder"
                                              : report.problem);
  return cache;
}

static Status cache_list(const cugrt_runtime_options *options, cugrt_report_format format,
                         cugrt_text **report, uint64_t *broken) {
  CUGRT_REQUIRE(report);
  if (format != CUGRT_REPORT_TEXT && format != CUGRT_REPORT_JSON)
    return Status::error(Code::unsupported, "the code cache is listed as text or JSON");
  CUGRT_ASSIGN(std::unique_ptr<jit::CodeCache> cache, open_cache(options));
  std::vector<jit::CacheEntryInfo> entries = cache->list();
  auto text = std::make_unique<cugrt_text>();
  text->text = format == CUGRT_REPORT_JSON ? cache_json(cache->report(), entries)
                                           : cache_text(cache->report(), entries);
  if (broken)
    *broken = static_cast<uint64_t>(
        std::count_if(entries.begin(), entries.end(),
                      [](const jit::CacheEntryInfo &entry) { return !entry.valid; }));
  *report = text.release();
  return {};
}

/// Fails for callers that want a change, if none is possible.
static Status require_writable(const jit::CodeCache &cache) {
  jit::CacheReport report = cache.report();
  return report.writable ? Status() : Status::error(Code::io_error, report.problem);
}

static Status cache_remove_broken(const cugrt_runtime_options *options, uint64_t *removed) {
  CUGRT_REQUIRE(removed);
  CUGRT_ASSIGN(std::unique_ptr<jit::CodeCache> cache, open_cache(options));
  CUGRT_TRY(require_writable(*cache));
  CUGRT_ASSIGN(*removed, cache->remove_invalid());
  return {};
}

static Status cache_prune(const cugrt_runtime_options *options, uint64_t limit_bytes,
                          uint64_t *removed) {
  CUGRT_REQUIRE(removed);
  CUGRT_ASSIGN(std::unique_ptr<jit::CodeCache> cache, open_cache(options));
  CUGRT_TRY(require_writable(*cache));
  *removed = cache->prune(limit_bytes);
  return {};
}

static Status cache_export(const cugrt_runtime_options *options, const char *folder,
                           uint64_t *copied) {
  CUGRT_REQUIRE(folder, copied);
  CUGRT_ASSIGN(std::unique_ptr<jit::CodeCache> cache, open_cache(options));
  CUGRT_ASSIGN(*copied, cache->export_to(folder));
  return {};
}

void add_cache_entries(cugrt_api &table) {
  set_entry<cache_list>(table.cache_list);
  set_entry<cache_remove_broken>(table.cache_remove_broken);
  set_entry<cache_prune>(table.cache_prune);
  set_entry<cache_export>(table.cache_export);
}

} // namespace cugrt::runtime::api
