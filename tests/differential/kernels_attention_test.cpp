// Products on tensor cores, attention over a cache, rotary embedding, convolution in one dimension,
// padding on four sides.
#include "caches_check.h"

#include "compiler/passes/pass.h"
#include "ir/text/text.h"
#include "jit/compiler.h"
#include "kernels/builtin.h"

#include <cmath>
#include <limits>

namespace {

struct Heads {
  int64_t sequences, queries, heads, capacity, kv_heads, width;
};

OpTest attention(Heads h, std::vector<ir::Attribute> attributes = {}, DType dtype = DType::f32) {
  const Dims cache = {h.sequences, h.capacity, h.kv_heads, h.width};
  return {.op = Op::attention,
          .dtype = dtype,
          .operands = {{{h.sequences, h.queries, h.heads, h.width}}, {cache}, {cache}},
          .attributes = std::move(attributes)};
}

const ir::Attribute kCausal = flag("causal", true);

OpTest product(DType dtype, int64_t m, int64_t n) {
  return {.op = Op::matmul, .dtype = dtype, .operands = {{{m, 8}}, {{8, n}}}};
}

/// What an op of f16, bf16 or f32 without absent operands launches under options of passes; its
/// results are compared with the reference on the way. `others` are functions before it.
std::vector<std::string> launched(const OpTest &test, LaunchRunner &device,
                                  const std::vector<std::string> &options,
                                  const std::string &others = "") {
  auto text_of = [&](const Dims &dims) {
    std::string text = "tensor<[";
    for (size_t i = 0; i < dims.size(); ++i)
      text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "], " + std::string(ir::info(test.dtype).name) + ">";
  };
  std::mt19937 random(1);
  std::uniform_real_distribution<double> number(-2, 2);
  std::vector<Array> inputs;
  std::vector<const Array *> operands;
  std::string params, names;
  for (size_t i = 0; i < test.operands.size(); ++i) {
    Array array{test.operands[i].dims, {}};
    int64_t count = 1;
    for (int64_t dim : array.dims)
      count *= dim;
    for (int64_t j = 0; j < count; ++j)
      array.values.push_back(round_to(test.dtype, number(random)));
    inputs.push_back(std::move(array));
    const std::string name = (i ? ", %x" : "%x") + std::to_string(i);
    params += name + ": " + text_of(inputs.back().dims);
    names += name;
  }
  for (const Array &input : inputs)
    operands.push_back(&input);
  const Array want = evaluate_op(test.op, operands, test.attributes, test.dtype).at(0);
  const bool causal = !test.attributes.empty();
  const std::string text = "cugrt 1\n" + others + "func @main(" + params + ") -> (" +
                           text_of(want.dims) +
                           ") {\n  %y = " + std::string(ir::op_info(test.op).name) + "(" + names +
                           ")" + (causal ? " {causal = true}" : "") + "\n  return %y\n}\n";
  passes::PassContext context;
  for (const std::string &option : options)
    REQUIRE(context.set_from_text(option).ok());
  const Result<ir::Module> module = ir::parse_and_verify(text, "op");
  REQUIRE(module.ok());
  const Result<ir::Module> legal = passes::find_pass("LegalizeOps")->run(*module, context);
  REQUIRE(legal.ok());
  const Result<std::vector<Array>> got = device.run(*legal, legal->functions.back(), inputs);
  INFO((got.ok() ? "" : got.status().to_string()));
  REQUIRE(got.ok());
  // Sums of 8 products up to 4, and averages: the result's rounding, and that of sums in f32.
  const double unit = test.dtype == DType::f32 ? 1e-5 : test.dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  double most = 0;
  REQUIRE(got->at(0).values.size() == want.values.size());
  for (size_t i = 0; i < want.values.size(); ++i)
    most = std::max(most, std::fabs(got->at(0).values[i] - want.values[i]) /
                              (unit * (1 + std::fabs(want.values[i]))));
  CHECK(most <= 1);
  return device.counters().entries;
}

} // namespace

TEST_CASE("attention decodes one query over a cache with grouped heads") {
  check(attention({1, 1, 4, 40, 4, 64}));
  check(attention({3, 1, 8, 70, 2, 32}));
  check(attention({2, 1, 6, 33, 3, 128}, {real("scale", 0.25)}));
  check(attention({1, 1, 1, 1, 1, 1}));
  check(attention({1, 1, 2, 0, 1, 32})); // an empty cache
  check(attention({0, 1, 2, 5, 1, 32}));
}

TEST_CASE("attention of every width that is legal fits a block's shared memory") {
  check(attention({1, 2, 2, 40, 1, 256}));
  check(attention({1, 1, 2, 35, 1, 384}));
  check(attention({1, 1, 1, 600, 1, 1000}));
  check(attention({1, 1, 1, 33, 1, 1024}, {}, DType::f16));
  check(attention({1, 1, 2, 34, 2, 192}, {}, DType::f64));
  check(attention({1, 1, 1, 33, 1, 1021}, {}, DType::f64));
  // ptxas refuses more than 48 KiB of fixed size.
  jit::CompilerConfig config;
  config.cache.disk = false;
  jit::Compiler compiler(config);
  for (std::vector<std::string> options :
       {std::vector<std::string>{"-DMAX_WIDTH=384"}, {"-DMAX_WIDTH=256", "-DDTYPE_F64"}}) {
    jit::CompileRequest request;
    request.name = request.file = "attention.cu";
    request.source = *kernels::builtin_source("attention.cu");
    request.options = options;
    request.kind = jit::OutputKind::cubin;
    request.architecture = "sm_75";
    const Result<jit::CompileResult> made = compiler.compile(request);
    INFO((made.ok() ? "" : made.status().to_string()));
    CHECK(made.ok());
  }
}

