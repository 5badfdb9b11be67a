// Sequences of tensors, and loops that collect: of known turns, of turns that a dimension tells,
// and of none.
#include "support/onnx_run.h"

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

std::string whole(const std::string &name, int64_t value) { // a scalar
  return bytes(5, number(2, kI64) + bytes(8, name) + bytes(9, raw(Ints{value})));
}
std::string truth(const std::string &name, bool value) {
  return bytes(5, number(2, kBool) + bytes(8, name) + bytes(9, std::string(1, char(value))));
}
/// A result of a body, whose type nothing reads.
std::string named(unsigned field, const std::string &name) { return bytes(field, bytes(1, name)); }
std::string body(const std::string &nodes, const std::vector<std::string> &inputs,
                 const std::vector<std::string> &outputs) {
  std::string graph = nodes;
  for (const std::string &one : inputs)
    graph += named(11, one);
  for (const std::string &one : outputs)
    graph += named(12, one);
  return graph_attribute("body", graph);
}

/// 1, 2, .. of that many rows of three columns, and the square of each.
Floats numbers(int64_t rows) {
  Floats x;
  for (int64_t i = 0; i < rows * 3; ++i)
    x.push_back(float(i % 17 + 1));
  return x;
}
Floats squares(const Floats &x) {
  Floats out;
  for (float one : x)
    out.push_back(one * one);
  return out;
}

/// A loop that appends the square of row i of x to a sequence.
const std::string kAppend = body(
    node("Identity", {"c"}, {"co"}) + node("Gather", {"x", "i"}, {"row"}) +
        node("Mul", {"row", "row"}, {"square"}) + node("SequenceInsert", {"s", "square"}, {"so"}),
    {"i", "c", "s"}, {"co", "so"});
const std::string kRows = node("Shape", {"x"}, {"dims"}, integer_attribute("end", 1)) +
                          node("Squeeze", {"dims"}, {"turns"});

std::string appended(const std::string &turns) {
  return turns + node("SequenceEmpty", {}, {"none"}) +
         node("Loop", {"turns", "yes", "none"}, {"all"}, kAppend) + truth("yes", true);
}

} // namespace

TEST_CASE("what a loop appends is joined: few turns, many, and as many as a dimension has") {
  for (int64_t rows : {3, 100})
    for (bool is_symbol : {false, true})
      for (int64_t axis : {0, 1}) {
        INFO(rows << " rows, symbol " << is_symbol << ", axis " << axis);
        const std::string loop = appended(is_symbol ? kRows : whole("turns", rows));
        Given x = floats("x", {rows, 3}, numbers(rows));
        if (is_symbol)
          x.names = {"n"};
        const ImportOptions options =
            is_symbol ? ImportOptions{.bounds = {"n=1..128"}} : ImportOptions{};
        const auto y = run_model<float>(loop + node("ConcatFromSequence", {"all"}, {"y"},
                                                    integer_attribute("axis", uint64_t(axis)) +
                                                        integer_attribute("new_axis", 1)),
                                        {x}, options);
        const Floats rows_of = squares(numbers(rows));
        Floats wanted = rows_of;
        if (axis == 1)
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < 3; ++c)
              wanted[size_t(c * rows + r)] = rows_of[size_t(r * 3 + c)];
        CHECK(y.dims == (axis ? Ints{3, rows} : Ints{rows, 3}));
        CHECK(y.values == wanted);
        if (axis == 0) {
          const auto flat = run_model<float>(
              loop + node("ConcatFromSequence", {"all"}, {"y"}, integer_attribute("axis", 0)), {x},
              options);
          CHECK(flat.dims == Ints{rows * 3});
          CHECK(flat.values == rows_of);
        }
      }
}

TEST_CASE("a tensor of a sequence by its place, from the end too, and a sequence's length") {
  for (int64_t rows : {3, 100})
    for (int64_t place : {int64_t(1), int64_t(-1), -rows}) {
      const std::string loop = appended(whole("turns", rows));
      const Given x = floats("x", {rows, 3}, numbers(rows));
      const auto y = run_model<float>(
          loop + node("SequenceAt", {"all", "place"}, {"y"}) + whole("place", place), {x});
      const Floats all = squares(numbers(rows));
      const auto begin = all.begin() + (place < 0 ? place + rows : place) * 3;
      CHECK(y.values == Floats(begin, begin + 3));
      CHECK(run_model<int64_t>(loop + node("SequenceLength", {"all"}, {"y"}), {x}).values ==
            Ints{rows});
    }
}

