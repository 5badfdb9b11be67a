// Einsum.
#include "base/type/element.h"
#include "fronts/onnx/ops/integers.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

/// Every operand with one axis a letter, in order of all letters; then products and a sum.
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
  std::string letters = out;
  for (const std::string &term : terms)
    for (char letter : term)
      if (letters.find(letter) == std::string::npos)
        letters += letter;
  if (letters.size() > ir::kMaxRank)
    return c.unsupported("an equation of more than 8 letters");
  V all;
  for (size_t i = 0; i < terms.size() && !c.failed(); ++i) {
    V x = inputs[i];
    std::string term = terms[i];
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