TEST_CASE("attention over a long cache is split, and joined in the order of the cache") {
  auto entries = [](OpTest test, uint32_t seed = 1) {
    std::mt19937 random(seed);
    const OpOutcome outcome = run_op_test(runner(), test, random);
    INFO(test.describe() << ": " << outcome.message);
    CHECK(outcome.ok);
    return outcome.counters.entries;
  };
  const std::vector<std::string> whole = {"attention"};
  const std::vector<std::string> split = {"attention_split"};
  // Around the least length, and where the last chunk is full, one more and one less.
  CHECK(entries(attention({1, 1, 2, 255, 1, 32})) == whole);
  for (int64_t capacity : {256, 257, 319, 320, 321, 1300})
    CHECK(entries(attention({1, 1, 2, capacity, 1, 32})) == split);
  // From 32 chunks on they grow: of 2049 positions there are 22 of 96.
  for (int64_t capacity : {2048, 2049, 8193})
    CHECK(entries(attention({1, 1, 1, capacity, 1, 4})) == split);
  // Many queries and heads are blocks enough.
  CHECK(entries(attention({1, 64, 4, 600, 2, 4})) == split);
  CHECK(entries(attention({1, 65, 4, 600, 2, 4}, {kCausal})) == whole);
  for (DType dtype : {DType::f16, DType::bf16, DType::f64})
    CHECK(entries(attention({2, 1, 4, 600, 2, 20}, {}, dtype)) == split);
  CHECK(entries(attention({1, 3, 2, 600, 1, 32}, {kCausal})) == split);
  OpTest specials = attention({1, 2, 2, 520, 1, 8});
  specials.specials = true;
  CHECK(entries(specials) == split);
}

TEST_CASE("attention over a split cache sees what lengths and masks leave of it") {
  OpTest few = attention({9, 2, 4, 600, 2, 8}, {kCausal}); // lengths from -3 to 12
  few.operands.push_back({{9}, DType::i64});
  check(few, 3);
  // No chunk, one, one and a position, some, all; a window within one chunk, over two and over all.
  for (int64_t window : {0, 5, 70, 1000}) {
    OpTest lengths = attention({9, 1, 4, 600, 2, 8}, {kCausal, integer("window", window)});
    lengths.operands.push_back(given({9}, {0, 1, 64, 65, 128, 300, 575, 599, 600}, DType::i32));
    check(lengths, 3);
  }
  for (const Dims &mask : {Dims{2, 600}, Dims{1, 4, 1, 600}, Dims{}}) {
    OpTest masked = attention({1, 2, 4, 600, 2, 8});
    masked.operands.push_back({{}, {}, true});
    masked.operands.push_back({mask});
    check(masked);
  }
}

TEST_CASE("attention prefills, with and without looking ahead") {
  for (bool causal : {false, true}) {
    check(attention({2, 5, 4, 5, 2, 64}, {flag("causal", causal)}));
    check(attention({1, 7, 2, 40, 1, 32}, {flag("causal", causal)}));
  }
  check(attention({1, 6, 2, 3, 1, 32}, {kCausal})); // the first queries see nothing
}

TEST_CASE("attention of many queries takes tensor cores") {
  auto entry = [](const OpTest &test) {
    std::mt19937 random(1);
    const OpOutcome outcome = run_op_test(runner(), test, random);
    INFO(test.describe() << ": " << outcome.message);
    CHECK(outcome.ok);
    return outcome.counters.entries.at(0);
  };
  for (bool causal : {false, true}) {
    const std::vector<ir::Attribute> how = {flag("causal", causal)};
    // One tile of queries and of positions, one more of each, and parts of them; each in both
    // dtypes, of which one is causal.
    DType dtype = causal ? DType::f16 : DType::bf16;
    for (const Heads &h : {Heads{1, 64, 2, 64, 1, 64},
                           {2, 65, 3, 65, 3, 32},
                           {1, 16, 4, 130, 2, 128},
                           {1, 70, 1, 200, 1, 40},
                           {1, 20, 2, 7, 1, 96},
                           {1, 70, 2, 90, 1, 256}, // wider than registers hold
                           {1, 65, 1, 67, 1, 136},
                           {1, 20, 1, 33, 1, 192},
                           {2, 16, 2, 0, 1, 64}}) {
      CHECK(entry(attention(h, how, dtype)) == "attention_mma");
      dtype = dtype == DType::f16 ? DType::bf16 : DType::f16;
    }
    CHECK(entry(attention({1, 15, 2, 40, 2, 64}, how, DType::f16)) == "attention");
    CHECK(entry(attention({1, 16, 2, 40, 1, 20}, how, DType::bf16)) == "attention");
  }
  OpTest lengths = attention({9, 17, 4, 10, 2, 32}, {kCausal}, DType::f16);
  lengths.operands.push_back({{9}, DType::i32}); // from -3 to 12
  check(lengths, 3);
  // Masks in the dtype of queries, and in f32, in turn.
  for (DType dtype : {DType::f16, DType::bf16}) {
    bool as_queries = dtype == DType::f16;
    for (const Dims &mask : {Dims{70, 90}, Dims{2, 1, 1, 90}, Dims{4, 70, 1}, Dims{}}) {
      OpTest masked = attention({2, 70, 4, 90, 2, 40}, {}, dtype);
      masked.operands.push_back(kAbsent);
      masked.operands.push_back({mask, as_queries ? dtype : DType::f32});
      CHECK(entry(masked) == "attention_mma");
      as_queries = !as_queries;
    }
  }
}

