// Files made by grammar (grammar.h): the first byte says of which format, each further one is a
// choice. Every file is read as far as its reader goes, and may cost what its size allows: CPU time
// and bytes of memory beyond that are findings like a crash.
//
// Built with GRAMMAR_MAIN the same is a program that makes COUNT files of each format, or of one,
// from a seed, and tells what the costliest takes:  grammar_files COUNT [SEED [FORMAT [FIRST]]]
#include "base/json.h"
#include "device/code/weights.h"
#include "emulator/decode/program.h"
#include "fronts/llm/architectures/decoder.h"
#include "fronts/llm/chat/chat_template.h"
#include "fronts/onnx/import.h"
#include "grammar_pack.h"
#include "ir/text/text.h"
#include "library/compile/module_plan.h"
#include "npy.h"
#include "pack_check.h"
#include "plan/bytes/serialize.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <malloc.h>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

using namespace cugrt;
using test::grammar::Choices;

namespace {

/// Of CPU, for a file of up to a hundred kilobytes; sanitizers take their part of it.
constexpr double kMostSeconds = 5;
/// Of a plan that is read again: what that takes goes with the plan's size, not the module's.
constexpr size_t kMostPlanBytes = size_t(4) << 20;

size_t taken = 0; // files that were not refused

[[noreturn]] void found(const char *format, const char *what) {
  std::fprintf(stderr, "%s: %s\n", format, what);
  std::abort();
}

void module_text(Choices &choices) {
  const std::string text = test::grammar::ModuleText(choices).make();
  const auto module = ir::parse_and_verify(text, "input");
  if (!module.ok())
    return;
  const std::string printed = ir::print(*module);
  if (!ir::parse_and_verify(printed, "printed").ok())
    found("module", "what was printed is no module");
  ++taken;
  const auto plan = runtime::plan_module(*module, "input", {}, nullptr);
  if (!plan.ok())
    return;
  const std::string bytes = plan::to_bytes(*plan);
  if (bytes.size() > kMostPlanBytes)
    return;
  if (!plan::from_bytes(bytes).ok())
    found("module", "a plan's bytes are not read");
  std::string changed = bytes; // a plan that is not whole
  for (size_t i = 1 + choices.below(4); i > 0 && !changed.empty(); --i)
    changed[(choices.below(256) << 8 | choices.below(256)) % changed.size()] =
        static_cast<char>(choices.below(256));
  (void)plan::from_bytes(changed).ok();
}

void onnx_file(Choices &choices) {
  const std::string file = test::grammar::OnnxFile(choices).make();
  onnx::Options options;
  if (choices.below(4) != 0) // inputs that decide what the module is
    options.bind = {{"k", "2,2"}, {"m", "3"}, {"yes", "true"}};
  const auto imported = onnx::import_bytes(file, "", options);
  taken += imported.ok();
  if (imported.ok() && !ir::parse_and_verify(ir::print(imported->module), "input").ok() &&
      ir::check_text_limits(imported->module).ok())
    found("onnx", "what was imported is no module");
}

void gguf_file(Choices &choices) {
  const std::string bytes = test::grammar::gguf_file(choices);
  const auto file = gguf::File::parse(bytes, "input");
  if (!file.ok())
    return;
  if (const auto decoder = llm::read_decoder(*file); decoder.ok()) {
    llm::DecoderOptions options;
    options.context = 1 << 20;
    (void)llm::build_decoder(*file, *decoder, options).ok();
  }
  const auto tokenizer = llm::Tokenizer::load(*file);
  if (!tokenizer.ok())
    return;
  ++taken;
  const llm::TextPart parts[] = {{std::string(20000, 'a') + std::string(20000, '<'), true}};
  (void)(*tokenizer)->encode(parts).ok();
  llm::Conversation conversation;
  conversation.messages = llm::jinja::make_list({llm::message_of("user", "Hello")});
  if (const auto chat = llm::ChatTemplate::read(*file, **tokenizer, false); chat.ok())
    (void)chat->apply(conversation).ok();
}

void safetensors_file(Choices &choices) {
  auto file = std::make_shared<const std::string>(test::grammar::safetensors_file(choices));
  taken += runtime::read_safetensors(SharedBytes(std::move(file)), "input").ok();
}

void json_text(Choices &choices) {
  const std::string text = test::grammar::json_text(choices);
  JsonReader json(text, 8);
  taken += json.skip().ok() && json.finish().ok();
}

void ptx_text(Choices &choices) {
  using namespace emulator;
  const std::string text = test::grammar::ptx_text(choices);
  auto memory = AddressSpace::create(4u << 20);
  if (memory.ok())
    taken += Program::load(text, *find_profile("sm_120"), **memory).ok();
}

constexpr size_t kPackKernels = 2;

/// Plans of kPackKernels kernels, each launched, as packs hold them.
std::vector<std::string> make_pack_plans() {
  std::vector<std::string> plans;
  for (const char *dim : {"n", "n, 4", "n, n"}) {
    std::string kernels, launches;
    for (size_t k = 0; k < kPackKernels; ++k) {
      const std::string name = "@k" + std::to_string(k);
      kernels +=
          "kernel " + name + " {\n  source \"k.cu\"\n  entry \"k\"\n" +
          "  params (x: in f32, y: out f32)\n  launch { grid (1, 1, 1) block (32, 1, 1) }\n}\n";
      launches += "  launch " + name + "(%x, %y)\n";
    }
    const std::string type = std::string("tensor<[") + dim + "], f32>";
    const std::string text = "cugrt 1\n" + kernels + "func @main(%x: " + type + ", %y: out " +
                             type + ") attributes {upper_bounds = {n = 64}} {\n" + launches +
                             "  return\n}\n";
    const auto module = ir::parse_and_verify(text, "input");
    if (!module.ok())
      found("pack", "the module of its plans is none");
    const auto plan = runtime::plan_module(*module, "input", {}, nullptr);
    if (!plan.ok())
      found("pack", "there is no plan");
    plans.push_back(plan::to_bytes(*plan));
  }
  return plans;
}

void pack_file(Choices &choices) {
  static const std::vector<std::string> plans = make_pack_plans();
  taken += test::check_pack(test::grammar::pack_file(choices, plans, kPackKernels));
}

/// The reader takes a path, and its errors are exceptions of one type.
void npy_file(Choices &choices) {
  const std::string bytes = test::grammar::npy_file(choices);
  static const int file = memfd_create("npy", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 ||
      pwrite(file, bytes.data(), bytes.size(), 0) != ssize_t(bytes.size()))
    found("npy", "no file in memory");
  try {
    const tool::Array array = tool::read_npy(path);
    ++taken;
    if (array.bytes.size() > bytes.size())
      found("npy", "more was read than the file holds");
  } catch (const std::runtime_error &) {
  }
}

struct Format {
  const char *name;
  void (*make)(Choices &);
};
constexpr Format kFormats[] = {{"module", module_text}, {"onnx", onnx_file},
                               {"gguf", gguf_file},     {"safetensors", safetensors_file},
                               {"json", json_text},     {"ptx", ptx_text},
                               {"pack", pack_file},     {"npy", npy_file}};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

} // namespace

