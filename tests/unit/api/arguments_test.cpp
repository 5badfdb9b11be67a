// Every function of the C ABI called with nothing but nulls and zeros: refused in words, never a
// crash.
#include "support/catch.h"

#include <cugrt/cugrt.h>

#include <cstddef>
#include <string>
#include <type_traits>

namespace {

const cugrt_api &table() { return *cugrt_get_api(CUGRT_API_VERSION); }

/// Calls a function of the table with a null or zero for each argument.
template <class Result, class... Arguments> Result with_nulls(Result (*function)(Arguments...)) {
  return function(Arguments{}...);
}

size_t called;

/// Status functions refuse what they need and say which; the others answer "nothing".
template <class Result, class... Arguments>
void check_nulls(const char *name, Result (*function)(Arguments...)) {
  ++called;
  INFO(name);
  REQUIRE(function);
  if constexpr (std::is_void_v<Result>) {
    with_nulls(function);
  } else if constexpr (std::is_same_v<Result, cugrt_status *>) {
    cugrt_status *status = with_nulls(function);
    REQUIRE(status);
    CHECK(table().status_code(status) == CUGRT_INVALID_ARGUMENT);
    CHECK(std::string(table().status_message(status)).find("is null") != std::string::npos);
    table().status_free(status);
  } else if constexpr (std::is_same_v<Result, const char *>) {
    const char *text = with_nulls(function);
    REQUIRE(text);
    CHECK(std::string(text).empty());
  } else {
    CHECK(with_nulls(function) == Result{});
  }
}

#define CHECK_NULLS(member) check_nulls(#member, table().member)

} // namespace

TEST_CASE("no function of the C ABI takes a null badly") {
  called = 0;
  CHECK_NULLS(status_code);
  CHECK_NULLS(status_message);
  CHECK_NULLS(status_location);
  CHECK_NULLS(status_cuda_error);
  CHECK_NULLS(status_free);
  CHECK_NULLS(text_data);
  CHECK_NULLS(text_size);
  CHECK_NULLS(text_free);
  CHECK_NULLS(runtime_create);
  CHECK_NULLS(runtime_free);
  CHECK_NULLS(runtime_get_info);
  CHECK_NULLS(doctor);
  CHECK_NULLS(runtime_register_host_function);
  CHECK_NULLS(buffer_create);
  CHECK_NULLS(buffer_address);
  CHECK_NULLS(buffer_host_pointer);
  CHECK_NULLS(buffer_bytes);
  CHECK_NULLS(buffer_free);
  CHECK_NULLS(copy_to_device);
  CHECK_NULLS(copy_to_host);
  CHECK_NULLS(copy_on_device);
  CHECK_NULLS(fill);
  CHECK_NULLS(stream_create);
  CHECK_NULLS(stream_native);
  CHECK_NULLS(stream_synchronize);
  CHECK_NULLS(stream_free);
  CHECK_NULLS(event_create);
  CHECK_NULLS(event_record);
  CHECK_NULLS(event_synchronize);
  CHECK_NULLS(event_elapsed_milliseconds);
  CHECK_NULLS(event_free);
  CHECK_NULLS(event_stream_wait);
  CHECK_NULLS(module_load);
  CHECK_NULLS(module_parse);
  CHECK_NULLS(module_adopt);
  CHECK_NULLS(module_free);
  CHECK_NULLS(module_print);
  CHECK_NULLS(module_run_passes);
  CHECK_NULLS(module_plan_report);
  CHECK_NULLS(module_import);
  CHECK_NULLS(module_weights);
  CHECK_NULLS(module_link);
  CHECK_NULLS(weights_create);
  CHECK_NULLS(weights_load);
  CHECK_NULLS(weights_add);
  CHECK_NULLS(weights_add_shared);
  CHECK_NULLS(weights_count);
  CHECK_NULLS(weights_at);
  CHECK_NULLS(weights_save);
  CHECK_NULLS(weights_replace);
  CHECK_NULLS(weights_free);
  CHECK_NULLS(executable_compile);
  CHECK_NULLS(executable_free);
  CHECK_NULLS(executable_function_count);
  CHECK_NULLS(executable_function_at);
  CHECK_NULLS(executable_find_function);
  CHECK_NULLS(function_name);
  CHECK_NULLS(function_param_count);
  CHECK_NULLS(function_param);
  CHECK_NULLS(function_result_count);
  CHECK_NULLS(function_result);
  CHECK_NULLS(function_dims);
  CHECK_NULLS(function_symbol_count);
  CHECK_NULLS(function_key_difference);
  CHECK_NULLS(session_open);
  CHECK_NULLS(session_run);
  CHECK_NULLS(session_synchronize);
  CHECK_NULLS(session_update_weights);
  CHECK_NULLS(session_update_weights_in_place);
  CHECK_NULLS(session_is_idle);
  CHECK_NULLS(session_get_counters);
  CHECK_NULLS(session_graph_report);
  CHECK_NULLS(session_free);
  CHECK_NULLS(session_read_launches);
  CHECK_NULLS(session_prepare);
  CHECK_NULLS(session_get_costs);
  CHECK_NULLS(group_create);
  CHECK_NULLS(group_free);
  CHECK_NULLS(group_get_memory);
  CHECK_NULLS(group_buffer_create);
  CHECK_NULLS(group_set_budget);
  CHECK_NULLS(session_get_memory);
  CHECK_NULLS(session_evict);
  CHECK_NULLS(session_is_resident);
  CHECK_NULLS(session_seal);
  CHECK_NULLS(sessions_get_latency);
  CHECK_NULLS(sessions_get_deadlines);
  CHECK_NULLS(stream_create_with_priority);
  CHECK_NULLS(cache_list);
  CHECK_NULLS(pack_write);
  CHECK_NULLS(pack_load);
  CHECK_NULLS(pack_parse);
  CHECK_NULLS(pack_free);
  CHECK_NULLS(pack_report);
  CHECK_NULLS(pack_weights);
  CHECK_NULLS(executable_from_pack);
  CHECK_NULLS(cache_remove_broken);
  CHECK_NULLS(cache_prune);
  CHECK_NULLS(cache_export);
  const size_t others = 7; // in the next case
  const size_t listed = (sizeof(cugrt_api) - offsetof(cugrt_api, status_create)) / sizeof(void *);
  CHECK(called + others == listed); // a new function is listed above, or below
}

TEST_CASE("names beyond the last are null, and nothing is an error of code ok") {
  CHECK(with_nulls(table().status_create) == nullptr); // of CUGRT_OK
  CHECK(with_nulls(table().function_symbol_name) == nullptr);
  CHECK(with_nulls(table().module_input_name) == nullptr);
  CHECK(with_nulls(table().module_result_name) == nullptr);
  const size_t passes = table().pass_count();
  REQUIRE(passes > 0);
  CHECK_FALSE(std::string(table().pass_name(passes - 1)).empty());
  CHECK_FALSE(std::string(table().pass_description(passes - 1)).empty());
  CHECK(table().pass_name(passes) == nullptr);
  CHECK(table().pass_description(passes) == nullptr);
}
