// Which products and attention of a function can be one launch of phases (fused/persistent.h): a
// decode step's layers, from the first product on.
#pragma once

#include "compiler/passes/product_patterns.h"
#include "ops/emit/kernel_table.h"

#include <optional>
#include <unordered_set>
#include <variant>

namespace cugrt::passes {

/// Values and bindings are those of the function that was looked at.
struct PersistentMatch {
  std::vector<std::variant<const ProductMatch *, const ir::Binding *>> phases; // or an op
  std::vector<const ir::Binding *> bindings; // all between the first and the last
  /// Results that phases alone read, as they are or reshaped, and what is so reshaped of them.
  std::unordered_set<uint32_t> exchanged, reshaped;
  std::unordered_set<uint32_t> given; // other results, and what is reshaped of these
};

/// By the rule of docs/kernels.md; none where it does not hold.
std::optional<PersistentMatch> match_persistent(const ir::Module &module,
                                                const ir::Function &function,
                                                std::span<const ProductMatch> matches,
                                                const codegen::Target &target);

} // namespace cugrt::passes
