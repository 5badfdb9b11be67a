// The published analysis: each published flaw is mended, and its switch turns it back on. Expected
// texts follow from the rules; what the flawed pass does was compared with the published one.
#include "support/must.h"
#include "support/published_text.h"

#include "compiler/planner/lower/planner.h"
#include "ir/text/text.h"

using namespace cugrt;
using cugrt::test::must;

namespace {

const char *const kKernels = R"(cugrt 1
kernel @k { source "k.cu" entry "k" params (x: in any, y: out any) launch { grid (1, 1, 1) block (8, 1, 1) } }
kernel @kn { source "k.cu" entry "kn" params (x: in any, y: out any, n: symbol i64) launch { grid (1, 1, 1) block (8, 1, 1) } }
)";

ir::Module parse(const std::string &functions) {
  return must(ir::parse_and_verify(kKernels + functions, "test"));
}

std::string analyzed(const std::string &functions, const test::PublishedFlaws &flaws = {}) {
  ir::Module module = parse(functions);
  plan::PublishedAnalysis analysis = test::analyze_published(module, flaws);
  return "\n" + test::PublishedText(module, analysis).all();
}

} // namespace

TEST_CASE("an if closes the region before it") {
  const char *const text = R"(
func @main(%c: bool, %w: tensor<[8], f32>) attributes {num_inputs = 1} {
  %s = alloc_storage "global", 32
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%w, %a)
  if %c using (%a, %w) {
    launch @k(%w, %a)
    yield
  } else {
    yield
  }
  launch @k(%w, %a)
  return
}
)";
  CHECK(analyzed(text) == R"(
@main
  %s: merged 0
  allocation before %s = alloc_storage "global", 32
  region 0 @main_cuda_graph_capture
    launch @k(%w, %a)
    in (%w, %a) out ()
  region 1 @main_cuda_graph_capture
    launch @k(%w, %a)
    in (%w, %a) out ()
  region 2 @main_cuda_graph_capture
    launch @k(%w, %a)
    in (%w, %a) out ()
merged in @cuda_graph_alloc: global 32
)");
  // The launch after the branch moves above it.
  CHECK(analyzed(text, {.control_keeps_region = true}) == R"(
@main
  %s: merged 0
  allocation before %s = alloc_storage "global", 32
  region 0 @main_cuda_graph_capture
    launch @k(%w, %a)
    launch @k(%w, %a)
    in (%w, %a) out ()
  region 1 @main_cuda_graph_capture1
    launch @k(%w, %a)
    in (%w, %a) out ()
merged in @cuda_graph_alloc: global 32
)");
}

TEST_CASE("a match closes the region before it") {
  const char *const text = R"(
func @main(%x: tensor<?, f32>, %w: tensor<[8], f32>, %y: tensor<[8], f32>) attributes {num_inputs = 1} {
  %s = alloc_storage "global", 32
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%w, %a)
  %m = match %x : tensor<[n], f32>
  launch @k(%w, %a)
  return
}
)";
  CHECK(analyzed(text) == R"(
@main
  %s: merged 0
  allocation before %s = alloc_storage "global", 32
  region 0 @main_cuda_graph_capture
    launch @k(%w, %a)
    in (%w, %a) out ()
  region 1 @main_cuda_graph_capture
    launch @k(%w, %a)
    in (%w, %a) out ()
merged in @cuda_graph_alloc: global 32
)");
  CHECK(analyzed(text, {.match_keeps_region = true}) == R"(
@main
  %s: merged 0
  allocation before %s = alloc_storage "global", 32
  region 0 @main_cuda_graph_capture
    launch @k(%w, %a)
    launch @k(%w, %a)
    in (%w, %a) out ()
merged in @cuda_graph_alloc: global 32
)");
}

