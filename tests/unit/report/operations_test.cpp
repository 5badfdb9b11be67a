// Operations of ops and of steps, by hand; and ceilings of devices, by their data sheets.
#include "fronts/tools/trace/ceilings.h"
#include "ir/text/text.h"
#include "library/report/module_report.h"
#include "tests/support/catch.h"

#include <cstring>
#include <nlohmann/json.hpp>

using namespace cugrt;
using namespace cugrt::runtime;
using Json = nlohmann::ordered_json;

namespace {

std::string module_of(const std::string &params, const std::string &results,
                      const std::string &body, const std::string &more = "") {
  return "cugrt 1\nfunc @main(" + params + ") -> (" + results + ") attributes {num_inputs = 1" +
         (params.find("n,") != std::string::npos
              ? ", lower_bounds = {n = 1}, upper_bounds = {n = 16}"
              : "") +
         "} {\n" + body + "}\n" + more;
}

/// "%x": its operations, for each step of @main's regions by what it computes.
Json operations_of(const std::string &text, int64_t n = 4) {
  auto module = ir::parse_and_verify(text, "m.cugrt");
  INFO(text << (module.ok() ? "" : module.status().message()));
  REQUIRE(module.ok());
  const cugrt_symbol_value symbol{"n", n};
  PlanReportOptions options;
  options.format = CUGRT_REPORT_JSON;
  if (text.find("n,") != std::string::npos)
    options.symbols = std::span(&symbol, 1);
  auto report = plan_report(*module, "m.cugrt", options);
  REQUIRE(report.ok());
  const Json said = Json::parse(*report);
  Json found = Json::object();
  for (const auto &function : said["functions"])
    for (const auto &region : function["regions"])
      for (size_t s = 0; s < region["steps"].size(); ++s) {
        const std::string step = region["steps"][s];
        std::string name = step.substr(step.find(' ') + 1);
        while (found.contains(name))
          name += "'";
        found[name] = region["operations"][s];
      }
  return found;
}

/// Of one op with results of its own types.
Json operations_of_op(const std::string &params, const std::string &results,
                      const std::string &call) {
  const bool three = call.find("lstm") != std::string::npos;
  return operations_of(module_of(params, results,
                                 std::string("  %y") + (three ? ", %h, %c" : "") + " = " + call +
                                     "\n  return %y\n"))["%y"];
}

} // namespace

TEST_CASE("operations of ops are those of their definitions, at the symbols' values") {
  // 4 x 6 results of 5 products and sums each.
  CHECK(operations_of_op("%x: tensor<[n, 5], f32>, %w: tensor<[5, 6], f32>", "tensor<[n, 6], f32>",
                         "matmul(%x, %w)") == Json{{"vector", 240.}});
  CHECK(operations_of_op("%x: tensor<[n, 5], f16>, %w: tensor<[5, 6], f16>, %b: tensor<[6], f16>",
                         "tensor<[n, 6], f16>", "matmul(%x, %w, %b)") == Json{{"f16", 264.}});
  CHECK(operations_of_op("%x: tensor<[n, 4], i8>, %w: tensor<[4, 6], i8>", "tensor<[n, 6], i32>",
                         "matmul_integer(%x, %w)") == Json{{"int8", 192.}});
  CHECK(operations_of_op("%x: tensor<[n, 5], f64>", "tensor<[n, 5], f64>", "exp(%x)") ==
        Json{{"f64", 20.}});
  // 2 x 4 x 6 x 6 results of a group's 3 channels times 3 x 3.
  CHECK(operations_of_op("%x: tensor<[2, 6, 8, 8], f32>, %w: tensor<[4, 3, 3, 3], f32>",
                         "tensor<[2, 4, 6, 6], f32>", "conv2d(%x, %w) {groups = 2}") ==
        Json{{"vector", 2. * 4 * 6 * 6 * 2 * 27}});
  // Each of 1 x 3 x 5 inputs goes into 4 channels of 3 places.
  CHECK(operations_of_op("%x: tensor<[1, 3, 5], f32>, %w: tensor<[3, 4, 3], f32>",
                         "tensor<[1, 4, 7], f32>",
                         "conv_transpose(%x, %w)") == Json{{"vector", 15. * 2 * 12}});
  CHECK(operations_of_op("%x: tensor<[1, 2, 8, 8], f32>", "tensor<[1, 2, 4, 4], f32>",
                         "max_pool2d(%x) {kernel = [2, 2], strides = [2, 2]}") ==
        Json{{"vector", 128.}});
  CHECK(operations_of_op("%x: tensor<[n, 5], f32>", "tensor<[n], f32>",
                         "reduce_sum(%x) {axes = [1]}") == Json{{"vector", 20.}});
  CHECK(operations_of_op("%x: tensor<[n, 5], f32>", "tensor<[n, 5], f32>", "softmax(%x)") ==
        Json{{"vector", 100.}});
  // 2 x 3 x 4 queries of heads see 7 places of 16 numbers.
  CHECK(operations_of_op("%q: tensor<[2, 3, 4, 16], f16>, %k: tensor<[2, 7, 2, 16], f16>, "
                         "%v: tensor<[2, 7, 2, 16], f16>",
                         "tensor<[2, 3, 4, 16], f16>",
                         "attention(%q, %k, %v)") == Json{{"f16", 2. * 3 * 4 * 7 * (4 * 16 + 6)}});
  // Each gate of 3 steps, 2 rows, 1 direction is a sum over 8 numbers of the state.
  CHECK(operations_of_op("%g: tensor<[3, 2, 1, 32], f32>, %w: tensor<[1, 8, 32], f32>",
                         "tensor<[3, 1, 2, 8], f32>",
                         "lstm(%g, %w)") == Json{{"vector", 3. * 2 * 32 * (2 * 8 + 3)}});
  CHECK(operations_of_op("%x: tensor<[n, 5], f32>", "tensor<[5, n], f32>", "transpose(%x)") ==
        Json::object());
}

