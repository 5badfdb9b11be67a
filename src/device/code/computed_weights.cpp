// Names of computed weights, and what they are made of; see computed_weights.h.
//
// A recipe is read off the steps in order: each byte range holds a value, which a step that writes
// it makes of the values that it reads. Where storage is used again, a range has the later value.
#include "device/code/computed_weights.h"

#include "base/whole_number.h"

#include <algorithm>
#include <memory>

namespace cugrt::runtime {

static bool takes_weights_only(const plan::Function &function) {
  return !function.is_private &&
         std::all_of(function.params.begin(), function.params.end(), [](const plan::Param &param) {
           return param.kind == plan::ParamKind::weight;
         });
}

std::optional<ComputedWeight> computed_weight(const plan::Plan &plan, const plan::Param &param) {
  const std::string_view name = param.name;
  const size_t dot = name.rfind('.');
  if (param.kind != plan::ParamKind::weight || dot == std::string_view::npos)
    return std::nullopt;
  const auto result = whole_number<uint32_t>(name.substr(dot + 1));
  if (!result)
    return std::nullopt;
  for (uint32_t f = 0; f < plan.functions.size(); ++f) {
    const plan::Function &function = plan.functions[f];
    if (function.name == name.substr(0, dot) && takes_weights_only(function) &&
        *result < function.results.size() && function.results[*result].buffer != plan::kNone)
      return ComputedWeight{f, *result};
  }
  return std::nullopt;
}

std::vector<bool> functions_of_weights(const plan::Plan &plan) {
  std::vector<bool> computing(plan.functions.size());
  for (const plan::Function &function : plan.functions)
    for (const plan::Param &param : function.params)
      if (const auto weight = computed_weight(plan, param))
        computing[weight->function] = true;
  return computing;
}

std::vector<bool> weights_read(const plan::Function &function) {
  std::vector<bool> read(function.params.size());
  for (const plan::Buffer &buffer : function.buffers)
    if (buffer.base == plan::BufferBase::weight)
      read[buffer.index] = true;
  return read;
}

Status check_not_computed(const plan::Plan &plan, const WeightSet &set) {
  for (const plan::Function &function : plan.functions)
    for (const plan::Param &param : function.params)
      if (computed_weight(plan, param) && set.find(param.name))
        return Status::error(Code::invalid_argument,
                             "the weights have a tensor '" + param.name + "', but @" +
                                 function.name +
                                 " has it computed from other weights; leave it out");
  return {};
}

Result<cugrt_tensor> describe_computed(const plan::Plan &plan, ComputedWeight weight) {
  const plan::Function &function = plan.functions[weight.function];
  const plan::Buffer &buffer = function.buffers[function.results[weight.result].buffer];
  cugrt_tensor tensor{};
  tensor.dtype = static_cast<int32_t>(buffer.dtype);
  tensor.rank = static_cast<uint32_t>(buffer.dims.size());
  for (size_t i = 0; i < buffer.dims.size(); ++i) {
    const std::optional<int64_t> dim = plan.exprs.as_constant(buffer.dims[i]);
    if (!dim || i >= CUGRT_MAX_RANK)
      return Status::error(Code::unsupported, "result " + std::to_string(weight.result) + " of @" +
                                                  function.name +
                                                  " is a weight of another function, so its "
                                                  "dimensions must be constant");
    tensor.dims[i] = *dim;
  }
  return tensor;
}

/// Finds the recipes of one function, step by step.
class RecipeReader {
public:
  RecipeReader(WeightRecipes &recipes, uint32_t function)
      : recipes_(recipes), plan_(recipes.plan_), f_(plan_.functions[function]) {}

  /// Returns recipes of the results; empty if the function does more than launch, copy and fill.
  WeightRecipes::Results read() {
    if (!f_.symbols.empty() || f_.blocks.size() != 1)
      return {};
    for (const plan::Item &item : f_.blocks[0].items) {
      bool plain = item.kind == plan::ItemKind::allocate || item.kind == plan::ItemKind::release;
      if (item.kind == plan::ItemKind::step)
        plain = take(f_.steps[item.index]);
      if (item.kind == plan::ItemKind::region) {
        plain = true;
        const plan::Range steps = f_.regions[item.index].steps;
        for (uint32_t s = steps.begin; plain && s < steps.end(); ++s)
          plain = take(f_.steps[s]);
      }
      if (!plain)
        return {};
    }
    WeightRecipes::Results results;
    for (const plan::FunctionResult &result : f_.results) {
      Making made;
      results.push_back(result.buffer != plan::kNone && read(result.buffer, made)
                            ? std::optional(std::move(made).finish())
                            : std::nullopt);
    }
    return results;
  }

private:
  /// A recipe while values are added to it, one after the other.
  struct Making {
    Digester digest;
    std::vector<std::string> sources;

