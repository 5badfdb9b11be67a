// CUDA C++ for one element of a value of a group, from elements of the group's inputs.
//
// Each value is asked for at an index: coordinates in a *space*, the dimensions of the computed
// value. Broadcasting drops coordinates and transposition permutes them, so that an input is read
// at a sum of coordinates times strides. Where that does not reach, a new space begins, whose
// linear index is such a sum in the old one, with a constant, a position that is read or
// coordinates beyond an edge added: reshape, slice, the parts of a concat, pads, rows by number.
// Coordinates are made by division where they are needed at all, over the fewest dimensions (merge,
// in index_space.h).
//
//   concat(relu(x0), x1), axis 1       float concat;
//                                      if (i_at1 < Index(concat_end0)) {
//                                        concat = op::relu(x0[i_r1]);   i_r1, i_r2: linear indices
//                                      } else {                         of spaces of their own
//                                        concat = x1[i_r2];
//                                      }
//
// Values computed within a branch lie in spaces of its own, so nothing outside refers to them.
#pragma once

#include "compiler/fused/fused_group.h"
#include "ops/emit/element_ops.h"
#include "ops/emit/index_space.h"
#include "ops/emit/kernel_launch.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace cugrt::codegen {

/// Parameters of generated code, by the names of the kernel's parameters.
struct ElementParameters {
  struct Tensor {
    std::string name; // x0, x1, ..
    uint32_t value;   // of the group
  };
  struct Size {
    std::string name;
    ir::ExprId value;
    bool divides = false; // in code for elements by value: a Divisor (kernels/shared/divisor.cuh)
  };
  std::vector<Tensor> tensors;
  std::vector<Size> sizes;
  std::vector<ir::ExprId> counts; // what linear indices are below
  // Headers and functions that the text needs besides convert.cuh and elementwise.cuh:
  bool uses_f16 = false, uses_bf16 = false, uses_integers = false, uses_positions = false;
  bool uses_words = false;

  /// Adds the parameters of another function of the same kernel.
  void add(const ElementParameters &more);
};

class ElementCode {
public:
  struct Names {
    std::string index = "i", tensors = "x"; // tensors get numbers
    /// Values that are there, as variables of these names.
    std::vector<std::pair<uint32_t, std::string>> leaves{};
    bool by_value = false;          // what is_read_in_place and row_read
    bool in_place_by_value = false; // the former; other elements of two bytes are read by words
    bool columns_by_value = false;  // what moves along the innermost dimension: row_read
  };
  /// `ops`, of the group, are computed in place; other values but leaves are loaded.
  ElementCode(ir::Module &module, const FusedGroup &group, std::span<const uint32_t> ops,
              Names names);

  /// Lines that compute the element of `value` whose linear index is the variable of that name; the
  /// last one begins with `store`: "return ", "y[i] = ". Called once. Code::unsupported for what
  /// cannot be written, such as a leaf at another index.
  Result<std::string> lines(uint32_t value, const std::string &indent, const std::string &store);

  const ElementParameters &parameters() const { return parameters_; }
  /// Whether the input has as many elements as the result, each read at the same linear index only.
  /// With Names::by_value or in_place_by_value such an input's name stands for that element.
  bool is_read_in_place(size_t tensor) const { return in_place_[tensor]; }
  /// Whether the input, with Names::in_place_by_value, has an even number of elements of two bytes,
  /// and so is read by words.
  bool is_read_by_word(size_t tensor) const {
    const ir::Type &read = type(parameters_.tensors[tensor].value);
    return given_.in_place_by_value && ir::info(read.dtype).bytes_per_block == 2 &&
           std::any_of(read.dims.begin(), read.dims.end(), [&](ir::ExprId dim) {
             return module_.exprs.as_constant(dim).value_or(1) % 2 == 0;
           });
  }

