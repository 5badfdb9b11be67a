// Streams: creation, synchronisation, attributes, host functions.
#include "emulator/graph/node_params.h"
#include "emulator/graph/stream.h"

#include <algorithm>

namespace cugrt::emulator::api {

static CUresult create(Driver &driver, CUstream *out, unsigned flags, int priority) {
  if (!out || (flags & ~unsigned(CU_STREAM_NON_BLOCKING)))
    return CUDA_ERROR_INVALID_VALUE;
  Lock lock(driver.mutex);
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  return make_stream(driver, context, current_green(driver), flags, priority, out);
}

// Body gets the driver, the stream and the lock, which is held.
template <class Body> static CUresult stream_call(CUstream handle, Body &&body) {
  return locked_call([&](Driver &driver, Lock &lock) -> CUresult {
    CUGRT_EMU_FIND(Stream, stream, find_stream_any, driver, handle);
    return body(driver, stream, lock);
  });
}
#define STREAM_CALL(...)                                                                           \
  GUARDED(stream_call(handle, body), (Driver & driver, Ref<Stream> & stream, Lock & lock),         \
          __VA_ARGS__)

static bool settable(CUstreamAttrID attribute) {
  return attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
         attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
         attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

CUresult make_stream(Driver &driver, const Ref<Context> &context, const Ref<GreenContext> &green,
                     unsigned flags, int priority, CUstream *out) {
  CUGRT_EMU_TRY(refuse_unsafe(driver));
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->green = green;
  stream->flags = flags;
  // "If the specified priority is outside the numerical range returned by
  // cuCtxGetStreamPriorityRange, it will automatically be clamped."
  stream->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  stream->id = driver.next_id++;
  *out = driver.streams.insert(stream, [&] { context->streams.push_back(stream); });
  return CUDA_SUCCESS;
}

CALL(cuStreamCreateWithPriority, out, flags, priority) {
  return create(driver, out, flags, priority);
}

LOCKED_CALL(cuStreamDestroy_v2, handle) {
  // "In case the device is still doing work in the stream hStream when cuStreamDestroy() is
  // called, the function will return immediately and the resources associated with hStream will
  // be released automatically once the device has completed all work in hStream."
  CUGRT_EMU_NEED(Stream, stream, driver.streams.find(handle), CUDA_ERROR_INVALID_HANDLE);
  constexpr CUresult kNeitherDestroyed = CUDA_ERROR_CONTEXT_IS_DESTROYED; // before CUDA 13.1
  if (stream->green && stream->green->destroyed && detached(driver) == kNeitherDestroyed)
    return kNeitherDestroyed;
  if (!driver.scheduler->done(stream->tail))
    stream->context->orphans.push_back(stream->tail);
  // The origin's capture can never be ended; another stream's work counts at its end all the
  // same.
  if (stream->capture && stream->capture->origin == handle)
    abandon_capture(driver, *stream->capture);
  else if (stream->capture)
    for (CUgraphNode node : stream->capture_dependencies)
      stream->capture->left_behind.push_back(node);
  driver.streams.erase(handle);
  std::erase(stream->context->streams, stream);
  return CUDA_SUCCESS;
}

STREAM_CALL(cuStreamSynchronize, handle) {
  CUGRT_EMU_TRY(refuse_capture(driver, stream));
  return synchronize(driver, stream, lock);
}

STREAM_CALL(cuStreamQuery, handle) {
  CUGRT_EMU_TRY(refuse_capture(driver, stream));
  bool done = driver.scheduler->query(join(driver, stream));
  CUGRT_EMU_TRY(driver.scheduler->poison());
  return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

STREAM_CALL(cuStreamGetPriority, handle, out) { return give(out, stream->priority); }
STREAM_CALL(cuStreamGetFlags, handle, out) { return give(out, stream->flags); }
STREAM_CALL(cuStreamGetId, handle, out) { return give(out, stream->id); }

STREAM_CALL(cuStreamGetCtx, handle, out) {
  Ref<GreenContext> green = green_of(driver, *stream);
  return give(out, green ? green->as_context : stream->context->handle);
}

// "If the stream is associated with a green context, the API returns the green context in pGreenCtx
// and the primary context of the associated device in pCtx."
STREAM_CALL(cuStreamGetCtx_v2, handle, out, green) {
  CUGRT_EMU_TRY(give(out, stream->context->handle));
  Ref<GreenContext> found = green_of(driver, *stream);
  if (green)
    *green = found ? found->handle : nullptr;
  return CUDA_SUCCESS;
}

STREAM_CALL(cuStreamGetGreenCtx, handle, out) {
  Ref<GreenContext> green = green_of(driver, *stream);
  return give(out, green ? green->handle : nullptr);
}

STREAM_CALL(cuStreamGetDevice, handle, out) { return give(out, 0); }

STREAM_CALL(cuStreamSetAttribute, handle, attribute, value) {
  if (!value || !settable(attribute))
    return CUDA_ERROR_INVALID_VALUE;
  stream->attributes[attribute] = *value;
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY)
    stream->priority = std::clamp(value->priority, kGreatestPriority, kLeastPriority);
  return CUDA_SUCCESS;
}

STREAM_CALL(cuStreamGetAttribute, handle, attribute, value) {
  if (!value || !settable(attribute))
    return CUDA_ERROR_INVALID_VALUE;
  auto set = stream->attributes.find(attribute);
  *value = set == stream->attributes.end() ? CUstreamAttrValue{} : set->second;
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY)
    value->priority = stream->priority;
  return CUDA_SUCCESS;
}

STREAM_CALL(cuStreamCopyAttributes, handle, from) {
  CUGRT_EMU_FIND(Stream, source, find_stream_any, driver, from);
  stream->attributes = source->attributes;
  return CUDA_SUCCESS;
}

CALL(cuLaunchHostFunc_v2, handle, function, user, sync_mode) {
  Work work;
  CUGRT_EMU_TRY(host_to_work(function, user, sync_mode, &work));
  Lock lock(driver.mutex);
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
  return run_in_stream(driver, stream, std::move(work));
}

LOCKED_CALL(cuStreamAddCallback, handle, callback, user, flags) {
  if (!callback || flags) // "Reserved for future use, must be 0"
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
  // "Note this function is slated for eventual deprecation": it cannot be captured.
  CUGRT_EMU_TRY(refuse_capture(driver, stream));
  auto task = std::make_shared<Task>();
  task->kind = TaskKind::host;
  // "The callback may be passed CUDA_SUCCESS or an error code. In the event of a device error,
  // all subsequently executed callbacks will receive an appropriate CUresult."
  task->run_always = true;
  task->action = [=](CUresult status) {
    callback(handle, status, user);
    return CUDA_SUCCESS;
  };
  enqueue(driver, stream, task);
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
