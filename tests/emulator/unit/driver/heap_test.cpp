// malloc and free in kernels: blocks of the context's heap, which live from launch to launch.
#include "emulator/unit/driver/session.h"

#include <algorithm>
#include <set>

namespace {

// Thread i of `give` puts malloc(bytes[i]) into blocks[i]; of `give_aligned` with an alignment;
// `write` stores i into its block, `take` reads it and frees the block. `drop` frees a pointer,
// `store` and `load` access 4 bytes at one, `use` branches on what it reads there.
constexpr char kHeapPtx[] = PTX_HEAD R"(
.extern .func (.param .b64 block) malloc(.param .b64 bytes);
.extern .func free(.param .b64 block);
.extern .func (.param .b64 block) __cuda_syscall_aligned_malloc(.param .b64 bytes, .param .b64 alignment);

.func (.param .b64 block) get(.param .b64 bytes)
{
  .reg .b64 %d<2>;
  .param .b64 size;
  .param .b64 result;
  ld.param.b64 %d0, [bytes];
  st.param.b64 [size], %d0;
  call (result), malloc, (size);
  ld.param.b64 %d1, [result];
  st.param.b64 [block], %d1;
  ret;
}
.visible .entry give(.param .u64 blocks, .param .u64 bytes)
{
  .reg .b32 %r<5>;
  .reg .b64 %d<8>;
  .param .b64 size;
  .param .b64 block;
  ld.param.u64 %d0, [blocks];
  ld.param.u64 %d1, [bytes];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r3, %r1, %r2, %r0;
  mul.wide.u32 %d2, %r3, 8;
  add.u64 %d3, %d0, %d2;
  add.u64 %d4, %d1, %d2;
  ld.global.u64 %d5, [%d4];
  st.param.b64 [size], %d5;
  call (block), get, (size);
  ld.param.b64 %d6, [block];
  st.global.u64 [%d3], %d6;
  ret;
}
.visible .entry give_aligned(.param .u64 blocks, .param .u64 bytes, .param .u64 alignment)
{
  .reg .b64 %d<4>;
  .param .b64 size;
  .param .b64 unit;
  .param .b64 block;
  ld.param.u64 %d0, [blocks];
  ld.param.u64 %d1, [bytes];
  ld.param.u64 %d2, [alignment];
  st.param.b64 [size], %d1;
  st.param.b64 [unit], %d2;
  call (block), __cuda_syscall_aligned_malloc, (size, unit);
  ld.param.b64 %d3, [block];
  st.global.u64 [%d0], %d3;
  ret;
}
.visible .entry write(.param .u64 blocks)
{
  .reg .b32 %r;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [blocks];
  mov.u32 %r, %tid.x;
  mul.wide.u32 %d1, %r, 8;
  add.u64 %d2, %d0, %d1;
  ld.global.u64 %d3, [%d2];
  st.u32 [%d3], %r;
  ret;
}
.visible .entry take(.param .u64 blocks, .param .u64 out)
{
  .reg .b32 %r<2>;
  .reg .b64 %d<7>;
  .param .b64 block;
  ld.param.u64 %d0, [blocks];
  ld.param.u64 %d1, [out];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %d2, %r0, 8;
  add.u64 %d3, %d0, %d2;
  ld.global.u64 %d4, [%d3];
  ld.global.u32 %r1, [%d4];
  mul.wide.u32 %d5, %r0, 4;
  add.u64 %d6, %d1, %d5;
  st.global.u32 [%d6], %r1;
  st.param.b64 [block], %d4;
  call free, (block);
  ret;
}
.visible .entry drop(.param .u64 p)
{
  .reg .b64 %d;
  .param .b64 block;
  ld.param.u64 %d, [p];
  st.param.b64 [block], %d;
  call free, (block);
  ret;
}
.visible .entry store(.param .u64 p)
{
  .reg .b32 %r;
  .reg .b64 %d;
  ld.param.u64 %d, [p];
  mov.u32 %r, 7;
  st.global.u32 [%d], %r;
  ret;
}
.visible .entry use(.param .u64 p)
{
  .reg .pred %p;
  .reg .b32 %r;
  .reg .b64 %d;
  ld.param.u64 %d, [p];
  ld.global.u32 %r, [%d];
  setp.eq.u32 %p, %r, 0;
  @%p trap;
  ret;
}
)";

