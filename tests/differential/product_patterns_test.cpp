// Products that share few rows, as FuseOpsByPattern fuses them, against the ops one by one: the
// same bits, on the emulator's execution core, where outputs are poisoned and every access is
// checked.
#include "support/catch.h"
#include "support/launch_runner.h"

#include "compiler/passes/pass.h"
#include "ir/text/text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

using namespace cugrt;
using namespace cugrt::test;
using ir::DType;

namespace {

LaunchRunner &runner() {
  static LaunchRunner runner;
  return runner;
}

struct Weight {
  int64_t n, k;
  std::string dtype; // of blocks, or of elements
};

/// A function's text, put together line by line, and inputs for its parameters.
class Text {
public:
  explicit Text(std::string dtype, int64_t most_rows, std::string rows = "")
      : dtype_(std::move(dtype)), rows_(rows.empty() ? std::to_string(most_rows) : rows),
        most_rows_(most_rows) {}

  std::string tensor(const std::string &dims, const std::string &dtype) const {
    return "tensor<[" + dims + "], " + dtype + ">";
  }
  std::string rows(int64_t width) const { return rows_ + ", " + std::to_string(width); }
  void param(const std::string &name, const std::string &type, Array value,
             const std::string &access = "") {
    params_ += (params_.empty() ? "%" : ",\n    %") + name + ": " + access + type;
    inputs.push_back(std::move(value));
  }
  /// A tensor of this dtype with small numbers.
  void numbers(const std::string &name, const std::string &dims, Array value,
               const std::string &dtype = "", const std::string &access = "") {
    for (double &number : value.values)
      number = double(int(random_() % 257) - 128) / 64;
    param(name, tensor(dims, dtype.empty() ? dtype_ : dtype), std::move(value), access);
  }
  void vector(const std::string &name, int64_t n) {
    numbers(name, std::to_string(n), Array::of({n}));
  }
  void x(const std::string &name, int64_t actual_rows, int64_t width) {
    numbers(name, rows(width), Array::of({actual_rows, width}));
  }
  void weight(const std::string &name, const Weight &w) {
    const std::string dims = std::to_string(w.n) + ", " + std::to_string(w.k);
    const ir::DType dtype = *ir::dtype_from_name(w.dtype);
    if (ir::info(dtype).kind != ir::DTypeKind::block)
      return numbers(name, dims, Array::of({w.n, w.k}), w.dtype);
    Array blocks{{w.n, w.k}, {}};
    const int64_t size = ir::info(dtype).bytes_per_block;
    // Halves stand first in a block, but for q6_k.
    const int64_t begin = w.dtype == "q6_k" ? size - 2 : 0;
    const int64_t end = w.dtype == "q4_1" || w.dtype == "q4_k" ? 4 : begin + 2;
    for (int64_t i = 0; i < w.n * w.k / ir::info(dtype).elements_per_block * size; ++i) {
      const int64_t at = i % size;
      const bool is_high = at >= begin && at < end && at % 2 == 1; // of a half: its exponent
      blocks.values.push_back(is_high ? double(0x2c + (i / 2 % 2) * 0x80)
                                      : double(random_() % 256));
    }
    param(name, tensor(dims, w.dtype), std::move(blocks));
  }
  void line(const std::string &text) { lines_ += "  " + text + "\n"; }
  /// NAME = product of `x` and `w`, which is repacked first with `repacks`.
  void product(const std::string &name, const std::string &x, const std::string &w,
               const Weight &weight, const std::string &bias, bool repacks) {
    const bool is_blocks =
        ir::info(*ir::dtype_from_name(weight.dtype)).kind == ir::DTypeKind::block;
    std::string read = w;
    if (repacks) {
      line("%" + w + "_r = repack_blocks(%" + w + ")");
      read = w + "_r";
    }
    line("%" + name + " = " + (is_blocks ? "matmul_blocks" : "matmul") + "(%" + x + ", %" + read +
         (bias.empty() ? "" : ", %" + bias) + ")" +
         (repacks     ? " {repacked = true}"
          : is_blocks ? ""
                      : " {transpose_b = true}"));
  }
  std::string text(const std::string &results, const std::string &types) const {
    const std::string bounds = rows_ == std::to_string(most_rows_)
                                   ? ""
                                   : " attributes {lower_bounds = {" + rows_ + " = " +
                                         std::to_string(least_rows) + "}, upper_bounds = {" +
                                         rows_ + " = " + std::to_string(most_rows_) + "}}";
    return "cugrt 1\nfunc @main(" + params_ + ") -> (" + types + ")" + bounds + " {\n" + lines_ +
           "  return " + results + "\n}\n";
  }

