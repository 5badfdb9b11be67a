"""What ./dev gpu FOLDER stages measures: eleven stages, which confirm designs of kernels or end them.

A stage is steps, each a command with seconds of its own, and verdicts over their rows. A step that fails, that runs out
of time or that is left out is a row that says so, and the next one begins; a stage that has used its minutes begins no
more steps. The rows of the benches are kept flat, with the keys "stage" and "step" before theirs.

A verdict's figure is a part of a ceiling of the same run or a ratio within it, so that it travels to other devices,
or microseconds where latency is the matter. Figures from the emulated driver are none: each verdict is open then.
"""
import dataclasses
import json
import os
import shutil
import statistics
import sys
import time

import random_model

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, ".deps", "random_models")
LLAMA = os.path.join(ROOT, ".deps", "llama_cpp")  # where ./dev gpu puts llama.cpp
LARGE = random_model.Size(32, 4096, 14336, 32, 8, 49152)  # 4.2 GB, 3.9 of them read a token
SMALL = random_model.Size(30, 576, 1536, 9, 3, 49152, "f16")  # a layer is 7 MB
REHEARSED = {LARGE: random_model.Size(2, 256, 256, 4, 2, 512), SMALL: random_model.Size(2, 64, 128, 4, 2, 512, "f16")}
FLOPS_A_BYTE = {"128 x 128": 64, "256 x 128": 85}  # of a tile of f16, between L2 and the multiprocessors


class Missing(Exception):
    """There is no such figure: the sentence says why."""


class Skipped(Missing):
    """What a step needs is not on this machine, or not for rehearsals."""


