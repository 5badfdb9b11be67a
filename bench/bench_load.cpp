// bench load [--json FILE] [--cache FOLDER]: from a plan to kernels that can be launched, on the
// emulated driver, or on the one that CUGRT_DRIVER names.
//
// One module uses the op library's families (the demo's layers among them) in two dtypes:
// kLeastKernels kernels and a few more, so that what is fused one day does not make it a smaller
// one. Each measurement is a process of its own, and what is timed in it begins with an open device
// and a plan: every kernel's key, its code from the cache's folder (read, checksum compared) or
// from NVRTC, the driver's loading of every module (the emulated one reads and translates the PTX),
// and the check of every launch against the loaded kernel. Starting the process, opening the
// driver, parsing and planning are not counted.
//
//   warm     all from the disk cache; the best of five processes
//   cold_1   an empty cache folder, one compilation at a time, in the process itself
//   cold_2   the same, two at a time, in two compiling processes
//            of both the best of three runs, taken in turn
//
//   kernels       distinct codes that are loaded as modules
//   compile_ms    of ms: until all code is there
//   cpu_ms        CPU time of the process meanwhile, without those that it started
//   bytes         of all code
//   nvrtc_opened  by the process or one that it started
//
// --measure CASE runs one case in this process, in the folder that --cache names, and prints its
// row.
#include "bench/support/bench_main.h"

#include "base/file.h"
#include "device/code/executable.h"
#include "device/code/loaded_code.h"
#include "ir/text/text.h"
#include "library/compile/compile.h"
#include "library/compile/module_plan.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <set>

namespace cugrt::bench {
namespace {

constexpr int kWarmRounds = 5, kColdRounds = 3;
constexpr size_t kLeastKernels = 40; // what a figure of this bench is for

/// `T` stands for the dtype.
constexpr const char *kFunction = R"(
func @T_layers(%x: tensor<[n, 64], T>, %y: tensor<[n, 64], T>, %image: tensor<[n, 1, 8, 8], T>,
               %conv1: tensor<[16, 1, 3, 3], T>, %conv2: tensor<[32, 16, 3, 3], T>,
               %square: tensor<[64, 64], T>, %bias: tensor<[64], T>,
               %scale: tensor<[64], T>, %table: tensor<[512, 64], T>, %ids: tensor<[n], i32>,
               %heads: tensor<[1, n, 4, 16], T>, %query: tensor<[n, 4, 16], T>)
    -> (tensor<[n, 64], T>, tensor<[n, 32, 4, 4], T>, tensor<[n, 32, 4, 4], T>, tensor<[n, 64], f64>,
        tensor<[n], i64>, tensor<[64, n], T>, tensor<[n, 1], T>, tensor<[n, 64], T>,
        tensor<[n, 64], T>, tensor<[n, 68], T>, tensor<[n, 128], T>, tensor<[n, 64], T>,
        tensor<[n, 4], T>, tensor<[n, 4], i64>, tensor<[n, 16], T>, tensor<[1, n, 4, 16], T>,
        tensor<[n, 4, 16], T>, tensor<[n, 64], T>)
    attributes {upper_bounds = {n = 64}} {
  %c1 = conv2d(%image, %conv1) {padding = [1, 1]}
  %a1 = relu(%c1)
  %p1 = max_pool2d(%a1) {kernel = [2, 2], strides = [2, 2]}
  %c2 = conv2d(%p1, %conv2) {padding = [1, 1]}
  %a2 = tanh(%c2)
  %p2 = avg_pool2d(%a2) {kernel = [1, 1], strides = [1, 1]}
  %e = embedding(%table, %ids)
  %sum = add(%x, %e)
  %norm = rms_norm(%sum, %scale)
  %gate = silu(%norm)
  %act = gelu(%norm)
  %both = mul(%gate, %act)
  %down = matmul(%both, %square, %bias)
  %rest = sub(%down, %y)
  %ln = layer_norm(%rest, %scale, %scale)
  %prob = softmax(%ln) {axis = -1}
  %top = argmax(%prob) {axis = -1}
  %turned = transpose(%prob) {axes = [1, 0]}
  %mean = reduce_mean(%prob) {axes = [1], keep_dims = true}
  %large = maximum(%prob, %scale)
  %soft = sigmoid(%large)
  %exact = cast(%soft) {dtype = f64}
  %running = cumsum(%prob) {axis = 1}
  %padded = pad(%prob) {before = [0, 2], after = [0, 2]}
  %joined = concat(%prob, %running) {axis = 1}
  %picked = gather(%table, %ids)
  %best, %places = top_k(%prob) {k = 4}
  %hot = one_hot(%ids) {depth = 16, dtype = T}
  %attended = attention(%heads, %heads, %heads) {causal = true}
  %placed = rotary(%query, %ids)
  %logs = log_softmax(%ln) {axis = 0}
  return %ln, %p2, %a2, %exact, %top, %turned, %mean, %soft, %running, %padded, %joined, %picked,
         %best, %places, %hot, %attended, %placed, %logs
}
)";

std::string module_text() {
  std::string text = "cugrt 1\n";
  for (const char *dtype : {"f32", "f16"}) {
    std::string function = kFunction;
    for (size_t at = 0; (at = function.find('T', at)) != std::string::npos;)
      function.replace(at, 1, dtype);
    text += function;
  }
  return text;
}

double now_ms() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

double process_cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
}

bool nvrtc_is_mapped() {
  FILE *maps = std::fopen("/proc/self/maps", "r");
  if (!maps)
    return true; // unknown is no proof
  bool found = false;
  char line[4096];
  while (!found && std::fgets(line, sizeof line, maps))
    found = std::strstr(line, "libnvrtc") != nullptr;
  std::fclose(maps);
  return found;
}