  std::vector<Array> inputs;
  int64_t least_rows = 0;

private:
  const std::string dtype_, rows_;
  const int64_t most_rows_;
  std::string params_, lines_;
  std::mt19937 random_{7};
};

struct Ran {
  std::vector<Array> results;
  std::vector<std::string> entries, notes;
};

Ran run(const ir::Module &module, bool fuses, const std::vector<Array> &inputs,
        const std::vector<std::string> &options = {}) {
  passes::PassContext context;
  for (const std::string &option : options)
    REQUIRE(context.set_from_text(option).ok());
  Ran ran;
  context.collect_notes(&ran.notes);
  Result<ir::Module> made = module;
  for (const char *pass : {"FuseOpsByPattern", "LegalizeOps", "EliminateDeadBindings"}) {
    if (!fuses && pass == std::string("FuseOpsByPattern"))
      continue;
    made = passes::find_pass(pass)->run(*made, context);
    INFO((made.ok() ? "" : made.status().to_string()));
    REQUIRE(made.ok());
  }
  Diagnostics diagnostics;
  ir::verify(*made, diagnostics);
  CHECK(diagnostics.empty());
  const size_t before = runner().counters().entries.size();
  Result<std::vector<Array>> results = runner().run(*made, made->functions[0], inputs);
  INFO((results.ok() ? "" : results.status().to_string()));
  REQUIRE(results.ok());
  ran.results = *results;
  const auto &entries = runner().counters().entries;
  ran.entries.assign(entries.begin() + ptrdiff_t(std::min(before, entries.size())), entries.end());
  if (ran.entries.empty())
    ran.entries = entries;
  return ran;
}

/// Fused and unfused results have the same bits. Gives what the fused run launched.
std::vector<std::string> check_same(const std::string &text, const std::vector<Array> &inputs,
                                    const std::vector<std::string> &options = {}) {
  INFO(text);
  const Result<ir::Module> module = ir::parse_and_verify(text, "products");
  INFO((module.ok() ? "" : module.status().to_string()));
  REQUIRE(module.ok());
  const Ran fused = run(*module, true, inputs, options),
            plain = run(*module, false, inputs, options);
  REQUIRE(fused.results.size() == plain.results.size());
  for (size_t r = 0; r < plain.results.size(); ++r) {
    const std::vector<double> &got = fused.results[r].values, &want = plain.results[r].values;
    REQUIRE(got.size() == want.size());
    size_t differ = 0;
    for (size_t i = 0; i < want.size(); ++i)
      differ += std::memcmp(&got[i], &want[i], sizeof got[i]) != 0;
    INFO("result " << r << " of " << want.size() << " elements");
    CHECK(differ == 0);
  }
  return fused.entries;
}

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

struct Attend { // queries, keys and values of a decoder's layer
  std::string dtype = "f32";
  std::string q = "q4_1", k = "q8_0", v = "q4_0"; // dtypes of weights
  int64_t rows = 1, most_rows = 1;                // places
  int64_t width = 96, heads = 4, kv_heads = 2, head = 24, turned = 24;
  bool is_symbolic = false, repacks = false, has_bias = false, head_norms = false;
  bool interleaved = true, casts = false, has_tables = true;
  std::string ids = "i32", cache_ids = "i32", cache{}; // its dtype; "": as computed
  bool has_lengths = true;
  std::vector<double> sequences{}; // of the caches, which are one for each place otherwise
  std::vector<std::string> options{};
};

/// A norm, three products, turned heads and their way into the caches.
std::vector<std::string> attend(const Attend &a) {
  constexpr int64_t kCapacity = 6;
  Text t(a.dtype, a.most_rows, a.is_symbolic ? "b" : "");
  const int64_t q = a.heads * a.head, kv = a.kv_heads * a.head;
  t.least_rows = 1;
  t.x("x", a.rows, a.width);
  Array positions{{a.rows}, {}}, lengths{{a.rows}, {}};
  for (int64_t r = 0; r < a.rows; ++r) { // the last place is empty where there are several
    positions.values.push_back(double(r % kCapacity));
    lengths.values.push_back(r > 0 && r + 1 == a.rows ? 0 : double(r % kCapacity + 1));
  }
  const std::string rows = a.is_symbolic ? "b" : std::to_string(a.rows);
  t.param("positions", t.tensor(rows, a.ids), positions);
  if (a.ids != a.cache_ids)
    t.param("places", t.tensor(rows, a.cache_ids), positions);
  t.param("lengths", t.tensor(rows, a.cache_ids), lengths);
  if (!a.sequences.empty())
    t.param("sequences", t.tensor(rows, a.cache_ids), {{a.rows}, a.sequences});
  const std::string cache = rows + ", " + std::to_string(kCapacity) + ", " +
                            std::to_string(a.kv_heads) + ", " + std::to_string(a.head);
  for (const char *name : {"kc", "vc"})
    t.numbers(name, cache, Array::of({a.rows, kCapacity, a.kv_heads, a.head}), a.cache, "inout ");
  t.vector("norm", a.width);
  const std::string table = a.casts ? "f32" : a.dtype;
  for (const char *name : {"cosines", "sines"})
    t.numbers(name, "5, " + std::to_string(a.turned / 2), Array::of({5, a.turned / 2}), table);
  const Weight weights[] = {{q, a.width, a.q}, {kv, a.width, a.k}, {kv, a.width, a.v}};
  const char *const names[] = {"q", "k", "v"};
  for (int i = 0; i < 3; ++i)
    t.weight(std::string("w") + names[i], weights[i]);
  for (int i = 0; i < 3 && a.has_bias; ++i)
    t.vector(std::string("b") + names[i], weights[i].n);
  t.vector("qn", a.head);
  t.vector("kn", a.head);
  for (int i = 0; i < 3 && a.repacks; ++i)
    t.line(std::string("%w") + names[i] + "_p = repack_blocks(%w" + names[i] + ")");
  t.line("%h = rms_norm(%x, %norm) {epsilon = 0.001}");
  for (int i = 0; i < 3; ++i) {
    const std::string n = names[i];
    const bool is_blocks = weights[i].dtype[0] == 'q';
    t.line("%" + n + "0 = " + (is_blocks ? "matmul_blocks" : "matmul") + "(%h, %w" + n +
           (a.repacks ? "_p" : "") + (a.has_bias ? ", %b" + n : "") + ")" +
           (a.repacks   ? " {repacked = true}"
            : is_blocks ? ""
                        : " {transpose_b = true}"));
  }
  for (int i = 0; i < 2; ++i) {
    const std::string n = names[i], heads = std::to_string(i == 0 ? a.heads : a.kv_heads);
    t.line("%" + n + "s = shape [" + rows + ", " + heads + ", " + std::to_string(a.head) + "]");
    t.line("%" + n + "1 = reshape(%" + n + "0, %" + n + "s)");
    std::string last = n + "1";
    if (a.head_norms) {
      t.line("%" + n + "2 = rms_norm(%" + last + ", %" + n + "n) {epsilon = 0.01}");
      last = n + "2";
    }
    if (a.casts) {
      t.line("%" + n + "3 = cast(%" + last + ") {dtype = f32}");
      last = n + "3";
    }
    t.line("%" + n + "4 = rotary(%" + last + ", %positions" +
           (a.has_tables ? ", %cosines, %sines" : "") + ") {dims = " + std::to_string(a.turned) +
           ", interleaved = " + (a.interleaved ? "true" : "false") + "}");
    last = n + "4";
    if (a.casts) {
      t.line("%" + n + "5 = cast(%" + last + ") {dtype = " + a.dtype + "}");
      last = n + "5";
    }
    t.line("%" + n + " = alias %" + last);
  }
  const std::string k_last = a.casts ? "k5" : "k4", q_last = a.casts ? "q5" : "q4";
  t.line("%shape = shape [" + rows + ", 1, " + std::to_string(a.kv_heads) + ", " +
         std::to_string(a.head) + "]");
  for (const auto &[to, from] : {std::pair<std::string, std::string>{"k", k_last}, {"v", "v0"}})
    t.line("%" + to + "row = reshape(%" + from + ", %shape)\n  %" + to + "written = cache_write(%" +
           to + "c, %" + to + "row, " + (a.sequences.empty() ? "none" : "%sequences") + ", %" +
           (a.ids == a.cache_ids ? "positions" : "places") + (a.has_lengths ? ", %lengths" : "") +
           ")");
  t.line("%keys = relu(%kwritten)");
  t.line("%values = neg(%vc)"); // the same bytes as %vwritten
  const std::string type = t.tensor(cache, a.cache.empty() ? a.dtype : a.cache);
  std::string text = t.text(
      "%" + q_last + ", %keys, %values",
      t.tensor(rows + ", " + std::to_string(a.heads) + ", " + std::to_string(a.head), a.dtype) +
          ", " + type + ", " + type);
  text = replaced(replaced(text, "  %q = alias %" + q_last + "\n", ""),
                  "  %k = alias %" + k_last + "\n", "");
  return check_same(text, t.inputs, a.options);
}

bool is_fused(const std::vector<std::string> &entries) {
  return std::ranges::any_of(entries,
                             [](const std::string &name) { return name.starts_with("fused_"); });
}

} // namespace

