// Random kernel-level modules: planned and unplanned tensors, views, state, in-place updates,
// calls, branches and loops. Only tensors that were written are read, so every run has one right
// outcome. Conditions are the host's or, if asked for, most of them in device memory or over the
// symbol: then most branches and loops become part of a region.
#pragma once

#include "support/plan_module.h"

#include <random>

namespace cugrt::test {

class RandomModule {
public:
  PlanModule m;

  enum class Conditions { host, device };

  explicit RandomModule(uint32_t seed, uint32_t steps = 24,
                        Conditions conditions = Conditions::host)
      : random_(seed), device_(conditions == Conditions::device) {
    uint32_t leaves = pick(3);
    for (uint32_t i = 0; i < leaves; ++i)
      leaf("leaf" + std::to_string(i));
    main(steps);
  }

  uint32_t pick(uint32_t n) { return n ? uint32_t(random_() % n) : 0; }

private:
  struct Tensor {
    ir::ValueId value;
    bool writable, written;
    bool row;           // [n, 4]; else [16]
    bool owned = false; // made by this function: may be yielded and returned
  };
  using Tensors = std::vector<Tensor>;

  ir::TypeId row_type() { return m.floats({m.module.exprs.symbol({0}), m.constant(4)}); }
  ir::TypeId fixed_type() { return m.floats(16); }
  ir::ExprId row_bytes() { return m.module.exprs.mul(m.module.exprs.symbol({0}), m.constant(16)); }

  int find(const Tensors &t, bool written, bool writable, int row = -1, int except = -1) {
    std::vector<int> fits;
    for (int i = 0; i < int(t.size()); ++i)
      if ((!written || t[i].written) && (!writable || t[i].writable) && i != except &&
          (row < 0 || t[i].row == bool(row)))
        fits.push_back(i);
    return fits.empty() ? -1 : fits[pick(uint32_t(fits.size()))];
  }

  void launch(ir::FunctionBuilder &b, Tensors &t) {
    int out = find(t, false, true);
    if (out < 0)
      return;
    if (t[out].written && pick(3) == 0) {
      m.launch(b, "b", {t[out].value});
      return;
    }
    int in1 = find(t, true, false, -1, out), in2 = find(t, true, false, -1, out);
    if (in1 < 0)
      return;
    const bool over = (in1 + in2 + out) % 2; // it may be written in place where operands are alike
    if (pick(2))
      m.launch(b, over ? "iO" : "io", {t[in1].value, t[out].value});
    else
      m.launch(b, over ? "iiO" : "iio", {t[in1].value, t[in2].value, t[out].value});
    t[out].written = true;
  }

  void storage(ir::FunctionBuilder &b, Tensors &t) {
    if (pick(3) == 0) {
      t.push_back({m.planned(b, "f", 16), true, false, false, true});
      return;
    }
    // One or two tensors in a storage of symbolic size.
    uint32_t count = 1 + pick(2);
    ir::ValueId s =
        b.alloc_storage("s", "global", m.module.exprs.mul(row_bytes(), m.constant(count)));
    for (uint32_t i = 0; i < count; ++i)
      t.push_back(
          {b.alloc_tensor("t", s, m.module.exprs.mul(row_bytes(), m.constant(i)), row_type()), true,
           false, true, true});
  }

  void view(ir::FunctionBuilder &b, Tensors &t) {
    int source = find(t, true, false, 0);
    if (source < 0)
      return;
    Tensor part{b.view("v", t[source].value, m.constant(32 * pick(2)), m.floats(8)),
                t[source].writable, true, false, false};
    part.row = true; // not [16]: never the source of another view, never yielded
    part.owned = false;
    t.push_back(part);
  }

  void call(ir::FunctionBuilder &b, Tensors &t) {
    int in = find(t, true, false, 1), state = find(t, true, true, 1, in);
    if (m.module.functions.empty() || in < 0 || state < 0 || !t[in].owned || !t[state].owned)
      return;
    uint32_t callee = pick(uint32_t(m.module.functions.size()));
    ir::Binding binding{};
    binding.kind = ir::BindingKind::call;
    binding.callee = callee;
    ir::Operand operands[] = {ir::Operand::of(t[in].value), ir::Operand::of(t[state].value)};
    size_t results = m.module.functions[callee].result_types.size();
    std::vector<ir::TypeId> types(results, row_type());
    ir::ValueId first = b.bind(binding, operands, {}, {}, {}, types);
    t.push_back({first, true, true, true, true});
  }

