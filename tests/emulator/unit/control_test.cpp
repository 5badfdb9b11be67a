// Control flow, calls and what a launch hands to its kernels, beyond the conformance cases.
#include "emulator/exec/thread_pool.h"
#include "support/emulated.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace cugrt;
using namespace cugrt::test;

namespace {

std::string control_kernel(const std::string &body) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 o) {\n"
         ".reg .b32 %r<16>, %i; .reg .b64 %l<8>, %out; .reg .b16 %h<4>; .reg .pred %p<4>;\n"
         ".shared .align 8 .b8 m[1024];\nmov.u32 %i, %tid.x;\nld.param.u64 %out, [o];\n"
         "mad.wide.u32 %out, %i, 8, %out;\n" +
         body + "\n}\n";
}

/// What each of `threads` threads stores, eight bytes at %out.
std::vector<uint64_t> run_control(const std::string &body, uint32_t threads = 64) {
  Emulated device;
  device.load(control_kernel(body));
  uint64_t out = device.upload(std::vector<uint64_t>(threads));
  device.launch("k", {1, 1, 1}, {threads, 1, 1}, 0, out);
  return device.download<uint64_t>(out, threads);
}

} // namespace

// In a process of its own: other reporters than the console's do not outlive exit().
TEST_CASE("child: forks after kernels have run", "[.]") {
  auto launch = [] {
    Emulated device;
    device.load(control_kernel("mov.u32 %r0, %ctaid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\n"
                               "st.global.u32 [%out], 7;\nret;"));
    uint64_t out = device.upload(std::vector<uint64_t>(64));
    device.launch("k", {8, 1, 1}, {64, 1, 1}, 0, out); // in several blocks, with helpers
    return device.download<uint64_t>(out, 64)[63];
  };
  REQUIRE(launch() == 7);
  for (bool launches : {false, true}) {
    std::fflush(nullptr);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(20); // for a child that does not end
      const bool good = !launches || launch() == 7;
      std::exit(good ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    INFO("status " << status);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("a forked child of a process that has run kernels runs others, and ends", "[fork]") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "'" + self + "' 'child: forks after kernels have run' > /dev/null";
  CHECK(std::system(command.c_str()) == 0);
}

// A thread keeps the helpers at work, so that one of them holds the pool's lock in some of the
// forks.
TEST_CASE("a child forked while helpers work has helpers of its own", "[fork]") {
  std::atomic<bool> ends{false};
  std::thread launching([&] {
    while (!ends)
      emulator::ThreadPool::shared().run(1, [] {});
  });
  int stuck = 0;
  for (int i = 0; i < 100 && !stuck; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5); // ends a child that waits for ever
      std::atomic<int> ran{0};
      emulator::ThreadPool::shared().run(1, [&] { ++ran; });
      _exit(ran >= 1 ? 0 : 1);
    }
    int status = -1;
    stuck = child < 0 || waitpid(child, &status, 0) != child || status != 0;
  }
  ends = true;
  launching.join();
  CHECK(stuck == 0);
}

TEST_CASE("breakpoints and traps end the launch with their place") {
  for (const char *end : {"brkpt", "trap"}) {
    Emulated device;
    device.load(control_kernel(std::string("setp.eq.u32 %p0, %i, 5;\n@%p0 ") + end + ";\nret;"));
    auto fault = device.try_launch("k", {1, 1, 1}, {64, 1, 1}, 0, device.allocate(512));
    REQUIRE(fault);
    CHECK(fault->kind == emulator::FaultKind::trap);
    CHECK(fault->message.find("thread (5, 0, 0)") != std::string::npos);
  }
}

TEST_CASE("guards cover every kind of instruction, hints do nothing") {
  auto got = run_control(
      "mov.u32 %r0, 7;\nand.b32 %r1, %i, 1;\nsetp.eq.u32 %p0, %r1, 0;\n@%p0 mov.u32 %r0, 8;\n"
      "@!%p0 mad.lo.u32 %r0, %r0, 3, %i;\nprefetch.global.L1 [%out];\nnanosleep.u32 10;\n"
      "@%p0 st.global.u32 [%out], %r0;\n@!%p0 st.global.u32 [%out+4], %r0;\nret;");
  for (uint32_t i = 0; i < got.size(); ++i)
    REQUIRE(got[i] == (i % 2 ? uint64_t(21 + i) << 32 : 8));
}