TEST_CASE("a fused step has the operations of all that it was made of") {
  const Json fused = operations_of(module_of("%x: tensor<[n, 5], f32>, %w: tensor<[5, 6], f32>",
                                             "tensor<[n, 6], f32>",
                                             "  %m = matmul(%x, %w)\n  %r = relu(%m)\n"
                                             "  %y = add(%r, %m)\n  return %y\n"));
  CHECK(fused == Json{{"%y", {{"vector", 240. + 24 + 24}}}});
  const Json views = operations_of(module_of("%x: tensor<[n, 6], f32>", "tensor<[n], f32>",
                                             "  %e = exp(%x)\n  %s = reduce_sum(%e) {axes = [1]}\n"
                                             "  %y = softmax(%s)\n  return %y\n"));
  double all = 0;
  for (const auto &step : views)
    for (const auto &count : step)
      all += count.get<double>();
  CHECK(all == 24 + 24 + 20);
}

TEST_CASE("a convolution counts where it is computed, not where its image is turned") {
  const Json found = operations_of(module_of(
      "%x: tensor<[1, 8, 32, 32], f16>, %w: tensor<[16, 8, 3, 3], f16>",
      "tensor<[1, 16, 30, 30], f16>", "  %c = conv2d(%x, %w)\n  %y = relu(%c)\n  return %y\n"));
  INFO(found.dump());
  size_t turned = 0;
  for (const auto &[step, operations] : found.items())
    if (step != "%y")
      turned += operations.empty();
  CHECK(turned + 1 == found.size());
  CHECK(turned > 0);
  CHECK(found["%y"].value("f16", 0.) == 16. * 30 * 30 * 2 * 72);
}

TEST_CASE("a step is named for an op by whole words, as mul is not part of matmul") {
  // The name of the fused kernel has six of its seven ops: mul is the seventh.
  const Json steps = operations_of(
      module_of("%x: tensor<[n, 5], f32>, %w: tensor<[5, 6], f32>", "tensor<[n, 6], f32>",
                "  %a = neg(%x)\n  %b = abs(%a)\n  %c = exp(%b)\n  %d = sin(%c)\n"
                "  %e = cos(%d)\n  %f = tanh(%e)\n  %m = mul(%f, %x)\n"
                "  %y = matmul(%m, %w)\n  return %y\n"));
  CHECK(steps == Json{{"%m", {{"vector", 7. * 4 * 5}}}, {"%y", {{"vector", 240.}}}});
}

TEST_CASE("products that become one launch count there") {
  const Json steps = operations_of(
      module_of("%x: tensor<[1, 64], f32>, %w: tensor<[64, 64], f32>, %u: tensor<[64, 64], f32>",
                "tensor<[1, 64], f32>",
                "  %a = matmul(%x, %w) {transpose_b = true}\n"
                "  %b = matmul(%x, %u) {transpose_b = true}\n"
                "  %s = softmax(%a)\n  %y = softmax(%b)\n  %z = add(%s, %y)\n  return %z\n"));
  CHECK(steps == Json{{"%a", {{"vector", 2. * 2 * 64 * 64}}},
                      {"%y", {{"vector", 5. * 64}}},
                      {"%z", {{"vector", 5. * 64 + 64}}}});
}

