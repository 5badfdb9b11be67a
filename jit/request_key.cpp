// Keys of requests; see request_key.h.
#include "jit/request_key.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/path.h"
#include "jit/nvrtc_compile.h"

#include <deque>
#include <set>
#include <sys/stat.h>

namespace cugrt::jit {

constexpr int kKeyVersion = 2; // raise when what is done to the source or the options changes

static bool mentions_place(std::string_view text) {
  for (const char *word : {"__FILE__", "__LINE__", "assert"})
    if (text.find(word) != text.npos)
      return true;
  return false;
}

/// True when the place of the source shows in the output.
static bool place_matters(const CompileRequest &request) {
  for (const std::string &option : request.options)
    if (option.find("lineinfo") != std::string::npos || option == "-G" || option == "-lineinfo" ||
        option.find("device-debug") != std::string::npos)
      return true;
  return mentions_place(request.source);
}

/// Options about included files, in the spellings that NVRTC takes.
struct IncludeOptions {
  std::vector<std::string> folders, files; // of -I and -include
  std::string unknown;                     // an option that reads files of another kind

  explicit IncludeOptions(const std::vector<std::string> &options) {
    for (size_t i = 0; i < options.size(); ++i) {
      const std::string &option = options[i];
      auto value = [&](std::string_view name, bool joined, std::vector<std::string> &to) {
        if (option == name) {
          if (i + 1 < options.size())
            to.push_back(options[++i]);
        } else if (option.starts_with(std::string(name) + "=")) {
          to.push_back(option.substr(name.size() + 1));
        } else if (joined && option.starts_with(name)) {
          size_t begin = option.find_first_not_of(" \t", name.size());
          to.push_back(begin == option.npos ? "" : option.substr(begin));
        } else {
          return false;
        }
        return true;
      };
      if (!value("-I", true, folders) && !value("--include-path", false, folders) &&
          !value("-include", false, files) && !value("--pre-include", false, files) &&
          option.find("pch") != option.npos)
        unknown = option;
    }
  }
};

/// Follows files that a request includes, directly or not.
class IncludeWalk {
public:
  IncludeWalk(const CompileRequest &request, IncludedFiles &files, Digester &digester)
      : options_(request.options), files_(files), digester_(digester),
        places_(place_matters(request)) {
    if (!options_.unknown.empty())
      fail("the option " + options_.unknown + " names a compiled header");
    for (const std::string &name : options_.files)
      take(".", name);
    follow(scan_includes(request.source), folder_of(source_label(request)), source_label(request));
    while (!pending_.empty() && why_.empty()) {
      const IncludedFiles::File &file = *pending_.front();
      pending_.pop_front();
      follow(file.includes, folder_of(file.path), file.path);
    }
  }

  /// Why the included files cannot be found out; empty: they can.
  const std::string &why() const { return why_; }

private:
  void fail(std::string why) {
    if (why_.empty())
      why_ = std::move(why);
  }

  void follow(const IncludeScan &includes, const std::string &folder, const std::string &where) {
    if (includes.computed)
      fail("a macro names what '" + where + "' includes");
    for (const std::string &name : includes.names)
      take(folder, name);
  }

  void take(const std::string &folder, const std::string &name) {
    digester_.field(name);
    std::vector<std::string> folders{folder};
    folders.insert(folders.end(), options_.folders.begin(), options_.folders.end());
    if (name.starts_with('/'))
      folders = {""};
    for (const std::string &candidate : folders)
      if (const IncludedFiles::File *file = files_.at(candidate, name))
        take(*file);
  }

  void take(const IncludedFiles::File &file) {
    if (!file.readable)
      fail("'" + file.path + "' cannot be read");
    digester_.field("file").field(hex(file.digest));
    if (places_ || file.place_matters)
      digester_.field(file.path);
    if (!taken_.insert(&file).second)
      return;
    bytes_ += file.size_bytes;
    if (taken_.size() > kMaxIncludedFiles || bytes_ > kMaxIncludedBytes)
      fail("more is included than " + std::to_string(kMaxIncludedFiles) + " files or " +
           std::to_string(kMaxIncludedBytes) + " bytes");
    pending_.push_back(&file);
  }

  const IncludeOptions options_;
  IncludedFiles &files_;
  Digester &digester_;
  const bool places_;
  std::string why_;
  std::set<const IncludedFiles::File *> taken_;
  std::deque<const IncludedFiles::File *> pending_;
  uint64_t bytes_ = 0;
};

IncludedFiles::IncludedFiles(const std::string &compiler_folder)
    : compiler_folder_(compiler_folder.empty() ? "" : real_path(compiler_folder)) {}

const IncludedFiles::File *IncludedFiles::at(const std::string &folder, const std::string &name) {
  auto [known, first] = asked_.try_emplace(folder + "/" + name, nullptr);
  if (first)
    known->second = find(known->first);
  return known->second;
}

const IncludedFiles::File *IncludedFiles::find(const std::string &path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode))
    return nullptr;
  std::string real = real_path(folder_of(path)) + path.substr(path.rfind('/'));
  if (!compiler_folder_.empty() && real.starts_with(compiler_folder_ + "/"))
    return nullptr;
  auto [found, first] = files_.try_emplace(real);
  File &file = found->second;
  if (!first)
    return &file;
  file.path = real;
  auto text = read_file(real, kMaxIncludedBytes);
  if (!text.ok())
    return &file;
  file.readable = true;
  file.size_bytes = text->size();
  file.digest = Digester().field(*text).finish();
  file.place_matters = mentions_place(*text);
  file.includes = scan_includes(*text);
  return &file;
}

RequestKey request_key(const CompileRequest &request, IncludedFiles &files) {
  auto target = target_architecture(request);
  Digester digester;
  digester.field("cugrt code").field(kKeyVersion).field(request.source);
  digester.field(static_cast<uint64_t>(request.options.size()));
  for (const std::string &option : request.options)
    digester.field(option);
  digester.field(static_cast<uint64_t>(request.kind));
  digester.field(target.ok() ? *target : request.architecture);
  RequestKey key;
  key.uncached = IncludeWalk(request, files, digester).why();
  // If included files are unknown, the result still depends on the folder.
  if (place_matters(request) || !key.uncached.empty())
    digester.field(source_label(request)).field(static_cast<uint64_t>(request.first_line));
  key.key = digester.finish();
  if (request.with_ptx) {
    CompileRequest ptx = request;
    ptx.kind = OutputKind::ptx;
    ptx.with_ptx = false;
    key.ptx = request_key(ptx, files).key;
  }
  return key;
}

} // namespace cugrt::jit
