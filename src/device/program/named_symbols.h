// Symbol values by name, as users give them, into a run.
#pragma once

#include "cugrt/cugrt.h"
#include "device/program/run_binding.h"

#include <span>

namespace cugrt::runtime {

/// Which of the function's symbols have been given a value.
using GivenSymbols = std::vector<bool>;

/// Sets the run's symbols. A name that the function does not have, one that comes twice and a
/// value outside of its bounds are errors.
Result<GivenSymbols> set_named_symbols(RunBinding &run, std::span<const cugrt_symbol_value> values);

/// The first symbol of a region's key that was not given, of a bucket the one that is rounded up to
/// it; nullptr when all were.
const plan::Symbol *missing_symbol(const RunBinding &run, const plan::Region &region,
                                   const GivenSymbols &given);

} // namespace cugrt::runtime
