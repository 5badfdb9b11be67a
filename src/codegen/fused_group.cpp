// How a group is split, and the texts of generated kernels.
#include "codegen/fused_group.h"

#include "codegen/element_code.h"
#include "codegen/op_emitter.h"
#include "support/check.h"

#include <algorithm>

namespace cugrt::codegen {

namespace {

constexpr uint32_t kNone = FusedGroup::kNoValue;
/// Of a generated kernel, besides those of its anchor: drivers take 4096 bytes, 8 a parameter.
constexpr size_t kMaxParameters = 400;

bool is_reduction(ir::Op op) {
  using enum ir::Op;
  return op == reduce_sum || op == reduce_mean || op == reduce_max || op == reduce_min ||
         op == reduce_prod;
}

/// Ops whose kernels have the places of kernels/fusion.cuh.
bool is_anchor(ir::Op op) {
  using enum ir::Op;
  switch (op) {
  case matmul:
  case conv1d:
  case conv2d:
  case max_pool2d:
  case avg_pool2d:
  case softmax:
  case log_softmax:
  case layer_norm:
  case rms_norm:
    return true;
  default:
    return is_reduction(op);
  }
}

/// The ops of one kernel by their places.
struct Places {
  uint32_t anchor = kNone;
  std::vector<uint32_t> before; // what the anchor's operands are computed by
  std::vector<uint32_t> after;  // the others
};

Places places_of(const FusedGroup &group, std::span<const uint32_t> ops) {
  Places places;
  for (uint32_t op : ops)
    if (is_anchor(group.ops[op].op))
      places.anchor = op;
  std::vector<bool> needed(group.values.size());
  if (places.anchor != kNone)
    for (uint32_t operand : group.ops[places.anchor].operands)
      if (operand != kNone)
        needed[operand] = true;
  for (size_t i = ops.size(); i-- > 0;) {
    const FusedOp &op = group.ops[ops[i]];
    if (ops[i] == places.anchor)
      continue;
    const bool is_before = places.anchor != kNone && ops[i] < places.anchor && needed[op.result];
    if (is_before)
      for (uint32_t operand : op.operands)
        if (operand != kNone)
          needed[operand] = true;
    (is_before ? places.before : places.after).push_back(ops[i]);
  }
  std::reverse(places.before.begin(), places.before.end());
  std::reverse(places.after.begin(), places.after.end());
  return places;
}

// --- Texts ---------------------------------------------------------------------------------------

/// fused_matmul_add_relu_f32.
std::string kernel_name(const ir::Module &module, const FusedGroup &group,
                        std::span<const uint32_t> ops) {
  std::vector<ir::Op> fused;
  for (uint32_t op : ops)
    fused.push_back(group.ops[op].op);
  const ir::DType dtype = module.types[group.values[group.ops[ops.back()].result].type].dtype;
  return fused_name(fused) + "_" + std::string(ir::info(dtype).name);
}

constexpr size_t kColumns = 100;

/// A list, broken behind commas where lines would be too long. `between` ends a line and begins the
/// next.
std::string wrapped(const std::string &begin, const std::vector<std::string> &items,
                    const std::string &end, const std::string &between = "\n    ") {
  std::string text = begin;
  size_t column = begin.size();
  for (size_t i = 0; i < items.size(); ++i) {
    const bool is_last = i + 1 == items.size();
    const std::string item = items[i] + (is_last ? end : ",");
    if (i > 0 && column + item.size() + 3 > kColumns) {
      text += between;
      column = 4;
    } else if (i > 0) {
      text += " ";
      ++column;
    }
    text += item;
    column += item.size();
  }
  return items.empty() ? text + end : text;
}

/// A macro of a list that begins with a comma, or of nothing.
std::string list_macro(const std::string &name, const std::vector<std::string> &items) {
  const std::string begin = "#define " + name;
  return items.empty() ? begin + "\n" : wrapped(begin + " , ", items, "\n", " \\\n    ");
}

/// The ops, in a comment, and the options of the headers that follow.
std::string heading(const FusedGroup &group, std::span<const uint32_t> ops, bool f16, bool bf16) {
  std::string list;
  for (uint32_t op : ops)
    list += (list.empty() ? "" : ", ") + std::string(ir::op_info(group.ops[op].op).name);
  return "\n// " + list + "\n" + (f16 ? "#define USES_F16\n" : "") +
         (bf16 ? "#define USES_BF16\n" : "");
}

/// "const float *x0", "long long i_size1".
std::vector<std::string> declared(const ir::Module &module, const FusedGroup &group,
                                  const ElementParameters &parameters, std::string_view qualifier) {
  std::vector<std::string> list;
  for (const ElementParameters::Tensor &tensor : parameters.tensors)
    list.push_back("const " +
                   std::string(element_type(module.types[group.values[tensor.value].type].dtype)) +
                   " *" + std::string(qualifier) + tensor.name);
  for (const ElementParameters::Size &size : parameters.sizes)
    list.push_back("long long " + size.name);
  return list;
}

std::vector<std::string> named(const ElementParameters &parameters) {
  std::vector<std::string> list;
  for (const ElementParameters::Tensor &tensor : parameters.tensors)
    list.push_back(tensor.name);
  for (const ElementParameters::Size &size : parameters.sizes)
    list.push_back(size.name);
  return list;
}

/// What a part becomes, before anything is appended.
struct Generated {
  std::string name, text;         // of a kernel without an anchor
  ElementParameters elements;     // its parameters
  std::vector<uint32_t> in_place; // of these: which are read where the result is written
  Fusion fusion;                  // of one with
};

class Generator {
public:
  Generator(ir::Module &module, const FusedGroup &group, const FusedPart &part)
      : module_(module), group_(group), part_(part), places_(places_of(group, part.ops)) {}

