// Types of values, hash-consed: equal types of one module have equal ids.
#pragma once

#include "base/expr/expr.h"
#include "base/type/dtype.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cugrt::ir {

inline constexpr size_t kMaxRank = 8;
/// The scope of tensors and storages that name none: ordinary device memory.
inline constexpr std::string_view kGlobalScope = "global";

struct TypeId {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  friend auto operator<=>(TypeId, TypeId) = default;
};

enum class TypeKind : uint8_t {
  tensor,  // dtype, scope; dims when the shape is known; strides when not contiguous
  storage, // scope; dims[0] is its bytes
  scalar,  // a host scalar: int, float or bool; dims[0] is its value where a symbol or expression
           // names it
  shape,   // a host list of integers; dims when known
  tuple,   // fields
  string,
  dtype,
  object,
};

enum class ScalarKind : uint8_t { integer, floating, boolean };

struct Type {
  TypeKind kind = TypeKind::object;
  DType dtype = DType::f32;                // of a tensor
  ScalarKind scalar = ScalarKind::integer; // of a scalar
  bool known_shape = true;                 // of a tensor or shape
  uint32_t scope = 0;                      // of a tensor or storage: TypePool::scope_name()
  std::vector<ExprId> dims{};
  std::vector<ExprId> strides{}; // in elements; empty: contiguous
  std::vector<TypeId> fields{};  // of a tuple
  friend bool operator==(const Type &, const Type &) = default;
  /// Whether the dimensions are known, and a tensor's elements contiguous in global memory.
  bool is_plain() const { return known_shape && strides.empty() && scope == 0; }
  bool is_plain_tensor() const { return kind == TypeKind::tensor && is_plain(); }
};

class TypePool {
public:
  TypePool();
  TypeId intern(Type type);
  const Type &operator[](TypeId id) const { return types_[id.index]; }
  size_t size() const { return types_.size(); }
  /// How deep tuples nest (0: no tuple), and how many non-tuples are inside, written out;
  /// saturating.
  uint32_t nesting(TypeId id) const { return extents_[id.index].nesting; }
  uint32_t leaf_count(TypeId id) const { return extents_[id.index].leaf_count; }

  uint32_t scope(std::string_view name);                                         // interned
  const std::string &scope_name(uint32_t scope) const { return scopes_[scope]; } // 0 is "global"
  size_t scope_count() const { return scopes_.size(); }

  TypeId tensor(DType dtype, std::vector<ExprId> dims, uint32_t scope = 0);
  TypeId storage(uint32_t scope, ExprId bytes);
  TypeId scalar(ScalarKind kind, ExprId value = {}); // value may be absent
  TypeId shape(std::vector<ExprId> dims);
  TypeId tuple(std::vector<TypeId> fields);
  TypeId simple(TypeKind kind); // string, dtype, object

private:
  struct Extent {
    uint32_t nesting = 0, leaf_count = 1;
  };
  std::vector<Type> types_;
  std::vector<Extent> extents_;
  std::vector<std::string> scopes_;
  std::vector<uint32_t> table_; // open addressing: type index + 1; a power of two long
};

/// The one rule for a tensor's size: the product of the outer dimensions times the blocks of the
/// innermost one, ceildiv(last, elements per block), times the block's bytes; rank 0 is one
/// element. With strides: the bytes from the first to the last element touched, 0 when any
/// dimension is 0.
ExprId tensor_bytes(ExprPool &exprs, const Type &tensor);

} // namespace cugrt::ir
