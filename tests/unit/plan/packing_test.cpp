// Packing: the bound, the portfolio, the check. Expected peaks are worked out by hand.
#include "compiler/planner/packing/packing.h"

#include "support/must.h"
#include "support/validate_packing.h"

#include <random>

using namespace cugrt;
using namespace cugrt::plan;
using cugrt::test::must;
using cugrt::test::refused;
using cugrt::test::validate_packing;

static int64_t peak(std::vector<PackingItem> items) {
  auto packing = must(find_packing(items));
  REQUIRE(validate_packing(items, packing).ok());
  return packing.peak_bytes;
}

TEST_CASE("the lower bound is the largest sum alive at one step") {
  std::vector<PackingItem> items = {{0, 2, 10}, {1, 3, 20}, {2, 4, 30}};
  CHECK(*lower_bound_bytes(items) == 50); // the last two at step 2
  CHECK(*lower_bound_bytes({}) == 0);
}

TEST_CASE("tensors that are never alive together share their bytes") {
  CHECK(peak({{0, 1, 100}, {1, 2, 100}, {2, 3, 60}}) == 100);
}

TEST_CASE("half-open lifetimes: one may begin where another ends") {
  CHECK(peak({{0, 5, 64}, {5, 9, 64}}) == 64);
  CHECK(peak({{0, 6, 64}, {5, 9, 64}}) == 128);
}

TEST_CASE("a tensor fits into the gap between two others") {
  // 8 and 8 are alive throughout; 4 and 4 take turns.
  CHECK(peak({{0, 4, 8}, {0, 4, 8}, {0, 2, 4}, {2, 4, 4}}) == 20);
}

TEST_CASE("offsets respect alignment and an empty item takes no place") {
  std::vector<PackingItem> items = {{0, 2, 100, 256}, {0, 2, 100, 256}, {0, 2, 0, 256}};
  auto packing = must(find_packing(items));
  CHECK(packing.peak_bytes == 356);
  CHECK(packing.offsets[2] == 0);
}

TEST_CASE("sizes that add up beyond 63 bits are refused") {
  std::vector<PackingItem> items = {{0, 1, INT64_MAX}, {0, 1, 1}};
  CHECK(find_packing(items).status().code() == Code::out_of_range);
  CHECK(lower_bound_bytes(items).status().code() == Code::out_of_range);
}

TEST_CASE("malformed items are refused") {
  for (PackingItem item : {PackingItem{2, 2, 8}, PackingItem{3, 2, 8}, PackingItem{0, 1, -1},
                           PackingItem{0, 1, 8, 3}, PackingItem{0, 1, 8, 0}}) {
    std::vector<PackingItem> items = {item};
    CHECK(find_packing(items).status().code() == Code::invalid_argument);
  }
}

TEST_CASE("the check finds overlaps, bad alignment and a wrong peak") {
  std::vector<PackingItem> items = {{0, 2, 8, 4}, {1, 3, 8, 4}};
  CHECK(validate_packing(items, {{0, 8}, 16}).ok());
  CHECK_FALSE(validate_packing(items, {{0, 4}, 12}).ok());
  CHECK_FALSE(validate_packing(items, {{0, 10}, 18}).ok());
  CHECK_FALSE(validate_packing(items, {{0, 8}, 24}).ok());
  CHECK_FALSE(validate_packing(items, {{0}, 8}).ok());
}

TEST_CASE("the check knows gaps and fixed places") {
  std::vector<PackingItem> items = {{0, 6, 8}, {2, 4, 8}};
  std::vector<PackingGap> gaps = {{0, 2, 4}}, early = {{0, 1, 3}};
  CHECK(validate_packing({items, gaps}, {{0, 0}, 8}).ok());
  CHECK_FALSE(validate_packing(items, {{0, 0}, 8}).ok());
  CHECK_FALSE(validate_packing({items, early}, {{0, 0}, 8}).ok());
  // Two gaps that cover the other's life together.
  CHECK(validate_packing({items, std::vector<PackingGap>{{0, 1, 3}, {0, 3, 5}}}, {{0, 0}, 8}).ok());
  std::vector<PackingPlace> fixed = {{1, 4}};
  CHECK(validate_packing({items, gaps, fixed}, {{0, 4}, 12}).ok());
  CHECK_FALSE(validate_packing({items, gaps, fixed}, {{0, 0}, 8}).ok());
}

