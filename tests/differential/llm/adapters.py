#!/usr/bin/env python3
"""Adapters (LoRA) through the tool, against the decoder of language_models.py whose weights have B A added.

  adapters.py TOOL EMULATED_DRIVER
"""
import copy
import json
import os
import random
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from titled_tests import TESTS, equal, run_tests, test  # noqa: E402
from language_models import HEADS, INNER, KV_HEADS, PROMPT, TOKENS, WIDTH, Model, Subject, follow  # noqa: E402

TESTS.clear()  # those of the other script
LAYER = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, numbers) in tensors.items():
        part = struct.pack(f"<{len(numbers)}{'f' if dtype == 'F32' else 'e'}", *numbers)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    head = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)


def in_file(model, module, row, rows):
    """Where llama's files have a row of the published model's queries or keys."""
    heads = {"self_attn.q_proj": HEADS, "self_attn.k_proj": KV_HEADS}.get(module)
    if not model.interleaved or not heads:
        return row
    half = rows // heads // 2
    return row // (2 * half) * 2 * half + row % half * 2 + row // half % 2


def adapted(model, folder, modules, config, scale, root="model.", dtype="F32", times=1.0):
    """Writes an adapter of rank 3 with these modules, and gives the model with it."""
    os.makedirs(folder, exist_ok=True)
    draw, tensors = random.Random(99), {}
    merged = copy.copy(model)
    merged.weights = dict(model.weights)

    def add(path, names, weight, into, is_table=False):
        rows = merged.weights.get(into) or merged.weights[weight]
        out, inner = (len(rows[0]), len(rows)) if is_table else (len(rows), len(rows[0]))
        a = [[draw.randrange(-64, 65) / 256 for _ in range(inner)] for _ in range(3)]
        b = [[draw.randrange(-64, 65) / 256 for _ in range(3)] for _ in range(out)]
        tensors[f"base_model.model.{path}.{names[0]}"] = (dtype, [3, inner], sum(a, []))
        tensors[f"base_model.model.{path}.{names[1]}"] = (dtype, [out, 3], sum(b, []))
        rows = [list(row) for row in rows]
        for i in range(out):
            to = in_file(model, path.split(".", 3)[-1] if "layers" in path else path, i, out)
            for j in range(inner):
                more = times * scale * sum(b[i][r] * a[r][j] for r in range(3))
                if is_table:
                    rows[j][i] += more
                else:
                    rows[to][j] += more
        merged.weights[into] = rows

    names = ("lora_A.weight", "lora_B.weight")
    for module in modules:
        if module in LAYER:
            for layer in range(model.layers):
                weight = f"blk.{layer}.{LAYER[module]}.weight"
                add(f"model.layers.{layer}.{module}", names, weight, weight)
        elif module == "lm_head":  # the look-up of a tied table stays
            add(module, names, "token_embd.weight" if model.tied else "output.weight", "output.weight")
            merged.tied = False
        else:
            head = merged.weights.setdefault("output.weight", merged.weights["token_embd.weight"])
            add(f"model.{module}", ("lora_embedding_A", "lora_embedding_B"), "token_embd.weight", "token_embd.weight", True)
            merged.weights["output.weight"], merged.tied = head, False
    tensors = {name.replace("base_model.model.model.", "base_model.model." + root): value
               for name, value in tensors.items()}
    write_safetensors(os.path.join(folder, "adapter_model.safetensors"), tensors)
    with open(os.path.join(folder, "adapter_config.json"), "w") as file:
        json.dump({"peft_type": "LORA", "r": 3} | config, file)
    return merged


@test("an adapter of every product, by each architecture, over plain weights and blocks")
def _(subject):
    folder, changed = os.path.join(subject.folder, "adapter"), 0
    for model, root in ((Model("llama", ["q8_0", "q4_1", "q4_0"], True, 1), "model."),
                        (Model("llama", ["f32", "f16", "bf16"], False, 2), ""),
                        (Model("qwen2", ["q4_0", "f16"], False, 4), "model."),
                        (Model("qwen3", ["q4_1"], True, 5), "model."),
                        (Model("gemma3", ["q8_0", "f32"], True, 12, window=6, layers=6), "model.language_model.")):
        merged = adapted(model, folder, LAYER, {"lora_alpha": 6}, 2.0, root)
        answer = subject.generate(model, "--lora", folder)
        follow(merged, answer, 1e-3)
        without = subject.generate(model)["ids"]
        equal(subject.generate(model, "--lora", folder, "--lora-scale", "0")["ids"], without)
        changed += answer["ids"] != without
    assert changed >= 4, changed


@test("an adapter of the table of tokens, of the head, and of both, where one table is both")
def _(subject):
    folder = os.path.join(subject.folder, "adapter")
    for modules in (["embed_tokens"], ["lm_head"], ["embed_tokens", "lm_head", "self_attn.v_proj"]):
        for model in (Model("llama", ["q8_0"], True, 1), Model("gemma3", ["f32"], True, 12, window=6, layers=2)):
            merged = adapted(model, folder, modules, {"lora_alpha": 6, "use_rslora": True}, 6 / 3 ** 0.5, dtype="F16")
            follow(merged, subject.generate(model, "--lora", os.path.join(folder, "adapter_model.safetensors")), 1e-3)


