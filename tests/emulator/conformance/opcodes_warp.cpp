// Operations across the lanes of a warp, with whole and partial member masks; barriers.
#include "opcode_case.h"

#include <algorithm>

namespace cugrt::conformance {

namespace {

constexpr uint32_t kWarpLanes = 32;

std::vector<uint32_t> values(Bits seed, bool few = false) {
  Random random(seed);
  std::vector<uint32_t> v(2 * kWarpLanes);
  for (uint32_t &word : v)
    word = few ? uint32_t(random() % 3) : uint32_t(random());
  return v;
}

/// A program over one warp. The body finds the lane's two input words in %a and %b, and leaves its
/// results in %x and %y; `result` computes a lane's pair.
void add(OpcodeCases &cases, const std::string &name, const std::string &body,
         const std::vector<uint32_t> &input, const char *section, const char *rule,
         const std::function<std::pair<uint32_t, uint32_t>(uint32_t lane)> &result,
         Target target = {}) {
  Program &p = cases.program(name, section, rule);
  p.body = ".reg .b32 %a, %b, %x, %y, %r<4>;\n.reg .b64 %p_in, %p_out, %w;\n.reg .pred %p, %q;\n"
           "mad.wide.u32 %p_in, %i, 8, %in;\nld.global.v2.u32 {%a, %b}, [%p_in];\n"
           "mov.u32 %x, 0;\nmov.u32 %y, 0;\n" +
           body + "\nmad.wide.u32 %p_out, %i, 8, %out;\nst.global.v2.u32 [%p_out], {%x, %y};";
  p.input = input;
  p.target = target;
  for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    auto [x, y] = result(lane);
    p.expected.push_back(x);
    p.expected.push_back(y);
  }
}

constexpr char kShfl[] = "Data Movement and Conversion Instructions: shfl.sync";

/// The pseudocode of the ISA, in lanes: maxLane and the source lane j for a mode.
void add_shuffles(OpcodeCases &cases) {
  const std::vector<uint32_t> input = values(1);
  for (const char *mode : {"up", "down", "bfly", "idx"})
    for (auto [b, c] :
         {std::pair(1u, 31u), {3u, 0x181fu}, {5u, 0x1c07u}, {17u, 31u}, {2u, 0u}, {3u, 0x1800u}}) {
      const std::string m = mode;
      const uint32_t bb = b, cc = c;
      add(cases, "shfl.sync." + m + ".b32 by " + std::to_string(b) + ", c " + std::to_string(c),
          "shfl.sync." + m + ".b32 %x|%p, %a, " + std::to_string(b) + ", " + std::to_string(c) +
              ", -1;\nselp.u32 %y, 1, 0, %p;",
          input, kShfl, "the source lane by mode, segment mask and clamp value",
          [=](uint32_t lane) {
            uint32_t clamp = cc & 31, segment = cc >> 8 & 31;
            uint32_t most = (lane & segment) | (clamp & ~segment), least = lane & segment, j = 0;
            bool inside = false;
            if (m == "up") {
              j = lane - bb, inside = int(lane - bb) >= int(most);
            } else if (m == "down") {
              j = lane + bb, inside = j <= most;
            } else if (m == "bfly") {
              j = lane ^ bb, inside = j <= most;
            } else {
              j = least | (bb & ~segment & 31), inside = j <= most;
            }
            return std::pair(input[2 * (inside ? j : lane)], uint32_t(inside));
          });
    }
  // Source lanes that differ from lane to lane.
  add(cases, "shfl.sync.idx.b32 by a register",
      "shfl.sync.idx.b32 %x|%p, %a, %b, 31, -1;\nselp.u32 %y, 1, 0, %p;", input, kShfl,
      "b is the source lane, its lowest five bits",
      [=](uint32_t lane) { return std::pair(input[2 * (input[2 * lane + 1] & 31)], 1u); });
}

void add_votes(OpcodeCases &cases) {
  const char *section = "Parallel Synchronization and Communication Instructions: vote.sync";
  struct Vote {
    const char *mode;
    std::function<bool(uint32_t lane)> holds;
  };
  const Vote votes[] = {{"none", [](uint32_t) { return false; }},
                        {"every", [](uint32_t) { return true; }},
                        {"third", [](uint32_t lane) { return lane % 3 == 0; }},
                        {"low", [](uint32_t lane) { return lane < 16; }}};
  for (const Vote &vote : votes)
    for (uint32_t members : {0xffffffffu, 0x0000ffffu}) {
      std::vector<uint32_t> input(2 * kWarpLanes);
      uint32_t ballot = 0;
      for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        input[2 * lane] = vote.holds(lane);
        ballot |= uint32_t(vote.holds(lane)) << lane;
      }
      ballot &= members;
      const uint32_t want = uint32_t(ballot == members) | uint32_t(ballot != 0) << 1 |
                            uint32_t(ballot == members || ballot == 0) << 2;
      const std::string mask = std::to_string(members);
      std::string body = "setp.ne.u32 %p, %a, 0;\nsetp.gt.u32 %q, %i, 15;\n";
      if (members != 0xffffffff)
        body += "@%q bra done;\n";
      body += "vote.sync.ballot.b32 %x, %p, " + mask + ";\n{ .reg .pred t;\n";
      for (auto [mode, weight] : {std::pair("all", 1), {"any", 2}, {"uni", 4}})
        body += std::string("vote.sync.") + mode + ".pred t, %p, " + mask + ";\nselp.u32 %r0, " +
                std::to_string(weight) + ", 0, t;\nor.b32 %y, %y, %r0;\n";
      add(cases, std::string("vote.sync ") + vote.mode + " of " + mask, body + "}\ndone:", input,
          section, "over the predicates of the threads in membermask", [=](uint32_t lane) {
            return members >> lane & 1 ? std::pair(ballot, want) : std::pair(0u, 0u);
          });
    }
}

