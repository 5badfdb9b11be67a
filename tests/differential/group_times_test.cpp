// Sessions of a group in time: deadlines, and how much of low priority may be on its way.
#include "group_nets.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

using namespace cugrt;
using namespace cugrt::test;

namespace {

struct Missed {
  static void note(void *user, const cugrt_missed_run *run) {
    auto &self = *static_cast<Missed *>(user);
    std::lock_guard lock(self.mutex);
    self.runs.push_back(*run);
    self.other_thread = self.other_thread && std::this_thread::get_id() != self.owner;
  }
  std::thread::id owner = std::this_thread::get_id();
  std::mutex mutex;
  std::vector<cugrt_missed_run> runs;
  bool other_thread = true;
};

cugrt_session_options with_deadline(uint64_t us, Missed *missed) {
  auto options = detail::sized<cugrt_session_options>();
  options.deadline_us = us;
  options.missed = missed ? Missed::note : nullptr;
  options.missed_user = missed;
  return options;
}

Runner runner_of(Net &net, cugrt_session_options options) {
  return Runner(net, Session(net.executable, emulated_runtime(), net.weights, options));
}

} // namespace

TEST_CASE("every late run is told once, in order, with its times") {
  auto &[a, b, c] = nets();
  Missed missed;
  Runner runner = runner_of(a, with_deadline(1, &missed)); // which no run keeps
  Stream stream(emulated_runtime());
  constexpr uint64_t kRuns = 60;
  for (uint32_t i = 0; i < kRuns; ++i) {
    if (i % 5 == 0)
      runner.fill(1 + i % 64, i);
    runner.launch(i % 3 ? nullptr : stream.native());
    if (i % 5 == 4)
      CHECK(runner.is_right());
  }
  CHECK(runner.session.missed_deadlines() == kRuns);
  const cugrt_latency whole = runner.session.whole_latency();
  REQUIRE(missed.runs.size() == kRuns);
  CHECK(missed.other_thread);
  std::vector<uint64_t> took;
  for (uint64_t i = 0; i < kRuns; ++i) {
    const cugrt_missed_run &run = missed.runs[i];
    CHECK(run.struct_size == sizeof run);
    CHECK(run.run == i);
    CHECK(run.deadline_ns == 1000);
    CHECK(run.took_ns > run.deadline_ns);
    CHECK((i == 0 || run.begin_ns > missed.runs[i - 1].begin_ns));
    took.push_back(run.took_ns);
  }
  // The histogram is that of these runs, up to a 32nd.
  std::sort(took.begin(), took.end());
  auto is_close = [&](uint64_t told, uint64_t thousandths) {
    const uint64_t exact = took[(kRuns * thousandths + 999) / 1000 - 1];
    return told >= exact && told <= exact + exact / 32;
  };
  CHECK(whole.count == kRuns);
  CHECK(is_close(whole.p50_ns, 500));
  CHECK(is_close(whole.p99_ns, 990));
  CHECK(is_close(whole.p999_ns, 999));
  CHECK(whole.max_ns == took.back());
}

TEST_CASE("runs that keep their deadline are not told, and failing ones are not counted") {
  auto &[a, b, c] = nets();
  Missed missed;
  Runner runner = runner_of(b, with_deadline(uint64_t(3600) * 1000000, &missed));
  for (uint32_t i = 0; i < 5; ++i)
    CHECK(runner.run(7, i));
  CHECK_THROWS(runner.session.run(b.main, std::vector<Value>{}));
  CHECK(runner.session.missed_deadlines() == 0);
  CHECK(runner.session.whole_latency().count == 5);
  CHECK(runner.session.host_latency().count == 5);
  CHECK(missed.runs.empty());
}

TEST_CASE("deadlines that make no sense are refused") {
  auto &[a, b, c] = nets();
  Missed missed;
  CHECK(
      mentions(error_of([&, &a = a] { runner_of(a, with_deadline(0, &missed)); }), "deadline_us"));
  CHECK(mentions(error_of([&, &a = a] { runner_of(a, with_deadline(UINT64_MAX, nullptr)); }),
                 "at most an hour"));
  Session plain = a.open(nullptr);
  CHECK(mentions(error_of([&] { plain.missed_deadlines(); }), "no deadline"));
  CHECK(mentions(error_of([] { Group(emulated_runtime(), 0, 1025); }), "low_priority_ahead"));
}

TEST_CASE("with one graph ahead, one of low priority has ended when the next is on its way") {
  auto &[a, b, c] = nets();
  Group group(emulated_runtime(), 0, 1);
  Runner first(a, a.open(&group)), second(b, b.open(&group, "eyes"));
  auto options = detail::sized<cugrt_session_options>();
  options.group = group.get();
  options.priority = 1;
  options.exclusive = "eyes";
  Runner urgent = runner_of(c, options);
  Stream stream(emulated_runtime());
  for (uint32_t i = 0; i < 6; ++i) {
    first.queue(64, i, i % 2 ? stream.native() : nullptr);
    urgent.queue(9, i);
    second.queue(3, i);
    CHECK(first.session.is_idle());
    CHECK(urgent.is_right());
    CHECK(first.is_right());
    CHECK(second.is_right());
  }
}

TEST_CASE("threads whose graphs are counted together all go on") {
  auto &[a, b, c] = nets();
  Group group(emulated_runtime(), 0, 2);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (Net *net : {&a, &b, &c})
    threads.emplace_back([&, runner = Runner(*net, net->open(&group))]() mutable {
      for (uint32_t i = 0; i < 6; ++i) {
        runner.queue(1 + i, i);
        wrong += !runner.is_right();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(wrong == 0);
}
