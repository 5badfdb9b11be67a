// Sizes at upper bounds, by interval arithmetic and joint limits: never too small.
#include "compiler/planner/symbols/sizes.h"

#include "base/checked_math.h"

#include <algorithm>

namespace cugrt::plan {

std::optional<int64_t> upper_bound(const ir::ExprPool &exprs, ir::ExprId expr,
                                   const ir::Domain &domain) {
  int64_t upper = exprs.range(expr, domain).upper;
  return upper == INT64_MAX ? std::nullopt : std::optional(std::max<int64_t>(upper, 0));
}

std::vector<ir::Interval> proven_bounds(const ir::Module &module, const ir::Function &function) {
  std::vector<ir::Interval> bounds = function.symbol_bounds();
  for_each_matched(module, function, [&](ir::SymbolId symbol, ir::ExprId dim) {
    ir::Interval &own = bounds[symbol.index];
    own = ir::narrowed(own, module.exprs.range(dim, bounds)); // else every run fails
  });
  return bounds;
}

static std::optional<int64_t> strided_elements(const ir::ExprPool &exprs, const ir::Type &tensor,
                                               const ir::Domain &domain) {
  int64_t elements = 1;
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    auto dim = upper_bound(exprs, tensor.dims[i], domain);
    auto stride = upper_bound(exprs, tensor.strides[i], domain);
    if (!dim || !stride)
      return std::nullopt;
    if (*dim == 0)
      return 0;
    auto reach = checked_mul(*dim - 1, *stride);
    if (!domain.limits.empty()) { // (dim - 1) * stride, where dim * stride is limited
      const ir::ExprId both[] = {tensor.dims[i], tensor.strides[i]};
      const int64_t product = exprs.product_upper(both, 1, domain);
      const int64_t least = exprs.range(tensor.strides[i], domain).lower;
      if (product != INT64_MAX && least >= 0)
        reach = std::min(reach.value_or(INT64_MAX), std::max<int64_t>(product - least, 0));
    }
    auto sum = reach ? checked_add(elements, *reach) : std::nullopt;
    if (!sum)
      return std::nullopt;
    elements = *sum;
  }
  return elements;
}

std::optional<int64_t> max_tensor_bytes(const ir::ExprPool &exprs, const ir::Type &tensor,
                                        const ir::Domain &domain) {
  if (!tensor.known_shape)
    return std::nullopt;
  const ir::DTypeInfo &dtype = ir::info(tensor.dtype);
  int64_t per_block = dtype.elements_per_block;
  std::optional<int64_t> blocks;
  if (!tensor.strides.empty()) {
    blocks = strided_elements(exprs, tensor, domain);
    blocks = blocks ? checked_ceildiv(*blocks, per_block) : std::nullopt;
  } else {
    blocks = 1;
    for (size_t i = 0; i < tensor.dims.size() && blocks; ++i) {
      auto dim = upper_bound(exprs, tensor.dims[i], domain);
      if (dim && i + 1 == tensor.dims.size())
        dim = checked_ceildiv(*dim, per_block);
      blocks = dim ? checked_mul(*blocks, *dim) : std::nullopt;
    }
    if (!domain.limits.empty() && !tensor.dims.empty())
      if (const int64_t joint = exprs.product_upper(tensor.dims, per_block, domain);
          joint != INT64_MAX)
        blocks = std::min(blocks.value_or(INT64_MAX), joint);
  }
  return blocks ? checked_mul(*blocks, dtype.bytes_per_block) : std::nullopt;
}

std::string unbounded_symbol(std::span<const ir::SymbolId> symbols, const ir::Function &function,
                             const ir::Domain &domain) {
  for (ir::SymbolId symbol : symbols) {
    const ir::Symbol &s = function.symbols[symbol.index];
    if (domain.box[symbol.index].upper != INT64_MAX)
      continue;
    const std::string place =
        s.location.known() ? ", defined in line " + std::to_string(s.location.line) + "," : "";
    return "symbol " + s.name + place + " has no upper bound; add `upper_bounds = {" + s.name +
           " = ...}` to the attributes of @" + function.name;
  }
  return "";
}

