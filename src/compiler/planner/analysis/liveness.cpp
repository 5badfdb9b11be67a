// Liveness: one walk over the function's blocks, linear in bindings and operands (times the nesting
// depth, which the parser bounds).
#include "compiler/planner/analysis/liveness.h"

#include "base/check.h"
#include "compiler/ir_names.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/module.h"
#include "ir/text/text.h"

#include <algorithm>
#include <utility>

namespace cugrt::plan {

namespace {

class Walk {
public:
  Walk(const ir::Module &module, const ir::Function &function,
       std::span<const FunctionSummary> summaries)
      : module_(module), function_(function), summaries_(summaries), sizes_(module, function) {}

  Result<Liveness> run() {
    size_t values = function_.values.size();
    out_.origins.reserve(values);
    out_.origin_of.assign(values, kNoOrigin);
    out_.whole.assign(values, true);
    out_.alias_of.resize(values);
    for (uint32_t i = 0; i < values; ++i)
      out_.alias_of[i] = {i};
    out_.fields_of.resize(values);
    out_.symbol_origin.assign(function_.symbols.size(), kNoOrigin);
    out_.symbol_value.resize(function_.symbols.size());
    out_.blocks.resize(function_.blocks.size());
    uint32_t bindings = 0;
    for (size_t i = 0; i < function_.blocks.size(); ++i) {
      out_.blocks[i].first_time = bindings;
      bindings += uint32_t(function_.blocks[i].bindings.size());
    }
    out_.times.assign(bindings, 0);
    given_tuples_.resize(values);
    for (uint32_t i = 0; i < function_.params.size(); ++i) {
      const ValueId value = function_.params[i].value;
      if (is_tensor(value))
        define(value, OriginKind::parameter, i);
      else if (module_.types[function_.value(value).type].kind == TypeKind::tuple)
        given_tuples_[value.index] = true;
    }
    CUGRT_TRY(block(0));
    for (const Operand &result : function_.results_of(function_.body()))
      if (uint32_t origin = origin_of(result); origin != kNoOrigin) {
        out_.origins[origin].returned = true;
        if (out_.whole[result.index] ||
            !module_.types[function_.value(result.value()).type].known_shape)
          out_.origins[origin].returned_whole = true;
      }
    out_.end_time = time_;
    std::sort(out_.gaps.begin(), out_.gaps.end(), [](const LifeGap &a, const LifeGap &b) {
      return std::pair(a.origin, a.begin) < std::pair(b.origin, b.begin);
    });
    return std::move(out_);
  }

private:
  bool is_tensor(ValueId value) const {
    return module_.types[function_.value(value).type].kind == TypeKind::tensor;
  }
  Status fail(SourceLocation location, const std::string &message) const {
    return located(Code::verify_error, function_, location, message);
  }
  std::string quoted(ValueId value) const { return "%" + function_.value(value).name; }

  uint32_t origin_of(const Operand &operand) const {
    return operand.kind == Operand::Kind::value ? out_.origin(operand.value()) : kNoOrigin;
  }

  uint32_t define(ValueId value, OriginKind kind, uint32_t index = 0) {
    Origin origin{.kind = kind, .value = value, .index = index};
    origin.block = block_;
    origin.defined = time_;
    out_.origins.push_back(origin);
    return out_.origin_of[value.index] = uint32_t(out_.origins.size() - 1);
  }

  Status touch(uint32_t origin, SourceLocation location) {
    Origin &o = out_.origins[origin];
    o.begin = std::min(o.begin, time_);
    o.end = std::max(o.end, time_ + 1);
    for (uint32_t b = block_; b != o.block; b = out_.blocks[b].parent) {
      const BlockPlace &place = out_.blocks[b];
      if (place.loop_begin != UINT32_MAX) {
        // The loop's end is unknown yet; close_loop extends the life of a noted origin.
        o.begin = std::min(o.begin, place.loop_begin);
        live_in_loop_.push_back({origin, place.loop_begin});
      }
    }
    if (o.killed != UINT32_MAX && !exclusive(function_, out_, o.killed_in, block_))
      return fail(location, quoted(o.value) + " is used after its kill");
    return o.parent == kNoOrigin ? Status() : touch(o.parent, location);
  }

