// runtime: callers' streams: a session touches one while a run on it is being queued, and not
// later.
#include "chain.h"

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

namespace {

/// A session with a stream of its caller's. The end of a capture says whether any call but the
/// question whether it goes on was made on the stream.
struct Caller : Chain {
  Caller() : stream(must(driver::Stream::create(device->context()))) {}

  Status run_on(CUstream on, int y = 1, int64_t n = 5) {
    cugrt_value arguments[] = {tensor(memory[0].address(), {n, 4}), floating(1)};
    cugrt_value result = y < 0 ? cugrt_value{} : tensor(memory[y].address(), {n, 4});
    RunRequest request;
    request.arguments = arguments;
    request.results = {&result, 1};
    request.own_stream = on == nullptr;
    request.stream = on;
    return session->run(0, request);
  }
  void capture(bool on = true) { machine.fake.set_capturing(stream.get(), on); }
  size_t count(const char *entry) { return machine.fake.count(entry); }

  driver::Stream stream;
};

} // namespace

TEST_CASE("a run on a caller's stream leaves an event behind it, and a later one waits for that") {
  Caller caller;
  must(caller.run_on(caller.stream.get()));
  caller.machine.fake.forget();
  must(caller.run_on(caller.stream.get()));
  CHECK(caller.count("cuEventRecord") == 1);
  CHECK(caller.count("cuStreamWaitEvent") == 0);
  // Whatever the caller queues now stands behind the event.
  must(caller.run_on(nullptr));
  CHECK(caller.count("cuEventRecord") == 1);
  CHECK(caller.count("cuStreamWaitEvent") == 1);
  must(caller.run_on(nullptr));
  CHECK(caller.count("cuEventRecord") == 1);
}

TEST_CASE("runs on the stream of each thread wait for each other") {
  Caller caller;
  must(caller.run_on(CU_STREAM_PER_THREAD));
  caller.machine.fake.forget();
  must(caller.run_on(CU_STREAM_PER_THREAD)); // the name says nothing of which stream it is
  CHECK(caller.count("cuStreamWaitEvent") == 1);
}

TEST_CASE("a stream that cannot be recorded on is refused before anything is launched") {
  Caller caller;
  must(caller.run_on(nullptr));
  caller.machine.fake.forget();
  caller.machine.fake.fail_nth_of("cuEventRecord", 1, CUDA_ERROR_INVALID_HANDLE);
  const Status status = caller.run_on(caller.stream.get());
  CHECK(contains(status.message(), "a stream of another context cannot be used"));
  CHECK(status.cuda_error() == "CUDA_ERROR_INVALID_HANDLE");
  CHECK(caller.count("cuGraphLaunch") == 0);
  caller.machine.fake.forget();
  must(caller.run_on(caller.stream.get()));
  CHECK(caller.count("cuGraphLaunch") == 1);
}

TEST_CASE(
    "a caller captures its stream right after a run: the session's later calls leave it alone") {
  Caller caller;
  driver::Stream other = must(driver::Stream::create(caller.device->context()));
  for (CUstream next : {CUstream(nullptr), other.get()}) {
    must(caller.run_on(caller.stream.get()));
    caller.capture();
    must(caller.run_on(next));
    CHECK(contains(caller.run_on(caller.stream.get()).message(), "is being captured"));
    caller.capture(false);
  }
  must(caller.run_on(caller.stream.get()));
  caller.capture();
  caller.machine.fake.forget();
  must(caller.session->synchronize());
  CHECK(caller.count("cuEventSynchronize") == 1);
  CHECK(caller.count("cuStreamSynchronize") == 0);
  caller.capture(false);
  must(caller.run_on(caller.stream.get()));
  caller.capture();
  caller.machine.fake.forget();
  caller.session.reset();
  CHECK(caller.count("cuEventSynchronize") == 1);
  CHECK(caller.count("cuStreamSynchronize") == 0);
  caller.capture(false);
}

TEST_CASE(
    "the first run on a stream that is being captured is refused before it allocates or copies") {
  Caller caller;
  caller.capture();
  caller.machine.fake.forget();
  const size_t allocated = caller.machine.fake.live().allocations;
  CHECK(contains(caller.run_on(caller.stream.get(), -1).message(), "is being captured"));
  CHECK(caller.machine.fake.live().allocations == allocated);
  caller.capture(false);
  must(caller.run_on(caller.stream.get(), -1));
  CHECK(caller.machine.fake.live().allocations == allocated + 1);
}

TEST_CASE("instances are given up while the stream of the last run is being captured") {
  Caller caller;
  must(caller.run_on(caller.stream.get()));
  caller.capture();
  caller.machine.fake.fail_nth_of("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  must(caller.run_on(nullptr, -1, 64)); // memory for the result
  CHECK(caller.counters().instances_evicted == 1);
  caller.capture(false);
}

TEST_CASE("a run whose end cannot be recorded has ended, and is an error") {
  Caller caller;
  must(caller.run_on(caller.stream.get()));
  caller.machine.fake.forget();
  caller.machine.fake.fail_nth_of("cuEventRecord", 1, CUDA_ERROR_INVALID_VALUE);
  CHECK(caller.run_on(caller.stream.get()).cuda_error() == "CUDA_ERROR_INVALID_VALUE");
  CHECK(caller.count("cuStreamSynchronize") == 1);
  caller.capture();
  must(caller.run_on(nullptr));
  CHECK(caller.count("cuStreamWaitEvent") == 0);
  caller.capture(false);
}
