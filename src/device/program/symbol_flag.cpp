// The word that kernels write, and its error; see symbol_flag.h.
#include "device/program/symbol_flag.h"

#include <atomic>

namespace cugrt::runtime {

Result<SymbolFlag> SymbolFlag::allocate(const driver::Context &context) {
  SymbolFlag flag;
  auto make = [&]() -> Status {
    CUGRT_ASSIGN(flag.memory_, driver::PinnedBuffer::allocate(context, sizeof(uint32_t)));
    CUGRT_ASSIGN(flag.address_, flag.memory_.device_address(context));
    return {};
  };
  if (Status status = make(); !status.ok())
    return std::move(status).in("word for device symbols that are out of their bounds");
  auto *word = static_cast<uint32_t *>(flag.memory_.data());
  *word = 0;
  flag.word_ = word;
  return flag;
}

uint32_t SymbolFlag::take() {
  if (!memory_)
    return 0;
  std::atomic_ref word(*static_cast<uint32_t *>(memory_.data()));
  return word.exchange(0, std::memory_order_relaxed);
}

} // namespace cugrt::runtime
