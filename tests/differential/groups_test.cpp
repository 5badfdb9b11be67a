// Groups: sessions of several models with one budget, arenas that they use in turn, and weights
// that leave the device.
#include "group_nets.h"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

using namespace cugrt;
using namespace cugrt::test;

namespace {

/// By the driver's own count.
uint64_t free_bytes() {
  size_t free = 0, total = 0;
  REQUIRE(driver_call<CUresult (*)(size_t *, size_t *)>("cuMemGetInfo_v2")(&free, &total) ==
          CUDA_SUCCESS);
  return free;
}

} // namespace

TEST_CASE("models of one word have one arena, as large as the largest needs") {
  auto &[a, b, c] = nets();
  std::vector<uint64_t> alone;
  for (Net *net : {&a, &b, &c}) {
    Session session = net->open(nullptr);
    alone.push_back(session.memory().arena_bytes);
  }
  const uint64_t largest = *std::max_element(alone.begin(), alone.end());
  REQUIRE(largest > 0);

  Group group(emulated_runtime());
  Runner first(a, a.open(&group, "eyes"));
  CHECK(first.run(64, 1)); // leaves the device's context current, too
  const uint64_t before = free_bytes(), weights = group.memory().weight_bytes;
  Session second = c.open(&group, "eyes"), third = b.open(&group, "eyes");
  CHECK(group.memory().arena_bytes == largest);
  CHECK(second.memory().arena_bytes == alone[2]);
  CHECK(third.memory().arena_bytes == alone[1]);
  // Arenas and weights are all that the two sessions cost.
  CHECK(before - free_bytes() == largest - alone[0] + group.memory().weight_bytes - weights);

  Group apart(emulated_runtime());
  Session own = a.open(&apart), other = c.open(&apart);
  CHECK(apart.memory().arena_bytes == alone[0] + alone[2]);
}

/// Four threads, each with sessions of all three and a stream; results that are not as alone.
static int wrong_in_threads(std::array<Net *, 3> models, int rounds, uint32_t most_rows) {
  Group group(emulated_runtime());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (uint32_t t = 0; t < 4; ++t) {
    std::vector<Runner> runners;
    for (Net *net : models)
      runners.emplace_back(*net, net->open(&group, "eyes"));
    threads.emplace_back([&wrong, t, rounds, most_rows, runners = std::move(runners)]() mutable {
      Stream stream(emulated_runtime());
      uint32_t seed = 77 * (t + 1);
      for (int i = 0; i < rounds; ++i) {
        for (size_t r = 0; r < runners.size(); ++r) { // three are on their way at once
          seed = seed * 1664525u + 1013904223u;
          runners[(r + size_t(i)) % runners.size()].queue(1 + (seed >> 20) % most_rows, seed,
                                                          seed >> 31 ? stream.native() : nullptr);
        }
        for (Runner &runner : runners)
          wrong += !runner.is_right();
      }
    });
  }
  for (std::thread &thread : threads)
    thread.join();
  return wrong;
}

TEST_CASE("runs of one word follow each other, whatever threads, streams and shapes they have",
          "[word]") {
  auto &[a, b, c] = nets();
  // With a driver that forgets to wait (support/forgetful_driver.cpp) they do not.
  const char *driver = std::getenv("CUGRT_TEST_DRIVER");
  const bool forgets = driver && std::strstr(driver, "forgetful");
  CHECK((wrong_in_threads({&a, &b, &c}, 40, 64) != 0) == forgets);
}

TEST_CASE("ten thousand runs of one word are as alone", "[large]") {
  Net a(8, 24, 1), b(12, 16, 2), c(16, 40, 3);
  CHECK(wrong_in_threads({&a, &b, &c}, 834, 12) == 0);
}

