// Device and host memory, copies, fills, pointers, stream-ordered memory, virtual memory.
#include "script.h"

#include <array>
#include <numeric>

namespace cugrt::conformance {

namespace {

void copy_script(Script &s) {
  std::array<uint32_t, 64> in{}, out{};
  std::iota(in.begin(), in.end(), 5u);
  CUdeviceptr a = s.words(64), b = s.words(64);
  s.expect("to the device", s.api.cuMemcpyHtoD(a, in.data(), sizeof in));
  s.expect("within it", s.api.cuMemcpyDtoD(b + 16, a, 128));
  s.expect("back", s.api.cuMemcpyDtoH(out.data(), b, sizeof out));
  s.expect_true("moved by four words", out[4] == 5 && out[35] == 36 && out[36] == 0);
  s.expect("of no bytes", s.api.cuMemcpyHtoD(a, in.data(), 0));
}

void virtual_memory_script(Script &s) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = s.driver.device;
  size_t granule = 0;
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle handle = 0;
  s.expect("granularity",
           s.api.cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  s.expect("reserve", s.api.cuMemAddressReserve(&base, 2 * granule, 0, 0, 0));
  s.expect("a size that is no multiple", s.api.cuMemCreate(&handle, granule + 1, &prop, 0),
           CUDA_ERROR_INVALID_VALUE);
  s.expect("create", s.api.cuMemCreate(&handle, granule, &prop, 0));
  s.expect("map", s.api.cuMemMap(base, granule, 0, handle, 0));
  s.observe("map over it", s.api.cuMemMap(base, granule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  s.expect("grant access", s.api.cuMemSetAccess(base, granule, &access, 1));
  s.expect("fill", s.api.cuMemsetD32(base, 77, granule / 4));
  s.expect("read", uint64_t(s.word(base + granule - 4)), 77);
  s.expect("access beyond what is mapped", s.api.cuMemSetAccess(base, 2 * granule, &access, 1),
           CUDA_ERROR_INVALID_VALUE);
  s.expect("release while mapped", s.api.cuMemRelease(handle));
  s.expect("read still", uint64_t(s.word(base)), 77);
  s.expect("unmap", s.api.cuMemUnmap(base, granule));
  s.expect("free the range", s.api.cuMemAddressFree(base, 2 * granule));
}

} // namespace

const std::vector<ScriptCase> &memory_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"an allocation of no bytes is refused",
       {{"cuMemAlloc", "If bytesize is 0, cuMemAlloc() returns CUDA_ERROR_INVALID_VALUE"}},
       [](Script &s) {
         CUdeviceptr address = 0;
         s.expect("none", s.api.cuMemAlloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
         s.expect("null", s.api.cuMemAlloc(nullptr, 16), CUDA_ERROR_INVALID_VALUE);
       }},
      {"allocations are aligned, and too large ones refused",
       {{"cuMemAlloc", "suitably aligned for any kind of variable"},
        {"cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY"}},
       [](Script &s) {
         CUdeviceptr a = 0, b = 0;
         size_t free_bytes = 0, total = 0;
         s.expect("one byte", s.api.cuMemAlloc(&a, 1));
         s.expect("aligned", a % 16, 0);
         s.expect("information", s.api.cuMemGetInfo(&free_bytes, &total));
         s.expect_true("free is less than all", free_bytes > 0 && free_bytes <= total);
         s.expect("more than there is", s.api.cuMemAlloc(&b, 2 * total), CUDA_ERROR_OUT_OF_MEMORY);
         s.expect("free", s.api.cuMemFree(a));
         s.observe("free of null", s.api.cuMemFree(0), CUDA_SUCCESS);
       }},
      {"the range that holds an address",
       {{"cuMemGetAddressRange", "that contains the input pointer"},
        {"cuMemGetAddressRange", "If one of them is NULL, it is ignored"}},
       [](Script &s) {
         CUdeviceptr a = 0, base = 0;
         size_t size = 0;
         s.need(s.api.cuMemAlloc(&a, 400));
         s.expect("inside", s.api.cuMemGetAddressRange(&base, &size, a + 200));
         s.expect_true("its base", base == a);
         s.expect("its size", size, 400);
         s.expect("no base", s.api.cuMemGetAddressRange(nullptr, &size, a));
         s.need(s.api.cuMemFree(a));
         s.observe("after it is freed", s.api.cuMemGetAddressRange(&base, &size, a),
                   CUDA_ERROR_NOT_FOUND);
       }},
      {"copies between host and device",
       {{"cuMemcpyHtoD", "Copies from host memory to device memory"},
        {"cuMemcpyDtoD", "Copies from device memory to device memory"}},
       copy_script},
      {"fills of each width, at aligned addresses",
       {{"cuMemsetD16", "must be two byte aligned"}, {"cuMemsetD32", "must be four byte aligned"}},
       [](Script &s) {
         CUdeviceptr a = s.words(4);
         s.expect("bytes", s.api.cuMemsetD8(a + 1, 0x5a, 2));
         s.expect("the middle two", uint64_t(s.word(a)), 0x005a5a00);
         s.expect("halves", s.api.cuMemsetD16(a + 6, 0x1234, 1));
         s.expect("the upper half", uint64_t(s.word(a + 4)), 0x12340000);
         s.expect("halves at an odd address", s.api.cuMemsetD16(a + 1, 0, 1),
                  CUDA_ERROR_INVALID_VALUE);
         s.expect("words", s.api.cuMemsetD32(a + 8, 0xdeadbeef, 1));
         s.expect("one word", uint64_t(s.word(a + 8)), 0xdeadbeef);
         s.expect("words at an even address", s.api.cuMemsetD32(a + 2, 0, 1),
                  CUDA_ERROR_INVALID_VALUE);
       }},
      {"fills of two dimensions leave what is between the rows",
       {{"cuMemsetD2D32", "dstPitch specifies the number of bytes between each row"}},
       [](Script &s) {
         CUdeviceptr a = s.words(16, 1);
         s.expect("two words of each of three rows", s.api.cuMemsetD2D32(a, 16, 9, 2, 3));
         s.expect("in a row", uint64_t(s.word(a + 20)), 9);
         s.expect("between rows", uint64_t(s.word(a + 24)), 1);
         s.expect("behind the rows", uint64_t(s.word(a + 48)), 1);
       }},
      {"pinned memory and its flags",
       {{"cuMemHostAlloc", "page-locked and accessible to the device"},
        {"cuMemHostGetFlags", "Passes back the flags"}},
       [](Script &s) {
         void *host = nullptr;
         unsigned flags = 0;
         s.expect("allocate", s.api.cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_PORTABLE));
         s.expect("flags", s.api.cuMemHostGetFlags(&flags, host));
         s.expect_true("portable", flags & CU_MEMHOSTALLOC_PORTABLE);
         s.expect("free", s.api.cuMemFreeHost(host));
         s.expect("flags of what is no pinned memory", s.api.cuMemHostGetFlags(&flags, &flags),
                  CUDA_ERROR_INVALID_VALUE);
         s.observe("no bytes", s.api.cuMemHostAlloc(&host, 0, 0), CUDA_SUCCESS);
       }},
      {"memory is registered once",
       {{"cuMemHostRegister", "Page-locks the memory range"},
        {"cuMemHostUnregister", "must be the same one specified to cuMemHostRegister()"},
        {"cuMemHostRegister", "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
        {"cuMemHostUnregister", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"}},
       [](Script &s) {
         alignas(4096) static char page[8192];
         s.expect("register", s.api.cuMemHostRegister(page, sizeof page, 0));
         s.expect("again", s.api.cuMemHostRegister(page, sizeof page, 0),
                  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
         s.expect("unregister", s.api.cuMemHostUnregister(page));
         s.expect("again", s.api.cuMemHostUnregister(page), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
       }},
      {"what a pointer points to",
       {{"cuPointerGetAttribute",
         "addresses device memory then *data is set to CU_MEMORYTYPE_DEVICE"},
        {"cuPointerGetAttribute", "addresses host memory then *data is set to CU_MEMORYTYPE_HOST"}},
       [](Script &s) {
         CUdeviceptr a = s.words(4);
         unsigned type = 0;
         CUcontext context = nullptr;
         int local = 0;
         s.expect("device",
                  s.api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
         s.expect("its type", type, CU_MEMORYTYPE_DEVICE);
         s.expect("context",
                  s.api.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, a + 8));
         s.expect_true("this one", context == s.context);
         void *host = nullptr;
         s.need(s.api.cuMemAllocHost(&host, 64));
         s.expect("host", s.api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                      CUdeviceptr(host)));
         s.expect("its type", type, CU_MEMORYTYPE_HOST);
         s.expect("the stack",
                  s.api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                              CUdeviceptr(&local)),
                  CUDA_ERROR_INVALID_VALUE);
         s.need(s.api.cuMemFreeHost(host));
       }},
      {"memory in the order of a stream",
       {{"cuMemAllocAsync", "A pointer to the allocated memory is returned immediately"},
        {"cuMemFreeAsync", "Inserts a free operation into hStream"},
        {"cuMemFree", "cuMemAllocAsync(), cuMemAllocFromPoolAsync()"}},
       [](Script &s) {
         CUdeviceptr a = 0, b = 0;
         uint32_t value = 0;
         CUstream stream = s.stream();
         s.expect("allocate", s.api.cuMemAllocAsync(&a, 64, stream));
         s.expect("fill", s.api.cuMemsetD32Async(a, 31, 16, stream));
         s.expect("copy", s.api.cuMemcpyDtoHAsync(&value, a + 60, 4, stream));
         s.expect("free", s.api.cuMemFreeAsync(a, stream));
         s.expect("wait", s.api.cuStreamSynchronize(stream));
         s.expect("what was filled", value, 31);
         s.need(s.api.cuMemAllocAsync(&b, 64, stream));
         s.need(s.api.cuStreamSynchronize(stream));
         s.expect("free at once", s.api.cuMemFree(b));
       }},
      {"memory of no bytes in the order of a stream",
       {{"cuMemAllocAsync", "A pointer to the allocated memory is returned immediately"}},
       [](Script &s) {
         CUdeviceptr a = 0;
         s.observe("allocate", s.api.cuMemAllocAsync(&a, 0, nullptr), CUDA_SUCCESS);
         s.observe("free", s.api.cuMemFreeAsync(a, nullptr), CUDA_SUCCESS);
         s.expect("wait", s.api.cuStreamSynchronize(nullptr));
       }},
      {"virtual memory: reserve, create, map, grant, unmap",
       {{"cuMemCreate",
         "must be a multiple of the the value given via cuMemGetAllocationGranularity"},
        {"cuMemMap", "does not make the address accessible"},
        {"cuMemSetAccess", "must be a fully mapped address range"},
        {"cuMemRelease", "The memory allocation will be freed when all outstanding mappings"}},
       virtual_memory_script},
  };
  return scripts;
}

} // namespace cugrt::conformance
