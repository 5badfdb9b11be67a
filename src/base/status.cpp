// Status: storage and rendering of errors.
#include "base/status.h"

#include <algorithm>
#include <iterator>

namespace cugrt {

const char *code_name(Code code) {
  static constexpr const char *kNames[] = {"ok",
                                           "invalid argument",
                                           "parse error",
                                           "verify error",
                                           "not found",
                                           "unsupported",
                                           "out of range",
                                           "out of host memory",
                                           "out of device memory",
                                           "i/o error",
                                           "compile error",
                                           "driver error",
                                           "device lost",
                                           "busy",
                                           "cancelled",
                                           "internal error"};
  static_assert(std::size(kNames) == static_cast<size_t>(Code::internal) + 1);
  const auto number = static_cast<size_t>(code);
  return number < std::size(kNames) ? kNames[number] : "unknown error";
}

static const std::string kEmpty;

/// Text with names of files or paths: writes characters that a terminal obeys as \xHH. Lines and
/// tabs belong to the message.
static std::string legible(std::string text) {
  const auto is_obeyed = [](unsigned char c) {
    return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
  };
  if (std::ranges::none_of(text, is_obeyed))
    return text;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string shown;
  for (const unsigned char c : text)
    if (is_obeyed(c))
      ((shown += "\\x") += kHex[c >> 4]) += kHex[c & 15];
    else
      shown += static_cast<char>(c);
  return shown;
}

Status Status::error(Code code, std::string message) {
  Status status;
  status.rep_ = std::make_unique<Rep>(Rep{code, legible(std::move(message)), {}, {}});
  return status;
}

const std::string &Status::message() const { return rep_ ? rep_->message : kEmpty; }
const std::string &Status::location() const { return rep_ ? rep_->location : kEmpty; }
const std::string &Status::cuda_error() const { return rep_ ? rep_->cuda_error : kEmpty; }

Status &&Status::at(std::string location) && {
  if (rep_ && rep_->location.empty())
    rep_->location = legible(std::move(location));
  return std::move(*this);
}

Status &&Status::with_cuda_error(std::string name) && {
  if (rep_)
    rep_->cuda_error = std::move(name);
  return std::move(*this);
}

Status &&Status::in(std::string_view context) && {
  if (rep_)
    rep_->message.insert(0, legible(std::string(context)) + ": ");
  return std::move(*this);
}

Status Status::clone() const {
  Status copy;
  if (rep_)
    copy.rep_ = std::make_unique<Rep>(*rep_);
  return copy;
}

std::string Status::to_string() const {
  if (ok())
    return "ok";
  std::string text;
  if (!rep_->location.empty())
    text += rep_->location + ": ";
  text += code_name(rep_->code);
  text += ": " + rep_->message;
  if (!rep_->cuda_error.empty())
    text += " (" + rep_->cuda_error + ")";
  return text;
}

} // namespace cugrt
