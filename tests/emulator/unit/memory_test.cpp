// Memory in every space, type and vector length; operations across lanes.
#include "emulator/exec/checks/accesses.h"
#include "support/emulated.h"

#include <bit>
#include <functional>
#include <set>

using namespace cugrt::test;

namespace {

using U = uint64_t;

constexpr uint32_t kMemoryThreads = 64;

struct Element {
  const char *name;
  uint32_t bytes;
  bool is_signed;
};
constexpr Element kElements[] = {{"u8", 1, false}, {"s8", 1, true},   {"u16", 2, false},
                                 {"s16", 2, true}, {"u32", 4, false}, {"u64", 8, false}};
const char *const kSpaces[] = {"global", "shared", "local", "generic"};

/// Register kind of an element, and the registers of a vector.
char kind_of(const Element &t) { return t.bytes == 8 ? 'l' : 'r'; }
std::string registers(const Element &t, char letter, uint32_t count) {
  std::string text;
  for (uint32_t i = 0; i < count; ++i)
    text += (i ? ", %" : "%") + std::string(1, letter) + kind_of(t) + std::to_string(i);
  return count > 1 ? "{" + text + "}" : text;
}

/// Takes a thread's elements from global memory to `space` and back through `space`, and stores
/// each, extended to 64 bits by the load.
std::string copy_kernel(const std::string &name, const std::string &space, const Element &t,
                        uint32_t count) {
  const std::string vector = count > 1 ? ".v" + std::to_string(count) : "";
  const uint32_t bytes = t.bytes * count;
  const std::string place = space == "generic" ? "" : "." + space;
  std::string s = ".visible .entry " + name +
                  "(.param .u64 pa, .param .u64 pm, .param .u64 pd) {\n"
                  ".reg .b32 %i, %w, %vr<4>, %xr<4>;\n.reg .b64 %a, %m, %d, %t, %vl<4>, %xl<4>;\n"
                  ".shared .align 32 .b8 m[2048];\n.local .align 32 .b8 l[64];\n"
                  "mov.u32 %i, %tid.x;\nld.param.u64 %a, [pa];\nld.param.u64 %d, [pd];\n"
                  "mad.wide.u32 %d, %i, 32, %d;\n";
  s += "mad.wide.u32 %a, %i, " + std::to_string(bytes) + ", %a;\n";
  if (space == "shared")
    s += "mov.u32 %w, m;\nmad.lo.u32 %w, %i, " + std::to_string(bytes) +
         ", %w;\ncvt.u64.u32 %m, %w;\n";
  else if (space == "local")
    s += "mov.u64 %m, l;\n";
  else
    s += "ld.param.u64 %m, [pm];\nmad.wide.u32 %m, %i, " + std::to_string(bytes) + ", %m;\n";
  std::string type = vector + "." + t.name;
  s += "ld.global" + type + " " + registers(t, 'v', count) + ", [%a];\n";
  std::string store_type = vector + ".b" + std::to_string(8 * t.bytes);
  s += "st" + place + store_type + " [%m], " + registers(t, 'v', count) + ";\n";
  s += "ld" + place + type + " " + registers(t, 'x', count) + ", [%m];\n";
  for (uint32_t i = 0; i < count; ++i) {
    std::string x = std::string("%x") + kind_of(t) + std::to_string(i);
    s += t.bytes == 8
             ? "mov.u64 %t, " + x + ";\n"
             : std::string("cvt.") + (t.is_signed ? "s64.s32" : "u64.u32") + " %t, " + x + ";\n";
    s += "st.global.u64 [%d+" + std::to_string(8 * i) + "], %t;\n";
  }
  return s + "ret;\n}\n";
}

/// 256 bits are moved to and from global memory alone.
bool exists(const std::string &space, const Element &t, uint32_t count) {
  return t.bytes * count <= 16 || space == "global";
}

} // namespace

