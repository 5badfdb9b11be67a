// Packing with windows: items that occupy only a part of their bytes in a gap. Expected peaks are
// worked out by hand, or by trying all offsets.
#include "plan/pack.h"
#include "plan/pack_window_search.h"

#include "plan_tiles.h"
#include "support/catch.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

using namespace cugrt;
using namespace cugrt::plan;
using namespace cugrt::test;

static constexpr PackOptions kBuild = {.effort = Effort::build};

static PackOptions with_policy(PackPolicy policy) {
  return {.effort = Effort::build, .policy = policy};
}

/// An instance that owns its lists.
struct Instance {
  std::vector<PackItem> items;
  std::vector<PackGap> gaps;
  std::vector<PackPlace> fixed = {};
  PackInput input() const { return {items, gaps, fixed}; }
};

static int64_t peak(const Instance &instance, const PackOptions &options = kBuild) {
  auto packing = pack(instance.input(), options);
  INFO((packing.ok() ? std::string() : packing.status().message()));
  REQUIRE(packing.ok());
  REQUIRE(validate_packing(instance.input(), *packing).ok());
  return packing->peak_bytes;
}

/// The least peak over all offsets, by bytes occupied in every step as bits of a word: for peaks up
/// to 64 and lives within 32 steps.
class AllOffsets {
public:
  explicit AllOffsets(const Instance &instance) : items_(instance.items), parts_(items_.size()) {
    for (size_t i = 0; i < items_.size(); ++i)
      for (uint32_t step = items_[i].begin; step < items_[i].end; ++step)
        parts_[i][step] = bits(0, items_[i].bytes);
    for (const PackGap &gap : instance.gaps)
      for (uint32_t step = gap.begin; step < gap.end; ++step)
        parts_[gap.item][step] = bits(gap.low_bytes, gap.high_bytes);
    fixed_.assign(items_.size(), -1);
    for (const PackPlace &place : instance.fixed)
      fixed_[place.item] = place.offset_bytes;
  }
  int64_t least_peak() {
    for (peak_ = 0; !place(0); ++peak_) {
    }
    return peak_;
  }

private:
  using Steps = std::array<uint64_t, 32>;
  static uint64_t bits(int64_t low, int64_t high) {
    return ((uint64_t(1) << (high - low)) - 1) << low;
  }
  bool place(size_t i) {
    if (i == items_.size())
      return true;
    const Steps before = taken_;
    const bool alive =
        std::any_of(parts_[i].begin(), parts_[i].end(), [](uint64_t part) { return part != 0; });
    if (!alive)
      return place(i + 1);
    for (int64_t offset = 0; offset + items_[i].bytes <= peak_; offset += items_[i].alignment) {
      if (fixed_[i] >= 0 && fixed_[i] != offset)
        continue;
      bool free = true;
      for (size_t step = 0; step < taken_.size(); ++step) {
        free = free && (taken_[step] & parts_[i][step] << offset) == 0;
        taken_[step] |= parts_[i][step] << offset;
      }
      if (free && place(i + 1))
        return true;
      taken_ = before;
    }
    return false;
  }

  std::vector<PackItem> items_;
  std::vector<Steps> parts_;
  std::vector<int64_t> fixed_;
  Steps taken_ = {};
  int64_t peak_ = 0;
};

/// Cuts a rectangle of steps and bytes into pieces and joins some that touch where one follows the
/// other, as items with windows: the optimum is the rectangle's height.
static Instance tiled_instance(std::mt19937 &random, uint32_t steps, int64_t bytes, size_t pieces) {
  std::vector<Tile> tiles = cut_rectangle(random, steps, bytes, pieces);
  std::sort(tiles.begin(), tiles.end(),
            [](const Tile &a, const Tile &b) { return a.begin < b.begin; });
  Instance instance;
  for (std::vector<bool> taken(tiles.size()); const Tile &first : tiles) {
    if (taken[size_t(&first - tiles.data())])
      continue;
    std::vector<Tile> chain = {first};
    for (size_t i = 0; i < tiles.size(); ++i)
      if (!taken[i] && tiles[i].begin == chain.back().end && random() % 2 &&
          tiles[i].low < chain.back().high && chain.back().low < tiles[i].high) {
        taken[i] = true;
        chain.push_back(tiles[i]);
      }
    int64_t low = bytes, high = 0;
    for (const Tile &tile : chain) {
      low = std::min(low, tile.low);
      high = std::max(high, tile.high);
    }
    for (const Tile &tile : chain)
      instance.gaps.push_back(
          {uint32_t(instance.items.size()), tile.begin, tile.end, tile.low - low, tile.high - low});
    instance.items.push_back({chain.front().begin, chain.back().end, high - low});
  }
  return instance;
}

