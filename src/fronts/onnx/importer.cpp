// Names, nodes in order, the whole of an import; see importer.h.
#include "fronts/onnx/importer.h"

#include "fronts/onnx/call.h"
#include "ir/module/names.h"

#include <algorithm>
#include <span>
#include <stdexcept>

namespace cugrt::onnx {

/// Nodes of a model, with those of loops and functions as often as they are written out.
constexpr size_t kMostNodes = 1 << 16;
/// Most nodes to look at, since facts about inputs start the import anew.
constexpr size_t kMostLooks = 1 << 20;
/// Most functions and subgraphs in one another.
constexpr unsigned kMostNested = 2 * kMaxDepth;
/// Problems that a message names.
constexpr size_t kMostProblems = 100;

/// Numbers or bytes of an attribute's list or text that count as one name.
constexpr size_t kNumbersOfPart = 16, kBytesOfPart = 64;

/// Names, attributes, and what these hold.
static size_t parts_of(const Node &node) {
  size_t parts = node.inputs.size() + node.outputs.size() + node.attributes.size();
  for (const AttributeView &one : node.attributes)
    parts += (one.integers.size() + one.numbers.size() + one.texts.size()) / kNumbersOfPart +
             one.text.size() / kBytesOfPart;
  return parts;
}

// --- Scopes

EntryPtr Importer::find_if_defined(std::string_view name) const {
  for (size_t i = scopes_.size(); i-- > 0;)
    if (auto found = scopes_[i].find(name); found != scopes_[i].end() && found->second)
      return found->second;
  return nullptr;
}

EntryPtr Importer::find(std::string_view name) {
  if (EntryPtr found = find_if_defined(name))
    return found;
  fail(Code::parse_error, "value '" + std::string(name) + "' is not defined");
}

void Importer::define(std::string_view name, EntryPtr entry) {
  if (!name.empty())
    scopes_.back()[name] = std::move(entry);
}

void Importer::note_error(Code code, std::string message) {
  if (error_.ok())
    error_ = Status::error(code, std::move(message));
}

void Importer::fail(Code code, std::string message) {
  note_error(code, std::move(message));
  throw Failed();
}

void Importer::refuse(std::string message) {
  if (refused_.ok())
    refused_ = Status::error(Code::unsupported, message);
  restart_ = true;
  fail(Code::unsupported, std::move(message));
}

bool Learnt::bind() {
  bool more = false;
  for (const std::string &name : bindable)
    more |= std::exchange(inputs[name], InputMode::bound) != InputMode::bound;
  return more;
}

void Importer::raise(const std::string &input, InputMode mode) {
  InputMode &now = learnt_.inputs[input];
  if (options_.fix_given)
    mode = InputMode::bound;
  if (now < mode) {
    now = mode;
    restart_ = true;
  }
  note_error(Code::busy, "input '" + input + "' is to be known here");
}

/// If two dimensions are equal, and a dimension of the file can then be one number alone, it is
/// that number.
void Importer::settle(E a, E b) {
  Dims above, below;
  add_factors(a, above), add_factors(b, below);
  std::erase_if(above, [&](E e) {
    auto same = std::find(below.begin(), below.end(), e);
    if (same == below.end() || known(e))
      return false;
    below.erase(same);
    return true;
  });
  if (std::none_of(above.begin(), above.end(), [&](E e) { return !known(e); }))
    std::swap(above, below);
  const E *symbol = nullptr; // times `up` is `down`
  int64_t up = 1, down = 1;
  for (const E &e : above)
    if (const auto number = known(e); number && __builtin_mul_overflow(up, *number, &up))
      return;
    else if (!number && std::exchange(symbol, &e))
      return;
  for (E e : below)
    if (const auto number = known(e); !number || __builtin_mul_overflow(down, *number, &down))
      return;
  if (!symbol || up < 1 || down % up || down / up < 1)
    return;
  for (const auto &[name, e] : dimensions_)
    if (e == *symbol) {
      learnt_.dims[name] = down / up;
      restart_ = true;
      return fail(Code::busy, "dimension '" + name + "' can only be " + std::to_string(down / up));
    }
}

void Importer::need_constant(E e) {
  std::vector<ir::SymbolId> symbols;
  exprs().collect_symbols(e, symbols);
  for (ir::SymbolId s : symbols)
    if (s.index < symbol_inputs_.size() && !symbol_inputs_[s.index].name.empty())
      raise(symbol_inputs_[s.index].name, InputMode::bound);
  end_if_failed();
}

void Importer::need_constant_or_positive(E e) {
  const HostInput *input = host_input_of(e);
  if (!input)
    return;
  if (input->given == 0)
    raise(input->name, InputMode::bound);
  end_if_failed();
  ir::Interval &bounds = builder_.function().symbols[size_t(exprs()[e].value)].bounds;
  bounds.lower = std::max<int64_t>(bounds.lower, 1);
}

/// The input whose integer the expression is, alone; else null.
const Importer::HostInput *Importer::host_input_of(E e) {
  const ir::ExprNode &node = exprs()[e];
  const bool is_one = node.kind == ir::ExprKind::symbol &&
                      size_t(node.value) < symbol_inputs_.size() &&
                      !symbol_inputs_[size_t(node.value)].name.empty();
  return is_one ? &symbol_inputs_[size_t(node.value)] : nullptr;
}

void Importer::require_at_most(const Dims &dims, int64_t most) {
  std::set<E> symbols;
  ir::Constraint constraint{constant(1), most};
  for (E d : dims)
    if (host_input_of(d) && symbols.insert(d).second)
      constraint.expr = exprs().mul(constraint.expr, d);
  std::vector<ir::Constraint> &all = builder_.function().constraints;
  if (symbols.size() > 1 && range(constraint.expr).upper > most &&
      all.size() < ir::kMaxConstraints &&
      std::find(all.begin(), all.end(), constraint) == all.end())
    all.push_back(std::move(constraint));
}

std::optional<DType> Importer::entry_dtype(const Entry &entry) {
  if (entry.host)
    return entry.host->dtype;
  if (entry.constant)
    return entry.constant->dtype;
  if (entry.fractions)
    return entry.fractions->dtype;
  return entry.device.valid() ? std::optional(type(entry.device).dtype) : std::nullopt;
}

ir::Interval Importer::range(E e) {
  if (const auto number = known(e)) // whatever the symbols are
    return {*number, *number};
  return exprs().range(e, builder_.function().symbol_domain(exprs()));
}

bool Importer::never_negative(E e) {
  if (const auto number = known(e))
    return *number >= 0;
  return exprs().never_negative(e, builder_.function().symbol_domain(exprs()));
}

void Importer::require_at_least(E e, int64_t least) {
  std::vector<ir::SymbolId> symbols;
  exprs().collect_symbols(e, symbols);
  if (symbols.size() != 1 || range(e).lower >= least ||
      builder_.function().symbols[symbols[0].index].source == ir::SymbolSource::match)
    return; // what a match defines is bounded by nobody
  ir::Interval &bounds = builder_.function().symbols[symbols[0].index].bounds;
  std::vector<int64_t> values(symbols[0].index + 1, 0);
  auto enough = [&](int64_t value) {
    values.back() = value;
    const auto result = exprs().evaluate(e, values);
    return result.ok() && *result >= least;
  };
  int64_t low = bounds.lower, high = bounds.upper; // sizes of windows grow with the image
  if (!enough(high))
    return;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (enough(middle))
      high = middle;
    else
      low = middle + 1;
  }
  bounds.lower = low;
}

