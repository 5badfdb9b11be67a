// Jinja templates, as models' files have them for conversations: the parts of the language that
// transformers' apply_chat_template gives to a template, with its settings (trim_blocks,
// lstrip_blocks, loop controls, an immutable sandbox, tojson as json.dumps). A template is not
// trusted: it reaches nothing but its variables, and is held to limits.
#pragma once

#include "fronts/llm/jinja_values/machine.h"

#include <ctime>

namespace cugrt::llm::jinja {

struct RenderOptions {
  Limits limits{};
  std::time_t now = 0; // of strftime_now; 0: the clock's
};

struct Statement;

/// Parsed once; immutable.
class Template {
public:
  /// Errors have "chat template line N" as their location, and quote the text there.
  static Result<Template> parse(std::string_view source);
  Template(Template &&) noexcept;
  Template &operator=(Template &&) noexcept;
  ~Template();

  /// Renders the template with these variables, whose characters keep their marks. A template's
  /// raise_exception becomes Code::invalid_argument with the template's words.
  Result<Text> render(std::vector<std::pair<std::string, Value>> variables,
                      const RenderOptions &options = {}) const;

private:
  explicit Template(std::vector<Statement> body);
  std::vector<Statement> body_;
};

} // namespace cugrt::llm::jinja
