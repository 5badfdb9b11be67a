// The texts of generated kernels, and their launches.
#include "compiler/fused/fused_group.h"
#include "compiler/fused/element_code.h"
#include "ops/emit/op_emitter.h"

#include <algorithm>

namespace cugrt::codegen {

namespace {

/// Most parameters of a generated kernel besides its anchor's: drivers take 4096 bytes of them.
constexpr size_t kMaxParameters = 400;
/// Most ops of a generated kernel.
constexpr size_t kMaxOps = 256;
/// Most ops of a generated kernel with vectors, which holds their code for each element of one.
constexpr size_t kMaxPackedOps = 32;

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

class Generator {
public:
  Generator(ir::Module &module, const FusedGroup &group, const FusedPart &part)
      : module_(module), group_(group), part_(part), places_(places_of(group, part.ops)) {}

  Result<Generated> run() {
    Generated made;
    if (part_.ops.size() > kMaxOps)
      return Status::error(Code::unsupported, "a kernel of so many ops");
    made.name = kernel_name(module_, group_, part_.ops);
    CUGRT_TRY(places_.anchor == FusedGroup::kNoValue ? elements(made) : anchored(made));
    return made;
  }

private:
  ir::TypeId type(uint32_t value) const { return group_.values[value].type; }
  std::string element(uint32_t value) const { return element_of(module_, group_, value); }
  uint32_t output() const { return group_.ops[part_.ops.back()].result; }

  Status check_count(size_t tensors, size_t sizes) const {
    return tensors + sizes <= kMaxParameters
               ? Status()
               : Status::error(Code::unsupported, "a kernel of so many parameters");
  }

  /// Gives each element of the result, or vector of them (kernels/shared/vectors.cuh), a thread.
  Status elements(Generated &made) {
    ElementCode code(module_, group_, part_.ops, {.by_value = true});
    CUGRT_ASSIGN(const std::string lines, code.lines(output(), "  ", "return "));
    const ElementParameters &parameters = code.parameters();
    CUGRT_TRY(check_count(parameters.tensors.size(), parameters.sizes.size()));
    made.elements = parameters;
    for (uint32_t i = 0; i < parameters.tensors.size(); ++i) {
      if (!is_by_value(code, i))
        continue;
      made.widest_bytes = std::max(made.widest_bytes, bytes(parameters.tensors[i].value));
      if (code.is_read_in_place(i) && bytes(parameters.tensors[i].value) == bytes(output()))
        made.in_place.push_back(i);
    }
    if (made.widest_bytes != 0)
      made.widest_bytes = std::max(made.widest_bytes, bytes(output()));
    if (part_.ops.size() > kMaxPackedOps)
      made.widest_bytes = 0;
    made.text = heading(group_, part_.ops, parameters) +
                includes(parameters, made.widest_bytes ? "vectors" : "", "programmatic") +
                place_functions(code, "i") + element_function(code, lines) +
                element_kernel(made, code);
    return {};
  }

  /// Whether an element's function is given the tensor's element.
  static bool is_by_value(const ElementCode &code, size_t tensor) {
    return code.is_read_in_place(tensor) || code.row_read(tensor);
  }

  /// Index x1_at(Index i, ..), with the linear index of that name: where an input is read that lies
  /// along rows.
  static std::string place_functions(const ElementCode &code, const std::string &index) {
    std::string text;
    for (size_t i = 0; i < code.parameters().tensors.size(); ++i)
      if (const ElementCode::RowRead *read = code.row_read(i)) {
        std::vector<std::string> list = {"Index " + index};
        for (const ElementParameters::Size &size : code.parameters().sizes)
          list.push_back(declared(size, true));
        text += wrapped("__device__ __forceinline__ Index " + code.parameters().tensors[i].name +
                            "_at(",
                        list, ") {\n") +
                read->body + "}\n\n";
      }
    return text;
  }

  /// x1_at(`index`, ..)
  static std::string place(const ElementCode &code, size_t tensor, const std::string &index) {
    std::string text = code.parameters().tensors[tensor].name + "_at(" + index;
    for (const ElementParameters::Size &size : code.parameters().sizes)
      text += ", " + (size.divides ? size.name + "_divisor" : size.name);
    return text + ")";
  }

  /// float element(Index i, float x0, const float *x1): inputs read in place come by value.
  std::string element_function(const ElementCode &code, const std::string &lines) const {
    return function(element(output()) + " element(", "Index i", code, lines, true, true);
  }

