// A device whose memory is the host's: weights of files are read in their pages, without a copy.
#include "group_nets.h"
#include "support/temporary_folder.h"

#include <filesystem>
#include <fstream>
#include <optional>

using namespace cugrt;
using namespace cugrt::test;

namespace {

constexpr size_t kCount = 2048; // two pages of f32

/// What is computed of %source is no part of runs.
const char *const kSums = R"(cugrt 1
func @main(%x: tensor<[2048], f32>, %w: tensor<[2048], f32>, %source: tensor<[2048], f32>,
           %few: tensor<[4], f32>, %odd: tensor<[2048], f32>) -> (tensor<[2048], f32>)
    attributes {num_inputs = 1} {
  %n = neg(%source)
  %a = add(%x, %w)
  %b = add(%a, %n)
  %rows = reshape(%b) {shape = [512, 4]}
  %c = add(%rows, %few)
  %line = reshape(%c) {shape = [2048]}
  %y = add(%line, %odd)
  return %y
}
func @given(%w: tensor<[2048], f32>) -> (tensor<[2048], f32>)
    attributes {num_inputs = 0} {
  return %w
}
)";

const std::vector<float> kW = whole_numbers(kCount, 1), kSource = whole_numbers(kCount, 2),
                         kFew = whole_numbers(4, 3), kOdd = whole_numbers(kCount, 4);
constexpr uint64_t kLarge = kCount * 4, kInPlace = kLarge,
                   // %few, at the next multiple of 256 %odd; and what is computed of %source
    kUploaded = 256 + kLarge + kLarge;

/// A safetensors file in which all tensors but the last lie at multiples of 16 bytes.
std::string weights_file() {
  std::string header = R"({"w":{"dtype":"F32","shape":[2048],"data_offsets":[0,8192]},
"source":{"dtype":"F32","shape":[2048],"data_offsets":[8192,16384]},
"few":{"dtype":"F32","shape":[4],"data_offsets":[16384,16400]},
"gap":{"dtype":"F32","shape":[1],"data_offsets":[16400,16404]},
"odd":{"dtype":"F32","shape":[2048],"data_offsets":[16404,24596]}})";
  while (header.size() % 16 != 8)
    header += ' ';
  std::string file;
  for (int i = 0; i < 8; ++i)
    file += static_cast<char>(header.size() >> (8 * i));
  file += header;
  for (const std::vector<float> &values : {kW, kSource, kFew, std::vector<float>(1), kOdd})
    file.append(reinterpret_cast<const char *>(values.data()), values.size() * 4);
  return file;
}

struct Folder : TemporaryFolder {
  std::string weights = path + "/w.safetensors";
  Folder() { std::ofstream(weights, std::ios::binary) << weights_file(); }
};

/// The emulated driver reads the environment when the first runtime is made.
Runtime &jetson() {
  static const bool chosen = setenv("CUGRT_EMU_DEVICE", "sm_87", 1) == 0;
  REQUIRE(chosen);
  return emulated_runtime();
}

Executable sums() { return Executable(jetson(), Module::parse(kSums)); }

void check_runs(Executable &executable, Session &session) {
  const std::vector<float> x = whole_numbers(kCount, 5);
  Buffer input = upload(x);
  const auto results =
      session.run(executable.function("main"), {input.tensor(CUGRT_F32, {int64_t(kCount)})});
  session.synchronize();
  const auto y = download<float>(results[0].as.tensor.address, kCount);
  for (size_t i = 0; i < kCount; ++i) {
    INFO("element " << i);
    REQUIRE(y[i] == x[i] + kW[i] - kSource[i] + kFew[i % 4] + kOdd[i]); // sums are exact
  }
}

} // namespace

TEST_CASE("weights of a file are read in its pages, where they lie as kernels want them",
          "[emulated]") {
  Folder folder;
  CHECK(jetson().info().integrated == 1);
  Executable executable = sums();
  Session session = [&] {
    const Weights weights = Weights::load(folder.weights);
    Session opened(executable, jetson(), weights);
    Session other(executable, jetson(), weights); // shares what the first one loaded
    CHECK(other.counters().weight_bytes_in_place == kInPlace);
    return opened;
  }();
  std::filesystem::remove(folder.weights); // its pages stay as long as the session
  CHECK(session.counters().weight_bytes_in_place == kInPlace);
  CHECK(session.counters().weight_bytes == kUploaded);
  check_runs(executable, session);

  // They are weights as others: their place can be read, and no run writes there.
  const auto given = session.run(executable.function("given"), {});
  session.synchronize();
  const uint64_t place = given[0].as.tensor.address;
  CHECK(download<float>(place, kCount) == kW);
  Buffer input = upload(kW);
  std::vector<Value> results = {
      make_tensor(place, CUGRT_F32, std::vector<int64_t>{int64_t(kCount)})};
  const Error error = error_of([&] {
    session.run_into(executable.function("main"),
                     std::vector<Value>{input.tensor(CUGRT_F32, {int64_t(kCount)})}, results);
  });
  CHECK(error.code() == CUGRT_INVALID_ARGUMENT);
  CHECK(std::string(error.what()).find("weights") != std::string::npos);
}

