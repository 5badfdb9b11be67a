// The kernels that draft tokens and verify them, against their definition.
#include "differential/llm/sequences.h"

#include "fronts/llm/architectures/decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

using namespace cugrt;
using namespace cugrt::llm;
using namespace cugrt::test;

namespace {

constexpr int32_t kUnwritten = -7;
constexpr int64_t kRing = 4; // rows

/// An argument of a kernel, and what it holds before and behind the launch; floats as their bits.
struct Words {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<int32_t> words;
  cugrt_dtype dtype = CUGRT_I32;

  Words(std::string name, std::vector<int64_t> dims, int32_t value = 0)
      : name(std::move(name)), dims(std::move(dims)) {
    int64_t count = 1;
    for (const int64_t dim : this->dims)
      count *= dim;
    words.assign(size_t(count), value);
  }
  int32_t &operator[](int64_t i) { return words.at(size_t(i)); }
  const int32_t &operator[](int64_t i) const { return words.at(size_t(i)); }
};

void launch(const std::string &kernel, const std::vector<Words *> &arguments,
            const std::vector<int64_t> &sizes) {
  std::string params, operands, numbers;
  std::vector<Buffer> buffers;
  std::vector<Value> values;
  for (const Words *argument : arguments) {
    std::string dims;
    for (const int64_t dim : argument->dims)
      dims += (dims.empty() ? "" : ", ") + std::to_string(dim);
    params += (params.empty() ? "%" : ", %") + argument->name + ": inout tensor<[" + dims + "], " +
              (argument->dtype == CUGRT_F32 ? "f32>" : "i32>");
    operands += "%" + argument->name + ", ";
    buffers.push_back(upload(argument->words));
    values.emplace_back(
        buffers.back().tensor(argument->dtype, std::span<const int64_t>(argument->dims)));
  }
  for (const int64_t size : sizes)
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(size);
  Executable executable(emulated_runtime(),
                        Module::parse(std::string(kStateKernels) + kDraftKernels + "func @main(" +
                                      params + ") {\n  launch @" + kernel + "(" + operands +
                                      numbers + ")\n  return\n}\n"));
  Session session(executable, emulated_runtime());
  session.run(executable.function("main"), std::span<const Value>(values));
  session.synchronize();
  for (size_t i = 0; i < buffers.size(); ++i)
    arguments[i]->words = download<int32_t>(buffers[i].address(), arguments[i]->words.size());
}

/// @verify_step: nothing ends a text, and nothing is drafted, unless it is said.
struct Verification {
  int64_t places, rows, vocabulary, context;
  Words logits, samplers, counts, tokens, positions, lengths, limits, ends, told, steps, ring,
      published, goes_on, ids, row_lengths, texts, chosen;

  Verification(int64_t places, int64_t rows, int64_t vocabulary, int64_t context)
      : places(places), rows(rows), vocabulary(vocabulary), context(context),
        logits("logits", {places * rows, vocabulary}), samplers("samplers", {places, 8}),
        counts("counts", {places, vocabulary}), tokens("tokens", {places}),
        positions("positions", {places}), lengths("lengths", {places}),
        limits("limits", {places}, INT32_MAX), ends("ends", {places, (vocabulary + 31) / 32}),
        told("told", {2 + places}), steps("steps", {2}),
        ring("ring", {kRing, places * rows}, kUnwritten), published("published", {1}, kUnwritten),
        goes_on("goes_on", {1}, kUnwritten), ids("ids", {places * rows}),
        row_lengths("row_lengths", {places * rows}), texts("texts", {places, context}, kUnwritten),
        chosen("chosen", {places * rows}) {
    logits.dtype = CUGRT_F32;
    for (int64_t place = 0; place < places; ++place)
      set_sampler(place, {});
  }
  void set_sampler(int64_t place, const Sampling &how) {
    const std::array<int32_t, 8> of = sampler_words(how);
    std::ranges::copy(of, samplers.words.begin() + place * 8);
  }
  void set_logit(int64_t row, int64_t token, float logit) {
    logits[row * vocabulary + token] = std::bit_cast<int32_t>(logit);
  }
  float logit(int64_t row, int64_t token) const {
    return std::bit_cast<float>(logits[row * vocabulary + token]);
  }
  /// The place is open at a position, and so many of its rows are taken in.
  void set_open(int64_t place, int32_t position, int64_t count) {
    positions[place] = position;
    lengths[place] = position + 1;
    for (int64_t row = 0; row < count; ++row)
      row_lengths[place * rows + row] = position + int32_t(row) + 1;
  }
  void run() {
    launch("verify_step",
           {&logits, &samplers, &counts, &tokens, &positions, &lengths, &limits, &ends, &told,
            &steps, &ring, &published, &goes_on, &ids, &row_lengths, &texts, &chosen},
           {places, vocabulary, kRing, rows, context});
  }
};

/// The token with the largest logit after penalties, the first of equal ones.
int32_t most_likely(const Verification &v, int64_t row, const std::vector<int32_t> &counts,
                    const Sampling &how) {
  int32_t best = 0;
  float largest = -INFINITY;
  for (int64_t token = 0; token < v.vocabulary; ++token) {
    float logit = v.logit(row, token);
    if (const int32_t count = counts[size_t(token)]) {
      logit = logit > 0 ? logit / float(how.repetition) : logit * float(how.repetition);
      logit -= float(how.frequency) * float(count);
    }
    if (logit > largest) {
      largest = logit;
      best = int32_t(token);
    }
  }
  return best;
}

} // namespace

