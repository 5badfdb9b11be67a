#!/usr/bin/env python3
"""Language models through the tool: small random GGUF files of each architecture, made byte by byte, against
the same decoder written here from its description, in double.

  language_models.py TOOL EMULATED_DRIVER
"""
import json
import math
import operator
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from titled_tests import equal, run_tests, test  # noqa: E402

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD, INNER, VOCABULARY = 2, 64, 4, 2, 16, 96, 259
EPSILON, BASE = 1e-5, 10000.0
PROMPT, TOKENS = "Hello, little model!", 12
CHAT_TEMPLATE = "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endfor %}" \
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
PLAIN = {"f32": (0, 1, 4), "f16": (1, 1, 2), "bf16": (30, 1, 2)}
TYPES = PLAIN | {"q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q8_0": (8, 32, 34)}


def half(value):
    return struct.unpack("<e", struct.pack("<e", value))[0]


def encode(kind, row):
    """The bytes of a row, and the numbers that they stand for."""
    if kind == "f32":
        data = struct.pack(f"<{len(row)}f", *row)
        return data, list(struct.unpack(f"<{len(row)}f", data))
    if kind == "f16":
        return struct.pack(f"<{len(row)}e", *row), [half(x) for x in row]
    if kind == "bf16":
        data = b"".join(struct.pack("<f", x)[2:] for x in row)
        return data, [struct.unpack("<f", b"\0\0" + data[2 * i:2 * i + 2])[0] for i in range(len(row))]
    data, numbers = b"", []
    for at in range(0, len(row), 32):
        part = row[at:at + 32]
        low, high = min(part), max(part)
        if kind == "q8_0":
            scale = half(max(-low, high) / 127)
            q = [max(-127, min(127, round(x / scale))) for x in part]
            data += struct.pack("<e32b", scale, *q)
            numbers += [scale * i for i in q]
            continue
        scale = half((high - low) / 15) if kind == "q4_1" else half(max(-low, high) / 7)
        least = half(low) if kind == "q4_1" else -8 * scale
        q = [max(0, min(15, round((x - least) / scale))) for x in part]
        data += struct.pack("<e", scale) + (struct.pack("<e", least) if kind == "q4_1" else b"")
        data += bytes(a | b << 4 for a, b in zip(q[:16], q[16:]))
        numbers += [scale * i + least for i in q]
    return data, numbers


def cached(kind, row):
    """The numbers that a cache holds of a head's keys or values."""
    if kind in PLAIN:
        return encode(kind, row)[1]
    numbers = []
    for at in range(0, len(row), 32):
        part = row[at:at + 32]
        scale = max(map(abs, part)) / 127
        numbers += [half(scale) * math.floor(abs(x / scale) + 0.5) * (1 if x > 0 else -1) for x in part]
    return numbers


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def byte_characters():
    """What stands for each byte in a byte-level vocabulary."""
    own = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b if b in own else next(others)) for b in range(256)]


