// Sizes at the symbols' upper bounds, and facts about sizes for all values of symbols.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"
#include "plan/symbols/bucket_boxes.h"
#include "plan/symbols/matched_symbols.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace cugrt::plan {

std::vector<Bucket> buckets_of(const ir::Function &function);
BucketBoxes boxes_of(const ir::Module &module, const ir::Function &function);
/// Every value that a run may bring; see bucket_boxes.h.
ir::SymbolDomain symbol_domain(const ir::Module &module, const ir::Function &function);

/// Calls visit(symbol, dim) for each symbol of a function that a match defines, where the dimension
/// that it is matched to is known; those that this is made of come before it.
void for_each_matched(const ir::Module &module, const ir::Function &function,
                      const std::function<void(ir::SymbolId, ir::ExprId)> &visit);

/// The largest value of an expression over the domain; empty when a symbol without an upper bound,
/// or overflow, leaves it open.
std::optional<int64_t> upper_bound(const ir::ExprPool &exprs, ir::ExprId expr,
                                   const ir::Domain &domain);

/// The bounds of a function's symbols, by symbol. A symbol that a match defines lies also within
/// those of the dimension that it is matched to, where that is known.
std::vector<ir::Interval> proven_bounds(const ir::Module &module, const ir::Function &function);

/// The largest size of a tensor of this type; empty as above, or where the shape is not known.
std::optional<int64_t> max_tensor_bytes(const ir::ExprPool &exprs, const ir::Type &tensor,
                                        const ir::Domain &domain);

/// The same of many tensors, found once for each type. The module and the domain must live as long.
class TypeSizes {
public:
  TypeSizes(const ir::Module &module, const ir::Domain &domain)
      : module_(module), domain_(domain), known_(module.types.size()) {}
  std::optional<int64_t> max_bytes(ir::TypeId type) {
    Known &known = known_[type.index];
    if (!std::exchange(known.asked, true))
      known.bytes = max_tensor_bytes(module_.exprs, module_.types[type], domain_);
    return known.bytes;
  }

private:
  struct Known {
    bool asked = false;
    std::optional<int64_t> bytes;
  };
  const ir::Module &module_;
  const ir::Domain domain_;
  std::vector<Known> known_; // by type
};

/// The first of the symbols that has no upper bound, where it is defined, and how to bound it, for
/// messages; empty where all have one.
std::string unbounded_symbol(std::span<const ir::SymbolId> symbols, const ir::Function &function,
                             const ir::Domain &domain);

/// The same of sizes without an upper bound, which some symbol's or an overflow is the reason of.
std::string missing_bound(const ir::ExprPool &exprs, std::span<const ir::ExprId> dims,
                          const ir::Function &function, const ir::Domain &domain);

/// For a tensor that cannot be planned, since its size has no upper bound: "; symbol n has no ...";
/// empty for any other value.
std::string unbounded_reason(const ir::Module &module, const ir::Function &function,
                             ir::ValueId value, const ir::Domain &domain);

/// Compares sizes of one function's types. The module must live as long.
class SizeComparison {
public:
  SizeComparison(const ir::Module &module, const ir::Function &function);
  SizeComparison(const SizeComparison &) = delete;

  /// Whether two contiguous tensor types have the same size for every value of the symbols that
  /// matches let through. False also where that cannot be seen.
  bool same_bytes(ir::TypeId a, ir::TypeId b) const;

private:
  ir::Type resolved(const ir::Type &type) const;
  const ir::Module &module_;
  ir::ExprPool exprs_; // of what matches make of types
  MatchedSymbols matched_;
};

/// The least alignment of a tensor's first element: the largest power of two in a block's bytes.
uint32_t natural_alignment(ir::DType dtype);

} // namespace cugrt::plan
