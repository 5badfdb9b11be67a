// The compiler: cache first, then NVRTC.
//
// How a hit avoids the compiler. The entry must come from the compiler that would be used now,
// whose version only NVRTC itself knows. So its answer is remembered in the cache's folder, beside
// a stamp (path, size and time of the library and of its headers); as long as the stamp holds, so
// does the answer. Where no compiler is found, the key alone decides.
#include "jit/compiler.h"

#include "jit/nvrtc.h"
#include "jit/nvrtc_compile.h"
#include "jit/request_key.h"
#include "jit/worker_process.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace cugrt::jit {

constexpr std::string_view kNoteHeader = "cugrt compiler 1\n";

static double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

struct Compiler::State {
  CompilerConfig config;
  Logger log;

  mutable std::mutex mutex; // of everything below
  Result<NvrtcLocation> location{Status()};
  bool searched = false;
  std::optional<CompilerIdentity> identity;
  std::vector<int> architectures; // empty: not known
  std::unique_ptr<Nvrtc> nvrtc;   // set once, then constant
  Status open_error;
  std::string worker; // the program; empty: none
  bool workers_failed = false;

  void search();
  std::string note_name() const;
  void recall(const CodeCache &cache);
  void remember(CodeCache &cache) const;
  Result<const Nvrtc *> open(CodeCache &cache);
  bool identified(const CodeCache &cache);
  std::optional<CompilerIdentity> expected(CodeCache &cache);
};

void Compiler::State::search() {
  if (searched)
    return;
  searched = true;
  if (config.use == CompilerConfig::Use::never)
    location = Status::error(Code::not_found, "no compiler is used");
  else
    location = find_nvrtc(config.nvrtc_path, config.newest_major);
}

std::string Compiler::State::note_name() const {
  Digester digester;
  digester.field(location->library).field(location->include_folder);
  return "compiler-" + hex(digester.finish()).substr(0, 16) + ".txt";
}

/// The identity that was remembered, when its stamp still holds.
void Compiler::State::recall(const CodeCache &cache) {
  std::string stamp = location_stamp(*location);
  std::string expected = std::string(kNoteHeader) + stamp, rest;
  for (const std::string &note :
       stamp.empty() ? std::vector<std::string>() : cache.read_notes(note_name()))
    if (rest.empty() && note.starts_with(expected))
      rest = note.substr(expected.size());
  CompilerIdentity found;
  char digits[65] = {};
  int end = 0;
  if (std::sscanf(rest.c_str(), "version %d.%d headers %64[0-9a-f]%n", &found.major, &found.minor,
                  digits, &end) != 3)
    return;
  for (size_t i = 0; i < found.headers.size(); ++i) {
    unsigned byte = 0;
    if (std::sscanf(digits + 2 * i, "%2x", &byte) != 1)
      return;
    found.headers[i] = static_cast<uint8_t>(byte);
  }
  identity = found;
  constexpr std::string_view kArchitectures = " architectures";
  std::string_view list = std::string_view(rest).substr(static_cast<size_t>(end));
  if (!list.starts_with(kArchitectures))
    return;
  list.remove_prefix(kArchitectures.size());
  for (int number = 0; list.starts_with(' ');) {
    const char *stop = list.data() + list.size();
    auto [after, error] = std::from_chars(list.data() + 1, stop, number);
    if (error != std::errc())
      break;
    architectures.push_back(number);
    list.remove_prefix(static_cast<size_t>(after - list.data()));
  }
}

void Compiler::State::remember(CodeCache &cache) const {
  std::string stamp = location_stamp(*location);
  if (stamp.empty())
    return;
  std::string note = std::string(kNoteHeader) + stamp + "version " +
                     std::to_string(identity->major) + "." + std::to_string(identity->minor) +
                     " headers " + hex(identity->headers);
  if (!architectures.empty())
    note += " architectures";
  for (int number : architectures)
    note += " " + std::to_string(number);
  cache.write_note(note_name(), note + "\n");
}

/// Opens NVRTC at the first call. With the lock held.
Result<const Nvrtc *> Compiler::State::open(CodeCache &cache) {
  search();
  if (nvrtc)
    return nvrtc.get();
  if (!open_error.ok())
    return open_error.clone();
  auto opened = location.ok() ? open_nvrtc(*location)
                              : Result<std::unique_ptr<Nvrtc>>(location.status().clone());
  // The loader may know a library that no search by files has found.
  if (!location.ok() && config.use == CompilerConfig::Use::automatic && config.nvrtc_path.empty() &&
      !std::getenv("CUGRT_NVRTC"))
    for (int newest : {config.newest_major, 0})
      for (int major : {13, 12})
        if (!opened.ok() && (newest == 0 || major <= newest))
          if (auto second =
                  open_nvrtc({"libnvrtc.so." + std::to_string(major), "", "the loader", major});
              second.ok())
            opened = std::move(second);
  if (!opened.ok()) {
    open_error = opened.take_status();
    return open_error.clone();
  }
  nvrtc = std::move(opened).value();
  location = nvrtc->location;
  identity =
      CompilerIdentity{nvrtc->major, nvrtc->minor, headers_digest(nvrtc->location.include_folder)};
  architectures = nvrtc->architectures;
  remember(cache);
  return nvrtc.get();
}

/// Whether the identity that entries must match is known. With the lock held.
bool Compiler::State::identified(const CodeCache &cache) {
  search();
  if (!identity && location.ok())
    recall(cache);
  return identity || !location.ok();
}

