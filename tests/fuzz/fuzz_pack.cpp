// Reads arbitrary bytes as a pack, as they are and with digests that agree; what is read writes
// back to the same bytes, and can be reported and made an executable.
#include "pack_check.h"
#include "support/reseal_pack.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string bytes(reinterpret_cast<const char *>(data), size);
  cugrt::test::check_pack(bytes);
  cugrt::test::reseal_pack(bytes);
  cugrt::test::check_pack(std::move(bytes));
  return 0;
}
