// Captures of other threads: a global capture forbids the rest of the process what a capture could
// not see, and is ended by it; sessions go through their whole lives beside one.
#include "support/api_fixture.h"

#include <cuda.h>
#include <dlfcn.h>
#include <future>
#include <thread>

using namespace cugrt;
using namespace cugrt::test;

namespace {

#define CUDA(name)                                                                                 \
  (reinterpret_cast<decltype(&::name)>(dlsym(driver_library(), CUGRT_TEST_SYMBOL(name))))
#define CUGRT_TEST_SYMBOL(name) CUGRT_TEST_TEXT(name)
#define CUGRT_TEST_TEXT(name) #name

/// That of emulated_runtime().
void *driver_library() {
  static void *handle = [] {
    const std::string path = emulated_options().driver_path;
    return dlopen(path.empty() ? "libcuda.so.1" : path.c_str(), RTLD_NOW);
  }();
  return handle;
}

/// A thread that captures in the global mode from here to end().
class GlobalCapture {
public:
  GlobalCapture() {
    std::promise<void> begun;
    std::future<void> is_begun = begun.get_future();
    thread_ = std::thread([this, &begun] {
      auto need = [this](CUresult result) { first_error_ = first_error_ ? first_error_ : result; };
      CUcontext context = nullptr;
      CUstream stream = nullptr;
      CUdeviceptr cell = 0;
      CUgraph graph = nullptr;
      need(CUDA(cuDevicePrimaryCtxRetain)(&context, 0));
      need(CUDA(cuCtxSetCurrent)(context));
      need(CUDA(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
      need(CUDA(cuMemAlloc)(&cell, 4));
      need(CUDA(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
      need(CUDA(cuMemsetD32Async)(cell, 1, 1, stream));
      begun.set_value();
      may_end_.get_future().wait();
      need(CUDA(cuMemsetD32Async)(cell, 2, 1, stream));
      need(CUDA(cuStreamEndCapture)(stream, &graph));
      if (graph) {
        need(CUDA(cuGraphGetNodes)(graph, nullptr, &nodes_));
        need(CUDA(cuGraphDestroy)(graph));
      }
      need(CUDA(cuMemFree)(cell));
      need(CUDA(cuStreamDestroy)(stream));
      need(CUDA(cuCtxSetCurrent)(nullptr));
      need(CUDA(cuDevicePrimaryCtxRelease)(0));
    });
    is_begun.wait();
  }
  ~GlobalCapture() { end(); }

  void end() {
    if (!thread_.joinable())
      return;
    may_end_.set_value();
    thread_.join();
  }
  CUresult first_error() const { return first_error_; }
  size_t nodes() const { return nodes_; }

private:
  std::thread thread_;
  std::promise<void> may_end_;
  CUresult first_error_ = CUDA_SUCCESS;
  size_t nodes_ = 0;
};

/// y = 2 x by way of a tensor with a planned place, and of one of a size that no bound limits.
const char *const kDoubled = R"(cugrt 1

kernel @doubled {
  inline """
extern "C" __global__ void doubled(const float *x, float *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
  }
  """
  entry "doubled"
  params (x: in f32, y: out f32, n: symbol i64)
  launch { grid (ceildiv(n, 64), 1, 1) block (64, 1, 1) }
}

func @planned(%x: tensor<[n], f32>) -> (tensor<[n], f32>) attributes {upper_bounds = {n = 512}} {
  %a = alloc : tensor<[n], f32>
  launch @doubled(%x, %a, n)
  %y = alloc : tensor<[n], f32>
  launch @doubled(%a, %y, n)
  return %y
}

func @unplanned(%x: tensor<[n], f32>) -> (tensor<[n], f32>) {
  %a = alloc : tensor<[n], f32>
  launch @doubled(%x, %a, n)
  %y = alloc : tensor<[n], f32>
  launch @doubled(%a, %y, n)
  return %y
}
)";

void live_through_a_session(bool eager) {
  Executable executable(emulated_runtime(), Module::parse(kDoubled));
  auto options = detail::sized<cugrt_session_options>();
  options.eager = eager;
  Session session(executable, emulated_runtime(), Weights(), options);
  Stream own(emulated_runtime());
  for (const char *name : {"planned", "unplanned"}) {
    Function function = executable.function(name);
    for (int64_t n : {3, 3, 300, 70}) {
      INFO(name << ", n = " << n);
      const std::vector<float> x = numbers(static_cast<size_t>(n), 3);
      Buffer in = upload(x);
      void *stream = n == 300 ? own.native() : nullptr;
      std::vector<Value> results = session.run(function, {in.tensor(CUGRT_F32, {n})}, stream);
      (void)session.is_idle();
      session.synchronize();
      std::vector<double> expected;
      for (float value : x)
        expected.push_back(4.0 * double(value));
      check_close(download<float>(results[0].as.tensor.address, x.size()), expected, 0);
    }
  }
}

} // namespace

TEST_CASE("sessions open, run and close beside a global capture of another thread, which holds") {
  (void)emulated_runtime(); // the driver is initialised
  for (bool eager : {false, true}) {
    INFO((eager ? "eager" : "graphs"));
    GlobalCapture capture;
    live_through_a_session(eager);
    capture.end();
    CHECK(capture.first_error() == CUDA_SUCCESS);
    CHECK(capture.nodes() == 2);
  }
}
