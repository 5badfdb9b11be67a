// The compiler: cache first, then NVRTC.
//
// How a hit avoids the compiler. The entry must come from the compiler that would be used now,
// whose version only NVRTC itself knows. So its answer is remembered in the cache's folder, beside
// a stamp (path, size and time of the library and of its headers); as long as the stamp holds, so
// does the answer. Where no compiler is found, the key alone decides.
#include "jit/compiler.h"

#include "jit/nvrtc.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace cugrt::jit {

namespace {

constexpr int kKeyVersion = 1; // raise when what is done to the source or the options changes
constexpr size_t kMaxLogBytes = 64 << 10;
constexpr NvrtcApi::Code kCompilationFailed = 6, kCancelled = 16;
constexpr std::string_view kNoteHeader = "cugrt compiler 1\n";

/// What follows "sm_" or "compute_"; empty when the text is no architecture.
std::string architecture_number(const std::string &text) {
  for (std::string_view prefix : {"sm_", "compute_"}) {
    if (text.compare(0, prefix.size(), prefix) != 0)
      continue;
    std::string number = text.substr(prefix.size());
    size_t digits = std::min(number.find_first_not_of("0123456789"), number.size());
    bool suffix = digits + 1 == number.size() && (number.back() == 'a' || number.back() == 'f');
    if (digits >= 2 && digits <= 4 && (digits == number.size() || suffix))
      return number;
  }
  return {};
}

/// The architecture as NVRTC is told: PTX is for a virtual one, a cubin for a real one.
Result<std::string> target_architecture(const CompileRequest &request) {
  std::string number = architecture_number(request.architecture);
  if (number.empty())
    return Status::error(Code::invalid_argument,
                         "kernel '" + request.name + "': unknown architecture '" +
                             request.architecture + "', expected sm_90 or the like");
  if (request.kind == OutputKind::ptx)
    return "compute_" + number;
  if (request.architecture[0] == 'c')
    return Status::error(Code::invalid_argument, "kernel '" + request.name + "': a cubin is for " +
                                                     "sm_" + number + ", not for " +
                                                     request.architecture);
  return "sm_" + number;
}

std::string label(const CompileRequest &request) {
  return request.file.empty() ? request.name : request.file;
}

/// True when the place of the source shows in the output.
bool place_matters(const CompileRequest &request) {
  for (const std::string &option : request.options)
    if (option.find("lineinfo") != std::string::npos || option == "-G" || option == "-lineinfo" ||
        option.find("device-debug") != std::string::npos)
      return true;
  for (const char *word : {"__FILE__", "__LINE__", "assert"})
    if (request.source.find(word) != std::string::npos)
      return true;
  return false;
}

/// A #line directive, so that the log names the real file and line.
std::string located_source(const CompileRequest &request) {
  std::string text = "#line " + std::to_string(request.first_line) + " \"";
  for (char c : label(request)) {
    if (c == '"' || c == '\\')
      text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text + "\"\n" + request.source;
}

/// "file:3" from a log's "file(3): error: ...", else the file.
std::string error_location(const CompileRequest &request, const std::string &log) {
  size_t close = log.find("): error"), open = log.rfind('(', close);
  if (close == std::string::npos || open == std::string::npos)
    return label(request);
  std::string line = log.substr(open + 1, close - open - 1);
  bool number = !line.empty() && line.find_first_not_of("0123456789") == std::string::npos;
  size_t start = log.rfind('\n', open);
  start = start == std::string::npos ? 0 : start + 1;
  return number ? log.substr(start, open - start) + ":" + line : label(request);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// One program of NVRTC's.
class Program {
public:
  explicit Program(const NvrtcApi &api) : api_(api) {}
  Program(const Program &) = delete;
  ~Program() {
    if (program_)
      (void)api_.DestroyProgram(&program_);
  }
  NvrtcApi::Code create(const std::string &source, const std::string &name) {
    return api_.CreateProgram(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr);
  }
  NvrtcApi::Program get() const { return program_; }

  std::string log() const {
    size_t size = 0;
    if (api_.GetProgramLogSize(program_, &size) != 0 || size <= 1)
      return {};
    std::string text(size, '\0');
    if (api_.GetProgramLog(program_, text.data()) != 0)
      return {};
    text.resize(size - 1);
    if (text.size() > kMaxLogBytes)
      text = text.substr(0, kMaxLogBytes) + "\n(log cut)";
    while (!text.empty() && (text.back() == '\n' || text.back() == '\0'))
      text.pop_back();
    return text;
  }

  /// The output; NVRTC's code where there is none.
  NvrtcApi::Code output(OutputKind kind, std::string &bytes) const {
    bool ptx = kind == OutputKind::ptx;
    size_t size = 0;
    auto get_size = ptx ? api_.GetPTXSize : api_.GetCUBINSize;
    if (NvrtcApi::Code code = get_size(program_, &size))
      return code;
    bytes.assign(size, '\0');
    auto get = ptx ? api_.GetPTX : api_.GetCUBIN;
    if (NvrtcApi::Code code = get(program_, bytes.data()))
      return code;
    if (ptx && !bytes.empty() && bytes.back() == '\0')
      bytes.pop_back();
    return 0;
  }

private:
  const NvrtcApi &api_;
  NvrtcApi::Program program_ = nullptr;
};

int on_flow(void *cancel, void *) {
  return static_cast<const std::atomic<bool> *>(cancel)->load(std::memory_order_relaxed) ? 1 : 0;
}

std::vector<std::string> full_options(const CompileRequest &request, const std::string &target,
                                      const std::string &include_folder) {
  std::vector<std::string> options = request.options;
  options.push_back("--gpu-architecture=" + target);
  if (!include_folder.empty())
    options.push_back("--include-path=" + include_folder);
  return options;
}

std::string version_of(const Nvrtc &nvrtc) {
  return std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor);
}

/// An architecture that this NVRTC cannot do, with those that it can.
Status check_architecture(const Nvrtc &nvrtc, const CompileRequest &request,
                          const std::string &target) {
  int number = std::atoi(architecture_number(target).c_str());
  const std::vector<int> &known = nvrtc.architectures;
  if (known.empty() || std::find(known.begin(), known.end(), number) != known.end())
    return {};
  std::string list;
  for (int architecture : known)
    list += (list.empty() ? "sm_" : ", sm_") + std::to_string(architecture);
  return Status::error(Code::unsupported, "kernel '" + request.name + "': NVRTC " +
                                              version_of(nvrtc) + " does not compile for " +
                                              target + "; it knows " + list);
}

Result<CompileResult> run_nvrtc(const Nvrtc &nvrtc, const CompileRequest &request,
                                const std::string &target, const std::atomic<bool> *cancel) {
  CUGRT_TRY(check_architecture(nvrtc, request, target));
  const NvrtcApi &api = nvrtc.api;
  auto failure = [&](Code code, const char *what, NvrtcApi::Code result) {
    return Status::error(code, "kernel '" + request.name + "': NVRTC cannot " + what + ": " +
                                   api.GetErrorString(result));
  };
  Program program(api);
  if (NvrtcApi::Code code = program.create(located_source(request), label(request)))
    return failure(Code::compile_error, "take the source", code);
  if (cancel && api.SetFlowCallback)
    (void)api.SetFlowCallback(program.get(), on_flow,
                              const_cast<std::atomic<bool> *>(cancel)); // only read
  std::vector<std::string> options = full_options(request, target, nvrtc.location.include_folder);
  std::vector<const char *> pointers;
  for (const std::string &option : options)
    pointers.push_back(option.c_str());
  NvrtcApi::Code code =
      api.CompileProgram(program.get(), static_cast<int>(pointers.size()), pointers.data());
  CompileResult result;
  result.log = program.log();
  if (code == kCancelled || (code != 0 && cancel && cancel->load()))
    return Status::error(Code::cancelled, "compilation was cancelled");
  if (code != 0) {
    std::string message = "kernel '" + request.name + "' does not compile for " + target +
                          " (NVRTC " + version_of(nvrtc) + ")";
    if (code != kCompilationFailed)
      message += std::string(": ") + api.GetErrorString(code);
    if (!result.log.empty())
      message += ":\n" + result.log;
    if (nvrtc.location.include_folder.empty() && result.log.find(".h\"") != std::string::npos)
      message += "\nno headers were found beside " + nvrtc.location.library +
                 ": install the wheels nvidia-cuda-runtime and nvidia-cuda-crt with it";
    return Status::error(Code::compile_error, std::move(message))
        .at(error_location(request, result.log));
  }
  if (NvrtcApi::Code missing = program.output(request.kind, result.bytes))
    return failure(Code::compile_error, "give its output", missing);
  return result;
}

} // namespace

struct Compiler::State {
  CompilerConfig config;
  Logger log;

