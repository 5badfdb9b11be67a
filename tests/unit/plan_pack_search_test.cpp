// The search behind pack(): exactness against brute force, known packings, independence of
// numbering.
#include "plan/pack.h"
#include "plan/pack_search.h"

#include "support/catch.h"

#include <algorithm>
#include <numeric>
#include <random>

using namespace cugrt;
using namespace cugrt::plan;

static constexpr PackOptions kBuild = {.effort = Effort::build};

static int64_t aligned(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// The least peak over all orders of lowest placement, which is the optimum: an optimal packing
/// pushed down as far as it goes is what placing its items by ascending offset gives.
static int64_t optimum(const std::vector<PackItem> &items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t best = INT64_MAX;
  do {
    std::vector<int64_t> offsets(items.size());
    int64_t peak = 0;
    for (size_t placed = 0; placed < order.size(); ++placed) {
      const PackItem &item = items[order[placed]];
      int64_t offset = 0;
      for (size_t k = 0; k < placed;) {
        const PackItem &other = items[order[k]];
        int64_t at = offsets[order[k]];
        bool clash = item.begin < other.end && other.begin < item.end &&
                     offset < at + other.bytes && at < offset + item.bytes;
        if (clash)
          offset = aligned(at + other.bytes, item.alignment);
        k = clash ? 0 : k + 1;
      }
      offsets[order[placed]] = offset;
      peak = std::max(peak, offset + item.bytes);
    }
    best = std::min(best, peak);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

static std::vector<PackItem> random_items(std::mt19937 &random, int count, uint32_t steps,
                                          uint32_t largest, bool aligned_too) {
  std::vector<PackItem> items;
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
    auto packing = pack(items, kBuild);
    REQUIRE(packing.ok());
    REQUIRE(validate_packing(items, *packing).ok());
    CHECK(packing->peak_bytes == optimum(items));
  }
}

TEST_CASE("the search finds the optimum of small instances with alignments") {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    auto items = random_items(random, 3 + round % 4, 6, 20, true);
    auto packing = pack(items, kBuild);
    REQUIRE(packing.ok());
    REQUIRE(validate_packing(items, *packing).ok());
    // Sizes are rounded up to the alignment that all share, so only the last bytes may differ.
    int64_t shared = 8;
    for (const PackItem &item : items)
      shared = std::min(shared, item.alignment);
    CHECK(packing->peak_bytes < optimum(items) + shared);
  }
}

TEST_CASE("a packing without a free byte is found") {
  // Full at 6 from step 0 to 6:   6 ┌───────┬───────┐
  //                                 4 ├───┬───┼───┐   │
  //                                 2 │   ├───┴───┤   │
  //                                 0 └───┴───────┴───┘  (one of the ways)
  std::vector<PackItem> items = {{0, 2, 4}, {0, 4, 2}, {2, 4, 2}, {2, 6, 2}, {4, 6, 4}};
  auto packing = pack(items, kBuild);
  REQUIRE(packing.ok());
  REQUIRE(validate_packing(items, *packing).ok());
  CHECK(packing->peak_bytes == 6);
}

TEST_CASE("numbering the items differently gives the same packing") {
  std::mt19937 random(17);
  for (auto effort : {Effort::load, Effort::build}) {
    PackOptions options{.effort = effort, .node_budget = effort == Effort::build ? 20000 : 0};
    auto items = random_items(random, 60, 40, 1000, true);
    auto first = pack(items, options);
    REQUIRE(first.ok());
    std::vector<size_t> order(items.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<PackItem> shuffled;
    for (size_t i : order)
      shuffled.push_back(items[i]);
    auto second = pack(shuffled, options);
    REQUIRE(second.ok());
    REQUIRE(second->peak_bytes == first->peak_bytes);
    for (size_t i = 0; i < order.size(); ++i)
      CHECK(second->offsets[i] == first->offsets[order[i]]);
  }
}

TEST_CASE("the same items give the same packing every time") {
  std::mt19937 random(23);
  auto items = random_items(random, 80, 50, 500, false);
  PackOptions options{.node_budget = 30000};
  auto first = pack(items, options), second = pack(items, options);
  REQUIRE(first.ok());
  CHECK(first->offsets == second->offsets);
}

TEST_CASE("more nodes never give a larger peak, and every policy's packing is valid") {
  std::mt19937 random(29);
  for (int round = 0; round < 10; ++round) {
    auto items = random_items(random, 70, 30, 4000, round % 2 == 1);
    int64_t bound = *lower_bound_bytes(items), last = INT64_MAX;
    for (int64_t budget : {1, 100, 2000, 20000}) {
      auto packing = pack(items, {.node_budget = budget});
      REQUIRE(packing.ok());
      CHECK(validate_packing(items, *packing).ok());
      CHECK(packing->peak_bytes >= bound);
      CHECK(packing->peak_bytes <= last);
      last = packing->peak_bytes;
    }
    for (auto policy : {PackPolicy::greedy, PackPolicy::portfolio, PackPolicy::slots}) {
      auto packing = pack(items, {.policy = policy});
      REQUIRE(packing.ok());
      CHECK(validate_packing(items, *packing).ok());
      CHECK(packing->peak_bytes >= last);
    }
  }
}

TEST_CASE("slots: a token is reused within sixteen times its size, and grows") {
  auto peak = [](std::vector<PackItem> items) {
    return pack(items, {.policy = PackPolicy::slots})->peak_bytes;
  };
  CHECK(peak({{0, 1, 160}, {1, 2, 10}}) == 160); // 16 times: reused
  CHECK(peak({{0, 1, 161}, {1, 2, 10}}) == 171); // more: a new token
  CHECK(peak({{0, 1, 10}, {1, 2, 160}}) == 160); // grows
  CHECK(peak({{0, 1, 9}, {1, 2, 160}}) == 169);  // too small to grow
  // Of the free tokens 40 and 60 the smaller one that fits is taken: 30 goes to 40, then 50 to 60.
  // Otherwise 40 would have to grow.
  CHECK(peak({{0, 1, 40}, {0, 1, 60}, {1, 2, 30}, {1, 2, 50}}) == 100);
}

TEST_CASE("a peak within the granule of the bound is not improved further") {
  std::mt19937 random(31);
  auto items = random_items(random, 60, 40, 1000, false);
  int64_t bound = *lower_bound_bytes(items);
  auto packing = pack(items, {.effort = Effort::build, .granule_bytes = 1 << 20});
  REQUIRE(packing.ok());
  CHECK(packing->peak_bytes >= bound);
  CHECK(packing->peak_bytes <= 1 << 20);
  CHECK(pack(items, {.granule_bytes = 0}).status().code() == Code::invalid_argument);
  CHECK(pack(items, {.granule_bytes = kLargestGranule + 1}).status().code() ==
        Code::invalid_argument);
}

TEST_CASE("sizes near 2^63 neither overflow nor pass unseen") {
  int64_t half = INT64_MAX / 2;
  std::vector<PackItem> fits = {{0, 2, half - 8}, {1, 3, half - 8}, {2, 4, half - 8}};
  CHECK(pack(fits, kBuild).status().code() ==
        Code::out_of_range); // the sum is bounded, not the load
  std::vector<PackItem> large = {{0, 2, half - 8}, {1, 3, half - 8}};
  auto packing = pack(large, {.effort = Effort::build, .granule_bytes = kLargestGranule});
  REQUIRE(packing.ok());
  CHECK(packing->peak_bytes == 2 * (half - 8));
  std::vector<PackItem> alignments = {{0, 2, 1, int64_t(1) << 62}, {0, 2, 1, 1}};
  CHECK(pack(alignments).status().code() == Code::out_of_range);
}

TEST_CASE("sections are the maximal sets alive at once") {
  // b begins within a and both end together; c follows a gap.
  std::vector<PackItem> items = {{0, 10, 5}, {4, 10, 7}, {20, 30, 3}};
  auto problem = PackProblem::make(items);
  REQUIRE(problem);
  CHECK(problem->load_bytes == std::vector<int64_t>{12, 3});
  CHECK(problem->bound_bytes == 12);
  CHECK(problem->items[0].same_place(problem->items[1]));
  CHECK(problem->conflicts[0].size() == 1);
  CHECK(problem->conflicts[2].empty());
}

TEST_CASE("a search says whether nothing fits or it has run out of nodes") {
  std::mt19937 random(37);
  PackStrategy strategy{.order = "TWL"};
  for (int round = 0; round < 40; ++round) {
    auto items = random_items(random, 6, 6, 9, false);
    std::sort(items.begin(), items.end(),
              [](const PackItem &a, const PackItem &b) { return a.begin < b.begin; });
    auto problem = PackProblem::make(items);
    REQUIRE(problem);
    PackSearch search(*problem, {&strategy, 1}, 1000);
    int64_t best = optimum(items);
    CHECK(search.run(0, best - 1, 1 << 20) == PackSearch::Outcome::exhausted);
    CHECK(search.run(0, best, 1 << 20) == PackSearch::Outcome::solved);
    CHECK(validate_packing(items, {search.offsets(), best}).ok()); // the peak is the optimum
  }
}