TEST_CASE("norm, products of three formats, rotary and append are one launch, with the same bits") {
  const std::vector<std::string> entries = attend({});
  REQUIRE(entries.size() == 3); // and what reads the caches
  CHECK(entries[0] == "fused_rms_norm_matmul_blocks_matmul_blocks_matmul_blocks_rotary_rotary_f32");
  for (int64_t rows : {1, 3, 8}) {
    CHECK(is_fused(attend({.rows = rows, .most_rows = rows})));
    CHECK(is_fused(attend({.rows = rows, .most_rows = 8, .is_symbolic = true})));
  }
}

TEST_CASE("rows are rounded to the caches' dtype behind their products") {
  for (const char *dtype : {"f32", "f16", "bf16"})
    for (const char *cache : {"f32", "f16", "bf16"})
      CHECK(is_fused(attend({.dtype = dtype, .rows = 2, .most_rows = 2, .cache = cache})));
}

TEST_CASE("rows go to the caches of other sequences, and to the nearest position, told of") {
  CHECK(is_fused(attend({.rows = 3, .most_rows = 3, .sequences = {2, 0, 1}})));
  CHECK(is_fused(attend({.rows = 2, .most_rows = 2, .cache_ids = "i64", .has_lengths = false})));
  CHECK(runner().counters().out_of_bounds.empty());
  CHECK(is_fused(attend({.rows = 2, .most_rows = 2, .has_lengths = false, .sequences = {0, 7}})));
  CHECK(runner().counters().out_of_bounds == "sequence");
}

