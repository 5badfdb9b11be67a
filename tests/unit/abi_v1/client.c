/* A client in C99, compiled against the header of the first release (cugrt.h in this folder, never
 * changed) and run against the library of today. Exit status 0 when everything is as it was then.
 *
 *   client EMULATED_DRIVER
 */
#include "cugrt.h"

#include <stdio.h>
#include <string.h>

static const cugrt_api *api;
static int failures;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "client.c:%d: %s does not hold\n", __LINE__, #condition);                    \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

/* Frees the status; 1 when it was a success. */
static int ok(cugrt_status *status) {
  if (!status)
    return 1;
  fprintf(stderr, "unexpected error: %s: %s\n", api->status_location(status),
          api->status_message(status));
  api->status_free(status);
  ++failures;
  return 0;
}

/* Frees the status; 1 when it has this code and a message. */
static int fails(cugrt_status *status, cugrt_code code) {
  int as_expected = status && api->status_code(status) == code && api->status_message(status)[0];
  api->status_free(status);
  return as_expected;
}

static const char text[] =
    "cugrt 1\n"
    "func @main(%x: tensor<[n, 2], f32>, %w: tensor<[2], f32>) -> (tensor<[n, 2], f32>)\n"
    "    attributes {num_inputs = 1, upper_bounds = {n = 8}} {\n"
    "  %r = relu(%x)\n"
    "  %y = add(%r, %w)\n"
    "  return %y\n"
    "}\n";

static void refuse_bad_calls(cugrt_runtime *runtime, cugrt_module *module) {
  cugrt_runtime *other = NULL;
  cugrt_runtime_options options = CUGRT_INIT(cugrt_runtime_options);
  cugrt_executable *executable = NULL;
  cugrt_compile_options compile = CUGRT_INIT(cugrt_compile_options);
  cugrt_module *broken = NULL;
  options.struct_size = 3;
  CHECK(fails(api->runtime_create(&options, &other), CUGRT_INVALID_ARGUMENT));
  CHECK(fails(api->runtime_create(NULL, NULL), CUGRT_INVALID_ARGUMENT));
  CHECK(fails(api->executable_compile(NULL, module, NULL, &executable), CUGRT_INVALID_ARGUMENT));
  CHECK(fails(api->executable_compile(runtime, NULL, NULL, &executable), CUGRT_INVALID_ARGUMENT));
  compile.struct_size = sizeof compile + 100000;
  CHECK(fails(api->executable_compile(runtime, module, &compile, &executable),
              CUGRT_INVALID_ARGUMENT));
  CHECK(fails(api->module_load("/nowhere/m.cugrt", &broken), CUGRT_IO_ERROR) ||
        fails(api->module_load("/nowhere/m.cugrt", &broken), CUGRT_NOT_FOUND));
  CHECK(fails(api->module_parse("cugrt 99\n", 9, "m", NULL, &broken), CUGRT_PARSE_ERROR));
  CHECK(fails(api->weights_load("/nowhere/w.safetensors", NULL), CUGRT_INVALID_ARGUMENT));
  CHECK(fails(api->session_synchronize(NULL), CUGRT_INVALID_ARGUMENT));
  CHECK(fails(api->status_create(CUGRT_BUSY, "taken"), CUGRT_BUSY));
  CHECK(other == NULL && executable == NULL && broken == NULL);
  api->module_free(NULL);
  api->session_free(NULL);
  api->runtime_free(NULL);
  api->status_free(NULL);
}

static cugrt_value tensor(uint64_t address, int64_t rows) {
  cugrt_value value;
  memset(&value, 0, sizeof value);
  value.kind = CUGRT_VALUE_TENSOR;
  value.as.tensor.address = address;
  value.as.tensor.dtype = CUGRT_F32;
  value.as.tensor.rank = 2;
  value.as.tensor.dims[0] = rows;
  value.as.tensor.dims[1] = 2;
  return value;
}

