// Files by the grammars of their formats, for inputs that byte by byte are never found: every byte
// of the input is a choice. Most files are well-formed and many ask for far more than their size.
#pragma once

#include "support/gguf_bytes.h"
#include "support/onnx_bytes.h"

#include <algorithm>
#include <initializer_list>
#include <map>

namespace cugrt::test::grammar {

/// Choices out of bytes; behind their end each choice is the first one, so that all files end.
class Choices {
public:
  explicit Choices(std::string_view bytes) : rest_(bytes) {}
  bool done() const { return rest_.empty(); }
  /// From 0 on, below `count`, which is at most 256.
  size_t below(size_t count) {
    if (rest_.empty() || count == 0)
      return 0;
    const size_t byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return byte % count;
  }
  bool chance(size_t of) { return below(of) == of - 1; }
  template <class T> T one_of(std::initializer_list<T> list) {
    return list.begin()[below(list.size())];
  }
  const std::string &one_of(const std::vector<std::string> &list) {
    return list[below(std::min<size_t>(list.size(), 256))];
  }
  /// Mostly few, sometimes as many as a small file may say.
  size_t times() { return one_of<size_t>({1, 2, 1, 3, 1, 5, 2, 40, 1, 300}); }
  /// Mostly what a small model has.
  int64_t small() { return chance(12) ? number() : one_of<int64_t>({1, 2, 0, 4, 3, -1}); }
  int64_t number() {
    return one_of<int64_t>({1, 0, 2, 4, -1, 3, 64, 100, 4096, 65536, INT32_MAX, INT64_MAX, -4096,
                            INT64_MIN, 7, 1 << 20});
  }

private:
  std::string_view rest_;
};

inline std::string numbered(const char *letter, size_t i) { return letter + std::to_string(i); }

// --- Modules -------------------------------------------------------------------------------------

/// Functions that call one another, nested blocks, tuples, expressions, each many times.
class ModuleText {
public:
  explicit ModuleText(Choices &choices) : c_(choices) {}
  std::string make() {
    std::string text = "cugrt 1\n";
    const size_t constants = c_.below(3);
    for (size_t i = 0; i < constants; ++i)
      text += "constant @c" + std::to_string(i) + ": tensor<[4], f32> = [1.0, 2.0, 3.0, 4.0]\n";
    const size_t functions = c_.times();
    for (size_t f = 0; f < functions; ++f)
      text += function(f, functions, constants);
    return text;
  }

private:
  std::string value() { return values_.empty() ? "%x" : c_.one_of(values_); }
  std::string fresh() { return numbered("%v", count_++); }
  std::string expression(size_t depth) {
    if (depth == 0 || c_.chance(2))
      return c_.chance(2) ? std::to_string(std::max<int64_t>(c_.small(), 1)) : "n";
    const std::string a = expression(depth - 1), b = expression(depth - 1);
    const std::string op = c_.one_of<std::string>(
        {"+", "*", "-", "min", "max", "floordiv", "ceildiv", "mod", "select"});
    if (op.size() == 1)
      return "(" + a + " " + op + " " + b + ")";
    return op == "select" ? "select(" + a + " < " + b + ", " + a + ", " + b + ")"
                          : op + "(" + a + ", " + b + ")";
  }
  std::string type() {
    return c_.chance(4) ? "tensor<[" + expression(4) + ", 4], f32>" : "tensor<[n, 4], f32>";
  }
  std::string function(size_t f, size_t functions, size_t constants) {
    values_ = {"%x"}, turn_ = "%z", f_ = f, constants_ = constants;
    const bool is_main = f + 1 == functions;
    const std::string t = c_.chance(100) ? type() : "tensor<[n, 4], f32>";
    std::string text = (is_main ? "func @main" : "private func @f" + std::to_string(f)) +
                       "(%x: " + t + ", %z: tensor<[1], i32>) -> (" + t +
                       ") attributes {upper_bounds = {n = 64}} {\n";
    text += body(0);
    return text + "  return " + values_.back() + "\n}\n";
  }
  std::string body(size_t depth) {
    std::string text;
    const size_t statements = 1 + c_.below(6);
    for (size_t i = 0; i < statements; ++i)
      for (size_t left = c_.times(); left > 0 && text.size() < 40000; --left)
        text += statement(depth);
    return text;
  }
  std::string statement(size_t depth) {
    const std::string to = fresh(), from = values_.back();
    switch (c_.below(12)) {
    case 0:
    case 1:
      return keep(to, f_ == 0
                          ? "relu(" + from + ")"
                          : "call @f" + std::to_string(f_ - 1) + "(" + from + ", " + turn_ + ")");
    case 2:
      return keep(to, "add(" + from + ", " + value() + ")");
    case 3:
      return "  " + to + " = tuple(" + value() + ", " + value() + ")\n";
    case 4:
      return "  " + to + " = shape [" + expression(5) + "]\n";
    case 5:
      return depth > 3 ? keep(to, "relu(" + from + ")") : branch(to, depth);
    case 6:
      return depth > 3 ? keep(to, "relu(" + from + ")") : repeat(to, depth);
    case 7:
      return constants_ ? "  " + to + " = constant @c0\n" : keep(to, "neg(" + from + ")");
    case 8:
      return "  " + to + " = match " + from + ": tensor<[m" + std::to_string(count_) +
             ", 4], f32>\n";
    case 9:
      return keep(to, "alias " + from);
    case 10:
      return keep(to, "softmax(" + from +
                          ") {axis = " + std::to_string(c_.chance(250) ? c_.number() : 1) + "}");
    default:
      return keep(to, "relu(" + value() + ")");
    }
  }
  std::string keep(const std::string &to, const std::string &binding) {
    values_.push_back(to);
    return "  " + to + " = " + binding + "\n";
  }
  std::string branch(const std::string &to, size_t depth) {
    const std::vector<std::string> outer = values_;
    std::string text = "  " + to + " = if n > " + std::to_string(c_.small()) + " using (" +
                       outer.back() + ", " + turn_ + ") -> tensor<[n, 4], f32> {\n";
    for (const char *end : {"  } else {\n", "  }\n"}) {
      values_ = {outer.back()};
      text += body(depth + 1);
      text += "  yield " + values_.back() + "\n" + end;
    }
    values_ = outer;
    values_.push_back(to);
    return text;
  }
  std::string repeat(const std::string &to, size_t depth) {
    const std::vector<std::string> outer = values_;
    const std::string turn = turn_, first = fresh(), ignored = fresh(), runs = fresh(),
                      last = fresh(), next = fresh();
    std::string text = "  " + last + ", " + to + " = while (" + first +
                       ": tensor<[1], i32> = " + turn + ", " + ignored +
                       ": tensor<[n, 4], f32> = " + outer.back() + ") {\n    " + runs + " = less(" +
                       first + ", " + first + ")\n    yield " + runs + "\n  } do (";
    turn_ = fresh();
    text += turn_ + ", " + next + ") {\n";
    values_ = {next};
    text += body(depth + 1);
    text += "    yield " + turn_ + ", " + values_.back() + "\n  }\n";
    values_ = outer, turn_ = turn;
    values_.push_back(to);
    return text;
  }

