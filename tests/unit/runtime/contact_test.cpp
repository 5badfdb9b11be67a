// runtime: what a real driver does and tests on the CPU would not show by themselves: copies that
// land late, few addresses, bodies without work, captures of other threads, memory pools.
#include "chain.h"

#include "base/file.h"
#include "device/code/ptx_version.h"
#include "device/context/doctor.h"
#include "jit/compiler.h"
#include "library/compile/compile.h"
#include "support/temporary_folder.h"

#include <filesystem>
#include <fstream>

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

namespace {

/// A branch in a graph: y = x + a in its body, where the condition, four bytes of %c, is not 0.
plan::Plan branch_in_graph() {
  PlanMaker maker;
  const uint32_t x = maker.tensor_param("x"), a = maker.float_param("a");
  const uint32_t c = maker.tensor_param("c"), y = maker.result();
  plan::Function &function = maker.function();
  plan::Step branch;
  branch.kind = plan::StepKind::conditional;
  branch.name = "if";
  branch.conditional = 0;
  branch.accesses = {static_cast<uint32_t>(function.accesses.size()), 1};
  function.accesses.push_back({c, ir::Access::in});
  function.steps.push_back(branch);
  function.conditionals.push_back({plan::ConditionalKind::if_, {1}});
  maker.step(x, y, a);
  maker.region();
  function.regions[0].edges.clear();
  return std::move(maker.plan);
}

struct Branch {
  explicit Branch(FakeDriver::Options driver) : machine(driver) {
    device = machine.open();
    for (int i = 0; i < 4; ++i)
      memory.push_back(must(driver::DeviceBuffer::allocate(device->context(), 4096)));
    machine.fake.define_kernel("control_nothing", {},
                               "mov.u64 %d0, " + std::to_string(memory[3].address()) +
                                   "; mov.u32 %r0, 1; st.global.u32 [%d0], %r0;\n");
    machine.fake.define_kernel("control_set", {8, 4, 8, 8}, R"(
      ld.param.u64 %d0, [p0]; ld.global.u32 %r0, [%d0];
      setp.ne.u32 %p0, %r0, 0; selp.u32 %r1, 1, 0, %p0;
      ld.param.u64 %d1, [p2];
      { .param .b64 handle; .param .b32 value;
        st.param.b64 [handle], %d1; st.param.b32 [value], %r1;
        call.uni cudaGraphSetConditional, (handle, value); }
    )");
    ExecutableParts parts;
    parts.plan = branch_in_graph();
    parts.architecture = "sm_90";
    parts.images = {{"add", "ptx", false}, {"conditions", "ptx", false}};
    parts.kernel_images = {0};
    parts.control_image = 1;
    parts.programmatic = {{ProgrammaticCode()}};
    executable = must(Executable::assemble(std::move(parts)));
    SessionOptions options;
    options.cache.strict = true;
    session = must(Session::open(executable, device, options));
  }

  /// Whether the kernel that stands for a body without work has run since it was asked.
  bool nothing_ran() {
    return std::exchange(*reinterpret_cast<int32_t *>(memory[3].address()), 0) == 1;
  }

  /// Runs; what the body leaves where it ran: x + 1.
  void run(int64_t n, bool taken) {
    auto *x = reinterpret_cast<float *>(memory[0].address());
    auto *y = reinterpret_cast<float *>(memory[2].address());
    *reinterpret_cast<int32_t *>(memory[1].address()) = taken;
    for (int64_t i = 0; i < n * 4; ++i)
      x[i] = static_cast<float>(i), y[i] = -1;
    cugrt_value arguments[] = {tensor(memory[0].address(), {n, 4}), floating(1),
                               tensor(memory[1].address(), {n, 4})};
    cugrt_value result = tensor(memory[2].address(), {n, 4});
    must(session->run(0, {arguments, {&result, 1}}));
    must(session->synchronize());
    for (int64_t i = 0; i < n * 4; ++i)
      REQUIRE(y[i] == (taken ? x[i] + 1 : -1));
  }