  const Places &places() const { return places_; }

  Result<Generated> run() {
    Generated made;
    made.name = kernel_name(module_, group_, part_.ops);
    CUGRT_TRY(places_.anchor == kNone ? elements(made) : anchored(made));
    return made;
  }

private:
  ir::TypeId type(uint32_t value) const { return group_.values[value].type; }
  std::string element(uint32_t value) const {
    return std::string(element_type(module_.types[type(value)].dtype));
  }
  uint32_t output() const { return group_.ops[part_.ops.back()].result; }

  Status check_count(size_t tensors, size_t sizes) const {
    return tensors + sizes <= kMaxParameters
               ? Status()
               : Status::error(Code::unsupported, "a kernel of so many parameters");
  }

  /// One thread an element of the result.
  Status elements(Generated &made) {
    ElementCode code(module_, group_, part_.ops, {});
    CUGRT_ASSIGN(const std::string lines, code.lines(output(), "    ", "y[i] = "));
    const ElementParameters &parameters = code.parameters();
    CUGRT_TRY(check_count(parameters.tensors.size(), parameters.sizes.size()));
    std::vector<std::string> list = declared(module_, group_, parameters, "");
    list.insert(list.begin() + ptrdiff_t(parameters.tensors.size()),
                {element(output()) + " *y", "long long count"});
    made.text = heading(group_, part_.ops, parameters.uses_f16, parameters.uses_bf16) +
                "#include \"builtin:assume.cuh\"\n"
                "#include \"builtin:convert.cuh\"\n"
                "#include \"builtin:elementwise.cuh\"\n"
                "#include \"builtin:programmatic.cuh\"\n\n" +
                wrapped("extern \"C\" __global__ void " + made.name + "(", list, ") {\n") +
                "  BEGIN_EARLY();\n"
                "  __builtin_assume(ASSUME);\n"
                "  const Index step = Index(gridDim.x) * blockDim.x;\n"
                "  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); "
                "i += step) {\n" +
                lines + "  }\n}\n";
    for (uint32_t i = 0; i < parameters.tensors.size(); ++i)
      if (code.is_read_in_place(i) && bytes(parameters.tensors[i].value) == bytes(output()))
        made.in_place.push_back(i);
    made.elements = parameters;
    return {};
  }