class Model:
    """A file and its weights as numbers."""

    def __init__(self, architecture, kinds, tied, seed, scaling=None, divisors=False, drop=None, more=(), window=0,
                 yarn=None, layers=LAYERS, head=HEAD):
        draw = random.Random(seed)
        self.architecture, self.tied, self.weights, self.scaling = architecture, tied, {}, scaling
        self.interleaved, self.window, self.yarn, self.layers = architecture == "llama", window, yarn, layers
        self.gemma, self.head, self.cache = architecture == "gemma3", head, None
        infos, blob = [], b""
        shapes = {"token_embd.weight": (VOCABULARY, WIDTH), "output_norm.weight": (WIDTH,)}
        if not tied:
            shapes["output.weight"] = (VOCABULARY, WIDTH)
        if divisors:
            shapes["rope_freqs.weight"] = (self.head // 2,)
        for layer in range(layers):
            b = f"blk.{layer}."
            if self.gemma:
                shapes |= {b + "post_attention_norm.weight": (WIDTH,), b + "post_ffw_norm.weight": (WIDTH,)}
            for name, rows, columns in (("q", HEADS * self.head, WIDTH), ("k", KV_HEADS * self.head, WIDTH),
                                        ("v", KV_HEADS * self.head, WIDTH), ("output", WIDTH, HEADS * self.head)):
                shapes[f"{b}attn_{name}.weight"] = (rows, columns)
                if architecture == "qwen2" and name != "output":
                    shapes[f"{b}attn_{name}.bias"] = (rows,)
                if architecture in ("qwen3", "gemma3") and name in "qk":
                    shapes[f"{b}attn_{name}_norm.weight"] = (self.head,)
            shapes |= {b + "attn_norm.weight": (WIDTH,), b + "ffn_norm.weight": (WIDTH,),
                       b + "ffn_gate.weight": (INNER, WIDTH), b + "ffn_up.weight": (INNER, WIDTH),
                       b + "ffn_down.weight": (WIDTH, INNER)}
        for number, (name, shape) in enumerate(shapes.items()):
            kind = kinds[number % len(kinds)] if len(shape) == 2 else "f32"
            spread, middle = (0.4, 1.0) if "norm" in name or "freqs" in name else (0.35, 0.0)
            rows, data = [], b""
            for _ in range(shape[0] if len(shape) == 2 else 1):
                made, numbers = encode(kind, [middle + draw.uniform(-spread, spread) for _ in range(shape[-1])])
                rows.append(numbers)
                data += made
            self.weights[name] = rows if len(shape) == 2 else rows[0]
            if name == drop:
                continue
            infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape),
                                                  TYPES[kind][0], len(blob)))
            blob += data + bytes(-len(data) % 32)
        keys = [("general.architecture", 8, text(architecture)), ("tokenizer.ggml.model", 8, text("gpt2")),
                ("tokenizer.ggml.pre", 8, text("gpt-2"))]
        tokens = byte_characters() + ["He", "ll", "<|end|>"]
        keys += [("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, len(tokens)) + b"".join(map(text, tokens))),
                 ("tokenizer.ggml.merges", 9, struct.pack("<IQ", 8, 2) + text("H e") + text("l l"))]
        keys += [(f"{architecture}.{key}", 4, struct.pack("<I", value)) for key, value in (
            ("block_count", layers), ("context_length", 300), ("embedding_length", WIDTH),
            ("feed_forward_length", INNER), ("attention.head_count", HEADS), ("attention.head_count_kv", KV_HEADS))]
        keys.append((f"{architecture}.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", EPSILON)))
        if scaling:
            keys += [(f"{architecture}.rope.scaling.type", 8, text("linear")),
                     (f"{architecture}.rope.scaling.factor", 6, struct.pack("<f", scaling))]
        if window:
            keys.append((f"{architecture}.attention.sliding_window", 4, struct.pack("<I", window)))
        if yarn:
            keys += [(f"{architecture}.rope.scaling.type", 8, text("yarn")),
                     (f"{architecture}.rope.scaling.factor", 6, struct.pack("<f", yarn[0])),
                     (f"{architecture}.rope.scaling.original_context_length", 4, struct.pack("<I", yarn[1]))]
        if self.gemma:
            keys.append(("gemma3.rope.freq_base", 6, struct.pack("<f", 1e6)))
        if self.gemma or self.head != HEAD:
            keys += [(f"{architecture}.attention.{key}_length", 4, struct.pack("<I", self.head))
                     for key in ("key", "value")]
        keys += more
        head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys))
        head += b"".join(text(k) + struct.pack("<I", t) + v for k, t, v in keys) + b"".join(infos)
        self.bytes = head + bytes(-len(head) % 32) + blob

    def activated(self, x):
        if self.gemma:
            return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
        return x / (1 + math.exp(-x))

    def turn(self, layer, pair):
        """A pair's angle a position, and the factor of cosines and sines."""
        is_local = self.gemma and (layer + 1) % 6 != 0
        base = 1e6 if self.gemma and not is_local else BASE
        own = base ** (-2 * pair / self.head)
        if not is_local and "rope_freqs.weight" in self.weights:
            own /= self.weights["rope_freqs.weight"][pair]
        if not self.yarn:
            return own / (1 if is_local else self.scaling or 1), 1
        factor, original = self.yarn

        def pair_of(turns):
            return self.head * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
        low, high = max(math.floor(pair_of(32)), 0), min(math.ceil(pair_of(1)), self.head - 1)
        ramp = min(max((pair - low) / max(high - low, 0.001), 0), 1)
        return own / factor * ramp + own * (1 - ramp), 0.1 * math.log(factor) + 1

    def logits(self, ids, last):
        """Of each of the last ones of these tokens: none depends on those behind it."""
        w = self.weights
        def product(x, name):
            bias = w.get(name + ".bias", [0.0] * len(w[name + ".weight"]))
            return [[sum(map(operator.mul, row, column)) + c for column, c in zip(w[name + ".weight"], bias)]
                    for row in x]

        def norm(row, name):
            scale = 1 / math.sqrt(sum(a * a for a in row) / len(row) + EPSILON)
            return [a * scale * b for a, b in zip(row, w[name])]

        def heads(x, name, layer):
            out = []
            for position, row in enumerate(product(x, f"blk.{layer}.attn_{name}")):
                parts = [row[i:i + self.head] for i in range(0, len(row), self.head)]
                if self.architecture in ("qwen3", "gemma3"):
                    parts = [norm(part, f"blk.{layer}.attn_{name}_norm.weight") for part in parts]
                for part in parts:
                    for i in range(self.head // 2):
                        speed, size = self.turn(layer, i)
                        c, s = size * math.cos(position * speed), size * math.sin(position * speed)
                        a, b = (2 * i, 2 * i + 1) if self.interleaved else (i, i + self.head // 2)
                        part[a], part[b] = part[a] * c - part[b] * s, part[a] * s + part[b] * c
                out.append(parts)
            return out

        x = [[a * (math.sqrt(WIDTH) if self.gemma else 1) for a in w["token_embd.weight"][i]] for i in ids]
        for layer in range(self.layers):
            b = f"blk.{layer}."
            h = [norm(row, b + "attn_norm.weight") for row in x]
            q, k = heads(h, "q", layer), heads(h, "k", layer)
            v = [[row[i:i + self.head] for i in range(0, len(row), self.head)] for row in product(h, b + "attn_v")]
            if self.cache:
                k, v = ([[cached(self.cache, part) for part in row] for row in side] for side in (k, v))
            seen = []
            for p in range(len(x)):
                row = []
                for head in range(HEADS):
                    group = head // (HEADS // KV_HEADS)
                    is_whole = not self.window or (self.gemma and (layer + 1) % 6 == 0)
                    first = 0 if is_whole else max(p + 1 - self.window, 0)
                    scores = [sum(a * c for a, c in zip(q[p][head], k[s][group])) / math.sqrt(self.head)
                              for s in range(first, p + 1)]
                    weights = [math.exp(s - max(scores)) for s in scores]
                    row += [sum(a * v[first + s][group][e] for s, a in enumerate(weights)) / sum(weights)
                            for e in range(self.head)]
                seen.append(row)
            outs = product(seen, b + "attn_output")
            if self.gemma:
                outs = [norm(out, b + "post_attention_norm.weight") for out in outs]
            x = [[a + c for a, c in zip(row, out)] for row, out in zip(x, outs)]
            h = [norm(row, b + "ffn_norm.weight") for row in x]
            h = [[self.activated(g) * u for g, u in zip(gates, ups)]
                 for gates, ups in zip(product(h, b + "ffn_gate"), product(h, b + "ffn_up"))]
            outs = product(h, b + "ffn_down")
            if self.gemma:
                outs = [norm(out, b + "post_ffw_norm.weight") for out in outs]
            x = [[a + c for a, c in zip(row, out)] for row, out in zip(x, outs)]
        ends = [norm(row, "output_norm.weight") for row in x[-last:]]
        return product(ends, "token_embd" if self.tied else "output")


def write_zeros(path):
    """A model of eight billion weights in q4_0, all zeros that take no room on the disk; how many bytes they are."""
    layers, width, inner, kv_width, vocabulary = 32, 4096, 14336, 1024, 128256
    shapes = {"token_embd.weight": (vocabulary, width), "output.weight": (vocabulary, width),
              "output_norm.weight": (width,)}
    for layer in range(layers):
        b = f"blk.{layer}."
        shapes |= {b + "attn_norm.weight": (width,), b + "ffn_norm.weight": (width,),
                   b + "attn_q.weight": (width, width), b + "attn_k.weight": (kv_width, width),
                   b + "attn_v.weight": (kv_width, width), b + "attn_output.weight": (width, width),
                   b + "ffn_gate.weight": (inner, width), b + "ffn_up.weight": (inner, width),
                   b + "ffn_down.weight": (width, inner)}
    infos, at, weights = [], 0, 0
    for name, shape in shapes.items():
        kind = "q4_0" if len(shape) == 2 else "f32"
        number, elements, size = TYPES[kind]
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), number, at))
        weights += math.prod(shape) // elements * size
        at += -(-math.prod(shape) // elements * size // 32) * 32
    tokens = byte_characters()
    keys = [("general.architecture", 8, text("llama")), ("tokenizer.ggml.model", 8, text("gpt2")),
            ("tokenizer.ggml.pre", 8, text("gpt-2")),
            ("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, len(tokens)) + b"".join(map(text, tokens))),
            ("tokenizer.ggml.merges", 9, struct.pack("<IQ", 8, 0)),
            ("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", EPSILON))]
    keys += [(f"llama.{key}", 4, struct.pack("<I", value)) for key, value in (
        ("block_count", layers), ("context_length", 131072), ("embedding_length", width),
        ("feed_forward_length", inner), ("attention.head_count", 32), ("attention.head_count_kv", 8))]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys))
    head += b"".join(text(k) + struct.pack("<I", t) + v for k, t, v in keys) + b"".join(infos)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32))
        file.truncate(file.tell() + at)
    return weights


