// Each block is walked once. What has been placed is kept in two lists: `done`, up to the end of
// the last region, and `tail`: what ended it, and everything after. A step that conflicts with
// nothing in the tail goes to the end of `done`, and with it the bindings of the tail that name its
// tensors. When the tail has steps of its own and another binding ends their region, it becomes
// part of `done`.
#include "compiler/planner/rewrite/inline_calls.h"

#include "compiler/ir_names.h"
#include "compiler/planner/analysis/liveness.h"
#include "compiler/planner/symbols/sizes.h"
#include "plan/symbols/bucket_boxes.h"

#include <algorithm>

namespace cugrt::plan {
namespace {

// More accesses in a tail are not looked at: nothing moves until it is done.
constexpr size_t kMostAccesses = 4096;

struct MemoryAccess {
  uint32_t memory; // an origin: a storage, a parameter, a constant, an allocation
  int64_t begin, end;
  bool writes;
};

bool conflict(const MemoryAccess &a, const MemoryAccess &b) {
  return a.memory == b.memory && (a.writes || b.writes) && a.begin < b.end && b.begin < a.end;
}

class FunctionMover {
public:
  /// `runs_host`: for each function, whether it or a callee runs a host builtin or extern.
  FunctionMover(const ir::Module &module, ir::Function &function, const Liveness &live,
                const std::vector<bool> &runs_host)
      : module_(module), f_(function), live_(live), runs_host_(runs_host),
        bounds_(symbol_domain(module, function)),
        tensor_bytes_(live.origins.size(), {0, INT64_MAX}), returned_(live.origins.size(), false) {
    for (const Operand &result : f_.results_of(f_.body()))
      if (result.kind == Operand::Kind::value && live.origin(result.value()) != kNoOrigin &&
          live.whole[result.index])
        returned_[live.origin(result.value())] = true;
    for (const ir::Block &block : f_.blocks)
      for (const Binding &b : block.bindings)
        if (b.kind == BindingKind::alloc_tensor)
          lay_out(b);
  }

  void run(std::map<std::pair<uint32_t, uint32_t>, std::string> &moves) {
    for (uint32_t block = 0; block < f_.blocks.size(); ++block)
      walk(block, moves);
  }

private:
  enum class Role : uint8_t { step, names, fixed, ends, barrier };

  struct Placed {
    Binding binding;
    std::string moved_above;
  };
  struct Waiting {
    Binding binding;
    bool gone = false;
  };

  void lay_out(const Binding &b) {
    uint32_t origin = live_.origin(b.result());
    ir::Interval offset = module_.exprs.range(f_.exprs_of(b)[0], bounds_);
    const ir::Type &type = module_.types[f_.value(b.result()).type];
    auto bytes = max_tensor_bytes(module_.exprs, type, bounds_);
    int64_t end = INT64_MAX;
    if (!bytes || offset.upper == INT64_MAX || __builtin_add_overflow(offset.upper, *bytes, &end))
      end = INT64_MAX;
    tensor_bytes_[origin] = {std::max<int64_t>(offset.lower, 0), end};
  }

  bool is_dynamic(uint32_t origin) const {
    OriginKind kind = live_.origins[origin].kind;
    return (kind == OriginKind::alloc && !returned_[origin]) || kind == OriginKind::host_result;
  }

  Role role(const Binding &b) const {
    switch (b.work()) {
    case BindingWork::launches:
      for (const Operand &operand : f_.operands_of(b))
        if (operand.kind == Operand::Kind::value)
          if (uint32_t origin = live_.origin(operand.value());
              origin != kNoOrigin && is_dynamic(origin))
            return Role::ends;
      return Role::step;
    case BindingWork::calls:
      return runs_host_[b.callee] ? Role::barrier : Role::ends;
    case BindingWork::controls:
      return has_barrier(b) ? Role::barrier : Role::ends;
    case BindingWork::calls_host:
    case BindingWork::computes:
      return Role::barrier;
    case BindingWork::matches:
    case BindingWork::reads:
    case BindingWork::kills:
      return Role::fixed;
    case BindingWork::names:
      break;
    }
    return Role::names;
  }

  bool has_barrier(const Binding &b) const {
    for (uint32_t block = b.blocks.begin; block < b.blocks.end(); ++block)
      for (const Binding &inner : f_.blocks[block].bindings)
        if (role(inner) == Role::barrier)
          return true;
    return false;
  }

  // --- Accesses ---

  void add(ValueId value, bool writes, std::vector<MemoryAccess> &out) const {
    uint32_t origin = live_.origin(value);
    if (origin == kNoOrigin) {
      ir::Range fields = live_.fields_of[value.index];
      for (uint32_t i = fields.begin; i < fields.end(); ++i)
        if (live_.fields[i].kind == Operand::Kind::value)
          add(live_.fields[i].value(), writes, out);
      return;
    }
    auto [begin, end] = tensor_bytes_[origin];
    uint32_t parent = live_.origins[origin].parent;
    out.push_back({parent == kNoOrigin ? origin : parent, begin, end, writes});
  }

