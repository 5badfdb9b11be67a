// Names, nodes in order, the whole of an import; see importer.h.
#include "fronts/onnx/importer.h"

#include "fronts/onnx/call.h"

#include <algorithm>
#include <stdexcept>

namespace cugrt::onnx {

namespace {

/// Nodes of a model, with those of loops and functions as often as they are written out.
constexpr size_t kMostNodes = 1 << 16;

} // namespace

// --- Scopes

EntryPtr Importer::find(std::string_view name) {
  for (size_t i = scopes_.size(); i-- > 0;)
    if (auto found = scopes_[i].find(name); found != scopes_[i].end() && found->second)
      return found->second;
  fail(Code::parse_error, "value '" + std::string(name) + "' is not defined");
  return std::make_shared<Entry>();
}

void Importer::define(std::string_view name, EntryPtr entry) {
  if (!name.empty())
    scopes_.back()[name] = std::move(entry);
}

void Importer::fail(Code code, std::string message) {
  if (error_.ok())
    error_ = Status::error(code, std::move(message));
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
  fail(Code::busy, "input '" + input + "' is to be known here");
}

/// What follows where two dimensions are equal: a dimension of the file that then can be one number
/// alone is that number.
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
}

void Importer::need_constant_or_positive(E e) {
  for (size_t i = 0; i < symbol_inputs_.size(); ++i) {
    const HostInput &input = symbol_inputs_[i];
    if (input.name.empty() || exprs().symbol({static_cast<uint32_t>(i)}) != e)
      continue;
    if (input.given == 0)
      return raise(input.name, InputMode::bound);
    ir::Interval &bounds = builder_.function().symbols[i].bounds;
    bounds.lower = std::max<int64_t>(bounds.lower, 1);
  }
}

void Importer::require_at_most(const Dims &dims, int64_t most) {
  std::set<uint32_t> symbols;
  ir::Constraint constraint{constant(1), most};
  for (E d : dims)
    for (uint32_t i = 0; i < symbol_inputs_.size(); ++i)
      if (!symbol_inputs_[i].name.empty() && exprs().symbol({i}) == d && symbols.insert(i).second)
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
  return exprs().range(e, builder_.function().symbol_domain(exprs()));
}

bool Importer::never_negative(E e) {
  return exprs().never_negative(e, builder_.function().symbol_domain(exprs()));
}

