// Data types, types, tensor sizes, and the builder.
#include "support/catch.h"

#include "ir/module/builder.h"
#include "ops/table/ops.h"

using namespace cugrt;
using namespace cugrt::ir;

TEST_CASE("every data type is found by its name and has a whole number of bits an element") {
  std::vector<std::string_view> names;
  for (int i = 0; i <= int(DType::iq4_nl); ++i) {
    auto dtype = static_cast<DType>(i);
    CHECK(dtype_from_name(info(dtype).name) == dtype);
    CHECK(info(dtype).elements_per_block > 0);
    CHECK(info(dtype).bytes_per_block > 0);
    CHECK(std::find(names.begin(), names.end(), info(dtype).name) == names.end());
    names.push_back(info(dtype).name);
  }
  CHECK(info(DType::boolean).name == "bool");
  CHECK_FALSE(dtype_from_name("f8").has_value());
}

namespace {

int64_t bytes_of(DType dtype, std::vector<int64_t> dims, std::vector<int64_t> strides = {}) {
  ExprPool pool;
  Type type;
  type.kind = TypeKind::tensor;
  type.dtype = dtype;
  for (int64_t d : dims)
    type.dims.push_back(pool.constant(d));
  for (int64_t s : strides)
    type.strides.push_back(pool.constant(s));
  return *pool.as_constant(tensor_bytes(pool, type));
}

} // namespace

TEST_CASE("a tensor's bytes follow its blocks, which never cross rows") {
  CHECK(bytes_of(DType::f32, {2, 3}) == 24);
  CHECK(bytes_of(DType::f16, {}) == 2);    // rank 0 is one element
  CHECK(bytes_of(DType::i4, {3, 5}) == 9); // 5 nibbles take 3 bytes a row
  CHECK(bytes_of(DType::i4, {}) == 1);
  CHECK(bytes_of(DType::q4_0, {4, 64}) == 4 * 2 * 18);
  CHECK(bytes_of(DType::q4_0, {2, 33}) == 2 * 2 * 18);
  CHECK(bytes_of(DType::q8_0, {32}) == 34);
  CHECK(bytes_of(DType::q6_k, {3, 512}) == 3 * 2 * 210);
  CHECK(bytes_of(DType::f32, {4, 0, 8}) == 0);
  CHECK(bytes_of(DType::f32, {4, 3}, {8, 1}) == 4 * (3 * 8 + 2 + 1));
  CHECK(bytes_of(DType::f32, {0, 3}, {8, 1}) == 0);
}

TEST_CASE("a strided tensor with a symbolic dimension has no bytes when that is 0") {
  ExprPool pool;
  Type type;
  type.kind = TypeKind::tensor;
  type.dims = {pool.symbol({0}), pool.constant(3)};
  type.strides = {pool.constant(8), pool.constant(1)};
  ExprId bytes = tensor_bytes(pool, type);
  int64_t zero[] = {0}, four[] = {4};
  CHECK(*pool.evaluate(bytes, zero) == 0);
  CHECK(*pool.evaluate(bytes, four) == 108);
}

TEST_CASE("equal types of a module have equal ids") {
  Module m;
  ExprId n = m.exprs.symbol({0});
  TypeId a = m.types.tensor(DType::f32, {n, m.exprs.constant(4)});
  CHECK(m.types.tensor(DType::f32, {n, m.exprs.constant(4)}) == a);
  CHECK(m.types.tensor(DType::f16, {n, m.exprs.constant(4)}) != a);
  CHECK(m.types.tensor(DType::f32, {n, m.exprs.constant(4)}, m.types.scope("ipc")) != a);
  CHECK(m.types.tuple({a, a}) == m.types.tuple({a, a}));
  CHECK(m.types.scope(kGlobalScope) == 0);
  for (int64_t i = 0; i < 1000; ++i)
    m.types.shape({m.exprs.constant(i)});
  CHECK(m.types.tensor(DType::f32, {n, m.exprs.constant(4)}) == a);
}

TEST_CASE("the builder keeps free names and makes the others unique") {
  Module m;
  FunctionBuilder b(m, "f");
  TypeId t = m.types.tensor(DType::f32, {});
  auto name = [&](ValueId id) { return b.function().value(id).name; };
  CHECK(name(b.param("x", t)) == "x");
  CHECK(name(b.value("x", t)) == "x_1");
  CHECK(name(b.value("x", t)) == "x_2");
  CHECK(name(b.value("x_3", t)) == "x_3");
  CHECK(name(b.value("x", t)) == "x_4");
  CHECK(name(b.value("", t)) == "v0");
  CHECK(name(b.value("", t)) == "v1");
  CHECK(name(b.value("a b/c", t)) == "a_b_c");
  CHECK(b.function().symbols.empty());
  CHECK(b.symbol({.name = "n"}).index == 0);
  CHECK(b.symbol({.name = "n"}).index == 1);
  b.symbol({.name = "f32"});
  CHECK(b.function().symbol_names() == std::vector<std::string>{"n", "n_1", "s_f32"});
}

