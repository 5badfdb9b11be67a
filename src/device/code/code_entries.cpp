// Entries of PTX and of cubins; see code_entries.h.
//
// A cubin is a 64-bit little-endian ELF file of machine 190. Its kernels are the symbols of
// functions whose st_other has bit 4; the section .nv.info.NAME is a list of attributes, of which
// each of kind 0x17 describes a parameter: its ordinal in bytes 4 to 6, its size in bits 18 and up
// of bytes 8 to 12. NVIDIA does not document this; `cuobjdump -elf` shows it, and tests compare it
// with the PTX.
#include "device/code/code_entries.h"

#include "base/type/element.h"
#include "device/code/ptx_version.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>

namespace cugrt::runtime {

namespace {

constexpr size_t kMaxParams = 4096, kMaxListedBytes = 1000;

// ---- PTX

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

/// Splits PTX into words and single characters; skips comments and strings.
class PtxTokens {
public:
  explicit PtxTokens(std::string_view text) : text_(text) {}

  /// Empty at the end. A directive comes with its point: ".entry".
  std::string_view next() {
    for (;;) {
      while (at_ < text_.size() && is_blank(text_[at_]))
        ++at_;
      if (text_.substr(at_, 2) == "//")
        skip_past("\n", at_);
      else if (text_.substr(at_, 2) == "/*")
        skip_past("*/", at_ + 2);
      else if (text_.substr(at_, 1) == "\"")
        skip_past("\"", at_ + 1);
      else
        break;
    }
    size_t end = at_ + (at_ < text_.size());
    if (end > at_ && (is_ptx_word(text_[at_]) || text_[at_] == '.'))
      while (end < text_.size() && is_ptx_word(text_[end]))
        ++end;
    std::string_view token = text_.substr(at_, end - at_);
    at_ = end;
    return token;
  }

private:
  void skip_past(std::string_view what, size_t from) {
    size_t found = text_.find(what, from);
    at_ = found == text_.npos ? text_.size() : found + what.size();
  }

  std::string_view text_;
  size_t at_ = 0;
};

/// ".u64" is 8; 0 for a token that is no type.
uint32_t ptx_type_bytes(std::string_view token) {
  if (token.size() < 3 || token[0] != '.' || !std::strchr("bsuf", token[1]))
    return 0;
  std::string_view bits = token.substr(2);
  return bits == "8" ? 1 : bits == "16" ? 2 : bits == "32" ? 4 : bits == "64" ? 8 : 0;
}

uint32_t number_of(std::string_view token) {
  uint64_t number = 0;
  for (char c : token)
    number = c >= '0' && c <= '9' ? std::min<uint64_t>(number * 10 + uint64_t(c - '0'), UINT32_MAX)
                                  : number;
  return static_cast<uint32_t>(number);
}

/// Reads the parameters up to the closing parenthesis: .param .align 4 .b8 name[12], ...
std::vector<uint32_t> read_ptx_params(PtxTokens &tokens) {
  std::vector<uint32_t> sizes;
  bool array = false;
  for (std::string_view token = tokens.next(); !token.empty() && token != ")";
       token = tokens.next()) {
    if (token == ".param" && sizes.size() < kMaxParams)
      sizes.push_back(0);
    else if (sizes.empty())
      continue;
    else if (array)
      sizes.back() *= number_of(token), array = false;
    else if (uint32_t bytes = ptx_type_bytes(token); bytes && !sizes.back())
      sizes.back() = bytes;
    else
      array = token == "[";
  }
  return sizes;
}

std::vector<CodeEntry> read_ptx_entries(std::string_view text) {
  std::vector<CodeEntry> entries;
  PtxTokens tokens(text);
  for (std::string_view token = tokens.next(); !token.empty(); token = tokens.next()) {
    if (token != ".entry")
      continue;
    CodeEntry entry{std::string(tokens.next()), std::vector<uint32_t>()};
    if (tokens.next() == "(")
      entry.param_bytes = read_ptx_params(tokens);
    entries.push_back(std::move(entry));
  }
  return entries;
}

// ---- cubins

constexpr size_t kHeaderBytes = 64, kSectionBytes = 64, kSymbolBytes = 24;
constexpr uint16_t kMachineCuda = 190;
constexpr uint32_t kSymbolTable = 2;
constexpr uint8_t kFunction = 2, kIsKernel = 0x10;
constexpr uint8_t kSizedFormat = 4, kParamInfo = 0x17, kParamInfo2 = 0x45;
constexpr uint64_t kReadings = 4;

/// Sections and symbols of a cubin. A read outside the file gives nothing. Parts may overlap in a
/// file made to cost time and memory, so reads of more than kReadings times the file's bytes
/// fail.
class Cubin {
public:
  explicit Cubin(std::string_view file) : file_(file), budget_(kReadings * file.size()) {}

