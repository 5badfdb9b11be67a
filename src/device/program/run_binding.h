// RunBinding: the inputs of one function's steps in one run: values of symbols, addresses of bases,
// host scalars.
//
// It is filled by symbol_binding.h, by match items and by host calls; everything that is
// launched reads it. Its serial number changes whenever anything in it does, so that an unchanged
// run costs one comparison.
#pragma once

#include "device/program/function_program.h"

namespace cugrt::runtime {

/// An input that differs between runs, by its number.
struct RunInput {
  enum class Kind : uint8_t { base, symbol, host } kind = Kind::base;
  uint32_t index = 0; // a base, SymbolId or host value of the run
};

/// An input whose value has changed: `by` more, as 64 bits that wrap.
struct InputChange {
  RunInput input;
  uint64_t by = 0;
};

struct RunBinding {
  RunBinding(const plan::Plan &plan, const plan::Function &function,
             const FunctionProgram &program);

  const plan::Plan &plan;
  const plan::Function &function;
  const FunctionProgram &program;

  std::vector<int64_t> symbols;      // device symbols stay 0: nothing on the host depends on them
  std::vector<uint64_t> bases;       // addresses, numbered as in function_program.h
  std::vector<uint64_t> base_bytes;  // what is bound at each base
  std::vector<uint64_t> host_values; // an int64_t, the bits of a double, or an opaque pointer
  uint64_t serial = 1;

  /// All changes since the run's serial was `moves_since` (0: there are others): the first
  /// `move_count` of `moves`, all of different bases.
  uint64_t moves_since = 0;
  std::vector<InputChange> moves; // room for each slot
  size_t move_count = 0;
  std::vector<bool> defined; // scratch of bind_parameters(): symbols that have their values

  void changed() {
    ++serial;
    moves_since = 0;
  }
  std::span<const InputChange> moved() const { return {moves.data(), move_count}; }
  /// The first `count` of `moves` were made, and nothing else.
  void end_moves(size_t count) {
    move_count = count;
    moves_since = serial++;
  }
  void set_base(uint32_t base, uint64_t address, uint64_t bytes) {
    if (bases[base] != address || base_bytes[base] != bytes) {
      bases[base] = address;
      base_bytes[base] = bytes;
      changed();
    }
  }
  void set_symbol(ir::SymbolId symbol, int64_t value) {
    if (symbols[symbol.index] != value) {
      symbols[symbol.index] = value;
      changed();
    }
  }
  /// Gives bucket symbols their values, after those of parameters.
  void set_buckets() {
    for (const plan::Bucket &bucket : function.buckets)
      set_symbol(bucket.symbol, ir::round_up_to_bucket(bucket.sizes, symbols[bucket.of.index]));
  }
  void set_host_value(uint32_t index, uint64_t bits) {
    if (host_values[index] != bits) {
      host_values[index] = bits;
      changed();
    }
  }

  Result<int64_t> evaluate(ExprId expr) const {
    auto value = plan.exprs.evaluate(expr, symbols);
    return value.ok() ? std::move(value) : cannot_evaluate(expr);
  }
  /// The bits of a host value; evaluates its expression now.
  Result<uint64_t> host_value(uint32_t index) const;
  /// The value of an input as 64 bits.
  Result<uint64_t> value(RunInput input) const;
  /// The bits of one kernel argument.
  Result<uint64_t> value(const ValueSource &source) const;
  Result<uint64_t> address(const plan::Buffer &buffer) const;
  /// The bytes of a buffer; if its shape is unknown, all bytes of its base.
  Result<uint64_t> bytes(const plan::Buffer &buffer) const;

  /// The error of an expression that has no value.
  Status cannot_evaluate(ExprId expr) const;
  /// "n = 4, m = 7": the symbols of `expr` with their values; "" when it has none. For messages.
  std::string describe_symbols(ExprId expr) const;
  std::string expr_text(ExprId expr) const;
};

} // namespace cugrt::runtime
