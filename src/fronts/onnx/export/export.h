// Exports a module as an ONNX file: ops as nodes, private functions as local functions, arithmetic
// over symbols as nodes over shapes.
//
// An op that ONNX lacks is a node of the domain "cugrt", with the op's name and attributes: other
// programs show it, and none runs it. Storage, views and launches that are bound to it have no
// place in ONNX: the module is one before LegalizeOps.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::onnx {

inline constexpr int64_t kExportOpset = 21, kExportIr = 10;

struct ExportedWeight {
  ir::DType dtype = ir::DType::f32;
  std::vector<int64_t> dims{};
  std::string_view bytes{};
};

struct ExportOptions {
  std::string function{}; // without @; empty: main, or the only public one
  std::map<std::string, ExportedWeight>
      weights{};                              // by parameter; those that are not here are inputs
  std::map<std::string, std::string> names{}; // what parameters are called in the file
  std::vector<std::string> results{};         // what results are called; others are result0, ...
};

/// The file, as parts that follow each other: views of weights, and bytes of its own. The module is
/// verified; it and the weights outlive the parts. Code::unsupported names a binding that ONNX
/// cannot say, or a file of more than 2 GB, which protobuf cannot hold.
struct ExportedFile {
  std::vector<std::string> owned; // what parts view, but for weights
  std::vector<std::string_view> parts;
};
Result<ExportedFile> export_module(const ir::Module &module, const ExportOptions &options);

} // namespace cugrt::onnx
