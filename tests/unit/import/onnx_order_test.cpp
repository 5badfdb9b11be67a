// Files whose nodes are not behind those whose results they read.
#include "fronts/onnx/import.h"
#include "ir/text/text.h"
#include "support/must.h"
#include "support/onnx_bytes.h"

using namespace cugrt;
using namespace cugrt::test::onnx_bytes;
using cugrt::test::must;

namespace {

const std::string kX = input("x", kF32, {"4"}), kY = output("y", kF32, {"4"});

std::string text_of(const std::string &graph) {
  auto imported = must(onnx::import_bytes(model(graph), "", {}));
  return ir::print(imported.module);
}
std::string error_of(const std::string &graph) {
  auto imported = onnx::import_bytes(model(graph), "", {});
  return imported.ok() ? "" : imported.status().message();
}

/// A node with a name.
std::string named(const std::string &name, const std::string &op, const std::string &from,
                  const std::string &to) {
  return node(op, {from}, {to}, bytes(3, name));
}

} // namespace

TEST_CASE("nodes in any order are the module of the nodes in order") {
  const std::string a = node("Relu", {"x"}, {"a"}), b = node("Neg", {"a"}, {"b"}),
                    c = node("Add", {"a", "b"}, {"y"});
  const std::string in_order = text_of(a + b + c + kX + kY);
  CHECK(in_order.find("relu") < in_order.find("neg"));
  for (const std::string &nodes : {c + b + a, b + a + c, c + a + b, b + c + a, a + c + b})
    CHECK(text_of(nodes + kX + kY) == in_order);
}

TEST_CASE("nodes that could be computed in the file's order stay in it") {
  const std::string module =
      text_of(node("Relu", {"x"}, {"a"}) + node("Neg", {"x"}, {"b"}) + node("Exp", {"x"}, {"c"}) +
              node("Sum", {"a", "b", "c", "d"}, {"y"}) + node("Abs", {"x"}, {"d"}) + kX + kY);
  CHECK(module.find("relu") < module.find("neg"));
  CHECK(module.find("neg") < module.find("exp"));
  CHECK(module.find("exp") < module.find("abs"));
  CHECK(module.find("abs") < module.find("add"));
}

TEST_CASE("what subgraphs read of values around them is made before, whatever the file's order") {
  const std::string branch = node("Neg", {"outer"}, {"b"}) + output("b", kF32, {"4"});
  const std::string choice =
      node("If", {"c"}, {"y"},
           graph_attribute("then_branch", branch) + graph_attribute("else_branch", branch));
  const std::string maker = node("Relu", {"x"}, {"outer"}), c = input("c", 9, {});
  CHECK(text_of(choice + maker + kX + c + kY) == text_of(maker + choice + kX + c + kY));
  // The branch's own "b" is not the one that is made behind it.
  CHECK(error_of(maker + choice + node("Abs", {"y"}, {"b"}) + kX + c + output("b", kF32, {"4"}))
            .empty());
}

TEST_CASE("a cycle is one sentence with a node and the value that it takes") {
  CHECK(error_of(named("one", "Relu", "b", "a") + named("two", "Neg", "a", "b") + kX +
                 output("b", kF32, {})) ==
        "graph '' has a cycle: node 'one' (Relu) takes 'b', which is computed from its own result");
  CHECK(error_of(named("behind", "Abs", "a", "y") + named("own", "Relu", "a", "a") + kX + kY) ==
        "graph '' has a cycle: node 'own' (Relu) takes 'a', which is computed from its own result");
  const std::string branch = named("inner", "Neg", "y", "b") + output("b", kF32, {"4"});
  CHECK(error_of(node("If", {"c"}, {"y"},
                      bytes(3, "choice") + graph_attribute("then_branch", branch) +
                          graph_attribute("else_branch", branch)) +
                 input("c", 9, {}) + kY) ==
        "graph '' has a cycle: node 'choice' (If) takes 'y', which is computed from its own "
        "result");
}

TEST_CASE("a function's nodes are put in order, too") {
  const std::string function = bytes(25, bytes(1, "Twice") + bytes(4, "p") + bytes(5, "q") +
                                             bytes(7, node("Add", {"r", "r"}, {"q"}).substr(2)) +
                                             bytes(7, node("Neg", {"p"}, {"r"}).substr(2)) +
                                             bytes(9, number(2, 17)) + bytes(10, "own"));
  const std::string graph = node("Twice", {"x"}, {"y"}, bytes(7, "own")) + kX + kY;
  auto imported = must(onnx::import_bytes(model(graph) + function, "", {}));
  const std::string text = ir::print(imported.module);
  CHECK(text.find("neg") < text.find("add"));
}
