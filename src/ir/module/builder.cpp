// Building functions front to back.
#include "ir/module/builder.h"

#include "base/check.h"
#include "ir/module/names.h"

namespace cugrt::ir {

static uint32_t hash_of(std::string_view name) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(name));
}

FunctionBuilder::FunctionBuilder(Module &module, std::string name) : module_(module) {
  function_.name = std::move(name);
  function_.blocks.emplace_back();
  open_blocks_.push_back({0});
  named_.resize(16);
}

void FunctionBuilder::reserve(size_t values, size_t operands, size_t bindings) {
  function_.values.reserve(values);
  function_.operands.reserve(operands);
  function_.blocks.front().bindings.reserve(bindings);
}

// --- Names, values, symbols ----------------------------------------------------------------------

FunctionBuilder::NamedValue &FunctionBuilder::place_of(std::string_view name, uint32_t hash) {
  for (size_t at = hash;; ++at) {
    NamedValue &place = named_[at & (named_.size() - 1)];
    if (place.value == UINT32_MAX ||
        (place.hash == hash && function_.values[place.value].name == name))
      return place;
  }
}

bool FunctionBuilder::take_name(std::string_view name) {
  const auto next = static_cast<uint32_t>(function_.values.size());
  if (next >= named_.size() / 2) {
    std::vector<NamedValue> fewer(named_.size() * 2);
    fewer.swap(named_);
    for (const NamedValue &taken : fewer)
      if (taken.value != UINT32_MAX)
        place_of(function_.values[taken.value].name, taken.hash) = taken;
  }
  const uint32_t hash = hash_of(name);
  NamedValue &place = place_of(name, hash);
  if (place.value != UINT32_MAX || next_suffix_.count(std::string(name)))
    return false;
  place = {hash, next};
  return true;
}

std::string FunctionBuilder::unique_name(std::string_view hint) {
  const bool is_numbered = hint.empty();
  std::string base = is_numbered ? "v" : to_sigil_name(hint);
  if (!is_numbered && take_name(base))
    return base;
  const bool has_value = place_of(base, hash_of(base)).value != UINT32_MAX;
  uint32_t &next = next_suffix_.try_emplace(base, has_value).first->second;
  for (;;) {
    std::string name = base + (is_numbered ? "" : "_") + std::to_string(next++);
    if (take_name(name))
      return name;
  }
}

SymbolId FunctionBuilder::symbol(Symbol symbol) {
  symbol.name = ir::unique_name(symbol_names_, to_symbol_name(symbol.name), "_");
  function_.symbols.push_back(std::move(symbol));
  return {static_cast<uint32_t>(function_.symbols.size() - 1)};
}

ValueId FunctionBuilder::value(std::string_view hint, TypeId type, SourceLocation location) {
  CUGRT_CHECK(type.index < module_.types.size());
  function_.values.push_back({unique_name(hint), type, location});
  return {static_cast<uint32_t>(function_.values.size() - 1)};
}

ValueId FunctionBuilder::param(std::string name, TypeId type, Access access,
                               uint32_t alignment_bytes, SourceLocation location) {
  ValueId id = value(name, type, location);
  function_.params.push_back({id, access, alignment_bytes});
  return id;
}

Operand FunctionBuilder::literal(AttributeValue value) {
  if (const auto *integer = std::get_if<int64_t>(&value)) // in text there is no difference
    return Operand::of(module_.exprs.constant(*integer));
  module_.literals.push_back(std::move(value));
  return Operand::of_literal(static_cast<uint32_t>(module_.literals.size() - 1));
}

uint32_t FunctionBuilder::callee_name(std::string_view name) {
  auto [it, added] = callee_names_.try_emplace(std::string(name), 0);
  if (added) {
    module_.callee_names.emplace_back(name);
    it->second = static_cast<uint32_t>(module_.callee_names.size() - 1);
  }
  return it->second;
}

// --- Bindings ------------------------------------------------------------------------------------

Range FunctionBuilder::add_operands(std::span<const Operand> operands) {
  for (const Operand &o : operands) {
    CUGRT_CHECK(o.kind != Operand::Kind::value || o.index < function_.values.size());
    CUGRT_CHECK(o.kind != Operand::Kind::expr || o.index < module_.exprs.size());
    // Functions may be named before they are added: o.kind function is not checked.
    CUGRT_CHECK(o.kind != Operand::Kind::literal || o.index < module_.literals.size());
  }
  Range range{static_cast<uint32_t>(function_.operands.size()),
              static_cast<uint32_t>(operands.size())};
  function_.operands.insert(function_.operands.end(), operands.begin(), operands.end());
  return range;
}

ValueId FunctionBuilder::append(Binding binding) {
  ValueId first = binding.result_count ? binding.result() : ValueId();
  OpenBlock &open = open_blocks_.back();
  open.pair = UINT32_MAX;
  if (binding.call_site == UINT32_MAX)
    binding.call_site = call_site_;
  function_.blocks[open.block].bindings.push_back(std::move(binding));
  return first;
}

static std::vector<double> *empty_list(AttributeValue &value) {
  auto *list = std::get_if<std::vector<double>>(&value);
  return list && list->empty() ? list : nullptr;
}

// An empty list in text has no element type; it counts as a list of integers everywhere.
static void normalize(AttributeValue &value) {
  auto *strings = std::get_if<std::vector<std::string>>(&value);
  if (empty_list(value) || (strings && strings->empty()))
    value = std::vector<int64_t>();
}

