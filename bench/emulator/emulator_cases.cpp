// Data, launch dimensions and checks of the benched kernels.
#include "bench/emulator/emulator_cases.h"

#include "emulator/device/undefined_bytes.h"
#include "emulator/exec/checks/accesses.h"
#include "kernels/builtin.h"

#include <cmath>
#include <cstring>

namespace cugrt::bench {
namespace {

using emulator::AddressSpace;
using emulator::DeviceProfile;

/// Numbers between -1 and 1, the same on every machine.
float made_up(uint64_t i) {
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z ^= z >> 27;
  return float(z >> 40) / float(1 << 23) - 1.0f;
}

/// A normal number of f16 of eleven significant bits, below 1 in magnitude.
uint16_t half_bits(float value) {
  int exponent;
  float fraction = std::frexp(value, &exponent); // [1/2, 1)
  if (exponent < -13)
    return 0;
  auto bits = uint16_t(uint32_t(std::abs(fraction) * 2048) & 1023);
  return uint16_t(bits | (exponent + 14) << 10 | (value < 0) << 15);
}
double half_value(uint16_t bits) {
  double magnitude = bits >> 10 & 31 ? std::ldexp(1024 + (bits & 1023), (bits >> 10 & 31) - 25)
                                     : std::ldexp(bits & 1023, -24);
  return bits >> 15 ? -magnitude : magnitude;
}

/// Builds one case: buffers and arguments in the order of the kernel's parameters.
class Builder {
public:
  Builder(const DeviceProfile &profile, AddressSpace &memory)
      : profile_(profile), memory_(memory) {}

  Status compile(jit::Compiler &compiler, const char *source, std::vector<std::string> options) {
    jit::CompileRequest request;
    request.name = source;
    request.source = std::string(kernels::builtin_source(source).value());
    request.options = std::move(options);
    request.kind = jit::OutputKind::ptx;
    request.architecture = "compute_90";
    CUGRT_ASSIGN(jit::CompileResult result, compiler.compile(request));
    ptx_ = std::move(result.bytes);
    return {};
  }

  template <class T, class F> Result<T *> buffer(size_t count, F value) {
    CUGRT_ASSIGN(uint64_t address, memory_.allocate(count * sizeof(T)));
    auto *data = reinterpret_cast<T *>(memory_.host(address));
    for (size_t i = 0; i < count; ++i)
      data[i] = value(i);
    if (auto *undefined = memory_.undefined())
      undefined->mark_defined(address, count * sizeof(T));
    argument(address);
    return data;
  }
  Result<float *> floats(size_t count, uint64_t seed) {
    return buffer<float>(count, [seed](size_t i) { return made_up(seed << 32 | i); });
  }
  Result<float *> zeros(size_t count) {
    return buffer<float>(count, [](size_t) { return 0.0f; });
  }
  template <class T> void argument(T value) {
    params_.resize((params_.size() + sizeof value - 1) / sizeof value * sizeof value);
    auto *bytes = reinterpret_cast<const std::byte *>(&value);
    params_.insert(params_.end(), bytes, bytes + sizeof value);
  }
  void arguments(std::initializer_list<int64_t> values) {
    for (int64_t value : values)
      argument(value);
  }

  Result<EmulatorCase> finish(std::string name, const char *entry, uint32_t blocks,
                              std::array<uint32_t, 3> threads, double multiply_adds,
                              std::function<std::string()> check) {
    EmulatorCase result;
    CUGRT_ASSIGN(result.program, emulator::Program::load(ptx_, profile_, memory_));
    result.kernel = result.program->find_kernel(entry);
    if (!result.kernel || result.kernel->param_bytes != params_.size())
      return Status::error(Code::internal, name + ": the kernel's parameters are others");
    result.name = std::move(name);
    result.ptx = std::move(ptx_);
    result.params = std::move(params_);
    result.config.grid = {blocks, 1, 1};
    result.config.block = threads;
    result.multiply_adds = multiply_adds;
    result.check = std::move(check);
    return result;
  }

