// The compiler: keys, which NVRTC is opened and when, then real compilations (no GPU needed).
#include "base/architectures.h"
#include "jit/compiler.h"
#include "jit/nvrtc.h"
#include "support.h"
#include "support/temporary_folder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <dlfcn.h>
#include <filesystem>

using namespace cugrt;
using namespace cugrt::jit;
using cugrt::test::must;
using cugrt::test::refused;
namespace fs = std::filesystem;

namespace {

bool nvrtc_is_loaded() {
  for (const char *name : {"libnvrtc.so.13", "libnvrtc.so.12"})
    if (void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {
      dlclose(handle);
      return true;
    }
  return false;
}

CompileRequest add_kernel(int constant) {
  return request("add", "extern \"C\" __global__ void add(int *p) { *p += " +
                            std::to_string(constant) + "; }\n");
}

CompilerConfig with_cache(const std::string &folder) {
  CompilerConfig config;
  config.cache.folder = folder;
  return config;
}

} // namespace

// ---- keys

TEST_CASE("a key depends on what changes the output, and on nothing else") {
  CompileRequest base = add_kernel(1);
  auto differs = [&](auto change) {
    CompileRequest other = base;
    change(other);
    return key_of(other) != key_of(base);
  };
  CHECK(differs([](auto &r) { r.source += " "; }));
  CHECK(differs([](auto &r) { r.options = {"-DN=1"}; }));
  CHECK(differs([](auto &r) { r.kind = OutputKind::cubin; }));
  CHECK(differs([](auto &r) { r.architecture = "sm_80"; }));
  CHECK_FALSE(differs([](auto &r) { r.architecture = "compute_90"; })); // the same PTX
  CHECK_FALSE(differs([](auto &r) { r.name = "other"; }));
  CHECK_FALSE(differs([](auto &r) { r.file = "/somewhere/else.cu"; }));
  base.options = {"-lineinfo"};
  CHECK(differs([](auto &r) { r.file = "/somewhere/else.cu"; }));
  CHECK(differs([](auto &r) { r.first_line = 2; }));
  // Options are separate words.
  base.options = {"-DA", "B"};
  CHECK(differs([](auto &r) { r.options = {"-DAB"}; }));
}

// ---- NVRTC. The next case must come before anything that loads NVRTC into this process.

TEST_CASE("a hit opens no compiler") {
  REQUIRE_FALSE(nvrtc_is_loaded());
  TemporaryFolder folder;
  CHECK(in_child([&] {
    Compiler compiler(with_cache(folder.path));
    auto result = compiler.compile(add_kernel(1));
    return result.ok() && !result->from_cache && compiler.report().opened && nvrtc_is_loaded();
  }));
  Compiler compiler(with_cache(folder.path));
  CompileResult result = must(compiler.compile(add_kernel(1)));
  CHECK(result.from_cache);
  CHECK(contains(result.bytes, ".entry add"));
  CHECK_FALSE(nvrtc_is_loaded());
  CompilerReport report = compiler.report();
  CHECK_FALSE(report.opened);
  CHECK(report.found);
  CHECK(report.major >= 12); // remembered
  CHECK_FALSE(report.library.empty());
}

TEST_CASE("hits from the read-only folder alone open no compiler either, and nothing is told") {
  REQUIRE_FALSE(nvrtc_is_loaded());
  TemporaryFolder folder;
  CHECK(in_child([&] {
    Compiler compiler(with_cache(folder.path + "/factory"));
    return compiler.compile(add_kernel(1)).ok() &&
           compiler.cache().export_to(folder.path + "/image").ok();
  }));
  overwrite(folder.path + "/file", "");
  CompilerConfig config = with_cache(folder.path + "/file/cache"); // cannot be made
  config.cache.read_only_folder = folder.path + "/image";
  size_t messages = 0;
  auto count = [](void *user, LogLevel, const char *) { ++*static_cast<size_t *>(user); };
  Compiler compiler(config, {count, &messages, LogLevel::warning});
  CHECK(must(compiler.compile(add_kernel(1))).from_cache);
  CHECK_FALSE(nvrtc_is_loaded());
  CHECK(compiler.report().major >= 12);
  CHECK(messages == 0);
}

TEST_CASE("a compiler that has changed is asked again") {
  REQUIRE_FALSE(nvrtc_is_loaded());
  TemporaryFolder folder;
  CHECK(in_child([&] { return Compiler(with_cache(folder.path)).compile(add_kernel(1)).ok(); }));
  for (const auto &item : fs::directory_iterator(folder.path))
    if (item.path().extension() == ".txt") { // as if the library's time were another
      std::string note = read(item.path());
      note.insert(note.find('.', note.find("libnvrtc.so") + 14) + 1, "1");
      overwrite(item.path(), note);
    }
  CHECK(in_child([&] {
    Compiler compiler(with_cache(folder.path));
    auto result = compiler.compile(add_kernel(1));
    return result.ok() && result->from_cache && compiler.report().opened;
  }));
}

TEST_CASE("without a compiler a matching key is a hit and a miss says what to do") {
  REQUIRE_FALSE(nvrtc_is_loaded());
  TemporaryFolder folder;
  CHECK(in_child([&] { return Compiler(with_cache(folder.path)).compile(add_kernel(1)).ok(); }));
  CompilerConfig config = with_cache(folder.path);
  SECTION("none is wanted") { config.use = CompilerConfig::Use::never; }
  SECTION("none is where it should be") { config.nvrtc_path = "/nonexistent"; }
  Compiler compiler(config);
  CHECK(must(compiler.compile(add_kernel(1))).from_cache);
  const Status miss = refused(compiler.compile(add_kernel(2)));
  CHECK(miss.code() == Code::not_found);
  CHECK(contains(miss.message(), "kernel 'add'"));
  CHECK_FALSE(compiler.report().found);
  CHECK_FALSE(compiler.report().problem.empty());
}

TEST_CASE("NVRTC is found where the environment says, or the error names the place") {
  NvrtcLocation usual = must(find_nvrtc(""));
  CHECK(usual.is_file());
  CHECK(fs::exists(usual.include_folder + "/cuda_fp16.h"));
  CHECK_FALSE(location_stamp(usual).empty());
  Environment nvrtc("CUGRT_NVRTC", usual.library.c_str());
  CHECK(must(find_nvrtc("")).found_by == "CUGRT_NVRTC");
  nvrtc.set("/nonexistent");
  CHECK(contains(refused(find_nvrtc("")).message(), "'/nonexistent' (CUGRT_NVRTC)"));
  CHECK(must(find_nvrtc(usual.library)).found_by == "the given path");
  TemporaryFolder folder;
  overwrite(folder.path + "/libnvrtc.so.13", "not a library");
  NvrtcLocation broken = must(find_nvrtc(folder.path));
  CHECK(open_nvrtc(broken).status().code() == Code::not_found);
}

TEST_CASE("an NVRTC for other processors is passed over, or the error says what it is") {
  REQUIRE_FALSE(nvrtc_is_loaded());
  NvrtcLocation usual = must(find_nvrtc(""));
  std::string library(4096, 0);
  REQUIRE(std::ifstream(usual.library, std::ios::binary).read(library.data(), 4096));
  library[18] = library[19] = '\x7f'; // e_machine: no machine has this number
  TemporaryFolder folder;
  for (const char *below : {"/lib64", "/lib"})
    fs::create_directory(folder.path + below);
  const std::string foreign = folder.path + "/lib64/libnvrtc.so.13";
  overwrite(foreign, library);
  Environment home("CUDA_HOME", folder.path.c_str()), named("CUGRT_NVRTC", "");
  CHECK(must(find_nvrtc("")).library != foreign);
  CHECK(find_nvrtc(folder.path).status().code() == Code::not_found);
  fs::create_symlink(usual.library, folder.path + "/lib/libnvrtc.so.13");
  CHECK(must(find_nvrtc("")).library == folder.path + "/lib/libnvrtc.so.13");
  CHECK(must(find_nvrtc("")).found_by == "CUDA_HOME");
  CHECK(contains(open_nvrtc(must(find_nvrtc(foreign))).status().message(),
                 "built for another kind of processor"));
}

TEST_CASE("an NVRTC of a major version that the driver loads comes first, wherever it is") {
  REQUIRE_FALSE(nvrtc_is_loaded());
  TemporaryFolder newer, older, both;
  fs::create_directory(newer.path + "/lib64");
  const std::string thirteen = newer.path + "/lib64/libnvrtc.so.13";
  const std::string twelve = older.path + "/libnvrtc.so.12";
  overwrite(thirteen, "");
  overwrite(twelve, "");
  overwrite(both.path + "/libnvrtc.so.12", "");
  overwrite(both.path + "/libnvrtc.so.13", "");
  Environment home("CUDA_HOME", newer.path.c_str()), path("CUDA_PATH", older.path.c_str()),
      named("CUGRT_NVRTC", "");
  CHECK(must(find_nvrtc("")).library == thirteen);
  CHECK(must(find_nvrtc("", 13)).library == thirteen);
  CHECK(must(find_nvrtc("", 12)).library == twelve);
  CHECK(must(find_nvrtc("", 12)).major == 12);
  CHECK(must(find_nvrtc(both.path, 12)).library == both.path + "/libnvrtc.so.12");
  CHECK(must(find_nvrtc(both.path, 13)).library == both.path + "/libnvrtc.so.13");
  // What is named is taken, and better one that is too new than none.
  CHECK(must(find_nvrtc(thirteen, 12)).library == thirteen);
  CHECK(must(find_nvrtc(newer.path, 12)).library == thirteen);
  CHECK(must(find_nvrtc(newer.path, 12)).major == 13);
  // A link says by what it leads to which version it is.
  fs::create_symlink(thirteen, both.path + "/libnvrtc.so");
  CHECK(must(find_nvrtc(both.path + "/libnvrtc.so")).major == 13);
}

TEST_CASE("the builtins beside NVRTC are found where no loader looks, as in a wheel's folder") {
  auto nvrtc = must(open_nvrtc(must(find_nvrtc(""))));
  std::string name =
      "libnvrtc-builtins.so." + std::to_string(nvrtc->major) + "." + std::to_string(nvrtc->minor);
  std::string folder = fs::path(nvrtc->location.library).parent_path();
  REQUIRE(fs::exists(folder + "/" + name));
  void *opened = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD); // before anything was compiled
  REQUIRE(opened);
  dlclose(opened);
}

