// Byte-level byte-pair encoding.
#include "fronts/llm/tokenizer/tokenizer.h"

#include "base/json.h"

#include <memory>

namespace cugrt::llm {

namespace {

/// The character that stands for each byte: itself where it is printable and no space, else one of
/// those from U+0100 on, in order.
std::array<char32_t, 256> byte_characters() {
  std::array<char32_t, 256> characters;
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool is_itself =
        (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    characters[byte] = is_itself ? byte : next++;
  }
  return characters;
}

/// Pairs of tokens with their merge, in a table of open addresses that is at most half full.
class MergeTable {
public:
  explicit MergeTable(size_t count) {
    size_t size = 16;
    while (size < 2 * count)
      size *= 2;
    rows_.resize(size);
  }
  /// The first of equal pairs stays.
  void add(int32_t left, int32_t right, Merge<uint32_t> merge) {
    Row &row = rows_[place(key(left, right))];
    if (row.key == kEmpty)
      row = {key(left, right), merge};
  }
  const Merge<uint32_t> *find(int32_t left, int32_t right) const {
    const Row &row = rows_[place(key(left, right))];
    return row.key == kEmpty ? nullptr : &row.merge;
  }

private:
  static constexpr uint64_t kEmpty = UINT64_MAX; // ids are not negative
  struct Row {
    uint64_t key = kEmpty;
    Merge<uint32_t> merge{};
  };
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  }
  size_t place(uint64_t key) const {
    size_t at = (key * 0x9e3779b97f4a7c15u) >> 20 & (rows_.size() - 1);
    while (rows_[at].key != kEmpty && rows_[at].key != key)
      at = (at + 1) & (rows_.size() - 1);
    return at;
  }
  std::vector<Row> rows_;
};

class ByteLevel : public Encoder {
public:
  ByteLevel(const Vocabulary &vocabulary, PreTokenizer kind, size_t merges)
      : vocabulary_(vocabulary), kind_(kind), merges_(merges) {
    const std::array<char32_t, 256> characters = byte_characters();
    for (uint32_t byte = 0; byte < 256; ++byte) {
      std::string text;
      append_utf8(text, characters[byte]);
      byte_ids_[byte] = vocabulary.find(text);
      byte_of_.emplace(characters[byte], static_cast<char>(byte));
    }
  }

  Status add_merge(const gguf::File &file, std::string_view text, uint32_t rank) {
    // The separator is a space, and no token has one: byte_characters() has none.
    const size_t space = text.find(' ');
    const int32_t left = space == text.npos ? -1 : vocabulary_.find(text.substr(0, space));
    const int32_t right = space == text.npos ? -1 : vocabulary_.find(text.substr(space + 1));
    std::string joined(text);
    joined.erase(std::min(space, joined.size()), 1);
    const int32_t id = vocabulary_.find(joined);
    if (left < 0 || right < 0 || id < 0)
      return Status::error(Code::parse_error, "'" + file.name() + "': merge " +
                                                  std::to_string(rank) +
                                                  " is of what the vocabulary does not have");
    merges_.add(left, right, {rank, id});
    return {};
  }

  void encode(std::string_view text, bool, std::vector<int32_t> &ids) const override {
    PieceScanner scanner(kind_, text);
    // Words come again: their tokens are kept while one text is encoded.
    std::unordered_map<std::string_view, std::pair<size_t, size_t>> known;
    std::vector<Symbol> symbols;
    for (std::string_view piece = scanner.next(); !piece.empty(); piece = scanner.next()) {
      const bool is_short = piece.size() <= kMaxKnownBytes;
      if (const auto at = is_short ? known.find(piece) : known.end(); at != known.end()) {
        for (size_t i = at->second.first; i < at->second.second; ++i)
          ids.push_back(ids[i]);
        continue;
      }
      const size_t begin = ids.size();
      encode_piece(piece, symbols, ids);
      if (is_short && known.size() < kMaxKnown)
        known.try_emplace(piece, begin, ids.size());
    }
  }

  std::string bytes_of(int32_t id) const override {
    const std::string_view text = vocabulary_.text(id);
    if (find_invalid_utf8(text))
      return std::string(text);
    std::string bytes;
    for (size_t at = 0; at < text.size();) {
      const Decoded next = decode_utf8(text, at);
      const auto byte = byte_of_.find(next.code);
      if (byte == byte_of_.end()) // a token of its own kind
        return std::string(text);
      bytes += byte->second;
      at += next.bytes;
    }
    return bytes;
  }

private:
  static constexpr size_t kMaxKnown = 1 << 16, kMaxKnownBytes = 64;

  void encode_piece(std::string_view piece, std::vector<Symbol> &symbols,
                    std::vector<int32_t> &ids) const {
    if (kind_ == PreTokenizer::llama3) { // pieces that are tokens stay whole
      std::string text;
      for (char byte : piece)
        append_utf8(text, characters_[static_cast<unsigned char>(byte)]);
      if (const int32_t id = vocabulary_.find(text); id >= 0) {
        ids.push_back(id);
        return;
      }
    }
    symbols.clear();
    for (uint32_t i = 0; i < piece.size(); ++i)
      if (const int32_t id = byte_ids_[static_cast<unsigned char>(piece[i])]; id >= 0)
        symbols.push_back({id, i, i + 1});
    merge_symbols<uint32_t>(symbols, [this](const Symbol &left, const Symbol &right) {
      return merges_.find(left.id, right.id);
    });
    for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[i].next)
      ids.push_back(symbols[i].id);
  }

  const Vocabulary &vocabulary_;
  const PreTokenizer kind_;
  const std::array<char32_t, 256> characters_ = byte_characters();
  std::array<int32_t, 256> byte_ids_;
  std::unordered_map<char32_t, char> byte_of_;
  MergeTable merges_;
};

} // namespace

Result<std::unique_ptr<Encoder>> make_byte_level(const gguf::File &file,
                                                 const Vocabulary &vocabulary) {
  CUGRT_ASSIGN(const std::string_view name, file.choice("tokenizer.ggml.pre"));
  const std::optional<PreTokenizer> kind = pre_tokenizer_from_name(name);
  if (!kind)
    return Status::error(Code::unsupported, "'" + file.name() + "': pre-tokenizer '" +
                                                std::string(name) + "' is not known; known are " +
                                                pre_tokenizer_names());
  CUGRT_ASSIGN(const std::vector<std::string_view> merges, file.strings("tokenizer.ggml.merges"));
  if (static_cast<int64_t>(merges.size()) > kMaxTokens)
    return Status::error(Code::parse_error,
                         "'" + file.name() + "' has " + std::to_string(merges.size()) + " merges");
  auto encoder = std::make_unique<ByteLevel>(vocabulary, *kind, merges.size());
  for (size_t i = 0; i < merges.size(); ++i)
    CUGRT_TRY(encoder->add_merge(file, merges[i], static_cast<uint32_t>(i)));
  return std::unique_ptr<Encoder>(std::move(encoder));
}

} // namespace cugrt::llm