TEST_CASE("values in wider registers are extended as their type says") {
  auto got =
      run_control("neg.s32 %r0, %i;\nst.global.u32 [%out], %r0;\nld.global.s32 %l0, [%out];\n"
                  "cvt.u16.u32 %h0, %r0;\nmov.b64 {%r1, %r2}, %l0;\nadd.u32 %r1, %r1, %r2;\n"
                  "mov.b64 %l1, {%r1, %r2};\nst.global.u64 [%out], %l1;\nret;");
  for (uint32_t i = 0; i < got.size(); ++i) {
    uint32_t low = 0u - i, high = i ? ~0u : 0;
    REQUIRE(got[i] == (uint64_t(low + high) | uint64_t(high) << 32));
  }
}

TEST_CASE("a call has as many arguments as a function has parameters") {
  std::string parameters, arguments, sum;
  for (int i = 0; i < 200; ++i) {
    const std::string comma = i ? ", " : "", name = "p" + std::to_string(i);
    parameters += comma + ".reg .b32 " + name;
    arguments += comma + "%r" + std::to_string(i % 2);
    sum += "add.u32 r, r, " + name + ";";
  }
  Emulated device;
  std::string text = control_kernel("mov.u32 %r0, 3; add.u32 %r1, %i, 5; call (%r2), total, (" +
                                    arguments + "); st.global.u32 [%out], %r2; ret;");
  text.insert(text.find(".visible"),
              ".func (.reg .b32 r) total(" + parameters + ") { mov.u32 r, 0;" + sum + " ret; }\n");
  device.load(text);
  const uint64_t out = device.upload(std::vector<uint64_t>(32));
  device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, out);
  const auto got = device.download<uint64_t>(out, 32);
  for (uint64_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == 100 * 3 + 100 * (i + 5));
}

TEST_CASE("lanes that meet at one operation over a backward branch go on together") {
  struct Row {
    const char *operation;
    uint64_t (*result)(uint64_t lane, uint64_t turn); // what lane `lane` finds in %r3
  };
  const auto row = GENERATE(
      Row{"shfl.sync.idx.b32 %r3, %i, %r2, 31, -1;", [](uint64_t, uint64_t turn) { return turn; }},
      Row{"vote.sync.ballot.b32 %r3, %p0, -1; shr.u32 %r3, %r3, 12;",
          [](uint64_t, uint64_t turn) { return (0xffffffff & ~(uint64_t(1) << turn)) >> 12; }},
      Row{"match.any.sync.b32 %r3, %r5, -1; shr.u32 %r3, %r3, 8;",
          [](uint64_t lane, uint64_t) { return (uint64_t(0xff) << lane / 8 * 8) >> 8; }},
      Row{"redux.sync.add.u32 %r3, %i, -1;", [](uint64_t, uint64_t) { return uint64_t(31 * 16); }},
      Row{"elect.sync %r3|%p3, -1; add.u32 %r3, %r3, 5;",
          [](uint64_t, uint64_t) { return uint64_t(5); }},
      Row{"bar.warp.sync -1; mov.u32 %r3, 3;", [](uint64_t, uint64_t) { return uint64_t(3); }},
      Row{"mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%r3, %r8, %r10, %r11}, {%r6, %r6}, "
          "{%r6}, "
          "{%r9, %r9, %r9, %r9};",
          [](uint64_t, uint64_t) { return uint64_t(16); }},
      Row{"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r7];",
          [](uint64_t lane, uint64_t) { return lane; }});
  const uint32_t idle_turns = GENERATE(1, 50, 2000); // so that turns of paths end in other places
  INFO(row.operation << " after " << idle_turns);
  // In each turn one lane goes another way, and those above it add what the operation gives.
  auto sums = run_control(
      "mov.u32 %r6, m; mad.lo.u32 %r7, %i, 4, %r6; st.shared.u32 [%r7], %i;\n"
      "and.b32 %r7, %i, 7; mad.lo.u32 %r7, %r7, 16, %r6; bar.warp.sync -1;\n"
      "shr.u32 %r5, %i, 3; mov.u32 %r6, 0x01010101; mov.u32 %r9, 0;\n"
      "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r4, 0;\n"
      "idle: add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, " +
          std::to_string(idle_turns) +
          "; @%p3 bra idle;\n"
          "again: setp.ne.u32 %p0, %i, %r2; @%p0 bra skip;\nadd.u32 %r1, %r1, 1;\n"
          "skip: setp.gt.u32 %p1, %i, %r2;\n" +
          row.operation +
          "\nadd.u32 %r2, %r2, 1; setp.eq.u32 %p2, %r2, 32; @%p2 bra done;\n@!%p1 bra again;\n"
          "add.u32 %r1, %r1, %r3; bra.uni again;\ndone: st.global.u32 [%out], %r1; ret;",
      32);
  for (uint64_t lane = 0; lane < 32; ++lane) {
    uint64_t expected = 1;
    for (uint64_t turn = 0; turn < lane; ++turn)
      expected += row.result(lane, turn);
    CHECK(sums[lane] == uint32_t(expected));
  }
}

