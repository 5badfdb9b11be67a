// ONNX's node tests through the importer and the library, in one process.
//
//   run_onnx_nodes FOLDER [--least N] [--only TEXT]
//
// The driver is CUGRT_DRIVER's. Each folder in FOLDER holds model.onnx and test_data_set_0 with
// input_N.pb and output_N.pb. A model that the importer does not take says why, and is counted; one
// with another result, or that the library refuses after the import, is a failure, and so is
// passing fewer than N. Names of models with random results, and those that other runtimes answer
// otherwise, are left out.
#include "base/file.h"
#include "base/type/element.h"
#include "fronts/onnx/file/tensor.h"
#include "fronts/onnx/import.h"
#include "ir/text/text.h"

#include <cugrt/cugrt.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>

using namespace cugrt;
namespace fs = std::filesystem;

namespace {

struct Tensor {
  std::string file; // what the tensor views
  onnx::HostTensor tensor;
};

struct Case {
  std::string name, model;
  std::vector<Tensor> inputs, wanted;
};

/// Models whose inputs and outputs are no tensors of our dtypes are no cases.
bool read_tensors(const fs::path &folder, const char *kind, std::vector<Tensor> &out) {
  onnx::ExternalFiles none("");
  for (size_t i = 0;; ++i) {
    const fs::path path = folder / (kind + std::string("_") + std::to_string(i) + ".pb");
    if (!fs::exists(path))
      return true;
    auto bytes = read_file(path.string(), uint64_t(1) << 30);
    if (!bytes.ok())
      return false;
    Tensor &tensor = out.emplace_back(Tensor{std::move(*bytes), {}});
    auto view = onnx::read_tensor(tensor.file);
    if (!view.ok())
      return false;
    auto loaded = onnx::load_tensor(*view, none);
    if (!loaded.ok())
      return false;
    tensor.tensor = std::move(*loaded);
    if (!tensor.tensor.owned) { // the string moves with the vector
      tensor.tensor.owned = std::make_shared<const std::string>(tensor.tensor.bytes);
      tensor.tensor.bytes = *tensor.tensor.owned;
    }
  }
}

bool left_out(const std::string &name) {
  for (const char *one :
       {"test_bernoulli", "test_training_dropout", "test_maxunpool_export_with_output_shape",
        "test_resize_downsample_scales_linear_align_corners",
        "test_resize_downsample_scales_cubic_align_corners"})
    if (name.rfind(one, 0) == 0)
      return true;
  return name.rfind("test_attention_4d", 0) == 0 &&
         name.find("qk_matmul_bias") != std::string::npos && name.size() > 12 &&
         name.compare(name.size() - 12, 12, "_mask_causal") == 0;
}

/// Models whose outputs were written down with four digits, or made with a pi of five.
bool is_rounded(const std::string &name) {
  for (const char *one : {"test_blackmanwindow", "test_hammingwindow", "test_hannwindow",
                          "test_gridsample_bicubic", "test_roialign"})
    if (name.rfind(one, 0) == 0)
      return true;
  return false;
}

std::string difference(const std::string &name, const cugrt_tensor &got, const std::string &bytes,
                       onnx::HostTensor want) {
  if (want.dtype == ir::DType::u16 && got.dtype == CUGRT_BF16) // the file gives its bits
    want.dtype = ir::DType::bf16;
  if (got.dtype != cugrt_dtype(want.dtype))
    return "another dtype";
  if (!std::equal(got.dims, got.dims + got.rank, want.dims.begin(), want.dims.end()))
    return "another shape";
  const size_t size = ir::info(want.dtype).bytes_per_block;
  if (ir::info(want.dtype).kind != ir::DTypeKind::floating)
    return bytes == want.bytes ? "" : "other values";
  // Sums that cancel are off by their terms' rounding: errors are relative to the largest result.
  double scale = 1;
  for (size_t i = 0; i < bytes.size(); i += size)
    if (const double y = std::fabs(ir::float_at(want.dtype, want.bytes.data() + i));
        std::isfinite(y))
      scale = std::max(scale, y);
  const bool half = want.dtype == ir::DType::f16, brain = want.dtype == ir::DType::bf16;
  const double relative = brain              ? 1e-2 // the models' bf16 is cut off, not rounded
                          : half             ? 2e-3
                          : is_rounded(name) ? 1e-3
                                             : 1e-4;
  const double absolute = brain ? 1e-2 : half ? 1e-3 : 1e-6 * scale;
  for (size_t i = 0; i < bytes.size(); i += size) {
    const double x = ir::float_at(want.dtype, bytes.data() + i),
                 y = ir::float_at(want.dtype, want.bytes.data() + i);
    if (std::isnan(x) != std::isnan(y) ||
        (!std::isnan(y) && x != y && !(std::fabs(x - y) <= absolute + relative * std::fabs(y))))
      return "element " + std::to_string(i / size) + " is " + std::to_string(x) + ", not " +
             std::to_string(y);
  }
  return "";
}

/// The difference, or nothing.
std::string run(Runtime &runtime, const Case &test, const onnx::Imported &imported) {
  Weights weights;
  for (const auto &weight : imported.weights)
    weights.add(weight.name, weight.tensor.bytes.data(), cugrt_dtype(weight.tensor.dtype),
                weight.tensor.dims);
  const Module module = Module::parse(ir::print(imported.module), test.name, "");
  Executable executable(runtime, module);
  const Function function = executable.function("main");
  std::vector<Buffer> buffers;
  std::vector<Value> arguments;
  for (size_t i = 0; i < imported.inputs.size(); ++i) {
    const onnx::HostTensor &tensor = test.inputs.at(i).tensor;
    if (imported.inputs[i].parameter.empty())
      continue;
    const std::vector<int64_t> integers = onnx::integers_of(tensor);
    if (imported.inputs[i].kind == onnx::InputKind::integer) {
      arguments.push_back(Value(integers.at(0)));
      continue;
    }
    if (imported.inputs[i].kind == onnx::InputKind::shape) {
      arguments.push_back(Value::shape(integers));
      continue;
    }
    buffers.emplace_back(runtime, std::max<uint64_t>(1, tensor.bytes.size()));
    copy_to_device(runtime, buffers.back().address(),
                   std::as_bytes(std::span(tensor.bytes.data(), tensor.bytes.size())));
    arguments.push_back(buffers.back().tensor(cugrt_dtype(tensor.dtype), tensor.dims));
  }
  Session session(executable, runtime, weights);
  const std::vector<Value> results = session.run(function, arguments);
  session.synchronize();
  for (size_t i = 0; i < test.wanted.size(); ++i) {
    if (i >= results.size() || results[i].kind != CUGRT_VALUE_TENSOR)
      return "result " + std::to_string(i) + " is missing";
    const cugrt_tensor tensor = session.counted(runtime, function, results, i);
    std::string bytes(test.wanted[i].tensor.bytes.size(), '\0');
    uint64_t have = ir::info(static_cast<ir::DType>(tensor.dtype)).bytes_per_block;
    for (uint32_t d = 0; d < tensor.rank; ++d)
      have *= uint64_t(tensor.dims[d]);
    if (have == bytes.size() && have)
      copy_to_host(runtime, std::as_writable_bytes(std::span(bytes.data(), bytes.size())),
                   tensor.address);
    if (const std::string what = difference(test.name, tensor, bytes, test.wanted[i].tensor);
        !what.empty())
      return "result " + std::to_string(i) + ": " + what;
  }
  return "";
}

} // namespace

