// Storage policy `slots` beside `packed`. Blocks are what the rules of
// compiler/planner/published/chunks.h give, worked out by hand; peaks of packing are the least sum
// of sizes, rounded up to 256 bytes between tensors, that are alive together. The modules are the
// inputs of the golden files slots-*.txt.
#include "support/chunk_flaws.h"
#include "support/must.h"

#include "base/file.h"
#include "compiler/passes/pass.h"
#include "compiler/planner/storage/memory_plan.h"
#include "ir/text/text.h"

using namespace cugrt;
using namespace cugrt::plan;
using cugrt::test::ChunkFlaws;
using cugrt::test::must;
using cugrt::test::refused;

namespace {

ir::Module module_of(const std::string &text) { return must(ir::parse_and_verify(text, "text")); }

ir::Module golden_module(const std::string &name) {
  const std::string file =
      read_file(TEST_GOLDEN_FOLDER "/passes/slots-" + name + ".txt", 1 << 20).value();
  const std::string mark = "--- input\n";
  const size_t begin = file.find(mark) + mark.size();
  return module_of(file.substr(begin, file.find("\n--- ", begin) + 1 - begin));
}

/// "x: 32 A, y: A, z" for x in a new block of 32 bytes, y in the same one, z unplanned.
std::string written(ir::Module module, const ir::Function &function, ChunkFlaws flaws = {}) {
  const std::optional<ChunkPlan> made = must(cugrt::test::plan_chunks(module, function, flaws));
  if (!made)
    return "error";
  const ChunkPlan &plan = *made;
  std::string text;
  for (const ChunkTensor &tensor : plan.tensors) {
    text += (text.empty() ? "" : ", ") + function.value(tensor.tensor).name;
    CHECK((tensor.chunk == kNoChunk) != tensor.reason.empty());
    if (tensor.chunk == kNoChunk)
      continue;
    const StorageChunk &chunk = plan.chunks[tensor.chunk];
    text += ": ";
    if (chunk.first_tensor == tensor.tensor)
      text += module.exprs.to_string(chunk.bytes, function.symbol_names()) + " ";
    text += char('A' + tensor.chunk);
  }
  return text;
}

std::string blocks_of(const std::string &text, ChunkFlaws flaws = {}) {
  const ir::Module module = module_of("cugrt 1\n" + text);
  return written(module, module.functions.front(), flaws);
}

int64_t packed_peak(const ir::Module &module, const ir::Function &function) {
  auto summaries = must(summarize_called(module));
  MemoryPlan plan = must(plan_memory(module, function, summaries, {.reuse = Reuse::smallest}));
  int64_t peak = 0;
  for (const ScopePlan &scope : plan.scopes)
    peak += scope.peak_bytes;
  return peak;
}

const std::string kKernels = "kernel @w { inline \"-\" entry \"w\" params (y: out any) launch { "
                             "grid (1, 1, 1) block (1, 1, 1) } }\n"
                             "kernel @r { inline \"-\" entry \"r\" params (x: in any) launch { "
                             "grid (1, 1, 1) block (1, 1, 1) } }\n"
                             "kernel @k { inline \"-\" entry \"k\" params (x: in any, y: out any) "
                             "launch { grid (1, 1, 1) block (1, 1, 1) } }\n";

/// Tensors of these sizes, written and read one after the other.
std::string in_turn(const std::vector<std::string> &types) {
  std::string text = kKernels + "func @f() {\n";
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string name = "%t" + std::to_string(i);
    text += name + " = alloc : tensor<" + types[i] + ">\nlaunch @w(" + name + ")\n";
  }
  return text + "return\n}\n";
}

} // namespace

