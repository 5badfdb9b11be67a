// Planning by chunks: tokens and their uses first, then a walk that hands out blocks.
#include "compiler/planner/published/chunks.h"

#include "base/check.h"
#include "compiler/ir_names.h"
#include "ir/module/module.h"
#include "ops/table/ops.h"

#include <algorithm>

namespace cugrt::plan {

const ChunkTensor *ChunkPlan::find(ValueId tensor) const {
  auto it = std::lower_bound(tensors.begin(), tensors.end(), tensor,
                             [](const ChunkTensor &t, ValueId v) { return t.tensor < v; });
  return it != tensors.end() && it->tensor == tensor ? &*it : nullptr;
}

namespace {

constexpr uint32_t kNoToken = UINT32_MAX;
/// Operands that are tuples count a use for each part; more parts than this are refused.
constexpr uint32_t kMaxParts = 1u << 16;

struct Token {
  ValueId tensor;
  uint32_t scope = 0;
  ir::DType dtype = ir::DType::f32;
  ExprId bytes;
  uint32_t block = 0;
  uint32_t uses = 0;
  uint32_t chunk = kNoChunk;
  const char *discarded = nullptr; // why it is not planned
};

class ChunkPlanner {
public:
  ChunkPlanner(ir::Module &pools, const ir::Function &function)
      : pools_(pools), function_(function), token_of_(function.values.size(), kNoToken),
        fields_of_(function.values.size()), bounds_(domain_of(pools.exprs, function)) {}

  Result<ChunkPlan> run() {
    CUGRT_TRY(find_tokens(0));
    CUGRT_TRY(hand_out(0));
    if (plans_dynamic_results())
      CUGRT_TRY(give_own_chunks());
    std::sort(tokens_.begin(), tokens_.end(),
              [](const Token &a, const Token &b) { return a.tensor < b.tensor; });
    for (const Token &token : tokens_) {
      const bool planned = token.chunk != kNoChunk;
      plan_.tensors.push_back({token.tensor, token.chunk, planned ? "" : token.discarded});
    }
    return std::move(plan_);
  }

private:
  /// Bounds count only for symbols of the signature, and lower ones only beside upper ones.
  static ir::SymbolDomain domain_of(const ir::ExprPool &exprs, const ir::Function &function) {
    std::vector<ir::Interval> bounds = function.symbol_bounds();
    for (size_t i = 0; i < bounds.size(); ++i)
      if (function.symbols[i].source != ir::SymbolSource::parameter || bounds[i].upper == INT64_MAX)
        bounds[i] = {0, INT64_MAX};
    return ir::SymbolDomain(std::move(bounds), ir::limits_of(exprs, function.constraints));
  }

  // --- What values name ---

  /// Calls `visit` for each token that a value names: one, or those of a tuple's parts in order.
  template <class Visit> void for_each_token(ValueId value, Visit visit) const {
    if (token_of_[value.index] != kNoToken)
      visit(token_of_[value.index]);
    const ir::Range fields = fields_of_[value.index];
    for (uint32_t i = fields.begin; i < fields.end(); ++i)
      if (fields_[i].valid())
        for_each_token(fields_[i], visit);
  }

  void share(ValueId value, const Operand &operand) {
    if (operand.kind != Operand::Kind::value)
      return;
    token_of_[value.index] = token_of_[operand.index];
    fields_of_[value.index] = fields_of_[operand.index];
  }

  void bind_tuple(const Binding &b) {
    ir::Range &fields = fields_of_[b.result().index];
    fields.begin = static_cast<uint32_t>(fields_.size());
    for (const Operand &operand : function_.operands_of(b))
      fields_.push_back(operand.kind == Operand::Kind::value ? operand.value() : ValueId{});
    fields.count = b.operands.count;
  }

  void bind_element(const Binding &b) {
    const ir::Range fields = fields_of_[function_.operands_of(b)[0].index];
    const int64_t index = *pools_.exprs.as_constant(function_.exprs_of(b)[0]);
    if (index < fields.count && fields_[fields.begin + index].valid())
      share(b.result(), Operand::of(fields_[fields.begin + index]));
  }

