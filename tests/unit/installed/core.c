/* A C99 program outside the tree, linked with the library for devices: every entry of the table is
 * there, and one that needs what this library lacks says so.
 */
#include <cugrt/cugrt.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const cugrt_api *api;
static int wrong;

static void expect_refusal(cugrt_status *status, const char *entry) {
  if (!status || api->status_code(status) != CUGRT_UNSUPPORTED ||
      !strstr(api->status_message(status), "libcugrt.so")) {
    fprintf(stderr, "%s is not refused: %s\n", entry, status ? api->status_message(status) : "ok");
    wrong = 1;
  }
  api->status_free(status);
}

int main(void) {
  cugrt_text *report = NULL;
  int32_t usable = 0;
  cugrt_status *status;
  size_t at = offsetof(cugrt_api, status_create);
  api = cugrt_get_api(CUGRT_API_VERSION);
  if (!api || api->struct_size != sizeof *api)
    return 2;
  for (; at < sizeof *api; at += sizeof(void *)) {
    static const char none[sizeof(void *)];
    if (memcmp((const char *)api + at, none, sizeof none) == 0) {
      fprintf(stderr, "the entry at byte %lu is null\n", (unsigned long)at);
      wrong = 1;
    }
  }
#define REFUSED(entry, arguments) expect_refusal(api->entry arguments, #entry)
  REFUSED(module_load, (NULL, NULL));
  REFUSED(module_parse, (NULL, 0, NULL, NULL, NULL));
  REFUSED(module_print, (NULL, NULL));
  REFUSED(module_run_passes, (NULL, NULL, 0, NULL, 0, NULL));
  REFUSED(module_plan_report, (NULL, NULL, NULL));
  REFUSED(module_import, (NULL, NULL, NULL));
  REFUSED(module_weights, (NULL, NULL));
  REFUSED(executable_compile, (NULL, NULL, NULL, NULL));
  REFUSED(pack_write, (NULL, NULL, NULL, NULL));
  REFUSED(pack_report, (NULL, NULL, NULL));
  REFUSED(session_graph_report, (NULL, CUGRT_REPORT_TEXT, NULL));
  REFUSED(function_key_difference, (NULL, NULL, 0, NULL, 0, CUGRT_REPORT_TEXT, NULL));
  REFUSED(cache_list, (NULL, CUGRT_REPORT_TEXT, NULL, NULL));
  REFUSED(cache_remove_broken, (NULL, NULL));
  REFUSED(cache_prune, (NULL, 0, NULL));
  REFUSED(cache_export, (NULL, NULL, NULL));
  api->module_free(NULL);
  if (api->module_input_name(NULL, 0) || api->module_result_name(NULL, 0))
    wrong = 1;
  if (api->pass_count() != 0 || api->pass_name(0) || api->pass_description(0))
    wrong = 1;
  status = api->doctor(NULL, CUGRT_REPORT_JSON, &report, &usable); /* its half of the device */
  if (status || !strstr(api->text_data(report), "\"driver\": {") ||
      strstr(api->text_data(report), "\"compiler\"")) {
    fprintf(stderr, "doctor: %s\n", status ? api->status_message(status) : api->text_data(report));
    wrong = 1;
  }
  api->status_free(status);
  api->text_free(report);
  return wrong;
}
