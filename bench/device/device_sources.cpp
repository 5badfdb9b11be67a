// See device_sources.h.
#include "bench/device/device_sources.h"

namespace cugrt::bench {

const char *const kCeilingSource = R"(
typedef unsigned u32;
typedef unsigned long long u64;

extern "C" __global__ void count_up(u32 *y, u64 n) {
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
    y[i] = (u32)i;
}

__device__ void add_up(u32 *sum, u32 mine) {
  mine = __reduce_add_sync(~0u, mine);
  if (threadIdx.x % 32 == 0)
    atomicAdd(sum, mine);
}

// n: of 16 bytes.
extern "C" __global__ void read_all(const uint4 *x, u32 *sum, u64 n) {
  u32 mine = 0;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
    const uint4 v = x[i];
    mine += v.x + v.y + v.z + v.w;
  }
  add_up(sum, mine);
}

// A block reads parts of 1,536 times 16 bytes, each time another's: what lies in L2 and not in L1.
constexpr int kThreads = 256, kEach = 6;
__device__ const uint4 *part(const uint4 *x, u32 pass) {
  return x + (u64)((blockIdx.x + 37 * pass) % gridDim.x) * (kThreads * kEach) + threadIdx.x;
}
extern "C" __global__ void l2_loads(const uint4 *x, u32 *sum, u32 passes) {
  u32 mine = 0;
  for (u32 pass = 0; pass < passes; ++pass) {
    const uint4 *p = part(x, pass);
    uint4 v[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      v[i] = __ldcg(p + i * kThreads);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      mine += v[i].x + v[i].y + v[i].z + v[i].w;
  }
  add_up(sum, mine);
}
// Only the words of the last pass are added up.
extern "C" __global__ void l2_copies(const uint4 *x, u32 *sum, u32 passes) {
  __shared__ uint4 got[kThreads * kEach];
  for (u32 pass = 0; pass < passes; ++pass) {
    const uint4 *p = part(x, pass);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const u32 to = (u32)__cvta_generic_to_shared(&got[i * kThreads + threadIdx.x]);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(p + i * kThreads));
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
  u32 mine = 0;
  for (int i = 0; i < kEach; ++i) {
    const uint4 v = got[i * kThreads + threadIdx.x];
    mine += v.x + v.y + v.z + v.w;
  }
  add_up(sum, mine);
}

// Eight products in flight a warp. The elements of a are whole numbers that differ, those of b are 1,
// so that the sum over all is 8 times the sum of a's, a step, whatever lies where.
__device__ u32 scattered(u32 i) { return (threadIdx.x % 32 * 4 + i) * 2654435761u >> 9; }
extern "C" __global__ void mma_f16(u32 *sum, u32 steps) {
  const u32 numbers[4] = {0x3c00, 0x4000, 0xbc00, 0x4200}; // 1, 2, -1, 3
  u32 a[4];
  for (u32 i = 0; i < 4; ++i)
    a[i] = numbers[scattered(i) & 3] | numbers[scattered(i) >> 2 & 3] << 16;
  const u32 b = 0x3c003c00;
  float d[8][4] = {};
  for (u32 s = 0; s < steps; ++s)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                   "{%4, %5, %6, %7}, {%8, %8}, {%0, %1, %2, %3};"
                   : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b));
  int mine = 0;
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 4; ++j)
      mine += (int)d[i][j];
  add_up(sum, mine);
  const int values[4] = {1, 2, -1, 3};
  int of_a = 0;
  for (u32 i = 0; i < 4; ++i)
    of_a += values[scattered(i) & 3] + values[scattered(i) >> 2 & 3];
  add_up(sum + 1, of_a);
}
extern "C" __global__ void mma_s8(u32 *sum, u32 steps) {
  u32 a[4];
  for (u32 i = 0; i < 4; ++i)
    a[i] = scattered(i) & 0x07070707;
  const u32 b = 0x01010101;
  int d[8][4] = {};
  for (u32 s = 0; s < steps; ++s)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
                   "{%4, %5, %6, %7}, {%8, %8}, {%0, %1, %2, %3};"
                   : "+r"(d[i][0]), "+r"(d[i][1]), "+r"(d[i][2]), "+r"(d[i][3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b));
  int mine = 0;
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 4; ++j)
      mine += d[i][j];
  add_up(sum, mine);
  int of_a = 0;
  for (u32 i = 0; i < 4; ++i)
    of_a += (a[i] & 7) + (a[i] >> 8 & 7) + (a[i] >> 16 & 7) + (a[i] >> 24 & 7);
  add_up(sum + 1, of_a);
}
)";

