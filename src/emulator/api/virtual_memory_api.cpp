// Virtual memory management: address ranges, physical memory, mappings and access.
//
// Physical memory is an anonymous file; mapping it twice shows the same bytes twice. Mapped memory
// can be used only after cuMemSetAccess, as documented; until then kernels and copies fault.
#include "base/on_throw.h"
#include "emulator/device/undefined_bytes.h"
#include "emulator/driver/driver.h"

#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>

namespace cugrt::emulator::api {

Physical::~Physical() {
  if (file >= 0)
    close(file);
}

namespace {

constexpr uint64_t kGranularity = uint64_t(2) << 20;

Physical *as_key(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<Physical *>(uintptr_t(handle));
}

bool whole(uint64_t value) { return value % kGranularity == 0; }

CUresult check_properties(Driver &driver, const CUmemAllocationProp *prop) {
  if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return driver.refuse("physical memory on the host is");
  if (prop->location.id != 0)
    return CUDA_ERROR_INVALID_DEVICE;
  return prop->requestedHandleTypes ? driver.refuse("memory that processes share is")
                                    : CUDA_SUCCESS;
}

// A file of `bytes` poisoned bytes, or -1.
int make_file(uint64_t bytes) {
  int file = memfd_create("cugrt-emu", MFD_CLOEXEC);
  if (file < 0)
    return -1;
  void *view = ftruncate(file, off_t(bytes)) == 0
                   ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                   : MAP_FAILED;
  if (view == MAP_FAILED) {
    close(file);
    return -1;
  }
  std::fill_n(static_cast<uint8_t *>(view), bytes, AddressSpace::kPoison);
  munmap(view, bytes);
  return file;
}

// Freed when neither the handle nor a mapping is left.
void drop(Driver &driver, Ref<Physical> memory) {
  uint64_t bytes = memory->bytes;
  bool handle_alive = driver.physical.find(memory->handle) == memory;
  bool mapped = std::any_of(driver.mappings.begin(), driver.mappings.end(),
                            [&](auto &entry) { return entry.second.memory == memory; });
  if (!handle_alive && !mapped)
    driver.allocations->give_back(bytes);
}

/// Memory that is or was seen at another address counts as defined, since undefined bytes are known
/// by address.
void note_mapping(Driver &driver, uint64_t address, const Driver::Mapping &mapping) {
  UndefinedBytes *undefined = driver.memory->undefined();
  if (!undefined)
    return;
  if (!mapping.memory->was_mapped)
    undefined->mark_undefined(address, mapping.bytes);
  else
    for (const auto &[begin, other] : driver.mappings)
      if (other.memory == mapping.memory && (other.accessible || begin == address))
        undefined->exempt(begin, other.bytes);
  mapping.memory->was_mapped = true;
}

void set_access(Driver &driver, uint64_t address, Driver::Mapping &mapping, bool on) {
  if (on == mapping.accessible)
    return;
  if (on) {
    on = driver.memory->map_file(address, mapping.bytes, mapping.memory->file, mapping.offset);
    const OnThrow undo([&] { driver.memory->unmap_file(address); });
    if (on) {
      driver.allocations->add_mapped(address, mapping.bytes);
      note_mapping(driver, address, mapping);
    }
  } else {
    driver.memory->unmap_file(address);
    driver.allocations->remove_mapped(address);
    if (UndefinedBytes *undefined = driver.memory->undefined())
      undefined->end_exemption(address);
  }
  mapping.accessible = on;
}

// The mappings that fill [address, address + bytes) exactly; empty when they do not.
std::vector<uint64_t> covering(Driver &driver, uint64_t address, uint64_t bytes) {
  std::vector<uint64_t> found;
  uint64_t at = address;
  for (auto it = driver.mappings.find(address);
       it != driver.mappings.end() && it->first == at && at - address < bytes; ++it) {
    found.push_back(it->first);
    at += it->second.bytes;
  }
  if (at - address != bytes)
    found.clear();
  return found;
}

} // namespace

CALL(cuMemGetAllocationGranularity, granularity, prop, option) {
  if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                       option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(check_properties(driver, prop));
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CALL(cuMemAddressReserve, out, bytes, alignment, hint, flags) {
  bool power = (alignment & (alignment - 1)) == 0;
  if (!out || !bytes || !whole(bytes) || !power || flags) // "currently unused, must be zero"
    return CUDA_ERROR_INVALID_VALUE;
  Lock lock(driver.mutex);
  auto address = driver.memory->reserve(bytes, std::max<uint64_t>(alignment, kGranularity));
  if (!address.ok())
    return CUDA_ERROR_OUT_OF_MEMORY;
  const OnThrow undo([&] { driver.memory->release(*address, bytes); });
  driver.reservations.emplace(*address, bytes);
  *out = *address;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuMemAddressFree, address, bytes) {
  auto it = driver.reservations.find(address);
  if (it == driver.reservations.end() || it->second != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  auto mapped = driver.mappings.lower_bound(address);
  if (mapped != driver.mappings.end() && mapped->first < address + bytes)
    return CUDA_ERROR_INVALID_VALUE; // unmap first
  driver.memory->release(address, bytes);
  driver.reservations.erase(it);
  return CUDA_SUCCESS;
}

CALL(cuMemCreate, out, bytes, prop, flags) {
  // "size must be a multiple of the granularity".
  if (!out || !bytes || !whole(bytes) || flags)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(check_properties(driver, prop));
  auto memory = std::make_shared<Physical>();
  memory->bytes = bytes;
  memory->properties = *prop;
  if (!driver.allocations->take(bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  memory->file = make_file(bytes);
  const OnThrow undo([&] { driver.allocations->give_back(bytes); });
  if (memory->file < 0)
    throw std::bad_alloc();
  Lock lock(driver.mutex);
  *out = reinterpret_cast<uintptr_t>(driver.physical.insert(memory));
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuMemRelease, handle) {
  // "The memory allocation will be freed when all outstanding mappings to the memory are unmapped
  // and when all outstanding references to the handle are released."
  CUGRT_EMU_NEED(Physical, memory, driver.physical.erase(as_key(handle)), CUDA_ERROR_INVALID_VALUE);
  drop(driver, memory);
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuMemGetAllocationPropertiesFromHandle, out, handle) {
  Ref<Physical> memory = driver.physical.find(as_key(handle));
  if (!memory || !out)
    return CUDA_ERROR_INVALID_VALUE;
  *out = memory->properties;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuMemMap, address, bytes, offset, handle, flags) {
  Ref<Physical> memory = driver.physical.find(as_key(handle));
  if (!memory || flags || !bytes || !whole(address) || !whole(bytes) || !whole(offset))
    return CUDA_ERROR_INVALID_VALUE;
  if (offset > memory->bytes || bytes > memory->bytes - offset)
    return CUDA_ERROR_INVALID_VALUE;
  auto reservation = driver.reservations.upper_bound(address);
  if (reservation == driver.reservations.begin())
    return CUDA_ERROR_INVALID_VALUE;
  --reservation;
  if (!AddressRange{reservation->first, reservation->second}.contains(address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  auto next = driver.mappings.lower_bound(address);
  bool taken = next != driver.mappings.end() && next->first < address + bytes;
  if (next != driver.mappings.begin())
    taken = taken || std::prev(next)->first + std::prev(next)->second.bytes > address;
  if (taken)
    return CUDA_ERROR_INVALID_VALUE;
  driver.mappings[address] = {bytes, offset, memory, false};
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuMemUnmap, address, bytes) {
  // "must be the entire range that was mapped", of one mapping or of several.
  std::vector<uint64_t> found = covering(driver, address, bytes);
  if (found.empty())
    return CUDA_ERROR_INVALID_VALUE;
  for (uint64_t begin : found) {
    Driver::Mapping mapping = driver.mappings[begin];
    set_access(driver, begin, mapping, false);
    driver.mappings.erase(begin);
    drop(driver, mapping.memory);
  }
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuMemSetAccess, address, bytes, desc, count) {
  if (!desc || !count)
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<uint64_t> found = covering(driver, address, bytes);
  if (found.empty())
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || desc[i].location.id != 0)
      return CUDA_ERROR_INVALID_DEVICE;
    for (uint64_t begin : found)
      set_access(driver, begin, driver.mappings[begin],
                 desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE);
  }
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuMemGetAccess, flags, location, address) {
  auto it = driver.mappings.upper_bound(address);
  if (!flags || !location || it == driver.mappings.begin())
    return CUDA_ERROR_INVALID_VALUE;
  --it;
  if (address - it->first >= it->second.bytes)
    return CUDA_ERROR_INVALID_VALUE;
  *flags =
      it->second.accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
