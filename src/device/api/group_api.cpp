// Groups of the C ABI, and what sessions have in them.
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "device/api/handles.h"

namespace cugrt::runtime::api {

namespace {

constexpr size_t kGroupOptionsBytes = CUGRT_SIZE_THROUGH(cugrt_group_options, budget_bytes);
constexpr uint32_t kMostAhead = 1024;
constexpr size_t kMemoryBytes = CUGRT_SIZE_THROUGH(cugrt_memory, budget_bytes);

Status hand_out(cugrt_memory filled, cugrt_memory *memory) {
  filled.device_bytes =
      filled.arena_bytes + filled.weight_bytes + filled.result_bytes + filled.buffer_bytes;
  return write_struct(filled, memory, "memory", kMemoryBytes);
}

Status group_create(cugrt_runtime *runtime, const cugrt_group_options *given, cugrt_group **group) {
  CUGRT_REQUIRE(runtime, group);
  CUGRT_ASSIGN(
      const cugrt_group_options options,
      read_struct(given, "cugrt_group_options", kGroupOptionsBytes, cugrt_group_options{}));
  CUGRT_TRY(runtime->device->require_driver());
  auto made = std::make_unique<cugrt_group>();
  if (options.low_priority_ahead > kMostAhead)
    return Status::error(Code::invalid_argument, "cugrt_group_options.low_priority_ahead is " +
                                                     std::to_string(options.low_priority_ahead) +
                                                     "; at most " + std::to_string(kMostAhead) +
                                                     " graphs can be counted");
  CUGRT_ASSIGN(made->group,
               Group::make(runtime->device, {options.budget_bytes, options.low_priority_ahead,
                                             options.instance_budget_bytes}));
  *group = made.release();
  return {};
}

void group_free(cugrt_group *group) { delete group; }

Status group_get_memory(cugrt_group *group, cugrt_memory *memory) {
  CUGRT_REQUIRE(group);
  const MemoryBudget &budget = *group->group->budget();
  cugrt_memory filled{};
  filled.arena_bytes = budget.held_bytes(HeldFor::arenas);
  filled.weight_bytes = budget.held_bytes(HeldFor::weights);
  filled.result_bytes = budget.held_bytes(HeldFor::results);
  filled.buffer_bytes = budget.held_bytes(HeldFor::buffers);
  if (const auto &instances = group->group->instances())
    filled.instance_bytes = instances->used;
  filled.budget_bytes = budget.limit_bytes();
  return hand_out(filled, memory);
}

Status group_set_budget(cugrt_group *group, uint64_t budget_bytes) {
  CUGRT_REQUIRE(group);
  const driver::Context &context = group->group->device().context();
  CUGRT_ASSIGN(driver::ContextGuard guard, context.enter());
  return group->group->budget()->set_limit(budget_bytes);
}

Status group_buffer_create(cugrt_group *group, uint64_t bytes, cugrt_buffer **buffer) {
  CUGRT_REQUIRE(group, buffer);
  const Group &shared = *group->group;
  auto made = std::make_unique<cugrt_buffer>();
  made->device = shared.device_owner();
  made->bytes = bytes;
  made->charge = BudgetCharge(shared.budget(), HeldFor::buffers);
  CUGRT_TRY(made->charge.raise_to(bytes));
  const driver::Context &context = shared.device().context();
  CUGRT_ASSIGN(driver::ContextGuard guard, context.enter());
  CUGRT_ASSIGN(made->device_memory, driver::DeviceBuffer::allocate(context, bytes));
  made->address = made->device_memory.address();
  *buffer = made.release();
  return {};
}

Status session_get_memory(cugrt_session *session, cugrt_memory *memory) {
  CUGRT_REQUIRE(session);
  CUGRT_ASSIGN(const Session::Totals totals, session->session->totals());
  cugrt_memory filled{};
  filled.arena_bytes = totals.arena_committed_bytes;
  filled.weight_bytes = totals.weight_bytes + totals.weight_bytes_in_place;
  filled.result_bytes = totals.result_bytes;
  filled.instance_bytes = totals.instance_bytes;
  if (const auto &group = session->session->group())
    filled.budget_bytes = group->budget()->limit_bytes();
  return hand_out(filled, memory);
}

Status session_evict(cugrt_session *session) {
  CUGRT_REQUIRE(session);
  return session->session->evict();
}

Status session_seal(cugrt_session *session) {
  CUGRT_REQUIRE(session);
  return session->session->seal();
}

Status hand_out(const DurationHistogram &times, cugrt_latency *latency) {
  const cugrt_latency filled{
      0, times.count(), times.quantile(500), times.quantile(990), times.quantile(999), times.max()};
  return write_struct(filled, latency, "latency", CUGRT_SIZE_THROUGH(cugrt_latency, max_ns));
}

Status sessions_get_latency(cugrt_session *const *sessions, size_t session_count,
                            cugrt_latency *host, cugrt_latency *device) {
  CUGRT_REQUIRE(sessions);
  auto times = std::make_unique<std::array<DurationHistogram, 2>>();
  for (size_t i = 0; i < session_count; ++i) {
    CUGRT_REQUIRE(sessions[i]);
    CUGRT_TRY(sessions[i]->session->add_latency((*times)[0], (*times)[1]));
  }
  if (host)
    CUGRT_TRY(hand_out((*times)[0], host));
  return device ? hand_out((*times)[1], device) : Status();
}

Status sessions_get_deadlines(cugrt_session *const *sessions, size_t session_count,
                              cugrt_latency *whole, uint64_t *missed) {
  CUGRT_REQUIRE(sessions);
  auto times = std::make_unique<DurationHistogram>();
  uint64_t late = 0;
  for (size_t i = 0; i < session_count; ++i) {
    CUGRT_REQUIRE(sessions[i]);
    CUGRT_TRY(sessions[i]->session->add_deadline(*times, late));
  }
  if (whole)
    CUGRT_TRY(hand_out(*times, whole));
  if (missed)
    *missed = late;
  return {};
}

Status session_is_resident(cugrt_session *session, int32_t *is_resident) {
  CUGRT_REQUIRE(session, is_resident);
  *is_resident = session->session->is_resident();
  return {};
}

} // namespace

void add_group_entries(cugrt_api &table) {
  set_entry<group_create>(table.group_create);
  table.group_free = group_free;
  set_entry<group_get_memory>(table.group_get_memory);
  set_entry<group_buffer_create>(table.group_buffer_create);
  set_entry<group_set_budget>(table.group_set_budget);
  set_entry<session_get_memory>(table.session_get_memory);
  set_entry<session_evict>(table.session_evict);
  set_entry<session_is_resident>(table.session_is_resident);
  set_entry<session_seal>(table.session_seal);
  set_entry<sessions_get_latency>(table.sessions_get_latency);
  set_entry<sessions_get_deadlines>(table.sessions_get_deadlines);
}

} // namespace cugrt::runtime::api
