// Located diagnostics: the parser and the verifier report all errors of a text in one run.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt {

/// A place in a module's text. Lines and columns count from 1, columns in bytes; line 0: no place.
struct SourceLocation {
  uint32_t line = 0, column = 0;
  bool known() const { return line != 0; }
  friend bool operator==(const SourceLocation &, const SourceLocation &) = default;
};

struct Diagnostic {
  SourceLocation location;
  std::string message;
};

/// Collects diagnostics of one source text, at most kLimit of them (a hostile file has no more to
/// say); after that only the count grows.
class Diagnostics {
public:
  static constexpr size_t kLimit = 64;

  void error(SourceLocation location, std::string message);
  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  const std::vector<Diagnostic> &list() const { return list_; }

  /// "file:line:column: error: message", the source line and a caret for each diagnostic.
  std::string render(std::string_view file, std::string_view source) const;
  /// A status whose message is render()'s text; ok when empty.
  Status to_status(Code code, std::string_view file, std::string_view source) const;

private:
  std::vector<Diagnostic> list_;
  size_t count_ = 0;
};

/// An error with the location "line:column", rendered as a diagnostic: the location becomes
/// "file:line:column", the message "error: message" with the source line and a caret, if `source`
/// has that line. Other errors get the file's name before the message.
Status in_source(Status status, std::string_view file, std::string_view source);

} // namespace cugrt
