/* A C program that is linked with libcuda.so.1, as samples of the driver API are: the names of
 * cuda.h, no dlopen, no headers but CUDA's. Prints a line for each case, in the form that
 * foreign.py reads. */
#include <cuda.h>

#include <stdio.h>
#include <string.h>

#define N 1000

static const char kPtx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .const .align 4 .f32 scale = 0f3F800000;\n"
    ".visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {\n"
    ".reg .pred %p; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<9>;\n"
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r1, "
    "[n];\n"
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
    "mad.lo.s32 %r5, %r2, %r3, %r4; setp.ge.u32 %p, %r5, %r1; @%p bra DONE;\n"
    "mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4;\n"
    "add.s64 %rd7, %rd3, %rd4; ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];\n"
    "ld.const.f32 %f3, [scale]; add.f32 %f1, %f1, %f2; mul.f32 %f1, %f1, %f3;\n"
    "st.global.f32 [%rd7], %f1;\nDONE: ret; }\n";
static const char kCaller[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".extern .func (.param .b32 r) twice(.param .b32 x);\n"
    ".visible .entry call_twice(.param .u64 p) { .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
    "ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1];\n"
    "{ .param .b32 a; .param .b32 v; st.param.b32 [a], %r1; call.uni (v), twice, (a);\n"
    "ld.param.b32 %r1, [v]; } st.global.u32 [%rd1], %r1; ret; }\n";
static const char kCallee[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<2>;\n"
    "ld.param.u32 %r1, [x]; shl.b32 %r1, %r1, 1; st.param.b32 [r], %r1; ret; }\n";

static CUdevice device;
static CUcontext context;
static CUmodule module;
static CUfunction vector_add;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                      \
      return 0;                                                                                    \
    }                                                                                              \
  } while (0)
#define OK(call) CHECK((call) == CUDA_SUCCESS)

static void fill(float *x, float first) {
  for (int i = 0; i < N; ++i)
    x[i] = first + (float)i;
}

static int start(void) {
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_MAX_REGISTERS};
  void *values[] = {log, (void *)sizeof log, (void *)32};
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuCtxCreate(&context, NULL, CU_CTX_SCHED_AUTO, device));
  OK(cuModuleLoadDataEx(&module, kPtx, 3, options, values));
  OK(cuModuleGetFunction(&vector_add, module, "vector_add"));
  return 1;
}

static int adds_vectors(void) {
  float a[N], b[N], c[N];
  CUdeviceptr da, db, dc;
  unsigned n = N;
  fill(a, 0), fill(b, 5);
  OK(cuMemAlloc(&da, sizeof a));
  OK(cuMemAlloc(&db, sizeof b));
  OK(cuMemAlloc(&dc, sizeof c));
  OK(cuMemcpyHtoD(da, a, sizeof a));
  OK(cuMemcpyHtoD(db, b, sizeof b));
  struct {
    CUdeviceptr a, b, c;
    unsigned n;
  } packed = {da, db, dc, n};
  size_t bytes = 28;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  OK(cuLaunchKernel(vector_add, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
  OK(cuMemcpyDtoH(c, dc, sizeof c));
  for (int i = 0; i < N; ++i)
    CHECK(c[i] == a[i] + b[i]);
  OK(cuMemFree(da));
  OK(cuMemFree(db));
  OK(cuMemFree(dc));
  return 1;
}

static int works_on_memory_of_the_host(void) {
  float *a, *c;
  CUdeviceptr managed, alias;
  unsigned n = N;
  int can = 0;
  OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, device));
  CHECK(can);
  OK(cuMemHostAlloc((void **)&a, N * sizeof *a, CU_MEMHOSTALLOC_DEVICEMAP));
  OK(cuMemHostAlloc((void **)&c, N * sizeof *c, CU_MEMHOSTALLOC_DEVICEMAP));
  OK(cuMemAllocManaged(&managed, N * sizeof *a, CU_MEM_ATTACH_GLOBAL));
  OK(cuMemHostGetDevicePointer(&alias, c, 0));
  fill(a, 1);
  fill((float *)managed, 2);
  void *params[] = {&a, &managed, &alias, &n}; /* the host's own pointer as well */
  OK(cuLaunchKernel(vector_add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
  OK(cuCtxSynchronize());
  for (int i = 0; i < N; ++i)
    CHECK(c[i] == 3 + 2 * (float)i);
  OK(cuMemFree(managed));
  OK(cuMemFreeHost(a));
  OK(cuMemFreeHost(c));
  return 1;
}

static int changes_a_global_between_launches(void) {
  float a[N], c[N], three = 3;
  CUdeviceptr da, dc, scale;
  size_t bytes;
  unsigned n = N;
  fill(a, 1);
  OK(cuModuleGetGlobal(&scale, &bytes, module, "scale"));
  CHECK(bytes == sizeof three);
  OK(cuMemcpyHtoD(scale, &three, sizeof three));
  OK(cuMemAlloc(&da, sizeof a));
  OK(cuMemAlloc(&dc, sizeof c));
  OK(cuMemcpyHtoD(da, a, sizeof a));
  void *params[] = {&da, &da, &dc, &n};
  OK(cuLaunchKernel(vector_add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
  OK(cuMemcpyDtoH(c, dc, sizeof c));
  for (int i = 0; i < N; ++i)
    CHECK(c[i] == 6 * a[i]);
  three = 1;
  OK(cuMemcpyHtoD(scale, &three, sizeof three));
  OK(cuMemFree(da));
  OK(cuMemFree(dc));
  return 1;
}

static int launches_what_occupancy_proposes(void) {
  int grid = 0, block = 0, blocks = 0, registers = 0, multiprocessors = 0;
  OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, vector_add, NULL, 0, 0));
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, vector_add, block, 0));
  OK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, vector_add));
  CHECK(registers > 0 && block > 0 && grid == blocks * multiprocessors);
  CUdeviceptr a;
  unsigned n = N;
  OK(cuMemAlloc(&a, N * 4));
  OK(cuMemsetD32(a, 0, N));
  void *params[] = {&a, &a, &a, &n};
  OK(cuLaunchCooperativeKernel(vector_add, (unsigned)grid, 1, 1, (unsigned)block, 1, 1, 0, NULL,
                               params));
  CHECK(cuLaunchCooperativeKernel(vector_add, (unsigned)grid + 1, 1, 1, (unsigned)block, 1, 1, 0,
                                  NULL, params) == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  OK(cuCtxSynchronize());
  OK(cuMemFree(a));
  return 1;
}

