// Loads NVRTC from CUGRT_TEST_NVRTC, a path that the build passes.
#include "support/nvrtc.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

namespace cugrt::test {

namespace {

using Program = void *;

struct Nvrtc {
  int (*create)(Program *, const char *, const char *, int, const char *const *,
                const char *const *);
  int (*compile)(Program, int, const char *const *);
  int (*ptx_size)(Program, size_t *);
  int (*ptx)(Program, char *);
  int (*log_size)(Program, size_t *);
  int (*log)(Program, char *);
  int (*destroy)(Program *);

  Nvrtc() {
    void *library = dlopen(CUGRT_TEST_NVRTC, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      fprintf(stderr, "cannot load NVRTC: %s\n", dlerror());
      std::exit(1);
    }
    auto bind = [&](auto &function, const char *name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    bind(create, "nvrtcCreateProgram");
    bind(compile, "nvrtcCompileProgram");
    bind(ptx_size, "nvrtcGetPTXSize");
    bind(ptx, "nvrtcGetPTX");
    bind(log_size, "nvrtcGetProgramLogSize");
    bind(log, "nvrtcGetProgramLog");
    bind(destroy, "nvrtcDestroyProgram");
  }
};

} // namespace

Compiled compile_to_ptx(std::string_view source, std::string_view target,
                        const std::vector<std::string> &options) {
  static const Nvrtc nvrtc;
  std::string text(source), architecture = "--gpu-architecture=" + std::string(target);
  std::vector<const char *> arguments{architecture.c_str(),
                                      "--include-path=" CUGRT_TEST_CUDA_INCLUDE, "--std=c++17",
                                      "--device-as-default-execution-space"};
  for (const std::string &option : options)
    arguments.push_back(option.c_str());
  Compiled result;
  Program program = nullptr;
  if (nvrtc.create(&program, text.c_str(), "test.cu", 0, nullptr, nullptr) != 0)
    return result;
  int status = nvrtc.compile(program, int(arguments.size()), arguments.data());
  size_t size = 0;
  nvrtc.log_size(program, &size);
  result.log.resize(size);
  nvrtc.log(program, result.log.data());
  if (status == 0) {
    nvrtc.ptx_size(program, &size);
    result.ptx.resize(size);
    nvrtc.ptx(program, result.ptx.data());
    while (!result.ptx.empty() && result.ptx.back() == '\0')
      result.ptx.pop_back();
  }
  nvrtc.destroy(&program);
  return result;
}

} // namespace cugrt::test
