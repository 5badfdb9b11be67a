// Kernels of CUDA C++, compiled by NVRTC and executed as they are, against double-precision C++.
#include "support/emulated.h"

#include <cmath>

using namespace cugrt::test;

namespace {

const char *const kTargets[] = {"compute_75", "compute_80", "compute_90", "compute_100",
                                "compute_120"};

std::string_view profile_for(std::string_view target) {
  return target == "compute_75"    ? "sm_75"
         : target == "compute_80"  ? "sm_80"
         : target == "compute_90"  ? "sm_90"
         : target == "compute_100" ? "sm_100"
                                   : "sm_120";
}

void check_close(const std::vector<float> &got, const std::vector<double> &want, double tolerance) {
  REQUIRE(got.size() == want.size());
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double error = std::abs(got[i] - want[i]) / std::max(1.0, std::abs(want[i]));
    if (!(error <= worst)) {
      worst = error;
      at = i;
    }
  }
  INFO("element " << at << " is " << got[at] << " instead of " << want[at]);
  CHECK(worst <= tolerance);
}

} // namespace

TEST_CASE("vectors are added, with a tail that fills no warp") {
  for (const char *target : kTargets) {
    Emulated device(profile_for(target));
    device.load_cuda(R"(extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) c[i] = a[i] + b[i];
    })", target);
    int n = 1000;
    auto a = Random(1).floats(n), b = Random(2).floats(n);
    uint64_t pa = device.upload(a), pb = device.upload(b), pc = device.allocate(n * 4);
    device.launch("add", {8, 1, 1}, {128, 1, 1}, 0, pa, pb, pc, n);
    auto c = device.download<float>(pc, n);
    for (int i = 0; i < n; ++i)
      REQUIRE(c[i] == a[i] + b[i]);
  }
}
