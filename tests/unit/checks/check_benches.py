#!/usr/bin/env python3
"""The forms of the benches that launch kernels, in small: what they print and write, and how much they load.

  check_benches.py BENCH_LAUNCH BENCH_LOAD BENCH_KERNELS BENCH_EMULATOR BENCH_DEVICE KERNELS_FOLDER

No time is looked at.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench"))
from support.write_json import write_json  # noqa: E402
from titled_tests import equal, run_tests, test  # noqa: E402

LEAST_KERNELS = 40
CASES = ("add", "reduce_sum_rows", "matmul")
LOOKUPS = ("embedding", "gather", "gather_elements")
EMULATOR_CASES = {"gemv_f16", "sgemm_tiled", "sgemm_register", "rmsnorm", "softmax", "attention", "load_ptx", "calibration"}
CEILINGS = ("ceiling_copy", "ceiling_read", "ceiling_mma", "ceiling_fma")
DEVICE_KEYS = ["bench", "stage", "case", "count", "us", "us_each", "bytes", "gb_per_s", "operations", "tera_per_s",
               "result", "not_measured", "driver"]
KERNELS_KEYS = ["bench", "case", "shape", "dtype", "us", "bytes", "operations", "ceiling", "fraction_of_ceiling",
                "not_measured", "driver"]


class Benches:
    def __init__(self, launch, load, kernels, emulator, device, sources, folder):
        self.launch, self.load, self.kernels = launch, load, kernels
        self.emulator, self.device = emulator, device
        self.sources, self.folder = sources, folder

    def run(self, *command, status=0, **environment):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
        assert done.returncode == status, f"exit {done.returncode}, not {status}: {done.stderr}"
        return done

    def loaded(self, case, cache):
        return json.loads(self.run(self.load, "--measure", case, "--cache", cache).stdout)


@test("bench launch measures every graph in every mode, each over as many nodes as asked for")
def _(benches):
    path = os.path.join(benches.folder, "launch.json")
    benches.run(benches.launch, "--driver", "null", "--nodes", "10", "--no-totals", "--json", path)
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    graphs = ("chain", "fork_join", "layered", "transformer")
    modes = ("plain", "explicit", "captured", "patched", "recapture", "rebuild")
    cases = {(row["graph"], row["mode"]) for row in rows}
    assert {(graph, mode) for graph in graphs for mode in modes} <= cases, cases
    equal({row["nodes"] for row in rows if row["graph"] in graphs}, {10})


@test("40 kernels and more are loaded from the cache without opening NVRTC, and compiled where it is empty")
def _(benches):
    cache = os.path.join(benches.folder, "cache")
    cold = benches.loaded("cold_2", cache)
    equal(cold["nvrtc_opened"], True)
    warm = benches.loaded("warm", cache)
    equal((warm["bench"], warm["case"], warm["driver"]), ("load", "warm", "EMULATED"))
    equal(warm["nvrtc_opened"], False)
    assert warm["kernels"] >= LEAST_KERNELS, warm
    equal((warm["kernels"], warm["bytes"]), (cold["kernels"], cold["bytes"]))


@test("bench kernels writes a row for each case, with a reason where there is no fraction")
def _(benches):
    path = os.path.join(benches.folder, "kernels.json")
    shown = benches.run(benches.kernels, "--only", ",".join(CASES), "--json", path).stdout.splitlines()
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    equal([list(row) for row in rows], [KERNELS_KEYS] * len(rows))
    equal({row["case"] for row in rows}, set(CASES + CEILINGS))
    # The table: what it says of its times, a header, a line for each row.
    emulated = rows[0]["driver"] == "EMULATED"
    equal(shown[0].startswith("EMULATED: times say nothing of a GPU"), emulated)
    equal(shown[1].split(), [key for key in KERNELS_KEYS if key not in ("bench", "not_measured")])
    equal([line.split()[0] for line in shown[2:]], [row["case"] for row in rows])
    for row in rows:
        assert row["us"] > 0 and row["bytes"] > 0, row
        assert row["ceiling"] in ("copy", "read", "mma", "fma"), row
        equal(row["driver"] == "EMULATED", emulated)
        # A fraction, or the reason why there is none: never both, and no fraction without a GPU.
        equal(row["fraction_of_ceiling"] is None, bool(row["not_measured"]))
        assert not emulated or row["fraction_of_ceiling"] is None, row


@test("bytes and operations of a row are those of its op and shape")
def _(benches):
    path = os.path.join(benches.folder, "sizes.json")
    benches.run(benches.kernels, "--only", ",".join(CASES), "--json", path)
    width = {"f32": 4, "f16": 2, "bf16": 2}
    with open(path, encoding="utf-8") as file:
        rows = [row for row in json.load(file) if row["case"] in CASES]
    for row in rows:
        each = width[row["dtype"]]
        shapes = [[int(d) for d in shape.split("x")] for shape in row["shape"].split()]
        first = shapes[0]
        if row["case"] == "matmul":
            (m, k), (_, n) = shapes
            equal((row["bytes"], row["operations"]), ((m * k + k * n + m * n) * each, 2 * m * k * n))
        elif row["case"] == "add":
            equal((row["bytes"], row["operations"]), (3 * first[0] * first[1] * each, None))
        else:
            equal((row["bytes"], row["operations"]), ((first[0] * first[1] + first[0]) * each, None))


@test("weights in blocks have the bytes of their blocks")
def _(benches):
    path = os.path.join(benches.folder, "blocks.json")
    cases = {"matmul_q4_k_gemv": (256, 144), "matmul_q6_k_gemv_repacked": (256, 210), "matmul_q8_0_gemv": (32, 34),
             "matmul_q4_1_gemv": (32, 20)}
    benches.run(benches.kernels, "--only", ",".join(cases), "--json", path)
    with open(path, encoding="utf-8") as file:
        rows = [row for row in json.load(file) if row["case"] in cases]
    equal({row["case"] for row in rows}, set(cases))
    for row in rows:
        (rows_of_x, k), (columns, _) = [[int(d) for d in shape.split("x")] for shape in row["shape"].split()]
        elements, block = cases[row["case"]]
        each = {"f32": 4, "f16": 2, "bf16": 2}[row["dtype"]]
        equal(row["bytes"], columns * k // elements * block + (rows_of_x * k + rows_of_x * columns) * each)


@test("of a table that ids are looked up in the bytes are those of what they name")
def _(benches):
    path = os.path.join(benches.folder, "lookups.json")
    benches.run(benches.kernels, "--only", ",".join(LOOKUPS), "--json", path)
    with open(path, encoding="utf-8") as file:
        rows = [row for row in json.load(file) if row["case"] in LOOKUPS]
    equal({row["case"] for row in rows}, set(LOOKUPS))
    for row in rows:
        table, ids = [[int(d) for d in shape.split("x")] for shape in row["shape"].split()]
        each = {"f32": 4, "f16": 2}[row["dtype"]]
        if row["case"] == "gather_elements":  # ids of i32, as many results; along rows of 1024
            read = ids[0] * min(ids[1], table[1])
            equal(row["bytes"], read * each + ids[0] * ids[1] * (4 + each))
        else:
            id_bytes = {"embedding": 4, "gather": 8}[row["case"]]
            read = min(ids[0], table[0]) * table[1]
            equal(row["bytes"], read * each + ids[0] * (id_bytes + table[1] * each))


@test("parts of models run with full edges, too, and count each weight and result once")
def _(benches):
    path = os.path.join(benches.folder, "parts.json")
    for flags in ([], ["--full-edges"]):
        benches.run(benches.kernels, "--only", "decode_head_q6_k,lstm_256_1", *flags, "--json", path)
        with open(path, encoding="utf-8") as file:
            rows = {row["case"]: row for row in json.load(file) if row["case"] not in CEILINGS}
        equal(set(rows), {"decode_head_q6_k", "lstm_256_1"})
        x, norm, weights = [[int(d) for d in shape.split("x")] for shape in rows["decode_head_q6_k"]["shape"].split()]
        (columns, k), (one, _) = weights, x
        equal(rows["decode_head_q6_k"]["bytes"], columns * k // 256 * 210 + 2 * (one * k + norm[0] + one * columns))
        gates, recurrent = [[int(d) for d in shape.split("x")] for shape in rows["lstm_256_1"]["shape"].split()]
        steps, batch, directions, hidden = *gates[:3], recurrent[1]
        # gates, weights, all hidden states and the last hidden and cell
        words = gates[3] * directions * (steps * batch + hidden) + (steps + 2) * batch * directions * hidden
        equal(rows["lstm_256_1"]["bytes"], 4 * words)


@test("each kernel source has a case, or says why it has none: Without a bench")
def _(benches):
    built, without_case = set(), set()
    for path in glob.glob(os.path.join(benches.sources, "*", "*.cu")):
        built.add(os.path.basename(path))
        with open(path, encoding="ascii") as file:
            if re.search("^// Without a bench: .", file.read(), re.M):
                without_case.add(os.path.basename(path))
    assert len(built) > 20, built
    run = set()
    for line in benches.run(benches.kernels, "--sources").stdout.splitlines():
        case, sources = line.split(": ")
        run.update(sources.split())
        equal(sources == "generated", case == "fused_elementwise")
    equal(sorted(built - run), sorted(without_case))
    assert "generated" in run and run - {"generated"} <= built, run


@test("bench emulator launches its kernels as they are, and finds their results right")
def _(benches):
    path = os.path.join(benches.folder, "emulator.json")
    benches.run(benches.emulator, "--json", path)
    with open(path, encoding="utf-8") as file:
        equal({row["case"] for row in json.load(file)}, EMULATOR_CASES)


def device_rows(benches, *arguments, **environment):
    path = os.path.join(benches.folder, "device.json")
    shown = benches.run(benches.device, *arguments, "--json", path, CUGRT_DRIVER="emulated", **environment).stdout
    assert shown.startswith("EMULATED: "), shown
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    for row in rows:
        equal(list(row), DEVICE_KEYS)
        equal((row["driver"], row["us"], row["us_each"], row["gb_per_s"], row["tera_per_s"]), ("EMULATED", *[None] * 4))
        assert row["not_measured"], row
    return {row["case"]: row for row in rows}


@test("bench device runs every case on the emulated driver in orders that it draws, and has no times")
def _(benches):
    for order in ("1", "2"):
        rows = device_rows(benches, CUGRT_EMU_ORDER=order)
        equal({row["stage"] for row in rows.values()}, {0, 1, 2})
        equal({case: row["not_measured"] for case, row in rows.items() if row["result"] != "right"},
              {"wgmma_f16": "the emulated driver has no wgmma",
               "stream_4_slots_16x2": "a multiprocessor has 233472 bytes of shared memory"})
        equal(rows["chain_programmatic_ring"]["bytes"], 8 * 4 * (100 << 10))  # nodes, blocks, a ring
        # m16n8k16 in flight eight times, of 8 warps, 4 blocks and 3 steps
        equal(rows["mma_f16"]["operations"], 2 * 16 * 8 * 16 * 8 * 8 * 4 * 3)


@test("bench device says which cases a device or a driver does not have, and runs the others")
def _(benches):
    for environment, why in (({"CUGRT_EMU_DEVICE": "sm_87"}, "sm_87 has no programmatic edges"),
                             ({"CUGRT_EMU_DRIVER_VERSION": "12.2"},
                              "edges with data needs a driver of CUDA 12.3 or newer")):
        rows = device_rows(benches, "--stage", "1", **environment)
        equal({rows[case]["not_measured"] for case in rows if "programmatic" in case}, {why})
        equal(rows["chain_plain_ring"]["result"], "right")
    assert "no case is called ruad" in benches.run(benches.device, "--only", "read,ruad", status=1).stderr


@test("rows of the benches in Python are written whole, or what was there stays")
def _(benches):
    path = os.path.join(benches.folder, "rows.json")
    umask = os.umask(0o027)
    write_json(path, [{"us": 1}])
    os.umask(umask)
    equal(os.stat(path).st_mode & 0o777, 0o640)
    os.chmod(path, 0o604)
    before = sorted(os.listdir(benches.folder))
    try:
        write_json(path, [{"us": object()}])
        raise AssertionError("what JSON does not have was written")
    except TypeError:
        pass
    with open(path, encoding="utf-8") as file:
        equal(json.load(file), [{"us": 1}])
    write_json(path, [{"us": 2}])
    with open(path, encoding="utf-8") as file:
        equal(json.load(file), [{"us": 2}])
    equal((os.stat(path).st_mode & 0o777, sorted(os.listdir(benches.folder))), (0o604, before))


@test("bench kernels refuses a case that there is not")
def _(benches):
    assert "no case is called ad" in benches.run(benches.kernels, "--only", "add,ad", status=1).stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        return run_tests(Benches(*sys.argv[1:7], folder))


if __name__ == "__main__":
    sys.exit(main())
