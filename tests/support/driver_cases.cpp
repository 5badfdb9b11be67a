// The driver layer over a driver that executes: kernels that NVRTC compiled, launched and in
// graphs. One set of cases for every driver; the executable names the driver (driver_under_test.h).
#include "support/driver_under_test.h"
#include "support/must.h"

#include "device/driver/driver_error.h"
#include "device/driver/graph.h"
#include "device/driver/memory.h"
#include "jit/compiler.h"

#include <numeric>

using namespace cugrt;
using namespace cugrt::driver;
using cugrt::test::contains;
using cugrt::test::must;
using cugrt::test::refused;

namespace {

constexpr const char *kSource = R"(
extern "C" __global__ void axpy(float *y, const float *x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] += a * x[i];
}
__device__ int table[4] = {2, 3, 5, 7};
)";

/// PTX for the emulated driver, a cubin for a device, as the runtime does.
std::string compiled(const Context &context) {
  jit::CompilerConfig config;
  config.cache.disk = false;
  jit::CompileRequest request;
  request.name = "axpy";
  request.source = kSource;
  request.kind = driver_under_test().emulated ? jit::OutputKind::ptx : jit::OutputKind::cubin;
  request.architecture = context.architecture();
  return must(jit::Compiler(config).compile(request)).bytes;
}

} // namespace

TEST_CASE("compiled parameters are what the source declares") {
  Context context = must(Context::retain_primary(driver_under_test().api, 0));
  ContextGuard current = must(context.enter());
  KernelModule module = must(KernelModule::load(context, compiled(context), "axpy.cu"));
  Kernel kernel = must(module.kernel("axpy"));
  CHECK(must(module.global("table")).size_bytes == 16);
  CHECK(module.kernel("missing").status().code() == Code::not_found);
  if (!driver_under_test().capabilities().kernel_param_info)
    return;
  REQUIRE(kernel.params());
  CHECK(*kernel.params() == std::vector<KernelParam>{{0, 8}, {8, 8}, {16, 4}, {20, 4}});
  const size_t wrong[] = {8, 8, 8, 4};
  CHECK_FALSE(kernel.check_params(wrong).ok());
}

TEST_CASE("broken code is refused by name") {
  Context context = must(Context::retain_primary(driver_under_test().api, 0));
  ContextGuard current = must(context.enter());
  const Status broken =
      refused(KernelModule::load(context, ".version 7.0\n.target sm_75\nnonsense", "broken"));
  CHECK(contains(broken.message(), "broken"));
}

TEST_CASE("a graph of every node kind runs and is patched") {
  Context context = must(Context::retain_primary(driver_under_test().api, 0));
  ContextGuard current = must(context.enter());
  KernelModule module = must(KernelModule::load(context, compiled(context), "axpy.cu"));
  Kernel kernel = must(module.kernel("axpy"));
  Stream stream = must(Stream::create(context));
  constexpr int kCount = 1000;
  DeviceBuffer x = must(DeviceBuffer::allocate(context, kCount * 4));
  DeviceBuffer y = must(DeviceBuffer::allocate(context, kCount * 4));
  PinnedBuffer host = must(PinnedBuffer::allocate(context, kCount * 4));
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), 0.0f);
  REQUIRE(copy_to_device(context, x.address(), values.data(), kCount * 4).ok());

  uint64_t y_address = y.address(), x_address = x.address();
  float a = 2;
  int n = kCount;
  void *arguments[] = {&y_address, &x_address, &a, &n};
  LaunchParams params{kernel.get(), {8, 1, 1}, {128, 1, 1}, 0, arguments, {}};
  Graph graph = must(Graph::create(context));
  GraphNode fill = must(graph.ref().add_memset({y.address(), kCount, 0x3f800000, 4}, {}, "ones"));
  GraphNode run = must(graph.ref().add_kernel(params, std::vector{fill}, "axpy"));
  GraphNode join = must(graph.ref().add_empty(std::vector{run}, "join"));
  CopyParams copy{reinterpret_cast<uint64_t>(host.data()), y.address(), kCount * 4,
                  MemoryKind::host, MemoryKind::device};
  (void)must(graph.ref().add_memcpy(copy, std::vector{join}, "copy"));
  GraphExec exec = must(GraphExec::instantiate(graph.ref(), "main"));
  REQUIRE(exec.upload(stream.ref()).ok());

  auto run_and_check = [&](auto expected) {
    REQUIRE(exec.launch(stream.ref(), "main").ok());
    REQUIRE(stream.ref().synchronize().ok());
    int wrong = 0;
    for (int i = 0; i < kCount; ++i)
      wrong += static_cast<const float *>(host.data())[i] != expected(i);
    CHECK(wrong == 0);
  };
  run_and_check([](int i) { return 1.0f + 2.0f * static_cast<float>(i); });

  a = 3;
  n = 10;
  REQUIRE(exec.set_kernel(run, params, "axpy").ok());
  run_and_check([](int i) { return i < 10 ? 1.0f + 3.0f * static_cast<float>(i) : 1.0f; });

  REQUIRE(exec.set_enabled(run, false, "axpy").ok());
  run_and_check([](int) { return 1.0f; });

  REQUIRE(launch(stream.ref(), params, "axpy").ok());
  REQUIRE(copy_async(stream.ref(), copy.destination, copy.source, copy.size_bytes).ok());
  REQUIRE(stream.ref().synchronize().ok());
  CHECK(static_cast<const float *>(host.data())[9] == 28.0f);
  CHECK(static_cast<const float *>(host.data())[10] == 1.0f);
}

