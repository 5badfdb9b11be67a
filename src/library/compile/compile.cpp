// Compilation of a plan's code; see compile.h.
#include "library/compile/compile.h"

#include "base/architectures.h"
#include "base/file.h"
#include "kernels/builtin.h"

#include <condition_variable>
#include <filesystem>
#include <thread>

namespace cugrt::runtime {

namespace {

constexpr uint64_t kMaxCodeBytes = uint64_t(256) << 20;
constexpr std::string_view kTransferSource = "transfer.cu", kControlSource = "control.cu";

/// Turns the C API's flag, a plain integer, into the compiler's. Polls, since nobody signals it.
class CancelWatch {
public:
  explicit CancelWatch(const volatile int32_t *flag) {
    cancelled_ = flag && *flag; // whatever needs no time is cancelled too
    if (flag && !cancelled_)
      thread_ = std::thread([this, flag] { watch(flag); });
  }
  ~CancelWatch() {
    if (!thread_.joinable())
      return;
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  CancelWatch(const CancelWatch &) = delete;
  const std::atomic<bool> *flag() const { return &cancelled_; }

private:
  void watch(const volatile int32_t *flag) {
    std::unique_lock lock(mutex_);
    while (!done_ && !cancelled_) {
      if (*flag)
        cancelled_ = true;
      else
        wake_.wait_for(lock, std::chrono::milliseconds(5));
    }
  }
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

/// The contents of each kernel's parameters over all launches. Nothing in a plan writes weights or
/// constants; uploads, updates and layouts end before a launch by the stream's order.
std::vector<std::vector<ParameterKind>> parameter_kinds(const plan::Plan &plan) {
  std::vector<std::vector<ParameterKind>> kinds(plan.kernels.size());
  for (uint32_t k = 0; k < plan.kernels.size(); ++k)
    for (const plan::KernelParam &param : plan.kernels[k].params)
      kinds[k].push_back(param.kind == ir::KernelParamKind::tensor ? ParameterKind::constant
                         : param.kind == ir::KernelParamKind::checked_symbol
                             ? ParameterKind::memory
                             : ParameterKind::number);
  for (const plan::Function &function : plan.functions)
    for (const plan::Step &step : function.steps)
      for (uint32_t p = 0; step.kind == plan::StepKind::kernel && p < step.arguments.count; ++p) {
        if (kinds[step.kernel][p] != ParameterKind::constant)
          continue;
        const plan::BufferBase base =
            function.buffers[function.arguments[step.arguments.begin + p].index].base;
        if (base != plan::BufferBase::weight && base != plan::BufferBase::constant)
          kinds[step.kernel][p] = ParameterKind::memory;
      }
  return kinds;
}

} // namespace

bool links_conditions(int nvrtc_major, int nvrtc_minor) {
  return nvrtc_major > 12 || (nvrtc_major == 12 && nvrtc_minor >= 3);
}

class ExecutableCompiler {
public:
  ExecutableCompiler(Device &device, const std::string &base_folder, const CompileOptions &options)
      : device_(device), base_folder_(base_folder), options_(options), executable_(new Executable) {
  }

  Result<std::shared_ptr<const Executable>> compile(plan::Plan plan, std::string module_name) {
    CUGRT_TRY(prepare(std::move(plan), std::move(module_name)));
    CUGRT_TRY(compile_requests());
    return std::shared_ptr<const Executable>(std::move(executable_));
  }

  Result<size_t> count(plan::Plan plan, std::string module_name) {
    CUGRT_TRY(prepare(std::move(plan), std::move(module_name)));
    return requests_.size();
  }

private:
  Status prepare(plan::Plan plan, std::string module_name) {
    executable_->plan_ = std::move(plan);
    executable_->module_name_ = std::move(module_name);
    CUGRT_TRY(choose_target());
    CUGRT_TRY(executable_->make_programs());
    CUGRT_TRY(collect());
    request_ptx();
    return {};
  }

  Status choose_target() {
    std::string architecture = options_.architecture;
    if (architecture.empty()) {
      if (!device_.has_driver())
        return Status::error(Code::invalid_argument,
                             "the runtime has no device; name the architecture to compile for, "
                             "for example sm_90");
      CUGRT_ASSIGN(architecture, architecture_of_device());
    }
    bool ptx = (device_.emulated() && !options_.for_other_machines) ||
               architecture.starts_with("compute_");
    kind_ = ptx ? jit::OutputKind::ptx : jit::OutputKind::cubin;
    executable_->architecture_ = architecture;
    return {};
  }

