// Results: in memory of the session's or of the caller's, in arrays that come back from run to run.
#include "support/program.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

const std::string kScale = R"(cugrt 1

kernel @scale {
  inline """
extern "C" __global__ void scale(const float *x, float *y, long long n, int a) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * a;
  }
  """
  entry "scale"
  params (x: in f32, y: out f32, n: symbol i64, a: scalar i32)
  launch { grid (ceildiv(n, 64), 1, 1) block (64, 1, 1) }
}
)";

struct ResultsProgram : Program {
  using Program::Program;
  void run(std::vector<Value> arguments, std::vector<Value> &results) {
    session.run_into(main(), arguments, results);
    session.synchronize();
  }
};

Value tensor(const Buffer &buffer, int64_t n) { return buffer.tensor(CUGRT_F32, {n}); }
std::vector<float> filled(size_t count, float value) { return std::vector<float>(count, value); }

} // namespace

TEST_CASE("memory that a caller binds is written to after a run that was refused") {
  ResultsProgram program(kScale + R"(
func @main(%x: tensor<[8], f32>, %a: int) -> (tensor<[8], f32>) {
%r = alloc : tensor<[8], f32>
launch @scale(%x, %r, 8, %a)
return %r
}
)");
  Buffer x = upload(filled(8, 1)), y = upload(filled(8, 0));
  for (int64_t a : {2, 3, 4}) {
    std::vector<Value> bound{tensor(y, 8)}, none(1);
    program.run({tensor(x, 8), a}, bound);
    CHECK(bound[0].as.tensor.address == y.address());
    CHECK(download<float>(y.address(), 8) == filled(8, float(a)));
    CHECK_THROWS_AS(program.run({tensor(x, 8), int64_t(1) << 40}, none), Error);
  }
}

TEST_CASE("results whose size a match finds may take buffers in turn, and overlap nothing") {
  const std::string text = kScale + R"(
func @main(%x: tensor<?, f32>, %z: tensor<?, f32>) -> (tensor<?, f32>, tensor<?, f32>) {
  %y = match %x : tensor<[m], f32>
  %r = alloc : tensor<[m], f32>
  launch @scale(%y, %r, m, 2)
  %v = match %z : tensor<[k], f32>
  %s = alloc : tensor<[k], f32>
  launch @scale(%v, %s, k, 3)
  return %r, %s
}
)";
  ResultsProgram program(text);
  Buffer a = upload(filled(32, 1)), b = upload(filled(32, 0)), c = upload(filled(32, 5)),
         d = upload(filled(32, 0)), e = upload(filled(32, 0));
  struct Run {
    Buffer *x, *r, *s;
    int64_t m, k;
  };
  double x_value = 1;
  // Each run reads what the one before wrote.
  for (const Run &run : {Run{&a, &b, &d, 16, 8}, Run{&b, &a, &e, 16, 8}, Run{&a, &b, &d, 9, 32},
                         Run{&b, &a, &e, 9, 4}, Run{&a, &b, &d, 8, 7}}) {
    std::vector<Value> results{tensor(*run.r, run.m), tensor(*run.s, run.k)};
    program.run({tensor(*run.x, run.m), tensor(c, run.k)}, results);
    x_value *= 2;
    CHECK(results[0].as.tensor.address == run.r->address());
    CHECK(results[1].as.tensor.address == run.s->address());
    CHECK(contents(results[0]) == filled(size_t(run.m), float(x_value)));
    CHECK(contents(results[1]) == filled(size_t(run.k), 15));
  }
  std::vector<Value> none(2);
  program.run({tensor(b, 8), tensor(c, 7)}, none);
  CHECK(contents(none[0]) == filled(8, float(2 * x_value)));
  // Of the first result with its own parameter and with the second one's, of the second with each.
  for (auto [r, s, what] : {std::tuple(&b, &e, "result 0"), std::tuple(&c, &e, "result 0"),
                            std::tuple(&a, &b, "result 1"), std::tuple(&a, &c, "result 1"),
                            std::tuple(&a, &a, "result 1")}) {
    std::vector<Value> results{tensor(*r, 8), tensor(*s, 7)};
    const Error error = error_of([&] { program.run({tensor(b, 8), tensor(c, 7)}, results); });
    INFO(error.what());
    CHECK(mentions(error, "overlaps"));
    CHECK(mentions(error, what));
  }
  std::vector<Value> results{tensor(a, 8), tensor(e, 7)};
  program.run({tensor(b, 8), tensor(c, 7)}, results);
  CHECK(contents(results[0]) == filled(8, float(2 * x_value)));
}

