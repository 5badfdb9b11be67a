// jit: the code cache on its own, then real compilations with NVRTC (no GPU needed).
#include "support/catch.h"

#include "jit/cache_entry.h"
#include "jit/compiler.h"
#include "jit/nvrtc.h"
#include "support/file.h"
#include "support/temporary_folder.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace cugrt;
using namespace cugrt::jit;
namespace fs = std::filesystem;

namespace {

/// Sets an environment variable for a scope; null unsets it.
struct Environment {
  std::string name;
  std::optional<std::string> before;
  Environment(const char *variable, const char *value) : name(variable) {
    if (const char *old = std::getenv(variable))
      before = old;
    set(value);
  }
  ~Environment() { set(before ? before->c_str() : nullptr); }
  void set(const char *value) { value ? setenv(name.c_str(), value, 1) : unsetenv(name.c_str()); }
};

CacheConfig disk_cache(const std::string &folder) {
  CacheConfig config;
  config.folder = folder;
  return config;
}

CacheKey key_of(int i) { return Digester().field(static_cast<uint64_t>(i)).finish(); }

const CompilerIdentity kCompiler{13, 0, key_of(1000)};

void put(CodeCache &cache, int i, std::string_view payload) {
  cache.store(key_of(i), kCompiler, OutputKind::cubin, "sm_90", payload);
}

std::string only_entry(const std::string &folder) {
  std::string found;
  for (const auto &item : fs::directory_iterator(folder))
    if (item.path().extension() == ".code") {
      REQUIRE(found.empty());
      found = item.path();
    }
  REQUIRE_FALSE(found.empty());
  return found;
}

void overwrite(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string read(const std::string &path) {
  auto text = read_file(path, 1 << 26);
  REQUIRE(text.ok());
  return *text;
}

struct Messages {
  std::vector<std::string> list;
  static void take(void *user, LogLevel, const char *message) {
    static_cast<Messages *>(user)->list.emplace_back(message);
  }
  Logger logger() { return {take, this, LogLevel::debug}; }
};

bool contains(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

bool nvrtc_is_loaded() {
  for (const char *name : {"libnvrtc.so.13", "libnvrtc.so.12"})
    if (void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {
      dlclose(handle);
      return true;
    }
  return false;
}

CompileRequest request(std::string name, std::string source, OutputKind kind = OutputKind::ptx) {
  CompileRequest r;
  r.name = std::move(name);
  r.source = std::move(source);
  r.kind = kind;
  r.architecture = "sm_90";
  return r;
}

CompileRequest add_kernel(int constant) {
  return request("add", "extern \"C\" __global__ void add(int *p) { *p += " +
                            std::to_string(constant) + "; }\n");
}

CompilerConfig with_cache(const std::string &folder) {
  CompilerConfig config;
  config.cache = disk_cache(folder);
  return config;
}

template <class T> T must(Result<T> result) {
  INFO((result.ok() ? std::string() : result.status().to_string()));
  REQUIRE(result.ok());
  return std::move(result).value();
}

/// Runs `body` in a child, whose exit status tells whether all was well: for what depends on which
/// libraries a process has loaded.
bool in_child(const std::function<bool()> &body) {
  pid_t child = ::fork();
  if (child == 0)
    ::_exit(body() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace

// ---- the cache

TEST_CASE("an entry is read back and nothing else is an entry") {
  std::string payload("\0cubin\xff", 7);
  std::string file = write_entry(key_of(1), kCompiler, OutputKind::ptx, "compute_90", payload);
  auto entry = read_entry(file);
  REQUIRE(entry);
  CHECK(entry->key == key_of(1));
  CHECK(entry->compiler == kCompiler);
  CHECK(entry->kind == OutputKind::ptx);
  CHECK(entry->architecture == "compute_90");
  CHECK(entry->payload == payload);
  for (size_t cut = 0; cut < file.size(); ++cut)
    CHECK_FALSE(read_entry(std::string_view(file).substr(0, cut)));
  CHECK_FALSE(read_entry(file + "x"));
  for (size_t at = 0; at < file.size(); ++at)
    for (char flip : {1, 64}) {
      std::string broken = file;
      broken[at] = static_cast<char>(broken[at] ^ flip);
      INFO("byte " << at);
      CHECK_FALSE(read_entry(broken));
    }
}

TEST_CASE("an entry with anything but zeros behind its architecture is no entry") {
  // The checksum is right: only the padding is not what write_entry makes of "sm_90".
  std::string file = write_entry(key_of(1), kCompiler, OutputKind::cubin,
                                 std::string_view("sm_90\0x", 7), "payload");
  CHECK_FALSE(read_entry(file));
  std::string longest(16, 'a'); // no padding at all
  auto entry = read_entry(write_entry(key_of(1), kCompiler, OutputKind::cubin, longest, "payload"));
  REQUIRE(entry);
  CHECK(entry->architecture == longest);
}

TEST_CASE("what is stored is found, by another cache on the same folder too") {
  TemporaryFolder folder;
  {
    CodeCache cache(disk_cache(folder.path + "/new/cache"));
    CHECK_FALSE(cache.find(key_of(1), kCompiler));
    put(cache, 1, "one");
    CHECK(*cache.find(key_of(1), kCompiler) == "one");
    CHECK(cache.report().memory_hits == 1);
    CHECK(cache.report().misses == 1);
  }
  CodeCache again(disk_cache(folder.path + "/new/cache/"));
  CHECK(*again.find(key_of(1), kCompiler) == "one");
  CHECK(again.report().disk_hits == 1);
  CHECK_FALSE(again.find(key_of(2), kCompiler));
  struct stat info;
  REQUIRE(::stat((folder.path + "/new/cache").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
}

TEST_CASE("the compiler is compared when one is given") {
  TemporaryFolder folder;
  CompilerIdentity newer = kCompiler, other_headers = kCompiler;
  newer.minor = 1;
  other_headers.headers = key_of(7);
  for (bool warm : {false, true}) {
    CodeCache writer(disk_cache(folder.path));
    put(writer, 1, "one");
    CodeCache cold(disk_cache(folder.path));
    CodeCache &cache = warm ? writer : cold;
    CHECK_FALSE(cache.find(key_of(1), newer));
    CHECK_FALSE(cache.find(key_of(1), other_headers));
    CHECK(*cache.find(key_of(1), std::nullopt) == "one");
    CHECK(*cache.find(key_of(1), kCompiler) == "one");
  }
}

TEST_CASE("broken, truncated and foreign files are misses and are replaced") {
  TemporaryFolder folder;
  {
    CodeCache(disk_cache(folder.path))
        .store(key_of(1), kCompiler, OutputKind::cubin, "sm_90", "one");
  }
  std::string path = only_entry(folder.path), good = read(path);
  std::string foreign = write_entry(key_of(2), kCompiler, OutputKind::cubin, "sm_90", "two");
  std::string flipped = good;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  for (const std::string &bytes :
       {std::string(), good.substr(0, 100), good.substr(0, good.size() - 1), flipped, foreign,
        std::string("not an entry"), good + good}) {
    overwrite(path, bytes);
    CodeCache cache(disk_cache(folder.path));
    CHECK_FALSE(cache.find(key_of(1), kCompiler));
    CHECK(cache.report().rejected == 1);
    put(cache, 1, "one");
    CHECK(read(path) == good);
  }
  SECTION("a folder or a link in an entry's place is a miss too") {
    fs::remove(path);
    fs::create_directory(path);
    CodeCache cache(disk_cache(folder.path));
    CHECK_FALSE(cache.find(key_of(1), kCompiler));
    fs::remove(path);
    fs::create_symlink("/nonexistent", path);
    CHECK_FALSE(cache.find(key_of(1), kCompiler));
  }
}

TEST_CASE("an entry under the name of another architecture's is a miss") {
  CompileRequest r = request("k", "source", OutputKind::cubin);
  CacheKey hopper = Compiler::key(r);
  r.architecture = "sm_80";
  CacheKey ampere = Compiler::key(r);
  REQUIRE(hopper != ampere);
  TemporaryFolder folder;
  CodeCache(disk_cache(folder.path)).store(hopper, kCompiler, OutputKind::cubin, "sm_90", "code");
  fs::copy_file(folder.path + "/" + hex(hopper) + ".code",
                folder.path + "/" + hex(ampere) + ".code");
  CodeCache cache(disk_cache(folder.path));
  CHECK_FALSE(cache.find(ampere, kCompiler));
  CHECK(cache.report().rejected == 1);
  CHECK(cache.find(hopper, kCompiler));
}

TEST_CASE("a disk that fills up ends writing with one warning, and leaves no half file") {
  TemporaryFolder folder;
  CHECK(in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN); // what a full disk answers without a signal
    rlimit limit{2000, 2000};
    Messages messages;
    CodeCache cache(disk_cache(folder.path), messages.logger());
    put(cache, 1, "fits");
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0)
      return false;
    put(cache, 2, std::string(10000, 'x'));
    put(cache, 3, "is not written any more");
    return messages.list.size() == 1 && contains(messages.list[0], folder.path) &&
           cache.report().stored == 1 && cache.report().store_failures == 1 &&
           cache.find(key_of(2), kCompiler)->size() == 10000 && // from memory
           cache.find(key_of(3), kCompiler).has_value();
  }));
  size_t files = 0;
  for (const auto &item : fs::directory_iterator(folder.path))
    files += item.is_regular_file();
  CHECK(files == 1);
  CHECK(*CodeCache(disk_cache(folder.path)).find(key_of(1), kCompiler) == "fits");
}

TEST_CASE("an exported cache serves as the read-only folder of another") {
  TemporaryFolder folder, factory;
  CodeCache cache(disk_cache(folder.path));
  put(cache, 1, "one");
  put(cache, 2, "two");
  overwrite(folder.path + "/" + hex(key_of(3)) + ".code", "not an entry");
  REQUIRE(must(cache.export_to(factory.path + "/image")) == 2);
  CHECK(must(cache.export_to(factory.path + "/image")) == 2); // again, over itself
  CacheConfig config;
  config.read_only_folder = factory.path + "/image";
  CodeCache other(config);
  CHECK(*other.find(key_of(1), kCompiler) == "one");
  CHECK(*other.find(key_of(2), kCompiler) == "two");
  CHECK(other.report().read_only_hits == 2);
  CHECK(other.report().rejected == 0); // the broken file was not exported

  overwrite(folder.path + "/file", "");
  CHECK(cache.export_to(folder.path + "/file/below").status().code() == Code::io_error);
  CHECK(CodeCache(CacheConfig()).export_to(factory.path).status().code() == Code::not_found);
}

TEST_CASE("broken entries are listed as such, and only they are removed") {
  TemporaryFolder folder;
  CodeCache cache(disk_cache(folder.path));
  put(cache, 1, "one");
  std::string broken = folder.path + "/" + hex(key_of(3)) + ".code";
  overwrite(broken, "not an entry");
  REQUIRE(cache.list().size() == 2);
  CHECK(cache.remove_invalid() == 1);
  CHECK_FALSE(fs::exists(broken));
  REQUIRE(cache.list().size() == 1);
  CHECK(cache.list()[0].valid);
  CHECK(cache.remove_invalid() == 0);
}

TEST_CASE("a cache that cannot be written is told once and works in memory") {
  TemporaryFolder folder;
  overwrite(folder.path + "/file", "");
  Messages messages;
  CodeCache cache(disk_cache(folder.path + "/file/cache"), messages.logger());
  put(cache, 1, "one");
  put(cache, 2, "two");
  CHECK(*cache.find(key_of(1), kCompiler) == "one");
  REQUIRE(messages.list.size() == 1);
  CHECK(contains(messages.list[0], folder.path + "/file/cache"));
  CHECK(contains(messages.list[0], "CUGRT_CACHE"));
  CHECK_FALSE(cache.report().writable);
  CHECK(contains(cache.report().problem, "Not a directory"));
}

TEST_CASE("a folder that vanishes ends writing with one warning") {
  TemporaryFolder folder;
  Messages messages;
  CodeCache cache(disk_cache(folder.path + "/cache"), messages.logger());
  fs::remove_all(folder.path + "/cache");
  put(cache, 1, "one");
  put(cache, 2, "two");
  CHECK(messages.list.size() == 1);
  CHECK(cache.report().store_failures == 1);
  CHECK(*cache.find(key_of(2), kCompiler) == "two");
}

TEST_CASE("a folder that every user may write is not used") {
  TemporaryFolder folder;
  {
    CodeCache(disk_cache(folder.path)).store(key_of(1), kCompiler, OutputKind::cubin, "sm_90", "x");
  }
  REQUIRE(::chmod(folder.path.c_str(), 0777) == 0);
  CodeCache cache(disk_cache(folder.path));
  CHECK_FALSE(cache.find(key_of(1), kCompiler));
  CHECK(contains(cache.report().problem, "every user may write"));
}

TEST_CASE("the folder is kept within its limit and the oldest read go first") {
  TemporaryFolder folder;
  CacheConfig config = disk_cache(folder.path);
  std::string payload(1000, 'x');
  uint64_t entry = write_entry(key_of(0), kCompiler, OutputKind::cubin, "sm_90", payload).size();
  config.disk_limit_bytes = 10 * entry;
  config.memory_limit_bytes = 0;
  auto age = [&](int i, int seconds) {
    timespec times[2] = {};
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = 1000000000 + seconds;
    REQUIRE(::utimensat(AT_FDCWD, (folder.path + "/" + hex(key_of(i)) + ".code").c_str(), times,
                        0) == 0);
  };
  CodeCache cache(config);
  for (int i = 0; i < 10; ++i) {
    put(cache, i, payload);
    age(i, i);
  }
  CHECK(cache.report().evicted == 0);
  CHECK(cache.find(key_of(0), kCompiler)); // read now: no longer the oldest
  put(cache, 10, payload);
  CHECK(cache.list().size() * entry <= config.disk_limit_bytes);
  CHECK(cache.report().evicted > 0);
  CHECK(cache.find(key_of(0), kCompiler));
  CHECK(cache.find(key_of(10), kCompiler));
  CHECK_FALSE(cache.find(key_of(1), kCompiler));
  CHECK(cache.prune(0) > 0);
  CHECK(cache.list().empty());
  put(cache, 1, std::string(20 * entry, 'x')); // more than all the room
  CHECK(cache.list().empty());
}

TEST_CASE("memory is bounded too") {
  CacheConfig config;
  config.disk = false;
  config.memory_limit_bytes = 100;
  CodeCache cache(config);
  for (int i = 0; i < 10; ++i)
    put(cache, i, std::string(30, 'x'));
  int found = 0;
  for (int i = 0; i < 10; ++i)
    found += cache.find(key_of(i), kCompiler).has_value();
  CHECK(found == 3);
  CHECK(cache.find(key_of(9), kCompiler));
}

TEST_CASE("a read-only folder answers and is left alone") {
  TemporaryFolder folder;
  {
    CodeCache(disk_cache(folder.path + "/image"))
        .store(key_of(1), kCompiler, OutputKind::cubin, "sm_90", "one");
  }
  CacheConfig config = disk_cache(folder.path + "/own");
  config.read_only_folder = folder.path + "/image";
  CodeCache cache(config);
  CHECK(*cache.find(key_of(1), kCompiler) == "one");
  CHECK(cache.report().read_only_hits == 1);
  put(cache, 2, "two");
  CHECK(CodeCache(disk_cache(folder.path + "/image")).list().size() == 1);
  CHECK(cache.list().size() == 1);
  auto entries = cache.list();
  CHECK(entries[0].valid);
  CHECK(entries[0].architecture == "sm_90");
  CHECK(entries[0].compiler == kCompiler);
}

TEST_CASE("many threads and processes share a folder") {
  TemporaryFolder folder;
  auto work = [&] {
    CodeCache cache(disk_cache(folder.path));
    for (int round = 0; round < 20; ++round)
      for (int i = 0; i < 8; ++i) {
        std::string expected(size_t(1000 * (i + 1)), static_cast<char>('a' + i));
        auto found = cache.find(key_of(i), kCompiler);
        if (found && *found != expected)
          return false;
        CodeCache fresh(disk_cache(folder.path)); // reads the disk, not its memory
        put(fresh, i, expected);
      }
    return cache.report().rejected == 0;
  };
  pid_t children[3];
  for (pid_t &child : children)
    if ((child = ::fork()) == 0)
      ::_exit(work() ? 0 : 1);
  bool here = false, there = false;
  std::thread other([&] { there = work(); });
  here = work();
  other.join();
  CHECK(here);
  CHECK(there);
  for (pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  for (const auto &item : fs::directory_iterator(folder.path))
    CHECK(item.path().extension() == ".code"); // no temporary is left
}

TEST_CASE("the environment chooses the folder") {
  Environment cache("CUGRT_CACHE", nullptr), xdg("XDG_CACHE_HOME", "/x"), home("HOME", "/h"),
      second("CUGRT_CACHE_READONLY", "/r"), limit("CUGRT_CACHE_LIMIT", "3M");
  CHECK(CacheConfig::from_environment().folder == "/x/cugrt");
  CHECK(CacheConfig::from_environment().read_only_folder == "/r");
  CHECK(CacheConfig::from_environment().disk_limit_bytes == 3 << 20);
  xdg.set("relative");
  CHECK(CacheConfig::from_environment().folder == "/h/.cache/cugrt");
  home.set(nullptr);
  CHECK(CacheConfig::from_environment().folder.empty());
  cache.set("/c");
  CHECK(CacheConfig::from_environment().folder == "/c");
  cache.set("off");
  CHECK_FALSE(CacheConfig::from_environment().disk);
  limit.set("much");
  CHECK(CacheConfig::from_environment().disk_limit_bytes == CacheConfig().disk_limit_bytes);
}

// ---- keys

TEST_CASE("a key depends on what changes the output, and on nothing else") {
  CompileRequest base = add_kernel(1);
  auto differs = [&](auto change) {
    CompileRequest other = base;
    change(other);
    return Compiler::key(other) != Compiler::key(base);
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
  auto miss = compiler.compile(add_kernel(2));
  REQUIRE_FALSE(miss.ok());
  CHECK(miss.status().code() == Code::not_found);
  CHECK(contains(miss.status().message(), "kernel 'add'"));
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
  auto missing = find_nvrtc("");
  REQUIRE_FALSE(missing.ok());
  CHECK(contains(missing.status().message(), "'/nonexistent' (CUGRT_NVRTC)"));
  CHECK(must(find_nvrtc(usual.library)).found_by == "the given path");
  TemporaryFolder folder;
  overwrite(folder.path + "/libnvrtc.so.13", "not a library");
  NvrtcLocation broken = must(find_nvrtc(folder.path));
  CHECK(open_nvrtc(broken).status().code() == Code::not_found);
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
  CompilerConfig config;
  config.cache.disk = false;
  Compiler compiler(config);
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
  auto architectures = must(compiler.architectures());
  CHECK(std::find(architectures.begin(), architectures.end(), 90) != architectures.end());
  CHECK(must(compiler.identity()).major >= 12);
}

TEST_CASE("kernels may include the half-precision headers") {
  CompilerConfig config;
  config.cache.disk = false;
  Compiler compiler(config);
  CompileResult result = must(compiler.compile(
      request("scale", "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
                       "extern \"C\" __global__ void scale(__half *p, __nv_bfloat16 *q) {\n"
                       "  *p = __float2half(__bfloat162float(*q)); }\n")));
  CHECK(contains(result.bytes, ".entry scale"));
}

TEST_CASE("an error names the kernel, the real file and line, and shows the source") {
  CompilerConfig config;
  config.cache.disk = false;
  Compiler compiler(config);
  CompileRequest broken =
      request("relu", "extern \"C\" __global__ void relu(float *p) {\n  *p = undefined_name;\n}\n");
  broken.file = "kernels/relu.cu";
  broken.first_line = 40;
  auto result = compiler.compile(broken);
  REQUIRE_FALSE(result.ok());
  const Status &status = result.status();
  CHECK(status.code() == Code::compile_error);
  CHECK(contains(status.message(), "kernel 'relu' does not compile for compute_90"));
  CHECK(contains(status.message(), "kernels/relu.cu(41): error"));
  CHECK(contains(status.message(), "*p = undefined_name;"));
  CHECK(status.location() == "kernels/relu.cu:41");
}

TEST_CASE("an NVRTC without its headers says which packages bring them") {
  TemporaryFolder folder;
  NvrtcLocation usual = must(find_nvrtc(""));
  fs::create_directories(folder.path + "/a/lib");
  // A link into the toolkit would lead to its headers.
  fs::copy_file(usual.library, folder.path + "/a/lib/libnvrtc.so.13");
  for (const auto &item : fs::directory_iterator(fs::path(usual.library).parent_path()))
    if (item.path().filename().string().find("libnvrtc-builtins.so") == 0)
      fs::create_symlink(item.path(), fs::path(folder.path) / "a/lib" / item.path().filename());
  CompilerConfig config;
  config.cache.disk = false;
  config.nvrtc_path = folder.path + "/a";
  Compiler compiler(config);
  auto result = compiler.compile(request("k", "#include <cuda_fp16.h>\n"));
  REQUIRE_FALSE(result.ok());
  CHECK(contains(result.status().message(), "nvidia-cuda-runtime"));
  CHECK(contains(result.status().message(), folder.path));
}

TEST_CASE("warnings of a successful compilation are kept") {
  CompilerConfig config;
  config.cache.disk = false;
  Compiler compiler(config);
  CompileResult result = must(compiler.compile(
      request("k", "extern \"C\" __global__ void k(int *p) { int never_read; *p = 1; }\n")));
  CHECK(contains(result.log, "never_read"));
}

TEST_CASE("architectures are those of a table, not whatever looks like one") {
  CompilerConfig config;
  config.use = CompilerConfig::Use::never;
  config.cache.disk = false;
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
  CompilerConfig config;
  config.cache.disk = false;
  Compiler compiler(config);
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
  CompilerConfig config;
  config.cache.disk = false;
  Compiler other(config);
  options = {};
  options.threads = 1;
  auto again = must(other.compile_all(requests, options));
  for (size_t i = 0; i < results.size(); ++i)
    CHECK(again[i].bytes == results[i].bytes);
  CHECK(must(other.compile_all({}, options)).empty());
}

TEST_CASE("the kernel with the longest source is begun first, and results keep their order") {
  CompilerConfig config;
  config.cache.disk = false;
  Compiler compiler(config);
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
  CompilerConfig config;
  config.cache.disk = false;
  Compiler compiler(config);
  std::vector<CompileRequest> requests = {add_kernel(1), request("second", "nonsense"),
                                          add_kernel(2), request("fourth", "more nonsense")};
  requests[1].file = "second.cu";
  CompileAllOptions options;
  options.threads = 2;
  auto results = compiler.compile_all(requests, options);
  REQUIRE_FALSE(results.ok());
  const std::string &message = results.status().message();
  CHECK(contains(message, "2 kernels do not compile"));
  CHECK(message.find("'second'") < message.find("'fourth'"));
  CHECK(contains(message, "second.cu:1"));
}

TEST_CASE("a cancelled batch ends as cancelled") {
  CompilerConfig config;
  config.cache.disk = false;
  Compiler compiler(config);
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
  auto results = compiler.compile_all(requests, options);
  REQUIRE_FALSE(results.ok());
  CHECK(results.status().code() == Code::cancelled);
  CHECK(told < requests.size());
}

TEST_CASE("an exception from the progress callback reaches the caller") {
  CompilerConfig config;
  config.cache.disk = false;
  Compiler compiler(config);
  std::vector<CompileRequest> requests = {add_kernel(1), add_kernel(2), add_kernel(3)};
  CompileAllOptions options;
  options.threads = 2;
  options.progress = [](const CompileProgress &) { throw std::bad_alloc(); };
  CHECK_THROWS_AS(compiler.compile_all(requests, options), std::bad_alloc);
}
