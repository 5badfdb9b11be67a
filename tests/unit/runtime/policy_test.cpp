// runtime: which instance serves a key.
#include "fixture.h"

#include "device/graph/instance_policy.h"

#include <array>
#include <map>
#include <random>
#include <set>
#include <thread>

using namespace cugrt;
using namespace cugrt::runtime;

namespace {

using Kind = InstancePolicy::Decision::Kind;

/// Carries out what a policy decides, without graphs.
struct Cache {
  explicit Cache(PolicyOptions options) : policy(options) {}

  Kind use(int64_t key, uint64_t bytes = 10, uint64_t topology = 0) {
    std::vector<int64_t> full{static_cast<int64_t>(topology), key};
    InstancePolicy::Ask ask{[&](InstanceId id) { return !running.contains(id); },
                            [&](InstanceId id) { return last_use[id]; }, uses};
    auto decision = policy.decide(full, topology, bytes, ask);
    ++counts[static_cast<size_t>(decision.kind)];
    reason = decision.reason;
    given_up = decision.give_up.size();
    for (InstanceId id : decision.give_up)
      policy.remove(id);
    if (decision.kind == Kind::build)
      last = policy.add(full, topology, std::move(decision.room));
    if (decision.kind == Kind::patch || decision.kind == Kind::use) {
      last = decision.instance;
      policy.rebind(last, full);
    }
    if (decision.kind != Kind::eager)
      last_use[last] = ++uses;
    return decision.kind;
  }

  InstancePolicy policy;
  std::set<InstanceId> running;
  std::map<InstanceId, uint64_t> last_use;
  uint64_t uses = 0;
  InstanceId last = 0;
  size_t given_up = 0;
  EagerReason reason{};
  std::array<uint64_t, 4> counts{}; // by Kind
  uint64_t count(Kind kind) const { return counts[static_cast<size_t>(kind)]; }
};

} // namespace

TEST_CASE("keys that come in the same order are soon all hits where there is room for them") {
  Cache cache({.budget_bytes = 1000, .class_pool = 4});
  std::vector<std::vector<Kind>> rounds(4);
  for (std::vector<Kind> &round : rounds)
    for (int64_t key = 1; key <= 6; ++key)
      round.push_back(cache.use(key));
  CHECK(rounds[0] == std::vector<Kind>{Kind::build, Kind::build, Kind::build, Kind::build,
                                       Kind::patch, Kind::patch});
  // 5 took the instance of 1, which was the oldest, and 6 took it from 5. With their second use
  // without one they have earned their own, 1 a round later.
  CHECK(rounds[1] ==
        std::vector<Kind>{Kind::patch, Kind::use, Kind::use, Kind::use, Kind::build, Kind::build});
  CHECK(rounds[2] == std::vector<Kind>(6, Kind::use));
}

TEST_CASE("a full budget patches the instance that was patched last, and leaves the others alone") {
  Cache cache({.budget_bytes = 20, .class_pool = 4});
  CHECK(cache.use(1) == Kind::build);
  CHECK(cache.use(2) == Kind::build);
  CHECK(cache.use(3) == Kind::patch); // 1 is the oldest
  CHECK(cache.use(3) == Kind::use);
  CHECK(cache.use(1) == Kind::patch); // from 3
  CHECK(cache.use(2) == Kind::use);
  CHECK(cache.use(3) == Kind::patch);
  CHECK(cache.policy.bytes() == 20);
}

TEST_CASE("keys in turn, more than there is room for, share one instance and keep the others") {
  struct Row {
    int64_t keys;
    uint64_t room;
  };
  for (Row row : {Row{4, 3}, Row{6, 3}, Row{20, 10}, Row{11, 10}, Row{3, 2}, Row{2, 1}}) {
    CAPTURE(row.keys, row.room);
    Cache cache({.budget_bytes = 10 * row.room});
    constexpr int64_t kRounds = 100;
    for (int64_t i = 0; i < kRounds * row.keys; ++i)
      cache.use(i % row.keys);
    CHECK(cache.count(Kind::build) == row.room);
    CHECK(cache.count(Kind::use) >= (row.room - 1) * (kRounds - 2));
    CHECK(cache.count(Kind::eager) == 0);
  }
}

TEST_CASE("classes in turn, more than there is room for, do not push each other out") {
  Cache cache({.budget_bytes = 30});
  constexpr int64_t kRounds = 100;
  for (int64_t i = 0; i < kRounds * 4; ++i)
    cache.use(1, 10, i % 4);
  CHECK(cache.count(Kind::build) == 3);
  CHECK(cache.count(Kind::use) == 3 * (kRounds - 1));
}

TEST_CASE("where eager is no choice, an instance in use makes way") {
  Cache cache({.budget_bytes = 10, .at_any_price = true});
  for (int64_t i = 0; i < 6; ++i)
    CHECK(cache.use(1, 10, i % 2) == Kind::build);
}

