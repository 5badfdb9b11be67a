// The parameters of a generated kernel: those of its text and those of its launch, side by side.
// Each function adds one and gives its name.
#pragma once

#include "ops/emit/kernel_launch.h"

#include <functional>
#include <string>
#include <vector>

namespace cugrt::codegen {

/// A parameter of a generated kernel.
struct KernelParameter {
  enum class Kind : uint8_t { tensor, size, scalar, symbol };
  Kind kind;
  std::string type, name; // `type` ends with what stands before a name
  /// Gives the argument to a launch, under a name.
  std::function<void(KernelLaunch &launch, const std::string &name)> give;
  std::string element{}; // of tensors, as `type` has it
  ir::ValueId tensor{};
  ir::Access access = ir::Access::in;
  ir::ExprId size{};
  double scalar = 0;
  std::string symbol{}; // what the symbol is read from, and its bounds
};

class KernelParameters {
public:
  /// `wide`: Acc of kernels/shared/floating.cuh.
  explicit KernelParameters(ir::DType wide) : wide_(wide) {}

  std::string tensor(const std::string &name, const std::string &element, ir::ValueId value,
                     ir::Access access) {
    const bool is_read = access == ir::Access::in;
    return add({.kind = KernelParameter::Kind::tensor,
                .type = (is_read ? "const " : "") + element + " *__restrict__ ",
                .name = name,
                .give =
                    [=](KernelLaunch &launch, const std::string &as) {
                      if (is_read)
                        launch.input(as, value);
                      else if (access == ir::Access::out)
                        launch.output(as, value);
                      else
                        launch.inout(as, value);
                    },
                .element = element,
                .tensor = value,
                .access = access});
  }
  /// "nullptr" where there is none.
  std::string optional_tensor(const std::string &name, const std::string &element,
                              ir::ValueId value) {
    return value.valid() ? tensor(name, element, value, ir::Access::in) : "nullptr";
  }
  std::string count(const std::string &name, ir::ExprId value) {
    return whole(name, value, &KernelLaunch::count);
  }
  std::string size(const std::string &name, ir::ExprId value) {
    return whole(name, value, &KernelLaunch::size);
  }
  std::string scalar(const std::string &name, double value) {
    return add(
        {.kind = KernelParameter::Kind::scalar,
         .type = "Acc ",
         .name = name,
         .give = [value, wide = wide_](KernelLaunch &launch,
                                       const std::string &as) { launch.scalar(as, wide, value); },
         .scalar = value});
  }
  /// A symbol for ids of `type`; `from`: the tensor that it is read from, and its bounds.
  std::string symbol(const std::string &type, const std::string &name, std::string from,
                     std::function<void(KernelLaunch &, const std::string &)> give) {
    return add({.kind = KernelParameter::Kind::symbol,
                .type = "cugrt_symbol<" + type + "> ",
                .name = name,
                .give = std::move(give),
                .symbol = std::move(from)});
  }

  const std::vector<KernelParameter> &parameters() const { return parameters_; }
  std::vector<std::string> declarations() const {
    std::vector<std::string> declared;
    for (const KernelParameter &parameter : parameters_)
      declared.push_back(parameter.type + parameter.name);
    return declared;
  }
  void give(KernelLaunch &launch) const {
    for (const KernelParameter &parameter : parameters_)
      parameter.give(launch, parameter.name);
  }

private:
  std::string whole(const std::string &name, ir::ExprId value,
                    ir::ExprId (KernelLaunch::*give)(std::string, ir::ExprId)) {
    return add(
        {.kind = KernelParameter::Kind::size,
         .type = "long long ",
         .name = name,
         .give = [=](KernelLaunch &launch, const std::string &as) { (launch.*give)(as, value); },
         .size = value});
  }
  std::string add(KernelParameter parameter) {
    parameters_.push_back(std::move(parameter));
    return parameters_.back().name;
  }

  const ir::DType wide_;
  std::vector<KernelParameter> parameters_;
};

} // namespace cugrt::codegen
