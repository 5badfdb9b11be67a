// Steps of a small decoder in f16 as one cooperative launch, through the public C++ API: beside
// arithmetic in double precision, and beside the same steps as five launches a layer, bit for bit.
#include "support/api_fixture.h"

#include <algorithm>
#include <cmath>

using namespace cugrt;
using namespace cugrt::test;

namespace {

using Dims = std::vector<int64_t>;

struct Shape {
  int layers;
  int64_t places, capacity;
  bool head_norms = false;     // of queries and keys
  bool has_bias = false;       // of queries, keys and values
  bool one_cache = false;      // places are rows of one sequence, one behind the other
  bool in_body = false;        // the step is the body of a branch
  bool of_blocks = false;      // caches are q8_0
  bool has_post_norms = false; // and gelu; all but each second layer see a window
  int64_t window = 0;
  int64_t turned = 0; // of a head; 0: all
  int64_t width = 64, heads = 4, kv_heads = 2, head = 32, inner = 96, vocabulary = 80;
  int64_t caches() const { return one_cache ? 1 : places; }
  int64_t q() const { return heads * head; }
  int64_t kv() const { return kv_heads * head; }
  int64_t window_of(int layer) const { return layer % 2 == 0 ? window : 0; }
};

std::string tensor(const Dims &dims, const std::string &dtype) {
  std::string text;
  for (int64_t dim : dims)
    text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "tensor<[" + text + "], " + dtype + ">";
}

size_t count(const Dims &dims) {
  size_t all = 1;
  for (int64_t dim : dims)
    all *= size_t(dim);
  return all;
}

struct Parameter {
  std::string name;
  Dims dims;
};

std::vector<Parameter> weights_of(const Shape &s) {
  std::vector<Parameter> all;
  for (int i = 0; i < s.layers; ++i)
    for (const auto &[name, dims] : {std::pair<std::string, Dims>{"n1", {s.width}},
                                     {"wq", {s.q(), s.width}},
                                     {"wk", {s.kv(), s.width}},
                                     {"wv", {s.kv(), s.width}},
                                     {"wo", {s.width, s.q()}},
                                     {"n2", {s.width}},
                                     {"wg", {s.inner, s.width}},
                                     {"wu", {s.inner, s.width}},
                                     {"wd", {s.width, s.inner}},
                                     {"bq", {s.q()}},
                                     {"bk", {s.kv()}},
                                     {"bv", {s.kv()}},
                                     {"nq", {s.head}},
                                     {"nk", {s.head}},
                                     {"na", {s.width}},
                                     {"nf", {s.width}}})
      all.push_back({name + std::to_string(i), dims});
  all.push_back({"nh", {s.width}});
  all.push_back({"wh", {s.vocabulary, s.width}});
  return all;
}

std::vector<Parameter> caches_of(const Shape &s) {
  std::vector<Parameter> all;
  for (int i = 0; i < s.layers; ++i)
    for (const std::string name : {"kc", "vc"})
      all.push_back({name + std::to_string(i), {s.caches(), s.capacity, s.kv_heads, s.head}});
  return all;
}

/// Weights are f32 and become f16 when a session is opened.
std::string module_text(const Shape &s) {
  const auto n = [](int64_t value) { return std::to_string(value); };
  std::string body, x = "x", names;
  for (const Parameter &w : weights_of(s))
    body += "  %" + w.name + "h = cast(%" + w.name + ") {dtype = f16}\n";
  body += "  %x = cast(%given) {dtype = f16}\n";
  const size_t casts = body.size();
  const auto product = [&](const std::string &y, const std::string &of, const std::string &w,
                           const std::string &bias = "") {
    body += "  %" + y + " = matmul(%" + of + ", %" + w + "h" +
            (s.has_bias && !bias.empty() ? ", %" + bias + "h" : "") + ") {transpose_b = true}\n";
  };
  const auto norm = [&](const std::string &y, const std::string &of, const std::string &scale) {
    body += "  %" + y + " = rms_norm(%" + of + ", %" + scale + "h) {epsilon = 1e-05}\n";
  };
  for (int layer = 0; layer < s.layers; ++layer) {
    const std::string i = n(layer);
    norm("h" + i, x, "n1" + i);
    for (const std::string side : {"q", "k", "v"})
      product(side + i, "h" + i, "w" + side + i, "b" + side + i);
    for (const std::string side : {"q", "k"}) {
      std::string heads = side + "r" + i;
      body += "  %" + heads + " = reshape(%" + side + i + ") {shape = [" + n(s.places) + ", " +
              n(side == "q" ? s.heads : s.kv_heads) + ", " + n(s.head) + "]}\n";
      if (s.head_norms)
        norm(side + "n" + i, heads, "n" + side + i), heads = side + "n" + i;
      body += "  %" + side + "t" + i + " = rotary(%" + heads +
              ", %positions) {dims = " + n(s.turned) + "}\n";
    }
    for (const auto &[to, from] : {std::pair<std::string, std::string>{"kc", "kt"}, {"vc", "v"}})
      body += "  %" + to + "r" + i + " = reshape(%" + from + i + ") {shape = [" + n(s.places) +
              ", 1, " + n(s.kv_heads) + ", " + n(s.head) + "]}\n  %" + to + "w" + i +
              " = cache_write(%" + to + i + ", %" + to + "r" + i +
              (s.one_cache ? ", %rows" : ", none") + ", %positions, %lengths)\n";
    body += "  %qs" + i + " = reshape(%qt" + i + ") {shape = [" + n(s.places) + ", 1, " +
            n(s.heads) + ", " + n(s.head) + "]}\n  %a" + i + " = attention(%qs" + i + ", %kcw" + i +
            ", %vcw" + i + ", %lengths" + (s.one_cache ? ", none, %rows" : "") +
            ") {causal = true" +
            (s.window_of(layer) > 0 ? ", window = " + n(s.window_of(layer)) : "") + "}\n  %as" + i +
            " = reshape(%a" + i + ") {shape = [" + n(s.places) + ", " + n(s.q()) + "]}\n";
    product("o" + i, "as" + i, "wo" + i);
    if (s.has_post_norms)
      norm("on" + i, "o" + i, "na" + i);
    body += "  %r" + i + " = add(%" + x + ", %o" + (s.has_post_norms ? "n" : "") + i + ")\n";
    norm("m" + i, "r" + i, "n2" + i);
    product("g" + i, "m" + i, "wg" + i);
    product("u" + i, "m" + i, "wu" + i);
    body += "  %s" + i + " = " + (s.has_post_norms ? "gelu" : "silu") + "(%g" + i + ")" +
            (s.has_post_norms ? " {approximate = \"tanh\"}" : "") + "\n  %p" + i + " = mul(%s" + i +
            ", %u" + i + ")\n";
    product("d" + i, "p" + i, "wd" + i);
    if (s.has_post_norms)
      norm("dn" + i, "d" + i, "nf" + i);
    body += "  %y" + i + " = add(%r" + i + ", %d" + (s.has_post_norms ? "n" : "") + i + ")\n";
    x = "y" + i;
  }
  norm("last", x, "nh");
  product("logits", "last", "wh");
  body += "  %result = cast(%logits) {dtype = f32}\n";
  std::string text = "cugrt 1\nfunc @main(%given: " + tensor({s.places, s.width}, "f32") +
                     ", %positions: " + tensor({s.places}, "i32") +
                     ", %lengths: " + tensor({s.places}, "i32") +
                     ", %rows: " + tensor({s.places}, "i32") + ", %go: tensor<[1], bool>";
  const std::string result = tensor({s.places, s.vocabulary}, "f32");
  if (s.in_body) {
    std::string seen = "%x, %positions, %lengths, %rows";
    for (const Parameter &cache : caches_of(s))
      seen += ", %" + cache.name;
    for (const Parameter &w : weights_of(s))
      seen += ", %" + w.name + "h";
    body.insert(casts, "  %all = if %go using (" + seen + ") -> " + result + " {\n");
    body += "  yield %result\n  } else {\n";
    product("other", "x", "wh");
    body += "  %none = cast(%other) {dtype = f32}\n  yield %none\n  }\n";
  }
  for (const Parameter &cache : caches_of(s))
    text += ",\n    %" + cache.name + ": inout " + tensor(cache.dims, s.of_blocks ? "q8_0" : "f16");
  for (const Parameter &w : weights_of(s))
    text += ",\n    %" + w.name + ": " + tensor(w.dims, "f32");
  return text + ") -> (" + result +
         ") attributes {num_inputs = " + n(5 + int64_t(caches_of(s).size())) + "} {\n" + body +
         "  return %" + (s.in_body ? "all" : "result") + "\n}\n";
}

/// Bits of f16 from 1/8 to 1/4, either sign, and their values.
std::vector<uint16_t> halves(size_t count, uint32_t seed) {
  std::vector<uint16_t> bits(count);
  for (uint16_t &one : bits) {
    seed = seed * 1664525u + 1013904223u;
    one = uint16_t(0x3000 | ((seed >> 16) & 0x83ff));
  }
  return bits;
}
double value_of(uint16_t half) {
  return (half & 0x8000 ? -1 : 1) * 0.125 * (1 + (half & 0x3ff) / 1024.0);
}

/// What a test computes with: the same for all ways to compute it.
struct Numbers {
  explicit Numbers(const Shape &s) {
    uint32_t seed = 1;
    for (const Parameter &w : weights_of(s)) {
      weights.push_back(numbers(count(w.dims), seed++));
      for (float &value : weights.back())
        value *= w.dims.size() == 1 ? 1 : 0.25f;
    }
    for (const Parameter &cache : caches_of(s))
      caches.push_back(halves(count(cache.dims) / 32 * (s.of_blocks ? 17 : 32), seed++));
  }
  std::vector<float> x(const Shape &s, int step) const {
    return numbers(size_t(s.places * s.width), 100 + uint32_t(step));
  }
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<uint16_t>> caches;
};

/// Place p of a step is at `first` + step + p.
int32_t position_of(int32_t first, int step, int64_t place) {
  return first + int32_t(step) + int32_t(place);
}

struct Steps {
  std::vector<float> logits; // of all steps
  std::vector<uint16_t> caches;
};

Steps run_steps(const Module &module, const Shape &s, int32_t first, int steps) {
  const Numbers given(s);
  Weights weights;
  for (size_t i = 0; i < given.weights.size(); ++i)
    weights.add(weights_of(s)[i].name, given.weights[i].data(), CUGRT_F32, weights_of(s)[i].dims);
  Executable executable(emulated_runtime(), module);
  Session session(executable, emulated_runtime(), weights);
  std::vector<Buffer> caches;
  for (const std::vector<uint16_t> &cache : given.caches)
    caches.push_back(upload(cache));
  Steps all;
  for (int step = 0; step < steps; ++step) {
    std::vector<int32_t> at, behind;
    for (int64_t p = 0; p < s.places; ++p) {
      at.push_back(position_of(first, step, p));
      behind.push_back(at.back() + 1);
    }
    const Buffer x = upload(given.x(s, step)), positions = upload(at), lengths = upload(behind),
                 rows = upload(std::vector<int32_t>(size_t(s.places))),
                 go = upload(std::vector<uint8_t>{1});
    std::vector<Value> arguments = {
        x.tensor(CUGRT_F32, Dims{s.places, s.width}), positions.tensor(CUGRT_I32, Dims{s.places}),
        lengths.tensor(CUGRT_I32, Dims{s.places}), rows.tensor(CUGRT_I32, Dims{s.places}),
        go.tensor(CUGRT_BOOL, Dims{1})};
    for (size_t i = 0; i < caches.size(); ++i)
      arguments.push_back(
          caches[i].tensor(s.of_blocks ? CUGRT_Q8_0 : CUGRT_F16, caches_of(s)[i].dims));
    const std::vector<Value> results = session.run(executable.function("main"), arguments);
    session.synchronize();
    const std::vector<float> y =
        download<float>(results[0].as.tensor.address, size_t(s.places * s.vocabulary));
    all.logits.insert(all.logits.end(), y.begin(), y.end());
  }
  for (size_t i = 0; i < caches.size(); ++i) {
    const std::vector<uint16_t> cache =
        download<uint16_t>(caches[i].address(), given.caches[i].size());
    all.caches.insert(all.caches.end(), cache.begin(), cache.end());
  }
  return all;
}

// --- The same in double precision, from the equations --------------------------------------------

using Row = std::vector<double>;

Row normed(const Row &x, const std::vector<float> &scale) {
  double squares = 0;
  for (double value : x)
    squares += value * value;
  Row y;
  for (size_t i = 0; i < x.size(); ++i)
    y.push_back(x[i] / std::sqrt(squares / double(x.size()) + 1e-5) * scale[i]);
  return y;
}

/// Parts of `width` elements each on its own.
Row normed_by(int64_t width, const Row &x, const std::vector<float> &scale) {
  Row y;
  for (auto part = x.begin(); part != x.end(); part += width) {
    const Row own = normed(Row(part, part + width), scale);
    y.insert(y.end(), own.begin(), own.end());
  }
  return y;
}

double gelu(double x) {
  const double kPi = std::acos(-1.0);
  return x / 2 * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
}

Row product(const Row &x, const std::vector<float> &w) {
  Row y(w.size() / x.size());
  for (size_t n = 0; n < y.size(); ++n)
    for (size_t k = 0; k < x.size(); ++k)
      y[n] += x[k] * w[n * x.size() + k];
  return y;
}

void turn(Row &x, int64_t head, int32_t position) {
  for (size_t begin = 0; begin < x.size(); begin += size_t(head))
    for (int64_t i = 0; i < head / 2; ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * double(i) / double(head));
      double &p = x[begin + size_t(i)], &q = x[begin + size_t(i + head / 2)];
      const double left = p * std::cos(angle) - q * std::sin(angle);
      q = p * std::sin(angle) + q * std::cos(angle);
      p = left;
    }
}