ValueId FunctionBuilder::bind(Binding binding, std::span<const Operand> operands,
                              std::span<const ExprId> exprs, std::span<const Attribute> attributes,
                              std::span<const std::string> hints,
                              std::span<const TypeId> result_types) {
  binding.operands = add_operands(operands);
  binding.exprs = {static_cast<uint32_t>(function_.exprs.size()),
                   static_cast<uint32_t>(exprs.size())};
  for (ExprId e : exprs)
    CUGRT_CHECK(e.index < module_.exprs.size());
  function_.exprs.insert(function_.exprs.end(), exprs.begin(), exprs.end());
  binding.attributes = {static_cast<uint32_t>(function_.attributes.size()),
                        static_cast<uint32_t>(attributes.size())};
  for (const Attribute &a : attributes) {
    function_.attributes.push_back(a);
    normalize(function_.attributes.back().value);
  }
  binding.first_result = static_cast<uint32_t>(function_.values.size());
  binding.result_count = static_cast<uint32_t>(result_types.size());
  for (size_t i = 0; i < result_types.size(); ++i)
    value(i < hints.size() ? std::string_view(hints[i]) : std::string_view(), result_types[i],
          binding.location);
  return append(std::move(binding));
}

// The common bindings: at most one operand, one expression, one result.
static Binding of_kind(BindingKind kind, SourceLocation location = {}) {
  Binding binding{};
  binding.kind = kind;
  binding.location = location;
  return binding;
}

ValueId FunctionBuilder::alloc_storage(std::string_view hint, std::string_view scope,
                                       ExprId bytes) {
  TypeId type = module_.types.storage(module_.types.scope(scope), bytes);
  std::string name(hint);
  return bind(of_kind(BindingKind::alloc_storage), {}, {&bytes, 1}, {}, {&name, 1}, {&type, 1});
}

ValueId FunctionBuilder::alloc_tensor(std::string_view hint, ValueId storage, ExprId offset_bytes,
                                      TypeId type) {
  Operand operand = Operand::of(storage);
  std::string name(hint);
  return bind(of_kind(BindingKind::alloc_tensor), {&operand, 1}, {&offset_bytes, 1}, {}, {&name, 1},
              {&type, 1});
}

ValueId FunctionBuilder::alloc(std::string_view hint, TypeId type) {
  std::string name(hint);
  return bind(of_kind(BindingKind::alloc), {}, {}, {}, {&name, 1}, {&type, 1});
}

void FunctionBuilder::kill(ValueId value) {
  Operand operand = Operand::of(value);
  bind(of_kind(BindingKind::kill), {&operand, 1}, {}, {}, {}, {});
}

void FunctionBuilder::launch(uint32_t kernel, std::span<const Operand> arguments,
                             SourceLocation location) {
  Binding binding = of_kind(BindingKind::launch, location);
  binding.callee = kernel;
  bind(std::move(binding), arguments, {}, {}, {}, {});
}

ValueId FunctionBuilder::view(std::string_view hint, ValueId source, ExprId offset_bytes,
                              TypeId type) {
  Operand operand = Operand::of(source);
  std::string name(hint);
  return bind(of_kind(BindingKind::view), {&operand, 1}, {&offset_bytes, 1}, {}, {&name, 1},
              {&type, 1});
}

// --- Blocks --------------------------------------------------------------------------------------

// Both kinds of binding with blocks have two, and Binding::blocks is a range: opening the first
// block of a pair makes both, so that blocks nested in the first do not come between them.
uint32_t FunctionBuilder::begin_block(std::span<const TypeId> param_types,
                                      std::span<const std::string> names) {
  OpenBlock &parent = open_blocks_.back();
  if (parent.pair == UINT32_MAX || parent.opened == 2) {
    parent.pair = static_cast<uint32_t>(function_.blocks.size());
    parent.opened = 0;
    function_.blocks.resize(function_.blocks.size() + 2);
  }
  uint32_t block = parent.pair + parent.opened++;
  open_blocks_.push_back({block});
  function_.blocks[block].first_param = static_cast<uint32_t>(function_.values.size());
  function_.blocks[block].param_count = static_cast<uint32_t>(param_types.size());
  for (size_t i = 0; i < param_types.size(); ++i)
    value(i < names.size() ? std::string_view(names[i]) : std::string_view(), param_types[i]);
  return block;
}

ValueId FunctionBuilder::block_param(uint32_t block, uint32_t i) const {
  CUGRT_CHECK(block < function_.blocks.size() && i < function_.blocks[block].param_count);
  return {function_.blocks[block].first_param + i};
}

void FunctionBuilder::end_block(std::span<const Operand> results, SourceLocation location) {
  CUGRT_CHECK(open_blocks_.size() > 1);
  Block &block = function_.blocks[open_blocks_.back().block];
  block.results = add_operands(results);
  block.end_location = location;
  open_blocks_.pop_back();
}

Function FunctionBuilder::finish(std::span<const Operand> results, SourceLocation location) {
  CUGRT_CHECK(open_blocks_.size() == 1);
  Block &body = function_.blocks.front();
  body.results = add_operands(results);
  body.end_location = location;
  return std::move(function_);
}

} // namespace cugrt::ir
