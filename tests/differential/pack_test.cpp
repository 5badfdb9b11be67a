// Packs by the public C++ API: what was compiled for named architectures runs, on a runtime that
// finds no compiler and has no cache, as the module does that it was made of.
#include "support/api_fixture.h"
#include "support/temporary_folder.h"

#include <algorithm>
#include <fstream>
#include <set>

using namespace cugrt;
using namespace cugrt::test;

namespace {

/// y = relu(x w) + x.
const char *const kLayer = R"(cugrt 1
func @main(%x: tensor<[n, 4], f32>, %w: tensor<[4, 4], f32>) -> (tensor<[n, 4], f32>)
    attributes {num_inputs = 1, upper_bounds = {n = 32}} {
  %h = matmul(%x, %w)
  %r = relu(%h)
  %y = add(%r, %x)
  return %y
}
)";

const char *const kBlocks = R"(cugrt 1
func @main(%x: tensor<[n, 64], f32>, %w: tensor<[6, 64], q4_0>) -> (tensor<[n, 6], f32>)
    attributes {num_inputs = 1, upper_bounds = {n = 32}} {
  %y = matmul_blocks(%x, %w)
  return %y
}
)";

void write(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// A safetensors file with "w", of so many rows of 4.
std::string weights_file(const std::vector<float> &values) {
  std::string size = std::to_string(values.size() * 4);
  std::string header = R"({"w":{"dtype":"F32","shape":[)" + std::to_string(values.size() / 4) +
                       R"(,4],"data_offsets":[0,)" + size + "]}}";
  std::string file(1, static_cast<char>(header.size()));
  return file + std::string(7, '\0') + header +
         std::string(reinterpret_cast<const char *>(values.data()), values.size() * 4);
}

/// Neither a compiler nor a cache.
Runtime &bare_runtime() {
  static Runtime runtime = [] {
    RuntimeOptions options = emulated_options();
    options.nvrtc_path = "/nowhere/libnvrtc.so";
    options.cache_folder = "off";
    return Runtime(options);
  }();
  return runtime;
}

struct Folder : TemporaryFolder {
  std::vector<float> w = numbers(16, 3);
  std::string weights = path + "/w.safetensors", pack = path + "/m.pack";
  Folder() { write(weights, weights_file(w)); }
};

void make(const std::string &path, std::vector<const char *> architectures,
          const std::function<void(cugrt_pack_options &)> &change = nullptr,
          const char *text = kLayer) {
  auto options = detail::sized<cugrt_pack_options>();
  options.architectures = architectures.data();
  options.architecture_count = architectures.size();
  if (change)
    change(options);
  Module module = Module::parse(text);
  write_pack(emulated_runtime(), module, options, path);
}

void check_runs(const Pack &pack, const Weights &weights, const std::vector<float> &w) {
  Executable executable(bare_runtime(), pack);
  Session session(executable, bare_runtime(), weights);
  Function main = executable.function("main");
  for (int64_t n : {1, 32, 7, 0, 7}) {
    INFO("n = " << n);
    std::vector<float> x = numbers(static_cast<size_t>(n) * 4, static_cast<uint32_t>(n));
    std::vector<double> expected;
    for (size_t i = 0; i < x.size(); ++i) {
      double sum = 0;
      for (size_t k = 0; k < 4; ++k)
        sum += double(x[i / 4 * 4 + k]) * w[k * 4 + i % 4];
      expected.push_back(std::max(sum, 0.0) + x[i]);
    }
    Buffer input = upload(x);
    auto results = session.run(main, {input.tensor(CUGRT_F32, {n, 4})});
    session.synchronize();
    check_close(download<float>(results[0].as.tensor.address, x.size()), expected, 1e-5);
  }
  CHECK(session.counters().regions_eager == 0);
}

} // namespace

