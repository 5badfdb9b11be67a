// Included files: what is found in a text, and that whatever changes what a kernel includes makes
// it compiled again. The files are compiled by NVRTC, whose rules of search are thereby tested too.
#include "jit/include_scan.h"
#include "jit/request_key.h"
#include "support.h"
#include "support/temporary_folder.h"

#include <filesystem>
#include <unistd.h>

using namespace cugrt;
using namespace cugrt::jit;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

/// A cache, and a folder of sources with sub/ and two folders for -I, first/ and second/.
struct Sources {
  TemporaryFolder cache, folder;

  Sources() {
    for (const char *name : {"sub", "first", "second"})
      fs::create_directory(path(name));
  }
  std::string path(const std::string &name) const { return folder.path + "/" + name; }
  void write(const std::string &name, const std::string &text) const {
    overwrite(path(name), text);
  }

  /// A kernel that stores `value`, whose source stands in folder/a.cu.
  CompileRequest kernel(const std::string &before, const std::string &value = "VALUE") const {
    CompileRequest r = request(
        "store", before + "extern \"C\" __global__ void store(int *p) { *p = " + value + "; }\n");
    r.file = path("a.cu");
    return r;
  }
  CompileRequest searching(CompileRequest r) const {
    r.options = {"-I" + path("first"), "--include-path", path("second")};
    return r;
  }

  /// As a process that begins now: what the cache has on disk, else NVRTC.
  CompileResult compile(const CompileRequest &r) const {
    CompilerConfig config;
    config.cache.folder = cache.path;
    return must(Compiler(config).compile(r));
  }
};

/// The kernel stores this value, and did not before or did not in this process.
bool stores(const CompileResult &result, int value) {
  return contains(result.bytes, "\t" + std::to_string(value) + ";") ||
         contains(result.bytes, ", " + std::to_string(value) + ";");
}

} // namespace

TEST_CASE("what may be included is found whatever stands around it") {
  struct Row {
    const char *text;
    Names names;
    bool computed;
  };
  const Row rows[] = {
      {"int x;", {}, false},
      {"#include \"a.h\"\n#include <b/c.h>\n", {"a.h", "b/c.h"}, false},
      {"  #\tinclude/* so */\"a.h\" // too", {"a.h"}, false},
      {"/* one\n two */ # /* three\n four */ include \"a.h\"", {"a.h"}, false},
      {"#inc\\\nlude \"a\\\r\n.h\"", {"a.h"}, false},
      {"%:include \"a.h\"", {"a.h"}, false},
      {"#include_next <a.h>", {"a.h"}, false},
      {"#if 0\n#include \"a.h\"\n#endif", {"a.h"}, false},
      {"const char *s = \"/*\";\n#include \"a.h\"", {"a.h"}, false},
      {"const char *s = R\"(/* \")\";\n#include \"a.h\"", {"a.h"}, false},
      {"#if __has_include(\"a.h\")\n#if __has_include ( <b.h> )", {"a.h", "b.h"}, false},
      {"#if defined(__has_include) && 1\n#ifdef __has_include\n", {}, false},
      {"#include MACRO", {}, true},
      {"/* so */ #include MACRO", {}, true},
      {"#if __has_include(MACRO)", {}, true},
      {"#define HAS __has_include\n", {}, true},
      {"// #include order matters, see #include MACRO", {}, false},
      {"#includes \"a.h\"\n#define S(x) #x\nx #include", {}, false},
      {"#include \"a.h\n", {}, true}, // no compiler takes it
      {"#", {}, false},
      {"#include", {}, true},
      {"#/*", {}, false},
  };
  for (const Row &row : rows) {
    CAPTURE(row.text);
    IncludeScan scan = scan_includes(row.text);
    CHECK(scan.names == row.names);
    CHECK(scan.computed == row.computed);
  }
}

