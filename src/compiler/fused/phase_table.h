// The table of a kernel of phases (persistent.h), and the functions that its rows name: phases of
// equal text are one form; what all rows of a form have alike stands once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cugrt::codegen {

/// A part of a function's text that stands for an address: `before` and `after` are around it.
struct PhaseEntry {
  std::string before, after;
  std::string value;     // the address, as an expression of the kernel; of a tensor "(u64).."
  bool is_ahead = false; // of weights, which are copied before the phase begins
};

struct Phase {
  // Of its form: see ProductPhase (products.h).
  std::string functions, constants, declarations, kept, tile, before, after;
  std::vector<std::string> symbols;   // parameters of the form
  std::vector<std::string> arguments; // the kernel's, for these
  std::vector<PhaseEntry> entries;
  int64_t blocks = 0; // that have something to do: tiles, pieces

  bool is_product() const { return !tile.empty(); }
};

/// The number that `text` has in a list, to which it is added if it is new.
size_t number_of(std::vector<std::string> &list, const std::string &text);

class PhaseTable {
public:
  explicit PhaseTable(std::vector<Phase> phases);

  const std::vector<Phase> &phases() const { return phases_; }
  /// Of a row; of all rows together.
  size_t row_words() const { return row_words_; }
  size_t common_words() const { return commons_.size(); }

  /// The forms' functions and what threads keep in them, and tile_of any row.
  std::string functions_text() const;
  /// What is known of the table without a launch; what fills in the rest.
  std::string known_text() const;
  std::string fill_text() const;
  /// The cases of switches over a row's form: before its products, and behind, where they set
  /// `goes_on`.
  std::string before_text() const;
  std::string after_text() const;
  /// The product at or behind a row; one beyond the last where there is none.
  size_t next_product(size_t row) const;

private:
  void place_entries();
  std::vector<std::string> words() const; // of all rows, then those that are common
  std::string entries_text(size_t form, bool ahead) const;
  std::string form_text(size_t form) const;
  std::string call_text(size_t form, const std::string &call,
                        std::vector<std::string> arguments) const;
  const Phase &first_of(size_t form) const { return phases_[first_of_[form]]; }

  const std::vector<Phase> phases_;
  std::vector<size_t> form_of_;              // by phase
  std::vector<size_t> first_of_;             // by form: a phase
  std::vector<std::vector<bool>> is_common_; // by form and entry
  std::vector<std::vector<size_t>> places_;  // likewise
  std::vector<std::string> commons_;
  size_t row_words_ = 3;
};

} // namespace cugrt::codegen
