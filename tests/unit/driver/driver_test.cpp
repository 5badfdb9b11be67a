// driver: the function table, errors, ownership, and what reaches the driver when graphs are built.
#include "support/must.h"

#include "device/driver/driver_error.h"
#include "device/driver/graph.h"
#include "device/driver/memory.h"
#include "device/driver/report.h"
#include "support/fake_driver.h"
#include "support/temporary_folder.h"

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <sys/stat.h>
#include <thread>

using namespace cugrt;
using namespace cugrt::driver;
using cugrt::test::contains;
using cugrt::test::FakeDriver;
using cugrt::test::FakeLive;
using cugrt::test::must;
using cugrt::test::refused;

namespace {

/// A fake driver with a context on device 0.
struct Machine {
  FakeDriver fake;
  std::unique_ptr<DriverLibrary> library;
  Context context;

  explicit Machine(FakeDriver::Options options = {}) : fake(options) {
    auto opened = make_driver(fake.api());
    REQUIRE(opened.ok());
    library = std::move(opened).value();
    auto retained = Context::retain_primary(library->api, 0);
    REQUIRE(retained.ok());
    context = std::move(retained).value();
  }
  const DriverApi &api() const { return library->api; }
};

FakeDriver::Options of_version(int version) { return {.version = version}; }

Kernel load_kernel(const Machine &machine, KernelModule &module, const std::string &name) {
  module = must(KernelModule::load(machine.context, "code", "tests"));
  return must(module.kernel(name));
}

} // namespace

TEST_CASE("versions are written as people write them") {
  CHECK(version_text(12020) == "12.2");
  CHECK(version_text(13000) == "13.0");
  CHECK(version_text(9000) == "9.0");
}

TEST_CASE("a driver choice is a word or a path") {
  CHECK(must(DriverChoice::parse("")).kind == DriverKind::system);
  CHECK(must(DriverChoice::parse("system")).kind == DriverKind::system);
  CHECK(must(DriverChoice::parse("emulated")).kind == DriverKind::emulated);
  DriverChoice path = must(DriverChoice::parse("/opt/libcuda.so.1"));
  CHECK(path.kind == DriverKind::path);
  CHECK(path.path == "/opt/libcuda.so.1");
  CHECK(must(DriverChoice::parse("libcuda.so.1")).kind == DriverKind::path);
  CHECK(contains(refused(DriverChoice::parse("emulator")).message(), "'emulator'"));
}

TEST_CASE("a driver older than 12.2 is refused with its version") {
  FakeDriver fake;
  DriverApi api = fake.api();
  api.DriverGetVersion = [](int *version) { return *version = 12010, CUDA_SUCCESS; };
  const Status driver = refused(make_driver(api));
  CHECK(driver.code() == Code::unsupported);
  CHECK(contains(driver.message(), "12.1"));
  CHECK(contains(driver.message(), "12.2"));
}

TEST_CASE("a table without a required entry point is refused by name") {
  FakeDriver fake;
  DriverApi api = fake.api();
  api.GraphLaunch = nullptr;
  CHECK(contains(refused(make_driver(api)).message(), "cuGraphLaunch"));
}

TEST_CASE("entry points newer than the driver are absent and capabilities follow") {
  // Sources: the versions in cudaTypedefs.h, and for bodies the release notes of 12.4 and 12.8.
  struct Row {
    int version;
    bool edges, conditional, params, empty, switches;
  };
  for (Row row :
       {Row{12020, false, false, false, false, false}, Row{12030, true, true, false, false, false},
        Row{12040, true, true, true, false, false}, Row{12060, true, true, true, false, false},
        Row{12080, true, true, true, true, true}, Row{13000, true, true, true, true, true}}) {
    INFO("driver " << row.version);
    Machine machine(of_version(row.version));
    Capabilities c = machine.library->capabilities();
    CHECK(c.edge_data == row.edges);
    CHECK(c.conditional_if_while == row.conditional);
    CHECK(c.kernel_param_info == row.params);
    CHECK(c.green_contexts == (row.version >= 12040));
    CHECK(c.cooperative_bodies == (row.version >= 12060));
    CHECK(c.empty_bodies == row.empty);
    CHECK(c.conditional_else_switch == row.switches);
    CHECK(c.virtual_memory);
    CHECK(missing_capabilities(c).size() ==
          size_t(7 - row.edges - row.conditional - row.params - c.green_contexts -
                 c.cooperative_bodies - row.empty - row.switches));
  }
}