class Refused(Missing):
    """Nor can there be: the device or its driver does not have it, or its result was wrong."""


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    seconds: int
    command: object  # of (kit): the words. A bench of bench/ has --json last and is given a file; others print rows


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`figure` takes Figures. More is better where `confirmed` is above `ended`, and less where it is below."""
    design: str
    measure: str
    figure: object
    confirmed: float
    ended: float

    def line(self, figures):
        try:
            value = self.figure(figures)
        except Refused as why:
            return f"{self.design}: ended, {why}"
        except Missing as why:
            return f"{self.design}: open, {why}"
        up = self.confirmed > self.ended
        beyond = (lambda bound: value >= bound) if up else (lambda bound: value <= bound)
        state = "confirmed" if beyond(self.confirmed) else "undecided" if beyond(self.ended) else "ended"
        words = ("from {} on", "below {}") if up else ("up to {}", "above {}")
        return (f"{self.design}: {state}, {self.measure} is {value:.3g} (confirmed {words[0].format(self.confirmed)}, "
                f"ended {words[1].format(self.ended)})")


class Figures:
    """Rows of the stages that are done, by stage, step and case."""

    def __init__(self, rows):
        self.rows = rows

    def row(self, stage, step, case, **more):
        failed = None
        for row in self.rows:
            if row["stage"] == stage and row["step"] == step:
                failed = row.get("failed") or row.get("skipped") or failed
                if row.get("case") == case and all(row.get(key) == value for key, value in more.items()):
                    if row.get("driver") == "EMULATED":
                        raise Missing("EMULATED")
                    return row
        raise Missing(f"stage{stage} {step}: {failed}" if failed else f"stage{stage} has no row {step} {case}")

    def get(self, stage, step, case, key, **more):
        row = self.row(stage, step, case, **more)
        if row.get(key) is None:
            raise Refused(row["not_measured"]) if row.get("not_measured") else Missing(f"{case} has no {key}")
        return row[key]

    def ceiling(self, stage, step, name):
        """Bytes or operations a microsecond, of the same run of bench kernels."""
        case, key = "ceiling_" + name, "operations" if name in ("mma", "fma") else "bytes"
        return self.get(stage, step, case, key) / self.get(stage, step, case, "us")


# --- Commands ------------------------------------------------------------------------------------


def device(*words):
    return lambda kit: [kit.built("bench/bench_device"), *words, "--json"]


def kernels(cases, *words):
    return lambda kit: [kit.built("bench/bench_kernels"), "--only", ",".join(cases), *words, "--json"]


def model_path(kit, size):
    size = REHEARSED[size] if kit.driver == "emulated" else size
    path = os.path.join(MODELS, "-".join(map(str, dataclasses.astuple(size))) + ".gguf")
    random_model.write(path, size)
    return path


def language(size, prompt, generate):
    def command(kit):
        few = kit.driver == "emulated"
        counts = ("--prompt", min(prompt, 4) if few else prompt, "--generate", min(generate, 2) if few else generate)
        return [kit.built("src/fronts/tools/cugrt"), "bench", model_path(kit, size), "--dtype", "f16",
                *map(str, counts), "--json"]
    return command


def llama(size, prompt, generate):
    def command(kit):
        if kit.driver == "emulated" or not os.path.isdir(LLAMA):
            raise Skipped("EMULATED" if kit.driver == "emulated" else "llama.cpp is not in .deps/llama_cpp")
        return [sys.executable, os.path.join(ROOT, "bench", "peers", "llama.py"), LLAMA, model_path(kit, size),
                str(prompt), str(generate)]
    return command


def profiled(kit):
    """Times of kernels by Nsight Compute, clocks as they are."""
    ncu = shutil.which("ncu") or shutil.which("/usr/local/cuda/bin/ncu")
    if not ncu or kit.driver == "emulated":
        raise Skipped("EMULATED" if ncu else "Nsight Compute (ncu) is not installed")
    return [ncu, "--clock-control", "none", "--csv", "--metrics", "gpu__time_duration.sum", "--print-units", "base",
            *language(LARGE, 8, 4)(kit)]


# --- The table -----------------------------------------------------------------------------------

CHAINS = ("chain_plain", "chain_programmatic", "chain_programmatic_trigger_after_wait", "chain_plain_ring",
          "chain_programmatic_ring", "chain_programmatic_ring_trigger_after_wait",
          "chain_programmatic_ring_behind_wait")
COOPERATIVE = ("chain_cooperative", "chain_cooperative_beside_programmatic", "grid_barrier")
EXCHANGES = ("grid_words", "cluster_8", "cluster_16", "pinned_reads", "pinned_write_fence_of_one",
             "pinned_write_fence_of_all", "pinned_write_release")
STREAMS = ("read", *(f"stream_{slots}_slots_{warps}x{blocks}" for blocks in (1, 2) for warps in (8, 16)
                     for slots in (2, 3, 4)))
FFN = tuple(f"decode_ffn_{kind}" for kind in ("q4_k", "q6_k", "q8_0", "f16"))
RESNET = tuple(f"resnet_{taps}_{size}" for taps in ("3x3", "1x1") for size in (56, 28, 14, 7))
PARTS = ("image", "speech", "text")


def ratio(stage, key, step, case, other_step, other):
    return lambda f: f.get(stage, step, case, key) / f.get(stage, other_step, other, key)


def l2_part(tile, ceiling):
    """What L2 lets tiles of that size multiply, as a part of the tensor cores' ceiling."""
    return lambda f: (FLOPS_A_BYTE[tile] * f.get(0, "ceilings", "l2_copies", "gb_per_s") / 1e3 /
                      f.get(0, "ceilings", ceiling, "tera_per_s"))


def ring_part(f):
    return f.get(1, "chains", "chain_programmatic_ring", "gb_per_s") / f.get(0, "ceilings", "read", "gb_per_s")


def phase_part(f):
    """A phase of a persistent kernel, an exchange and 0.4 us of work, beside a node, its edge and 0.8 us of work."""
    return ((f.get(1, "exchanges", "grid_words", "us_each") + 0.4) /
            (f.get(1, "chains", "chain_programmatic", "us_each") + 0.8))


def fraction(stage, step, *cases):
    """The least of these cases."""
    return lambda f: min(f.get(stage, step, case, "fraction_of_ceiling") for case in cases)


def ffn_us(f, edges):
    """The mean of both turns."""
    return statistics.mean(f.get(2, edges + turn, "decode_ffn_q4_k", "us") for turn in ("", "_again"))


def decode_part(f):
    row = f.row(3, "large", "decode")
    return LARGE.step_bytes() * row["tokens"] / row["seconds"] / 1e6 / f.ceiling(3, "products", "read")


def decode_us(f):
    row = f.row(3, "small", "decode")
    return row["seconds"] / row["tokens"] * 1e6


