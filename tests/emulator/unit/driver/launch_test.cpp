// Modules, functions and launches: loading, limits, arguments, faults.
#include "emulator/unit/driver/session.h"

#include <cstring>

namespace {

struct Vectors {
  CUdeviceptr out, a, b;
  uint32_t count;
  void *params[4];

  explicit Vectors(uint32_t n)
      : out(upload(std::vector<float>(n, -1))), a(upload(std::vector<float>(n, 2))),
        b(upload(std::vector<float>(n, 40))), count(n), params{&out, &a, &b, &count} {}
  Vectors(const Vectors &) = delete;
  Vectors &operator=(const Vectors &) = delete;
};

CUresult launch(CUfunction f, unsigned grid, unsigned block, void **params, void **extra = nullptr,
                unsigned shared = 0) {
  return CU(cuLaunchKernel)(f, grid, 1, 1, block, 1, 1, shared, nullptr, params, extra);
}

} // namespace

TEST_CASE("A kernel runs with its arguments in either form") {
  Session session;
  CUfunction add = kernel(load_kernels(), "add");
  Vectors v(100);
  SECTION("an array of pointers") { OK(launch(add, 4, 32, v.params)); }
  SECTION("one packed buffer") {
    struct {
      CUdeviceptr out, a, b;
      uint32_t n;
    } packed{v.out, v.a, v.b, v.count};
    size_t bytes = 28;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    OK(launch(add, 4, 32, nullptr, extra));
  }
  SECTION("an extensible launch") {
    CUlaunchConfig config{};
    config.gridDimX = 4;
    config.blockDimX = 32;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(CU(cuLaunchKernelEx)(&config, add, v.params, nullptr));
  }
  CHECK(download<float>(v.out, 100) == std::vector<float>(100, 42));
  CHECK(statistics().kernels_launched == 1);
}

