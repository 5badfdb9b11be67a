// The GGUF reader: files made byte by byte, and what is wrong with them.
#include "base/file.h"
#include "fronts/gguf/gguf.h"
#include "support/catch.h"
#include "support/gguf_bytes.h"
#include "support/temporary_folder.h"

#include <algorithm>

using namespace cugrt;
using namespace cugrt::gguf;
using test::GgufBytes;
using test::little_endian;

namespace {

// Two tensors: 3 rows of 4 f32, and 2 rows of one q4_0 block, 18 bytes each.
GgufBytes two_tensors() {
  GgufBytes bytes;
  bytes.text("general.architecture", "llama").u32("llama.block_count", 2);
  bytes.tensor("a", {4, 3}, 0, 0).tensor("b", {32, 2}, 2, 64);
  for (char c = 0; c < 100; ++c)
    bytes.data += c;
  return bytes;
}

std::string error_of(const std::string &bytes) {
  const Result<File> file = File::parse(bytes, "m.gguf");
  return file.ok() ? "no error" : file.status().message();
}

} // namespace

TEST_CASE("tensors have their rows outermost first, and their bytes") {
  const std::string bytes = two_tensors().file();
  const Result<File> file = File::parse(bytes, "m.gguf");
  REQUIRE(file.ok());
  REQUIRE(file->tensors().size() == 2);
  const Tensor &a = file->tensors()[0], &b = *file->find_tensor("b");
  CHECK(a.name == "a");
  CHECK(a.dims == std::vector<int64_t>{3, 4});
  CHECK(a.bytes.size() == 48);
  CHECK(a.bytes[47] == 47);
  CHECK(b.dims == std::vector<int64_t>{2, 32});
  CHECK(type_info(b.type)->name == "q4_0");
  CHECK(b.bytes.size() == 36);
  CHECK(b.bytes[0] == 64);
  CHECK(file->find_tensor("c") == nullptr);
}

TEST_CASE("keys of every type are read") {
  GgufBytes bytes;
  bytes.version = 2;
  bytes.key("u8", 0, "\xff")
      .key("i8", 1, "\xff")
      .key("u16", 2, "\xfe\xff")
      .key("i16", 3, "\xfe\xff");
  bytes.u32("u32", 4000000000u).key("i32", 5, little_endian(int32_t(-7)));
  bytes.key("f32", 6, little_endian(0.25f)).key("bool", 7, "\x01").text("text", "caf\xc3\xa9");
  bytes.key("u64", 10, little_endian(UINT64_MAX)).key("i64", 11, little_endian(INT64_MIN));
  bytes.key("f64", 12, little_endian(1e300)).texts("texts", {"", "one", "two"});
  bytes.list("list", 5, 2, little_endian(int32_t(3)) + little_endian(int32_t(-1)));
  bytes.list("none", 4, 0, "");
  const std::string text = bytes.file();
  const Result<File> file = File::parse(text, "m.gguf");
  REQUIRE(file.ok());
  CHECK(*file->integer("u8") == 255);
  CHECK(*file->integer("i8") == -1);
  CHECK(*file->integer("u16") == 65534);
  CHECK(*file->integer("i16") == -2);
  CHECK(*file->integer("u32") == 4000000000);
  CHECK(*file->integer("i32") == -7);
  CHECK(*file->number("f32") == 0.25);
  CHECK(*file->number("i32") == -7);
  CHECK(*file->boolean("bool"));
  CHECK(*file->string("text") == "caf\xc3\xa9");
  CHECK(*file->integer("i64") == INT64_MIN);
  CHECK(*file->number("f64") == 1e300);
  CHECK(*file->strings("texts") == std::vector<std::string_view>{"", "one", "two"});
  CHECK(*file->integers("list") == std::vector<int64_t>{3, -1});
  CHECK(*file->numbers("list") == std::vector<double>{3, -1});
  CHECK(file->numbers("none")->empty());
  CHECK(*file->integer("absent", 5) == 5);
  CHECK(file->keys().size() == 15);

  CHECK(file->integer("absent").status().message() == "'m.gguf' has no key 'absent'");
  CHECK(file->integer("u64").status().message() == "'m.gguf': key 'u64' is not an integer");
  CHECK(file->integer("list").status().message() == "'m.gguf': key 'list' is not an integer");
  CHECK(file->string("u8").status().message() == "'m.gguf': key 'u8' is not a string");
  CHECK(file->strings("list").status().message() ==
        "'m.gguf': key 'list' is not a list of strings");
  CHECK(file->boolean("u8").status().code() == Code::parse_error);
  CHECK(file->numbers("text").status().code() == Code::parse_error);
}

