// NVRTC, found and opened at run time.
//
// Finding a library and opening it are two steps: opening costs some 80 ms and 100 MB of address
// space, so nothing opens it before the first kernel that no cache has. The declarations are our
// own, so that this layer needs no CUDA header; they are the stable part of the API of CUDA 12
// and 13. The library is never closed.
#pragma once

#include "base/status.h"
#include "jit/code_cache.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace cugrt::jit {

/// Where NVRTC is. Either a file, or a name for the dynamic loader.
struct NvrtcLocation {
  std::string library;        // "/usr/local/cuda/lib64/libnvrtc.so.13" or "libnvrtc.so.13"
  std::string include_folder; // holds cuda_fp16.h; empty when none was found
  std::string found_by;       // "CUGRT_NVRTC", "CUDA_HOME", ...: for messages
  int major = 0;              // as the file's name says; 0: it does not
  bool is_file() const { return library.find('/') != std::string::npos; }
};

/// Looks, without opening anything, at: `explicit_path` (a file or a folder of a toolkit),
/// CUGRT_NVRTC (the same), a copy that the process has already loaded, CUDA_HOME, CUDA_PATH,
/// /usr/local/cuda, the folder that the build found, LD_LIBRARY_PATH and the loader's folders.
/// In folders, libraries for other processors are passed over. not_found says what to do.
/// A driver does not load the code of a compiler of a newer major version: a compiler of at most
/// `newest_major` (0: any) that is found anywhere precedes a newer one, unless a file is named.
Result<NvrtcLocation> find_nvrtc(const std::string &explicit_path, int newest_major = 0);

/// The functions that we use; the last ones may be null.
struct NvrtcApi {
  using Program = struct NvrtcProgram *;
  using Code = int; // nvrtcResult; 0 is success
  const char *(*GetErrorString)(Code) = nullptr;
  Code (*Version)(int *, int *) = nullptr;
  Code (*GetNumSupportedArchs)(int *) = nullptr;
  Code (*GetSupportedArchs)(int *) = nullptr;
  Code (*CreateProgram)(Program *, const char *, const char *, int, const char *const *,
                        const char *const *) = nullptr;
  Code (*DestroyProgram)(Program *) = nullptr;
  Code (*CompileProgram)(Program, int, const char *const *) = nullptr;
  Code (*GetPTXSize)(Program, size_t *) = nullptr;
  Code (*GetPTX)(Program, char *) = nullptr;
  Code (*GetCUBINSize)(Program, size_t *) = nullptr;
  Code (*GetCUBIN)(Program, char *) = nullptr;
  Code (*GetProgramLogSize)(Program, size_t *) = nullptr;
  Code (*GetProgramLog)(Program, char *) = nullptr;
  Code (*SetFlowCallback)(Program, int (*)(void *, void *), void *) = nullptr; // 12.8 on
};

struct Nvrtc {
  NvrtcApi api;
  NvrtcLocation location; // with the library's resolved path
  int major = 0, minor = 0;
  std::vector<int> architectures; // 75, 80, ..., ascending
};

/// Opens a found library. unsupported for a version before 12.
Result<std::unique_ptr<Nvrtc>> open_nvrtc(const NvrtcLocation &location);

/// Digest of the headers that kernels may include, by content; zeros when the folder is empty.
Digest headers_digest(const std::string &include_folder);

/// A text that changes when the library's or the headers' files do: paths, sizes and times. Empty
/// when the library cannot be looked at without opening it.
std::string location_stamp(const NvrtcLocation &location);

} // namespace cugrt::jit
