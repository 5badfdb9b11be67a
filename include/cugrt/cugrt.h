/* cugrt: a CUDA graph runtime. C ABI.
 *
 * One function is exported: cugrt_get_api returns a table of functions. The table, structs and
 * enumerations only ever grow at their ends: a client compiled against an older header keeps
 * working. Set struct_size of every parameter struct to its sizeof (CUGRT_INIT does it and zeroes
 * the rest).
 *
 * Errors. Functions that can fail return a cugrt_status *: NULL is success; anything else describes
 * the failure and is freed by its receiver with status_free. Outputs are written only on success.
 * The library prints nothing, throws nothing and never ends the process.
 *
 * Ownership. Handles are freed by the matching *_free, which accepts NULL. A handle keeps what it
 * was made from alive: a module may be freed before the executable compiled from it. Text handed
 * out is a cugrt_text, freed by its receiver; const char * results belong to the handle that was
 * asked.
 *
 * Threads. Runtime, module, executable and function handles may be used by several threads at once.
 * A session is used by one thread at a time; a second one gets CUGRT_BUSY. Statuses and texts are
 * values. A run leaves the thread's current CUDA context as it is; where there was none, the
 * runtime's own stays current, so that the next run need not set it again.
 *
 * Streams. Runs of one session follow each other on the device, whatever streams they go to. A
 * caller's stream may be captured as soon as a run on it has returned. It must live until the
 * session has run on another stream, was synchronised or is freed.
 *
 * Units. Sizes and offsets are bytes unless the name says otherwise. Device addresses are uint64_t,
 * native streams (CUstream) void *. Dimensions count elements.
 */
#ifndef CUGRT_CUGRT_H
#define CUGRT_CUGRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CUGRT_EXPORT __attribute__((visibility("default")))
#else
#define CUGRT_EXPORT
#endif

#define CUGRT_API_VERSION 1u
#define CUGRT_MAX_RANK 8
#define CUGRT_PACK_MAGIC "cugrtpak" /* the first bytes of a pack's file */
#define CUGRT_MAX_KEY 8 /* symbols of a region's key that a launch record has room for */

/* ---- Enumerations: append only ------------------------------------------------------------- */

typedef enum cugrt_code {
  CUGRT_OK = 0,
  CUGRT_INVALID_ARGUMENT = 1,
  CUGRT_PARSE_ERROR = 2,
  CUGRT_VERIFY_ERROR = 3,
  CUGRT_NOT_FOUND = 4,
  CUGRT_UNSUPPORTED = 5,
  CUGRT_OUT_OF_RANGE = 6,
  CUGRT_OUT_OF_HOST_MEMORY = 7,
  CUGRT_OUT_OF_DEVICE_MEMORY = 8,
  CUGRT_IO_ERROR = 9,
  CUGRT_COMPILE_ERROR = 10,
  CUGRT_DRIVER_ERROR = 11,
  CUGRT_DEVICE_LOST = 12,
  CUGRT_BUSY = 13,
  CUGRT_CANCELLED = 14,
  CUGRT_INTERNAL = 15
} cugrt_code;

typedef enum cugrt_log_level {
  CUGRT_LOG_ERROR = 0,
  CUGRT_LOG_WARNING = 1,
  CUGRT_LOG_INFO = 2,
  CUGRT_LOG_DEBUG = 3
} cugrt_log_level;

/* In the order of src/base/type/dtypes.def. */
typedef enum cugrt_dtype {
  CUGRT_BOOL = 0,
  CUGRT_I4 = 1,
  CUGRT_I8 = 2,
  CUGRT_I16 = 3,
  CUGRT_I32 = 4,
  CUGRT_I64 = 5,
  CUGRT_U4 = 6,
  CUGRT_U8 = 7,
  CUGRT_U16 = 8,
  CUGRT_U32 = 9,
  CUGRT_U64 = 10,
  CUGRT_F16 = 11,
  CUGRT_BF16 = 12,
  CUGRT_F32 = 13,
  CUGRT_F64 = 14,
  CUGRT_Q4_0 = 15,
  CUGRT_Q4_1 = 16,
  CUGRT_Q8_0 = 17,
  CUGRT_Q5_0 = 18,
  CUGRT_Q5_1 = 19,
  CUGRT_Q2_K = 20,
  CUGRT_Q3_K = 21,
  CUGRT_Q4_K = 22,
  CUGRT_Q5_K = 23,
  CUGRT_Q6_K = 24,
  CUGRT_IQ4_NL = 25
} cugrt_dtype;

typedef enum cugrt_driver_kind {
  CUGRT_DRIVER_DEFAULT = 0,  /* CUGRT_DRIVER in the environment; unset: system */
  CUGRT_DRIVER_SYSTEM = 1,   /* libcuda.so.1 */
  CUGRT_DRIVER_EMULATED = 2, /* libcugrt-emu.so */
  CUGRT_DRIVER_PATH = 3,     /* driver_path */
  CUGRT_DRIVER_NONE = 4      /* no device: parse, plan and compile only */
} cugrt_driver_kind;

typedef enum cugrt_policy { CUGRT_POLICY_PATCH = 0, CUGRT_POLICY_SEED = 1 } cugrt_policy;

typedef enum cugrt_report_format {
  CUGRT_REPORT_TEXT = 0,
  CUGRT_REPORT_JSON = 1,
  CUGRT_REPORT_DOT = 2,
  CUGRT_REPORT_SVG = 3,
  CUGRT_REPORT_HTML = 4 /* plans only: one page for a browser, which needs no network */
} cugrt_report_format;

typedef enum cugrt_access { CUGRT_IN = 0, CUGRT_OUT = 1, CUGRT_INOUT = 2 } cugrt_access;