  std::string ptx_;

private:
  const DeviceProfile &profile_;
  AddressSpace &memory_;
  std::vector<std::byte> params_;
};

/// Compares `count` results, spread over [0, total), with `want`.
template <class Want, class Got>
std::string compare(size_t total, double tolerance, Want want, Got got) {
  constexpr size_t kSamples = 97;
  for (size_t s = 0; s < kSamples; ++s) {
    size_t i = (s * 7919 + 13) % total;
    double expected = want(i), found = got(i);
    if (!(std::abs(found - expected) <= tolerance * std::max(1.0, std::abs(expected))))
      return "element " + std::to_string(i) + " is " + std::to_string(found) + " instead of " +
             std::to_string(expected);
  }
  return {};
}

std::string assume(std::string text) { return "-DASSUME=" + std::move(text); }

Result<EmulatorCase> gemv_f16(jit::Compiler &compiler, Builder b) {
  constexpr int64_t n = 1024, k = 1024;
  CUGRT_TRY(b.compile(compiler, "matmul.cu", {"-DDTYPE_F16", assume("n==1024&&k==1024")}));
  auto half = [](uint64_t seed) {
    return [seed](size_t i) { return half_bits(made_up(seed << 32 | i) / 8); };
  };
  CUGRT_ASSIGN(uint16_t * a, b.buffer<uint16_t>(k, half(1)));
  CUGRT_ASSIGN(uint16_t * c, b.buffer<uint16_t>(size_t(n * k), half(2)));
  CUGRT_ASSIGN(uint16_t * y, b.buffer<uint16_t>(n, [](size_t) { return uint16_t(0); }));
  b.arguments({1, n, k, 1, 1, 0, 0, 0, 0});
  auto check = [=] {
    return compare(
        n, 2e-3,
        [=](size_t i) {
          double sum = 0;
          for (int64_t e = 0; e < k; ++e)
            sum += half_value(a[e]) * half_value(c[size_t(e * n) + i]);
          return sum;
        },
        [=](size_t i) { return half_value(y[i]); });
  };
  return b.finish("gemv_f16", "matmul_gemv", n / 32, {32, 8, 1}, double(n) * k, check);
}

Result<EmulatorCase> sgemm(jit::Compiler &compiler, Builder b, std::string name, const char *entry,
                           int64_t tile_rows, int64_t tile_columns, std::array<uint32_t, 3> block,
                           int64_t m, int64_t k) {
  constexpr int64_t n = 576;
  CUGRT_TRY(b.compile(compiler, "matmul.cu", {assume("n==576&&k==" + std::to_string(k))}));
  CUGRT_ASSIGN(float *a, b.floats(size_t(m * k), 3));
  CUGRT_ASSIGN(float *c, b.floats(size_t(k * n), 4));
  CUGRT_ASSIGN(float *y, b.zeros(size_t(m * n)));
  b.arguments({m, n, k, 1, 1, 0, 0, 0, 0});
  auto check = [=] {
    return compare(
        size_t(m * n), 1e-4,
        [=](size_t i) {
          double sum = 0;
          for (size_t e = 0; e < size_t(k); ++e)
            sum += double(a[i / n * size_t(k) + e]) * c[e * n + i % n];
          return sum;
        },
        [=](size_t i) { return y[i]; });
  };
  return b.finish(std::move(name), entry, uint32_t(m / tile_rows * (n / tile_columns)), block,
                  double(m) * n * k, check);
}

Result<EmulatorCase> rmsnorm(jit::Compiler &compiler, Builder b) {
  constexpr int64_t rows = 48, columns = 4096;
  CUGRT_TRY(b.compile(compiler, "norm.cu", {"-DIS_RMS", "-DHAS_SCALE", assume("columns==4096")}));
  CUGRT_ASSIGN(float *x, b.floats(rows * columns, 5));
  CUGRT_ASSIGN(float *scale, b.floats(columns, 6));
  CUGRT_ASSIGN(float *y, b.zeros(rows * columns));
  b.arguments({rows, columns});
  b.argument(1e-5f);
  auto check = [=] {
    return compare(
        rows * columns, 1e-5,
        [=](size_t i) {
          const float *row = x + i / columns * columns;
          double sum = 0;
          for (int64_t e = 0; e < columns; ++e)
            sum += double(row[e]) * row[e];
          return x[i] / std::sqrt(sum / columns + 1e-5) * scale[i % columns];
        },
        [=](size_t i) { return y[i]; });
  };
  return b.finish("rmsnorm", "rms_norm", rows, {256, 1, 1}, 0, check);
}

Result<EmulatorCase> softmax(jit::Compiler &compiler, Builder b) {
  constexpr int64_t rows = 64, columns = 4096;
  CUGRT_TRY(b.compile(compiler, "softmax.cu", {assume("axis==4096&&inner==1")}));
  CUGRT_ASSIGN(float *x, b.floats(rows * columns, 7));
  CUGRT_ASSIGN(float *y, b.zeros(rows * columns));
  b.arguments({rows, columns, 1});
  auto check = [=] {
    return compare(
        rows * columns, 1e-5,
        [=](size_t i) {
          double sum = 0;
          for (size_t e = 0; e < columns; ++e)
            sum += std::exp(double(x[i / columns * columns + e]));
          return std::exp(double(x[i])) / sum * columns;
        },
        [=](size_t i) { return double(y[i]) * columns; });
  };
  return b.finish("softmax", "softmax_rows", rows, {256, 1, 1}, 0, check);
}

Result<EmulatorCase> attention(jit::Compiler &compiler, Builder b) {
  constexpr size_t heads = 32, kv_heads = 2, width = 128, length = 512;
  CUGRT_TRY(b.compile(compiler, "attention.cu",
                      {"-DMAX_WIDTH=128", assume("heads==32&&kv_heads==2&&width==128")}));
  CUGRT_ASSIGN(float *q, b.floats(heads * width, 8));
  CUGRT_ASSIGN(float *keys, b.floats(length * kv_heads * width, 9));
  CUGRT_ASSIGN(float *values, b.floats(length * kv_heads * width, 10));
  CUGRT_ASSIGN(float *y, b.zeros(heads * width));
  b.arguments({1, 1, heads, kv_heads, width, length});
  b.argument(0.25f);
  auto check = [=] {
    return compare(
        heads * width, 1e-4,
        [=](size_t i) {
          size_t head = i / width, group = head / (heads / kv_heads);
          double sum = 0, weighted = 0;
          for (size_t p = 0; p < length; ++p) {
            size_t row = (p * kv_heads + group) * width;
            double score = 0;
            for (size_t e = 0; e < width; ++e)
              score += double(q[head * width + e]) * keys[row + e];
            double weight = std::exp(score * 0.25);
            sum += weight;
            weighted += weight * values[row + i % width];
          }
          return weighted / sum;
        },
        [=](size_t i) { return y[i]; });
  };
  return b.finish("attention", "attention", heads, {256, 1, 1}, 2.0 * heads * length * width,
                  check);
}

} // namespace

Status EmulatorCase::launch(uint32_t max_threads, emulator::ExecutionCounters *counters) const {
  emulator::LaunchConfig launch = config;
  launch.params = params;
  launch.max_threads = max_threads;
  launch.counters = counters;
  if (auto fault = program->launch(*kernel, launch))
    return Status::error(Code::internal, name + ": " + fault->message);
  return {};
}

Status EmulatorCase::launch_checked(const Checks &checks) const {
  emulator::LaunchConfig launch = config;
  emulator::LaunchAccesses accesses;
  std::string found;
  emulator::RaceReport race = [&](const std::string &text) { found = text; };
  emulator::UninitializedReport undefined = [&](const std::string &, const std::string &text) {
    found = text;
  };
  launch.params = params;
  launch.max_threads = 1;
  launch.accesses = checks.record ? &accesses : nullptr;
  launch.report_race = checks.races ? &race : nullptr;
  launch.report_uninitialized = checks.undefined ? &undefined : nullptr;
  if (auto fault = program->launch(*kernel, launch))
    return Status::error(Code::internal, fault->message);
  return found.empty() ? Status() : Status::error(Code::internal, name + ": " + found);
}

Result<std::vector<EmulatorCase>>
emulator_cases(jit::Compiler &compiler, const DeviceProfile &profile, AddressSpace &memory) {
  std::vector<EmulatorCase> cases;
  auto builder = [&] { return Builder(profile, memory); };
  auto add = [&](Result<EmulatorCase> result) -> Status {
    CUGRT_ASSIGN(EmulatorCase made, std::move(result));
    cases.push_back(std::move(made));
    return {};
  };
  CUGRT_TRY(add(gemv_f16(compiler, builder())));
  CUGRT_TRY(
      add(sgemm(compiler, builder(), "sgemm_tiled", "matmul_tiled", 8, 32, {32, 8, 1}, 64, 256)));
  CUGRT_TRY(add(sgemm(compiler, builder(), "sgemm_register", "matmul_register", 64, 64, {16, 16, 1},
                      512, 64)));
  CUGRT_TRY(add(rmsnorm(compiler, builder())));
  CUGRT_TRY(add(softmax(compiler, builder())));
  CUGRT_TRY(add(attention(compiler, builder())));
  return cases;
}

Result<EmulatorCase> calibration_case(const DeviceProfile &profile, AddressSpace &memory) {
  Builder b(profile, memory);
  b.ptx_ = ".version 8.0\n.target sm_80\n.address_size 64\n"
           ".visible .entry calibrate(.param .u32 count) {\n"
           ".reg .pred %p, %q;\n.reg .b32 %i;\n.reg .f32 %a, %b, %c;\n"
           "ld.param.u32 %i, [count];\nmov.f32 %a, 0f3F800000;\nmov.f32 %b, 0f3F000000;\n"
           "mov.f32 %c, 0f00000000;\nloop:\n";
  for (int i = 0; i < 8; ++i)
    b.ptx_ += "fma.rn.f32 %c, %c, %b, %a;\nadd.f32 %a, %a, %b;\nsetp.lt.f32 %q, %a, %c;\n";
  b.ptx_ += "sub.s32 %i, %i, 1;\nsetp.ne.s32 %p, %i, 0;\n@%p bra loop;\nret;\n}\n";
  b.argument(uint32_t(4'000));
  return b.finish("calibration", "calibrate", 8, {64, 1, 1}, 0, [] { return std::string(); });
}

} // namespace cugrt::bench
