// Einsum.
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

/// Sums over the letters of a term that neither the other one nor later terms have.
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
    std::swap(a, b), std::swap(rows, columns); // the result's last axis is the product's
  a = without_own(c, a, b.letters + later), b = without_own(c, b, a.letters + later);

  const bool turned = !columns.empty() && has(shared, b.letters.back());
  // The term with the axes in that order, and those of a kind joined.
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

/// Terms of an equation, and the letters of its result. Dimensions of dots are digits, aligned at
/// the last one, as broadcasting is.
struct Equation {
  std::vector<Term> terms;
  std::string out;
};

std::string digits_of(size_t dots) {
  std::string digits;
  for (size_t d = 0; d < dots; ++d)
    digits += char('0' + 8 - dots + d);
  return digits;
}

void replace_dots(std::string &letters, size_t dots) {
  if (const size_t at = letters.find("..."); at != std::string::npos)
    letters.replace(at, 3, digits_of(dots));
}

/// The result without an arrow has the letters that stand once, in order of the alphabet.
std::string implied_result(const std::vector<Term> &terms, size_t dots) {
  std::string all, out = digits_of(dots);
  for (const Term &term : terms)
    all += term.letters;
  std::sort(all.begin(), all.end());
  for (char letter : all)
    if (!std::isdigit(static_cast<unsigned char>(letter)) &&
        std::count(all.begin(), all.end(), letter) == 1)
      out += letter;
  return out;
}

Equation read_equation(Call &c) {
  std::string text = c.text("equation", "");
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation equation;
  size_t dots = 0;
  for (size_t at = 0; at <= left.size();) {
    const size_t comma = std::min(left.find(',', at), left.size());
    equation.terms.push_back({V(), left.substr(at, comma - at)});
    at = comma + 1;
  }
  const auto wrong = [&](const char *why) { c.w.fail(Code::parse_error, why); };
  if (equation.terms.size() != c.input_count())
    wrong("the equation has not one term for each input");
  for (size_t i = 0; i < equation.terms.size(); ++i) {
    auto &[value, letters] = equation.terms[i];
    value = c.value(i);
    if (letters.find("...") != std::string::npos) {
      const size_t named = letters.size() - 3, rank = c.rank(value);
      if (rank < named || rank - named > 8)
        wrong("a term has more letters than its input has axes");
      dots = std::max(dots, rank - named);
      replace_dots(letters, rank - named);
    }
    if (c.rank(value) != letters.size())
      wrong("a term has not one letter for each axis of its input");
  }
  equation.out =
      arrow == std::string::npos ? implied_result(equation.terms, dots) : text.substr(arrow + 2);
  replace_dots(equation.out, dots);
  for (char letter : equation.out)
    if (std::count(equation.out.begin(), equation.out.end(), letter) != 1 ||
        std::none_of(equation.terms.begin(), equation.terms.end(),
                     [&](const Term &term) { return has(term.letters, letter); }))
      wrong("the result has not each of its letters once, and from a term");
  return equation;
}

/// A letter that stands twice is the diagonal of two axes: the sum over one of them of what equal
/// places have.
void take_diagonals(Call &c, Term &term) {
  for (size_t p = 0; p < term.letters.size();) {
    const size_t q = term.letters.find(term.letters[p], p + 1);
    if (q == std::string::npos) {
      ++p;
      continue;
    }
    const int64_t n = c.number_of(c.dims(term.value)[p], "an axis of a diagonal");
    if (n >= 256)
      return c.unsupported("a diagonal of so many elements");
    Host eye{c.dtype(term.value), std::vector<int64_t>(term.letters.size(), 1), {}, {}};
    eye.dims[p] = eye.dims[q] = n;
    for (int64_t e = 0; e < n * n; ++e)
      is_real(eye.dtype) ? eye.reals.push_back(e / n == e % n)
                         : eye.ints.push_back(c.constant(e / n == e % n));
    term.value = c.reduce(Op::reduce_sum, c.binary(Op::mul, term.value, c.w.materialize(eye)),
                          {int64_t(q)}, false);
    term.letters.erase(q, 1);
  }
}

/// Every operand with one axis a letter, in order of all letters; then products and a sum.
V multiply_and_sum(Call &c, const Equation &equation) {
  std::string letters = equation.out;
  for (const Term &term : equation.terms)
    for (char letter : term.letters)
      if (!has(letters, letter))
        letters += letter;
  if (letters.size() > ir::kMaxRank)
    c.unsupported("an equation of more than 8 letters");
  V all;
  for (const Term &term : equation.terms) {
    Ints order;
    Dims wide;
    for (char letter : letters)
      if (const size_t at = term.letters.find(letter); at != std::string::npos) {
        order.push_back(int64_t(at));
        wide.push_back(c.dims(term.value)[at]);
      } else {
        wide.push_back(c.constant(1));
      }
    const V x = c.reshape(c.transpose(term.value, order), wide);
    all = all.valid() ? c.broadcasting(Op::mul, all, x) : x;
  }
  Ints summed;
  for (size_t i = equation.out.size(); i < letters.size(); ++i)
    summed.push_back(int64_t(i));
  return c.reduce(Op::reduce_sum, all, summed, false);
}

/// Products of matrices if the equation says so, from the left; products and a sum for the rest.
void einsum(Call &c) {
  Equation equation = read_equation(c);
  std::vector<Term> &terms = equation.terms;
  for (Term &term : terms)
    take_diagonals(c, term);
  while (terms.size() > 1) {
    std::string later = equation.out;
    for (size_t i = 2; i < terms.size(); ++i)
      later += terms[i].letters;
    if (!multiply(c, terms[0], terms[1], later, terms[1].value, terms[1].letters))
      break;
    terms.erase(terms.begin());
  }
  c.result(multiply_and_sum(c, equation));
}

} // namespace

void add_einsum(HandlerTable &table) { table["Einsum"] = einsum; }

} // namespace cugrt::onnx