TEST_CASE("PTX and cubins are compiled without a GPU") {
  Compiler compiler(without_disk());
  CompileResult ptx = must(compiler.compile(add_kernel(1)));
  CHECK(contains(ptx.bytes, ".entry add"));
  CHECK(contains(ptx.bytes, ".target sm_90"));
  CHECK(ptx.bytes.back() != '\0');
  CompileRequest cubin = add_kernel(1);
  cubin.kind = OutputKind::cubin;
  CompileResult code = must(compiler.compile(cubin));
  CHECK(code.bytes.substr(0, 4) == "\x7f"
                                   "ELF");
  CHECK(must(compiler.compile(cubin)).from_cache); // in memory
  CHECK(code.ptx.empty());
  // One compilation gives both; either is then there for a request of its own.
  Compiler other(without_disk());
  cubin.with_ptx = true;
  for (bool again : {false, true}) {
    CompileResult both = must(other.compile(cubin));
    CHECK(both.from_cache == again);
    CHECK(both.bytes == code.bytes);
    CHECK(both.ptx == ptx.bytes);
  }
  CHECK(must(other.compile(add_kernel(1))).from_cache);
  CHECK_FALSE(must(compiler.compile_all(std::array{add_kernel(2), cubin}))[1].ptx.empty());
  auto architectures = must(compiler.architectures());
  CHECK(std::find(architectures.begin(), architectures.end(), 90) != architectures.end());
  CHECK(must(compiler.identity()).major >= 12);
}

