// CUPTI's activity API through dlopen; see cupti.h.
//
// Of its records this knows where the fields are that it reads: the same in CUPTI 12.6 to 13.5, as
// cupti_activity.h has them (CUpti_ActivityKernel9 to 13, Memcpy5 to 7, Memset4 and 5); later ones
// have more at the end.
#include "cupti.h"

#include "tool.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace tool {

using Buffer = uint8_t *;

struct CuptiLibrary {
  int (*version)(uint32_t *version) = nullptr;
  int (*result_string)(int result, const char **text) = nullptr;
  int (*register_callbacks)(void (*request)(Buffer *, size_t *bytes, size_t *most),
                            void (*complete)(void *context, uint32_t stream, Buffer, size_t bytes,
                                             size_t valid)) = nullptr;
  int (*enable)(uint32_t kind) = nullptr;
  int (*disable)(uint32_t kind) = nullptr;
  int (*flush)(uint32_t flags) = nullptr;
  int (*next_record)(Buffer, size_t valid, Buffer *record) = nullptr;
  int (*dropped)(void *context, uint32_t stream, size_t *count) = nullptr;
};

namespace {

constexpr int kSuccess = 0;
constexpr uint32_t kLeastVersion = 24, kSourceVersion = 130400;
constexpr size_t kBufferBytes = size_t(1) << 20, kAlignment = 8;

/// The kinds of activities, and where their records have what.
struct Layout {
  uint32_t kind, launch, name, node, source; // name 0: none
};
constexpr uint32_t kBegin = 16, kEnd = 24; // of all of them
constexpr Layout kLayouts[] = {{1, 44, 0, 64, 104}, {2, 44, 0, 64, 96}, {10, 92, 104, 144, 240}};

std::mutex collected_mutex; // CUPTI calls back on a thread of its own, too
std::vector<Activity> collected;
const CuptiLibrary *opened = nullptr;
bool has_source_ids = false;

template <class T> T field(const uint8_t *record, uint32_t offset) {
  T value;
  std::memcpy(&value, record + offset, sizeof value);
  return value;
}

void collect(const uint8_t *record) {
  const auto kind = field<uint32_t>(record, 0);
  for (const Layout &layout : kLayouts) {
    if (layout.kind != kind || field<uint64_t>(record, layout.node) == 0)
      continue; // or no node of a graph
    Activity activity;
    activity.node_id = field<uint64_t>(record, has_source_ids ? layout.source : layout.node);
    activity.launch = field<uint32_t>(record, layout.launch);
    if (layout.name != 0)
      if (const char *name = field<const char *>(record, layout.name))
        activity.kernel = name;
    activity.begin_ns = field<int64_t>(record, kBegin);
    activity.end_ns = field<int64_t>(record, kEnd);
    std::lock_guard lock(collected_mutex);
    collected.push_back(std::move(activity));
  }
}

void request_buffer(Buffer *buffer, size_t *bytes, size_t *most) {
  *buffer = static_cast<Buffer>(std::aligned_alloc(kAlignment, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0;
  *most = 0;
}

void complete_buffer(void *, uint32_t, Buffer buffer, size_t, size_t valid) {
  for (Buffer record = nullptr; opened->next_record(buffer, valid, &record) == kSuccess;)
    collect(record);
  std::free(buffer);
}

bool find(CuptiLibrary &library, void *handle) {
  auto entry = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    return function != nullptr;
  };
  return entry(library.version, "cuptiGetVersion") &&
         entry(library.result_string, "cuptiGetResultString") &&
         entry(library.register_callbacks, "cuptiActivityRegisterCallbacks") &&
         entry(library.enable, "cuptiActivityEnable") &&
         entry(library.disable, "cuptiActivityDisable") &&
         entry(library.flush, "cuptiActivityFlushAll") &&
         entry(library.next_record, "cuptiActivityGetNextRecord") &&
         entry(library.dropped, "cuptiActivityGetNumDroppedRecords");
}

void *open_library(bool emulated, std::string &reason) {
  const char *named = std::getenv("CUGRT_CUPTI");
  if (named && std::strcmp(named, "off") == 0) {
    reason = "CUGRT_CUPTI is off";
    return nullptr;
  }
  if (named && *named) {
    void *handle = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      reason = std::string("CUGRT_CUPTI: ") + dlerror();
    return handle;
  }
  if (emulated) // the library that is the driver, and open
    return dlopen("libcugrt-emu.so", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  const char *home = std::getenv("CUDA_HOME");
  const std::string toolkit = home && *home ? home : "/usr/local/cuda";
  const std::string paths[] = {"libcupti.so.13", "libcupti.so.12",
                               toolkit + "/extras/CUPTI/lib64/libcupti.so",
                               toolkit + "/lib64/libcupti.so"};
  for (const std::string &path : paths)
    if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      return handle;
  reason = "there is no libcupti.so.13 or .12; the wheel nvidia-cuda-cupti has one for CUGRT_CUPTI";
  return nullptr;
}

} // namespace

std::unique_ptr<Cupti> Cupti::open(bool emulated, std::string &reason) {
  static CuptiLibrary library;
  void *handle = open_library(emulated, reason);
  if (!handle)
    return nullptr;
  uint32_t version = 0;
  if (!find(library, handle) || library.version(&version) != kSuccess || version < kLeastVersion) {
    reason = "CUPTI is older than CUDA 12.6's";
    dlclose(handle);
    return nullptr;
  }
  opened = &library; // for good: CUPTI may call back until the process ends
  has_source_ids = version >= kSourceVersion;
  std::unique_ptr<Cupti> cupti(new Cupti(library, version));
  int result = library.register_callbacks(request_buffer, complete_buffer);
  for (const Layout &layout : kLayouts)
    if (result == kSuccess)
      result = library.enable(layout.kind);
  if (result == kSuccess)
    return cupti;
  try {
    cupti->require(result, "cuptiActivityEnable");
  } catch (const UserError &error) {
    reason = error.what();
  }
  return nullptr;
}

// 24 is CUDA 12.6's, 26 12.8's; 130400 that of 13.4.
Cupti::Cupti(const CuptiLibrary &library, uint32_t version)
    : library_(library), name_(version < 130000 ? "CUPTI 12"
                                                : "CUPTI " + std::to_string(version / 10000) + "." +
                                                      std::to_string(version / 100 % 100)) {}

Cupti::~Cupti() {
  for (const Layout &layout : kLayouts)
    library_.disable(layout.kind);
  library_.flush(0);
  std::lock_guard lock(collected_mutex);
  collected.clear();
}

void Cupti::require(int result, const char *call) const {
  if (result == kSuccess)
    return;
  const char *text = nullptr;
  library_.result_string(result, &text);
  throw UserError(std::string(call) + ": " + (text ? text : std::to_string(result)) +
                  "; CUGRT_CUPTI=off times nodes by events");
}

std::vector<Activity> Cupti::take() {
  require(library_.flush(0), "cuptiActivityFlushAll");
  size_t lost = 0;
  if (library_.dropped(nullptr, 0, &lost) == kSuccess && lost > 0)
    throw UserError(name_ + " lost " + std::to_string(lost) +
                    " records; CUGRT_CUPTI=off times nodes by events");
  std::vector<Activity> taken;
  {
    std::lock_guard lock(collected_mutex);
    taken.swap(collected);
  }
  std::stable_sort(taken.begin(), taken.end(),
                   [](const Activity &a, const Activity &b) { return a.begin_ns < b.begin_ns; });
  return taken;
}

} // namespace tool
