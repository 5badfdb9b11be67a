// The calls beside the main roads: questions, settings and the further forms of copies and fills.
#include "emulator/unit/driver/session.h"

#include <cstring>
#include <set>

namespace {

void CUDA_CB add_one(CUstream, CUresult status, void *count) {
  *static_cast<int *>(count) += status == CUDA_SUCCESS ? 1 : 100;
}

void CUDA_CB set_to_seven(void *value) { *static_cast<int *>(value) = 7; }

} // namespace

TEST_CASE("The current context tells its flags, number, version and configuration") {
  Session session;
  OK(CU(cuCtxSetFlags)(CU_CTX_SCHED_YIELD));
  unsigned flags = MADE(cuCtxGetFlags);
  CHECK((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_YIELD);
  // "Only one of the scheduling flags can be set".
  CHECK(CU(cuCtxSetFlags)(CU_CTX_SCHED_YIELD | CU_CTX_SCHED_SPIN) == CUDA_ERROR_INVALID_VALUE);
  unsigned version = ASKED(cuCtxGetApiVersion, session.context);
  CHECK(version >= 3020);
  CUcontext other = MADE(cuCtxCreate, 0, 0);
  unsigned long long id = ASKED(cuCtxGetId, session.context);
  unsigned long long other_id = ASKED(cuCtxGetId, other);
  CHECK(id != other_id);
  CUcontext popped = MADE(cuCtxPopCurrent_v2);
  CHECK(popped == other);
  OK(CU(cuCtxDestroy_v2)(other));

  OK(CU(cuCtxSetCacheConfig)(CU_FUNC_CACHE_PREFER_L1));
  CUfunc_cache cache = MADE(cuCtxGetCacheConfig);
  CHECK(cache == CU_FUNC_CACHE_PREFER_L1);
  CHECK(CU(cuCtxSetCacheConfig)(CUfunc_cache(9)) == CUDA_ERROR_INVALID_VALUE);
  CUsharedconfig banks{};
  OK(CU(cuCtxSetSharedMemConfig)(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
  OK(CU(cuCtxGetSharedMemConfig)(&banks)); // the size is fixed
  CHECK(banks == CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
  CHECK(CU(cuCtxSetSharedMemConfig)(CUsharedconfig(7)) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuCtxResetPersistingL2Cache)());
  CUexecAffinityParam affinity{};
  CHECK(CU(cuCtxGetExecAffinity)(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT) ==
        CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  OK(reinterpret_cast<CUresult (*)()>(symbol("cuProfilerStart"))());
  OK(reinterpret_cast<CUresult (*)()>(symbol("cuProfilerStop"))());
}

TEST_CASE("Flags of the primary context are read back from its state") {
  FreshDriver driver;
  OK(CU(cuInit)(0));
  unsigned flags = 0;
  OK(CU(cuDevicePrimaryCtxSetFlags_v2)(0, CU_CTX_SCHED_BLOCKING_SYNC));
  int active = ASKED(cuDevicePrimaryCtxGetState, 0, &flags);
  CHECK((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
  CHECK(active == 0);
  CHECK(CU(cuDevicePrimaryCtxSetFlags)(1, 0) == CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE("The device is found by its bus, and names its identity and capability") {
  Session session{"CUGRT_EMU_DEVICE=sm_86"};
  char bus[32] = "";
  CUdevice device = -1;
  OK(CU(cuDeviceGetPCIBusId)(bus, sizeof bus, 0));
  CHECK(std::strlen(bus) == 12); // "[domain]:[bus]:[device].[function]"
  OK(CU(cuDeviceGetByPCIBusId)(&device, bus));
  CHECK(device == 0);
  CHECK(CU(cuDeviceGetByPCIBusId)(&device, "ffff:1f:00.0") == CUDA_ERROR_INVALID_DEVICE);
  CUuuid one = MADE(cuDeviceGetUuid, 0);
  CUuuid two = MADE(cuDeviceGetUuid_v2, 0);
  CHECK(std::memcmp(&one, &two, sizeof one) == 0);
  int minor = 0;
  int major = MADE(cuDeviceComputeCapability, &minor, 0);
  CHECK(major == 8);
  CHECK(minor == 6);
  CUdevprop properties = MADE(cuDeviceGetProperties, 0);
  CHECK(properties.maxThreadsPerBlock == 1024);
  CHECK(properties.SIMDWidth == 32);
  int value = MADE(cuDeviceCanAccessPeer, 0, 0);
  CHECK(value == 0);
  CHECK(CU(cuDeviceCanAccessPeer)(&value, 0, 1) == CUDA_ERROR_INVALID_DEVICE);
  OK(CU(cuDeviceGetExecAffinitySupport)(&value, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
  CHECK(value == 0);
}

TEST_CASE("Rows of pitched memory lie at its pitch, and copies of three dimensions move a box") {
  Session session;
  CUdeviceptr a = 0;
  size_t pitch = 0;
  CHECK(CU(cuMemAllocPitch_v2)(&a, &pitch, 100, 12, 3) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemAllocPitch_v2)(&a, &pitch, 100, 12, 4));
  REQUIRE(pitch >= 100);
  CHECK(pitch % 32 == 0);
  OK(CU(cuMemsetD8_v2)(a, 0, pitch * 12));
  // A box of 5 bytes, 2 rows and 3 slices of 4 rows each, from a host array of 7 by 3 by 4.
  std::vector<uint8_t> from(7 * 3 * 4), to(pitch * 12);
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = uint8_t(i + 1);
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = from.data();
  c.srcXInBytes = 2, c.srcY = 1, c.srcZ = 1, c.srcPitch = 7, c.srcHeight = 3;
  c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.dstDevice = a;
  c.dstXInBytes = 8, c.dstY = 2, c.dstPitch = pitch, c.dstHeight = 4;
  c.WidthInBytes = 5, c.Height = 2, c.Depth = 3;
  SECTION("at once") { OK(CU(cuMemcpy3D_v2)(&c)); }
  SECTION("in a stream") {
    OK(CU(cuMemcpy3DAsync_v2)(&c, nullptr));
    OK(CU(cuCtxSynchronize)());
  }
  SECTION("in the thread's stream") { OK(CU(cuMemcpy3D_v2_ptds)(&c)); }
  OK(CU(cuMemcpyDtoH_v2)(to.data(), a, to.size()));
  for (size_t z = 0; z < 3; ++z)
    for (size_t y = 0; y < 4; ++y)
      for (size_t x = 0; x < pitch; ++x) {
        bool inside = x >= 8 && x < 13 && y >= 2;
        size_t source = (z + 1) * 21 + (y - 2 + 1) * 7 + (x - 8 + 2);
        REQUIRE(to[(z * 4 + y) * pitch + x] == (inside ? from[source] : 0));
      }
  OK(CU(cuMemFree_v2)(a));
}

TEST_CASE("Two-dimensional copies have three forms, and a copy of any kind one") {
  Session session;
  Memory a(upload(std::vector<uint8_t>(64)));
  std::vector<uint8_t> from{1, 2, 3, 4, 5, 6};
  CUDA_MEMCPY2D c{};
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = from.data(), c.srcPitch = 3;
  c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.dstDevice = a, c.dstPitch = 16;
  c.WidthInBytes = 2, c.Height = 2;
  SECTION("unaligned") { OK(CU(cuMemcpy2DUnaligned_v2)(&c)); }
  SECTION("unaligned, in the thread's stream") { OK(CU(cuMemcpy2DUnaligned_v2_ptds)(&c)); }
  SECTION("in a stream") { OK(CU(cuMemcpy2DAsync_v2)(&c, nullptr)); }
  OK(CU(cuCtxSynchronize)());
  auto got = download<uint8_t>(a, 32);
  CHECK(got[0] == 1);
  CHECK(got[1] == 2);
  CHECK(got[2] == 0);
  CHECK(got[16] == 4);
  CHECK(got[17] == 5);
  OK(CU(cuMemcpyAsync)(a + 8, reinterpret_cast<CUdeviceptr>(from.data()), 6, nullptr));
  OK(CU(cuMemcpy_ptds)(a + 40, a + 8, 6));
  CHECK(download<uint8_t>(a + 40, 6) == from);
}

TEST_CASE("Fills in streams and of two dimensions write their elements and no others") {
  Session session;
  Memory a(upload(std::vector<uint8_t>(256)));
  CUstream s = CU_STREAM_PER_THREAD;
  OK(CU(cuMemsetD8Async)(a, 0x11, 3, s));
  OK(CU(cuMemsetD16Async)(a + 4, 0x2233, 2, s));
  OK(CU(cuMemsetD2D8Async)(a + 16, 8, 0x44, 2, 2, s));
  OK(CU(cuMemsetD2D16Async)(a + 64, 8, 0x5566, 1, 2, s));
  OK(CU(cuMemsetD2D32Async)(a + 128, 8, 0x778899AA, 1, 2, s));
  OK(CU(cuMemsetD2D16_v2)(a + 192, 8, 0x1234, 2, 2));
  OK(CU(cuCtxSynchronize)());
  std::vector<uint8_t> want(256);
  auto put = [&](size_t at, std::initializer_list<int> bytes) {
    for (int byte : bytes)
      want[at++] = uint8_t(byte);
  };
  put(0, {0x11, 0x11, 0x11});
  put(4, {0x33, 0x22, 0x33, 0x22});
  for (size_t row : {0, 8}) {
    put(16 + row, {0x44, 0x44});
    put(64 + row, {0x66, 0x55});
    put(128 + row, {0xAA, 0x99, 0x88, 0x77});
    put(192 + row, {0x34, 0x12, 0x34, 0x12});
  }
  CHECK(download<uint8_t>(a, 256) == want);
}

TEST_CASE("Several attributes of a pointer are asked at once, and zero where there is none") {
  Session session;
  Memory a(upload(std::vector<uint8_t>(40)));
  unsigned type = 9;
  size_t bytes = 9;
  int ordinal = 9;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void *out[] = {&type, &bytes, &ordinal};
  OK(CU(cuPointerGetAttributes)(3, which, out, a));
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(bytes == 40);
  CHECK(ordinal == 0);
  OK(CU(cuPointerGetAttributes)(3, which, out, reinterpret_cast<CUdeviceptr>(&type)));
  CHECK(type == 0);
  CHECK(bytes == 0);
  CHECK(ordinal == CU_DEVICE_INVALID);
  CHECK(CU(cuPointerGetAttributes)(0, which, out, a) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("Pools of a location, and who may access them") {
  Session session;
  CUmemLocation here{};
  here.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool standard = MADE(cuMemGetDefaultMemPool, &here, CU_MEM_ALLOCATION_TYPE_PINNED);
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = here;
  CUmemoryPool mine = MADE(cuMemPoolCreate, &props);
  OK(CU(cuMemSetMemPool)(&here, CU_MEM_ALLOCATION_TYPE_PINNED, mine));
  CUmemoryPool current = MADE(cuMemGetMemPool, &here, CU_MEM_ALLOCATION_TYPE_PINNED);
  CHECK(current == mine);
  CHECK(current != standard);
  CUmemAccess_flags access = MADE(cuMemPoolGetAccess, mine, &here);
  CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUmemAccessDesc revoked{here, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  CHECK(CU(cuMemPoolSetAccess)(mine, &revoked, 1) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemPoolDestroy)(mine));
}

TEST_CASE("Functions and kernels are loaded, enumerated and configured") {
  Session session;
  CUmodule module = load_kernels();
  CUfunction affine = kernel(module, "affine");
  OK(CU(cuFuncLoad)(affine));
  CUfunctionLoadingState state = MADE(cuFuncIsLoaded, affine);
  CHECK(state == CU_FUNCTION_LOADING_STATE_LOADED);
  CUmoduleLoadingMode mode = MADE(cuModuleGetLoadingMode);
  CHECK(mode == CU_MODULE_EAGER_LOADING);
  OK(CU(cuFuncSetCacheConfig)(affine, CU_FUNC_CACHE_PREFER_SHARED));
  CHECK(CU(cuFuncSetCacheConfig)(affine, CUfunc_cache(8)) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuFuncSetSharedMemConfig)(affine, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));

  const char *ptx = ".version 7.0\n.target sm_75\n.address_size 64\n"
                    ".visible .entry one(.param .u32 a, .param .u64 b) { ret; }\n"
                    ".visible .entry two() { ret; }\n";
  CUlibrary owner = nullptr;
  CUlibrary library = MADE(cuLibraryLoadData, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0);
  CUkernel kernels[3] = {};
  OK(CU(cuLibraryEnumerateKernels)(kernels, 3, library));
  std::set<std::string> names;
  for (CUkernel each : {kernels[0], kernels[1]}) {
    const char *name = nullptr;
    OK(CU(cuKernelGetName)(&name, each));
    names.insert(name);
    OK(CU(cuKernelGetLibrary)(&owner, each));
    CHECK(owner == library);
  }
  CHECK(names == std::set<std::string>{"one", "two"});
  CHECK(kernels[2] == nullptr);
  CUkernel one = nullptr;
  size_t offset = 0;
  OK(CU(cuLibraryGetKernel)(&one, library, "one"));
  size_t bytes = ASKED(cuKernelGetParamInfo, one, 1, &offset);
  CHECK(offset == 8);
  CHECK(bytes == 8);
  CHECK(CU(cuKernelGetParamInfo)(one, 2, &offset, &bytes) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 50000, one, 0));
  int value = MADE(cuKernelGetAttribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, one, 0);
  CHECK(value == 50000);
  OK(CU(cuKernelSetCacheConfig)(one, CU_FUNC_CACHE_PREFER_L1, 0));
  CHECK(CU(cuKernelSetCacheConfig)(one, CU_FUNC_CACHE_PREFER_L1, 1) == CUDA_ERROR_INVALID_DEVICE);
  CUdeviceptr address = 0;
  void *pointer = nullptr;
  CHECK(CU(cuLibraryGetManaged)(&address, &bytes, library, "x") == CUDA_ERROR_NOT_FOUND);
  CHECK(CU(cuLibraryGetUnifiedFunction)(&pointer, library, "x") == CUDA_ERROR_NOT_FOUND);
  OK(CU(cuLibraryUnload)(library));
  CUmodule fat = nullptr;
  CHECK(CU(cuModuleLoadFatBinary)(&fat, "\x50\xed\x55\xba more") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  OK(CU(cuModuleUnload)(module));
}

TEST_CASE("Occupancy with flags, and the shared memory that it leaves") {
  Session session{"CUGRT_EMU_DEVICE=sm_90"};
  CUfunction trap = kernel(load_kernels(), "trap_now");
  int blocks = 0, grid = 0, block = 0;
  OK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(
      &blocks, trap, 256, 0, CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE));
  CHECK(blocks == 8); // of 2048 threads
  CHECK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(&blocks, trap, 256, 0, 8) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuOccupancyMaxPotentialBlockSizeWithFlags)(
      &grid, &block, trap, [](int threads) { return size_t(threads) * 4; }, 0, 500, 0));
  CHECK(block <= 500);
  CHECK(block > 0);
  // 233,472 bytes of a multiprocessor, in 4 parts, less 1 KiB that each block needs for itself: no
  // more than a function may have without opting in.
  size_t bytes = MADE(cuOccupancyAvailableDynamicSMemPerBlock, trap, 4, 128);
  CHECK(bytes <= 49152);
  CHECK(bytes >= 48000);
}

TEST_CASE("A cooperative launch runs when all its blocks fit at once, and is refused otherwise") {
  Session session{"CUGRT_EMU_DEVICE=sm_90"};
  CUmodule module = load_kernels();
  CUfunction affine = kernel(module, "affine");
  CUdeviceptr cell = upload(std::vector<uint32_t>{4});
  uint32_t factor = 5, term = 1;
  void *params[] = {&cell, &factor, &term};
  OK(CU(cuLaunchCooperativeKernel)(affine, 1, 1, 1, 1, 1, 1, 0, nullptr, params));
  CHECK(download<uint32_t>(cell, 1)[0] == 21);
  // 132 multiprocessors with 2 blocks of 1024 threads each.
  CHECK(CU(cuLaunchCooperativeKernel)(affine, 265, 1, 1, 1024, 1, 1, 0, nullptr, params) ==
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  CHECK(CU(cuLaunchCooperativeKernel_ptsz)(affine, 265, 1, 1, 1024, 1, 1, 0, nullptr, params) ==
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  CHECK(download<uint32_t>(cell, 1)[0] == 21);
  OK(CU(cuMemFree_v2)(cell));
  OK(CU(cuModuleUnload)(module));
}

TEST_CASE("Attributes of streams are kept and copied, and callbacks run in their order") {
  Session session;
  Stream a(0);
  Stream b(0);
  CUstreamAttrValue value{}, read{};
  value.syncPolicy = CU_SYNC_POLICY_YIELD;
  OK(CU(cuStreamSetAttribute)(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  OK(CU(cuStreamCopyAttributes)(b, a));
  OK(CU(cuStreamGetAttribute)(b, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &read));
  CHECK(read.syncPolicy == CU_SYNC_POLICY_YIELD);
  CHECK(CU(cuStreamSetAttribute)(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value) ==
        CUDA_ERROR_INVALID_VALUE);
  CUdevice device = ASKED(cuStreamGetDevice, a);
  CHECK(device == 0);
  int count = 0;
  OK(CU(cuStreamAddCallback)(a, add_one, &count, 0));
  OK(CU(cuStreamAddCallback)(a, add_one, &count, 0));
  // "Reserved for future use, must be 0"
  CHECK(CU(cuStreamAddCallback)(a, add_one, &count, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamAddCallback)(a, nullptr, &count, 0) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuStreamSynchronize)(a));
  CHECK(count == 2);
  Event event(0);
  OK(CU(cuEventRecordWithFlags)(event, a, CU_EVENT_RECORD_DEFAULT));
  CHECK(CU(cuEventRecordWithFlags)(event, a, 8) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuEventSynchronize)(event));
}

TEST_CASE(
    "A capture is steered: its mode exchanged, its dependencies replaced, its graph the caller's") {
  Session session;
  Stream stream(CU_STREAM_NON_BLOCKING);
  Graph graph(MADE(cuGraphCreate, 0));
  CUgraphNode first = MADE(cuGraphAddEmptyNode, graph, nullptr, 0);
  OK(CU(cuStreamBeginCaptureToGraph)(stream, graph, &first, nullptr, 1,
                                     CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  // A call that the mode forbids is allowed once the thread is relaxed.
  CUdeviceptr a = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
  CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL); // every thread's at first
  OK(CU(cuMemAlloc_v2)(&a, 4));
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
  CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);

  int value = 0;
  OK(CU(cuLaunchHostFunc)(stream, set_to_seven, &value));
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  const CUgraphNode *before = nullptr;
  const CUgraphEdgeData *data = nullptr;
  CUgraph in = nullptr;
  size_t count = ASKED(cuStreamGetCaptureInfo_v3, stream, &status, &id, &in, &before, &data);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(in == graph);
  REQUIRE(count == 1);
  CHECK(before[0] != first);
  OK(CU(cuStreamUpdateCaptureDependencies)(stream, &first, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  OK(CU(cuStreamGetCaptureInfo_v2)(stream, &status, &id, &in, &before, &count));
  REQUIRE(count == 1);
  CHECK(before[0] == first);
  CHECK(CU(cuStreamUpdateCaptureDependencies_v2)(stream, &first, nullptr, 1, 9) ==
        CUDA_ERROR_INVALID_VALUE);
  status = CU_STREAM_CAPTURE_STATUS_NONE;
  OK(CU(cuStreamGetCaptureInfo)(stream, &status, &id));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph ended = ASKED(cuStreamEndCapture, stream);
  CHECK(ended == graph);
  CHECK(value == 0);
  size_t nodes = ASKED(cuGraphGetNodes, graph, nullptr);
  CHECK(nodes == 2);
  OK(CU(cuMemFree_v2)(a));
}

TEST_CASE("Mapped memory tells its properties and who may access it") {
  Session session;
  CUmemAllocationProp props{};
  props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t granule = MADE(cuMemGetAllocationGranularity, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  CUmemGenericAllocationHandle memory = MADE(cuMemCreate, granule, &props, 0);
  CUmemAllocationProp read = MADE(cuMemGetAllocationPropertiesFromHandle, memory);
  CHECK(read.type == props.type);
  CHECK(read.location.type == props.location.type);
  CUdeviceptr at = MADE(cuMemAddressReserve, granule, 0, 0, 0);
  OK(CU(cuMemMap)(at, granule, 0, memory, 0));
  CUmemAccessDesc access{props.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(CU(cuMemSetAccess)(at, granule, &access, 1));
  unsigned long long flags = MADE(cuMemGetAccess, &props.location, at);
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  OK(CU(cuMemUnmap)(at, granule));
  OK(CU(cuMemAddressFree)(at, granule));
  OK(CU(cuMemRelease)(memory));
}
