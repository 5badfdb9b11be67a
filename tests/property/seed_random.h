// Random modules for the rules of policy seed, as text: constant and symbolic storage, storages
// used again, aliases, views, matches, branches, host builtins, calls. Only tensors that were
// written are read, so every run has one right outcome.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace cugrt::test {

class RandomSeedModule {
public:
  explicit RandomSeedModule(uint32_t seed) : random_(seed) {
    text_ = "cugrt 1\n";
    for (const char *accesses : {"io", "iio", "b"})
      kernel(accesses);
    uint32_t leaves = pick(3);
    for (uint32_t i = 0; i < leaves; ++i)
      leaf(i);
    main();
  }

  const std::string &text() const { return text_; }

private:
  struct Tensor {
    std::string name;
    bool row = false; // [n, 4]; else [16]
    bool writable = true, written = false;
    std::string storage{}; // of alloc_tensors: may be killed, and its storage used again
    uint32_t root = 0;     // names of one tensor share it
    uint32_t depth = 0;    // of the block that defines it
  };
  using Tensors = std::vector<Tensor>;

  uint32_t pick(size_t n) { return n ? uint32_t(random_() % n) : 0; }
  std::string fresh(const char *hint) { return "%" + std::string(hint) + std::to_string(next_++); }
  static std::string type(const Tensor &t) {
    return t.row ? "tensor<[n, 4], f32>" : "tensor<[16], f32>";
  }
  void line(const std::string &text) { body_ += std::string(2 * depth_ + 2, ' ') + text + "\n"; }

  void kernel(const std::string &accesses) {
    text_ += "kernel @" + accesses + " { source \"k.cu\" entry \"k\" params (";
    for (size_t i = 0; i < accesses.size(); ++i)
      text_ += (i ? ", p" : "p") + std::to_string(i) + ": " +
               (accesses[i] == 'i'   ? "in"
                : accesses[i] == 'o' ? "out"
                                     : "inout") +
               " any";
    text_ += ") launch { grid (1, 1, 1) block (8, 1, 1) } }\n";
  }

  int find(const Tensors &t, bool written, bool writable, int row = -1, int except = -1) {
    std::vector<int> fits;
    for (int i = 0; i < int(t.size()); ++i)
      if ((!written || t[i].written) && (!writable || t[i].writable) &&
          (except < 0 || t[i].root != t[except].root) && (row < 0 || t[i].row == bool(row)))
        fits.push_back(i);
    return fits.empty() ? -1 : fits[pick(fits.size())];
  }

  void launch(Tensors &t) {
    int out = find(t, false, true);
    if (out < 0)
      return;
    if (t[out].written && pick(4) == 0)
      return line("launch @b(" + t[out].name + ")");
    int in1 = find(t, true, false, -1, out), in2 = find(t, true, false, -1, out);
    if (in1 < 0)
      return;
    line(pick(2) ? "launch @io(" + t[in1].name + ", " + t[out].name + ")"
                 : "launch @iio(" + t[in1].name + ", " + t[in2].name + ", " + t[out].name + ")");
    for (Tensor &other : t)
      if (other.root == t[out].root)
        other.written = true;
  }

  void allocate(Tensors &t) {
    Tensor made;
    made.row = pick(3) == 0;
    made.name = fresh("t");
    made.root = next_;
    made.depth = depth_;
    if (pick(6) == 0) {
      line(made.name + " = alloc : " + type(made));
    } else {
      made.storage = fresh("s");
      bool symbolic = made.row && pick(3) == 0;
      line(made.storage + " = alloc_storage \"global\", " +
           (symbolic ? "16*n" : std::to_string(128 << pick(2))));
      if (pick(4) == 0) {
        std::string same = fresh("z");
        line(same + " = alias " + made.storage);
        made.storage = same;
      }
      line(made.name + " = alloc_tensor " + made.storage + ", 0 : " + type(made));
    }
    t.push_back(made);
  }

  /// Kills a tensor and puts another one in its storage.
  void reuse(Tensors &t) {
    std::vector<int> fits;
    for (int i = 0; i < int(t.size()); ++i)
      if (!t[i].storage.empty() && t[i].depth == depth_)
        fits.push_back(i);
    if (fits.empty())
      return;
    Tensor old = t[fits[pick(fits.size())]], made;
    line("kill " + old.name);
    if (pick(4) == 0) { // the storage too; another one takes its place
      line("kill " + old.storage);
      std::erase_if(t, [&](const Tensor &other) { return other.root == old.root; });
      return allocate(t);
    }
    std::erase_if(t, [&](const Tensor &other) { return other.root == old.root; });
    made.row = old.row;
    made.storage = old.storage;
    made.name = fresh("t");
    made.root = next_;
    made.depth = depth_;
    line(made.name + " = alloc_tensor " + made.storage + ", 0 : " + type(made));
    t.push_back(made);
  }

  void name(Tensors &t) {
    int source = find(t, true, false);
    if (source < 0)
      return;
    Tensor made = t[source];
    made.name = fresh("v");
    made.storage.clear();
    made.depth = depth_;
    uint32_t what = pick(4);
    line(made.name + (what == 0   ? " = match " + t[source].name + " : " + type(made)
                      : what == 1 ? " = view " + t[source].name + ", 0 : " + type(made)
                                  : " = alias " + t[source].name));
    t.push_back(made);
  }