  /// Touches every tensor that a value holds, tuples' fields included.
  Status touch_value(ValueId value, SourceLocation location, bool to_host = false) {
    if (uint32_t origin = out_.origin(value); origin != kNoOrigin) {
      out_.origins[origin].handed_over |= out_.origins[origin].kind == OriginKind::storage;
      if (to_host) {
        out_.origins[origin].passed_to_host = true;
        if (uint32_t parent = out_.origins[origin].parent; parent != kNoOrigin)
          out_.origins[parent].passed_to_host = true;
      }
      return touch(origin, location);
    }
    ir::Range fields = out_.fields_of[value.index];
    for (uint32_t i = fields.begin; i < fields.end(); ++i)
      if (out_.fields[i].kind == Operand::Kind::value)
        CUGRT_TRY(touch_value(out_.fields[i].value(), location, to_host));
    return {};
  }

  Status touch_expr(ir::ExprId expr, SourceLocation location) {
    if (!has_device_symbols_)
      return {};
    symbols_.clear();
    module_.exprs.collect_symbols(expr, symbols_);
    for (ir::SymbolId symbol : symbols_)
      if (uint32_t origin = out_.symbol_origin[symbol.index]; origin != kNoOrigin)
        CUGRT_TRY(touch(origin, location));
    return {};
  }

  Status touch_operands(std::span<const Operand> operands, SourceLocation location,
                        bool to_host = false) {
    for (const Operand &operand : operands) {
      if (operand.kind == Operand::Kind::value)
        CUGRT_TRY(touch_value(operand.value(), location, to_host));
      else if (operand.kind == Operand::Kind::expr)
        CUGRT_TRY(touch_expr(operand.expr(), location));
    }
    return {};
  }

  Status block(uint32_t index) {
    uint32_t outer = std::exchange(block_, index);
    const ir::Block &block = function_.blocks[index];
    out_.blocks[index].begin = time_;
    for (uint32_t i = 0; i < block.bindings.size(); ++i) {
      out_.times[out_.blocks[index].first_time + i] = time_;
      CUGRT_TRY(binding(block.bindings[i], i));
      ++time_;
    }
    CUGRT_TRY(touch_operands(function_.results_of(block), block.end_location));
    out_.blocks[index].end = ++time_;
    block_ = outer;
    return {};
  }

  Status nested(uint32_t index, uint32_t parent_binding, uint32_t loop_begin) {
    BlockPlace &place = out_.blocks[index];
    place.parent = block_;
    place.parent_binding = parent_binding;
    place.loop_begin = loop_begin;
    place.depth = out_.blocks[block_].depth + 1;
    if (place.depth > ir::kMaxNesting)
      return fail(function_.location,
                  "blocks are nested more than " + std::to_string(ir::kMaxNesting) + " deep");
    return block(index);
  }

  // A branch or loop uses its captures where a block uses them: naming is no use.

  Status branch(const Binding &b, uint32_t index) {
    CUGRT_TRY(touch_operands(function_.operands_of(b).first(1), b.location));
    for (uint32_t i = 0; i < b.result_count; ++i)
      if (is_tensor(b.result(i)))
        define(b.result(i), OriginKind::branch_result, i);
      else
        CUGRT_TRY(no_tuple(b.result(i), b.location));
    ++time_;
    for (uint32_t block = b.blocks.begin; block < b.blocks.end(); ++block) {
      CUGRT_TRY(nested(block, index, UINT32_MAX));
      --time_; // the branch's results are written at the time at which it yields
      for (uint32_t i = 0; i < b.result_count; ++i)
        if (uint32_t origin = out_.origin(b.result(i)); origin != kNoOrigin)
          CUGRT_TRY(touch(origin, b.location));
      ++time_;
    }
    --time_; // block() of the binding adds it back
    return {};
  }