  /// Externs that give their first operand back under another shape.
  bool is_reshape(const Binding &b) const {
    if (b.kind == BindingKind::op)
      return ir::op_of(b) == ir::Op::reshape;
    return b.kind == BindingKind::extern_call && b.operands.count > 0 && b.result_count == 1 &&
           pools_.callee_names[b.callee] == "vm.builtin.reshape";
  }

  // --- First walk: tokens, uses, and unplanned allocations ---

  void discard(const Operand &operand, const char *reason) {
    if (operand.kind == Operand::Kind::value)
      for_each_token(operand.value(), [&](uint32_t token) {
        if (!tokens_[token].discarded)
          tokens_[token].discarded = reason;
      });
  }

  void discard_all(std::span<const Operand> operands, const char *reason) {
    for (const Operand &operand : operands)
      discard(operand, reason);
  }

  void use_all(const Binding &b, uint32_t block) {
    for (const Operand &operand : function_.operands_of(b))
      if (operand.kind == Operand::Kind::value)
        for_each_token(operand.value(), [&](uint32_t t) { use(tokens_[t], block); });
  }

  void use(Token &token, uint32_t block) {
    ++token.uses;
    if (token.block != block && !token.discarded)
      token.discarded = "it is used in another block than the one that allocates it";
  }

  Status check_parts(const Binding &b) const {
    uint64_t parts = 0;
    for (const Operand &operand : function_.operands_of(b))
      if (operand.kind == Operand::Kind::value)
        parts += pools_.types.leaf_count(function_.value(operand.value()).type);
    if (parts <= kMaxParts)
      return {};
    return located(Code::unsupported, function_, b.location,
                   "storage policy slots counts each part of a tuple, and this binding has more "
                   "than 65536; pass fewer, or use policy packed");
  }

  Status make_token(const Binding &b, uint32_t block) {
    const ir::Type type = pools_.types[function_.value(b.result()).type];
    Token token;
    token.tensor = b.result();
    token.scope = type.scope;
    token.dtype = type.dtype;
    token.block = block;
    if (!type.known_shape) {
      token.discarded = "its shape is not known";
    } else {
      CUGRT_ASSIGN(token.bytes, bytes_at_bounds(type, b));
    }
    token_of_[b.result().index] = static_cast<uint32_t>(tokens_.size());
    tokens_.push_back(token);
    return {};
  }

  Result<ExprId> bytes_at_bounds(ir::Type type, const Binding &b) {
    for (ExprId &dim : type.dims)
      dim = bounded_above(pools_.exprs, dim, bounds_);
    for (ExprId &stride : type.strides)
      stride = bounded_above(pools_.exprs, stride, bounds_);
    const ExprId bytes = ir::tensor_bytes(pools_.exprs, type);
    std::vector<ir::SymbolId> symbols;
    pools_.exprs.collect_symbols(bytes, symbols);
    if (symbols.empty() && !pools_.exprs.as_constant(bytes))
      return located(Code::out_of_range, function_, b.location,
                     "the size of %" + function_.value(b.result()).name +
                         " overflows 63 bits at the symbols' upper bounds; lower them");
    return bytes;
  }

  Status find_tokens(uint32_t block) {
    for (const Binding &b : function_.blocks[block].bindings)
      CUGRT_TRY(find_tokens_of(b, block));
    discard_all(function_.results_of(function_.blocks[block]),
                block == 0 ? "it is a result of the function" : "it is the result of a block");
    return {};
  }

