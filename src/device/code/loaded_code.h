// Loaded executable: code and constants in one device's context, and the weights that sessions of
// the same weights share. Loaded once, by the first session; reference-counted.
#pragma once

#include "device/code/computed_weights.h"
#include "device/code/executable.h"
#include "device/code/group_weights.h"
#include "device/code/weight_memory.h"
#include "device/code/weights.h"
#include "device/code/weights_in_place.h"
#include "device/driver/kernel_module.h"
#include "device/driver/memory.h"
#include "device/program/slot_check.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>

namespace cugrt::runtime {

/// Tensors in one allocation of weights or constants begin at multiples of it.
inline constexpr int64_t kUploadAlignment = 256;

/// Places of tensors in one allocation.
struct WeightLayout {
  std::map<std::string, uint64_t> offsets; // by name
  uint64_t total_bytes = 0;

  /// Offset at which the next tensor will begin.
  uint64_t next() const {
    return (total_bytes + kUploadAlignment - 1) / kUploadAlignment * kUploadAlignment;
  }
  Status add(const std::string &name, uint64_t size_bytes);
};

/// The weights of an executable's functions on the device. Immutable, but weights of a group may
/// leave the device while no session of theirs runs.
class LoadedWeights {
public:
  /// Checks that `set` has every weight parameter of every public function, with its dtype and
  /// rank, and uploads those that runs read into one allocation. A device whose memory is the
  /// host's reads registered pages in place instead. In a group weights may leave the device; the
  /// host keeps their sources. Tensors, given or computed, that another model of the group also has
  /// are bound to that model's memory.
  static Result<std::shared_ptr<LoadedWeights>> load(const Executable &executable,
                                                     const Device &device, const WeightSet &set,
                                                     const std::shared_ptr<GroupWeights> &group);
  ~LoadedWeights();

  /// Allocates computed weights. For each function that computes some, uploads the weights that
  /// only it reads, and calls `compute` with tensors of its results (address 0: not wanted), which
  /// returns when they are there. The uploads lie where later results will be, or in memory that is
  /// freed in the end, so these functions cannot run again. A second call computes weights, which
  /// left a device whose memory is the host's, at their old addresses.
  using Compute = std::function<Status(uint32_t function, std::span<const cugrt_tensor> results)>;
  Status compute(const Executable &executable, const Device &device, const Compute &compute);

  /// The tensors of a function's parameters; those that are not weights have kind NONE.
  const std::vector<cugrt_value> &params(size_t function) const { return params_[function]; }
  /// Calls `finish`, which computes weights by a session's means, and keeps it for later.
  using Finish = std::function<Status(const Device &memory, LoadedWeights &weights)>;
  Status finish(const Device &memory, const Finish &finish);

  /// Bytes on the device, without those in other models' weights.
  uint64_t size_bytes() const {
    uint64_t bytes = 0;
    for (const WeightMemory *memory : {&memory_, &sources_, &computed_})
      bytes += memory->resident_bytes();
    for (const WeightsInPlace::Pages &pages : in_place_.pages())
      bytes += pages.copy.resident_bytes();
    return bytes;
  }
  /// Bytes of weights that are read in the host's pages; size_bytes() does not count them.
  uint64_t size_bytes_in_place() const { return has_own() ? in_place_.size_bytes() : 0; }
  template <class Visit> void each_own(Visit &&visit) const {
    for (const WeightMemory *memory : {&memory_, &computed_})
      visit(memory->address(), memory->size_bytes());
    for (const WeightsInPlace::Pages &pages : in_place_.pages())
      visit(pages.address, pages.bytes);
  }
  /// Calls visit(address, bytes) for memory that no run may write; some ranges are empty.
  template <class Visit> void each_memory(Visit &&visit) const {
    for (const WeightMemory *memory : {&memory_, &sources_, &computed_})
      if (memory != &computed_ || !making_)
        visit(memory->address(), memory->size_bytes());
    for (const std::shared_ptr<LoadedWeights> &base : bases_)
      base->each_own(visit);
    for (const WeightsInPlace::Pages &pages : in_place_.pages())
      visit(pages.address, pages.bytes);
  }

  /// Weights of other models that have some of these tensors. They live as long as these.
  std::span<const std::shared_ptr<LoadedWeights>> bases() const { return bases_; }
  /// Whether runs read the device memory of `other`: it is these weights or a base of theirs.
  bool reads(const LoadedWeights *other) const {
    return this == other || std::ranges::find(bases_, other, [](const auto &base) {
                              return base.get();
                            }) != bases_.end();
  }
  /// The session that loaded these has joined the group: bases may leave from now on.
  void opened();

