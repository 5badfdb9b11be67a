// Positions in device memory that kernels check against their bounds: what is out of them is
// clamped, and the next call says so. In a graph, from the host and step by step, on drivers with
// and without conditional nodes.
#include "support/program.h"
#include "support/temporary_folder.h"

#include <fstream>

using namespace cugrt;
using namespace cugrt::test;

namespace {

constexpr Way kWays[] = {Way::graph, Way::host, Way::eager};

/// Kernels that write to `cache` where a symbol says: the symbol between other parameters.
const std::string kKernels = R"(cugrt 1
kernel @append {
  inline """
#include "builtin:device_symbol.cuh"
extern "C" __global__ void append(const int *x, cugrt_symbol<int> p, int *cache, long long n) {
  const int at = cugrt_read(p);
  cache[at] = x[0] * 10 + at + (int)n * 1000;
}
"""
  entry "append"
  params (x: in i32, p: checked_symbol i32, cache: inout i32, n: symbol i64)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @append_wide {
  inline """
#include "builtin:device_symbol.cuh"
extern "C" __global__ void append_wide(int *cache, cugrt_symbol<long long> p) {
  cache[cugrt_read(p)] += 1;
}
"""
  entry "append_wide"
  params (cache: inout i32, p: checked_symbol i64)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @next {
  inline "extern \"C\" __global__ void next(int *p, int by) { p[1] += by; }"
  entry "next"
  params (p: inout i32, by: scalar i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @below {
  inline "extern \"C\" __global__ void below(const int *p, const int *end, int *more) { more[0] = p[1] < end[0]; }"
  entry "below"
  params (p: in i32, end: in i32, more: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
)";

const std::string kAppend = kKernels + R"(
func @main(%x: tensor<[n], i32>, %cache: inout tensor<[8], i32>, %pos: tensor<[2], i32>) {
  read p = %pos[1] in [2, 5]
  launch @append(%x, p, %cache, n)
  return
}
)";

/// The caller's buffers, and runs on the caller's stream: waiting for it asks the session nothing.
struct Append {
  explicit Append(Way way) : program(kAppend, way) {}

  void run(int32_t position) {
    write(position);
    program.session.run(
        program.executable.function("main"),
        {x.tensor(CUGRT_I32, {1}), cache.tensor(CUGRT_I32, {8}), at->tensor(CUGRT_I32, {2})},
        stream.native());
    stream.synchronize();
  }
  void write(int32_t position) {
    copy_to_device(emulated_runtime(), at->address() + 4, std::as_bytes(std::span(&position, 1)));
  }
  std::vector<int32_t> cached() { return download<int32_t>(cache.address(), 8); }

  Program program;
  Stream stream{emulated_runtime()};
  Buffer x = upload(std::vector<int32_t>{7}), cache = upload(std::vector<int32_t>(8, -1)),
         position = upload(std::vector<int32_t>{100, 0}),
         other = upload(std::vector<int32_t>{100, 0});
  Buffer *at = &position;
};

void check_error(const Error &error) {
  CHECK(error.code() == CUGRT_OUT_OF_RANGE);
  for (const char *part : {"symbol p", "@main", "2 to 5", "earlier run", ":39:3"}) {
    INFO(error.what());
    CHECK(mentions(error, part));
  }
}

} // namespace

TEST_CASE("A position within its bounds is read where it is, wherever the buffer lies") {
  for (Way way : kWays) {
    Append append(way);
    std::vector<int32_t> expected(8, -1);
    for (int32_t position : {2, 5, 3, 4}) {
      append.at =
          position == 3 ? &append.other : &append.position; // patches the node's first field
      append.run(position);
      expected[size_t(position)] = 1070 + position;
      CHECK(append.cached() == expected);
    }
    append.program.session.synchronize();
  }
}

TEST_CASE("A position out of its bounds is clamped, and the next run is refused, once") {
  for (Way way : kWays)
    for (const auto &[position, nearest] :
         std::vector<std::pair<int32_t, int32_t>>{{6, 5}, {1, 2}, {INT32_MAX, 5}, {INT32_MIN, 2}}) {
      INFO("position " << position);
      Append append(way);
      append.run(position);
      std::vector<int32_t> expected(8, -1);
      expected[size_t(nearest)] = 1070 + nearest;
      CHECK(append.cached() == expected);
      check_error(error_of([&] { append.run(3); }));
      CHECK(append.cached() == expected); // it was not run
      append.run(3);
      expected[3] = 1073;
      CHECK(append.cached() == expected);
      append.run(4); // nor is one after it refused
      append.program.session.synchronize();
    }
}

TEST_CASE("Waiting for the session tells of a position out of its bounds, once") {
  Append append(Way::graph);
  append.run(9);
  check_error(error_of([&] { append.program.session.synchronize(); }));
  append.program.session.synchronize();
  append.run(3);
  CHECK(append.cached()[3] == 1073);
}

TEST_CASE("An instance that was made ahead checks positions as any other") {
  Append append(Way::graph);
  cugrt_symbol_value n{"n", 1};
  CHECK(append.program.session.prepare(append.program.executable.function("main"), std::span(&n, 1))
            .built == 1);
  append.run(9);
  CHECK(append.program.session.counters().regions_built == 0);
  check_error(error_of([&] { append.run(4); }));
}

TEST_CASE("The symbol is told with its function, and 64-bit ones are clamped, too") {
  Program program(kKernels + R"(
func @first(%x: tensor<[n], i32>, %cache: inout tensor<[8], i32>, %pos: tensor<[2], i32>) {
  read p = %pos[0] in [0, 7]
  read q = %pos[1] in [0, 7]
  launch @append(%x, p, %cache, n)
  launch @append(%x, q, %cache, n)
  return
}
func @second(%cache: inout tensor<[8], i32>, %pos: tensor<[2], i64>) {
  read far = %pos[0] in [-3, 1]
  read wide = %pos[1] in [4, 6]
  launch @append_wide(%cache, wide)
  return
}
)");
  Buffer x = upload(std::vector<int32_t>{7}), cache = upload(std::vector<int32_t>(8, 0)),
         narrow = upload(std::vector<int32_t>{1, 8}),
         wide = upload(std::vector<int64_t>{9, int64_t(5) - (int64_t(1) << 32)});
  program.session.run(program.executable.function("second"),
                      {cache.tensor(CUGRT_I32, {8}), wide.tensor(CUGRT_I64, {2})});
  Error error = error_of([&] { program.session.synchronize(); });
  CHECK(mentions(error, "symbol wide of function @second was out of its bounds, 4 to 6"));
  CHECK(download<int32_t>(cache.address(), 8) == std::vector<int32_t>{0, 0, 0, 0, 1, 0, 0, 0});
  program.session.run(
      program.executable.function("first"),
      {x.tensor(CUGRT_I32, {1}), cache.tensor(CUGRT_I32, {8}), narrow.tensor(CUGRT_I32, {2})});
  error = error_of([&] { program.session.synchronize(); });
  CHECK(mentions(error, "symbol q of function @first was out of its bounds, 0 to 7"));
}

TEST_CASE("Positions that a loop moves are checked in every round of it") {
  const std::string text = kKernels + R"(
func @main(%x: tensor<[n], i32>, %cache: inout tensor<[8], i32>, %pos: inout tensor<[2], i32>,
           %end: tensor<[1], i32>) {
  while () using (%x, %cache, %pos, %end) {
    %more = alloc : tensor<[1], i32>
    launch @below(%pos, %end, %more)
    yield %more
  } do {
    read p = %pos[1] in [2, 5]
    launch @append(%x, p, %cache, n)
    launch @next(%pos, 1)
    yield
  }
  return
}
)";
  for (Way way : kWays) {
    Program program(text, way);
    Buffer x = upload(std::vector<int32_t>{7}), cache = upload(std::vector<int32_t>(8, -1)),
           position = upload(std::vector<int32_t>{0, 2});
    auto run = [&](int32_t end) {
      Buffer limit = upload(std::vector<int32_t>{end});
      program.run({x.tensor(CUGRT_I32, {1}), cache.tensor(CUGRT_I32, {8}),
                   position.tensor(CUGRT_I32, {2}), limit.tensor(CUGRT_I32, {1})});
    };
    run(5);
    CHECK(download<int32_t>(cache.address(), 8) ==
          std::vector<int32_t>{-1, -1, 1072, 1073, 1074, -1, -1, -1});
    const Error error = error_of([&] { run(8); }); // 5 is within the bounds, 6 and 7 are not
    CHECK(mentions(error, "symbol p of function @main was out of its bounds, 2 to 5"));
    CHECK(mentions(error, ":45:5")); // of the read, in the loop
    CHECK(download<int32_t>(cache.address(), 8) ==
          std::vector<int32_t>{-1, -1, 1072, 1073, 1074, 1075, -1, -1});
    CHECK(download<int32_t>(position.address(), 2)[1] == 8);
    run(8); // no rounds
  }
}

/// A module whose one kernel takes a checked symbol, with bounds [0, 7], and an output.
std::string module_around(const std::string &kernel) {
  return "cugrt 1\nkernel @reader {\n" + kernel + R"(
  entry "reader"
  params (p: checked_symbol i32, y: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
func @main(%pos: tensor<[1], i32>, %y: out tensor<[1], i32>) {
  read p = %pos[0] in [0, 7]
  launch @reader(p, %y)
  return
}
)";
}

TEST_CASE("A kernel that takes a pointer where the module says a checked symbol is refused") {
  const std::string text = module_around(
      R"(  inline "extern \"C\" __global__ void reader(const int *p, int *y) { y[0] = p[0]; }")");
  if (emulated_runtime().info().driver_version < 12040)
    return; // such drivers do not tell what a function takes
  const Error error = error_of([&] { Program program(text); });
  CHECK(mentions(error, "40 bytes"));
  CHECK(mentions(error, "@reader"));
}

TEST_CASE("A kernel in a file of its own has the library's header, and files beside it") {
  TemporaryFolder folder;
  std::ofstream(folder.path + "/factor.cuh") << "#define FACTOR 3\n";
  std::ofstream(folder.path + "/reader.cu") << R"(#include "builtin:device_symbol.cuh"
#include "factor.cuh"
extern "C" __global__ void reader(cugrt_symbol<int> p, int *y) { y[0] = FACTOR * cugrt_read(p); }
)";
  Executable executable(emulated_runtime(),
                        Module::parse(module_around(R"(  source "reader.cu")"), "m", folder.path));
  Session session(executable, emulated_runtime());
  Buffer position = upload(std::vector<int32_t>{8}), y = upload(std::vector<int32_t>{0});
  session.run(executable.function("main"),
              {position.tensor(CUGRT_I32, {1}), y.tensor(CUGRT_I32, {1})});
  CHECK(mentions(error_of([&] { session.synchronize(); }), "symbol p"));
  CHECK(download<int32_t>(y.address(), 1)[0] == 21);
}
