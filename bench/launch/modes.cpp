// Rounds over the modes; see modes.h.
#include "bench/launch/modes.h"

#include "device/driver/driver_error.h"
#include "device/graph/graph_instance.h"

#include <algorithm>
#include <malloc.h>

namespace cugrt::bench {
namespace {

constexpr size_t kManyNodes = 5000;
constexpr size_t kCalmCalls = 100;      // on the do-nothing driver: calls timed as one
constexpr size_t kMemoryNodes = 16'384; // instances are counted by so many nodes together
constexpr size_t kMostMemoryInstances = 64;

/// Bytes in use by malloc, in all its arenas.
double heap_in_use() {
  struct mallinfo2 info = mallinfo2();
  return double(info.uordblks) + double(info.hblkhd);
}

/// A graph made by hand or captured, with its instance.
struct Twin {
  driver::Graph::Handle graph;
  driver::GraphExec exec;
  std::vector<driver::GraphNode> nodes; // of one made by hand
};

class CaseMeasurement {
public:
  CaseMeasurement(const BenchDriver &driver, Subject &subject, const LaunchModule &module,
                  Subject::Shape small, Subject::Shape large)
      : driver_(driver), subject_(subject), module_(module),
        stream_(driver.stream.ref()), shapes_{std::move(small), std::move(large)} {
    figures_.node_count = shapes_[0].launches.node_count();
    figures_.edge_count = shapes_[0].launches.edge_count();
  }

  Result<CaseFigures> run(const CaseLimits &limits) {
    CUGRT_TRY(prepare());
    double start = now_us();
    while (figures_.rounds < limits.least_rounds ||
           (figures_.rounds < limits.most_rounds && now_us() - start < limits.seconds * 1e6)) {
      now_ = figures_.rounds % 2;
      CUGRT_TRY(round());
      ++figures_.rounds;
    }
    CUGRT_ASSIGN(runtime::Session::Totals totals, patched_->totals());
    if (totals.counters.regions_built != 1 || totals.counters.regions_eager != 0)
      return Status::error(Code::internal, "the patched session built or ran eagerly");
    if (driver_.kind != DriverClass::emulated)
      CUGRT_TRY(measure_memory());
    return std::move(figures_);
  }

private:
  ModeFigures &of(Mode mode) { return figures_.modes[static_cast<size_t>(mode)]; }
  Subject::Shape &shape() { return shapes_[now_]; }
  Status idle() const { return driver_.device->context().synchronize(); }

  /// What patched, recapture and rebuild switch from.
  Status prepare() {
    now_ = 1;
    CUGRT_ASSIGN(patched_, subject_.open(Instances::patched));
    CUGRT_TRY(subject_.run(*patched_, module_.shapes[now_]));
    CUGRT_TRY(capture_twin(recaptured_, nullptr));
    CUGRT_ASSIGN(rebuilt_, build_instance());
    CUGRT_TRY(make_twin(nullptr));
    return idle();
  }

  Status round() {
    CUGRT_TRY(plain());
    CUGRT_TRY(explicit_graph());
    CUGRT_TRY(captured(Mode::captured));
    CUGRT_TRY(patched());
    CUGRT_TRY(captured(Mode::recapture));
    return rebuild();
  }

  /// Times one call.
  template <class Call> Status once(Samples &samples, Call call) {
    CUGRT_TRY(idle());
    double start = now_us();
    CUGRT_TRY(call());
    samples.add(now_us() - start);
    return idle();
  }

  /// Times a call several times. On the do-nothing driver calls are shorter than the clock.
  template <class Call> Status repeat(Samples &samples, size_t calls, Call call) {
    size_t times = figures_.node_count > kManyNodes ? 2 : 5;
    size_t batch = driver_.kind == DriverClass::null ? std::max<size_t>(1, calls) : 1;
    for (size_t i = 0; i < times; ++i) {
      CUGRT_TRY(idle());
      double start = now_us();
      for (size_t j = 0; j < batch; ++j)
        CUGRT_TRY(call());
      samples.add((now_us() - start) / double(batch));
    }
    return idle();
  }