TEST_CASE("a device that the table does not have gets PTX of the newest architecture below") {
  CHECK(jit::architecture_for(90).value() == "sm_90");
  CHECK(jit::architecture_for(99).value() == "compute_90");
  CHECK(jit::architecture_for(102).value() == "compute_100"); // 101 is unknown to NVRTC 13
  CHECK(jit::architecture_for(105).value() == "compute_103");
  CHECK(jit::architecture_for(107).value() == "sm_107");
  CHECK(jit::architecture_for(990).value() == "compute_121");
  CHECK(jit::architecture_for(70).status().code() == Code::unsupported);
}

TEST_CASE("a device that the compiler does not know gets PTX of the newest below that it knows") {
  const std::vector<int> of_12_2 = {75, 80, 86, 87, 89, 90}, of_13_0 = {75, 90, 100, 103, 110, 121};
  CHECK(jit::architecture_for(90, of_12_2).value() == "sm_90");
  CHECK(jit::architecture_for(88, of_12_2).value() == "compute_87");
  CHECK(jit::architecture_for(120, of_12_2).value() == "compute_90");
  CHECK(jit::architecture_for(107, of_13_0).value() == "compute_103");
  CHECK(jit::architecture_for(101, of_13_0).value() == "compute_100");
  CHECK(jit::architecture_for(990, of_13_0).value() == "compute_121");
  CHECK(jit::architecture_for(75, std::vector<int>{80}).status().code() == Code::unsupported);
  CHECK_FALSE(jit::must_ask_compiler(90));
  for (int device : {88, 95, 100, 107, 990})
    CHECK(jit::must_ask_compiler(device));
}