std::vector<double> reference(const Shape &s, int32_t first, int steps) {
  const Numbers given(s);
  std::vector<Row> caches;
  for (const std::vector<uint16_t> &cache : given.caches) {
    caches.emplace_back();
    for (uint16_t half : cache)
      caches.back().push_back(value_of(half));
  }
  std::vector<double> logits;
  for (int step = 0; step < steps; ++step)
    for (int64_t place = 0; place < s.places; ++place) {
      const int32_t position = position_of(first, step, place);
      const std::vector<float> all = given.x(s, step);
      Row x(all.begin() + place * s.width, all.begin() + (place + 1) * s.width);
      for (int layer = 0; layer < s.layers; ++layer) {
        const std::vector<float> *w = &given.weights[size_t(layer) * 16];
        const Row h = normed(x, w[0]);
        Row q = product(h, w[1]), k = product(h, w[2]);
        const Row v = product(h, w[3]);
        if (s.head_norms) {
          q = normed_by(s.head, q, w[12]);
          k = normed_by(s.head, k, w[13]);
        }
        turn(q, s.head, position);
        turn(k, s.head, position);
        Row &keys = caches[size_t(layer) * 2], &values = caches[size_t(layer) * 2 + 1];
        const auto row_at = [&](int32_t p) { return size_t((place * s.capacity + p) * s.kv()); };
        std::copy(k.begin(), k.end(), keys.begin() + long(row_at(position)));
        std::copy(v.begin(), v.end(), values.begin() + long(row_at(position)));
        Row seen(size_t(s.q()));
        for (int64_t head = 0; head < s.heads; ++head) {
          const size_t of_q = size_t(head * s.head),
                       of_kv = size_t(head / (s.heads / s.kv_heads) * s.head);
          Row weight;
          double sum = 0;
          const int64_t window = s.window_of(layer);
          const int32_t begin = window > 0 ? std::max(0, position + 1 - int32_t(window)) : 0;
          for (int32_t p = begin; p <= position; ++p) {
            double score = 0;
            for (size_t e = 0; e < size_t(s.head); ++e)
              score += q[of_q + e] * keys[row_at(p) + of_kv + e];
            weight.push_back(std::exp(score / std::sqrt(double(s.head))));
            sum += weight.back();
          }
          for (int32_t p = begin; p <= position; ++p)
            for (size_t e = 0; e < size_t(s.head); ++e)
              seen[of_q + e] += weight[size_t(p - begin)] / sum * values[row_at(p) + of_kv + e];
        }
        Row o = product(seen, w[4]);
        if (s.has_post_norms)
          o = normed(o, w[14]);
        for (size_t i = 0; i < x.size(); ++i)
          x[i] += o[i];
        const Row m = normed(x, w[5]), g = product(m, w[6]), u = product(m, w[7]);
        Row inner;
        for (size_t i = 0; i < g.size(); ++i)
          inner.push_back((s.has_post_norms ? gelu(g[i]) : g[i] / (1 + std::exp(-g[i]))) * u[i]);
        Row d = product(inner, w[8]);
        if (s.has_post_norms)
          d = normed(d, w[15]);
        for (size_t i = 0; i < x.size(); ++i)
          x[i] += d[i];
      }
      const Row y =
          product(normed(x, given.weights[given.weights.size() - 2]), given.weights.back());
      logits.insert(logits.end(), y.begin(), y.end());
    }
  return logits;
}

} // namespace

