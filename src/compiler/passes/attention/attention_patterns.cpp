// Matches of attention; see attention_patterns.h.
#include "compiler/passes/attention/attention_patterns.h"

#include "compiler/ir_names.h"
#include "compiler/passes/attention/value_reader.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <utility>

namespace cugrt::passes {

namespace {

using Dims = std::vector<ExprId>;

constexpr size_t kMostSteps = 64; // between the products: each is on the stack
constexpr int64_t kMostWidth = 1024, kMostMmaWidth = 256, kFewQueries = 16;
// Bytes of keys and values that queries may read again and again without tensor cores, some 20
// microseconds from a cache of the second level; products share their reads.
constexpr int64_t kMostRead = int64_t(64) << 20;
constexpr double kHides = -1e4, kLosesScores = -1e9;

class AttentionMatcher {
public:
  AttentionMatcher(ir::Module &module, const ir::Function &function, const AttentionTarget &target,
                   const std::vector<bool> &written)
      : module_(module), function_(function), target_(target), written_(written),
        read_(module, function), masks_(read_), domain_(function.symbol_domain(module.exprs)) {}

  AttentionMatches run() {
    for (uint32_t b = 0; b < function_.blocks.size(); ++b) {
      read_.enter(b);
      for (const Binding &binding : function_.blocks[b].bindings)
        if (is_op(&binding, Op::softmax))
          look_at(binding);
    }
    return std::move(found_);
  }

private:
  const ir::Type &type(ValueId value) const { return read_.type(value); }
  ValueId operand(const Binding &b, size_t i) const { return read_.operand(b, i); }

  void look_at(const Binding &softmax) {
    match_ = {};
    is_guarded_ = is_scaled_ = is_mask_scaled_ = is_mask_mixed_ = false;
    guarded_by_ = {};
    scale_behind_ = 1;
    steps_ = 0;
    parts_.clear();
    split_.clear();
    why_.clear();
    const size_t rank = type(softmax.result()).dims.size();
    const int64_t axis = ir::op_integer(Op::softmax, function_.attributes_of(softmax), "axis");
    if (ir::normalize_axis(axis, rank) != rank - 1 || !find_second(softmax) ||
        !find_first(operand(softmax, 0), &softmax))
      return; // no attention at all
    match_.members.push_back(&softmax);
    if (finish() && is_apart()) {
      taken_.insert(match_.product);
      taken_.insert(match_.members.begin(), match_.members.end());
      found_.matches.push_back(std::move(match_));
    } else
      ++found_.notes["softmax between products stays: " + why_];
  }

  /// Whether its bytes may be written between the first op here that reads it and the second
  /// product, where attention does.
  bool is_overtaken(ValueId value) const {
    const Binding *first = match_.product;
    for (const Binding *reader : read_.readers(value)) {
      if (reader->kind == ir::BindingKind::kill)
        return true;
      if (reader->kind == ir::BindingKind::op && read_.is_here(reader))
        first = std::min(first, reader);
    }
    return written_[value.index] && std::any_of(first, match_.product, ir::may_write);
  }

  /// A second product may be the first one of the next pattern.
  bool is_apart() {
    return std::ranges::none_of(match_.members, [&](auto *b) { return taken_.contains(b); }) ||
           no("one of the products belongs to other attention");
  }

  bool no(std::string why) {
    why_ = std::move(why);
    return false;
  }

  // --- From the softmax to the second product ----------------------------------------------------

  bool find_second(const Binding &softmax) {
    ValueId weights = softmax.result();
    const Binding *b = guard_of(weights);
    if (b) {
      is_guarded_ = true;
      weights = b->result();
    }
    bool is_exchanged = false; // weights, before a product that has them behind values
    for (b = read_.only_reader(weights); b; b = read_.only_reader(weights)) {
      if (is_op(b, Op::matmul)) {
        const bool kept = ir::op_bool(Op::matmul, function_.attributes_of(*b), "transpose_b");
        match_.is_turned = operand(*b, 1) == weights;
        if (operand(*b, 0) == operand(*b, 1) || operand(*b, 2).valid() ||
            (match_.is_turned ? kept == is_exchanged : is_exchanged))
          return false;
        match_.product = b;
        return true;
      }
      if (is_op(b, Op::transpose) && !is_exchanged && read_.exchanges(*b))
        is_exchanged = true;
      else if (!(is_op(b, Op::reshape) && operand(*b, 0) == weights && splits(b)) &&
               !(is_op(b, Op::cast) && read_.is_floating(b->result())))
        return false;
      match_.members.push_back(b);
      weights = b->result();
    }
    return false;
  }

