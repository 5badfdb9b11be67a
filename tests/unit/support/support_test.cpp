// support: results, checked arithmetic, diagnostics, digests, files.
#include "support/catch.h"

#include "base/checked_math.h"
#include "base/diagnostics.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/first_bytes.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "support/temporary_folder.h"

#include <atomic>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace cugrt;

TEST_CASE("a status carries code, message, location and CUDA error") {
  Status status = Status::error(Code::driver_error, "cannot launch 'relu'")
                      .at("m.cugrt:3:1")
                      .with_cuda_error("CUDA_ERROR_INVALID_VALUE")
                      .in("function 'main'");
  REQUIRE_FALSE(status.ok());
  CHECK(status.to_string() == "m.cugrt:3:1: driver error: function 'main': cannot launch 'relu' "
                              "(CUDA_ERROR_INVALID_VALUE)");
  CHECK(Status().to_string() == "ok");
}

TEST_CASE("what a terminal obeys is shown in a message, wherever it came from") {
  using namespace std::string_literals;
  const Status status = Status::error(Code::parse_error, "key 'a\x1b[2J\r\0'\n\tä"s)
                            .at("m\x07.gguf")
                            .in("file '\x7f'");
  CHECK(status.message() == "file '\\x7f': key 'a\\x1b[2J\\x0d\\x00'\n\tä");
  CHECK(status.location() == "m\\x07.gguf");
}

TEST_CASE("the innermost location of a status wins") {
  CHECK(Status::error(Code::io_error, "x").at("inner").at("outer").location() == "inner");
}

TEST_CASE("floor and ceiling division and modulo follow their definitions for every sign") {
  // a = b * floordiv + mod, 0 <= |mod| < |b|, mod has the sign of b; ceildiv = -floordiv(-a, b).
  for (int64_t a = -7; a <= 7; ++a)
    for (int64_t b : {-3, -2, -1, 1, 2, 3}) {
      int64_t q = *checked_floordiv(a, b), m = *checked_mod(a, b);
      CHECK(b * q + m == a);
      CHECK((m == 0 || (m < 0) == (b < 0)));
      CHECK(std::abs(m) < std::abs(b));
      CHECK(*checked_ceildiv(a, b) == -*checked_floordiv(-a, b));
    }
}

TEST_CASE("checked arithmetic refuses what overflows or divides by zero") {
  CHECK_FALSE(checked_add(INT64_MAX, 1));
  CHECK_FALSE(checked_sub(INT64_MIN, 1));
  CHECK_FALSE(checked_mul(INT64_MAX, 2));
  CHECK_FALSE(checked_floordiv(1, 0));
  CHECK_FALSE(checked_ceildiv(INT64_MIN, -1));
  CHECK_FALSE(checked_mod(1, 0));
  CHECK_FALSE(checked_align(INT64_MAX, 256));
  CHECK(*checked_align(257, 256) == 512);
  CHECK(*checked_align(0, 256) == 0);
}

TEST_CASE("diagnostics show the line with a caret under the column") {
  Diagnostics diagnostics;
  diagnostics.error({2, 3}, "unknown name 'b'");
  CHECK(diagnostics.render("m.cugrt", "first\na b c\n") ==
        "m.cugrt:2:3: error: unknown name 'b'\n  a b c\n    ^\n");
}

TEST_CASE("an error with a line and a column is rendered with its file and its line") {
  const std::string source = "first\n  second line\n";
  auto error = [](const std::string &location) {
    return Status::error(Code::out_of_range, "too large").at(location).with_cuda_error("E");
  };
  Status placed = in_source(error("2:3"), "a.cugrt", source);
  CHECK(placed.location() == "a.cugrt:2:3");
  CHECK(placed.message() == "error: too large\n    second line\n    ^");
  CHECK(placed.code() == Code::out_of_range);
  CHECK(placed.cuda_error() == "E");

  Status without_text = in_source(error("2:3"), "a.cugrt", "");
  CHECK(without_text.location() == "a.cugrt:2:3");
  CHECK(without_text.message() == "error: too large");

  for (const char *place : {"@main", "2:", "2:x", "0:1", "1:0", "99999999999:1", "b.cugrt:2:3"}) {
    INFO(place);
    Status other = in_source(error(place), "a.cugrt", source);
    CHECK(other.location() == place);
    CHECK(other.message() == "a.cugrt: too large");
  }
  CHECK(in_source(Status(), "a.cugrt", source).ok());
}

