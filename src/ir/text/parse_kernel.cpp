// Parsing of kernel declarations and constants.
#include "ir/text/parser.h"

#include "base/type/element.h"
#include "ir/module/names.h"

#include <charconv>
#include <limits>

namespace cugrt::ir {

namespace {

// Fields that may be given once; bits of a set.
enum KernelField : uint32_t { kCode = 1, kEntry = 2, kOptions = 4, kParams = 8 };
enum LaunchField : uint32_t {
  kWhen = 1,
  kLaunchEntry = 2,
  kGrid = 4,
  kBlock = 8,
  kShared = 16,
  kWorkspace = 32,
  kCluster = 64,
  kCooperative = 128,
  kProgrammatic = 256,
};

constexpr size_t kMaxVariants = 256;

} // namespace

// --- Kernels -------------------------------------------------------------------------------------

void Parser::kernel() {
  symbols_ = Symbols::kernel;
  kernel_symbols_.clear();
  Kernel k;
  k.location = token_.location;
  // Declared before its body is read, so that an error in there is the only one.
  auto number = static_cast<uint32_t>(module_.kernels.size());
  k.name = global_name(kernel_names_, number, "kernel");
  module_.kernels.push_back(k);
  expect_sign("{", "after the kernel's name");
  uint32_t seen = 0;
  while (!at_sign("}"))
    kernel_field(k, seen);
  SourceLocation end = token_.location;
  advance();
  for (auto [field, what] : {std::pair{kCode, "source, inline, ptx or cubin"},
                             std::pair{kEntry, "entry"}, std::pair{kParams, "params"}})
    if (!(seen & field))
      fail(end, "kernel @" + k.name + " has no " + what);
  if (k.variants.empty())
    fail(end, "kernel @" + k.name + " has no launch");
  module_.kernels[number] = std::move(k);
}

void Parser::kernel_field(Kernel &k, uint32_t &seen) {
  SourceLocation location = token_.location;
  auto once = [&](uint32_t field) {
    if (seen & field)
      fail(location, "this is given twice for kernel @" + k.name);
    seen |= field;
  };
  static constexpr std::pair<std::string_view, CodeKind> kCodes[] = {
      {"source", CodeKind::source_file},
      {"inline", CodeKind::source_text},
      {"ptx", CodeKind::ptx_file},
      {"cubin", CodeKind::cubin_file}};
  for (const auto &[word, kind] : kCodes)
    if (accept_word(word)) {
      once(kCode);
      k.code_kind = kind;
      k.code = string("a string with the code or its path");
      return;
    }
  if (accept_word("entry")) {
    once(kEntry);
    k.entry = string("a string with the function's name");
  } else if (accept_word("options")) {
    once(kOptions);
    expect_sign("[", "before options");
    list("]", "options", [&] { k.options.push_back(string("a compiler option as a string")); });
  } else if (accept_word("params")) {
    once(kParams);
    kernel_params(k);
  } else if (accept_word("launch")) {
    kernel_launch(k);
  } else {
    fail_here("source, inline, ptx, cubin, entry, options, params, launch or '}'");
  }
}

void Parser::kernel_params(Kernel &k) {
  std::vector<OverName> over; // may name parameters that follow
  expect_sign("(", "before parameters");
  list(")", "parameters", [&] { kernel_param(k, over); });
  for (const OverName &named : over) {
    uint32_t other = 0;
    while (other < k.params.size() && k.params[other].name != named.name)
      ++other;
    if (other == k.params.size())
      fail(named.location, "kernel @" + k.name + " has no parameter '" + named.name + "'");
    k.params[named.param].over.push_back(other);
  }
}

// Reads a name after 'over', or several in parentheses.
void Parser::over_names(size_t param, std::vector<OverName> &over) {
  auto name = [&] {
    const SourceLocation location = token_.location;
    const auto text = take(TokenKind::word, "the name of a parameter that is read");
    over.push_back({param, std::string(text), location});
  };
  accept_sign("(") ? list(")", "parameters that are read", name) : name();
}

void Parser::kernel_param(Kernel &k, std::vector<OverName> &over) {
  KernelParam p;
  SourceLocation location = token_.location;
  const std::string_view name = take(TokenKind::word, "the name of a parameter");
  expect_sign(":", "after the name of a parameter");
  p.name = name;
  for (const KernelParam &other : k.params)
    if (other.name == p.name)
      fail(location, "parameter '" + p.name + "' is already defined");
  static constexpr std::pair<std::string_view, Access> kAccess[] = {
      {"in", Access::in}, {"out", Access::out}, {"inout", Access::inout}};
  static constexpr std::pair<std::string_view, KernelParamKind> kKinds[] = {
      {"scalar", KernelParamKind::scalar},
      {"symbol", KernelParamKind::symbol},
      {"device_symbol", KernelParamKind::device_symbol},
      {"checked_symbol", KernelParamKind::checked_symbol}};
  bool known = false;
  for (const auto &[word, access] : kAccess)
    if (at_word(word))
      known = true, p.access = access;
  for (const auto &[word, kind] : kKinds)
    if (at_word(word))
      known = true, p.kind = kind;
  if (!known)
    fail_here("in, out, inout, scalar, symbol, device_symbol or checked_symbol");
  advance();
  p.any_dtype = p.kind == KernelParamKind::tensor && accept_word("any");
  if (!p.any_dtype)
    p.dtype = dtype();
  if (p.kind == KernelParamKind::symbol) {
    if (is_reserved(p.name))
      fail(location, "'" + p.name + "' is a word of the language, no symbol can have it");
    p.symbol = {static_cast<uint32_t>(k.symbols.size())};
    kernel_symbols_.emplace(name, p.symbol.index);
    k.symbols.push_back(p.name);
  }
  k.params.push_back(std::move(p));
  if (accept_word("over"))
    over_names(k.params.size() - 1, over);
}

std::array<ExprId, 3> Parser::launch_dims() {
  std::array<ExprId, 3> all;
  all.fill(module_.exprs.constant(1));
  size_t count = 0;
  expect_sign("(", "before launch dimensions");
  list(")", "launch dimensions", [&] {
    if (count == all.size())
      fail(token_.location, "more than three launch dimensions");
    all[count++] = expr();
  });
  return all;
}

void Parser::launch_field(KernelVariant &v, uint32_t &seen) {
  SourceLocation location = token_.location;
  auto is = [&](const char *word, uint32_t field) {
    if (!at_word(word))
      return false;
    if (seen & field)
      report(location, "'" + std::string(word) + "' is given twice");
    seen |= field;
    advance();
    return true;
  };
  if (is("when", kWhen)) {
    v.predicate = expr();
  } else if (is("entry", kLaunchEntry)) {
    v.entry = string("a string with the function's name");
  } else if (is("grid", kGrid)) {
    v.grid = launch_dims();
  } else if (is("block", kBlock)) {
    v.block = launch_dims();
  } else if (is("shared", kShared)) {
    v.shared_bytes = expr();
  } else if (is("workspace", kWorkspace)) {
    v.workspace_bytes = expr();
  } else if (is("cooperative", kCooperative)) {
    v.cooperative = true;
  } else if (is("programmatic", kProgrammatic)) {
    v.programmatic = true;
  } else if (is("cluster", kCluster)) {
    v.cluster.fill(1);
    size_t count = 0;
    expect_sign("(", "before the cluster's dimensions");
    list(")", "dimensions", [&] {
      SourceLocation at = token_.location;
      const int64_t size = integer("a constant");
      if (count == v.cluster.size() || size < 1 || size > 1024)
        fail(at, "a cluster has up to three dimensions from 1 to 1024");
      v.cluster[count++] = static_cast<uint32_t>(size);
    });
  } else {
    fail_here("when, entry, grid, block, shared, workspace, cluster, cooperative, "
              "programmatic or '}'");
  }
}

void Parser::kernel_launch(Kernel &k) {
  SourceLocation location = token_.location;
  if (k.variants.size() == kMaxVariants)
    fail(location, "more than " + std::to_string(kMaxVariants) + " launches");
  KernelVariant v;
  uint32_t seen = 0;
  expect_sign("{", "after 'launch'");
  while (!accept_sign("}"))
    launch_field(v, seen);
  if (!(seen & kGrid) || !(seen & kBlock))
    fail(location, "a launch needs grid and block");
  k.variants.push_back(std::move(v));
}

// --- Constants -----------------------------------------------------------------------------------

void Parser::constant() {
  symbols_ = Symbols::kernel; // without a name in it: dimensions are constants
  kernel_symbols_.clear();
  Constant c;
  c.location = token_.location;
  auto number = static_cast<uint32_t>(module_.constants.size());
  c.name = global_name(constant_names_, number, "constant");
  c.type = module_.types.simple(TypeKind::object);
  module_.constants.push_back(c);
  expect_sign(":", "after the constant's name");
  const SourceLocation type_location = token_.location;
  c.type = type();
  const Type &t = module_.types[c.type];
  if (t.kind != TypeKind::tensor || !t.known_shape || !t.strides.empty())
    fail(type_location, "a constant is a contiguous tensor with constant dimensions");
  module_.constants[number].type = c.type;
  expect_sign("=", "after the constant's type");
  constant_bytes(c);
  module_.constants[number] = std::move(c);
}

void Parser::constant_bytes(Constant &c) {
  SourceLocation location = token_.location;
  const Type t = module_.types[c.type];
  auto bytes = module_.exprs.as_constant(tensor_bytes(module_.exprs, t));
  if (!bytes)
    fail(location, "the size of this constant does not fit into 64 bits");
  if (token_.kind == TokenKind::hex) {
    constant_hex(c);
  } else {
    expect_sign("[", "or x\"...\" with the constant's elements");
    int64_t count = 1, row = 1; // fit, since the bytes do, or there are 0 of them
    for (ExprId d : t.dims) {
      row = *module_.exprs.as_constant(d);
      count = *bytes == 0 ? 0 : count * row;
    }
    constant_elements(c, count, row);
  }
  if (static_cast<uint64_t>(*bytes) != c.bytes.size())
    fail(location, "this constant has " + std::to_string(c.bytes.size()) + " bytes, its type has " +
                       std::to_string(*bytes));
}

void Parser::constant_elements(Constant &c, int64_t count, int64_t row) {
  SourceLocation location = token_.location;
  DType dtype = module_.types[c.type].dtype;
  if (!has_number_elements(dtype))
    fail(location, "elements of block dtypes are written as x\"...\"");
  int64_t given = 0;
  int nibbles = 0; // of the byte that 4-bit elements are filling
  while (!accept_sign("]")) {
    if (given > 0)
      expect_sign(",", "or ']' after an element");
    constant_element(dtype, c.bytes, nibbles);
    ++given;
    if (nibbles != 0 && row > 0 && given % row == 0)
      nibbles = 0; // rows begin at whole bytes
  }
  if (given != count)
    fail(location, "this constant has " + std::to_string(given) + " elements, its type has " +
                       std::to_string(count));
}

void Parser::constant_element(DType dtype, std::string &bytes, int &nibbles) {
  SourceLocation location = token_.location;
  const DTypeInfo &d = info(dtype);
  std::string misfit = "this element does not fit into " + std::string(d.name);
  if (d.kind == DTypeKind::boolean && (at_word("true") || at_word("false"))) {
    append_integer(dtype, at_word("true"), bytes);
    return advance();
  }
  bool negative = accept_sign("-");
  if (d.kind == DTypeKind::floating) {
    double real =
        token_.kind == TokenKind::integer ? static_cast<double>(token_.magnitude) : token_.real;
    if (at_word("inf"))
      real = std::numeric_limits<double>::infinity();
    else if (at_word("nan"))
      real = std::numeric_limits<double>::quiet_NaN();
    else if (token_.kind != TokenKind::integer && token_.kind != TokenKind::floating)
      fail_here("a number");
    if (float single; dtype == DType::f32 && token_.kind == TokenKind::floating) {
      // Read at once as f32: by way of f64 it would be rounded twice.
      auto [end, error] =
          std::from_chars(token_.text.data(), token_.text.data() + token_.text.size(), single);
      if (error != std::errc())
        fail(location, misfit);
      real = static_cast<double>(single);
    }
    advance();
    if (!append_float(dtype, negative ? -real : real, bytes))
      fail(location, misfit);
    return;
  }
  if (token_.kind != TokenKind::integer)
    fail_here("an integer");
  uint64_t magnitude = token_.magnitude;
  advance();
  // 2^63 and more: only the token's bound lets 2^63 through, for the least i64.
  bool above = magnitude > uint64_t(INT64_MAX) && !negative;
  auto value = static_cast<int64_t>(negative ? -magnitude : magnitude);
  if (!integer_fits(dtype, value, above))
    fail(location, misfit);
  if (d.elements_per_block == 1) {
    append_integer(dtype, value, bytes);
  } else if (nibbles == 0) { // the first element of a byte is its low half
    bytes += static_cast<char>(value & 15);
    nibbles = 1;
  } else {
    bytes.back() = static_cast<char>((bytes.back() & 15) | (value & 15) << 4);
    nibbles = 0;
  }
}

void Parser::constant_hex(Constant &c) {
  auto digit = [](char ch) {
    return is_digit(ch)             ? ch - '0'
           : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
           : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
                                    : -1;
  };
  const bool truth = module_.types[c.type].dtype == DType::boolean;
  for (; token_.kind == TokenKind::hex; advance()) {
    std::string_view text = token_.text;
    if (text.size() % 2 != 0)
      fail(token_.location, "an odd number of hex digits");
    for (size_t i = 0; i < text.size(); i += 2) {
      int high = digit(text[i]), low = digit(text[i + 1]);
      SourceLocation location = token_.location;
      location.column += static_cast<uint32_t>(i + (high >= 0 && low < 0 ? 3 : 2));
      if (high < 0 || low < 0)
        fail(location, "this is no hex digit");
      if (truth && (high || low > 1))
        fail(location, "a bool is 00 or 01");
      c.bytes += static_cast<char>(high << 4 | low);
    }
  }
}

} // namespace cugrt::ir