  /// where() that makes rows of which nothing is seen 0; null: none.
  const Binding *guard_of(ValueId weights) {
    const Binding *guard = nullptr, *test = nullptr;
    for (const Binding *b : read_.readers(weights)) {
      if (is_op(b, Op::where) && operand(*b, 2) == weights && read_.scalar(operand(*b, 1)) == 0.0)
        guard = b;
      else if (is_op(b, Op::is_nan))
        test = b;
      else
        return nullptr;
    }
    if (!guard || read_.is_yielded(weights) || type(guard->result()).dims != type(weights).dims)
      return nullptr;
    const ValueId condition = operand(*guard, 0);
    if (test) {
      if (condition != test->result() || !read_.only_reader(condition))
        return nullptr;
      match_.members.push_back(test);
    } else {
      guarded_by_ = masks_.largest_is_minus_infinity(condition);
      if (!guarded_by_.valid())
        return nullptr;
    }
    match_.members.push_back(guard);
    return guard;
  }

  /// Whether a reshape joins or parts sequences and heads alone; then dimensions are noted.
  bool splits(const Binding *reshape) {
    const Dims &a = type(operand(*reshape, 0)).dims, &b = type(reshape->result()).dims;
    if (a == b || read_.joins_batch(a, b) || read_.joins_batch(b, a))
      return true;
    const Dims &four = a.size() == 4 ? a : b, &three = a.size() == 4 ? b : a;
    if (four.size() != 4 || three.size() != 3 ||
        !std::equal(four.begin() + 2, four.end(), three.begin() + 1) ||
        (!split_.empty() && (split_[0] != four[0] || split_[1] != four[1])))
      return false;
    split_ = {four[0], four[1]};
    return true;
  }

  // --- From the softmax back to the first product ------------------------------------------------

  bool find_first(ValueId scores, const Binding *reader) {
    const Binding *b = read_.maker(scores);
    if (!b || read_.only_reader(scores) != reader || ++steps_ > kMostSteps)
      return false;
    const bool found = is_op(b, Op::matmul)    ? take_product(*b)
                       : is_op(b, Op::reshape) ? splits(b) && find_first(operand(*b, 0), b)
                       : is_op(b, Op::cast)
                           ? read_.is_floating(b->result()) && find_first(operand(*b, 0), b)
                       : is_op(b, Op::add)   ? take_added(*b)
                       : is_op(b, Op::where) ? take_condition(*b)
                                             : take_scale(*b);
    if (found)
      match_.members.push_back(b);
    return found;
  }

  bool take_product(const Binding &b) {
    if (operand(b, 2).valid() || operand(b, 0) == operand(b, 1))
      return false;
    first_ = &b;
    return true;
  }

  bool take_scale(const Binding &b) {
    double factor = 1;
    const ValueId scaled = read_.scaled(b, factor);
    if (!scaled.valid())
      return take_factors(b);
    if (!read_.is_floating(scaled))
      return false;
    const double before = std::exchange(scale_behind_, scale_behind_ * factor);
    if (find_first(scaled, &b)) {
      match_.scale *= factor;
      return true;
    }
    scale_behind_ = before;
    return false;
  }

  /// A tensor of factors that are alike for all positions of a row.
  bool take_factors(const Binding &b) {
    if (!is_op(&b, Op::mul) || match_.factors.valid())
      return false;
    for (size_t i : {0, 1}) {
      const ValueId scores = operand(b, i), factors = operand(b, 1 - i);
      const Dims &dims = type(factors).dims;
      if (type(scores).dims != type(b.result()).dims || !read_.is_floating(factors) ||
          dims.empty() || dims.back() != module_.exprs.constant(1))
        continue;
      const bool before = std::exchange(is_scaled_, true);
      match_.factors = factors;
      match_.factor_dims = dims;
      if (find_first(scores, &b))
        return true;
      is_scaled_ = before;
      match_.factors = {};
    }
    return false;
  }

  bool take_added(const Binding &b) {
    for (size_t i : {0, 1}) {
      const ValueId scores = operand(b, i), mask = operand(b, 1 - i);
      if (type(scores).dims == type(b.result()).dims &&
          try_part({mask, false, false, 0, scale_behind_, type(mask).dims}, b, scores))
        return true;
    }
    return false;
  }

