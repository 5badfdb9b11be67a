// The library's entry points by base name and CUDA version; the table is entry_points.def.
#pragma once

namespace cugrt::emulator::api {

struct EntryPoint {
  const char *base;   // "cuMemAlloc"
  const char *symbol; // "cuMemAlloc_v2"
  void *address;
  int version;     // of CUDA, that introduced this ABI: 3020
  bool per_thread; // the _ptsz or _ptds form
};

struct Lookup {
  bool known = false;                // some ABI of that name exists
  const EntryPoint *entry = nullptr; // what the caller gets
};

/// The answer of an entry point without implementation: counts the call, notes its name as the last
/// message, returns CUDA_ERROR_NOT_SUPPORTED.
int unsupported_call(const char *symbol);

Lookup find_entry_point(const char *base, int version, bool search_per_thread);

} // namespace cugrt::emulator::api