TEST_CASE("masks on tensor cores: tiles with and without, at the edges of what is seen") {
  // Of positions and of rows; rows that are pairs, and not; of the dtype, and of f32.
  struct Case {
    Dims mask;
    int64_t width;
    DType dtype, of_mask;
    bool causal;
  };
  for (const Case &c : {Case{{2, 1, 1, 198}, 32, DType::f16, DType::f16, false},
                        {{1, 2, 1, 197}, 80, DType::bf16, DType::f32, true},
                        {{1, 2, 20, 198}, 96, DType::f16, DType::f16, true},
                        {{2, 1, 20, 198}, 64, DType::f16, DType::f32, false},
                        {{20, 197}, 48, DType::bf16, DType::bf16, false},
                        {{1, 198}, 200, DType::f16, DType::f32, false}}) {
    const int64_t positions = c.mask.back();
    OpTest test = attention({2, 20, 2, positions, 2, c.width}, {flag("causal", c.causal)}, c.dtype);
    std::vector<double> mask(1);
    for (int64_t size : c.mask)
      mask.resize(mask.size() * size_t(size));
    for (size_t i = 0; i < mask.size(); ++i)
      if (const size_t at = i % size_t(positions); at / 64 == 1 || at > 190)
        mask[i] = at % 3 == 0 ? -INFINITY : double(i % 7) / 4 - 1;
    test.operands.push_back(kAbsent);
    test.operands.push_back(given(c.mask, mask, c.of_mask));
    test.multiprocessors = 1; // so that no cache is cut
    std::mt19937 random(3);
    const OpOutcome outcome = run_op_test(runner(), test, random);
    INFO(test.describe() << ": " << outcome.message);
    CHECK(outcome.ok);
    CHECK(outcome.counters.entries.at(0) == "attention_mma");
  }
}

TEST_CASE("attention of many queries: whole tiles, and those at the edges of what is seen") {
  auto entry = [](OpTest test) {
    test.multiprocessors = 1; // rows are not few, so that no cache is cut
    std::mt19937 random(1);
    const OpOutcome outcome = run_op_test(runner(), test, random);
    INFO(test.describe() << ": " << outcome.message);
    CHECK(outcome.ok);
    CHECK(outcome.counters.entries.at(0) == "attention_mma");
  };
  for (int64_t capacity : {63, 64, 65, 127, 128, 129, 400})
    for (bool causal : {false, true}) // in turn in one dtype and in the other
      entry(attention({1, 66, 2, capacity, 1, 32}, {flag("causal", causal)},
                      (capacity + causal) % 2 ? DType::f16 : DType::bf16));
  for (int64_t window : {1, 63, 64, 65, 128, 200})
    entry(attention({1, 130, 1, 330, 1, 16}, {kCausal, integer("window", window)},
                    window % 2 ? DType::f16 : DType::bf16));
  for (double scale : {-0.25, 2.0})
    entry(attention({1, 40, 2, 150, 2, 64}, {kCausal, real("scale", scale)},
                    scale < 0 ? DType::f16 : DType::bf16));
  for (DType dtype : {DType::f16, DType::bf16}) {
    OpTest lengths = attention({6, 20, 2, 300, 1, 32}, {kCausal}, dtype);
    lengths.operands.push_back(given({6}, {0, 1, 19, 64, 129, 300}, DType::i32));
    entry(lengths);
    lengths.attributes = {kCausal, integer("window", 70)};
    entry(lengths);
    // Rows whose every position is hidden by the least number, some by -infinity.
    OpTest hidden = attention({1, 16, 1, 70, 1, 32}, {}, dtype);
    std::vector<double> mask(16 * 70, 0);
    for (size_t i = 0; i < mask.size(); ++i)
      mask[i] = i / 70 < 3    ? -std::numeric_limits<float>::max()
                : i / 70 == 4 ? -INFINITY
                : i % 3 == 0  ? -INFINITY
                              : 0.5;
    hidden.operands.push_back(kAbsent);
    hidden.operands.push_back(given({16, 70}, mask, DType::f32));
    entry(hidden);
  }
  entry(attention({1, 70, 1, 300, 1, 192}, {kCausal}, DType::f16));
  entry(attention({1, 64, 1, 200, 1, 256}, {kCausal, real("scale", -0.1)}, DType::bf16));
  OpTest specials = attention({1, 20, 1, 200, 1, 16}, {}, DType::f16);
  specials.specials = true;
  entry(specials);
}

