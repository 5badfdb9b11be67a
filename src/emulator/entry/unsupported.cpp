// Entry points that exist in the real driver and are not implemented: each is exported, counts as a
// call, and answers CUDA_ERROR_NOT_SUPPORTED. Their arguments are never looked at, so the
// definitions need no prototypes, and cuda.h is not included.
#include "emulator/entry/proc_address.h"

#define IMPLEMENTED(base, symbol, version, variant)
#define FORWARDED IMPLEMENTED
#define MISSING(base, symbol, version, variant)                                                    \
  extern "C" __attribute__((visibility("default"))) int symbol();                                  \
  extern "C" int symbol() { return cugrt::emulator::api::unsupported_call(#symbol); }
#include "emulator/driver/entry_points.def"