struct Heap : Session {
  explicit Heap(std::initializer_list<std::string> variables = {}) : Session(variables) {}

  void load() { OK(CU(cuModuleLoadData)(&module, kHeapPtx)); }
  CUresult launch(const char *name, std::initializer_list<uint64_t> arguments, uint32_t threads = 1,
                  uint32_t blocks = 1, CUstream stream = nullptr) {
    std::vector<uint64_t> values(arguments);
    std::vector<void *> params;
    for (uint64_t &value : values)
      params.push_back(&value);
    return CU(cuLaunchKernel)(kernel(module, name), blocks, 1, 1, threads, 1, 1, 0, stream,
                              params.data(), nullptr);
  }
  CUresult run(const char *name, std::initializer_list<uint64_t> arguments) {
    CUresult launched = launch(name, arguments);
    return launched == CUDA_SUCCESS ? CU(cuCtxSynchronize)() : launched;
  }
  /// Blocks of these sizes, by as many threads.
  std::vector<uint64_t> give(const std::vector<uint64_t> &bytes) {
    CUdeviceptr sizes = upload(bytes), blocks = upload(std::vector<uint64_t>(bytes.size(), 1));
    OK(launch("give", {blocks, sizes}, uint32_t(bytes.size())));
    auto given = download<uint64_t>(blocks, bytes.size());
    OK(CU(cuMemFree_v2)(sizes));
    OK(CU(cuMemFree_v2)(blocks));
    return given;
  }
  uint64_t give_one(uint64_t bytes) { return give({bytes})[0]; }

  CUmodule module = nullptr;
};

constexpr size_t kDefault = size_t(8) << 20;

size_t limit() {
  size_t bytes = MADE(cuCtxGetLimit, CU_LIMIT_MALLOC_HEAP_SIZE);
  return bytes;
}

size_t free_memory() {
  size_t total = 0;
  size_t available = MADE(cuMemGetInfo_v2, &total);
  return available;
}

} // namespace

TEST_CASE("What a kernel allocates is written by the next one, and read and freed by a third") {
  for (const char *order : {"", "1", "2"}) {
    Heap heap{std::string("CUGRT_EMU_ORDER=") + order};
    heap.load();
    constexpr uint32_t kThreads = 100;
    std::vector<uint64_t> sizes(kThreads);
    for (uint32_t i = 0; i < kThreads; ++i)
      sizes[i] = 4 + i;
    CUdeviceptr bytes = upload(sizes), blocks = upload(std::vector<uint64_t>(kThreads)),
                out = upload(std::vector<uint32_t>(kThreads));
    for (int round = 0; round < 2; ++round) {
      OK(heap.launch("give", {blocks, bytes}, kThreads));
      OK(heap.launch("write", {blocks}, kThreads));
      OK(heap.launch("take", {blocks, out}, kThreads));
      OK(CU(cuCtxSynchronize)());
      auto given = download<uint64_t>(blocks, kThreads);
      CHECK(std::set<uint64_t>(given.begin(), given.end()).size() == kThreads);
      for (uint64_t address : given)
        REQUIRE((address && address % 16 == 0));
      auto seen = download<uint32_t>(out, kThreads);
      for (uint32_t i = 0; i < kThreads; ++i)
        REQUIRE(seen[i] == i);
    }
  }
}

TEST_CASE("The same order of calls gives the same blocks") {
  std::vector<uint64_t> first;
  for (int run = 0; run < 2; ++run) {
    Heap heap{"CUGRT_EMU_ORDER=5"};
    heap.load();
    std::vector<uint64_t> bytes(256, 40);
    CUdeviceptr sizes = upload(bytes), blocks = upload(std::vector<uint64_t>(bytes.size()));
    OK(heap.launch("give", {blocks, sizes}, 16, 16));
    auto given = download<uint64_t>(blocks, bytes.size());
    // The address range itself may lie elsewhere.
    const uint64_t lowest = *std::min_element(given.begin(), given.end());
    for (uint64_t &address : given)
      address -= lowest;
    if (run == 0)
      first = given;
    CHECK(given == first);
  }
}

