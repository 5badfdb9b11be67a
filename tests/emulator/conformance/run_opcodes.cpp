// Cases are put together in modules by the device that they need, and run one kernel at a time.
#include "run_opcodes.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

namespace cugrt::conformance {

namespace {

constexpr size_t kInputs = 1024, kBlock = 256, kModuleKernels = 48;

/// An instruction or a program.
struct Item {
  const Instruction *instruction = nullptr;
  const Program *program = nullptr;

  const Target &target() const { return instruction ? instruction->target : program->target; }
  std::string name() const { return instruction ? instruction->text : program->name; }
  const Citation &cite() const { return instruction ? instruction->cite : program->cite; }
  std::string text(const std::string &kernel) const {
    return instruction ? kernel_text(*instruction, kernel) : kernel_text(*program, kernel);
  }
};

struct Module {
  Target target;
  std::vector<Item> items;

  static std::string kernel(size_t i) { return "k" + std::to_string(i); }
  std::string head() const {
    return std::string(".version ") + target.ptx + "\n.target sm_" +
           std::to_string(target.compute) + "\n.address_size 64\n";
  }
  std::string text() const {
    std::string text = head();
    for (size_t i = 0; i < items.size(); ++i)
      text += items[i].text(kernel(i));
    return text;
  }
};

std::vector<Module> modules_of(const OpcodeCases &cases, const std::string &only, int above) {
  std::vector<Module> modules;
  std::map<std::pair<int, std::string>, size_t> open; // by compute capability and version of PTX
  auto add = [&](const Item &item) {
    if (item.name().find(only) == std::string::npos || item.target().compute <= above)
      return;
    auto [it, is_new] =
        open.try_emplace({item.target().compute, item.target().ptx}, modules.size());
    if (is_new || modules[it->second].items.size() == kModuleKernels) {
      it->second = modules.size();
      modules.push_back({item.target(), {}});
    }
    modules[it->second].items.push_back(item);
  };
  for (const Instruction &instruction : cases.instructions)
    add({&instruction, nullptr});
  for (const Program &program : cases.programs)
    add({nullptr, &program});
  return modules;
}

Bits hash(Bits so_far, Bits value) {
  for (int i = 0; i < 64; i += 8)
    so_far = (so_far ^ (value >> i & 255)) * 0x100000001b3;
  return so_far;
}

std::string hex(Bits value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", (unsigned long long)(value));
  return text;
}

class Runner {
public:
  explicit Runner(const Driver &driver) : driver_(driver), api_(driver.api) {}
  ~Runner() {
    for (const auto &buffer : buffers_)
      api_.cuMemFree(buffer.first);
    if (context_)
      api_.cuDevicePrimaryCtxRelease(driver_.device);
  }

  bool start() {
    return check(api_.cuDevicePrimaryCtxRetain(&context_, driver_.device)) &&
           check(api_.cuCtxSetCurrent(context_));
  }

  /// All outcomes of a module. When it does not load, its cases are loaded alone, so that one that
  /// the driver refuses does not hide the others.
  void run(const Module &module, std::vector<Outcome> &outcomes) {
    if (module.target.compute > driver_.compute) {
      for (const Item &item : module.items)
        outcomes.push_back(
            outcome(item, Verdict::left_out, "needs sm_" + std::to_string(module.target.compute)));
      return;
    }
    CUmodule loaded = nullptr;
    CUresult result = api_.cuModuleLoadData(&loaded, module.text().c_str());
    if (result != CUDA_SUCCESS && module.items.size() > 1) {
      for (const Item &item : module.items)
        run({module.target, {item}}, outcomes);
      return;
    }
    for (size_t i = 0; i < module.items.size(); ++i) {
      if (result != CUDA_SUCCESS) {
        outcomes.push_back(outcome(module.items[i], Verdict::failed,
                                   "its PTX is refused: " + driver_.name_of(result)));
        continue;
      }
      Outcome o = outcome(module.items[i], Verdict::passed, "");
      CUfunction function = nullptr;
      error_ = CUDA_SUCCESS;
      bool ran = check(api_.cuModuleGetFunction(&function, loaded, Module::kernel(i).c_str())) &&
                 run(module.items[i], function, o);
      if (!ran) {
        o.verdict = Verdict::failed;
        o.detail = "the launch fails: " + driver_.name_of(error_);
      }
      if (o.verdict == Verdict::failed)
        o.detail += "\n" + module.items[i].cite().section + ": " + module.items[i].cite().rule;
      outcomes.push_back(std::move(o));
    }
    if (loaded)
      api_.cuModuleUnload(loaded);
  }

private:
  static Outcome outcome(const Item &item, Verdict verdict, const std::string &detail) {
    return {item.name(), true, verdict, detail, {}};
  }
  bool check(CUresult result) {
    if (result != CUDA_SUCCESS)
      error_ = result;
    return result == CUDA_SUCCESS;
  }

  /// The nth buffer, made large enough.
  CUdeviceptr buffer(size_t n, size_t bytes) {
    if (buffers_.size() <= n)
      buffers_.resize(n + 1);
    auto &[address, size] = buffers_[n];
    if (size < bytes) {
      if (address)
        api_.cuMemFree(address);
      address = 0, size = 0;
      if (check(api_.cuMemAlloc(&address, bytes)))
        size = bytes;
    }
    return address;
  }

  bool run(const Item &item, CUfunction function, Outcome &o) {
    return item.instruction ? run(*item.instruction, function, o) : run(*item.program, function, o);
  }

