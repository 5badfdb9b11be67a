// See phase_attention.h.
#include "compiler/fused/phase_attention.h"

#include "compiler/fused/element_code.h"
#include "ops/emit/op_emitter.h"

#include <algorithm>
#include <cmath>

namespace cugrt::codegen {

/// The window in the table; without one, a number larger than every position.
static int64_t window_or_all(int64_t window) { return window > 0 ? window : INT32_MAX; }

std::optional<GroupedForm> AttentionPhases::form_of(const AttentionPhase &phase) {
  const ir::Type y = type_of(phase.result), keys = type_of(phase.keys);
  const GroupedCall call = {.dtype = y.dtype,
                            .cache = keys.dtype,
                            .sequences = constant(y.dims[0]),
                            .queries = constant(y.dims[1]),
                            .capacity = constant(keys.dims[1]),
                            .heads = constant(y.dims[2]),
                            .kv_heads = constant(keys.dims[2]),
                            .width = constant(y.dims[3]),
                            .window = phase.window,
                            .has_mask = false};
  return words_known_ ? grouped_form(call, table_.choice()) : std::nullopt;
}

void AttentionPhases::look_at(const PersistentRun &run) {
  std::optional<int64_t> window, splits;
  for (const auto &one : run.phases)
    if (const auto *phase = std::get_if<AttentionPhase>(&one))
      if (const std::optional<GroupedForm> form = form_of(*phase)) {
        windows_differ_ = windows_differ_ || phase->window != window.value_or(phase->window);
        splits_differ_ = splits_differ_ || form->splits != splits.value_or(form->splits);
        most_splits_ = std::max(most_splits_, form->splits);
        window = phase->window, splits = form->splits;
      }
}

std::string AttentionPhases::options_of(const AttentionPhase &phase, const GroupedForm &form) {
  const bool has_lengths = phase.lengths.valid(), has_places = phase.places.valid();
  const auto is_wide = [&](ir::ValueId ids) { return type_of(ids).dtype == ir::DType::i64; };
  const std::string window = windows_differ_ ? "window_of_phase" : std::to_string(phase.window);
  return "#define MAX_WIDTH " + std::to_string(constant(type_of(phase.result).dims[3])) +
         "\n#define SHARE " + std::to_string(form.share) + "\n" +
         defined(type_of(phase.keys).dtype == ir::DType::q8_0, "CACHE_Q8_0") +
         defined(most_splits_ > 1, "SPLIT " + std::to_string(most_splits_)) +
         defined(splits_differ_, "MOST_CHUNKS chunks_of_phase") + defined(phase.causal, "CAUSAL") +
         defined(has_lengths, "HAS_LENGTHS") +
         defined(has_lengths && is_wide(phase.lengths), "WIDE_LENGTHS") +
         defined(has_places, "HAS_PLACES") +
         defined(has_places && is_wide(phase.places), "WIDE_PLACES") +
         defined(windows_differ_ || phase.window > 0, "WINDOW " + window);
}

/// Sets where chunks leave their parts.
void AttentionPhases::add_parts(Phase &made, const AttentionPhase &phase, const GroupedForm &form) {
  const ir::Type y = type_of(phase.result);
  const int64_t sequences = constant(y.dims[0]), heads = constant(y.dims[2]),
                width = constant(y.dims[3]), units = heads / form.share;
  const ir::ExprId count = exprs().constant(sequences * heads * most_splits_ * (width + 2));
  const ir::ValueId parts =
      builder_.alloc("parts", builder_.module().types.tensor(wide_type(y.dtype), {count}));
  made.entries.push_back(address("Acc", "parts", parameter(parts, ir::Access::out)));
  made.entries.push_back(
      address("unsigned", "counters", words_at(take_words((sequences * units + 1) / 2))));
}

Result<Phase> AttentionPhases::write(const AttentionPhase &phase) {
  const ir::Type q = type_of(phase.q), keys = type_of(phase.keys);
  const ir::Type result = type_of(phase.result);
  const int64_t sequences = constant(result.dims[0]), queries = constant(result.dims[1]),
                heads = constant(result.dims[2]), width = constant(result.dims[3]),
                kv_heads = constant(keys.dims[2]), capacity = constant(keys.dims[1]);
  const auto arrived = [&](ir::ValueId cache) { return arrivals_.find(cache.index); };
  if (!words_known_ || !q.strides.empty() || !keys.strides.empty() || !is_exchanged(phase.q) ||
      !is_exchanged(phase.result) || arrived(phase.keys) == arrivals_.end() ||
      arrived(phase.values) == arrivals_.end())
    return unsupported("attention is a phase between others of the same dtype");
  const std::optional<GroupedForm> form = form_of(phase);
  if (!form || queries != 1)
    return unsupported("attention of this form is no phase");
  const int64_t units = heads / form->share, pieces = sequences * units * form->splits;
  const bool has_lengths = phase.lengths.valid(), has_places = phase.places.valid();
  const std::string options = options_of(phase, *form);
  if (!options_.empty() && options_ != options)
    return unsupported("attention is of one form in all phases");
  options_ = options;
  grouped_ = *form;
  most_attended_ = std::max(most_attended_, sequences * heads * width);

  Phase made;
  made.blocks = std::min(pieces, form->blocks);
  const auto &[keys_at, key_tiles] = arrived(phase.keys)->second;
  const auto &[values_at, value_tiles] = arrived(phase.values)->second;
  made.entries = {
      taken("from_q", rows(phase.q, ir::Access::in)),
      address("const Cached", "keys", parameter(phase.keys, ir::Access::in)),
      address("const Cached", "values", parameter(phase.values, ir::Access::in)),
      address("u64", "arrived_keys", words_at(keys_at)),
      address("u64", "arrived_values", words_at(values_at)),
      given(std::string(element_type(q.dtype)), "y", rows(phase.result, ir::Access::out))};
  if (has_lengths)
    made.entries.push_back(
        address("const attention::Length", "lengths", parameter(phase.lengths, ir::Access::in)));
  if (has_places)
    made.entries.push_back(
        address("const attention::Place", "places", parameter(phase.places, ir::Access::in)));
  if (most_splits_ > 1)
    add_parts(made, phase, *form);
  for (const auto &[name, value] : {std::pair<std::string, int64_t>{"sequences", sequences},
                                    {"queries", queries},
                                    {"heads", heads},
                                    {"kv_heads", kv_heads},
                                    {"width", width},
                                    {"capacity", capacity},
                                    {"key_tiles", key_tiles},
                                    {"value_tiles", value_tiles}})
    made.constants += whole(name, value);
  if (has_places)
    made.constants += whole("cache_rows", constant(keys.dims[0]));
  made.constants += number("scale", phase.scale == 0 ? 1 / std::sqrt(double(width)) : phase.scale);
  std::string differing; // is read by the block once it has met
  const auto differ = [&](bool differs, const std::string &name, int64_t value) {
    if (!differs)
      return;
    made.entries.push_back(
        {"const unsigned own_" + name + " = unsigned(", ")", std::to_string(value)});
    differing += "    if (walk.thread == 0)\n      " + name + "_of_phase = own_" + name + ";\n";
  };
  differ(windows_differ_, "window", window_or_all(phase.window));
  differ(splits_differ_, "chunks", form->splits);
  made.before = "  if (number < gridDim.x) {\n" + differing +
                "    walk.await(arrived_keys, key_tiles);\n"
                "    walk.await(arrived_values, value_tiles);\n"
                "  }\n"
                "  given = {from_q, int(sequences * heads * width), false, nullptr, nullptr};\n";
  made.after = std::string("  Byte *const ring = memory_of_block + RINGS_AT;\n"
                           "  const T *const q = SHARED.given;\n"
                           "  if (walk.thread < attention::kThreads)\n"
                           "    attention::attend_pieces(ring + 8 * WARP_RING, "
                           "walk.thread, unsigned(number), unsigned(row[2]), q,\n"
                           "                             keys, values, ") +
               (has_lengths ? "lengths, " : "") + (has_places ? "places, " : "") +
               (most_splits_ > 1 ? "parts, counters, " : "") +
               "y, sequences, queries, heads, kv_heads,\n"
               "                             width, capacity, " +
               (has_places ? "cache_rows, " : "") +
               "scale);\n"
               "  __syncthreads();\n  return true;\n";
  return made;
}

std::string AttentionPhases::attention_text() const {
  if (options_.empty())
    return "";
  return options_ + "#define STAGES " + std::to_string(grouped_.stages) +
         "\n#define ATTENDED Given<T>\n"
         "#define MEET() asm volatile(\"bar.sync 1, %0;\" ::\"n\"(kThreads) : \"memory\")\n"
         "#include \"builtin:cached.cuh\"\n#include \"builtin:mma.cuh\"\n" +
         (windows_differ_ || splits_differ_
              ? "__shared__ unsigned window_of_phase, chunks_of_phase;\n"
              : "") +
         "namespace attention {\n#include \"builtin:grouped_pieces.cuh\"\n}\n\n";
}

} // namespace cugrt::codegen
