// NonMaxSuppression: the boxes of an image and a class that are taken, the best first, each of
// which takes those away that it overlaps too much. Source: ONNX's definition; in float, as ONNX
// Runtime.
//
// boxes [images, n, 4], scores [images, classes, n] -> selected [images, classes, most]: positions
// of boxes, and -1 behind the last. gone [images * classes, n] is the kernel's own.
//
//   OVERLAP       what boxes may share at most, by what they cover together
//   LEAST_SCORE   not there: any score will do; else only larger ones
//   CENTERS       boxes are x, y, width, height; else two opposite corners y, x
//
// A block of 256 threads a class of an image. Of equal scores the first box wins. Options: those.
//
// Without a bench: no op becomes it: the importer of ONNX files declares it; a block a class.

struct Corners {
  float y0, x0, y1, x1;
};
__device__ __forceinline__ Corners corners(const float *box) {
#ifdef CENTERS
  return {box[1] - box[3] / 2, box[0] - box[2] / 2, box[1] + box[3] / 2, box[0] + box[2] / 2};
#else
  return {fminf(box[0], box[2]), fminf(box[1], box[3]), fmaxf(box[0], box[2]),
          fmaxf(box[1], box[3])};
#endif
}

__device__ __forceinline__ bool overlap(const Corners &a, const Corners &b) {
  const float high = fminf(a.y1, b.y1) - fmaxf(a.y0, b.y0),
              wide = fminf(a.x1, b.x1) - fmaxf(a.x0, b.x0);
  const float area_a = (a.y1 - a.y0) * (a.x1 - a.x0), area_b = (b.y1 - b.y0) * (b.x1 - b.x0);
  if (high <= 0 || wide <= 0 || area_a <= 0 || area_b <= 0)
    return false;
  return high * wide / (area_a + area_b - high * wide) > OVERLAP;
}

extern "C" __global__ void __launch_bounds__(256, 4)
    nms(const float *__restrict__ boxes, const float *__restrict__ scores,
        long long *__restrict__ selected, unsigned char *__restrict__ gone, long long classes,
        long long n, long long most, long long blocks) {
  __shared__ float best_score[256];
  __shared__ long long best[256];
  boxes += blockIdx.x / classes * n * 4;
  scores += blockIdx.x * n;
  selected += blockIdx.x * most;
  gone += blockIdx.x * n;
  for (long long i = threadIdx.x; i < n; i += 256)
#ifdef LEAST_SCORE
    gone[i] = !(scores[i] > LEAST_SCORE);
#else
    gone[i] = 0;
#endif
  long long taken = 0;
  for (; taken < most; ++taken) {
    long long own = -1; // threads look at their own boxes only, also when they take them away
    float score = 0;
    for (long long i = threadIdx.x; i < n; i += 256)
      if (!gone[i] && (own < 0 || scores[i] > score))
        own = i, score = scores[i];
    best[threadIdx.x] = own;
    best_score[threadIdx.x] = score;
    for (int half = 128; half > 0; half /= 2) {
      __syncthreads();
      const int t = threadIdx.x, other = t + half;
      if (t < half && best[other] >= 0 &&
          (best[t] < 0 || best_score[other] > best_score[t] ||
           (best_score[other] == best_score[t] && best[other] < best[t])))
        best[t] = best[other], best_score[t] = best_score[other];
    }
    __syncthreads();
    const long long winner = best[0];
    __syncthreads(); // before the next turn writes there
    if (winner < 0)
      break;
    if (threadIdx.x == 0)
      selected[taken] = winner;
    const Corners box = corners(boxes + winner * 4);
    for (long long i = threadIdx.x; i < n; i += 256)
      if (i == winner || (!gone[i] && overlap(box, corners(boxes + i * 4))))
        gone[i] = 1;
  }
  for (long long i = taken + threadIdx.x; i < most; i += 256)
    selected[i] = -1;
}
