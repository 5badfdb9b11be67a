// The text of a kernel of products that share rows, and its launch; see products.h.
#include "compiler/fused/products.h"

#include "base/check.h"
#include "compiler/fused/element_code.h"
#include "compiler/fused/product_epilogue.h"
#include "ir/module/names.h"
#include "ops/emit/op_emitter.h"
#include "ops/linear/stream_form.h"

#include <algorithm>
#include <numeric>

namespace cugrt::codegen {

namespace {

constexpr int64_t kThreads = 256;
/// Bytes of a block that kernels have without asking for more.
constexpr int64_t kMostSharedBytes = 48 << 10;
/// Limits of a product's tile; a thread has at most four of its elements.
constexpr int64_t kMostElements = 1024, kMostColumns = 64;
/// Bytes of all tiles of a block, about.
constexpr int64_t kMostTileBytes = 4 << 10;

int64_t element_bytes(ir::DType dtype) { return ir::info(dtype).bytes_per_block; }

class Writer : ProductEpilogue {
public:
  Writer(KernelTable &table, ir::FunctionBuilder &builder, const ProductKernel &kernel,
         PhaseUnits *units = nullptr)
      : ProductEpilogue(table, builder, kernel), units_(units) {}

  Status run() {
    tensor("x", element_of_value(kernel_.x), kernel_.x, ir::Access::in);
    count("rows", kernel_.rows);
    size("k", kernel_.depth);
    body_ += "  if (rows <= 0)\n    return;\n";
    if (kernel_.norm)
      write_norms(*kernel_.norm);
    else if (kernel_.rounds_rows)
      write_rounding();
    else
      body_ += "  const T *const in = x;\n";
    body_ += "  long long tile = blockIdx.x;\n";
    CUGRT_TRY(write_parts());
    if (slot_bytes_ > 0) {
      ring_ = stream_ring(slot_bytes_, norm_bytes() + kMostTileBytes, resident_,
                          table_.choice().target);
      resident_ = ring_.blocks;
    }
    const int64_t columns = columns_of_tile();
    if (shared_bytes(columns) > kMostSharedBytes)
      return Status::error(Code::unsupported, "a block has no room for tiles of " +
                                                  std::to_string(columns) + " columns");
    emit(columns);
    return {};
  }

  /// Instead of run(): the text of a phase.
  Result<ProductPhase> write_phase() {
    if (kernel_.rounds_rows)
      return Status::error(Code::unsupported, "rows of a phase are rounded before");
    tensor(std::string(kPhaseRows), std::string(element_type(kernel_.dtype)), kernel_.x,
           ir::Access::in);
    count("rows", kernel_.rows);
    size("k", kernel_.depth);
    described_.push_back("k");
    if (kernel_.norm)
      take_norm_options();
    before_ = rows_of_phase();
    body_ = "  const Sums(&sums)[PRODUCTS] = SHARED.sums;\n";
    CUGRT_TRY(write_parts());
    return phase_by_tiles(count_tiles(part_columns_, kStreamColumns));
  }

  /// Writes a phase for parts whose products another phase computes.
  Result<ProductPhase> write_phase_of_heads() {
    count("rows", kernel_.rows);
    int64_t tiles = 0;
    for (size_t p = 0; p < kernel_.parts.size(); ++p) {
      CUGRT_TRY(write_heads(kernel_.parts[p], std::to_string(p)));
      tiles += kernel_.parts[p].columns / own_columns_;
    }
    return phase_by_tiles(tiles);
  }

private:
  ProductPhase phase_by_tiles(int64_t tiles) {
    ProductPhase phase;
    phase.functions = std::move(functions_);
    phase.declarations = std::move(declared_);
    phase.kept = std::move(all_kept_);
    phase.tile = std::move(tile_);
    phase.before = std::move(before_);
    phase.after = std::move(body_) + "  return true;\n";
    phase.parameters = parameters();
    phase.described = std::move(described_);
    phase.options = std::move(options_);
    phase.uses = std::move(uses_);
    phase.slot_bytes = slot_bytes_;
    phase.products = int64_t(most_products_);
    phase.tiles = tiles;
    phase.has_numbers = has_numbers_;
    phase.has_repacked = has_repacked_;
    phase.is_scattered = is_scattered_;
    return phase;
  }

