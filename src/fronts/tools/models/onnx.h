// ONNX files as modules: what commands do with a MODULE that is one.
#pragma once

#include "npy.h"
#include "tool.h"

#include <cugrt/onnx.h>

#include <map>
#include <memory>
#include <optional>

namespace tool {

/// Whether the file is an ONNX model, by its name or its first byte, which no text has.
bool is_onnx(const std::string &path);

/// What an ONNX file calls its inputs.
struct OnnxInputs {
  std::vector<std::pair<std::string, std::string>> parameters; // name, parameter
  std::vector<std::pair<std::string, Array>> bound;            // to what was given as a file
  std::map<std::string, std::string> nodes; // of each value of the function: the file's node
};

/// An imported model, kept for its weights.
class OnnxModel {
public:
  /// `inputs` are those of a run, NAME=FILE.npy with the file's own names: shapes and values of
  /// theirs bound symbols and take the places of constants. A model that needs them all as numbers
  /// gets them so, and that is said.
  OnnxModel(const std::string &path, const ImportOptions &options,
            const std::vector<std::string> &inputs = {});

  cugrt::Module module() const;
  /// They lie in the file's pages, and keep it mapped.
  cugrt::Weights weights() const;
  void write_text(const std::string &path) const;
  void write_weights(const std::string &path) const;
  bool has_weights() const;
  /// The inputs as they were given, under the names of the function's parameters; what is bound is
  /// left out.
  const std::vector<std::string> &renamed() const { return renamed_; }
  OnnxInputs inputs() const;
  struct Output {
    std::string name, node, op; // of the file
    size_t place = 0;           // of the node in its graph
  };
  std::vector<Output> outputs() const;
  /// `module`, made from this model, as an ONNX file with the model's weights and names.
  void write_onnx(const cugrt::Module &module, const std::string &path) const;
  /// The map from dimensions to symbols, one a line.
  std::string symbols_text() const;

private:
  std::string path_;
  /// Bytes of given inputs that the model's views refer to; lives as long as it.
  std::shared_ptr<std::vector<Array>> given_ = std::make_shared<std::vector<Array>>();
  std::vector<std::string> given_names_, renamed_;
  std::shared_ptr<cugrt_onnx_model> model_;
};

/// A module before it is lowered as an ONNX file; weights are inputs, or `model`'s.
void write_onnx(const cugrt::Module &module, const cugrt_onnx_model *model,
                const std::string &path);

} // namespace tool
