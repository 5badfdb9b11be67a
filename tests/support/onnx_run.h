// ONNX models from their bytes to results, through the public C++ API on the emulated driver.
#pragma once

#include "support/api_fixture.h"
#include "support/onnx_bytes.h"
#include "support/temporary_folder.h"

#include <fstream>

namespace cugrt::test::onnx_run {

using namespace cugrt::test::onnx_bytes;

constexpr unsigned kU8 = 2, kI8 = 3, kI32 = 6, kBool = 9; // ONNX's numbers of dtypes

/// A tensor of a model: an input of the run, or an initial value.
struct Given {
  std::string name;
  unsigned dtype = kF32;
  std::vector<int64_t> dims{};
  std::string bytes_of{};
  bool is_weight = false;
  std::vector<std::string> names{}; // of the first dimensions in the file, where they have some
  unsigned declared = 0;            // the input's dtype in the file, where it is another
};

template <class T> std::string raw(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}
inline Given floats(const std::string &name, std::vector<int64_t> dims,
                    const std::vector<float> &values) {
  return {name, kF32, std::move(dims), raw(values)};
}
inline Given weight(Given given) {
  given.is_weight = true;
  return given;
}

inline std::string float_attribute(const std::string &name, float number_of) {
  uint32_t bits;
  std::memcpy(&bits, &number_of, 4);
  std::string four(reinterpret_cast<const char *>(&bits), 4);
  return bytes(5, bytes(1, name) + varint(2 << 3 | 5) + four + number(20, 1));
}
inline std::string microsoft_node(const std::string &op, const std::vector<std::string> &inputs,
                                  const std::vector<std::string> &outputs,
                                  const std::string &attributes = "") {
  return node(op, inputs, outputs, attributes + bytes(7, "com.microsoft"));
}

inline cugrt_dtype dtype_of(unsigned dtype) {
  return dtype == kF32    ? CUGRT_F32
         : dtype == kU8   ? CUGRT_U8
         : dtype == kI8   ? CUGRT_I8
         : dtype == kI32  ? CUGRT_I32
         : dtype == kBool ? CUGRT_BOOL
                          : CUGRT_I64;
}

/// A result on the host.
template <class T> struct Ran {
  std::vector<int64_t> dims;
  std::vector<T> values;
};

/// The result "y" of the nodes.
template <class T>
Ran<T> run_model(const std::string &nodes, const std::vector<Given> &given,
                 const ImportOptions &options = {}, uint64_t opset = 17) {
  std::string graph = nodes;
  for (const Given &one : given) {
    if (!one.is_weight) {
      std::vector<std::string> dims = one.names;
      for (size_t i = dims.size(); i < one.dims.size(); ++i)
        dims.push_back(std::to_string(one.dims[i]));
      graph += input(one.name, one.declared ? one.declared : one.dtype, dims);
      continue;
    }
    std::string tensor;
    for (int64_t dim : one.dims)
      tensor += number(1, uint64_t(dim));
    graph += bytes(5, tensor + number(2, one.dtype) + bytes(8, one.name) + bytes(9, one.bytes_of));
  }
  graph += output("y",
                  std::is_same_v<T, float>     ? kF32
                  : std::is_same_v<T, int64_t> ? kI64
                  : std::is_same_v<T, int32_t> ? kI32
                                               : kU8,
                  {});
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/m.onnx", std::ios::binary) << model(graph, opset);
  Runtime &runtime = emulated_runtime();
  const Module module = Module::load(folder.path + "/m.onnx", options);
  INFO(module.print());
  CHECK_NOTHROW(Module::parse(module.print())); // as text it is the same module
  Executable executable(runtime, module);
  Session session(executable, runtime, module.weights());
  std::vector<Buffer> buffers;
  std::vector<Value> arguments;
  for (const std::string &name : module.input_names())
    for (const Given &one : given)
      if (one.name == name &&
          executable.function("main").param(arguments.size()).kind == CUGRT_VALUE_INT) {
        int64_t integer = 0;
        std::memcpy(&integer, one.bytes_of.data(), sizeof integer);
        arguments.push_back(Value(integer));
      } else if (one.name == name &&
                 executable.function("main").param(arguments.size()).kind == CUGRT_VALUE_SHAPE) {
        std::vector<int64_t> dims(one.bytes_of.size() / sizeof(int64_t));
        std::memcpy(dims.data(), one.bytes_of.data(), one.bytes_of.size());
        arguments.push_back(Value::shape(dims));
      } else if (one.name == name) {
        buffers.push_back(upload(std::vector<char>(one.bytes_of.begin(), one.bytes_of.end())));
        arguments.push_back(buffers.back().tensor(dtype_of(one.dtype), one.dims));
      }
  const Function main = executable.function("main");
  const auto results = session.run(main, arguments);
  session.synchronize();
  const cugrt_tensor y = session.counted(runtime, main, results, 0);
  return {{y.dims, y.dims + y.rank}, download<T>(y.address, elements(y))};
}

template <class T> std::vector<T> run(const std::string &nodes, const std::vector<Given> &given) {
  return run_model<T>(nodes, given).values;
}

} // namespace cugrt::test::onnx_run
