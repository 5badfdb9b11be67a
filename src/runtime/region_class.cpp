// Making of patch programs; see region_class.h.
#include "runtime/region_class.h"

#include "runtime/legality.h"
#include "runtime/step_launch.h"
#include "support/check.h"

#include <algorithm>

namespace cugrt::runtime {

namespace {

class ClassMaker {
public:
  ClassMaker(const Frame &frame, uint32_t region, std::vector<uint32_t> launches)
      : frame_(frame), region_(frame.function.regions[region]),
        base_input_(frame.bases.size(), kNone), host_input_(frame.host_values.size(), kNone),
        symbol_input_(frame.symbols.size(), kNone) {
    class_.region = region;
    class_.launches = std::move(launches);
  }

  RegionClass make() {
    for (ir::SymbolId symbol : region_.key)
      add_input(RegionClass::Input::Kind::symbol, symbol_input_, symbol.index);
    class_.key_size = static_cast<uint32_t>(region_.key.size());
    for (uint32_t node = 0; node < class_.launches.size(); ++node)
      add_node(node);
    class_.first_value.push_back(static_cast<uint32_t>(class_.node_of_value.size()));
    flatten();
    add_edges();
    add_levels();
    add_base_uses();
    return std::move(class_);
  }

private:
  struct Lists {
    std::vector<uint32_t> values, dims;
  };

  uint32_t add_input(RegionClass::Input::Kind kind, std::vector<uint32_t> &table, uint32_t index) {
    if (table[index] == kNone) {
      table[index] = static_cast<uint32_t>(class_.inputs.size());
      class_.inputs.push_back({kind, index, {}, {}});
      lists_.emplace_back();
    }
    return table[index];
  }

  bool has_bucket(uint32_t symbol) const {
    const std::vector<plan::Bucket> &buckets = frame_.function.buckets;
    return std::any_of(buckets.begin(), buckets.end(), [&](const plan::Bucket &bucket) {
      return bucket.of.index == symbol;
    });
  }

  /// The inputs that are symbols of `expr`. All are in the key, or the key would miss a dependency;
  /// but for those with a bucket, by value.
  void symbols_of(ExprId expr, std::vector<uint32_t> &inputs, bool by_value = false) {
    if (!expr.valid())
      return;
    used_.clear();
    frame_.plan.exprs.collect_symbols(expr, used_);
    for (ir::SymbolId symbol : used_) {
      if (by_value && symbol_input_[symbol.index] == kNone && has_bucket(symbol.index))
        add_input(RegionClass::Input::Kind::symbol, symbol_input_, symbol.index);
      CUGRT_CHECK(symbol_input_[symbol.index] != kNone);
      inputs.push_back(symbol_input_[symbol.index]);
    }
  }

  static void add_dependent(std::vector<uint32_t> &list, uint32_t dependent) {
    if (list.empty() || list.back() != dependent)
      list.push_back(dependent);
  }

  void add_node(uint32_t node) {
    const LaunchProgram &launch = frame_.program.launches[class_.launches[node]];
    class_.first_value.push_back(static_cast<uint32_t>(class_.node_of_value.size()));
    // Copies and fills that are no kernels of ours depend on nothing (function_program.cpp).
    bool is_kernel = launch.kind == LaunchKind::kernel || !launch.fixed;
    NodeKind kind = is_kernel                         ? NodeKind::kernel
                    : launch.kind == LaunchKind::copy ? NodeKind::copy
                                                      : NodeKind::fill;
    const Change argument_changes[] = {is_kernel ? Change::argument : Change::address};
    const Change dim_changes[] = {Change::grid, Change::block, Change::shared_bytes,
                                  Change::becomes_empty};
    for (uint32_t i = launch.sources.begin; i < launch.sources.end(); ++i) {
      const ValueSource &source = frame_.program.sources[i];
      auto value = static_cast<uint32_t>(class_.node_of_value.size());
      class_.node_of_value.push_back(node);
      found_.clear();
      symbols_of(source.expr, found_, source.kind == ValueSource::Kind::expr);
      bool moves =
          source.kind == ValueSource::Kind::address && source.index < frame_.program.first_arena;
      if (moves)
        found_.push_back(add_input(RegionClass::Input::Kind::base, base_input_, source.index));
      if (source.kind == ValueSource::Kind::host)
        found_.push_back(add_input(RegionClass::Input::Kind::host, host_input_, source.index));
      CUGRT_CHECK(found_.empty() || can_patch(kind, argument_changes));
      for (uint32_t input : found_)
        add_dependent(lists_[input].values, value);
      // The dimensions of a copy or fill follow from its size, which is an argument.
      if (launch.kind != LaunchKind::kernel && source.kind != ValueSource::Kind::address)
        for (uint32_t input : found_)
          add_dependent(lists_[input].dims, node);
    }
    found_.clear();
    for (int i = 0; i < 3; ++i) {
      symbols_of(launch.grid[i], found_);
      symbols_of(launch.block[i], found_);
    }
    symbols_of(launch.shared_bytes, found_);
    CUGRT_CHECK(found_.empty() || can_patch(kind, dim_changes));
    for (uint32_t input : found_)
      add_dependent(lists_[input].dims, node);
  }

