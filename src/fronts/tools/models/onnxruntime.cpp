// ONNX Runtime in a process of its own; see onnxruntime.h.
#include "onnxruntime.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace tool {

namespace {

// Values within a graph become outputs by appending a second graph message that has nothing else:
// readers of protobuf join the two.
constexpr const char *kScript = R"py(
import json, os, sys, time
folder = sys.argv[1]
try:
    import numpy as np
    import onnxruntime as ort
    request = json.load(open(folder + "/request.json"))
    model = request["model"]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    def message(field, payload):
        size, out = len(payload), bytes([field << 3 | 2])
        while size > 127:
            out, size = out + bytes([size & 127 | 128]), size >> 7
        return out + bytes([size]) + payload
    if request["values"]:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.model_external_initializers_file_folder_path",
                                         os.path.dirname(os.path.abspath(model)))
        outputs = b"".join(message(12, message(1, name.encode())) for name in request["values"])
        model = open(model, "rb").read() + message(7, outputs)
    providers = [p for p in ("CUDAExecutionProvider", "CPUExecutionProvider") if p in ort.get_available_providers()]
    session = ort.InferenceSession(model, options, providers=providers)
    types = {"float": "f4", "double": "f8", "float16": "f2", "int64": "i8", "int32": "i4", "int16": "i2", "int8": "i1",
             "uint64": "u8", "uint32": "u4", "uint16": "u2", "uint8": "u1", "bool": "?"}
    feeds = {name: np.load(folder + "/" + path) for name, path in request["inputs"].items()}
    for one in session.get_inputs():
        if one.name in request["numbers"]:
            words = request["numbers"][one.name].replace("true", "1").replace("false", "0")
            array = np.array([float(w) for w in words.split(",")]).astype(types[one.type[7:-1]])
            feeds[one.name] = array.reshape(() if not one.shape else (-1,))
    results = session.run(request["values"] or None, feeds)
    for i, result in enumerate(results):
        np.save(f"{folder}/out{i}.npy", np.asarray(result, order="C"))
    times = []
    for _ in range(request["timed_runs"]):
        begin = time.perf_counter()
        session.run(None, feeds)
        times.append((time.perf_counter() - begin) * 1e6)
    json.dump({"version": ort.__version__, "provider": session.get_providers()[0][:-len("ExecutionProvider")],
               "count": len(results), "median_us": sorted(times)[len(times) // 2] if times else 0},
              open(folder + "/answer.json", "w"))
except Exception as error:
    open(folder + "/error", "w").write(f"{type(error).__name__}: {error}")
    sys.exit(1)
)py";

/// The exit status of python3 with these arguments; 127 where there is none. It is silent.
int run_python(const std::vector<std::string> &arguments) {
  std::vector<char *> words = {const_cast<char *>("python3")};
  for (const std::string &one : arguments)
    words.push_back(const_cast<char *>(one.c_str()));
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0)
    return 127;
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDWR);
    for (int stream = 0; stream < 3 && nothing >= 0; ++stream)
      dup2(nothing, stream);
    execvp("python3", words.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

struct TemporaryFolder {
  TemporaryFolder() {
    std::string wanted = (std::filesystem::temp_directory_path() / "cugrt-XXXXXX").string();
    if (!mkdtemp(wanted.data()))
      throw UserError("cannot make a folder for temporary files");
    path = wanted;
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  std::string path;
};

std::string content(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

OnnxRuntimeRequest same_inputs(const std::string &model, const ImportOptions &import,
                               const OnnxInputs &inputs, const std::vector<Argument> &arguments) {
  OnnxRuntimeRequest request{model, inputs.bound, {}, {}, 0};
  for (const auto &[name, parameter] : inputs.parameters)
    for (const Argument &argument : arguments)
      if (parameter != argument.info.name)
        continue;
      else if (argument.host)
        request.inputs.emplace_back(name, *argument.host);
      else
        request.numbers.emplace_back(name, integers_text(argument.value));
  for (const std::string &bound : import.bind)
    request.numbers.emplace_back(bound.substr(0, bound.rfind('=')),
                                 bound.substr(bound.rfind('=') + 1));
  return request;
}

bool has_onnxruntime() {
  static const bool there = run_python({"-c", "import numpy, onnxruntime"}) == 0;
  return there;
}

OnnxRuntimeAnswer run_onnxruntime(const OnnxRuntimeRequest &request) {
  const TemporaryFolder folder;
  nlohmann::json json = {{"model", request.model},
                         {"inputs", nlohmann::json::object()},
                         {"numbers", nlohmann::json::object()},
                         {"values", request.values},
                         {"timed_runs", request.timed_runs}};
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const std::string name = "in" + std::to_string(i) + ".npy";
    write_npy(folder.path + "/" + name, request.inputs[i].second);
    json["inputs"][request.inputs[i].first] = name;
  }
  for (const auto &[name, text] : request.numbers)
    json["numbers"][name] = text;
  write_whole(folder.path + "/request.json", json.dump());
  if (run_python({"-c", kScript, folder.path}) != 0) {
    const std::string why = content(folder.path + "/error");
    throw UserError("ONNX Runtime: " + (why.empty() ? "python3 ended without an answer" : why));
  }
  const auto answer = nlohmann::json::parse(content(folder.path + "/answer.json"));
  OnnxRuntimeAnswer out{answer["version"], answer["provider"], {}, answer["median_us"]};
  for (size_t i = 0; i < answer["count"].get<size_t>(); ++i)
    out.results.push_back(read_npy(folder.path + "/out" + std::to_string(i) + ".npy"));
  return out;
}

} // namespace tool