TEST_CASE("blocks of one binding have consecutive numbers even when the first has blocks inside") {
  Module m;
  FunctionBuilder b(m, "f");
  TypeId flag = m.types.scalar(ScalarKind::boolean);
  ValueId c = b.param("c", flag);
  auto bind_if = [&](uint32_t first) {
    Binding binding{};
    binding.kind = BindingKind::if_;
    binding.blocks = {first, 2};
    Operand condition = Operand::of(c);
    b.bind(binding, {&condition, 1}, {}, {}, {}, {});
  };
  uint32_t outer = b.begin_block();
  uint32_t inner = b.begin_block();
  b.end_block({});
  CHECK(b.begin_block() == inner + 1);
  b.end_block({});
  bind_if(inner);
  b.end_block({});
  CHECK(b.begin_block() == outer + 1);
  b.end_block({});
  bind_if(outer);
  uint32_t next = b.begin_block();
  CHECK(next == 5);
  b.end_block({});
  b.begin_block();
  b.end_block({});
  bind_if(next);
  Function f = b.finish({});
  REQUIRE(f.blocks.size() == 7);
  CHECK(f.body().bindings.size() == 2);
  CHECK(f.blocks[outer].bindings.size() == 1);
}

TEST_CASE("the builder lays operands, expressions and results out in order") {
  Module m;
  FunctionBuilder b(m, "f");
  ExprId n = m.exprs.symbol(b.symbol({.name = "n"}));
  TypeId t = m.types.tensor(DType::f32, {n});
  ValueId x = b.param("x", t, Access::in, 16);
  ValueId s = b.alloc_storage("s", "ipc", tensor_bytes(m.exprs, m.types[t]));
  ValueId y = b.alloc_tensor("y", s, m.exprs.constant(0), t);
  Operand arguments[] = {Operand::of(x), Operand::of(y), Operand::of(n)};
  b.launch(7, arguments);
  b.kill(y);
  Operand result = Operand::of(x);
  Function f = b.finish({&result, 1});
  REQUIRE(f.body().bindings.size() == 4);
  const Binding &launch = f.body().bindings[2];
  CHECK(launch.callee == 7);
  CHECK(std::vector<Operand>(f.operands_of(launch).begin(), f.operands_of(launch).end()) ==
        std::vector<Operand>(std::begin(arguments), std::end(arguments)));
  CHECK(m.types[f.value(s).type].scope == m.types.scope("ipc"));
  CHECK(f.results_of(f.body()).size() == 1);
  CHECK(f.params[0].alignment_bytes == 16);
}

TEST_CASE("an empty attribute list is a list of integers, as it is in text") {
  Module m;
  FunctionBuilder b(m, "f");
  Binding binding{};
  binding.kind = BindingKind::op;
  Attribute attribute{"axes", std::vector<std::string>()};
  b.bind(binding, {}, {}, {&attribute, 1}, {}, {});
  CHECK(b.function().attributes[0].value == AttributeValue(std::vector<int64_t>()));
}

TEST_CASE("an op that broadcasts is elementwise where an operand has the result's dimensions") {
  Module m;
  auto tensor = [&](std::initializer_list<int64_t> sizes) {
    std::vector<ExprId> dims;
    for (int64_t size : sizes)
      dims.push_back(m.exprs.constant(size));
    return m.types.tensor(DType::f32, dims);
  };
  auto pattern = [&](Op op, std::vector<TypeId> operands, TypeId result) {
    return op_pattern(m, op, operands, result);
  };
  const TypeId matrix = tensor({4, 8}), row = tensor({8}), column = tensor({4, 1});
  CHECK(pattern(Op::add, {matrix, matrix}, matrix) == OpPattern::elementwise);
  CHECK(pattern(Op::add, {row, matrix}, matrix) == OpPattern::elementwise);
  CHECK(pattern(Op::add, {row, column}, matrix) == OpPattern::broadcast);
  CHECK(pattern(Op::exp, {matrix}, matrix) == OpPattern::elementwise);
  CHECK(pattern(Op::matmul, {matrix, matrix, TypeId()}, matrix) == OpPattern::out_fusable);
  // Fusion relies on the order.
  CHECK(OpPattern::elementwise < OpPattern::broadcast);
  CHECK(OpPattern::broadcast < OpPattern::injective);
  CHECK(OpPattern::injective < OpPattern::reduction);
  CHECK(OpPattern::reduction < OpPattern::out_fusable);
  CHECK(OpPattern::out_fusable < OpPattern::opaque);
}

TEST_CASE("values have the names that are asked for, and numbered ones where these are taken") {
  Module m;
  FunctionBuilder b(m, "f");
  const TypeId type = m.types.tensor(DType::f32, {});
  auto named = [&](std::string_view hint) { return b.function().value(b.value(hint, type)).name; };
  for (auto [hint, name] : std::initializer_list<std::pair<const char *, const char *>>{
           {"", "v0"},
           {"v", "v_1"}, // no value, but what numbers are given for
           {"a", "a"},
           {"a", "a_1"},
           {"a_1", "a_1_1"},
           {"a", "a_2"},
           {"x y", "x_y"},
           {"x_y", "x_y_1"},
           {"", "v2"}})
    CHECK(named(hint) == name);
  for (int i = 0; i < 1000; ++i) // far more than there is room for at first
    REQUIRE(named("n" + std::to_string(i)) == "n" + std::to_string(i));
  for (int i = 0; i < 1000; ++i)
    REQUIRE(named("n" + std::to_string(i)) == "n" + std::to_string(i) + "_1");
}