TEST_CASE("a function keeps shared variables of its own") {
  Emulated device;
  device.load(".version 8.0\n.target sm_80\n.address_size 64\n"
              ".func (.reg .b32 %d) rotate(.reg .b32 %v, .reg .b32 %i) {\n.reg .b32 %s, %t;\n"
              ".shared .align 4 .b8 words[256];\nmov.u32 %s, words;\nmad.lo.u32 %t, %i, 4, %s;\n"
              "st.shared.u32 [%t], %v;\nbar.sync 0;\nadd.u32 %t, %i, 1;\nand.b32 %t, %t, 63;\n"
              "mad.lo.u32 %t, %t, 4, %s;\nld.shared.u32 %d, [%t];\nret;\n}\n"
              ".visible .entry k(.param .u64 o) {\n.reg .b32 %i, %v, %d, %s; .reg .b64 %x;\n"
              ".shared .align 4 .b8 own[256];\nmov.u32 %i, %tid.x;\nmov.u32 %s, own;\n"
              "mad.lo.u32 %s, %i, 4, %s;\nst.shared.u32 [%s], 77;\nmul.lo.u32 %v, %i, %i;\n"
              "call (%d), rotate, (%v, %i);\nld.shared.u32 %v, [%s];\nld.param.u64 %x, [o];\n"
              "mad.wide.u32 %x, %i, 8, %x;\nst.global.v2.u32 [%x], {%d, %v};\nret;\n}\n");
  uint64_t out = device.allocate(64 * 8);
  device.launch("k", {1, 1, 1}, {64, 1, 1}, 0, out);
  auto got = device.download<uint32_t>(out, 128);
  for (uint32_t i = 0; i < 64; ++i) {
    uint32_t next = (i + 1) % 64;
    REQUIRE(got[2 * i] == next * next);
    REQUIRE(got[2 * i + 1] == 77);
  }
}

TEST_CASE("dependent launches ask the launch for what they wait for") {
  Emulated device;
  device.load(control_kernel("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;\n"
                             "ld.global.u64 %l0, [%out];\nadd.u64 %l0, %l0, 1;\n"
                             "st.global.u64 [%out], %l0;\nret;"));
  uint64_t out = device.upload(std::vector<uint64_t>(64));
  auto *words = reinterpret_cast<uint64_t *>(device.memory().host(out));
  std::atomic<int> waits{0}, launches{0};
  // The predecessor's writes are made when the first warp waits.
  const std::function<void()> wait = [&] {
    if (waits++ == 0)
      std::fill_n(words, 64, 41);
  };
  const std::function<void()> launch = [&] { ++launches; };
  emulator::LaunchConfig config;
  config.block = {64, 1, 1};
  config.params = std::as_bytes(std::span(&out, 1));
  config.wait_for_predecessors = &wait;
  config.launch_dependents = &launch;
  REQUIRE_FALSE(device.program().launch(*device.program().find_kernel("k"), config));
  CHECK(waits == 2);
  CHECK(launches == 2);
  for (int i = 0; i < 64; ++i)
    REQUIRE(words[i] == 42);
}

