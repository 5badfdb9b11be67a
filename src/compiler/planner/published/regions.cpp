// The walk that finds the regions of one function.
//
//   binding                      all operands static             else
//   alloc_storage                liftable: static, lifted        stays
//   alloc, shape, literal        stays                           stays
//   launch, extern, op           opens or joins                  closes
//   alloc_tensor, view, kill,
//   alias, tuple, get, reshape   joins open, static              closes
//   constant                     joins open, static
//   call, host, vm.builtin, read closes                          closes
//   if, while, match             closes                          closes
//
// A block has a region of its own; that of the block around it is found open again after it, unless
// the construct has closed it. Operands are looked at from left to right, each with its type, and
// whatever symbols occur there are those of the region's key, in that order.
#include "compiler/ir_names.h"
#include "compiler/planner/published/parts.h"

#include "ops/table/ops.h"

#include <algorithm>
#include <utility>

namespace cugrt::plan {

using ir::SymbolId;

namespace {

constexpr uint32_t kNoRegion = UINT32_MAX;

class RegionWalk {
public:
  RegionWalk(const ir::Module &module, const ir::Function &function,
             const std::vector<bool> &result_storages)
      : module_(module), function_(function), result_storages_(result_storages),
        static_(function.values.size()), home_(function.values.size()),
        input_of_(function.values.size(), kNoRegion), capturable_(function.symbols.size()) {
    fixed_things();
  }

  PublishedFunction run() {
    block(0);
    place_allocation();
    return std::move(out_);
  }

private:
  /// The place where a value is defined, once lifted.
  struct Home {
    uint32_t region = kNoRegion, storage = UINT32_MAX;
    bool is_output = false;
  };

  // --- Values that are static from the start ---

  static bool stands_alone(const ir::ExprPool &exprs, ExprId e) {
    return exprs[e].kind == ir::ExprKind::symbol;
  }

  void fixed_things() {
    for (uint32_t p = 0; p < function_.params.size(); ++p) {
      ValueId value = function_.params[p].value;
      const ir::Type &type = module_.types[function_.value(value).type];
      bool weight = function_.is_weight(p);
      if (weight)
        static_[value.index] = true;
      for (ExprId dim : type.dims)
        if (stands_alone(module_.exprs, dim)) {
          auto symbol = size_t(module_.exprs[dim].value);
          if (weight || function_.symbols[symbol].capturable)
            capturable_[symbol] = true;
        }
    }
  }

  // --- Static or not: `finding_` is the first thing that is not, `used_` and `symbols_` what
  // occurs ---

  void begin() {
    finding_ = {};
    is_static_ = true;
    used_.clear();
    symbols_.clear();
  }
  void not_static(PublishedRule rule, uint32_t subject) {
    if (is_static_)
      finding_ = {Verdict::closes, rule, subject, kNoRegion};
    is_static_ = false;
  }

  void see(ExprId expr) {
    if (!expr.valid() || module_.exprs.as_constant(expr))
      return;
    scratch_.clear();
    module_.exprs.collect_symbols(expr, scratch_);
    for (SymbolId symbol : scratch_)
      if (capturable_[symbol.index])
        symbols_.push_back(symbol);
      else
        not_static(PublishedRule::symbol_not_captured, symbol.index);
  }

  void see_type(TypeId id, ValueId value) {
    const ir::Type &type = module_.types[id];
    switch (type.kind) {
    case TypeKind::tensor:
    case TypeKind::shape:
      if (!type.known_shape)
        return not_static(PublishedRule::shape_not_known, value.index);
      for (ExprId dim : type.dims)
        see(dim);
      for (ExprId stride : type.strides)
        see(stride);
      return;
    case TypeKind::tuple:
      for (TypeId field : type.fields)
        see_type(field, value);
      return;
    case TypeKind::storage:
    case TypeKind::scalar:
    case TypeKind::string:
    case TypeKind::dtype:
    case TypeKind::object:
      return; // host scalars, strings, objects and storages
    }
  }

  void see(ValueId value) {
    used_.push_back(value);
    if (static_[value.index])
      see_type(function_.value(value).type, value);
    else
      not_static(PublishedRule::operand_not_static, value.index);
  }

  void see(std::span<const Operand> operands) {
    for (const Operand &operand : operands)
      if (operand.kind == Operand::Kind::value)
        see(operand.value());
      else if (operand.kind == Operand::Kind::expr)
        see(operand.expr());
  }

