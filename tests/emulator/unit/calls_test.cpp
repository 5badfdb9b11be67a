// Lanes of a warp that meet at one instruction of a function in different calls of it.
#include "support/emulated.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

/// Calls `function` with what %v holds; %r0 becomes what it returns.
std::string call(const std::string &function) {
  return "{ .param .b32 in; .param .b32 out; st.param.b32 [in], %v;\n"
         "call (out), " +
         function + ", (in); ld.param.b32 %r0, [out]; }\n";
}

std::string function(const std::string &name, const std::string &body) {
  return ".func (.param .b32 result) " + name +
         "(.param .b32 value) {\n"
         ".reg .b32 %r<16>, %i, %v; .reg .b64 %l<4>; .reg .pred %p<4>;\n"
         "mov.u32 %i, %tid.x; ld.param.b32 %v, [value];\n" +
         body + "st.param.b32 [result], %r0; ret;\n}\n";
}

/// `meet` leaves its result in %r0. f has it; g and h call f, h with local memory of its own; deep
/// calls itself as many times as the value's upper half says, then f with the lower.
std::string module_of(const std::string &meet, const std::string &body) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 m[1024];\n" +
         function("f", meet) + function("g", call("f")) +
         function("h", ".local .align 4 .b8 own[64]; mov.u32 %r1, own; st.local.u32 [%r1], %v;\n" +
                           call("f") +
                           "ld.local.u32 %r2, [%r1]; setp.eq.u32 %p0, %r2, %v;\n"
                           "@!%p0 mov.u32 %r0, 77;\n") +
         ".func (.param .b32 result) deep(.param .b32 value);\n" +
         function("deep", "shr.u32 %r1, %v, 16; setp.eq.u32 %p0, %r1, 0; @%p0 bra last;\n"
                          "sub.u32 %v, %v, 0x10000;\n" +
                              call("deep") + "bra done;\nlast:\n" + call("f") + "done:\n") +
         ".visible .entry k(.param .u64 o) {\n"
         ".reg .b32 %r<16>, %i, %v; .reg .b64 %l<4>, %out; .reg .pred %p<4>;\n"
         "mov.u32 %i, %tid.x; ld.param.u64 %out, [o]; mad.wide.u32 %out, %i, 4, %out;\n"
         "mad.lo.u32 %v, %i, 3, 7;\n" +
         body + "st.global.u32 [%out], %r0; ret;\n}\n";
}

std::vector<uint32_t> run(const std::string &meet, const std::string &body) {
  Emulated device;
  device.load(module_of(meet, body));
  uint64_t out = device.upload(std::vector<uint32_t>(32));
  device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, out);
  return device.download<uint32_t>(out, 32);
}

struct Meeting {
  const char *operation;
  uint32_t (*result)(uint32_t lane); // when all lanes are there with 3 * lane + 7 in %v
};