    void add(const WeightRecipe &part) {
      digest.field(view(part.computation)).field(part.sources.size());
      for (const std::string &name : part.sources) {
        const auto found = std::find(sources.begin(), sources.end(), name);
        digest.field(static_cast<uint64_t>(found - sources.begin()));
        if (found == sources.end())
          sources.push_back(name);
      }
    }
    WeightRecipe finish() && { return {digest.finish(), std::move(sources)}; }
  };
  static std::string_view view(const Digest &digest) {
    return {reinterpret_cast<const char *>(digest.data()), digest.size()};
  }

  /// Bytes that one value has written, keyed by their begin.
  struct Written {
    int64_t end, value_begin; // where the value's first byte lies, or would
    std::shared_ptr<const WeightRecipe> value;
  };
  using Memory = std::map<int64_t, Written>;

  struct Place {
    Memory &memory;
    int64_t begin, end;
  };
  std::optional<Place> place(uint32_t index) {
    const plan::Buffer &buffer = f_.buffers[index];
    const auto begin = plan_.exprs.as_constant(buffer.offset_bytes);
    const auto bytes =
        buffer.bytes.valid() ? plan_.exprs.as_constant(buffer.bytes) : std::optional<int64_t>();
    if (!begin || !bytes)
      return std::nullopt;
    const auto [at, fresh] = memory_.try_emplace({buffer.base, buffer.index});
    if (fresh && buffer.base == plan::BufferBase::weight) {
      std::optional<WeightRecipe> given = weight(f_.params[buffer.index]);
      if (!given)
        return std::nullopt;
      at->second[0] = {INT64_MAX, 0, std::make_shared<WeightRecipe>(std::move(*given))};
    } else if (fresh && buffer.base == plan::BufferBase::constant) {
      Digester bytes_of;
      bytes_of.field("constant").field(plan_.constants[buffer.index].bytes);
      at->second[0] = {INT64_MAX, 0,
                       std::make_shared<WeightRecipe>(WeightRecipe{bytes_of.finish(), {}})};
    }
    return Place{at->second, *begin, *begin + *bytes};
  }

  std::optional<WeightRecipe> weight(const plan::Param &param) {
    if (const auto computed = computed_weight(plan_, param))
      return recipes_.of(*computed);
    Digester source;
    source.field("source");
    return WeightRecipe{source.finish(), {param.name}};
  }

  /// Adds the buffer's content to `made`, piece by piece: which part of which value. Leaves out
  /// bytes that no step has written. False: the buffer has no known place.
  bool read(uint32_t buffer, Making &made) {
    const auto at = place(buffer);
    if (!at)
      return false;
    made.digest.field(static_cast<uint64_t>(at->end - at->begin));
    auto piece = at->memory.upper_bound(at->begin);
    if (piece != at->memory.begin())
      --piece;
    for (; piece != at->memory.end() && piece->first < at->end; ++piece) {
      const int64_t begin = std::max(piece->first, at->begin);
      if (piece->second.end <= begin)
        continue;
      made.digest.field(static_cast<uint64_t>(begin - at->begin))
          .field(static_cast<uint64_t>(std::min(piece->second.end, at->end) - begin))
          .field(static_cast<uint64_t>(begin - piece->second.value_begin));
      made.add(*piece->second.value);
    }
    made.digest.field("end");
    return true;
  }

  bool write(uint32_t buffer, WeightRecipe recipe) {
    const auto at = place(buffer);
    if (!at)
      return false;
    auto &[memory, begin, end] = *at;
    if (begin == end)
      return true;
    const auto next = memory.lower_bound(begin);
    if (next != memory.begin())
      if (auto before = std::prev(next); before->second.end > begin) {
        if (before->second.end > end)
          memory.emplace(end, before->second);
        before->second.end = begin;
      }
    for (auto inside = memory.lower_bound(begin); inside != memory.end() && inside->first < end;) {
      if (inside->second.end > end)
        memory.emplace(end, inside->second);
      inside = memory.erase(inside);
    }
    memory[begin] = {end, begin, std::make_shared<WeightRecipe>(std::move(recipe))};
    return true;
  }

