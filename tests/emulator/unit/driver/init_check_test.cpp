// Uses of bytes that nothing has written: what is a finding, word for word, and the legal neighbour
// of each case.
#include "emulator/unit/driver/session.h"

#include <algorithm>

namespace {

/// A kernel with `in` in %rd1 and `out` in %rd2, both moved on by four bytes a thread; `mine` and
/// `word` are local and shared. The body begins in line 9.
std::string around(const std::string &body, const std::string &before = "") {
  return ".version 8.0\n.target sm_80\n.address_size 64\n" + before +
         "\n"
         ".visible .entry use(.param .u64 in, .param .u64 out) {\n"
         ".reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<8>; .reg .pred %p<4>; .reg .b16 "
         "%h<8>;\n"
         ".shared .align 16 .b8 word[512]; .local .align 8 .b8 mine[16];\n"
         "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 "
         "%rd3, "
         "%r1, 4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;\n" +
         body + "\nret;\n}\n";
}

struct Checked : Session {
  Checked() : Session({"CUGRT_EMU_CHECK=uninitialized", "CUGRT_EMU_THREADS=1"}) {
    OK(CU(cuMemAlloc_v2)(&in, 256));
    OK(CU(cuMemAlloc_v2)(&out, 256));
  }
  void run(const std::string &ptx, unsigned threads = 1) {
    CUmodule module = MADE(cuModuleLoadData, ptx.c_str());
    CUfunction function = MADE(cuModuleGetFunction, module, "use");
    launch_kernel(function, 1, threads, nullptr, in, out);
    OK(CU(cuCtxSynchronize)());
  }
  /// What a kernel with this body makes the check say, of one thread.
  std::string found(const std::string &body, const std::string &before = "") {
    run(around(body, before));
    return findings();
  }
  void write(CUdeviceptr at, size_t bytes) { OK(CU(cuMemsetD8_v2)(at, 1, bytes)); }
  CUdeviceptr in = 0, out = 0;
};

const std::string kComputed = "uninitialized: a value that is stored to global memory is computed "
                              "from bytes that nothing has written: ";
std::string of(CUdeviceptr begin, unsigned byte, unsigned bytes = 256) {
  return "global address " + hex(begin + byte) + " (byte " + std::to_string(byte) +
         " of an allocation of " + std::to_string(bytes) + "), read at ";
}
const std::string kThread = "; in kernel use, block (0, 0, 0), thread (0, 0, 0), at ptx line ";

const char *const kIncrement = "ld.global.u32 %r2, [%rd1];\nadd.u32 %r2, %r2, 1;\n"
                               "st.global.u32 [%rd2], %r2;";

} // namespace

TEST_CASE("A value computed from bytes that nothing has written is found where it is stored") {
  Checked device;
  CHECK(device.found(kIncrement) == kComputed + of(device.in, 0) + "ptx line 9" + kThread + "11\n");
  // Behind the finding the result counts as written.
  std::swap(device.in, device.out);
  device.run(around(kIncrement));
  CHECK(statistics().findings == 1);
}

TEST_CASE("Definedness is a matter of bytes: one of four that is not written is enough") {
  Checked device;
  device.write(device.in, 3);
  device.write(device.in + 4, 252);
  CHECK(device.found(kIncrement) == kComputed + of(device.in, 3) + "ptx line 9" + kThread + "11\n");
}

TEST_CASE("What a copy from the host, a fill or a kernel has written is defined") {
  Checked device;
  uint32_t value = 7;
  int by = GENERATE(0, 1, 2, 3, 4);
  if (by == 0)
    OK(CU(cuMemcpyHtoD_v2)(device.in, &value, 4));
  else if (by == 1)
    OK(CU(cuMemsetD32_v2)(device.in, 7, 1));
  else if (by == 2)
    device.run(around("st.global.u32 [%rd1], 5;"));
  else if (by == 3)
    device.run(around("st.global.v2.u16 [%rd1], {5, 6};"));
  else
    device.run(around("atom.global.exch.b32 %r2, [%rd1], 5;"));
  CHECK(device.found(kIncrement).empty());
}

TEST_CASE("Each place in the code is told once, whatever the thread, block and launch") {
  Checked device;
  device.run(around(kIncrement), 32);
  CHECK(statistics().findings == 32);
  OK(CU(cuMemFree_v2)(device.out));
  OK(CU(cuMemAlloc_v2)(&device.out, 256));
  device.run(around(kIncrement), 32);
  CHECK(findings() == kComputed + of(device.in, 0) + "ptx line 9" + kThread + "11\n");
}

