// Buffers, copies, streams and events of the C ABI.
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "device/api/handles.h"
#include "device/driver/driver_error.h"

namespace cugrt::runtime::api {

namespace {

/// Runs `body` with the device's context current; Device::note() keeps a lost device's error.
template <class Body> Status on_device(Device &device, Body &&body) {
  CUGRT_TRY(device.require_driver());
  CUGRT_TRY(device.check());
  auto enter = [&]() -> Status {
    CUGRT_ASSIGN(driver::ContextGuard guard, device.context().enter());
    return body();
  };
  return device.note(enter());
}

driver::StreamRef stream_or_ours(Device &device, cugrt_stream *stream) {
  return stream ? stream->stream.ref()
                : driver::StreamRef(&device.api(), device.context().copy_stream());
}

Status buffer_create(cugrt_runtime *runtime, cugrt_memory_kind kind, uint64_t bytes,
                     cugrt_buffer **buffer) {
  CUGRT_REQUIRE(runtime, buffer);
  auto made = std::make_unique<cugrt_buffer>();
  made->device = runtime->device;
  made->bytes = bytes;
  CUGRT_TRY(on_device(*runtime->device, [&]() -> Status {
    const driver::Context &context = runtime->device->context();
    if (kind == CUGRT_MEMORY_DEVICE) {
      CUGRT_ASSIGN(made->device_memory, driver::DeviceBuffer::allocate(context, bytes));
      made->address = made->device_memory.address();
      return {};
    }
    if (kind != CUGRT_MEMORY_PINNED)
      return Status::error(Code::invalid_argument, "unknown memory kind " + std::to_string(kind));
    CUGRT_ASSIGN(made->pinned_memory, driver::PinnedBuffer::allocate(context, bytes));
    if (bytes == 0)
      return {};
    CUGRT_ASSIGN(made->address, made->pinned_memory.device_address(context));
    return {};
  }));
  *buffer = made.release();
  return {};
}

uint64_t buffer_address(const cugrt_buffer *buffer) { return buffer ? buffer->address : 0; }
void *buffer_host_pointer(const cugrt_buffer *buffer) {
  return buffer ? buffer->pinned_memory.data() : nullptr;
}
uint64_t buffer_bytes(const cugrt_buffer *buffer) { return buffer ? buffer->bytes : 0; }
void buffer_free(cugrt_buffer *buffer) { delete buffer; }

/// Runs `body`, which moves `bytes` bytes, with the device's context current, if there are any.
template <class Body> Status moved(cugrt_runtime *runtime, uint64_t bytes, Body &&body) {
  CUGRT_REQUIRE(runtime);
  return bytes == 0 ? Status() : on_device(*runtime->device, body);
}

Status copy_to_device(cugrt_runtime *runtime, uint64_t address, const void *from, uint64_t bytes,
                      cugrt_stream *stream) {
  return moved(runtime, bytes, [&]() -> Status {
    CUGRT_REQUIRE(from);
    if (!stream)
      return driver::copy_to_device(runtime->device->context(), address, from, bytes);
    CUGRT_DRIVER(runtime->device->api(), MemcpyHtoDAsync,
                 (address, from, bytes, stream->stream.get()), "");
    return {};
  });
}

Status copy_to_host(cugrt_runtime *runtime, void *to, uint64_t address, uint64_t bytes,
                    cugrt_stream *stream) {
  return moved(runtime, bytes, [&]() -> Status {
    CUGRT_REQUIRE(to);
    if (!stream)
      return driver::copy_to_host(runtime->device->context(), to, address, bytes);
    CUGRT_DRIVER(runtime->device->api(), MemcpyDtoHAsync,
                 (to, address, bytes, stream->stream.get()), "");
    return {};
  });
}

Status copy_on_device(cugrt_runtime *runtime, uint64_t to, uint64_t from, uint64_t bytes,
                      cugrt_stream *stream) {
  return moved(runtime, bytes, [&]() -> Status {
    driver::StreamRef on = stream_or_ours(*runtime->device, stream);
    CUGRT_TRY(driver::copy_async(on, to, from, bytes));
    return stream ? Status() : on.synchronize();
  });
}

Status fill(cugrt_runtime *runtime, uint64_t address, uint8_t byte, uint64_t bytes,
            cugrt_stream *stream) {
  return moved(runtime, bytes, [&]() -> Status {
    driver::StreamRef on = stream_or_ours(*runtime->device, stream);
    CUGRT_TRY(driver::fill_async(on, address, byte, 1, bytes));
    return stream ? Status() : on.synchronize();
  });
}

Status stream_create_with_priority(cugrt_runtime *runtime, int32_t priority,
                                   cugrt_stream **stream) {
  CUGRT_REQUIRE(runtime, stream);
  if (priority < 0)
    return Status::error(Code::invalid_argument, "a stream's priority is 0 or more");
  auto made = std::make_unique<cugrt_stream>();
  made->device = runtime->device;
  CUGRT_TRY(on_device(*runtime->device, [&]() -> Status {
    CUGRT_ASSIGN(made->stream, driver::Stream::create(runtime->device->context(), -priority));
    return {};
  }));
  *stream = made.release();
  return {};
}

Status stream_create(cugrt_runtime *runtime, cugrt_stream **stream) {
  return stream_create_with_priority(runtime, 0, stream);
}

void *stream_native(const cugrt_stream *stream) { return stream ? stream->stream.get() : nullptr; }

Status stream_synchronize(cugrt_stream *stream) {
  CUGRT_REQUIRE(stream);
  return on_device(*stream->device, [&] { return stream->stream.ref().synchronize(); });
}

void stream_free(cugrt_stream *stream) { delete stream; }

Status event_create(cugrt_runtime *runtime, cugrt_event **event) {
  CUGRT_REQUIRE(runtime, event);
  auto made = std::make_unique<cugrt_event>();
  made->device = runtime->device;
  CUGRT_TRY(on_device(*runtime->device, [&]() -> Status {
    CUGRT_ASSIGN(made->event,
                 driver::Event::create(runtime->device->context(), driver::Event::Timing::on));
    return {};
  }));
  *event = made.release();
  return {};
}

driver::StreamRef native(Device &device, void *stream) {
  return {&device.api(), static_cast<CUstream>(stream)};
}

Status event_record(cugrt_event *event, void *native_stream) {
  CUGRT_REQUIRE(event);
  return on_device(*event->device,
                   [&] { return event->event.record(native(*event->device, native_stream)); });
}

Status event_stream_wait(cugrt_event *event, void *native_stream) {
  CUGRT_REQUIRE(event);
  return on_device(*event->device,
                   [&] { return native(*event->device, native_stream).wait(event->event.get()); });
}

Status event_synchronize(cugrt_event *event) {
  CUGRT_REQUIRE(event);
  return on_device(*event->device, [&] { return event->event.synchronize(); });
}

Status event_elapsed_milliseconds(cugrt_event *from, cugrt_event *to, double *milliseconds) {
  CUGRT_REQUIRE(from, to, milliseconds);
  return on_device(*to->device, [&]() -> Status {
    CUGRT_ASSIGN(*milliseconds, to->event.milliseconds_since(from->event));
    return {};
  });
}

void event_free(cugrt_event *event) { delete event; }

} // namespace

void add_memory_entries(cugrt_api &table) {
  set_entry<buffer_create>(table.buffer_create);
  table.buffer_address = buffer_address;
  table.buffer_host_pointer = buffer_host_pointer;
  table.buffer_bytes = buffer_bytes;
  table.buffer_free = buffer_free;
  set_entry<copy_to_device>(table.copy_to_device);
  set_entry<copy_to_host>(table.copy_to_host);
  set_entry<copy_on_device>(table.copy_on_device);
  set_entry<fill>(table.fill);
  set_entry<stream_create>(table.stream_create);
  set_entry<stream_create_with_priority>(table.stream_create_with_priority);
  table.stream_native = stream_native;
  set_entry<stream_synchronize>(table.stream_synchronize);
  table.stream_free = stream_free;
  set_entry<event_create>(table.event_create);
  set_entry<event_record>(table.event_record);
  set_entry<event_stream_wait>(table.event_stream_wait);
  set_entry<event_synchronize>(table.event_synchronize);
  set_entry<event_elapsed_milliseconds>(table.event_elapsed_milliseconds);
  table.event_free = event_free;
}

} // namespace cugrt::runtime::api
