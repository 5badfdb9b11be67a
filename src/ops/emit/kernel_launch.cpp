// Declaration and arguments of one launch.
#include "ops/emit/kernel_launch.h"

#include "base/check.h"
#include "base/type/element.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cugrt::codegen {

int64_t integer_within(ir::DType dtype, double value) {
  const bool is_signed = ir::info(dtype).kind == ir::DTypeKind::signed_integer;
  const int bits = std::min(int(ir::info(dtype).bytes_per_block) * 8 - is_signed, 63);
  const double above = std::ldexp(1.0, bits); // 2^bits, exact; the largest value is below it
  if (std::isnan(value))
    return 0;
  if (value >= above)
    return static_cast<int64_t>(~uint64_t(0) >> (64 - bits));
  if (value <= (is_signed ? -above : 0.0))
    return is_signed ? -static_cast<int64_t>(~uint64_t(0) >> (64 - bits)) - 1 : 0;
  return static_cast<int64_t>(value);
}

int64_t element_bits(ir::DType dtype, double value) {
  std::string bytes;
  if (ir::info(dtype).kind == ir::DTypeKind::floating)
    ir::append_float(dtype, value, bytes);
  else if (dtype == ir::DType::boolean)
    ir::append_integer(dtype, value != 0, bytes);
  else
    ir::append_integer(dtype, integer_within(dtype, value), bytes);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size()); // little-endian, as every device and host
  return static_cast<int64_t>(bits);
}

KernelLaunch::KernelLaunch(KernelTable &table, ir::FunctionBuilder &builder, std::string name,
                           std::string_view source, std::string entry, const Fusion *fusion)
    : table_(table), builder_(builder), fusion_(fusion) {
  kernel_.name = fusion ? fusion->name : std::move(name);
  kernel_.code_kind = fusion ? ir::CodeKind::source_text : ir::CodeKind::source_file;
  kernel_.code = "builtin:" + std::string(source);
  if (fusion)
    kernel_.code = fusion->prelude + "#include \"" + kernel_.code + "\"\n";
  kernel_.entry = std::move(entry);
}

KernelLaunch KernelLaunch::generated(KernelTable &table, ir::FunctionBuilder &builder,
                                     std::string name, std::string text) {
  KernelLaunch launch(table, builder, name, "", name);
  launch.kernel_.code_kind = ir::CodeKind::source_text;
  launch.kernel_.code = std::move(text);
  return launch;
}

void KernelLaunch::floating_type(ir::DType dtype) {
  option("-fmad=false"); // kernels/shared/floating.cuh
  if (dtype == ir::DType::f16)
    return option("-DDTYPE_F16");
  if (dtype == ir::DType::bf16)
    return option("-DDTYPE_BF16");
  if (dtype == ir::DType::f64)
    return option("-DDTYPE_F64");
  CUGRT_CHECK(dtype == ir::DType::f32);
}

void KernelLaunch::number_type(ir::DType dtype) {
  const ir::DTypeInfo &row = ir::info(dtype);
  if (row.kind == ir::DTypeKind::floating)
    return floating_type(dtype);
  CUGRT_CHECK(row.elements_per_block == 1);
  std::string name = dtype == ir::DType::boolean ? "bool" : std::string(row.name);
  for (char &c : name)
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  option("-DDTYPE_" + name);
}

