// Waits within a warp end. Malformed or unsupported PTX is refused at load, with its line.
#include "support/emulated.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

Status load_error(std::string_view ptx, std::string_view profile = "sm_90") {
  auto memory = std::move(emulator::AddressSpace::create(16u << 20)).value();
  auto program = emulator::Program::load(ptx, *emulator::find_profile(profile), *memory);
  if (!program.ok())
    CHECK(memory->live_allocations() == 0);
  return program.take_status();
}

/// A kernel around some statements; %r0 to %r9, %rd0 to %rd9, %f0 to %f9, %p0 to %p3 exist.
std::string fault_kernel(std::string_view body) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry k(.param .u64 p) {\n"
         ".reg .b32 %r<10>; .reg .b64 %rd<10>; .reg .f32 %f<10>; .reg .pred %p<4>; .reg .b16 "
         "%h<4>;\n" +
         std::string(body) + "\nret;\n}\n";
}

// Each kernel waits within a warp, in a loop that stops its path in every round: at a call, or
// where lanes part. At [words] stands the lock or flag, behind it what the holder of the lock
// counts.
constexpr const char *kWaitingLoops = R"(.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 result) try_lock(.param .b64 lock) {
  .reg .b32 %r; .reg .b64 %rd;
  ld.param.u64 %rd, [lock];
  atom.cas.b32 %r, [%rd], 0, 1;
  st.param.b32 [result], %r;
  ret;
}
.func (.param .b32 result) read(.param .b64 flag) {
  .reg .b32 %r; .reg .b64 %rd;
  ld.param.u64 %rd, [flag];
  ld.volatile.u32 %r, [%rd];
  st.param.b32 [result], %r;
  ret;
}
.entry lock_by_call(.param .u64 words) {
  .reg .b32 %r<5>; .reg .b64 %rd; .reg .pred %p;
  ld.param.u64 %rd, [words];
again:
  { .param .b64 lock; .param .b32 held;
    st.param.b64 [lock], %rd;
    call.uni (held), try_lock, (lock);
    ld.param.b32 %r1, [held]; }
  setp.ne.s32 %p, %r1, 0;
  @%p bra again;
  ld.volatile.global.u32 %r2, [%rd+4];
  add.s32 %r2, %r2, 1;
  st.volatile.global.u32 [%rd+4], %r2;
  membar.gl;
  atom.global.exch.b32 %r3, [%rd], 0;
  ret;
}
.entry lock_with_split(.param .u64 words) {
  .reg .b32 %r<5>; .reg .b64 %rd; .reg .pred %p<3>;
  ld.param.u64 %rd, [words];
  mov.u32 %r4, %tid.x;
  and.b32 %r4, %r4, 1;
  setp.eq.s32 %p2, %r4, 1;
again:
  atom.global.cas.b32 %r1, [%rd], 0, 1;
  setp.eq.s32 %p1, %r1, 0;
  @%p1 bra held;
  @%p2 bra odd;
  st.volatile.global.u32 [%rd+8], %r1;
  bra next;
odd:
  nanosleep.u32 10;
next:
  bra again;
held:
  ld.volatile.global.u32 %r2, [%rd+4];
  add.s32 %r2, %r2, 1;
  st.volatile.global.u32 [%rd+4], %r2;
  membar.gl;
  atom.global.exch.b32 %r3, [%rd], 0;
  ret;
}
)";

/// The lower half of a warp waits for the flag that the upper half sets and counts behind it;
/// `round` reads the flag into %r1 and goes to `again` or falls through.
std::string flag_kernel(const char *name, const char *round) {
  return ".entry " + std::string(name) + R"((.param .u64 words) {
  .reg .b32 %r<5>; .reg .b64 %rd; .reg .pred %p<3>;
  ld.param.u64 %rd, [words];
  mov.u32 %r4, %tid.x;
  setp.ge.u32 %p1, %r4, 16;
  @%p1 bra set;
again:
)" + round +
         R"(
  bra done;
set:
  st.volatile.global.u32 [%rd], 1;
done:
  red.global.add.u32 [%rd+4], 1;
  ret;
}
)";
}

} // namespace

TEST_CASE("a wait within a warp ends though its loop calls a function or its lanes part") {
  std::string ptx = kWaitingLoops;
  ptx += flag_kernel("flag_by_call", R"({ .param .b64 flag; .param .b32 value;
    st.param.b64 [flag], %rd;
    call.uni (value), read, (flag);
    ld.param.b32 %r1, [value]; }
  setp.eq.s32 %p1, %r1, 0;
  @%p1 bra again;)");
  // Two ways back, which the lanes take in turns.
  ptx += flag_kernel("flag_in_turns", R"(ld.volatile.global.u32 %r1, [%rd];
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra done;
  add.s32 %r4, %r4, 1;
  and.b32 %r2, %r4, 1;
  setp.eq.s32 %p2, %r2, 0;
  @%p2 bra again;
  bra again;)");
  ptx += flag_kernel("flag_by_table", R"(ld.volatile.global.u32 %r1, [%rd];
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra done;
  add.s32 %r4, %r4, 1;
  and.b32 %r2, %r4, 1;
ways: .branchtargets again, more;
  brx.idx %r2, ways;
more:
  brx.idx %r2, ways2;
ways2: .branchtargets again, again;)");
  Emulated device;
  device.load(ptx);
  for (const char *name :
       {"lock_by_call", "lock_with_split", "flag_by_call", "flag_in_turns", "flag_by_table"}) {
    INFO(name);
    uint64_t words = device.upload(std::vector<uint32_t>(4));
    device.launch(name, {1, 1, 1}, {32, 1, 1}, 0, words);
    CHECK(device.download<uint32_t>(words + 4, 1)[0] == 32);
  }
}

