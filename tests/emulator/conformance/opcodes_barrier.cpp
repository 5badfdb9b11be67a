// Barriers in shared memory: mbarrier, arrivals of cp.async.
#include "opcode_case.h"

namespace cugrt::conformance {

namespace {

constexpr char kBarrierSection[] =
    "Parallel Synchronization and Communication Instructions: mbarrier";

/// A program of `threads` threads that each store %x. %s is the address of a barrier, which thread
/// 0 has begun for `count` arrivals.
void add(OpcodeCases &cases, const std::string &name, uint32_t threads, const std::string &count,
         const std::string &body, const char *rule,
         const std::function<uint32_t(uint32_t thread)> &result, Target target = {80, "7.1"},
         uint32_t blocks = 1, uint32_t cluster = 0) {
  Program &p = cases.program(name, kBarrierSection, rule);
  p.threads = threads;
  p.blocks = blocks;
  p.cluster = cluster;
  p.target = target;
  p.body = ".reg .b32 %x, %s, %g, %r<8>;\n.reg .b64 %d, %t, %l<8>;\n.reg .pred %p, %q, %first;\n"
           ".shared .align 16 .b64 bar[2];\nmov.u32 %g, %ctaid.x;\nmov.u32 %r0, %ntid.x;\n"
           "mad.lo.u32 %g, %g, %r0, %i;\nmad.wide.u32 %d, %g, 4, %out;\nmov.u32 %x, 0;\n"
           "mov.u32 %s, bar;\nsetp.eq.u32 %first, %i, 0;\n@%first mbarrier.init.shared.b64 [%s], " +
           count + ";\nbar.sync 0;\n" + body + "\nst.global.u32 [%d], %x;";
  for (uint32_t i = 0; i < threads * blocks; ++i)
    p.expected.push_back(result(i));
}

void add_phases(OpcodeCases &cases) {
  const std::string sum =
      ".shared .align 4 .b32 m[96];\nmov.u32 %r1, m;\nmad.lo.u32 %r1, %i, 4, %r1;\n"
      "add.u32 %r2, %i, 100;\nst.shared.u32 [%r1], %r2;\n";
  const std::string mirror = "sub.u32 %r3, 95, %i;\nmov.u32 %r1, m;\nmad.lo.u32 %r1, %r3, 4, %r1;\n"
                             "ld.shared.u32 %x, [%r1];";
  add(cases, "mbarrier.arrive and test_wait of a state", 96, "96",
      sum +
          "mbarrier.arrive.shared.b64 %t, [%s];\nagain:\n"
          "mbarrier.test_wait.shared.b64 %p, [%s], %t;\n@!%p bra again;\n" +
          mirror,
      "the phase is complete when all have arrived", [](uint32_t i) { return 100 + 95 - i; });
  add(cases, "mbarrier.try_wait.parity through eight phases", 64, "64",
      "mov.u32 %r7, 0;\nagain:\nmbarrier.arrive.shared::cta.b64 _, [%s];\nand.b32 %r1, %r7, "
      "1;\nwait:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 %p, [%s], %r1, 100;\n@!%p bra wait;\n"
      "add.u32 %x, %x, %r1;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %q, %r7, 8;\n@%q bra again;",
      "the phases' parities alternate, beginning with 0", [](uint32_t) { return 4; }, {90, "7.8"});
  add(cases, "mbarrier.test_wait.parity of the phase before the first", 32, "32",
      "mbarrier.test_wait.parity.shared.b64 %p, [%s], 1;\nselp.u32 %x, 10, 0, %p;\n"
      "mbarrier.test_wait.parity.shared.b64 %q, [%s], 0;\n@%q add.u32 %x, %x, 1;",
      "of the parity other than the present phase's: complete", [](uint32_t) { return 10; });
  add(cases, "mbarrier.arrive with a count, and arrive_drop", 64, "64",
      // Thread 0 arrives for ten and drops one of the next phase; nine others do not arrive.
      "setp.lt.u32 %p, %i, 10;\nmov.pred %q, %first;\n@%q mbarrier.arrive.shared.b64 %t, [%s], 9;\n"
      "@%q mbarrier.arrive_drop.shared.b64 %t, [%s];\n@!%p mbarrier.arrive.shared.b64 %t, "
      "[%s];\nwait:\n"
      "mbarrier.test_wait.parity.shared.b64 %p, [%s], 0;\n@!%p bra wait;\nbar.sync 0;\n"
      // The second phase waits for 63: the first thread is not among them.
      "@!%q mbarrier.arrive.shared.b64 %t, [%s];\nwait2:\n"
      "mbarrier.test_wait.parity.shared.b64 %p, [%s], 1;\n@!%p bra wait2;\nmov.u32 %x, 7;",
      "arrive_drop takes its count off the phases that follow", [](uint32_t) { return 7; },
      {90, "7.8"});
  add(cases, "mbarrier.arrive_drop.noComplete", 1, "3",
      // The second phase waits for two.
      "mbarrier.arrive_drop.noComplete.shared.b64 %t, [%s], 1;\nmbarrier.pending_count.b64 %r1, "
      "%t;\n"
      "mbarrier.arrive.shared.b64 %t, [%s], 2;\nmbarrier.arrive.shared.b64 %t, [%s];\n"
      "mbarrier.pending_count.b64 %r2, %t;\nmad.lo.u32 %x, %r1, 10, %r2;",
      "arrive_drop takes its count off the phases that follow", [](uint32_t) { return 32; },
      {90, "7.8"});
  add(cases, "mbarrier.pending_count of the states of arrivals, one after the other", 1, "5",
      "mbarrier.arrive.shared.b64 %t, [%s];\nmbarrier.pending_count.b64 %r1, %t;\n"
      "mbarrier.arrive.noComplete.shared.b64 %t, [%s], 2;\nmbarrier.pending_count.b64 %r2, %t;\n"
      "mbarrier.arrive.shared.b64 %t, [%s];\nmbarrier.pending_count.b64 %r3, %t;\n"
      "mad.lo.u32 %x, %r1, 10, %r2;\nmad.lo.u32 %x, %x, 10, %r3;",
      "the count of pending arrivals before the arrival that gave the state",
      [](uint32_t) { return 542; });
  add(cases, "mbarrier.inval, then init for another count", 32, "7",
      "@%first mbarrier.inval.shared.b64 [%s];\n@%first mbarrier.init.shared.b64 [%s], 32;\n"
      "bar.sync 0;\nmbarrier.arrive.shared.b64 %t, [%s];\nwait:\n"
      "mbarrier.test_wait.shared.b64 %p, [%s], %t;\n@!%p bra wait;\nmov.u32 %x, 3;",
      "the object may be begun again", [](uint32_t) { return 3; });
  add(cases, "mbarrier at a generic address", 64, "64",
      "cvt.u64.u32 %l0, %s;\ncvta.shared.u64 %l0, %l0;\nmbarrier.arrive.b64 %t, [%l0];\nwait:\n"
      "mbarrier.test_wait.b64 %p, [%l0], %t;\n@!%p bra wait;\nmov.u32 %x, 9;",
      "without .shared the address is generic", [](uint32_t) { return 9; });
}

void add_bytes(OpcodeCases &cases) {
  const Target target{90, "8.0"};
  add(
      cases, "mbarrier.expect_tx and complete_tx", 32, "1",
      "@%first mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%s], 24;\n"
      "@%first mbarrier.arrive.shared.b64 %t, [%s];\nbar.sync 0;\n"
      "mbarrier.test_wait.parity.shared.b64 %p, [%s], 0;\n@%p add.u32 %x, %x, 1;\nbar.sync 0;\n"
      "setp.lt.u32 %q, %i, 3;\n@%q mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%s], 8;\n"
      "bar.sync 0;\nmbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p, [%s], 0;\n"
      "@%p add.u32 %x, %x, 10;",
      "a phase waits for the arrivals and for the expected bytes", [](uint32_t) { return 10; },
      target);
  add(
      cases, "mbarrier.arrive.expect_tx", 64, "64",
      "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %t, [%s], 4;\n"
      "mbarrier.complete_tx.shared::cta.b64 [%s], 4;\nwait:\n"
      "mbarrier.try_wait.shared.b64 %p, [%s], %t;\n@!%p bra wait;\nmov.u32 %x, 4;",
      "expects the bytes, then arrives", [](uint32_t) { return 4; }, target);
  add(
      cases, "mbarrier.arrive at the barrier of another block of the cluster", 32, "128",
      ".shared .align 4 .b32 m;\n@%first st.shared.u32 [m], "
      "0;\nfence.mbarrier_init.release.cluster;\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\nmov.u32 %r2, m;\n"
      "mapa.shared::cluster.u32 %r2, %r2, 0;\nred.relaxed.cluster.shared::cluster.add.u32 [%r2], "
      "1;\n"
      "mapa.shared::cluster.u32 %r1, %s, 0;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];\n"
      "mov.u32 %r3, %cluster_ctarank;\nsetp.ne.u32 %q, %r3, 0;\n@%q bra end;\nwait:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%s], 0;\n@!%p bra wait;\n"
      "ld.shared.u32 %x, [m];\nend:\nbarrier.cluster.arrive;\nbarrier.cluster.wait;",
      "remote arrivals have no state", [](uint32_t i) { return i < 32 ? 128 : 0; }, target, 4, 4);
}

void add_copies(OpcodeCases &cases) {
  for (bool counted : {false, true}) {
    const std::string noinc = counted ? ".noinc" : "";
    // Without .noinc the arrival of the copies is none that the barrier was begun for.
    const std::string arrive = counted ? "" : "mbarrier.arrive.shared.b64 %t, [%s];\n";
    add(cases, "cp.async.mbarrier.arrive" + noinc, 64, "64",
        ".shared .align 16 .b32 m[64];\nmov.u32 %r1, m;\nmad.lo.u32 %r2, %i, 4, %r1;\n"
        "mad.wide.u32 %l0, %i, 4, %in;\ncp.async.ca.shared.global [%r2], [%l0], 4;\n"
        "cp.async.mbarrier.arrive" +
            noinc + ".shared.b64 [%s];\n" + arrive +
            "wait:\nmbarrier.test_wait.parity.shared.b64 %p, [%s], 0;\n@!%p bra wait;\n"
            "xor.b32 %r3, %i, 63;\nmad.lo.u32 %r2, %r3, 4, %r1;\nld.shared.u32 %x, [%r2];",
        "arrives when the thread's copies are complete",
        [](uint32_t i) { return 1000 + 3 * (63 - i); });
    for (uint32_t i = 0; i < 64; ++i)
      cases.programs.back().input.push_back(1000 + 3 * i);
  }
}

} // namespace

void add_barrier_cases(OpcodeCases &cases) {
  add_phases(cases);
  add_bytes(cases);
  add_copies(cases);
}

} // namespace cugrt::conformance