  void see_results(const Binding &b) {
    for (uint32_t i = 0; i < b.result_count; ++i)
      see_type(function_.value(b.result(i)).type, b.result(i));
  }

  // --- Regions ---

  void define(const Binding &b) {
    for (uint32_t i = 0; i < b.result_count; ++i) {
      static_[b.result(i).index] = true;
      home_[b.result(i).index].region = open_;
    }
  }

  /// Notes a binding's uses: inputs of its region, or outputs of the regions that made them.
  void use(std::span<const ValueId> values) {
    for (ValueId value : values) {
      Home &home = home_[value.index];
      if (home.storage != UINT32_MAX)
        out_.storages[home.storage].used = true;
      else if (home.region != kNoRegion && home.region != open_ && !home.is_output) {
        home.is_output = true;
        out_.regions[home.region].outputs.push_back(value);
      }
    }
  }

  void add_inputs() {
    PublishedRegion &region = out_.regions[open_];
    for (ValueId value : used_) {
      uint32_t &last = input_of_[value.index];
      if (home_[value.index].region == open_ || last == open_)
        continue;
      last = open_;
      region.inputs.push_back(value);
    }
    for (SymbolId symbol : symbols_)
      if (std::find(region.symbols.begin(), region.symbols.end(), symbol) == region.symbols.end())
        region.symbols.push_back(symbol);
  }

  /// The binding, all of whose operands are static, joins; `opens`: also where no region is open.
  PublishedBinding join(const Binding &b, PublishedRule rule, bool opens) {
    if (open_ == kNoRegion && opens) {
      open_ = uint32_t(out_.regions.size());
      out_.regions.emplace_back();
      out_.regions.back().block = block_;
      region_top_.push_back(top_);
    }
    define(b);
    if (open_ != kNoRegion) {
      out_.regions[open_].bindings.push_back(number_);
      add_inputs();
    }
    return {opens ? Verdict::joins : Verdict::joins_open, rule, UINT32_MAX, open_};
  }

  PublishedBinding join_or_close(const Binding &b, PublishedRule rule, bool opens) {
    PublishedBinding decision = finding_;
    if (is_static_)
      decision = join(b, rule, opens);
    else
      open_ = kNoRegion;
    use(used_);
    return decision;
  }

  PublishedBinding close(PublishedRule rule) {
    open_ = kNoRegion;
    use(used_);
    return {Verdict::closes, rule, UINT32_MAX, kNoRegion};
  }

  static bool is_vm_builtin(const std::string &name) { return name.rfind("vm.builtin", 0) == 0; }

  /// Bindings that run nothing.
  PublishedBinding name(const Binding &b) {
    see(function_.operands_of(b));
    if (b.kind == BindingKind::alloc_tensor) {
      see(function_.exprs_of(b)[0]);
      see_results(b);
    } else if (b.kind == BindingKind::view) {
      see_results(b);
      see(function_.exprs_of(b)[0]);
    }
    return join_or_close(b, PublishedRule::names_static, false);
  }

  PublishedBinding decide(const Binding &b) {
    std::span<const Operand> operands = function_.operands_of(b);
    begin();
    switch (b.kind) {
    case BindingKind::alloc_storage:
      return storage(b);
    case BindingKind::alloc:
      return {Verdict::stays, PublishedRule::unplanned};
    case BindingKind::shape:
    case BindingKind::literal:
      return {Verdict::stays, PublishedRule::host_value};
    case BindingKind::constant:
      return join(b, PublishedRule::constant, false);
    case BindingKind::launch:
      see(operands);
      return join_or_close(b, PublishedRule::launch, true);
    case BindingKind::op:
      see(operands);
      if (ir::op_of(b) == ir::Op::reshape)
        return join_or_close(b, PublishedRule::names_static, false);
      return join_or_close(b, PublishedRule::launch, true);
    case BindingKind::extern_call:
      see(operands);
      if (is_vm_builtin(module_.callee_names[b.callee]))
        return close(PublishedRule::builtin_extern);
      see_results(b);
      return join_or_close(b, PublishedRule::extern_call, true);
    case BindingKind::alloc_tensor:
    case BindingKind::view:
    case BindingKind::kill:
    case BindingKind::tuple:
    case BindingKind::alias:
    case BindingKind::tuple_element:
      return name(b);
    case BindingKind::call:
      see(operands);
      return close(PublishedRule::call);
    case BindingKind::host_call:
      see(operands);
      return close(PublishedRule::host_builtin);
    case BindingKind::read_symbol:
      see(operands);
      return close(PublishedRule::device_read);
    case BindingKind::match_shape:
      see(operands);
      return close(PublishedRule::match);
    case BindingKind::if_:
    case BindingKind::while_:
      return close(PublishedRule::control);
    }
    return close(PublishedRule::control);
  }

