// Printing of modules, types and functions.
#include "ir/text/printer.h"

#include "ir/module/names.h"
#include "ir/text/lexer.h"

#include <algorithm>

namespace cugrt::ir {

// --- Expressions and types -----------------------------------------------------------------------

void Printer::enter(const Function *function) {
  function_ = function;
  symbol_names_ = function ? function->symbol_names() : std::vector<std::string>();
  met_.assign(symbol_names_.size(), false);
  met_count_ = 0;
  in_order_ = true;
  place_ = Place::uses;
}

void Printer::note(ExprId e) {
  if (met_count_ == met_.size() || module_.exprs.as_constant(e))
    return;
  bool bare = module_.exprs[e].kind == ExprKind::symbol;
  bool defines = place_ == Place::defines || (place_ == Place::defines_bare && bare);
  scratch_.clear();
  module_.exprs.collect_symbols(e, scratch_);
  for (SymbolId s : scratch_)
    if (s.index < met_.size() && !met_[s.index]) {
      met_[s.index] = true;
      in_order_ = in_order_ && defines && s.index == met_count_;
      ++met_count_;
      place_symbol(s, e);
    }
}

void Printer::expr(ExprId e) {
  note(e);
  out_ += module_.exprs.to_string(e, symbol_names_);
}

/// Gives the symbol the place of its name in the expression, which is printed next.
void Printer::place_symbol(SymbolId symbol, ExprId e) {
  if (!gives_places_ || !function_)
    return;
  const std::string text = module_.exprs.to_string(e, symbol_names_),
                    &name = symbol_names_[symbol.index];
  const auto in_name = [&](size_t at) { return at < text.size() && is_name_char(text[at]); };
  size_t at = text.find(name);
  while ((at && in_name(at - 1)) || in_name(at + name.size()))
    at = text.find(name, at + 1);
  places_.push_back({out_.size() + at, &function_->symbols[symbol.index].location});
}

void Printer::delimited(ExprId e) {
  ExprKind kind = module_.exprs[e].kind;
  bool comparison = kind >= ExprKind::eq && kind <= ExprKind::le;
  *this << (comparison ? "(" : "");
  expr(e);
  *this << (comparison ? ")" : "");
}

void Printer::exprs(std::span<const ExprId> list) {
  *this << "[";
  for (size_t i = 0; i < list.size(); ++i) {
    *this << (i ? ", " : "");
    expr(list[i]);
  }
  *this << "]";
}

void Printer::types(std::span<const TypeId> list) {
  *this << "(";
  for (size_t i = 0; i < list.size(); ++i) {
    *this << (i ? ", " : "");
    type(list[i]);
  }
  *this << ")";
}

void Printer::type(TypeId id) {
  if (!id.valid()) {
    *this << "?";
    return;
  }
  if (out_.size() > limit_) {
    *this << "...";
    return;
  }
  const Type &t = module_.types[id];
  switch (t.kind) {
  case TypeKind::tensor:
    *this << "tensor<";
    if (t.known_shape)
      exprs(t.dims);
    else
      *this << "?";
    *this << ", " << info(t.dtype).name;
    if (!t.strides.empty()) {
      *this << ", strides ";
      Place outer = place_;
      if (place_ == Place::defines_bare)
        place_ = Place::uses;
      exprs(t.strides);
      place_ = outer;
    }
    if (t.scope != 0)
      *this << ", scope \"" << module_.types.scope_name(t.scope) << "\"";
    *this << ">";
    return;
  case TypeKind::storage:
    *this << "storage<\"" << module_.types.scope_name(t.scope) << "\", ";
    delimited(t.dims[0]);
    *this << ">";
    return;
  case TypeKind::scalar:
    *this << (t.scalar == ScalarKind::integer    ? "int"
              : t.scalar == ScalarKind::floating ? "float"
                                                 : "bool");
    if (!t.dims.empty()) {
      *this << "<";
      delimited(t.dims[0]);
      *this << ">";
    }
    return;
  case TypeKind::shape:
    *this << "shape<";
    if (t.known_shape)
      exprs(t.dims);
    else
      *this << "?";
    *this << ">";
    return;
  case TypeKind::tuple:
    *this << "tuple<";
    for (size_t i = 0; i < t.fields.size() && out_.size() <= limit_; ++i) {
      *this << (i ? ", " : "");
      type(t.fields[i]);
    }
    *this << ">";
    return;
  case TypeKind::string:
    *this << "string";
    return;
  case TypeKind::dtype:
    *this << "dtype";
    return;
  case TypeKind::object:
    *this << "object";
    return;
  }
}

// --- Functions -----------------------------------------------------------------------------------

void Printer::parameters(const Function &f) {
  place_ = Place::defines;
  *this << "(";
  for (size_t i = 0; i < f.params.size(); ++i) {
    const Parameter &p = f.params[i];
    *this << (i ? ", " : "");
    place(f.value(p.value).location);
    value(p.value);
    *this << ": " << (p.access == Access::in ? "" : p.access == Access::out ? "out " : "inout ");
    type(f.value(p.value).type);
    if (p.alignment_bytes)
      *this << " align " << int64_t(p.alignment_bytes);
  }
  *this << ")";
  place_ = Place::uses;
}

void Printer::bounds(const Function &f, const char *name, bool upper, bool &any) {
  bool first = true;
  for (const Symbol &s : f.symbols) {
    bool given = upper ? s.bounds.upper != INT64_MAX : s.bounds.lower != 0;
    if (!given || s.source == SymbolSource::device || s.source == SymbolSource::bucket)
      continue;
    if (first)
      *this << (any ? ", " : " attributes {") << name << " = {";
    *this << (first ? "" : ", ") << s.name << " = " << (upper ? s.bounds.upper : s.bounds.lower);
    first = false;
    any = true;
  }
  *this << (first ? "" : "}");
}

void Printer::constraints(const Function &f, bool &any) {
  for (size_t i = 0; i < f.constraints.size(); ++i) {
    const Constraint &c = f.constraints[i];
    *this << (i ? ", " : any ? ", constraints = [" : " attributes {constraints = [");
    place(c.location);
    *this << module_.exprs.to_string(c.expr, symbol_names_) << " <= " << c.most;
  }
  *this << (f.constraints.empty() ? "" : "]");
  any = any || !f.constraints.empty();
}

void Printer::buckets(const Function &f, bool &any) {
  auto list = [&](const char *name, auto given, auto print) {
    bool first = true;
    for (const Symbol &s : f.symbols) {
      if (!given(s))
        continue;
      if (first)
        *this << (any ? ", " : " attributes {") << name << " = {";
      *this << (first ? "" : ", ") << s.name << " = ";
      print(s);
      first = false;
      any = true;
    }
    *this << (first ? "" : "}");
  };
  list(
      "buckets", [](const Symbol &s) { return !s.buckets.empty(); },
      [&](const Symbol &s) { append_attribute_value(out_, s.buckets); });
  list(
      "bucket_symbols", [&](const Symbol &s) { return s.bucket_of < f.symbols.size(); },
      [&](const Symbol &s) { *this << f.symbols[s.bucket_of].name; });
}

void Printer::function_attributes(const Function &f) {
  bool any = false;
  auto separate = [&] {
    *this << (any ? ", " : " attributes {");
    any = true;
  };
  if (f.num_inputs != UINT32_MAX) {
    separate();
    *this << "num_inputs = " << int64_t(f.num_inputs);
  }
  bounds(f, "lower_bounds", false, any);
  bounds(f, "upper_bounds", true, any);
  constraints(f, any);
  bool first = true;
  for (const Symbol &s : f.symbols)
    if (s.capturable) {
      if (first)
        separate();
      *this << (first ? "capture_symbols = [" : ", ") << s.name;
      first = false;
    }
  *this << (first ? "" : "]");
  buckets(f, any);
  for (size_t i = 0; i < f.counted_dims.size(); ++i) {
    const CountedDim &c = f.counted_dims[i];
    if (i == 0)
      separate();
    *this << (i ? ", " : "counted_dims = [") << int64_t(c.result) << "[" << int64_t(c.dim)
          << "] = " << int64_t(c.count);
  }
  *this << (f.counted_dims.empty() ? "" : "]");
  for (const Attribute &a : f.extra_attributes) {
    separate();
    *this << a.name << " = ";
    append_attribute_value(out_, a.value);
  }
  *this << (any ? "}" : "");
}

/// Writes the symbols' order after the name if the parser would number them otherwise.
void Printer::symbol_order(const Function &f, size_t at) {
  if (in_order_ && met_count_ == f.symbols.size())
    return;
  std::string order = "<";
  std::vector<PlacedPart> listed;
  for (const Symbol &s : f.symbols) {
    order += order.size() > 1 ? ", " : "";
    if (s.source != SymbolSource::device) // which are placed where they are read
      listed.push_back({at + order.size(), &s.location});
    order += s.name;
  }
  replace(at, 0, order + ">");
  if (gives_places_)
    places_.insert(places_.end(), listed.begin(), listed.end());
}

void Printer::replace(size_t at, size_t count, std::string_view text) {
  out_.replace(at, count, text);
  for (size_t i = places_.size(); i > 0 && places_[i - 1].offset >= at; --i)
    places_[i - 1].offset += text.size() - count;
}

// Signatures longer than this are broken.
static constexpr size_t kLineBytes = 98;

void Printer::function(const Function &f) {
  enter(&f);
  size_t begin = out_.size();
  *this << (f.is_private ? "private func " : "func ");
  place(f.location);
  *this << "@" << f.name;
  size_t after_name = out_.size();
  parameters(f);
  size_t after_parameters = out_.size();
  if (!f.result_types.empty()) {
    *this << " -> ";
    types(f.result_types);
  }
  size_t after_results = out_.size();
  function_attributes(f);
  if (out_.size() - begin > kLineBytes) { // results and attributes on lines of their own
    if (out_.size() != after_results)
      replace(after_results, 1, "\n    ");
    if (after_results != after_parameters)
      replace(after_parameters, 1, "\n    ");
  }
  *this << " {\n";
  block(f.body(), 1, "return");
  *this << "}\n";
  symbol_order(f, after_name);
  enter(nullptr);
}

void Printer::module() {
  *this << "cugrt 1\n";
  for (const Kernel &k : module_.kernels) {
    *this << "\n";
    kernel(k);
  }
  if (!module_.constants.empty())
    *this << "\n";
  for (const Constant &c : module_.constants)
    constant(c);
  for (const Function &f : module_.functions) {
    *this << "\n";
    function(f);
  }
}

void Printer::set_places() {
  std::vector<size_t> lines{0}; // where each begins
  for (size_t at = out_.find('\n'); at != std::string::npos; at = out_.find('\n', at + 1))
    lines.push_back(at + 1);
  for (const PlacedPart &placed : places_) {
    const auto line = std::upper_bound(lines.begin(), lines.end(), placed.offset) - lines.begin();
    *const_cast<SourceLocation *>(placed.part) = {
        static_cast<uint32_t>(line),
        static_cast<uint32_t>(placed.offset - lines[static_cast<size_t>(line) - 1] + 1)};
  }
}

std::string print(const Module &module) {
  Printer printer(module);
  printer.module();
  return printer.take();
}

std::string print_with_places(Module &module) {
  Printer printer(module);
  printer.module();
  printer.set_places();
  return printer.take();
}

// Messages quote types: a type shared with itself many times over is cut short.
static constexpr size_t kQuotedTypeBytes = 4096;

std::string print_type(const Module &module, const Function *function, TypeId type) {
  Printer printer(module, kQuotedTypeBytes);
  printer.enter(function);
  printer.type(type);
  return printer.take();
}

BindingPrinter::BindingPrinter(const Module &module, const Function &function)
    : printer_(std::make_unique<Printer>(module, kQuotedTypeBytes)) {
  printer_->enter(&function);
}

BindingPrinter::~BindingPrinter() = default;

std::string BindingPrinter::print(const Binding &binding) {
  printer_->binding(binding, 0, true);
  std::string text = printer_->take();
  if (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

std::string print_binding(const Module &module, const Function &function, const Binding &binding) {
  return BindingPrinter(module, function).print(binding);
}

} // namespace cugrt::ir
