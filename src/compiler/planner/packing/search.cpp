// A search that lays a packing from the bottom up, within a given capacity.
//
//   capacity ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄     What is placed so far has a skyline: a top for each section.
//          │                            A low place is a run of sections of equal top, with higher
//   offset │ ┌─────┐         ┌──────┐   ones, or the end of the piece, on both sides. Every item
//          │ │  a  ├───┐     │      │   that could still start at that level lies within the run:
//          │ │     │ c │▁▁▁▁▁│  d   │   what sticks out rests on a neighbour. So one section s of
//          │ ├─────┴─┬─┴───┬─┴──┬───┤   the run can be decided for good: either one of the
//          │ │   b   │  e  │ f  │ g │   candidates that cover s starts at (s, level), each a branch,
//          └─┴───────┴─────┴────┴───┴─▸ or none does, and s is wasted up to where the next one can
//                        ▴ s       time start. Each packing is met on one path only.
//
// State. lowest(i): no packing of this branch has item i lower; top(s): the skyline, raised to the
// least lowest() in s, since nothing can start below that. Where top(s) + unplaced bytes of s
// exceeds the capacity the branch has failed; at the lower bound no byte of a full section may be
// wasted, and most branches fail at once.
//
// Waste. When nothing starts at (s, level), a candidate j must be held up by an item k that starts
// below j's top, or else j could be dropped to the level, which is the branch of j. So lowest(j)
// rises to the least top of such a k (those that start at the level and cover s are themselves held
// up), and where there is none the branch is cut. Two items of equal lifetime, one resting on the
// other, are tried in one order only.
//
// Pieces. Where no unplaced item crosses, the rest falls into pieces that cannot influence each
// other: each is solved on its own, and when one fails the others are not tried again. Where items
// have gaps, pieces are the components of what is left by shared sections, and may stand in each
// other's gaps.
//
// Gaps. An item with gaps is part of several skylines. It may start at a level only where all its
// sections have that level, or something could still come to lie below it; a section whose
// candidates are not like that is not decided yet. One of the lowest sections of a piece always
// can be.
//
// Fixed places. lowest() of such an item is its place from the start; whatever would raise it has
// failed. It is a candidate once the skyline has come up to it.
//
// Which section: one with the fewest branches, divided by how often it has made the search fail
// (the weights outlive a run, so a restart begins where it is hard). What was found to fail is kept
// as a hash of (item, lowest) over the piece, which describes what can happen in it: different ways
// to fill the bottom often leave the same rest. A false hit, one in 2^64, would only hide a
// packing.
//
// No recursion: a decision and its pieces lie on a stack, and a piece that is solved leaves
// nothing but its placements behind.
#include "compiler/planner/packing/search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <string_view>