TEST_CASE("drafts are what followed the text's last tokens where the most of them stood last") {
  constexpr int64_t kPlaces = 200, kRows = 8, kContext = 3000, kGram = 4;
  std::mt19937 random(4);
  Words tokens("tokens", {kPlaces}), positions("positions", {kPlaces}),
      lengths("lengths", {kPlaces}), limits("limits", {kPlaces}),
      texts("texts", {kPlaces, kContext}), ids("ids", {kPlaces * kRows}, kUnwritten),
      row_positions("row_positions", {kPlaces * kRows}, kUnwritten),
      row_places("row_places", {kPlaces * kRows}, kUnwritten),
      row_lengths("row_lengths", {kPlaces * kRows}, kUnwritten);
  for (int64_t place = 0; place < kPlaces; ++place) {
    const bool is_long = place % 3 != 2;
    positions[place] = int32_t(place < 5 ? place : random() % (is_long ? kContext : 40));
    lengths[place] = place % 7 == 6 ? 0 : positions[place] + 1;
    limits[place] =
        int32_t(place % 4 == 1 ? std::min<int64_t>(positions[place] + 3, kContext) : kContext);
    const uint32_t kinds = place % 5 == 4 ? 1 : place % 2 ? 2 : 30;
    for (int64_t i = 0; i < kContext; ++i)
      texts[place * kContext + i] = int32_t(random() % kinds);
    tokens[place] = int32_t(random() % kinds);
  }
  positions[kPlaces - 1] = kContext; // an empty place, whose text fills the context
  lengths[kPlaces - 1] = 0;
  const Words before = texts;
  launch("draft_rows",
         {&tokens, &positions, &lengths, &limits, &texts, &ids, &row_positions, &row_places,
          &row_lengths},
         {kPlaces, kRows, kContext});

  size_t drafted = 0, not_drafted = 0;
  for (int64_t place = 0; place < kPlaces; ++place) {
    INFO("place " << place);
    std::vector<int32_t> text(before.words.begin() + place * kContext,
                              before.words.begin() + place * kContext + positions[place]);
    text.push_back(tokens[place]);
    const auto size = int64_t(text.size());
    // By lengths of what is looked for, the longest first, from the end of the text.
    int64_t follows = -1;
    for (int64_t gram = std::min(kGram, size - 1); gram >= 1 && follows < 0; --gram)
      for (int64_t begin = size - gram - 1; begin >= 0 && follows < 0; --begin)
        if (std::equal(text.end() - gram, text.end(), text.begin() + begin))
          follows = begin + gram;
    const bool is_open = lengths[place] > 0;
    for (int64_t row = 0; row < kRows; ++row) {
      INFO("row " << row);
      const int64_t at = place * kRows + row, position = positions[place] + row;
      const bool is_real = is_open && (row == 0 || (follows >= 0 && position < limits[place]));
      CHECK(row_places[at] == place);
      CHECK(row_lengths[at] == (is_real ? position + 1 : 0));
      if (!is_real) {
        CHECK(ids[at] == tokens[place]); // some token, at some position
        CHECK(row_positions[at] == positions[place]);
        continue;
      }
      if (row > 0)
        text.push_back(text[size_t(follows + row - 1)]); // which may have been drafted
      CHECK(ids[at] == text.back());
      CHECK(row_positions[at] == position);
      ++(row > 0 ? drafted : not_drafted);
    }
    for (int64_t i = 0; i < kContext; ++i) {
      const bool is_token = is_open && i == positions[place];
      REQUIRE(texts[place * kContext + i] ==
              (is_token ? tokens[place] : before[place * kContext + i]));
    }
  }
  CHECK(drafted > 100);
  CHECK(not_drafted > 20);
}

