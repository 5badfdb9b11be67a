// Streams, events, host functions, capture.
#include "script.h"

#include <atomic>
#include <thread>

namespace cugrt::conformance {

namespace {

/// Holds a stream until it is let go.
struct Gate {
  std::atomic<bool> open{false};
  static void CUDA_CB wait(void *data) {
    while (!static_cast<Gate *>(data)->open.load())
      std::this_thread::yield();
  }
};

void order_script(Script &s) {
  Gate gate;
  CUstream first = s.stream(), second = s.stream();
  CUevent event = nullptr;
  s.need(s.api.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUdeviceptr cell = s.words(1, 1);
  uint32_t factor = 1, term = 4;
  void *params[] = {&cell, &factor, &term};
  s.expect("hold", s.api.cuLaunchHostFunc(first, &Gate::wait, &gate));
  s.expect("add 4",
           s.api.cuLaunchKernel(s.kernel("affine"), 1, 1, 1, 1, 1, 1, 0, first, params, nullptr));
  s.expect("record", s.api.cuEventRecord(event, first));
  s.expect("wait", s.api.cuStreamWaitEvent(second, event, 0));
  factor = 10, term = 0; // parameters were copied
  s.expect("times 10",
           s.api.cuLaunchKernel(s.kernel("affine"), 1, 1, 1, 1, 1, 1, 0, second, params, nullptr));
  s.expect("the first is busy", s.api.cuStreamQuery(first), CUDA_ERROR_NOT_READY);
  s.expect("the second waits", s.api.cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  s.expect("the event is not there yet", s.api.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  s.expect("destroyed before it is complete", s.api.cuEventDestroy(event));
  gate.open = true;
  s.expect("until the second is done", s.api.cuStreamSynchronize(second));
  s.expect("both, in order", uint64_t(s.word(cell)), 50);
  s.expect("idle", s.api.cuStreamQuery(first));
}

void capture_script(Script &s) {
  CUstream stream = s.stream();
  CUdeviceptr cell = s.words(1, 3);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUstreamCaptureStatus status{};
  s.expect("begin", s.api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  s.expect("status", s.api.cuStreamIsCapturing(stream, &status));
  s.expect("active", uint64_t(status), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  s.expect("begin again", s.api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
           CUDA_ERROR_ILLEGAL_STATE);
  s.expect("a fill", s.api.cuMemsetD32Async(cell, 8, 1, stream));
  s.expect("end", s.api.cuStreamEndCapture(stream, &graph));
  s.expect("not executed", uint64_t(s.word(cell)), 3);
  size_t nodes = 0;
  s.expect("nodes", s.api.cuGraphGetNodes(graph, nullptr, &nodes));
  s.expect("one", nodes, 1);
  s.expect("instantiate", s.api.cuGraphInstantiate(&exec, graph, 0));
  s.expect("launch", s.api.cuGraphLaunch(exec, stream));
  s.expect("done", s.api.cuStreamSynchronize(stream));
  s.expect("executed", uint64_t(s.word(cell)), 8);
  s.expect("end without a beginning", s.api.cuStreamEndCapture(stream, &graph),
           CUDA_ERROR_ILLEGAL_STATE);
  s.need(s.api.cuGraphExecDestroy(exec));
}

void invalidated_script(Script &s) {
  CUstream stream = s.stream();
  CUgraph graph = nullptr;
  CUstreamCaptureStatus status{};
  s.need(s.api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  s.expect("synchronise", s.api.cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  s.expect("status", s.api.cuStreamIsCapturing(stream, &status));
  s.expect("invalidated", uint64_t(status), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  s.expect("end", s.api.cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  s.expect_true("no graph", !graph);
}

/// The kernel "increment" by another thread.
CUresult launch_elsewhere(Script &s, CUfunction increment, CUdeviceptr cell, CUstream stream) {
  CUresult result = CUDA_ERROR_UNKNOWN;
  std::thread([&] {
    void *params[] = {&cell};
    if (s.api.cuCtxSetCurrent(s.context) == CUDA_SUCCESS)
      result = s.api.cuLaunchKernel(increment, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
  }).join();
  return result;
}

/// No document says that a launch is potentially unsafe, nor that a captured stream takes work of
/// the thread alone that captures.
void launches_elsewhere_script(Script &s) {
  CUstream captured = s.stream(), other = s.stream();
  CUdeviceptr cell = s.words(1);
  CUfunction increment = s.kernel("increment");
  for (CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED}) {
    CUgraph graph = nullptr;
    size_t nodes = 0;
    s.need(s.api.cuStreamBeginCapture(captured, mode));
    s.observe("in a stream of its own", launch_elsewhere(s, increment, cell, other), CUDA_SUCCESS);
    s.observe("in the legacy stream", launch_elsewhere(s, increment, cell, nullptr), CUDA_SUCCESS);
    s.observe("in the captured stream", launch_elsewhere(s, increment, cell, captured),
              CUDA_SUCCESS);
    CUresult ended = s.api.cuStreamEndCapture(captured, &graph);
    s.observe("end", ended, CUDA_SUCCESS);
    if (ended == CUDA_SUCCESS) {
      s.need(s.api.cuGraphGetNodes(graph, nullptr, &nodes));
      s.need(s.api.cuGraphDestroy(graph));
    }
    s.observe("nodes", nodes, 1);
  }
}

/// What the legacy stream does would wait for a blocking stream, which is captured. No document
/// says whether it matters whose thread that is, nor what becomes of the capture.
void legacy_during_capture_script(Script &s) {
  CUstream captured = s.stream(CU_STREAM_DEFAULT);
  CUdeviceptr cell = s.words(1, 3);
  CUfunction increment = s.kernel("increment");
  for (CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED})
    for (bool elsewhere : {false, true}) {
      CUgraph graph = nullptr;
      CUstreamCaptureStatus status{};
      void *params[] = {&cell};
      s.need(s.api.cuStreamBeginCapture(captured, mode));
      s.expect("query of the legacy stream", s.api.cuStreamIsCapturing(CU_STREAM_LEGACY, &status),
               CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
      s.observe(elsewhere ? "another's launch in the legacy stream"
                          : "a launch in the legacy stream",
                elsewhere ? launch_elsewhere(s, increment, cell, CU_STREAM_LEGACY)
                          : s.api.cuLaunchKernel(increment, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY,
                                                 params, nullptr),
                CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
      CUresult ended = s.api.cuStreamEndCapture(captured, &graph);
      s.observe("end", ended, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      if (ended == CUDA_SUCCESS)
        s.need(s.api.cuGraphDestroy(graph));
    }
  s.observe("not executed", uint64_t(s.word(cell)), 3);
}

/// All captures of the context end, of whatever mode.
void synchronize_elsewhere_script(Script &s) {
  CUstream streams[] = {s.stream(), s.stream()};
  s.need(s.api.cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
  s.need(s.api.cuStreamBeginCapture(streams[1], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CUresult seen = CUDA_ERROR_UNKNOWN;
  std::thread([&] {
    if (s.api.cuCtxSetCurrent(s.context) == CUDA_SUCCESS)
      seen = s.api.cuCtxSynchronize();
  }).join();
  s.observe("synchronise", seen, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  for (CUstream stream : streams) {
    CUgraph graph = nullptr;
    s.observe("end", s.api.cuStreamEndCapture(stream, &graph),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
}

void ended_elsewhere_script(Script &s) {
  CUstream stream = s.stream(CU_STREAM_DEFAULT);
  CUdeviceptr cell = s.words(1);
  CUfunction increment = s.kernel("increment");
  CUgraph graph = nullptr;
  CUresult seen = CUDA_SUCCESS;
  s.need(s.api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  std::thread([&] {
    if (s.api.cuCtxSetCurrent(s.context) == CUDA_SUCCESS)
      seen = s.api.cuStreamEndCapture(stream, &graph);
  }).join();
  s.expect("end by another thread", seen, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  s.observe("another's launch in the legacy stream, for which the captured one waits",
            launch_elsewhere(s, increment, cell, nullptr), CUDA_SUCCESS);
  s.observe("end", s.api.cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

void freed_script(Script &s) {
  CUstream stream = s.stream();
  CUdeviceptr pooled = 0;
  s.need(s.api.cuMemAllocAsync(&pooled, 64, nullptr));
  for (CUstreamCaptureMode mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    CUgraph graph = nullptr;
    s.need(s.api.cuStreamBeginCapture(stream, mode));
    CUresult result = s.api.cuMemFreeAsync(pooled, stream);
    s.expect_true("refused", result != CUDA_SUCCESS);
    s.observe("how", result, CUDA_ERROR_INVALID_VALUE);
    result = s.api.cuStreamEndCapture(stream, &graph);
    s.observe("end", result, CUDA_SUCCESS);
    if (result == CUDA_SUCCESS)
      s.need(s.api.cuGraphDestroy(graph));
  }
  s.expect("free outside", s.api.cuMemFreeAsync(pooled, stream));
  s.need(s.api.cuStreamSynchronize(stream));
}

void captured_launch_script(Script &s) {
  CUstream stream = s.stream();
  CUdeviceptr cell = s.words(1, 3);
  CUgraph inner = nullptr, outer = nullptr;
  s.need(s.api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  s.need(s.api.cuMemsetD32Async(cell, 8, 1, stream));
  s.need(s.api.cuStreamEndCapture(stream, &inner));
  CUgraphExec exec = s.instantiate(inner);
  s.need(s.api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  s.observe("launch", s.api.cuGraphLaunch(exec, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  s.observe("end", s.api.cuStreamEndCapture(stream, &outer), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  s.expect("not executed", uint64_t(s.word(cell)), 3);
  s.need(s.api.cuGraphDestroy(inner));
}

} // namespace

const std::vector<ScriptCase> &stream_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"streams and events keep the order",
       {{"cuStreamWaitEvent", "wait for all work captured in hEvent"},
        {"cuLaunchHostFunc", "will block work added after it"},
        {"cuStreamQuery", "or CUDA_ERROR_NOT_READY if not"},
        {"cuEventDestroy", "An event may be destroyed before it is complete"}},
       order_script},
      {"an event that was never recorded is complete",
       {{"cuEventRecord", "an event represents an empty set of work"}},
       [](Script &s) {
         CUevent event = s.event();
         s.expect("query", s.api.cuEventQuery(event));
         s.expect("synchronise", s.api.cuEventSynchronize(event));
         s.expect("a wait for it", s.api.cuStreamWaitEvent(nullptr, event, 0));
       }},
      {"times between events",
       {{"cuEventElapsedTime", "not been called on either event then CUDA_ERROR_INVALID_HANDLE"},
        {"cuEventElapsedTime",
         "CU_EVENT_DISABLE_TIMING flag, then this function will return CUDA_ERROR_INVALID_HANDLE"}},
       [](Script &s) {
         CUevent a = s.event(), b = s.event(), untimed = s.event(CU_EVENT_DISABLE_TIMING);
         float ms = -1;
         s.expect("not recorded", s.api.cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
         s.need(s.api.cuEventRecord(a, nullptr));
         s.need(s.api.cuEventRecord(b, nullptr));
         s.need(s.api.cuEventRecord(untimed, nullptr));
         s.need(s.api.cuCtxSynchronize());
         s.expect("recorded", s.api.cuEventElapsedTime(&ms, a, b));
         s.expect_true("not negative", ms >= 0);
         s.expect("without timing", s.api.cuEventElapsedTime(&ms, a, untimed),
                  CUDA_ERROR_INVALID_HANDLE);
       },
       12080},
      {"priorities are clamped to the range",
       {{"cuStreamGetPriority", "returns the clamped priority"}},
       [](Script &s) {
         int least = 0, greatest = 0, priority = 0;
         CUstream stream = nullptr;
         s.need(s.api.cuCtxGetStreamPriorityRange(&least, &greatest));
         s.expect("create",
                  s.api.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 10));
         s.expect("get", s.api.cuStreamGetPriority(stream, &priority));
         s.expect_true("clamped", priority == greatest);
         unsigned flags = 0;
         s.expect("flags", s.api.cuStreamGetFlags(stream, &flags));
         s.expect("non-blocking", flags, CU_STREAM_NON_BLOCKING);
         s.expect("destroy", s.api.cuStreamDestroy(stream));
       }},
      {"streams and events take known flags only",
       {{"cuStreamCreate", "CUDA_ERROR_INVALID_VALUE"},
        {"cuEventCreate", "CUDA_ERROR_INVALID_VALUE"}},
       [](Script &s) {
         CUstream stream = nullptr;
         CUevent event = nullptr;
         s.expect("stream", s.api.cuStreamCreate(&stream, 0x80), CUDA_ERROR_INVALID_VALUE);
         s.expect("event", s.api.cuEventCreate(&event, 0x80), CUDA_ERROR_INVALID_VALUE);
         s.expect("interprocess with timing", s.api.cuEventCreate(&event, CU_EVENT_INTERPROCESS),
                  CUDA_ERROR_INVALID_VALUE);
       }},
      {"the default stream waits for blocking streams, and they for it",
       {{"cuStreamCreate", "no implicit synchronization with stream 0"}},
       [](Script &s) {
         Gate gate;
         CUstream blocking = s.stream(CU_STREAM_DEFAULT), free_stream = s.stream();
         CUdeviceptr cell = s.words(1);
         s.need(s.api.cuLaunchHostFunc(blocking, &Gate::wait, &gate));
         s.need(s.api.cuMemsetD32Async(cell, 1, 1, nullptr));
         s.expect("the default stream waits", s.api.cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
         s.expect("a non-blocking one does not", s.api.cuStreamSynchronize(free_stream));
         gate.open = true;
         s.expect("done", s.api.cuStreamSynchronize(nullptr));
         s.expect("filled", uint64_t(s.word(cell)), 1);
       }},
      {"a capture becomes a graph and executes nothing",
       {{"cuStreamBeginCapture", "will not be executed, but will instead be captured"},
        {"cuStreamBeginCapture", "only be initiated if the stream is not already in capture mode"}},
       capture_script},
      {"a capture that is broken is invalidated",
       {{"cuStreamEndCapture", "then a NULL graph will be returned"}},
       invalidated_script},
      {"launches by another thread during a capture",
       {{"cuThreadExchangeStreamCaptureMode",
         "thread is prohibited from potentially unsafe API calls"},
        {"cuStreamBeginCapture", "will not be executed, but will instead be captured"}},
       launches_elsewhere_script},
      {"the legacy stream during a capture of a blocking stream",
       {{"cuStreamIsCapturing", "a blocking stream in the same context is capturing"},
        {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
         "disallowed implicit dependency on a current capture"}},
       legacy_during_capture_script},
      {"synchronising the context ends captures in it",
       {{"cuThreadExchangeStreamCaptureMode", "which necessarily conflict with stream capture"}},
       synchronize_elsewhere_script},
      {"a capture is its thread's to end",
       {{"cuStreamEndCapture", "must be from the same thread as cuStreamBeginCapture"},
        {"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "passed to cuStreamEndCapture in a"}},
       ended_elsewhere_script},
      {"memory from outside a capture is not freed in it",
       {{"cuMemFreeAsync", "must therefore be passed the address of a graph allocation"}},
       freed_script},
      {"a graph that is launched in a captured stream is not executed",
       {{"cuStreamBeginCapture", "will not be executed, but will instead be captured"}},
       captured_launch_script},
      {"the legacy stream cannot be captured",
       {{"cuStreamBeginCapture", "Capture may not be initiated if stream is CU_STREAM_LEGACY"}},
       [](Script &s) {
         CUresult result =
             s.api.cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED);
         s.expect_true("refused", result != CUDA_SUCCESS);
         s.observe("how", result, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
       }},
  };
  return scripts;
}

} // namespace cugrt::conformance