// --- Limits, and facts that follow from inputs

void Importer::take_elements(size_t count) {
  elements_ += count;
  if (elements_ > kMostMade)
    refuse("constants that follow from others have more than " + std::to_string(kMostMade) +
           " elements in all");
}

void Importer::take_parts(size_t count) {
  parts_ += count;
  if (parts_ > kMostParts)
    refuse("loops and functions written out have more than " + std::to_string(kMostParts) +
           " names and attributes");
}

uint32_t Importer::origin_of(const Node &node) {
  std::vector<uint32_t> sources;
  for (std::string_view name : node.inputs) {
    if (sources.size() == kMostSources)
      break;
    const EntryPtr entry = name.empty() ? nullptr : find(name);
    if (entry && !entry->host && !entry->constant && entry->origin != kNoOrigin)
      sources.push_back(entry->origin);
  }
  if (sources.empty())
    return kNoOrigin;
  origins_.push_back({nullptr, std::move(sources)});
  return static_cast<uint32_t>(origins_.size() - 1);
}

// --- Nodes

void Importer::report(const Node &node, const Status &status) {
  const std::string op =
      (node.domain.empty() ? "" : std::string(node.domain) + ".") + std::string(node.op);
  const auto [known, added] = problem_index_.try_emplace({op, status.message()}, problems_.size());
  if (!added) {
    ++problems_[known->second].count;
    return;
  }
  std::string name(node.name);
  if (name.empty() && !node.outputs.empty())
    name = node.outputs.front();
  problems_.push_back({op, status.message(), std::move(name), 1});
}

