// The parameters of a generated kernel: those of its text and those of its launch, side by side.
// Each function adds one and gives its name.
#pragma once

#include "ops/emit/kernel_launch.h"

#include <functional>
#include <string>
#include <vector>

namespace cugrt::codegen {

class KernelParameters {
public:
  /// `wide`: Acc of kernels/shared/floating.cuh.
  explicit KernelParameters(ir::DType wide) : wide_(wide) {}

  std::string tensor(const std::string &name, const std::string &element, ir::ValueId value,
                     ir::Access access) {
    const bool is_read = access == ir::Access::in;
    return add((is_read ? "const " : "") + element + " *__restrict__ ", name,
               [=](KernelLaunch &launch) {
                 if (is_read)
                   launch.input(name, value);
                 else if (access == ir::Access::out)
                   launch.output(name, value);
                 else
                   launch.inout(name, value);
               });
  }
  /// "nullptr" where there is none.
  std::string optional_tensor(const std::string &name, const std::string &element,
                              ir::ValueId value) {
    return value.valid() ? tensor(name, element, value, ir::Access::in) : "nullptr";
  }
  std::string count(const std::string &name, ir::ExprId value) {
    return add("long long ", name, [=](KernelLaunch &launch) { launch.count(name, value); });
  }
  std::string size(const std::string &name, ir::ExprId value) {
    return add("long long ", name, [=](KernelLaunch &launch) { launch.size(name, value); });
  }
  std::string scalar(const std::string &name, double value) {
    return add("Acc ", name,
               [=, this](KernelLaunch &launch) { launch.scalar(name, wide_, value); });
  }
  /// Of another type: `type` ends with what stands before a name.
  std::string add(const std::string &type, const std::string &name,
                  std::function<void(KernelLaunch &)> argument) {
    declared_.push_back(type + name);
    arguments_.push_back(std::move(argument));
    return name;
  }

  const std::vector<std::string> &declarations() const { return declared_; }
  void give(KernelLaunch &launch) const {
    for (const auto &argument : arguments_)
      argument(launch);
  }

private:
  const ir::DType wide_;
  std::vector<std::string> declared_;
  std::vector<std::function<void(KernelLaunch &)>> arguments_;
};

} // namespace cugrt::codegen