  Status loop(const Binding &b, uint32_t index) {
    uint32_t begin = time_;
    size_t first_note = live_in_loop_.size();
    CUGRT_TRY(touch_operands(function_.operands_of(b).first(b.carried_count), b.location));
    for (uint32_t i = 0; i < b.carried_count; ++i) {
      CUGRT_TRY(no_tuple(b.result(i), b.location));
      if (!is_tensor(b.result(i)))
        continue;
      uint32_t origin = define(b.result(i), OriginKind::carried, i);
      for (uint32_t block = b.blocks.begin; block < b.blocks.end(); ++block)
        out_.origin_of[function_.blocks[block].first_param + i] = origin;
      CUGRT_TRY(touch(origin, b.location));
      live_in_loop_.push_back({origin, begin});
    }
    ++time_;
    for (uint32_t block = b.blocks.begin; block < b.blocks.end(); ++block)
      CUGRT_TRY(nested(block, index, begin));
    for (uint32_t block = b.blocks.begin; block < b.blocks.end(); ++block)
      out_.blocks[block].loop_end = time_;
    close_loop(first_note, begin);
    --time_;
    return {};
  }

  /// Everything noted since `first` as live into the loop lives to its end, which is now. Notes for
  /// the loops around this one stand among them and stay.
  void close_loop(size_t first, uint32_t begin) {
    size_t kept = first;
    for (size_t i = first; i < live_in_loop_.size(); ++i) {
      if (live_in_loop_[i].loop_begin == begin) {
        Origin &o = out_.origins[live_in_loop_[i].origin];
        o.end = std::max(o.end, time_);
      } else {
        live_in_loop_[kept++] = live_in_loop_[i];
      }
    }
    live_in_loop_.resize(kept);
  }

  /// Notes the bytes that a launch writes anew, before its operands are touched.
  void find_rewritten(const Binding &b) {
    const ir::Kernel &kernel = module_.kernels[b.callee];
    std::span<const Operand> operands = function_.operands_of(b);
    for (size_t i = 0; i < operands.size() && i < kernel.params.size(); ++i) {
      const ir::KernelParam &param = kernel.params[i];
      if (param.kind != ir::KernelParamKind::tensor || param.access != ir::Access::out ||
          operands[i].kind != Operand::Kind::value || !out_.whole[operands[i].index])
        continue;
      const uint32_t origin = origin_of(operands[i]);
      if (origin == kNoOrigin || (out_.origins[origin].kind != OriginKind::alloc &&
                                  out_.origins[origin].kind != OriginKind::tensor))
        continue;
      Origin &o = out_.origins[origin];
      if (o.block != block_ || o.passed_to_host)
        continue; // it may not run, or the host still looks at what was there
      const bool first = !o.used(), again = o.written_first && o.end < time_;
      if ((first || again) && !names_twice(operands, i, origin)) {
        o.written_first = true;
        if (again)
          out_.gaps.push_back({origin, o.end, time_});
      }
    }
  }

  /// Whether another operand than `number` touches the origin.
  bool names_twice(std::span<const Operand> operands, size_t number, uint32_t origin) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (i != number && origin_of(operands[i]) == origin)
        return true;
      if (operands[i].kind != Operand::Kind::expr || !has_device_symbols_)
        continue;
      symbols_.clear();
      module_.exprs.collect_symbols(operands[i].expr(), symbols_);
      for (ir::SymbolId symbol : symbols_)
        if (out_.symbol_origin[symbol.index] == origin)
          return true;
    }
    return false;
  }

  Status no_tuple(ValueId value, SourceLocation location) const {
    if (module_.types[function_.value(value).type].kind != TypeKind::tuple)
      return {};
    return fail(location, quoted(value) + " is a tuple; calls, branches and loops give tensors and "
                                          "scalars: list the tuple's fields instead");
  }

