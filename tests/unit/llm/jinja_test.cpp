// Jinja templates: what Jinja itself makes of them, errors, limits, and the marks of text.
#include "fronts/llm/jinja/template.h"
#include "fronts/llm/jinja_values/value.h"
#include "support/catch.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

using namespace cugrt;
using namespace cugrt::llm;
using jinja::Text;

namespace {

const std::string kFolder = TEST_DATA_FOLDER "/chat_templates/";

using Variables = std::vector<std::pair<std::string, jinja::Value>>;

Variables variables_of(std::string_view json) {
  const auto values = jinja::value_of_json("variables", json);
  REQUIRE(values.ok());
  Variables variables;
  for (const auto &[name, value] : values->dict()->entries)
    variables.emplace_back(jinja::utf8_of(*name.text()), value);
  return variables;
}

Result<Text> render(std::string_view source, std::string_view json = "{}",
                    const jinja::RenderOptions &options = {}) {
  CUGRT_ASSIGN(const jinja::Template made, jinja::Template::parse(source));
  return made.render(variables_of(json), options);
}

/// The text, with '_' for each character that is not trusted.
std::string marks(std::string_view source) {
  const auto text =
      render(source, R"({"u": "<|im_end|>", "l": ["<a>", "<b>"], "d": {"<k>": "<v>"}})");
  REQUIRE(text.ok());
  std::string shown;
  for (char32_t c : *text)
    shown += jinja::is_trusted(c) ? static_cast<char>(c) : '_';
  return shown;
}

std::string error(std::string_view source, std::string_view json = "{}") {
  const auto made = render(source, json);
  REQUIRE(!made.ok());
  return (made.status().location().empty() ? "" : made.status().location() + ": ") +
         made.status().message();
}

/// The error of what takes more than it may, without its line.
std::string limit(std::string_view source) {
  const auto made = render(source);
  REQUIRE(!made.ok());
  CHECK(made.status().code() == Code::out_of_range);
  return made.status().message();
}

} // namespace

TEST_CASE("templates write what Jinja writes, and refuse what it refuses") {
  std::ifstream lines(kFolder + "expected.jsonl");
  std::string line;
  REQUIRE(std::getline(lines, line));
  const nlohmann::ordered_json first = nlohmann::ordered_json::parse(line);
  jinja::RenderOptions options;
  options.now = first["now"].get<std::time_t>();
  size_t count = 0;
  while (std::getline(lines, line)) {
    const nlohmann::ordered_json one = nlohmann::ordered_json::parse(line);
    std::string source = one["template"];
    INFO(source);
    if (source.ends_with(".jinja")) {
      std::ostringstream text;
      text << std::ifstream(kFolder + source).rdbuf();
      source = text.str();
    }
    const nlohmann::ordered_json &variables =
        one.contains("variables") ? one["variables"] : first["variables"];
    INFO(variables.dump());
    const auto made = render(source, variables.dump(), options);
    CHECK(made.ok() == one["text"].is_string());
    if (made.ok() && one["text"].is_string())
      CHECK(jinja::utf8_of(*made) == one["text"].get<std::string>());
    ++count;
  }
  CHECK(count > 500);
}

TEST_CASE("an error names the construct and its line") {
  CHECK(error("a\nb\n{{ 1 | xyz }}") == "chat template line 3: the filter 'xyz' is not known");
  CHECK(error("{{ 1 is xyz }}") == "chat template line 1: the test 'xyz' is not known");
  CHECK(error("\n{% xyz %}") == "chat template line 2: the tag 'xyz' is not known here");
  CHECK(error("{% include 'a' %}") == "chat template line 1: the tag 'include' is not supported");
  CHECK(error("{% for a in b recursive %}{% endfor %}") ==
        "chat template line 1: a loop that is 'recursive' is not supported");
  CHECK(error("{% if 1 %}\n\n") == "chat template line 1: the tag 'if' has no 'endif'");
  CHECK(error("\n{{ a") == "chat template line 2: a tag has no end '}}'");
  CHECK(error("{{ a b }}") == "chat template line 1: '}}' must stand where 'b' stands");
  CHECK(error("{{ a ! }}") == "chat template line 1: the character '!' cannot stand in a tag");
  CHECK(error("\n{{ messages[0].role }}") == "chat template line 2: 'messages' is undefined");
  CHECK(error("{{ 'a' + 1 }}") ==
        "chat template line 1: '+' does not go with values of types str and int");
  CHECK(error("{{ 'a'.split('') }}") ==
        "chat template line 1: split(): the text to split at is empty");
  CHECK(error("{% set m = [1] %}\n{{ m.append(2) }}") ==
        "chat template line 2: the method 'append' changes a list, which a template may not do");
  CHECK(error("{% macro m(a) %}\n{{ a.b.c }}{% endmacro %}{{ m({}) }}") ==
        "chat template line 2: 'dict object' has no attribute 'b'");
  CHECK(error("{{ raise_exception('Roles must take turns') }}") ==
        "chat template line 1: Roles must take turns");
}

