// What an entry point without implementation answers.
#pragma once

namespace cugrt::emulator::api {

/// Counts the call, notes its name as the last message, returns CUDA_ERROR_NOT_SUPPORTED.
int unsupported_call(const char *symbol);

} // namespace cugrt::emulator::api