  bool take_condition(const Binding &b) {
    for (size_t i : {1, 2}) {
      const ValueId scores = operand(b, i), condition = operand(b, 0);
      const std::optional<double> fill = read_.scalar(operand(b, 3 - i));
      if (fill && *fill * scale_behind_ <= kHides && type(scores).dims == type(b.result()).dims &&
          try_part({condition, true, i == 2, *fill * scale_behind_, 1, type(condition).dims}, b,
                   scores))
        return true;
    }
    return false;
  }

  bool try_part(MaskPart part, const Binding &b, ValueId scores) {
    const size_t parts = parts_.size(), members = match_.members.size();
    const bool scaled = is_scaled_, mask_scaled = is_mask_scaled_, mixed = is_mask_mixed_;
    const double scale_behind = scale_behind_;
    const std::vector<ExprId> split = split_;
    const DType dtype = type(b.result()).dtype;
    is_mask_scaled_ = is_mask_scaled_ || is_scaled_ || part.scale <= 0;
    is_mask_mixed_ = is_mask_mixed_ || (parts > 0 && dtype != match_.mask_dtype);
    match_.mask_dtype = dtype;
    if (part.repeated = repeated(part.dims, type(b.result()).dims); !part.repeated.empty())
      part.dims = part.repeated;
    parts_.push_back(std::move(part));
    if (find_first(scores, &b))
      return true;
    parts_.resize(parts);
    match_.members.resize(members);
    is_scaled_ = scaled, is_mask_scaled_ = mask_scaled, is_mask_mixed_ = mixed;
    scale_behind_ = scale_behind;
    split_ = split;
    return false;
  }

  Dims repeated(Dims dims, const Dims &scores) {
    const ExprId one = module_.exprs.constant(1);
    if (scores.size() != 5 || dims.size() < 4)
      return {};
    dims.insert(dims.begin(), 5 - dims.size(), one);
    const size_t same = dims[0] == one ? 0 : 1;
    if (dims[same] != one || dims[1 - same] == one || scores[same] == one)
      return {};
    dims[same] = scores[same];
    return dims;
  }

  // --- All of it ---------------------------------------------------------------------------------

