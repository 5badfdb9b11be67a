// Pieces of a search: into which the unplaced items fall, and which of them are known to fail. See
// search.cpp.
#include "compiler/planner/packing/search.h"

#include <algorithm>

namespace cugrt::plan {

static uint64_t mix(uint64_t x) { // the finalizer of a 64-bit multiplicative hash
  for (int round = 0; round < 2; ++round) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
  }
  return x ^ (x >> 32);
}

uint64_t PackingSearch::salt_of(size_t strategy, int64_t capacity_bytes) {
  return mix(mix(strategy + 1) + uint64_t(capacity_bytes));
}

/// Lists the pieces into which the unplaced items of `rest` fall.
void PackingSearch::split(Piece rest) {
  const size_t listed = pieces_.size();
  uint32_t first = rest.first, previous = 0, end = 0;
  for (uint32_t link = rest.first;; link = next_[link]) {
    const PackingProblem::Item &item = problem_.items[link - 1];
    if (previous != 0 && item.begin >= end) {
      pieces_.push_back({first, previous});
      first = link;
    }
    end = std::max(end, item.end);
    previous = link;
    if (link == rest.last)
      break;
  }
  pieces_.push_back({first, previous});
  if (problem_.gapped)
    for (size_t piece = listed, end_piece = pieces_.size(); piece < end_piece; ++piece)
      split_apart(piece);
}

/// Splits a listed piece into components, and brings their items next to each other.
void PackingSearch::split_apart(size_t index) {
  const Piece piece = pieces_[index];
  seen_.resize(top_.size());
  parent_.resize(problem_.items.size());
  auto root = [&](uint32_t item) {
    for (; parent_[item] != item; item = parent_[item])
      parent_[item] = parent_[parent_[item]];
    return item;
  };
  ++mark_;
  for (uint32_t l = piece.first;; l = next_[l]) {
    parent_[l - 1] = l - 1;
    for (const PackingProblem::Span &span : problem_.spans_of(problem_.items[l - 1]))
      for (uint32_t s = span.begin; s < span.end; ++s) {
        if (std::exchange(seen_[s].mark, mark_) == mark_) {
          const uint32_t a = root(seen_[s].item), b = root(l - 1);
          parent_[std::max(a, b)] = std::min(a, b);
        }
        seen_[s].item = l - 1;
      }
    if (l == piece.last)
      break;
  }
  components_.clear();
  bool apart = false;
  for (uint32_t l = piece.first;; l = next_[l]) {
    components_.push_back({root(l - 1), l - 1});
    apart |= components_.back().first != components_.front().first;
    if (l == piece.last)
      break;
  }
  if (!apart)
    return;
  std::sort(components_.begin(), components_.end());
  uint32_t last = previous_[piece.first];
  const uint32_t after = next_[piece.last];
  pieces_[index] = {components_[0].second + 1, 0};
  for (size_t i = 0, at = index; i < components_.size(); ++i) {
    const uint32_t l = components_[i].second + 1;
    if (i > 0 && components_[i - 1].first != components_[i].first) {
      pieces_[at].last = last;
      at = pieces_.size();
      pieces_.push_back({l, 0});
    }
    link(std::exchange(last, l), l);
    pieces_[at].last = l;
  }
  link(last, after);
}

void PackingSearch::link(uint32_t from, uint32_t to) {
  trail_.push_back({Undo::next, from, int64_t(next_[from])});
  next_[from] = to;
  previous_[to] = from;
}

PackingSearch::Piece PackingSearch::without(Piece piece, uint32_t item) const {
  uint32_t link = item + 1;
  return {link == piece.first ? next_[link] : piece.first,
          link == piece.last ? previous_[link] : piece.last};
}

/// Marks the sections in which the piece has items.
void PackingSearch::mark_sections(Piece piece) {
  seen_.resize(top_.size());
  ++mark_;
  for (uint32_t l = piece.first;; l = next_[l]) {
    for (const PackingProblem::Span &span : problem_.spans_of(problem_.items[l - 1]))
      for (uint32_t s = span.begin; s < span.end; ++s)
        seen_[s].mark = mark_;
    if (l == piece.last)
      return;
  }
}

uint64_t PackingSearch::key_of(Piece piece) const {
  uint64_t sum = salt_;
  for (uint32_t link = piece.first;; link = next_[link]) {
    sum += mix(link * uint64_t(0x9e3779b97f4a7c15u) + uint64_t(lowest_[link - 1]));
    if (link == piece.last)
      return mix(sum) | 1; // never the key of an empty entry
  }
}

/// A state that took long to refute displaces one that took less; others wear it down.
void PackingSearch::remember(const Decision &decision) {
  Known &known = known_[(decision.key >> 1) & (known_.size() - 1)];
  int64_t nodes = nodes_ - decision.nodes_before;
  if (2 * nodes >= known.nodes)
    known = {decision.key, nodes};
  else
    --known.nodes;
}

} // namespace cugrt::plan
