// Data types by three names: the C ABI's, NumPy's and DLPack's.
#pragma once

#include "dlpack.h"

#include <cugrt/cugrt.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
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

// NumPy's arrays by the layout that its C ABI fixes (numpy/ndarraytypes.h: PyArrayObject_fields,
// and the first fields of PyArray_Descr, alike in NumPy 1 and 2). Read here, since a buffer of one
// costs ten times as much.

struct NumpyDescr {
  PyObject_HEAD PyTypeObject *type;
  char kind, letter, byte_order, flags;
  int number; // NPY_TYPES
};

struct NumpyArray {
  enum Flag : int { kContiguous = 0x1, kAligned = 0x100, kWritable = 0x400 };

  PyObject_HEAD char *data;
  int rank;
  Py_ssize_t *dims, *strides; // strides in bytes
  PyObject *base;
  NumpyDescr *descr;
  int flags;

  bool has(int wanted) const { return (flags & wanted) == wanted; }
  /// A cugrt_dtype; -1 for a type that is none of ours, or of another byte order.
  int32_t dtype() const;
};

/// Null for what is no numpy.ndarray, or of a class made of it. The GIL is held; NumPy is not
/// imported.
const NumpyArray *numpy_array(PyObject *object);

} // namespace cugrt::python
