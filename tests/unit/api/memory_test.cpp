// Buffers, copies, streams, events and weights of the public API, on the emulated driver.
#include "support/api_fixture.h"

#include <numeric>

using namespace cugrt;
using namespace cugrt::test;

namespace {

std::vector<uint8_t> counting(size_t bytes) {
  std::vector<uint8_t> values(bytes);
  std::iota(values.begin(), values.end(), uint8_t{1});
  return values;
}

} // namespace

TEST_CASE("bytes travel to the device, on it, and back") {
  Runtime &runtime = emulated_runtime();
  const std::vector<uint8_t> bytes = counting(200);
  Buffer from = upload(bytes), to(runtime, 200);
  CHECK(from.bytes() == 200);
  CHECK(from.host_pointer() == nullptr);
  fill(runtime, to.address(), 0xab, 200);
  copy_on_device(runtime, to.address() + 10, from.address() + 50, 100);
  std::vector<uint8_t> expected(200, 0xab);
  std::copy_n(bytes.begin() + 50, 100, expected.begin() + 10);
  CHECK(download<uint8_t>(to.address(), 200) == expected);
}

TEST_CASE("pinned memory is one for host and device") {
  Runtime &runtime = emulated_runtime();
  Buffer pinned(runtime, 64, CUGRT_MEMORY_PINNED);
  REQUIRE(pinned.host_pointer());
  REQUIRE(pinned.address());
  const std::vector<uint8_t> bytes = counting(64);
  std::memcpy(pinned.host_pointer(), bytes.data(), 64);
  CHECK(download<uint8_t>(pinned.address(), 64) == bytes);
  fill(runtime, pinned.address(), 7, 64);
  CHECK(static_cast<uint8_t *>(pinned.host_pointer())[63] == 7);
}

TEST_CASE("buffers of no bytes are buffers") {
  Runtime &runtime = emulated_runtime();
  for (cugrt_memory_kind kind : {CUGRT_MEMORY_DEVICE, CUGRT_MEMORY_PINNED}) {
    Buffer empty(runtime, 0, kind);
    CHECK(empty.bytes() == 0);
    copy_to_host(runtime, {}, empty.address());
    fill(runtime, empty.address(), 1, 0);
  }
}

TEST_CASE("what cannot be allocated or reached is an error with the driver's name for it") {
  Runtime &runtime = emulated_runtime();
  Error large = error_of([&] { Buffer(runtime, UINT64_MAX); });
  CHECK(large.code() == CUGRT_OUT_OF_DEVICE_MEMORY);
  CHECK(large.cuda_error() == "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(error_of([&] { Buffer(runtime, 8, static_cast<cugrt_memory_kind>(9)); }).code() ==
        CUGRT_INVALID_ARGUMENT);
  Buffer small(runtime, 16);
  std::vector<std::byte> more(32);
  CHECK(error_of([&] { copy_to_host(runtime, more, small.address()); }).cuda_error() ==
        "CUDA_ERROR_INVALID_VALUE");
  CHECK(error_of([&] { fill(runtime, 1, 0, 4); }).cuda_error() == "CUDA_ERROR_INVALID_VALUE");
  // Of the host's memory, which a device that was not told of it does not reach, or of nothing.
  const uint64_t on_host = reinterpret_cast<uint64_t>(&large), nowhere = 4096;
  Buffer some(runtime, 8);
  for (const auto &ends : {std::pair{some.address(), on_host},
                           {some.address(), nowhere},
                           {on_host, some.address()},
                           {nowhere, some.address()}}) {
    Error error = error_of([&] { copy_on_device(runtime, ends.first, ends.second, 8); });
    CHECK(error.cuda_error() == "CUDA_ERROR_INVALID_VALUE");
  }
}