  PublishedBinding storage(const Binding &b) {
    PublishedStorage storage;
    storage.value = b.result();
    storage.binding = number_;
    storage.scope = module_.types[function_.value(b.result()).type].scope;
    if (auto bytes = module_.exprs.as_constant(function_.exprs_of(b)[0]); !bytes)
      storage.rule = PublishedRule::symbolic_storage;
    else if (result_storages_[b.first_result])
      storage.rule = PublishedRule::result_storage;
    else
      storage.bytes = *bytes;
    if (storage.lifted()) {
      static_[b.first_result] = true;
      home_[b.first_result].storage = uint32_t(out_.storages.size());
    }
    storage_top_.push_back(top_);
    out_.storages.push_back(storage);
    return {Verdict::stays, storage.rule};
  }

  // --- Blocks ---

  void use(std::span<const Operand> operands) {
    for (const Operand &operand : operands)
      if (operand.kind == Operand::Kind::value) {
        ValueId value = operand.value();
        use(std::span<const ValueId>(&value, 1));
      }
  }

  void block(uint32_t index) {
    uint32_t outer_region = std::exchange(open_, kNoRegion);
    uint32_t outer_block = std::exchange(block_, index);
    for (const Binding &b : function_.blocks[index].bindings) {
      number_ = uint32_t(out_.bindings.size());
      if (index == 0)
        top_ = number_;
      PublishedBinding decision = decide(b);
      out_.bindings.push_back(decision);
      if (b.blocks.count)
        nested(b);
    }
    open_ = kNoRegion;
    use(function_.results_of(function_.blocks[index]));
    block_ = outer_block;
    open_ = outer_region;
  }

  /// The condition or initial values are used before the blocks; captures where the blocks use
  /// them, and at the latest here.
  void nested(const Binding &b) {
    std::span<const Operand> operands = function_.operands_of(b);
    size_t captures = b.kind == BindingKind::if_ ? 1 : b.carried_count;
    use(operands.first(captures));
    for (uint32_t i = b.blocks.begin; i < b.blocks.end(); ++i)
      block(i);
    use(operands.subspan(captures));
  }

  /// The call stands where the first storage stood, and where that does not come before all uses,
  /// earlier: before the construct that it is in, or before the first launch that takes a storage.
  void place_allocation() {
    for (uint32_t i = 0; i < out_.storages.size(); ++i) {
      const PublishedStorage &storage = out_.storages[i];
      if (!storage.lifted() || !storage.used || out_.allocates)
        continue;
      out_.allocates = true;
      out_.allocation = storage_top_[i];
    }
    for (uint32_t r = 0; r < out_.regions.size(); ++r)
      for (ValueId input : out_.regions[r].inputs)
        if (home_[input.index].storage != UINT32_MAX)
          out_.allocation = std::min(out_.allocation, region_top_[r]);
  }

  const ir::Module &module_;
  const ir::Function &function_;
  const std::vector<bool> &result_storages_;
  PublishedFunction out_;
  std::vector<bool> static_;                       // by value
  std::vector<Home> home_;                         // by value
  std::vector<uint32_t> input_of_;                 // by value: the last region that it goes into
  std::vector<bool> capturable_;                   // by symbol
  std::vector<uint32_t> region_top_, storage_top_; // the binding of the body that they are in
  uint32_t block_ = 0, number_ = 0, top_ = 0;
  uint32_t open_ = kNoRegion;

  PublishedBinding finding_;
  bool is_static_ = true;
  std::vector<ValueId> used_;
  std::vector<SymbolId> symbols_, scratch_;
};

} // namespace

PublishedFunction find_published_regions(const ir::Module &module, const ir::Function &function,
                                         const std::vector<bool> &result_storages) {
  return RegionWalk(module, function, result_storages).run();
}

} // namespace cugrt::plan
