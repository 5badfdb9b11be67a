// Opens NVRTC as the library does.
#include "support/nvrtc.h"

#include "jit/nvrtc.h"

#include <cstdio>
#include <cstdlib>

namespace cugrt::test {

namespace {

std::unique_ptr<jit::Nvrtc> open() {
  auto location = jit::find_nvrtc("");
  auto nvrtc = location.ok() ? jit::open_nvrtc(*location) : location.take_status();
  if (nvrtc.ok())
    return std::move(*nvrtc);
  fprintf(stderr, "%s\n", nvrtc.status().message().c_str());
  std::exit(1);
}

} // namespace

Compiled compile_to_ptx(std::string_view source, std::string_view target,
                        const std::vector<std::string> &options) {
  static const std::unique_ptr<jit::Nvrtc> nvrtc = open();
  const jit::NvrtcApi &api = nvrtc->api;
  std::string text(source), architecture = "--gpu-architecture=" + std::string(target);
  std::string include = "--include-path=" + nvrtc->location.include_folder;
  std::vector<const char *> arguments{architecture.c_str(), include.c_str(), "--std=c++17",
                                      "--device-as-default-execution-space"};
  for (const std::string &option : options)
    arguments.push_back(option.c_str());
  Compiled result;
  jit::NvrtcApi::Program program = nullptr;
  if (api.CreateProgram(&program, text.c_str(), "test.cu", 0, nullptr, nullptr) != 0)
    return result;
  int status = api.CompileProgram(program, int(arguments.size()), arguments.data());
  size_t size = 0;
  api.GetProgramLogSize(program, &size);
  result.log.resize(size);
  api.GetProgramLog(program, result.log.data());
  if (status == 0) {
    api.GetPTXSize(program, &size);
    result.ptx.resize(size);
    api.GetPTX(program, result.ptx.data());
    while (!result.ptx.empty() && result.ptx.back() == '\0')
      result.ptx.pop_back();
  }
  api.DestroyProgram(&program);
  return result;
}

} // namespace cugrt::test
