// Declarations: registers, variables of every space, initialisers.
#include "emulator/ptx/parser_impl.h"

#include "base/checked_math.h"

#include <bit>
#include <cstring>

namespace cugrt::emulator::ptx {

Status Parser::declare(std::string_view name, Symbol symbol) {
  auto &symbols = scope_ >= 0 ? scopes_[size_t(scope_)].symbols : module_symbols_;
  bool is_new = symbols.emplace(name, symbol).second;
  if (std::optional<Numbered> parts = numbered(name); is_new && parts && scope_ >= 0) {
    Scope &scope = scopes_[size_t(scope_)];
    auto range = scope.ranges.find(parts->prefix);
    is_new = range == scope.ranges.end() || parts->number >= range->second.count;
    auto [least, inserted] = scope.least_numbered.emplace(parts->prefix, parts->number);
    least->second = std::min(least->second, parts->number);
  }
  if (!is_new)
    return error("'" + std::string(name) + "' is declared twice");
  return {};
}

/// "(.managed)", behind .attribute.
Status Parser::attributes(Declared &declared) {
  CUGRT_TRY(expect('('));
  while (true) {
    if (token_.is_dotted(".unified"))
      return Status::error(Code::unsupported, "'.unified' is not supported")
          .at("ptx line " + std::to_string(token_.line));
    if (!token_.is_dotted(".managed"))
      return error("expected .managed or .unified, found " + shown());
    declared.managed = true;
    CUGRT_TRY(advance());
    CUGRT_ASSIGN(bool more, accept(','));
    if (!more)
      return expect(')');
  }
}

/// .align 8 .v2 .f32 in any order, and .ptr with what follows it, for parameters.
Result<Parser::Declared> Parser::declared_type() {
  Declared declared;
  while (token_.kind == TokenKind::dotted) {
    std::string_view name = token_.text.substr(1);
    CUGRT_TRY(advance());
    if (name == "align") {
      CUGRT_ASSIGN(uint64_t align, expect_integer("an alignment"));
      if (align == 0 || align > 4096 || !std::has_single_bit(align))
        return error_at(previous_.line, "an alignment that is no power of two up to 4096");
      declared.align = std::max(declared.align, uint32_t(align));
    } else if (name == "ptr") {
      while (token_.is_dotted(".global") || token_.is_dotted(".shared") ||
             token_.is_dotted(".const") || token_.is_dotted(".local"))
        CUGRT_TRY(advance());
      if (token_.is_dotted(".align")) { // of what the pointer points to
        CUGRT_TRY(advance());
        CUGRT_ASSIGN([[maybe_unused]] uint64_t pointee, expect_integer("an alignment"));
      }
    } else if (name == "v2" || name == "v4") {
      declared.vector = name == "v2" ? 2 : 4;
    } else if (name == "attribute") {
      CUGRT_TRY(attributes(declared));
    } else if (declared.type == Type::none && is_declarable(parse_type(name))) {
      declared.type = parse_type(name);
    } else {
      return error_at(previous_.line,
                      "unexpected '." + std::string(name.substr(0, 40)) + "' in a declaration");
    }
  }
  if (declared.type == Type::none)
    return error("expected a type, found " + shown());
  return declared;
}

Status Parser::variables(Space space, Linkage linkage, bool in_function) {
  CUGRT_ASSIGN(Declared declared, declared_type());
  while (true) {
    CUGRT_TRY(declarator(declared, space, linkage, in_function));
    CUGRT_ASSIGN(bool more, accept(','));
    if (!more)
      return expect(';');
  }
}

Status Parser::declarator(const Declared &declared, Space space, Linkage linkage,
                          bool in_function) {
  Variable variable;
  variable.space = space;
  variable.type = declared.type;
  variable.linkage = linkage;
  variable.line = token_.line;
  variable.managed = declared.managed;
  if (declared.type == Type::pred)
    return error("a variable of type .pred");
  if (variable.managed && (space != Space::global || in_function))
    return error(".managed is for .global variables of a module");
  CUGRT_ASSIGN(variable.name, expect_word("a variable's name"));
  auto &variables = in_function ? current().variables : module_.variables;
  bool sink = variable.name == "_";
  if (!sink) {
    auto kind = in_function ? Symbol::Kind::variable : Symbol::Kind::module_variable;
    Symbol symbol{kind, uint32_t(variables.size())};
    if (in_function) {
      CUGRT_TRY(declare(variable.name, symbol));
    } else {
      auto [it, inserted] = module_symbols_.emplace(variable.name, symbol);
      if (!inserted) { // .extern first, then the definition
        if (it->second.kind != Symbol::Kind::module_variable ||
            module_.variables[it->second.index].linkage != Linkage::external)
          return error("'" + std::string(variable.name) + "' is declared twice");
        it->second = symbol;
      }
    }
  }
  CUGRT_TRY(finish_variable(declared, variable));
  variables.push_back(std::move(variable));
  return {};
}

Status Parser::finish_variable(const Declared &declared, Variable &variable) {
  uint32_t element = type_bytes(declared.type) * declared.vector;
  variable.align = std::max(declared.align, element);
  std::optional<int64_t> bytes = element;
  bool unsized = false;
  for (int rank = 0; token_.is('['); ++rank) {
    if (rank > 8)
      return error("an array of more than 8 dimensions");
    CUGRT_TRY(advance());
    if (token_.is(']')) {
      unsized = true;
    } else {
      CUGRT_ASSIGN(int64_t count, constant());
      bytes = count < 0 ? std::nullopt : checked_mul(*bytes, count);
      if (!bytes || uint64_t(*bytes) > kMaxVariableBytes)
        return error("'" + std::string(variable.name) + "' is too large");
    }
    CUGRT_TRY(expect(']'));
  }
  if (token_.is('=')) {
    if (variable.space != Space::global && variable.space != Space::constant)
      return error("an initialiser on a variable that is neither .global nor .const");
    CUGRT_TRY(advance());
    CUGRT_TRY(initializer(variable, 0));
    if (unsized)
      bytes = int64_t(variable.init.size());
    if (variable.init.size() > uint64_t(*bytes))
      return error("the initialiser of '" + std::string(variable.name) + "' is too long");
  } else if (unsized) {
    bytes = 0;
  }
  variable.bytes = uint64_t(*bytes);
  return {};
}

void Parser::append(Variable &variable, uint64_t bits, uint32_t bytes) {
  size_t at = variable.init.size();
  variable.init.resize(at + bytes);
  std::memcpy(variable.init.data() + at, &bits, bytes);
}

Status Parser::initializer(Variable &variable, int depth) {
  if (!token_.is('{'))
    return scalar_initializer(variable);
  if (depth > kMaxNesting)
    return error("an initialiser nested too deeply");
  CUGRT_TRY(advance());
  while (!token_.is('}')) {
    CUGRT_TRY(initializer(variable, depth + 1));
    if (!token_.is('}'))
      CUGRT_TRY(expect(','));
  }
  return advance();
}

/// One number, or one symbol's address.
Status Parser::scalar_initializer(Variable &variable) {
  uint32_t bytes = type_bytes(variable.type);
  if (bytes == 0 || bytes > 8)
    return error("an initialiser of a type that cannot have one");
  if (token_.kind == TokenKind::word)
    return address_initializer(variable, ~uint64_t(0));
  bool real = variable.type == Type::f32 || variable.type == Type::f64;
  CUGRT_ASSIGN(bool negative, is_negative_real());
  if (negative)
    CUGRT_TRY(advance());
  if (token_.kind == TokenKind::real) {
    uint64_t bits = token_.bits;
    if (variable.type == Type::f32 && !token_.is_float)
      bits = std::bit_cast<uint32_t>(float(std::bit_cast<double>(bits)));
    else if (variable.type == Type::f64 && token_.is_float)
      bits = std::bit_cast<uint64_t>(double(std::bit_cast<float>(uint32_t(bits))));
    if (negative)
      bits ^= uint64_t(1) << (bytes * 8 - 1);
    append(variable, bits, bytes);
    return advance();
  }
  CUGRT_ASSIGN(int64_t value, constant());
  if (token_.is('(') && !real) {
    CUGRT_TRY(advance());
    CUGRT_TRY(address_initializer(variable, uint64_t(value)));
    return expect(')');
  }
  uint64_t bits = uint64_t(value);
  if (variable.type == Type::f32)
    bits = std::bit_cast<uint32_t>(float(value));
  else if (variable.type == Type::f64)
    bits = std::bit_cast<uint64_t>(double(value));
  append(variable, bits, bytes);
  return {};
}

/// A symbol's address: name, name+4, generic(name), generic(name)+4, within a mask such as
/// 0xFF00(name+4) that byte of it. A function has its name alone.
Status Parser::address_initializer(Variable &variable, uint64_t mask) {
  bool is_masked = mask != ~uint64_t(0);
  int shift = std::countr_zero(mask);
  if (is_masked && (mask == 0 || shift % 8 != 0 || mask >> shift != 0xff))
    return error_at(previous_.line, "a mask that is not 0xFF, 0xFF00 or another of one byte");
  bool fits = variable.type == Type::u32 || variable.type == Type::u64 ||
              (variable.type == Type::u8 && is_masked);
  if (!fits)
    return error("an address in an initialiser that is neither .u64 nor .u32");
  bool generic = token_.text == "generic";
  if (generic) {
    CUGRT_TRY(advance());
    CUGRT_TRY(expect('('));
  }
  CUGRT_ASSIGN(std::string_view name, expect_word("a variable's or a function's name"));
  auto symbol = module_symbols_.find(name);
  if (symbol == module_symbols_.end())
    return error_at(previous_.line,
                    "'" + std::string(name) + "' is no variable or function that is known here");
  Relocation relocation;
  relocation.offset_bytes = variable.init.size();
  relocation.index = symbol->second.index;
  relocation.is_function = symbol->second.kind == Symbol::Kind::function;
  relocation.bytes = type_bytes(variable.type);
  relocation.mask = mask;
  if (generic && relocation.is_function)
    return error_at(previous_.line, "generic() of '" + std::string(name) + "', a function");
  if (generic)
    CUGRT_TRY(expect(')'));
  if (!relocation.is_function && (token_.is('+') || token_.is('-'))) {
    CUGRT_ASSIGN(relocation.addend, constant());
  }
  variable.relocations.push_back(relocation);
  append(variable, 0, relocation.bytes);
  return {};
}

Status Parser::registers() {
  CUGRT_ASSIGN(Declared declared, declared_type());
  if (declared.vector != 1)
    return Status::error(Code::unsupported,
                         "the emulated device does not execute vector registers (.reg .v2 and .v4)")
        .at("ptx line " + std::to_string(previous_.line));
  while (true) {
    CUGRT_ASSIGN(std::string_view name, expect_word("a register's name"));
    if (token_.is('<')) {
      CUGRT_TRY(advance());
      CUGRT_ASSIGN(uint64_t count, expect_integer("a number of registers"));
      CUGRT_TRY(expect('>'));
      Scope &scope = scopes_[size_t(scope_)];
      auto least = scope.least_numbered.find(name);
      if ((least != scope.least_numbered.end() && least->second < count) ||
          !scope.ranges.emplace(name, RegisterRange{declared.type, count}).second)
        return error("'" + std::string(name) + "' is declared twice");
    } else {
      CUGRT_TRY(declare(name, {Symbol::Kind::reg, uint32_t(current().registers.size())}));
      current().registers.push_back({name, declared.type});
    }
    CUGRT_ASSIGN(bool more, accept(','));
    if (!more)
      return expect(';');
  }
}

} // namespace cugrt::emulator::ptx