TEST_CASE("a session of a word may end behind its last run") {
  auto &[a, b, c] = nets();
  Group group(emulated_runtime());
  Runner stays(a, a.open(&group, "eyes"));
  for (uint32_t i = 0; i < 4; ++i) {
    Runner ends(c, c.open(&group, "eyes"));
    stays.queue(64, i);
    ends.queue(64, i + 1);
    CHECK(stays.is_right());
    CHECK(ends.is_right());
    ends.queue(64, i + 2);
  }
  CHECK(stays.run(64, 9));
}

TEST_CASE("an arena that a larger model of the word moves is followed by the others") {
  auto &[a, b, c] = nets();
  Group group(emulated_runtime());
  Runner small(b, b.open(&group, "eyes"));
  CHECK(small.run(64, 5));
  small.queue(64, 6); // on its way while the arena moves
  Runner large(c, c.open(&group, "eyes"));
  CHECK(small.is_right());
  CHECK(large.run(64, 7));
  CHECK(small.run(64, 8));
  CHECK(small.run(3, 9));
}

TEST_CASE("weights leave and come back to where they were: nothing is built, nothing patched") {
  auto &[a, b, c] = nets();
  Group group(emulated_runtime());
  Runner runner(a, a.open(&group));
  std::optional<Runner> sharing(std::in_place, a, a.open(&group));
  for (int i = 0; i < 3; ++i)
    CHECK(runner.run(5, 11));
  CHECK(sharing->run(6, 12));
  const auto before = runner.session.counters();
  const uint64_t held = group.memory().device_bytes, free = free_bytes();
  CHECK(runner.session.is_resident());

  const uint64_t pinned = pinned_bytes();
  runner.session.evict();
  CHECK_FALSE(sharing->session.is_resident());
  CHECK(group.memory().weight_bytes == 0);
  CHECK(pinned_bytes() == pinned + a.weight_bytes()); // from where they return
  CHECK(held - group.memory().device_bytes >= a.weight_bytes());
  CHECK(free_bytes() - free == held - group.memory().device_bytes);
  runner.session.evict(); // there is nothing left to free

  CHECK(runner.run(5, 11));
  CHECK(runner.session.is_resident());
  CHECK(group.memory().device_bytes == held);
  const auto after = runner.session.counters();
  CHECK(after.regions_built == before.regions_built);
  CHECK(after.fields_patched == before.fields_patched);
  CHECK(sharing->run(6, 13));
  // New weights in their place are not those that the host has.
  sharing.reset();
  Net changed(a.width, a.wide, 77);
  runner.session.update_weights_in_place(changed.weights);
  runner.session.evict();
  runner.queue(5, 14);
  runner.session.synchronize();
  CHECK(download<float>(runner.output.address(), runner.x.size()) == changed.expected(runner.x, 5));
}

