// An ONNX file as values: what ModelProto holds, as views of the file's bytes.
//
// Nothing is copied but the lists; tensors stay where they lie. Depth of subgraphs and the number
// of things are bounded, so that memory stays in proportion to the file.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace cugrt::onnx {

inline constexpr unsigned kMaxDepth = 32;     // of subgraphs, and of calls of local functions
inline constexpr size_t kMaxNameBytes = 4096; // of values and ops
inline constexpr size_t kMaxThings = size_t(1) << 21; // nodes, attributes, tensors, names
inline constexpr int64_t kOldestOpset = 7, kOldestIr = 3;

struct TensorView {
  std::string_view name;
  int32_t data_type = 0; // TensorProto.DataType
  std::vector<int64_t> dims;
  std::string_view message; // the whole TensorProto, where typed data are read from
  std::string_view raw;
  bool has_raw = false, is_external = false;
  std::string_view location; // of external data
  uint64_t offset = 0, length = 0;
  bool has_length = false;
};

struct Dimension {
  bool known = false;
  int64_t value = 0;
  std::string_view name; // may be empty
};

struct ValueInfo {
  std::string_view name;
  bool is_tensor = false, has_shape = false;
  int32_t data_type = 0;
  std::vector<Dimension> dims;
};

struct Graph;

/// Numbered as in ONNX.
enum class AttributeKind : int32_t { number = 1, integer = 2, text = 3, integers = 7 };

struct AttributeView {
  std::string_view name;
  int32_t type = 0;
  float number = 0;
  int64_t integer = 0;
  std::string_view text, reference; // `reference`: of a function's body, its attribute
  std::shared_ptr<TensorView> tensor;
  std::shared_ptr<Graph> graph;
  std::vector<float> numbers;
  std::vector<int64_t> integers;
  std::vector<std::string_view> texts;
};

struct Node {
  std::string_view name, op, domain;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeView> attributes;
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<TensorView> initializers;
  std::vector<ValueInfo> inputs, outputs;
};

struct LocalFunction {
  std::string_view name, domain;
  std::vector<std::string_view> inputs, outputs, attributes;
  std::vector<AttributeView> defaults;
  std::vector<Node> nodes;
  int64_t opset = 0; // of the default domain
};

struct Model {
  int64_t ir_version = 0, opset = 0;
  Graph graph;
  std::vector<LocalFunction> functions;
};

/// Nodes are in an order in which they can be computed. Code::parse_error for bytes that are no
/// model, or one that is not sound: a cycle, values that are undefined or defined twice;
/// Code::unsupported for versions that are too old.
Result<Model> read_model(std::string_view bytes);

/// Puts the nodes of all graphs and functions behind those whose results they read; they are in the
/// file's order where that is possible. Code::parse_error names a node of a cycle.
Status sort_nodes(Model &model);

/// Checks that every value is defined once and before it is read, in all graphs and functions.
Status check_names(const Model &model);

/// One TensorProto, as a file of its own.
Result<TensorView> read_tensor(std::string_view bytes);

} // namespace cugrt::onnx
