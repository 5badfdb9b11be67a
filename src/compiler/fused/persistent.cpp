// The text of a kernel of phases, its table, and its launch; see persistent.h.
#include "compiler/fused/persistent.h"

#include "base/type/state_scope.h"
#include "compiler/fused/kernel_text.h"
#include "compiler/fused/phase_table.h"
#include "compiler/fused/phase_words.h"
#include "ops/attention/grouped_form.h"
#include "ops/emit/op_emitter.h"
#include "ops/linear/stream_form.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace cugrt::codegen {

namespace {

constexpr int64_t kPhaseWarps = 8; // of a block
/// Of shared memory: sums of warps and what else is of one size; what norms and attention have
/// beside; what the driver takes.
constexpr int64_t kSumBytes = 2 * 8 * 8 * 17 * 4 + 128, kStaticBytes = 1 << 10,
                  kDriverBytes = 1 << 10;
/// Of a launch, on every device and driver.
constexpr int64_t kMostParameterBytes = 4096, kSymbolBytes = 40;
constexpr int64_t kMostSlots = 4, kRingAlignment = 128;
constexpr int64_t kMostHead = 128; // of attention: beyond, ptxas spills

Status unsupported(std::string why) { return Status::error(Code::unsupported, std::move(why)); }

class PersistentWriter : PhaseWords {
public:
  PersistentWriter(KernelTable &table, ir::FunctionBuilder &builder, const PersistentRun &run)
      : PhaseWords(builder), table_(table), run_(run) {}

  Status run() {
    for (const ir::ValueId value : run_.exchanged)
      add_words(value, element_count(exprs(), type_of(value).dims));
    for (const auto &phase : run_.phases)
      if (const auto *product = std::get_if<ProductKernel>(&phase))
        CUGRT_TRY(add(*product));
      else
        CUGRT_TRY(add(std::get<AttentionPhase>(phase)));
    if (!words_known_)
      return unsupported("rows between phases are of no known size");
    return emit();
  }

private:
  Result<PhaseEntry> entry_of(const KernelParameter &p) {
    const bool is_beside = p.name.starts_with("beside");
    if (p.name == kPhaseRows)
      return taken(p.name, rows(p.tensor, p.access));
    if (p.access == ir::Access::out)
      return given(p.element, p.name, rows(p.tensor, p.access));
    if (is_beside)
      return PhaseEntry{"const Taken<" + p.element + "> " + p.name + " = {", ", walk}",
                        rows(p.tensor, p.access)};
    if (is_exchanged(p.tensor))
      return unsupported("%" + builder_.function().value(p.tensor).name +
                         " is read at other places than it is written at");
    const bool is_read = p.access == ir::Access::in;
    return address((is_read ? "const " : "") + p.element, p.name, parameter(p.tensor, p.access));
  }

  // --- Phases ------------------------------------------------------------------------------------

  Status add(const ProductKernel &kernel) {
    if (kernel.sum)
      return unsupported("a sum before a norm leaves a phase too few registers");
    if (constant(kernel.rows) != kernel.most_rows)
      return unsupported("the number of rows is not known");
    if (phases_.empty())
      dtype_ = kernel.dtype, rows_ = kernel.most_rows;
    if (kernel.dtype != dtype_ || kernel.most_rows != rows_)
      return unsupported("phases have one dtype and one number of rows");
    if (kernel.parts.front().products.empty())
      return add_heads(kernel);
    // Tiles of products have no whole heads: what norms these is a phase of its own.
    ProductKernel products = kernel, heads = kernel;
    heads.parts.clear();
    for (ProductPart &part : products.parts)
      if (part.turn && part.turn->norm) {
        const ir::ExprId columns = exprs().constant(part.columns);
        heads.parts.push_back(part);
        heads.parts.back().products.clear();
        heads.parts.back().head = part.turn->width;
        part.turn.reset();
        part.append.reset();
        part.result = heads.parts.back().heads =
            builder_.alloc("heads", builder_.module().types.tensor(dtype_, {kernel.rows, columns}));
        add_words(part.result, exprs().mul(kernel.rows, columns));
      }
    CUGRT_ASSIGN(ProductPhase made, write_phase(table_, builder_, products, units_));
    if (kernel.norm) {
      const std::string norm = norm_of(kernel);
      if (norm_.empty())
        options_ = made.options, norm_ = norm;
      if (norm_ != norm)
        return unsupported("norms of phases are of one kind, of rows of one length");
    }
    CUGRT_TRY(add(products, std::move(made)));
    return heads.parts.empty() ? Status() : add_heads(heads);
  }

