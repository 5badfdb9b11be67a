// runtime: symbols with buckets. Results of the rows that callers bring equal those of the same
// module without buckets; numbers are small and whole, so that no order of summation shows.
#include "support/program.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

/// A layer over rows; its one result has the rows behind, the other sums over them. With `kernels`
/// the module's own write %y and %state.
std::string layer_over_rows(const std::string &attributes, bool kernels) {
  return R"(cugrt 1
func @main(%x: tensor<[n, m, 4], f32>, %w: tensor<[4, 6], f32>, %y: )" +
         std::string(kernels ? "out" : "inout") + R"( tensor<[n, m, 6], f32>,
           %state: inout tensor<[n], f32>) -> (tensor<[6, n, m], f32>, tensor<[m, 6], f32>)
    attributes {)" +
         attributes + R"(} {
  %h = matmul(%x, %w)
  %r = relu(%h)
)" + (kernels ? "  launch @copy(%r, %y, 6*n*m)\n  launch @count(%state, n)\n" : "") +
         R"(  %t = transpose(%r) {axes = [2, 0, 1]}
  %s = reduce_sum(%r) {axes = [0]}
  return %t, %s
}
kernel @copy {
  inline """
extern "C" __global__ void copy(const float *x, float *y, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
"""
  entry "copy"
  params (x: in f32, y: out f32, n: symbol i64)
  launch { grid (ceildiv(n, 64), 1, 1) block (64, 1, 1) }
}
kernel @count {
  inline """
extern "C" __global__ void count(float *x, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}
"""
  entry "count"
  params (x: inout f32, n: symbol i64)
  launch { grid (ceildiv(n, 64), 1, 1) block (64, 1, 1) }
}
)";
}

constexpr int64_t kMost = 20;
const std::string kPlain = "upper_bounds = {n = 20, m = 20}";

/// A session and memory of exactly the sizes of a run, but for what is written: that is followed by
/// numbers that nobody may touch.
struct RowsSide : Program {
  RowsSide(const std::string &attributes, cugrt_session_options options, bool kernels = false)
      : Program(layer_over_rows(attributes, kernels), options) {}

