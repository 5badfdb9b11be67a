// runtime: the safetensors reader, on good files and lying ones.
#include "fixture.h"

#include "device/code/weights.h"

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

namespace {

std::string file(const std::string &header, size_t data_bytes, uint64_t claimed = UINT64_MAX) {
  uint64_t length = claimed == UINT64_MAX ? header.size() : claimed;
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(length >> (8 * i));
  bytes += header;
  for (size_t i = 0; i < data_bytes; ++i)
    bytes += static_cast<char>(i);
  return bytes;
}

Result<WeightSet> read(const std::string &bytes) {
  return read_safetensors(std::make_shared<const std::string>(bytes), "w.safetensors");
}

} // namespace

TEST_CASE("tensors are read with dtype, dimensions and bytes") {
  WeightSet set = must(read(file(R"({"__metadata__":{"format":"pt"},
      "b":{"dtype":"F16","shape":[3],"data_offsets":[8,14]},
      "a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},
      "none":{"dtype":"I64","shape":[0,7],"data_offsets":[14,14]}})",
                                 14)));
  REQUIRE(set.size() == 3);
  const HostTensor *a = set.find("a");
  REQUIRE(a);
  CHECK(a->dtype == ir::DType::f32);
  CHECK(a->dims == std::vector<int64_t>{1, 2});
  CHECK(a->size_bytes == 8);
  CHECK(a->data()[1] == 1);
  CHECK(set.find("b")->data()[0] == 8);
  CHECK(set.find("none")->size_bytes == 0);
  CHECK(!set.find("c"));
}

TEST_CASE("a weights file that lies is an error that says how") {
  const char *const good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  struct Row {
    std::string bytes;
    const char *message;
  };
  const Row rows[] = {
      {"abc", "shorter than a safetensors header"},
      {file(good, 8, uint64_t(1) << 40), "the header would have"},
      {file(good, 8, UINT64_MAX - 1), "the header would have"},
      {file(good, 7), "may be truncated"},
      {file("[1, 2]", 0), "header: at byte 0: an object must stand here"},
      {file("{\"a\"", 0), "header: at byte 4: the text ends where ':' must stand"},
      {file("{\"__metadata__\":" + std::string(1000, '['), 0), "at byte 23: it is nested too deep"},
      {file("[[", 0), "an object must stand"},
      {file(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "takes 12 bytes"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "do not lie within"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8), "-8 is not a size"},
      {file(R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8), "unknown dtype"},
      {file(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "is not a size"},
      {file(R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8), "is not a size"},
      {file(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", 8),
       "overflows"},
      {file(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}})", 8),
       "more than 8 dimensions"},
      {file(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), "needs dtype, shape"},
      {file(R"({"a":7})", 8), "tensor 'a': at byte 5: an object must stand here"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4,8]}})", 8),
       "data_offsets are two"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8), "two data_offsets"},
      {file(std::string(good) + "]", 8), "something stands behind its end"},
      {file("{\"\xff\":{}}", 0), "at byte 2: it is no UTF-8"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                "a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
            8),
       "stands twice"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
            12),
       "overlap"},
      {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
       "bytes 0 to 4 of the data are no tensor's"},
      {file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                "b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
            12),
       "bytes 4 to 8 of the data are no tensor's"},
      {file(good, 9), "bytes 8 to 9 of the data are no tensor's"},
  };
  for (const Row &row : rows) {
    auto set = read(row.bytes);
    INFO(row.message);
    REQUIRE(!set.ok());
    INFO(set.status().message());
    CHECK(contains(set.status().message(), "w.safetensors"));
    CHECK(contains(set.status().message(), row.message));
  }
}

TEST_CASE("a file that is not there is named") {
  auto set = load_safetensors("/nowhere/w.safetensors");
  REQUIRE(!set.ok());
  CHECK(contains(set.status().message(), "/nowhere/w.safetensors"));
}

TEST_CASE("the identity of weights changes with their content") {
  HostTensor tensor;
  tensor.storage = {std::make_shared<int>(), "1234"};
  tensor.size_bytes = 4;
  WeightSet a;
  must(a.add("x", tensor));
  WeightSet b = a;
  CHECK(a.identity() == b.identity());
  must(b.add("y", tensor));
  CHECK(a.identity() != b.identity());
  CHECK(b.add("y", tensor).code() == Code::invalid_argument);
}