TEST_CASE("malformed gaps and places are refused") {
  std::vector<PackingItem> items = {{0, 6, 8, 4}, {2, 4, 8}};
  auto refused = [&](std::vector<PackingGap> gaps, std::vector<PackingPlace> fixed) {
    auto packing = find_packing({items, gaps, fixed});
    return !packing.ok() && packing.status().code() == Code::invalid_argument;
  };
  CHECK(refused({{2, 0, 1}}, {}));            // no such item
  CHECK(refused({{0, 3, 3}}, {}));            // empty
  CHECK(refused({{0, 5, 7}}, {}));            // outside of its life
  CHECK(refused({{0, 1, 3}, {0, 2, 4}}, {})); // overlapping
  CHECK(refused({{1, 2, 3}, {0, 1, 2}}, {})); // not ascending
  CHECK(refused({}, {{2, 0}}));               // no such item
  CHECK(refused({}, {{0, -4}}));
  CHECK(refused({}, {{0, 2}}));         // not aligned
  CHECK(refused({}, {{0, 0}, {1, 7}})); // in each other's bytes
  CHECK_FALSE(refused({}, {{0, 0}, {1, 8}}));
  CHECK_FALSE(refused({{0, 2, 4}}, {{0, 0}, {1, 7}}));
  CHECK(find_packing({items, {}, std::vector<PackingPlace>{{0, INT64_MAX - 3}}}).status().code() ==
        Code::invalid_argument);
}

TEST_CASE("what a gap leaves nothing of takes no place, and fixed places count in the bound") {
  std::vector<PackingItem> items = {{0, 4, 8}, {0, 4, 8}};
  std::vector<PackingGap> gaps = {{0, 0, 4}};
  CHECK(*lower_bound_bytes({items, gaps}) == 8);
  CHECK(find_packing({items, gaps})->peak_bytes == 8);
  std::vector<PackingPlace> fixed = {{0, 24}};
  CHECK(*lower_bound_bytes({items, gaps, fixed}) == 8); // of what is never alive they do not
  CHECK(*lower_bound_bytes({items, {}, fixed}) == 32);
  auto packing = must(find_packing({items, {}, fixed}));
  CHECK(packing.peak_bytes == 32);
  CHECK(validate_packing({items, {}, fixed}, packing).ok());
}

TEST_CASE("many items are packed by a free list, in bounds and disjoint") {
  std::mt19937 random(7);
  std::vector<PackingItem> items;
  for (uint32_t i = 0; i < 5000; ++i) {
    uint32_t begin = i, end = begin + 1 + random() % 6;
    items.push_back({begin, end, int64_t(random() % 4096), 256});
  }
  auto packing = must(find_packing(items));
  CHECK(validate_packing(items, packing).ok());
  CHECK(packing.peak_bytes >= *lower_bound_bytes(items));
  CHECK(packing.peak_bytes <= 8 * 4096); // at most seven are alive at once
}

/// The least peak over all orders of placement; enough for exactness on small inputs.
static int64_t brute_force(const std::vector<PackingItem> &items) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  int64_t best = INT64_MAX;
  do {
    std::vector<int64_t> offsets(items.size());
    int64_t top = 0;
    for (size_t placed = 0; placed < order.size(); ++placed) {
      const PackingItem &item = items[order[placed]];
      int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t k = 0; k < placed; ++k) {
          const PackingItem &other = items[order[k]];
          if (item.begin < other.end && other.begin < item.end &&
              offset < offsets[order[k]] + other.bytes && offsets[order[k]] < offset + item.bytes) {
            offset = offsets[order[k]] + other.bytes;
            moved = true;
          }
        }
      }
      offsets[order[placed]] = offset;
      top = std::max(top, offset + item.bytes);
    }
    best = std::min(best, top);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST_CASE("small packings are never below the optimum and rarely above it") {
  std::mt19937 random(11);
  int optimal = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<PackingItem> items;
    for (int i = 0; i < 6; ++i) {
      uint32_t begin = random() % 6;
      items.push_back({begin, begin + 1 + uint32_t(random() % 4), int64_t(1 + random() % 9)});
    }
    int64_t best = brute_force(items), got = peak(items);
    CHECK(got >= best);
    CHECK(got >= *lower_bound_bytes(items));
    optimal += got == best;
  }
  CHECK(optimal >= 190);
}

TEST_CASE("modules are packed to the byte while they are small, or with effort for it") {
  CHECK(planner_packing_options(1024).granule_bytes == 1);
  CHECK(planner_packing_options(1025).granule_bytes == kPageBytes);
  CHECK(planner_packing_options(1025).effort == Effort::load);
  CHECK(planner_packing_options(1025, Effort::build).granule_bytes == 1);
  CHECK(planner_packing_options(1, Effort::build).effort == Effort::build);
}