void Importer::require_at_least(E e, int64_t least) {
  std::vector<ir::SymbolId> symbols;
  exprs().collect_symbols(e, symbols);
  if (symbols.size() != 1 || range(e).lower >= least)
    return;
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

// --- Nodes

void Importer::report(const Node &node, const Status &status) {
  const std::string op =
      (node.domain.empty() ? "" : std::string(node.domain) + ".") + std::string(node.op);
  for (Problem &problem : problems_)
    if (problem.op == op && problem.why == status.message()) {
      ++problem.count;
      return;
    }
  std::string name(node.name);
  if (name.empty() && !node.outputs.empty())
    name = node.outputs.front();
  problems_.push_back({op, status.message(), std::move(name), 1});
}

void Importer::call_function(const Node &node, const LocalFunction &function) {
  Call call(*this, node); // what the function declares is read
  std::vector<EntryPtr> arguments;
  for (size_t i = 0; i < function.inputs.size(); ++i)
    arguments.push_back(call.entry(i));
  for (const auto &declared : function.attributes)
    call.ignore({declared});
  for (const AttributeView &declared : function.defaults)
    call.ignore({declared.name});
  require_all_read(call);
  if (failed())
    return;
  if (++depth > kMaxDepth) {
    fail(Code::unsupported,
         "local functions call one another more than " + std::to_string(kMaxDepth) + " deep");
    --depth;
    return;
  }
  auto outer = std::move(scopes_);
  scopes_.clear();
  push_scope();
  for (size_t i = 0; i < function.inputs.size(); ++i)
    define(function.inputs[i], arguments[i]);
  auto actual = [&](std::string_view name) -> const AttributeView * {
    for (const auto *list : {&node.attributes, &function.defaults})
      for (const AttributeView &one : *list)
        if (one.name == name)
          return &one;
    return nullptr;
  };
  const int64_t opset = std::exchange(opset_, function.opset ? function.opset : opset_);
  for (const Node &inner : function.nodes) {
    Node own = inner;
    std::erase_if(own.attributes, [&](AttributeView &one) {
      if (one.reference.empty())
        return false;
      const AttributeView *given = actual(one.reference);
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
    if (failed() || restart_)
      break;
  }
  std::vector<EntryPtr> results;
  if (!failed() && !restart_)
    for (std::string_view name : function.outputs)
      results.push_back(find(name));
  opset_ = opset;
  scopes_ = std::move(outer);
  --depth;
  for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i)
    define(node.outputs[i], results[i]);
}

void Importer::require_all_read(const Call &call) {
  if (const std::string unread = call.unread(); !failed() && !unread.empty())
    fail(Code::unsupported, unread + " is not known here, and might change the results");
}

void Importer::handle(const Node &node, Handler handler) {
  Call call(*this, node);
  handler(call);
  require_all_read(call);
}

void Importer::node(const Node &node) {
  if (++turns > kMostNodes && !failed())
    fail(Code::unsupported,
         "loops and functions written out are more than " + std::to_string(kMostNodes) + " nodes");
  bool missing = false;
  for (std::string_view name : node.inputs)
    if (!name.empty() && find(name)->missing)
      missing = true;
  if (!missing && !failed()) {
    hint = node.name.empty() && !node.outputs.empty() ? node.outputs.front() : node.name;
    const auto function =
        std::find_if(model_.functions.begin(), model_.functions.end(), [&](const LocalFunction &f) {
          return f.name == node.op && f.domain == node.domain;
        });
    if (function != model_.functions.end()) {
      call_function(node, *function);
    } else if (Handler handler = find_handler(node.domain, node.op)) {
      try {
        Call typed(*this, node), known(*this, node);
        check_dtypes(typed);
        if (failed() || node_with_counted(node, handler)) {
        } else if (evaluate(known)) {
          require_all_read(known);
        } else if (!failed()) {
          handle(node, handler);
        }
      } catch (const std::out_of_range &) {
        fail(Code::parse_error, "an input or a list has fewer axes or elements than the op takes");
      }
    } else {
      fail(Code::unsupported, "there is no such op here");
    }
  }
  if (restart_)
    return;
  if (!missing && !failed()) {
    for (std::string_view name : node.outputs)
      if (EntryPtr made = name.empty() ? nullptr : find(name);
          made && !made->is_input && !made->host && made->sources.empty())
        for (std::string_view input : node.inputs)
          if (!input.empty() && find(input) != made)
            made->sources.push_back(find(input));
    static_cast<void>(take_error()); // outputs that the handler leaves out are found when used
    return;
  }
  if (failed())
    report(node, take_error());
  for (std::string_view name : node.outputs) {
    auto entry = std::make_shared<Entry>();
    entry->missing = true;
    define(name, std::move(entry));
  }
}

void Importer::nodes(const std::vector<Node> &nodes) {
  for (const Node &one : nodes) {
    node(one);
    if (restart_)
      return;
  }
}

void Importer::graph_body(const Graph &graph) {
  for (const TensorView &tensor : graph.initializers) {
    if (scopes_.back().count(tensor.name))
      continue; // an input with a default, which is given
    auto loaded = load_tensor(tensor, files_);
    if (!loaded.ok()) {
      fail(loaded.status().code(), loaded.status().message());
      return;
    }
    auto entry = std::make_shared<Entry>();
    entry->name = tensor.name;
    entry->constant = std::move(*loaded);
    define(tensor.name, std::move(entry));
  }
  nodes(graph.nodes);
}

// --- All of it

Result<Imported> Importer::run() {
  opset_ = model_.opset;
  push_scope();
  if (Status status = inputs(); !status.ok())
    return status;
  builder_.function().num_inputs = static_cast<uint32_t>(builder_.function().params.size());
  graph_body(model_.graph);
  if (restart_)
    return Status::error(Code::busy, "again");
  if (failed())
    return take_error();
  if (!problems_.empty()) {
    size_t count = 0;
    for (const Problem &problem : problems_)
      count += problem.count;
    std::string text =
        std::to_string(count) + (count == 1 ? " node" : " nodes") + " cannot be imported:";
    for (const Problem &p : problems_)
      text += (problems_.size() > 1 ? "\n  " : " ") + p.op + ", " + std::to_string(p.count) +
              (p.count == 1 ? " time ('" : " times (first '") + p.first + "'): " + p.why;
    return Status::error(Code::unsupported, text);
  }
  CUGRT_TRY(known_bounds());
  Status status = results();
  if (restart_)
    return Status::error(Code::busy, "again");
  CUGRT_TRY(std::move(status));
  if (result_.module.functions.back().num_inputs == result_.module.functions.back().params.size())
    result_.module.functions.back().num_inputs = UINT32_MAX;
  result_.files = files_.files();
  return std::move(result_);
}

} // namespace cugrt::onnx