  Choices &c_;
  std::vector<std::string> values_; // of tensor<[n, 4], f32>
  std::string turn_;                // of tensor<[1], i32>
  size_t count_ = 0, f_ = 0, constants_ = 0;
};

// --- ONNX ----------------------------------------------------------------------------------------

/// Constants that fold, loops and branches in one another, local functions. Operands are mostly of
/// the kind that the op takes: floats f, lists of integers i, single integers s, bools b.
class OnnxFile {
public:
  explicit OnnxFile(Choices &choices) : c_(choices) {}
  std::string make() {
    using namespace onnx_bytes;
    functions_ = c_.below(30);
    std::string graph = input("x", kF32, {"n", "4"}) + input("k", kI64, {"2"}) +
                        input("yes", 9, {}) + input("m", kI64, {});
    names_ = {{'f', {"x"}}, {'i', {"k"}}, {'b', {"yes"}}, {'s', {"m"}}};
    for (size_t i = 0; i < 8; ++i)
      graph += constant("fiisbfis"[i]);
    graph += nodes(0) + output(last('f'), 0, {}) + (c_.chance(4) ? output(last('i'), 0, {}) : "");
    std::string functions;
    for (size_t f = functions_; f-- > 0;)
      functions += function(f);
    return model(graph) + functions;
  }

private:
  struct Op {
    std::string name, takes, attribute;
    char gives;
  };
  /// Each op as NAME:TAKES:GIVES, with an attribute NAME:TAKES:GIVES:ATTRIBUTE.
  static const std::vector<Op> &ops() {
    constexpr std::string_view kOps =
        "Add:ff:f Mul:ff:f Relu:f:f Add:ii:i Sub:ii:i Mul:ii:i Div:ii:i Mod:ii:i Max:ii:i Min:is:i "
        "Add:ss:s Mul:ss:s Div:ss:s Equal:ii:b Less:ss:b Not:b:b And:bb:b Where:bii:i Where:bff:f "
        "Where:bss:s Gather:ii:i:axis Gather:is:s Gather:fi:f Concat:ii:i:axis0 Concat:ff:f:axis "
        "Concat:iiiiiiii:i:axis0 Expand:fi:f Expand:ii:i Tile:fi:f Tile:ii:i Range:sss:i Shape:f:i "
        "Shape:i:i Size:f:s Slice:iii:i Slice:fii:f Reshape:fi:f Reshape:ii:i Squeeze:i:s "
        "Unsqueeze:si:i Unsqueeze:fi:f Cast:i:f:to Cast:f:i:to ConstantOfShape:i:f Trilu:fs:f "
        "ReduceProd:i:s:keepdims ReduceSum:ii:i NonZero:f:i CumSum:fs:f CumProd:fs:f MatMul:ff:f "
        "MatMul:ii:i Softmax:f:f:axis Pad:fi:f Transpose:f:f Identity:i:i HannWindow:s:f "
        "EyeLike:f:f "
        "TopK:fi:f:axis OneHot:isf:f GatherND:fi:f Flatten:f:f:axis AffineGrid:fi:f Floor:f:f "
        "ReduceMean:f:f Sqrt:f:f Compress:fb:f ScatterND:fif:f GlobalAveragePool:f:f ";
    static const std::vector<Op> made = [=] {
      std::vector<Op> all;
      for (std::string_view rest = kOps; !rest.empty(); rest.remove_prefix(rest.find(' ') + 1)) {
        std::vector<std::string> fields(1);
        for (char c : rest.substr(0, rest.find(' ')))
          c == ':' ? (void)fields.emplace_back() : fields.back().push_back(c);
        fields.resize(4);
        all.push_back({fields[0], fields[1], fields[3], fields[2][0]});
      }
      return all;
    }();
    return made;
  }

