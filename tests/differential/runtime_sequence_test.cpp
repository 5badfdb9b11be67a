// runtime: a random sequence of keys, buffers and streams under a budget that holds two instances,
// so that it meets builds, hits, patches and evictions, against the same sequence launched step by
// step: equal bytes after every run.
#include "support/api_fixture.h"

#include <array>
#include <random>
#include <set>

using namespace cugrt;
using namespace cugrt::test;

namespace {

/// Row sums of a layer with a skip, and a state that every run adds to.
const char *const kSequenceModule = R"(cugrt 1

kernel @accumulate {
  inline """
extern "C" __global__ void accumulate(const float *x, float *y, long long n, float a) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = y[i] * a + x[i];
  }
  """
  entry "accumulate"
  params (x: in f32, y: inout f32, n: symbol i64, a: scalar f32)
  launch { grid (ceildiv(n, 64), 1, 1) block (64, 1, 1) }
}

func @main(%x: tensor<[n, m], f32>, %w: tensor<[m, 8], f32>, %state: inout tensor<[n], f32>, %a: float)
    -> (tensor<[n, 8], f32>, tensor<[n], f32>) attributes {upper_bounds = {n = 24, m = 12}} {
  %h = matmul(%x, %w)
  %r = relu(%h)
  %y = add(%r, %r)
  %s = reduce_sum(%y) {axes = [1], keep_dims = false}
  launch @accumulate(%s, %state, n, %a)
  return %y, %s
}

func @pure(%x: tensor<[n, m], f32>, %w: tensor<[m, 8], f32>) -> (tensor<[n, 8], f32>)
    attributes {upper_bounds = {n = 24, m = 12}} {
  %h = matmul(%x, %w)
  %r = tanh(%h)
  %y = add(%r, %r)
  return %y
}
)";

constexpr size_t kRows = 24, kColumns = 12, kWidth = 8;

/// One session with buffers of its own, two of each kind, all alike at the beginning.
struct SequenceSide {
  explicit SequenceSide(Executable &executable, cugrt_session_options options)
      : session(executable, emulated_runtime(), Weights(), options),
        main(executable.function("main")) {
    for (uint32_t i = 0; i < 2; ++i) {
      x.push_back(upload(numbers(kRows * kColumns, 3 + i)));
      w.push_back(upload(numbers(kColumns * kWidth, 5 + i)));
      state.push_back(upload(std::vector<float>(kRows, float(i))));
      y.push_back(upload(std::vector<float>(kRows * kWidth, -1)));
      s.push_back(upload(std::vector<float>(kRows, -1)));
    }
  }

  struct Step {
    int64_t n, m;
    uint32_t x, w, state, y, s; // which buffer; 2, of results: the session's memory
    uint32_t stream;            // 0: the session's own
    double a;
  };

  /// All bytes that the run may have written.
  std::vector<float> run(const Step &step, std::span<Stream> streams) {
    std::vector<Value> arguments = {x[step.x].tensor(CUGRT_F32, {step.n, step.m}),
                                    w[step.w].tensor(CUGRT_F32, {step.m, 8}),
                                    state[step.state].tensor(CUGRT_F32, {step.n}), step.a};
    std::vector<Value> results(2);
    if (step.y < 2)
      results[0] = y[step.y].tensor(CUGRT_F32, {step.n, 8});
    if (step.s < 2)
      results[1] = s[step.s].tensor(CUGRT_F32, {step.n});
    session.run_into(main, arguments, results,
                     step.stream ? streams[step.stream - 1].native() : nullptr);
    session.synchronize();
    auto all = download<float>(results[0].as.tensor.address, elements(results[0].as.tensor));
    auto add = [&](const std::vector<float> &more) {
      all.insert(all.end(), more.begin(), more.end());
    };
    add(download<float>(results[1].as.tensor.address, elements(results[1].as.tensor)));
    for (uint32_t i = 0; i < 2; ++i) {
      add(download<float>(state[i].address(), kRows));
      add(download<float>(y[i].address(), kRows * kWidth));
      add(download<float>(s[i].address(), kRows));
    }
    return all;
  }

  Session session;
  Function main;
  std::vector<Buffer> x, w, state, y, s;
};

} // namespace

