// Einsum.
#include "base/type/element.h"
#include "fronts/onnx/ops/integers.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

/// A tensor with a letter for each of its axes.
struct Term {
  V value;
  std::string letters;
};

bool has(const std::string &letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

/// The term without letters that neither the other one nor what comes later has: sums over them.
Term without_own(Call &c, const Term &term, const std::string &others) {
  Ints axes;
  std::string kept;
  for (size_t i = 0; i < term.letters.size(); ++i)
    if (has(others, term.letters[i]))
      kept += term.letters[i];
    else
      axes.push_back(int64_t(i));
  return {axes.empty() ? term.value : c.reduce(Op::reduce_sum, term.value, axes, false), kept};
}

/// Products of matrices where two terms of floats share letters that nothing later has:
///
///   [batch, rows, shared] x [batch, shared, columns] or, where the second has its shared letters
///   last, [batch, columns, shared]
///
/// of which each is all letters of its kind. Several of `batch` stay two axes, as sequences and
/// heads of attention are. False: they share none, or a dimension of theirs differs, which
/// broadcasts.
bool multiply(Call &c, Term a, Term b, const std::string &later, V &result, std::string &letters) {
  if (!is_real(c.dtype(a.value)) || c.dtype(a.value) != c.dtype(b.value))
    return false;
  std::string batch, shared, rows, columns;
  for (size_t i = 0; i < a.letters.size(); ++i) {
    const char letter = a.letters[i];
    const size_t at = b.letters.find(letter);
    if (at == std::string::npos) {
      if (has(later, letter))
        rows += letter;
      continue;
    }
    if (c.dims(a.value)[i] != c.dims(b.value)[at])
      return false;
    (has(later, letter) ? batch : shared) += letter;
  }
  for (char letter : b.letters)
    if (!has(a.letters, letter) && has(later, letter))
      columns += letter;
  if (shared.empty())
    return false;
  if (!rows.empty() && has(rows, later[later.find_last_of(rows + columns)]) && !columns.empty())
    std::swap(a, b), std::swap(rows, columns); // what is last in the result is so in the product
  a = without_own(c, a, b.letters + later), b = without_own(c, b, a.letters + later);

  const bool turned = !columns.empty() && has(shared, b.letters.back());
  // With the axes in that order, and those of a kind joined.
  const auto arranged = [&](const Term &term, const std::string &kinds, size_t first,
                            size_t second) {
    Ints order;
    Dims dims;
    for (char letter : kinds) {
      order.push_back(int64_t(term.letters.find(letter)));
      dims.push_back(c.dims(term.value)[term.letters.find(letter)]);
    }
    const auto joined = [&](size_t begin, size_t end) {
      Dims part;
      for (size_t i = begin; i < end; ++i)
        part.push_back(dims[i]);
      return part.empty() ? c.constant(1) : c.product(part);
    };
    Dims out;
    if (batch.size() > 1)
      out.push_back(joined(0, batch.size() - 1));
    if (!batch.empty())
      out.push_back(dims[batch.size() - 1]);
    out.push_back(joined(batch.size(), batch.size() + first));
    out.push_back(joined(batch.size() + first, batch.size() + first + second));
    return c.reshape(c.transpose(term.value, order), out);
  };
  Dims dims;
  letters = batch + rows + columns;
  for (char letter : letters) {
    const Term &term = has(a.letters, letter) ? a : b;
    dims.push_back(c.dims(term.value)[term.letters.find(letter)]);
  }
  const V left = arranged(a, batch + rows + shared, rows.size(), shared.size());
  const V right = turned ? arranged(b, batch + columns + shared, columns.size(), shared.size())
                         : arranged(b, batch + shared + columns, shared.size(), columns.size());
  std::vector<ir::Attribute> attributes;
  if (turned)
    attributes.push_back(attr("transpose_b", true));
  result = c.reshape(c.op(Op::matmul, {left, right}, std::move(attributes)), dims);
  return true;
}

/// Products of matrices where that is what it says. Else every operand with one axis a letter, in
/// order of all letters; then products and a sum.
void einsum(Call &c) {
  std::string equation = c.text("equation", "");
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  std::string left = equation.substr(0, arrow);
  std::vector<std::string> terms;
  for (size_t at = 0; at <= left.size();) {
    const size_t comma = std::min(left.find(',', at), left.size());
    terms.push_back(left.substr(at, comma - at));
    at = comma + 1;
  }
  if (terms.size() != c.input_count())
    return c.w.fail(Code::parse_error, "the equation has not one term for each input");
  size_t dots = 0;
  std::vector<V> inputs;
  for (size_t i = 0; i < terms.size(); ++i) {
    inputs.push_back(c.value(i));
    if (const size_t at = terms[i].find("..."); at != std::string::npos) {
      const size_t letters = terms[i].size() - 3;
      if (c.failed() || c.rank(inputs[i]) < letters || c.rank(inputs[i]) - letters > 8)
        return c.w.fail(Code::parse_error, "a term has more letters than its input has axes");
      const size_t count = c.rank(inputs[i]) - letters;
      dots = std::max(dots, count);
      std::string digits; // aligned at the last one, as broadcasting is
      for (size_t d = 0; d < count; ++d)
        digits += char('0' + 8 - count + d);
      terms[i].replace(at, 3, digits);
    }
  }
  std::string digits, out;
  for (size_t d = 0; d < dots; ++d)
    digits += char('0' + 8 - dots + d);
  if (arrow != std::string::npos) {
    out = equation.substr(arrow + 2);
    if (const size_t at = out.find("..."); at != std::string::npos)
      out.replace(at, 3, digits);
  } else {
    std::string all;
    for (const std::string &term : terms)
      all += term;
    std::sort(all.begin(), all.end());
    out = digits;
    for (char letter : all)
      if (!std::isdigit(static_cast<unsigned char>(letter)) &&
          std::count(all.begin(), all.end(), letter) == 1)
        out += letter;
  }
  for (size_t i = 0; i < terms.size() && !c.failed(); ++i) {
    V &x = inputs[i];
    std::string &term = terms[i];
    if (c.rank(x) != term.size())
      return c.w.fail(Code::parse_error, "a term has not one letter for each axis of its input");
    for (size_t p = 0; p < term.size(); ++p) // a letter twice: the diagonal
      if (size_t q = term.find(term[p], p + 1); q != std::string::npos) {
        const int64_t n = c.number_of(c.dims(x)[p], "an axis of a diagonal");
        if (c.failed() || n >= 256)
          return c.unsupported("a diagonal of so many elements");
        Host eye{c.dtype(x), std::vector<int64_t>(term.size(), 1), {}, {}};
        eye.dims[p] = eye.dims[q] = n;
        for (int64_t e = 0; e < n * n; ++e)
          is_real(eye.dtype) ? eye.reals.push_back(e / n == e % n)
                             : eye.ints.push_back(c.constant(e / n == e % n));
        x = c.reduce(Op::reduce_sum, c.binary(Op::mul, x, c.w.materialize(eye)), {int64_t(q)},
                     false);
        term.erase(q, 1);
        --p;
      }
  }
  while (terms.size() > 1 && !c.failed()) {
    std::string later = out;
    for (size_t i = 2; i < terms.size(); ++i)
      later += terms[i];
    if (!multiply(c, {inputs[0], terms[0]}, {inputs[1], terms[1]}, later, inputs[1], terms[1]))
      break;
    inputs.erase(inputs.begin());
    terms.erase(terms.begin());
  }
  std::string letters = out;
  for (const std::string &term : terms)
    for (char letter : term)
      if (letters.find(letter) == std::string::npos)
        letters += letter;
  if (letters.size() > ir::kMaxRank)
    return c.unsupported("an equation of more than 8 letters");
  V all;
  for (size_t i = 0; i < terms.size() && !c.failed(); ++i) {
    const std::string &term = terms[i];
    V x = inputs[i];
    Ints order;
    Dims wide;
    for (char letter : letters)
      if (const size_t at = term.find(letter); at != std::string::npos) {
        order.push_back(int64_t(at));
        wide.push_back(c.dims(x)[at]);
      } else {
        wide.push_back(c.constant(1));
      }
    x = c.reshape(c.transpose(x, order), wide);
    all = all.valid() ? c.broadcasting(Op::mul, all, x) : x;
  }
  Ints summed;
  for (size_t i = out.size(); i < letters.size(); ++i)
    summed.push_back(int64_t(i));
  c.result(c.reduce(Op::reduce_sum, all, summed, false));
}

} // namespace

void add_einsum(HandlerTable &table) { table["Einsum"] = einsum; }

} // namespace cugrt::onnx
