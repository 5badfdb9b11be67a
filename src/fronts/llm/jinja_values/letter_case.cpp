// Cases of letters; see text.h.
#include "fronts/llm/jinja_values/text.h"

#include <algorithm>
#include <span>

namespace cugrt::llm::jinja {

namespace {

struct Run {
  char32_t first, last, step;
  int32_t add;
};
struct Several {
  char32_t code;
  Letters letters;
};
#include "fronts/llm/jinja_values/letter_case.inc"

Letters look_up(char32_t code, std::span<const Run> runs, std::span<const Several> several) {
  const auto other = std::ranges::lower_bound(several, code, {}, &Several::code);
  if (other != several.end() && other->code == code)
    return other->letters;
  // Runs are in the order of their beginnings, and two of them may lie within each other.
  auto run = std::ranges::upper_bound(runs, code, {}, &Run::first);
  for (int i = 0; i < 3 && run != runs.begin(); ++i)
    if (--run; code <= run->last && (code - run->first) % run->step == 0)
      return {1, {code + static_cast<char32_t>(run->add)}};
  return {1, {code}};
}

} // namespace

Letters letters_of(char32_t code, LetterCase to) {
  if (code < 0x80) {
    const bool is_upper = code >= 'A' && code <= 'Z', is_lower = code >= 'a' && code <= 'z';
    const bool changes = to == LetterCase::lower ? is_upper : is_lower;
    return {1, {changes ? code ^ 0x20 : code}};
  }
  switch (to) {
  case LetterCase::lower:
    return look_up(code, kLowerRuns, kLowerSeveral);
  case LetterCase::upper:
    return look_up(code, kUpperRuns, kUpperSeveral);
  case LetterCase::title:
    return look_up(code, kTitleRuns, kTitleSeveral);
  }
  return {1, {code}};
}

bool is_cased(char32_t code) {
  const auto stays = [&](LetterCase to) {
    const Letters letters = letters_of(code, to);
    return letters.count == 1 && letters.codes[0] == code;
  };
  return !stays(LetterCase::lower) || !stays(LetterCase::upper);
}

bool is_lower(char32_t code) {
  return is_cased(code) && letters_of(code, LetterCase::lower).codes[0] == code;
}

} // namespace cugrt::llm::jinja