  Status call(const Binding &b) {
    CUGRT_TRY(touch_operands(function_.operands_of(b), b.location));
    const FunctionSummary &callee = summaries_[b.callee];
    std::span<const Operand> operands = function_.operands_of(b);
    using SourceKind = FunctionSummary::SourceKind;
    for (uint32_t i = 0; i < b.result_count; ++i) {
      CUGRT_TRY(no_tuple(b.result(i), b.location));
      if (!is_tensor(b.result(i)))
        continue;
      FunctionSummary::Source source = callee.results[i];
      if (source.kind == SourceKind::parameter)
        out_.origin_of[b.result(i).index] = origin_of(operands[source.index]);
      else if (source.kind == SourceKind::constant)
        define(b.result(i), OriginKind::constant, source.index);
      else if (source.kind == SourceKind::fresh)
        CUGRT_TRY(touch(define(b.result(i), OriginKind::call_result, i), b.location));
      if (source.kind != SourceKind::fresh)
        out_.whole[b.result(i).index] = false;
    }
    for (uint32_t i = 0; i < b.result_count; ++i)
      if (callee.results[i].kind == SourceKind::result)
        out_.origin_of[b.result(i).index] = out_.origin(b.result(callee.results[i].index));
    return {};
  }

  Status host(const Binding &b) {
    bool keeps = b.kind == BindingKind::host_call;
    CUGRT_TRY(touch_operands(function_.operands_of(b), b.location, keeps));
    for (uint32_t i = 0; i < b.result_count; ++i) {
      CUGRT_TRY(no_tuple(b.result(i), b.location));
      if (is_tensor(b.result(i)))
        CUGRT_TRY(touch(define(b.result(i), OriginKind::host_result, i), b.location));
    }
    return {};
  }

  Status kill(const Binding &b) {
    ValueId value = out_.alias_of[function_.operands_of(b)[0].index];
    uint32_t origin = out_.origin(value);
    if (origin == kNoOrigin || out_.alias_of[out_.origins[origin].value.index] != value)
      return {}; // a view's name ends, its bytes do not
    Origin &o = out_.origins[origin];
    for (uint32_t block = block_; block != o.block; block = out_.blocks[block].parent)
      if (out_.blocks[block].loop_begin != UINT32_MAX)
        return fail(b.location, quoted(value) + " is killed in a loop but defined before it");
    o.killed = time_;
    o.killed_in = block_;
    return {};
  }

  Status tuple_element(const Binding &b) {
    ValueId tuple = out_.alias_of[function_.operands_of(b)[0].index];
    ir::Range fields = out_.fields_of[tuple.index];
    if (given_tuples_[tuple.index]) { // the caller knows: the planner has none such
      given_tuples_[b.result().index] = true;
      return {};
    }
    std::optional<int64_t> index = module_.exprs.as_constant(function_.exprs_of(b)[0]);
    if (!index || *index < 0 || *index >= fields.count)
      return fail(b.location, quoted(tuple) + " has no field of that number");
    const Operand field = out_.fields[fields.begin + uint32_t(*index)];
    if (field.kind == Operand::Kind::value)
      same_as(b.result(), field.value());
    return {};
  }

  /// `value` is another name for `target`.
  void same_as(ValueId value, ValueId target) {
    target = out_.alias_of[target.index];
    out_.alias_of[value.index] = target;
    out_.origin_of[value.index] = out_.origin(target);
    out_.fields_of[value.index] = out_.fields_of[target.index];
    out_.whole[value.index] = out_.whole[target.index];
  }

