// Opening the device, compiling and memory; see device_bench.h.
#include "bench/device/device_bench.h"

#include "base/architectures.h"
#include "bench/device/device_sources.h"
#include "device/driver/driver_error.h"
#include "library/compile/compile.h"

namespace cugrt::bench {

Result<std::unique_ptr<DeviceBench>> DeviceBench::open(const std::string &emulator) {
  auto bench = std::make_unique<DeviceBench>();
  runtime::DeviceOptions options;
  CUGRT_ASSIGN(options.driver, runtime::driver_from_environment());
  const driver::DriverChoice ours{driver::DriverKind::path, emulator};
  if (options.driver->kind == driver::DriverKind::emulated)
    options.driver = ours;
  auto opened = runtime::Device::open(options);
  if (!opened.ok() && options.driver->kind == driver::DriverKind::system) {
    options.driver = ours;
    opened = runtime::Device::open(options);
  }
  CUGRT_ASSIGN(bench->device_, std::move(opened));
  const driver::Context &context = bench->context();
  char name[128] = {};
  CUGRT_DRIVER(context.api(), DeviceGetName, (name, sizeof name - 1, context.device()), "");
  bench->name_ = bench->emulated() ? "EMULATED" : name;
  CUGRT_ASSIGN(const int multiprocessors,
               context.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  bench->multiprocessors_ = uint32_t(multiprocessors);
  CUGRT_ASSIGN(bench->stream_, driver::Stream::create(context));
  return bench;
}

Status DeviceBench::require(int capability, const char *what) const {
  if (context().capability() >= capability)
    return {};
  return Status::error(Code::unsupported, context().architecture() + " has no " + what);
}

Result<driver::Kernel> DeviceBench::kernel(const std::string &source, const char *entry,
                                           const std::string &architecture) {
  const std::string key = architecture + source;
  if (auto found = modules_.find(key); found != modules_.end())
    return found->second.kernel(entry);
  jit::Compiler &compiler = runtime::compiler_of(*device_);
  jit::CompileRequest request;
  request.name = entry;
  request.source = source;
  request.architecture = architecture;
  if (architecture.empty()) {
    CUGRT_ASSIGN(const std::vector<int> known, compiler.architectures());
    CUGRT_ASSIGN(request.architecture, jit::architecture_for(context().capability(), known));
  }
  request.kind = emulated() || request.architecture.starts_with("compute_")
                     ? jit::OutputKind::ptx
                     : jit::OutputKind::cubin;
  CUGRT_ASSIGN(const jit::CompileResult code, compiler.compile(request));
  CUGRT_ASSIGN(driver::KernelModule module,
               driver::KernelModule::load(context(), code.bytes, entry));
  return modules_.emplace(key, std::move(module)).first->second.kernel(entry);
}

Status DeviceBench::launch(const driver::Kernel &kernel, uint32_t grid, uint32_t block,
                           void **arguments, std::span<const CUlaunchAttribute> attributes,
                           uint32_t dynamic_shared_bytes) const {
  driver::LaunchParams params;
  params.function = kernel.get();
  params.grid.x = grid;
  params.block.x = block;
  params.arguments = arguments;
  params.attributes = attributes;
  params.dynamic_shared_bytes = dynamic_shared_bytes;
  return driver::launch(stream(), params, kernel.name());
}

Result<SharedBuffer> DeviceBench::zeros(uint64_t bytes) {
  CUGRT_ASSIGN(auto buffer, driver::DeviceBuffer::allocate(context(), bytes));
  CUGRT_TRY(driver::fill_async(stream(), buffer.address(), 0, 1, bytes));
  return std::make_shared<driver::DeviceBuffer>(std::move(buffer));
}

Result<const driver::DeviceBuffer *> DeviceBench::words() {
  if (!words_) {
    CUGRT_ASSIGN(const driver::Kernel count, kernel(kCeilingSource, "count_up"));
    CUGRT_ASSIGN(words_, driver::DeviceBuffer::allocate(context(), word_count() * 4));
    Packed arguments(words_.address(), word_count());
    CUGRT_TRY(launch(count, size(4096u, 4u), 256, arguments.pointers.data()));
  }
  return &words_;
}

Result<std::vector<uint32_t>> DeviceBench::read(const driver::DeviceBuffer &buffer,
                                                size_t words) const {
  std::vector<uint32_t> read(words);
  CUGRT_TRY(driver::copy_to_host(context(), read.data(), buffer.address(), words * 4));
  return read;
}

CUlaunchAttribute cooperative_launch() {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  return attribute;
}

uint32_t sum_of_words(uint64_t first, uint64_t count) {
  const uint64_t a = count, b = 2 * first + count - 1; // one of them is even
  return uint32_t(a % 2 ? a * (b / 2) : a / 2 * b);
}

} // namespace cugrt::bench
