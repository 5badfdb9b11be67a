// What the driver's checks report, word for word, and the legal neighbour of each case, of which
// they say nothing.
#include "emulator/unit/driver/session.h"

TEST_CASE("A check that does not exist is refused by cuInit, and named") {
  FreshDriver driver({"CUGRT_EMU_CHECK=leak,lock"});
  CHECK(CU(cuInit)(0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(findings() == "refused: CUGRT_EMU_CHECK=leak,lock is not understood: give all, none, or "
                      "checks with commas between\n");
}

TEST_CASE("What a context held when it was destroyed is counted") {
  FreshDriver driver({"CUGRT_EMU_CHECK=leak"});
  OK(CU(cuInit)(0));
  bool primary = GENERATE(true, false), tidy = GENERATE(true, false);
  CUcontext context = nullptr;
  if (primary) {
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
  } else {
    OK(CU(cuCtxCreate_v2)(&context, 0, 0));
  }
  CUmodule module = load_kernels();
  CUdeviceptr a = MADE(cuMemAlloc_v2, 64);
  CUdeviceptr b = MADE(cuMemAlloc_v2, 4096);
  void *pinned = MADE(cuMemAllocHost_v2, 100);
  CUstream stream = MADE(cuStreamCreate, 0);
  CUgraph graph = MADE(cuGraphCreate, 0);
  CUgraphExec exec = MADE(cuGraphInstantiateWithFlags, graph, 0);
  if (tidy) {
    OK(CU(cuMemFree_v2)(a));
    OK(CU(cuMemFree_v2)(b));
    OK(CU(cuMemFreeHost)(pinned));
    OK(CU(cuStreamDestroy_v2)(stream));
    OK(CU(cuModuleUnload)(module));
    OK(CU(cuGraphExecDestroy)(exec));
    OK(CU(cuGraphDestroy)(graph));
  }
  if (primary) {
    OK(CU(cuCtxSetCurrent)(nullptr));
    OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
  } else {
    OK(CU(cuCtxDestroy_v2)(context));
  }
  std::string left = "was destroyed with 2 device allocations (4160 bytes), 1 host allocation (100 "
                     "bytes), 1 module, 1 stream, 1 graph instance, 1 graph left\n";
  std::string found = findings();
  if (tidy)
    CHECK(found.empty());
  else
    CHECK(found.substr(found.find("was")) == left);
  CHECK(statistics().findings == (tidy ? 0 : 1));
  if (!tidy) {
    OK(CU(cuGraphExecDestroy)(exec));
    OK(CU(cuGraphDestroy)(graph));
  }
}

TEST_CASE("What a failed device keeps the program from freeing is no leak") {
  FreshDriver driver({"CUGRT_EMU_CHECK=leak"});
  OK(CU(cuInit)(0));
  bool faulting = GENERATE(true, false);
  CUcontext context = MADE(cuCtxCreate_v2, 0, 0);
  CUmodule module = load_kernels();
  CUdeviceptr a = MADE(cuMemAlloc_v2, 64);
  if (faulting) {
    CUfunction trap = kernel(module, "trap_now");
    OK(CU(cuLaunchKernel)(trap, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(CU(cuMemFree_v2)(a) == CUDA_ERROR_LAUNCH_FAILED);
  }
  OK(CU(cuCtxDestroy_v2)(context));
  CHECK((findings().find("leak: ") == std::string::npos) == faulting);
}

namespace {

// Thread 0 writes a word of shared memory that thread 32, of the next warp, reads; between them
// stands `between`. Line 7 is the store, the load follows two lines later.
std::string handed_over(const std::string &between) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry hand(.param .u64 out) {\n"
         ".reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .pred %p<3>; .shared .align 4 .b8 word[4];\n"
         "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 32; mov.u32 %r3, 0;\n"
         "@%p1 st.shared.u32 [word], %r1;\n" +
         between +
         "\n@%p2 ld.shared.u32 %r3, [word];\n"
         "ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;\n"
         "st.global.u32 [%rd1], %r3;\nret;\n}\n";
}

std::string findings_of(const std::string &ptx, const std::string &checks = "race") {
  Session session({"CUGRT_EMU_CHECK=" + checks, "CUGRT_EMU_THREADS=1"});
  CUmodule module = MADE(cuModuleLoadData, ptx.c_str());
  CUfunction function = MADE(cuModuleGetFunction, module, "hand");
  CUdeviceptr out = MADE(cuMemAlloc_v2, 256);
  launch_kernel(function, 1, 64, nullptr, out);
  OK(CU(cuCtxSynchronize)());
  return findings();
}

} // namespace

TEST_CASE("A read of shared memory that no barrier orders with another warp's write is a race") {
  // With the others on, what the launch touches is recorded besides.
  std::string checks = GENERATE("race", "all");
  CHECK(findings_of(handed_over(""), checks) ==
        "race: read of shared address 0x0 by thread (32, 0, 0) at ptx line 9 is not ordered with "
        "the write by thread (0, 0, 0) at ptx line 7, in kernel hand, block (0, 0, 0)\n");
  // A barrier of the warp alone orders nothing between warps.
  CHECK(findings_of(handed_over("bar.warp.sync 0xffffffff;")).find("race: ") == 0);
}

namespace {

// Every thread of the first warp writes 16 bytes of a matrix, of which the second warp loads a
// fragment.
std::string fragment_handed_over(const std::string &between) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry hand(.param .u64 out) {\n"
         ".reg .b32 %r<12>; .reg .b64 %rd<3>; .reg .pred %p<3>; .shared .align 16 .b8 a[512];\n"
         "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; mov.u32 %r2, a; shl.b32 %r3, %r1, 4;\n"
         "add.u32 %r2, %r2, %r3; mov.u32 %r3, 16;\n"
         "@%p1 st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};\n" +
         between +
         "\n@%p1 bra done;\n"
         "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r4, %r5, %r6, %r7, %r8, %r9, %r10, "
         "%r11}, [a], %r3;\ndone:\nret;\n}\n";
}

} // namespace

TEST_CASE("wmma's loads are reads of shared memory to the check of races") {
  CHECK(findings_of(fragment_handed_over("")).find("race: read of shared address") == 0);
  CHECK(findings_of(fragment_handed_over("bar.sync 0;")).empty());
}

namespace {

// Thread 0 touches a word, and then thread 32, of the next warp; between them stands `between`.
std::string meeting(const std::string &first, const std::string &between,
                    const std::string &second) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry hand(.param .u64 out) {\n"
         ".reg .b32 %r<4>; .reg .pred %p<3>; .shared .align 4 .b8 word[4];\n"
         "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 32;\n"
         "@%p1 " +
         first + "\n" + between + "\n@%p2 " + second + "\nret;\n}\n";
}

} // namespace

TEST_CASE("An ordered access races with a plain one, and not with another ordered one") {
  const std::string load = "ld.shared.u32 %r2, [word];", store = "st.shared.u32 [word], %r1;",
                    atomic = "atom.shared.add.u32 %r2, [word], 1;",
                    reduction = "red.shared.add.u32 [word], 1;",
                    flag_read = "ld.volatile.shared.u32 %r2, [word];",
                    flag_write = "st.volatile.shared.u32 [word], %r1;";
  struct Pair {
    const std::string &first, &second;
    bool races;
  };
  const Pair pairs[] = {
      {store, atomic, true},          {atomic, store, true},       {load, atomic, true},
      {atomic, load, true},           {store, reduction, true},    {reduction, load, true},
      {store, flag_read, true},       {flag_read, store, true},    {load, flag_write, true},
      {flag_write, load, true},       {load, flag_read, false},    {flag_read, load, false},
      {atomic, atomic, false},        {atomic, reduction, false},  {flag_write, flag_read, false},
      {flag_read, flag_write, false}, {atomic, flag_write, false}, {flag_write, atomic, false}};
  for (const Pair &pair : pairs) {
    INFO(pair.first << " and " << pair.second);
    CHECK((findings_of(meeting(pair.first, "", pair.second)).find("race: ") == 0) == pair.races);
    CHECK(findings_of(meeting(pair.first, "bar.sync 0;", pair.second)).empty());
  }
  // The thread's own atomic after its store does not hide the store.
  CHECK(findings_of(meeting(store + " @%p1 " + atomic, "", atomic)).find("race: ") == 0);
  CHECK(findings_of(meeting(store, "", atomic)) ==
        "race: write of shared address 0x0 by thread (32, 0, 0) at ptx line 9 is not ordered with "
        "the write by thread (0, 0, 0) at ptx line 7, in kernel hand, block (0, 0, 0)\n");
}

TEST_CASE("What a spin lock guards is ordered, and the lock itself is no race") {
  auto locked = [](const std::string &unlock) {
    return ".version 8.0\n.target sm_80\n.address_size 64\n"
           ".visible .entry hand(.param .u64 out) {\n"
           ".reg .b32 %r<6>; .reg .pred %p<3>; .shared .align 4 .b8 lock[4], word[4];\n"
           "mov.u32 %r1, %tid.x; and.b32 %r5, %r1, 31; setp.ne.u32 %p1, %r5, 0;\n"
           "setp.ne.u32 %p2, %r1, 0; @%p2 bra begun;\n"
           "st.shared.u32 [lock], %r1; st.shared.u32 [word], %r1;\n"
           "begun: bar.sync 0; @%p1 bra done;\n"
           "again: atom.shared.cas.b32 %r2, [lock], 0, 1; setp.ne.u32 %p0, %r2, 0;\n"
           "@%p0 bra again; membar.cta;\n"
           "ld.shared.u32 %r3, [word]; add.u32 %r3, %r3, 1; st.shared.u32 [word], %r3;\n"
           "membar.cta;\n" +
           unlock + "\ndone: bar.sync 0; ld.shared.u32 %r3, [word];\nret;\n}\n";
  };
  CHECK(findings_of(locked("atom.shared.exch.b32 %r2, [lock], 0;")).empty());
  CHECK(findings_of(locked("st.volatile.shared.u32 [lock], 0;")).empty());
  CHECK(findings_of(locked("st.shared.u32 [lock], 0;")).find("race: ") == 0);
}

TEST_CASE("stmatrix's stores are writes of shared memory to the check of races") {
  auto handed = [](const std::string &between, const std::string &offset) {
    return ".version 8.0\n.target sm_90\n.address_size 64\n"
           ".visible .entry hand(.param .u64 out) {\n"
           ".reg .b32 %r<6>; .reg .pred %p<3>; .shared .align 16 .b8 a[256];\n"
           "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; mov.u32 %r2, a; shl.b32 %r3, %r1, 4;\n"
           "and.b32 %r3, %r3, 112; add.u32 %r2, %r2, %r3; @%p1 bra behind;\n"
           "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r1};\nbehind:\n" +
           between + "\n@%p1 ld.shared.u32 %r4, [%r2+" + offset + "];\nret;\n}\n";
  };
  CHECK(findings_of(handed("", "12")) ==
        "race: read of shared address 0xc by thread (32, 0, 0) at ptx line 11 is not ordered with "
        "the write by thread (0, 0, 0) at ptx line 8, in kernel hand, block (0, 0, 0)\n");
  CHECK(findings_of(handed("bar.sync 0;", "12")).empty());
  CHECK(findings_of(handed("", "128")).empty()); // beyond the matrix
}

TEST_CASE("Barriers of the block, whole, named or split in arrival and wait, order shared memory") {
  CHECK(findings_of(handed_over("bar.sync 0;")).empty());
  CHECK(findings_of(handed_over("barrier.sync 3, 64;")).empty());
  CHECK(findings_of(handed_over("setp.lt.u32 %p0, %r1, 32; @%p0 bar.arrive 1, 64; @!%p0 bar.sync "
                                "1, 64;"))
            .empty());
}
