// runtime: joint constraints of symbols. Storage has the bytes that they leave, results at the
// corners of the domain are those of the same module without them, and what breaks one is refused.
// Numbers are small and whole, so that no order of summation shows.
#include "support/program.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

std::string layer(const std::string &attributes) {
  return R"(cugrt 1
func @main(%x: tensor<[n, m, 4], f32>, %w: tensor<[4, 6], f32>) -> (tensor<[6, n, m], f32>)
    attributes {)" +
         attributes + R"(} {
  %h = matmul(%x, %w)
  %r = relu(%h)
  %s = add(%r, %h)
  %t = transpose(%s) {axes = [2, 0, 1]}
  %u = relu(%t)
  return %u
}
)";
}

const std::string kBounds = "lower_bounds = {n = 1, m = 1}, upper_bounds = {n = 400, m = 400}";
const std::string kConstraint = ", constraints = [n*m <= 800]";

struct ConstrainedSide : Program {
  explicit ConstrainedSide(const std::string &text, bool eager = false)
      : Program(text, session_options(eager)) {}
  std::vector<float> run(int64_t n, int64_t m) {
    Buffer x = upload(whole_numbers(size_t(n * m * 4), uint32_t(n))),
           w = upload(whole_numbers(24, 5));
    std::vector<Value> arguments = {x.tensor(CUGRT_F32, {n, m, 4}), w.tensor(CUGRT_F32, {4, 6})};
    return contents(Program::run(arguments)[0]);
  }
  uint64_t arena_bytes() { return session.counters().arena_bytes; }
};

constexpr std::pair<int64_t, int64_t> kCorners[] = {{1, 1}, {400, 2}, {2, 400}, {28, 28}, {1, 400}};

} // namespace

TEST_CASE("at the corners of a domain graphs and eager sessions give what a module without the "
          "constraint gives, with a fraction of its storage") {
  ConstrainedSide plain(layer(kBounds)), graphs(layer(kBounds + kConstraint)),
      eager(layer(kBounds + kConstraint), true);
  for (auto [n, m] : kCorners) {
    INFO("n = " << n << ", m = " << m);
    const std::vector<float> expected = plain.run(n, m);
    CHECK(graphs.run(n, m) == expected);
    CHECK(eager.run(n, m) == expected);
  }
  CHECK(graphs.session.counters().regions_eager == 0);
  // Of each tensor 24*n*m bytes: 800 instead of 160000 elements.
  CHECK(graphs.arena_bytes() <= plain.arena_bytes() / 100);
}

TEST_CASE("a run that breaks a constraint is refused with its name and its symbols' values") {
  ConstrainedSide side(layer(kBounds + kConstraint));
  Error error = error_of([&] { side.run(29, 28); });
  CHECK(mentions(error, "function @main: constraint n*m <= 800 is broken: it is 812 with n = 29, "
                        "m = 28"));
  side.run(28, 28); // the session is as good as before
  cugrt_symbol_value values[] = {{"n", 29}, {"m", 28}};
  auto report = detail::sized<cugrt_prepare_report>();
  error = error_of([&] {
    check(api().session_prepare(side.session.get(), side.main().get(), values, 2, &report));
  });
  CHECK(mentions(error, "constraint n*m <= 800 is broken"));
}

TEST_CASE("a symbol that a constraint alone bounds has a place") {
  ConstrainedSide side(layer("lower_bounds = {n = 1, m = 1}" + kConstraint));
  ConstrainedSide plain(layer(kBounds));
  CHECK(side.run(400, 2) == plain.run(400, 2));
  CHECK(side.run(1, 800).size() == 4800);
  CHECK(mentions(error_of([&] { side.run(1, 801); }), "it is 801 with n = 1, m = 801"));
}

TEST_CASE("what is padded may be beyond a constraint, what callers bring may not") {
  const std::string buckets = ", buckets = {n = [8, 400]}";
  ConstrainedSide side(layer(kBounds + kConstraint + buckets)), plain(layer(kBounds));
  // At 400 rows n is at least 9, so m at most 88: 35200 elements instead of 160000.
  for (auto [n, m] : {std::pair<int64_t, int64_t>{1, 400}, {2, 400}, {8, 100}, {9, 88}, {400, 2}}) {
    INFO("n = " << n << ", m = " << m);
    CHECK(side.run(n, m) == plain.run(n, m));
  }
  CHECK(side.session.counters().regions_eager == 0);
  CHECK(side.arena_bytes() <= plain.arena_bytes() / 2);
  CHECK(mentions(error_of([&] { side.run(9, 89); }),
                 "constraint m*n <= 800 is broken: it is 801 with m = 89, n = 9"));
}

namespace {

std::string caller(const std::string &of_caller, const std::string &of_callee) {
  return R"(cugrt 1
func @main(%x: tensor<[n, m, 4], f32>, %w: tensor<[4, 6], f32>) -> (tensor<[n, m, 6], f32>)
    attributes {)" +
         of_caller + R"(} {
  %h = call @inner(%x, %w)
  %r = relu(%h)
  return %r
}
private func @inner(%x: tensor<[a, b, 4], f32>, %w: tensor<[4, 6], f32>) -> (tensor<[a, b, 6], f32>)
    attributes {)" +
         of_callee + R"(} {
  %h = matmul(%x, %w)
  %r = add(%h, %h)
  return %r
}
)";
}

} // namespace

TEST_CASE("a callee's constraint holds for its callers") {
  ConstrainedSide kept(caller(kBounds + kConstraint, "constraints = [a*b <= 900]")),
      checked(caller(kBounds, "lower_bounds = {a = 1, b = 1}, constraints = [a*b <= 800]")),
      plain(caller(kBounds, ""));
  for (auto [n, m] : kCorners) {
    INFO("n = " << n << ", m = " << m);
    const std::vector<float> expected = plain.run(n, m);
    CHECK(kept.run(n, m) == expected);
    CHECK(checked.run(n, m) == expected);
  }
  const Error error = error_of([&] { checked.run(29, 28); });
  CHECK(mentions(error, "function @inner: constraint a*b <= 800 is broken: it is 812 with a = 29, "
                        "b = 28"));
  CHECK(mentions(error_of([&] { kept.run(29, 28); }), "function @main: constraint n*m <= 800"));
}

TEST_CASE("symbols of a match are checked where it stands") {
  ConstrainedSide side(R"(cugrt 1
func @main(%x: tensor<?, f32>, %w: tensor<[4, 6], f32>) -> (tensor<[6], f32>)
    attributes {lower_bounds = {n = 1, m = 1}, constraints = [n*m <= 800]} {
  %y = match %x : tensor<[n, m, 4], f32>
  %h = matmul(%y, %w)
  %r = relu(%h)
  %sum = reduce_sum(%r) {axes = [0, 1]}
  return %sum
}
)");
  const std::vector<float> sums = side.run(400, 2);
  CHECK(sums.size() == 6);
  CHECK(mentions(error_of([&] { side.run(29, 28); }), "it is 812 with n = 29, m = 28"));
  CHECK(side.run(400, 2) == sums); // the next run is as good
}

TEST_CASE("the plan's report tells of constraints") {
  const std::string text = Module::parse(layer(kBounds + kConstraint)).plan_report();
  CHECK(text.find("symbol m in [1, 400]\n  constraint n*m <= 800\n") != std::string::npos);
}
