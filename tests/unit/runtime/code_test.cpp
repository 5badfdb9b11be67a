// runtime: kernels and parameters as compiled code tells them, of PTX and cubins that NVRTC makes.
#include "support/catch.h"

#include "compiler/passes/pass.h"
#include "device/code/code_entries.h"
#include "ir/text/text.h"
#include "jit/compiler.h"
#include "kernels/builtin.h"

using namespace cugrt;
using namespace cugrt::runtime;

namespace {

constexpr const char *kSource = R"(
struct Twelve { char bytes[12]; };
__device__ __noinline__ int helper(int a) { return a * 3 + (int)clock64(); }
extern "C" __global__ void none() {}
__global__ void mangled(int *p) { *p = 1; }
extern "C" __global__ void mixed(const float *x, char c, Twelve s, long long n, short h, float *y) {
  y[n] = x[0] + c + s.bytes[3] + h + helper((int)n);
}
)";

std::string compiled(jit::OutputKind kind, const char *architecture,
                     std::string_view source = kSource, std::vector<std::string> options = {}) {
  jit::CompilerConfig config;
  config.cache.disk = false;
  jit::CompileRequest request;
  request.name = "code";
  request.source = source;
  request.options = std::move(options);
  request.kind = kind;
  request.architecture = architecture;
  auto result = jit::Compiler(config).compile(request);
  INFO((result.ok() ? std::string() : result.status().to_string()));
  REQUIRE(result.ok());
  return result->bytes;
}

const CodeEntry *named(const std::vector<CodeEntry> &entries, const std::string &name) {
  for (const CodeEntry &entry : entries)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

void check_entries(const std::string &image, bool cubin) {
  auto entries = read_code_entries(image, cubin);
  REQUIRE(entries);
  CHECK(entries->size() == 3);
  using Sizes = std::vector<uint32_t>;
  REQUIRE(named(*entries, "none"));
  CHECK(named(*entries, "none")->param_bytes == Sizes{});
  REQUIRE(named(*entries, "_Z7mangledPi"));
  CHECK(named(*entries, "_Z7mangledPi")->param_bytes == Sizes{8});
  REQUIRE(named(*entries, "mixed"));
  CHECK(named(*entries, "mixed")->param_bytes == Sizes{8, 1, 12, 8, 2, 8});
}

} // namespace

TEST_CASE("kernels and the sizes of their parameters are read from PTX and from cubins") {
  check_entries(compiled(jit::OutputKind::ptx, "compute_75"), false);
  for (const char *architecture : {"sm_75", "sm_87", "sm_90", "sm_100", "sm_120"}) {
    CAPTURE(architecture);
    check_entries(compiled(jit::OutputKind::cubin, architecture), true);
  }
}

TEST_CASE("PTX is read past comments, strings and other functions") {
  auto entries = read_code_entries(".version 8.0\n// .entry no(\n/* .entry no( */\n"
                                   ".func (.param .b32 r) f(.param .b64 a) { }\n"
                                   ".pragma \".entry no(\";\n"
                                   ".visible .entry a\n(\n .param .u64 .ptr .global .align 16 p,\n"
                                   " .param .align 4 .b8 q[ 3 ][4]\n) { ld.param.u64 %r, [p]; }\n"
                                   ".entry b { ret; }\n.entry",
                                   false);
  REQUIRE(entries);
  REQUIRE(entries->size() >= 2);
  CHECK((*entries)[0].name == "a");
  CHECK((*entries)[0].param_bytes == std::vector<uint32_t>{8, 12});
  CHECK((*entries)[1].name == "b");
  CHECK((*entries)[1].param_bytes->empty());
}

TEST_CASE("what is no cubin, or is cut short or changed, is read within its bounds") {
  CHECK_FALSE(read_code_entries("", true));
  CHECK_FALSE(read_code_entries("\x50\xed\x55\xba fat binary", true));
  const std::string cubin = compiled(jit::OutputKind::cubin, "sm_90");
  for (size_t size = 0; size < cubin.size(); size += 1 + size / 16) {
    auto entries = read_code_entries(std::string(cubin, 0, size), true);
    CHECK((!entries || entries->size() <= 3));
  }
  for (size_t at = 0; at < cubin.size(); ++at) {
    std::string changed = cubin;
    changed[at] = '\xff';
    auto entries = read_code_entries(changed, true);
    CHECK((!entries || entries->size() <= cubin.size() / 24));
  }
}

