// Binding of a call's arguments: every parameter is checked against its declaration, symbols get
// their values, slots their addresses.
//
// Symbols: a dimension, shape element or integer scalar that is a bare symbol defines it at its
// first appearance in parameter order; all other dimensions are evaluated afterwards and must
// agree. A function's constraints are checked as soon as their symbols are known. Every message
// names function, parameter, what was expected and what was given.
#pragma once

#include "base/whole_number.h"
#include "cugrt/cugrt.h"
#include "device/program/run_binding.h"

#include <span>

namespace cugrt::runtime {

/// Bytes that a tensor argument or result occupies in one piece; out_of_range on overflow.
Result<uint64_t> tensor_bytes(const cugrt_tensor &tensor);

/// "function @main, parameter %x": how messages begin.
std::string param_text(const plan::Function &function, uint32_t param);

/// The CUGRT_VALUE_ kind of a scalar, and of a parameter's argument.
int32_t value_kind(ir::ScalarKind scalar);
int32_t value_kind(const plan::Param &param);

/// Checks one argument against its parameter, symbols aside: kind, dtype, rank, no negative
/// dimension.
Status check_argument(const plan::Function &function, uint32_t param, const cugrt_value &value);

/// Checks a tensor parameter's address: not null where there are bytes, aligned as declared.
Status check_address(const plan::Function &function, uint32_t param, uint64_t address,
                     uint64_t bytes);

/// Binds all parameters (`values` has one for each, weights included) and writes symbols, host
/// scalars and the bases of parameters' slots and weights to the run. On failure the run is
/// half-written: it must be bound again before it is used.
Status bind_parameters(RunBinding &run, std::span<const cugrt_value> values);

/// For a match item: defines the symbols in `defines` from the `dims` that are bare symbols, then
/// checks every dimension. `what` names the matched value in messages.
Status bind_match(RunBinding &run, const plan::Item &item, std::span<const int64_t> dims,
                  const std::string &what);

/// Fails unless the constraint holds; all of its symbols have their values.
Status check_constraint(const RunBinding &run, const plan::Constraint &constraint);

/// The value as users read it in messages: "tensor<[4, 64], f32>", "int 5".
std::string value_text(const cugrt_value &value);

/// Bounds in messages: "0 to 64", "1 to unbounded".
std::string bounds_text(const ir::Interval &bounds);

/// Which of the function's symbols have been given a value.
using GivenSymbols = std::vector<bool>;

/// Sets the run's symbols. A name that the function does not have, one that comes twice and a
/// value outside of its bounds are errors.
Result<GivenSymbols> set_named_symbols(RunBinding &run, std::span<const cugrt_symbol_value> values);

/// The first symbol of a region's key without a given value (for a bucket, the symbol that is
/// rounded up to it); nullptr if all have one.
const plan::Symbol *missing_symbol(const RunBinding &run, const plan::Region &region,
                                   const GivenSymbols &given);

} // namespace cugrt::runtime