TEST_CASE("the real rows of a prompt's part are noted in its place's text") {
  constexpr int64_t kPlaces = 3, kContext = 200, kRows = 128;
  Words request("request", {4}), ids("ids", {kRows}), texts("texts", {kPlaces, kContext}, -1);
  request.words = {1, 80, 120, 1}; // place, position, real rows, whether they are the last ones
  for (int64_t i = 0; i < kRows; ++i)
    ids[i] = int32_t(i * 3);
  launch("prompt_text", {&request, &ids, &texts}, {kRows, kContext});
  for (int64_t i = 0; i < kPlaces * kContext; ++i) {
    const int64_t row = i - kContext - 80;
    REQUIRE(texts[i] == (row >= 0 && row < 120 ? row * 3 : -1));
  }
}

TEST_CASE("a place is given tokens as long as its drafts are those, up to what ends it") {
  constexpr int64_t kVocabulary = 5, kContext = 60;
  std::mt19937 random(8);
  std::normal_distribution<float> normal(0, 2);
  std::map<size_t, size_t> given_times;
  for (const auto &[places, rows] : {std::pair<int64_t, int64_t>{1, 8}, {9, 5}, {1100, 2}})
    for (int round = 0; round < 6; ++round) {
      Verification v(places, rows, kVocabulary, kContext);
      std::vector<Sampling> how(static_cast<size_t>(places));
      for (int32_t &word : v.logits.words)
        word = std::bit_cast<int32_t>(normal(random));
      for (int64_t place = 0; place < places; ++place) {
        Sampling &own = how[size_t(place)];
        if (place % 3 == 1)
          own = {.repetition = 1.5, .frequency = 0.75};
        v.set_sampler(place, own);
        for (int64_t token = 0; token < kVocabulary; ++token)
          v.counts[place * kVocabulary + token] = int32_t(random() % 3);
        const auto position = int32_t(random() % (kContext - 1));
        if (places == 1 || place % 5 != 4)
          v.set_open(place, position, 1 + int64_t(random() % uint32_t(rows)));
        v.limits[place] = std::min(position + 1 + int32_t(random() % 12), int32_t(kContext));
        v.ends[place] = random() % 4 == 0 ? 1 << (random() % kVocabulary) : 0;
        v.told[2 + place] = random() % 8 == 0;
        std::vector<int32_t> counts(v.counts.words.begin() + place * kVocabulary,
                                    v.counts.words.begin() + (place + 1) * kVocabulary);
        for (int64_t row = 1; row < rows; ++row) { // mostly right
          const int32_t token = most_likely(v, place * rows + row - 1, counts, own);
          ++counts[size_t(token)];
          v.ids[place * rows + row] = random() % 6 ? token : int32_t(random() % kVocabulary);
        }
      }
      v.told[0] = 6;
      v.told[1] = round == 1;
      v.steps[0] = round == 2 ? 9 : 7; // the ring is full behind ten
      Verification wanted = v;
      const int64_t ring_row = v.steps[0] % kRing * places * rows;
      bool goes_on = false;
      for (int64_t place = 0; place < places; ++place) {
        const int64_t first = place * rows;
        std::fill_n(wanted.ring.words.begin() + ring_row + first, rows, -1);
        bool is_open = v.lengths[place] > 0;
        size_t given = 0;
        for (int64_t row = 0; row < rows && is_open; ++row) {
          if (row > 0 &&
              (v.row_lengths[first + row] == 0 || v.ids[first + row] != wanted.tokens[place]))
            break;
          std::vector<int32_t> counts(wanted.counts.words.begin() + place * kVocabulary,
                                      wanted.counts.words.begin() + (place + 1) * kVocabulary);
          const int32_t token = most_likely(v, first + row, counts, how[size_t(place)]);
          ++wanted.counts[place * kVocabulary + token];
          const int32_t position = ++wanted.positions[place];
          wanted.tokens[place] = token;
          if (position < kContext)
            wanted.texts[place * kContext + position] = token;
          wanted.ring[ring_row + first + row] = token;
          is_open =
              !(v.ends[place] >> token & 1) && position < v.limits[place] && v.told[2 + place] == 0;
          wanted.lengths[place] = is_open ? position + 1 : 0;
          ++given;
        }
        ++given_times[given];
        goes_on = goes_on || is_open;
      }
      v.run();
      INFO(places << " places, round " << round);
      CHECK(v.ring.words == wanted.ring.words);
      CHECK(v.tokens.words == wanted.tokens.words);
      CHECK(v.positions.words == wanted.positions.words);
      CHECK(v.lengths.words == wanted.lengths.words);
      CHECK(v.counts.words == wanted.counts.words);
      CHECK(v.texts.words == wanted.texts.words);
      CHECK(v.steps.words == std::vector<int32_t>{wanted.steps[0] + 1, 0});
      CHECK(v.published[0] == wanted.steps[0] + 1);
      CHECK(v.goes_on[0] == (goes_on && round != 1 && round != 2));
    }
  for (size_t given = 0; given <= 2; ++given)
    CHECK(given_times[given] > 300);
  CHECK(given_times[4] > 0);
}

