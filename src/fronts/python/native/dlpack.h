// Only the parts that are read and written here; the protocol fixes the layouts (dmlc/dlpack,
// dlpack.h).
//
// Only what is read and written here; layouts are fixed by the protocol (dmlc/dlpack, dlpack.h).
#pragma once

#include <cstdint>

namespace cugrt::python {

enum DlDevice : int32_t { kDlCpu = 1, kDlCuda = 2, kDlCudaHost = 3, kDlCudaManaged = 13 };
enum DlCode : uint8_t { kDlInt = 0, kDlUint = 1, kDlFloat = 2, kDlBfloat = 4, kDlBool = 6 };

struct DlDeviceId {
  int32_t type; // DlDevice, or one that is not known here
  int32_t index;
};

struct DlDtype {
  uint8_t code; // DlCode
  uint8_t bits;
  uint16_t lanes;
};

struct DlTensor {
  void *data;
  DlDeviceId device;
  int32_t rank;
  DlDtype dtype;
  int64_t *shape;
  int64_t *strides; // in elements; null: contiguous
  uint64_t offset_bytes;
};

struct DlManaged {
  DlTensor tensor;
  void *owner;
  void (*deleter)(DlManaged *self);
};

enum DlFlag : uint64_t { kDlReadOnly = 1, kDlIsCopied = 2 };

struct DlManagedVersioned {
  uint32_t major, minor;
  void *owner;
  void (*deleter)(DlManagedVersioned *self);
  uint64_t flags; // of DlFlag
  DlTensor tensor;
};
static_assert(sizeof(DlTensor) == 48 && sizeof(DlManaged) == 64 && sizeof(DlManagedVersioned) == 80,
              "the protocol's layout on 64-bit machines");

inline constexpr char kDlName[] = "dltensor", kDlUsedName[] = "used_dltensor",
                      kDlVersionedName[] = "dltensor_versioned",
                      kDlUsedVersionedName[] = "used_dltensor_versioned";
inline constexpr uint32_t kDlMajor = 1, kDlMinor = 0; // the version that is spoken here

} // namespace cugrt::python
