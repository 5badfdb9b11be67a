// What tests through the public C++ API share: a runtime on the emulated driver, buffers of floats.
// Compile with CUGRT_TEST_EMULATOR, the emulated driver's path; the environment's CUGRT_TEST_DRIVER
// (`system` or a path) puts another driver in its place.
#pragma once

#include "support/catch.h"

#include <cugrt/cugrt.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace cugrt::test {

inline RuntimeOptions emulated_options() {
  RuntimeOptions options;
  const char *other = std::getenv("CUGRT_TEST_DRIVER");
  const bool system = other && std::string_view(other) == "system";
  options.driver = system ? CUGRT_DRIVER_SYSTEM : CUGRT_DRIVER_PATH;
  options.driver_path = system ? "" : other && *other ? other : CUGRT_TEST_EMULATOR;
  return options;
}

/// One runtime for a whole test program: compiled kernels stay in its memory cache.
inline Runtime &emulated_runtime() {
  static Runtime runtime(emulated_options());
  return runtime;
}

template <class T> Buffer upload(const std::vector<T> &values) {
  Buffer buffer(emulated_runtime(), values.size() * sizeof(T));
  copy_to_device(emulated_runtime(), buffer.address(), std::as_bytes(std::span(values)));
  return buffer;
}

template <class T> std::vector<T> download(uint64_t address, size_t count) {
  std::vector<T> values(count);
  copy_to_host(emulated_runtime(), std::as_writable_bytes(std::span(values)), address);
  return values;
}

/// Values in [-1, 1) with few mantissa bits, the same on every run.
inline std::vector<float> numbers(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float &value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int>(seed >> 20) - 2048) / 2048;
  }
  return values;
}

/// Whole numbers in [-8, 8), the same on every run: sums of their products are exact.
inline std::vector<float> whole_numbers(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float &value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int>(seed >> 28) - 8);
  }
  return values;
}

inline size_t elements(const cugrt_tensor &tensor) {
  size_t count = 1;
  for (uint32_t i = 0; i < tensor.rank; ++i)
    count *= static_cast<size_t>(tensor.dims[i]);
  return count;
}

inline void check_close(const std::vector<float> &actual, const std::vector<double> &expected,
                        double tolerance) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    INFO("element " << i);
    REQUIRE(std::fabs(actual[i] - expected[i]) <= tolerance * (1 + std::fabs(expected[i])));
  }
}

/// The error that `body` throws.
inline Error error_of(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error;
  }
  FAIL("no error was thrown");
  throw std::logic_error("unreachable");
}

inline bool mentions(const Error &error, const std::string &part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

} // namespace cugrt::test
