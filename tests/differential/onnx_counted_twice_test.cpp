// Sizes that the data decide behind other such sizes, and where there is nothing to choose from.
#include "support/onnx_run.h"

#include <algorithm>
#include <limits>

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

Given list(const std::string &name, const Floats &values, bool is_symbol) {
  Given one = floats(name, {int64_t(values.size())}, values);
  if (is_symbol)
    one.names = {"n"};
  return one;
}

/// What is above `least`, in order.
Floats above(const Floats &x, float least) {
  Floats out;
  std::copy_if(x.begin(), x.end(), std::back_inserter(out), [&](float one) { return one > least; });
  return out;
}

const std::vector<Floats> kScores = {{0.9f, 0.1f, 0.6f, 0.3f, 0.8f, 0.7f},
                                     {0.1f, 0.2f, 0.95f, 0.1f, 0.0f, 0.3f},
                                     {0.6f, 0.6f, 0.1f, 0.1f, 0.1f, 0.1f},
                                     {0, 0, 0, 0, 0, 0}};
/// "kept": the scores above a half.
const std::string kFilter = node("Greater", {"s", "half"}, {"mask"}) +
                            node("Compress", {"s", "mask"}, {"kept"}, integer_attribute("axis", 0));
Given scalar(const std::string &name, float value) { return weight(floats(name, {}, {value})); }

} // namespace

TEST_CASE("a mask of what a mask left: positions, elements, and a sum") {
  const std::string again = kFilter + node("Greater", {"kept", "more"}, {"mask2"});
  for (bool is_symbol : {false, true})
    for (const Floats &scores : kScores) {
      const std::vector<Given> given = {list("s", scores, is_symbol), scalar("half", 0.5f),
                                        scalar("more", 0.75f)};
      const Floats first = above(scores, 0.5f), second = above(first, 0.75f);
      Ints places;
      for (size_t i = 0; i < first.size(); ++i)
        if (first[i] > 0.75f)
          places.push_back(int64_t(i));
      const auto at = run_model<int64_t>(again + node("NonZero", {"mask2"}, {"y"}), given);
      CHECK(at.dims == Ints{1, int64_t(places.size())});
      CHECK(at.values == places);
      const std::string left =
          again + node("Compress", {"kept", "mask2"}, {"left"}, integer_attribute("axis", 0));
      const auto y = run_model<float>(left + node("Identity", {"left"}, {"y"}), given);
      CHECK(y.dims == Ints{int64_t(second.size())});
      CHECK(y.values == second);
      float sum = 0;
      for (float one : second)
        sum += one;
      const auto total = run_model<float>(
          left + node("ReduceSum", {"left"}, {"y"}, integer_attribute("keepdims", 0)), given);
      CHECK(total.values.at(0) == Approx(sum));
    }
}

TEST_CASE("a detector: boxes by score, then NonMaxSuppression, then what they gather") {
  // Boxes i: one high and wide, at (10 i, 0), but for box 4, which lies on box 0.
  Floats boxes;
  for (int i = 0; i < 6; ++i) {
    const float y = i == 4 ? 0.1f : 10.0f * float(i);
    boxes.insert(boxes.end(), {y, 0, y + 1, 1});
  }
  const std::string nodes =
      kFilter + node("NonZero", {"mask"}, {"nz"}) + node("Squeeze", {"nz", "zero"}, {"i"}) +
      node("Gather", {"b", "i"}, {"bb"}) + node("Unsqueeze", {"bb", "zero"}, {"b3"}) +
      node("Unsqueeze", {"kept", "both"}, {"s3"}) +
      node("NonMaxSuppression", {"b3", "s3", "most", "overlap"}, {"chosen"}) +
      node("Gather", {"chosen", "two"}, {"column"}, integer_attribute("axis", 1)) +
      node("Squeeze", {"column", "one"}, {"ids"}) + node("Gather", {"kept", "ids"}, {"y"}) +
      integers("zero", {0}) + integers("one", {1}) + integers("both", {0, 1}) +
      integers("two", {2}) + integers("most", {3});
  for (bool is_symbol : {false, true})
    for (const Floats &scores : kScores) {
      Given b = floats("b", {6, 4}, boxes);
      if (is_symbol)
        b.names = {"n"};
      const auto y = run_model<float>(nodes, {b, list("s", scores, is_symbol), scalar("half", 0.5f),
                                              weight(floats("overlap", {1}, {0.5f}))});
      // By falling score, three at most, and of boxes 0 and 4 the better one.
      std::vector<size_t> order;
      for (size_t i = 0; i < 6; ++i)
        if (scores[i] > 0.5f)
          order.push_back(i);
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t p, size_t q) { return scores[p] > scores[q]; });
      Floats wanted;
      bool has_pair = false;
      for (size_t i : order)
        if ((i != 0 && i != 4) || !std::exchange(has_pair, true))
          wanted.push_back(scores[i]);
      wanted.resize(std::min<size_t>(wanted.size(), 3));
      CHECK(y.dims == Ints{int64_t(wanted.size())});
      CHECK(y.values == wanted);
    }
}

