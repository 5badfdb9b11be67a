// Attention as phases of a kernel (persistent.h), by pieces as in
// kernels/attention/grouped_pieces.cuh. All have one form and one text; windows, and into how many
// chunks they cut a sequence, may differ: these stand in the table then.
#pragma once

#include "compiler/fused/persistent.h"
#include "compiler/fused/phase_words.h"
#include "ops/attention/grouped_form.h"

namespace cugrt::codegen {

class AttentionPhases : protected PhaseWords {
protected:
  AttentionPhases(KernelTable &table, ir::FunctionBuilder &builder)
      : PhaseWords(builder), table_(table) {}

  /// Call before the first phase is written.
  void look_at(const PersistentRun &run);
  /// Notes a write to a cache: words of its tiles, and their number.
  void arrive(ir::ValueId cache, int64_t at, int64_t tiles) {
    arrivals_[cache.index] = {at, tiles};
  }
  /// Code::unsupported where it is no phase.
  Result<Phase> write(const AttentionPhase &phase);
  /// Ahead of all phases; empty where there is no attention.
  std::string attention_text() const;

  KernelTable &table_;
  GroupedForm grouped_{};     // rings of all; the most chunks
  int64_t most_attended_ = 1; // elements of q

private:
  std::optional<GroupedForm> form_of(const AttentionPhase &phase);
  std::string options_of(const AttentionPhase &phase, const GroupedForm &form);
  void add_parts(Phase &made, const AttentionPhase &phase, const GroupedForm &form);

  std::string options_;
  int64_t most_splits_ = 1;
  bool windows_differ_ = false, splits_differ_ = false;
  std::map<uint32_t, std::pair<int64_t, int64_t>> arrivals_; // by cache
};

} // namespace cugrt::codegen