  /// Whether all that runs read is on the device.
  bool is_resident() const {
    return has_own() &&
           std::ranges::all_of(bases_, [](const auto &base) { return base->has_own(); });
  }
  /// Whether these weights' own memory, without bases, is on the device.
  bool has_own() const { return resident_.load(std::memory_order_acquire); }
  /// Frees their own device memory. No session that reads them runs. A device with memory of
  /// its own copies their bytes to pinned host memory, if there is any; where memory is one,
  /// only the sources stay. After an error they are away or unchanged; a run finds them in any
  /// case.
  Status leave(const Device &device);
  /// Brings them and their bases back. Any thread that runs a session of theirs; the first one does
  /// it. After an error they are away.
  Status come_back(const Device &device);
  /// Whether functions compute some of them.
  bool computes() const { return computed_.size_bytes() != 0; }
  /// See LoadedCode::replace(). One owner has them, and no run reads them.
  Status replace(const Executable &executable, const Device &device, const WeightSet &set,
                 const LoadedWeights *computed);
  /// Counts how often params() changed because they came back to other addresses. Hold the mutex to
  /// read params() while others may run.
  uint64_t moves() const {
    uint64_t moves = moves_.load(std::memory_order_acquire);
    for (const std::shared_ptr<LoadedWeights> &base : bases_)
      moves += base->moves_.load(std::memory_order_acquire);
    return moves;
  }
  /// Binds params() to the new addresses of bases that moved. The mutex is held.
  void follow_bases();
  std::mutex &mutex() const { return mutex_; }

private:
  Status fill(const Device &device);
  Status keep_bytes(const Device &device);
  /// Claims bytes in the budget: `uploaded`, and `moment` more for a moment.
  void claim(uint64_t uploaded, uint64_t moment) const;
  Status check_fits(const Executable &executable, const WeightSet &set) const;
  Status bring_own(const Device &device);
  /// A computed weight; it lies in computed_, or in a base's.
  struct Computed {
    uint64_t bytes = 0, offset = 0;
    uint64_t in_base = 0; // its address there; 0: of its own
    std::optional<WeightRecipe> recipe{};
  };
  uint64_t address_of(const Computed &weight) const {
    return weight.in_base != 0 ? weight.in_base : computed_.address() + weight.offset;
  }
  Status list_computed(const Executable &executable, bool recipes);
  Status share(const Device &device, const std::map<std::string, uint64_t> &wanted,
               std::span<const std::shared_ptr<LoadedWeights>> others,
               std::map<std::string, uint64_t> &addresses);
  std::optional<uint64_t> find_equal(const HostTensor &tensor) const;
  std::optional<uint64_t> find_equal(const WeightSet &set, const Computed &wanted) const;
  struct Range {
    uint64_t address = 0, bytes = 0;
  };
  std::vector<Range> ranges() const;
  /// Moves params_ from the ranges `before` to `now`. True: an address changed.
  bool bind_params(std::vector<Range> &before, const std::vector<Range> &now);
  std::map<std::string, uint64_t> sources_of(const plan::Plan &plan, uint32_t function) const;
  /// A function that computes weights, and its binding.
  struct Making {
    struct Bound {
      size_t function, param;
      uint32_t result;
      cugrt_tensor tensor; // without an address
    };
    uint32_t function;
    std::vector<Bound> bound{};
    WeightLayout sources{};
    uint64_t behind = 0;               // where results of later ones begin
    std::vector<cugrt_value> params{}; // of the function, but for the addresses of `sources`
  };
  Status list_makings(const Executable &executable);
  Status make(const Executable &executable, const Device &device, const Compute &compute,
              WeightMemory &computed);
  /// Bytes that computed weights and, behind those that are there, sources take at most.
  uint64_t most_while_made() const;

