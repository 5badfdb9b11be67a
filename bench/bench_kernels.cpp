// bench kernels [--json FILE] [--only CASES]: each kernel of the library by itself, through a
// session, against the ceilings of the device: what a copy, a kernel that only reads, and a loop of
// mma instructions reach in the same run. CASES are names with commas between; the ceilings are
// always measured.
//
//   us                   of one run: the median of rounds, each of several runs in a row, by events
//   bytes                of the operands and results, each counted once
//   operations           multiplications and additions of products, convolutions and attention;
//                        null for what is not measured by them
//   ceiling              what the fraction is of: copy, read or mma
//   fraction_of_ceiling  bytes (or operations) a second, as a part of the ceiling's
//   not_measured         why the fraction is null, else null
//
// On a GPU what is bound by memory takes 256 MB and more, so that caches do not hold it. Without
// one they are small and run on the emulated driver, where times say nothing of a GPU: fractions
// are null.
#include "bench/support/bench_main.h"
#include "bench/support/samples.h"

#include <cugrt/cugrt.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <random>

namespace cugrt::bench {
namespace {

constexpr int kRounds = 7, kRunsPerRound = 10;

/// The ceilings' kernels. `read` writes only what cannot be, so that its loads stay.
constexpr const char *kCeilings = R"(
kernel @ceiling_copy {
  inline """
extern "C" __global__ void ceiling_copy(const uint4 *x, uint4 *y, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n / 4;
       i += (long long)gridDim.x * blockDim.x)
    y[i] = x[i];
}
"""
  entry "ceiling_copy"
  params (x: in f32, y: out f32, n: symbol i64)
  launch { grid (min(ceildiv(n, 1024), 4096), 1, 1) block (256, 1, 1) }
}
kernel @ceiling_read {
  inline """
extern "C" __global__ void ceiling_read(const uint4 *x, unsigned *y, long long n) {
  unsigned all = 0;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n / 4;
       i += (long long)gridDim.x * blockDim.x) {
    const uint4 v = x[i];
    all |= v.x | v.y | v.z | v.w;
  }
  if (blockIdx.x == 0 || all == 0x80000001u)
    y[threadIdx.x] = all;
}
"""
  entry "ceiling_read"
  params (x: in f32, y: out f32, n: symbol i64)
  launch { grid (min(ceildiv(n, 1024), 4096), 1, 1) block (256, 1, 1) }
}
kernel @ceiling_mma {
  inline """
extern "C" __global__ void ceiling_mma(const unsigned *x, float *y, long long steps) {
#if __CUDA_ARCH__ >= 800
  unsigned a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = x[i];
  for (int i = 0; i < 2; ++i) b[i] = x[4 + i];
  float sum[8][4] = {};
  for (long long s = 0; s < steps; ++s)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                   "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                   : "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  float all = 0;
  for (int i = 0; i < 8; ++i) all += sum[i][0] + sum[i][1] + sum[i][2] + sum[i][3];
  if (threadIdx.x < 32 && blockIdx.x == 0) y[threadIdx.x] = all;
#endif
}
"""
  entry "ceiling_mma"
  params (x: in f32, y: out f32, steps: symbol i64)
  launch { grid (1056, 1, 1) block (256, 1, 1) }
}
)";
constexpr double kMmaBlocks = 1056, kMmaWarps = 8, kMmaEach = 8, kMmaOperations = 2.0 * 16 * 8 * 16;

enum class Ceiling { copy, read, mma };
constexpr const char *kCeilingNames[] = {"copy", "read", "mma"};

/// `T` is the dtype, R, C and K are sizes (small ones without a GPU) in parameters, results' types
/// and body, which stands behind "%r = ".
struct Case {
  const char *name, *dtype, *params, *body;
  Ceiling ceiling;
  int64_t small[3], large[3];                // R, C, K
  double (*operations)(const int64_t *size); // nullptr: not a measure of it
  const char *result = "tensor<[R, C], T>";
};

double product(const int64_t *s) { return 2.0 * double(s[0]) * double(s[1]) * double(s[2]); }

constexpr int64_t kRows = 1 << 14, kColumns = 1 << 12; // 256 MB of f32
#define CUGRT_PLAIN {16, 96, 0}, {kRows, kColumns, 0}, nullptr
#define CUGRT_HALVES {16, 96, 0}, {2 * kRows, kColumns, 0}, nullptr
constexpr const char *kOne = "%x: tensor<[R, C], T>";
constexpr const char *kTwo = "%x: tensor<[R, C], T>, %y: tensor<[R, C], T>";

constexpr Case kCases[] = {
    {"ceiling_copy", "f32", kOne, "alloc : tensor<[R, C], T> launch @ceiling_copy(%x, %r, R*C)",
     Ceiling::copy, CUGRT_PLAIN},
    {"ceiling_read", "f32", kOne, "alloc : tensor<[256], T> launch @ceiling_read(%x, %r, R*C)",
     Ceiling::read, CUGRT_PLAIN, "tensor<[256], T>"},
    {"ceiling_mma",
     "f32",
     "%x: tensor<[64], T>",
     "alloc : tensor<[32], T> launch @ceiling_mma(%x, %r, R)",
     Ceiling::mma,
     {1, 0, 0},
     {4096, 0, 0},
     [](const int64_t *s) {
       return double(s[0]) * kMmaBlocks * kMmaWarps * kMmaEach * kMmaOperations;
     },
     "tensor<[32], T>"},
    {"relu", "f32", kOne, "relu(%x)", Ceiling::copy, CUGRT_PLAIN},
    {"relu", "f16", kOne, "relu(%x)", Ceiling::copy, CUGRT_HALVES},
    {"gelu", "bf16", kOne, "gelu(%x)", Ceiling::copy, CUGRT_HALVES},
    {"add", "f32", kTwo, "add(%x, %y)", Ceiling::copy, CUGRT_PLAIN},
    {"add", "f16", kTwo, "add(%x, %y)", Ceiling::copy, CUGRT_HALVES},
    {"add_row", "f32", "%x: tensor<[R, C], T>, %y: tensor<[C], T>", "add(%x, %y)", Ceiling::copy,
     CUGRT_PLAIN},
    {"where", "f32", "%c: tensor<[R, C], bool>, %x: tensor<[R, C], T>, %y: tensor<[R, C], T>",
     "where(%c, %x, %y)", Ceiling::copy, CUGRT_PLAIN},
    {"cast_f16", "f32", kOne, "cast(%x) {dtype = f16}", Ceiling::copy, CUGRT_PLAIN,
     "tensor<[R, C], f16>"},
    {"softmax", "f32", kOne, "softmax(%x)", Ceiling::copy, CUGRT_PLAIN},
    {"softmax", "f16", kOne, "softmax(%x)", Ceiling::copy, CUGRT_HALVES},
    {"layer_norm", "f16", "%x: tensor<[R, C], T>, %s: tensor<[C], T>, %b: tensor<[C], T>",
     "layer_norm(%x, %s, %b)", Ceiling::copy, CUGRT_HALVES},
    {"rms_norm", "bf16", "%x: tensor<[R, C], T>, %s: tensor<[C], T>", "rms_norm(%x, %s)",
     Ceiling::copy, CUGRT_HALVES},
    {"reduce_sum_rows", "f32", kOne, "reduce_sum(%x) {axes = [1]}", Ceiling::read, CUGRT_PLAIN,
     "tensor<[R], T>"},
    {"reduce_max_columns", "f32", kOne, "reduce_max(%x) {axes = [0]}", Ceiling::read, CUGRT_PLAIN,
     "tensor<[C], T>"},
    {"argmax", "f32", kOne, "argmax(%x)", Ceiling::read, CUGRT_PLAIN, "tensor<[R], i64>"},
    {"cumsum", "f32", kOne, "cumsum(%x)", Ceiling::copy, CUGRT_PLAIN},
    {"transpose", "f32", kOne, "transpose(%x)", Ceiling::copy, CUGRT_PLAIN, "tensor<[C, R], T>"},
    {"transpose", "f16", kOne, "transpose(%x)", Ceiling::copy, CUGRT_HALVES, "tensor<[C, R], T>"},
    {"slice", "f32", "%x: tensor<[R, C], T>", "slice(%x) {starts = [0, 8], ends = [R, C]}",
     Ceiling::copy, CUGRT_PLAIN, "tensor<[R, C - 8], T>"},
    {"pad", "f32", kOne, "pad(%x) {before = [0, 8], after = [0, 8]}", Ceiling::copy, CUGRT_PLAIN,
     "tensor<[R, C + 16], T>"},
    {"concat", "f32", kTwo, "concat(%x, %y) {axis = 1}", Ceiling::copy, CUGRT_PLAIN,
     "tensor<[R, 2*C], T>"},
    {"embedding", "f16", "%x: tensor<[1024, C], T>, %i: tensor<[R], i32>", "embedding(%x, %i)",
     Ceiling::copy, CUGRT_HALVES},
    {"gather", "f32", "%x: tensor<[1024, C], T>, %i: tensor<[R], i64>", "gather(%x, %i)",
     Ceiling::copy, CUGRT_PLAIN},
    {"rotary",
     "f16",
     "%x: tensor<[R, 32, C], T>, %i: tensor<[R], i64>",
     "rotary(%x, %i)",
     Ceiling::copy,
     {8, 32, 0},
     {kRows * 4, 128, 0},
     nullptr,
     "tensor<[R, 32, C], T>"},
    {"top_k", "f32", kOne, "top_k(%x) {k = 8}", Ceiling::read, CUGRT_PLAIN,
     "tensor<[R, 8], T>, tensor<[R, 8], i64>"},
    {"max_pool2d",
     "f32",
     "%x: tensor<[R, C, 32, 32], T>",
     "max_pool2d(%x) {kernel = [2, 2], strides = [2, 2]}",
     Ceiling::copy,
     {1, 2, 0},
     {256, 256, 0},
     nullptr,
     "tensor<[R, C, 16, 16], T>"},
    {"attention_decode",
     "f16",
     "%x: tensor<[R, 1, 32, 128], T>, %k: tensor<[R, C, 8, 128], T>, %v: tensor<[R, C, 8, 128], T>",
     "attention(%x, %k, %v)",
     Ceiling::read,
     {1, 33, 0},
     {32, 4096, 0},
     [](const int64_t *s) { return 4.0 * double(s[0]) * double(s[1]) * 32 * 128; },
     "tensor<[R, 1, 32, 128], T>"},
    {"matmul_gemv",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[K, C], T>",
     "matmul(%x, %w)",
     Ceiling::read,
     {1, 96, 64},
     {1, 16384, 16384},
     product},
    {"matmul_q4_0_gemv",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], q4_0>",
     "matmul_blocks(%x, %w)",
     Ceiling::read,
     {1, 24, 64},
     {1, 32768, 16384},
     product},
    {"matmul_q8_0_gemv",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], q8_0>",
     "matmul_blocks(%x, %w)",
     Ceiling::read,
     {1, 24, 64},
     {1, 16384, 16384},
     product},
    {"matmul",
     "f32",
     "%x: tensor<[R, K], T>, %w: tensor<[K, C], T>",
     "matmul(%x, %w)",
     Ceiling::mma,
     {64, 64, 64},
     {4096, 4096, 4096},
     product},
    {"matmul",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[K, C], T>",
     "matmul(%x, %w)",
     Ceiling::mma,
     {64, 64, 64},
     {4096, 4096, 4096},
     product},
    {"matmul",
     "bf16",
     "%x: tensor<[R, K], T>, %w: tensor<[K, C], T>",
     "matmul(%x, %w)",
     Ceiling::mma,
     {64, 64, 64},
     {4096, 4096, 4096},
     product},
    {"conv2d",
     "f16",
     "%x: tensor<[R, C, 32, 32], T>, %w: tensor<[K, C, 3, 3], T>",
     "conv2d(%x, %w) {padding = [1, 1]}",
     Ceiling::mma,
     {1, 4, 4},
     {256, 256, 64},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 9 * 32 * 32; },
     "tensor<[R, K, 32, 32], T>"},
};