TEST_CASE("blocks of 256 elements, of two formats in one launch, have the same bits") {
  for (const char *dtype : {"f32", "f16"})
    for (int64_t rows : {1, 3}) {
      // As files of Q4_K_M have them: values and down products in q6_k.
      CHECK(is_fused(attend({.dtype = dtype,
                             .q = "q4_k",
                             .k = "q4_k",
                             .v = "q6_k",
                             .rows = rows,
                             .most_rows = rows,
                             .width = 256})));
      const Weight up{40, 1024, "q4_k"}, down{24, 1280, "q6_k"};
      Text t(dtype, rows);
      t.x("x", rows, 1024);
      t.x("a", rows, 1280);
      t.x("r", rows, 24);
      t.vector("scale", 1024);
      t.weight("wg", up);
      t.weight("wu", up);
      t.weight("wd", down);
      t.line("%h = rms_norm(%x, %scale)");
      t.product("g", "h", "wg", up, "", false);
      t.product("u", "h", "wu", up, "", false);
      t.line("%s = silu(%g)");
      t.line("%y = mul(%s, %u)");
      t.product("d", "a", "wd", down, "", false);
      t.line("%z = add(%r, %d)");
      const auto entries = check_same(
          t.text("%y, %z", t.tensor(t.rows(40), dtype) + ", " + t.tensor(t.rows(24), dtype)),
          t.inputs);
      CHECK(entries.size() == 2);
    }
}

TEST_CASE("turned heads: halves, parts of heads, without tables, positions of i64") {
  for (const char *dtype : {"f32", "f16"})
    for (int64_t turned : {24, 16}) {
      CHECK(is_fused(attend({.dtype = dtype, .turned = turned, .interleaved = false})));
      CHECK(is_fused(attend({.dtype = dtype, .turned = turned})));
    }
  CHECK(is_fused(attend({.has_tables = false})));
  CHECK(is_fused(attend({.rows = 2, .most_rows = 2, .ids = "i64"})));
}

TEST_CASE("repacked products, with biases, norms of heads and casts around rotary") {
  for (const char *dtype : {"f32", "f16", "bf16"}) {
    CHECK(is_fused(attend({.dtype = dtype, .repacks = true, .has_bias = true, .casts = true})));
    for (int64_t head : {32, 24}) // tiles are whole heads, which need not be sixteens
      CHECK(is_fused(attend({.dtype = dtype,
                             .rows = 3,
                             .most_rows = 3,
                             .head = head,
                             .turned = head,
                             .repacks = true,
                             .head_norms = true,
                             .interleaved = false,
                             .casts = true})));
  }
}

