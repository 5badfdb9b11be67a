// Translation of a plan's steps into value sources; see function_program.h.
#include "device/program/function_program.h"

#include "base/check.h"
#include "base/type/element.h"
#include "device/program/legality.h"

#include <algorithm>

namespace cugrt::runtime {

namespace {

class ProgramMaker {
public:
  ProgramMaker(const plan::Plan &plan, const plan::Function &function, uint64_t first_symbol)
      : plan_(plan), function_(function), first_symbol_(first_symbol) {}

  Result<FunctionProgram> make() {
    number_bases();
    CUGRT_TRY(check_results());
    for (uint32_t i = 0; i < function_.steps.size(); ++i) {
      auto first = static_cast<uint32_t>(program_.variants.size());
      if (function_.steps[i].kind == plan::StepKind::kernel)
        CUGRT_TRY(add_kernel(i));
      else if (function_.steps[i].kind == plan::StepKind::empty)
        program_.variants.push_back({.kind = VariantKind::empty, .step = i});
      else if (function_.steps[i].conditional != kNone)
        add_condition(i);
      else
        add_transfer(i);
      if (function_.steps[i].when.valid())
        program_.variants.push_back({.kind = VariantKind::left_out, .step = i});
      auto count = static_cast<uint32_t>(program_.variants.size()) - first;
      program_.step_variants.push_back({first, count});
    }
    return std::move(program_);
  }

private:
  void number_bases() {
    program_.slot_count = program_.first_weight = static_cast<uint32_t>(function_.slots.size());
    program_.first_dynamic = program_.first_weight + static_cast<uint32_t>(function_.params.size());
    program_.first_arena = program_.first_dynamic + function_.dynamic_count;
    program_.first_constant = program_.first_arena + static_cast<uint32_t>(plan_.arenas.size());
    program_.symbol_flag = program_.first_constant + static_cast<uint32_t>(plan_.constants.size());
    program_.base_count = program_.symbol_flag + 1;
    for (uint32_t i = 0; i < function_.params.size(); ++i)
      if (function_.params[i].kind != plan::ParamKind::weight)
        program_.call_params.push_back(i);
  }

  Status check_results() const {
    for (size_t i = 0; i < function_.results.size(); ++i) {
      const plan::FunctionResult &result = function_.results[i];
      if (result.buffer != kNone && !function_.buffers[result.buffer].strides.empty())
        return Status::error(Code::unsupported,
                             "result " + std::to_string(i) + " of function @" + function_.name +
                                 " is a strided view; copy it to a contiguous tensor first");
    }
    return {};
  }

  ValueSource address_of(uint32_t buffer_index) const {
    const plan::Buffer &buffer = function_.buffers[buffer_index];
    ValueSource source{.kind = ValueSource::Kind::address, .index = program_.base_of(buffer)};
    if (!buffer.offset_bytes.valid())
      return source;
    if (auto offset = plan_.exprs.as_constant(buffer.offset_bytes))
      source.bits = static_cast<uint64_t>(*offset);
    else
      source.expr = buffer.offset_bytes;
    return source;
  }

  Result<ValueSource> value_of(const plan::Argument &argument) const {
    ValueSource source{.dtype = argument.dtype, .index = argument.index};
    if (argument.kind == plan::ArgumentKind::buffer)
      return address_of(argument.index);
    if (ir::scalar_bytes(argument.dtype) == 0)
      return Status::error(Code::unsupported, "no kernel argument is passed by value as " +
                                                  std::string(ir::info(argument.dtype).name));
    switch (argument.kind) {
    case plan::ArgumentKind::bits:
      source.bits = argument.bits;
      break;
    case plan::ArgumentKind::host_value:
      source.kind = ValueSource::Kind::host;
      break;
    case plan::ArgumentKind::buffer:
    case plan::ArgumentKind::expr:
    case plan::ArgumentKind::checked_symbol:
      if (auto constant = plan_.exprs.as_constant(ExprId{argument.index})) {
        CUGRT_ASSIGN(source.bits, ir::scalar_bits(argument.dtype, *constant));
      } else {
        source.kind = ValueSource::Kind::expr;
        source.expr = ExprId{argument.index};
      }
    }
    return source;
  }

