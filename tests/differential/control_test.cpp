// Branches and loops over device scalars: as nodes of a graph, from the host, and step by step, on
// drivers with and without conditional nodes (the environment chooses the emulated one's version).
#include "support/program.h"

#include <cuda.h>
#include <dlfcn.h>

using namespace cugrt;
using namespace cugrt::test;

namespace {

bool has_conditional_nodes() { return emulated_runtime().info().driver_version >= 12030; }

/// A loop of `limit` rounds, whose carried values change places; a branch in it by the counter's
/// low bit, one without an else, and a loop in it that counts down.
const char *const kNested = R"(cugrt 1

kernel @zero {
  inline "extern \"C\" __global__ void zero(int *x) { x[0] = 0; }"
  entry "zero"
  params (x: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @next {
  inline "extern \"C\" __global__ void next(int *x) { x[0] += 1; }"
  entry "next"
  params (x: inout i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @less {
  inline "extern \"C\" __global__ void less(const int *x, const int *y, int *z) { z[0] = x[0] < y[0]; }"
  entry "less"
  params (x: in i32, y: in i32, z: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @odd {
  inline "extern \"C\" __global__ void odd(const int *x, int *z) { z[0] = x[0] & 1; }"
  entry "odd"
  params (x: in i32, z: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @mix {
  inline """
extern "C" __global__ void mix(const int *a, const int *b, int *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[i] * 3 + b[i];
  }
  """
  entry "mix"
  params (a: in i32, b: in i32, y: out i32, n: symbol i64)
  launch { grid (ceildiv(n, 32), 1, 1) block (32, 1, 1) }
}
kernel @bump {
  inline """
extern "C" __global__ void bump(int *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] += 1;
  }
  """
  entry "bump"
  params (y: inout i32, n: symbol i64)
  launch { grid (ceildiv(n, 32), 1, 1) block (32, 1, 1) }
}

func @main(%a: tensor<[n], i32>, %b: tensor<[n], i32>, %limit: tensor<[1], i32>,
           %total: inout tensor<[n], i32>) -> (tensor<[n], i32>, tensor<[n], i32>)
    attributes {lower_bounds = {n = 0}, upper_bounds = {n = 80}} {
  %i = alloc : tensor<[1], i32>
  launch @zero(%i)
  %p, %q = while (%c = %a, %d = %b) using (%i, %limit, %total) {
    %m = alloc : tensor<[1], i32>
    launch @less(%i, %limit, %m)
    yield %m
  } do {
    launch @next(%i)
    %f = alloc : tensor<[1], i32>
    launch @odd(%i, %f)
    %e = if %f using (%c, %d) -> (tensor<[n], i32>) {
      %t = alloc : tensor<[n], i32>
      launch @mix(%c, %d, %t, n)
      yield %t
    } else {
      yield %d
    }
    if %f using (%total) {
      launch @bump(%total, n)
      yield
    } else {
      yield
    }
    %j = alloc : tensor<[1], i32>
    launch @zero(%j)
    while () using (%i, %j, %total) {
      %o = alloc : tensor<[1], i32>
      launch @less(%j, %i, %o)
      yield %o
    } do {
      launch @next(%j)
      launch @bump(%total, n)
      yield
    }
    yield %e, %c
  }
  return %p, %q
}
)";

struct Nested {
  std::vector<int32_t> p, q, total;
  friend bool operator==(const Nested &, const Nested &) = default;
};

Nested nested_reference(std::vector<int32_t> a, std::vector<int32_t> b, int limit) {
  std::vector<int32_t> total(a.size(), 7);
  for (int i = 1; i <= limit; ++i) {
    std::vector<int32_t> e = b;
    if (i % 2)
      for (size_t k = 0; k < a.size(); ++k)
        e[k] = a[k] * 3 + b[k];
    for (int32_t &value : total)
      value += i % 2 + i;
    b = std::exchange(a, e);
  }
  return {a, b, total};
}

Nested run_nested(Program &program, const std::vector<int32_t> &a, const std::vector<int32_t> &b,
                  int limit) {
  const auto n = static_cast<int64_t>(a.size());
  Buffer x = upload(a), y = upload(b), l = upload(std::vector<int32_t>{limit}),
         total = upload(std::vector<int32_t>(a.size(), 7));
  std::vector<Value> results =
      program.run({x.tensor(CUGRT_I32, {n}), y.tensor(CUGRT_I32, {n}), l.tensor(CUGRT_I32, {1}),
                   total.tensor(CUGRT_I32, {n})});
  return {contents<int32_t>(results[0]), contents<int32_t>(results[1]),
          download<int32_t>(total.address(), a.size())};
}

std::vector<int32_t> integers(int64_t n, int32_t seed) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<int32_t>(i * 31 + seed) % 101);
  return values;
}

} // namespace

TEST_CASE("Nested branches and loops give the same in a graph, from the host and step by step") {
  Program graph(kNested), host(kNested, Way::host), eager(kNested, Way::eager);
  uint64_t runs = 0;
  for (int64_t n : {5, 33, 80, 1, 0, 33})
    for (int limit : {0, 1, 2, 5}) {
      INFO("n = " << n << ", limit " << limit);
      const std::vector<int32_t> a = integers(n, 4), b = integers(n, 60);
      const Nested expected = nested_reference(a, b, limit);
      CHECK((run_nested(graph, a, b, limit) == expected));
      CHECK((run_nested(host, a, b, limit) == expected));
      CHECK((run_nested(eager, a, b, limit) == expected));
      ++runs;
    }
  cugrt_counters counters = graph.session.counters();
  if (has_conditional_nodes()) {
    // One launch a run, and instances are patched in their bodies, not made for each n and address.
    CHECK(counters.regions_built + counters.regions_patched + counters.regions_hit == runs);
    CHECK(counters.regions_built <= 6);
    CHECK(counters.eager_steps == 0);
  } else {
    CHECK(counters.eager_conditional == runs);
    CHECK(counters.regions_eager == runs);
  }
  CHECK(host.session.counters().regions_eager == 0);
}

namespace {

// A loop whose body has many readers of %s, then writers of its parts: these meet in an empty node.
const char *const kMeeting = R"(cugrt 1
kernel @mix {
  inline """
extern "C" __global__ void mix(const int *a, int *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = y[i] * 3 + a[i];
  }
  """
  entry "mix"
  params (a: in i32, y: inout i32, n: symbol i64)
  launch { grid (ceildiv(n, 32), 1, 1) block (32, 1, 1) }
}
kernel @less {
  inline "extern \"C\" __global__ void less(int *i, const int *x, int *z) { z[0] = i[0]++ < x[0]; }"
  entry "less"
  params (i: inout i32, x: in i32, z: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
func @main(%s: inout tensor<[64], i32>, %x: tensor<[32], i32>, %i: inout tensor<[1], i32>,
           %limit: tensor<[1], i32>, %t0: inout tensor<[64], i32>, %t1: inout tensor<[64], i32>,
           %t2: inout tensor<[64], i32>, %t3: inout tensor<[64], i32>) {
  while () using (%s, %x, %i, %limit, %t0, %t1, %t2, %t3) {
    %m = alloc : tensor<[1], i32>
    launch @less(%i, %limit, %m)
    yield %m
  } do {
    launch @mix(%s, %t0, 64)
    launch @mix(%s, %t1, 64)
    launch @mix(%s, %t2, 64)
    launch @mix(%s, %t3, 64)
    %low = view %s, 0 : tensor<[32], i32>
    launch @mix(%x, %low, 32)
    %high = view %s, 128 : tensor<[32], i32>
    launch @mix(%x, %high, 32)
    yield
  }
  return
}
)";

std::vector<std::vector<int32_t>> run_meeting(Program &program, int limit) {
  Buffer x = upload(integers(32, 3)), i = upload(std::vector<int32_t>{0}),
         l = upload(std::vector<int32_t>{limit});
  std::vector<Buffer> of64; // %s, %t0 to %t3
  for (int32_t seed = 0; seed < 5; ++seed)
    of64.push_back(upload(integers(64, seed)));
  std::vector<Value> arguments = {of64[0].tensor(CUGRT_I32, {64}), x.tensor(CUGRT_I32, {32}),
                                  i.tensor(CUGRT_I32, {1}), l.tensor(CUGRT_I32, {1})};
  for (size_t t = 1; t < 5; ++t)
    arguments.push_back(of64[t].tensor(CUGRT_I32, {64}));
  program.run(arguments);
  std::vector<std::vector<int32_t>> out;
  for (Buffer &buffer : of64)
    out.push_back(download<int32_t>(buffer.address(), 64));
  return out;
}

} // namespace

TEST_CASE("Empty nodes within bodies join what waits, also for drivers that allow none there") {
  CHECK(Module::parse(kMeeting).plan_report(CUGRT_REPORT_TEXT).find("for all that wait here") !=
        std::string::npos);
  Program graph(kMeeting), host(kMeeting, Way::host), eager(kMeeting, Way::eager);
  for (int limit : {3, 0, 6}) {
    std::vector<std::vector<int32_t>> expected;
    for (int32_t seed = 0; seed < 5; ++seed)
      expected.push_back(integers(64, seed));
    const std::vector<int32_t> x = integers(32, 3);
    for (int turn = 0; turn < limit; ++turn) {
      for (size_t t = 1; t < 5; ++t)
        for (size_t k = 0; k < 64; ++k)
          expected[t][k] = expected[t][k] * 3 + expected[0][k];
      for (size_t k = 0; k < 64; ++k)
        expected[0][k] = expected[0][k] * 3 + x[k % 32];
    }
    CHECK(run_meeting(graph, limit) == expected);
    CHECK(run_meeting(host, limit) == expected);
    CHECK(run_meeting(eager, limit) == expected);
  }
  CHECK(graph.session.counters().regions_eager == (has_conditional_nodes() ? 0 : 3));
}

namespace {

// Branches on n, one in a callee, one within another and one in a loop's body, where the device
// says how often; what is taken is in the graph, and nothing else.
const char *const kOnSymbols = R"(cugrt 1
kernel @mix {
  inline """
extern "C" __global__ void mix(const int *a, int *y, long long n, int k) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = y[i] * 3 + a[i] + k;
  }
  """
  entry "mix"
  params (a: in i32, y: inout i32, n: symbol i64, k: scalar i32)
  launch { grid (ceildiv(n, 32), 1, 1) block (32, 1, 1) }
}
kernel @set {
  inline """
extern "C" __global__ void set(const int *a, int *y, long long n, int k) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[i] + k;
  }
  """
  entry "set"
  params (a: in i32, y: out i32, n: symbol i64, k: scalar i32)
  launch { grid (ceildiv(n, 32), 1, 1) block (32, 1, 1) }
}
kernel @less {
  inline "extern \"C\" __global__ void less(int *i, const int *x, int *z) { z[0] = i[0]++ < x[0]; }"
  entry "less"
  params (i: inout i32, x: in i32, z: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
private func @odd(%u: tensor<[m], i32>, %v: inout tensor<[m], i32>) attributes {upper_bounds = {m = 64}} {
  if mod(m, 2) using (%u, %v) {
    launch @mix(%u, %v, m, 1)
    yield
  } else {
    yield
  }
  return
}
func @main(%x: tensor<[n], i32>, %y: inout tensor<[n], i32>, %i: inout tensor<[1], i32>,
           %limit: tensor<[1], i32>) attributes {upper_bounds = {n = 64}} {
  %a = alloc : tensor<[n], i32>
  launch @set(%x, %a, n, 2)
  %b = if n > 8 using (%x, %a) -> (tensor<[n], i32>) {
    %t = alloc : tensor<[n], i32>
    launch @set(%x, %t, n, 3)
    if n > 32 using (%t) {
      launch @mix(%t, %t, n, 4)
      yield
    } else {
      yield
    }
    yield %t
  } else {
    %v = alloc : tensor<[n], i32>
    launch @set(%a, %v, n, 5)
    launch @mix(%a, %v, n, 6)
    launch @mix(%x, %v, n, 7)
    yield %v
  }
  call @odd(%b, %y)
  while () using (%b, %y, %i, %limit) {
    %m = alloc : tensor<[1], i32>
    launch @less(%i, %limit, %m)
    yield %m
  } do {
    if n < 4 using (%b, %y) {
      launch @mix(%b, %y, n, 8)
      yield
    } else {
      launch @mix(%b, %y, n, 9)
      yield
    }
    yield
  }
  launch @mix(%a, %y, n, 10)
  return
}
)";

std::vector<int32_t> on_symbols_reference(const std::vector<int32_t> &x, std::vector<int32_t> y,
                                          int limit) {
  const size_t n = x.size();
  for (size_t k = 0; k < n; ++k) {
    const int32_t a = x[k] + 2;
    int32_t b = x[k] + 3;
    if (n > 32)
      b = b * 3 + b + 4;
    if (n <= 8)
      b = ((a + 5) * 3 + a + 6) * 3 + x[k] + 7;
    if (n % 2)
      y[k] = y[k] * 3 + b + 1;
    for (int turn = 0; turn < limit; ++turn)
      y[k] = y[k] * 3 + b + (n < 4 ? 8 : 9);
    y[k] = y[k] * 3 + a + 10;
  }
  return y;
}

} // namespace

TEST_CASE("Branches on symbols are in the graph, and a key that comes back finds its instance") {
  Program graph(kOnSymbols), host(kOnSymbols, Way::host), eager(kOnSymbols, Way::eager);
  const std::vector<int32_t> start(64, 0);
  Buffer x = upload(integers(64, 3)), y = upload(start), i = upload(start),
         limit = upload(std::vector<int32_t>{2});
  auto run = [&](Program &program, int64_t n) {
    copy_to_device(emulated_runtime(), y.address(), std::as_bytes(std::span(start)));
    copy_to_device(emulated_runtime(), i.address(), std::as_bytes(std::span(start).first(1)));
    program.run({x.tensor(CUGRT_I32, {n}), y.tensor(CUGRT_I32, {n}), i.tensor(CUGRT_I32, {1}),
                 limit.tensor(CUGRT_I32, {1})});
    return download<int32_t>(y.address(), static_cast<size_t>(n));
  };
  const std::vector<int64_t> lengths = {64, 2, 33, 8};
  for (int round = 0; round < 3; ++round)
    for (int64_t n : lengths) {
      INFO("round " << round << ", n = " << n);
      const auto expected =
          on_symbols_reference(integers(n, 3), std::vector<int32_t>(static_cast<size_t>(n), 0), 2);
      CHECK(run(graph, n) == expected);
      if (round)
        continue;
      CHECK(run(host, n) == expected);
      CHECK(run(eager, n) == expected);
    }
  cugrt_counters counters = graph.session.counters();
  CHECK(counters.runs == 3 * lengths.size());
  if (!has_conditional_nodes()) {
    CHECK(counters.eager_conditional == counters.runs);
    return;
  }
  CHECK(counters.regions_built == lengths.size()); // one region, and each key's instance is kept
  CHECK(counters.regions_hit == 2 * lengths.size());
  CHECK(counters.eager_steps == 0);
}

TEST_CASE("Strict sessions refuse a loop where the driver has no conditional nodes") {
  auto options = session_options();
  options.strict = 1;
  Program program(kNested, options);
  Buffer x = upload(integers(4, 1)), l = upload(std::vector<int32_t>{2}),
         t = upload(integers(4, 1));
  auto run = [&] {
    program.run({x.tensor(CUGRT_I32, {4}), x.tensor(CUGRT_I32, {4}), l.tensor(CUGRT_I32, {1}),
                 t.tensor(CUGRT_I32, {4})});
  };
  if (has_conditional_nodes())
    run();
  else
    CHECK(mentions(error_of(run), "the driver has no conditional nodes"));
}

TEST_CASE("The plan's report shows bodies, and an option leaves branches to the host") {
  auto text = Module::parse(kNested).plan_report(CUGRT_REPORT_TEXT);
  CHECK(text.find("a conditional node, which runs its body while") != std::string::npos);
  CHECK(text.find("body of 'while %m'") != std::string::npos);
  auto options = detail::sized<cugrt_plan_options>();
  options.host_control = 1;
  text = Module::parse(kNested).plan_report(options);
  CHECK(text.find("conditional nodes are switched off") != std::string::npos);
}

// --- Generation of tokens ------------------------------------------------------------------------

namespace {

/// docs/control.md tells this loop's story. Token 0 ends a text.
const char *const kDecode = R"(cugrt 1

kernel @check {
  inline """
extern "C" __global__ void check(const long long *token, const volatile int *cancel,
                                   const volatile long long *taken, const long long *count,
                                   const long long *limit, int *status, int *more,
                                   long long capacity) {
    int s = 0;
    if (cancel[0]) s = 3;
    else if (token[0] == 0) s = 1;
    else if (count[0] >= limit[0]) s = 4;
    else if (count[0] - taken[0] >= capacity) s = 2;
    status[0] = s;
    more[0] = s == 0;
  }
  """
  entry "check"
  params (token: in i64, cancel: in i32, taken: in i64, count: in i64, limit: in i64,
          status: out i32, more: out i32, capacity: symbol i64)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @append {
  inline """
extern "C" __global__ void append(const long long *token, volatile long long *ring,
                                    volatile long long *count, long long capacity) {
    ring[count[0] % capacity] = token[0];
    __threadfence_system();
    count[0] = count[0] + 1;
  }
  """
  entry "append"
  params (token: in i64, ring: inout i64, count: inout i64, capacity: symbol i64)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}

func @main(%first: tensor<[1], i64>, %limit: tensor<[1], i64>, %cancel: tensor<[1], i32>,
           %taken: tensor<[1], i64>, %ring: inout tensor<[r], i64>, %count: inout tensor<[1], i64>,
           %status: out tensor<[1], i32>, %table: tensor<[32, 8], f32>, %w: tensor<[8, 32], f32>)
    -> (tensor<[1], i64>)
    attributes {num_inputs = 7, lower_bounds = {r = 1}, upper_bounds = {r = 65536}} {
  %last = while (%token = %first) using (%limit, %cancel, %taken, %ring, %count, %status, %table, %w) {
    %more = alloc : tensor<[1], i32>
    launch @check(%token, %cancel, %taken, %count, %limit, %status, %more, r)
    yield %more
  } do {
    %h = embedding(%table, %token)
    %logits = matmul(%h, %w)
    %next = argmax(%logits)
    launch @append(%next, %ring, %count, r)
    yield %next
  }
  return %last
}
)";

enum Status { kEnd = 1, kFull = 2, kCancelled = 3, kLimit = 4 };

struct Model {
  std::vector<float> table = numbers(32 * 8, 11), w = numbers(8 * 32, 12);

  int64_t next(int64_t token) const {
    int64_t best = 0;
    double most = -1e30;
    for (int64_t v = 0; v < 32; ++v) {
      double logit = 0;
      for (int64_t k = 0; k < 8; ++k)
        logit += double(table[size_t(token * 8 + k)]) * w[size_t(k * 32 + v)];
      if (logit > most) {
        most = logit;
        best = v;
      }
    }
    return best;
  }
  /// Up to `limit` tokens, the one that ends the text included.
  std::vector<int64_t> text(int64_t first, size_t limit) const {
    std::vector<int64_t> tokens;
    for (int64_t token = first; tokens.size() < limit && token != 0;)
      tokens.push_back(token = next(token));
    return tokens;
  }
  Weights weights() const {
    Weights weights;
    weights.add("table", table.data(), CUGRT_F32, std::vector<int64_t>{32, 8});
    weights.add("w", w.data(), CUGRT_F32, std::vector<int64_t>{8, 32});
    return weights;
  }
};

template <class T> Buffer pinned(size_t count) {
  Buffer buffer(emulated_runtime(), count * sizeof(T), CUGRT_MEMORY_PINNED);
  std::memset(buffer.host_pointer(), 0, count * sizeof(T));
  return buffer;
}
template <class T> volatile T &at(const Buffer &buffer, size_t i = 0) {
  return static_cast<volatile T *>(buffer.host_pointer())[i];
}

/// What the host and the loop share.
struct Decoder {
  explicit Decoder(int64_t capacity, Way way = Way::graph)
      : capacity(capacity), program(kDecode, way, Model().weights()),
        ring(pinned<int64_t>(size_t(capacity))) {}

  void begin(int64_t first, int64_t limit) {
    at<int64_t>(token) = first;
    at<int64_t>(this->limit) = limit;
    program.session.run(program.main(),
                        {token.tensor(CUGRT_I64, {1}), this->limit.tensor(CUGRT_I64, {1}),
                         cancel.tensor(CUGRT_I32, {1}), taken.tensor(CUGRT_I64, {1}),
                         ring.tensor(CUGRT_I64, {capacity}), count.tensor(CUGRT_I64, {1}),
                         status.tensor(CUGRT_I32, {1})});
  }
  int end() {
    program.session.synchronize();
    return at<int32_t>(status);
  }
  /// What is there and was not taken yet.
  void take(std::vector<int64_t> &tokens) {
    for (int64_t have = at<int64_t>(count); at<int64_t>(taken) < have;) {
      tokens.push_back(int64_t(at<int64_t>(ring, size_t(at<int64_t>(taken) % capacity))));
      at<int64_t>(taken) = at<int64_t>(taken) + 1;
    }
  }
  uint64_t launches() {
    cugrt_counters counters = program.session.counters();
    return counters.regions_built + counters.regions_hit + counters.regions_patched;
  }

  int64_t capacity;
  Program program;
  Buffer ring, token = pinned<int64_t>(1), limit = pinned<int64_t>(1), cancel = pinned<int32_t>(1),
               taken = pinned<int64_t>(1), count = pinned<int64_t>(1), status = pinned<int32_t>(1);
};

/// A token whose text ends within `limit` tokens, or does not.
int64_t first_token(bool ends, size_t limit) {
  for (int64_t first = 1; first < 32; ++first)
    if (std::vector<int64_t> text = Model().text(first, limit); (text.back() == 0) == ends)
      return first;
  return 0;
}

} // namespace

TEST_CASE("A decode loop runs to its end in one launch, and its instance serves the next run") {
  Decoder decoder(64);
  uint64_t runs = 0;
  for (int64_t first : {3, 17, 3, 9}) {
    INFO("first token " << first);
    const std::vector<int64_t> expected = Model().text(first, 20);
    std::vector<int64_t> tokens;
    at<int64_t>(decoder.count) = 0;
    at<int64_t>(decoder.taken) = 0;
    decoder.begin(first, 20);
    int status = decoder.end();
    decoder.take(tokens);
    CHECK(tokens == expected);
    CHECK(status == (expected.back() == 0 ? kEnd : kLimit));
    ++runs;
  }
  if (!has_conditional_nodes())
    return;
  cugrt_counters counters = decoder.program.session.counters();
  CHECK(decoder.launches() == runs);
  CHECK(counters.regions_built == 1);
  CHECK(counters.eager_steps == 0);
}

TEST_CASE("A full ring ends the loop with a status; the next run goes on where it stopped") {
  Decoder decoder(8);
  const int64_t first = first_token(false, 60);
  REQUIRE(first != 0);
  const std::vector<int64_t> expected = Model().text(first, 60);
  std::vector<int64_t> tokens;
  std::vector<int> statuses;
  for (int64_t token = first; statuses.empty() || statuses.back() == kFull; token = tokens.back()) {
    REQUIRE(statuses.size() < 20);
    decoder.begin(token, 60);
    statuses.push_back(decoder.end());
    decoder.take(tokens);
  }
  CHECK(tokens == expected);
  CHECK(statuses == std::vector<int>{2, 2, 2, 2, 2, 2, 2, 4});
  if (has_conditional_nodes())
    CHECK(decoder.program.session.counters().regions_built == 1);
}

TEST_CASE("The host reads tokens while the loop runs, and its flag ends it") {
  if (!has_conditional_nodes())
    return; // run() itself waits for conditions then
  Decoder decoder(65536);
  const int64_t first = first_token(false, 100);
  REQUIRE(first != 0);
  decoder.begin(first, int64_t(1) << 40);
  std::vector<int64_t> tokens;
  while (tokens.size() < 5) // the loop has no other end than the flag and a ring of 65,536
    decoder.take(tokens);
  at<int32_t>(decoder.cancel) = 1;
  CHECK(decoder.end() == kCancelled);
  decoder.take(tokens);
  CHECK(tokens.size() >= 5);
  CHECK(tokens == Model().text(first, tokens.size()));
  // The flag is the run's: the next one is not cancelled.
  at<int32_t>(decoder.cancel) = 0;
  const auto done = int64_t(tokens.size());
  decoder.begin(tokens.back(), done + 3);
  CHECK(decoder.end() == kLimit);
  decoder.take(tokens);
  CHECK(tokens == Model().text(first, size_t(done + 3)));
  CHECK(decoder.launches() == 2);
}

TEST_CASE("A decode loop gives the same from the host and step by step") {
  for (Way way : {Way::host, Way::eager}) {
    Decoder decoder(64, way);
    std::vector<int64_t> tokens;
    decoder.begin(3, 20);
    decoder.end();
    decoder.take(tokens);
    CHECK(tokens == Model().text(3, 20));
  }
}

// --- Programmatic edges --------------------------------------------------------------------------

namespace {

/// y = ((x + 1) + 1) + ...: kernels with wait and trigger; `late` touches its input before it
/// waits, `silent` never triggers. They are compiled for the device, so the text need not ask for
/// sm_90.
std::string chain_text(const std::vector<std::string> &kernels) {
  auto kernel = [](const std::string &name, const std::string &body) {
    return "kernel @" + name + " {\n  inline \"\"\"\n" +
           "#if __CUDA_ARCH__ >= 900\n#define WAIT asm volatile(\"griddepcontrol.wait;\" ::: "
           "\"memory\")\n"
           "#define TRIGGER asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\")\n"
           "#else\n#define WAIT\n#define TRIGGER\n#endif\n"
           "extern \"C\" __global__ void " +
           name +
           "(const float *x, float *y, long long n) {\n"
           "  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n" +
           body + "}\n\"\"\"\n  entry \"" + name +
           "\"\n  params (x: in f32, y: out f32, n: symbol i64)\n"
           "  launch { grid (ceildiv(n, 32), 1, 1) block (32, 1, 1) programmatic }\n}\n";
  };
  std::string text = "cugrt 1\n" +
                     kernel("good", "  TRIGGER; WAIT; if (i < n) y[i] = x[i] + 1;\n") +
                     kernel("late", "  float v = i < n ? *(const volatile float *)(x + i) : 0; "
                                    "TRIGGER; WAIT; if (i < n) y[i] = v + 1;\n") +
                     kernel("silent", "  WAIT; if (i < n) y[i] = x[i] + 1;\n");
  text += "func @main(%t0: tensor<[n], f32>) -> (tensor<[n], f32>) attributes {lower_bounds = "
          "{n = 1}, upper_bounds = {n = 100}} {\n";
  for (size_t i = 0; i < kernels.size(); ++i)
    text += "  %t" + std::to_string(i + 1) + " = alloc : tensor<[n], f32>\n  launch @" +
            kernels[i] + "(%t" + std::to_string(i) + ", %t" + std::to_string(i + 1) + ", n)\n";
  return text + "  return %t" + std::to_string(kernels.size()) + "\n}\n";
}

size_t count_of(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

bool knows_programmatic_edges() {
  cugrt_runtime_info info = emulated_runtime().info();
  return info.driver_version >= 12030 && info.capability_major >= 9;
}

/// Runs the chain over shapes; gives the number of programmatic edges of each of its graphs, one
/// for a shape.
size_t run_chain(const std::string &text, float steps, bool full_edges = false) {
  auto options = detail::sized<cugrt_compile_options>();
  options.full_edges = full_edges;
  Program program(Executable(emulated_runtime(), Module::parse(text), &options));
  for (int64_t n : {40, 100, 1}) {
    const std::vector<float> x = numbers(size_t(n), 3);
    Buffer input = upload(x);
    const std::vector<Value> results = program.run({input.tensor(CUGRT_F32, {n})});
    std::vector<double> expected(x.begin(), x.end());
    for (double &value : expected)
      value += double(steps);
    check_close(contents(results[0]), expected, 1e-6);
  }
  const cugrt_counters counters = program.session.counters();
  CHECK(counters.eager_steps == 0);
  REQUIRE(counters.instances > 0);
  const size_t edges = count_of(program.session.graph_report(CUGRT_REPORT_TEXT), "(programmatic)");
  CHECK(edges % counters.instances == 0);
  return edges / counters.instances;
}

} // namespace

TEST_CASE("Programmatic edges lead between kernels that wait first and trigger, and no others") {
  struct Case {
    const char *title;
    std::vector<std::string> kernels;
    bool full_edges;
    size_t edges; // where the driver knows programmatic ones
  };
  for (const Case &c : {
           Case{"all wait first and trigger", {"good", "good", "good", "good"}, false, 3},
           Case{"the option for full edges", {"good", "good", "good"}, true, 0},
           Case{"from one that reads before it waits, not to it",
                {"good", "late", "good"},
                false,
                1},
           Case{"to one that never triggers, not from it", {"good", "silent", "good"}, false, 1},
       }) {
    INFO(c.title);
    CHECK(run_chain(chain_text(c.kernels), float(c.kernels.size()), c.full_edges) ==
          (knows_programmatic_edges() ? c.edges : 0));
  }
}

TEST_CASE("A programmatic edge leads to a kernel that copies weights before it waits, no inputs") {
  // y = x + w, w copied to shared memory before the wait; as a weight and as an input.
  std::string text = chain_text({"good", "good"});
  text.replace(text.find("func @main"), std::string::npos, R"(kernel @copies {
  inline """
extern "C" __global__ void copies(const float *x, const float *w, float *y) {
  __shared__ __align__(16) float own[32];
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
      (unsigned)__cvta_generic_to_shared(own + threadIdx.x)), "l"(w + threadIdx.x) : "memory");
#else
  own[threadIdx.x] = w[threadIdx.x];
#endif
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  y[threadIdx.x] = x[threadIdx.x] + own[threadIdx.x];
}
"""
  entry "copies"
  params (x: in f32, w: in f32, y: out f32)
  launch { grid (1, 1, 1) block (32, 1, 1) programmatic }
}
func @main(%x: tensor<[32], f32>, %w: tensor<[32], f32>) -> (tensor<[32], f32>)
    attributes {num_inputs = 1} {
  %a = alloc : tensor<[32], f32>
  launch @good(%x, %a, 32)
  %y = alloc : tensor<[32], f32>
  launch @copies(%a, %w, %y)
  return %y
}
)");
  const std::vector<float> x = numbers(32, 3), w = numbers(32, 4);
  for (const bool is_weight : {true, false}) {
    const Module module = Module::parse(
        is_weight ? text : text.replace(text.find("num_inputs = 1"), 14, "num_inputs = 2"));
    Weights weights;
    if (is_weight)
      weights.add("w", w.data(), CUGRT_F32, std::vector<int64_t>{32});
    Program program(Executable(emulated_runtime(), module), session_options(), weights);
    Buffer input = upload(x), other = upload(w);
    std::vector<Value> inputs = {input.tensor(CUGRT_F32, {32})};
    if (!is_weight)
      inputs.push_back(other.tensor(CUGRT_F32, {32}));
    const std::vector<Value> results = program.run(inputs);
    std::vector<double> expected;
    for (size_t i = 0; i < x.size(); ++i)
      expected.push_back(double(x[i]) + 1 + double(w[i]));
    check_close(contents(results[0]), expected, 1e-6);
    CHECK(count_of(program.session.graph_report(CUGRT_REPORT_TEXT), "(programmatic)") ==
          (is_weight && knows_programmatic_edges() ? 1u : 0u));
  }
}

TEST_CASE("A kernel that a symbol can make empty has ordinary edges") {
  std::string text = chain_text({"good", "good", "good"});
  text.replace(text.find("{n = 1}"), 7, "{n = 0}");
  CHECK(run_chain(text, 3) == 0);
}

TEST_CASE("Independent steps are parallel in the graph, and a limit of one lane makes a chain") {
  const std::string text = R"(cugrt 1

func @main(%x: tensor<[64], f32>) -> (tensor<[64], f32>, tensor<[64], f32>, tensor<[64], f32>) {
  %a = relu(%x)
  %b = neg(%x)
  %c = exp(%x)
  return %a, %b, %c
}
)";
  auto edges = [&](uint32_t lanes) {
    auto options = detail::sized<cugrt_plan_options>();
    options.max_lanes = lanes;
    const std::string report = Module::parse(text).plan_report(options);
    return count_of(report, "lanes") + 100 * count_of(report, "  edge ");
  };
  CHECK(edges(0) == 0);
  CHECK(edges(3) == 0);
  CHECK(edges(1) == 202); // two edges, both for the limit
}

TEST_CASE(
    "The library's own kernels wait first on devices that know such edges, and generated ones") {
  const std::string text = R"(cugrt 1

func @main(%x: tensor<[n], f32>) -> (tensor<[n], f32>)
    attributes {lower_bounds = {n = 1}, upper_bounds = {n = 100}} {
  %a = relu(%x)
  %b = neg(%x)
  %c = maximum(%a, %b)
  %d = softmax(%c)
  %z = sub(%d, %d)
  %e = softmax(%z)
  %f = sub(%e, %e)
  %y = add(%f, %x)
  return %y
}
)";
  CHECK((run_chain(text, 0) > 0) == knows_programmatic_edges());
}

TEST_CASE("The emulated driver has found no edge missing and no access before a wait",
          "[emulated]") {
  void *library = dlopen(CUGRT_TEST_EMULATOR, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library);
  using GetFindings = CUresult (*)(char *, size_t *);
  auto get = reinterpret_cast<GetFindings>(dlsym(library, "cuEmuGetFindings"));
  REQUIRE(get);
  std::string text(1 << 16, '\0');
  size_t bytes = text.size();
  REQUIRE(get(text.data(), &bytes) == CUDA_SUCCESS);
  CHECK(std::string(text.c_str()) == "");
  dlclose(library);
}