  // --- Text --------------------------------------------------------------------------------------

  static std::string is_rms(const RowNorm &norm) { return truth(norm.op == ir::Op::rms_norm); }
  /// A Norm of kernels/linear/products.cuh.
  std::string norm_text(const RowNorm &norm, const std::string &prefix) {
    const std::string scale = optional_tensor(prefix + "scale", "NormScale", norm.scale);
    const std::string bias = optional_tensor(prefix + "norm_bias", "NormScale", norm.bias);
    return "{" + scale + ", " + bias + ", " + scalar(prefix + "epsilon", norm.epsilon) + "}";
  }

  Status write_parts() {
    for (size_t p = 0; p < kernel_.parts.size(); ++p)
      CUGRT_TRY(write_part(kernel_.parts[p], std::to_string(p)));
    return {};
  }

  /// Ahead of the products, which a phase has in three places.
  void declare(const std::string &text) {
    ahead_ += text;
    declared_ += text;
  }

  bool has_wide_rows() const { return type_of(kernel_.x).dtype != kernel_.dtype; }
  void take_norm_options() {
    const auto bytes = // of the elements that the norm is computed from
        uint32_t(element_bytes(kernel_.is_norm_wide ? ir::DType::f32 : kernel_.dtype));
    const std::optional<RowForm> form = row_form(kernel_.depth, bytes);
    CUGRT_CHECK(form);
    if (kernel_.is_norm_wide)
      options_.push_back(has_wide_rows() ? "-DWIDE_NORM" : "-DWIDE_SCALES");
    options_.push_back("-DNORM_THREADS=" + std::to_string(form->threads));
    options_.push_back("-DNORM_VECTORS=" + std::to_string(form->vectors));
    options_.push_back("-DVECTOR=" + std::to_string(KernelLaunch::vector_size(bytes)));
  }

  /// The rows that products read, in shared memory.
  std::string rows_in_block() const {
    return "  __shared__ __align__(16) T in[" + std::to_string(kernel_.most_rows * kernel_.depth) +
           "];\n";
  }

  void write_rounding() {
    options_.push_back("-DROUND_ROWS");
    body_ += rows_in_block() + "  round_rows(x, in, rows, k);\n";
  }

  void write_norms(const RowNorm &norm) {
    take_norm_options();
    body_ += rows_in_block() + "  const Norm norm = " + norm_text(norm, "") + ";\n";
    if (!kernel_.sum) {
      body_ += "  normalize_rows<" + is_rms(norm) + ">(x, norm, in, rows, k);\n";
      return;
    }
    const RowSum &sum = *kernel_.sum;
    const std::string first = norm_text(sum.norm, "first_");
    const std::string residual = tensor("residual", "T", sum.residual, ir::Access::in);
    const std::string result =
        sum.result.valid() ? tensor("sum", "T", sum.result, ir::Access::out) : "(T *)nullptr";
    body_ += "  const Norm first_norm = " + first + ";\n  normalize_sum<" + is_rms(norm) + ", " +
             is_rms(sum.norm) + ">(x, first_norm, " + residual + ", " + result +
             ", norm, in, rows, k);\n";
  }

