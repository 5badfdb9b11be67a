// Names of lifted functions, and which regions share one.
//
// Two regions are equal when they are written alike once values are numbered in the order in which
// they come in and are made, and symbols in the order of the shape argument. That writing is the
// region's key: a list of words in which nothing else can be read. A storage's size is no part of
// it, since a larger storage does as well.
#include "compiler/ir_names.h"
#include "compiler/planner/published/parts.h"

#include "ir/module/names.h"

#include <cstring>
#include <unordered_map>

namespace cugrt::plan {

namespace {

using Key = std::vector<uint64_t>;

struct KeyHash {
  size_t operator()(const Key &key) const {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (uint64_t word : key)
      h = (h ^ word) * 0xff51afd7ed558ccdu, h ^= h >> 32;
    return h;
  }
};

/// Writes the keys of one function's regions.
class KeyWriter {
public:
  KeyWriter(const ir::Module &module, const ir::Function &function, ir::ExprPool &canonical)
      : module_(module), function_(function), domain_(function.symbol_domain(module.exprs)),
        canonical_(canonical), number_(function.values.size(), UINT32_MAX),
        symbols_(function.symbols.size()) {}

  Key write(const PublishedRegion &region, std::span<const Binding *const> bindings) {
    key_.clear();
    next_ = 0;
    for (ir::SymbolId symbol : numbered_)
      symbols_[symbol.index] = {};
    numbered_ = region.symbols;
    put(region.symbols.size());
    for (uint32_t i = 0; i < region.symbols.size(); ++i) {
      symbols_[region.symbols[i].index] = canonical_.symbol({i});
      const ir::Interval &bounds = domain_[region.symbols[i].index];
      put(uint64_t(bounds.lower)), put(uint64_t(bounds.upper));
    }
    for (const ir::Constraint &constraint : function_.constraints)
      if (ir::is_over(module_.exprs, constraint, region.symbols)) {
        put(constraint.expr);
        put(uint64_t(constraint.most));
      }
    put(region.inputs.size());
    for (ValueId input : region.inputs)
      define(input);
    for (uint32_t number : region.bindings)
      write(*bindings[number]);
    put(region.outputs.size());
    for (ValueId output : region.outputs)
      put(number_[output.index]);
    return key_;
  }

private:
  void put(uint64_t word) { key_.push_back(word); }
  void put(std::string_view text) {
    put(text.size());
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + i, std::min<size_t>(8, text.size() - i));
      put(word);
    }
  }

  void put(ir::ExprId expr) {
    if (!expr.valid())
      return put(uint64_t(0));
    if (const std::optional<int64_t> constant = module_.exprs.as_constant(expr))
      return put(uint64_t(1)), put(uint64_t(*constant));
    put(uint64_t(2)), put(module_.exprs.copy_to(canonical_, expr, replacement(expr)).index);
  }

  /// Symbols outside of the key keep numbers of their own.
  std::span<const ir::ExprId> replacement(ir::ExprId expr) {
    scratch_.clear();
    module_.exprs.collect_symbols(expr, scratch_);
    for (ir::SymbolId symbol : scratch_)
      if (!symbols_[symbol.index].valid()) {
        symbols_[symbol.index] =
            canonical_.symbol({uint32_t(function_.symbols.size()) + symbol.index});
        numbered_.push_back(symbol);
      }
    return symbols_;
  }

  /// A storage that is given by itself may be larger; one in a tuple has the tuple's type.
  void put(ir::TypeId id, bool in_tuple = false) {
    const ir::Type &type = module_.types[id];
    put(uint64_t(type.kind) | uint64_t(type.dtype) << 8 | uint64_t(type.scalar) << 16 |
        uint64_t(type.known_shape) << 24);
    put(type.scope);
    if (type.kind == ir::TypeKind::storage && !in_tuple)
      return;
    put(type.dims.size());
    for (ir::ExprId dim : type.dims)
      put(dim);
    put(type.strides.size());
    for (ir::ExprId stride : type.strides)
      put(stride);
    put(type.fields.size());
    for (ir::TypeId field : type.fields)
      put(field, true);
  }