  uint32_t bytes(uint32_t value) const {
    return ir::info(module_.types[type(value)].dtype).bytes_per_block;
  }

  Status anchored(Generated &made) {
    const FusedOp &anchor = group_.ops[places_.anchor];
    if (ir::info(module_.types[type(anchor.result)].dtype).kind != ir::DTypeKind::floating)
      return Status::error(Code::unsupported, "arithmetic is on floats here");
    if (!places_.before.empty() && !is_reduction(anchor.op))
      return Status::error(Code::unsupported, "only reductions compute what they load");
    Fusion &fusion = made.fusion;
    fusion.name = made.name;
    fusion.computed = type(anchor.result);
    std::string macros, functions;
    bool f16 = false, bf16 = false;
    std::vector<std::string> parameters, names;
    auto take = [&](const ElementParameters &more) {
      for (const ElementParameters::Tensor &tensor : more.tensors)
        fusion.tensors.push_back({tensor.name, group_.values[tensor.value].given});
      for (const ElementParameters::Size &size : more.sizes)
        fusion.sizes.push_back({size.name, size.value});
      f16 |= more.uses_f16;
      bf16 |= more.uses_bf16;
      for (auto &item : declared(module_, group_, more, "__restrict__ "))
        parameters.push_back(std::move(item));
      for (auto &item : named(more))
        names.push_back(std::move(item));
    };
    if (!places_.before.empty()) {
      const uint32_t loaded = anchor.operands[0];
      ElementCode code(module_, group_, places_.before, {"i", "p"});
      CUGRT_ASSIGN(const std::string lines, code.lines(loaded, "  ", "return "));
      macros += "#define LOADED_PARAMETER\n#define LOAD(i) loaded(i" + arguments(code) + ")\n";
      functions += function(element(loaded) + " loaded(", "long long i", code, lines);
      fusion.loaded = type(loaded);
      take(code.parameters());
    }
    if (!places_.after.empty()) {
      const std::string name(ir::op_info(anchor.op).name);
      ElementCode code(module_, group_, places_.after, {"j", "x", anchor.result, name});
      CUGRT_ASSIGN(const std::string lines, code.lines(output(), "  ", "return "));
      macros += "#define OUT " + element(output()) +
                "\n#define STORE(j, value) y[j] = stored(j, T(value)" + arguments(code) + ")\n";
      functions += function(element(output()) + " stored(",
                            "Index j, " + element(anchor.result) + " " + name, code, lines);
      take(code.parameters());
    }
    CUGRT_TRY(check_count(fusion.tensors.size(), fusion.sizes.size()));
    fusion.prelude = heading(group_, part_.ops, f16, bf16) + macros +
                     list_macro("FUSED_PARAMETERS", parameters) +
                     list_macro("FUSED_ARGUMENTS", names) +
                     "#include \"builtin:assume.cuh\"\n"
                     "#include \"builtin:convert.cuh\"\n"
                     "#include \"builtin:elementwise.cuh\"\n"
                     "#include \"builtin:floating.cuh\"\n\n" +
                     functions;
    return {};
  }

  /// ", x0, j_size1".
  static std::string arguments(const ElementCode &code) {
    std::string text;
    for (const std::string &name : named(code.parameters()))
      text += ", " + name;
    return text;
  }

  std::string function(const std::string &begin, const std::string &first, const ElementCode &code,
                       const std::string &lines) const {
    std::vector<std::string> list = declared(module_, group_, code.parameters(), "");
    list.insert(list.begin(), first);
    return wrapped("__device__ __forceinline__ " + begin, list, ") {\n") + lines + "}\n\n";
  }