  bool open() {
    if (file_.size() < kHeaderBytes ||
        !file_.starts_with("\x7f"
                           "ELF\x02\x01") ||
        get<uint16_t>(file_, 18) != kMachineCuda || get<uint16_t>(file_, 0x3a) != kSectionBytes)
      return false;
    table_ = part(get<uint64_t>(file_, 0x28), uint64_t(get<uint16_t>(file_, 0x3c)) * kSectionBytes);
    const size_t names = get<uint16_t>(file_, 0x3e);
    if (names >= count())
      return false;
    for (size_t i = 0; i < count() && budget_; ++i)
      by_name_.emplace(text(bytes(names), get<uint32_t>(row(i), 0)), i);
    return budget_ != 0;
  }

  std::optional<std::vector<CodeEntry>> entries() {
    auto found = by_name_.find(".symtab");
    if (found == by_name_.end() || get<uint32_t>(row(found->second), 4) != kSymbolTable ||
        get<uint32_t>(row(found->second), 40) >= count())
      return std::nullopt;
    std::string_view symbols = bytes(found->second),
                     names = bytes(get<uint32_t>(row(found->second), 40));
    std::vector<CodeEntry> entries;
    for (; symbols.size() >= kSymbolBytes && budget_; symbols.remove_prefix(kSymbolBytes))
      if ((get<uint8_t>(symbols, 4) & 15) == kFunction && (get<uint8_t>(symbols, 5) & kIsKernel)) {
        std::string name(text(names, get<uint32_t>(symbols, 0)));
        auto params = read_params(name);
        entries.push_back({std::move(name), std::move(params)});
      }
    return budget_ ? std::optional(std::move(entries)) : std::nullopt;
  }

private:
  template <class T> static T get(std::string_view from, size_t at) {
    T value{};
    if (at <= from.size() && sizeof value <= from.size() - at)
      std::memcpy(&value, from.data() + at, sizeof value); // cubins and hosts are little-endian
    return value;
  }
  void spend(uint64_t bytes) { budget_ -= std::min(bytes, budget_); }

  std::string_view text(std::string_view table, size_t at) {
    std::string_view rest = table.substr(std::min(at, table.size()));
    rest = rest.substr(0, rest.find('\0'));
    spend(rest.size());
    return rest;
  }

  std::string_view part(uint64_t offset, uint64_t size) const {
    if (offset > file_.size() || size > file_.size() - offset)
      return {};
    return file_.substr(offset, size);
  }
  size_t count() const { return table_.size() / kSectionBytes; }
  std::string_view row(size_t i) const { return table_.substr(i * kSectionBytes, kSectionBytes); }
  std::string_view bytes(size_t i) const {
    return part(get<uint64_t>(row(i), 24), get<uint64_t>(row(i), 32));
  }

  std::optional<std::vector<uint32_t>> read_params(const std::string &name) {
    auto found = by_name_.find(".nv.info." + name);
    if (found == by_name_.end())
      return std::nullopt;
    std::map<uint16_t, uint32_t> sizes; // by ordinal
    std::string_view info = bytes(found->second);
    spend(info.size());
    while (info.size() >= 4) {
      const uint8_t format = get<uint8_t>(info, 0), kind = get<uint8_t>(info, 1);
      const size_t size = format == kSizedFormat ? 4 + size_t(get<uint16_t>(info, 2)) : 4;
      if (kind == kParamInfo2)
        return std::nullopt;
      if (format == kSizedFormat && kind == kParamInfo)
        sizes[get<uint16_t>(info, 8)] = get<uint32_t>(info, 12) >> 18;
      info.remove_prefix(std::min(size, info.size()));
    }
    std::vector<uint32_t> params;
    for (const auto &[ordinal, size] : sizes) {
      if (ordinal != params.size())
        return std::nullopt;
      params.push_back(size);
    }
    return params;
  }

