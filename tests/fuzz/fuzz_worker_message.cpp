// Reads arbitrary bytes as each message of a compiling process; what is read writes back the same.
#include "jit/worker_protocol.h"

#include <cstddef>
#include <cstdint>

using namespace cugrt;
using namespace cugrt::jit;

namespace {

void check(bool same) {
  if (!same)
    __builtin_trap();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  std::string_view bytes(reinterpret_cast<const char *>(data), size_bytes);
  if (auto open = decode_open(bytes); open.ok())
    check(encode(*open) == bytes);
  if (auto compile = decode_compile(bytes); compile.ok())
    check(encode(*compile) == bytes);
  if (auto opened = decode_opened(bytes); opened.ok())
    check(encode(*opened) == bytes);
  if (auto compiled = decode_compiled(bytes); compiled.ok())
    check(encode(*compiled) == bytes);
  if (Status failed = decode_failed(bytes); failed.code() != Code::parse_error)
    check(encode(failed) == bytes);
  return 0;
}
