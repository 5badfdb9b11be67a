// The nodes of one graph or local function that is being written, and the names of its values.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"
#include "ops/table/ops.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cugrt::onnx {

// Protobuf messages as bytes, field by field: what wire.h reads. Source: protobuf's encoding guide.

class Message {
public:
  void number(uint32_t field, uint64_t value) {
    varint(uint64_t(field) << 3);
    varint(value);
  }
  void real(uint32_t field, float value) {
    varint(uint64_t(field) << 3 | 5);
    char bits[sizeof value];
    std::memcpy(bits, &value, sizeof value);
    bytes_.append(bits, sizeof bits);
  }
  void text(uint32_t field, std::string_view value) {
    begin(field, value.size());
    bytes_ += value;
  }
  void message(uint32_t field, const Message &value) { text(field, value.bytes_); }
  /// The head of a field of `size` bytes, which follow elsewhere.
  void begin(uint32_t field, uint64_t size) {
    varint(uint64_t(field) << 3 | 2);
    varint(size);
  }
  void append(const Message &fields) { bytes_ += fields.bytes_; }
  const std::string &bytes() const { return bytes_; }

private:
  void varint(uint64_t value) {
    for (; value > 127; value >>= 7)
      bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

/// An attribute of a node: integers, a number, a text, several integers, or a tensor's message.
using NodeAttribute =
    std::pair<std::string,
              std::variant<int64_t, float, std::string, std::vector<int64_t>, Message>>;
using NodeAttributes = std::vector<NodeAttribute>;
using Names = std::vector<std::string>;

class GraphWriter {
public:
  /// `field`: the number of nodes in the message around them: kNodesOfGraph or kNodesOfFunction.
  static constexpr uint32_t kNodesOfGraph = 1, kNodesOfFunction = 7;
  GraphWriter(const ir::Module &module, const ir::Function &function, uint32_t field)
      : module_(module), function_(function), field_(field), values_(function.values.size()) {}

  // --- Names
  /// A name that no other value of the graph has, made from `wanted`.
  std::string fresh(const std::string &wanted);
  void bind(ir::ValueId value, Names names) { values_[value.index] = std::move(names); }
  /// The name of a value that is one tensor, or one list of integers.
  const std::string &name(ir::ValueId value);
  const Names &names(ir::ValueId value) const { return values_[value.index]; }

  // --- Nodes
  /// Adds a node and returns its result, called after `wanted`.
  std::string node(const std::string &op, const Names &inputs,
                   const NodeAttributes &attributes = {}, const std::string &wanted = "v");
  Names node_of(const std::string &op, const std::string &domain, const Names &inputs,
                const NodeAttributes &attributes, const Names &wanted);
  /// A result that `fresh` has named already, as what `value` is.
  void give(const std::string &value, const std::string &result);
  /// A tensor in the graph: `values` as `dtype`, of dimensions `dims`.
  std::string constant(ir::DType dtype, const std::vector<double> &values,
                       const std::vector<int64_t> &dims);
  std::string integers(const std::vector<int64_t> &values); // i64, of one dimension
  std::string tensor(ir::DType dtype, const std::vector<int64_t> &dims, std::string_view bytes,
                     const std::string &wanted);

  // --- Symbols
  /// Takes the symbols that a value's type has as whole dimensions, where they are not known yet.
  void define_symbols(ir::ValueId value);
  void define_symbol(ir::SymbolId symbol, const std::string &name) {
    symbols_.try_emplace(symbol.index, name);
  }
  /// The expression's value, i64 of one element.
  std::string expr(ir::ExprId expr);
  /// The same without dimensions.
  std::string scalar(ir::ExprId e) { return node("Squeeze", {expr(e)}, {}, "n"); }
  std::string shape(std::span<const ir::ExprId> dims); // i64 of one dimension

  // --- Queries besides values
  const ir::Type &type(ir::ValueId value) const {
    return module_.types[function_.value(value).type];
  }
  const ir::Module &module() const { return module_; }
  const ir::Function &function() const { return function_; }
  /// The first one stays.
  void fail(const std::string &message) {
    if (status_.ok())
      status_ = Status::error(Code::unsupported, message);
  }
  const Status &status() const { return status_; }
  Status take_status() { return std::move(status_); }

  /// A binding's op as one node or several; its results are bound.
  void write_op(const ir::Binding &binding);

  /// State at the begin of nested graphs: their own nodes, and the names around them.
  struct Nested {
    Message nodes;
    uint32_t field;
    std::map<uint32_t, std::string> exprs, symbols;
  };
  Nested enter();
  /// The nested graph's nodes; the outer graph goes on.
  Message leave(Nested outer);
  const Message &nodes() const { return nodes_; }

private:
  std::string arithmetic(const ir::ExprNode &node);
  std::string floor_divide(const std::string &a, const std::string &b);

  const ir::Module &module_;
  const ir::Function &function_;
  uint32_t field_;
  Message nodes_;
  std::vector<Names> values_;
  std::map<std::string, size_t> used_; // each name, and how many others were made from it
  std::map<uint32_t, std::string> exprs_, symbols_; // by ExprId, by SymbolId
  Status status_;
};

} // namespace cugrt::onnx
