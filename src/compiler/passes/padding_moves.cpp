// What ops that move elements do with padding: shapes, joining and cutting, places. See
// padding_effects.h.
#include "compiler/passes/padding_walk.h"

#include <algorithm>
#include <cmath>

namespace cugrt::passes {

// --- Shapes --------------------------------------------------------------------------------------

/// The tensor's linear order is a product of parts, of which all but the first are padded: what is
/// not padded joins the part before it. Each dimension of the result must take whole parts from the
/// right, or unpadded factors of one: then what was added stays in its places.
Status OpPadding::reshape() {
  struct Part {
    ExprId size;
    size_t operand_dim;
  };
  ir::ExprPool &exprs = all_.exprs;
  auto is_one = [&](ExprId e) { return exprs.as_constant(e) == 1; };
  std::vector<Part> parts;
  std::vector<Fill> fill_of; // by part: of all dimensions that have it
  size_t padded_dim = 0;
  bool padded = false;
  for (size_t d = 0; d < rank(0); ++d) {
    if (is_padded(0, d)) {
      padded_dim = d;
      padded = covered_[0][d] = true;
    }
    for (ExprId part : operands_[0].facts.dims[d].parts) {
      if (is_one(part))
        continue;
      const bool adds = all_.is_padded(part);
      const Fill fill = adds ? operands_[0].facts.dims[d].fill : Fill::zero;
      if (!parts.empty() && !adds) {
        parts.back().size = exprs.mul(parts.back().size, part);
      } else {
        parts.push_back({part, d});
        fill_of.push_back(fill);
      }
    }
  }
  results_[0].all = operands_[0].facts.all;
  if (!padded)
    return {};
  for (size_t to = results_[0].dims.size(); to-- > 0;) {
    Dim &target = results_[0].dims[to];
    ExprId need = target.parts[0];
    std::vector<ExprId> taken; // innermost first
    std::optional<Fill> fill;
    while (!is_one(need)) {
      if (parts.empty())
        return refuse(0, padded_dim, "mixes");
      const ExprId part = parts.back().size, beyond = all_.quotient(need, part);
      if (all_.is_padded(part))
        fill = fill ? either(*fill, fill_of.back()) : fill_of.back();
      if (beyond.valid()) {
        taken.push_back(part);
        need = beyond;
        parts.pop_back();
        fill_of.pop_back();
        continue;
      }
      const ExprId rest = all_.quotient(part, need);
      if (!rest.valid() || all_.is_padded(need))
        return refuse(0, parts.back().operand_dim, "mixes");
      taken.push_back(need);
      parts.back().size = rest;
      need = exprs.constant(1);
    }
    target.parts.clear();
    for (size_t i = taken.size(); i-- > 0;)
      if (!target.parts.empty() && !all_.is_padded(taken[i]))
        target.parts.back() = exprs.mul(target.parts.back(), taken[i]);
      else
        target.parts.push_back(taken[i]);
    if (target.parts.empty())
      target.parts.push_back(exprs.constant(1));
    target.fill = fill.value_or(Fill::zero);
  }
  return {};
}

Status OpPadding::transpose() {
  std::vector<int64_t> axes = list("axes");
  for (size_t i = axes.size(); i < rank(0); ++i) // none given: all, last first
    axes.push_back(static_cast<int64_t>(rank(0) - 1 - i));
  for (size_t d = 0; d < rank(0); ++d)
    CUGRT_TRY(carry(0, axis(axes[d]), d));
  fills([&](size_t d, size_t) { return fill(0, d); });
  results_[0].all = operands_[0].facts.all;
  return {};
}

Status OpPadding::broadcast_to() {
  CUGRT_TRY(align(0));
  fills([&](size_t d, size_t) { return fill(0, d); });
  results_[0].all = operands_[0].facts.all;
  return {};
}

/// Padding of the last operand stays behind what was brought.
Status OpPadding::concat() {
  const size_t along = axis();
  for (size_t i = 0; i < operands_.size(); ++i)
    for (size_t d = 0; d < rank(i); ++d)
      if (d != along)
        CUGRT_TRY(carry(i, d, d));
      else if (i + 1 < operands_.size())
        CUGRT_TRY(take(i, d, Fill::any));
      else
        CUGRT_TRY(follow(i, d, d));
  fills([&](size_t d, size_t) {
    Fill all = fill(operands_.size() - 1, d);
    for (size_t i = 0; i < operands_.size() && d != along; ++i)
      all = either(all, fill(i, d));
    return all;
  });
  return {};
}

Status OpPadding::split() {
  for (size_t r = 0; r < results_.size(); ++r)
    for (size_t d = 0; d < rank(0); ++d)
      if (d != axis())
        CUGRT_TRY(carry(0, d, d, r));
  fills([&](size_t d, size_t r) { return fill(0, d, r); });
  return {};
}

/// Positions that are counted from the end, or towards it, are others in a bucket.
Status OpPadding::slice() {
  ir::ExprPool &exprs = all_.exprs;
  const std::vector<int64_t> starts = list("starts"), ends = list("ends"), steps = list("steps");
  std::vector<int64_t> axes = list("axes");
  for (size_t i = axes.size(); i < starts.size(); ++i)
    axes.push_back(static_cast<int64_t>(i));
  std::vector<bool> keeps(rank(0), true), forwards(rank(0), true);
  for (size_t d = 0; d < rank(0); ++d) {
    const ExprId from = operands_[0].dims[d], to = results_[0].dims[d].parts[0];
    if (operands_.size() > 1) {
      if (all_.is_padded(operands_[1].dims[d]))
        return refuse(1, d, "begins behind");
      // Else what was brought may lie behind the shorter part, and counts as added.
      keeps[d] = exprs.as_constant(operands_[1].dims[d]) == 0 && from == to;
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axis(axes[i]) != d)
        continue;
      const int64_t step = i < steps.size() ? steps[i] : 1;
      forwards[d] = starts[i] >= 0 && ends[i] >= 0 && step > 0;
      keeps[d] = starts[i] == 0 && step == 1 && from == to;
    }
  }
  for (size_t d = 0; d < rank(0); ++d) {
    if (!forwards[d])
      CUGRT_TRY(take(0, d, Fill::any));
    CUGRT_TRY(keeps[d] ? carry(0, d, d) : follow(0, d, d));
  }
  fills([&](size_t d, size_t) {
    return keeps[d] || (operands_.size() == 1 && is_padded(0, d)) ? fill(0, d) : Fill::any;
  });
  return {};
}

