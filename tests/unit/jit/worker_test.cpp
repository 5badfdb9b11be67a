// jit: compiling processes, and that the application around them notices nothing.
#include "support/must.h"

#include "base/file.h"
#include "jit/compiler.h"
#include "jit/message_socket.h"
#include "jit/worker_process.h"
#include "jit/worker_protocol.h"
#include "support/temporary_folder.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace cugrt;
using namespace cugrt::jit;
using cugrt::test::must;
using cugrt::test::refused;
namespace fs = std::filesystem;

namespace {

struct Messages {
  std::vector<std::string> list;
  static void take(void *user, LogLevel, const char *message) {
    static_cast<Messages *>(user)->list.emplace_back(message);
  }
  Logger logger() { return {take, this, LogLevel::info}; }
};

CompileRequest kernel(const std::string &name, const std::string &statement = "*p += 1") {
  CompileRequest request;
  request.name = name;
  request.source = "extern \"C\" __global__ void " + name + "(int *p) { " + statement + "; }\n";
  request.file = name + ".cu";
  request.kind = OutputKind::ptx;
  request.architecture = "sm_90";
  return request;
}

std::vector<CompileRequest> kernels(int count) {
  std::vector<CompileRequest> list;
  for (int i = 0; i < count; ++i)
    list.push_back(kernel("kernel_" + std::to_string(i)));
  return list;
}

CompilerConfig configuration(const std::string &cache, const std::string &worker) {
  CompilerConfig config;
  config.cache = CacheConfig();
  config.cache.folder = cache;
  config.worker = worker;
  return config;
}

CompileAllOptions two_threads() {
  CompileAllOptions options;
  options.threads = 2;
  return options;
}

/// Processes that were started as `program`, or as a script of that name.
std::vector<pid_t> running(const std::string &program) {
  std::vector<pid_t> found;
  for (const auto &entry : fs::directory_iterator("/proc")) {
    pid_t process = std::atoi(entry.path().filename().c_str());
    if (process <= 0 || process == ::getpid())
      continue;
    std::ifstream file(entry.path() / "cmdline");
    std::string text;
    std::getline(file, text);
    if (text.find(program) != std::string::npos)
      found.push_back(process);
  }
  return found;
}

/// True when the process is gone, or only waits to be waited for.
bool has_ended(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  size_t name_end = text.rfind(") ");
  return name_end == std::string::npos || text[name_end + 2] == 'Z';
}

size_t open_descriptors(pid_t process = ::getpid()) {
  size_t count = 0;
  for (const auto &entry : fs::directory_iterator("/proc/" + std::to_string(process) + "/fd"))
    count += entry.exists() || true;
  return count;
}

/// A program that answers as a compiling process does, but for kernels of some names. Written in
/// Python so that it shares nothing with what is tested.
std::string false_worker(const std::string &folder, const std::string &opening = "opened") {
  std::string path = folder + "/worker";
  std::ofstream(path) << R"(#!/usr/bin/env python3
import os, signal, socket, struct, sys, time
s = socket.socket(fileno=0)
def read(n):
    data = b''
    while len(data) < n:
        part = s.recv(n - len(data))
        if not part: sys.exit(0)
        data += part
    return data
def send(data): s.sendall(struct.pack('<I', len(data)) + data)
def string(text): return struct.pack('<I', len(text)) + text
opening = ')" << opening
                      << R"('
while True:
    message = read(struct.unpack('<I', read(4))[0])
    if message[0] == 1:
        if opening == 'exit': sys.exit(3)
        if opening == 'garbage': send(b'\x03\x01')
        if opening == 'failed': send(b'\x05' + struct.pack('<I', 1) + string(b'no NVRTC') + string(b''))
        if opening == 'opened': send(b'\x03' + struct.pack('<II', 13, 0) + string(bytes(32)))
        continue
    size, = struct.unpack('<I', message[1:5])
    name = message[5:5 + size]
    if name == b'garbage': send(b'\x04\xff\xff\xff\xff')
    elif name == b'empty': send(b'')
    elif name == b'unknown': send(b'\x63')
    elif name == b'long': s.sendall(b'\xff\xff\xff\xff')
    elif name == b'half': s.sendall(struct.pack('<I', 100) + b'\x04'); sys.exit(0)
    elif name == b'crash': os.kill(os.getpid(), signal.SIGSEGV)
    elif name == b'status': sys.exit(7)
    elif name == b'hang': time.sleep(1000)
    else: send(b'\x04' + string(b'code of ' + name) + string(b'') * 2)
)";
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
  return path;
}

