// What instructions need of .target and .version: refused at load by name, line and need.
#include "emulator/decode/requirements.h"
#include "support/emulated.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

using namespace cugrt;
using namespace cugrt::test;

namespace {

Status load(const char *version, const char *target, const std::string &items) {
  auto memory = std::move(emulator::AddressSpace::create(1u << 20)).value();
  auto program = emulator::Program::load(std::string(".version ") + version + "\n.target " +
                                             target + "\n.address_size 64\n" + items,
                                         *emulator::find_profile("sm_100"), *memory);
  return program.take_status();
}

std::string requirement_kernel(const std::string &body) {
  return ".entry k() {\n.reg .f32 f, g; .reg .b32 r; .reg .b64 rd; .reg .b16 h; .reg .pred p;\n" +
         body + "\nret;\n}\n";
}

} // namespace

TEST_CASE("an instruction below its target or version is refused by name, line and need") {
  struct Case {
    const char *instruction, *target, *version; // what it needs at least
    const char *lower_target;                   // the next one below
    const char *lower_version; // likewise, or none where it does not know the target
  };
  // From the "PTX ISA Notes" and "Target ISA Notes" of each instruction.
  const Case cases[] = {
      {"cp.async.ca.shared.global [r], [rd], 16;", "sm_80", "7.0", "sm_75", nullptr},
      {"redux.sync.add.u32 r, r, -1;", "sm_80", "7.0", "sm_75", nullptr},
      {"griddepcontrol.wait;", "sm_90", "7.8", "sm_89", nullptr},
      {"tanh.approx.f32 f, f;", "sm_75", "7.0", "sm_72", "6.5"},
      {"fma.rn.bf16 h, h, h, h;", "sm_80", "7.0", "sm_75", nullptr},
      {"add.bf16 h, h, h;", "sm_90", "7.8", "sm_89", nullptr},
      {"cvt.f32.bf16 f, h;", "sm_80", "7.1", "sm_75", "7.0"},
      {"cvt.rn.satfinite.e4m3x2.f32 h, f, g;", "sm_89", "8.1", "sm_86", "8.0"},
      {"cvt.rn.satfinite.e4m3x2.f32 h, f, g;", "sm_90", "7.8", "sm_89", nullptr},
      {"min.f32 f, f, g, f;", "sm_100", "8.8", "sm_90", "8.7"},
      {"min.xorsign.abs.f32 f, f, g;", "sm_86", "7.2", "sm_80", "7.1"},
      {"ld.relaxed.gpu.global.u32 r, [rd];", "sm_70", "6.0", "sm_62", nullptr},
      {"ld.global.L1::no_allocate.u32 r, [rd];", "sm_70", "7.4", "sm_62", "7.3"},
      {"elect.sync r|p, -1;", "sm_90", "8.0", "sm_89", "7.8"},
      {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r}, [r];", "sm_75", "6.5", "sm_72", "6.4"},
      {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {f,g,f,g}, {r,r}, {r}, {f,g,f,g};",
       "sm_75", "6.5", "sm_72", "6.4"},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f,g,f,g}, {r,r,r,r}, {r,r}, "
       "{f,g,f,g};",
       "sm_80", "7.0", "sm_75", nullptr},
      {"mov.u32 r, %cluster_ctarank;", "sm_90", "7.8", "sm_89", nullptr},
  };
  for (const Case &c : cases) {
    INFO(c.instruction);
    Status status = load(c.version, c.target, requirement_kernel(c.instruction));
    INFO(status.to_string());
    CHECK(status.ok());
    for (bool lower_target : {true, false}) {
      if (!lower_target && !c.lower_version)
        continue;
      status = load(lower_target ? c.version : c.lower_version,
                    lower_target ? c.lower_target : c.target, requirement_kernel(c.instruction));
      INFO(status.to_string());
      CHECK(status.code() == Code::parse_error);
      CHECK(contains(status.to_string(), "line 6"));
      CHECK(contains(status.to_string(), "needs ."));
    }
  }
  std::string text =
      load("6.5", "sm_75", requirement_kernel("cp.async.ca.shared.global [r], [rd], 16;"))
          .to_string();
  for (const char *part : {"cp.async.ca.shared.global", ".target sm_80", ".version 7.0"})
    CHECK(contains(text, part));
}

