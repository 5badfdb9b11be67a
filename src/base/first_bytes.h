// Recognises files by their first bytes. In a header, since the smallest library does not need it.
#pragma once

#include "base/file.h"

#include <string>
#include <string_view>

namespace cugrt {

/// The first 16 bytes of a regular file; fewer, or none, if it is shorter or unreadable. The reader
/// of the file reports the reason.
inline std::string first_bytes(const std::string &path) {
  Result<RegularFile> file = open_regular(path);
  std::string begin(16, '\0');
  const Result<size_t> read = file.ok() ? file->read(begin.data(), begin.size()) : size_t(0);
  begin.resize(read.ok() ? *read : 0);
  return begin;
}

/// Kind of a file by its first bytes (16 or more, if it has them) and the commands that take it: "a
/// pack: ..."; empty for an unknown kind, such as text that is none of ours.
inline std::string_view told_by_first_bytes(std::string_view bytes) {
  static constexpr struct {
    size_t at;
    std::string_view begin, what;
  } kKinds[] = {
      {5, {"\0\0\0{", 4}, "safetensors, weights without a model: --weights FILE takes it"},
      {0, "cugrtpak", "a pack, planned and compiled: run, bench, trace and plan take it"},
      {0, "cugrt ", "a module's text: run, plan, compile, opt, bench and trace take it"},
      {0, "GGUF",
       "a language model: libcugrt-llm, and generate, chat, tokenize, plan, compile and bench take "
       "it"},
      {0, "\x93NUMPY", "an array of NumPy: --input NAME=FILE takes it"},
      {0, "PK\3\4",
       "a zip archive, as torch.export saves programs: python -m cugrt run MODEL.pt2 "
       "runs one where torch and apache-tvm are"},
      {0, "{",
       "JSON, as TVM saves Relax modules: python -m cugrt import MODULE.json -o "
       "MODEL.cugrt makes a module of it"},
      {0,
       "\x7f"
       "ELF",
       "a program or library"},
      {0, "\x89HDF", "HDF5, as Keras saves models: cugrt takes them as ONNX"},
      {0, "\x80", "a pickle, which runs as code: cugrt takes models as ONNX"},
      {0, "\x1f\x8b", "compressed by gzip"},
      {4, "TFL3", "a TensorFlow Lite model: cugrt takes models as ONNX"},
      {4, "ORTM", "in ONNX Runtime's own format: cugrt takes the ONNX file that it was made of"},
      {0, "\b", "an ONNX model: run, plan, compile, opt, bench, trace and import take it"},
  };
  for (const auto &kind : kKinds)
    if (bytes.size() >= kind.at && bytes.substr(kind.at, kind.begin.size()) == kind.begin)
      return kind.what;
  return {};
}

} // namespace cugrt
