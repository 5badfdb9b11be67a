// A device's memory and a loaded program, for tests of the emulator's execution.
#pragma once

#include "emulator/decode/program.h"
#include "support/must.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace cugrt::test {

class Emulated {
public:
  explicit Emulated(std::string_view profile = "sm_90")
      : profile_(*emulator::find_profile(profile)),
        memory_(std::move(emulator::AddressSpace::create(256u << 20)).value()) {}

  emulator::AddressSpace &memory() { return *memory_; }

  /// Loads PTX; the test fails with the message when that is refused.
  void load(std::string_view ptx, const emulator::LoadOptions &options = {}) {
    auto program = emulator::Program::load(ptx, profile_, *memory_, options);
    if (!program.ok())
      FAIL(program.status().to_string());
    program_ = std::move(program).value();
  }

  template <class T> uint64_t upload(const std::vector<T> &values) {
    uint64_t address = allocate(values.size() * sizeof(T));
    std::memcpy(memory_->host(address), values.data(), values.size() * sizeof(T));
    return address;
  }
  uint64_t allocate(size_t bytes) { return std::move(memory_->allocate(bytes)).value(); }
  template <class T> std::vector<T> download(uint64_t address, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), memory_->host(address), count * sizeof(T));
    return values;
  }

  using Dim = std::array<uint32_t, 3>;

  /// Launches with arguments of the kernel's own types and sizes; the fault, if there was one.
  template <class... Args>
  std::optional<emulator::Fault> try_launch(std::string_view name, Dim grid, Dim block,
                                            uint32_t dynamic_shared, const Args &...args) {
    const emulator::KernelInfo *kernel = program_->find_kernel(name);
    if (!kernel)
      FAIL("no kernel " << name);
    std::vector<std::byte> params(kernel->param_bytes);
    size_t index = 0;
    auto pack = [&](const auto &value) {
      REQUIRE(index < kernel->params.size());
      REQUIRE(kernel->params[index].bytes == sizeof value);
      std::memcpy(params.data() + kernel->params[index].offset, &value, sizeof value);
      ++index;
    };
    (pack(args), ...);
    REQUIRE(index == kernel->params.size());
    emulator::LaunchConfig config;
    config.grid = grid;
    config.block = block;
    config.dynamic_shared_bytes = dynamic_shared;
    config.params = params;
    config.accesses = accesses;
    return program_->launch(*kernel, config);
  }
  template <class... Args>
  void launch(std::string_view name, Dim grid, Dim block, uint32_t dynamic_shared,
              const Args &...args) {
    auto fault = try_launch(name, grid, block, dynamic_shared, args...);
    if (fault)
      FAIL(fault->message);
  }

  emulator::Program &program() { return *program_; }
  emulator::LaunchAccesses *accesses = nullptr; // get what launches touch

private:
  const emulator::DeviceProfile &profile_;
  std::unique_ptr<emulator::AddressSpace> memory_;
  std::unique_ptr<emulator::Program> program_;
};

/// Deterministic numbers for inputs.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t bits() { // splitmix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  float uniform(float low, float high) {
    return low + (high - low) * float(bits() >> 40) / float(1 << 24);
  }
  std::vector<float> floats(size_t count, float low = -1, float high = 1) {
    std::vector<float> values(count);
    for (float &value : values)
      value = uniform(low, high);
    return values;
  }

private:
  uint64_t state_;
};

} // namespace cugrt::test