TEST_CASE("every type and vector goes through every space unharmed") {
  std::string text = ".version 8.8\n.target sm_100\n.address_size 64\n";
  for (const char *space : kSpaces)
    for (const Element &t : kElements)
      for (uint32_t count : {1u, 2u, 4u})
        if (exists(space, t, count))
          text +=
              copy_kernel(std::string("k_") + space + "_" + t.name + "_" + std::to_string(count),
                          space, t, count);
  Emulated device("sm_100");
  device.load(text);
  Random random(5);
  std::vector<uint8_t> a(kMemoryThreads * 32);
  for (uint8_t &byte : a)
    byte = uint8_t(random.bits());
  uint64_t pa = device.upload(a), pm = device.allocate(kMemoryThreads * 32),
           pd = device.allocate(kMemoryThreads * 32);
  for (const char *space : kSpaces)
    for (const Element &t : kElements)
      for (uint32_t count : {1u, 2u, 4u}) {
        if (!exists(space, t, count))
          continue;
        std::string name = std::string("k_") + space + "_" + t.name + "_" + std::to_string(count);
        INFO(name);
        // All threads, and all but one lane of the second warp.
        for (uint32_t threads : {kMemoryThreads, kMemoryThreads - 1}) {
          device.launch(name, {1, 1, 1}, {threads, 1, 1}, 0, pa, pm, pd);
          auto got = device.download<uint64_t>(pd, kMemoryThreads * 4);
          for (uint32_t i = 0; i < threads * count; ++i) {
            uint64_t want = 0;
            std::memcpy(&want, &a[i * t.bytes], t.bytes);
            if (t.is_signed)
              want = uint64_t(int64_t(want << (64 - 8 * t.bytes)) >> (64 - 8 * t.bytes));
            REQUIRE(got[i / count * 4 + i % count] == want);
          }
        }
      }
}

TEST_CASE("accesses of every pattern of addresses find their elements") {
  // The address of lane i is base + 4 * index[i], read and written at two offsets through one
  // register.
  Emulated device;
  device.load(R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pi, .param .u64 pa, .param .u64 pd) {
  .shared .align 16 .b8 m[1024];
  .reg .b32 %i, %x, %s, %u, %v;
  .reg .b64 %p, %a, %d;
  mov.u32 %i, %tid.x;
  ld.param.u64 %p, [pi];
  mad.wide.u32 %p, %i, 4, %p;
  ld.global.u32 %x, [%p];
  ld.param.u64 %a, [pa];
  mad.wide.u32 %a, %x, 4, %a;
  ld.param.u64 %d, [pd];
  mad.wide.u32 %d, %i, 16, %d;
  ld.global.u32 %u, [%a];
  ld.global.u32 %v, [%a+4];
  st.global.v2.u32 [%d], {%u, %v};
  mov.u32 %s, m;
  mad.lo.u32 %s, %x, 4, %s;
  st.shared.u32 [%s], %u;
  st.shared.u32 [%s+512], %v;
  ld.shared.u32 %v, [%s+512];
  ld.shared.u32 %u, [%s];
  st.global.v2.u32 [%d+8], {%u, %v};
  ret;
})");
  std::vector<uint32_t> a(256);
  for (uint32_t i = 0; i < a.size(); ++i)
    a[i] = 7 * i + 1;
  Random random(9);
  std::vector<std::function<uint32_t(uint32_t)>> patterns = {
      [](uint32_t) { return 5u; },
      [](uint32_t lane) { return lane + 3; },
      [](uint32_t lane) { return lane % 16; },
      [](uint32_t lane) { return lane / 16 * 40; },
      [](uint32_t lane) { return lane < 16 ? lane : 70u; },
      [](uint32_t lane) { return lane < 16 ? 70u : lane; },
      [](uint32_t lane) { return lane < 16 ? lane + 32 : lane - 16; },
      [](uint32_t lane) { return 31 - lane; },
      [](uint32_t lane) { return lane * 3; },
      [&](uint32_t) { return uint32_t(random.bits() % 100); },
      [](uint32_t lane) { return lane == 17 ? 99u : lane; },
  };
  uint64_t pa = device.upload(a);
  for (size_t n = 0; n < patterns.size(); ++n)
    for (uint32_t threads : {32u, 31u, 20u, 1u}) {
      INFO("pattern " << n << ", " << threads << " threads");
      std::vector<uint32_t> index(32);
      for (uint32_t lane = 0; lane < 32; ++lane)
        index[lane] = patterns[n](lane);
      uint64_t pd = device.allocate(32 * 16);
      device.launch("k", {1, 1, 1}, {threads, 1, 1}, 0, device.upload(index), pa, pd);
      auto got = device.download<uint32_t>(pd, 32 * 4);
      for (uint32_t lane = 0; lane < threads; ++lane)
        for (uint32_t i = 0; i < 4; ++i)
          REQUIRE(got[lane * 4 + i] == a[index[lane] + i % 2]);
    }
}