TEST_CASE("A copy of undefined bytes is no finding, and as undefined as they are") {
  Checked device;
  device.write(device.in + 4, 4);
  int by = GENERATE(0, 1, 2);
  if (by == 0)
    device.run(
        around("ld.global.v2.u32 {%r2, %r3}, [%rd1];\nst.global.v2.u32 [%rd2], {%r2, %r3};"));
  else if (by == 1)
    OK(CU(cuMemcpyDtoD_v2)(device.out, device.in, 100));
  else // through shared memory, registers of 64 bits and a shuffle
    device.run(around("ld.global.u64 %rd4, [%rd1]; st.shared.u64 [word], %rd4;\n"
                      "ld.shared.u64 %rd5, [word]; mov.b64 {%r2, %r3}, %rd5;\n"
                      "shfl.sync.idx.b32 %r4, %r2, 0, 31, 1;\n"
                      "mov.b64 %rd6, {%r4, %r3}; st.global.u64 [%rd2], %rd6;"));
  CHECK(findings().empty());
  std::swap(device.in, device.out);
  device.in += 4; // the part that was written
  CHECK(device.found(kIncrement).empty());
  device.in -= 4;
  CHECK(device.found(kIncrement).find(kComputed) == 0);
}

TEST_CASE("Copies to odd addresses carry definedness byte by byte") {
  Checked device;
  device.write(device.in, 70);
  device.write(device.in + 71, 100); // byte 70 is undefined
  device.write(device.out, 256);
  OK(CU(cuMemcpyDtoD_v2)(device.out + 3, device.in + 1, 150));
  std::swap(device.in, device.out);
  device.in += 72;
  device.write(device.out, 256);
  CHECK(device.found(kIncrement).find(of(device.in - 72, 72)) != std::string::npos);
  device.in += 4;
  device.run(around(kIncrement));
  CHECK(statistics().findings == 1);
}

TEST_CASE("Of a wide load only what is used counts") {
  Checked device;
  device.write(device.in, 4);
  device.write(device.in + 8, 2);
  CHECK(device
            .found("ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1]; add.u32 %r2, %r2, 1;\n"
                   "st.global.u32 [%rd2], %r2;\n"
                   // Halves of a pair, bytes of a word, what a mask leaves.
                   "mov.b32 {%h1, %h2}, %r4; add.u16 %h1, %h1, 1; st.global.u16 [%rd2], %h1;\n"
                   "and.b32 %r6, %r4, 65535; add.u32 %r6, %r6, 1; st.global.u32 [%rd2], %r6;\n"
                   "shl.b32 %r6, %r4, 16; add.u32 %r6, %r6, 1; st.global.u32 [%rd2], %r6;\n"
                   "prmt.b32 %r6, %r4, 0, 0x4410; add.u32 %r6, %r6, 1; st.global.u32 [%rd2], %r6;\n"
                   "bfe.u32 %r6, %r4, 8, 8; add.u32 %r6, %r6, 1; st.global.u32 [%rd2], %r6;\n"
                   "lop3.b32 %r6, %r4, 255, 1, 0xea; add.u32 %r6, %r6, 1; st.global.u32 [%rd2], "
                   "%r6;\n"
                   "cvt.u32.u16 %r6, %h1; add.u32 %r6, %r6, 1; st.global.u32 [%rd2], %r6;\n"
                   "add.f16x2 %r6, %r4, %r4; cvt.u16.u32 %h3, %r6; st.global.u16 [%rd2], %h3;")
            .empty());
  CHECK(device.found("ld.global.u32 %r4, [%rd1+8];\nadd.f16x2 %r6, %r4, %r4;\n"
                     "st.global.u32 [%rd2], %r6;") ==
        kComputed + of(device.in, 10) + "ptx line 9" + kThread + "11\n");
}

TEST_CASE("What is chosen by a defined predicate is as defined as the choice") {
  Checked device;
  device.write(device.in + 4, 4);
  CHECK(device
            .found("ld.global.v2.u32 {%r2, %r3}, [%rd1]; add.u32 %r2, %r2, 1;\n"
                   "setp.eq.u32 %p1, %r1, 0; selp.b32 %r4, %r3, %r2, %p1;\n"
                   "add.u32 %r4, %r4, 1; st.global.u32 [%rd2], %r4;\n"
                   "@!%p1 st.global.u32 [%rd2], %r2;")
            .empty());
}

