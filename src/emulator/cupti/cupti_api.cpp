// CUPTI of the emulated device: its activities of kernels, copies and fills, with the nodes of
// graphs that they belong to. Times are the host's. Buffers are asked for and handed back while
// cuptiActivityFlushAll is called, on its thread. Rules follow CUPTI's manual (activity API).
#include "emulator/cupti/cupti_types.h"

#include "emulator/driver/driver.h"

#include <cstring>

namespace cugrt::emulator::api {

namespace {

constexpr uint32_t kCupti12 = 24;        // the number of CUDA 12.6's
constexpr int kNumbersByVersion = 13000; // later ones say the version: 130400
constexpr int kSourceIds = 13040;        // records say what a node was made of

CUpti_BuffersCallbackRequestFunc request_buffer = nullptr;
CUpti_BuffersCallbackCompleteFunc complete_buffer = nullptr;
std::mutex flush_mutex; // of both, and of flushing

template <class Body> CUptiResult cupti_call(Body &&body) {
  try {
    return body(Driver::instance());
  } catch (const std::bad_alloc &) {
    return CUPTI_ERROR_OUT_OF_MEMORY;
  } catch (...) { // a broken invariant in the emulator
    return CUPTI_ERROR_UNKNOWN;
  }
}

bool is_told(CUpti_ActivityKind kind) {
  return kind == CUPTI_ACTIVITY_KIND_MEMCPY || kind == CUPTI_ACTIVITY_KIND_MEMSET ||
         kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
}

CUptiResult want(CUpti_ActivityKind kind, bool wanted) {
  return cupti_call([&](Driver &driver) {
    if (!is_told(kind))
      return CUPTI_ERROR_INVALID_KIND;
    driver.activities.want(ActivityKind(kind), wanted);
    return CUPTI_SUCCESS;
  });
}

size_t record_bytes(CUpti_ActivityKind kind) {
  switch (kind) {
  case CUPTI_ACTIVITY_KIND_MEMCPY:
    return sizeof(CUpti_ActivityMemcpy7);
  case CUPTI_ACTIVITY_KIND_MEMSET:
    return sizeof(CUpti_ActivityMemset5);
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    return sizeof(CUpti_ActivityKernel13);
  }
  return 0;
}

template <class Record> Record record_of(const Driver &driver, const Activity &activity) {
  Record record{};
  record.kind = CUpti_ActivityKind(activity.kind);
  record.start = activity.begin_ns, record.end = activity.end_ns;
  record.graphNodeId = activity.node.id, record.graphId = uint32_t(activity.node.id >> 32);
  record.correlationId = activity.node.launch;
  if (driver.config.driver_version >= kSourceIds) {
    record.sourceGraphNodeId = activity.node.source_id;
    record.sourceGraphId = uint32_t(activity.node.source_id >> 32);
  }
  return record;
}

void write(Driver &driver, const Activity &activity, uint8_t *to) {
  auto put = [&](const auto &record) { std::memcpy(to, &record, sizeof record); };
  switch (activity.kind) {
  case ActivityKind::copy:
    return put(record_of<CUpti_ActivityMemcpy7>(driver, activity));
  case ActivityKind::fill:
    return put(record_of<CUpti_ActivityMemset5>(driver, activity));
  case ActivityKind::kernel: {
    auto record = record_of<CUpti_ActivityKernel13>(driver, activity);
    record.name = driver.activities.name(activity.kernel);
    return put(record);
  }
  case ActivityKind::none:
    return;
  }
}

/// Fills as many of the program's buffers as the activities need; false: it gives none that holds
/// a record.
bool hand_over(Driver &driver, const std::vector<Activity> &activities) {
  for (size_t next = 0; next < activities.size();) {
    uint8_t *buffer = nullptr;
    size_t bytes = 0, most = 0, used = 0, records = 0;
    request_buffer(&buffer, &bytes, &most);
    while (buffer && next < activities.size() && (most == 0 || records < most)) {
      const size_t size = record_bytes(CUpti_ActivityKind(activities[next].kind));
      if (used + size > bytes)
        break;
      write(driver, activities[next++], buffer + used);
      used += size, ++records;
    }
    if (!buffer)
      return false;
    complete_buffer(nullptr, 0, buffer, bytes, used);
    if (records == 0)
      return false;
  }
  return true;
}

} // namespace

} // namespace cugrt::emulator::api

using namespace cugrt::emulator;
using namespace cugrt::emulator::api;

#pragma GCC visibility push(default)
extern "C" {

CUptiResult cuptiGetVersion(uint32_t *version) {
  return cupti_call([&](Driver &driver) {
    if (!version)
      return CUPTI_ERROR_INVALID_PARAMETER;
    const int driver_version = driver.config.driver_version;
    *version = driver_version >= kNumbersByVersion ? uint32_t(driver_version) * 10 : kCupti12;
    return CUPTI_SUCCESS;
  });
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text) {
  if (!text)
    return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
#define NAMED(name)                                                                                \
  case name:                                                                                       \
    *text = #name;                                                                                 \
    return CUPTI_SUCCESS
    NAMED(CUPTI_SUCCESS);
    NAMED(CUPTI_ERROR_INVALID_PARAMETER);
    NAMED(CUPTI_ERROR_OUT_OF_MEMORY);
    NAMED(CUPTI_ERROR_MAX_LIMIT_REACHED);
    NAMED(CUPTI_ERROR_NOT_INITIALIZED);
    NAMED(CUPTI_ERROR_INVALID_KIND);
    NAMED(CUPTI_ERROR_UNKNOWN);
#undef NAMED
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  if (!request || !complete)
    return CUPTI_ERROR_INVALID_PARAMETER;
  std::lock_guard lock(flush_mutex);
  request_buffer = request, complete_buffer = complete;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) { return want(kind, true); }
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) { return want(kind, false); }

// Hands over ended records, as CUPTI does without the flag for incomplete ones.
CUptiResult cuptiActivityFlushAll(uint32_t) {
  return cupti_call([&](Driver &driver) {
    std::lock_guard lock(flush_mutex);
    if (!request_buffer)
      return CUPTI_ERROR_INVALID_PARAMETER;
    return hand_over(driver, driver.activities.take()) ? CUPTI_SUCCESS
                                                       : CUPTI_ERROR_MAX_LIMIT_REACHED;
  });
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes,
                                       CUpti_Activity **record) {
  if (!buffer || !record)
    return CUPTI_ERROR_INVALID_PARAMETER;
  uint8_t *next =
      *record ? reinterpret_cast<uint8_t *>(*record) + record_bytes((*record)->kind) : buffer;
  if (next >= buffer + valid_bytes)
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity *>(next);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(void *, uint32_t, size_t *dropped) {
  return cupti_call([&](Driver &driver) {
    if (!dropped)
      return CUPTI_ERROR_INVALID_PARAMETER;
    *dropped = driver.activities.take_dropped();
    return CUPTI_SUCCESS;
  });
}

} // extern "C"
#pragma GCC visibility pop