  Status write_part(const ProductPart &part, const std::string &p) {
    const std::string n = size("n" + p, part.columns);
    part_columns_.push_back(part.columns);
    const std::string columns = "columns" + p, tiles = "tiles" + p;
    if (part.turn)
      declare(pairs_text(*part.turn, columns, ""));
    else
      declare("  const InOrder " + columns + ";\n");
    declare("  const long long " + tiles + " = (" + n + " + COLUMNS - 1) / COLUMNS;\n");
    const std::string opening = "\n  if (tile < " + tiles +
                                ") {\n    const long long first = tile * COLUMNS;\n",
                      next = "  }\n  tile -= " + tiles + ";\n";
    body_ += opening;
    const size_t begin = body_.size();
    early_.clear(), kept_.clear();
    const int64_t teams = teams_of(part);
    most_teams_ = std::max(most_teams_, teams);
    std::string join;
    if (streams(part) && is_phase())
      describe_stream(part, p, next);
    else if (streams(part))
      write_stream(part, p);
    else if (has_streamed_numbers(part))
      return Status::error(
          Code::unsupported,
          "one product is of numbers, and another of blocks, which rings do not mix");
    else if (is_phase())
      return Status::error(Code::unsupported, "a product of a phase has no ring");
    else
      for (size_t i = 0; i < part.products.size(); ++i)
        join += write_product(part.products[i], p, i, teams);
    ahead_ += "  ahead -= " + tiles + ";\n";
    most_products_ = std::max(most_products_, part.products.size());
    const std::string meet = "    __syncthreads();\n";
    if (!is_phase())
      body_ += meet + (join.empty() ? "" : join + meet);
    // The ring of many rows of f32 leaves no registers to hold it.
    reads_late_ =
        streams(part) && !is_phase() && kernel_.dtype == ir::DType::f32 && kernel_.most_rows > 4;
    CUGRT_TRY(write_epilogue(part, p));
    if (!is_phase()) {
      body_.insert(begin, kept_text("    ") + early_);
      body_ += "    return;\n" + next;
      return {};
    }
    std::string names;
    for (const Kept &one : kept_)
      names += "    auto &" + one.name + " = early.part" + p + "." + one.name + ";\n";
    if (!kept_.empty())
      all_kept_ += "  struct {\n" + kept_text("    ") + "  } part" + p + ";\n";
    before_ += kept_.empty() ? "  tile -= " + tiles + ";\n"
                             : opening + names + early_ + "    return;\n" + next;
    body_.insert(begin, names);
    if (part.append)
      body_ += "    walk.arrive(" + std::string(kPhaseTiles) + p + " + tile);\n";
    body_ += "    return true;\n" + next;
    return {};
  }

  /// Where there are rings, such products have no other form.
  bool has_streamed_numbers(const ProductPart &part) const {
    return has_rings(kernel_.dtype, table_.choice().target) &&
           std::any_of(part.products.begin(), part.products.end(),
                       [](const SharedProduct &one) { return one.op == ir::Op::matmul; });
  }

  /// Whether rings serve the part: its products have one format, or are all of numbers. With
  /// blocks, places of a head whose pairs are neighbours are rows of w in two runs.
  bool streams(const ProductPart &part) const {
    const ir::DType format = type_of(part.products[0].w).dtype;
    const bool is_numbers = has_streamed_numbers(part);
    if (is_phase() && !ir::is_half(kernel_.dtype))
      return false;
    if (!is_numbers && part.turn &&
        (!turns_sixteens(*part.turn) || part.turn->turned != part.turn->width))
      return false;
    return has_rings(kernel_.dtype, table_.choice().target) &&
           std::all_of(part.products.begin(), part.products.end(), [&](const SharedProduct &one) {
             return type_of(one.w).dtype == format &&
                    (is_numbers || (one.repacked && streams_blocks(kernel_.dtype, format,
                                                                   part.columns, kernel_.depth)));
           });
  }

  struct StreamNames {
    std::string unit, weights, biases; // lines that declare the last two
  };
  StreamNames name_stream(const ProductPart &part, const std::string &p) {
    const ir::DType format = type_of(part.products[0].w).dtype;
    const bool is_numbers = part.products[0].op == ir::Op::matmul;
    std::vector<std::string> weights, biases;
    for (size_t i = 0; i < part.products.size(); ++i) {
      const std::string suffix = p + (i == 0 ? "" : "_" + std::to_string(i));
      const std::string w =
          tensor("w" + suffix, is_numbers ? "T" : "Byte", part.products[i].w, ir::Access::in);
      weights.push_back(is_numbers ? "(const Byte *)" + w : w);
      biases.push_back(optional_tensor("bias" + suffix, "T", part.products[i].bias));
      described_.insert(described_.end(), {w, biases.back()});
    }
    (is_numbers ? has_numbers_ : has_repacked_) = true;
    count_resident(part.products[0]);
    const int64_t rows = kernel_.norm || kernel_.rounds_rows || is_phase()
                             ? 0
                             : stream_rows(kernel_.dtype, kernel_.most_rows);
    slot_bytes_ = std::max(slot_bytes_, stream_slot_bytes(kernel_.dtype, format, rows));
    return {is_numbers ? "NumberUnit" : "RepackedUnit<" + block_format(format) + ">",
            wrapped("  const Byte *const weights" + p + "[] = {", weights, "};\n"),
            wrapped("    const T *const biases" + p + "[] = {", biases, "};\n")};
  }

