// A camera's frames through one graph each: bytes to grey floats, a window that looks for the
// brightest place, an edge drawn around it. The clip is synthesised: a bright square that wanders
// over noise, so that what is found can be compared with where it is.
//
//   camera camera.cugrt [LAST_FRAME.ppm]
#include "open_runtime.h"

#include <cugrt/cugrt.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace {

constexpr int kRows = 96, kColumns = 128, kSide = 16, kFrames = 40;

struct Place {
  int y, x;
};

Place place_of(int frame) { return {8 + 2 * frame % 64, 8 + 3 * frame % 96}; }

/// RGB, row after row.
std::vector<uint8_t> frame_of_clip(int frame) {
  std::vector<uint8_t> pixels(size_t(kRows) * kColumns * 3);
  uint32_t seed = uint32_t(frame) * 2654435761u + 1;
  for (uint8_t &value : pixels) {
    seed = seed * 1664525u + 1013904223u;
    value = uint8_t(seed >> 26); // 0 to 63
  }
  const Place at = place_of(frame);
  for (int y = at.y; y < at.y + kSide; ++y)
    for (int x = at.x; x < at.x + kSide; ++x)
      for (int c = 0; c < 3; ++c)
        pixels[size_t(y * kColumns + x) * 3 + size_t(c)] = 200;
  return pixels;
}

void write_picture(const char *path, const std::vector<uint8_t> &pixels) {
  std::ofstream file(path, std::ios::binary);
  file << "P6\n" << kColumns << " " << kRows << "\n255\n";
  file.write(reinterpret_cast<const char *>(pixels.data()), std::streamsize(pixels.size()));
  if (!file.flush())
    throw std::runtime_error(std::string("cannot write ") + path);
}

void watch(const char *path, const char *picture) {
  cugrt::Runtime runtime = tool::open_or_emulate({}, "camera");
  cugrt::Executable executable(runtime, cugrt::Module::load(path));
  const std::vector<float> window(size_t(kSide) * kSide, 1.0f / (kSide * kSide));
  cugrt::Weights weights;
  weights.add("window", window.data(), CUGRT_F32, std::vector<int64_t>{1, 1, kSide, kSide});
  cugrt::Session session(executable, runtime, weights);
  const cugrt::Function function = executable.function("main");
  const size_t bytes = size_t(kRows) * kColumns * 3;
  const cugrt::Buffer frame(runtime, bytes), shown(runtime, bytes), y(runtime, sizeof(int64_t)),
      x(runtime, sizeof(int64_t));
  std::vector<uint8_t> pixels;
  int off = 0, red = 0;
  for (int i = 0; i < kFrames; ++i) {
    pixels = frame_of_clip(i);
    cugrt::copy_to_device(runtime, frame.address(), std::as_bytes(std::span(pixels)));
    const cugrt::Value arguments[] = {frame.tensor(CUGRT_U8, {kRows, kColumns, 3})};
    cugrt::Value results[] = {shown.tensor(CUGRT_U8, {kRows, kColumns, 3}), y.tensor(CUGRT_I64, {}),
                              x.tensor(CUGRT_I64, {})};
    session.run_into(function, arguments, results);
    session.synchronize();
    int64_t found[2];
    cugrt::copy_to_host(runtime, std::as_writable_bytes(std::span(&found[0], 1)), y.address());
    cugrt::copy_to_host(runtime, std::as_writable_bytes(std::span(&found[1], 1)), x.address());
    cugrt::copy_to_host(runtime, std::as_writable_bytes(std::span(pixels)), shown.address());
    const Place at = place_of(i);
    off = std::max({off, std::abs(int(found[0]) - at.y), std::abs(int(found[1]) - at.x)});
    red = 0;
    for (size_t p = 0; p < pixels.size(); p += 3)
      red += pixels[p] == 255 && pixels[p + 1] == 0 && pixels[p + 2] == 0;
  }
  const cugrt_counters counters = session.counters();
  std::printf("%d frames, found to %d pixels, %d pixels drawn in the last; graphs built %llu, "
              "reused %llu\n",
              kFrames, off, red, static_cast<unsigned long long>(counters.regions_built),
              static_cast<unsigned long long>(counters.regions_hit + counters.regions_patched));
  if (picture)
    write_picture(picture, pixels);
}

} // namespace

int main(int count, char **arguments) {
  if (count < 2 || count > 3) {
    std::fprintf(stderr, "usage: camera camera.cugrt [LAST_FRAME.ppm]\n");
    return 2;
  }
  try {
    watch(arguments[1], count == 3 ? arguments[2] : nullptr);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "camera: %s\n", error.what());
    return 1;
  }
}
