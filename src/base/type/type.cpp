// The pool of types, and the size of tensors.
#include "base/type/type.h"

#include "base/check.h"

#include <algorithm>

namespace cugrt::ir {

static size_t hash_of(const Type &type) {
  uint64_t h = uint64_t(type.kind) | uint64_t(type.dtype) << 8 | uint64_t(type.scalar) << 16 |
               uint64_t(type.known_shape) << 24 | uint64_t(type.scope) << 32;
  auto mix = [&](uint32_t v) { h = (h ^ v) * 0x9e3779b97f4a7c15u, h ^= h >> 29; };
  mix(static_cast<uint32_t>(type.dims.size() << 8 | type.strides.size()));
  for (ExprId e : type.dims)
    mix(e.index);
  for (ExprId e : type.strides)
    mix(e.index);
  for (TypeId t : type.fields)
    mix(t.index);
  h *= 0xc4ceb9fe1a85ec53u;
  return h ^ (h >> 32);
}

TypePool::TypePool() { scopes_.emplace_back(kGlobalScope); }

TypeId TypePool::intern(Type type) {
  if ((types_.size() + 1) * 2 > table_.size()) {
    std::vector<uint32_t> table(std::max<size_t>(64, table_.size() * 2), 0);
    for (uint32_t i = 0; i < types_.size(); ++i) {
      size_t at = hash_of(types_[i]) & (table.size() - 1);
      while (table[at])
        at = (at + 1) & (table.size() - 1);
      table[at] = i + 1;
    }
    table_.swap(table);
  }
  size_t mask = table_.size() - 1, at = hash_of(type) & mask;
  for (; table_[at]; at = (at + 1) & mask)
    if (types_[table_[at] - 1] == type)
      return {table_[at] - 1};
  Extent extent;
  if (type.kind == TypeKind::tuple) {
    uint64_t leaves = 0;
    for (TypeId field : type.fields) {
      extent.nesting = std::max(extent.nesting, extents_[field.index].nesting);
      leaves = std::min<uint64_t>(leaves + extents_[field.index].leaf_count, UINT32_MAX);
    }
    extent = {extent.nesting + 1, static_cast<uint32_t>(leaves)};
  }
  extents_.push_back(extent);
  types_.push_back(std::move(type));
  table_[at] = static_cast<uint32_t>(types_.size());
  return {table_[at] - 1};
}

uint32_t TypePool::scope(std::string_view name) {
  // Few scopes exist (the parser bounds them), so a scan is enough.
  auto it = std::find(scopes_.begin(), scopes_.end(), name);
  if (it == scopes_.end())
    it = scopes_.emplace(it, name);
  return static_cast<uint32_t>(it - scopes_.begin());
}

TypeId TypePool::tensor(DType dtype, std::vector<ExprId> dims, uint32_t scope) {
  return intern(
      Type{.kind = TypeKind::tensor, .dtype = dtype, .scope = scope, .dims = std::move(dims)});
}

TypeId TypePool::storage(uint32_t scope, ExprId bytes) {
  return intern({.kind = TypeKind::storage, .scope = scope, .dims = {bytes}});
}

TypeId TypePool::scalar(ScalarKind kind, ExprId value) {
  Type type;
  type.kind = TypeKind::scalar;
  type.scalar = kind;
  if (value.valid())
    type.dims = {value};
  return intern(std::move(type));
}

TypeId TypePool::shape(std::vector<ExprId> dims) {
  return intern({.kind = TypeKind::shape, .dims = std::move(dims)});
}

TypeId TypePool::tuple(std::vector<TypeId> fields) {
  return intern({.kind = TypeKind::tuple, .fields = std::move(fields)});
}

TypeId TypePool::simple(TypeKind kind) {
  Type type;
  type.kind = kind;
  return intern(std::move(type));
}

// --- Sizes ---------------------------------------------------------------------------------------

static ExprId contiguous_bytes(ExprPool &exprs, const Type &t) {
  const DTypeInfo &d = info(t.dtype);
  ExprId bytes = exprs.constant(d.bytes_per_block);
  for (size_t i = 0; i < t.dims.size(); ++i) {
    ExprId blocks = t.dims[i];
    if (i + 1 == t.dims.size() && d.elements_per_block != 1)
      blocks = exprs.ceildiv(blocks, exprs.constant(d.elements_per_block));
    bytes = exprs.mul(bytes, blocks);
  }
  return bytes;
}

static ExprId strided_bytes(ExprPool &exprs, const Type &t) {
  const DTypeInfo &d = info(t.dtype);
  ExprId one = exprs.constant(1), zero = exprs.constant(0);
  ExprId elements = one, smallest; // smallest: of the dimensions that may be 0
  for (size_t i = 0; i < t.dims.size(); ++i) {
    elements = exprs.add(elements, exprs.mul(exprs.sub(t.dims[i], one), t.strides[i]));
    auto constant = exprs.as_constant(t.dims[i]);
    if (constant && *constant == 0)
      return zero;
    if (!constant)
      smallest = smallest.valid() ? exprs.min(smallest, t.dims[i]) : t.dims[i];
  }
  if (d.elements_per_block != 1)
    elements = exprs.ceildiv(elements, exprs.constant(d.elements_per_block));
  ExprId bytes = exprs.mul(elements, exprs.constant(d.bytes_per_block));
  if (!smallest.valid())
    return bytes;
  return exprs.make(ExprKind::select, exprs.make(ExprKind::eq, smallest, zero), zero, bytes);
}

ExprId tensor_bytes(ExprPool &exprs, const Type &tensor) {
  CUGRT_CHECK(tensor.kind == TypeKind::tensor && tensor.known_shape);
  CUGRT_CHECK(tensor.strides.empty() || tensor.strides.size() == tensor.dims.size());
  const Type copy = tensor; // the caller's reference may be into a pool that grows
  return copy.strides.empty() ? contiguous_bytes(exprs, copy) : strided_bytes(exprs, copy);
}

} // namespace cugrt::ir
