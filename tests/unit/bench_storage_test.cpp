// Instances of the storage bench: files, their errors, and the networks made up.
#include "bench/storage_instances.h"

#include "support/catch.h"
#include "support/file.h"

#include <filesystem>

using namespace cugrt;
using namespace cugrt::bench;

static Status read_text(const std::string &text) {
  auto path = std::filesystem::temp_directory_path() / "cugrt_bench_storage_test.csv";
  REQUIRE(write_file(path.string(), text).ok());
  auto instance = read_instance(path.string());
  std::filesystem::remove(path);
  return instance.take_status();
}

TEST_CASE("a file of buffers is read with columns in any order") {
  CHECK(read_text("id,lower,upper,size\na,0,3,4\nb,1,2,8\n").ok());
  CHECK(read_text("size,id,upper,lower\r\n4,a,3,0\r\n").ok());
}

TEST_CASE("a wrong file is refused with its line") {
  struct Case {
    const char *text, *line;
  };
  for (auto [text, line] :
       {Case{"a,0,3,4\n", ":1"}, Case{"id,lower,upper\n", ":1"},
        Case{"id,lower,upper,size,gaps\n", ":1"}, Case{"id,lower,upper,size\na,0,3\n", ":2"},
        Case{"id,lower,upper,size\na,0,3,4\nb,0,x,4\n", ":3"},
        Case{"id,lower,upper,size\na,3,3,4\n", ":2"}, Case{"id,lower,upper,size\na,0,3,-4\n", ":2"},
        Case{"id,lower,upper,size\na,0,4294967296,4\n", ":2"},
        Case{"id,lower,upper,size\na,0,3,99999999999999999999\n", ":2"},
        Case{"id,lower,upper,size\na,0,3,4\na,0,3,4\n", ":3"}}) {
    Status status = read_text(text);
    INFO(text);
    REQUIRE_FALSE(status.ok());
    CHECK(status.location().ends_with(line));
  }
  CHECK_FALSE(read_text("").ok());
  CHECK_FALSE(read_text("id,lower,upper,size\n").ok());
  CHECK_FALSE(read_instance("/nonexistent/file.csv").ok());
}

TEST_CASE("packings known beforehand are found again") {
  for (const char *name : {"planted_200", "planted_249"}) {
    auto instance = read_instance(std::string(TEST_DATA_FOLDER) + "/storage/" + name + ".csv");
    REQUIRE(instance.ok());
    auto packing = plan::pack(instance->items, {.effort = plan::Effort::build});
    REQUIRE(packing.ok());
    CHECK(plan::validate_packing(instance->items, *packing).ok());
    CHECK(packing->peak_bytes == 1048576);
  }
}

TEST_CASE("written offsets repeat the buffers in their order") {
  StorageInstance instance{"x", {{"a", 0, 2}, {"b", 1, 3}}, {{0, 2, 5}, {1, 3, 6}}};
  CHECK(offsets_csv(instance, {{6, 0}, 11}) ==
        "id,lower,upper,size,offset\na,0,2,5,6\nb,1,3,6,0\n");
}

TEST_CASE("the bound of the residual network is where its first stage adds") {
  StorageInstance net = resnet_instance(143);
  CHECK(net.items.size() == 143 * 7 + 1);
  CHECK(*plan::lower_bound_bytes(net.items) == kResnetBound);
  CHECK(plan::pack(net.items)->peak_bytes == kResnetBound);
}

TEST_CASE("the made-up networks reach their bounds at load") {
  for (const StorageInstance &net : {unet_instance(5), prefill_instance(32, 2048)}) {
    auto packing = plan::pack(net.items);
    REQUIRE(packing.ok());
    CHECK(plan::validate_packing(net.items, *packing).ok());
    CHECK(packing->peak_bytes == *plan::lower_bound_bytes(net.items));
  }
}