  /// Everything that the binding may read or write, its blocks included.
  void add(const Binding &b, std::vector<MemoryAccess> &out) const {
    if (role(b) == Role::names || b.kind == BindingKind::kill)
      return;
    std::span<const Operand> operands = f_.operands_of(b);
    for (size_t i = 0; i < operands.size(); ++i) {
      bool writes = false;
      if (b.kind == BindingKind::launch)
        writes = ir::writes(module_.kernels[b.callee].params[i].access);
      else if (b.kind == BindingKind::call)
        writes = ir::writes(module_.functions[b.callee].params[i].access);
      if (operands[i].kind == Operand::Kind::value)
        add(operands[i].value(), writes, out);
      else if (operands[i].kind == Operand::Kind::expr)
        add_device_symbols(operands[i].expr(), out);
    }
    for (uint32_t i = 0; i < b.result_count; ++i)
      add(b.result(i), true, out);
    for (uint32_t block = b.blocks.begin; block < b.blocks.end(); ++block) {
      for (const Binding &inner : f_.blocks[block].bindings)
        add(inner, out);
      for (const Operand &result : f_.results_of(f_.blocks[block]))
        if (result.kind == Operand::Kind::value)
          add(result.value(), false, out);
    }
  }

  void add_device_symbols(ir::ExprId expr, std::vector<MemoryAccess> &out) const {
    std::vector<ir::SymbolId> symbols;
    module_.exprs.collect_symbols(expr, symbols);
    for (ir::SymbolId symbol : symbols)
      if (live_.symbol_origin[symbol.index] != kNoOrigin)
        add(live_.symbol_value[symbol.index], false, out);
  }

  // --- Names that a step needs ---

  /// Visits symbols of a binding's operands, expressions and results' types.
  template <class Visit> void for_symbols(const Binding &b, Visit visit) const {
    std::vector<ir::SymbolId> symbols;
    for (const Operand &operand : f_.operands_of(b))
      if (operand.kind == Operand::Kind::expr)
        module_.exprs.collect_symbols(operand.expr(), symbols);
    for (ir::ExprId expr : f_.exprs_of(b))
      module_.exprs.collect_symbols(expr, symbols);
    for (uint32_t i = 0; i < b.result_count; ++i)
      for (ir::ExprId dim : module_.types[f_.value(b.result(i)).type].dims)
        module_.exprs.collect_symbols(dim, symbols);
    for (ir::SymbolId symbol : symbols)
      visit(symbol);
  }

  /// Adds the places in the tail of the names that `b` needs; false where one cannot move.
  bool names_needed(const Binding &b, std::vector<size_t> &places) const {
    bool movable = true;
    for_symbols(b, [&](ir::SymbolId symbol) {
      movable = movable && !tail_symbols_.contains(symbol.index);
    });
    for (const Operand &operand : f_.operands_of(b)) {
      if (!movable)
        return false;
      if (operand.kind != Operand::Kind::value)
        continue;
      auto place = tail_values_.find(operand.index);
      if (place == tail_values_.end() || tail_[place->second].gone)
        continue;
      const Binding &definition = tail_[place->second].binding;
      if (role(definition) != Role::names || !names_needed(definition, places))
        return false;
      places.push_back(place->second);
    }
    return movable;
  }

  // --- The walk ---

  void walk(uint32_t number, std::map<std::pair<uint32_t, uint32_t>, std::string> &moves) {
    std::vector<Binding> &bindings = f_.blocks[number].bindings;
    if (!worth_it(bindings))
      return;
    done_.clear();
    clear_tail();
    region_ = false;
    for (const Binding &b : bindings)
      place(b);
    flush();
    for (uint32_t i = 0; i < done_.size(); ++i) {
      bindings[i] = done_[i].binding;
      if (!done_[i].moved_above.empty())
        moves[{number, i}] = std::move(done_[i].moved_above);
    }
  }

  /// Whether a step stands before and another after what ends a region.
  bool worth_it(const std::vector<Binding> &bindings) const {
    int state = 0;
    for (const Binding &b : bindings) {
      Role r = role(b);
      if (r == Role::barrier)
        state = 0;
      else if (r == Role::step && state != 1)
        ++state;
      else if (r == Role::ends && state == 1)
        ++state;
      if (state == 3)
        return true;
    }
    return false;
  }

  void place(const Binding &b) {
    Role r = role(b);
    if (r == Role::barrier) {
      flush();
      region_ = false;
      done_.push_back({b, ""});
    } else if (r == Role::ends) {
      if (tail_steps_)
        flush();
      if (tail_.empty())
        region_ = has_step_;
      push(b);
    } else if (tail_.empty()) {
      has_step_ = has_step_ || r == Role::step;
      done_.push_back({b, ""});
    } else if (r != Role::step || !move(b)) {
      tail_steps_ = tail_steps_ || r == Role::step;
      push(b);
    }
  }

