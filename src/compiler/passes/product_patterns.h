// Which products FuseOpsByPattern makes one launch, and of what else:
//
//   rms_norm    --> matmul --> reshape --> rotary --> ..        products that read the same rows,
//               |-> matmul --> reshape --> rotary --.           at most 8 of them
//               '-> matmul --> reshape --> cache_write
//
//   before    a norm of rows, where nothing but the products reads its result; and before that the
//             sum that it reads, of other rows and a norm; or a cast of rows to 16 bits that no
//             kernel before makes as it stores
//   behind    elementwise ops at the product's own indices, which may join several products;
//             or the heads' norm and rotary embedding, with casts around them; and then the way
//             into a decoder's caches
//
// A product alone is left to FuseOps where that can do as much, unless it is one phase of many. All
// bindings of a match lie in one run of bindings that write nothing, but for the writes of caches
// that end it: the match is computed where its last binding stood.
#pragma once

#include "compiler/fused/products.h"
#include "ops/emit/kernel_table.h"

#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <variant>
#include <vector>

namespace cugrt::passes {

/// Values and bindings are those of the function that was looked at.
struct ProductMatch {
  struct Part {
    std::vector<const ir::Binding *> products;
    std::vector<const ir::Binding *> ops; // elementwise, in order
    const ir::Binding *rotary = nullptr, *head_norm = nullptr;
    const ir::Binding *append = nullptr; // the op that writes it to a cache
    ir::ValueId result;
  };
  uint32_t block = 0;
  bool pays = true; // without: FuseOps does as much; it may be a phase of PersistentMatch
  std::vector<const ir::Binding *> bindings; // all, in order
  std::vector<Part> parts;
  const ir::Binding *norm = nullptr, *rounding = nullptr;   // the second a cast
  const ir::Binding *sum = nullptr, *summed_norm = nullptr; // add, of residual and a norm
  bool is_sum_read = false;                                 // elsewhere, too
  ir::ValueId residual;
  ir::ValueId x; // what the first norm reads, or the products
  ir::ExprId rows;
  int64_t most_rows = 0, depth = 0;
  /// Bindings between the first and the last that are no part of it and read its results: they
  /// stand behind it then.
  std::vector<const ir::Binding *> after;
};

struct ProductMatches {
  std::vector<ProductMatch> matches;
  /// Counts of fused groups, and of nearby ones that were not fused, with the reason.
  std::map<std::string, int> notes;
};

/// Matches in a function whose expressions and types are those of `module`, to whose pool some are
/// added. `takes_matmul`: whether products of plain elements may be taken.
ProductMatches match_products(ir::Module &module, const ir::Function &function, bool takes_matmul);

// Which products and attention of a function can be one launch of phases (fused/persistent.h): a
// decode step's layers, from the first product on.

/// Values and bindings are those of the function that was looked at.
struct PersistentMatch {
  std::vector<std::variant<const ProductMatch *, const ir::Binding *>> phases; // or an op
  std::vector<const ir::Binding *> bindings; // all between the first and the last
  /// Results that only phases read, as they are or reshaped, and their reshaped forms.
  std::unordered_set<uint32_t> exchanged, reshaped;
  std::unordered_set<uint32_t> given; // other results, and what is reshaped of these
};

/// Matches by the rule of docs/kernels.md; none if it does not hold.
std::optional<PersistentMatch> match_persistent(const ir::Module &module,
                                                const ir::Function &function,
                                                std::span<const ProductMatch> matches,
                                                const codegen::Target &target);

} // namespace cugrt::passes
