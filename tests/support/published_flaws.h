// The published analysis with defects of the published pass turned back on, for tests that compare
// with it: they are done to the module that the walk reads, or to its result.
#pragma once

#include "compiler/planner/published/parts.h"

namespace cugrt::test {

/// Each member turns one defect on.
struct PublishedFlaws {
  /// A region stays open over `if` (and `while`), and takes in what follows.
  bool control_keeps_region = false;
  /// Likewise over a match.
  bool match_keeps_region = false;
  /// Aliases and tuple elements add no symbols to the key.
  bool aliases_hide_symbols = false;
  /// The types of an extern call's results add none either, and may have symbols that are not
  /// captured.
  bool results_hide_symbols = false;
  /// Regions are equal whatever the bounds of their symbols and the scopes of their storages.
  bool equal_in_any_bounds = false;
  /// What a block returns or yields does not make a lifted value an output of its region.
  bool results_are_no_uses = false;
  /// Nor does the condition of an `if`, nor the operands of a `while`.
  bool conditions_are_no_uses = false;
  /// Nor does a match.
  bool matches_are_no_uses = false;
  /// A lifted storage that nothing uses, beside one that is used, ends the pass with an error.
  bool unused_storage_breaks_merge = false;
  /// The allocation call stands where the first lifted storage stood: in a branch, or after a
  /// launch that needs it.
  bool allocation_at_first_storage = false;
  /// Results are followed to their storage through aliases and tuples only: not through views,
  /// matches, tuple elements, calls that return an operand, nor aliases of storages.
  bool views_hide_results = false;
  /// Functions share merged storages even when one calls the other.
  bool merge_ignores_calls = false;
  friend bool operator==(const PublishedFlaws &, const PublishedFlaws &) = default;
};

/// Storages that hold results, as published: backwards from these, through aliases and tuples.
class PublishedOutputs {
public:
  explicit PublishedOutputs(const ir::Function &function)
      : function_(function), output_(function.values.size()), storage_(function.values.size()) {
    block(0);
  }
  std::vector<bool> take() { return std::move(storage_); }

private:
  void mark(std::span<const ir::Operand> operands) {
    for (const ir::Operand &operand : operands)
      if (operand.kind == ir::Operand::Kind::value)
        output_[operand.index] = true;
  }

  void block(uint32_t number) {
    const ir::Block &block = function_.blocks[number];
    mark(function_.results_of(block));
    for (size_t i = block.bindings.size(); i-- > 0;)
      binding(block.bindings[i]);
  }

  void binding(const ir::Binding &b) {
    for (uint32_t nested = b.blocks.begin; nested < b.blocks.end(); ++nested)
      block(nested);
    if (b.result_count == 0 || !output_[b.first_result])
      return;
    std::span<const ir::Operand> operands = function_.operands_of(b);
    if (b.kind == ir::BindingKind::alias || b.kind == ir::BindingKind::tuple)
      mark(operands);
    else if (b.kind == ir::BindingKind::alloc_tensor)
      storage_[operands[0].index] = true;
  }

  const ir::Function &function_;
  std::vector<bool> output_, storage_; // by value
};

/// Outputs of regions anew, in order of first use outside, without the uses that a flaw overlooks.
class FlawedOutputs {
public:
  FlawedOutputs(const ir::Function &function, const PublishedFlaws &flaws,
                plan::PublishedFunction &published)
      : function_(function), flaws_(flaws), published_(published),
        region_of_(function.values.size(), UINT32_MAX), is_output_(function.values.size()) {
    for (plan::PublishedRegion &region : published.regions)
      region.outputs.clear();
    block(0);
  }

private:
  void use(std::span<const ir::Operand> operands) {
    for (const ir::Operand &operand : operands) {
      if (operand.kind != ir::Operand::Kind::value)
        continue;
      const uint32_t region = region_of_[operand.index];
      if (region == UINT32_MAX || region == open_ || is_output_[operand.index])
        continue;
      is_output_[operand.index] = true;
      published_.regions[region].outputs.push_back(operand.value());
    }
  }