  bool finish() {
    const Binding &first = *first_, &second = *match_.product;
    const ValueId y = second.result();
    if (is_mask_scaled_)
      return no("the mask is scaled with the scores by a tensor, or by a number below 0");
    if (is_mask_mixed_)
      return no("masks are of several dtypes");
    const bool kept = ir::op_bool(Op::matmul, function_.attributes_of(first), "transpose_b");
    const bool turned =
        match_.is_turned || ir::op_bool(Op::matmul, function_.attributes_of(second), "transpose_b");
    const ValueId values = operand(second, match_.is_turned ? 0 : 1);
    const size_t rank = type(first.result()).dims.size();
    const auto is_taken = [](size_t dims) { return dims >= 3 && dims <= 5; };
    if (!is_taken(rank) || !is_taken(type(y).dims.size()))
      return no("it has other dimensions than sequences, heads, queries and positions");
    for (ValueId value : {operand(first, 0), operand(first, 1), values, y})
      if (type(value).dims.size() != (value == y || value == values ? type(y).dims.size() : rank) ||
          type(value).dtype != type(y).dtype)
        return no("its operands have other dimensions or dtypes");
    if (rank != type(y).dims.size() && (split_.empty() || std::max(rank, type(y).dims.size()) == 5))
      return no("sequences and heads are not told apart");
    match_.q = read_.peeled(operand(first, 0), false);
    match_.k = read_.peeled(operand(first, 1), !kept);
    match_.v = read_.peeled(values, turned);
    if (rank == 5) {
      HeadsOperand q5 = match_.q, k5 = match_.k, v5 = match_.v;
      if (constant(type(y).dims[2]) && read_.join_batch(q5) && read_.join_batch(k5) &&
          read_.join_batch(v5)) {
        match_.q = std::move(q5), match_.k = std::move(k5), match_.v = std::move(v5);
      } else {
        if (!parts_.empty() || match_.factors.valid())
          return no("sequences in two dimensions lie apart, and there is a mask");
        match_.q = read_.flattened(operand(first, 0), false);
        match_.k = read_.flattened(operand(first, 1), !kept);
        match_.v = read_.flattened(values, turned);
      }
    }
    if (!tell_heads(operand(first, 0)))
      return false;
    for (HeadsOperand *x : {&match_.q, &match_.k, &match_.v})
      if (!read_.part_heads(*x, match_.sequences, match_.heads))
        return no("its operands are of other sequences or heads");
    const Dims q = read_.dims_of(match_.q), k = read_.dims_of(match_.k),
               v = read_.dims_of(match_.v);
    match_.queries = q[2];
    match_.positions = k[2];
    const auto width = constant(q[3]), heads = constant(q[1]), groups = constant(k[1]);
    const auto values_width = constant(v[3]);
    if (q[0] != match_.sequences || q[1] != match_.heads || q[0] != k[0] || q[3] != k[3] ||
        !std::equal(k.begin(), k.begin() + 3, v.begin()))
      return no("keys and values have other dimensions than each other, or than queries");
    if (!width || !heads || !groups || *heads < 1 || *groups < 1 || *heads % *groups ||
        *width < 1 || !values_width || *values_width > kMostWidth)
      return no("heads and their elements are no constants, or too wide");
    match_.wider = *values_width - *width;
    if (match_.wider < 0)
      return no("values are narrower than queries and keys");
    read_.find_rows({&match_.q, &match_.k, &match_.v});
    match_.scale *= match_.q.scale * match_.k.scale;
    if (match_.v.scale != 1)
      return no("values are scaled");
    if (match_.scale == 0 || !std::isfinite(match_.scale))
      return no("the scale is 0 or infinite");
    const Dims scores = {match_.sequences, match_.heads, match_.queries, match_.positions};
    if (match_.factors.valid() &&
        (type(match_.factors).dtype != type(y).dtype || !stretch(match_.factor_dims, scores)))
      return no("what scales the scores is no factor of sequences, heads and queries");
    std::ranges::reverse(parts_);
    match_.mask = std::move(parts_);
    if ((match_.factors.valid() && is_overtaken(match_.factors)) || is_overtaken(match_.q.value) ||
        is_overtaken(match_.k.value) || is_overtaken(match_.v.value) ||
        std::ranges::any_of(match_.mask, [&](auto &part) { return is_overtaken(part.value); }))
      return no("what it reads is written before the second product");
    return take_mask() && pays(*values_width);
  }

  /// Sequences and heads of products of rank 3: as a reshape of scores has them, or that of
  /// queries, or one sequence's heads, where their rows lie so, else each is a sequence of one
  /// head.
  bool tell_heads(ValueId q) {
    const Dims dims = type(q).dims.size() == 5 ? read_.dims_of(match_.q) : type(q).dims;
    if (dims.size() == 4) {
      match_.sequences = dims[0], match_.heads = dims[1];
      return split_.empty() || (split_[0] == dims[0] && split_[1] == dims[1]) ||
             no("sequences and heads are told apart in two ways");
    }
    if (split_.empty())
      if (const auto parted = read_.heads_before(match_.q);
          parted &&
          read_.parts_alike({&match_.q, &match_.k, &match_.v}, (*parted)[0], (*parted)[1]))
        split_ = {(*parted)[0], (*parted)[1]};
    if (split_.empty() && constant(dims[0]) &&
        read_.are_heads_of_one({&match_.q, &match_.k, &match_.v}))
      split_ = {module_.exprs.constant(1), dims[0]};
    if (split_.empty())
      if (const auto all = constant(dims[0]))
        if (const ExprId heads = read_.heads_in_rows(match_.q);
            heads.valid() && constant(heads) && read_.heads_in_rows(match_.k) == heads &&
            read_.heads_in_rows(match_.v) == heads)
          split_ = {module_.exprs.constant(*all / *constant(heads)), heads};
    match_.sequences = split_.empty() ? dims[0] : split_[0];
    match_.heads = split_.empty() ? module_.exprs.constant(1) : split_[1];
    return true;
  }

