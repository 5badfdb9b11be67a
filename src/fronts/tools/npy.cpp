// The .npy format: magic, version, header length, a Python dictionary literal, raw data.
// Source: numpy.lib.format's description of the format.
#include "npy.h"

#include "base/file.h"
#include "dtypes.h"

#include <cugrt/cugrt.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <stdexcept>

namespace tool {

namespace {

struct Descr {
  const char *descr;
  cugrt_dtype dtype;
};

constexpr Descr kDescrs[] = {
    {"|b1", CUGRT_BOOL}, {"|i1", CUGRT_I8},  {"<i2", CUGRT_I16}, {"<i4", CUGRT_I32},
    {"<i8", CUGRT_I64},  {"|u1", CUGRT_U8},  {"<u2", CUGRT_U16}, {"<u4", CUGRT_U32},
    {"<u8", CUGRT_U64},  {"<f2", CUGRT_F16}, {"<f4", CUGRT_F32}, {"<f8", CUGRT_F64},
};

constexpr size_t kMaxHeaderBytes = 65536;

std::vector<int64_t> parse_dims(const std::string &path, const std::string &tuple) {
  std::vector<int64_t> dims;
  static const std::regex kNumber("[0-9]+");
  for (auto it = std::sregex_iterator(tuple.begin(), tuple.end(), kNumber);
       it != std::sregex_iterator(); ++it) {
    if (it->length() > 18)
      throw std::runtime_error("'" + path + "': a dimension is too large");
    dims.push_back(std::stoll(it->str()));
  }
  if (dims.size() > CUGRT_MAX_RANK)
    throw std::runtime_error("'" + path + "': more than " + std::to_string(CUGRT_MAX_RANK) +
                             " dimensions");
  return dims;
}

std::string read_header(const std::string &path, std::ifstream &file) {
  unsigned char magic[8];
  if (!file.read(reinterpret_cast<char *>(magic), 8) || std::memcmp(magic, "\x93NUMPY", 6) != 0)
    throw std::runtime_error("'" + path + "' is not a .npy file");
  size_t length_bytes = magic[6] == 1 ? 2 : 4;
  unsigned char raw[4] = {};
  file.read(reinterpret_cast<char *>(raw), static_cast<std::streamsize>(length_bytes));
  size_t length = raw[0] | raw[1] << 8 | raw[2] << 16 | size_t(raw[3]) << 24;
  if (magic[6] < 1 || magic[6] > 3 || length > kMaxHeaderBytes)
    throw std::runtime_error("'" + path + "': unknown .npy version or header length");
  std::string header(length, '\0');
  if (!file.read(header.data(), static_cast<std::streamsize>(length)))
    throw std::runtime_error("'" + path + "' is truncated");
  return header;
}

} // namespace

Array read_npy(const std::string &path) {
  if (!std::filesystem::exists(path))
    throw std::runtime_error("no such file: '" + path + "'");
  if (!std::filesystem::is_regular_file(path))
    throw std::runtime_error("'" + path + "' is not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("cannot open '" + path + "'");
  std::string header = read_header(path, file);
  static const std::regex kDescr("'descr' *: *'([^']*)'"),
      kOrder("'fortran_order' *: *(True|False)"), kShape("'shape' *: *\\(([0-9, ]*)\\)");
  std::smatch descr, order, shape;
  if (!std::regex_search(header, descr, kDescr) || !std::regex_search(header, order, kOrder) ||
      !std::regex_search(header, shape, kShape))
    throw std::runtime_error("'" + path + "': the header lacks descr, fortran_order or shape");
  if (order[1] == "True")
    throw std::runtime_error("'" + path + "' is in Fortran order; save numpy.ascontiguousarray(a)");
  Array array;
  array.dtype = -1;
  for (const Descr &row : kDescrs)
    if (descr[1] == row.descr)
      array.dtype = row.dtype;
  if (array.dtype < 0)
    throw std::runtime_error("'" + path + "': dtype " + descr[1].str() +
                             " is not one that cugrt reads");
  array.dims = parse_dims(path, shape[1]);
  uint64_t bytes = tensor_bytes(array.dtype, array.dims);
  uint64_t have = std::filesystem::file_size(path) - static_cast<uint64_t>(file.tellg());
  if (bytes != have)
    throw std::runtime_error("'" + path + "': the header promises " + std::to_string(bytes) +
                             " bytes of data, the file holds " + std::to_string(have));
  array.bytes.resize(bytes);
  if (!file.read(reinterpret_cast<char *>(array.bytes.data()), static_cast<std::streamsize>(bytes)))
    throw std::runtime_error("cannot read '" + path + "'");
  return array;
}

void write_npy(const std::string &path, const Array &array) {
  std::string descr = "|u1";
  std::vector<int64_t> dims = array.dims;
  bool known = false;
  for (const Descr &row : kDescrs)
    if (row.dtype == array.dtype)
      descr = row.descr, known = true;
  if (!known) {
    int64_t rows = 1;
    if (dims.empty())
      dims.push_back(1);
    for (size_t i = 0; i + 1 < dims.size(); ++i)
      rows *= dims[i];
    dims.back() = rows ? static_cast<int64_t>(array.bytes.size()) / rows : 0;
  }
  std::string shape;
  for (int64_t dim : dims)
    shape += std::to_string(dim) + ",";
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ') += '\n';
  const char version_and_size[] = {1, 0, static_cast<char>(header.size() & 255),
                                   static_cast<char>(header.size() >> 8)};
  const cugrt::Status status = cugrt::write_file(
      path, {"\x93NUMPY",
             {version_and_size, sizeof version_and_size},
             header,
             {reinterpret_cast<const char *>(array.bytes.data()), array.bytes.size()}});
  if (!status.ok())
    throw std::runtime_error(status.message());
}

} // namespace tool