TEST_CASE("the k largest or smallest of a count, k being the smaller of a number and that count") {
  const std::string top = kFilter + node("Shape", {"kept"}, {"count"}) +
                          node("Min", {"count", "three"}, {"k"}) + integers("three", {3});
  for (bool is_symbol : {false, true})
    for (bool largest : {true, false})
      for (const Floats &scores : kScores) {
        const std::vector<Given> given = {list("s", scores, is_symbol), scalar("half", 0.5f)};
        const std::string attribute = integer_attribute("largest", largest);
        const Floats kept = above(scores, 0.5f);
        Ints order;
        for (size_t i = 0; i < kept.size(); ++i)
          order.push_back(int64_t(i));
        std::stable_sort(order.begin(), order.end(), [&](int64_t p, int64_t q) {
          const float a = kept[size_t(p)], b = kept[size_t(q)];
          return largest ? a > b : a < b;
        });
        order.resize(std::min<size_t>(order.size(), 3));
        Floats wanted;
        for (int64_t i : order)
          wanted.push_back(kept[size_t(i)]);
        CHECK(run_model<float>(top + node("TopK", {"kept", "k"}, {"y", "at"}, attribute), given)
                  .values == wanted);
        CHECK(run_model<int64_t>(top + node("TopK", {"kept", "k"}, {"of", "y"}, attribute), given)
                  .values == order);
      }
}

TEST_CASE("infinities are among the k largest of a count") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::string top = node("Greater", {"m", "half"}, {"mask"}) +
                          node("Compress", {"x", "mask"}, {"kept"}, integer_attribute("axis", 0)) +
                          node("Shape", {"kept"}, {"count"}) +
                          node("Min", {"count", "four"}, {"k"}) + integers("four", {4});
  for (bool largest : {true, false}) {
    const auto y = run_model<int64_t>(
        top + node("TopK", {"kept", "k"}, {"of", "y"}, integer_attribute("largest", largest)),
        {floats("x", {4}, {-infinity, infinity, 2, -infinity}), floats("m", {4}, {1, 1, 0, 1}),
         scalar("half", 0.5f)});
    CHECK(y.values == (largest ? Ints{1, 0, 2} : Ints{0, 2, 1}));
  }
}

TEST_CASE("a k that a count does not reach is an error of the run") {
  const std::string top =
      kFilter + node("TopK", {"kept", "two"}, {"y", "at"}) + integers("two", {2});
  const auto run = [&](const Floats &scores) {
    return run_model<float>(top, {list("s", scores, false), scalar("half", 0.5f)}).values;
  };
  CHECK(run(kScores[0]) == Floats{0.9f, 0.8f});
  CHECK(mentions(error_of([&] { run(kScores[1]); }), "dimension 0 is 1, expected 2"));
}