  std::string element_kernel(const Generated &made, const ElementCode &code) const {
    const size_t tensors = code.parameters().tensors.size();
    std::vector<std::string> list = declared(module_, group_, code.parameters(), "");
    list.insert(list.begin() + ptrdiff_t(tensors), {element(output()) + " *y", "long long count"});
    return wrapped("extern \"C\" __global__ void " + made.name + "(", list, ") {\n") +
           "  BEGIN_EARLY();\n"
           "  __builtin_assume(ASSUME);\n" +
           divisors(code.parameters()) +
           "  const Index step = Index(gridDim.x) * blockDim.x;\n"
           "  const Index first = Index(blockIdx.x) * blockDim.x + threadIdx.x;\n" +
           (made.widest_bytes ? vector_loop(code) : "") +
           "  for (Index i = " + (made.widest_bytes ? "vectors * VECTOR + first" : "first") +
           "; i < Index(count); i += step)\n" +
           wrapped("    y[i] = element(", element_arguments(code, "i", ""), ");\n}\n");
  }

  static std::string divisors(const ElementParameters &parameters) {
    std::string text;
    for (const ElementParameters::Size &size : parameters.sizes)
      if (size.divides)
        text += "  const Divisor " + size.name + "_divisor(" + size.name + ");\n";
    return text;
  }

  /// An element's arguments; those by value are NAME and `in_vector`, or are read where they lie.
  static std::vector<std::string> element_arguments(const ElementCode &code, std::string index,
                                                    const std::string &in_vector) {
    std::vector<std::string> list = named(code.parameters());
    for (uint32_t i = 0; i < code.parameters().tensors.size(); ++i) {
      if (!is_by_value(code, i))
        continue;
      if (!in_vector.empty())
        list[i] += in_vector;
      else
        list[i] += "[" + (code.row_read(i) ? place(code, i, index) : index) + "]";
    }
    list.insert(list.begin(), std::move(index));
    return list;
  }

  std::string vector_loop(const ElementCode &code) const {
    std::vector<std::string> tensors = {"count"};
    std::string loads, when;
    for (uint32_t i = 0; i < code.parameters().tensors.size(); ++i) {
      const auto &[name, value] = code.parameters().tensors[i];
      if (!is_by_value(code, i))
        continue;
      const ElementCode::RowRead *read = code.row_read(i);
      if (read)
        for (const std::string &size : read->multiples)
          when += (when.empty() ? "" : " && ") + size + " % VECTOR == 0";
      if (!read || read->moves)
        tensors.push_back(name);
      const std::string at = read ? place(code, i, "p * VECTOR") : "";
      loads += "    const Vector<" + element(value) + "> " + name + "_vector = " +
               (!read         ? "load_vector(" + name + ", p)"
                : read->moves ? "load_vector(" + name + ", " + at + " / VECTOR)"
                              : "same_vector(" + name + "[" + at + "])") +
               ";\n";
    }
    tensors.push_back("y");
    if (!when.empty())
      when = "!(" + when + ") ? Index(0) : ";
    return wrapped("  const Index vectors = " + when + "vector_count(", tensors, ");\n") +
           "  for (Index p = first; p < vectors; p += step) {\n" + loads + "    Vector<" +
           element(output()) +
           "> y_vector;\n"
           "#pragma unroll\n"
           "    for (int e = 0; e < VECTOR; ++e)\n" +
           wrapped("      y_vector.element[e] = element(",
                   element_arguments(code, "p * VECTOR + e", "_vector.element[e]"), ");\n") +
           "    store_vector(y, p, y_vector);\n"
           "  }\n";
  }

  uint32_t bytes(uint32_t value) const {
    return ir::info(module_.types[type(value)].dtype).bytes_per_block;
  }

