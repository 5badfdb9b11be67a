// Parser and matcher of patterns; see lora_config.h.
#include "fronts/llm/adapters/lora_config.h"

#include "base/whole_number.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace cugrt::llm {

constexpr size_t kMaxPattern = 1024, kMaxSteps = 2048;
constexpr int kMaxNesting = 32, kMaxRepeats = 256;

// pattern := sequence { "|" sequence }     sequence := { piece [ repeat ] }
class ModulePattern::Parser {
public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Steps> parse() {
    CUGRT_ASSIGN(Steps steps, alternatives(0));
    if (at_ != text_.size())
      return error();
    return steps;
  }

private:
  using Set = std::bitset<256>;

  Status error() const {
    return Status::error(Code::unsupported,
                         "the pattern '" + std::string(text_) + "' is not one that is understood");
  }
  bool has_more() const { return at_ < text_.size(); }
  bool take(char c) {
    const bool is_next = has_more() && text_[at_] == c;
    at_ += is_next;
    return is_next;
  }

  static void append(Steps &steps, const Steps &more) {
    steps.insert(steps.end(), more.begin(), more.end());
  }
  static int32_t length(const Steps &steps) { return static_cast<int32_t>(steps.size()); }
  static Steps optional(const Steps &steps) {
    Steps made = {{Kind::split, 1, length(steps) + 1}};
    append(made, steps);
    return made;
  }

  Result<Steps> alternatives(int depth) {
    if (depth > kMaxNesting)
      return error();
    CUGRT_ASSIGN(Steps steps, sequence(depth));
    while (take('|')) {
      CUGRT_ASSIGN(const Steps other, sequence(depth));
      Steps made = {{Kind::split, 1, length(steps) + 2}};
      append(made, steps);
      made.push_back({Kind::jump, length(other) + 1});
      append(made, other);
      steps = std::move(made);
    }
    return steps;
  }

  Result<Steps> sequence(int depth) {
    Steps steps;
    while (has_more() && text_[at_] != '|' && text_[at_] != ')') {
      CUGRT_ASSIGN(Steps next, piece(depth));
      CUGRT_ASSIGN(next, repeated(std::move(next)));
      append(steps, next);
      if (steps.size() > kMaxSteps)
        return error();
    }
    return steps;
  }

  Result<Steps> piece(int depth) {
    if (take('^'))
      return Steps{{Kind::at_begin}};
    if (take('$'))
      return Steps{{Kind::at_end}};
    if (take('(')) {
      if (take('?') && !take(':'))
        return error();
      CUGRT_ASSIGN(Steps steps, alternatives(depth + 1));
      return take(')') ? Result<Steps>(std::move(steps)) : error();
    }
    CUGRT_ASSIGN(const Set set, take('[') ? char_class() : one_char());
    return Steps{{Kind::one_of, 1, 1, set}};
  }

  Result<Set> one_char() {
    const char c = text_[at_++];
    if (c == '\\')
      return escaped();
    if (c == '.')
      return ~of('\n');
    if (std::string_view("*+?{}]").find(c) != std::string_view::npos)
      return error();
    return of(c);
  }

  static Set of(char c) { return Set().set(static_cast<unsigned char>(c)); }
  static Set where(int (*is)(int)) {
    Set set;
    for (int c = 0; c < 128; ++c)
      set[static_cast<size_t>(c)] = is(c) != 0;
    return set;
  }

  /// Reads the set behind a backslash.
  Result<Set> escaped() {
    if (!has_more())
      return error();
    const char c = text_[at_++];
    const Set word = where(std::isalnum) | of('_');
    switch (c) {
    case 'd':
      return where(std::isdigit);
    case 'D':
      return ~where(std::isdigit);
    case 'w':
      return word;
    case 'W':
      return ~word;
    case 's':
      return where(std::isspace);
    case 'S':
      return ~where(std::isspace);
    default: // a character of the pattern, not one of a list of ours
      return std::isalnum(static_cast<unsigned char>(c)) ? Result<Set>(error()) : of(c);
    }
  }