typedef enum cugrt_value_kind {
  CUGRT_VALUE_NONE = 0,
  CUGRT_VALUE_TENSOR = 1,
  CUGRT_VALUE_INT = 2,
  CUGRT_VALUE_FLOAT = 3,
  CUGRT_VALUE_BOOL = 4,
  CUGRT_VALUE_SHAPE = 5,
  /* The following are arguments and results of host builtins only. */
  CUGRT_VALUE_STRING = 6,
  CUGRT_VALUE_DTYPE = 7, /* `integer` is a cugrt_dtype */
  CUGRT_VALUE_OBJECT = 8 /* `integer` is a handle of the builtins' own */
} cugrt_value_kind;

typedef enum cugrt_memory_kind {
  CUGRT_MEMORY_DEVICE = 0,
  CUGRT_MEMORY_PINNED = 1
} cugrt_memory_kind;

typedef enum cugrt_code_kind {
  CUGRT_CODE_SOURCE = 0, /* CUDA C++ text */
  CUGRT_CODE_PTX = 1,
  CUGRT_CODE_CUBIN = 2
} cugrt_code_kind;

/* Why steps were launched one by one instead of in a graph. */
typedef enum cugrt_eager_reason {
  CUGRT_EAGER_NOT = 0,
  CUGRT_EAGER_REQUESTED = 1,   /* cugrt_session_options.eager */
  CUGRT_EAGER_TOO_LARGE = 2,   /* an instance would be larger than the whole instance budget */
  CUGRT_EAGER_BUDGET_FULL = 3, /* instances that run or are used more often fill the budget */
  CUGRT_EAGER_NO_MEMORY = 4,   /* the device has no memory for the instance */
  CUGRT_EAGER_OUTSIDE = 5,     /* the plan has the step outside of regions */
  CUGRT_EAGER_CONDITIONAL = 6  /* a branch or loop in it; the driver has no conditional nodes */
} cugrt_eager_reason;

typedef enum cugrt_launch_kind {
  CUGRT_LAUNCH_HIT = 0,     /* a region with nothing to set */
  CUGRT_LAUNCH_PATCHED = 1, /* a region, after fields were set */
  CUGRT_LAUNCH_BUILT = 2,   /* a region, by a new instance */
  CUGRT_LAUNCH_EAGER = 3,   /* a region, step by step; the steps' own records come before it */
  CUGRT_LAUNCH_STEP = 4     /* one step */
} cugrt_launch_kind;

/* How a thread waits for a session's work. */
typedef enum cugrt_wait {
  CUGRT_WAIT_DEFAULT = 0, /* as the runtime's context says */
  CUGRT_WAIT_SPIN = 1,    /* polls; returns soonest, and takes a whole core */
  CUGRT_WAIT_YIELD = 2,   /* polls, and leaves the core to others in between */
  CUGRT_WAIT_BLOCK = 3    /* sleeps until the driver wakes it */
} cugrt_wait;

/* ---- Handles ------------------------------------------------------------------------------- */

typedef struct cugrt_status cugrt_status;
typedef struct cugrt_text cugrt_text;
typedef struct cugrt_runtime cugrt_runtime;       /* driver, device context, compiler, code cache */
typedef struct cugrt_module cugrt_module;         /* verified IR */
typedef struct cugrt_weights cugrt_weights;       /* host tensors by name */
typedef struct cugrt_executable cugrt_executable; /* plan and code */
typedef struct cugrt_function cugrt_function;     /* lives as long as its executable */
typedef struct cugrt_session cugrt_session;       /* arena and graph instances */
typedef struct cugrt_built_module cugrt_built_module; /* in the memory of a library of this build */
typedef struct cugrt_buffer cugrt_buffer;
typedef struct cugrt_stream cugrt_stream;
typedef struct cugrt_event cugrt_event;
typedef struct cugrt_group cugrt_group; /* sessions with one budget of device memory; any thread */
typedef struct cugrt_pack cugrt_pack; /* plan, code for named architectures, weights; any thread */

/* ---- Values -------------------------------------------------------------------------------- */

/* A contiguous tensor on the device, or (weights, constants) in host memory. */
typedef struct cugrt_tensor {
  uint64_t address; /* on the device; weights: in host memory */
  int32_t dtype;    /* cugrt_dtype */
  uint32_t rank;
  int64_t dims[CUGRT_MAX_RANK];
} cugrt_tensor;

typedef struct cugrt_shape {
  uint32_t rank;
  int64_t dims[CUGRT_MAX_RANK];
} cugrt_shape;

typedef struct cugrt_value {
  int32_t kind; /* cugrt_value_kind */
  union {
    cugrt_tensor tensor;
    int64_t integer; /* and CUGRT_VALUE_BOOL: 0 or 1 */
    double floating;
    cugrt_shape shape;
    const char *string;
  } as;
} cugrt_value;

/* ---- Parameter structs --------------------------------------------------------------------- */

/* cugrt_run_options run = CUGRT_INIT(cugrt_run_options); */
#ifdef __cplusplus
#define CUGRT_INIT(type)                                                                           \
  [] {                                                                                             \
    type value{};                                                                                  \
    value.struct_size = sizeof value;                                                              \
    return value;                                                                                  \
  }()
#else
#define CUGRT_INIT(type)                                                                           \
  { .struct_size = sizeof(type) }
#endif

typedef void (*cugrt_log_callback)(void *user, cugrt_log_level level, const char *message);

typedef struct cugrt_runtime_options {
  size_t struct_size;
  int32_t driver;           /* cugrt_driver_kind */
  const char *driver_path;  /* for CUGRT_DRIVER_PATH */
  int32_t device;           /* ordinal */
  const char *nvrtc_path;   /* NULL: CUGRT_NVRTC, then the usual places */
  const char *cache_folder; /* NULL: CUGRT_CACHE, then $XDG_CACHE_HOME/cugrt; "off": memory only */
  cugrt_log_callback log;   /* called from any thread; must not call into cugrt */
  void *log_user;
  int32_t log_level; /* cugrt_log_level: the most detailed one wanted */
  void
      *context; /* CUcontext that the caller owns and keeps alive; NULL: the device's primary one */
  /* At least this many of the device's multiprocessors, in a green context: everything that the
   * runtime's sessions and streams launch runs on them, and code is compiled for them. The
   * driver gives them out in groups; cugrt_runtime_info says how many there are. Two runtimes
   * may share multiprocessors. A session may join a group of a runtime of the whole device. 0:
   * all. Needs CUDA 12.4. */
  uint32_t multiprocessors;
} cugrt_runtime_options;