TEST_CASE("a function that is called twice counts at each call's sizes") {
  const Json steps = operations_of(
      module_of("%x: tensor<[n, 5], f32>, %y: tensor<[3, 5], f32>",
                "tensor<[n, 5], f32>, tensor<[3, 5], f32>",
                "  %a = call @part(%x)\n  %b = call @part(%y)\n  return %a, %b\n",
                "private func @part(%p: tensor<[m, 5], f32>) -> (tensor<[m, 5], f32>) {\n"
                "  %q = softmax(%p)\n  return %q\n}\n"));
  std::vector<double> counts;
  for (const auto &step : steps)
    counts.push_back(step.value("vector", 0.0));
  CHECK(counts == std::vector<double>{5. * 4 * 5, 5. * 3 * 5});
}

TEST_CASE("a kernel of the module's own has no operations that are known") {
  const Json steps = operations_of(
      "cugrt 1\nkernel @k {\n  source \"k.cu\"\n  entry \"k\"\n  params (x: in f32, y: out f32)\n"
      "  launch { grid (1, 1, 1) block (32, 1, 1) }\n}\n"
      "func @main(%x: tensor<[8], f32>) -> (tensor<[8], f32>) {\n"
      "  %a = alloc : tensor<[8], f32>\n  launch @k(%x, %a)\n  return %a\n}\n");
  CHECK(steps == Json{{"%a", nullptr}});
}

TEST_CASE("ceilings follow from a device's attributes") {
  const Json h100 = {{"architecture", "sm_90"},
                     {"attributes",
                      {{"multiprocessors", 132},
                       {"clock kHz", 1830000},
                       {"memory clock kHz", 2619000},
                       {"memory bus bits", 5120},
                       {"integrated", 0}}}};
  const tool::Ceilings ceilings = tool::device_ceilings(h100, false);
  CHECK(ceilings.unknown.empty());
  CHECK(ceilings.bytes * 1e6 == Approx(3.35e12).epsilon(0.01)); // the data sheet's
  CHECK(ceilings.operations[1] * 1e6 == Approx(989e12).epsilon(0.01));
  CHECK(ceilings.operations[2] * 1e6 == Approx(1979e12).epsilon(0.01));
  CHECK(ceilings.operations[0] * 1e6 == Approx(67e12).epsilon(0.1));
  CHECK(*ceilings.of_memory(3352320, 2) == Approx(0.5).epsilon(0.001));
  // Half of the time for f16, half for f32: the whole of it.
  const tool::Operations done{ceilings.operations[0], ceilings.operations[1], 0, 0};
  CHECK(*ceilings.of_operations(done, 2) == Approx(1));
}

TEST_CASE("what is not known of a device is not reckoned with") {
  Json orin = {{"architecture", "sm_87"},
               {"attributes",
                {{"multiprocessors", 16},
                 {"clock kHz", 1300000},
                 {"memory clock kHz", 1300000},
                 {"memory bus bits", 256},
                 {"integrated", 1}}}};
  const tool::Ceilings shared = tool::device_ceilings(orin, false);
  CHECK_FALSE(shared.of_memory(1, 1).has_value());
  CHECK(shared.operations[1] * 1e6 == Approx(42.6e12).epsilon(0.01));
  CHECK(shared.text().find("memory not known") == 0);
  orin["architecture"] = "sm_110";
  const tool::Operations bytes{0, 0, 8, 0};
  CHECK_FALSE(tool::device_ceilings(orin, false).of_operations(bytes, 1).has_value());
  orin["architecture"] = "sm_999";
  const tool::Ceilings newer = tool::device_ceilings(orin, false);
  CHECK_FALSE(newer.of_operations({1, 0, 0, 0}, 1).has_value());
  CHECK(newer.text() == "not known: no figures of sm_999");
  const tool::Ceilings emulated = tool::device_ceilings(orin, true);
  CHECK_FALSE(emulated.of_memory(1, 1).has_value());
  CHECK_FALSE(emulated.of_operations({1, 0, 0, 0}, 1).has_value());
  CHECK(emulated.text() == "not known: the emulated driver's times say nothing of a device");
}

