// Memory: allocation, copies, fills, pinned memory, pointer attributes.
#include "emulator/unit/driver/session.h"
#include "support/temporary_folder.h"

#include <numeric>
#include <sys/mman.h>
#include <unistd.h>

TEST_CASE("More memory than the device has is refused, and what is used shows") {
  Session session{"CUGRT_EMU_MEMORY=16M"};
  size_t total = 0;
  CUdeviceptr address = 0;
  CHECK(CU(cuMemAlloc_v2)(&address, size_t(17) << 20) == CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuMemAlloc_v2)(&address, size_t(10) << 20));
  size_t free_bytes = MADE(cuMemGetInfo_v2, &total);
  CHECK(total == size_t(16) << 20);
  CHECK(free_bytes == size_t(6) << 20);
  CUdeviceptr second = 0;
  CHECK(CU(cuMemAlloc_v2)(&second, size_t(7) << 20) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(statistics().used_bytes == size_t(10) << 20);
  OK(CU(cuMemAlloc_v2)(&second, 1000));
  OK(CU(cuMemFree_v2)(address));
  CUemuStatistics now = statistics();
  CHECK(now.used_bytes == 1000);
  CHECK(now.most_used_bytes == (size_t(10) << 20) + 1000);
  CHECK(statistics().most_used_bytes == now.most_used_bytes); // reading changes nothing
  OK(CU(cuEmuResetMostUsed)());
  CHECK(statistics().most_used_bytes == 1000);
  OK(CU(cuMemFree_v2)(second));
}

TEST_CASE("Copies go there and back and between allocations") {
  Session session;
  std::vector<uint32_t> values(1000);
  std::iota(values.begin(), values.end(), 7u);
  CUdeviceptr a = upload(values), b = 0;
  OK(CU(cuMemAlloc_v2)(&b, 4000));
  OK(CU(cuMemcpyDtoD_v2)(b, a, 4000));
  CHECK(download<uint32_t>(b, 1000) == values);
  OK(CU(cuMemcpy)(b, a + 4, 8));
  CHECK(download<uint32_t>(b, 2) == std::vector<uint32_t>{8, 9});
  // Beyond the end of the allocation.
  CHECK(CU(cuMemcpyDtoH_v2)(values.data(), a + 4, 4000) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpyHtoD_v2)(a + 3997, values.data(), 4) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemcpyHtoD_v2)(a, values.data(), 0));
  OK(CU(cuMemFree_v2)(a));
  CHECK(CU(cuMemcpyDtoH_v2)(values.data(), a, 4) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemFree_v2)(b));
}

TEST_CASE("Fresh memory is poisoned") {
  Session session;
  Memory a(MADE(cuMemAlloc_v2, 4));
  CHECK(download<uint8_t>(a, 4) == std::vector<uint8_t>(4, 0xCB));
}

TEST_CASE("Fills write elements of one, two and four bytes") {
  Session session;
  Memory a(upload(std::vector<uint8_t>(16, 0)));
  OK(CU(cuMemsetD32_v2)(a, 0x01020304, 2));
  OK(CU(cuMemsetD16_v2)(a + 8, 0xA1B2, 2));
  OK(CU(cuMemsetD8_v2)(a + 12, 0x55, 3));
  CHECK(download<uint8_t>(a, 16) ==
        std::vector<uint8_t>{4, 3, 2, 1, 4, 3, 2, 1, 0xB2, 0xA1, 0xB2, 0xA1, 0x55, 0x55, 0x55, 0});
  CHECK(CU(cuMemsetD32_v2)(a + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE); // misaligned
  CHECK(CU(cuMemsetD8_v2)(a, 0, 17) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemsetD2D8_v2)(a, 8, 0xEE, 2, 2));
  auto bytes = download<uint8_t>(a, 16);
  CHECK(bytes[1] == 0xEE);
  CHECK(bytes[2] == 2);
  CHECK(bytes[9] == 0xEE);
  CHECK(bytes[10] == 0xB2);
}

