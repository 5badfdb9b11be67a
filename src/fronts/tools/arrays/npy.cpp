// The .npy format: magic, version, header length, a Python dictionary literal, raw data.
// Source: numpy.lib.format's description of the format.
#include "npy.h"

#include "base/file.h"
#include "base/first_bytes.h"

#include <cugrt/cugrt.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace tool {

namespace {

struct Descr {
  const char *descr;
  cugrt_dtype dtype;
};

constexpr Descr kDescrs[] = {
    {"|b1", CUGRT_BOOL}, {"|i1", CUGRT_I8},   {"<i2", CUGRT_I16}, {"<i4", CUGRT_I32},
    {"<i8", CUGRT_I64},  {"|u1", CUGRT_U8},   {"<u2", CUGRT_U16}, {"<u4", CUGRT_U32},
    {"<u8", CUGRT_U64},  {"<f2", CUGRT_F16},  {"<f4", CUGRT_F32}, {"<f8", CUGRT_F64},
    {"|V2", CUGRT_BF16}, {"<V2", CUGRT_BF16}, // as NumPy saves arrays of ml_dtypes.bfloat16
};

/// The limit of numpy.load for files that are not trusted.
constexpr size_t kMaxHeaderBytes = 10000;

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> dims;
};

/// The header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, each key
/// once, in any order.
class HeaderReader {
public:
  HeaderReader(const std::string &path, std::string_view text) : path_(path), rest_(text) {}

  Header read() {
    Header header;
    std::vector<std::string> seen;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      if (std::find(seen.begin(), seen.end(), key) != seen.end())
        fail();
      seen.push_back(key);
      expect(':');
      if (key == "descr")
        header.descr = quoted();
      else if (key == "fortran_order")
        header.fortran_order = boolean();
      else if (key == "shape")
        header.dims = tuple();
      else
        fail();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (seen.size() != 3 || !after_spaces().empty())
      fail();
    return header;
  }

private:
  [[noreturn]] void fail() const {
    throw std::runtime_error("'" + path_ +
                             "': the header is no dictionary of descr, fortran_order and shape");
  }
  std::string_view after_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
    return rest_;
  }
  bool take(char wanted) {
    const bool there = after_spaces().starts_with(wanted);
    rest_.remove_prefix(there);
    return there;
  }
  void expect(char wanted) {
    if (!take(wanted))
      fail();
  }
  std::string quoted() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"')
      expect('"');
    const size_t end = rest_.find(quote);
    if (end == rest_.npos)
      fail();
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    for (const std::string_view word : {"True", "False"})
      if (after_spaces().starts_with(word)) {
        rest_.remove_prefix(word.size());
        return word == "True";
      }
    fail();
  }
  int64_t number() {
    int64_t value = 0;
    const std::string_view digits = after_spaces();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc::result_out_of_range)
      throw std::runtime_error("'" + path_ + "': a dimension is too large");
    if (error != std::errc() || value < 0)
      fail();
    rest_.remove_prefix(size_t(end - digits.data()));
    return value;
  }
  /// A tuple of one number has a comma behind it, which is taken as missing, too.
  std::vector<int64_t> tuple() {
    std::vector<int64_t> dims;
    expect('(');
    while (!take(')')) {
      dims.push_back(number());
      if (dims.size() > CUGRT_MAX_RANK)
        throw std::runtime_error("'" + path_ + "': more than " + std::to_string(CUGRT_MAX_RANK) +
                                 " dimensions");
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return dims;
  }

  const std::string &path_;
  std::string_view rest_;
};

void check(const cugrt::Status &status) {
  if (!status.ok())
    throw std::runtime_error(status.message());
}

/// Reads all of the bytes, or says that the file ends before.
void read_all(cugrt::RegularFile &file, void *to, size_t bytes) {
  const cugrt::Result<size_t> read = file.read(static_cast<char *>(to), bytes);
  if (!read.ok())
    check(read.status());
  if (*read != bytes)
    throw std::runtime_error("'" + file.path + "' is truncated");
}

std::string read_header(cugrt::RegularFile &file, uint64_t &data_at) {
  const std::string begin = cugrt::first_bytes(file.path), name = "'" + file.path + "'";
  if (!begin.starts_with("\x93NUMPY")) {
    const std::string what(cugrt::told_by_first_bytes(begin));
    throw std::runtime_error(name + " is not a .npy file" +
                             (what.empty() ? what : "; it is " + what));
  }
  unsigned char magic[8], raw[4] = {};
  read_all(file, magic, sizeof magic);
  if (magic[6] < 1 || magic[6] > 3)
    throw std::runtime_error(name + ": unknown .npy version");
  const size_t length_bytes = magic[6] == 1 ? 2 : 4;
  read_all(file, raw, length_bytes);
  const size_t length = raw[0] | raw[1] << 8 | raw[2] << 16 | size_t(raw[3]) << 24;
  if (length > kMaxHeaderBytes)
    throw std::runtime_error(name + ": a header of more than " + std::to_string(kMaxHeaderBytes) +
                             " bytes");
  std::string header(length, '\0');
  read_all(file, header.data(), length);
  data_at = sizeof magic + length_bytes + length;
  return header;
}

} // namespace

Array read_npy(const std::string &path) {
  cugrt::Result<cugrt::RegularFile> opened = cugrt::open_regular(path);
  if (!opened.ok())
    check(opened.status());
  cugrt::RegularFile &file = *opened;
  uint64_t data_at = 0;
  const std::string header = read_header(file, data_at);
  const Header read = HeaderReader(path, header).read();
  if (read.fortran_order)
    throw std::runtime_error("'" + path + "' is in Fortran order; save numpy.ascontiguousarray(a)");
  Array array;
  array.dtype = -1;
  for (const Descr &row : kDescrs)
    if (read.descr == row.descr)
      array.dtype = row.dtype;
  if (array.dtype < 0)
    throw std::runtime_error("'" + path + "': dtype " + read.descr +
                             " is not one that cugrt reads");
  array.dims = read.dims;
  const uint64_t bytes = tensor_bytes(array.dtype, array.dims), have = file.size_bytes - data_at;
  if (bytes != have)
    throw std::runtime_error("'" + path + "': the header promises " + std::to_string(bytes) +
                             " bytes of data, the file holds " + std::to_string(have));
  array.bytes.resize(bytes);
  read_all(file, array.bytes.data(), bytes);
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
  check(cugrt::write_file(
      path, {"\x93NUMPY",
             {version_and_size, sizeof version_and_size},
             header,
             {reinterpret_cast<const char *>(array.bytes.data()), array.bytes.size()}}));
}

} // namespace tool
