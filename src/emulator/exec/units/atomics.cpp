// atom and red: one lane after the other, each with one atomic operation of the host.
// Floating-point addition rounds to nearest. Of subnormals the ISA says that atom.add.f32 "on
// global memory flushes subnormal inputs and results to sign-preserving zero", and on shared memory
// does not.
#include "emulator/exec/isa/numbers.h"
#include "emulator/exec/memory.h"
#include "emulator/exec/opcodes/handlers.h"

namespace cugrt::emulator {

using namespace CUGRT_ISA; // the build without a suffix

namespace {

inline u32 add_float_bits(u32 a, u32 b, bool flushes) {
  f32 x = get<f32>(a), y = get<f32>(b);
  f32 sum = flushes ? flushed(flushed(x) + flushed(y)) : x + y;
  return put<f32>(canonical(sum));
}
inline u64 add_double_bits(u64 a, u64 b) { return put<f64>(get<f64>(a) + get<f64>(b)); }
inline u16 add_f16_bits(u16 a, u16 b) {
  return u16(float_to_f16(f16_to_float(a) + f16_to_float(b)));
}
inline u16 add_bf16_bits(u16 a, u16 b) {
  return u16(float_to_bf16(odd_float(f64(bf16_to_float(a)) + f64(bf16_to_float(b)))));
}

template <class T, class F> inline const Op *atomic(const Op *op, Warp &w, F f) {
  u64 addresses[kLanes];
  std::byte *places[kLanes];
  effective_addresses(op, w, addresses);
  const auto space = ptx::Space(op->space());
  if (!translate(op, w, space, addresses, sizeof(T), sizeof(T), places))
    return w.stop;
  w.polled |= bool(op->flags & kFlagVolatile);
  using Unsigned = std::make_unsigned_t<T>;
  const auto *a = w.lane<Lane<T>>(op->b);
  const auto *b = w.lane<Lane<T>>(op->c);
  auto *d = w.lane<Lane<T>>(op->d);
  for (u32 i : lanes_of(w.mask)) {
    auto in_global = [&, address = addresses[i]]() mutable {
      return resolve(space, address) == ptx::Space::global;
    };
    auto *p = reinterpret_cast<Unsigned *>(places[i]);
    Unsigned old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
    while (true) {
      Unsigned desired = Unsigned(f(T(old), T(a[i]), T(b[i]), in_global));
      if (__atomic_compare_exchange_n(p, &old, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        break;
    }
    d[i] = put<T>(T(old));
  }
  return op + 1;
}

#define ATOM(id, names, T, cls, ...)                                                               \
  const Op *id(const Op *op, Warp &w) {                                                            \
    return atomic<T>(op, w,                                                                        \
                     []([[maybe_unused]] T old, T a, [[maybe_unused]] T b,                         \
                        [[maybe_unused]] auto &in_global) -> T { return T(__VA_ARGS__); });        \
  }
#include "emulator/exec/opcodes/opcodes.def"

} // namespace

void fill_atomics(HandlerTable &table) {
#define ATOM(id, ...) table[size_t(OpId::id)] = {id, id};
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator
