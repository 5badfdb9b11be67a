// Two interpreters that must agree: one runs the IR with memory of its own for every tensor, the
// other runs the plan with its arenas, slots and regions, each region's steps in a random order
// that its edges allow. Kernels hash what they read into what they write.
#pragma once

#include "compiler/planner/lower/regions.h"
#include "plan/format/plan.h"

#include "support/catch.h"

#include <memory>
#include <random>

namespace cugrt::test {

using Words = std::vector<uint32_t>;

inline uint32_t mix(uint32_t h, uint32_t v) {
  h = (h ^ v) * 0x9e3779b1u;
  return h ^ (h >> 15);
}

/// A tensor's words: part of a memory.
struct View {
  std::shared_ptr<Words> memory;
  size_t begin = 0, count = 0;
  uint32_t &operator[](size_t i) const { return (*memory)[begin + i]; }
  uint32_t hash(uint32_t h) const {
    for (size_t i = 0; i < count; ++i)
      h = mix(h, (*this)[i]);
    return h;
  }
};

inline View fresh(size_t count, uint32_t fill) {
  View view{std::make_shared<Words>(count), 0, count};
  for (size_t i = 0; i < count; ++i)
    view[i] = mix(fill, uint32_t(i));
  return view;
}
inline void copy(const View &to, const View &from) {
  REQUIRE(to.count == from.count);
  Words words(from.memory->begin() + ptrdiff_t(from.begin),
              from.memory->begin() + ptrdiff_t(from.begin + from.count));
  std::copy(words.begin(), words.end(), to.memory->begin() + ptrdiff_t(to.begin));
}
/// See RandomModule::condition for "odd" and "go".
inline void run_kernel(const std::string &accesses, const std::vector<View> &views) {
  if (accesses == "odd") {
    views[1][0] = views[0].hash(7) & 1;
    return;
  }
  if (accesses == "go") {
    views[1][0] = mix(7, ++views[0][0]) >> 16 & 1;
    return;
  }
  uint32_t h = uint32_t(accesses.size());
  for (size_t i = 0; i < views.size(); ++i)
    if (accesses[i] != 'o' && accesses[i] != 'O')
      h = views[i].hash(h);
  for (size_t i = 0; i < views.size(); ++i)
    for (size_t k = 0; accesses[i] != 'i' && k < views[i].count; ++k)
      views[i][k] = mix(mix(h, uint32_t(i)), uint32_t(k));
}

/// What host functions saw, and how often a loop may go on.
struct Host {
  std::vector<uint32_t> trace;
  int turns = 5; // in all loops together
  bool more(const View &view) {
    trace.push_back(view.hash(1));
    return turns-- > 1;
  }
};

class IrRun {
public:
  IrRun(const ir::Module &module, Host &host) : m_(module), host_(host) {}

  std::vector<View> call(uint32_t function, const std::vector<View> &arguments, bool flag) {
    Scope scope{m_.functions[function], {}, {}, flag};
    scope.views.resize(scope.f.values.size());
    scope.symbols = {0};
    for (size_t p = 0; p < scope.f.params.size(); ++p)
      scope.views[scope.f.params[p].value.index] = arguments[p];
    scope.symbols[0] = int64_t(arguments[0].count / 4);
    return block(scope, 0);
  }

private:
  struct Scope {
    const ir::Function &f;
    std::vector<View> views;
    std::vector<int64_t> symbols;
    bool flag;
    bool condition = false;
  };

  size_t words(const Scope &scope, ir::ValueId value) const {
    size_t n = 1;
    for (ir::ExprId dim : m_.types[scope.f.value(value).type].dims)
      n *= size_t(*m_.exprs.evaluate(dim, scope.symbols));
    return n;
  }

  std::vector<View> block(Scope &scope, uint32_t index) {
    const ir::Block &block = scope.f.blocks[index];
    for (const ir::Binding &b : block.bindings)
      binding(scope, b);
    std::vector<View> results;
    for (const ir::Operand &r : scope.f.results_of(block))
      results.push_back(scope.views[r.index]);
    return results;
  }