TEST_CASE("A two-dimensional copy moves a window") {
  Session session;
  std::vector<uint8_t> source(6 * 4);
  std::iota(source.begin(), source.end(), uint8_t(0));
  Memory a(upload(std::vector<uint8_t>(8 * 4, 0)));
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = source.data();
  copy.srcPitch = 6;
  copy.srcXInBytes = 1;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = a;
  copy.dstPitch = 8;
  copy.WidthInBytes = 3;
  copy.Height = 2;
  OK(CU(cuMemcpy2D_v2)(&copy));
  auto got = download<uint8_t>(a, 16);
  CHECK(std::vector<uint8_t>(got.begin(), got.begin() + 4) == std::vector<uint8_t>{7, 8, 9, 0});
  CHECK(std::vector<uint8_t>(got.begin() + 8, got.begin() + 12) ==
        std::vector<uint8_t>{13, 14, 15, 0});
  copy.dstPitch = 2; // rows would overlap
  CHECK(CU(cuMemcpy2D_v2)(&copy) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("An asynchronous copy from pageable memory has taken the bytes when it returns") {
  Session session;
  Gate gate;
  Stream stream(CU_STREAM_NON_BLOCKING);
  Memory a(MADE(cuMemAlloc_v2, 4));
  uint32_t value = 11;
  OK(CU(cuLaunchHostFunc)(stream, Gate::wait, &gate));
  OK(CU(cuMemcpyHtoDAsync_v2)(a, &value, 4, stream));
  value = 12;
  gate.open = true;
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(download<uint32_t>(a, 1)[0] == 11);
}

TEST_CASE("Pinned memory is read when the copy runs, and the device can reach it") {
  Session session;
  Gate gate;
  CUstream stream = MADE(cuStreamCreate, CU_STREAM_NON_BLOCKING);
  Memory a(MADE(cuMemAlloc_v2, 4));
  void *host = MADE(cuMemHostAlloc, 4, CU_MEMHOSTALLOC_DEVICEMAP);
  CUdeviceptr alias = MADE(cuMemHostGetDevicePointer_v2, host, 0);
  auto *value = static_cast<uint32_t *>(host);
  *value = 11;
  CHECK(download<uint32_t>(alias, 1)[0] == 11);
  OK(CU(cuLaunchHostFunc)(stream, Gate::wait, &gate));
  OK(CU(cuMemcpyHtoDAsync_v2)(a, host, 4, stream));
  *value = 12;
  gate.open = true;
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(download<uint32_t>(a, 1)[0] == 12);
  OK(CU(cuStreamDestroy_v2)(stream));
  OK(CU(cuMemFreeHost)(host));
  CHECK(CU(cuMemFreeHost)(host) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("Registering host memory twice, or unregistering what is not, is refused") {
  Session session;
  std::vector<char> bytes(8192);
  OK(CU(cuMemHostRegister_v2)(bytes.data(), 4096, 0));
  CHECK(CU(cuMemHostRegister_v2)(bytes.data() + 100, 10, 0) ==
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  OK(CU(cuMemHostUnregister)(bytes.data()));
  CHECK(CU(cuMemHostUnregister)(bytes.data()) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_CASE("Pages of a file that are registered have an address on the device") {
  Session session{"CUGRT_EMU_DEVICE=sm_87"};
  int integrated = MADE(cuDeviceGetAttribute, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0);
  CHECK(integrated == 1);
  std::vector<uint32_t> values(3000);
  std::iota(values.begin(), values.end(), 7u);
  TemporaryFolder folder;
  const std::string path = folder.path + "/values";
  std::FILE *file = std::fopen(path.c_str(), "w+");
  REQUIRE(file);
  REQUIRE(std::fwrite(values.data(), 4, values.size(), file) == values.size());
  REQUIRE(std::fflush(file) == 0);
  const unsigned mapped = CU_MEMHOSTREGISTER_DEVICEMAP,
                 read_only = mapped | CU_MEMHOSTREGISTER_READ_ONLY;

  void *pages = mmap(nullptr, 12000, PROT_READ, MAP_PRIVATE, fileno(file), 0);
  REQUIRE(pages != MAP_FAILED);
  char *inside = static_cast<char *>(pages) + 4400; // of the second page
  CHECK(CU(cuMemHostRegister_v2)(inside, 4000, mapped) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemHostRegister_v2)(inside, 4000, read_only));
  CUdeviceptr seen = MADE(cuMemHostGetDevicePointer_v2, inside + 8, 0);
  CHECK(download<uint32_t>(seen, 3) == std::vector<uint32_t>{1109, 1110, 1111});
  void *host = nullptr;
  OK(CU(cuPointerGetAttribute)(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, seen));
  CHECK(host == inside + 8);
  OK(CU(cuMemsetD32_v2)(seen, 1, 1)); // what the device may not do changes nothing for the host
  OK(CU(cuCtxSynchronize)());
  CHECK(*reinterpret_cast<uint32_t *>(inside + 8) == 1109);
  OK(CU(cuMemHostUnregister)(inside));
  CHECK(CU(cuMemcpyDtoH_v2)(values.data(), seen, 4) == CUDA_ERROR_INVALID_VALUE);
  munmap(pages, 12000);

  pages = mmap(nullptr, 12000, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  REQUIRE(pages != MAP_FAILED);
  OK(CU(cuMemHostRegister_v2)(pages, 12000, mapped));
  OK(CU(cuMemHostGetDevicePointer_v2)(&seen, pages, 0));
  OK(CU(cuMemsetD32_v2)(seen + 4, 5, 1));
  OK(CU(cuCtxSynchronize)());
  CHECK(static_cast<uint32_t *>(pages)[1] == 5);
  static_cast<uint32_t *>(pages)[2] = 6;
  CHECK(download<uint32_t>(seen, 3) == std::vector<uint32_t>{7, 5, 6});
  OK(CU(cuMemHostUnregister)(pages));
  munmap(pages, 12000);
  std::fclose(file);
}

/// out[i] = a[i] + b[i] for i < n
void launch_add(CUdeviceptr out, CUdeviceptr a, CUdeviceptr b, uint32_t n) {
  void *arguments[] = {&out, &a, &b, &n};
  OK(CU(cuLaunchKernel)(kernel(load_kernels(), "add"), (n + 63) / 64, 1, 1, 64, 1, 1, 0, nullptr,
                        arguments, nullptr));
}

TEST_CASE("Registered memory of any kind is reached by kernels while it is registered") {
  Session session;
  const unsigned mapped = CU_MEMHOSTREGISTER_DEVICEMAP;
  std::vector<float> heap(2000, 3);
  const CUdeviceptr ones = upload(std::vector<float>(2000, 1));
  CUdeviceptr seen = 0;
  OK(CU(cuMemHostRegister_v2)(heap.data(), 8000, 0));
  CHECK(CU(cuMemHostGetDevicePointer_v2)(&seen, heap.data(), 0) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemHostUnregister)(heap.data()));

  OK(CU(cuMemHostRegister_v2)(heap.data(), 8000, mapped));
  OK(CU(cuMemHostGetDevicePointer_v2)(&seen, heap.data(), 0));
  launch_add(seen, seen, ones, 2000);
  OK(CU(cuCtxSynchronize)());
  CHECK(heap == std::vector<float>(2000, 4));
  heap[5] = 9;
  CHECK(download<float>(seen + 20, 1)[0] == 9);
  OK(CU(cuMemHostUnregister)(heap.data()));
  CHECK(CU(cuMemcpyDtoH_v2)(heap.data(), seen, 4) == CUDA_ERROR_INVALID_VALUE);

  const long page = sysconf(_SC_PAGESIZE);
  auto *pages = static_cast<char *>(
      mmap(nullptr, size_t(3 * page), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  const auto both = size_t(2 * page);
  CHECK(CU(cuMemHostRegister_v2)(pages, both, mapped) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemHostRegister_v2)(pages, both, mapped | CU_MEMHOSTREGISTER_READ_ONLY));
  OK(CU(cuMemHostUnregister)(pages));
  // What is not there cannot be registered. Between two pages nothing larger takes its place.
  munmap(pages + page, size_t(page));
  CHECK(CU(cuMemHostRegister_v2)(pages, both, mapped | CU_MEMHOSTREGISTER_READ_ONLY) ==
        CUDA_ERROR_INVALID_VALUE);
  munmap(pages, size_t(page));
  munmap(pages + 2 * page, size_t(page));
  OK(CU(cuMemFree_v2)(ones));
}

TEST_CASE("A kernel faults behind the end of registered memory") {
  Session session;
  std::vector<float> heap(64);
  const CUdeviceptr ones = upload(std::vector<float>(64, 1));
  OK(CU(cuMemHostRegister_v2)(heap.data(), 60 * 4, CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr seen = MADE(cuMemHostGetDevicePointer_v2, heap.data(), 0);
  launch_add(seen, ones, ones, 61);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(heap[60] == 0);
}

TEST_CASE("A fill without a stream is waited for where the host sees the memory") {
  Session session{"CUGRT_EMU_ORDER=1"};
  void *host = MADE(cuMemHostAlloc, 400, CU_MEMHOSTALLOC_DEVICEMAP);
  CUdeviceptr managed = MADE(cuMemAllocManaged, 400, CU_MEM_ATTACH_GLOBAL);
  std::vector<uint32_t> heap(100);
  OK(CU(cuMemHostRegister_v2)(heap.data(), 400, CU_MEMHOSTREGISTER_DEVICEMAP));
  for (auto *seen :
       {static_cast<uint32_t *>(host), reinterpret_cast<uint32_t *>(managed), heap.data()}) {
    OK(CU(cuMemsetD32_v2)(reinterpret_cast<CUdeviceptr>(seen), 77, 100));
    CHECK(seen[99] == 77);
  }
  OK(CU(cuMemHostUnregister)(heap.data()));
  OK(CU(cuMemFree_v2)(managed));
  OK(CU(cuMemFreeHost)(host));
}

TEST_CASE("Pointer attributes tell kinds of memory apart") {
  Session session;
  CUdeviceptr a = upload(std::vector<int>(10, 1)), base = 0;
  unsigned type = 0;
  size_t bytes = 0;
  OK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a + 8));
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  OK(CU(cuMemGetAddressRange_v2)(&base, &bytes, a + 8));
  CHECK(base == a);
  CHECK(bytes == 40);
  CUcontext owner = nullptr;
  OK(CU(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, a));
  CHECK(owner == session.context);
  int local = 0;
  CHECK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  reinterpret_cast<CUdeviceptr>(&local)) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemFree_v2)(a));
  CHECK(CU(cuMemGetAddressRange_v2)(&base, &bytes, a) == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("Stream-ordered allocations are freed in stream order") {
  Session session;
  Gate gate;
  Stream stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr a = MADE(cuMemAllocAsync, 64, stream);
  OK(CU(cuLaunchHostFunc)(stream, Gate::wait, &gate));
  OK(CU(cuMemFreeAsync)(a, stream));
  CHECK(CU(cuMemFreeAsync)(a, stream) == CUDA_ERROR_INVALID_VALUE); // twice
  CHECK(statistics().allocations == 1);
  gate.open = true;
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(statistics().allocations == 0);
}

TEST_CASE(
    "Stream-ordered memory of no bytes has an address of its own, which is freed like others") {
  Session session;
  CUdeviceptr none = 0;
  CUdeviceptr a = MADE(cuMemAllocAsync, 0, nullptr);
  CUdeviceptr b = MADE(cuMemAllocAsync, 0, nullptr);
  CHECK(a != 0);
  CHECK(a != b);
  OK(CU(cuMemFreeAsync)(a, nullptr));
  OK(CU(cuMemFreeAsync)(b, nullptr));
  CHECK(CU(cuMemAlloc_v2)(&none, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("A pool counts what is in use, keeps its settings and may be the current one") {
  Session session;
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  props.maxSize = 1 << 20;
  CUmemoryPool pool = MADE(cuMemPoolCreate, &props);
  CUmemoryPool standard = MADE(cuDeviceGetDefaultMemPool, 0);
  CUmemoryPool found = MADE(cuDeviceGetMemPool, 0);
  CHECK(found == standard);
  CHECK(pool != standard);

  CUdeviceptr b = 0;
  CUdeviceptr a = MADE(cuMemAllocFromPoolAsync, 4096, pool, nullptr);
  cuuint64_t used = 0;
  OK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  CHECK(used == 4096);
  OK(CU(cuPointerGetAttribute)(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
  CHECK(found == pool);
  // "Applications can control the maximum size of the pool".
  CHECK(CU(cuMemAllocFromPoolAsync)(&b, 1 << 20, pool, nullptr) == CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuMemFreeAsync)(a, nullptr));
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  CHECK(used == 0);
  OK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
  CHECK(used == 4096);
  // "High watermark can only be reset to zero."
  CHECK(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used) ==
        CUDA_ERROR_INVALID_VALUE);
  used = 0;
  OK(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
  used = 77;
  OK(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &used));
  used = 0;
  OK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &used));
  CHECK(used == 77);
  int enabled = 0;
  OK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &enabled));
  CHECK(enabled == 1); // "(default enabled)"

  OK(CU(cuDeviceSetMemPool)(0, pool));
  OK(CU(cuMemAllocAsync)(&a, 64, nullptr));
  OK(CU(cuPointerGetAttribute)(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
  CHECK(found == pool);
  // "Destroying the current mempool of a device sets the default mempool of that device as the
  // current mempool"; what came from it stays until it is freed.
  OK(CU(cuMemPoolDestroy)(pool));
  CHECK(CU(cuMemPoolDestroy)(pool) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuDeviceGetMemPool)(&found, 0));
  CHECK(found == standard);
  OK(CU(cuMemFree_v2)(a));
  // "A device's default memory pool cannot be destroyed."
  CHECK(CU(cuMemPoolDestroy)(standard) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("Physical memory is reached where it is mapped, once access is set") {
  Session session;
  constexpr size_t kBytes = size_t(2) << 20;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t granularity = MADE(cuMemGetAllocationGranularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  CHECK(granularity == kBytes);
  CUmemGenericAllocationHandle memory = 0;
  CHECK(CU(cuMemCreate)(&memory, kBytes - 1, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemCreate)(&memory, kBytes, &prop, 0));
  CUdeviceptr range = MADE(cuMemAddressReserve, 4 * kBytes, 0, 0, 0);
  OK(CU(cuMemMap)(range, kBytes, 0, memory, 0));
  CHECK(CU(cuMemMap)(range, kBytes, 0, memory, 0) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemMap)(range + kBytes, kBytes, 0, memory, 0)); // the same bytes again
  CHECK(CU(cuMemsetD32_v2)(range, 7, 1) == CUDA_ERROR_INVALID_VALUE);
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  OK(CU(cuMemSetAccess)(range, 2 * kBytes, &access, 1));
  OK(CU(cuMemsetD32_v2)(range + 4, 7, 1));
  CHECK(download<uint32_t>(range + kBytes + 4, 1)[0] == 7);
  // Across two mappings.
  CHECK(download<uint32_t>(range + kBytes - 4, 3) ==
        std::vector<uint32_t>{0xCBCBCBCB, 0xCBCBCBCB, 7});
  size_t total = 0;
  size_t free_bytes = MADE(cuMemGetInfo_v2, &total);
  CHECK(total - free_bytes == kBytes);
  OK(CU(cuMemRelease)(memory)); // lives on in its mappings
  CHECK(CU(cuMemRelease)(memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(download<uint32_t>(range + 4, 1)[0] == 7);
  CHECK(CU(cuMemAddressFree)(range, 4 * kBytes) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemUnmap)(range, 2 * kBytes));
  CHECK(CU(cuMemUnmap)(range, 2 * kBytes) == CUDA_ERROR_INVALID_VALUE);
  size_t after = MADE(cuMemGetInfo_v2, &total);
  CHECK(after == total);
  OK(CU(cuMemAddressFree)(range, 4 * kBytes));
  CHECK(CU(cuMemAddressFree)(range, 4 * kBytes) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("A large allocation begins on a page, also behind a small one") {
  Session session;
  CUdeviceptr next = 0;
  CUdeviceptr small = MADE(cuMemAlloc_v2, 8);
  CUdeviceptr large = MADE(cuMemAlloc_v2, 1 << 20);
  OK(CU(cuMemAlloc_v2)(&next, 8)); // fills the gap between the two
  CHECK(large % 4096 == 0);
  CHECK(next % 512 == 0);
  for (CUdeviceptr address : {small, large, next})
    OK(CU(cuMemFree_v2)(address));
}

TEST_CASE("An overrun is found though another allocation follows") {
  // What lies behind an allocation, up to its length or 4096 bytes, belongs to no other.
  Session session;
  CUmodule module = load_kernels();
  CUfunction affine = kernel(module, "affine"); // on the word at `out`
  CUstream stream = MADE(cuStreamCreate, CU_STREAM_NON_BLOCKING);
  enum Kind { device, from_pool, managed, pinned };
  auto allocate = [&](Kind kind, size_t bytes) {
    CUdeviceptr address = 0;
    void *host = nullptr;
    OK(kind == device      ? CU(cuMemAlloc_v2)(&address, bytes)
       : kind == from_pool ? CU(cuMemAllocAsync)(&address, bytes, stream)
       : kind == managed   ? CU(cuMemAllocManaged)(&address, bytes, CU_MEM_ATTACH_GLOBAL)
                           : CU(cuMemAllocHost_v2)(&host, bytes));
    return kind == pinned ? reinterpret_cast<CUdeviceptr>(host) : address;
  };
  for (Kind kind : {device, from_pool, managed, pinned}) {
    for (size_t bytes : {size_t(512), size_t(1024), size_t(4096), size_t(1) << 20}) {
      INFO("kind " << kind << ", " << bytes << " bytes");
      std::vector<CUdeviceptr> row;
      for (int i = 0; i < 3; ++i)
        row.push_back(allocate(kind, bytes));
      for (CUdeviceptr address : row) {
        CHECK(address % (bytes >= 1 << 20 ? 4096 : 512) == 0);
        CUdeviceptr begin = 0;
        size_t length = 0;
        uint32_t word = 0;
        for (size_t beyond : {size_t(0), std::min(bytes, size_t(4096)) - 4}) {
          CHECK(CU(cuMemGetAddressRange_v2)(&begin, &length, address + bytes + beyond) ==
                CUDA_ERROR_NOT_FOUND);
          CHECK(CU(cuMemcpyDtoH_v2)(&word, address + bytes + beyond, 4) ==
                CUDA_ERROR_INVALID_VALUE);
        }
      }
      for (CUdeviceptr address : row)
        OK(kind == pinned ? CU(cuMemFreeHost)(reinterpret_cast<void *>(address))
                          : CU(cuMemFree_v2)(address));
    }
  }
  CUdeviceptr out = allocate(device, 2048), next = allocate(device, 2048);
  uint32_t factor = 1, term = 1;
  CUdeviceptr behind = out + 2048;
  CHECK(behind < next);
  launch_kernel(affine, 1, 1, nullptr, behind, factor, term);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("The gaps between allocations take none of the device's memory") {
  Session session{"CUGRT_EMU_MEMORY=1M"};
  std::vector<CUdeviceptr> all;
  for (size_t taken = 0; taken < size_t(1) << 20; taken += 512) {
    all.emplace_back();
    OK(CU(cuMemAlloc_v2)(&all.back(), 512));
  }
  size_t total = 0;
  size_t free_bytes = MADE(cuMemGetInfo_v2, &total);
  CHECK(total == size_t(1) << 20);
  CHECK(free_bytes == 0);
  CUdeviceptr more = 0;
  CHECK(CU(cuMemAlloc_v2)(&more, 512) == CUDA_ERROR_OUT_OF_MEMORY);
  // What is freed is given out again, gap and all.
  OK(CU(cuMemFree_v2)(all[1000]));
  OK(CU(cuMemAlloc_v2)(&more, 512));
  CHECK(more == all[1000]);
  all[1000] = more;
  for (CUdeviceptr address : all)
    OK(CU(cuMemFree_v2)(address));
}
