// See phase_table.h.
#include "compiler/fused/phase_table.h"

#include "compiler/fused/element_code.h"

#include <algorithm>

namespace cugrt::codegen {

constexpr size_t kWriters = 8; // of the table: each warp's first thread
const std::string kFunction = "__device__ __forceinline__ ";

static std::string key_of(const Phase &phase) {
  std::string key =
      phase.functions + phase.constants + phase.kept + phase.tile + phase.before + phase.after;
  for (const PhaseEntry &entry : phase.entries)
    key += entry.before + entry.after + "\n";
  for (const std::string &argument : phase.arguments)
    key += argument + "\n";
  return key;
}

static bool is_of_launch(const std::string &word) { return word.starts_with("(u64)"); }

/// The number that `text` has in a list, where it is put if it is new.
size_t number_of(std::vector<std::string> &list, const std::string &text) {
  const auto at = std::find(list.begin(), list.end(), text);
  if (at != list.end())
    return size_t(at - list.begin());
  list.push_back(text);
  return list.size() - 1;
}

PhaseTable::PhaseTable(std::vector<Phase> phases) : phases_(std::move(phases)) {
  std::vector<std::string> keys;
  for (const Phase &phase : phases_) {
    const size_t form = number_of(keys, key_of(phase));
    form_of_.push_back(form);
    if (form == first_of_.size()) {
      first_of_.push_back(form_of_.size() - 1);
      is_common_.emplace_back(phase.entries.size(), true);
    }
    for (size_t e = 0; e < phase.entries.size(); ++e)
      if (phase.entries[e].value != first_of(form).entries[e].value)
        is_common_[form][e] = false;
  }
  place_entries();
}

void PhaseTable::place_entries() {
  for (size_t form = 0; form < first_of_.size(); ++form) {
    const std::vector<PhaseEntry> &entries = first_of(form).entries;
    size_t at = 3;
    places_.emplace_back();
    for (size_t e = 0; e < entries.size(); ++e)
      places_[form].push_back(is_common_[form][e] ? number_of(commons_, entries[e].value) : at++);
    row_words_ = std::max(row_words_, at);
  }
}

std::string PhaseTable::entries_text(size_t form, bool ahead) const {
  std::string text;
  const std::vector<PhaseEntry> &entries = first_of(form).entries;
  for (size_t e = 0; e < entries.size(); ++e)
    if (!ahead || entries[e].is_ahead)
      text += "  " + entries[e].before + (is_common_[form][e] ? "SHARED.common[" : "row[") +
              std::to_string(places_[form][e]) + "]" + entries[e].after + ";\n";
  return text;
}

std::string PhaseTable::form_text(size_t form) const {
  const Phase &own = first_of(form);
  const std::string begin = own.declarations + "  long long tile = number;\n";
  std::string text = "namespace form" + std::to_string(form) + " {\n\n" + own.functions +
                     "union Early {\n" + own.kept + "};\n\n";
  if (own.is_product())
    text += kFunction + "Tile tile_of(const u64 *row, long long number) {\n" + own.constants +
            entries_text(form, true) + begin + own.tile + "  return {};\n}\n\n";
  std::vector<std::string> before = {"Walk &walk", "const u64 *row", "long long number",
                                     "Early &early"},
                           after = before;
  before.push_back("Rows &given");
  for (std::vector<std::string> *parameters : {&before, &after})
    parameters->insert(parameters->end(), own.symbols.begin(), own.symbols.end());
  return text + wrapped(kFunction + "void before(", before, ") {\n") + own.constants +
         entries_text(form, false) + begin + own.before + "}\n\n" +
         wrapped(kFunction + "bool after(", after, ") {\n") + own.constants +
         entries_text(form, false) + begin + own.after + "}\n\n} // namespace form" +
         std::to_string(form) + "\n\n";
}

std::string PhaseTable::functions_text() const {
  std::string text, cases, kept;
  for (size_t form = 0; form < first_of_.size(); ++form) {
    const std::string number = std::to_string(form);
    text += form_text(form);
    kept += "  form" + number + "::Early of" + number + ";\n";
    if (first_of(form).is_product())
      cases += "  case " + number + ":\n    return form" + number + "::tile_of(row, number);\n";
  }
  return text + "union Early {\n" + kept + "};\n\n" + kFunction +
         "Tile tile_of(const u64 *row, long long number) {\n"
         "  switch (row[0]) {\n" +
         cases + "  }\n  return {};\n}\n\n";
}

size_t PhaseTable::next_product(size_t row) const {
  while (row < phases_.size() && !phases_[row].is_product())
    ++row;
  return row;
}

std::vector<std::string> PhaseTable::words() const {
  std::vector<std::string> words;
  for (size_t p = 0; p < phases_.size(); ++p) {
    const size_t form = form_of_[p],
                 next = phases_[p].is_product() ? next_product(p + 1) : phases_.size();
    const size_t begin = words.size();
    words.resize(begin + row_words_, "0");
    words[begin] = std::to_string(form);
    words[begin + 1] = std::to_string(next);
    words[begin + 2] = std::to_string(phases_[p].blocks);
    for (size_t e = 0; e < phases_[p].entries.size(); ++e)
      if (!is_common_[form][e])
        words[begin + places_[form][e]] = phases_[p].entries[e].value;
  }
  words.insert(words.end(), commons_.begin(), commons_.end());
  return words;
}

std::string PhaseTable::known_text() const {
  std::vector<std::string> known = words();
  for (std::string &word : known)
    if (is_of_launch(word))
      word = "kOfLaunch";
  return wrapped("__device__ const u64 known_of_table[] = {", known, "};\n\n");
}

std::string PhaseTable::fill_text() const {
  const std::vector<std::string> all = words();
  std::vector<std::string> lines;
  for (size_t i = 0; i < all.size(); ++i)
    if (is_of_launch(all[i]))
      lines.push_back("table[" + std::to_string(i) + "] = " + all[i]);
  const size_t each = (lines.size() + kWriters - 1) / kWriters;
  std::string text = "  u64 *const table = fill_known(words, known_of_table);\n"
                     "  if (thread_anew() == 0)\n    switch (warp_anew()) {\n";
  for (size_t i = 0; i < lines.size(); ++i)
    text += (i % each == 0 ? "    case " + std::to_string(i / each) + ":\n" : "") + "      " +
            lines[i] + ";\n" +
            (i % each == each - 1 || i + 1 == lines.size() ? "      break;\n" : "");
  return text + "    }\n";
}

std::string PhaseTable::call_text(size_t form, const std::string &call,
                                  std::vector<std::string> arguments) const {
  const std::vector<std::string> &own = first_of(form).arguments;
  arguments.insert(arguments.end(), own.begin(), own.end());
  return "      case " + std::to_string(form) + ":\n" + wrapped(call + "(", arguments, ");\n") +
         "        break;\n";
}

std::string PhaseTable::before_text() const {
  std::string text;
  for (size_t form = 0; form < first_of_.size(); ++form) {
    const std::string number = std::to_string(form);
    text += call_text(form, "        form" + number + "::before",
                      {"walk", "row", "number", "early.of" + number, "given"});
  }
  return text;
}

std::string PhaseTable::after_text() const {
  std::string text;
  for (size_t form = 0; form < first_of_.size(); ++form) {
    const std::string number = std::to_string(form);
    text += call_text(form, "        goes_on = form" + number + "::after",
                      {"walk", "row", "number", "early.of" + number});
  }
  return text;
}

} // namespace cugrt::codegen
