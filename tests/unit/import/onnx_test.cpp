// The reader of ONNX files and the importer, on models written by hand, byte by byte: what is
// malformed is one sentence, shapes become symbols, arithmetic over them emits nothing.
#include "fronts/onnx/file/model.h"
#include "fronts/onnx/import.h"
#include "ir/text/text.h"
#include "support/must.h"
#include "support/onnx_bytes.h"
#include "support/temporary_folder.h"

#include <fstream>
#include <map>

using namespace cugrt;
using namespace cugrt::test::onnx_bytes;
using cugrt::test::must;

namespace {

/// What a text must hold; `!` and `&&` as of matchers.
struct Holds {
  explicit Holds(std::string part) : wanted{{std::move(part), true}} {}
  std::vector<std::pair<std::string, bool>> wanted;
  Holds operator!() const {
    Holds out = *this;
    for (auto &one : out.wanted)
      one.second = !one.second;
    return out;
  }
  Holds operator&&(const Holds &other) const {
    Holds out = *this;
    out.wanted.insert(out.wanted.end(), other.wanted.begin(), other.wanted.end());
    return out;
  }
};

void check_holds(const std::string &text, const Holds &holds) {
  for (const auto &[part, present] : holds.wanted) {
    INFO(text);
    INFO(part);
    CHECK((text.find(part) != std::string::npos) == present);
  }
}

std::string error_of(const std::string &file, const onnx::Options &options = {}) {
  auto imported = onnx::import_bytes(file, "", options);
  return imported.ok() ? "" : imported.status().message();
}
std::string text_of(const std::string &file, const onnx::Options &options = {}) {
  auto imported = must(onnx::import_bytes(file, "", options));
  const std::string text = ir::print(imported.module);
  Diagnostics diagnostics;
  ir::verify(ir::parse(text, diagnostics), diagnostics);
  CHECK(diagnostics.render("imported", text).empty());
  return text;
}

const std::string kRelu =
    model(node("Relu", {"x"}, {"y"}) + input("x", 1, {"n", "4"}) + output("y", 1, {"n", "4"}));

using Ints = std::vector<int64_t>;

/// A weight of f32, each of whose bytes is `value`.
std::string weight(const std::string &name, Ints dims, char value) {
  int64_t count = 4;
  std::string tensor;
  for (int64_t dim : dims)
    tensor += number(1, uint64_t(dim)), count *= dim;
  return bytes(5, tensor + number(2, kF32) + bytes(8, name) +
                      bytes(9, std::string(size_t(count), value)));
}

} // namespace

TEST_CASE("a model of one node becomes a function of one op") {
  check_holds(text_of(kRelu), Holds("func @main(%x: tensor<[n, 4], f32>)") &&
                                  Holds("-> (tensor<[n, 4], f32>)") && Holds("%y = relu(%x)"));
}

TEST_CASE(
    "every prefix of a model is refused or is a model, and changed bytes never more than refused") {
  for (size_t size = 0; size < kRelu.size(); ++size)
    (void)onnx::import_bytes(kRelu.substr(0, size), "", {}).ok();
  for (size_t at = 0; at < kRelu.size(); ++at)
    for (unsigned value : {0u, 1u, 8u, 127u, 128u, 255u}) {
      std::string changed = kRelu;
      changed[at] = char(value);
      (void)onnx::import_bytes(changed, "", {}).ok();
    }
  check_holds(error_of(kRelu.substr(0, kRelu.size() - 1)), Holds("longer than what is left"));
}

TEST_CASE("what is no model says so in a sentence") {
  check_holds(error_of("\x0b\x0c"), Holds("no protobuf message"));
  check_holds(error_of(number(1, 8)), Holds("no graph"));
  check_holds(error_of(model("", 3)), Holds("opset 3"));
  check_holds(error_of(model("", 17, 1)), Holds("IR version 1"));
}

TEST_CASE("a newer opset is read: its ops mean the same") {
  CHECK(error_of(
            model(node("Relu", {"x"}, {"y"}) + input("x", kF32, {"4"}) + output("y", kF32, {"4"}),
                  99, 20))
            .empty());
}

TEST_CASE("names that are undefined, in a cycle, or defined twice") {
  check_holds(error_of(model(node("Relu", {"z"}, {"y"}) + output("y", kF32, {}))),
              Holds("takes 'z', which is not defined"));
  check_holds(error_of(model(node("Relu", {"b"}, {"a"}) + node("Relu", {"a"}, {"b"}) +
                             output("b", kF32, {}))),
              Holds("cycle"));
  check_holds(error_of(model(node("Relu", {"x"}, {"y"}) + node("Neg", {"x"}, {"y"}) +
                             input("x", kF32, {"1"}) + output("y", kF32, {}))),
              Holds("'y' is defined twice"));
  check_holds(
      error_of(model(input("x", kF32, {"1"}) + input("x", kF32, {"1"}) + output("x", kF32, {}))),
      Holds("'x' is defined twice"));
  check_holds(error_of(model(node("Relu", {std::string("x\0y", 3)}, {"y"}) +
                             input(std::string("x\0y", 3), kF32, {"1"}) + output("y", kF32, {}))),
              Holds("a value's name has a NUL byte: 'x..'"));
}

TEST_CASE("a result whose dtype disagrees with what is declared") {
  check_holds(error_of(model(node("Relu", {"x"}, {"y"}) + input("x", kF32, {"4"}) +
                             output("y", kI64, {"4"}))),
              Holds("declared with dtype i64 and has f32"));
}