TEST_CASE("attention within a window sees that many positions, up to its own") {
  const ir::Attribute window = integer("window", 5);
  check(attention({2, 7, 4, 12, 2, 32}, {kCausal, window}));
  check(attention({1, 1, 4, 700, 2, 16}, {kCausal, integer("window", 300)})); // split
  check(attention({1, 3, 2, 2, 1, 16}, {kCausal, window}));
  OpTest lengths = attention({9, 1, 2, 10, 1, 16}, {kCausal, window});
  lengths.operands.push_back({{9}, DType::i32}); // from -3 to 12
  check(lengths);
  for (DType dtype : {DType::f16, DType::bf16})
    for (int64_t seen : {1, 20, 64, 90, 500})
      check(attention({1, 70, 2, 200, 1, 64}, {kCausal, integer("window", seen)}, dtype));
}

TEST_CASE("attention reads the rows of keys and values that places name, the nearest ones") {
  for (DType dtype : {DType::f32, DType::f16})
    for (int64_t queries : {1, 3, 17}) {
      const Dims cache = {4, 20, 2, 32};
      OpTest test{.op = Op::attention,
                  .dtype = dtype,
                  .operands = {{{6, queries, 4, 32}},
                               {cache},
                               {cache},
                               kAbsent,
                               kAbsent,
                               given({6}, {2, 0, 2, -1, 9, 3}, DType::i32)},
                  .attributes = {kCausal}};
      check(test);
      test.operands[3] = {{6}, DType::i32};
      check(test, 4);
      test.operands[5] = given({6}, {1, 1, 0, 3, 2, 2}, DType::i64);
      check(test);
    }
}

namespace {

constexpr DType kShort[] = {DType::f32, DType::f16, DType::bf16};

} // namespace

TEST_CASE("attention reads keys and values of a dtype of their own") {
  for (DType dtype : kShort)
    for (DType cache : kShort) {
      if (cache == dtype)
        continue;
      // One query, a split cache, several queries, and as many as tensor cores take.
      for (const Heads &h : {Heads{2, 1, 4, 40, 2, 64},
                             {1, 1, 6, 600, 2, 20},
                             {2, 3, 4, 33, 1, 36},
                             {1, 20, 4, 70, 2, 64}}) {
        OpTest test = attention(h, {kCausal}, dtype);
        for (size_t i = 1; i < 3; ++i) {
          test.operands[i].dtype = cache;
          test.operands[i].values = sixty_fourths(test.operands[i].dims, uint32_t(i));
        }
        h.capacity == 33 ? check(test) : check_known(test); // with a symbol once
      }
    }
}

TEST_CASE("attention reads keys and values in blocks of q8_0") {
  for (const std::string dtype : {"f32", "f16", "bf16"})
    for (const Heads &h : {Heads{2, 1, 4, 40, 2, 64},
                           {1, 1, 6, 600, 2, 32},
                           {2, 3, 4, 33, 1, 96},
                           {1, 20, 4, 70, 2, 64}}) {
      const Dims cache = {h.sequences, h.capacity, h.kv_heads, h.width},
                 rows = {h.sequences, h.queries, h.heads, h.width};
      const Array q{rows, sixty_fourths(rows, 1)};
      // Scales of 1/64, so that tensor cores' short floats have every element.
      std::vector<Array> inputs = {q};
      for (uint32_t seed : {2u, 3u}) {
        Array blocks = quantized({cache, sixty_fourths(cache, seed)});
        for (size_t at = 0; at < blocks.values.size(); at += 34) {
          blocks.values[at] = 0;
          blocks.values[at + 1] = 0x24;
        }
        inputs.push_back(std::move(blocks));
      }
      const Array got = results_of(
          "cugrt 1\nfunc @main(%q: " + type_of(rows, dtype) + ", %k: " + type_of(cache, "q8_0") +
              ", %v: " + type_of(cache, "q8_0") + ") -> (" + type_of(rows, dtype) +
              ") {\n  %y = attention(%q, %k, %v) {causal = true}\n  return %y\n}\n",
          inputs)[0];
      const Array keys = meaning(inputs[1]), values = meaning(inputs[2]);
      const Array *const operands[] = {&q, &keys, &values};
      const std::vector<ir::Attribute> attributes = {kCausal};
      const Array want = evaluate_op(Op::attention, operands, attributes)[0];
      // Weights and results are rounded, scores of up to 32 are sums in f32.
      const double unit = dtype == "f32" ? 0 : dtype == "f16" ? 0x1p-11 : 0x1p-8;
      double most = 0;
      for (size_t i = 0; i < want.values.size(); ++i)
        most = std::max(most, std::fabs(got.values[i] - want.values[i]) / (2e-4 + 4 * unit));
      CAPTURE(dtype, h.queries, h.capacity);
      CHECK(most <= 1);
    }
}

