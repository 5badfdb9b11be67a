/* A device's program: frames of a camera through a pack, with nothing but libcugrt-core.so. It
 * reports when something moves. The pack is made beforehand, on any machine:
 *
 *   cugrt compile --arch sm_87,compute_75 motion.cugrt -o motion.pack
 *   cc motion.c -o motion $(pkg-config --cflags --libs cugrt-core)
 *   ./motion motion.pack
 */
#include <cugrt/cugrt.h>

#include <stdio.h>
#include <string.h>

enum { HEIGHT = 120, WIDTH = 160, PIXELS = HEIGHT * WIDTH, FRAMES = 60, MOVES_AT = 40 };
enum { STATE_BYTES = PIXELS * sizeof(float) };

static const cugrt_api *api;

/* Every call answers NULL or a status that says what is wrong and where. */
static int failed(cugrt_status *status, const char *what) {
  if (!status)
    return 0;
  fprintf(stderr, "motion: %s: %s", what, api->status_message(status));
  if (*api->status_cuda_error(status))
    fprintf(stderr, " (%s)", api->status_cuda_error(status));
  fprintf(stderr, "\n");
  api->status_free(status);
  return 1;
}

/* In place of a camera: a grey ramp and, from frame MOVES_AT on, a bright square that wanders. */
static void take_frame(int number, unsigned char *frame) {
  for (int i = 0; i < PIXELS; ++i)
    frame[i] = (unsigned char)(i % WIDTH);
  for (int y = 0; number >= MOVES_AT && y < 40; ++y)
    memset(frame + (20 + y) * WIDTH + (number - MOVES_AT) * 6, 255, 40);
}

/* What is open, so that all of it is closed in one place. Every free takes NULL. */
struct device {
  cugrt_runtime *runtime;
  cugrt_pack *pack;
  cugrt_executable *executable;
  cugrt_session *session;
  cugrt_buffer *camera, *frame, *state; /* camera: pinned, where a driver would put frames */
  const cugrt_function *function;
};

static int open_device(struct device *d, const char *path) {
  cugrt_runtime_options runtime = CUGRT_INIT(cugrt_runtime_options);
  cugrt_session_options session = CUGRT_INIT(cugrt_session_options);
  session.strict = 1; /* all of it in graphs, or an error */
  if (failed(api->runtime_create(&runtime, &d->runtime), "driver") ||
      failed(api->pack_load(path, &d->pack), "pack") ||
      failed(api->executable_from_pack(d->runtime, d->pack, &d->executable), "pack") ||
      failed(api->executable_find_function(d->executable, "main", &d->function), "pack") ||
      failed(api->session_open(d->executable, d->runtime, &session, &d->session), "session"))
    return 0;
  cugrt_runtime *on = d->runtime;
  return !failed(api->buffer_create(on, CUGRT_MEMORY_PINNED, PIXELS, &d->camera), "memory") &&
         !failed(api->buffer_create(on, CUGRT_MEMORY_DEVICE, PIXELS, &d->frame), "memory") &&
         !failed(api->buffer_create(on, CUGRT_MEMORY_DEVICE, STATE_BYTES, &d->state), "memory") &&
         !failed(api->fill(on, api->buffer_address(d->state), 0, STATE_BYTES, NULL), "memory");
}

static void close_device(struct device *d) {
  api->session_free(d->session); /* waits for its work */
  api->buffer_free(d->state);
  api->buffer_free(d->frame);
  api->buffer_free(d->camera);
  api->executable_free(d->executable);
  api->pack_free(d->pack);
  api->runtime_free(d->runtime);
}

/* One frame: the background on the device is what the frames before have made of it. */
static int run_frame(struct device *d, int number, float *score) {
  cugrt_value arguments[2] = {{.kind = CUGRT_VALUE_TENSOR}, {.kind = CUGRT_VALUE_TENSOR}};
  cugrt_value result = {.kind = CUGRT_VALUE_NONE};
  cugrt_run_options run = CUGRT_INIT(cugrt_run_options);
  const uint64_t frame = api->buffer_address(d->frame), state = api->buffer_address(d->state);
  void *camera = api->buffer_host_pointer(d->camera);
  take_frame(number, camera);
  arguments[0].as.tensor = (cugrt_tensor){frame, CUGRT_U8, 2, {HEIGHT, WIDTH}};
  arguments[1].as.tensor = (cugrt_tensor){state, CUGRT_F32, 2, {HEIGHT, WIDTH}};
  run.arguments = arguments;
  run.argument_count = 2;
  run.results = &result;
  run.result_count = 1;
  if (failed(api->copy_to_device(d->runtime, frame, camera, PIXELS, NULL), "frame") ||
      failed(api->session_run(d->session, d->function, &run), "run") ||
      failed(api->session_synchronize(d->session), "run"))
    return 0;
  const uint64_t from = result.as.tensor.address;
  return !failed(api->copy_to_host(d->runtime, score, from, sizeof *score, NULL), "result");
}

int main(int argc, char **argv) {
  struct device d = {0};
  cugrt_counters counters = CUGRT_INIT(cugrt_counters);
  int moved = 0;
  if (argc != 2 || !(api = cugrt_get_api(CUGRT_API_VERSION))) {
    fprintf(stderr, "usage: motion FILE.pack, with a library of this header's version or newer\n");
    return 2;
  }
  int good = open_device(&d, argv[1]);
  for (int number = 0; good && number < FRAMES; ++number) {
    float score = 0;
    good = run_frame(&d, number, &score);
    if (good && number > 20 && score > 0.02f && !moved++)
      printf("frame %d: something moves, %.3f\n", number, score);
  }
  if (good && !failed(api->session_get_counters(d.session, &counters), "counters"))
    printf("%d frames, graphs built %llu, reused %llu\n", FRAMES,
           (unsigned long long)counters.regions_built, (unsigned long long)counters.regions_hit);
  close_device(&d);
  return good ? 0 : 1;
}