  /// The device's own architecture, or PTX of a lower one if the present compiler does not know it.
  /// Without a compiler, cached code may do.
  Result<std::string> architecture_of_device() {
    const int device = device_.context().capability();
    std::vector<int> known;
    if (jit::must_ask_compiler(device))
      if (auto asked = compiler_of(device_).architectures(); asked.ok())
        known = std::move(*asked);
    return jit::architecture_for(device, known);
  }

  /// Collects one image for each code that a kernel uses, and one for each overridden kernel.
  Status collect() {
    const plan::Plan &plan = executable_->plan_;
    std::vector<uint32_t> code_images(plan.codes.size(), kNone);
    for (const plan::Kernel &kernel : plan.kernels) {
      auto override = options_.overrides.find(kernel.name);
      uint32_t image = kNone;
      if (override != options_.overrides.end()) {
        CUGRT_ASSIGN(image, add_override(kernel, override->second));
      } else {
        if (code_images[kernel.code] == kNone) {
          CUGRT_ASSIGN(code_images[kernel.code], add_code(kernel, plan.codes[kernel.code]));
        }
        image = code_images[kernel.code];
      }
      executable_->kernel_images_.push_back(image);
    }
    for (const auto &[name, code] : options_.overrides)
      if (!has_kernel(name))
        return Status::error(Code::not_found, "code is given for kernel @" + name +
                                                  ", but the module has no such kernel");
    bool transfers = false, control = false;
    for (const FunctionProgram &program : executable_->programs_) {
      transfers = transfers || program.needs_copy_kernels;
      control = control || program.needs_control_kernels;
    }
    if (transfers)
      executable_->transfer_image_ =
          request("copies and fills", std::string(*kernels::builtin_source(kTransferSource)),
                  std::string(kTransferSource), {});
    if (control) {
      CUGRT_ASSIGN(const jit::OutputKind kind, control_kind());
      executable_->control_image_ =
          request("conditions", std::string(*kernels::builtin_source(kControlSource)),
                  std::string(kControlSource), {}, kind);
    }
    return {};
  }

  /// NVRTC before 12.3 lacks the functions that set conditions, so only the driver can link the
  /// kernel. An older driver of the same major version loads newer code as a cubin only.
  Result<jit::OutputKind> control_kind() {
    if (kind_ == jit::OutputKind::ptx)
      return kind_;
    auto compiler = compiler_of(device_).identity();
    if (!compiler.ok()) // cached kernels may do
      return kind_;
    return links_conditions(compiler->major, compiler->minor) ? kind_ : jit::OutputKind::ptx;
  }

  bool has_kernel(const std::string &name) const {
    for (const plan::Kernel &kernel : executable_->plan_.kernels)
      if (kernel.name == name)
        return true;
    return false;
  }

  uint32_t add_image(std::string name, std::string bytes, bool cubin) {
    executable_->images_.push_back({std::move(name), std::move(bytes), cubin});
    return static_cast<uint32_t>(executable_->images_.size() - 1);
  }

  uint32_t request(std::string name, std::string source, std::string file,
                   std::vector<std::string> options, std::optional<jit::OutputKind> kind = {}) {
    jit::CompileRequest request;
    request.name = name;
    request.source = std::move(source);
    request.file = std::move(file);
    request.options = std::move(options);
    request.kind = kind.value_or(kind_);
    const bool cubin = request.kind == jit::OutputKind::cubin;
    request.architecture = executable_->architecture_;
    requests_.push_back(std::move(request));
    uint32_t image = add_image(std::move(name), "", cubin);
    request_images_.push_back(image);
    return image;
  }

  Result<uint32_t> add_override(const plan::Kernel &kernel, const CodeOverride &code) {
    if (code.kind == CUGRT_CODE_SOURCE)
      return request(kernel.name, kernels::with_builtin_includes(code.bytes, kernel.name), "",
                     executable_->plan_.codes[kernel.code].options);
    return add_image(kernel.name, code.bytes, code.kind == CUGRT_CODE_CUBIN);
  }