  Status anchored(Generated &made) {
    const FusedOp &anchor = group_.ops[places_.anchor];
    if (!places_.before.empty() && !computes_what_it_loads(anchor.op))
      return Status::error(Code::unsupported, "only reductions compute what they load");
    Fusion &fusion = made.fusion;
    fusion.name = made.name;
    fusion.computed = type(anchor.result);
    std::string macros, functions;
    ElementParameters uses; // of ops before and behind the anchor, in the order of launches
    if (!places_.before.empty()) {
      const uint32_t loaded = anchor.operands[0];
      ElementCode code(module_, group_, places_.before, {"i", "p"});
      CUGRT_ASSIGN(const std::string lines, code.lines(loaded, "  ", "return "));
      macros += "#define LOADED_PARAMETER\n#define LOAD(i) loaded(i" + arguments(code) + ")\n";
      functions += function(element(loaded) + " loaded(", "long long i", code, lines);
      fusion.loaded = type(loaded);
      uses.add(code.parameters());
    }
    if (!places_.after.empty()) {
      const std::string name(ir::op_info(anchor.op).name);
      ElementCode code(module_, group_, places_.after,
                       {"j", "x", {{anchor.result, name}}, false, true, has_columns(anchor)});
      CUGRT_ASSIGN(const std::string lines, code.lines(output(), "  ", "return "));
      const bool is_wide =
          anchor.op == ir::Op::group_norm && ir::op_bool(anchor.op, anchor.attributes, "wide");
      const std::string value = is_part(anchor.op, ir::OpPart::searches) ? "value"
                                : is_wide                                ? "Acc(value)"
                                                                         : "T(value)";
      macros += "#define OUT " + element(output()) + "\n#define RESULT(j, value) stored(j, " +
                value + arguments(code, "j") + ")\n" + results_macros(code, value);
      functions += place_functions(code, "j");
      functions += function(element(output()) + " stored(",
                            "Index j, " + element(anchor.result) + " " + name, code, lines, true);
      uses.add(code.parameters());
      if (is_product(anchor.op)) // each element is stored once, and nothing stands before it
        for (size_t i = 0; i < code.parameters().tensors.size(); ++i)
          if (code.is_read_in_place(i) &&
              bytes(code.parameters().tensors[i].value) == bytes(output()))
            fusion.in_place.push_back(i);
    }
    CUGRT_TRY(check_count(uses.tensors.size(), uses.sizes.size()));
    for (const ElementParameters::Tensor &tensor : uses.tensors)
      fusion.tensors.push_back({tensor.name, group_.values[tensor.value].given});
    for (const ElementParameters::Size &size : uses.sizes)
      fusion.sizes.push_back({size.name, size.value});
    fusion.counts = uses.counts;
    std::vector<std::string> parameters = declared(module_, group_, uses, "__restrict__ ");
    const std::vector<std::string> shared = declared(module_, group_, uses, "");
    for (size_t tensor : fusion.in_place)
      parameters[tensor] = shared[tensor];
    fusion.prelude = heading(group_, part_.ops, uses) + macros +
                     list_macro("FUSED_PARAMETERS", parameters) +
                     list_macro("FUSED_ARGUMENTS", named(uses)) +
                     includes(uses, "",
                              computes_what_it_loads(anchor.op)                  ? "number"
                              : is_part(anchor.op, ir::OpPart::multiplies_bytes) ? "byte_sums"
                                                                                 : "floating") +
                     functions;
    return {};
  }

  static bool is_product(ir::Op op) { return op == ir::Op::matmul || op == ir::Op::matmul_blocks; }

  /// Whether the innermost dimension of the result is that of a product, or the channels of a
  /// convolution, of whose rows RESULTS are parts.
  bool has_columns(const FusedOp &anchor) const {
    const ir::Type &product = module_.types[type(anchor.result)],
                   &y = module_.types[type(output())];
    const bool has_rows = anchor.op == ir::Op::matmul ||
                          ((anchor.op == ir::Op::conv2d || anchor.op == ir::Op::conv3d) &&
                           ir::op_bool(anchor.op, anchor.attributes, "channels_last") &&
                           !ir::op_bool(anchor.op, anchor.attributes, "result_second"));
    return has_rows && !y.dims.empty() && product.dims.back() == y.dims.back();
  }

  /// ", x0, j_size1": by-value inputs are read at the linear index of that name.
  static std::string arguments(const ElementCode &code, const std::string &index = "") {
    const std::vector<std::string> names = named(code.parameters());
    std::string text;
    for (uint32_t i = 0; i < names.size(); ++i) {
      text += ", ";
      if (i >= code.parameters().tensors.size() || index.empty() || !is_by_value(code, i)) {
        text += names[i];
        continue;
      }
      const std::string at = code.row_read(i) ? place(code, i, index) : index;
      text += code.is_read_by_word(i) ? "read_by_word(" + names[i] + " + (" + at + "))"
                                      : names[i] + "[" + at + "]";
    }
    return text;
  }