/// What is put behind a padded dimension must be what stands there already.
Status OpPadding::pad() {
  const std::vector<int64_t> before = list("before"), after = list("after");
  const std::string mode = ir::op_string(op_, attributes_, "mode");
  const double value = ir::op_float(op_, attributes_, "value");
  const bool zeros = mode == "constant" && value == 0;
  for (size_t d = 0; d < rank(0); ++d) {
    const bool grows = before[d] != 0 || after[d] != 0;
    if (after[d] != 0 || (grows && mode == "reflect"))
      CUGRT_TRY(take(0, d, zeros ? Fill::zero : Fill::any));
    CUGRT_TRY(grows ? follow(0, d, d) : carry(0, d, d));
  }
  const Fill around = zeros ? Fill::zero : std::isfinite(value) ? Fill::finite : Fill::any;
  fills([&](size_t d, size_t) {
    Fill all = fill(0, d);
    for (size_t other = 0; other < rank(0) && mode == "constant"; ++other)
      if (other != d && (before[other] != 0 || after[other] != 0))
        all = either(all, around);
    return all;
  });
  return {};
}

Status OpPadding::interpolate() {
  const bool scaled = has(2) || has(3);
  for (size_t d = 0; d < rank(0); ++d)
    if (!scaled && operands_[0].dims[d] == results_[0].dims[d].parts[0])
      CUGRT_TRY(carry(0, d, d));
    else if (is_padded(0, d) || is_padded(1, d)) // the places are those of the whole size
      return refuse(is_padded(0, d) ? 0 : 1, d, "runs along");
  fills([&](size_t d, size_t) { return like_first(d) == Fill::any ? Fill::any : Fill::finite; });
  return {};
}

