#include "dtypes.h"

#include "errors.h"

#include <array>

namespace cugrt::python {

namespace {

// Rows in the order of cugrt_dtype. Second: the project's own name.
struct Row {
  Dtype dtype;
  const char *own;
};
constexpr std::array<Row, 26> kRows = {{
    {{"bool", 1, {kDlBool, 8, 1}}, "bool"},
    {{"int4", 0, {}}, "i4"},
    {{"int8", 1, {kDlInt, 8, 1}}, "i8"},
    {{"int16", 2, {kDlInt, 16, 1}}, "i16"},
    {{"int32", 4, {kDlInt, 32, 1}}, "i32"},
    {{"int64", 8, {kDlInt, 64, 1}}, "i64"},
    {{"uint4", 0, {}}, "u4"},
    {{"uint8", 1, {kDlUint, 8, 1}}, "u8"},
    {{"uint16", 2, {kDlUint, 16, 1}}, "u16"},
    {{"uint32", 4, {kDlUint, 32, 1}}, "u32"},
    {{"uint64", 8, {kDlUint, 64, 1}}, "u64"},
    {{"float16", 2, {kDlFloat, 16, 1}}, "f16"},
    {{"bfloat16", 2, {kDlBfloat, 16, 1}}, "bf16"},
    {{"float32", 4, {kDlFloat, 32, 1}}, "f32"},
    {{"float64", 8, {kDlFloat, 64, 1}}, "f64"},
    {{"q4_0", 0, {}}, "q4_0"},
    {{"q4_1", 0, {}}, "q4_1"},
    {{"q8_0", 0, {}}, "q8_0"},
    {{"q5_0", 0, {}}, "q5_0"},
    {{"q5_1", 0, {}}, "q5_1"},
    {{"q2_k", 0, {}}, "q2_k"},
    {{"q3_k", 0, {}}, "q3_k"},
    {{"q4_k", 0, {}}, "q4_k"},
    {{"q5_k", 0, {}}, "q5_k"},
    {{"q6_k", 0, {}}, "q6_k"},
    {{"iq4_nl", 0, {}}, "iq4_nl"},
}};
static_assert(CUGRT_IQ4_NL + 1 == kRows.size());

} // namespace

const Dtype *dtype_of(int32_t dtype) {
  return dtype >= 0 && dtype < static_cast<int32_t>(kRows.size())
             ? &kRows[static_cast<size_t>(dtype)].dtype
             : nullptr;
}

std::string dtype_name(int32_t dtype) {
  const Dtype *known = dtype_of(dtype);
  return known ? known->name : "unknown";
}

const char *own_name(int32_t dtype) { return kRows.at(static_cast<size_t>(dtype)).own; }

int32_t dtype_from_dl(DlDtype dl) {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (const Dtype &row = kRows[i].dtype;
        row.bytes && row.dl.code == dl.code && row.dl.bits == dl.bits && dl.lanes == 1)
      return static_cast<int32_t>(i);
  return -1;
}

int32_t dtype_from_format(const char *format, int64_t item_bytes) {
  if (!format)
    format = "B";
  if (*format == '<' || *format == '=' || *format == '@' || *format == '|')
    ++format;
  if (!*format || format[1])
    return -1;
  DlDtype dl = {0, static_cast<uint8_t>(item_bytes * 8), 1};
  switch (*format) {
  case '?':
    dl.code = kDlBool;
    break;
  case 'b':
  case 'h':
  case 'i':
  case 'l':
  case 'q':
    dl.code = kDlInt;
    break;
  case 'B':
  case 'H':
  case 'I':
  case 'L':
  case 'Q':
    dl.code = kDlUint;
    break;
  case 'e':
  case 'f':
  case 'd':
    dl.code = kDlFloat;
    break;
  default:
    return -1;
  }
  return dtype_from_dl(dl);
}

int32_t dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (name == kRows[i].dtype.name || name == kRows[i].own)
      return static_cast<int32_t>(i);
  fail(CUGRT_INVALID_ARGUMENT, "there is no dtype '" + std::string(name) + "'");
}

PyObject *numpy_dtype(int32_t dtype) {
  static std::array<PyObject *, kRows.size()> known; // live as long as the process
  const Dtype *row = dtype_of(dtype);
  if (!row || !row->bytes)
    fail(CUGRT_UNSUPPORTED, "NumPy has no arrays of " + dtype_name(dtype));
  PyObject *&kept = known[static_cast<size_t>(dtype)];
  if (kept)
    return kept;
  nb::module_ numpy = nb::module_::import_("numpy");
  if (dtype != CUGRT_BF16)
    return kept = numpy.attr("dtype")(row->name).release().ptr();
  try {
    return kept = numpy.attr("dtype")(nb::module_::import_("ml_dtypes").attr("bfloat16"))
                      .release()
                      .ptr();
  } catch (nb::python_error &) {
    fail(CUGRT_UNSUPPORTED, "NumPy has bfloat16 by the package ml_dtypes, which is not installed; "
                            "device arrays (run with device=True) need it not");
  }
}

uint64_t bytes_of(int32_t dtype, uint32_t rank, const int64_t *dims) {
  const Dtype *row = dtype_of(dtype);
  if (!row || !row->bytes)
    fail(CUGRT_UNSUPPORTED, "there are no arrays of " + dtype_name(dtype));
  uint64_t bytes = row->bytes;
  for (uint32_t i = 0; i < rank; ++i)
    if (dims[i] < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(dims[i]), &bytes) ||
        bytes >> 62)
      fail(CUGRT_OUT_OF_RANGE, "an array of shape " + shape_text(rank, dims) + " is too large");
  return bytes;
}

std::string shape_text(uint32_t rank, const int64_t *dims) {
  std::string text = "[";
  for (uint32_t i = 0; i < rank; ++i)
    text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

} // namespace cugrt::python
