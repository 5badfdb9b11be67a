// A plan as text, for people and golden files. One line a thing; nested blocks are indented.
#include "support/describe_plan.h"

#include "ir/module/names.h"
#include "plan/edges/hazards.h"

namespace cugrt::plan {
namespace {

const char *access_word(Access access) {
  return access == Access::in ? "in" : access == Access::out ? "out" : "inout";
}

class Describer {
public:
  Describer(const Plan &plan, const Function &function)
      : plan_(plan), f_(function), names_(function.symbol_names()) {}

  std::string run() {
    line(0, std::string(f_.is_private ? "private " : "") + "function @" + f_.name);
    for (const Symbol &symbol : f_.symbols)
      line(1, "symbol " + symbol.name + " in [" + number(symbol.bounds.lower) + ", " +
                  number(symbol.bounds.upper) + "]" + source(symbol.source));
    for (const Bucket &bucket : f_.buckets)
      line(1, "bucket " + names_[bucket.symbol.index] + " of " + names_[bucket.of.index] + ": " +
                  ir::joined(bucket.sizes, [](int64_t size) { return std::to_string(size); }));
    for (const Constraint &constraint : f_.constraints)
      line(1, "constraint " + expr(constraint.expr) + " <= " + number(constraint.most));
    for (const Param &param : f_.params)
      describe(param);
    for (size_t i = 0; i < f_.results.size(); ++i)
      line(1, "result " + std::to_string(i) + ": " +
                  (f_.results[i].buffer != kNone ? buffer(f_.results[i].buffer)
                                                 : host_value(f_.results[i].host_value)));
    for (const CountedDim &counted : f_.counted_dims)
      line(1, "dimension " + std::to_string(counted.dim) + " of result " +
                  std::to_string(counted.result) + " is counted by result " +
                  std::to_string(counted.count));
    block(0, 1);
    return std::move(text_);
  }

private:
  void line(int depth, const std::string &text) {
    text_.append(size_t(depth) * 2, ' ');
    text_ += text;
    text_ += '\n';
  }
  static std::string number(int64_t n) {
    return n == INT64_MAX ? "inf" : n == INT64_MIN ? "-inf" : std::to_string(n);
  }
  static std::string source(ir::SymbolSource source) {
    return source == ir::SymbolSource::match    ? " from a match"
           : source == ir::SymbolSource::device ? " in device memory"
           : source == ir::SymbolSource::bucket ? " a bucket"
                                                : "";
  }
  std::string expr(ExprId id) const { return id.valid() ? plan_.exprs.to_string(id, names_) : "?"; }
  std::string exprs(std::span<const ExprId> ids) const {
    return ir::joined(ids, [&](ExprId id) { return expr(id); });
  }

  std::string buffer(uint32_t index) const {
    const Buffer &b = f_.buffers[index];
    std::string text = "%" + b.name + " = " + plan_.place_text(f_, b.base, b.index);
    if (!b.bytes.valid())
      return text + " (shape not known)";
    return text + " [" + expr(b.offset_bytes) + " + " + expr(b.bytes) + ")";
  }

  std::string host_value(uint32_t index) const {
    const HostValue &value = f_.host_values[index];
    switch (value.kind) {
    case HostValueKind::param:
      return "%" + f_.params[value.index].name;
    case HostValueKind::expr:
      return expr({value.index});
    case HostValueKind::literal:
      return literal(value);
    case HostValueKind::host_result:
    case HostValueKind::object:
      return "host value " + std::to_string(index);
    }
    return "";
  }

  static std::string literal(const HostValue &value) {
    if (value.scalar == ir::ScalarKind::boolean)
      return value.bits ? "true" : "false";
    if (value.scalar == ir::ScalarKind::integer)
      return std::to_string(int64_t(value.bits));
    double number;
    __builtin_memcpy(&number, &value.bits, sizeof number);
    char text[40];
    snprintf(text, sizeof text, "%.17g", number);
    return text;
  }

  std::string operand(const OperandRef &ref) const {
    switch (ref.kind) {
    case OperandRef::Kind::none:
      return "none";
    case OperandRef::Kind::buffer:
      return "%" + f_.buffers[ref.index].name;
    case OperandRef::Kind::host_value:
      return host_value(ref.index);
    case OperandRef::Kind::expr:
      return expr({ref.index});
    case OperandRef::Kind::string:
      return "\"" + f_.strings[ref.index] + "\"";
    case OperandRef::Kind::dtype:
      return std::string(ir::info(ir::DType(ref.index)).name);
    case OperandRef::Kind::list:
      return "(" + operands(f_.lists[ref.index]) + ")";
    }
    return "";
  }
  std::string operands(const std::vector<OperandRef> &refs) const {
    return ir::joined(refs, [&](const OperandRef &ref) { return operand(ref); });
  }

  void describe(const Param &param) {
    std::string text = "param %" + param.name + ": ";
    if (param.kind == ParamKind::scalar)
      text += param.dims.empty() ? "host scalar" : "host scalar " + expr(param.dims[0]);
    else if (param.kind == ParamKind::shape)
      text += "shape [" + exprs(param.dims) + "]";
    else
      text += std::string(param.kind == ParamKind::weight ? "weight " : "") +
              access_word(param.access) + " " + std::string(ir::info(param.dtype).name) +
              (param.known_shape ? "[" + exprs(param.dims) + "]" : "[?]") + " align " +
              std::to_string(param.alignment_bytes);
    line(1, text);
  }