TEST_CASE("a cubin whose names overlap is read a few times over, not once for every name") {
  constexpr size_t kName = 4096; // 'a's; symbol i is named by all but the first i of them
  auto number = [](std::string &to, size_t at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i)
      to[at + i] = static_cast<char>(value >> (8 * i));
  };
  auto cubin_of = [&](size_t symbol_count) {
    const std::string names = std::string(kName, 'a') + '\0' + ".symtab" + '\0';
    const size_t symbols_at = 64 + names.size(), table_at = symbols_at + 24 * symbol_count;
    std::string file(table_at + 2 * 64, '\0');
    file.replace(0, 6,
                 "\x7f"
                 "ELF\x02\x01");
    number(file, 18, 190, 2);
    number(file, 0x28, table_at, 8);
    number(file, 0x3a, 64, 2);
    number(file, 0x3c, 2, 2); // sections: the names, and the symbols
    file.replace(64, names.size(), names);
    for (size_t i = 0; i < symbol_count; ++i) {
      number(file, symbols_at + 24 * i, i, 4);
      number(file, symbols_at + 24 * i + 4, 2, 1);    // a function,
      number(file, symbols_at + 24 * i + 5, 0x10, 1); // a kernel
    }
    number(file, table_at + 24, 64, 8);
    number(file, table_at + 32, names.size(), 8);
    number(file, table_at, kName, 4); // no name
    number(file, table_at + 64, kName + 1, 4);
    number(file, table_at + 64 + 4, 2, 4);
    number(file, table_at + 64 + 24, symbols_at, 8);
    number(file, table_at + 64 + 32, 24 * symbol_count, 8);
    return file;
  };
  auto few = read_code_entries(cubin_of(3), true);
  REQUIRE(few);
  REQUIRE(few->size() == 3);
  CHECK((*few)[2].name == std::string(kName - 2, 'a'));
  CHECK_FALSE(read_code_entries(cubin_of(1000), true));
}

TEST_CASE("the library's kernels wait for their predecessors before they let successors in") {
  Result<ir::Module> module = ir::parse_and_verify(R"(cugrt 1
func @main(%x: tensor<[n, 64], f32>, %w: tensor<[64, 64], f32>, %scale: tensor<[64], f32>)
    -> (tensor<[n, 64], f32>, tensor<[n], f32>) {
  %a = softmax(%x)
  %b = matmul(%a, %w)
  %c = layer_norm(%b, %scale)
  %d = exp(%c)
  %e = add(%d, %x)
  %f = reduce_sum(%e) {axes = [1]}
  return %e, %f
}
)",
                                                   "test.cugrt");
  INFO((module.ok() ? std::string() : module.status().to_string()));
  REQUIRE(module.ok());
  passes::PassContext context;
  REQUIRE(context.set("codegen.programmatic", "true").ok());
  auto lowered = passes::run_passes(std::move(*module), passes::default_pipeline(), context);
  INFO((lowered.ok() ? std::string() : lowered.status().to_string()));
  REQUIRE(lowered.ok());
  CHECK(lowered->kernels.size() >= 4);
  for (const ir::Kernel &kernel : lowered->kernels) {
    const std::string source =
        kernel.code_kind == ir::CodeKind::source_text
            ? kernels::with_builtin_includes(kernel.code, kernel.name)
            : std::string(*kernels::builtin_source(
                  std::string_view(kernel.code).substr(kernels::kBuiltinPrefix.size())));
    const std::string ptx = compiled(jit::OutputKind::ptx, "compute_90", source, kernel.options);
    INFO(kernel.name);
    for (size_t at = ptx.find(".entry"), next; at != ptx.npos; at = next) {
      next = ptx.find(".entry", at + 1);
      const std::string body = ptx.substr(at, next - at);
      const size_t wait = body.find("griddepcontrol.wait");
      const size_t trigger = body.find("griddepcontrol.launch_dependents");
      CHECK(wait != body.npos);
      CHECK(trigger != body.npos);
      CHECK(wait < trigger);
    }
  }
}