  /// The reading of an input at one index only, which moves along the result's innermost dimension
  /// with it, or not at all: its place, as a function's body of the linear index, and the
  /// conditions for VECTOR neighbours of the result to have VECTOR neighbours of it, or one
  /// element. With Names::by_value or columns_by_value the input's name stands for the element.
  struct RowRead {
    std::string body;
    bool moves = false;
    std::vector<std::string> multiples; // sizes and strides that are multiples of VECTOR
  };
  const RowRead *row_read(size_t tensor) const {
    const auto at = row_reads_.find(tensor);
    return at == row_reads_.end() ? nullptr : &at->second;
  }

private:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// The place of a reading: coordinates of a space, by strides.
  struct Access {
    std::vector<ir::ExprId> strides; // by dimension of the space
    ir::ExprId base{};               // added; invalid: 0
    bool whole = false;              // the linear index itself
    std::string owner;               // in names of parameters
    std::string text;                // once the space is written
  };
  /// A position that is read, and its stride.
  struct Lookup {
    uint32_t node = kNone;
    ir::ExprId size, stride;
    bool from_either_end = false;
  };
  /// A coordinate that may lie beyond an edge of the tensor, which begins at `before`.
  struct Edge {
    uint32_t access; // the coordinate, in the parent
    int64_t before;
    ir::ExprId size, stride;
    bool mirrored;
  };
  struct Space {
    std::vector<ir::ExprId> dims;
    std::string linear;
    uint32_t parent = kNone, parent_access = kNone; // where the linear index comes from
    Lookup lookup{};                                // is added to it
    std::vector<Edge> edges{};                      // likewise
    bool is_slice = false; // all of its elements are the parent's, at the sum alone
    std::vector<Access> accesses;
    bool written = false;
  };
  /// A value's axes as dimensions of a space; -1: coordinate 0.
  struct Index {
    uint32_t space;
    std::vector<int> axes;
    friend auto operator<=>(const Index &, const Index &) = default;
  };
  /// from <= the access's coordinate < to; invalid: no bound.
  struct Bound {
    uint32_t access;
    ir::ExprId from, to;
  };
  /// One branch: an operand, or the number that replaces a missing one.
  struct Branch {
    std::vector<Bound> bounds; // none: otherwise
    ir::ExprId unless_empty{}; // where valid: a size that is not 0
    uint32_t operand = kNone;  // a node
  };
  struct Node {
    uint32_t value;
    uint32_t op = kNone;                // of the group; none: loaded, or a leaf
    uint32_t space = 0, access = kNone; // of what is loaded, or the coordinate that an op is of;
                                        // the space also of branches
    uint32_t tensor = 0;
    std::vector<uint32_t> operands; // nodes
    std::vector<Branch> branches;
    std::string fill; // of the branch without an operand
    uint32_t uses = 0;
    std::string text; // of the written expression
  };

  // Finds the index of every reading (element_code.cpp).
  Result<uint32_t> visit(uint32_t value, const Index &index);
  Result<uint32_t> visit_op(uint32_t op, const Index &index);
  Result<uint32_t> visit_function(uint32_t op, const Index &index);
  Result<uint32_t> visit_concat(uint32_t op, const Index &index);
  Result<uint32_t> visit_pad(uint32_t op, const Index &index);
  Result<uint32_t> visit_repeating_pad(uint32_t op, const Index &index);
  Result<uint32_t> visit_range(uint32_t op, const Index &index);
  Result<uint32_t> visit_one_hot(uint32_t op, const Index &index);
  Result<uint32_t> visit_rows(uint32_t op, const Index &index);
  Result<uint32_t> load(uint32_t value, const Index &index);
  Result<uint32_t> pass_on(uint32_t operand, const Index &index);
  Index under_broadcast(uint32_t operand, uint32_t result, const Index &index) const;
  Index under_transpose(const FusedOp &op, const Index &index) const;
  Index under_reshape(const FusedOp &op, const Index &index);
  Result<Index> under_slice(const FusedOp &op, const Index &index);
  Index new_space(uint32_t value, uint32_t parent, Access at) {
    return new_space(value, parent, std::move(at), Lookup());
  }
  Index new_space(uint32_t value, uint32_t parent, Access at, Lookup lookup,
                  std::vector<Edge> edges = {});
  Access no_access(uint32_t space) const;
  Access access(uint32_t value, const Index &index, std::string owner);
  void set_whole(uint32_t space, Access &access);
  uint32_t add_access(uint32_t space, Access access);
  /// Adds the coordinate along an axis.
  uint32_t add_coordinate(const Index &index, size_t axis);
  void add_stride(Access &access, const Index &index, size_t axis, ir::ExprId stride);
  ir::ExprId count(uint32_t value) {
    return element_count(module_.exprs, module_.types[group_.values[value].type].dims);
  }
  /// Whether an index of that space's is the linear index that was asked for.
  bool is_root(uint32_t space) const { return spaces_[space].linear == given_.index; }