TEST_CASE("a decode step of small layers is one launch, as exact as its arithmetic allows") {
  for (const Shape &shape : {Shape{2, 1, 64}, Shape{2, 1, 600}}) {
    const int32_t first = int32_t(shape.capacity) - 4;
    const Module module = Module::parse(module_text(shape));
    CHECK(module.plan_report(CUGRT_REPORT_TEXT).find("11 launches: one") != std::string::npos);
    check_close(run_steps(module, shape, first, 3).logits, reference(shape, first, 3), 0.02);
  }
}

/// As gemma3 has them: norms of heads and behind products, windows, and heads of 256 elements.
static Shape sandwich() {
  Shape shape{2, 1, 600};
  shape.head_norms = shape.has_post_norms = true;
  shape.window = 100;
  shape.head = 256, shape.heads = 2, shape.kv_heads = 1;
  return shape;
}

TEST_CASE(
    "norms behind products and windows are of one launch, as exact as its arithmetic allows") {
  const Shape shape = sandwich();
  const int32_t first = int32_t(shape.capacity) - 4;
  const Module module = Module::parse(module_text(shape));
  CHECK(module.plan_report(CUGRT_REPORT_TEXT).find("11 launches: one") != std::string::npos);
  check_close(run_steps(module, shape, first, 3).logits, reference(shape, first, 3), 0.02);
}

