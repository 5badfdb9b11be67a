// Steps of a small decoder through the public C++ API, in graphs: layers of five launches give the
// same bits as their ops one by one, also over a cache that is cut into chunks, whose counters the
// layers and steps share. What the plan's report says of fusion.
#include "support/api_fixture.h"

#include <algorithm>

using namespace cugrt;
using namespace cugrt::test;

namespace {

constexpr int64_t kWidth = 64, kHeads = 4, kKvHeads = 2, kHead = 16, kInner = 96, kPlaces = 2;

using Dims = std::vector<int64_t>;

std::string tensor(const Dims &dims, const std::string &dtype = "f32") {
  std::string text;
  for (int64_t dim : dims)
    text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "tensor<[" + text + "], " + dtype + ">";
}

struct Parameter {
  std::string name;
  Dims dims;
};

struct Decoder {
  std::string text;
  std::vector<Parameter> caches, weights;
};

Decoder decoder(int layers, int64_t capacity) {
  Decoder made;
  const Dims cache = {kPlaces, capacity, kKvHeads, kHead};
  const int64_t q = kHeads * kHead, kv = kKvHeads * kHead;
  std::string body, x = "x";
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    made.caches.push_back({"kc" + n, cache});
    made.caches.push_back({"vc" + n, cache});
    for (const auto &[name, dims] : {std::pair<std::string, Dims>{"n1", {kWidth}},
                                     {"wq", {q, kWidth}},
                                     {"wk", {kv, kWidth}},
                                     {"wv", {kv, kWidth}},
                                     {"wo", {kWidth, q}},
                                     {"n2", {kWidth}},
                                     {"wg", {kInner, kWidth}},
                                     {"wu", {kInner, kWidth}},
                                     {"wd", {kWidth, kInner}}})
      made.weights.push_back({name + n, dims});
    auto product = [&](const std::string &y, const std::string &of, const std::string &w) {
      body += "  %" + y + n + " = matmul(%" + of + ", %" + w + n + ") {transpose_b = true}\n";
    };
    body += "  %h" + n + " = rms_norm(%" + x + ", %n1" + n + ")\n";
    product("q", "h" + n, "wq");
    product("k", "h" + n, "wk");
    product("v", "h" + n, "wv");
    for (const std::string side : {"q", "k"})
      body += "  %" + side + "h" + n + " = reshape(%" + side + n + ") {shape = [" +
              std::to_string(kPlaces) + ", " + std::to_string(side == "q" ? kHeads : kKvHeads) +
              ", 16]}\n  %" + side + "t" + n + " = rotary(%" + side + "h" + n + ", %positions)\n";
    for (const auto &[to, from] : {std::pair<std::string, std::string>{"kc", "kt"}, {"vc", "v"}})
      body += "  %" + to + "r" + n + " = reshape(%" + from + n + ") {shape = [2, 1, 2, 16]}\n  %" +
              to + "w" + n + " = cache_write(%" + to + n + ", %" + to + "r" + n +
              ", none, %positions, %lengths)\n";
    body += "  %qr" + n + " = reshape(%qt" + n + ") {shape = [2, 1, 4, 16]}\n";
    body += "  %a" + n + " = attention(%qr" + n + ", %kcw" + n + ", %vcw" + n +
            ", %lengths) {causal = true}\n";
    body += "  %ar" + n + " = reshape(%a" + n + ") {shape = [2, 64]}\n";
    product("o", "ar" + n, "wo");
    body += "  %r" + n + " = add(%" + x + ", %o" + n + ")\n";
    body += "  %m" + n + " = rms_norm(%r" + n + ", %n2" + n + ")\n";
    product("g", "m" + n, "wg");
    product("u", "m" + n, "wu");
    body += "  %s" + n + " = silu(%g" + n + ")\n  %p" + n + " = mul(%s" + n + ", %u" + n + ")\n";
    product("d", "p" + n, "wd");
    body += "  %y" + n + " = add(%r" + n + ", %d" + n + ")\n";
    x = "y" + n;
  }
  made.text = R"(cugrt 1
func @main(%x: )" +
              tensor({kPlaces, kWidth}) + ", %positions: " + tensor({kPlaces}, "i32") +
              ", %lengths: " + tensor({kPlaces}, "i32");
  for (const Parameter &param : made.caches)
    made.text += ",\n    %" + param.name + ": inout " + tensor(param.dims);
  for (const Parameter &param : made.weights)
    made.text += ",\n    %" + param.name + ": " + tensor(param.dims);
  made.text += ") -> (" + tensor({kPlaces, kWidth}) +
               ") attributes {num_inputs = " + std::to_string(3 + made.caches.size()) + "} {\n" +
               body + "  return %" + x + "\n}\n";
  return made;
}