  ir::Module &module_;
  const FusedGroup &group_;
  const FusedPart &part_;
  const Places places_;
};

// --- Splitting -----------------------------------------------------------------------------------

class Splitter {
public:
  Splitter(ir::Module &module, const FusedGroup &group) : module_(module), group_(group) {}

  std::vector<FusedPart> run() {
    std::vector<uint32_t> ops(group_.ops.size());
    for (uint32_t i = 0; i < ops.size(); ++i)
      ops[i] = i;
    const size_t anchors = size_t(std::count_if(
        ops.begin(), ops.end(), [&](uint32_t op) { return is_anchor(group_.ops[op].op); }));
    if (anchors > 1 || !is_tree(ops)) {
      alone(ops);
      return std::move(parts_);
    }
    peel_front(ops);
    const std::vector<uint32_t> behind = peel_back(ops);
    split(ops);
    alone(behind);
    return std::move(parts_);
  }

private:
  void alone(std::span<const uint32_t> ops) {
    for (uint32_t op : ops)
      parts_.push_back({{op}});
  }

  /// Whether each result but the last is used by a later op.
  bool is_tree(std::span<const uint32_t> ops) const {
    std::vector<bool> used(group_.values.size());
    for (uint32_t op : ops)
      for (uint32_t operand : group_.ops[op].operands)
        if (operand != kNone)
          used[operand] = true;
    return std::all_of(ops.begin(), ops.end() - 1,
                       [&](uint32_t op) { return used[group_.ops[op].result]; });
  }

  /// Reshapes of the group's inputs and of its result are views.
  void peel_front(std::vector<uint32_t> &ops) {
    std::vector<bool> is_made(group_.values.size());
    std::vector<uint32_t> rest;
    for (uint32_t number : ops) {
      const FusedOp &op = group_.ops[number];
      if (op.op == ir::Op::reshape && !is_made[op.operands[0]] && number != ops.back()) {
        alone(std::span(&number, 1));
        continue;
      }
      is_made[op.result] = true;
      rest.push_back(number);
    }
    ops = std::move(rest);
  }

  std::vector<uint32_t> peel_back(std::vector<uint32_t> &ops) {
    std::vector<uint32_t> behind;
    while (ops.size() > 1 && group_.ops[ops.back()].op == ir::Op::reshape &&
           group_.ops[ops.back()].operands[0] == group_.ops[ops[ops.size() - 2]].result) {
      behind.insert(behind.begin(), ops.back());
      ops.pop_back();
    }
    return behind;
  }

  bool can_generate(const std::vector<uint32_t> &ops) {
    const FusedPart part{ops};
    // Values of other parts are given by the time this one is emitted.
    FusedGroup given = group_;
    for (FusedGroup::Value &value : given.values)
      value.given = {0};
    return Generator(module_, given, part).run().ok();
  }

  bool computes(std::span<const uint32_t> ops) const {
    return std::any_of(ops.begin(), ops.end(),
                       [&](uint32_t op) { return !is_relabelling(group_.ops[op].op); });
  }

  void split(const std::vector<uint32_t> &ops) {
    if (ops.size() < 2 || !computes(ops))
      return alone(ops);
    const Places places = places_of(group_, ops);
    if (places.anchor == kNone || !used_after(places)) {
      if (can_generate(ops)) {
        parts_.push_back({ops});
        return;
      }
    }
    if (places.anchor == kNone)
      return alone(ops);
    // The anchor with what is before it, then the others.
    std::vector<uint32_t> first = places.before;
    first.push_back(places.anchor);
    if (!used_after(places) && first.size() > 1 && first.size() < ops.size() &&
        can_generate(first)) {
      parts_.push_back({first});
    } else {
      split_before(places.before);
      alone(std::span(&places.anchor, 1));
    }
    split_before(places.after);
  }

  void split_before(const std::vector<uint32_t> &ops) {
    if (ops.size() > 1 && computes(ops) && has_one_result(ops) && can_generate(ops))
      parts_.push_back({ops});
    else
      alone(ops);
  }