class Subject:
    def __init__(self, tool, driver, folder):
        self.tool, self.folder = tool, folder
        self.environment = dict(os.environ, CUGRT_DRIVER=driver)
        self.emulated = json.loads(self.run("doctor", "--json").stdout)["driver"]["emulated"]

    def write(self, data, name="m.gguf"):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def run(self, *arguments, **more):
        return subprocess.run([self.tool, *arguments], env=self.environment, capture_output=True, text=True,
                              timeout=300, **more)

    def generate(self, model, *arguments, prompt=PROMPT):
        done = self.run("generate", self.write(model.bytes), "--prompt", prompt, "--max-tokens", str(TOKENS),
                        "--json", *arguments)
        equal((done.returncode, "error" in done.stderr and done.stderr), (0, False))
        return json.loads(done.stdout)

    def error(self, model, *arguments, prompt=PROMPT):
        data = model if isinstance(model, bytes) else model.bytes
        done = self.run("generate", self.write(data), "--prompt", prompt, "--max-tokens", "4", *arguments)
        assert done.returncode == 1 and done.stdout == "", (done.returncode, done.stdout)
        lines = [line for line in done.stderr.splitlines() if "EMULATED" not in line]
        equal(len(lines), 1)
        return lines[0].replace(self.folder + "/", "")