TEST_CASE("A branch, a guard, an address and an atomic operation are uses at once") {
  struct Case {
    const char *body, *what;
    unsigned line;
  };
  const Case use = GENERATE(
      Case{"ld.global.u32 %r2, [%rd1];\nsetp.eq.u32 %p1, %r2, 3;\n@%p1 bra DONE;\nDONE:",
           "a branch depends on", 10}, // one operation with setp
      Case{"ld.global.u32 %r2, [%rd1];\nand.b32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, 3;\n"
           "@%p1 st.global.u32 [%rd2], 1;",
           "a branch depends on", 11},
      Case{"ld.global.u32 %r2, [%rd1];\nTS: .branchtargets A, B;\nand.b32 %r3, %r2, 1;\nbrx.idx "
           "%r3, TS;\nA:\nB:",
           "a branch depends on", 12},
      Case{
          "ld.global.u32 %r2, [%rd1];\ncvt.u64.u32 %rd4, %r2; and.b64 %rd4, %rd4, 8; add.s64 %rd4, "
          "%rd2, %rd4;\nst.global.u32 [%rd4], 1;",
          "an address is computed from", 11},
      Case{"ld.global.u32 %r2, [%rd1];\nred.global.add.u32 [%rd2+64], %r2;\n",
           "an atomic operation uses", 10},
      Case{"red.global.add.u32 [%rd1], 1;", "an atomic operation uses", 9},
      Case{"atom.global.cas.b32 %r2, [%rd1], 1, 2;", "an atomic operation uses", 9});
  Checked device;
  device.write(device.out, 256);
  CHECK(device.found(use.body) == "uninitialized: " + std::string(use.what) +
                                      " bytes that nothing has written: " + of(device.in, 0) +
                                      "ptx line 9" + kThread + std::to_string(use.line) + "\n");
}

TEST_CASE("Shared and local memory begin undefined in every block") {
  Checked device;
  SECTION("shared") {
    CHECK(device.found("ld.shared.u32 %r2, [word+8];\nadd.u32 %r2, %r2, 1;\n"
                       "st.global.u32 [%rd2], %r2;") ==
          kComputed + "shared address 0x8, read at ptx line 9" + kThread + "11\n");
  }
  SECTION("local") {
    CHECK(device.found("st.local.u16 [mine], 1;\nld.local.u32 %r2, [mine]; add.u32 %r2, %r2, 1;\n"
                       "st.global.u32 [%rd2], %r2;") ==
          kComputed + "local address 0x2, read at ptx line 10" + kThread + "11\n");
  }
  SECTION("through generic addresses, and what was written is defined") {
    CHECK(device
              .found("mov.u64 %rd4, mine; cvta.local.u64 %rd4, %rd4; st.u32 [%rd4], 1;\n"
                     "ld.local.u32 %r2, [mine]; st.shared.u32 [word], %r2; ld.shared.u32 %r3, "
                     "[word];\nadd.u32 %r2, %r2, %r3; st.global.u32 [%rd2], %r2;")
              .empty());
  }
  SECTION("what was computed stays so in shared memory") {
    CHECK(device
              .found("ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; st.shared.u32 [word], %r2;\n"
                     "ld.shared.u32 %r3, [word];\nst.global.u32 [%rd2], %r3;")
              .find(kComputed + "shared address 0x0, read at ptx line 10") == 0);
  }
}

TEST_CASE("cp.async carries definedness when it arrives, ldmatrix and mma by element") {
  Checked device;
  device.write(device.in, 12);
  const std::string fetch =
      "mov.u32 %r2, word; cp.async.ca.shared.global [%r2], [%rd1], 16, 16; cp.async.wait_all;\n";
  SECTION("what was written") {
    CHECK(device
              .found(fetch + "ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [word]; add.u32 %r3, %r3, "
                             "%r5; st.global.u32 [%rd2], %r3;")
              .empty());
  }
  SECTION("what was not") {
    CHECK(device
              .found(fetch + "ld.shared.u32 %r6, [word+12]; add.u32 %r6, %r6, 1;\nst.global.u32 "
                             "[%rd2], %r6;")
              .find(kComputed + "shared address 0xc, read at ptx line 10") == 0);
  }
  SECTION("before it arrives the destination is undefined, also where it was written") {
    for (const std::string before : {"", "st.shared.u32 [word], 7;"})
      CHECK(device
                .found(before + "mov.u32 %r2, word; cp.async.ca.shared.global [%r2], [%rd1], 4;\n"
                                "ld.shared.u32 %r3, [word]; add.u32 %r3, %r3, 1; "
                                "st.global.u32 [%rd2], %r3;")
                .find(kComputed + "shared address 0x0") == 0);
  }
}