  bool move(const Binding &b) {
    if (!region_ || crossed_.size() > kMostAccesses)
      return false;
    std::vector<size_t> places;
    if (!names_needed(b, places))
      return false;
    std::vector<MemoryAccess> own;
    add(b, own);
    for (const MemoryAccess &a : own)
      for (const MemoryAccess &other : crossed_)
        if (conflict(a, other))
          return false;
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    for (size_t at : places) {
      done_.push_back({tail_[at].binding, ""});
      tail_[at].gone = true;
    }
    const Binding &first = tail_.front().binding;
    std::string above = first.kind == BindingKind::if_      ? "the branches"
                        : first.kind == BindingKind::while_ ? "the loop"
                        : first.kind == BindingKind::call
                            ? "the call of @" + module_.functions[first.callee].name
                            : "the launch of @" + module_.kernels[first.callee].name;
    if (first.location.known())
      above += " in line " + std::to_string(first.location.line);
    done_.push_back({b, std::move(above)});
    return true;
  }

  void push(const Binding &b) {
    for (uint32_t i = 0; i < b.result_count; ++i)
      tail_values_[b.result(i).index] = tail_.size();
    if (b.kind == BindingKind::match_shape || b.kind == BindingKind::read_symbol)
      for_symbols(b, [&](ir::SymbolId symbol) { tail_symbols_[symbol.index] = true; });
    add(b, crossed_);
    tail_.push_back({b, false});
  }

  void flush() {
    for (const Waiting &waiting : tail_)
      if (!waiting.gone)
        done_.push_back({waiting.binding, ""});
    has_step_ = tail_.empty() ? has_step_ : tail_steps_;
    clear_tail();
  }
  void clear_tail() {
    tail_.clear();
    tail_values_.clear();
    tail_symbols_.clear();
    crossed_.clear();
    tail_steps_ = false;
  }

  const ir::Module &module_;
  ir::Function &f_;
  const Liveness &live_;
  const std::vector<bool> &runs_host_;
  const ir::SymbolDomain bounds_;
  std::vector<std::pair<int64_t, int64_t>> tensor_bytes_; // by origin: within its memory
  std::vector<bool> returned_;                            // by origin: lies in a result's slot

  std::vector<Placed> done_;
  std::vector<Waiting> tail_;
  std::map<uint32_t, size_t> tail_values_; // by value: who defines it
  std::map<uint32_t, bool> tail_symbols_;
  std::vector<MemoryAccess> crossed_;
  bool region_ = false;     // `done` ends with a region that steps may join
  bool has_step_ = false;   // since the last barrier or end of a region
  bool tail_steps_ = false; // the tail has a region of its own
};

/// Without an analysis: whether a block has a launch, something that may end a region, and another
/// launch, in this order.
bool may_move(const ir::Function &f) {
  std::vector<bool> unplanned(f.values.size(), false);
  for (const ir::Block &block : f.blocks)
    for (const Binding &b : block.bindings)
      if (b.kind == BindingKind::alloc)
        unplanned[b.result().index] = true;
  for (const Operand &result : f.results_of(f.body()))
    if (result.kind == Operand::Kind::value)
      unplanned[result.index] = false;
  auto ends = [&](const Binding &b) {
    if (b.kind == BindingKind::if_ || b.kind == BindingKind::while_ || b.kind == BindingKind::call)
      return true;
    std::span<const Operand> operands = f.operands_of(b);
    return b.kind == BindingKind::launch &&
           std::any_of(operands.begin(), operands.end(), [&](const Operand &operand) {
             return operand.kind == Operand::Kind::value && unplanned[operand.index];
           });
  };
  for (const ir::Block &block : f.blocks) {
    bool before = false, between = false;
    for (const Binding &b : block.bindings) {
      if (ends(b))
        between = before;
      else if (b.kind == BindingKind::launch && between)
        return true;
      else if (b.kind == BindingKind::launch)
        before = true;
    }
  }
  return false;
}

} // namespace

Result<std::optional<std::pair<ir::Module, Moves>>> move_steps(const ir::Module &module) {
  std::optional<std::pair<ir::Module, Moves>> out;
  if (std::none_of(module.functions.begin(), module.functions.end(), may_move))
    return out;
  CUGRT_ASSIGN(std::vector<FunctionSummary> summaries, summarize_called(module));
  CUGRT_ASSIGN(std::vector<uint32_t> order, callees_first(module));
  std::vector<bool> runs_host(module.functions.size(), false);
  for (uint32_t f : order) {
    const ir::Function &function = module.functions[f];
    for (const ir::Block &block : function.blocks)
      for (const Binding &b : block.bindings)
        if (b.kind == BindingKind::host_call || b.kind == BindingKind::extern_call ||
            (b.kind == BindingKind::call && runs_host[b.callee]))
          runs_host[f] = true;
  }
  for (uint32_t f = 0; f < module.functions.size(); ++f) {
    if (!may_move(module.functions[f]))
      continue;
    ir::Function function = module.functions[f];
    CUGRT_ASSIGN(Liveness live, analyze_liveness(module, module.functions[f], summaries));
    std::map<std::pair<uint32_t, uint32_t>, std::string> moves;
    FunctionMover(module, function, live, runs_host).run(moves);
    if (moves.empty())
      continue;
    if (!out)
      out.emplace(module, Moves(module.functions.size()));
    out->first.functions[f] = std::move(function);
    out->second[f] = std::move(moves);
  }
  return out;
}

} // namespace cugrt::plan