TEST_CASE("cache_write rounds to the cache's dtype, and to blocks of q8_0 as GGUF has them") {
  for (DType dtype : kShort)
    for (DType cache : kShort)
      check({.op = Op::cache_write,
             .dtype = cache,
             .operands = {{{2, 6, 1, 20}},
                          {{2, 2, 1, 20}, dtype},
                          kAbsent,
                          given({2}, {3, 0}, DType::i32),
                          given({2}, {5, 1}, DType::i32)}});
  const Dims x = {2, 2, 2, 96}, cache = {3, 5, 2, 96};
  Array given{x, {}};
  std::mt19937 random(9);
  std::uniform_real_distribution<double> number(-3, 3);
  for (int64_t i = 0; i < Array::of(x).count(); ++i)
    given.values.push_back(i < 32 ? 0 : round_to(DType::f32, number(random))); // a block of zeros
  const Array old = quantized(Array::of(cache));
  const Array got = results_of(
      "cugrt 1\nfunc @main(%c: inout " + type_of(cache, "q8_0") + ", %x: " + type_of(x, "f32") +
          ", %s: tensor<[2], i32>, %p: tensor<[2], i32>, %l: tensor<[2], i32>) -> (" +
          type_of(cache, "q8_0") + ") {\n  %y = cache_write(%c, %x, %s, %p, %l)\n  return %y\n}\n",
      {old, given, {{2}, {2, 0}}, {{2}, {1, 4}}, {{2}, {9, 5}}})[0];
  Array want = old;
  const Array blocks = quantized(given);
  const size_t row = 2 * 96 / 32 * 34;
  for (const auto &[from, to] : {std::pair<size_t, size_t>{0, 11}, {1, 12}, {2, 4}}) // 4: the last
    std::copy_n(blocks.values.begin() + long(from * row), row,
                want.values.begin() + long(to * row));
  CHECK(got.values == want.values);
}

TEST_CASE("cache_write puts rows where their positions say, up to the lengths") {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (DType ids : {DType::i32, DType::i64}) {
      // An empty place, the last position, and one behind the length.
      OpTest decode{.op = Op::cache_write,
                    .dtype = dtype,
                    .operands = {{{4, 8, 2, 20}},
                                 {{4, 1, 2, 20}},
                                 kAbsent,
                                 given({4}, {3, 7, 0, 2}, ids),
                                 given({4}, {0, 8, 1, 2}, ids)}};
      check(decode);
      decode.operands.pop_back();
      check(decode);
      // Several rows one after the other, of which the last are not real; other sequences.
      OpTest prefill{.op = Op::cache_write,
                     .dtype = dtype,
                     .operands = {{{3, 40, 3, 8}},
                                  {{2, 17, 3, 8}},
                                  given({2}, {2, 0}, ids),
                                  given({2}, {0, 23}, ids),
                                  given({2}, {9, 40}, ids)}};
      check(prefill);
      CHECK(runner().counters().out_of_bounds.empty());
    }
}

TEST_CASE("cache_write clamps a position or sequence outside of the cache, and tells of it") {
  auto out_of_bounds = [](std::vector<double> sequences, std::vector<double> positions) {
    OpTest test{.op = Op::cache_write,
                .operands = {{{2, 6, 1, 8}},
                             {{1, 1, 1, 8}},
                             given({1}, std::move(sequences), DType::i32),
                             given({1}, std::move(positions), DType::i32)}};
    check(test);
    return runner().counters().out_of_bounds;
  };
  CHECK(out_of_bounds({1}, {5}).empty());
  for (double position : {-1.0, 6.0, double(INT32_MAX), double(INT32_MIN)})
    CHECK(out_of_bounds({1}, {position}) == "position");
  for (double sequence : {-1.0, 2.0})
    CHECK(out_of_bounds({sequence}, {0}) == "sequence");
}

TEST_CASE("attention takes heads of any width") {
  for (int64_t width : {1, 3, 20, 36, 80, 96, 100, 256})
    check(attention({1, 2, 2, 35, 1, width}, {kCausal}));
}

TEST_CASE("attention takes heads of any width in the kernel that all widths share") {
  // 32 other widths, each with a kernel of its own; what comes then is not specialised.
  std::string others;
  for (int64_t width = 160; width < 192; ++width) {
    const std::string w = std::to_string(width), type = "tensor<[1, 2, 1, " + w + "], f32>";
    others += "func @w" + w + "(%q: " + type + ", %k: " + type + ") -> (" + type +
              ") {\n  %y = attention(%q, %k, %k) {causal = true}\n  return %y\n}\n";
  }
  for (int64_t width : {1, 20, 31, 32, 33, 36, 100, 256})
    CHECK(launched(attention({1, 2, 2, 35, 1, width}, {kCausal}), runner(), {}, others) ==
          std::vector<std::string>{"attention"});
}

TEST_CASE("attention reads lengths from the device and limits them to the cache") {
  for (DType ids : {DType::i32, DType::i64}) { // from -3 to 12
    OpTest test = attention({9, 2, 4, 10, 2, 32}, {kCausal});
    test.operands.push_back({{9}, ids});
    check(test, 3);
    test = attention({9, 1, 4, 10, 4, 32});
    test.operands.push_back({{9}, ids});
    check(test, 4);
  }
}