TEST_CASE("malformed PTX is refused with its line") {
  struct Case {
    const char *body, *line, *part;
  };
  const Case cases[] = {
      {"add.s32 %r1, %r2;", "line 6", "operands"},
      {"add.s32 %r1, %r2, %r3", "line 7", "expected ','"}, // "ret" follows
      {"\nadd.s32 %r1, %r2, %r99;", "line 7", "%r99"},
      {"bra nowhere;", "line 6", "nowhere"},
      {"ld.param.u32 %r1, [p+6];", "line 6", "beyond parameter"},
      {"mov.u32 %r1, 99999999999999999999;", "line 6", "64 bits"},
      {"mov.f32 %f1, 0f12;", "line 6", "hexadecimal"},
      {"@%r1 bra x; x:", "line 6", "predicate"},
      {"ld.global.u32 %r1, %rd1;", "line 6", "brackets"},
      {"setp.eq.s32 %r1, %r2, %r3;", "line 6", "predicate"},
      {"add.s64 %rd1, %r1, %rd2;", "line 6", "too narrow"},
      {"x: x: ret;", "line 6", "twice"},
      {"bar.sync 17;", "line 6", "17"},
      {"barrier.sync 16;", "line 6", "0 to 15"},
      {"bar.sync 1, 33;", "line 6", "33"},
      {"bar.arrive 1, 48;", "line 6", "48"},
      {"bar.red.popc.u32 %r1, 1, 33, %p1;", "line 6", "33"},
      {"mov.u32 %r1, 5/0;", "line 6", "zero"},
      {"mov.u32 %r1, 1?2;", "line 6", "':'"},
      {"mov.u32 %r1, (1;", "line 6", "')'"},
      {"mov.u32 %r1, 1<<;", "line 6", "integer"},
  };
  for (const Case &c : cases) {
    Status status = load_error(fault_kernel(c.body));
    INFO(c.body << " gives " << status.to_string());
    REQUIRE_FALSE(status.ok());
    CHECK(status.code() == Code::parse_error);
    CHECK(contains(status.to_string(), c.line));
    CHECK(contains(status.to_string(), c.part));
  }
  for (const char *text :
       {"", "garbage", ".version 9.0", ".version 9.0\n.target", ".version 9.0 .target sm_80 {",
        ".version 9.0 .target sm_80 .visible .entry k(", "/*"}) {
    Status status = load_error(text);
    INFO(text);
    REQUIRE_FALSE(status.ok());
    CHECK(contains(status.location(), "line"));
  }
  CHECK(load_error(fault_kernel("")).ok());
}

TEST_CASE("what is not executed is refused by name, and newer targets by number") {
  const std::string place = " %r1, [%rd1, {%r1, %r2}];";
  struct Row {
    std::string name, before, behind;
  };
  for (const Row &row : std::initializer_list<Row>{
           {"tcgen05.alloc", "", ".cta_group::1.sync.aligned.shared::cta.b32 [%r1], %r2;"},
           {"tex.1d.v4.f32.s32", "", place},
           {"suld.b.2d.b32.trap", "", place},
           {"ld.global.u32", "", place},
           {"%envreg3", "mov.u32 %r1, ", ";"},
           {".v2", ".reg ", " .f32 %pair;"}}) {
    Status status = load_error(fault_kernel(row.before + row.name + row.behind));
    INFO(status.to_string());
    CHECK(status.code() == Code::unsupported);
    CHECK(contains(status.to_string(), row.name));
    CHECK(contains(status.to_string(), "line 6"));
  }
  Status status = load_error(fault_kernel(""), "sm_75");
  CHECK(status.code() ==
        Code::invalid_argument); // as ptxas has it: the PTX is wrong for the device
  CHECK(contains(status.to_string(), "sm_80"));
}

TEST_CASE("nesting and sizes in hostile PTX are bounded") {
  std::string deep;
  for (int i = 0; i < 10000; ++i)
    deep += '{';
  CHECK_FALSE(load_error(fault_kernel(deep)).ok());
  CHECK_FALSE(load_error(".version 8.0 .target sm_80 .global .b8 x[1099511627776][1024];").ok());
  CHECK_FALSE(load_error(".version 8.0 .target sm_80 .global .b8 x[1000000000];").ok());
  CHECK_FALSE(load_error(fault_kernel(".local .b8 x[1000000];")).ok());
  CHECK_FALSE(load_error(fault_kernel(".shared .b8 x[100000000];")).ok());
  std::string expression = "mov.u32 %r1, ";
  for (int i = 0; i < 10000; ++i)
    expression += "-(";
  CHECK_FALSE(load_error(fault_kernel(expression)).ok());
}
