// Clusters, barriers in shared memory, bulk copies, memory from the stack, registers of 128 bits.
#include "support/emulated.h"

#include <cstdlib>

using namespace cugrt;
using namespace cugrt::test;
using emulator::FaultKind;

namespace {

constexpr uint32_t kThreads = 64;

std::string cluster_kernel(const std::string &body, const std::string &directives = "") {
  return ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 o)" +
         directives +
         " {\n.reg .b32 %r<16>, %i; .reg .b64 %l<8>, %out, %base; .reg .b128 %w<4>; .reg .pred "
         "%p<4>;\n"
         ".shared .align 16 .b8 m[1024];\n.shared .align 8 .b64 bar;\nmov.u32 %i, %tid.x;\n"
         "mov.u32 %r15, %ctaid.x;\nmad.lo.u32 %r15, %r15, 64, %i;\nld.param.u64 %base, [o];\n"
         "mad.wide.u32 %out, %r15, 4, %base;\nmov.u32 %r14, m;\nmov.u32 %r13, bar;\n"
         "setp.eq.u32 %p3, %i, 0;\n" +
         body + "\nst.global.u32 [%out], %r0;\nret;\n}\n";
}

std::optional<emulator::Fault> fault_of(const std::string &body, uint32_t blocks = 1,
                                        const std::string &directives = "") {
  Emulated device;
  device.load(cluster_kernel(body, directives));
  return device.try_launch("k", {blocks, 1, 1}, {kThreads, 1, 1}, 0,
                           device.upload(std::vector<uint32_t>(kThreads * blocks + 1024)));
}

/// %r0 of each thread.
std::vector<uint32_t> run_cluster(const std::string &body, uint32_t blocks = 1,
                                  const std::string &directives = "") {
  Emulated device;
  device.load(cluster_kernel(body, directives));
  uint64_t out = device.upload(std::vector<uint32_t>(kThreads * blocks + 1024));
  device.launch("k", {blocks, 1, 1}, {kThreads, 1, 1}, 0, out);
  return device.download<uint32_t>(out, kThreads * blocks);
}

const std::string kMeet = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
const std::string kBegin = "@%p3 mbarrier.init.shared.b64 [%r13], 64;\nbar.sync 0;\n";
const std::string kWait =
    "wait:\nmbarrier.try_wait.parity.shared.b64 %p0, [%r13], 0;\n@!%p0 bra wait;\n";

} // namespace

TEST_CASE("without a launch's cluster each block is a cluster of its own") {
  auto got =
      run_cluster("mov.u32 %r1, %cluster_nctarank;\nmov.u32 %r2, %cluster_ctarank;\n"
                  "st.shared.u32 [%r14], %i;\n" +
                      kMeet +
                      "mapa.shared::cluster.u32 %r3, %r14, 0;\ncvt.u64.u32 %l0, %r14;\n"
                      "cvta.shared.u64 %l0, %l0;\nmapa.u64 %l0, %l0, %r2;\n"
                      "getctarank.u64 %r4, %l0;\ngetctarank.shared::cluster.u32 %r5, %r3;\n"
                      "ld.shared::cluster.u32 %r6, [%r3];\nld.u32 %r7, [%l0];\n"
                      "sub.u32 %r0, %r6, %r7;\nadd.u32 %r0, %r0, %r1;\nadd.u32 %r0, %r0, %r4;\n"
                      "add.u32 %r0, %r0, %r5;",
                  3);
  CHECK(got == std::vector<uint32_t>(3 * kThreads, 1));
}

TEST_CASE("a wait without an arrival, and a second arrival, are told") {
  auto early = fault_of("barrier.cluster.wait;");
  REQUIRE(early);
  CHECK(early->kind == FaultKind::illegal_instruction);
  CHECK(contains(early->message, "without an arrival"));
  auto twice = fault_of("barrier.cluster.arrive;\nbarrier.cluster.arrive;");
  REQUIRE(twice);
  CHECK(contains(twice->message, "arrive again"));
}