typedef struct cugrt_runtime_info {
  size_t struct_size;
  int32_t emulated;       /* 1: results are computed on the CPU by the emulated driver */
  int32_t driver_version; /* 13000: CUDA 13.0 */
  int32_t device_count;
  int32_t capability_major, capability_minor;
  uint64_t memory_bytes;
  char device_name[128];
  char driver_path[256];
  int32_t integrated; /* 1: the device's memory is the host's; pinned buffers cost it no copy */
  uint32_t multiprocessors; /* that the runtime has */
} cugrt_runtime_info;

typedef struct cugrt_symbol_value {
  const char *name;
  int64_t value;
} cugrt_symbol_value;

typedef struct cugrt_plan_options {
  size_t struct_size;
  int32_t policy;                    /* cugrt_policy */
  int32_t format;                    /* cugrt_report_format */
  const cugrt_symbol_value *symbols; /* evaluate the memory table at these values */
  size_t symbol_count;
  uint32_t max_lanes; /* as in cugrt_compile_options, like those below */
  int32_t host_control;
  int32_t full_edges;
  const char *const *pass_options;
  size_t pass_option_count;
} cugrt_plan_options;

typedef void (*cugrt_progress_callback)(void *user, size_t done, size_t total, const char *kernel,
                                        double milliseconds, size_t cached);

/* Code that replaces the code that the module names for one of its kernels. */
typedef struct cugrt_kernel_code {
  const char *kernel;
  int32_t kind; /* cugrt_code_kind */
  const void *bytes;
  size_t byte_count;
} cugrt_kernel_code;

typedef struct cugrt_compile_options {
  size_t struct_size;
  int32_t policy;           /* cugrt_policy */
  const char *architecture; /* "sm_90"; NULL: the runtime's device */
  uint32_t threads;         /* 0: as many as the machine has cores */
  cugrt_progress_callback
      progress; /* called from this thread or from compiling ones, one at a time */
  void *progress_user;
  const volatile int32_t *cancel; /* compilation stops with CUGRT_CANCELLED once this is not 0 */
  const cugrt_kernel_code *codes;
  size_t code_count;
  uint32_t max_lanes;   /* steps of a graph that may run side by side, 1 to 32; 0: no limit */
  int32_t host_control; /* 1: the host runs every branch and loop, none becomes a node of a graph */
  int32_t full_edges;   /* 1: no kernel of a graph begins before its predecessors have ended */
  const char *const *pass_options; /* "mixed.dtype=f16": settings of the default passes, as of
                                    * module_run_passes; they come before what other fields imply */
  size_t pass_option_count;
} cugrt_compile_options;

/* Options of pack_write. */
typedef struct cugrt_pack_options {
  size_t struct_size;
  int32_t policy;                   /* cugrt_policy */
  const char *const *architectures; /* "sm_87": machine code; "compute_75": PTX */
  size_t architecture_count;        /* at least 1 */
  const char *weights_path;         /* a safetensors file; NULL: `weights`, or no weights */
  int32_t weights_inside; /* 1: its bytes are in the pack; 0: the pack names the file, which stands
                           * beside it, and has its digest */
  uint32_t threads;       /* 0: as many as the machine has cores */
  cugrt_progress_callback progress; /* as for compiling; kernels are "name for sm_87" */
  void *progress_user;
  const volatile int32_t *cancel;
  uint32_t max_lanes; /* as in cugrt_compile_options, like those below */
  int32_t host_control;
  int32_t full_edges;
  const char *const *pass_options;
  size_t pass_option_count;
  int32_t names; /* 1: reports of the pack say the op of each step and what the ONNX or GGUF file
                  * that the module was made of calls it; at most 40 bytes a step */
  const cugrt_weights *weights; /* in the place of weights_path: they are inside */
} cugrt_pack_options;

/* How module_import reads a file of another format; docs/onnx.md explains each field for ONNX. */
typedef struct cugrt_import_options {
  size_t struct_size;
  const char *const *dims; /* "NAME=SYMBOL" or "NAME=NUMBER": names or fixes a dimension */
  size_t dim_count;
  const char *const *bounds; /* "SYMBOL=A..B": bounds of a symbol */
  size_t bound_count;
  const char *const *bind; /* "INPUT=VALUE": makes an input a constant */
  size_t bind_count;
  const char *const *preprocess; /* "INPUT=hwc", "INPUT=nv12": makes an image of frames */
  size_t preprocess_count;
} cugrt_import_options;

/* A module to link, and the name of the part: letters, digits and '_'. */
typedef struct cugrt_link_part {
  const char *name;
  const cugrt_module *module;
  const cugrt_weights *weights; /* NULL: the weights that it was imported with, if any */
} cugrt_link_part;

/* Gives an input another part's result: "PART.INPUT" and "PART.resultN", or the names that a
 * file has for them. */
typedef struct cugrt_link_join {
  const char *input, *result;
} cugrt_link_join;

/* The caller's device memory. `allocate` returns an address aligned to 256 bytes, or 0 when
 * there is none. The device has ended its work on a block before `free` gets it. The threads
 * that open, run and free sessions call both, which must not call into cugrt. */
typedef struct cugrt_allocator {
  size_t struct_size;
  void *user;
  uint64_t (*allocate)(void *user, uint64_t bytes);
  void (*free)(void *user, uint64_t address, uint64_t bytes);
} cugrt_allocator;

/* Costs that the instance policy uses. 0 takes the default: 10 KiB a node, 16 KiB an instance;
 * while times are unknown, the second use of a key earns it an instance of its own. */
typedef struct cugrt_costs {
  size_t struct_size;
  uint64_t node_bytes, instance_bytes; /* on device and host together */
  uint64_t build_ns, build_node_ns;    /* to make an instance; for each of its nodes */
  uint64_t patch_node_ns;              /* to set one node */
} cugrt_costs;

