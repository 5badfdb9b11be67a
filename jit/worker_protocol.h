// Messages between a compiling process and its client.
//
// A message is a size in four little-endian bytes and that many bytes: first its kind, then fields,
// each a number of four bytes or a string (size, bytes). The client speaks first and each message
// has one answer:
//
//   open     protocol, library, include folder, found by   ->  opened   major, minor, headers
//   compile  a request and its target                      ->  compiled bytes, ptx, log
//   anything                                               ->  failed   code, message, location
//
// Both ends read what the other wrote as data that may be malformed: sizes are bounded before
// anything is allocated, and a message must be read to its end exactly.
#pragma once

#include "jit/compiler.h"
#include "jit/nvrtc.h"

namespace cugrt::jit {

inline constexpr uint32_t kWorkerProtocol = 2;
inline constexpr uint32_t kMaxMessageBytes = uint32_t(512) << 20;

enum class MessageKind : uint8_t { open = 1, compile, opened, compiled, failed };

struct OpenMessage {
  uint32_t protocol = kWorkerProtocol;
  NvrtcLocation location;
};

struct CompileMessage {
  CompileRequest request;
  std::string target;
};

std::string encode(const OpenMessage &message);
std::string encode(const CompileMessage &message);
std::string encode(const CompilerIdentity &opened);
std::string encode(const CompileResult &compiled);
std::string encode(const Status &failed);

/// The kind of a message without its size; nothing for an unknown one.
std::optional<MessageKind> kind_of(std::string_view message);

/// Each reads a message of its kind; parse_error for anything else.
Result<OpenMessage> decode_open(std::string_view message);
Result<CompileMessage> decode_compile(std::string_view message);
Result<CompilerIdentity> decode_opened(std::string_view message);
Result<CompileResult> decode_compiled(std::string_view message);
/// The error that a `failed` message holds, or parse_error.
Status decode_failed(std::string_view message);

} // namespace cugrt::jit
