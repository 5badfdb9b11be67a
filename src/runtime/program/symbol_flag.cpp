// The word and what is said of it; see symbol_flag.h.
#include "runtime/symbol_flag.h"

#include "runtime/executable.h"

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

Status out_of_bounds(const Executable &executable, uint32_t number) {
  const plan::Plan &plan = executable.plan();
  uint64_t symbol = uint64_t(number) - 1;
  for (const plan::Function &function : plan.functions) {
    if (symbol >= function.symbols.size()) {
      symbol -= function.symbols.size();
      continue;
    }
    const plan::Symbol &row = function.symbols[symbol];
    return Status::error(Code::out_of_range,
                         "device symbol " + row.name + " of function @" + function.name +
                             " was out of its bounds, " + std::to_string(row.bounds.lower) +
                             " to " + std::to_string(row.bounds.upper) +
                             ", in an earlier run, which went on with the nearest of them")
        .at(executable.location(definition_of(plan, function, {uint32_t(symbol)})));
  }
  return Status::error(Code::out_of_range, "a kernel of an earlier run said that device symbol "
                                           "number " +
                                               std::to_string(number) +
                                               " was out of its bounds; there is none");
}

} // namespace cugrt::runtime