  void call(Tensors &t) {
    int in = find(t, true, false, 1), state = find(t, true, true, 1, in);
    if (leaves_.empty() || in < 0 || state < 0)
      return;
    Tensor made;
    made.row = made.written = true;
    made.name = fresh("c");
    made.root = next_;
    made.depth = depth_;
    line(made.name + " = call " + leaves_[pick(leaves_.size())] + "(" + t[in].name + ", " +
         t[state].name + ")");
    t.push_back(made);
  }

  void branch(Tensors &t) {
    if (find(t, true, false, 1) < 0)
      return;
    std::string outer = std::exchange(body_, ""), blocks[2];
    ++depth_;
    for (std::string &block : blocks) {
      Tensors inner = t;
      steps(inner, 1 + pick(6));
      line("yield " + inner[find(inner, true, false, 1)].name);
      block = std::exchange(body_, "");
    }
    --depth_;
    bool nests = names(blocks[0], "%flag") || names(blocks[1], "%flag");
    std::string captures = nests ? "%flag" : "";
    std::vector<std::string> seen;
    for (const Tensor &tensor : t)
      for (const std::string &value : {tensor.name, tensor.storage})
        if (!value.empty() && std::find(seen.begin(), seen.end(), value) == seen.end() &&
            (names(blocks[0], value) || names(blocks[1], value))) {
          seen.push_back(value);
          captures += (captures.empty() ? "" : ", ") + value;
        }
    body_ = outer;
    Tensor made;
    made.row = made.written = true;
    made.name = fresh("b");
    made.root = next_;
    made.depth = depth_;
    std::string end(2 * depth_ + 2, ' ');
    line(made.name + " = if %flag using (" + captures + ") -> (tensor<[n, 4], f32>) {\n" +
         blocks[0] + end + "} else {\n" + blocks[1] + end + "}");
    t.push_back(made);
  }

  static bool names(const std::string &text, const std::string &value) {
    for (size_t at = text.find(value); at != std::string::npos; at = text.find(value, at + 1))
      if (size_t end = at + value.size(); end == text.size() || !isalnum(text[end]))
        return true;
    return false;
  }

  void steps(Tensors &t, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t what = pick(20);
      if (what < 4)
        allocate(t);
      else if (what < 6)
        reuse(t);
      else if (what < 8)
        name(t);
      else if (what == 8)
        call(t);
      else if (what == 9 && find(t, true, false) >= 0)
        line("host \"look\"(" + t[find(t, true, false)].name + ")");
      else if (what == 10 && depth_ < 2 && branches_)
        branch(t);
      else
        launch(t);
    }
  }

  void finish(Tensors &t) {
    line("%result = alloc : tensor<[n, 4], f32>");
    line("launch @io(" + t[find(t, true, false)].name + ", %result)");
    line(pick(2) ? "return %result, " + t[find(t, true, false, 1)].name
                 : "return %result, %result");
    text_ += body_ + "}\n";
    body_.clear();
  }

  void leaf(uint32_t number) {
    next_ = 0;
    branches_ = false;
    std::string name = "@leaf" + std::to_string(number);
    text_ +=
        "private func " + name +
        "(%u: tensor<[n, 4], f32>, %v: inout tensor<[n, 4], f32>) -> (tensor<[n, 4], f32>) "
        "attributes {lower_bounds = {n = 1}, upper_bounds = {n = 8}, capture_symbols = [n]} {\n";
    Tensors t = {{"%u", true, false, true, {}, 1000}, {"%v", true, true, true, {}, 1001}};
    steps(t, 3 + pick(8));
    line("%result = alloc : tensor<[n, 4], f32>");
    line("launch @io(" + t[find(t, true, false)].name + ", %result)");
    line("return %result");
    text_ += body_ + "}\n";
    body_.clear();
    leaves_.push_back(name);
  }

  void main() {
    next_ = 0;
    branches_ = true;
    text_ += "func @main(%x: tensor<[n, 4], f32>, %state: inout tensor<[16], f32>, %y: out "
             "tensor<[n, 4], f32>, %flag: bool, %w: tensor<[16], f32>) -> (tensor<[n, 4], f32>, "
             "tensor<[n, 4], f32>) attributes {num_inputs = 4, lower_bounds = {n = 1}, "
             "upper_bounds = {n = 8}" +
             std::string(pick(3) ? ", capture_symbols = [n]" : "") + "} {\n";
    Tensors t = {{"%x", true, false, true, {}, 1000},
                 {"%state", false, true, true, {}, 1001},
                 {"%y", true, true, false, {}, 1002},
                 {"%w", false, false, true, {}, 1003}};
    steps(t, 10 + pick(40));
    finish(t);
  }

  std::mt19937 random_;
  std::string text_, body_;
  std::vector<std::string> leaves_;
  uint32_t next_ = 0, depth_ = 0;
  bool branches_ = false;
};

} // namespace cugrt::test
