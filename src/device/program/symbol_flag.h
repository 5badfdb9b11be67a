// What kernels say of device symbols that are out of their bounds (checked_symbol parameters): a
// word of host memory that they leave the symbol's number in, and that the host looks at before it
// runs again.
//
// A kernel whose blocks wait for one another leaves that it gave up there too: the number of a
// symbol that is read in what they wait by, with the highest bit set.
//
// Numbers count the symbols of all functions of an executable, in their order, from 1 on; 0 is that
// nothing was out of its bounds. The word is written by kernels while the host reads it: of several
// symbols the last one is told.
#pragma once

#include "device/driver/memory.h"

namespace cugrt::runtime {

class Executable;

class SymbolFlag {
public:
  /// One that is never raised.
  SymbolFlag() = default;
  static Result<SymbolFlag> allocate(const driver::Context &context);

  /// 0: there is none.
  uint64_t address() const { return address_; }
  bool raised() const { return *word_ != 0; }
  /// The number that was left, which is forgotten; 0: none.
  uint32_t take();

private:
  static constexpr uint32_t kNever = 0;
  driver::PinnedBuffer memory_; // a word, or nothing
  const volatile uint32_t *word_ = &kNever;
  uint64_t address_ = 0;
};
} // namespace cugrt::runtime