TEST_CASE("a file that is cut anywhere is refused") {
  const std::string bytes = two_tensors().file();
  for (size_t size = 0; size < bytes.size(); ++size) {
    INFO(size);
    CHECK(File::parse(std::string_view(bytes).substr(0, size), "m.gguf").status().code() ==
          Code::parse_error);
  }
}

TEST_CASE("what is wrong with a file is said") {
  CHECK(error_of("GGML") == "'m.gguf' is no valid GGUF file: it does not begin with GGUF");
  GgufBytes bytes = two_tensors();
  bytes.version = 1;
  CHECK(error_of(bytes.file()) == "'m.gguf' is of GGUF version 1; versions 2 and 3 are read");
  bytes.version = 3u << 24;
  CHECK(error_of(bytes.file()).find("big-endian") != std::string::npos);

  const auto says = [](const GgufBytes &made, const std::string &what) {
    const std::string error = error_of(made.file());
    INFO(error);
    CHECK(error.find(what) != std::string::npos);
  };
  says(two_tensors().u32("llama.block_count", 1), "key 'llama.block_count' stands twice");
  says(two_tensors().key("k", 13, ""), "key 'k' has the unknown type 13");
  says(two_tensors().key("k", 7, "\x02"), "a bool of key 'k' is neither 0 nor 1");
  says(two_tensors().list("k", 9, 1, ""), "key 'k' has lists in a list");
  says(two_tensors().list("k", 8, UINT64_MAX, ""), "it ends");
  says(two_tensors().list("k", 10, UINT64_MAX / 4, ""), "it ends");
  says(two_tensors().key("k", 8, little_endian(UINT64_MAX)), "it ends");
  says(two_tensors().u32("general.alignment", 48), "general.alignment is 48");
  says(two_tensors().u32("general.alignment", 0), "general.alignment is 0");
  says(two_tensors().tensor("a", {1}, 0, 0), "tensor 'a' stands twice");
  says(two_tensors().tensor("c", {1, 1, 1, 1, 1}, 0, 0), "tensor 'c' has rank 5");
  says(two_tensors().tensor("c", {1}, 4, 0), "tensor 'c' has the unknown type 4");
  says(two_tensors().tensor("c", {1}, 0, 4), "which is no multiple of 32");
  says(two_tensors().tensor("c", {33}, 2, 0), "rows of 33 elements, and blocks of q4_0 have 32");
  says(two_tensors().tensor("c", {UINT64_MAX}, 0, 0), "a dimension of 18446744073709551615");
  says(two_tensors().tensor("c", {1u << 30, 1u << 30, 4}, 0, 0),
       "the size of tensor 'c' overflows");
  says(two_tensors().tensor("c", {26}, 0, 0), "reaches beyond the file's end");
  says(two_tensors().tensor("c", {1}, 0, UINT64_MAX - 31), "reaches beyond the file's end");
  bytes = two_tensors();
  bytes.key_count = UINT64_MAX;
  CHECK(File::parse(bytes.file(), "m.gguf").status().code() == Code::parse_error);
  bytes = two_tensors();
  bytes.tensor_count = UINT64_MAX;
  CHECK(File::parse(bytes.file(), "m.gguf").status().code() == Code::parse_error);
}