TEST_CASE("a kernel is compiled again when a file that it includes has changed, not before") {
  Sources s;
  s.write("h.cuh", "#define VALUE 111\n");
  CompileRequest r = s.kernel("#include \"h.cuh\"\n");
  CHECK(stores(s.compile(r), 111));
  CompileResult again = s.compile(r);
  CHECK(again.from_cache);
  CHECK(stores(again, 111));
  s.write("h.cuh", "#define VALUE 222\n");
  CompileResult edited = s.compile(r);
  CHECK_FALSE(edited.from_cache);
  CHECK(stores(edited, 222));
  // What it was before is in the cache yet.
  s.write("h.cuh", "#define VALUE 111\n");
  CHECK(s.compile(r).from_cache);
}

TEST_CASE("a file that is included by another is followed, from that one's folder") {
  Sources s;
  s.write("h.cuh", "#include \"sub/mid.cuh\"\n");
  s.write("sub/mid.cuh", "#include \"deep.cuh\"\n#include \"../h.cuh\"\n#pragma once\n");
  s.write("h.cuh", "#pragma once\n#include \"sub/mid.cuh\"\n");
  s.write("sub/deep.cuh", "#define VALUE 111\n");
  CompileRequest r = s.kernel("#include \"h.cuh\"\n");
  CHECK(stores(s.compile(r), 111));
  CHECK(s.compile(r).from_cache);
  s.write("sub/deep.cuh", "#define VALUE 222\n");
  CHECK(stores(s.compile(r), 222));
}

TEST_CASE("a file that appears in a folder that is searched earlier takes its place") {
  Sources s;
  for (const char *form : {"#include \"h.cuh\"\n", "#include <h.cuh>\n"}) {
    s.write("second/h.cuh", "#define VALUE 111\n");
    fs::remove(s.path("first/h.cuh"));
    CompileRequest r = s.searching(s.kernel(form));
    CHECK(stores(s.compile(r), 111));
    CHECK(s.compile(r).from_cache);
    s.write("first/h.cuh", "#define VALUE 222\n");
    CHECK(stores(s.compile(r), 222));
  }
  CompileRequest beside = s.searching(s.kernel("#include \"h.cuh\"\n"));
  s.write("h.cuh", "#define VALUE 333\n");
  CHECK(stores(s.compile(beside), 333));
}

TEST_CASE("a file that is included by an option counts") {
  Sources s;
  CompileRequest r = s.kernel("");
  SECTION("by its path") { r.options = {"--pre-include=" + s.path("first/p.cuh")}; }
  SECTION("by the next word") { r.options = {"-include", s.path("first/p.cuh")}; }
  SECTION("along -I") { r.options = {"-include=p.cuh", "-I=" + s.path("first")}; }
  s.write("first/p.cuh", "#define VALUE 111\n");
  CHECK(stores(s.compile(r), 111));
  CHECK(s.compile(r).from_cache);
  s.write("first/p.cuh", "#define VALUE 222\n");
  CHECK(stores(s.compile(r), 222));
}

TEST_CASE("a file that is nowhere counts as soon as there is one") {
  Sources s;
  CompileRequest r =
      s.kernel("#if __has_include(\"h.cuh\")\n#define VALUE 222\n#include \"h.cuh\"\n"
               "#else\n#define VALUE 111\n#endif\n");
  CHECK(stores(s.compile(r), 111));
  CHECK(s.compile(r).from_cache);
  s.write("h.cuh", "\n");
  CHECK(stores(s.compile(r), 222));
}

TEST_CASE("where it cannot be told what is included the kernel is compiled each time") {
  Sources s;
  CompileRequest r = s.kernel("#include NAME\n");
  r.options = {"-DNAME=\"h.cuh\""};
  s.write("h.cuh", "#define VALUE 111\n");
  CHECK(stores(s.compile(r), 111));
  CHECK_FALSE(s.compile(r).from_cache);
  s.write("h.cuh", "#define VALUE 222\n");
  CHECK(stores(s.compile(r), 222));
  for (const auto &item : fs::directory_iterator(s.cache.path))
    CHECK(item.path().extension() != ".code");

  IncludedFiles files("");
  CHECK(contains(request_key(r, files).uncached, "a.cu"));
  r.options.push_back("--use-pch=" + s.path("h.pch"));
  r.source = s.kernel("").source;
  CHECK(contains(request_key(r, files).uncached, "--use-pch"));
}

