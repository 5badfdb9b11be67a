// See element_code.h.
#include "compiler/fused/element_code.h"

#include "ir/module/names.h"
#include "ops/emit/element_ops.h"

namespace cugrt::codegen {

constexpr size_t kColumns = 100;

std::string declared(const ElementParameters::Size &size, bool in_function) {
  return (in_function && size.divides ? "const Divisor &" : "long long ") + size.name;
}

std::string wrapped(const std::string &begin, const std::vector<std::string> &items,
                    const std::string &end, const std::string &between) {
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

std::string list_macro(const std::string &name, const std::vector<std::string> &items) {
  const std::string begin = "#define " + name;
  return items.empty() ? begin + "\n" : wrapped(begin + " , ", items, "\n", " \\\n    ");
}

std::string defined(bool holds, const std::string &name) {
  return holds ? "#define " + name + "\n" : "";
}

std::string heading(const FusedGroup &group, std::span<const uint32_t> ops,
                    const ElementParameters &uses) {
  const std::string list =
      ir::joined(ops, [&](uint32_t op) { return ir::op_info(group.ops[op].op).name; });
  return "\n// " + list + "\n" + defined(uses.uses_f16, "USES_F16") +
         defined(uses.uses_bf16, "USES_BF16");
}

std::string includes(const ElementParameters &uses, std::string_view more, std::string_view last) {
  std::string text;
  auto include = [&](std::string_view header) {
    text += "#include \"builtin:" + std::string(header) + ".cuh\"\n";
  };
  for (std::string_view header : {"assume", "convert", "elementwise"})
    include(header);
  for (const ElementParameters::Size &size : uses.sizes)
    if (size.divides) {
      include("divisor");
      break;
    }
  if (uses.uses_integers)
    include("integers");
  if (uses.uses_positions)
    include("positions");
  if (uses.uses_words)
    include("words");
  if (!more.empty())
    include(more);
  include(last);
  return text + "\n";
}

std::string element_of(const ir::Module &module, const FusedGroup &group, uint32_t value) {
  return std::string(element_type(module.types[group.values[value].type].dtype));
}

std::vector<std::string> declared(const ir::Module &module, const FusedGroup &group,
                                  const ElementParameters &parameters, std::string_view qualifier,
                                  bool in_function) {
  std::vector<std::string> list;
  for (const ElementParameters::Tensor &tensor : parameters.tensors)
    list.push_back("const " + element_of(module, group, tensor.value) + " *" +
                   std::string(qualifier) + tensor.name);
  for (const ElementParameters::Size &size : parameters.sizes)
    list.push_back(declared(size, in_function));
  return list;
}

std::vector<std::string> named(const ElementParameters &parameters) {
  std::vector<std::string> list;
  for (const ElementParameters::Tensor &tensor : parameters.tensors)
    list.push_back(tensor.name);
  for (const ElementParameters::Size &size : parameters.sizes)
    list.push_back(size.divides ? size.name + "_divisor" : size.name);
  return list;
}

} // namespace cugrt::codegen
