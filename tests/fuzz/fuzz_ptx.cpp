// libFuzzer target: any bytes as PTX are loaded or refused, without a crash and without a leak of
// device memory. Built with -Dfuzz=true by clang.
#include "emulator/decode/program.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace cugrt::emulator;
  auto memory = AddressSpace::create(4u << 20);
  if (!memory.ok())
    return 0;
  {
    auto program = Program::load({reinterpret_cast<const char *>(data), size},
                                 *find_profile("sm_120"), **memory);
    if (!program.ok() && program.status().location().empty() && program.status().message().empty())
      std::abort();
  }
  if ((*memory)->live_allocations() != 0)
    std::abort();
  return 0;
}