TEST_CASE("a budget is kept by weights of idle models that leave, and said when it is too small") {
  auto &[a, b, c] = nets();
  Group probe(emulated_runtime());
  uint64_t one = 0, two = 0;
  {
    Session session = a.open(&probe);
    one = probe.memory().device_bytes;
    Session other = b.open(&probe);
    two = probe.memory().device_bytes;
  }
  CHECK(probe.memory().device_bytes == 0);

  Group small(emulated_runtime(), 1000);
  const Error refused = error_of([&, &a = a] { a.open(&small); });
  CHECK(refused.code() == CUGRT_OUT_OF_DEVICE_MEMORY);
  CHECK(mentions(refused, "budget of 1000 bytes"));
  // What is said to fit does: arenas of 3 and 4 MiB in one word, weights of their own, results.
  Net wide(16, 12000, 4), wider(16, 16000, 5);
  const uint64_t buffer = uint64_t(1) << 40;
  uint64_t said = 0;
  for (uint64_t budget : {uint64_t(64) << 20, uint64_t(0)}) {
    Group group(emulated_runtime(), budget ? budget : said);
    std::vector<Runner> runners;
    for (auto [net, word] : {std::pair(&a, ""), {&wide, "w"}, {&b, ""}, {&wider, "w"}})
      runners.emplace_back(*net, net->open(&group, *word ? word : nullptr));
    if (budget) {
      const std::string text = error_of([&] { Buffer(group, buffer); }).what(), in = "fits in ";
      said = std::stoull(text.substr(text.find(in) + in.size())) - buffer;
      continue;
    }
    for (Runner &runner : runners) { // results in the session's own memory
      runner.fill(64, 1);
      runner.session.run(runner.net.main, std::vector<Value>{runner.input.tensor(
                                              CUGRT_F32, {64, runner.net.width})});
    }
    for (Runner &runner : runners)
      CHECK(runner.session.is_resident());
    CHECK(group.memory().device_bytes == said);
  }

  Group tight(emulated_runtime(), two - 1);
  Runner first(a, a.open(&tight));
  CHECK(first.run(4, 1));
  Runner second(b, b.open(&tight)); // for which the first one's weights leave
  CHECK_FALSE(first.session.is_resident());
  for (int i = 0; i < 4; ++i) {
    CHECK(second.run(4 + i, 2));
    CHECK(tight.memory().device_bytes < two);
    CHECK(first.run(4 + i, 3));
    CHECK(tight.memory().device_bytes < two);
  }
  CHECK(one < two);

  // Changed: raised, both stay; lowered, weights leave; below what cannot leave, it stays.
  tight.set_budget(0);
  CHECK((first.run(3, 4) && second.run(3, 4) && first.session.is_resident()));
  tight.set_budget(two - 1);
  CHECK(tight.memory().device_bytes < two);
  CHECK((second.run(5, 5) && first.run(5, 5)));
  CHECK(tight.memory().device_bytes < two);
  const Error below = error_of([&] { tight.set_budget(1000); });
  CHECK(below.code() == CUGRT_OUT_OF_DEVICE_MEMORY);
  CHECK(mentions(below, "budget of 1000 bytes is less than"));
  CHECK(tight.memory().budget_bytes == two - 1);
  CHECK((second.run(6, 6) && first.run(6, 6)));
}

TEST_CASE("weights are laid out in little more memory than they take in the end") {
  // y = x a + x b + .., of f16 weights that are turned, 1 MiB each, and one of 2 MiB.
  constexpr int64_t kCount = 12, kWidth = 512, kDepth = 1024;
  std::string text = "cugrt 1\nfunc @main(%x: tensor<[1, 1024], f16>", body, sum;
  std::vector<std::vector<uint16_t>> values;
  Weights weights;
  for (int64_t i = 0; i < kCount; ++i) {
    const int64_t width = i == 7 ? 2 * kWidth : kWidth;
    const std::string name = "w" + std::to_string(i), y = "%y" + std::to_string(i);
    text += ", %" + name + ": tensor<[1024, " + std::to_string(width) + "], f16>";
    body += "  " + y + " = matmul(%x, %" + name + ")\n";
    std::string term = y;
    if (i == 7) {
      body += "  %half = slice(" + y + ") {starts = [512], ends = [1024], axes = [1]}\n";
      term = "%half";
    }
    if (i > 0)
      body += "  %s" + std::to_string(i) + " = add(" + sum + ", " + term + ")\n";
    sum = i == 0 ? y : "%s" + std::to_string(i);
    // Row r has one 1, in column r / 2 of the columns that are used; the rest is 0.
    std::vector<uint16_t> w(size_t(kDepth * width));
    for (int64_t r = 0; r < kDepth; ++r)
      w[size_t(r * width + width - kWidth + (r / 2 + i) % kWidth)] = 0x3c00;
    values.push_back(std::move(w));
    weights.add(name, values.back().data(), CUGRT_F16, std::vector<int64_t>{kDepth, width});
  }
  Executable executable(emulated_runtime(),
                        Module::parse(text +
                                      ") -> (tensor<[1, 512], f16>)\n    attributes "
                                      "{num_inputs = 1} {\n" +
                                      body + "  return " + sum + "\n}\n"));
  constexpr uint64_t kHeld = uint64_t(kCount + 1) << 20;
  Group group(emulated_runtime(), kHeld + (4 << 20)); // memory comes in pages of 2 MiB
  auto options = detail::sized<cugrt_session_options>();
  options.group = group.get();
  Session session(executable, emulated_runtime(), weights, options);
  CHECK(group.memory().device_bytes >= kHeld);

  std::vector<uint16_t> x(kDepth); // 1 in the even places of the first eight
  for (size_t r = 0; r < 8; r += 2)
    x[r] = 0x3c00;
  Buffer input = upload(x);
  const auto results =
      session.run(executable.function("main"), {input.tensor(CUGRT_F16, {1, kDepth})});
  session.synchronize();
  const auto y = download<uint16_t>(results[0].as.tensor.address, kWidth);
  const uint16_t counts[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400}; // 0 to 4 as f16
  for (int64_t c = 0; c < kWidth; ++c) {
    int64_t count = 0;
    for (int64_t i = 0; i < kCount; ++i)
      for (int64_t r = 0; r < 8; r += 2)
        count += (r / 2 + i) % kWidth == c;
    CHECK(y[size_t(c)] == counts[count]);
  }
}

