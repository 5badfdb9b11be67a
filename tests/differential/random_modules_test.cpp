// Random modules (tests/property/plan_random.h) with real kernels: graphs, and steps launched one
// by one, give the same bytes on the emulated driver, and host functions see the same.
// CUGRT_DIFFERENTIAL_SEEDS sets how many (200).
#include "support/api_fixture.h"

#include "../property/plan_random.h"
#include "ir/module/function_cloner.h"
#include "ir/text/text.h"

#include <cstdlib>
#include <set>

using namespace cugrt;
using namespace cugrt::test;

namespace {

uint32_t seeds() {
  const char *text = std::getenv("CUGRT_DIFFERENTIAL_SEEDS");
  return text ? uint32_t(std::strtoul(text, nullptr, 10)) : 200;
}

/// A kernel named after its accesses, over tensors of any lengths: each element that it writes is a
/// hash of the elements at the same place of what it reads, which is repeated where it is shorter.
void give_code(ir::Module &module, ir::Kernel &kernel) {
  const std::string accesses = kernel.name == "odd"  ? "io"
                               : kernel.name == "go" ? "bo"
                                                     : kernel.name;
  std::string params, lengths, hash = std::to_string(accesses.size()) + "u", body;
  for (size_t i = 0; i < accesses.size(); ++i) {
    const std::string p = "p" + std::to_string(i), n = "n" + std::to_string(i);
    params += (i ? ", unsigned *" : "unsigned *") + p;
    lengths += ", long long " + n;
    if (accesses[i] == 'i' || accesses[i] == 'b')
      hash = "(" + hash + " ^ " + p + "[i % " + n + "]) * 0x9e3779b1u";
    ir::KernelParam length;
    length.name = n;
    length.kind = ir::KernelParamKind::symbol;
    length.dtype = ir::DType::i64;
    length.symbol = {uint32_t(i)};
    kernel.symbols.push_back(n);
    kernel.params.push_back(std::move(length));
  }
  for (size_t i = 0; i < accesses.size(); ++i)
    if (accesses[i] != 'i')
      body += "  for (long long i = 0; i < n" + std::to_string(i) + "; ++i) p" + std::to_string(i) +
              "[i] = " + hash + ";\n";
  if (kernel.name == "odd")
    body = "  p1[0] = (p0[0] * 0x9e3779b1u >> 16) & 1;\n";
  if (kernel.name == "go")
    body = "  p1[0] = (++p0[0] * 0x9e3779b1u >> 16) & 1;\n";
  kernel.code = "extern \"C\" __global__ void " + kernel.name + "(" + params + lengths + ") {\n" +
                body + "}\n";
}

/// Launches pass the tensors' lengths, and blocks list what they use, as text must.
class Runnable final : public ir::FunctionCloner {
public:
  using FunctionCloner::FunctionCloner;

protected:
  Status visit(const ir::Binding &binding) override {
    if (binding.blocks.count) {
      constructs_.push_back(&binding);
      Status status = copy(binding);
      constructs_.pop_back();
      return status;
    }
    if (binding.kind != ir::BindingKind::launch)
      return copy(binding);
    std::vector<ir::Operand> operands = mapped(source().operands_of(binding));
    for (const ir::Operand &operand : source().operands_of(binding)) {
      ir::ExprId length = module().exprs.constant(1);
      for (ir::ExprId dim : type_of(operand.value()).dims)
        length = module().exprs.mul(length, dim);
      operands.push_back(ir::Operand::of(length));
    }
    builder().launch(binding.callee, operands);
    return {};
  }

  void add_captures(std::vector<ir::Operand> &operands) override {
    std::set<uint32_t> used, defined;
    collect(*constructs_.back(), used, defined);
    for (uint32_t value : used)
      if (!defined.contains(value))
        operands.push_back(ir::Operand::of(mapped(ir::ValueId{value})));
  }

private:
  /// Values that a construct's blocks use, and those that they define.
  void collect(const ir::Binding &construct, std::set<uint32_t> &used,
               std::set<uint32_t> &defined) const {
    auto use = [&](std::span<const ir::Operand> operands) {
      for (const ir::Operand &operand : operands)
        if (operand.kind == ir::Operand::Kind::value)
          used.insert(operand.index);
    };
    for (uint32_t n = construct.blocks.begin; n < construct.blocks.end(); ++n) {
      const ir::Block &block = source().blocks[n];
      for (uint32_t i = 0; i < block.param_count; ++i)
        defined.insert(block.first_param + i);
      for (const ir::Binding &b : block.bindings) {
        use(source().operands_of(b));
        for (uint32_t i = 0; i < b.result_count; ++i)
          defined.insert(b.result(i).index);
        collect(b, used, defined);
      }
      use(source().results_of(block));
    }
  }