static int links_two_inputs(void) {
  CUlinkState state;
  CUmodule linked;
  CUfunction function;
  CUdeviceptr cell;
  void *image;
  size_t bytes;
  unsigned value = 21;
  OK(cuLinkCreate(0, NULL, NULL, &state));
  OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)kCaller, sizeof kCaller, "a", 0, NULL, NULL));
  OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)kCallee, sizeof kCallee, "b", 0, NULL, NULL));
  OK(cuLinkComplete(state, &image, &bytes));
  OK(cuModuleLoadData(&linked, image));
  OK(cuLinkDestroy(state));
  OK(cuModuleGetFunction(&function, linked, "call_twice"));
  OK(cuMemAlloc(&cell, 4));
  OK(cuMemcpyHtoD(cell, &value, 4));
  void *params[] = {&cell};
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
  OK(cuMemcpyDtoH(&value, cell, 4));
  CHECK(value == 42);
  OK(cuMemFree(cell));
  OK(cuModuleUnload(linked));
  return 1;
}

static int builds_and_updates_a_graph(void) {
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode clear, add;
  CUstream stream;
  CUdeviceptr a;
  float got[N];
  unsigned n = N;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&a, sizeof got));
  OK(cuGraphCreate(&graph, 0));
  CUDA_MEMSET_NODE_PARAMS ones = {
      .dst = a, .value = 0x3F800000, .elementSize = 4, .width = N, .height = 1};
  OK(cuGraphAddMemsetNode(&clear, graph, NULL, 0, &ones, context));
  void *params[] = {&a, &a, &a, &n};
  CUDA_KERNEL_NODE_PARAMS kernel = {.func = vector_add,
                                    .gridDimX = 4,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 256,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .kernelParams = params};
  OK(cuGraphAddKernelNode(&add, graph, &clear, 1, &kernel));
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, stream));
  n = N / 2; /* the second half keeps its ones */
  OK(cuGraphExecKernelNodeSetParams(exec, add, &kernel));
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH(got, a, sizeof got));
  for (int i = 0; i < N; ++i)
    CHECK(got[i] == (i < N / 2 ? 2 : 1));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuMemFree(a));
  OK(cuStreamDestroy(stream));
  return 1;
}

static int ends(void) {
  OK(cuModuleUnload(module));
  OK(cuCtxDestroy(context));
  return 1;
}

int main(void) {
  static const struct {
    const char *title;
    int (*run)(void);
  } cases[] = {
      {"a program that is linked with libcuda.so.1 starts", start},
      {"it adds vectors with arguments in a buffer", adds_vectors},
      {"its kernels work on mapped and managed memory", works_on_memory_of_the_host},
      {"it changes a constant between launches", changes_a_global_between_launches},
      {"it launches what occupancy proposes, and no more cooperatively",
       launches_what_occupancy_proposes},
      {"it links two inputs", links_two_inputs},
      {"it builds a graph, launches and updates it", builds_and_updates_a_graph},
      {"it ends", ends},
  };
  int bad = 0;
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; ++i) {
    int good = cases[i].run();
    bad += !good;
    printf("%s\tC: %s\n", good ? "passed" : "failed", cases[i].title);
  }
  return bad != 0;
}
