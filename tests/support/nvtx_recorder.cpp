// A profiler's library for NVTX, as NVTX_INJECTION64_PATH names one: writes down the names of
// ranges, indented by their depth.
#include <nvtx3/nvToolsExt.h>

#include <string>

namespace {

std::string g_log;
int g_depth;

int NVTX_API push(const char *name) {
  g_log.append(static_cast<size_t>(g_depth), ' ').append(name).append("\n");
  return g_depth++;
}

int NVTX_API pop() { return --g_depth; }

} // namespace

extern "C" __attribute__((visibility("default"))) int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto *callbacks =
      static_cast<const NvtxExportTableCallbacks *>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) ||
      size <= NVTX_CBID_CORE_RangePop)
    return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

extern "C" __attribute__((visibility("default"))) const char *nvtx_recorder_log() {
  return g_log.c_str();
}
