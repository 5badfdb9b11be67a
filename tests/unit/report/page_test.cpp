// Pages of plans: what a browser is given, and how steps are divided into layers that fold.
#include "ir/text/text.h"
#include "library/report/module_report.h"
#include "library/report/plan_report.h"
#include "tests/support/catch.h"

#include <nlohmann/json.hpp>

using namespace cugrt;
using namespace cugrt::runtime;
using Json = nlohmann::json;

namespace {

std::vector<StepLayer> layers(const std::string &kinds) {
  return find_layers(std::vector<uint32_t>(kinds.begin(), kinds.end()));
}

std::string page_of(const std::string &text, const std::string &name) {
  auto module = ir::parse_and_verify(text, name);
  REQUIRE(module.ok());
  PlanReportOptions options;
  options.format = CUGRT_REPORT_HTML;
  auto page = plan_report(*module, name, options);
  REQUIRE(page.ok());
  return *page;
}

/// What the page's script reads.
Json data_of(const std::string &page) {
  const std::string open = "<script id=\"plan\" type=\"application/json\">";
  const size_t begin = page.find(open) + open.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

/// `layers` times a product and what follows it, one after another.
std::string model(int layers) {
  std::string text = "cugrt 1\nfunc @main(%x: tensor<[4, 8], f32>, %w: tensor<[8, 8], f32>)"
                     " -> (tensor<[4, 8], f32>) attributes {num_inputs = 1} {\n";
  std::string last = "%x";
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    text += "  %m" + n + " = matmul(" + last + ", %w)\n  %s" + n + " = softmax(%m" + n +
            ") {axis = -1}\n";
    last = "%s" + n;
  }
  return text + "  return " + last + "\n}\n";
}

} // namespace

TEST_CASE("a sequence of steps is divided into the stretches that repeat") {
  CHECK(layers("") == std::vector<StepLayer>{});
  CHECK(layers("abc") == std::vector<StepLayer>{{0, 3, 1, 1}});
  CHECK(layers("xabcdabcdabcdyz") ==
        std::vector<StepLayer>{
            {0, 1, 1, 1}, {1, 4, 1, 3}, {5, 4, 2, 3}, {9, 4, 3, 3}, {13, 2, 1, 1}});
  // The shortest period: two layers of four, not one of eight; and what is left over is no layer.
  CHECK(layers("abcdabcdab") == std::vector<StepLayer>{{0, 4, 1, 2}, {4, 4, 2, 2}, {8, 2, 1, 1}});
  // Repeats beside a longer one are found as well.
  CHECK(layers("pqrspqrsabcdeabcdeabcde") ==
        std::vector<StepLayer>{
            {0, 4, 1, 2}, {4, 4, 2, 2}, {8, 5, 1, 3}, {13, 5, 2, 3}, {18, 5, 3, 3}});
  std::string distinct;
  for (int i = 0; i < 100; ++i)
    distinct += static_cast<char>(i + 1);
  CHECK(layers(distinct) == std::vector<StepLayer>{{0, 64, 1, 1}, {64, 36, 1, 1}});
}

TEST_CASE("layers cover every step once, whatever repeats") {
  for (uint32_t seed = 1; seed < 200; ++seed) {
    std::vector<uint32_t> kinds;
    for (uint32_t state = seed * 2654435761u, i = 0; i < seed * 3; ++i)
      kinds.push_back((state = state * 1664525u + 1013904223u) >> (30 - seed % 2));
    uint32_t next = 0;
    for (const StepLayer &layer : find_layers(kinds)) {
      REQUIRE(layer.first == next);
      REQUIRE(layer.count > 0);
      REQUIRE((layer.number >= 1 && layer.number <= layer.of));
      if (layer.number > 1) // as the one before
        for (uint32_t i = layer.first; i < layer.first + layer.count; ++i)
          REQUIRE(kinds[i] == kinds[i - layer.count]);
      next += layer.count;
    }
    REQUIRE(next == kinds.size());
  }
}

TEST_CASE("a page names every step with its line and what it came from") {
  const std::string page = page_of(model(3), "a<b>.cugrt");
  const Json data = data_of(page);
  CHECK(data["module"] == "a<b>.cugrt");
  CHECK(page.find("a<b>") == std::string::npos); // a text of the plan is none of the page's
  const Json &function = data["functions"][0];
  std::vector<std::string> values;
  for (const Json &value : function["steps"]["value"])
    values.push_back(data["strings"][value.get<size_t>()]);
  CHECK(values == std::vector<std::string>{"m0", "s0", "m1", "s1", "m2", "s2"});
  CHECK(function["steps"]["line"] == Json{3, 4, 5, 6, 7, 8});
  REQUIRE(function["regions"].size() == 1);
  CHECK(function["regions"][0]["edges"] == Json{0, 1, 1, 2, 2, 3, 3, 4, 4, 5});
  const Json &notes = function["notes"];
  REQUIRE(notes["text"].size() == notes["line"].size());
  bool found = false;
  for (size_t i = 0; i < notes["text"].size(); ++i)
    found |= notes["line"][i] == 4 &&
             data["strings"][notes["text"][i].get<size_t>()].get<std::string>().rfind("launch @",
                                                                                      0) == 0;
  CHECK(found);
  CHECK(page.find("http:") == std::string::npos);
  CHECK(page.find("https:") == std::string::npos);
}

TEST_CASE("the page of ten thousand steps weighs less than five megabytes") {
  const std::string page = page_of(model(5000), "long.cugrt");
  CHECK(page.size() < 5'000'000);
  const Json data = data_of(page);
  const Json &function = data["functions"][0];
  CHECK(function["steps"]["line"].size() == 10000);
  size_t covered = 0;
  for (const Json &region : function["regions"])
    for (const Json &layer : region["layers"])
      covered += layer[1].get<size_t>();
  CHECK(covered == 10000);
}