  std::vector<float> run(int64_t n, int64_t m, uint32_t seed) {
    const auto rows = static_cast<size_t>(n * m);
    const size_t guard = 4 * kMost * kMost;
    Buffer x = upload(whole_numbers(std::max<size_t>(rows * 4, 1), seed));
    Buffer w = upload(whole_numbers(24, 5));
    Buffer y = upload(std::vector<float>(rows * 6 + guard, -7));
    Buffer state = upload(whole_numbers(static_cast<size_t>(n) + guard, seed + 1));
    std::vector<Value> arguments = {x.tensor(CUGRT_F32, {n, m, 4}), w.tensor(CUGRT_F32, {4, 6}),
                                    y.tensor(CUGRT_F32, {n, m, 6}), state.tensor(CUGRT_F32, {n})};
    std::vector<float> all;
    for (const Value &result : Program::run(arguments)) {
      const cugrt_tensor &tensor = result.as.tensor;
      all.insert(all.end(), {float(tensor.rank), float(tensor.dims[0]), float(tensor.dims[1])});
      auto more = contents(result);
      all.insert(all.end(), more.begin(), more.end());
    }
    for (const auto &[buffer, count] : {std::pair(&y, rows * 6), std::pair(&state, size_t(n))}) {
      auto more = download<float>(buffer->address(), count + guard);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  std::vector<cugrt_launch_record> records() {
    std::vector<cugrt_launch_record> list(64);
    for (cugrt_launch_record &record : list)
      record.struct_size = sizeof record;
    size_t count = 0;
    check(api().session_read_launches(session.get(), list.data(), list.size(), &count));
    list.resize(count);
    return list;
  }
};

cugrt_session_options logged() {
  auto options = session_options();
  options.record_capacity = 64;
  return options;
}

} // namespace

TEST_CASE("rows that callers bring come out as without buckets, and memory beyond them is not "
          "touched") {
  for (const char *buckets : {"buckets = {n = [3, 8, 20]}", "buckets = {m = [5, 20]}",
                              "buckets = {n = [1, 4, 16], m = [2, 7, 12]}"}) {
    INFO(buckets);
    RowsSide plain(kPlain, session_options(), true);
    RowsSide padded(kPlain + ", " + buckets, session_options(), true);
    uint32_t seed = 3;
    for (auto [n, m] : {std::pair(1, 1),
                        {2, 6},
                        {3, 5},
                        {4, 5},
                        {8, 9},
                        {9, 3},
                        {20, 20},
                        {0, 4},
                        {7, 0},
                        {2, 6},
                        {17, 13}}) {
      INFO("n = " << n << ", m = " << m);
      ++seed;
      CHECK(plain.run(n, m, seed) == padded.run(n, m, seed));
    }
    CHECK(padded.session.counters().regions_eager == 0);
  }
}

TEST_CASE("eager sessions and graphs see the same padding") {
  const std::string attributes = kPlain + ", buckets = {n = [6, 12]}";
  auto options = session_options();
  RowsSide graphs(attributes, options, true);
  options.eager = 1;
  RowsSide eager(attributes, options, true);
  for (int64_t n : {2, 6, 11, 15})
    CHECK(graphs.run(n, 3, 9) == eager.run(n, 3, 9));
}

TEST_CASE("keys are buckets: values of one bucket share an instance, and records tell what was "
          "padded") {
  RowsSide side("upper_bounds = {m = 4}, buckets = {n = [4, 16]}", logged());
  for (int64_t n : {9, 13, 13, 2, 16})
    side.run(n, 4, 1);
  std::vector<cugrt_launch_record> records = side.records();
  REQUIRE(records.size() == 5);
  const int64_t keys[] = {16, 16, 16, 4, 16}, from[] = {9, 13, 13, 2, 16};
  for (size_t i = 0; i < records.size(); ++i) {
    INFO("launch " << i);
    REQUIRE(records[i].key_size == 2);
    const uint32_t at = std::string(records[i].key_names[0]) == "n_bucket" ? 0 : 1;
    CHECK(std::string(records[i].key_names[at]) == "n_bucket");
    CHECK(records[i].key_values[at] == keys[i]);
    CHECK(records[i].padded_from[at] == from[i]);
    CHECK(std::string(records[i].key_names[1 - at]) == "m");
    CHECK(records[i].padded_from[1 - at] == 4);
    CHECK((records[i].kind == CUGRT_LAUNCH_BUILT) == (i == 0 || i == 3));
  }
  CHECK(side.session.counters().regions_built == 2);
  CHECK(side.session.counters().instances == 2);
}

TEST_CASE("a run with nothing changed is a hit, and one with another value of the bucket sets the "
          "nodes at both ends alone") {
  RowsSide side("upper_bounds = {m = 4}, buckets = {n = [16]}", logged());
  Buffer x = upload(whole_numbers(256, 1)), w = upload(whole_numbers(24, 5)),
         y = upload(std::vector<float>(384)), state = upload(std::vector<float>(16));
  auto run = [&](int64_t n) {
    std::vector<Value> arguments = {x.tensor(CUGRT_F32, {n, 4, 4}), w.tensor(CUGRT_F32, {4, 6}),
                                    y.tensor(CUGRT_F32, {n, 4, 6}), state.tensor(CUGRT_F32, {n})};
    side.Program::run(arguments);
    return side.records().back();
  };
  CHECK(run(9).kind == CUGRT_LAUNCH_BUILT);
  CHECK(run(9).kind == CUGRT_LAUNCH_HIT);
  cugrt_launch_record record = run(10);
  CHECK(record.kind == CUGRT_LAUNCH_PATCHED);
  // %x, %y and %state (in and out), the transposed result: their one length that is not the
  // bucket's.
  CHECK(record.fields_patched == 6);
  CHECK(run(10).kind == CUGRT_LAUNCH_HIT);
}

TEST_CASE("preparing a value makes its bucket's instance") {
  RowsSide side("upper_bounds = {m = 4}, buckets = {n = [4, 16]}", logged());
  cugrt_symbol_value values[] = {{"n", 9}, {"m", 4}};
  auto report = detail::sized<cugrt_prepare_report>();
  check(api().session_prepare(side.session.get(), side.main().get(), values, 2, &report));
  CHECK(report.built == 1);
  side.run(13, 4, 1);
  CHECK(side.session.counters().regions_built == 0);
}

TEST_CASE("beyond the last bucket a value is an error, or runs at its own size where the upper "
          "bound allows it") {
  RowsSide bounded("upper_bounds = {m = 4}, buckets = {n = [4, 16]}", logged());
  Error error = error_of([&] { bounded.run(17, 4, 1); });
  CHECK(mentions(error, "gives symbol n the value 17, but its bounds are 0 to 16"));
  RowsSide open("upper_bounds = {m = 4, n = 18}, buckets = {n = [4, 16]}", logged());
  RowsSide plain("upper_bounds = {m = 4, n = 18}", logged());
  CHECK(open.run(17, 4, 1) == plain.run(17, 4, 1));
  std::vector<cugrt_launch_record> records = open.records();
  CHECK(records[0].padded_from[0] == records[0].key_values[0]);
  CHECK(records[0].padded_from[1] == records[0].key_values[1]);
  error = error_of([&] { open.run(19, 4, 1); });
  CHECK(mentions(error, "0 to 18"));
}

TEST_CASE("the plan's report tells of buckets") {
  Module module = Module::parse(
      layer_over_rows("upper_bounds = {m = 4, n = 18}, buckets = {n = [4, 16]}", false));
  std::string text = module.plan_report();
  CHECK(text.find("symbol n_bucket in [4, 18]: the least of 4, 16 that holds n, beyond them n "
                  "itself") != std::string::npos);
  CHECK(text.find("key n_bucket, m;") != std::string::npos);
}

namespace {

/// Of 64 rows of 65,536 floats, as many as the bucket has are %a's, the others %b's. As
/// PadToBuckets leaves functions: kernels that are to see the bucket are written so.
const std::string kShares = R"(cugrt 1
kernel @spread {
  inline """
extern "C" __global__ void spread(const float *x, float *y, long long of_x, long long blocks, float k) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= blocks) return;
  y[i * 4096] = x[i % of_x] + k;
  y[i * 4096 + 4095] = k;
}
"""
  entry "spread"
  params (x: in f32, y: out f32, of_x: symbol i64, blocks: symbol i64, k: scalar f32)
  launch { grid (ceildiv(blocks, 64), 1, 1) block (64, 1, 1) }
}
kernel @gather {
  inline """
extern "C" __global__ void gather(const float *a, const float *b, float *y, long long of_a, long long of_b,
                                  long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (long long j = i; j < of_a; j += n) sum += a[j * 4096] + a[j * 4096 + 4095];
  for (long long j = i; j < of_b; j += n) sum += b[j * 4096] + b[j * 4096 + 4095];
  y[i] = sum;
}
"""
  entry "gather"
  params (a: in f32, b: in f32, y: out f32, of_a: symbol i64, of_b: symbol i64, n: symbol i64)
  launch { grid (1, 1, 1) block (64, 1, 1) }
}
func @main<n_bucket, n>(%x: tensor<[n], f32>, %y: out tensor<[n], f32>)
    attributes {upper_bounds = {n = 63}, buckets = {n = [1, 16, 63]}, bucket_symbols = {n_bucket = n}} {
  %a = alloc : tensor<[n_bucket, 65536], f32>
  launch @spread(%x, %a, n, 16*n_bucket, 3.0)
  %b = alloc : tensor<[64 - n_bucket, 65536], f32>
  launch @spread(%x, %b, n, 16*(64 - n_bucket), 5.0)
  launch @gather(%a, %b, %y, 16*n_bucket, 16*(64 - n_bucket), n)
  return
}
)";

/// What @main gives, from its kernels' sources.
std::vector<float> shares(const std::vector<float> &x, size_t bucket) {
  std::vector<float> y(x.size(), 0);
  const size_t of_a = 16 * bucket, of_b = 16 * (64 - bucket);
  for (size_t j = 0; j < of_a; ++j)
    y[j % x.size()] += x[j % x.size()] + 3 + 3;
  for (size_t j = 0; j < of_b; ++j)
    y[j % x.size()] += x[j % x.size()] + 5 + 5;
  return y;
}

} // namespace