void Importer::call_function(const Node &node, const LocalFunction &function) {
  const size_t declared = function.attributes.size() + function.defaults.size();
  take_parts(node.inputs.size() + function.inputs.size() + declared +
             node.attributes.size() * (1 + declared / kNumbersOfPart)); // each is looked for
  Call call(*this, node); // what the function declares is read
  std::vector<EntryPtr> arguments;
  for (size_t i = 0; i < function.inputs.size(); ++i)
    arguments.push_back(call.entry(i));
  for (const auto &declared : function.attributes)
    call.ignore({declared});
  for (const AttributeView &declared : function.defaults)
    call.ignore({declared.name});
  require_all_read(call);
  if (++depth > kMaxDepth || nested >= kMostNested) {
    --depth;
    fail(Code::unsupported,
         "local functions call one another more than " + std::to_string(kMaxDepth) + " deep");
  }
  ++nested;
  auto outer = std::move(scopes_);
  scopes_.clear();
  push_scope();
  for (size_t i = 0; i < function.inputs.size(); ++i)
    define(function.inputs[i], arguments[i]);
  std::unordered_map<std::string_view, const AttributeView *> actual;
  for (const auto *list : {&node.attributes, &function.defaults})
    for (const AttributeView &one : *list)
      actual.try_emplace(one.name, &one);
  const int64_t opset = std::exchange(opset_, function.opset ? function.opset : opset_);
  for (const Node &inner : function.nodes) {
    Node own = inner;
    std::erase_if(own.attributes, [&](AttributeView &one) {
      if (one.reference.empty())
        return false;
      const auto found = actual.find(one.reference);
      const AttributeView *given = found == actual.end() ? nullptr : found->second;
      const std::string_view name = one.name;
      if (given)
        one = *given;
      one.name = name;
      return !given;
    });
    for (std::string_view &name : own.inputs) // an input that the call leaves out
      if (auto found = scopes_.back().find(name); found != scopes_.back().end() && !found->second)
        name = {};
    this->node(own);
  }
  std::vector<EntryPtr> results;
  for (std::string_view name : function.outputs)
    results.push_back(find_if_defined(name));
  opset_ = opset;
  scopes_ = std::move(outer);
  --depth, --nested;
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i])
      fail(Code::parse_error, "value '" + std::string(function.outputs[i]) + "' is not defined");
    else if (i < node.outputs.size())
      define(node.outputs[i], results[i]);
}

void Importer::require_all_read(const Call &call) {
  if (const std::string unread = call.unread(); !unread.empty())
    fail(Code::unsupported, unread + " is not known here, and might change the results");
}

void Importer::handle(const Node &node, Handler handler) {
  Call call(*this, node);
  handler(call);
  require_all_read(call);
}

bool Importer::results_of(const Node &node) {
  if (++turns > kMostNodes)
    refuse("loops and functions written out are more than " + std::to_string(kMostNodes) +
           " nodes");
  if (++learnt_.nodes > kMostLooks)
    refuse("what inputs must be known for is found out in too many steps: give them by --bind and "
           "--dim");
  if (nested > 0)
    take_parts(parts_of(node));
  const size_t first_value = builder_.function().values.size();
  for (std::string_view name : node.inputs)
    if (!name.empty() && find(name)->missing)
      return false;
  hint = (node.name.empty() && !node.outputs.empty() ? node.outputs.front() : node.name)
             .substr(0, ir::kMaxNameBytes);
  if (const auto function = functions_.find({node.domain, node.op}); function != functions_.end()) {
    call_function(node, *function->second);
  } else if (Handler handler = find_handler(node.domain, node.op)) {
    node_ = &node;
    Call typed(*this, node), known(*this, node);
    check_dtypes(typed);
    if (node_with_counted(node, handler)) {
    } else if (evaluate(known)) {
      require_all_read(known);
    } else {
      handle(node, handler);
    }
  } else {
    fail(Code::unsupported, "there is no such op here");
  }
  Call call(*this, node);
  keep_narrow(call);
  note_node(node, first_value);
  return true; // outputs that the handler leaves out are found when used
}

