// Matches of products that share rows; see product_patterns.h.
#include "compiler/passes/product_patterns.h"

#include "compiler/ir_names.h"
#include "compiler/passes/value_uses.h"
#include "ir/module/names.h"
#include "ops/emit/element_ops.h"
#include "ops/emit/index_space.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace cugrt::passes {

namespace {

constexpr size_t kMostProducts = 4, kMostParts = 8;
constexpr int64_t kWidestHead = 256;

class Matcher {
public:
  Matcher(ir::Module &module, const ir::Function &function, bool takes_matmul)
      : module_(module), function_(function), domain_(function.symbol_domain(module.exprs)),
        takes_matmul_(takes_matmul), uses_(function), is_taken_(function.values.size()) {}

  ProductMatches run() {
    for (uint32_t b = 0; b < function_.blocks.size(); ++b) {
      block_ = b;
      runs_.emplace(function_.blocks[b]);
      for (const Binding &binding : function_.blocks[b].bindings)
        if (is_product(binding) && !is_taken_[binding.first_result])
          match(binding);
    }
    return std::move(found_);
  }

private:
  // --- Queries about values ----------------------------------------------------------------------

  const ir::Type &type(ValueId value) const { return module_.types[function_.value(value).type]; }
  std::span<const Operand> operands(const Binding &b) const { return function_.operands_of(b); }
  std::optional<int64_t> constant(ir::ExprId dim) const { return module_.exprs.as_constant(dim); }
  bool is_plain(ValueId value) const { return type(value).is_plain_tensor(); }
  bool is_floating(ValueId value) const {
    return ir::info(type(value).dtype).kind == ir::DTypeKind::floating &&
           !codegen::element_type(type(value).dtype).empty();
  }
  ir::ExprId rows_of(ValueId x) const {
    const std::vector<ir::ExprId> &dims = type(x).dims;
    return codegen::element_count(module_.exprs, std::span(dims).first(dims.size() - 1));
  }
  /// Whether a binding stands in this block, in the same run as the product that is looked at.
  bool is_in_run(const Binding *b) const {
    return runs_->contains(b) && runs_->run_at(runs_->position(b)) == run_;
  }
  /// And before the writes of caches that end it.
  bool is_near(const Binding *b) const { return is_in_run(b) && !runs_->is_ending(b); }
  /// The value that a value names or is a part of.
  ValueId root(ValueId value) const {
    for (const Binding *b = uses_.maker(value);
         b && (b->kind == BindingKind::view || b->kind == BindingKind::alias ||
               is_op(*b, Op::reshape) || ir::writes_operand(*b));
         b = uses_.maker(value))
      value = function_.operand_of(*b, 0);
    return value;
  }
  bool has_bias_of(const Binding &b, size_t i, DType dtype) const {
    const ValueId bias = function_.operand_of(b, i);
    return !bias.valid() || (is_plain(bias) && type(bias).dtype == dtype);
  }

  bool is_product(const Binding &b) const {
    const bool is_blocks = is_op(b, Op::matmul_blocks);
    if (!is_blocks && !(takes_matmul_ && is_op(b, Op::matmul)))
      return false;
    const ValueId x = function_.operand_of(b, 0), w = function_.operand_of(b, 1);
    if (!is_plain(x) || !is_plain(w) || !is_floating(x) || x == w || type(x).dims.size() < 2 ||
        type(w).dims.size() != 2 || !is_plain(b.result()) || !has_bias_of(b, 2, type(x).dtype))
      return false;
    if (!is_blocks && (type(w).dtype != type(x).dtype ||
                       !ir::op_bool(Op::matmul, function_.attributes_of(b), "transpose_b")))
      return false;
    return constant(type(w).dims[0]).value_or(0) > 0 && constant(type(w).dims[1]).value_or(0) > 0;
  }
  int64_t columns_of(const Binding &product) const {
    return *constant(type(function_.operand_of(product, 1)).dims[0]);
  }

  // --- One match ---------------------------------------------------------------------------------

