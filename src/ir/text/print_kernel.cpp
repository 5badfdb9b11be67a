// Printing of kernels, constants and attribute values.
#include "ir/text/printer.h"

#include "base/type/element.h"
#include "ir/text/lexer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace cugrt::ir {

// --- Numbers and attribute values ----------------------------------------------------------------

template <class Float> static void append_float_text(std::string &out, Float value) {
  char text[64];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  std::string_view shortest(text, static_cast<size_t>(end - text));
  out += shortest;
  if (shortest.find_first_of(".en") == std::string_view::npos)
    out += ".0"; // else it would read as an integer
}

void append_double(std::string &out, double value) { append_float_text(out, value); }

namespace {

struct ValueWriter {
  std::string &out;
  void operator()(bool v) const { out += v ? "true" : "false"; }
  void operator()(int64_t v) const { out += std::to_string(v); }
  void operator()(double v) const { append_double(out, v); }
  void operator()(const std::string &v) const { append_quoted(out, v); }
  void operator()(DTypeLiteral v) const { out += info(v.dtype).name; }
  template <class T> void operator()(const std::vector<T> &list) const {
    out += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      out += i ? ", " : "";
      (*this)(list[i]);
    }
    out += ']';
  }
};

} // namespace

void append_attribute_value(std::string &out, const AttributeValue &value) {
  std::visit(ValueWriter{out}, value);
}

// --- Kernels -------------------------------------------------------------------------------------

void Printer::kernel_param(const Kernel &k, const KernelParam &p) {
  static constexpr std::string_view kAccess[] = {"in ", "out ", "inout "};
  static constexpr std::string_view kKinds[] = {"", "scalar ", "symbol ", "device_symbol ",
                                                "checked_symbol "};
  *this << p.name << ": "
        << (p.kind == KernelParamKind::tensor ? kAccess[static_cast<size_t>(p.access)]
                                              : kKinds[static_cast<size_t>(p.kind)])
        << (p.kind == KernelParamKind::tensor && p.any_dtype ? "any" : info(p.dtype).name);
  for (size_t i = 0; i < p.over.size(); ++i)
    *this << (i ? ", " : p.over.size() > 1 ? " over (" : " over ") << k.params[p.over[i]].name;
  *this << (p.over.size() > 1 ? ")" : "");
}

void Printer::launch_dims(const char *word, const std::array<ExprId, 3> &dims) {
  *this << " " << word << " (";
  for (size_t i = 0; i < dims.size(); ++i) {
    *this << (i ? ", " : "");
    expr(dims[i]);
  }
  *this << ")";
}

void Printer::variant(const KernelVariant &v) {
  *this << "  launch {";
  if (v.predicate.valid()) {
    *this << " when ";
    expr(v.predicate);
  }
  if (!v.entry.empty()) {
    *this << " entry ";
    append_quoted(out_, v.entry);
  }
  launch_dims("grid", v.grid);
  launch_dims("block", v.block);
  if (v.shared_bytes.valid()) {
    *this << " shared ";
    expr(v.shared_bytes);
  }
  if (v.workspace_bytes.valid()) {
    *this << " workspace ";
    expr(v.workspace_bytes);
  }
  if (v.cluster != std::array<uint32_t, 3>{})
    *this << " cluster (" << int64_t(v.cluster[0]) << ", " << int64_t(v.cluster[1]) << ", "
          << int64_t(v.cluster[2]) << ")";
  *this << (v.cooperative ? " cooperative" : "") << (v.programmatic ? " programmatic" : "")
        << " }\n";
}

void Printer::kernel(const Kernel &k) {
  static constexpr std::string_view kCodes[] = {"source", "inline", "ptx", "cubin"};
  symbol_names_ = k.symbols;
  *this << "kernel ";
  place(k.location);
  *this << "@" << k.name << " {\n  " << kCodes[static_cast<size_t>(k.code_kind)] << " ";
  append_quoted(out_, k.code);
  *this << "\n  entry ";
  append_quoted(out_, k.entry);
  if (!k.options.empty()) {
    *this << "\n  options ";
    ValueWriter{out_}(k.options);
  }
  *this << "\n  params (";
  for (size_t i = 0; i < k.params.size(); ++i) {
    *this << (i ? ", " : "");
    kernel_param(k, k.params[i]);
  }
  *this << ")\n";
  for (const KernelVariant &v : k.variants)
    variant(v);
  *this << "}\n";
  symbol_names_.clear();
}

// --- Constants -----------------------------------------------------------------------------------

// Larger constants, and those whose elements do not survive as decimals (NaN payloads), are hex.
static constexpr int64_t kMaxListedElements = 64;
static constexpr size_t kHexBytesInLine = 32;

static bool survives_as_numbers(DType dtype, std::string_view bytes) {
  const DTypeInfo &d = info(dtype);
  if (d.kind == DTypeKind::boolean)
    return bytes.find_first_not_of(std::string_view("\0\1", 2)) == std::string_view::npos;
  // u64 beyond int64 has no decimal form here, and odd rows of 4-bit elements may have a spare
  // half.
  if (d.elements_per_block != 1 || dtype == DType::u64 || d.kind == DTypeKind::block)
    return false;
  if (d.kind != DTypeKind::floating)
    return true;
  std::string again;
  for (size_t i = 0; i < bytes.size(); i += d.bytes_per_block) {
    double value = float_at(dtype, bytes.data() + i);
    if (std::isnan(value)) // what "nan" or "-nan" reads back as
      value = std::copysign(std::numeric_limits<double>::quiet_NaN(), value);
    append_float(dtype, value, again);
  }
  return again == bytes;
}

void Printer::constant_elements(const Constant &c, const Type &t, int64_t count) {
  const DTypeInfo &d = info(t.dtype);
  *this << "[";
  for (int64_t i = 0; i < count; ++i) {
    const char *at = c.bytes.data() + i * d.bytes_per_block;
    *this << (i ? ", " : "");
    if (d.kind == DTypeKind::boolean)
      *this << (*at ? "true" : "false");
    else if (t.dtype == DType::f32)
      append_float_text(out_, static_cast<float>(float_at(t.dtype, at)));
    else if (d.kind == DTypeKind::floating)
      append_double(out_, float_at(t.dtype, at));
    else
      *this << integer_at(t.dtype, at);
  }
  *this << "]\n";
}

void Printer::constant(const Constant &c) {
  static constexpr char kHex[] = "0123456789abcdef";
  *this << "constant ";
  place(c.location);
  *this << "@" << c.name << " : ";
  type(c.type);
  *this << " = ";
  const Type &t = module_.types[c.type];
  size_t element = info(t.dtype).bytes_per_block;
  if (c.bytes.size() <= kMaxListedElements * element && survives_as_numbers(t.dtype, c.bytes))
    return constant_elements(c, t, static_cast<int64_t>(c.bytes.size() / element));
  bool lines = c.bytes.size() > kHexBytesInLine;
  for (size_t i = 0; i == 0 || i < c.bytes.size(); i += kHexBytesInLine) {
    *this << (lines ? "\n  x\"" : "x\"");
    for (size_t j = i; j < std::min(c.bytes.size(), i + kHexBytesInLine); ++j) {
      auto byte = static_cast<unsigned char>(c.bytes[j]);
      (out_ += kHex[byte >> 4]) += kHex[byte & 15];
    }
    *this << "\"";
  }
  *this << "\n";
}

} // namespace cugrt::ir
