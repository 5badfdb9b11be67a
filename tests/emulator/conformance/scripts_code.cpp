// Modules, functions, launches, and what kernels do wrong.
#include "script.h"

#include <cstddef>

namespace cugrt::conformance {

using Kind = ScriptCase::Kind;

namespace {

CUresult launch(Script &s, CUfunction f, unsigned grid, unsigned block, void **params,
                unsigned shared = 0, CUstream stream = nullptr) {
  return s.api.cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, stream, params, nullptr);
}

void packed_script(Script &s) {
  CUdeviceptr out = s.words(4);
  CUfunction mixed = s.kernel("mixed");
  struct Packed { // as the kernel's layout places them
    uint8_t a;
    CUdeviceptr out;
    uint32_t b[6];
    uint16_t c;
  } packed{7, out, {0, 0, 0, 0, 0, 99}, 515};
  size_t size = offsetof(Packed, c) + sizeof packed.c;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  s.expect("one buffer", s.api.cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  s.expect("a byte", uint64_t(s.word(out)), 7);
  size_t padded = sizeof packed;
  extra[3] = &padded;
  s.observe("more than the parameters",
            s.api.cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
            CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  extra[3] = &size;
  s.expect("a word of the struct", uint64_t(s.word(out + 4)), 99);
  s.expect("a half", uint64_t(s.word(out + 8)), 515);
  void *params[] = {&packed.a, &out, packed.b, &packed.c};
  s.expect("both forms", s.api.cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, nullptr, params, extra),
           CUDA_ERROR_INVALID_VALUE);
  packed.a = 8;
  s.expect("an array of pointers", launch(s, mixed, 1, 1, params));
  s.expect("the byte again", uint64_t(s.word(out)), 8);
}

/// One launch of 32 blocks of a thread in clusters.
CUresult launch_clusters(Script &s, CUfunction f, unsigned size, void **params) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {size, 1, 1};
  CUlaunchConfig config{};
  config.gridDimX = 32;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return s.api.cuLaunchKernelEx(&config, f, params, nullptr);
}

/// Documents leave open what a device has beyond 8 blocks, and what a node of a graph says of it.
/// The H200 refused to disable one of a kernel with clusters, and so does the emulated driver.
void cluster_node_script(Script &s, CUfunction f, CUdeviceptr cells, void **params) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = f;
  kernel.gridDimX = 32;
  kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = params;
  CUlaunchAttributeValue value{};
  value.clusterDim = {16, 1, 1};
  s.need(s.api.cuGraphCreate(&graph, 0));
  s.need(s.api.cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  s.observe(
      "a node's clusters of 16",
      s.api.cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value),
      CUDA_SUCCESS);
  const CUresult made = s.api.cuGraphInstantiate(&exec, graph, 0);
  s.observe("instantiate", made, CUDA_SUCCESS);
  if (made == CUDA_SUCCESS) {
    kernel.gridDimX = 16;
    s.observe("set", s.api.cuGraphExecKernelNodeSetParams(exec, node, &kernel), CUDA_SUCCESS);
    s.observe("disable", s.api.cuGraphNodeSetEnabled(exec, node, 0),
              CUDA_ERROR_INVALID_CLUSTER_SIZE);
    s.observe("enable", s.api.cuGraphNodeSetEnabled(exec, node, 1), CUDA_SUCCESS);
    s.observe("launch", s.api.cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
    s.need(s.api.cuCtxSynchronize());
    s.observe("the first half ran", uint64_t(s.word(cells)), 3);
    s.observe("the second half did not", uint64_t(s.word(cells + 4 * 31)), 2);
    s.need(s.api.cuGraphExecDestroy(exec));
  }
  s.need(s.api.cuGraphDestroy(graph));
}

void clusters_script(Script &s) {
  const bool has = s.driver.compute >= 90;
  CUdeviceptr cells = s.words(32);
  CUfunction f = s.kernel("increment");
  void *params[] = {&cells};
  const CUresult of_device = has ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  s.observe("8 blocks", launch_clusters(s, f, 8, params), of_device);
  s.observe("no divisor of the grid", launch_clusters(s, f, 5, params),
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
  s.observe("16 blocks that are not allowed", launch_clusters(s, f, 16, params),
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
  const CUresult allowed =
      s.api.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  s.observe("allow", allowed, CUDA_SUCCESS);
  s.observe("16 blocks", launch_clusters(s, f, 16, params), of_device);
  s.observe("32 blocks", launch_clusters(s, f, 32, params), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  s.observe("launches that ran", uint64_t(s.word(cells + 4 * 31)), has ? 2 : 0);

  if (has)
    cluster_node_script(s, f, cells, params);
}

// What cuLaunch and its like launch: shape and arguments are set on the function.
void old_launch_script(Script &s) {
  const Api &api = s.api;
  CUfunction f = s.kernel("sizes");
  CUdeviceptr out = s.words(8);
  s.expect("a block's shape", api.cuFuncSetBlockShape(f, 4, 5, 1));
  s.expect("its shared memory", api.cuFuncSetSharedSize(f, 96));
  s.expect("the arguments' size", api.cuParamSetSize(f, sizeof out));
  s.expect("an argument", api.cuParamSetv(f, 0, &out, sizeof out));
  s.expect("a grid", api.cuLaunchGrid(f, 3, 2));
  const uint32_t of_grid[] = {4, 5, 3, 1, 96};
  for (unsigned i = 0; i < 5; ++i)
    s.expect("its size", uint64_t(s.word(out + 4 * i)), of_grid[i]);
  s.expect("one block", api.cuLaunch(f));
  s.expect("its size", uint64_t(s.word(out + 8)), 1);
  CUstream stream = s.stream(0);
  s.expect("in a stream", api.cuLaunchGridAsync(f, 7, 1, stream));
  s.need(api.cuStreamSynchronize(stream));
  s.expect("its size", uint64_t(s.word(out + 8)), 7);

  CUfunction affine = s.kernel("affine");
  CUdeviceptr number = s.words(1, 5);
  s.need(api.cuFuncSetBlockShape(affine, 1, 1, 1));
  s.need(api.cuParamSetv(affine, 0, &number, sizeof number));
  s.expect("an integer", api.cuParamSeti(affine, 8, 3));
  s.expect("another", api.cuParamSeti(affine, 12, 100));
  s.need(api.cuParamSetSize(affine, 16));
  s.need(api.cuLaunch(affine));
  s.expect("5 * 3 + 100", uint64_t(s.word(number)), 115);
  s.expect("one of them anew", api.cuParamSetf(affine, 12, 1.0f));
  s.need(api.cuLaunch(affine));
  s.expect("115 * 3 + the bits of 1.0", uint64_t(s.word(number)), 115 * 3 + 0x3F800000);
}

void old_launch_refusals(Script &s) {
  const Api &api = s.api;
  CUfunction f = s.kernel("increment");
  CUdeviceptr out = s.words(1);
  s.need(api.cuParamSetv(f, 0, &out, sizeof out));
  s.need(api.cuParamSetSize(f, sizeof out));
  s.observe("a shape of nothing", api.cuFuncSetBlockShape(f, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  s.need(api.cuFuncSetBlockShape(f, 1, 1, 1));
  s.expect("a grid of nothing", api.cuLaunchGrid(f, 0, 1), CUDA_ERROR_INVALID_VALUE);
  s.observe("more than any kernel has", api.cuParamSetSize(f, 1u << 20), CUDA_ERROR_INVALID_VALUE);
  s.need(api.cuParamSetSize(f, sizeof out));
  s.need(api.cuLaunch(f));
  s.expect("the launch that is left", uint64_t(s.word(out)), 1);
}

void fault_script(Script &s, CUfunction f, CUresult wanted, void **params) {
  CUdeviceptr address = 0;
  s.need(launch(s, f, 1, 1, params));
  s.expect("the fault", s.api.cuCtxSynchronize(), wanted);
  s.expect("every later call", s.api.cuMemAlloc(&address, 64), wanted);
  s.expect("and every synchronisation", s.api.cuCtxSynchronize(), wanted);
}

} // namespace

const std::vector<ScriptCase> &code_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"functions and globals of a module by name",
       {{"cuModuleGetFunction", "cuModuleGetFunction() returns CUDA_ERROR_NOT_FOUND"},
        {"cuModuleGetGlobal", "cuModuleGetGlobal() returns CUDA_ERROR_NOT_FOUND"},
        {"cuModuleGetGlobal", "(not both) can be NULL in which case it is ignored"}},
       [](Script &s) {
         CUfunction f = nullptr;
         CUdeviceptr address = 0;
         size_t bytes = 0;
         s.expect("a kernel", s.api.cuModuleGetFunction(&f, s.module, "affine"));
         s.expect("none of that name", s.api.cuModuleGetFunction(&f, s.module, "affin"),
                  CUDA_ERROR_NOT_FOUND);
         s.expect("a variable", s.api.cuModuleGetGlobal(&address, &bytes, s.module, "room"));
         s.expect("its size", bytes, 24);
         s.expect("size alone", s.api.cuModuleGetGlobal(nullptr, &bytes, s.module, "answer"));
         s.expect("its size", bytes, 4);
         s.expect("address alone", s.api.cuModuleGetGlobal(&address, nullptr, s.module, "answer"));
         s.expect("its initial value", uint64_t(s.word(address)), 42);
         s.expect("none of that name", s.api.cuModuleGetGlobal(&address, &bytes, s.module, "ask"),
                  CUDA_ERROR_NOT_FOUND);
       }},
      {"text that is no PTX is refused",
       {{"cuModuleLoadData", "CUDA_ERROR_INVALID_PTX"},
        {"cuModuleLoadData", "CUDA_ERROR_INVALID_VALUE"}},
       [](Script &s) {
         CUmodule module = nullptr;
         s.expect("an undeclared register",
                  s.api.cuModuleLoadData(&module, ".version 7.0\n.target sm_75\n.address_size 64\n"
                                                  ".visible .entry k() { mov.u32 %r1, 0; ret; }\n"),
                  CUDA_ERROR_INVALID_PTX);
         s.observe("no PTX at all", s.api.cuModuleLoadData(&module, "hello"),
                   CUDA_ERROR_INVALID_IMAGE);
         s.expect("null", s.api.cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
       }},
      {"PTX for a newer device is refused",
       {{"cuModuleLoadData", "CUDA_ERROR_NO_BINARY_FOR_GPU"}},
       [](Script &s) {
         CUmodule module = nullptr;
         s.observe("sm_121 here",
                   s.api.cuModuleLoadData(&module,
                                          ".version 8.8\n.target sm_121\n.address_size 64\n"
                                          ".visible .entry k() { ret; }\n"),
                   CUDA_ERROR_INVALID_PTX);
       }},
      {"a launch counts its blocks and threads",
       {{"cuLaunchKernel",
         "amount of dynamic shared memory that will be available to each thread block"}},
       [](Script &s) {
         CUdeviceptr out = s.words(8);
         void *params[] = {&out};
         s.expect("launch", s.api.cuLaunchKernel(s.kernel("sizes"), 3, 1, 2, 4, 5, 1, 96, nullptr,
                                                 params, nullptr));
         const uint32_t want[] = {4, 5, 3, 2, 96};
         const char *names[] = {"%ntid.x", "%ntid.y", "%nctaid.x", "%nctaid.z",
                                "%dynamic_smem_size"};
         for (unsigned i = 0; i < 5; ++i)
           s.expect(names[i], uint64_t(s.word(out + 4 * i)), want[i]);
       }},
      {"launches of no size, or of too much, are refused",
       {{"cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE"}},
       [](Script &s) {
         CUdeviceptr out = s.words(4);
         void *params[] = {&out};
         CUfunction f = s.kernel("increment"), bounded = s.kernel("bounded");
         s.expect("no blocks", launch(s, f, 0, 1, params), CUDA_ERROR_INVALID_VALUE);
         s.expect("no threads", launch(s, f, 1, 0, params), CUDA_ERROR_INVALID_VALUE);
         s.expect("too many threads", launch(s, f, 1, 1025, params), CUDA_ERROR_INVALID_VALUE);
         s.observe("more than .maxntid", launch(s, bounded, 1, 65, params),
                   CUDA_ERROR_INVALID_VALUE);
         s.expect("too much shared memory", launch(s, f, 1, 1, params, 1u << 20),
                  CUDA_ERROR_INVALID_VALUE);
         s.expect("no parameters", launch(s, f, 1, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
         s.need(s.api.cuCtxSynchronize());
         s.expect("nothing ran", uint64_t(s.word(out)), 0);
       }},
      {"parameters in one buffer or by pointers",
       {{"cuLaunchKernel", "packaged by the application into a single buffer"},
        {"cuLaunchKernel",
         "will be returned if kernel parameters are specified with both kernelParams and extra"}},
       packed_script},
      {"clusters of more blocks than are portable",
       {{"cuFuncSetAttribute", "can be launched with non-portable cluster size"},
        {"CUDA_ERROR_INVALID_CLUSTER_SIZE", "launch error due to cluster misconfiguration"}},
       clusters_script},
      {"launches by what is set on the function",
       {{"cuFuncSetBlockShape", "dimensions of the thread blocks that are created"},
        {"cuFuncSetSharedSize", "amount of dynamic shared memory that will be available"},
        {"cuParamSetSize", "the total size in bytes needed by the function parameters"},
        {"cuParamSetv", "Copies an arbitrary amount of data"},
        {"cuParamSeti", "specified the next time the kernel"},
        {"cuParamSetf", "specified the next time the kernel"},
        {"cuLaunch", "on a 1 x 1 x 1 grid of blocks"},
        {"cuLaunchGrid", "on a grid_width x grid_height grid of blocks"},
        {"cuLaunchGridAsync", "on a grid_width x grid_height grid of blocks"}},
       old_launch_script},
      {"launches by what is set on the function, refused",
       {{"cuLaunch", "must be set using"}, {"cuLaunchGrid", "CUDA_ERROR_INVALID_VALUE"}},
       old_launch_refusals},
      {"attributes of a function",
       {{"cuFuncSetAttribute", "Not all attributes can have values set"},
        {"cuFuncSetAttribute",
         "read-only attribute will result in an error (CUDA_ERROR_INVALID_VALUE)"}},
       [](Script &s) {
         CUfunction f = s.kernel("bounded");
         int value = 0;
         s.expect("threads",
                  s.api.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
         s.expect("as .maxntid says", uint64_t(value), 64);
         s.expect("a larger share", s.api.cuFuncSetAttribute(
                                        f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 50000));
         s.need(
             s.api.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
         s.expect("read back", uint64_t(value), 50000);
         s.expect(
             "more than a block can have",
             s.api.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 24),
             CUDA_ERROR_INVALID_VALUE);
         s.expect("read-only", s.api.cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 3),
                  CUDA_ERROR_INVALID_VALUE);
       }},
      {"where parameters lie",
       {{"cuFuncGetParamInfo", "paramIndex must be less than the number of parameters"},
        {"cuFuncGetParamInfo", "paramSize can be set to NULL"}},
       [](Script &s) {
         CUfunction f = s.kernel("mixed");
         const size_t want[][2] = {{0, 1}, {8, 8}, {16, 24}, {40, 2}};
         size_t offset = 0, size = 0;
         for (size_t i = 0; i < 4; ++i) {
           s.expect("information", s.api.cuFuncGetParamInfo(f, i, &offset, &size));
           s.expect("offset", offset, want[i][0]);
           s.expect("size", size, want[i][1]);
         }
         s.expect("offset alone", s.api.cuFuncGetParamInfo(f, 1, &offset, nullptr));
         s.expect("one too many", s.api.cuFuncGetParamInfo(f, 4, &offset, &size),
                  CUDA_ERROR_INVALID_VALUE);
       },
       12040},
      {"how many blocks fit",
       {{"cuOccupancyMaxActiveBlocksPerMultiprocessor",
         "maximum active blocks per streaming multiprocessor"}},
       [](Script &s) {
         int blocks = 0;
         s.expect("of 128 threads", s.api.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                                        &blocks, s.kernel("increment"), 128, 0));
         s.expect_true("one or more", blocks >= 1);
         s.expect("of none",
                  s.api.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, s.kernel("increment"),
                                                                    0, 0),
                  CUDA_ERROR_INVALID_VALUE);
       }},
      {"a store outside of every allocation ends the context",
       Kind::faulting,
       {{"CUDA_ERROR_ILLEGAL_ADDRESS",
         "encountered a load or store instruction on an invalid memory address"}},
       [](Script &s) {
         CUdeviceptr nowhere = 16;
         void *params[] = {&nowhere};
         fault_script(s, s.kernel("fault"), CUDA_ERROR_ILLEGAL_ADDRESS, params);
       }},
      {"a store to an address that is not aligned ends the context",
       Kind::faulting,
       {{"CUDA_ERROR_MISALIGNED_ADDRESS", "on a memory address which is not aligned"}},
       [](Script &s) {
         CUdeviceptr odd = s.words(4) + 2;
         void *params[] = {&odd};
         fault_script(s, s.kernel("fault"), CUDA_ERROR_MISALIGNED_ADDRESS, params);
       }},
      {"a breakpoint without a debugger",
       Kind::faulting,
       {{"cuCtxSynchronize", "returns an error if one of the preceding tasks failed"}},
       [](Script &s) {
         s.need(launch(s, s.kernel("halt"), 1, 1, nullptr));
         s.observe("synchronise", s.api.cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
       }},
      {"trap ends the context",
       Kind::faulting,
       {{"CUDA_ERROR_LAUNCH_FAILED",
         "An exception occurred on the device while executing a kernel"}},
       [](Script &s) {
         CUdeviceptr address = 0;
         s.need(launch(s, s.kernel("stop"), 1, 1, nullptr));
         CUresult result = s.api.cuCtxSynchronize();
         s.expect_true("a fault", result != CUDA_SUCCESS);
         s.observe("which", result, CUDA_ERROR_LAUNCH_FAILED);
         s.expect_true("every later call", s.api.cuMemAlloc(&address, 64) == result);
       }},
  };
  return scripts;
}

} // namespace cugrt::conformance
