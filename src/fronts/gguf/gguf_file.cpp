// Opening of GGUF files, of one part or several.
#include "fronts/gguf/reader.h"

#include <array>
#include <cstdio>

namespace cugrt::gguf {

// "-00001-of-00003.gguf", as the names of parts end.
constexpr size_t kSuffixBytes = 20;

static std::string part_suffix(int64_t number, int64_t count) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "-%05lld-of-%05lld.gguf", (long long)number,
                (long long)count);
  return text.data();
}

constexpr int64_t kMaxParts = 99999; // five digits

Result<File> File::parse(std::string_view bytes, std::string name) {
  File file, unused;
  file.name_ = std::move(name);
  CUGRT_TRY(Reader(bytes, file.name_).read(file, true, unused));
  return file;
}

Status File::add_part(const std::string &path, int64_t number, int64_t count) {
  CUGRT_ASSIGN(MappedFile mapped, MappedFile::open(path));
  File keys;
  keys.name_ = path;
  CUGRT_TRY(Reader(mapped.bytes(), path).read(*this, false, keys));
  CUGRT_ASSIGN(const int64_t its_number, keys.integer("split.no"));
  CUGRT_ASSIGN(const int64_t its_count, keys.integer("split.count"));
  if (its_number != number || its_count != count)
    return Status::error(Code::parse_error,
                         "'" + path + "' says that it is part " + std::to_string(its_number) +
                             " of " + std::to_string(its_count) + ", counted from 0, not " +
                             std::to_string(number) + " of " + std::to_string(count));
  parts_->push_back(std::move(mapped));
  return {};
}

Result<File> File::open(const std::string &path) {
  File file, unused;
  file.name_ = path;
  CUGRT_ASSIGN(MappedFile mapped, MappedFile::open(path));
  CUGRT_TRY(Reader(mapped.bytes(), path).read(file, true, unused));
  file.parts_->push_back(std::move(mapped));

  CUGRT_ASSIGN(const int64_t count, file.integer("split.count", 1));
  if (count <= 1)
    return file;
  CUGRT_ASSIGN(const int64_t number, file.integer("split.no"));
  const std::string suffix = part_suffix(1, count);
  if (number != 0 || count > kMaxParts || !path.ends_with(suffix))
    return Status::error(Code::invalid_argument,
                         "'" + path + "' is one of " + std::to_string(count) +
                             " parts of a model; open the first, whose name ends in '" + suffix +
                             "'");
  const std::string stem = path.substr(0, path.size() - kSuffixBytes);
  for (int64_t part = 1; part < count; ++part)
    CUGRT_TRY(file.add_part(stem + part_suffix(part + 1, count), part, count));
  const auto found = static_cast<int64_t>(file.tensors_.size());
  CUGRT_ASSIGN(const int64_t wanted, file.integer("split.tensors.count", found));
  if (wanted != found)
    return Status::error(Code::parse_error, "the parts of '" + path + "' have " +
                                                std::to_string(found) + " tensors, not the " +
                                                std::to_string(wanted) + " that it says");
  return file;
}

const Tensor *File::find_tensor(std::string_view name) const {
  const auto at = tensor_index_.find(name);
  return at == tensor_index_.end() ? nullptr : &tensors_[at->second];
}

} // namespace cugrt::gguf
