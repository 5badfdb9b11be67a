// Merging neighbours of a word until none can be: what both kinds of tokenizer do.
//
// The word is a list of symbols; of all pairs that may be merged the best one is, the leftmost of
// equals, and then its neighbours are looked at again. Memory and time go with n log n of the word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace cugrt::llm {

struct Symbol {
  int32_t id = -1;             // the token, or -1 of text that is none
  uint32_t begin = 0, end = 0; // bytes of the word
  int32_t previous = -1, next = -1;
};

template <class Rank> struct Merge {
  Rank rank; // less is better
  int32_t id;
};

/// `find(left, right)` gives what points to a Merge, or to none. Merged symbols have end == begin
/// and no neighbours; those that stay are linked from the first on.
template <class Rank, class Find> void merge_symbols(std::vector<Symbol> &symbols, Find find) {
  struct Pair {
    Rank rank;
    int32_t left, id;
    uint32_t end; // of the right one, when the pair was found: it may have been merged since
    bool operator<(const Pair &other) const { // the top of the queue is the greatest
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  std::vector<Pair> storage;
  storage.reserve(symbols.size());
  std::priority_queue<Pair> queue({}, std::move(storage));
  const auto look_at = [&](int32_t left) {
    const int32_t right = left < 0 ? -1 : symbols[left].next;
    if (right < 0)
      return;
    if (const auto merge = find(symbols[left], symbols[right]))
      queue.push({merge->rank, left, merge->id, symbols[right].end});
  };
  for (size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<int32_t>(i) + 1 : -1;
  }
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    look_at(static_cast<int32_t>(i));
  while (!queue.empty()) {
    const Pair pair = queue.top();
    queue.pop();
    Symbol &left = symbols[pair.left];
    // The pair is gone or has changed; the change has queued the new pair.
    if (left.begin == left.end || left.next < 0 || symbols[left.next].end != pair.end)
      continue;
    Symbol &right = symbols[left.next];
    left.id = pair.id;
    left.end = right.end;
    left.next = right.next;
    right.begin = right.end;
    if (left.next >= 0)
      symbols[left.next].previous = pair.left;
    look_at(left.previous);
    look_at(pair.left);
  }
}

} // namespace cugrt::llm
