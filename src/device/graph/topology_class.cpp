// Makes patch programs; see topology_class.h.
#include "device/graph/topology_class.h"

#include "base/check.h"
#include "device/graph/lanes.h"
#include "device/graph/step_launch.h"
#include "device/program/legality.h"

#include <algorithm>
#include <map>

namespace cugrt::runtime {

namespace {

class ClassMaker {
public:
  ClassMaker(const RunBinding &run, uint32_t region, std::vector<uint32_t> variants)
      : run_(run), region_(run.function.regions[region]), base_input_(run.bases.size(), kNone),
        host_input_(run.host_values.size(), kNone), symbol_input_(run.symbols.size(), kNone) {
    class_.region = region;
    class_.variants = std::move(variants);
  }

  TopologyClass make() {
    for (ir::SymbolId symbol : region_.key)
      add_input(RunInput::Kind::symbol, symbol_input_, symbol.index);
    class_.key_size = static_cast<uint32_t>(region_.key.size());
    for (uint32_t node = 0; node < class_.variants.size(); ++node)
      add_node(node);
    class_.first_argument.push_back(arguments_);
    flatten();
    add_levels();
    add_edges();
    class_.idle_lanes = find_idle_lanes(class_);
    add_base_uses();
    return std::move(class_);
  }

private:
  /// Dependents of an input: numbers of values_ and dims_, ascending, perhaps repeated.
  struct Lists {
    std::vector<uint32_t> values, dims;
  };
  /// One of TopologyClass::values or dims while it is being collected.
  struct Group {
    uint32_t from;
    std::vector<TopologyClass::Use> uses;
  };
  /// Kind, dtype, index, expression and bits of a source, or launch dimensions.
  using GroupKey = std::array<uint64_t, 8>;

  uint32_t add_input(RunInput::Kind kind, std::vector<uint32_t> &table, uint32_t index) {
    if (table[index] == kNone) {
      table[index] = static_cast<uint32_t>(class_.inputs.size());
      class_.inputs.push_back({{kind, index}, {}, {}});
      lists_.emplace_back();
    }
    return table[index];
  }

  bool has_bucket(uint32_t symbol) const {
    const std::vector<plan::Bucket> &buckets = run_.function.buckets;
    return std::any_of(buckets.begin(), buckets.end(),
                       [&](const plan::Bucket &bucket) { return bucket.of.index == symbol; });
  }

  /// Adds the inputs that are symbols of `expr`. The key has all of them, or it would miss a
  /// dependency; `by_value` also adds symbols that have a bucket.
  void symbols_of(ExprId expr, std::vector<uint32_t> &inputs, bool by_value = false) {
    if (!expr.valid())
      return;
    used_.clear();
    run_.plan.exprs.collect_symbols(expr, used_);
    for (ir::SymbolId symbol : used_) {
      if (by_value && symbol_input_[symbol.index] == kNone && has_bucket(symbol.index))
        add_input(RunInput::Kind::symbol, symbol_input_, symbol.index);
      CUGRT_CHECK(symbol_input_[symbol.index] != kNone);
      inputs.push_back(symbol_input_[symbol.index]);
    }
  }

  /// Returns the group of `key`; adds it to `known` and `groups` if it is new.
  static Group &group(std::map<GroupKey, uint32_t> &known, std::vector<Group> &groups,
                      const GroupKey &key, uint32_t from, bool &is_new) {
    auto [found, inserted] = known.emplace(key, static_cast<uint32_t>(groups.size()));
    is_new = inserted;
    if (inserted)
      groups.push_back({from, {}});
    return groups[found->second];
  }

  static GroupKey key_of(const ValueSource &source) {
    return {static_cast<uint64_t>(source.kind), static_cast<uint64_t>(source.dtype), source.index,
            source.expr.index, source.bits};
  }