/// The step as one launch, and as launches apart: the same bits.
static void check_together(const Shape &shape) {
  INFO(shape.layers << " layers, " << shape.places << " places, capacity " << shape.capacity);
  const int32_t first = int32_t(shape.capacity) - 4 - int32_t(shape.places);
  const Module module = Module::parse(module_text(shape));
  const auto made = [&](const std::string &is_one) {
    return module.run_passes({}, {"fuse.persistent=" + is_one, "codegen.programmatic=true",
                                  "target.compute_capability=90", "target.multiprocessors=132",
                                  "target.cooperative_bodies=true"});
  };
  const Module together = made("true"), apart = made("false");
  CHECK(together.print().find("decode_persistent_f16") != std::string::npos);
  const Steps one = run_steps(together, shape, first, 4), many = run_steps(apart, shape, first, 4);
  CHECK(one.logits == many.logits);
  CHECK(one.caches == many.caches);
}

TEST_CASE("a decode step of one launch has the bits of five launches a layer") {
  for (const Shape &shape : {Shape{2, 1, 64}, Shape{2, 1, 600}, Shape{3, 2, 64}})
    check_together(shape);
}

TEST_CASE("a decode step in a branch is one launch, too, with the same bits") {
  Shape shape{2, 1, 64};
  shape.in_body = true;
  check_together(shape);
  const Module alone = Module::parse(module_text(shape)).run_passes();
  CHECK(alone.print().find("decode_persistent") == std::string::npos); // of no device
}

TEST_CASE("a step of rows of one sequence is one launch with the same bits") {
  Shape shape{2, 5, 300};
  shape.one_cache = shape.has_bias = true;
  check_together(shape);
}

TEST_CASE("heads that are normed are a phase of one launch, with the same bits") {
  Shape shape{2, 2, 300};
  shape.head_norms = true;
  check_together(shape);
}

TEST_CASE("turns whose halves are no runs of a tile are of one launch, with the same bits") {
  Shape shape{1, 1, 64};
  shape.turned = 24;
  check_together(shape);
}

TEST_CASE("rows go to caches of blocks in one launch, with the same bits") {
  Shape shape{2, 2, 64};
  shape.of_blocks = true;
  shape.head = 64;
  check_together(shape);
}

TEST_CASE("norms behind products and windows of one launch have the bits of launches apart") {
  Shape shape = sandwich();
  check_together(shape);
  shape.capacity = 64; // is cut in no layer
  shape.window = 20;
  check_together(shape);
  shape.places = 3, shape.capacity = 300, shape.one_cache = true;
  check_together(shape);
  shape.one_cache = false, shape.of_blocks = true, shape.head = 64, shape.heads = 4;
  check_together(shape);
}
