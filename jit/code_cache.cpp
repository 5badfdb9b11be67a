// The code cache: a least-recently-used map in memory over a folder of files.
//
// The folder's rules. A file's modification time is its last reading (access times are not kept on
// most systems). Only this user, or root, may be able to put code there, so a folder that others
// can write is not used. The first failure to write is told and ends writing: a full disk stays
// full, and a cache may only make things faster.
#include "jit/code_cache.h"

#include "base/file.h"
#include "base/path.h"
#include "jit/cache_entry.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <list>
#include <map>
#include <mutex>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utility>

namespace cugrt::jit {

namespace {

constexpr std::string_view kSuffix = ".code", kNoteSuffix = ".txt";
constexpr uint64_t kMaxNoteBytes = 64 << 10;
constexpr size_t kMaxFailureBytes = 4 << 10;
constexpr int64_t kStaleTemporaryNs = int64_t(3600) * 1000000000; // of a writer that died

/// "512M" and the like.
std::optional<uint64_t> parse_size(const std::string &text) {
  char *end = nullptr;
  errno = 0;
  unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || text[0] == '-' || end == text.c_str() || errno)
    return std::nullopt;
  int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  bool complete = *end == '\0' || (shift && end[1] == '\0');
  if (!complete || value > (UINT64_MAX >> shift))
    return std::nullopt;
  return uint64_t(value) << shift;
}

/// Makes the folder and its parents, private to the user. The reason of a failure, else empty.
std::string make_folders(const std::string &path) {
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && errno != EISDIR)
      return std::strerror(errno);
    if (at == std::string::npos)
      return {};
  }
}

/// Why code from this folder cannot be trusted or read; empty: it can.
std::string folder_problem(const std::string &path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    return std::strerror(errno);
  if (!S_ISDIR(info.st_mode))
    return "not a folder";
  if (info.st_mode & S_IWOTH)
    return "every user may write there; chmod o-w it, or choose another";
  uid_t me = ::geteuid();
  if (info.st_uid != me && info.st_uid != 0 && me != 0)
    return "it belongs to another user";
  if (::access(path.c_str(), R_OK | X_OK) != 0)
    return std::strerror(errno);
  return {};
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
}

struct FileOnDisk {
  std::string path;
  uint64_t size_bytes;
  int64_t last_read_ns;
};

/// Names in a folder; none where it cannot be read.
std::vector<std::string> names_in(const std::string &folder) {
  std::vector<std::string> names;
  DIR *listing = ::opendir(folder.c_str());
  if (!listing)
    return names;
  while (const dirent *item = ::readdir(listing))
    names.emplace_back(item->d_name);
  ::closedir(listing);
  return names;
}

/// Lists files with names of entries, oldest read first; removes files that dead writers left.
std::vector<FileOnDisk> scan(const std::string &folder) {
  std::vector<FileOnDisk> files;
  int64_t now = now_ns();
  for (const std::string &name : names_in(folder)) {
    if (name.find(kSuffix) != 64) // the hexadecimal digits of a key
      continue;
    FileOnDisk file{folder + "/" + name, 0, 0};
    struct stat info;
    if (::lstat(file.path.c_str(), &info) != 0)
      continue;
    if (S_ISREG(info.st_mode))
      file.size_bytes = static_cast<uint64_t>(info.st_size);
    file.last_read_ns = int64_t(info.st_mtim.tv_sec) * 1000000000 + info.st_mtim.tv_nsec;
    if (ends_with(name, kSuffix))
      files.push_back(std::move(file));
    else if (now - file.last_read_ns > kStaleTemporaryNs)
      ::unlink(file.path.c_str());
  }
  std::sort(files.begin(), files.end(), [](const FileOnDisk &a, const FileOnDisk &b) {
    return a.last_read_ns != b.last_read_ns ? a.last_read_ns < b.last_read_ns : a.path < b.path;
  });
  return files;
}

/// Something that is no regular file stands there.
bool is_no_file(const std::string &path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

bool plain_name(const std::string &name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
}

} // namespace

