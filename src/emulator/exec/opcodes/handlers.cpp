// Chooses the build of the inner loops that this machine can run. CUGRT_EMU_ISA (v2, v3, v4) lowers
// the choice, so that tests compare the builds.
#include "emulator/exec/opcodes/handlers.h"

#if defined(CUGRT_EMU_X86_BUILDS)
#include "emulator/exec/machine_level.h"
#endif

#include <cstdlib>
#include <cstring>

namespace cugrt::emulator {

#if defined(CUGRT_EMU_X86_BUILDS)
namespace isa_v2 {
void fill(HandlerTable &table, HandlerTable &branches);
}
namespace isa_v3 {
void fill(HandlerTable &table, HandlerTable &branches);
}
namespace isa_v4 {
void fill(HandlerTable &table, HandlerTable &branches);
}
#else
namespace baseline {
void fill(HandlerTable &table, HandlerTable &branches);
}
#endif

namespace {

struct Choice {
  HandlerTable table{}, branches{};
  const char *name = "baseline";

  Choice() {
#if defined(CUGRT_EMU_X86_BUILDS)
    int level = machine_level();
    if (const char *wanted = std::getenv("CUGRT_EMU_ISA"))
      level = !std::strcmp(wanted, "v2") ? 2 : !std::strcmp(wanted, "v3") && level >= 3 ? 3 : level;
    name = level == 4 ? "v4" : level == 3 ? "v3" : "v2";
    (level == 4 ? isa_v4::fill : level == 3 ? isa_v3::fill : isa_v2::fill)(table, branches);
#else
    baseline::fill(table, branches);
#endif
    fill_atomics(table);
    fill_async_copies(table);
    fill_barriers(table);
    fill_clusters(table);
    fill_matrix(table);
    fill_tiles(table);
    fill_control(table);
    fill_warp_ops(table);
  }
};

const Choice &choice() {
  static const Choice instance;
  return instance;
}

} // namespace

const HandlerTable &handlers() { return choice().table; }
const HandlerTable &branch_handlers() { return choice().branches; }
const char *handler_isa() { return choice().name; }

} // namespace cugrt::emulator