TEST_CASE("weights shorter than their shape") {
  const std::string tensor =
      bytes(5, number(1, 3) + number(2, kI64) + bytes(8, "w") + bytes(9, std::string(16, '\0')));
  check_holds(error_of(model(tensor + output("w", kI64, {"3"}))),
              Holds("'w' has 16 bytes, its shape asks for 24"));
  const std::string huge =
      bytes(5, number(1, uint64_t(1) << 62) + number(1, 64) + number(2, kI64) + bytes(8, "w"));
  check_holds(error_of(model(huge + output("w", kI64, {}))), Holds("no tensor's"));
}

TEST_CASE("subgraphs 10,000 deep are refused") {
  std::string graph = output("c", 9, {});
  for (int i = 0; i < 10000; ++i)
    graph = node("If", {"c"}, {"y"}, graph_attribute("then_branch", graph)) + output("y", 9, {});
  check_holds(error_of(model(graph + input("c", 9, {}))), Holds("nested more than 32 deep"));
}

TEST_CASE("control flow without an input that it needs is refused") {
  const std::string branch = output("x", 1, {"4"});
  const std::string around = input("x", 1, {"4"}) + output("y", 1, {"4"});
  check_holds(error_of(model(node("If", {""}, {"y"},
                                  graph_attribute("then_branch", branch) +
                                      graph_attribute("else_branch", branch)) +
                             around)),
              Holds("input 0 is missing"));
  const std::string body = input("i", kI64, {}) + input("c", 9, {}) + input("v", 1, {"4"}) +
                           output("c", 9, {}) + output("v", 1, {"4"});
  check_holds(
      error_of(model(integers("n", {1}) +
                     node("Loop", {"n", "", ""}, {"y"}, graph_attribute("body", body)) + around)),
      Holds("input 2 is missing"));
}

TEST_CASE("inputs of two dtypes and attributes of another type are refused") {
  const std::string around = input("x", kF32, {"n", "4"}) + output("y", kF32, {"n", "4"});
  check_holds(
      error_of(model(node("Add", {"x", "w"}, {"y"}) + integers("w", {1, 2, 3, 4}) + around)),
      Holds("its inputs have dtypes f32 and i64"));
  const std::string others =
      input("h", kF16, {"4", "4"}) + input("g", kF16, {"4"}) + input("f", kF32, {"4"}) + around;
  for (const std::string &wrong :
       {node("Gemm", {"x", "x", "g"}, {"y"}), node("MatMul", {"x", "h"}, {"y"}),
        node("Clip", {"x", "g"}, {"y"}),
        node("Concat", {"x", "h"}, {"y"}, integer_attribute("axis", 0)),
        node("InstanceNormalization", {"x", "g", "g"}, {"y"}),
        node("Einsum", {"x", "h"}, {"y"}, text_attribute("equation", "ij,jk->ik"))})
    check_holds(error_of(model(wrong + others)), Holds("its inputs have dtypes f32 and f16"));
  check_holds(error_of(model(node("Gather", {"x", "f"}, {"y"}) + others)),
              Holds("its indices have dtype f32, i32 or i64 is wanted"));
  check_holds(error_of(model(node("Softmax", {"x"}, {"y"}, text_attribute("axis", "1")) + around)),
              Holds("attribute 'axis' is of another type"));
}

TEST_CASE("windows that no image has are refused: strides of 0, numbers whose products overflow") {
  const std::string around = input("x", kF32, {"1", "1", "8", "8"}) +
                             input("w", kF32, {"1", "1", "3", "3"}) +
                             output("y", kF32, {"1", "1", "8", "8"});
  auto with = [&](const std::string &op, const std::string &attributes) {
    return error_of(model(node(op, {"x", "w"}, {"y"}, attributes) + around));
  };
  const int64_t huge = INT64_MAX;
  for (const char *op : {"Conv", "ConvTranspose", "ConvInteger"})
    for (const char *name : {"strides", "dilations", "pads"}) {
      INFO(op << " " << name);
      const size_t count = std::string(name) == "pads" ? 4 : 2;
      check_holds(with(op, integers_attribute(name, Ints(count, huge))), Holds("no window has"));
      check_holds(with(op, integers_attribute(name, Ints(count, -1)) +
                               text_attribute("auto_pad", "NOTSET")),
                  Holds("no window has"));
    }
  check_holds(with("Conv", integers_attribute("strides", {0, 0}) +
                               text_attribute("auto_pad", "SAME_LOWER")),
              Holds("no window has"));
  check_holds(with("Conv", integer_attribute("group", 0)), Holds("conv2d"));
  check_holds(with("LRN", integer_attribute("size", 0)), Holds("no channel"));

  auto regions = [&](int64_t samples) {
    return error_of(model(
        node("RoiAlign", {"x", "r", "i"}, {"z"}, integer_attribute("sampling_ratio", samples)) +
        input("x", kF32, {"1", "1", "8", "8"}) + input("r", kF32, {"2", "4"}) +
        input("i", kI64, {"2"}) + output("z", kF32, {"2", "1", "1", "1"})));
  };
  CHECK(regions(4096).empty());
  check_holds(regions(4097), Holds("sampling_ratio 4097, above 4096"));
  check_holds(regions(huge), Holds("above 4096"));
}