struct Arguments {
  std::optional<std::string> json, only;
};

/// The parts of a list that commas separate.
std::vector<std::string_view> parts(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    parts.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

bool lists(std::string_view list, std::string_view name) {
  const std::vector<std::string_view> names = parts(list);
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status check_cases(std::string_view list) {
  for (const std::string_view name : parts(list))
    if (std::none_of(std::begin(kCases), std::end(kCases),
                     [&](const Case &c) { return name == c.name; }))
      return Status::error(Code::invalid_argument, "no case is called " + std::string(name));
  return {};
}

Result<Arguments> parse(int count, char **values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view value = values[i];
    std::optional<std::string> *target = value == "--json"   ? &arguments.json
                                         : value == "--only" ? &arguments.only
                                                             : nullptr;
    if (!target || ++i == count)
      return Status::error(Code::invalid_argument,
                           "takes --json FILE and --only CASES, not " + std::string(value));
    *target = values[i];
  }
  CUGRT_TRY(check_cases(arguments.only.value_or("")));
  return arguments;
}

/// Dtypes and sizes put in: T, R, C and K stand alone as words.
std::string filled(std::string text, const std::string &dtype, const int64_t *sizes) {
  const std::string with[] = {dtype, std::to_string(sizes[0]), std::to_string(sizes[1]),
                              std::to_string(sizes[2])};
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t which = std::string_view("TRCK").find(text[at]);
    const bool alone =
        (at == 0 || !is_word(text[at - 1])) && (at + 1 == text.size() || !is_word(text[at + 1]));
    if (which != std::string_view::npos && alone)
      text.replace(at, 1, with[which]);
  }
  return text;
}