TEST_CASE("another alignment moves the tensors") {
  GgufBytes bytes;
  bytes.u32("general.alignment", 256).tensor("a", {1}, 24, 0);
  bytes.data = "x";
  const std::string text = bytes.file(256);
  const Result<File> file = File::parse(text, "m.gguf");
  REQUIRE(file.ok());
  CHECK(file->tensors()[0].bytes == "x");
}

TEST_CASE("tensor types have the sizes that GGUF gives them") {
  // From the blocks' description: q4_k has two f16, 12 bytes of scales, 128 of nibbles, and so on.
  const std::vector<std::pair<TensorType, uint32_t>> rows = {{TensorType::q4_0, 2 + 16},
                                                             {TensorType::q4_1, 4 + 16},
                                                             {TensorType::q5_0, 2 + 4 + 16},
                                                             {TensorType::q5_1, 4 + 4 + 16},
                                                             {TensorType::q8_0, 2 + 32},
                                                             {TensorType::q2_k, 16 + 64 + 4},
                                                             {TensorType::q3_k, 32 + 64 + 12 + 2},
                                                             {TensorType::q4_k, 4 + 12 + 128},
                                                             {TensorType::q5_k, 4 + 12 + 32 + 128},
                                                             {TensorType::q6_k, 128 + 64 + 16 + 2},
                                                             {TensorType::iq4_nl, 2 + 16}};
  for (const auto &[type, bytes] : rows) {
    INFO(type_info(type)->name);
    CHECK(type_info(type)->bytes_per_block == bytes);
  }
}

TEST_CASE("a model in parts is opened by its first") {
  TemporaryFolder folder;
  const auto part = [](uint16_t number, uint16_t count, const char *tensor) {
    GgufBytes bytes;
    bytes.key("split.no", 2, little_endian(number)).key("split.count", 2, little_endian(count));
    bytes.key("split.tensors.count", 5, little_endian(int32_t(2)));
    bytes.tensor(tensor, {1}, 24, 0);
    bytes.data = tensor;
    return bytes.file();
  };
  const std::string first = folder.path + "/m-00001-of-00002.gguf";
  const std::string second = folder.path + "/m-00002-of-00002.gguf";
  REQUIRE(write_file(first, part(0, 2, "x")).ok());
  CHECK(File::open(first).status().code() == Code::not_found);
  REQUIRE(write_file(second, part(1, 2, "y")).ok());
  const Result<File> file = File::open(first);
  REQUIRE(file.ok());
  CHECK(file->find_tensor("x")->bytes == "x");
  CHECK(file->find_tensor("y")->bytes == "y");

  CHECK(File::open(second).status().message().find("open the first, whose name ends in "
                                                   "'-00001-of-00002.gguf'") != std::string::npos);
  REQUIRE(write_file(second, part(1, 3, "y")).ok());
  CHECK(File::open(first).status().message().find("part 1 of 3") != std::string::npos);
  REQUIRE(write_file(second, part(1, 2, "x")).ok());
  CHECK(File::open(first).status().message().find("tensor 'x' stands twice") != std::string::npos);
  GgufBytes nothing;
  nothing.key("split.no", 2, little_endian(uint16_t(1)));
  nothing.key("split.count", 2, little_endian(uint16_t(2)));
  REQUIRE(write_file(second, nothing.file()).ok());
  CHECK(File::open(first).status().message().find("have 1 tensors, not the 2") !=
        std::string::npos);
}

TEST_CASE("what is no file is refused by name") {
  TemporaryFolder folder;
  CHECK(File::open(folder.path).status().code() == Code::io_error);
  CHECK(File::open(folder.path + "/none").status().code() == Code::not_found);
  REQUIRE(write_file(folder.path + "/empty", "").ok());
  CHECK(File::open(folder.path + "/empty").status().code() == Code::parse_error);
}
