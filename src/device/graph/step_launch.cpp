// Evaluation and eager launches of steps; see step_launch.h.
#include "device/graph/step_launch.h"

#include "device/code/loaded_code.h"
#include "device/driver/driver_error.h"
#include "device/driver/memory.h"
#include "device/program/legality.h"

#include <algorithm>

namespace cugrt::runtime {

namespace {

constexpr uint32_t kTransferBlock = 256;
constexpr uint64_t kTransferBytesPerThread = 16;
constexpr uint64_t kTransferMaxBlocks = 1 << 14; // the kernels stride over the rest

std::string launch_text(const RunBinding &run, const StepVariant &variant) {
  const plan::Step &step = run.function.steps[variant.step];
  if (variant.kernel == kNone)
    return "step '" + step.name + "'";
  return "kernel @" + run.plan.kernels[variant.kernel].name + " in step '" + step.name + "'";
}

Status limit_error(const RunBinding &run, const StepVariant &variant, ExprId expr,
                   const std::string &what, int64_t value, int64_t limit) {
  std::string symbols = run.describe_symbols(expr);
  return Status::error(Code::out_of_range,
                       launch_text(run, variant) + ": " + what + " is " + std::to_string(value) +
                           " (" + run.expr_text(expr) + (symbols.empty() ? "" : " with ") +
                           symbols + "), the device allows 0 to " + std::to_string(limit));
}

Result<driver::Dim3> evaluate_dim3(const RunBinding &run, const StepVariant &variant,
                                   const std::array<ExprId, 3> &exprs, const char *what,
                                   const std::array<uint32_t, 3> &limits) {
  uint32_t values[3] = {1, 1, 1};
  for (int i = 0; i < 3; ++i) {
    if (!exprs[i].valid())
      continue;
    auto value = run.evaluate(exprs[i]);
    if (!value.ok())
      return value.take_status().in(launch_text(run, variant) + ": " + what);
    if (*value < 0 || *value > int64_t(limits[i]))
      return limit_error(run, variant, exprs[i], std::string(what) + "." + "xyz"[i], *value,
                         limits[i]);
    values[i] = static_cast<uint32_t>(*value);
  }
  return driver::Dim3{values[0], values[1], values[2]};
}

Result<LaunchDims> transfer_dims(const RunBinding &run, const StepVariant &variant) {
  uint32_t index = variant.sources.begin + (variant.kind == VariantKind::copy ? 2 : 1);
  CUGRT_ASSIGN(uint64_t bytes, run.value(run.program.sources[index]));
  uint64_t per_block = kTransferBlock * kTransferBytesPerThread;
  uint64_t blocks = std::min(bytes / per_block + 1, kTransferMaxBlocks);
  LaunchDims dims;
  dims.grid.x = static_cast<uint32_t>(blocks);
  dims.block.x = kTransferBlock;
  dims.enabled = bytes != 0;
  return dims;
}

/// Cluster of the variant's kernel; zeros: none.
std::array<uint32_t, 3> cluster_of(const RunBinding &run, const StepVariant &variant) {
  return variant.kind == VariantKind::kernel
             ? run.plan.kernels[variant.kernel].clusters[variant.variant]
             : std::array<uint32_t, 3>{};
}

/// Dimensions of whole clusters, even if nothing runs: drivers refuse a node with part of one.
LaunchDims disabled(const RunBinding &run, const StepVariant &variant) {
  LaunchDims dims{.enabled = false};
  if (const auto cluster = cluster_of(run, variant); cluster[0] != 0)
    dims.grid = {cluster[0], cluster[1], cluster[2]};
  return dims;
}

/// "n = 4, m = 7": the symbols that the launch depends on, in their order.
std::string symbols_text(const RunBinding &run, const StepVariant &variant) {
  std::vector<ir::SymbolId> used;
  auto add = [&](ExprId expr) {
    if (expr.valid())
      run.plan.exprs.collect_symbols(expr, used);
  };
  for (int i = 0; i < 3; ++i) {
    add(variant.grid[i]);
    add(variant.block[i]);
  }
  add(variant.shared_bytes);
  for (uint32_t i = variant.sources.begin; i < variant.sources.end(); ++i) {
    const ValueSource &source = run.program.sources[i];
    add(source.expr);
    if (source.kind == ValueSource::Kind::host)
      if (const plan::HostValue &value = run.function.host_values[source.index];
          value.kind == plan::HostValueKind::expr)
        add(ExprId{value.index});
  }
  std::string text;
  for (uint32_t s = 0; s < run.symbols.size(); ++s)
    if (std::find(used.begin(), used.end(), ir::SymbolId{s}) != used.end())
      text += (text.empty() ? "" : ", ") + run.function.symbols[s].name + " = " +
              std::to_string(run.symbols[s]);
  return text;
}

/// Names step, kernel and symbols in a driver's refusal, in the words of graph_instance.cpp.
Status refused(Status status, const RunBinding &run, const StepVariant &variant) {
  std::string symbols = symbols_text(run, variant);
  return std::move(status).in("launch of step '" + run.function.steps[variant.step].name + "'" +
                              (symbols.empty() ? "" : " (" + symbols + ")"));
}

/// Whether the variant is an empty step or a conditional's, whose nodes only a graph has.
bool runs_nothing_alone(VariantKind kind) {
  return kind != VariantKind::kernel && kind != VariantKind::copy && kind != VariantKind::fill;
}

Status launch_kernel(const RunBinding &run, const LoadedCode &code, const StepVariant &variant,
                     const LaunchDims &dims, driver::StreamRef stream, LaunchScratch &scratch) {
  scratch.pointers.clear();
  for (size_t i = 0; i < scratch.values.size(); ++i)
    if (!run.program.sources[variant.sources.begin + i].joined)
      scratch.pointers.push_back(&scratch.values[i]);
  driver::LaunchParams params;
  params.function = code.function(variant);
  params.grid = dims.grid;
  params.block = dims.block;
  params.dynamic_shared_bytes = dims.shared_bytes;
  params.arguments = scratch.pointers.data();
  params.attributes = code.attributes(variant);
  return driver::launch(stream, params, run.function.steps[variant.step].name);
}

/// Whether all blocks of a cooperative launch are resident at once; true for other launches.
Result<bool> fits(const RunBinding &run, const LoadedCode *code, const StepVariant &variant) {
  const std::optional<uint64_t> places = code ? code->places(variant) : std::nullopt;
  if (!places)
    return true;
  uint64_t blocks = 1;
  for (ExprId size : variant.grid) {
    CUGRT_ASSIGN(const int64_t value, run.evaluate(size));
    if (value < 0 || __builtin_mul_overflow(blocks, uint64_t(value), &blocks))
      return false;
  }
  return blocks <= *places;
}

Result<uint32_t> choose(const RunBinding &run, const LoadedCode *code, uint32_t step) {
  Range range = run.program.step_variants[step];
  if (ExprId when = run.function.steps[step].when; when.valid()) {
    CUGRT_ASSIGN(int64_t runs, run.evaluate(when));
    if (!runs)
      return range.end() - 1;
    --range.count;
  }
  for (uint32_t i = range.begin; i < range.end(); ++i) {
    const StepVariant &variant = run.program.variants[i];
    if (variant.predicate.valid()) {
      CUGRT_ASSIGN(int64_t holds, run.evaluate(variant.predicate));
      if (!holds)
        continue;
    }
    const bool is_last = i + 1 == range.end();
    CUGRT_ASSIGN(const bool resident, is_last ? Result<bool>(true) : fits(run, code, variant));
    if (resident)
      return i;
  }
  const StepVariant &last = run.program.variants[range.end() - 1];
  return Status::error(Code::out_of_range, launch_text(run, last) +
                                               ": no launch rule of the kernel holds with " +
                                               run.describe_symbols(last.predicate));
}

} // namespace

Result<uint32_t> choose_variant(const RunBinding &run, const Executable &executable,
                                const LoadedCode *code, uint32_t step) {
  auto chosen = choose(run, code, step);
  if (!chosen.ok()) [[unlikely]]
    return chosen.take_status().at(executable.location(run.function.steps[step].location));
  return chosen;
}

Result<LaunchDims> launch_dims(const RunBinding &run, const StepVariant &variant,
                               const DeviceLimits &limits) {
  if (runs_nothing_alone(variant.kind))
    return LaunchDims{};
  if (variant.kind != VariantKind::kernel)
    return transfer_dims(run, variant);
  LaunchDims dims;
  CUGRT_ASSIGN(dims.grid, evaluate_dim3(run, variant, variant.grid, "grid", limits.grid));
  CUGRT_ASSIGN(dims.block, evaluate_dim3(run, variant, variant.block, "block", limits.block));
  if (variant.shared_bytes.valid()) {
    CUGRT_ASSIGN(int64_t bytes, run.evaluate(variant.shared_bytes));
    if (bytes < 0 || bytes > int64_t(limits.shared_bytes_per_block))
      return limit_error(run, variant, variant.shared_bytes, "dynamic shared memory", bytes,
                         limits.shared_bytes_per_block);
    dims.shared_bytes = static_cast<uint32_t>(bytes);
  }
  uint64_t threads = uint64_t(dims.block.x) * dims.block.y * dims.block.z;
  if (threads > limits.threads_per_block)
    return limit_error(run, variant, variant.block[0], "the number of threads of a block",
                       static_cast<int64_t>(threads), limits.threads_per_block);
  if (threads == 0 || dims.grid.x == 0 || dims.grid.y == 0 || dims.grid.z == 0)
    return disabled(run, variant);
  return dims;
}

bool can_disable(const RunBinding &run, const StepVariant &variant) {
  const auto cluster = cluster_of(run, variant);
  const bool large =
      uint64_t(cluster[0]) * cluster[1] * cluster[2] > driver::Kernel::kPortableClusterBlocks;
  const Change change = large ? Change::large_cluster_becomes_empty : Change::becomes_empty;
  return legality(NodeKind::kernel, change)->verdict == Verdict::disable;
}

std::string source_text(const RunBinding &run, const ValueSource &source) {
  ExprId expr = source.expr;
  if (source.kind == ValueSource::Kind::host) {
    const plan::HostValue &value = run.function.host_values[source.index];
    if (value.kind == plan::HostValueKind::param)
      return "%" + run.function.params[value.index].name;
    if (value.kind != plan::HostValueKind::expr)
      return "host value " + std::to_string(source.index);
    expr = ExprId{value.index};
  }
  if (!expr.valid())
    return "address";
  std::string symbols = run.describe_symbols(expr);
  return run.expr_text(expr) + (symbols.empty() ? "" : " with " + symbols);
}

Result<bool> read_condition(const RunBinding &run, const plan::Buffer &buffer,
                            driver::StreamRef stream) {
  CUGRT_ASSIGN(uint64_t address, run.address(buffer));
  uint64_t value = 0;
  size_t bytes = std::min<size_t>(ir::info(buffer.dtype).bytes_per_block, sizeof value);
  const driver::DriverApi &api = stream.api();
  CUGRT_DRIVER(api, MemcpyDtoHAsync, (&value, address, bytes, stream.get()),
               "condition %" + buffer.name);
  CUGRT_TRY(stream.synchronize());
  return value != 0;
}

Status launch_step(const RunBinding &run, const LoadedCode &code, uint32_t step,
                   driver::StreamRef stream, LaunchScratch &scratch) {
  CUGRT_ASSIGN(uint32_t index, choose_variant(run, code.executable(), &code, step));
  const StepVariant &variant = run.program.variants[index];
  CUGRT_ASSIGN(LaunchDims dims, launch_dims(run, variant, code.limits(variant)));
  if (!dims.enabled || runs_nothing_alone(variant.kind))
    return {};
  scratch.values.clear();
  for (uint32_t i = variant.sources.begin; i < variant.sources.end(); ++i) {
    auto value = run.value(run.program.sources[i]);
    if (!value.ok())
      return value.take_status().in(launch_text(run, variant) + ", argument " +
                                    source_text(run, run.program.sources[i]));
    scratch.values.push_back(*value);
  }
  const std::vector<uint64_t> &values = scratch.values;
  auto call = [&]() -> Status {
    if (variant.kind == VariantKind::copy)
      return driver::copy_async(stream, values[0], values[1], values[2]);
    if (variant.kind == VariantKind::fill)
      return driver::fill_async(stream, values[0], static_cast<uint32_t>(values[2]), 1, values[1]);
    return launch_kernel(run, code, variant, dims, stream, scratch);
  };
  if (Status status = call(); !status.ok()) [[unlikely]]
    return refused(std::move(status), run, variant);
  return {};
}

} // namespace cugrt::runtime
