// The demo: classifies the held-out handwritten digits in batches of several sizes, twice.
//
// One function with a symbolic batch dimension serves every size. The first pass builds graph
// instances, or patches one from size to size; the second pass finds them again. Predictions are
// compared with the labels, logits with those of the framework that trained the net.
#include "npy.h"
#include "open_runtime.h"

#include <cugrt/cugrt.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace {

constexpr size_t kClasses = 10, kPixels = 64;
constexpr double kLogitTolerance = 1e-4;
constexpr int64_t kLargestBatch = 128; // the module's upper bound of n

// As requests come in: sizes recur, and no two neighbours are equal. The last one takes what is
// left.
constexpr int64_t kBatches[] = {1, 16, 64, 1, 16, 64, 128, 16, 1, 64, 128};

template <class T> const T *data(const tool::Array &array) {
  return reinterpret_cast<const T *>(array.bytes.data());
}

struct Dataset {
  tool::Array images, labels, logits;
  size_t count() const { return static_cast<size_t>(images.dims[0]); }
  explicit Dataset(const std::string &folder)
      : images(tool::read_npy(folder + "/heldout_images.npy")),
        labels(tool::read_npy(folder + "/heldout_labels.npy")),
        logits(tool::read_npy(folder + "/heldout_logits.npy")) {
    if (images.dtype != CUGRT_F32 || images.dims.size() != 4 || labels.dtype != CUGRT_I32 ||
        logits.dtype != CUGRT_F32 || labels.dims != std::vector<int64_t>{images.dims[0]} ||
        logits.dims != std::vector<int64_t>{images.dims[0], int64_t(kClasses)})
      throw std::runtime_error("the held-out images, labels and logits do not belong together");
  }
};

// All images once, batch by batch; every batch is copied to the same device buffer.
std::vector<float> classify(cugrt::Runtime &runtime, cugrt::Session &session,
                            cugrt::Function function, const cugrt::Buffer &staging,
                            const Dataset &data_set) {
  std::vector<float> logits(data_set.count() * kClasses);
  int64_t count = data_set.images.dims[0], done = 0;
  for (size_t i = 0; done < count; i = (i + 1) % std::size(kBatches)) {
    int64_t batch = std::min(kBatches[i], count - done);
    cugrt::copy_to_device(runtime, staging.address(),
                          std::span(data_set.images.bytes)
                              .subspan(size_t(done) * kPixels * sizeof(float),
                                       size_t(batch) * kPixels * sizeof(float)));
    auto results = session.run(function, {staging.tensor(CUGRT_F32, {batch, 1, 8, 8})});
    session.synchronize();
    cugrt::copy_to_host(runtime,
                        std::as_writable_bytes(std::span(logits).subspan(size_t(done) * kClasses,
                                                                         size_t(batch) * kClasses)),
                        results[0].as.tensor.address);
    done += batch;
  }
  return logits;
}

size_t predicted(const std::vector<float> &logits, size_t image) {
  auto begin = logits.begin() + static_cast<std::ptrdiff_t>(image * kClasses);
  return static_cast<size_t>(std::max_element(begin, begin + kClasses) - begin);
}

// One character cell pair a pixel, five shades.
void draw(const Dataset &data_set, const std::vector<float> &logits,
          const std::vector<size_t> &images) {
  static constexpr const char *kShades[] = {"  ", "░░", "▒▒", "▓▓", "██"};
  for (size_t row = 0; row < 8; ++row) {
    for (size_t image : images) {
      std::printf("  ");
      for (size_t column = 0; column < 8; ++column) {
        float pixel = data<float>(data_set.images)[image * kPixels + row * 8 + column];
        std::printf("%s", kShades[std::clamp(static_cast<int>(pixel * 4.99f), 0, 4)]);
      }
    }
    std::printf("\n");
  }
  for (size_t image : images)
    std::printf("  read as %zu, is %d  ", predicted(logits, image),
                data<int32_t>(data_set.labels)[image]);
  std::printf("\n\n");
}

double milliseconds_of(auto &&work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

int demo(const std::string &folder) {
  Dataset data_set(folder);
  cugrt::Runtime runtime = tool::open_or_emulate({}, "digits");
  cugrt_runtime_info info = runtime.info();
  std::fprintf(stderr, "device: %s%s\n", info.device_name, info.emulated ? ", EMULATED" : "");

  cugrt::Module module = cugrt::Module::load(folder + "/digits.cugrt");
  auto compile = cugrt::detail::sized<cugrt_compile_options>();
  compile.progress = [](void *, size_t done, size_t total, const char *kernel, double ms,
                        size_t cached) {
    std::fprintf(stderr, "[%zu/%zu] %s %.0f ms, %zu cached\n", done, total, kernel, ms, cached);
  };
  cugrt::Executable executable(runtime, module, &compile);
  cugrt::Session session(executable, runtime,
                         cugrt::Weights::load(folder + "/weights.safetensors"));
  cugrt::Function main_function = executable.function("main");
  cugrt::Buffer staging(runtime, kLargestBatch * kPixels * sizeof(float));

  std::vector<float> first, second;
  double first_ms = milliseconds_of(
      [&] { first = classify(runtime, session, main_function, staging, data_set); });
  double second_ms = milliseconds_of(
      [&] { second = classify(runtime, session, main_function, staging, data_set); });

  size_t correct = 0;
  double worst = 0;
  std::vector<size_t> shown = {0, 1, 2, 3}, wrong;
  for (size_t i = 0; i < data_set.count(); ++i) {
    bool right = predicted(second, i) == static_cast<size_t>(data<int32_t>(data_set.labels)[i]);
    correct += right;
    if (!right && wrong.size() < 4)
      wrong.push_back(i);
  }
  for (size_t i = 0; i < second.size(); ++i)
    worst = std::max(worst, double(std::fabs(second[i] - data<float>(data_set.logits)[i])));

  std::printf("The first held-out digits:\n\n");
  draw(data_set, second, shown);
  if (!wrong.empty()) {
    std::printf("Digits read wrongly:\n\n");
    draw(data_set, second, wrong);
  }
  std::printf("time%s: first pass %.0f ms with graphs built, second pass %.0f ms\n",
              info.emulated ? " (EMULATED, says nothing about a GPU)" : "", first_ms, second_ms);
  std::printf("logits: at most %.1e from the training framework's\n", worst);
  if (info.emulated)
    std::printf("EMULATED: computed on the CPU by the emulated driver\n");
  cugrt_counters c = session.counters();
  std::printf("demo: accuracy %.4f of %zu images; instances built %llu, hit %llu, patched %llu, "
              "eager %llu; "
              "nodes %llu, edges %llu; storage peak %llu, tensors %llu, bound %llu bytes\n",
              double(correct) / double(data_set.count()), data_set.count(),
              (unsigned long long)c.regions_built, (unsigned long long)c.regions_hit,
              (unsigned long long)c.regions_patched, (unsigned long long)c.regions_eager,
              (unsigned long long)c.largest_nodes, (unsigned long long)c.largest_edges,
              (unsigned long long)c.arena_bytes, (unsigned long long)c.arena_tensor_bytes,
              (unsigned long long)c.arena_lower_bound_bytes);
  if (first != second || worst > kLogitTolerance) {
    std::fprintf(stderr, "error: %s\n",
                 first != second ? "the two passes differ"
                                 : "logits are too far from the training framework's");
    return 1;
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: digits_demo FOLDER, the one with digits.cugrt\n");
    return 2;
  }
  return demo(argv[1]);
} catch (const std::exception &error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