struct Measured {
  double us = 0, bytes = 0, operations = 0;
  std::string shape;
};

uint64_t tensor_bytes(const cugrt_param_info &info) {
  // Bits of an element, by the values of cugrt_dtype; block formats have 18 and 34 bytes in 32.
  double bits = 32;
  switch (info.dtype) {
  case CUGRT_BOOL:
    bits = 8;
    break;
  case CUGRT_F16:
  case CUGRT_BF16:
    bits = 16;
    break;
  case CUGRT_I64:
    bits = 64;
    break;
  case CUGRT_Q4_0:
    bits = 18 * 8 / 32.0;
    break;
  case CUGRT_Q8_0:
    bits = 34 * 8 / 32.0;
    break;
  default:
    break;
  }
  double count = 1;
  for (uint32_t d = 0; d < info.rank; ++d)
    count *= double(info.dims[d]);
  return uint64_t(count * bits / 8);
}

std::string shape_of(const cugrt_param_info &info) {
  std::string text;
  for (uint32_t d = 0; d < info.rank; ++d)
    text += (d ? "x" : "") + std::to_string(info.dims[d]);
  return text;
}

/// An operand's memory: small positive floats, or ids below 1024.
Buffer filled_buffer(Runtime &runtime, const cugrt_param_info &info) {
  const uint64_t bytes = tensor_bytes(info);
  Buffer buffer(runtime, bytes);
  std::mt19937 random(1);
  std::string part(std::min<uint64_t>(bytes, uint64_t(1) << 24), '\x3c');
  if (info.dtype == CUGRT_I32 || info.dtype == CUGRT_I64) {
    const size_t each = info.dtype == CUGRT_I32 ? 4 : 8;
    for (size_t at = 0; at + each <= part.size(); at += each) {
      const int64_t id = int64_t(random() % 1024);
      std::memcpy(part.data() + at, &id, each);
    }
  }
  for (uint64_t at = 0; at < bytes; at += part.size())
    copy_to_device(
        runtime, buffer.address() + at,
        std::as_bytes(std::span(part).first(std::min<uint64_t>(part.size(), bytes - at))));
  return buffer;
}