  mutable std::mutex mutex; // of everything below
  Result<NvrtcLocation> location{Status()};
  bool searched = false;
  std::optional<CompilerIdentity> identity;
  std::unique_ptr<Nvrtc> nvrtc; // set once, then constant
  Status open_error;

  void search();
  std::string note_name() const;
  void recall(const CodeCache &cache);
  void remember(CodeCache &cache) const;
  Result<const Nvrtc *> open(CodeCache &cache);
  std::optional<CompilerIdentity> expected(CodeCache &cache);
};

void Compiler::State::search() {
  if (searched)
    return;
  searched = true;
  if (config.use == CompilerConfig::Use::never)
    location = Status::error(Code::not_found, "no compiler is used");
  else
    location = find_nvrtc(config.nvrtc_path);
}

std::string Compiler::State::note_name() const {
  Digester digester;
  digester.field(location->library).field(location->include_folder);
  return "compiler-" + hex(digester.finish()).substr(0, 16) + ".txt";
}

/// The identity that was remembered, when its stamp still holds.
void Compiler::State::recall(const CodeCache &cache) {
  std::string stamp = location_stamp(*location);
  auto note = cache.read_note(note_name());
  if (stamp.empty() || !note)
    return;
  std::string expected = std::string(kNoteHeader) + stamp;
  if (note->compare(0, expected.size(), expected) != 0)
    return;
  std::string rest = note->substr(expected.size());
  CompilerIdentity found;
  char digits[65] = {};
  if (std::sscanf(rest.c_str(), "version %d.%d headers %64[0-9a-f]", &found.major, &found.minor,
                  digits) != 3)
    return;
  for (size_t i = 0; i < found.headers.size(); ++i) {
    unsigned byte = 0;
    if (std::sscanf(digits + 2 * i, "%2x", &byte) != 1)
      return;
    found.headers[i] = static_cast<uint8_t>(byte);
  }
  identity = found;
}

void Compiler::State::remember(CodeCache &cache) const {
  std::string stamp = location_stamp(*location);
  if (!stamp.empty())
    cache.write_note(note_name(), std::string(kNoteHeader) + stamp + "version " +
                                      std::to_string(identity->major) + "." +
                                      std::to_string(identity->minor) + " headers " +
                                      hex(identity->headers) + "\n");
}

/// NVRTC, opened at the first call. With the lock held.
Result<const Nvrtc *> Compiler::State::open(CodeCache &cache) {
  search();
  if (nvrtc)
    return nvrtc.get();
  if (!open_error.ok())
    return open_error.clone();
  auto opened = location.ok() ? open_nvrtc(*location)
                              : Result<std::unique_ptr<Nvrtc>>(location.status().clone());
  // What no search by files has found, the loader may still know.
  if (!location.ok() && config.use == CompilerConfig::Use::automatic && config.nvrtc_path.empty() &&
      !std::getenv("CUGRT_NVRTC"))
    for (const char *name : {"libnvrtc.so.13", "libnvrtc.so.12"})
      if (!opened.ok())
        if (auto second = open_nvrtc({name, "", "the loader"}); second.ok())
          opened = std::move(second);
  if (!opened.ok()) {
    open_error = opened.take_status();
    return open_error.clone();
  }
  nvrtc = std::move(opened).value();
  location = nvrtc->location;
  identity =
      CompilerIdentity{nvrtc->major, nvrtc->minor, headers_digest(nvrtc->location.include_folder)};
  remember(cache);
  return nvrtc.get();
}

/// What an entry must match; empty: anything. Opens NVRTC only when nothing is remembered of it.
std::optional<CompilerIdentity> Compiler::State::expected(CodeCache &cache) {
  std::lock_guard<std::mutex> lock(mutex);
  search();
  if (!identity && location.ok()) {
    recall(cache);
    if (!identity)
      (void)open(cache).ok(); // a library that does not open is as good as none
  }
  return identity;
}

Compiler::Compiler(CompilerConfig config, Logger log)
    : cache_(std::make_unique<CodeCache>(config.cache, log)), state_(std::make_unique<State>()) {
  state_->config = std::move(config);
  state_->log = log;
}

Compiler::~Compiler() = default;

CacheKey Compiler::key(const CompileRequest &request) {
  auto target = target_architecture(request);
  Digester digester;
  digester.field("cugrt code").field(kKeyVersion).field(request.source);
  digester.field(static_cast<uint64_t>(request.options.size()));
  for (const std::string &option : request.options)
    digester.field(option);
  digester.field(static_cast<uint64_t>(request.kind));
  digester.field(target.ok() ? *target : request.architecture);
  if (place_matters(request))
    digester.field(label(request)).field(static_cast<uint64_t>(request.first_line));
  return digester.finish();
}

Result<CompileResult> Compiler::compile(const CompileRequest &request) {
  return compile(request, nullptr);
}

Result<CompileResult> Compiler::compile(const CompileRequest &request,
                                        const std::atomic<bool> *cancel) {
  auto start = std::chrono::steady_clock::now();
  CUGRT_ASSIGN(std::string target, target_architecture(request));
  CacheKey wanted = key(request);
  if (auto bytes = cache_->find(wanted, state_->expected(*cache_)))
    return CompileResult{std::move(*bytes), {}, true, milliseconds_since(start)};
  const Nvrtc *nvrtc = nullptr;
  CompilerIdentity identity;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    auto opened = state_->open(*cache_);
    if (!opened.ok())
      return opened.take_status().in("kernel '" + request.name + "' must be compiled for " +
                                     target);
    nvrtc = *opened;
    identity = *state_->identity;
  }
  CUGRT_ASSIGN(CompileResult result, run_nvrtc(*nvrtc, request, target, cancel));
  cache_->store(wanted, identity, request.kind, target, result.bytes);
  result.milliseconds = milliseconds_since(start);
  return result;
}

Result<CompilerIdentity> Compiler::identity() {
  if (auto known = state_->expected(*cache_))
    return *known;
  std::lock_guard<std::mutex> lock(state_->mutex);
  auto opened = state_->open(*cache_);
  if (!opened.ok())
    return opened.take_status();
  return *state_->identity;
}

Result<std::vector<int>> Compiler::architectures() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CUGRT_ASSIGN(const Nvrtc *nvrtc, state_->open(*cache_));
  return nvrtc->architectures;
}

CompilerReport Compiler::report() const {
  CompilerReport report;
  report.cache = cache_->report();
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->search();
  report.found = state_->location.ok() && state_->open_error.ok();
  if (state_->location.ok()) {
    report.library = state_->location->library;
    report.include_folder = state_->location->include_folder;
    report.found_by = state_->location->found_by;
    if (!state_->identity)
      state_->recall(*cache_);
  } else {
    report.problem = state_->location.status().message();
  }
  if (!state_->open_error.ok())
    report.problem = state_->open_error.message();
  if (state_->identity) {
    report.major = state_->identity->major;
    report.minor = state_->identity->minor;
  }
  report.opened = state_->nvrtc != nullptr;
  return report;
}

} // namespace cugrt::jit
