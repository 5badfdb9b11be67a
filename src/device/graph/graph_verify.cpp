// Read-back: what the driver holds of an instance's nodes against what the plan says; see
// graph_nodes.h.
//
// An instance's own nodes cannot be read. Setters of a verified instance set the template's node,
// too (driver::GraphExec::mirror_setters), so that the template has what the instance was given;
// what was never set is there as it was. Expected values are evaluated from the plan and the run,
// not taken from the instance's record.
#include "device/graph/graph_nodes.h"

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

/// Kind of a step's node in the graph.
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

/// Bytes of a by-value argument of a source, from the driver if it can tell them.
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

/// NodeVerifier compares the nodes of one instance with the plan.
class NodeVerifier {
public:
  NodeVerifier(const GraphValues &values, const GraphNodes &nodes, const RunBinding &run)
      : values_(values), nodes_(nodes), topology_(values.topology()), code_(values.code()),
        run_(run), api_(nodes.graph().api()) {}
  Status verify() const;

private:
  Status verify_kernel(uint32_t node) const;
  Status verify_transfer(uint32_t node) const;
  Status verify_arguments(uint32_t node, void *const *read) const;
  Status verify_edges() const;
  Status differs(uint32_t node, const std::string &what, const std::string &read,
                 const std::string &planned) const;
  const StepVariant &variant_of(uint32_t node) const { return values_.variant_of(run_, node); }
  const std::string &name_of(uint32_t node) const { return values_.step_of(run_, node).name; }

  const GraphValues &values_;
  const GraphNodes &nodes_;
  const TopologyClass &topology_;
  const LoadedCode &code_;
  const RunBinding &run_;
  const driver::DriverApi &api_;
};

Status NodeVerifier::differs(uint32_t node, const std::string &what, const std::string &read,
                             const std::string &planned) const {
  return values_.attribute(Status::error(Code::internal, what + " is " + read +
                                                             " as read back from the driver, and " +
                                                             planned + " by the plan"),
                           run_, node, "node");
}

Status NodeVerifier::verify_arguments(uint32_t node, void *const *read) const {
  const StepVariant &variant = variant_of(node);
  size_t argument = 0, field = 0; // the last one's number, and the field in it
  for (uint32_t i = 0; i < variant.sources.count; ++i) {
    const ValueSource &source = run_.program.sources[variant.sources.begin + i];
    argument += i > 0 && !source.joined;
    field = source.joined ? field + 1 : 0;
    CUGRT_ASSIGN(uint64_t planned, run_.value(source));
    if (source.kind == ValueSource::Kind::handle) // made with the graph
      planned = values_.arguments(node)[i];
    const bool alone =
        !source.joined && (i + 1 == variant.sources.count ||
                           !run_.program.sources[variant.sources.begin + i + 1].joined);
    const size_t bytes =
        alone ? argument_bytes(api_, code_.function(variant), argument, source) : sizeof(uint64_t);
    uint64_t got = 0, wanted = 0;
    std::memcpy(&got, static_cast<const char *>(read[argument]) + field * sizeof(uint64_t), bytes);
    std::memcpy(&wanted, &planned, bytes);
    if (got == wanted)
      continue;
    std::string name = "argument " + std::to_string(argument);
    if (source.kind == ValueSource::Kind::address && source.index < run_.function.slots.size())
      name += " (" + run_.function.slot_text(source.index) + ")";
    return differs(node, name, hex_text(got), hex_text(wanted));
  }
  return {};
}

Status NodeVerifier::verify_kernel(uint32_t node) const {
  const StepVariant &variant = variant_of(node);
  CUGRT_ASSIGN(const LaunchDims dims, launch_dims(run_, variant, code_.limits(variant)));
  if (!dims.enabled)
    return {}; // it does not run, with whatever it has
  CUDA_KERNEL_NODE_PARAMS_v2 read{};
  CUGRT_DRIVER(api_, GraphKernelNodeGetParams, (nodes_.node(node), &read), name_of(node));
  const auto held = read.func ? read.func : reinterpret_cast<CUfunction>(read.kern);
  if (held && (held != code_.function(variant) || (code_.green() && read.ctx != code_.green())))
    return differs(node, "the kernel", "another", "'" + name_of(node) + "'");
  if (const driver::Dim3 grid{read.gridDimX, read.gridDimY, read.gridDimZ}; !(grid == dims.grid))
    return differs(node, "the grid", dims_text(grid.x, grid.y, grid.z),
                   dims_text(dims.grid.x, dims.grid.y, dims.grid.z));
  if (const driver::Dim3 block{read.blockDimX, read.blockDimY, read.blockDimZ};
      !(block == dims.block))
    return differs(node, "the block", dims_text(block.x, block.y, block.z),
                   dims_text(dims.block.x, dims.block.y, dims.block.z));
  if (read.sharedMemBytes != dims.shared_bytes)
    return differs(node, "dynamic shared memory", std::to_string(read.sharedMemBytes) + " bytes",
                   std::to_string(dims.shared_bytes));
  if (const int priority = nodes_.graph().priority(); priority != 0) {
    CUlaunchAttributeValue held_priority{};
    CUGRT_DRIVER(api_, GraphKernelNodeGetAttribute,
                 (nodes_.node(node), CU_LAUNCH_ATTRIBUTE_PRIORITY, &held_priority), name_of(node));
    if (held_priority.priority != priority)
      return differs(node, "the priority", std::to_string(held_priority.priority),
                     std::to_string(priority));
  }
  for (const CUlaunchAttribute &wanted : code_.attributes(variant)) { // clusters, cooperative
    CUlaunchAttributeValue value{};
    CUGRT_DRIVER(api_, GraphKernelNodeGetAttribute, (nodes_.node(node), wanted.id, &value),
                 name_of(node));
    const auto text = [&](const CUlaunchAttributeValue &of) {
      return wanted.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE
                 ? std::to_string(of.cooperative)
                 : dims_text(of.clusterDim.x, of.clusterDim.y, of.clusterDim.z);
    };
    if (text(value) != text(wanted.value))
      return differs(node,
                     wanted.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE ? "'cooperative'" : "the cluster",
                     text(value), text(wanted.value));
  }
  return read.kernelParams ? verify_arguments(node, read.kernelParams) : Status();
}