namespace cugrt::plan {
namespace {

constexpr uint32_t kNoItem = UINT32_MAX;
__extension__ typedef __int128 Wide; // areas do not fit into 64 bits

Wide key_value(char key, const PackingProblem &problem, uint32_t i) {
  const PackingProblem::Item &item = problem.items[i];
  switch (key) {
  case 'T': {
    int64_t most = 0;
    for (const PackingProblem::Span &span : problem.spans_of(item))
      most = std::max(most, *std::max_element(problem.load_bytes.begin() + span.begin,
                                              problem.load_bytes.begin() + span.end));
    return most;
  }
  case 'W':
    return item.steps;
  case 'C':
    return item.changes;
  case 'A':
    return Wide(item.bytes) * item.steps;
  case 'B':
    return Wide(item.bytes) * item.changes;
  case 'O':
    return Wide(problem.conflicts[i].size());
  default: // L
    return -Wide(item.begin);
  }
}

std::vector<uint32_t> ranks(const PackingProblem &problem, std::string_view order) {
  constexpr size_t kKeyLimit = 4;
  std::vector<std::array<Wide, kKeyLimit>> keys(problem.items.size());
  for (uint32_t i = 0; i < keys.size(); ++i)
    for (size_t k = 0; k < std::min(order.size(), kKeyLimit); ++k)
      keys[i][k] = key_value(order[k], problem, i);
  std::vector<uint32_t> sorted(keys.size()), rank(keys.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](uint32_t a, uint32_t b) { return keys[a] > keys[b]; });
  for (uint32_t position = 0; position < sorted.size(); ++position)
    rank[sorted[position]] = position;
  return rank;
}

int64_t align(int64_t value, int64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

} // namespace

PackingSearch::PackingSearch(const PackingProblem &problem,
                             std::span<const PackingStrategy> strategies, int64_t memory_nodes)
    : problem_(problem),
      known_(std::bit_ceil(uint64_t(std::clamp<int64_t>(memory_nodes, 64, 1 << 18)))) {
  for (const PackingStrategy &strategy : strategies)
    rules_.push_back({strategy, add_order(strategy.order), {}});
}

size_t PackingSearch::add_order(std::string_view order) {
  const auto known =
      std::find_if(ranks_.begin(), ranks_.end(), [&](const Ranks &r) { return r.order == order; });
  const auto number = size_t(known - ranks_.begin());
  if (known == ranks_.end())
    ranks_.push_back({order, ranks(problem_, order)});
  return number;
}

void PackingSearch::reset(int64_t capacity_bytes) {
  uint32_t count = uint32_t(problem_.items.size());
  capacity_ = capacity_bytes;
  nodes_ = 0;
  out_of_nodes_ = false;
  offsets_.assign(count, 0);
  lowest_.assign(count, 0);
  for (uint32_t i = 0; problem_.has_fixed && i < count; ++i)
    lowest_[i] = std::max<int64_t>(problem_.items[i].fixed_bytes, 0);
  placed_.assign(count, 0);
  next_.resize(count + 2);
  previous_.resize(count + 2);
  for (uint32_t link = 0; link < count + 2; ++link) {
    next_[link] = link + 1;
    previous_[link] = link - 1;
  }
  top_.assign(problem_.load_bytes.size(), 0);
  unplaced_bytes_ = problem_.load_bytes;
  topmost_.assign(top_.size(), kNoItem);
  trail_.clear();
  candidates_.clear();
  pieces_.clear();
  decisions_.clear();
}

PackingSearch::Outcome PackingSearch::run(size_t strategy, int64_t capacity_bytes,
                                          int64_t node_limit) {
  reset(capacity_bytes);
  limit_ = node_limit;
  rule_ = &rules_[strategy];
  rule_->weights.resize(problem_.load_bytes.size(), 0); // at its first run
  salt_ = salt_of(strategy, capacity_bytes);
  if (problem_.bound_bytes > capacity_ || (problem_.has_fixed && !settle(0, uint32_t(top_.size()))))
    return Outcome::exhausted;
  decisions_.push_back({}); // the root: no decision, only pieces
  split({1, uint32_t(problem_.items.size())});
  decisions_.back().piece_end = pieces_.size();
  for (bool standing = true;;) { // whether the top decision's current branch still stands
    Decision &decision = decisions_.back();
    if (standing && decision.piece_next < decision.piece_end) {
      standing = enter(pieces_[decision.piece_next++]);
    } else if (decisions_.size() == 1) {
      return standing ? Outcome::solved : Outcome::exhausted;
    } else if (standing || !advance(decision)) {
      if (out_of_nodes_)
        return Outcome::limit;
      if (!standing)
        remember(decision);
      candidates_.resize(decision.candidate_begin);
      pieces_.resize(decision.piece_begin);
      decisions_.pop_back();
    } else {
      standing = true;
    }
  }
}

/// Begins a piece: places a single item, or opens a decision whose first branch is still to be
/// taken. False in both of these cases: the piece has failed, or its (new) top decision has no
/// branch that stands.
bool PackingSearch::enter(Piece piece) {
  if (piece.first == piece.last)
    return place(piece.first - 1);
  uint64_t key = key_of(piece);
  if (known_[(key >> 1) & (known_.size() - 1)].key == key)
    return false;
  uint32_t begin = problem_.items[piece.first - 1].begin, end = begin;
  for (uint32_t link = piece.first;; link = next_[link]) {
    end = std::max(end, problem_.items[link - 1].end);
    if (link == piece.last)
      break;
  }
  Decision decision;
  decision.piece = piece;
  if (problem_.gapped)
    mark_sections(piece);
  decision.section =
      problem_.gapped ? choose_section<true>(begin, end) : choose_section<false>(begin, end);
  decision.level = top_[decision.section];
  decision.candidate_begin = decision.candidate_next = candidates_.size();
  for (uint32_t item : problem_.members[decision.section])
    if (!placed_[item] && lowest_[item] == decision.level)
      candidates_.push_back(item);
  decision.candidate_end = candidates_.size();
  std::sort(candidates_.begin() + ptrdiff_t(decision.candidate_begin), candidates_.end(),
            [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
  decision.piece_begin = decision.piece_next = decision.piece_end = pieces_.size();
  decision.trail_mark = trail_.size();
  decision.key = key;
  decision.nodes_before = nodes_;
  decisions_.push_back(decision);
  return false;
}

/// Takes the decision's next branch that does not fail at once, and lists the pieces that it
/// leaves.
bool PackingSearch::advance(Decision &decision) {
  undo_to(decision.trail_mark);
  pieces_.resize(decision.piece_begin);
  decision.piece_next = decision.piece_begin;
  while (!decision.waste_tried) {
    bool stands = false;
    if (decision.candidate_next < decision.candidate_end) {
      size_t candidate = decision.candidate_next++;
      if (redundant(decision, candidate))
        continue;
      uint32_t item = candidates_[candidate];
      Piece rest = without(decision.piece, item);
      if ((out_of_nodes_ = nodes_++ >= limit_))
        return false;
      if ((stands = place(item)))
        split(rest);
    } else {
      decision.waste_tried = true;
      if (decision.level + unplaced_bytes_[decision.section] >= capacity_)
        return false;
      if ((out_of_nodes_ = nodes_++ >= limit_))
        return false;
      if ((stands = waste(decision)))
        pieces_.push_back(decision.piece);
    }
    decision.piece_end = pieces_.size();
    if (stands)
      return true;
    undo_to(decision.trail_mark);
  }
  return false;
}

bool PackingSearch::redundant(const Decision &decision, size_t candidate) const {
  uint32_t i = candidates_[candidate];
  const PackingProblem::Item &item = problem_.items[i];
  if (candidate > decision.candidate_begin && problem_.items[candidates_[candidate - 1]].twin(item))
    return true;
  if (topmost_[item.begin] == kNoItem)
    return false;
  uint32_t b = topmost_[item.begin];
  const PackingProblem::Item &below = problem_.items[b];
  return below.same_place(item) && !below.fixed() && !item.fixed() &&
         offsets_[b] + below.bytes == decision.level && rank(b) > rank(i) &&
         below.alignment == item.alignment &&
         (below.bytes | item.bytes) % item.alignment ==
             0; // changing places leaves the top as it is
}

bool PackingSearch::place(uint32_t i) {
  const PackingProblem::Item &item = problem_.items[i];
  int64_t end = lowest_[i] + item.bytes;
  offsets_[i] = lowest_[i];
  placed_[i] = 1;
  trail_.push_back({Undo::placed, i, 0});
  next_[previous_[i + 1]] = next_[i + 1];
  previous_[next_[i + 1]] = previous_[i + 1];
  for (const PackingProblem::Span &span : problem_.spans_of(item))
    for (uint32_t s = span.begin; s < span.end; ++s) {
      unplaced_bytes_[s] -= item.bytes;
      set_top(s, end);
      trail_.push_back({Undo::topmost, s, int64_t(topmost_[s])});
      topmost_[s] = i;
    }
  if (end > capacity_)
    return fail_at(item.begin);
  uint32_t begin_section = item.begin, end_section = item.end;
  for (uint32_t j : problem_.conflicts[i]) {
    if (placed_[j] || lowest_[j] >= end)
      continue;
    const PackingProblem::Item &other = problem_.items[j];
    int64_t lowest = align(end, other.alignment);
    if (lowest + other.bytes > capacity_ || other.fixed())
      return fail_at(std::max(item.begin, other.begin));
    set_lowest(j, lowest);
    begin_section = std::min(begin_section, other.begin);
    end_section = std::max(end_section, other.end);
  }
  return settle(begin_section, end_section);
}

/// The least top of items that may hold candidate j up at the decision's point, except candidates.
int64_t PackingSearch::lift_of(uint32_t j, const Decision &decision) const {
  int64_t lift = INT64_MAX, end = decision.level + problem_.items[j].bytes;
  for (uint32_t k : problem_.conflicts[j]) {
    if (placed_[k] || lowest_[k] >= end)
      continue;
    const PackingProblem::Item &other = problem_.items[k];
    if (lowest_[k] > decision.level || !problem_.covers(other, decision.section))
      lift = std::min(lift, lowest_[k] + other.bytes);
  }
  return lift;
}

/// Nothing starts at the decision's point: every candidate is held up.
bool PackingSearch::waste(const Decision &decision) {
  std::span<const uint32_t> list(candidates_.data() + decision.candidate_begin,
                                 decision.candidate_end - decision.candidate_begin);
  lifts_.clear(); // all are worked out before any of them is set
  int64_t least = INT64_MAX;
  for (uint32_t j : list) {
    if (problem_.items[j].fixed())
      return fail_at(decision.section);
    lifts_.push_back(lift_of(j, decision));
    least = std::min(least, lifts_.back());
  }
  if (least == INT64_MAX && !list.empty())
    return fail_at(decision.section);
  uint32_t begin = decision.section, end = begin + 1;
  for (size_t c = 0; c < list.size(); ++c) {
    const PackingProblem::Item &item = problem_.items[list[c]];
    if (least <
        decision.level + item.bytes) // a candidate that is held up may itself hold up this one
      for (uint32_t other : list)
        if (other != list[c])
          lifts_[c] = std::min(lifts_[c], least + problem_.items[other].bytes);
    if (lifts_[c] > capacity_ - item.bytes)
      return fail_at(decision.section);
    set_lowest(list[c], align(lifts_[c], item.alignment));
    begin = std::min(begin, item.begin);
    end = std::max(end, item.end);
  }
  return settle(begin, end);
}

bool PackingSearch::settle(uint32_t begin, uint32_t end) {
  for (uint32_t s = begin; s < end; ++s)
    if (unplaced_bytes_[s] > 0 && !settle(s))
      return false;
  return true;
}

/// Raises the section's top to where something can start, and compares with the capacity.
bool PackingSearch::settle(uint32_t section) {
  int64_t floor = INT64_MAX;
  for (uint32_t item : problem_.members[section])
    if (!placed_[item] && (floor = std::min(floor, lowest_[item])) <= top_[section])
      break;
  if (floor > top_[section])
    set_top(section, floor);
  return top_[section] + unplaced_bytes_[section] <= capacity_ || fail_at(section);
}

bool PackingSearch::fail_at(uint32_t section) {
  ++rule_->weights[section];
  last_failed_ = section;
  return false;
}

void PackingSearch::undo_to(size_t trail_mark) {
  for (; trail_.size() > trail_mark; trail_.pop_back()) {
    const Undo &undo = trail_.back();
    switch (undo.kind) {
    case Undo::lowest:
      lowest_[undo.index] = undo.old;
      break;
    case Undo::top:
      top_[undo.index] = undo.old;
      break;
    case Undo::topmost:
      topmost_[undo.index] = uint32_t(undo.old);
      break;
    case Undo::placed:
      take_back(undo.index);
      break;
    case Undo::next:
      next_[undo.index] = uint32_t(undo.old);
      previous_[uint32_t(undo.old)] = undo.index;
      break;
    }
  }
}

void PackingSearch::take_back(uint32_t i) {
  placed_[i] = 0;
  next_[previous_[i + 1]] = i + 1;
  previous_[next_[i + 1]] = i + 1;
  for (const PackingProblem::Span &span : problem_.spans_of(problem_.items[i]))
    for (uint32_t s = span.begin; s < span.end; ++s)
      unplaced_bytes_[s] += problem_.items[i].bytes;
}

/// Branches at the section's point, scaled down by its weight; less is better.
uint64_t PackingSearch::score(uint32_t section) const {
  if (rule_->strategy.last_conflict && section == last_failed_)
    return 0;
  uint64_t branches = top_[section] + unplaced_bytes_[section] < capacity_; // waste
  for (uint32_t item : problem_.members[section])
    branches += !placed_[item] && lowest_[item] == top_[section];
  return 1 +
         (rule_->strategy.weighted ? (branches << 20) / (1 + rule_->weights[section]) : branches);
}

/// Whether nothing can come to lie below a candidate with gaps.
bool PackingSearch::may_decide(uint32_t section) const {
  for (uint32_t i : problem_.members[section]) {
    const PackingProblem::Item &item = problem_.items[i];
    if (placed_[i] || lowest_[i] != top_[section] || item.span_count == 1)
      continue;
    for (const PackingProblem::Span &span : problem_.spans_of(item))
      for (uint32_t s = span.begin; s < span.end; ++s)
        if (top_[s] < top_[section])
          return false;
  }
  return true;
}

/// Chooses in a piece whose items lie in [begin, end); with gaps, its sections are marked, and
/// other pieces stand around it like walls.
template <bool kGapped> uint32_t PackingSearch::choose_section(uint32_t begin, uint32_t end) const {
  auto height = [&](uint32_t s) { return kGapped && seen_[s].mark != mark_ ? INT64_MAX : top_[s]; };
  uint32_t best = begin;
  uint64_t best_score = UINT64_MAX;
  int64_t best_slack = INT64_MAX;
  for (uint32_t run = begin, run_end; run < end; run = run_end) {
    run_end = run + 1;
    while (run_end < end && height(run_end) == height(run))
      ++run_end;
    if ((run > begin && height(run - 1) < height(run)) ||
        (run_end < end && height(run_end) < height(run)) || height(run) == INT64_MAX)
      continue;
    for (uint32_t s = run; s < run_end; ++s) {
      if (kGapped && !may_decide(s))
        continue;
      uint64_t value = score(s);
      int64_t slack = capacity_ - top_[s] - unplaced_bytes_[s];
      bool tie = value == best_score && slack == best_slack;
      if (value < best_score || (value == best_score && slack < best_slack) ||
          (tie && rule_->strategy.from_end)) {
        best = s;
        best_score = value;
        best_slack = slack;
      }
    }
  }
  return best;
}

void PackingSearch::set_lowest(uint32_t item, int64_t value) {
  trail_.push_back({Undo::lowest, item, lowest_[item]});
  lowest_[item] = value;
}

void PackingSearch::set_top(uint32_t section, int64_t value) {
  trail_.push_back({Undo::top, section, top_[section]});
  top_[section] = value;
}

} // namespace cugrt::plan