  TestDevice machine;
  std::shared_ptr<Device> device;
  std::shared_ptr<const Executable> executable;
  std::unique_ptr<Session> session;
  std::vector<driver::DeviceBuffer> memory;
};

FakeDriver::Options of_version(int version, bool body_setters) {
  FakeDriver::Options options;
  options.version = version;
  options.body_setters = body_setters;
  return options;
}

constexpr int64_t kFourMiBRows = 1 << 18; // 4 MiB each

FakeDriver::Options few_addresses() {
  FakeDriver::Options options;
  options.reservable_bytes = uint64_t(2) << 20;
  return options;
}

} // namespace

TEST_CASE("a run reads what was copied to the device before it, as late as copies may land") {
  FakeDriver::Options driver;
  driver.order = GENERATE(1, 2, 3, 4, 5, 6);
  Chain chain(3, {}, driver);
  for (float first : {3.0f, 5.0f, 8.0f}) {
    const std::vector<float> x(4, first);
    must(driver::copy_to_device(chain.device->context(), chain.memory[0].address(), x.data(), 16));
    must(chain.try_run(1, chain.memory[0].address(), chain.memory[1].address()));
    std::vector<float> y(4);
    must(chain.session->synchronize());
    must(driver::copy_to_host(chain.device->context(), y.data(), chain.memory[1].address(), 16));
    CHECK(y == std::vector<float>(4, first + 3));
  }
}

TEST_CASE("every copy is waited for before the next launch") {
  Chain chain;
  const float x = 1;
  chain.run(1);
  chain.machine.fake.forget();
  must(driver::copy_to_device(chain.device->context(), chain.memory[0].address(), &x, 4));
  must(chain.try_run(1, chain.memory[0].address(), chain.memory[1].address()));
  std::vector<std::string> calls;
  for (const FakeCall &call : chain.machine.fake.calls())
    if (const std::string entry = call.entry;
        contains(entry, "Memcpy") || contains(entry, "Launch") || entry == "cuStreamSynchronize")
      calls.push_back(entry);
  CHECK(calls ==
        std::vector<std::string>{"cuMemcpyHtoDAsync", "cuStreamSynchronize", "cuGraphLaunch"});
}

TEST_CASE("a body whose kernels may all be disabled hangs no driver before 12.8") {
  for (int version : {12030, 12040, 12080, 13000})
    for (bool body_setters : {false, true}) {
      INFO("driver " << version << ", setters reach bodies: " << body_setters);
      Branch branch(of_version(version, body_setters));
      for (int64_t n : {4, 0, 4, 0, 2})
        for (bool taken : {true, false})
          branch.run(n, taken);
    }
}

TEST_CASE("a node in a body that is not to run does not, where no setter reaches it") {
  Branch branch(of_version(12080, false));
  branch.run(0, true); // the first instance of all: nobody knows yet
  CHECK(branch.nothing_ran());
  branch.run(4, true);
  branch.run(0, true);
  CHECK(branch.device->setters_reach_bodies() == std::optional(false));
}

TEST_CASE("an instance is on the device before its first setter") {
  Chain chain;
  chain.machine.fake.forget();
  chain.run(0); // all nodes are disabled
  std::vector<std::string> order;
  for (const FakeCall &call : chain.machine.fake.calls())
    if (const std::string entry = call.entry;
        entry == "cuGraphUpload" || entry == "cuGraphNodeSetEnabled")
      order.push_back(entry);
  REQUIRE(order.size() == 4);
  CHECK(order.front() == "cuGraphUpload");
}

TEST_CASE("where addresses are few, an arena takes what there is and moves when it must") {
  // Between x and y lie two tensors of 16 bytes a row.
  Chain chain(PlanMaker::chain(3, kFourMiBRows), 3, {}, few_addresses());
  const FakeLive open = chain.machine.fake.live();
  CHECK(open.reservations == 1);
  chain.memory.clear();
  for (int i = 0; i < 2; ++i)
    chain.memory.push_back(
        must(driver::DeviceBuffer::allocate(chain.device->context(), 16 * kFourMiBRows)));
  chain.run(5);
  chain.run(kFourMiBRows / 2); // beyond the first one's reservation
  CHECK(must(chain.session->totals()).arena_committed_bytes >= uint64_t(16) * kFourMiBRows);
  const uint64_t built = chain.counters().regions_built;
  chain.run(kFourMiBRows / 2);
  chain.run(7);
  chain.run(5);
  CHECK(chain.counters().regions_built <= built + 2); // instances of the arena that has moved
  chain.run(kFourMiBRows);
  chain.run(5);
  CHECK(chain.machine.fake.live().reservations <= 1);
}