TEST_CASE(
    "an address that any earlier run handed out binds nothing, and no other memory takes it") {
  ResultsProgram program(kScale + R"(
func @main(%x: tensor<[n], f32>) -> (tensor<[n], f32>) {
%r = alloc : tensor<[n], f32>
launch @scale(%x, %r, n, 2)
return %r
}
)");
  Buffer x = upload(filled(100'000, 1));
  std::vector<std::vector<Value>> arrays(8, std::vector<Value>(1));
  std::vector<Buffer> others;
  int64_t n = 10;
  for (std::vector<Value> &array : arrays) {
    program.run({tensor(x, n)}, array);
    // Would lie where a block was that the session had given back.
    others.push_back(upload(filled(size_t(n), 9)));
    n *= 3;
  }
  for (std::vector<Value> &array : arrays) {
    program.run({tensor(x, 10)}, array);
    CHECK(contents(array[0]) == filled(10, 2));
  }
  n = 10;
  for (const Buffer &other : others) {
    CHECK(download<float>(other.address(), size_t(n)) == filled(size_t(n), 9));
    n *= 3;
  }
  CHECK(program.session.counters().result_bytes < 4 * 3 * 21'870 * sizeof(float));
}

TEST_CASE("arrays of results that a parameter lies in may come back in turn") {
  ResultsProgram program(kScale + R"(
func @main(%x: tensor<[8], f32>) -> (tensor<[8], f32>, tensor<[8], f32>) {
%r = alloc : tensor<[8], f32>
launch @scale(%x, %r, 8, 2)
return %r, %x
}
)");
  Buffer x[] = {upload(filled(8, 1)), upload(filled(8, 2)), upload(filled(8, 3))};
  std::vector<Value> arrays[] = {std::vector<Value>(2), std::vector<Value>(2)};
  for (int i = 0; i < 12; ++i) {
    std::vector<Value> &array = arrays[i % 2];
    program.run({tensor(x[i % 3], 8)}, array);
    CHECK(array[1].as.tensor.address == x[i % 3].address());
    CHECK(contents(array[0]) == filled(8, float(2 * (i % 3 + 1))));
  }
  Buffer own = upload(filled(8, 0));
  std::vector<Value> bound{Value{}, tensor(own, 8)};
  CHECK(mentions(error_of([&] { program.run({tensor(x[0], 8)}, bound); }),
                 "result 1 is tensor %x itself"));
}

TEST_CASE(
    "a part of a tensor is copied where it alone is returned, in the graph of what makes it") {
  ResultsProgram program(kScale + R"(
func @main(%x: tensor<[2, n], f32>) -> (tensor<[n], f32>, tensor<[1], f32>)
    attributes {upper_bounds = {n = 64}, lower_bounds = {n = 1}} {
  %y = alloc : tensor<[2, n], f32>
  launch @scale(%x, %y, 2*n, 3)
  %z = alloc : tensor<[2, n], f32>
  launch @scale(%y, %z, 2*n, 5)
  %second = view %z, 4*n : tensor<[n], f32>
  %last = view %z, 8*n - 4 : tensor<[1], f32>
  return %second, %last
}
)");
  for (int64_t n : {7, 64, 1, 7}) {
    std::vector<float> in(size_t(2 * n)), second;
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = float(i + 1);
      if (i >= size_t(n))
        second.push_back(15 * in[i]);
    }
    Buffer x = upload(in);
    std::vector<Value> results(2);
    program.run({x.tensor(CUGRT_F32, {2, n})}, results);
    CHECK(contents(results[0]) == second);
    CHECK(contents(results[1]) == std::vector<float>{second.back()});
  }
  const cugrt_counters counters = program.session.counters();
  CHECK(counters.eager_steps == 0);
  CHECK(counters.arena_bytes >= 2 * 64 * 4);
}

TEST_CASE("a session of several frames is refused with a sentence that names two sessions") {
  Executable executable(emulated_runtime(), Module::parse(kScale + R"(
func @main(%x: tensor<[8], f32>) -> (tensor<[8], f32>) {
  %r = alloc : tensor<[8], f32>
  launch @scale(%x, %r, 8, 2)
  return %r
}
)"));
  cugrt_session_options options = CUGRT_INIT(cugrt_session_options);
  options.frames = 2;
  try {
    Session session(executable, emulated_runtime(), {}, options);
    FAIL("the session opened");
  } catch (const Error &error) {
    CHECK(error.code() == CUGRT_UNSUPPORTED);
    CHECK(std::string(error.what()).find("two sessions") != std::string::npos);
  }
}