/// Gaps in most items: free, or with windows at the bottom, at the top, in the middle or over all
/// of the item; sometimes one after the other, sometimes over the whole life.
static Instance random_instance(std::mt19937 &random, int count, uint32_t steps, uint32_t largest,
                                uint32_t alignments) {
  Instance instance;
  for (uint32_t i = 0; i < uint32_t(count); ++i) {
    const uint32_t begin = random() % steps, end = begin + 1 + random() % (steps - begin);
    const PackItem item = {begin, end, int64_t(1 + random() % largest),
                           int64_t(1) << random() % alignments};
    instance.items.push_back(item);
    for (uint32_t step = begin + random() % 2; step < end && random() % 4 != 0;) {
      const uint32_t until = std::min(end, step + 1 + uint32_t(random() % 3));
      int64_t low = int64_t(random() % uint64_t(item.bytes + 1)),
              high = int64_t(random() % uint64_t(item.bytes + 1));
      if (low > high)
        std::swap(low, high);
      switch (random() % 4) {
      case 0:
        low = 0;
        break;
      case 1:
        high = item.bytes;
        break;
      default:
        break;
      }
      instance.gaps.push_back({i, step, until, low, high});
      step = until + random() % 3;
    }
  }
  return instance;
}

TEST_CASE("one item rests in another's hollow") {
  // a keeps its lower 2 bytes in the steps in which b is whole, and b's upper 2 are all that is
  // occupied while a is:
  //   6 ┌─────┬────┐
  //   4 │  b  │ b  │
  //   2 ├─────┤    │
  //     │  a  ├────┤
  //   0 └─────┴─a──┘ steps 0 to 4, 4 to 8
  Instance instance{{{0, 8, 4}, {0, 8, 4}}, {{0, 4, 8, 0, 2}, {1, 0, 4, 2, 4}}};
  CHECK(*lower_bound_bytes(instance.input()) == 6);
  for (auto policy : {PackPolicy::search, PackPolicy::portfolio, PackPolicy::greedy})
    CHECK(peak(instance, with_policy(policy)) == 6);
  CHECK(peak(instance, with_policy(PackPolicy::slots)) == 8); // shares nothing in gaps
  CHECK(peak({instance.items, {{0, 4, 8, 0, 2}}}) == 8);      // one window alone is not enough
}

TEST_CASE("a window at the bottom, at the top, in the middle") {
  // b, of 6 bytes, lives while a, of 10, shows 4 of its bytes. Below or above the window there is
  // room for b where it lies at an end of a; in the middle 3 are free on both sides.
  const auto of = [](int64_t low, int64_t high) {
    return Instance{{{0, 6, 10}, {2, 4, 6}}, {{0, 2, 4, low, high}}};
  };
  CHECK(peak(of(0, 4)) == 10);
  CHECK(peak(of(6, 10)) == 10);
  CHECK(peak(of(3, 7)) == 13); // a at 3, b at 0, or b at 7
  CHECK(peak(of(1, 5)) == 11);
  CHECK(peak(of(0, 0)) == 10);
  CHECK(peak(of(0, 10)) == 16);
  CHECK(*lower_bound_bytes(of(3, 7).input()) == 10);
  CHECK(*lower_bound_bytes(of(0, 10).input()) == 16);
}

TEST_CASE("an item may be below another at one step and above it at the next") {
  // a shows its lower byte, then its upper one; b the other way round. They weave, at the bound.
  Instance instance{{{0, 4, 6}, {0, 4, 6}},
                    {{0, 0, 2, 0, 1}, {0, 2, 4, 5, 6}, {1, 0, 2, 5, 6}, {1, 2, 4, 0, 1}}};
  CHECK(*lower_bound_bytes(instance.input()) == 6); // of a whole item, though two bytes are in use
  CHECK(peak(instance) == 6);
}

TEST_CASE("an item leaves the bottom where only that suits another's alignment") {
  // Where a shows its first 3 bytes b lies above them, where a shows its last one, below it: apart
  // by 3 to 7, as 8 is not. b is at 0 or 8, so a must be at 1 to 5.
  Instance instance{{{0, 6, 20}, {1, 5, 12, 8}}, {{0, 1, 3, 0, 3}, {0, 3, 5, 19, 20}}};
  CHECK(AllOffsets(instance).least_peak() == 21);
  CHECK(peak(instance) == 21);
}