TEST_CASE("an address of a block that the cluster does not have is out of bounds") {
  auto fault =
      fault_of("mapa.shared::cluster.u32 %r1, %r14, 5;\nld.shared::cluster.u32 %r0, [%r1];");
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::illegal_address);
}

TEST_CASE("a barrier counts arrivals and bytes, and its phases alternate") {
  auto got = run_cluster(
      kBegin +
      "@%p3 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r13], 8;\nbar.sync 0;\n"
      "setp.lt.u32 %p1, %i, 60;\n@%p1 mbarrier.arrive.shared.b64 %l0, [%r13];\n"
      "bar.sync 0;\n@%p3 mbarrier.arrive.noComplete.shared.b64 %l1, [%r13], 2;\n"
      "@%p3 mbarrier.arrive_drop.noComplete.shared.b64 %l1, [%r13], 1;\n"
      "@%p3 mbarrier.pending_count.b64 %r1, %l1;\n@%p3 mbarrier.arrive_drop.shared.b64 %l1, "
      "[%r13];\n"
      "bar.sync 0;\nmbarrier.test_wait.parity.shared.b64 %p2, [%r13], 0;\nselp.u32 %r0, 100, 0, "
      "%p2;\n"
      "bar.sync 0;\n@%p3 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r13], 8;\n" +
      kWait +
      "add.u32 %r0, %r0, 1;\n@%p3 mbarrier.test_wait.shared.b64 %p2, [%r13], %l1;\n"
      "@%p3 selp.u32 %r2, 10, 0, %p2;\n@%p3 add.u32 %r0, %r0, %r2;\n@%p3 add.u32 %r0, %r0, %r1;\n"
      "bar.sync 0;\n@%p3 mbarrier.inval.shared.b64 [%r13];");
  CHECK(got[0] == 1 + 10 + 2); // two were pending before the first drop
  for (uint32_t i = 1; i < kThreads; ++i)
    REQUIRE(got[i] == 1);
}

TEST_CASE("what is no barrier, and what one cannot count, is told") {
  struct Row {
    std::string body, says;
  };
  for (const Row &row : std::initializer_list<Row>{
           {"mbarrier.arrive.shared.b64 %l0, [%r13];", "no mbarrier object"},
           {"@%p3 mbarrier.test_wait.parity.shared.b64 %p0, [%r13], 0;", "no mbarrier object"},
           {"mbarrier.init.shared.b64 [%r13], 0;", "a barrier of 0 arrivals"},
           {"@%p3 mbarrier.init.shared.b64 [%r13], 1;\nbar.sync 0;\n"
            "mbarrier.arrive.shared.b64 %l0, [%r13], 2;",
            "more arrivals"},
           {"@%p3 mbarrier.init.shared.b64 [%r13], 1;\nbar.sync 0;\n"
            "mbarrier.expect_tx.shared::cta.b64 [%r13], 1048575;",
            "more bytes"},
           {"mbarrier.init.b64 [%base], 1;", "not in shared memory"}}) {
    auto fault = fault_of(row.body);
    INFO(row.body);
    REQUIRE(fault);
    CHECK(contains(fault->message, row.says));
  }
}