TEST_CASE(
    "each bucket has offsets of its own where that saves memory, and keys of all buckets give "
    "what they should, in turn") {
  Module module = Module::parse(kShares);
  const std::string report = module.plan_report();
  CHECK(report.find("lower bound") != std::string::npos);
  CHECK(report.find("where n_bucket = 1\n") != std::string::npos);
  CHECK(report.find("where n_bucket = 63\n") != std::string::npos);
  // 64 rows of 256 KiB and what x and y take beside them, not the 126 of one set of offsets.
  const size_t at = report.find("arena ", report.find("storage, in bytes")) + 6;
  const long long arena = std::stoll(report.substr(at));
  CHECK(arena >= 64 * (256 << 10));
  CHECK(arena < 65 * (256 << 10));
  auto options = session_options();
  Executable executable(emulated_runtime(), module);
  Session graphs(executable, emulated_runtime(), Weights(), options);
  options.eager = 1;
  Session eager(executable, emulated_runtime(), Weights(), options);
  Function main = executable.function("main");
  uint32_t seed = 1;
  for (int64_t n : {1, 63, 2, 16, 1, 40, 63, 7, 1}) {
    INFO("n = " << n);
    const std::vector<float> x = whole_numbers(static_cast<size_t>(n), ++seed);
    const size_t bucket = n <= 1 ? 1 : n <= 16 ? 16 : 63;
    for (Session *session : {&graphs, &eager}) {
      Buffer from = upload(x), to = upload(std::vector<float>(x.size(), -1));
      std::vector<Value> arguments = {from.tensor(CUGRT_F32, {n}), to.tensor(CUGRT_F32, {n})};
      session->run(main, arguments);
      session->synchronize();
      CHECK(download<float>(to.address(), x.size()) == shares(x, bucket));
    }
  }
  CHECK(graphs.counters().regions_eager == 0);
  CHECK(graphs.counters().instances == 3);
}

