// Executables and their code on devices; see executable.h.
#include "device/code/executable.h"

#include "device/code/loaded_code.h"

namespace cugrt::runtime {

Result<std::shared_ptr<const Executable>> Executable::assemble(ExecutableParts parts) {
  std::shared_ptr<Executable> executable(new Executable);
  executable->plan_ = std::move(parts.plan);
  executable->module_name_ = std::move(parts.module_name);
  executable->architecture_ = std::move(parts.architecture);
  executable->images_ = std::move(parts.images);
  executable->kernel_images_ = std::move(parts.kernel_images);
  executable->transfer_image_ = parts.transfer_image;
  executable->control_image_ = parts.control_image;
  executable->programmatic_ = std::move(parts.programmatic);
  CUGRT_TRY(executable->make_programs());
  for (const FunctionProgram &program : executable->programs_) {
    if (program.needs_copy_kernels && executable->transfer_image_ == kNone)
      return Status::error(Code::invalid_argument,
                           "the plan copies or fills memory, but there is no code for that");
    if (program.needs_control_kernels && executable->control_image_ == kNone)
      return Status::error(Code::invalid_argument,
                           "the plan has conditional nodes, but there is no code for those");
  }
  return std::shared_ptr<const Executable>(std::move(executable));
}

Status Executable::make_programs() {
  uint64_t first_symbol = 1;
  for (const plan::Function &function : plan_.functions) {
    auto program = make_function_program(plan_, function, first_symbol);
    if (!program.ok())
      return program.take_status().at(location(function.location));
    checks_symbols_ = checks_symbols_ || program->checks_symbols;
    first_symbol += function.symbols.size();
    programs_.push_back(std::move(*program));
  }
  return {};
}

std::optional<uint32_t> Executable::find_function(std::string_view name) const {
  for (uint32_t i = 0; i < plan_.functions.size(); ++i)
    if (plan_.functions[i].name == name)
      return i;
  return std::nullopt;
}

Result<std::shared_ptr<LoadedCode>> Executable::load(const std::shared_ptr<Device> &device) const {
  std::lock_guard lock(mutex_);
  std::erase_if(loaded_, [](const auto &entry) { return entry.second.expired(); });
  if (auto found = loaded_.find(device.get()); found != loaded_.end())
    if (std::shared_ptr<LoadedCode> code = found->second.lock())
      return code;
  CUGRT_ASSIGN(std::shared_ptr<LoadedCode> code, LoadedCode::load(shared_from_this(), device));
  loaded_[device.get()] = code;
  return code;
}

Status out_of_bounds(const Executable &executable, uint32_t number) {
  const plan::Plan &plan = executable.plan();
  const bool gave_up = number >> 31;
  uint64_t symbol = uint64_t(number & 0x7fffffff) - 1;
  for (const plan::Function &function : plan.functions) {
    if (symbol >= function.symbols.size()) {
      symbol -= function.symbols.size();
      continue;
    }
    const plan::Symbol &row = function.symbols[symbol];
    if (gave_up)
      return Status::error(Code::internal,
                           "a kernel of function @" + function.name +
                               " gave up waiting for its other blocks in an earlier run (" +
                               row.name + "); what that run wrote is undefined")
          .at(executable.location(definition_of(plan, function, {uint32_t(symbol)})));
    return Status::error(Code::out_of_range,
                         "device symbol " + row.name + " of function @" + function.name +
                             " was out of its bounds, " + std::to_string(row.bounds.lower) +
                             " to " + std::to_string(row.bounds.upper) +
                             ", in an earlier run, which went on with the nearest of them")
        .at(executable.location(definition_of(plan, function, {uint32_t(symbol)})));
  }
  return Status::error(Code::out_of_range, "a kernel of an earlier run said that device symbol "
                                           "number " +
                                               std::to_string(number) +
                                               " was out of its bounds; there is none");
}

} // namespace cugrt::runtime
