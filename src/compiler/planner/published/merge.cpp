// One allocation for the whole module. Functions never run at the same time, so the k-th largest
// storage of every function shares merged storage k, which is as large as the largest of them:
//
//   scope      @a         @b          merged
//   global     256, 128   512, 64     0: 512 of @b   1: 128 of @a
//   ipc        512        1024        2: 1024 of @b
//
// A function that another one calls does run at the same time, so its storages are merged into
// ones above those of its callers.
#include "compiler/planner/analysis/liveness.h"
#include "compiler/planner/published/parts.h"

#include "base/check.h"

#include <algorithm>
#include <map>

namespace cugrt::plan {

namespace {

/// The callers of each function.
std::vector<std::vector<uint32_t>> callers_of(const ir::Module &module) {
  std::vector<std::vector<uint32_t>> callers(module.functions.size());
  for (uint32_t f = 0; f < module.functions.size(); ++f)
    for (const ir::Block &block : module.functions[f].blocks)
      for (const ir::Binding &b : block.bindings)
        if (b.kind == ir::BindingKind::call &&
            (callers[b.callee].empty() || callers[b.callee].back() != f))
          callers[b.callee].push_back(f);
  return callers;
}

class Merge {
public:
  Merge(const ir::Module &module, PublishedAnalysis &analysis)
      : module_(module), analysis_(analysis), callers_(callers_of(module)) {
    Result<std::vector<uint32_t>> order = callees_first(module);
    CUGRT_CHECK(order.ok()); // the verifier refuses recursion
    order_ = std::move(order).value();
  }

  void run() {
    std::map<std::string_view, uint32_t> scopes; // by name
    for (const PublishedFunction &function : analysis_.functions)
      for (const PublishedStorage &storage : function.storages)
        if (storage.lifted() && storage.used)
          scopes.emplace(module_.types.scope_name(storage.scope), storage.scope);
    for (const auto &[name, scope] : scopes)
      merge(scope);
  }

private:
  /// The function's storages in the scope, largest first.
  std::vector<uint32_t> members(const PublishedFunction &function, uint32_t scope) const {
    std::vector<uint32_t> list;
    for (uint32_t i = 0; i < function.storages.size(); ++i) {
      const PublishedStorage &storage = function.storages[i];
      if (storage.lifted() && storage.used && storage.scope == scope)
        list.push_back(i);
    }
    std::stable_sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) {
      return function.storages[a].bytes > function.storages[b].bytes;
    });
    return list;
  }

  void merge(uint32_t scope) {
    auto first_merged = uint32_t(analysis_.merged.size());
    std::vector<std::vector<uint32_t>> lists;
    for (const PublishedFunction &function : analysis_.functions)
      lists.push_back(members(function, scope));
    std::vector<uint32_t> base(lists.size(), 0); // the function's first
    for (auto f = order_.rbegin(); f != order_.rend(); ++f)
      for (uint32_t caller : callers_[*f])
        base[*f] = std::max(base[*f], base[caller] + uint32_t(lists[caller].size()));
    for (uint32_t f = 0; f < lists.size(); ++f)
      for (uint32_t k = 0; k < lists[f].size(); ++k)
        share(f, lists[f][k], first_merged + base[f] + k, scope);
  }

  void share(uint32_t function, uint32_t storage, uint32_t merged, uint32_t scope) {
    PublishedStorage &row = analysis_.functions[function].storages[storage];
    row.merged = merged;
    if (merged >= analysis_.merged.size())
      analysis_.merged.resize(merged + 1, {scope, -1, 0, 0});
    if (row.bytes > analysis_.merged[merged].bytes)
      analysis_.merged[merged] = {scope, row.bytes, function, storage};
  }

  const ir::Module &module_;
  PublishedAnalysis &analysis_;
  std::vector<uint32_t> order_;
  std::vector<std::vector<uint32_t>> callers_;
};

} // namespace

void merge_published_storages(const ir::Module &module, PublishedAnalysis &analysis) {
  Merge(module, analysis).run();
}

} // namespace cugrt::plan