TEST_CASE("results equal those of single launches, bit for bit, whatever the sequence of keys, "
          "buffers and streams") {
  Executable executable(emulated_runtime(), Module::parse(kSequenceModule));
  auto options = detail::sized<cugrt_session_options>();
  options.instance_budget_bytes = 160000; // two instances of five nodes
  SequenceSide graphs(executable, options);
  options.eager = 1;
  SequenceSide eager(executable, options);
  std::vector<Stream> streams;
  streams.emplace_back(emulated_runtime());
  streams.emplace_back(emulated_runtime());
  uint32_t seed = 42;
  auto pick = [&](uint32_t count) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 16) % count;
  };
  SequenceSide::Step step{5, 4, 0, 0, 0, 0, 0, 0, 0.5};
  for (int i = 0; i < 300; ++i) {
    // Mostly one thing changes at a time; some keys come often, others once.
    switch (pick(8)) {
    case 0:
      step.n = pick(3) ? 5 + 3 * pick(2) : pick(kRows + 1);
      break;
    case 1:
      step.m = pick(3) ? 4 : 1 + pick(kColumns);
      break;
    case 2:
      step.x = pick(2), step.w = pick(2);
      break;
    case 3:
      step.state = pick(2);
      break;
    case 4:
      step.y = pick(3), step.s = pick(3);
      break;
    case 5:
      step.a = 0.25 * pick(4);
      break;
    case 6:
      step.stream = pick(3);
      break;
    default:
      break;
    }
    INFO("run " << i << ", n = " << step.n << ", m = " << step.m);
    std::vector<float> a = graphs.run(step, streams), b = eager.run(step, streams);
    REQUIRE(a.size() == b.size());
    REQUIRE(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
    REQUIRE(graphs.session.counters().instance_bytes <= options.instance_budget_bytes);
  }
  cugrt_counters counters = graphs.session.counters();
  CHECK(counters.regions_built >= 2);
  CHECK(counters.regions_hit > 10);
  CHECK(counters.regions_patched > 10);
  CHECK(eager.session.counters().regions_eager == 300);
}

namespace {

/// A session whose runs read and write buffers of one pool, so that some depend on each other.
struct Pool {
  Pool(Executable &executable, cugrt_session_options options)
      : session(executable, emulated_runtime(), Weights(), options),
        main(executable.function("main")), pure(executable.function("pure")),
        w(upload(numbers(kColumns * kWidth, 9))), state(upload(std::vector<float>(kRows, 0.5f))) {
    for (uint32_t i = 0; i < 6; ++i)
      buffers.push_back(upload(numbers(kRows * kColumns, 20 + i)));
  }

  struct Step {
    bool with_state;
    int64_t n, m;
    uint32_t from, to;
    uint32_t stream; // 0: the session's own
  };

  /// Does not wait.
  void run(const Step &step, std::span<Stream> streams) {
    void *stream = step.stream ? streams[step.stream - 1].native() : nullptr;
    cugrt_tensor x = buffers[step.from].tensor(CUGRT_F32, {step.n, step.m});
    cugrt_tensor y = buffers[step.to].tensor(CUGRT_F32, {step.n, 8});
    cugrt_tensor weights = w.tensor(CUGRT_F32, {step.m, 8});
    std::vector<Value> results;
    if (step.with_state) {
      results = {Value(y), Value()};
      std::vector<Value> arguments = {x, weights, state.tensor(CUGRT_F32, {step.n}), 0.5};
      session.run_into(main, arguments, results, stream);
    } else {
      results = {Value(y)};
      std::vector<Value> arguments = {x, weights};
      session.run_into(pure, arguments, results, stream);
    }
  }

  std::vector<float> bytes() {
    session.synchronize();
    std::vector<float> all = download<float>(state.address(), kRows);
    for (const Buffer &buffer : buffers) {
      auto more = download<float>(buffer.address(), kRows * kColumns);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  Session session;
  Function main, pure;
  Buffer w, state;
  std::vector<Buffer> buffers;
};

} // namespace

TEST_CASE("runs on streams that change, through builds, patches and evictions, leave the same "
          "bytes as single launches one after the other") {
  Executable executable(emulated_runtime(), Module::parse(kSequenceModule));
  auto options = detail::sized<cugrt_session_options>();
  options.instance_budget_bytes = 200000; // two or three instances
  options.strict = 1; // a function without an instance takes the place of another one's
  Pool graphs(executable, options);
  options.strict = 0;
  options.eager = 1;
  Pool eager(executable, options);
  std::vector<Stream> streams;
  streams.emplace_back(emulated_runtime());
  streams.emplace_back(emulated_runtime());
  uint32_t seed = 7;
  auto pick = [&](uint32_t count) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 16) % count;
  };
  for (int batch = 0; batch < 40; ++batch) {
    for (int i = 0; i < 12; ++i) {
      Pool::Step step{pick(5) == 0,
                      pick(4) ? 16 + pick(2)
                              : 5 + pick(kRows - 4), // mostly of one form of products
                      pick(2) ? 8 : 1 + pick(kColumns),
                      pick(6),
                      0,
                      pick(4) ? 0 : pick(3)};
      step.to = (step.from + 1 + pick(5)) % 6;
      graphs.run(step, streams);
      eager.run(step, streams);
    }
    INFO("batch " << batch);
    std::vector<float> a = graphs.bytes(), b = eager.bytes();
    REQUIRE(a.size() == b.size());
    REQUIRE(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
    REQUIRE(graphs.session.counters().instance_bytes <= options.instance_budget_bytes);
  }
  cugrt_counters counters = graphs.session.counters();
  CHECK(counters.runs == 480);
  CHECK(counters.regions_patched > 10);
  CHECK(counters.regions_built > 3); // more than there is room for
  CHECK(counters.instances_evicted > 3);
  CHECK(counters.regions_hit > 0);
}

namespace {

/// Three symbols, each of which one launch depends on alone.
const char *const kKeys = R"(cugrt 1

kernel @fold {
  inline """
extern "C" __global__ void fold(const int *x, const int *y, int *z, long long n, long long m) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    int sum = (int)m;
    for (long long k = 0; k < m; ++k) sum = sum * 3 + y[k];
    z[i] = x[i] * 5 + sum;
  }
  """
  entry "fold"
  params (x: in i32, y: in i32, z: out i32, n: symbol i64, m: symbol i64)
  launch { grid (ceildiv(n, 32), 1, 1) block (32, 1, 1) }
}

func @main(%x: tensor<[a], i32>, %y: tensor<[b], i32>, %z: tensor<[c], i32>) -> (tensor<[a], i32>)
    attributes {upper_bounds = {a = 24, b = 24, c = 24}} {
  %s = alloc : tensor<[b], i32>
  launch @fold(%y, %z, %s, b, c)
  %t = alloc : tensor<[c], i32>
  launch @fold(%z, %y, %t, c, b)
  %u = alloc : tensor<[a], i32>
  launch @fold(%x, %s, %u, a, b)
  %r = alloc : tensor<[a], i32>
  launch @fold(%u, %t, %r, a, c)
  return %r
}
)";

using Integers = std::vector<int32_t>;

Integers fold(const Integers &x, const Integers &y) {
  auto sum = static_cast<uint32_t>(y.size());
  for (int32_t value : y)
    sum = sum * 3 + static_cast<uint32_t>(value);
  Integers z;
  for (int32_t value : x)
    z.push_back(static_cast<int32_t>(static_cast<uint32_t>(value) * 5 + sum));
  return z;
}

} // namespace