  /// The dimensions of a copy or fill follow from its size, an argument.
  GroupKey dims_key(const StepVariant &variant) const {
    const auto kind = static_cast<uint64_t>(variant.kind);
    if (variant.kind == VariantKind::kernel)
      return {kind,
              variant.grid[0].index,
              variant.grid[1].index,
              variant.grid[2].index,
              variant.block[0].index,
              variant.block[1].index,
              variant.block[2].index,
              variant.shared_bytes.index};
    if (variant.kind != VariantKind::copy && variant.kind != VariantKind::fill)
      return {kind};
    const uint32_t size = variant.kind == VariantKind::copy ? 2 : 1;
    const ValueSource &bytes = run_.program.sources[variant.sources.begin + size];
    return {kind, static_cast<uint64_t>(bytes.kind), bytes.expr.index, bytes.bits};
  }

  /// Copies and fills without a kernel of ours depend on nothing (function_program.cpp).
  static NodeKind kind_of(const StepVariant &variant) {
    return variant.kind == VariantKind::kernel || !variant.fixed ? NodeKind::kernel
           : variant.kind == VariantKind::copy                   ? NodeKind::copy
                                                                 : NodeKind::fill;
  }

  void add_node(uint32_t node) {
    const StepVariant &variant = run_.program.variants[class_.variants[node]];
    class_.first_argument.push_back(arguments_);
    for (uint32_t i = variant.sources.begin; i < variant.sources.end(); ++i)
      add_argument(variant, i, {arguments_++, node});
    const Change dim_changes[] = {Change::grid, Change::block, Change::shared_bytes,
                                  Change::becomes_empty};
    bool is_new = false;
    Group &dims = group(known_dims_, dims_, dims_key(variant), class_.variants[node], is_new);
    dims.uses.push_back({kNone, node});
    if (!is_new)
      return;
    found_.clear();
    for (int i = 0; i < 3; ++i) {
      symbols_of(variant.grid[i], found_);
      symbols_of(variant.block[i], found_);
    }
    symbols_of(variant.shared_bytes, found_);
    if (variant.kind == VariantKind::copy || variant.kind == VariantKind::fill)
      symbols_of(
          run_.program.sources[variant.sources.begin + (variant.kind == VariantKind::copy ? 2 : 1)]
              .expr,
          found_);
    CUGRT_CHECK(found_.empty() || can_patch(kind_of(variant), dim_changes));
    for (uint32_t input : found_)
      add_dependent(lists_[input].dims, dims_);
  }

  void add_argument(const StepVariant &variant, uint32_t number, TopologyClass::Use use) {
    const ValueSource &source = run_.program.sources[number];
    const bool moves =
        source.kind == ValueSource::Kind::address && source.index < run_.program.first_arena;
    const bool changes = moves || source.kind == ValueSource::Kind::host || source.expr.valid();
    if (!changes)
      return;
    bool is_new = false;
    group(known_values_, values_, key_of(source), number, is_new).uses.push_back(use);
    const Change argument_changes[] = {kind_of(variant) == NodeKind::kernel ? Change::argument
                                                                            : Change::address};
    CUGRT_CHECK(can_patch(kind_of(variant), argument_changes));
    if (!is_new)
      return;
    found_.clear();
    symbols_of(source.expr, found_, source.kind == ValueSource::Kind::expr);
    if (moves)
      found_.push_back(add_input(RunInput::Kind::base, base_input_, source.index));
    if (source.kind == ValueSource::Kind::host)
      found_.push_back(add_input(RunInput::Kind::host, host_input_, source.index));
    for (uint32_t input : found_)
      add_dependent(lists_[input].values, values_);
  }

  /// Adds the newest group once.
  static void add_dependent(std::vector<uint32_t> &list, const std::vector<Group> &groups) {
    const auto newest = static_cast<uint32_t>(groups.size() - 1);
    if (list.empty() || list.back() != newest)
      list.push_back(newest);
  }

