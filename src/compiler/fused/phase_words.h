// Memory that the phases of one kernel (persistent.h) read and write: words that go from one to
// another, and tensors, which are parameters of the kernel.
#pragma once

#include "compiler/fused/phase_table.h"
#include "ir/module/builder.h"

#include <cstdio>
#include <map>

namespace cugrt::codegen {

class PhaseWords {
public:
  explicit PhaseWords(ir::FunctionBuilder &builder) : builder_(builder) {}

protected:
  static Status unsupported(std::string why) {
    return Status::error(Code::unsupported, std::move(why));
  }
  ir::ExprPool &exprs() { return builder_.module().exprs; }
  ir::Type type_of(ir::ValueId value) const { return builder_.type_of(value); }
  int64_t constant(ir::ExprId value) {
    const std::optional<int64_t> known = exprs().as_constant(value);
    words_known_ = words_known_ && known;
    return known.value_or(0);
  }

  int64_t take_words(int64_t count) {
    const int64_t at = word_count_;
    word_count_ += (count + 1) / 2 * 2; // pairs are read whole
    return at;
  }
  void add_words(ir::ValueId value, ir::ExprId count) {
    words_of_[value.index] = take_words(constant(count));
  }
  bool is_exchanged(ir::ValueId value) const { return words_of_.contains(value.index); }
  static std::string words_at(int64_t at) { return "kOfWords + " + std::to_string(at); }

  /// A parameter of the kernel: each tensor once.
  std::string parameter(ir::ValueId value, ir::Access access) {
    const auto [at, is_new] = parameter_of_.try_emplace(value.index, tensors_.size());
    if (is_new)
      tensors_.push_back({value, access});
    else if (tensors_[at->second].access != access)
      tensors_[at->second].access = ir::Access::inout;
    return "(u64)t" + std::to_string(at->second);
  }
  /// Where a phase finds rows: their words, or the address of a tensor that other launches use.
  std::string rows(ir::ValueId value, ir::Access access) {
    return is_exchanged(value) ? words_at(words_of_.at(value.index))
                               : parameter(value, access) + " | kPlain";
  }

  static PhaseEntry address(const std::string &type, const std::string &name, std::string value) {
    return {type + " *const " + name + " = (" + type + " *)", "", std::move(value)};
  }
  static PhaseEntry taken(const std::string &name, std::string value) {
    return {"const u64 " + name + " = ", "", std::move(value)};
  }
  static PhaseEntry given(const std::string &element, const std::string &name, std::string value) {
    return {"const Given<" + element + "> " + name + " = {", ", walk.step}", std::move(value)};
  }

  static std::string whole(const std::string &name, int64_t value) {
    return "  constexpr long long " + name + " = " + std::to_string(value) + ";\n";
  }
  static std::string acc(double value) {
    char text[64];
    std::snprintf(text, sizeof text, "Acc(%a)", value);
    return text;
  }
  static std::string number(const std::string &name, double value) {
    return "  constexpr Acc " + name + " = " + acc(value) + ";\n";
  }

  static constexpr int64_t kHeadWords = 16; // before those of phases

  struct Tensor {
    ir::ValueId value;
    ir::Access access;
  };
  ir::FunctionBuilder &builder_;
  std::vector<Tensor> tensors_; // parameters of the kernel
  int64_t word_count_ = kHeadWords;
  bool words_known_ = true;
  std::map<uint32_t, int64_t> words_of_; // by value

private:
  std::map<uint32_t, size_t> parameter_of_;
};

} // namespace cugrt::codegen