TEST_CASE("tiles of more columns than a head, which end within one, have the same bits") {
  // One multiprocessor: queries take two tiles of 112 columns, or of half of them.
  for (const int64_t rows : {1, 8})
    for (const bool repacks : {false, true})
      CHECK(is_fused(attend({.dtype = repacks == (rows == 8) ? "f32" : "f16",
                             .rows = rows,
                             .most_rows = rows,
                             .heads = 9,
                             .kv_heads = 3,
                             .repacks = repacks,
                             .interleaved = false,
                             .options = {"target.multiprocessors=1"}})));
}

TEST_CASE("products by rings of copies have the same bits") {
  // Of 1,312 elements each warp has one or two units, and one the block behind the last; queries
  // have several groups a tile, of one multiprocessor, and keys and values a ring of their own.
  for (const int64_t rows : {1, 5, 8})
    for (const bool interleaved : {false, true})
      CHECK(is_fused(attend({.dtype = interleaved == (rows == 5) ? "f16" : "bf16",
                             .rows = rows,
                             .most_rows = rows,
                             .width = 1312,
                             .heads = 6,
                             .kv_heads = 2,
                             .head = 32,
                             .turned = 32,
                             .repacks = true,
                             .has_bias = rows != 5,
                             .head_norms = rows == 5,
                             .interleaved = interleaved,
                             .options = {"target.multiprocessors=1"}})));
  // Gate and up one after the other in a ring, then a product whose x is in the ring, too.
  bool is_half = false; // of one row in turn: each pair of formats is in both dtypes
  for (const auto &[up_format, down_format] :
       {std::pair{"q4_k", "q6_k"}, {"q5_k", "q2_k"}, {"q8_0", "q3_k"}, {"q5_0", "iq4_nl"}}) {
    is_half = !is_half;
    for (const int64_t rows : {1, 8}) {
      const std::string dtype = is_half == (rows == 1) ? "f16" : "bf16";
      const Weight up{112, 2560, up_format}, down{48, 1280, down_format};
      Text t(dtype, rows);
      t.x("x", rows, 2560);
      t.x("a", rows, 1280);
      t.x("r", rows, 48);
      t.vector("scale", 2560);
      t.weight("wg", up);
      t.weight("wu", up);
      t.weight("wd", down);
      for (const char *name : {"g", "u", "d"})
        t.line(std::string("%p") + name + " = repack_blocks(%w" + name + ")");
      t.line("%h = rms_norm(%x, %scale)");
      t.line("%g = matmul_blocks(%h, %pg) {repacked = true}");
      t.line("%u = matmul_blocks(%h, %pu) {repacked = true}");
      t.line("%s = silu(%g)");
      t.line("%y = mul(%s, %u)");
      t.line("%d = matmul_blocks(%a, %pd) {repacked = true}");
      t.line("%z = add(%r, %d)");
      const auto entries = check_same(
          t.text("%y, %z", t.tensor(t.rows(112), dtype) + ", " + t.tensor(t.rows(48), dtype)),
          t.inputs, {"target.multiprocessors=1"});
      CHECK(std::ranges::count_if(
                entries, [](const std::string &name) { return name.starts_with("fused_"); }) == 2);
    }
  }
}

TEST_CASE("products of floats, with norms of heads") {
  for (const char *dtype : {"f32", "f16", "bf16", "f64"})
    for (int64_t head : {16, 24})
      CHECK(is_fused(attend({.dtype = dtype,
                             .q = dtype,
                             .k = dtype,
                             .v = dtype,
                             .rows = 2,
                             .most_rows = 2,
                             .head = head,
                             .turned = 8,
                             .head_norms = true})));
  // Heads of which 16 places are two runs, or one.
  for (int64_t turned : {16, 32, 48})
    for (bool interleaved : {false, true}) {
      const std::string dtype = interleaved == (turned == 32) ? "f16" : "bf16";
      CHECK(is_fused(attend({.dtype = dtype,
                             .q = dtype,
                             .k = dtype,
                             .v = dtype,
                             .rows = 2,
                             .most_rows = 2,
                             .head = 48,
                             .turned = turned,
                             .has_bias = true,
                             .interleaved = interleaved})));
    }
}