TEST_CASE("a peak counts all bytes of what is ever alive") {
  Instance instance{{{0, 4, 16}, {0, 4, 4}}, {{0, 0, 4, 2, 3}}};
  CHECK(*lower_bound_bytes(instance.input()) == 16);
  CHECK(peak(instance) == 16);
  instance.fixed = {{0, 8}};
  CHECK(*lower_bound_bytes(instance.input()) == 24);
  CHECK(peak(instance) == 24);
  instance.gaps = {{0, 0, 4}}; // never alive
  CHECK(*lower_bound_bytes(instance.input()) == 4);
  CHECK(peak(instance) == 4);
}

TEST_CASE("what is fixed in another's window needs bytes of its own at each step only") {
  Instance instance{{{0, 6, 8}, {2, 4, 4}, {0, 6, 2}}, {{0, 2, 4, 0, 4}}, {{0, 0}, {1, 4}}};
  CHECK(peak(instance) == 10);
  instance.fixed = {{0, 0}, {1, 3}};
  CHECK(pack(instance.input()).status().code() == Code::invalid_argument);
  instance.fixed = {{0, 4}, {1, 0}};
  instance.gaps = {{0, 2, 4, 0, 4}};
  CHECK(peak(instance) == 14);
  instance.gaps = {{0, 2, 4, 4, 8}}; // the window begins where b ends, and c has room below a
  instance.fixed = {{0, 4}, {1, 4}};
  CHECK(peak(instance) == 12);
}

TEST_CASE("the check finds what overlaps a window, and nothing else") {
  Instance instance{{{0, 6, 10}, {2, 4, 3}}, {{0, 2, 4, 3, 7}}};
  for (int64_t offset = 0; offset <= 10; ++offset) {
    const Packing packing{{0, offset}, std::max<int64_t>(10, offset + 3)};
    CHECK(validate_packing(instance.input(), packing).ok() == (offset <= 0 || offset >= 7));
  }
  instance.items[1].end = 5; // meets all of a for a step
  CHECK_FALSE(validate_packing(instance.input(), {{0, 0}, 10}).ok());
  CHECK(validate_packing(instance.input(), {{0, 10}, 13}).ok());
  instance = {{{0, 6, 10}, {2, 4, 3}}, {{0, 1, 3, 3, 7}, {0, 3, 5, 0, 3}}}; // two windows
  CHECK_FALSE(validate_packing(instance.input(), {{0, 0}, 10}).ok());
  CHECK(validate_packing(instance.input(), {{0, 7}, 10}).ok());
  CHECK_FALSE(validate_packing(instance.input(), {{0, 6}, 10}).ok());
  CHECK_FALSE(validate_packing(instance.input(), {{0, 7}, 12}).ok()); // another peak
}

TEST_CASE("windows outside of their item are refused") {
  const std::vector<PackItem> items = {{0, 6, 8}, {2, 4, 0}};
  for (PackGap gap : {PackGap{0, 1, 2, -1, 4}, PackGap{0, 1, 2, 5, 4}, PackGap{0, 1, 2, 0, 9},
                      PackGap{1, 2, 3, 0, 1}, PackGap{0, 1, 2, 9, 9}}) {
    const std::vector<PackGap> gaps = {gap};
    CHECK(pack({items, gaps}).status().code() == Code::invalid_argument);
    CHECK(lower_bound_bytes({items, gaps}).status().code() == Code::invalid_argument);
  }
  const std::vector<PackGap> gaps = {{0, 1, 2, 8, 8}, {0, 2, 3, 0, 8}, {1, 2, 3, 0, 0}};
  CHECK(pack({items, gaps})->peak_bytes == 8);
}

TEST_CASE("windows that show all or nothing are no windows") {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    Instance instance = random_instance(random, 20, 12, 50, 1);
    std::vector<PackGap> plain;
    for (PackGap &gap : instance.gaps)
      if (random() % 2) {
        gap.low_bytes = 0;
        gap.high_bytes = instance.items[gap.item].bytes;
      } else {
        gap.low_bytes = gap.high_bytes;
        plain.push_back({gap.item, gap.begin, gap.end});
      }
    const PackInput free(instance.items, plain);
    CHECK(*lower_bound_bytes(instance.input()) == *lower_bound_bytes(free));
    CHECK(pack(instance.input())->offsets == pack(free)->offsets);
  }
}