Executable compile(Runtime &runtime, const Case &c, const int64_t *sizes) {
  const bool two = std::string_view(c.body).starts_with("top_k");
  const std::string text =
      "cugrt 1\n" + std::string(kCeilings) + "func @main(" + filled(c.params, c.dtype, sizes) +
      ") -> (" + filled(c.result, c.dtype, sizes) + ") {\n  " + (two ? "%r, %q" : "%r") + " = " +
      filled(c.body, c.dtype, sizes) + "\n  return " + (two ? "%r, %q" : "%r") + "\n}\n";
  return Executable(runtime, Module::parse(text, c.name));
}

Measured measure(Runtime &runtime, const Case &c, bool emulated) {
  const int64_t *sizes = emulated ? c.small : c.large;
  Executable executable = compile(runtime, c, sizes);
  Session session(executable, runtime);
  const Function function = executable.function("main");
  Measured m;
  std::vector<Buffer> buffers;
  std::vector<Value> arguments;
  for (size_t i = 0; i < function.param_count(); ++i) {
    const cugrt_param_info info = function.param(i);
    buffers.push_back(filled_buffer(runtime, info));
    arguments.push_back(buffers.back().tensor(static_cast<cugrt_dtype>(info.dtype),
                                              std::span(info.dims, info.rank)));
    m.shape += (i ? " " : "") + shape_of(info);
    m.bytes += double(tensor_bytes(info));
  }
  for (size_t i = 0; i < function.result_count(); ++i)
    m.bytes += double(tensor_bytes(function.result(i)));
  m.operations = c.operations ? c.operations(sizes) : 0;

  Stream stream(runtime);
  Event begin(runtime), end(runtime);
  session.run(function, arguments, stream.native()); // builds the graph
  Samples samples;
  const int runs = emulated ? 1 : kRunsPerRound;
  for (int round = 0; round < (emulated ? 1 : kRounds); ++round) {
    begin.record(stream.native());
    for (int i = 0; i < runs; ++i)
      session.run(function, arguments, stream.native());
    end.record(stream.native());
    end.synchronize();
    samples.add(end.milliseconds_since(begin) * 1e3 / runs);
  }
  m.us = *samples.median();
  return m;
}