  Result<uint32_t> add_code(const plan::Kernel &kernel, const plan::CodeUnit &code) {
    if (code.kind == ir::CodeKind::source_text)
      return request(code.name, kernels::with_builtin_includes(code.text, code.name), "",
                     code.options);
    std::string_view prefix = kernels::kBuiltinPrefix;
    if (code.name.starts_with(prefix)) {
      auto text = kernels::builtin_source(std::string_view(code.name).substr(prefix.size()));
      if (!text)
        return Status::error(Code::not_found,
                             "kernel @" + kernel.name + ": the library has no " + code.name);
      return request(kernel.name, std::string(*text), code.name, code.options);
    }
    std::filesystem::path path = std::filesystem::path(base_folder_) / code.name;
    auto bytes = read_file(path.string(), kMaxCodeBytes);
    if (!bytes.ok())
      return bytes.take_status().in("kernel @" + kernel.name);
    if (code.kind == ir::CodeKind::source_file)
      return request(kernel.name, kernels::with_builtin_includes(*bytes, path.string()),
                     path.string(), code.options);
    return add_image(code.name, std::move(*bytes), code.kind == ir::CodeKind::cubin_file);
  }

  Status compile_requests() {
    CancelWatch watch(options_.cancel);
    jit::CompileAllOptions all;
    all.threads = options_.threads;
    all.progress = options_.progress;
    all.cancel = watch.flag();
    CUGRT_ASSIGN(std::vector<jit::CompileResult> results,
                 compiler_of(device_).compile_all(requests_, all));
    for (size_t i = 0; i < request_images_.size(); ++i)
      executable_->images_[request_images_[i]].bytes = std::move(results[i].bytes);
    look_at_programmatic(results);
    return {};
  }

  /// Kernels at the ends of edges that may be programmatic.
  std::vector<bool> ends_of_programmatic_edges() const {
    std::vector<bool> ends(executable_->plan_.kernels.size());
    for (const plan::Function &function : executable_->plan_.functions)
      for (const plan::Region &region : function.regions)
        for (uint32_t e : region.programmatic)
          for (uint32_t step : {region.edges[e].from, region.edges[e].to})
            ends[function.steps[region.steps.begin + step].kernel] = true;
    return ends;
  }

  /// Requests PTX beside a cubin if the PTX must be examined.
  void request_ptx() {
    const std::vector<bool> ends = ends_of_programmatic_edges();
    for (size_t r = 0; r < requests_.size(); ++r)
      for (uint32_t k = 0; k < ends.size(); ++k)
        if (ends[k] && executable_->kernel_images_[k] == request_images_[r])
          requests_[r].with_ptx = requests_[r].kind == jit::OutputKind::cubin;
  }

  void look_at_programmatic(const std::vector<jit::CompileResult> &results) {
    const plan::Plan &plan = executable_->plan_;
    const std::vector<bool> ends = ends_of_programmatic_edges();
    const std::vector<std::vector<ParameterKind>> kinds = parameter_kinds(plan);
    std::vector<const std::string *> ptx; // of each image; null: not known
    for (const CodeImage &image : executable_->images_)
      ptx.push_back(image.cubin ? nullptr : &image.bytes);
    for (size_t r = 0; r < requests_.size(); ++r)
      if (requests_[r].with_ptx)
        ptx[request_images_[r]] = &results[r].ptx;
    executable_->programmatic_.resize(plan.kernels.size());
    for (uint32_t k = 0; k < plan.kernels.size(); ++k) {
      const plan::Kernel &kernel = plan.kernels[k];
      executable_->programmatic_[k].resize(kernel.entries.size());
      const std::string *text = ptx[executable_->kernel_images_[k]];
      if (!ends[k] || !text)
        continue;
      for (size_t v = 0; v < kernel.entries.size(); ++v)
        if (kernel.programmatic[v])
          executable_->programmatic_[k][v] =
              analyze_programmatic(*text, kernel.entries[v], kinds[k]);
    }
  }

  Device &device_;
  const std::string &base_folder_;
  const CompileOptions &options_;
  std::shared_ptr<Executable> executable_;
  jit::OutputKind kind_ = jit::OutputKind::cubin;
  std::vector<jit::CompileRequest> requests_;
  std::vector<uint32_t> request_images_;
};

Result<size_t> count_compilations(Device &device, plan::Plan plan, std::string module_name,
                                  const std::string &base_folder, const CompileOptions &options) {
  return ExecutableCompiler(device, base_folder, options)
      .count(std::move(plan), std::move(module_name));
}

Result<std::shared_ptr<const Executable>> compile_executable(Device &device, plan::Plan plan,
                                                             std::string module_name,
                                                             const std::string &base_folder,
                                                             const CompileOptions &options) {
  return ExecutableCompiler(device, base_folder, options)
      .compile(std::move(plan), std::move(module_name));
}

} // namespace cugrt::runtime
