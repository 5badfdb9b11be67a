// Three models on one device: a robot that reads the digits on boards it passes, and answers a
// question meanwhile.
//
//   robot DETECT.cugrt DIGITS_FOLDER MODEL.gguf [QUESTION [BUDGET_BYTES]]
//
// A frame goes through a detector, which finds the board, and a classifier, which reads it. The two
// never run at once, so they have a word and share one arena, and they go first on the device. A
// language model answers from a thread of its own, a step at a time, at the priority that streams
// have. All three stand in one group, which keeps to a budget of device memory and is printed. The
// frames are synthesised from the digits that the classifier was not trained with.
#include "npy.h"
#include "open_runtime.h"

#include <cugrt/cugrt.hpp>
#include <cugrt/llm.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>

namespace {

constexpr int kRows = 48, kColumns = 64, kBoard = 12, kDigit = 8, kFrames = 40, kClasses = 10;
constexpr int kInset = (kBoard - kDigit) / 2;
constexpr uint64_t kBudget = uint64_t(1) << 30;

struct Place {
  int y, x;
};
Place place_of(int frame) {
  return {3 * frame % (kRows - kBoard), 5 * frame % (kColumns - kBoard)};
}

/// A board over dark noise; a digit's pixels, from 0 to 1, are from 96 to 240.
std::vector<uint8_t> frame_of_clip(int frame, const float *digit) {
  std::vector<uint8_t> pixels(size_t(kRows) * kColumns);
  uint32_t seed = uint32_t(frame) * 2654435761u + 1;
  for (uint8_t &value : pixels) {
    seed = seed * 1664525u + 1013904223u;
    value = uint8_t(seed >> 27); // 0 to 31
  }
  const Place at = place_of(frame);
  for (int y = 0; y < kBoard; ++y)
    for (int x = 0; x < kBoard; ++x) {
      const bool inside = y >= kInset && y < kInset + kDigit && x >= kInset && x < kInset + kDigit;
      const float ink = inside ? digit[(y - kInset) * kDigit + x - kInset] : 0;
      pixels[size_t((at.y + y) * kColumns + at.x + x)] = uint8_t(96 + 144 * ink);
    }
  return pixels;
}

/// A model of one function in the group, and where its input and result lie on the device.
struct Eye {
  Eye(cugrt::Runtime &runtime, cugrt::Group &group, const std::string &path,
      const cugrt::Weights &weights, uint64_t input_bytes, uint64_t result_bytes)
      : executable(runtime, cugrt::Module::load(path)), function(executable.function("main")),
        session(executable, runtime, weights, options_in(group)), input(group, input_bytes),
        result(group, result_bytes) {}

  static cugrt_session_options options_in(cugrt::Group &group) {
    auto options = cugrt::detail::sized<cugrt_session_options>();
    options.group = group.get();
    options.exclusive = "eyes";
    options.priority = 1;
    options.wait = CUGRT_WAIT_BLOCK;
    return options;
  }
  void look(cugrt::Runtime &runtime, std::span<const std::byte> bytes, const cugrt_tensor &given,
            const cugrt_tensor &wanted, std::span<std::byte> found) {
    cugrt::copy_to_device(runtime, input.address(), bytes);
    const cugrt::Value arguments[] = {given};
    cugrt::Value results[] = {wanted};
    session.run_into(function, arguments, results);
    session.synchronize();
    cugrt::copy_to_host(runtime, found, result.address());
  }

