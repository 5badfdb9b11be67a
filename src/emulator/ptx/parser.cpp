// Module level of the PTX parser: header, linkage, functions, directives.
#include "emulator/ptx/parser.h"

#include "emulator/ptx/parser_impl.h"

#include <type_traits>

namespace cugrt::emulator::ptx {

const Function *Module::find_function(std::string_view name) const {
  for (const Function &function : functions)
    if (function.name == name && !function.is_declaration)
      return &function;
  return nullptr;
}

namespace {

constexpr int kNewestKnownVersion = 90; // of targets.def

struct Target {
  int number, version, version_a, version_f;
};
constexpr Target kTargets[] = {
#define TARGET(number, version, version_a, version_f) {number, version, version_a, version_f},
#include "emulator/ptx/targets.def"
};

/// The least version that knows the target; 0 where none up to kNewestKnownVersion does.
int version_of_target(int number, char suffix) {
  for (const Target &row : kTargets)
    if (row.number == number)
      return suffix == 'a' ? row.version_a : suffix == 'f' ? row.version_f : row.version;
  return 0;
}

std::string in_words(int version) {
  return std::to_string(version / 10) + "." + std::to_string(version % 10);
}

} // namespace

Result<std::unique_ptr<Module>> parse(std::string_view text) {
  if (text.size() > kMaxTextBytes)
    return Status::error(Code::parse_error, "ptx of " + std::to_string(text.size()) +
                                                " bytes: the limit is " +
                                                std::to_string(kMaxTextBytes));
  while (!text.empty() && text.back() == '\0')
    text.remove_suffix(1);
  auto module = std::make_unique<Module>();
  module->text = text;
  Parser parser(*module);
  CUGRT_TRY(parser.run());
  return module;
}

Status Parser::error_at(uint32_t line, const std::string &message) {
  return Status::error(Code::parse_error, message).at("ptx line " + std::to_string(line));
}

std::string Parser::shown() const {
  switch (token_.kind) {
  case TokenKind::end:
    return "end of text";
  case TokenKind::string:
    return "a string";
  default:
    return "'" + std::string(token_.text.substr(0, 40)) + "'";
  }
}

Status Parser::advance() {
  previous_ = token_;
  CUGRT_ASSIGN(token_, lexer_.next());
  return {};
}

Result<Token> Parser::peek() const {
  Lexer ahead = lexer_;
  return ahead.next();
}

Status Parser::expect(char punct) {
  if (!token_.is(punct))
    return error(std::string("expected '") + punct + "', found " + shown());
  return advance();
}

Result<bool> Parser::accept(char punct) {
  if (!token_.is(punct))
    return false;
  CUGRT_TRY(advance());
  return true;
}

Result<std::string_view> Parser::expect_word(const char *what) {
  if (token_.kind != TokenKind::word)
    return error(std::string("expected ") + what + ", found " + shown());
  std::string_view text = token_.text;
  CUGRT_TRY(advance());
  return text;
}

Result<uint64_t> Parser::expect_integer(const char *what) {
  if (token_.kind != TokenKind::integer)
    return error(std::string("expected ") + what + ", found " + shown());
  uint64_t value = token_.bits;
  CUGRT_TRY(advance());
  return value;
}

Status Parser::skip_braces() {
  uint32_t line = token_.line;
  CUGRT_TRY(expect('{'));
  for (uint64_t depth = 1; depth > 0;) {
    if (token_.kind == TokenKind::end)
      return error_at(line, "a brace that is never closed");
    depth += token_.is('{');
    depth -= token_.is('}');
    CUGRT_TRY(advance());
  }
  return {};
}

Status Parser::skip_to_semicolon() {
  while (!token_.is(';')) {
    if (token_.kind == TokenKind::end)
      return error("expected ';', found end of text");
    CUGRT_TRY(advance());
  }
  return advance();
}

Status Parser::run() {
  CUGRT_TRY(advance());
  CUGRT_TRY(header());
  while (token_.kind != TokenKind::end)
    CUGRT_TRY(module_item());
  settle_functions();
  return {};
}

/// Resolves functions that were named behind their declaration alone; they are defined now.
void Parser::settle_functions() {
  auto settle = [&](auto &index) {
    auto symbol = module_symbols_.find(module_.functions[size_t(index)].name);
    index = static_cast<std::remove_reference_t<decltype(index)>>(symbol->second.index);
  };
  for (Variable &variable : module_.variables)
    for (Relocation &relocation : variable.relocations)
      if (relocation.is_function)
        settle(relocation.index);
  for (Function &function : module_.functions)
    for (auto *list : {&function.operands, &function.elements})
      for (Operand &operand : *list)
        if (operand.kind == Operand::Kind::function)
          settle(operand.index);
}

Status Parser::header() {
  if (!token_.is_dotted(".version"))
    return error("expected .version at the beginning of PTX, found " + shown());
  CUGRT_TRY(advance());
  if (token_.kind != TokenKind::real || token_.text.size() != 3 || token_.text[1] != '.')
    return error("expected a version such as 9.0, found " + shown());
  module_.version = (token_.text[0] - '0') * 10 + (token_.text[2] - '0');
  if (module_.version > kMaxVersion)
    return error("PTX version " + std::string(token_.text) + " is newer than 9.9");
  CUGRT_TRY(advance());
  if (!token_.is_dotted(".target"))
    return error("expected .target after .version, found " + shown());
  module_.target_line = token_.line;
  return target_directive();
}

Status Parser::target_directive() {
  do {
    CUGRT_TRY(advance());
    CUGRT_ASSIGN(std::string_view word, expect_word("a target such as sm_90"));
    if (word.substr(0, 3) != "sm_")
      continue; // debug, texmode_unified and the like change nothing here
    word.remove_prefix(3);
    if (!word.empty() && (word.back() == 'a' || word.back() == 'f')) {
      module_.target_suffix = word.back();
      word.remove_suffix(1);
    }
    if (word.empty() || word.size() > 3 || word.find_first_not_of("0123456789") != word.npos)
      return error_at(previous_.line, "a malformed target after .target");
    module_.target = 0;
    for (char c : word)
      module_.target = module_.target * 10 + (c - '0');
    const int least = version_of_target(module_.target, module_.target_suffix);
    const std::string name = "'" + std::string(previous_.text) + "'";
    if (least == 0 && module_.version <= kNewestKnownVersion)
      return error_at(previous_.line,
                      name + " is no target of version " + in_words(module_.version));
    if (least > module_.version)
      return error_at(previous_.line, name + " needs .version " + in_words(least) +
                                          " or later, and the module is of version " +
                                          in_words(module_.version));
  } while (token_.is(','));
  return {};
}

Status Parser::module_item() {
  if (token_.is(';'))
    return advance();
  if (token_.kind != TokenKind::dotted)
    return error("expected a directive, found " + shown());
  std::string_view name = token_.text;
  if (name == ".file")
    return file_directive();
  if (name == ".section") {
    while (!token_.is('{') && token_.kind != TokenKind::end)
      CUGRT_TRY(advance());
    return skip_braces();
  }
  if (name == ".pragma" || name == ".alias")
    return skip_to_semicolon();
  if (name == ".address_size") {
    CUGRT_TRY(advance());
    CUGRT_ASSIGN(uint64_t size, expect_integer("64 after .address_size"));
    if (size != 64)
      return error_at(previous_.line, "address size " + std::to_string(size) +
                                          " is not supported: compile for 64 bits");
    return {};
  }
  Linkage linkage = Linkage::local;
  while (name == ".visible" || name == ".extern" || name == ".weak" || name == ".common") {
    linkage = name == ".extern"    ? Linkage::external
              : name == ".visible" ? Linkage::visible
                                   : Linkage::weak;
    CUGRT_TRY(advance());
    if (token_.kind != TokenKind::dotted)
      return error("expected a declaration after the linkage, found " + shown());
    name = token_.text;
  }
  if (name == ".entry" || name == ".func") {
    CUGRT_TRY(advance());
    return function(name == ".entry", linkage);
  }
  Space space = name == ".global"   ? Space::global
                : name == ".const"  ? Space::constant
                : name == ".shared" ? Space::shared
                                    : Space::none;
  if (space == Space::none)
    return error("unknown directive " + shown());
  CUGRT_TRY(advance());
  return variables(space, linkage, false);
}

Status Parser::file_directive() {
  CUGRT_TRY(advance());
  CUGRT_ASSIGN(uint64_t number, expect_integer("a file number"));
  if (token_.kind != TokenKind::string)
    return error("expected a file name, found " + shown());
  constexpr uint64_t kMaxFiles = 1 << 16;
  if (number >= kMaxFiles)
    return error("file number " + std::to_string(number) + " is too large");
  if (module_.files.size() <= number)
    module_.files.resize(number + 1);
  module_.files[number] = token_.text;
  CUGRT_TRY(advance());
  while (token_.is(',')) { // time stamp and size
    CUGRT_TRY(advance());
    CUGRT_ASSIGN([[maybe_unused]] uint64_t ignored, expect_integer("an integer"));
  }
  return {};
}

Status Parser::function(bool is_kernel, Linkage linkage) {
  module_.functions.emplace_back();
  scopes_.clear();
  scopes_.emplace_back();
  scope_ = 0;
  pending_.clear();
  file_ = source_line_ = 0;
  current().is_kernel = is_kernel;
  current().linkage = linkage;
  current().line = token_.line;
  if (!is_kernel && token_.is('('))
    CUGRT_TRY(parameters(current().returns));
  uint32_t line = token_.line;
  CUGRT_ASSIGN(current().name, expect_word("a function's name"));
  if (token_.is('('))
    CUGRT_TRY(parameters(current().parameters));
  CUGRT_TRY(function_directives());
  uint32_t index = uint32_t(module_.functions.size() - 1);
  auto [it, inserted] =
      module_symbols_.emplace(current().name, Symbol{Symbol::Kind::function, index});
  if (!inserted) {
    bool replaces = it->second.kind == Symbol::Kind::function &&
                    (module_.functions[it->second.index].is_declaration || token_.is(';'));
    if (!replaces)
      return error_at(line, "'" + std::string(current().name) + "' is defined twice");
    if (!token_.is(';'))
      it->second.index = index;
  }
  if (token_.is(';')) {
    current().is_declaration = true;
    scope_ = -1;
    return advance();
  }
  if (linkage == Linkage::external)
    return error("an .extern function with a body");
  return body();
}

Status Parser::parameters(std::vector<Parameter> &out) {
  CUGRT_TRY(expect('('));
  while (!token_.is(')')) {
    bool is_register = token_.is_dotted(".reg");
    if (!is_register && !token_.is_dotted(".param"))
      return error("expected .param or .reg, found " + shown());
    CUGRT_TRY(advance());
    CUGRT_ASSIGN(Declared declared, declared_type());
    constexpr size_t kMaxParameters = 4096;
    if (out.size() >= kMaxParameters)
      return error("more than 4096 parameters");
    if (is_register) {
      CUGRT_ASSIGN(std::string_view name, expect_word("a register's name"));
      out.push_back({uint32_t(current().registers.size()), true});
      CUGRT_TRY(declare(name, {Symbol::Kind::reg, uint32_t(current().registers.size())}));
      current().registers.push_back({name, declared.type});
    } else {
      out.push_back({uint32_t(current().variables.size()), false});
      CUGRT_TRY(declarator(declared, Space::param, Linkage::local, true));
    }
    if (!token_.is(')'))
      CUGRT_TRY(expect(','));
  }
  return advance();
}

Status Parser::function_directives() {
  while (token_.kind == TokenKind::dotted) {
    std::string_view name = token_.text;
    CUGRT_TRY(advance());
    if (name == ".maxntid") {
      CUGRT_TRY(dimensions(current().max_threads, "a number of threads"));
    } else if (name == ".reqntid") {
      CUGRT_TRY(dimensions(current().required_threads, "a number of threads"));
    } else if (name == ".reqnctapercluster") {
      CUGRT_TRY(dimensions(current().required_cluster, "a number of blocks"));
    } else if (name == ".maxclusterrank" || name == ".maxnreg" || name == ".minnctapersm" ||
               name == ".maxnctapersm") {
      CUGRT_ASSIGN(uint64_t value, expect_integer("an integer"));
      uint32_t &stated = name == ".maxclusterrank" ? current().max_cluster_rank
                         : name == ".maxnreg"      ? current().max_registers
                                                   : current().min_resident_blocks;
      stated = uint32_t(std::min<uint64_t>(value, UINT32_MAX));
    } else if (name == ".explicitcluster") {
      current().explicit_cluster = true;
    } else if (name == ".pragma") {
      CUGRT_TRY(skip_to_semicolon());
    } else if (name == ".blocksareclusters") {
      return error_at(previous_.line,
                      "grids counted in clusters are not supported: " + std::string(name));
    } else if (name != ".noreturn" && name != ".abi_preserve" && name != ".abi_preserve_control") {
      return error_at(previous_.line,
                      "unknown directive '" + std::string(name.substr(0, 40)) + "'");
    }
  }
  return {};
}

Status Parser::dimensions(std::array<uint32_t, 3> &out, const char *what) {
  out = {1, 1, 1};
  for (size_t i = 0; i < 3; ++i) {
    CUGRT_ASSIGN(uint64_t value, expect_integer(what));
    if (value == 0 || value > 1u << 20)
      return error_at(previous_.line, std::string(what) + " out of range");
    out[i] = uint32_t(value);
    CUGRT_ASSIGN(bool more, accept(','));
    if (!more)
      break;
  }
  return {};
}

} // namespace cugrt::emulator::ptx