  void put(const ir::AttributeValue &value) {
    put(value.index());
    std::visit([&](const auto &v) { put_value(v); }, value);
  }
  void put_value(bool v) { put(uint64_t(v)); }
  void put_value(int64_t v) { put(uint64_t(v)); }
  void put_value(double v) {
    uint64_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    put(bits);
  }
  void put_value(const std::string &v) { put(std::string_view(v)); }
  void put_value(const ir::DTypeLiteral &v) { put(uint64_t(v.dtype)); }
  template <class T> void put_value(const std::vector<T> &list) {
    put(list.size());
    for (const T &v : list)
      put_value(v);
  }

  void put(const Operand &operand) {
    put(uint64_t(operand.kind));
    switch (operand.kind) {
    case Operand::Kind::value:
      return put(uint64_t(number_[operand.index]));
    case Operand::Kind::expr:
      return put(operand.expr());
    case Operand::Kind::literal:
      return put(module_.literals[operand.index]);
    case Operand::Kind::none:
    case Operand::Kind::function:
      return put(uint64_t(operand.index));
    }
  }

  void define(ValueId value) {
    number_[value.index] = next_++;
    put(function_.value(value).type);
  }

  void write(const Binding &b) {
    put(uint64_t(b.kind));
    if (b.kind == ir::BindingKind::extern_call)
      put(std::string_view(module_.callee_names[b.callee])); // names may stand twice
    else
      put(uint64_t(b.callee));
    put(b.operands.count);
    for (const Operand &operand : function_.operands_of(b))
      put(operand);
    put(b.exprs.count);
    for (ir::ExprId expr : function_.exprs_of(b))
      put(expr);
    put(b.attributes.count);
    for (const ir::Attribute &attribute : function_.attributes_of(b)) {
      put(std::string_view(attribute.name));
      put(attribute.value);
    }
    put(b.result_count);
    for (uint32_t i = 0; i < b.result_count; ++i)
      define(b.result(i));
  }

  const ir::Module &module_;
  const ir::Function &function_;
  const ir::SymbolDomain domain_;
  ir::ExprPool &canonical_;
  Key key_;
  uint32_t next_ = 0;
  std::vector<uint32_t> number_;    // by value, within the region
  std::vector<ir::ExprId> symbols_; // by symbol, in the canonical pool
  std::vector<ir::SymbolId> numbered_, scratch_;
};

/// Names as published: the hint, then with 1, 2, .. appended.
class Names {
public:
  explicit Names(const ir::Module &module) {
    for (const ir::Function &function : module.functions)
      taken_.try_emplace(function.name, 1);
    for (const ir::Kernel &kernel : module.kernels)
      taken_.try_emplace(kernel.name, 1);
  }

  std::string fresh(const std::string &hint) { return ir::unique_name(taken_, hint, ""); }

private:
  std::unordered_map<std::string, uint32_t> taken_;
};

} // namespace

std::vector<const Binding *> bindings_in_order(const ir::Function &function) {
  std::vector<const Binding *> list;
  auto walk = [&](auto &self, uint32_t block) -> void {
    for (const Binding &b : function.blocks[block].bindings) {
      list.push_back(&b);
      for (uint32_t nested = b.blocks.begin; nested < b.blocks.end(); ++nested)
        self(self, nested);
    }
  };
  walk(walk, 0);
  return list;
}

void name_published_functions(const ir::Module &module, PublishedAnalysis &analysis) {
  Names names(module);
  if (!analysis.merged.empty())
    analysis.allocation_name = names.fresh("cuda_graph_alloc");
  ir::ExprPool canonical;
  std::unordered_map<Key, uint32_t, KeyHash> lifted_by_key;
  uint32_t capture_index = 0;
  for (uint32_t f = 0; f < module.functions.size(); ++f) {
    std::vector<PublishedRegion> &regions = analysis.functions[f].regions;
    if (regions.empty())
      continue;
    const ir::Function &function = module.functions[f];
    std::vector<const Binding *> bindings = bindings_in_order(function);
    KeyWriter writer(module, function, canonical);
    for (uint32_t r = 0; r < regions.size(); ++r) {
      Key key = writer.write(regions[r], bindings);
      auto [it, is_new] =
          lifted_by_key.try_emplace(std::move(key), uint32_t(analysis.lifted.size()));
      if (is_new)
        analysis.lifted.push_back({names.fresh(function.name + "_cuda_graph_capture"), f, r});
      regions[r].lifted = it->second;
      regions[r].capture_index = capture_index++;
    }
  }
}

} // namespace cugrt::plan
