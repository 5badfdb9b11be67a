// SentencePiece's byte-pair encoding, with bytes for text that the vocabulary lacks.
#include "fronts/llm/tokenizer/tokenizer.h"

#include <algorithm>
#include <memory>

namespace cugrt::llm {

namespace {

constexpr std::string_view kSpace = "\xe2\x96\x81"; // U+2581, which stands for a space

std::string with_marks(std::string_view text, bool with_prefix) {
  std::string marked(with_prefix && !text.empty() ? kSpace : "");
  for (char c : text)
    c == ' ' ? marked += kSpace : marked += c;
  return marked;
}

class SentencePiece : public Encoder {
public:
  SentencePiece(const Vocabulary &vocabulary, std::vector<double> scores, bool add_prefix)
      : vocabulary_(vocabulary), scores_(std::move(scores)), add_prefix_(add_prefix) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const char name[] = {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>', 0};
      byte_ids_[byte] = vocabulary.find(name);
    }
    std::vector<int32_t> atoms;
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (vocabulary.kind(id) == TokenKind::unknown)
        unknown_ = id;
      if (vocabulary.kind(id) == TokenKind::user_defined)
        atoms.push_back(id);
    }
    atoms_ = NamedTokens(vocabulary, std::move(atoms));
  }

  void encode(std::string_view text, bool is_first, std::vector<int32_t> &ids) const override {
    const std::string marked = with_marks(text, add_prefix_ && is_first);
    std::vector<Symbol> symbols;
    for (uint32_t at = 0; at < marked.size();) {
      const int32_t atom = atoms_.longest(std::string_view(marked).substr(at));
      const auto size_bytes = static_cast<uint32_t>(atom >= 0 ? vocabulary_.text(atom).size()
                                                              : decode_utf8(marked, at).bytes);
      const std::string_view part = std::string_view(marked).substr(at, size_bytes);
      symbols.push_back({atom >= 0 ? atom : vocabulary_.find(part), at, at + size_bytes});
      at += size_bytes;
    }
    std::optional<Merge<double>> found;
    merge_symbols<double>(symbols, [&](const Symbol &left, const Symbol &right) {
      found = merge_of(marked, left, right);
      return found ? &*found : nullptr;
    });
    for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[i].next)
      append(symbols[i], marked, ids);
  }

  std::string bytes_of(int32_t id) const override {
    std::string_view text = vocabulary_.text(id);
    if (vocabulary_.kind(id) == TokenKind::byte) {
      const auto at = std::ranges::find(byte_ids_, id);
      return at == byte_ids_.end() ? std::string(text)
                                   : std::string(1, static_cast<char>(at - byte_ids_.begin()));
    }
    std::string bytes;
    while (!text.empty()) {
      const bool is_space = text.starts_with(kSpace);
      bytes += is_space ? ' ' : text[0];
      text.remove_prefix(is_space ? kSpace.size() : 1);
    }
    return bytes;
  }

private:
  bool is_atom(const Symbol &symbol) const {
    return symbol.id >= 0 && vocabulary_.kind(symbol.id) == TokenKind::user_defined;
  }

  std::optional<Merge<double>> merge_of(std::string_view text, const Symbol &left,
                                        const Symbol &right) const {
    if (is_atom(left) || is_atom(right))
      return std::nullopt;
    const int32_t id = vocabulary_.find(text.substr(left.begin, right.end - left.begin));
    if (id < 0 || vocabulary_.kind(id) != TokenKind::normal)
      return std::nullopt;
    return Merge<double>{-scores_[static_cast<size_t>(id)], id};
  }

  void append(const Symbol &symbol, std::string_view text, std::vector<int32_t> &ids) const {
    if (symbol.id >= 0) {
      ids.push_back(symbol.id);
      return;
    }
    for (uint32_t i = symbol.begin; i < symbol.end; ++i)
      if (byte_ids_[static_cast<unsigned char>(text[i])] < 0) { // no bytes: one unknown token
        if (unknown_ >= 0)
          ids.push_back(unknown_);
        return;
      }
    for (uint32_t i = symbol.begin; i < symbol.end; ++i)
      ids.push_back(byte_ids_[static_cast<unsigned char>(text[i])]);
  }

  const Vocabulary &vocabulary_;
  const std::vector<double> scores_;
  const bool add_prefix_;
  int32_t unknown_ = -1;
  std::array<int32_t, 256> byte_ids_;
  NamedTokens atoms_; // tokens that text is cut at first
};

} // namespace

Result<std::unique_ptr<Encoder>> make_sentence_piece(const gguf::File &file,
                                                     const Vocabulary &vocabulary) {
  CUGRT_ASSIGN(std::vector<double> scores, file.numbers("tokenizer.ggml.scores"));
  if (scores.size() != vocabulary.size())
    return Status::error(Code::parse_error, "'" + file.name() + "' has " +
                                                std::to_string(vocabulary.size()) + " tokens and " +
                                                std::to_string(scores.size()) + " scores");
  for (double score : scores)
    if (score != score)
      return Status::error(Code::parse_error,
                           "'" + file.name() + "' has a score that is no number");
  CUGRT_ASSIGN(const bool add_prefix, file.boolean("tokenizer.ggml.add_space_prefix", true));
  return std::unique_ptr<Encoder>(
      std::make_unique<SentencePiece>(vocabulary, std::move(scores), add_prefix));
}

} // namespace cugrt::llm