namespace {

// Lane 5, whose part of a matrix is row 1, columns 2 and 3, has a value that nothing has written.
const std::string kOneUndefined = "mov.u32 %r3, 1; setp.eq.u32 %p1, %r1, 5;\n"
                                  "@%p1 ld.shared.u32 %r3, [word+256];\n";

} // namespace

TEST_CASE("movmatrix and stmatrix carry definedness by element") {
  Checked device;
  auto run = [&](const std::string &body) {
    std::string text = around(kOneUndefined + body);
    text.replace(text.find("sm_80"), 5, "sm_90");
    device.run(text, 32);
  };
  // Transposed, they are in column 1 of rows 2 and 3: the upper halves of lanes 8 and 12.
  const std::string transposed = "movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r3;\n";
  SECTION("the lower halves of what is transposed") {
    run(transposed + "and.b32 %r4, %r4, 0xffff; add.u32 %r4, %r4, 1; st.global.u32 [%rd2], %r4;");
    CHECK(findings().empty());
  }
  SECTION("the upper halves") {
    run(transposed + "shr.u32 %r4, %r4, 16; add.u32 %r4, %r4, 1; st.global.u32 [%rd2], %r4;");
    CHECK(findings().find("thread (8, 0, 0)") != std::string::npos);
    CHECK(statistics().findings == 2);
  }
  const std::string stored =
      "mov.u32 %r2, word; mad.lo.u32 %r2, %r1, 16, %r2;\n"
      "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r3};\nbar.sync 0;\n";
  SECTION("what is stored beside them") {
    run(stored + "ld.shared.u32 %r4, [word+16]; ld.shared.u32 %r5, [word+24];\n"
                 "add.u32 %r4, %r4, %r5; st.global.u32 [%rd2], %r4;");
    CHECK(findings().empty());
  }
  SECTION("what is stored of them") {
    run(stored + "ld.shared.u32 %r4, [word+20]; add.u32 %r4, %r4, 1; st.global.u32 [%rd2], %r4;");
    CHECK(statistics().findings > 0);
    CHECK(findings().find("shared address 0x14") != std::string::npos);
  }
}

namespace {

// A row-major 16 x 8 matrix a of tf32 in shared memory, of which row `unwritten` is missing, times
// ones; every thread stores row `stored` of the result.
std::string product(int unwritten, const std::string &stored) {
  return around(
      "setp.ne.u32 %p1, %r1, " + std::to_string(unwritten) +
      "; setp.lt.u32 %p2, %r1, 16; and.pred %p1, %p1, %p2; shl.b32 %r2, %r1, 5; "
      "mov.u32 %r3, word; add.u32 %r2, %r2, %r3;\n"
      "@%p1 st.shared.v4.f32 [%r2], {0f3f800000, 0f3f800000, 0f3f800000, 0f3f800000};\n"
      "@%p1 st.shared.v4.f32 [%r2+16], {0f3f800000, 0f3f800000, 0f3f800000, 0f3f800000};\n"
      "bar.sync 0; mov.b32 %r10, 0f3f800000;\n"
      "and.b32 %r4, %r1, 15; shr.u32 %r5, %r1, 4; shl.b32 %r4, %r4, 5; shl.b32 %r5, %r5, 4;"
      "add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, %r3;\n"
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r9}, [%r4];\n"
      "mov.b32 %f1, 0; mov.b32 %f2, 0; mov.b32 %f3, 0; mov.b32 %f4, 0;\n"
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r6, "
      "%r7, %r8, %r9}, {%r10, %r10}, {%f1, %f2, %f3, %f4};\n" +
      stored);
}

} // namespace

TEST_CASE("A row of mma's result depends on the row of a and the column of b, and on no other") {
  Checked device;
  SECTION("a whole matrix") {
    device.run(product(99, "st.global.f32 [%rd2], %f1; st.global.f32 [%rd2], %f3;"), 32);
    CHECK(findings().empty());
  }
  SECTION("row 3 is of the first eight: the upper half of the results is defined") {
    device.run(product(3, "st.global.f32 [%rd2], %f3; st.global.f32 [%rd2], %f4;"), 32);
    CHECK(findings().empty());
  }
  SECTION("row 3 is held by lanes 12 to 15") {
    device.run(product(3, "st.global.f32 [%rd2], %f1;"), 32);
    CHECK(findings().find("thread (12, 0, 0)") != std::string::npos);
    CHECK(statistics().findings == 4);
  }
}