TEST_CASE("Unique of a count, of none, and of a dimension of any size") {
  for (bool is_symbol : {false, true})
    for (bool filters : {false, true})
      for (const Floats &scores : kScores) {
        const std::vector<Given> given = {list("s", scores, is_symbol), scalar("half", 0.5f)};
        Floats from = filters ? above(scores, 0.5f) : scores, wanted = from;
        std::sort(wanted.begin(), wanted.end());
        wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
        Ints first, which, counts;
        for (float one : wanted) {
          first.push_back(std::find(from.begin(), from.end(), one) - from.begin());
          counts.push_back(std::count(from.begin(), from.end(), one));
        }
        for (float one : from)
          which.push_back(std::find(wanted.begin(), wanted.end(), one) - wanted.begin());
        auto unique = [&](const std::vector<std::string> &results) {
          return kFilter + node("Unique", {filters ? "kept" : "s"}, results);
        };
        CHECK(run_model<float>(unique({"y"}), given).values == wanted);
        CHECK(run_model<int64_t>(unique({"a", "y"}), given).values == first);
        CHECK(run_model<int64_t>(unique({"a", "b", "y"}), given).values == which);
        CHECK(run_model<int64_t>(unique({"a", "b", "c", "y"}), given).values == counts);
      }
}

TEST_CASE("inputs without rows have no positions, no rows, no boxes, and sums of nothing") {
  for (bool is_symbol : {false, true}) {
    INFO("symbol " << is_symbol);
    const ImportOptions options = is_symbol ? ImportOptions{.bounds = {"n=0..4"}} : ImportOptions{};
    auto rows = [&](const std::string &name, unsigned dtype, Ints dims, size_t axis) {
      Given one{name, dtype, std::move(dims), ""};
      for (size_t i = 0; is_symbol && i <= axis; ++i)
        one.names.push_back(i == axis ? "n" : std::to_string(one.dims[i]));
      return one;
    };
    const Given x = rows("x", kF32, {0, 3}, 0);
    CHECK(run_model<int64_t>(node("NonZero", {"x"}, {"y"}), {x}, options).dims == Ints{2, 0});
    CHECK(run_model<float>(node("NonZero", {"x"}, {"p"}) + node("Transpose", {"p"}, {"t"}) +
                               node("GatherND", {"x", "t"}, {"g"}) +
                               node("ReduceSum", {"g"}, {"y"}, integer_attribute("keepdims", 0)),
                           {x}, options)
              .values == Floats{0});
    CHECK(run_model<float>(node("Compress", {"x", "c"}, {"y"}, integer_attribute("axis", 0)),
                           {x, rows("c", kBool, {0}, 0)}, options)
              .dims == Ints{0, 3});
    CHECK(run_model<int64_t>(
              node("NonMaxSuppression", {"b", "s", "most"}, {"y"}) + integers("most", {5}),
              {rows("b", kF32, {1, 0, 4}, 1), rows("s", kF32, {1, 1, 0}, 2)}, options)
              .dims == Ints{0, 3});
    CHECK(run_model<float>(node("Unique", {"u"}, {"y"}), {rows("u", kF32, {0}, 0)}, options).dims ==
          Ints{0});
  }
}

TEST_CASE(
    "branches whose results have different shapes: by a count, and by the device's elements") {
  const auto branch = [](const std::string &nodes) { return nodes + output("b", kF32, {}); };
  const std::string none = branch(node("ConstantOfShape", {"nothing"}, {"b"}));
  const std::string some =
      branch(node("Compress", {"s", "mask"}, {"c"}, integer_attribute("axis", 0)) +
             node("Neg", {"c"}, {"b"}));
  const std::string count = node("NonZero", {"mask"}, {"p"}) + node("Size", {"p"}, {"size"}) +
                            node("Greater", {"size", "one"}, {"go"});
  const std::string most = node("ReduceMax", {"s"}, {"top"}, integer_attribute("keepdims", 0)) +
                           node("Greater", {"top", "half"}, {"go"});
  for (bool is_symbol : {false, true})
    for (const std::string &condition : {count, most})
      for (const Floats &scores : kScores) {
        Floats wanted;
        for (float one : above(scores, 0.5f))
          wanted.push_back(-one);
        if (condition == count && wanted.size() <= 1)
          wanted.clear();
        const auto y = run_model<float>(
            node("Greater", {"s", "half"}, {"mask"}) + condition +
                node("If", {"go"}, {"y"},
                     graph_attribute("then_branch", some) + graph_attribute("else_branch", none)) +
                integers("nothing", {0}) + integers("one", {1}),
            {list("s", scores, is_symbol), scalar("half", 0.5f)});
        CHECK(y.dims == Ints{int64_t(wanted.size())});
        CHECK(y.values == wanted);
      }
}