  void binding(Scope &scope, const ir::Binding &b) {
    std::span<const ir::Operand> operands = scope.f.operands_of(b);
    std::vector<View> views;
    for (const ir::Operand &operand : operands)
      views.push_back(operand.kind == ir::Operand::Kind::value ? scope.views[operand.index]
                                                               : View{});
    View *result = b.result_count ? &scope.views[b.first_result] : nullptr;
    switch (b.kind) {
    case ir::BindingKind::alloc:
    case ir::BindingKind::alloc_tensor:
      *result = fresh(words(scope, b.result()), 77);
      break;
    case ir::BindingKind::alias:
    case ir::BindingKind::match_shape: // of dimensions that agree
      *result = views[0];
      break;
    case ir::BindingKind::launch:
      run_kernel(m_.kernels[b.callee].name, views);
      break;
    case ir::BindingKind::view: {
      int64_t offset = *m_.exprs.evaluate(scope.f.exprs_of(b)[0], scope.symbols);
      *result = {views[0].memory, views[0].begin + size_t(offset / 4), words(scope, b.result())};
      break;
    }
    case ir::BindingKind::call: {
      std::vector<View> results = call(b.callee, views, scope.flag);
      std::copy(results.begin(), results.end(), result);
      break;
    }
    case ir::BindingKind::host_call:
      if (m_.callee_names[b.callee] == "more")
        scope.condition = host_.more(views[0]);
      else
        host_.trace.push_back(views[0].hash(2));
      break;
    case ir::BindingKind::if_: {
      bool holds = views[0].memory ? views[0][0] != 0 : scope.flag;
      if (operands[0].kind == ir::Operand::Kind::expr)
        holds = *m_.exprs.evaluate(operands[0].expr(), scope.symbols) != 0;
      View yielded = block(scope, b.blocks.begin + (holds ? 0 : 1))[0];
      *result = fresh(yielded.count, 0);
      copy(*result, yielded);
      break;
    }
    case ir::BindingKind::while_:
      loop(scope, b, views);
      break;
    default:
      break;
    }
  }

  void loop(Scope &scope, const ir::Binding &b, std::vector<View> carried) {
    while (true) {
      for (View &view : carried) { // values, not places
        View own = fresh(view.count, 0);
        copy(own, view);
        view = own;
      }
      for (uint32_t block = b.blocks.begin; block < b.blocks.end(); ++block)
        for (uint32_t i = 0; i < carried.size(); ++i)
          scope.views[scope.f.blocks[block].first_param + i] = carried[i];
      View more = block(scope, b.blocks.begin)[0];
      if (!(more.memory ? more[0] != 0 : scope.condition))
        break;
      carried = block(scope, b.blocks.begin + 1);
    }
    for (uint32_t i = 0; i < carried.size(); ++i)
      scope.views[b.first_result + i] = carried[i];
  }

  const ir::Module &m_;
  Host &host_;
};

class PlanRun {
public:
  PlanRun(const plan::Plan &plan, Host &host, uint32_t seed)
      : p_(plan), host_(host), random_(seed) {
    for (const plan::Arena &arena : plan.arenas)
      arenas_.push_back(fresh(size_t(arena.bytes + 3) / 4, seed));
  }

