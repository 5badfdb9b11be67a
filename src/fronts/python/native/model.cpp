#include "model.h"

#include "errors.h"

#include <algorithm>

namespace cugrt::python {

static Slot slot_of(const cugrt_param_info &declared, std::string name, size_t index) {
  nb::object key = nb::steal(PyUnicode_InternFromString(name.c_str()));
  if (!key.is_valid()) {
    PyErr_Clear();
    fail(CUGRT_UNSUPPORTED,
         "the name of an input or output is no UTF-8: '" + text_of(shown(name)) + "'");
  }
  return {std::move(name), std::move(key), declared, index};
}

static FunctionInfo describe(Function function, const std::vector<std::string> &input_names,
                             const std::vector<std::string> &result_names) {
  FunctionInfo info;
  info.function = function.get();
  info.name = function.name();
  for (size_t i = 0; i < function.param_count(); ++i) {
    const cugrt_param_info declared = function.param(i);
    if (declared.weight)
      continue;
    const size_t number = info.params.size();
    info.params.push_back(
        slot_of(declared, number < input_names.size() ? input_names[number] : declared.name, i));
  }
  info.run_results = function.result_count();
  for (size_t i = 0; i < info.run_results; ++i) {
    const cugrt_param_info declared = function.result(i);
    if (declared.is_count)
      continue;
    std::string name = declared.name ? declared.name : "";
    if (i < result_names.size())
      name = result_names[i];
    info.results.push_back(
        slot_of(declared, name.empty() ? "result" + std::to_string(i) : name, i));
  }
  return info;
}

Model::Model(Source source, Executable executable)
    : source_(std::move(source)), executable_(std::move(executable)) {
  for (size_t i = 0; i < executable_->function_count(); ++i) {
    const Function function = executable_->function(i);
    const bool is_main = function.name() == "main";
    const std::vector<std::string> none;
    functions_.push_back(describe(function, is_main ? source_.input_names : none,
                                  is_main ? source_.result_names : none));
  }
  nb::gil_scoped_release released;
  sessions_.push_back(open_session(0));
  idle_.push_back(sessions_.back().get());
}

Model::~Model() = default;

size_t Model::find_function(const std::string &name) const {
  std::string known;
  for (size_t i = 0; i < functions_.size(); ++i) {
    if (functions_[i].name == (name.empty() ? "main" : name) ||
        (name.empty() && functions_.size() == 1))
      return i;
    known += (i ? ", '" : "'") + functions_[i].name + "'";
  }
  if (name.empty())
    fail(CUGRT_INVALID_ARGUMENT,
         "the model has no function 'main'; name one with function=: it has " + known);
  fail(CUGRT_NOT_FOUND, "the model has no function '" + name + "'; it has " + known);
}

std::unique_ptr<OpenSession> Model::open_session(uint32_t record_capacity) {
  auto options = detail::sized<cugrt_session_options>();
  options.record_capacity = record_capacity;
  options.time_steps = record_capacity != 0;
  if (source_.group) {
    options.group = source_.group->group.get();
    options.exclusive = source_.exclusive.empty() ? nullptr : source_.exclusive.c_str();
    options.priority = source_.priority;
    options.wait = source_.wait;
    options.measure_latency = 1;
    options.deadline_us = source_.deadline_us;
    if (has_deadline() && !source_.missed.is_none()) {
      options.missed = MissedRuns::note;
      options.missed_user = &missed_;
    }
  }
  std::shared_ptr<const Weights> weights;
  {
    std::lock_guard lock(mutex_);
    weights = source_.weights;
  }
  auto opened = std::make_unique<OpenSession>(*executable_, *source_.device, std::move(weights),
                                              options, functions_.size());
  opened->records = record_capacity != 0;
  for (size_t i = 0; i < functions_.size(); ++i) {
    Bound &bound = opened->bound[i];
    bound.staging.resize(functions_[i].params.size());
    bound.given.resize(functions_[i].params.size());
    bound.arguments.resize(functions_[i].params.size());
    bound.results.resize(functions_[i].run_results);
  }
  return opened;
}

OpenSession *Model::take() {
  constexpr uint32_t kRecords = 1 << 16;
  bool tracing = false;
  OpenSession *session = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (closed_)
      fail(CUGRT_INVALID_ARGUMENT, "the model is closed");
    if (sealed_ && idle_.empty())
      fail(CUGRT_BUSY, "the model is sealed, with as many sessions as calls ran at once before: "
                       "all of them are in use");
    ++lent_;
    tracing = tracing_;
    if (!idle_.empty()) {
      session = idle_.back();
      idle_.pop_back();
      session->lent = true;
    }
  }
  try {
    if (!session) {
      nb::gil_scoped_release released;
      std::unique_ptr<OpenSession> opened = open_session(tracing ? kRecords : 0);
      opened->lent = true;
      std::lock_guard lock(mutex_);
      session = (tracing ? traced_ : sessions_).emplace_back(std::move(opened)).get();
    }
    session->busy.lock(); // at most until somebody has read its counters
  } catch (...) {
    end_lending();
    throw;
  }
  try {
    refresh(*session);
    return session;
  } catch (...) {
    give_back(session);
    throw;
  }
}

