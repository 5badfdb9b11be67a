// Packs and .npy files by their grammars: manifests that mostly agree with their plans, headers
// that mostly agree with their data.
#pragma once

#include "device/pack/pack.h"
#include "grammar.h"
#include "support/reseal_pack.h"

namespace cugrt::test::grammar {

/// A pack of `plans` (in their CBOR form); each of them has `kernels` kernels of one variant.
inline std::string pack_file(Choices &c, const std::vector<std::string> &plans, size_t kernels) {
  using namespace runtime;
  std::vector<std::string> images;
  PackContents contents;
  contents.module_name = c.one_of<std::string_view>({"main", "", "a/b", "two words"});
  contents.notes = c.one_of<std::string_view>({"", "\x80", "no notes"});
  const size_t plan_count = c.chance(8) ? c.times() : 1 + c.below(plans.size());
  for (size_t i = 0; i < plan_count; ++i)
    contents.plans.push_back(plans[c.chance(8) ? c.below(plans.size()) : i % plans.size()]);
  const size_t image_count = c.times();
  images.reserve(image_count);
  for (size_t i = 0; i < image_count; ++i) {
    images.push_back(c.one_of<std::string>({".version 8.0\n.target sm_80\n",
                                            "\x7f"
                                            "ELF\2\1\1",
                                            "", "a"}) +
                     std::string(c.times(), c.chance(4) ? '\0' : ' '));
    contents.images.push_back(
        {c.one_of<std::string_view>({"k", "", "k.cu"}), c.chance(2), images.back()});
  }
  const auto image = [&] {
    return uint32_t(c.chance(40) ? c.number() : int64_t(c.below(image_count)));
  };
  const size_t target_count = c.times();
  for (size_t i = 0; i < target_count; ++i) {
    const std::string_view known[] = {"sm_90",  "compute_75", "sm_80",
                                      "sm_120", "compute_90", "sm_90a"};
    PackTarget target{c.chance(30) ? c.one_of<std::string_view>({"", "sm_", "sm_9999", "gfx90a"})
                                   : known[(i + c.below(2)) % std::size(known)]};
    target.plan = uint32_t(c.chance(30) ? c.number() : int64_t(c.below(plan_count)));
    if (c.chance(3))
      target.transfer_image = image();
    if (c.chance(3))
      target.control_image = image();
    for (size_t k = c.chance(30) ? c.times() : kernels; k > 0; --k)
      target.kernel_images.push_back(image());
    for (size_t k = c.chance(30) ? c.times() : kernels; k > 0; --k)
      target.variant_flags.push_back(uint8_t(c.chance(30) ? c.below(256) : c.below(4)));
    contents.targets.push_back(std::move(target));
  }
  const std::string weights = safetensors_file(c);
  contents.weights.kind = PackWeights::Kind(c.below(3));
  if (contents.weights.kind == PackWeights::Kind::inside)
    contents.weights.parts = {weights};
  if (contents.weights.kind == PackWeights::Kind::file) {
    contents.weights.file_name = c.one_of<std::string_view>({"w.safetensors", "../w", "", "."});
    contents.weights.file_bytes = uint64_t(c.number());
  }
  std::string file = write_pack(contents);
  for (size_t i = c.chance(2) ? 0 : c.below(4); i > 0; --i)
    file[(c.below(256) << 16 | c.below(256) << 8 | c.below(256)) % file.size()] =
        char(c.below(256));
  reseal_pack(file);
  return file;
}

/// Headers of every version, mostly as NumPy writes them.
inline std::string npy_file(Choices &c) {
  static constexpr struct {
    const char *descr;
    size_t bytes;
  } kDTypes[] = {{"<f4", 4}, {"<i8", 8}, {"|u1", 1}, {"<f2", 2},
                 {"|b1", 1}, {">f4", 4}, {"|O", 8},  {"<c8", 8}};
  const auto &dtype = kDTypes[c.below(std::size(kDTypes))];
  std::string shape, spaces(c.chance(8) ? c.times() * 40 : 1, ' ');
  size_t count = 1;
  const size_t rank = c.chance(20) ? c.times() : c.below(4);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t dim = c.small();
    shape += std::to_string(dim) + "," + spaces;
    count = dim >= 0 && dim < 64 ? std::min<size_t>(count * size_t(dim), 4096) : 0;
  }
  std::string fields[] = {"'descr': '" + std::string(dtype.descr) + "', ",
                          std::string("'fortran_order': ") + (c.chance(8) ? "True" : "False") +
                              ", ",
                          "'shape': (" + shape + "), "};
  std::string header = "{";
  for (size_t i = 0, at = c.below(3); i < (c.chance(12) ? c.times() : 3); ++i)
    header += fields[(at + i) % 3];
  header += c.chance(12) ? json_text(c) : "}\n";
  if (c.chance(20))
    header = std::string(c.times(), c.one_of<char>({'{', '(', '\'', ',', '9'})) + header;
  const size_t version = c.chance(12) ? c.below(6) : 1 + c.below(3);
  const uint64_t length = c.chance(20) ? uint64_t(c.number()) : header.size();
  return "\x93NUMPY" + std::string{char(version), '\0'} +
         little_endian(length).substr(0, version == 1 ? 2 : 4) + header +
         std::string(c.chance(8) ? c.times() : count * dtype.bytes, '\1');
}

} // namespace cugrt::test::grammar
