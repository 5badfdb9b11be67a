// The driver layer over the emulated driver: what is special to it; the rest is in
// driver_cases.cpp.
#include "support/driver_under_test.h"
#include "support/must.h"

#include "device/driver/report.h"

#include <cstdlib>

using namespace cugrt;
using namespace cugrt::driver;
using cugrt::test::contains;
using cugrt::test::must;

const DriverLibrary &driver_under_test() {
  static std::unique_ptr<DriverLibrary> library = [] {
    setenv("CUGRT_EMULATOR", CUGRT_TEST_EMULATOR, 1);
    return must(open_driver({DriverKind::emulated, {}}));
  }();
  return *library;
}

TEST_CASE("the emulated driver fills the table and says what it is") {
  const DriverLibrary &library = driver_under_test();
  CHECK(library.emulated);
  CHECK(library.kind == DriverKind::emulated);
  CHECK(library.version == 13000);
  CHECK(contains(library.path, "libcugrt-emu.so"));
#define CUGRT_DRIVER_CALL(field, entry, since, need)                                               \
  CHECK((std::string("cu" #entry) +                                                                \
         (library.api.field || since > library.version ? "" : " is missing")) == "cu" #entry);
#include "device/driver/driver_api.def"
#undef CUGRT_DRIVER_CALL
  Capabilities c = library.capabilities();
  CHECK(missing_capabilities(c).empty());
  DriverReport described = must(report(library));
  CHECK(described.emulated);
  REQUIRE(described.devices.size() == 1);
  CHECK(described.devices[0].architecture == "sm_90");
  CHECK(described.devices[0].total_bytes > 0);
  // The emulated driver is one of 13.0 here, and the ids came with 13.1.
  CHECK(described.missing ==
        std::vector<std::string>{"ids of nodes in a profiler's report need CUDA 13.1"});
}

TEST_CASE("a program that loads the emulated driver as its system driver still sees what it is") {
  auto library = must(open_driver({DriverKind::path, CUGRT_TEST_EMULATOR}));
  CHECK(library->emulated);
  CHECK(library->kind == DriverKind::path);
}