double rate(const Case &c, const Measured &m) {
  return (c.ceiling == Ceiling::mma ? m.operations : m.bytes) / m.us;
}

bool is_ceiling(const Case &c) { return std::string_view(c.name).starts_with("ceiling_"); }

Status run(const Arguments &arguments) {
  RuntimeOptions options;
#ifdef CUGRT_BENCH_EMULATOR
  bool has_device = true;
  try {
    Runtime probe(options);
  } catch (const Error &) {
    has_device = false; // the emulated driver then, and it says so
  }
  if (!has_device) {
    options.driver = CUGRT_DRIVER_PATH;
    options.driver_path = CUGRT_BENCH_EMULATOR;
  }
#endif
  Runtime runtime(options);
  const bool emulated = runtime.info().emulated != 0;
  double ceilings[3] = {};
  std::vector<Row> rows;
  for (const Case &c : kCases) {
    if (arguments.only && !lists(*arguments.only, c.name) && !is_ceiling(c))
      continue;
    const Measured m = measure(runtime, c, emulated);
    double &ceiling = ceilings[size_t(c.ceiling)];
    if (is_ceiling(c))
      ceiling = rate(c, m);
    const std::string without = emulated       ? "no GPU: the emulated driver's times say nothing"
                                : ceiling <= 0 ? "the ceiling was not reached"
                                               : "";
    rows.push_back({{"bench", "kernels"},
                    {"case", c.name},
                    {"shape", m.shape},
                    {"dtype", c.dtype},
                    {"us", m.us},
                    {"bytes", m.bytes},
                    {"operations", m.operations > 0 ? Row(m.operations) : Row()},
                    {"ceiling", kCeilingNames[size_t(c.ceiling)]},
                    {"fraction_of_ceiling", without.empty() ? Row(rate(c, m) / ceiling) : Row()},
                    {"not_measured", without.empty() ? Row() : Row(without)},
                    {"driver", emulated ? "EMULATED" : runtime.info().device_name}});
  }
  std::vector<Row> shown = rows;
  for (Row &row : shown)
    row.erase("not_measured"); // the line above the table says it
  std::printf("%s\n", emulated ? "EMULATED: times say nothing of a GPU; sizes are small"
                               : "fractions are of a copy, a kernel that only reads, and a loop of "
                                 "mma instructions, measured here");
  return show(rows, arguments.json, &shown);
}

} // namespace
} // namespace cugrt::bench

int main(int count, char **values) {
  return cugrt::bench::bench_main("kernels", count, values, cugrt::bench::parse, cugrt::bench::run);
}