std::string missing_bound(const ir::ExprPool &exprs, std::span<const ir::ExprId> dims,
                          const ir::Function &function, const ir::Domain &domain) {
  std::vector<ir::SymbolId> symbols;
  for (ir::ExprId dim : dims)
    exprs.collect_symbols(dim, symbols);
  std::string symbol = unbounded_symbol(symbols, function, domain);
  return symbol.empty() ? "its size overflows 63 bits at the symbols' upper bounds; lower them"
                        : symbol;
}

std::string unbounded_reason(const ir::Module &module, const ir::Function &function,
                             ir::ValueId value, const ir::Domain &domain) {
  const ir::Type &type = module.types[function.value(value).type];
  if (type.kind != ir::TypeKind::tensor || !type.known_shape ||
      max_tensor_bytes(module.exprs, type, domain))
    return "";
  return "; " + missing_bound(module.exprs, type.dims, function, domain);
}

namespace {

/// A product of constants, and of expressions that are none.
struct Product {
  std::optional<int64_t> constant = 1; // none: it overflows, or the size is no such product
  std::vector<ir::ExprId> factors{};

  void multiply(const ir::ExprPool &exprs, ir::ExprId by) {
    constexpr uint32_t kLargest = 64; // nodes that are taken apart
    const ir::ExprNode &node = exprs[by];
    if (node.kind == ir::ExprKind::constant) {
      constant = constant ? checked_mul(*constant, node.value) : constant;
    } else if (node.kind == ir::ExprKind::mul && exprs.tree_size(by) <= kLargest) {
      multiply(exprs, node.a);
      multiply(exprs, node.b);
    } else {
      factors.push_back(by);
    }
  }
};

/// The bytes of a contiguous tensor. Packed dtypes round the last dimension up, so there it must be
/// a multiple of the block.
Product bytes_of(const ir::ExprPool &exprs, const ir::Type &type) {
  const ir::DTypeInfo &dtype = ir::info(type.dtype);
  Product bytes{dtype.bytes_per_block};
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (i + 1 != type.dims.size() || dtype.elements_per_block == 1) {
      bytes.multiply(exprs, type.dims[i]);
      continue;
    }
    const std::optional<int64_t> dim = exprs.as_constant(type.dims[i]);
    if (!dim || *dim % dtype.elements_per_block != 0)
      return {std::nullopt};
    bytes.constant = bytes.constant ? checked_mul(*bytes.constant, *dim / dtype.elements_per_block)
                                    : std::nullopt;
  }
  std::sort(bytes.factors.begin(), bytes.factors.end());
  return bytes;
}

} // namespace

static bool same_bytes(const ir::ExprPool &exprs, const ir::Type &x, const ir::Type &y) {
  const Product of_x = bytes_of(exprs, x), of_y = bytes_of(exprs, y);
  return of_x.constant && of_x.constant == of_y.constant && of_x.factors == of_y.factors;
}

SizeComparison::SizeComparison(const ir::Module &module, const ir::Function &function)
    : module_(module), matched_(exprs_, function.symbols.size()) {
  for_each_matched(module, function, [&](ir::SymbolId symbol, ir::ExprId dim) {
    matched_.define(symbol, module.exprs, dim);
  });
}

ir::Type SizeComparison::resolved(const ir::Type &type) const {
  ir::Type copy = type;
  for (ir::ExprId &dim : copy.dims)
    dim = matched_.resolve(module_.exprs, dim);
  return copy;
}

bool SizeComparison::same_bytes(ir::TypeId a, ir::TypeId b) const {
  if (a == b)
    return true;
  const ir::Type &x = module_.types[a], &y = module_.types[b];
  if (x.kind != ir::TypeKind::tensor || y.kind != ir::TypeKind::tensor || !x.known_shape ||
      !y.known_shape || !x.strides.empty() || !y.strides.empty())
    return false;
  return plan::same_bytes(module_.exprs, x, y) ||
         (!matched_.empty() && plan::same_bytes(exprs_, resolved(x), resolved(y)));
}

uint32_t natural_alignment(ir::DType dtype) {
  uint32_t bytes = ir::info(dtype).bytes_per_block;
  return bytes & (~bytes + 1);
}

} // namespace cugrt::plan
