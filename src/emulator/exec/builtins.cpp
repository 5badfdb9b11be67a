// vprintf, __assertfail, cudaGraphSetConditional, malloc and free: the functions that compilers'
// output declares and leaves to the device.
#include "base/whole_number.h"
#include "emulator/device/device_heap.h"
#include "emulator/exec/block.h"
#include "emulator/exec/memory.h"
#include "emulator/exec/warps/control.h"

#include <bit>
#include <cstdio>
#include <cstring>

namespace cugrt::emulator {

namespace {

constexpr size_t kMaxString = 1 << 16;

uint64_t argument(const Warp &w, const CallSite &site, size_t index, uint32_t lane) {
  uint64_t bits = 0;
  if (index >= site.arguments.size())
    return 0;
  const Argument &a = site.arguments[index];
  uint32_t bytes = std::min<uint32_t>(a.bytes, 8);
  std::memcpy(&bits, w.registers + a.cell + lane * a.bytes, bytes);
  return bits;
}

/// One lane's bytes at a generic address; nullptr after raising a fault.
const std::byte *at(const Op *op, Warp &w, uint32_t lane, uint64_t address, uint32_t bytes) {
  uint64_t addresses[kLanes] = {};
  std::byte *places[kLanes];
  addresses[lane] = address;
  uint32_t saved = w.mask;
  w.mask = 1u << lane;
  bool good = translate(op, w, ptx::Space::none, addresses, bytes, 1, places);
  w.mask = saved;
  return good ? places[lane] : nullptr;
}

bool read_string(const Op *op, Warp &w, uint32_t lane, uint64_t address, std::string &out) {
  for (out.clear(); out.size() < kMaxString;) {
    const std::byte *p = at(op, w, lane, address + out.size(), 1);
    if (!p)
      return false;
    if (*p == std::byte(0))
      return true;
    out += char(*p);
  }
  return true;
}

/// The conversion that begins at format[i] ('%'), without its length modifier; `bytes` of a whole
/// number are meant. i moves behind it.
std::string conversion(const std::string &format, size_t &i, uint32_t &bytes) {
  std::string spec = "%";
  bytes = 4;
  for (++i; i < format.size(); ++i) {
    char c = format[i];
    if (c == 'l' || c == 'z' || c == 't' || c == 'j') {
      bytes = 8;
      continue;
    }
    if (c == 'h') {
      bytes = bytes == 4 ? 2 : 1;
      continue;
    }
    spec += c;
    if (std::strchr("diouxXcspaAeEfFgG%", c)) {
      ++i;
      return spec;
    }
  }
  return spec;
}

bool append_value(const Op *op, Warp &w, uint32_t lane, std::string spec, uint32_t meant,
                  uint64_t &cursor, std::string &out) {
  char kind = spec.back(), buffer[512];
  bool wide = meant == 8 || std::strchr("spaAeEfFgG", kind);
  uint32_t bytes = wide ? 8 : 4; // small numbers are passed as int
  cursor = (cursor + bytes - 1) / bytes * bytes;
  const std::byte *p = at(op, w, lane, cursor, bytes);
  if (!p)
    return false;
  uint64_t bits = 0;
  std::memcpy(&bits, p, bytes);
  cursor += bytes;
  if (kind == 's') {
    std::string text;
    if (!read_string(op, w, lane, bits, text))
      return false;
    out += text;
    return true;
  }
  if (std::strchr("aAeEfFgG", kind)) {
    double value;
    std::memcpy(&value, &bits, 8);
    snprintf(buffer, sizeof buffer, spec.c_str(), value);
  } else if (kind == 'p') {
    snprintf(buffer, sizeof buffer, "%s", hex_text(bits).c_str());
  } else if (kind == 'c') {
    snprintf(buffer, sizeof buffer, spec.c_str(), int(bits));
  } else {
    spec.insert(spec.size() - 1, "ll");
    bool is_signed = kind == 'd' || kind == 'i';
    const uint32_t above = 64 - 8 * meant;
    long long value =
        is_signed ? (long long)(bits << above) >> above : (long long)(bits << above >> above);
    snprintf(buffer, sizeof buffer, spec.c_str(), value);
  }
  out += buffer;
  return true;
}

/// printf "returns the number of arguments parsed by the device [...] If the format string is NULL,
/// -1 is returned." False at a fault.
bool print_lane(const Op *op, Warp &w, const CallSite &site, uint32_t lane, int32_t &parsed) {
  std::string format, out;
  parsed = -1;
  if (!argument(w, site, 0, lane))
    return true;
  parsed = 0;
  if (!read_string(op, w, lane, argument(w, site, 0, lane), format))
    return false;
  uint64_t cursor = argument(w, site, 1, lane);
  for (size_t i = 0; i < format.size();) {
    if (format[i] != '%') {
      out += format[i++];
      continue;
    }
    uint32_t bytes;
    std::string spec = conversion(format, i, bytes);
    constexpr size_t kMaxSpec = 32;
    if (spec == "%%")
      out += '%';
    else if (spec.size() < 2 || spec.size() > kMaxSpec || spec.find('*') != spec.npos ||
             !std::strchr("diouxXcspaAeEfFgG", spec.back()))
      out += spec; // malformed: shown as it stands
    else if (++parsed; !append_value(op, w, lane, spec, bytes, cursor, out))
      return false;
  }
  // The program's own output, as the real driver writes it at synchronisation.
  fwrite(out.data(), 1, out.size(), stdout);
  fflush(stdout);
  return true;
}

const Op *fail_assertion(const Op *op, Warp &w, const CallSite &site) {
  uint32_t lane = uint32_t(__builtin_ctz(w.mask));
  std::string message, file, function;
  if (!read_string(op, w, lane, argument(w, site, 0, lane), message) ||
      !read_string(op, w, lane, argument(w, site, 1, lane), file) ||
      !read_string(op, w, lane, argument(w, site, 3, lane), function))
    return w.stop;
  uint32_t line = uint32_t(argument(w, site, 2, lane));
  return raise_fault(w, op, FaultKind::assertion, lane,
                     "assertion '" + message + "' failed in " + function + " at " + file + ":" +
                         std::to_string(line));
}

const Op *set_conditional(const Op *op, Warp &w, const CallSite &site) {
  const auto *set = w.block->launch->config->set_conditional;
  for (uint32_t lane : lanes_of(w.mask)) {
    uint64_t handle = argument(w, site, 0, lane);
    if (set && (*set)(handle, uint32_t(argument(w, site, 1, lane))))
      continue;
    return raise_fault(w, op, FaultKind::illegal_address, lane,
                       "cudaGraphSetConditional of " + hex_text(handle) +
                           ", no handle of this context");
  }
  return op + 1;
}

/// Sets the result of one lane's call.
void set_result(Warp &w, const CallSite &site, uint32_t lane, const void *value, uint32_t bytes) {
  if (site.results.empty())
    return;
  const Argument &result = site.results[0];
  std::memcpy(w.registers + result.cell + lane * result.bytes, value,
              std::min(bytes, result.bytes));
}

const Op *print(const Op *op, Warp &w, const CallSite &site) {
  for (uint32_t lane : lanes_of(w.mask)) {
    int32_t parsed;
    if (!print_lane(op, w, site, lane, parsed))
      return w.stop;
    set_result(w, site, lane, &parsed, sizeof parsed);
  }
  return op + 1;
}

/// NULL "if insufficient memory exists to fulfill the request", and for an alignment that is none.
const Op *allocate_blocks(const Op *op, Warp &w, const CallSite &site, bool aligned) {
  DeviceHeap *heap = w.block->launch->config->heap;
  for (uint32_t lane : lanes_of(w.mask)) {
    const uint64_t alignment = aligned ? argument(w, site, 1, lane) : DeviceHeap::kUnit;
    const uint64_t address = heap && std::has_single_bit(alignment)
                                 ? heap->allocate(argument(w, site, 0, lane), alignment)
                                 : 0;
    set_result(w, site, lane, &address, sizeof address);
  }
  return op + 1;
}

/// "If ptr is NULL, the call to free() is ignored."
const Op *free_blocks(const Op *op, Warp &w, const CallSite &site) {
  DeviceHeap *heap = w.block->launch->config->heap;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint64_t address = argument(w, site, 0, lane);
    if (!(w.mask >> lane & 1) || !address || (heap && heap->free(address)))
      continue;
    return raise_fault(w, op, FaultKind::trap, lane,
                       "free of " + hex_text(address) + ", no block of the heap begins there");
  }
  return op + 1;
}

} // namespace

Builtin find_builtin(std::string_view name) {
  if (name == "vprintf")
    return Builtin::vprintf;
  if (name == "__assertfail")
    return Builtin::assertfail;
  if (name == "cudaGraphSetConditional")
    return Builtin::set_conditional;
  if (name == "malloc")
    return Builtin::malloc;
  if (name == "__cuda_syscall_aligned_malloc")
    return Builtin::aligned_malloc;
  if (name == "free")
    return Builtin::free;
  return Builtin::none;
}

const Op *call_builtin(const Op *op, Warp &w, const CallSite &site) {
  switch (Builtin(site.builtin)) {
  case Builtin::assertfail:
    return fail_assertion(op, w, site);
  case Builtin::set_conditional:
    return set_conditional(op, w, site);
  case Builtin::malloc:
    return allocate_blocks(op, w, site, false);
  case Builtin::aligned_malloc:
    return allocate_blocks(op, w, site, true);
  case Builtin::free:
    return free_blocks(op, w, site);
  default:
    return print(op, w, site);
  }
}

} // namespace cugrt::emulator
