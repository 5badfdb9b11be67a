// Sizes and places of an adapter's factors; see lora_layout.h.
#include "fronts/llm/architectures/lora_layout.h"

#include <algorithm>

namespace cugrt::llm {

constexpr uint64_t kAlignment = 256;

static uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Result<LoraTargets> parse_lora_targets(std::string_view text) {
  LoraTargets targets = text.empty() ? kLayerLoraTargets : 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view name = text.substr(0, end);
    const auto *const found = std::ranges::find(kLoraTargets, name, &LoraTargetInfo::module);
    if (found == std::end(kLoraTargets))
      return Status::error(Code::invalid_argument, "'" + std::string(name) +
                                                       "' is no target of adapters; targets are " +
                                                       lora_targets_text(kAllLoraTargets));
    targets |= 1u << (found - std::begin(kLoraTargets));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return targets;
}

std::string lora_targets_text(LoraTargets targets) {
  std::string text;
  for (size_t i = 0; i < std::size(kLoraTargets); ++i)
    if (targets >> i & 1)
      text += (text.empty() ? "" : ",") + std::string(kLoraTargets[i].module);
  return text;
}

const LoraSite *LoraLayout::find(std::string_view name) const {
  const auto site = std::ranges::find(sites, name, &LoraSite::name);
  return site == sites.end() ? nullptr : &*site;
}

LoraSite lora_site(const Decoder &decoder, int64_t vocabulary, LoraTarget target, int64_t layer) {
  const LoraTargetInfo &info = kLoraTargets[static_cast<size_t>(target)];
  LoraSite site;
  site.target = target;
  site.layer = layer;
  site.name = (layer < 0 ? "" : "blk." + std::to_string(layer) + ".") + std::string(info.name);
  const int64_t q = decoder.heads * decoder.head_width, kv = decoder.kv_heads * decoder.head_width;
  const auto sized = [&](int64_t in, int64_t out) {
    site.in = in;
    site.out = out;
  };
  switch (target) {
  case LoraTarget::q:
    sized(decoder.width, q);
    site.interleaved_heads = decoder.rope_interleaved ? decoder.heads : 0;
    break;
  case LoraTarget::k:
    sized(decoder.width, kv);
    site.interleaved_heads = decoder.rope_interleaved ? decoder.kv_heads : 0;
    break;
  case LoraTarget::v:
    sized(decoder.width, kv);
    break;
  case LoraTarget::o:
    sized(q, decoder.width);
    break;
  case LoraTarget::gate:
  case LoraTarget::up:
    sized(decoder.width, decoder.inner);
    break;
  case LoraTarget::down:
    sized(decoder.inner, decoder.width);
    break;
  case LoraTarget::embedding:
    sized(vocabulary, decoder.width);
    break;
  case LoraTarget::head:
    sized(decoder.width, vocabulary);
    break;
  }
  return site;
}

LoraLayout make_lora_layout(const Decoder &decoder, int64_t vocabulary, ir::DType dtype,
                            int64_t rank, LoraTargets targets) {
  LoraLayout layout;
  layout.dtype = dtype;
  layout.rank = (rank + 7) / 8 * 8;
  for (int64_t layer = -1; layer < decoder.layers; ++layer) {
    uint8_t last = UINT8_MAX;
    for (size_t i = 0; i < std::size(kLoraTargets); ++i) {
      const LoraTargetInfo &info = kLoraTargets[i];
      if (!(targets >> i & 1) || info.is_of_layer != (layer >= 0))
        continue;
      LoraSite site = lora_site(decoder, vocabulary, static_cast<LoraTarget>(i), layer);
      if (std::exchange(last, info.group) != info.group)
        layout.groups.push_back({site.in});
      LoraGroup &group = layout.groups.back();
      site.group = layout.groups.size() - 1;
      site.column = group.columns;
      group.columns += layout.rank;
      layout.sites.push_back(std::move(site));
    }
  }
  const auto element = uint64_t(ir::info(dtype).bytes_per_block);
  uint64_t at = kAlignment; // behind the scale
  const auto place = [&](int64_t rows, int64_t columns) {
    return std::exchange(at, aligned(at + uint64_t(rows) * uint64_t(columns) * element));
  };
  for (LoraGroup &group : layout.groups)
    group.a_at = place(group.columns, group.in);
  for (LoraSite &site : layout.sites)
    site.b_at = place(site.out, layout.groups[site.group].columns);
  layout.bytes = at;
  return layout;
}

} // namespace cugrt::llm