def follow(model, answer, gap):
    """Each token is the most likely one after those before it, or one as good within `gap`."""
    equal(len(answer["ids"]), TOKENS)
    steps = model.logits(answer["prompt_ids"] + answer["ids"][:-1], last=TOKENS)
    for number, (token, logits) in enumerate(zip(answer["ids"], steps)):
        assert logits[token] >= max(logits) - gap, f"token {number} is {token}, not {logits.index(max(logits))}"


@test("llama: blocks of every format, a tied head, pairs that are neighbours")
def _(subject):
    model = Model("llama", ["q8_0", "q4_1", "q4_0"], True, 1)
    answer = subject.generate(model)
    equal(answer["prompt_ids"][:4], [256, 257, ord("o"), ord(",")])
    follow(model, answer, 1e-3)
    equal(answer["stop"], "length")
    assert answer["decode_nodes"] > 0
    equal(answer["instances_built"], 2)  # of prefill and of decode
    equal(answer["fields_patched"], 0)


@test("llama: plain weights, a head of its own, linear scaling")
def _(subject):
    model = Model("llama", ["f32", "f16", "bf16"], False, 2, scaling=4.0)
    follow(model, subject.generate(model), 1e-3)


@test("llama: divisors of frequencies")
def _(subject):
    model = Model("llama", ["q8_0"], True, 3, divisors=True)
    follow(model, subject.generate(model), 1e-3)


@test("qwen2: biases, and pairs that are halves apart")
def _(subject):
    model = Model("qwen2", ["q4_0", "f16"], False, 4)
    follow(model, subject.generate(model), 1e-3)


@test("qwen3: heads are normalised")
def _(subject):
    model = Model("qwen3", ["q4_1"], True, 5)
    follow(model, subject.generate(model), 1e-3)


@test("gemma3: windows but for each sixth layer, norms behind, scaled embeddings")
def _(subject):
    model = Model("gemma3", ["q8_0", "f32"], True, 12, window=6, layers=6)
    follow(model, subject.generate(model), 1e-3)
    plan = subject.run("plan", subject.write(model.bytes)).stdout
    times = re.findall(r"fusion in @decode: (?:(\d+) times )?rms_norm, add, rms_norm, ", plan)
    equal(sum(int(each or 1) for each in times), 2 * model.layers)  # all but the first, and the head


@test("llama with a window, as Mistral's models")
def _(subject):
    model = Model("llama", ["q8_0"], True, 13, window=7)
    follow(model, subject.generate(model), 1e-3)


@test("positions beyond the trained ones, by YaRN")
def _(subject):
    model = Model("qwen2", ["f32"], True, 14, yarn=(4.0, 64))
    follow(model, subject.generate(model), 1e-3)


@test("scaling without its type is linear, and YaRN's original context is the trained one where none is named")
def _(subject):
    factor = ("llama.rope.scaling.factor", 6, struct.pack("<f", 4))
    model = Model("llama", ["f32"], True, 17, more=[factor])
    model.scaling = 4.0
    follow(model, subject.generate(model), 1e-3)
    model = Model("llama", ["f32"], True, 17, more=[factor, ("llama.rope.scaling.type", 8, text("yarn"))])
    model.yarn = (4.0, 300)
    follow(model, subject.generate(model), 1e-3)


