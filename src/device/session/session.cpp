// Opening, running and ending a session; see session.h. Binding stands in session_bind.cpp, the
// host's program in host_program.cpp.
#include "device/session/session.h"

#include "base/type/state_scope.h"
#include "device/driver/driver_error.h"

#include "device/program/symbol_binding.h"
#include "device/session/function_state.h"
#include "device/session/host_program.h"

#include <algorithm>

namespace cugrt::runtime {

Session::Session(std::shared_ptr<LoadedCode> code, const SessionOptions &options)
    : code_(std::move(code)), group_(options.group), allocator_(options.allocator),
      log_(options.log, code_->device().context()),
      dynamic_memory_(code_->device(), allocator_.get()),
      cache_(*code_, cache_options(options), counters_, log_,
             [this] { return give_back_unplanned() || give_up_one(); }) {}

Result<std::unique_ptr<Session>> Session::open(std::shared_ptr<const Executable> executable,
                                               std::shared_ptr<Device> device,
                                               const SessionOptions &given) {
  SessionOptions options = given;
  if (options.cache.eager && options.cache.strict)
    return Status::error(Code::invalid_argument,
                         "a session cannot be both eager and strict: strict mode refuses whatever "
                         "is not launched as part of a graph");
  CUGRT_TRY(device->require_driver());
  CUGRT_TRY(device->check());
  options.log.ranges = options.log.ranges || profiler_attached();
  auto opened = [&]() -> Result<std::unique_ptr<Session>> {
    if (options.measure_costs) {
      CUGRT_ASSIGN(options.cache.cost, device->costs());
    }
    CUGRT_ASSIGN(std::shared_ptr<LoadedCode> code, executable->load(device));
    std::unique_ptr<Session> session(new Session(std::move(code), options));
    if (options.group)
      CUGRT_TRY(session->join(options));
    CUGRT_ASSIGN(session->weights_,
                 session->load_weights(options.weights ? *options.weights : WeightSet()));
    const Word::Hold hold(session->word_.get());
    CUGRT_TRY(session->allocate(options));
    CUGRT_TRY(session->add_functions());
    if (options.group)
      options.group->add(*session, session->weights_.get());
    return session;
  }();
  if (!opened.ok())
    return device->note(opened.take_status());
  return opened;
}

Result<std::shared_ptr<LoadedWeights>> Session::load_weights(const WeightSet &set) {
  return code_->weights(set, memory_device(), group_ ? group_->weights() : nullptr,
                        [code = code_](const Device &memory, LoadedWeights &weights) {
                          return compute_weights(code, memory, weights);
                        });
}

/// Runs functions of weights in a session of its own, step by step, whose memory ends with it.
Status Session::compute_weights(const std::shared_ptr<LoadedCode> &code, const Device &memory,
                                LoadedWeights &weights) {
  std::unique_ptr<Session> session;
  auto run = [&](uint32_t function, std::span<const cugrt_tensor> wanted) -> Status {
    if (!session) {
      SessionOptions options;
      options.cache.eager = true;
      session.reset(new Session(code, options));
      session->weights_ = {std::shared_ptr<LoadedWeights>(), &weights}; // outlives it
      CUGRT_TRY(session->allocate(options));
      CUGRT_TRY(session->add_functions());
    }
    std::vector<cugrt_value> results(wanted.size());
    FunctionState &state = *session->functions_[function];
    state.params = weights.params(function); // they have come to the device by now
    for (uint32_t slot : state.result_slots)
      if (const uint32_t i = state.run.function.slots[slot].index; wanted[i].address != 0) {
        results[i].kind = CUGRT_VALUE_TENSOR;
        results[i].as.tensor = wanted[i];
      }
    CUGRT_TRY(session->run(function, {{}, results, true, nullptr}));
    // A result may be a weight, a constant or another result.
    for (size_t i = 0; i < wanted.size(); ++i)
      if (const uint64_t made = results[i].as.tensor.address;
          wanted[i].address != 0 && made != wanted[i].address) {
        CUGRT_ASSIGN(const uint64_t bytes, tensor_bytes(wanted[i]));
        CUGRT_TRY(driver::copy_async(session->own_stream_.ref(), wanted[i].address, made, bytes));
      }
    return session->synchronize();
  };
  CUGRT_ASSIGN(driver::ContextGuard guard, code->device().context().enter());
  return weights.compute(code->executable(), memory, run);
}

Status Session::allocate(const SessionOptions &options) {
  const driver::Context &context = code_->device().context();
  CUGRT_TRY(log_.allocate());
  for (const plan::Arena &arena : executable().plan().arenas) {
    const auto bytes = static_cast<uint64_t>(arena.bytes);
    auto make = [&]() -> Result<std::shared_ptr<ArenaMemory>> {
      if (word_ && arena.scope != ir::kStateScope)
        return word_->arena(memory_device().context(), arena.scope, bytes, group_->budget());
      CUGRT_ASSIGN(ArenaMemory memory, ArenaMemory::make(context, allocator_.get(), bytes,
                                                         group_ ? group_->budget() : nullptr));
      return std::make_shared<ArenaMemory>(std::move(memory));
    };
    auto memory = make();
    if (!memory.ok())
      return memory.take_status().in("arena of storage scope '" + arena.scope + "', " +
                                     std::to_string(bytes) + " bytes");
    arenas_.push_back(std::move(*memory));
  }
  find_arenas_room();
  if (word_)
    arena_moves_ = word_->moves;
  if (executable().checks_symbols()) {
    CUGRT_ASSIGN(symbol_flag_, SymbolFlag::allocate(context));
  }
  CUGRT_ASSIGN(own_stream_, driver::Stream::create(context, -options.priority));
  if (options.priority != 0) {
    CUGRT_ASSIGN(const int priority, own_stream_.ref().priority());
    cache_.set_priority(priority);
  }
  using driver::Event;
  wait_ = options.wait;
  CUGRT_ASSIGN(order_event_, Event::create(context, Event::Timing::off,
                                           wait_ == CUGRT_WAIT_BLOCK ? Event::Waiting::blocking
                                                                     : Event::Waiting::as_context));
  if (options.measures_latency || options.deadline.deadline_ns != 0) {
    CUGRT_ASSIGN(times_, RunTimes::make(context, options.deadline));
    straight_ = kOtherwise;
  }
  return clear_state();
}

/// The last item of the body that defines one of the symbols; kNone: none does.
static uint32_t last_match(const plan::Function &function, std::span<const ir::SymbolId> symbols) {
  const std::vector<plan::Item> &items = function.blocks[0].items;
  for (size_t i = items.size(); i-- > 0;)
    for (ir::SymbolId defined : items[i].defines)
      if (std::find(symbols.begin(), symbols.end(), defined) != symbols.end())
        return static_cast<uint32_t>(i);
  return kNone;
}

Status Session::add_functions() {
  const plan::Plan &plan = executable().plan();
  for (size_t f = 0; f < plan.functions.size(); ++f) {
    const plan::Function &function = plan.functions[f];
    const FunctionProgram &program = executable().program(f);
    auto state = std::make_unique<FunctionState>(plan, function, program);
    set_fixed_bases(state->run);
    for (const plan::Block &block : function.blocks)
      for (const plan::Item &item : block.items)
        state->learns_sizes = state->learns_sizes || item.kind == plan::ItemKind::call ||
                              item.kind == plan::ItemKind::match;
    CUGRT_TRY(cover_from_start(*state)); // what no symbol sizes is there from the beginning
    state->params = weights_->params(f);
    state->given_results.resize(function.results.size());
    state->results.resize(function.results.size());
    state->result_memory.resize(function.results.size());
    state->has_own_slot.resize(function.results.size());
    state->dynamic_blocks.resize(function.dynamic_count);
    state->dynamic_tensors.resize(function.dynamic_count);
    for (uint32_t s = 0; s < function.slots.size(); ++s) {
      if (function.slots[s].kind != plan::SlotKind::result)
        continue;
      std::vector<ir::SymbolId> used;
      if (function.slots[s].bytes.valid())
        plan.exprs.collect_symbols(function.slots[s].bytes, used);
      for (ExprId dim : function.buffers[function.results[function.slots[s].index].buffer].dims)
        plan.exprs.collect_symbols(dim, used);
      state->has_own_slot[function.slots[s].index] = true;
      state->result_slots.push_back(s);
      state->result_matches.push_back(last_match(function, used));
    }
    for (uint32_t r = 0; r < function.results.size(); ++r)
      if (uint32_t buffer = function.results[r].buffer;
          buffer != kNone && function.buffers[buffer].base == plan::BufferBase::slot)
        state->results_in_slots.push_back(r);
    const std::vector<plan::Item> &items = function.blocks[0].items;
    // A session with a log, or with counted graphs, takes the other path, so that this path need
    // not ask.
    state->is_region = items.size() == 1 && items[0].kind == plan::ItemKind::region &&
                       items[0].index == 0 && function.dynamic_count == 0 && !log_.on() && !ahead_;
    state->first_region = cache_.add_function(state->run);
    functions_.push_back(std::move(state));
  }
  return {};
}

/// Sets addresses that stay as long as the session; arenas' addresses until they move.
void Session::set_fixed_bases(RunBinding &run) const {
  const plan::Plan &plan = executable().plan();
  for (uint32_t i = 0; i < arenas_.size(); ++i)
    run.set_base(run.program.first_arena + i, arenas_[i]->address(), arenas_[i]->capacity_bytes());
  for (uint32_t i = 0; i < plan.constants.size(); ++i)
    run.set_base(run.program.first_constant + i, code_->constant_address(i),
                 plan.constants[i].bytes.size());
  run.set_base(run.program.symbol_flag, symbol_flag_.address(), sizeof(uint32_t));
}

/// Gives back memory that runs have released, once the work that uses it has ended.
bool Session::give_back_unplanned() {
  if (!dynamic_memory_.keeps_released() || !wait_for_last().ok())
    return false;
  dynamic_memory_.give_back();
  return true;
}

/// Adds the bytes of unplanned tensors to an error of memory that has run out.
Status Session::in_unplanned_figures(Status status) const {
  if (status.code() != Code::out_of_device_memory)
    return status;
  return std::move(status).in("unplanned tensors hold " +
                              std::to_string(dynamic_memory_.size_bytes()) + " bytes");
}

Session::~Session() {
  if (group_) {
    group_->remove(*this);
    group_->budget()->claim(this, {});
  }
  if (in_flight_ || times_) {
    auto guard = code_->device().context().enter();
    (void)wait_for_last();
    times_.reset(); // looks at deadlines of the last runs
  }
  if (word_) {
    const Word::Hold hold(word_.get());
    word_->leave(this);
    word_->sealed -= cache_.sealed();
  }
}

// --- A run. The functions are inline so that a repeated run is a straight line. ---

/// Makes ours current on a thread without a context, where it stays for later runs. Pushes ours
/// over another current context for the run.
[[gnu::always_inline]] inline Status Session::enter_context(bool &pushed) {
  const driver::Context &context = code_->device().context();
  const driver::DriverApi &api = context.api();
  CUcontext current = nullptr;
  CUGRT_DRIVER(api, CtxGetCurrent, (&current), "");
  if (current == context.get()) [[likely]]
    return {};
  if (!current) {
    CUGRT_DRIVER(api, CtxSetCurrent, (context.get()), "");
    return {};
  }
  CUGRT_DRIVER(api, CtxPushCurrent, (context.get()), "");
  pushed = true;
  return {};
}

/// The new stream waits for the last run when that went to another one.
Status Session::order_on(driver::StreamRef stream) {
  if (in_flight_ && !stream.is_same_queue(last_stream_)) {
    if (!end_recorded_)
      CUGRT_TRY(order_event_.record(last_stream_));
    CUGRT_TRY(stream.wait(order_event_.get()));
  }
  last_stream_ = stream;
  in_flight_ = true;
  end_recorded_ = false;
  return {};
}

/// Call after a run on a caller's stream, which may be captured before anything waits for the run.
Status Session::record_end() {
  Status status = order_event_.record(last_stream_);
  end_recorded_ = status.ok();
  if (!end_recorded_ && last_stream_.synchronize().ok()) { // nothing else tells when it has ended
    in_flight_ = false;
    cache_.all_done();
  }
  return status;
}

/// Ends a run on a caller's stream, whole or in part; `launched` is the status of its launches.
Status Session::end_on_callers(Status launched) {
  Status ended = record_end();
  if (word_)
    word_->ran(in_flight_ ? this : nullptr, order_event_.get());
  return launched.ok() ? std::move(ended) : std::move(launched);
}

Status Session::wait_for_last() const {
  if (!in_flight_)
    return {};
  if (wait_ != CUGRT_WAIT_DEFAULT)
    return wait_as_told();
  return end_recorded_ ? order_event_.synchronize() : last_stream_.synchronize();
}

/// Launches a function that is one region by its instance, and any other step by step.
[[gnu::always_inline]] inline Status Session::launch(FunctionState &state, uint32_t function) {
  if (!state.is_region) {
    log_.run = next_run_++;
    Status status = HostProgram(*this, last_stream_).run(function);
    if (!status.ok())
      state.last.forget();
    return status;
  }
  if (Status status = cache_.launch(state.first_region, last_stream_); !status.ok()) [[unlikely]] {
    state.last.forget();
    return cache_.attribute(state.first_region, std::move(status));
  }
  return {};
}

[[gnu::always_inline]] inline Status Session::give_results(FunctionState &state,
                                                           const RunRequest &request) {
  if (state.results_serial != state.run.serial)
    CUGRT_TRY(update_results(state));
  std::copy_n(state.results.begin(), request.results.size(), request.results.begin());
  return {};
}

[[gnu::always_inline]] inline Status Session::match_or_bind(FunctionState &state,
                                                            const RunRequest &request) {
  const auto compared = compare_run(state.last, request.arguments, request.results.size());
  if (compared.repeats()) [[likely]]
    return {};
  if (match_run(state.last, compared, state.run, request.arguments, request.results,
                state.results) == Match::different) [[unlikely]] {
    state.last.forget();
    state.run.changed(); // some bases may have moved
    CUGRT_TRY(with_unplanned_given_back([&] { return bind(state, request); }));
    remember(state, request);
  }
  return {};
}

/// Refuses a stream of another context before the first launch: it takes launches, but no record of
/// their end.
Status Session::check_callers_stream(driver::StreamRef stream) {
  if (std::find(known_streams_.begin(), known_streams_.end(), stream.get()) != known_streams_.end())
    return {};
  if (const driver::Context &context = code_->device().context(); context.is_green()) {
    CUGRT_ASSIGN(const CUcontext of_stream, stream.context());
    if (of_stream != context.get()) // launches without a graph would run elsewhere
      return Status::error(Code::invalid_argument,
                           "the session has some of the device's multiprocessors, and the stream "
                           "others: use one that was made by the session's runtime");
  }
  CUGRT_ASSIGN(driver::Event probe, driver::Event::create(code_->device().context()));
  if (Status status = probe.record(stream); !status.ok())
    return std::move(status).in("the stream of the run cannot be waited for in the session's "
                                "context; a stream of another context cannot be used");
  known_streams_[next_known_++ % known_streams_.size()] = stream.get();
  return {};
}

/// Asks first whether the stream is being captured: binding allocates, which would end the
/// capture.
Status Session::check_callers_run(driver::StreamRef stream) {
  CUGRT_ASSIGN(bool capturing, stream.is_capturing());
  if (capturing)
    return Status::error(Code::invalid_argument,
                         "the stream is being captured; cugrt builds its own graphs: end the "
                         "capture first, or run on a stream that is not being captured");
  return check_callers_stream(stream);
}

/// A run on a caller's stream, in a word, with weights that may be away, or timed. With kInWord, a
/// run on the session's own stream costs as much as a straight one and the word's lock.
[[gnu::noinline]] Status Session::run_otherwise(FunctionState &state, uint32_t function,
                                                const RunRequest &request) {
  if (times_)
    times_->arrive();
  if (!request.own_stream) [[unlikely]]
    CUGRT_TRY(check_callers_run(stream_of(request)));
  Word *word = word_.get();
  const Word::Hold hold(word);
  if (hold.word() != word) [[unlikely]]
    return Status::error(Code::busy, "a run of the session's word is on its way on this thread: "
                                     "models of one word do not run inside of each other");
  if (straight_ != kInWord || arena_moves_ != word->moves) [[unlikely]]
    CUGRT_TRY(follow_group());
  CUGRT_TRY(match_or_bind(state, request));
  if (word && word->last() != this) [[unlikely]]
    CUGRT_TRY(word->follow(stream_of(request)));
  if (!in_flight_ || !request.own_stream || own_stream_.get() != last_stream_.get()) [[unlikely]]
    CUGRT_TRY(order_on(stream_of(request)));
  if (times_)
    times_->begin(last_stream_);
  if (word) // a part of a run, too
    word->ran(this);
  Status status = launch(state, function);
  if (status.ok())
    status = give_results(state, request);
  if (times_)
    status = times_->end(last_stream_, std::move(status));
  if (!request.own_stream) [[unlikely]]
    status = end_on_callers(std::move(status));
  return status;
}

/// A run in ten steps, from what the caller gives to the launch. src/device/README.md leads on from
/// step 8 to the node that is set.
Status Session::run(uint32_t function, const RunRequest &request) {
  InUse use(in_use_);
  // 1. The session is this thread's until the run returns.
  if (!taken(use)) [[unlikely]]
    return InUse::refusal();
  // 2. No earlier failure has poisoned the device.
  CUGRT_TRY(code_->device().check());
  // 3. No earlier run has found a device symbol out of its bounds.
  if (symbol_flag_.raised()) [[unlikely]]
    return check_symbols();
  bool pushed = false;
  Status status = [&]() -> Status {
    // 4. The session's context is current. Code and weights lie on the device.
    CUGRT_TRY(enter_context(pushed));
    FunctionState &state = *functions_[function];
    // 5. The run is on the session's own stream; any other takes the steps that follow there.
    if (uint8_t(request.own_stream) != straight_) [[unlikely]]
      return run_otherwise(state, function, request);
    // 6. Every argument is checked, state.run has the values of symbols and the addresses of slots,
    //    and what the run writes overlaps nothing else. From here on only sizes that host code
    //    decides and the driver can refuse something.
    CUGRT_TRY(match_or_bind(state, request));
    // 7. The stream waits for the session's last run.
    if (!in_flight_ || own_stream_.get() != last_stream_.get()) [[unlikely]]
      CUGRT_TRY(order_on(own_stream_.ref()));
    // 8. Each region's instance is found, or built, and set to what differs (GraphCache::launch()).
    // 9. It is launched, and steps outside of regions are (HostProgram), in program order.
    CUGRT_TRY(launch(state, function));
    // 10. The caller has the addresses and dimensions of results; the device is writing them.
    return give_results(state, request);
  }();
  if (pushed) [[unlikely]] {
    CUcontext popped;
    (void)code_->device().api().CtxPopCurrent(&popped);
  }
  if (!status.ok()) [[unlikely]]
    return code_->device().note(std::move(status));
  ++counters_.runs;
  return status;
}

/// Uses objects of this thread alone: a run binding, a stream, and instances that nobody else
/// knows. Reads only members of the session that never change.
Result<PrepareReport> Session::prepare(uint32_t function,
                                       std::span<const cugrt_symbol_value> symbols) {
  CUGRT_TRY(code_->device().check());
  if (cache_.sealed())
    return Status::error(Code::invalid_argument,
                         "the session is sealed: prepare what runs need before that");
  const plan::Function &planned = executable().plan().functions[function];
  RunBinding run(executable().plan(), planned, executable().program(function));
  CUGRT_ASSIGN(GivenSymbols given, set_named_symbols(run, symbols));
  std::shared_lock lock(moving_, std::defer_lock);
  {
    const Word::Hold hold(word_.get()); // before moving_, as runs take them
    lock.lock();
    set_fixed_bases(run);
  }
  {
    std::lock_guard weights_stay(weights_->mutex());
    const std::vector<cugrt_value> &params = weights_->params(function);
    for (uint32_t i = 0; i < params.size(); ++i)
      if (params[i].kind == CUGRT_VALUE_TENSOR)
        run.set_base(run.program.first_weight + i, params[i].as.tensor.address, 0);
  }
  run.serial = 0; // no run of the session's: instances are compared before they are used
  PrepareReport report;
  report.regions = planned.regions.size();
  auto make = [&]() -> Status {
    CUGRT_ASSIGN(driver::ContextGuard guard, code_->device().context().enter());
    CUGRT_ASSIGN(driver::Stream stream, driver::Stream::create(code_->device().context()));
    for (uint32_t r = 0; r < planned.regions.size(); ++r) {
      if (missing_symbol(run, planned.regions[r], given)) {
        ++report.unknown;
        continue;
      }
      uint32_t number = functions_[function]->first_region + r;
      if (Status status = cache_.prepare(number, run, stream.ref(), report); !status.ok())
        return std::move(status).in("region " + planned.regions[r].name + " of function @" +
                                    planned.name);
    }
    return {};
  };
  if (Status status = make(); !status.ok())
    return code_->device().note(std::move(status));
  return report;
}

} // namespace cugrt::runtime
