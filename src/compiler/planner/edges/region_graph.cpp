// One sweep over a region's accesses in program order, with a timeline for every space that is
// written (compiler/planner/edges/timeline.h), and in it for every condition that steps run under.
// A read makes RAW hazards with the writers of its segments, a write makes WAR hazards with their
// readers, or WAW ones with the writer where nobody has read. Whatever else must wait follows along
// paths. What a step waits for is reduced at once (compiler/planner/edges/reach.h): latest first,
// what reaches another that was kept is dropped.
//
// Branches on symbols. A step looks at the timelines of all conditions that may hold where its own
// does, and stands in its own. A write puts an end to what stands in those timelines whose
// condition implies its own: whoever comes later and must wait for that waits for the write, too.
//
//   a   if c { t } else { e }   z        always  c  not c
//     t waits for a, so does e             a             t is in the timeline that e passes over;
//     z for t, e                           a     t  e    z looks at all three, and if it writes,
//                                                        only z is left
//
// Empty nodes. N readers and then M writers of parts would be N * M edges. What one access of a
// step waits for, and what the step as a whole does, is remembered as a set, if it is large enough.
// When a second step waits for the same set, an empty node is made for it:
//
//   r1 ─┬─▸ w1        r1 ─┐     ┌─▸ w1
//   r2 ─┼─▸ w2        r2 ─┼─▸ ○ ┼─▸ w2         It stands in the order before the first step that
//   r3 ─┴─▸ w3        r3 ─┘     └─▸ w3         waited for the set, and that one is given it too.
//
// A list of readers is walked up to a tail that was waited for before. An empty node is on no lane:
// it has been reached where everything that reaches it has.
#include "compiler/planner/edges/region_nodes.h"

#include "compiler/planner/edges/reach.h"
#include "compiler/planner/edges/timeline.h"

#include <llvm/ADT/DenseMap.h>

#include <array>
#include <functional>
#include <memory>

