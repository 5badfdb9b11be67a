// NumPy's arrays by the layout that its C ABI fixes (numpy/ndarraytypes.h: PyArrayObject_fields,
// and the first fields of PyArray_Descr, alike in NumPy 1 and 2). Read here, since a buffer of one
// costs ten times as much.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace cugrt::python {

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