int main(int argc, char **argv) {
  std::string folder, only;
  size_t least = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--least" && i + 1 < argc)
      least = std::stoul(argv[++i]);
    else if (word == "--only" && i + 1 < argc)
      only = argv[++i];
    else
      folder = word;
  }
  if (!fs::is_directory(folder)) {
    std::cout << "there are no models in '" << folder << "': Debian's libonnx-testdata has them\n";
    return 77;
  }
  std::vector<fs::path> paths;
  for (const auto &entry : fs::directory_iterator(folder))
    if (fs::exists(entry.path() / "model.onnx"))
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  Runtime runtime;
  size_t passed = 0, failed = 0, all = 0;
  std::map<std::string, size_t> reasons;
  for (const fs::path &path : paths) {
    Case test{path.filename().string(), (path / "model.onnx").string(), {}, {}};
    if (left_out(test.name) || test.name.find(only) == std::string::npos ||
        !read_tensors(path / "test_data_set_0", "input", test.inputs) ||
        !read_tensors(path / "test_data_set_0", "output", test.wanted) || test.wanted.empty())
      continue;
    ++all;
    std::string what;
    try {
      onnx::Options wanted;
      const auto names = onnx::input_names(test.model);
      for (size_t i = 0; names.ok() && i < test.inputs.size() && i < names->size(); ++i)
        wanted.given[(*names)[i]] = test.inputs[i].tensor;
      const auto imported = onnx::import_file(test.model, wanted);
      if (!imported.ok()) {
        std::string why = imported.status().message();
        for (const std::string &before : {"'" + test.model + "': ", std::string("imported: ")})
          if (const size_t at = why.find(before); at != std::string::npos)
            why = why.substr(at + before.size());
        ++reasons[why.substr(0, why.find_first_of(",;'"))];
        std::cout << "not taken: " << test.name << ": " << why << std::endl;
        continue;
      }
      what = run(runtime, test, *imported);
    } catch (const std::exception &error) {
      what = error.what();
    }
    if (what.empty()) {
      ++passed;
      continue;
    }
    ++failed;
    std::cout << "failed: " << test.name << "\n  " << what << std::endl;
  }
  if (passed < least) {
    ++failed;
    std::cout << "failed: as many models pass as before\n  " << passed << ", not " << least << "\n";
  }
  std::cout << passed << " of " << all << " models pass; not taken:";
  for (const auto &[op, count] : reasons)
    std::cout << "\n  " << count << " " << op;
  std::cout << "\n" << passed << " passed, " << failed << " failed, 0 skipped\n";
  return failed ? 1 : 0;
}