  /// Whether only the last of `ops` has a result that others use.
  bool has_one_result(std::span<const uint32_t> ops) const {
    std::vector<bool> hidden(group_.values.size());
    for (uint32_t op : ops.first(ops.size() - 1))
      hidden[group_.ops[op].result] = true;
    for (uint32_t number = 0; number < group_.ops.size(); ++number)
      if (std::find(ops.begin(), ops.end(), number) == ops.end())
        for (uint32_t operand : group_.ops[number].operands)
          if (operand != kNone && hidden[operand])
            return false;
    return true;
  }

  /// Whether what the anchor loads is needed behind it too.
  bool used_after(const Places &places) const {
    std::vector<bool> before(group_.values.size());
    for (uint32_t op : places.before)
      before[group_.ops[op].result] = true;
    for (uint32_t op : places.after)
      for (uint32_t operand : group_.ops[op].operands)
        if (operand != kNone && before[operand])
          return true;
    return false;
  }

  ir::Module &module_;
  const FusedGroup &group_;
  std::vector<FusedPart> parts_;
};

} // namespace

bool can_fuse(const ir::Module &module, ir::Op op, std::span<const ir::Attribute> attributes,
              std::span<const ir::TypeId> operands, ir::TypeId result) {
  if (is_relabelling(op) || op == ir::Op::cast)
    return true;
  auto is_float = [&](ir::TypeId type) {
    return !type.valid() || ir::info(module.types[type].dtype).kind == ir::DTypeKind::floating;
  };
  return is_float(result) && std::all_of(operands.begin(), operands.end(), is_float) &&
         (is_anchor(op) || !elementwise_function(op, attributes).empty());
}

std::string fused_name(std::span<const ir::Op> ops) {
  constexpr size_t kNamedOps = 6;
  std::string name = "fused";
  for (ir::Op op : ops.first(std::min(ops.size(), kNamedOps)))
    name += "_" + std::string(ir::op_info(op).name);
  if (ops.size() > kNamedOps)
    name += "_and_" + std::to_string(ops.size() - kNamedOps) + "_more";
  return name;
}

std::vector<FusedPart> split_group(ir::Module &module, const FusedGroup &group) {
  return Splitter(module, group).run();
}

Status emit_fused(KernelTable &table, ir::FunctionBuilder &builder, const FusedGroup &group,
                  const FusedPart &part, ir::ValueId result) {
  Generator generator(builder.module(), group, part);
  CUGRT_ASSIGN(Generated made, generator.run());
  if (generator.places().anchor != kNone) {
    const FusedOp &anchor = group.ops[generator.places().anchor];
    OpCall call{anchor.op, {}, {result}, anchor.attributes, group.location, &made.fusion};
    for (uint32_t operand : anchor.operands)
      call.operands.push_back(operand == kNone ? ir::ValueId() : group.values[operand].given);
    if (made.fusion.loaded.valid())
      call.operands[0] = {};
    return emit_op(table, builder, call);
  }
  KernelLaunch launch =
      KernelLaunch::generated(table, builder, std::move(made.name), std::move(made.text));
  const ir::Type type = builder.module().types[builder.function().value(result).type];
  const ir::ExprId count = element_count(builder.module().exprs, type.dims);
  launch.option("-fmad=false"); // kernels/floating.cuh
  launch.index_type({count});
  for (const ElementParameters::Tensor &tensor : made.elements.tensors)
    launch.input(tensor.name, group.values[tensor.value].given);
  launch.output("y", result);
  for (uint32_t param : made.in_place)
    launch.over_input(param);
  const ir::ExprId counted = launch.count("count", count);
  for (const ElementParameters::Size &size : made.elements.sizes)
    launch.size(size.name, size.value);
  launch.loop_variant(counted);
  launch.emit(group.location);
  return {};
}

} // namespace cugrt::codegen