TEST_CASE("buffers of a group are in its budget, and weights leave for them") {
  Net &net = nets().a;
  cugrt_memory needs;
  {
    Group unlimited(emulated_runtime());
    Runner runner(net, net.open(&unlimited));
    CHECK(runner.run(1, 5));
    needs = unlimited.memory();
  }
  Group group(emulated_runtime(), needs.device_bytes + 4096);
  Runner runner(net, net.open(&group));
  CHECK(runner.run(1, 5));
  {
    Buffer whole(group, 4096 + needs.weight_bytes); // takes the place of the weights
    CHECK(group.memory().buffer_bytes == 4096 + needs.weight_bytes);
    CHECK(group.memory().weight_bytes == 0);
    CHECK(group.memory().device_bytes == group.memory().budget_bytes);
    CHECK_THROWS_WITH(Buffer(group, 1), Catch::Contains("no room for 1 bytes of a buffer") &&
                                            Catch::Contains(" of buffers"));
    CHECK_THROWS_WITH(runner.run(1, 6), Catch::Contains("bytes of weights"));
  }
  CHECK(group.memory().buffer_bytes == 0);
  CHECK(runner.run(1, 6));
  Buffer left;
  {
    Group ended(emulated_runtime(), 4096);
    left = Buffer(ended, 4096);
  }
  CHECK(left.bytes() == 4096);
}

TEST_CASE("words and groups that do not go together are refused") {
  auto &[a, b, c] = nets();
  auto options = detail::sized<cugrt_session_options>();
  options.exclusive = "eyes";
  CHECK(mentions(
      error_of([&, &a = a] { Session(a.executable, emulated_runtime(), a.weights, options); }),
      "give the group"));
  Group group(emulated_runtime());
  Session plain = a.open(&group);
  CHECK(mentions(error_of([&, &a = a] { a.open(&group, "eyes"); }), "'eyes' comes too late"));
  Session eyes = b.open(&group, "eyes");
  CHECK(mentions(error_of([&, &b = b] { b.open(&group, "ears"); }), "the word 'eyes'"));
  Runner same(b, b.open(&group)); // has the word of the first one
  CHECK(same.run(9, 4));
  CHECK(group.memory().arena_bytes ==
        plain.memory().arena_bytes + same.session.memory().arena_bytes);
  Runtime other(emulated_options());
  Group elsewhere(other);
  CHECK(mentions(error_of([&, &a = a] { a.open(&elsewhere); }), "of another runtime"));
  Session alone = a.open(nullptr);
  CHECK(alone.is_resident());
  CHECK(mentions(error_of([&] { alone.evict(); }), "sessions of a group"));
}