TEST_CASE("no device is told apart from no driver") {
  FakeDriver fake;
  fake.fail_nth_of("cuInit", 1, CUDA_ERROR_NO_DEVICE);
  const Status driver = refused(make_driver(fake.api()));
  CHECK(driver.code() == Code::unsupported);
  CHECK(contains(driver.message(), "no device"));
}

TEST_CASE("a path that cannot be loaded is named") {
  const Status driver = refused(open_driver({DriverKind::path, "/nonexistent/libcuda.so.1"}));
  CHECK(driver.code() == Code::not_found);
  CHECK(contains(driver.message(), "/nonexistent/libcuda.so.1"));
}

TEST_CASE("a pipe that is named as the driver does not hold the caller") {
  const TemporaryFolder folder;
  const std::string pipe = folder.path + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(contains(refused(open_driver({DriverKind::path, pipe})).message(),
                 "cannot read '" + pipe + "': not a regular file"));
}

TEST_CASE("a library that is no driver is refused") {
  CHECK(
      contains(refused(open_driver({DriverKind::path, "libm.so.6"})).message(), "no CUDA driver"));
}

TEST_CASE("the stub library reads as no driver") {
  const Status driver = refused(open_driver({DriverKind::path, CUGRT_TEST_STUB_LIBRARY}));
  CHECK(driver.code() == Code::unsupported);
  CHECK(contains(driver.message(), "no CUDA driver"));
  CHECK(contains(driver.message(), "stub"));
}

TEST_CASE("the system's driver is opened or its absence says what to do") {
  auto driver = open_driver({DriverKind::system, {}});
  if (driver.ok()) {
    CHECK(driver.value()->version >= kOldestDriver);
    return;
  }
  CHECK(driver.status().code() == Code::unsupported);
  CHECK(contains(driver.status().message(), "CUGRT_DRIVER=emulated"));
}

TEST_CASE("whoever asks for the emulated driver gets that or an error") {
  setenv("CUGRT_EMULATOR", "/nonexistent/libcugrt-emu.so", 1);
  auto driver = open_driver({DriverKind::emulated, {}});
  unsetenv("CUGRT_EMULATOR");
  REQUIRE_FALSE(driver.ok());
  CHECK(contains(driver.status().message(), "CUGRT_EMULATOR"));
  CHECK(contains(driver.status().message(), "/nonexistent/libcugrt-emu.so"));
}

