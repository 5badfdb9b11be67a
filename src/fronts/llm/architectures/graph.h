// GraphBuilder: ops of the IR one call each, with their types inferred; weights by a file's names.
//
// The first failure stays and is told at the end; until then every call gives some value.
#pragma once

#include "fronts/llm/architectures/decoder.h"
#include "ir/module/builder.h"
#include "ops/table/ops.h"

#include <map>
#include <tuple>

namespace cugrt::llm {

/// The weights that the functions of a module use, each with its type.
class WeightList {
public:
  explicit WeightList(const gguf::File &file) : file_(file) {}
  /// A tensor of the file; its type must be one that the IR has.
  Result<const Weight *> tensor(const std::string &name, const std::vector<int64_t> &dims);
  const Weight &add(Weight weight);
  const gguf::File &file() const { return file_; }
  /// Code::unsupported names a tensor of the file that nothing has used.
  Status check_all_used() const;
  std::vector<Weight> take();

private:
  const gguf::File &file_;
  std::map<std::string, Weight> weights_;
};

class GraphBuilder {
public:
  GraphBuilder(ir::Module &module, WeightList &weights, std::string name, ir::DType dtype)
      : weights_(weights), builder_(module, std::move(name)), dtype_(dtype) {}

  using Dims = std::vector<ir::ExprId>;
  ir::FunctionBuilder &builder() { return builder_; }
  ir::ExprPool &exprs() { return builder_.module().exprs; }
  ir::ExprId constant(int64_t value) { return exprs().constant(value); }
  ir::ValueId input(const std::string &name, ir::DType dtype, Dims dims, ir::Access access);

  ir::ValueId op(ir::Op op, std::vector<ir::ValueId> operands,
                 std::vector<ir::Attribute> attributes = {}, std::string_view hint = "");
  ir::ValueId shape(const Dims &dims);
  ir::ValueId reshape(ir::ValueId x, const Dims &dims) {
    return op(ir::Op::reshape, {x, shape(dims)});
  }
  ir::ValueId cast(ir::ValueId x, ir::DType dtype);
  ir::ValueId alloc(ir::DType dtype, const Dims &dims, std::string_view hint);
  ir::ValueId view(std::string_view hint, ir::ValueId source, uint64_t offset_bytes,
                   ir::DType dtype, const Dims &dims);
  void launch(std::string_view kernel, std::vector<ir::Operand> operands);

  /// A weight as it is.
  ir::ValueId weight(const std::string &name, const std::vector<int64_t> &dims);
  /// A weight of the function's dtype: norms' scales, biases.
  ir::ValueId small_weight(const std::string &name, const std::vector<int64_t> &dims) {
    return form({name, dims, false});
  }
  /// A form of a weight: in the function's dtype, and perhaps transposed. Made once, at its first
  /// use.
  struct Form {
    std::string name;
    std::vector<int64_t> dims;
    bool is_transposed;
    bool operator<(const Form &o) const {
      return std::tie(name, is_transposed) < std::tie(o.name, o.is_transposed);
    }
  };
  ir::ValueId form(const Form &form);
  const std::map<Form, ir::ValueId> &forms() const { return forms_; }
  ir::ValueId made_weight(const Weight &weight);
  /// x [rows, in] times the transpose of NAME.weight [out, in], plus NAME.bias where that is asked.
  ir::ValueId product(ir::ValueId x, const std::string &name, int64_t out, int64_t in,
                      bool has_bias = false);
  ir::ValueId norm(ir::ValueId x, const std::string &name, int64_t width, double epsilon) {
    return op(ir::Op::rms_norm, {x, small_weight(name, {width})}, {{"epsilon", epsilon}});
  }
  bool has_tensor(std::string_view name) const { return weights_.file().find_tensor(name); }
  ir::DType dtype_of(ir::ValueId value) { return builder_.type_of(value).dtype; }

  /// Appends the function to the module; inputs are what came before the first weight.
  Status finish(std::vector<ir::ValueId> results);

private:
  ir::ValueId param(const Weight &weight);
  ir::ValueId fail(Status status);

  WeightList &weights_;
  ir::FunctionBuilder builder_;
  const ir::DType dtype_;
  std::map<std::string, ir::ValueId> params_; // of weights
  std::map<Form, ir::ValueId> forms_;
  uint32_t inputs_ = 0;
  Status status_;
};

} // namespace cugrt::llm
