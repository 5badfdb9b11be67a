#include "dtypes.h"

#include <cugrt/cugrt.h>

#include <array>

namespace nb = nanobind;

namespace cugrt::python {

int32_t NumpyArray::dtype() const {
  // Indexed by NPY_TYPES: bool, C's integers from char to long long, float, double; half is 23.
  static constexpr std::array<int32_t, 13> kTypes = {
      CUGRT_BOOL, CUGRT_I8,  CUGRT_U8,  CUGRT_I16, CUGRT_U16, CUGRT_I32, CUGRT_U32,
      CUGRT_I64,  CUGRT_U64, CUGRT_I64, CUGRT_U64, CUGRT_F32, CUGRT_F64};
  static_assert(sizeof(int) == 4 && sizeof(long) == 8 && sizeof(long long) == 8);
  constexpr int kHalf = 23;
  if (descr->byte_order == '>')
    return -1;
  if (descr->number == kHalf)
    return CUGRT_F16;
  const auto number = static_cast<size_t>(descr->number);
  return number < kTypes.size() ? kTypes[number] : -1;
}

const NumpyArray *numpy_array(PyObject *object) {
  static PyTypeObject *array_type = nullptr; // lives as long as the process
  if (!array_type) {
    nb::object numpy = nb::steal(PyImport_GetModule(nb::str("numpy").ptr()));
    if (!numpy.is_valid() || !nb::hasattr(numpy, "ndarray"))
      return nullptr;
    array_type =
        reinterpret_cast<PyTypeObject *>(nb::object(numpy.attr("ndarray")).release().ptr());
  }
  return Py_TYPE(object) == array_type ? reinterpret_cast<const NumpyArray *>(object) : nullptr;
}

} // namespace cugrt::python