  void write_stream(const ProductPart &part, const std::string &p) {
    const StreamNames names = name_stream(part, p);
    const std::string which = "stream<" + names.unit + ">(";
    ahead_ += names.weights + "  begin_" + which + (has_wide_rows() ? "(const T *)nullptr" : "x") +
              ", weights" + p + ", ahead, n" + p + ", k, columns" + p + ", ring);\n";
    body_ += names.biases + "    multiply_" + which + "in, weights" + p + ", biases" + p +
             ", tile, rows, n" + p + ", k, columns" + p +
             ",\n                        ring, partial, sums);\n";
  }

  /// Describes a phase's stream: one loop multiplies all weights of one kind.
  void describe_stream(const ProductPart &part, const std::string &p, const std::string &next) {
    const StreamNames names = name_stream(part, p);
    is_scattered_ =
        is_scattered_ || (part.turn && !part.turn->interleaved && !turns_sixteens(*part.turn));
    const size_t unit = units_->add(names.unit, kernel_.depth);
    tile_ += "\n  if (tile < tiles" + p + ") {\n  " + names.weights + names.biases +
             "    return tile_of_part(weights" + p + ", biases" + p + ", " + std::to_string(unit) +
             ", tile, n" + p + ", k, columns" + p + ");\n" + next;
  }

  /// Counts the blocks that a multiprocessor has room for, by the memory of the product's loop.
  void count_resident(const SharedProduct &product) {
    const ir::DType dtype = type_of(product.w).dtype;
    const bool all_warps = takes_all_warps(product);
    const bool is_large = ir::info(dtype).elements_per_block > 32 ||
                          (kernel_.dtype == ir::DType::f32 && kernel_.most_rows > 1);
    if (all_warps)
      blocks_ = std::min(blocks_, is_large ? 1 : 2);
    resident_ = std::min(resident_, resident_blocks({kernel_.dtype, dtype, kernel_.most_rows,
                                                     product.repacked, all_warps}));
  }

  /// How many products of a part are computed side by side.
  int64_t teams_of(const ProductPart &part) const {
    const int64_t products = int64_t(part.products.size()), warps = kThreads / 32;
    const bool all_warps =
        std::any_of(part.products.begin(), part.products.end(),
                    [&](const SharedProduct &one) { return takes_all_warps(one); });
    return all_warps || warps % products != 0 || warps / products % slices_ != 0 ? 1 : products;
  }

  /// All warps of a block compute such a product together.
  bool takes_all_warps(const SharedProduct &product) const {
    return product.repacked ||
           (product.op == ir::Op::matmul && has_rings(kernel_.dtype, table_.choice().target));
  }

