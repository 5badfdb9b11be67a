// Random modules, made with the builder: they verify, and text brings back the same text and
// structure.
#include "support/catch.h"

#include "ir/module/builder.h"
#include "ir/module/infer.h"
#include "ir/text/text.h"
#include "ops/table/ops.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace cugrt;
using namespace cugrt::ir;

namespace {

class Draw {
public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  bool once_in(uint32_t n) { return below(n) == 0; }
  double real() {
    uint64_t bits = uint64_t(random_()) << 32 | random_();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return std::isnan(value) ? 0.5 : value;
  }
  std::string bytes() {
    std::string text;
    for (uint32_t i = below(12); i-- > 0;)
      text += static_cast<char>(below(4) ? 32 + below(95) : below(256));
    return text;
  }

private:
  std::mt19937 random_;
};

/// Draws one function: tensors of shape [n, 64] and [n, m] through every kind of binding.
class RandomFunction {
public:
  RandomFunction(Module &m, Draw &draw, std::string name)
      : m_(m), d_(draw), b_(m, std::move(name)) {
    // Numbers in an order that the text does not have, now and then.
    if (d_.once_in(2))
      n_ = b_.symbol({.name = "n", .bounds = {1, 64}}), k_ = b_.symbol({.name = "k"});
    else
      k_ = b_.symbol({.name = "k", .bounds = {-3, 9}}), n_ = b_.symbol({.name = "n"});
    type_ = m_.types.tensor(DType::f32, {sym(n_), m_.exprs.constant(64)});
    readable_.push_back(b_.param("x", type_));
    writable_.push_back(b_.param("y", type_, Access::inout, 16));
    flag_ = b_.param("c", m_.types.scalar(ScalarKind::boolean));
    b_.param("k", m_.types.scalar(ScalarKind::integer, sym(k_)));
    readable_.push_back(writable_[0]);
  }

  Function finish(uint32_t count) {
    fill(count, 0);
    Operand result = Operand::of(readable_.back());
    b_.function().result_types = {type_};
    if (d_.once_in(3))
      b_.function().constraints = {
          {m_.exprs.mul(sym(n_), m_.exprs.constant(3)), 1000 + int64_t(d_.below(100))},
          {m_.exprs.add(m_.exprs.mul(sym(n_), sym(n_)), sym(n_)), 5000}};
    if (d_.once_in(2))
      b_.function().extra_attributes = {{"note", d_.bytes()}, {"scale", d_.real()}};
    return b_.finish({&result, 1});
  }

private:
  ExprId sym(SymbolId s) { return m_.exprs.symbol(s); }
  ExprId bytes() { return m_.exprs.mul(sym(n_), m_.exprs.constant(256)); }
  template <class List> auto any(const List &list) { return list[d_.below(uint32_t(list.size()))]; }

  ExprId expr(int depth) {
    if (depth == 0 || d_.once_in(4))
      return d_.once_in(2) ? m_.exprs.constant(int64_t(d_.below(20)) - 5)
                           : sym(d_.once_in(2) ? n_ : k_);
    auto kind = static_cast<ExprKind>(uint32_t(ExprKind::add) + d_.below(13));
    ExprId a = expr(depth - 1), b = expr(depth - 1);
    return m_.exprs.make(kind, a, b, kind == ExprKind::select ? expr(depth - 1) : ExprId());
  }

  ValueId bind(BindingKind kind, std::vector<Operand> operands, std::vector<ExprId> exprs,
               std::vector<TypeId> types, uint32_t callee = UINT32_MAX,
               std::vector<Attribute> attributes = {}) {
    Binding binding{};
    binding.kind = kind;
    binding.callee = callee;
    std::vector<std::string> hints(types.size(), d_.once_in(2) ? "t" : "");
    return b_.bind(std::move(binding), operands, exprs, attributes, hints, types);
  }

  void fill(uint32_t count, uint32_t nesting) {
    for (uint32_t i = 0; i < count; ++i)
      step(nesting);
  }