  void step(int depth, const std::string &number, const Step &s) {
    std::string text = number + s.name + (s.when.valid() ? ", when " + expr(s.when) : "") + ":";
    for (uint32_t a = s.accesses.begin; a < s.accesses.end(); ++a)
      text += std::string(a == s.accesses.begin ? " " : ", ") + access_word(f_.accesses[a].access) +
              " " + buffer(f_.accesses[a].buffer);
    for (uint32_t a = s.arguments.begin; a < s.arguments.end(); ++a)
      if (f_.arguments[a].kind == ArgumentKind::checked_symbol)
        text += ", checked " + names_[f_.arguments[a].bits];
    line(depth, text);
    for (uint32_t l = s.launches.begin; l < s.launches.end(); ++l) {
      const LaunchRule &rule = f_.launches[l];
      std::string launch = "grid (" + exprs(rule.grid) + ") block (" + exprs(rule.block) + ")";
      if (rule.predicate.valid())
        launch = "when " + expr(rule.predicate) + " " + launch;
      if (rule.shared_bytes.valid())
        launch += " shared " + expr(rule.shared_bytes);
      line(depth + 1, launch);
    }
  }

  void region(int depth, const Region &r) {
    line(depth, "region " + r.name + " key (" +
                    ir::joined(r.key, [&](SymbolId s) { return f_.symbols[s.index].name; }) +
                    ") slots (" + ir::joined(r.slots, [&](uint32_t s) { return f_.slot_text(s); }) +
                    ")");
    steps(depth + 1, r, 0, r.steps.count);
    line(depth + 1, "edges " + (r.edges.empty() ? "none" : ir::joined(r.edges, [](const Edge &e) {
                      return std::to_string(e.from) + "->" + std::to_string(e.to);
                    })));
    if (!r.programmatic.empty())
      line(depth + 1, "programmatic " + ir::joined(r.programmatic, [&](uint32_t e) {
                        return std::to_string(r.edges[e].from) + "->" +
                               std::to_string(r.edges[e].to);
                      }));
  }

  /// Those of bodies are indented below their conditional.
  void steps(int depth, const Region &r, uint32_t begin, uint32_t end) {
    for (uint32_t s = begin; s < end; ++s) {
      const Step &own = f_.steps[r.steps.begin + s];
      step(depth, std::to_string(s) + " ", own);
      if (own.kind != StepKind::conditional)
        continue;
      const Conditional &conditional = f_.conditionals[own.conditional];
      for (size_t body = 0; body < conditional.bodies.size(); ++body) {
        const bool loop = conditional.kind == ConditionalKind::while_;
        line(depth + 1, loop ? "do" : body == 0 ? "then" : "else");
        steps(depth + 2, r, s + 1, s + 1 + conditional.bodies[body]);
        s += conditional.bodies[body];
      }
    }
  }

  void item(int depth, const Item &i) {
    std::string results = i.results.empty() ? "" : " -> (" + operands(i.results) + ")";
    std::string list = "(" + operands(i.operands) + ")";
    switch (i.kind) {
    case ItemKind::region:
      return region(depth, f_.regions[i.index]);
    case ItemKind::step:
      return step(depth, "step ", f_.steps[i.index]);
    case ItemKind::allocate:
      return line(depth, "allocate " + buffer(i.index));
    case ItemKind::release:
      return line(depth, "release %" + f_.buffers[i.index].name);
    case ItemKind::host_call:
      return line(depth, "host \"" + i.name + "\"" + list + results);
    case ItemKind::extern_call:
      return line(depth, "extern \"" + i.name + "\"" + list + results);
    case ItemKind::call:
      return line(depth, "call @" + plan_.functions[i.index].name + list + results);
    case ItemKind::match: {
      std::string defines =
          ir::joined(i.defines, [&](SymbolId s) { return f_.symbols[s.index].name; });
      return line(depth, "match " + operands(i.operands) + " : [" + exprs(i.dims) + "]" +
                             (defines.empty() ? "" : " defines " + defines));
    }
    case ItemKind::read:
      return line(depth, "read " + exprs(i.dims) + " from " + operands(i.operands));
    case ItemKind::copy_back:
      return line(depth, "copy_back " + operands(i.operands));
    case ItemKind::if_:
      line(depth, "if " + operands(i.operands) + results);
      block(i.blocks.begin, depth + 1);
      line(depth, "else");
      return block(i.blocks.begin + 1, depth + 1);
    case ItemKind::while_:
      line(depth, "while " + list + results);
      block(i.blocks.begin, depth + 1);
      line(depth, "do");
      return block(i.blocks.begin + 1, depth + 1);
    }
  }

  void block(uint32_t index, int depth) {
    const Block &b = f_.blocks[index];
    for (const Item &i : b.items)
      item(depth, i);
    if (index != 0)
      line(depth, "yield " + operands(b.results));
  }

  const Plan &plan_;
  const Function &f_;
  std::vector<std::string> names_;
  std::string text_;
};

} // namespace

std::string describe(const Plan &plan) {
  std::string text;
  for (const Arena &arena : plan.arenas)
    text += "arena " + arena.scope + ": " + std::to_string(arena.bytes) + " bytes, bound " +
            std::to_string(arena.lower_bound_bytes) + ", tensors " +
            std::to_string(arena.tensor_bytes) + "\n";
  for (const Function &function : plan.functions)
    text += Describer(plan, function).run();
  return text;
}

} // namespace cugrt::plan
