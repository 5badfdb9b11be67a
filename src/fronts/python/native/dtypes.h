// Data types by three names: the C ABI's, NumPy's and DLPack's.
#pragma once

#include "dlpack.h"

#include <cugrt/cugrt.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <string_view>

namespace cugrt::python {

namespace nb = nanobind;

/// Where a type is none of the others' kind it has no name there (block formats, half bytes).
struct Dtype {
  const char *name; // NumPy's, or that of docs/ir.md where NumPy has none
  uint8_t bytes;    // of an element; 0: elements share bytes
  DlDtype dl;
};

/// By cugrt_dtype; null for a number that is none.
const Dtype *dtype_of(int32_t dtype);
/// "float32"; "unknown" for a number that is none.
std::string dtype_name(int32_t dtype);
/// "f32", as modules have it.
const char *own_name(int32_t dtype);
/// -1 where there is no such type.
int32_t dtype_from_dl(DlDtype dl);
/// Of the buffer protocol's format ("f", "<i4", "?") and size of an element; -1 for what is none of
/// ours.
int32_t dtype_from_format(const char *format, int64_t item_bytes);
/// Of a name, NumPy's or this project's ("float32", "f32"); throws cugrt::Error for any other.
int32_t dtype_from_name(std::string_view name);
/// NumPy's dtype object, borrowed; bfloat16 is ml_dtypes'. Throws cugrt::Error where there is none.
PyObject *numpy_dtype(int32_t dtype);

/// The bytes of contiguous elements; throws cugrt::Error when they are more than can be counted.
uint64_t bytes_of(int32_t dtype, uint32_t rank, const int64_t *dims);
/// "float32[8, 64]".
std::string shape_text(uint32_t rank, const int64_t *dims);

} // namespace cugrt::python