TEST_CASE("attention adds masks that broadcast, and what is masked out is not read into the sum") {
  for (const Dims &mask :
       {Dims{2, 4, 3, 37}, Dims{3, 37}, Dims{2, 1, 1, 37}, Dims{4, 1, 1}, Dims{}}) {
    OpTest test = attention({2, 3, 4, 37, 2, 32});
    test.operands.push_back({{}, {}, true});
    test.operands.push_back({mask});
    std::mt19937 random(5);
    const OpOutcome outcome = run_op_test(runner(), test, random);
    INFO(outcome.message);
    CHECK(outcome.ok);
  }
}

TEST_CASE("attention carries NaN and infinity through, and computes in the wider types") {
  OpTest specials = attention({2, 3, 2, 37, 1, 32});
  specials.specials = true;
  check(specials);
  for (DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    check(attention({2, 1, 4, 70, 2, 64}, {}, dtype));
    check(attention({1, 4, 2, 20, 1, 20}, {kCausal}, dtype));
  }
}

TEST_CASE("rotary embedding turns pairs of elements by the position's angle") {
  for (DType ids : {DType::i32, DType::i64})
    for (bool interleaved : {false, true}) {
      const ir::Attribute pairs = flag("interleaved", interleaved);
      check({.op = Op::rotary, .operands = {{{3, 5, 2, 8}}, {{3, 5}, ids}}, .attributes = {pairs}});
      check({.op = Op::rotary,
             .operands = {{{7, 3, 20}}, {{7}, ids}},
             .attributes = {pairs, integer("dims", 12), real("base", 500), real("scale", 0.5)}});
      check({.op = Op::rotary,
             .operands = {{{4, 2, 10}}, {{4}, ids}, {{6, 3}}, {{6, 3}}},
             .attributes = {pairs, integer("dims", 6)}});
      for (DType dtype : {DType::f32, DType::f16}) { // whole vectors, of many heads
        check({.op = Op::rotary,
               .dtype = dtype,
               .operands = {{{3, 11, 16}}, {{3}, ids}},
               .attributes = {pairs}});
        check({.op = Op::rotary,
               .dtype = dtype,
               .operands = {{{2, 8, 40}}, {{2}, ids}, {{6, 16}}, {{6, 16}}},
               .attributes = {pairs, integer("dims", 32)}});
      }
    }
  check({.op = Op::rotary, .operands = {{{3, 8}}, {{}, DType::i64}}});
  check({.op = Op::rotary, .operands = {{{0, 3, 8}}, {{0}, DType::i64}}});
  check({.op = Op::rotary, .operands = {{{5, 1, 2}}, {{5}, DType::i64}}, .specials = true});
  for (DType dtype : {DType::f16, DType::bf16, DType::f64})
    check({.op = Op::rotary, .dtype = dtype, .operands = {{{5, 3, 8}}, {{5}, DType::i64}}});
}

TEST_CASE("conv1d agrees with its definition") {
  auto conv = [](Dims x, Dims w, bool bias, std::vector<ir::Attribute> attributes,
                 DType dtype = DType::f32) {
    OpTest test{.op = Op::conv1d,
                .dtype = dtype,
                .operands = {{x}, {w}},
                .attributes = std::move(attributes)};
    if (bias)
      test.operands.push_back({{w[0]}});
    check(test);
  };
  conv({2, 3, 17}, {8, 3, 5}, true, {ints("padding", {2})});
  conv(
      {1, 4, 30}, {6, 2, 3}, false,
      {ints("strides", {2}), ints("dilation", {3}), ints("padding", {1, 4}), integer("groups", 2)});
  conv({2, 6, 9}, {6, 1, 3}, true, {integer("groups", 6)});
  conv({0, 3, 9}, {4, 3, 3}, true, {});
  conv({1, 1, 1}, {1, 1, 1}, false, {});
  for (DType dtype : {DType::f16, DType::bf16, DType::f64})
    conv({2, 4, 12}, {8, 4, 3}, true, {ints("padding", {1, 0})}, dtype);
}

TEST_CASE("padding differs on four sides in convolutions and pools") {
  check({.op = Op::conv2d,
         .operands = {{{2, 3, 9, 7}}, {{4, 3, 3, 3}}},
         .attributes = {ints("padding", {1, 0, 2, 1}), ints("strides", {2, 1})}});
  for (Op op : {Op::max_pool2d, Op::avg_pool2d})
    check({.op = op,
           .operands = {{{2, 3, 9, 7}}},
           .attributes = {ints("kernel", {3, 2}), ints("padding", {0, 1, 2, 0})}});
}

// Those of tensor cores: kernels_products_test.cpp.
TEST_CASE("every variant of matmul without tensor cores takes every product", "[large]") {
  const Dims shapes[] = {{1, 1, 1},      {3, 5, 7},      {5, 40, 64}, {64, 64, 32}, {70, 72, 40},
                         {130, 136, 48}, {129, 131, 33}, {0, 8, 8},   {8, 0, 8},    {8, 8, 0}};
  auto product = [](std::string variant, DType dtype, const Dims &s, bool bias) {
    for (bool transposed : {false, true}) {
      const Dims right = transposed ? Dims{s[1], s[2]} : Dims{s[2], s[1]};
      OpTest test{.op = Op::matmul, .dtype = dtype, .operands = {{{s[0], s[2]}}, {right}}};
      test.matmul = variant;
      if (transposed)
        test.attributes = {flag("transpose_b", true)};
      if (bias)
        test.operands.push_back({{s[1]}});
      check(test);
    }
  };
  for (const Dims &s : shapes) // with and without fours that are one access
    product("register_large", DType::f32, s, s[0] % 2 == 1);
  for (const char *variant : {"gemv", "tiled", "register", "register_large"})
    for (size_t i = 0; i < 4; ++i)
      product(variant, i % 2 ? DType::f32 : DType::f16, shapes[i], i == 1);
}