TEST_CASE("an equation that is a product of matrices becomes one, turned as its operand lies") {
  auto text = [](const std::string &equation, const std::string &columns) {
    return text_of(model(node("Einsum", {"x", "w"}, {"y"}, text_attribute("equation", equation)) +
                         input("x", kF32, {"n", "2", "8", "4"}) +
                         input("w", kF32, {"n", "2", columns, columns == "4" ? "6" : "4"}) +
                         output("y", kF32, {"n", "2", "8", "6"})));
  };
  check_holds(text("bhid,bhjd->bhij", "6"),
              Holds("matmul(%x, %w) {transpose_b = true}") && !Holds("reduce_sum"));
  check_holds(text("...id,...dj->...ij", "4"),
              Holds("matmul(%x, %w)\n") && !Holds("reduce_sum") && !Holds("transpose"));
}

TEST_CASE("lists on the host: axes that are named twice, steps that overflow, numbers to the end") {
  // y = Reshape(x, op(shape)): the op works on known elements.
  auto shaped = [&](const std::string &op, const std::vector<std::string> &more,
                    const std::string &attributes, const std::string &initial) {
    std::vector<std::string> inputs = {"list"};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return error_of(model(node(op, inputs, {"s"}, attributes) + node("Reshape", {"x", "s"}, {"y"}) +
                          initial + input("x", kF32, {"4"}) + output("y", kF32, {})));
  };
  const std::string list = integers("list", {2, 2, 7});
  const std::string zero = integers("zero", {0}), end = integers("end", {INT64_MAX});
  CHECK(shaped("Slice", {"zero", "two", "zero", "step"}, "",
               list + zero + integers("two", {2}) + integers("step", {1}))
            .empty());
  // Of a step that no list has, the first element alone.
  check_holds(shaped("Slice", {"zero", "end", "zero", "step"}, "",
                     list + zero + end + integers("step", {INT64_MAX})),
              Holds("input 0 has 4 in dimension 0, where 2 is wanted"));
  check_holds(shaped("Slice", {"twice", "ends", "twice", "steps"}, "",
                     list + integers("twice", {0, 0}) + integers("ends", {3, 3}) +
                         integers("steps", {2, 2})),
              Holds("slice"));
  const std::string square = bytes(5, number(1, 3) + number(1, 2) + number(2, kI64) +
                                          bytes(8, "list") + bytes(9, std::string(48, '\1')));
  check_holds(shaped("Transpose", {}, integers_attribute("perm", {0, 0}), square),
              Holds("transpose"));
  check_holds(error_of(model(node("Range", {"a", "b", "c"}, {"y"}) +
                             integers("a", {INT64_MAX - 1}) + integers("b", {INT64_MAX}) +
                             integers("c", {INT64_MAX / 2}) + output("y", kI64, {}))),
              Holds(""));
}

TEST_CASE("a split into no part, scales and diagonals that no tensor has") {
  check_holds(error_of(model(node("Split", {"x"}, {}) + input("x", kF32, {"4"}) +
                             output("x", kF32, {"4"}))),
              Holds(""));
  std::string scales(8, '\0');
  scales.replace(4, 4, std::string("\xff\xff\x7f\x7f", 4));
  const std::string tensor =
      bytes(5, number(1, 2) + number(2, 1) + bytes(8, "scales") + bytes(9, scales));
  check_holds(error_of(model(node("Resize", {"x", "", "scales"}, {"y"}) + tensor +
                             input("x", kF32, {"4", "4"}) + output("y", kF32, {}))),
              Holds("no scale of an image"));
  for (const char *kind : {"nearest", "linear"}) // of which opset 9 knows scales alone
    check_holds(
        error_of(model(node("Resize", {"x", "", "", "sizes"}, {"y"}, text_attribute("mode", kind)) +
                           integers("sizes", {8, 8}) + input("x", kF32, {"4", "4"}) +
                           output("y", kF32, {}),
                       9)),
        Holds("scales or sizes are not one for each axis"));
  check_holds(
      error_of(model(node("Einsum", {"x"}, {"y"}, text_attribute("equation", "ii->i")) +
                     input("x", kF32, {"4294967296", "4294967296"}) + output("y", kF32, {}))),
      Holds("an axis of a diagonal is 4294967296"));
  const std::string two = number(1, 2) + number(2, 1) + bytes(9, std::string(8, '\0'));
  check_holds(error_of(model(node("ConstantOfShape", {"s"}, {"y"},
                                  bytes(5, bytes(1, "value") + bytes(5, two) + number(20, 4))) +
                             input("s", kI64, {"1"}) + output("y", kF32, {}))),
              Holds("attribute 'value' has not one element"));
  for (std::string equation : {"ij->k", "ij->ik", "ij->ii"}) // letters of no term, or twice
    check_holds(error_of(model(node("Einsum", {"x"}, {"y"}, text_attribute("equation", equation)) +
                               input("x", kF32, {"2", "3"}) + output("y", kF32, {}))),
                Holds("the result has not each of its letters once, and from a term"));
}

