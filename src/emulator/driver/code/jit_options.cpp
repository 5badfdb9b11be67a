// Reading options and writing logs; see jit_options.h.
#include "emulator/driver/code/jit_options.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cugrt::emulator::api {

// Buffer sizes are passed in the option's value, cast to a pointer, and come back as bytes filled
// in.
CUresult read_options(unsigned count, CUjit_option *options, void **values, JitOptions *out) {
  if (count && (!options || !values))
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    switch (options[i]) {
    case CU_JIT_ERROR_LOG_BUFFER:
      out->error = static_cast<char *>(values[i]);
      break;
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
      out->error_bytes_out = &values[i];
      out->error_bytes = reinterpret_cast<uintptr_t>(values[i]) & UINT32_MAX;
      break;
    case CU_JIT_INFO_LOG_BUFFER:
      out->info = static_cast<char *>(values[i]);
      break;
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      out->info_bytes_out = &values[i];
      out->info_bytes = reinterpret_cast<uintptr_t>(values[i]) & UINT32_MAX;
      break;
    case CU_JIT_MAX_REGISTERS:
      out->max_registers = uint32_t(reinterpret_cast<uintptr_t>(values[i]));
      break;
    case CU_JIT_WALL_TIME: { // a float, in milliseconds: nothing here predicts a time
      float none = 0;
      std::memcpy(&values[i], &none, sizeof none);
      break;
    }
    default:
      if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS)
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

static void write_log(char *buffer, size_t bytes, void **bytes_out, const std::string &text) {
  size_t length = buffer && bytes ? std::min(text.size(), bytes - 1) : 0;
  if (buffer && bytes) {
    std::memcpy(buffer, text.data(), length);
    buffer[length] = 0;
  }
  if (bytes_out)
    *bytes_out = reinterpret_cast<void *>(uintptr_t(length));
}

void write_logs(const JitOptions &logs, const std::string &error) {
  write_log(logs.error, logs.error_bytes, logs.error_bytes_out, error);
  write_log(logs.info, logs.info_bytes, logs.info_bytes_out, {});
}

} // namespace cugrt::emulator::api