TEST_CASE("each small number of rows has its form for a right operand that is transposed") {
  LaunchRunner old_device("sm_75"); // without tensor cores
  auto entry = [&](const Dims &a, const Dims &b, DType dtype, bool bias, bool old = false) {
    OpTest test{.op = Op::matmul,
                .dtype = dtype,
                .operands = {{a}, {b}},
                .attributes = {flag("transpose_b", true)}};
    if (old)
      test.compute_capability = 75;
    if (bias)
      test.operands.push_back({{b[b.size() - 2]}});
    std::mt19937 random(1);
    const OpOutcome outcome = run_op_test(old ? old_device : runner(), test, random);
    INFO(outcome.message);
    CHECK(outcome.ok);
    return outcome.counters.entries.at(0);
  };
  // Whole rounds of vectors and what is left of one; lengths that are no vectors, and none.
  const Dims columns[] = {{9, 1024}, {17, 72}, {4, 1096}, {3, 37}, {2, 1}, {5, 0}};
  constexpr DType kDTypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
  for (int64_t rows = 1; rows <= 8; ++rows)
    for (int64_t i = 0; i < 3; ++i) {
      const Dims &c = columns[size_t(rows + 2 * i) % std::size(columns)];
      const DType dtype = kDTypes[size_t(rows / 2 + i) % 4];
      const bool has_rings = dtype != DType::f64;
      const std::string by_rows = "matmul_gemv_" + std::to_string(rows);
      CHECK(entry({rows, c[1]}, c, dtype, rows % 2 == 0) == (!has_rings  ? by_rows
                                                             : rows == 1 ? "matmul_stream_1"
                                                                         : "matmul_stream_8"));
      if (has_rings)
        CHECK(entry({rows, c[1]}, c, dtype, rows % 2 == 0, true) == by_rows);
    }
  // Of units of 64 elements a warp has every 8th: several, one or none, and what is left of one.
  for (const Dims &c : {Dims{33, 1024}, {16, 1024 + 8}, {15, 3 * 256 + 40}, {1, 2048}, {18, 1000}})
    for (DType dtype : {DType::f16, DType::bf16})
      CHECK(entry({3, c[1]}, c, dtype, true) == "matmul_stream_8");
  CHECK(entry({9, 64}, {16, 64}, DType::f16, true) == "matmul_mma_least");
  CHECK(entry({9, 64}, {16, 64}, DType::f32, true) == "matmul_tiled");
  CHECK(entry({3, 2, 40}, {3, 7, 40}, DType::f16, false) == "matmul_stream_8");
  CHECK(entry({2, 1, 3, 16}, {5, 9, 16}, DType::f64, false) == "matmul_gemv_3");
  CHECK(entry({2, 1, 3, 16}, {5, 9, 16}, DType::f32, false) == "matmul_stream_8");
}

TEST_CASE("tensor cores walk batches and broadcast them") {
  for (const char *variant : {"mma", "mma_small"})
    for (const auto &[a, b] : {std::pair<Dims, Dims>{{3, 17, 24}, {3, 24, 16}},
                               {{2, 1, 9, 16}, {3, 16, 8}},
                               {{2, 1, 9, 15}, {3, 15, 7}}}) {
      OpTest test{.op = Op::matmul, .dtype = DType::f16, .operands = {{a}, {b}}};
      test.matmul = variant;
      check(test);
    }
}

TEST_CASE("before sm_80 the tiles of tensor cores are summed without them") {
  LaunchRunner old("sm_75");
  for (DType dtype : {DType::f16, DType::bf16}) {
    std::mt19937 random(1);
    OpTest test{.op = Op::matmul, .dtype = dtype, .operands = {{{33, 20}}, {{20, 40}}, {{40}}}};
    test.matmul = "mma_small";
    const OpOutcome outcome = run_op_test(old, test, random);
    INFO(outcome.message);
    CHECK(outcome.ok);
  }
}

