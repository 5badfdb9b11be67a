// How many registers a kernel's threads are said to have: as many as PTX names, within what the
// kernel states, or else what its code was loaded or linked with.
#include "emulator/unit/driver/session.h"

namespace {

constexpr int kNamed = 200;

std::string kernel_text(const std::string &name, const std::string &directives) {
  std::string text = ".visible .entry " + name + "() " + directives + " {\n.reg .b32 %r<" +
                     std::to_string(kNamed) + ">;\nmov.u32 %r0, %tid.x;\n";
  for (int i = 1; i < kNamed; ++i)
    text += "add.u32 %r" + std::to_string(i) + ", %r" + std::to_string(i - 1) + ", 1;\n";
  return text + "ret;\n}\n";
}

std::string text() {
  return ".version 7.0\n.target sm_75\n.address_size 64\n" + kernel_text("plain", "") +
         kernel_text("few", ".maxnreg 40") + kernel_text("wide", ".maxntid 1000") +
         kernel_text("shared_out", ".maxntid 128, 2 .minnctapersm 8") +
         kernel_text("exact", ".reqntid 512");
}

int registers(CUmodule module, const char *name) {
  int value = MADE(cuFuncGetAttribute, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel(module, name));
  return value;
}

struct Most {
  explicit Most(unsigned registers) : value(reinterpret_cast<void *>(uintptr_t(registers))) {}
  CUjit_option option = CU_JIT_MAX_REGISTERS;
  void *value;
};

} // namespace

TEST_CASE("A kernel has as many registers as its directives leave it") {
  Session session;
  CUmodule module = MADE(cuModuleLoadData, text().c_str());
  CHECK(registers(module, "plain") >= kNamed);
  CHECK(registers(module, "few") == 40);
  // 65,536 of a multiprocessor, in eights: for 32 warps, 8 times 8 warps, 16 warps.
  CHECK(registers(module, "wide") == 64);
  CHECK(registers(module, "shared_out") == 32);
  CHECK(registers(module, "exact") == 128);
}

TEST_CASE(
    "CU_JIT_MAX_REGISTERS is for kernels that state nothing, in modules, libraries and links") {
  Session session;
  const std::string ptx = text();
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUlinkState state = nullptr;
  Most most(57);
  SECTION("a module") {
    OK(CU(cuModuleLoadDataEx)(&module, ptx.c_str(), 1, &most.option, &most.value));
  }
  SECTION("a library") {
    OK(CU(cuLibraryLoadData)(&library, ptx.c_str(), &most.option, &most.value, 1, nullptr, nullptr,
                             0));
    OK(CU(cuLibraryGetModule)(&module, library));
  }
  SECTION("a link") {
    void *image = nullptr;
    OK(CU(cuLinkCreate_v2)(1, &most.option, &most.value, &state));
    OK(CU(cuLinkAddData_v2)(state, CU_JIT_INPUT_PTX, const_cast<char *>(ptx.c_str()),
                            ptx.size() + 1, nullptr, 0, nullptr, nullptr));
    OK(CU(cuLinkComplete)(state, &image, nullptr));
    SECTION("as it is") { OK(CU(cuModuleLoadData)(&module, image)); }
    SECTION("loaded with the same again") {
      OK(CU(cuModuleLoadDataEx)(&module, image, 1, &most.option, &most.value));
    }
    OK(CU(cuLinkDestroy)(state));
  }
  CHECK(registers(module, "plain") == 57);
  CHECK(registers(module, "few") == 40);
  CHECK(registers(module, "wide") == 64);
  if (library)
    OK(CU(cuLibraryUnload)(library));
}

TEST_CASE("Registers that only PTX names leave room for a block: the launch tells") {
  Session session;
  CUmodule module = MADE(cuModuleLoadData, text().c_str());
  CUfunction plain = kernel(module, "plain");
  int blocks = MADE(cuOccupancyMaxActiveBlocksPerMultiprocessor, plain, 1024, 0);
  CHECK(blocks == 1);
  OK(CU(cuLaunchCooperativeKernel)(plain, 1, 1, 1, 1024, 1, 1, 0, nullptr, nullptr));
  OK(CU(cuCtxSynchronize)());
}

TEST_CASE("A library that cannot be loaded says why in the log") {
  Session session;
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(uintptr_t(sizeof log))};
  CUlibrary library = nullptr;
  CHECK(CU(cuLibraryLoadData)(&library, ".version 7.0\n.target sm_75\nnonsense", options, values, 2,
                              nullptr, nullptr, 0) == CUDA_ERROR_INVALID_PTX);
  CHECK(std::string(log).find("nonsense") != std::string::npos);
  options[0] = CU_JIT_NUM_OPTIONS;
  CHECK(CU(cuLibraryLoadData)(&library, text().c_str(), options, values, 2, nullptr, nullptr, 0) ==
        CUDA_ERROR_INVALID_VALUE);
}
