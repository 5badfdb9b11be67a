// Clusters: their barrier, one another's shared memory, and the registers that tell where a block
// is.
#include "opcode_case.h"

namespace cugrt::conformance {

namespace {

constexpr uint32_t kThreads = 64, kBlocks = 8, kCluster = 4;
constexpr char kRegisters[] =
    ".reg .b32 %x, %g, %block, %rank, %other, %s, %r<8>;\n.reg .b64 %d, %l<8>;\n.reg .pred %p, "
    "%q;\n"
    "mov.u32 %block, %ctaid.x;\nmov.u32 %rank, %cluster_ctarank;\n"
    "mad.lo.u32 %g, %block, 64, %i;\nmad.wide.u32 %d, %g, 4, %out;\nmov.u32 %x, 0;\n";

/// Each thread of eight blocks, in clusters of four, stores %x.
void add(OpcodeCases &cases, const std::string &name, const std::string &body,
         const std::string &section, const char *rule,
         const std::function<uint32_t(uint32_t block, uint32_t thread)> &result,
         uint32_t cluster = kCluster) {
  Program &p = cases.program(name, section, rule);
  p.threads = kThreads;
  p.blocks = kBlocks;
  p.cluster = cluster;
  p.target = {90, "8.0"};
  p.body = kRegisters + body + "\nst.global.u32 [%d], %x;";
  for (uint32_t block = 0; block < kBlocks; ++block)
    for (uint32_t thread = 0; thread < kThreads; ++thread)
      p.expected.push_back(result(block, thread));
}

constexpr char kBarrier[] = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
/// Each block's word m[thread] is 1000 * block + thread; %other is the next rank of the cluster.
const std::string kFill =
    ".shared .align 16 .b32 m[64];\nmov.u32 %s, m;\nmad.lo.u32 %s, %i, 4, %s;\n"
    "mad.lo.u32 %r0, %block, 1000, %i;\nst.shared.u32 [%s], %r0;\nadd.u32 %other, %rank, 1;\n"
    "and.b32 %other, %other, 3;\n" +
    std::string(kBarrier);

uint32_t next(uint32_t block) { return block / kCluster * kCluster + (block + 1) % kCluster; }
uint32_t before(uint32_t block) {
  return block / kCluster * kCluster + (block + kCluster - 1) % kCluster;
}

void add_places(OpcodeCases &cases) {
  const std::string sum =
      "mov.u32 %r0, %clusterid.x;\nmov.u32 %r1, %nclusterid.x;\nmov.u32 %r2, %cluster_ctaid.x;\n"
      "mov.u32 %r3, %cluster_nctaid.x;\nmov.u32 %r4, %cluster_nctarank;\nmov.u32 %r5, "
      "%cluster_ctaid.y;\n"
      "mov.pred %p, %is_explicit_cluster;\nselp.u32 %r6, 1, 0, %p;\n"
      "mad.lo.u32 %x, %r0, 10, %r1;\nmad.lo.u32 %x, %x, 10, %r2;\nmad.lo.u32 %x, %x, 10, %r3;\n"
      "mad.lo.u32 %x, %x, 10, %r4;\nmad.lo.u32 %x, %x, 10, %rank;\nmad.lo.u32 %x, %x, 10, %r5;\n"
      "mad.lo.u32 %x, %x, 10, %r6;";
  const char *rule = "%clusterid, %nclusterid, %cluster_ctaid, %cluster_nctaid, %cluster_ctarank, "
                     "%cluster_nctarank, %is_explicit_cluster";
  add(cases, "special registers of clusters", sum, "Special Registers", rule,
      [](uint32_t block, uint32_t) {
        return block / 4 * 10000000 + 2000000 + block % 4 * 100000 + 44000 + block % 4 * 100 + 1;
      });
  add(
      cases, "special registers of a launch without clusters", sum, "Special Registers", rule,
      [](uint32_t block, uint32_t) { return block * 10000000 + 8000000 + 11000; }, 0);
}

void add_memory(OpcodeCases &cases) {
  const char *data = "Data Movement and Conversion Instructions: ";
  add(cases, "mapa.shared::cluster.u32 and ld.shared::cluster of the next block",
      kFill + "mapa.shared::cluster.u32 %r1, %s, %other;\nld.shared::cluster.u32 %x, [%r1];\n" +
          kBarrier,
      std::string(data) + "mapa", "the address of the same variable in the target block",
      [](uint32_t block, uint32_t i) { return 1000 * next(block) + i; });
  add(cases, "mapa.u64 of a generic address, then a generic load",
      kFill +
          "cvt.u64.u32 %l0, %s;\ncvta.shared.u64 %l0, %l0;\nmapa.u64 %l1, %l0, %other;\n"
          "ld.u32 %x, [%l1];\n" +
          kBarrier,
      std::string(data) + "mapa", "without .shared::cluster source and result are generic",
      [](uint32_t block, uint32_t i) { return 1000 * next(block) + i; });
  add(cases, "st.shared::cluster into the next block",
      kFill + "mapa.shared::cluster.u32 %r1, %s, %other;\nadd.u32 %r2, %r0, 7;\n" + kBarrier +
          "st.shared::cluster.u32 [%r1], %r2;\n" + kBarrier + "ld.shared.u32 %x, [%s];",
      std::string(data) + "st", ".shared::cluster reaches the shared memory of all blocks",
      [](uint32_t block, uint32_t i) { return 1000 * before(block) + i + 7; });
  add(cases, "vectors across the cluster",
      kFill +
          "mov.u32 %r1, m;\nmapa.shared::cluster.u32 %r1, %r1, %other;\nmov.u32 %r3, 0;\n"
          "and.b32 %r2, %i, 15;\nmad.lo.u32 %r1, %r2, 16, %r1;\n"
          "ld.shared::cluster.v4.u32 {%r4, %r5, %r6, %r7}, [%r1];\nadd.u32 %x, %r4, %r5;\n"
          "add.u32 %x, %x, %r6;\nadd.u32 %x, %x, %r7;\n" +
          kBarrier,
      std::string(data) + "ld", "vectors as in other spaces",
      [](uint32_t block, uint32_t i) { return 4 * 1000 * next(block) + 4 * (4 * (i % 16)) + 6; });
  add(cases, "atom.shared::cluster and red from every thread of the cluster to its first block",
      ".shared .align 4 .b32 m;\nsetp.eq.u32 %p, %i, 0;\n@%p st.shared.u32 [m], 0;\n" +
          std::string(kBarrier) +
          "mov.u32 %s, m;\nmapa.shared::cluster.u32 %r1, %s, 0;\n"
          "atom.shared::cluster.add.u32 %r2, [%r1], "
          "1;\nred.relaxed.cluster.shared::cluster.add.u32 "
          "[%r1], %i;\n" +
          kBarrier + "ld.shared::cluster.u32 %x, [%r1];\n" + kBarrier,
      "Parallel Synchronization and Communication Instructions: atom, red", "nothing is lost",
      [](uint32_t, uint32_t) { return 4 * 64 + 4 * (63 * 64 / 2); });
  add(cases, "getctarank of mapped and own addresses",
      ".shared .align 4 .b32 m;\nmov.u32 %s, m;\nmapa.shared::cluster.u32 %r1, %s, 2;\n"
      "getctarank.shared::cluster.u32 %r2, %r1;\ngetctarank.shared::cluster.u32 %r3, %s;\n"
      "cvt.u64.u32 %l0, %s;\ncvta.shared.u64 %l0, %l0;\nmapa.u64 %l1, %l0, 3;\n"
      "getctarank.u64 %r4, %l1;\nmad.lo.u32 %x, %r2, 10, %r3;\nmad.lo.u32 %x, %x, 10, %r4;",
      std::string(data) + "getctarank", "the rank of the block in whose shared memory it lies",
      [](uint32_t block, uint32_t) { return 203 + 10 * (block % 4); });
  add(cases, "isspacep.shared::cta and .shared::cluster of mapped addresses",
      ".shared .align 4 .b32 m;\nmov.u32 %s, m;\ncvt.u64.u32 %l0, %s;\ncvta.shared.u64 %l0, %l0;\n"
      "mapa.u64 %l1, %l0, 1;\nisspacep.shared::cta %p, %l1;\n@%p add.u32 %x, %x, 1;\n"
      "isspacep.shared::cluster %p, %l1;\n@%p add.u32 %x, %x, 10;\n"
      "isspacep.shared::cta %p, %l0;\n@%p add.u32 %x, %x, 100;\nisspacep.global %p, %l1;\n"
      "@%p add.u32 %x, %x, 1000;",
      std::string(data) + "isspacep", "the window of the block lies within that of the cluster",
      [](uint32_t block, uint32_t) { return block % 4 == 1 ? 111 : 110; });
}

void add_barriers(OpcodeCases &cases) {
  const char *section = "Parallel Synchronization and Communication Instructions: barrier.cluster";
  // Each round a block adds what the block before it had, four times: a sum over the cluster.
  add(cases, "barrier.cluster in a loop, with other work between arrival and wait",
      ".shared .align 4 .b32 m[2];\nmov.u32 %r7, 0;\nadd.u32 %x, %block, 1;\nadd.u32 %other, "
      "%rank, 1;\n"
      "and.b32 %other, %other, 3;\nmov.u32 %r5, %x;\nagain:\nand.b32 %r1, %r7, 1;\nmov.u32 %s, m;\n"
      "mad.lo.u32 %s, %r1, 4, %s;\nsetp.eq.u32 %p, %i, 0;\n@%p st.shared.u32 [%s], %r5;\n"
      "barrier.cluster.arrive.release;\nmapa.shared::cluster.u32 %r2, %s, %other;\n"
      "barrier.cluster.wait.acquire;\nld.shared::cluster.u32 %r5, [%r2];\nadd.u32 %x, %x, %r5;\n"
      "add.u32 %r7, %r7, 1;\nsetp.lt.u32 %q, %r7, 3;\n@%q bra again;\n" +
          std::string(kBarrier),
      section, "all threads of the cluster have arrived before any goes on",
      [](uint32_t block, uint32_t) { return block < 4 ? 1u + 2 + 3 + 4 : 5u + 6 + 7 + 8; });
  add(cases, "barrier.cluster with threads that have exited",
      ".shared .align 4 .b32 m;\nsetp.eq.u32 %q, %i, 0;\n@%q st.shared.u32 [m], %block;\n"
      "setp.ge.u32 %p, %i, 40;\nmov.u32 %x, 5;\n@%p bra end;\nbarrier.cluster.arrive.relaxed;\n"
      "fence.acq_rel.cluster;\nbarrier.cluster.wait;\nmov.u32 %s, m;\n"
      "mapa.shared::cluster.u32 %r1, %s, 3;\nld.shared::cluster.u32 %x, [%r1];\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\nend:",
      section, "waits for all non-exited threads of the cluster",
      [](uint32_t block, uint32_t i) { return i >= 40 ? 5 : block / 4 * 4 + 3; });
  add(
      cases, "barrier.cluster of a launch without clusters",
      ".shared .align 4 .b32 m[64];\nmov.u32 %s, m;\nmad.lo.u32 %s, %i, 4, %s;\n"
      "st.shared.u32 [%s], %g;\n" +
          std::string(kBarrier) +
          "xor.b32 %r1, %i, 63;\nmov.u32 %s, m;\n"
          "mad.lo.u32 %s, %r1, 4, %s;\nld.shared.u32 %x, [%s];",
      section, "each block is a cluster of its own",
      [](uint32_t block, uint32_t i) { return 64 * block + (63 - i); }, 0);
}

} // namespace

void add_cluster_cases(OpcodeCases &cases) {
  add_places(cases);
  add_memory(cases);
  add_barriers(cases);
}

} // namespace cugrt::conformance