TEST_CASE("equal kernels in two folders are told apart by what they include") {
  Sources s;
  s.write("first/h.cuh", "#define VALUE 111\n");
  s.write("second/h.cuh", "#define VALUE 222\n");
  for (const char *form : {"#include \"h.cuh\"\n", "#define NAME \"h.cuh\"\n#include NAME\n"}) {
    std::vector<CompileRequest> requests = {s.kernel(form), s.kernel(form)};
    requests[0].file = s.path("first/a.cu");
    requests[1].file = s.path("second/a.cu");
    CompilerConfig config;
    config.cache.folder = s.cache.path;
    config.worker = "off";
    auto results = must(Compiler(config).compile_all(requests));
    CHECK(stores(results[0], 111));
    CHECK(stores(results[1], 222));
  }
}

TEST_CASE("the place of an included file counts where its text says it") {
  Sources s;
  s.write("first/h.cuh", "__device__ const char *where() { return __FILE__; }\n");
  s.write("second/h.cuh", "__device__ const char *where() { return __FILE__; }\n");
  CompileRequest r = s.kernel("#include \"h.cuh\"\n", "where()[0]");
  r.options = {"-I" + s.path("first")};
  CacheKey before = key_of(r);
  CompileRequest other = r;
  other.options = {"-I" + s.path("second")};
  CHECK(contains(s.compile(r).bytes, ".entry store"));
  CHECK_FALSE(s.compile(other).from_cache);
  CHECK(key_of(r) == before);
}

TEST_CASE("the compiler's own headers count by name, so that a cache serves where they are not") {
  Sources s;
  CompileRequest r = s.searching(s.kernel("#include \"own.cuh\"\n"));
  s.write("second/own.cuh", "#include MACRO\n");
  CacheKey nowhere = [&] {
    IncludedFiles files(s.path("second"));
    RequestKey key = request_key(r, files);
    CHECK(key.uncached.empty());
    return key.key;
  }();
  IncludedFiles unknown("");
  CHECK_FALSE(request_key(r, unknown).uncached.empty());
  fs::remove(s.path("second/own.cuh"));
  IncludedFiles without("");
  CHECK(request_key(r, without).key == nowhere);
}

TEST_CASE("what is followed is bounded") {
  Sources s;
  std::string many;
  for (size_t i = 0; i <= kMaxIncludedFiles; ++i) {
    std::string name = "sub/" + std::to_string(i) + ".cuh";
    s.write(name, "");
    many += "#include \"" + name + "\"\n";
  }
  IncludedFiles files("");
  CHECK(contains(request_key(s.kernel(many), files).uncached, "4096 files"));
  // One that is included by itself is one.
  s.write("h.cuh", "#include \"sub/../h.cuh\"\n#include \"h.cuh\"\n");
  CHECK(request_key(s.kernel("#include \"h.cuh\"\n"), files).uncached.empty());
}

TEST_CASE("a header that changes while its kernel is compiled leaves no entry") {
  Sources s;
  s.write("h.cuh", "#define VALUE 111\n");
  CompileRequest r = s.kernel("#include \"h.cuh\"\n");
  CompilerConfig config;
  config.cache.folder = s.cache.path;
  config.worker = "off";
  Compiler compiler(config);
  // Keys are taken before the first is compiled; its progress is told before the second is.
  std::vector<CompileRequest> requests = {
      request("first", "extern \"C\" __global__ void first() {}" + std::string(1000, ' ')), r};
  CompileAllOptions options;
  options.threads = 1;
  options.progress = [&](const CompileProgress &) { s.write("h.cuh", "#define VALUE 222\n"); };
  auto results = must(compiler.compile_all(requests, options));
  CHECK(stores(results[1], 222));
  s.write("h.cuh", "#define VALUE 111\n");
  CHECK(stores(s.compile(r), 111));
}