TEST_CASE("the published cases give the published blocks, and packing needs no more bytes") {
  struct Case {
    std::string file, function, blocks;
    int64_t packed_bytes; // -1: the case states none
  };
  const std::string chain = "alloc: 32 A, alloc1: 40 B, alloc2: A, alloc3: B, alloc4";
  const std::vector<Case> cases = {
      {"basic", "main", chain, 256 + 32},
      {"different-dtype", "main", "alloc: 24 A, alloc1: 24 B", 24},
      {"dtype-bool", "main", "alloc: 6 A", 6},
      {"same-dtype", "main", "alloc: 24 A, alloc1: A", 24},
      {"if-cond", "main", "alloc, alloc1", -1},
      {"if-then-else", "main", "alloc", -1},
      {"cross-block-use", "main", "alloc, alloc1, alloc2", -1},
      {"nested-tuple", "main",
       "alloc: 24 A, alloc1: 24 B, alloc2: 24 C, alloc3: 24 D, alloc4: A, alloc5: D", 3 * 256 + 24},
      {"call-func-other-than-primfunc", "main", "alloc", -1},
      {"call-packed-external-func", "main", "alloc: 24 A, alloc1", -1},
      {"symbolic-shape", "main", "alloc: 4*m*n A", -1},
      {"zero-reference", "main", "alloc: 24 A", 24},
      {"reshape-param", "main", "alloc", -1},
      {"multiple-functions", "func1", "alloc: 24 A, alloc1: 24 B", 24},
      {"multiple-functions", "func2", "alloc: 24 A, alloc1: A", 24},
      {"upper-bound", "main", chain, 256 + 32},
      {"lower-bound-only", "main",
       "alloc: 8*n A, alloc1: 8*n B, alloc2: A, alloc3: 8*n + 8 C, alloc4", -1},
      {"upper-and-lower-bounds", "main", chain, 256 + 32},
      {"decreasing-monotone", "main", "alloc: 8000 A, alloc1: 8000 B, alloc2", 8192 + 8000},
      {"call-tir-dyn", "main", "alloc: 80 A, alloc1: 80 B, alloc2", 256 + 80},
      {"plan-dynamic-results", "main", "alloc: 80 A, alloc1: 80 B, alloc2: 80 C", 256 + 80},
      {"plan-partially-dynamic", "main", "alloc: 80*m A, alloc1: 80*m B, alloc2: A, alloc3: 80*m C",
       -1},
      {"function-independence", "func1", "alloc: 32 A, alloc1", 32},
      {"function-independence", "func2", "alloc: 40 A, alloc1", 40},
      {"add", "main", "lv1: 256*vocab + 4194304 A, alloc1: 128*vocab B", -1},
      {"view", "main", "x: 1024 A, y: 512 B, z", 1024 + 512},
      {"builtin-reshape-preserves-liveness", "main", "alloc: 32 A, alloc1: 32 B, alloc2", -1},
      {"with-dataflow", "main", "alloc", -1},
  };
  for (const Case &row : cases) {
    INFO(row.file);
    const ir::Module module = golden_module(row.file);
    const ir::Function *function = module.find_function(row.function);
    REQUIRE(function);
    CHECK(written(module, *function) == row.blocks);
    if (row.packed_bytes >= 0)
      CHECK(packed_peak(module, *function) == row.packed_bytes);
  }
}

TEST_CASE("a block serves requests of a sixteenth of its size and more") {
  CHECK(blocks_of(in_turn({"[64], u8", "[4], u8"})) == "t0: 64 A, t1: A");
  CHECK(blocks_of(in_turn({"[64], u8", "[3], u8"})) == "t0: 64 A, t1: 3 B");
}

TEST_CASE("a block grows to up to sixteen times its size") {
  CHECK(blocks_of(in_turn({"[4], u8", "[64], u8"})) == "t0: 64 A, t1: A");
  CHECK(blocks_of(in_turn({"[3], u8", "[64], u8"})) == "t0: 3 A, t1: 64 B");
}