TEST_CASE("operations that a pack keeps are read as they were written, and nothing else is") {
  const std::string text =
      module_of("%x: tensor<[n, 5], f32>, %w: tensor<[5, 6], f32>", "tensor<[n, 6], f32>",
                "  %p = matmul(%x, %w)\n  %y = softmax(%p)\n  return %y\n");
  auto module = ir::parse_and_verify(text, "m.cugrt");
  REQUIRE(module.ok());
  auto plan = plan_module(*module, "m.cugrt", {}, nullptr);
  auto ops = ops_before_fusion(*module, "m.cugrt", {});
  REQUIRE((plan.ok() && ops.ok()));
  const std::span<const plan::Plan> plans(&*plan, 1);
  const std::string written = notes_text({{56}, {count_operations(*ops, *plan)}});
  CHECK(written.size() < 100);
  const auto read = read_notes(written, plans, 1);
  REQUIRE(read.ok());
  CHECK(notes_text(*read) == written);
  CHECK(read->multiprocessors == std::vector<int64_t>{56});
  double sum = 0;
  for (const StepOperations &step : read->operations[0][0].at({{"n", 7}})) {
    CHECK(step.known);
    sum += step.counts[0];
  }
  CHECK(sum == 7 * 6 * 2 * 5 + 5 * 7 * 6);
  for (const StepOperations &step : read->operations[0][0].at({}))
    CHECK_FALSE(step.known);

  CHECK_FALSE(read_notes(written, plans, 2).ok());
  CHECK_FALSE(read_notes(written, {}, 1).ok());
  const auto refused = [&](const std::string &was, const std::string &is) {
    const size_t at = written.find(was);
    REQUIRE(at != written.npos);
    CHECK_FALSE(read_notes(std::string(written).replace(at, was.size(), is), plans, 1).ok());
  };
  refused("{", "[");
  refused("56", "\"56\"");
  refused("\"n\"", "7");
  refused("[[0,", "[[4,"); // a kind that is none
  refused("[[0,", "[[0.5,");
  refused(",0]", ",1]"); // a symbol that is none
  refused(",0]", ",[\"add\",0]]");
  refused(",0]", ",[\"symbol\",0]]");
  std::string deep = "0";
  for (int i = 0; i < 300; ++i)
    deep = "[\"add\"," + deep + ",0]";
  refused(",0]", "," + deep + "]");
}

namespace {

/// Of two plans of one module, at whose lines stand `names`.
struct NamedPlans {
  explicit NamedPlans(const std::map<uint32_t, std::string> &names) {
    auto module = ir::parse_and_verify(
        module_of("%x: tensor<[n, 5], f32>, %w: tensor<[5, 6], f32>", "tensor<[n, 6], f32>",
                  "  %p = matmul(%x, %w)\n  %y = softmax(%p)\n  %z = cumsum(%y)\n"
                  "  %q = softmax(%z)\n  return %q\n"),
        "m.cugrt");
    REQUIRE(module.ok());
    for (const bool narrow : {false, true}) {
      PlanningOptions options;
      options.planner.max_lanes = narrow;
      auto plan = plan_module(*module, "m.cugrt", options, nullptr);
      auto ops = ops_before_fusion(*module, "m.cugrt", options);
      REQUIRE((plan.ok() && ops.ok()));
      notes.operations.push_back(count_operations(*ops, *plan));
      notes.names.push_back(name_steps(*module, names, *plan));
      plans.push_back(std::move(*plan));
    }
    notes.multiprocessors = {56};
  }
  Result<PackNotes> read(const std::string &text) const { return read_notes(text, plans, 1); }

  std::vector<plan::Plan> plans;
  PackNotes notes;
};

std::string long_name(size_t bytes, const std::string &end) {
  return std::string(bytes - end.size(), 'x') + end;
}

} // namespace

TEST_CASE("names that a pack keeps are read as they were written, of each of two plans") {
  NamedPlans made({{3, "/block.0/MatMul"}, {4, "/block.0/So\u00e9"}, {6, "/block.0/So\u00e8"}});
  const std::string with = notes_text(made.notes);
  const auto read = made.read(with);
  REQUIRE(read.ok());
  CHECK(read->names == made.notes.names);
  CHECK(notes_text(*read) == with);
  const std::vector<StepName> steps{{"matmul", "/block.0/MatMul"},
                                    {"softmax", "/block.0/So\u00e9"},
                                    {"cumsum", ""},
                                    {"softmax", "/block.0/So\u00e8"}};
  CHECK(read->names == std::vector<PlanNames>{{steps}, {steps}});
  made.notes.names.clear();
  const std::string without = notes_text(made.notes);
  CHECK(with.find(without.substr(0, without.size() - 1) + ",\"names\":") == 0); // else as before
}

