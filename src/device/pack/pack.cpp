// Writing and reading of packs; see pack.h.
#include "device/pack/pack.h"

#include "base/architectures.h"
#include "base/little_endian.h"
#include "cugrt/cugrt.h"
#include "plan/bytes/serialize.h"

#include <algorithm>

namespace cugrt::runtime {

using namespace little_endian;

namespace {

constexpr std::string_view kMagic = CUGRT_PACK_MAGIC;
constexpr uint32_t kFormatVersion = 1;
constexpr size_t kHeaderBytes = 64, kDigestOffset = 32;
constexpr size_t kRowBytes = 64, kRowDigestOffset = 32;
constexpr size_t kSectionAlignment = 64, kFieldBytes = 8;
constexpr uint64_t kNoImage = UINT64_MAX;
constexpr uint32_t kPlaces[] = {0, 1, 2, 3, 5, 4}; // where sections stand, by kind

void put_text(std::string &bytes, std::string_view text) {
  put(bytes, uint64_t(text.size()));
  bytes += text;
  bytes.append((kFieldBytes - text.size() % kFieldBytes) % kFieldBytes, '\0');
}

size_t aligned(size_t offset_bytes) {
  return (offset_bytes + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

Digest head_digest(std::string_view head, std::string_view table) {
  return Digester().field(head.substr(0, kDigestOffset)).field(table).finish();
}

const char *section_name(PackSection kind) {
  constexpr const char *kNames[] = {"", "manifest", "plan", "image", "weights", "notes"};
  return kNames[static_cast<size_t>(kind)];
}

std::string write_manifest(const PackContents &contents) {
  std::string bytes;
  put_text(bytes, contents.module_name);
  put(bytes, static_cast<uint64_t>(contents.weights.kind));
  put_text(bytes, contents.weights.file_name);
  put(bytes, contents.weights.file_bytes);
  put(bytes, contents.weights.file_digest);
  put(bytes, uint64_t(contents.plans.size()));
  put(bytes, uint64_t(contents.images.size()));
  for (const PackImage &image : contents.images) {
    put_text(bytes, image.name);
    put(bytes, uint64_t(image.cubin));
  }
  put(bytes, uint64_t(contents.targets.size()));
  for (const PackTarget &target : contents.targets) {
    put_text(bytes, target.architecture);
    put(bytes, uint64_t(target.plan));
    for (uint32_t own : {target.transfer_image, target.control_image})
      put(bytes, own == UINT32_MAX ? kNoImage : uint64_t(own));
    put(bytes, uint64_t(target.kernel_images.size()));
    for (uint32_t image : target.kernel_images)
      put(bytes, uint64_t(image));
    put(bytes, uint64_t(target.variant_flags.size()));
    for (uint8_t flags : target.variant_flags)
      put(bytes, uint64_t(flags));
  }
  return bytes;
}

// --- Reading -------------------------------------------------------------------------------------

struct Section {
  PackSection kind = PackSection::manifest;
  size_t index = 0, offset_bytes = 0;
  std::string_view bytes;

  /// Makes an error about the bytes at `at` in the section.
  Status error(size_t at, const std::string &what) const {
    return Status::error(Code::parse_error, "section " + std::to_string(index) + " (" +
                                                section_name(kind) + ") at offset " +
                                                std::to_string(offset_bytes + at) + ": " + what);
  }
};

Status header_error(size_t offset_bytes, const std::string &what) {
  return Status::error(Code::parse_error,
                       "header at offset " + std::to_string(offset_bytes) + ": " + what);
}

bool all_zero(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

/// Reads the manifest's fields one after the other, never beyond its end.
class FieldReader {
public:
  explicit FieldReader(const Section &section) : section_(section) {}

  Status error(const std::string &what) const { return section_.error(last_, what); }

  Status number(uint64_t &value, const char *what) {
    CUGRT_TRY(room(kFieldBytes, what));
    value = get<uint64_t>(section_.bytes, last_);
    return {};
  }
  /// Reads a number below `end`.
  Status index(uint32_t &value, uint64_t end, const char *what) {
    uint64_t wide = 0;
    CUGRT_TRY(number(wide, what));
    if (wide >= end || wide >= UINT32_MAX)
      return error(std::string(what) + " is " + std::to_string(wide) + ", there are " +
                   std::to_string(end));
    value = static_cast<uint32_t>(wide);
    return {};
  }
  /// Reads a number of rows of at least `row_bytes` each, which must fit in the bytes that follow.
  Status count(size_t &value, size_t row_bytes, const char *what) {
    uint64_t wide = 0;
    CUGRT_TRY(number(wide, what));
    if (wide > left() / row_bytes || wide >= UINT32_MAX)
      return error(std::string(what) + " is " + std::to_string(wide) + ", more than has room");
    value = static_cast<size_t>(wide);
    return {};
  }
  Status text(std::string_view &value, const char *what) {
    uint64_t length = 0;
    CUGRT_TRY(number(length, what));
    if (length > left() || (kFieldBytes - length % kFieldBytes) % kFieldBytes > left() - length)
      return error(std::string(what) + " has " + std::to_string(length) +
                   " bytes, more than has room");
    value = section_.bytes.substr(at_, length);
    at_ += length;
    std::string_view padding =
        section_.bytes.substr(at_, (kFieldBytes - length % kFieldBytes) % kFieldBytes);
    at_ += padding.size();
    if (value.find('\0') != value.npos || !all_zero(padding))
      return error(std::string(what) + " holds a zero byte, or something stands behind it");
    return {};
  }
  Status digest(Digest &value, const char *what) {
    CUGRT_TRY(room(value.size(), what));
    value = get_digest(section_.bytes, last_);
    return {};
  }
  Status finish() {
    last_ = at_;
    return left() == 0 ? Status() : error("something stands behind the last target");
  }

private:
  size_t left() const { return section_.bytes.size() - at_; }
  /// Checks that a field at last_ has room.
  Status room(size_t bytes, const char *what) {
    last_ = at_;
    if (left() < bytes)
      return error(std::string("it ends before ") + what);
    at_ += bytes;
    return {};
  }

  const Section &section_;
  size_t at_ = 0, last_ = 0; // next field; the one that was taken last
};

class PackReader {
public:
  explicit PackReader(Pack &pack) : pack_(pack), file_(pack.file.view) {}

  Status read() {
    CUGRT_TRY(read_header());
    CUGRT_TRY(read_table());
    FieldReader manifest(sections_.front());
    CUGRT_TRY(read_weights(manifest));
    CUGRT_TRY(read_plans(manifest));
    CUGRT_TRY(read_images(manifest));
    CUGRT_TRY(read_targets(manifest));
    CUGRT_TRY(manifest.finish());
    return check_sections();
  }

private:
  Status read_header() {
    if (file_.size() < kHeaderBytes || !file_.starts_with(kMagic))
      return header_error(0, "the file does not begin as a pack of cugrt");
    if (auto version = get<uint32_t>(file_, 8); version != kFormatVersion)
      return Status::error(Code::unsupported, "the pack has version " + std::to_string(version) +
                                                  ", this library reads " +
                                                  std::to_string(kFormatVersion) +
                                                  "; make the pack again from its module");
    count_ = get<uint32_t>(file_, 12);
    if (count_ == 0 || count_ > (file_.size() - kHeaderBytes) / kRowBytes)
      return header_error(12, "a table of " + std::to_string(count_) +
                                  " sections has no room in the file; it may be truncated");
    if (get<uint64_t>(file_, 16) != file_.size())
      return header_error(16, "the file has " + std::to_string(file_.size()) +
                                  " bytes, but was written with " +
                                  std::to_string(get<uint64_t>(file_, 16)) + "; copy it again");
    if (get<uint64_t>(file_, 24) != 0)
      return header_error(24, "it is not zero");
    if (head_digest(file_, file_.substr(kHeaderBytes, count_ * kRowBytes)) !=
        get_digest(file_, kDigestOffset))
      return header_error(kDigestOffset,
                          "the digest does not agree; the file is damaged, copy it again");
    return {};
  }

  /// Reads sections, which must follow each other in the order of kinds without gaps.
  Status read_table() {
    size_t end = kHeaderBytes + count_ * kRowBytes;
    for (size_t i = 0; i < count_; ++i) {
      size_t row = kHeaderBytes + i * kRowBytes;
      auto bad = [&](size_t at, const std::string &what) {
        return header_error(row + at, "row of section " + std::to_string(i) + ": " + what);
      };
      auto kind = get<uint32_t>(file_, row);
      const uint32_t place = kind < std::size(kPlaces) ? kPlaces[kind] : 0;
      const size_t least = i < 2 ? i + 1 : kPlaces[size_t(sections_.back().kind)];
      if (place < least || (i == 0 && place != 1))
        return bad(0, "kind " + std::to_string(kind) + " cannot stand here");
      if (get<uint32_t>(file_, row + 4) != 0 || get<uint64_t>(file_, row + 24) != 0)
        return bad(4, "a field that must be zero is not");
      auto offset = get<uint64_t>(file_, row + 8), size = get<uint64_t>(file_, row + 16);
      if (offset != aligned(end) || offset > file_.size())
        return bad(8, "the offset is " + std::to_string(offset) + ", not " +
                          std::to_string(aligned(end)));
      if (size > file_.size() - offset || (place == 4 && size == 0))
        return bad(16, "its " + std::to_string(size) + " bytes do not lie within the file");
      if (!all_zero(file_.substr(end, offset - end)))
        return header_error(end, "what stands between sections is not zero");
      Section section{static_cast<PackSection>(kind), i, offset, file_.substr(offset, size)};
      if (pack_digest(section.bytes) != get_digest(file_, row + kRowDigestOffset))
        return section.error(0, "the digest does not agree; the file is damaged, copy it again");
      sections_.push_back(section);
      end = offset + size;
    }
    return end == file_.size() ? Status()
                               : header_error(end, "something stands behind the last section");
  }

  /// Takes the first section of this kind that is not taken yet; null: none.
  const Section *take(PackSection kind) {
    return next_ < sections_.size() && sections_[next_].kind == kind ? &sections_[next_++]
                                                                     : nullptr;
  }

  Status read_weights(FieldReader &manifest) {
    PackWeights &weights = pack_.contents.weights;
    CUGRT_TRY(manifest.text(pack_.contents.module_name, "the module's name"));
    uint32_t kind = 0;
    CUGRT_TRY(manifest.index(kind, 3, "the kind of weights"));
    weights.kind = static_cast<PackWeights::Kind>(kind);
    bool is_file = weights.kind == PackWeights::Kind::file;
    CUGRT_TRY(manifest.text(weights.file_name, "the name of the weights' file"));
    // A pack of unknown origin must not choose which other files are read.
    std::string_view name = weights.file_name;
    if (is_file == name.empty() || name.find('/') != name.npos || name == "." || name == "..")
      return manifest.error("the weights' file '" + std::string(name) +
                            "' is not the name of a file beside the pack");
    CUGRT_TRY(manifest.number(weights.file_bytes, "the size of the weights' file"));
    CUGRT_TRY(manifest.digest(weights.file_digest, "the digest of the weights' file"));
    if (!is_file && (weights.file_bytes != 0 || weights.file_digest != Digest{}))
      return manifest.error("there is a size or a digest of a weights' file, but no file");
    return {};
  }

  Status read_plans(FieldReader &manifest) {
    uint64_t count = 0;
    CUGRT_TRY(manifest.number(count, "the number of plans"));
    while (const Section *section = take(PackSection::plan)) {
      auto plan = plan::from_bytes(section->bytes);
      if (!plan.ok())
        return Status::error(plan.status().code(),
                             section->error(0, plan.status().message()).message());
      if (plan::to_bytes(*plan) != section->bytes)
        return section->error(0, "the plan is not in the binary form that packs have");
      pack_.contents.plans.push_back(section->bytes);
      pack_.plans.push_back(std::move(*plan));
    }
    if (count != pack_.plans.size())
      return manifest.error("the number of plans is " + std::to_string(count) + ", but there are " +
                            std::to_string(pack_.plans.size()) + " sections of them");
    return {};
  }

  Status read_images(FieldReader &manifest) {
    size_t count = 0;
    CUGRT_TRY(manifest.count(count, 2 * kFieldBytes, "the number of images"));
    for (size_t i = 0; i < count; ++i) {
      PackImage image;
      CUGRT_TRY(manifest.text(image.name, "an image's name"));
      uint32_t cubin = 0;
      CUGRT_TRY(manifest.index(cubin, 2, "an image's kind"));
      image.cubin = cubin != 0;
      const Section *section = take(PackSection::image);
      if (!section)
        return manifest.error("image " + std::to_string(i) + " has no section");
      if (!image.cubin && section->bytes.find('\0') != std::string_view::npos)
        return section->error(section->bytes.find('\0'), "there is a zero byte in PTX");
      image.bytes = section->bytes;
      pack_.contents.images.push_back(image);
    }
    return {};
  }

  Status read_targets(FieldReader &manifest) {
    size_t count = 0;
    CUGRT_TRY(manifest.count(count, 6 * kFieldBytes, "the number of targets"));
    for (size_t i = 0; i < count; ++i)
      CUGRT_TRY(read_target(manifest));
    return count != 0 ? Status() : manifest.error("there is no target");
  }

  Status read_target(FieldReader &manifest) {
    PackTarget target;
    CUGRT_TRY(manifest.text(target.architecture, "a target's architecture"));
    auto architecture = jit::parse_architecture(target.architecture);
    if (!architecture.ok())
      return manifest.error(architecture.status().message());
    for (const PackTarget &other : pack_.contents.targets)
      if (other.architecture == target.architecture)
        return manifest.error("target " + std::string(target.architecture) + " is there twice");
    CUGRT_TRY(manifest.index(target.plan, pack_.plans.size(), "a target's plan"));
    CUGRT_TRY(read_own_image(manifest, target.transfer_image, *architecture));
    CUGRT_TRY(read_own_image(manifest, target.control_image, *architecture));
    size_t kernels = 0;
    CUGRT_TRY(manifest.count(kernels, kFieldBytes, "a target's number of kernels"));
    if (size_t planned = pack_.plans[target.plan].kernels.size(); kernels != planned)
      return manifest.error("a target has " + std::to_string(kernels) + " kernels, its plan " +
                            std::to_string(planned));
    for (size_t k = 0; k < kernels; ++k) {
      uint64_t image = 0;
      CUGRT_TRY(manifest.number(image, "a kernel's image"));
      CUGRT_TRY(check_image(manifest, image, *architecture));
      target.kernel_images.push_back(static_cast<uint32_t>(image));
    }
    CUGRT_TRY(read_variants(manifest, target));
    pack_.contents.targets.push_back(std::move(target));
    return {};
  }

  Status read_own_image(FieldReader &manifest, uint32_t &own,
                        const jit::Architecture &architecture) {
    uint64_t image = 0;
    CUGRT_TRY(manifest.number(image, "an image of the library's own kernels"));
    if (image == kNoImage)
      return {};
    CUGRT_TRY(check_image(manifest, image, architecture));
    own = static_cast<uint32_t>(image);
    return {};
  }

  Status read_variants(FieldReader &manifest, PackTarget &target) {
    size_t planned = 0, count = 0;
    for (const plan::Kernel &kernel : pack_.plans[target.plan].kernels)
      planned += kernel.entries.size();
    CUGRT_TRY(manifest.count(count, kFieldBytes, "a target's number of variants"));
    if (count != planned)
      return manifest.error("a target has " + std::to_string(count) + " variants, its plan " +
                            std::to_string(planned));
    for (size_t i = 0; i < count; ++i) {
      uint32_t flags = 0;
      CUGRT_TRY(manifest.index(flags, 4, "a variant's flags"));
      target.variant_flags.push_back(static_cast<uint8_t>(flags));
    }
    return {};
  }

  Status check_image(const FieldReader &manifest, uint64_t image,
                     const jit::Architecture &architecture) const {
    const std::vector<PackImage> &images = pack_.contents.images;
    if (image >= images.size())
      return manifest.error("image " + std::to_string(image) + " is named, there are " +
                            std::to_string(images.size()));
    if (images[image].cubin && !architecture.real)
      return manifest.error("image " + std::to_string(image) + " is a cubin, but its target is " +
                            jit::architecture_text(architecture));
    return {};
  }

  /// Reads operations and weights inside, and checks that every section was taken.
  Status check_sections() {
    if (const Section *section = take(PackSection::notes))
      pack_.contents.notes = section->bytes;
    PackWeights &weights = pack_.contents.weights;
    if (weights.kind == PackWeights::Kind::inside) {
      const Section *section = take(PackSection::weights);
      if (!section)
        return sections_.front().error(
            0, "weights are said to be inside, but there is no section of them");
      weights.parts = {section->bytes};
      auto set =
          read_safetensors(pack_.file, section->offset_bytes, section->bytes.size(), "in the pack");
      if (!set.ok())
        return section->error(0, set.status().message());
      pack_.weights = std::move(*set);
    }
    if (next_ != sections_.size())
      return sections_[next_].error(0, "nothing in the manifest names this section");
    return {};
  }

  Pack &pack_;
  std::string_view file_;
  size_t count_ = 0, next_ = 1; // sections; the next to be taken
  std::vector<Section> sections_;
};

} // namespace

static uint64_t bytes_of(std::span<const std::string_view> parts) {
  uint64_t size_bytes = 0;
  for (const std::string_view part : parts)
    size_bytes += part.size();
  return size_bytes;
}

Digest pack_digest(std::span<const std::string_view> parts) {
  return Digester().field(parts).finish();
}

std::string write_pack_without_weights(const PackContents &contents) {
  const std::string manifest = write_manifest(contents);
  std::vector<std::pair<PackSection, std::vector<std::string_view>>> sections;
  sections.push_back({PackSection::manifest, {manifest}});
  for (std::string_view plan : contents.plans)
    sections.push_back({PackSection::plan, {plan}});
  for (const PackImage &image : contents.images)
    sections.push_back({PackSection::image, {image.bytes}});
  if (!contents.notes.empty())
    sections.push_back({PackSection::notes, {contents.notes}});
  if (contents.weights.kind == PackWeights::Kind::inside)
    sections.emplace_back(PackSection::weights, contents.weights.parts);

  std::string table;
  size_t end = kHeaderBytes + sections.size() * kRowBytes;
  for (const auto &[kind, parts] : sections) {
    const uint64_t size_bytes = bytes_of(parts);
    put(table, uint64_t(kind));
    put(table, uint64_t(aligned(end)));
    put(table, size_bytes);
    put(table, uint64_t(0));
    put(table, pack_digest(parts));
    end = aligned(end) + size_bytes;
  }
  std::string file(kMagic);
  file.reserve(end - bytes_of(contents.weights.parts));
  put(file, kFormatVersion);
  put(file, static_cast<uint32_t>(sections.size()));
  put(file, uint64_t(end));
  put(file, uint64_t(0));
  put(file, head_digest(file, table));
  file += table;
  for (const auto &[kind, parts] : sections) {
    file.resize(aligned(file.size()), '\0');
    if (kind != PackSection::weights)
      file += parts.front();
  }
  return file;
}

Result<Pack> read_pack(SharedBytes file, std::string name) {
  Pack pack;
  pack.name = std::move(name);
  pack.file = std::move(file);
  if (Status status = PackReader(pack).read(); !status.ok())
    return std::move(status).in("pack " + pack.name);
  return pack;
}

} // namespace cugrt::runtime