TEST_CASE("what is returned, a condition and what is matched come out of their regions") {
  struct Case {
    const char *params, *bytes, *type, *names, *name, *use;
    test::PublishedFlaws flaws;
  };
  for (const Case &c : {
           Case{"(%x: tensor<[8], f32>, %w: tensor<[8], f32>) -> (tensor<[8], f32>) attributes "
                "{num_inputs = 1}",
                "32",
                "tensor<[8], f32>",
                "%r = alias %w",
                "%r",
                "return %r",
                {.results_are_no_uses = true}},
           Case{"(%w: tensor<[1], i32>) attributes {num_inputs = 0}",
                "4",
                "tensor<[1], i32>",
                "%c = alias %a",
                "%c",
                "if %c {\n    yield\n  } else {\n    yield\n  }\n  return",
                {.conditions_are_no_uses = true}},
           Case{"(%w: tensor<[8], f32>) attributes {num_inputs = 0}",
                "32",
                "tensor<[8], f32>",
                "%v = view %a, 0 : tensor<[8], f32>",
                "%v",
                "%m = match %v : tensor<[n], f32>\n  return",
                {.matches_are_no_uses = true}},
       }) {
    INFO(c.use);
    const std::string bytes = c.bytes, names = c.names, name = c.name;
    const std::string text = std::string("func @main") + c.params +
                             " {\n  %s = alloc_storage \"global\", " + bytes +
                             "\n  %a = alloc_tensor %s, 0 : " + c.type +
                             "\n  launch @k(%w, %a)\n  " + names + "\n  " + c.use + "\n}\n";
    auto expected = [&](const std::string &out, const std::string &undefined) {
      return "\n@main\n  %s: merged 0\n  allocation before %s = alloc_storage \"global\", " +
             bytes + "\n  region 0 @main_cuda_graph_capture\n    launch @k(%w, %a)\n    " + names +
             "\n    in (%w, %a) out (" + out + ")\n" + undefined +
             "merged in @cuda_graph_alloc: global " + bytes + "\n";
    };
    CHECK(analyzed(text) == expected(name, ""));
    CHECK(analyzed(text, c.flaws) == expected("", "  undefined (" + name + ")\n"));
  }
}

TEST_CASE("results are followed to their storage through whatever names them") {
  struct Case {
    const char *names, *result;
  };
  const Case cases[] = {
      {"%r = view %a, 0 : tensor<[8], f32>", "%r"},
      {"%t = tuple(%a)\n  %r = get %t, 0", "%r"},
      {"%r = match %a : tensor<[8], f32>", "%r"},
      {"%r = call @same(%a)", "%r"},
  };
  for (const Case &c : cases) {
    std::string text = R"(
private func @same(%p: tensor<[8], f32>) -> (tensor<[8], f32>) {
  %q = alias %p
  return %q
}
func @main(%x: tensor<[8], f32>) -> (tensor<[8], f32>) {
  %s = alloc_storage "global", 32
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%x, %a)
  )" + std::string(c.names) +
                       "\n  return " + c.result + "\n}\n";
    INFO(text);
    CHECK(analyzed(text) == R"(
@same
@main
  %s: stays, %s holds a result: the next run would overwrite it
)");
    CHECK(analyzed(text, {.views_hide_results = true}) == R"(
@same
@main
  %s: merged 0
  allocation before %s = alloc_storage "global", 32
merged in @cuda_graph_alloc: global 32
)");
  }
}

TEST_CASE("results are followed through an alias of their storage") {
  const char *const text = R"(
func @main(%x: tensor<[8], f32>) -> (tensor<[8], f32>) {
  %s = alloc_storage "global", 32
  %same = alias %s
  %a = alloc_tensor %same, 0 : tensor<[8], f32>
  launch @k(%x, %a)
  return %a
}
)";
  CHECK(analyzed(text) ==
        "\n@main\n  %s: stays, %s holds a result: the next run would overwrite it\n");
  CHECK(analyzed(text, {.views_hide_results = true}).find("%s: merged 0") != std::string::npos);
}