TEST_CASE("loops within loops are written out up to a number of nodes") {
  std::string body = node("Identity", {"v"}, {"w"}) + output("c", 9, {}) + output("w", kF32, {});
  for (int i = 0; i < 6; ++i) {
    const std::string at = std::to_string(i);
    const std::string inner = input("i" + at, kI64, {}) + input("c" + at, 9, {}) +
                              input(i ? "v" + at : "v", kF32, {}) + body;
    body = node("Loop", {"turns", "c", i == 5 ? "x" : "v" + std::to_string(i + 1)}, {"w" + at},
                graph_attribute("body", inner)) +
           output("c", 9, {}) + output("w" + at, kF32, {});
  }
  const std::string turns = integers("turns", {64});
  const std::string yes = bytes(5, number(2, 9) + bytes(8, "c") + bytes(9, std::string(1, '\1')));
  const size_t cut = body.find(output("c", 9, {}) + output("w5", kF32, {}));
  REQUIRE(cut != std::string::npos);
  check_holds(error_of(model(turns + yes + body.substr(0, cut) + input("x", kF32, {}) +
                             output("w5", kF32, {}))),
              Holds("written out are more than 65536 nodes"));
}

/// y = x doubled in each turn, whose number is `turns`; all of them are `rows`.
std::string doubling_loop(const std::string &turns, const std::string &around) {
  const std::string body = input("i", kI64, {}) + input("c", 9, {}) + input("v", kF32, {"4"}) +
                           node("Add", {"v", "v"}, {"w"}) + node("Identity", {"w"}, {"row"}) +
                           output("c", 9, {}) + output("w", kF32, {"4"}) +
                           output("row", kF32, {"4"});
  return model(node("Loop", {turns, "", "x"}, {"y", "rows"}, graph_attribute("body", body)) +
               around + input("x", kF32, {"4"}) + output("y", kF32, {"4"}) +
               output("rows", kF32, {"turns", "4"}));
}

TEST_CASE(
    "a loop of few turns is written out; of many, or as many as an input says, it is a while") {
  const std::string few = text_of(doubling_loop("n", integers("n", {3})));
  check_holds(few, !Holds("while"));
  const std::string many = text_of(doubling_loop("n", integers("n", {500})));
  check_holds(many, Holds("while (") && Holds("tensor<[500, 4], f32>"));
  const std::string given = text_of(doubling_loop("n", input("n", kI64, {})));
  check_holds(given, Holds("%n: int<n>") && Holds("while (") && Holds("tensor<[n, 4], f32>"));
}

TEST_CASE("a loop whose end the device decides collects nothing") {
  const std::string body = input("i", kI64, {}) + input("c", 9, {}) + input("v", kF32, {}) +
                           node("Add", {"v", "v"}, {"w"}) + node("Less", {"w", "most"}, {"on"}) +
                           output("on", 9, {}) + output("w", kF32, {});
  const std::string around =
      bytes(5, number(2, 1) + bytes(8, "most") + bytes(9, std::string(4, 'B'))) +
      input("x", kF32, {}) + output("y", kF32, {});
  check_holds(
      text_of(model(node("Loop", {"", "", "x"}, {"y"}, graph_attribute("body", body)) + around)),
      Holds("while (") && Holds("less("));
  check_holds(error_of(model(node("Loop", {"", "", "x"}, {"y", "rows"},
                                  graph_attribute("body", body + output("w", kF32, {}))) +
                             around)),
              Holds("as many as the device decides"));
}

TEST_CASE(
    "a scan over a dimension that varies is a while, and what it collects has that dimension") {
  const std::string body =
      input("sum", kF32, {}) + input("one", kF32, {}) + node("Add", {"sum", "one"}, {"next"}) +
      node("Identity", {"next"}, {"row"}) + output("next", kF32, {}) + output("row", kF32, {});
  const std::string text =
      text_of(model(node("Scan", {"start", "x"}, {"y", "rows"},
                         graph_attribute("body", body) + integer_attribute("num_scan_inputs", 1)) +
                    input("start", kF32, {}) + input("x", kF32, {"n"}) + output("y", kF32, {}) +
                    output("rows", kF32, {"n"})));
  check_holds(text, Holds("while (") && Holds("-> (tensor<[], f32>, tensor<[n], f32>)"));
}

TEST_CASE("arithmetic over dimensions that is nested without end is refused") {
  std::string nodes = node("Shape", {"x"}, {"s0"});
  for (int i = 0; i < 400; ++i) { // s = s * s / 3: no sum of products
    const std::string s = "s" + std::to_string(i), next = "s" + std::to_string(i + 1);
    nodes += node("Div", {s, "three"}, {"d" + s}) + node("Max", {"d" + s, "three"}, {"m" + s}) +
             node("Add", {"m" + s, "three"}, {next});
  }
  check_holds(error_of(model(nodes + node("Expand", {"x", "s400"}, {"y"}) + integers("three", {3}) +
                             input("x", kF32, {"n"}) + output("y", kF32, {}))),
              Holds("nested more than"));
}

TEST_CASE("a view of an input that is not there is refused") {
  check_holds(error_of(model(node("BitCast", {}, {"y"}, integer_attribute("to", 6)) +
                                 input("x", kF32, {"3"}) + output("y", 6, {"3"}),
                             26)),
              Holds("an input that the op needs is missing"));
}