/// The identity that an entry must match; empty: any. Opens NVRTC only if nothing is remembered.
std::optional<CompilerIdentity> Compiler::State::expected(CodeCache &cache) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!identified(cache))
    (void)open(cache).ok(); // a library that does not open is as good as none
  return identity;
}

Compiler::Compiler(CompilerConfig config, Logger log)
    : cache_(std::make_unique<CodeCache>(config.cache, log)), state_(std::make_unique<State>()) {
  state_->config = std::move(config);
  state_->log = log;
  state_->worker = find_worker(state_->config.worker);
}

Compiler::~Compiler() = default;

IncludedFiles Compiler::included_files() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->search();
  return IncludedFiles(state_->location.ok() ? state_->location->include_folder : "");
}

Result<CompileResult> Compiler::compile(const CompileRequest &request) {
  return compile(request, nullptr);
}

Result<CompileResult> Compiler::compile(const CompileRequest &request,
                                        const std::atomic<bool> *cancel) {
  IncludedFiles files = included_files();
  RequestKey wanted = request_key(request, files);
  CUGRT_ASSIGN(std::optional<CompileResult> found, find(request, wanted));
  return found ? Result<CompileResult>(std::move(*found)) : compile_here(request, wanted, cancel);
}

Result<std::optional<CompileResult>> Compiler::find(const CompileRequest &request,
                                                    const RequestKey &key) {
  auto start = std::chrono::steady_clock::now();
  CUGRT_TRY(target_architecture(request).take_status());
  if (!key.uncached.empty()) {
    state_->log(LogLevel::info, "kernel '" + request.name +
                                    "' is compiled each time, no cache is asked: " + key.uncached);
    return std::optional<CompileResult>();
  }
  const std::optional<CompilerIdentity> expected = state_->expected(*cache_);
  auto bytes = cache_->find(key.key, expected);
  auto ptx = bytes && request.with_ptx ? cache_->find(key.ptx, expected) : std::string();
  if (!bytes || !ptx)
    return std::optional<CompileResult>();
  return std::optional(
      CompileResult{std::move(*bytes), std::move(*ptx), {}, true, milliseconds_since(start)});
}

Result<CompileResult> Compiler::compile_here(const CompileRequest &request, const RequestKey &key,
                                             const std::atomic<bool> *cancel) {
  auto start = std::chrono::steady_clock::now();
  CUGRT_ASSIGN(std::string target, target_architecture(request));
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
  CUGRT_ASSIGN(CompileResult result, compile_with_nvrtc(*nvrtc, request, target, cancel));
  keep(request, key, identity, target, result);
  result.milliseconds = milliseconds_since(start);
  return result;
}

Result<CompileResult> Compiler::compile_there(const CompileRequest &request, const RequestKey &key,
                                              WorkerProcess &worker,
                                              const CompilerIdentity &identity,
                                              const std::atomic<bool> *cancel) {
  auto start = std::chrono::steady_clock::now();
  CUGRT_ASSIGN(std::string target, target_architecture(request));
  CUGRT_ASSIGN(CompileResult result, worker.compile(request, target, cancel));
  keep(request, key, identity, target, result);
  result.milliseconds = milliseconds_since(start);
  return result;
}

void Compiler::keep(const CompileRequest &request, const RequestKey &key,
                    const CompilerIdentity &identity, const std::string &target,
                    const CompileResult &result) {
  if (!key.uncached.empty())
    return;
  IncludedFiles files = included_files();
  if (request_key(request, files) != key)
    return;
  cache_->store(key.key, identity, request.kind, target, result.bytes);
  if (request.with_ptx)
    cache_->store(key.ptx, identity, OutputKind::ptx, "compute_" + target.substr(3), result.ptx);
}

Result<WorkerProcess> Compiler::start_worker() {
  NvrtcLocation location;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->search();
    if (state_->worker.empty() || state_->workers_failed || !state_->location.ok())
      return Status::error(Code::not_found, "there is no program to compile in parallel");
    location = *state_->location;
  }
  return WorkerProcess::start(state_->worker, location, state_->config.worker_opening_ms);
}

bool Compiler::is_identified() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->identified(*cache_);
}

void Compiler::identify(const CompilerIdentity &identity) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->identity)
    return;
  state_->identity = identity;
  state_->remember(*cache_);
}

void Compiler::give_up_workers(const Status &reason) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (std::exchange(state_->workers_failed, true))
    return;
  state_->log(LogLevel::warning, "kernels are compiled one at a time in this process: '" +
                                     state_->worker + "' cannot be used: " + reason.message());
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
  (void)state_->identified(*cache_);
  if (state_->architectures.empty())
    CUGRT_TRY(state_->open(*cache_).take_status());
  return state_->architectures;
}

CompilerReport Compiler::report() const {
  CompilerReport report;
  report.cache = cache_->report();
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->search();
  report.found = state_->location.ok() && state_->open_error.ok();
  report.worker = state_->workers_failed ? std::string() : state_->worker;
  if (state_->location.ok()) {
    report.library = state_->location->library;
    report.include_folder = state_->location->include_folder;
    report.found_by = state_->location->found_by;
    report.named_major = state_->location->major;
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
    report.architectures = state_->architectures;
  }
  report.opened = state_->nvrtc != nullptr;
  return report;
}

} // namespace cugrt::jit
