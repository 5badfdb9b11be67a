// JIT options of modules, libraries and links. Those have an effect that name logs (the text of an
// error, and the bytes that were filled in, are written back) and the most registers of a thread.
#pragma once

#include "emulator/driver/cuda_api.h"

#include <cstdint>
#include <string>

namespace cugrt::emulator::api {

/// The logs point into the caller's buffers and option values.
struct JitOptions {
  char *error = nullptr, *info = nullptr;
  size_t error_bytes = 0, info_bytes = 0;
  void **error_bytes_out = nullptr, **info_bytes_out = nullptr;
  uint32_t max_registers = 0; // of a thread; 0: not stated
};

/// INVALID_VALUE for an option that CUDA does not know.
CUresult read_options(unsigned count, CUjit_option *options, void **values, JitOptions *out);
/// Both logs: the text, cut to the buffer, and how much of it is there. The info log stays empty.
void write_logs(const JitOptions &logs, const std::string &error);

} // namespace cugrt::emulator::api