TEST_CASE("malloc answers NULL when the heap is full, and as before once blocks are free again") {
  Heap heap;
  OK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20));
  heap.load();
  CHECK(heap.give_one((1 << 20) + 1) == 0);
  CHECK(heap.give_one(0) == 0);
  CHECK(heap.give_one(UINT64_MAX) == 0);
  CHECK(heap.give_one(UINT64_MAX - 100) == 0);
  const auto quarters = heap.give({1 << 18, 1 << 18, 1 << 18, 1 << 18, 1 << 18});
  CHECK(std::count(quarters.begin(), quarters.end(), 0) == 1);
  CHECK(quarters[4] == 0);
  CHECK(heap.give_one(16) == 0);
  OK(heap.run("drop", {quarters[1]}));
  OK(heap.run("drop", {quarters[3]}));
  OK(heap.run("drop", {0})); // ignored
  CHECK(heap.give_one(1 << 18) == quarters[1]);
  OK(heap.run("drop", {quarters[1]}));
  OK(heap.run("drop", {quarters[2]})); // joins what is free on both sides
  CHECK(heap.give_one(3 << 18) == quarters[1]);
}

TEST_CASE("An aligned block begins at a multiple of what was asked for") {
  Heap heap;
  heap.load();
  CUdeviceptr out = upload(std::vector<uint64_t>(1));
  heap.give_one(24);
  for (uint64_t alignment : {1, 16, 256, 4096}) {
    OK(heap.run("give_aligned", {out, 100, alignment}));
    const uint64_t block = download<uint64_t>(out, 1)[0];
    CHECK(block != 0);
    CHECK(block % alignment == 0);
    OK(heap.run("store", {block + 96}));
    OK(heap.run("drop", {block}));
  }
  for (uint64_t alignment : {0, 24}) {
    OK(heap.run("give_aligned", {out, 100, alignment}));
    CHECK(download<uint64_t>(out, 1)[0] == 0);
  }
}

TEST_CASE(
    "Accesses outside of live blocks are illegal, and those in a block's last unit findings") {
  struct Case {
    int64_t offset; // of 4 bytes, from a block of 24
    CUresult result;
    const char *finding;
  };
  for (const Case &c : {Case{20, CUDA_SUCCESS, ""},
                        {24, CUDA_SUCCESS, "behind the end of an allocation of 24 bytes"},
                        {32, CUDA_ERROR_ILLEGAL_ADDRESS, ""},
                        {60, CUDA_ERROR_ILLEGAL_ADDRESS, ""},
                        {-4, CUDA_ERROR_ILLEGAL_ADDRESS, ""}}) {
    INFO("offset " << c.offset);
    Heap heap{"CUGRT_EMU_CHECK=bounds"};
    heap.load();
    const auto blocks = heap.give({24, 24});
    CHECK(heap.run("store", {blocks[0] + uint64_t(c.offset)}) == c.result);
    if (*c.finding)
      CHECK(findings().find(c.finding) != std::string::npos);
    else if (c.result == CUDA_SUCCESS)
      CHECK(findings().empty());
  }
  Heap heap;
  heap.load();
  const uint64_t block = heap.give_one(64);
  OK(heap.run("drop", {block}));
  CHECK(heap.run("store", {block}) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("Freeing a block twice, or what malloc did not give, ends the launch") {
  for (int wrong = 0; wrong < 3; ++wrong) {
    Heap heap;
    heap.load();
    const uint64_t block = heap.give_one(64);
    CUdeviceptr memory = upload(std::vector<int>(4));
    if (wrong == 0)
      OK(heap.run("drop", {block}));
    const uint64_t pointer = wrong == 0 ? block : wrong == 1 ? block + 16 : memory;
    CHECK(heap.run("drop", {pointer}) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(findings().find("free of " + hex(pointer)) != std::string::npos);
  }
}

TEST_CASE("The host reaches no block: copies, fills and frees of one are refused") {
  Heap heap;
  heap.load();
  const uint64_t block = heap.give_one(256);
  char bytes[16] = {};
  CHECK(CU(cuMemcpyDtoH_v2)(bytes, block, sizeof bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyHtoD_v2)(block, bytes, sizeof bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD8_v2)(block, 0, sizeof bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFree_v2)(block) == CUDA_ERROR_INVALID_VALUE);
  CUmemorytype type{};
  CHECK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(heap.run("drop", {block}));
}

TEST_CASE("The heap's size is set before a kernel that uses it is launched, and is device memory") {
  Heap heap;
  CHECK(limit() == kDefault);
  const size_t before = free_memory();
  heap.load();
  CHECK(free_memory() == before - kDefault);
  OK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 2 * kDefault));
  CHECK(limit() == 2 * kDefault);
  CHECK(free_memory() == before - 2 * kDefault);
  CHECK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, before + 1) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(limit() == 2 * kDefault);
  // A kernel that uses no heap changes nothing.
  CUdeviceptr word = upload(std::vector<int>(1));
  OK(heap.run("store", {word}));
  OK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 3 * kDefault));
  const uint64_t block = heap.give_one(64);
  CHECK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, kDefault) == CUDA_ERROR_INVALID_VALUE);
  CHECK(limit() == 3 * kDefault);
  // Unloading the code ends no block.
  OK(CU(cuModuleUnload)(heap.module));
  heap.load();
  OK(heap.run("store", {block}));
  OK(heap.run("drop", {block}));
  OK(CU(cuDevicePrimaryCtxReset_v2)(0));
  CHECK(limit() == kDefault);
  CHECK(free_memory() == before);
}

