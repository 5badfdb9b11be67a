// Declarations of NVIDIA's cupti_activity.h that the emulated CUPTI has: the records of CUPTI 13.4,
// of which those of earlier releases (seen from 12.6 on) are the beginnings. Toolkits for compiling
// programs do not always bring that header.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

enum CUptiResult {
  CUPTI_SUCCESS = 0,
  CUPTI_ERROR_INVALID_PARAMETER = 1,
  CUPTI_ERROR_OUT_OF_MEMORY = 8,
  CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
  CUPTI_ERROR_NOT_INITIALIZED = 15,
  CUPTI_ERROR_INVALID_KIND = 21,
  CUPTI_ERROR_UNKNOWN = 999,
};

enum CUpti_ActivityKind : uint32_t {
  CUPTI_ACTIVITY_KIND_MEMCPY = 1,
  CUPTI_ACTIVITY_KIND_MEMSET = 2,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
};

/// The begin of all records.
struct CUpti_Activity {
  CUpti_ActivityKind kind;
};

#define CUPTI_RECORD __attribute__((packed, aligned(8)))
/// Fields that the emulated device has nothing to say of are 0; runs of them are arrays here.
struct CUPTI_RECORD CUpti_ActivityKernel13 {
  CUpti_ActivityKind kind;
  uint32_t unset0[3];             // caches and registers
  uint64_t start, end, completed; // ns
  uint32_t unset1[13];            // device, context, stream, grid, block, memory
  uint32_t correlationId;         // of all that one call launched
  uint32_t gridId[2];
  const char *name;
  void *reserved0;
  uint64_t queued, submitted;
  uint32_t unset2[2]; // launch type and carveout
  uint64_t graphNodeId;
  uint32_t shmemLimitConfig, graphId;
  uint64_t unset3[9]; // windows, channels, clusters, priority
  uint32_t sourceGraphId, padding6;
  uint64_t sourceGraphNodeId;
};
struct CUPTI_RECORD CUpti_ActivityMemcpy7 {
  CUpti_ActivityKind kind;
  uint32_t kinds;
  uint64_t bytes, start, end;
  uint32_t unset0[3], correlationId, unset4[2];
  void *reserved0;
  uint64_t graphNodeId;
  uint32_t graphId, unset1[3];
  uint64_t copyCount;
  uint32_t sourceGraphId, pad3;
  uint64_t sourceGraphNodeId;
};
struct CUPTI_RECORD CUpti_ActivityMemset5 {
  CUpti_ActivityKind kind;
  uint32_t value;
  uint64_t bytes, start, end;
  uint32_t unset0[3], correlationId, unset4[2];
  void *reserved0;
  uint64_t graphNodeId;
  uint32_t graphId, unset1[3];
  uint32_t sourceGraphId, pad3;
  uint64_t sourceGraphNodeId;
};
static_assert(offsetof(CUpti_ActivityKernel13, start) == 16 &&
              offsetof(CUpti_ActivityKernel13, correlationId) == 92 &&
              offsetof(CUpti_ActivityKernel13, name) == 104 &&
              offsetof(CUpti_ActivityKernel13, graphNodeId) == 144 &&
              offsetof(CUpti_ActivityKernel13, sourceGraphNodeId) == 240);
static_assert(offsetof(CUpti_ActivityMemcpy7, start) == 16 &&
              offsetof(CUpti_ActivityMemcpy7, correlationId) == 44 &&
              offsetof(CUpti_ActivityMemcpy7, graphNodeId) == 64 &&
              offsetof(CUpti_ActivityMemcpy7, sourceGraphNodeId) == 104);
static_assert(offsetof(CUpti_ActivityMemset5, correlationId) == 44 &&
              offsetof(CUpti_ActivityMemset5, graphNodeId) == 64 &&
              offsetof(CUpti_ActivityMemset5, sourceGraphNodeId) == 96);
#undef CUPTI_RECORD

typedef void (*CUpti_BuffersCallbackRequestFunc)(uint8_t **buffer, size_t *bytes,
                                                 size_t *most_records);
/// The context is null, since CUDA 6.0: buffers are the process's.
typedef void (*CUpti_BuffersCallbackCompleteFunc)(void *context, uint32_t stream, uint8_t *buffer,
                                                  size_t bytes, size_t valid_bytes);

} // extern "C"
