// Stream memory operations: who can end a wait, and what becomes of one that nothing ends.
#include "emulator/unit/driver/session.h"

#include <filesystem>
#include <sys/wait.h>

namespace {

constexpr char kSpin[] = PTX_HEAD R"(// waits for a word that is not 0, and stores it
.visible .entry spin(.param .u64 word, .param .u64 out)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [word];
  ld.param.u64 %rd2, [out];
AGAIN:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

struct Waiting : Session {
  explicit Waiting(std::initializer_list<std::string> variables = {}) : Session(variables) {
    for (CUstream *stream : {&a, &b})
      OK(CU(cuStreamCreate)(stream, CU_STREAM_NON_BLOCKING));
    word = upload<uint32_t>({0});
  }
  CUstream a = nullptr, b = nullptr;
  CUdeviceptr word = 0;
};

/// Pinned memory of one word, 0 at first, that the host writes while the device looks at it.
struct PinnedWord {
  PinnedWord() {
    void *pointer = MADE(cuMemHostAlloc, 4, CU_MEMHOSTALLOC_DEVICEMAP);
    host = static_cast<uint32_t *>(pointer);
    put(0);
    OK(CU(cuMemHostGetDevicePointer_v2)(&device, pointer, 0));
  }
  void put(uint32_t value) { std::atomic_ref(*host).store(value); }
  uint32_t *host = nullptr;
  CUdeviceptr device = 0;
};

const char *const kFreed = "fault: memory is freed while a stream waits for a word of it\n";
const char *const kDropped =
    "fault: a context was destroyed while a stream of it waited for a word in memory: the wait and "
    "the work that follows it are dropped\n";

} // namespace

TEST_CASE("A kernel that spins on a word goes on when another stream writes it") {
  Waiting device;
  CUfunction spin = nullptr;
  CUmodule module = MADE(cuModuleLoadData, kSpin);
  OK(CU(cuModuleGetFunction)(&spin, module, "spin"));
  CUdeviceptr out = upload<uint32_t>({0});
  void *params[] = {&device.word, &out};
  OK(CU(cuLaunchKernel)(spin, 1, 1, 1, 1, 1, 1, 0, device.a, params, nullptr));
  CHECK(CU(cuStreamQuery)(device.a) == CUDA_ERROR_NOT_READY);
  OK(CU(cuStreamWriteValue32_v2)(device.b, device.word, 7, 0));
  OK(CU(cuStreamSynchronize)(device.a));
  OK(CU(cuStreamSynchronize)(device.b));
  CHECK(download<uint32_t>(out, 1).front() == 7);
}

TEST_CASE("The host ends a wait while a thread is blocked in cuStreamSynchronize") {
  Waiting device;
  PinnedWord word;
  OK(CU(cuStreamWaitValue32_v2)(device.a, word.device, 5, CU_STREAM_WAIT_VALUE_EQ));
  std::atomic<CUresult> result{CUDA_ERROR_UNKNOWN};
  std::thread blocked([&] {
    CU(cuCtxSetCurrent)(device.context);
    result = CU(cuStreamSynchronize)(device.a);
  });
  CHECK(CU(cuStreamQuery)(device.a) == CUDA_ERROR_NOT_READY);
  word.put(4);
  CHECK(CU(cuStreamQuery)(device.a) == CUDA_ERROR_NOT_READY);
  word.put(5);
  blocked.join();
  CHECK(result == CUDA_SUCCESS);
}

TEST_CASE("A wait for a word that nothing has written is found, one for a written word is not") {
  Waiting device({"CUGRT_EMU_CHECK=uninitialized"});
  CUdeviceptr fresh = MADE(cuMemAlloc_v2, 4);
  OK(CU(cuStreamWaitValue32_v2)(device.b, device.word, 0, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuStreamSynchronize)(device.b));
  CHECK(findings().empty());
  OK(CU(cuStreamWaitValue32_v2)(device.a, fresh, 3, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuStreamWriteValue32_v2)(device.b, fresh, 3, 0));
  OK(CU(cuStreamSynchronize)(device.a));
  OK(CU(cuStreamWaitValue32_v2)(device.a, fresh, 3, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuStreamSynchronize)(device.a));
  CHECK(findings() == "uninitialized: a stream waits for the value of 4 bytes at " + hex(fresh) +
                          ", which nothing has written\n");
}