TEST_CASE("diagnostics of a hostile file are bounded") {
  Diagnostics diagnostics;
  for (int i = 0; i < 100000; ++i)
    diagnostics.error({1, 1}, "x");
  CHECK(diagnostics.count() == 100000);
  CHECK(diagnostics.list().size() == Diagnostics::kLimit);
}

// FIPS 180-4's examples, and lengths around a block's end against Python's hashlib.
TEST_CASE("SHA-256 gives what the standard's examples give, however the bytes come") {
  CHECK(hex(Sha256().add("abc").finish()) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex(Sha256().finish()) ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex(Sha256().add("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").finish()) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  struct Row {
    size_t count;
    const char *digest;
  };
  const Row rows[] = {
      {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
      {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
      {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
      {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
      {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
      {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
      {1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const Row &row : rows)
    for (size_t step : {size_t(1), size_t(7), size_t(64), row.count}) {
      Sha256 sha;
      for (size_t at = 0; at < row.count; at += step)
        sha.add(std::string(std::min(step, row.count - at), 'a'));
      CHECK(hex(sha.finish()) == row.digest);
    }
}

TEST_CASE("a digest is SHA-256 over length-prefixed fields") {
  // hashlib.sha256((3).to_bytes(8, "little") + b"abc") in Python
  CHECK(hex(Digester().field("abc").finish()) ==
        "ce91dc5eec0139adf091900d225971d6ad246a845bad791b5693a9d0d55dd391");
  Digester one, two;
  one.field("ab").field("c");
  two.field("a").field("bc");
  CHECK(one.finish() != two.finish());
}

TEST_CASE("files are written whole and read back, and errors name the path") {
  TemporaryFolder folder;
  std::string path = folder.path + "/file";
  REQUIRE(write_file(path, "hello").ok());
  REQUIRE(write_file(path, "again").ok());
  CHECK(*read_file(path, 100) == "again");
  CHECK(read_file(path, 4).status().code() == Code::out_of_range);
  CHECK(read_file(folder.path, 100).status().code() == Code::io_error);
  Status missing = write_file(folder.path + "/no/file", "x");
  CHECK(missing.code() == Code::not_found);
  CHECK(missing.message().find("/no/file") != std::string::npos);
}

TEST_CASE("a new file has the mode that the umask leaves, one that is replaced keeps its own") {
  TemporaryFolder folder;
  const std::string path = folder.path + "/file", link = folder.path + "/link";
  auto mode_of = [](const std::string &file) {
    struct stat info;
    REQUIRE(::stat(file.c_str(), &info) == 0);
    return static_cast<unsigned>(info.st_mode & 0777);
  };
  REQUIRE(::symlink("file", link.c_str()) == 0);
  for (const unsigned mask : {0022u, 0077u, 0u}) {
    ::unlink(path.c_str());
    const mode_t before = ::umask(mask);
    const Status status = write_file(path, "x");
    ::umask(before);
    REQUIRE(status.ok());
    CHECK(mode_of(path) == (0666 & ~mask));
  }
  for (const unsigned mode : {0600u, 0755u, 0664u})
    for (const std::string &name : {path, link}) {
      REQUIRE(::chmod(path.c_str(), mode) == 0);
      REQUIRE(write_file(name, std::to_string(mode)).ok());
      CHECK(mode_of(path) == mode);
      CHECK(*read_file(path, 100) == std::to_string(mode));
    }
}

TEST_CASE("several writers of one file each write it whole") {
  TemporaryFolder folder;
  // The longest name that a file can have: what is written aside has one as well.
  const std::string path = folder.path + "/" + std::string(255, 'n');
  const std::string texts[] = {std::string(1 << 16, 'a'), std::string(1 << 16, 'b')};
  std::vector<std::thread> writers;
  std::atomic<int> failures{0};
  for (const std::string &text : texts)
    writers.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        failures += !write_file(path, {text.substr(0, 1000), text.substr(1000)}).ok();
    });
  while (!std::filesystem::exists(path) && failures == 0)
    std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    const auto seen = read_file(path, 1 << 20);
    REQUIRE(seen.ok());
    CHECK((*seen == texts[0] || *seen == texts[1]));
  }
  for (std::thread &writer : writers)
    writer.join();
  CHECK(failures == 0);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("writing replaces files only, and follows a symbolic link to one") {
  TemporaryFolder folder;
  const std::string file = folder.path + "/file", pipe = folder.path + "/pipe",
                    link = folder.path + "/link", to_pipe = folder.path + "/to_pipe",
                    nowhere = folder.path + "/nowhere", inner = folder.path + "/folder";
  REQUIRE(write_file(file, "old").ok());
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(::mkdir(inner.c_str(), 0700) == 0);
  REQUIRE(::symlink("file", link.c_str()) == 0);
  REQUIRE(::symlink("pipe", to_pipe.c_str()) == 0);
  REQUIRE(::symlink("none", nowhere.c_str()) == 0);

  REQUIRE(write_file(link, "new").ok());
  CHECK(*read_file(file, 100) == "new");
  struct stat info;
  REQUIRE(::lstat(link.c_str(), &info) == 0);
  CHECK(S_ISLNK(info.st_mode));
  for (const std::string &path : {pipe, to_pipe, inner}) {
    Status refused = write_file(path, "x");
    CHECK(refused.message() == "cannot write '" + path + "': not a regular file");
  }
  REQUIRE(::lstat(pipe.c_str(), &info) == 0);
  CHECK(S_ISFIFO(info.st_mode));
  CHECK(write_file(nowhere, "x").message().find("'" + nowhere + "'") != std::string::npos);
  size_t left = 0;
  for (const auto &item : std::filesystem::directory_iterator(folder.path))
    left += item.exists() || item.is_symlink();
  CHECK(left == 6); // nothing written aside stays
}

TEST_CASE("whatever reads files refuses in the same words what is no regular file") {
  TemporaryFolder folder;
  const std::string pipe = folder.path + "/pipe"; // nobody writes into it
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string &path : {pipe, folder.path, std::string("/dev/null")}) {
    const std::string refusal = "cannot read '" + path + "': not a regular file";
    CHECK(read_file(path, 100).status().message() == refusal);
    CHECK(MappedFile::open(path).status().message() == refusal);
    CHECK(first_bytes(path).empty());
  }
  REQUIRE(write_file(folder.path + "/file", "bytes").ok());
  const auto cut = read_file(folder.path + "/file" + '\0' + "x", 100);
  CHECK(cut.status().message() ==
        "cannot read '" + folder.path + "/file\\x00x': No such file or directory");
  const std::string none = folder.path + "/none";
  const auto file = read_file(none, 100);
  const auto mapped = MappedFile::open(none);
  for (const Status *status : {&file.status(), &mapped.status()}) {
    CHECK(status->code() == Code::not_found);
    CHECK(status->message() == "cannot read '" + none + "': No such file or directory");
  }
}

TEST_CASE(
    "what a file is by its first bytes, whatever the length in a safetensors file begins with") {
  using namespace std::string_literals;
  const auto told = [](const std::string &bytes) {
    return std::string(told_by_first_bytes(bytes));
  };
  for (const char length : "\b{\x80"s)
    CHECK(told(length + "\0\0\0\0\0\0\0{\"w\""s).starts_with("safetensors"));
  for (const auto &[bytes, what] :
       std::vector<std::pair<std::string, std::string>>{{"GGUF\3\0\0\0"s, "generate"},
                                                        {"cugrtpak\0"s, "pack"},
                                                        {"cugrt 1\n"s, "text"},
                                                        {"PK\3\4"s, "pt2"},
                                                        {"{\"a\": 1}"s, "Relax"},
                                                        {"\x93NUMPY\1"s, "--input"},
                                                        {"\b\n\22\7pytorch"s, "ONNX model"},
                                                        {"\x1c\0\0\0TFL3"s, "TensorFlow Lite"}})
    CHECK(told(bytes).find(what) != std::string::npos);
  for (const std::string &bytes : {""s, "hello"s, "GGU"s, "\x93NUM"s})
    CHECK(told(bytes).empty());
}