TEST_CASE("aliases and tuples alone hide no result") {
  for (bool flawed : {false, true})
    CHECK(analyzed(R"(
func @main(%x: tensor<[8], f32>) -> (tuple<tensor<[8], f32>>) {
  %s = alloc_storage "global", 32
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%x, %a)
  %b = alias %a
  %t = tuple(%b)
  return %t
}
)",
                   {.views_hide_results = flawed}) ==
          "\n@main\n  %s: stays, %s holds a result: the next run would overwrite it\n");
}

TEST_CASE("a callee's storages are merged above those of its callers") {
  const char *const text = R"(
private func @inner(%p: tensor<[8], f32>, %q: out tensor<[8], f32>) {
  %s = alloc_storage "global", 64
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%p, %a)
  launch @k(%a, %q)
  return
}
private func @middle(%p: tensor<[8], f32>, %q: out tensor<[8], f32>) {
  call @inner(%p, %q)
  return
}
func @main(%x: tensor<[8], f32>, %y: out tensor<[8], f32>, %z: out tensor<[8], f32>) {
  %s = alloc_storage "global", 32
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%x, %a)
  call @middle(%x, %y)
  launch @k(%a, %z)
  return
}
func @other(%x: tensor<[8], f32>) {
  %s = alloc_storage "global", 16
  %a = alloc_tensor %s, 0 : tensor<[4], f32>
  launch @k(%x, %a)
  return
}
)";
  CHECK(analyzed(text) == R"(
@inner
  %s: merged 1
  allocation before %s = alloc_storage "global", 64
@middle
@main
  %s: merged 0
  allocation before %s = alloc_storage "global", 32
@other
  %s: merged 0
  allocation before %s = alloc_storage "global", 16
merged in @cuda_graph_alloc: global 32, global 64
)");
  CHECK(analyzed(text, {.merge_ignores_calls = true}) == R"(
@inner
  %s: merged 0
  allocation before %s = alloc_storage "global", 64
@middle
@main
  %s: merged 0
  allocation before %s = alloc_storage "global", 32
@other
  %s: merged 0
  allocation before %s = alloc_storage "global", 16
merged in @cuda_graph_alloc: global 64
)");
}

TEST_CASE("a storage that nothing uses takes no slot") {
  const char *const text = R"(
func @main(%x: tensor<[8], f32>) {
  %unused = alloc_storage "global", 64
  %s = alloc_storage "global", 32
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%x, %a)
  return
}
)";
  CHECK(analyzed(text) == R"(
@main
  %unused: unused
  %s: merged 0
  allocation before %s = alloc_storage "global", 32
merged in @cuda_graph_alloc: global 32
)");
  ir::Module module = parse(text);
  const plan::PublishedAnalysis analysis = plan::analyze_published(module);
  CHECK(test::merge_fails_on(analysis, {}) == UINT32_MAX);
  CHECK(test::merge_fails_on(analysis, {.unused_storage_breaks_merge = true}) == 0);
}

TEST_CASE("a function all of whose storages are unused allocates nothing") {
  const char *const text = R"(
func @main() {
  %unused = alloc_storage "global", 64
  return
}
)";
  CHECK(analyzed(text) == "\n@main\n  %unused: unused\n");
  ir::Module module = parse(text);
  CHECK(test::merge_fails_on(plan::analyze_published(module),
                             {.unused_storage_breaks_merge = true}) == UINT32_MAX);
}

TEST_CASE("the allocation stands where all uses of it can see it") {
  const char *const in_branch = R"(
func @main(%c: bool, %x: tensor<[8], f32>) {
  if %c using (%x) {
    %s = alloc_storage "global", 32
    %a = alloc_tensor %s, 0 : tensor<[8], f32>
    launch @k(%x, %a)
    yield
  } else {
    yield
  }
  %t = alloc_storage "global", 32
  %b = alloc_tensor %t, 0 : tensor<[8], f32>
  launch @k(%x, %b)
  return
}
)";
  CHECK(analyzed(in_branch) == R"(
@main
  %s: merged 0
  %t: merged 1
  allocation before if %c using (%x) { ... } else { ... }
merged in @cuda_graph_alloc: global 32, global 32
)");
  CHECK(analyzed(in_branch, {.allocation_at_first_storage = true}) == R"(
@main
  %s: merged 0
  %t: merged 1
  allocation before %s = alloc_storage "global", 32
  undefined (%t)
merged in @cuda_graph_alloc: global 32, global 32
)");
  const char *const after_launch = R"(