  /// `arguments` stand for the tensor and weight parameters, others are not looked at; `results`
  /// are the memory of result slots, or empty to have it made.
  std::vector<View> call(uint32_t function, const std::vector<View> &arguments, bool flag,
                         const std::vector<View> &results = {}) {
    Scope scope{p_.functions[function], {}, {}, {}, {}, flag};
    scope.symbols.assign(scope.f.symbols.size(), 0);
    if (!scope.symbols.empty())
      scope.symbols[0] = int64_t(arguments[0].count / 4);
    scope.arguments = arguments;
    scope.dynamic.resize(scope.f.dynamic_count);
    for (const plan::Slot &slot : scope.f.slots) {
      bool param = slot.kind == plan::SlotKind::param;
      if (param)
        scope.slots.push_back(arguments[slot.index]);
      else if (slot.index < results.size() && results[slot.index].memory)
        scope.slots.push_back(results[slot.index]);
      else
        scope.slots.push_back(fresh(size_t(value(scope, slot.bytes)) / 4, 99));
      REQUIRE(scope.slots.back().count * 4 == size_t(value(scope, slot.bytes)));
    }
    block(scope, 0);
    std::vector<View> out;
    for (const plan::FunctionResult &result : scope.f.results)
      out.push_back(view(scope, result.buffer));
    return out;
  }

private:
  struct Scope {
    const plan::Function &f;
    std::vector<int64_t> symbols;
    std::vector<View> arguments, slots, dynamic;
    bool flag;
    bool condition = false;
  };

  int64_t value(const Scope &scope, ir::ExprId expr) const {
    return *p_.exprs.evaluate(expr, scope.symbols);
  }

  View view(const Scope &scope, uint32_t index) const {
    const plan::Buffer &b = scope.f.buffers[index];
    size_t begin = size_t(value(scope, b.offset_bytes)) / 4;
    size_t count = size_t(value(scope, b.bytes)) / 4;
    View base = b.base == plan::BufferBase::arena    ? arenas_[b.index]
                : b.base == plan::BufferBase::slot   ? scope.slots[b.index]
                : b.base == plan::BufferBase::weight ? scope.arguments[b.index]
                                                     : scope.dynamic[b.index];
    REQUIRE(base.memory);
    REQUIRE(begin + count <= base.count);
    return {base.memory, base.begin + begin, count};
  }

  void step(const Scope &scope, const plan::Step &step) {
    if (step.kind == plan::StepKind::copy) {
      copy(view(scope, scope.f.accesses[step.accesses.begin].buffer),
           view(scope, scope.f.accesses[step.accesses.begin + 1].buffer));
      return;
    }
    if (step.kind == plan::StepKind::empty)
      return;
    std::vector<View> views;
    for (uint32_t a = step.arguments.begin; a < step.arguments.end(); ++a)
      views.push_back(view(scope, scope.f.arguments[a].index));
    run_kernel(p_.kernels[step.kernel].name, views);
  }

  void region(const Scope &scope, const plan::Region &region) {
    auto levels = plan::find_region_levels(scope.f, region.steps);
    REQUIRE(levels);
    level(scope, region, *levels, 0);
  }

  /// A region's own steps, or those of a body, in any order that the edges allow. What a body's
  /// step sets its loop's condition to.
  bool level(const Scope &scope, const plan::Region &region, const plan::RegionLevels &levels,
             uint32_t index) {
    const std::vector<uint32_t> &steps = levels.levels[index].steps;
    std::vector<uint32_t> waits(region.steps.count, 0), ready;
    for (const plan::Edge &edge : region.edges)
      ++waits[edge.to];
    for (uint32_t s : steps)
      if (waits[s] == 0)
        ready.push_back(s);
    size_t done = 0;
    bool again = false;
    for (; !ready.empty(); ++done) {
      size_t i = random_() % ready.size();
      uint32_t s = ready[i];
      ready.erase(ready.begin() + ptrdiff_t(i));
      const plan::Step &now = scope.f.steps[region.steps.begin + s];
      const bool runs = !now.when.valid() || value(scope, now.when) != 0;
      if (!runs)
        ; // of a branch that is not taken
      else if (now.kind == plan::StepKind::conditional)
        conditional(scope, region, levels, s);
      else if (now.kind == plan::StepKind::set_condition)
        again = condition(scope, now);
      else
        step(scope, now);
      for (const plan::Edge &edge : region.edges)
        if (edge.from == s && --waits[edge.to] == 0)
          ready.push_back(edge.to);
    }
    REQUIRE(done == steps.size());
    return again;
  }

