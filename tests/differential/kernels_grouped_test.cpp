// Attention of few queries over keys and values that heads share, on tensor cores: which calls take
// it, and what it computes.
#include "caches_check.h"

namespace {

struct Shared {
  int64_t sequences, queries, heads, capacity, kv_heads, width;
};

const ir::Attribute kCausal = flag("causal", true);

OpTest grouped(const Shared &h, std::vector<ir::Attribute> attributes = {},
               DType dtype = DType::f16) {
  const Dims cache = {h.sequences, h.capacity, h.kv_heads, h.width};
  return {.op = Op::attention,
          .dtype = dtype,
          .operands = {{{h.sequences, h.queries, h.heads, h.width}}, {cache}, {cache}},
          .attributes = std::move(attributes)};
}

std::vector<std::string> entries_of(const OpTest &test, uint32_t seed = 1) {
  std::mt19937 random(seed);
  const OpOutcome outcome = run_op_test(runner(), test, random);
  INFO(test.describe() << ": " << outcome.message);
  CHECK(outcome.ok);
  std::vector<std::string> entries = outcome.counters.entries;
  if (outcome.counters.state_bytes > 0) // counters of chunks
    entries.push_back("counts");
  return entries;
}

using Names = std::vector<std::string>;
const Names kWhole = {"attention_grouped"}, kCut = {"attention_grouped", "counts"};

constexpr DType kNarrow[] = {DType::f16, DType::bf16};

} // namespace

TEST_CASE("shared keys and values: groups of two to sixteen heads") {
  for (int64_t group = 2; group <= 16; ++group)
    for (DType dtype : kNarrow)
      CHECK(entries_of(grouped({1, 1, 2 * group, 70, 2, 32}, {}, dtype)) == kWhole);
  CHECK(entries_of(grouped({1, 1, 24, 50, 1, 64})) == kWhole); // twelve at once
  CHECK(entries_of(grouped({2, 1, 32, 20, 1, 48})) == kWhole);
  // Heads that share with none, or with a number of others that has no divisor.
  CHECK(entries_of(grouped({1, 1, 4, 40, 4, 64})) == Names{"attention"});
  CHECK(entries_of(grouped({1, 1, 17, 40, 1, 32})) == Names{"attention"});
}

TEST_CASE("shared keys and values: heads of every width that is a multiple of 16, up to 256") {
  for (int64_t width = 16; width <= 256; width += 16)
    CHECK(entries_of(grouped({1, 1, 4, 45, 1, width}, {kCausal},
                             width % 32 ? DType::f16 : DType::bf16)) == kWhole);
  for (int64_t width : {64, 80, 96, 128}) // two tiles of rows
    CHECK(entries_of(grouped({1, 1, 12, 45, 1, width})) == kWhole);
  CHECK(entries_of(grouped({1, 1, 12, 45, 1, 256})) == kWhole);
  for (int64_t width : {8, 24, 100, 272})
    CHECK(entries_of(grouped({1, 1, 4, 20, 1, width})) == Names{"attention"});
}

TEST_CASE("shared keys and values: every number of positions in a tile, in a step, in a chunk") {
  for (int64_t capacity : {0, 1, 2, 15, 16, 17, 31, 63, 64, 65, 127, 129, 200, 255})
    CHECK(entries_of(grouped({1, 1, 4, capacity, 2, 64}, {kCausal})) == kWhole);
  for (int64_t capacity : {256, 257, 320, 321, 1023, 1024, 1025, 2047, 2049, 4097})
    CHECK(entries_of(grouped({1, 1, 4, capacity, 1, 32}, {kCausal})) == kCut);
  CHECK(entries_of(grouped({1, 1, 16, 1300, 2, 128})) == kCut);
  CHECK(entries_of(grouped({1, 1, 8, 700, 2, 256}, {}, DType::bf16)) == kCut);
  CHECK(entries_of(grouped({0, 1, 4, 300, 2, 64})).size() <= 2);
}