  void step(uint32_t nesting) {
    switch (d_.below(nesting < 3 ? 12 : 10)) {
    case 0: {
      ValueId s = b_.alloc_storage("s", d_.once_in(3) ? "ipc" : "global", bytes());
      uint32_t scope = m_.types[b_.function().value(s).type].scope;
      Type t = m_.types[type_];
      t.scope = scope;
      ValueId v = b_.alloc_tensor("", s, m_.exprs.constant(0), m_.types.intern(t));
      if (scope == 0)
        add(v);
      return;
    }
    case 1:
      return add(b_.alloc("u", type_));
    case 2: {
      Operand operands[] = {Operand::of(any(readable_)), Operand::of(any(writable_)),
                            Operand::of(expr(4)), b_.literal(d_.real())};
      return b_.launch(0, operands);
    }
    case 3: {
      ValueId v = bind(BindingKind::alias, {Operand::of(any(writable_))}, {}, {type_});
      return add(v);
    }
    case 4:
      b_.view("", any(readable_), m_.exprs.constant(128),
              m_.types.tensor(DType::f16, {sym(n_), m_.exprs.constant(64)}));
      return;
    case 5: {
      std::vector<Operand> fields = {Operand::of(any(readable_)), Operand::of(expr(3))};
      std::vector<TypeId> types;
      for (const Operand &o : fields)
        types.push_back(operand_type(m_, b_.function(), o));
      ValueId t = bind(BindingKind::tuple, fields, {}, {m_.types.tuple(types)});
      bind(BindingKind::tuple_element, {Operand::of(t)}, {m_.exprs.constant(0)}, {type_});
      return;
    }
    case 6: {
      SymbolId a = b_.symbol({.name = "a", .source = SymbolSource::match, .bounds = {0, 99}});
      TypeId t = m_.types.tensor(DType::f32, {sym(a), m_.exprs.constant(64)});
      bind(BindingKind::match_shape, {Operand::of(any(readable_))}, m_.types[t].dims, {t});
      return;
    }
    case 7: {
      std::vector<Attribute> attributes = {{"list", std::vector<double>{d_.real(), 1}}};
      Operand s = b_.literal(d_.bytes());
      bind(d_.once_in(2) ? BindingKind::host_call : BindingKind::extern_call,
           {Operand::of(any(readable_)), s, b_.literal(DTypeLiteral{DType::q4_0}), {}}, {},
           {type_, m_.types.simple(TypeKind::object)}, b_.callee_name("lib." + d_.bytes()),
           attributes);
      return;
    }
    case 8: {
      Operand o = d_.once_in(2) ? b_.literal(d_.real()) : Operand::of(expr(5));
      bind(BindingKind::literal, {o}, {}, {operand_type(m_, b_.function(), o)});
      return;
    }
    case 9: {
      ValueId v = bind(BindingKind::op, {Operand::of(any(readable_)), Operand::of(any(readable_))},
                       {}, {type_}, uint32_t(Op::add));
      return add(v);
    }
    case 10:
      return branch(nesting);
    default:
      return loop(nesting);
    }
  }

  void add(ValueId v) {
    readable_.push_back(v);
    writable_.push_back(v);
  }

  /// Everything visible is captured; what the block defines is forgotten after it.
  template <class F>
  void nested(std::span<const TypeId> params, const F &results, uint32_t nesting,
              uint32_t &number) {
    auto readable = readable_, writable = writable_;
    number = b_.begin_block(params, {});
    for (uint32_t i = 0; i < params.size(); ++i)
      if (params[i] == type_)
        readable_.push_back(b_.block_param(number, i));
    fill(d_.below(4), nesting + 1);
    std::vector<Operand> list = results(number);
    b_.end_block(list);
    readable_ = readable;
    writable_ = writable;
  }

  std::vector<Operand> captures() {
    std::vector<Operand> list;
    for (ValueId v : readable_)
      list.push_back(Operand::of(v));
    list.push_back(Operand::of(flag_));
    return list;
  }

  void branch(uint32_t nesting) {
    uint32_t first = 0, second = 0;
    auto yield = [&](uint32_t) { return std::vector<Operand>{Operand::of(any(readable_))}; };
    nested({}, yield, nesting, first);
    nested({}, yield, nesting, second);
    Binding binding{};
    binding.kind = BindingKind::if_;
    binding.blocks = {first, 2};
    std::vector<Operand> operands = {d_.once_in(2) ? Operand::of(flag_) : Operand::of(expr(3))};
    auto captured = captures();
    operands.insert(operands.end(), captured.begin(), captured.end());
    add(b_.bind(binding, operands, {}, {}, {}, {&type_, 1}));
  }

