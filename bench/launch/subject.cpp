// Opening drivers, compiling modules, and taking apart what the runtime launches; see subject.h.
#include "bench/launch/subject.h"

#include "compiler/passes/pass.h"
#include "compiler/planner/lower/planner.h"
#include "device/code/computed_weights.h"
#include "device/driver/driver_error.h"
#include "device/driver/memory.h"
#include "device/graph/step_launch.h"
#include "device/graph/topology_class.h"
#include "ir/text/text.h"
#include "library/compile/compile.h"

#include <algorithm>

namespace cugrt::bench {
namespace {

constexpr uint64_t kBudgetBytes = uint64_t(8) << 30; // every instance may stay
constexpr uint64_t kPatchedOnly = UINT32_MAX;        // uses of a key that would earn an instance

/// Nobody executes code on the do-nothing driver, so none is compiled.
runtime::CompileOptions placeholder_code(const plan::Plan &plan) {
  runtime::CompileOptions options;
  for (const plan::Kernel &kernel : plan.kernels)
    options.overrides[kernel.name] = {CUGRT_CODE_CUBIN, "code"};
  return options;
}

Result<driver::DriverChoice> choice_of(DriverClass kind) {
  switch (kind) {
  case DriverClass::emulated:
    return driver::DriverChoice{driver::DriverKind::path, CUGRT_BENCH_EMULATOR};
  case DriverClass::null:
    return driver::DriverChoice{driver::DriverKind::path, CUGRT_NULL_DRIVER};
  default:
    return runtime::driver_from_environment();
  }
}

CUlaunchConfig config_of(const driver::LaunchParams &params) {
  CUlaunchConfig config{};
  config.gridDimX = params.grid.x;
  config.gridDimY = params.grid.y;
  config.gridDimZ = params.grid.z;
  config.blockDimX = params.block.x;
  config.blockDimY = params.block.y;
  config.blockDimZ = params.block.z;
  config.sharedMemBytes = params.dynamic_shared_bytes;
  config.attrs = const_cast<CUlaunchAttribute *>(params.attributes.data());
  config.numAttrs = static_cast<unsigned>(params.attributes.size());
  return config;
}

} // namespace

Result<std::unique_ptr<BenchDriver>> BenchDriver::open(DriverClass kind) {
  auto made = std::make_unique<BenchDriver>();
  runtime::DeviceOptions options;
  CUGRT_ASSIGN(options.driver, choice_of(kind));
  if (kind == DriverClass::null)
    options.cache_folder = "off";
  CUGRT_ASSIGN(made->device, runtime::Device::open(std::move(options)));
  made->kind = made->device->emulated() ? DriverClass::emulated : kind;
  const driver::Context &context = made->device->context();
  char name[128] = {};
  CUGRT_DRIVER(context.api(), DeviceGetName, (name, sizeof name - 1, context.device()), "");
  made->name = made->kind == DriverClass::real   ? name
               : made->kind == DriverClass::null ? "NULL"
                                                 : "EMULATED";
  CUGRT_ASSIGN(made->capture, CaptureApi::of(made->device->library()));
  CUGRT_ASSIGN(made->stream, driver::Stream::create(context));
  CUGRT_ASSIGN(made->begin, driver::Event::create(context, driver::Event::Timing::on));
  CUGRT_ASSIGN(made->end, driver::Event::create(context, driver::Event::Timing::on));
  return made;
}

// --- Launches ------------------------------------------------------------------------------------

Result<LaunchList> LaunchList::make(const runtime::RunBinding &run, const runtime::LoadedCode &code,
                                    const runtime::TopologyClass &topology) {
  LaunchList list;
  std::vector<size_t> first_value;
  for (uint32_t node = 0; node < topology.node_count(); ++node) {
    const runtime::StepVariant &variant = run.program.variants[topology.variants[node]];
    if (variant.fixed && variant.kind != runtime::VariantKind::kernel)
      return Status::error(Code::unsupported, "the bench launches kernels only, and step '" +
                                                  run.function.steps[variant.step].name +
                                                  "' is a copy or a fill");
    CUGRT_ASSIGN(runtime::LaunchDims dims,
                 runtime::launch_dims(run, variant, code.limits(variant)));
    Node made;
    made.empty = variant.kind == runtime::VariantKind::empty;
    if (!made.empty) {
      made.params.function = code.function(variant);
      made.params.grid = dims.grid;
      made.params.block = dims.block;
      made.params.dynamic_shared_bytes = dims.shared_bytes;
      made.params.attributes = code.attributes(variant);
    }
    first_value.push_back(list.values_.size());
    for (uint32_t i = variant.sources.begin; i < variant.sources.end(); ++i) {
      CUGRT_ASSIGN(uint64_t value, run.value(run.program.sources[i]));
      list.values_.push_back(value);
    }
    made.after.assign(topology.predecessors.begin() + topology.first_predecessor[node],
                      topology.predecessors.begin() + topology.first_predecessor[node + 1]);
    list.edge_count_ += made.after.size();
    list.nodes_.push_back(std::move(made));
  }
  for (uint64_t &value : list.values_)
    list.pointers_.push_back(&value);
  for (size_t i = 0; i < list.nodes_.size(); ++i) {
    driver::LaunchParams &params = list.nodes_[i].params;
    params.arguments = list.pointers_.data() + first_value[i];
    list.setters_.emplace_back(params);
    list.configs_.push_back(config_of(params));
  }
  return list;
}

Status LaunchList::launch(driver::StreamRef stream) {
  auto call = stream.api().LaunchKernelEx;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].empty)
      continue;
    configs_[i].hStream = stream.get();
    CUresult result =
        call(&configs_[i], nodes_[i].params.function, nodes_[i].params.arguments, nullptr);
    if (result != CUDA_SUCCESS) [[unlikely]]
      return driver::driver_error(stream.api(), result, "cuLaunchKernelEx", "");
  }
  return {};
}