TEST_CASE("shared keys and values: sequences of different lengths, and empty ones") {
  const std::vector<double> lengths = {0, 1, 64, 65, 128, 300, 575, 599, 600};
  for (int64_t window : {0, 5, 16, 70, 1000})
    for (DType ids : {DType::i32, DType::i64}) {
      OpTest test = grouped({9, 1, 6, 600, 2, 32}, {kCausal, integer("window", window)});
      test.operands.push_back(given({9}, lengths, ids));
      CHECK(entries_of(test) == kCut);
    }
  OpTest many = grouped({70, 1, 2, 300, 1, 16}, {kCausal}); // of several warps' lanes
  std::vector<double> each;
  for (int i = 0; i < 70; ++i)
    each.push_back(i * 37 % 301);
  many.operands.push_back(given({70}, each, DType::i32));
  CHECK(entries_of(many) == kCut);
  OpTest few = grouped({9, 2, 4, 20, 2, 32}, {kCausal});
  few.operands.push_back({{9}, DType::i64}); // from -3 to 12
  check(few, 3);
  OpTest beyond = grouped({3, 1, 4, 33, 2, 32});
  beyond.operands.push_back(given({3}, {-5, 34, 1 << 30}, DType::i32));
  CHECK(entries_of(beyond) == kWhole);
}

TEST_CASE("shared keys and values: up to fifteen queries, each sees up to its own position") {
  for (int64_t queries = 1; queries <= 15; ++queries) {
    CHECK(entries_of(grouped({1, queries, 6, 40, 2, 32}, {flag("causal", queries % 4 > 0)})) ==
          kWhole);
    CHECK(entries_of(grouped({2, queries, 4, 333, 1, 64}, {kCausal})) == kCut);
  }
  for (int64_t window : {1, 17, 100})
    CHECK(entries_of(grouped({1, 7, 8, 420, 2, 80}, {kCausal, integer("window", window)})) == kCut);
  CHECK(entries_of(grouped({1, 6, 2, 3, 1, 32}, {kCausal})) == kWhole); // the first see nothing
  CHECK(entries_of(grouped({1, 16, 4, 40, 2, 64}, {kCausal})) == Names{"attention_mma"});
}

TEST_CASE("shared keys and values: rows of a cache that places name, the nearest ones") {
  for (int64_t queries : {1, 3})
    for (int64_t capacity : {20, 300}) {
      const Dims cache = {4, capacity, 2, 32};
      OpTest test{.op = Op::attention,
                  .dtype = DType::f16,
                  .operands = {{{6, queries, 4, 32}},
                               {cache},
                               {cache},
                               given({6}, {0, 1, 17, 20, 16, 5}, DType::i32),
                               kAbsent,
                               given({6}, {2, 0, 2, -1, 9, 3}, DType::i32)},
                  .attributes = {kCausal}};
      check(test);
      test.operands[5] = given({6}, {1, 1, 0, 3, 2, 2}, DType::i64);
      check(test);
    }
}

TEST_CASE("shared keys and values: scales of either sign, and scores far apart") {
  for (double scale : {0.5, -0.25, 3.0})
    for (DType dtype : kNarrow)
      CHECK(entries_of(grouped({1, 2, 4, 100, 1, 32}, {kCausal, real("scale", scale)}, dtype)) ==
            kWhole);
  OpTest specials = grouped({1, 2, 4, 300, 1, 16});
  specials.specials = true;
  CHECK(entries_of(specials) == kCut);
  specials.operands[1].dims[1] = specials.operands[2].dims[1] = 40;
  CHECK(entries_of(specials, 2) == kWhole);
}

TEST_CASE("shared keys and values: masks, other dtypes and older devices keep their kernels") {
  OpTest masked = grouped({1, 1, 4, 40, 2, 32});
  masked.operands.push_back(kAbsent);
  masked.operands.push_back({{40}});
  CHECK(entries_of(masked) == Names{"attention"});
  CHECK(entries_of(grouped({1, 1, 4, 40, 2, 32}, {}, DType::f32)) == Names{"attention"});
  OpTest old = grouped({1, 1, 4, 40, 2, 32});
  old.compute_capability = 75;
  CHECK(entries_of(old) == Names{"attention"});
}

