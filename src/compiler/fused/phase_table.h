// The table of a kernel of phases (persistent.h), and the functions that its rows name: phases of
// equal text are one form; what all rows of a form have alike stands once.
#pragma once

#include <cstdint>
#include <set>
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
  // Parts of its text: see ProductPhase (products.h).
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
  /// Words of one row; words of all rows together.
  size_t row_words() const { return row_words_; }
  size_t common_words() const { return commons_.size(); }

  /// The forms' functions and what threads keep in them, and tile_of any row.
  std::string functions_text() const;
  /// The text of the table that is known without a launch; the text that fills in the rest.
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

// The kinds of weights that a kernel of phases (persistent.h) multiplies: one loop each, and one
// text that asks for a tile's first weights, for all products of the kind and all their depths.

class PhaseUnits {
public:
  /// The number of a unit of kernels/linear/stream.cuh, one of whose products has so many elements.
  size_t add(const std::string &type, int64_t depth) {
    size_t number = 0;
    while (number < units_.size() && units_[number].type != type)
      ++number;
    if (number == units_.size())
      units_.push_back({type, {}});
    units_[number].depths.insert(depth);
    return number;
  }
  /// begin_product of kernels/language/persistent.cuh; multiply_any(tile, rows).
  std::string text() const {
    return "__device__ __noinline__ void begin_product(const u64 *row, long long number) {\n"
           "  const Tile tile = tile_of(row, number);\n"
           "  if (tile.products == 0)\n    return;\n" +
           by_unit("begin_tile", "tile") +
           "__device__ __forceinline__ void multiply_any(const Tile &tile, const T *x) {\n" +
           by_unit("multiply_tile", "tile, x");
  }

private:
  struct Unit {
    std::string type;
    std::set<int64_t> depths;
  };
  std::string by_unit(const std::string &function, const std::string &arguments) const {
    std::string text = "  switch (tile.unit) {\n";
    for (size_t i = 0; i < units_.size(); ++i) {
      text += "  case " + std::to_string(i) + ":\n    return " + function + "<" + units_[i].type;
      for (int64_t depth : units_[i].depths)
        text += ", " + std::to_string(depth);
      text += ">(" + arguments + ");\n";
    }
    return text + "  }\n}\n\n";
  }
  std::vector<Unit> units_;
};

} // namespace cugrt::codegen
