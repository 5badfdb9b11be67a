// Streams, events, host functions, capture.
#include "script.h"

#include <atomic>
#include <thread>

namespace cugrt::conformance {

using Kind = ScriptCase::Kind;

namespace {

/// Holds a stream until it is let go.
struct Gate {
  std::atomic<bool> open{false};
  static void CUDA_CB wait(void *data) {
    while (!static_cast<Gate *>(data)->open.load())
      std::this_thread::yield();
  }
};

CUstream stream_of(Script &s, unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  s.need(s.api.cuStreamCreate(&stream, flags));
  return stream;
}

CUevent event_of(Script &s, unsigned flags = 0) {
  CUevent event = nullptr;
  s.need(s.api.cuEventCreate(&event, flags));
  return event;
}

void order_script(Script &s) {
  Gate gate;
  CUstream first = stream_of(s), second = stream_of(s);
  CUevent event = event_of(s, CU_EVENT_DISABLE_TIMING);
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
  s.need(s.api.cuStreamDestroy(first));
  s.need(s.api.cuStreamDestroy(second));
  s.need(s.api.cuMemFree(cell));
}

void capture_script(Script &s) {
  CUstream stream = stream_of(s);
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
  s.need(s.api.cuStreamDestroy(stream));
  s.need(s.api.cuMemFree(cell));
}

void invalidated_script(Script &s) {
  CUstream stream = stream_of(s);
  CUgraph graph = nullptr;
  CUstreamCaptureStatus status{};
  s.need(s.api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  s.expect("synchronise", s.api.cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  s.expect("status", s.api.cuStreamIsCapturing(stream, &status));
  s.expect("invalidated", uint64_t(status), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  s.expect("end", s.api.cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  s.expect_true("no graph", !graph);
  s.need(s.api.cuStreamDestroy(stream));
}

} // namespace

const std::vector<ScriptCase> &stream_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"streams and events keep the order",
       Kind::shared,
       {{"cuStreamWaitEvent", "wait for all work captured in hEvent"},
        {"cuLaunchHostFunc", "will block work added after it"},
        {"cuStreamQuery", "or CUDA_ERROR_NOT_READY if not"},
        {"cuEventDestroy", "An event may be destroyed before it is complete"}},
       order_script},
      {"an event that was never recorded is complete",
       Kind::shared,
       {{"cuEventRecord", "an event represents an empty set of work"}},
       [](Script &s) {
         CUevent event = event_of(s);
         s.expect("query", s.api.cuEventQuery(event));
         s.expect("synchronise", s.api.cuEventSynchronize(event));
         s.expect("a wait for it", s.api.cuStreamWaitEvent(nullptr, event, 0));
         s.need(s.api.cuEventDestroy(event));
       }},
      {"times between events",
       Kind::shared,
       {{"cuEventElapsedTime", "not been called on either event then CUDA_ERROR_INVALID_HANDLE"},
        {"cuEventElapsedTime",
         "CU_EVENT_DISABLE_TIMING flag, then this function will return CUDA_ERROR_INVALID_HANDLE"}},
       [](Script &s) {
         CUevent a = event_of(s), b = event_of(s), untimed = event_of(s, CU_EVENT_DISABLE_TIMING);
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
         for (CUevent event : {a, b, untimed})
           s.need(s.api.cuEventDestroy(event));
       },
       12080},
      {"priorities are clamped to the range",
       Kind::shared,
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
       Kind::shared,
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
       Kind::shared,
       {{"cuStreamCreate", "no implicit synchronization with stream 0"}},
       [](Script &s) {
         Gate gate;
         CUstream blocking = stream_of(s, CU_STREAM_DEFAULT), free_stream = stream_of(s);
         CUdeviceptr cell = s.words(1);
         s.need(s.api.cuLaunchHostFunc(blocking, &Gate::wait, &gate));
         s.need(s.api.cuMemsetD32Async(cell, 1, 1, nullptr));
         s.expect("the default stream waits", s.api.cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
         s.expect("a non-blocking one does not", s.api.cuStreamSynchronize(free_stream));
         gate.open = true;
         s.expect("done", s.api.cuStreamSynchronize(nullptr));
         s.expect("filled", uint64_t(s.word(cell)), 1);
         s.need(s.api.cuStreamDestroy(blocking));
         s.need(s.api.cuStreamDestroy(free_stream));
         s.need(s.api.cuMemFree(cell));
       }},
      {"a capture becomes a graph and executes nothing",
       Kind::shared,
       {{"cuStreamBeginCapture", "will not be executed, but will instead be captured"},
        {"cuStreamBeginCapture", "only be initiated if the stream is not already in capture mode"}},
       capture_script},
      {"a capture that is broken is invalidated",
       Kind::shared,
       {{"cuStreamEndCapture", "then a NULL graph will be returned"}},
       invalidated_script},
      {"the legacy stream cannot be captured",
       Kind::shared,
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