#ifndef GRAMMAR_MAIN

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const Format &format = kFormats[data[0] % std::size(kFormats)];
  Choices choices({reinterpret_cast<const char *>(data) + 1, size - 1});
  const double begin = cpu_seconds();
  format.make(choices);
  if (cpu_seconds() - begin > kMostSeconds)
    found(format.name, "it takes too long"); // of memory libFuzzer's own limits tell
  return 0;
}

#else

constexpr size_t kMostBytes = size_t(400) << 20;
// Bytes that are held now, and the most since the last file began. One thread.
static size_t held = 0, peak = 0;

void *operator new(size_t size) {
  void *const memory = std::malloc(size ? size : 1);
  if (!memory)
    throw std::bad_alloc();
  peak = std::max(peak, held += malloc_usable_size(memory));
  return memory;
}
void operator delete(void *memory) noexcept {
  held -= memory ? malloc_usable_size(memory) : 0;
  std::free(memory);
}
void operator delete(void *memory, size_t) noexcept { operator delete(memory); }

int main(int argc, char **argv) {
  const size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const size_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const size_t first = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 0;
  size_t wrong = 0;
  for (const Format &format : kFormats) {
    if (argc > 3 && std::string_view(argv[3]) != format.name)
      continue;
    double slowest = 0;
    const double all = cpu_seconds();
    taken = 0;
    size_t largest = 0;
    for (size_t i = first; i < first + count; ++i) {
      uint64_t state = (seed << 32) + i + 1; // xorshift64*, from a state that is not 0
      std::string bytes(64 + i % 1000, '\0');
      for (char &byte : bytes) {
        state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
        byte = static_cast<char>(state * 0x2545f4914f6cdd1du >> 56);
      }
      Choices choices(bytes);
      const double begin = cpu_seconds();
      const size_t before = peak = held;
      format.make(choices);
      const double took = cpu_seconds() - begin;
      if (took > kMostSeconds || peak - before > kMostBytes) {
        std::printf("%s %zu of seed %zu: %.1f s, %zu MB\n", format.name, i, seed, took,
                    (peak - before) >> 20);
        wrong += peak - before > kMostBytes; // time is told alone: other work delays it
      }
      slowest = std::max(slowest, took);
      largest = std::max(largest, peak - before);
    }
    std::printf("%-12s %zu files, %zu taken, in %.1f s of CPU; at most %.2f s and %zu MB\n",
                format.name, count, taken, cpu_seconds() - all, slowest, largest >> 20);
    std::fflush(stdout);
  }
  return wrong ? 1 : 0;
}

#endif