  /// Adds the fields of cugrt_symbol (kernels/shared/device_symbol.cuh).
  void add_checked_symbol(const plan::Argument &argument) {
    const ir::Interval &bounds = function_.symbols[argument.bits].bounds;
    program_.checks_symbols = true;
    program_.sources.push_back(address_of(argument.index));
    const ValueSource fields[] = {
        {.bits = static_cast<uint64_t>(bounds.lower)},
        {.bits = static_cast<uint64_t>(bounds.upper)},
        {.kind = ValueSource::Kind::address, .index = program_.symbol_flag},
        {.bits = first_symbol_ + argument.bits}};
    for (ValueSource field : fields) {
      field.joined = true;
      program_.sources.push_back(field);
    }
  }

  Status add_kernel(uint32_t step_index) {
    const plan::Step &step = function_.steps[step_index];
    for (uint32_t v = 0; v < step.launches.count; ++v) {
      const plan::LaunchRule &rule = function_.launches[step.launches.begin + v];
      StepVariant variant{.step = step_index, .kernel = step.kernel, .variant = v};
      variant.sources.begin = static_cast<uint32_t>(program_.sources.size());
      for (uint32_t i = 0; i < step.arguments.count; ++i) {
        const plan::Argument &argument = function_.arguments[step.arguments.begin + i];
        if (argument.kind == plan::ArgumentKind::checked_symbol) {
          add_checked_symbol(argument);
          continue;
        }
        CUGRT_ASSIGN(ValueSource source, value_of(argument));
        program_.sources.push_back(source);
      }
      if (rule.workspace != kNone)
        program_.sources.push_back(address_of(rule.workspace));
      variant.sources.count =
          static_cast<uint32_t>(program_.sources.size()) - variant.sources.begin;
      variant.predicate = rule.predicate;
      variant.grid = rule.grid;
      variant.block = rule.block;
      variant.shared_bytes = rule.shared_bytes;
      program_.variants.push_back(variant);
    }
    return {};
  }

  /// Adds a copy or fill. Its first access is the destination, a copy's second one the source.
  void add_transfer(uint32_t step_index) {
    const plan::Step &step = function_.steps[step_index];
    StepVariant variant{.kind = step.kind == plan::StepKind::copy ? VariantKind::copy
                                                                  : VariantKind::fill,
                        .step = step_index};
    variant.sources.begin = static_cast<uint32_t>(program_.sources.size());
    uint32_t destination = function_.accesses[step.accesses.begin].buffer;
    std::vector<Change> changes;
    changes_of_place(destination, changes);
    program_.sources.push_back(address_of(destination));
    if (variant.kind == VariantKind::copy) {
      uint32_t source = function_.accesses[step.accesses.begin + 1].buffer;
      changes_of_place(source, changes);
      program_.sources.push_back(address_of(source));
    }
    ExprId bytes = function_.buffers[destination].bytes;
    CUGRT_CHECK(bytes.valid());
    auto constant = plan_.exprs.as_constant(bytes);
    if (!constant)
      changes.insert(changes.end(), {Change::size, Change::becomes_empty});
    // Uses a copy or fill node if setters take everything that may change, else our own kernel,
    // which takes any memory and size. A node of no bytes cannot be built at all.
    NodeKind kind = variant.kind == VariantKind::copy ? NodeKind::copy : NodeKind::fill;
    variant.fixed = can_patch(kind, changes) && constant && *constant > 0;
    if (constant)
      program_.sources.push_back({.bits = static_cast<uint64_t>(*constant)});
    else
      program_.sources.push_back({.kind = ValueSource::Kind::expr, .expr = bytes});
    if (variant.kind == VariantKind::fill)
      program_.sources.push_back({.dtype = ir::DType::u32, .bits = step.fill_byte});
    variant.sources.count = static_cast<uint32_t>(program_.sources.size()) - variant.sources.begin;
    program_.needs_copy_kernels = program_.needs_copy_kernels || !variant.fixed;
    program_.variants.push_back(variant);
  }

