// Look-up of symbols by name; see symbol_binding.h.

#include "device/program/symbol_binding.h"

#include <algorithm>

namespace cugrt::runtime {

Result<GivenSymbols> set_named_symbols(RunBinding &run,
                                       std::span<const cugrt_symbol_value> values) {
  const std::vector<plan::Symbol> &symbols = run.function.symbols;
  GivenSymbols given(symbols.size());
  for (const cugrt_symbol_value &value : values) {
    std::string name = value.name ? value.name : "";
    auto found = std::find_if(symbols.begin(), symbols.end(),
                              [&](const plan::Symbol &symbol) { return symbol.name == name; });
    if (found == symbols.end())
      return Status::error(Code::not_found, "function @" + run.function.name +
                                                " has no symbol named '" + name + "'");
    auto index = static_cast<uint32_t>(found - symbols.begin());
    if (given[index])
      return Status::error(Code::invalid_argument, "function @" + run.function.name + ": symbol " +
                                                       name + " is given a value twice");
    if (value.value < found->bounds.lower || value.value > found->bounds.upper)
      return Status::error(Code::out_of_range, "function @" + run.function.name + ": symbol " +
                                                   name + " = " + std::to_string(value.value) +
                                                   " is outside of its bounds, " +
                                                   bounds_text(found->bounds));
    run.set_symbol(ir::SymbolId{index}, value.value);
    given[index] = true;
  }
  for (const plan::Bucket &bucket : run.function.buckets)
    if (given[bucket.of.index]) {
      run.set_symbol(bucket.symbol,
                     ir::round_up_to_bucket(bucket.sizes, run.symbols[bucket.of.index]));
      given[bucket.symbol.index] = true;
    }
  std::vector<ir::SymbolId> used;
  for (const plan::Constraint &constraint : run.function.constraints) {
    used.clear();
    run.plan.exprs.collect_symbols(constraint.expr, used);
    if (std::all_of(used.begin(), used.end(), [&](ir::SymbolId s) { return given[s.index]; }))
      CUGRT_TRY(check_constraint(run, constraint));
  }
  return given;
}

const plan::Symbol *missing_symbol(const RunBinding &run, const plan::Region &region,
                                   const GivenSymbols &given) {
  for (ir::SymbolId symbol : region.key)
    if (!given[symbol.index]) {
      // Users do not set a bucket, but the symbol that is rounded up to it.
      for (const plan::Bucket &bucket : run.function.buckets)
        if (bucket.symbol == symbol)
          symbol = bucket.of;
      return &run.function.symbols[symbol.index];
    }
  return nullptr;
}

} // namespace cugrt::runtime