struct Arguments {
  std::optional<std::string> json, measure, cache;
};

/// What one process does; its row goes to stdout, for the process that started it.
Status measure(const std::string &name, const std::string &folder) {
  setenv("CUGRT_COMPILER_PROCESS", CUGRT_BENCH_WORKER, 0);
  setenv("CUGRT_DRIVER", CUGRT_BENCH_EMULATOR, 0);
  runtime::DeviceOptions options;
  CUGRT_ASSIGN(options.driver, runtime::driver_from_environment());
  options.cache_folder = folder;
  CUGRT_ASSIGN(std::shared_ptr<runtime::Device> device, runtime::Device::open(options));
  CUGRT_ASSIGN(ir::Module module, ir::parse_and_verify(module_text(), "bench"));
  CUGRT_ASSIGN(plan::Plan plan, runtime::plan_module(module, "bench", {}, nullptr));
  bool compiled = false;
  runtime::CompileOptions compile;
  compile.threads = name == "cold_2" ? 2 : 1;
  compile.progress = [&](const jit::CompileProgress &p) { compiled = compiled || !p.from_cache; };
  double start = now_ms(), start_cpu = process_cpu_ms();
  CUGRT_ASSIGN(std::shared_ptr<const runtime::Executable> executable,
               runtime::compile_executable(*device, std::move(plan), "bench", ".", compile));
  double ready = now_ms();
  CUGRT_ASSIGN(std::shared_ptr<runtime::LoadedCode> code, executable->load(device));
  double end = now_ms(), end_cpu = process_cpu_ms();
  std::set<std::string_view> distinct;
  size_t bytes = 0;
  for (const runtime::CodeImage &image : executable->images())
    bytes += distinct.insert(image.bytes).second ? image.bytes.size() : 0;
  if (distinct.size() < kLeastKernels)
    return Status::error(Code::internal, "the module has " + std::to_string(distinct.size()) +
                                             " kernels, " + std::to_string(kLeastKernels) +
                                             " are wanted; add ops to it");
  bool opened = compiled || runtime::compiler_of(*device).report().opened || nvrtc_is_mapped();
  Row row{{"bench", "load"},
          {"case", name},
          {"kernels", distinct.size()},
          {"ms", end - start},
          {"compile_ms", ready - start},
          {"cpu_ms", end_cpu - start_cpu},
          {"bytes", bytes},
          {"nvrtc_opened", opened},
          {"driver", device->emulated() ? "EMULATED" : device->context().architecture()}};
  std::printf("%s\n", row.dump().c_str());
  return {};
}

Result<Row> run_once(const std::string &self, const std::string &name, const std::string &folder) {
  std::string command = "'" + self + "' --measure " + name + " --cache '" + folder + "'";
  FILE *output = ::popen(command.c_str(), "r");
  if (!output)
    return Status::error(Code::io_error, "cannot start " + command);
  std::string text;
  char part[4096];
  while (size_t size = std::fread(part, 1, sizeof part, output))
    text.append(part, size);
  int status = ::pclose(output);
  Row row = Row::parse(text, nullptr, false);
  if (status != 0 || !row.is_object())
    return Status::error(Code::internal, command + " failed");
  return row;
}

bool faster(const Row &a, const Row &b) { return a["ms"].get<double>() < b["ms"].get<double>(); }

Result<std::vector<Row>> run_all(const std::string &self, const std::string &folder) {
  namespace fs = std::filesystem;
  std::vector<Row> cold[2], warm;
  for (int round = 0; round < kColdRounds; ++round)
    for (int workers = 1; workers <= 2; ++workers) {
      fs::remove_all(folder);
      CUGRT_ASSIGN(Row row, run_once(self, "cold_" + std::to_string(workers), folder));
      cold[workers - 1].push_back(std::move(row));
    }
  for (int round = 0; round < kWarmRounds; ++round) {
    CUGRT_ASSIGN(Row row, run_once(self, "warm", folder));
    warm.push_back(std::move(row));
  }
  std::vector<Row> rows;
  for (const std::vector<Row> *runs : {&warm, &cold[0], &cold[1]})
    rows.push_back(*std::min_element(runs->begin(), runs->end(), faster));
  return rows;
}

Result<Arguments> parse(int count, char **values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    std::string_view value = values[i];
    std::optional<std::string> *target = value == "--json"      ? &arguments.json
                                         : value == "--measure" ? &arguments.measure
                                         : value == "--cache"   ? &arguments.cache
                                                                : nullptr;
    if (!target)
      return Status::error(Code::invalid_argument, "unknown option " + std::string(value) +
                                                       "; known: --json, --cache, --measure");
    if (++i == count)
      return Status::error(Code::invalid_argument, std::string(value) + " needs a value");
    *target = values[i];
  }
  return arguments;
}

Status run(const Arguments &arguments) {
  if (arguments.measure)
    return measure(*arguments.measure, arguments.cache.value_or("off"));
  std::string self = std::filesystem::read_symlink("/proc/self/exe");
  TemporaryFolder folder;
  // A folder of our own inside the one that was named: only that one is emptied.
  std::string cache = arguments.cache.value_or(folder.path) + "/bench-load";
  auto rows = run_all(self, cache);
  std::error_code ignored;
  std::filesystem::remove_all(cache, ignored);
  if (!rows.ok())
    return rows.take_status();
  if ((*rows)[0]["driver"] == "EMULATED")
    std::printf("EMULATED: loading is that of the emulated driver\n");
  return show(*rows, arguments.json);
}

} // namespace
} // namespace cugrt::bench

int main(int count, char **values) {
  return cugrt::bench::bench_main("load", count, values, cugrt::bench::parse, cugrt::bench::run);
}
