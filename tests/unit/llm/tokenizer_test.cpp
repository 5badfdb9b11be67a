// Tokenizers over vocabularies made by hand, the scanners' pieces, and UTF-8.
#include "fronts/llm/tokenizer/tokenizer.h"
#include "support/catch.h"
#include "support/gguf_bytes.h"

#include <nlohmann/json.hpp>

#include <fstream>

using namespace cugrt;
using namespace cugrt::llm;
using test::GgufBytes;
using test::little_endian;
using Ids = std::vector<int32_t>;
using Texts = std::vector<std::string>;

namespace {

Texts pieces(PreTokenizer kind, std::string_view text) {
  PieceScanner scanner(kind, text);
  Texts all;
  for (std::string_view piece = scanner.next(); !piece.empty(); piece = scanner.next())
    all.emplace_back(piece);
  return all;
}

std::string kinds_of(const std::vector<int32_t> &kinds) {
  std::string bytes;
  for (int32_t kind : kinds)
    bytes += little_endian(kind);
  return bytes;
}

/// A file's bytes and what is read from them.
struct Loaded {
  explicit Loaded(const GgufBytes &made)
      : bytes(made.file()), file(gguf::File::parse(bytes, "m.gguf")),
        tokenizer(Tokenizer::load(*file)) {}
  Ids encode(std::string_view text) const { return *(*tokenizer)->encode(text); }
  std::string bytes;
  Result<gguf::File> file;
  Result<std::unique_ptr<Tokenizer>> tokenizer;
};

// 0 to 3: a b c d; then what merges make; a space is written as U+0120.
GgufBytes byte_level(const char *pre = "gpt-2") {
  GgufBytes made;
  made.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  made.texts("tokenizer.ggml.tokens", {"a", "b", "c", "d", "\xc4\xa0", "ab", "bc", "abc",
                                       "\xc4\xa0"
                                       "a",
                                       "<|end|>", "\xc3\x83", "\xc2\xa9"});
  made.texts("tokenizer.ggml.merges", {"b c", "a b", "a bc", "\xc4\xa0 a"});
  made.list("tokenizer.ggml.token_type", 5, 12, kinds_of({1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1}));
  return made;
}

GgufBytes sentence_piece() {
  GgufBytes made;
  made.text("tokenizer.ggml.model", "llama");
  std::vector<std::string> tokens = {"<unk>",
                                     "<s>",
                                     "</s>",
                                     "\xe2\x96\x81",
                                     "a",
                                     "b",
                                     "ab",
                                     "\xe2\x96\x81"
                                     "a",
                                     "<tool>",
                                     "<0xC3>",
                                     "<0xA9>"};
  made.texts("tokenizer.ggml.tokens", tokens);
  made.list("tokenizer.ggml.token_type", 5, 11, kinds_of({2, 3, 3, 1, 1, 1, 1, 1, 4, 6, 6}));
  std::string scores;
  for (float score : {0.f, 0.f, 0.f, -10.f, -11.f, -12.f, -1.f, -2.f, 0.f, 0.f, 0.f})
    scores += little_endian(score);
  made.list("tokenizer.ggml.scores", 6, 11, scores);
  made.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
  return made;
}

} // namespace

TEST_CASE("gpt-2 cuts as its regular expression does") {
  CHECK(pieces(PreTokenizer::gpt2, "don't we'll 'S") ==
        Texts{"don", "'t", " we", "'ll", " '", "S"});
  CHECK(pieces(PreTokenizer::gpt2, "x  y \n") == Texts{"x", " ", " y", " \n"});
  CHECK(pieces(PreTokenizer::gpt2, "12a 34.5") == Texts{"12", "a", " 34", ".", "5"});
  CHECK(pieces(PreTokenizer::gpt2, "\xd9\xa3\xd7\x90") == Texts{"\xd9\xa3", "\xd7\x90"});
  CHECK(pieces(PreTokenizer::gpt2, "").empty());
}

TEST_CASE("smollm takes each digit by itself, and text between digits ends there") {
  CHECK(pieces(PreTokenizer::smollm, "a 12  3") == Texts{"a", " ", "1", "2", "  ", "3"});
  CHECK(pieces(PreTokenizer::smollm, "x1'sy") == Texts{"x", "1", "'s", "y"});
}

