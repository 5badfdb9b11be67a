// Loading of a module and launching of its kernels.
#include "emulator/decode/program.h"
#include "emulator/decode/decoder.h"
#include "emulator/decode/link.h"
#include "emulator/device/undefined_bytes.h"
#include "emulator/exec/block.h"
#include "emulator/exec/checks/accesses.h"
#include "emulator/exec/checks/process_counts.h"
#include "emulator/exec/grid.h"
#include "emulator/exec/thread_pool.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

namespace cugrt::emulator {

namespace {

Status check_target(const ptx::Module &module, const DeviceProfile &profile) {
  int have = profile.capability();
  bool fits = module.target_suffix == 'a' ? module.target == have
              : module.target_suffix == 'f'
                  ? module.target <= have && module.target / 10 == have / 10
                  : module.target <= have;
  if (fits)
    return {};
  std::string suffix = module.target_suffix ? std::string(1, module.target_suffix) : "";
  return Status::error(Code::invalid_argument,
                       "the PTX is for sm_" + std::to_string(module.target) + suffix +
                           " and the emulated device is " + std::string(profile.name) +
                           ": compile for it, or choose another with CUGRT_EMU_DEVICE")
      .at("ptx line " + std::to_string(module.target_line));
}

class LoadedProgram : public Program {
public:
  LoadedProgram(const DeviceProfile &profile, AddressSpace &memory, const LoadOptions &options)
      : profile_(profile), memory_(memory), options_(options) {
    decoded_.optimize = options.optimize;
  }
  ~LoadedProgram() override;

  Status load(std::string_view ptx);

  const KernelInfo *find_kernel(std::string_view name) const override;
  std::optional<GlobalInfo> find_global(std::string_view name) const override;
  std::vector<const KernelInfo *> kernels() const override;
  std::string_view text() const override;
  std::optional<Fault> launch(const KernelInfo &kernel, const LaunchConfig &config) const override;

private:
  struct Kernel {
    KernelInfo info;
    uint32_t function = 0;
    uint32_t stack_bytes = 0; // a thread's, as far as the code tells
    bool open_ended = false;  // recursion, or a call through a register: the stack limit applies
  };

  Status place_variables();
  Status initialise_variables();
  Result<uint64_t> address_of(const ptx::Relocation &relocation,
                              const ptx::Variable &variable) const;
  Status place_function_shared();
  std::vector<uint32_t> reached_from(uint32_t kernel) const;
  bool uses_heap(uint32_t kernel) const;
  Status check_shared(uint32_t kernel) const;
  void describe_kernels();
  Status check_missing();
  void describe(uint32_t function);
  uint32_t local_bytes(uint32_t function, std::vector<uint8_t> &state, std::vector<uint32_t> &bytes,
                       bool &cyclic, uint32_t depth) const;

  uint32_t max_registers(const ptx::Function &kernel) const;