Status LaunchList::add_to(driver::GraphRef graph, std::vector<driver::GraphNode> &nodes) const {
  std::vector<driver::GraphNode> after;
  nodes.reserve(nodes_.size());
  for (const Node &node : nodes_) {
    after.clear();
    for (uint32_t predecessor : node.after)
      after.push_back(nodes[predecessor]);
    CUGRT_ASSIGN(driver::GraphNode added, node.empty ? graph.add_empty(after, "")
                                                     : graph.add_kernel(node.params, after, ""));
    nodes.push_back(added);
  }
  return {};
}

Status LaunchList::set_all(const driver::GraphExec &exec,
                           std::span<const driver::GraphNode> nodes) const {
  driver::KernelSetter set = exec.kernel_setter();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].empty)
      continue;
    if (CUresult result = set(nodes[i], setters_[i]); result != CUDA_SUCCESS)
      return exec.setter_failure(result, "");
  }
  return {};
}

// --- Subjects ------------------------------------------------------------------------------------

Result<std::unique_ptr<Subject>> Subject::make(const BenchDriver &driver, const std::string &text) {
  std::unique_ptr<Subject> subject(new Subject(driver));
  CUGRT_TRY(subject->compile(text));
  CUGRT_TRY(subject->add_weights());
  CUGRT_ASSIGN(subject->session_, subject->open(Instances::patched));
  CUGRT_ASSIGN(subject->code_, subject->executable_->load(driver.device));
  return subject;
}