TEST_CASE("a session commits of its arena what the buckets need that it has run") {
  // Rows of 256 KiB. @main has n_bucket of them for %a and %c each, 64 - n_bucket for %b, all alive
  // at the first @gather: 65 of them where n_bucket = 1, 127 where it is 63. With one set of
  // offsets, 63 for each tensor, %b or %c would begin in bucket 1 where bucket 63 needs it.
  std::string text = kShares;
  auto replace = [&](const std::string &from, const std::string &to) {
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  };
  replace("%y: out tensor<[n], f32>)", "%y: out tensor<[n], f32>, %z: out tensor<[n], f32>)");
  replace("  launch @gather(%a, %b, %y, 16*n_bucket, 16*(64 - n_bucket), n)\n",
          "  %c = alloc : tensor<[n_bucket, 65536], f32>\n"
          "  launch @spread(%x, %c, n, 16*n_bucket, 7.0)\n"
          "  launch @gather(%a, %b, %y, 16*n_bucket, 16*(64 - n_bucket), n)\n"
          "  launch @gather(%a, %c, %z, 16*n_bucket, 16*n_bucket, n)\n");
  Executable executable(emulated_runtime(), Module::parse(text));
  Function main = executable.function("main");
  constexpr uint64_t kRow = 256 << 10, kPage = 2 << 20;
  constexpr uint64_t kSmall = 9 * kPage, kLarge = 16 * kPage;
  static_assert(65 * kRow <= kSmall && 65 * kRow > kSmall - kPage);
  static_assert(127 * kRow <= kLarge && 127 * kRow > kLarge - kPage);
  auto committed_after = [&](std::initializer_list<int64_t> keys) {
    Session session(executable, emulated_runtime(), Weights(), session_options());
    for (int64_t n : keys) {
      const std::vector<float> x = whole_numbers(static_cast<size_t>(n), 3);
      Buffer from = upload(x), y = upload(x), z = upload(x);
      session.run(
          main, {from.tensor(CUGRT_F32, {n}), y.tensor(CUGRT_F32, {n}), z.tensor(CUGRT_F32, {n})});
      session.synchronize();
      CHECK(download<float>(y.address(), x.size()) == shares(x, n == 1 ? 1 : 63));
    }
    return session.counters().arena_committed_bytes;
  };
  CHECK(committed_after({1}) == kSmall);
  CHECK(committed_after({1, 1}) == kSmall);
  CHECK(committed_after({63}) == kLarge);
  CHECK(committed_after({1, 40}) == kLarge);
  CHECK(committed_after({40, 1}) == kLarge); // what has been committed stays
}