TEST_CASE("what a caller brought in stays untrusted through all that a template does with it") {
  CHECK(marks("{{ u }}") == "__________");
  CHECK(marks("<|{{ u }}|>") == "<|__________|>");
  CHECK(marks("{{ '<' + u + '>' }}{{ '<' ~ u }}") == "<__________><__________");
  CHECK(marks("{{ (' ' ~ u ~ ' ') | trim }}{{ u.strip('<>') }}") == "__________________");
  CHECK(marks("{{ u | upper }}{{ u.title() }}{{ u | capitalize }}{{ u | title }}") ==
        std::string(40, '_'));
  CHECK(marks("{{ u.replace('im', 'x') }}{{ 'axb'.replace('x', u) }}") == "__x______a__________b");
  CHECK(marks("{{ 'axb' | replace('x', u) }}") == "a__________b");
  CHECK(marks("{{ u[2:4] }}{{ u[0] }}{{ u[::-1] }}{{ u | reverse }}") == std::string(23, '_'));
  CHECK(marks("{{ u.split('_') | join('|') }}{{ ', '.join(l) }}") == "____|________, ___");
  CHECK(marks("{{ u.partition('_') | join }}{{ u.splitlines()[0] }}") == std::string(20, '_'));
  CHECK(marks("{{ u | tojson }}{{ l | tojson }}{{ d | tojson }}") ==
        "\"__________\"[\"___\", \"___\"]{\"___\": \"___\"}");
  CHECK(marks("{{ ('<' ~ u) | tojson(true) }}") == "\"<__________\"");
  CHECK(marks("{{ l }}{{ d }}") == "['___', '___']{'___': '___'}");
  CHECK(marks("{{ '%s|%5s' % (u, 'a') }}{{ '<%s>' | format(u) }}") ==
        "__________|    a<__________>");
  CHECK(marks("{{ u | indent(2, true) }}{{ u | default('x') }}{{ u | string | safe }}") ==
        "  " + std::string(30, '_'));
  CHECK(marks("{% set x %}<{{ u }}>{% endset %}{{ x | trim }}{% filter upper %}a{{ u }}{% "
              "endfilter %}") == "<__________>A__________");
  CHECK(marks("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(u) }}{% for c in u %}{{ c }}.{% endfor "
              "%}") == "<__________>_._._._._._._._._._.");
  CHECK(marks("{% set n = namespace(t='') %}{% for c in u %}{% set n.t = n.t + c %}{% endfor %}{{ "
              "n.t }}") == "__________");
  CHECK(marks("{{ u * 2 }}{{ [u, 'a'] | sort | join }}{{ l | map('upper') | first }}") ==
        std::string(30, '_') + "a___");
  CHECK(marks("{{ d.keys() | list | first }}{{ d | dictsort | first | last }}{{ {u: 1} | list | "
              "last }}") == std::string(16, '_'));
  // What is compared is the text alone.
  CHECK(marks("{{ u == '<|im_end|>' }}{{ 'im' in u }}{{ d['<k>'] == '<v>' }}{{ u.startswith('<|') "
              "}}") == "TrueTrueTrueTrue");
}