  /// What normalises `given`, a Rows.
  static std::string norm_of(const ProductKernel &kernel) {
    const RowNorm &norm = *kernel.norm;
    const auto optional = [](ir::ValueId value, const std::string &name) {
      return value.valid() ? name : "nullptr";
    };
    return std::string("normalize_rows<") + (norm.op == ir::Op::rms_norm ? "true" : "false") +
           ">(SHARED.given, {" + optional(norm.scale, "given.scale") + ", " +
           optional(norm.bias, "given.bias") + ", " + acc(norm.epsilon) +
           "}, SHARED.normed,\n                         ROWS, " + std::to_string(kernel.depth) +
           ")";
  }

  Status add_heads(const ProductKernel &kernel) {
    for (const ProductPart &part : kernel.parts)
      most_given_ = std::max(most_given_, rows_ * part.head);
    CUGRT_ASSIGN(ProductPhase made, write_heads(table_, builder_, kernel));
    return add(kernel, std::move(made));
  }

  Status add(const ProductKernel &kernel, ProductPhase made) {
    Phase phase;
    phase.functions = std::move(made.functions);
    phase.declarations = std::move(made.declarations);
    phase.kept = std::move(made.kept);
    phase.tile = std::move(made.tile);
    phase.before = std::move(made.before);
    phase.after = std::move(made.after);
    phase.blocks = made.tiles;
    for (const KernelParameter &p : made.parameters) {
      const bool is_ahead =
          std::find(made.described.begin(), made.described.end(), p.name) != made.described.end();
      switch (p.kind) {
      case KernelParameter::Kind::size:
        if (is_ahead) // phases that differ in it are of one form
          phase.entries.push_back({"const long long " + p.name + " = (long long)", "",
                                   std::to_string(constant(p.size)), true});
        else
          phase.constants += whole(p.name, constant(p.size));
        break;
      case KernelParameter::Kind::scalar:
        phase.constants += number(p.name, p.scalar);
        break;
      case KernelParameter::Kind::symbol:
        phase.symbols.push_back(p.type + p.name);
        phase.arguments.push_back(symbol(p));
        break;
      case KernelParameter::Kind::tensor:
        CUGRT_ASSIGN(PhaseEntry entry, entry_of(p));
        entry.is_ahead = is_ahead;
        phase.entries.push_back(std::move(entry));
        break;
      }
    }
    for (size_t i = 0; i < kernel.parts.size(); ++i)
      if (const auto &append = kernel.parts[i].append) {
        const ProductPart &part = kernel.parts[i];
        const int64_t each = part.heads.valid() ? part.head : kStreamColumns,
                      tiles = (part.columns + each - 1) / each, at = take_words(tiles);
        arrivals_[append->cache.index] = {at, tiles};
        phase.entries.push_back(
            address("u64", std::string(kPhaseTiles) + std::to_string(i), words_at(at)));
      }
    uses_.add(made.uses);
    const int64_t elements = kernel.most_rows * kernel.depth;
    most_given_ = std::max(most_given_, elements);
    most_normed_ = std::max(most_normed_, kernel.norm ? elements : 1);
    most_products_ = std::max(most_products_, made.products);
    slot_bytes_ = std::max(slot_bytes_, (made.slot_bytes + kRingAlignment - 1) / kRingAlignment *
                                            kRingAlignment);
    has_numbers_ = has_numbers_ || made.has_numbers;
    has_repacked_ = has_repacked_ || made.has_repacked;
    is_scattered_ = is_scattered_ || made.is_scattered;
    phases_.push_back(std::move(phase));
    return {};
  }

  /// A parameter of the kernel, by what it is read from.
  std::string symbol(const KernelParameter &p) {
    const size_t number = number_of(symbol_texts_, p.type + p.symbol);
    if (number == symbols_.size())
      symbols_.push_back(p);
    return "s" + std::to_string(number);
  }