def prefill_part(f):
    rate = LARGE.token_operations() * f.get(4, "prompt_512", "prefill", "tokens_per_s") / 1e6
    return rate / f.ceiling(4, "products", "mma")


def step_us(case):
    return lambda f: f.get(5, "recurrences", case, "us") / 512  # steps of a case


def bytes_part(f):
    rate = f.get(8, "ops", "matmul_integer", "operations") / f.get(8, "ops", "matmul_integer", "us") / 1e6
    return rate / f.get(0, "ceilings", "mma_s8", "tera_per_s")


def beside_llama(case, size):
    """Our time over its."""
    def figure(f):
        ours = f.get(10, size, case, "tokens_per_s")
        return f.get(10, "llama_" + size, case, "tokens_per_s") / ours
    return figure


def between_part(f):
    row = f.row(9, "step", "decode")
    return row["seconds"] / row["tokens"] * 1e6 / f.get(9, "kernels", "last_step", "us")


@dataclasses.dataclass(frozen=True)
class Stage:
    minutes: int
    about: str
    steps: tuple
    verdicts: tuple


STAGES = (
    Stage(2, "ceilings", (Step("ceilings", 100, device("--stage", "0")),), (
        Verdict("products by wgmma without multicast",
                "what L2 feeds tiles of 256 x 128, as a part of wgmma's ceiling,",
                l2_part("256 x 128", "wgmma_f16"), 0.9, 0.65),
        Verdict("tiles of 256 x 128 for mma.sync", "what L2 feeds tiles of 128 x 128, as a part of mma's ceiling,",
                l2_part("128 x 128", "mma_f16"), 1.0, 1.5))),
    Stage(2, "nodes, barriers, exchanges", (
        Step("chains", 40, device("--only", ",".join(CHAINS))),
        Step("cooperative", 25, device("--only", ",".join(COOPERATIVE))),
        Step("exchanges", 30, device("--only", ",".join(EXCHANGES))),
        Step("early_cooperative", 25, device("--only", "chain_cooperative_programmatic"))), (
        Verdict("rings that are filled before the wait", "reads of a chain with rings, as a part of a read,", ring_part,
                0.9, 0.75),
        Verdict("rings before the wait and not behind it",
                "the time of the chain, over that with rings behind the wait,",
                ratio(1, "us", "chains", "chain_programmatic_ring", "chains", "chain_programmatic_ring_behind_wait"),
                0.9, 1.0),
        Verdict("programmatic edges at cooperative nodes", "a node, over one with full edges there,",
                ratio(1, "us_each", "early_cooperative", "chain_cooperative_programmatic", "cooperative",
                      "chain_cooperative_beside_programmatic"), 0.9, 1.0),
        Verdict("recurrent weights on the chip", "an exchange of words with their step, in us,",
                lambda f: f.get(1, "exchanges", "grid_words", "us_each"), 0.8, 1.5),
        Verdict("recurrences within a cluster of 16", "an exchange there, over one of the grid,",
                ratio(1, "us_each", "exchanges", "cluster_16", "exchanges", "grid_words"), 0.7, 1.0),
        Verdict("one kernel for a step of small models", "a phase of it over a node,", phase_part, 0.7, 1.0),
        Verdict("an end of steps that reads nothing pinned", "a read of a pinned word, in us,",
                lambda f: f.get(1, "exchanges", "pinned_reads", "us_each"), 0.8, 0.3),
        Verdict("a release by one thread", "a write and a release, over a fence of all threads,",
                ratio(1, "us_each", "exchanges", "pinned_write_release", "exchanges", "pinned_write_fence_of_all"),
                0.9, 1.0))),
    Stage(5, "products of a decode step", (Step("loads", 40, device("--only", ",".join(STREAMS))),) + tuple(
        Step(name, 65, kernels(FFN, *flags))
        for name, flags in (("early", ()), ("full", ("--full-edges",)), ("early_again", ()),
                            ("full_again", ("--full-edges",)))), (
        Verdict("rings of four slots in eight warps", "what they read alone, as a part of a read,",
                ratio(2, "gb_per_s", "loads", "stream_4_slots_8x1", "loads", "read"), 0.95, 0.85),
        Verdict("rings of two slots", "what they read alone, over four,",
                ratio(2, "gb_per_s", "loads", "stream_2_slots_8x1", "loads", "stream_4_slots_8x1"), 0.97, 0.9),
        Verdict("streams of weights in q4_k", "three layers' halves, as a part of a read,",
                fraction(2, "early", "decode_ffn_q4_k"), 0.75, 0.6),
        Verdict("streams of weights in other formats", "the slowest, as a part of a read,",
                fraction(2, "early", *FFN[1:]), 0.75, 0.6),
        Verdict("weights asked for before the wait", "early edges over full ones,",
                lambda f: ffn_us(f, "early") / ffn_us(f, "full"), 0.93, 1.0))),
    Stage(3, "decode steps", (
        Step("products", 50, kernels(("decode_square_q4_k", "decode_head_q6_k", "decode_ffn_q4_k",
                                      "decode_ffn_q4_k_8"))),
        Step("large", 90, language(LARGE, 512, 64)), Step("small", 40, language(SMALL, 512, 128))), (
        Verdict("small products by streams", "products of 4,096 x 4,096, as a part of a read,",
                fraction(3, "products", "decode_square_q4_k"), 0.45, 0.3),
        Verdict("the head by streams", "it, as a part of a read,", fraction(3, "products", "decode_head_q6_k"), 0.85,
                0.6),
        Verdict("eight rows in one stream", "eight rows over one,",
                ratio(3, "us", "products", "decode_ffn_q4_k_8", "products", "decode_ffn_q4_k"), 1.3, 2.0),
        Verdict("decode at the speed of memory", "a step's weights, as a part of a read,", decode_part, 0.8, 0.6),
        Verdict("rings for small models", "a token, in us,", decode_us, 400, 670))),
    Stage(3, "prompts", (
        Step("products", 60, kernels([f"prefill_q4_k_{rows}" for rows in (64, 128, 512)])),
        Step("prompt_512", 60, language(LARGE, 512, 2)), Step("prompt_64", 60, language(LARGE, 64, 2))), (
        Verdict("tiles that dequantise in registers", "512 rows, as a part of mma's ceiling,",
                fraction(4, "products", "prefill_q4_k_512"), 0.55, 0.3),
        Verdict("prompts in parts of 512", "tokens a second of 512 over those of 64,",
                ratio(4, "tokens_per_s", "prompt_512", "prefill", "prompt_64", "prefill"), 2.0, 1.2),
        Verdict("prompts at the tensor cores", "512 tokens, as a part of mma's ceiling,", prefill_part, 0.5, 0.2))),
    Stage(2, "recurrences", (
        Step("recurrences", 110, kernels(("lstm_256_1", "lstm_512_1", "lstm_512_2", "lstm_1024_1", "gru_512_2"))),), (
        Verdict("resident lstm", "a step of 512 in two directions, in us,", step_us("lstm_512_2"), 1.3, 5),
        Verdict("resident gru", "a step of 512 in two directions, in us,", step_us("gru_512_2"), 2.2, 5))),
    Stage(5, "convolutions", (Step("shapes", 200, kernels(RESNET)),), (
        Verdict("channels last with split k", "the median of a ResNet's eight shapes, in us,",
                lambda f: statistics.median(f.get(6, "shapes", case, "us") for case in RESNET), 4, 10),)),
    Stage(3, "attention from graphs, small products", (
        Step("parts", 150, kernels([kind + part for kind in ("attention_", "attention_of_products_", "product_")
                                    for part in PARTS])),), (
        Verdict("attention from graphs", "the worst of three shapes, over the op,",
                lambda f: max(f.get(7, "parts", "attention_of_products_" + part, "us") /
                              f.get(7, "parts", "attention_" + part, "us") for part in PARTS), 1.15, 2),
        Verdict("small products with split k", "128 x 384 x 384, in us,",
                lambda f: f.get(7, "parts", "product_text", "us"), 4, 8))),
    Stage(3, "attention and large products", (
        Step("ops", 150, kernels(("attention_decode", "attention_decode_split", "attention_prefill", "matmul",
                                  "matmul_integer"))),), (
        Verdict("decode attention on tensor cores", "it, as a part of a read,", fraction(8, "ops", "attention_decode"),
                0.9, 0.75),
        Verdict("prefill attention with masks at edges", "it, as a part of mma's ceiling,",
                fraction(8, "ops", "attention_prefill"), 0.5, 0.35),
        Verdict("matmul in f16 by mma.sync", "4,096 x 4,096 x 4,096, as a part of mma's ceiling,",
                lambda f: f.get(8, "ops", "matmul", "fraction_of_ceiling", dtype="f16"), 0.8, 0.7),
        Verdict("matmul of bytes with constant weights laid out", "it, as a part of the ceiling of s8,", bytes_part,
                0.5, 0.35))),
    Stage(2, "sums", (Step("step", 60, language(LARGE, 8, 64)), Step("kernels", 60, profiled)), (
        Verdict("a step is its kernels", "a token, over the sum of its kernels by Nsight Compute,", between_part, 1.1,
                1.3),)),
    Stage(5, "beside llama.cpp", (
        Step("large", 80, language(LARGE, 512, 64)), Step("llama_large", 100, llama(LARGE, 512, 64)),
        Step("small", 50, language(SMALL, 512, 128)), Step("llama_small", 70, llama(SMALL, 512, 128))), (
        Verdict("decode beside llama.cpp", "a token's time over its, of 4.2 GB,", beside_llama("decode", "large"), 0.3,
                0.6),
        Verdict("prompts beside llama.cpp", "512 tokens' time over its, of 4.2 GB,", beside_llama("prefill", "large"),
                0.4, 1.0),
        Verdict("small models by rings beside llama.cpp", "a token's time over its,", beside_llama("decode", "small"),
                0.14, 0.28))),
)
NAMES = tuple(f"stage{number}" for number in range(len(STAGES)))


