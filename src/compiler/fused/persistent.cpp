// The text of a kernel of phases, its table, and its launch; see persistent.h.
#include "compiler/fused/persistent.h"

#include "base/type/state_scope.h"
#include "compiler/fused/kernel_text.h"
#include "compiler/fused/phase_table.h"
#include "ops/attention/grouped_form.h"
#include "ops/emit/op_emitter.h"
#include "ops/linear/stream_form.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace cugrt::codegen {

namespace {

constexpr int64_t kPhaseWarps = 8; // of a block
/// Of shared memory: what kernels have without asking for more; sums of warps and what else phases
/// have; what the driver takes.
constexpr int64_t kMostStaticBytes = 48 << 10, kSumBytes = 10 << 10, kDriverBytes = 1 << 10;
/// Of a launch, on every device and driver.
constexpr int64_t kMostParameterBytes = 4096, kSymbolBytes = 40;
constexpr int64_t kHeadWords = 16; // words before those of phases
constexpr int64_t kMostSlots = 4, kRingAlignment = 128;

Status unsupported(std::string why) { return Status::error(Code::unsupported, std::move(why)); }

class PersistentWriter {
public:
  PersistentWriter(KernelTable &table, ir::FunctionBuilder &builder, const PersistentRun &run)
      : table_(table), builder_(builder), run_(run) {}

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
    CUGRT_TRY(size_rings());
    return emit();
  }

private:
  ir::ExprPool &exprs() { return builder_.module().exprs; }
  ir::Type type_of(ir::ValueId value) const {
    return builder_.module().types[builder_.function().value(value).type];
  }
  int64_t constant(ir::ExprId value) {
    const std::optional<int64_t> known = exprs().as_constant(value);
    words_known_ = words_known_ && known;
    return known.value_or(0);
  }

  // --- What phases read and write ----------------------------------------------------------------

  int64_t take_words(int64_t count) {
    const int64_t at = word_count_;
    word_count_ += (count + 1) / 2 * 2; // pairs are read whole
    return at;
  }
  void add_words(ir::ValueId value, ir::ExprId count) {
    words_of_[value.index] = take_words(constant(count));
  }
  bool is_exchanged(ir::ValueId value) const { return words_of_.contains(value.index); }
  static std::string words_at(int64_t at) { return "(u64)(words + " + std::to_string(at) + ")"; }

  /// A parameter of the kernel: each tensor once.
  std::string parameter(ir::ValueId value, ir::Access access) {
    const auto [at, is_new] = parameter_of_.try_emplace(value.index, tensors_.size());
    if (is_new)
      tensors_.push_back({value, access});
    else if (tensors_[at->second].access != access)
      tensors_[at->second].access = ir::Access::inout;
    return "(u64)t" + std::to_string(at->second);
  }
  /// Of rows: where their words are, or of what other launches read and write the address.
  std::string rows(ir::ValueId value, ir::Access access) {
    return is_exchanged(value) ? words_at(words_of_.at(value.index))
                               : parameter(value, access) + " | kPlain";
  }

  static PhaseEntry address(const std::string &type, const std::string &name, std::string value) {
    return {type + " *const " + name + " = (" + type + " *)", "", std::move(value)};
  }
  static PhaseEntry taken(const std::string &name, std::string value) {
    return {"const u64 " + name + " = ", "", std::move(value)};
  }
  static PhaseEntry given(const std::string &element, const std::string &name, std::string value) {
    return {"const Given<" + element + "> " + name + " = {", ", walk.step}", std::move(value)};
  }

  static std::string whole(const std::string &name, int64_t value) {
    return "  constexpr long long " + name + " = " + std::to_string(value) + ";\n";
  }
  static std::string number(const std::string &name, double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%a", value);
    return "  constexpr Acc " + name + " = Acc(" + text + ");\n";
  }

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
      return unsupported("a sum before a norm is no phase");
    for (const ProductPart &part : kernel.parts)
      if (part.turn && part.turn->norm)
        return unsupported("heads that are normed are no tiles of a phase");
    if (constant(kernel.rows) != kernel.most_rows)
      return unsupported("the number of rows is not known");
    if (phases_.empty())
      dtype_ = kernel.dtype, rows_ = kernel.most_rows;
    if (kernel.dtype != dtype_ || kernel.most_rows != rows_)
      return unsupported("phases have one dtype and one number of rows");
    CUGRT_ASSIGN(ProductPhase made, write_phase(table_, builder_, kernel));
    Phase phase;
    phase.functions = std::move(made.functions);
    phase.declarations = std::move(made.declarations);
    phase.ahead = std::move(made.ahead);
    phase.body = std::move(made.body);
    phase.blocks = made.tiles;
    for (const KernelParameter &p : made.parameters)
      switch (p.kind) {
      case KernelParameter::Kind::size:
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
        entry.is_ahead =
            std::find(made.weights.begin(), made.weights.end(), p.name) != made.weights.end();
        phase.entries.push_back(std::move(entry));
        break;
      }
    for (size_t i = 0; i < kernel.parts.size(); ++i)
      if (const auto &append = kernel.parts[i].append) {
        const int64_t tiles = (kernel.parts[i].columns + kStreamColumns - 1) / kStreamColumns,
                      at = take_words(tiles);
        arrivals_[append->cache.index] = {at, tiles};
        phase.entries.push_back(
            address("u64", std::string(kPhaseTiles) + std::to_string(i), words_at(at)));
      }
    if (kernel.norm && options_.empty())
      options_ = made.options;
    if (kernel.norm && options_ != made.options)
      return unsupported("norms of phases are of rows of one length");
    uses_.add(made.uses);
    const int64_t elements = kernel.most_rows * kernel.depth;
    most_given_ = std::max(most_given_, elements);
    most_normed_ = std::max(most_normed_, kernel.norm ? elements : 1);
    most_products_ = std::max(most_products_, made.products);
    slot_bytes_ = std::max(slot_bytes_, (made.slot_bytes + kRingAlignment - 1) / kRingAlignment *
                                            kRingAlignment);
    has_numbers_ = has_numbers_ || made.has_numbers;
    has_repacked_ = has_repacked_ || made.has_repacked;
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

