// Speech in a recording, frame after frame: Silero's detector of voice activity, whose state stays
// on the device.
//
//   voice silero_vad_op18_ifless.onnx [RECORDING.wav]     (pip download silero-vad; 16 bits, one
//   channel, 16 kHz)
//
// Each frame is one launch of one graph: 512 samples (32 ms) behind the last 64 of the frame
// before, and the state that the run before wrote. Two buffers hold states; what one run writes is
// what the next one reads. A line is a second, a mark a frame: the higher, the surer. Without a
// recording two vowels are synthesised.
#include "open_runtime.h"

#include <cugrt/cugrt.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numbers>

namespace {

constexpr int kRate = 16000, kFrame = 512, kContext = 64, kState = 2 * 128;

/// The samples of a RIFF file, in [-1, 1).
std::vector<float> read_wav(const char *path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  auto number = [&](size_t at, size_t size) {
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i)
      value |= uint32_t(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    return value;
  };
  auto is = [&](size_t at, std::string_view tag) {
    return at + 8 <= bytes.size() && std::string_view(&bytes[at], 4) == tag;
  };
  if (!is(0, "RIFF"))
    throw std::runtime_error(std::string(path) + " is no WAV file");
  bool suits = false;
  for (size_t at = 12; at + 8 <= bytes.size();
       at += 8 + size_t(number(at + 4, 4)) + number(at + 4, 4) % 2) {
    if (is(at, "fmt ") && at + 24 <= bytes.size()) // PCM, channels, rate, bits
      suits = number(at + 8, 2) == 1 && number(at + 10, 2) == 1 && number(at + 12, 4) == kRate &&
              at + 24 <= bytes.size() && number(at + 22, 2) == 16;
    if (!is(at, "data") || !suits)
      continue;
    std::vector<float> samples;
    const size_t end = std::min<size_t>(bytes.size(), at + 8 + size_t(number(at + 4, 4)));
    for (size_t i = at + 8; i + 2 <= end; i += 2)
      samples.push_back(float(static_cast<int16_t>(number(i, 2))) / 32768);
    return samples;
  }
  throw std::runtime_error(std::string(path) + " is not 16-bit PCM of one channel at 16 kHz");
}

/// Three seconds with two vowels: pulses of a voice through the three resonances of a mouth.
std::vector<float> vowels() {
  struct Vowel {
    int begin, end;
    double formants[3];
  };
  std::vector<float> samples(3 * kRate);
  uint32_t seed = 1;
  for (float &sample : samples) { // a room is not silent
    seed = seed * 1664525u + 1013904223u;
    sample = 0.004f * (float(seed >> 8) / float(1 << 24) - 0.5f);
  }
  for (const Vowel &vowel :
       {Vowel{12800, 22400, {730, 1090, 2440}}, Vowel{28800, 38400, {270, 2290, 3010}}}) {
    std::vector<double> sound(size_t(vowel.end - vowel.begin));
    double phase = 0, most = 0;
    for (size_t i = 0; i < sound.size(); ++i) // from 125 Hz down to 110
      if ((phase += (125 - 15 * double(i) / double(sound.size())) / kRate) >= 1)
        phase -= 1, sound[i] = 1;
    for (double formant : vowel.formants) {
      const double decay = std::exp(-std::numbers::pi * 90 / kRate);
      double last = 0, before = 0;
      for (double &y : sound) {
        y += 2 * decay * std::cos(2 * std::numbers::pi * formant / kRate) * last -
             decay * decay * before;
        before = last, last = y;
      }
    }
    for (double y : sound)
      most = std::max(most, std::fabs(y));
    for (size_t i = 0; i < sound.size(); ++i)
      samples[size_t(vowel.begin) + i] += float(0.3 * sound[i] / most);
  }
  return samples;
}

void detect(const char *model, const std::vector<float> &samples) {
  cugrt::Runtime runtime = tool::open_or_emulate({}, "voice");
  const cugrt::Module module = cugrt::Module::load(
      model,
      {.dims = {"batch=1", "sequence=" + std::to_string(kContext + kFrame)}, .bind = {"sr=16000"}});
  cugrt::Executable executable(runtime, module);
  cugrt::Session session(executable, runtime, module.weights());
  const cugrt::Function function = executable.function("main");

  const cugrt::Buffer input(runtime, (kContext + kFrame) * sizeof(float)),
      sure(runtime, sizeof(float));
  cugrt::Buffer states[] = {{runtime, kState * sizeof(float)}, {runtime, kState * sizeof(float)}};
  cugrt::fill(runtime, states[0].address(), 0, states[0].bytes());
  auto state = [&](size_t i) { return states[i % 2].tensor(CUGRT_F32, {2, 1, 128}); };

  std::vector<float> heard(kContext + kFrame);
  for (size_t frame = 0; (frame + 1) * kFrame <= samples.size(); ++frame) {
    std::copy_n(heard.end() - kContext, kContext, heard.begin());
    std::copy_n(samples.begin() + ptrdiff_t(frame * kFrame), kFrame, heard.begin() + kContext);
    cugrt::copy_to_device(runtime, input.address(), std::as_bytes(std::span(heard)));
    const cugrt::Value arguments[] = {input.tensor(CUGRT_F32, {1, kContext + kFrame}),
                                      state(frame)};
    cugrt::Value results[] = {sure.tensor(CUGRT_F32, {1, 1}), state(frame + 1)};
    session.run_into(function, arguments, results);
    session.synchronize();
    float probability = 0;
    cugrt::copy_to_host(runtime, std::as_writable_bytes(std::span(&probability, 1)),
                        sure.address());
    static constexpr const char *kMarks[] = {" ", ".", ":", "|", "#"};
    if (frame % 31 == 0)
      std::printf("%s%5.1f s  ", frame ? "\n" : "", double(frame) * kFrame / kRate);
    std::printf("%s", kMarks[std::min(4, int(probability * 5))]);
  }
  const cugrt_counters counters = session.counters();
  std::printf("\n%zu frames; graphs built %llu, launches of one that was there %llu\n",
              samples.size() / kFrame, static_cast<unsigned long long>(counters.regions_built),
              static_cast<unsigned long long>(counters.regions_hit + counters.regions_patched));
}

} // namespace

int main(int count, char **arguments) {
  if (count < 2 || count > 3) {
    std::fprintf(stderr, "usage: voice MODEL.onnx [RECORDING.wav]\n");
    return 2;
  }
  try {
    detect(arguments[1], count == 3 ? read_wav(arguments[2]) : vowels());
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "voice: %s\n", error.what());
    return 1;
  }
}
