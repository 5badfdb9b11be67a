// Kernel declarations, by content.
#include "ops/emit/kernel_table.h"

#include "ir/module/names.h"

namespace cugrt::codegen {

int64_t shared_bytes_of_multiprocessor(const Target &target) {
  const int64_t capability = target.compute_capability;
  const int64_t kibibytes = capability == 80 || capability == 87   ? 164
                            : capability >= 90 && capability < 120 ? 228
                                                                   : 100;
  return kibibytes << 10;
}

static void append(std::string &key, std::string_view text) {
  key += std::to_string(text.size());
  key += ':';
  key += text;
}

static void append(std::string &key, uint64_t number) {
  key += std::to_string(number);
  key += ' ';
}

// Everything of the declaration that decides what is compiled and how it is launched. Expression
// ids stand for expressions: the module has one pool.
static std::string key_of(const ir::Kernel &kernel) {
  std::string key;
  append(key, uint64_t(kernel.code_kind));
  append(key, kernel.code);
  append(key, kernel.entry);
  append(key, kernel.options.size());
  for (const std::string &option : kernel.options)
    append(key, option);
  for (const ir::KernelParam &param : kernel.params) {
    append(key, param.name);
    append(key, uint64_t(param.kind) << 16 | uint64_t(param.access) << 8 | param.any_dtype);
    append(key, uint64_t(param.dtype));
    append(key, param.symbol.index);
    append(key, param.over.size());
    for (uint32_t read : param.over)
      append(key, read);
  }
  for (const std::string &symbol : kernel.symbols)
    append(key, symbol);
  for (const ir::KernelVariant &variant : kernel.variants) {
    append(key, variant.entry);
    for (ir::ExprId id :
         {variant.predicate, variant.grid[0], variant.grid[1], variant.grid[2], variant.block[0],
          variant.block[1], variant.block[2], variant.shared_bytes, variant.workspace_bytes})
      append(key, id.index);
    for (uint32_t size : variant.cluster)
      append(key, size);
    append(key, uint64_t(variant.cooperative) << 1 | uint64_t(variant.programmatic));
  }
  return key;
}

// The key that specialisations are counted by; code_summary.cpp counts a plan's in the same way.
static std::string function_key(const ir::Kernel &kernel) {
  std::string key;
  append(key, uint64_t(kernel.code_kind));
  append(key, kernel.code);
  append(key, kernel.entry);
  for (const std::string &option : function_options(kernel.options))
    append(key, option);
  for (const ir::KernelVariant &variant : kernel.variants)
    append(key, variant.entry);
  return key;
}

KernelTable::KernelTable(ir::Module &module, std::span<const ir::Function> functions,
                         bool programmatic, KernelChoice choice)
    : module_(module), programmatic_(programmatic), choice_(std::move(choice)) {
  for (const ir::Function &function : functions)
    names_.try_emplace(function.name, 1);
  for (const ir::Constant &constant : module.constants)
    names_.try_emplace(constant.name, 1);
  for (uint32_t i = 0; i < module.kernels.size(); ++i) {
    names_.try_emplace(module.kernels[i].name, 1);
    index_.try_emplace(key_of(module.kernels[i]), i);
  }
}

uint32_t KernelTable::intern(ir::Kernel kernel) {
  const auto next = static_cast<uint32_t>(module_.kernels.size());
  auto [at, is_new] = index_.try_emplace(key_of(kernel), next);
  if (is_new) {
    kernel.name = ir::unique_name(names_, kernel.name, "_");
    module_.kernels.push_back(std::move(kernel));
  }
  return at->second;
}

std::vector<std::string> function_options(std::span<const std::string> options) {
  std::vector<std::string> kept;
  for (const std::string &option : options)
    if (!option.starts_with(kAssumptionOption) && !option.starts_with(kRegistersOption))
      kept.push_back(option);
  return kept;
}

uint32_t KernelTable::intern_specialized(ir::Kernel kernel, const std::string &assumption) {
  ir::Kernel special = kernel;
  special.options.push_back(assumption);
  if (auto known = index_.find(key_of(special)); known != index_.end())
    return known->second;
  uint32_t &count = specializations_[function_key(kernel)];
  if (count == kMaxSpecializations)
    return intern(std::move(kernel));
  ++count;
  return intern(std::move(special));
}

} // namespace cugrt::codegen
