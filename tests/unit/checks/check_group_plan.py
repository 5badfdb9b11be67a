"""cugrt plan --group: what several models take of one device. Usage: check_group_plan.py CUGRT PACK

PACK is of x times a weight of 4 rows and 3 columns, n up to 8.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROWS = 32
SIZES = {"a": (16, 64), "b": (8, 160), "c": (24, 40)}


def module(width, wide):
    return f"""cugrt 1
func @main(%x: tensor<[n, {width}], f32>, %u: tensor<[{width}, {wide}], f32>, %v: tensor<[{wide}, {width}], f32>)
    -> (tensor<[n, {width}], f32>) attributes {{num_inputs = 1, upper_bounds = {{n = {ROWS}}}}} {{
  %p = matmul(%x, %u)
  %q = matmul(%p, %v)
  return %q
}}
"""


def chain(count):
    """A module of products with `count` weights of 16 x 16."""
    steps = "".join(f"  %y{i + 1} = matmul(%y{i}, %w{i})\n" for i in range(count))
    params = "".join(f", %w{i}: tensor<[16, 16], f32>" for i in range(count))
    return (f"cugrt 1\nfunc @main(%y0: tensor<[n, 16], f32>{params}) -> (tensor<[n, 16], f32>)\n"
            f"    attributes {{num_inputs = 1, upper_bounds = {{n = 8}}}} {{\n{steps}  return %y{count}\n}}\n")


# What the product reads is computed when weights are loaded.
FOLDED = """cugrt 1
func @main(%x: tensor<[n, 16], f32>, %w0: tensor<[16, 16], f32>, %w1: tensor<[16, 16], f32>) -> (tensor<[n, 16], f32>)
    attributes {{num_inputs = 1, upper_bounds = {{n = 8}}}} {{
  %w = {op}(%w0, %w1)
  %y = matmul(%x, %w)
  return %y
}}
"""


def write_weights(path, values):
    """A safetensors file of matrices that are filled with one number each."""
    size = 16 * 16 * 4
    header = json.dumps({f"w{i}": {"dtype": "F32", "shape": [16, 16], "data_offsets": [i * size, (i + 1) * size]}
                         for i in range(len(values))}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.write(b"".join(struct.pack("<f", value) * 256 for value in values))


def main():
    tool, pack = sys.argv[1:]
    failures = 0

    def check(holds, what):
        nonlocal failures
        if not holds:
            failures += 1
            print(f"failed: {what}")

    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, size in SIZES.items():
            paths[name] = os.path.join(folder, name + ".cugrt")
            with open(paths[name], "w") as file:
                file.write(module(*size))

        def run(*arguments):
            return subprocess.run([tool, "plan", *arguments], capture_output=True, text=True, timeout=120, check=False)

        files = list(paths.values())
        group = json.loads(run(*files, "--group", "--word", "eyes=a,b", "--json").stdout)
        models = {model["name"]: model for model in group["models"]}
        check(list(models) == list(SIZES), "models in their order")
        for name, (width, wide) in SIZES.items():
            model = models[name]
            check(model["weight_bytes"] == 2 * 4 * width * wide, f"weights of {name}: {model}")
            check(model["result_bytes"] == 4 * ROWS * width, f"results of {name}: {model}")
            # The product between is all that lies in the arena.
            check(4 * ROWS * wide <= model["arena_bytes"] < 4 * ROWS * wide + 256, f"arena of {name}: {model}")
            check(model["instance_bytes"] > 0 and model["cache_bytes"] == 0, f"instances and caches of {name}: {model}")
        arenas = [models[name]["arena_bytes"] for name in "abc"]
        check([models[name]["word"] for name in "abc"] == ["eyes", "eyes", None], "words")
        check(group["arena_bytes"] == max(arenas[:2]) + arenas[2], "models of a word share an arena")
        weights = [model["weight_bytes"] for model in models.values()]
        results = sum(model["result_bytes"] for model in models.values())
        check(group["total_bytes"] == group["arena_bytes"] + sum(weights) + results, "the total")
        check(group["least_bytes"] == group["total_bytes"] - sum(weights) + max(weights), "with weights away")
        apart = json.loads(run(*files, "--group", "--json").stdout)
        check(apart["arena_bytes"] == sum(arenas) and apart["budget_bytes"] is None, "no word, no shared arena")

        total, least = group["total_bytes"], group["least_bytes"]
        for budget, answer in ((total, "holds all of it"), (total - 1, "weights that leave"),
                               (least, "weights that leave"), (least - 1, "too small")):
            text = run(*files, "--group", "--word", "eyes=a,b", "--budget", str(budget)).stdout
            check(answer in text and f" {total} " in text, f"a budget of {budget}: {text}")

        drawing = run(*files, "--group", "--word", "eyes=a,b", "--budget", "100000", "--svg").stdout
        bars = [rect for rect in xml.etree.ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}rect")
                if rect[0].text.startswith("arena")]
        places = [bar.get("x") for bar in bars]
        check(len(places) == 3 and places[0] == places[1] != places[2], "a shared arena is one place")

        packed, = json.loads(run(pack, "--group", "--json").stdout)["models"]
        check(packed["name"] == "model" and packed["weight_bytes"] == 48 and packed["result_bytes"] == 8 * (3 * 4 + 8),
              f"a pack: {packed}")

        # Weights by what fills them. "two" has half of what "one" has, "few" but a third of what "many" has. What
        # "four" reads lies in these two, and needs no memory of its own.
        packs = {}
        for name, values in {"one": [1, 2], "two": [5, 2], "none": [6, 7], "many": [8, 9, 10], "few": [8, 11],
                             "four": [1, 2, 8, 9, 10]}.items():
            source, given, packs[name] = (os.path.join(folder, name + end)
                                          for end in (".cugrt", ".safetensors", ".pack"))
            with open(source, "w") as file:
                file.write(chain(len(values)))
            write_weights(given, values)
            subprocess.run([tool, "compile", "--arch", "compute_75", source, "-o", packs[name], "--weights", given],
                           capture_output=True, timeout=120, check=True)
        group = json.loads(run(*packs.values(), "--group", "--json").stdout)
        shared = {model["name"]: model["shared_weight_bytes"] // 1024 for model in group["models"]}
        check(shared == {"one": 0, "two": 1, "none": 0, "many": 0, "few": 0, "four": 5}, f"weights alike: {shared}")
        of_all = {name: sum(model[name] for model in group["models"])
                  for name in ("weight_bytes", "shared_weight_bytes", "arena_bytes", "result_bytes")}
        check(group["total_bytes"] == sum(of_all.values()) - 2 * of_all["shared_weight_bytes"], f"alike once: {group}")
        # With "four" run "one" and "many".
        check(group["least_bytes"] == of_all["arena_bytes"] + of_all["result_bytes"] + 5 * 1024, f"least: {group}")
        check("6144 bytes are not counted again" in run(*packs.values(), "--group").stdout, "told in text")
        # What is computed of weights that are alike, in the same way, is alike as well: no product is, where the
        # sum differs that its weight has part in.
        folded = {}
        for name, values, op in (("first", [1, 2], "add"), ("second", [1, 2], "add"), ("third", [1, 3], "add"),
                                 ("fourth", [1, 2], "sub")):
            source, given, folded[name] = (os.path.join(folder, name + end)
                                           for end in (".cugrt", ".safetensors", ".pack"))
            with open(source, "w") as file:
                file.write(FOLDED.format(op=op))
            write_weights(given, values)
            subprocess.run([tool, "compile", "--arch", "compute_75", source, "-o", folded[name], "--weights", given],
                           capture_output=True, timeout=120, check=True)
        group = json.loads(run(*folded.values(), "--group", "--json").stdout)
        shared = {model["name"]: (model["weight_bytes"], model["shared_weight_bytes"]) for model in group["models"]}
        check([model["opening_bytes"] for model in group["models"]] == [2048] * 4, f"what opening takes: {group}")
        check(shared == {"first": (1024, 0), "second": (1024, 1024), "third": (1024, 0), "fourth": (1024, 0)},
              f"computed weights alike: {shared}")
        os.remove(os.path.join(folder, "one.safetensors"))
        check(run(*packs.values(), "--group", "--json").returncode == 0, "weights that are not here")

        for arguments, message in ((files, "--group"), ([*files, "--group", "--word", "eyes=a,d"], "no model 'd'"),
                                   ([*files, "--group", "--word", "eyes"], "--word is"),
                                   ([*files, "--group", "--word", "x=a", "--word", "y=a"], "has the word 'x' already"),
                                   ([files[0], files[0], "--group"], "two models are called 'a'"),
                                   ([files[0], "--budget", "5"], "--group")):
            refused = run(*arguments)
            check(refused.returncode != 0 and message in refused.stderr, f"{arguments}: {refused.stderr}")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