  Status find_tokens_of(const Binding &b, uint32_t block) {
    CUGRT_TRY(check_parts(b));
    const std::span<const Operand> operands = function_.operands_of(b);
    if (is_reshape(b)) {
      share(b.result(), operands[0]);
      return {};
    }
    switch (b.kind) {
    case BindingKind::alloc:
      return make_token(b, block);
    case BindingKind::alias:
    case BindingKind::view:
    case BindingKind::match_shape:
      share(b.result(), operands[0]);
      return {};
    case BindingKind::tuple:
      bind_tuple(b);
      return {};
    case BindingKind::tuple_element:
      bind_element(b);
      return {};
    case BindingKind::launch:
    case BindingKind::extern_call:
      use_all(b, block);
      return {};
    case BindingKind::if_:
      discard(operands[0], "it is the condition of an if");
      return find_tokens_in_blocks(b);
    case BindingKind::while_:
      discard_all(operands.first(b.carried_count), "it is carried by a while");
      return find_tokens_in_blocks(b);
    case BindingKind::call:
      discard_all(operands, "it is passed to another function");
      return {};
    case BindingKind::host_call:
      discard_all(operands, "it is passed to a host builtin, which may keep it");
      return {};
    case BindingKind::op:
      discard_all(operands, "it is passed to a tensor-level op");
      return {};
    case BindingKind::kill:
      discard_all(operands, "it is killed explicitly");
      return {};
    case BindingKind::read_symbol:
      discard_all(operands, "a device symbol is read from it");
      return {};
    case BindingKind::alloc_storage:
    case BindingKind::alloc_tensor:
    case BindingKind::constant:
    case BindingKind::shape:
    case BindingKind::literal:
      return {};
    }
    return {};
  }

  Status find_tokens_in_blocks(const Binding &b) {
    for (uint32_t block = b.blocks.begin; block < b.blocks.end(); ++block)
      CUGRT_TRY(find_tokens(block));
    return {};
  }

  // --- Second walk: blocks of memory ---

  Status hand_out(uint32_t block) {
    const size_t first_chunk = plan_.chunks.size();
    for (const Binding &b : function_.blocks[block].bindings) {
      if (b.kind == BindingKind::alloc)
        allocate(tokens_[token_of_[b.result().index]]);
      else if ((b.kind == BindingKind::launch || b.kind == BindingKind::extern_call) &&
               !is_reshape(b))
        release_operands(b);
      for (uint32_t nested = b.blocks.begin; nested < b.blocks.end(); ++nested)
        CUGRT_TRY(hand_out(nested));
    }
    if (block != 0)
      for (size_t chunk = first_chunk; chunk < plan_.chunks.size(); ++chunk)
        pool_.withdraw(static_cast<uint32_t>(chunk));
    return {};
  }

  void allocate(Token &token) {
    if (token.discarded)
      return;
    std::optional<uint32_t> chunk;
    if (token.uses > 0)
      chunk =
          pool_.take(token.scope, token.dtype, token.bytes, pools_.exprs.as_constant(token.bytes));
    if (!chunk)
      chunk = add_chunk(token);
    if (const std::optional<int64_t> bytes = pools_.exprs.as_constant(token.bytes))
      if (*bytes > *pools_.exprs.as_constant(plan_.chunks[*chunk].bytes))
        plan_.chunks[*chunk].bytes = token.bytes;
    token.chunk = *chunk;
  }

  uint32_t add_chunk(const Token &token) {
    plan_.chunks.push_back({token.scope, token.dtype, token.bytes, token.block, token.tensor});
    return static_cast<uint32_t>(plan_.chunks.size() - 1);
  }

  void release_operands(const Binding &b) {
    for (const Operand &operand : function_.operands_of(b))
      if (operand.kind == Operand::Kind::value)
        for_each_token(operand.value(), [&](uint32_t t) {
          Token &token = tokens_[t];
          if (token.discarded)
            return;
          CUGRT_CHECK(token.uses > 0);
          if (--token.uses > 0)
            return;
          const ExprId bytes = plan_.chunks[token.chunk].bytes;
          pool_.give_back(token.chunk, token.scope, token.dtype, bytes,
                          pools_.exprs.as_constant(bytes));
        });
  }

  // --- What escapes and has symbolic dimensions ---

  bool plans_dynamic_results() const {
    for (const ir::Attribute &attribute : function_.extra_attributes)
      if (attribute.name == kPlanDynamicResults)
        if (const bool *flag = std::get_if<bool>(&attribute.value))
          return *flag;
    return false;
  }