int signals_seen = 0;
void count_signal(int) { ++signals_seen; }

/// Counts a signal while it lives.
struct SignalCounter {
  int signal;
  struct sigaction before = {};
  explicit SignalCounter(int number) : signal(number) {
    signals_seen = 0;
    struct sigaction handling = {};
    handling.sa_handler = count_signal;
    REQUIRE(::sigaction(signal, &handling, &before) == 0);
  }
  ~SignalCounter() { (void)::sigaction(signal, &before, nullptr); }
};

} // namespace

TEST_CASE("messages are read back, and nothing shorter or longer is a message") {
  CompileMessage sent{kernel("scale", "*p *= 2"), "compute_90"};
  sent.request.options = {"-DN=4", "", "--fmad=false"};
  sent.request.first_line = 17;
  sent.request.with_ptx = true;
  std::string bytes = encode(sent);
  auto read = must(decode_compile(bytes));
  CHECK(read.request.name == "scale");
  CHECK(read.request.source == sent.request.source);
  CHECK(read.request.file == "scale.cu");
  CHECK(read.request.first_line == 17);
  CHECK(read.request.options == sent.request.options);
  CHECK(read.request.kind == OutputKind::ptx);
  CHECK(read.request.with_ptx);
  CHECK(read.request.architecture == "sm_90");
  CHECK(read.target == "compute_90");
  for (size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode_compile(std::string_view(bytes).substr(0, size)).ok());
  CHECK_FALSE(decode_compile(bytes + '\0').ok());
  CHECK_FALSE(decode_open(bytes).ok());

  std::string failed = encode(Status::error(Code::compile_error, "no").at("a.cu:3"));
  CHECK(decode_failed(failed).to_string() ==
        Status::error(Code::compile_error, "no").at("a.cu:3").to_string());
  for (size_t size = 0; size < failed.size(); ++size)
    CHECK(decode_failed(std::string_view(failed).substr(0, size)).code() == Code::parse_error);
  CHECK(decode_failed(encode(Status())).code() == Code::parse_error); // success is no failure
}

TEST_CASE("a message that claims more than is allowed is refused before it is read") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  REQUIRE(::send(ends[0], "\xff\xff\xff\xff", 4, MSG_NOSIGNAL) == 4);
  CHECK(receive_message(ends[1], {}).status().code() == Code::out_of_range);
  CHECK(receive_message(ends[1], {nullptr, 20}).status().code() == Code::out_of_range);
  ::close(ends[0]);
  CHECK(receive_message(ends[1], {}).status().code() == Code::io_error);
  CHECK(send_message(ends[1], "x", {}).code() == Code::io_error);
  ::close(ends[1]);
}

TEST_CASE("a batch compiles in other processes and opens no compiler in this one", "[processes]") {
  TemporaryFolder folder;
  Messages messages;
  Compiler compiler(configuration(folder.path, CUGRT_TEST_WORKER), messages.logger());
  std::vector<CompileRequest> requests = kernels(6);
  requests.push_back(requests[3]);
  requests[6].kind = OutputKind::cubin;
  requests[6].with_ptx = true;
  auto compiled = must(compiler.compile_all(requests, two_threads()));
  CHECK(compiled[6].ptx == compiled[3].bytes);
  for (int i = 0; i < 6; ++i) {
    CHECK_FALSE(compiled[i].from_cache);
    CHECK(compiled[i].bytes.find(".entry kernel_" + std::to_string(i) + "(") != std::string::npos);
  }
  CHECK_FALSE(compiler.report().opened);
  CHECK(compiler.report().major >= 12);
  CHECK(messages.list.empty());

  // What they made is in the cache, as this process would have made it.
  Compiler second(configuration(folder.path, "off"));
  auto again = must(second.compile_all(kernels(6), two_threads()));
  CHECK(again[3].from_cache);
  CHECK_FALSE(second.report().opened);
  Compiler here(configuration("", "off"));
  CHECK(here.compile(kernels(6)[3])->bytes == compiled[3].bytes);
}

