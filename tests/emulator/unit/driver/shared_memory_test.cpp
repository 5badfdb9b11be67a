// Memory that host and device share at one address: pinned and managed.
#include "emulator/unit/driver/session.h"

#include <cstring>

namespace {

/// cell = cell * factor + term, by a kernel that is given the address as it is.
void affine(CUmodule module, CUdeviceptr cell, uint32_t factor, uint32_t term) {
  launch_kernel(kernel(module, "affine"), 1, 1, nullptr, cell, factor, term);
  OK(CU(cuCtxSynchronize)());
}

} // namespace

TEST_CASE("Kernels take the pointer that pinned memory has on the host") {
  Session session;
  CUmodule module = load_kernels();
  void *host = MADE(cuMemAllocHost_v2, 10000);
  auto *words = static_cast<uint32_t *>(host);
  words[2000] = 5;
  // "the host pointer [...] may be directly used on the device": cuMemHostGetDevicePointer gives
  // it.
  CUdeviceptr alias = MADE(cuMemHostGetDevicePointer_v2, words + 2000, 0);
  CHECK(alias == reinterpret_cast<CUdeviceptr>(words + 2000));
  affine(module, alias, 3, 4);
  CHECK(words[2000] == 19);
  CHECK(download<uint32_t>(alias, 1)[0] == 19);
  unsigned type = 0;
  void *back = nullptr;
  OK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, alias));
  CHECK(type == CU_MEMORYTYPE_HOST);
  OK(CU(cuPointerGetAttribute)(&back, CU_POINTER_ATTRIBUTE_HOST_POINTER, alias));
  CHECK(back == words + 2000);
  // Neighbours in the address space neither share pages with it nor lose theirs when it goes.
  Memory before(upload(std::vector<uint32_t>{77}));
  OK(CU(cuMemFreeHost)(host));
  CHECK(download<uint32_t>(before, 1)[0] == 77);
  uint32_t value = 0;
  CHECK(CU(cuMemcpyDtoH_v2)(&value, alias, 4) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuModuleUnload)(module));
}

TEST_CASE("Shared and ordinary allocations in any order never overlap") {
  Session session;
  std::vector<std::pair<CUdeviceptr, bool>> live;
  uint32_t random = 1, stamp = 0;
  std::map<CUdeviceptr, uint32_t> stamps;
  for (int step = 0; step < 400; ++step) {
    random = random * 1664525 + 1013904223;
    if (live.size() > 20 || (live.size() > 4 && random >> 30 == 0)) {
      size_t at = (random >> 8) % live.size();
      auto [address, pinned] = live[at];
      CHECK(download<uint32_t>(address, 1)[0] == stamps[address]);
      if (pinned)
        OK(CU(cuMemFreeHost)(reinterpret_cast<void *>(address)));
      else
        OK(CU(cuMemFree_v2)(address));
      live.erase(live.begin() + std::ptrdiff_t(at));
      continue;
    }
    size_t bytes = 4 + (random >> 16) % 9000;
    bool pinned = random >> 12 & 1;
    CUdeviceptr address = 0;
    void *host = nullptr;
    if (pinned) {
      OK(CU(cuMemAllocHost_v2)(&host, bytes));
      address = reinterpret_cast<CUdeviceptr>(host);
      std::memset(host, 0xEE, bytes);
    } else {
      OK(CU(cuMemAlloc_v2)(&address, bytes));
      OK(CU(cuMemsetD8_v2)(address, 0xEE, bytes));
    }
    stamps[address] = ++stamp;
    OK(CU(cuMemcpyHtoD_v2)(address, &stamp, 4));
    live.push_back({address, pinned});
  }
  for (auto [address, pinned] : live) {
    CHECK(download<uint32_t>(address, 1)[0] == stamps[address]);
    if (pinned)
      OK(CU(cuMemFreeHost)(reinterpret_cast<void *>(address)));
    else
      OK(CU(cuMemFree_v2)(address));
  }
}

TEST_CASE("Managed memory is written by the host and by kernels at one address") {
  Session session;
  CUmodule module = load_kernels();
  CUdeviceptr cell = 0;
  CHECK(CU(cuMemAllocManaged)(&cell, 4, CU_MEM_ATTACH_SINGLE) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocManaged)(&cell, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemAllocManaged)(&cell, 64, CU_MEM_ATTACH_GLOBAL));
  auto *host = reinterpret_cast<uint32_t *>(cell);
  host[0] = 10;
  affine(module, cell, 2, 1);
  CHECK(host[0] == 21);
  OK(CU(cuMemsetD32_v2)(cell, 9, 16));
  OK(CU(cuCtxSynchronize)()); // fills of device memory need not have ended when they return
  CHECK(host[15] == 9);
  bool managed = false;
  unsigned type = 0;
  OK(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, cell + 4));
  CHECK(managed);
  OK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, cell));
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  int supported = MADE(cuDeviceGetAttribute, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0);
  CHECK(supported == 1);
  CHECK(CU(cuMemFreeHost)(host) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemFree_v2)(cell));
  CHECK(CU(cuMemFree_v2)(cell) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuModuleUnload)(module));
}