  std::string &last(char kind) { return names_[kind].back(); }
  std::string any(char kind) {
    return c_.one_of(names_[c_.chance(40) ? "fisb"[c_.below(4)] : kind]);
  }
  std::string constant(char kind) {
    using namespace onnx_bytes;
    const std::string name = numbered("c", count_++);
    using Shapes = std::initializer_list<std::vector<int64_t>>;
    const std::vector<int64_t> dims =
        kind == 's'   ? std::vector<int64_t>()
        : kind == 'i' ? c_.one_of(Shapes{{1}, {2}, {2}, {1}, {2}, {4096}, {1, 4096}, {0}, {2, 2}})
                      : c_.one_of(Shapes{{4}, {1}, {}, {4}, {4, 4}, {1, 4096}, {0}});
    const unsigned dtype = kind == 'f'   ? c_.one_of<unsigned>({1, 1, 1, 1, 1, 1, 1, 1, 10, 11, 16})
                           : kind == 'b' ? 9
                                         : c_.one_of<unsigned>({7, 7, 7, 7, 7, 7, 7, 7, 6, 2, 13});
    int64_t count = 1;
    std::string text;
    for (int64_t dim : dims)
      text += number(1, uint64_t(dim)), count *= dim;
    const size_t size = dtype == 7 || dtype == 13 || dtype == 11   ? 8
                        : dtype == 1 || dtype == 6                 ? 4
                        : dtype == 10 || dtype == 16 || dtype == 5 ? 2
                                                                   : 1;
    std::string raw(size_t(count) * size, '\0');
    for (size_t at = 0; at < raw.size() && at < 8 * size; at += size) {
      const int64_t value = kind == 'b' ? 1 : c_.small();
      std::memcpy(raw.data() + at, &value, size);
    }
    names_[kind].push_back(name);
    return bytes(5, text + number(2, dtype) + bytes(8, name) + bytes(9, raw));
  }
  std::string nodes(size_t depth) {
    std::string all;
    const size_t kinds = 1 + c_.below(12);
    for (size_t i = 0; i < kinds; ++i)
      for (size_t left = c_.times(); left > 0 && all.size() < 40000; --left)
        all += node(depth);
    return all;
  }
  std::string node(size_t depth) {
    using namespace onnx_bytes;
    const std::string to = numbered("v", count_++);
    const size_t kind = c_.below(16);
    if (kind == 0 && depth < 4)
      return loop(to, depth);
    if (kind == 1 && depth < 4) {
      const std::string yes = subgraph(depth), no = subgraph(depth);
      const std::string condition = any('b');
      names_['f'].push_back(to);
      return onnx_bytes::node("If", {condition}, {to},
                              graph_attribute("then_branch", yes) +
                                  graph_attribute("else_branch", no));
    }
    if (kind == 2 && functions_ > 0) {
      const std::string from = any('f');
      names_['f'].push_back(to);
      return onnx_bytes::node(numbered("F", c_.below(functions_)), {from}, {to}, bytes(7, "local"));
    }
    const Op &op = ops()[c_.below(ops().size())];
    std::vector<std::string> inputs;
    for (char takes : op.takes)
      inputs.push_back(any(takes));
    if (c_.chance(40))
      inputs.resize(inputs.size() + 400, inputs.back());
    const std::string &attribute = op.attribute;
    const int64_t value = attribute == "to"                      ? (op.gives == 'f' ? 1 : 7)
                          : attribute == "axis0" || c_.chance(2) ? 0
                                                                 : c_.small();
    names_[op.gives].push_back(to);
    return onnx_bytes::node(
        op.name, inputs, {to},
        attribute.empty()
            ? ""
            : integer_attribute(attribute == "axis0" ? "axis" : attribute, uint64_t(value)));
  }
  /// Nodes of their own scope, and their last result.
  std::string subgraph(size_t depth) {
    const auto outer = names_;
    std::string text = c_.chance(3) ? constant('f') : "";
    text += nodes(depth + 1);
    text += onnx_bytes::output(last('f'), 0, {});
    names_ = outer;
    return text;
  }
  std::string loop(const std::string &to, size_t depth) {
    using namespace onnx_bytes;
    const std::string at = std::to_string(count_++), turns = any('s'), from = any('f'),
                      given = c_.chance(2) ? any('b') : "";
    const auto outer = names_;
    std::string body =
        input("i" + at, kI64, {}) + input("g" + at, 9, {}) + input("a" + at, kF32, {});
    names_['s'].push_back("i" + at), names_['f'].push_back("a" + at);
    body += nodes(depth + 1);
    body += output(c_.chance(4) ? last('b') : "g" + at, 9, {}) + output(last('f'), kF32, {});
    const bool collects = c_.chance(4);
    if (collects)
      body += output("i" + at, kI64, {});
    names_ = outer;
    names_['f'].push_back(to);
    return onnx_bytes::node("Loop", {turns, given, from},
                            collects ? std::vector<std::string>{to, to + "_rows"}
                                     : std::vector<std::string>{to},
                            graph_attribute("body", body));
  }
  std::string function(size_t f) {
    using namespace onnx_bytes;
    std::string body, at = "a";
    for (size_t i = 1 + c_.below(3); i > 0; --i) {
      const std::string to = i == 1 ? "b" : numbered("t", i);
      const std::string op = f > 0 && !c_.chance(4) ? numbered("F", f - 1) : "Neg";
      body += bytes(7, bytes(1, at) + bytes(2, to) + bytes(4, op) +
                           (op == "Neg" ? "" : bytes(7, "local")));
      at = to;
    }
    return bytes(25, bytes(1, numbered("F", f)) + bytes(4, "a") + bytes(5, "b") + body +
                         bytes(9, number(2, 17)) + bytes(10, "local"));
  }