TEST_CASE("a key that comes while an instance of its class does not takes that one over") {
  Cache cache({.budget_bytes = 30});
  for (int64_t key : {1, 2, 3})
    cache.use(key);
  for (int i = 0; i < 3; ++i) // in turn with another one, so that neither stays
    for (int64_t key : {4, 5})
      CHECK(cache.use(key) == Kind::patch);
  CHECK(cache.use(4) == Kind::patch); // in place of 2 or 3: the one that they shared stays with 5
  CHECK(cache.use(5) == Kind::use);
  CHECK(cache.use(4) == Kind::use);
  CHECK(cache.count(Kind::build) == 3);
}

TEST_CASE("a class that comes while another one does not is built in its place") {
  Cache cache({.budget_bytes = 20, .pin_uses = 2});
  cache.use(1, 10, 0);
  cache.use(1, 10, 1);
  for (int i = 0; i < 3; ++i) {
    CHECK(cache.use(1, 10, 2) == Kind::eager);
    CHECK(cache.use(1, 10, 1) == Kind::use);
  }
  CHECK(cache.use(1, 10, 2) == Kind::build); // four uses pay two builds
  CHECK(cache.given_up == 1);
  CHECK(cache.use(1, 10, 1) == Kind::use);
}

namespace {

struct Use {
  int64_t key;
  uint64_t topology;
};

/// One of `keys` for each use; topology is the key's remainder by `classes`.
using Pattern = std::vector<Use> (*)(int64_t keys, uint64_t classes, size_t uses,
                                     std::mt19937 &random);

std::vector<Use> in_turn(int64_t keys, uint64_t classes, size_t uses, std::mt19937 &) {
  std::vector<Use> list;
  for (size_t i = 0; i < uses; ++i) {
    auto key = static_cast<int64_t>(i) % keys;
    list.push_back({key, key % classes});
  }
  return list;
}

std::vector<Use> evenly(int64_t keys, uint64_t classes, size_t uses, std::mt19937 &random) {
  std::vector<Use> list;
  for (size_t i = 0; i < uses; ++i) {
    auto key = static_cast<int64_t>(random() % keys);
    list.push_back({key, key % classes});
  }
  return list;
}

/// Key k with a weight of 1 / (k + 1).
std::vector<Use> zipf(int64_t keys, uint64_t classes, size_t uses, std::mt19937 &random) {
  std::vector<double> weights;
  for (int64_t key = 0; key < keys; ++key)
    weights.push_back(1.0 / static_cast<double>(key + 1));
  std::discrete_distribution<int64_t> pick(weights.begin(), weights.end());
  std::vector<Use> list;
  for (size_t i = 0; i < uses; ++i) {
    int64_t key = pick(random);
    list.push_back({key, key % classes});
  }
  return list;
}

/// Patching costs 1, being eager as much, building `build`.
double cost_of(const Cache &cache, double build) {
  return static_cast<double>(cache.count(Kind::patch) + cache.count(Kind::eager)) +
         build * static_cast<double>(cache.count(Kind::build));
}

/// Instances of their own for the keys that are used most often, the last one shared by all others.
double best_fixed_cost(const std::vector<Use> &uses, size_t room, double build) {
  std::map<int64_t, uint64_t> counts;
  for (const Use &use : uses)
    ++counts[use.key];
  std::vector<uint64_t> sorted;
  for (auto [key, count] : counts)
    sorted.push_back(count);
  std::sort(sorted.rbegin(), sorted.rend());
  const size_t own = sorted.size() <= room ? sorted.size() : room - 1;
  double cost = build * static_cast<double>(std::min(room, sorted.size()));
  for (size_t i = own; i < sorted.size(); ++i)
    cost += static_cast<double>(sorted[i]);
  return cost;
}

} // namespace

TEST_CASE("what instances cost in all is at most twice the best fixed choice, but for the start",
          "[long]") {
  struct Row {
    const char *name;
    Pattern pattern;
  };
  constexpr uint32_t kBuild = 5; // patches that cost as much as building
  std::mt19937 random(5);
  for (Row row : {Row{"in turn", in_turn}, Row{"evenly", evenly}, Row{"zipf", zipf}})
    for (int64_t keys : {2, 4, 11, 20, 100})
      for (uint64_t classes : {1, 2, 7})
        for (uint64_t room : {1, 3, 10}) {
          if (room < classes)
            continue;
          CAPTURE(row.name, keys, classes, room);
          Cache cache({.budget_bytes = 10 * room, .pin_uses = kBuild});
          std::vector<Use> uses = row.pattern(keys, classes, 20000, random);
          for (const Use &use : uses)
            cache.use(use.key, 10, use.topology);
          const double start = 2.0 * kBuild * static_cast<double>(keys + 2 * room);
          CHECK(cost_of(cache, kBuild) <= 2 * best_fixed_cost(uses, room, kBuild) + start);
        }
}

