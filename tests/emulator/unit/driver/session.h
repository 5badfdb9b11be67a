// Calls into the built libcugrt-emu.so, opened with dlopen as a program opens a driver.
//
// CU(cuMemAlloc_v2) is the function of that exported name with the prototype of cuda.h. A Session
// is a fresh driver with the primary context current; its end checks that nothing is left alive.
#pragma once

#include "emulator/driver/cuda_api.h"
#include "support/catch.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

inline void *library() {
  static void *handle = dlopen(EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return handle;
}

inline void *symbol(const char *name) { return dlsym(library(), name); }

#define CU(name) (reinterpret_cast<decltype(&::name)>(symbol(#name)))
#define OK(expression) REQUIRE((expression) == CUDA_SUCCESS)

/// What a call that succeeds writes to its first argument.
template <class T, class... P>
T made_by(const char *name, int line, CUresult (*call)(T *, P...),
          std::type_identity_t<P>... arguments) {
  INFO(name << " at line " << line);
  T value{};
  OK(call(&value, arguments...));
  return value;
}
#define MADE(name, ...) made_by(#name, __LINE__, CU(name) __VA_OPT__(, ) __VA_ARGS__)

/// What a call that succeeds writes to its last argument.
template <class... P, class... A>
auto asked_of(const char *name, int line, CUresult (*call)(P...), const A &...arguments) {
  INFO(name << " at line " << line);
  std::remove_pointer_t<std::tuple_element_t<sizeof...(A), std::tuple<P...>>> value{};
  OK(call(arguments..., &value));
  return value;
}
#define ASKED(name, ...) asked_of(#name, __LINE__, CU(name) __VA_OPT__(, ) __VA_ARGS__)

/// What modules of tests begin with.
#define PTX_HEAD "\n.version 7.0\n.target sm_75\n.address_size 64\n"

/// A handle that ends with its scope.
template <class T> struct Owned {
  Owned(T made, CUresult (*end)(T)) : handle(made), destroy(end) {}
  ~Owned() { CHECK(destroy(handle) == CUDA_SUCCESS); }
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  operator T() const { return handle; }

  T handle;
  CUresult (*destroy)(T);
};
struct Stream : Owned<CUstream> {
  explicit Stream(unsigned flags = CU_STREAM_NON_BLOCKING)
      : Owned(MADE(cuStreamCreate, flags), CU(cuStreamDestroy_v2)) {}
};
struct Streams {
  explicit Streams(unsigned flags = CU_STREAM_NON_BLOCKING) : a(flags), b(flags) {}
  Stream a, b;
};
struct Event : Owned<CUevent> {
  explicit Event(unsigned flags) : Owned(MADE(cuEventCreate, flags), CU(cuEventDestroy_v2)) {}
};
struct Module : Owned<CUmodule> {
  explicit Module(const void *image) : Owned(MADE(cuModuleLoadData, image), CU(cuModuleUnload)) {}
};
struct Memory : Owned<CUdeviceptr> {
  explicit Memory(CUdeviceptr address) : Owned(address, CU(cuMemFree_v2)) {}
};
struct Graph : Owned<CUgraph> {
  explicit Graph(CUgraph graph) : Owned(graph, CU(cuGraphDestroy)) {}
};
struct Exec : Owned<CUgraphExec> {
  explicit Exec(CUgraph graph, unsigned long long flags = 0)
      : Owned(MADE(cuGraphInstantiateWithFlags, graph, flags), CU(cuGraphExecDestroy)) {}
};

/// The driver as a new process with these variables ("NAME=value") would find it, not initialised.
/// Who chooses the checks looks at their findings, which then are not reported besides; what they
/// say, and what the seed does, is of work in the order of submission.
struct FreshDriver {
  explicit FreshDriver(std::initializer_list<std::string> variables) {
    for (const std::string &variable : variables) {
      size_t equals = variable.find('=');
      set(variable.substr(0, equals), variable.substr(equals + 1));
      bool checks = variable.find("CUGRT_EMU_CHECK=") == 0;
      if (checks)
        set("CUGRT_EMU_REPORT", "");
      if (checks || variable.find("CUGRT_EMU_SEED=") == 0)
        set("CUGRT_EMU_ORDER", "");
    }
    REQUIRE(CU(cuEmuReinitialize)() == CUDA_SUCCESS);
  }
  FreshDriver() : FreshDriver(std::initializer_list<std::string>{}) {}
  ~FreshDriver() {
    for (const auto &[name, value] : before_)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }
  FreshDriver(const FreshDriver &) = delete;
  FreshDriver &operator=(const FreshDriver &) = delete;

private:
  void set(const std::string &name, const std::string &value) {
    const char *before = std::getenv(name.c_str());
    before_.emplace(name, before ? std::optional<std::string>(before) : std::nullopt);
    setenv(name.c_str(), value.c_str(), 1);
  }
  std::map<std::string, std::optional<std::string>> before_;
};

inline CUemuStatistics statistics() {
  CUemuStatistics s{};
  s.struct_size = sizeof s;
  OK(CU(cuEmuGetStatistics)(&s));
  return s;
}

/// What the checks have reported since the driver was started, as one text.
inline std::string findings() {
  size_t bytes = 0;
  OK(CU(cuEmuGetFindings)(nullptr, &bytes));
  std::string text(bytes, '\0');
  OK(CU(cuEmuGetFindings)(text.data(), &bytes));
  text.resize(bytes - 1);
  return text;
}

/// An address as the checks write it.
inline std::string hex(CUdeviceptr address) {
  char text[32];
  snprintf(text, sizeof text, "0x%llx", address);
  return text;
}

struct Session : FreshDriver {
  Session() : Session(std::initializer_list<std::string>{}) {}
  explicit Session(std::initializer_list<std::string> variables) : FreshDriver(variables) {
    OK(CU(cuInit)(0));
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
  }
  ~Session() {
    CU(cuEmuSetFaultInjection)(0, CUDA_SUCCESS);
    CU(cuCtxSetCurrent)(nullptr);
    CHECK(CU(cuDevicePrimaryCtxRelease_v2)(0) == CUDA_SUCCESS);
    CUemuStatistics left = statistics();
    CHECK(left.contexts == 0);
    CHECK(left.allocations == 0);
    CHECK(left.host_allocations == 0);
    CHECK(left.modules == 0);
    CHECK(left.streams == 0);
    CHECK(left.events == 0);
    CHECK(left.graphs == 0);
    CHECK(left.graph_nodes == 0);
    CHECK(left.graph_execs == 0);
  }

  CUcontext context = nullptr;
};

/// A module with the kernels of kernels.cpp.
CUmodule load_kernels();
/// Those for sm_90 that wait for the grids before them: early, late and count.
CUmodule load_waiting_kernels();
CUfunction kernel(CUmodule module, const char *name);

/// Device memory with a host copy's worth of convenience. Freed with the context at the latest.
template <class T> CUdeviceptr upload(const std::vector<T> &values) {
  CUdeviceptr address = 0;
  OK(CU(cuMemAlloc_v2)(&address, values.size() * sizeof(T)));
  OK(CU(cuMemcpyHtoD_v2)(address, values.data(), values.size() * sizeof(T)));
  OK(CU(cuStreamSynchronize)(nullptr)); // the copy may not have arrived
  return address;
}

template <class T> std::vector<T> download(CUdeviceptr address, size_t count) {
  std::vector<T> values(count);
  OK(CU(cuMemcpyDtoH_v2)(values.data(), address, count * sizeof(T)));
  return values;
}

/// Blocks and threads of a kernel in one row each.
template <class... A>
void launch_kernel(CUfunction function, unsigned blocks, unsigned threads, CUstream stream,
                   A... arguments) {
  void *params[] = {&arguments...};
  OK(CU(cuLaunchKernel)(function, blocks, 1, 1, threads, 1, 1, 0, stream, params, nullptr));
}

/// A host function that holds its stream until release().
struct Gate {
  std::atomic<bool> open{false};
  static void CUDA_CB wait(void *gate) {
    while (!static_cast<Gate *>(gate)->open)
      std::this_thread::yield();
  }
};