  // Writing (element_text.cpp).
  void find_row_reads();
  void find_column_reads();
  const Access *only_access(uint32_t tensor) const;
  bool is_part_of_root(const Space &space) const;
  void drop_coordinates();
  void write_row_read(uint32_t tensor, Access access);
  void write_space(uint32_t space);
  void write_coordinates(Space &space);
  void write_linear(uint32_t space);
  const std::string &write(uint32_t node);
  std::string write_node(const Node &node);
  void write_branches(const Node &node, const std::string &name);
  std::string condition(const Node &node, const Branch &branch);
  std::string operation(const Node &node);
  std::string operation_of_index(const Node &node);
  std::string argument(const Node &node, size_t i);
  std::string size(const std::string &hint, ir::ExprId value);
  std::string coordinate(const std::string &index, const std::string &hint, ir::ExprId size,
                         bool quotient);
  std::string unique(const std::string &hint);
  const std::string &offset(const Node &node) {
    return spaces_[node.space].accesses[node.access].text;
  }

  const ir::Type &type(uint32_t value) const { return module_.types[group_.values[value].type]; }
  ir::DType dtype(uint32_t value) const { return type(value).dtype; }
  void note(ir::DType dtype);
  Node node_of(uint32_t op, uint32_t space = 0);
  uint32_t add_node(Node node);
  std::vector<int> axes_of(std::span<const ir::ExprId> dims) const;

  ir::Module &module_;
  const FusedGroup &group_;
  std::vector<uint32_t> made_by_; // by value: the op to compute it by, or none
  size_t visits_left_;            // of ops, each at an index
  const Names given_;
  ir::ExprId root_count_{};
  std::vector<Space> spaces_;
  std::vector<Node> nodes_;
  std::map<std::pair<uint32_t, Index>, uint32_t> known_;
  std::map<uint32_t, uint32_t> tensor_of_; // by value
  std::map<std::string, uint32_t> names_;
  std::string indent_, lines_;
  ElementParameters parameters_;
  std::vector<bool> in_place_;
  std::map<size_t, RowRead> row_reads_; // by tensor
};

// One generated kernel, between a group of ops and its launch: fused_group.cpp writes it for
// fused_parts.cpp.

/// Ops whose kernels have the place LOAD of kernels/shared/fusion.cuh, and take any numbers:
/// reductions and searches.
bool computes_what_it_loads(ir::Op op);
/// Ops whose kernels have the place STORE.
bool is_anchor(ir::Op op);

/// The ops of one kernel by their places.
struct Places {
  uint32_t anchor = FusedGroup::kNoValue;
  std::vector<uint32_t> before; // what the anchor's operands are computed by
  std::vector<uint32_t> after;  // the others
};
Places places_of(const FusedGroup &group, std::span<const uint32_t> ops);

/// The text of a part, before anything is appended.
struct Generated {
  std::string name, text;         // of a kernel without an anchor
  ElementParameters elements;     // its parameters
  std::vector<uint32_t> in_place; // of these: which are read where the result is written
  uint32_t widest_bytes = 0;      // of elements that are taken in vectors; 0: none are
  Fusion fusion;                  // of one with
};
/// Code::unsupported when no kernel can be made.
Result<Generated> generate(ir::Module &module, const FusedGroup &group, const FusedPart &part);

// Pieces of the text of generated kernels.

/// A list, broken behind commas where lines would be too long. `between` ends a line and begins the
/// next.
std::string wrapped(const std::string &begin, const std::vector<std::string> &items,
                    const std::string &end, const std::string &between = "\n    ");
/// A macro of a list that begins with a comma, or of nothing.
std::string list_macro(const std::string &name, const std::vector<std::string> &items);
/// The line of a macro if `holds`, else "". `name` may be followed by the macro's text.
std::string defined(bool holds, const std::string &name);
/// The ops, in a comment, and the options of the headers that follow.
std::string heading(const FusedGroup &group, std::span<const uint32_t> ops,
                    const ElementParameters &uses);
/// Includes for `uses`, then `more` (may be empty) and `last`.
std::string includes(const ElementParameters &uses, std::string_view more, std::string_view last);
/// "float": of a value of the group.
std::string element_of(const ir::Module &module, const FusedGroup &group, uint32_t value);
/// "long long i_size1", or for a function of a kernel's "const Divisor &i_size1".
std::string declared(const ElementParameters::Size &size, bool in_function);
/// "const float *x0", "long long i_size1".
std::vector<std::string> declared(const ir::Module &module, const FusedGroup &group,
                                  const ElementParameters &parameters, std::string_view qualifier,
                                  bool in_function = false);
/// The parameters' names, as arguments.
std::vector<std::string> named(const ElementParameters &parameters);

} // namespace cugrt::codegen