  Status binding(const Binding &b, uint32_t index) {
    std::span<const Operand> operands = function_.operands_of(b);
    switch (b.kind) {
    case BindingKind::alloc_storage:
      define(b.result(), OriginKind::storage);
      return {};
    case BindingKind::alloc:
      define(b.result(), OriginKind::alloc);
      return {};
    case BindingKind::constant:
      define(b.result(), OriginKind::constant, b.callee);
      return {};
    case BindingKind::alloc_tensor: {
      uint32_t storage = out_.origin(operands[0].value());
      uint32_t tensor = define(b.result(), OriginKind::tensor);
      out_.origins[tensor].parent = storage;
      return {};
    }
    case BindingKind::kill:
      return kill(b);
    case BindingKind::launch:
      find_rewritten(b);
      return touch_operands(operands, b.location);
    case BindingKind::op:
      return touch_operands(operands, b.location);
    case BindingKind::call:
      return call(b);
    case BindingKind::host_call:
    case BindingKind::extern_call:
      return host(b);
    case BindingKind::alias:
      same_as(b.result(), operands[0].value());
      return {};
    case BindingKind::view: {
      std::optional<int64_t> offset = module_.exprs.as_constant(function_.exprs_of(b)[0]);
      out_.origin_of[b.result().index] = origin_of(operands[0]);
      out_.whole[b.result().index] = out_.whole[operands[0].index] && offset == 0 &&
                                     sizes_.same_bytes(function_.value(operands[0].value()).type,
                                                       function_.value(b.result()).type);
      return {};
    }
    case BindingKind::match_shape:
      out_.origin_of[b.result().index] = origin_of(operands[0]);
      out_.whole[b.result().index] =
          operands[0].kind == Operand::Kind::value && out_.whole[operands[0].index];
      return {};
    case BindingKind::tuple:
      out_.fields_of[b.result().index] = {uint32_t(out_.fields.size()), uint32_t(operands.size())};
      for (const Operand &operand : operands)
        out_.fields.push_back(operand.kind == Operand::Kind::value
                                  ? Operand::of(out_.alias_of[operand.index])
                                  : operand);
      return {};
    case BindingKind::tuple_element:
      return tuple_element(b);
    case BindingKind::shape:
    case BindingKind::literal:
      return {};
    case BindingKind::read_symbol: {
      const ir::ExprNode &symbol = module_.exprs[function_.exprs_of(b)[0]];
      CUGRT_CHECK(symbol.kind == ir::ExprKind::symbol);
      has_device_symbols_ = true;
      out_.symbol_origin[size_t(symbol.value)] = origin_of(operands[0]);
      out_.symbol_value[size_t(symbol.value)] = operands[0].value();
      return touch_operands(operands, b.location);
    }
    case BindingKind::if_:
      return branch(b, index);
    case BindingKind::while_:
      return loop(b, index);
    }
    return {};
  }

  struct LiveInLoop {
    uint32_t origin, loop_begin;
  };

  const ir::Module &module_;
  const ir::Function &function_;
  std::span<const FunctionSummary> summaries_;
  const SizeComparison sizes_;
  Liveness out_;
  std::vector<LiveInLoop> live_in_loop_;
  std::vector<ir::SymbolId> symbols_;
  bool has_device_symbols_ = false;
  std::vector<bool> given_tuples_; // by value: parameters, and what are tuples in them
  uint32_t time_ = 0, block_ = 0;
};

} // namespace

std::span<const LifeGap> Liveness::gaps_of(uint32_t origin) const {
  if (gaps.empty())
    return {};
  auto less = [](const LifeGap &gap, uint32_t o) { return gap.origin < o; };
  auto begin = std::lower_bound(gaps.begin(), gaps.end(), origin, less);
  auto end = std::lower_bound(begin, gaps.end(), origin + 1, less);
  return {begin, end};
}

bool exclusive(const ir::Function &function, const Liveness &liveness, uint32_t a, uint32_t b) {
  uint32_t below_a = a, below_b = b;
  while (a != b) {
    bool climb_a = liveness.blocks[a].depth >= liveness.blocks[b].depth;
    uint32_t &below = climb_a ? below_a : below_b;
    uint32_t &at = climb_a ? a : b;
    below = at;
    at = liveness.blocks[at].parent;
  }
  if (below_a == below_b || below_a == a || below_b == a)
    return false; // one encloses the other
  const BlockPlace &place_a = liveness.blocks[below_a], &place_b = liveness.blocks[below_b];
  return place_a.parent_binding == place_b.parent_binding &&
         function.blocks[a].bindings[place_a.parent_binding].kind == BindingKind::if_;
}

Result<Liveness> analyze_liveness(const ir::Module &module, const ir::Function &function,
                                  std::span<const FunctionSummary> summaries) {
  return Walk(module, function, summaries).run();
}

} // namespace cugrt::plan
