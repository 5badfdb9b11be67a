// Operands of attention traced back to the tensor that their rows lie in, whatever transposes,
// reshapes and slices stand between: as digits, by which elements of a tensor are counted.
//
//   q [B H, L, D]  of reshape  of slice 0  of transpose [2, 0, 3, 1, 4]  of x [B, L, 3, H, D]
//
//   digits of q:  B H L D  -->  (0 of 3) B H L D  -->  of x:  B L (0 of 3) H D
//
// A reshape leaves digits as they are, and groups them otherwise; a slice of one element, or of one
// of several equal parts, adds a digit that is known.
#include "compiler/passes/attention/value_reader.h"

#include "compiler/ir_names.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace cugrt::passes {

namespace {

constexpr int kMostTraced = 64;
constexpr int kBatch = 0, kHead = 1, kRow = 2, kElement = 3, kKnown = 4;

struct Digit {
  ExprId size;
  int axis;           // of [B, H, length, D], or kKnown
  ExprId at;          // where known
  int64_t weight = 1; // of the axis, so many elements lie in one of the digit
};
using Digits = std::vector<Digit>;
using Dims = std::vector<ExprId>;

class HeadsTracer {
public:
  HeadsTracer(const ValueReader &read, const HeadsOperand &x)
      : read_(read), exprs_(read.module().exprs), x_(x), value_(x.value), scale_(x.scale) {}

  /// Of the last value on the way back whose rows attention reads as they lie; where there is none,
  /// of the last one of all, with its digits turned.
  std::optional<HeadsOperand> rows() {
    if (!begin())
      return std::nullopt;
    std::optional<HeadsOperand> found;
    for (int steps = 0; steps < kMostTraced; ++steps) {
      if (lies_in_rows())
        found = operand();
      const Binding *b = read_.maker(value_);
      if (!b || !step_back(*b))
        break;
    }
    return found ? std::move(found) : operand();
  }

  /// Of an operand [sequences and heads, length, D]: how many of the first stand, as heads, before
  /// elements in the last value on the way back that has whole rows so; invalid: none.
  ExprId heads() {
    ExprId found;
    if (!begin())
      return found;
    for (int steps = 0; steps < kMostTraced; ++steps) {
      ExprId inner = exprs_.constant(1);
      bool is_behind_rows = false;
      for (const Digit &digit : digits()) {
        is_behind_rows = is_behind_rows || digit.axis == kRow;
        if (is_behind_rows && digit.axis == kBatch)
          inner = exprs_.mul(inner, digit.size);
      }
      if (!is_one(inner) && lies_in_rows(true))
        found = inner;
      const Binding *b = read_.maker(value_);
      if (!b || !step_back(*b))
        break;
    }
    return found;
  }

private:
  const Dims &dims(ValueId value) const { return read_.type(value).dims; }
  std::optional<int64_t> constant(ExprId e) const { return exprs_.as_constant(e); }
  bool is_one(ExprId e) const { return constant(e) == 1; }

  /// Digits of the operand in its value.
  bool begin() {
    const Dims heads = read_.dims_of(x_);
    if (heads.size() != 3 && heads.size() != 4)
      return false;
    heads_ = heads;
    std::vector<Digits> groups(heads.size());
    for (size_t i = 0; i < heads.size(); ++i)
      if (!is_one(heads[i]))
        groups[size_t(x_.axes[i])] = {{heads[i], i == 0 ? kBatch : int(i + 4 - heads.size()), {}}};
    groups_ = std::move(groups);
    if (!x_.reshaped.empty() && !regroup(x_.size.empty() ? dims(value_) : x_.size))
      return false;
    return x_.begin.empty() || take_slice(dims(value_), x_.begin, x_.size);
  }

  bool step_back(const Binding &b) {
    double factor = 1;
    if (const ValueId other = read_.scaled(b, factor); other.valid()) {
      scale_ *= factor;
      value_ = other;
      return true;
    }
    if (b.kind != BindingKind::op || !read_.operand(b, 0).valid())
      return false;
    const ValueId from = read_.operand(b, 0);
    const bool taken = is_op(&b, Op::reshape)     ? regroup(dims(from))
                       : is_op(&b, Op::transpose) ? turn(b, dims(from).size())
                       : is_op(&b, Op::slice)     ? slice(b)
                       : is_op(&b, Op::split)     ? split(b)
                                                  : is_op(&b, Op::gather) && gather(b);
    if (taken)
      value_ = from;
    return taken;
  }