@test("what kernels load is counted on the emulated driver: a prompt reads weights a few times")
def _(subject):
    model = Model("llama", ["f16"], True, 18)
    done = subject.run("generate", subject.write(model.bytes), "--prompt", "Hello, little model! " * 13, "--max-tokens", "1",
                       "--dtype", "f16", "--stats")
    counts = re.findall(r"kernels loaded (\d+) bytes, (\d+) of them from (\d+) bytes that no kernel wrote \(([\d.]+) times\)\n",
                        done.stderr)
    equal(len(counts), int(subject.emulated))
    products = sum(len(w) * len(w[0]) for w in model.weights.values() if isinstance(w[0], list))
    for loaded, of_weights, weights, times in counts:
        assert 2 * products <= int(weights) <= 3 * products, (weights, products)
        assert int(weights) <= int(of_weights) <= 5 * int(weights) and int(of_weights) < int(loaded), counts
        assert abs(float(times) - int(of_weights) / int(weights)) < 0.01, counts


@test("text that stops an answer is no part of it, nor what comes behind")
def _(subject):
    model = Model("llama", ["q8_0"], True, 1)
    whole = subject.generate(model)["text"]
    stop = whole[4:6]
    answer = subject.generate(model, "--stop", "never to be found", "--stop", stop)
    equal((answer["text"], answer["stop"]), (whole[:whole.index(stop)], "text"))
    path = subject.write(model.bytes)
    with open(path + ".txt", "w") as file:
        file.write(PROMPT)
    options = ("--max-tokens", str(TOKENS), "--file")
    done = subject.run("generate", path, *options, path + ".txt")
    equal(done.stdout, whole + "\n")
    equal(subject.run("generate", path, *options, "-", input=PROMPT).stdout, whole + "\n")
    error = subject.run("generate", path, *options, path + ".none")
    equal((error.returncode, error.stderr.replace(subject.folder + "/", "")),
          (1, "cugrt: error: cannot read 'm.gguf.none'\n"))


@test("f16 and bf16 stay near")
def _(subject):
    model = Model("llama", ["q8_0"], True, 1)
    follow(model, subject.generate(model, "--dtype", "f16"), 0.05)
    follow(model, subject.generate(model, "--dtype", "bf16"), 0.4)


@test("gemma3 in f16: a step is one launch and what stands around it")
def _(subject):
    model = Model("gemma3", ["f32"], True, 12, window=6, layers=6, head=32)
    answer = subject.generate(model, "--dtype", "f16")
    follow(model, answer, 0.1)
    assert 0 < answer["decode_nodes"] <= 5, answer["decode_nodes"]


@test("caches of a dtype of their own hold keys and values as it rounds them")
def _(subject):
    model = Model("llama", ["q8_0"], True, 16, head=32)
    for dtype, cache, gap in (("f32", "f16", 1e-3), ("f32", "q8_0", 2e-2), ("f16", "f32", 0.05), ("bf16", "q8_0", 0.4)):
        model.cache = cache
        follow(model, subject.generate(model, "--dtype", dtype, "--cache", cache), gap)
    error = subject.error(Model("llama", ["q8_0"], True, 1), "--cache", "q8_0")
    equal(error, "cugrt: error: 'm.gguf': caches in q8_0 take heads of a multiple of 32 elements; these have 16")


@test("a prompt of more than one part is taken in whole")
def _(subject):
    model = Model("llama", ["q8_0"], True, 6)
    answer = subject.generate(model, prompt="abcdefg " * 18)  # 144 tokens: parts of 128 and 16
    equal(len(answer["prompt_ids"]), 144)
    follow(model, answer, 1e-3)


@test("drawn tokens come again with their seed, and a top-k of 1 is the most likely token")
def _(subject):
    model = Model("llama", ["q8_0"], True, 1)
    most_likely = subject.generate(model)["ids"]
    equal(subject.generate(model, "--temperature", "2", "--top-k", "1")["ids"], most_likely)
    one = subject.generate(model, "--temperature", "3", "--seed", "5")["ids"]
    equal(subject.generate(model, "--temperature", "3", "--seed", "5")["ids"], one)
    assert subject.generate(model, "--temperature", "3", "--seed", "6")["ids"] != one
    assert one != most_likely


@test("a token that ends the text ends it, and is no part of it")
def _(subject):
    ids = subject.generate(Model("llama", ["q8_0"], True, 1))["ids"]
    third = ids[2]
    model = Model("llama", ["q8_0"], True, 1, more=[("tokenizer.ggml.eos_token_id", 4, struct.pack("<I", third))])
    answer = subject.generate(model)
    equal(answer["ids"], ids[:ids.index(third) + 1])
    equal(answer["stop"], "end")