Status Subject::compile(const std::string &text) {
  CUGRT_ASSIGN(ir::Module module, ir::parse_and_verify(text, "bench"));
  CUGRT_ASSIGN(ir::Module lowered, passes::run_passes(std::move(module), passes::default_pipeline(),
                                                      passes::PassContext()));
  plan::PlannerOptions planner;
  planner.max_region_nodes = plan::kMaxRegionNodes; // one graph, also of a few more than 10,000
  CUGRT_ASSIGN(plan::Plan plan, plan::make_plan(lowered, planner));
  const plan::Function &function = plan.functions.at(0);
  uint64_t input_bytes = 4;
  std::vector<int64_t> upper;
  for (const plan::Symbol &symbol : function.symbols)
    upper.push_back(symbol.bounds.upper);
  for (plan::ExprId dim : function.params.at(0).dims) {
    CUGRT_ASSIGN(int64_t elements, plan.exprs.evaluate(dim, upper));
    input_bytes *= static_cast<uint64_t>(elements);
  }
  if (function.regions.size() != 1)
    return Status::error(Code::internal, "the module has " +
                                             std::to_string(function.regions.size()) +
                                             " regions; the bench measures modules of one");
  auto options =
      driver_.kind == DriverClass::null ? placeholder_code(plan) : runtime::CompileOptions();
  CUGRT_ASSIGN(input_, driver::DeviceBuffer::allocate(driver_.device->context(), input_bytes));
  CUGRT_ASSIGN(executable_, runtime::compile_executable(*driver_.device, std::move(plan), "bench",
                                                        ".", options));
  return {};
}

/// Zeros: results are of no interest. What functions of weights compute is not brought.
Status Subject::add_weights() {
  const plan::Plan &plan = executable_->plan();
  for (const plan::Function &function : plan.functions)
    for (const plan::Param &param : function.params) {
      if (param.kind != plan::ParamKind::weight || runtime::computed_weight(plan, param) ||
          weights_.find(param.name))
        continue;
      runtime::HostTensor tensor;
      tensor.size_bytes = 4;
      for (plan::ExprId dim : param.dims) {
        CUGRT_ASSIGN(int64_t elements, plan.exprs.evaluate(dim, {}));
        tensor.dims.push_back(elements);
        tensor.size_bytes *= static_cast<size_t>(elements);
      }
      const auto zeros = std::make_shared<std::vector<char>>(tensor.size_bytes);
      tensor.storage = {zeros, zeros->data()};
      CUGRT_TRY(weights_.add(param.name, std::move(tensor)));
    }
  return {};
}

Result<std::unique_ptr<runtime::Session>> Subject::open(Instances instances) const {
  runtime::SessionOptions options;
  options.weights = &weights_;
  options.cache.policy.budget_bytes = kBudgetBytes;
  if (instances == Instances::patched) {
    options.cache.policy.class_pool = 1;
    options.cache.policy.pin_uses = kPatchedOnly;
  }
  return runtime::Session::open(executable_, driver_.device, options);
}

Status Subject::run(runtime::Session &session, std::span<const int64_t> dims) const {
  cugrt_value x{};
  x.kind = CUGRT_VALUE_TENSOR;
  x.as.tensor.address = input_.address();
  x.as.tensor.dtype = CUGRT_F32;
  x.as.tensor.rank = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), x.as.tensor.dims);
  runtime::RunRequest request;
  request.arguments = {&x, 1};
  return session.run(0, request);
}

Result<Subject::Shape> Subject::shape(std::span<const int64_t> dims) {
  CUGRT_TRY(run(*session_, dims));
  std::unique_ptr<runtime::RunBinding> run;
  CUGRT_TRY(session_->visit_instances([&](const std::vector<runtime::GraphCache::View> &views) {
    if (!views.empty()) // one for each topology class, all of one function
      run = std::make_unique<runtime::RunBinding>(*views[0].run);
  }));
  if (!run)
    return Status::error(Code::internal, "the run left no instance");
  CUGRT_ASSIGN(std::vector<uint32_t> variants,
               runtime::choose_variants(*run, *executable_, code_.get(), 0));
  auto topology = std::make_shared<const runtime::TopologyClass>(
      runtime::make_topology_class(*run, 0, std::move(variants)));
  CUGRT_ASSIGN(LaunchList list, LaunchList::make(*run, *code_, *topology));
  CUGRT_TRY(session_->synchronize());
  return Shape{std::move(run), std::move(topology), std::move(list)};
}

} // namespace cugrt::bench
