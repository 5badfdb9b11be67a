// Error names and descriptions, and the two calls that return them.
#include "emulator/driver/driver.h"

namespace cugrt::emulator::api {

namespace {

struct Row {
  const char *name;
  int code;
  const char *description;
};

constexpr Row kRows[] = {
#define ERROR(name, value, description) {#name, value, description},
#include "emulator/driver/errors.def"
#undef ERROR
};

const Row *find(int code) {
  for (const Row &row : kRows)
    if (row.code == code)
      return &row;
  return nullptr;
}

CUresult answer(CUresult error, const char **out, const char *(*get)(int)) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  // "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be returned and *pStr will
  // be set to the NULL address."
  *out = get(int(error));
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace

const char *error_name(int code) {
  const Row *row = find(code);
  return row ? row->name : nullptr;
}

const char *error_description(int code) {
  const Row *row = find(code);
  return row ? row->description : nullptr;
}

std::optional<int> find_error_code(std::string_view name) {
  for (const Row &row : kRows)
    if (row.name == name)
      return row.code;
  return std::nullopt;
}

ENTRY(cuGetErrorName, error, out) { return answer(error, out, error_name); }
ENTRY(cuGetErrorString, error, out) { return answer(error, out, error_description); }

} // namespace cugrt::emulator::api
