// Compiles one request: a request becomes NVRTC's program, its log an error with a place.
#include "jit/nvrtc_compile.h"

#include "base/architectures.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace cugrt::jit {

namespace {

constexpr size_t kMaxLogBytes = 64 << 10;
constexpr NvrtcApi::Code kCompilationFailed = 6, kCancelled = 16;

/// The text after "sm_" or "compute_"; empty if the text is no architecture.
std::string architecture_number(const std::string &text) {
  for (std::string_view prefix : {"sm_", "compute_"})
    if (text.starts_with(prefix) && text.size() > prefix.size() &&
        std::isdigit(static_cast<unsigned char>(text[prefix.size()])))
      return text.substr(prefix.size());
  return {};
}

/// A #line directive, so that the log names the real file and line.
std::string located_source(const CompileRequest &request) {
  std::string text = "#line " + std::to_string(request.first_line) + " \"";
  for (char c : source_label(request)) {
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
    return source_label(request);
  std::string line = log.substr(open + 1, close - open - 1);
  bool number = !line.empty() && line.find_first_not_of("0123456789") == std::string::npos;
  size_t start = log.rfind('\n', open);
  start = start == std::string::npos ? 0 : start + 1;
  return number ? log.substr(start, open - start) + ":" + line : source_label(request);
}

/// A program of NVRTC's.
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

} // namespace

std::string source_label(const CompileRequest &request) {
  return request.file.empty() ? request.name : request.file;
}

Result<std::string> target_architecture(const CompileRequest &request) {
  std::string number = architecture_number(request.architecture);
  if (number.empty())
    return Status::error(Code::invalid_argument,
                         "kernel '" + request.name + "': unknown architecture '" +
                             request.architecture + "', expected sm_90 or the like");
  if (!is_known_architecture(number))
    return Status::error(Code::unsupported, "kernel '" + request.name +
                                                "': cugrt does not compile "
                                                "for '" +
                                                request.architecture + "'; it knows " +
                                                known_architectures());
  if (request.kind == OutputKind::ptx)
    return "compute_" + number;
  if (request.architecture[0] == 'c')
    return Status::error(Code::invalid_argument, "kernel '" + request.name + "': a cubin is for " +
                                                     "sm_" + number + ", not for " +
                                                     request.architecture);
  return "sm_" + number;
}

Result<CompileResult> compile_with_nvrtc(const Nvrtc &nvrtc, const CompileRequest &request,
                                         const std::string &target,
                                         const std::atomic<bool> *cancel) {
  CUGRT_TRY(check_architecture(nvrtc, request, target));
  const NvrtcApi &api = nvrtc.api;
  auto failure = [&](Code code, const char *what, NvrtcApi::Code result) {
    return Status::error(code, "kernel '" + request.name + "': NVRTC cannot " + what + ": " +
                                   api.GetErrorString(result));
  };
  Program program(api);
  if (NvrtcApi::Code code = program.create(located_source(request), source_label(request)))
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
  NvrtcApi::Code missing = program.output(request.kind, result.bytes);
  if (!missing && request.with_ptx)
    missing = program.output(OutputKind::ptx, result.ptx);
  if (missing)
    return failure(Code::compile_error, "give its output", missing);
  return result;
}

} // namespace cugrt::jit