static void run_it(cugrt_runtime *runtime, cugrt_session *session, const cugrt_function *function) {
  const float x[6] = {-1, 2, 3, -4, 0, 6};
  const float expected[6] = {10, 22, 13, 20, 10, 26};
  float y[6];
  int i, pass;
  cugrt_buffer *input = NULL;
  cugrt_value argument, result;
  cugrt_run_options run = CUGRT_INIT(cugrt_run_options);
  cugrt_counters counters = CUGRT_INIT(cugrt_counters);
  if (!ok(api->buffer_create(runtime, CUGRT_MEMORY_DEVICE, sizeof x, &input)))
    return;
  ok(api->copy_to_device(runtime, api->buffer_address(input), x, sizeof x, NULL));
  argument = tensor(api->buffer_address(input), 3);
  memset(&result, 0, sizeof result);
  run.arguments = &argument;
  run.argument_count = 1;
  run.results = &result;
  run.result_count = 1;
  for (pass = 0; pass < 2; ++pass) {
    ok(api->session_run(session, function, &run));
    ok(api->session_synchronize(session));
    CHECK(result.kind == CUGRT_VALUE_TENSOR && result.as.tensor.dims[0] == 3);
    memset(y, 0, sizeof y);
    ok(api->copy_to_host(runtime, y, result.as.tensor.address, sizeof y, NULL));
    for (i = 0; i < 6; ++i)
      CHECK(y[i] == expected[i]);
  }
  argument = tensor(api->buffer_address(input), 9);
  CHECK(fails(api->session_run(session, function, &run), CUGRT_OUT_OF_RANGE));
  ok(api->session_get_counters(session, &counters));
  CHECK(counters.runs == 2 && counters.regions_built == 1 && counters.regions_hit == 1);
  api->buffer_free(input);
}

int main(int argc, char **argv) {
  const float w[2] = {10, 20};
  cugrt_runtime_options options = CUGRT_INIT(cugrt_runtime_options);
  cugrt_runtime_info info = CUGRT_INIT(cugrt_runtime_info);
  cugrt_session_options session_options = CUGRT_INIT(cugrt_session_options);
  cugrt_param_info param = CUGRT_INIT(cugrt_param_info);
  cugrt_runtime *runtime = NULL;
  cugrt_module *module = NULL;
  cugrt_weights *weights = NULL;
  cugrt_executable *executable = NULL;
  cugrt_session *session = NULL;
  const cugrt_function *function = NULL;
  cugrt_tensor weight;
  cugrt_text *printed = NULL;
  if (argc != 2)
    return 2;
  api = cugrt_get_api(CUGRT_API_VERSION);
  if (!api || api->struct_size < sizeof *api || cugrt_get_api(0) || cugrt_get_api(9999))
    return 3;
  options.driver = CUGRT_DRIVER_PATH;
  options.driver_path = argv[1];
  options.cache_folder = "off";
  if (!ok(api->runtime_create(&options, &runtime)) ||
      !ok(api->runtime_get_info(runtime, &info)) ||
      !ok(api->module_parse(text, sizeof text - 1, "client", NULL, &module)))
    return 1;
  CHECK(info.emulated == 1 && info.device_count == 1);
  refuse_bad_calls(runtime, module);
  ok(api->module_print(module, &printed));
  CHECK(strstr(api->text_data(printed), "relu") != NULL);
  api->text_free(printed);

  memset(&weight, 0, sizeof weight);
  weight.address = (uint64_t)(uintptr_t)w;
  weight.dtype = CUGRT_F32;
  weight.rank = 1;
  weight.dims[0] = 2;
  ok(api->weights_create(&weights));
  ok(api->weights_add(weights, "w", &weight));
  CHECK(fails(api->weights_add(weights, "w", &weight), CUGRT_INVALID_ARGUMENT));
  session_options.weights = weights;
  if (!ok(api->executable_compile(runtime, module, NULL, &executable)) ||
      !ok(api->executable_find_function(executable, "main", &function)) ||
      !ok(api->session_open(executable, runtime, &session_options, &session)))
    return 1;
  CHECK(fails(api->executable_find_function(executable, "other", &function), CUGRT_NOT_FOUND));
  CHECK(api->function_param_count(function) == 2);
  ok(api->function_param(function, 1, &param));
  CHECK(param.weight == 1 && param.rank == 1 && param.dims[0] == 2);
  ok(api->function_param(function, 0, &param));
  CHECK(strcmp(param.dim_names[0], "n") == 0 && param.dims[0] == 8);
  /* Handles keep what they were made from alive. */
  api->module_free(module);
  api->weights_free(weights);
  api->executable_free(executable);
  run_it(runtime, session, function);
  api->session_free(session);
  api->runtime_free(runtime);
  return failures != 0;
}
