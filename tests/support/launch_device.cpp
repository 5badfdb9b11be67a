// The execution core by itself, and drivers.
#include "support/launch_device.h"

#include "base/check.h"
#include "device/driver/kernel_module.h"
#include "device/driver/memory.h"
#include "emulator/decode/program.h"
#include "support/named_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace cugrt::test {

namespace {

constexpr uint64_t kMemoryBytes = uint64_t(1) << 30;

class CoreDevice final : public LaunchDevice {
public:
  explicit CoreDevice(std::string_view profile)
      : profile_(*emulator::find_profile(profile)),
        memory_(std::move(emulator::AddressSpace::create(kMemoryBytes)).value()) {}

  std::string_view architecture() const override { return profile_.name; }
  Result<uint64_t> allocate(uint64_t bytes) override { return memory_->allocate(bytes); }
  void free(uint64_t address) override { memory_->free(address); }
  Status write(uint64_t address, std::string_view bytes) override {
    std::memcpy(memory_->host(address), bytes.data(), bytes.size());
    return {};
  }
  Result<std::string> read(uint64_t address, size_t bytes) override {
    return std::string(reinterpret_cast<const char *>(memory_->host(address)), bytes);
  }

  Result<size_t> load(const std::string &ptx, const std::string &) override {
    CUGRT_ASSIGN(std::unique_ptr<emulator::Program> program,
                 emulator::Program::load(ptx, profile_, *memory_));
    programs_.push_back(std::move(program));
    return programs_.size() - 1;
  }

  Result<uint64_t> launch(size_t code, const std::string &entry, Dim grid, Dim block,
                          uint32_t shared, bool, // blocks take turns whatever a launch is
                          std::span<const std::string> arguments) override {
    const emulator::KernelInfo *info = programs_[code]->find_kernel(entry);
    if (!info)
      return failed("the code has no entry " + entry);
    if (info->params.size() != arguments.size())
      return failed(std::to_string(arguments.size()) + " arguments for " +
                    std::to_string(info->params.size()) + " parameters");
    std::string buffer(info->param_bytes, '\0');
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].size() != info->params[i].bytes)
        return failed("parameter " + std::to_string(i) + " has another size");
      std::memcpy(buffer.data() + info->params[i].offset, arguments[i].data(), arguments[i].size());
    }
    emulator::LaunchConfig config;
    config.grid = grid;
    config.block = block;
    config.dynamic_shared_bytes = shared;
    config.params = std::as_bytes(std::span(buffer));
    emulator::ExecutionCounters counted;
    config.counters = &counted;
    if (std::optional<emulator::Fault> fault = programs_[code]->launch(*info, config))
      return failed(fault->message);
    return counted.lane_operations;
  }

private:
  emulator::DeviceProfile profile_;
  std::unique_ptr<emulator::AddressSpace> memory_;
  std::vector<std::unique_ptr<emulator::Program>> programs_;
};

class DriverDevice final : public LaunchDevice {
public:
  DriverDevice(const driver::DriverLibrary &library, std::string_view profile)
      : context_(must(driver::Context::retain_primary(library.api, 0))),
        stream_(must(driver::Stream::create(context_))) {
    const int wanted = std::atoi(std::string(profile.substr(3)).c_str());
    architecture_ =
        wanted <= context_.capability() ? std::string(profile) : context_.architecture();
  }

  std::string_view architecture() const override { return architecture_; }

  Result<uint64_t> allocate(uint64_t bytes) override {
    CUGRT_ASSIGN(driver::DeviceBuffer buffer, driver::DeviceBuffer::allocate(context_, bytes));
    const uint64_t address = buffer.address();
    CUGRT_TRY(write(address, std::string(bytes, '\xcb')));
    buffers_.emplace(address, std::move(buffer));
    return address;
  }
  void free(uint64_t address) override { buffers_.erase(address); }
  Status write(uint64_t address, std::string_view bytes) override {
    return driver::copy_to_device(context_, address, bytes.data(), bytes.size());
  }
  Result<std::string> read(uint64_t address, size_t size) override {
    std::string bytes(size, '\0');
    CUGRT_TRY(driver::copy_to_host(context_, bytes.data(), address, size));
    return bytes;
  }

  Result<size_t> load(const std::string &ptx, const std::string &name) override {
    CUGRT_ASSIGN(driver::KernelModule loaded, driver::KernelModule::load(context_, ptx, name));
    modules_.push_back(std::move(loaded));
    return modules_.size() - 1;
  }

  Result<uint64_t> launch(size_t code, const std::string &entry, Dim grid, Dim block,
                          uint32_t shared, bool cooperative,
                          std::span<const std::string> arguments) override {
    CUGRT_ASSIGN(const driver::Kernel kernel, modules_[code].kernel(entry));
    std::vector<size_t> sizes;
    std::vector<void *> values;
    for (const std::string &bytes : arguments) {
      sizes.push_back(bytes.size());
      values.push_back(const_cast<char *>(bytes.data()));
    }
    CUGRT_TRY(kernel.check_params(sizes));
    CUGRT_ASSIGN(const driver::ContextGuard current, context_.enter());
    CUGRT_TRY(kernel.allow_dynamic_shared(shared));
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    CUGRT_TRY(driver::launch(stream_.ref(),
                             {kernel.get(),
                              {grid[0], grid[1], grid[2]},
                              {block[0], block[1], block[2]},
                              shared,
                              values.data(),
                              std::span(&attribute, size_t(cooperative))},
                             entry));
    CUGRT_TRY(stream_.ref().synchronize());
    return uint64_t(0);
  }

private:
  template <class T> static T must(Result<T> result) {
    if (!result.ok())
      std::fprintf(stderr, "%s\n", result.status().to_string().c_str());
    CUGRT_CHECK(result.ok());
    return std::move(result).value();
  }

  driver::Context context_;
  driver::Stream stream_;
  std::string architecture_;
  std::map<uint64_t, driver::DeviceBuffer> buffers_;
  std::vector<driver::KernelModule> modules_;
};

/// Null: no driver is named. Opened once.
const driver::DriverLibrary *named_driver() {
  static const std::unique_ptr<driver::DriverLibrary> library = [] {
    const char *name = std::getenv("CUGRT_TEST_DRIVER");
    return name && *name ? open_named_driver(name) : nullptr;
  }();
  return library.get();
}

} // namespace

std::unique_ptr<LaunchDevice> open_launch_device(std::string_view profile) {
  if (const driver::DriverLibrary *library = named_driver())
    return std::make_unique<DriverDevice>(*library, profile);
  return std::make_unique<CoreDevice>(profile);
}

} // namespace cugrt::test