  /// Times a call on the device, on the bench's stream.
  template <class Call> Status on_device(Samples &samples, Call call) {
    if (driver_.kind != DriverClass::real)
      return {};
    CUGRT_TRY(idle());
    CUGRT_TRY(driver_.begin.record(stream_));
    CUGRT_TRY(call());
    CUGRT_TRY(driver_.end.record(stream_));
    CUGRT_TRY(driver_.end.synchronize());
    CUGRT_ASSIGN(float milliseconds, driver_.end.milliseconds_since(driver_.begin));
    samples.add(double(milliseconds) * 1e3);
    return {};
  }

  Status plain() {
    ModeFigures &figures = of(Mode::plain);
    auto pass = [&] { return shape().launches.launch(stream_); };
    CUGRT_TRY(once(figures.first, pass));
    CUGRT_TRY(repeat(figures.repeat, kCalmCalls / figures_.node_count, pass));
    return on_device(figures.device, pass);
  }

  Status explicit_graph() {
    ModeFigures &figures = of(Mode::explicit_graph);
    CUGRT_ASSIGN(auto session, subject_.open(Instances::own));
    auto run = [&] { return subject_.run(*session, module_.shapes[now_]); };
    CUGRT_TRY(once(figures.first, run));
    CUGRT_TRY(repeat(figures.repeat, kCalmCalls, run));
    CUGRT_TRY(make_twin(&figures));
    auto bare = [&] { return twin_.exec.launch(stream_, ""); };
    CUGRT_TRY(repeat(figures.bare, kCalmCalls, bare));
    return on_device(figures.device, bare);
  }

  Status patched() {
    ModeFigures &figures = of(Mode::patched);
    auto run = [&] { return subject_.run(*patched_, module_.shapes[now_]); };
    CUGRT_TRY(once(figures.first, run));
    CUGRT_TRY(repeat(figures.repeat, kCalmCalls, run));
    // The twin is at this round's shape and goes to the other one and back.
    for (const Subject::Shape *shape : {&shapes_[1 - now_], &shapes_[now_]})
      CUGRT_TRY(
          once(figures.set, [&] { return shape->launches.set_all(twin_.exec, twin_.nodes); }));
    auto bare = [&] { return twin_.exec.launch(stream_, ""); };
    CUGRT_TRY(repeat(figures.bare, kCalmCalls, bare));
    return on_device(figures.device, bare);
  }

  /// Of mode captured and recapture, which switches away from the last round's graph.
  Status captured(Mode mode) {
    ModeFigures &figures = of(mode);
    Twin fresh, &twin = mode == Mode::recapture ? recaptured_ : fresh;
    CUGRT_TRY(once(figures.first, [&]() -> Status {
      CUGRT_TRY(capture_twin(twin, &figures));
      return twin.exec.launch(stream_, "");
    }));
    auto bare = [&] { return twin.exec.launch(stream_, ""); };
    CUGRT_TRY(repeat(figures.repeat, kCalmCalls, bare));
    return on_device(figures.device, bare);
  }

  Status rebuild() {
    ModeFigures &figures = of(Mode::rebuild);
    CUGRT_TRY(once(figures.first, [&]() -> Status {
      rebuilt_.reset();
      CUGRT_ASSIGN(rebuilt_, build_instance());
      return rebuilt_->launch(stream_, "");
    }));
    auto bare = [&] { return rebuilt_->launch(stream_, ""); };
    CUGRT_TRY(repeat(figures.repeat, kCalmCalls, bare));
    CUGRT_TRY(make_twin(&figures));
    return on_device(figures.device, bare);
  }

  Result<std::unique_ptr<runtime::GraphInstance>> build_instance() {
    return runtime::GraphInstance::build(*shape().run, subject_.code(), shape().topology, stream_);
  }

