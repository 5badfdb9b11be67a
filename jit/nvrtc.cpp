// Finding and opening NVRTC.
#include "jit/nvrtc.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/path.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <optional>
#include <sys/stat.h>

#ifndef CUGRT_NVRTC_DEFAULT
#define CUGRT_NVRTC_DEFAULT ""
#endif

namespace cugrt::jit {

namespace {

constexpr const char *kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
// All that kernels may include, directly or through one another, and that differs between versions.
constexpr const char *kHeaders[] = {"cuda_fp16.h",    "cuda_fp16.hpp",     "cuda_bf16.h",
                                    "cuda_bf16.hpp",  "cuda_fp8.h",        "cuda_fp8.hpp",
                                    "vector_types.h", "vector_functions.h"};
constexpr uint64_t kHeaderLimitBytes = uint64_t(16) << 20;
constexpr int kOldestMajor = 12;

bool is_file(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_folder(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_NONE; // unknown: the loader judges
#endif

/// A library for other processors, which a toolkit for cross-compiling has beside this machine's.
/// The loader reports files that are no library at all.
bool is_for_another_machine(const std::string &path) {
  Elf64_Ehdr header;
  std::ifstream file(path, std::ios::binary);
  return kMachine != EM_NONE && file.read(reinterpret_cast<char *>(&header), sizeof header) &&
         std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_machine != kMachine;
}

bool is_library(const std::string &path) { return is_file(path) && !is_for_another_machine(path); }

std::string resolved(const std::string &path) {
  const std::string real = real_path(path);
  return real.empty() ? path : real;
}

/// The headers that belong to a library: a toolkit, a toolkit with a targets folder, a CUDA 13
/// wheel (all three: include beside lib), or CUDA 12 wheels (a folder for each component).
std::string find_include(const std::string &library) {
  for (const std::string &path : {library, resolved(library)}) {
    std::string folder = folder_of(path);
    for (const char *relative : {"/../include", "/../../include", "/../../cuda_runtime/include"})
      if (is_file(folder + relative + "/cuda_fp16.h"))
        return resolved(folder + relative);
  }
  return {};
}

/// 12 for "libnvrtc.so.12.3.107", where links end; 0 where the name has no number.
int major_of(const std::string &library) {
  for (const std::string &path : {library, resolved(library)}) {
    const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1), mark = ".so.";
    if (const size_t at = name.find(mark); at != std::string_view::npos)
      if (const int major = std::atoi(name.data() + at + mark.size()); major > 0)
        return major;
  }
  return 0;
}

bool is_too_new(const std::string &library, int newest_major) {
  return newest_major != 0 && major_of(library) > newest_major;
}

NvrtcLocation location_of(const std::string &library, const std::string &found_by) {
  return {library, find_include(library), found_by, major_of(library)};
}

/// The library in a folder, a toolkit's or a wheel's. Empty: none that is not too new.
std::string library_in(const std::string &path, int newest_major) {
  if (path.empty() || !is_folder(path))
    return {};
  for (const char *name : kNames)
    for (const char *below : {"/", "/lib64/", "/lib/"})
      if (const std::string library = path + below + name;
          is_library(library) && !is_too_new(library, newest_major))
        return library;
  return {};
}

/// A copy that somebody in this process has opened already.
std::string loaded_library(int newest_major) {
  for (const char *name : kNames) {
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
      continue;
    Dl_info info;
    void *symbol = dlsym(handle, "nvrtcVersion");
    bool known = symbol && dladdr(symbol, &info) && info.dli_fname;
    std::string path = known ? info.dli_fname : "";
    dlclose(handle);                                            // one reference of many
    if (path.find('/') != std::string::npos && is_file(path) && // it may have been replaced since
        !is_too_new(path, newest_major))
      return path;
  }
  return {};
}

std::vector<std::string> loader_folders() {
  std::vector<std::string> folders;
  std::string path = environment("LD_LIBRARY_PATH");
  for (size_t at = 0; at < path.size();) {
    size_t end = path.find(':', at);
    end = end == std::string::npos ? path.size() : end;
    if (end > at)
      folders.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  for (const char *folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/lib", "/usr/local/lib"})
    folders.push_back(folder);
  return folders;
}

template <class Function> bool load(void *handle, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

/// The first required function that is missing; null when all are there.
const char *load_api(void *handle, NvrtcApi &api) {
#define CUGRT_NVRTC_LOAD(name)                                                                     \
  if (!load(handle, "nvrtc" #name, api.name))                                                      \
    return "nvrtc" #name;
  CUGRT_NVRTC_LOAD(GetErrorString)
  CUGRT_NVRTC_LOAD(Version)
  CUGRT_NVRTC_LOAD(GetNumSupportedArchs)
  CUGRT_NVRTC_LOAD(GetSupportedArchs)
  CUGRT_NVRTC_LOAD(CreateProgram)
  CUGRT_NVRTC_LOAD(DestroyProgram)
  CUGRT_NVRTC_LOAD(CompileProgram)
  CUGRT_NVRTC_LOAD(GetPTXSize)
  CUGRT_NVRTC_LOAD(GetPTX)
  CUGRT_NVRTC_LOAD(GetCUBINSize)
  CUGRT_NVRTC_LOAD(GetCUBIN)
  CUGRT_NVRTC_LOAD(GetProgramLogSize)
  CUGRT_NVRTC_LOAD(GetProgramLog)
#undef CUGRT_NVRTC_LOAD
  (void)load(handle, "nvrtcSetFlowCallback", api.SetFlowCallback);
  return nullptr;
}

/// NVRTC opens its builtins by bare name. A wheel's folder is on no loader's path, so the copy
/// beside the library is opened first: the loader then finds it by that name. Stays open, as NVRTC
/// does.
void preload_builtins(const Nvrtc &nvrtc) {
  std::string name =
      "/libnvrtc-builtins.so." + std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor);
  for (const std::string &library : {nvrtc.location.library, resolved(nvrtc.location.library)})
    if (std::string path = folder_of(library) + name; is_file(path)) {
      (void)dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      return;
    }
}

void stamp_file(std::string &text, const std::string &path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    return;
  text += path + ' ' + std::to_string(info.st_size) + ' ' + std::to_string(info.st_mtim.tv_sec) +
          '.' + std::to_string(info.st_mtim.tv_nsec) + '\n';
}

} // namespace

/// Searches the usual places; nobody has named one.
static std::optional<NvrtcLocation> find_usual(int newest_major) {
  if (std::string library = loaded_library(newest_major); !library.empty())
    return location_of(library, "this process");
  const std::pair<std::string, const char *> usual[] = {
      {environment("CUDA_HOME"), "CUDA_HOME"},
      {environment("CUDA_PATH"), "CUDA_PATH"},
      {"/usr/local/cuda", "/usr/local/cuda"},
      {CUGRT_NVRTC_DEFAULT, "the build's configuration"}};
  for (const auto &[path, origin] : usual) {
    if (!path.empty() && is_file(path) && !is_too_new(path, newest_major))
      return location_of(path, origin);
    if (std::string library = library_in(path, newest_major); !library.empty())
      return location_of(library, origin);
  }
  for (const std::string &folder : loader_folders())
    for (const char *name : kNames)
      if (const std::string library = folder + "/" + name;
          is_library(library) && !is_too_new(library, newest_major))
        return location_of(library, "the loader's path");
  return std::nullopt;
}

Result<NvrtcLocation> find_nvrtc(const std::string &explicit_path, int newest_major) {
  const std::pair<std::string, const char *> named[] = {
      {explicit_path, "the given path"}, {environment("CUGRT_NVRTC"), "CUGRT_NVRTC"}};
  for (const auto &[path, origin] : named) {
    if (path.empty())
      continue;
    if (is_file(path))
      return location_of(path, origin);
    for (int newest : {newest_major, 0})
      if (std::string library = library_in(path, newest); !library.empty())
        return location_of(library, origin);
    return Status::error(Code::not_found, std::string("no NVRTC at '") + path + "' (" + origin +
                                              "): name libnvrtc.so.N or a toolkit's folder");
  }
  for (int newest : {newest_major, 0})
    if (auto found = find_usual(newest))
      return std::move(*found);
  return Status::error(Code::not_found,
                       "no NVRTC: install the CUDA toolkit or the wheels nvidia-cuda-nvrtc, "
                       "nvidia-cuda-runtime and nvidia-cuda-crt, or set CUGRT_NVRTC");
}

Result<std::unique_ptr<Nvrtc>> open_nvrtc(const NvrtcLocation &location) {
  void *handle = dlopen(location.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    if (is_for_another_machine(location.library))
      reason = "it is built for another kind of processor"; // the loader calls it missing
    return Status::error(Code::not_found, "cannot load NVRTC '" + location.library +
                                              "': " + (reason ? reason : "no reason given"));
  }
  auto nvrtc = std::make_unique<Nvrtc>();
  nvrtc->location = location;
  if (const char *missing = load_api(handle, nvrtc->api))
    return Status::error(Code::unsupported,
                         "'" + location.library + "' is no NVRTC: it has no " + missing);
  Dl_info info;
  if (!location.is_file() && dladdr(reinterpret_cast<void *>(nvrtc->api.Version), &info) &&
      info.dli_fname)
    nvrtc->location = location_of(info.dli_fname, location.found_by);
  int architectures = 0;
  if (nvrtc->api.Version(&nvrtc->major, &nvrtc->minor) != 0 ||
      nvrtc->api.GetNumSupportedArchs(&architectures) != 0 || architectures < 0 ||
      architectures > 1000)
    return Status::error(Code::unsupported, "NVRTC '" + location.library + "' does not answer");
  if (nvrtc->major < kOldestMajor)
    return Status::error(Code::unsupported, "NVRTC '" + location.library + "' is of version " +
                                                std::to_string(nvrtc->major) + "." +
                                                std::to_string(nvrtc->minor) +
                                                "; cugrt needs 12.0 or newer");
  nvrtc->architectures.resize(static_cast<size_t>(architectures));
  if (architectures && nvrtc->api.GetSupportedArchs(nvrtc->architectures.data()) != 0)
    nvrtc->architectures.clear();
  std::sort(nvrtc->architectures.begin(), nvrtc->architectures.end());
  preload_builtins(*nvrtc);
  return nvrtc;
}

Digest headers_digest(const std::string &include_folder) {
  if (include_folder.empty())
    return Digest{};
  Digester digester;
  for (const char *name : kHeaders) {
    auto text = read_file(include_folder + "/" + name, kHeaderLimitBytes);
    digester.field(name).field(text.ok() ? std::string_view(*text) : std::string_view());
  }
  return digester.finish();
}

std::string location_stamp(const NvrtcLocation &location) {
  std::string text;
  if (!location.is_file())
    return text;
  stamp_file(text, location.library);
  if (text.empty())
    return text;
  for (const char *name : kHeaders)
    if (!location.include_folder.empty())
      stamp_file(text, location.include_folder + "/" + name);
  return text;
}

} // namespace cugrt::jit