void add_matches(OpcodeCases &cases) {
  const char *section = "Parallel Synchronization and Communication Instructions: match.sync";
  for (bool wide : {false, true})
    for (bool same : {false, true}) {
      std::vector<uint32_t> input = values(2, true);
      if (same)
        std::fill(input.begin(), input.end(), 9u);
      auto of = [=](uint32_t lane) {
        return wide ? Bits(input[2 * lane]) | Bits(input[2 * lane + 1]) << 32
                    : Bits(input[2 * lane]);
      };
      const std::string type = wide ? "b64" : "b32", source = wide ? "%w" : "%a";
      add(cases, "match.sync." + type + (same ? " of equal values" : " of few values"),
          "mov.b64 %w, {%a, %b};\nmatch.any.sync." + type + " %x, " + source +
              ", -1;\nmatch.all.sync." + type + " %y|%p, " + source +
              ", -1;\nselp.u32 %r0, 0x100, 0, %p;\nxor.b32 %y, %y, %r0;",
          input, section, ".any: the threads with the same value; .all: the mask, or 0",
          [=](uint32_t lane) {
            uint32_t any = 0;
            for (uint32_t other = 0; other < kWarpLanes; ++other)
              any |= uint32_t(of(other) == of(lane)) << other;
            bool all = any == 0xffffffff;
            return std::pair(any, all ? 0xffffffffu ^ 0x100 : 0u);
          });
    }
}

void add_reductions(OpcodeCases &cases) {
  const std::vector<uint32_t> input = values(4);
  const char *section = "Parallel Synchronization and Communication Instructions: redux.sync";
  struct Reduction {
    const char *name;
    std::function<uint32_t(uint32_t, uint32_t)> join;
  };
  auto s = [](uint32_t v) { return int32_t(v); };
  const Reduction reductions[] = {
      {"add.u32", [](uint32_t x, uint32_t y) { return x + y; }},
      {"add.s32", [](uint32_t x, uint32_t y) { return x + y; }},
      {"min.u32", [](uint32_t x, uint32_t y) { return std::min(x, y); }},
      {"max.u32", [](uint32_t x, uint32_t y) { return std::max(x, y); }},
      {"min.s32", [=](uint32_t x, uint32_t y) { return s(x) < s(y) ? x : y; }},
      {"max.s32", [=](uint32_t x, uint32_t y) { return s(x) > s(y) ? x : y; }},
      {"and.b32", [](uint32_t x, uint32_t y) { return x & y; }},
      {"or.b32", [](uint32_t x, uint32_t y) { return x | y; }},
      {"xor.b32", [](uint32_t x, uint32_t y) { return x ^ y; }}};
  for (const Reduction &r : reductions) {
    uint32_t all = input[0], low = input[0];
    for (uint32_t lane = 1; lane < kWarpLanes; ++lane) {
      all = r.join(all, input[2 * lane]);
      if (lane < 8)
        low = r.join(low, input[2 * lane]);
    }
    add(cases, std::string("redux.sync.") + r.name,
        std::string("redux.sync.") + r.name + " %x, %a, -1;\nsetp.gt.u32 %p, %i, 7;\n" +
            "@%p bra done;\nredux.sync." + r.name + " %y, %a, 0xff;\ndone:",
        input, section, "all threads of membermask get the same result",
        [=](uint32_t lane) { return std::pair(all, lane < 8 ? low : 0u); }, {80, "8.1"});
  }
}