TEST_CASE("a group's sessions outlive its handle") {
  auto &[a, b, c] = nets();
  std::optional<Group> group(std::in_place, emulated_runtime());
  Runner runner(a, a.open(&*group, "eyes")), other(b, b.open(&*group, "eyes"));
  group.reset();
  CHECK(runner.run(7, 1));
  runner.session.evict();
  CHECK(other.run(7, 2));
  CHECK(runner.run(7, 3));
}

TEST_CASE("tensors that models have alike stand once, and each model is as it is alone") {
  Net one(32, 256, 1), twin(32, 256, 1), tuned(32, 256, 1), other(64, 96, 2);
  tuned.v = sparse(tuned.v.size(), 9);
  Weights own;
  own.add("u", tuned.u.data(), CUGRT_F32, std::vector<int64_t>{32, 256});
  own.add("v", tuned.v.data(), CUGRT_F32, std::vector<int64_t>{256, 32});
  tuned.weights = std::move(own);

  Group group(emulated_runtime());
  const uint64_t free = free_bytes();
  std::optional<Runner> first(std::in_place, one, one.open(&group));
  const uint64_t held = group.memory().weight_bytes, of_one = free - free_bytes();
  CHECK(held >= one.weight_bytes());
  Runner second(twin, twin.open(&group)), third(tuned, tuned.open(&group)),
      fourth(other, other.open(&group));
  const uint64_t granule = held;                            // of one reservation
  CHECK(group.memory().weight_bytes == held + 2 * granule); // v of the third, and all of the fourth
  CHECK(free - free_bytes() >= of_one);
  Group apart(emulated_runtime());
  {
    const Session alone = twin.open(&apart);
    CHECK(apart.memory().weight_bytes == held); // another group has its own
  }
  const auto all_right = [&](uint32_t seed) {
    for (int i = 0; i < 2; ++i)
      for (Runner *runner : {first ? &*first : nullptr, &second, &third, &fourth})
        if (runner)
          CHECK(runner->run(5, seed));
  };
  all_right(3);
  const auto before = second.session.counters();

  // What the first frees, its readers bring back; what a reader frees is its own.
  second.session.evict(); // has nothing of its own
  CHECK(first->session.is_resident());
  CHECK(group.memory().weight_bytes == held + 2 * granule);
  third.session.evict();
  CHECK_FALSE(third.session.is_resident());
  CHECK(first->session.is_resident());
  first->session.evict();
  for (const Runner *runner : {&*first, &second, &third})
    CHECK_FALSE(runner->session.is_resident());
  CHECK(fourth.session.is_resident());
  CHECK(group.memory().weight_bytes == granule);
  CHECK(second.run(5, 4));
  CHECK(first->session.is_resident());
  CHECK_FALSE(third.session.is_resident());
  all_right(5);
  const auto after = second.session.counters();
  CHECK(after.regions_built == before.regions_built);
  CHECK(after.fields_patched == before.fields_patched);

  // New weights of one leave the others'.
  const Weights old = one.weights.replaced(Weights());
  const std::vector<float> u = one.u;
  one.u = sparse(one.u.size(), 77);
  Weights changes;
  changes.add("u", one.u.data(), CUGRT_F32, std::vector<int64_t>{32, 256});
  first->session.update_weights(one.weights.replaced(changes));
  all_right(6);
  first->session.update_weights(old);
  one.u = u;
  all_right(7);

  // A base stays for who reads it, and goes with the last one.
  first.reset();
  all_right(8);
  third.session.evict();
  second.session.evict();
  CHECK_FALSE(second.session.is_resident());
  CHECK(group.memory().weight_bytes == granule); // of the fourth
  all_right(9);
}

