// What the host and the steps of a decoder share in pinned memory: the tokens of steps, and the
// words that are told to them (kernels/language/sample.cu, docs/language_models.md). The host's
// side; one thread at a time, while steps run or not.
#pragma once

#include "base/status.h"
#include "base/type/dtype.h"

#include <cugrt/cugrt.hpp>

#include <span>

namespace cugrt::llm {

class TokenRing {
public:
  static constexpr int64_t kRows = 64; // a power of two, so that counts may wrap

  /// A row has so many tokens of each place.
  Status make(cugrt_runtime *runtime, int64_t places, int64_t tokens);
  /// Steps that were made since it was made, modulo 2^32.
  uint32_t made() const { return load(kMade); }
  bool is_empty() const { return made() == load(kTaken); }
  /// The oldest row that was not taken: the tokens of each place, -1 behind them. False where there
  /// is none.
  bool take(std::span<int32_t> tokens);
  void drop_all() { store(kTaken, made()); }
  /// Whether a loop ends behind the next step that begins.
  void set_change(bool is_set) { store(kChange, is_set); }
  /// Whether the place's next step that begins makes it empty.
  void set_cancel(int64_t place, bool is_set) { store(kCancel + size_t(place), is_set); }

  /// As arguments of a step: what it hears at its beginning, its rows, and how many there are.
  cugrt_value heard() const;
  cugrt_value rows() const;
  cugrt_value published() const;

private:
  // Positions of i32: what steps publish; what the host says, of each place last; the rows. Each
  // begins at a line of its own.
  static constexpr size_t kLine = 32, kMade = 0, kTaken = kLine, kChange = kTaken + 1,
                          kCancel = kChange + 1;
  uint32_t load(size_t at) const;
  void store(size_t at, uint32_t value);
  size_t first_row() const { return (kCancel + size_t(places_) + kLine - 1) / kLine * kLine; }
  uint32_t *words_of_host() const;
  cugrt_value value(size_t at, std::initializer_list<int64_t> dims) const;

  detail::Handle<cugrt_buffer, &cugrt_api::buffer_free> buffer_;
  int64_t places_ = 0, tokens_ = 1;
};

} // namespace cugrt::llm
