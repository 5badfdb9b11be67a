// New weights for a session that lives: later runs take them, in the graphs that are there.
#include "support/api_fixture.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

constexpr int64_t kSamples = 5, kFeatures = 8, kClasses = 6;

// %t depends on a weight alone: it is computed when weights are loaded.
const char *const kLinear = R"(cugrt 1

func @main(%x: tensor<[n, 8], f32>, %w: tensor<[6, 8], f32>, %b: tensor<[6], f32>) -> (tensor<[n, 6], f32>)
    attributes {num_inputs = 1, upper_bounds = {n = 16}} {
  %t = transpose(%w) {axes = [1, 0]}
  %y = matmul(%x, %t)
  %z = add(%y, %b)
  return %z
}
)";

Weights weights_of(const std::vector<float> &w, const std::vector<float> &b) {
  Weights weights;
  weights.add("w", w.data(), CUGRT_F32, std::vector<int64_t>{kClasses, kFeatures});
  weights.add("b", b.data(), CUGRT_F32, std::vector<int64_t>{kClasses});
  return weights;
}

std::vector<double> linear(const std::vector<float> &x, const std::vector<float> &w,
                           const std::vector<float> &b) {
  std::vector<double> y;
  for (int64_t i = 0; i < kSamples; ++i)
    for (int64_t j = 0; j < kClasses; ++j) {
      double sum = b[size_t(j)];
      for (int64_t k = 0; k < kFeatures; ++k)
        sum += double(x[size_t(i * kFeatures + k)]) * double(w[size_t(j * kFeatures + k)]);
      y.push_back(sum);
    }
  return y;
}

struct NewWeights {
  Executable executable{emulated_runtime(), Module::parse(kLinear)};
  Function main = executable.function("main");
  std::vector<float> x = whole_numbers(kSamples * kFeatures, 1), b = whole_numbers(kClasses, 2),
                     first = whole_numbers(kClasses * kFeatures, 3),
                     second = whole_numbers(kClasses * kFeatures, 4);
  Buffer input = upload(x);

  /// A run of the session gives x times the transpose of w, plus b.
  void check(Session &session, const std::vector<float> &w) {
    const auto results = session.run(main, {input.tensor(CUGRT_F32, {kSamples, kFeatures})});
    session.synchronize();
    check_close(download<float>(results[0].as.tensor.address, kSamples * kClasses), linear(x, w, b),
                0);
  }
};

std::string refusal_of(const std::function<void()> &call) { return error_of(call).what(); }

} // namespace

TEST_CASE(
    "runs behind an update take the new weights in the instances that are there, and those that "
    "are computed from them") {
  NewWeights program;
  const Weights first = weights_of(program.first, program.b);
  Session session(program.executable, emulated_runtime(), first);
  for (int i = 0; i < 3; ++i)
    program.check(session, program.first);
  const auto before = session.counters();

  Weights changes;
  changes.add("w", program.second.data(), CUGRT_F32, std::vector<int64_t>{kClasses, kFeatures});
  const Weights second = first.replaced(changes);
  session.update_weights(second);
  program.check(session, program.second);
  auto after = session.counters();
  CHECK(after.regions_built == before.regions_built);
  CHECK(after.eager_steps == before.eager_steps);
  CHECK(after.fields_patched > before.fields_patched);
  CHECK(after.weight_bytes == before.weight_bytes);

  program.check(session, program.second); // nothing is left to patch
  CHECK(session.counters().fields_patched == after.fields_patched);
  session.update_weights(first);
  program.check(session, program.first);
}

TEST_CASE("each session has the weights that it was given, and equal ones are uploaded once") {
  NewWeights program;
  const Weights first = weights_of(program.first, program.b),
                second = weights_of(program.second, program.b);
  Session a(program.executable, emulated_runtime(), first),
      b(program.executable, emulated_runtime(), first);
  a.update_weights(second);
  program.check(a, program.second);
  program.check(b, program.first);
  Session late(program.executable, emulated_runtime(), first);
  program.check(late, program.first);
  b.update_weights(second);
  program.check(b, program.second);
}