TEST_CASE("the smallest block that is large enough is taken, else the largest one grows") {
  const std::string three = kKernels + "func @f() {\n"
                                       "%a = alloc : tensor<[10], u8>\n"
                                       "%b = alloc : tensor<[30], u8>\n"
                                       "%c = alloc : tensor<[20], u8>\n"
                                       "launch @w(%a)\nlaunch @w(%b)\nlaunch @w(%c)\n";
  CHECK(blocks_of(three + "%d = alloc : tensor<[15], u8>\nlaunch @w(%d)\nreturn\n}\n") ==
        "a: 10 A, b: 30 B, c: 20 C, d: C");
  CHECK(blocks_of(three + "%d = alloc : tensor<[40], u8>\nlaunch @w(%d)\nreturn\n}\n") ==
        "a: 10 A, b: 40 B, c: 20 C, d: B");
}

TEST_CASE("of equal blocks the one freed first is taken and the one freed last grows") {
  const std::string two = kKernels + "func @f() {\n"
                                     "%a = alloc : tensor<[8], u8>\n"
                                     "%b = alloc : tensor<[8], u8>\n"
                                     "launch @w(%b)\nlaunch @w(%a)\n";
  CHECK(blocks_of(two + "%c = alloc : tensor<[8], u8>\nlaunch @w(%c)\nreturn\n}\n") ==
        "a: 8 A, b: 8 B, c: B");
  CHECK(blocks_of(two + "%c = alloc : tensor<[9], u8>\nlaunch @w(%c)\nreturn\n}\n") ==
        "a: 9 A, b: 8 B, c: A");
}

TEST_CASE("a kernel's output never takes the block of its input") {
  CHECK(blocks_of(kKernels + "func @f() {\n%a = alloc : tensor<[8], u8>\nlaunch @w(%a)\n"
                             "%b = alloc : tensor<[8], u8>\nlaunch @k(%a, %b)\nreturn\n}\n") ==
        "a: 8 A, b: 8 B");
}

TEST_CASE("scopes and dtypes have blocks of their own") {
  CHECK(blocks_of(in_turn({"[8], u8", "[8], i8", "[8], u8, scope \"ipc\"", "[8], u8"})) ==
        "t0: 8 A, t1: 8 B, t2: 8 C, t3: A");
}

TEST_CASE("a match is the tensor that it matches") {
  CHECK(blocks_of(kKernels +
                  "func @f() {\n%a = alloc : tensor<[8], u8>\nlaunch @w(%a)\n"
                  "%m = match %a : tensor<[q], u8>\n"
                  "%b = alloc : tensor<[8], u8>\nlaunch @w(%b)\nlaunch @r(%m)\nreturn\n}\n") ==
        "a: 8 A, b: 8 B");
}

TEST_CASE("a block that one branch frees is not used in the other, nor afterwards") {
  const std::string branches =
      kKernels + "func @f(%c: tensor<[], bool>, %x: tensor<[8], u8>) -> (tensor<[8], u8>) {\n"
                 "%y = if %c using (%x) -> tensor<[8], u8> {\n"
                 "%a = alloc : tensor<[8], u8>\nlaunch @w(%a)\nyield %x\n} else {\n"
                 "%b = alloc : tensor<[8], u8>\nlaunch @w(%b)\nyield %x\n}\n"
                 "%d = alloc : tensor<[8], u8>\nlaunch @w(%d)\nreturn %y\n}\n";
  CHECK(blocks_of(branches) == "a: 8 A, b: 8 B, d: 8 C");
  CHECK(blocks_of(branches, {.pool_outlives_branch = true}) == "a: 8 A, b: A, d: A");
}