@test("an adapter's scale, half precision, drafts, and a pack made for adapters of its kind")
def _(subject):
    folder = os.path.join(subject.folder, "adapter")
    model = Model("llama", ["q8_0"], True, 1)
    merged = adapted(model, folder, LAYER, {"lora_alpha": 6}, 2.0, times=-0.5)
    scaled = ("--lora", folder, "--lora-scale", "-0.5")
    answer = subject.generate(model, *scaled)
    follow(merged, answer, 1e-3)
    follow(merged, subject.generate(model, "--dtype", "f16", *scaled), 0.05)
    equal(subject.generate(model, "--draft", "ngram", *scaled)["ids"], answer["ids"])
    path = subject.write(model.bytes)
    pack = path + ".pack"
    for draft in ("none", "ngram"):
        done = subject.run("compile", "--arch", "compute_80", path, "-o", pack, "--context", "64", "--lora", folder,
                           "--draft", draft)
        equal((done.returncode, "error" in done.stderr and done.stderr), (0, False))
        packed = subject.generate(model, "--pack", pack, *scaled)
        equal((packed["ids"], packed["draft"]), (answer["ids"], draft))
        equal(subject.generate(model, "--pack", pack)["ids"], subject.generate(model)["ids"])
    done = subject.run("compile", "--arch", "compute_80", path, "-o", pack, "--context", "64")
    equal(done.returncode, 0)
    equal(subject.error(model, "--pack", pack, "--lora", folder),
          "cugrt: error: the session was opened without room for adapters: its lora_rank is 0")
    plan = json.loads(subject.run("plan", path, "--context", "64", "--lora", folder, "--json").stdout)
    head = WIDTH // HEADS
    elements = [(WIDTH, 3, WIDTH + 2 * KV_HEADS * head), (HEADS * head, 1, WIDTH), (WIDTH, 2, 2 * INNER), (INNER, 1, WIDTH)]
    wanted = sum(8 * products * (columns + rows) * 4 for columns, products, rows in elements) * model.layers
    equal(plan["language_model"]["adapter_bytes"], 256 + wanted)  # of rank 8, and each a multiple of 256 bytes


@test("chat answers with an adapter")
def _(subject):
    folder = os.path.join(subject.folder, "adapter")
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    model = Model("llama", ["q8_0"], True, 1, more=[
        ("tokenizer.chat_template", 8, struct.pack("<Q", len(template)) + template.encode())])
    adapted(model, folder, LAYER, {"lora_alpha": 6}, 2.0)
    wanted = subject.generate(model, "--lora", folder, "--chat")["text"]
    assert wanted != subject.generate(model, "--chat")["text"]
    done = subject.run("chat", subject.write(model.bytes), "--lora", folder, "--max-tokens", str(TOKENS),
                       "--temperature", "0", input=PROMPT + "\n")
    equal((done.returncode, done.stdout), (0, f"> {wanted}\n> \n"))


@test("what is no adapter of the model is told in one sentence")
def _(subject):
    folder = os.path.join(subject.folder, "adapter")
    model = Model("llama", ["q8_0"], True, 1)
    config = os.path.join(folder, "adapter_config.json")
    tensors = os.path.join(folder, "adapter_model.safetensors")

    def error(says, at=folder):
        found = subject.error(model, "--lora", at)
        assert says in found, found
    adapted(Model("llama", ["q8_0"], True, 1, layers=3), folder, LAYER, {"lora_alpha": 6}, 2.0)
    error("has no place in this architecture")
    adapted(model, folder, ["self_attn.q_proj"], {"lora_alpha": 6, "r": 4}, 2.0)
    error("adapter_model.safetensors': module 'model.layers.0.self_attn.q_proj' has factors of rank 3 and 3; "
          "adapter_config.json says 4")
    adapted(model, folder, ["self_attn.q_proj"], {"lora_alpha": 6, "use_dora": True}, 2.0)
    error("adapter_config.json': key 'use_dora': is set, which changes numbers in a way that is not followed")
    with open(config, "w") as file:
        file.write("{")
    error("adapter_config.json': at byte 1: ")
    os.remove(config)
    error("adapter/adapter_config.json': No such file or directory")
    adapted(model, folder, ["self_attn.q_proj"], {"lora_alpha": 6}, 2.0)
    with open(tensors, "r+b") as file:
        file.truncate(100)
    error("the file is truncated or not safetensors")
    os.remove(tensors)
    error("adapter_model.safetensors")
    error("none/adapter_config.json", os.path.join(subject.folder, "none/x.safetensors"))


def main():
    tool, emulator = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        return run_tests(Subject(tool, os.environ.get("CUGRT_TEST_DRIVER") or emulator, folder))


if __name__ == "__main__":
    sys.exit(main())
