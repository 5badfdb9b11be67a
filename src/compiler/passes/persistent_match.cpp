// Runs of launches that become one; see product_patterns.h.
#include "compiler/passes/product_patterns.h"

#include "compiler/ir_names.h"
#include "compiler/passes/value_uses.h"
#include "ops/emit/op_emitter.h"

#include <algorithm>
#include <unordered_map>

namespace cugrt::passes {

namespace {

/// Beyond, a layer's weights take longer to read than what its launches wait for one another.
constexpr int64_t kMostLayerBytes = 10 << 20;
constexpr size_t kLeastPhases = 4;

class Finder {
public:
  Finder(const ir::Module &module, const ir::Function &function,
         std::span<const ProductMatch> matches)
      : module_(module), function_(function), uses_(function) {
    for (const ProductMatch &match : matches) {
      const ValueId rows = function_.operand_of(*match.parts.front().products.front(), 0);
      if (match.rounding || (match.norm && type(match.norm->result()).dtype != type(rows).dtype))
        continue; // phases have rows and norms of their own dtype
      for (const Binding *binding : match.bindings)
        is_clear_ = match_of_.try_emplace(binding, &match).second && is_clear_;
    }
  }

  /// The longest run of one block.
  std::optional<PersistentMatch> run(bool in_bodies) {
    PersistentMatch longest, now;
    const auto end = [&] {
      if (now.phases.size() > longest.phases.size())
        longest = std::move(now);
      now = {};
    };
    for (const ir::Block &block : function_.blocks) {
      if (&block != &function_.body() && !in_bodies)
        continue;
      for (const Binding &binding : block.bindings) {
        const auto at = match_of_.find(&binding);
        const bool is_phase = at == match_of_.end() && is_phase_alone(binding);
        if (at == match_of_.end() && !is_phase && !only_names(binding)) {
          end();
          continue;
        }
        if (at == match_of_.end() && !is_phase && now.bindings.empty())
          continue;
        now.bindings.push_back(&binding);
        if (is_phase)
          now.phases.emplace_back(&binding);
        else if (at != match_of_.end() && at->second->bindings.back() == &binding)
          now.phases.emplace_back(at->second);
      }
      end();
    }
    while (!longest.bindings.empty() && only_names(*longest.bindings.back()) &&
           !match_of_.contains(longest.bindings.back()))
      longest.bindings.pop_back();
    found_ = std::move(longest);
    if (!is_clear_ || found_.phases.size() < kLeastPhases || !is_whole() || !has_small_layers() ||
        !sort_results())
      return std::nullopt;
    return std::move(found_);
  }

private:
  /// Whether a binding computes nothing.
  static bool only_names(const Binding &b) {
    return b.kind == BindingKind::shape || b.kind == BindingKind::literal ||
           b.kind == BindingKind::constant || is_op(b, Op::reshape);
  }
  bool is_known(ValueId value) const {
    return std::ranges::all_of(type(value).dims, [&](ir::ExprId dim) {
      return module_.exprs.as_constant(dim).has_value();
    });
  }
  /// Attention without a mask; rows that go to caches of blocks, which products do not write.
  bool is_phase_alone(const Binding &b) const {
    return (is_op(b, Op::attention) && !function_.operand_of(b, 4).valid()) ||
           (is_op(b, Op::cache_write) && is_known(function_.operand_of(b, 1)) &&
            ir::info(type(function_.operand_of(b, 0)).dtype).kind == ir::DTypeKind::block);
  }
  const ir::Type &type(ValueId value) const { return module_.types[function_.value(value).type]; }

  /// Whether all of every match lies within the run, and nothing but names between its bindings.
  bool is_whole() const {
    const std::unordered_set<const Binding *> own(found_.bindings.begin(), found_.bindings.end());
    for (const Binding *binding : found_.bindings)
      if (const auto at = match_of_.find(binding); at != match_of_.end()) {
        for (const Binding *other : at->second->bindings)
          if (!own.contains(other))
            return false;
        for (const Binding *after : at->second->after) // else phases would change places
          if (match_of_.contains(after) || !only_names(*after))
            return false;
      }
    return true;
  }

  /// Weights over layers: attention once each.
  bool has_small_layers() const {
    int64_t bytes = 0, layers = 0;
    for (const auto &phase : found_.phases) {
      const auto *match = std::get_if<const ProductMatch *>(&phase);
      if (!match) {
        layers += is_op(*std::get<const Binding *>(phase), Op::attention) ? 1 : 0;
        continue;
      }
      for (const ProductMatch::Part &part : (*match)->parts)
        for (const Binding *product : part.products) {
          const ir::Type &w = type(function_.operand_of(*product, 1));
          const ir::DTypeInfo &info = ir::info(w.dtype);
          const std::optional<int64_t> n = module_.exprs.as_constant(w.dims[0]),
                                       k = module_.exprs.as_constant(w.dims[1]);
          if (!n || !k || *n > kMostLayerBytes || *k > kMostLayerBytes)
            return false;
          // A head behind the last layer is read once a step.
          const int64_t own = *n * (*k / info.elements_per_block * info.bytes_per_block);
          bytes += &phase == &found_.phases.back() ? 0 : own;
        }
    }
    return layers > 0 && bytes / layers <= kMostLayerBytes;
  }

  /// Which results go from phase to phase, and which leave; false where one does both.
  bool sort_results() {
    own_.insert(found_.bindings.begin(), found_.bindings.end());
    for (const auto &phase : found_.phases)
      if (const auto *match = std::get_if<const ProductMatch *>(&phase)) {
        if ((*match)->is_sum_read && !sort((*match)->sum->result()))
          return false;
        for (const ProductMatch::Part &part : (*match)->parts)
          if (!part.append && !sort(part.result))
            return false;
      } else if (const Binding &alone = *std::get<const Binding *>(phase);
                 is_op(alone, Op::attention) && !sort(alone.result())) {
        return false;
      }
    return true;
  }

  bool sort(ValueId result) {
    std::vector<ValueId> names = {result};
    bool is_read = false, leaves = false;
    for (size_t i = 0; i < names.size(); ++i) {
      leaves = leaves || uses_.is_yielded(names[i]);
      for (const Binding *reader : uses_.readers(names[i]))
        if (!own_.contains(reader))
          leaves = true;
        else if (is_op(*reader, Op::reshape) && !match_of_.contains(reader))
          names.push_back(reader->result());
        else
          is_read = true;
    }
    if (is_read && leaves)
      return false;
    (is_read ? found_.exchanged : found_.given).insert(result.index);
    for (size_t i = 1; i < names.size(); ++i)
      (is_read ? found_.reshaped : found_.given).insert(names[i].index);
    return true;
  }

  const ir::Module &module_;
  const ir::Function &function_;
  const ValueUses uses_;
  std::unordered_map<const Binding *, const ProductMatch *> match_of_;
  bool is_clear_ = true; // no binding is of two matches
  std::unordered_set<const Binding *> own_;
  PersistentMatch found_;
};

} // namespace

std::optional<PersistentMatch> match_persistent(const ir::Module &module,
                                                const ir::Function &function,
                                                std::span<const ProductMatch> matches,
                                                const codegen::Target &target) {
  if (target.compute_capability < codegen::kTensorCoresSince)
    return std::nullopt;
  return Finder(module, function, matches).run(target.cooperative_bodies);
}

} // namespace cugrt::passes
