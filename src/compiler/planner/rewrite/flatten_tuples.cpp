// Tuples that are handed to functions, field by field.
#include "compiler/planner/rewrite/inline_calls.h"

#include "base/check.h"
#include "compiler/ir_names.h"
#include "ir/module/function_cloner.h"
#include "ir/module/graph_builtins.h"
#include "ir/module/infer.h"
#include "ir/text/text.h"

namespace cugrt::plan {

namespace {

size_t count_parts(const ir::Module &module, TypeId type) {
  if (module.types[type].kind != TypeKind::tuple)
    return 1;
  size_t count = 0;
  for (TypeId field : module.types[type].fields)
    count += count_parts(module, field);
  return count;
}

bool takes_tuples(const ir::Module &module, const ir::Function &function) {
  size_t parts = 0;
  bool any = false;
  for (const ir::Parameter &param : function.params) {
    const TypeId type = function.value(param.value).type;
    any |= module.types[type].kind == TypeKind::tuple;
    parts += count_parts(module, type);
  }
  return any && parts <= ir::kMaxOperands;
}

/// Copies a function; `flat` says of which functions the parameters are taken apart.
class Flattener final : public ir::FunctionCloner {
public:
  Flattener(const ir::Function &source, uint32_t number, ir::Module &target,
            const std::vector<bool> &flat)
      : FunctionCloner(source, target), flat_(flat), is_flat_(flat[number]) {}

protected:
  void copy_params() override {
    if (!is_flat_)
      return FunctionCloner::copy_params();
    for (size_t i = 0; i < source().params.size(); ++i) {
      if (i == source().num_inputs)
        builder().function().num_inputs = uint32_t(builder().function().params.size());
      const ir::Value &value = source().value(source().params[i].value);
      add_params(value.name, value.type, source().params[i], value.location);
    }
  }

  Status enter_block(uint32_t block) override {
    if (block != 0 || !is_flat_)
      return {};
    size_t next = 0;
    for (const ir::Parameter &param : source().params) {
      const ir::Value &value = source().value(param.value);
      map(param.value, whole(value.name, value.type, value.location, next));
    }
    return {};
  }

  Status visit(const Binding &b) override {
    if (b.kind != BindingKind::call || !flat_[b.callee])
      return copy(b);
    std::vector<Operand> parts;
    for (const Operand &operand : mapped(source().operands_of(b)))
      take_apart(operand, b.location, parts);
    copy_with(b, parts);
    return {};
  }

private:
  void add_params(const std::string &name, TypeId type, const ir::Parameter &param,
                  SourceLocation location) {
    if (module().types[type].kind != TypeKind::tuple) {
      params_.push_back(builder().param(name, type, param.access, param.alignment_bytes, location));
      return;
    }
    const std::vector<TypeId> fields = module().types[type].fields;
    for (size_t i = 0; i < fields.size(); ++i)
      add_params(name + "." + std::to_string(i), fields[i], param, location);
  }

  /// A parameter of the source, from those of the copy that it became, `next` and following.
  ValueId whole(const std::string &name, TypeId type, SourceLocation location, size_t &next) {
    if (module().types[type].kind != TypeKind::tuple)
      return params_[next++];
    const std::vector<TypeId> types = module().types[type].fields;
    std::vector<Operand> fields;
    for (size_t i = 0; i < types.size(); ++i)
      fields.push_back(
          Operand::of(whole(name + "." + std::to_string(i), types[i], location, next)));
    Binding tuple{};
    tuple.kind = BindingKind::tuple;
    tuple.location = location;
    return builder().bind(tuple, fields, {}, {}, std::span(&name, 1), std::span(&type, 1));
  }

  void take_apart(const Operand &operand, SourceLocation location, std::vector<Operand> &parts) {
    const TypeId type = ir::operand_type(module(), builder().function(), operand);
    if (!type.valid() || module().types[type].kind != TypeKind::tuple) {
      parts.push_back(operand);
      return;
    }
    const std::string name = builder().function().value(operand.value()).name;
    const std::vector<TypeId> fields = module().types[type].fields;
    for (size_t i = 0; i < fields.size(); ++i) {
      const ir::ExprId index = module().exprs.constant(int64_t(i));
      const ValueId field = bind_value(BindingKind::tuple_element, name + "." + std::to_string(i),
                                       operand.value(), std::span(&index, 1), fields[i], location);
      take_apart(Operand::of(field), location, parts);
    }
  }

  const std::vector<bool> &flat_; // by function
  const bool is_flat_;
  std::vector<ValueId> params_; // of the copy
};

} // namespace

std::optional<ir::Module> flatten_tuples(const ir::Module &module) {
  const std::vector<bool> run_as_graphs = ir::functions_run_as_graphs(module);
  std::vector<bool> flat(module.functions.size());
  bool any = false;
  for (size_t f = 0; f < flat.size(); ++f) {
    const ir::Function &function = module.functions[f];
    flat[f] = function.is_private && !run_as_graphs[f] && takes_tuples(module, function);
    any |= flat[f];
  }
  if (!any)
    return std::nullopt;
  ir::Module out = ir::without_functions(module);
  for (uint32_t f = 0; f < flat.size(); ++f) {
    Result<ir::Function> function = Flattener(module.functions[f], f, out, flat).run();
    CUGRT_CHECK(function.ok()); // nothing that is visited can fail
    out.functions.push_back(std::move(function).value());
  }
  return out;
}

} // namespace cugrt::plan