CacheConfig CacheConfig::from_environment() {
  CacheConfig config;
  std::string chosen = environment("CUGRT_CACHE"), base = environment("XDG_CACHE_HOME"),
              home = environment("HOME");
  if (chosen == "off")
    config.disk = false;
  else if (!chosen.empty())
    config.folder = chosen;
  else if (!base.empty() && base[0] == '/') // a relative one is to be ignored, by its definition
    config.folder = base + "/cugrt";
  else if (!home.empty())
    config.folder = home + "/.cache/cugrt";
  config.read_only_folder = environment("CUGRT_CACHE_READONLY");
  std::string limit = environment("CUGRT_CACHE_LIMIT");
  if (auto bytes = parse_size(limit))
    config.disk_limit_bytes = *bytes;
  else if (!limit.empty())
    config.problem = "CUGRT_CACHE_LIMIT takes bytes, or a number with K, M or G, not '" + limit +
                     "': the limit is " + std::to_string(config.disk_limit_bytes) + " bytes";
  return config;
}

struct CodeCache::State {
  struct InMemory {
    CacheKey key;
    CompilerIdentity compiler;
    std::string payload;
  };

  CacheConfig config;
  Logger log;
  mutable std::mutex mutex;
  CacheReport report;
  bool told_not_writable = false;
  std::list<InMemory> memory; // most recently used first
  std::map<CacheKey, std::list<InMemory>::iterator> index;
  uint64_t memory_bytes = 0;
  std::optional<uint64_t> disk_bytes; // as far as we know: others write there too

  std::string path(const std::string &folder, const CacheKey &key) const {
    return folder + "/" + hex(key) + std::string(kSuffix);
  }

  void open_folder();
  void forget(const CacheKey &key);
  void remember(const CacheKey &key, const CompilerIdentity &compiler, std::string_view payload);
  std::optional<CacheEntry> read(const std::string &folder, const CacheKey &key,
                                 const std::optional<CompilerIdentity> &compiler);
  void not_writable(const std::string &reason);
  void tell_not_writable();
  uint64_t prune(uint64_t limit_bytes);
};

void CodeCache::State::open_folder() {
  if (!config.disk || config.folder.empty())
    return;
  while (config.folder.size() > 1 && config.folder.back() == '/')
    config.folder.pop_back();
  report.folder = config.folder;
  std::string problem = make_folders(config.folder);
  if (std::string unusable = folder_problem(config.folder); !unusable.empty())
    problem = problem.empty() ? unusable : problem;
  else
    report.readable = true, problem.clear();
  if (report.readable && ::access(config.folder.c_str(), W_OK) != 0)
    problem = std::strerror(errno);
  report.writable = report.readable && problem.empty();
  if (!problem.empty())
    not_writable(problem);
}

void CodeCache::State::not_writable(const std::string &reason) {
  report.writable = false;
  report.problem = "the code cache '" + config.folder + "' cannot be " +
                   (report.readable ? "written" : "used") + ": " + reason;
}

/// Called after a compilation: a process that finds all its code needs no message.
void CodeCache::State::tell_not_writable() {
  if (report.folder.empty() || report.writable || std::exchange(told_not_writable, true))
    return;
  log(LogLevel::warning, report.problem +
                             "; kernels are compiled again in each process (set CUGRT_CACHE to "
                             "another folder, or to off)");
}

void CodeCache::State::forget(const CacheKey &key) {
  auto found = index.find(key);
  if (found == index.end())
    return;
  memory_bytes -= found->second->payload.size();
  memory.erase(found->second);
  index.erase(found);
}

void CodeCache::State::remember(const CacheKey &key, const CompilerIdentity &compiler,
                                std::string_view payload) {
  forget(key);
  if (payload.size() > config.memory_limit_bytes)
    return;
  while (memory_bytes + payload.size() > config.memory_limit_bytes)
    forget(CacheKey(memory.back().key));
  memory.push_front({key, compiler, std::string(payload)});
  index[key] = memory.begin();
  memory_bytes += payload.size();
}

