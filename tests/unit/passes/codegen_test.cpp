// Index spaces and kernel declarations.
#include "support/catch.h"

#include "compiler/fused/products.h"
#include "kernels/builtin.h"
#include "ops/emit/index_space.h"
#include "ops/emit/kernel_launch.h"

using namespace cugrt;
using namespace cugrt::codegen;

namespace {

struct Walk {
  ir::ExprPool exprs;
  ir::ExprId c(int64_t value) { return exprs.constant(value); }
  std::vector<ir::ExprId> list(std::initializer_list<int64_t> values) {
    std::vector<ir::ExprId> result;
    for (int64_t value : values)
      result.push_back(c(value));
    return result;
  }
  ir::Type tensor(std::initializer_list<int64_t> dims) {
    ir::Type type;
    type.kind = ir::TypeKind::tensor;
    type.dims = list(dims);
    return type;
  }
  /// Sizes and strides of the merged walk over `dims`, as integers.
  std::vector<std::vector<int64_t>> merged(std::vector<Dimension> dimensions) {
    std::vector<std::vector<int64_t>> rows;
    for (const Dimension &dimension : merge(exprs, std::move(dimensions))) {
      rows.push_back({*exprs.as_constant(dimension.size)});
      for (ir::ExprId stride : dimension.strides)
        rows.back().push_back(*exprs.as_constant(stride));
    }
    return rows;
  }
};

using Rows = std::vector<std::vector<int64_t>>;

/// A kernel over one size, launched `launches` times with the sizes 1, 2, ...
ir::Module launch_sizes(int launches) {
  ir::Module module;
  KernelTable table(module, {});
  ir::FunctionBuilder builder(module, "main");
  const ir::TypeId type = module.types.tensor(ir::DType::f32, {});
  const ir::ValueId x = builder.param("x", type);
  for (int i = 1; i <= launches; ++i) {
    KernelLaunch launch(table, builder, "k", "k.cu", "k");
    launch.input("x", x);
    launch.loop_variant(launch.size("length", module.exprs.constant(i)));
    launch.emit({});
  }
  module.functions.push_back(builder.finish({}));
  return module;
}

} // namespace

TEST_CASE("dimensions that all tensors walk alike become one") {
  Walk w;
  // Contiguous, and contiguous: one run of 24.
  CHECK(
      w.merged({{w.c(2), w.list({12, 12})}, {w.c(3), w.list({4, 4})}, {w.c(4), w.list({1, 1})}}) ==
      Rows{{24, 1, 1}});
  // The second broadcasts along the last dimension: it cannot be merged.
  CHECK(w.merged({{w.c(2), w.list({12, 3})}, {w.c(3), w.list({4, 1})}, {w.c(4), w.list({1, 0})}}) ==
        Rows{{6, 4, 1}, {4, 1, 0}});
  // Dimensions of size 1 go, whatever their strides.
  CHECK(w.merged({{w.c(1), w.list({99, 7})}, {w.c(5), w.list({1, 0})}}) == Rows{{5, 1, 0}});
  CHECK(w.merged({{w.c(1), w.list({0, 0})}}).empty());
}

TEST_CASE("symbolic dimensions merge when the strides are the same expression") {
  Walk w;
  const ir::ExprId n = w.exprs.symbol({0});
  const std::vector<ir::ExprId> dims = {w.c(4), n, w.c(8)};
  const std::vector<ir::ExprId> strides = contiguous_strides(w.exprs, dims);
  CHECK(strides[0] == w.exprs.mul(w.c(8), n));
  std::vector<Dimension> walk;
  for (size_t i = 0; i < 3; ++i)
    walk.push_back({dims[i], {strides[i]}});
  const std::vector<Dimension> merged = merge(w.exprs, walk);
  REQUIRE(merged.size() == 1);
  CHECK(merged[0].size == w.exprs.mul(w.c(32), n));
}

TEST_CASE("broadcasting gives stride 0 to what is missing or 1") {
  Walk w;
  CHECK(broadcast_strides(w.exprs, w.tensor({3, 1}), w.list({2, 3, 4})) == w.list({0, 1, 0}));
  CHECK(broadcast_strides(w.exprs, w.tensor({}), w.list({2, 3})) == w.list({0, 0}));
  CHECK(broadcast_strides(w.exprs, w.tensor({2, 3}), w.list({2, 3})) == w.list({3, 1}));
}

TEST_CASE("equal declarations are one kernel") {
  ir::Module module = launch_sizes(3);
  CHECK(module.kernels.size() == 3); // sizes 1, 2 and 3
  KernelTable again(module, {});
  ir::Kernel same = module.kernels[1];
  same.name = "another";
  CHECK(again.intern(same) == 1);
  same.options.push_back("-DX");
  CHECK(again.intern(same) == 3);
  CHECK(module.kernels[3].name == "another");
}

TEST_CASE("specialised kernels are bounded, and one takes the rest") {
  const ir::Module module = launch_sizes(int(kMaxSpecializations) + 10);
  REQUIRE(module.kernels.size() == kMaxSpecializations + 1);
  CHECK(module.kernels.front().options == std::vector<std::string>{"-DASSUME=length==1"});
  CHECK(module.kernels.back().options.empty());
  // All have the same parameters, so that every launch passes what its kernel declares.
  for (const ir::Kernel &kernel : module.kernels)
    CHECK(kernel.params.size() == 2);
  const ir::Block &body = module.functions[0].body();
  CHECK(body.bindings.back().callee == kMaxSpecializations);
  CHECK(body.bindings[kMaxSpecializations].callee == kMaxSpecializations);
}

