// Models of two weights for tests of groups: their results are whole numbers, computed here as
// well.
#pragma once

#include "emulator/driver/cuda_emulator.h"
#include "support/api_fixture.h"

#include <dlfcn.h>

namespace cugrt::test {

/// A function of the emulated driver that runs, which has been opened.
template <class Function> Function driver_call(const char *name) {
  static void *library = dlopen(CUGRT_TEST_EMULATOR, RTLD_NOW | RTLD_NOLOAD);
  auto found = reinterpret_cast<Function>(library ? dlsym(library, name) : nullptr);
  REQUIRE(found);
  return found;
}

/// Of the host's memory, by the driver's own count.
inline uint64_t pinned_bytes() {
  CUemuStatistics numbers{};
  numbers.struct_size = sizeof numbers;
  REQUIRE(driver_call<decltype(&cuEmuGetStatistics)>("cuEmuGetStatistics")(&numbers) ==
          CUDA_SUCCESS);
  return numbers.pinned_bytes;
}

/// y = ((x u) v) u) v of whole numbers, whose sums are exact; the products between lie in the
/// arena.
inline std::string chain_text(int64_t width, int64_t wide) {
  const std::string a = std::to_string(width), b = std::to_string(wide);
  return "cugrt 1\nfunc @main(%x: tensor<[n, " + a + "], f32>, %u: tensor<[" + a + ", " + b +
         "], f32>, %v: tensor<[" + b + ", " + a + "], f32>) -> (tensor<[n, " + a +
         "], f32>)\n    attributes {num_inputs = 1, lower_bounds = {n = 1}, upper_bounds = {n = " +
         "64}} {\n  %p = matmul(%x, %u)\n  %q = matmul(%p, %v)\n  %r = matmul(%q, %u)\n" +
         "  %s = matmul(%r, %v)\n  return %s\n}\n";
}

/// Of 0 and 1 in few places, so that four products stay small.
inline std::vector<float> sparse(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float &value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = (seed >> 24) % 8 == 0 ? 1 : 0;
  }
  return values;
}

struct Net {
  Net(int64_t width, int64_t wide, uint32_t seed)
      : width(width), wide(wide), u(sparse(size_t(width * wide), seed)),
        v(sparse(size_t(width * wide), seed + 1)),
        executable(emulated_runtime(), Module::parse(chain_text(width, wide))),
        main(executable.function("main")) {
    weights.add("u", u.data(), CUGRT_F32, std::vector<int64_t>{width, wide});
    weights.add("v", v.data(), CUGRT_F32, std::vector<int64_t>{wide, width});
  }

  Session open(Group *group, const char *word = nullptr) {
    auto options = detail::sized<cugrt_session_options>();
    options.group = group ? group->get() : nullptr;
    options.exclusive = word;
    return Session(executable, emulated_runtime(), weights, options);
  }

  static std::vector<float> times(const std::vector<float> &a, const std::vector<float> &b,
                                  int64_t n, int64_t k, int64_t m) {
    std::vector<float> c(size_t(n * m));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t p = 0; p < k; ++p)
        if (const float factor = a[size_t(i * k + p)]; factor != 0)
          for (int64_t j = 0; j < m; ++j)
            c[size_t(i * m + j)] += factor * b[size_t(p * m + j)];
    return c;
  }
  std::vector<float> expected(const std::vector<float> &x, int64_t n) const {
    std::vector<float> y = x;
    for (int i = 0; i < 2; ++i)
      y = times(times(y, u, n, width, wide), v, n, wide, width);
    return y;
  }
  uint64_t weight_bytes() const { return (u.size() + v.size()) * sizeof(float); }

  int64_t width, wide;
  std::vector<float> u, v;
  Executable executable;
  Function main;
  Weights weights;
};

/// What a thread or a test runs of a net: a session with memory of its own for input and result.
struct Runner {
  Runner(Net &net, Session session)
      : net(net), session(std::move(session)),
        input(emulated_runtime(), uint64_t(64 * net.width) * sizeof(float)),
        output(emulated_runtime(), uint64_t(64 * net.width) * sizeof(float)) {}

  /// No run is on its way.
  void fill(int64_t n, uint32_t seed) {
    rows = n;
    x = sparse(size_t(n * net.width), seed);
    copy_to_device(emulated_runtime(), input.address(), std::as_bytes(std::span(x)));
  }
  void launch(void *stream = nullptr) {
    std::vector<Value> results = {output.tensor(CUGRT_F32, {rows, net.width})};
    session.run_into(net.main, std::vector<Value>{input.tensor(CUGRT_F32, {rows, net.width})},
                     results, stream);
  }
  void queue(int64_t n, uint32_t seed, void *stream = nullptr) {
    fill(n, seed);
    launch(stream);
  }
  bool is_right() {
    session.synchronize();
    return download<float>(output.address(), size_t(rows * net.width)) == net.expected(x, rows);
  }
  bool run(int64_t n, uint32_t seed) {
    queue(n, seed);
    return is_right();
  }

  Net &net;
  Session session;
  Buffer input, output;
  std::vector<float> x;
  int64_t rows = 0;
};

struct Nets {
  Net a{32, 256, 1}, b{64, 96, 2}, c{48, 512, 3};
};
inline Nets &nets() {
  static Nets all;
  return all;
}

} // namespace cugrt::test