TEST_CASE("blocks that wait for one another get on after few instructions") {
  // One thread of each block goes round until all blocks have arrived, its others wait for it.
  constexpr uint32_t kBlocks = 16, kThreads = 64;
  for (const char *load :
       {"ld.volatile.global.u32 %r2, [%l0]", "ld.acquire.gpu.global.u32 %r2, [%l0]",
        "atom.global.or.b32 %r2, [%l0], 0",
        // Registers that change in the loop: a counter, what would stop it, and a pause.
        "add.u32 %r3, %r3, 1;\nld.volatile.global.u32 %r2, [%l0]",
        "add.u32 %r3, %r3, 1;\nld.relaxed.gpu.global.u32 %r2, [%l0]",
        "add.u32 %r3, %r3, 1;\natom.global.cas.b32 %r2, [%l0], -1, 0",
        "add.u64 %l1, %l1, 1;\natom.global.add.u32 %r2, [%l0], 0",
        "mov.u32 %r3, 0;\npause:\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, 20;\n"
        "@%p1 bra pause;\nadd.u64 %l1, %l1, 1;\nld.volatile.global.u32 %r2, [%l0]"}) {
    INFO(load);
    Emulated device;
    device.load(control_kernel("ld.param.u64 %l0, [o];\nmov.u32 %r1, %nctaid.x;\nmov.u32 %r3, 0;\n"
                               "mov.u64 %l1, 0;\nsetp.ne.u32 %p0, %i, 0;\n@%p0 bra meet;\n"
                               "red.global.add.u32 [%l0], 1;\nspin:\n" +
                               std::string(load) +
                               ";\nsetp.lt.u32 %p1, %r2, %r1;\n@%p1 bra spin;\nmeet:\nbar.sync 0;\n"
                               "red.global.add.u32 [%l0+4], 1;\nret;"));
    uint64_t out = device.upload(std::vector<uint32_t>(2));
    emulator::ExecutionCounters counters;
    emulator::LaunchConfig config;
    config.grid = {kBlocks, 1, 1};
    config.block = {kThreads, 1, 1};
    config.params = std::as_bytes(std::span(&out, 1));
    config.counters = &counters;
    config.max_threads = 1; // what runs when is the same each time
    REQUIRE_FALSE(device.program().launch(*device.program().find_kernel("k"), config));
    const auto words = device.download<uint32_t>(out, 2);
    CHECK(words[0] == kBlocks);
    CHECK(words[1] == kBlocks * kThreads);
    // Each block goes round a few hundred times before it makes way for the next.
    CHECK(counters.warp_instructions < kBlocks * 5000);
  }
}