TEST_CASE("a pack runs without a compiler, from its file and from memory") {
  Folder folder;
  bool inside = GENERATE(false, true);
  size_t last = 0, told = 0;
  std::pair<size_t *, size_t *> counts{&last, &told};
  make(folder.pack, {"compute_75", "sm_87"}, [&](cugrt_pack_options &options) {
    options.weights_path = folder.weights.c_str();
    options.weights_inside = inside;
    options.progress_user = &counts;
    options.progress = [](void *user, size_t done, size_t total, const char *, double, size_t) {
      auto &[last, told] = *static_cast<std::pair<size_t *, size_t *> *>(user);
      ++*told;
      *last = total - done;
    };
  });
  CHECK(told >= 2); // one fused kernel for two architectures
  CHECK(last == 0);
  Pack pack = Pack::load(folder.pack);
  check_runs(pack, pack.weights(), folder.w);
  std::string bytes = read(folder.pack);
  Pack same = Pack::parse(std::as_bytes(std::span(bytes)), "m", folder.path);
  check_runs(same, same.weights(), folder.w);
  CHECK(same.report() == pack.report());
  // Elsewhere only what is inside is found.
  Pack elsewhere = Pack::parse(std::as_bytes(std::span(bytes)), "m", folder.path + "/none");
  if (inside)
    CHECK(elsewhere.weights().count() == 1);
  else
    CHECK(mentions(error_of([&] { elsewhere.weights(); }), "w.safetensors"));
}

TEST_CASE("weights of memory go into a pack as those of their file do") {
  struct Row {
    const char *what, *text, *option;
    cugrt_dtype dtype;
    std::vector<int64_t> dims;
  };
  const Row row =
      GENERATE(Row{"as they are", kLayer, "mixed.dtype=none", CUGRT_F32, {4, 4}},
               Row{"the session casts them", kLayer, "mixed.dtype=f16", CUGRT_F32, {4, 4}},
               Row{"blocks", kBlocks, "mixed.dtype=none", CUGRT_Q4_0, {6, 64}},
               Row{"blocks as bytes", kBlocks, "mixed.dtype=none", CUGRT_U8, {6, 36}});
  INFO(row.what);
  Folder folder;
  Weights weights;
  weights.add("w", numbers(54, 3).data(), row.dtype, row.dims); // 216 bytes, or the first of them
  weights.add("not_read", "abc", CUGRT_U8, std::vector<int64_t>{3});
  weights.save(folder.weights);
  auto made = [&](const std::function<void(cugrt_pack_options &)> &change) {
    make(
        folder.pack, {"compute_75"},
        [&](cugrt_pack_options &options) {
          options.pass_options = &row.option, options.pass_option_count = 1;
          change(options);
        },
        row.text);
    return read(folder.pack);
  };
  const std::string of_memory = made([&](auto &options) { options.weights = weights.get(); });
  CHECK(of_memory == made([&](auto &options) {
          options.weights_path = folder.weights.c_str();
          options.weights_inside = 1;
        }));
  CHECK(Pack::load(folder.pack).weights().count() == 2);
  CHECK(std::filesystem::exists(folder.weights));
}

TEST_CASE("a pack of weights without tensors has none") {
  Folder folder;
  const Weights none;
  const char *const text = "cugrt 1\nfunc @main(%x: tensor<[4], f32>) -> (tensor<[4], f32>) {\n"
                           "  %y = relu(%x)\n  return %y\n}\n";
  make(
      folder.pack, {"compute_75"}, [&](auto &options) { options.weights = none.get(); }, text);
  const std::string given = read(folder.pack);
  make(folder.pack, {"compute_75"}, nullptr, text);
  CHECK(given == read(folder.pack));
}