std::optional<CacheEntry> CodeCache::State::read(const std::string &folder, const CacheKey &key,
                                                 const std::optional<CompilerIdentity> &compiler) {
  auto file = read_file(path(folder, key), kMaxEntryBytes);
  if (!file.ok()) {
    report.rejected += file.status().code() != Code::not_found;
    return std::nullopt;
  }
  auto entry = read_entry(*file);
  if (!entry || entry->key != key || (compiler && entry->compiler != *compiler)) {
    ++report.rejected;
    return std::nullopt;
  }
  return entry;
}

uint64_t CodeCache::State::prune(uint64_t limit_bytes) {
  std::vector<FileOnDisk> files = scan(config.folder);
  uint64_t total = 0, removed = 0;
  for (const FileOnDisk &file : files)
    total += file.size_bytes;
  for (const FileOnDisk &file : files) {
    if (total <= limit_bytes)
      break;
    if (::unlink(file.path.c_str()) != 0 && errno != ENOENT)
      continue;
    total -= file.size_bytes;
    ++removed;
  }
  disk_bytes = total;
  report.evicted += removed;
  return removed;
}

CodeCache::CodeCache(CacheConfig config, Logger log) : state_(std::make_unique<State>()) {
  state_->config = std::move(config);
  state_->log = log;
  if (!state_->config.problem.empty())
    log(LogLevel::warning, state_->config.problem);
  state_->open_folder();
  std::string &second = state_->config.read_only_folder;
  if (!state_->config.disk || second.empty())
    return;
  state_->report.read_only_folder = second;
  if (std::string problem = folder_problem(second); !problem.empty()) {
    std::string text = "the read-only code cache '" + second + "' cannot be used: " + problem;
    log(LogLevel::warning, text);
    if (state_->report.problem.empty())
      state_->report.problem = text;
    second.clear();
  }
}

CodeCache::~CodeCache() = default;

std::optional<std::string> CodeCache::find(const CacheKey &key,
                                           const std::optional<CompilerIdentity> &compiler) {
  State &s = *state_;
  std::lock_guard<std::mutex> lock(s.mutex);
  if (auto found = s.index.find(key); found != s.index.end()) {
    if (!compiler || found->second->compiler == *compiler) {
      s.memory.splice(s.memory.begin(), s.memory, found->second);
      ++s.report.memory_hits;
      return s.memory.front().payload;
    }
    s.forget(key);
  }
  std::optional<CacheEntry> entry;
  if (s.report.readable)
    entry = s.read(s.config.folder, key, compiler);
  if (entry) {
    ++s.report.disk_hits;
    // Now is its last reading. A folder that cannot be written keeps its order.
    (void)::utimensat(AT_FDCWD, s.path(s.config.folder, key).c_str(), nullptr, 0);
  } else if (s.config.disk && !s.config.read_only_folder.empty()) {
    entry = s.read(s.config.read_only_folder, key, compiler);
    s.report.read_only_hits += entry.has_value();
  }
  if (!entry) {
    ++s.report.misses;
    return std::nullopt;
  }
  s.remember(key, entry->compiler, entry->payload);
  return std::move(entry->payload);
}

void CodeCache::store(const CacheKey &key, const CompilerIdentity &compiler, OutputKind kind,
                      std::string_view architecture, std::string_view payload) {
  std::string file = write_entry(key, compiler, kind, architecture, payload);
  State &s = *state_;
  std::lock_guard<std::mutex> lock(s.mutex);
  s.remember(key, compiler, payload);
  s.tell_not_writable();
  if (!s.report.writable || file.size() > s.config.disk_limit_bytes || file.size() > kMaxEntryBytes)
    return;
  const std::string path = s.path(s.config.folder, key);
  if (Status status = write_file(path, file); !status.ok()) {
    ++s.report.store_failures;
    if (is_no_file(path)) { // it says nothing about other entries
      s.log(LogLevel::warning, status.message() + "; cugrt cache verify --remove");
      return;
    }
    s.not_writable(status.message());
    s.tell_not_writable();
    return;
  }
  ++s.report.stored;
  if (s.disk_bytes)
    *s.disk_bytes += file.size();
  // Some room is made beyond the limit, so that not every store looks through the folder.
  if (!s.disk_bytes)
    (void)s.prune(s.config.disk_limit_bytes);
  else if (*s.disk_bytes > s.config.disk_limit_bytes)
    (void)s.prune(s.config.disk_limit_bytes - s.config.disk_limit_bytes / 8);
}

