// Function bodies: scopes, labels, instructions and their operands.
#include "emulator/ptx/parser_impl.h"

namespace cugrt::emulator::ptx {

constexpr uint32_t kUnresolved = UINT32_MAX;

Status Parser::body() {
  CUGRT_TRY(expect('{'));
  int depth = 1;
  while (depth > 0)
    CUGRT_TRY(statement(depth));
  return resolve_labels();
}

Status Parser::statement(int &depth) {
  if (token_.kind == TokenKind::end)
    return error("a function body that is never closed");
  if (token_.is(';'))
    return advance();
  if (token_.is('{')) {
    if (++depth > kMaxScopeDepth)
      return error("scopes nested too deeply");
    scopes_.emplace_back().parent = scope_;
    scope_ = int32_t(scopes_.size() - 1);
    return advance();
  }
  if (token_.is('}')) {
    --depth;
    scope_ = scopes_[size_t(scope_)].parent;
    return advance();
  }
  if (token_.is('@'))
    return instruction();
  if (token_.kind == TokenKind::word)
    return instruction();
  if (token_.kind != TokenKind::dotted)
    return error("expected a statement, found " + shown());
  std::string_view name = token_.text;
  if (name == ".loc")
    return location();
  if (name == ".pragma")
    return skip_to_semicolon();
  CUGRT_TRY(advance());
  if (name == ".reg")
    return registers();
  Space space = name == ".local"    ? Space::local
                : name == ".shared" ? Space::shared
                : name == ".param"  ? Space::param
                                    : Space::none;
  if (space != Space::none)
    return variables(space, Linkage::local, true);
  if (name == ".global" || name == ".const")
    return error_at(previous_.line,
                    "a " + std::string(name) + " variable inside a function is not supported");
  return error_at(previous_.line, "unknown directive '" + std::string(name.substr(0, 40)) + "'");
}

/// .loc file line column [, function_name label [+ n], inlined_at file line column]
Status Parser::location() {
  CUGRT_TRY(advance());
  CUGRT_ASSIGN(uint64_t file, expect_integer("a file number"));
  CUGRT_ASSIGN(uint64_t line, expect_integer("a line number"));
  CUGRT_ASSIGN([[maybe_unused]] uint64_t column, expect_integer("a column"));
  file_ = uint32_t(std::min<uint64_t>(file, UINT32_MAX));
  source_line_ = uint32_t(std::min<uint64_t>(line, UINT32_MAX));
  while (token_.is(',')) {
    CUGRT_TRY(advance());
    CUGRT_ASSIGN(std::string_view what, expect_word("function_name or inlined_at"));
    if (what == "function_name") {
      CUGRT_ASSIGN([[maybe_unused]] std::string_view text, expect_word("a label"));
      if (token_.is('+')) {
        CUGRT_TRY(advance());
        CUGRT_ASSIGN([[maybe_unused]] uint64_t offset, expect_integer("an offset"));
      }
    } else {
      for (const char *part : {"a file number", "a line number", "a column"}) {
        CUGRT_ASSIGN([[maybe_unused]] uint64_t value, expect_integer(part));
      }
    }
  }
  return {};
}

Status Parser::label(std::string_view name) {
  Function &function = current();
  uint32_t index = uint32_t(function.labels.size());
  if (!scopes_[size_t(scope_)].labels.emplace(name, index).second)
    return error_at(previous_.line, "label '" + std::string(name) + "' stands twice in one scope");
  function.labels.push_back({name, uint32_t(function.instructions.size()), {}, false});
  if (token_.is_dotted(".branchtargets"))
    return branch_targets(name);
  if (token_.is_dotted(".callprototype") || token_.is_dotted(".calltargets")) {
    function.labels.back().is_prototype = true;
    return skip_to_semicolon();
  }
  return {};
}

Status Parser::branch_targets(std::string_view name) {
  CUGRT_TRY(advance());
  Label &label = current().labels.back();
  // Targets are elements of the label's own; they resolve with the rest of the function.
  do {
    if (token_.is(','))
      CUGRT_TRY(advance());
    Operand target;
    target.kind = Operand::Kind::label;
    target.name = token_.text;
    uint32_t line = token_.line;
    CUGRT_ASSIGN([[maybe_unused]] std::string_view word, expect_word("a label"));
    label.targets.push_back(int32_t(current().elements.size()));
    pending_.push_back({true, uint32_t(current().elements.size()), scope_, line});
    current().elements.push_back(target);
  } while (token_.is(','));
  return expect(';');
}

Result<std::string_view> Parser::opcode() {
  const char *begin = token_.text.data();
  std::string joined(token_.text);
  const char *end = begin + token_.text.size();
  CUGRT_TRY(advance());
  bool contiguous = true;
  constexpr size_t kMaxOpcode = 256;
  while (token_.kind == TokenKind::dotted) {
    contiguous &= token_.text.data() == end;
    end = token_.text.data() + token_.text.size();
    joined += token_.text;
    if (joined.size() > kMaxOpcode)
      return error("an opcode of more than 256 characters");
    CUGRT_TRY(advance());
  }
  if (contiguous)
    return std::string_view(begin, size_t(end - begin));
  return std::string_view(module_.joined.emplace_back(std::move(joined)));
}

Status Parser::guard(Instruction &instruction) {
  CUGRT_TRY(expect('@'));
  CUGRT_ASSIGN(instruction.guard_negated, accept('!'));
  CUGRT_ASSIGN(std::string_view name, expect_word("a predicate"));
  auto symbol = find_symbol(name);
  if (!symbol || symbol->kind != Symbol::Kind::reg ||
      current().registers[symbol->index].type != Type::pred)
    return error_at(previous_.line, "'" + std::string(name) + "' is no predicate register");
  instruction.guard = int32_t(symbol->index);
  return {};
}

Status Parser::instruction() {
  Instruction result;
  if (token_.is('@'))
    CUGRT_TRY(guard(result));
  result.line = token_.line;
  result.file = file_;
  result.source_line = source_line_;
  if (token_.kind != TokenKind::word)
    return error("expected an opcode, found " + shown());
  Token first = token_;
  CUGRT_ASSIGN(result.opcode, opcode());
  if (token_.is(':') && result.guard < 0 && result.opcode == first.text) {
    CUGRT_TRY(advance());
    return label(result.opcode);
  }
  opcode_ = result.opcode;
  operand_total_ = 0;
  has_coordinates_ = false;
  // Operands of an instruction are consecutive: nested ones go to `elements`.
  result.first_operand = uint32_t(current().operands.size());
  while (!token_.is(';')) {
    Operand out;
    uint32_t line = token_.line;
    CUGRT_TRY(operand(out, false, 0));
    CUGRT_TRY(store(std::move(out), false, line));
    if (!token_.is(';'))
      CUGRT_TRY(expect(','));
  }
  result.operand_count = uint32_t(current().operands.size()) - result.first_operand;
  result.has_coordinates = has_coordinates_;
  current().instructions.push_back(result);
  return advance();
}

Status Parser::store(Operand &&operand, bool in_elements, uint32_t line) {
  if (++operand_total_ > kMaxOperands)
    return error("more than " + std::to_string(kMaxOperands) + " operands");
  auto &list = in_elements ? current().elements : current().operands;
  if (operand.kind == Operand::Kind::label)
    pending_.push_back({in_elements, uint32_t(list.size()), scope_, line});
  list.push_back(operand);
  return {};
}

Status Parser::operand(Operand &out, bool in_elements, int depth) {
  constexpr int kMaxGroupDepth = 4;
  if (depth > kMaxGroupDepth)
    return error("operands nested too deeply");
  if (token_.is('{'))
    return group(out, '}', depth);
  if (token_.is('(') && opcode_.substr(0, 4) == "call") // elsewhere a constant expression begins
    return group(out, ')', depth);
  if (token_.is('[')) {
    CUGRT_TRY(advance());
    CUGRT_TRY(address(out));
    while (token_.is(',')) { // coordinates of a texture, surface or tensor, which nothing executes
      has_coordinates_ = true;
      Operand coordinate;
      CUGRT_TRY(advance());
      CUGRT_TRY(operand(coordinate, true, depth + 1));
    }
    return expect(']');
  }
  if (token_.is('!')) {
    CUGRT_ASSIGN(Token next, peek());
    out.is_negated = next.kind == TokenKind::word && next.text != kWarpSize && depth == 0;
    if (out.is_negated) // otherwise of a constant expression
      CUGRT_TRY(advance());
  }
  if (token_.kind == TokenKind::word && token_.text != kWarpSize)
    return named_operand(out, depth == 0 && operand_total_ == 0);
  return number(out);
}

Status Parser::number(Operand &out) {
  CUGRT_ASSIGN(bool negative, is_negative_real());
  if (negative)
    CUGRT_TRY(advance());
  if (token_.kind == TokenKind::real) {
    out.kind = Operand::Kind::real;
    out.is_float = token_.is_float;
    out.value = int64_t(token_.bits ^ (negative ? uint64_t(1) << (token_.is_float ? 31 : 63) : 0));
    return advance();
  }
  out.kind = Operand::Kind::integer;
  CUGRT_ASSIGN(out.value, constant());
  return {};
}

/// The register behind '|': a result's predicate. -1: none is stored.
Result<int32_t> Parser::second_of_pair() {
  CUGRT_TRY(expect('|'));
  CUGRT_ASSIGN(std::string_view second, expect_word("a predicate after '|'"));
  if (second == "_")
    return -1;
  auto symbol = find_symbol(second);
  if (!symbol || symbol->kind != Symbol::Kind::reg)
    return error_at(previous_.line, "'" + std::string(second) + "' is no register");
  return int32_t(symbol->index);
}

/// `may_be_pair`: d|p may stand here.
Status Parser::named_operand(Operand &out, bool may_be_pair) {
  std::string_view name = token_.text;
  CUGRT_TRY(advance());
  if (name == "_") {
    out.kind = Operand::Kind::sink;
    if (may_be_pair && token_.is('|')) {
      CUGRT_ASSIGN(out.index2, second_of_pair());
    }
    return {};
  }
  auto symbol = find_symbol(name);
  out.name = name;
  if (!symbol) {
    if (name[0] == '%') {
      out.kind = Operand::Kind::special;
      if (token_.kind == TokenKind::dotted && token_.text.data() == name.data() + name.size()) {
        out.name = std::string_view(name.data(), name.size() + token_.text.size());
        CUGRT_TRY(advance());
      }
      return {};
    }
    out.kind = Operand::Kind::label;
    return {};
  }
  out.index = int32_t(symbol->index);
  switch (symbol->kind) {
  case Symbol::Kind::function:
    out.kind = Operand::Kind::function;
    return {};
  case Symbol::Kind::variable:
  case Symbol::Kind::module_variable:
    out.kind = Operand::Kind::variable;
    out.is_module = symbol->kind == Symbol::Kind::module_variable;
    if (token_.is('+') || token_.is('-')) {
      CUGRT_ASSIGN(out.value, constant());
    }
    return token_.is('[') ? element(out) : Status();
  case Symbol::Kind::reg:
    out.kind = Operand::Kind::reg;
    break;
  }
  if (may_be_pair && token_.is('|')) {
    CUGRT_ASSIGN(out.index2, second_of_pair());
  }
  return {};
}

/// "mov.u64 %rd1, a[3]" moves an element's address, "ld.global.u32 %r1, a[3]" loads from it.
Status Parser::element(Operand &out) {
  CUGRT_TRY(advance());
  CUGRT_ASSIGN(int64_t index, constant());
  CUGRT_TRY(expect(']'));
  const Variable &variable =
      out.is_module ? module_.variables[size_t(out.index)] : current().variables[size_t(out.index)];
  out.value = int64_t(uint64_t(out.value) + uint64_t(index) * type_bytes(variable.type));
  out.is_element = true;
  return {};
}

Status Parser::group(Operand &out, char close, int depth) {
  CUGRT_TRY(advance());
  std::vector<Operand> inner;
  uint32_t line = token_.line;
  while (!token_.is(close)) {
    if (inner.size() >= kMaxOperands)
      return error("more than " + std::to_string(kMaxOperands) + " operands");
    CUGRT_TRY(operand(inner.emplace_back(), true, depth + 1));
    if (!token_.is(close))
      CUGRT_TRY(expect(','));
  }
  out.kind = close == '}' ? Operand::Kind::vector : Operand::Kind::list;
  out.first = uint32_t(current().elements.size());
  out.count = uint32_t(inner.size());
  for (Operand &element : inner)
    CUGRT_TRY(store(std::move(element), true, line));
  return advance();
}

/// Inside brackets: register, variable or number, each with an offset.
Status Parser::address(Operand &out) {
  if (token_.kind == TokenKind::word && token_.text != kWarpSize) {
    CUGRT_TRY(named_operand(out, false));
    if (out.kind == Operand::Kind::reg && (token_.is('+') || token_.is('-'))) {
      CUGRT_ASSIGN(out.value, constant());
    }
    if (out.kind != Operand::Kind::reg && out.kind != Operand::Kind::variable)
      return error_at(previous_.line, "'" + std::string(out.name) + "' is no address");
  } else {
    CUGRT_TRY(number(out));
    if (out.kind != Operand::Kind::integer)
      return error_at(previous_.line, "a float literal as an address");
  }
  out.is_address = true;
  return {};
}

std::optional<Parser::Numbered> Parser::numbered(std::string_view name) {
  size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == 0 || digits >= name.size() || name.size() - digits > 9)
    return std::nullopt;
  if (name[digits] == '0' && name.size() - digits > 1)
    return std::nullopt;
  Numbered parts{name.substr(0, digits)};
  for (char c : name.substr(digits))
    parts.number = parts.number * 10 + uint64_t(c - '0');
  return parts;
}