TEST_CASE("the search finds the optimum of every small instance with windows") {
  std::mt19937 random(61);
  int below_widened = 0, above_bound = 0, greedy_misses = 0;
  for (int round = 0; round < 500; ++round) {
    const Instance instance = random_instance(random, 2 + round % 5, 7, 6, 1);
    const int64_t least = AllOffsets(instance).least_peak();
    CHECK(peak(instance) == least);
    CHECK(*lower_bound_bytes(instance.input()) <= least);
    std::vector<PackGap> plain;
    for (const PackGap &gap : instance.gaps)
      if (gap.low_bytes == gap.high_bytes)
        plain.push_back(gap);
    below_widened += least < AllOffsets({instance.items, plain}).least_peak();
    above_bound += *lower_bound_bytes(instance.input()) < least;
    greedy_misses += least < peak(instance, with_policy(PackPolicy::portfolio));
  }
  CHECK(below_widened > 50); // windows matter,
  CHECK(above_bound > 10);   // the bound does not end the search at once,
  CHECK(greedy_misses > 0);  // nor does greedy placement
}

TEST_CASE("the search finds the optimum with windows, alignments and fixed places") {
  std::mt19937 random(67);
  int rounds = 0, held = 0;
  for (int round = 0; round < 800; ++round) {
    Instance instance = random_instance(random, 3 + round % 3, 7, 9, 3);
    for (uint32_t i = 0; i < instance.items.size(); ++i)
      if (round % 2 && random() % 3 == 0)
        instance.fixed.push_back({i, int64_t(random() % 3) * instance.items[i].alignment});
    auto packing = pack(instance.input(), kBuild);
    if (!packing.ok()) { // fixed in each other's bytes
      CHECK(packing.status().code() == Code::invalid_argument);
      continue;
    }
    ++rounds;
    held += !instance.fixed.empty();
    CHECK(peak(instance) == AllOffsets(instance).least_peak());
  }
  CHECK(rounds > 600);
  CHECK(held > 200);
}

TEST_CASE("packings with windows and without a free byte are found") {
  std::mt19937 random(83);
  size_t windows = 0;
  for (int round = 0; round < 30; ++round) {
    const Instance instance = tiled_instance(random, 30, 24, 30);
    CHECK(*lower_bound_bytes(instance.input()) == 24);
    CHECK(peak(instance) == 24);
    for (const PackGap &gap : instance.gaps)
      windows += gap.high_bytes - gap.low_bytes < instance.items[gap.item].bytes;
  }
  CHECK(windows > 100);
}

TEST_CASE("a search over options says whether nothing fits or it has run out of nodes") {
  std::mt19937 random(89);
  int stopped = 0;
  for (int round = 0; round < 60; ++round) {
    const Instance instance = random_instance(random, 5, 7, 6, round % 2 ? 3 : 1);
    const WindowItems items = WindowItems::make(instance.input());
    const auto problem = WindowProblem::make(items);
    REQUIRE(problem);
    WindowSearch search(*problem);
    const int64_t least = AllOffsets(instance).least_peak();
    CHECK(least % problem->unit_bytes == 0);
    for (int order = 0; order < 3; ++order)
      for (bool least_first : {false, true}) {
        const WindowStrategy strategy{.order = order, .least_first = least_first};
        CHECK(search.run(strategy, least - 1, 1 << 20) == WindowSearch::Outcome::exhausted);
        CHECK(search.run(strategy, least, 1 << 20) == WindowSearch::Outcome::solved);
        const auto found = search.offsets();
        std::vector<int64_t> offsets(instance.items.size(), 0);
        for (size_t i = 0; i < items.given.size(); ++i)
          offsets[items.given[i]] = found[i];
        CHECK(validate_packing(instance.input(), {offsets, least}).ok());
        if (search.nodes() > 0) {
          CHECK(search.run(strategy, least, 0) == WindowSearch::Outcome::limit);
          ++stopped;
        }
      }
  }
  CHECK(stopped > 100);
}