  using Part = ProductMatch::Part;
  void match(const Binding &first) {
    match_ = {};
    match_.block = block_;
    first_ = runs_->position(&first);
    run_ = runs_->run_at(first_);
    match_.x = function_.operand_of(first, 0);
    match_.rows = rows_of(match_.x);
    match_.depth = *constant(type(match_.x).dims.back());
    const int64_t most = module_.exprs.range(match_.rows, domain_).upper;
    std::vector<const Binding *> products;
    for (const Binding *b : uses_.readers(match_.x))
      if (is_near(b) && is_product(*b) && function_.operand_of(*b, 0) == match_.x &&
          !is_taken_[b->first_result] && products.size() < kMostParts &&
          std::ranges::find(products, b) == products.end())
        products.push_back(b);
    for (const Binding *b : products)
      is_taken_[b->first_result] = true; // looked at once
    if (most > codegen::kMostProductRows)
      return note(names_of(products) + ": not fused: " +
                  (most == INT64_MAX ? "any number of" : "up to " + std::to_string(most)) +
                  " rows; one launch takes at most " + std::to_string(codegen::kMostProductRows));
    match_.most_rows = std::max<int64_t>(most, 1);
    for (const Binding *b : products)
      match_.parts.push_back({{b}, {}, nullptr, nullptr, nullptr, b->result()});
    members_ = {products.begin(), products.end()};
    std::string why_alone;
    find_turns();
    find_elements();
    for (Part &part : match_.parts)
      find_append(part);
    find_norm(why_alone);
    if (!match_.norm)
      find_rounding();
    match_.pays = pays();
    if (!match_.pays && !why_alone.empty())
      note(names_of(products) + ": " + why_alone);
    if (!finish())
      return note(!match_.pays ? ""
                               : names_of(products) +
                                     ": not fused: what lies between would have to stand both "
                                     "before and behind it");
    if (match_.pays && !why_alone.empty())
      note(names_of(match_.bindings) + ": " + why_alone);
    if (match_.pays)
      note(names_of(match_.bindings) + ": one launch");
    found_.matches.push_back(std::move(match_));
  }

  /// FuseOps has elementwise ops behind one matmul; one op alone is no match.
  bool pays() const {
    const Part &part = match_.parts.front();
    return match_.parts.size() > 1 || match_.norm || match_.rounding || part.append ||
           part.rotary || part.products.size() > 1 ||
           (!part.ops.empty() && is_op(*part.products.front(), Op::matmul_blocks));
  }

  /// reshape, the heads' norm, cast, rotary, cast and reshape behind one product.
  void find_turns() {
    for (Part &part : match_.parts) {
      const DType dtype = type(part.result).dtype;
      std::vector<const Binding *> chain, taken;
      const Binding *rotary = nullptr, *norm = nullptr;
      ValueId value = part.result;
      for (const Binding *b = uses_.only_reader(value);
           b && is_near(b) && b->kind == BindingKind::op; b = uses_.only_reader(value)) {
        if (function_.operand_of(*b, 0) != value || b->result_count != 1 || !is_plain(b->result()))
          break;
        const Op op = ir::op_of(*b);
        if (op == Op::rms_norm && !rotary && !norm && type(value).dtype == dtype)
          norm = b;
        else if (op == Op::rotary && !rotary && takes_turn(*b, part, norm))
          rotary = b;
        else if (op != Op::reshape &&
                 !(op == Op::cast && type(b->result()).dtype == (rotary ? dtype : DType::f32)))
          break;
        chain.push_back(b);
        value = b->result();
        if (rotary && type(value).dtype == dtype) {
          part.result = value;
          part.rotary = rotary;
          part.head_norm = norm;
          taken = chain;
        }
      }
      members_.insert(taken.begin(), taken.end());
    }
  }

  bool takes_turn(const Binding &rotary, const Part &part, const Binding *norm) const {
    const ir::Type &x = type(function_.operand_of(rotary, 0));
    const size_t rank = x.dims.size();
    const int64_t dims = ir::op_integer(Op::rotary, function_.attributes_of(rotary), "dims");
    const int64_t width = constant(x.dims.back()).value_or(0), turned = dims ? dims : width;
    const int64_t heads = constant(x.dims[rank - 2]).value_or(0);
    const ir::ExprId rows =
        codegen::element_count(module_.exprs, std::span(x.dims).first(rank - 2));
    if (width % 2 || turned % 2 || heads * width != columns_of(*part.products.front()) ||
        rows != match_.rows)
      return false;
    if (!norm)
      return true;
    const ValueId scale = function_.operand_of(*norm, 1);
    const DType dtype = type(part.products.front()->result()).dtype;
    return type(norm->result()).dims.back() == x.dims.back() && width <= kWidestHead &&
           width * ir::info(dtype).bytes_per_block % 16 == 0 &&
           (!scale.valid() || (is_plain(scale) && type(scale).dtype == dtype));
  }