  bool run(const Instruction &instruction, CUfunction function, Outcome &o) {
    auto operands = operands_of(instruction, kInputs);
    const size_t count = operands[0].size();
    std::vector<CUdeviceptr> addresses;
    for (size_t k = 0; k <= operands.size(); ++k) {
      addresses.push_back(buffer(k, count * 8));
      if (!addresses[k] || (k < operands.size() &&
                            !check(api_.cuMemcpyHtoD(addresses[k], operands[k].data(), count * 8))))
        return false;
    }
    std::vector<void *> params;
    for (CUdeviceptr &address : addresses)
      params.push_back(&address);
    std::vector<Bits> got(count);
    if (!check(api_.cuLaunchKernel(function, unsigned(count / kBlock), 1, 1, kBlock, 1, 1, 0,
                                   nullptr, params.data(), nullptr)) ||
        !check(api_.cuMemcpyDtoH(got.data(), addresses.back(), count * 8)))
      return false;
    judge(instruction, operands, got, o);
    return true;
  }

  void judge(const Instruction &instruction, const std::vector<std::vector<Bits>> &operands,
             const std::vector<Bits> &got, Outcome &o) {
    const bool bounded = instruction.accepts || instruction.precision.ulps;
    Bits all = 0xcbf29ce484222325;
    size_t wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      Bits in[4] = {};
      for (size_t k = 0; k < operands.size(); ++k)
        in[k] = truncated(instruction.kinds[k + 1], operands[k][i]);
      Bits want =
          truncated(instruction.kinds[0], instruction.reference(in[0], in[1], in[2], in[3]));
      bool right = instruction.accepts ? instruction.accepts(in[0], in[1], got[i])
                                       : distance(instruction.precision, got[i], want) <=
                                             instruction.precision.ulps;
      all = hash(all, without_nan_bits(instruction.precision, got[i]));
      if (right || wrong++)
        continue;
      for (size_t k = 0; k < operands.size(); ++k)
        o.detail += (k ? ", " : "of ") + hex(in[k]);
      o.detail += " is " + hex(got[i]) + " instead of " + hex(want);
    }
    if (wrong) {
      o.verdict = Verdict::failed;
      o.detail += "; " + std::to_string(wrong) + " of " + std::to_string(got.size()) + " differ";
    }
    o.answers.push_back(bounded ? Answer{"bound", wrong ? "exceeded" : "holds", false}
                                : Answer{"bits", hex(all), false});
  }

  CUresult launch(const Program &program, CUfunction function, void **params) {
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = program.cluster;
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    CUlaunchConfig config{};
    config.gridDimX = program.blocks;
    config.blockDimX = program.threads;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.attrs = &cluster;
    config.numAttrs = program.cluster ? 1 : 0;
    return api_.cuLaunchKernelEx(&config, function, params, nullptr);
  }

  bool run(const Program &program, CUfunction function, Outcome &o) {
    const size_t in_bytes = std::max<size_t>(program.input.size(), 1) * 4,
                 out_bytes = program.expected.size() * 4;
    CUdeviceptr in = buffer(0, in_bytes), out = buffer(1, out_bytes);
    std::vector<uint32_t> got(program.expected.size());
    void *params[] = {&in, &out};
    if (!in || !out ||
        (!program.input.empty() &&
         !check(api_.cuMemcpyHtoD(in, program.input.data(), program.input.size() * 4))) ||
        !check(api_.cuMemsetD8(out, 0, out_bytes)) || !check(launch(program, function, params)) ||
        !check(api_.cuMemcpyDtoH(got.data(), out, out_bytes)))
      return false;
    Bits all = 0xcbf29ce484222325;
    for (size_t i = 0; i < got.size(); ++i) {
      all = hash(all, got[i]);
      bool right = program.accepts ? program.accepts(i, got[i]) : got[i] == program.expected[i];
      if (right || o.verdict == Verdict::failed)
        continue;
      o.verdict = Verdict::failed;
      o.detail = "word " + std::to_string(i) + " is " + hex(got[i]) + " instead of " +
                 hex(program.expected[i]);
    }
    o.answers.push_back(
        program.accepts
            ? Answer{"bound", o.verdict == Verdict::passed ? "holds" : "exceeded", false}
            : Answer{"bits", hex(all), false});
    return true;
  }

  const Driver &driver_;
  const Api &api_;
  CUcontext context_ = nullptr;
  CUresult error_ = CUDA_SUCCESS;
  std::vector<std::pair<CUdeviceptr, size_t>> buffers_;
};

} // namespace

std::vector<Outcome> run_opcodes(const Driver &driver, const OpcodeCases &cases,
                                 const std::string &only, int above) {
  std::vector<Outcome> outcomes;
  Runner runner(driver);
  if (!runner.start()) {
    outcomes.push_back({"opcodes", true, Verdict::failed, "no primary context", {}});
    return outcomes;
  }
  for (const Module &module : modules_of(cases, only, above))
    runner.run(module, outcomes);
  return outcomes;
}

bool write_ptx(const OpcodeCases &cases, const std::string &folder, std::string &reason) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  size_t number = 0;
  for (const Module &module : modules_of(cases, "", 0)) {
    std::string file = folder + "/" + std::to_string(number++) + ".sm_" +
                       std::to_string(module.target.compute) + ".ptx";
    std::ofstream out(file);
    if (!(out << module.text()).flush()) {
      reason = file + ": cannot be written";
      return false;
    }
  }
  return true;
}

} // namespace cugrt::conformance