TEST_CASE("errors carry the call, the object, the driver's words and the code") {
  Machine machine;
  Status status =
      driver_error(machine.api(), CUDA_ERROR_INVALID_VALUE, "cuGraphLaunch", "region 0");
  CHECK(status.message() == "cuGraphLaunch (region 0): invalid argument");
  CHECK(status.cuda_error() == "CUDA_ERROR_INVALID_VALUE");
  CHECK(status.code() == Code::driver_error);
  CHECK(driver_error(machine.api(), CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc", "").code() ==
        Code::out_of_device_memory);
  CHECK(driver_error(machine.api(), CUDA_ERROR_NOT_SUPPORTED, "cuX", "").code() ==
        Code::unsupported);
}

TEST_CASE("errors that end CUDA for the process are device_lost") {
  // cuda.h: "leaves the process in an inconsistent state".
  Machine machine;
  for (int code : {226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911}) {
    INFO(code);
    CHECK(is_sticky(static_cast<CUresult>(code)));
    CHECK(driver_error(machine.api(), static_cast<CUresult>(code), "cuX", "").code() ==
          Code::device_lost);
  }
  for (int code : {0, 1, 2, 400, 500, 600, 701, 720, 801, 900, 910, 999}) {
    INFO(code);
    CHECK_FALSE(is_sticky(static_cast<CUresult>(code)));
  }
}

TEST_CASE("a context is retained once and released with its owner") {
  FakeDriver fake;
  auto library = must(make_driver(fake.api()));
  {
    Context context = must(Context::retain_primary(library->api, 0));
    CHECK(context.architecture() == "sm_90");
    CHECK(context.capability() == 90);
    CHECK(fake.live().contexts == 1);
    Context moved = std::move(context);
    CHECK(fake.live().contexts == 1);
    Context borrowed = must(Context::borrow(library->api, moved.get()));
    CHECK(borrowed.device() == moved.device());
  }
  CHECK(fake.live() == FakeLive());
  const Status missing = refused(Context::retain_primary(library->api, 1));
  CHECK(missing.code() == Code::not_found);
}

TEST_CASE("a guard leaves the caller's current context as it was") {
  Machine machine;
  Context other = must(Context::borrow(machine.api(), machine.fake.another_context()));
  CUcontext current = nullptr;
  {
    auto outer = must(other.enter());
    {
      auto inner = must(machine.context.enter());
      machine.fake.forget();
      auto again = must(machine.context.enter());
      CHECK(machine.fake.call_count() == 1); // only asks
    }
    REQUIRE(machine.api().CtxGetCurrent(&current) == CUDA_SUCCESS);
    CHECK(current == other.get());
  }
  REQUIRE(machine.api().CtxGetCurrent(&current) == CUDA_SUCCESS);
  CHECK(current == nullptr);
}

TEST_CASE("objects are freed once, moves included, whatever context is current") {
  Machine machine;
  FakeLive before = machine.fake.live();
  {
    Stream stream = must(Stream::create(machine.context));
    Event event = must(Event::create(machine.context, Event::Timing::on));
    DeviceBuffer buffer = must(DeviceBuffer::allocate(machine.context, 1000));
    PinnedBuffer pinned = must(PinnedBuffer::allocate(machine.context, 1000));
    KernelModule module = must(KernelModule::load(machine.context, "code", "m"));
    Graph graph = must(Graph::create(machine.context));
    GraphExec exec = must(GraphExec::instantiate(graph.ref(), "g"));
    FakeLive live = machine.fake.live();
    CHECK(live.streams == 2); // and the context's own
    CHECK(live.allocations == 1);
    CHECK(live.execs == 1);

    DeviceBuffer moved = std::move(buffer);
    CHECK(moved.size_bytes() == 1000);
    buffer = must(DeviceBuffer::allocate(machine.context, 8));
    buffer = std::move(moved);
    CHECK(machine.fake.live().allocations == 1);
  }
  CHECK(machine.fake.live() == before);
}

TEST_CASE("no memory is asked for when none is needed") {
  Machine machine;
  machine.fake.forget();
  DeviceBuffer buffer = must(DeviceBuffer::allocate(machine.context, 0));
  CHECK(buffer.address() == 0);
  CHECK(machine.fake.call_count() == 0);
}

TEST_CASE("a failed allocation tells the size and what is free") {
  Machine machine({.device_bytes = 1 << 20});
  const Status buffer = refused(DeviceBuffer::allocate(machine.context, 2 << 20));
  CHECK(buffer.code() == Code::out_of_device_memory);
  CHECK(contains(buffer.message(), "2097152 bytes; 1048576 of 1048576 bytes are free"));
}

TEST_CASE("copies and fills move bytes in stream order") {
  Machine machine;
  Stream stream = must(Stream::create(machine.context));
  DeviceBuffer a = must(DeviceBuffer::allocate(machine.context, 64));
  DeviceBuffer b = must(DeviceBuffer::allocate(machine.context, 64));
  auto guard = must(machine.context.enter());
  for (uint32_t element : {1u, 2u, 4u})
    REQUIRE(fill_async(stream.ref(), a.address(), 0x01020304, element, 64 / element).ok());
  REQUIRE(copy_async(stream.ref(), b.address(), a.address(), 64).ok());
  REQUIRE(stream.ref().synchronize().ok());
  std::vector<uint32_t> host(16);
  REQUIRE(copy_to_host(machine.context, host.data(), b.address(), 64).ok());
  CHECK(host == std::vector<uint32_t>(16, 0x01020304));
  CHECK(fill_async(stream.ref(), a.address(), 0, 3, 1).code() == Code::invalid_argument);
}

TEST_CASE("events and streams tell unfinished work from errors") {
  Machine machine;
  Stream stream = must(Stream::create(machine.context));
  Event event = must(Event::create(machine.context));
  REQUIRE(event.record(stream.ref()).ok());
  machine.fake.hold(true);
  CHECK_FALSE(must(event.query()));
  CHECK_FALSE(must(stream.ref().query()));
  machine.fake.hold(false);
  REQUIRE(stream.ref().synchronize().ok());
  CHECK(must(event.query()));
  machine.fake.fail_nth_of("cuEventQuery", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(event.query().status().code() == Code::device_lost);
  CHECK(must(stream.ref().context()) == machine.context.get());
  machine.fake.set_capturing(stream.get(), true);
  CHECK(must(stream.ref().is_capturing()));
}

TEST_CASE("a virtual range grows in place and gives everything back") {
  Machine machine;
  FakeLive before = machine.fake.live();
  {
    VirtualRange range = must(VirtualRange::reserve(machine.context, 10 << 20));
    uint64_t unit = range.granularity_bytes();
    CHECK(range.size_bytes() % unit == 0);
    CHECK(range.size_bytes() >= 10 << 20);
    REQUIRE(range.commit(1).ok());
    CHECK(range.committed_bytes() == unit);
    const char seven = 7;
    char seen = 0;
    REQUIRE(copy_to_device(machine.context, range.address(), &seven, 1).ok());
    uint64_t address = range.address();
    REQUIRE(range.commit(2 * unit + 1).ok());
    CHECK(range.committed_bytes() == 3 * unit);
    CHECK(range.address() == address);
    REQUIRE(copy_to_host(machine.context, &seen, address, 1).ok());
    CHECK(seen == 7);
    CHECK(range.commit(range.size_bytes() + 1).code() == Code::out_of_range);
    for (uint64_t nth = 3; nth <= 5; ++nth) { // MemCreate, MemMap, MemSetAccess
      machine.fake.fail_nth(nth, CUDA_ERROR_OUT_OF_MEMORY);
      CHECK_FALSE(range.commit(4 * unit).ok());
      CHECK(range.committed_bytes() == 3 * unit);
    }
    VirtualRange moved = std::move(range);
    REQUIRE(moved.commit(4 * unit).ok());
  }
  CHECK(machine.fake.live() == before);
}

TEST_CASE("a kernel's arguments are compared with the compiled parameters") {
  Machine machine;
  machine.fake.define_kernel("axpy", {8, 8, 4, 4});
  KernelModule module;
  Kernel kernel = load_kernel(machine, module, "axpy");
  REQUIRE(kernel.params());
  CHECK((*kernel.params())[3] == KernelParam{20, 4});
  const size_t good[] = {8, 8, 4, 4}, few[] = {8, 8, 4}, wrong[] = {8, 8, 8, 4};
  CHECK(kernel.check_params(good).ok());
  Status status = kernel.check_params(few);
  CHECK(contains(status.message(), "declared with 3 parameters, compiled with 4"));
  status = kernel.check_params(wrong);
  CHECK(contains(status.message(), "parameter 2 is declared with 8 bytes, compiled with 4"));
}

TEST_CASE("a driver that cannot tell parameters checks nothing") {
  Machine machine(of_version(12030));
  machine.fake.define_kernel("axpy", {8});
  KernelModule module;
  Kernel kernel = load_kernel(machine, module, "axpy");
  CHECK_FALSE(kernel.params());
  const size_t anything[] = {1, 2, 3};
  CHECK(kernel.check_params(anything).ok());
}

TEST_CASE("missing kernels, missing variables and broken code are named") {
  Machine machine;
  machine.fake.define_global("table", 64);
  KernelModule module = must(KernelModule::load(machine.context, "code", "relu.cu"));
  CHECK(must(module.global("table")).size_bytes == 64);
  const Status kernel = refused(module.kernel("relu"));
  CHECK(kernel.code() == Code::not_found);
  CHECK(contains(kernel.message(), "'relu.cu' has no kernel 'relu'"));
  CHECK(module.global("x").status().code() == Code::not_found);
  const Status broken =
      refused(KernelModule::load(machine.context, ".version 7.8\nbroken", "relu.cu"));
  CHECK(contains(broken.message(), "line 2"));
}

TEST_CASE("dynamic shared memory is raised only where it must be") {
  Machine machine;
  machine.fake.define_kernel("k", {});
  KernelModule module;
  Kernel kernel = load_kernel(machine, module, "k");
  REQUIRE(kernel.allow_dynamic_shared(48 << 10).ok());
  CHECK(machine.fake.count("cuFuncSetAttribute") == 0);
  REQUIRE(kernel.allow_dynamic_shared(100 << 10).ok());
  CHECK(machine.fake.count("cuFuncSetAttribute") == 1);
  CHECK_FALSE(kernel.allow_dynamic_shared(1 << 20).ok());
}

TEST_CASE("a graph runs its nodes in the order of its edges") {
  Machine machine;
  machine.fake.define_kernel("twice", {8, 4}, R"(
    ld.param.u64 %d0, [p0]; ld.param.u32 %r0, [p1];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p0, %r1, %r0;
    @%p0 ret;
    mul.wide.u32 %d1, %r1, 4; add.u64 %d0, %d0, %d1;
    ld.global.u32 %r2, [%d0]; shl.b32 %r2, %r2, 1; st.global.u32 [%d0], %r2;
  )");
  KernelModule module;
  Kernel kernel = load_kernel(machine, module, "twice");
  DeviceBuffer a = must(DeviceBuffer::allocate(machine.context, 64));
  DeviceBuffer b = must(DeviceBuffer::allocate(machine.context, 64));

  Graph graph = must(Graph::create(machine.context));
  uint64_t address = a.address();
  uint32_t count = 16;
  void *arguments[] = {&address, &count};
  LaunchParams launch{kernel.get(), {1, 1, 1}, {16, 1, 1}, 0, arguments, {}};
  GraphNode fill = must(graph.ref().add_memset({a.address(), 16, 3, 4}, {}, "fill"));
  GraphNode run = must(graph.ref().add_kernel(launch, std::vector{fill}, "twice"));
  GraphNode join = must(graph.ref().add_empty(std::vector{run}, "join"));
  (void)must(graph.ref().add_memcpy({b.address(), a.address(), 64}, std::vector{join}, "copy"));
  address = 0; // the node has its own copy of the arguments

  Stream stream = must(Stream::create(machine.context));
  auto guard = must(machine.context.enter());
  GraphExec exec = must(GraphExec::instantiate(graph.ref(), "main"));
  REQUIRE(exec.upload(stream.ref()).ok());
  REQUIRE(exec.launch(stream.ref(), "main").ok());
  auto read = [&](const DeviceBuffer &buffer) {
    REQUIRE(stream.ref().synchronize().ok());
    std::vector<uint32_t> host(16);
    REQUIRE(copy_to_host(machine.context, host.data(), buffer.address(), 64).ok());
    return host;
  };
  CHECK(read(b) == std::vector<uint32_t>(16, 6));

  SECTION("setters change later launches") {
    address = a.address();
    count = 4;
    REQUIRE(exec.set_kernel(run, launch, "twice").ok());
    REQUIRE(exec.launch(stream.ref(), "main").ok());
    std::vector<uint32_t> expected(16, 3);
    std::fill_n(expected.begin(), 4, 6);
    CHECK(read(b) == expected);
  }
  SECTION("a disabled node does nothing") {
    REQUIRE(exec.set_enabled(run, false, "twice").ok());
    REQUIRE(exec.launch(stream.ref(), "main").ok());
    CHECK(read(b) == std::vector<uint32_t>(16, 3));
  }
  SECTION("a setter that the driver refuses names the node") {
    launch.grid.x = 0;
    Status status = exec.set_kernel(run, launch, "binding 'lv0'");
    CHECK(contains(status.message(), "cuGraphExecKernelNodeSetParams (binding 'lv0')"));
  }
}

TEST_CASE("edges with data need a driver of 12.3") {
  for (int version : {12020, 12030}) {
    Machine machine(of_version(version));
    machine.fake.define_kernel("k", {});
    KernelModule module;
    LaunchParams launch{load_kernel(machine, module, "k").get(), {}, {}, 0, nullptr, {}};
    Graph graph = must(Graph::create(machine.context));
    GraphNode first = must(graph.ref().add_kernel(launch, {}, "k"));
    GraphNode second = must(graph.ref().add_kernel(launch, {}, "k"));
    Status added = graph.ref().add_programmatic_edges({&first, 1}, second);
    CHECK(added.ok() == (version >= 12030));
    if (!added.ok())
      CHECK(contains(added.message(), "12.3"));
  }
}

TEST_CASE(
    "full and programmatic edges of one node stay what they are on a driver that mixes them") {
  Machine machine;
  machine.fake.define_kernel("k", {});
  KernelModule module;
  LaunchParams launch{load_kernel(machine, module, "k").get(), {}, {}, 0, nullptr, {}};
  Graph graph = must(Graph::create(machine.context));
  std::vector<GraphNode> before;
  for (int i = 0; i < 4; ++i)
    before.push_back(must(graph.ref().add_kernel(launch, {}, "k")));
  GraphNode last = must(graph.ref().add_kernel(launch, std::span(before).first(2), "k"));
  REQUIRE(graph.ref().add_programmatic_edges(std::span(before).last(2), last).ok());
  CUgraphNode from[4], to[4];
  CUgraphEdgeData data[4];
  size_t count = 4;
  REQUIRE(machine.library->api.GraphGetEdges_v2(graph.get(), from, to, data, &count) ==
          CUDA_SUCCESS);
  REQUIRE(count == 4);
  for (size_t i = 0; i < count; ++i) {
    const bool programmatic = from[i] == before[2] || from[i] == before[3];
    CHECK(to[i] == last);
    CHECK((data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) == programmatic);
    CHECK((data[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC) == programmatic);
  }
}

TEST_CASE("an upload has reached the device when it returns") {
  FakeDriver::Options options;
  options.order = GENERATE(1, 2, 3, 4, 5, 6);
  Machine machine(options);
  DeviceBuffer memory = must(DeviceBuffer::allocate(machine.context, 4));
  for (uint32_t value : {7u, 8u}) {
    REQUIRE(copy_to_device(machine.context, memory.address(), &value, 4).ok());
    uint32_t seen;
    std::memcpy(&seen, reinterpret_cast<const void *>(memory.address()), 4);
    CHECK(seen == value);
  }
}

TEST_CASE("another thread's capture in global mode refuses nothing that is no run") {
  Machine machine;
  const DriverApi &api = machine.library->api;
  machine.fake.define_kernel("k", {});
  machine.fake.capture_elsewhere();
  {
    KernelModule module;
    LaunchParams launch{load_kernel(machine, module, "k").get(), {}, {}, 0, nullptr, {}};
    DeviceBuffer memory = must(DeviceBuffer::allocate(machine.context, 64));
    PinnedBuffer pinned = must(PinnedBuffer::allocate(machine.context, 64));
    VirtualRange range = must(VirtualRange::reserve(machine.context, 1));
    REQUIRE(range.commit(1).ok());
    REQUIRE(copy_to_device(machine.context, memory.address(), pinned.data(), 64).ok());
    Stream stream = must(Stream::create(machine.context));
    Event event = must(Event::create(machine.context));
    MemoryPool pool = must(MemoryPool::create(machine.context));
    auto guard = must(machine.context.enter());
    REQUIRE(event.record(stream.ref()).ok());
    (void)must(event.query());
    (void)must(stream.ref().query());
    CHECK(event.synchronize().ok());
    uint64_t address = must(pool.allocate(64, stream.ref()));
    CHECK(api.MemFreeAsync(address, stream.get()) == CUDA_SUCCESS);
    CHECK(pool.trim().ok());
    Graph graph = must(Graph::create(machine.context));
    (void)must(graph.ref().add_kernel(launch, {}, "k"));
    GraphExec exec = must(GraphExec::instantiate(graph.ref(), "main"));
    CHECK(exec.upload(stream.ref()).ok());
  }
  // All of it is gone again, and the thread has the mode that it had.
  CHECK(machine.fake.live().allocations == 0);
  CHECK(machine.fake.live().host_allocations == 0);
  CHECK(machine.fake.live().execs == 0);
  CHECK(machine.fake.live().modules == 0);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(api.ThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(api.ThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
}

TEST_CASE("a pool is told to keep what is freed, until it is to give back all that it can") {
  Machine machine;
  static uint64_t threshold, kept;
  threshold = 0, kept = 1;
  auto &api = const_cast<DriverApi &>(machine.api());
  api.MemPoolSetAttribute = [](CUmemoryPool, CUmemPool_attribute attribute, void *value) {
    CHECK(attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
    threshold = *static_cast<uint64_t *>(value);
    return CUDA_SUCCESS;
  };
  api.MemPoolTrimTo = [](CUmemoryPool, size_t bytes) { return kept = bytes, CUDA_SUCCESS; };
  MemoryPool pool = must(MemoryPool::create(machine.context));
  CHECK(threshold == UINT64_MAX);
  REQUIRE(pool.trim().ok());
  CHECK(kept == 0);
}

TEST_CASE("pinned memory is mapped for the device") {
  Machine machine;
  PinnedBuffer pinned = must(PinnedBuffer::allocate(machine.context, 64));
  CHECK(must(pinned.device_address(machine.context)) == reinterpret_cast<uint64_t>(pinned.data()));
}

TEST_CASE("clusters of more than eight blocks are allowed kernel by kernel") {
  Machine machine;
  machine.fake.define_kernel("k", {});
  KernelModule module;
  Kernel kernel = load_kernel(machine, module, "k");
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {16, 1, 1};
  LaunchParams launch{kernel.get(), {16, 1, 1}, {}, 0, nullptr, {&cluster, 1}};
  Graph graph = must(Graph::create(machine.context));
  CHECK(graph.ref().add_kernel(launch, {}, "k").status().cuda_error() ==
        "CUDA_ERROR_INVALID_CLUSTER_SIZE");
  REQUIRE(kernel.allow_large_clusters().ok());
  CHECK(graph.ref().add_kernel(launch, {}, "k").ok());
}

TEST_CASE("a while node repeats its body until the condition is zero") {
  Machine machine;
  machine.fake.define_kernel("step", {8, 8}, R"(
    ld.param.u64 %d0, [p0]; ld.param.u64 %d1, [p1];
    ld.global.u32 %r0, [%d0]; sub.u32 %r0, %r0, 1; st.global.u32 [%d0], %r0;
    { .param .b64 handle; .param .b32 value;
      st.param.b64 [handle], %d1; st.param.b32 [value], %r0;
      call.uni cudaGraphSetConditional, (handle, value); }
  )");
  KernelModule module;
  DeviceBuffer left = must(DeviceBuffer::allocate(machine.context, 4));
  *reinterpret_cast<uint32_t *>(left.address()) = 5;
  Graph graph = must(Graph::create(machine.context));
  uint64_t address = left.address(), condition = must(graph.ref().create_condition(1));
  void *arguments[] = {&address, &condition};
  LaunchParams launch{load_kernel(machine, module, "step").get(), {}, {}, 0, arguments, {}};
  ConditionalNode loop =
      must(graph.ref().add_conditional(condition, CU_GRAPH_COND_TYPE_WHILE, 1, {}, "loop"));
  REQUIRE(loop.bodies.size() == 1);
  (void)must(loop.bodies[0].add_kernel(launch, {}, "step"));
  GraphExec exec = must(GraphExec::instantiate(graph.ref(), "main"));
  Stream stream = must(Stream::create(machine.context));
  auto guard = must(machine.context.enter());
  REQUIRE(exec.launch(stream.ref(), "main").ok());
  REQUIRE(stream.ref().synchronize().ok());
  CHECK(machine.fake.kernels_run() == 5);
  // The driver allows one instantiation of a graph with conditional nodes.
  CHECK_FALSE(GraphExec::instantiate(graph.ref(), "main").ok());
}

TEST_CASE("a graph with a cycle does not instantiate and the failing node is told") {
  Machine machine;
  Graph graph = must(Graph::create(machine.context));
  GraphNode a = must(graph.ref().add_empty({}, "a"));
  GraphNode b = must(graph.ref().add_empty(std::vector{a}, "b"));
  REQUIRE(machine.api().GraphAddDependencies_v2(graph.get(), &b, &a, nullptr, 1) == CUDA_SUCCESS);
  InstantiateFailure failure;
  const Status exec = refused(GraphExec::instantiate(graph.ref(), "main", &failure));
  CHECK(failure.node == a);
  CHECK(failure.reason == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  CHECK(contains(exec.message(), "structure is invalid"));
  CHECK(machine.fake.live().execs == 0);
}

TEST_CASE("every failing call gives one error and leaks nothing") {
  // Runs a small program with the nth driver call failing, for every n until none fails.
  auto program = [](const FakeDriver &fake) -> Status {
    CUGRT_ASSIGN(auto library, make_driver(fake.api()));
    CUGRT_ASSIGN(Context context, Context::retain_primary(library->api, 0));
    CUGRT_ASSIGN(Stream stream, Stream::create(context));
    CUGRT_ASSIGN(DeviceBuffer buffer, DeviceBuffer::allocate(context, 256));
    CUGRT_ASSIGN(VirtualRange range, VirtualRange::reserve(context, 1 << 20));
    CUGRT_TRY(range.commit(1));
    CUGRT_ASSIGN(KernelModule module, KernelModule::load(context, "code", "m"));
    CUGRT_ASSIGN(Kernel kernel, module.kernel("k"));
    CUGRT_ASSIGN(Graph graph, Graph::create(context));
    uint64_t address = buffer.address();
    void *arguments[] = {&address};
    LaunchParams params{kernel.get(), {}, {}, 0, arguments, {}};
    CUGRT_ASSIGN(GraphNode node, graph.ref().add_kernel(params, {}, "k"));
    CUGRT_ASSIGN(GraphExec exec, GraphExec::instantiate(graph.ref(), "g"));
    CUGRT_TRY(exec.set_enabled(node, true, "k"));
    CUGRT_ASSIGN(ContextGuard guard, context.enter());
    CUGRT_TRY(exec.launch(stream.ref(), "g"));
    CUGRT_TRY(launch(stream.ref(), params, "k"));
    return stream.ref().synchronize();
  };
  int failures = 0;
  for (uint64_t n = 1;; ++n) {
    INFO("call " << n);
    FakeDriver fake;
    fake.define_kernel("k", {8});
    fake.fail_nth(n, CUDA_ERROR_INVALID_HANDLE);
    Status status = program(fake);
    if (fake.call_count() < n)
      break;
    if (status.ok()) {
      // Destruction has nobody to tell; what the driver refuses to free is the driver's.
      std::string entry;
      for (const auto &call : fake.calls())
        if (call.result == CUDA_ERROR_INVALID_HANDLE)
          entry = call.entry;
      INFO(entry);
      CHECK((contains(entry, "Destroy") || contains(entry, "Free") || contains(entry, "Unload") ||
             contains(entry, "Release") || contains(entry, "Unmap") || contains(entry, "cuCtxP")));
      continue;
    }
    ++failures;
    CHECK(status.cuda_error() == "CUDA_ERROR_INVALID_HANDLE");
    CHECK(fake.live() == FakeLive());
  }
  CHECK(failures > 25);
}

TEST_CASE("a report describes every device without a context") {
  FakeDriver::Options options;
  options.capability = 87;
  FakeDriver fake(options);
  DriverApi api = fake.api(); // the same device twice
  api.DeviceGetCount = [](int *count) { return *count = 2, CUDA_SUCCESS; };
  api.DeviceGet = [](CUdevice *device, int) { return *device = 0, CUDA_SUCCESS; };
  auto library = must(make_driver(api));
  DriverReport described = must(report(*library));
  REQUIRE(described.devices.size() == 2);
  CHECK(described.version == 13000);
  CHECK(described.devices[1].architecture == "sm_87");
  CHECK(described.devices[1].name == "cugrt EMULATED sm_87");
  // "cugrtEMULATED", 0, 8, 7
  CHECK(described.devices[1].uuid == "GPU-63756772-7445-4d55-4c41-544544000807");
  CHECK(described.devices[1].total_bytes == options.device_bytes);
  CHECK(fake.live().contexts == 0);
}