namespace {

// A row-major 16 x 16 matrix of f16 in shared memory, a half row a thread, of which row `unwritten`
// is missing, times ones by wmma, into global memory.
std::string fragments(unsigned unwritten) {
  return around(
      "shr.u32 %r2, %r1, 1; setp.ne.u32 %p1, %r2, " + std::to_string(unwritten) +
      "; mov.u32 %r3, word; shl.b32 %r2, %r1, 4; add.u32 %r2, %r2, %r3; mov.u32 %r4, 0x3c003c00;\n"
      "@%p1 st.shared.v4.u32 [%r2], {%r4, %r4, %r4, %r4};\n"
      "bar.sync 0; mov.u32 %r5, 16; ld.param.u64 %rd2, [out];\n"
      ".reg .b32 %a<8>; .reg .f32 %d<8>;\n"
      "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, "
      "[word], %r5;\n"
      "mov.f32 %d0, 0f00000000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0; "
      "mov.f32 %d4, %d0; mov.f32 %d5, %d0; mov.f32 %d6, %d0; mov.f32 %d7, %d0;\n"
      "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}, "
      "{%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, {%r4, %r4, %r4, %r4, %r4, %r4, %r4, %r4}, "
      "{%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7};\n"
      "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd2], "
      "{%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}, %r5;");
}

} // namespace

TEST_CASE("Undefined elements of wmma's fragments make rows of the result undefined") {
  Checked device;
  OK(CU(cuMemAlloc_v2)(&device.out, 1024));
  SECTION("a whole matrix") {
    device.run(fragments(99), 32);
    CHECK(findings().empty());
    float result[256];
    OK(CU(cuMemcpyDtoH_v2)(result, device.out, sizeof result));
    CHECK(std::all_of(result, result + 256, [](float sum) { return sum == 16; }));
  }
  SECTION("row 3 is missing") {
    device.run(fragments(3), 32);
    CHECK(findings().find("uninitialized: a value that is stored to global memory") == 0);
  }
}

TEST_CASE("Undefined arguments of a called function are followed, and its results") {
  Checked device;
  const std::string callee = ".func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %r<3>; "
                             "ld.param.b32 %r1, [a]; st.param.b32 [r], %r1; ret; }";
  const std::string call = "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; call.uni (r), "
                           "twice, (a); ld.param.b32 %r3, [r]; }\n";
  CHECK(device.found("ld.global.u32 %r2, [%rd1];\n" + call + "st.global.u32 [%rd2], %r3;", callee)
            .empty());
  CHECK(device
            .found("ld.global.u32 %r2, [%rd1];\n" + call +
                       "add.u32 %r3, %r3, 1;\nst.global.u32 [%rd2], %r3;",
                   callee)
            .find(kComputed + of(device.in, 0) + "ptx line 9") == 0);
}

TEST_CASE("Warp-wide operations on an undefined value make all results undefined") {
  Checked device;
  device.write(device.in + 4, 124);
  SECTION("a vote decides a branch") {
    device.run(around("ld.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 3;\n"
                      "vote.sync.any.pred %p2, %p1, 0xffffffff; @%p2 st.global.u32 [%rd2], 1;"),
               32);
    CHECK(findings().find("uninitialized: a branch depends on") == 0);
  }
  SECTION("a reduction") {
    device.run(around("ld.global.u32 %r2, [%rd1]; redux.sync.add.u32 %r3, %r2, 0xffffffff;\n"
                      "st.global.u32 [%rd2], %r3;"),
               32);
    CHECK(statistics().findings == 32);
  }
  SECTION("a shuffle from a lane whose value is defined") {
    device.run(around("ld.global.u32 %r2, [%rd1]; shfl.sync.idx.b32 %r3, %r2, 5, 31, 0xffffffff;\n"
                      "add.u32 %r3, %r3, 1; st.global.u32 [%rd2], %r3;"),
               32);
    CHECK(findings().empty());
  }
}