  std::vector<const ir::Binding *> constructs_; // that are being copied, outermost first
};

std::string runnable_text(uint32_t seed, RandomModule::Conditions conditions) {
  RandomModule random(seed, 24, conditions);
  ir::Module module = ir::without_functions(random.m.module);
  for (ir::Kernel &kernel : module.kernels)
    give_code(module, kernel);
  for (const ir::Function &function : random.m.module.functions) {
    Result<ir::Function> made = Runnable(function, module).run();
    REQUIRE(made.ok());
    module.functions.push_back(std::move(*made));
  }
  return ir::print(module);
}

/// What host functions of a run saw, and how often its loops may go on.
struct Host {
  std::vector<std::vector<uint32_t>> seen;
  int turns = 0;

  /// A host function is to put its work on the stream; this one waits there for what it reads.
  void see(const cugrt_value &value, void *stream) {
    Event before(emulated_runtime());
    before.record(stream);
    before.synchronize();
    seen.push_back(download<uint32_t>(value.as.tensor.address, elements(value.as.tensor)));
  }
};
Host host;

void register_host_functions() {
  emulated_runtime().register_host_function("look", [](void *, const cugrt_value *arguments, size_t,
                                                       cugrt_value *, size_t, void *stream) {
    host.see(arguments[0], stream);
    return static_cast<cugrt_status *>(nullptr);
  });
  emulated_runtime().register_host_function("more", [](void *, const cugrt_value *arguments, size_t,
                                                       cugrt_value *results, size_t, void *stream) {
    host.see(arguments[0], stream);
    results[0].as.integer = host.turns-- > 1;
    return static_cast<cugrt_status *>(nullptr);
  });
}

/// One way to run the module, with buffers of its own.
struct Side {
  Side(Executable &executable, const Weights &weights, bool eager)
      : session(executable, emulated_runtime(), weights, options(eager)),
        main(executable.function("main")), state(upload(numbers(16, 2))),
        turns(upload(std::vector<int32_t>{0})) {}

  static cugrt_session_options options(bool eager) {
    auto options = detail::sized<cugrt_session_options>();
    options.eager = eager;
    return options;
  }

  /// Bytes of the results, the state and the caller's buffer, and what the host saw.
  std::vector<std::vector<uint32_t>> run(int64_t n, bool flag) {
    host = {{}, 4};
    Buffer x = upload(numbers(size_t(n) * 4, 1)), y = upload(numbers(size_t(n) * 4, 3));
    std::vector<Value> results =
        session.run(main, {x.tensor(CUGRT_F32, {n, 4}), state.tensor(CUGRT_F32, {16}),
                           y.tensor(CUGRT_F32, {n, 4}), flag, turns.tensor(CUGRT_I32, {1})});
    session.synchronize();
    std::vector<std::vector<uint32_t>> out = std::move(host.seen);
    for (const Value &result : results)
      out.push_back(download<uint32_t>(result.as.tensor.address, elements(result.as.tensor)));
    out.push_back(download<uint32_t>(state.address(), 16));
    out.push_back(download<uint32_t>(y.address(), size_t(n) * 4));
    return out;
  }

  Session session;
  Function main;
  Buffer state, turns;
};

} // namespace

TEST_CASE("a random module gives the same bytes as graphs and eagerly, run after run") {
  const auto conditions =
      GENERATE(RandomModule::Conditions::host, RandomModule::Conditions::device);
  register_host_functions();
  uint64_t built = 0, hit = 0, functions = 0;
  const std::vector<float> w = numbers(16, 4);
  for (uint32_t seed = 0; seed < seeds(); ++seed) {
    const std::string text = runnable_text(seed, conditions);
    INFO("seed " << seed << "\n" << text);
    Module module = Module::parse(text);
    for (cugrt_policy policy : {CUGRT_POLICY_PATCH, CUGRT_POLICY_SEED}) {
      auto options = detail::sized<cugrt_compile_options>();
      options.policy = policy;
      Executable executable(emulated_runtime(), module, &options);
      Weights weights;
      weights.add("w", w.data(), CUGRT_F32, std::vector<int64_t>{16});
      Side graphs(executable, weights, false), eager(executable, weights, true);
      for (int64_t n : {5, 8, 1, 5})
        for (bool flag : {false, true}) {
          INFO("policy " << policy << ", n = " << n << ", flag " << flag);
          REQUIRE(graphs.run(n, flag) == eager.run(n, flag));
        }
      built += graphs.session.counters().regions_built;
      hit += graphs.session.counters().regions_hit;
      CHECK(eager.session.counters().regions_built == 0);
    }
    functions += text.find("call @") != std::string::npos;
  }
  CHECK(built > seeds()); // the modules are not trivial
  CHECK(hit > 0);
  CHECK(functions > seeds() / 8);
}