  Status give_own_chunks() {
    for (Token &token : tokens_) {
      const ir::Type &type = pools_.types[function_.value(token.tensor).type];
      const bool dynamic = std::any_of(type.dims.begin(), type.dims.end(),
                                       [&](ExprId dim) { return !pools_.exprs.as_constant(dim); });
      if (token.discarded && type.known_shape && dynamic)
        token.chunk = add_chunk(token);
    }
    return {};
  }

  ir::Module &pools_;
  const ir::Function &function_;
  std::vector<Token> tokens_;        // in program order
  std::vector<uint32_t> token_of_;   // by value
  std::vector<ir::Range> fields_of_; // by value: of tuples, into fields_
  std::vector<ValueId> fields_;      // invalid: a field that is no value
  const ir::SymbolDomain bounds_;
  ChunkPool pool_;
  ChunkPlan plan_;
};

// --- Upper bounds that stay symbolic ---

class Bounder {
public:
  Bounder(ir::ExprPool &exprs, const ir::Domain &domain) : exprs_(exprs), domain_(domain) {}

  /// Invalid where none is known.
  ExprId bound(ExprId expr, bool above) {
    const ir::Interval range = exprs_.range(expr, domain_);
    const int64_t end = above ? range.upper : range.lower;
    const bool is_free = exprs_[expr].kind == ir::ExprKind::symbol &&
                         domain_.box[size_t(exprs_[expr].value)].upper == INT64_MAX;
    if (is_free)
      return expr;
    if (end != (above ? INT64_MAX : INT64_MIN))
      return exprs_.constant(end);
    return of_operator(expr, above);
  }

private:
  ExprId of_operator(ExprId expr, bool above) {
    const ir::ExprNode node = exprs_[expr];
    switch (node.kind) {
    case ir::ExprKind::add:
      return combine(node.kind, bound(node.a, above), bound(node.b, above));
    case ir::ExprKind::sub:
      return combine(node.kind, bound(node.a, above), bound(node.b, !above));
    case ir::ExprKind::min:
    case ir::ExprKind::max:
      return combine(node.kind, bound(node.a, above), bound(node.b, above));
    case ir::ExprKind::mul:
      return of_product(node, above);
    case ir::ExprKind::floordiv:
    case ir::ExprKind::ceildiv:
      if (exprs_.range(node.b, domain_).lower > 0 && exprs_.as_constant(node.b))
        return combine(node.kind, bound(node.a, above), node.b);
      return {};
    default:
      return {};
    }
  }

  ExprId of_product(const ir::ExprNode &node, bool above) {
    if (exprs_.range(node.a, domain_).lower >= 0 && exprs_.range(node.b, domain_).lower >= 0)
      return combine(node.kind, bound(node.a, above), bound(node.b, above));
    for (auto [factor, other] : {std::pair(node.a, node.b), std::pair(node.b, node.a)})
      if (std::optional<int64_t> constant = exprs_.as_constant(factor); constant && *constant < 0)
        return combine(node.kind, factor, bound(other, !above));
    return {};
  }

  ExprId combine(ir::ExprKind kind, ExprId a, ExprId b) {
    return a.valid() && b.valid() ? exprs_.make(kind, a, b) : ExprId{};
  }

  ir::ExprPool &exprs_;
  const ir::Domain &domain_;
};

} // namespace

ExprId bounded_above(ir::ExprPool &exprs, ExprId expr, const ir::Domain &domain) {
  const ir::Interval range = exprs.range(expr, domain);
  if (range.upper != INT64_MAX)
    return exprs.constant(std::max<int64_t>(range.upper, 0));
  const ExprId bound = Bounder(exprs, domain).bound(expr, true);
  return bound.valid() ? bound : expr;
}

Result<ChunkPlan> plan_chunks(ir::Module &pools, const ir::Function &function) {
  return ChunkPlanner(pools, function).run();
}

} // namespace cugrt::plan