TEST_CASE("pages that are registered already are uploaded", "[emulated]") {
  Folder folder;
  const Weights weights = Weights::load(folder.weights);
  Executable first = sums(), second = sums();
  Session in_place(first, jetson(), weights);
  Session uploads(second, jetson(), weights);
  CHECK(in_place.counters().weight_bytes_in_place == kInPlace);
  CHECK(uploads.counters().weight_bytes_in_place == 0);
  CHECK(uploads.counters().weight_bytes == kUploaded + kInPlace);
  check_runs(second, uploads);
  check_runs(first, in_place);
}

TEST_CASE("weights that the program shares are read in its memory", "[emulated]") {
  Weights heap;
  const std::vector<int64_t> line = {int64_t(kCount)}, row = {4};
  const auto keep = std::make_shared<int>();
  heap.add_shared("w", kW.data(), CUGRT_F32, line, keep);
  heap.add_shared("source", kSource.data(), CUGRT_F32, line, keep);
  heap.add("few", kFew.data(), CUGRT_F32, row); // copied, and so uploaded
  heap.add("odd", kOdd.data(), CUGRT_F32, line);
  Executable executable = sums();
  Session session(executable, jetson(), heap);
  CHECK(session.counters().weight_bytes_in_place == kInPlace);
  check_runs(executable, session);
}

TEST_CASE("weights of a pack are read in its pages, inside it and beside it", "[emulated]") {
  Folder folder;
  const bool inside = GENERATE(false, true);
  const std::string path = folder.path + "/m.pack";
  auto options = detail::sized<cugrt_pack_options>();
  const char *const architecture = "compute_75";
  options.architectures = &architecture;
  options.architecture_count = 1;
  options.weights_path = folder.weights.c_str();
  options.weights_inside = inside;
  jetson();
  write_pack(emulated_runtime(), Module::parse(kSums), options, path);
  const Pack pack = Pack::load(path);
  Executable executable(jetson(), pack);
  Session session(executable, jetson(), pack.weights());
  CHECK(session.counters().weight_bytes_in_place == kInPlace);
  check_runs(executable, session);
}

TEST_CASE("weights of a group leave without a copy on the host, and come back", "[emulated]") {
  Folder folder;
  Executable executable = sums(), beside = sums();
  const Weights weights = Weights::load(folder.weights);
  jetson();
  Group group(emulated_runtime());
  auto options = detail::sized<cugrt_session_options>();
  options.group = group.get();
  const uint64_t pinned = pinned_bytes();
  Session session(executable, jetson(), weights, options);
  for (int i = 0; i < 3; ++i)
    check_runs(executable, session);
  const auto before = session.counters();
  const uint64_t held = group.memory().weight_bytes, registered = pinned_bytes();
  CHECK(held >= kUploaded + kInPlace);
  CHECK(registered >= pinned + kInPlace);
  for (int i = 0; i < 2; ++i) {
    session.evict();
    CHECK(pinned_bytes() == pinned); // neither pages nor what was computed
    CHECK(group.memory().weight_bytes == 0);
    CHECK(session.counters().weight_bytes_in_place == 0);
    check_runs(executable, session); // pages at their place, and the rest computed again
    CHECK(pinned_bytes() == registered);
    CHECK(group.memory().weight_bytes == held);
    CHECK(session.counters().regions_built == before.regions_built);
  }
  // Who registers the pages meanwhile keeps them.
  session.evict();
  Session other(beside, jetson(), weights);
  check_runs(executable, session);
  check_runs(beside, other);
  // Copies count once, as what is mapped for them.
  CHECK(session.counters().weight_bytes_in_place == 0);
  CHECK(group.memory().weight_bytes > held - kInPlace);
  CHECK((group.memory().weight_bytes - (held - kInPlace)) % (2 << 20) == 0);
}

TEST_CASE("pages that models of a group have alike count once, wherever they come back",
          "[emulated]") {
  Folder folder;
  const bool mapped_again = GENERATE(false, true);
  Executable executable = sums(), beside = sums(), alone = sums();
  const Weights weights = Weights::load(folder.weights);
  const Weights again = Weights::load(folder.weights);
  Group group(jetson());
  auto options = detail::sized<cugrt_session_options>();
  options.group = group.get();
  std::optional<Session> first(std::in_place, executable, jetson(), weights, options);
  const uint64_t held = group.memory().weight_bytes;
  Session second(beside, jetson(), mapped_again ? again : weights, options);
  CHECK(group.memory().weight_bytes == held);
  check_runs(beside, second);
  check_runs(executable, *first);
  first->evict(); // for which the other is idle
  CHECK(group.memory().weight_bytes == 0);
  Session other(alone, jetson(), weights); // has the pages meanwhile: the group copies them
  check_runs(beside, second);
  check_runs(executable, *first);
  first.reset(); // what the other reads stays
  check_runs(beside, second);
}

TEST_CASE("a run reads pinned memory where it lies", "[emulated]") {
  Folder folder;
  Executable executable = sums();
  Session session(executable, jetson(), Weights::load(folder.weights));
  Buffer frame(jetson(), kLarge, CUGRT_MEMORY_PINNED);
  auto *const x = static_cast<float *>(frame.host_pointer());
  for (float first : {1.0f, -3.0f}) { // nobody copies what is written between runs
    std::fill_n(x, kCount, first);
    const auto results =
        session.run(executable.function("main"), {frame.tensor(CUGRT_F32, {int64_t(kCount)})});
    session.synchronize();
    const auto y = download<float>(results[0].as.tensor.address, kCount);
    CHECK(y[7] == first + kW[7] - kSource[7] + kFew[3] + kOdd[7]);
  }
}