TEST_CASE("progress has one total, of all targets") {
  TemporaryFolder folder;
  // From sm_90 on the edge may be programmatic, for which the cubin's compilation gives PTX as
  // well.
  const Module module = Module::parse(R"(cugrt 1
func @main(%x: tensor<[64, 64], f32>) -> (tensor<[64, 64], f32>) {
  %h = softmax(%x)
  %y = matmul(%h, %x)
  return %y
}
)");
  struct Told {
    std::set<size_t> totals;
    size_t last = 0;
  } told;
  auto options = detail::sized<cugrt_pack_options>();
  const char *architectures[] = {"compute_75", "sm_90"};
  options.architectures = architectures;
  options.architecture_count = 2;
  options.progress_user = &told;
  options.progress = [](void *user, size_t done, size_t total, const char *, double, size_t) {
    Told &told = *static_cast<Told *>(user);
    told.totals.insert(total);
    told.last = done;
  };
  write_pack(emulated_runtime(), module, options, folder.path + "/m.pack");
  CHECK(told.totals == std::set<size_t>{told.last});
  CHECK(told.last == 4); // two kernels for each target
}

TEST_CASE("a pack without weights takes those of the caller") {
  Folder folder;
  make(folder.pack, {"compute_75"});
  Pack pack = Pack::load(folder.pack);
  CHECK(pack.weights().count() == 0);
  check_runs(pack, Weights::load(folder.weights), folder.w);
}

TEST_CASE("a bare runtime compiles nothing") {
  Module module = Module::parse(kLayer);
  Error error = error_of([&] { Executable(bare_runtime(), module); });
  CHECK(mentions(error, "/nowhere/libnvrtc.so"));
}

TEST_CASE("what cannot become a pack is told before anything is written") {
  Folder folder;
  auto refused = [&](std::vector<const char *> architectures,
                     const std::function<void(cugrt_pack_options &)> &change = nullptr) {
    return error_of([&] { make(folder.pack, architectures, change); });
  };
  CHECK(mentions(refused({}), "needs an architecture"));
  CHECK(mentions(refused({"sm_90", "sm_90"}), "sm_90 is named twice"));
  CHECK(mentions(refused({"sm_42"}), "it knows sm_75"));
  CHECK(mentions(refused({"fast"}), "'fast' is no architecture"));
  CHECK(mentions(refused({nullptr}), "architectures[]"));
  auto with_weights = [&](const std::vector<float> &values) {
    write(folder.weights, weights_file(values));
    return refused({"compute_75"}, [&](cugrt_pack_options &options) {
      options.weights_path = folder.weights.c_str();
    });
  };
  Error shape = with_weights(numbers(12, 1)); // [3, 4]
  CHECK(mentions(shape, "weights file " + folder.weights));
  CHECK(mentions(shape, "dimension 0 is 4, got tensor<[3, 4], f32>"));
  auto with = [&](const char *name, cugrt_dtype dtype, const char *path) {
    Weights weights;
    weights.add(name, folder.w.data(), CUGRT_F32, std::vector<int64_t>{4, 4});
    weights.add("not_read", folder.w.data(), dtype, std::vector<int64_t>{4, 4});
    return refused({"compute_75"}, [&](cugrt_pack_options &options) {
      options.weights = weights.get();
      options.weights_path = path;
    });
  };
  CHECK(mentions(with("v", CUGRT_F32, nullptr), "the weights have no tensor 'w'"));
  CHECK(mentions(with("w", CUGRT_I4, nullptr), "no name for the dtype of 'not_read', i4"));
  CHECK(mentions(with("w", CUGRT_F32, folder.weights.c_str()),
                 "weights_path and weights are both given; a pack takes one of them"));
  const int32_t cancel = 1;
  Error cancelled =
      refused({"compute_75"}, [&](cugrt_pack_options &options) { options.cancel = &cancel; });
  CHECK(cancelled.code() == CUGRT_CANCELLED);
  CHECK_FALSE(std::filesystem::exists(folder.pack));
}

TEST_CASE("code that the device cannot run is refused with what the pack has") {
  Folder folder;
  make(folder.pack, {"sm_87", "compute_120"});
  Pack pack = Pack::load(folder.pack);
  Error error = error_of([&] { Executable(bare_runtime(), pack); });
  CHECK(error.code() == CUGRT_UNSUPPORTED);
  CHECK(mentions(error, "has code for sm_87, compute_120"));
}

