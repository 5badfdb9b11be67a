// Imports an ONNX file as a module: the importer's interface.
//
// Dimensions become symbols, arithmetic over them expressions; weights stay where they lie in the
// file, which the result keeps mapped. A model is taken whole, or every node that cannot be taken
// is named.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::onnx {

/// Dtypes of ONNX's whose elements are held as wider ones here, by their numbers: two integers a
/// byte as i8 and u8, floats of 8 bits as f16, which has all their values.
enum class Narrow : int32_t { none = 0, float8e4m3fn = 17, float8e5m2 = 19, uint4 = 21, int4 = 22 };

/// A tensor on the host: bytes of a file, or its own.
struct HostTensor {
  ir::DType dtype = ir::DType::f32;
  std::vector<int64_t> dims{};
  std::string_view bytes{};
  std::shared_ptr<const std::string> owned{}; // what `bytes` views, where it is no file's
  Narrow narrow = Narrow::none;               // what the file says, where that is no `dtype`
};

/// Camera frames that replace an input that is an image, by --preprocess: bytes, resized linearly
/// to the model's size, if that is a number; then (scale value - mean) / deviation, with one number
/// or one for each channel of the model.
struct Frames {
  bool nv12 = false; // [n, 3 rows / 2, columns]; else [n, rows, columns, channels]
  bool swap = false; // red and blue are the other way round in the model
  std::optional<int64_t> rows, columns; // of a frame; none: what runs are given
  double scale = 1.0 / 255;
  std::vector<double> mean{0}, deviation{1};
};

/// "hwc" or "nv12", and with commas: "swap", "size=ROWSxCOLUMNS", "scale=A", "mean=A:B:C",
/// "std=A:B:C". Errors name the mistake in the text.
Result<Frames> parse_frames(const std::string &text);

struct Options {
  std::map<std::string, std::string> dims; // a dimension's name in the file: a symbol, or a number
  std::map<std::string, ir::Interval> bounds; // of symbols
  std::map<std::string, std::string> bind;    // an input: numbers, as text
  std::map<std::string, Frames> frames;       // an input that is an image: what it is made of
  /// Arguments that a run will get: their values are read if an input must be a constant, their
  /// shapes bound the symbols.
  std::map<std::string, HostTensor> given;
  bool fix_given = false; // symbols get the given inputs' dimensions, and no input stays a symbol
  /// Every floating value of the graph that is computed on the device is a result, behind the
  /// model's own, in the order of its nodes.
  bool every_value = false;
};

enum class InputKind { tensor, integer, shape };

struct Input {
  std::string name;      // in the file
  std::string parameter; // of the function; empty where it is bound to a value
  InputKind kind = InputKind::tensor;
};

struct Imported {
  ir::Module module;
  struct Weight {
    std::string name;
    HostTensor tensor;
  };
  std::vector<Weight> weights;
  std::vector<Input> inputs;
  struct Output {
    std::string name, node, op; // in the file; no node where it is an input or initial value
    size_t place = 0;           // of the node in its graph
  };
  std::vector<Output> outputs;
  /// A value of the function, and the node of the file that it comes from: its name, or that of its
  /// first output.
  std::vector<std::pair<std::string, std::string>> nodes;
  std::vector<std::pair<std::string, std::string>> symbols; // a dimension's name, and the symbol
  std::string note; // why it is for the given shapes alone; empty: it is not
  std::vector<std::shared_ptr<const void>> files; // what views of bytes look into
};

/// The module is verified. One that cannot be for all values of its symbols is made for the given
/// inputs' shapes, where there are such, and says so.
Result<Imported> import_file(const std::string &path, const Options &options);
/// `folder`: where external data are looked for; empty: there are none.
Result<Imported> import_bytes(std::string_view bytes, const std::string &folder,
                              const Options &options);

/// Names of the model's inputs, in order, without those that have a value in the file.
Result<std::vector<std::string>> input_names(const std::string &path);

/// The tensors as a safetensors file, in one piece before the first byte is written.
Status write_weights(const std::string &path, const Imported &imported);

} // namespace cugrt::onnx
