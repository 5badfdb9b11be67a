// cugrt cache: lists the code cache, and keeps it in order.
#include "tool.h"

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <memory>

namespace tool {

namespace {

struct CacheOptions {
  std::string cache, folder;
  uint64_t limit = 0;
  bool json = false, remove = false;
};

cugrt_runtime_options c_options(const CacheOptions &options) {
  auto c = cugrt::detail::sized<cugrt_runtime_options>();
  c.cache_folder = options.cache.empty() ? nullptr : options.cache.c_str();
  return c;
}

// Prints the entries; the number of broken ones.
uint64_t print_list(const CacheOptions &options) {
  cugrt_runtime_options c = c_options(options);
  cugrt_text *text = nullptr;
  uint64_t broken = 0;
  cugrt::check(cugrt::api().cache_list(&c, options.json ? CUGRT_REPORT_JSON : CUGRT_REPORT_TEXT,
                                       &text, &broken));
  std::cout << cugrt::detail::take_text(text);
  return broken;
}

void verify(const CacheOptions &options) {
  uint64_t broken = print_list(options);
  if (!broken)
    return;
  if (options.remove) {
    cugrt_runtime_options c = c_options(options);
    cugrt::check(cugrt::api().cache_remove_broken(&c, &broken));
    std::cerr << "removed " << broken << "\n";
    return;
  }
  std::cout.flush();
  throw CLI::RuntimeError(1);
}

// "512M" and the like, as in CUGRT_CACHE_LIMIT.
uint64_t parse_size(const std::string &text) {
  char *end = nullptr;
  errno = 0;
  unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  bool whole = *end == '\0' || (shift && end[1] == '\0');
  if (text.empty() || text[0] == '-' || end == text.c_str() || errno || !whole ||
      value > (UINT64_MAX >> shift))
    throw UserError("--limit takes bytes, or a number with K, M or G, not '" + text + "'");
  return uint64_t(value) << shift;
}

void prune(const CacheOptions &options) {
  cugrt_runtime_options c = c_options(options);
  uint64_t removed = 0;
  cugrt::check(cugrt::api().cache_prune(&c, options.limit, &removed));
  std::cout << "removed " << removed << "\n";
}

void export_entries(const CacheOptions &options) {
  cugrt_runtime_options c = c_options(options);
  uint64_t copied = 0;
  cugrt::check(cugrt::api().cache_export(&c, options.folder.c_str(), &copied));
  std::cout << "copied " << copied << " to " << options.folder << "\n";
}

} // namespace

void add_cache(CLI::App &app) {
  auto options = std::make_shared<CacheOptions>();
  CLI::App *command =
      app.add_subcommand("cache", "Lists, checks, shrinks or copies the code cache");
  command->require_subcommand(1);
  auto add = [&](const char *name, const char *description, void (*run)(const CacheOptions &)) {
    CLI::App *sub = command->add_subcommand(name, description);
    sub->add_option("--cache", options->cache, "The folder; default: as CUGRT_CACHE says");
    sub->callback([options, run] { run(*options); });
    return sub;
  };
  add("list", "Every entry, oldest read first", [](const CacheOptions &o) {
    (void)print_list(o);
  })->add_flag("--json", options->json, "As JSON");
  CLI::App *check = add("verify", "The same; fails when an entry is broken", verify);
  check->add_flag("--json", options->json, "As JSON");
  check->add_flag("--remove", options->remove, "Removes broken entries instead of failing");
  add("prune", "Removes the entries that were read longest ago", prune)
      ->add_option_function<std::string>(
          "--limit", [options](const std::string &text) { options->limit = parse_size(text); },
          "What may stay: bytes, or with K, M, G; default none");
  add("export", "Copies whole entries to a folder, for CUGRT_CACHE_READONLY", export_entries)
      ->add_option("FOLDER", options->folder, "Made if need be")
      ->required();
}

} // namespace tool