# --- Running -------------------------------------------------------------------------------------


def profiled_rows(text, nodes):
    """A row of the last step's kernels. ncu writes CSV among what the program prints, in nanoseconds."""
    times = []
    for line in text.splitlines():
        cells = line.strip().strip('"').split('","')
        if len(cells) > 3 and cells[-3] == "gpu__time_duration.sum":
            times.append(float(cells[-1].replace(",", "")) / 1e3)
    if len(times) < nodes:
        raise Missing(f"Nsight Compute names {len(times)} kernels, fewer than a step has")
    return [{"bench": "ncu", "case": "last_step", "count": nodes, "us": sum(times[-nodes:])}]


def step_program(command):
    return os.path.basename(command[command[0] == sys.executable])


def run_step(kit, number, step, seconds, before):
    """The rows of a step. `before`: those of the stage so far."""
    log = f"stage{number}_{step.name}"
    command = step.command(kit)
    rows_on_stdout = not os.path.basename(command[0]).startswith("bench_")
    rows = kit.at(log + ".json.part")
    status = kit.run(command if rows_on_stdout else command + [rows], seconds, log + ".txt",
                     output=rows if rows_on_stdout else None)
    if status == 124:
        raise Missing(f"took longer than {seconds:.0f} s; see {log}.txt")
    if status != 0:
        raise Missing(f"{step_program(command)} ended with {status}; see {log}.txt")
    with open(rows, encoding="utf-8") as file:
        text = file.read()
    os.unlink(rows)
    if os.path.basename(command[0]) == "ncu":
        nodes = [row["decode_nodes"] for row in before if row.get("case") == "decode"]
        if not nodes:
            raise Missing("no run says how many nodes a step has")
        return profiled_rows(text, nodes[0])
    try:
        return json.loads(text)
    except ValueError:
        raise Missing(f"wrote no rows; see {log}.txt") from None


def run_stage(kit, number):
    """All rows, those of steps that failed among them: {"stage", "step", "failed"}."""
    stage, rows = STAGES[number], []
    end = time.monotonic() + stage.minutes * 60
    for step in stage.steps:
        left = end - time.monotonic()
        try:
            if left <= 0:
                raise Missing(f"the stage's {stage.minutes} minutes are over")
            made = run_step(kit, number, step, min(step.seconds, left), rows)
        except Skipped as why:
            made = [{"skipped": str(why)}]
        except Missing as why:
            made = [{"failed": str(why)}]
        rows += [{"stage": number, "step": step.name, **row} for row in made]
    return rows


def failures(rows):
    return [f"{row['step']}: {row['failed']}" for row in rows if "failed" in row]


def verdict_lines(number, rows):
    """`rows`: of all stages."""
    return [verdict.line(Figures(rows)) for verdict in STAGES[number].verdicts]