// y of a block is one more than its neighbour's x: a node that begins too early is seen. words is
// the buffer whose i-th word is i; a ring is `each` times 16 bytes a thread of it, behind those of
// the blocks before. `bad` counts rings whose words were others.
const char *const kChainSource = R"(
typedef unsigned u32;
typedef unsigned long long u64;
constexpr u32 kMostPolls = 1 << 22;
extern __shared__ uint4 ring[];

__device__ void fill(const uint4 *words, u64 pieces, u32 node, u32 each) {
  for (u32 i = 0; i < each; ++i) {
    const u64 piece = ((u64)(node * gridDim.x + blockIdx.x) * each * blockDim.x +
                       i * blockDim.x + threadIdx.x) % pieces;
    const u32 to = (u32)__cvta_generic_to_shared(&ring[i * blockDim.x + threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(words + piece));
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ void drain(u64 pieces, u32 node, u32 each, u32 *bad) {
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  bool right = true;
  for (u32 i = 0; i < each; ++i) {
    const u64 piece = ((u64)(node * gridDim.x + blockIdx.x) * each * blockDim.x +
                       i * blockDim.x + threadIdx.x) % pieces;
    right &= ring[i * blockDim.x + threadIdx.x].x == (u32)(piece * 4);
  }
  if (!right)
    atomicAdd(bad, 1);
}
__device__ void step(const u32 *x, u32 *y) {
  if (threadIdx.x == 0)
    y[blockIdx.x] = x[(blockIdx.x + 1) % gridDim.x] + 1;
}

extern "C" __global__ void link(const u32 *x, u32 *y, const uint4 *words, u64 pieces, u32 node,
                                u32 each, u32 *bad) {
  fill(words, pieces, node, each);
  step(x, y);
  drain(pieces, node, each, bad);
}

#if __CUDA_ARCH__ >= 900
constexpr u32 kAfterWait = 1, kRingBehindWait = 2; // flags
extern "C" __global__ void link_programmatic(const u32 *x, u32 *y, const uint4 *words, u64 pieces,
                                             u32 node, u32 each, u32 *bad, u32 flags) {
  if (!(flags & kAfterWait))
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (!(flags & kRingBehindWait))
    fill(words, pieces, node, each);
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (flags & kAfterWait)
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (flags & kRingBehindWait)
    fill(words, pieces, node, each);
  step(x, y);
  drain(pieces, node, each, bad);
}
#endif

// All blocks wait for all, at a counter that only grows. Cooperative.
__device__ bool meet(u32 *count, u32 *bad) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const u32 mine = atomicAdd(count, 1), all = (mine / gridDim.x + 1) * gridDim.x;
    u32 now = mine, polls = 0;
    while ((int)(now - all) < 0 && polls++ < kMostPolls)
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(count) : "memory");
    if ((int)(now - all) < 0)
      atomicAdd(bad, 1);
  }
  __syncthreads();
  return *(volatile u32 *)bad == 0;
}
extern "C" __global__ void link_cooperative(const u32 *x, u32 *y, u32 *count, u32 *bad,
                                            u32 programmatic) {
#if __CUDA_ARCH__ >= 900
  if (programmatic) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  }