TEST_CASE("32-bit indices are used only where bounds allow them") {
  auto options = [](int64_t upper) {
    ir::Module module;
    KernelTable table(module, {});
    ir::FunctionBuilder builder(module, "main");
    ir::Symbol symbol;
    symbol.name = "n";
    symbol.bounds.upper = upper;
    const ir::ExprId n = module.exprs.symbol(builder.symbol(symbol));
    KernelLaunch launch(table, builder, "k", "k.cu", "k");
    launch.index_type({module.exprs.mul(n, module.exprs.constant(64))});
    launch.loop_variant(launch.count("count", n));
    launch.emit({});
    return module.kernels[0].options;
  };
  CHECK(options((int64_t(1) << 25) - 1) == std::vector<std::string>{"-DINDEX=unsigned"});
  CHECK(options(int64_t(1) << 25).empty()); // 2^31 elements
  CHECK(options(INT64_MAX).empty());
}

TEST_CASE(
    "a generated source's includes of the library's become their text, once, at the right lines") {
  const std::string text = "// first\n#include \"builtin:assume.cuh\"\nint here;\n"
                           "#include \"builtin:nothing.cuh\"\n#include \"builtin:unary.cu\"\nlast";
  const std::string whole = kernels::with_builtin_includes(text, "generated");
  CHECK(whole.starts_with("// first\n#line 1 \"assume.cuh\"\n#ifndef CUGRT_ASSUME_CUH\n"));
  CHECK(whole.find("#endif\n#line 3 \"generated\"\nint here;\n") != std::string::npos);
  CHECK(whole.find("\n#include \"builtin:nothing.cuh\"\n#line 1 \"unary.cu\"\n") !=
        std::string::npos);
  CHECK(whole.ends_with("#line 6 \"generated\"\nlast"));
  CHECK(kernels::with_builtin_includes("", "generated").empty());
  CHECK(kernels::with_builtin_includes("#include \"builtin:", "g") == "#include \"builtin:");
  CHECK(kernels::with_builtin_includes("#include \"builtin:assume.cuh\"\n", "a\"\\\nb.cu")
            .ends_with("#line 2 \"a\\\"\\\\ b.cu\"\n"));
  // What a header says twice in one text is guarded.
  for (const kernels::BuiltinSource &source : kernels::builtin_sources())
    CHECK(source.name.ends_with(".cuh") == source.text.starts_with("#ifndef CUGRT_"));
}

namespace {

int64_t tile_width(const std::vector<int64_t> &parts, int64_t places, int64_t step = 16,
                   int64_t room = INT64_MAX) {
  return tile_columns({.columns = parts,
                       .step = step,
                       .allowed = 1024,
                       .places = places,
                       .has_room = [&](int64_t columns) { return columns <= room; }});
}

} // namespace

TEST_CASE("tiles of products are as narrow as one wave of blocks allows") {
  constexpr int64_t kTwice = 2 * 132;
  CHECK(tile_width({14336}, kTwice) == 64);            // 224 tiles; of 48 columns 299
  CHECK(tile_width({4096, 1024, 1024}, kTwice) == 32); // 192
  CHECK(tile_width({576, 192, 192}, kTwice) == 16);    // 60
  CHECK(tile_width({49152}, kTwice) == 192);           // 256; of 176 columns 280
  CHECK(tile_width({128256}, 132) == 976);             // 132; of 960 columns 134
  CHECK(tile_width({49152}, 32) == 768);               // two full waves; of 1,024 columns 48 tiles
  CHECK(tile_width({49152}, 32, 16, 100) == 96);       // 16 waves of 512 tiles
  CHECK(tile_width({1000, 1000}, 4, 80) == 560);       // a part has tiles of its own
  CHECK(tile_width({1000}, 1, 2000) == 2000);          // a step, whatever is allowed
}

TEST_CASE("two blocks of a product are resident where it takes up to 128 registers") {
  using ir::DType;
  const auto resident = [](DType x, DType w, int64_t rows = 1, bool repacked = true) {
    return resident_blocks({x, w, rows, repacked, repacked});
  };
  for (const DType w : {DType::q4_1, DType::q8_0, DType::q2_k, DType::q4_k, DType::q5_k})
    CHECK(resident(DType::f16, w, 8) == 2);
  CHECK(resident(DType::f16, DType::q6_k) == 1);
  CHECK(resident(DType::bf16, DType::q4_1) == 2);
  CHECK(resident(DType::bf16, DType::q4_k) == 1);
  CHECK(resident(DType::f32, DType::q6_k) == 2);
  CHECK(resident(DType::f32, DType::q6_k, 2) == 1);
  CHECK(resident(DType::f32, DType::q4_0, 2, false) == 2);
  CHECK(resident(DType::f16, DType::f16, 8) == 2);
  CHECK(resident(DType::f32, DType::f32, 1, false) == 4);
  CHECK(resident(DType::f64, DType::q4_0, 1, false) == 1);
}