TEST_CASE("copies land when their barrier or group is waited for, and not before") {
  // Without the wait the old bytes are seen.
  for (bool waits : {true, false}) {
    auto got = run_cluster(
        "st.shared.u32 [%r14], 5;\n@%p3 mbarrier.init.shared.b64 [%r13], 1;\nbar.sync 0;\n"
        "@%p3 st.global.u32 [%base], 77;\nbar.sync 0;\n"
        "@%p3 mbarrier.arrive.expect_tx.shared.b64 %l0, [%r13], 16;\n"
        "@%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], "
        "[%base], 16, "
        "[%r13];\nbar.sync 0;\n" +
        (waits ? kWait : std::string()) + "ld.shared.u32 %r0, [%r14];\nbar.sync 0;");
    CHECK(got == std::vector<uint32_t>(kThreads, waits ? 77 : 5));
    // To global memory, behind what the threads store.
    const std::string wait = waits ? "cp.async.bulk.wait_group 0;\n" : "";
    got = run_cluster("st.shared.u32 [%r14], 9;\nbar.sync 0;\nfence.proxy.async;\n@!%p3 bra end;\n"
                      "cp.async.bulk.global.shared::cta.bulk_group [%base+1024], [%r14], 16;\n"
                      "cp.async.bulk.commit_group;\n" +
                      wait + "end:\nbar.sync 0;\nld.global.u32 %r0, [%base+1024];\nbar.sync 0;");
    CHECK(got == std::vector<uint32_t>(kThreads, waits ? 9 : 0));
    // cp.async with its arrival.
    got = run_cluster(kBegin +
                      "@%p3 st.global.u32 [%base], 21;\nst.shared.u32 [%r14], 5;\nbar.sync 0;\n"
                      "@%p3 cp.async.ca.shared.global [%r14], [%base], 4;\n"
                      "cp.async.mbarrier.arrive.noinc.shared.b64 [%r13];\nbar.sync 0;\n" +
                      (waits ? kWait : std::string()) + "ld.shared.u32 %r0, [%r14];\nbar.sync 0;");
    CHECK(got == std::vector<uint32_t>(kThreads, waits ? 21 : 5));
  }
}

TEST_CASE("bulk copies move multiples of 16 bytes between multiples of 16") {
  const std::string begin =
      "@%p3 mbarrier.init.shared.b64 [%r13], 1;\nbar.sync 0;\nmov.u32 %r1, 24;\n";
  auto odd = fault_of(begin + "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                              "[%r14], [%base], %r1, [%r13];");
  REQUIRE(odd);
  CHECK(odd->kind == FaultKind::misaligned_address);
  auto misplaced = fault_of(
      begin + "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r14+8], "
              "[%base], 16, [%r13];");
  REQUIRE(misplaced);
  CHECK(misplaced->kind == FaultKind::misaligned_address);
}

TEST_CASE("threads take memory from their stacks and give it back") {
  auto got =
      run_cluster("stacksave.u64 %l0;\nstacksave.u32 %r3;\nalloca.u64 %l1, 24, 16;\n"
                  "st.local.u32 [%l1+20], %i;\nmov.u32 %r4, 8;\nalloca.u32 %r5, %r4;\n"
                  "st.local.u32 [%r5], 3;\nld.local.u32 %r0, [%l1+20];\nld.local.u32 %r1, [%r5];\n"
                  "add.u32 %r0, %r0, %r1;\nstackrestore.u32 %r3;\nstackrestore.u64 %l0;\n"
                  "stacksave.u64 %l2;\nsub.u64 %l2, %l2, %l0;\ncvt.u32.u64 %r1, %l2;\n"
                  "add.u32 %r0, %r0, %r1;");
  for (uint32_t i = 0; i < kThreads; ++i)
    REQUIRE(got[i] == i + 3);
  auto fault = fault_of("alloca.u64 %l1, 4096;");
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::stack_overflow);
}

TEST_CASE("128 bits are exchanged and compared as one") {
  auto got = run_cluster("mul.wide.u32 %l0, %i, 16;\nadd.u64 %l0, %l0, %base;\nmov.u64 %l1, 7;\n"
                         "mov.u64 %l2, 8;\nmov.b128 %w0, {%l1, %l2};\nmov.b128 %w2, {%l2, %l1};\n"
                         "atom.global.exch.b128 %w1, [%l0+256], %w0;\n"
                         "atom.global.cas.b128 %w3, [%l0+256], %w0, %w2;\n"
                         "atom.global.cas.b128 %w1, [%l0+256], %w0, %w0;\n"
                         "mov.b128 {%l3, %l4}, %w1;\nmov.b128 {%l5, %l6}, %w3;\n"
                         "mad.lo.u64 %l3, %l3, 10, %l4;\nmad.lo.u64 %l5, %l5, 10, %l6;\n"
                         "mad.lo.u64 %l3, %l3, 100, %l5;\ncvt.u32.u64 %r0, %l3;");
  CHECK(got == std::vector<uint32_t>(kThreads, 8778));
}