#endif
  meet(count, bad);
  step(x, y);
}
extern "C" __global__ void barriers(u32 *y, u32 *count, u32 *bad, u32 steps) {
  u32 met = 0;
  while (met < steps && meet(count, bad))
    ++met;
  if (threadIdx.x == 0)
    y[blockIdx.x] = met;
}
)";

const char *const kStreamSource = R"(
typedef unsigned u32;
typedef unsigned long long u64;
extern __shared__ uint4 slots[];
constexpr int kPieces = 144; // of 16 bytes: 16 columns x 256 of q4_k

__device__ void copy_unit(uint4 *slot, const uint4 *unit, bool inside) {
  for (int i = threadIdx.x % 32; inside && i < kPieces; i += 32) {
    const u32 to = (u32)__cvta_generic_to_shared(slot + i);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(unit + i));
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Each warp has an even range of units and a ring of its own for them.
template <int kSlots> __device__ void stream(const uint4 *x, u32 *sum, u64 units) {
  const u32 warps = blockDim.x / 32, warp = threadIdx.x / 32;
  const u64 all = (u64)gridDim.x * warps, mine = (u64)blockIdx.x * warps + warp;
  const u64 begin = units * mine / all, end = units * (mine + 1) / all;
  uint4 *ring = slots + warp * kSlots * kPieces;
  for (int s = 0; s < kSlots - 1; ++s)
    copy_unit(ring + s * kPieces, x + (begin + s) * kPieces, begin + s < end);
  u32 found = 0;
  for (u64 unit = begin; unit < end; ++unit) {
    const u64 next = unit + kSlots - 1;
    copy_unit(ring + (next - begin) % kSlots * kPieces, x + next * kPieces, next < end);
    asm volatile("cp.async.wait_group %0;" ::"n"(kSlots - 1) : "memory");
    __syncwarp();
    const uint4 *slot = ring + (unit - begin) % kSlots * kPieces;
    for (int i = threadIdx.x % 32; i < kPieces; i += 32) {
      const uint4 v = slot[i];
      found += v.x + v.y + v.z + v.w;
    }
    __syncwarp();
  }
  found = __reduce_add_sync(~0u, found);
  if (threadIdx.x % 32 == 0)
    atomicAdd(sum, found);
}
extern "C" __global__ void stream_2(const uint4 *x, u32 *sum, u64 units) { stream<2>(x, sum, units); }
extern "C" __global__ void stream_3(const uint4 *x, u32 *sum, u64 units) { stream<3>(x, sum, units); }
extern "C" __global__ void stream_4(const uint4 *x, u32 *sum, u64 units) { stream<4>(x, sum, units); }
)";

const char *const kExchangeSource = R"(
typedef unsigned u32;
typedef unsigned long long u64;
constexpr u32 kMostPolls = 1 << 22;

// Every block publishes a word and reads all others', `steps` times: the word carries its step, so
// that there is no barrier and no fence. `first` is the step that came last, and only grows: a slot
// never holds a word of this step from an earlier run. Cooperative. slots: 2 x gridDim.x.
extern "C" __global__ void words_with_steps(u32 *y, u64 *slots, u32 *first, u32 *bad, u32 steps) {
  __shared__ u32 of_neighbour, failed;
  const u32 begin = *first, neighbour = (blockIdx.x + 1) % gridDim.x;
  u32 value = 0;
  if (threadIdx.x == 0)
    failed = 0;
  for (u32 step = begin + 1; step != begin + 1 + steps; ++step) {
    u64 *row = slots + (step & 1) * gridDim.x;
    if (threadIdx.x == 0)
      asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(row + blockIdx.x),
                   "l"((u64)step << 32 | value) : "memory");
    for (u32 i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
      u64 word;
      u32 polls = 0;
      do
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(row + i) : "memory");
      while ((u32)(word >> 32) != step && polls++ < kMostPolls);
      if ((u32)(word >> 32) != step)
        failed = 1;
      if (i == neighbour)
        of_neighbour = (u32)word;
    }
    __syncthreads();
    value = of_neighbour + 1;
    const bool stop = failed;
    __syncthreads();
    if (stop) {
      atomicAdd(bad, 1);
      break;
    }
  }
  if (threadIdx.x == 0) {
    y[blockIdx.x] = value;
    if (blockIdx.x == 0)
      *first = begin + steps;
  }
}