TEST_CASE("external data: the file must be there, inside of the folder, and long enough") {
  const TemporaryFolder folder;
  auto file = [&](const std::string &location, const std::string &more = "") {
    const std::string tensor =
        bytes(5, number(1, 2) + number(2, kI64) + bytes(8, "w") +
                     bytes(13, bytes(1, "location") + bytes(2, location)) + more + number(14, 1));
    std::ofstream(folder.path + "/m.onnx", std::ios::binary)
        << model(tensor + output("w", kI64, {"2"}));
    auto imported = onnx::import_file(folder.path + "/m.onnx", {});
    return imported.ok() ? std::string() : imported.status().message();
  };
  check_holds(file("missing.bin"), Holds("external data of 'w': cannot read"));
  check_holds(file("../outside.bin"), Holds("not inside of the model's folder"));
  check_holds(file("/etc/passwd"), Holds("not inside of the model's folder"));
  std::ofstream(folder.path + "/w.bin", std::ios::binary) << std::string(16, '\1');
  CHECK(file("w.bin").empty());
  check_holds(file(std::string("w.bin\0x", 7)), Holds("not inside of the model's folder"));
  check_holds(file("w.bin", bytes(13, bytes(1, "offset") + bytes(2, "17"))),
              Holds("behind the end"));
}

TEST_CASE("unsupported nodes are reported together, each op with its count and what to do") {
  const std::string message = error_of(model(node("Foo", {"x"}, {"a"}) + node("Foo", {"x"}, {"b"}) +
                                             node("TfIdfVectorizer", {"x"}, {"y"}) +
                                             input("x", kF32, {"4"}) + output("y", kI64, {})));
  check_holds(message, Holds("3 nodes cannot be imported"));
  check_holds(message, Holds("Foo, 2 times (first 'a')"));
  check_holds(message, Holds("TfIdfVectorizer, 1 time"));
}

TEST_CASE("arithmetic over shapes becomes expressions and emits nothing") {
  // y = Reshape(x, Concat(Shape(x)[0], 2, -1)): [n, 12] becomes [n, 2, 6].
  const std::string graph =
      node("Shape", {"x"}, {"s"}) + node("Gather", {"s", "zero"}, {"n"}) +
      node("Concat", {"n", "two", "rest"}, {"to"}, integer_attribute("axis", 0)) +
      node("Reshape", {"x", "to"}, {"y"}) + integers("zero", {0}) + integers("two", {2}) +
      integers("rest", {-1}) + input("x", kF32, {"batch.size", "12"}) + output("y", kF32, {});
  const std::string text = text_of(model(graph));
  check_holds(text, Holds("-> (tensor<[batch.size, 2, 6], f32>)"));
  for (const char *op : {"gather(", "concat(", "constant", "launch"})
    check_holds(text, !Holds(op));
}

TEST_CASE("dimensions get names of the file's, of their number, or of --dim") {
  const std::string graph = node("Add", {"a", "b"}, {"y"}) + input("a", kF32, {"p2o.Dim", ""}) +
                            input("b", kF32, {"p2o.Dim", "1"}) + output("y", kF32, {});
  auto imported = must(onnx::import_bytes(model(graph), "", {}));
  CHECK(imported.symbols ==
        std::vector<std::pair<std::string, std::string>>{{"p2o.Dim", "p2o.Dim"}, {"a[1]", "x1"}});
  onnx::Options options;
  options.dims = {{"p2o.Dim", "batch"}, {"a[1]", "3"}};
  options.bounds["batch"] = {2, 5};
  const std::string text = text_of(model(graph), options);
  check_holds(text, Holds("%a: tensor<[batch, 3], f32>"));
  check_holds(text, Holds("lower_bounds = {batch = 2}, upper_bounds = {batch = 5}"));
}

TEST_CASE("a file of weights begins with what keeps the others at round places") {
  const std::vector<std::pair<std::string, size_t>> weights = {
      {"three", 1027}, {"many", 1024}, {"one", 1025}, {"four", 1028}};
  std::string graph = input("x", kF32, {"1"});
  std::map<std::string, std::string> raw;
  for (const auto &[name, count] : weights) {
    for (size_t i = 0; i < count * 4; ++i)
      raw[name] += char(name[0] + i);
    graph += bytes(5, number(1, count) + number(2, kF32) + bytes(8, name) + bytes(9, raw[name])) +
             node("Add", {"x", name}, {"y." + name}) +
             output("y." + name, kF32, {std::to_string(count)});
  }
  const std::string source = model(graph); // the weights' bytes lie in it
  auto imported = must(onnx::import_bytes(source, "", {}));
  const TemporaryFolder folder;
  const std::string path = folder.path + "/w.safetensors";
  REQUIRE(onnx::write_weights(path, imported).ok());
  std::ifstream stream(path, std::ios::binary);
  const std::string file(std::istreambuf_iterator<char>(stream), {});
  const size_t data = 8 + uint8_t(file[0]) + 256 * uint8_t(file[1]);
  CHECK(data % 64 == 0);
  const std::pair<const char *, size_t> places[] = {
      {"many", 0}, {"four", 4096}, {"three", 8208}, {"one", 12316}};
  for (const auto &[name, at] : places) {
    INFO(name);
    const size_t bytes = raw[name].size();
    check_holds(file, Holds("[" + std::to_string(bytes / 4) + "],\"data_offsets\":[" +
                            std::to_string(at) + "," + std::to_string(at + bytes) + "]"));
    CHECK(file.substr(data + at, bytes) == raw[name]);
  }
}

TEST_CASE("dimensions that are equal only at run time are matched, where bounds leave no 1") {
  const std::string add = model(node("Add", {"a", "b"}, {"y"}) + input("a", kF32, {"n"}) +
                                input("b", kF32, {"m"}) + output("y", kF32, {}));
  onnx::Options options;
  options.bounds["n"] = options.bounds["m"] = {2, 8};
  check_holds(text_of(add, options), Holds("match %b : tensor<[n], f32>") && !Holds("gather"));
  options.bounds["m"] = {1, 8};
  check_holds(text_of(add, options),
              Holds("match %b : tensor<[select(m == 1, 1, n)], f32>") && Holds("gather(%y,"));
  options.dims["m"] = "n";
  options.bounds.erase("m");
  check_holds(text_of(add, options), !Holds("match") && !Holds("gather"));
}

