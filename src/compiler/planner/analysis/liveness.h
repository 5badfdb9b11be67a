// Liveness over nested blocks: the bytes that a value names, and when those bytes are needed.
//
// An origin is a run of bytes that comes to be once: a parameter, a constant, an allocation, the
// result of a call or of a construct. Values that are aliases, views, matches or fields of tuples
// name an origin, they do not make one. Results of `if` and carried values of `while` are origins
// of their own, written by copies where blocks yield.
//
// Time counts bindings in program order, nested blocks in place, one more at the end of each block:
//
// clang-format off
//   0  %a = alloc              a: [1, 6)  used in the loop, defined before it: lives to the loop's end
//   1  launch @k(%a)
//   2  while (%c = %a)         c: [2, 8)  carried
//   3    ... yield             end of the condition's block
//   4    launch @k(%a, %c)
//   5    ... yield %c          end of the body's block; the loop is [2, 6)
//   6  launch @k(%r)           %r, the loop's result, is c
// clang-format on
//
// Lifetimes are half-open. A launch's operands are all alive at its time, so that outputs never
// share bytes with inputs. Branches follow one another in time and so share storage by themselves.
//
// A life has a gap where a launch writes all of the bytes anew, without reading them, after the
// last use of what they held: between the two nobody needs them.
//
//   0  launch @k(%x, out %a)   a: [0, 4) without the gap [2, 3)
//   1  launch @k(%a, out %y)
//   2  launch @k(%x, out %b)       b may lie in a's bytes, if it lives no longer than [2, 3)
//   3  launch @k(%x, out %a)
//
// That is seen only where the launch stands in the block in which the bytes come to be, so that it
// runs whenever what follows it does.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cugrt::plan {

enum class OriginKind : uint8_t {
  parameter,     // index: Function::params
  constant,      // index: Module::constants
  alloc,         // an unplanned allocation
  storage,       // alloc_storage
  tensor,        // alloc_tensor; parent: its storage
  host_result,   // of a host or extern call
  call_result,   // of a call, where it is none of the callee's parameters
  branch_result, // of an if
  carried,       // of a while: carried value and result
};

inline constexpr uint32_t kNoOrigin = UINT32_MAX;

/// Source of bytes: a parameter, an allocation or a construct. All names for it, views and parts
/// among them, have one origin; storage gives each its base.
struct Origin {
  OriginKind kind;
  ir::ValueId value;                    // its first name
  uint32_t index = 0;                   // see OriginKind
  uint32_t parent = kNoOrigin;          // see OriginKind
  uint32_t block = 0;                   // where it is defined
  uint32_t defined = 0;                 // when
  uint32_t begin = UINT32_MAX, end = 0; // alive in [begin, end); begin > end: never used
  uint32_t killed = UINT32_MAX;         // when; the block is killed_in
  uint32_t killed_in = 0;
  bool returned = false;       // the function returns it, or a part of it
  bool returned_whole = false; // it returns all of it, or a part of a size that a run finds out
  bool passed_to_host = false; // a host builtin sees it, and may keep it
  bool written_first = false;  // its first use is a launch that writes all of it, reading nothing
  bool handed_over = false;    // of a storage: something takes it as such, not a tensor in it
  bool used() const { return begin < end; }
};

/// Steps of an origin's life at which nobody needs its bytes.
struct LifeGap {
  uint32_t origin = kNoOrigin;
  uint32_t begin = 0, end = 0; // within its life, neither at its begin nor at its end
};

/// The place of a block.
struct BlockPlace {
  uint32_t parent = UINT32_MAX;                   // block; none of the body
  uint32_t parent_binding = 0;                    // index within the parent
  uint32_t begin = 0, end = 0;                    // times; end - 1 is the time at which it yields
  uint32_t loop_begin = UINT32_MAX, loop_end = 0; // of a while's blocks: the whole loop; else empty
  uint32_t first_time = 0;                        // Liveness::times of its first binding
  uint32_t depth = 0;
};