TEST_CASE("products beside each other are joined by elementwise ops behind them") {
  for (const char *dtype : {"f32", "f16"})
    for (int64_t rows : {1, 5})
      for (const char *format : {"q4_1", "q8_0", "plain"}) {
        const std::string stored = format == std::string("plain") ? dtype : format;
        const bool repacks = stored != dtype && dtype == std::string("f16");
        const Weight up{45, 64, stored}, down{64, 96, stored};
        Text t(dtype, rows);
        t.x("x", rows, 64);
        t.vector("scale", 64);
        t.vector("bias", 64);
        t.vector("shift", 45);
        t.weight("wg", up);
        t.weight("wu", up);
        t.line("%h = layer_norm(%x, %scale, %bias)");
        t.product("g", "h", "wg", up, "shift", repacks);
        t.product("u", "h", "wu", up, "", repacks);
        t.line("%s = silu(%g)");
        t.line("%p = mul(%u, %s)");
        t.line("%y = add(%p, %shift)");
        const auto entries = check_same(t.text("%y", t.tensor(t.rows(45), dtype)), t.inputs);
        CHECK(entries.size() == (repacks ? 3u : 1u)); // both weights are repacked by launches
      }
}

TEST_CASE("a norm of f32 before narrow products is part of their launch, with the same bits") {
  for (const char *dtype : {"f16", "bf16"})
    for (int64_t rows : {1, 3, 8})
      for (int64_t width : {64, 200, 1280})
        for (const char *norm : {"layer_norm", "rms_norm"})
          for (bool is_narrow : {false, true}) { // what the norm reads, before it is cast
            const Weight w{45, width, dtype};
            const bool has_bias = norm == std::string("layer_norm") && width != 200;
            const std::string narrow = std::string("{dtype = ") + dtype + "}",
                              k = std::to_string(width);
            Text t(dtype, rows);
            t.numbers("x", t.rows(width), Array::of({rows, width}), is_narrow ? dtype : "f32");
            t.numbers("scale", k, Array::of({width}), "f32");
            if (has_bias)
              t.numbers("bias", k, Array::of({width}), "f32");
            t.vector("shift", 45);
            t.weight("a", w);
            t.weight("b", w);
            if (is_narrow)
              t.line("%x32 = cast(%x) {dtype = f32}");
            t.line(std::string("%n = ") + norm + "(%x" + (is_narrow ? "32" : "") + ", %scale" +
                   (has_bias ? ", %bias" : "") + ")");
            t.line("%h = cast(%n) " + narrow);
            t.product("p", "h", "a", w, "shift", false);
            t.product("q", "h", "b", w, "", false);
            t.line("%s = silu(%p)");
            t.line("%y = mul(%s, %q)");
            const auto entries = check_same(t.text("%y", t.tensor(t.rows(45), dtype)), t.inputs);
            CHECK(entries.size() == 1);
          }
}

TEST_CASE("a cast of rows before narrow products is part of their launch, with the same bits") {
  for (const char *dtype : {"f16", "bf16"})
    for (int64_t rows : {1, 3, 8})
      for (int64_t width : {64, 200, 13}) { // of 13 elements rows begin within vectors
        const Weight w{45, width, dtype};
        Text t(dtype, rows);
        t.numbers("x", t.rows(width), Array::of({rows, width}), "f32");
        t.vector("shift", 45);
        t.weight("a", w);
        t.weight("b", w);
        t.line(std::string("%h = cast(%x) {dtype = ") + dtype + "}");
        t.product("p", "h", "a", w, "shift", false);
        t.product("q", "h", "b", w, "", false);
        t.line("%s = silu(%p)");
        t.line("%y = mul(%s, %q)");
        const auto entries = check_same(t.text("%y", t.tensor(t.rows(45), dtype)), t.inputs);
        CHECK(entries.size() == (width == 13 ? 2 : 1));
      }
}

TEST_CASE("a cast that the kernel before it makes, or that others read, stays apart") {
  const Weight w{45, 64, "f16"};
  for (bool is_read : {false, true}) {
    Text t("f16", 3);
    t.numbers("x", t.rows(64), Array::of({3, 64}), "f32");
    t.weight("a", w);
    t.line("%e = exp(%x)");
    t.line("%h = cast(%e) {dtype = f16}");
    t.product("p", "h", "a", w, "", false);
    t.line(is_read ? "%y = reduce_sum(%e) {axes = [1]}" : "%y = relu(%p)");
    const auto entries = check_same(
        is_read ? t.text("%p, %y", t.tensor(t.rows(45), "f16") + ", " + t.tensor("3", "f32"))
                : t.text("%y", t.tensor(t.rows(45), "f16")),
        t.inputs);
    CHECK(std::ranges::any_of(entries, [](const std::string &entry) {
            return entry.starts_with("fused_cast_matmul");
          }) == is_read);
  }
}