  /// Replaces what `twin` holds; its parts are timed for `figures`.
  Status capture_twin(Twin &twin, ModeFigures *figures) {
    const driver::Context &context = driver_.device->context();
    twin = {};
    double start = now_us();
    CUGRT_TRY(driver_.capture.begin(stream_));
    Status launched = shape().launches.launch(stream_);
    auto graph = driver_.capture.end(stream_); // also after a failure: the stream stays usable
    CUGRT_TRY(std::move(launched));
    if (!graph.ok())
      return graph.take_status();
    double captured = now_us();
    twin.graph = driver::Graph::Handle(&context.api(), context.get(), *graph);
    return instantiate(twin, figures, captured - start);
  }

  /// The explicit twin, made through the driver's table alone: what each part of a build takes.
  Status make_twin(ModeFigures *figures) {
    twin_ = {};
    double start = now_us();
    const driver::Context &context = driver_.device->context();
    CUgraph graph = nullptr;
    CUGRT_DRIVER(context.api(), GraphCreate, (&graph, 0), "");
    twin_.graph = driver::Graph::Handle(&context.api(), context.get(), graph);
    driver::GraphRef ref(&context.api(), context.get(), graph);
    CUGRT_TRY(shape().launches.add_to(ref, twin_.nodes));
    return instantiate(twin_, figures, now_us() - start);
  }

  Status instantiate(Twin &twin, ModeFigures *figures, double add_us) {
    const driver::Context &context = driver_.device->context();
    double start = now_us();
    driver::GraphRef ref(&context.api(), context.get(), twin.graph.get());
    CUGRT_ASSIGN(twin.exec, driver::GraphExec::instantiate(ref, ""));
    double instantiated = now_us();
    CUGRT_TRY(twin.exec.upload(stream_));
    double uploaded = now_us();
    if (!figures)
      return {};
    figures->add.add(add_us);
    figures->instantiate.add(instantiated - start);
    figures->upload.add(uploaded - instantiated);
    return {};
  }

  /// Of instances that the runtime builds, several at once: memory is handed out in large pieces.
  Status measure_memory() {
    const driver::Context &context = driver_.device->context();
    size_t count = std::clamp<size_t>(kMemoryNodes / figures_.node_count, 1, kMostMemoryInstances);
    std::vector<std::unique_ptr<runtime::GraphInstance>> instances(count);
    CUGRT_TRY(idle());
    CUGRT_ASSIGN(auto before, context.memory());
    double heap_before = heap_in_use();
    for (auto &instance : instances) {
      CUGRT_ASSIGN(instance, build_instance());
    }
    CUGRT_TRY(idle());
    double heap_after = heap_in_use();
    CUGRT_ASSIGN(auto after, context.memory());
    for (Mode mode : {Mode::explicit_graph, Mode::patched, Mode::rebuild}) {
      of(mode).host_bytes = (heap_after - heap_before) / double(count);
      if (driver_.kind == DriverClass::real)
        of(mode).device_bytes =
            (double(before.free_bytes) - double(after.free_bytes)) / double(count);
    }
    return {};
  }

  const BenchDriver &driver_;
  Subject &subject_;
  const LaunchModule &module_;
  const driver::StreamRef stream_;
  std::array<Subject::Shape, 2> shapes_;
  size_t now_ = 0; // the shape of this round
  CaseFigures figures_;
  std::unique_ptr<runtime::Session> patched_;
  Twin twin_, recaptured_;
  std::unique_ptr<runtime::GraphInstance> rebuilt_;
};

} // namespace

Result<CaseFigures> measure_case(const BenchDriver &driver, const LaunchModule &module,
                                 const CaseLimits &limits) {
  CUGRT_ASSIGN(driver::ContextGuard guard, driver.device->context().enter());
  CUGRT_ASSIGN(std::unique_ptr<Subject> subject, Subject::make(driver, module.text));
  CUGRT_ASSIGN(Subject::Shape large, subject->shape(module.shapes[1]));
  CUGRT_ASSIGN(Subject::Shape small, subject->shape(module.shapes[0]));
  return CaseMeasurement(driver, *subject, module, std::move(small), std::move(large)).run(limits);
}

} // namespace cugrt::bench