Status NodeVerifier::verify_transfer(uint32_t node) const {
  const StepVariant &variant = variant_of(node);
  const bool copies = variant.kind == VariantKind::copy;
  uint64_t read[3] = {}; // in the order of the variant's sources
  if (copies) {
    CUDA_MEMCPY3D_v2 copy{};
    CUGRT_DRIVER(api_, GraphMemcpyNodeGetParams, (nodes_.node(node), &copy), name_of(node));
    read[0] = copy.dstDevice, read[1] = copy.srcDevice;
    read[2] = copy.WidthInBytes * copy.Height * copy.Depth;
  } else {
    CUDA_MEMSET_NODE_PARAMS_v1 fill{};
    CUGRT_DRIVER(api_, GraphMemsetNodeGetParams, (nodes_.node(node), &fill), name_of(node));
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
    CUGRT_ASSIGN(const uint64_t planned,
                 run_.value(run_.program.sources[variant.sources.begin + i]));
    const auto &field = kFields[copies][i];
    if (read[i] != planned)
      return differs(node, field.name,
                     field.is_address ? hex_text(read[i]) : std::to_string(read[i]),
                     field.is_address ? hex_text(planned) : std::to_string(planned));
  }
  return {};
}

Status NodeVerifier::verify_edges() const {
  if (!api_.GraphGetEdges_v2 || nodes_.is_timed())
    return {}; // a driver of CUDA 12.2; or events stand between the nodes
  std::map<CUgraphNode, std::map<CUgraphNode, bool>>
      read; // of each node, those it waits for: early?
  for (const driver::GraphRef &graph : nodes_.graphs()) {
    if (!graph.get())
      continue;
    size_t count = 0;
    CUGRT_DRIVER(api_, GraphGetEdges_v2, (graph.get(), nullptr, nullptr, nullptr, &count), "");
    std::vector<CUgraphNode> from(count), to(count);
    std::vector<CUgraphEdgeData> data(count);
    CUGRT_DRIVER(api_, GraphGetEdges_v2, (graph.get(), from.data(), to.data(), data.data(), &count),
                 "");
    for (size_t i = 0; i < count; ++i)
      read[to[i]][from[i]] = data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  for (uint32_t node = 0; node < topology_.node_count(); ++node) {
    if (topology_.left_out[node])
      continue;
    std::map<CUgraphNode, bool> planned;
    std::map<CUgraphNode, uint32_t> number;
    for (uint32_t i = topology_.first_predecessor[node]; i < topology_.first_predecessor[node + 1];
         ++i) {
      planned[nodes_.ends()[topology_.predecessors[i]]] = nodes_.is_programmatic(i);
      number[nodes_.ends()[topology_.predecessors[i]]] = topology_.predecessors[i];
    }
    if (const uint32_t lane = topology_.idle_lanes[node]; lane != kNone) {
      planned[nodes_.ends()[lane]] = false;
      number[nodes_.ends()[lane]] = lane;
    }
    const std::map<CUgraphNode, bool> &have = read[nodes_.node(node)];
    for (const auto &[from, early] : planned) {
      const std::string edge = "the edge from step '" + name_of(number[from]) + "'";
      const auto found = have.find(from);
      if (found == have.end())
        return differs(node, edge, "absent", "there");
      if (found->second != early)
        return differs(node, edge, early ? "a full one" : "programmatic",
                       early ? "programmatic" : "a full one");
    }
    if (have.size() != planned.size())
      return differs(node, "the number of edges to it", std::to_string(have.size()),
                     std::to_string(planned.size()));
  }
  return {};
}

Status NodeVerifier::verify() const {
  if (!api_.GraphKernelNodeGetParams || !api_.GraphKernelNodeGetAttribute ||
      !api_.GraphMemcpyNodeGetParams || !api_.GraphMemsetNodeGetParams)
    return Status::error(Code::unsupported, "this driver does not read nodes back");
  for (uint32_t node = 0; node < topology_.node_count(); ++node) {
    // A node that cannot be disabled is an empty one where it must not run.
    if (topology_.left_out[node] || (!values_.dims(node).enabled && nodes_.is_fixed(run_, node)))
      continue;
    switch (read_back_of(variant_of(node))) {
    case ReadBack::nothing:
      break;
    case ReadBack::kernel:
      CUGRT_TRY(verify_kernel(node));
      break;
    case ReadBack::transfer:
      CUGRT_TRY(verify_transfer(node));
      break;
    }
  }
  return verify_edges();
}

} // namespace

Status verify_nodes(const GraphValues &values, const GraphNodes &nodes, const RunBinding &run) {
  return NodeVerifier(values, nodes, run).verify();
}

} // namespace cugrt::runtime