func @main(%w: tensor<[8], f32>, %v: tensor<[8], f32>) attributes {num_inputs = 0} {
  extern "touch"(%w)
  %s = alloc_storage "global", 32
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%w, %a)
  return
}
)";
  CHECK(analyzed(after_launch) == R"(
@main
  %s: merged 0
  allocation before extern "touch"(%w)
  region 0 @main_cuda_graph_capture
    extern "touch"(%w)
    %a = alloc_tensor %s, 0 : tensor<[8], f32>
    launch @k(%w, %a)
    in (%w, %s) out ()
merged in @cuda_graph_alloc: global 32
)");
  CHECK(analyzed(after_launch, {.allocation_at_first_storage = true}) == R"(
@main
  %s: merged 0
  allocation before %s = alloc_storage "global", 32
  region 0 @main_cuda_graph_capture
    extern "touch"(%w)
    %a = alloc_tensor %s, 0 : tensor<[8], f32>
    launch @k(%w, %a)
    in (%w, %s) out ()
  undefined (%s)
merged in @cuda_graph_alloc: global 32
)");
}

TEST_CASE("symbols in the types of aliases and tuple elements are in the key") {
  for (const char *name : {"%b = alias %v", "%t = tuple(%v)\n  %b = get %t, 0"}) {
    std::string text = R"(
func @main(%w: tensor<[8], f32>, %v: tensor<[m], f32>) attributes {num_inputs = 0} {
  %s = alloc_storage "global", 32
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%w, %a)
  )" + std::string(name) +
                       "\n  host \"see\"(%b)\n  return\n}\n";
    INFO(text);
    bool tuple = text.find("tuple") != std::string::npos; // which records its operands' symbols
    CHECK(analyzed(text).find("symbols (m)") != std::string::npos);
    CHECK((analyzed(text, {.aliases_hide_symbols = true}).find("symbols (m)") !=
           std::string::npos) == tuple);
  }
}

TEST_CASE("symbols in the types of an extern's results are captured ones, and in the key") {
  const char *const free = R"(
func @main(%x: tensor<[n], f32>, %w: tensor<[8], f32>) attributes {num_inputs = 1} {
  %r = extern "make"(%w) : tensor<[n], f32>
  return
}
)";
  CHECK(analyzed(free) == "\n@main\n");
  CHECK(analyzed(free, {.results_hide_symbols = true}) == R"(
@main
  region 0 @main_cuda_graph_capture
    %r = extern "make"(%w) : tensor<[n], f32>
    in (%w) out ()
)");
}

TEST_CASE("regions that are written alike are one function, unless bounds or scopes differ") {
  auto layer = [](const std::string &name, const std::string &scope, int bytes, int upper) {
    return "func @" + name +
           R"((%x: tensor<[m], f32>, %w: tensor<[m], f32>) attributes {num_inputs = 1, upper_bounds = {m = )" +
           std::to_string(upper) + R"(}} {
  %s = alloc_storage ")" +
           scope + "\", " + std::to_string(bytes) + R"(
  %t = alloc_storage ")" +
           scope + "\", " + std::to_string(bytes) + R"(
  %a = alloc_tensor %s, 0 : tensor<[m], f32>
  launch @kn(%w, %a, m)
  %b = alloc_tensor %t, 0 : tensor<[m], f32>
  launch @kn(%a, %b, m)
  return
}
)";
  };
  auto lifted = [&](const std::string &text, const test::PublishedFlaws &flaws = {}) {
    ir::Module module = parse(text);
    plan::PublishedAnalysis analysis = test::analyze_published(module, flaws);
    std::vector<std::string> names;
    for (const plan::PublishedFunction &function : analysis.functions)
      for (const plan::PublishedRegion &region : function.regions)
        names.push_back(analysis.lifted[region.lifted].name + " " +
                        std::to_string(region.capture_index));
    return names;
  };
  using Names = std::vector<std::string>;
  const Names shared = {"one_cuda_graph_capture 0", "one_cuda_graph_capture 1"};
  const Names apart = {"one_cuda_graph_capture 0", "two_cuda_graph_capture 1"};
  const std::string one = layer("one", "global", 64, 16);
  CHECK(lifted(one + layer("two", "global", 64, 16)) == shared);
  CHECK(lifted(one + layer("two", "global", 128, 16)) == shared); // a larger storage does as well
  CHECK(lifted(one + layer("two", "global", 32, 8)) == apart);
  CHECK(lifted(one + layer("two", "global", 32, 8), {.equal_in_any_bounds = true}) == shared);
  CHECK(lifted(one + layer("two", "ipc", 64, 16)) == apart);
}