  Status add(const AttentionPhase &phase) {
    const ir::Type q = type_of(phase.q), keys = type_of(phase.keys);
    const ir::Type result = type_of(phase.result);
    const int64_t sequences = constant(result.dims[0]), queries = constant(result.dims[1]),
                  heads = constant(result.dims[2]), width = constant(result.dims[3]),
                  kv_heads = constant(keys.dims[2]), capacity = constant(keys.dims[1]);
    const auto arrived = [&](ir::ValueId cache) { return arrivals_.find(cache.index); };
    if (!words_known_ || q.dtype != keys.dtype || !q.strides.empty() || !keys.strides.empty() ||
        !is_exchanged(phase.q) || !is_exchanged(phase.result) ||
        arrived(phase.keys) == arrivals_.end() || arrived(phase.values) == arrivals_.end())
      return unsupported("attention is a phase between others of the same dtype");
    const std::optional<GroupedForm> form = grouped_form({.dtype = q.dtype,
                                                          .cache = keys.dtype,
                                                          .sequences = sequences,
                                                          .queries = queries,
                                                          .capacity = capacity,
                                                          .heads = heads,
                                                          .kv_heads = kv_heads,
                                                          .width = width,
                                                          .window = phase.window,
                                                          .has_mask = false},
                                                         table_.choice());
    if (!form || queries != 1)
      return unsupported("attention of this form is no phase");
    const int64_t units = heads / form->share, pieces = sequences * units * form->splits;
    const bool has_lengths = phase.lengths.valid();
    const bool is_wide = has_lengths && type_of(phase.lengths).dtype == ir::DType::i64;
    std::string options = "#define MAX_WIDTH " + std::to_string(width) + "\n#define SHARE " +
                          std::to_string(form->share) + "\n";
    if (form->splits > 1)
      options += "#define SPLIT " + std::to_string(form->splits) + "\n";
    if (phase.causal)
      options += "#define CAUSAL\n";
    if (has_lengths)
      options += "#define HAS_LENGTHS\n";
    if (is_wide)
      options += "#define WIDE_LENGTHS\n";
    if (phase.window > 0)
      options += "#define WINDOW " + std::to_string(phase.window) + "\n";
    if (!attention_options_.empty() && attention_options_ != options)
      return unsupported("attention is of one form in all phases");
    attention_options_ = options;
    grouped_ = *form;
    most_given_ = std::max(most_given_, sequences * heads * width);

    Phase made;
    made.blocks = std::min(pieces, form->blocks);
    const std::string element(element_type(q.dtype));
    const auto &[keys_at, tiles] = arrived(phase.keys)->second;
    made.entries = {taken("from_q", rows(phase.q, ir::Access::in)),
                    address("const Cached", "keys", parameter(phase.keys, ir::Access::in)),
                    address("const Cached", "values", parameter(phase.values, ir::Access::in)),
                    address("u64", "arrived_keys", words_at(keys_at)),
                    address("u64", "arrived_values", words_at(arrived(phase.values)->second.first)),
                    given(element, "y", rows(phase.result, ir::Access::out))};
    if (has_lengths)
      made.entries.push_back(
          address("const attention::Length", "lengths", parameter(phase.lengths, ir::Access::in)));
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
                                      {"tiles", tiles}})
      made.constants += whole(name, value);
    made.constants +=
        number("scale", phase.scale == 0 ? 1 / std::sqrt(double(width)) : phase.scale);
    made.body = std::string("  walk.await(arrived_keys, tiles);\n"
                            "  walk.await(arrived_values, tiles);\n"
                            "  const T *const q = shared.given;\n"
                            "  if (!walk.gather(from_q, shared.given, "
                            "int(sequences * heads * width)))\n    return false;\n"
                            "  if (walk.thread < attention::kThreads)\n"
                            "    attention::attend_pieces(ring + 8 * WARP_RING, "
                            "walk.thread, unsigned(number), unsigned(pieces), q,\n"
                            "                             keys, values, ") +
                (has_lengths ? "lengths, " : "") + (form->splits > 1 ? "parts, counters, " : "") +
                "y, sequences, queries, heads, kv_heads,\n"
                "                             width, capacity, scale);\n"
                "  __syncthreads();\n  return true;\n";
    phases_.push_back(std::move(made));
    return {};
  }

  // --- The launch --------------------------------------------------------------------------------

  /// As many slots and stages as shared memory has room for.
  Status size_rings() {
    const int64_t most = shared_bytes_of_multiprocessor(table_.choice().target) - kDriverBytes;
    const int64_t stage = grouped_.stages > 0 ? grouped_.shared_bytes / grouped_.stages : 0;
    slots_ = kMostSlots;
    const auto bytes = [&] { return slots_ * slot_bytes_ + grouped_.stages * stage; };
    const int64_t room = most - kMostStaticBytes;
    while (bytes() > room && (slots_ > 1 || grouped_.stages > 2))
      if (grouped_.stages > 2 && (slots_ == 1 || grouped_.stages * stage > slots_ * slot_bytes_))
        --grouped_.stages;
      else
        --slots_;
    ring_bytes_ = bytes();
    return ring_bytes_ > room || slot_bytes_ == 0
               ? unsupported("a block has no room for the rings of its phases")
               : Status();
  }

  std::string defines_text(const PhaseTable &table) const {
    std::string text;
    const auto define = [&](bool holds, const std::string &name) {
      text += holds ? "#define " + name + "\n" : "";
    };
    define(has_numbers_, "HAS_NUMBERS");
    define(has_repacked_, "HAS_REPACKED");
    define(true, "BLOCKS 1");
    define(true, "SLOTS " + std::to_string(slots_));
    define(true, "ROWS " + std::to_string(rows_));
    define(true, "COLUMNS " + std::to_string(kStreamColumns));
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
    const int64_t statics =
        int64_t(table.phases().size() * table.row_words() + table.common_words()) * 8 +
        (most_given_ + most_normed_ + most_products_ * rows_ * kStreamColumns) *
            ir::info(dtype_).bytes_per_block +
        kSumBytes;
    if (statics > kMostStaticBytes)
      return unsupported("a block has no room for the table of its phases");
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
           table.functions_text() +
           wrapped("extern \"C\" __global__ void __launch_bounds__(kThreads, 1) " + name +
                       "(\n    ",
                   parameters, ") {\n") +
           "  BEGIN_EARLY();\n" + table.fill_text() +
           "  enter(words, step);\n"
           "  begin_product(shared.table[" +
           std::to_string(table.next_product(0)) +
           "], blockIdx.x);\n"
           "#pragma unroll 1\n"
           "  for (int p = 0; p < PHASES; ++p) {\n"
           "    const u64 *const row = shared.table[p];\n"
           "    if (blockIdx.x >= row[2])\n"
           "      go_on(row, blockIdx.x);\n"
           "#pragma unroll 1\n"
           "    for (long long number = blockIdx.x; number < row[2]; number += gridDim.x) {\n"
           "      bool goes_on = false;\n"
           "      switch (row[0]) {\n" +
           table.cases_text() +
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
      launch.variant("", {}, exprs().constant(blocks), {32, kPhaseWarps, 1}, ring_bytes_);
      launch.cooperative();
    }
    launch.variant("", {}, exprs().constant(1), {32, kPhaseWarps, 1}, ring_bytes_);
    launch.emit(run_.location);
  }

  KernelTable &table_;
  ir::FunctionBuilder &builder_;
  const PersistentRun &run_;

  struct Tensor {
    ir::ValueId value;
    ir::Access access;
  };
  std::vector<Tensor> tensors_; // parameters of the kernel
  std::map<uint32_t, size_t> parameter_of_;
  std::vector<KernelParameter> symbols_;
  std::vector<std::string> symbol_texts_;
  int64_t word_count_ = kHeadWords;
  bool words_known_ = true;
  std::map<uint32_t, int64_t> words_of_; // by value
  std::map<uint32_t, std::pair<int64_t, int64_t>>
      arrivals_; // by cache: words of tiles, and how many

  std::vector<Phase> phases_;
  ir::DType dtype_ = ir::DType::f16;
  int64_t rows_ = 1;
  std::vector<std::string> options_; // of norms
  ElementParameters uses_;
  int64_t most_given_ = 1, most_normed_ = 1, most_products_ = 1, slot_bytes_ = 0, slots_ = 1;
  bool has_numbers_ = false, has_repacked_ = false;
  std::string attention_options_;
  GroupedForm grouped_{};
  int64_t ring_bytes_ = 0;
};

} // namespace

Status emit_persistent(KernelTable &table, ir::FunctionBuilder &builder, const PersistentRun &run) {
  return PersistentWriter(table, builder, run).run();
}

} // namespace cugrt::codegen
