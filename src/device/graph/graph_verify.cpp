// Read-back: what the driver holds of an instance's nodes against what the plan says; see
// graph_instance.h.
//
// An instance's own nodes cannot be read. Setters of a verified instance set the template's node,
// too (driver::GraphExec::mirror_setters), so that the template has what the instance was given;
// what was never set is there as it was. Expected values are evaluated from the plan and the run,
// not taken from the instance's record.
#include "device/graph/graph_instance.h"

#include "device/code/loaded_code.h"
#include "device/driver/driver_error.h"
#include "device/program/symbol_binding.h"

#include <cstring>
#include <map>

namespace cugrt::runtime {

namespace {

std::string dims_text(uint32_t x, uint32_t y, uint32_t z) {
  return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

/// What a step's node is in the graph.
enum class ReadBack { nothing, kernel, transfer };

ReadBack read_back_of(const StepVariant &variant) {
  switch (variant.kind) {
  case VariantKind::kernel:
  case VariantKind::conditional:
  case VariantKind::set_condition:
    return ReadBack::kernel;
  case VariantKind::copy:
  case VariantKind::fill:
    return variant.fixed ? ReadBack::transfer : ReadBack::kernel;
  case VariantKind::empty:
  case VariantKind::left_out:
    return ReadBack::nothing;
  }
  return ReadBack::nothing;
}

/// Bytes of a by-value argument that a source gives; the driver says it where it can.
size_t argument_bytes(const driver::DriverApi &api, CUfunction function, size_t number,
                      const ValueSource &source) {
  size_t offset = 0, bytes = 0;
  if (api.FuncGetParamInfo &&
      api.FuncGetParamInfo(function, number, &offset, &bytes) == CUDA_SUCCESS)
    return std::min(bytes, sizeof(uint64_t));
  if (source.kind == ValueSource::Kind::address || source.kind == ValueSource::Kind::handle)
    return sizeof(uint64_t);
  return std::min<size_t>(ir::info(source.dtype).bytes_per_block, sizeof(uint64_t));
}

} // namespace

Status GraphInstance::differs(const RunBinding &run, uint32_t node, const std::string &what,
                              const std::string &read, const std::string &planned) const {
  return attribute(Status::error(Code::internal, what + " is " + read +
                                                     " as read back from the driver, and " +
                                                     planned + " by the plan"),
                   run, node, "node");
}

Status GraphInstance::verify_arguments(const RunBinding &run, uint32_t node,
                                       void *const *read) const {
  const StepVariant &variant = run.program.variants[topology_->variants[node]];
  size_t argument = 0, field = 0; // the last one's number, and the field in it
  for (uint32_t i = 0; i < variant.sources.count; ++i) {
    const ValueSource &source = run.program.sources[variant.sources.begin + i];
    argument += i > 0 && !source.joined;
    field = source.joined ? field + 1 : 0;
    CUGRT_ASSIGN(uint64_t planned, run.value(source));
    if (source.kind == ValueSource::Kind::handle) // made with the graph
      planned = values_[topology_->first_argument[node] + i];
    const bool alone =
        !source.joined && (i + 1 == variant.sources.count ||
                           !run.program.sources[variant.sources.begin + i + 1].joined);
    const size_t bytes =
        alone ? argument_bytes(graph_.ref().api(), code_->function(variant), argument, source)
              : sizeof(uint64_t);
    uint64_t got = 0, wanted = 0;
    std::memcpy(&got, static_cast<const char *>(read[argument]) + field * sizeof(uint64_t), bytes);
    std::memcpy(&wanted, &planned, bytes);
    if (got == wanted)
      continue;
    std::string name = "argument " + std::to_string(argument);
    if (source.kind == ValueSource::Kind::address && source.index < run.function.slots.size())
      name += " (" + run.function.slot_text(source.index) + ")";
    return differs(run, node, name, hex_text(got), hex_text(wanted));
  }
  return {};
}

Status GraphInstance::verify_kernel(const RunBinding &run, const LoadedCode &code,
                                    uint32_t node) const {
  const StepVariant &variant = run.program.variants[topology_->variants[node]];
  CUGRT_ASSIGN(const LaunchDims dims, launch_dims(run, variant, code.limits(variant)));
  if (!dims.enabled)
    return {}; // it does not run, with whatever it has
  CUDA_KERNEL_NODE_PARAMS_v2 read{};
  const driver::DriverApi &api = graph_.ref().api();
  CUGRT_DRIVER(api, GraphKernelNodeGetParams, (nodes_[node], &read), step_of(run, node).name);
  const auto held = read.func ? read.func : reinterpret_cast<CUfunction>(read.kern);
  if (held && (held != code.function(variant) || (code.green() && read.ctx != code.green())))
    return differs(run, node, "the kernel", "another", "'" + step_of(run, node).name + "'");
  if (const driver::Dim3 grid{read.gridDimX, read.gridDimY, read.gridDimZ}; !(grid == dims.grid))
    return differs(run, node, "the grid", dims_text(grid.x, grid.y, grid.z),
                   dims_text(dims.grid.x, dims.grid.y, dims.grid.z));
  if (const driver::Dim3 block{read.blockDimX, read.blockDimY, read.blockDimZ};
      !(block == dims.block))
    return differs(run, node, "the block", dims_text(block.x, block.y, block.z),
                   dims_text(dims.block.x, dims.block.y, dims.block.z));
  if (read.sharedMemBytes != dims.shared_bytes)
    return differs(run, node, "dynamic shared memory",
                   std::to_string(read.sharedMemBytes) + " bytes",
                   std::to_string(dims.shared_bytes));
  if (const int priority = graph_.ref().priority(); priority != 0) {
    CUlaunchAttributeValue held_priority{};
    CUGRT_DRIVER(api, GraphKernelNodeGetAttribute,
                 (nodes_[node], CU_LAUNCH_ATTRIBUTE_PRIORITY, &held_priority),
                 step_of(run, node).name);
    if (held_priority.priority != priority)
      return differs(run, node, "the priority", std::to_string(held_priority.priority),
                     std::to_string(priority));
  }
  for (const CUlaunchAttribute &wanted : code.attributes(variant)) { // clusters, cooperative
    CUlaunchAttributeValue value{};
    CUGRT_DRIVER(api, GraphKernelNodeGetAttribute, (nodes_[node], wanted.id, &value),
                 step_of(run, node).name);
    const auto text = [&](const CUlaunchAttributeValue &of) {
      return wanted.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE
                 ? std::to_string(of.cooperative)
                 : dims_text(of.clusterDim.x, of.clusterDim.y, of.clusterDim.z);
    };
    if (text(value) != text(wanted.value))
      return differs(run, node,
                     wanted.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE ? "'cooperative'" : "the cluster",
                     text(value), text(wanted.value));
  }
  return read.kernelParams ? verify_arguments(run, node, read.kernelParams) : Status();
}

Status GraphInstance::verify_transfer(const RunBinding &run, uint32_t node) const {
  const StepVariant &variant = run.program.variants[topology_->variants[node]];
  const driver::DriverApi &api = graph_.ref().api();
  const bool copies = variant.kind == VariantKind::copy;
  uint64_t read[3] = {}; // in the order of the variant's sources
  if (copies) {
    CUDA_MEMCPY3D_v2 copy{};
    CUGRT_DRIVER(api, GraphMemcpyNodeGetParams, (nodes_[node], &copy), step_of(run, node).name);
    read[0] = copy.dstDevice, read[1] = copy.srcDevice;
    read[2] = copy.WidthInBytes * copy.Height * copy.Depth;
  } else {
    CUDA_MEMSET_NODE_PARAMS_v1 fill{};
    CUGRT_DRIVER(api, GraphMemsetNodeGetParams, (nodes_[node], &fill), step_of(run, node).name);
    read[0] = fill.dst, read[1] = fill.elementSize * fill.width * fill.height;
    read[2] = fill.value;
  }
  static constexpr struct {
    const char *name;
    bool is_address;
  } kFields[2][3] = {
      {{"the fill's destination", true}, {"its bytes", false}, {"its byte", false}},
      {{"the copy's destination", true}, {"its source", true}, {"its bytes", false}}};
  for (uint32_t i = 0; i < std::size(read); ++i) {
    CUGRT_ASSIGN(const uint64_t planned, run.value(run.program.sources[variant.sources.begin + i]));
    const auto &field = kFields[copies][i];
    if (read[i] != planned)
      return differs(run, node, field.name,
                     field.is_address ? hex_text(read[i]) : std::to_string(read[i]),
                     field.is_address ? hex_text(planned) : std::to_string(planned));
  }
  return {};
}

Status GraphInstance::verify_edges(const RunBinding &run) const {
  const driver::DriverApi &api = graph_.ref().api();
  if (!api.GraphGetEdges_v2 || timed_)
    return {}; // a driver of CUDA 12.2; or events stand between the nodes
  std::map<CUgraphNode, std::map<CUgraphNode, bool>>
      read; // of each node, those it waits for: early?
  for (const driver::GraphRef &graph : graphs_) {
    if (!graph.get())
      continue;
    size_t count = 0;
    CUGRT_DRIVER(api, GraphGetEdges_v2, (graph.get(), nullptr, nullptr, nullptr, &count), "");
    std::vector<CUgraphNode> from(count), to(count);
    std::vector<CUgraphEdgeData> data(count);
    CUGRT_DRIVER(api, GraphGetEdges_v2, (graph.get(), from.data(), to.data(), data.data(), &count),
                 "");
    for (size_t i = 0; i < count; ++i)
      read[to[i]][from[i]] = data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  for (uint32_t node = 0; node < topology_->node_count(); ++node) {
    if (topology_->left_out[node])
      continue;
    std::map<CUgraphNode, bool> planned;
    std::map<CUgraphNode, uint32_t> number;
    for (uint32_t i = topology_->first_predecessor[node];
         i < topology_->first_predecessor[node + 1]; ++i) {
      planned[ends_[topology_->predecessors[i]]] = is_programmatic(i);
      number[ends_[topology_->predecessors[i]]] = topology_->predecessors[i];
    }
    if (const uint32_t lane = topology_->idle_lanes[node]; lane != kNone) {
      planned[ends_[lane]] = false;
      number[ends_[lane]] = lane;
    }
    const std::map<CUgraphNode, bool> &have = read[nodes_[node]];
    for (const auto &[from, early] : planned) {
      const std::string edge = "the edge from step '" + step_of(run, number[from]).name + "'";
      const auto found = have.find(from);
      if (found == have.end())
        return differs(run, node, edge, "absent", "there");
      if (found->second != early)
        return differs(run, node, edge, early ? "a full one" : "programmatic",
                       early ? "programmatic" : "a full one");
    }
    if (have.size() != planned.size())
      return differs(run, node, "the number of edges to it", std::to_string(have.size()),
                     std::to_string(planned.size()));
  }
  return {};
}

Status GraphInstance::verify(const RunBinding &run, const LoadedCode &code) const {
  const driver::DriverApi &api = graph_.ref().api();
  if (!api.GraphKernelNodeGetParams || !api.GraphKernelNodeGetAttribute ||
      !api.GraphMemcpyNodeGetParams || !api.GraphMemsetNodeGetParams)
    return Status::error(Code::unsupported, "this driver does not read nodes back");
  for (uint32_t node = 0; node < topology_->node_count(); ++node) {
    // What cannot be disabled is an empty node where it is not to run.
    if (topology_->left_out[node] || (!dims_[node].enabled && is_fixed(run, node)))
      continue;
    switch (read_back_of(run.program.variants[topology_->variants[node]])) {
    case ReadBack::nothing:
      break;
    case ReadBack::kernel:
      CUGRT_TRY(verify_kernel(run, code, node));
      break;
    case ReadBack::transfer:
      CUGRT_TRY(verify_transfer(run, node));
      break;
    }
  }
  return verify_edges(run);
}

} // namespace cugrt::runtime