TEST_CASE("a residual behind a product of blocks, and one that is read twice") {
  const Weight w{40, 64, "q4_0"};
  Text t("f32", 2);
  t.x("x", 2, 64);
  t.x("r", 2, 40);
  t.weight("w", w);
  t.product("p", "x", "w", w, "", false);
  t.line("%y = add(%r, %p)");
  t.line("%z = relu(%y)");
  const auto entries = check_same(
      t.text("%y, %z", t.tensor("2, 40", "f32") + ", " + t.tensor("2, 40", "f32")), t.inputs);
  CHECK(entries.size() == 2);
  CHECK(entries[0] == "fused_matmul_blocks_add_f32");
}

TEST_CASE("deep products, whose columns several warps share, have the same bits") {
  for (const std::string format : {"q4_0", "q4_1", "q8_0"})
    for (int64_t rows : {1, 3}) {
      const std::string dtype = (format == "q4_1") == (rows == 1) ? "f32" : "bf16";
      const Weight one{21, 800, format}, other{21, 800, "q5_0"};
      Text t(dtype, rows);
      t.x("x", rows, 800);
      t.x("r", rows, 21);
      t.vector("b", 21);
      t.weight("v", one);
      t.weight("w", other);
      t.product("p", "x", "v", one, "b", false);
      t.product("q", "x", "w", other, "", false);
      t.line("%s = mul(%p, %q)");
      t.line("%y = add(%r, %s)");
      const auto entries = check_same(t.text("%y", t.tensor(t.rows(21), dtype)), t.inputs);
      CHECK(entries.size() == 1);
    }
}

TEST_CASE("what reads a product between others stands behind them") {
  const Weight w{32, 64, "f32"};
  Text t("f32", 3);
  t.x("x", 3, 64);
  t.weight("a", w);
  t.weight("b", w);
  t.product("p", "x", "a", w, "", false);
  t.line("%s = softmax(%p)");
  t.line("%e = exp(%s)");
  t.product("q", "x", "b", w, "", false);
  const auto entries = check_same(
      t.text("%e, %q", t.tensor("3, 32", "f32") + ", " + t.tensor("3, 32", "f32")), t.inputs);
  CHECK(is_fused(entries));
}

TEST_CASE("products that read one of others between those are a launch of their own, once") {
  const Weight w{32, 64, "f32"}, narrow{8, 64, "f32"}, back{32, 8, "f32"};
  Text t("f32", 2);
  t.x("x", 2, 64);
  for (const char *name : {"a", "b"})
    t.weight(name, w);
  t.weight("c", narrow);
  for (const char *name : {"d", "e"})
    t.weight(name, back);
  t.product("p", "x", "a", w, "", false);
  t.product("t", "x", "c", narrow, "", false);
  t.product("u", "t", "d", back, "", false);
  t.line("%y = add(%p, %u)");
  t.product("q", "x", "b", w, "", false);
  t.product("v", "t", "e", back, "", false);
  t.line("%z = add(%q, %v)");
  const auto entries = check_same(
      t.text("%y, %z", t.tensor("2, 32", "f32") + ", " + t.tensor("2, 32", "f32")), t.inputs);
  CHECK(entries.size() == 2);
}

TEST_CASE("a product that reads what another becomes is no part of its launch") {
  const Weight w{64, 64, "f32"};
  Text t("f32", 1);
  t.x("x", 1, 64);
  t.weight("a", w);
  t.weight("b", w);
  t.product("p", "x", "a", w, "", false);
  t.line("%s = softmax(%p)");
  t.product("q", "x", "b", w, "", false);
  t.line("%y = add(%q, %s)");
  check_same(t.text("%y", t.tensor("1, 64", "f32")), t.inputs);
}

TEST_CASE("rows without end, or more than eight, are left to other passes, and that is noted") {
  for (int64_t rows : {9, 64}) {
    const Weight w{32, 64, "f32"};
    Text t("f32", rows);
    t.x("x", rows, 64);
    t.weight("a", w);
    t.weight("b", w);
    t.product("p", "x", "a", w, "", false);
    t.product("q", "x", "b", w, "", false);
    t.line("%y = add(%p, %q)");
    const std::string text = t.text("%y", t.tensor(t.rows(32), "f32"));
    const Result<ir::Module> module = ir::parse_and_verify(text, "products");
    REQUIRE(module.ok());
    const Ran ran = run(*module, true, t.inputs);
    CHECK_FALSE(is_fused(ran.entries));
    CHECK(ran.notes ==
          std::vector<std::string>{"fusion in @main: matmul, matmul: not fused: up to " +
                                   std::to_string(rows) + " rows; one launch takes at most 8"});
  }
}

