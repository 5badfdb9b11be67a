// Static regions: which bindings become part of a graph, by one of two sets of rules.
//
// Rules look at a binding and say what it does to the region that may be open in its block:
//
//   opens        a step: begins a region of its own, and closes one that is open
//   joins        a step: opens a region if none is open, and is part of it
//   joins_open   no step: part of an open region, opens none
//   stays        outside, and an open region stays open
//   closes       outside; what follows is in another region
//
// `patch`: callers' buffers are slots, so every step on memory whose address the plan knows or a
// slot holds joins. `seed`: the published rules (static values; storage that can be lifted; output
// storage left alone), with `if`, `while` and match closing a region.
#pragma once

#include "ir/module/module.h"

#include <string>

namespace cugrt::plan {

enum class Verdict : uint8_t { opens, joins, joins_open, stays, closes };

/// A reason in words. A literal costs nothing: most reasons are never read.
class Reason {
public:
  Reason(const char *literal) : literal_(literal) {}
  Reason(std::string built) : built_(std::move(built)) {}
  std::string text() const { return literal_ ? literal_ : built_; }

private:
  const char *literal_ = nullptr;
  std::string built_;
};

struct Decision {
  Verdict verdict;
  Reason reason;
};

class RegionRules {
public:
  virtual ~RegionRules() = default;
  /// Called once for each binding, in program order.
  virtual Decision decide(const ir::Binding &binding) = 0;
  /// Whether copies between planned tensors and slots, which no binding stands for, may join.
  virtual bool copies_join() const = 0;
};

} // namespace cugrt::plan