  /// The text that joins the product's slices, if it has some.
  std::string write_product(const SharedProduct &product, const std::string &p, size_t i,
                            int64_t teams) {
    const std::string suffix = p + (i == 0 ? "" : "_" + std::to_string(i));
    const ir::DType dtype = type_of(product.w).dtype;
    const bool is_blocks = product.op == ir::Op::matmul_blocks;
    const std::string w = tensor("w" + suffix, is_blocks ? "Byte" : "T", product.w, ir::Access::in);
    const std::string bias = optional_tensor("bias" + suffix, "T", product.bias);
    const bool all_warps = takes_all_warps(product);
    std::string function = "multiply_floats";
    bool *has = &has_floats_;
    if (is_blocks) {
      has = product.repacked ? &has_repacked_ : &has_stored_;
      const std::string kind = product.repacked ? "repacked" : "stored";
      function = "multiply_" + kind + "<" + block_format(dtype) + ">";
    }
    *has = true;
    count_resident(product);
    std::string join;
    const std::string number = std::to_string(i), to = "sums[" + number + "]";
    const bool is_stored = is_blocks && !product.repacked;
    const std::string slices = slices_ > 1 ? "slices[" + number + "]" : "slices[0]";
    const std::string team =
        "Team::of(" + (teams > 1 ? number : "0") + ", " + std::to_string(teams) + "), ";
    has_slices_ = has_stored_ && slices_ > 1;
    body_ += "    " + function + "(in, " + w + ", " + bias + ", rows, n" + p +
             ", k, first, columns" + p + ", " + (all_warps ? "" : team) +
             (is_stored ? slices + ", " : "") + to + ");\n";
    if (is_stored && slices_ > 1)
      join = "    join_slices(" + slices + ", " + bias + ", n" + p + ", first, columns" + p + ", " +
             to + ");\n";
    ahead_ += "  ask_for_rows<" + std::to_string(row_bytes(dtype, product.repacked)) + ">(" + w +
              ", ahead, n" + p + ", columns" + p + ");\n";
    return join;
  }

  /// Bytes of a row of weights; for repacked blocks, of its quants' low bits, which lie together.
  int64_t row_bytes(ir::DType dtype, bool repacked) const {
    const ir::DTypeInfo &info = ir::info(dtype);
    return repacked ? kernel_.depth * repacked_low_bits(dtype) / 8
                    : kernel_.depth / info.elements_per_block * info.bytes_per_block;
  }

  // --- The launch --------------------------------------------------------------------------------

  /// Rounds of stored blocks that are asked for at once: all that a warp has, where registers hold
  /// them.
  int64_t rounds_ahead() const {
    const int64_t rounds = rounds_of_blocks(kernel_.depth);
    return rounds <= kMostRoundsAhead ? rounds : 4;
  }

  /// Shared memory of a block: normed or rounded rows, tiles, and what warps share, which is less
  /// than here.
  int64_t shared_bytes(int64_t columns) const {
    const int64_t partial = slot_bytes_ > 0 ? 9 << 10 : 6 << 10;
    const int64_t sums = int64_t(most_products_) * kernel_.most_rows * columns;
    return norm_bytes() + sums * element_bytes(kernel_.dtype) +
           (has_slices_ ? sums * slices_ * element_bytes(wide_type(kernel_.dtype)) : 0) + partial;
  }
  int64_t norm_bytes() const {
    return kernel_.norm || kernel_.rounds_rows
               ? kernel_.most_rows * kernel_.depth * element_bytes(kernel_.dtype)
               : 0;
  }

  int64_t columns_of_tile() const {
    int64_t heads = 0;
    for (const ProductPart &part : kernel_.parts)
      if (part.turn && part.turn->norm)
        heads = part.turn->width;
    const int64_t least = has_repacked_ || has_numbers_
                              ? kStreamColumns
                              : std::max(kThreads / 32 / slices_ / most_teams_, int64_t(2));
    // Whole heads if they are normed.
    const int64_t step = heads == 0                ? least
                         : least == kStreamColumns ? std::lcm(least, heads)
                                                   : std::max(least / heads, int64_t(1)) * heads;
    return tile_columns(
        {.columns = part_columns_,
         .step = step,
         .allowed = std::max(kMostColumns, kMostElements / kernel_.most_rows),
         .places = resident_ * table_.choice().target.multiprocessors,
         .has_room = [&](int64_t columns) { return shared_bytes(columns) <= kMostSharedBytes; }});
  }

