// Executable: a plan and its compiled code. Immutable, shared by threads and by sessions of any
// device that the code was compiled for.
#pragma once

#include "device/code/programmatic_code.h"
#include "device/context/device.h"
#include "device/program/function_program.h"

#include <map>

namespace cugrt::runtime {

class LoadedCode;

/// A compiled unit, which a device loads as one module.
struct CodeImage {
  std::string name;
  std::string bytes;
  bool cubin = false;
};

/// Parts that an executable is assembled from.
struct ExecutableParts {
  plan::Plan plan;
  std::string module_name, architecture;
  std::vector<CodeImage> images;
  std::vector<uint32_t> kernel_images; // of each kernel of the plan
  uint32_t transfer_image = kNone, control_image = kNone;
  std::vector<std::vector<ProgrammaticCode>> programmatic; // of each kernel's variants
};

class Executable : public std::enable_shared_from_this<Executable> {
public:
  /// Compiles nothing. Fails if the plan needs kernels of our own and `parts` has none.
  static Result<std::shared_ptr<const Executable>> assemble(ExecutableParts parts);
  Executable(const Executable &) = delete;

  const plan::Plan &plan() const { return plan_; }
  const FunctionProgram &program(size_t function) const { return programs_[function]; }
  /// Whether kernels may say that a device symbol is out of its bounds (symbol_flag.h).
  bool checks_symbols() const { return checks_symbols_; }
  const std::vector<CodeImage> &images() const { return images_; }
  /// The image of each kernel; an index into images().
  uint32_t image_of(uint32_t kernel) const { return kernel_images_[kernel]; }
  /// Our own copy and fill kernels; kNone when nothing needs them.
  uint32_t transfer_image() const { return transfer_image_; }
  /// The image of conditional nodes' kernels; kNone when nothing needs them.
  uint32_t control_image() const { return control_image_; }
  /// The properties of a kernel's variant, read from its PTX; all false if it came as a cubin.
  const ProgrammaticCode &programmatic(uint32_t kernel, uint32_t variant) const {
    return programmatic_[kernel][variant];
  }
  const std::string &architecture() const { return architecture_; }
  const std::string &module_name() const { return module_name_; }
  std::string location(SourceLocation place) const { return location_text(module_name_, place); }
  std::optional<uint32_t> find_function(std::string_view name) const;

  /// Loads the code on a device, or shares it with those who loaded it before.
  Result<std::shared_ptr<LoadedCode>> load(const std::shared_ptr<Device> &device) const;

private:
  friend class ExecutableCompiler; // compile/
  Executable() = default;
  Status make_programs();

  plan::Plan plan_;
  std::vector<FunctionProgram> programs_;
  bool checks_symbols_ = false;
  std::vector<CodeImage> images_;
  std::vector<uint32_t> kernel_images_;
  uint32_t transfer_image_ = kNone, control_image_ = kNone;
  std::vector<std::vector<ProgrammaticCode>> programmatic_; // by kernel and variant
  std::string module_name_, architecture_;

  mutable std::mutex mutex_; // guards loaded_; held while code is loaded, so that it happens once
  mutable std::map<const Device *, std::weak_ptr<LoadedCode>> loaded_;
};

/// Makes the error for `number`, which a kernel left in the word of symbol_flag.h: a symbol was out
/// of its bounds in a run, or a kernel gave up waiting. Always an error, even if the executable has
/// no symbol with this number.
Status out_of_bounds(const Executable &executable, uint32_t number);

} // namespace cugrt::runtime