  /// Shares the digits out among dimensions, from the last one; a digit may be two then.
  bool regroup(const Dims &to) {
    Digits digits;
    for (const Digits &group : groups_)
      digits.insert(digits.end(), group.begin(), group.end());
    std::vector<Digits> groups(to.size());
    for (size_t d = to.size(); d-- > 0;) {
      ExprId taken = exprs_.constant(1);
      while (taken != to[d]) {
        if (digits.empty())
          return false;
        Digit digit = digits.back();
        digits.pop_back();
        const auto whole = constant(to[d]), part = constant(taken), size = constant(digit.size);
        if (whole && part && size && *size > *whole / *part) {
          const int64_t inner = *whole / *part;
          if (*whole % *part != 0 || inner < 1 || *size % inner != 0)
            return false;
          Digit outer = digit;
          outer.size = exprs_.constant(*size / inner);
          digit.size = exprs_.constant(inner);
          outer.weight *= inner;
          if (digit.axis == kKnown) {
            const auto at = constant(digit.at);
            if (!at)
              return false;
            outer.at = exprs_.constant(*at / inner), digit.at = exprs_.constant(*at % inner);
          }
          digits.push_back(outer);
        }
        taken = exprs_.mul(taken, digit.size);
        groups[d].insert(groups[d].begin(), digit);
      }
    }
    groups_ = std::move(groups);
    return digits.empty();
  }

  bool turn(const Binding &b, size_t rank) {
    const std::vector<int64_t> axes = ir::op_integers(Op::transpose, read_.attributes(b), "axes");
    std::vector<Digits> groups(rank);
    for (size_t i = 0; i < rank; ++i)
      groups[axes.empty() ? rank - 1 - i : *ir::normalize_axis(axes[i], rank)] =
          std::move(groups_[i]);
    groups_ = std::move(groups);
    return true;
  }

  bool slice(const Binding &b) {
    if (read_.operand(b, 1).valid())
      return false;
    const Dims &whole = dims(read_.operand(b, 0));
    const auto parts = ir::slice_dimensions(exprs_, whole, read_.attributes(b));
    if (!parts.ok())
      return false;
    Dims begin, size;
    for (const ir::SliceDimension &part : *parts) {
      if (part.step != 1)
        return false;
      begin.push_back(part.begin), size.push_back(part.size);
    }
    return take_slice(whole, begin, size);
  }

  bool split(const Binding &b) {
    const Dims &whole = dims(read_.operand(b, 0));
    const size_t axis =
        *ir::normalize_axis(ir::op_integer(Op::split, read_.attributes(b), "axis"), whole.size());
    const std::vector<int64_t> sections =
        ir::op_integers(Op::split, read_.attributes(b), "sections");
    Dims begin(whole.size(), exprs_.constant(0)), size = whole;
    int64_t before = 0;
    for (uint32_t i = 0; b.result(i) != value_; ++i)
      before += sections[i];
    begin[axis] = exprs_.constant(before);
    size[axis] = dims(value_)[axis];
    return take_slice(whole, begin, size);
  }

  bool gather(const Binding &b) {
    const Dims &whole = dims(read_.operand(b, 0));
    const std::optional<double> index = read_.scalar(read_.operand(b, 1));
    const size_t axis =
        *ir::normalize_axis(ir::op_integer(Op::gather, read_.attributes(b), "axis"), whole.size());
    const auto length = constant(whole[axis]);
    if (!index || !length || !dims(read_.operand(b, 1)).empty())
      return false;
    const int64_t at = int64_t(*index) + (*index < 0 ? *length : 0);
    if (at < 0 || at >= *length)
      return false;
    groups_.insert(groups_.begin() + ptrdiff_t(axis),
                   Digits{{whole[axis], kKnown, exprs_.constant(at)}});
    return true;
  }

