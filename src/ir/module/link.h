// Several modules as one: a main function that calls theirs, one after the other.
//
// What their text calls @main becomes a private function of the linked module, and @main of that
// calls each. A joined input is the result of another part; the inputs that are not joined are the
// inputs, and the results that nobody takes the results. Symbols that joined dimensions have in
// common become one. Passes inline the calls, so that regions and storage are planned over all
// parts.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <span>
#include <string>
#include <vector>

namespace cugrt::ir {

/// A module with a function @main, under a name.
struct LinkPart {
  std::string name; // letters, digits and '_'; a letter first
  const Module *module = nullptr;
  std::string base_folder; // that paths of kernels are relative to
  /// A number for each weight of @main. Weights of equal numbers, in any parts, are the same
  /// tensor; UINT32_MAX: no other weight is the same.
  std::vector<uint32_t> weights;
};

/// Parameter `input` of part `to` is result `result` of part `from`.
struct LinkJoin {
  uint32_t to = 0, input = 0, from = 0, result = 0;
};

struct Linked {
  /// A parameter or result of a part's @main.
  struct Place {
    uint32_t part = 0, index = 0;
  };
  Module module;
  std::vector<Place> inputs, weights, results; // of @main, in order
};

/// The linked module is as the builder makes it: the verifier has not seen it. Parameters, results
/// and symbols are named `part.name`. Errors are of Code::invalid_argument and name part and input.
Result<Linked> link_modules(std::span<const LinkPart> parts, std::span<const LinkJoin> joins);

/// Its first step (module_copy.cpp): appends all of the part's module to `target`, names with the
/// part's in front; functions become private, without buckets and weights. Gives the number of the
/// first function: the others follow in the source's order.
uint32_t append_module(Module &target, const LinkPart &part);

} // namespace cugrt::ir