const Meeting kMeetings[] = {
    {"shfl.sync.idx.b32 %r0, %v, 20, 31, -1;\n", [](uint32_t) { return 67u; }},
    {"shfl.sync.bfly.b32 %r1|%p1, %v, 16, 31, -1; selp.u32 %r0, %r1, 0, %p1;\n",
     [](uint32_t lane) { return 3 * (lane ^ 16) + 7; }},
    {"and.b32 %r1, %i, 3; setp.eq.u32 %p1, %r1, 0; vote.sync.ballot.b32 %r0, %p1, -1;\n",
     [](uint32_t) { return 0x11111111u; }},
    {"setp.ne.u32 %p1, %i, 31; vote.sync.all.pred %p2, %p1, -1; selp.u32 %r0, 1, 2, %p2;\n",
     [](uint32_t) { return 2u; }},
    {"and.b32 %r1, %i, 7; match.any.sync.b32 %r0, %r1, -1;\n",
     [](uint32_t lane) { return 0x01010101u << (lane & 7); }},
    {"and.b32 %r1, %i, 7; shl.b32 %r2, %r1, 3; mov.b64 %l0, {%r1, %r2};\n"
     "match.any.sync.b64 %r0, %l0, -1;\n",
     [](uint32_t lane) { return 0x01010101u << (lane & 7); }},
    {"redux.sync.add.u32 %r0, %v, -1;\n", [](uint32_t) { return 3u * 496 + 7 * 32; }},
    {"elect.sync %r1|%p1, -1; selp.u32 %r1, 1, 0, %p1; redux.sync.add.u32 %r0, %r1, -1;\n",
     [](uint32_t) { return 1u; }},
    {"mov.u32 %r1, m; mad.lo.u32 %r2, %i, 4, %r1; st.shared.u32 [%r2], %v; bar.warp.sync -1;\n"
     "xor.b32 %r2, %i, 16; mad.lo.u32 %r2, %r2, 4, %r1; ld.shared.u32 %r0, [%r2];\n",
     [](uint32_t lane) { return 3 * (lane ^ 16) + 7; }},
    // Half of each half, by a guard and a mask.
    {"mov.u32 %r0, 5; sub.u32 %r1, %i, 8; setp.lt.u32 %p1, %r1, 16;\n"
     "@%p1 shfl.sync.bfly.b32 %r0, %v, 31, 31, 0x00ffff00;\n",
     [](uint32_t lane) { return lane >= 8 && lane < 24 ? 3 * (lane ^ 31) + 7 : 5; }}};

/// What all lanes of a warp execute together.
const Meeting kAligned[] = {
    {"mov.u32 %r1, 0x01010101; mov.u32 %r2, 0;\n"
     "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%r0, %r8, %r9, %r10}, {%r1, %r1}, {%r1},\n"
     "{%r2, %r2, %r2, %r2};\n",
     [](uint32_t) { return 16u; }},
    {"mov.u32 %r1, m; mad.lo.u32 %r2, %i, 4, %r1; st.shared.u32 [%r2], %i; bar.warp.sync -1;\n"
     "and.b32 %r2, %i, 7; mad.lo.u32 %r2, %r2, 16, %r1;\n"
     "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r2];\n",
     [](uint32_t lane) { return lane; }},
    {"movmatrix.sync.aligned.m8n8.trans.b16 %r0, %i;\n",
     [](uint32_t lane) { // rows of eight: the lower halves are lanes, the upper ones 0
       const uint32_t row = lane / 4, column = 2 * (lane % 4);
       auto element = [](uint32_t r, uint32_t c) { return c % 2 ? 0 : 4 * r + c / 2; };
       return element(column, row) | element(column + 1, row) << 16;
     }}};

std::string halves(const std::string &low, const std::string &high) {
  return "setp.lt.u32 %p0, %i, 16; @%p0 bra low;\n" + high + "bra done;\nlow:\n" + low + "done:\n";
}

} // namespace

TEST_CASE("lanes meet in a function that they reach by different calls") {
  struct Way {
    const char *name;
    std::string body;
  };
  const std::string through = "signature: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
                              "and.b32 %r1, %i, 1; setp.eq.u32 %p0, %r1, 0;\n"
                              "mov.u64 %l0, g; mov.u64 %l1, h; selp.b64 %l2, %l0, %l1, %p0;\n"
                              "{ .param .b32 in; .param .b32 out; st.param.b32 [in], %v;\n"
                              "call (out), %l2, (in), signature; ld.param.b32 %r0, [out]; }\n";
  const std::string tag = "and.b32 %r1, %i, 3; mad.lo.u32 %v, %r1, 0x10000, %v;\n";
  for (const Way &way : std::initializer_list<Way>{
           {"from both ways of a branch", halves(call("f"), call("f"))},
           {"at different depths", halves(call("f"), call("h"))},
           {"behind two others", halves(call("h"), call("g"))},
           {"a quarter of the lanes each none, one, two and three calls deeper",
            tag + call("deep")},
           {"through registers", through}})
    for (const Meeting &meeting : kMeetings) {
      INFO(way.name << ": " << meeting.operation);
      const std::vector<uint32_t> got = run(meeting.operation, way.body);
      for (uint32_t lane = 0; lane < 32; ++lane)
        REQUIRE(got[lane] == meeting.result(lane));
    }
}

