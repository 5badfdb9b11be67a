// Kernels report device symbols that are out of their bounds (checked_symbol parameters): they
// write the symbol's number to a word of host memory, which the host reads before it runs
// again.
//
// A kernel whose blocks wait for one another also reports there that it gave up: it writes the
// number of a symbol that those blocks read, with the highest bit set.
//
// Numbers count the symbols of all functions of an executable, in their order, from 1 on; 0:
// nothing was out of its bounds. The word is written by kernels while the host reads it: the last
// one of several symbols stays.
#pragma once

#include "device/driver/memory.h"

namespace cugrt::runtime {

class Executable;

class SymbolFlag {
public:
  /// Makes a flag that is never raised.
  SymbolFlag() = default;
  static Result<SymbolFlag> allocate(const driver::Context &context);

  /// The word's address on the device; 0: none.
  uint64_t address() const { return address_; }
  bool raised() const { return *word_ != 0; }
  /// Returns and forgets the number in the word; 0: none.
  uint32_t take();

private:
  static constexpr uint32_t kNever = 0;
  driver::PinnedBuffer memory_; // a word, or nothing
  const volatile uint32_t *word_ = &kNever;
  uint64_t address_ = 0;
};
} // namespace cugrt::runtime