  bool take_mask() {
    std::vector<MaskPart> &mask = match_.mask;
    const bool by_mask = guarded_by_.valid();
    if (by_mask &&
        (mask.size() != 1 || mask.front().is_condition || mask.front().value != guarded_by_))
      return no("rows are made 0 by another mask");
    if (mask.empty())
      return true;
    const Dims scores = {match_.sequences, match_.heads, match_.queries, match_.positions};
    for (MaskPart &part : mask) {
      if (part.dims.empty() || !stretch(part.dims, scores))
        return no("a mask does not stretch to sequences, heads, queries and positions");
    }
    const DType computed = type(match_.product->result()).dtype;
    const bool is_narrow = is_half(computed);
    if (match_.mask_dtype != computed && !(is_narrow && match_.mask_dtype == DType::f32))
      return no("the mask is of another dtype");
    // Hiding by a finite number works beside another mask as long as scores are lost in it.
    const bool several = mask.size() > 1;
    bool hides = false;
    for (const MaskPart &part : mask) {
      if (part.is_condition && several && std::isfinite(part.fill) && part.fill > kLosesScores)
        return no("of several masks one hides by " + std::to_string(part.fill));
      hides = hides || masks_.may_hide(part);
    }
    if (mask.size() == 1 && match_.queries == match_.positions &&
        masks_.is_causal(mask.front(), match_.queries, kHides / mask.front().scale)) {
      match_.causal = true; // each query sees itself
      mask.clear();
      return true;
    }
    match_.hidden_rows_are_nan = hides && !is_guarded_;
    return true;
  }

  /// The dimensions of a mask of scores [B H, Q, P] as of those of [B, H, Q, P].
  bool stretch(Dims &dims, const Dims &scores) {
    const ExprId one = module_.exprs.constant(1);
    if (dims.size() == 3 && type(first_->result()).dims.size() == 3) {
      const bool each = dims[0] == module_.exprs.mul(scores[0], scores[1]);
      if (!each && dims[0] != one)
        return false;
      const ExprId row = dims[1], column = dims[2];
      dims = {each ? scores[0] : one, each ? scores[1] : one, row, column};
    }
    if (dims.size() == 5) { // sequences in two
      const ExprId sequences = module_.exprs.mul(dims[0], dims[1]);
      dims.erase(dims.begin());
      dims[0] = sequences;
    }
    if (dims.size() > 4)
      return false;
    for (size_t i = 1; i <= dims.size(); ++i)
      if (dims[dims.size() - i] != one && dims[dims.size() - i] != scores[4 - i])
        return false;
    return true;
  }

  /// Whether the op is at least as fast as products and a softmax. Tensor cores share their reads
  /// among 64 queries; else each query reads all keys and values.
  bool pays(int64_t width) {
    const DType dtype = type(match_.product->result()).dtype;
    const bool narrow = is_half(dtype) || (dtype == DType::f32 && target_.becomes_narrow);
    if (narrow && target_.has_tensor_cores && width % 8 == 0 && width <= kMostMmaWidth)
      return true;
    const auto upper = [&](ExprId e) { return module_.exprs.range(e, domain_).upper; };
    if (upper(match_.queries) <= kFewQueries)
      return true;
    const ExprId factors[] = {match_.sequences, match_.heads, match_.queries, match_.positions};
    const int64_t rows = module_.exprs.product_upper(factors, 1, domain_);
    const int64_t bytes = 2 * width * ir::info(dtype).bytes_per_block;
    return rows <= kMostRead / bytes ||
           no("without tensor cores each query would read all keys and values");
  }

  std::optional<int64_t> constant(ExprId e) const { return module_.exprs.as_constant(e); }

  ir::Module &module_;
  const ir::Function &function_;
  const AttentionTarget target_;
  const std::vector<bool> &written_; // by value
  ValueReader read_;
  MaskFacts masks_;
  const ir::SymbolDomain domain_;
  std::unordered_set<const Binding *> taken_; // by matches
  size_t steps_ = 0;                          // back from the softmax
  AttentionMatch match_;                      // that is looked for, as all below
  const Binding *first_ = nullptr;
  std::vector<MaskPart> parts_; // from the softmax on
  std::vector<ExprId> split_;   // sequences and heads
  ValueId guarded_by_;          // the mask whose largest element makes rows 0
  double scale_behind_ = 1;     // of the numbers between what is looked at and the softmax
  bool is_guarded_ = false, is_scaled_ = false, is_mask_scaled_ = false, is_mask_mixed_ = false;
  std::string why_;
  AttentionMatches found_;
};

} // namespace

AttentionMatches match_attention(ir::Module &module, const ir::Function &function,
                                 const AttentionTarget &target, const std::vector<bool> &written) {
  return AttentionMatcher(module, function, target, written).run();
}

} // namespace cugrt::passes