TEST_CASE("where there are no addresses at all, an arena is as large as runs need, and grows") {
  FakeDriver::Options driver;
  driver.reservable_bytes = 0;
  Chain chain(PlanMaker::chain(3, kFourMiBRows), 3, {}, driver);
  chain.memory.clear();
  for (int i = 0; i < 2; ++i)
    chain.memory.push_back(
        must(driver::DeviceBuffer::allocate(chain.device->context(), 16 * kFourMiBRows)));
  CHECK(must(chain.session->totals()).arena_committed_bytes == 0);
  uint64_t last = 0;
  for (int64_t n : {int64_t(5), int64_t(7), kFourMiBRows, int64_t(5)}) {
    chain.run(n);
    const uint64_t held = must(chain.session->totals()).arena_committed_bytes;
    CHECK(held >= last);
    last = held;
  }
  CHECK(last == uint64_t(2) * 16 * kFourMiBRows);
}

TEST_CASE("instances that were made ahead do not outlive the place of their arena") {
  Chain chain(PlanMaker::chain(3, kFourMiBRows), 3, {}, few_addresses());
  chain.memory.clear();
  for (int i = 0; i < 2; ++i)
    chain.memory.push_back(
        must(driver::DeviceBuffer::allocate(chain.device->context(), 16 * kFourMiBRows)));
  const cugrt_symbol_value five[] = {{"n", 5}};
  CHECK(must(chain.session->prepare(0, five)).built == 1);
  chain.run(kFourMiBRows); // moves
  chain.run(5);
  CHECK(must(chain.session->prepare(0, five)).present == 1);
}

TEST_CASE("another thread's capture in global mode fails nothing that a session does") {
  TestDevice machine;
  machine.fake.capture_elsewhere();
  auto device = machine.open();
  auto executable = must(TestDevice::compile(*device, PlanMaker::chain(3)));
  auto session = must(Session::open(executable, device, {}));
  auto x = must(driver::DeviceBuffer::allocate(device->context(), 4096));
  for (int64_t n : {5, 0, 6, 7, 8, 9, 5, 5}) {
    cugrt_value arguments[] = {tensor(x.address(), {n, 4}), floating(1)};
    must(session->run(0, {arguments, {}}));
    (void)must(session->is_idle());
    must(session->synchronize());
    CHECK(must(session->is_idle()));
  }
  const cugrt_symbol_value given[] = {{"n", 11}};
  CHECK(must(session->prepare(0, given)).built == 1);
}

TEST_CASE("what a kernel has of its own counts when its dynamic shared memory is allowed") {
  constexpr int kOptIn = 227 << 10, kOwn = 16 << 10;
  TestDevice machine;
  machine.fake.set_static_shared("add_entry", kOwn);
  auto device = machine.open();
  plan::Plan plan = PlanMaker::chain(1);
  // 4 KiB for each of at most 64 rows: more than any device has, though not for the rows of a run.
  plan.functions[0].launches[0].shared_bytes =
      plan.exprs.mul(plan.exprs.symbol(ir::SymbolId{0}), plan.exprs.constant(4 << 10));
  auto executable = must(TestDevice::compile(*device, std::move(plan)));
  auto session = must(Session::open(executable, device, {}));
  auto x = must(driver::DeviceBuffer::allocate(device->context(), 4096));
  auto run = [&](int64_t n) {
    cugrt_value arguments[] = {tensor(x.address(), {n, 4}), floating(1)};
    return session->run(0, {arguments, {}});
  };
  must(run((kOptIn - kOwn) / (4 << 10)));
  for (int64_t n : {54, 60}) { // the device has as much as 54 rows take, though not beside its own
    Status status = run(n);
    CHECK(contains(status.message(), "dynamic shared memory is " + std::to_string(n * (4 << 10))));
    CHECK(contains(status.message(), "allows 0 to " + std::to_string(kOptIn - kOwn)));
  }
}

