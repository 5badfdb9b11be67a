// Modules from files by their content, through the public API: an ONNX model with its weights.
#include "support/api_fixture.h"
#include "support/onnx_bytes.h"
#include "support/temporary_folder.h"

#include <fstream>
#include <functional>
#include <sys/stat.h>

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;

namespace {

constexpr size_t kInner = 4, kColumns = 300; // more than what stands in the module's text

std::string written(const TemporaryFolder &folder, const std::string &name,
                    const std::string &content) {
  const std::string path = folder.path + "/" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

/// y:0 = x:0 w, with x of [batch, 4] and w of [4, 300].
std::string product_model(const std::vector<float> &w) {
  const std::string raw(reinterpret_cast<const char *>(w.data()), w.size() * sizeof(float));
  return model(node("MatMul", {"x:0", "w"}, {"y:0"}) +
               bytes(5, number(1, kInner) + number(1, kColumns) + number(2, kF32) + bytes(8, "w") +
                            bytes(9, raw)) +
               input("x:0", kF32, {"batch", "4"}) + output("y:0", kF32, {"batch", "300"}));
}

} // namespace

TEST_CASE(
    "an ONNX model is loaded by its content, runs with the weights in its file, and tells the "
    "file's names") {
  const TemporaryFolder folder;
  const std::vector<float> w = whole_numbers(kInner * kColumns, 1),
                           x = whole_numbers(2 * kInner, 2);
  const std::string path = written(folder, "model.bin", product_model(w));
  Runtime &runtime = emulated_runtime();
  Weights weights;
  std::unique_ptr<Executable> executable;
  {
    const Module module = Module::load(path);
    CHECK(module.input_names() == std::vector<std::string>{"x:0"});
    CHECK(module.result_names() == std::vector<std::string>{"y:0"});
    CHECK(module.run_passes().input_names() == module.input_names());
    weights = module.weights();
    executable = std::make_unique<Executable>(runtime, module);
  } // the weights keep the file mapped
  REQUIRE(weights.count() == 1);
  Session session(*executable, runtime, weights);
  Buffer input = upload(x);
  const auto results =
      session.run(executable->function("main"), {input.tensor(CUGRT_F32, {2, kInner})});
  REQUIRE(results.size() == 1);
  std::vector<double> expected(2 * kColumns, 0);
  for (size_t i = 0; i < 2; ++i)
    for (size_t j = 0; j < kColumns; ++j)
      for (size_t k = 0; k < kInner; ++k)
        expected[i * kColumns + j] += double(x[i * kInner + k]) * double(w[k * kColumns + j]);
  session.synchronize();
  check_close(download<float>(results[0].as.tensor.address, 2 * kColumns), expected, 0);
}

TEST_CASE("files of PyTorch and of TVM's Relax name the command that takes them") {
  const TemporaryFolder folder;
  for (const auto &[content, said] :
       {std::pair("PK\x03\x04 and more", "python -m cugrt run MODEL.pt2"),
        std::pair("{\n \"root_index\": 1}", "python -m cugrt import MODULE.json")}) {
    const std::string path = written(folder, "file", content);
    const std::string message = error_of([&] { Module::load(path); }).what();
    INFO(message);
    CHECK(message.starts_with("'" + path + "' is "));
    CHECK(message.find(said) != std::string::npos);
  }
}

TEST_CASE("options of an import name dimensions, bound them and bind inputs") {
  const TemporaryFolder folder;
  const std::string path =
      written(folder, "m.onnx",
              model(node("CumSum", {"x", "axis"}, {"y"}) + input("x", kF32, {"batch", "cols"}) +
                    input("axis", kI64, {}) + output("y", kF32, {"batch", "cols"})));
  CHECK(std::string(error_of([&] { Module::load(path); }).what()).find("axis") !=
        std::string::npos);
  const Module module =
      Module::load(path, {.dims = {"batch=n", "cols=7"}, .bounds = {"n=2..5"}, .bind = {"axis=1"}});
  const std::string text = module.print();
  INFO(text);
  CHECK(text.find("tensor<[n, 7], f32>") != std::string::npos);
  CHECK(text.find("upper_bounds = {n = 5}") != std::string::npos);
  CHECK(module.input_names() == std::vector<std::string>{"x"});
  CHECK(error_of([&] { Module::load(path, {.bounds = {"n"}}); }).code() == CUGRT_INVALID_ARGUMENT);
}

TEST_CASE("text has no weights and no names of a file; what is no module says what it is") {
  const TemporaryFolder folder;
  const std::string text = "cugrt 1\n\nfunc @main(%x: tensor<[4], f32>) -> (tensor<[4], f32>) {\n"
                           "  %y = relu(%x)\n  return %y\n}\n";
  const Module module = Module::load(written(folder, "m.cugrt", text));
  CHECK(module.weights().count() == 0);
  CHECK(module.input_names().empty());
  const auto message = [&](const std::string &name, const std::string &content) {
    const std::string path = written(folder, name, content);
    return std::string(error_of([&] { Module::load(path); }).what());
  };
  CHECK(message("a", CUGRT_PACK_MAGIC "rest").find("pack_load") != std::string::npos);
  CHECK(message("b", "GGUF\3").find("libcugrt-llm") != std::string::npos);
  CHECK(message("c", "\x08\x07").find("no graph") != std::string::npos);
  CHECK(error_of([&] { Module::load(written(folder, "d", text), ImportOptions{}); }).code() ==
        CUGRT_PARSE_ERROR);
  CHECK(error_of([&] { Module::load(folder.path + "/none"); }).code() == CUGRT_NOT_FOUND);
  REQUIRE(::mkfifo((folder.path + "/pipe").c_str(), 0600) == 0); // nobody writes into it
  CHECK(std::string(error_of([&] { Module::load(folder.path + "/pipe"); }).what())
            .find("not a regular file") != std::string::npos);
}

TEST_CASE("modules of files are linked by the files' names, and their weights are saved and read") {
  const TemporaryFolder folder;
  const std::vector<float> w = whole_numbers(kInner * kColumns, 1);
  const Module product = Module::load(written(folder, "a.onnx", product_model(w)));
  const Module same = Module::load(written(folder, "b.onnx", product_model(w)));
  const Module relu = Module::parse("cugrt 1\nfunc @main(%x: tensor<[m, 300], f32>) -> "
                                    "(tensor<[m, 300], f32>) {\n  %y = relu(%x)\n  return %y\n}\n");
  const Module linked =
      Module::link({{"a", product}, {"b", same}, {"r", relu}}, {{"r.x", "b.y:0"}});
  CHECK(linked.input_names() == std::vector<std::string>{"a.x:0", "b.x:0"});
  CHECK(linked.result_names() == std::vector<std::string>{"a.y:0", "r.result0"});
  CHECK(linked.run_passes().input_names() == linked.input_names());

  const Weights weights = linked.weights();
  REQUIRE(weights.count() == 1); // the same bytes
  weights.save(folder.path + "/w.safetensors");
  const Weights read = Weights::load(folder.path + "/w.safetensors");
  REQUIRE(read.count() == 1);
  const char *name = nullptr;
  cugrt_tensor tensor{};
  check(api().weights_at(read.get(), 0, &name, &tensor));
  CHECK(std::string(name) == "a.w");
  REQUIRE((tensor.rank == 2 && tensor.dims[0] == kInner && tensor.dims[1] == kColumns));
  const auto *values = reinterpret_cast<const float *>(static_cast<uintptr_t>(tensor.address));
  CHECK(std::vector<float>(values, values + w.size()) == w);

  const auto message = [](const std::function<void()> &call) {
    return std::string(error_of(call).what());
  };
  CHECK(message([&] { weights.save(folder.path + "/none/w"); }).find("none/w") !=
        std::string::npos);
  CHECK(message([&] { Module::link({}, {}); }).find("parts") != std::string::npos);
  CHECK(message([&] {
          Module::link({{"a", product}}, {{"a.x:1", "a.y:0"}});
        }) == "part 'a' has no input 'x:1': it has 'x_0'");
}