  void block(uint32_t index) {
    const uint32_t outer = std::exchange(open_, UINT32_MAX);
    for (const ir::Binding &b : function_.blocks[index].bindings) {
      const plan::PublishedBinding &decision = published_.bindings[number_++];
      if (decision.verdict == plan::Verdict::closes)
        open_ = UINT32_MAX;
      else if (decision.region != UINT32_MAX)
        open_ = decision.region;
      for (uint32_t i = 0; i < b.result_count; ++i)
        region_of_[b.result(i).index] = decision.region;
      if (b.blocks.count)
        nested(b);
      else if (b.kind != ir::BindingKind::match_shape || !flaws_.matches_are_no_uses)
        use(function_.operands_of(b));
    }
    open_ = UINT32_MAX;
    if (!flaws_.results_are_no_uses)
      use(function_.results_of(function_.blocks[index]));
    open_ = outer;
  }

  void nested(const ir::Binding &b) {
    const std::span<const ir::Operand> operands = function_.operands_of(b);
    const size_t captures = b.kind == ir::BindingKind::if_ ? 1 : b.carried_count;
    if (!flaws_.conditions_are_no_uses)
      use(operands.first(captures));
    for (uint32_t i = b.blocks.begin; i < b.blocks.end(); ++i)
      block(i);
    if (!flaws_.conditions_are_no_uses)
      use(operands.subspan(captures));
  }

  const ir::Function &function_;
  const PublishedFlaws &flaws_;
  plan::PublishedFunction &published_;
  std::vector<uint32_t> region_of_; // by value
  std::vector<bool> is_output_;
  uint32_t number_ = 0, open_ = UINT32_MAX;
};

/// What a rewrite by the regions of a flawed analysis would use without a definition: values of a
/// region that are no outputs and are used outside, and storages used where the allocation call
/// does not reach.
class UndefinedUses {
public:
  UndefinedUses(const ir::Function &function, const plan::PublishedFunction &published)
      : function_(function), published_(published), region_of_(function.values.size(), UINT32_MAX),
        defined_(function.values.size(), true), reported_(function.values.size(), false),
        is_storage_(function.values.size(), false) {
    std::vector<const ir::Binding *> bindings = plan::bindings_in_order(function);
    for (uint32_t r = 0; r < published.regions.size(); ++r) {
      for (uint32_t number : published.regions[r].bindings)
        for (uint32_t i = 0; i < bindings[number]->result_count; ++i) {
          ir::ValueId value = bindings[number]->result(i);
          region_of_[value.index] = r;
          defined_[value.index] = false;
        }
      for (ir::ValueId output : published.regions[r].outputs)
        defined_[output.index] = true;
    }
    for (const plan::PublishedStorage &storage : published.storages)
      is_storage_[storage.value.index] = storage.lifted();
    block(0);
  }

  std::vector<ir::ValueId> take() { return std::move(out_); }

private:
  /// Within a region, storages are parameters: they are used where it is launched.
  void use(ir::ValueId value, uint32_t region) {
    bool lost = is_storage_[value.index]
                    ? region == UINT32_MAX && !reaches_
                    : !defined_[value.index] && region_of_[value.index] != region;
    if (!lost || reported_[value.index])
      return;
    reported_[value.index] = true;
    out_.push_back(value);
  }
  void use(std::span<const ir::Operand> operands, uint32_t region) {
    for (const ir::Operand &operand : operands)
      if (operand.kind == ir::Operand::Kind::value)
        use(operand.value(), region);
  }

