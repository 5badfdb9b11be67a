// Packs: a module made ready for machines without a compiler. The file's format, written and read.
//
//   offset bytes
//        0     8  magic "cugrtpak"
//        8     4  format version
//       12     4  number of sections
//       16     8  the file's size
//       24     8  zero
//       32    32  digest of bytes 0 to 32 and of the section table
//       64  64 n  section table: kind (4), zero (4), offset (8), size (8), zero (8), digest (32)
//                 sections, each at a multiple of 64, zeros between them
//
// Sections stand in the order manifest, plans, images, notes, weights: one manifest, a plan in
// its CBOR form for each one that differs, an image for each unit of code and architecture, at most
// one of notes, a JSON text that reports read (library/compile/step_operations.h), and at most one
// of weights, a safetensors file. The manifest says what belongs together. In it every number has 8
// bytes, and a text is its length and its bytes, filled up with zeros to a multiple of 8:
//
//   module's name
//   kind of weights; file's name; file's size; file's digest (32 bytes)
//   number of plans
//   number of images, for each: name, 1 for a cubin or 0 for PTX
//   number of targets, for each: architecture, plan, transfer image and control image (2^64 - 1:
//   none), number of kernels, the image of each, number of all kernels' variants, of each what
//   its PTX says about programmatic launch: 1 it waits first, 2 it triggers, 3 both, 0 neither
//
// Numbers are little-endian. A digest is SHA-256 of each part's length in 8 bytes and the part. A
// pack has one form: reading and writing gives the same bytes. A plan's constants are in the plan;
// sources of kernels are in no pack.
//
// Reading trusts nothing: sizes and counts are compared with what is there before anything is
// allocated for them, digests are compared, names and numbers checked, plans go through the
// validator. Errors name the section and the offset in the file.
#pragma once

#include "base/digest.h"
#include "device/code/weights.h"
#include "plan/format/plan.h"

namespace cugrt::runtime {

/// The names of section kinds are in messages; values are in files.
enum class PackSection : uint32_t { manifest = 1, plan = 2, image = 3, weights = 4, notes = 5 };

struct PackImage {
  std::string_view name; // for messages: the kernel's or its file's
  bool cubin = false;    // or PTX, without a NUL
  std::string_view bytes;
};

struct PackTarget {
  std::string_view architecture;         // sm_90, compute_75; each once
  uint32_t plan = 0;                     // PackContents::plans
  uint32_t transfer_image = UINT32_MAX;  // our own copy and fill kernels; none: UINT32_MAX
  uint32_t control_image = UINT32_MAX;   // our own kernels of conditional nodes; likewise
  std::vector<uint32_t> kernel_images{}; // of each kernel of the plan
  std::vector<uint8_t> variant_flags{};  // of each variant of each kernel, in order
};

inline constexpr uint8_t kPackWaitsFirst = 1, kPackTriggers = 2; // PackTarget::variant_flags

struct PackWeights {
  enum class Kind : uint8_t { none, file, inside };
  Kind kind = Kind::none;
  std::string_view file_name{}; // of a file beside the pack; no folder
  uint64_t file_bytes = 0;
  Digest file_digest{};
  std::vector<std::string_view> parts{}; // inside: a safetensors file; what was read is one
};

/// Contents of a pack, as views: of values to write, or of bytes that were read.
struct PackContents {
  std::string_view module_name;
  std::vector<std::string_view> plans; // CBOR
  std::vector<PackImage> images;
  std::vector<PackTarget> targets; // at least one
  std::string_view notes;          // for reports; may be empty
  PackWeights weights;
};

/// A pack that was read. Everything in it but notes was checked.
struct Pack {
  std::string name; // of the file, for messages
  SharedBytes file; // what the views point into
  PackContents contents;
  std::vector<plan::Plan> plans;
  WeightSet weights; // those inside
};

/// Limit for packs that are copied; files are mapped.
inline constexpr uint64_t kMaxPackBytes = uint64_t(1) << 40;

/// Writes a pack without the bytes of weights inside, which are its last section.
std::string write_pack_without_weights(const PackContents &contents);
inline std::string write_pack(const PackContents &contents) {
  std::string file = write_pack_without_weights(contents);
  for (const std::string_view part : contents.weights.parts)
    file += part;
  return file;
}
/// parse_error for a damaged file or one that is no pack; unsupported for another version.
Result<Pack> read_pack(SharedBytes file, std::string name);
/// The digest as packs have them.
Digest pack_digest(std::span<const std::string_view> parts);
inline Digest pack_digest(std::string_view bytes) { return pack_digest(std::span(&bytes, 1)); }

} // namespace cugrt::runtime
