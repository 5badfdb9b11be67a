// The text behind products; see product_epilogue.h.
#include "compiler/fused/product_epilogue.h"

#include "compiler/fused/element_code.h"
#include "ops/emit/op_emitter.h"

#include <algorithm>

namespace cugrt::codegen {

std::string ProductEpilogue::rows_of_phase() {
  std::string norm = "false, nullptr, nullptr";
  if (kernel_.norm)
    norm = "true, " + optional_tensor("scale", "T", kernel_.norm->scale) + ", " +
           optional_tensor("norm_bias", "T", kernel_.norm->bias);
  if (const std::optional<RowSum> &sum = kernel_.sum) {
    const std::string residual =
        tensor(std::string(kPhaseResidual), "T", sum->residual, ir::Access::in);
    const std::string scale = optional_tensor("first_scale", "T", sum->norm.scale);
    const std::string bias = optional_tensor("first_norm_bias", "T", sum->norm.bias);
    const std::string result =
        sum->result.valid() ? tensor("sum", "T", sum->result, ir::Access::out) : "{}";
    norm += ", true, " + truth(sum->result.valid()) + ",\n           " + residual + ", " + scale +
            ", " + bias + ", " + result;
  }
  return "  given = {" + std::string(kPhaseRows) + ", int(rows * k), " + norm + "};\n";
}

Status ProductEpilogue::write_epilogue(const ProductPart &part, const std::string &p) {
  if (part.turn && part.turn->norm)
    body_ += "    normalize_heads(sums[0], " +
             optional_tensor("head_scale" + p, "T", part.turn->norm->scale) + ", columns" + p +
             ", " + scalar("head_epsilon" + p, part.turn->norm->epsilon) + ");\n";
  std::string store; // of `value`, at row r and the column
  if (part.append) {
    store = append(*part.append, p, part.turn.has_value());
  } else {
    const std::string y =
        tensor("y" + p, element_of_value(part.result), part.result, ir::Access::out);
    CUGRT_TRY(write_elements(part, p, store));
    store = "      const Index j = Index(r) * Index(n" + p + ") + Index(column);\n      " + y +
            "[j] = " + store + ";\n";
  }
  if (part.turn)
    return write_turn(*part.turn, p, store);
  if (part.append)
    store = "      const T value = sums[0][r][c];\n" + store;
  body_ += over("each_element", p, "int own, int r, int c, long long column", store);
  return {};
}

std::string ProductEpilogue::over(const std::string &what, const std::string &p,
                                  const std::string &parameters, const std::string &lines) {
  return "    " + what + "(rows, n" + p + ", first, columns" + p + ", [&](" + parameters + ") {\n" +
         lines + "    });\n";
}

std::string ProductEpilogue::append(const CacheAppend &to, const std::string &p, bool in_pairs) {
  const ir::DType ids = type_of(to.positions).dtype;
  const std::string id = ids == ir::DType::i64 ? "long long" : "int";
  const std::vector<ir::ExprId> dims = type_of(to.cache).dims;
  const auto number = [](auto... id) { return (("," + std::to_string(id.index)) + ...); };
  const std::string from = number(to.positions, to.sequences, dims[0], dims[1]);
  const auto checked = [&](const std::string &name, bool is_position) {
    return symbol(
        id, name, from,
        [=, &table = table_, &builder = builder_,
         location = kernel_.group.location](KernelLaunch &launch, const std::string &as) {
          const CacheSymbols symbols =
              cache_symbols(table, builder, to.cache, to.positions, to.sequences, location);
          launch.checked_symbol(as, ids, is_position ? symbols.position : symbols.sequence);
        });
  };
  const std::string each = size("each" + p, to.each);
  const std::string lengths = to.lengths.valid()
                                  ? tensor("lengths" + p, id, to.lengths, ir::Access::in)
                                  : "(const " + id + " *)nullptr";
  std::string place = tensor("written" + p, id, to.positions, ir::Access::in);
  place += ", " + lengths + ", " + checked("position" + p, true) + ", r, " + each + ", ";
  const std::string capacity = count("capacity" + p, dims[1]);
  std::string sequence = "r / " + each;
  if (to.sequences.valid()) {
    const std::string given = tensor("sequences" + p, id, to.sequences, ir::Access::in);
    const std::string own = checked("sequence" + p, false);
    const std::string rows = count("cache_rows" + p, dims[0]);
    sequence = "cache_sequence(" + given + ", " + own + ", " + sequence + ", " + rows + ")";
  }
  const ir::DType dtype = type_of(to.cache).dtype;
  const bool is_blocks = ir::info(dtype).kind == ir::DTypeKind::block;
  const std::string element(is_blocks ? "unsigned char" : element_type(dtype));
  uses_.uses_f16 = uses_.uses_f16 || dtype == ir::DType::f16;
  uses_.uses_bf16 = uses_.uses_bf16 || dtype == ir::DType::bf16;
  const std::string cache = tensor("cache" + p, element, to.cache, ir::Access::inout);
  const std::string lines = "      const long long at = cache_position(" + place + capacity +
                            ");\n      to[own] = at < 0 ? -1 : (" + sequence + " * " + capacity +
                            " + at) * n" + p + ";\n";
  kept_.push_back({"long long", "to", own(in_pairs ? "kOwnPairs" : "kOwn")});
  early_ += in_pairs ? over("each_pair", p, "int own, int r, int, int", lines)
                     : over("each_element", p, "int own, int r, int, long long", lines);
  if (is_blocks)
    return "      if (to[own] >= 0)\n        store_cached(" + cache +
           ", to[own] + column, Acc(value));\n";
  return "      if (to[own] >= 0)\n        " + cache +
         "[to[own] + column] = " + (dtype == kernel_.dtype ? "value" : element + "(Acc(value))") +
         ";\n";
}

std::vector<uint32_t> ProductEpilogue::read_beside(const ProductPart &part) {
  std::vector<uint32_t> found;
  const std::vector<ir::ExprId> dims = type_of(part.result).dims;
  for (uint32_t op : part.ops)
    for (uint32_t value : kernel_.group.ops[op].operands) {
      if (value == FusedGroup::kNoValue ||
          std::find(part.leaves.begin(), part.leaves.end(), value) != part.leaves.end() ||
          std::find(found.begin(), found.end(), value) != found.end())
        continue;
      const FusedGroup::Value &operand = kernel_.group.values[value];
      const ir::Type &type = builder_.module().types[operand.type];
      if (operand.given.valid() && type.dims == dims)
        found.push_back(value);
    }
  return found;
}

Status ProductEpilogue::write_elements(const ProductPart &part, const std::string &p,
                                       std::string &value) {
  if (part.ops.empty()) {
    value = part.turn ? "value" : "sums[0][r][c]";
    return {};
  }
  ElementCode::Names names{"j" + p, std::string(1, char('a' + (p[0] - '0'))) + "_"};
  std::vector<std::string> list = {"Index j" + p}, arguments = {"j"};
  for (size_t i = 0; i < part.leaves.size(); ++i) {
    const std::string name = "p" + p + "_" + std::to_string(i);
    names.leaves.push_back({part.leaves[i], name});
    list.push_back(std::string(element_type(kernel_.dtype)) + " " + name);
    arguments.push_back("sums[" + std::to_string(i) + "][r][c]");
  }
  for (uint32_t value : read_beside(part)) {
    const std::string number = std::to_string(names.leaves.size()), name = "p" + p + "_" + number;
    const std::string element = element_of(builder_.module(), kernel_.group, value);
    const std::string from = tensor("beside" + p + "_" + number, element,
                                    kernel_.group.values[value].given, ir::Access::in);
    names.leaves.push_back({value, name});
    list.push_back(element + " " + name);
    arguments.push_back(name + "[own]");
    kept_.push_back({element, name, "kOwn"});
    (reads_late_ ? body_ : early_) += over(
        "each_element", p, "int own, int r, int, long long column",
        "      " + name + "[own] = " + from + "[Index(r) * Index(n" + p + ") + Index(column)];\n");
  }
  ir::Module &module = builder_.module();
  ElementCode code(module, kernel_.group, part.ops, std::move(names));
  const uint32_t output = kernel_.group.ops[part.ops.back()].result;
  CUGRT_ASSIGN(const std::string lines, code.lines(output, "  ", "return "));
  const ElementParameters &uses = code.parameters();
  for (const std::string &text : declared(module, kernel_.group, uses, ""))
    list.push_back(text);
  for (const std::string &text : named(uses))
    arguments.push_back(text);
  for (const ElementParameters::Tensor &read : uses.tensors)
    tensor(read.name, element_of(module, kernel_.group, read.value),
           kernel_.group.values[read.value].given, ir::Access::in);
  for (const ElementParameters::Size &known : uses.sizes)
    size(known.name, known.value);
  functions_ += wrapped("__device__ __forceinline__ " + element_of(module, kernel_.group, output) +
                            " stored" + p + "(",
                        list, ") {\n") +
                lines + "}\n\n";
  uses_.add(uses);
  value = wrapped("stored" + p + "(", arguments, ")", "\n          ");
  return {};
}

std::string ProductEpilogue::pairs_text(const HeadTurn &turn, const std::string &name,
                                        const std::string &more) {
  return "  const InPairs<" + truth(turn.interleaved) + ", " + truth(turns_sixteens(turn)) + more +
         "> " + name + " = {" + std::to_string(turn.width) + ", " + std::to_string(turn.turned) +
         "};\n";
}

/// A tile is a head, in the place of rows.
Status ProductEpilogue::write_heads(const ProductPart &part, const std::string &p) {
  own_columns_ = part.head;
  const std::string n = size("n" + p, part.columns), width = std::to_string(own_columns_),
                    tile = "[1][ROWS][" + width + "]", tiles = "tiles" + p;
  const std::string heads =
      tensor("beside" + p, std::string(element_type(kernel_.dtype)), part.heads, ir::Access::in);
  declared_ += (part.turn ? pairs_text(*part.turn, "columns" + p, ", " + width)
                          : "  const InOrderOf<" + width + "> columns" + p + ";\n") +
               "  const long long " + tiles + " = " + n + " / " + width + ";\n";
  body_ += "\n  if (tile < " + tiles + ") {\n    const long long first = tile * " + width +
           ";\n    T(&sums)" + tile + " = *(T(*)" + tile + ")SHARED.given;\n";
  early_.clear(), kept_.clear();
  const size_t begin = body_.size();
  body_ +=
      over("each_element", p, "int, int r, int c, long long column",
           "      sums[0][r][c] = " + heads + "[Index(r) * Index(n" + p + ") + Index(column)];\n") +
      "    if (!walk.meet())\n      return false;\n";
  CUGRT_TRY(write_epilogue(part, p));
  body_.insert(begin, kept_text("    ") + early_);
  if (part.append)
    body_ += "    walk.arrive(" + std::string(kPhaseTiles) + p + " + tile);\n";
  body_ += "    __syncthreads();\n    return true;\n  }\n  tile -= " + tiles + ";\n";
  return {};
}

Status ProductEpilogue::write_turn(const HeadTurn &turn, const std::string &p,
                                   const std::string &store) {
  const ir::DType ids = type_of(turn.positions).dtype;
  const std::string positions = tensor("positions" + p, ids == ir::DType::i64 ? "long long" : "int",
                                       turn.positions, ir::Access::in);
  std::string rotation = "rotation(" + positions + "[r], place / 2, ";
  if (turn.cosines.valid()) {
    const std::string table = element_of_value(turn.cosines);
    rotation += "columns" + p + ".turned / 2, " +
                tensor("cosines" + p, table, turn.cosines, ir::Access::in) + ", " +
                tensor("sines" + p, table, turn.sines, ir::Access::in) + ", " +
                count("table_rows" + p, type_of(turn.cosines).dims[0]) + ")";
  } else {
    rotation += "columns" + p + ".turned, " + scalar("base" + p, turn.base) + ", " +
                scalar("turn_scale" + p, turn.scale) + ")";
  }
  kept_.push_back({"Rotation", "turns", own("kOwnPairs")});
  early_ +=
      over("each_pair", p, "int own, int r, int, int place",
           "      if (place < columns" + p + ".turned)\n        turns[own] = " + rotation + ";\n");
  body_ += "    each_turned(sums[0], rows, n" + p + ", first, columns" + p +
           ", turns, [&](int own, int r, long long column, T value) {\n" + store + "    });\n";
  return {};
}
} // namespace cugrt::codegen