@test("of several tokens that end a text each does")
def _(subject):
    ids = subject.generate(Model("llama", ["q8_0"], True, 1))["ids"]
    keys = ("eos", "eot", "eom")
    for first in keys:
        ends = dict(zip(keys, (258, 258, 258))) | {first: ids[4]}  # 258 is no token of the answer
        model = Model("llama", ["q8_0"], True, 1,
                      more=[(f"tokenizer.ggml.{key}_token_id", 4, struct.pack("<I", token)) for key, token in ends.items()])
        answer = subject.generate(model)
        equal((answer["ids"], answer["stop"]), (ids[:ids.index(ids[4]) + 1], "end"))


@test("the caches' end ends the text")
def _(subject):
    model = Model("llama", ["q8_0"], True, 1)
    answer = subject.generate(model, "--context", "20")
    equal(answer["stop"], "context")  # what is given last has no place in them
    equal(len(answer["prompt_ids"]) + len(answer["ids"]), 21)


@test("a pack of a model's functions gives the same text without a compiler, and is of its model alone")
def _(subject):
    model = Model("llama", ["q8_0", "f16"], False, 21)
    wanted = subject.generate(model, "--context", "64", "--cache", "f16")
    path = subject.write(model.bytes)
    pack = path + ".pack"
    done = subject.run("compile", "--arch", "compute_80", path, "-o", pack, "--context", "64", "--cache", "f16")
    equal((done.returncode, "error" in done.stderr and done.stderr), (0, False))
    compiled = dict(subject.environment)
    try:
        subject.environment |= {"CUGRT_NVRTC": "/none", "XDG_CACHE_HOME": os.path.join(subject.folder, "no-cache")}
        answer = subject.generate(model, "--pack", pack)
        equal((answer["ids"], answer["context"]), (wanted["ids"], 64))
        other = Model("llama", ["q8_0", "f16"], False, 21, layers=3)
        equal(subject.error(other, "--pack", pack), "cugrt: error: 'm.gguf.pack' is another model's pack")
    finally:
        subject.environment = compiled
    with open(path + ".cugrt", "w") as file:
        file.write("cugrt 1\nfunc @main(%x: tensor<[4], f32>) -> (tensor<[4], f32>) {\n  %y = relu(%x)\n  return %y\n}\n")
    equal(subject.run("compile", "--arch", "compute_80", path + ".cugrt", "-o", pack).returncode, 0)
    equal(subject.error(model, "--pack", pack), "cugrt: error: 'm.gguf.pack' is no language model's pack")


@test("drafts change no token, of any format and architecture, and a pack keeps them")
def _(subject):
    models = [Model("llama", ["q8_0", "q4_1", "q4_0"], True, 1), Model("llama", ["f32", "f16", "bf16"], False, 2),
              Model("qwen2", ["q4_0", "f16"], False, 4), Model("qwen3", ["q8_0", "q4_1"], True, 5)]
    for model in models:
        wanted, answer = subject.generate(model), subject.generate(model, "--draft", "ngram")
        equal(answer["ids"], wanted["ids"])
        equal((wanted["draft"], wanted["verifications"], wanted["accepted"]), ("none", TOKENS - 1, 0))
        equal((answer["draft"], answer["verifications"] + answer["accepted"]), ("ngram", TOKENS - 1))
        equal(answer["decode_nodes"], wanted["decode_nodes"] + 1)  # what drafts
    path = subject.write(models[0].bytes)
    pack = path + ".pack"
    done = subject.run("compile", "--arch", "compute_80", path, "-o", pack, "--context", "64", "--draft", "ngram")
    equal((done.returncode, "error" in done.stderr and done.stderr), (0, False))
    packed = subject.generate(models[0], "--pack", pack)
    equal((packed["draft"], packed["ids"]), ("ngram", subject.generate(models[0])["ids"]))


@test("wrong files and options are told in one sentence")
def _(subject):
    good = ["q8_0"]
    says = {
        "architecture 'mamba' is not known; known are llama, qwen2, qwen3, gemma3": Model("mamba", good, True, 1),
        "key 'llama.expert_count' is not known":
            Model("llama", good, True, 1, more=[("llama.expert_count", 4, struct.pack("<I", 8))]),
        "has no tensor 'blk.1.ffn_up.weight'": Model("llama", good, True, 1, drop="blk.1.ffn_up.weight"),
        "tensor 'blk.0.attn_q.bias' has no place": None,
        "is no valid GGUF file": Model("llama", good, True, 1).bytes[:5000],
    }
    biased = Model("qwen2", good, True, 1).bytes.replace(b"qwen2", b"llama")
    says["tensor 'blk.0.attn_q.bias' has no place"] = biased
    for message, model in says.items():
        error = subject.error(model)
        assert message in error, error
    model = Model("llama", good, True, 1)
    equal(subject.error(model, prompt=""), "cugrt: error: the prompt is empty: there is nothing to go on from")
    assert "does not fit into a context of 8" in subject.error(model, "--context", "8")
    for option in ("--max-tokens", "--temperature", "--context"):
        done = subject.run("generate", "none.gguf", "--prompt", "a", option, "-3")
        equal((done.returncode, done.stderr),
              (2, f"cugrt: error: {option}: Value -3 is not 0 or more (cugrt generate --help tells more)\n"))
    assert "a context of 99999999999 positions does not fit" in subject.error(model, "--context", "99999999999")


