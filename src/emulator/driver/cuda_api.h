// cuda.h with every ABI of every function declared, so that definitions are checked against
// NVIDIA's own prototypes: the toolkit's internal macro turns the renaming macros off (cuMemAlloc
// is then the CUDA 2 function, cuMemAlloc_v2 today's). Declarations have default visibility, and so
// do the definitions that follow them; everything else in the library is hidden.
//
// Functions of this layer return CUresult, as the API does; CUGRT_EMU_TRY passes errors up.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include "emulator/driver/cuda_emulator.h"
#include "emulator/driver/cuda_newer.h"
#pragma GCC visibility pop

#include <optional>
#include <string_view>
#include <type_traits>

namespace cugrt::emulator::api {

// Names and descriptions of CUresult codes (errors.def).

/// nullptr for a value that is no CUresult.
const char *error_name(int code);
const char *error_description(int code);
std::optional<int> find_error_code(std::string_view name);

} // namespace cugrt::emulator::api

#define CUGRT_EMU_TRY(expression)                                                                  \
  do {                                                                                             \
    if (CUresult try_result_ = (expression); try_result_ != CUDA_SUCCESS)                          \
      return try_result_;                                                                          \
  } while (false)

/// Writes an answer where the caller has a place for it.
template <class T> CUresult give(T *out, const std::type_identity_t<T> &value) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  *out = value;
  return CUDA_SUCCESS;
}

/// Declares the Ref<type> `name`, which function(arguments..., &name) gives, or returns its error.
#define CUGRT_EMU_FIND(type, name, function, ...)                                                  \
  Ref<type> name;                                                                                  \
  CUGRT_EMU_TRY(function(__VA_ARGS__, &name))

/// Declares the Ref<type> `name`, which was looked up, or returns the error where there is none.
#define CUGRT_EMU_NEED(type, name, found, error)                                                   \
  Ref<type> name = (found);                                                                        \
  CUGRT_EMU_TRY(name ? CUDA_SUCCESS : error)
