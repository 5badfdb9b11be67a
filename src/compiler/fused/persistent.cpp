// The text of a kernel of phases, its table, and its launch; see persistent.h.
#include "compiler/fused/persistent.h"

#include "base/type/state_scope.h"
#include "compiler/fused/element_code.h"
#include "compiler/fused/phase_attention.h"
#include "ops/emit/op_emitter.h"
#include "ops/linear/stream_form.h"

#include <algorithm>

namespace cugrt::codegen {

namespace {

constexpr int64_t kPhaseWarps = 8; // of a block
/// Bytes of shared memory: sums of warps and other parts of one size; the parts of norms and
/// attention; the driver's part.
constexpr int64_t kSumBytes = 2 * 8 * 8 * 17 * 4 + 128, kStaticBytes = 1 << 10,
                  kDriverBytes = 1 << 10;
/// Limits of a launch, on every device and driver.
constexpr int64_t kMostParameterBytes = 4096, kSymbolBytes = 40;
constexpr int64_t kMostSlots = 4, kRingAlignment = 128;

class PersistentWriter : AttentionPhases {
public:
  PersistentWriter(KernelTable &table, ir::FunctionBuilder &builder, const PersistentRun &run)
      : AttentionPhases(table, builder), run_(run) {}

  Status run() {
    for (const ir::ValueId value : run_.exchanged)
      add_words(value, element_count(exprs(), type_of(value).dims));
    look_at(run_);
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
    if (p.name == kPhaseRows || p.name == kPhaseResidual)
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
      if (norm_.empty())
        options_ = made.options, norm_ = norm_of(*kernel.norm, kernel.depth);
      if (norm_ != norm_of(*kernel.norm, kernel.depth) ||
          (kernel.sum && norm_ != norm_of(kernel.sum->norm, kernel.depth)))
        return unsupported("norms of phases are of one kind, of rows of one length");
      has_sum_ = has_sum_ || kernel.sum;
    }
    CUGRT_TRY(add(products, std::move(made)));
    return heads.parts.empty() ? Status() : add_heads(heads);
  }

  /// The text that normalises SHARED.given, of rows of `depth` elements, into `to`.
  static std::string norm_of(const RowNorm &norm, int64_t depth) {
    const auto optional = [](ir::ValueId value, const std::string &name) {
      return value.valid() ? name : "nullptr";
    };
    return std::string("normalize_rows<") + (norm.op == ir::Op::rms_norm ? "true" : "false") +
           ">(SHARED.given, {" + optional(norm.scale, "scale") + ", " +
           optional(norm.bias, "bias") + ", " + acc(norm.epsilon) + "}, to, ROWS, " +
           std::to_string(depth) + ")";
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
        arrive(append->cache, at, tiles);
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

  /// A parameter of the kernel, by the tensor that it is read from.
  std::string symbol(const KernelParameter &p) {
    const size_t number = number_of(symbol_texts_, p.type + p.symbol);
    if (number == symbols_.size())
      symbols_.push_back(p);
    return "s" + std::to_string(number);
  }

  Status add(const AttentionPhase &phase) {
    CUGRT_ASSIGN(Phase made, write(phase));
    most_given_ = std::max(most_given_, most_attended_);
    phases_.push_back(std::move(made));
    return {};
  }

  // --- The launch --------------------------------------------------------------------------------

  /// Sizes rings: as many slots and stages as shared memory has room for behind table and rows.
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
    define(has_sum_, "HAS_SUM");
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

  /// The text that takes the rows that a phase reads. One text has both norms of sums.
  std::string rows_text() const {
    std::string text =
        "__device__ __forceinline__ bool take_rows(Walk &walk, const Rows &given) {\n"
        "  if (!walk.take(given))\n    return false;\n";
    if (has_sum_)
      text += "#pragma unroll 1\n"
              "  for (int turn = given.is_summed ? 0 : 1; given.is_normed && turn < 2; ++turn) {\n"
              "    const T *const scale = turn == 0 ? given.first_scale : given.scale;\n"
              "    const T *const bias = turn == 0 ? given.first_bias : given.bias;\n"
              "    T *const to = turn == 0 ? SHARED.given : SHARED.normed;\n    " +
              norm_ + ";\n    if (turn == 0)\n      walk.add_residual(given);\n  }\n";
    else if (!norm_.empty())
      text += "  if (given.is_normed) {\n"
              "    const T *const scale = given.scale, *const bias = given.bias;\n"
              "    T *const to = SHARED.normed;\n    " +
              norm_ + ";\n  }\n";
    return text + "  return true;\n}\n\n";
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
           "  for (int p = 0; p < PHASES; p = next_phase()) {\n"
           "    const u64 *const row = begin_phase(p);\n"
           "    if (blockIdx.x >= row[2])\n"
           "      go_on(row, blockIdx.x);\n"
           "#pragma unroll 1\n"
           "    for (unsigned number = blockIdx.x; number < row[2]; number += gridDim.x) {\n"
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

  const PersistentRun &run_;

  std::vector<KernelParameter> symbols_;
  std::vector<std::string> symbol_texts_;
  std::vector<Phase> phases_;
  ir::DType dtype_ = ir::DType::f16;
  int64_t rows_ = 1;
  std::vector<std::string> options_; // of norms
  std::string norm_;
  PhaseUnits units_;
  ElementParameters uses_;
  int64_t most_given_ = 1, most_normed_ = 1, most_products_ = 1, slot_bytes_ = 0, slots_ = 1;
  bool has_numbers_ = false, has_repacked_ = false, is_scattered_ = false, has_sum_ = false;
  int64_t rings_at_ = 0, ring_bytes_ = 0; // in a block's shared memory
};

} // namespace

Status emit_persistent(KernelTable &table, ir::FunctionBuilder &builder, const PersistentRun &run) {
  return PersistentWriter(table, builder, run).run();
}

} // namespace cugrt::codegen