@test("a chat goes on from what its caches hold, and an answer is that of the whole conversation")
def _(subject):
    model = Model("llama", ["q8_0"], True, 1, more=[("tokenizer.chat_template", 8, text(CHAT_TEMPLATE))])
    path = subject.write(model.bytes)
    options = ("--temperature", "0", "--max-tokens", "4")
    done = subject.run("chat", path, "--context", "256", *options, input="Hi\n\nyes\n")
    equal(done.returncode, 0)
    answers = done.stdout.split("> ")
    equal((len(answers), answers[0], answers[2], answers[4]), (5, "", "", "\n"))  # an empty line is no turn
    first = subject.run("generate", path, "--prompt", "Hi", "--chat", "--stats", "--context", "256", *options)
    equal(answers[1], first.stdout)
    assert " nodes; 2 instances built, 0 fields patched; weights " in first.stderr, first.stderr
    equal(subject.error(Model("llama", ["q8_0"], True, 1), "--chat"),
          "cugrt: error: 'm.gguf' has no key 'tokenizer.chat_template'")


@test("a line that a chat cannot take is told and left out, and the conversation goes on as without it")
def _(subject):
    """One that is not UTF-8, one with a NUL, one that the context has no room for."""
    model = Model("llama", ["q8_0"], True, 1, more=[("tokenizer.chat_template", 8, text(CHAT_TEMPLATE))])
    command = [subject.tool, "chat", subject.write(model.bytes), "--temperature", "0", "--max-tokens", "4", "--context", "128"]
    chat = lambda *lines: subprocess.run(command, env=subject.environment, capture_output=True, timeout=300, input=b"".join(line + b"\n" for line in lines))
    bad = (b"\xff", b"a\0b", b"He" * 400)
    plain, mixed = chat(b"Hi", b"yes"), chat(bad[0], b"Hi", *bad, b"yes", bad[2])
    equal((plain.returncode, mixed.returncode), (0, 0))
    equal([part for part in mixed.stdout.split(b"> ") if part], [part for part in plain.stdout.split(b"> ") if part])
    told = [line for line in mixed.stderr.decode().splitlines() if line.endswith("; this line is left out")]
    equal(len(told), 5)
    for line, said in zip(told, ("is not UTF-8", "is not UTF-8", "NUL character", "does not fit into a context of 128",
                                 "does not fit into a context of 128"), strict=True):
        assert said in line and line.startswith("cugrt: "), line