void add_masks(OpcodeCases &cases) {
  const std::vector<uint32_t> input = values(6);
  add(cases, "elect.sync",
      "elect.sync %r0|%p, -1;\nselp.u32 %x, 1, 0, %p;\n"
      "vote.sync.ballot.b32 %y, %p, -1;\npopc.b32 %y, %y;",
      input, "Parallel Synchronization and Communication Instructions: elect.sync",
      "one leader thread among the members; which one is deterministic",
      [](uint32_t) { return std::pair(0u, 1u); }, {90, "8.1"});
  // Which lane leads is left open: only how many do is compared.
  Program &elect = cases.programs.back();
  elect.accepts = [](size_t word, uint32_t got) { return word % 2 ? got == 1 : got <= 1; };
  add(cases, "activemask.b32", "activemask.b32 %x;\nactivemask.b32 %y;", input,
      "Parallel Synchronization and Communication Instructions: activemask",
      "the mask of predicated-on active threads of the warp",
      [](uint32_t lane) { return std::pair(1u << lane, 1u << lane); });
  // Threads need not be converged: the thread itself is in the mask, no more is certain.
  cases.programs.back().accepts = [](size_t word, uint32_t got) {
    return (got >> (word / 2) & 1) == 1;
  };
  add(cases, "bar.warp.sync in two places",
      ".shared .align 4 .b8 m[128];\nmov.u32 %r0, m;\nmad.lo.u32 %r1, %i, 4, %r0;\n"
      "setp.lt.u32 %p, %i, 16;\n@%p bra low;\nst.shared.u32 [%r1], %a;\nbar.warp.sync -1;\n"
      "bra read;\nlow:\nst.shared.u32 [%r1], %b;\nbar.warp.sync -1;\nread:\n"
      "xor.b32 %r1, %i, 16;\nmad.lo.u32 %r1, %r1, 4, %r0;\nld.shared.u32 %x, [%r1];",
      input, "Parallel Synchronization and Communication Instructions: bar.warp.sync",
      "memory accesses of participating threads are ordered by it", [=](uint32_t lane) {
        return std::pair(lane < 16 ? input[2 * (lane + 16)] : input[2 * (lane - 16) + 1], 0u);
      });
}

void add_barriers(OpcodeCases &cases) {
  const char *section = "Parallel Synchronization and Communication Instructions: bar, barrier";
  Program &p = cases.program("bar.sync and bar.arrive of a named barrier", section,
                             "bar.arrive marks arrival and does not wait; bar.sync waits for all");
  p.threads = 64;
  p.body = ".shared .align 4 .b8 m[128];\n.reg .b32 %s, %v, %k;\n.reg .b64 %d;\n.reg .pred %p;\n"
           "mad.wide.u32 %d, %i, 4, %out;\nmov.u32 %s, m;\nsetp.lt.u32 %p, %i, 32;\n"
           "@%p bra producer;\nbar.sync 2, 64;\nsub.u32 %k, %i, 32;\nmad.lo.u32 %k, %k, 4, %s;\n"
           "ld.shared.u32 %v, [%k];\nst.global.u32 [%d], %v;\nret;\nproducer:\n"
           "mad.lo.u32 %k, %i, 4, %s;\nmad.lo.u32 %v, %i, %i, 1;\nst.shared.u32 [%k], %v;\n"
           "bar.arrive 2, 64;\nst.global.u32 [%d], 9;";
  for (uint32_t i = 0; i < 64; ++i)
    p.expected.push_back(i < 32 ? 9 : (i - 32) * (i - 32) + 1);
  Program &q = cases.program("bar.red over a block, barrier.sync", section,
                             "bar.red combines a predicate across all threads at the barrier");
  q.threads = 64;
  q.body =
      ".reg .b32 %n, %v;\n.reg .b64 %d;\n.reg .pred %p, %q, %r;\nmad.wide.u32 %d, %i, 8, %out;\n"
      "setp.lt.u32 %p, %i, 40;\nbar.red.popc.u32 %n, 0, %p;\nbar.red.and.pred %q, 1, %p;\n"
      "barrier.sync 3;\nsetp.eq.u32 %p, %i, 50;\nbar.red.or.pred %r, 1, %p;\n"
      "selp.u32 %v, 2, 0, %r;\n@%q add.u32 %v, %v, 1;\nst.global.v2.u32 [%d], {%n, %v};";
  for (uint32_t i = 0; i < 64; ++i)
    for (uint32_t word : {40u, 2u})
      q.expected.push_back(word);
}

} // namespace

void add_warp_cases(OpcodeCases &cases) {
  add_shuffles(cases);
  add_votes(cases);
  add_matches(cases);
  add_reductions(cases);
  add_masks(cases);
  add_barriers(cases);
}

} // namespace cugrt::conformance