TEST_CASE("a norm whose result is read elsewhere stays apart, and that is noted") {
  const Weight w{32, 64, "q4_0"};
  Text t("f32", 1);
  t.x("x", 1, 64);
  t.weight("a", w);
  t.line("%h = rms_norm(%x)");
  t.product("p", "h", "a", w, "", false);
  t.line("%y = relu(%p)");
  t.line("%z = exp(%h)");
  const std::string text =
      t.text("%y, %z", t.tensor("1, 32", "f32") + ", " + t.tensor("1, 64", "f32"));
  const Result<ir::Module> module = ir::parse_and_verify(text, "products");
  REQUIRE(module.ok());
  CHECK(run(*module, true, t.inputs).notes ==
        std::vector<std::string>{"fusion in @main: matmul_blocks, relu: one launch",
                                 "fusion in @main: matmul_blocks, relu: rms_norm stays apart: its "
                                 "result is read elsewhere"});
  check_same(text, t.inputs);
}

TEST_CASE("a sum of rows and a norm before the norm is part of the launch, which stores it") {
  size_t turn = 0; // each dtype and each pair of norms with all numbers of rows
  for (const char *dtype : {"f32", "f16", "bf16", "f64"}) {
    for (const char *norms : {"rms_norm rms_norm", "layer_norm rms_norm", "rms_norm layer_norm"}) {
      const int64_t rows = std::array{1, 3, 8}[turn++ % 3];
      CAPTURE(dtype, rows, norms);
      const bool is_read = rows != 3;
      const std::string both(norms), first = both.substr(0, both.find(' ')),
                                     second = both.substr(both.find(' ') + 1);
      const bool is_wide = rows == 1; // several warps have a row
      const int64_t width = is_wide ? 1088 : 96;
      const Weight w{600, width, dtype}; // several blocks compute the sum
      Text t(dtype, is_wide ? 1 : 8, is_wide ? "" : "b");
      t.least_rows = 1;
      t.x("x", rows, width);
      t.x("r", rows, width);
      t.vector("s", width);
      t.vector("b0", width);
      t.vector("scale", width);
      t.weight("wg", w);
      t.weight("wu", w);
      t.line("%n = " + first + "(%x, %s" + (first == "layer_norm" ? ", %b0" : "") +
             ") {epsilon = 0.5}");
      t.line(is_read ? "%sum = add(%r, %n)" : "%sum = add(%n, %r)");
      t.line("%h = " + second + "(%sum, %scale)");
      t.product("g", "h", "wg", w, "", false);
      t.product("u", "h", "wu", w, "", false);
      t.line("%a = gelu(%g)");
      t.line("%y = mul(%a, %u)");
      if (is_read)
        t.line("%z = relu(%sum)");
      const std::string y = t.tensor(t.rows(600), dtype);
      const auto entries =
          is_read
              ? check_same(t.text("%y, %z", y + ", " + t.tensor(t.rows(width), dtype)), t.inputs)
              : check_same(t.text("%y", y), t.inputs);
      REQUIRE(entries.size() == (is_read ? 2 : 1));
      CHECK(entries[0].starts_with("fused_" + first + "_add_" + second + "_matmul_matmul_"));
    }
    ++turn;
  }
}

TEST_CASE("a sum stays a launch where it is spread, or its norm is read elsewhere") {
  const Weight w{32, 64, "f32"};
  for (bool is_spread : {true, false}) {
    Text t("f32", 2);
    t.x("x", 2, 64);
    t.vector("r", 64);
    t.weight("a", w);
    t.line("%n = rms_norm(%x)");
    t.line(is_spread ? "%sum = add(%n, %r)" : "%sum = add(%n, %x)");
    t.line("%h = rms_norm(%sum)");
    t.product("p", "h", "a", w, "", false);
    t.line(is_spread ? "%z = relu(%sum)" : "%z = relu(%n)");
    const auto entries = check_same(
        t.text("%p, %z", t.tensor("2, 32", "f32") + ", " + t.tensor("2, 64", "f32")), t.inputs);
    CHECK(entries.size() == 4);
  }
}
