// The printer (private to the IR layer).
//
// printer.cpp: modules, types, functions · print_binding.cpp: bindings · print_kernel.cpp: kernels,
// constants, attribute values.
#pragma once

#include "ir/text/text.h"

#include <utility>

namespace cugrt::ir {

class Printer {
public:
  explicit Printer(const Module &module, size_t limit = SIZE_MAX)
      : module_(module), limit_(limit) {}
  /// Gives the parts of the module their places in its text.
  explicit Printer(Module &module) : module_(module), limit_(SIZE_MAX), gives_places_(true) {}

  void module();
  void set_places(); // after module()
  void type(TypeId id);
  /// One binding at `indent`; nested blocks follow on their own lines or are elided.
  void binding(const Binding &b, uint32_t indent, bool elide_blocks);
  void enter(const Function *function);
  std::string take() { return std::exchange(out_, {}); }

private:
  // How a symbol that the parser has not met yet is treated where the next expressions stand.
  enum class Place { defines, defines_bare, uses };

  void function(const Function &f);
  void parameters(const Function &f);
  void constraints(const Function &f, bool &any);
  void buckets(const Function &f, bool &any);
  void function_attributes(const Function &f);
  void symbol_order(const Function &f, size_t at);
  void replace(size_t at, size_t count, std::string_view text);
  /// Gives this part the place of the text that is printed next.
  void place(const SourceLocation &part) {
    if (gives_places_)
      places_.push_back({out_.size(), &part});
  }
  void place_symbol(SymbolId symbol, ExprId e);
  void bounds(const Function &f, const char *name, bool upper, bool &any);
  void note(ExprId e);
  void expr(ExprId e);
  void delimited(ExprId e); // inside < >: comparisons need parentheses
  void exprs(std::span<const ExprId> list);
  void types(std::span<const TypeId> list);
  void value(ValueId id);
  void operand(const Operand &o);
  void operands(std::span<const Operand> list);
  void attributes(std::span<const Attribute> list);
  void right_side(const Binding &b);
  void if_(const Binding &b, uint32_t indent, bool elide_blocks);
  void while_(const Binding &b, uint32_t indent, bool elide_blocks);
  void captures(std::span<const Operand> list);
  void nested(uint32_t block, uint32_t indent, bool elide);
  void block(const Block &b, uint32_t indent, const char *last);
  bool carried_as_default(const Type &type, const Operand &initial) const;

  void kernel(const Kernel &k);
  void kernel_param(const Kernel &k, const KernelParam &p);
  void variant(const KernelVariant &v);
  void launch_dims(const char *word, const std::array<ExprId, 3> &dims);
  void constant(const Constant &c);
  void constant_elements(const Constant &c, const Type &t, int64_t count);

  Printer &operator<<(std::string_view text) {
    out_ += text;
    return *this;
  }
  Printer &operator<<(int64_t number) {
    out_ += std::to_string(number);
    return *this;
  }
  void indent(uint32_t levels) { out_.append(2 * size_t(levels), ' '); }

  const Module &module_;
  size_t limit_;
  const Function *function_ = nullptr;
  std::vector<std::string> symbol_names_; // of the function or kernel that is printed
  std::string out_;

  struct PlacedPart {
    size_t offset;
    const SourceLocation *part; // of the module that the constructor was given to change
  };
  bool gives_places_ = false;
  std::vector<PlacedPart> places_; // of one part the last one holds

  // Whether the parser would number the function's symbols as they are: it numbers them as they
  // come.
  Place place_ = Place::uses;
  std::vector<bool> met_;
  std::vector<SymbolId> scratch_;
  uint32_t met_count_ = 0;
  bool in_order_ = true;
};

/// Shortest decimal that reads back as the same number; always with a point, an exponent, or a
/// word.
void append_double(std::string &out, double value);
void append_attribute_value(std::string &out, const AttributeValue &value);

} // namespace cugrt::ir