TEST_CASE("names that are taken get a number") {
  CHECK(analyzed(R"(
private func @cuda_graph_alloc() { return }
private func @main_cuda_graph_capture() { return }
private func @main_cuda_graph_capture1() { return }
func @main(%x: tensor<[8], f32>, %w: tensor<[8], f32>) attributes {num_inputs = 1} {
  %s = alloc_storage "global", 32
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%w, %a)
  return
}
)")
            .find(R"(  region 0 @main_cuda_graph_capture2
    launch @k(%w, %a)
    in (%w, %a) out ()
merged in @cuda_graph_alloc1: global 32
)") != std::string::npos);
}

TEST_CASE("symbols are in the key in the order in which they occur") {
  CHECK(analyzed(R"(
func @main(%v: tensor<[c], f32>, %w: tensor<[b, a], f32>) attributes {num_inputs = 1, capture_symbols = [c], upper_bounds = {a = 4, b = 4, c = 4}} {
  %s = alloc_storage "global", 32
  %y = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @kn(%w, %y, c)
  return
}
)") == R"(
@main
  %s: merged 0
  allocation before %s = alloc_storage "global", 32
  region 0 @main_cuda_graph_capture
    launch @kn(%w, %y, c)
    in (%w, %y) out () symbols (b, a, c)
merged in @cuda_graph_alloc: global 32
)");
}

TEST_CASE("a view, kill or name of static things opens no region, and makes its name static") {
  CHECK(analyzed(R"(
func @main(%w: tensor<[8], f32>) attributes {num_inputs = 0} {
  %v = view %w, 0 : tensor<[4], f32>
  %c = alias %v
  %s = alloc_storage "global", 32
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%c, %a)
  host "see"(%c)
  kill %a
  kill %s
  return
}
)") == R"(
@main
  %s: merged 0
  allocation before %s = alloc_storage "global", 32
  region 0 @main_cuda_graph_capture
    launch @k(%c, %a)
    in (%c, %a) out ()
merged in @cuda_graph_alloc: global 32
)");
}

TEST_CASE("lifted functions that are run too often to put back are an error at the call") {
  std::string text = kKernels;
  text += "private func @long(%p: inout tensor<[8], f32>) {\n";
  for (int i = 0; i < 4096; ++i)
    text += "  launch @k(%p, %p)\n";
  text += "  return\n}\nfunc @main(%x: inout tensor<[8], f32>) {\n  %args = tuple(%x)\n";
  for (int i = 0; i < 4097; ++i)
    text += "  host \"cuda_graph.run_or_capture\"(@long, %args, 0)\n";
  text += "  return\n}\n";
  ir::Module module = must(ir::parse_and_verify(text, "test"));
  Status status = plan::make_plan(module, {}).take_status();
  CHECK(status.code() == Code::out_of_range);
  CHECK(status.message().find("in @main") != std::string::npos);
  // 4097 launches and a parameter each: the call of number 2^24 / 4097 = 4095 is the last that
  // fits.
  CHECK(status.location() == std::to_string(3 + 1 + 4096 + 2 + 2 + 4095 + 1) + ":3");
}