/* A run that ended after its deadline. */
typedef struct cugrt_missed_run {
  size_t struct_size;
  uint64_t run;     /* number of the session's run, from 0; failed runs are not counted */
  int64_t begin_ns; /* when session_run was called, by the steady clock (CLOCK_MONOTONIC) */
  uint64_t took_ns; /* from then until the host knew of the end, by the same clock */
  uint64_t deadline_ns;
} cugrt_missed_run;

/* Called at the end of each late run of a session, one after another, from a thread of the
 * driver. Nothing on the device waits for it. May not call cugrt or CUDA, nor wait for a thread
 * that does. */
typedef void (*cugrt_missed_callback)(void *user, const cugrt_missed_run *missed);

typedef struct cugrt_session_options {
  size_t struct_size;
  const cugrt_weights
      *weights; /* every weight parameter, by name; copied to the device at opening */
  uint64_t instance_budget_bytes; /* for graph instances; 0: 64 MiB */
  int32_t eager;                  /* 1: build no graphs; every step is launched one by one */
  int32_t strict;                 /* 1: whatever would be launched outside of a graph is an error,
                                     before anything is launched where the plan says so already */
  uint32_t record_capacity;       /* launch records kept; 0: none, at no cost; at most 2^20 */
  /* 1: the device times steps launched one by one, for their records. 2: it also times nodes of
   * graphs, for session_graph_report: an event follows each node, so a graph has twice as many
   * nodes and none begins before its predecessors have ended. The time of a conditional includes
   * the nodes of its bodies. */
  int32_t time_steps;
  const cugrt_costs *costs; /* NULL: the defaults, or measured */
  int32_t measure_costs;    /* 1: measures them, once per runtime: some milliseconds */
  /* Allocates arenas, results and unplanned tensors. NULL: the driver does, with arenas in
   * reservations that are backed with memory as runs need it. */
  const cugrt_allocator *allocator;
  /* 0 or 1. More is CUGRT_UNSUPPORTED: for runs that overlap on the device, open two sessions of
   * the executable, which share code and weights. */
  uint32_t frames;
  cugrt_group *group; /* NULL: none. A group of the same runtime; excludes allocator */
  /* Sessions of a group with the same word share one arena; each run waits on the device for the
   * word's last run. All sessions of one model have one word. NULL takes the word of the model's
   * first session in the group, which may be none. */
  const char *exclusive;
  /* Priority of the session's own stream and of its graphs' kernels on any stream. 0: the
   * default priority, or that of the caller's stream. The device schedules larger values first,
   * as far as it tells them apart. CUDA takes it as a hint and interrupts no running block. */
  int32_t priority;
  int32_t wait;            /* a cugrt_wait, for session_synchronize */
  int32_t measure_latency; /* 1: keeps times of runs for sessions_get_latency; two events a run */
  /* Most time from session_run's call until the device has ended the run; 0: none. A deadline
   * turns on measure_latency, and sessions_get_deadlines counts the runs that exceed it. */
  uint64_t deadline_us;
  cugrt_missed_callback missed; /* may be NULL; needs a deadline */
  void *missed_user;
} cugrt_session_options;

/* Latencies of session runs in nanoseconds. Quantiles are rounded up by at most 1/32. */
typedef struct cugrt_latency {
  size_t struct_size;
  uint64_t count, p50_ns, p99_ns, p999_ns, max_ns;
} cugrt_latency;

typedef struct cugrt_group_options {
  size_t struct_size;
  /* Limit on the device memory of all sessions' arenas, weights and results and of the group's
   * buffers; 0: no limit. Weights of idle sessions leave before an allocation fails. It does not
   * count graph instances, which have budgets of their own, nor tensors whose sizes no plan
   * knows. */
  uint64_t budget_bytes;
  /* At most this many graphs of priority-0 sessions are queued or running on the device; a run
   * beyond it waits on the host until one has ended. So a run of a larger priority finds at most
   * this many graphs before it. 0: no limit; at most 1024. */
  uint32_t low_priority_ahead;
  /* Budget of graph instances of all sessions together; 0: each session has a budget of its own.
   * A full budget gives up an instance that has not been used for long, of any session. */
  uint64_t instance_budget_bytes;
} cugrt_group_options;

/* Bytes of device memory. */
typedef struct cugrt_memory {
  size_t struct_size;
  /* A session: its arenas; of a shared arena, up to the session's own peak. A group: a shared
   * arena counts once. */
  uint64_t arena_bytes;
  uint64_t weight_bytes;   /* on the device now; a group counts shared weights once */
  uint64_t result_bytes;   /* in the session's own memory */
  uint64_t instance_bytes; /* estimated, of graph instances; for a group: 0 without their budget */
  uint64_t device_bytes;   /* arenas, weights, results and buffers */
  uint64_t budget_bytes;   /* of the group; 0: no limit */
  uint64_t buffer_bytes;   /* of a group: group_buffer_create */
} cugrt_memory;

typedef struct cugrt_run_options {
  size_t struct_size;
  const cugrt_value
      *arguments; /* the function's per-call parameters, in order; weights not among them */
  size_t argument_count;
  /* In: a tensor with an address (and the result's dtype and dimensions) is written there; the
   * address is a multiple of 16 bytes and overlaps nothing that the run uses. What any earlier run
   * handed out may be left as it is: it binds nothing. Out: every result, with address and
   * dimensions, those that the device decides (cugrt_param_info.counted) at their upper bounds. A
   * result that is a parameter or weight, or lies in one or in another result, has its place there
   * and takes no address. */
  cugrt_value *results;
  size_t result_count; /* 0, or the number of the function's results */
  /* The caller's native stream, of the session's context; NULL: the session's own. */
  void *stream;
  int32_t use_default_stream; /* 1: `stream` NULL means CUDA's default stream */
} cugrt_run_options;

