// What goes wrong in a kernel of CUDA C++ is named: kernel, source line, block, thread, address.
#include "support/emulated_cuda.h"

using namespace cugrt::test;
using cugrt::emulator::FaultKind;

TEST_CASE("an access out of bounds names kernel, source line, block, thread and address") {
  EmulatedCuda device;
  device.load_cuda("extern \"C\" __global__ void over(float *x, int n) {\n"
                   "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                   "  x[i * 2] = 1.f;\n"
                   "}\n",
                   "compute_80", {"-lineinfo"});
  uint64_t x = device.upload(std::vector<float>(128)); // one granule
  auto fault = device.try_launch("over", {2, 1, 1}, {40, 1, 1}, 0, x, 100);
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::illegal_address);
  INFO(fault->message);
  CHECK(contains(fault->message, "kernel over"));
  CHECK(contains(fault->message, "test.cu:3"));
  CHECK(contains(fault->message, "block (1, 0, 0)"));
  CHECK(contains(fault->message, "thread (24, 0, 0)"));
  char address[32];
  snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(x + 512));
  CHECK(contains(fault->message, address));
}

TEST_CASE("freed and null addresses fault, in loads and atomics alike") {
  EmulatedCuda device;
  device.load_cuda(
      "extern \"C\" __global__ void touch(int *x, int *y) { atomicAdd(y, x[threadIdx.x]); }");
  uint64_t x = device.upload(std::vector<int>(32)), y = device.upload(std::vector<int>(1));
  CHECK_FALSE(device.try_launch("touch", {1, 1, 1}, {32, 1, 1}, 0, x, y));
  CHECK(device.try_launch("touch", {1, 1, 1}, {32, 1, 1}, 0, uint64_t(0), y));
  CHECK(device.try_launch("touch", {1, 1, 1}, {32, 1, 1}, 0, x, uint64_t(0)));
  device.memory().free(x);
  CHECK(device.try_launch("touch", {1, 1, 1}, {32, 1, 1}, 0, x, y));
}

TEST_CASE("misaligned accesses, shared memory beyond the block's and traps are told apart") {
  EmulatedCuda device;
  device.load_cuda(R"(extern "C" __global__ void faults(char *x, int kind) {
    extern __shared__ int s[];
    if (kind == 0) *(int *)(x + 1) = 1;
    if (kind == 1) s[kind * 100] = 1;
    if (kind == 2) __trap();
    if (kind == 3) *(float4 *)(x + 8) = make_float4(0, 0, 0, 0);
    if (kind == 4) s[threadIdx.x] = threadIdx.x;
  })");
  uint64_t x = device.upload(std::vector<int>(64));
  FaultKind kinds[] = {FaultKind::misaligned_address, FaultKind::illegal_address, FaultKind::trap,
                       FaultKind::misaligned_address};
  for (int kind = 0; kind < 4; ++kind) {
    auto fault = device.try_launch("faults", {1, 1, 1}, {32, 1, 1}, 128, x, kind);
    REQUIRE(fault);
    CHECK(fault->kind == kinds[kind]);
  }
  CHECK_FALSE(device.try_launch("faults", {1, 1, 1}, {32, 1, 1}, 128, x, 4));
}

TEST_CASE("paths that can never meet are a deadlock, a failed assertion is one by name") {
  EmulatedCuda device;
  device.load_cuda(R"(
    extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
    extern "C" __global__ void stuck(int *x) {
      if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
      else asm volatile("bar.sync 2, 64;");
    }
    extern "C" __global__ void checked(int *x) { if (x) __assertfail("x == 0", "test.cu", 7, "checked", 1); })");
  auto fault = device.try_launch("stuck", {1, 1, 1}, {64, 1, 1}, 0, uint64_t(0));
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::deadlock);
  CHECK(contains(fault->message, "barrier 1"));
  CHECK(contains(fault->message, "barrier 2"));
  CHECK_FALSE(device.try_launch("checked", {1, 1, 1}, {32, 1, 1}, 0, uint64_t(0)));
  fault = device.try_launch("checked", {1, 1, 1}, {32, 1, 1}, 0, uint64_t(1));
  REQUIRE(fault);
  CHECK(fault->kind == FaultKind::assertion);
  CHECK(contains(fault->message, "x == 0"));
}

TEST_CASE("a lock within a warp and a barrier over resident blocks both finish") {
  std::vector<std::string> options;
  SECTION("compiled as by default") {}
  SECTION("compiled for debugging") { options = {"-G"}; }
  EmulatedCuda device;
  device.load_cuda(R"(
    extern "C" __global__ void lock(int *mutex, int *sum) {
      bool done = false;
      while (!done) {
        if (atomicCAS(mutex, 0, 1) == 0) {
          *(volatile int *)sum = *(volatile int *)sum + 1;
          __threadfence();
          atomicExch(mutex, 0);
          done = true;
        }
      }
    }
    extern "C" __global__ void spin(int *mutex, int *sum) {
      while (atomicCAS(mutex, 0, 1) != 0) ;
      *(volatile int *)sum = *(volatile int *)sum + 1;
      __threadfence();
      atomicExch(mutex, 0);
    }
    extern "C" __global__ void meet(volatile int *arrived, int *out) {
      if (threadIdx.x == 0) {
        atomicAdd((int *)arrived, 1);
        while (*arrived < gridDim.x) ;
      }
      __syncthreads();
      out[blockIdx.x * blockDim.x + threadIdx.x] = *arrived;
    })",
                   "compute_80", options);
  uint64_t words = device.upload(std::vector<int>(4)), out = device.allocate(16 * 64 * 4);
  device.launch("lock", {2, 1, 1}, {64, 1, 1}, 0, words, words + 4);
  device.launch("spin", {1, 1, 1}, {64, 1, 1}, 0, words, words + 4);
  CHECK(device.download<int>(words + 4, 1)[0] == 3 * 64);
  device.launch("meet", {16, 1, 1}, {64, 1, 1}, 0, words + 8, out);
  for (int value : device.download<int>(out, 16 * 64))
    REQUIRE(value == 16);
}
