// Making of packs; see compile.h.
#include "library/compile/compile.h"

#include "base/architectures.h"
#include "base/file.h"
#include "device/code/code_entries.h"
#include "device/code/computed_weights.h"
#include "device/code/weight_argument.h"
#include "library/compile/module_plan.h"
#include "library/compile/step_operations.h"
#include "plan/bytes/serialize.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <tuple>

namespace cugrt::runtime {

namespace {

/// The architectures in the form that packs have them.
Result<std::vector<std::string>> check_architectures(const std::vector<std::string> &given) {
  if (given.empty())
    return Status::error(Code::invalid_argument,
                         "a pack needs an architecture, for example sm_87 or compute_75");
  std::vector<std::string> checked;
  for (const std::string &text : given) {
    CUGRT_ASSIGN(jit::Architecture architecture, jit::parse_architecture(text));
    checked.push_back(jit::architecture_text(architecture));
    if (std::find(checked.begin(), checked.end() - 1, checked.back()) != checked.end() - 1)
      return Status::error(Code::invalid_argument, "architecture " + text + " is named twice");
  }
  return checked;
}

/// Every weight of every public function is there, and of the right type.
Status check_weights(const plan::Plan &plan, const WeightSet &set) {
  CUGRT_TRY(check_not_computed(plan, set));
  for (const plan::Function &function : plan.functions)
    for (uint32_t i = 0; i < function.params.size(); ++i) {
      const plan::Param &param = function.params[i];
      if (function.is_private || param.kind != plan::ParamKind::weight ||
          computed_weight(plan, param))
        continue;
      CUGRT_TRY(weight_argument(plan, function, i, set).take_status());
    }
  return {};
}

class PackBuilder {
public:
  PackBuilder(Device &device, const PackOptions &options) : device_(device), options_(options) {}

  Status build(const ir::Module &module, const std::string &name, const std::string &base_folder,
               const std::string &path) {
    CUGRT_ASSIGN(std::vector<std::string> architectures,
                 check_architectures(options_.architectures));
    std::vector<const Planned *> plans;
    for (const std::string &architecture : architectures) {
      CUGRT_ASSIGN(const Planned *planned, plan_for(architecture, module, name));
      plans.push_back(planned);
      if (plans.size() == 1)
        CUGRT_TRY(take_weights(planned->plan)); // every plan has the module's
      if (options_.progress) {
        CUGRT_ASSIGN(const size_t count,
                     count_compilations(device_, planned->plan, name, base_folder,
                                        compile_options(architecture)));
        total_ += count;
      }
    }
    for (size_t i = 0; i < architectures.size(); ++i) {
      CUGRT_ASSIGN(std::shared_ptr<const Executable> executable,
                   compile(plans[i]->plan, name, base_folder, architectures[i]));
      CUGRT_TRY(add_target(*executable, *plans[i]));
      executables_.push_back(std::move(executable)); // owns what the contents refer to
    }
    contents_.module_name = executables_.front()->module_name();
    // The deque and the executables keep their places, so the views hold.
    for (const std::string &bytes : plans_)
      contents_.plans.push_back(bytes);
    const std::string notes = notes_text(notes_);
    contents_.notes = notes;
    const std::string head = write_pack_without_weights(contents_);
    std::vector<std::string_view> parts = contents_.weights.parts;
    parts.insert(parts.begin(), head);
    return write_file(path, parts);
  }

private:
  struct Planned {
    plan::Plan plan;
    std::vector<FunctionOperations> operations;
    PlanNames names;
    int64_t multiprocessors; // for which it chose
  };

  /// Plans once for architectures that look alike to the planner. The result outlives the builder's
  /// other calls.
  Result<const Planned *> plan_for(const std::string &architecture, const ir::Module &module,
                                   const std::string &name) {
    PlanningOptions planning = options_.planning;
    // No device is asked, so that a pack is the same wherever it is made.
    CUGRT_TRY(set_target(planning.passes, nullptr, architecture));
    const std::pair key(planning.passes.number("target.multiprocessors"),
                        planning.passes.number("target.compute_capability"));
    auto known = planned_.find(key);
    if (known == planned_.end()) {
      CUGRT_ASSIGN(plan::Plan plan, plan_module(module, name, planning, nullptr));
      CUGRT_ASSIGN(const ir::Module ops, ops_before_fusion(module, name, planning));
      std::vector<FunctionOperations> operations = count_operations(ops, plan);
      Planned planned{std::move(plan), std::move(operations), {}, key.first};
      if (options_.names)
        planned.names = name_steps(module, options_.names_of_lines, planned.plan);
      known = planned_.try_emplace(key, std::move(planned)).first;
    }
    return &known->second;
  }

  Status take_weights(const plan::Plan &plan) {
    if (options_.weights)
      return take_weights(plan, *options_.weights);
    if (options_.weights_path.empty())
      return {};
    CUGRT_ASSIGN(MappedFile file, MappedFile::open(options_.weights_path));
    weights_ = std::move(file);
    CUGRT_ASSIGN(WeightSet set, read_safetensors(weights_, options_.weights_path));
    if (Status status = check_weights(plan, set); !status.ok())
      return std::move(status).in("weights file " + options_.weights_path);
    PackWeights &weights = contents_.weights;
    if (options_.weights_inside) {
      weights.kind = PackWeights::Kind::inside;
      weights.parts = {weights_.view};
      return {};
    }
    file_name_ = std::filesystem::path(options_.weights_path).filename().string();
    weights.kind = PackWeights::Kind::file;
    weights.file_name = file_name_;
    weights.file_bytes = weights_.view.size();
    weights.file_digest = pack_digest(weights_.view);
    weights_ = {};
    return {};
  }

