// Renders templates for chat_templates.py: a JSON object a line, of a template, its variables and
// the time, to an object of the text or the error.
#include "fronts/llm/jinja/template.h"
#include "fronts/llm/jinja_values/value.h"

#include <nlohmann/json.hpp>

#include <iostream>

using namespace cugrt;
using namespace cugrt::llm;

namespace {

Result<std::string> render(const nlohmann::json &asked) {
  CUGRT_ASSIGN(const jinja::Template made,
               jinja::Template::parse(asked["template"].get<std::string>()));
  CUGRT_ASSIGN(const jinja::Value values,
               jinja::value_of_json("variables", asked["variables"].get<std::string>()));
  std::vector<std::pair<std::string, jinja::Value>> variables;
  for (const auto &[name, value] : values.dict()->entries)
    variables.emplace_back(jinja::utf8_of(*name.text()), value);
  jinja::RenderOptions options;
  options.now = asked["now"].get<std::time_t>();
  CUGRT_ASSIGN(const jinja::Text text, made.render(std::move(variables), options));
  return jinja::utf8_of(text);
}

} // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = render(nlohmann::json::parse(line));
    nlohmann::json told;
    told[text.ok() ? "text" : "error"] = text.ok() ? *text : text.status().to_string();
    std::cout << told.dump() << '\n';
  }
}