TEST_CASE("what NVRTC compiles for is remembered, so that it need not be opened to be asked") {
  TemporaryFolder folder;
  const auto known = must(Compiler(with_cache(folder.path)).architectures());
  CHECK(std::is_sorted(known.begin(), known.end()));
  Compiler second(with_cache(folder.path));
  CHECK(must(second.architectures()) == known);
  CHECK_FALSE(second.report().opened);
  CHECK(second.report().architectures == known);
  for (const auto &item : fs::directory_iterator(folder.path))
    if (item.path().extension() == ".txt") { // as those who had no list wrote it
      std::string note = read(item.path());
      overwrite(item.path(), note.substr(0, note.find(" architectures")) + "\n");
    }
  Compiler third(with_cache(folder.path));
  CHECK(must(third.architectures()) == known);
  CHECK(third.report().opened);
}

TEST_CASE("kernels may include the half-precision headers") {
  Compiler compiler(without_disk());
  CompileResult result = must(compiler.compile(
      request("scale", "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
                       "extern \"C\" __global__ void scale(__half *p, __nv_bfloat16 *q) {\n"
                       "  *p = __float2half(__bfloat162float(*q)); }\n")));
  CHECK(contains(result.bytes, ".entry scale"));
}

TEST_CASE("an error names the kernel, the real file and line, and shows the source") {
  Compiler compiler(without_disk());
  CompileRequest broken =
      request("relu", "extern \"C\" __global__ void relu(float *p) {\n  *p = undefined_name;\n}\n");
  broken.file = "kernels/relu.cu";
  broken.first_line = 40;
  const Status result = refused(compiler.compile(broken));
  const Status &status = result;
  CHECK(status.code() == Code::compile_error);
  CHECK(contains(status.message(), "kernel 'relu' does not compile for compute_90"));
  CHECK(contains(status.message(), "kernels/relu.cu(41): error"));
  CHECK(contains(status.message(), "*p = undefined_name;"));
  CHECK(status.location() == "kernels/relu.cu:41");
}