/// x is [N, C, ..], the grid [N, .., places].
Status OpPadding::grid_sample() {
  CUGRT_TRY(carry(0, 0, 0));
  CUGRT_TRY(carry(0, 1, 1));
  CUGRT_TRY(carry(1, 0, 0));
  for (size_t d = 1; d + 1 < rank(1); ++d)
    CUGRT_TRY(carry(1, d, d + 1));
  fills([](size_t, size_t) { return Fill::any; });
  return {};
}

Status OpPadding::range() {
  fills([](size_t, size_t) { return Fill::place; });
  return {};
}

// --- Places --------------------------------------------------------------------------------------
// Negative ones count from the end, and those outside are moved to it or left out: in a bucket both
// would be the bucket's. So what is looked up along a padded dimension is refused.

Status OpPadding::gather() {
  const size_t along = op_ == Op::gather ? axis() : 0;
  CUGRT_TRY(take(0, along, Fill::any));
  for (size_t d = 0; d < rank(0); ++d)
    if (d != along)
      CUGRT_TRY(carry(0, d, d < along ? d : d - 1 + rank(1)));
  for (size_t d = 0; d < rank(1); ++d)
    CUGRT_TRY(carry(1, d, along + d));
  fills(
      [&](size_t d, size_t) { return d >= along && d < along + rank(1) ? Fill::any : fill(0, d); });
  return {};
}

Status OpPadding::embedding() { return gather(); }
Status OpPadding::embedding_blocks() { return gather(); }

Status OpPadding::gather_elements() {
  const size_t along = axis();
  CUGRT_TRY(take(0, along, Fill::any));
  for (size_t d = 0; d < rank(0); ++d) {
    if (d != along)
      CUGRT_TRY(carry(0, d, d));
    CUGRT_TRY(carry(1, d, d));
  }
  fills([&](size_t d, size_t) { return d == along ? Fill::any : fill(0, d); });
  return {};
}

Status OpPadding::gather_nd() {
  const auto batch = static_cast<size_t>(integer("batch_dims"));
  const size_t inner = rank(1) - 1;
  const auto places = static_cast<size_t>(*all_.exprs.as_constant(operands_[1].dims[inner]));
  for (size_t d = 0; d < rank(0); ++d)
    if (d < batch)
      CUGRT_TRY(carry(0, d, d));
    else if (d < batch + places)
      CUGRT_TRY(take(0, d, Fill::any));
    else
      CUGRT_TRY(carry(0, d, inner + d - batch - places));
  for (size_t d = 0; d < inner; ++d)
    CUGRT_TRY(carry(1, d, d));
  fills([&](size_t d, size_t) { return d >= inner ? fill(0, d) : Fill::any; });
  return {};
}

Status OpPadding::scatter_elements() {
  for (size_t i : {0, 1, 2})
    for (size_t d = 0; d < rank(i); ++d)
      CUGRT_TRY(i == 0 && d != axis() ? carry(0, d, d) : take(i, d, Fill::any));
  fills([](size_t, size_t) { return Fill::any; });
  return {};
}

Status OpPadding::scatter_nd() {
  const size_t inner = rank(1) - 1;
  const auto places = static_cast<size_t>(*all_.exprs.as_constant(operands_[1].dims[inner]));
  for (size_t d = 0; d < rank(0); ++d)
    CUGRT_TRY(d < places ? take(0, d, Fill::any) : carry(0, d, d));
  for (size_t d = 0; d < inner; ++d) { // what is added to the updates goes to places too
    CUGRT_TRY(take(1, d, Fill::any));
    CUGRT_TRY(take(2, d, Fill::any));
  }
  for (size_t d = inner; d < rank(2); ++d)
    CUGRT_TRY(carry(2, d, places + d - inner));
  fills([](size_t, size_t) { return Fill::any; });
  return {};
}

Status OpPadding::one_hot() {
  const size_t along = *ir::normalize_axis(integer("axis"), rank(0) + 1);
  for (size_t d = 0; d < rank(0); ++d)
    CUGRT_TRY(carry(0, d, d < along ? d : d + 1));
  fills([](size_t, size_t) { return Fill::finite; });
  return {};
}

} // namespace cugrt::passes