TEST_CASE("an error is the same from another process") {
  TemporaryFolder folder;
  std::vector<CompileRequest> requests = {kernel("good"), kernel("bad", "\n\n*p = missing"),
                                          kernel("worse", "nothing")};
  Compiler there(configuration("", CUGRT_TEST_WORKER)), here(configuration("", "off"));
  auto from_there = there.compile_all(requests, two_threads());
  auto from_here = here.compile_all(requests, two_threads());
  REQUIRE_FALSE(from_there.ok());
  CHECK(from_there.status().to_string() == from_here.status().to_string());
  CHECK(from_there.status().message().find("bad.cu:3") != std::string::npos);
}

TEST_CASE("the application sees no signal, child or descriptor of its compiling processes",
          "[processes]") {
  Compiler compiler(configuration("", CUGRT_TEST_WORKER));
  size_t before = open_descriptors();
  {
    SignalCounter counter(SIGCHLD);
    REQUIRE(compiler.compile_all(kernels(4), two_threads()).ok());
    CHECK(signals_seen == 0);
  }
  CHECK(running(CUGRT_TEST_WORKER).empty());
  CHECK(::waitpid(-1, nullptr, WNOHANG | __WALL) == -1);
  CHECK(errno == ECHILD);
  CHECK(open_descriptors() == before);
  {
    SignalCounter counter(SIGPIPE);
    TemporaryFolder folder;
    Compiler broken(configuration("", false_worker(folder.path)));
    CHECK_FALSE(
        broken.compile_all(std::vector{kernel("crash"), kernel("status")}, two_threads()).ok());
    CHECK(signals_seen == 0);
    CHECK(running(folder.path).empty());
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("an application that ignores the ends of its children changes nothing") {
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  REQUIRE(::sigaction(SIGCHLD, &ignore, &before) == 0);
  Compiler compiler(configuration("", CUGRT_TEST_WORKER));
  CHECK(compiler.compile_all(kernels(4), two_threads()).ok());
  CHECK(running(CUGRT_TEST_WORKER).empty());
  REQUIRE(::sigaction(SIGCHLD, &before, nullptr) == 0);
}

TEST_CASE("a compiling process holds nothing of the application open, and has its own session",
          "[processes]") {
  int leak[2];
  REQUIRE(::pipe(leak) == 0); // as careless applications do, without O_CLOEXEC
  std::string ours = fs::read_symlink("/proc/self/fd/" + std::to_string(leak[0]));
  Compiler compiler(configuration("", CUGRT_TEST_WORKER));
  size_t looked_at = 0;
  CompileAllOptions options = two_threads();
  options.progress = [&](const CompileProgress &) {
    for (pid_t child : running(CUGRT_TEST_WORKER)) {
      std::error_code gone;
      bool holds = false;
      for (const auto &entry :
           fs::directory_iterator("/proc/" + std::to_string(child) + "/fd", gone))
        holds = holds || fs::read_symlink(entry.path(), gone) == ours;
      looked_at += !gone && !holds && ::getsid(child) == child;
    }
  };
  REQUIRE(compiler.compile_all(kernels(6), options).ok());
  // When progress is told, one process has compiled something: it at least is past its start.
  CHECK(looked_at >= 6);
  ::close(leak[0]);
  ::close(leak[1]);
}

TEST_CASE("a compiling process ends with its parent", "[processes]") {
  int told[2];
  REQUIRE(::pipe(told) == 0);
  pid_t parent = ::fork();
  REQUIRE(parent >= 0);
  if (parent == 0) { // ends without destructors, as a crash does
    auto location = find_nvrtc("");
    auto worker = location.ok() ? WorkerProcess::start(CUGRT_TEST_WORKER, *location, 30'000)
                                : Result<WorkerProcess>(location.take_status());
    pid_t child =
        worker.ok() && worker->opened(nullptr).ok() ? running(CUGRT_TEST_WORKER).at(0) : 0;
    ssize_t written = ::write(told[1], &child, sizeof child);
    ::_exit(written == sizeof child ? 0 : 1);
  }
  ::close(told[1]);
  pid_t child = 0;
  REQUIRE(::read(told[0], &child, sizeof child) == sizeof child);
  REQUIRE(::waitpid(parent, nullptr, 0) == parent);
  REQUIRE(child > 0);
  for (int i = 0; i < 2000 && !has_ended(child); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(has_ended(child));
  ::close(told[0]);
}

TEST_CASE("a process that crashes, ends or answers nonsense costs only the kernel it had",
          "[processes]") {
  TemporaryFolder folder;
  std::string worker = false_worker(folder.path);
  auto [name, reason] =
      GENERATE(table<std::string, std::string>({{"garbage", "its answer is broken"},
                                                {"empty", "its answer is broken"},
                                                {"unknown", "its answer is broken"},
                                                {"long", "too long"},
                                                {"half", "ended without an answer"},
                                                {"crash", "ended without an answer"},
                                                {"status", "ended without an answer"}}));
  Compiler compiler(configuration("", worker));
  std::vector<CompileRequest> requests = kernels(5);
  requests.insert(requests.begin(), kernel(name));
  std::vector<std::string> done;
  CompileAllOptions options = two_threads();
  options.progress = [&](const CompileProgress &p) {
    if (p.ok)
      done.push_back(p.request->name);
  };
  const Status compiled = refused(compiler.compile_all(requests, options));
  INFO(compiled.to_string());
  CHECK(compiled.code() == Code::compile_error);
  CHECK(compiled.message().find("kernel '" + name + "'") != std::string::npos);
  CHECK(compiled.message().find(reason) != std::string::npos);
  CHECK(std::set(done.begin(), done.end()).size() == 5);
  CHECK(running(folder.path).empty());
}

TEST_CASE("a program that cannot serve is told once, and this process compiles", "[processes]") {
  TemporaryFolder folder;
  std::string worker, reason;
  int opening_ms = 30'000;
  SECTION("it ends at once") {
    worker = false_worker(folder.path, "exit"), reason = "ended without";
  }
  SECTION("it answers nonsense") {
    worker = false_worker(folder.path, "garbage"), reason = "broken";
  }
  SECTION("it finds no compiler") {
    worker = false_worker(folder.path, "failed"), reason = "no NVRTC";
  }
  SECTION("it is no program") {
    worker = folder.path + "/text", reason = "cannot start";
    std::ofstream(worker) << "not a program";
    REQUIRE(::chmod(worker.c_str(), 0755) == 0);
  }
  SECTION("it is silent") {
    worker = false_worker(folder.path, "silent"), reason = "no answer within 200 ms";
    opening_ms = 200;
  }
  Messages messages;
  CompilerConfig config = configuration("", worker);
  config.worker_opening_ms = opening_ms;
  Compiler compiler(config, messages.logger());
  auto compiled = must(compiler.compile_all(kernels(4), two_threads()));
  CHECK(compiled[2].bytes.find(".entry kernel_2(") != std::string::npos);
  CHECK(compiler.report().opened);
  CHECK(compiler.report().worker.empty());
  REQUIRE(compiler.compile_all(kernels(5), two_threads()).ok());
  REQUIRE(messages.list.size() == 1);
  INFO(messages.list[0]);
  CHECK(messages.list[0].find(reason) != std::string::npos);
}

TEST_CASE("an absent or refused program is no problem") {
  Messages messages;
  for (const char *worker : {"/nowhere/cugrt-compile", "off"}) {
    Compiler compiler(configuration("", worker), messages.logger());
    CHECK(compiler.report().worker.empty());
    CHECK(compiler.compile_all(kernels(2), two_threads()).ok());
    CHECK(compiler.report().opened);
  }
  CHECK(messages.list.empty());
}

TEST_CASE("a cancellation that is taken back has still cancelled") {
  TemporaryFolder folder;
  std::atomic<bool> cancel = false;
  CompileAllOptions options = two_threads();
  options.cancel = &cancel;
  // Seen by one thread between two kernels, and then no more.
  options.progress = [&](const CompileProgress &p) { cancel = p.done == 1; };
  Compiler compiler(configuration("", false_worker(folder.path)));
  auto compiled = compiler.compile_all(kernels(8), options);
  if (!compiled.ok())
    CHECK(compiled.status().code() == Code::cancelled);
}

TEST_CASE("cancelling kills what compiles and waits for nothing") {
  TemporaryFolder folder;
  std::atomic<bool> cancel = false;
  std::vector<CompileRequest> requests = kernels(2);
  requests.push_back(kernel("hang"));
  requests.push_back(kernel("hang", "*p = 2"));
  CompileAllOptions options = two_threads();
  options.cancel = &cancel;
  options.progress = [&](const CompileProgress &p) { cancel = cancel || p.done == 2; };
  Compiler compiler(configuration("", false_worker(folder.path)));
  const Status compiled = refused(compiler.compile_all(requests, options));
  CHECK(compiled.code() == Code::cancelled);
  CHECK(running(folder.path).empty());
}