  bool constant(plan::ExprId expr, Making &made) const {
    const auto value =
        expr.valid() ? plan_.exprs.as_constant(expr) : std::optional<int64_t>(INT64_MIN);
    if (value)
      made.digest.field(static_cast<uint64_t>(*value));
    return value.has_value();
  }

  bool take(const plan::Step &step) {
    Making made;
    made.digest.field(static_cast<uint64_t>(step.kind)).field(step.fill_byte);
    if (!constant(step.when, made))
      return false;
    switch (step.kind) {
    case plan::StepKind::empty:
      return true;
    case plan::StepKind::conditional:
    case plan::StepKind::set_condition:
      return false;
    case plan::StepKind::copy:
    case plan::StepKind::fill:
      break;
    case plan::StepKind::kernel:
      if (!launch(step, made))
        return false;
    }
    for (uint32_t a = step.accesses.begin; a < step.accesses.end(); ++a) {
      made.digest.field(static_cast<uint64_t>(f_.accesses[a].access));
      if (ir::reads(f_.accesses[a].access) && !read(f_.accesses[a].buffer, made))
        return false;
    }
    const WeightRecipe all = std::move(made).finish();
    for (uint32_t a = step.accesses.begin; a < step.accesses.end(); ++a) {
      if (!ir::writes(f_.accesses[a].access))
        continue;
      Making written;
      written.digest.field(uint64_t{a - step.accesses.begin});
      written.add(all);
      if (!write(f_.accesses[a].buffer, std::move(written).finish()))
        return false;
    }
    return true;
  }

  bool launch(const plan::Step &step, Making &made) {
    const plan::Kernel &kernel = plan_.kernels[step.kernel];
    made.digest.field(view(code(step.kernel))).field(step.launches.count);
    for (const std::string &entry : kernel.entries)
      made.digest.field(entry);
    for (uint32_t l = step.launches.begin; l < step.launches.end(); ++l) {
      const plan::LaunchRule &rule = f_.launches[l];
      for (const plan::ExprId expr :
           {rule.predicate, rule.grid[0], rule.grid[1], rule.grid[2], rule.block[0], rule.block[1],
            rule.block[2], rule.shared_bytes})
        if (!constant(expr, made))
          return false;
      place_of(step, rule.workspace, made);
    }
    for (uint32_t a = step.arguments.begin; a < step.arguments.end(); ++a) {
      const plan::Argument &argument = f_.arguments[a];
      made.digest.field(static_cast<uint64_t>(argument.kind))
          .field(static_cast<uint64_t>(argument.dtype))
          .field(argument.bits);
      switch (argument.kind) {
      case plan::ArgumentKind::buffer:
        place_of(step, argument.index, made);
        break;
      case plan::ArgumentKind::expr:
        if (!constant(plan::ExprId{argument.index}, made))
          return false;
        break;
      case plan::ArgumentKind::bits:
        break;
      case plan::ArgumentKind::host_value:
      case plan::ArgumentKind::checked_symbol:
        return false;
      }
    }
    return true;
  }

  /// Adds the number of the buffer among the step's accesses.
  void place_of(const plan::Step &step, uint32_t buffer, Making &made) const {
    uint32_t a = step.accesses.begin;
    while (a < step.accesses.end() && f_.accesses[a].buffer != buffer)
      ++a;
    made.digest.field(uint64_t{a - step.accesses.begin});
  }

  const Digest &code(uint32_t kernel) {
    const auto [at, fresh] = recipes_.codes_.try_emplace(kernel);
    if (fresh)
      at->second = recipes_.code_(kernel);
    return at->second;
  }

  WeightRecipes &recipes_;
  const plan::Plan &plan_;
  const plan::Function &f_;
  std::map<std::pair<plan::BufferBase, uint32_t>, Memory> memory_;
};

WeightRecipes::WeightRecipes(const plan::Plan &plan, Code code)
    : plan_(plan), code_(std::move(code)) {}
WeightRecipes::~WeightRecipes() = default;

std::optional<WeightRecipe> WeightRecipes::of(ComputedWeight weight) {
  // While a function is read it gives none: one of its own results would be among its sources.
  const auto [at, fresh] = functions_.try_emplace(weight.function);
  if (fresh)
    at->second = RecipeReader(*this, weight.function).read();
  return weight.result < at->second.size() ? at->second[weight.result] : std::nullopt;
}

} // namespace cugrt::runtime