typedef struct cugrt_param_info {
  size_t struct_size;
  const char *name;
  int32_t kind;   /* cugrt_value_kind */
  int32_t dtype;  /* of tensors */
  int32_t access; /* cugrt_access */
  int32_t weight; /* 1: bound by cugrt_session_options.weights, not by runs */
  uint32_t rank;  /* 1 for an integer that symbols give, as int<n>, whose expression dims has */
  int64_t dims[CUGRT_MAX_RANK];          /* upper bounds; -1: unbounded */
  const char *dim_names[CUGRT_MAX_RANK]; /* as written: "n", "n * 2", "64" */
  /* For results. 1: the device decides dimension `counted_dim`, whose upper bound is in `dims`.
   * After the run, result `counted_by` (one i64 on the device) holds its size; from the tensor's
   * address on, the elements of the tensor of that size follow each other. */
  int32_t counted;
  uint32_t counted_dim, counted_by;
  int32_t is_count; /* 1: the result is such a size, of one result or several */
} cugrt_param_info;

/* Totals since the session was opened. Every launch of a region counts once, in one of the four. */
typedef struct cugrt_counters {
  size_t struct_size;
  uint64_t runs;
  uint64_t regions_built, regions_hit, regions_patched, regions_eager;
  uint64_t fields_patched; /* node parameters set */
  uint64_t eager_steps;    /* steps launched one by one, in eager regions too */
  uint64_t instances, instances_evicted;
  uint64_t largest_nodes, largest_edges; /* of the largest instance built */
  uint64_t instance_bytes; /* estimated device and host memory of the instances alive */
  uint64_t arena_bytes, arena_lower_bound_bytes, arena_tensor_bytes; /* all scopes together */
  uint64_t weight_bytes, result_bytes;
  /* Launches of regions by cugrt_eager_reason; eager_outside counts steps. */
  uint64_t eager_requested, eager_too_large, eager_budget_full, eager_no_memory, eager_outside;
  uint64_t regions_prepared;      /* instances taken over from session_prepare */
  uint64_t arena_committed_bytes; /* memory behind all arenas */
  uint64_t eager_conditional;     /* launches of regions, like those above */
  /* Weights that the device reads in their pages in host memory, where its memory is the host's;
   * weight_bytes does not count them. */
  uint64_t weight_bytes_in_place;
} cugrt_counters;

/* Result of preparing a function for one set of symbol values. */
typedef struct cugrt_prepare_report {
  size_t struct_size;
  uint64_t regions; /* regions of the function */
  uint64_t built;   /* regions that have an instance now, on the device */
  uint64_t present; /* regions that had one */
  uint64_t unknown; /* regions that depend on a symbol that was not given */
  uint64_t refused; /* regions whose instance did not fit */
  uint64_t built_bytes;
  int32_t reason;     /* cugrt_eager_reason of the first refused one, with its figures: */
  const char *region; /* its name, which lives as long as the executable; NULL: none was refused */
  uint64_t needed_bytes, free_bytes; /* bytes of the instance; bytes left of the budget */
} cugrt_prepare_report;

/* One launch. Strings live as long as the executable. Host times are of the steady clock
 * (CLOCK_MONOTONIC). */
typedef struct cugrt_launch_record {
  size_t struct_size;
  uint64_t sequence; /* counts from 0; numbers that are missing were overwritten unread */
  uint64_t run;      /* number of the session's run, from 0 */
  int32_t kind;      /* cugrt_launch_kind */
  int32_t reason;    /* cugrt_eager_reason */
  uint32_t frame;    /* 0 */
  uint32_t key_size; /* symbols of the region's key; the first CUGRT_MAX_KEY of them follow */
  const char *function;
  const char *name; /* of the region or step */
  const char *key_names[CUGRT_MAX_KEY];
  int64_t key_values[CUGRT_MAX_KEY];
  uint64_t nodes, edges;
  uint64_t fields_patched;
  int64_t begin_ns, host_ns; /* of the whole launch */
  int64_t build_ns, patch_ns,
      launch_ns; /* parts: making the instance, setting, the driver's launch */
  double
      device_us; /* of steps, with time_steps; -1 while it is not known, as before a synchronize */
  int64_t padded_from[CUGRT_MAX_KEY]; /* by symbol of the key: of a bucket, the value of this run
                                         that was padded to it; else key_values again */
} cugrt_launch_record;

/* A host builtin. Arguments and results are those of the IR's host call; tensors are device
 * tensors. The function queues its work on `stream`. A non-NULL status (made by status_create) ends
 * the run with it.
 * Results arrive with their kind set, which the function keeps. It sets a scalar's value. A
 * tensor whose dimensions are known before the call arrives with its whole description, which
 * the function keeps; it fills the memory at the tensor's address. Any other tensor arrives with
 * address 0 and rank 0: the function sets address, dtype and dimensions to memory of its own,
 * which must stay unchanged until the run has ended. */
typedef cugrt_status *(*cugrt_host_function)(void *user, const cugrt_value *arguments,
                                             size_t argument_count, cugrt_value *results,
                                             size_t result_count, void *stream);

/* ---- The table ----------------------------------------------------------------------------- */