@test("Ctrl-C stops an answer of a chat, which goes on")
def _(subject):
    model = Model("llama", ["q8_0"], True, 1, more=[("tokenizer.chat_template", 8, text(CHAT_TEMPLATE))])
    path = subject.write(model.bytes)
    chat = subprocess.Popen([subject.tool, "chat", path, "--temperature", "0", "--context", "4096"], env=subject.environment,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out = b""
    for turn in (b"Hi\n", b"yes\n"):  # their answers would fill the context
        chat.stdin.write(turn)
        chat.stdin.flush()
        while not out.endswith(b"> "):
            out += chat.stdout.read(1)
        out += chat.stdout.read(1)  # the answer has begun
        chat.send_signal(signal.SIGINT)
    rest, errors = chat.communicate(timeout=300)
    equal((chat.returncode, b"error" in errors and errors), (0, False))
    answers = (out + rest).decode("utf-8", "replace").split("> ")
    equal((len(answers), answers[0], answers[3]), (4, "", "\n"))  # two turns, and the end of input


@test("a model above 4 GiB is planned without being read, and the error of one that does not fit names the context")
def _(subject):
    path = os.path.join(subject.folder, "zeros.gguf")
    weights = write_zeros(path)
    assert os.path.getsize(path) > 1 << 32
    done = subject.run("plan", path, "--context", "8192", "--json")
    equal(done.returncode, 0)
    position = 2 * 32 * 1024 * 4  # keys and values of 32 layers, in f32
    equal(json.loads(done.stdout)["language_model"],
          {"context": 8192, "weight_bytes": weights, "table_bytes": 8192 * 512, "adapter_bytes": 0,
           "cache_bytes": 8192 * position})
    done = subject.run("plan", path, "--context", "1000", "--dtype", "f16", "--places", "2")
    equal(done.stdout.splitlines()[0], f"weights {weights / 1e6:.1f} MB, tables of positions 0.5 MB, caches "
          f"{1000 * position / 1e6:.1f} MB: 1000 positions of 2 sequences")
    for cache, bytes_each in (("f16", 2), ("q8_0", 34 / 32)):
        done = subject.run("plan", path, "--context", "1000", "--cache", cache, "--json")
        equal(json.loads(done.stdout)["language_model"]["cache_bytes"], 1000 * position / 4 * bytes_each)
    if subject.emulated:
        fits = ((8 << 30) // 16 * 15 - weights) // (position + 512)
        subject.environment["CUGRT_EMU_MEMORY"] = "8G"
        done = subject.run("generate", path, "--prompt", "a", "--context", "131072")
        del subject.environment["CUGRT_EMU_MEMORY"]
        equal(done.returncode, 1)
        assert done.stderr.endswith(f"; at most {fits} positions fit\n"), done.stderr
    os.remove(path)


@test("bench times prompt and answer of a file")
def _(subject):
    path = subject.write(Model("llama", ["q8_0"], True, 1).bytes)
    done = subject.run("bench", path, "--prompt", "40", "--generate", "9", "--json")
    equal(done.returncode, 0)
    rows = json.loads(done.stdout)
    equal([(row["bench"], row["case"], row["tokens"], row["driver"] == "EMULATED") for row in rows],
          [("language_model", "prefill", 40, subject.emulated), ("language_model", "decode", 8, subject.emulated)])
    assert all(row["tokens_per_s"] > 0 and row["decode_nodes"] > 0 for row in rows)
    done = subject.run("bench", path, "--prompt", "3", "--generate", "2")
    equal([line.split()[0] for line in done.stdout.splitlines()], ["llama", "case", "prefill", "decode"])
    # Where its time goes: by tensors of the file, and as many nodes by what kernels are.
    nodes = {}
    for by, cupti in (("layer", ""), ("op", "off")):
        subject.environment["CUGRT_CUPTI"] = cupti
        done = subject.run("bench", path, "--by", by, "--prompt", "40", "--generate", "3", "--json")
        equal(done.returncode, 0)
        rows = [row for row in json.loads(done.stdout) if row["nodes"]]
        for case in ("prefill of 40", "decode"):
            layers = {row["layer"] for row in rows if by == "layer" and row["case"] == case}
            assert by == "op" or {"token_embd", "blk.0"} <= layers, layers
            assert sum(".gguf:" in layer for layer in layers) <= 1, layers  # what is before all tensors
            equal(sum(row["nodes"] for row in rows if row["case"] == case), nodes.setdefault(case, sum(
                row["nodes"] for row in rows if row["case"] == case)))
        assert all(row["us"] >= 0 and row["bytes"] > 0 for row in rows), rows
    del subject.environment["CUGRT_CUPTI"]
    # Nodes of the loop's body have names by their ids; without ids the loop is one node, timed by events.
    for version, by, told in (("13.1", "CUPTI 13.1", True), ("12.6", "events between them", False)):
        if subject.emulated:
            subject.environment["CUGRT_EMU_DRIVER_VERSION"] = version
            done = subject.run("bench", path, "--by", "layer", "--prompt", "3", "--generate", "2", "--loop", "device", "--json")
            equal((done.returncode, "timed by events, not by CUPTI: CUPTI 12 tells" in done.stderr), (0, not told))
            rows = json.loads(done.stdout)
            equal({row["timed_by"] for row in rows}, {by})
            equal("blk.0" in {row["layer"] for row in rows if row["case"] == "decode"}, told)
    subject.environment.pop("CUGRT_EMU_DRIVER_VERSION", None)


@test("tokenize reads JSON strings and writes JSON lists")
def _(subject):
    path = subject.write(Model("llama", ["q8_0"], True, 1).bytes)
    done = subject.run("tokenize", path, input='"Hell"\n""\n"\\u00e9\\n"\n')
    equal((done.returncode, done.stdout), (0, "[256,257]\n[]\n[195,169,10]\n"))
    done = subject.run("tokenize", path, input='"a"\n{}\n')
    equal((done.returncode, done.stderr), (1, "cugrt: error: line 2 of the input is no JSON string\n"))


def main():
    tool, emulator = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        return run_tests(Subject(tool, os.environ.get("CUGRT_TEST_DRIVER") or emulator, folder))


if __name__ == "__main__":
    sys.exit(main())