TEST_CASE("a block that is free before a branch serves inside of it and is captured") {
  const std::string text =
      "cugrt 1\n" + kKernels +
      "func @f(%c: tensor<[], bool>, %x: tensor<[8], u8>) -> (tensor<[8], u8>) {\n"
      "%a = alloc : tensor<[8], u8>\nlaunch @w(%a)\n"
      "%y = if %c using (%x) -> tensor<[8], u8> {\n"
      "%b = alloc : tensor<[8], u8>\nlaunch @w(%b)\nyield %x\n} else {\nyield %x\n}\n"
      "return %y\n}\n";
  const ir::Module module = module_of(text);
  CHECK(written(module, module.functions.front()) == "a: 8 A, b: A");
  passes::PassContext context;
  REQUIRE(context.set("memory.storage_policy", "slots").ok());
  const passes::Pass *pipeline[] = {passes::find_pass("PlanMemory")};
  ir::Module planned = must(passes::run_passes(module, pipeline, context));
  const std::string printed = ir::print(planned);
  CHECK(printed.find("using (%x, %storage)") != std::string::npos);
  module_of(printed);
}

TEST_CASE("a tuple that names a tensor twice counts two uses, in its own block and in others") {
  const std::string text =
      kKernels + "func @f(%c: tensor<[], bool>, %x: tensor<[8], u8>) -> (tensor<[8], u8>) {\n"
                 "%a = alloc : tensor<[8], u8>\nlaunch @w(%a)\n%t = tuple(%a, %a)\n";
  CHECK(blocks_of(text + "extern \"e\"(%t)\n%b = alloc : tensor<[8], u8>\nlaunch @w(%b)\n"
                         "return %x\n}\n") == "a: 8 A, b: A");
  const std::string nested = text + "%y = if %c using (%x, %t) -> tensor<[8], u8> {\n"
                                    "extern \"e\"(%t)\nyield %x\n} else {\nyield %x\n}\n"
                                    "return %y\n}\n";
  CHECK(blocks_of(nested) == "a");
  CHECK(blocks_of(nested, {.repeated_part_breaks = true}) == "error");
}

TEST_CASE("bounds of symbols that are not in the signature size nothing") {
  CHECK(blocks_of(kKernels + "func @f(%x: tensor<[8], u8>) attributes {upper_bounds = {q = 9}} {\n"
                             "%m = match %x : tensor<[q], u8>\n"
                             "%a = alloc : tensor<[q], u8>\nlaunch @w(%a)\nreturn\n}\n") ==
        "a: q A");
}

TEST_CASE("a size that overflows is an error with its place") {
  ir::Module module =
      module_of("cugrt 1\n" + kKernels +
                "func @f(%x: tensor<[n], u8>) attributes {upper_bounds = {n = 4000000000}} {\n"
                "%a = alloc : tensor<[n, n, n], f32>\nlaunch @w(%a)\nreturn\n}\n");
  const Status plan = refused(plan_chunks(module, module.functions.front()));
  CHECK(plan.code() == Code::out_of_range);
  CHECK(plan.message().find("%a") != std::string::npos);
  CHECK(plan.location().substr(0, 2) == "6:");
}

TEST_CASE("upper bounds stay symbolic in symbols without bounds") {
  ir::ExprPool e;
  const ir::ExprId n = e.symbol({0}), m = e.symbol({1});
  const std::vector<ir::Interval> bounds = {{0, 20}, {0, INT64_MAX}};
  CHECK(bounded_above(e, n, bounds) == e.constant(20));
  CHECK(bounded_above(e, m, bounds) == m);
  CHECK(bounded_above(e, e.add(n, m), bounds) == e.add(m, e.constant(20)));
  CHECK(bounded_above(e, e.mul(n, m), bounds) == e.mul(m, e.constant(20)));
  CHECK(bounded_above(e, e.min(m, e.constant(8)), bounds) == e.constant(8));
  CHECK(bounded_above(e, e.sub(m, n), bounds) == m);
  CHECK(bounded_above(e, e.floordiv(e.add(n, m), e.constant(4)), bounds) ==
        e.floordiv(e.add(m, e.constant(20)), e.constant(4)));
  // Nothing is known of a product whose sign is not.
  const ir::ExprId unknown = e.mul(e.sub(n, e.constant(5)), m);
  CHECK(bounded_above(e, unknown, bounds) == unknown);
}