  /// Elementwise ops behind products, in the order of the function.
  void find_elements() {
    const std::vector<Binding> &bindings = function_.blocks[block_].bindings;
    std::unordered_set<uint32_t> tainted; // by value: computed from the match's results
    for (const Part &part : match_.parts)
      tainted.insert(part.result.index);
    for (const Binding *b : members_)
      tainted.insert(b->first_result);
    for (uint32_t at = first_ + 1; at < bindings.size() && runs_->run_at(at) == run_; ++at) {
      const Binding &b = bindings[at];
      if (members_.contains(&b))
        continue;
      if (!join(b, tainted) && reads(b, tainted))
        for (uint32_t i = 0; i < b.result_count; ++i)
          tainted.insert(b.first_result + i);
    }
  }

  bool reads(const Binding &b, const std::unordered_set<uint32_t> &values) const {
    return std::ranges::any_of(operands(b), [&](const Operand &operand) {
      return operand.kind == Operand::Kind::value && values.contains(operand.index);
    });
  }

  bool join(const Binding &b, std::unordered_set<uint32_t> &tainted) {
    if (b.kind != BindingKind::op || b.result_count != 1 || !is_plain(b.result()))
      return false;
    std::vector<ir::TypeId> types;
    for (size_t i = 0; i < operands(b).size(); ++i)
      types.push_back(function_.operand_of(b, i).valid()
                          ? function_.value(function_.operand_of(b, i)).type
                          : ir::TypeId());
    const ir::TypeId result = function_.value(b.result()).type;
    const ir::OpPattern pattern = ir::op_pattern(module_, ir::op_of(b), types, result);
    if ((pattern != ir::OpPattern::elementwise && pattern != ir::OpPattern::broadcast) ||
        !codegen::can_fuse(module_, ir::op_of(b), types, result))
      return false;
    std::vector<size_t> joined;
    size_t products = 0;
    for (size_t i = 0; i < operands(b).size(); ++i) {
      const ValueId value = function_.operand_of(b, i);
      if (!value.valid())
        return false;
      const auto part = std::ranges::find_if(match_.parts, [&](const Part &p) {
        return p.result == value && !p.rotary && sole_user(value, b);
      });
      const auto number = size_t(part - match_.parts.begin());
      if (part == match_.parts.end()) {
        if (tainted.contains(value.index) || !is_plain(value))
          return false;
        continue;
      }
      if (type(b.result()).dims != type(value).dims)
        return false;
      if (std::ranges::find(joined, number) == joined.end()) {
        joined.push_back(number);
        products += part->products.size();
      }
    }
    if (joined.empty() || products > kMostProducts)
      return false;
    std::ranges::sort(joined); // into the first
    Part &into = match_.parts[joined.front()];
    for (size_t i = joined.size(); i-- > 1;) {
      Part &from = match_.parts[joined[i]];
      into.products.insert(into.products.end(), from.products.begin(), from.products.end());
      into.ops.insert(into.ops.end(), from.ops.begin(), from.ops.end());
      match_.parts.erase(match_.parts.begin() + ptrdiff_t(joined[i]));
    }
    into.ops.push_back(&b);
    std::ranges::sort(into.ops, {}, [&](const Binding *op) { return runs_->position(op); });
    into.result = b.result();
    members_.insert(&b);
    tainted.insert(b.first_result);
    return true;
  }

  /// Whether a value is used by that binding alone, perhaps as several operands.
  bool sole_user(ValueId value, const Binding &b) const {
    return !uses_.is_yielded(value) &&
           std::ranges::all_of(uses_.readers(value),
                               [&](const Binding *user) { return user == &b; });
  }

