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

/// A type of cugrt in NumPy and DLPack. Block formats and half bytes have no name there.
struct Dtype {
  const char *name; // NumPy's, or that of docs/ir.md where NumPy has none
  uint8_t bytes;    // of an element; 0: elements share bytes
  DlDtype dl;
};

/// Indexed by cugrt_dtype; null for a number that is none.
const Dtype *dtype_of(int32_t dtype);
/// "float32"; "unknown" for a number that is none.
std::string dtype_name(int32_t dtype);
/// "f32", as modules have it.
const char *own_name(int32_t dtype);
/// -1 where there is no such type.
int32_t dtype_from_dl(DlDtype dl);
/// The dtype of the buffer protocol's format ("f", "<i4", "?") and size of an element; -1 if we
/// lack it.
int32_t dtype_from_format(const char *format, int64_t item_bytes);
/// The dtype named "float32" (NumPy) or "f32" (this project); throws cugrt::Error for others.
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

/// Null for an object that is no numpy.ndarray, nor of a subclass. The GIL is held; does not import
/// NumPy.
const NumpyArray *numpy_array(PyObject *object);

} // namespace cugrt::python
