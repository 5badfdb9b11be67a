// Checks items to pack, and brings them into canonical order.
#include "compiler/planner/packing/items.h"

#include "base/checked_math.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace cugrt::plan {
namespace {

Status invalid(size_t item, const std::string &what) {
  return Status::error(Code::invalid_argument, "packing item " + std::to_string(item) + " " + what);
}

/// Sizes padded for any alignment add up to less than 2^63 above the highest fixed end: no
/// placement exceeds that.
Status check_items(std::span<const PackingItem> items, int64_t highest_fixed_end) {
  int64_t total = highest_fixed_end, largest_alignment = 1;
  for (const PackingItem &item : items)
    largest_alignment = std::max(largest_alignment, item.alignment);
  for (size_t i = 0; i < items.size(); ++i) {
    const PackingItem &item = items[i];
    if (item.begin >= item.end || item.bytes < 0 || item.alignment <= 0 ||
        (item.alignment & (item.alignment - 1)) != 0)
      return invalid(i, "needs begin < end, bytes that are not negative and an alignment that is a "
                        "power of two");
    auto padded = checked_add(item.bytes, largest_alignment);
    auto sum = padded ? checked_add(total, *padded) : std::nullopt;
    if (!sum)
      return Status::error(Code::out_of_range, "the tensors' sizes add up to more than 2^63 bytes; "
                                               "lower the upper bounds of their symbols");
    total = *sum;
  }
  return {};
}

Status check_gaps(const PackingInput &input) {
  for (size_t g = 0; g < input.gaps.size(); ++g) {
    const PackingGap &gap = input.gaps[g];
    if (gap.item >= input.items.size())
      return Status::error(Code::invalid_argument, "a gap of a packing names no item");
    const PackingItem &item = input.items[gap.item];
    const bool ordered = g == 0 || std::tuple(input.gaps[g - 1].item, input.gaps[g - 1].end) <=
                                       std::tuple(gap.item, gap.begin);
    if (!ordered || gap.begin >= gap.end || gap.begin < item.begin || gap.end > item.end)
      return invalid(gap.item, "needs gaps that are ascending, disjoint and within its life");
  }
  return {};
}

/// Gives the highest end of a fixed item.
Result<int64_t> check_fixed(const PackingInput &input) {
  int64_t highest = 0;
  for (size_t f = 0; f < input.fixed.size(); ++f) {
    const PackingPlace &place = input.fixed[f];
    if (place.item >= input.items.size() || (f > 0 && input.fixed[f - 1].item >= place.item))
      return Status::error(Code::invalid_argument,
                           "fixed places of a packing must name items, each once and ascending");
    const PackingItem &item = input.items[place.item];
    auto end = checked_add(place.offset_bytes, item.bytes);
    if (place.offset_bytes < 0 || !end ||
        (item.alignment > 0 && place.offset_bytes % item.alignment != 0))
      return invalid(place.item,
                     "is fixed at an offset that is negative, too large or not aligned");
    highest = std::max(highest, *end);
  }
  return highest;
}

/// Walks in order of time, with occupied bytes in a map by offset.
Status check_fixed_apart(const PackingInput &input) {
  struct Event {
    uint32_t time;
    bool begins;
    uint32_t item;
    int64_t begin_bytes, end_bytes;
    bool operator<(const Event &other) const { // of one time, ends come first
      return std::tie(time, begins, item) < std::tie(other.time, other.begins, other.item);
    }
  };
  std::vector<Event> events;
  size_t f = 0;
  for_each_life(input, [&](uint32_t i, uint32_t begin, uint32_t end) {
    while (f < input.fixed.size() && input.fixed[f].item < i)
      ++f;
    if (f == input.fixed.size() || input.fixed[f].item != i || input.items[i].bytes == 0)
      return;
    const int64_t from = input.fixed[f].offset_bytes, to = from + input.items[i].bytes;
    events.push_back({begin, true, i, from, to});
    events.push_back({end, false, i, from, to});
  });
  std::sort(events.begin(), events.end());
  std::map<int64_t, const Event *> occupied; // by begin, disjoint
  for (const Event &event : events) {
    if (!event.begins) {
      occupied.erase(event.begin_bytes);
      continue;
    }
    auto above = occupied.lower_bound(event.begin_bytes);
    auto clash = [&](auto it) {
      return it->first < event.end_bytes && event.begin_bytes < it->second->end_bytes;
    };
    auto found = above != occupied.end() && clash(above)                ? above
                 : above != occupied.begin() && clash(std::prev(above)) ? std::prev(above)
                                                                        : occupied.end();
    if (found != occupied.end())
      return invalid(event.item, "is fixed in bytes of item " +
                                     std::to_string(found->second->item) + " while both are alive");
    occupied.emplace(event.begin_bytes, &event);
  }
  return {};
}

/// Lives by the caller's numbers; where there are no gaps, nothing is stored.
class InputLives {
public:
  explicit InputLives(const PackingInput &input) : items_(input.items) {
    if (input.gaps.empty())
      return;
    starts_.assign(items_.size() + 1, 0);
    for_each_life(input, [&](uint32_t i, uint32_t begin, uint32_t end) {
      lives_.push_back({begin, end});
      starts_[i + 1] = uint32_t(lives_.size());
    });
    for (size_t i = 0; i < items_.size(); ++i) // those that are never alive
      starts_[i + 1] = std::max(starts_[i], starts_[i + 1]);
  }
  /// Empty where there are no gaps at all.
  std::span<const CanonicalItems::Steps> operator[](uint32_t i) const {
    if (starts_.empty())
      return {};
    return std::span(lives_).subspan(starts_[i], starts_[i + 1] - starts_[i]);
  }
  bool alive(uint32_t i) const { return starts_.empty() || starts_[i] < starts_[i + 1]; }
  /// Item i from the first step alive to the last.
  PackingItem trimmed(uint32_t i) const {
    PackingItem item = items_[i];
    if (!starts_.empty()) {
      item.begin = lives_[starts_[i]].begin;
      item.end = lives_[starts_[i + 1] - 1].end;
    }
    return item;
  }

private:
  std::span<const PackingItem> items_;
  std::vector<uint32_t> starts_;
  std::vector<CanonicalItems::Steps> lives_;
};

} // namespace