/// y = x (2 u) v, and with a head y (3 u): what is in brackets is computed when weights are loaded.
struct Doubled {
  Doubled(const std::string &u_name, uint32_t u_seed, uint32_t v_seed, bool head = false)
      : u_name(u_name), u(sparse(32 * 256, u_seed)), v(sparse(256 * 32, v_seed)), head(head),
        executable(emulated_runtime(), Module::parse(text())), main(executable.function("main")),
        input(emulated_runtime(), 32 * sizeof(float)) {
    weights.add(u_name, u.data(), CUGRT_F32, std::vector<int64_t>{32, 256});
    weights.add("v", v.data(), CUGRT_F32, std::vector<int64_t>{256, 32});
  }
  std::string text() const {
    const std::string u = "%" + u_name, width = head ? "256" : "32";
    return "cugrt 1\nfunc @main(%x: tensor<[1, 32], f32>, " + u +
           ": tensor<[32, 256], f32>, %v: tensor<[256, 32], f32>) -> (tensor<[1, " + width +
           "], f32>)\n    attributes {num_inputs = 1} {\n  %two = add(" + u + ", " + u + ")\n" +
           (head ? "  %three = add(%two, " + u + ")\n" : "") +
           "  %p = matmul(%x, %two)\n  %q = matmul(%p, %v)\n" +
           (head ? "  %r = matmul(%q, %three)\n  return %r\n}\n" : "  return %q\n}\n");
  }
  void open(Group &group) {
    auto options = detail::sized<cugrt_session_options>();
    options.group = group.get();
    session.emplace(executable, emulated_runtime(), weights, options);
  }
  bool is_right(uint32_t seed) {
    const std::vector<float> x = sparse(32, seed);
    copy_to_device(emulated_runtime(), input.address(), std::as_bytes(std::span(x)));
    std::vector<float> y = Net::times(Net::times(x, u, 1, 32, 256), v, 1, 256, 32);
    if (head)
      y = Net::times(y, u, 1, 32, 256);
    for (float &value : y)
      value *= head ? 6 : 2;
    const auto results = session->run(main, {input.tensor(CUGRT_F32, {1, 32})});
    session->synchronize();
    return download<float>(results[0].as.tensor.address, y.size()) == y;
  }
  Weights with(uint32_t seed) { // other values of u
    u = sparse(u.size(), seed);
    Weights changes;
    changes.add(u_name, u.data(), CUGRT_F32, std::vector<int64_t>{32, 256});
    return weights.replaced(changes);
  }

  std::string u_name;
  std::vector<float> u, v;
  bool head;
  Executable executable;
  Function main;
  Weights weights;
  Buffer input;
  std::optional<Session> session;
};

TEST_CASE("what models compute alike from their weights stands once") {
  Doubled one("u", 1, 2), twin("other_name", 1, 2), tuned("u", 1, 5), headed("u", 1, 7, true),
      another("u", 9, 2);
  Group group(emulated_runtime());
  const auto held = [&] { return group.memory().weight_bytes; };
  const auto all_right = [&](uint32_t seed) {
    for (Doubled *model : {&one, &twin, &tuned, &headed, &another})
      if (model->session)
        CHECK(model->is_right(seed));
  };
  one.open(group);
  const uint64_t granule = held() / 2; // v apart from what is computed
  REQUIRE(granule != 0);
  twin.open(group);
  CHECK(held() == 2 * granule);
  tuned.open(group);
  CHECK(held() == 3 * granule); // its v
  headed.open(group);
  CHECK(held() == 5 * granule); // its v and 3 u
  another.open(group);
  CHECK(held() == 6 * granule); // its 2 u
  all_right(3);

  one.session->evict();
  CHECK_FALSE(twin.session->is_resident());
  CHECK_FALSE(headed.session->is_resident());
  CHECK(held() == 4 * granule); // what the others have of their own
  CHECK(headed.is_right(4));
  CHECK(one.session->is_resident());
  all_right(5);

  // New values of one are its own, and of its next recipe.
  one.session->update_weights(one.with(9));
  all_right(6);
  CHECK_THROWS_WITH(tuned.session->update_weights_in_place(tuned.with(9)),
                    Catch::Contains("lie in another model's"));
  tuned.u = sparse(tuned.u.size(), 1);
  twin.session.reset(), tuned.session.reset(), headed.session.reset(), one.session.reset();
  Doubled last("u", 21, 11); // shares nothing
  last.open(group);
  all_right(7);
  CHECK(last.is_right(8));
  last.session->update_weights_in_place(last.with(9)); // is computed as another one's
  CHECK(last.is_right(9));
  all_right(10);
}

