// The passes over decoded code change no result: made-up programs run with and without them.
#include "support/emulated.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

constexpr uint32_t kPassThreads = 96, kWords = 24;

/// Runs `ptx` (kernel k, parameters o and a) and returns what it wrote at o.
std::vector<uint64_t> run_pass(const std::string &ptx, bool optimize) {
  Emulated device;
  emulator::LoadOptions options;
  options.optimize = optimize;
  device.load(ptx, options);
  std::vector<uint32_t> a(4096);
  for (uint32_t i = 0; i < a.size(); ++i)
    a[i] = i * 2654435761u;
  uint64_t pa = device.upload(a), out = device.upload(std::vector<uint64_t>(kPassThreads * kWords));
  device.launch("k", {1, 1, 1}, {kPassThreads, 1, 1}, 0, out, pa);
  return device.download<uint64_t>(out, kPassThreads * kWords);
}

std::string pass_kernel(const std::string &body) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 o, .param "
         ".u64 a) {\n"
         ".reg .b32 %r<8>, %thread, %n; .reg .b64 %l<8>, %out, %data; .reg .pred %p<4>;\n"
         ".shared .align 16 .b8 m[8192];\nmov.u32 %thread, %tid.x;\nld.param.u64 %out, [o];\n"
         "mad.wide.u32 %out, %thread, " +
         std::to_string(8 * kWords) + ", %out;\nld.param.u64 %data, [a];\n" + body + "ret;\n}\n";
}

/// Statements over %r0.. and %l0.. that are drawn to be what the passes look for, and near misses.
class Program {
public:
  explicit Program(uint64_t seed) : random_(seed) {}

  std::string text() {
    std::string body = "setp.lt.u32 %p0, %thread, 40;\nsetp.eq.u32 %p1, %thread, 5;\n";
    for (int i = 0; i < 8; ++i)
      body += "mad.lo.u32 %r" + n(i) + ", %thread, " + n(3 * i + 1) + ", " + n(i) +
              ";\ncvt.u64.u32 %l" + n(i) + ", %r" + n(i) + ";\n";
    for (int block = 0; block < 6; ++block) {
      std::string label = "L" + n(block);
      bool loop = pick(3) == 0;
      if (loop)
        body += "mov.u32 %n, 0;\n" + label + ":\n";
      for (int i = 0; i < 14; ++i)
        body += statement();
      if (loop) // a different number of rounds in some lanes
        body += "and.b32 %r7, %thread, " + n(pick(2) ? 0 : 3) +
                ";\nadd.u32 %n, %n, 1;\nsetp.le.u32 %p3, %n, %r7;\n@%p3 bra " + label + ";\n";
      else
        body += compare() + "@" + (pick(2) ? "!" : "") + "%p0 bra " + label + ";\n" + statement() +
                statement() + label + ":\n";
    }
    for (int i = 0; i < 8; ++i)
      body += "st.global.u32 [%out+" + n(8 * i) + "], %r" + n(i) + ";\nst.global.u64 [%out+" +
              n(64 + 8 * i) + "], %l" + n(i) + ";\n";
    return pass_kernel(body);
  }

private:
  static std::string n(int value) { return std::to_string(value); }
  int pick(int count) { return int(random_.bits() % uint64_t(count)); }
  std::string r() { return "%r" + n(pick(8)); }
  std::string l() { return "%l" + n(pick(8)); }
  std::string compare() {
    const char *const kinds[] = {"lt.u32", "ne.s32", "ge.s32", "gt.f32"};
    return std::string("setp.") + kinds[pick(4)] + " %p" + n(pick(4) == 0) + ", " + r() + ", " +
           r() + ";\n";
  }