TEST_CASE("names of a pack take 40 bytes a step at most, of which ends are kept") {
  for (const std::string end : {"/layers.7/MatMul", "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9",
                                "\"\"\"\"\"\"\"\"", "\1\1\1\1\1\1\1\1", "\xff\xff\xff\xff"}) {
    std::map<uint32_t, std::string> names;
    for (uint32_t line = 3; line <= 6; ++line)
      names[line] = std::string(1, char('0' + line)) + long_name(300 * line, end);
    const NamedPlans made(names);
    CHECK(names_json(made.notes.names)["plans"].dump().size() <= kMostNameBytes * 8);
    const auto read = made.read(notes_text(made.notes));
    REQUIRE(read.ok());
    for (const StepName &step : read->names[1][0])
      if (end[0] == '/')
        CHECK((step.place[0] == '~' && step.place.ends_with(end)));
  }
}

TEST_CASE("names that are not those of a pack's plans are refused") {
  const NamedPlans made({{3, "/a/\u00e9"}, {4, "/a/b"}});
  const std::string written = notes_text(made.notes);
  const std::string names = R"({"ops":["matmul","softmax","cumsum"],"plans":[[)";
  const std::string steps = "[0,0,\"/a/\u00e9\",1,3,\"b\",2,0,\"\",1,0,\"\"]";
  CHECK(written.ends_with(names + steps + "],[" + steps + "]]}}"));
  static constexpr std::pair<const char *, const char *> kChanges[] = {
      {R"("names":{)", R"("names":7,"x":{)"},
      {R"({"ops":)", R"({"op":)"},
      {R"("plans":[[[0)", R"("plan":[[[0)"},
      {R"(["matmul","softmax","cumsum"])", R"("matmul")"},
      {R"("cumsum"])", R"(7])"},
      {R"("cumsum"])", R"(null])"},
      {R"(,"cumsum"])", R"(])"},
      {R"("plans":[[[0)", R"("plans":[[],[[0)"},
      {R"("plans":[[[0)", R"("plans":[[[],[0)"},
      {R"([0,0,")", R"([0,0,0,0,")"},
      {R"([0,0,")", R"([-1,0,")"},
      {R"([0,0,")", R"([0.5,0,")"},
      {R"([0,0,")", R"(["matmul",0,")"},
      {R"([0,0,")", R"([3,0,")"},
      {R"([0,0,")", R"([18446744073709551615,0,")"},
      {R"([0,0,")", R"([0,1,")"}, // of a place before, and there is none
      {R"([0,0,")", R"([0,-1,")"},
      {R"(,1,3,")", R"(,1,6,")"},
      {R"(,1,3,")", R"(,1,18446744073709551615,")"},
      {R"(,1,3,")", R"(,1,4,")"}, // half of a character
      {R"(,1,3,")", R"(,1,null,")"},
      {R"(3,"b")", R"(3,98)"},
      {R"(3,"b")", R"(3,null)"},
      {R"(3,"b")", "3,\"\xc3\""},
      {R"(3,"b")", R"(3,["b"])"},
  };
  for (const auto &[was, is] : kChanges) {
    const size_t at = written.find(was, written.find("\"names\""));
    INFO(was << " is " << is);
    REQUIRE(at != written.npos);
    const std::string changed = std::string(written).replace(at, std::strlen(was), is);
    CHECK(Json::accept(changed) != std::string_view(is).ends_with("\"\xc3\""));
    CHECK_FALSE(made.read(changed).ok());
  }
  const auto is_read = [&](const std::string &was, const std::string &is) {
    return made.read(std::string(written).replace(written.rfind(was), was.size(), is)).ok();
  };
  CHECK(is_read("\"b\"", '"' + long_name(509, "b") + '"'));
  CHECK_FALSE(is_read("\"b\"", '"' + long_name(510, "b") + '"'));
  CHECK(is_read("\"cumsum\"", '"' + long_name(64, "m") + '"'));
  CHECK_FALSE(is_read("\"cumsum\"", '"' + long_name(65, "m") + '"'));
}
