/* A C99 program outside the tree: asks for a module's text to be parsed and prints what is wrong.
 */
#include <cugrt/cugrt.h>

#include <stdio.h>

int main(void) {
  const cugrt_api *api = cugrt_get_api(CUGRT_API_VERSION);
  static const char text[] = "no module";
  cugrt_module *module = NULL;
  cugrt_status *status;
  if (!api)
    return 2;
  status = api->module_parse(text, sizeof(text) - 1, "text", ".", &module);
  if (!status)
    return 3;
  printf("%s\n", api->status_message(status));
  api->status_free(status);
  return 0;
}