TEST_CASE(
    "llama-bpe and qwen2 take contractions of any case, a mark before a word, ends of lines") {
  CHECK(pieces(PreTokenizer::llama3, "it'S (foo) 12345") ==
        Texts{"it", "'S", " (", "foo", ")", " ", "123", "45"});
  CHECK(pieces(PreTokenizer::llama3, "(foo a'\xc5\xbf"
                                     "b") == Texts{"(foo", " a", "'\xc5\xbf", "b"});
  CHECK(pieces(PreTokenizer::llama3, "x \r\n \n  y!\n\nz") ==
        Texts{"x", " \r\n \n", " ", " y", "!\n\n", "z"});
  CHECK(pieces(PreTokenizer::qwen2, "a12\tb") == Texts{"a", "1", "2", "\tb"});
  CHECK(pre_tokenizer_from_name("deepseek-r1-qwen") == PreTokenizer::qwen2);
}

TEST_CASE("texts of many scripts are cut where Hugging Face's pre-tokenizers cut them") {
  std::ifstream file(TEST_DATA_FOLDER "/pieces.json");
  const nlohmann::json rows = nlohmann::json::parse(file);
  REQUIRE(rows.size() == 240);
  for (const nlohmann::json &row : rows)
    for (const char *name : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
      std::vector<size_t> sizes;
      for (const std::string &piece :
           pieces(*pre_tokenizer_from_name(name), row["text"].get<std::string>()))
        sizes.push_back(piece.size());
      INFO(name << ": " << row["text"].dump(-1, ' ', true));
      CHECK(sizes == row[name].get<std::vector<size_t>>());
    }
}

TEST_CASE("bytes are merged in the order of the merges") {
  const Loaded loaded(byte_level());
  REQUIRE(loaded.tokenizer.ok());
  CHECK(loaded.encode("abc") == Ids{7}); // b c first, then a bc
  CHECK(loaded.encode("ab") == Ids{5});
  CHECK(loaded.encode("bcab") == Ids{6, 5});
  CHECK(loaded.encode("d ab") == Ids{3, 4, 5}); // a b comes before the space's merge
  CHECK(loaded.encode(" a") == Ids{8});
  CHECK(loaded.encode("\xc3\xa9") == Ids{10, 11}); // each byte of a character
  CHECK(loaded.encode("axb") == Ids{5}); // a byte that the vocabulary lacks is left out first
  CHECK(loaded.encode("").empty());
  CHECK((*loaded.tokenizer)->bytes_of(8) == " a");
  CHECK((*loaded.tokenizer)->bytes_of(10) == "\xc3");
  CHECK((*loaded.tokenizer)->bytes_of(9) == "<|end|>");
}

TEST_CASE("a control token's name is text unless it is trusted") {
  const Loaded loaded(byte_level());
  CHECK(loaded.encode("d<|end|>") == Ids{3, 3}); // of the name only d is in the vocabulary
  const std::vector<TextPart> parts = {{"d<|end|>ab", true}, {"ab", false}};
  CHECK(*(*loaded.tokenizer)->encode(parts) == Ids{3, 9, 5, 5});
}

TEST_CASE("of tokens that a text names the longest one is found, however many begin alike") {
  GgufBytes made;
  Texts tokens = {"a", "<x>", "<xy>", "<xyz", "<x>", "<xyz>!"};
  std::vector<int32_t> kinds = {1, 4, 4, 3, 4, 4};
  for (int i = 0; i < 5000; ++i) {
    tokens.push_back("<x" + std::to_string(i) + "|");
    kinds.push_back(4);
  }
  tokens.push_back(std::string(NamedTokens::kMaxBytes + 1, 'a')); // longer than what is looked for
  kinds.push_back(4);
  made.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  made.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", {});
  made.list("tokenizer.ggml.token_type", 5, kinds.size(), kinds_of(kinds));
  const Loaded loaded(made);
  REQUIRE(loaded.tokenizer.ok());
  CHECK(loaded.encode("<x>") == Ids{1}); // of two that are equal the first
  CHECK(loaded.encode("<xy>a<x>") == Ids{2, 0, 1});
  CHECK(loaded.encode("<xyz>!") == Ids{5});
  CHECK(loaded.encode("<xyz") == Ids{}); // a control token, and the text is not trusted
  CHECK(*(*loaded.tokenizer)->encode(std::vector<TextPart>{{"<xyz>a", true}}) == Ids{3, 0});
  CHECK(loaded.encode("<x4999|<x17|") == Ids{6 + 4999, 6 + 17});
  CHECK(loaded.encode("<x5000|") == Ids{});
  CHECK(loaded.encode(std::string(NamedTokens::kMaxBytes + 1, 'a')) ==
        Ids(NamedTokens::kMaxBytes + 1, 0));
}