Status check_input(const PackingInput &input) {
  CUGRT_ASSIGN(const int64_t highest, check_fixed(input));
  CUGRT_TRY(check_items(input.items, highest));
  CUGRT_TRY(check_gaps(input));
  return input.fixed.empty() ? Status() : check_fixed_apart(input);
}

CanonicalItems CanonicalItems::make(const PackingInput &input) {
  const InputLives lives(input);
  std::vector<int64_t> fixed(input.fixed.empty() ? 0 : input.items.size(), -1);
  for (const PackingPlace &place : input.fixed)
    fixed[place.item] = place.offset_bytes;
  CanonicalItems out;
  for (uint32_t i = 0; i < input.items.size(); ++i)
    if (input.items[i].bytes > 0 && lives.alive(i))
      out.given.push_back(i);
  const auto less = [&](uint32_t a, uint32_t b) {
    const PackingItem x = lives.trimmed(a), y = lives.trimmed(b);
    const auto keys_x = std::tie(x.begin, x.end, x.bytes, x.alignment),
               keys_y = std::tie(y.begin, y.end, y.bytes, y.alignment);
    if (keys_x != keys_y)
      return keys_x < keys_y;
    if (!std::ranges::equal(lives[a], lives[b]))
      return std::ranges::lexicographical_compare(lives[a], lives[b]);
    if (!fixed.empty() && fixed[a] != fixed[b])
      return fixed[a] < fixed[b];
    return a < b;
  };
  const auto begins_before = [&](uint32_t a, uint32_t b) {
    return lives.trimmed(a).begin < lives.trimmed(b).begin;
  };
  // Programs make their items in order of begin: then only those of one begin are to be sorted.
  const auto end = out.given.end();
  const bool ascend = std::is_sorted(out.given.begin(), end, begins_before);
  for (auto first = out.given.begin(), last = end; first != end; first = last) {
    if (ascend)
      last = std::find_if(first, end, [&](uint32_t i) { return begins_before(*first, i); });
    std::sort(first, last, less);
  }
  out.items.reserve(out.given.size());
  for (uint32_t i : out.given) {
    out.items.push_back(lives.trimmed(i));
    if (!fixed.empty())
      out.fixed.push_back(fixed[i]);
    out.life_starts.push_back(uint32_t(out.lives.size()));
    out.lives.insert(out.lives.end(), lives[i].begin(), lives[i].end());
  }
  out.life_starts.push_back(uint32_t(out.lives.size()));
  return out;
}

std::vector<uint32_t> CanonicalItems::change_times() const {
  std::vector<uint32_t> times;
  times.reserve((items.size() + lives.size()) * 2);
  for (uint32_t i = 0; i < items.size(); ++i)
    for_each_life_of(i, [&](uint32_t begin, uint32_t end) {
      times.push_back(begin);
      times.push_back(end);
    });
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

uint32_t CanonicalItems::life_steps(uint32_t i) const {
  uint32_t steps = 0;
  for_each_life_of(i, [&](uint32_t begin, uint32_t end) { steps += end - begin; });
  return steps;
}

bool CanonicalItems::together(uint32_t i, uint32_t j) const {
  if (items[i].end <= items[j].begin || items[j].end <= items[i].begin)
    return false;
  if (lives.empty())
    return true;
  for (uint32_t a = life_starts[i], b = life_starts[j];
       a < life_starts[i + 1] && b < life_starts[j + 1];) {
    if (lives[a].begin < lives[b].end && lives[b].begin < lives[a].end)
      return true;
    lives[a].end <= lives[b].end ? ++a : ++b;
  }
  return false;
}

} // namespace cugrt::plan