TEST_CASE("lanes that come to one call over a backward branch go on together in the function") {
  // In each turn one lane goes another way, and those above it add what the function gives.
  const auto loop = [](uint32_t idle_turns) {
    return "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r4, 0;\n"
           "idle: add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, " +
           std::to_string(idle_turns) +
           "; @%p3 bra idle;\n"
           "again: setp.ne.u32 %p0, %i, %r2; @%p0 bra skip;\nadd.u32 %r1, %r1, 1;\n"
           "skip: setp.gt.u32 %p1, %i, %r2;\n" +
           call("f") +
           "add.u32 %r2, %r2, 1; setp.eq.u32 %p2, %r2, 32; @%p2 bra finished;\n@!%p1 bra again;\n"
           "add.u32 %r1, %r1, %r0; bra.uni again;\nfinished: mov.u32 %r0, %r1;\n";
  };
  std::vector<Meeting> all(std::begin(kMeetings), std::end(kMeetings));
  all.insert(all.end(), std::begin(kAligned), std::end(kAligned));
  for (const Meeting &meeting : all)
    for (uint32_t idle_turns : {1, 50, 2000}) { // so that turns of paths end in other places
      INFO(meeting.operation << " after " << idle_turns);
      const std::vector<uint32_t> got = run(meeting.operation, loop(idle_turns));
      for (uint32_t lane = 0; lane < 32; ++lane)
        REQUIRE(got[lane] == 1 + lane * meeting.result(lane));
    }
}

TEST_CASE("what a whole warp executes together is refused in different calls, by name") {
  const std::string wmma = "mov.u64 %l0, m; cvta.shared.u64 %l0, %l0;\n"
                           "wmma.load.a.sync.aligned.row.m16n16k16.u8 {%r0, %r1}, [%l0];\n";
  std::vector<std::string> operations{wmma};
  for (const Meeting &aligned : kAligned)
    operations.push_back(aligned.operation);
  for (const std::string &operation : operations) {
    INFO(operation);
    Emulated device;
    device.load(module_of(operation, halves(call("g"), call("f"))));
    uint64_t out = device.upload(std::vector<uint32_t>(32));
    const auto fault = device.try_launch("k", {1, 1, 1}, {32, 1, 1}, 0, out);
    REQUIRE(fault);
    CHECK(fault->kind == emulator::FaultKind::illegal_instruction);
    CHECK(contains(fault->message, "in different calls"));
    CHECK(contains(fault->message, "lanes 0x0000ffff and 0xffff0000"));
  }
}

TEST_CASE("lanes that have met in different calls go on while others wait for memory") {
  // The last lane goes round until the first has stored, which it does behind the meeting.
  const std::string meet = "shfl.sync.bfly.b32 %r0, %v, 1, 31, 0x3fffffff;\n";
  const std::string body =
      "mov.u32 %r3, m; mov.u32 %r0, 1; setp.ge.u32 %p1, %i, 30;\n@%p1 bra wait;\n"
      "setp.lt.u32 %p0, %i, 16; @%p0 bra low;\n" +
      call("f") + "bra met;\nlow:\n" + call("g") +
      "met: st.volatile.shared.u32 [%r3], %r0; bra done;\n"
      "wait: ld.volatile.shared.u32 %r1, [%r3]; setp.eq.u32 %p2, %r1, 0; @%p2 bra wait;\ndone:\n";
  const std::vector<uint32_t> got =
      run(meet, "mov.u32 %r3, m; st.shared.u32 [%r3], 0; bar.warp.sync -1;\n" + body);
  for (uint32_t lane = 0; lane < 32; ++lane)
    REQUIRE(got[lane] == (lane < 30 ? 3 * (lane ^ 1) + 7 : 1));
}
