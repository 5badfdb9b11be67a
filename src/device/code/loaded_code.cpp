// Loading of code, constants and weights; see loaded_code.h.
#include "device/code/loaded_code.h"

#include "base/check.h"
#include "base/checked_math.h"
#include "device/code/code_entries.h"
#include "device/code/ptx_version.h"
#include "plan/symbols/bucket_boxes.h"

namespace cugrt::runtime {

/// A cubin for "sm_90a" runs on a device "sm_90".
static bool runs_cubins_of(std::string_view architecture, std::string_view device) {
  if (architecture.ends_with('a') || architecture.ends_with('f'))
    architecture.remove_suffix(1);
  return architecture == device;
}

/// The major version of CUDA whose compiler made a cubin; 0: unknown. Versions differ in the ABI
/// that the ELF header names.
static int cubin_major(std::string_view image) {
  constexpr size_t kAbi = 7; // EI_OSABI
  if (image.size() <= kAbi || !image.starts_with("\x7f"
                                                 "ELF"))
    return 0;
  return image[kAbi] == 0x41 ? 13 : image[kAbi] == 0x33 ? 12 : 0;
}

Result<std::shared_ptr<LoadedCode>> LoadedCode::load(std::shared_ptr<const Executable> executable,
                                                     std::shared_ptr<Device> device) {
  std::shared_ptr<LoadedCode> code(new LoadedCode);
  code->executable_ = std::move(executable);
  code->device_ = std::move(device);
  CUGRT_TRY(code->load_images());
  CUGRT_TRY(code->load_kernels());
  CUGRT_TRY(code->set_up_launches());
  CUGRT_TRY(code->upload_constants());
  return code;
}

Status LoadedCode::load_images() {
  const std::string &wanted = device_->context().architecture();
  for (uint32_t i = 0; i < executable_->images().size(); ++i) {
    const CodeImage &image = executable_->images()[i];
    if (i == executable_->control_image() &&
        !device_->library().capabilities().conditional_if_while) {
      modules_.emplace_back(); // it names a function that such drivers do not have
      continue;
    }
    if (image.cubin && device_->emulated())
      return Status::error(Code::unsupported,
                           "'" + image.name +
                               "' is a cubin, which the emulated driver cannot run; "
                               "give its source or PTX, or compile with a runtime "
                               "of the emulated driver");
    if (image.cubin && !runs_cubins_of(executable_->architecture(), wanted))
      return Status::error(Code::unsupported, "the executable was compiled for " +
                                                  executable_->architecture() + ", the device is " +
                                                  wanted + "; compile it for " + wanted);
    auto module = driver::KernelModule::load(device_->context(), image.bytes, image.name);
    const int version = device_->library().version;
    if (const int major = cubin_major(image.bytes); !module.ok() && major > version / 1000)
      return module.take_status().in("code that was compiled by CUDA " + std::to_string(major) +
                                     ", which a driver of CUDA " + driver::version_text(version) +
                                     " does not load: compile with an NVRTC of " +
                                     std::to_string(version / 1000) + ", or update the driver");
    if (const int ptx = image.cubin ? 0 : ptx_version(image.bytes);
        !module.ok() && driver_of_ptx(ptx) > version)
      return Status::error(Code::unsupported,
                           "'" + image.name + "' is " + ptx_version_text(ptx) +
                               ", and this driver is of CUDA " + driver::version_text(version) +
                               ": update it, or compile with an NVRTC that is not newer");
    CUGRT_ASSIGN(driver::KernelModule loaded, std::move(module));
    modules_.push_back(std::move(loaded));
  }
  return {};
}

Status LoadedCode::load_kernels() {
  const plan::Plan &plan = executable_->plan();
  for (uint32_t k = 0; k < plan.kernels.size(); ++k) {
    const plan::Kernel &kernel = plan.kernels[k];
    std::vector<LoadedKernel> variants;
    for (uint32_t v = 0; v < kernel.entries.size(); ++v) {
      auto loaded = modules_[executable_->image_of(k)].kernel(kernel.entries[v]);
      if (!loaded.ok())
        return loaded.take_status().in("kernel @" + kernel.name);
      LoadedKernel row{std::move(*loaded), {}, device_->limits(), {}};
      if (kernel.clusters[v][0] != 0) {
        CUlaunchAttribute attribute{};
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = kernel.clusters[v][0];
        attribute.value.clusterDim.y = kernel.clusters[v][1];
        attribute.value.clusterDim.z = kernel.clusters[v][2];
        row.attributes.push_back(attribute);
        if (uint64_t(kernel.clusters[v][0]) * kernel.clusters[v][1] * kernel.clusters[v][2] >
            driver::Kernel::kPortableClusterBlocks)
          CUGRT_TRY(row.kernel.allow_large_clusters());
      }
      if (kernel.cooperative[v]) {
        CUlaunchAttribute attribute{};
        attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attribute.value.cooperative = 1;
        row.attributes.push_back(attribute);
      }
      variants.push_back(std::move(row));
    }
    kernels_.push_back(std::move(variants));
  }
  if (executable_->transfer_image() != kNone) {
    const driver::KernelModule &module = modules_[executable_->transfer_image()];
    CUGRT_ASSIGN(copy_kernel_, module.kernel("transfer_copy"));
    CUGRT_ASSIGN(fill_kernel_, module.kernel("transfer_fill"));
  }
  if (executable_->control_image() != kNone &&
      device_->library().capabilities().conditional_if_while) {
    const driver::KernelModule &module = modules_[executable_->control_image()];
    CUGRT_ASSIGN(set_kernel_, module.kernel("control_set"));
    CUGRT_ASSIGN(nothing_kernel_, module.kernel("control_nothing"));
  }
  return {};
}

/// Compares the arguments of every launch of every function with the compiled kernel, and allows
/// its largest dynamic shared memory over the symbols' bounds, so that no run needs to.
Status LoadedCode::set_up_launches() {
  const plan::Plan &plan = executable_->plan();
  for (size_t f = 0; f < plan.functions.size(); ++f) {
    const plan::Function &function = plan.functions[f];
    const FunctionProgram &program = executable_->program(f);
    const ir::SymbolDomain domain = plan::symbol_domain(plan.exprs, function);
    for (const StepVariant &variant : program.variants) {
      if (variant.kind != VariantKind::kernel)
        continue;
      const plan::Step &step = function.steps[variant.step];
      LoadedKernel &loaded = kernels_[variant.kernel][variant.variant];
      const driver::Kernel &kernel = loaded.kernel;
      if (Status status = kernel.check_params(argument_bytes(program, variant)); !status.ok())
        return std::move(status)
            .in("kernel @" + plan.kernels[variant.kernel].name)
            .at(executable_->location(step.location));
      if (plan.kernels[variant.kernel].cooperative[variant.variant])
        CUGRT_TRY(count_places(variant, domain, loaded));
      if (!variant.shared_bytes.valid())
        continue;
      // The kernel's static shared memory counts too.
      CUGRT_ASSIGN(const int own, kernel.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
      loaded.limits.shared_bytes_per_block = device_->limits().shared_bytes_per_block - own;
      int64_t most = plan.exprs.range(variant.shared_bytes, domain).upper;
      most = std::min<int64_t>(most, loaded.limits.shared_bytes_per_block);
      if (most > 0)
        CUGRT_TRY(kernel.allow_dynamic_shared(static_cast<uint32_t>(most)));
    }
  }
  return {};
}

Status LoadedCode::count_places(const StepVariant &variant, const ir::SymbolDomain &domain,
                                LoadedKernel &loaded) const {
  const plan::Plan &plan = executable_->plan();
  int64_t threads = 1, shared = 0;
  for (ExprId size : variant.block)
    threads *= std::clamp<int64_t>(plan.exprs.range(size, domain).upper, 1,
                                   device_->limits().threads_per_block);
  threads = std::min<int64_t>(threads, device_->limits().threads_per_block);
  if (variant.shared_bytes.valid())
    shared = std::clamp<int64_t>(plan.exprs.range(variant.shared_bytes, domain).upper, 0,
                                 device_->limits().shared_bytes_per_block);
  CUGRT_ASSIGN(const int blocks, loaded.kernel.resident_blocks(int(threads), size_t(shared)));
  CUGRT_ASSIGN(const int multiprocessors,
               device_->context().attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  const uint64_t places = uint64_t(blocks) * uint64_t(multiprocessors);
  loaded.places = std::min(places, loaded.places.value_or(UINT64_MAX));
  return {};
}

std::optional<uint64_t> LoadedCode::places(const StepVariant &variant) const {
  if (variant.kind != VariantKind::kernel)
    return std::nullopt;
  return kernels_[variant.kernel][variant.variant].places;
}

Status LoadedCode::upload_constants() {
  const std::vector<plan::Constant> &constants = executable_->plan().constants;
  std::optional<int64_t> total = 0;
  for (const plan::Constant &constant : constants) {
    total = checked_align(*total, kUploadAlignment);
    constant_addresses_.push_back(static_cast<uint64_t>(*total)); // an offset until memory is there
    total = checked_add(*total, static_cast<int64_t>(constant.bytes.size()));
    CUGRT_CHECK(total); // the bytes are in memory already
  }
  CUGRT_ASSIGN(constants_,
               driver::DeviceBuffer::allocate(device_->context(), static_cast<uint64_t>(*total)));
  for (size_t i = 0; i < constants.size(); ++i) {
    constant_addresses_[i] += constants_.address();
    if (!constants[i].bytes.empty())
      CUGRT_TRY(driver::copy_to_device(device_->context(), constant_addresses_[i],
                                       constants[i].bytes.data(), constants[i].bytes.size()));
  }
  return {};
}

CUfunction LoadedCode::function(const StepVariant &variant) const {
  switch (variant.kind) {
  case VariantKind::copy:
    return copy_kernel_.get();
  case VariantKind::fill:
    return fill_kernel_.get();
  case VariantKind::empty:
  case VariantKind::left_out:
    return nothing_kernel_.get();
  case VariantKind::conditional:
  case VariantKind::set_condition:
    return set_kernel_.get();
  case VariantKind::kernel:
    break;
  }
  return kernels_[variant.kernel][variant.variant].kernel.get();
}

bool LoadedCode::begins_early(const StepVariant &from, const StepVariant &to) const {
  constexpr int kProgrammaticCapability = 90;
  return from.kind == VariantKind::kernel && to.kind == VariantKind::kernel &&
         device_->library().capabilities().edge_data &&
         device_->context().capability() >= kProgrammaticCapability && !places(from) &&
         !places(to) && executable_->programmatic(from.kernel, from.variant).triggers &&
         executable_->programmatic(to.kernel, to.variant).waits_first;
}

const DeviceLimits &LoadedCode::limits(const StepVariant &variant) const {
  return variant.kind == VariantKind::kernel ? kernels_[variant.kernel][variant.variant].limits
                                             : device_->limits();
}

std::span<const CUlaunchAttribute> LoadedCode::attributes(const StepVariant &variant) const {
  if (variant.kind != VariantKind::kernel)
    return {};
  return kernels_[variant.kernel][variant.variant].attributes;
}

Result<std::shared_ptr<LoadedWeights>>
LoadedCode::weights(const WeightSet &set, const Device &memory,
                    const std::shared_ptr<GroupWeights> &group,
                    const LoadedWeights::Finish &finish) {
  std::lock_guard lock(mutex_);
  std::erase_if(weights_, [](const auto &entry) { return entry.second.expired(); });
  const std::pair<uint64_t, const MemoryBudget *> key(set.identity(),
                                                      group ? group->budget().get() : nullptr);
  if (auto found = weights_.find(key); found != weights_.end())
    if (std::shared_ptr<LoadedWeights> loaded = found->second.lock())
      return loaded;
  CUGRT_ASSIGN(std::shared_ptr<LoadedWeights> loaded,
               LoadedWeights::load(*executable_, memory, set, group));
  CUGRT_TRY(loaded->finish(memory, finish));
  weights_[key] = loaded;
  if (group)
    group->add(*executable_, loaded);
  return loaded;
}

Status LoadedCode::replace(const std::shared_ptr<LoadedWeights> &weights, const WeightSet &set,
                           const Device &memory, const std::shared_ptr<GroupWeights> &group,
                           const LoadedWeights *computed) {
  std::lock_guard lock(mutex_); // so that no session comes to share them
  const std::unique_lock others =
      group ? group->hold() : std::unique_lock<std::mutex>(); // likewise, of other models
  if (weights.use_count() != 1)
    return Status::error(Code::busy,
                         "other sessions read the weights: new ones come beside them, by "
                         "session_update_weights");
  CUGRT_TRY(weights->replace(*executable_, memory, set, computed));
  std::erase_if(weights_, [&](const auto &entry) { return entry.second.lock() == weights; });
  weights_[{set.identity(), group ? group->budget().get() : nullptr}] = weights;
  return {};
}

} // namespace cugrt::runtime
