// Copies and fills over the emulated device's memory; see copy.h.
//
// Every operand is reduced to a base address, a row pitch and a slice pitch; addresses of the
// device's range lead to its backing bytes whatever kind of memory the caller named, as unified
// addressing does.
#include "emulator/driver/memory/copy.h"

#include "emulator/device/undefined_bytes.h"
#include "emulator/exec/checks/accesses.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator::api {

namespace {

struct Operand {
  uint64_t address = 0;
  uint64_t row_pitch = 0, slice_pitch = 0;
  bool staged = false;
};

struct Extent {
  uint64_t width, height, depth;
  bool empty() const { return !width || !height || !depth; }
};

// x, y, z, pitch and height bounded so that no product below overflows.
constexpr uint64_t kMaxField = uint64_t(1) << 40;

bool supported(CUmemorytype type) {
  return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE ||
         type == CU_MEMORYTYPE_UNIFIED;
}

CUresult make_operand(uint64_t base, uint64_t x, uint64_t y, uint64_t z, uint64_t pitch,
                      uint64_t rows, const Extent &extent, Operand *out) {
  for (uint64_t value : {x, y, z, pitch, rows, extent.width, extent.height, extent.depth})
    if (value > kMaxField)
      return CUDA_ERROR_INVALID_VALUE;
  bool flat = extent.height == 1 && extent.depth == 1;
  if (!pitch)
    pitch = flat ? extent.width : 0;
  if (!rows)
    rows = extent.depth == 1 ? extent.height : 0;
  // Rows must not overlap: the pitch "must be greater than or equal to the sum of WidthInBytes and
  // srcXInBytes", and likewise for heights.
  bool pitched = extent.height > 1 || extent.depth > 1 || y || z;
  if (pitched && pitch < x + extent.width)
    return CUDA_ERROR_INVALID_VALUE;
  if ((extent.depth > 1 || z) && rows < y + extent.height)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t slice, slices, rows_before, end;
  if (__builtin_mul_overflow(pitch, rows, &slice) ||
      __builtin_mul_overflow(slice, z + extent.depth, &slices) ||
      __builtin_mul_overflow(pitch, y, &rows_before) ||
      __builtin_add_overflow(slices, rows_before, &end) ||
      __builtin_add_overflow(end, x + extent.width, &end) ||
      __builtin_add_overflow(end, base, &end))
    return CUDA_ERROR_INVALID_VALUE;
  out->row_pitch = pitch;
  out->slice_pitch = slice;
  out->address = base + z * out->slice_pitch + y * pitch + x;
  return CUDA_SUCCESS;
}

uint64_t base_of(CUmemorytype type, CUdeviceptr device, const void *host) {
  return type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(host) : device;
}

CUresult operands(const CUDA_MEMCPY3D &c, Operand *source, Operand *destination, Extent *extent) {
  *extent = {c.WidthInBytes, c.Height, c.Depth};
  if (!supported(c.srcMemoryType) || !supported(c.dstMemoryType)) {
    bool array = c.srcMemoryType == CU_MEMORYTYPE_ARRAY || c.dstMemoryType == CU_MEMORYTYPE_ARRAY;
    return array ? Driver::instance().refuse("copies of CUDA arrays are")
                 : CUDA_ERROR_INVALID_VALUE;
  }
  if (c.reserved0 || c.reserved1 || c.srcLOD || c.dstLOD)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(make_operand(base_of(c.srcMemoryType, c.srcDevice, c.srcHost), c.srcXInBytes,
                             c.srcY, c.srcZ, c.srcPitch, c.srcHeight, *extent, source));
  return make_operand(base_of(c.dstMemoryType, c.dstDevice, c.dstHost), c.dstXInBytes, c.dstY,
                      c.dstZ, c.dstPitch, c.dstHeight, *extent, destination);
}

uint64_t span_of(const Operand &operand, const Extent &extent) {
  return (extent.depth - 1) * operand.slice_pitch + (extent.height - 1) * operand.row_pitch +
         extent.width;
}

bool reachable(Driver &driver, const Operand &operand, const Extent &extent) {
  if (!driver.memory->owns(operand.address))
    return operand.address != 0;
  return driver.memory->find(operand.address, span_of(operand, extent)).has_value();
}

bool declared_device(CUmemorytype type) { return type == CU_MEMORYTYPE_DEVICE; }

std::byte *host_bytes(Driver &driver, uint64_t address) {
  return driver.memory->owns(address) ? driver.memory->host(address)
                                      : reinterpret_cast<std::byte *>(address);
}

} // namespace