TEST_CASE("what the driver refuses names the node") {
  Context context = must(Context::retain_primary(driver_under_test().api, 0));
  ContextGuard current = must(context.enter());
  KernelModule module = must(KernelModule::load(context, compiled(context), "axpy.cu"));
  Kernel kernel = must(module.kernel("axpy"));
  uint64_t address = 0;
  float a = 0;
  int n = 0;
  void *arguments[] = {&address, &address, &a, &n};
  LaunchParams params{kernel.get(), {1, 1, 1}, {128, 1, 1}, 0, arguments, {}};
  Graph graph = must(Graph::create(context));
  GraphNode first = must(graph.ref().add_kernel(params, {}, "first"));
  // Dependencies may not come twice.
  const Status node =
      refused(graph.ref().add_kernel(params, std::vector{first, first}, "binding 'lv0'"));
  CHECK(contains(node.message(), "cuGraphAddKernelNode (binding 'lv0')"));
  CHECK(node.cuda_error() == "CUDA_ERROR_INVALID_VALUE");
}

TEST_CASE("events order streams and tell time") {
  Context context = must(Context::retain_primary(driver_under_test().api, 0));
  ContextGuard current = must(context.enter());
  Stream first = must(Stream::create(context)), second = must(Stream::create(context));
  Event start = must(Event::create(context, Event::Timing::on));
  Event end = must(Event::create(context, Event::Timing::on));
  REQUIRE(start.record(first.ref()).ok());
  REQUIRE(second.ref().wait(start.get()).ok());
  REQUIRE(end.record(second.ref()).ok());
  REQUIRE(end.synchronize().ok());
  CHECK(must(end.query()));
  CHECK(must(end.milliseconds_since(start)) >= 0);
  CHECK_FALSE(must(first.ref().is_capturing()));
}

TEST_CASE("a virtual range holds what is written to it") {
  Context context = must(Context::retain_primary(driver_under_test().api, 0));
  ContextGuard current = must(context.enter());
  if (!must(VirtualRange::available(context))) {
    WARN("the device has no virtual memory management");
    return;
  }
  VirtualRange range = must(VirtualRange::reserve(context, 64 << 20));
  REQUIRE(range.commit(1).ok());
  uint64_t unit = range.granularity_bytes();
  uint32_t word = 0x12345678, back = 0;
  REQUIRE(copy_to_device(context, range.address() + unit - 4, &word, 4).ok());
  REQUIRE(range.commit(2 * unit).ok());
  REQUIRE(copy_to_host(context, &back, range.address() + unit - 4, 4).ok());
  CHECK(back == word);
}