TEST_CASE("a packing is lowered without an item passing another") {
  // b rests in the hollow above a's window, both float; c lies on b.
  const Instance instance{{{0, 6, 8}, {2, 4, 4}, {2, 3, 2}}, {{0, 2, 4, 0, 3}}};
  const WindowItems items = WindowItems::make(instance.input());
  const auto problem = WindowProblem::make(items);
  REQUIRE(problem);
  std::vector<int64_t> floating(3), expected(3);
  for (size_t i = 0; i < 3; ++i) { // in canonical order
    floating[i] = std::vector<int64_t>{5, 10, 20}[items.given[i]];
    expected[i] = std::vector<int64_t>{0, 3, 7}[items.given[i]];
  }
  CHECK(problem->lowered(floating) == expected);
}

TEST_CASE("numbering items with windows differently gives the same packing") {
  std::mt19937 random(71);
  for (int round = 0; round < 12; ++round) {
    const PackOptions options{.node_budget = round % 2 ? 20000 : 0};
    const Instance instance = random_instance(random, 40, 30, 1000, 3);
    const auto first = pack(instance.input(), options);
    REQUIRE(first.ok());
    std::vector<uint32_t> order(instance.items.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    Instance shuffled;
    for (uint32_t place = 0; place < order.size(); ++place) {
      shuffled.items.push_back(instance.items[order[place]]);
      for (PackGap gap : instance.gaps)
        if (gap.item == order[place]) {
          gap.item = place;
          shuffled.gaps.push_back(gap);
        }
    }
    const auto second = pack(shuffled.input(), options);
    REQUIRE(second.ok());
    REQUIRE(second->peak_bytes == first->peak_bytes);
    for (size_t i = 0; i < order.size(); ++i)
      CHECK(second->offsets[i] == first->offsets[order[i]]);
  }
}

TEST_CASE("every policy's packing with windows is valid, and the search's is the smallest") {
  std::mt19937 random(73);
  for (int round = 0; round < 8; ++round) {
    const Instance instance = random_instance(random, 60, 30, 4000, round % 2 ? 5 : 1);
    const int64_t bound = *lower_bound_bytes(instance.input());
    const int64_t placed = peak(instance, {.policy = PackPolicy::portfolio});
    for (int64_t budget : {1, 2000, 40000}) {
      const int64_t found = peak(instance, {.node_budget = budget});
      CHECK(found >= bound);
      CHECK(found <= placed);
    }
    CHECK(peak(instance, {.policy = PackPolicy::greedy}) >= placed);
    CHECK(peak(instance, {.policy = PackPolicy::slots}) >= bound);
  }
}

TEST_CASE("sizes near 2^63 with windows neither overflow nor pass unseen") {
  const int64_t half = INT64_MAX / 2;
  Instance instance{{{0, 4, half - 8}, {2, 4, half - 8}}, {{0, 2, 4, 0, 1}}};
  CHECK(*lower_bound_bytes(instance.input()) == half - 7);
  CHECK(peak(instance, {.effort = Effort::build, .granule_bytes = kLargestGranule}) <=
        2 * (half - 8));
  CHECK(peak(instance) == half - 7); // b begins at a's second byte
  instance.items.push_back({4, 6, half - 8});
  CHECK(pack(instance.input()).status().code() == Code::out_of_range);
  const int64_t large = int64_t(1) << 61;
  instance = {{{0, 4, large, large}, {0, 4, 3, 1}}, {{0, 1, 3, 1, 2}, {1, 0, 2, 2, 3}}};
  CHECK(peak(instance) == large + 3);
}

TEST_CASE("items with windows in their thousands are packed") {
  for (uint32_t count : {6000u, 9000u}) { // of the latter, windows count as whole items
    std::mt19937 random(79);
    Instance instance;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t begin = i, end = begin + 3 + random() % 5;
      instance.items.push_back({begin, end, int64_t(64 + random() % 4096), 64});
      if (i % 3 == 0)
        instance.gaps.push_back({i, begin + 1, end - 1, 0, 32});
    }
    const int64_t found = peak(instance, {});
    CHECK(found >= *lower_bound_bytes(instance.input()));
    const int64_t whole = peak({instance.items, {}}, {});
    CHECK((count > 8192 ? found == whole : found < whole));
    // Fixed in the window of another one.
    instance.items[3].bytes = 4096;
    instance.fixed = {{3, 0}, {4, 64}};
    instance.items[4].end = instance.items[3].end - 1;
    auto packing = pack(instance.input());
    REQUIRE(packing.ok() == (count <= 8192));
    if (!packing.ok())
      CHECK(packing.status().code() == Code::unsupported);
  }
}
