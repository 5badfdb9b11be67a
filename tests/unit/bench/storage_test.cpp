// Instances of the storage bench: files, their errors, and the networks made up.
#include "bench/storage_instances.h"

#include "base/file.h"
#include "support/catch.h"
#include "support/validate_packing.h"

#include <filesystem>

using namespace cugrt;
using namespace cugrt::bench;

static Result<StorageInstance> read_all(const std::string &text) {
  auto path = std::filesystem::temp_directory_path() / "cugrt_bench_storage_test.csv";
  REQUIRE(write_file(path.string(), text).ok());
  auto instance = read_instance(path.string());
  std::filesystem::remove(path);
  return instance;
}

static Status read_text(const std::string &text) {
  auto instance = read_all(text);
  return instance.ok() ? Status() : instance.take_status();
}

TEST_CASE("a file of buffers is read with columns in any order") {
  CHECK(read_text("id,lower,upper,size\na,0,3,4\nb,1,2,8\n").ok());
  CHECK(read_text("size,id,upper,lower\r\n4,a,3,0\r\n").ok());
}

TEST_CASE("a wrong file is refused with its line") {
  struct Case {
    const char *text, *line;
  };
  for (auto [text, line] : {Case{"a,0,3,4\n", ":1"},
                            Case{"id,lower,upper\n", ":1"},
                            Case{"id,lower,upper,size,colour\n", ":1"},
                            Case{"id,lower,upper,size,end\n", ":1"},
                            Case{"id,buffer,lower,upper,size\n", ":1"},
                            Case{"id,lower,upper,size\na,0,3\n", ":2"},
                            Case{"id,lower,upper,size,gaps\na,0,3,4,1\n", ":2"},
                            Case{"id,lower,upper,size,gaps\na,0,3,4,1-1\n", ":2"},
                            Case{"id,lower,upper,size,gaps\na,0,3,4,2-4\n", ":2"},
                            Case{"id,lower,upper,size,gaps\na,0,9,4,2-4 3-5\n", ":2"},
                            Case{"id,lower,upper,size,alignment\na,0,9,4,0\n", ":2"},
                            Case{"id,lower,upper,size,alignment\na,0,9,4,3\n", ":2"},
                            Case{"id,lower,upper,size,offset\na,0,9,4,-1\n", ":2"},
                            Case{"id,lower,upper,size,offset,alignment\na,0,9,4,2,4\n", ":2"},
                            Case{"id,lower,upper,size,hint\na,0,9,4,x\n", ":2"},
                            Case{"id,lower,upper,size\na,0,3,4\nb,0,x,4\n", ":3"},
                            Case{"id,lower,upper,size\na,3,3,4\n", ":2"},
                            Case{"id,lower,upper,size\na,0,3,-4\n", ":2"},
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

TEST_CASE("gaps, alignments, hints and fixed places are read, in whatever order they stand") {
  auto instance = read_all("gaps,size,offset,id,hint,upper,alignment,lower\n"
                           "4-6 1-2,16,,a,-1,9,8,0\n"
                           ",8,32,b,5,3,1,1\n"
                           "2-3 3-4,24,0,c,-1,9,1,0\n");
  REQUIRE(instance.ok());
  REQUIRE(instance->items.size() == 3);
  CHECK(instance->items[0].bytes == 16);
  CHECK(instance->items[0].alignment == 8);
  REQUIRE(instance->gaps.size() == 4);
  CHECK(instance->gaps[0].begin == 1);
  CHECK(instance->gaps[0].end == 2);
  CHECK(instance->gaps[1].begin == 4);
  CHECK(instance->gaps[2].item == 2);
  CHECK(instance->gaps[2].begin == 2);
  CHECK(instance->gaps[3].end == 4);
  REQUIRE(instance->fixed.size() == 2);
  CHECK(instance->fixed[0].item == 1);
  CHECK(instance->fixed[0].offset_bytes == 32);
  CHECK(instance->buffers[1].hint == 5);
  CHECK_FALSE(instance->buffers[0].hint);
  // c lies in [0, 24) and b in [32, 40); a meets c at step 0 and b at step 2, and has no room
  // between.
  auto packing = plan::find_packing(instance->input());
  REQUIRE(packing.ok());
  CHECK(test::validate_packing(instance->input(), *packing).ok());
  CHECK(packing->peak_bytes == 56);
}

TEST_CASE("a gap in which a part of the buffer stays in use is refused") {
  for (const char *gap : {"2-4@1:2", "2-4@0:0", "2-4@", "2-4@1:2@1:2"}) {
    Status status = read_text(std::string("id,lower,upper,size,gaps\na,0,9,4,") + gap + "\n");
    INFO(gap);
    CHECK(status.code() == Code::unsupported);
    CHECK(status.location().ends_with(":2"));
  }
}

TEST_CASE("older names of columns are known; an end is then the last step alive") {
  auto instance = read_all("buffer,start,end,size,gaps\n0,0,3,4,1-2\n1,4,6,8,\n");
  REQUIRE(instance.ok());
  CHECK(instance->items[0].end == 4);
  REQUIRE(instance->gaps.size() == 1);
  CHECK(instance->gaps[0].end == 3);
  CHECK(plan::find_packing(instance->input())->peak_bytes == 8); // they follow each other
  CHECK(read_text("buffer_id,begin,end,size\n0,0,0,4\n").ok());
}

TEST_CASE("times of any size are read: only their order counts") {
  auto instance = read_all("id,lower,upper,size,gaps\na,-5,9000000000,4,0-8000000000\n"
                           "b,1,7000000000,4,\n");
  REQUIRE(instance.ok());
  CHECK(plan::find_packing(instance->input())->peak_bytes == 4);
}

TEST_CASE("packings known beforehand are found again") {
  for (const char *name : {"planted_200", "planted_249"}) {
    auto instance = read_instance(std::string(TEST_DATA_FOLDER) + "/storage/" + name + ".csv");
    REQUIRE(instance.ok());
    auto packing = plan::find_packing(instance->items, {.effort = plan::Effort::build});
    REQUIRE(packing.ok());
    CHECK(test::validate_packing(instance->items, *packing).ok());
    CHECK(packing->peak_bytes == 1048576);
  }
}

TEST_CASE("written offsets repeat the buffers in their order") {
  auto plain = read_all("size,id,upper,lower\n5,a,2,0\n6,b,3,1\n");
  REQUIRE(plain.ok());
  CHECK(offsets_csv(*plain, {{6, 0}, 11}) == "id,lower,upper,size,offset\na,0,2,5,6\nb,1,3,6,0\n");
  auto rich = read_all("id,lower,upper,size,gaps,alignment,hint\na,0,9,5,4-6 1-2,1,-1\n"
                       "b,1,3,6,,2,7\n");
  REQUIRE(rich.ok());
  CHECK(offsets_csv(*rich, {{6, 0}, 11}) ==
        "id,lower,upper,size,alignment,hint,gaps,offset\na,0,9,5,1,-1,1-2 4-6,6\n"
        "b,1,3,6,2,7,,0\n");
}

TEST_CASE("the bound of the residual network is where its first stage adds") {
  StorageInstance net = resnet_instance(143);
  CHECK(net.items.size() == 143 * 7 + 1);
  CHECK(*plan::lower_bound_bytes(net.items) == kResnetBound);
  CHECK(plan::find_packing(net.items)->peak_bytes == kResnetBound);
}

TEST_CASE("the made-up networks reach their bounds at load") {
  for (const StorageInstance &net : {unet_instance(5), prefill_instance(32, 2048)}) {
    auto packing = plan::find_packing(net.items);
    REQUIRE(packing.ok());
    CHECK(test::validate_packing(net.items, *packing).ok());
    CHECK(packing->peak_bytes == *plan::lower_bound_bytes(net.items));
  }
}