/// Gives the session the model's weights, where it has older ones. The session is busy.
void Model::refresh(OpenSession &session) {
  std::shared_ptr<const Weights> weights;
  {
    std::lock_guard lock(mutex_);
    if (session.weights == source_.weights)
      return;
    weights = source_.weights;
  }
  session.session.update_weights(*weights);
  session.weights = std::move(weights);
}

void Model::give_back(OpenSession *session) {
  {
    std::lock_guard lock(mutex_);
    session->lent = false;
    if (!closed_ && session->records == tracing_)
      idle_.push_back(session);
    session->busy.unlock(); // from here on a trace may end, and free it
  }
  end_lending();
}

/// The last one to end frees the sessions of a closed model.
void Model::end_lending() {
  std::vector<std::unique_ptr<OpenSession>> ended;
  {
    std::lock_guard lock(mutex_);
    if (--lent_ == 0 && closed_)
      ended.swap(sessions_);
  }
}

std::string Model::plan(cugrt_report_format format,
                        const std::vector<std::pair<std::string, int64_t>> &symbols) {
  return source_.pack ? source_.pack->report(format, symbols)
                      : source_.module->plan_report(format, CUGRT_POLICY_PATCH, symbols);
}

cugrt_prepare_report Model::prepare(size_t function,
                                    const std::vector<cugrt_symbol_value> &symbols) {
  Lease lease(*this);
  nb::gil_scoped_release released;
  return lease->session.prepare(Function(functions_[function].function), symbols);
}

Model::Kept::Kept(Model &model) : model_(model) {
  std::lock_guard lock(model.mutex_);
  if (model.closed_)
    fail(CUGRT_INVALID_ARGUMENT, "the model is closed");
  for (auto &session : model.sessions_)
    all.push_back(session.get());
  ++model.lent_;
}

void Model::update_weights(const Weights &changes, bool in_place) {
  std::lock_guard one(updating_);
  const Kept kept(*this);
  std::shared_ptr<const Weights> weights;
  {
    std::lock_guard lock(mutex_);
    weights = source_.weights;
  }
  weights = std::make_shared<const Weights>(weights->replaced(changes));
  // The first session shows whether they can be had; from then on they are the model's.
  {
    std::lock_guard lock(kept.all.front()->busy);
    Session &first = kept.all.front()->session;
    in_place ? first.update_weights_in_place(*weights) : first.update_weights(*weights);
    kept.all.front()->weights = weights;
    std::lock_guard publish(mutex_);
    source_.weights = weights;
  }
  for (OpenSession *session : kept.all) {
    std::lock_guard lock(session->busy);
    refresh(*session);
  }
}

