// cuLink*: PTX inputs that refer to one another become one image.
#include "emulator/unit/driver/session.h"

#include <cstring>
#include <fstream>
#include <unistd.h>

namespace {

// Defines what the kernel below needs; keeps a helper and a table of the same names to itself.
constexpr char kCallee[] = PTX_HEAD R"(.visible .global .align 4 .u32 weight = 100;
.global .align 4 .u32 table[2] = {7, 8};
.func (.param .b32 result) helper(.param .b32 x)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  ld.param.u32 %r1, [x];
  mov.u64 %rd1, table;
  ld.global.u32 %r2, [%rd1+4];
  add.u32 %r1, %r1, %r2;
  st.param.b32 [result], %r1;
  ret;
}
.visible .func (.param .b32 result) outer(.param .b32 x)
{
  .reg .b32 %r<2>;
  ld.param.u32 %r1, [x];
  {
  .param .b32 p0;
  .param .b32 r0;
  st.param.b32 [p0], %r1;
  call.uni (r0), helper, (p0);
  ld.param.b32 %r1, [r0];
  }
  st.param.b32 [result], %r1;
  ret;
}
.weak .func (.param .b32 result) choice() { st.param.b32 [result], 1; ret; }
)";

// *out = outer(helper(weight)) + choice(): its own helper doubles, the other one adds table[1], 8.
constexpr char kCaller[] = R"(
.version 6.5
.target sm_75
.address_size 64
.extern .global .align 4 .u32 weight;
.extern .func (.param .b32 result) outer(.param .b32 x);
.weak .func (.param .b32 result) choice() { st.param.b32 [result], 2; ret; }
.global .align 8 .u64 table = weight;
.func (.param .b32 result) helper(.param .b32 x)
{
  .reg .b32 %r<2>;
  ld.param.u32 %r1, [x];
  shl.b32 %r1, %r1, 1;
  st.param.b32 [result], %r1;
  ret;
}
.visible .entry run(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u64 %rd2, table;
  ld.global.u64 %rd3, [%rd2];
  ld.global.u32 %r1, [%rd3];
  {
  .param .b32 p0;
  .param .b32 r0;
  st.param.b32 [p0], %r1;
  call.uni (r0), helper, (p0);
  ld.param.b32 %r1, [r0];
  st.param.b32 [p0], %r1;
  call.uni (r0), outer, (p0);
  ld.param.b32 %r1, [r0];
  }
  {
  .param .b32 r0;
  call.uni (r0), choice, ();
  ld.param.b32 %r2, [r0];
  }
  add.u32 %r1, %r1, %r2;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

// *out = outer(helper(5)) through a table of the two: 5 is doubled, then the callee adds 8.
constexpr char kTableCaller[] = R"(
.version 6.5
.target sm_75
.address_size 64
.extern .func (.param .b32 result) outer(.param .b32 x);
.func (.param .b32 result) helper(.param .b32 x)
{
  .reg .b32 %r<2>;
  ld.param.u32 %r1, [x];
  shl.b32 %r1, %r1, 1;
  st.param.b32 [result], %r1;
  ret;
}
.global .align 8 .u64 calls[2] = {helper, outer};
.visible .entry run(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, 5;
  ld.global.u64 %rd2, [calls];
  ld.global.u64 %rd3, [calls+8];
  {
  .param .b32 p0;
  .param .b32 r0;
  proto: .callprototype (.param .b32 _) _ (.param .b32 _);
  st.param.b32 [p0], %r1;
  call (r0), %rd2, (p0), proto;
  ld.param.b32 %r1, [r0];
  st.param.b32 [p0], %r1;
  call (r0), %rd3, (p0), proto;
  ld.param.b32 %r1, [r0];
  }
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

/// A link in progress, with an error log.
struct Link {
  Link() {
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    values[0] = text;
    values[1] = reinterpret_cast<void *>(sizeof text);
    OK(CU(cuLinkCreate_v2)(2, options, values, &state));
  }
  ~Link() {
    if (state)
      CHECK(CU(cuLinkDestroy)(state) == CUDA_SUCCESS);
  }
  Link(const Link &) = delete;
  Link &operator=(const Link &) = delete;

  CUresult add(const std::string &ptx, const char *name = nullptr) {
    return CU(cuLinkAddData_v2)(state, CU_JIT_INPUT_PTX, const_cast<char *>(ptx.c_str()),
                                ptx.size() + 1, name, 0, nullptr, nullptr);
  }
  CUresult complete() { return CU(cuLinkComplete)(state, &image, &bytes); }
  bool log_has(const std::string &words) const {
    return std::string(text).find(words) != std::string::npos;
  }

  CUlinkState state = nullptr;
  char text[400] = "stale";
  void *values[2];
  void *image = nullptr;
  size_t bytes = 0;
};

uint32_t run(CUmodule module) {
  CUdeviceptr out = upload(std::vector<uint32_t>{0});
  launch_kernel(kernel(module, "run"), 1, 1, nullptr, out);
  uint32_t result = download<uint32_t>(out, 1)[0];
  OK(CU(cuMemFree_v2)(out));
  return result;
}

} // namespace

TEST_CASE("Inputs of a link use each other's functions and variables, and keep their own") {
  Session session;
  CUmodule module = nullptr;
  {
    Link link;
    CHECK(link.text[0] == 0);
    SECTION("the caller first") {
      OK(link.add(kCaller));
      OK(link.add(kCallee));
    }
    SECTION("the callee first") {
      OK(link.add(kCallee));
      OK(link.add(kCaller));
    }
    OK(link.complete());
    REQUIRE(link.bytes > 0);
    void *again = nullptr;
    OK(CU(cuLinkComplete)(link.state, &again, nullptr));
    CHECK(again == link.image);
    // A copy of the image is as good as the image, and outlives the link.
    std::vector<char> copy(static_cast<char *>(link.image),
                           static_cast<char *>(link.image) + link.bytes);
    OK(CU(cuModuleLoadData)(&module, copy.data()));
  }
  // weight 100, doubled by its own helper, 8 by the other's, and a weak choice of 1 or 2.
  uint32_t result = run(module);
  CHECK((result == 209 || result == 210));
  CUdeviceptr weight = 0;
  size_t bytes = 0;
  OK(CU(cuModuleGetGlobal_v2)(&weight, &bytes, module, "weight"));
  CHECK(bytes == 4);
  CHECK(download<uint32_t>(weight, 1)[0] == 100);
  unsigned count = MADE(cuModuleGetFunctionCount, module);
  CHECK(count == 1);
  OK(CU(cuModuleUnload)(module));
}

TEST_CASE("A table holds the addresses of an input's own functions and of another's") {
  Session session;
  Link link;
  SECTION("the caller first") {
    OK(link.add(kTableCaller));
    OK(link.add(kCallee));
  }
  SECTION("the callee first") {
    OK(link.add(kCallee));
    OK(link.add(kTableCaller));
  }
  OK(link.complete());
  Module module(link.image);
  CHECK(run(module) == 18);
}

TEST_CASE("Of weak definitions the first is taken, and a strong one before any") {
  Session session;
  Link link;
  std::string strong = ".version 7.0\n.target sm_75\n.address_size 64\n"
                       ".visible .func (.param .b32 result) choice() "
                       "{ st.param.b32 [result], 40; ret; }\n";
  uint32_t expected = 0;
  SECTION("weak only") {
    OK(link.add(kCaller)); // 2
    OK(link.add(kCallee)); // 1
    expected = 210;
  }
  SECTION("a strong one last") {
    OK(link.add(kCaller));
    OK(link.add(kCallee));
    OK(link.add(strong));
    expected = 248;
  }
  SECTION("a strong one first") {
    OK(link.add(strong));
    OK(link.add(kCallee));
    OK(link.add(kCaller));
    expected = 248;
  }
  OK(link.complete());
  Module module(link.image);
  CHECK(run(module) == expected);
}

TEST_CASE("A linked image is loaded as a library and from a file too") {
  Session session;
  Link link;
  OK(link.add(kCaller));
  OK(link.add(kCallee));
  OK(link.complete());
  CUlibrary library = MADE(cuLibraryLoadData, link.image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  CUmodule module = MADE(cuLibraryGetModule, library);
  CHECK(run(module) == 210);
  OK(CU(cuLibraryUnload)(library));

  char path[] = "/tmp/cugrt-link-XXXXXX";
  int file = mkstemp(path);
  REQUIRE(file >= 0);
  auto write_part = [&](size_t bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(static_cast<char *>(link.image), std::streamsize(bytes));
  };
  write_part(link.bytes);
  OK(CU(cuLibraryLoadFromFile)(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(CU(cuLibraryUnload)(library));
  OK(CU(cuModuleLoad)(&module, path));
  CHECK(run(module) == 210);
  OK(CU(cuModuleUnload)(module));
  // Cut short anywhere it is refused, whatever it says of its own length.
  for (size_t bytes : {size_t(8), size_t(16), size_t(40), link.bytes / 2, link.bytes - 1}) {
    write_part(bytes);
    CHECK(CU(cuModuleLoad)(&module, path) == CUDA_ERROR_INVALID_PTX);
  }
  unlink(path);
  close(file);
  CHECK(CU(cuLibraryLoadFromFile)(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0) ==
        CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_CASE("The first forms of the calls link as well") {
  Session session;
  char path[] = "/tmp/cugrt-input-XXXXXX";
  int file = mkstemp(path);
  REQUIRE(file >= 0);
  std::ofstream(path) << kCallee;
  CUlinkState state = ASKED(cuLinkCreate, 0, nullptr, nullptr);
  OK(CU(cuLinkAddFile)(state, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr));
  OK(CU(cuLinkAddData)(state, CU_JIT_INPUT_PTX, const_cast<char *>(kCaller), sizeof kCaller,
                       nullptr, 0, nullptr, nullptr));
  void *image = nullptr;
  OK(CU(cuLinkComplete)(state, &image, nullptr));
  CUmodule module = MADE(cuModuleLoadData, image);
  CHECK(run(module) == 209);
  OK(CU(cuLinkDestroy)(state));
  OK(CU(cuModuleUnload)(module));
  close(file);
  unlink(path);
}

TEST_CASE("An input may declare a result that the definition in another does not give") {
  Session session;
  Link link;
  // *out = 9 by the callee.
  OK(link.add(PTX_HEAD R"(.visible .func put(.param .b64 out)
{
  .reg .b64 %rd;
  ld.param.b64 %rd, [out];
  st.global.u32 [%rd], 9;
  ret;
}
)",
              "callee.ptx"));
  const char *caller = PTX_HEAD R"(.extern .func (.param .b64 result) put(.param .b64 out);
.visible .entry run(.param .u64 out)
{
  .reg .b64 %rd<3>;
  .param .b64 p0;
  .param .b64 r0;
  ld.param.u64 %rd1, [out];
  st.param.b64 [p0], %rd1;
  call.uni (r0), put, (p0);
  ld.param.b64 %rd2, [r0];
  ret;
}
)";
  OK(link.add(caller, "caller.ptx"));
  OK(link.complete());
  CUmodule module = MADE(cuModuleLoadData, link.image);
  CHECK(run(module) == 9);
}

TEST_CASE("What no input defines, or two do, fails the link by name") {
  Session session;
  Link link;
  SECTION("nowhere") {
    OK(link.add(kCaller, "caller.ptx"));
    CHECK(link.complete() == CUDA_ERROR_UNKNOWN);
    CHECK(link.log_has("undefined reference to '"));
    CHECK(link.log_has("caller.ptx"));
  }
  SECTION("twice") {
    OK(link.add(kCallee, "a.ptx"));
    OK(link.add(kCallee, "b.ptx"));
    CHECK(link.complete() == CUDA_ERROR_UNKNOWN);
    CHECK(link.log_has("multiple definition of '"));
    CHECK(link.log_has("b.ptx"));
  }
  CHECK(reinterpret_cast<size_t>(link.values[1]) == std::strlen(link.text));
}

TEST_CASE("Inputs that are no PTX are refused and told in the log") {
  Session session;
  Link link;
  CHECK(link.add("this is no PTX", "odd.ptx") == CUDA_ERROR_INVALID_PTX);
  CHECK(link.log_has("odd.ptx"));
  char elf[] = "\x7f"
               "ELF and more";
  CHECK(CU(cuLinkAddData_v2)(link.state, CU_JIT_INPUT_CUBIN, elf, sizeof elf, "x.cubin", 0, nullptr,
                             nullptr) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(link.log_has("x.cubin"));
  CHECK(CU(cuLinkAddData_v2)(link.state, CU_JIT_NUM_INPUT_TYPES, elf, sizeof elf, nullptr, 0,
                             nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuLinkAddFile_v2)(link.state, CU_JIT_INPUT_PTX, "/nonexistent.ptx", 0, nullptr,
                             nullptr) == CUDA_ERROR_FILE_NOT_FOUND);
  // "does not accept any of CU_JIT_WALL_TIME, [...] or CU_JIT_TARGET"
  CUjit_option option = CU_JIT_TARGET;
  void *value = reinterpret_cast<void *>(75);
  CHECK(CU(cuLinkAddData_v2)(link.state, CU_JIT_INPUT_PTX, const_cast<char *>(kCallee),
                             sizeof kCallee, nullptr, 1, &option,
                             &value) == CUDA_ERROR_INVALID_VALUE);
  CHECK(link.complete() == CUDA_ERROR_INVALID_IMAGE); // nothing was added
}

TEST_CASE("PTX for a newer device fails the link, and nothing is added to a completed one") {
  Session session{"CUGRT_EMU_DEVICE=sm_75"};
  Link link;
  std::string newer = kCallee;
  newer.replace(newer.find("sm_75"), 5, "sm_90");
  newer.replace(newer.find("7.0"), 3, "7.8");
  OK(link.add(newer));
  CHECK(link.complete() != CUDA_SUCCESS);
  Link good;
  OK(good.add(kCallee));
  OK(good.complete());
  CHECK(good.add(kCaller) == CUDA_ERROR_INVALID_VALUE);
}
