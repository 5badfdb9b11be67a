// Stream capture: a state of streams in which work becomes nodes of a graph.
//
// A capture begins in one stream, its origin. Other streams join it by waiting for an event that
// was recorded in it, and must be joined to the origin again in the same way before it ends. What
// goes wrong meanwhile invalidates the capture: every participating stream then answers
// STREAM_CAPTURE_INVALIDATED until the origin ends it.
#include "emulator/graph/stream.h"

#include <algorithm>
#include <set>

namespace cugrt::emulator::api {

namespace {

thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool valid_mode(CUstreamCaptureMode mode) {
  return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
         mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUstreamCaptureStatus status_of(const Stream &stream) {
  return !stream.capture               ? CU_STREAM_CAPTURE_STATUS_NONE
         : stream.capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult begin(Driver &driver, CUstream handle, CUstreamCaptureMode mode, Ref<Graph> graph,
               std::vector<CUgraphNode> dependencies) {
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
  // "Capture must be ended on the same stream in which it was initiated [...] Capture may not be
  // initiated if stream is CU_STREAM_LEGACY."
  if (stream->legacy)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture || !valid_mode(mode))
    return stream->capture ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_INVALID_VALUE;
  auto capture = std::make_shared<Capture>();
  capture->id = driver.next_id++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream->handle;
  capture->to_graph = graph != nullptr;
  capture->graph = graph ? graph : make_graph(driver);
  stream->capture = capture;
  stream->capture_dependencies = std::move(dependencies);
  return CUDA_SUCCESS;
}

std::vector<Ref<Stream>> participants(Driver &driver, const Capture &capture, Context &context) {
  std::vector<Ref<Stream>> found;
  for (const Ref<Stream> &stream : driver.streams.all())
    if (stream->capture.get() == &capture)
      found.push_back(stream);
  for (auto &[thread, stream] : context.per_thread_streams)
    if (stream->capture.get() == &capture)
      found.push_back(stream);
  return found;
}

// Every node that a joined stream ended with must lead to where the origin stands.
bool unjoined(Driver &driver, const std::vector<Ref<Stream>> &streams, const Stream &origin,
              const Capture &capture) {
  std::set<const GraphNode *> joined;
  std::vector<const GraphNode *> work;
  auto visit = [&](const GraphNode *node) {
    if (node && joined.insert(node).second)
      work.push_back(node);
  };
  for (CUgraphNode node : origin.capture_dependencies)
    visit(driver.nodes.find(node).get());
  while (!work.empty()) {
    const GraphNode *node = work.back();
    work.pop_back();
    for (const GraphEdge &edge : node->dependencies)
      visit(edge.node);
  }
  auto is_apart = [&](CUgraphNode handle) {
    Ref<GraphNode> node = driver.nodes.find(handle);
    return node && !joined.count(node.get());
  };
  for (const Ref<Stream> &stream : streams)
    if (std::any_of(stream->capture_dependencies.begin(), stream->capture_dependencies.end(),
                    is_apart))
      return true;
  return std::any_of(capture.left_behind.begin(), capture.left_behind.end(), is_apart);
}

CUresult read_dependencies(Driver &driver, const Graph &graph, const CUgraphNode *nodes,
                           const CUgraphEdgeData *data, size_t count,
                           std::vector<CUgraphNode> *out) {
  if (count && !nodes)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    Ref<GraphNode> node = driver.nodes.find(nodes[i]);
    if (!node || node->graph != &graph)
      return CUDA_ERROR_INVALID_VALUE;
    if (data && (data[i].type || data[i].from_port || data[i].to_port))
      return driver.refuse("data of edges in a capture is");
    out->push_back(nodes[i]);
  }
  return CUDA_SUCCESS;
}

} // namespace

// "If the local thread has an ongoing capture sequence that was not initiated with
// CU_STREAM_CAPTURE_MODE_RELAXED, or if any other thread has a concurrent capture sequence
// initiated with CU_STREAM_CAPTURE_MODE_GLOBAL, this thread is prohibited from potentially unsafe
// API calls."
//
// Which calls those are is told for cudaMalloc alone; docs/emulator.md has what is known of others.
CUresult refuse_unsafe(Driver &driver) {
  if (t_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  auto check = [&](const Stream &stream) {
    Capture *capture = stream.capture.get();
    if (!capture || capture->invalidated)
      return;
    bool mine = capture->thread == std::this_thread::get_id() &&
                capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    bool theirs =
        t_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!mine && !theirs)
      return;
    capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  };
  driver.contexts.for_each([&](const Ref<Context> &context) {
    for (const Ref<Stream> &stream : context->streams)
      check(*stream);
    for (auto &[thread, stream] : context->per_thread_streams)
      check(*stream);
  });
  return result;
}

void abandon_capture(Driver &driver, Capture &capture) {
  capture.invalidated = true;
  if (capture.graph && !capture.to_graph)
    destroy_graph(driver, capture.graph);
  capture.graph = nullptr;
}

LOCKED_CALL(cuStreamBeginCapture_v2, stream, mode) {
  return begin(driver, stream, mode, nullptr, {});
}

LOCKED_CALL(cuStreamBeginCaptureToGraph, stream, handle, dependencies, data, count, mode) {
  CUGRT_EMU_NEED(Graph, graph, driver.graphs.find(handle), CUDA_ERROR_INVALID_VALUE);
  std::vector<CUgraphNode> read;
  CUGRT_EMU_TRY(read_dependencies(driver, *graph, dependencies, data, count, &read));
  return begin(driver, stream, mode, graph, std::move(read));
}

LOCKED_CALL(cuStreamEndCapture, handle, out) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
  Ref<Capture> capture = stream->capture;
  if (!capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  *out = nullptr;
  if (capture->origin != stream->handle)
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  std::vector<Ref<Stream>> streams = participants(driver, *capture, *stream->context);
  std::vector<Ref<Event>> events = driver.events.all();
  CUresult result = CUDA_SUCCESS;
  // "If the mode argument to cuStreamBeginCapture was not CU_STREAM_CAPTURE_MODE_RELAXED, this
  // call must be from the same thread as cuStreamBeginCapture." Another's ends the capture all
  // the same.
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  else if (capture->invalidated)
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (unjoined(driver, streams, *stream, *capture))
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  for (const Ref<Stream> &participant : streams) {
    participant->capture = nullptr;
    participant->capture_dependencies.clear();
  }
  for (const Ref<Event> &event : events)
    if (event->capture == capture) {
      event->capture = nullptr;
      event->captured_nodes.clear();
    }
  if (result == CUDA_SUCCESS)
    *out = capture->graph->handle;
  else // "If capture was invalidated [...] a NULL graph will be returned."
    abandon_capture(driver, *capture);
  return result;
}

LOCKED_CALL(cuStreamIsCapturing, handle, status) {
  if (!status)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_FIND(Stream, stream, find_stream_any, driver, handle);
  // "If called on CU_STREAM_LEGACY (the null stream) while a stream in the same context is
  // capturing, it will return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT". That stream is unaffected.
  if (stream->legacy)
    for (const Ref<Stream> &other : stream->context->streams)
      if (other->capture && other->blocking())
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = status_of(*stream);
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuStreamGetCaptureInfo_v3, handle, status, id, graph, nodes, data, count) {
  // "If edgeData_out is non-NULL then dependencies_out must be as well."
  if (!status || (data && !nodes))
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_FIND(Stream, stream, find_stream_any, driver, handle);
  *status = status_of(*stream);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return CUDA_SUCCESS;
  if (id)
    *id = stream->capture->id;
  if (graph)
    *graph = stream->capture->graph->handle;
  if (nodes)
    *nodes = stream->capture_dependencies.data();
  if (data) {
    stream->capture_edges.assign(stream->capture_dependencies.size(), CUgraphEdgeData{});
    *data = stream->capture_edges.data();
  }
  if (count)
    *count = stream->capture_dependencies.size();
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuStreamUpdateCaptureDependencies_v2, handle, nodes, data, count, flags) {
  if (flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES && flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
  if (!stream->capture) // "Returns CUDA_ERROR_ILLEGAL_STATE if the stream is not capturing."
    return CUDA_ERROR_ILLEGAL_STATE;
  CUGRT_EMU_TRY(capture_state(*stream));
  std::vector<CUgraphNode> read;
  CUGRT_EMU_TRY(read_dependencies(driver, *stream->capture->graph, nodes, data, count, &read));
  auto &to = stream->capture_dependencies;
  to.reserve(to.size() + read.size());
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    to.clear();
  for (CUgraphNode node : read)
    if (std::find(to.begin(), to.end(), node) == to.end())
      to.push_back(node);
  return CUDA_SUCCESS;
}

/// Of the calling thread alone: like the texts of errors it has nothing to fail for, so that it is
/// neither counted nor failed by injection.
ENTRY(cuThreadExchangeStreamCaptureMode, mode) {
  if (!Driver::instance().initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (!mode || !valid_mode(*mode))
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, t_mode);
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