// One thread follows `count` words of the host, each of which says where the next one lies.
extern "C" __global__ void pinned_reads(const u32 *host, u32 *y, u32 count) {
  u32 at = 0;
  for (u32 i = 0; i < count; ++i)
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(at) : "l"(host + at) : "memory");
  *y = at;
}

// A word for the host and a fence, `count` times: of one thread, or of the whole block; or a store
// that releases.
constexpr u32 kFenceOfOne = 0, kFenceOfAll = 1, kRelease = 2;
extern "C" __global__ void pinned_writes(u32 *host, u32 *y, u32 count, u32 how) {
  for (u32 i = 1; i <= count; ++i) {
    if (threadIdx.x == 0) {
      if (how == kRelease)
        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(host), "r"(i) : "memory");
      else
        *(volatile u32 *)host = i;
      *(volatile u32 *)y = i;
    }
    if (how == kFenceOfAll || (how == kFenceOfOne && threadIdx.x == 0))
      __threadfence_system();
    __syncthreads();
  }
}
)";

const char *const kClusterSource = R"(
typedef unsigned u32;

// Every block writes into the next one's shared memory, and all of the cluster meet, `steps` times.
extern "C" __global__ void cluster_steps(u32 *y, u32 steps) {
  __shared__ u32 cell[2];
  u32 rank, size, value = 0;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  for (u32 step = 0; step < steps; ++step) {
    if (threadIdx.x == 0) {
      u32 there;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                   : "=r"(there)
                   : "r"((u32)__cvta_generic_to_shared(&cell[step & 1])), "r"((rank + 1) % size));
      asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(value + 1) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    value = *(volatile u32 *)&cell[step & 1];
  }
  if (threadIdx.x == 0)
    y[blockIdx.x] = value;
}
)";

std::string warp_group_source() {
  constexpr int kRegisters = 128;
  std::string outputs, list;
  for (int i = 0; i < kRegisters; ++i) {
    list += (i ? ", %" : "%") + std::to_string(i);
    outputs += (i ? ", \"+f\"(d[" : "\"+f\"(d[") + std::to_string(i) + "])";
  }
  // Tiles without swizzle, 8 x 16 bytes after one another; all elements are 1, so that each of d is
  // 16 a product, whatever lies where.
  return R"(
typedef unsigned u32;
typedef unsigned long long u64;
__device__ u64 tile(const void *at, u32 leading_bytes, u32 stride_bytes) {
  return (u64)((u32)__cvta_generic_to_shared(at) >> 4 & 0x3fff) | (u64)(leading_bytes >> 4) << 16 |
         (u64)(stride_bytes >> 4) << 32;
}
extern "C" __global__ void __launch_bounds__(256, 1) wgmma_f16(u32 *wrong, u32 steps) {
  __shared__ __align__(128) unsigned short a[2][4][64 * 16], b[4][256 * 16];
  for (u32 i = threadIdx.x; i < sizeof a / 2; i += blockDim.x)
    (&a[0][0][0])[i] = 0x3c00;
  for (u32 i = threadIdx.x; i < sizeof b / 2; i += blockDim.x)
    (&b[0][0])[i] = 0x3c00;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  float d[128] = {};
  for (u32 s = 0; s < steps; ++s) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k)
      asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {)" +
         list + R"(}, %128, %129, 1, 1, 1, 0, 0;"
                   : )" +
         outputs + R"(
                   : "l"(tile(a[threadIdx.x / 128][k], 128, 256)), "l"(tile(b[k], 128, 256)));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  bool right = true;
  for (int i = 0; i < 128; ++i)
    right &= d[i] == 64.0f * steps;
  if (!right)
    atomicAdd(wrong, 1);
}
)";
}

} // namespace cugrt::bench