  WeightsInPlace in_place_;
  WeightMemory memory_, computed_;
  WeightMemory sources_; // of computed weights, beside these; empty once they are computed
  std::vector<std::vector<cugrt_value>> params_;
  std::vector<std::shared_ptr<LoadedWeights>> bases_;
  std::vector<std::vector<Range>> base_ranges_; // of each, as params_ have them
  bool holds_bases_ = false;                    // so that these do not leave
  std::atomic<uint32_t> holders_ = 0;           // who holds these
  std::shared_ptr<MemoryBudget> budget_;        // null: they stay
  WeightSet set_;                           // until all is computed, and of those that may leave
  std::map<std::string, uint64_t> offsets_; // of set_'s tensors in memory_
  std::map<std::string, Computed> made_;    // by name
  WeightLayout computed_layout_;            // of computed_
  bool making_ = false;                     // runs write computed_ again
  /// Kept until all weights are computed, or to compute them again. Functions that read no computed
  /// weight come first, those with the largest sources first: sources lie where later results will
  /// be, and some behind all: memory that is lengthened meanwhile, or apart where it cannot be.
  std::multimap<std::pair<bool, uint64_t>, Making> makings_;
  Finish again_;                     // which does; null: the host keeps what was computed
  driver::PinnedBuffer pinned_;      // the bytes of memory_ and computed_, once they left
  std::vector<char> computed_bytes_; // while they are away, in the place of pinned_
  std::vector<Range> bound_;         // while they are away, where params_ have them
  std::atomic<bool> resident_ = true;
  std::atomic<uint64_t> moves_ = 0;
  mutable std::mutex mutex_; // held by leave() and come_back()
};

class LoadedCode {
public:
  static Result<std::shared_ptr<LoadedCode>> load(std::shared_ptr<const Executable> executable,
                                                  std::shared_ptr<Device> device);
  LoadedCode(const LoadedCode &) = delete;

  const Executable &executable() const { return *executable_; }
  const std::shared_ptr<const Executable> &executable_owner() const { return executable_; }
  Device &device() const { return *device_; }
  /// Limits of the variant's launches: the device's, less its kernel's static shared memory.
  const DeviceLimits &limits(const StepVariant &variant) const;
  /// The kernel of the variant; an empty step gets the kernel that does nothing.
  CUfunction function(const StepVariant &variant) const;
  /// The context that a launch's node names if code runs on some multiprocessors only; else null.
  CUcontext green() const {
    return device_->context().is_green() ? device_->context().get() : nullptr;
  }
  /// The kernel that does nothing; only code with conditions has it.
  CUfunction nothing() const { return nothing_kernel_.get(); }
  /// Cluster shape and cooperative launch, if the kernel asks for them.
  std::span<const CUlaunchAttribute> attributes(const StepVariant &variant) const;
  /// How many blocks of a cooperative launch the device holds at once, with the most threads and
  /// dynamic shared memory that its symbols allow. None for other launches.
  std::optional<uint64_t> places(const StepVariant &variant) const;
  /// Whether `to` may begin before its predecessor `from` has ended. Both must be kernels whose
  /// code is written for it, neither a cooperative launch, and device and driver must know such
  /// edges.
  bool begins_early(const StepVariant &from, const StepVariant &to) const;
  uint64_t constant_address(uint32_t constant) const { return constant_addresses_[constant]; }
  const driver::DeviceBuffer &constants() const { return constants_; }

  /// The first session that uses the set uploads the weights, and `finish` computes them; later
  /// ones share them.
  /// `memory`: the device that they lie on, the group's if there is one.
  /// `group`: its sessions share them; null: sessions without a group do.
  Result<std::shared_ptr<LoadedWeights>> weights(const WeightSet &set, const Device &memory,
                                                 const std::shared_ptr<GroupWeights> &group,
                                                 const LoadedWeights::Finish &finish);

  /// Writes the set over weights that one session has alone and whose work has ended. Takes
  /// computed weights from `computed`, which were loaded from the same set. An error keeps the old
  /// ones.
  Status replace(const std::shared_ptr<LoadedWeights> &weights, const WeightSet &set,
                 const Device &memory, const std::shared_ptr<GroupWeights> &group,
                 const LoadedWeights *computed);

private:
  struct LoadedKernel {
    driver::Kernel kernel;
    std::vector<CUlaunchAttribute> attributes;
    DeviceLimits limits;
    std::optional<uint64_t> places; // of a cooperative launch
  };

  LoadedCode() = default;
  Status load_images();
  Status load_kernels();
  Status set_up_launches();
  Status count_places(const StepVariant &variant, const ir::SymbolDomain &domain,
                      LoadedKernel &loaded) const;
  Status upload_constants();

  std::shared_ptr<const Executable> executable_;
  std::shared_ptr<Device> device_; // outlives the modules
  std::vector<driver::KernelModule> modules_;
  std::vector<std::vector<LoadedKernel>> kernels_; // by kernel and variant
  driver::Kernel copy_kernel_, fill_kernel_, set_kernel_, nothing_kernel_;
  driver::DeviceBuffer constants_;
  std::vector<uint64_t> constant_addresses_;

  std::mutex mutex_; // guards weights_
  /// Keyed by the set's identity and the group.
  std::map<std::pair<uint64_t, const MemoryBudget *>, std::weak_ptr<LoadedWeights>> weights_;
};

} // namespace cugrt::runtime
