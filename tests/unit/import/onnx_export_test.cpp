// Modules as ONNX files: read again they are the modules that they were, and what a file cannot say
// or hold is refused.
#include "fronts/onnx/export/export.h"
#include "fronts/onnx/file/model.h"
#include "fronts/onnx/file/tensor.h"
#include "fronts/onnx/import.h"
#include "ir/text/text.h"
#include "support/must.h"

using namespace cugrt;
using cugrt::test::must;

namespace {

ir::Module parsed(const std::string &text) { return must(ir::parse_and_verify(text, "m.cugrt")); }

std::string whole(const onnx::ExportedFile &file) {
  std::string bytes;
  for (const std::string_view part : file.parts)
    bytes += part;
  return bytes;
}

std::string exported(const std::string &text, const onnx::ExportOptions &options = {}) {
  const ir::Module module = parsed(text);
  auto file = must(onnx::export_module(module, options));
  return whole(file);
}

std::string error_of(const std::string &text, const onnx::ExportOptions &options = {}) {
  const ir::Module module = parsed(text);
  auto file = onnx::export_module(module, options);
  return file.ok() ? "" : file.status().message();
}

const std::string kModel = R"(cugrt 1

func @main(%x: tensor<[n, 6], f32>, %w: tensor<[6, 4], f32>) -> (tensor<[n, 4], f32>)
    attributes {num_inputs = 1, upper_bounds = {n = 16}} {
  %h = matmul(%x, %w)
  %r = relu(%h)
  return %r
}
)";

} // namespace

TEST_CASE("an exported module is imported as what it was") {
  const std::string weight(6 * 4 * sizeof(float), '\1');
  onnx::ExportOptions options;
  options.weights["w"] = {ir::DType::f32, {6, 4}, weight};
  options.names["x"] = "in:0";
  options.results = {"out/0"};
  const std::string bytes = exported(kModel, options);
  auto imported = must(onnx::import_bytes(bytes, "", {}));
  REQUIRE(imported.inputs.size() == 1);
  CHECK(imported.inputs[0].name == "in:0");
  REQUIRE(imported.outputs.size() == 1);
  CHECK(imported.outputs[0].name == "out/0");
  auto model = must(onnx::read_model(bytes));
  REQUIRE(model.graph.initializers.size() == 1);
  CHECK(model.graph.initializers[0].raw == weight);
  const std::string text = ir::print(imported.module);
  CHECK(text.find("= matmul(") != std::string::npos);
  CHECK(text.find("= relu(") != std::string::npos);
  CHECK(text.find("tensor<[n, 6], f32>") != std::string::npos);
}

TEST_CASE("weights that are not at hand are inputs, and private functions are the file's own") {
  const std::string bytes = exported(R"(cugrt 1

private func @twice(%a: tensor<[n, 6], f32>) -> (tensor<[n, 6], f32>) {
  %r = add(%a, %a)
  return %r
}

func @main(%x: tensor<[n, 6], f32>, %w: tensor<[n, 6], f32>) -> (tensor<[n, 6], f32>)
    attributes {num_inputs = 1, upper_bounds = {n = 16}} {
  %t = call @twice(%x)
  %r = mul(%t, %w)
  return %r
}
)");
  auto model = must(onnx::read_model(bytes));
  CHECK(model.graph.inputs.size() == 2);
  CHECK(model.graph.initializers.empty());
  REQUIRE(model.functions.size() == 1);
  CHECK(model.functions[0].name == "twice");
  CHECK(model.functions[0].domain == "cugrt.functions");
}

TEST_CASE("a file that protobuf cannot hold is refused before it is made") {
  onnx::ExportOptions options; // the bytes are never read
  options.weights["w"] = {ir::DType::f32, {6, 4}, std::string_view("", size_t(1) << 31)};
  CHECK(error_of(kModel, options).find("larger than 2 GB") != std::string::npos);
}

TEST_CASE("what is bound to storage, and what is no tensor, is named") {
  const std::string lowered = R"(cugrt 1

func @main(%x: tensor<[8], f32>) -> (tensor<[4], f32>) {
  %v = view %x, 16 : tensor<[4], f32>
  return %v
}
)";
  const std::string error = error_of(lowered);
  CHECK(error.find("'%v = view %x, 16") != std::string::npos);
  CHECK(error.find("before it is lowered") != std::string::npos);
  CHECK(error_of(kModel, {.function = "other"}).find("no function @other") != std::string::npos);
}

TEST_CASE("every dtype has a number of ONNX's, and block formats are bytes") {
  CHECK(onnx::onnx_dtype(ir::DType::f32) == 1);
  CHECK(onnx::onnx_dtype(ir::DType::bf16) == 16);
  CHECK(onnx::onnx_dtype(ir::DType::boolean) == 9);
  CHECK(onnx::onnx_dtype(ir::DType::q4_k) == 2);
}