std::optional<Parser::Symbol> Parser::find_register_in_range(Scope &scope, std::string_view name) {
  std::optional<Numbered> parts = numbered(name);
  if (!parts)
    return std::nullopt;
  auto range = scope.ranges.find(parts->prefix);
  if (range == scope.ranges.end() || parts->number >= range->second.count)
    return std::nullopt;
  Symbol symbol{Symbol::Kind::reg, uint32_t(current().registers.size())};
  current().registers.push_back({name, range->second.type});
  scope.symbols.emplace(name, symbol);
  return symbol;
}

std::optional<Parser::Symbol> Parser::find_symbol(std::string_view name) {
  for (int32_t scope = scope_; scope >= 0; scope = scopes_[size_t(scope)].parent) {
    Scope &s = scopes_[size_t(scope)];
    if (auto it = s.symbols.find(name); it != s.symbols.end())
      return it->second;
    if (!s.ranges.empty())
      if (auto symbol = find_register_in_range(s, name))
        return symbol;
  }
  if (auto it = module_symbols_.find(name); it != module_symbols_.end())
    return it->second;
  return std::nullopt;
}

Status Parser::resolve_labels() {
  Function &function = current();
  for (const PendingLabel &pending : pending_) {
    Operand &operand = pending.in_elements ? function.elements[pending.operand]
                                           : function.operands[pending.operand];
    uint32_t index = kUnresolved;
    for (int32_t s = pending.scope; s >= 0 && index == kUnresolved; s = scopes_[size_t(s)].parent)
      if (auto it = scopes_[size_t(s)].labels.find(operand.name);
          it != scopes_[size_t(s)].labels.end())
        index = it->second;
    if (index == kUnresolved)
      return error_at(pending.line,
                      "'" + std::string(operand.name.substr(0, 80)) + "' is not declared");
    operand.index = int32_t(index);
  }
  // .branchtargets held places in `elements`; now they are labels.
  for (Label &label : function.labels)
    for (int32_t &target : label.targets)
      target = function.elements[size_t(target)].index;
  return {};
}

} // namespace cugrt::emulator::ptx
