// Reading of constant tensors; see tensor.h.
#include "fronts/onnx/file/tensor.h"

#include "base/checked_math.h"
#include "base/type/element.h"
#include "fronts/onnx/file/wire.h"
#include "ops/known/known_ops.h"

#include <cmath>
#include <filesystem>
#include <limits>

namespace cugrt::onnx {

int32_t onnx_dtype(ir::DType dtype) {
  using enum ir::DType;
  static constexpr std::pair<ir::DType, int32_t> kNumbers[] = {
      {f32, 1},  {i8, 3},   {u16, 4},  {i16, 5},  {i32, 6},   {i64, 7}, {boolean, 9},
      {f16, 10}, {f64, 11}, {u32, 12}, {u64, 13}, {bf16, 16}, {u4, 21}, {i4, 22}};
  for (const auto &[known, number] : kNumbers)
    if (known == dtype)
      return number;
  return 2; // u8, as which blocks are stored, too
}

std::optional<ir::DType> dtype_of(int32_t data_type) {
  for (auto dtype = uint8_t(ir::DType::boolean); dtype <= uint8_t(ir::DType::f64); ++dtype)
    if (onnx_dtype(ir::DType(dtype)) == data_type &&
        ir::info(ir::DType(dtype)).elements_per_block == 1)
      return ir::DType(dtype);
  return std::nullopt;
}

Narrow narrow_of(int32_t data_type) {
  for (Narrow one : {Narrow::float8e4m3fn, Narrow::float8e5m2, Narrow::uint4, Narrow::int4})
    if (static_cast<int32_t>(one) == data_type)
      return one;
  return Narrow::none;
}

ir::DType held_as(Narrow narrow) {
  switch (narrow) {
  case Narrow::int4:
    return ir::DType::i8;
  case Narrow::uint4:
    return ir::DType::u8;
  case Narrow::none:
  case Narrow::float8e4m3fn:
  case Narrow::float8e5m2:
    break;
  }
  return ir::DType::f16;
}

std::string dtype_name(int32_t data_type) {
  static constexpr std::string_view kNames[] = {
      "UNDEFINED",      "FLOAT",    "UINT8",        "INT8",           "UINT16",
      "INT16",          "INT32",    "INT64",        "STRING",         "BOOL",
      "FLOAT16",        "DOUBLE",   "UINT32",       "UINT64",         "COMPLEX64",
      "COMPLEX128",     "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
      "FLOAT8E5M2FNUZ", "UINT4",    "INT4",         "FLOAT4E2M1",     "FLOAT8E8M0",
      "UINT2",          "INT2"};
  if (data_type >= 0 && size_t(data_type) < std::size(kNames))
    return std::string(kNames[data_type]);
  return "dtype " + std::to_string(data_type);
}

// --- Files ---------------------------------------------------------------------------------------

Result<std::string_view> ExternalFiles::read(const TensorView &tensor) {
  namespace fs = std::filesystem;
  const std::string where = "external data of '" + std::string(tensor.name) + "'";
  auto wrong = [&](Code code, const std::string &what) {
    return Status::error(code, where + ": " + what);
  };
  const fs::path relative(tensor.location);
  if (folder_.empty() || relative.empty())
    return wrong(Code::not_found, "the model names no file, or was not read from one");
  auto known = files_.find(tensor.location);
  if (known == files_.end()) {
    std::error_code error;
    const fs::path folder = fs::canonical(folder_, error);
    const fs::path file = error ? fs::path() : fs::weakly_canonical(folder / relative, error);
    const fs::path inside = file.lexically_relative(folder);
    if (relative.is_absolute() || error || inside.empty() || *inside.begin() == ".." ||
        tensor.location.find('\0') != tensor.location.npos) // where canonical ends
      return wrong(Code::invalid_argument, "file '" + std::string(tensor.location) +
                                               "' is not inside of the model's folder");
    auto mapped = MappedFile::open(file.string());
    if (!mapped.ok())
      return mapped.take_status().in(where);
    auto shared = std::make_shared<const MappedFile>(std::move(*mapped));
    known = files_.emplace(std::string(tensor.location), std::move(shared)).first;
  }
  const std::string_view all = known->second->bytes();
  if (tensor.offset > all.size() ||
      (tensor.has_length && tensor.length > all.size() - tensor.offset))
    return wrong(Code::parse_error, "its bytes lie behind the end of '" +
                                        std::string(tensor.location) + "', which has " +
                                        std::to_string(all.size()));
  return all.substr(tensor.offset, tensor.has_length ? tensor.length : std::string_view::npos);
}

std::vector<std::shared_ptr<const void>> ExternalFiles::files() const {
  std::vector<std::shared_ptr<const void>> all;
  for (const auto &[name, file] : files_)
    all.push_back(file);
  return all;
}

// --- Tensors

std::vector<int64_t> integers_of(const HostTensor &tensor) {
  std::vector<int64_t> all;
  const size_t size = ir::info(tensor.dtype).bytes_per_block;
  if (ir::info(tensor.dtype).kind != ir::DTypeKind::floating)
    for (size_t at = 0; at + size <= tensor.bytes.size(); at += size)
      all.push_back(ir::integer_at(tensor.dtype, tensor.bytes.data() + at));
  return all;
}

/// Values that stand in typed fields: floats and doubles in place, others as varints.
static Result<std::string> typed_bytes(const TensorView &tensor, ir::DType dtype, size_t wanted) {
  std::string bytes;
  bytes.reserve(std::min<size_t>(wanted, tensor.message.size() * 8));
  auto malformed = [] { return Status::error(Code::parse_error, "its list of values is cut off"); };
  FieldReader reader(tensor.message);
  while (!reader.done()) {
    CUGRT_ASSIGN(const Field field, reader.next());
    const size_t fixed = field.number == 4 ? 4 : field.number == 10 ? 8 : 0;
    const bool integer = field.number == 5 || field.number == 7 || field.number == 11;
    if (!fixed && !integer)
      continue;
    if (fixed) {
      const char *bits = reinterpret_cast<const char *>(&field.number_value);
      bytes += field.is_bytes ? field.bytes.substr(0, wanted + 1) : std::string_view(bits, fixed);
      if (bytes.size() > wanted)
        return bytes;
    } else {
      std::string_view rest = field.bytes;
      uint64_t value = field.number_value;
      for (bool one = !field.is_bytes; one || !rest.empty(); one = false) {
        if (!one) {
          value = 0;
          for (unsigned shift = 0;; shift += 7) {
            if (rest.empty() || shift > 63)
              return malformed();
            const auto byte = static_cast<unsigned char>(rest.front());
            rest.remove_prefix(1);
            value |= uint64_t(byte & 127) << shift;
            if (byte < 128)
              break;
          }
        }
        // int32_data holds 16-bit floats by their bits.
        const size_t size = ir::info(dtype).bytes_per_block;
        bytes.append(reinterpret_cast<const char *>(&value), size);
        if (bytes.size() > wanted)
          return bytes;
      }
    }
  }
  return bytes;
}

/// Elements of a narrow dtype in the dtype that holds them; the low half of a byte is the first.
static std::string widened(Narrow narrow, std::string_view bytes, size_t count) {
  std::string out;
  const ir::DType to = held_as(narrow);
  for (size_t i = 0; i < count; ++i) {
    const bool two = narrow == Narrow::int4 || narrow == Narrow::uint4;
    const int byte = static_cast<unsigned char>(bytes[two ? i / 2 : i]);
    const int half = i % 2 ? byte >> 4 : byte & 15;
    switch (narrow) {
    case Narrow::uint4:
      ir::append_integer(to, half, out);
      break;
    case Narrow::int4:
      ir::append_integer(to, half < 8 ? half : half - 16, out);
      break;
    case Narrow::float8e4m3fn: {
      const int exponent = byte >> 3 & 15, fraction = byte & 7;
      double value = exponent ? std::ldexp(8 + fraction, exponent - 10) : std::ldexp(fraction, -9);
      if ((byte & 127) == 127)
        value = std::numeric_limits<double>::quiet_NaN();
      ir::append_float(to, byte & 128 ? -value : value, out);
      break;
    }
    case Narrow::float8e5m2: // the upper half of an f16
      out += '\0';
      out += static_cast<char>(byte);
      break;
    case Narrow::none:
      break;
    }
  }
  return out;
}

Result<HostTensor> load_tensor(const TensorView &tensor, ExternalFiles &files) {
  const std::string who = "tensor '" + std::string(tensor.name) + "'";
  const Narrow narrow = narrow_of(tensor.data_type);
  std::optional<ir::DType> dtype = dtype_of(tensor.data_type);
  if (narrow != Narrow::none)
    dtype = held_as(narrow);
  if (!dtype)
    return Status::error(Code::unsupported, who + " has " + dtype_name(tensor.data_type) +
                                                " elements, which are not taken");
  const std::optional<int64_t> count = ir::element_count(tensor.dims);
  const size_t size = ir::info(*dtype).bytes_per_block;
  if (!count || static_cast<uint64_t>(*count) > UINT64_MAX / 16 / size || *count < 0 ||
      tensor.dims.size() > ir::kMaxRank)
    return Status::error(Code::parse_error, who + " has dimensions that are no tensor's here");
  HostTensor out{*dtype, tensor.dims, {}, {}, narrow};
  size_t wanted = static_cast<size_t>(*count) * size;
  switch (narrow) {
  case Narrow::none:
    break;
  case Narrow::float8e4m3fn:
  case Narrow::float8e5m2:
    wanted = static_cast<size_t>(*count);
    break;
  case Narrow::uint4:
  case Narrow::int4:
    wanted = static_cast<size_t>(*count) / 2 + static_cast<size_t>(*count) % 2;
    break;
  }
  if (tensor.is_external) {
    CUGRT_ASSIGN(out.bytes, files.read(tensor));
    if (!tensor.has_length && out.bytes.size() > wanted)
      out.bytes = out.bytes.substr(0, wanted);
  } else if (tensor.has_raw) {
    out.bytes = tensor.raw;
  } else {
    // int32_data holds a byte of a narrow dtype in each number.
    const ir::DType stored = narrow == Narrow::none ? *dtype : ir::DType::u8;
    auto bytes = typed_bytes(tensor, stored, wanted);
    if (!bytes.ok())
      return bytes.take_status().in(who);
    out.owned = std::make_shared<const std::string>(std::move(*bytes));
    out.bytes = *out.owned;
  }
  if (out.bytes.size() != wanted)
    return Status::error(Code::parse_error, who + " has " + std::to_string(out.bytes.size()) +
                                                " bytes, its shape asks for " +
                                                std::to_string(wanted));
  if (narrow != Narrow::none) {
    out.owned = std::make_shared<const std::string>(
        widened(narrow, out.bytes, static_cast<size_t>(*count)));
    out.bytes = *out.owned;
  }
  if (*dtype == ir::DType::boolean) { // any byte but 0 is true, and becomes 1
    std::string truths(out.bytes);
    for (char &byte : truths)
      byte = byte != 0;
    out.owned = std::make_shared<const std::string>(std::move(truths));
    out.bytes = *out.owned;
  }
  return out;
}

} // namespace cugrt::onnx