  void flatten() {
    auto flatten_groups = [&](const std::vector<Group> &groups, auto &to) {
      for (const Group &group : groups) {
        to.push_back({group.from,
                      {static_cast<uint32_t>(class_.uses.size()),
                       static_cast<uint32_t>(group.uses.size())}});
        class_.uses.insert(class_.uses.end(), group.uses.begin(), group.uses.end());
      }
    };
    flatten_groups(values_, class_.values);
    flatten_groups(dims_, class_.dims);
    auto flatten_list = [&](const std::vector<uint32_t> &list) {
      Range range{static_cast<uint32_t>(class_.dependents.size()),
                  static_cast<uint32_t>(list.size())};
      class_.dependents.insert(class_.dependents.end(), list.begin(), list.end());
      return range;
    };
    for (size_t i = 0; i < class_.inputs.size(); ++i) {
      class_.inputs[i].values = flatten_list(lists_[i].values);
      class_.inputs[i].dims = flatten_list(lists_[i].dims);
    }
    std::vector<bool> of_key(class_.node_count());
    for (uint32_t i = 0; i < class_.key_size; ++i)
      class_.for_each_use(class_.inputs[i],
                          [&](const TopologyClass::Use &use) { of_key[use.node] = true; });
    class_.key_nodes = static_cast<size_t>(std::count(of_key.begin(), of_key.end(), true));
    of_key.assign(of_key.size(), false);
    for (uint32_t i = 0; i < class_.key_size; ++i)
      for (uint32_t number : class_.numbers(class_.inputs[i].dims))
        for (const TopologyClass::Use &use : class_.uses_of(class_.dims[number]))
          of_key[use.node] = true;
    class_.key_dims_nodes = static_cast<size_t>(std::count(of_key.begin(), of_key.end(), true));
  }

  void add_base_uses() {
    std::vector<uint32_t> bases_of_node(class_.node_count());
    auto for_each_use = [&](uint32_t input, auto visit) {
      if (input != kNone)
        class_.for_each_use(class_.inputs[input], visit);
    };
    for (uint32_t input : base_input_)
      for_each_use(input, [&](const TopologyClass::Use &use) { ++bases_of_node[use.node]; });
    for (uint32_t input : base_input_) {
      uint32_t uses = 0, bases = 0;
      for_each_use(input, [&](const TopologyClass::Use &use) {
        ++uses;
        bases = bases_of_node[use.node];
      });
      class_.base_uses.push_back({input, uses == 1 && bases == 1});
    }
  }

  /// Hands the predecessors of a left-out node on to its successors. An empty node stays if many
  /// wait for many, and in bodies, which must not be empty.
  void add_edges() {
    const auto count = static_cast<uint32_t>(class_.node_count());
    std::vector<std::vector<uint32_t>> before(count); // edges
    std::vector<uint32_t> waiting(count);
    for (uint32_t e = 0; e < region_.edges.size(); ++e) {
      const plan::Edge &edge = region_.edges[e];
      CUGRT_CHECK(edge.from < edge.to && edge.to < before.size());
      before[edge.to].push_back(e);
      ++waiting[edge.from];
    }
    std::vector<std::vector<uint32_t>> instead(count); // of nodes that are left out: predecessors
    std::vector<std::pair<uint32_t, bool>> found;      // predecessor, programmatic
    for (uint32_t node = 0; node < count; ++node) {
      found.clear();
      for (uint32_t e : before[node]) {
        const uint32_t from = region_.edges[e].from;
        for (uint32_t other : instead[from])
          found.emplace_back(other, false);
        if (!class_.left_out[from])
          found.emplace_back(from, std::binary_search(region_.programmatic.begin(),
                                                      region_.programmatic.end(), e));
      }
      std::sort(found.begin(), found.end());
      found.erase(std::unique(found.begin(), found.end(),
                              [](const auto &a, const auto &b) { return a.first == b.first; }),
                  found.end());
      class_.first_predecessor.push_back(static_cast<uint32_t>(class_.predecessors.size()));
      if (std::any_of(before[node].begin(), before[node].end(),
                      [&](uint32_t e) { return !instead[region_.edges[e].from].empty(); }))
        drop_implied(found);
      leave_out(node, found.size(), waiting[node]);
      for (const auto &[from, programmatic] : found) {
        if (class_.left_out[node]) {
          instead[node].push_back(from);
          continue;
        }
        class_.predecessors.push_back(from);
        class_.programmatic.push_back(programmatic);
      }
    }
    class_.first_predecessor.push_back(static_cast<uint32_t>(class_.predecessors.size()));
  }