  /// Adds a step that reads its first access, a condition.
  void add_condition(uint32_t step_index) {
    const plan::Step &step = function_.steps[step_index];
    const bool sets = step.kind == plan::StepKind::set_condition;
    uint32_t condition = function_.accesses[step.accesses.begin].buffer;
    uint64_t bytes = ir::info(function_.buffers[condition].dtype).bytes_per_block;
    StepVariant variant{.kind = sets ? VariantKind::set_condition : VariantKind::conditional,
                        .step = step_index};
    variant.sources = {static_cast<uint32_t>(program_.sources.size()), 4};
    program_.sources.push_back(address_of(condition));
    program_.sources.push_back({.dtype = ir::DType::u32, .bits = bytes});
    for (uint64_t handle : {0, 1})
      program_.sources.push_back({.kind = ValueSource::Kind::handle,
                                  .dtype = ir::DType::u64,
                                  .index = step.conditional,
                                  .bits = handle});
    program_.needs_control_kernels = true;
    program_.variants.push_back(variant);
  }

  /// Lists how a buffer's place may change between runs. Memory that callers bring may be of any
  /// kind that the device can read.
  void changes_of_place(uint32_t buffer_index, std::vector<Change> &changes) const {
    const plan::Buffer &buffer = function_.buffers[buffer_index];
    if (buffer.base != plan::BufferBase::arena && buffer.base != plan::BufferBase::constant)
      changes.insert(changes.end(), {Change::address, Change::memory_kind});
    else if (buffer.offset_bytes.valid() && !plan_.exprs.as_constant(buffer.offset_bytes))
      changes.push_back(Change::address);
  }

  const plan::Plan &plan_;
  const plan::Function &function_;
  const uint64_t first_symbol_;
  FunctionProgram program_;
};

} // namespace

uint32_t FunctionProgram::base_of(const plan::Buffer &buffer) const {
  switch (buffer.base) {
  case plan::BufferBase::slot:
    return base_of_slot(buffer.index);
  case plan::BufferBase::weight:
    return first_weight + buffer.index;
  case plan::BufferBase::dynamic:
    return first_dynamic + buffer.index;
  case plan::BufferBase::arena:
    return first_arena + buffer.index;
  case plan::BufferBase::constant:
    break;
  }
  return first_constant + buffer.index;
}

Result<FunctionProgram> make_function_program(const plan::Plan &plan,
                                              const plan::Function &function,
                                              uint64_t first_symbol) {
  return ProgramMaker(plan, function, first_symbol).make();
}

SourceLocation definition_of(const plan::Plan &plan, const plan::Function &function,
                             ir::SymbolId symbol) {
  auto names = [&](ExprId expr) {
    const ir::ExprNode &node = plan.exprs[expr];
    return node.kind == ir::ExprKind::symbol && node.value == int64_t(symbol.index);
  };
  for (const plan::Param &param : function.params)
    if (std::any_of(param.dims.begin(), param.dims.end(), names))
      return param.location;
  for (const plan::Block &block : function.blocks)
    for (const plan::Item &item : block.items)
      if ((item.kind == plan::ItemKind::read && names(item.dims[0])) ||
          std::find(item.defines.begin(), item.defines.end(), symbol) != item.defines.end())
        return item.location;
  return {};
}

std::string location_text(const std::string &file, SourceLocation location) {
  if (!location.known())
    return "";
  return file + ":" + std::to_string(location.line) + ":" + std::to_string(location.column);
}

} // namespace cugrt::runtime
