// Reads arbitrary bytes as a pack, as they are and with digests that agree; what is read writes
// back to the same bytes, and can be reported and made an executable.
#include "cugrt/cugrt.h"
#include "device/pack/pack.h"
#include "device/pack/pack_open.h"
#include "library/report/pack_report.h"

#include <cstdlib>

namespace {

void check(std::string bytes) {
  using namespace cugrt::runtime;
  auto file = std::make_shared<const std::string>(std::move(bytes));
  auto pack = read_pack(file, "input");
  if (!pack.ok())
    return;
  if (write_pack(pack->contents) != *file)
    std::abort();
  PlanReportOptions options;
  (void)pack_report(*pack, options).ok();
  options.format = CUGRT_REPORT_JSON;
  (void)pack_report(*pack, options).ok();
  for (int device : {75, 90, 120})
    for (bool only_ptx : {false, true})
      if (auto target = choose_target(*pack, device, only_ptx); target.ok())
        (void)make_executable(*pack, *target).ok();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string bytes(reinterpret_cast<const char *>(data), size);
  check(bytes);
  cugrt::runtime::reseal_pack(bytes);
  check(std::move(bytes));
  return 0;
}
