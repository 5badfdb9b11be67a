// The code cache: what it finds, refuses, writes, removes and shares, without a compiler.
#include "jit/cache_entry.h"
#include "support.h"
#include "support/temporary_folder.h"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>

using namespace cugrt;
using namespace cugrt::jit;
using cugrt::test::must;
using cugrt::test::refused;
namespace fs = std::filesystem;

namespace {

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

struct Messages {
  std::vector<std::string> list;
  static void take(void *user, LogLevel, const char *message) {
    static_cast<Messages *>(user)->list.emplace_back(message);
  }
  Logger logger() { return {take, this, LogLevel::debug}; }
};

} // namespace

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
  CacheKey hopper = key_of(r);
  r.architecture = "sm_80";
  CacheKey ampere = key_of(r);
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
  cache.write_note("note.txt", "of the factory");
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
  CHECK(other.read_notes("note.txt") == std::vector<std::string>{"of the factory"});

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
  CHECK(must(cache.remove_invalid()) == 1);
  CHECK_FALSE(fs::exists(broken));
  REQUIRE(cache.list().size() == 1);
  CHECK(cache.list()[0].valid);
  CHECK(must(cache.remove_invalid()) == 0);
}

TEST_CASE("a folder in an entry's place is broken, goes if it is empty, and ends no writing") {
  TemporaryFolder folder;
  std::string empty = folder.path + "/" + hex(key_of(1)) + ".code",
              full = folder.path + "/" + hex(key_of(2)) + ".code";
  fs::create_directories(empty);
  fs::create_directories(full + "/inner");
  Messages messages;
  CodeCache cache(disk_cache(folder.path), messages.logger());
  CHECK_FALSE(cache.find(key_of(1), kCompiler));
  put(cache, 1, "one");
  REQUIRE(messages.list.size() == 1);
  CHECK(contains(messages.list[0], empty));
  CHECK(cache.report().writable);
  CHECK(cache.report().problem.empty());
  put(cache, 3, "three");
  CHECK(cache.report().stored == 1);
  CHECK(cache.report().store_failures == 1);
  CHECK(*CodeCache(disk_cache(folder.path)).find(key_of(3), kCompiler) == "three");

  size_t broken = 0;
  for (const CacheEntryInfo &entry : cache.list())
    broken += !entry.valid;
  CHECK(cache.list().size() == 3);
  CHECK(broken == 2);
  const Status removed = refused(cache.remove_invalid());
  CHECK(contains(removed.message(), full + "': Directory not empty"));
  CHECK_FALSE(contains(removed.message(), empty));
  CHECK_FALSE(fs::exists(empty));
  CHECK(fs::exists(full + "/inner"));
  put(cache, 1, "one");
  CHECK(*CodeCache(disk_cache(folder.path)).find(key_of(1), kCompiler) == "one");
  // Neither is it what pruning removes.
  CHECK(cache.prune(0) == 2);
  CHECK(fs::exists(full));
}

TEST_CASE(
    "a cache that cannot be written is told once something was compiled, and works in memory") {
  TemporaryFolder folder;
  overwrite(folder.path + "/file", "");
  Messages messages;
  CodeCache cache(disk_cache(folder.path + "/file/cache"), messages.logger());
  CHECK_FALSE(cache.find(key_of(1), kCompiler));
  CHECK(messages.list.empty());
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

TEST_CASE("notes are read from both folders, the writable one's first") {
  TemporaryFolder folder;
  CodeCache(disk_cache(folder.path + "/image")).write_note("note.txt", "of the factory");
  CacheConfig config = disk_cache(folder.path + "/own");
  config.read_only_folder = folder.path + "/image";
  CodeCache cache(config);
  CHECK(cache.read_notes("note.txt") == std::vector<std::string>{"of the factory"});
  cache.write_note("note.txt", "own");
  CHECK(cache.read_notes("note.txt") == std::vector<std::string>{"own", "of the factory"});
  CHECK(cache.read_notes("../image/note.txt").empty());
  config.disk = false;
  CHECK(CodeCache(config).read_notes("note.txt").empty());
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
  CHECK(CacheConfig::from_environment().problem.empty());
  xdg.set("relative");
  CHECK(CacheConfig::from_environment().folder == "/h/.cache/cugrt");
  home.set(nullptr);
  CHECK(CacheConfig::from_environment().folder.empty());
  cache.set("/c");
  CHECK(CacheConfig::from_environment().folder == "/c");
  cache.set("off");
  CHECK_FALSE(CacheConfig::from_environment().disk);
  limit.set(nullptr);
  CHECK(CacheConfig::from_environment().problem.empty());
  for (const char *wrong : {"much", "5Q", "-1", "3MB", " "}) {
    limit.set(wrong);
    CacheConfig config = CacheConfig::from_environment();
    CHECK(config.disk_limit_bytes == CacheConfig().disk_limit_bytes);
    CHECK(contains(config.problem, "'" + std::string(wrong) + "'"));
    Messages messages;
    CodeCache told(config, messages.logger());
    CHECK(messages.list == std::vector<std::string>{config.problem});
  }
}