  bool take_slice(const Dims &whole, const Dims &begin, const Dims &size) {
    for (size_t d = 0; d < whole.size(); ++d) {
      if (size[d] == whole[d])
        continue;
      const auto all = constant(whole[d]), from = constant(begin[d]), part = constant(size[d]);
      if (!all || !from || !part || *part < 1 || *all % *part != 0 || *from % *part != 0)
        return false;
      groups_[d].insert(groups_[d].begin(),
                        {exprs_.constant(*all / *part), kKnown, exprs_.constant(*from / *part)});
    }
    return true;
  }

  Digits digits() const {
    Digits all;
    for (const Digits &group : groups_)
      for (const Digit &digit : group)
        if (!is_one(digit.size))
          all.push_back(digit);
    return all;
  }

  /// Whether digits are those of sequences, rows, heads and elements, with known ones before all
  /// and between rows and heads, each with the greater digits first. `are_joined`: heads count as
  /// sequences.
  bool lies_in_rows(bool are_joined = false) const {
    const int order[] = {kKnown, kBatch, kRow, kKnown, are_joined ? kBatch : kHead, kElement};
    size_t place = 0;
    int64_t weights[kKnown + 1];
    std::ranges::fill(weights, std::numeric_limits<int64_t>::max());
    for (const Digit &digit : digits()) {
      if (digit.axis != kKnown && std::exchange(weights[digit.axis], digit.weight) <= digit.weight)
        return false;
      while (place < std::size(order) && order[place] != digit.axis)
        ++place;
      if (place == std::size(order))
        return false;
    }
    return true;
  }

  HeadsOperand operand() const {
    HeadsOperand y{.value = value_,
                   .scale = scale_,
                   .begin = {},
                   .size = {},
                   .reshaped = {},
                   .axes = {0, 2, 1, 3}};
    const ExprId one = exprs_.constant(1), zero = exprs_.constant(0);
    const Digits all = digits();
    y.turn.resize(all.size());
    std::iota(y.turn.begin(), y.turn.end(), 0);
    if (!lies_in_rows())
      std::ranges::stable_sort(y.turn, {}, [&](int64_t i) {
        constexpr int kPlace[] = {0, 3, 1, 4, 2}; // sequences, rows, known ones, heads, elements
        const Digit &digit = all[size_t(i)];
        return std::pair(kPlace[digit.axis], digit.axis == kKnown ? 0 : -digit.weight);
      });
    for (size_t i = 0; i < all.size(); ++i) {
      const Digit &digit = all[size_t(y.turn[i])];
      const bool is_known = digit.axis == kKnown;
      y.parts.push_back(all[i].size);
      y.begin.push_back(is_known ? digit.at : zero);
      y.size.push_back(is_known ? one : digit.size);
    }
    if (std::ranges::is_sorted(y.turn))
      y.turn.clear();
    if (y.turn.empty() && y.parts == y.size)
      y.parts.clear(), y.begin.clear(), y.size.clear();
    y.reshaped = {heads_[0], heads_[2], heads_[1], heads_[3]};
    return y;
  }

  const ValueReader &read_;
  ir::ExprPool &exprs_;
  const HeadsOperand &x_;
  ValueId value_;
  double scale_;
  Dims heads_;                 // [B, H, length, D]
  std::vector<Digits> groups_; // by dimension of the value
};

} // namespace

ExprId ValueReader::heads_in_rows(const HeadsOperand &x) const {
  return HeadsTracer(*this, x).heads();
}

void ValueReader::find_rows(const std::array<HeadsOperand *, 3> &operands) const {
  std::optional<HeadsOperand> traced[3];
  for (size_t i = 0; i < 3; ++i)
    if (operands[i]->axes != std::vector<int64_t>{0, 2, 1, 3})
      traced[i] = HeadsTracer(*this, *operands[i]).rows();
  for (size_t i = 0; i < 3; ++i) {
    const auto is_alike = [&](const std::optional<HeadsOperand> &other) {
      return other && other->value == traced[i]->value && other->parts == traced[i]->parts &&
             other->turn == traced[i]->turn;
    };
    if (traced[i] && (traced[i]->turn.empty() || std::ranges::count_if(traced, is_alike) > 1))
      *operands[i] = *traced[i];
  }
}

} // namespace cugrt::passes