namespace {

/// That counts of draws are as their probabilities say: the sum of squares over what is expected is
/// below what one of 10,000 sets of draws passes, by Wilson and Hilferty's cube of a normal number.
void check_distribution(const std::vector<double> &counts, const std::vector<double> &weights) {
  double draws = 0, all = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    draws += counts[i];
    all += weights[i];
  }
  double sum = 0, rest_counted = 0, rest_expected = 0;
  int bins = 0;
  const auto add = [&](double counted, double expected) {
    sum += (counted - expected) * (counted - expected) / expected;
    ++bins;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * weights[i] / all;
    if (expected >= 10) {
      add(counts[i], expected);
    } else {
      rest_counted += counts[i];
      rest_expected += expected;
    }
  }
  if (rest_expected >= 10)
    add(rest_counted, rest_expected);
  else
    CHECK(rest_counted <= 40);
  REQUIRE(bins > 5);
  constexpr double kNormal = 3.719; // its upper 1/10,000
  const double freedom = bins - 1, share = 2 / (9 * freedom);
  const double bound = freedom * std::pow(1 - share + kNormal * std::sqrt(share), 3);
  INFO(draws << " draws, " << bins << " bins");
  CHECK(sum < bound);
}

} // namespace

TEST_CASE("drafts keep the distribution of what is drawn, in 100,000 draws of a small model",
          "[large]") {
  constexpr int64_t kPlaces = 10'000, kRows = 2;
  constexpr int kRounds = 10;
  // What the model makes of two texts: behind the first, and behind the second.
  const auto made = Engine::open(*small_model(), emulated_runtime().get(), of_places(1));
  REQUIRE(made.ok());
  Engine &engine = **made;
  const auto vocabulary = size_t(engine.vocabulary());
  std::vector<float> logits[kRows];
  for (int64_t row = 0; row < kRows; ++row) {
    REQUIRE(engine.take_in(0, 0, prompt_of(size_t(5 + row), 3), true).ok());
    REQUIRE(engine.read_logits(0, logits[row]).ok());
  }
  const double temperature = 0.7;
  std::vector<double> weights[kRows];
  for (int64_t row = 0; row < kRows; ++row)
    for (const float logit : logits[row])
      weights[row].push_back(std::exp(double(logit) / temperature));
  const auto draft = int32_t(std::ranges::max_element(logits[0]) - logits[0].begin());

  std::vector<double> first(vocabulary), refused(vocabulary), second(vocabulary);
  for (int round = 0; round < kRounds; ++round) {
    Verification v(kPlaces, kRows, engine.vocabulary(), 1); // no position is one of the texts'
    for (int64_t place = 0; place < kPlaces; ++place) {
      v.set_sampler(place, {.temperature = temperature, .seed = uint64_t(round + 1)});
      v.set_open(place, int32_t(1 + 2 * place), kRows);
      v.ids[place * kRows + 1] = draft;
      for (int64_t row = 0; row < kRows; ++row)
        for (size_t token = 0; token < vocabulary; ++token)
          v.set_logit(place * kRows + row, int64_t(token), logits[row][token]);
    }
    v.run();
    for (int64_t place = 0; place < kPlaces; ++place) {
      const int32_t token = v.ring[place * kRows], next = v.ring[place * kRows + 1];
      REQUIRE((next >= 0) == (token == draft));
      ++first[size_t(token)];
      if (token == draft)
        ++second[size_t(next)];
      else
        ++refused[size_t(token)];
    }
  }
  check_distribution(first, weights[0]);
  check_distribution(second, weights[1]);
  // A draft that is refused leaves the others' probabilities.
  weights[0][size_t(draft)] = 0;
  std::erase(weights[0], 0.0);
  refused.erase(refused.begin() + draft);
  check_distribution(refused, weights[0]);
}