bool is_pageable(Driver &driver, uint64_t address) {
  return !driver.memory->owns(address) && !driver.allocations->find(address);
}

CUDA_MEMCPY3D linear_copy(uint64_t destination, uint64_t source, size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = source;
  copy.dstDevice = destination;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUresult check_copy(Driver &driver, const CUDA_MEMCPY3D &copy) {
  Operand source, destination;
  Extent extent{};
  CUGRT_EMU_TRY(operands(copy, &source, &destination, &extent));
  if (extent.empty())
    return CUDA_SUCCESS;
  // Named as device memory but none that the device reaches, or not within one live allocation.
  if ((declared_device(copy.srcMemoryType) && is_pageable(driver, source.address)) ||
      (declared_device(copy.dstMemoryType) && is_pageable(driver, destination.address)))
    return CUDA_ERROR_INVALID_VALUE;
  return reachable(driver, source, extent) && reachable(driver, destination, extent)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

/// The host is not watched, so that a copy to it is the last place to ask; it may take padding
/// along, but something should be there.
static void check_download(Driver &driver, const UndefinedBytes &undefined, const Operand &source,
                           const Extent &extent) {
  constexpr uint64_t kStep = 64;
  for (uint64_t z = 0; z < extent.depth; ++z)
    for (uint64_t y = 0; y < extent.height; ++y)
      for (uint64_t x = 0; x < extent.width; x += kStep) {
        auto count = uint32_t(std::min(kStep, extent.width - x));
        uint64_t at = source.address + z * source.slice_pitch + y * source.row_pitch + x;
        if (undefined.undefined(at, count) != ~uint64_t(0) >> (64 - count))
          return;
      }
  uint64_t bytes = extent.width * extent.height * extent.depth;
  driver.findings.report(Check::uninitialized,
                         "a copy to the host takes " +
                             bytes_at({source.address, source.address + bytes}) +
                             ", of which nothing has written one");
}

/// The copy of bytes that nothing has written is as undefined as they are.
static void carry_undefined(Driver &driver, const CopyWork &work, const Operand &source,
                            const Operand &destination, const Extent &extent) {
  UndefinedBytes *undefined = driver.memory->undefined();
  if (!undefined)
    return;
  bool from_device = !work.staged && driver.memory->owns(source.address);
  if (!driver.memory->owns(destination.address)) {
    if (from_device)
      check_download(driver, *undefined, source, extent);
    return;
  }
  for (uint64_t z = 0; z < extent.depth; ++z)
    for (uint64_t y = 0; y < extent.height; ++y) {
      uint64_t to = destination.address + z * destination.slice_pitch + y * destination.row_pitch,
               from = source.address + z * source.slice_pitch + y * source.row_pitch;
      if (from_device)
        undefined->copy(to, from, extent.width);
      else
        undefined->mark_defined(to, extent.width);
    }
}

CUresult run_copy(Driver &driver, const CopyWork &work) {
  Operand source, destination;
  Extent extent{};
  CUGRT_EMU_TRY(operands(work.copy, &source, &destination, &extent));
  driver.counters.copies.fetch_add(1, std::memory_order_relaxed);
  if (extent.empty())
    return CUDA_SUCCESS;
  if ((!work.staged && !reachable(driver, source, extent)) ||
      !reachable(driver, destination, extent)) {
    driver.report(Check::fault, "a copy touches device memory that was freed before it ran");
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  std::byte *to = host_bytes(driver, destination.address);
  const std::byte *from = work.staged ? work.staged->data() : host_bytes(driver, source.address);
  carry_undefined(driver, work, source, destination, extent);
  for (uint64_t z = 0; z < extent.depth; ++z)
    for (uint64_t y = 0; y < extent.height; ++y)
      std::memmove(to + z * destination.slice_pitch + y * destination.row_pitch,
                   from + z * source.slice_pitch + y * source.row_pitch, extent.width);
  return CUDA_SUCCESS;
}

static CUresult fill_operand(const CUDA_MEMSET_NODE_PARAMS &fill, Operand *out, Extent *extent) {
  if (fill.elementSize != 1 && fill.elementSize != 2 && fill.elementSize != 4)
    return CUDA_ERROR_INVALID_VALUE; // "Must be 1, 2, or 4."
  if (fill.width > kMaxField / 4)
    return CUDA_ERROR_INVALID_VALUE;
  *extent = {fill.width * fill.elementSize, fill.height, 1};
  // "Pitch of destination device pointer. Unused if height is 1"
  uint64_t pitch = fill.height == 1 ? 0 : fill.pitch;
  if (fill.dst % fill.elementSize || pitch % fill.elementSize)
    return CUDA_ERROR_INVALID_VALUE;
  return make_operand(fill.dst, 0, 0, 0, pitch, 0, *extent, out);
}

CUresult check_fill(Driver &driver, const CUDA_MEMSET_NODE_PARAMS &fill) {
  Operand operand;
  Extent extent{};
  CUGRT_EMU_TRY(fill_operand(fill, &operand, &extent));
  if (extent.empty())
    return CUDA_SUCCESS;
  bool pinned = !driver.memory->owns(fill.dst) && !is_pageable(driver, fill.dst);
  return pinned || (driver.memory->owns(fill.dst) && reachable(driver, operand, extent))
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult run_fill(Driver &driver, const CUDA_MEMSET_NODE_PARAMS &fill) {
  Operand operand;
  Extent extent{};
  CUGRT_EMU_TRY(fill_operand(fill, &operand, &extent));
  driver.counters.memsets.fetch_add(1, std::memory_order_relaxed);
  if (extent.empty())
    return CUDA_SUCCESS;
  if (!reachable(driver, operand, extent)) {
    driver.report(Check::fault, "a memset touches device memory that was freed before it ran");
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  std::byte *row = host_bytes(driver, operand.address);
  UndefinedBytes *undefined = driver.memory->undefined();
  for (uint64_t y = 0; y < extent.height; ++y, row += operand.row_pitch) {
    if (undefined && driver.memory->owns(operand.address))
      undefined->mark_defined(operand.address + y * operand.row_pitch, extent.width);
    if (fill.elementSize == 1)
      std::memset(row, int(fill.value & 0xFF), extent.width);
    else // little-endian: the value's first bytes are the element's
      for (uint64_t x = 0; x < extent.width; x += fill.elementSize)
        std::memcpy(row + x, &fill.value, fill.elementSize);
  }
  return CUDA_SUCCESS;
}

static void add_rows(AccessKind kind, const Operand &operand, const Extent &extent,
                     AccessSet &out) {
  for (uint64_t z = 0; z < extent.depth; ++z)
    for (uint64_t y = 0; y < extent.height; ++y)
      out.add(kind, operand.address + z * operand.slice_pitch + y * operand.row_pitch,
              extent.width);
}

void copy_accesses(const CopyWork &work, AccessSet &out) {
  Operand source, destination;
  Extent extent{};
  if (operands(work.copy, &source, &destination, &extent) != CUDA_SUCCESS || extent.empty())
    return;
  if (!work.staged)
    add_rows(AccessKind::read, source, extent, out);
  add_rows(AccessKind::write, destination, extent, out);
}

void fill_accesses(const CUDA_MEMSET_NODE_PARAMS &fill, AccessSet &out) {
  Operand operand;
  Extent extent{};
  if (fill_operand(fill, &operand, &extent) == CUDA_SUCCESS && !extent.empty())
    add_rows(AccessKind::write, operand, extent, out);
}

} // namespace cugrt::emulator::api