cugrt_counters Model::counters() {
  const Kept kept(*this);
  // All fields behind struct_size are counts of 64 bits.
  constexpr size_t kFirst = offsetof(cugrt_counters, runs),
                   kFields = (sizeof(cugrt_counters) - kFirst) / 8;
  constexpr size_t kNodes = (offsetof(cugrt_counters, largest_nodes) - kFirst) / 8,
                   kEdges = kNodes + 1;
  auto sum = detail::sized<cugrt_counters>();
  for (OpenSession *session : kept.all) {
    std::lock_guard lock(session->busy);
    const cugrt_counters one = session->session.counters();
    const auto *from = &one.runs;
    auto *to = &sum.runs;
    for (size_t i = 0; i < kFields; ++i)
      to[i] = i == kNodes || i == kEdges ? std::max(to[i], from[i]) : to[i] + from[i];
    sum.weight_bytes = one.weight_bytes; // shared
    sum.weight_bytes_in_place = one.weight_bytes_in_place;
  }
  return sum;
}

cugrt_memory Model::memory() {
  const Kept kept(*this);
  auto sum = detail::sized<cugrt_memory>();
  for (OpenSession *session : kept.all) {
    std::lock_guard lock(session->busy);
    const cugrt_memory one = session->session.memory();
    sum.arena_bytes = source_.exclusive.empty() ? sum.arena_bytes + one.arena_bytes
                                                : std::max(sum.arena_bytes, one.arena_bytes);
    sum.weight_bytes = one.weight_bytes;
    sum.result_bytes += one.result_bytes;
    sum.instance_bytes += one.instance_bytes;
  }
  sum.device_bytes = sum.arena_bytes + sum.weight_bytes + sum.result_bytes;
  return sum;
}

void Model::evict() {
  std::lock_guard one(updating_);
  const Kept kept(*this);
  std::vector<std::unique_lock<std::mutex>> between_calls;
  for (OpenSession *session : kept.all)
    between_calls.emplace_back(session->busy);
  kept.all.front()->session.evict();
}

bool Model::is_resident() { return Kept(*this).all.front()->session.is_resident(); }

void Model::seal() {
  std::lock_guard one(updating_);
  {
    std::lock_guard lock(mutex_);
    if (tracing_)
      fail(CUGRT_BUSY, "a model that is being traced cannot be sealed");
    sealed_ = true; // no session comes any more
  }
  const Kept kept(*this);
  for (OpenSession *session : kept.all) {
    std::lock_guard lock(session->busy);
    session->session.seal();
  }
}

Model::Latency Model::latency() {
  const Kept kept(*this);
  Latency times;
  std::vector<std::unique_lock<std::mutex>> between_calls;
  std::vector<cugrt_session *> sessions;
  for (OpenSession *session : kept.all) {
    between_calls.emplace_back(session->busy);
    sessions.push_back(session->session.get());
  }
  check(api().sessions_get_latency(sessions.data(), sessions.size(), &times.host, &times.device));
  if (has_deadline())
    check(api().sessions_get_deadlines(sessions.data(), sessions.size(), &times.whole,
                                       &times.missed));
  return times;
}

void Model::begin_trace() {
  std::lock_guard lock(mutex_);
  if (closed_)
    fail(CUGRT_INVALID_ARGUMENT, "the model is closed");
  if (sealed_)
    fail(CUGRT_INVALID_ARGUMENT, "the model is sealed; a trace opens sessions of its own");
  if (tracing_)
    fail(CUGRT_BUSY, "the model is being traced already");
  tracing_ = true;
  idle_.clear();
}

std::vector<std::unique_ptr<OpenSession>> Model::end_trace() {
  std::vector<std::unique_ptr<OpenSession>> traced;
  {
    std::lock_guard lock(mutex_);
    tracing_ = false;
    idle_.clear();
    for (auto &session : sessions_)
      if (!session->lent)
        idle_.push_back(session.get());
    traced.swap(traced_);
  }
  for (auto &session : traced) // calls that run in them end
    std::lock_guard ended(session->busy);
  std::lock_guard given_back(mutex_);
  return traced;
}

void Model::close() {
  std::vector<std::unique_ptr<OpenSession>> ended;
  {
    std::lock_guard lock(mutex_);
    if (closed_)
      return;
    closed_ = true;
    idle_.clear();
    if (lent_ == 0)
      ended.swap(sessions_);
  }
  ended.clear();
}

bool Model::closed() {
  std::lock_guard lock(mutex_);
  return closed_;
}

} // namespace cugrt::python