void Importer::node(const Node &node) {
  const Node *const outer = node_;
  const size_t scopes = scopes_.size(), blocks = blocks_.size();
  const unsigned inside = nested;
  bool made = false;
  try {
    made = results_of(node);
  } catch (const Failed &) { // which `error_` tells
  } catch (const std::out_of_range &) {
    note_error(Code::parse_error,
               "an input or a list has fewer axes or elements than the op takes");
  }
  node_ = outer;
  if (restart_)
    throw Failed();
  if (made)
    return;
  if (failed())
    report(node, take_error());
  scopes_.resize(scopes), nested = inside;
  for (uint32_t number = 0; blocks_.size() > blocks;)
    end_block({}, &number);
  for (std::string_view name : node.outputs) {
    auto entry = std::make_shared<Entry>();
    entry->missing = true;
    define(name, std::move(entry));
  }
}

Result<HostTensor> Importer::load(const TensorView &tensor) {
  if (nested > 0)
    take_parts(tensor.message.size() / kBytesOfPart);
  return load_tensor(tensor, files_);
}

EntryPtr Importer::constant_entry(const TensorView &tensor, std::string_view name) {
  EntryPtr own, &entry = nested > 0 ? body_constants_[&tensor] : own;
  if (entry)
    return entry;
  auto loaded = load_tensor(tensor, files_);
  if (!loaded.ok()) {
    fail(loaded.status().code(), loaded.status().message());
  }
  entry = std::make_shared<Entry>();
  entry->name = name;
  entry->narrow = loaded->narrow;
  entry->constant = std::move(*loaded);
  return entry;
}

void Importer::graph_body(const Graph &graph) {
  for (const TensorView &tensor : graph.initializers) {
    if (scopes_.back().count(tensor.name))
      continue; // an input with a default, which is given
    define(tensor.name, constant_entry(tensor, tensor.name));
  }
  for (const Node &one : graph.nodes)
    node(one);
}

std::vector<EntryPtr> Importer::inlined(const Graph &graph, const std::vector<EntryPtr> &inputs) {
  std::vector<EntryPtr> results;
  if (nested >= kMostNested)
    fail(Code::unsupported, "functions and subgraphs are more than " + std::to_string(kMostNested) +
                                " deep in one another");
  take_parts(graph.inputs.size() + graph.outputs.size() + graph.initializers.size());
  ++nested;
  push_scope();
  for (size_t i = 0; i < graph.inputs.size() && i < inputs.size(); ++i)
    define(graph.inputs[i].name, inputs[i]);
  graph_body(graph);
  for (const ValueInfo &info : graph.outputs) {
    results.push_back(find(info.name));
    if (results.back()->missing)
      fail(Code::unsupported, "its subgraph has nodes that cannot be imported");
  }
  pop_scope();
  --nested;
  return results;
}

// --- All of it

Status Importer::all() {
  CUGRT_TRY(inputs());
  builder_.function().num_inputs = static_cast<uint32_t>(builder_.function().params.size());
  graph_body(model_.graph);
  if (problems_.empty()) {
    CUGRT_TRY(known_bounds());
    return results();
  }
  size_t count = 0;
  for (const Problem &problem : problems_)
    count += problem.count;
  std::string text =
      std::to_string(count) + (count == 1 ? " node" : " nodes") + " cannot be imported:";
  for (const Problem &p : std::span(problems_).first(std::min(problems_.size(), kMostProblems)))
    text += (problems_.size() > 1 ? "\n  " : " ") + p.op + ", " + std::to_string(p.count) +
            (p.count == 1 ? " time ('" : " times (first '") + p.first + "'): " + p.why;
  if (problems_.size() > kMostProblems)
    text += "\n  and " + std::to_string(problems_.size() - kMostProblems) + " other reasons";
  return Status::error(Code::unsupported, text);
}

Result<Imported> Importer::run() {
  opset_ = model_.opset;
  push_scope();
  learnt_.nodes += model_.graph.inputs.size();
  Status status;
  try {
    status = all();
  } catch (const Failed &) {
    status = take_error();
  }
  if (!refused_.ok())
    return std::move(refused_);
  if (restart_)
    return Status::error(Code::busy, "again");
  CUGRT_TRY(std::move(status));
  if (result_.module.functions.back().num_inputs == result_.module.functions.back().params.size())
    result_.module.functions.back().num_inputs = UINT32_MAX;
  result_.files = files_.files();
  return std::move(result_);
}

} // namespace cugrt::onnx