  void flatten() {
    auto end = [&] { return static_cast<uint32_t>(class_.dependents.size()); };
    for (size_t i = 0; i < class_.inputs.size(); ++i) {
      RegionClass::Input &input = class_.inputs[i];
      input.values = {end(), static_cast<uint32_t>(lists_[i].values.size())};
      for (uint32_t value : lists_[i].values)
        class_.dependents.push_back({value, class_.node_of_value[value]});
      input.dims = {end(), static_cast<uint32_t>(lists_[i].dims.size())};
      for (uint32_t node : lists_[i].dims)
        class_.dependents.push_back({kNone, node});
    }
    std::vector<bool> of_key(class_.node_count());
    for (uint32_t i = 0; i < class_.key_size; ++i)
      for (Range range : {class_.inputs[i].values, class_.inputs[i].dims})
        for (uint32_t d = range.begin; d < range.end(); ++d)
          of_key[class_.dependents[d].node] = true;
    class_.key_nodes = static_cast<size_t>(std::count(of_key.begin(), of_key.end(), true));
  }

  void add_base_uses() {
    std::vector<uint32_t> bases_of_node(class_.node_count());
    for (uint32_t input : base_input_)
      for (uint32_t value : input == kNone ? std::vector<uint32_t>() : lists_[input].values)
        ++bases_of_node[class_.node_of_value[value]];
    for (uint32_t input : base_input_) {
      bool one = input != kNone && lists_[input].values.size() == 1;
      bool alone = one && bases_of_node[class_.node_of_value[lists_[input].values[0]]] == 1;
      class_.base_uses.push_back({input, alone});
    }
  }

  void add_edges() {
    std::vector<std::vector<uint32_t>> before(class_.launches.size()); // edges
    for (uint32_t e = 0; e < region_.edges.size(); ++e) {
      const plan::Edge &edge = region_.edges[e];
      CUGRT_CHECK(edge.from < edge.to && edge.to < before.size());
      before[edge.to].push_back(e);
    }
    for (const std::vector<uint32_t> &list : before) {
      class_.first_predecessor.push_back(static_cast<uint32_t>(class_.predecessors.size()));
      for (uint32_t e : list) {
        class_.predecessors.push_back(region_.edges[e].from);
        class_.programmatic.push_back(
            std::binary_search(region_.programmatic.begin(), region_.programmatic.end(), e));
      }
    }
    class_.first_predecessor.push_back(static_cast<uint32_t>(class_.predecessors.size()));
  }

  void add_levels() {
    auto levels = plan::find_region_levels(frame_.function, region_.steps);
    CUGRT_CHECK(levels);
    class_.levels = std::move(*levels);
    for (const RegionClass::Dependent &dependent : class_.dependents)
      class_.changes_bodies = class_.changes_bodies || class_.levels.level_of[dependent.node] != 0;
  }

  const Frame &frame_;
  const plan::Region &region_;
  std::vector<uint32_t> base_input_, host_input_, symbol_input_; // number of the input, or kNone
  std::vector<Lists> lists_;                                     // of each input
  std::vector<ir::SymbolId> used_;
  std::vector<uint32_t> found_;
  RegionClass class_;
};

} // namespace

Result<std::vector<uint32_t>> choose_launches(const Frame &frame, uint32_t region) {
  Range steps = frame.function.regions[region].steps;
  std::vector<uint32_t> launches;
  launches.reserve(steps.count);
  for (uint32_t step = steps.begin; step < steps.end(); ++step) {
    CUGRT_ASSIGN(uint32_t launch, choose_launch(frame, step));
    launches.push_back(launch);
  }
  return launches;
}

RegionClass make_region_class(const Frame &frame, uint32_t region, std::vector<uint32_t> launches) {
  return ClassMaker(frame, region, std::move(launches)).make();
}

} // namespace cugrt::runtime