  void look(ir::FunctionBuilder &b, Tensors &t) {
    if (int in = find(t, true, false); in >= 0)
      m.simple(b, ir::BindingKind::host_call, "", {t[in].value}, {}, b.callee_name("look"));
  }

  int owned_row(Tensors &t) {
    std::vector<int> fits;
    for (int i = 0; i < int(t.size()); ++i)
      if (t[i].written && t[i].owned && t[i].row)
        fits.push_back(i);
    return fits.empty() ? -1 : fits[pick(uint32_t(fits.size()))];
  }

  /// A device scalar: "odd" is a bit of a hash of what it reads, "go" one of a count in `turns_`,
  /// so that loops end, also those within others.
  ir::ValueId condition(ir::FunctionBuilder &b, const std::string &kernel, ir::ValueId from) {
    ir::TypeId type = m.module.types.tensor(ir::DType::i32, {m.constant(1)});
    ir::ValueId storage = b.alloc_storage("s_" + kernel, "global", m.constant(4));
    ir::ValueId made = b.alloc_tensor(kernel, storage, m.constant(0), type);
    uint32_t number = m.kernel(kernel == "go" ? "bo" : "io");
    for (uint32_t k = 0; k < m.module.kernels.size(); ++k)
      if (m.module.kernels[k].name == kernel)
        number = k;
    if (m.module.kernels[number].name != kernel) {
      ir::Kernel named = m.module.kernels[number];
      named.name = named.entry = kernel;
      named.code = "// " + kernel;
      m.module.kernels.push_back(std::move(named));
      number = uint32_t(m.module.kernels.size() - 1);
    }
    b.launch(number, std::vector{ir::Operand::of(from), ir::Operand::of(made)});
    return made;
  }

  /// n < 5, say, or a number: n % 3.
  ir::ExprId symbol_condition() {
    ir::ExprId n = m.module.exprs.symbol({0}), k = m.constant(2 + pick(6));
    const ir::ExprKind kinds[] = {ir::ExprKind::lt, ir::ExprKind::le, ir::ExprKind::eq,
                                  ir::ExprKind::ne, ir::ExprKind::mod};
    return m.module.exprs.make(kinds[pick(5)], n, k);
  }

  /// Within a body everything is on the device, or known before.
  bool on_device() { return device_ && (within_ || pick(4)); }

  void branch(ir::FunctionBuilder &b, Tensors &t, ir::ValueId flag, uint32_t depth) {
    if (owned_row(t) < 0)
      return;
    const bool device = on_device();
    ir::Operand condition = ir::Operand::of(flag);
    if (device && pick(3) == 0)
      condition = ir::Operand::of(symbol_condition());
    else if (device)
      condition = ir::Operand::of(this->condition(b, "odd", t[find(t, true, false)].value));
    within_ += device;
    ir::Binding binding{};
    binding.kind = ir::BindingKind::if_;
    for (int side = 0; side < 2; ++side) {
      uint32_t block = b.begin_block();
      if (side == 0)
        binding.blocks = {block, 2};
      Tensors inner = t;
      steps(b, inner, flag, 1 + pick(5), depth + 1);
      ir::Operand result = ir::Operand::of(inner[owned_row(inner)].value);
      b.end_block({&result, 1});
    }
    within_ -= device;
    ir::TypeId type = row_type();
    t.push_back({b.bind(binding, {&condition, 1}, {}, {}, {}, {&type, 1}), true, true, true, true});
  }