  void emit(int64_t columns) {
    std::string defines;
    auto define = [&](bool holds, const std::string &name) { defines += defined(holds, name); };
    define(has_floats_, "HAS_FLOATS");
    define(has_numbers_, "HAS_NUMBERS");
    define(has_stored_, "HAS_STORED");
    define(has_repacked_, "HAS_REPACKED");
    define(has_repacked_ || has_numbers_, "BLOCKS " + std::to_string(blocks_));
    define(slot_bytes_ > 0, "SLOTS " + std::to_string(ring_.slots));
    define(kernel_.sum.has_value(), "HAS_SUM");
    define(true, "ROWS " + std::to_string(kernel_.most_rows));
    define(true, "COLUMNS " + std::to_string(columns));
    define(has_stored_, "AHEAD " + std::to_string(rounds_ahead()));
    define(has_slices_, "SLICES " + std::to_string(slices_));
    define(uses_.uses_f16, "USES_F16");
    define(uses_.uses_bf16, "USES_BF16");
    const std::string ops =
        ir::joined(kernel_.named, [](ir::Op op) { return ir::op_info(op).name; });
    std::string name = fused_name(kernel_.named) + "_" + std::string(ir::info(kernel_.dtype).name);
    const std::string text =
        "\n// " + ops + "\n" + defines + includes(uses_, "", "products") + functions_ +
        wrapped("extern \"C\" __global__ void PRODUCTS_BOUNDS " + name + "(\n    ", declarations(),
                ") {\n") +
        "  __builtin_assume(ASSUME);\n  long long ahead = blockIdx.x;\n" +
        (slot_bytes_ > 0 ? "  extern __shared__ __align__(16) Byte ring[];\n" : "") + ahead_ +
        "  BEGIN_EARLY();\n" + (slot_bytes_ > 0 ? "  __shared__ StreamSums partial;\n" : "") +
        "  __shared__ Sums sums[" + std::to_string(most_products_) + "];\n" +
        (has_stored_ ? "  __shared__ Slices slices[" +
                           std::to_string(has_slices_ ? most_products_ : 1) + "];\n"
                     : "") +
        body_ + "}\n";
    KernelLaunch launch = KernelLaunch::generated(table_, builder_, std::move(name), text);
    launch.floating_type(kernel_.dtype);
    for (const std::string &option : options_)
      launch.option(option);
    ir::ExprPool &exprs = builder_.module().exprs;
    std::vector<ir::ExprId> counts = uses_.counts;
    for (const ProductPart &part : kernel_.parts)
      counts.push_back(exprs.mul(kernel_.rows, exprs.constant(part.columns)));
    launch.index_type(counts);
    give(launch);
    launch.variant("", {}, exprs.constant(count_tiles(part_columns_, columns)),
                   {32, kThreads / 32, 1}, ring_.slots * slot_bytes_);
    launch.emit(kernel_.group.location);
  }

  PhaseUnits *const units_; // of a kernel of phases
  bool is_phase() const { return units_ != nullptr; }
  std::vector<std::string> options_;
  std::string ahead_; // before the wait
  std::string before_, tile_, all_kept_;
  std::vector<std::string> described_; // parameters by which a phase says what its tiles are
  size_t most_products_ = 0;
  int64_t most_teams_ = 1;
  const int64_t slices_ = slices_of_blocks(kernel_.depth);
  bool has_stored_ = false, has_slices_ = false; // products of blocks as they are stored
  bool has_floats_ = false, has_numbers_ = false;
  bool has_repacked_ = false, is_scattered_ = false;
  int blocks_ = 3;               // a multiprocessor, of threads: more would not have the registers
  int64_t resident_ = INT64_MAX; // likewise, by what the compiler takes
  std::vector<int64_t> part_columns_;
  int64_t slot_bytes_ = 0; // of the largest ring, all warps'; 0: there is none
  StreamRing ring_ = {};
};

} // namespace

Status emit_products(KernelTable &table, ir::FunctionBuilder &builder,
                     const ProductKernel &kernel) {
  return Writer(table, builder, kernel).run();
}

Result<ProductPhase> write_phase(KernelTable &table, ir::FunctionBuilder &builder,
                                 const ProductKernel &kernel, PhaseUnits &units) {
  return Writer(table, builder, kernel, &units).write_phase();
}

Result<ProductPhase> write_heads(KernelTable &table, ir::FunctionBuilder &builder,
                                 const ProductKernel &kernel) {
  PhaseUnits none;
  return Writer(table, builder, kernel, &none).write_phase_of_heads();
}

} // namespace cugrt::codegen
