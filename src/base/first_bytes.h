// What a file is by its first bytes. In a header: the smallest library has no use for it.
#pragma once

#include <algorithm>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace cugrt {

/// The first 16 bytes of a regular file; fewer, or none, where it has no more or cannot be read.
/// What takes the file says why.
inline std::string first_bytes(const std::string &path) {
  // Without O_NONBLOCK a pipe without a writer would hold the caller.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return {};
  std::string begin(16, '\0');
  struct stat info;
  const bool regular = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  const ssize_t read = regular ? ::read(file, begin.data(), begin.size()) : 0;
  ::close(file);
  begin.resize(static_cast<size_t>(std::max<ssize_t>(read, 0)));
  return begin;
}

/// What a file is by its first bytes (16 or more, where it has them) and what takes it: "a pack:
/// ..."; empty for what is not known, as text that is none of ours.
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
