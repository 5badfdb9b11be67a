// cp.async, and what the conformance suite does not say of wmma: faults, refusals.
#include "support/emulated.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

std::string names(char letter, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i)
    text += (i ? ", %" : "%") + std::string(1, letter) + std::to_string(i);
  return text + "}";
}

} // namespace

TEST_CASE("asynchronous copies land at the wait that covers their group") {
  // Two copies in two groups: before any wait the destination is as it was, after wait_group 1 the
  // first is there, after wait_group 0 the second; bytes beyond the source size are zero.
  const char *ptx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pd) {
  .shared .align 16 .b8 m[2048];
  .reg .b32 %lane, %s, %v, %n;
  .reg .b64 %a, %d;
  .reg .pred %skip;
  mov.u32 %lane, %laneid;
  mov.u32 %s, m;
  mad.lo.u32 %s, %lane, 48, %s;
  ld.param.u64 %a, [pa];
  mad.wide.u32 %a, %lane, 32, %a;
  ld.param.u64 %d, [pd];
  mad.wide.u32 %d, %lane, 32, %d;
  mov.u32 %v, 7;
  st.shared.u32 [%s], %v;
  st.shared.u32 [%s+16], %v;
  st.shared.u32 [%s+28], %v;
  st.shared.u32 [%s+32], %v;
  cp.async.cg.shared.global [%s], [%a], 16;
  cp.async.commit_group;
  mov.u32 %n, 8;
  cp.async.ca.shared.global [%s+16], [%a+16], 16, %n;
  cp.async.commit_group;
  setp.ne.u32 %skip, %lane, 0;
  cp.async.ca.shared.global [%s+32], [%a], 4, %skip;
  ld.shared.u32 %v, [%s];
  st.global.u32 [%d], %v;
  cp.async.wait_group 1;
  ld.shared.u32 %v, [%s];
  st.global.u32 [%d+4], %v;
  ld.shared.u32 %v, [%s+16];
  st.global.u32 [%d+8], %v;
  cp.async.wait_group 0;
  ld.shared.u32 %v, [%s+16];
  st.global.u32 [%d+12], %v;
  ld.shared.u32 %v, [%s+28];
  st.global.u32 [%d+16], %v;
  ld.shared.u32 %v, [%s+32];
  st.global.u32 [%d+20], %v;
  cp.async.wait_all;
  ld.shared.u32 %v, [%s+32];
  st.global.u32 [%d+24], %v;
  ret;
})";
  Emulated device;
  device.load(ptx);
  std::vector<uint32_t> a(32 * 8);
  for (uint32_t i = 0; i < a.size(); ++i)
    a[i] = 1000 + i;
  uint64_t pd = device.allocate(32 * 32);
  device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, device.upload(a), pd);
  auto d = device.download<uint32_t>(pd, 32 * 8);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t *got = &d[lane * 8];
    uint32_t first = 1000 + lane * 8;
    REQUIRE(got[0] == 7);
    REQUIRE(got[1] == first);
    REQUIRE(got[2] == 7);
    REQUIRE(got[3] == first + 4);
    REQUIRE(got[4] == 0);
    REQUIRE(got[5] == 7);
    REQUIRE(got[6] == (lane ? 0 : first)); // ignored sources are zeros
  }
}

namespace {

/// A kernel of four pointers around a wmma product of 16 x 16 x 16 in f16 and f32.
std::string wmma_kernel(const std::string &load_a, const std::string &between = "") {
  return ".version 7.1\n.target sm_80\n.address_size 64\n"
         ".visible .entry k(.param .u64 pa, .param .u64 pd) {\n"
         ".reg .b32 %a<8>, %b<8>; .reg .f32 %c<8>; .reg .b64 %pa, %pd; .reg .b32 %s;\n"
         ".shared .align 32 .b8 m[512];\n"
         "ld.param.u64 %pa, [pa]; ld.param.u64 %pd, [pd]; mov.u32 %s, 16;\n" +
         load_a + "\n" + between + "wmma.load.b.sync.aligned.row.m16n16k16.global.f16 " +
         names('b', 8) + ", [%pa];\n" + "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 " +
         names('c', 8) + ", [%pd];\n" + "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 " +
         names('c', 8) + ", " + names('a', 8) + ", " + names('b', 8) + ", " + names('c', 8) +
         ";\n" + "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%pd], " + names('c', 8) +
         ";\nret;\n}\n";
}

std::string load_a(const std::string &address, const std::string &rest = "") {
  return "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " + names('a', 8) + ", [" + address +
         "]" + rest + ";";
}

} // namespace