  std::optional<GroupedForm> form_of(const AttentionPhase &phase) {
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
  Status add(const AttentionPhase &phase) {
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
    if (width > kMostHead)
      return unsupported("heads of more than " + std::to_string(kMostHead) +
                         " elements leave a phase too few registers");
    const std::optional<GroupedForm> form = form_of(phase);
    if (!form || queries != 1)
      return unsupported("attention of this form is no phase");
    const int64_t units = heads / form->share, pieces = sequences * units * form->splits;
    const bool has_lengths = phase.lengths.valid();
    const bool has_places = phase.places.valid();
    const auto is_wide = [&](ir::ValueId ids) { return type_of(ids).dtype == ir::DType::i64; };
    std::string options = "#define MAX_WIDTH " + std::to_string(width) + "\n#define SHARE " +
                          std::to_string(form->share) + "\n";
    options += defined(keys.dtype == ir::DType::q8_0, "CACHE_Q8_0") +
               defined(form->splits > 1, "SPLIT " + std::to_string(form->splits)) +
               defined(phase.causal, "CAUSAL") + defined(has_lengths, "HAS_LENGTHS") +
               defined(has_lengths && is_wide(phase.lengths), "WIDE_LENGTHS") +
               defined(has_places, "HAS_PLACES") +
               defined(has_places && is_wide(phase.places), "WIDE_PLACES") +
               defined(phase.window > 0, "WINDOW " + std::to_string(phase.window));
    if (!attention_options_.empty() && attention_options_ != options)
      return unsupported("attention is of one form in all phases");
    attention_options_ = options;
    grouped_ = *form;
    most_given_ = std::max(most_given_, sequences * heads * width);

    Phase made;
    made.blocks = std::min(pieces, form->blocks);
    const std::string element(element_type(q.dtype));
    const auto &[keys_at, key_tiles] = arrived(phase.keys)->second;
    const auto &[values_at, value_tiles] = arrived(phase.values)->second;
    made.entries = {taken("from_q", rows(phase.q, ir::Access::in)),
                    address("const Cached", "keys", parameter(phase.keys, ir::Access::in)),
                    address("const Cached", "values", parameter(phase.values, ir::Access::in)),
                    address("u64", "arrived_keys", words_at(keys_at)),
                    address("u64", "arrived_values", words_at(values_at)),
                    given(element, "y", rows(phase.result, ir::Access::out))};
    if (has_lengths)
      made.entries.push_back(
          address("const attention::Length", "lengths", parameter(phase.lengths, ir::Access::in)));
    if (has_places)
      made.entries.push_back(
          address("const attention::Place", "places", parameter(phase.places, ir::Access::in)));
    if (form->splits > 1) {
      const ir::ExprId count = exprs().constant(sequences * heads * form->splits * (width + 2));
      const ir::ValueId parts =
          builder_.alloc("parts", builder_.module().types.tensor(wide_type(q.dtype), {count}));
      made.entries.push_back(address("Acc", "parts", parameter(parts, ir::Access::out)));
      made.entries.push_back(
          address("unsigned", "counters", words_at(take_words((sequences * units + 1) / 2))));
    }
    for (const auto &[name, value] : {std::pair<std::string, int64_t>{"sequences", sequences},
                                      {"queries", queries},
                                      {"heads", heads},
                                      {"kv_heads", kv_heads},
                                      {"width", width},
                                      {"capacity", capacity},
                                      {"pieces", made.blocks},
                                      {"key_tiles", key_tiles},
                                      {"value_tiles", value_tiles}})
      made.constants += whole(name, value);
    if (has_places)
      made.constants += whole("cache_rows", constant(keys.dims[0]));
    made.constants +=
        number("scale", phase.scale == 0 ? 1 / std::sqrt(double(width)) : phase.scale);
    made.before = "  if (number < gridDim.x) {\n"
                  "    walk.await(arrived_keys, key_tiles);\n"
                  "    walk.await(arrived_values, value_tiles);\n"
                  "  }\n"
                  "  given = {from_q, int(sequences * heads * width), false, nullptr, nullptr};\n";
    made.after = std::string("  Byte *const ring = memory_of_block + RINGS_AT;\n"
                             "  const T *const q = SHARED.given;\n"
                             "  if (walk.thread < attention::kThreads)\n"
                             "    attention::attend_pieces(ring + 8 * WARP_RING, "
                             "walk.thread, unsigned(number), unsigned(pieces), q,\n"
                             "                             keys, values, ") +
                 (has_lengths ? "lengths, " : "") + (has_places ? "places, " : "") +
                 (form->splits > 1 ? "parts, counters, " : "") +
                 "y, sequences, queries, heads, kv_heads,\n"
                 "                             width, capacity, " +
                 (has_places ? "cache_rows, " : "") +
                 "scale);\n"
                 "  __syncthreads();\n  return true;\n";
    phases_.push_back(std::move(made));
    return {};
  }

  // --- The launch --------------------------------------------------------------------------------

  /// As many slots and stages as shared memory has room for behind the table and rows.
  Status size_rings(const PhaseTable &table) {
    const int64_t words = int64_t(table.phases().size() * table.row_words() +
                                  std::max<size_t>(table.common_words(), 1)),
                  elements = most_given_ + most_normed_ + most_products_ * rows_ * kStreamColumns;
    rings_at_ =
        (words * 8 + elements * ir::info(dtype_).bytes_per_block + kSumBytes + kRingAlignment - 1) /
        kRingAlignment * kRingAlignment;
    slots_ = kMostSlots;
    const auto bytes = [&] { return slots_ * slot_bytes_ + grouped_.shared_bytes; };
    const int64_t room = shared_bytes_of_multiprocessor(table_.choice().target) - kDriverBytes -
                         kStaticBytes - rings_at_;
    while (bytes() > room && (slots_ > 1 || grouped_.stages > 2))
      if (grouped_.stages > 2 && (slots_ == 1 || grouped_.shared_bytes > slots_ * slot_bytes_))
        --grouped_.stages, grouped_.shared_bytes -= grouped_.stage_bytes;
      else
        --slots_;
    return bytes() > room || slot_bytes_ == 0
               ? unsupported("a block has no room for the table, rows and rings of its phases")
               : (ring_bytes_ = bytes(), Status());
  }

  std::string defines_text(const PhaseTable &table) const {
    std::string text;
    const auto define = [&](bool holds, const std::string &name) { text += defined(holds, name); };
    define(has_numbers_, "HAS_NUMBERS");
    define(has_repacked_, "HAS_REPACKED");
    define(is_scattered_, "SCATTERED");
    define(true, "BLOCKS 1");
    define(true, "SLOTS " + std::to_string(slots_));
    define(true, "ROWS " + std::to_string(rows_));
    define(true, "COLUMNS " + std::to_string(kStreamColumns));
    define(true, "RINGS_AT " + std::to_string(rings_at_));
    define(true, "WARP_RING " + std::to_string(slots_ * slot_bytes_ / kPhaseWarps));
    define(true, "PHASES " + std::to_string(table.phases().size()));
    define(true, "ROW_WORDS " + std::to_string(table.row_words()));
    define(true, "COMMONS " + std::to_string(std::max<size_t>(table.common_words(), 1)));
    define(true, "MOST_GIVEN " + std::to_string(most_given_));
    define(true, "MOST_NORMED " + std::to_string(most_normed_));
    define(true, "PRODUCTS " + std::to_string(most_products_));
    define(uses_.uses_f16, "USES_F16");
    define(uses_.uses_bf16, "USES_BF16");
    return text;
  }

  /// What takes the rows that a phase reads.
  std::string rows_text() const {
    return "__device__ __forceinline__ bool take_rows(Walk &walk, const Rows &given) {\n"
           "  if (!walk.gather(given.from, SHARED.given, given.count))\n    return false;\n" +
           (norm_.empty() ? "" : "  if (given.is_normed)\n    " + norm_ + ";\n") +
           "  return true;\n}\n\n";
  }

  std::string attention_text() const {
    if (attention_options_.empty())
      return "";
    return attention_options_ + "#define STAGES " + std::to_string(grouped_.stages) +
           "\n#define ATTENDED Given<T>\n"
           "#define MEET() asm volatile(\"bar.sync 1, %0;\" ::\"n\"(kThreads) : \"memory\")\n"
           "#include \"builtin:cached.cuh\"\n#include \"builtin:mma.cuh\"\n"
           "namespace attention {\n#include \"builtin:grouped_pieces.cuh\"\n}\n\n";
  }

  Status emit() {
    const PhaseTable table(std::move(phases_));
    CUGRT_TRY(size_rings(table));
    if (int64_t(tensors_.size() + 1) * 8 + int64_t(symbols_.size() + 1) * kSymbolBytes >
        kMostParameterBytes)
      return unsupported("phases have more parameters than a launch");
    const std::string name = "decode_persistent_" + std::string(ir::info(dtype_).name);
    launch(name, text_of(table, name), table.phases());
    return {};
  }

  std::string text_of(const PhaseTable &table, const std::string &name) const {
    std::vector<std::string> parameters = {"u64 *words", "cugrt_symbol<long long> step"};
    for (size_t i = 0; i < tensors_.size(); ++i)
      parameters.push_back((tensors_[i].access == ir::Access::in ? "const void *t" : "void *t") +
                           std::to_string(i));
    for (size_t i = 0; i < symbols_.size(); ++i)
      parameters.push_back(symbols_[i].type + "s" + std::to_string(i));
    return "\n" + defines_text(table) + includes(uses_, "", "persistent") + attention_text() +
           table.known_text() + table.functions_text() + units_.text() + rows_text() +
           wrapped("extern \"C\" __global__ void __launch_bounds__(kThreads, 1) " + name +
                       "(\n    ",
                   parameters, ") {\n") +
           "  BEGIN_EARLY();\n" + table.fill_text() +
           "  enter(words, step);\n"
           "  begin_product(SHARED.table[" +
           std::to_string(table.next_product(0)) +
           "], blockIdx.x);\n"
           "#pragma unroll 1\n"
           "  for (int p = 0; p < PHASES; ++p) {\n"
           "    const u64 *const row = SHARED.table[p];\n"
           "    if (blockIdx.x >= row[2])\n"
           "      go_on(row, blockIdx.x);\n"
           "#pragma unroll 1\n"
           "    for (long long number = blockIdx.x; number < row[2]; number += gridDim.x) {\n"
           "      Walk walk;\n"
           "      Early early;\n"
           "      Rows given;\n"
           "      given.count = 0;\n"
           "      switch (row[0]) {\n" +
           table.before_text() +
           "      }\n"
           "      if (number < gridDim.x && given.count > 0 && !take_rows(walk, given))\n"
           "        return;\n"
           "      const Tile tile = tile_of(row, number);\n"
           "      if (tile.products > 0) {\n"
           "        multiply_any(tile, given.is_normed ? SHARED.normed : SHARED.given);\n"
           "        __syncthreads();\n"
           "      }\n"
           "      bool goes_on = false;\n"
           "      switch (row[0]) {\n" +
           table.after_text() +
           "      }\n"
           "      if (!goes_on)\n"
           "        return;\n"
           "      go_on(row, number);\n"
           "    }\n"
           "  }\n"
           "  leave(words);\n"
           "}\n";
  }

  void launch(const std::string &name, std::string text, const std::vector<Phase> &phases) {
    KernelLaunch launch = KernelLaunch::generated(table_, builder_, name, std::move(text));
    launch.floating_type(dtype_);
    for (const std::string &option : options_)
      launch.option(option);
    launch.index_type(uses_.counts);
    ir::TypePool &types = builder_.module().types;
    const ir::ExprId count = exprs().constant(word_count_);
    const ir::ValueId storage =
        builder_.alloc_storage("state", ir::kStateScope, exprs().constant(word_count_ * 8));
    const ir::ValueId words =
        builder_.alloc_tensor("words", storage, exprs().constant(0),
                              types.tensor(ir::DType::i64, {count}, types.scope(ir::kStateScope)));
    launch.inout("words", words);
    launch.checked_symbol(
        "step", ir::DType::i64,
        checked_element(table_, builder_, words, INT64_MAX, "step", run_.location));
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const std::string as = "t" + std::to_string(i);
      const Tensor &tensor = tensors_[i];
      if (tensor.access == ir::Access::in)
        launch.input(as, tensor.value);
      else if (tensor.access == ir::Access::out)
        launch.output(as, tensor.value);
      else
        launch.inout(as, tensor.value);
    }
    for (size_t i = 0; i < symbols_.size(); ++i)
      symbols_[i].give(launch, "s" + std::to_string(i));
    int64_t blocks = 1;
    for (const Phase &phase : phases)
      blocks = std::max(blocks, phase.blocks);
    blocks = std::min(blocks, table_.choice().target.multiprocessors);
    for (; blocks > 1; blocks /= 2) {
      launch.variant("", {}, exprs().constant(blocks), {32, kPhaseWarps, 1},
                     rings_at_ + ring_bytes_);
      launch.cooperative();
    }
    launch.variant("", {}, exprs().constant(1), {32, kPhaseWarps, 1}, rings_at_ + ring_bytes_);
    launch.emit(run_.location);
  }

  KernelTable &table_;
  const PersistentRun &run_;

  std::vector<KernelParameter> symbols_;
  std::vector<std::string> symbol_texts_;
  std::map<uint32_t, std::pair<int64_t, int64_t>>
      arrivals_; // by cache: words of tiles, and how many

  std::vector<Phase> phases_;
  ir::DType dtype_ = ir::DType::f16;
  int64_t rows_ = 1;
  std::vector<std::string> options_; // of norms
  std::string norm_;
  PhaseUnits units_;
  ElementParameters uses_;
  int64_t most_given_ = 1, most_normed_ = 1, most_products_ = 1, slot_bytes_ = 0, slots_ = 1;
  bool has_numbers_ = false, has_repacked_ = false, is_scattered_ = false;
  std::string attention_options_;
  GroupedForm grouped_{};
  int64_t rings_at_ = 0, ring_bytes_ = 0; // in a block's shared memory
};

} // namespace

Status emit_persistent(KernelTable &table, ir::FunctionBuilder &builder, const PersistentRun &run) {
  return PersistentWriter(table, builder, run).run();
}

} // namespace cugrt::codegen