  bool condition(const Scope &scope, const plan::Step &step) const {
    return view(scope, scope.f.accesses[step.accesses.begin].buffer)[0] != 0;
  }

  void conditional(const Scope &scope, const plan::Region &region, const plan::RegionLevels &levels,
                   uint32_t s) {
    const plan::Step &own = scope.f.steps[region.steps.begin + s];
    auto body = [&](uint32_t number) {
      for (uint32_t l = 1; l < levels.levels.size(); ++l)
        if (levels.levels[l].step == s && levels.levels[l].body == number)
          return l;
      return plan::kNone;
    };
    bool holds = condition(scope, own);
    const plan::Conditional &what = scope.f.conditionals[own.conditional];
    if (what.kind == plan::ConditionalKind::while_) {
      while (holds)
        holds = level(scope, region, levels, body(0));
    } else if (holds || what.bodies.size() > 1) {
      level(scope, region, levels, body(holds ? 0 : 1));
    }
  }

  void block(Scope &scope, uint32_t index) {
    for (const plan::Item &item : scope.f.blocks[index].items)
      this->item(scope, item);
  }

  bool holds(const Scope &scope, const plan::OperandRef &condition) const {
    return holds(scope, condition, scope.flag);
  }
  bool holds(const Scope &scope, const plan::OperandRef &condition, bool of_host) const {
    if (condition.kind == plan::OperandRef::Kind::expr)
      return value(scope, {condition.index}) != 0;
    return condition.kind == plan::OperandRef::Kind::buffer ? view(scope, condition.index)[0] != 0
                                                            : of_host;
  }

  void item(Scope &scope, const plan::Item &item) {
    switch (item.kind) {
    case plan::ItemKind::region:
      return region(scope, scope.f.regions[item.index]);
    case plan::ItemKind::step:
      return step(scope, scope.f.steps[item.index]);
    case plan::ItemKind::allocate: {
      const plan::Buffer &b = scope.f.buffers[item.index];
      scope.dynamic[b.index] = fresh(size_t(value(scope, b.bytes)) / 4, random_());
      return;
    }
    case plan::ItemKind::release: {
      const plan::Buffer &b = scope.f.buffers[item.index];
      REQUIRE(scope.dynamic[b.index].memory);
      scope.dynamic[b.index] = {};
      return;
    }
    case plan::ItemKind::host_call: {
      View seen = view(scope, item.operands[0].index);
      if (item.name == "more")
        scope.condition = host_.more(seen);
      else
        host_.trace.push_back(seen.hash(2));
      return;
    }
    case plan::ItemKind::call: {
      std::vector<View> arguments, results;
      for (const plan::OperandRef &ref : item.operands)
        arguments.push_back(view(scope, ref.index));
      for (const plan::OperandRef &ref : item.results)
        results.push_back(view(scope, ref.index));
      std::vector<View> lies = call(item.index, arguments, scope.flag, results);
      for (size_t i = 0; i < lies.size(); ++i) // where the caller takes it to lie
        REQUIRE((lies[i].memory == results[i].memory && lies[i].begin == results[i].begin));
      return;
    }
    case plan::ItemKind::match: // of dimensions that agree
      return;
    case plan::ItemKind::if_:
      return block(scope, item.blocks.begin + (holds(scope, item.operands[0]) ? 0 : 1));
    case plan::ItemKind::while_:
      while (block(scope, item.blocks.begin),
             holds(scope, scope.f.blocks[item.blocks.begin].results[0], scope.condition))
        block(scope, item.blocks.begin + 1);
      return;
    default:
      FAIL("an item that these modules do not have");
    }
  }

  const plan::Plan &p_;
  Host &host_;
  std::mt19937 random_;
  std::vector<View> arenas_;
};

} // namespace cugrt::test