  /// The write of a part as it is to a cache, behind reshapes alone.
  void find_append(Part &part) {
    std::vector<const Binding *> reshapes;
    ValueId value = part.result;
    const Binding *b = uses_.only_reader(value);
    for (; b && is_in_run(b) && is_op(*b, Op::reshape); b = uses_.only_reader(value)) {
      reshapes.push_back(b);
      value = b->result();
    }
    if (!b || !is_in_run(b) || !is_op(*b, Op::cache_write) ||
        function_.operand_of(*b, 1) != value || !sole_operand(*b, value) || !part.ops.empty() ||
        part.products.size() != 1)
      return;
    const ir::Type &x = type(value);
    const ir::ExprId rows = codegen::element_count(module_.exprs, std::span(x.dims).first(2));
    const ir::ExprId width = codegen::element_count(module_.exprs, std::span(x.dims).last(2));
    if (rows != match_.rows || constant(width) != columns_of(*part.products.front()) ||
        !is_floating(function_.operand_of(*b, 0)) || !is_plain(function_.operand_of(*b, 0)) ||
        reads_cache(*b))
      return;
    part.append = b;
    part.result = value;
    members_.insert(reshapes.begin(), reshapes.end());
    members_.insert(b);
  }
  bool sole_operand(const Binding &b, ValueId value) const {
    return std::ranges::count(operands(b), Operand::of(value)) == 1;
  }

  void find_norm(std::string &why_not) {
    const Binding *norm = uses_.maker(match_.x), *cast = nullptr;
    if (norm && is_op(*norm, Op::cast) && is_near(norm) &&
        uses_.only_reader(function_.operand_of(*norm, 0)) == norm)
      norm = uses_.maker(function_.operand_of(*(cast = norm), 0));
    if (!norm || (!is_op(*norm, Op::rms_norm) && !is_op(*norm, Op::layer_norm)))
      return;
    const std::string name(ir::op_info(ir::op_of(*norm)).name);
    const ValueId y = function_.operand_of(*norm, 0), normed = norm->result();
    std::string why = codegen::why_no_norm(type(match_.x).dtype, type(normed).dtype, match_.depth,
                                           match_.most_rows);
    if (!is_row_norm(*norm, normed) ||
        (cast && (type(normed).dtype != DType::f32 || type(match_.x).dtype == DType::f64)))
      why = "a launch stands between, or its operands are of other forms";
    if (!is_read_by_products())
      why = "its result is read elsewhere";
    if (!why.empty()) {
      why_not = name + " stays apart: " + why;
      return;
    }
    members_.insert(norm);
    match_.norm = norm;
    match_.x = y;
    if (!cast)
      return find_sum();
    members_.insert(cast);
    const Binding *before = uses_.maker(y); // what the norm reads may be narrow, too
    if (!before || !is_op(*before, Op::cast) || !is_near(before) ||
        !is_plain(function_.operand_of(*before, 0)) ||
        type(function_.operand_of(*before, 0)).dtype != type(cast->result()).dtype)
      return;
    match_.x = function_.operand_of(*before, 0);
    if (uses_.only_reader(y) == norm)
      members_.insert(before);
  }

  /// Whether only the products read their operands.
  bool is_read_by_products() const {
    return !uses_.is_yielded(match_.x) &&
           std::ranges::all_of(uses_.readers(match_.x), [&](const Binding *user) {
             return members_.contains(user) && function_.operand_of(*user, 0) == match_.x;
           });
  }

  /// The cast of f32 rows that the products alone read, where these are no fresh result of an op
  /// that nothing else reads: its kernel rounds them as it stores.
  void find_rounding() {
    const Binding *cast = uses_.maker(match_.x);
    if (!cast || !is_op(*cast, Op::cast) || !is_near(cast) || !is_read_by_products())
      return;
    const ValueId rows = function_.operand_of(*cast, 0);
    const DType dtype = type(match_.x).dtype;
    if (uses_.is_stored_by_maker(rows) || !is_plain(rows) || type(rows).dtype != DType::f32 ||
        !is_half(dtype) || !codegen::holds_rows(dtype, match_.depth, match_.most_rows))
      return;
    members_.insert(cast);
    match_.rounding = cast;
    match_.x = rows;
  }

  /// Whether a kernel of products computes the norm, of rows like `x`, where a block holds them.
  bool is_row_norm(const Binding &b, ValueId x) const {
    const DType dtype = type(x).dtype;
    return (is_op(b, Op::rms_norm) || is_op(b, Op::layer_norm)) && is_near(&b) &&
           is_plain(function_.operand_of(b, 0)) &&
           type(function_.operand_of(b, 0)).dtype == dtype && has_bias_of(b, 1, dtype) &&
           has_bias_of(b, 2, dtype);
  }