TEST_CASE("an NVRTC without its headers says which packages bring them", "[two_nvrtc]") {
  TemporaryFolder folder;
  NvrtcLocation usual = must(find_nvrtc(""));
  fs::create_directories(folder.path + "/a/lib");
  // A link into the toolkit would lead to its headers.
  fs::copy_file(usual.library, folder.path + "/a/lib/libnvrtc.so.13");
  for (const auto &item : fs::directory_iterator(fs::path(usual.library).parent_path()))
    if (item.path().filename().string().find("libnvrtc-builtins.so") == 0)
      fs::create_symlink(item.path(), fs::path(folder.path) / "a/lib" / item.path().filename());
  CompilerConfig config = without_disk();
  config.nvrtc_path = folder.path + "/a";
  Compiler compiler(config);
  const Status result = refused(compiler.compile(request("k", "#include <cuda_fp16.h>\n")));
  CHECK(contains(result.message(), "nvidia-cuda-runtime"));
  CHECK(contains(result.message(), folder.path));
}

TEST_CASE("warnings of a successful compilation are kept") {
  Compiler compiler(without_disk());
  CompileResult result = must(compiler.compile(
      request("k", "extern \"C\" __global__ void k(int *p) { int never_read; *p = 1; }\n")));
  CHECK(contains(result.log, "never_read"));
}

TEST_CASE("architectures are those of a table, not whatever looks like one") {
  CompilerConfig config = without_disk();
  config.use = CompilerConfig::Use::never;
  Compiler compiler(config);
  auto code_for = [&](const std::string &architecture) {
    CompileRequest r = add_kernel(1);
    r.architecture = architecture;
    return compiler.compile(r).status().code();
  };
  // not_found: the name is good, and there is no compiler to use.
  for (const char *known :
       {"sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a", "sm_100",
        "sm_100f", "sm_103a", "sm_110", "sm_120", "compute_75", "compute_110", "compute_120f"})
    CHECK(code_for(known) == Code::not_found);
  for (const char *unknown : {"sm_70", "sm_35", "sm_99", "sm_75a", "sm_90f", "sm_90b", "sm_900",
                              "sm_90ab", "sm_90 ", "compute_10", "sm_1200", "sm_7"})
    CHECK(code_for(unknown) == Code::unsupported);
  for (const char *nonsense : {"", "sm_", "90", "SM_90", "gfx90", "sm_old", "compute_"})
    CHECK(code_for(nonsense) == Code::invalid_argument);
}

TEST_CASE("impossible requests are refused in words") {
  Compiler compiler(without_disk());
  CompileRequest r = add_kernel(1);
  r.architecture = "sm_old";
  CHECK(compiler.compile(r).status().code() == Code::invalid_argument);
  r.architecture = "compute_90";
  r.kind = OutputKind::cubin;
  CHECK(contains(compiler.compile(r).status().message(), "a cubin is for sm_90"));
  r.architecture = "sm_35";
  auto old = compiler.compile(r);
  CHECK(old.status().code() == Code::unsupported);
  CHECK(contains(old.status().message(), "sm_90"));
  r = add_kernel(1);
  r.options = {"--no-such-option"};
  auto option = compiler.compile(r);
  CHECK(option.status().code() == Code::compile_error);
  CHECK(contains(option.status().message(), "no-such-option"));
}