  void loop(uint32_t nesting) {
    uint32_t first = 0, second = 0;
    std::vector<TypeId> params = {type_, m_.types.scalar(ScalarKind::integer)};
    auto test = [&](uint32_t) { return std::vector<Operand>{Operand::of(flag_)}; };
    auto next = [&](uint32_t number) {
      return std::vector<Operand>{Operand::of(any(readable_)),
                                  Operand::of(b_.block_param(number, 1))};
    };
    nested(params, test, nesting, first);
    nested(params, next, nesting, second);
    Binding binding{};
    binding.kind = BindingKind::while_;
    binding.blocks = {first, 2};
    binding.carried_count = 2;
    std::vector<Operand> operands = {Operand::of(any(readable_)), Operand::of(expr(2))};
    auto captured = captures();
    operands.insert(operands.end(), captured.begin(), captured.end());
    readable_.push_back(b_.bind(binding, operands, {}, {}, {}, params));
  }

  Module &m_;
  Draw &d_;
  FunctionBuilder b_;
  SymbolId n_, k_;
  TypeId type_;
  ValueId flag_;
  std::vector<ValueId> readable_, writable_;
};

Kernel kernel(Module &m, Draw &d) {
  Kernel k;
  k.name = "k";
  k.code_kind = CodeKind::source_text;
  k.code = "text\n" + d.bytes() + ".";
  k.entry = "e" + d.bytes();
  k.options = {d.bytes(), d.bytes()};
  k.symbols = {"n"};
  ExprId n = m.exprs.symbol({0}), one = m.exprs.constant(1);
  k.params.resize(4);
  k.params[0].name = "x";
  k.params[0].any_dtype = true;
  k.params[1].name = "y";
  k.params[1].access = Access::inout;
  k.params[2] = {"n", KernelParamKind::symbol, Access::in, DType::i64, false, {0}};
  k.params[3] = {"s", KernelParamKind::scalar, Access::in, DType::f64, false, {}};
  KernelVariant small;
  small.predicate = m.exprs.make(ExprKind::lt, n, m.exprs.constant(1 + d.below(9)));
  small.grid = {one, one, m.exprs.max(n, one)};
  small.block = {m.exprs.constant(32), one, one};
  small.workspace_bytes = m.exprs.mul(n, m.exprs.constant(4));
  KernelVariant other = small;
  other.predicate = {};
  other.cooperative = d.once_in(2);
  other.cluster = {2, 1, 1};
  k.variants = {small, other};
  return k;
}

Constant constant(Module &m, Draw &d, uint32_t number) {
  Constant c;
  c.name = "c" + std::to_string(number);
  auto dtype = static_cast<DType>(d.below(uint32_t(DType::iq4_nl) + 1));
  uint32_t count = info(dtype).elements_per_block * d.below(80);
  c.type = m.types.tensor(dtype, {m.exprs.constant(count)});
  uint32_t bytes = count / info(dtype).elements_per_block * info(dtype).bytes_per_block;
  for (uint32_t i = 0; i < bytes; ++i)
    c.bytes += static_cast<char>(d.below(dtype == DType::boolean ? 2 : 256));
  return c;
}

Module draw_module(uint32_t seed) {
  Draw d(seed);
  Module m;
  m.kernels.push_back(kernel(m, d));
  for (uint32_t i = d.below(4); i-- > 0;)
    m.constants.push_back(constant(m, d, i));
  for (uint32_t i = 0; i < 1 + d.below(3); ++i)
    m.functions.push_back(RandomFunction(m, d, "f" + std::to_string(i)).finish(d.below(12)));
  return m;
}

void check_same_structure(const Function &a, const Function &b) {
  REQUIRE(a.values.size() == b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i)
    CHECK(a.values[i].name == b.values[i].name);
  REQUIRE(a.symbols.size() == b.symbols.size());
  for (size_t i = 0; i < a.symbols.size(); ++i) {
    CHECK(a.symbols[i].name == b.symbols[i].name);
    CHECK(a.symbols[i].source == b.symbols[i].source);
    CHECK(a.symbols[i].bounds == b.symbols[i].bounds);
  }
  REQUIRE(a.constraints.size() == b.constraints.size());
  for (size_t i = 0; i < a.constraints.size(); ++i)
    CHECK(a.constraints[i].most == b.constraints[i].most);
  REQUIRE(a.blocks.size() == b.blocks.size());
  CHECK(a.extra_attributes == b.extra_attributes);
  CHECK(a.attributes == b.attributes);
  for (size_t i = 0; i < a.blocks.size(); ++i) {
    REQUIRE(a.blocks[i].bindings.size() == b.blocks[i].bindings.size());
    CHECK(a.blocks[i].first_param == b.blocks[i].first_param);
    for (size_t j = 0; j < a.blocks[i].bindings.size(); ++j) {
      const Binding &x = a.blocks[i].bindings[j], &y = b.blocks[i].bindings[j];
      CHECK(x.kind == y.kind);
      CHECK(x.first_result == y.first_result);
      CHECK(x.blocks == y.blocks);
      CHECK(x.operands == y.operands);
      CHECK(x.carried_count == y.carried_count);
    }
  }
}

} // namespace

