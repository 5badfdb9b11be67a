// Search for a packing below a given capacity: a depth-first search over the skyline, see the
// drawing in search.cpp. Deterministic: it stops by counted nodes, never by a clock.
#pragma once

#include "compiler/planner/packing/problem.h"

#include <string_view>
#include <utility>

namespace cugrt::plan {

/// How a search picks the point to decide next, and what it tries there first. No strategy is good
/// everywhere: run times of one are heavy-tailed, so several are raced.
struct PackingStrategy {
  /// Keys of the order in which items are tried, all descending: T largest section load spanned, W
  /// lifetime, C changes spanned, A bytes times lifetime, B bytes times changes, O conflicts, L
  /// begin (ascending).
  const char *order = "";
  bool weighted = true;       // prefer points where searches failed before
  bool from_end = false;      // of equal points take the last
  bool last_conflict = false; // return to the section that failed last as soon as it can be decided
};

/// A search engine for one problem; keeps its memory, and its weights, from run to run.
class PackingSearch {
public:
  enum class Outcome : uint8_t { solved, exhausted, limit };

  /// `memory_nodes`: about as many failed states are remembered. The problem must outlive the
  /// search.
  PackingSearch(const PackingProblem &problem, std::span<const PackingStrategy> strategies,
                int64_t memory_nodes);

  /// Looks for a packing of at most `capacity_bytes` with strategy number `strategy`. `exhausted`
  /// means that there is none, as far as the search's exclusions are exact; `limit`: nothing is
  /// known.
  Outcome run(size_t strategy, int64_t capacity_bytes, int64_t node_limit);
  /// Offsets of the last run that was solved; one for each item, multiples of its alignment.
  const std::vector<int64_t> &offsets() const { return offsets_; }
  /// Decisions tried by the last run.
  int64_t nodes() const { return nodes_; }

private:
  /// Unplaced items, linked one after the other, within a piece in ascending order of begin; item i
  /// is link i + 1.
  struct Piece {
    uint32_t first, last;
  };
  /// A decision: one of the candidates starts at (section, level), or nothing does.
  struct Decision {
    Piece piece;
    uint32_t section = 0;
    int64_t level = 0;
    size_t candidate_begin, candidate_next, candidate_end; // in candidates_
    size_t piece_begin, piece_next;                        // in pieces_; to its end while on top
    size_t piece_end;
    size_t trail_mark;
    bool waste_tried = false;
    uint64_t key = 0;
    int64_t nodes_before = 0;
  };
  struct Undo {
    enum Kind : uint8_t { lowest, top, topmost, placed, next } kind;
    uint32_t index;
    int64_t old;
  };
  struct Known {
    uint64_t key = 0;
    int64_t nodes = 0; // what it took to find out
  };
  struct Ranks {
    std::string_view order;
    std::vector<uint32_t> of_item;
  };
  struct Rule {
    PackingStrategy strategy;
    size_t order;                  // in ranks_
    std::vector<uint32_t> weights; // of each section: how often it made a search fail
  };

  size_t add_order(std::string_view order);
  uint32_t rank(uint32_t item) const { return ranks_[rule_->order].of_item[item]; }
  void reset(int64_t capacity_bytes);
  bool enter(Piece piece);
  bool advance(Decision &decision);
  bool redundant(const Decision &decision, size_t candidate) const;
  bool place(uint32_t item);
  int64_t lift_of(uint32_t item, const Decision &decision) const;
  bool waste(const Decision &decision);
  bool settle(uint32_t begin, uint32_t end);
  bool settle(uint32_t section);
  bool fail_at(uint32_t section);
  void split(Piece rest);
  void split_apart(size_t piece);
  void link(uint32_t from, uint32_t to);
  void undo_to(size_t trail_mark);
  void take_back(uint32_t item);
  template <bool kGapped> uint32_t choose_section(uint32_t begin, uint32_t end) const;
  void mark_sections(Piece piece);
  bool may_decide(uint32_t section) const;
  uint64_t score(uint32_t section) const;
  static uint64_t salt_of(size_t strategy, int64_t capacity_bytes);
  uint64_t key_of(Piece piece) const;
  void remember(const Decision &decision);
  Piece without(Piece piece, uint32_t item) const;
  void set_lowest(uint32_t item, int64_t value);
  void set_top(uint32_t section, int64_t value);

  const PackingProblem &problem_;
  std::vector<Ranks> ranks_; // orders that several strategies have once
  std::vector<Rule> rules_;
  Rule *rule_ = nullptr;
  uint64_t salt_ = 0;
  int64_t capacity_ = 0, limit_ = 0, nodes_ = 0;
  bool out_of_nodes_ = false;
  uint32_t last_failed_ = UINT32_MAX;
  // State of items.
  std::vector<int64_t> offsets_, lowest_; // lowest_: no packing of this branch has it lower
  std::vector<uint8_t> placed_;
  std::vector<uint32_t> next_, previous_; // links of unplaced items
  // State of sections.
  std::vector<int64_t> top_, unplaced_bytes_;
  std::vector<uint32_t> topmost_; // the item placed last, or UINT32_MAX
  // Stacks.
  std::vector<Undo> trail_;
  std::vector<uint32_t> candidates_;
  std::vector<Piece> pieces_;
  std::vector<Decision> decisions_;
  std::vector<int64_t> lifts_; // scratch of waste()
  // Scratch where items have gaps. A mark is a number of its own for each use.
  struct Seen {
    uint32_t mark = 0, item = 0;
  };
  std::vector<Seen> seen_; // by section
  uint32_t mark_ = 0;
  std::vector<uint32_t> parent_;                          // by item: of its component, the least
  std::vector<std::pair<uint32_t, uint32_t>> components_; // (least item, item)
  std::vector<Known> known_; // failed states, by their hash; a power of two
};

} // namespace cugrt::plan