TEST_CASE("a kernel of clusters that not every device has is allowed them") {
  for (uint32_t blocks : {8u, 16u}) {
    TestDevice machine;
    auto device = machine.open();
    plan::Plan plan = PlanMaker::chain(1);
    plan.kernels[0].clusters = {{blocks, 1, 1}};
    plan.functions[0].launches[0].grid[0] = plan.exprs.constant(blocks);
    auto executable = must(TestDevice::compile(*device, std::move(plan)));
    auto session = must(Session::open(executable, device, {}));
    auto x = must(driver::DeviceBuffer::allocate(device->context(), 4096));
    cugrt_value arguments[] = {tensor(x.address(), {4, 4}), floating(1)};
    must(session->run(0, {arguments, {}}));
    CHECK(machine.fake.count("cuFuncSetAttribute") == (blocks > 8 ? 1 : 0));
  }
}

TEST_CASE("code of a newer CUDA than the driver's is told by its name") {
  FakeDriver::Options options;
  options.version = 12040;
  TestDevice machine(options);
  auto device = machine.open();
  std::string image("\x7f"
                    "ELF\x02\x01\x01\x41\x08",
                    9);
  CompileOptions compile;
  compile.overrides["add"] = {CUGRT_CODE_CUBIN, image};
  auto executable =
      must(compile_executable(*device, PlanMaker::chain(1), "test.cugrt", "", compile));
  machine.fake.fail_nth_of("cuModuleLoadDataEx", 1, CUDA_ERROR_NO_BINARY_FOR_GPU);
  Status status = Session::open(executable, device, {}).take_status();
  CHECK(status.code() == Code::unsupported);
  CHECK(contains(status.message(), "compiled by CUDA 13"));
  CHECK(contains(status.message(), "driver of CUDA 12.4"));
  CHECK(contains(status.message(), "NVRTC of 12"));
}