TEST_CASE("a set of keys that follows another one takes the instances over within ten uses a key") {
  constexpr int64_t kKeys = 9;
  for (uint64_t classes : {1, 3})
    for (int64_t offset : {100, 101}) { // of the same classes, of others in turn
      CAPTURE(classes, offset);
      Cache cache({.budget_bytes = 100, .pin_uses = 2});
      for (int round = 0; round < 1000; ++round)
        for (int64_t key = 0; key < kKeys; ++key)
          cache.use(key, 10, key % classes);
      for (int round = 0; round < 10; ++round)
        for (int64_t key = 0; key < kKeys; ++key)
          cache.use(offset + key, 10, (offset + key) % classes + classes * (offset == 101));
      const uint64_t hits = cache.count(Kind::use);
      for (int64_t key = 0; key < kKeys; ++key)
        cache.use(offset + key, 10, (offset + key) % classes + classes * (offset == 101));
      CHECK(cache.count(Kind::use) - hits == kKeys);
    }
}

TEST_CASE("what was used without the policy being asked counts as used") {
  Cache cache({.budget_bytes = 20, .class_pool = 4});
  CHECK(cache.use(1, 10, 0) == Kind::build);
  InstanceId hot = cache.last;
  CHECK(cache.use(1, 10, 1) == Kind::build);
  for (int i = 0; i < 3; ++i) {
    CHECK(cache.use(1, 10, 2) == Kind::eager);
    cache.last_use[hot] = ++cache.uses; // a launch that found its instance as it was
  }
  CHECK(cache.use(1, 10, 2) == Kind::build);
  CHECK(cache.given_up == 1);
  CHECK(cache.last != hot);
  CHECK(cache.use(1, 10, 0) == Kind::use);
}

TEST_CASE("an instance that runs is never given up") {
  Cache cache({.budget_bytes = 10, .class_pool = 4, .at_any_price = true});
  CHECK(cache.use(1, 10, 0) == Kind::build);
  cache.running.insert(cache.last);
  CHECK(cache.use(1, 10, 1) == Kind::eager); // of another class: cannot be patched either
  CHECK(cache.reason == EagerReason::budget_full);
  cache.running.clear();
  CHECK(cache.use(1, 10, 1) == Kind::build);
}

TEST_CASE("a graph larger than the whole budget is launched eagerly, and the reason says so") {
  Cache cache({.budget_bytes = 10, .class_pool = 4});
  CHECK(cache.use(1, 11) == Kind::eager);
  CHECK(cache.reason == EagerReason::too_large);
}

TEST_CASE("the budget holds under ten thousand random keys of several classes") {
  Cache cache({.budget_bytes = 100, .class_pool = 4, .pin_uses = 2, .max_tracked_keys = 64});
  std::mt19937 random(11);
  for (int i = 0; i < 10000; ++i) {
    if (random() % 4 == 0)
      cache.running.insert(random() % 8);
    if (random() % 4 == 0)
      cache.running.clear();
    cache.use(random() % 40, 5 + random() % 20, random() % 3);
    REQUIRE(cache.policy.bytes() <= 100);
  }
}

TEST_CASE("bytes that are set aside count as used until they are given back") {
  Cache cache({.budget_bytes = 30, .class_pool = 4});
  CHECK(cache.use(1) == Kind::build);
  {
    BudgetShare first = cache.policy.reserve(10), second = cache.policy.reserve(10);
    CHECK((first && second));
    uint64_t free_bytes = 1;
    CHECK(!cache.policy.reserve(1, 0, &free_bytes));
    CHECK(free_bytes == 0);
    CHECK(cache.use(2) == Kind::patch);
    CHECK(cache.use(2, 11) == Kind::use);
    for (int i = 0; i < 4; ++i)
      CHECK(cache.use(3, 11, 1) == Kind::eager); // giving up the only one frees 10
    for (int i = 0; i < 3; ++i)
      CHECK(cache.use(4, 10, 1) == Kind::eager);
    CHECK(cache.use(4, 10, 1) == Kind::build); // in its place
    CHECK(cache.policy.bytes() == 10);
  }
  CHECK(cache.use(5) == Kind::build);
  CHECK(cache.use(6) == Kind::build);
  CHECK(cache.policy.bytes() == 30);
}

TEST_CASE("threads that set bytes aside at the same time get no more than there are") {
  InstancePolicy policy({.budget_bytes = 70});
  std::atomic<int> got = 0;
  std::vector<std::thread> threads;
  std::vector<BudgetShare> shares(8);
  for (BudgetShare &share : shares)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i)
        share = policy.reserve(10 + i % 10);
      share.give_back();
      share = policy.reserve(20);
      got += share ? 1 : 0;
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(got <= 3);
  for (BudgetShare &share : shares)
    share.give_back();
  CHECK(policy.reserve(70));
}