TEST_CASE("sequences are split, built, and changed by place") {
  const Given x = floats("x", {2, 7}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
  // Columns 0 to 2, 3 to 5, 6; the first away; the last of what is left put before it.
  const auto y = run_model<float>(
      node("SplitToSequence", {"x", "three"}, {"s"}, integer_attribute("axis", 1)) +
          node("SequenceAt", {"s", "last"}, {"tail"}) +
          node("SequenceErase", {"s", "first"}, {"t"}) +
          node("SequenceInsert", {"t", "tail", "first"}, {"u"}) +
          node("ConcatFromSequence", {"u"}, {"y"}, integer_attribute("axis", 1)) +
          whole("three", 3) + whole("last", -1) + whole("first", 0),
      {x});
  CHECK(y.dims == Ints{2, 5});
  CHECK(y.values == Floats{6, 3, 4, 5, 6, 13, 10, 11, 12, 13});
  // Of a place that only a run knows, among tensors of one shape.
  for (int64_t place : {0, 1, -1}) {
    const auto z =
        run_model<float>(node("Neg", {"x"}, {"n"}) + node("SequenceConstruct", {"x", "n"}, {"s"}) +
                             node("Cast", {"p"}, {"place"}, integer_attribute("to", kI64)) +
                             node("SequenceAt", {"s", "place"}, {"y"}),
                         {floats("x", {2}, {3, 4}), floats("p", {}, {float(place)})});
    CHECK(z.values == (place == 0 ? Floats{3, 4} : Floats{-3, -4}));
  }
  const auto columns =
      run_model<float>(node("SplitToSequence", {"x"}, {"s"},
                            integer_attribute("axis", 1) + integer_attribute("keepdims", 0)) +
                           node("ConcatFromSequence", {"s"}, {"y"},
                                integer_attribute("axis", 0) + integer_attribute("new_axis", 1)),
                       {floats("x", {2, 3}, {1, 2, 3, 4, 5, 6})});
  CHECK(columns.dims == Ints{3, 2});
  CHECK(columns.values == Floats{1, 4, 2, 5, 3, 6});
}

TEST_CASE("a loop without turns collects no rows, and gives what it was given") {
  const std::string sums = body(node("Identity", {"c"}, {"co"}) + node("Add", {"a", "x"}, {"ao"}) +
                                    node("Mul", {"ao", "x"}, {"row"}),
                                {"i", "c", "a"}, {"co", "ao", "row"});
  auto loop = [&](int64_t turns, bool begins, const std::string &result) {
    return node("Loop", {"turns", "begins", "x"},
                {result == "a" ? "y" : "a", result == "a" ? "rows" : "y"}, sums) +
           whole("turns", turns) + truth("begins", begins);
  };
  for (bool is_symbol : {false, true}) {
    Given x = floats("x", {3}, {1, 2, 3});
    if (is_symbol)
      x.names = {"n"};
    for (bool by_condition : {false, true}) {
      const auto rows = run_model<float>(loop(by_condition ? 4 : 0, !by_condition, "rows"), {x});
      CHECK(rows.dims == Ints{0, 3});
      CHECK(run_model<float>(loop(by_condition ? 4 : 0, !by_condition, "a"), {x}).values ==
            Floats{1, 2, 3});
    }
    CHECK(run_model<float>(loop(2, true, "rows"), {x}).values == Floats{2, 8, 18, 3, 12, 27});
  }
}

TEST_CASE("turns that a dimension tells, which is 0 too") {
  const std::string rows = kRows + truth("yes", true) +
                           node("Loop", {"turns", "yes"}, {"y"},
                                body(node("Identity", {"c"}, {"co"}) +
                                         node("Cast", {"i"}, {"f"}, integer_attribute("to", kF32)) +
                                         node("Mul", {"k", "f"}, {"row"}),
                                     {"i", "c"}, {"co", "row"}));
  for (int64_t n : {0, 1, 3}) {
    Given x = floats("x", {n, 1}, Floats(size_t(n), 7.0f));
    x.names = {"n"};
    const auto y = run_model<float>(rows, {x, floats("k", {2}, {1, 10})}, {.bounds = {"n=0..8"}});
    CHECK(y.dims == Ints{n, 2});
    const Floats all = {0, 0, 1, 10, 2, 20};
    CHECK(y.values == Floats(all.begin(), all.begin() + n * 2));
  }
}

TEST_CASE("a condition that counts tells the turns of a loop, which collects as many rows") {
  // Row: k, which each turn moves on; the condition compares what it is then.
  struct Case {
    std::string condition, step;
    bool down;
    int64_t by;
    bool (*goes_on)(int64_t k, int64_t n);
  };
  const std::string in_floats = node("Cast", {"k2"}, {"kf"}, integer_attribute("to", kF32)) +
                                node("Cast", {"turns"}, {"nf"}, integer_attribute("to", kF32)) +
                                node("Cast", {"i"}, {"if"}, integer_attribute("to", kF32)) +
                                node("Less", {"kf", "nf"}, {"c1"}) +
                                node("Less", {"if", "nf"}, {"c2"}) +
                                node("And", {"c1", "c2"}, {"co"});
  const std::vector<Case> cases = {
      {node("Less", {"k2", "turns"}, {"co"}), "Add", false, 2,
       [](auto k, auto n) { return k < n; }},
      {node("LessOrEqual", {"k2", "turns"}, {"co"}), "Add", false, 3,
       [](auto k, auto n) { return k <= n; }},
      {node("Greater", {"k2", "zero"}, {"co"}), "Sub", true, 2, [](auto k, auto) { return k > 0; }},
      {node("GreaterOrEqual", {"k2", "zero"}, {"co"}), "Sub", true, 1,
       [](auto k, auto) { return k >= 0; }},
      {in_floats, "Add", false, 1, [](auto k, auto n) { return k < n; }}};
  for (const Case &one : cases)
    for (int64_t n : {0, 1, 2, 7, 100}) {
      const std::string loop =
          kRows +
          node(one.down ? "Identity" : "Mul",
               one.down ? std::vector<std::string>{"turns"}
                        : std::vector<std::string>{"turns", "zero"},
               {"first"}) +
          node("Less", {"zero", "turns"}, {"begins"}) + whole("zero", 0) +
          whole("most", INT64_MAX) + whole("by", one.by) +
          node("Loop", {"most", "begins", "first"}, {"last", "y"},
               body(node(one.step, {"k", "by"}, {"k2"}) + one.condition +
                        node("Cast", {"k"}, {"f"}, integer_attribute("to", kF32)) +
                        node("Mul", {"f", "one"}, {"row"}),
                    {"i", "c", "k"}, {"co", "k2", "row"}));
      Floats wanted;
      bool goes_on = n > 0;
      for (int64_t k = one.down ? n : 0; goes_on; goes_on = one.goes_on(k, n)) {
        wanted.push_back(float(k));
        k += one.down ? -one.by : one.by;
      }
      CAPTURE(n, one.step, one.by);
      Given x = floats("x", {n, 1}, Floats(size_t(n), 7.0f));
      if (n < 100) // else a number, and more turns than are written out
        x.names = {"n"};
      const auto y =
          run_model<float>(loop, {x, floats("one", {1}, {1})},
                           n < 100 ? ImportOptions{.bounds = {"n=0..8"}} : ImportOptions{});
      CHECK(y.dims == Ints{int64_t(wanted.size()), 1});
      CHECK(y.values == wanted);
    }
}

TEST_CASE("a loop within another: as many turns as the outer one's number, and of none") {
  // Row i: the sum of 0, .., i - 1, times x.
  const std::string inner = body(node("Identity", {"d"}, {"do"}) +
                                     node("Cast", {"j"}, {"f"}, integer_attribute("to", kF32)) +
                                     node("Mul", {"x", "f"}, {"part"}),
                                 {"j", "d"}, {"do", "part"});
  for (const std::string turns : {"i", "none"}) {
    const std::string outer =
        body(node("Identity", {"c"}, {"co"}) + node("Loop", {turns, "c"}, {"parts"}, inner) +
                 node("ReduceSum", {"parts", "axis"}, {"row"}, integer_attribute("keepdims", 0)),
             {"i", "c"}, {"co", "row"});
    const auto y =
        run_model<float>(node("Loop", {"four", "yes"}, {"y"}, outer) + whole("four", 4) +
                             whole("none", 0) + truth("yes", true) + integers("axis", {0}),
                         {floats("x", {2}, {1, 2})});
    CHECK(y.dims == Ints{4, 2});
    CHECK(y.values == (turns == "i" ? Floats{0, 0, 0, 0, 1, 2, 3, 6} : Floats(8, 0.0f)));
  }
}

TEST_CASE("a loop of known turns within one of the device collects") {
  const std::string inner = body(node("Identity", {"d"}, {"do"}) +
                                     node("Cast", {"j"}, {"f"}, integer_attribute("to", kF32)) +
                                     node("Add", {"x", "f"}, {"part"}),
                                 {"j", "d"}, {"do", "part"});
  const std::string outer =
      body(node("Identity", {"c"}, {"co"}) + node("Loop", {"two", "c"}, {"parts"}, inner) +
               node("ReduceSum", {"parts", "axis"}, {"sum"}, integer_attribute("keepdims", 0)) +
               node("Add", {"a", "sum"}, {"ao"}),
           {"i", "c", "a"}, {"co", "ao"});
  const auto y =
      run_model<float>(node("Loop", {"many", "yes", "x"}, {"y"}, outer) + whole("many", 70) +
                           whole("two", 2) + truth("yes", true) + integers("axis", {0}),
                       {floats("x", {2}, {1, 5})});
  // 70 times (x + 0) + (x + 1), from x on.
  CHECK(y.values == Floats{1 + 70 * 3, 5 + 70 * 11});
}