TEST_CASE("shared keys and values: rows that lie apart, also where no chunk of them is aligned") {
  constexpr int64_t kQueries = 3, kPositions = 37, kHeads = 6, kShared = 2, kWidth = 32;
  // Keys, values and something else are parts of rows; the first element of each is `at`.
  for (int64_t at : {0, 1, 8}) {
    const int64_t columns = 2 * kShared * kWidth + 2 * at;
    const Dims rows = {2, kPositions, columns}, queries = {2, kQueries, kHeads, kWidth},
               shared = {2, kPositions, kShared, kWidth};
    const Array q{queries, sixty_fourths(queries, 1)}, all{rows, sixty_fourths(rows, 2)};
    Array keys = Array::of(shared), values = keys;
    for (int64_t row = 0; row < 2 * kPositions; ++row)
      for (int64_t i = 0; i < kShared * kWidth; ++i) {
        const size_t to = size_t(row * kShared * kWidth + i);
        keys.values[to] = all.values[size_t(row * columns + at + i)];
        values.values[to] = all.values[size_t(row * columns + at + kShared * kWidth + i)];
      }
    auto part = [&](const std::string &name, int64_t begin) {
      return "  %" + name + "s = slice(%all) {starts = [" + std::to_string(begin) + "], ends = [" +
             std::to_string(begin + kShared * kWidth) + "], axes = [2]}\n  %" + name +
             " = reshape(%" + name + "s, %shared)\n";
    };
    const Array got = results_of(
        "cugrt 1\nfunc @main(%q: " + type_of(queries, "f16") + ", %all: " + type_of(rows, "f16") +
            ") -> (" + type_of(queries, "f16") + ") {\n  %shared = shape [2, 37, 2, 32]\n" +
            part("k", at) + part("v", at + kShared * kWidth) +
            "  %y = attention(%q, %k, %v) {causal = true}\n  return %y\n}\n",
        {q, all})[0];
    CHECK(runner().counters().entries == kWhole);
    const Array *const operands[] = {&q, &keys, &values};
    const std::vector<ir::Attribute> attributes = {kCausal};
    const Array want = evaluate_op(Op::attention, operands, attributes)[0];
    double most = 0;
    for (size_t i = 0; i < want.values.size(); ++i)
      most = std::max(most, std::fabs(got.values[i] - want.values[i]));
    CAPTURE(at);
    CHECK(most < 0x1p-8); // weights and results are rounded, of values up to 2
  }
}

