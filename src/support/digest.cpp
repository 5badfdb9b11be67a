// SHA-256 by LLVM's Support library.
#include "support/digest.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/SHA256.h"

#include <cstring>

namespace cugrt {

struct Digester::State {
  llvm::SHA256 sha;
};

Digester::Digester() : state_(new State) { state_->sha.init(); }
Digester::~Digester() { delete state_; }

Digester &Digester::field(std::string_view bytes) {
  field(static_cast<uint64_t>(bytes.size()));
  state_->sha.update(llvm::StringRef(bytes.data(), bytes.size()));
  return *this;
}

Digester &Digester::field(uint64_t value) {
  uint8_t raw[8];
  for (int i = 0; i < 8; ++i)
    raw[i] = static_cast<uint8_t>(value >> (8 * i));
  state_->sha.update(llvm::ArrayRef<uint8_t>(raw, sizeof raw));
  return *this;
}

Digest Digester::finish() {
  auto bytes = state_->sha.final(); // a StringRef in LLVM 14, an array from LLVM 15 on
  Digest digest;
  std::memcpy(digest.data(), bytes.data(), digest.size());
  return digest;
}

std::string hex(const Digest &digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : digest)
    (text += kDigits[byte >> 4]) += kDigits[byte & 15];
  return text;
}

} // namespace cugrt