TEST_CASE("each variant of matmul in f16 is taken where its rule says") {
  auto entry = [](int64_t m, int64_t n, std::string variant = "auto") {
    std::mt19937 random(1);
    OpTest test{.op = Op::matmul, .dtype = DType::f16, .operands = {{{m, 8}}, {{8, n}}}};
    test.matmul = variant;
    const OpOutcome outcome = run_op_test(runner(), test, random);
    INFO(outcome.message);
    CHECK(outcome.ok);
    return outcome.counters.entries.at(0);
  };
  CHECK(entry(8, 100) == "matmul_gemv");
  CHECK(entry(9, 100) == "matmul_mma_least");
  CHECK(entry(512, 512) == "matmul_mma_least"); // 64 tiles of 64 x 64
  CHECK(entry(513, 512) == "matmul_mma_small");
  CHECK(entry(1024, 1024) == "matmul_mma_small"); // 64 tiles of 128 x 128
  CHECK(entry(1025, 1024) == "matmul_mma");
  CHECK(entry(1025, 2048) == "matmul_mma_large"); // 80 tiles of 256 x 128, 9 rows of smaller ones
  CHECK(entry(640, 4096) == "matmul_mma");        // 3 rows of large tiles, a sixth of them empty
  CHECK(entry(1025, 2044) == "matmul_mma");       // rows of no multiple of 16 bytes
  CHECK(entry(4, 100, "tiled") == "matmul_tiled");
  std::mt19937 random(1);
  OpTest floats{.op = Op::matmul, .operands = {{{5, 8}}, {{8, 8}}}};
  floats.matmul = "mma";
  CHECK(run_op_test(runner(), floats, random).message.find("tensor cores") != std::string::npos);
}

TEST_CASE("devices of few and of many multiprocessors take other kernels, with the same results") {
  LaunchRunner orin("sm_87"), turing("sm_75");
  const std::vector<std::string> few = {"target.multiprocessors=16",
                                        "target.compute_capability=87"};
  const std::vector<std::string> many = {"target.multiprocessors=132",
                                         "target.compute_capability=90"};
  using Names = std::vector<std::string>;
  // 25 tiles of 128 x 128, 100 of 64 x 64: more than one each for 16 multiprocessors, fewer for
  // 132.
  const OpTest halves = product(DType::f16, 640, 640);
  CHECK(launched(halves, orin, few) == Names{"matmul_mma"});
  CHECK(launched(halves, runner(), many) == Names{"matmul_mma_least"});
  CHECK(launched(product(DType::f16, 512, 512), orin, few) == Names{"matmul_mma_small"});
  CHECK(launched(product(DType::f16, 256, 256), orin, few) == Names{"matmul_mma_least"});
  // 25 tiles of 64 x 64, in f32 and where there are no tensor cores for the dtype.
  const OpTest floats = product(DType::f32, 320, 320);
  CHECK(launched(floats, orin, few) == Names{"matmul_register"});
  CHECK(launched(floats, runner(), many) == Names{"matmul_tiled"});
  for (DType dtype : {DType::f16, DType::bf16}) {
    const std::string capability = "target.compute_capability=75";
    const OpTest before = product(dtype, 320, 320);
    CHECK(launched(before, turing, {"target.multiprocessors=24", capability}) ==
          Names{"matmul_register"});
    CHECK(launched(before, turing, {"target.multiprocessors=25", capability}) ==
          Names{"matmul_tiled"});
  }
  // 64 blocks are four each for 16 multiprocessors; 528 for 132.
  const Names whole = {"attention"}, split = {"attention_split"};
  CHECK(launched(attention({1, 16, 4, 520, 2, 4}), orin, few) == split);
  CHECK(launched(attention({1, 17, 4, 520, 2, 4}), orin, few) == whole);
  CHECK(launched(attention({1, 17, 4, 520, 2, 4}), runner(), many) == split);
  CHECK(launched(attention({1, 132, 4, 512, 2, 4}), runner(), many) == split);
  CHECK(launched(attention({1, 133, 4, 512, 2, 4}), runner(), many) == whole);
}

TEST_CASE("attention is split, or is not, where the option says so") {
  using Names = std::vector<std::string>;
  const Names whole = {"attention"}, split = {"attention_split"};
  CHECK(launched(attention({1, 1, 2, 600, 1, 32}), runner(), {"codegen.attention=whole"}) == whole);
  for (int64_t capacity : {40, 0}) // one chunk, and an empty one
    CHECK(launched(attention({1, 1, 2, capacity, 1, 32}), runner(), {"codegen.attention=split"}) ==
          split);
  CHECK(launched(attention({1, 65, 4, 520, 2, 4}, {kCausal}), runner(),
                 {"codegen.attention=split"}) == split);
}

TEST_CASE("products with blocks of 4 and 8 bits agree with the formats' definitions") {
  for (DType format : {DType::q4_0, DType::q4_1, DType::q8_0}) {
    auto product = [&](Dims x, int64_t n, bool bias, DType dtype = DType::f32,
                       bool specials = false) {
      OpTest test{.op = Op::matmul_blocks,
                  .dtype = dtype,
                  .operands = {{x}, {{n, x.back()}, format}},
                  .specials = specials};
      if (bias)
        test.operands.push_back({{n}});
      check(test);
    };
    product({1, 32}, 1, false);
    product({1, 160}, 11, true);
    product({5, 64}, 9, true);
    product({2, 3, 256}, 17, false);
    product({64}, 8, true);     // a vector
    product({5, 800}, 9, true); // columns that four warps share, the last ones with less
    product({1, 1568}, 3, false);
    product({301, 32}, 17, true); // more strips than go together
    product({0, 32}, 8, false);
    product({3, 0}, 8, true);
    product({3, 32}, 0, false);
    product({3, 64}, 5, false, DType::f32, true);
    for (DType dtype : {DType::f16, DType::bf16, DType::f64})
      product({5, 96}, 9, true, dtype);
  }
}