TEST_CASE("models that share weights keep a budget, and leave when all of them are idle") {
  Net one(32, 256, 1), twin(32, 256, 1), other(64, 96, 2);
  Group probe(emulated_runtime());
  uint64_t two = 0;
  {
    Session a = one.open(&probe), b = twin.open(&probe);
    Runner c(other, other.open(&probe));
    CHECK(c.run(64, 1));
    two = probe.memory().device_bytes;
  }
  CHECK(probe.memory().device_bytes == 0);
  Group tight(emulated_runtime(), two - 1);
  Runner first(one, one.open(&tight)), second(twin, twin.open(&tight));
  CHECK(first.run(5, 1));
  CHECK(second.run(5, 2));
  Runner third(other, other.open(&tight)); // the base leaves for it
  CHECK(third.run(5, 3));
  CHECK_FALSE(second.session.is_resident());
  CHECK_FALSE(first.session.is_resident());
  for (uint32_t i = 0; i < 20; ++i) {
    CHECK(second.run(5, i));
    CHECK(first.run(5, i));
    CHECK(third.run(5, i));
    CHECK(tight.memory().device_bytes < two);
  }
}

TEST_CASE("models that share weights run, leave and are opened in several threads") {
  Net one(32, 256, 1), twin(32, 256, 1);
  Group group(emulated_runtime());
  Runner first(one, one.open(&group)), second(twin, twin.open(&group));
  std::atomic<bool> is_right = true;
  const auto run = [&](Runner &runner) {
    for (uint32_t i = 0; i < 50; ++i)
      try {
        is_right = runner.run(1 + i % 64, i) && is_right;
      } catch (const Error &error) {
        is_right = error.code() == CUGRT_BUSY && is_right;
      }
  };
  std::thread a(run, std::ref(first)), b(run, std::ref(second)), c([&] {
    for (int i = 0; i < 50; ++i)
      try {
        first.session.evict();
        const Session opened = twin.open(&group);
      } catch (const Error &error) {
        is_right = error.code() == CUGRT_BUSY && is_right;
      }
  });
  for (std::thread *thread : {&a, &b, &c})
    thread->join();
  CHECK(is_right);
  CHECK(first.run(5, 1));
  CHECK(second.run(5, 1));
}

TEST_CASE("new weights come where the budget does not hold them beside the old ones") {
  Net net(32, 256, 1);
  Group probe(emulated_runtime());
  uint64_t one = 0;
  {
    Runner alone(net, net.open(&probe)), beside(net, net.open(&probe));
    CHECK(alone.run(64, 1));
    CHECK(beside.run(64, 1));
    one = probe.memory().device_bytes;
  }
  Group tight(emulated_runtime(), one);
  Runner runner(net, net.open(&tight)), sharing(net, net.open(&tight));
  for (int i = 0; i < 3; ++i)
    CHECK(runner.run(64, 1));
  const auto before = runner.session.counters();
  const std::vector<float> old = net.u;
  net.u = sparse(net.u.size(), 77);
  Weights changes;
  changes.add("u", net.u.data(), CUGRT_F32, std::vector<int64_t>{32, 256});
  const Weights changed = net.weights.replaced(changes);
  runner.session.update_weights(changed);
  CHECK(runner.run(64, 2));
  CHECK(runner.session.counters().regions_built == before.regions_built);
  CHECK(tight.memory().device_bytes <= one);
  net.u = old;
  CHECK(sharing.run(3, 3)); // has the old ones, which leave and return in turn
  net.u = sparse(net.u.size(), 77);
  CHECK(runner.run(3, 4));
  sharing.session.update_weights(changed);
  CHECK(sharing.run(3, 5));
  CHECK(tight.memory().device_bytes <= one);
}