TEST_CASE("random modules verify, and print and parse bring back the same text and structure") {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    INFO("seed " << seed);
    Module m = draw_module(seed);
    std::string text = print(m);
    Diagnostics diagnostics;
    verify(m, diagnostics);
    INFO(diagnostics.render("built", ""));
    INFO(text);
    REQUIRE(diagnostics.empty());
    Module again = parse(text, diagnostics);
    INFO(diagnostics.render("printed", text));
    REQUIRE(diagnostics.empty());
    REQUIRE(print(again) == text);
    verify(again, diagnostics);
    REQUIRE(diagnostics.empty());
    REQUIRE(again.functions.size() == m.functions.size());
    for (size_t i = 0; i < m.functions.size(); ++i)
      check_same_structure(m.functions[i], again.functions[i]);
    REQUIRE(again.constants.size() == m.constants.size());
    for (size_t i = 0; i < m.constants.size(); ++i)
      REQUIRE(again.constants[i].bytes == m.constants[i].bytes);
    REQUIRE(again.kernels[0].code == m.kernels[0].code);
    REQUIRE(again.kernels[0].options == m.kernels[0].options);
  }
}

TEST_CASE("expressions survive text, whatever their shape") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Module m;
    FunctionBuilder b(m, "f");
    std::vector<ExprId> pool;
    for (int i = 0; i < 24; ++i) // more terms than the pool keeps sorted
      pool.push_back(m.exprs.symbol(b.symbol({.name = "n"})));
    for (ExprId s : pool)
      b.param("k", m.types.scalar(ScalarKind::integer, s));
    for (int64_t v : {int64_t(0), int64_t(1), int64_t(-1), int64_t(7), INT64_MAX, INT64_MIN})
      pool.push_back(m.exprs.constant(v));
    for (int i = 0; i < 60; ++i) {
      auto at = [&] { return pool[random() % pool.size()]; };
      auto kind =
          static_cast<ExprKind>(unsigned(ExprKind::add) + random() % (random() % 4 ? 3 : 13));
      ExprId e = m.exprs.make(kind, at(), at(), at());
      if (m.exprs.depth(e) < 40)
        pool.push_back(e);
    }
    for (ExprId e : pool) {
      Operand o = Operand::of(e);
      Binding binding{};
      binding.kind = BindingKind::literal;
      TypeId t = m.types.scalar(ScalarKind::integer, e);
      b.bind(binding, {&o, 1}, {}, {}, {}, {&t, 1});
    }
    m.functions.push_back(b.finish({}));
    std::string text = print(m);
    Diagnostics diagnostics;
    Module again = parse(text, diagnostics);
    INFO("seed " << seed << "\n" << text << diagnostics.render("printed", text));
    REQUIRE(diagnostics.empty());
    REQUIRE(print(again) == text);
  }
}