TEST_CASE("Memory that is given out anew is undefined again") {
  Checked device;
  CUdeviceptr before = device.in;
  bool pool = GENERATE(false, true);
  OK(CU(cuMemsetD8_v2)(device.in, 0, 256));
  if (pool) {
    OK(CU(cuMemFreeAsync)(device.in, nullptr));
    OK(CU(cuCtxSynchronize)());
    OK(CU(cuMemAllocAsync)(&device.in, 256, nullptr));
    OK(CU(cuCtxSynchronize)());
  } else {
    OK(CU(cuMemFree_v2)(device.in));
    OK(CU(cuMemAlloc_v2)(&device.in, 256));
  }
  REQUIRE(device.in == before);
  CHECK(device.found(kIncrement).find(kComputed + of(before, 0)) == 0);
  OK(CU(cuMemFree_v2)(device.in));
}

TEST_CASE("Memory that the host writes itself counts as defined") {
  Checked device;
  void *pinned = MADE(cuMemAllocHost_v2, 256);
  OK(CU(cuMemHostGetDevicePointer_v2)(&device.in, pinned, 0));
  CHECK(device.found(kIncrement).empty());
  // Even where undefined bytes were copied to it.
  OK(CU(cuMemcpyDtoD_v2)(device.in, device.out + 64, 64));
  CHECK(device.found(kIncrement).empty());
  OK(CU(cuMemFreeHost)(pinned));
}

TEST_CASE("Mapped memory is undefined where it is first seen, and defined once it is seen twice") {
  Checked device;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const size_t bytes = size_t(2) << 20;
  CUdeviceptr range = 0, kept = device.in;
  CUmemGenericAllocationHandle handle = MADE(cuMemCreate, bytes, &properties, 0);
  OK(CU(cuMemAddressReserve)(&range, 2 * bytes, 0, 0, 0));
  OK(CU(cuMemMap)(range, bytes, 0, handle, 0));
  OK(CU(cuMemSetAccess)(range, bytes, &access, 1));
  bool twice = GENERATE(false, true);
  if (twice) {
    OK(CU(cuMemMap)(range + bytes, bytes, 0, handle, 0));
    OK(CU(cuMemSetAccess)(range + bytes, bytes, &access, 1));
  }
  device.in = range;
  CHECK(device.found(kIncrement).empty() == twice);
  device.in = kept;
  OK(CU(cuMemUnmap)(range, bytes));
  if (twice)
    OK(CU(cuMemUnmap)(range + bytes, bytes));
  OK(CU(cuMemAddressFree)(range, 2 * bytes));
  OK(CU(cuMemRelease)(handle));
}

TEST_CASE("Variables of a module are defined, with and without an initialiser") {
  Checked device;
  CHECK(
      device
          .found("ld.global.u32 %r2, [given]; ld.global.u32 %r3, [zero]; ld.const.u32 %r4, [fixed];"
                 "add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; st.global.u32 [%rd2], %r2;",
                 ".global .u32 given = 3; .global .u32 zero; .const .u32 fixed = 4;")
          .empty());
}

TEST_CASE("A copy to the host of nothing but undefined bytes is a finding") {
  Checked device;
  uint32_t values[2];
  OK(CU(cuMemcpyDtoH_v2)(values, device.in, 8));
  CHECK(findings() == "uninitialized: a copy to the host takes 8 bytes at " + hex(device.in) +
                          ", of which nothing has written one\n");
  // Some of them are: the rest may be padding.
  device.write(device.out, 1);
  OK(CU(cuMemcpyDtoH_v2)(values, device.out, 8));
  CHECK(statistics().findings == 1);
}

TEST_CASE("What lanes exchange in different calls of a function is followed through it") {
  const std::string function =
      ".func (.param .b32 result) swap(.param .b32 value) { .reg .b32 %r<4>; "
      "ld.param.b32 %r1, [value]; shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1; "
      "st.param.b32 [result], %r2; ret; }";
  const std::string call =
      "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call (b), swap, (a); "
      "ld.param.b32 %r2, [b]; }";
  const std::string body = "ld.global.u32 %r2, [%rd1];\nsetp.lt.u32 %p0, %r1, 16; @%p0 bra low;\n" +
                           call + " bra done;\nlow: " + call +
                           "\ndone: add.u32 %r2, %r2, 1;\nst.global.u32 [%rd2], %r2;";
  Checked written;
  written.write(written.in, 128);
  written.run(around(body, function), 32);
  CHECK(findings().empty());
  const CUdeviceptr fresh = [] { return MADE(cuMemAlloc_v2, 128); }();
  written.in = fresh;
  written.write(fresh, 64); // of the lower half of the warp
  written.run(around(body, function), 32);
  CHECK(findings() == kComputed + of(fresh, 64, 128) + "ptx line 9" + kThread + "14\n");
}