TEST_CASE("words that come again have the same tokens, and long ones theirs") {
  const Loaded loaded(byte_level());
  Ids expected;
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += " abc";
    expected.insert(expected.end(), {4, 7});
  }
  CHECK(loaded.encode(text) == expected);
  std::string word;
  Ids tokens;
  for (int i = 0; i < 20000; ++i) {
    word += "abc";
    tokens.push_back(7);
  }
  CHECK(loaded.encode(word) == tokens);
}

TEST_CASE("SentencePiece merges by score, and writes in bytes what is no token") {
  const Loaded loaded(sentence_piece());
  REQUIRE(loaded.tokenizer.ok());
  CHECK(loaded.encode("ab") == Ids{1, 3, 6}); // ab is better than the space's a
  CHECK(loaded.encode("a") == Ids{1, 7});
  CHECK(loaded.encode("a a") == Ids{1, 7, 7});
  CHECK(loaded.encode("\xc3\xa9") == Ids{1, 3, 9, 10});
  CHECK(loaded.encode("z") == Ids{1, 3, 0}); // there is no <0x7A>
  CHECK(loaded.encode("a<tool>b") == Ids{1, 7, 8, 5});
  CHECK(loaded.encode("") == Ids{1});
  CHECK((*loaded.tokenizer)->bytes_of(7) == " a");
  CHECK((*loaded.tokenizer)->bytes_of(9) == "\xc3");
  CHECK((*loaded.tokenizer)->ends().size() == 1);
}

TEST_CASE("what is wrong with a tokenizer is said") {
  const auto error = [](const GgufBytes &made) {
    const Loaded loaded(made);
    return loaded.tokenizer.ok() ? "no error" : loaded.tokenizer.status().message();
  };
  CHECK(error(byte_level("other")) ==
        "'m.gguf': pre-tokenizer 'other' is not known; known are gpt-2, smollm, llama-bpe, qwen2, "
        "deepseek-r1-qwen");
  GgufBytes made;
  made.text("tokenizer.ggml.model", "bert").texts("tokenizer.ggml.tokens", {"a"});
  CHECK(error(made) == "'m.gguf': tokenizer 'bert' is not known; known are gpt2, llama");
  made = GgufBytes();
  made.text("tokenizer.ggml.model", std::string(300, 'b'));
  CHECK(error(made) == "'m.gguf': key 'tokenizer.ggml.model' has 300 bytes, more than 256");
  made = GgufBytes();
  made.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  made.texts("tokenizer.ggml.tokens", {"a", "b"}).texts("tokenizer.ggml.merges", {"a b"});
  CHECK(error(made) == "'m.gguf': merge 0 is of what the vocabulary does not have");
  CHECK(error(byte_level().u32("tokenizer.ggml.eos_token_id", 12)) ==
        "'m.gguf': key 'tokenizer.ggml.eos_token_id' names token 12 of a vocabulary of 12");
  const Loaded loaded(byte_level());
  CHECK((*loaded.tokenizer)->encode("ab\xff").status().message() ==
        "the text is not UTF-8 from byte 2 on");
}

TEST_CASE("UTF-8 is never cut, and what cannot become it is replaced") {
  Utf8Stream stream;
  CHECK(stream.push("a\xf0\x9f") == "a");
  CHECK(stream.push("\x98") == "");
  CHECK(stream.push("\x80z") == "\xf0\x9f\x98\x80z");
  CHECK(stream.push("\xe2\x82") == "");
  CHECK(stream.push("x") == "\xef\xbf\xbdx"); // the longest beginning is one replacement
  CHECK(stream.push("\xff\xc0\xed\xa0") == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(stream.finish() == "");
  CHECK(stream.push("\xc3") == "");
  CHECK(stream.finish() == "\xef\xbf\xbd");
  CHECK(stream.finish() == "");
  CHECK(find_invalid_utf8("a\xc3\xa9") == std::nullopt);
  CHECK(find_invalid_utf8("a\xc3") == 1);
  CHECK(find_invalid_utf8("\xf4\x90\x80\x80") == 0); // beyond U+10FFFF
}