  void block(uint32_t index) {
    bool outer = reaches_;
    for (const ir::Binding &b : function_.blocks[index].bindings) {
      if (published_.allocates && number_ == published_.allocation)
        reaches_ = true;
      uint32_t region = published_.bindings[number_].region;
      if (region != UINT32_MAX && published_.regions[region].bindings.front() == number_)
        for (ir::ValueId input : published_.regions[region].inputs)
          use(input, UINT32_MAX);
      ++number_;
      std::span<const ir::Operand> operands = function_.operands_of(b);
      bool is_if = b.kind == ir::BindingKind::if_;
      use(b.blocks.count ? operands.first(is_if ? 1 : b.carried_count) : operands, region);
      for (uint32_t i = b.blocks.begin; i < b.blocks.end(); ++i)
        block(i);
    }
    use(function_.results_of(function_.blocks[index]), UINT32_MAX);
    reaches_ = outer;
  }

  const ir::Function &function_;
  const plan::PublishedFunction &published_;
  std::vector<uint32_t> region_of_; // by value
  std::vector<bool> defined_, reported_, is_storage_;
  std::vector<ir::ValueId> out_;
  uint32_t number_ = 0;
  bool reaches_ = false; // the allocation call stands before, in this block or one around it
};

inline std::vector<ir::ValueId> find_undefined(const ir::Function &function,
                                               const plan::PublishedFunction &published) {
  return UndefinedUses(function, published).take();
}

/// Symbols of regions anew, in order of occurrence, without those that only aliases and tuple
/// elements see.
inline void hide_alias_symbols(const ir::Module &module, const ir::Function &function,
                               plan::PublishedFunction &published) {
  const std::vector<const ir::Binding *> bindings = plan::bindings_in_order(function);
  for (plan::PublishedRegion &region : published.regions) {
    region.symbols.clear();
    auto expr = [&](ir::ExprId e) {
      std::vector<ir::SymbolId> symbols;
      if (e.valid())
        module.exprs.collect_symbols(e, symbols);
      for (ir::SymbolId symbol : symbols)
        if (std::find(region.symbols.begin(), region.symbols.end(), symbol) == region.symbols.end())
          region.symbols.push_back(symbol);
    };
    auto type = [&](auto &self, ir::TypeId id) -> void {
      const ir::Type &t = module.types[id];
      const bool has_dims = t.kind == ir::TypeKind::tensor || t.kind == ir::TypeKind::shape;
      for (size_t i = 0; has_dims && i < t.dims.size() + t.strides.size(); ++i)
        expr(i < t.dims.size() ? t.dims[i] : t.strides[i - t.dims.size()]);
      for (ir::TypeId field : t.fields)
        self(self, field);
    };
    for (uint32_t number : region.bindings) {
      const ir::Binding &b = *bindings[number];
      if (b.kind == ir::BindingKind::alias || b.kind == ir::BindingKind::tuple_element)
        continue;
      for (const ir::Operand &operand : function.operands_of(b))
        if (operand.kind == ir::Operand::Kind::value)
          type(type, function.value(operand.value()).type);
        else if (operand.kind == ir::Operand::Kind::expr)
          expr(operand.expr());
      const bool tensor = b.kind == ir::BindingKind::alloc_tensor;
      if (tensor)
        expr(function.exprs_of(b)[0]);
      if (tensor || b.kind == ir::BindingKind::view || b.kind == ir::BindingKind::extern_call)
        for (uint32_t i = 0; i < b.result_count; ++i)
          type(type, function.value(b.result(i)).type);
      if (b.kind == ir::BindingKind::view)
        expr(function.exprs_of(b)[0]);
    }
  }
}

/// The module with bindings in place of which the walk meets what the flawed pass does: what has
/// no rule keeps regions open, and a launch adds no symbols of its results.
inline ir::Module as_flawed_walk_sees_it(ir::Module module, const PublishedFlaws &flaws) {
  for (ir::Function &function : module.functions)
    for (ir::Block &block : function.blocks)
      for (ir::Binding &b : block.bindings)
        if (b.kind == ir::BindingKind::match_shape ? flaws.match_keeps_region
                                                   : b.blocks.count && flaws.control_keeps_region)
          b.kind = ir::BindingKind::literal;
        else if (b.kind == ir::BindingKind::extern_call && flaws.results_hide_symbols &&
                 module.callee_names[b.callee].rfind("vm.builtin", 0) != 0)
          b.kind = ir::BindingKind::launch;
  return module;
}

/// The module without bounds of symbols, scopes, and sizes of storages.
inline ir::Module without_bounds(ir::Module module) {
  ir::TypePool types;
  std::vector<ir::TypeId> now;
  for (uint32_t i = 0; i < module.types.size(); ++i) {
    ir::Type type = module.types[{i}];
    type.scope = 0;
    if (type.kind == ir::TypeKind::storage)
      type.dims.clear();
    for (ir::TypeId &field : type.fields)
      field = now[field.index];
    now.push_back(types.intern(std::move(type)));
  }
  module.types = std::move(types);
  for (ir::Function &function : module.functions) {
    for (ir::Symbol &symbol : function.symbols)
      symbol.bounds = {0, INT64_MAX};
    for (ir::Value &value : function.values)
      value.type = now[value.type.index];
  }
  return module;
}

/// Rules of bindings whose regions are kept open are not those of their kinds.
inline plan::PublishedAnalysis analyze_published(const ir::Module &module,
                                                 const PublishedFlaws &flaws = {}) {
  if (flaws == PublishedFlaws{})
    return plan::analyze_published(module);
  plan::PublishedAnalysis analysis = plan::analyze_published_regions(module);
  const ir::Module seen = as_flawed_walk_sees_it(module, flaws);
  for (uint32_t f = 0; f < module.functions.size(); ++f) {
    plan::PublishedFunction &function = analysis.functions[f];
    if (!function.bindings.empty() &&
        function.bindings.front().rule == plan::PublishedRule::captured)
      continue;
    std::vector<bool> results(module.functions[f].values.size());
    for (const plan::PublishedStorage &storage : function.storages)
      results[storage.value.index] = storage.rule == plan::PublishedRule::result_storage;
    if (flaws.views_hide_results)
      results = PublishedOutputs(module.functions[f]).take();
    function = plan::find_published_regions(seen, seen.functions[f], results);
    for (plan::PublishedRegion &region : function.regions) { // named again behind a block
      std::vector<ir::ValueId> once;
      for (ir::ValueId input : region.inputs)
        if (std::find(once.begin(), once.end(), input) == once.end())
          once.push_back(input);
      region.inputs = std::move(once);
    }
    if (flaws.aliases_hide_symbols)
      hide_alias_symbols(seen, seen.functions[f], function);
    FlawedOutputs(module.functions[f], flaws, function);
    for (const plan::PublishedStorage &storage : function.storages)
      if (flaws.allocation_at_first_storage && storage.lifted() && storage.used) {
        function.allocation = storage.binding;
        break;
      }
  }
  ir::Module merged = module;
  if (flaws.merge_ignores_calls) // nobody sees them
    for (ir::Function &function : merged.functions)
      for (ir::Block &block : function.blocks)
        for (ir::Binding &b : block.bindings)
          if (b.kind == ir::BindingKind::call)
            b.kind = ir::BindingKind::host_call;
  plan::merge_published_storages(merged, analysis);
  plan::name_published_functions(flaws.equal_in_any_bounds ? without_bounds(module) : module,
                                 analysis);
  return analysis;
}

/// The function whose storage ends the merge; UINT32_MAX: none.
inline uint32_t merge_fails_on(const plan::PublishedAnalysis &analysis,
                               const PublishedFlaws &flaws) {
  for (uint32_t f = 0; flaws.unused_storage_breaks_merge && f < analysis.functions.size(); ++f)
    for (const plan::PublishedStorage &storage : analysis.functions[f].storages)
      if (analysis.functions[f].allocates && storage.lifted() && !storage.used)
        return f;
  return UINT32_MAX;
}

} // namespace cugrt::test