TEST_CASE("Code that uses the heap is not loaded where the device has no memory for one") {
  Heap heap{"CUGRT_EMU_MEMORY=4M"};
  CHECK(CU(cuModuleLoadData)(&heap.module, kHeapPtx) == CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
  CUlibrary library = MADE(cuLibraryLoadData, kHeapPtx, nullptr, nullptr, 0, nullptr, nullptr, 0);
  CHECK(CU(cuLibraryGetModule)(&heap.module, library) == CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
  OK(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20));
  OK(CU(cuLibraryGetModule)(&heap.module, library));
  CHECK(heap.give_one(1000) != 0);
  OK(CU(cuLibraryUnload)(library));
}

TEST_CASE("A fresh block is undefined, whoever had its bytes before") {
  Heap heap{"CUGRT_EMU_CHECK=uninitialized"};
  heap.load();
  const uint64_t block = heap.give_one(64);
  OK(heap.run("store", {block}));
  OK(heap.run("use", {block}));
  CHECK(findings() == "");
  OK(heap.run("drop", {block}));
  REQUIRE(heap.give_one(64) == block);
  OK(heap.run("use", {block}));
  CHECK(findings().find("bytes that nothing has written") != std::string::npos);
}

TEST_CASE("Kernels of two streams that have one block after the other touch nothing in common") {
  Heap heap{"CUGRT_EMU_CHECK=streams"};
  heap.load();
  CUstream streams[2];
  for (CUstream &stream : streams)
    OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr bytes = upload(std::vector<uint64_t>{64}), blocks[2], out[2];
  for (int i = 0; i < 2; ++i) {
    blocks[i] = upload(std::vector<uint64_t>(1));
    out[i] = upload(std::vector<uint32_t>(1));
  }
  for (int i = 0; i < 2; ++i) {
    OK(heap.launch("give", {blocks[i], bytes}, 1, 1, streams[i]));
    OK(heap.launch("write", {blocks[i]}, 1, 1, streams[i]));
    OK(heap.launch("take", {blocks[i], out[i]}, 1, 1, streams[i]));
  }
  OK(CU(cuCtxSynchronize)());
  CHECK(download<uint64_t>(blocks[0], 1) == download<uint64_t>(blocks[1], 1));
  CHECK(findings() == "");
}