TEST_CASE("shared keys and values in blocks of q8_0") {
  for (const std::string dtype : {"f16", "bf16"})
    for (const bool exact : {true, false}) // scales of 1/64, or of the largest element
      for (const Shared &h : {Shared{2, 1, 4, 40, 2, 64},
                              {1, 1, 9, 333, 3, 64},
                              {1, 2, 8, 300, 1, 128},
                              {2, 1, 32, 17, 2, 128},
                              {1, 1, 4, 45, 2, 192},
                              {1, 3, 8, 270, 1, 256},
                              {1, 1, 4, 0, 2, 64}}) {
        const Dims cache = {h.sequences, h.capacity, h.kv_heads, h.width},
                   rows = {h.sequences, h.queries, h.heads, h.width};
        std::vector<Array> inputs = {{rows, sixty_fourths(rows, 1)}};
        for (uint32_t seed : {2u, 3u}) {
          Array blocks = quantized({cache, sixty_fourths(cache, seed)});
          for (size_t at = 0; exact && at < blocks.values.size(); at += 34) {
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
        CHECK(runner().counters().entries.back() == "attention_grouped");
        const Array keys = meaning(inputs[1]), values = meaning(inputs[2]);
        const Array *const operands[] = {&inputs[0], &keys, &values};
        const std::vector<ir::Attribute> attributes = {kCausal};
        const Array want = evaluate_op(Op::attention, operands, attributes)[0];
        // Weights and results are rounded, of values up to 2; and elements, whose errors up to 2
        // units make one of a score of up to 8 units times a root of 256.
        const double unit = dtype == "f16" ? 0x1p-11 : 0x1p-8;
        double most = 0;
        for (size_t i = 0; i < want.values.size(); ++i)
          most = std::max(most, std::fabs(got.values[i] - want.values[i]));
        CAPTURE(dtype, exact, h.queries, h.capacity, h.width);
        CHECK(most <= (exact ? 4 : 16) * unit);
      }
  // Of rows that begin at no multiple of four bytes another kernel reads the blocks.
  const Dims cache = {1, 20, 1, 96}, rows = {1, 1, 2, 96};
  const Array blocks = quantized({cache, sixty_fourths(cache, 1)});
  results_of("cugrt 1\nfunc @main(%q: " + type_of(rows, "f16") + ", %k: " + type_of(cache, "q8_0") +
                 ") -> (" + type_of(rows, "f16") +
                 ") {\n  %y = attention(%q, %k, %k)\n  return %y\n}\n",
             {{rows, sixty_fourths(rows, 1)}, blocks});
  CHECK(runner().counters().entries == Names{"attention"});
}

TEST_CASE(
    "shared keys and values: a sequence, a head and a query have the bits that they have alone") {
  constexpr int64_t kPositions = 700, kWidth = 64;
  const std::vector<double> lengths = {700, 3, 290};
  auto run = [&](const std::vector<int64_t> &sequences, int64_t queries, int64_t heads) {
    const auto count = int64_t(sequences.size());
    const Dims rows = {count, queries, heads, kWidth}, cache = {count, kPositions, 1, kWidth};
    Array q = Array::of(rows), keys = Array::of(cache), values = keys, ends{{count}, {}};
    for (int64_t i = 0; i < count; ++i) {
      const auto seed = uint32_t(10 * sequences[size_t(i)]);
      auto fill = [&](Array &to, uint32_t which, int64_t first) {
        const Dims all = {to.dims[1] + first, 8, kWidth};
        const std::vector<double> from = sixty_fourths(all, seed + which);
        const int64_t each = to.dims[1] * to.dims[2] * kWidth;
        for (int64_t row = 0; row < to.dims[1] * to.dims[2]; ++row)
          for (int64_t e = 0; e < kWidth; ++e)
            to.values[size_t(i * each + row * kWidth + e)] =
                from[size_t(((first + row / to.dims[2]) * 8 + row % to.dims[2]) * kWidth + e)];
      };
      fill(q, 1, 4 - queries); // the last of four
      fill(keys, 2, 0);
      fill(values, 3, 0);
      ends.values.push_back(lengths[size_t(sequences[size_t(i)])]);
    }
    return results_of("cugrt 1\nfunc @main(%q: " + type_of(rows, "f16") +
                          ", %k: " + type_of(cache, "f16") + ", %v: " + type_of(cache, "f16") +
                          ", %n: tensor<[" + std::to_string(count) + "], i32>) -> (" +
                          type_of(rows, "f16") +
                          ") {\n  %y = attention(%q, %k, %v, %n) {causal = true}\n  return %y\n}\n",
                      {q, keys, values, ends})[0];
  };
  const Array all = run({0, 1, 2}, 4, 8);
  for (int64_t s = 0; s < 3; ++s) {
    const Array alone = run({s}, 4, 8), fewer = run({s}, 4, 2), last = run({s}, 1, 8);
    for (int64_t query = 0; query < 4; ++query)
      for (int64_t head = 0; head < 8; ++head)
        for (int64_t e = 0; e < kWidth; ++e) {
          const double want = all.values[size_t((((s * 4 + query) * 8) + head) * kWidth + e)];
          REQUIRE(alone.values[size_t((query * 8 + head) * kWidth + e)] == want);
          if (head < 2)
            REQUIRE(fewer.values[size_t((query * 2 + head) * kWidth + e)] == want);
          if (query == 3)
            REQUIRE(last.values[size_t(head * kWidth + e)] == want);
        }
  }
}