TEST_CASE("lanes that a branch keeps find their elements, however low these lie") {
  // Lanes of the mask alone read and write shared memory at their index, and 512 bytes above; the
  // first of them may lie nearer to 0 than its lane's number says.
  Emulated device;
  std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n";
  const std::pair<const char *, uint32_t> elements[] = {{"u8", 1}, {"u16", 2}, {"u32", 4}};
  for (auto [name, bytes] : elements) {
    const std::string t = name, size = std::to_string(bytes);
    text += ".visible .entry k_" + t + R"((.param .u64 pi, .param .u32 mask, .param .u64 pd) {
  .shared .align 16 .b8 m[1024];
  .reg .b32 %i, %x, %s, %u, %v, %m;
  .reg .b64 %p, %d;
  .reg .pred %q;
  mov.u32 %i, %tid.x;
  ld.param.u64 %p, [pi];
  mad.wide.u32 %p, %i, 4, %p;
  ld.global.u32 %x, [%p];
  ld.param.u64 %d, [pd];
  mad.wide.u32 %d, %i, 8, %d;
  ld.param.u32 %m, [mask];
  shr.u32 %m, %m, %i;
  and.b32 %m, %m, 1;
  setp.eq.u32 %q, %m, 0;
  @%q bra END;
  mov.u32 %s, m;
  mad.lo.u32 %s, %x, )" +
            size + ", %s;\n  add.u32 %u, %i, 100;\n  st.shared." + t +
            " [%s], %u;\n  add.u32 %v, %i, 150;\n  st.shared." + t +
            " [%s+512], %v;\n  ld.shared." + t + " %u, [%s];\n  ld.shared." + t +
            " %v, [%s+512];\n" +
            R"(  st.global.v2.u32 [%d], {%u, %v};
END:
  ret;
}
)";
  }
  device.load(text);
  for (auto [name, bytes] : elements)
    for (uint32_t mask : {~0u, ~1u, 0xffff0000u, 0x80000000u, 0xaaaaaaaau, 0x7ffffff0u})
      for (bool apart : {false, true}) {
        INFO(name << ", mask " << mask << (apart ? ", apart" : ", together"));
        const uint32_t first = uint32_t(std::countr_zero(mask));
        std::vector<uint32_t> index(32);
        for (uint32_t lane = first; lane < 32; ++lane)
          index[lane] = (lane - first) * (apart ? 3 : 1);
        const uint64_t pd = device.upload(std::vector<uint32_t>(64, 7));
        device.launch(std::string("k_") + name, {1, 1, 1}, {32, 1, 1}, 0, device.upload(index),
                      mask, pd);
        const auto got = device.download<uint32_t>(pd, 64);
        for (uint32_t lane = 0; lane < 32; ++lane) {
          const bool kept = mask >> lane & 1;
          REQUIRE(got[2 * lane] == (kept ? lane + 100 : 7));
          REQUIRE(got[2 * lane + 1] == (kept ? lane + 150 : 7));
        }
      }
}