  /// The same, of elements of runs.
  static std::string run_arguments(const ElementCode &code) {
    const std::vector<std::string> names = named(code.parameters());
    std::string text;
    for (size_t i = 0; i < names.size(); ++i)
      text +=
          ", " + names[i] +
          (i < code.parameters().tensors.size() && is_by_value(code, i) ? "_run.element[e]" : "");
    return text;
  }

  /// RESULTS, where something is read in place or by columns: in runs, too.
  std::string results_macros(const ElementCode &code, const std::string &value) const {
    std::string aligned, loads;
    for (uint32_t i = 0; i < code.parameters().tensors.size(); ++i) {
      if (!is_by_value(code, i))
        continue;
      const auto &[name, tensor] = code.parameters().tensors[i];
      const std::string type = "Run<count, " + element(tensor) + ">";
      const std::string from =
          name + " + " + (code.row_read(i) ? place(code, i, "Index(first)") : "(first)");
      aligned += (aligned.empty() ? "" : " && ") + type + "::is_aligned(" + name + ")";
      if (const ElementCode::RowRead *read = code.row_read(i))
        for (const std::string &size : read->multiples)
          aligned += " && " + size + " % (count) == 0";
      loads += "    " + type + " " + name + "_run; \\\n    (whole) ? " + name + "_run.load(" +
               from + ") : " + name + "_run.load_part(" + from + ", left); \\\n";
    }
    if (aligned.empty())
      return "";
    return "#define RESULTS_ALIGNED(count) (" + aligned +
           ")\n#define RESULTS(count, run, first, value, whole, left) \\\n  do { \\\n" + loads +
           "    _Pragma(\"unroll\") for (int e = 0; e < count; ++e) if (e < (left)) \\\n"
           "      (run).element[e] = stored((first) + e, " +
           value + run_arguments(code) + "); \\\n  } while (false)\n";
  }

  std::string function(const std::string &begin, const std::string &first, const ElementCode &code,
                       const std::string &lines, bool by_value = false,
                       bool with_divisors = false) const {
    std::vector<std::string> list = declared(module_, group_, code.parameters(), "", with_divisors);
    for (uint32_t i = 0; by_value && i < code.parameters().tensors.size(); ++i)
      if (const auto &[name, value] = code.parameters().tensors[i]; is_by_value(code, i))
        list[i] = element(value) + " " + name;
    list.insert(list.begin(), first);
    return wrapped("__device__ __forceinline__ " + begin, list, ") {\n") + lines + "}\n\n";
  }

  ir::Module &module_;
  const FusedGroup &group_;
  const FusedPart &part_;
  const Places places_;
};

} // namespace

std::string fused_name(std::span<const ir::Op> ops) {
  constexpr size_t kNamedOps = 6;
  std::string name = "fused";
  for (ir::Op op : ops.first(std::min(ops.size(), kNamedOps)))
    name += "_" + std::string(ir::op_info(op).name);
  if (ops.size() > kNamedOps)
    name += "_and_" + std::to_string(ops.size() - kNamedOps) + "_more";
  return name;
}

Result<Generated> generate(ir::Module &module, const FusedGroup &group, const FusedPart &part) {
  return Generator(module, group, part).run();
}

Status emit_fused(KernelTable &table, ir::FunctionBuilder &builder, const FusedGroup &group,
                  const FusedPart &part, ir::ValueId result) {
  CUGRT_ASSIGN(Generated made, generate(builder.module(), group, part));
  if (const uint32_t number = places_of(group, part.ops).anchor; number != FusedGroup::kNoValue) {
    const FusedOp &anchor = group.ops[number];
    OpCall call{anchor.op, {}, {result}, anchor.attributes, group.location, &made.fusion};
    for (uint32_t operand : anchor.operands)
      call.operands.push_back(operand == FusedGroup::kNoValue ? ir::ValueId()
                                                              : group.values[operand].given);
    if (made.fusion.loaded.valid())
      call.operands[0] = {};
    return emit_op(table, builder, call);
  }
  KernelLaunch launch =
      KernelLaunch::generated(table, builder, std::move(made.name), std::move(made.text));
  const ir::Type type = builder.type_of(result);
  const ir::ExprId count = element_count(builder.module().exprs, type.dims);
  launch.option("-fmad=false"); // kernels/shared/floating.cuh
  if (made.widest_bytes)
    launch.vectors(made.widest_bytes);
  launch.index_type(made.elements.counts);
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