TEST_CASE("Bytes that kernels load are counted, those apart of memory that none writes") {
  Session session;
  CUfunction add = kernel(load_kernels(), "add");
  Vectors v(200); // of 800 bytes, two granules each
  auto loads = [] {
    std::vector<unsigned long long> counted(3);
    OK(CU(cuEmuGetLoads)(&counted[0], &counted[1], &counted[2]));
    return counted;
  };
  auto run = [&] {
    OK(launch(add, 7, 32, v.params));
    OK(CU(cuCtxSynchronize)());
    return loads();
  };
  CHECK(run() == std::vector<unsigned long long>{0, 0, 0});
  OK(CU(cuEmuCountLoads)(1));
  CHECK(run() == std::vector<unsigned long long>{1600, 1600, 2048});
  v.params[1] = &v.out;
  CHECK(run() == std::vector<unsigned long long>{3200, 2400, 2048});
  OK(CU(cuEmuCountLoads)(0));
  CHECK(run() == std::vector<unsigned long long>{0, 0, 0});
  CHECK(CU(cuEmuGetLoads)(nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("Launches outside the limits are refused and nothing runs") {
  Session session;
  CUfunction add = kernel(load_kernels(), "add");
  Vectors v(4);
  CHECK(launch(add, 0, 32, v.params) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(add, 1, 0, v.params) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(add, 1, 1025, v.params) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuLaunchKernel)(add, 1, 65536, 1, 1, 1, 1, 0, nullptr, v.params, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuLaunchKernel)(add, 1, 1, 1, 1, 1, 65, 0, nullptr, v.params, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(add, 1, 32, v.params, nullptr, 48 * 1024 + 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(add, 1, 32, nullptr) == CUDA_ERROR_INVALID_VALUE);
  void *none[] = {CU_LAUNCH_PARAM_END};
  // "Specifying kernel parameters via both kernelParams and extra will cause cuLaunchKernel to
  // return CUDA_ERROR_INVALID_VALUE"
  CHECK(launch(add, 1, 32, v.params, none) == CUDA_ERROR_INVALID_VALUE);
  size_t bytes = 27; // one short
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &v, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  CHECK(launch(add, 1, 32, nullptr, extra) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(nullptr, 1, 32, v.params) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(statistics().kernels_launched == 0);
}

TEST_CASE("More shared memory needs opting in, up to the device's limit") {
  Session session{"CUGRT_EMU_DEVICE=sm_90"};
  CUfunction add = kernel(load_kernels(), "add");
  Vectors v(4);
  constexpr auto kMax = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  int value = MADE(cuFuncGetAttribute, kMax, add);
  CHECK(value == 48 * 1024);
  CHECK(CU(cuFuncSetAttribute)(add, kMax, 227 * 1024 + 1) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuFuncSetAttribute)(add, kMax, 100 * 1024));
  OK(launch(add, 1, 32, v.params, nullptr, 100 * 1024));
  OK(CU(cuCtxSynchronize)());
}

TEST_CASE("A function says how much constant memory its module has") {
  Session session;
  CUmodule module = nullptr;
  OK(CU(cuModuleLoadData)(&module, PTX_HEAD R"(.const .align 4 .u32 few[5];
.const .align 8 .f64 one = 0d3FF0000000000000;
.global .align 4 .u32 other[100];
.visible .entry k() { ret; }
)"));
  int bytes = MADE(cuFuncGetAttribute, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, kernel(module, "k"));
  CHECK(bytes == 5 * 4 + 8);
  OK(CU(cuModuleUnload)(module));
}

TEST_CASE("What is no PTX is refused, with the reason in the log") {
  Session session{"CUGRT_EMU_DEVICE=sm_75"};
  CUmodule module = nullptr;
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  auto load = [&](const char *image) {
    values[1] = reinterpret_cast<void *>(sizeof log);
    return CU(cuModuleLoadDataEx)(&module, image, 2, options, values);
  };
  CHECK(load(".version 7.0\nnonsense") == CUDA_ERROR_INVALID_PTX);
  CHECK(std::strlen(log) == reinterpret_cast<size_t>(values[1]));
  CHECK(log[0] != 0);
  CHECK(load("\x7f"
             "ELF.......") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(std::string(log).find("PTX") != std::string::npos);
  CHECK(load(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry f() { ret; }\n") ==
        CUDA_ERROR_INVALID_PTX);
  CHECK(std::string(log).find("sm_90") != std::string::npos);
  CHECK(load(nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE(
    "Kernels run beside those with an instruction that is missing, whose launches are refused") {
  Session session;
  std::string accumulators;
  for (int i = 0; i < 128; ++i)
    accumulators += (i ? ", %f" : "%f") + std::to_string(i);
  const std::string ptx = R"(
.version 8.0
.target sm_90a
.address_size 64
.func missing() { .reg .b64 %d; .reg .f32 %f<128>; mov.b64 %d, 0;
  wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {)" +
                          accumulators + R"(}, %d, %d, 0, 1, 1, 0, 0; ret; }
.visible .entry calls_missing() { call missing; ret; }
.visible .entry has_coordinates(.param .u64 map) { .reg .b64 %m; .reg .b32 %r<4>;
  ld.param.u64 %m, [map]; tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%m, {%r0}]; ret; }
.visible .entry whole() { ret; }
)";
  CUmodule module = MADE(cuModuleLoadData, ptx.c_str());
  OK(launch(kernel(module, "whole"), 1, 32, nullptr));
  uint64_t map = 0;
  void *params[] = {&map};
  for (auto [name, instruction, line] :
       {std::tuple{"calls_missing", "wgmma.mma_async", "line 6"},
        std::tuple{"has_coordinates", "tex.1d.v4.u32.s32", "line 9"}}) {
    CHECK(launch(kernel(module, name), 1, 32, params) == CUDA_ERROR_NOT_SUPPORTED);
    char message[512];
    OK(CU(cuEmuGetLastMessage)(message, sizeof message));
    CHECK(std::string(message).find(instruction) != std::string::npos);
    CHECK(std::string(message).find(line) != std::string::npos);
  }
  OK(launch(kernel(module, "whole"), 1, 32, nullptr));
  OK(CU(cuCtxSynchronize)());
  // Without a kernel that runs the module is of no use.
  const std::string rest = ptx.substr(0, ptx.find(".visible .entry whole"));
  CHECK(CU(cuModuleLoadData)(&module, rest.c_str()) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("A library's kernel is loaded into the context that uses it") {
  Session session;
  const char *ptx = ".version 7.0\n.target sm_75\n.address_size 64\n"
                    ".visible .entry nothing() { ret; }\n";
  CUkernel handle = nullptr;
  CUlibrary library = MADE(cuLibraryLoadData, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0);
  CHECK(CU(cuLibraryGetKernel)(&handle, library, "none") == CUDA_ERROR_NOT_FOUND);
  OK(CU(cuLibraryGetKernel)(&handle, library, "nothing"));
  CHECK(statistics().modules == 0);
  // "f - Function CUfunction or Kernel CUkernel to launch"
  OK(launch(reinterpret_cast<CUfunction>(handle), 1, 1, nullptr));
  CHECK(statistics().modules == 1);
  CUfunction function = MADE(cuKernelGetFunction, handle);
  OK(launch(function, 1, 1, nullptr));
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuLibraryUnload)(library));
  CHECK(CU(cuLibraryUnload)(library) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(launch(reinterpret_cast<CUfunction>(handle), 1, 1, nullptr) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("A fault is reported by the next synchronising call and sticks until the reset") {
  Session session;
  CUmodule module = load_kernels();
  CUdeviceptr address = 0;
  SECTION("an address that nobody allocated") {
    Vectors v(4);
    CUdeviceptr wild = v.out + (uint64_t(1) << 30);
    v.params[0] = &wild;
    OK(launch(kernel(module, "add"), 1, 32, v.params));
    CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
    char message[512];
    OK(CU(cuEmuGetLastMessage)(message, sizeof message));
    CHECK(std::string(message).find("add") != std::string::npos);
    CHECK(CU(cuMemAlloc_v2)(&address, 4) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(CU(cuStreamSynchronize)(nullptr) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(launch(kernel(module, "add"), 1, 32, v.params) == CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  SECTION("a trap") {
    OK(launch(kernel(module, "trap_now"), 1, 1, nullptr));
    CHECK(CU(cuStreamSynchronize)(nullptr) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_LAUNCH_FAILED);
  }
  OK(CU(cuDevicePrimaryCtxReset_v2)(0));
  OK(CU(cuMemAlloc_v2)(&address, 4));
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemFree_v2)(address));
}

TEST_CASE("Occupancy follows from the limits of the device") {
  Session session{"CUGRT_EMU_DEVICE=sm_90"};
  CUfunction trap = kernel(load_kernels(), "trap_now");
  int block = 0;
  // 2048 threads and 32 blocks a multiprocessor; 228 KiB of shared memory, 1 KiB of it reserved a
  // block.
  int blocks = MADE(cuOccupancyMaxActiveBlocksPerMultiprocessor, trap, 1024, 0);
  CHECK(blocks == 2);
  OK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, trap, 32, 0));
  CHECK(blocks == 32);
  OK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, trap, 32, 47 * 1024));
  CHECK(blocks == 4);
  int grid = MADE(cuOccupancyMaxPotentialBlockSize, &block, trap, nullptr, 0, 0);
  CHECK(block == 1024);
  CHECK(grid == 264);
}

TEST_CASE("An element of an array is an address, which instructions take without brackets") {
  Session session;
  CUmodule module = nullptr;
  OK(CU(cuModuleLoadData)(&module, PTX_HEAD R"(.global .align 4 .u32 table[4] = {10, 20, 30, 40};
.visible .entry sum(.param .u64 out)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  mov.u64 %rd2, table[1];
  ld.global.u32 %r1, [%rd2];
  ld.global.u32 %r2, table[2];
  add.u32 %r1, %r1, %r2;
  st.global.u32 [%rd1], %r1;
  ret;
}
)"));
  CUdeviceptr out = upload(std::vector<uint32_t>{0});
  void *params[] = {&out};
  OK(launch(kernel(module, "sum"), 1, 1, params));
  CHECK(download<uint32_t>(out, 1)[0] == 50);
  OK(CU(cuMemFree_v2)(out));
  OK(CU(cuModuleUnload)(module));
}

namespace {

// out[0] = the sum of 1 to n, by recursion whose every step keeps 64 bytes on the stack, or none.
std::string recursive_sum(bool with_memory) {
  return std::string(".version 8.0\n.target sm_80\n.address_size 64\n"
                     ".func (.param .b32 sum) deep(.param .b32 n) {\n"
                     ".reg .b32 %r<5>; .reg .pred %p;\n") +
         (with_memory ? ".local .align 4 .b8 kept[64];\n" : "") +
         "ld.param.u32 %r1, [n]; mov.u32 %r2, 0; setp.eq.u32 %p, %r1, 0; @%p bra done;\n" +
         (with_memory ? "st.local.u32 [kept+60], %r1;\n" : "") +
         "sub.u32 %r3, %r1, 1;\n"
         "{ .param .b32 m; .param .b32 s; st.param.b32 [m], %r3; call.uni (s), deep, (m);\n"
         "ld.param.b32 %r2, [s]; }\n" +
         (with_memory ? "ld.local.u32 %r1, [kept+60];\n" : "") +
         "add.u32 %r2, %r2, %r1;\ndone: st.param.b32 [sum], %r2; ret;\n}\n"
         ".visible .entry k(.param .u64 out, .param .u32 n) {\n.reg .b32 %r<3>; .reg .b64 %d;\n"
         "ld.param.u64 %d, [out]; ld.param.u32 %r1, [n];\n"
         "{ .param .b32 m; .param .b32 s; st.param.b32 [m], %r1; call.uni (s), deep, (m);\n"
         "ld.param.b32 %r2, [s]; }\nst.global.u32 [%d], %r2; ret;\n}\n";
}

} // namespace

TEST_CASE(
    "Recursion has the stack that CU_LIMIT_STACK_SIZE gives, and beyond it is its own error") {
  struct Row {
    bool with_memory;
    size_t limit; // 0: as it is
    uint32_t n;
    bool fits;
  };
  // A step takes 64 bytes, or 16 for where it returns to; n + 1 steps.
  const Row row = GENERATE(
      Row{true, 0, 15, true}, Row{true, 0, 16, false}, Row{true, 65536, 1023, true},
      Row{true, 65536, 1024, false}, Row{true, 100, 0, true}, Row{true, 100, 1, false},
      Row{false, 0, 63, true}, Row{false, 0, 64, false}, Row{false, 65536, 4095, true},
      Row{false, size_t(1) << 40, 30000, true}, Row{false, size_t(1) << 40, 4000000, false});
  INFO("limit " << row.limit << ", n " << row.n);
  Session session;
  CUmodule module = MADE(cuModuleLoadData, recursive_sum(row.with_memory).c_str());
  if (row.limit) {
    size_t limit = 0;
    OK(CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, row.limit));
    OK(CU(cuCtxGetLimit)(&limit, CU_LIMIT_STACK_SIZE));
    CHECK(limit == std::min<size_t>((row.limit + 15) / 16 * 16, 512 << 10));
  }
  CUdeviceptr out = MADE(cuMemAlloc_v2, 4);
  uint32_t n = row.n;
  launch_kernel(kernel(module, "k"), 1, 40, nullptr, out, n);
  // What is launched keeps the stack that it was launched with.
  if (row.fits)
    OK(CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 16));
  CHECK(CU(cuCtxSynchronize)() == (row.fits ? CUDA_SUCCESS : CUDA_ERROR_HARDWARE_STACK_ERROR));
  if (row.fits)
    CHECK(download<uint32_t>(out, 1)[0] == uint32_t(uint64_t(n) * (n + 1) / 2));
  CU(cuMemFree_v2)(out);
  CU(cuModuleUnload)(module);
}

TEST_CASE("Dynamic shared memory begins at its alignment, behind the kernel's own") {
  Session session;
  for (uint32_t align : {4u, 16u, 64u, 128u, 1024u}) {
    const std::string ptx =
        ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align " +
        std::to_string(align) +
        " .b8 more[];\n"
        ".visible .entry k(.param .u64 out) {\n"
        ".shared .align 4 .b8 own[4];\n.reg .b32 %r<3>;\n.reg .b64 %rd;\n"
        "ld.param.u64 %rd, [out];\nmov.u32 %r0, own;\nmov.u32 %r1, more;\n"
        "st.shared.u32 [%r0], 1;\nst.shared.u32 [%r1+60], %r1;\n"
        "ld.shared.u32 %r2, [%r1+60];\nst.global.u32 [%rd], %r2;\nret;\n}\n";
    Module module(ptx.c_str());
    CUdeviceptr out = MADE(cuMemAlloc_v2, 4);
    void *params[] = {&out};
    OK(CU(cuLaunchKernel)(kernel(module, "k"), 1, 1, 1, 1, 1, 1, 64, nullptr, params, nullptr));
    OK(CU(cuCtxSynchronize)());
    CHECK(download<uint32_t>(out, 1)[0] == std::max(align, 16u));
    OK(CU(cuMemFree_v2)(out));
  }
}