  /// A set without weights puts no file into the pack.
  Status take_weights(const plan::Plan &plan, const WeightSet &set) {
    CUGRT_TRY(check_weights(plan, set));
    if (set.size() == 0)
      return {};
    CUGRT_ASSIGN(weights_file_, make_safetensors(set.stored()));
    contents_.weights.kind = PackWeights::Kind::inside;
    contents_.weights.parts = weights_file_.parts();
    return {};
  }

  CompileOptions compile_options(const std::string &architecture) const {
    CompileOptions compile;
    compile.architecture = architecture;
    compile.threads = options_.threads;
    compile.cancel = options_.cancel;
    compile.for_other_machines = true;
    return compile;
  }

  Result<std::shared_ptr<const Executable>> compile(const plan::Plan &plan, const std::string &name,
                                                    const std::string &base_folder,
                                                    const std::string &architecture) {
    CompileOptions compile = compile_options(architecture);
    const size_t done_before = done_, cached_before = cached_;
    if (options_.progress)
      compile.progress = [&, done_before, cached_before](const jit::CompileProgress &progress) {
        jit::CompileProgress together = progress;
        together.done = done_ = done_before + progress.done;
        together.total = total_;
        together.cached = cached_ = cached_before + progress.cached;
        options_.progress(together);
      };
    CUGRT_ASSIGN(std::shared_ptr<const Executable> executable,
                 compile_executable(device_, plan, name, base_folder, compile));
    // No driver loads the code here, which would find missing kernels.
    if (Status status = check_code(*executable); !status.ok())
      return std::move(status).in("compiled for " + architecture);
    return executable;
  }

  Status add_target(const Executable &executable, const Planned &planned) {
    plan::Plan plan = executable.plan();
    for (plan::CodeUnit &code : plan.codes)
      code.text.clear(); // it is compiled: no source is in a pack
    std::string bytes = plan::to_bytes(plan);
    auto known = std::find(plans_.begin(), plans_.end(), bytes);
    PackTarget target;
    target.architecture = executable.architecture();
    target.plan = static_cast<uint32_t>(known - plans_.begin());
    if (known == plans_.end()) {
      // Reads it as every reader of the pack does: the validator checks offsets and edges.
      CUGRT_TRY(plan::from_bytes(bytes).take_status());
      plans_.push_back(std::move(bytes));
      notes_.operations.push_back(planned.operations);
      if (options_.names)
        notes_.names.push_back(planned.names);
    }
    std::vector<uint32_t> numbers; // in the pack
    for (const CodeImage &image : executable.images()) {
      if (image.cubin && target.architecture.starts_with("compute_"))
        return Status::error(Code::unsupported,
                             "'" + image.name + "' is a cubin, which a pack cannot have for " +
                                 executable.architecture() + "; give its source or PTX");
      numbers.push_back(add_image(image));
    }
    for (uint32_t k = 0; k < plan.kernels.size(); ++k) {
      target.kernel_images.push_back(numbers[executable.image_of(k)]);
      for (uint32_t v = 0; v < plan.kernels[k].entries.size(); ++v) {
        ProgrammaticCode code = executable.programmatic(k, v);
        target.variant_flags.push_back(static_cast<uint8_t>(
            (code.waits_first ? kPackWaitsFirst : 0) | (code.triggers ? kPackTriggers : 0)));
      }
    }
    if (executable.control_image() != kNone)
      target.control_image = numbers[executable.control_image()];
    if (executable.transfer_image() != kNone)
      target.transfer_image = numbers[executable.transfer_image()];
    contents_.targets.push_back(std::move(target));
    notes_.multiprocessors.push_back(planned.multiprocessors);
    return {};
  }

  /// Equal images are there once.
  uint32_t add_image(const CodeImage &image) {
    Digest digest = pack_digest(image.bytes);
    auto [found, inserted] =
        image_numbers_.try_emplace({image.name, image.cubin, digest}, contents_.images.size());
    if (inserted)
      contents_.images.push_back({image.name, image.cubin, image.bytes});
    return static_cast<uint32_t>(found->second);
  }

  Device &device_;
  const PackOptions &options_;
  PackContents contents_;
  std::map<std::pair<int64_t, int64_t>, Planned> planned_;
  std::deque<std::string> plans_; // those that differ
  PackNotes notes_;
  std::map<std::tuple<std::string, bool, Digest>, size_t> image_numbers_;
  std::vector<std::shared_ptr<const Executable>> executables_;
  SharedBytes weights_;          // a file's
  SafetensorsFile weights_file_; // of those that were given
  std::string file_name_;
  size_t done_ = 0, total_ = 0, cached_ = 0; // compilations, of all targets
};

} // namespace

Status build_pack(Device &device, const ir::Module &module, const std::string &name,
                  const std::string &base_folder, const PackOptions &options,
                  const std::string &path) {
  return PackBuilder(device, options).build(module, name, base_folder, path);
}

} // namespace cugrt::runtime
