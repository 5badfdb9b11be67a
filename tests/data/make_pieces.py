#!/usr/bin/env python3
"""Writes pieces.json: texts of many scripts, and where Hugging Face's pre-tokenizers cut them.

  pip install tokenizers==0.23.3 && make_pieces.py > pieces.json
"""
import json
import random

from tokenizers import Regex, pre_tokenizers

LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


CUTTERS = {
    "gpt-2": split(GPT2),
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), split(GPT2)]),
    "llama-bpe": split(LLAMA),
    "qwen2": split(LLAMA.replace("{1,3}", "")),
}
BLOCKS = [(0x20, 0x7e), (0xa0, 0x24f), (0x370, 0x52f), (0x590, 0x6ff), (0x900, 0xdff), (0xe00, 0xe7f),
          (0x1100, 0x11ff), (0x2000, 0x2bff), (0x3040, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3),
          (0xf900, 0xffef), (0x10000, 0x1ffff), (0x20000, 0x3ffff)]


def main():
    draw = random.Random(20)
    strange = [chr(c) for c in (9, 10, 13, 0x85, 0xa0, 0xbd, 0x17f, 0x301, 0x663, 0x200b, 0x2028, 0x212a, 0x3000,
                                0xff11, 0x11de1, 0x16ff5, 0x1f600)]
    texts = []
    for number in range(240):
        pool = [lambda: chr(draw.randint(*draw.choice(BLOCKS))), lambda: draw.choice("aest'LlVvRr SDM 12.\n\r\t"),
                lambda: draw.choice(strange)]
        kinds = [pool[:1], pool[1:2], pool[1:], pool][number % 4]
        texts.append("".join(draw.choice(kinds)() for _ in range(draw.randrange(1, 36))))
    rows = []
    for text in texts:
        row = {"text": text}
        for name, cutter in CUTTERS.items():
            row[name] = [len(text[a:b].encode()) for _, (a, b) in cutter.pre_tokenize_str(text)]
        rows.append(json.dumps(row))
    print("[" + ",\n".join(rows) + "]")


if __name__ == "__main__":
    main()