  /// The sum that the norm reads, of rows as they are and a norm of others that it alone reads.
  void find_sum() {
    const Binding *sum = uses_.maker(match_.x);
    if (!sum || !is_op(*sum, Op::add) || !is_near(sum))
      return;
    for (size_t i : {0, 1}) {
      const ValueId summed = function_.operand_of(*sum, i),
                    residual = function_.operand_of(*sum, 1 - i);
      const Binding *norm = uses_.maker(summed);
      if (!norm || !is_row_norm(*norm, match_.x) || uses_.only_reader(summed) != sum ||
          !is_plain(residual) || type(residual).dims != type(match_.x).dims ||
          type(summed).dims != type(match_.x).dims)
        continue;
      members_.insert(norm);
      members_.insert(sum);
      match_.sum = sum;
      match_.summed_norm = norm;
      match_.residual = residual;
      match_.is_sum_read = uses_.only_reader(match_.x) != match_.norm;
      match_.x = function_.operand_of(*norm, 0);
      return;
    }
  }

  /// Puts the match in order. False where something would have to stand before it and behind it, or
  /// reads a cache that is written, or writes another meanwhile.
  bool finish() {
    const std::vector<Binding> &bindings = function_.blocks[block_].bindings;
    uint32_t last = 0;
    first_ = UINT32_MAX;
    for (const Binding *b : members_) {
      first_ = std::min(first_, runs_->position(b));
      last = std::max(last, runs_->position(b));
    }
    std::unordered_set<uint32_t> ours, behind; // values
    for (uint32_t at = first_; at <= last; ++at) {
      const Binding &b = bindings[at];
      if (members_.contains(&b)) {
        if (reads(b, behind) || (!is_append(b) && reads_cache(b)))
          return false;
        match_.bindings.push_back(&b);
        for (uint32_t i = 0; i < b.result_count; ++i)
          ours.insert(b.first_result + i);
      } else if (ir::writes_operand(b)) {
        return false;
      } else if (reads(b, ours) || reads(b, behind)) {
        if (reads_cache(b))
          return false;
        match_.after.push_back(&b);
        for (uint32_t i = 0; i < b.result_count; ++i)
          behind.insert(b.first_result + i);
      }
    }
    for (const Binding *b : match_.bindings)
      if (b->result_count && match_.pays)
        is_taken_[b->first_result] = true;
    return true;
  }
  bool is_append(const Binding &b) const {
    return std::ranges::any_of(match_.parts, [&](const Part &part) { return part.append == &b; });
  }
  /// Whether an operand is one of the caches that the match writes.
  bool reads_cache(const Binding &b) const {
    return std::ranges::any_of(operands(b), [&](const Operand &given) {
      return given.kind == Operand::Kind::value &&
             std::ranges::any_of(match_.parts, [&](const Part &part) {
               return part.append &&
                      root(function_.operand_of(*part.append, 0)) == root(given.value());
             });
    });
  }

  // --- Notes -------------------------------------------------------------------------------------

  void note(const std::string &text) {
    if (!text.empty())
      ++found_.notes[text];
  }
  std::string names_of(const std::vector<const Binding *> &bindings) const {
    return ir::joined(bindings, [&](const Binding *b) -> std::string_view {
      return b->kind == BindingKind::op ? ir::op_info(ir::op_of(*b)).name
                                        : module_.kernels[b->callee].name;
    });
  }

  ir::Module &module_; // expressions are added while types are looked at
  const ir::Function &function_;
  const ir::SymbolDomain domain_;
  const bool takes_matmul_;
  const ValueUses uses_;
  std::vector<bool> is_taken_; // by value
  uint32_t block_ = 0;
  std::optional<BlockRuns> runs_; // of the block
  ProductMatch match_;
  uint32_t first_ = 0, run_ = 0;
  std::unordered_set<const Binding *> members_; // of the match that is looked for
  ProductMatches found_;
};

} // namespace

ProductMatches match_products(ir::Module &module, const ir::Function &function, bool takes_matmul) {
  return Matcher(module, function, takes_matmul).run();
}

} // namespace cugrt::passes
