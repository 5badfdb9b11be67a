// Reference arithmetic: attention, writes of its caches, rotary embedding.
#include "support/reference_call.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace cugrt::test {

std::vector<Array> reference_attention(const Call &call) {
  const Array &q = call.operand(0), &keys = call.operand(1), &values = call.operand(2);
  const Array *lengths = call.optional(3), *mask = call.optional(4), *places = call.optional(5);
  const int64_t capacity = keys.dims[1], width = q.dims[3], share = q.dims[2] / keys.dims[2];
  const double given = call.number("scale"), scale = given == 0 ? 1 / std::sqrt(width) : given;
  Array y = Array::of(q.dims);
  for (int64_t row = 0; row < product(q.dims, 0, 3); ++row) {
    const Dims at = coordinates(row, {q.dims[0], q.dims[1], q.dims[2]});
    const int64_t s = at[0], p = at[1], h = at[2];
    int64_t length = lengths ? int64_t(lengths->values[size_t(s)]) : capacity;
    length = std::min(std::max(length, int64_t(0)), capacity);
    if (call.flag("causal"))
      length = std::max(int64_t(0), length - q.dims[1] + p + 1);
    const int64_t window = call.integer("window"),
                  first = window ? std::max<int64_t>(length - window, 0) : 0;
    const int64_t row_of =
        places ? std::clamp<int64_t>(int64_t(places->values[size_t(s)]), 0, keys.dims[0] - 1) : s;
    std::vector<double> scores;
    double largest = -INFINITY, sum = 0;
    for (int64_t i = first; i < length; ++i) {
      double score = 0;
      for (int64_t e = 0; e < width; ++e)
        score += q.values[size_t(row * width + e)] *
                 keys.values[size_t(index_of({row_of, i, h / share, e}, keys.dims))];
      scores.push_back(score * scale + (mask ? broadcast_at(*mask, std::array{s, h, p, i}) : 0));
      largest =
          std::isnan(largest) || std::isnan(scores.back()) ? NAN : std::max(largest, scores.back());
    }
    for (double &score : scores) {
      score = score == -INFINITY ? 0 : std::exp(score - largest); // a weight from here on
      sum += score;
    }
    for (int64_t e = 0; e < width && largest != -INFINITY; ++e) {
      double &result = y.values[size_t(row * width + e)];
      for (int64_t i = first; i < length; ++i)
        if (scores[size_t(i - first)] != 0)
          result += scores[size_t(i - first)] / sum *
                    values.values[size_t(index_of({row_of, i, h / share, e}, values.dims))];
    }
  }
  return {y};
}

std::vector<Array> reference_cache_write(const Call &call) {
  const Array &x = call.operand(1), &positions = call.operand(3);
  const Array *sequences = call.optional(2), *lengths = call.optional(4);
  Array cache = call.operand(0);
  const int64_t width = x.dims[2] * x.dims[3], rows = cache.dims[0], capacity = cache.dims[1];
  for (int64_t s = 0; s < x.dims[0]; ++s)
    for (int64_t p = 0; p < x.dims[1]; ++p) {
      const int64_t at = int64_t(positions.values[size_t(s)]) + p;
      const int64_t row = sequences ? int64_t(sequences->values[size_t(s)]) : s;
      if ((lengths && at >= int64_t(lengths->values[size_t(s)])) || rows * capacity == 0)
        continue;
      const int64_t to = std::clamp<int64_t>(row, 0, rows - 1) * capacity +
                         std::clamp<int64_t>(at, 0, capacity - 1);
      for (int64_t e = 0; e < width; ++e)
        cache.values[size_t(to * width + e)] =
            round_to(call.dtype, x.values[size_t((s * x.dims[1] + p) * width + e)]);
    }
  return {cache};
}

std::vector<Array> reference_rotary(const Call &call) {
  const Array &x = call.operand(0), &positions = call.operand(1);
  const Array *cosines = call.optional(2), *sines = call.optional(3);
  const int64_t heads = x.dims[x.dims.size() - 2], width = x.dims.back();
  const int64_t dims = call.integer("dims"), turned = dims == 0 ? width : dims;
  Array y = x;
  for (int64_t head = 0; head < product(x.dims, 0, x.dims.size() - 1); ++head) {
    const double position = positions.values[size_t(head / heads)];
    for (int64_t i = 0; i < turned / 2; ++i) {
      const double frequency = std::pow(call.number("base"), -2.0 * double(i) / double(turned));
      const double angle = position * call.number("scale") * frequency;
      double cosine = std::cos(angle), sine = std::sin(angle);
      if (cosines) {
        const int64_t rows = cosines->dims[0];
        const int64_t at = std::min(std::max(int64_t(position), int64_t(0)), rows - 1);
        cosine = cosines->values[size_t(at * turned / 2 + i)];
        sine = sines->values[size_t(at * turned / 2 + i)];
      }
      const bool pairs = call.flag("interleaved");
      const auto a = size_t(head * width + (pairs ? 2 * i : i));
      const auto b = size_t(head * width + (pairs ? 2 * i + 1 : i + turned / 2));
      y.values[a] = x.values[a] * cosine - x.values[b] * sine;
      y.values[b] = x.values[a] * sine + x.values[b] * cosine;
    }
  }
  return {y};
}

} // namespace cugrt::test