  cugrt::Executable executable;
  cugrt::Function function;
  cugrt::Session session;
  cugrt::Buffer input, result;
};

/// Of kFrames frames: boards found where they are, and digits read right.
std::pair<int, int> watch(cugrt::Runtime &runtime, Eye &detector, Eye &classifier,
                          const tool::Array &images, const tool::Array &labels) {
  int found = 0, right = 0;
  for (int i = 0; i < kFrames; ++i) {
    const auto *digit = reinterpret_cast<const float *>(images.bytes.data()) + i * kDigit * kDigit;
    const std::vector<uint8_t> frame = frame_of_clip(i, digit);
    std::array<int64_t, 2> place{};
    detector.look(runtime, std::as_bytes(std::span(frame)),
                  detector.input.tensor(CUGRT_U8, {kRows, kColumns}),
                  detector.result.tensor(CUGRT_I64, {2}), std::as_writable_bytes(std::span(place)));
    const Place at = place_of(i);
    found += place[0] == at.y && place[1] == at.x;

    std::array<float, kDigit * kDigit> crop{};
    for (int y = 0; y < kDigit; ++y)
      for (int x = 0; x < kDigit; ++x) {
        const int64_t pixel = (place[0] + kInset + y) * kColumns + place[1] + kInset + x;
        crop[size_t(y * kDigit + x)] = std::max(0.0f, (float(frame[size_t(pixel)]) - 96) / 144);
      }
    std::array<float, kClasses> logits{};
    classifier.look(runtime, std::as_bytes(std::span(crop)),
                    classifier.input.tensor(CUGRT_F32, {1, 1, kDigit, kDigit}),
                    classifier.result.tensor(CUGRT_F32, {1, kClasses}),
                    std::as_writable_bytes(std::span(logits)));
    const auto read = std::max_element(logits.begin(), logits.end()) - logits.begin();
    int32_t label = 0;
    std::memcpy(&label, labels.bytes.data() + size_t(i) * sizeof label, sizeof label);
    right += read == label;
  }
  return {found, right};
}

void run(const std::string &detect, const std::string &digits, const std::string &model_path,
         const std::string &question, uint64_t budget) {
  const tool::Array images = tool::read_npy(digits + "/heldout_images.npy"),
                    labels = tool::read_npy(digits + "/heldout_labels.npy");
  if (images.dtype != CUGRT_F32 || labels.dtype != CUGRT_I32 || labels.dims[0] < kFrames ||
      images.dims != std::vector<int64_t>{labels.dims[0], 1, kDigit, kDigit})
    throw std::runtime_error("the held-out images and labels do not belong together");
  cugrt::Runtime runtime = tool::open_or_emulate({}, "robot");
  cugrt::Group group(runtime, budget);
  const std::vector<float> window(size_t(kBoard) * kBoard, 1.0f / (kBoard * kBoard));
  cugrt::Weights of_detector;
  of_detector.add("window", window.data(), CUGRT_F32, std::vector<int64_t>{1, 1, kBoard, kBoard});
  Eye detector(runtime, group, detect, of_detector, kRows * kColumns, 2 * sizeof(int64_t));
  Eye classifier(runtime, group, digits + "/digits.cugrt",
                 cugrt::Weights::load(digits + "/weights.safetensors"),
                 kDigit * kDigit * sizeof(float), kClasses * sizeof(float));

  const cugrt::LanguageModel model(model_path);
  cugrt::LanguageSessionOptions options;
  options.group = &group;
  options.context = 128;
  cugrt::LanguageSession speech(model, runtime, options);
  cugrt::GenerateOptions asked;
  asked.prompt = model.tokenize(question);
  asked.max_tokens = 24;
  std::string answer;
  std::exception_ptr failure;
  std::thread mouth([&] {
    try {
      speech.generate(asked, [&](int32_t, std::string_view text) {
        answer += text;
        return true;
      });
    } catch (...) {
      failure = std::current_exception();
    }
  });
  std::pair<int, int> seen;
  try {
    seen = watch(runtime, detector, classifier, images, labels);
  } catch (...) {
    mouth.join();
    throw;
  }
  mouth.join();
  if (failure)
    std::rethrow_exception(failure);
  std::printf("%d frames, %d boards found, %d digits read\n", kFrames, seen.first, seen.second);
  std::printf("%s%s\n", question.c_str(), answer.c_str());
  const cugrt_memory memory = group.memory();
  auto number = [](uint64_t bytes) { return static_cast<unsigned long long>(bytes); };
  std::printf("device memory: %llu bytes of a budget of %llu: arenas %llu, weights %llu, results "
              "%llu, buffers %llu\n",
              number(memory.device_bytes), number(memory.budget_bytes), number(memory.arena_bytes),
              number(memory.weight_bytes), number(memory.result_bytes),
              number(memory.buffer_bytes));
}

} // namespace

int main(int count, char **arguments) {
  if (count < 4 || count > 6) {
    std::fprintf(stderr,
                 "usage: robot DETECT.cugrt DIGITS_FOLDER MODEL.gguf [QUESTION [BUDGET_BYTES]]\n");
    return 2;
  }
  try {
    run(arguments[1], arguments[2], arguments[3],
        count > 4 ? arguments[4] : "What do you see? I see",
        count > 5 ? std::strtoull(arguments[5], nullptr, 10) : kBudget);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "robot: %s\n", error.what());
    return 1;
  }
}