TEST_CASE("work of a stream is ordered, and an event orders two streams") {
  Runtime &runtime = emulated_runtime();
  Stream first(runtime), second(runtime);
  CHECK(first.native() != nullptr);
  CHECK(first.native() != second.native());
  const std::vector<uint8_t> bytes = counting(4096);
  Buffer source(runtime, 4096), middle(runtime, 4096), target(runtime, 4096);
  Event written(runtime), done(runtime);
  copy_to_device(runtime, source.address(), std::as_bytes(std::span(bytes)), &first);
  copy_on_device(runtime, middle.address(), source.address(), 4096, &first);
  written.record(first.native());
  written.stream_wait(second.native());
  copy_on_device(runtime, target.address(), middle.address(), 4096, &second);
  done.record(second.native());
  done.synchronize();
  CHECK(download<uint8_t>(target.address(), 4096) == bytes);
  CHECK(done.milliseconds_since(written) >= 0);
  first.synchronize();
  second.synchronize();
}

TEST_CASE("an event that was never recorded holds nothing back and has no time") {
  Runtime &runtime = emulated_runtime();
  Stream stream(runtime);
  Event never(runtime), once(runtime);
  never.stream_wait(stream.native());
  never.synchronize();
  once.record(stream.native());
  stream.synchronize();
  Error error = error_of([&] { (void)once.milliseconds_since(never); });
  CHECK(error.cuda_error() == "CUDA_ERROR_INVALID_HANDLE"); // cuda.h, cuEventElapsedTime
}

TEST_CASE("weights tell what they hold") {
  Weights weights;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  weights.add("w", values.data(), CUGRT_F32, std::vector<int64_t>{2, 3});
  weights.add("empty", nullptr, CUGRT_F16, std::vector<int64_t>{0});
  const char *name = nullptr;
  cugrt_tensor tensor{};
  REQUIRE(api().weights_count(weights.get()) == 2);
  check(api().weights_at(weights.get(), 0, &name, &tensor));
  CHECK(std::string(name) == "w");
  CHECK(tensor.dtype == CUGRT_F32);
  REQUIRE(tensor.rank == 2);
  CHECK((tensor.dims[0] == 2 && tensor.dims[1] == 3));
  CHECK(std::memcmp(reinterpret_cast<const void *>(tensor.address), values.data(), 24) == 0);
  CHECK(tensor.address != reinterpret_cast<uintptr_t>(values.data())); // copied
  CHECK(error_of([&] { check(api().weights_at(weights.get(), 2, &name, &tensor)); }).code() ==
        CUGRT_OUT_OF_RANGE);
  const auto owner = std::make_shared<const std::vector<float>>(values);
  weights.add_shared("v", owner->data(), CUGRT_F32, std::vector<int64_t>{6}, owner);
  check(api().weights_at(weights.get(), 2, &name, &tensor));
  CHECK(tensor.address == reinterpret_cast<uintptr_t>(owner->data())); // where it lies
  CHECK(owner.use_count() == 2);
  CHECK(error_of([&] {
          weights.add_shared("v", owner->data(), CUGRT_F32, std::vector<int64_t>{6}, owner);
        }).code() == CUGRT_INVALID_ARGUMENT);
  CHECK(owner.use_count() == 2); // what is refused keeps nothing
  CHECK(error_of([&] {
          weights.add("w", values.data(), CUGRT_F32, std::vector<int64_t>{1});
        }).code() == CUGRT_INVALID_ARGUMENT); // the name is taken
}

TEST_CASE("shared weights are not copied, and are released once, also where they are refused") {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  int released = 0;
  const auto release = [](void *user) { ++*static_cast<int *>(user); };
  const cugrt_tensor tensor = make_tensor(reinterpret_cast<uintptr_t>(values.data()), CUGRT_F32,
                                          std::vector<int64_t>{2, 3});
  {
    Weights weights;
    const auto add = [&] {
      check(api().weights_add_shared(weights.get(), "w", &tensor, release, &released));
    };
    add();
    CHECK(released == 0);
    CHECK(error_of(add).code() == CUGRT_INVALID_ARGUMENT); // the name is taken
    CHECK(released == 1);
    check(api().weights_add_shared(weights.get(), "v", &tensor, nullptr, nullptr));
    const char *name = nullptr;
    cugrt_tensor found{};
    check(api().weights_at(weights.get(), 0, &name, &found));
    CHECK(found.address == tensor.address);
  }
  CHECK(released == 2);
}