  Choices &c_;
  std::map<char, std::vector<std::string>> names_; // by kind
  size_t count_ = 0, functions_ = 0;
};

// --- GGUF, safetensors, JSON, PTX ----------------------------------------------------------------

/// Loops in one another, texts that grow, macros that call themselves.
inline std::string chat_template(Choices &c, size_t depth = 0) {
  std::string text;
  for (size_t i = 1 + c.below(4); i > 0; --i) {
    const size_t kind = depth > 5 ? 9 : c.below(10);
    const std::string inner = kind < 4 ? chat_template(c, depth + 1) : "";
    const std::string count = std::to_string(c.chance(8) ? c.number() : 2 + int64_t(c.below(99)));
    text += kind == 0   ? "{% for a in range(" + count + ") %}" + inner + "{% endfor %}"
            : kind == 1 ? "{% for m in messages %}" + inner + "{{ m.content }}{% endfor %}"
            : kind == 2
                ? "{% if messages|length > " + count + " %}x{% else %}" + inner + "{% endif %}"
            : kind == 3 ? "{% macro f(x) %}" + inner + "{{ f(x) }}{% endmacro %}{{ f(1) }}"
            : kind == 4 ? "{% set s = s ~ s ~ 'ab' %}"
            : kind == 5 ? "{% set ns.t = ns.t + ns.t + 'ab' %}"
            : kind == 6 ? "{{ ('a' * " + count + ") | upper | replace('A', 'aaaa') }}"
            : kind == 7 ? "{{ messages | tojson(indent=" + count + ") }}"
            : kind == 8 ? "{{ [messages, messages] * " + count + " | length }}"
                        : "{{ messages[0].role }} <s>";
  }
  return depth ? text : "{% set ns = namespace(t='a') %}{% set s = 'a' %}" + text;
}

/// A language model's keys, tensors that overlap, tokens that begin alike.
inline std::string gguf_file(Choices &c) {
  GgufBytes file;
  const auto size = [&] {
    return uint32_t(c.one_of<int64_t>({1, 2, 8, 64, 0, 1000, 65536, INT32_MAX}));
  };
  const std::string name = c.one_of<std::string>({"llama", "qwen2", "gemma3", "qwen3", "none"});
  file.text("general.architecture", name);
  for (const char *key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.head_count_kv", "rope.dimension_count"})
    file.u32(name + "." + key, size());
  file.key(name + ".attention.layer_norm_rms_epsilon", 6, little_endian(1e-5f));
  const std::string kind = c.one_of<std::string>({"gpt2", "llama"});
  file.text("tokenizer.ggml.model", kind).text("tokenizer.ggml.pre", "gpt-2");
  file.text("tokenizer.chat_template", chat_template(c));
  std::vector<std::string> tokens = {"a", "b", "ab"}, merges = {"a b"};
  std::string kinds, scores;
  for (size_t i = c.times(); i > 0; --i)
    tokens.push_back(std::string(c.times(), c.chance(2) ? 'a' : '<') + std::to_string(i));
  for (size_t i = 0; i < tokens.size(); ++i) {
    kinds += little_endian(int32_t(1 + c.below(i < 3 ? 1 : 6)));
    scores += little_endian(float(c.number()));
  }
  file.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", merges);
  file.list("tokenizer.ggml.token_type", 5, tokens.size(), kinds);
  file.list("tokenizer.ggml.scores", 6, tokens.size(), scores);
  for (size_t i = c.times(); i > 0; --i)
    file.tensor(i == 1 ? "token_embd.weight" : numbered("blk.", i), {size(), size()},
                uint32_t(c.below(16)), 32 * c.below(3));
  file.data = std::string(c.times() * 32, '\1');
  return file.file();
}

inline std::string json_text(Choices &c, size_t depth = 0) {
  std::string text;
  switch (depth > 12 ? 4 : c.below(7)) {
  case 0:
  case 1:
    text = "{";
    for (size_t i = c.times(); i > 0 && text.size() < 20000; --i)
      text += (text.size() > 1 ? ",\"" : "\"") + numbered("w", i) + "\":" + json_text(c, depth + 1);
    return text + "}";
  case 2:
    text = "[";
    for (size_t i = c.times(); i > 0 && text.size() < 20000; --i)
      text += (text.size() > 1 ? "," : "") + json_text(c, depth + 1);
    return text + "]";
  case 3: {
    const std::string shape = std::to_string(c.number()), end = std::to_string(c.number());
    return R"({"dtype":"F32","shape":[)" + shape + "," + shape + R"(],"data_offsets":[0,)" + end +
           "]}";
  }
  case 4:
    return std::to_string(c.number());
  case 5:
    return std::string(c.times(), '[') + std::string(c.below(300), ']');
  default:
    return "\"" + std::string(c.times(), c.chance(2) ? 'a' : '\\') + "\"";
  }
}

inline std::string safetensors_file(Choices &c) {
  std::string header = "{";
  const size_t count = c.times();
  for (size_t i = 0; i < count; ++i) {
    const std::string name = numbered("w", c.chance(60) ? 0 : i), size = std::to_string(c.small());
    const int64_t begin = c.chance(20) ? c.number() : int64_t(4 * i);
    header += (i ? ",\"" : "\"") + name + "\":" +
              (c.chance(60) ? json_text(c)
                            : R"({"dtype":"F32","shape":[)" + (c.chance(8) ? size : "1") +
                                  R"(],"data_offsets":[)" + std::to_string(begin) + "," +
                                  std::to_string(begin < INT64_MAX - 4 ? begin + 4 : begin) + "]}");
  }
  header += c.chance(20) ? json_text(c) : "}";
  return little_endian(uint64_t(c.chance(30) ? uint64_t(c.number()) : header.size())) + header +
         std::string(4 * count, '\0');
}

/// Kernels with variables, registers, labels and blocks, each many times.
inline std::string ptx_text(Choices &c) {
  const auto bytes = [&] {
    return std::to_string(c.chance(250) ? c.number() : 4 + 4 * int64_t(c.below(9)));
  };
  std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n";
  const size_t variables = c.times(), kernels = c.times();
  for (size_t i = 0; i < variables; ++i)
    text += c.one_of<std::string>({".global .align 4 .b8 ", ".const .align 4 .b8 "}) +
            numbered("g", i) + "[" + bytes() + "];\n";
  for (size_t k = 0; k < kernels && text.size() < 60000; ++k) {
    text += ".visible .entry " + numbered("k", k) +
            "(.param .u64 p) {\n .reg .pred %p<3>; .reg .b32 " + "%r<" +
            std::to_string(c.chance(250) ? c.number() : 9) + ">; .reg .b64 %rd<9>;\n" +
            " setp.eq.s32 %p1, %r1, 0;\n";
    const size_t lines = 1 + c.below(8);
    size_t labels = 0;
    for (size_t i = 0; i < lines; ++i) {
      const size_t kind = c.below(10);
      for (size_t left = c.times(); left > 0; --left)
        text += kind == 0   ? numbered("$M", labels++) + ":\n"
                : kind == 1 ? "@%p1 bra " + numbered("$L", c.below(4)) + ";\n"
                : kind == 2
                    ? "{ .reg .b32 low; .local .align 4 .b8 d[" + bytes() + "]; mov.b32 low, 7; }\n"
                : kind == 3
                    ? ".shared .align 8 .b8 " + numbered("s", text.size()) + "[" + bytes() + "];\n"
                : kind == 4 ? "ld.param.u64 %rd1, [p];\n"
                : kind == 5
                    ? "st.global.v2.u32 [%rd1+" + std::to_string(c.small()) + "], {%r1, %r2};\n"
                : kind == 6 ? "mov.u32 %r1, %tid.x;\n"
                : kind == 7 ? "bar.sync " + std::to_string(c.below(16)) + ";\n"
                : kind == 8 ? c.chance(250) ? "{\n" : "mul.lo.s32 %r3, %r1, %r2;\n"
                            : "add.s32 %r2, %r1, %r" + std::to_string(c.below(9)) + ";\n";
    }
    text += "$L0: $L1: $L2: $L3: ret;\n}\n";
  }
  return text;
}

} // namespace cugrt::test::grammar
