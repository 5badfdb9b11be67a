"""Tokens are those of Hugging Face's tokenizers, and of SentencePiece, trained here: 100,000 random texts of many scripts."""
import json
import os
import random
import struct
import subprocess
import sys

import pytest
import sentencepiece
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from conftest import language_models

TEXTS = 20000  # of each tokenizer
WORD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = lambda regex: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
CUT = lambda pattern: pre_tokenizers.Sequence([pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"), BYTES(False)])
PRE = {
    "gpt-2": BYTES(True),
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTES(True)]),
    "llama-bpe": CUT(WORD % "{1,3}"),
    "qwen2": CUT(WORD % ""),
}
# Letters of scripts with and without spaces, marks, digits of several, spaces of several, signs, and what is beyond 16 bits.
SCRIPTS = [range(0x20, 0x7f), range(0xa1, 0x180), range(0x370, 0x400), range(0x400, 0x460), range(0x5d0, 0x5eb), range(0x620, 0x66a),
           range(0x904, 0x970), range(0xe01, 0xe5c), range(0x10a0, 0x1100), range(0x1780, 0x17ea), range(0x3041, 0x3100), range(0x4e00, 0x4f00),
           range(0xac00, 0xac80), range(0x300, 0x330), range(0x2000, 0x2040), range(0x20a0, 0x20c0), range(0x2150, 0x2190),
           range(0xff10, 0xff5f), range(0x1d400, 0x1d440), range(0x1f1e6, 0x1f200), range(0x1f600, 0x1f650), range(0x20000, 0x20040)]
COMMON = "etaoin shrdlu ETAOIN 0123456789 .,;:'\"!?()[]{}<>=+-*/_\t\n\r "
ENGLISH = ["don't", "WE'LL", "they're", "Function", "return", "  ", "\n\n", "12345", "x1y2", "...", " the", " of", "http://", "naïve", "<0x41>", "</s>"]


def random_text(draw):
    parts = []
    script = draw.choice(SCRIPTS)
    for _ in range(draw.randrange(1, 30)):
        kind = draw.random()
        if kind < 0.45:
            parts.append(draw.choice(COMMON))
        elif kind < 0.8:
            parts.append(chr(draw.choice(script)))
        elif kind < 0.9:
            parts.append(draw.choice(ENGLISH))
        else:
            script = draw.choice(SCRIPTS)
    return "".join(parts)


@pytest.fixture(scope="module")
def texts():
    draw = random.Random(17)
    return ["", " ", "\n"] + [random_text(draw) for _ in range(TEXTS - 3)]


def written(folder, keys):
    """A file of a vocabulary alone."""
    kinds = {str: (8, language_models.text), int: (5, lambda value: struct.pack("<i", value)), float: (6, lambda value: struct.pack("<f", value)),
             bool: (7, lambda value: struct.pack("<?", value))}
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for name, value in keys.items():
        kind, write = kinds[type(value[0] if isinstance(value, list) else value)]
        if isinstance(value, list):
            value = struct.pack("<IIQ", 9, kind, len(value)) + b"".join(map(write, value))
        else:
            value = struct.pack("<I", kind) + write(value)
        data += language_models.text(name) + value
    path = folder / "vocabulary.gguf"
    path.write_bytes(data)
    return path


def tokens_of(path, texts):
    tool = os.path.join(os.path.dirname(sys.executable), "cugrt")
    done = subprocess.run([tool, "tokenize", path], input="".join(json.dumps(text) + "\n" for text in texts), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(texts, got, wanted):
    assert len(got) == len(wanted)
    other = [(text, a, b) for text, a, b in zip(texts, got, wanted) if a != b]
    assert not other, f"{len(other)} of {len(texts)}: {other[:3]}"


@pytest.mark.parametrize("name", PRE)
def test_byte_level_merges_are_hugging_face_s(name, texts, tmp_path):
    oracle = tokenizers.Tokenizer(models.BPE(ignore_merges=name == "llama-bpe"))
    oracle.pre_tokenizer, oracle.decoder = PRE[name], decoders.ByteLevel()
    oracle.train_from_iterator(texts[::4], trainers.BpeTrainer(vocab_size=3000, show_progress=False,
                                                               initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(oracle.to_str())["model"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    path = written(tmp_path, {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name,
                              "tokenizer.ggml.tokens": sorted(model["vocab"], key=model["vocab"].get), "tokenizer.ggml.merges": merges})
    compare(texts, tokens_of(path, texts), [one.ids for one in oracle.encode_batch(texts)])


def test_pieces_are_sentencepiece_s(texts, tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text for text in texts[::4] if text.strip()]), model_prefix=str(tmp_path / "model"), model_type="bpe",
        vocab_size=3000, character_coverage=0.98, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True, split_digits=True, minloglevel=2)
    oracle = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model.model"))
    ids = range(oracle.get_piece_size())
    kinds = [2 if oracle.is_unknown(i) else 3 if oracle.is_control(i) else 6 if oracle.is_byte(i) else 1 for i in ids]
    path = written(tmp_path, {"general.architecture": "llama", "tokenizer.ggml.model": "llama", "tokenizer.ggml.add_bos_token": False,
                              "tokenizer.ggml.tokens": [oracle.id_to_piece(i) for i in ids], "tokenizer.ggml.token_type": kinds,
                              "tokenizer.ggml.scores": [oracle.get_score(i) for i in ids]})
    compare(texts, tokens_of(path, texts), oracle.encode(texts))