namespace {

// double_it is declared before the tables that name it and defined behind them, as nvcc does it;
// Shape::area(this, x) multiplies by the member behind the pointer to the virtual table.
constexpr const char *kFunctionTables = R"(.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 r) double_it(.param .b32 a);
.func (.param .b32 r) add_ten(.param .b32 a) {
  .reg .b32 %r;
  ld.param.b32 %r, [a];
  add.s32 %r, %r, 10;
  st.param.b32 [r], %r;
  ret;
}
.func (.param .b32 r) area(.param .b64 self, .param .b32 x);
.global .align 8 .u64 table[4] = {double_it, 7, add_ten};
.const .align 8 .u64 fixed[2] = {add_ten, double_it};
.global .align 8 .u8 bytes[8] = {0xFF(add_ten), 0xFF00(add_ten), 0, 0, 0, 0, 0, 0xFF00000000000000(add_ten)};
.global .align 8 .u64 vtable[3] = {0, 0, area};
.func (.param .b32 r) double_it(.param .b32 a) {
  .reg .b32 %r;
  ld.param.b32 %r, [a];
  shl.b32 %r, %r, 1;
  st.param.b32 [r], %r;
  ret;
}
.func (.param .b32 r) area(.param .b64 self, .param .b32 x) {
  .reg .b32 %r<3>; .reg .b64 %rd;
  ld.param.u64 %rd, [self];
  ld.param.b32 %r1, [x];
  ld.u32 %r2, [%rd+8];
  mul.lo.s32 %r1, %r1, %r2;
  st.param.b32 [r], %r1;
  ret;
}
// out[i] = (the function at table + offset * (i & 1))(i)
.entry by_table(.param .u64 out, .param .u32 constant) {
  .reg .b32 %r<5>; .reg .b64 %rd<5>; .reg .pred %p;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 1;
  ld.param.u32 %r3, [constant];
  setp.ne.s32 %p, %r3, 0;
  @%p bra fixed_one;
  mul.wide.u32 %rd2, %r2, 16;
  mov.u64 %rd3, table;
  add.s64 %rd3, %rd3, %rd2;
  ld.global.u64 %rd4, [%rd3];
  bra found;
fixed_one:
  mul.wide.u32 %rd2, %r2, 8;
  mov.u64 %rd3, fixed;
  add.s64 %rd3, %rd3, %rd2;
  ld.const.u64 %rd4, [%rd3];
found:
  { .param .b32 a; .param .b32 r;
    st.param.b32 [a], %r1;
    proto: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (r), %rd4, (a), proto;
    ld.param.b32 %r4, [r]; }
  mad.wide.u32 %rd1, %r1, 4, %rd1;
  st.global.u32 [%rd1], %r4;
  ret;
}
.entry by_virtual_table(.param .u64 out) {
  .local .align 8 .b8 object[16];
  .reg .b32 %r<5>; .reg .b64 %rd<7>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u64 %rd2, vtable;
  cvta.global.u64 %rd2, %rd2;
  add.s64 %rd2, %rd2, 16;
  mov.u64 %rd3, object;
  st.local.u64 [%rd3], %rd2;
  st.local.u32 [%rd3+8], %r1;
  cvta.local.u64 %rd3, %rd3;
  ld.u64 %rd4, [%rd3];
  ld.u64 %rd5, [%rd4];
  { .param .b64 self; .param .b32 x; .param .b32 r;
    st.param.b64 [self], %rd3;
    st.param.b32 [x], %r1;
    proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _);
    call (r), %rd5, (self, x), proto;
    ld.param.b32 %r4, [r]; }
  mad.wide.u32 %rd1, %r1, 4, %rd1;
  st.global.u32 [%rd1], %r4;
  ret;
}
)";

Status refusal(const std::string &items) {
  auto memory = std::move(emulator::AddressSpace::create(1u << 20)).value();
  auto program = emulator::Program::load(".version 8.0\n.target sm_80\n.address_size 64\n" + items,
                                         *emulator::find_profile("sm_90"), *memory);
  return program.take_status();
}

} // namespace

TEST_CASE("functions whose addresses stand in initialisers are called through them") {
  Emulated device;
  device.load(kFunctionTables);
  uint64_t out = device.upload(std::vector<uint32_t>(32));
  for (uint32_t constant : {0u, 1u}) {
    device.launch("by_table", {1, 1, 1}, {32, 1, 1}, 0, out, constant);
    auto got = device.download<uint32_t>(out, 32);
    for (uint32_t i = 0; i < 32; ++i)
      CHECK(got[i] == ((i & 1) != constant ? i + 10 : i * 2));
  }
  device.launch("by_virtual_table", {1, 1, 1}, {32, 1, 1}, 0, out);
  auto got = device.download<uint32_t>(out, 32);
  for (uint32_t i = 0; i < 32; ++i)
    CHECK(got[i] == i * i);
  // The bytes of an address that masks pick are those of the whole one.
  auto bytes = device.program().find_global("bytes"), table = device.program().find_global("table");
  REQUIRE((bytes && table));
  uint64_t address = device.download<uint64_t>(table->address + 16, 1)[0];
  CHECK(device.download<uint64_t>(bytes->address, 1)[0] == (address & 0xff0000000000ffff));
}