TEST_CASE("an update that fails leaves the weights as they were") {
  NewWeights program;
  const Weights first = weights_of(program.first, program.b);
  Session session(program.executable, emulated_runtime(), first);
  program.check(session, program.first);

  Weights narrow, stranger, part;
  narrow.add("w", program.second.data(), CUGRT_F32, std::vector<int64_t>{2, kFeatures});
  stranger.add("v", program.second.data(), CUGRT_F32, std::vector<int64_t>{kClasses, kFeatures});
  part.add("w", program.second.data(), CUGRT_F32, std::vector<int64_t>{kClasses, kFeatures});
  CHECK(refusal_of([&] { first.replaced(stranger); }) == "there is no weight 'v' to be replaced");
  CHECK(refusal_of([&] { session.update_weights(first.replaced(narrow)); }).find("parameter %w") !=
        std::string::npos);
  CHECK(refusal_of([&] { session.update_weights(part); }).find("no tensor 'b'") !=
        std::string::npos);
  program.check(session, program.first);
}

TEST_CASE("new weights in place of the old ones patch nothing, once the session's work has ended") {
  NewWeights program;
  const Weights first = weights_of(program.first, program.b),
                second = weights_of(program.second, program.b);
  Group group(emulated_runtime());
  for (Group *in : {static_cast<Group *>(nullptr), &group}) {
    auto options = detail::sized<cugrt_session_options>();
    options.group = in ? in->get() : nullptr;
    Session session(program.executable, emulated_runtime(), first, options);
    for (int i = 0; i < 3; ++i)
      program.check(session, program.first);
    const auto before = session.counters();
    session.run(program.main, {program.input.tensor(CUGRT_F32, {kSamples, kFeatures})});
    session.update_weights_in_place(second);
    program.check(session, program.second);
    const auto after = session.counters();
    CHECK(after.fields_patched == before.fields_patched);
    CHECK(after.regions_built == before.regions_built);
    CHECK(after.eager_steps == before.eager_steps);
    CHECK(after.weight_bytes == before.weight_bytes);
    // They are what the session has: for others that are opened with them, and for their return.
    Session with_first(program.executable, emulated_runtime(), first, options);
    program.check(with_first, program.first);
    if (in) {
      session.evict();
      program.check(session, program.second);
      session.evict();
      session.update_weights_in_place(first);
      session.evict();
      program.check(session, program.first);
      session.update_weights_in_place(second);
    }
    Session with_second(program.executable, emulated_runtime(), second, options);
    program.check(with_second, program.second);
    CHECK(error_of([&] { session.update_weights_in_place(first); }).code() == CUGRT_BUSY);
    program.check(session, program.second);
    program.check(with_second, program.second);
  }
}

TEST_CASE("new weights that do not fit in place leave the old ones") {
  NewWeights program;
  const Weights first = weights_of(program.first, program.b);
  Session session(program.executable, emulated_runtime(), first);
  Weights narrow, part;
  narrow.add("w", program.second.data(), CUGRT_F32, std::vector<int64_t>{2, kFeatures});
  part.add("w", program.second.data(), CUGRT_F32, std::vector<int64_t>{kClasses, kFeatures});
  CHECK(refusal_of([&] {
          session.update_weights_in_place(first.replaced(narrow));
        }).find("parameter %w") != std::string::npos);
  CHECK(refusal_of([&] { session.update_weights_in_place(part); }).find("no tensor 'b'") !=
        std::string::npos);
  program.check(session, program.first);

  // Dimensions that a symbol leaves open are those of the weights before.
  Executable open(emulated_runtime(), Module::parse(R"(cugrt 1
func @main(%x: tensor<[4, k], f32>, %w: tensor<[k, 6], f32>) -> (tensor<[4, 6], f32>)
    attributes {num_inputs = 1, upper_bounds = {k = 16}} {
  %y = matmul(%x, %w)
  return %y
}
)"));
  const std::vector<float> w = whole_numbers(16 * 6, 5);
  auto of_rows = [&](int64_t rows) {
    Weights weights;
    weights.add("w", w.data(), CUGRT_F32, std::vector<int64_t>{rows, 6});
    return weights;
  };
  Session other(open, emulated_runtime(), of_rows(8));
  CHECK(refusal_of([&] { other.update_weights_in_place(of_rows(16)); }).find("other dimensions") !=
        std::string::npos);
  other.update_weights_in_place(of_rows(8));
}