  Result<Set> char_class() {
    Set set;
    const bool is_negated = take('^');
    for (bool is_first = true; is_first || !take(']'); is_first = false) {
      if (!has_more())
        return error();
      const char first = text_[at_++];
      CUGRT_ASSIGN(const Set one, first == '\\' ? escaped() : of(first));
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        const char last = text_[at_ + 1];
        at_ += 2;
        if (one.count() != 1 || last == '\\' || last < first)
          return error();
        for (int c = static_cast<unsigned char>(first); c <= static_cast<unsigned char>(last); ++c)
          set.set(static_cast<size_t>(c));
      }
      set |= one;
    }
    return is_negated ? ~set : set;
  }

  std::optional<int> number() {
    const size_t begin = at_;
    while (has_more() && std::isdigit(static_cast<unsigned char>(text_[at_])))
      ++at_;
    const auto value = whole_number<int>(text_.substr(begin, at_ - begin));
    return value && *value <= kMaxRepeats ? value : std::nullopt;
  }

  /// A piece with its repetition, if one follows. Greedy or not, the paths are the same.
  Result<Steps> repeated(Steps piece) {
    int least = 1, most = 1; // -1: any number
    if (take('*'))
      least = 0, most = -1;
    else if (take('+'))
      most = -1;
    else if (take('?'))
      least = 0;
    else if (take('{')) {
      const std::optional<int> first = number();
      std::optional<int> second = first;
      if (take(','))
        second = has_more() && text_[at_] == '}' ? std::optional(-1) : number();
      if (!first || !second || !take('}') || (*second >= 0 && *second < *first))
        return error();
      least = *first;
      most = *second;
    } else {
      return piece;
    }
    take('?');
    if (has_more() && std::string_view("*+?{").find(text_[at_]) != std::string_view::npos)
      return error();
    Steps steps;
    for (int i = 0; i < std::max(least, most); ++i) {
      append(steps, i < least ? piece : optional(piece));
      if (steps.size() > kMaxSteps)
        return error();
    }
    if (most < 0) {
      steps.push_back({Kind::split, 1, length(piece) + 2});
      append(steps, piece);
      steps.push_back({Kind::jump, -length(piece) - 1});
    }
    return steps;
  }

  std::string_view text_;
  size_t at_ = 0;
};

Result<ModulePattern> ModulePattern::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPattern)
    return Status::error(Code::unsupported, "a pattern has more than 1024 characters");
  ModulePattern made;
  CUGRT_ASSIGN(made.steps_, Parser(pattern).parse());
  return made;
}

// All steps that can be reached from one without a character.
void ModulePattern::enter(size_t step, std::string_view path, size_t at, States &states) const {
  std::vector<size_t> open = {step};
  while (!open.empty()) {
    const size_t now = open.back();
    open.pop_back();
    if (states.seen[now])
      continue;
    states.seen[now] = true;
    if (now == steps_.size()) {
      states.list.push_back(now);
      continue;
    }
    const Step &s = steps_[now];
    const auto next = [&](int32_t by) { open.push_back(now + static_cast<size_t>(by)); };
    switch (s.kind) {
    case Kind::one_of:
      states.list.push_back(now);
      break;
    case Kind::split:
      next(s.to);
      next(s.or_to);
      break;
    case Kind::jump:
      next(s.to);
      break;
    case Kind::at_begin:
      if (at == 0)
        next(1);
      break;
    case Kind::at_end:
      if (at == path.size())
        next(1);
      break;
    }
  }
}

bool ModulePattern::matches(std::string_view path) const {
  States states, next;
  states.seen.assign(steps_.size() + 1, false);
  for (size_t at = 0;; ++at) {
    if (at == 0 || path[at - 1] == '.')
      enter(0, path, at, states);
    if (at == path.size())
      return states.seen.back();
    next.seen.assign(states.seen.size(), false);
    next.list.clear();
    for (const size_t step : states.list)
      if (step < steps_.size() && steps_[step].set[static_cast<unsigned char>(path[at])])
        enter(step + 1, path, at + 1, next);
    std::swap(states, next);
  }
}

} // namespace cugrt::llm