namespace cugrt::plan {
namespace {

// Rows of bits for more steps than this are too large; lanes are then taken over.
constexpr uint32_t kMostForBits = 4096;

/// A list's head; `set` holds its readers up to `rest`, where it has been waited for as a whole.
struct Reader {
  uint32_t step, next = kNone;
  uint32_t set = kNone, rest = kNone;
};

template <class Reach> class Sweep {
public:
  Sweep(const Function &function, std::span<const uint32_t> steps, const ByteRanges &ranges,
        const StepConditions &conditions, const GraphOptions &options)
      : function_(function), steps_(steps), count_(uint32_t(steps.size())), ranges_(ranges),
        conditions_(conditions), options_(options), reach_(count_, options.max_lanes),
        waits_(count_), row_(reach_.empty_row()) {}

  /// False, at once, where lanes do not suffice but bits would be small.
  bool run() {
    find_written();
    for (uint32_t s = 0; s < count_; ++s) {
      waiting_ = s;
      condition_ = conditions_[steps_[s]];
      singles_.clear();
      found_.clear();
      accesses();
      settle();
      if (!reach_.close(s, row_) && count_ <= kMostForBits)
        return false;
    }
    return true;
  }

  RegionGraph take() {
    RegionGraph graph;
    std::vector<uint32_t> numbers = number_nodes(graph.nodes);
    graph.edges.reserve(kept_.size());
    for (uint32_t s = 0; s < count_; ++s)
      for (uint32_t w = waits_[s].begin; w < waits_[s].end(); ++w)
        graph.edges.push_back({numbers[kept_[w]], numbers[s]});
    for (const Set &set : sets_)
      if (set.node != kNone)
        for (uint32_t node : set.found->waits)
          graph.edges.push_back({numbers[node], numbers[set.node]});
    sort_edges(graph.edges, graph.nodes.size());
    return graph;
  }

private:
  using Row = typename Reach::Row;

  /// Steps that several others wait for.
  struct Set {
    Range steps; // in set_steps_, descending
    uint32_t first_waiting;
    uint32_t same_hash;    // the set before it that has its hash
    uint32_t node = kNone; // the empty node, once there is one: from count_ on
    /// Made when a second step waits for the set; most are waited for once.
    struct Found {
      std::vector<uint32_t> waits; // of the empty node: steps, reduced
      Row row;                     // what reaches it
    };
    std::unique_ptr<Found> found{};
  };

  // --- Accesses ---

  /// Keyed by condition, in the order of their first steps.
  using Space = std::vector<std::pair<uint32_t, Timeline>>;
  /// Spaces without a number are written by none of the steps.
  static constexpr uint32_t kUnwritten = kNone;

  uint32_t &space_of(const ByteRange &range) {
    std::vector<uint32_t> &list = space_of_[size_t(range.base)];
    const size_t place = place_of(range);
    if (place >= list.size())
      list.resize(place + 1, kUnwritten);
    return list[place];
  }
  uint32_t find_space(const ByteRange &range) const {
    const std::vector<uint32_t> &list = space_of_[size_t(range.base)];
    const size_t place = place_of(range);
    return place < list.size() ? list[place] : kUnwritten;
  }
  /// Each box of an arena is a space of its own.
  size_t place_of(const ByteRange &range) const {
    return range.index * ranges_.box_count() + range.box;
  }

  template <class Visit> void for_accesses(uint32_t step, Visit visit) const {
    Range range = function_.steps[steps_[step]].accesses;
    for (uint32_t i = range.begin; i < range.end(); ++i)
      visit(function_.accesses[i]);
  }

  void find_written() {
    uint32_t count = 0;
    for (uint32_t s = 0; s < count_; ++s)
      for_accesses(s, [&](const BufferAccess &access) {
        if (!ir::writes(access.access))
          return;
        for (const ByteRange &range : ranges_[access.buffer])
          if (uint32_t &space = space_of(range); space == kUnwritten)
            space = count++;
      });
    spaces_.resize(count);
  }

  void accesses() {
    for_accesses(waiting_, [&](const BufferAccess &access) {
      if (ir::reads(access.access))
        for (const ByteRange &range : ranges_[access.buffer])
          if (uint32_t space = find_space(range); space != kUnwritten && range.begin < range.end)
            read(spaces_[space], range);
    });
    for_accesses(waiting_, [&](const BufferAccess &access) {
      if (ir::writes(access.access))
        for (const ByteRange &range : ranges_[access.buffer])
          if (range.begin < range.end)
            write(spaces_[find_space(range)], range);
    });
  }

  Timeline &own_timeline(Space &space) {
    for (auto &[condition, timeline] : space)
      if (condition == condition_)
        return timeline;
    return space.emplace_back(condition_, Timeline()).second;
  }

  /// Calls visit(condition, timeline) for the others that may hold where the step's condition does.
  template <class Visit> void for_others(Space &space, Visit visit) const {
    for (auto &[condition, timeline] : space)
      if (condition != condition_ && !conditions_.exclusive(condition, condition_))
        visit(condition, timeline);
  }

  void read(Space &space, const ByteRange &range) {
    size_t first = singles_.size();
    auto wait = [&](const Segment &segment) {
      if (segment.writer != kNone && segment.writer != waiting_)
        singles_.push_back(segment.writer);
    };
    own_timeline(space).each(range.begin, range.end, [&](Segment &segment) {
      wait(segment);
      if (segment.readers == kNone || readers_[segment.readers].step != waiting_) {
        readers_.push_back({.step = waiting_, .next = segment.readers});
        segment.readers = uint32_t(readers_.size() - 1);
      }
    });
    for_others(space, [&](uint32_t, const Timeline &timeline) {
      timeline.look(range.begin, range.end, wait);
    });
    share(singles_, first);
  }

  void write(Space &space, const ByteRange &range) {
    uint32_t last_list = kNone;
    writers_.clear();
    auto wait = [&](const Segment &segment) {
      uint32_t list = segment.readers;
      if (list != kNone && readers_[list].step == waiting_)
        list = readers_[list].next;           // an update in place
      if (list != kNone && list != last_list) // neighbours often have the same
        wait_for_readers(list);
      if (list == kNone && segment.writer != kNone && segment.writer != waiting_)
        writers_.push_back(segment.writer); // else the readers have waited for it
      last_list = list;
    };
    for_others(space, [&](uint32_t condition, Timeline &timeline) {
      timeline.look(range.begin, range.end, wait);
      if (conditions_.implies(condition, condition_))
        timeline.clear(range.begin, range.end);
    });
    own_timeline(space).overwrite(range.begin, range.end, waiting_, wait);
    share(writers_, 0);
    singles_.insert(singles_.end(), writers_.begin(), writers_.end());
  }

  void wait_for_readers(uint32_t list) {
    size_t first = singles_.size();
    uint32_t at = list;
    for (; at != kNone && readers_[at].set == kNone; at = readers_[at].next)
      singles_.push_back(readers_[at].step);
    if (uint32_t set = share(singles_, first); set != kNone) {
      readers_[list].set = set;
      readers_[list].rest = at;
    }
    for (; at != kNone; at = readers_[at].rest) {
      if (readers_[at].set == kNone)
        return wait_for_readers(at);
      found(readers_[at].set);
    }
  }

  // --- Sets ---

  /// The step waits for a set that an earlier step waited for; its own predecessors are among the
  /// singles already.
  void found(uint32_t set) {
    if (sets_[set].first_waiting == waiting_)
      return;
    if (!sets_[set].found)
      find(sets_[set]);
    found_.push_back(set);
  }

  std::span<const uint32_t> steps_of(const Set &set) const {
    return std::span(set_steps_).subspan(set.steps.begin, set.steps.count);
  }

  void find(Set &set) {
    set.found = std::make_unique<typename Set::Found>();
    Row &row = set.found->row = reach_.empty_row();
    for (uint32_t step : steps_of(set))
      if (!reach_.reaches(step, row)) {
        set.found->waits.push_back(step);
        reach_.join(row, step);
      }
  }

  /// Remembers what `list` holds from `first` on as a set, or moves it to found_ where it is known.
  /// Gives the set; kNone where it would be too small.
  uint32_t share(std::vector<uint32_t> &list, size_t first) {
    if (options_.join_from == 0 || list.size() - first < options_.join_from)
      return kNone;
    auto begin = list.begin() + ptrdiff_t(first);
    std::sort(begin, list.end(), std::greater<>());
    list.erase(std::unique(begin, list.end()), list.end());
    if (list.size() - first < options_.join_from)
      return kNone;
    const std::span steps = std::span(list).subspan(first);
    uint32_t &known = set_of_hash_.try_emplace(hash_of(steps), kNone).first->second;
    for (uint32_t set = known; set != kNone; set = sets_[set].same_hash) {
      if (!std::ranges::equal(steps, steps_of(sets_[set])))
        continue;
      found(set);
      if (sets_[set].first_waiting != waiting_)
        list.resize(first);
      return set;
    }
    sets_.push_back({{uint32_t(set_steps_.size()), uint32_t(steps.size())}, waiting_, known});
    set_steps_.insert(set_steps_.end(), steps.begin(), steps.end());
    return known = uint32_t(sets_.size() - 1);
  }

  static uint64_t hash_of(std::span<const uint32_t> steps) {
    uint64_t hash = steps.size();
    for (uint32_t step : steps) {
      hash = (hash ^ step) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
    return hash >> 1; // the map keeps the largest keys for itself
  }

  bool is_step(uint32_t node) const { return node < count_; }
  const Set &set_of(uint32_t node) const { return sets_[set_of_node_[node - count_]]; }

  /// Makes the set's empty node and gives it to the first step that waited for the set. False where
  /// that one had no need to: then this step is the first.
  bool make_node(uint32_t index) {
    Set &set = sets_[index];
    auto is_member = [&](uint32_t node) {
      return std::ranges::binary_search(steps_of(set), node, std::greater<>());
    };
    Range &waits = waits_[set.first_waiting];
    auto begin = kept_.begin() + waits.begin, end = kept_.begin() + waits.end();
    if (std::none_of(begin, end, is_member)) {
      set.first_waiting = waiting_;
      return false;
    }
    set.node = count_ + uint32_t(set_of_node_.size());
    set_of_node_.push_back(index);
    auto kept = std::remove_if(begin, end, is_member);
    *kept++ = set.node;
    waits.count = uint32_t(kept - begin);
    return true;
  }

  // --- Predecessors of the step ---

  void settle() {
    size_t first = kept_.size();
    reduce(first);
    if (uint32_t tail = reach_.tail_to_wait_for(row_); tail != Reach::kNoNode) {
      singles_.push_back(tail);
      reduce(first);
    }
    waits_[waiting_] = {uint32_t(first), uint32_t(kept_.size() - first)};
  }

  /// Fills kept_ from `first` on, and row_.
  void reduce(size_t first) {
    reduce_singles(first);
    std::sort(found_.begin(), found_.end(), std::greater<>());
    for (size_t i = 0; i < found_.size(); ++i) {
      uint32_t index = found_[i];
      if (reach_.covers(row_, sets_[index].found->row))
        continue;
      if (sets_[index].node == kNone && !make_node(index)) {
        const std::span<const uint32_t> steps = steps_of(sets_[index]);
        singles_.insert(singles_.end(), steps.begin(), steps.end());
        found_.erase(found_.begin() + ptrdiff_t(i));
        return reduce(first);
      }
      keep_node(first, sets_[index]);
    }
    share_kept(first);
  }

  void reduce_singles(size_t first) {
    std::sort(singles_.begin(), singles_.end(), std::greater<>());
    kept_.resize(first);
    row_ = reach_.empty_row();
    for (uint32_t node : singles_)
      if (!reach_.reaches(node, row_)) {
        kept_.push_back(node);
        reach_.join(row_, node);
      }
  }

  /// Keeps an empty node in place of the predecessors that it replaces.
  void keep_node(size_t first, const Set &set) {
    const Row &row = set.found->row;
    auto implied = [&](uint32_t node) {
      return is_step(node) ? reach_.reaches(node, row)
                           : reach_.covers(row, set_of(node).found->row);
    };
    kept_.erase(std::remove_if(kept_.begin() + ptrdiff_t(first), kept_.end(), implied),
                kept_.end());
    kept_.push_back(set.node);
    reach_.merge(row_, row);
  }

  /// Shares the step's single predecessors as a set. Empty nodes, which were kept last, come first.
  void share_kept(size_t first) {
    if (options_.join_from == 0 || kept_.size() - first < options_.join_from)
      return;
    const auto begin = kept_.begin() + ptrdiff_t(first);
    const auto steps = std::rotate(
        begin, std::find_if_not(begin, kept_.end(), [&](uint32_t n) { return is_step(n); }),
        kept_.end());
    const size_t known = found_.size();
    share(kept_, size_t(steps - kept_.begin()));
    if (found_.size() == known)
      return;
    uint32_t index = found_.back();
    found_.pop_back();
    if (sets_[index].node != kNone || make_node(index))
      keep_node(first, sets_[index]);
    else {
      const std::span<const uint32_t> set = steps_of(sets_[index]);
      kept_.insert(kept_.end(), set.begin(), set.end());
    }
  }

  /// Steps in order, empty nodes before the first step that waits for them. Gives numbers by node.
  std::vector<uint32_t> number_nodes(std::vector<uint32_t> &nodes) const {
    std::vector<uint32_t> numbers(count_ + set_of_node_.size()), order;
    for (uint32_t node = 0; node < set_of_node_.size(); ++node)
      order.push_back(count_ + node);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return set_of(a).first_waiting < set_of(b).first_waiting;
    });
    nodes.reserve(numbers.size());
    size_t next = 0;
    for (uint32_t s = 0; s < count_; ++s) {
      for (; next < order.size() && set_of(order[next]).first_waiting == s; ++next) {
        numbers[order[next]] = uint32_t(nodes.size());
        nodes.push_back(kNone);
      }
      numbers[s] = uint32_t(nodes.size());
      nodes.push_back(s);
    }
    return numbers;
  }