TEST_CASE("what a launch is recorded to touch is what its lanes touch, to the byte") {
  // Lanes of the mask read four bytes and write one, at their index.
  Emulated device;
  device.load(R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pi, .param .u32 mask, .param .u64 pa, .param .u64 pd) {
  .reg .b32 %i, %x, %m;
  .reg .b64 %p, %a, %d;
  .reg .pred %q;
  mov.u32 %i, %tid.x;
  ld.param.u64 %p, [pi];
  mad.wide.u32 %p, %i, 4, %p;
  ld.global.u32 %x, [%p];
  ld.param.u64 %a, [pa];
  mad.wide.u32 %a, %x, 4, %a;
  ld.param.u64 %d, [pd];
  mad.wide.u32 %d, %x, 1, %d;
  ld.param.u32 %m, [mask];
  shr.u32 %m, %m, %i;
  and.b32 %m, %m, 1;
  setp.ne.u32 %q, %m, 0;
  @%q ld.global.u32 %x, [%a];
  @%q st.global.u8 [%d], %x;
  ret;
})");
  constexpr uint32_t kElements = 128;
  const std::function<uint32_t(uint32_t)> patterns[] = {
      [](uint32_t) { return 5u; },
      [](uint32_t lane) { return lane; },
      [](uint32_t lane) { return 31 - lane; },
      [](uint32_t lane) { return lane * 3; },
      [](uint32_t lane) { return lane / 8 * 32 + lane % 8; },
      [](uint32_t lane) { return lane < 16 ? lane + 32 : lane; },
      [](uint32_t lane) { return lane ^ 1; },
      [](uint32_t lane) { return lane * 37 % kElements; },
  };
  const uint64_t pa = device.upload(std::vector<uint32_t>(kElements, 1));
  const uint64_t pd = device.upload(std::vector<uint8_t>(kElements, 0));
  for (size_t n = 0; n < std::size(patterns); ++n)
    for (uint32_t mask : {~0u, 0u, 1u, 0xaaaaaaaau, 0xffff0000u, 0x7ffffff0u}) {
      INFO("pattern " << n << ", mask " << mask);
      std::vector<uint32_t> index(32);
      std::set<uint64_t> read, written, reads, writes;
      for (uint32_t lane = 0; lane < 32; ++lane) {
        index[lane] = patterns[n](lane);
        for (uint32_t i = 0; i < 4 && (mask >> lane & 1); ++i)
          read.insert(pa + index[lane] * 4 + i);
        if (mask >> lane & 1)
          written.insert(pd + index[lane]);
      }
      const uint64_t pi = device.upload(index);
      for (uint64_t i = 0; i < 32 * 4; ++i)
        read.insert(pi + i);
      emulator::LaunchAccesses accesses;
      device.accesses = &accesses;
      device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, pi, mask, pa, pd);
      accesses.before_wait.for_each([&](emulator::AccessKind kind, const auto &range) {
        for (uint64_t at = range.begin; at < range.end; ++at)
          (kind == emulator::AccessKind::read ? reads : writes).insert(at);
      });
      CHECK(reads == read);
      CHECK(writes == written);
    }
}

