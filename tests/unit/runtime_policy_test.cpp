// runtime: which instance serves a key.
#include "runtime_fixture.h"

#include "runtime/instance_policy.h"

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
                            [&](InstanceId id) { return last_use[id]; }};
    auto decision = policy.decide(full, topology, bytes, ask);
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
};

} // namespace

TEST_CASE("keys that come twice in the same order are all hits or builds, never thrash") {
  Cache cache({.budget_bytes = 1000, .class_pool = 4});
  std::vector<Kind> first, second, third;
  for (int64_t key = 1; key <= 6; ++key)
    first.push_back(cache.use(key));
  for (int64_t key = 1; key <= 6; ++key)
    second.push_back(cache.use(key));
  for (int64_t key = 1; key <= 6; ++key)
    third.push_back(cache.use(key));
  CHECK(first == std::vector<Kind>{Kind::build, Kind::build, Kind::build, Kind::build, Kind::patch,
                                   Kind::patch});
  // 5 and 6 took the instances of 1 and 2, which earn their own by coming again.
  CHECK(second ==
        std::vector<Kind>{Kind::build, Kind::build, Kind::use, Kind::use, Kind::use, Kind::use});
  CHECK(third == std::vector<Kind>(6, Kind::use));
}

TEST_CASE("a full budget patches an instance of the class, or gives up colder ones") {
  Cache cache({.budget_bytes = 20, .class_pool = 4});
  CHECK(cache.use(1) == Kind::build);
  CHECK(cache.use(2) == Kind::build);
  CHECK(cache.use(3) == Kind::patch); // new keys do not push others out
  CHECK(cache.use(3) == Kind::use);
  CHECK(cache.use(1) == Kind::build); // comes again: the coldest, key 2's, goes
  CHECK(cache.given_up == 1);
  CHECK(cache.policy.bytes() == 20);
}

TEST_CASE("what was used without the policy being asked counts as used") {
  Cache cache({.budget_bytes = 20, .class_pool = 4});
  CHECK(cache.use(1, 10, 0) == Kind::build);
  InstanceId hot = cache.last;
  CHECK(cache.use(1, 10, 1) == Kind::build);
  cache.last_use[hot] = ++cache.uses; // a launch that found its instance as it was
  CHECK(cache.use(1, 10, 2) == Kind::build);
  CHECK(cache.given_up == 1);
  CHECK(cache.last != hot);
  CHECK(cache.use(1, 10, 0) == Kind::use);
}

TEST_CASE("an instance that runs is never given up") {
  Cache cache({.budget_bytes = 10, .class_pool = 4});
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
    CHECK(cache.use(3, 11, 1) == Kind::eager); // giving up the only one frees 10
    CHECK(cache.use(3, 10, 1) == Kind::build); // in its place
    CHECK(cache.policy.bytes() == 10);
  }
  CHECK(cache.use(4) == Kind::build);
  CHECK(cache.use(5) == Kind::build);
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
