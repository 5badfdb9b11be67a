// What bench device measures with: a device, kernels compiled for it, memory, and graphs of them.
//
//   DeviceBench  a driver's first device with a stream, and what cases share
//   DeviceWork   what a case enqueues, as often as it is asked, and whether its result was right
//   DeviceCase   a row of the bench: how its work is made
#pragma once

#include "device/context/device.h"
#include "device/driver/graph.h"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cugrt::bench {

/// A kernel's arguments: addresses and whole numbers, each in the first bytes of a word. Not copied
/// or moved: the pointers are into it.
template <size_t N> struct Packed {
  std::array<uint64_t, N> values;
  std::array<void *, N> pointers;
  template <class... T> explicit Packed(T... given) : values{uint64_t(given)...} {
    for (size_t i = 0; i < N; ++i)
      pointers[i] = &values[i];
  }
  Packed(const Packed &) = delete;
};
template <class... T> Packed(T...) -> Packed<sizeof...(T)>;

/// One case, ready to run. What its functions need is in their captures. Context current.
struct DeviceWork {
  std::function<Status()> enqueue; // one run, on the bench's stream
  /// What is wrong with the result of the first run; empty where nothing is.
  std::function<Result<std::string>()> check;
  double count = 1;      // nodes, exchanges, reads: what us_each is of
  double bytes = 0;      // that a run reads; 0: not a measure of it
  double operations = 0; // multiplications and additions; 0: likewise
};

/// Of a block, as the kernels have it.
inline constexpr uint32_t kThreads = 256;

/// All blocks of the launch are resident at once.
CUlaunchAttribute cooperative_launch();

using SharedBuffer = std::shared_ptr<driver::DeviceBuffer>;

class DeviceBench {
public:
  /// The driver that CUGRT_DRIVER names. The emulated one is that in the file `emulator`, which is
  /// opened also where no driver is named and there is no GPU.
  static Result<std::unique_ptr<DeviceBench>> open(const std::string &emulator);

  bool emulated() const { return device_->emulated(); }
  /// The device's name, or EMULATED.
  const std::string &name() const { return name_; }
  const driver::Context &context() const { return device_->context(); }
  driver::StreamRef stream() const { return stream_.ref(); }
  /// What a case takes on a GPU, or on the emulated driver, where it is to be quick.
  template <class T> T size(T large, T small) const { return emulated() ? small : large; }
  /// One block for each multiprocessor.
  uint32_t blocks() const { return size(multiprocessors_, 4u); }
  /// unsupported, with what is missing, on devices that are older.
  Status require(int capability, const char *what) const;

  /// A kernel of one of device_sources.h, compiled for the device, or for `architecture`.
  Result<driver::Kernel> kernel(const std::string &source, const char *entry,
                                const std::string &architecture = {});
  /// Enqueues one launch.
  Status launch(const driver::Kernel &kernel, uint32_t grid, uint32_t block, void **arguments,
                std::span<const CUlaunchAttribute> attributes = {},
                uint32_t dynamic_shared_bytes = 0) const;

  Result<SharedBuffer> zeros(uint64_t bytes);
  /// So many that no cache holds them, the i-th being i; all cases share them.
  Result<const driver::DeviceBuffer *> words();
  uint64_t word_count() const { return size(uint64_t(1) << 28, uint64_t(1) << 20); }
  /// The first words of a buffer, when the stream is idle.
  Result<std::vector<uint32_t>> read(const driver::DeviceBuffer &buffer, size_t words) const;

private:
  std::shared_ptr<runtime::Device> device_;
  std::string name_;
  uint32_t multiprocessors_ = 0;
  driver::Stream stream_;
  std::map<std::string, driver::KernelModule> modules_; // by architecture and source
  driver::DeviceBuffer words_;
};

/// The sum of the words `first` to `first + count`, as the kernels add.
uint32_t sum_of_words(uint64_t first, uint64_t count);

struct DeviceCase {
  int stage; // of ./dev gpu FOLDER stages
  const char *name;
  Result<DeviceWork> (*prepare)(DeviceBench &bench);
};
std::span<const DeviceCase> ceiling_cases();
std::span<const DeviceCase> chain_cases();
std::span<const DeviceCase> stream_cases();
std::span<const DeviceCase> exchange_cases();

} // namespace cugrt::bench
