// See bench_main.h.
#include "bench/support/bench_main.h"

namespace cugrt::bench {

Status show(const std::vector<Row> &rows, const std::optional<std::string> &json,
            const std::vector<Row> *shown) {
  fputs(table(shown ? *shown : rows).c_str(), stdout);
  return json ? write_json(*json, rows) : Status();
}

int exit_status(const char *name, const Status &status) {
  if (status.ok())
    return 0;
  fprintf(stderr, "bench %s: %s\n", name, status.to_string().c_str());
  return 1;
}

} // namespace cugrt::bench