TEST_CASE("what is no pack is an error that names it") {
  std::string text = "cugrt 1\n";
  Error error = error_of([&] { Pack::parse(std::as_bytes(std::span(text)), "the thing"); });
  CHECK(error.code() == CUGRT_PARSE_ERROR);
  CHECK(mentions(error, "pack the thing: header at offset 0"));
}

TEST_CASE("a pack has a plan for each target, and those that are alike once") {
  // A product of f16: without tensor cores before 8.0, so that this target has a plan of its own.
  const int64_t m = 33, k = 20, n = 40;
  const std::string text = R"(cugrt 1
func @main(%x: tensor<[33, 20], f32>, %w: tensor<[20, 40], f32>) -> (tensor<[33, 40], f32>) {
  %a = cast(%x) {dtype = f16}
  %b = cast(%w) {dtype = f16}
  %y = matmul(%a, %b)
  %z = cast(%y) {dtype = f32}
  return %z
}
)";
  Folder folder;
  auto plans = [&](std::vector<const char *> architectures) {
    auto options = detail::sized<cugrt_pack_options>();
    options.architectures = architectures.data();
    options.architecture_count = architectures.size();
    write_pack(emulated_runtime(), Module::parse(text), options, folder.pack);
    const std::string report = Pack::load(folder.pack).report(CUGRT_REPORT_JSON);
    size_t count = 0; // a summary of its code stands in each plan, once
    for (size_t at = 0; (at = report.find("\"most_specialized\"", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  auto check_product = [&] {
    const std::vector<float> x = numbers(size_t(m * k), 1), w = numbers(size_t(k * n), 2);
    Executable executable(bare_runtime(), Pack::load(folder.pack));
    Session session(executable, bare_runtime(), Weights());
    Buffer left = upload(x), right = upload(w);
    auto results = session.run(executable.function("main"),
                               {left.tensor(CUGRT_F32, {m, k}), right.tensor(CUGRT_F32, {k, n})});
    session.synchronize();
    std::vector<double> expected;
    for (size_t i = 0; i < size_t(m * n); ++i) {
      double sum = 0;
      for (size_t j = 0; j < size_t(k); ++j)
        sum += double(x[i / n * k + j]) * w[j * n + i % n];
      expected.push_back(sum);
    }
    // Operands and result are rounded to f16: half a unit each, of sums of 20 products below 1.
    check_close(download<float>(results[0].as.tensor.address, expected.size()), expected,
                20 * 0x1p-11);
  };
  CHECK(plans({"compute_75"}) == 1);
  check_product();
  CHECK(plans({"compute_90", "compute_80"}) == 1);
  check_product();
  CHECK(plans({"compute_75", "compute_80", "compute_90"}) == 2);
  check_product();
}

TEST_CASE("what is compiled for a device is chosen for its multiprocessors") {
  // 300 queries and heads are few for the emulated device's 132, which have four each, and many
  // for 64. A cache that is split takes a second kernel.
  const std::string text = R"(cugrt 1
func @main(%q: tensor<[1, 75, 4, 4], f32>, %k: tensor<[1, 512, 1, 4], f32>)
    -> (tensor<[1, 75, 4, 4], f32>) {
  %y = attention(%q, %k, %k)
  return %y
}
)";
  auto kernels = [&](std::vector<const char *> settings) {
    std::string names;
    auto options = detail::sized<cugrt_compile_options>();
    options.pass_options = settings.data();
    options.pass_option_count = settings.size();
    options.progress_user = &names;
    options.progress = [](void *user, size_t, size_t, const char *kernel, double, size_t) {
      *static_cast<std::string *>(user) += std::string(kernel) + " ";
    };
    Executable executable(emulated_runtime(), Module::parse(text), &options);
    return names;
  };
  CHECK(kernels({}).find("attention_split") != std::string::npos);
  const std::string for_few = kernels({"target.multiprocessors=64"});
  CHECK(for_few.find("attention_f32") != std::string::npos);
  CHECK(for_few.find("attention_split") == std::string::npos);
}
