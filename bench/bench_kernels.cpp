// bench kernels [--json FILE] [--only CASES] [--full-edges] [--sources]: each kernel of the library
// by itself, through a session, against the ceilings of the device: what a copy, a kernel that only
// reads, and a loop of mma instructions reach in the same run. CASES are names with commas between;
// the ceilings are always measured.
//
//   us                   of one run: the median of rounds, each of several runs in a row, by events
//   bytes                of the operands and results, each counted once; of a table that ids are
//                        looked up in, what they name
//   operations           multiplications and additions of products, convolutions and attention;
//                        null for what is not measured by them
//   ceiling              what the fraction is of: copy, read or mma
//   fraction_of_ceiling  bytes (or operations) a second, as a part of the ceiling's
//   not_measured         why the fraction is null, else null
//
// On a GPU what is bound by memory takes 256 MB and more, so that caches do not hold it. Without
// one they are small and run on the emulated driver, where times say nothing of a GPU: fractions
// are null. With --sources nothing is measured: a line for each case says which of kernels/ it
// runs, by its plan for the large sizes; "generated" is a kernel that no file has.
#include "bench/kernel_cases.h"
#include "bench/support/bench_main.h"
#include "bench/support/samples.h"

#include <cugrt/cugrt.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

namespace cugrt::bench {
namespace {

constexpr int kRounds = 7, kRunsPerRound = 10;

struct Arguments {
  std::optional<std::string> json, only;
  bool sources = false, full_edges = false;
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
    if (std::none_of(kernel_cases().begin(), kernel_cases().end(),
                     [&](const KernelCase &c) { return name == c.name; }))
      return Status::error(Code::invalid_argument, "no case is called " + std::string(name));
  return {};
}

Result<Arguments> parse(int count, char **values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view value = values[i];
    if (value == "--sources" || value == "--full-edges") {
      (value == "--sources" ? arguments.sources : arguments.full_edges) = true;
      continue;
    }
    std::optional<std::string> *target = value == "--json"   ? &arguments.json
                                         : value == "--only" ? &arguments.only
                                                             : nullptr;
    if (!target || ++i == count)
      return Status::error(Code::invalid_argument,
                           "takes --json FILE, --only CASES, --full-edges and --sources, not " +
                               std::string(value));
    *target = values[i];
  }
  CUGRT_TRY(check_cases(arguments.only.value_or("")));
  return arguments;
}

struct Measured {
  double us = 0, bytes = 0, operations = 0;
  std::string shape;
};

uint64_t tensor_bytes(const cugrt_param_info &info) {
  struct Row {
    uint64_t elements, bytes;
  };
  static constexpr Row kRows[] = {
#define CUGRT_DTYPE(name, kind, elements, bytes) {elements, bytes},
#include "base/type/dtypes.def"
#undef CUGRT_DTYPE
  };
  const Row &block = kRows[info.dtype];
  uint64_t count = 1;
  for (uint32_t d = 0; d < info.rank; ++d)
    count *= uint64_t(info.dims[d]);
  return count / block.elements * block.bytes;
}

std::string shape_of(const cugrt_param_info &info) {
  std::string text;
  for (uint32_t d = 0; d < info.rank; ++d)
    text += (d ? "x" : "") + std::to_string(info.dims[d]);
  return text;
}

/// An operand's memory: small positive floats, or ids (kernel_cases.h).
Buffer filled_buffer(Runtime &runtime, const cugrt_param_info &info) {
  const uint64_t bytes = tensor_bytes(info);
  Buffer buffer(runtime, bytes);
  std::string part(std::min<uint64_t>(bytes, uint64_t(1) << 24), '\x3c');
  if (info.dtype == CUGRT_I32 || info.dtype == CUGRT_I64) {
    const size_t each = info.dtype == CUGRT_I32 ? 4 : 8;
    for (size_t at = 0; at + each <= part.size(); at += each) {
      const int64_t id = int64_t(at / each * 641 % uint64_t(kTableRows));
      std::memcpy(part.data() + at, &id, each);
    }
  }
  for (uint64_t at = 0; at < bytes; at += part.size())
    copy_to_device(
        runtime, buffer.address() + at,
        std::as_bytes(std::span(part).first(std::min<uint64_t>(part.size(), bytes - at))));
  return buffer;
}

Measured measure(Runtime &runtime, const KernelCase &c, bool emulated, bool full_edges) {
  const int64_t *sizes = emulated ? c.small : c.large;
  auto options = detail::sized<cugrt_compile_options>();
  options.full_edges = full_edges;
  Executable executable(runtime, Module::parse(module_text(c, sizes), c.name), &options);
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
    const double part = i == 0 && c.part_read ? c.part_read(sizes) : 1;
    m.bytes += part * double(tensor_bytes(info));
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

/// "softmax: softmax.cu" for each case.
Status show_sources(const Arguments &arguments) {
  constexpr std::string_view kPrefix = "builtin:", kEnd = ".cu\"";
  for (const KernelCase &c : kernel_cases()) {
    if (is_ceiling(c) || (arguments.only && !lists(*arguments.only, c.name)))
      continue;
    const std::string text = Module::parse(module_text(c, c.large), c.name)
                                 .run_passes({"FuseOps", "FuseKernels", "LegalizeOps"})
                                 .print();
    std::set<std::string> sources;
    for (size_t at = text.find(kPrefix); at != std::string::npos; at = text.find(kPrefix, at + 1)) {
      const std::string quoted = text.substr(at, text.find('"', at) + 1 - at);
      if (quoted.ends_with(kEnd)) // else what generated ones include
        sources.insert(quoted.substr(kPrefix.size(), quoted.size() - kPrefix.size() - 1));
    }
    std::string line = std::string(c.name) + ":";
    for (const std::string &source : sources)
      line += " " + source;
    std::printf("%s\n", (sources.empty() ? line + " generated" : line).c_str());
  }
  return {};
}

double rate(const KernelCase &c, const Measured &m) {
  const bool computes = c.ceiling == Ceiling::mma || c.ceiling == Ceiling::fma;
  return (computes ? m.operations : m.bytes) / m.us;
}

Status run(const Arguments &arguments) {
  if (arguments.sources)
    return show_sources(arguments);
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
  double ceilings[std::size(kCeilingNames)] = {};
  std::vector<Row> rows;
  for (const KernelCase &c : kernel_cases()) {
    if (arguments.only && !lists(*arguments.only, c.name) && !is_ceiling(c))
      continue;
    const Measured m = measure(runtime, c, emulated, arguments.full_edges);
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
  std::printf("%s\n", emulated
                          ? "EMULATED: times say nothing of a GPU; sizes are small"
                          : "fractions are of a copy, a kernel that only reads, and loops of mma "
                            "and of fma instructions, measured here");
  return show(rows, arguments.json, &shown);
}

} // namespace
} // namespace cugrt::bench

int main(int count, char **values) {
  return cugrt::bench::bench_main("kernels", count, values, cugrt::bench::parse, cugrt::bench::run);
}