// Of cuMemFree: "this API may perform implicit synchronization". With a wait for the memory that is
// freed, that would never end.
TEST_CASE("Memory that is freed while a stream waits for a word of it is an illegal address") {
  Waiting device({"CUGRT_EMU_CHECK=none"});
  CUdeviceptr cell = upload<uint32_t>({1});
  SECTION("device memory") {
    OK(CU(cuStreamWaitValue32_v2)(device.a, device.word, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(CU(cuMemsetD32Async)(cell, 2, 1, device.a));
    OK(CU(cuMemFree_v2)(device.word));
    CHECK(findings() == kFreed);
  }
  SECTION("pinned memory") {
    PinnedWord word;
    OK(CU(cuStreamWaitValue32_v2)(device.a, word.device, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(CU(cuMemFreeHost)(word.host));
    CHECK(findings() == kFreed);
  }
  SECTION("in the order of another stream") {
    CUdeviceptr word = MADE(cuMemAllocAsync, 4, device.b);
    OK(CU(cuMemsetD32Async)(word, 0, 1, device.b));
    OK(CU(cuStreamSynchronize)(device.b));
    OK(CU(cuStreamWaitValue32_v2)(device.a, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(CU(cuMemFreeAsync)(word, device.b));
    CHECK(CU(cuStreamSynchronize)(device.a) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(findings() == "fault: a stream memory operation touches memory that was freed before it "
                        "ended\n");
  }
  CHECK(CU(cuStreamSynchronize)(device.a) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("Freeing memory waits for a stream that waits for other memory") {
  Waiting device;
  PinnedWord word;
  CUdeviceptr cell = upload<uint32_t>({1});
  OK(CU(cuStreamWaitValue32_v2)(device.a, word.device, 1, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuMemsetD32Async)(cell, 2, 1, device.a));
  std::atomic<bool> freed{false};
  std::atomic<CUresult> result{CUDA_ERROR_UNKNOWN};
  std::thread thread([&] {
    CU(cuCtxSetCurrent)(device.context);
    result = CU(cuMemFree_v2)(cell);
    freed = true;
  });
  CHECK(CU(cuStreamQuery)(device.a) == CUDA_ERROR_NOT_READY);
  CHECK_FALSE(freed);
  word.put(1);
  thread.join();
  CHECK(result == CUDA_SUCCESS);
  OK(CU(cuStreamSynchronize)(device.a));
}

TEST_CASE("A context is destroyed with a wait that nothing ends: what follows it is dropped") {
  Waiting device({"CUGRT_EMU_CHECK=none"});
  OK(CU(cuStreamWaitValue32_v2)(device.a, device.word, 9, CU_STREAM_WAIT_VALUE_EQ));
  CUcontext other = MADE(cuCtxCreate_v2, 0, 0);
  CUstream stream = MADE(cuStreamCreate, CU_STREAM_NON_BLOCKING);
  CUdeviceptr word = upload<uint32_t>({0});
  bool called = false;
  CUresult told = CUDA_SUCCESS;
  OK(CU(cuStreamWaitValue32_v2)(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuLaunchHostFunc)(
      stream, [](void *out) { *static_cast<bool *>(out) = true; }, &called));
  OK(CU(cuStreamAddCallback)(
      stream, [](CUstream, CUresult status, void *out) { *static_cast<CUresult *>(out) = status; },
      &told, 0));
  OK(CU(cuStreamWaitValue32_v2)(stream, word, 2, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuCtxDestroy_v2)(other));
  CHECK_FALSE(called);
  CHECK(told == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(findings() == kDropped);
  // The wait of another context goes on, and ends as it should.
  CHECK(CU(cuStreamQuery)(device.a) == CUDA_ERROR_NOT_READY);
  OK(CU(cuStreamWriteValue32_v2)(device.b, device.word, 9, 0));
  OK(CU(cuStreamSynchronize)(device.a));
}

TEST_CASE("A device that fails ends the waits of every stream") {
  Waiting device({"CUGRT_EMU_CHECK=none"});
  CUfunction trap = kernel(load_kernels(), "trap_now");
  CUdeviceptr cell = upload<uint32_t>({1});
  OK(CU(cuStreamWaitValue32_v2)(device.a, device.word, 1, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuMemsetD32Async)(cell, 2, 1, device.a));
  OK(CU(cuLaunchKernel)(trap, 1, 1, 1, 1, 1, 1, 0, device.b, nullptr, nullptr));
  CHECK(CU(cuStreamSynchronize)(device.a) == CUDA_ERROR_LAUNCH_FAILED);
}

TEST_CASE("What was queued when the device failed does not run when the device is usable again") {
  Waiting device({"CUGRT_EMU_CHECK=none"});
  CUdeviceptr cell = upload<uint32_t>({1});
  Gate gate;
  OK(CU(cuLaunchHostFunc)(device.a, Gate::wait, &gate));
  OK(CU(cuMemsetD32Async)(cell, 2, 1, device.a));
  OK(CU(cuStreamWaitValue32_v2)(device.a, device.word, 1, CU_STREAM_WAIT_VALUE_EQ));
  CUcontext other = MADE(cuCtxCreate_v2, 0, 0);
  OK(CU(cuLaunchKernel)(kernel(load_kernels(), "trap_now"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
                        nullptr));
  CHECK(CU(cuStreamSynchronize)(nullptr) == CUDA_ERROR_LAUNCH_FAILED);
  OK(CU(cuCtxDestroy_v2)(other));
  gate.open = true;
  OK(CU(cuStreamSynchronize)(device.a));
  CHECK(download<uint32_t>(cell, 1).front() == 1);
}

// Run by the case below, in a process of its own.
TEST_CASE("child: exits while a stream waits", "[.]") {
  OK(CU(cuInit)(0));
  CUcontext context = MADE(cuDevicePrimaryCtxRetain, 0);
  OK(CU(cuCtxSetCurrent)(context));
  CUstream stream = MADE(cuStreamCreate, 0);
  OK(CU(cuStreamWaitValue32_v2)(stream, upload<uint32_t>({0}), 1, CU_STREAM_WAIT_VALUE_EQ));
  std::thread([=] {
    CU(cuCtxSetCurrent)(context);
    CU(cuStreamSynchronize)(stream);
  }).detach();
  std::exit(42);
}

TEST_CASE("A process ends while a stream waits for what nobody writes") {
  std::string self = std::filesystem::read_symlink("/proc/self/exe");
  int status =
      std::system(("'" + self + "' 'child: exits while a stream waits' >/dev/null").c_str());
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
}
