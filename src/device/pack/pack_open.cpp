// Choice of a target, and executables from packs; see pack_open.h.
#include "device/pack/pack_open.h"

#include "base/architectures.h"
#include "base/check.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace cugrt::runtime {

static bool has_cubin(const Pack &pack, const PackTarget &target) {
  std::set<uint32_t> images = images_of(target);
  return std::any_of(images.begin(), images.end(),
                     [&](uint32_t image) { return pack.contents.images[image].cubin; });
}

static jit::Architecture architecture_of(const PackTarget &target) {
  auto architecture = jit::parse_architecture(target.architecture);
  CUGRT_CHECK(architecture.ok()); // the pack was checked
  return *architecture;
}

static std::string targets_text(const Pack &pack) {
  std::string text;
  for (const PackTarget &target : pack.contents.targets)
    text += (text.empty() ? "" : ", ") + std::string(target.architecture);
  return text;
}

std::set<uint32_t> images_of(const PackTarget &target) {
  std::set<uint32_t> images(target.kernel_images.begin(), target.kernel_images.end());
  for (uint32_t own : {target.transfer_image, target.control_image})
    if (own != kNone)
      images.insert(own);
  return images;
}

Result<uint32_t> choose_target(const Pack &pack, int device, bool only_ptx) {
  constexpr int kExact = INT32_MAX; // machine code comes before any PTX
  uint32_t best = kNone;
  std::pair<int, char> best_rank; // newer, then with more features
  for (uint32_t i = 0; i < pack.contents.targets.size(); ++i) {
    const PackTarget &target = pack.contents.targets[i];
    jit::Architecture architecture = architecture_of(target);
    if (only_ptx ? has_cubin(pack, target) : !jit::runs_on(architecture, device))
      continue;
    if (!jit::runs_on({false, architecture.number, architecture.suffix}, device))
      continue;
    // 'a' has more than 'f'.
    char features = architecture.suffix == 'a' ? 2 : architecture.suffix == 'f' ? 1 : 0;
    std::pair rank{architecture.real ? kExact : architecture.number, features};
    if (best == kNone || rank > best_rank) {
      best = i;
      best_rank = rank;
    }
  }
  if (best != kNone)
    return best;
  std::string architecture = std::to_string(device);
  return Status::error(
      Code::unsupported,
      "pack " + pack.name + " has code for " + targets_text(pack) + ", of which nothing runs on " +
          (only_ptx ? "the emulated driver's sm_" + architecture +
                          "; make the pack again with --arch compute_" + architecture
                    : "this device, sm_" + architecture + "; make the pack again with --arch sm_" +
                          architecture));
}

Result<std::shared_ptr<const Executable>> make_executable(const Pack &pack, uint32_t index) {
  const PackTarget &target = pack.contents.targets[index];
  ExecutableParts parts;
  // Moved, because assigning a copy takes twice the code.
  parts.plan = plan::Plan(pack.plans[target.plan]);
  parts.module_name = pack.contents.module_name;
  parts.architecture = target.architecture;
  std::map<uint32_t, uint32_t> numbers; // of the pack's images among the executable's
  auto take = [&](uint32_t image) {
    auto [found, inserted] = numbers.try_emplace(image, parts.images.size());
    if (inserted) {
      const PackImage &row = pack.contents.images[image];
      parts.images.push_back({std::string(row.name), std::string(row.bytes), row.cubin});
    }
    return found->second;
  };
  for (uint32_t image : target.kernel_images)
    parts.kernel_images.push_back(take(image));
  if (target.transfer_image != kNone)
    parts.transfer_image = take(target.transfer_image);
  if (target.control_image != kNone)
    parts.control_image = take(target.control_image);
  auto flags = target.variant_flags.begin(); // as many as there are variants: the pack was checked
  for (const plan::Kernel &kernel : parts.plan.kernels) {
    parts.programmatic.emplace_back();
    for (size_t v = 0; v < kernel.entries.size(); ++v, ++flags)
      parts.programmatic.back().push_back(
          {(*flags & kPackWaitsFirst) != 0, (*flags & kPackTriggers) != 0});
  }
  auto executable = Executable::assemble(std::move(parts));
  return executable.ok() ? std::move(executable)
                         : Result<std::shared_ptr<const Executable>>(
                               executable.take_status().in("pack " + pack.name));
}

Result<std::shared_ptr<const Executable>> open_pack(const Device &device, const Pack &pack) {
  CUGRT_TRY(device.require_driver());
  CUGRT_ASSIGN(uint32_t target,
               choose_target(pack, device.context().capability(), device.emulated()));
  return make_executable(pack, target);
}

Result<std::optional<WeightSet>> pack_weights(const Pack &pack, const std::string &folder) {
  const PackWeights &weights = pack.contents.weights;
  if (weights.kind == PackWeights::Kind::none)
    return std::optional<WeightSet>();
  if (weights.kind == PackWeights::Kind::inside)
    return std::optional(pack.weights);
  std::string path = (std::filesystem::path(folder) / std::string(weights.file_name)).string();
  auto file = MappedFile::open(path);
  if (!file.ok())
    return file.take_status().in("weights of pack " + pack.name);
  const std::string_view bytes = file->bytes();
  if (bytes.size() != weights.file_bytes || pack_digest(bytes) != weights.file_digest)
    return Status::error(Code::parse_error, "'" + path + "' is not the weights file that pack " +
                                                pack.name +
                                                " was made with: its size or digest differs");
  CUGRT_ASSIGN(WeightSet set, read_safetensors(std::move(*file), path));
  return std::optional(std::move(set));
}

} // namespace cugrt::runtime
