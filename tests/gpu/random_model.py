"""A language model of any size as a GGUF file: architecture llama, weights of random blocks, a vocabulary of bytes
and of words that no text has. For measuring: what it says means nothing.

  random_model.py OUT.gguf LAYERS HIDDEN INNER HEADS KV_HEADS VOCABULARY q4_k|f16
"""
import dataclasses
import math
import os
import random
import struct
import sys

TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q4_k": (12, 256, 144), "q6_k": (14, 256, 210)}  # number, elements, bytes
POOL_BLOCKS = 1 << 14  # drawn once and repeated


@dataclasses.dataclass(frozen=True)
class Size:
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    vocabulary: int
    kind: str = "q4_k"  # of products; the head of q4_k is q6_k

    def products(self):
        """(name, rows, columns, kind) of all weights that are multiplied."""
        head = self.hidden // self.heads
        yield "output.weight", self.vocabulary, self.hidden, "q6_k" if self.kind == "q4_k" else self.kind
        for layer in range(self.layers):
            for name, rows, columns in (("attn_q", self.hidden, self.hidden),
                                        ("attn_k", head * self.kv_heads, self.hidden),
                                        ("attn_v", head * self.kv_heads, self.hidden),
                                        ("attn_output", self.hidden, self.hidden),
                                        ("ffn_gate", self.inner, self.hidden), ("ffn_up", self.inner, self.hidden),
                                        ("ffn_down", self.hidden, self.inner)):
                yield f"blk.{layer}.{name}.weight", rows, columns, self.kind

    def tensors(self):
        yield "token_embd.weight", self.vocabulary, self.hidden, self.kind
        yield "output_norm.weight", 1, self.hidden, "f32"
        for layer in range(self.layers):
            for name in ("attn_norm", "ffn_norm"):
                yield f"blk.{layer}.{name}.weight", 1, self.hidden, "f32"
        yield from self.products()

    def step_bytes(self):
        """Of the weights that a decode step reads."""
        return sum(byte_count(kind, rows * columns) for _, rows, columns, kind in self.products())

    def token_operations(self):
        """Multiplications and additions of a prompt's token: of all products but the head, which only the last has."""
        return sum(2 * rows * columns for name, rows, columns, _ in self.products() if name != "output.weight")


def byte_count(kind, elements):
    _, block, size = TYPES[kind]
    assert elements % block == 0
    return elements // block * size


def pool(kind, draw):
    """Random blocks with small scales."""
    if kind in ("f32", "f16"):
        letter, spread, middle = ("f", 0.1, 1.0) if kind == "f32" else ("e", 0.02, 0.0)
        return struct.pack(f"<{POOL_BLOCKS}{letter}", *(draw.gauss(middle, spread) for _ in range(POOL_BLOCKS)))
    size = TYPES[kind][2]
    blocks = bytearray(draw.randbytes(POOL_BLOCKS * size))

    def put(at, data):
        for i, byte in enumerate(data):
            blocks[at + i::size] = bytes([byte]) * POOL_BLOCKS
    if kind == "q4_k":
        put(0, struct.pack("<ee", 0.00012, 0.0009))  # scale of scales, and of leasts
    else:
        put(192, bytes(range(1, 17)))
        put(208, struct.pack("<e", 0.00003))
    return bytes(blocks)


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def strings(values):
    return struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values))


def tokens(count):
    """What stands for each byte in a byte-level vocabulary, then words."""
    own = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = iter(range(0x100, 0x200))
    characters = [chr(b if b in own else next(others)) for b in range(256)]
    return characters + ["he"] + [f"<word {i}>" for i in range(count - 258)] + ["<|end|>"]


def header(size):
    number, word, real = 4, 8, 6  # GGUF's types of values
    keys = [("general.architecture", word, text("llama")), ("tokenizer.ggml.model", word, text("gpt2")),
            ("tokenizer.ggml.pre", word, text("gpt-2")), ("tokenizer.ggml.tokens", 9, strings(tokens(size.vocabulary))),
            ("tokenizer.ggml.token_type", 9,
             struct.pack("<IQ", 5, size.vocabulary) + struct.pack("<i", 1) * size.vocabulary),
            ("tokenizer.ggml.merges", 9, strings(["h e"])),
            ("tokenizer.ggml.eos_token_id", number, struct.pack("<I", size.vocabulary - 1)),
            ("llama.attention.layer_norm_rms_epsilon", real, struct.pack("<f", 1e-5))]
    keys += [("llama." + key, number, struct.pack("<I", value)) for key, value in (
        ("block_count", size.layers), ("context_length", 4096), ("embedding_length", size.hidden),
        ("feed_forward_length", size.inner), ("attention.head_count", size.heads),
        ("attention.head_count_kv", size.kv_heads), ("rope.dimension_count", size.hidden // size.heads))]
    infos, offset = b"", 0
    for name, rows, columns, kind in size.tensors():
        dims = (columns,) if rows == 1 else (columns, rows)
        infos += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPES[kind][0], offset)
        offset += math.ceil(byte_count(kind, rows * columns) / 32) * 32
    count = sum(1 for _ in size.tensors())
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(keys))
    head += b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in keys) + infos
    return head + bytes(-len(head) % 32)


def write(path, size):
    """Whole or not at all; a file that is there is taken as it is."""
    if os.path.exists(path):
        return
    draw, pools = random.Random(1), {}
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".part", "wb") as file:
        file.write(header(size))
        for _, rows, columns, kind in size.tensors():
            if kind not in pools:
                pools[kind] = pool(kind, draw)
            left = byte_count(kind, rows * columns)
            pad = -left % 32
            while left:
                part = pools[kind][:left]
                file.write(part)
                left -= len(part)
            file.write(bytes(pad))
    os.replace(path + ".part", path)


if __name__ == "__main__":
    write(os.path.abspath(sys.argv[1]), Size(*map(int, sys.argv[2:8]), *sys.argv[8:]))