TEST_CASE("PTX that is newer than the driver is told with the driver that it takes") {
  const std::string ptx = "// made by a compiler\n.version 9.4\n.target sm_75\n";
  for (auto [driver, told] : {std::pair(13000, true), {13040, false}, {12040, true}}) {
    FakeDriver::Options options;
    options.version = driver;
    TestDevice machine(options);
    auto device = machine.open();
    CompileOptions compile;
    compile.overrides["add"] = {CUGRT_CODE_PTX, ptx};
    auto executable =
        must(compile_executable(*device, PlanMaker::chain(1), "test.cugrt", "", compile));
    machine.fake.fail_nth_of("cuModuleLoadDataEx", 1, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    Status status = Session::open(executable, device, {}).take_status();
    CHECK(status.code() == Code::unsupported);
    CHECK((status.message() == "'add' is PTX 9.4, for drivers of CUDA 13.4 and newer, and this "
                               "driver is of CUDA " +
                                   driver::version_text(driver) +
                                   ": update it, or compile with an NVRTC that is not newer") ==
          told);
  }
}

TEST_CASE("versions of PTX are those of the drivers that took them first") {
  CHECK(ptx_version("//\n.version 8.5\n.target sm_50") == 85);
  CHECK(ptx_version("  .version\t9.0 // of 13.0") == 90);
  CHECK(ptx_version("// .version 9.0\n") == 0);
  CHECK(ptx_version(".version x\n") == 0);
  for (auto [ptx, driver] : {std::pair(63, 10000),
                             {78, 11080},
                             {80, 12000},
                             {82, 12020},
                             {86, 12070},
                             {88, 12090},
                             {90, 13000},
                             {95, 13050},
                             {0, 0},
                             {100, 0}})
    CHECK(driver_of_ptx(ptx) == driver);
}

TEST_CASE("a device that the compiler does not know gets PTX, which the driver compiles") {
  TemporaryFolder folder;
  // What the compiler said it knows is remembered in the cache's folder.
  (void)must(jit::Compiler(compiler_config("", folder.path)).architectures());
  for (const auto &item : std::filesystem::directory_iterator(folder.path))
    if (item.path().extension() == ".txt") {
      auto note = must(read_file(item.path(), 1 << 16));
      std::ofstream(item.path()) << note.substr(0, note.find(" architectures"))
                                 << " architectures 75 90 100\n";
    }
  for (auto [capability, target] :
       {std::pair(90, "sm_90"), {100, "sm_100"}, {120, "compute_100"}}) {
    FakeDriver::Options options;
    options.capability = capability;
    TestDevice machine(options);
    auto device = machine.open(folder.path);
    CompileOptions compile;
    compile.overrides["add"] = {CUGRT_CODE_PTX, ".version 6.3\n"};
    auto executable =
        must(compile_executable(*device, PlanMaker::chain(1), "test.cugrt", "", compile));
    CHECK(executable->architecture() == target);
  }
}

TEST_CASE("the doctor tells the compiler's version and the newest device that it compiles for") {
  DoctorReport report;
  report.driver_wanted = false;
  report.compiler.emplace().found = true;
  report.compiler->major = 13;
  report.compiler->minor = 5;
  report.compiler->architectures = {75, 107, 121};
  CHECK(contains(report.to_text(), "version         13.5\n  compiles up to  sm_121\n"));
  CHECK(
      contains(report.to_json(), "\"architectures\": [\n      75,\n      107,\n      121\n    ]"));
}

TEST_CASE("the doctor tells a compiler that is newer than the driver loads") {
  DoctorReport report;
  report.driver.emplace();
  report.driver->version = 12040;
  report.driver->devices.emplace_back();
  report.compiler.emplace().found = true;
  report.compiler->library = "/opt/libnvrtc.so.13";
  report.compiler->named_major = 13; // nobody has opened it
  CHECK(report.compiler_too_new());
  CHECK_FALSE(report.usable());
  CHECK(contains(report.to_text(), "install NVRTC 12, or a newer driver"));
  CHECK(contains(report.to_text(), "driver of CUDA 12.4 does not load what /opt/libnvrtc.so.13"));
  report.driver->version = 13000;
  CHECK(report.usable());
  report.driver->version = 12040;
  report.compiler->major = 12;
  CHECK(report.usable());
  report.compiler->major = 13;
  report.driver->emulated = true; // takes PTX of any version
  CHECK(report.usable());
}

TEST_CASE("the doctor names a Jetson's release and power mode, from its files") {
  TemporaryFolder root;
  auto write = [&](const std::string &name, const std::string &text) {
    const std::filesystem::path path = root.path + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  };
  CHECK_FALSE(driver::read_board(root.path));
  write("/etc/nv_tegra_release", "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic\n");
  DoctorReport report;
  report.board = driver::read_board(root.path); // of a release alone
  REQUIRE(report.board);
  CHECK(report.board->l4t_version == "36.4.3");
  CHECK(contains(report.to_text(), "36.4.3, of JetPack 6"));
  CHECK_FALSE(contains(report.to_text(), "power mode"));
  write("/proc/device-tree/model", std::string("NVIDIA Jetson Orin Nano\0", 24));
  write("/var/lib/nvpmodel/status", "pmode:0001 fmode:quiet");
  write("/etc/nvpmodel.conf", "< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=1 NAME=15W >\n");
  report.board = driver::read_board(root.path);
  CHECK(report.board->model == "NVIDIA Jetson Orin Nano");
  CHECK(contains(report.to_text(), "1, 15W"));
  CHECK(contains(report.to_text(), "chooses another power mode than 15W"));
  CHECK(contains(report.to_json(), "\"jetpack\": \"JetPack 6\""));
  write("/var/lib/nvpmodel/status", "pmode:0000 fmode:quiet");
  report.board = driver::read_board(root.path);
  CHECK_FALSE(contains(report.to_text(), "chooses another power mode"));
  write("/etc/nv_tegra_release", "# R35 (release), REVISION: 5.0\n");
  report.board = driver::read_board(root.path);
  CHECK(contains(report.to_text(), "install JetPack 6 or later"));
}

TEST_CASE("a compiler is looked for that is no newer than the driver's CUDA") {
  CHECK(compiler_config("", "", 12040).newest_major == 12);
  CHECK(compiler_config("", "", 13000).newest_major == 13);
  CHECK(compiler_config("", "").newest_major == 0); // any
}

TEST_CASE("machine code that sets conditions needs NVRTC 12.3") {
  // ptxas of 12.2: "Unresolved extern function 'cudaGraphSetConditional'"
  CHECK_FALSE(links_conditions(12, 0));
  CHECK_FALSE(links_conditions(12, 2));
  CHECK(links_conditions(12, 3));
  CHECK(links_conditions(13, 0));
}