TEST_CASE("operations across lanes agree with loops over the lanes") {
  struct Case {
    std::string text; // %rd (or %q, a predicate, as 1 or 0) from %ra, %rb and %m, the member mask
    std::function<U(const std::vector<U> &a, uint32_t lane, uint32_t members)> want;
  };
  auto over = [](auto combine) {
    return [=](const std::vector<U> &a, uint32_t, uint32_t members) {
      U r = 0;
      bool first = true;
      for (uint32_t i = 0; i < 32; ++i)
        if (members >> i & 1) {
          r = first ? a[i] : U(uint32_t(combine(uint32_t(r), uint32_t(a[i]))));
          first = false;
        }
      return r;
    };
  };
  using W = uint32_t;
  auto count_odd = [](const std::vector<U> &a, uint32_t members) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < 32; ++i)
      n += (members >> i & 1) && (a[i] & 1);
    return n;
  };
  auto size = [](uint32_t members) { return uint32_t(std::popcount(members)); };
  auto equal = [](const std::vector<U> &a, uint32_t lane, uint32_t members) {
    U r = 0;
    for (uint32_t i = 0; i < 32; ++i)
      r |= U((members >> i & 1) && a[i] == a[lane]) << i;
    return r;
  };
  const std::string odd =
      "{ .reg .pred p, q; .reg .b32 t; and.b32 t, %ra, 1; setp.ne.u32 p, t, 0; ";
  const std::string as_number = " selp.u32 %rd, 1, 0, q; }";
  const std::vector<Case> cases = {
      {"redux.sync.add.u32 %rd, %ra, %m;", over([](W x, W y) { return x + y; })},
      {"redux.sync.add.s32 %rd, %ra, %m;", over([](W x, W y) { return x + y; })},
      {"redux.sync.min.u32 %rd, %ra, %m;", over([](W x, W y) { return std::min(x, y); })},
      {"redux.sync.max.u32 %rd, %ra, %m;", over([](W x, W y) { return std::max(x, y); })},
      {"redux.sync.min.s32 %rd, %ra, %m;",
       over([](W x, W y) { return W(std::min(int32_t(x), int32_t(y))); })},
      {"redux.sync.max.s32 %rd, %ra, %m;",
       over([](W x, W y) { return W(std::max(int32_t(x), int32_t(y))); })},
      {"redux.sync.and.b32 %rd, %ra, %m;", over([](W x, W y) { return x & y; })},
      {"redux.sync.or.b32 %rd, %ra, %m;", over([](W x, W y) { return x | y; })},
      {"redux.sync.xor.b32 %rd, %ra, %m;", over([](W x, W y) { return x ^ y; })},
      {odd + "vote.sync.all.pred q, p, %m;" + as_number,
       [=](const std::vector<U> &a, uint32_t, uint32_t m) {
         return U(count_odd(a, m) == size(m));
       }},
      {odd + "vote.sync.any.pred q, p, %m;" + as_number,
       [=](const std::vector<U> &a, uint32_t, uint32_t m) { return U(count_odd(a, m) != 0); }},
      {odd + "vote.sync.uni.pred q, p, %m;" + as_number,
       [=](const std::vector<U> &a, uint32_t, uint32_t m) {
         return U(count_odd(a, m) == 0 || count_odd(a, m) == size(m));
       }},
      {odd + "vote.sync.ballot.b32 %rd, p, %m; }",
       [](const std::vector<U> &a, uint32_t, uint32_t m) {
         U r = 0;
         for (uint32_t i = 0; i < 32; ++i)
           r |= U((m >> i & 1) && (a[i] & 1)) << i;
         return r;
       }},
      {"match.any.sync.b32 %rd, %ra, %m;", equal},
      {"{ .reg .b64 t; cvt.u64.u32 t, %ra; shl.b64 t, t, 31; match.any.sync.b64 %rd, t, %m; }",
       equal},
      {"{ .reg .pred q; match.all.sync.b32 %rd|q, %ra, %m; @q add.u32 %rd, %rd, 1; }",
       [=](const std::vector<U> &a, uint32_t lane, uint32_t m) {
         return equal(a, lane, m) == m ? U(uint32_t(m + 1)) : 0;
       }},
      {"{ .reg .pred q; .reg .b64 t; cvt.u64.u32 t, %ra; match.all.sync.b64 %rd|q, t, %m; }",
       [=](const std::vector<U> &a, uint32_t lane, uint32_t m) {
         return equal(a, lane, m) == m ? U(m) : 0;
       }},
      {"{ .reg .pred q; elect.sync %rd|q, %m; @q add.u32 %rd, %rd, 100; }",
       [](const std::vector<U> &, uint32_t lane, uint32_t m) {
         uint32_t leader = uint32_t(std::countr_zero(m));
         return U(leader + (lane == leader ? 100 : 0));
       }},
      {"activemask.b32 %rd;",
       [](const std::vector<U> &, uint32_t, uint32_t) { return U(0xffffffff); }},
  };
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n";
  for (size_t i = 0; i < cases.size(); ++i)
    text +=
        ".visible .entry k" + std::to_string(i) +
        "(.param .u64 pa, .param .u64 pm, .param .u64 pd) {\n.reg .b32 %i, %ra, %m, %rd; .reg .b64 "
        "%x, %o;\n"
        "mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 8; ld.param.u64 %x, [pa]; add.s64 %x, %x, %o; "
        "ld.global.u32 %ra, [%x];\nld.param.u64 %x, [pm]; add.s64 %x, %x, %o; ld.global.u32 %m, "
        "[%x];\n" +
        cases[i].text +
        "\nld.param.u64 %x, [pd]; add.s64 %x, %x, %o; st.global.u32 [%x], %rd; ret;\n}\n";
  Emulated device;
  device.load(text);
  Random random(4);
  for (size_t n = 0; n < cases.size(); ++n)
    for (int round = 0; round < 4; ++round) {
      INFO(cases[n].text << ", round " << round);
      std::vector<U> a(32), m(32);
      // All lanes together, or two groups of lanes that each name themselves.
      uint32_t group = round % 2 ? uint32_t(random.bits()) | 1 : 0xffffffff;
      for (uint32_t i = 0; i < 32; ++i) {
        a[i] = round < 2 ? uint32_t(random.bits()) % 5 * 0x40000001 : 77;
        m[i] = group >> i & 1 ? group : ~group;
      }
      uint64_t pd = device.upload(std::vector<U>(32));
      device.launch("k" + std::to_string(n), {1, 1, 1}, {32, 1, 1}, 0, device.upload(a),
                    device.upload(m), pd);
      auto got = device.download<U>(pd, 32);
      for (uint32_t lane = 0; lane < 32; ++lane)
        REQUIRE(got[lane] == cases[n].want(a, lane, uint32_t(m[lane])));
    }
}