TEST_CASE("initialisers that name what has no address there are refused with their line") {
  struct Case {
    const char *items, *part;
  };
  const Case cases[] = {
      {".global .u64 t[2] = {0, nowhere};", "nowhere"},
      {".global .u64 t = f;\n.func f() { ret; }", "'f'"}, // as ptxas: only what stands before
      {".func f();\n.global .u64 t = f;", "'f'"},
      {".func f() { ret; }\n.global .u64 t = generic(f);", "generic"},
      {".func f() { ret; }\n.global .u64 t = f+4;", "'+'"},
      {".func f() { ret; }\n.global .b64 t = f;", ".u64"},
      {".func f() { ret; }\n.global .u8 t = f;", ".u64"},
      {".global .u32 v;\n.global .u8 t = 0xFE(v);", "mask"},
      {".global .u32 v;\n.global .u8 t = 0(v);", "mask"},
      {".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
       ".global .u64 t = vprintf;",
       "vprintf"},
      {".func f();\n.entry k() { .reg .b64 %r; mov.u64 %r, f; ret; }", "'f'"},
  };
  for (const Case &c : cases) {
    Status status = refusal(c.items);
    INFO(c.items << " gives " << status.to_string());
    CHECK(status.code() == Code::parse_error);
    CHECK(status.to_string().find("line ") != std::string::npos);
    CHECK(status.to_string().find(c.part) != std::string::npos);
  }
}

TEST_CASE("constant expressions have C's operators, in initialisers and operands") {
  struct Case {
    const char *text;
    uint64_t value;
  };
  // C's arithmetic in 64 bits; that % is unsigned and shifts count modulo 64 is ptxas's.
  const Case cases[] = {{"(1<<3)|2", 10},
                        {"5>3?1:2", 1},
                        {"1==1&&0||1", 1},
                        {"7^2&3", 5},
                        {"!0", 1},
                        {"!5+1", 1},
                        {"~0", ~uint64_t(0)},
                        {"10 % 3", 1},
                        {"-7 % 5", 4}, // 2^64 - 7 modulo 5
                        {"-7/2", uint64_t(-3)},
                        {"-7 / -1", 7},
                        {"(-1)/2U", UINT64_MAX / 2},
                        {"0xFFFFFFFFFFFFFFFF/2", UINT64_MAX / 2},
                        {"-8>>1", uint64_t(-4)},
                        {"(.u64)-8>>60", 15},
                        {"1<<65", 2},
                        {"8>>1<<2", 16},
                        {"2+3<<1", 10},
                        {"2+3*4", 14},
                        {"10-3-2", 5},
                        {"-1+2", 1},
                        {"- -3", 3},
                        {"1?2?3:4:5", 3},
                        {"0?2:0?4:5", 5},
                        {"5<=2", 0},
                        {"3>=2", 1},
                        {"1!=2", 1},
                        {"3>3", 0},
                        {"-1<0U", 0},
                        {"-1<0", 1},
                        {"(2)*(3+4)", 14}};
  std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n.global .u64 t[] = {";
  for (const Case &c : cases)
    text += std::string(c.text) + ", ";
  text += "((0))};\n.entry k(.param .u64 out) {\n.reg .b64 %o, %v;\nld.param.u64 %o, [out];\n";
  for (size_t i = 0; i < std::size(cases); ++i)
    text += std::string("mov.u64 %v, ") + cases[i].text + ";\nst.global.u64 [%o+2*" +
            std::to_string(4 * i) + "], %v;\n";
  Emulated device;
  device.load(text + "ret;\n}\n");
  auto table = device.program().find_global("t");
  REQUIRE(table);
  REQUIRE(table->bytes == 8 * (std::size(cases) + 1));
  auto initial = device.download<uint64_t>(table->address, std::size(cases));
  uint64_t out = device.upload(std::vector<uint64_t>(std::size(cases)));
  device.launch("k", {1, 1, 1}, {1, 1, 1}, 0, out);
  auto moved = device.download<uint64_t>(out, std::size(cases));
  for (size_t i = 0; i < std::size(cases); ++i) {
    INFO(cases[i].text);
    CHECK(initial[i] == cases[i].value);
    CHECK(moved[i] == cases[i].value);
  }
}