  std::string_view file_, table_;
  uint64_t budget_; // bytes that may still be read; 0: refused
  std::map<std::string_view, size_t> by_name_;
};

// ---- what a plan wants of them

Result<const CodeEntry *> find_entry(const std::vector<CodeEntry> &entries,
                                     const std::string &name) {
  std::string list;
  for (const CodeEntry &entry : entries) {
    if (entry.name == name)
      return &entry;
    if (list.size() < kMaxListedBytes)
      list += (list.empty() ? "" : ", ") + entry.name;
  }
  return Status::error(Code::not_found,
                       "the code has no kernel '" + name + "'; it has " +
                           (list.empty() ? "none" : list) +
                           (list.find("_Z") == list.npos ? "" : " (declare it extern \"C\")"));
}

Status check_params(const CodeEntry &entry, const std::vector<size_t> &arguments) {
  if (!entry.param_bytes)
    return {};
  const std::vector<uint32_t> &compiled = *entry.param_bytes;
  const std::string prefix = "kernel '" + entry.name + "': ";
  if (arguments.size() != compiled.size())
    return Status::error(Code::invalid_argument,
                         prefix + "declared with " + std::to_string(arguments.size()) +
                             " parameters, compiled with " + std::to_string(compiled.size()) +
                             "; correct the declaration");
  for (size_t i = 0; i < compiled.size(); ++i)
    if (arguments[i] != compiled[i])
      return Status::error(Code::invalid_argument,
                           prefix + "parameter " + std::to_string(i) + " is declared with " +
                               std::to_string(arguments[i]) + " bytes, compiled with " +
                               std::to_string(compiled[i]) + "; correct the declaration");
  return {};
}

/// Entries of each image; nothing if its form is unknown.
using ImageEntries = std::vector<std::optional<std::vector<CodeEntry>>>;

Status check_kernel(const plan::Kernel &kernel,
                    const std::optional<std::vector<CodeEntry>> &entries) {
  for (const std::string &name : kernel.entries)
    if (entries)
      if (auto found = find_entry(*entries, name); !found.ok())
        return found.take_status().in("kernel @" + kernel.name);
  return {};
}

} // namespace

std::optional<std::vector<CodeEntry>> read_code_entries(std::string_view image, bool cubin) {
  if (!cubin)
    return read_ptx_entries(image);
  Cubin file(image);
  return file.open() ? file.entries() : std::nullopt;
}

std::vector<size_t> argument_bytes(const FunctionProgram &program, const StepVariant &variant) {
  std::vector<size_t> sizes;
  for (uint32_t i = variant.sources.begin; i < variant.sources.end(); ++i) {
    const ValueSource &source = program.sources[i];
    if (source.joined) {
      sizes.back() += sizeof(uint64_t);
      continue;
    }
    bool pointer = source.kind == ValueSource::Kind::address;
    sizes.push_back(pointer ? sizeof(CUdeviceptr) : ir::scalar_bytes(source.dtype));
  }
  return sizes;
}

Status check_code(const Executable &executable) {
  const plan::Plan &plan = executable.plan();
  ImageEntries images;
  for (const CodeImage &image : executable.images())
    images.push_back(read_code_entries(image.bytes, image.cubin));
  for (uint32_t k = 0; k < plan.kernels.size(); ++k)
    CUGRT_TRY(check_kernel(plan.kernels[k], images[executable.image_of(k)]));
  for (size_t f = 0; f < plan.functions.size(); ++f) {
    const FunctionProgram &program = executable.program(f);
    for (const StepVariant &variant : program.variants) {
      if (variant.kind != VariantKind::kernel || !images[executable.image_of(variant.kernel)])
        continue;
      const plan::Kernel &kernel = plan.kernels[variant.kernel];
      CUGRT_ASSIGN(const CodeEntry *entry, find_entry(*images[executable.image_of(variant.kernel)],
                                                      kernel.entries[variant.variant]));
      if (Status status = check_params(*entry, argument_bytes(program, variant)); !status.ok())
        return std::move(status)
            .in("kernel @" + kernel.name)
            .at(executable.location(plan.functions[f].steps[variant.step].location));
    }
  }
  return {};
}

} // namespace cugrt::runtime
