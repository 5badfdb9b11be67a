// Status: storage and rendering of errors.
#include "base/status.h"

#include <algorithm>

namespace cugrt {

const char *code_name(Code code) {
  switch (code) {
  case Code::ok:
    return "ok";
  case Code::invalid_argument:
    return "invalid argument";
  case Code::parse_error:
    return "parse error";
  case Code::verify_error:
    return "verify error";
  case Code::not_found:
    return "not found";
  case Code::unsupported:
    return "unsupported";
  case Code::out_of_range:
    return "out of range";
  case Code::out_of_host_memory:
    return "out of host memory";
  case Code::out_of_device_memory:
    return "out of device memory";
  case Code::io_error:
    return "i/o error";
  case Code::compile_error:
    return "compile error";
  case Code::driver_error:
    return "driver error";
  case Code::device_lost:
    return "device lost";
  case Code::busy:
    return "busy";
  case Code::cancelled:
    return "cancelled";
  case Code::internal:
    return "internal error";
  }
  return "unknown error";
}

static const std::string kEmpty;

/// Text with names that files or paths bring: what a terminal obeys stands as \xHH. Lines and tabs
/// are the message's own.
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