  const Function &function_;
  const std::span<const uint32_t> steps_;
  const uint32_t count_; // of steps
  const ByteRanges &ranges_;
  const StepConditions &conditions_;
  const GraphOptions &options_;
  Reach reach_;
  std::array<std::vector<uint32_t>, 5> space_of_; // by BufferBase and index
  std::vector<Space> spaces_;
  std::vector<Reader> readers_;
  std::vector<Set> sets_;
  std::vector<uint32_t> set_steps_;
  std::vector<uint32_t> set_of_node_;              // by empty node
  llvm::DenseMap<uint64_t, uint32_t> set_of_hash_; // the newest
  std::vector<Range> waits_;                       // by step: into kept_
  std::vector<uint32_t> kept_;                     // nodes

  // Facts about the present step.
  uint32_t waiting_ = 0, condition_ = StepConditions::kAlways;
  std::vector<uint32_t> singles_, writers_; // steps that it waits for
  std::vector<uint32_t> found_;             // sets
  Row row_;
};

} // namespace

// A counting sort by end, then a stable one by begin.
void sort_edges(std::vector<Edge> &edges, size_t nodes) {
  std::vector<Edge> sorted(edges.size());
  std::vector<uint32_t> place;
  for (uint32_t Edge::*key : {&Edge::to, &Edge::from}) {
    place.assign(nodes + 1, 0);
    for (const Edge &edge : edges)
      ++place[edge.*key + 1];
    for (size_t node = 0; node < nodes; ++node)
      place[node + 1] += place[node];
    for (const Edge &edge : edges)
      sorted[place[edge.*key]++] = edge;
    edges.swap(sorted);
  }
}

RegionGraph make_region_graph(const Function &function, std::span<const uint32_t> steps,
                              const ByteRanges &ranges, const StepConditions &conditions,
                              const GraphOptions &options) {
  Sweep<LaneReach> lanes(function, steps, ranges, conditions, options);
  if (lanes.run())
    return lanes.take();
  Sweep<BitReach> bits(function, steps, ranges, conditions, options);
  bits.run();
  return bits.take();
}

} // namespace cugrt::plan