TEST_CASE("A managed variable is read and written by the host and by kernels") {
  Session session;
  auto text = [](const std::string &attribute, const std::string &space = ".global") {
    return ".version 8.0\n.target sm_80\n.address_size 64\n.visible " + space + " .attribute(" +
           attribute + ") .align 4 .u32 cell" + (space == ".global" ? " = 5" : "") +
           ";\n.visible .global .u32 other;\n"
           ".visible .entry k() {\n.reg .b32 %r;\nld.global.u32 %r, [cell];\n"
           "mul.lo.u32 %r, %r, 3;\nst.global.u32 [cell], %r;\nret;\n}\n";
  };
  CUmodule module = MADE(cuModuleLoadData, text(".managed").c_str());
  size_t bytes = 0;
  CUdeviceptr address = MADE(cuModuleGetGlobal_v2, &bytes, module, "cell");
  CHECK(bytes == 4);
  auto *cell = reinterpret_cast<volatile uint32_t *>(address);
  CHECK(*cell == 5);
  *cell = 7;
  OK(CU(cuLaunchKernel)(kernel(module, "k"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  OK(CU(cuCtxSynchronize)());
  CHECK(*cell == 21);
  OK(CU(cuModuleUnload)(module));
  CUlibrary library =
      MADE(cuLibraryLoadData, text(".managed").c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  OK(CU(cuLibraryGetManaged)(&address, &bytes, library, "cell"));
  CHECK(*reinterpret_cast<volatile uint32_t *>(address) == 5);
  CHECK(CU(cuLibraryGetManaged)(&address, &bytes, library, "other") == CUDA_ERROR_NOT_FOUND);
  OK(CU(cuLibraryUnload)(library));
  // What is not supported is told from what is no PTX.
  CHECK(CU(cuModuleLoadData)(&module, text(".unified(1, 2)").c_str()) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuModuleLoadData)(&module, text(".odd").c_str()) == CUDA_ERROR_INVALID_PTX);
  CHECK(CU(cuModuleLoadData)(&module, text(".managed", ".shared").c_str()) ==
        CUDA_ERROR_INVALID_PTX);
}

TEST_CASE("Advice, prefetch and attachment are for managed memory within its bounds") {
  Session session;
  CUdeviceptr managed = 0, plain = upload(std::vector<uint32_t>(16));
  OK(CU(cuMemAllocManaged)(&managed, 4096, CU_MEM_ATTACH_HOST));
  Stream stream(0);
  CUmemLocation device{}, absent{};
  device.type = absent.type = CU_MEM_LOCATION_TYPE_DEVICE;
  absent.id = 1;

  OK(CU(cuMemAdvise_v2)(managed, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
  OK(CU(cuMemAdvise)(managed, 100, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
  CHECK(CU(cuMemAdvise_v2)(managed, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, absent) ==
        CUDA_ERROR_INVALID_DEVICE);
  OK(CU(cuMemAdvise_v2)(managed, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, absent)); // "is ignored"
  CHECK(CU(cuMemAdvise_v2)(managed, 4097, CU_MEM_ADVISE_SET_READ_MOSTLY, device) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAdvise_v2)(plain, 64, CU_MEM_ADVISE_SET_READ_MOSTLY, device) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAdvise_v2)(managed, 4096, CUmem_advise(99), device) == CUDA_ERROR_INVALID_VALUE);

  OK(CU(cuMemPrefetchAsync_v2)(managed, 4096, device, 0, stream));
  OK(CU(cuMemPrefetchAsync)(managed + 8, 16, CU_DEVICE_CPU, stream));
  CHECK(CU(cuMemPrefetchAsync_v2)(managed, 4096, device, 1, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemPrefetchAsync_v2)(plain, 64, device, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemPrefetchAsync)(managed, 4096, 7, stream) == CUDA_ERROR_INVALID_DEVICE);

  OK(CU(cuStreamAttachMemAsync)(stream, managed, 0, CU_MEM_ATTACH_SINGLE));
  OK(CU(cuStreamAttachMemAsync)(stream, managed, 4096, CU_MEM_ATTACH_GLOBAL));
  CHECK(CU(cuStreamAttachMemAsync)(nullptr, managed, 0, CU_MEM_ATTACH_SINGLE) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamAttachMemAsync)(stream, managed, 100, CU_MEM_ATTACH_GLOBAL) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamAttachMemAsync)(stream, plain, 0, CU_MEM_ATTACH_GLOBAL) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemFree_v2)(managed));
  OK(CU(cuMemFree_v2)(plain));
}

TEST_CASE("There are no peers, and copies between contexts of the device are copies") {
  Session session;
  CUcontext other = MADE(cuCtxCreate_v2, 0, 0);
  MADE(cuCtxPopCurrent_v2);
  CHECK(CU(cuCtxEnablePeerAccess)(other, 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  CHECK(CU(cuCtxEnablePeerAccess)(other, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuCtxEnablePeerAccess)(session.context, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxDisablePeerAccess)(other) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  int value = 0;
  CHECK(CU(cuDeviceGetP2PAttribute)(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0) ==
        CUDA_ERROR_INVALID_DEVICE);
  CHECK(CU(cuDeviceGetP2PAttribute)(nullptr, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr a = upload(std::vector<uint32_t>{1, 2}), b = upload(std::vector<uint32_t>{8, 9});
  OK(CU(cuMemcpyPeer)(b, session.context, a, other, 4));
  OK(CU(cuMemcpyPeerAsync)(b + 4, other, a, session.context, 4, nullptr));
  CHECK(download<uint32_t>(b, 2) == std::vector<uint32_t>{1, 1});
  OK(CU(cuCtxDestroy_v2)(other));
  CHECK(CU(cuMemcpyPeer)(b, session.context, a, other, 4) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxEnablePeerAccess)(other, 0) == CUDA_ERROR_INVALID_CONTEXT);
  OK(CU(cuMemFree_v2)(a));
  OK(CU(cuMemFree_v2)(b));
}