TEST_CASE("an integer input that decides a branch is a host integer; bound, the branch is taken at "
          "the import") {
  const std::string yes = node("Neg", {"x"}, {"t"}) + output("t", kF32, {"4"}),
                    no = node("Abs", {"x"}, {"e"}) + output("e", kF32, {"4"});
  const std::string graph =
      node("Equal", {"sr", "rate"}, {"c"}) +
      node("If", {"c"}, {"y"},
           graph_attribute("then_branch", yes) + graph_attribute("else_branch", no)) +
      bytes(5,
            number(2, kI64) + bytes(8, "rate") + bytes(9, std::string("\x80\x3e\0\0\0\0\0\0", 8))) +
      input("x", kF32, {"4"}) + input("sr", kI64, {}) + output("y", kF32, {"4"});
  auto imported = must(onnx::import_bytes(model(graph), "", {}));
  check_holds(ir::print(imported.module), Holds("%sr: int<sr>") && Holds("if sr == 16000"));
  REQUIRE(imported.inputs.size() == 2);
  CHECK(imported.inputs[1].kind == onnx::InputKind::integer);
  onnx::Options options;
  options.bind["sr"] = "16000";
  const std::string bound = text_of(model(graph), options);
  check_holds(bound, Holds("neg(") && !Holds("abs(") && !Holds("sr"));
  options.bind = {{"rate2", "1"}};
  check_holds(error_of(model(graph), options), Holds("no input 'rate2'"));
}

TEST_CASE(
    "a list of integers that decides a shape is a shape of the function; given, its bounds are "
    "what is given, or it is bound") {
  const std::string reshape = node("Reshape", {"x", "shape"}, {"y"}) +
                              input("x", kF32, {"n", "12"}) + input("shape", kI64, {"2"}) +
                              output("y", kF32, {});
  auto imported = must(onnx::import_bytes(model(reshape), "", {}));
  REQUIRE(imported.inputs.size() == 2);
  CHECK(imported.inputs[1].kind == onnx::InputKind::shape);
  const std::string text = ir::print(imported.module);
  check_holds(text, Holds("%shape: shape<[shape_0, shape_1]>") && Holds("shape_0 = 512") &&
                        Holds("constraints = [shape_0*shape_1 <= 192]"));

  const auto given = [](const Ints &values) {
    onnx::Options options;
    onnx::HostTensor &tensor = options.given["shape"];
    tensor.dtype = ir::DType::i64;
    tensor.dims = {int64_t(values.size())};
    tensor.owned = std::make_shared<std::string>(reinterpret_cast<const char *>(values.data()),
                                                 values.size() * sizeof values[0]);
    tensor.bytes = *tensor.owned;
    return options;
  };
  check_holds(text_of(model(reshape), given({6, 4})),
              Holds("{n = 16, shape_0 = 6, shape_1 = 4}") && !Holds("constraints"));
  // The input's dimension, and what is left: constants, since no dimension is 0 or -1.
  check_holds(text_of(model(reshape), given({0, 12})), !Holds("shape_0"));
  check_holds(text_of(model(reshape), given({4, -1})), !Holds("shape_0"));
  // Axes are never integers of a run.
  const std::string squeeze = node("Squeeze", {"x", "axes"}, {"y"}) +
                              input("x", kF32, {"1", "n", "1"}) + input("axes", kI64, {"2"}) +
                              output("y", kF32, {});
  check_holds(error_of(model(squeeze)), Holds("--bind axes=VALUE"));
}

TEST_CASE("an input that must be a constant says how it is bound") {
  const std::string graph = node("CumSum", {"x", "axis"}, {"y"}) + input("x", kF32, {"4"}) +
                            input("axis", kI64, {}) + output("y", kF32, {"4"});
  check_holds(error_of(model(graph)), Holds("--bind axis=VALUE"));
  onnx::Options options;
  for (const char *text : {"0", "-1", "0e3"}) {
    options.bind["axis"] = text;
    CHECK(error_of(model(graph), options).empty());
  }
}

TEST_CASE("a bound number that its dtype does not hold is an error with the range") {
  struct Row {
    unsigned dtype;
    const char *text, *error;
  };
  constexpr unsigned kI32 = 6;
  for (const Row &row :
       {Row{kI32, "2147483648", "i32: from -2147483648 to 2147483647"},
        Row{kI32, "-2147483649", "i32: from -2147483648 to 2147483647"},
        Row{kI32, "0.5", "i32: from -2147483648 to 2147483647"},
        Row{kI64, "9223372036854775808", "i64: from -9223372036854775808 to 9223372036854775807"},
        Row{kI64, "1e30", "i64: from -9223372036854775808 to 9223372036854775807"},
        Row{kF32, "1e39", "f32"}}) {
    const std::string graph = node("Add", {"x", "b"}, {"y"}) + input("x", row.dtype, {"4"}) +
                              input("b", row.dtype, {}) + output("y", row.dtype, {"4"});
    onnx::Options options;
    options.bind["b"] = row.text;
    CHECK(error_of(model(graph), options) ==
          std::string("--bind b: ") + row.text + " does not fit its type, " + row.error);
  }
}

