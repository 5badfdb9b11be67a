// Plans one function: a walk over its blocks that turns bindings into steps and items.
//
// Steps are appended in the order in which they run, so a region is a range of them. At most one
// region is open; what closes it stands in RegionRules. Items of the host's program go to the block
// that is being planned; while a region is open, items that only the host sees (matches) are put
// before it.
#pragma once

#include "compiler/planner/lower/regions.h"
#include "ir/module/module.h"
#include "ir/text/text.h"

#include <map>
#include <optional>

namespace cugrt::plan {

class FunctionPlanner {
public:
  /// Callees of the function must have been planned. `storage` is the context's: unless a report is
  /// to be made, run() frees its facts about the function, which nobody needs then.
  FunctionPlanner(ModuleContext &context, uint32_t function, ModuleStorage &storage);
  Status run(); // fills in Plan::functions[function]

private:
  // --- function_planner.cpp: signature, walk, simple bindings ---
  void reserve();
  void give_up_tables();
  Status signature();
  Status parameter(uint32_t index);
  void finish_slot(uint32_t slot);
  Status results();
  Status tensor_result(uint32_t index, ir::ValueId value);
  Status block(uint32_t ir_block, uint32_t plan_block);
  Status binding(uint32_t ir_block, uint32_t index);
  Status define(const ir::Binding &binding, uint32_t ir_block);
  Status match(const ir::Binding &binding);
  Status field(const ir::Binding &binding);
  Status read_symbol(const ir::Binding &binding);
  void note(const ir::Binding &binding, const Decision &decision, uint32_t region);
  void note_call_site(uint32_t call_site);
  void storage_notes();
  std::pair<uint32_t, uint32_t> steps_of(uint32_t origin, uint32_t begin, uint32_t end);
  std::vector<std::pair<uint32_t, uint32_t>> runs_of(uint32_t origin);
  /// A run of a tensor's life: up to its end, or to a gap.
  struct LifeRun {
    uint32_t parent, begin, origin, end;
    friend auto operator<=>(const LifeRun &, const LifeRun &) = default;
  };
  std::optional<std::pair<uint32_t, uint32_t>> find_overlap(std::span<const LifeRun> runs,
                                                            const ir::Domain &domain);

  // --- storage_overlap.cpp ---
  Status check_storage_overlap();

  // --- control_planner.cpp: items that the host runs ---
  Status call(const ir::Binding &binding, uint32_t ir_block);
  Status call_shape(const ir::Binding &b, uint32_t result);
  bool substitute(TensorExprs &shape, std::span<const ExprId> symbols) const;
  Status call_alias(const ir::Binding &binding, uint32_t result, const FunctionSummary &summary);
  std::vector<ExprId> callee_symbols(const ir::Binding &binding) const;
  Status check_call_access(const ir::Binding &binding, const Item &item);
  Status host(const ir::Binding &binding, uint32_t ir_block);
  Status branch(const ir::Binding &binding, uint32_t ir_block);
  Status loop(const ir::Binding &binding, uint32_t ir_block);
  Status yield_branch(const ir::Binding &binding, const ir::Block &from, Block &to);
  Status yield_loop(const ir::Binding &binding, const ir::Block &from, Block &to);
  Status operands(std::span<const ir::Operand> operands, SourceLocation location, Item &item);
  Status result_refs(const ir::Binding &binding, Item &item);
  /// Appends a copy unless both are the same bytes; its buffers must have one layout.
  Status copy(uint32_t to, uint32_t from, SourceLocation location);

  // --- conditional_planner.cpp: branches and loops within a region ---
  Status conditional(const ir::Binding &binding);
  Status symbol_branch(const ir::Binding &binding, ExprId condition);
  Status graph_branch(const ir::Binding &binding);
  Status graph_loop(const ir::Binding &binding);
  Status graph_block(uint32_t ir_block);
  template <class PlanSteps>
  Status graph_body(uint32_t conditional, SourceLocation location, PlanSteps plan_steps);
  Result<uint32_t> condition_buffer(const ir::Operand &operand, SourceLocation location);
  uint32_t condition_step(StepKind kind, const char *word, uint32_t conditional, uint32_t condition,
                          SourceLocation location);

  // --- items and regions ---
  std::vector<Item> &items() { return out_.blocks[block_].items; }
  void push_step(uint32_t step, bool joins);
  void push_item(Item item) { items().push_back(std::move(item)); }
  void close_region() { open_region_ = kNone; }
  /// Whether so many more steps have no room in the open region; bodies end none.
  bool region_is_full(uint64_t steps) const {
    return open_region_ != kNone && body_depth_ == 0 &&
           out_.regions[open_region_].steps.count + steps > context_.options.max_region_nodes;
  }
  /// Dynamic allocations: allocated for a binding's results, released after their last use.
  Status allocate(ir::ValueId value, uint32_t ir_block, SourceLocation location);
  void release(uint32_t ir_block, uint32_t until_time);
  void keep_condition(const OperandRef &condition);
  void mark_time(uint32_t time);

  Status fail(SourceLocation location, const std::string &message) const;

  ModuleContext &context_;
  ModuleStorage &all_storage_;
  const uint32_t index_;
  const ir::Function &function_;
  std::optional<ir::BindingPrinter> printer_; // where there is a report
  const Liveness &live_;
  const FunctionStorage &storage_;
  Function out_;
  ValueTable values_;
  std::unique_ptr<RegionRules> rules_;
  uint32_t block_ = 0; // of the plan
  uint32_t open_region_ = kNone;
  size_t open_item_ = 0;    // of the open region, among items()
  uint32_t body_depth_ = 0; // bodies of conditional nodes around the binding
  ExprId when_;             // the condition of the branches on symbols around it
  uint32_t again_ = 0;      // loops around it whose condition is planned a second time
  struct Dynamic {
    uint32_t block, end, buffer; // ir block that defines it, end of its life
  };
  std::vector<Dynamic> dynamic_;       // alive
  std::vector<bool> symbol_defined_;   // by symbol: a match has defined it
  std::vector<uint32_t> steps_before_; // by time
  std::vector<bool> call_site_noted_;  // by call site
  std::vector<uint32_t> new_numbers_;  // by step in program order; empty: as they were
  std::map<uint32_t, std::vector<uint32_t>> touched_; // steps by Buffer::tensor, for reports
};

} // namespace cugrt::plan