TEST_CASE("many kernels compile in parallel and come back in order") {
  TemporaryFolder folder;
  std::vector<CompileRequest> requests;
  for (int i = 0; i < 6; ++i)
    requests.push_back(add_kernel(100 + i));
  requests.push_back(add_kernel(100)); // equal to the first
  Compiler compiler(with_cache(folder.path));
  (void)must(compiler.compile(requests[3]));
  std::vector<size_t> done;
  CompileProgress last;
  CompileAllOptions options;
  options.threads = 3;
  options.progress = [&](const CompileProgress &progress) {
    done.push_back(progress.done);
    last = progress;
    CHECK(progress.request->name == "add");
    CHECK(progress.ok);
  };
  auto results = must(compiler.compile_all(requests, options));
  REQUIRE(results.size() == 7);
  for (size_t i = 0; i < 6; ++i)
    CHECK(contains(results[i].bytes, std::to_string(100 + i)));
  CHECK(results[6].bytes == results[0].bytes);
  CHECK(results[3].from_cache);
  CHECK(results[6].from_cache);
  CHECK_FALSE(results[0].from_cache);
  CHECK(done == std::vector<size_t>{1, 2, 3, 4, 5, 6, 7});
  CHECK(last.total == 7);
  CHECK(last.cached == 2);
  // One thread gives the same bytes.
  Compiler other(without_disk());
  options = {};
  options.threads = 1;
  auto again = must(other.compile_all(requests, options));
  for (size_t i = 0; i < results.size(); ++i)
    CHECK(again[i].bytes == results[i].bytes);
  CHECK(must(other.compile_all({}, options)).empty());
}

TEST_CASE("the kernel with the longest source is begun first, and results keep their order") {
  Compiler compiler(without_disk());
  std::vector<CompileRequest> requests = {add_kernel(1), add_kernel(22), add_kernel(333),
                                          add_kernel(44), add_kernel(5)};
  std::vector<std::ptrdiff_t> begun;
  CompileAllOptions options;
  options.threads = 1;
  options.progress = [&](const CompileProgress &progress) {
    begun.push_back(progress.request - requests.data());
  };
  auto results = must(compiler.compile_all(requests, options));
  CHECK(begun == std::vector<std::ptrdiff_t>{2, 1, 3, 0, 4});
  REQUIRE(results.size() == 5);
  CHECK(contains(results[2].bytes, "333"));
  CHECK(contains(results[3].bytes, "44"));
}

TEST_CASE("every kernel that fails is named, in order") {
  Compiler compiler(without_disk());
  std::vector<CompileRequest> requests = {add_kernel(1), request("second", "nonsense"),
                                          add_kernel(2), request("fourth", "more nonsense")};
  requests[1].file = "second.cu";
  CompileAllOptions options;
  options.threads = 2;
  const Status results = refused(compiler.compile_all(requests, options));
  const std::string &message = results.message();
  CHECK(contains(message, "2 kernels do not compile"));
  CHECK(message.find("'second'") < message.find("'fourth'"));
  CHECK(contains(message, "second.cu:1"));
}

TEST_CASE("a cancelled batch ends as cancelled") {
  Compiler compiler(without_disk());
  std::atomic<bool> cancel{false};
  std::vector<CompileRequest> requests;
  for (int i = 0; i < 50; ++i)
    requests.push_back(add_kernel(200 + i));
  CompileAllOptions options;
  options.threads = 2;
  options.cancel = &cancel;
  size_t told = 0;
  options.progress = [&](const CompileProgress &) {
    ++told;
    cancel = true;
  };
  const Status results = refused(compiler.compile_all(requests, options));
  CHECK(results.code() == Code::cancelled);
  CHECK(told == 1); // what was compiling then is not done
}

TEST_CASE("an exception from the progress callback reaches the caller") {
  Compiler compiler(without_disk());
  std::vector<CompileRequest> requests = {add_kernel(1), add_kernel(2), add_kernel(3)};
  CompileAllOptions options;
  options.threads = 2;
  options.progress = [](const CompileProgress &) { throw std::bad_alloc(); };
  CHECK_THROWS_AS(compiler.compile_all(requests, options), std::bad_alloc);
}