  void loop(ir::FunctionBuilder &b, Tensors &t, ir::ValueId flag, uint32_t depth) {
    int first = owned_row(t), second = owned_row(t);
    if (first < 0)
      return;
    ir::TypeId types[] = {row_type(), row_type()};
    ir::Binding binding{};
    binding.kind = ir::BindingKind::while_;
    binding.carried_count = 2;
    const bool device = on_device();
    within_ += device;
    uint32_t test = b.begin_block(types);
    binding.blocks = {test, 2};
    ir::ValueId more =
        device ? condition(b, "go", turns_)
               : m.simple(b, ir::BindingKind::host_call, "more", {b.block_param(test, 0)},
                          {m.module.types.scalar(ir::ScalarKind::boolean)}, b.callee_name("more"));
    ir::Operand go = ir::Operand::of(more);
    b.end_block({&go, 1});
    uint32_t body = b.begin_block(types);
    Tensors inner = t;
    for (uint32_t i = 0; i < 2; ++i)
      inner.push_back({b.block_param(body, i), true, true, true, true});
    steps(b, inner, flag, 1 + pick(5), depth + 1);
    ir::Operand yields[] = {ir::Operand::of(inner[owned_row(inner)].value),
                            ir::Operand::of(inner[owned_row(inner)].value)};
    if (pick(3) == 0) { // change places
      yields[0] = ir::Operand::of(b.block_param(body, 1));
      yields[1] = ir::Operand::of(b.block_param(body, 0));
    }
    b.end_block(yields);
    within_ -= device;
    ir::Operand initial[] = {ir::Operand::of(t[first].value), ir::Operand::of(t[second].value)};
    ir::ValueId r = b.bind(binding, initial, {}, {}, {}, types);
    t.push_back({r, true, true, true, true});
    t.push_back({{r.index + 1}, true, true, true, true});
  }

  void steps(ir::FunctionBuilder &b, Tensors &t, ir::ValueId flag, uint32_t count, uint32_t depth) {
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t what = pick(16);
      if (what < 3)
        storage(b, t);
      else if (what == 3)
        view(b, t);
      else if (what == 4 && !within_)
        t.push_back({b.alloc("d", row_type()), true, false, true, true});
      else if (what == 5)
        call(b, t);
      else if (what == 6 && !within_)
        look(b, t);
      else if (what == 7 && depth < 2 && flag.valid())
        branch(b, t, flag, depth);
      else if (what == 8 && depth < 2 && flag.valid())
        loop(b, t, flag, depth);
      else
        launch(b, t);
    }
  }

  void leaf(const std::string &name) {
    ir::FunctionBuilder b(m.module, name);
    b.function().is_private = true;
    b.symbol({.name = "m", .bounds = {1, 8}});
    Tensors t;
    t.push_back({b.param("u", row_type()), false, true, true});
    t.push_back({b.param("v", row_type(), ir::Access::inout), true, true, true});
    steps(b, t, {}, 4 + pick(6), 2);
    finish(b, t);
  }

  void main(uint32_t count) {
    ir::FunctionBuilder b(m.module, "main");
    b.symbol({.name = "n", .bounds = {1, 8}});
    Tensors t;
    t.push_back({b.param("x", row_type()), false, true, true});
    t.push_back({b.param("state", fixed_type(), ir::Access::inout), true, true, false});
    t.push_back({b.param("y", row_type(), ir::Access::out), true, false, true});
    ir::ValueId flag = b.param("flag", m.module.types.scalar(ir::ScalarKind::boolean));
    turns_ =
        b.param("turns", m.module.types.tensor(ir::DType::i32, {m.constant(1)}), ir::Access::inout);
    b.function().num_inputs = 5;
    t.push_back({b.param("w", fixed_type()), false, true, false});
    steps(b, t, flag, count, 0);
    finish(b, t);
  }

  void finish(ir::FunctionBuilder &b, Tensors &t) {
    ir::ValueId fresh = b.alloc("r", row_type());
    int in = find(t, true, false);
    m.launch(b, "io", {t[in].value, fresh});
    std::vector<ir::ValueId> results = {fresh};
    if (int other = owned_row(t); other >= 0 && pick(2))
      results.push_back(t[other].value); // planned storage, a construct's result, an allocation
    m.finish(b, results);
  }

  std::mt19937 random_;
  const bool device_;
  uint32_t within_ = 0; // constructs with a condition in device memory around
  ir::ValueId turns_{};
};

} // namespace cugrt::test