typedef struct cugrt_api {
  size_t struct_size;
  uint32_t version;
  const char *version_string; /* "0.1.0" */

  /* Statuses. */
  cugrt_status *(*status_create)(cugrt_code code, const char *message);
  cugrt_code (*status_code)(const cugrt_status *status);
  const char *(*status_message)(const cugrt_status *status);
  const char *(*status_location)(const cugrt_status *status); /* "" when unknown */
  const char *(*status_cuda_error)(
      const cugrt_status *status); /* "" when the driver is not the cause */
  void (*status_free)(cugrt_status *status);

  /* Text. */
  const char *(*text_data)(const cugrt_text *text); /* ends with NUL */
  size_t (*text_size)(const cugrt_text *text);
  void (*text_free)(cugrt_text *text);

  /* Runtime. */
  cugrt_status *(*runtime_create)(const cugrt_runtime_options *options, cugrt_runtime **runtime);
  void (*runtime_free)(cugrt_runtime *runtime);
  cugrt_status *(*runtime_get_info)(cugrt_runtime *runtime, cugrt_runtime_info *info);
  /* Reports which driver, device, compiler and cache are found, what is missing and what to do.
   * Text or JSON. */
  cugrt_status *(*doctor)(const cugrt_runtime_options *options, cugrt_report_format format,
                          cugrt_text **report, int32_t *usable);
  cugrt_status *(*runtime_register_host_function)(cugrt_runtime *runtime, const char *name,
                                                  cugrt_host_function function, void *user);

  /* Memory, streams, events. A NULL stream makes copies synchronous. */
  cugrt_status *(*buffer_create)(cugrt_runtime *runtime, cugrt_memory_kind kind, uint64_t bytes,
                                 cugrt_buffer **buffer);
  uint64_t (*buffer_address)(const cugrt_buffer *buffer);   /* on the device */
  void *(*buffer_host_pointer)(const cugrt_buffer *buffer); /* pinned memory; else NULL */
  uint64_t (*buffer_bytes)(const cugrt_buffer *buffer);
  void (*buffer_free)(cugrt_buffer *buffer);
  cugrt_status *(*copy_to_device)(cugrt_runtime *runtime, uint64_t address, const void *from,
                                  uint64_t bytes, cugrt_stream *stream);
  cugrt_status *(*copy_to_host)(cugrt_runtime *runtime, void *to, uint64_t address, uint64_t bytes,
                                cugrt_stream *stream);
  cugrt_status *(*copy_on_device)(cugrt_runtime *runtime, uint64_t to, uint64_t from,
                                  uint64_t bytes, cugrt_stream *stream);
  cugrt_status *(*fill)(cugrt_runtime *runtime, uint64_t address, uint8_t byte, uint64_t bytes,
                        cugrt_stream *stream);
  cugrt_status *(*stream_create)(cugrt_runtime *runtime, cugrt_stream **stream);
  void *(*stream_native)(const cugrt_stream *stream);
  cugrt_status *(*stream_synchronize)(cugrt_stream *stream);
  void (*stream_free)(cugrt_stream *stream);
  cugrt_status *(*event_create)(cugrt_runtime *runtime, cugrt_event **event);
  cugrt_status *(*event_record)(cugrt_event *event, void *native_stream);
  cugrt_status *(*event_synchronize)(cugrt_event *event);
  cugrt_status *(*event_elapsed_milliseconds)(cugrt_event *from, cugrt_event *to,
                                              double *milliseconds);
  void (*event_free)(cugrt_event *event);

  /* Modules. Kernel source paths are relative to the file, or to base_folder. The content of a
   * file decides its format: text, or a format that module_import reads. */
  cugrt_status *(*module_load)(const char *path, cugrt_module **module);
  cugrt_status *(*module_parse)(const char *text, size_t size, const char *name,
                                const char *base_folder, cugrt_module **module);
  void (*module_free)(cugrt_module *module);
  /* The text parses again; a module that passes made too large for text is an error. */
  cugrt_status *(*module_print)(const cugrt_module *module, cugrt_text **text);
  /* Runs passes in order; no names: the default pipeline. Options are "name=value". */
  cugrt_status *(*module_run_passes)(const cugrt_module *module, const char *const *passes,
                                     size_t pass_count, const char *const *options,
                                     size_t option_count, cugrt_module **result);
  size_t (*pass_count)(void);
  const char *(*pass_name)(size_t index); /* NULL beyond the last, as the next */
  const char *(*pass_description)(size_t index);
  cugrt_status *(*module_plan_report)(const cugrt_module *module, const cugrt_plan_options *options,
                                      cugrt_text **report);

  /* Weights. Names are the parameters' names. */
  cugrt_status *(*weights_create)(cugrt_weights **weights);
  /* Maps the file, which must not change while the weights or sessions of them live: rename a
   * newer file to its place instead of writing over it. */
  cugrt_status *(*weights_load)(const char *safetensors_path, cugrt_weights **weights);
  /* `tensor->address` is a host pointer; the bytes are copied. */
  cugrt_status *(*weights_add)(cugrt_weights *weights, const char *name,
                               const cugrt_tensor *tensor);
  size_t (*weights_count)(const cugrt_weights *weights);
  cugrt_status *(*weights_at)(const cugrt_weights *weights, size_t index, const char **name,
                              cugrt_tensor *tensor);
  void (*weights_free)(cugrt_weights *weights);

  /* Executables. Compiling runs the default pipeline, plans, and compiles every kernel. */
  cugrt_status *(*executable_compile)(cugrt_runtime *runtime, const cugrt_module *module,
                                      const cugrt_compile_options *options,
                                      cugrt_executable **executable);
  void (*executable_free)(cugrt_executable *executable);
  size_t (*executable_function_count)(const cugrt_executable *executable);
  const cugrt_function *(*executable_function_at)(const cugrt_executable *executable, size_t index);
  cugrt_status *(*executable_find_function)(const cugrt_executable *executable, const char *name,
                                            const cugrt_function **function);
  const char *(*function_name)(const cugrt_function *function);
  size_t (*function_param_count)(const cugrt_function *function); /* includes weights */
  cugrt_status *(*function_param)(const cugrt_function *function, size_t index,
                                  cugrt_param_info *info);
  size_t (*function_result_count)(const cugrt_function *function);
  cugrt_status *(*function_result)(const cugrt_function *function, size_t index,
                                   cugrt_param_info *info);
  /* The dimensions of parameter (is_result 0) or result `index` at these symbol values: writes
   * exactly CUGRT_MAX_RANK numbers, zeros after the rank. Fails on a symbol that the dimensions
   * need and that is not given, and on a name that the function does not have. */
  cugrt_status *(*function_dims)(const cugrt_function *function, int32_t is_result, size_t index,
                                 const cugrt_symbol_value *symbols, size_t symbol_count,
                                 int64_t *dims);
  size_t (*function_symbol_count)(const cugrt_function *function);
  const char *(*function_symbol_name)(const cugrt_function *function,
                                      size_t index); /* NULL beyond the last */

  /* Sessions. */
  cugrt_status *(*session_open)(cugrt_executable *executable, cugrt_runtime *runtime,
                                const cugrt_session_options *options, cugrt_session **session);
  /* Asynchronous. If an earlier run read a symbol outside its bounds: CUGRT_OUT_OF_RANGE, once. */
  cugrt_status *(*session_run)(cugrt_session *session, const cugrt_function *function,
                               const cugrt_run_options *run);
  cugrt_status *(*session_synchronize)(cugrt_session *session);
  cugrt_status *(*session_get_counters)(cugrt_session *session, cugrt_counters *counters);
  /* The graphs of the instances alive: nodes and edges, as text, JSON or DOT. */
  cugrt_status *(*session_graph_report)(cugrt_session *session, cugrt_report_format format,
                                        cugrt_text **report);
  void (*session_free)(cugrt_session *session); /* waits for the session's work */

  /* Moves launch records out, the oldest first, in the order in which the launches ended. All
   * `capacity` records have the struct_size of the first. */
  cugrt_status *(*session_read_launches)(cugrt_session *session, cugrt_launch_record *records,
                                         size_t capacity, size_t *count);
  /* Makes the graph instances of a function's regions for these values of its symbols, and
   * uploads them, without running anything: the first run with these values finds them. The
   * report counts regions that do not fit, which are no error. Any thread may call it, also
   * while another one runs the session. */
  cugrt_status *(*session_prepare)(cugrt_session *session, const cugrt_function *function,
                                   const cugrt_symbol_value *symbols, size_t symbol_count,
                                   cugrt_prepare_report *report);
  cugrt_status *(*session_get_costs)(cugrt_session *session, cugrt_costs *costs);
  /* Reports which nodes' fields differ between two sets of symbol values, as text or JSON.
   * Patching an instance from one set to the other sets these fields. */
  cugrt_status *(*function_key_difference)(const cugrt_function *function,
                                           const cugrt_symbol_value *from, size_t from_count,
                                           const cugrt_symbol_value *to, size_t to_count,
                                           cugrt_report_format format, cugrt_text **report);

  /* The code cache. Reads only cache_folder of the options. No folder to work on is an error. */
  /* Its entries, oldest read first, each one verified: as text or JSON. `broken` (may be NULL)
   * counts the damaged ones. */
  cugrt_status *(*cache_list)(const cugrt_runtime_options *options, cugrt_report_format format,
                              cugrt_text **report, uint64_t *broken);
  cugrt_status *(*cache_remove_broken)(const cugrt_runtime_options *options, uint64_t *removed);
  /* Removes the entries read longest ago until at most limit_bytes remain. */
  cugrt_status *(*cache_prune)(const cugrt_runtime_options *options, uint64_t limit_bytes,
                               uint64_t *removed);
  /* Copies every whole entry to a folder, which another machine may name in CUGRT_CACHE_READONLY.
   */
  cugrt_status *(*cache_export)(const cugrt_runtime_options *options, const char *folder,
                                uint64_t *copied);

  /* Packs: a module planned and compiled for named architectures, to run where there is no
   * compiler. */
  /* Compiles with the runtime's compiler and cache, whatever its device is. Writes the file
   * aside and renames it. */
  cugrt_status *(*pack_write)(cugrt_runtime *runtime, const cugrt_module *module,
                              const cugrt_pack_options *options, const char *path);
  /* Checks everything in the pack. Maps the file, as weights_load does. */
  cugrt_status *(*pack_load)(const char *path, cugrt_pack **pack);
  /* `name` stands for the file in messages; base_folder is where a file of weights is looked
   * for. Copies the bytes. */
  cugrt_status *(*pack_parse)(const void *bytes, size_t size, const char *name,
                              const char *base_folder, cugrt_pack **pack);
  void (*pack_free)(cugrt_pack *pack);
  /* Targets, weights and plans, as text or JSON; DOT if there is one plan. Ignores the options'
   * policy, since the plan is made. */
  cugrt_status *(*pack_report)(const cugrt_pack *pack, const cugrt_plan_options *options,
                               cugrt_text **report);
  /* The weights inside, or those of the file that the pack names, whose digest must agree. NULL
   * if the pack has none. */
  cugrt_status *(*pack_weights)(const cugrt_pack *pack, cugrt_weights **weights);
  /* The code for the runtime's device: machine code of its architecture, else the newest PTX that
   * is not newer than the device; CUGRT_UNSUPPORTED lists what the pack has. Opens no compiler.
   */
  cugrt_status *(*executable_from_pack)(cugrt_runtime *runtime, const cugrt_pack *pack,
                                        cugrt_executable **executable);

  /* Work queued on the stream from now on waits for the work that the event's last record stands
   * for; the caller does not wait. An event that was never recorded delays nothing. */
  cugrt_status *(*event_stream_wait)(cugrt_event *event, void *native_stream);

  /* Modules from other formats: an ONNX model, by libcugrt-onnx.so. The first such file opens
   * that library, beside this one or where the system looks. Text is an error. */
  cugrt_status *(*module_import)(const char *path, const cugrt_import_options *options,
                                 cugrt_module **module);
  /* The tensors that the file held, by the names of their parameters. They lie in its pages: the
   * weights keep the file mapped, which must not change meanwhile. NULL if there are none, as
   * for every module of text. */
  cugrt_status *(*module_weights)(const cugrt_module *module, cugrt_weights **weights);
  /* The name that main's parameter of that index (weights are not counted) or result has in the
   * file that the module was imported from, also after passes; NULL for a module of text, and
   * beyond the last one. */
  const char *(*module_input_name)(const cugrt_module *module, size_t index);
  const char *(*module_result_name)(const cugrt_module *module, size_t index);

  /* Sets *is_idle to whether the session's work has ended, without waiting. The next run or wait
   * also returns an error that the work met. */
  cugrt_status *(*session_is_idle)(cugrt_session *session, int32_t *is_idle);

  /* As weights_add, but keeps the caller's bytes, which must not change until `release` is
   * called with `user`: once, from any thread, when neither the weights nor a session need them,
   * or on failure. NULL: the caller knows when. Where the device's memory is the host's,
   * sessions register the pages of larger tensors and read them there, so these must be pages of
   * a mapped file, or pages in which the application registers nothing. */
  cugrt_status *(*weights_add_shared)(cugrt_weights *weights, const char *name,
                                      const cugrt_tensor *tensor, void (*release)(void *user),
                                      void *user);

  /* Links several modules into one, whose main function calls theirs, so that passes plan one
   * graph and one storage. Its inputs and weights are named PART.NAME, its symbols PART.SYMBOL,
   * in the order of the parts. Joined inputs are gone, and so are the results that they take.
   * Symbols of joined dimensions become one, and so do weights that are equal byte for byte,
   * under the first one's name. module_weights gives the weights that the parts brought along. */
  cugrt_status *(*module_link)(const cugrt_link_part *parts, size_t part_count,
                               const cugrt_link_join *joins, size_t join_count,
                               cugrt_module **module);
  /* Writes a safetensors file, whole or not at all. Packed integers of 4 bits have no place
   * in that format. */
  cugrt_status *(*weights_save)(const cugrt_weights *weights, const char *safetensors_path);
  /* The weights of `base`, where those of `changes` replace the ones of the same names. Shares
   * bytes and copies none. */
  cugrt_status *(*weights_replace)(const cugrt_weights *base, const cugrt_weights *changes,
                                   cugrt_weights **result);

  /* From the next run on the session uses these weights. They are complete, as for session_open;
   * sessions that get the same ones share one upload. Waits for the session's work, and holds
   * old and new weights until then; in a group whose budget does not hold both, the old ones
   * leave first. Instances stay and are patched; computed weights are computed anew. A failure
   * keeps the old ones. Results of earlier runs that are weights themselves are gone. */
  cugrt_status *(*session_update_weights)(cugrt_session *session, const cugrt_weights *weights);

  /* Groups: models that share one device's memory. Freeing a group's handle ends nothing: its
   * sessions keep the group until the last one is freed. */
  cugrt_status *(*group_create)(cugrt_runtime *runtime, const cugrt_group_options *options,
                                cugrt_group **group);
  void (*group_free)(cugrt_group *group);
  cugrt_status *(*group_get_memory)(cugrt_group *group, cugrt_memory *memory);
  cugrt_status *(*session_get_memory)(cugrt_session *session, cugrt_memory *memory);
  /* For a session in a group: waits for the work of all sessions that share its weights, and
   * frees these weights' device memory. The next run of one of them copies them back to the same
   * addresses, from the host's memory or file that they came from, so instances stay valid.
   * Where the driver has no virtual memory, addresses change and instances are patched.
   * CUGRT_BUSY while one of the sessions runs on another thread. Like the next, for any thread. */
  cugrt_status *(*session_evict)(cugrt_session *session);
  cugrt_status *(*session_is_resident)(cugrt_session *session, int32_t *is_resident);

  /* From now on runs of the session allocate no device memory and make no graph instance. They
   * use and patch the instances of earlier runs and of session_prepare; a run that would need
   * more is an error that names its symbols. Sealing itself backs arenas, and the session's own
   * memory for results, up to the bounds of the symbols; if that fails, the session is not
   * sealed. The group's budget takes no weights from a sealed session. */
  cugrt_status *(*session_seal)(cugrt_session *session);
  /* Latencies over the ended runs of several sessions that were opened with measure_latency:
   * `host` from a run's beginning until it was queued, `device` from its first launch to its
   * last one's end. Either may be NULL. */
  cugrt_status *(*sessions_get_latency)(cugrt_session *const *sessions, size_t session_count,
                                        cugrt_latency *host, cugrt_latency *device);
  /* `priority` is as in cugrt_session_options. */
  cugrt_status *(*stream_create_with_priority)(cugrt_runtime *runtime, int32_t priority,
                                               cugrt_stream **stream);
  /* Device memory that counts in the group's budget until it is freed, for data that a session
   * keeps from run to run. Weights of idle sessions leave for it; if that is not enough:
   * CUGRT_OUT_OF_DEVICE_MEMORY. The buffer may outlive the group. */
  cugrt_status *(*group_buffer_create)(cugrt_group *group, uint64_t bytes, cugrt_buffer **buffer);
  /* Waits until all runs of several sessions with deadlines have ended: how long they took from
   * session_run's call to the device's end, and how many were late. Either may be NULL.
   */
  cugrt_status *(*sessions_get_deadlines)(cugrt_session *const *sessions, size_t session_count,
                                          cugrt_latency *whole, uint64_t *missed);

  /* The module that a library of this build holds in memory, as libcugrt-onnx's
   * cugrt_onnx_module gives it. The call shares it: `built` may be freed afterwards. `name`
   * stands for its file in messages; its kernels have no source files of their own. */
  cugrt_status *(*module_adopt)(const cugrt_built_module *built, const char *name,
                                cugrt_module **module);

  /* As session_update_weights, but in the memory of the old weights, after waiting for the
   * session's work: no instance is patched, and only computed weights need memory for both at
   * once. The host keeps the old bytes until the new ones are there, so that a failure keeps the
   * old weights. CUGRT_BUSY if other sessions read these weights; CUGRT_UNSUPPORTED if they lie
   * in another model's memory or in the host's pages. */
  cugrt_status *(*session_update_weights_in_place)(cugrt_session *session,
                                                   const cugrt_weights *weights);

  /* Sets budget_bytes; 0: no limit. For a smaller budget, weights of idle sessions leave; if
   * more is still held, the call returns CUGRT_OUT_OF_DEVICE_MEMORY and the budget stays. Any
   * thread. */
  cugrt_status *(*group_set_budget)(cugrt_group *group, uint64_t budget_bytes);
} cugrt_api;

/* The table for clients of `version` (CUGRT_API_VERSION), or NULL when this library is older. */
CUGRT_EXPORT const cugrt_api *cugrt_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
