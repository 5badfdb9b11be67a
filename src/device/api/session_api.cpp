// Sessions of the C ABI.
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "device/api/handles.h"

namespace cugrt::runtime::api {

namespace {

constexpr size_t kSessionOptionsBytes = CUGRT_SIZE_THROUGH(cugrt_session_options, eager);
constexpr uint64_t kMostDeadlineUs = uint64_t(3600) * 1'000'000;
constexpr size_t kRunBytes = CUGRT_SIZE_THROUGH(cugrt_run_options, use_default_stream);
constexpr size_t kCountersBytes = CUGRT_SIZE_THROUGH(cugrt_counters, result_bytes);
constexpr size_t kPrepareBytes = CUGRT_SIZE_THROUGH(cugrt_prepare_report, free_bytes);
constexpr size_t kAllocatorBytes = CUGRT_SIZE_THROUGH(cugrt_allocator, free);
constexpr size_t kCostsBytes = CUGRT_SIZE_THROUGH(cugrt_costs, patch_node_ns);
constexpr size_t kRecordBytes = CUGRT_SIZE_THROUGH(cugrt_launch_record, device_us);

cugrt_launch_record to_abi(const LaunchRecord &record) {
  cugrt_launch_record out{};
  out.sequence = record.sequence;
  out.run = record.run;
  out.kind = record.kind;
  out.reason = static_cast<int32_t>(record.reason);
  out.function = record.function->name.c_str();
  out.name = record.name->c_str();
  if (record.region != plan::kNone) {
    const std::vector<ir::SymbolId> &key = record.function->regions[record.region].key;
    out.key_size = static_cast<uint32_t>(key.size());
    for (size_t i = 0; i < std::min<size_t>(key.size(), CUGRT_MAX_KEY); ++i) {
      out.key_names[i] = record.function->symbols[key[i].index].name.c_str();
      out.key_values[i] = record.key[i];
      out.padded_from[i] = record.padded_from[i];
    }
  }
  out.nodes = record.nodes;
  out.edges = record.edges;
  out.fields_patched = record.fields_patched;
  out.begin_ns = record.begin_ns;
  out.host_ns = record.host_ns;
  out.build_ns = record.build_ns;
  out.patch_ns = record.patch_ns;
  out.launch_ns = record.launch_ns;
  out.device_us = record.device_us;
  return out;
}

Status session_open(cugrt_executable *executable, cugrt_runtime *runtime,
                    const cugrt_session_options *given, cugrt_session **session) {
  CUGRT_REQUIRE(executable, runtime, session);
  CUGRT_ASSIGN(
      cugrt_session_options options,
      read_struct(given, "cugrt_session_options", kSessionOptionsBytes, cugrt_session_options{}));
  SessionOptions session_options;
  if (options.weights)
    session_options.weights = &options.weights->set;
  if (options.frames > 1)
    return Status::error(Code::unsupported,
                         "a session has one arena: open two sessions of the executable, which "
                         "share code and weights, for runs that overlap");
  if (options.instance_budget_bytes)
    session_options.cache.policy.budget_bytes = options.instance_budget_bytes;
  session_options.cache.eager = options.eager != 0;
  session_options.cache.strict = options.strict != 0;
  session_options.log.capacity = options.record_capacity;
  session_options.log.time_steps = options.time_steps != 0;
  if (options.time_steps < 0 || options.time_steps > 2)
    return Status::error(Code::invalid_argument, "time_steps is " +
                                                     std::to_string(options.time_steps) +
                                                     "; it may be 0, 1 or 2");
  session_options.cache.instances.timed = options.time_steps == 2;
  CUGRT_ASSIGN(cugrt_costs costs,
               read_struct(options.costs, "cugrt_costs", kCostsBytes, cugrt_costs{}));
  InstanceCost &cost = session_options.cache.cost;
  cost.node_bytes = costs.node_bytes ? costs.node_bytes : cost.node_bytes;
  cost.instance_bytes = costs.instance_bytes ? costs.instance_bytes : cost.instance_bytes;
  cost.build_ns = costs.build_ns;
  cost.build_node_ns = costs.build_node_ns;
  cost.patch_node_ns = costs.patch_node_ns;
  if (options.costs && options.measure_costs)
    return Status::error(Code::invalid_argument,
                         "cugrt_session_options gives costs and asks to measure them");
  session_options.measure_costs = options.measure_costs != 0;
  if (options.priority < 0 || options.wait < CUGRT_WAIT_DEFAULT || options.wait > CUGRT_WAIT_BLOCK)
    return Status::error(Code::invalid_argument,
                         "of cugrt_session_options, priority is 0 or more and wait a cugrt_wait");
  session_options.priority = options.priority;
  session_options.wait = static_cast<cugrt_wait>(options.wait);
  session_options.measures_latency = options.measure_latency != 0;
  if ((options.missed && options.deadline_us == 0) || options.deadline_us > kMostDeadlineUs)
    return Status::error(Code::invalid_argument,
                         "of cugrt_session_options, missed needs a deadline_us, which is at most "
                         "an hour");
  session_options.deadline = {options.deadline_us * 1000, options.missed, options.missed_user};
  if (options.exclusive && (!options.group || !*options.exclusive))
    return Status::error(Code::invalid_argument,
                         "exclusive is a word of a group: give the group, and a word that is not "
                         "empty");
  if (options.group)
    session_options.group = options.group->group;
  session_options.word = options.exclusive ? options.exclusive : "";
  auto made = std::make_unique<cugrt_session>();
  made->data = executable->data;
  if (options.allocator) {
    CUGRT_ASSIGN(cugrt_allocator allocator, read_struct(options.allocator, "cugrt_allocator",
                                                        kAllocatorBytes, cugrt_allocator{}));
    if (!allocator.allocate || !allocator.free)
      return null_argument("allocator.allocate or allocator.free");
    session_options.allocator = std::make_shared<const cugrt_allocator>(allocator);
  }
  made->executable = executable->data->executable.get();
  CUGRT_ASSIGN(made->session,
               Session::open(executable->data->executable, runtime->device, session_options));
  *session = made.release();
  return {};
}

/// Guards itself, without set_entry(): every step of a decode loop takes this path.
cugrt_status *session_run(cugrt_session *session, const cugrt_function *function,
                          const cugrt_run_options *given) {
  return guarded([&]() -> Status {
    CUGRT_REQUIRE(session, function, given);
    if (function->executable != session->executable)
      return Status::error(Code::invalid_argument,
                           "the function is of another executable than the session");
    // Read in place.
    if (given->struct_size != sizeof *given) [[unlikely]] {
      auto checked = read_struct(given, "cugrt_run_options", kRunBytes, cugrt_run_options{});
      if (!checked.ok())
        return checked.take_status();
    }
    if ((given->argument_count && !given->arguments) || (given->result_count && !given->results))
      return null_argument("arguments or results");
    RunRequest request;
    request.arguments = {given->arguments, given->argument_count};
    request.results = {given->results, given->result_count};
    request.own_stream = !given->stream && !given->use_default_stream;
    request.stream = given->stream;
    return session->session->run(function->index, request);
  });
}

Status session_update_weights(cugrt_session *session, const cugrt_weights *weights) {
  CUGRT_REQUIRE(session, weights);
  return session->session->update_weights(weights->set);
}

Status session_update_weights_in_place(cugrt_session *session, const cugrt_weights *weights) {
  CUGRT_REQUIRE(session);
  CUGRT_REQUIRE(weights);
  return session->session->update_weights_in_place(weights->set);
}

Status session_synchronize(cugrt_session *session) {
  CUGRT_REQUIRE(session);
  return session->session->synchronize();
}

Status session_is_idle(cugrt_session *session, int32_t *is_idle) {
  CUGRT_REQUIRE(session, is_idle);
  CUGRT_ASSIGN(*is_idle, session->session->is_idle());
  return {};
}

Status session_get_counters(cugrt_session *session, cugrt_counters *counters) {
  CUGRT_REQUIRE(session);
  CUGRT_ASSIGN(Session::Totals totals, session->session->totals());
  cugrt_counters filled{};
  filled.runs = totals.counters.runs;
  filled.regions_built = totals.counters.regions_built;
  filled.regions_hit = totals.counters.regions_hit;
  filled.regions_patched = totals.counters.regions_patched;
  filled.regions_eager = totals.counters.regions_eager;
  filled.fields_patched = totals.counters.fields_patched;
  filled.eager_steps = totals.counters.eager_steps;
  filled.instances = totals.instances;
  filled.instances_evicted = totals.counters.instances_evicted;
  filled.largest_nodes = totals.counters.largest_nodes;
  filled.largest_edges = totals.counters.largest_edges;
  filled.instance_bytes = totals.instance_bytes;
  for (const plan::Arena &arena : session->executable->plan().arenas) {
    filled.arena_bytes += static_cast<uint64_t>(arena.bytes);
    filled.arena_lower_bound_bytes += static_cast<uint64_t>(arena.lower_bound_bytes);
    filled.arena_tensor_bytes += static_cast<uint64_t>(arena.tensor_bytes);
  }
  filled.weight_bytes = totals.weight_bytes;
  filled.weight_bytes_in_place = totals.weight_bytes_in_place;
  filled.result_bytes = totals.result_bytes;
#define CUGRT_EAGER_REASON(name, enumerator, text)                                                 \
  filled.eager_##name = totals.counters.eager[enumerator];
#include "device/graph/eager_reasons.def"
#undef CUGRT_EAGER_REASON
  filled.arena_committed_bytes = totals.arena_committed_bytes;
  filled.regions_prepared = totals.counters.regions_prepared;
  return write_struct(filled, counters, "counters", kCountersBytes);
}

Status session_read_launches(cugrt_session *session, cugrt_launch_record *records, size_t capacity,
                             size_t *count) {
  CUGRT_REQUIRE(session, count);
  if (capacity != 0) {
    CUGRT_REQUIRE(records);
    CUGRT_TRY(check_size("records[0]", records->struct_size, kRecordBytes));
  }
  std::vector<LaunchRecord> read(std::min(capacity, LaunchLog::kMaxCapacity));
  CUGRT_ASSIGN(size_t filled, session->session->read_launches(read));
  size_t stride = filled ? records->struct_size : 0;
  auto *to = reinterpret_cast<unsigned char *>(records);
  for (size_t i = 0; i < filled; ++i, to += stride) {
    cugrt_launch_record record = to_abi(read[i]);
    record.struct_size = stride;
    std::memcpy(to, &record, std::min(stride, sizeof record));
  }
  *count = filled;
  return {};
}

Status session_prepare(cugrt_session *session, const cugrt_function *function,
                       const cugrt_symbol_value *symbols, size_t symbol_count,
                       cugrt_prepare_report *out) {
  CUGRT_REQUIRE(session, function, symbols || !symbol_count);
  if (function->executable != session->executable)
    return Status::error(Code::invalid_argument,
                         "the function is of another executable than the session");
  CUGRT_ASSIGN(PrepareReport report,
               session->session->prepare(function->index, {symbols, symbol_count}));
  cugrt_prepare_report filled{};
  filled.regions = report.regions;
  filled.built = report.built;
  filled.present = report.present;
  filled.unknown = report.unknown;
  filled.refused = report.refused;
  filled.built_bytes = report.built_bytes;
  filled.reason = static_cast<int32_t>(report.reason);
  filled.region = report.region ? report.region->c_str() : nullptr;
  filled.needed_bytes = report.needed_bytes;
  filled.free_bytes = report.free_bytes;
  return write_struct(filled, out, "report", kPrepareBytes);
}

Status session_get_costs(cugrt_session *session, cugrt_costs *costs) {
  CUGRT_REQUIRE(session);
  const InstanceCost &cost = session->session->cost();
  cugrt_costs filled{0,
                     cost.node_bytes,
                     cost.instance_bytes,
                     cost.build_ns,
                     cost.build_node_ns,
                     cost.patch_node_ns};
  return write_struct(filled, costs, "costs", kCostsBytes);
}

void session_free(cugrt_session *session) { delete session; }

} // namespace

void add_session_entries(cugrt_api &table) {
  set_entry<session_open>(table.session_open);
  table.session_run = session_run;
  set_entry<session_synchronize>(table.session_synchronize);
  set_entry<session_update_weights>(table.session_update_weights);
  set_entry<session_update_weights_in_place>(table.session_update_weights_in_place);
  set_entry<session_is_idle>(table.session_is_idle);
  set_entry<session_get_counters>(table.session_get_counters);
  table.session_free = session_free;
  set_entry<session_read_launches>(table.session_read_launches);
  set_entry<session_prepare>(table.session_prepare);
  set_entry<session_get_costs>(table.session_get_costs);
}

} // namespace cugrt::runtime::api
