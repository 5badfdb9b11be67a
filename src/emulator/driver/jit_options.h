// JIT options of modules and of links. Only the logs have an effect: the text of an error, and the
// bytes that were filled in, are written back.
#pragma once

#include "emulator/driver/cuda_api.h"

#include <string>

namespace cugrt::emulator::api {

/// Points into the caller's buffers and option values.
struct JitLogs {
  char *error = nullptr, *info = nullptr;
  size_t error_bytes = 0, info_bytes = 0;
  void **error_bytes_out = nullptr, **info_bytes_out = nullptr;
};

/// INVALID_VALUE for an option that CUDA does not know.
CUresult read_options(unsigned count, CUjit_option *options, void **values, JitLogs *logs);
/// Both logs: the text, cut to the buffer, and how much of it is there. The info log stays empty.
void write_logs(const JitLogs &logs, const std::string &error);

} // namespace cugrt::emulator::api