TEST_CASE("a template that would take too much ends with one sentence", "[long]") {
  const std::string steps = "the chat template takes more steps than a template may";
  const std::string text = "the chat template takes more text than a template may";
  const std::string memory = "the chat template takes more memory than a template may";
  const std::string nested =
      "the chat template is nested too deeply, or calls itself without an end";
  CHECK(limit("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}") ==
        steps);
  CHECK(limit("{{ 'a' * 1000000000000 }}") == text);
  CHECK(limit("{{ [1] * 1000000000000 }}") == text);
  CHECK(limit("{% set n = namespace(t='a') %}{% for a in range(99) %}{% set n.t = n.t + n.t %}{% "
              "endfor %}") == memory);
  CHECK(limit("{% set n = namespace(t='a' * 1000) %}{{ (n.t | replace('a', n.t) | replace('a', "
              "n.t)) | length }}") == text);
  CHECK(limit("{% set n = namespace(l=[]) %}{% for a in range(99999) %}{% set n.l = n.l + ['a' * "
              "10000 ~ a] %}{% endfor %}") == memory);
  CHECK(limit("{% for a in range(90000) %}{{ 'a' * 100000 }}{% endfor %}") == text);
  CHECK(limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}") == nested);
  // 30 texts of a million characters that are written at the same time.
  CHECK(limit("{% macro m(n) %}{{ 'a' * 1000000 }}{% if n %}{% set x = m(n - 1) %}{% endif %}"
              "{% endmacro %}{% set x = m(30) %}") == memory);
  CHECK(limit("{% set n = namespace(l=[]) %}{% for a in range(999) %}{% set n.l = [n.l] %}{% "
              "endfor %}") ==
        "the chat template takes more lists within lists than a template may");
  CHECK(limit("{{ range(100001) }}") == "a range has at most 100000 numbers");
  CHECK(error("{{ '%999999d' % 1 }}") ==
        "chat template line 1: a width in a text to format is beyond 999");
  CHECK(limit("{{ 'a' | indent(4) }}{{ 'x'.zfill(999999999999) }}") == text);
  // Lists whose elements are shared, and texts that are hard to search.
  constexpr std::string_view kShared =
      "{% set n = namespace(l=[], m=[]) %}{% for a in range(90) %}{% set n.l = [n.l, n.l] %}"
      "{% set n.m = [n.m, n.m] %}{% endfor %}";
  for (const char *use :
       {"{{ n.l }}", "{{ n.l | tojson }}", "{{ n.l == n.m }}", "{{ n.l in [n.m] }}",
        "{{ n.l < n.m }}", "{{ [n.l, n.m] | unique | list }}", "{{ [n.l, n.m] | sort }}",
        "{{ [n.l, n.m] | max }}", "{{ [n.l].index(n.m) }}", "{{ n.l is sameas n.m }}"})
    CHECK(limit(std::string(kShared) + use).ends_with(" than a template may"));
  constexpr std::string_view kTexts = "{% set a = 'a' * 1000000 %}{% set b = 'a' * 500000 ~ 'b' %}";
  for (const char *use :
       {"{{ b in a }}", "{{ a.find(b) }}", "{{ a.rfind(b) }}", "{{ a.count(b) }}",
        "{{ a.split(b) }}", "{{ a.rsplit(b) }}", "{{ a.partition(b) }}", "{{ a.strip(b) }}",
        "{{ a | trim(b) }}", "{{ a.replace(b, '') }}", "{{ a | replace(b, '') }}"})
    CHECK(limit(std::string(kTexts) + use) == steps);
  const std::string deep(1000, '[');
  CHECK(error("{{ " + deep + std::string(1000, ']') + " }}") ==
        "chat template line 1: it is nested too deeply");
  CHECK(error("{{ " + std::string(100, '-') + "1 }}") ==
        "chat template line 1: it is nested too deeply");
  std::string sum = "1", tags;
  for (int i = 0; i < 1000; ++i) {
    sum += " + 1";
    tags += "{% if 1 %}";
  }
  CHECK(error("{{ " + sum + " }}") == "chat template line 1: an expression is nested too deeply");
  CHECK(error(tags) == "chat template line 1: it is nested too deeply");
  CHECK(limit(std::string(300000, 'a')) ==
        "the chat template has 300000 bytes; at most 262144 are read");
  CHECK(error("\xff") == "the chat template is not UTF-8 from byte 0 on");
  // Rings are freed: the sanitizers would tell.
  CHECK(render("{% set n = namespace() %}{% set n.n = n %}{% set n.m = [n] %}{% macro m() %}{% "
               "endmacro %}{% set n.f = m %}")
            .ok());
}

TEST_CASE("values are read from JSON, and what it cannot be is told with its place") {
  CHECK(jinja::utf8_of(*render(
            "{{ a }}", R"({"a": [1, -2.5e3, true, null, "\u00e4\ud83d\ude42", {"b": {}}]})")) ==
        "[1, -2500.0, True, None, 'ä🙂', {'b': {}}]");
  const auto wrong = [](std::string_view json) {
    return jinja::value_of_json("messages", json).status().message();
  };
  CHECK(wrong("[1,") == "messages: at byte 3: the text ends where a value must stand");
  CHECK(wrong("[1] 2") == "messages: at byte 4: something stands behind its end");
  CHECK(wrong("99999999999999999999") == "messages: at byte 0: a number is beyond 64 bits");
  CHECK(wrong(std::string(65, '[')) == "messages: at byte 64: it is nested too deeply");
}
