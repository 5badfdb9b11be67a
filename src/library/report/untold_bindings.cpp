// Notes for bindings that the planner never saw, since the passes fused, folded or removed them.
#include "library/report/plan_report.h"

#include "ir/text/text.h"

#include <algorithm>
#include <map>
#include <set>

namespace cugrt::runtime {

namespace {

using Place = std::pair<uint32_t, uint32_t>; // line, column

Place place_of(SourceLocation location) { return {location.line, location.column}; }

std::set<Place> places_in(const ir::Module &module) {
  std::set<Place> places;
  for (const ir::Function &function : module.functions)
    for (const ir::Block &block : function.blocks)
      for (const ir::Binding &b : block.bindings)
        places.insert(place_of(b.location));
  return places;
}

/// The notes of one place, as numbers: where an op became an allocation and a launch, two.
struct Told {
  uint32_t first = plan::kNone, last = plan::kNone;
};

struct Untold {
  uint32_t before; // which note it stands before; kNone: at the end
  plan::BindingNote note;
};

/// Visits a function's bindings last one first, so that what uses a binding is known before it.
class Teller {
public:
  Teller(const ir::Module &module, const ir::Function &function, const std::set<Place> &used,
         const std::map<Place, Told> &told, const plan::PlanReport &report, uint32_t number,
         std::vector<Untold> &out)
      : f_(function), printer_(module, function), used_(used), told_(told), report_(report),
        number_(number), out_(out), user_(function.values.size()) {}

  void run() {
    last_told_ = last_told();
    visit(f_.body());
  }

private:
  void visit(const ir::Block &block) {
    for (auto b = block.bindings.rbegin(); b != block.bindings.rend(); ++b) {
      const Told told = tell(*b);
      for (const ir::Operand &operand : f_.operands_of(*b))
        if (operand.kind == ir::Operand::Kind::value)
          user_[operand.index] = told; // of its users the first is visited last
      for (uint32_t i = b->blocks.end(); i-- > b->blocks.begin;)
        visit(f_.blocks[i]);
    }
  }

  /// Finds the mention of a binding, or of the binding that it became a part of.
  Told tell(const ir::Binding &b) {
    if (!b.location.known())
      return {};
    if (const auto told = told_.find(place_of(b.location)); told != told_.end())
      return next_ = told->second;
    const bool gone = !used_.count(place_of(b.location));
    Told user;
    for (uint32_t i = 0; i < b.result_count && !gone; ++i)
      if (const Told other = user_[b.result(i).index]; other.first < user.first)
        user = other;
    const bool has_user = user.last != plan::kNone;
    plan::BindingNote note;
    note.function = has_user ? report_.bindings[user.last].function : number_;
    note.location = b.location;
    note.binding = printer_.print(b);
    if (has_user) {
      note.region = report_.bindings[user.last].region;
      note.reason = "part of what line " +
                    std::to_string(report_.bindings[user.last].location.line) + " has become";
      note.from = report_.bindings[user.last].from;
    } else {
      note.reason =
          gone ? "taken away: nothing uses what it gives" : "made part of others by the passes";
    }
    uint32_t before = has_user ? user.first : next_.first;
    if (note.function == plan::kNone && last_told_ != plan::kNone) {
      // The function is planned where it is called: there the note stands.
      const uint32_t beside = before != plan::kNone ? before : last_told_;
      note.function = report_.bindings[beside].function;
      note.from = report_.bindings[beside].from;
      before = before != plan::kNone ? before : last_told_ + 1;
    }
    if (note.function != plan::kNone)
      out_.push_back({before, std::move(note)});
    return user;
  }

  /// The last note of the function's bindings.
  uint32_t last_told() const {
    uint32_t last = plan::kNone;
    for (const ir::Block &block : f_.blocks)
      for (const ir::Binding &b : block.bindings)
        if (const auto told = told_.find(place_of(b.location));
            told != told_.end() && (last == plan::kNone || told->second.last > last))
          last = told->second.last;
    return last;
  }

  const ir::Function &f_;
  ir::BindingPrinter printer_;
  const std::set<Place> &used_;
  const std::map<Place, Told> &told_;
  const plan::PlanReport &report_;
  const uint32_t number_; // of the function in the plan; kNone: it is not there
  std::vector<Untold> &out_;
  std::vector<Told> user_; // by value: what tells of the first binding that uses it
  uint32_t last_told_ = plan::kNone;
  Told next_; // of the next binding in the text that is told of
};

} // namespace

void note_untold(const ir::Module &module, const ir::Module &used, const plan::Plan &plan,
                 plan::PlanReport &report) {
  std::map<Place, Told> told;
  for (uint32_t i = 0; i < report.bindings.size(); ++i) {
    Told &place = told[place_of(report.bindings[i].location)];
    place = {std::min(place.first, i), i};
  }
  const std::set<Place> in_use = places_in(used);
  std::vector<Untold> untold;
  for (const ir::Function &function : module.functions) {
    const plan::Function *planned = plan.find_function(function.name);
    Teller(module, function, in_use, told, report,
           planned ? uint32_t(planned - plan.functions.data()) : plan::kNone, untold)
        .run();
  }
  std::stable_sort(untold.begin(), untold.end(), [](const Untold &a, const Untold &b) {
    return std::pair(a.before, place_of(a.note.location)) <
           std::pair(b.before, place_of(b.note.location));
  });
  std::vector<plan::BindingNote> all;
  all.reserve(report.bindings.size() + untold.size());
  auto next = untold.begin();
  for (uint32_t i = 0; i < report.bindings.size(); ++i) {
    for (; next != untold.end() && next->before == i; ++next)
      all.push_back(std::move(next->note));
    all.push_back(std::move(report.bindings[i]));
  }
  for (; next != untold.end(); ++next)
    all.push_back(std::move(next->note));
  report.bindings = std::move(all);
}

} // namespace cugrt::runtime
