// Contexts: the primary one, created ones, and each thread's stack.
#include "emulator/api/context_stack.h"
#include "emulator/driver/memory/heap.h"
#include "emulator/graph/stream.h"

namespace cugrt::emulator::api {

namespace {

constinit thread_local ContextStack t_stack;

constexpr unsigned kContextFlags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX |
                                   CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE |
                                   CU_CTX_SYNC_MEMOPS;

// "Only one of the scheduling flags can be set when creating a context."
CUresult check_flags(unsigned flags) {
  unsigned scheduling = flags & CU_CTX_SCHED_MASK;
  bool one = (scheduling & (scheduling - 1)) == 0;
  return one && !(flags & ~kContextFlags) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

Ref<Context> make_context(Driver &driver, unsigned flags) {
  auto context = std::make_shared<Context>(*driver.memory);
  auto stream = std::make_shared<Stream>();
  driver.contexts.insert(context);
  context->id = driver.next_id++;
  context->flags = flags;
  context->legacy_stream = stream;
  stream->context = context;
  stream->id = driver.next_id++;
  stream->legacy = true;
  return context;
}

std::string counted(uint64_t count, const char *what, uint64_t bytes = 0) {
  std::string text = std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  return bytes ? text + " (" + std::to_string(bytes) + " bytes)" : text;
}

// Lists objects that the program has not destroyed. Graphs, and memory that belongs to no context,
// are left when the last context goes; libraries may outlive it.
std::string leftovers(Driver &driver, const Context &context) {
  bool last = driver.contexts.size() == (driver.contexts.find(context.handle) ? 1 : 0);
  MemoryTable::Usage usage = driver.allocations->usage_of(&context, last);
  uint64_t modules = 0, execs = 0;
  for (const Ref<Module> &module : context.modules)
    modules += !module->of_library;
  driver.execs.for_each(
      [&](const Ref<GraphExec> &exec) { execs += exec->context.get() == &context; });
  std::string text;
  auto add = [&](uint64_t count, const char *what, uint64_t bytes = 0) {
    if (count)
      text += (text.empty() ? "" : ", ") + counted(count, what, bytes);
  };
  add(usage.device, "device allocation", usage.device_bytes);
  add(usage.host, "host allocation", usage.host_bytes);
  add(modules, "module");
  add(context.streams.size(), "stream");
  add(context.events.size(), "event");
  add(execs, "graph instance");
  if (last)
    add(driver.graphs.size(), "graph");
  return text;
}

// After a fault every call fails, also those that free: objects left then are no leak of the
// program's.
void report_leftovers(Driver &driver, const Context &context) {
  if (!driver.findings.enabled(Check::leak) || driver.scheduler->poison() != CUDA_SUCCESS)
    return;
  try {
    std::string text = leftovers(driver, context);
    if (!text.empty())
      driver.findings.report(
          Check::leak, std::string(context.primary ? "the primary context"
                                                   : "context " + std::to_string(context.id)) +
                           " was destroyed with " + text + " left");
  } catch (...) { // no host memory to say it
  }
}

// Reports a fault where the caller must go on.
void tell(Driver &driver, const char *fault) {
  try {
    driver.report(Check::fault, fault);
  } catch (...) { // no host memory to say it
  }
}

// "Destroys and cleans up all resources associated with the context": with nothing else to run, a
// stream that waits for a word in memory stops waiting, and its later work is not run.
void wait_or_drop(Driver &driver, const Context &context, const std::vector<TaskPtr> &tasks) {
  Scheduler::Which waits = [&](const Task &task) { return task.context == &context; };
  bool dropped = false;
  for (const TaskPtr &task : tasks)
    while (!driver.scheduler->wait_unless(task, waits)) {
      driver.scheduler->drop(waits);
      dropped = true;
    }
  if (dropped)
    tell(driver,
         "a context was destroyed while a stream of it waited for a word in memory: the wait "
         "and the work that follows it are dropped");
}

// Waits for the context's pending work, then frees its objects. The lock is held before and after;
// allocates nothing.
void empty_context(Driver &driver, const Ref<Context> &context, const std::vector<TaskPtr> &tasks,
                   Lock &lock) {
  lock.unlock();
  wait_or_drop(driver, *context, tasks);
  lock.lock();
  report_leftovers(driver, *context);
  destroy_context_contents(driver, *context);
  driver.scheduler->clear_poison();
}

void destroy(Driver &driver, const Ref<Context> &context, Lock &lock) {
  std::vector<TaskPtr> tasks = pending_work(driver, *context);
  driver.contexts.erase(context->handle);
  // "If ctx is current to the calling thread then ctx will also be popped from the current
  // thread's context stack."
  if (!t_stack.empty() && t_stack.top() == context->handle)
    t_stack.pop();
  empty_context(driver, context, tasks, lock);
  context->legacy_stream = nullptr;
}

CUresult create(Driver &driver, CUcontext *out, unsigned flags, CUdevice device) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  if (device != 0)
    return CUDA_ERROR_INVALID_DEVICE;
  CUGRT_EMU_TRY(check_flags(flags));
  Lock lock(driver.mutex);
  t_stack.reserve_one();
  *out = make_context(driver, flags)->handle;
  // "The created context is made current to the calling thread": pushed.
  t_stack.push(*out);
  return CUDA_SUCCESS;
}

} // namespace

CUresult current_context_any(Driver &driver, Ref<Context> *out) {
  if (t_stack.empty() || !t_stack.top())
    return CUDA_ERROR_INVALID_CONTEXT;
  *out = driver.contexts.find(t_stack.top());
  return *out ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUcontext current_handle() { return t_stack.empty() ? nullptr : t_stack.top(); }

Ref<GreenContext> current_green(Driver &driver) {
  return driver.contexts.find_green(current_handle());
}

void retain_primary(Driver &driver) {
  if (!driver.primary) {
    driver.primary = make_context(driver, driver.primary_flags);
    driver.primary->primary = true;
  }
  ++driver.primary_retains;
}

CUresult release_primary(Driver &driver, Lock &lock) {
  if (!driver.primary)
    return CUDA_ERROR_INVALID_CONTEXT;
  std::vector<TaskPtr> tasks = pending_work(driver, *driver.primary);
  if (--driver.primary_retains)
    return CUDA_SUCCESS;
  // "The context is automatically reset once the last reference to it is released."
  Ref<Context> context = std::move(driver.primary);
  driver.primary = nullptr;
  driver.contexts.erase(context->handle);
  empty_context(driver, context, tasks, lock);
  context->legacy_stream = nullptr;
  return CUDA_SUCCESS;
}

CUresult current_context(Driver &driver, Ref<Context> *out) {
  CUGRT_EMU_TRY(current_context_any(driver, out));
  return driver.scheduler->poison();
}

std::vector<TaskPtr> pending_work(Driver &driver, Context &context) {
  auto done = [&](const TaskPtr &task) { return driver.scheduler->done(task); };
  std::erase_if(context.orphans, done);
  std::vector<TaskPtr> tasks = context.orphans;
  auto add = [&](const Ref<Stream> &stream) {
    if (stream && !done(stream->tail))
      tasks.push_back(stream->tail);
  };
  add(context.legacy_stream);
  for (auto &[thread, stream] : context.per_thread_streams)
    add(stream);
  for (const Ref<Stream> &stream : context.streams)
    add(stream);
  return tasks;
}

void wait_all(Driver &driver, const std::vector<TaskPtr> &tasks) {
  for (const TaskPtr &task : tasks)
    driver.scheduler->wait(task);
}

void wait_all_before_free(Driver &driver, const std::vector<TaskPtr> &tasks,
                          const MemoryRange &range) {
  Scheduler::Which waits = [&](const Task &task) {
    return task.awaited_address - range.device_address < range.bytes;
  };
  for (const TaskPtr &task : tasks)
    if (!driver.scheduler->wait_unless(task, waits)) {
      tell(driver, "memory is freed while a stream waits for a word of it");
      driver.scheduler->set_poison(CUDA_ERROR_ILLEGAL_ADDRESS);
      return wait_all(driver, tasks);
    }
}

void destroy_context_contents(Driver &driver, Context &context) {
  auto end_capture = [&](Stream &stream) {
    if (stream.capture && stream.capture->origin == stream.handle)
      abandon_capture(driver, *stream.capture);
    stream.capture = nullptr;
  };
  for (auto &[thread, stream] : context.per_thread_streams)
    end_capture(*stream);
  for (const Ref<Stream> &stream : context.streams) {
    end_capture(*stream);
    driver.streams.erase(stream->handle);
    stream->context = nullptr;
  }
  for (const Ref<Event> &event : context.events) {
    driver.events.erase(event->handle);
    event->context = nullptr;
  }
  for (const Ref<Module> &module : context.modules) {
    for (auto &[name, function] : module->functions)
      if (auto object = driver.functions.erase(function))
        object->context = nullptr;
    driver.modules.erase(module->handle);
    module->context = nullptr;
  }
  driver.libraries.for_each([&](const Ref<Library> &library) { library->modules.erase(&context); });
  context.streams.clear();
  context.events.clear();
  context.modules.clear();
  context.per_thread_streams.clear();
  context.orphans.clear();
  context.limits.clear();
  context.legacy_stream->tail = nullptr;
  context.legacy_stream->last_kernel = nullptr;
  close_heap(driver, context);
  context.heap_bytes = kDefaultHeapBytes;
  context.used_heap = false;
  driver.allocations->free_context(*driver.memory, &context);
}

LOCKED_CALL(cuDevicePrimaryCtxRetain, out, device) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  if (device != 0)
    return CUDA_ERROR_INVALID_DEVICE;
  retain_primary(driver);
  *out = driver.primary->handle;
  return CUDA_SUCCESS;
}

DEVICE_CALL(cuDevicePrimaryCtxRelease_v2, device) {
  Lock lock(driver.mutex);
  return release_primary(driver, lock);
}

DEVICE_CALL(cuDevicePrimaryCtxReset_v2, device) {
  Lock lock(driver.mutex);
  // "Resetting the primary context does not release it": the handle stays alive.
  if (Ref<Context> context = driver.primary)
    empty_context(driver, context, pending_work(driver, *context), lock);
  driver.primary_flags = 0;
  return CUDA_SUCCESS;
}

DEVICE_CALL(cuDevicePrimaryCtxSetFlags_v2, device, flags) {
  CUGRT_EMU_TRY(check_flags(flags));
  Lock lock(driver.mutex);
  driver.primary_flags = flags;
  if (driver.primary)
    driver.primary->flags = flags;
  return CUDA_SUCCESS;
}

DEVICE_CALL(cuDevicePrimaryCtxGetState, device, flags, active) {
  if (!flags || !active)
    return CUDA_ERROR_INVALID_VALUE;
  Lock lock(driver.mutex);
  *flags = driver.primary_flags;
  *active = driver.primary ? 1 : 0;
  return CUDA_SUCCESS;
}

CALL(cuCtxCreate_v2, out, flags, device) { return create(driver, out, flags, device); }

CALL(cuCtxSetFlags, flags) {
  CUGRT_EMU_TRY(check_flags(flags));
  Lock lock(driver.mutex);
  CUGRT_EMU_FIND(Context, context, current_context_any, driver);
  context->flags = flags;
  return CUDA_SUCCESS;
}

CALL(cuCtxCreate_v3, out, affinity, count, flags, device) {
  if (affinity || count)
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(driver, out, flags, device);
}

CALL(cuCtxCreate_v4, out, params, flags, device) {
  if (params && params->execAffinityParams && params->cigParams)
    return CUDA_ERROR_INVALID_VALUE;
  if (params && params->numExecAffinityParams)
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  if (params && params->cigParams)
    return driver.refuse("sharing the device with graphics is");
  return create(driver, out, flags, device);
}

LOCKED_CALL(cuCtxDestroy_v2, handle) {
  Ref<Context> context = driver.contexts.find(handle);
  // The primary context is released, not destroyed.
  if (!context || context->primary)
    return CUDA_ERROR_INVALID_CONTEXT;
  destroy(driver, context, lock);
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuCtxAttach, out, flags) {
  if (!out || flags) // "Currently, the flags parameter must be 0."
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_FIND(Context, context, current_context_any, driver);
  ++context->attached;
  if (context->primary) // whose usage count is that of its retains
    ++driver.primary_retains;
  *out = context->handle;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuCtxDetach, handle) {
  Ref<Context> context = driver.contexts.find(handle);
  // "The context must be a handle that was passed back by cuCtxCreate() or cuCtxAttach(), and
  // must be current to the calling thread."
  if (!context || t_stack.empty() || t_stack.top() != handle ||
      (context->primary && !context->attached))
    return CUDA_ERROR_INVALID_CONTEXT;
  if (context->attached) {
    --context->attached;
    return context->primary ? release_primary(driver, lock) : CUDA_SUCCESS;
  }
  destroy(driver, context, lock);
  return CUDA_SUCCESS;
}

CALL(cuCtxPushCurrent_v2, handle) {
  if (!driver.contexts.find(handle))
    return CUDA_ERROR_INVALID_CONTEXT;
  t_stack.push(handle);
  return CUDA_SUCCESS;
}

CALL(cuCtxPopCurrent_v2, out) {
  if (t_stack.empty())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (out)
    *out = t_stack.top();
  t_stack.pop();
  return CUDA_SUCCESS;
}

CALL(cuCtxSetCurrent, handle) {
  if (!handle) {
    // "If ctx is NULL, this call pops the top of the CPU thread's context stack, if it is not
    // empty."
    if (!t_stack.empty())
      t_stack.pop();
    return CUDA_SUCCESS;
  }
  if (!driver.contexts.find(handle))
    return CUDA_ERROR_INVALID_CONTEXT;
  // "If there already is a context on the top of the stack, it is replaced."
  if (t_stack.empty())
    t_stack.push(handle);
  else
    t_stack.set_top(handle);
  return CUDA_SUCCESS;
}

CALL(cuCtxGetCurrent, out) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  // "If no context is bound to the calling CPU thread then *pctx is set to NULL and CUDA_SUCCESS
  // is returned."
  *out = current_handle();
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