TEST_CASE("a wmma fragment that is one tile of mma.sync lies in its registers as there") {
  // "Matrix Fragments for mma.m16n8k16": a, and the first column tile of c.
  const char *ptx = ".version 7.1\n.target sm_80\n.address_size 64\n"
                    ".visible .entry k(.param .u64 pa, .param .u64 pd) {\n"
                    ".reg .b32 %r<8>; .reg .b32 %lane; .reg .b64 %x, %pa;\n"
                    "mov.u32 %lane, %laneid; ld.param.u64 %pa, [pa];\n"
                    "wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {%r0, %r1, %r2, %r3}, "
                    "[%pa];\n"
                    "ld.param.u64 %x, [pd]; mad.wide.u32 %x, %lane, 16, %x;\n"
                    "st.global.v4.b32 [%x], {%r0, %r1, %r2, %r3};\nret;\n}\n";
  Emulated device;
  device.load(ptx);
  std::vector<uint16_t> a(256);
  for (uint32_t i = 0; i < 256; ++i)
    a[i] = uint16_t(i);
  uint64_t pd = device.allocate(32 * 4 * 4);
  device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, device.upload(a), pd);
  auto got = device.download<uint32_t>(pd, 32 * 4);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 8; ++i) {
      const bool lower = i == 2 || i == 3 || i == 6 || i == 7;
      const int row = lane / 4 + (lower ? 8 : 0);
      const int column = lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8);
      uint32_t word = got[size_t(lane * 4 + i / 2)] >> (16 * (i % 2)) & 0xffff;
      REQUIRE(word == uint32_t(row * 16 + column));
    }
}

TEST_CASE("wmma faults beyond an allocation and where a row is not aligned") {
  Emulated device;
  uint64_t pd = device.upload(std::vector<float>(256)), pa = device.upload(std::vector<float>(128));
  device.load(wmma_kernel(load_a("%pa")));
  CHECK_FALSE(device.try_launch("k", {1, 1, 1}, {32, 1, 1}, 0, pa, pd));
  struct Case {
    std::string load;
    emulator::FaultKind kind;
    const char *message;
  };
  for (const Case &c :
       {Case{load_a("%pa+512"), emulator::FaultKind::illegal_address, "out-of-bounds"},
        Case{load_a("%pa", ", 32"), emulator::FaultKind::illegal_address, "out-of-bounds"},
        Case{load_a("%pa+8"), emulator::FaultKind::misaligned_address, "16 bytes"},
        Case{load_a("%pa", ", 17"), emulator::FaultKind::misaligned_address, "16 bytes"}}) {
    INFO(c.load);
    device.load(wmma_kernel(c.load));
    auto fault = device.try_launch("k", {1, 1, 1}, {32, 1, 1}, 0, pa, pd);
    REQUIRE(fault);
    CHECK(fault->kind == c.kind);
    CHECK(fault->message.find(c.message) != std::string::npos);
    CHECK(fault->message.find("at ptx line 8") != std::string::npos);
  }
}

TEST_CASE("wmma of sub-byte, double and mixed types, other shapes and short fragments is refused") {
  auto refusal = [](const std::string &line) {
    auto memory = std::move(emulator::AddressSpace::create(1u << 20)).value();
    auto program =
        emulator::Program::load(wmma_kernel(line), *emulator::find_profile("sm_90"), *memory);
    return program.ok() ? "accepted" : program.status().to_string();
  };
  const std::string a = names('a', 8);
  CHECK(refusal(load_a("%pa")) == "accepted");
  for (const char *opcode : {"wmma.load.a.sync.aligned.row.m8n8k32.global.s4",
                             "wmma.load.a.sync.aligned.row.m8n8k128.b1",
                             "wmma.load.a.sync.aligned.row.m8n8k4.global.f64",
                             "wmma.load.a.sync.aligned.row.m16n16k8.global.f16",
                             "wmma.load.a.sync.aligned.row.m16n16k16.global.tf32",
                             "wmma.load.a.aligned.row.m16n16k16.global.f16",
                             "wmma.load.a.sync.aligned.m16n16k16.global.f16",
                             "wmma.load.d.sync.aligned.row.m16n16k16.global.f32"}) {
    std::string text = refusal(std::string(opcode) + " " + a + ", [%pa];");
    INFO(opcode << ": " << text);
    CHECK(text.find(opcode) != std::string::npos);
    CHECK(text.find("ptx line 8") != std::string::npos);
  }
  CHECK(refusal("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32 " + a + ", " + a + ", " + a +
                ", " + a + ";")
            .find("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32") != std::string::npos);
  CHECK(refusal("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " + names('a', 4) + ", [%pa];")
            .find("a fragment of 4 registers instead of 8") != std::string::npos);
}