size_t count(const Dims &dims) {
  size_t all = 1;
  for (int64_t dim : dims)
    all *= size_t(dim);
  return all;
}

/// Some steps from positions on that lie in several chunks; all that they give, and the caches.
std::vector<float> steps(const Module &module, const Decoder &decoder, int64_t begin) {
  Weights weights;
  std::vector<std::vector<float>> values;
  uint32_t seed = 1;
  for (const Parameter &param : decoder.weights) {
    values.push_back(numbers(count(param.dims), seed++));
    for (float &value : values.back())
      value *= 0.25f;
  }
  for (size_t i = 0; i < values.size(); ++i)
    weights.add(decoder.weights[i].name, values[i].data(), CUGRT_F32, decoder.weights[i].dims);
  Executable executable(emulated_runtime(), module);
  Session session(executable, emulated_runtime(), weights);
  std::vector<Buffer> caches;
  for (const Parameter &param : decoder.caches)
    caches.push_back(upload(numbers(count(param.dims), seed++)));
  std::vector<float> all;
  for (int32_t step = 0; step < 3; ++step) {
    const Buffer x = upload(numbers(kPlaces * kWidth, 100 + uint32_t(step)));
    const int32_t first = int32_t(begin) + step, second = step;
    const Buffer positions = upload(std::vector<int32_t>{first, second}),
                 lengths = upload(std::vector<int32_t>{first + 1, second + 1});
    std::vector<Value> arguments = {x.tensor(CUGRT_F32, Dims{kPlaces, kWidth}),
                                    positions.tensor(CUGRT_I32, Dims{kPlaces}),
                                    lengths.tensor(CUGRT_I32, Dims{kPlaces})};
    for (size_t i = 0; i < caches.size(); ++i)
      arguments.push_back(caches[i].tensor(CUGRT_F32, decoder.caches[i].dims));
    const std::vector<Value> results = session.run(executable.function("main"), arguments);
    session.synchronize();
    const std::vector<float> y = download<float>(results[0].as.tensor.address, kPlaces * kWidth);
    all.insert(all.end(), y.begin(), y.end());
  }
  for (size_t i = 0; i < caches.size(); ++i) {
    const std::vector<float> cache =
        download<float>(caches[i].address(), count(decoder.caches[i].dims));
    all.insert(all.end(), cache.begin(), cache.end());
  }
  return all;
}

} // namespace

TEST_CASE("steps of a decoder have the same bits with five launches a layer as op by op") {
  for (int64_t capacity : {64, 600}) { // attention in one piece, and in three chunks
    CAPTURE(capacity);
    const Decoder small = decoder(2, capacity);
    const Module module = Module::parse(small.text);
    const Module unfused = module.run_passes(
        {}, {"fuse.patterns=false", "fuse.ops=false", "codegen.programmatic=true"});
    const std::vector<float> got = steps(module, small, capacity - 4),
                             want = steps(unfused, small, capacity - 4);
    REQUIRE(got.size() == want.size());
    CHECK(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0);
    CHECK(std::all_of(got.begin(), got.end(), [](float value) { return std::isfinite(value); }));
  }
}

TEST_CASE("the plan's report has a line for what was fused, and counts a layer's launches") {
  const Module module = Module::parse(decoder(3, 600).text);
  const std::string report = module.plan_report(CUGRT_REPORT_TEXT);
  CHECK(report.find("plan of module: 15 launches") == 0); // five a layer
  CHECK(report.find("fusion in @main: 3 times rms_norm, matmul, matmul, matmul, reshape, rotary, "
                    "reshape, rotary, reshape, cache_write, reshape, cache_write: one launch\n") !=
        report.npos);
  CHECK(report.find("fusion in @main: 3 times rms_norm, matmul, matmul, silu, mul: one launch\n") !=
        report.npos);
  const std::string json = module.plan_report(CUGRT_REPORT_JSON);
  CHECK(json.find("\"fusion\"") != json.npos);
}
