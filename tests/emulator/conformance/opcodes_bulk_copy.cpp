// Bulk copies: to shared memory with a barrier that counts bytes, from it in groups.
#include "opcode_case.h"

namespace cugrt::conformance {

namespace {

constexpr char kBulkCopySection[] = "Data Movement and Conversion Instructions: cp.async.bulk";
constexpr uint32_t kWords = 256;

uint32_t word(uint32_t i) { return 0x9e3779b9u * (i + 1); }

/// 64 threads a block; thread 0 has begun the barrier at %s. m are 256 words of shared memory.
void add(OpcodeCases &cases, const std::string &name, const std::string &body, const char *rule,
         size_t words, const std::function<uint32_t(uint32_t)> &result, uint32_t blocks = 1,
         const char *ptx = "8.0") {
  Program &p = cases.program(name, kBulkCopySection, rule);
  p.threads = 64;
  p.blocks = blocks;
  p.cluster = blocks > 1 ? blocks : 0;
  p.target = {90, ptx};
  p.body =
      ".reg .b32 %x, %s, %m, %rank, %block, %r<8>;\n.reg .b64 %d, %t, %l<8>;\n"
      ".reg .pred %p, %q, %first;\n.reg .b16 %h;\n.shared .align 16 .b32 m[256];\n"
      ".shared .align 8 .b64 bar;\nmov.u32 %s, bar;\nmov.u32 %m, m;\nmov.u32 %block, %ctaid.x;\n"
      "mov.u32 %rank, %cluster_ctarank;\nsetp.eq.u32 %first, %i, 0;\n"
      "@%first mbarrier.init.shared.b64 [%s], 1;\n@%first fence.mbarrier_init.release.cluster;\n"
      "fence.proxy.async.shared::cta;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n" +
      body;
  for (uint32_t i = 0; i < kWords; ++i)
    p.input.push_back(word(i));
  for (uint32_t i = 0; i < words; ++i)
    p.expected.push_back(result(i));
}

const std::string kWait =
    "wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p, [%s], 0;\n@!%p bra wait;\n";
/// Four words of each thread from shared memory to the output.
const std::string kStore =
    "mad.lo.u32 %r6, %i, 16, %m;\nld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%r6];\n"
    "mad.lo.u32 %r7, %block, 64, %i;\nmad.wide.u32 %d, %r7, 16, %out;\n"
    "st.global.v4.b32 [%d], {%r0, %r1, %r2, %r3};\n";

} // namespace

void add_bulk_copy_cases(OpcodeCases &cases) {
  for (const char *space : {"shared::cluster", "shared::cta"})
    add(cases, std::string("cp.async.bulk.") + space + ".global",
        "@%first mbarrier.arrive.expect_tx.shared.b64 %t, [%s], 1024;\n@%first cp.async.bulk." +
            std::string(space) + ".global.mbarrier::complete_tx::bytes [%m], [%in], 1024, [%s];\n" +
            kWait + kStore,
        "the barrier's bytes are complete when the copy is", kWords, word, 1,
        space == std::string("shared::cta") ? "8.6" : "8.0");
  add(cases, "cp.async.bulk in two parts, the second reversed",
      "@%first mbarrier.arrive.expect_tx.shared.b64 %t, [%s], 1024;\nadd.u64 %l0, %in, 512;\n"
      "add.u32 %r4, %m, 512;\nmov.u32 %r5, 512;\n"
      "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%in], "
      "%r5, "
      "[%s];\n@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%m], "
      "[%l0], "
      "%r5, [%s];\n" +
          kWait + kStore,
      "each completes its own bytes", kWords, [](uint32_t i) { return word((i + 128) % 256); });
  add(
      cases, "cp.async.bulk.shared::cluster.shared::cta to the next block",
      ".shared .align 16 .b32 from[256];\nmad.wide.u32 %l0, %i, 16, %in;\n"
      "ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%l0];\nadd.u32 %r0, %r0, %rank;\nmov.u32 %r4, "
      "from;\n"
      "mad.lo.u32 %r5, %i, 16, %r4;\nst.shared.v4.b32 [%r5], {%r0, %r1, %r2, %r3};\n"
      "fence.proxy.async;\nbar.sync 0;\n@%first mbarrier.arrive.expect_tx.shared.b64 %t, [%s], "
      "1024;\n"
      "xor.b32 %r5, %rank, 1;\nmapa.shared::cluster.u32 %r6, %m, %r5;\n"
      "mapa.shared::cluster.u32 %r7, %s, %r5;\n"
      "@%first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], "
      "[%r4], "
      "1024, [%r7];\n" +
          kWait + kStore + "barrier.cluster.arrive;\nbarrier.cluster.wait;",
      "from the block's own shared memory to another's", 2 * kWords,
      [](uint32_t i) { return word(i % 256) + (i % 4 == 0 ? (i < 256 ? 1 : 0) : 0); }, 2);
  add(
      cases, "cp.async.bulk with .multicast::cluster",
      "@%first mbarrier.arrive.expect_tx.shared.b64 %t, [%s], 1024;\nbarrier.cluster.arrive;\n"
      "barrier.cluster.wait;\nsetp.eq.u32 %q, %rank, 1;\nand.pred %q, %q, %first;\nmov.u16 %h, "
      "15;\n"
      "@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%m], "
      "[%in], 1024, [%s], %h;\n" +
          kWait + kStore + "barrier.cluster.arrive;\nbarrier.cluster.wait;",
      "to the same place in each block of the mask, with that block's barrier", 4 * kWords,
      [](uint32_t i) { return word(i % 256); }, 4);
  add(cases, "cp.async.bulk.global.shared::cta and its groups",
      "mad.wide.u32 %l0, %i, 16, %in;\nld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%l0];\n"
      "mad.lo.u32 %r5, %i, 16, %m;\nst.shared.v4.b32 [%r5], {%r0, %r1, %r2, %r3};\n"
      "fence.proxy.async.shared::cta;\nbar.sync 0;\nadd.u32 %r6, %m, 512;\nadd.u64 %l1, %out, "
      "512;\n"
      "@%first cp.async.bulk.global.shared::cta.bulk_group [%out], [%m], 512;\n"
      "@%first cp.async.bulk.commit_group;\n"
      "@%first cp.async.bulk.global.shared::cta.bulk_group [%l1], [%r6], 512;\n"
      "@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group 1;\n"
      "@%first cp.async.bulk.wait_group.read 0;\n@%first cp.async.bulk.wait_group 0;",
      "written when the group is waited for", kWords, word);
  add(cases, "cp.async.bulk.prefetch changes no value",
      "@%first cp.async.bulk.prefetch.L2.global [%in], 256;\nmad.wide.u32 %l0, %i, 4, %in;\n"
      "ld.global.u32 %x, [%l0];\nmad.wide.u32 %d, %i, 4, %out;\nst.global.u32 [%d], %x;",
      "a hint", 64, word);
}

} // namespace cugrt::conformance