void KernelLaunch::element_bytes(uint32_t bytes) {
  CUGRT_CHECK(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  option("-DBYTES=" + std::to_string(bytes));
  any_dtype_ = true;
}

void KernelLaunch::vectors(uint32_t widest_bytes) {
  CUGRT_CHECK(kernel_.variants.empty() && widest_bytes <= 8);
  vector_ = vector_size(widest_bytes);
  option("-DVECTOR=" + std::to_string(vector_));
}

bool KernelLaunch::index_type(std::span<const ir::ExprId> counts) {
  const ir::SymbolDomain bounds = builder_.function().symbol_domain(exprs());
  auto is_small = [&](ir::ExprId count) {
    return exprs().range(count, bounds).upper < int64_t(1) << 31;
  };
  const bool small =
      std::all_of(counts.begin(), counts.end(), is_small) &&
      (!fusion_ || std::all_of(fusion_->counts.begin(), fusion_->counts.end(), is_small));
  option_if(small, "-DINDEX=unsigned");
  return small;
}

void KernelLaunch::tensor(std::string name, ir::Access access, ir::ValueId value) {
  const ir::Type &type = builder_.type_of(value);
  ir::KernelParam param;
  param.name = std::move(name);
  param.access = access;
  param.dtype = type.dtype;
  if (any_dtype_) {
    param.any_dtype = true;
    param.dtype = ir::DType::f32; // not looked at; the same in equal declarations
  }
  kernel_.params.push_back(std::move(param));
  arguments_.push_back(ir::Operand::of(value));
}

void KernelLaunch::over_inputs() {
  ir::KernelParam &output = kernel_.params.back();
  for (uint32_t i = 0; i + 1 < kernel_.params.size(); ++i)
    output.over.push_back(i);
}

ir::ExprId KernelLaunch::count(std::string name, ir::ExprId argument) {
  const ir::SymbolId symbol{static_cast<uint32_t>(kernel_.symbols.size())};
  kernel_.symbols.push_back(name);
  kernel_.params.push_back({.name = std::move(name),
                            .kind = ir::KernelParamKind::symbol,
                            .dtype = ir::DType::i64,
                            .symbol = symbol});
  arguments_.push_back(ir::Operand::of(argument));
  return exprs().symbol(symbol);
}

ir::ExprId KernelLaunch::size(std::string name, ir::ExprId argument) {
  if (std::optional<int64_t> value = exprs().as_constant(argument)) {
    assumptions_ += assumptions_.empty() ? "" : "&&";
    assumptions_ += name + "==" + std::to_string(*value);
  }
  return count(std::move(name), argument);
}

ir::ExprId checked_element(KernelTable &table, ir::FunctionBuilder &builder, ir::ValueId tensor,
                           int64_t upper, std::string_view name, SourceLocation location) {
  ir::ExprPool &exprs = builder.module().exprs;
  ir::ExprId &symbol = table.reads()[{tensor.index, upper}];
  if (symbol.valid())
    return symbol;
  symbol = exprs.symbol(builder.symbol({.name = std::string(name),
                                        .source = ir::SymbolSource::device,
                                        .bounds = {0, upper},
                                        .location = location}));
  ir::Binding read{};
  read.kind = ir::BindingKind::read_symbol;
  read.location = location;
  const ir::Operand operand = ir::Operand::of(tensor);
  const ir::ExprId parts[] = {symbol, exprs.constant(0)};
  builder.bind(read, std::span(&operand, 1), parts, {}, {}, {});
  return symbol;
}

void KernelLaunch::checked_symbol(std::string name, ir::DType dtype, ir::ExprId symbol) {
  kernel_.params.push_back(
      {.name = std::move(name), .kind = ir::KernelParamKind::checked_symbol, .dtype = dtype});
  arguments_.push_back(ir::Operand::of(symbol));
}

void KernelLaunch::scalar(std::string name, ir::DType dtype, double argument) {
  kernel_.params.push_back(
      {.name = std::move(name), .kind = ir::KernelParamKind::scalar, .dtype = dtype});
  arguments_.push_back(builder_.literal(argument));
}

void KernelLaunch::parameter(std::string name, ir::DType dtype, double argument) {
  const ir::DTypeInfo &row = ir::info(dtype);
  if (row.kind == ir::DTypeKind::floating)
    return scalar(std::move(name), wide_type(dtype), argument);
  count(std::move(name), constant(integer_within(dtype, argument)));
}

void KernelLaunch::variant(std::string entry, ir::ExprId predicate, ir::ExprId blocks,
                           std::array<int64_t, 3> threads, int64_t shared_bytes) {
  ir::KernelVariant variant;
  variant.entry = std::move(entry);
  variant.predicate = predicate;
  variant.grid = {blocks, constant(1), constant(1)};
  for (size_t i = 0; i < 3; ++i)
    variant.block[i] = constant(threads[i]);
  if (shared_bytes > 0)
    variant.shared_bytes = constant(shared_bytes);
  kernel_.variants.push_back(std::move(variant));
}

void KernelLaunch::loop_variant(ir::ExprId count) {
  const ir::ExprId blocks = exprs().ceildiv(count, constant(256 * int64_t(vector_)));
  variant("", {}, exprs().min(blocks, constant(kMaxLoopBlocks)), {256, 1, 1});
}

// A thread's vectors of a row: enough on their way at once, and few enough for its registers.
constexpr int64_t kVectorsEach = 4, kMostVectorsEach = 8, kMostThreads = 1024;

std::optional<RowForm> row_form(std::optional<int64_t> known, uint32_t element_bytes) {
  const int64_t vector = KernelLaunch::vector_size(element_bytes),
                count = known.value_or(0) / vector;
  if (count == 0 || *known % vector != 0 || count > kMostVectorsEach * kMostThreads)
    return std::nullopt;
  auto ceildiv = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t each = count > kVectorsEach * kMostThreads
                           ? ceildiv(count, kMostThreads)
                           : std::min(kVectorsEach, ceildiv(count, 32));
  return RowForm{ceildiv(ceildiv(count, each), 32) * 32, each};
}

void KernelLaunch::row_variants(ir::ExprId rows, ir::ExprId length, std::optional<int64_t> known,
                                uint32_t element_bytes) {
  const std::optional<RowForm> form = row_form(known, element_bytes);
  if (!form) {
    variant("", exprs().make(ir::ExprKind::le, length, constant(256)), rows, {32, 1, 1});
    return variant("", {}, rows, {256, 1, 1});
  }
  vectors(element_bytes);
  option("-DROW_VECTORS=" + std::to_string(form->vectors));
  option("-DTHREADS=" + std::to_string(form->threads));
  variant("", {}, rows, {form->threads, 1, 1});
}

void KernelLaunch::emit(SourceLocation location) {
  CUGRT_CHECK(!kernel_.variants.empty());
  kernel_.location = location;
  if (fusion_) {
    const size_t first = kernel_.params.size();
    for (const auto &[name, value] : fusion_->tensors)
      input(name, value);
    const auto result =
        std::find_if(kernel_.params.rbegin(), kernel_.params.rend(),
                     [](const ir::KernelParam &param) { return param.access == ir::Access::out; });
    for (size_t tensor : fusion_->in_place)
      result->over.push_back(uint32_t(first + tensor));
    for (const auto &[name, value] : fusion_->sizes)
      size(name, value);
  }
  if (table_.programmatic()) { // kernels/shared/programmatic.cuh
    option("-DPROGRAMMATIC");
    for (ir::KernelVariant &variant : kernel_.variants)
      variant.programmatic = !variant.cooperative;
  }
  const uint32_t kernel =
      assumptions_.empty() ? table_.intern(std::move(kernel_))
                           : table_.intern_specialized(
                                 std::move(kernel_), std::string(kAssumptionOption) + assumptions_);
  builder_.launch(kernel, arguments_, location);
}

} // namespace cugrt::codegen
