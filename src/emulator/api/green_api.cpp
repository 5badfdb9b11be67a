// Green contexts and the multiprocessors that are divided among them.
//
// What a multiprocessor's number is belongs to nobody in cuda.h: which ones a resource stands for
// is kept in the padding that it calls internal.
#include "base/on_throw.h"
#include "emulator/driver/code/launch.h"
#include "emulator/graph/stream.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator::api {

namespace {

/// The internal padding of a CUdevResource.
struct Note {
  static constexpr uint32_t kMark = 0x4D53'4547; // of a resource that this driver has filled in
  uint32_t mark = 0, split = 0; // of which split it is; 0: asked of a device or context
  uint32_t set[21] = {};        // multiprocessors, a bit for each
};
static_assert(sizeof(Note) == sizeof(CUdevResource::_internal_padding));
constexpr uint32_t kMostMultiprocessors = sizeof(Note::set) * 8;

// Other types came with CUDA 13.1.
constexpr int kWorkQueues = 13010;
constexpr int kWorkQueueConfig = 1000, kWorkQueue = 10000; // CUdevResourceType

CUresult check_type(Driver &driver, CUdevResourceType type) {
  if (type == CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_SUCCESS;
  const int number = type; // headers before 13.1 have no names for these
  const bool queues = (number == kWorkQueueConfig || number == kWorkQueue) &&
                      driver.config.driver_version >= kWorkQueues;
  return queues ? driver.refuse("work queues as resources of contexts are")
                : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

/// All bytes: of what newer drivers put behind these three numbers nothing is set.
void write(const Multiprocessors &from, uint32_t split, CUdevResource *out) {
  Note note;
  note.mark = Note::kMark;
  note.split = split;
  for (uint32_t number : from.numbers)
    note.set[number / 32] |= 1u << number % 32;
  std::memset(out, 0, sizeof *out);
  out->type = CU_DEV_RESOURCE_TYPE_SM;
  std::memcpy(out->_internal_padding, &note, sizeof note);
  out->sm.smCount = unsigned(from.numbers.size());
  out->sm.minSmPartitionSize = from.smallest;
  out->sm.smCoscheduledAlignment = from.alignment;
}

CUresult read(Driver &driver, const CUdevResource &in, Multiprocessors *out, uint32_t *split) {
  CUGRT_EMU_TRY(check_type(driver, in.type));
  Note note;
  std::memcpy(&note, in._internal_padding, sizeof note);
  if (note.mark != Note::kMark)
    return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t number = 0; number < kMostMultiprocessors; ++number)
    if (note.set[number / 32] >> number % 32 & 1)
      out->numbers.push_back(number);
  out->alignment = in.sm.smCoscheduledAlignment;
  out->smallest = in.sm.minSmPartitionSize;
  *split = note.split;
  return CUDA_SUCCESS;
}

// "On Compute Architecture 8.X: The minimum count is 4 SMs and must be a multiple of 2. On Compute
// Architecture 9.0+: The minimum count is 8 SMs and must be a multiple of 8", but for Tegra.
Multiprocessors of_device(const DeviceProfile &profile) {
  Multiprocessors all;
  for (int i = 0; i < profile.multiprocessors; ++i)
    all.numbers.push_back(uint32_t(i));
  const bool large = profile.major >= 9 && !profile.integrated;
  all.alignment = large ? 8 : 2;
  all.smallest = large ? 8 : profile.major == 8 ? 4 : 2;
  return all;
}

/// Gives the resource of a green context, or of the device if it is nullptr.
CUresult give_resource(Driver &driver, const GreenContext *green, CUdevResourceType type,
                       CUdevResource *out) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(check_type(driver, type));
  write(green ? green->multiprocessors : of_device(*driver.config.profile), 0, out);
  return CUDA_SUCCESS;
}

CUresult split_by_count(Driver &driver, CUdevResource *result, unsigned *groups,
                        const CUdevResource &input, CUdevResource *remainder, unsigned flags,
                        unsigned least) {
  constexpr unsigned kFine = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING,
                     kClusters = CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
  Multiprocessors all;
  uint32_t earlier_split = 0;
  CUGRT_EMU_TRY(read(driver, input, &all, &earlier_split));
  // "Compute Capability 9.0+ only."
  if ((flags & ~(kFine | kClusters)) || ((flags & kClusters) && driver.config.profile->major < 9) ||
      least > all.numbers.size() || (result && !*groups))
    return CUDA_ERROR_INVALID_VALUE;
  // "the output results cannot be split again without first creating a descriptor and a green
  // context with that descriptor"
  if (earlier_split)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  constexpr uint32_t kFinest = 2; // multiprocessors come in pairs
  const uint32_t unit = flags & kFine ? kFinest : all.alignment;
  const uint32_t size =
      (std::max(least, flags & kFine ? kFinest : all.smallest) + unit - 1) / unit * unit;
  const auto possible = unsigned(all.numbers.size() / size);
  if (!possible)
    return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  const unsigned made = result ? std::min(*groups, possible) : possible;
  *groups = made;
  if (!result)
    return CUDA_SUCCESS;
  const auto id = uint32_t(driver.next_id++);
  auto part = [&](size_t begin, size_t end) {
    return Multiprocessors{
        {all.numbers.begin() + ptrdiff_t(begin), all.numbers.begin() + ptrdiff_t(end)},
        unit,
        std::min(all.smallest, size)};
  };
  for (unsigned i = 0; i < made; ++i)
    write(part(size_t(i) * size, size_t(i + 1) * size), id, &result[i]);
  if (!remainder)
    return CUDA_SUCCESS;
  const size_t used = size_t(made) * size;
  if (used == all.numbers.size())
    std::memset(remainder, 0, sizeof *remainder); // CU_DEV_RESOURCE_TYPE_INVALID
  else
    write(part(used, all.numbers.size()), id, remainder);
  return CUDA_SUCCESS;
}

// "they must be outputs (whether result or remaining) from the same split API instance and have the
// same smCoscheduledAlignment"
CUresult describe(Driver &driver, const CUdevResource *resources, unsigned count,
                  Multiprocessors *out) {
  uint32_t first_split = 0;
  for (unsigned i = 0; i < count; ++i) {
    Multiprocessors one;
    uint32_t split = 0;
    CUGRT_EMU_TRY(read(driver, resources[i], &one, &split));
    if (i == 0) {
      *out = std::move(one);
      first_split = split;
      continue;
    }
    std::vector<uint32_t> both;
    std::set_union(out->numbers.begin(), out->numbers.end(), one.numbers.begin(), one.numbers.end(),
                   std::back_inserter(both));
    if (!split || split != first_split || one.alignment != out->alignment ||
        both.size() != out->numbers.size() + one.numbers.size())
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    out->numbers = std::move(both);
  }
  return out->numbers.empty() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult create(Driver &driver, CUgreenCtx *out, CUdevResourceDesc handle, CUdevice device,
                unsigned flags) {
  constexpr int kWithoutStream = 13030; // the driver version that made the flag optional
  if (!out || !((flags == 0 && driver.config.driver_version >= kWithoutStream) ||
                flags == CU_GREEN_CTX_DEFAULT_STREAM))
    return CUDA_ERROR_INVALID_VALUE;
  if (device != 0)
    return CUDA_ERROR_INVALID_DEVICE;
  CUGRT_EMU_NEED(ResourceDescriptor, descriptor, driver.descriptors.find(handle),
                 CUDA_ERROR_INVALID_VALUE);
  auto green = std::make_shared<GreenContext>();
  auto view = std::make_shared<GreenView>();
  view->green = green;
  green->multiprocessors = descriptor->multiprocessors;
  green->id = driver.next_id++;
  driver.contexts.views.insert(view, [&] { driver.greens.insert(green); });
  green->as_context = view->handle;
  const OnThrow undo([&] {
    driver.contexts.views.erase(view->handle);
    driver.greens.erase(green->handle);
  });
  retain_primary(driver);
  green->context = driver.primary;
  *out = green->handle;
  return CUDA_SUCCESS;
}

CUresult destroy(Driver &driver, CUgreenCtx handle, Lock &lock) {
  CUGRT_EMU_NEED(GreenContext, green, driver.greens.find(handle), CUDA_ERROR_INVALID_CONTEXT);
  driver.greens.erase(handle);
  driver.contexts.views.erase(green->as_context);
  green->destroyed = true;
  // "the API will invalidate all active captures on these streams"; the streams stay.
  for (const Ref<Stream> &stream : green->context->streams)
    if (stream->green == green && stream->capture)
      stream->capture->invalidated = true;
  return release_primary(driver, lock);
}

} // namespace

LOCKED_CALL(cuDeviceGetDevResource, device, out, type) {
  return device == 0 ? give_resource(driver, nullptr, type, out) : CUDA_ERROR_INVALID_DEVICE;
}

LOCKED_CALL(cuCtxGetDevResource, handle, out, type) {
  if (!driver.contexts.find(handle))
    return CUDA_ERROR_INVALID_CONTEXT;
  return give_resource(driver, driver.contexts.find_green(handle).get(), type, out);
}

LOCKED_CALL(cuGreenCtxGetDevResource, handle, out, type) {
  Ref<GreenContext> green = driver.greens.find(handle);
  return green ? give_resource(driver, green.get(), type, out) : CUDA_ERROR_INVALID_CONTEXT;
}

LOCKED_CALL(cuStreamGetDevResource, handle, out, type) {
  CUGRT_EMU_FIND(Stream, stream, find_stream_any, driver, handle);
  if (type != CU_DEV_RESOURCE_TYPE_SM) // also of those types that contexts have
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  return give_resource(driver, green_of(driver, *stream).get(), type, out);
}

LOCKED_CALL(cuDevSmResourceSplitByCount, result, groups, input, remainder, flags, least) {
  return groups && input ? split_by_count(driver, result, groups, *input, remainder, flags, least)
                         : CUDA_ERROR_INVALID_VALUE;
}

LOCKED_CALL(cuDevResourceGenerateDesc, out, resources, count) {
  if (!out || !resources || !count)
    return CUDA_ERROR_INVALID_VALUE;
  auto descriptor = std::make_shared<ResourceDescriptor>();
  CUGRT_EMU_TRY(describe(driver, resources, count, &descriptor->multiprocessors));
  *out = driver.descriptors.insert(descriptor);
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuGreenCtxCreate, out, descriptor, device, flags) {
  return create(driver, out, descriptor, device, flags);
}

LOCKED_CALL(cuGreenCtxDestroy, handle) { return destroy(driver, handle, lock); }

LOCKED_CALL(cuCtxFromGreenCtx, out, handle) {
  Ref<GreenContext> green = driver.greens.find(handle);
  if (!out || !green)
    return out ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
  *out = green->as_context;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuGreenCtxGetId, handle, out) {
  // "If green context is supplied as NULL and the current context is set to a green context, the
  // Id of the current green context is returned."
  Ref<GreenContext> green = handle ? driver.greens.find(handle) : current_green(driver);
  if (!out || !green)
    return out ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
  *out = green->id;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuGreenCtxStreamCreate, out, handle, flags, priority) {
  CUGRT_EMU_NEED(GreenContext, green, driver.greens.find(handle), CUDA_ERROR_INVALID_CONTEXT);
  if (!out || flags != CU_STREAM_NON_BLOCKING) // "must be specified"
    return CUDA_ERROR_INVALID_VALUE;
  return make_stream(driver, green->context, green, flags, priority, out);
}

} // namespace cugrt::emulator::api
