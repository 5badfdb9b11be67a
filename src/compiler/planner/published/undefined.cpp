// What a rewrite by the regions of a flawed analysis would use without a definition: values of a
// region that are no outputs and are used outside, and storages used where the allocation call does
// not reach.
#include "compiler/planner/published/parts.h"

namespace cugrt::plan {

using ir::Binding;
using ir::Operand;
using ir::ValueId;

namespace {

class UndefinedUses {
public:
  UndefinedUses(const ir::Function &function, const PublishedFunction &published)
      : function_(function), published_(published), region_of_(function.values.size(), UINT32_MAX),
        defined_(function.values.size(), true), reported_(function.values.size(), false),
        is_storage_(function.values.size(), false) {
    std::vector<const Binding *> bindings = bindings_in_order(function);
    for (uint32_t r = 0; r < published.regions.size(); ++r) {
      for (uint32_t number : published.regions[r].bindings)
        for (uint32_t i = 0; i < bindings[number]->result_count; ++i) {
          ValueId value = bindings[number]->result(i);
          region_of_[value.index] = r;
          defined_[value.index] = false;
        }
      for (ValueId output : published.regions[r].outputs)
        defined_[output.index] = true;
    }
    for (const PublishedStorage &storage : published.storages)
      is_storage_[storage.value.index] = storage.lifted();
    block(0);
  }

  std::vector<ValueId> take() { return std::move(out_); }

private:
  /// Within a region, storages are parameters: they are used where it is launched.
  void use(ValueId value, uint32_t region) {
    bool lost = is_storage_[value.index]
                    ? region == UINT32_MAX && !reaches_
                    : !defined_[value.index] && region_of_[value.index] != region;
    if (!lost || reported_[value.index])
      return;
    reported_[value.index] = true;
    out_.push_back(value);
  }
  void use(std::span<const Operand> operands, uint32_t region) {
    for (const Operand &operand : operands)
      if (operand.kind == Operand::Kind::value)
        use(operand.value(), region);
  }

  void block(uint32_t index) {
    bool outer = reaches_;
    for (const Binding &b : function_.blocks[index].bindings) {
      if (published_.allocates && number_ == published_.allocation)
        reaches_ = true;
      uint32_t region = published_.bindings[number_].region;
      if (region != UINT32_MAX && published_.regions[region].bindings.front() == number_)
        for (ValueId input : published_.regions[region].inputs)
          use(input, UINT32_MAX);
      ++number_;
      std::span<const Operand> operands = function_.operands_of(b);
      bool is_if = b.kind == ir::BindingKind::if_;
      use(b.blocks.count ? operands.first(is_if ? 1 : b.carried_count) : operands, region);
      for (uint32_t i = b.blocks.begin; i < b.blocks.end(); ++i)
        block(i);
    }
    use(function_.results_of(function_.blocks[index]), UINT32_MAX);
    reaches_ = outer;
  }

  const ir::Function &function_;
  const PublishedFunction &published_;
  std::vector<uint32_t> region_of_; // by value
  std::vector<bool> defined_, reported_, is_storage_;
  std::vector<ValueId> out_;
  uint32_t number_ = 0;
  bool reaches_ = false; // the allocation call stands before, in this block or one around it
};

} // namespace

std::vector<ValueId> find_undefined(const ir::Function &function,
                                    const PublishedFunction &published) {
  return UndefinedUses(function, published).take();
}

} // namespace cugrt::plan