TEST_CASE("ten thousand random keys of three symbols, most of them new, with changing buffers and "
          "streams: the budget holds and every result is right") {
  Executable executable(emulated_runtime(), Module::parse(kKeys));
  auto options = detail::sized<cugrt_session_options>();
  options.instance_budget_bytes = 200000; // some instances of four nodes
  Session session(executable, emulated_runtime(), Weights(), options);
  const Function main = executable.function("main");
  std::mt19937 random(17);
  std::vector<Integers> numbers(3, Integers(24));
  for (Integers &list : numbers)
    for (int32_t &value : list)
      value = static_cast<int32_t>(random());
  std::vector<Buffer> in;
  for (const Integers &list : numbers)
    in.push_back(upload(list));
  constexpr size_t kBatch = 4; // runs between two looks at what they have written
  std::vector<Buffer> out;
  for (size_t i = 0; i < kBatch; ++i)
    out.push_back(upload(Integers(24)));
  std::vector<Stream> streams;
  streams.emplace_back(emulated_runtime());
  streams.emplace_back(emulated_runtime());
  using Key = std::array<int64_t, 3>;
  std::vector<Key> last(4, Key{1, 1, 1}); // some come again
  std::set<Key> distinct;
  size_t wrong = 0, over_budget = 0;
  for (int batch = 0; batch < 2500; ++batch) {
    std::array<Integers, kBatch> expected;
    std::array<std::vector<Value>, kBatch> arguments, results;
    for (size_t i = 0; i < kBatch; ++i) {
      // Some runs are the last one once more.
      if (i >= 1 && random() % 8 == 0) {
        arguments[i] = arguments[i - 1];
        results[i] = results[i - 1];
      } else {
        Key &key = last[random() % last.size()];
        if (random() % 4)
          key = {int64_t(random() % 25), int64_t(random() % 25), int64_t(random() % 25)};
        distinct.insert(key);
        std::array<Integers, 3> given;
        for (size_t p = 0; p < 3; ++p) {
          const size_t from = (p + random() % 2) % 3;
          given[p].assign(numbers[from].begin(), numbers[from].begin() + key[p]);
          arguments[i].push_back(in[from].tensor(CUGRT_I32, {key[p]}));
        }
        expected[i] = fold(fold(given[0], fold(given[1], given[2])), fold(given[2], given[1]));
        results[i] = {out[i].tensor(CUGRT_I32, {key[0]})};
      }
      const uint32_t stream = random() % 8; // the session's own, mostly
      session.run_into(main, arguments[i], results[i],
                       stream < 2 ? streams[stream].native() : nullptr);
      over_budget += session.counters().instance_bytes > options.instance_budget_bytes;
    }
    session.synchronize();
    for (size_t i = 0; i < kBatch; ++i)
      wrong += download<int32_t>(out[i].address(), expected[i].size()) != expected[i];
  }
  CHECK(wrong == 0);
  CHECK(over_budget == 0);
  CHECK(distinct.size() > 4000);
  cugrt_counters counters = session.counters();
  CHECK(counters.runs == 10000);
  CHECK(counters.regions_patched > 1000);
  CHECK(counters.regions_hit > 100);
}