  std::string statement() {
    std::string guard = pick(6) ? "" : pick(2) ? "@%p1 " : "@!%p0 ";
    switch (pick(14)) {
    case 0:
    case 1:
      return guard + "mov.b32 " + r() + ", " + r() + ";\n";
    case 2:
      return guard + "mov.u32 " + r() + ", " + n(pick(100)) + ";\n";
    case 3:
      return guard + "mov.b64 " + l() + ", " + l() + ";\n";
    case 4:
      return guard + "add.s64 " + l() + ", " + l() + ", " + l() + ";\n";
    case 5:
      return guard + "shl.b64 " + l() + ", " + l() + ", " + n(pick(4)) + ";\n";
    case 6:
      return guard + "mul.wide." + (pick(2) ? "s32 " : "u32 ") + l() + ", " + r() + ", 4;\n";
    case 7: { // the pattern whole, through a temporary that nothing else reads, or that something
              // does
      std::string t = "t" + n(++temporaries_), q = "q" + n(temporaries_), d = l();
      return "{ .reg .b64 " + t + ", " + q + ";\nadd.s64 " + t + ", " + l() + ", " + l() + ";\n" +
             (pick(2) ? "mov.u64 " + l() + ", " + l() + ";\n" : "") + "shl.b64 " + q + ", " + t +
             ", 2;\n" + "add.s64 " + d + ", " + l() + ", " + q + ";\n" +
             (pick(3) ? "" : "add.s64 " + d + ", " + q + ", " + t + ";\n") + "}\n";
    }
    case 8: // loads through one register, which one of them may replace
      return "{ .reg .b64 %x; .reg .b32 %y;\nand.b32 %y, " + r() +
             ", 1023;\nmad.wide.u32 %x, %y, 4, %data;\n" + "ld.global.u32 " + r() +
             ", [%x];\nld.global.u32 " + r() + ", [%x+16];\n" +
             (pick(2) ? "add.s64 %x, %x, 64;\n" : "") + "ld.global.u32 " + r() + ", [%x+32];\n}\n";
    case 9:
      return "{ .reg .b32 %y;\nmov.u32 %y, m;\nmad.lo.u32 %y, %thread, 64, %y;\nst.shared.u32 "
             "[%y], " +
             r() + ";\nst.shared.u32 [%y+4], " + r() + ";\nld.shared.u32 " + r() + ", [%y];\n" +
             (pick(2) ? "ld.shared.u32 %y, [%y+4];\nmov.b32 " + r() + ", %y;\n" : "") + "}\n";
    case 10:
      return compare();
    case 11:
      return guard + "xor.b32 " + r() + ", " + r() + ", " + r() + ";\n";
    case 12:
      return guard + "cvt.u64.u32 " + l() + ", " + r() + ";\n";
    default:
      return guard + "add.u32 " + r() + ", " + r() + ", " + r() + ";\n";
    }
  }

  Random random_;
  int temporaries_ = 0;
};

} // namespace

TEST_CASE("programs made up at random give the same with and without the passes") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    std::string ptx = Program(seed).text();
    INFO("seed " << seed << "\n" << ptx);
    auto plain = run_pass(ptx, false), optimized = run_pass(ptx, true);
    REQUIRE(plain == optimized);
    REQUIRE(plain != std::vector<uint64_t>(plain.size()));
  }
}

TEST_CASE("instructions count as written, whatever the passes make of them") {
  // Two moves, an index, a comparison with its branch, a load and a store, eleven in all, once a
  // lane.
  std::string ptx =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 o) {\n"
      ".reg .b32 %r<4>; .reg .b64 %l<4>; .reg .pred %p;\n"
      "ld.param.u64 %l0, [o];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %r0;\n"
      "mul.wide.u32 %l1, %r1, 4;\nadd.s64 %l2, %l0, %l1;\nmov.u32 %r2, 5;\n"
      "st.global.u32 [%l2], %r2;\nld.global.u32 %r3, [%l2];\n"
      "setp.eq.u32 %p, %r3, 5;\n@%p bra done;\ntrap;\ndone:\nret;\n}\n";
  for (bool optimize : {false, true}) {
    auto memory = std::move(emulator::AddressSpace::create(1 << 20)).value();
    emulator::LoadOptions options;
    options.optimize = optimize;
    auto program =
        std::move(emulator::Program::load(ptx, emulator::default_profile(), *memory, options))
            .value();
    uint64_t out = std::move(memory->allocate(4 * 48)).value();
    emulator::ExecutionCounters counters;
    emulator::LaunchConfig config;
    config.block = {48, 1, 1}; // a warp and a half
    config.params = std::as_bytes(std::span(&out, 1));
    config.counters = &counters;
    REQUIRE_FALSE(program->launch(*program->find_kernel("k"), config));
    CHECK(counters.warp_instructions == 2 * 11);
    CHECK(counters.lane_operations == 48 * 11);
  }
}
