// Makes the nth allocation of the calling thread fail. Replaces the global operator new of the test
// program, which libcugrt.so uses, too, since it is an ordinary dynamic symbol there.
#pragma once

#include <cstdint>

namespace cugrt::test {

/// The nth allocation from now on this thread (1: the next) throws std::bad_alloc, once; 0 cancels.
void fail_allocation(uint64_t nth);
/// Whether the failure has happened since fail_allocation.
bool allocation_failed();
/// Allocations of this thread since fail_allocation.
uint64_t allocations();

} // namespace cugrt::test