/// Facts about a function's results that a caller needs.
struct FunctionSummary {
  enum class SourceKind : uint8_t { fresh, parameter, constant, result };
  struct Source {
    SourceKind kind = SourceKind::fresh;
    uint32_t index = 0; // of the parameter, constant or other result that it is, or is part of
  };
  std::vector<Source> results;
};

struct Liveness {
  std::vector<Origin> origins;
  std::vector<LifeGap> gaps;         // ascending by origin, then begin; of allocations and tensors
  std::vector<BlockPlace> blocks;    // by block
  std::vector<uint32_t> times;       // of bindings, block by block
  std::vector<uint32_t> origin_of;   // by value; kNoOrigin for what has no bytes
  std::vector<bool> whole;           // by value: it names all bytes of its origin
  std::vector<ir::ValueId> alias_of; // by value: itself, or what an alias or a tuple's field names
  std::vector<ir::Range> fields_of;  // by value: of tuples, into fields
  std::vector<ir::Operand> fields;   // values as alias_of has them
  std::vector<uint32_t> symbol_origin; // by symbol: the tensor that a read binding names
  std::vector<ir::ValueId> symbol_value;
  uint32_t end_time = 0;

  uint32_t time_of(uint32_t block, uint32_t binding) const {
    return times[blocks[block].first_time + binding];
  }
  uint32_t origin(ir::ValueId value) const { return origin_of[value.index]; }
  std::span<const LifeGap> gaps_of(uint32_t origin) const;
};

/// Calls visit(begin, end) for the runs of steps in [begin, end) that no gap covers; `gaps` are
/// ascending and within.
template <class Gap, class Visit>
void for_each_run(uint32_t begin, uint32_t end, std::span<const Gap> gaps, Visit visit) {
  for (const Gap &gap : gaps) {
    if (begin < gap.begin)
      visit(begin, gap.begin);
    begin = gap.end;
  }
  if (begin < end)
    visit(begin, end);
}

/// Gaps of storages: no tensor in them is alive then. A tensor that is not first written as a whole
/// may begin with what lay there before, so all that comes before it counts as its life.
std::vector<LifeGap> storage_gaps(const Liveness &liveness);

/// Functions in an order in which callees stand before their callers, otherwise in module order.
/// Recursion is an error.
Result<std::vector<uint32_t>> callees_first(const ir::Module &module);

/// `summaries` holds the functions that `function` calls. Errors: uses after a kill, and tuples
/// where only tensors and scalars are possible (results of calls and of constructs).
Result<Liveness> analyze_liveness(const ir::Module &module, const ir::Function &function,
                                  std::span<const FunctionSummary> summaries);
/// A result that is all of an origin that the function made is its owner; other results that lie in
/// the same origin are parts of the owner. Parts without an owner, and everything else, are fresh.
FunctionSummary summarize(const ir::Function &function, const Liveness &liveness);
/// Summaries of the functions that are called, by their number; no analysis asks for the others',
/// which are empty.
Result<std::vector<FunctionSummary>> summarize_called(const ir::Module &module);

/// Whether blocks `a` and `b` are in different branches of one if, so that only one of them runs.
bool exclusive(const ir::Function &function, const Liveness &liveness, uint32_t a, uint32_t b);

// Launches that may write a tensor over one that they read: the kernel declares it (`out f32 over
// x`), the operands are whole tensors of the same bytes, the one that is read is used there for the
// last time, and the one that is written for the first.

struct InPlace {
  uint32_t time;     // of the launch
  uint32_t from, to; // origins: read, written
};

/// In order of time; each origin is `from` at most once, and `to` at most once. Includes only
/// tensors that the function allocates or lays into storages.
std::vector<InPlace> find_in_place(const ir::Module &module, const ir::Function &function,
                                   const Liveness &live);

/// Tensors that the module lays exactly where one lies that they may be written over: (written,
/// overwritten), origins, ascending.
std::vector<std::pair<uint32_t, uint32_t>>
laid_in_place(const ir::Module &module, const ir::Function &function, const Liveness &live);

} // namespace cugrt::plan