TEST_CASE("a target that the module's version does not know is refused by its name and line") {
  struct Case {
    const char *version, *target;
    bool is_known;
    const char *says;
  };
  // From the "PTX ISA Version History" and the table of .target in the PTX ISA.
  const Case cases[] = {
      {"6.3", "sm_75", true, ""},
      {"6.2", "sm_75", false, "'sm_75' needs .version 6.3"},
      {"7.0", "sm_80", true, ""},
      {"6.5", "sm_80", false, "'sm_80' needs .version 7.0"},
      {"7.0", "sm_120", false, "'sm_120' needs .version 8.7"},
      {"7.8", "sm_90", true, ""},
      {"7.8", "sm_90a", false, "'sm_90a' needs .version 8.0"},
      {"8.7", "sm_100f", false, "'sm_100f' needs .version 8.8"},
      {"8.8", "sm_100f", true, ""},
      {"9.0", "sm_90f", false, "'sm_90f' is no target of version 9.0"},
      {"9.0", "sm_75a", false, "'sm_75a' is no target of version 9.0"},
      {"9.0", "sm_85", false, "'sm_85' is no target of version 9.0"},
      {"9.0", "sm_99", false, "'sm_99' is no target of version 9.0"},
      {"9.1", "sm_99", true, ""}, // may be one: what version 9.1 brings is not known here
  };
  for (const Case &c : cases) {
    INFO(c.version << " " << c.target);
    Status status = load(c.version, c.target, ".entry k() { ret; }");
    INFO(status.to_string());
    CHECK(status.ok() == c.is_known);
    if (c.is_known)
      continue;
    CHECK(status.code() == Code::parse_error);
    CHECK(contains(status.to_string(), c.says));
    CHECK(contains(status.to_string(), "line 2"));
  }
}

TEST_CASE("a kernel's own shared memory is at most 48 KiB, with that of the functions it calls") {
  auto use = [](const std::string &bytes) {
    return ".reg .b32 r;\n.shared .align 4 .b8 s[" + bytes + "];\nmov.u32 r, s;\nret;\n}\n";
  };
  CHECK(load("8.0", "sm_80", ".entry k() {\n" + use("49152")).ok());
  Status status = load("8.0", "sm_80", "\n.entry k() {\n" + use("49153"));
  CHECK(status.code() == Code::parse_error);
  for (const char *part : {"'k'", "49153", "49152", "line 5"})
    CHECK(contains(status.to_string(), part));
  const std::string function = ".func f() {\n" + use("40000");
  CHECK(load("8.0", "sm_80", function + ".entry k() {\n" + use("20000")).ok());
  CHECK_FALSE(load("8.0", "sm_80", function + ".entry k() {\ncall f;\n" + use("20000")).ok());
  const std::string outside = ".shared .align 4 .b8 m[49153];\n";
  CHECK(load("8.0", "sm_80", outside + ".entry k() { ret; }").ok());
  CHECK_FALSE(
      load("8.0", "sm_80", outside + ".entry k() {\n.reg .b32 r;\nmov.u32 r, m;\nret;\n}\n").ok());
  // One variable that both name counts once.
  const std::string shared = ".shared .align 4 .b8 m[30000];\n";
  const std::string both = ".reg .b32 r;\nmov.u32 r, m;\nret;\n}\n";
  CHECK(load("8.0", "sm_80", shared + ".func f() {\n" + both + ".entry k() {\ncall f;\n" + both)
            .ok());
  // Memory that is sized at the launch does not count here.
  CHECK(load("8.0", "sm_80",
             ".extern .shared .align 16 .b8 d[];\n.entry k() {\n.reg .b32 q;\nmov.u32 q, d;\n" +
                 use("49152"))
            .ok());
}

// For check_requirements.py: lines of an opcode and its number of operands in a file, answered by
// what a module for sm_30 of version 4.0 lacks.
TEST_CASE("requirements of the opcodes in a file", "[.requirements]") {
  const char *asked = std::getenv("CUGRT_TEST_OPCODES"),
             *answers = std::getenv("CUGRT_TEST_ANSWERS");
  REQUIRE((asked && answers));
  std::ifstream in(asked);
  std::ofstream out(answers);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    size_t operands = 0;
    words >> name >> operands;
    emulator::Opcode opcode;
    REQUIRE(opcode.split(name));
    out << emulator::lacking(opcode, operands, 30, 40) << '\n';
  }
  CHECK(out.good());
}