std::vector<std::string> CodeCache::read_notes(const std::string &name) const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  const State &s = *state_;
  std::vector<std::string> notes, folders;
  if (s.report.readable)
    folders.push_back(s.config.folder);
  if (s.config.disk && !s.config.read_only_folder.empty())
    folders.push_back(s.config.read_only_folder);
  for (const std::string &folder : folders)
    if (plain_name(name))
      if (auto text = read_file(folder + "/" + name, kMaxNoteBytes); text.ok())
        notes.push_back(std::move(text).value());
  return notes;
}

void CodeCache::write_note(const std::string &name, std::string_view text) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  if (!plain_name(name) || !state_->report.writable || text.size() > kMaxNoteBytes)
    return;
  const std::string path = state_->config.folder + "/" + name;
  if (Status status = write_file(path, text); !status.ok() && !is_no_file(path)) {
    state_->not_writable(status.message());
    state_->tell_not_writable();
  }
}

CacheReport CodeCache::report() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->report;
}

std::vector<CacheEntryInfo> CodeCache::list() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  std::vector<CacheEntryInfo> entries;
  if (!state_->report.readable)
    return entries;
  for (const FileOnDisk &file : scan(state_->config.folder)) {
    CacheEntryInfo info;
    info.path = file.path;
    info.size_bytes = file.size_bytes;
    info.last_read_ns = file.last_read_ns;
    auto text = read_file(file.path, kMaxEntryBytes);
    auto entry = text.ok() ? read_entry(*text) : std::nullopt;
    if (entry && state_->path(state_->config.folder, entry->key) == file.path) {
      info.valid = true;
      info.kind = entry->kind;
      info.architecture = entry->architecture;
      info.compiler = entry->compiler;
    }
    entries.push_back(std::move(info));
  }
  return entries;
}

uint64_t CodeCache::prune(uint64_t limit_bytes) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->report.writable ? state_->prune(limit_bytes) : 0;
}

Result<uint64_t> CodeCache::remove_invalid() {
  uint64_t removed = 0;
  std::string failures;
  for (const CacheEntryInfo &entry : list()) {
    if (entry.valid)
      continue;
    if (std::remove(entry.path.c_str()) == 0) // a folder too, if it is empty
      ++removed;
    else if (errno != ENOENT && failures.size() < kMaxFailureBytes)
      failures += (failures.empty() ? "cannot remove '" : ", '") + entry.path +
                  "': " + std::strerror(errno);
  }
  return failures.empty() ? Result<uint64_t>(removed) : Status::error(Code::io_error, failures);
}

Result<uint64_t> CodeCache::export_to(const std::string &folder) const {
  if (!state_->report.readable) // constant once the cache is open
    return Status::error(Code::not_found,
                         "there is no code cache to export: " + state_->report.problem);
  if (std::string problem = make_folders(folder); !problem.empty())
    return Status::error(Code::io_error, "cannot make the folder '" + folder + "': " + problem);
  uint64_t copied = 0;
  for (const CacheEntryInfo &entry : list()) {
    if (!entry.valid)
      continue;
    auto bytes = read_file(entry.path, kMaxEntryBytes);
    if (!bytes.ok()) // evicted by another process since
      continue;
    CUGRT_TRY(write_file(folder + entry.path.substr(entry.path.rfind('/')), *bytes));
    ++copied;
  }
  // The remembered compiler: with it, the entries are found without opening NVRTC there too.
  for (const std::string &name : names_in(state_->config.folder))
    if (plain_name(name) && ends_with(name, kNoteSuffix))
      if (auto text = read_file(state_->config.folder + "/" + name, kMaxNoteBytes); text.ok())
        CUGRT_TRY(write_file(folder + "/" + name, *text));
  return copied;
}

} // namespace cugrt::jit
