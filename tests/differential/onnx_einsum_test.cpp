// Einsum: products of matrices where that is what an equation says, against its sum in double
// precision.
#include "support/onnx_run.h"

#include <map>

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

using Ints = std::vector<int64_t>;

struct Case {
  std::string equation;     // of terms named by letters, and of a result
  std::vector<Ints> inputs; // dimensions
};

std::vector<float> numbers(const Ints &dims, int64_t seed) {
  int64_t count = 1;
  for (int64_t d : dims)
    count *= d;
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(float((i * 37 + seed * 11) % 17 - 8) / 4);
  return out;
}

/// Each letter from 0 to its size, all of them.
std::vector<double> sums(const Case &c, const std::vector<std::vector<float>> &values, Ints &dims) {
  const std::string left = c.equation.substr(0, c.equation.find("->"));
  const std::string out = c.equation.substr(c.equation.find("->") + 2);
  std::vector<std::string> terms(1);
  for (char letter : left)
    letter == ',' ? (void)terms.emplace_back() : terms.back().push_back(letter);
  std::map<char, int64_t> size, at;
  for (size_t t = 0; t < terms.size(); ++t)
    for (size_t i = 0; i < terms[t].size(); ++i)
      size[terms[t][i]] = std::max(size[terms[t][i]], c.inputs[t][i]);
  const auto place = [&](const std::string &term, const Ints &shape) {
    int64_t index = 0;
    for (size_t i = 0; i < term.size(); ++i)
      index = index * shape[i] + (shape[i] == 1 ? 0 : at[term[i]]);
    return size_t(index);
  };
  dims.clear();
  int64_t count = 1;
  for (char letter : out)
    dims.push_back(size[letter]), count *= size[letter];
  std::vector<double> y(size_t(count), 0);
  while (true) {
    double product = 1;
    for (size_t t = 0; t < terms.size(); ++t)
      product *= double(values[t][place(terms[t], c.inputs[t])]);
    y[place(out, dims)] += product;
    auto next = size.begin();
    for (; next != size.end() && ++at[next->first] == next->second; ++next)
      at[next->first] = 0;
    if (next == size.end())
      return y;
  }
}

} // namespace

TEST_CASE("Einsum is the sum of the products that its equation says") {
  const Case cases[] = {
      {"ij,jk->ik", {{3, 4}, {4, 5}}},
      {"ij,kj->ik", {{3, 4}, {5, 4}}},
      {"ij,jk->ki", {{3, 4}, {4, 5}}},
      {"ji,jk->ik", {{4, 3}, {4, 5}}},
      {"ij,jk->i", {{3, 4}, {4, 5}}},
      {"ij,j->i", {{3, 4}, {4}}},
      {"i,i->", {{7}, {7}}},
      {"ijk,ijk->", {{2, 3, 4}, {2, 3, 4}}},
      {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}},
      {"bij,bjk->kib", {{2, 3, 4}, {2, 4, 5}}},
      {"bhid,bhjd->bhij", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
      {"bihd,bjhd->bhij", {{2, 4, 3, 5}, {2, 6, 3, 5}}},
      {"abhij,abhjd->abhid", {{2, 2, 3, 4, 5}, {2, 2, 3, 5, 6}}},
      {"bhwc,hkc->bhwk", {{2, 3, 4, 5}, {3, 6, 5}}},
      {"ijkl,klmn->mnij", {{2, 3, 4, 2}, {4, 2, 3, 2}}},
      {"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 5}}},
      {"ij,ik,kl->jl", {{2, 3}, {2, 4}, {4, 5}}},
      {"ija,jkb->ik", {{2, 3, 4}, {3, 5, 2}}},
      {"i,j->ij", {{3}, {4}}},
      {"ij,ij->ij", {{3, 4}, {3, 4}}},
      {"ij,jk->ik", {{3, 1}, {4, 5}}}, // a dimension that broadcasts is no product of matrices
  };
  for (const Case &c : cases) {
    INFO(c.equation);
    std::vector<std::vector<float>> values;
    std::vector<Given> given;
    std::vector<std::string> names;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      values.push_back(numbers(c.inputs[i], int64_t(i)));
      names.push_back("x" + std::to_string(i));
      given.push_back(floats(names.back(), c.inputs[i], values.back()));
    }
    const auto y = run_model<float>(
        node("Einsum", names, {"y"}, text_attribute("equation", c.equation)), given);
    Ints dims;
    const std::vector<double> expected = sums(c, values, dims);
    CHECK(y.dims == dims);
    check_close(y.values, expected, 1e-5);
  }
}