TEST_CASE("a BatchNormalization that alone reads a convolution is in its weights") {
  const std::string norm = node("BatchNormalization", {"h", "s", "b", "m", "v"}, {"y"});
  const std::string around = input("x", kF32, {"n", "2", "8", "8"}) +
                             weight("w", {3, 2, 3, 3}, '\1') + weight("s", {3}, '\1') +
                             weight("b", {3}, '\1') + weight("m", {3}, '\1') +
                             weight("v", {3}, '\1') + output("y", kF32, {});
  const auto count = [](const std::string &text, const std::string &part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  const std::string folded = text_of(model(node("Conv", {"x", "w"}, {"h"}) + norm + around));
  check_holds(folded, Holds("return %h"));
  const std::string read_twice =
      text_of(model(node("Conv", {"x", "w"}, {"h"}) + norm + around + output("h", kF32, {})));
  CHECK(count(folded, "tensor<[n, 3, 6, 6], f32>") <
        count(read_twice, "tensor<[n, 3, 6, 6], f32>"));
  // Every value is asked for: what stands between the two is there.
  onnx::Options options;
  options.every_value = true;
  auto imported =
      must(onnx::import_bytes(model(node("Conv", {"x", "w"}, {"h"}) + norm + around), "", options));
  REQUIRE(imported.outputs.size() == 2);
  CHECK(imported.outputs[0].name == "y");
  CHECK(imported.outputs[1].name == "h");
  CHECK(imported.outputs[1].op == "Conv");
  CHECK(imported.outputs[1].place == 0);
}

TEST_CASE("frames in the place of an image: what is wrong in the text, and what the model is not") {
  for (const char *text : {"rgb", "hwc,size=3", "hwc,size=0x4", "hwc,mean=a", "hwc,std=0",
                           "nv12,size=3x4", "hwc,crop=2", "hwc,scale=1:2", ""}) {
    INFO(text);
    CHECK_FALSE(onnx::parse_frames(text).ok());
  }
  auto frames = must(onnx::parse_frames("nv12,swap,size=4x6,scale=1,mean=1:2:3,std=2"));
  CHECK((frames.nv12 && frames.swap && frames.rows == 4 && frames.columns == 6));
  CHECK((frames.scale == 1 && frames.mean == std::vector<double>{1, 2, 3}));
  auto with = [&](const std::vector<std::string> &dims, const std::string &text) {
    onnx::Options options;
    options.frames["x"] = *onnx::parse_frames(text);
    auto imported = onnx::import_bytes(
        model(node("Relu", {"x"}, {"y"}) + input("x", kF32, dims) + output("y", kF32, {})), "",
        options);
    return imported.ok() ? ir::print(imported->module) : imported.status().message();
  };
  check_holds(with({"1", "3", "8", "8"}, "hwc"),
              Holds("%x: tensor<[1, x_rows, x_columns, 3], u8>") && Holds("launch @frames"));
  check_holds(with({"n", "8", "8", "3"}, "nv12"), Holds("%x: tensor<[n, x_lines, x_columns], u8>"));
  check_holds(with({"1", "3", "h", "w"}, "hwc"), Holds("%x: tensor<[1, h, w, 3], u8>"));
  check_holds(with({"1", "3", "h", "w"}, "nv12"), Holds("--dim must say"));
  check_holds(with({"1", "5", "8", "8"}, "hwc"), Holds("no axis of 1, 3 or 4 channels"));
  check_holds(with({"1", "1", "8", "8"}, "nv12"), Holds("NV12 frames have 3"));
  check_holds(with({"1", "3", "8", "8"}, "hwc,mean=1:2"), Holds("has 3 channels, and 2 numbers"));
}

TEST_CASE(
    "a size that the data decides is a symbol that the host is told, and no more than there are") {
  const std::string text = text_of(model(node("NonZero", {"x"}, {"p"}) + node("Neg", {"p"}, {"y"}) +
                                         input("x", kF32, {"3", "4"}) + output("y", kI64, {})));
  check_holds(text, Holds("host \"cugrt.count\"") && Holds("-> (tensor<?, i64>)") &&
                        Holds("counted = 12") && !Holds("counted_dims"));
}

TEST_CASE("a size that the data decides is nobody's symbol where only a result has it") {
  const std::string text =
      text_of(model(node("NonZero", {"x"}, {"p"}) + node("Transpose", {"p"}, {"y"}) +
                    input("x", kF32, {"n", "4"}) + output("y", kI64, {})));
  check_holds(text, !Holds("host") && Holds("-> (tensor<[4*n, 2], i64>, tensor<[1], i64>)") &&
                        Holds("counted_dims = [0[0] = 1]"));
}

TEST_CASE("of two sizes that the data decides each is where its own readers want it") {
  const std::string text =
      text_of(model(node("NonZero", {"x"}, {"a"}) + node("NonZero", {"z"}, {"b"}) +
                    node("Neg", {"b"}, {"c"}) + input("x", kF32, {"8"}) + input("z", kF32, {"4"}) +
                    output("c", kI64, {}) + output("a", kI64, {})));
  check_holds(text, Holds("host \"cugrt.count\"") && Holds("counted = 4") &&
                        Holds("-> (tensor<?, i64>, tensor<[1, 8], i64>, tensor<[1], i64>)") &&
                        Holds("counted_dims = [1[1] = 2]"));
}

TEST_CASE("the k largest of a count, k being at most a number above all that there may be") {
  const std::string text =
      text_of(model(node("Cast", {"x"}, {"mask"}, integer_attribute("to", 9)) +
                    node("Compress", {"x", "mask"}, {"kept"}, integer_attribute("axis", 0)) +
                    node("Shape", {"kept"}, {"count"}) + node("Min", {"count", "most"}, {"k"}) +
                    node("TopK", {"kept", "k"}, {"y", "at"}) + integers("most", {50}) +
                    input("x", kF32, {"45"}) + output("y", kF32, {}) + output("at", kI64, {})));
  check_holds(text, Holds("shape [min(counted, 50)]") && Holds("upper_bounds = {counted = 45}"));
}

TEST_CASE("options that name what the model has not are refused, and told what it has") {
  onnx::Options options;
  options.dims["m"] = "4";
  check_holds(error_of(kRelu, options), Holds("no dimension 'm'; it has 'n'"));
  options.dims.clear();
  options.bounds["m"] = {1, 8};
  check_holds(error_of(kRelu, options), Holds("no symbol 'm'; it has 'n'"));
  options.dims["n"] = "m";
  CHECK(error_of(kRelu, options).empty());
}

TEST_CASE("a dimension that can only be one number is that number") {
  // The state's second dimension is 1, so the batch is.
  const std::string gru =
      model(node("GRU", {"x", "w", "r", "", "", "h"}, {"y"}, integer_attribute("hidden_size", 3)) +
            input("x", kF32, {"t", "batch", "2"}) + input("h", kF32, {"1", "1", "3"}) +
            weight("w", {1, 9, 2}, '\0') + weight("r", {1, 9, 3}, '\0') + output("y", kF32, {}));
  auto imported = must(onnx::import_bytes(gru, "", {}));
  check_holds(ir::print(imported.module),
              Holds("%x: tensor<[t, 1, 2], f32>") && !Holds("match") && !Holds("batch"));
  CHECK(imported.symbols[0] == std::pair<std::string, std::string>("t", "t"));
  CHECK(imported.symbols[1] == std::pair<std::string, std::string>("batch", "1"));
}

TEST_CASE("a squeeze without axes of what is 1 or not is refused, and taken where bounds tell") {
  const std::string squeeze = model(node("Squeeze", {"x"}, {"y"}) +
                                    input("x", kF32, {"n", "1", "4"}) + output("y", kF32, {}));
  check_holds(error_of(squeeze), Holds("dimension 0 is 1 or not") && Holds("--dim NAME=NUMBER"));
  onnx::Options options;
  options.bounds["n"] = {2, 8};
  check_holds(text_of(squeeze, options), Holds("-> (tensor<[n, 4], f32>)"));
  options.bounds.clear();
  options.dims["n"] = "1";
  check_holds(text_of(squeeze, options), Holds("-> (tensor<[4], f32>)"));
}

TEST_CASE("comparisons that bounds decide leave no choice behind") {
  // As exporters write Expand: where(shape == -1, 1, shape).
  check_holds(
      text_of(model(node("Shape", {"x"}, {"s"}) + node("Equal", {"s", "no"}, {"e"}) +
                    node("Where", {"e", "one", "s"}, {"w"}) + node("Expand", {"z", "w"}, {"y"}) +
                    integers("no", {-1}) + integers("one", {1}) + input("x", kF32, {"n"}) +
                    input("z", kF32, {"1"}) + output("y", kF32, {}))),
      Holds("-> (tensor<[n], f32>)") && !Holds("select"));
}

TEST_CASE("sizes that exporters compute as floats are expressions") {
  check_holds(
      text_of(model(node("Shape", {"x"}, {"s"}) +
                    node("Cast", {"s"}, {"f"}, integer_attribute("to", kF32)) +
                    node("Div", {"f", "three"}, {"d"}) + node("Floor", {"d"}, {"g"}) +
                    node("Cast", {"g"}, {"i"}, integer_attribute("to", kI64)) +
                    node("Expand", {"z", "i"}, {"y"}) +
                    bytes(5, number(1, 1) + number(2, kF32) + bytes(8, "three") +
                                 bytes(9, std::string("\0\0\x40\x40", 4))) +
                    input("x", kF32, {"n"}) + input("z", kF32, {"1"}) + output("y", kF32, {}))),
      Holds("tensor<[floordiv(n, 3)], f32>") && !Holds("= cast(") && !Holds("= floor("));
}

TEST_CASE("elements of a size as floats are chosen by places that a run gives") {
  const auto text = text_of(model(
      node("Shape", {"x"}, {"s"}) + node("Cast", {"s"}, {"f"}, integer_attribute("to", kF32)) +
      node("Slice", {"f", "from", "to"}, {"y"}) + input("x", kF32, {"n", "m"}) +
      input("from", kI64, {"1"}) + input("to", kI64, {"1"}) + output("y", kF32, {})));
  check_holds(text, Holds("= slice(") && !Holds("-> (tensor<[2], f32>)"));
}

TEST_CASE("products of dimensions that are squared again and again are not written out") {
  std::string nodes = node("Shape", {"x"}, {"p0"});
  for (int i = 0; i < 40; ++i)
    nodes += node("Mul", {"p" + std::to_string(i), "p" + std::to_string(i)},
                  {"p" + std::to_string(i + 1)});
  CHECK(error_of(model(nodes + node("Reshape", {"x", "p40"}, {"y"}) + input("x", kF32, {"n"}) +
                       output("y", kF32, {})))
            .empty());
}
