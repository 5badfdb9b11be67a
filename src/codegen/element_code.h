// CUDA C++ for one element of a value of a group, from elements of the group's inputs.
//
// Each value is asked for at an index: coordinates in a *space*, the dimensions of what is
// computed. Broadcasting drops coordinates and transposition permutes them, so that an input is
// read at a sum of coordinates times strides; reshaping begins a new space, whose linear index is
// such a sum in the old one. Coordinates are made by division where they are needed at all, over
// the fewest dimensions (merge, in index_space.h).
#pragma once

#include "codegen/fused_group.h"
#include "codegen/index_space.h"

#include <map>
#include <string>

namespace cugrt::codegen {

/// The type of elements of `dtype` in CUDA C++; empty for those that it has no plain type for.
std::string_view element_type(ir::DType dtype);
/// The function of kernels/elementwise.cuh that computes an op, without `op::`; empty when it is
/// not one of them.
std::string elementwise_function(ir::Op op, std::span<const ir::Attribute> attributes);
/// Whether an op only chooses which element it is: reshape, transpose.
bool is_relabelling(ir::Op op);

/// What generated code takes: names are those of the kernel's parameters.
struct ElementParameters {
  struct Tensor {
    std::string name; // x0, x1, ..
    uint32_t value;   // of the group
  };
  struct Size {
    std::string name;
    ir::ExprId value;
  };
  std::vector<Tensor> tensors;
  std::vector<Size> sizes;
  bool uses_f16 = false, uses_bf16 = false;
};

class ElementCode {
public:
  struct Names {
    std::string index = "i", tensors = "x"; // tensors get numbers
    uint32_t leaf = FusedGroup::kNoValue; // a value that is there, as a variable of the name below
    std::string leaf_name{};
  };
  /// `ops`, of the group, are computed in place; other values but the leaf are loaded.
  ElementCode(ir::Module &module, const FusedGroup &group, std::span<const uint32_t> ops,
              Names names);

  /// Lines that compute the element of `value` whose linear index is the variable of that name; the
  /// last one begins with `store`: "return ", "y[i] = ". Called once. Code::unsupported for what
  /// cannot be written, such as a leaf at another index.
  Result<std::string> lines(uint32_t value, const std::string &indent, const std::string &store);

  const ElementParameters &parameters() const { return parameters_; }
  /// Of an input: whether it is read at the same linear index only.
  bool is_read_in_place(size_t tensor) const { return in_place_[tensor]; }

private:
  /// What is read at: coordinates of a space, by strides.
  struct Access {
    std::vector<ir::ExprId> strides; // by dimension of the space
    bool whole = false;              // the linear index itself
    std::string owner;               // in names of parameters
    std::string text;                // once the space is written
  };
  struct Space {
    std::vector<ir::ExprId> dims;
    std::string linear;
    uint32_t parent = UINT32_MAX, parent_access = 0; // where the linear index comes from
    std::vector<Access> accesses;
    bool written = false;
  };
  /// A value's axes as dimensions of a space; -1: coordinate 0.
  struct Index {
    uint32_t space;
    std::vector<int> axes;
    friend auto operator<=>(const Index &, const Index &) = default;
  };
  struct Node {
    uint32_t value;
    uint32_t op = UINT32_MAX;                // of the group; none: loaded, or the leaf
    uint32_t space = 0, access = UINT32_MAX; // of what is loaded
    uint32_t tensor = 0;
    std::vector<uint32_t> operands;
    uint32_t uses = 0;
    std::string text; // of the written expression
  };

  Result<uint32_t> visit(uint32_t value, const Index &index);
  Result<uint32_t> visit_op(uint32_t op, const Index &index);
  Result<uint32_t> load(uint32_t value, const Index &index);
  Index under_broadcast(uint32_t operand, uint32_t result, const Index &index) const;
  Index under_transpose(const FusedOp &op, const Index &index) const;
  Index under_reshape(const FusedOp &op, const Index &index);
  /// Whether an index of that space's is the linear index that was asked for.
  bool is_root(uint32_t space) const { return spaces_[space].linear == given_.index; }
  Access access(uint32_t value, const Index &index, std::string owner);
  uint32_t add_access(uint32_t space, Access access);

  void write_space(uint32_t space);
  void write_coordinates(Space &space);
  const std::string &write(uint32_t node);
  std::string operation(const Node &node);
  std::string size(const std::string &hint, ir::ExprId value);
  std::string unique(const std::string &hint);
  const std::string &offset(const Node &node) {
    return spaces_[node.space].accesses[node.access].text;
  }

  const ir::Type &type(uint32_t value) const { return module_.types[group_.values[value].type]; }
  void note(ir::DType dtype);

  ir::Module &module_;
  const FusedGroup &group_;
  std::vector<uint32_t> made_by_; // by value: the op to compute it by, or none
  const Names given_;
  std::vector<Space> spaces_;
  std::vector<Node> nodes_;
  std::map<std::pair<uint32_t, Index>, uint32_t> known_;
  std::map<uint32_t, uint32_t> tensor_of_; // by value
  std::map<std::string, uint32_t> names_;
  std::string indent_, lines_;
  ElementParameters parameters_;
  std::vector<bool> in_place_;
};

} // namespace cugrt::codegen