  /// Drops predecessors that come before other predecessors: a left-out branch gives the successors
  /// of both branches the predecessors of both. Gives up if there are many.
  void drop_implied(std::vector<std::pair<uint32_t, bool>> &found) const {
    static constexpr size_t kMany = 64;
    if (found.size() > kMany)
      return;
    std::vector<uint32_t> behind; // found, and what they wait for
    for (const auto &[node, programmatic] : found)
      behind.push_back(node);
    const uint32_t least = found.front().first;
    std::vector<uint32_t> implied;
    for (size_t i = 0; i < behind.size() && behind.size() <= 2 * kMany; ++i)
      for (uint32_t p = class_.first_predecessor[behind[i]];
           p < class_.first_predecessor[behind[i] + 1]; ++p) {
        const uint32_t node = class_.predecessors[p];
        implied.push_back(node);
        if (node > least && std::find(behind.begin(), behind.end(), node) == behind.end())
          behind.push_back(node);
      }
    std::sort(implied.begin(), implied.end());
    std::erase_if(found, [&](const auto &edge) {
      return std::binary_search(implied.begin(), implied.end(), edge.first);
    });
  }

  static constexpr size_t kEdgesInstead = 16;

  void leave_out(uint32_t node, size_t predecessors, uint32_t waiting) {
    const bool in_no_graph = absent_level_[class_.levels.level_of[node]];
    const VariantKind kind = run_.program.variants[class_.variants[node]].kind;
    if (in_no_graph ||
        (kind == VariantKind::left_out && class_.levels.level_of[node] == 0 &&
         (predecessors <= 1 || waiting <= 1 || predecessors * waiting <= kEdgesInstead))) {
      class_.left_out[node] = true;
      ++class_.left_out_count;
    }
  }

  void add_levels() {
    auto levels = plan::find_region_levels(run_.function, region_.steps);
    CUGRT_CHECK(levels);
    class_.levels = std::move(*levels);
    class_.left_out.resize(class_.node_count());
    for (const plan::RegionLevel &level : class_.levels.levels) // outer ones come first
      absent_level_.push_back(
          level.step != plan::kNone &&
          (absent_level_[level.parent] ||
           run_.program.variants[class_.variants[level.step]].kind == VariantKind::left_out));
    for (const TopologyClass::Input &input : class_.inputs)
      class_.for_each_use(input, [&](const TopologyClass::Use &use) {
        class_.changes_bodies = class_.changes_bodies || class_.levels.level_of[use.node] != 0;
      });
  }

  const RunBinding &run_;
  const plan::Region &region_;
  std::vector<uint32_t> base_input_, host_input_, symbol_input_; // number of the input, or kNone
  std::vector<Lists> lists_;                                     // of each input
  std::map<GroupKey, uint32_t> known_values_, known_dims_;
  std::vector<Group> values_, dims_;
  std::vector<bool> absent_level_; // bodies of conditionals that are left out
  uint32_t arguments_ = 0;
  std::vector<ir::SymbolId> used_;
  std::vector<uint32_t> found_;
  TopologyClass class_;
};

} // namespace

Result<std::vector<uint32_t>> choose_variants(const RunBinding &run, const Executable &executable,
                                              const LoadedCode *code, uint32_t region) {
  Range steps = run.function.regions[region].steps;
  std::vector<uint32_t> variants;
  variants.reserve(steps.count);
  for (uint32_t step = steps.begin; step < steps.end(); ++step) {
    CUGRT_ASSIGN(uint32_t variant, choose_variant(run, executable, code, step));
    variants.push_back(variant);
  }
  return variants;
}

TopologyClass make_topology_class(const RunBinding &run, uint32_t region,
                                  std::vector<uint32_t> variants) {
  return ClassMaker(run, region, std::move(variants)).make();
}

} // namespace cugrt::runtime
