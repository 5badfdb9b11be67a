// The search behind find_packing(): exactness against brute force, with gaps and fixed places too,
// known packings, independence of numbering.
#include "compiler/planner/packing/packing.h"
#include "compiler/planner/packing/search.h"

#include "support/must.h"
#include "support/validate_packing.h"
#include "tiles.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>

using namespace cugrt;
using namespace cugrt::plan;
using namespace cugrt::test;

static constexpr PackingOptions kBuild = {.effort = Effort::build};

static int64_t aligned(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// The steps at which each item is alive, one bit each; for lives within 64 steps.
static std::vector<uint64_t> steps_alive(const PackingInput &input) {
  std::vector<uint64_t> steps;
  for (const PackingItem &item : input.items) {
    steps.push_back(0);
    for (uint32_t step = item.begin; step < item.end; ++step)
      steps.back() |= uint64_t(1) << step;
  }
  for (const PackingGap &gap : input.gaps)
    for (uint32_t step = gap.begin; step < gap.end; ++step)
      steps[gap.item] &= ~(uint64_t(1) << step);
  return steps;
}

/// The least peak over all orders of lowest placement, what is fixed first. That is the optimum: an
/// optimal packing pushed down as far as it goes is what placing its items by ascending offset
/// gives.
static int64_t optimum(const PackingInput &input) {
  const std::span<const PackingItem> items = input.items;
  const std::vector<uint64_t> steps = steps_alive(input);
  std::vector<int64_t> offsets(items.size(), -1);
  int64_t fixed_peak = 0;
  for (const PackingPlace &place : input.fixed) {
    offsets[place.item] = place.offset_bytes;
    fixed_peak = std::max(fixed_peak, place.offset_bytes + items[place.item].bytes);
  }
  std::vector<size_t> order, placed;
  for (size_t i = 0; i < items.size(); ++i)
    (offsets[i] < 0 ? order : placed).push_back(i);
  const size_t fixed = placed.size();
  int64_t best = INT64_MAX;
  do {
    int64_t peak = fixed_peak;
    placed.resize(fixed);
    for (size_t i : order) {
      int64_t offset = 0;
      for (size_t k = 0; k < placed.size();) {
        const size_t other = placed[k];
        bool clash = (steps[i] & steps[other]) != 0 &&
                     offset < offsets[other] + items[other].bytes &&
                     offsets[other] < offset + items[i].bytes;
        if (clash)
          offset = aligned(offsets[other] + items[other].bytes, items[i].alignment);
        k = clash ? 0 : k + 1;
      }
      offsets[i] = offset;
      placed.push_back(i);
      peak = std::max(peak, offset + items[i].bytes);
    }
    best = std::min(best, peak);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

static std::vector<PackingItem> random_items(std::mt19937 &random, int count, uint32_t steps,
                                             uint32_t largest, bool aligned_too) {
  std::vector<PackingItem> items;
  for (int i = 0; i < count; ++i) {
    uint32_t begin = random() % steps, length = 1 + random() % (steps / 2);
    items.push_back({begin, begin + length, int64_t(1 + random() % largest),
                     aligned_too ? int64_t(1) << random() % 4 : 1});
  }
  return items;
}

TEST_CASE("the search finds the optimum of every small instance") {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    auto items = random_items(random, 2 + round % 6, 6, 9, false);
    auto packing = must(find_packing(items, kBuild));
    REQUIRE(validate_packing(items, packing).ok());
    CHECK(packing.peak_bytes == optimum(items));
  }
}

TEST_CASE("the search finds the optimum of small instances with alignments") {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    auto items = random_items(random, 3 + round % 4, 6, 20, true);
    auto packing = must(find_packing(items, kBuild));
    REQUIRE(validate_packing(items, packing).ok());
    // Sizes are rounded up to the alignment that all share, so only the last bytes may differ.
    int64_t shared = 8;
    for (const PackingItem &item : items)
      shared = std::min(shared, item.alignment);
    CHECK(packing.peak_bytes < optimum(items) + shared);
  }
}

/// Up to two gaps in about half of the items, some at the ends of their lives.
static std::vector<PackingGap> random_gaps(std::mt19937 &random,
                                           const std::vector<PackingItem> &items) {
  std::vector<PackingGap> gaps;
  for (uint32_t i = 0; i < items.size(); ++i) {
    uint32_t step = items[i].begin;
    for (int gap = 0; gap < 2 && random() % 3 != 0; ++gap) {
      step += random() % 3;
      const uint32_t end = step + 1 + random() % 2;
      if (end > items[i].end || (step == items[i].begin && end == items[i].end))
        break;
      gaps.push_back({i, step, end});
      step = end + 1;
    }
  }
  return gaps;
}

TEST_CASE("the search finds the optimum of small instances with gaps") {
  std::mt19937 random(41);
  int smaller = 0;
  for (int round = 0; round < 600; ++round) {
    auto items = random_items(random, 3 + round % 5, 10, 9, false);
    auto gaps = random_gaps(random, items);
    const PackingInput input(items, gaps);
    auto packing = must(find_packing(input, kBuild));
    REQUIRE(validate_packing(input, packing).ok());
    CHECK(packing.peak_bytes == optimum(input));
    CHECK(packing.peak_bytes >= *lower_bound_bytes(input));
    smaller += packing.peak_bytes < optimum(items);
  }
  CHECK(smaller > 50); // gaps matter
}

TEST_CASE("the search finds the optimum of small instances with fixed places and gaps") {
  std::mt19937 random(43);
  int rounds = 0;
  for (int round = 0; round < 600; ++round) {
    auto items = random_items(random, 4 + round % 4, 10, 9, false);
    auto gaps = random_gaps(random, items);
    std::vector<PackingPlace> fixed;
    for (uint32_t i = 0; i < items.size(); ++i)
      if (random() % 3 == 0)
        fixed.push_back({i, int64_t(random() % 12)});
    const PackingInput input(items, gaps, fixed);
    auto packing = find_packing(input, kBuild);
    if (!packing.ok()) { // fixed in each other's bytes
      CHECK(packing.status().code() == Code::invalid_argument);
      continue;
    }
    ++rounds;
    REQUIRE(validate_packing(input, *packing).ok());
    CHECK(packing->peak_bytes == optimum(input));
  }
  CHECK(rounds > 300);
}

TEST_CASE("a gap holds what is alive in it, at the bound") {
  // a keeps its place; b, c and d fill its gap:   4 ┌─┐┌─┬─┐┌─┐
  //                                                  │ ││b│d││ │
  //                                                1 │a│├─┴─┤│a│
  //                                                0 └─┘└─c─┘└─┘ steps 0, 1 to 5, 5
  std::vector<PackingItem> items = {{0, 6, 4}, {1, 3, 3}, {1, 5, 1}, {3, 5, 3}};
  std::vector<PackingGap> gaps = {{0, 1, 5}};
  CHECK(*lower_bound_bytes(PackingInput(items, gaps)) == 4);
  CHECK(*lower_bound_bytes(items) == 8);
  for (auto policy : {PackingPolicy::search, PackingPolicy::portfolio, PackingPolicy::greedy}) {
    auto packing = must(find_packing({items, gaps}, {.policy = policy}));
    CHECK(validate_packing({items, gaps}, packing).ok());
    CHECK(packing.peak_bytes == 4);
  }
}

TEST_CASE("what lies in another's gap is searched on its own") {
  // a and b are alive at both ends; in the gaps of both stand six bytes without a free one (as in
  // the drawing below), and two halves of six.
  std::vector<PackingItem> items = {{0, 20, 3}, {0, 20, 3}, {4, 6, 4}, {4, 8, 2},
                                    {6, 8, 2},  {6, 10, 2}, {8, 10, 4}};
  std::vector<PackingGap> gaps = {{0, 2, 18}, {1, 3, 19}};
  for (uint32_t i = 0; i < 2; ++i)
    items.push_back({12 + i, 14 + i, 3});
  auto packing = must(find_packing({items, gaps}, kBuild));
  CHECK(validate_packing({items, gaps}, packing).ok());
  CHECK(packing.peak_bytes == 6);
}

/// Cuts a rectangle of steps and bytes into pieces, whose optimum is thereby its height; pieces of
/// the same bytes that do not follow each other at once become one item with gaps.
struct Tiling {
  std::vector<PackingItem> items;
  std::vector<PackingGap> gaps;

  Tiling(std::mt19937 &random, uint32_t steps, int64_t bytes, size_t pieces) {
    std::vector<Tile> tiles = cut_rectangle(random, steps, bytes, pieces);
    std::sort(tiles.begin(), tiles.end(), [](const Tile &a, const Tile &b) {
      return std::tie(a.low, a.high, a.begin) < std::tie(b.low, b.high, b.begin);
    });
    for (size_t i = 0; i < tiles.size(); ++i) {
      const bool joins = i > 0 && tiles[i - 1].low == tiles[i].low &&
                         tiles[i - 1].high == tiles[i].high && tiles[i - 1].end < tiles[i].begin;
      if (joins) {
        gaps.push_back({uint32_t(items.size() - 1), items.back().end, tiles[i].begin});
        items.back().end = tiles[i].end;
      } else {
        items.push_back({tiles[i].begin, tiles[i].end, tiles[i].high - tiles[i].low});
      }
    }
  }
};

TEST_CASE("packings with gaps and without a free byte are found") {
  std::mt19937 random(47);
  int gapped = 0;
  for (int round = 0; round < 40; ++round) {
    const Tiling tiling(random, 40, 24, 40);
    const PackingInput input(tiling.items, tiling.gaps);
    auto packing = must(find_packing(input, kBuild));
    REQUIRE(validate_packing(input, packing).ok());
    CHECK(packing.peak_bytes == 24);
    gapped += !tiling.gaps.empty();
  }
  CHECK(gapped > 10);
}

TEST_CASE("a packing without a free byte is found") {
  // Full at 6 from step 0 to 6:   6 ┌───────┬───────┐
  //                                 4 ├───┬───┼───┐   │
  //                                 2 │   ├───┴───┤   │
  //                                 0 └───┴───────┴───┘  (one of the ways)
  std::vector<PackingItem> items = {{0, 2, 4}, {0, 4, 2}, {2, 4, 2}, {2, 6, 2}, {4, 6, 4}};
  auto packing = must(find_packing(items, kBuild));
  REQUIRE(validate_packing(items, packing).ok());
  CHECK(packing.peak_bytes == 6);
}

TEST_CASE("of many items, those where the packing is highest are placed anew") {
  // Among items of a byte, two alive at a time, stand packings without a free byte, for which the
  // order of time is not good enough: it gives them 8 bytes.
  for (uint32_t count : {6000u, 20000u}) {
    std::vector<PackingItem> items;
    for (uint32_t i = 0; i < count; ++i)
      if (const uint32_t at = 10 * i; i % 1500 == 700) {
        for (PackingItem item : {PackingItem{0, 2, 4}, {0, 4, 2}, {2, 4, 2}, {2, 6, 2}, {4, 6, 4}})
          items.push_back({at + item.begin, at + item.end, item.bytes});
      } else {
        items.push_back({at, at + (i % 1500 == 699 ? 10 : 15), 1});
      }
    CHECK(find_packing(items, {.policy = PackingPolicy::portfolio})->peak_bytes == 8);
    auto packing = must(find_packing(items));
    CHECK(packing.peak_bytes == 6);
    if (count < 10000)
      CHECK(validate_packing(items, packing).ok()); // quadratic
  }
}

TEST_CASE("numbering the items differently gives the same packing") {
  std::mt19937 random(17);
  for (auto effort : {Effort::load, Effort::build}) {
    PackingOptions options{.effort = effort, .node_budget = effort == Effort::build ? 20000 : 0};
    auto items = random_items(random, 60, 40, 1000, true);
    auto gaps = random_gaps(random, items);
    auto first = must(find_packing({items, gaps}, options));
    std::vector<size_t> order(items.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<PackingItem> shuffled;
    std::vector<PackingGap> shuffled_gaps;
    for (uint32_t place = 0; place < order.size(); ++place) {
      shuffled.push_back(items[order[place]]);
      for (PackingGap gap : gaps)
        if (gap.item == order[place])
          shuffled_gaps.push_back({place, gap.begin, gap.end});
    }
    auto second = must(find_packing({shuffled, shuffled_gaps}, options));
    REQUIRE(second.peak_bytes == first.peak_bytes);
    for (size_t i = 0; i < order.size(); ++i)
      CHECK(second.offsets[i] == first.offsets[order[i]]);
  }
}

TEST_CASE("the same items give the same packing every time") {
  std::mt19937 random(23);
  auto items = random_items(random, 80, 50, 500, false);
  PackingOptions options{.node_budget = 30000};
  auto first = find_packing(items, options), second = find_packing(items, options);
  REQUIRE(first.ok());
  CHECK(first->offsets == second->offsets);
}

TEST_CASE("more nodes never give a larger peak, and every policy's packing is valid") {
  std::mt19937 random(29);
  for (int round = 0; round < 10; ++round) {
    auto items = random_items(random, 70, 30, 4000, round % 2 == 1);
    int64_t bound = *lower_bound_bytes(items), last = INT64_MAX;
    for (int64_t budget : {1, 100, 2000, 20000}) {
      auto packing = must(find_packing(items, {.node_budget = budget}));
      CHECK(validate_packing(items, packing).ok());
      CHECK(packing.peak_bytes >= bound);
      CHECK(packing.peak_bytes <= last);
      last = packing.peak_bytes;
    }
    for (auto policy : {PackingPolicy::greedy, PackingPolicy::portfolio}) {
      auto packing = must(find_packing(items, {.policy = policy}));
      CHECK(validate_packing(items, packing).ok());
      CHECK(packing.peak_bytes >= last);
    }
  }
}

TEST_CASE("a peak within the granule of the bound is not improved further") {
  std::mt19937 random(31);
  auto items = random_items(random, 60, 40, 1000, false);
  int64_t bound = *lower_bound_bytes(items);
  auto packing = must(find_packing(items, {.effort = Effort::build, .granule_bytes = 1 << 20}));
  CHECK(packing.peak_bytes >= bound);
  CHECK(packing.peak_bytes <= 1 << 20);
  CHECK(find_packing(items, {.granule_bytes = 0}).status().code() == Code::invalid_argument);
  CHECK(find_packing(items, {.granule_bytes = kLargestGranule + 1}).status().code() ==
        Code::invalid_argument);
}

TEST_CASE("sizes near 2^63 neither overflow nor pass unseen") {
  int64_t half = INT64_MAX / 2;
  std::vector<PackingItem> fits = {{0, 2, half - 8}, {1, 3, half - 8}, {2, 4, half - 8}};
  CHECK(find_packing(fits, kBuild).status().code() ==
        Code::out_of_range); // the sum is bounded, not the load
  std::vector<PackingItem> large = {{0, 2, half - 8}, {1, 3, half - 8}};
  auto packing =
      must(find_packing(large, {.effort = Effort::build, .granule_bytes = kLargestGranule}));
  CHECK(packing.peak_bytes == 2 * (half - 8));
  std::vector<PackingItem> alignments = {{0, 2, 1, int64_t(1) << 62}, {0, 2, 1, 1}};
  CHECK(find_packing(alignments).status().code() == Code::out_of_range);
}

TEST_CASE("sections are the maximal sets alive at once") {
  // b begins within a and both end together; c follows a gap.
  std::vector<PackingItem> items = {{0, 10, 5}, {4, 10, 7}, {20, 30, 3}};
  auto problem = PackingProblem::make(CanonicalItems::make(items));
  REQUIRE(problem);
  CHECK(problem->load_bytes == std::vector<int64_t>{12, 3});
  CHECK(problem->bound_bytes == 12);
  CHECK(problem->items[0].same_place(problem->items[1]));
  CHECK(problem->conflicts[0].size() == 1);
  CHECK(problem->conflicts[2].empty());
}

TEST_CASE("a search says whether nothing fits or it has run out of nodes") {
  std::mt19937 random(37);
  PackingStrategy strategy{.order = "TWL"};
  for (int round = 0; round < 40; ++round) {
    auto items = random_items(random, 6, 6, 9, false);
    auto gaps = round % 2 ? random_gaps(random, items) : std::vector<PackingGap>();
    const PackingInput input(items, gaps);
    const CanonicalItems canonical = CanonicalItems::make(input);
    auto problem = PackingProblem::make(canonical);
    REQUIRE(problem);
    PackingSearch search(*problem, {&strategy, 1}, 1000);
    int64_t best = optimum(input);
    CHECK(search.run(0, best - 1, 1 << 20) == PackingSearch::Outcome::exhausted);
    CHECK(search.run(0, best, 1 << 20) == PackingSearch::Outcome::solved);
    std::vector<int64_t> offsets(items.size(), 0);
    for (size_t i = 0; i < canonical.given.size(); ++i)
      offsets[canonical.given[i]] = search.offsets()[i];
    CHECK(validate_packing(input, {offsets, best}).ok()); // the peak is the optimum
  }
}