  const DeviceProfile &profile_;
  AddressSpace &memory_;
  LoadOptions options_;
  std::unique_ptr<ptx::Module> module_;
  Placement placement_;
  uint32_t constant_bytes_ = 0;     // of .const variables
  uint32_t dynamic_alignment_ = 16; // of dynamic shared memory: of the most demanding type, or more
  Decoded decoded_;
  std::vector<const FunctionCode *> functions_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::unordered_map<std::string_view, const Kernel *> kernel_by_name_;
};

LoadedProgram::~LoadedProgram() {
  for (uint64_t address : placement_.address)
    if (address)
      memory_.free(address);
}

Status LoadedProgram::load(std::string_view ptx) {
  CUGRT_ASSIGN(module_, parse_image(ptx));
  CUGRT_TRY(check_target(*module_, profile_));
  CUGRT_TRY(place_variables());
  CUGRT_TRY(initialise_variables());
  CUGRT_TRY(place_function_shared());
  CUGRT_TRY(decode_module(*module_, placement_, decoded_));
  for (uint32_t i = 0; i < module_->functions.size(); ++i)
    if (module_->functions[i].is_kernel)
      CUGRT_TRY(check_shared(i));
  for (const auto &code : decoded_.codes)
    functions_.push_back(code->ops.empty() ? nullptr : code.get());
  describe_kernels();
  return check_missing();
}

/// A module is of use while one of its kernels is executed, or nothing is missing.
Status LoadedProgram::check_missing() {
  auto executed = [](const auto &kernel) { return kernel->info.missing.empty(); };
  if (std::any_of(kernels_.begin(), kernels_.end(), executed))
    return {};
  for (Status &status : decoded_.missing)
    CUGRT_TRY(std::move(status));
  return {};
}

Status LoadedProgram::place_variables() {
  placement_.address.resize(module_->variables.size());
  for (size_t i = 0; i < module_->variables.size(); ++i) {
    const ptx::Variable &variable = module_->variables[i];
    bool in_memory = variable.space == ptx::Space::global || variable.space == ptx::Space::constant;
    if (variable.space == ptx::Space::shared && variable.bytes == 0)
      dynamic_alignment_ = std::max(dynamic_alignment_, variable.align);
    if (!in_memory || variable.linkage == ptx::Linkage::external || variable.bytes == 0)
      continue;
    auto address = variable.managed ? memory_.allocate_shared(variable.bytes)
                                    : memory_.allocate(variable.bytes);
    if (!address.ok())
      return address.take_status()
          .in("variable " + std::string(variable.name))
          .at("ptx line " + std::to_string(variable.line));
    placement_.address[i] = *address;
    if (variable.space == ptx::Space::constant)
      constant_bytes_ += uint32_t(variable.bytes);
  }
  return {};
}

/// The address that an initialiser names: of a variable, or of a function, which is its number.
Result<uint64_t> LoadedProgram::address_of(const ptx::Relocation &relocation,
                                           const ptx::Variable &variable) const {
  std::string_view name, kind;
  if (relocation.is_function) {
    const ptx::Function &function = module_->functions[relocation.index];
    if (!function.is_declaration)
      return uint64_t(relocation.index) + 1;
    name = function.name;
    kind = "function";
  } else {
    if (uint64_t address = placement_.address[relocation.index])
      return address + uint64_t(relocation.addend);
    name = module_->variables[relocation.index].name;
    kind = ".global or .const variable";
  }
  return Status::error(Code::parse_error, "the initialiser of '" + std::string(variable.name) +
                                              "' takes the address of '" + std::string(name) +
                                              "', which is no defined " + std::string(kind))
      .at("ptx line " + std::to_string(variable.line));
}

Status LoadedProgram::initialise_variables() {
  for (size_t i = 0; i < module_->variables.size(); ++i) {
    const ptx::Variable &variable = module_->variables[i];
    uint64_t address = placement_.address[i];
    if (!address)
      continue;
    std::byte *bytes = memory_.host(address);
    std::memset(bytes, 0, variable.bytes);
    std::copy(variable.init.begin(), variable.init.end(), bytes);
    if (UndefinedBytes *undefined = memory_.undefined())
      undefined->mark_defined(address, variable.bytes);
    for (const ptx::Relocation &relocation : variable.relocations) {
      CUGRT_ASSIGN(uint64_t target, address_of(relocation, variable));
      target = (target & relocation.mask) >> std::countr_zero(relocation.mask);
      std::memcpy(bytes + relocation.offset_bytes, &target, relocation.bytes);
    }
  }
  return {};
}

/// Shared variables that .func functions name or declare have the same offset in every kernel.
Status LoadedProgram::place_function_shared() {
  constexpr uint64_t kMaxSharedBytes = 16u << 20;
  uint32_t &end = placement_.function_shared_bytes;
  // Places the variable; nothing if there is no room.
  auto place = [&](const ptx::Variable &variable) -> std::optional<uint32_t> {
    uint64_t offset = (uint64_t(end) + variable.align - 1) & ~uint64_t(variable.align - 1);
    if (variable.bytes > kMaxSharedBytes || offset + variable.bytes > kMaxSharedBytes)
      return std::nullopt;
    end = uint32_t(offset + variable.bytes);
    return uint32_t(offset);
  };
  auto place_named = [&](const ptx::Operand &operand) {
    if (operand.kind != ptx::Operand::Kind::variable || !operand.is_module)
      return true;
    const ptx::Variable &variable = module_->variables[size_t(operand.index)];
    if (variable.space != ptx::Space::shared || variable.bytes == 0)
      return true;
    auto [it, inserted] = placement_.function_shared.try_emplace(uint32_t(operand.index), 0);
    std::optional<uint32_t> offset = inserted ? place(variable) : it->second;
    it->second = offset.value_or(0);
    return offset.has_value();
  };
  for (uint32_t f = 0; f < module_->functions.size(); ++f) {
    const ptx::Function &function = module_->functions[f];
    if (function.is_kernel)
      continue;
    bool fits = true;
    for (const auto *list : {&function.operands, &function.elements})
      for (const ptx::Operand &operand : *list)
        fits = fits && place_named(operand);
    for (uint32_t v = 0; v < function.variables.size() && fits; ++v) {
      if (function.variables[v].space != ptx::Space::shared)
        continue;
      std::optional<uint32_t> offset = place(function.variables[v]);
      fits = offset.has_value();
      placement_.own_shared[{f, v}] = offset.value_or(0);
    }
    if (!fits)
      return Status::error(Code::parse_error, "more than 16 MiB of shared memory")
          .at("ptx line " + std::to_string(function.line));
  }
  return {};
}

/// The kernel and the functions that it calls by name, each once.
std::vector<uint32_t> LoadedProgram::reached_from(uint32_t kernel) const {
  std::vector<bool> called(module_->functions.size());
  std::vector<uint32_t> reached{kernel};
  called[kernel] = true;
  for (size_t i = 0; i < reached.size(); ++i)
    for (uint32_t callee : decoded_.callees[reached[i]])
      if (!called[callee]) {
        called[callee] = true;
        reached.push_back(callee);
      }
  return reached;
}

/// Fails if a kernel and the functions that it calls by name declare more than 48 KiB; launches ask
/// for more. Gaps between variables do not count.
Status LoadedProgram::check_shared(uint32_t kernel) const {
  constexpr uint64_t kMaxStaticSharedBytes = 48 << 10;
  std::vector<bool> counted(module_->variables.size());
  uint64_t bytes = 0;
  for (uint32_t index : reached_from(kernel)) {
    const ptx::Function &function = module_->functions[index];
    for (const ptx::Variable &variable : function.variables)
      bytes += variable.space == ptx::Space::shared ? variable.bytes : 0;
    for (const auto *list : {&function.operands, &function.elements})
      for (const ptx::Operand &operand : *list) {
        if (operand.kind != ptx::Operand::Kind::variable || !operand.is_module ||
            counted[size_t(operand.index)])
          continue;
        counted[size_t(operand.index)] = true;
        const ptx::Variable &variable = module_->variables[size_t(operand.index)];
        bytes += variable.space == ptx::Space::shared ? variable.bytes : 0;
      }
  }
  if (bytes <= kMaxStaticSharedBytes)
    return {};
  return Status::error(Code::parse_error,
                       "kernel '" + std::string(module_->functions[kernel].name) + "' declares " +
                           std::to_string(bytes) + " bytes of shared memory: at most " +
                           std::to_string(kMaxStaticSharedBytes) +
                           " can be static, more is dynamic and asked for at the launch")
      .at("ptx line " + std::to_string(module_->functions[kernel].line));
}

/// Local memory of a thread in `function` and its callees.
uint32_t LoadedProgram::local_bytes(uint32_t function, std::vector<uint8_t> &state,
                                    std::vector<uint32_t> &bytes, bool &cyclic,
                                    uint32_t depth) const {
  constexpr uint32_t kMaxDepth = 1000;
  if (state[function] == 2)
    return bytes[function];
  if (state[function] == 1 || depth > kMaxDepth) {
    cyclic = true;
    return 0;
  }
  state[function] = 1;
  uint32_t deepest = 0;
  for (uint32_t callee : decoded_.callees[function])
    deepest = std::max(deepest, local_bytes(callee, state, bytes, cyclic, depth + 1));
  state[function] = 2;
  const FunctionCode &code = *decoded_.codes[function];
  const uint32_t own = code.ops.empty() ? 0 : code.stack_bytes(); // a builtin has no call frame
  bytes[function] = uint32_t(std::min<uint64_t>(own + deepest, kMaxStackBytes));
  return bytes[function];
}

/// Through a register any function may be called.
bool LoadedProgram::uses_heap(uint32_t kernel) const {
  auto calls_it = [](const KernelNeeds &needs) { return needs.uses_heap; };
  if (decoded_.calls_indirectly)
    return std::any_of(decoded_.needs.begin(), decoded_.needs.end(), calls_it);
  const std::vector<uint32_t> reached = reached_from(kernel);
  return std::any_of(reached.begin(), reached.end(),
                     [&](uint32_t index) { return calls_it(decoded_.needs[index]); });
}

void LoadedProgram::describe_kernels() {
  for (uint32_t i = 0; i < module_->functions.size(); ++i)
    if (module_->functions[i].is_kernel && !module_->functions[i].is_declaration)
      describe(i);
}

/// A limit that the kernel states precedes the one that the module was loaded or linked with.
/// Launch bounds make as many blocks of as many threads resident.
uint32_t LoadedProgram::max_registers(const ptx::Function &kernel) const {
  constexpr uint64_t kOfThread = 255, kOfMultiprocessor = 65536, kUnit = 8;
  const auto &bounds = kernel.required_threads[0] ? kernel.required_threads : kernel.max_threads;
  const uint32_t loaded = options_.max_registers ? options_.max_registers : module_->max_registers;
  uint64_t most = kOfThread;
  if (kernel.max_registers) {
    most = kernel.max_registers;
  } else if (bounds[0]) {
    const uint64_t warps = (uint64_t(bounds[0]) * bounds[1] * bounds[2] + kLanes - 1) / kLanes;
    const uint64_t threads = std::max<uint64_t>(warps, 1) * kLanes;
    most = kOfMultiprocessor / std::max(kernel.min_resident_blocks, 1u) / threads / kUnit * kUnit;
  } else if (loaded) {
    most = loaded;
  }
  return uint32_t(std::clamp<uint64_t>(most, 1, kOfThread));
}

void LoadedProgram::describe(uint32_t index) {
  const ptx::Function &function = module_->functions[index];
  auto kernel = std::make_unique<Kernel>();
  kernel->function = index;
  std::vector<uint8_t> state(module_->functions.size());
  std::vector<uint32_t> bytes(module_->functions.size());
  kernel->open_ended = decoded_.calls_indirectly || decoded_.allocates;
  const uint32_t named = local_bytes(index, state, bytes, kernel->open_ended, 0);
  uint32_t through_register = 0; // the deepest that a register may name
  if (decoded_.calls_indirectly)
    for (uint32_t i = 0; i < module_->functions.size(); ++i)
      if (!module_->functions[i].is_kernel)
        through_register =
            std::max(through_register, local_bytes(i, state, bytes, kernel->open_ended, 0));
  kernel->stack_bytes = uint32_t(std::min<uint64_t>(named + through_register, kMaxStackBytes));

  KernelInfo &info = kernel->info;
  info.name = function.name;
  info.static_shared_bytes = decoded_.needs[index].static_shared_bytes;
  info.local_bytes = named;
  info.uses_heap = uses_heap(index);
  info.constant_bytes = constant_bytes_;
  uint32_t offset = 0;
  for (const ptx::Parameter &parameter : function.parameters) {
    const ptx::Variable &variable = function.variables[parameter.variable];
    offset = (offset + variable.align - 1) & ~(variable.align - 1);
    info.params.push_back({offset, uint32_t(variable.bytes)});
    offset += uint32_t(variable.bytes);
  }
  info.param_bytes = offset;
  uint64_t limit = 1024;
  if (function.max_threads[0])
    limit = uint64_t(function.max_threads[0]) * function.max_threads[1] * function.max_threads[2];
  if (function.required_threads[0]) {
    info.required_block = function.required_threads;
    limit = uint64_t(function.required_threads[0]) * function.required_threads[1] *
            function.required_threads[2];
  }
  info.max_threads_per_block = uint32_t(std::min<uint64_t>(limit, 1024));
  info.max_registers = max_registers(function);
  info.registers = std::clamp(decoded_.needs[index].registers, 1u, info.max_registers);
  info.required_cluster = function.required_cluster;
  info.max_cluster_rank = function.max_cluster_rank;
  info.explicit_cluster = function.explicit_cluster;
  for (uint32_t reached : reached_from(index))
    if (const Status &status = decoded_.missing[reached]; !status.ok() && info.missing.empty())
      info.missing = status.to_string();
  kernel_by_name_.emplace(info.name, kernel.get());
  kernels_.push_back(std::move(kernel));
}

const KernelInfo *LoadedProgram::find_kernel(std::string_view name) const {
  auto it = kernel_by_name_.find(name);
  return it == kernel_by_name_.end() ? nullptr : &it->second->info;
}

std::optional<GlobalInfo> LoadedProgram::find_global(std::string_view name) const {
  for (size_t i = 0; i < module_->variables.size(); ++i)
    if (module_->variables[i].name == name && placement_.address[i])
      return GlobalInfo{placement_.address[i], module_->variables[i].bytes,
                        module_->variables[i].managed};
  return std::nullopt;
}

std::vector<const KernelInfo *> LoadedProgram::kernels() const {
  std::vector<const KernelInfo *> result;
  for (const auto &kernel : kernels_)
    result.push_back(&kernel->info);
  return result;
}

std::string_view LoadedProgram::text() const {
  return module_->parts.empty() ? std::string_view(module_->text) : std::string_view();
}

std::optional<Fault> LoadedProgram::launch(const KernelInfo &info,
                                           const LaunchConfig &config) const {
  const Kernel &kernel = *kernel_by_name_.at(info.name);
  Grid grid;
  Launch &launch = grid.launch;
  launch.code = decoded_.codes[kernel.function].get();
  launch.config = &config;
  launch.memory = &memory_;
  launch.multiprocessors = uint32_t(profile_.multiprocessors);
  launch.static_shared_bytes =
      (info.static_shared_bytes + dynamic_alignment_ - 1) & ~(dynamic_alignment_ - 1);
  launch.shared_bytes = config.dynamic_shared_bytes
                            ? launch.static_shared_bytes + config.dynamic_shared_bytes
                            : info.static_shared_bytes;
  launch.known_stack_bytes = kernel.stack_bytes;
  launch.local_stride = kernel.stack_bytes;
  if (kernel.open_ended)
    launch.local_stride =
        std::max(launch.local_stride, std::min(config.stack_bytes, kMaxStackBytes) & ~uint64_t(15));
  launch.counting = config.counters || config.accesses || config.report_polling ||
                    looks_for_grid_races(config) || coverage::enabled();
  const bool is_alone = config.order || config.report_polling || looks_for_grid_races(config);
  launch.cache_count = decoded_.cache_count;
  launch.files = &module_->files;
  launch.functions = &functions_;
  const uint64_t cluster_blocks =
      uint64_t(config.cluster[0]) * config.cluster[1] * config.cluster[2];
  grid.clusters = uint64_t(config.grid[0]) * config.grid[1] * config.grid[2] / cluster_blocks;
  ThreadPool &pool = ThreadPool::shared();
  uint32_t threads = config.block[0] * config.block[1] * config.block[2];
  uint64_t resident = uint64_t(profile_.multiprocessors) *
                      std::max<uint32_t>(1, uint32_t(profile_.max_threads_per_multiprocessor) /
                                                std::max(1u, threads));
  resident = std::max<uint64_t>(1, resident / cluster_blocks);
  grid.residents = is_alone ? uint32_t(resident) : uint32_t(resident / pool.width() + 1);
  uint64_t width = is_alone             ? 1
                   : config.max_threads ? std::min(config.max_threads, pool.width())
                                        : pool.width();
  uint64_t helpers = std::min<uint64_t>(width - 1, grid.clusters - 1);
  pool.run(uint32_t(helpers), [&grid] {
    try {
      grid.work();
    } catch (...) { // host memory; the others need not go on
      grid.failed = true;
      throw;
    }
  });
  if (kernel_counts::enabled())
    kernel_counts::launched(info.name, grid.warp_instructions, grid.lane_operations);
  return std::move(grid.fault);
}

} // namespace

Result<std::unique_ptr<Program>> Program::load(std::string_view ptx, const DeviceProfile &profile,
                                               AddressSpace &memory, const LoadOptions &options) {
  auto program = std::make_unique<LoadedProgram>(profile, memory, options);
  CUGRT_TRY(program->load(ptx));
  return Result<std::unique_ptr<Program>>(std::move(program));
}

} // namespace cugrt::emulator
