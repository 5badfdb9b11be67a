#!/usr/bin/env python3
"""Compiles packs with `cugrt compile` and runs them where there is no compiler and no cache.

  check_packs.py TOOL EMULATED_DRIVER
"""
import json
import os
import re
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from check_compare import field, node, value  # noqa: E402
from tensor_files import floats, read_npy, write_npy, write_weight  # noqa: E402

MODULE = """cugrt 1
func @main(%x: tensor<[n, 4], f32>, %w: tensor<[4], f32>) -> (tensor<[n, 4], f32>)
    attributes {num_inputs = 1, upper_bounds = {n = 8}} {
  %y = add(%x, %w)
  %z = relu(%y)
  return %z
}
"""

# A loop over a device scalar, which takes the library's own kernels, a constant, source inline.
LOOP = r'''cugrt 1
constant @by : tensor<[1], f32> = [4.0]
kernel @step {
  inline """extern "C" __global__ void step(const float *x, const float *by, float *y) {
    y[threadIdx.x] = x[threadIdx.x] + by[0];
  }"""
  entry "step"
  params (x: in f32, by: in f32, y: out f32)
  launch { grid (1, 1, 1) block (8, 1, 1) }
}
kernel @test {
  inline """extern "C" __global__ void test(const float *x, int *more) { *more = x[0] < 10.0f; }"""
  entry "test"
  params (x: in f32, more: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
func @main(%x: tensor<[2, 4], f32>) -> (tensor<[2, 4], f32>) {
  %by = constant @by
  %c = while (%v = %x) using (%by) {
    %more = alloc : tensor<[1], i32>
    launch @test(%v, %more)
    yield %more
  } do {
    %w = alloc : tensor<[2, 4], f32>
    launch @step(%v, %by, %w)
    yield %w
  }
  return %c
}
'''


def onnx_model():
    """y = x + w, of 2048 elements: a weight, no constant of the module's text."""
    weight = field(1, 2048) + field(2, 1) + field(8, "w") + field(9, floats([i / 64 for i in range(2048)]))
    graph = node("Add", ["x", "w"], "y") + field(5, weight) + value(11, "x", [2048]) + value(12, "y", [2048])
    return field(1, 8) + field(8, field(2, 17)) + field(7, graph)


ENTRY = r'''cugrt 1
kernel @some {
  inline """extern "C" __global__ void right(const float *x, float *y) { y[0] = x[0]; }"""
  entry "ENTRY"
  params (x: in f32, y: out f32PARAMS)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
func @main(%x: tensor<[4], f32>, %y: out tensor<[4], f32>) {
  launch @some(%x, %yCALL)
  return
}
'''


def main():
    tool, emulator = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        def at(*names):
            return os.path.join(work, *names)

        def run(*arguments, status=0, **environment):
            done = subprocess.run(
                [tool, *arguments], text=True, capture_output=True, timeout=300,
                env={**os.environ, "CUGRT_CACHE": at("cache"), "CUGRT_DRIVER": "emulated",
                     "CUGRT_EMULATOR": emulator, **environment})
            assert status in (None, done.returncode), (arguments, done.returncode, done.stderr)
            return done

        with open(at("m.cugrt"), "w", encoding="utf-8") as file:
            file.write(MODULE)
        weights, x = [0.5, -1.0, 2.0, -8.0], [float(i) - 3 for i in range(8)]
        write_weight(at("w.safetensors"), [len(weights)], floats(weights), "F32")
        write_npy(at("x.npy"), "<f4", (2, 4), floats(x))
        expected = [max(x[i] + weights[i % 4], 0.0) for i in range(8)]

        made = run("compile", "--arch", "sm_87,sm_90,compute_75", at("m.cugrt"), "-o",
                   at("m.pack"), "--weights", at("w.safetensors"))
        *progress, targets, kernels, function = made.stderr.splitlines()
        assert re.search(r" bytes for sm_87 sm_90 compute_75 \(PTX \d\.\d, for drivers of CUDA \d+\.\d and newer\)$",
                         targets), made.stderr
        assert kernels.startswith("kernels 1, codes 1, specialised for their sizes "), made.stderr
        assert kernels.endswith(" 1, at most 32 of one function"), made.stderr
        assert function.startswith("  1 of "), made.stderr
        done, total = progress[-1].split("]")[0].lstrip("[").split("/")
        assert done == total and int(total) >= 3 and "for sm_87" in progress[0], made.stderr
        assert made.stdout == "", made.stdout
        run("compile", "--arch", "compute_75", at("m.cugrt"), "-o", at("inside.pack"),
            "--weights", at("w.safetensors"), "--weights-inside")
        # A refused pack leaves nothing behind.
        bad = run("compile", "--arch", "sm_42", at("m.cugrt"), "-o", at("bad.pack"), status=1)
        assert "sm_42" in bad.stderr and "sm_87" in bad.stderr, bad.stderr
        assert not [name for name in os.listdir(work) if name.startswith("bad.pack")]

        # doctor says by what code a pack runs here, or why not. The emulated device is sm_90 and runs PTX alone.
        run("compile", "--arch", "sm_87", at("m.cugrt"), "-o", at("other.pack"))
        told = json.loads(run("doctor", "--json", at("m.pack")).stdout)["packs"]
        assert told == [{"path": at("m.pack"), "runs": True, "code": "its PTX", "remedy": ""}], told
        told = run("doctor", at("m.pack"), at("other.pack"), status=1).stdout.splitlines()
        assert told[-5:-2] == ["pack " + at("m.pack"), "  runs            its PTX", "pack " + at("other.pack")], told
        assert told[-2].split() == ["runs", "no"] and "--arch compute_90" in told[-1], told
        told = run("doctor", at("m.cugrt"), status=1).stdout
        assert "does not begin as a pack of cugrt" in told, told

        # Slips of the command line are named. A pack replaces files only.
        for words, why in ((["--arch", "sm_87,"], "'sm_87,' has an empty"),
                           (["--arch", ""], "has an empty"),
                           (["--arch", "sm_87", "--threads", "0"], "--threads"),
                           (["--arch", "sm_87", "-o", "-"], "-o -")):
            output = [] if "-o" in words else ["-o", at("bad.pack")]
            slip = run("compile", *words, *output, at("m.cugrt"), status=None)
            assert slip.returncode != 0 and why in slip.stderr, slip.stderr
        os.mkfifo(at("pipe"))
        pipe = run("compile", "--arch", "sm_87", at("m.cugrt"), "-o", at("pipe"), status=1)
        assert "not a regular file" in pipe.stderr, pipe.stderr
        assert stat.S_ISFIFO(os.lstat(at("pipe")).st_mode)
        os.mkdir(at("pipes"))
        os.mkfifo(at("pipes", "result0.npy"))
        pipe = run("run", at("m.cugrt"), "--weights", at("w.safetensors"), "--input",
                   "x=" + at("x.npy"), "--output", at("pipes"), status=1)
        assert "not a regular file" in pipe.stderr, pipe.stderr

        # What the code does not have is found when the pack is made, as PTX and as machine code.
        for entry, params, call, why in (
                ("wrong", "", "", "no kernel 'wrong'; it has right"),
                ("right", ", n: scalar i64", ", 5", "declared with 3 parameters, compiled with 2"),
                ("right", "", "", None)):
            with open(at("entry.cugrt"), "w", encoding="utf-8") as file:
                file.write(ENTRY.replace("ENTRY", entry).replace("PARAMS", params)
                           .replace("CALL", call))
            for architecture in ("compute_75", "sm_87", "sm_120"):
                made = run("compile", "--arch", architecture, at("entry.cugrt"), "-o",
                           at("entry.pack"), status=1 if why else 0)
                assert not why or (why in made.stderr and "@some" in made.stderr), made.stderr
                assert os.path.exists(at("entry.pack")) == (why is None)
        # An option that may be repeated takes one value each time: what follows it is the module.
        assert "kernel @" in run("opt", "--pass", "LegalizeOps", at("m.cugrt")).stdout
        json.loads(run("plan", "--set", "n=4", at("m.cugrt"), "--json").stdout)

        # No compiler can be found, and no cache has anything.
        bare = {"CUGRT_NVRTC": at("no", "libnvrtc.so"), "CUGRT_CACHE": at("empty")}
        inputs = ["--input", "x=" + at("x.npy"), "--output", at("out")]
        refused = run("run", at("m.cugrt"), "--weights", at("w.safetensors"), *inputs, status=1,
                      **bare)
        assert "libnvrtc" in refused.stderr, refused.stderr

        def check(pack, *more, want=expected):
            done = run("run", at(pack), *inputs, *more, **bare)
            assert "EMULATED" in done.stderr and "[" not in done.stderr, done.stderr
            result = read_npy(at("out", "result0.npy"))
            assert result == want, (result, want)
            os.remove(at("out", "result0.npy"))

        check("m.pack")
        check("m.pack", "--eager")
        report = json.loads(run("plan", at("m.pack"), "--json", **bare).stdout)
        assert [t["architecture"] for t in report["targets"]] == ["sm_87", "sm_90", "compute_75"]
        assert len(report["plans"]) == 1 and report["weights"]["file"] == "w.safetensors", report
        assert "target sm_87" in run("plan", at("m.pack"), **bare).stdout

        # In mixed precision; the numbers are exact in f16.
        narrow = ["--option", "mixed.dtype=f16", "--option", "mixed.allow=add,relu"]
        run("compile", "--arch", "compute_75", at("m.cugrt"), "-o", at("narrow.pack"), "--weights",
            at("w.safetensors"), "--weights-inside", *narrow)
        check("narrow.pack")
        run("bench", at("m.cugrt"), "--runs", "1", "--set", "n=2", *narrow)
        run("run", at("m.cugrt"), "--weights", at("w.safetensors"), *inputs, *narrow)
        assert read_npy(at("out", "result0.npy")) == expected
        plan = run("plan", at("m.cugrt"), *narrow).stdout
        # The weight is cast when a session is opened, all else in every run.
        assert "@fused_cast_add_relu_cast" in plan and "@main_transform_params" in plan, plan
        for option, why in (("mixed.allow=ad", "'ad', which is no op"), ("fuse.opps=true", "the options are"),
                            ("mixed.dtype", "name=value")):
            refused = run("plan", at("m.cugrt"), "--option", option, status=1)
            assert why in refused.stderr, refused.stderr
        planned = run("run", at("narrow.pack"), *inputs, *narrow, status=1, **bare)
        assert "planned already" in planned.stderr, planned.stderr

        # The weights' file is another one, then it is not there; inside, none is needed.
        write_weight(at("w.safetensors"), [4], floats([1.0] * 4), "F32")
        other = run("run", at("m.pack"), *inputs, status=1, **bare)
        assert "is not the weights file" in other.stderr, other.stderr
        os.remove(at("w.safetensors"))
        assert "w.safetensors" in run("run", at("m.pack"), *inputs, status=1, **bare).stderr
        check("inside.pack")

        # From -3 by fours to 10 or more. No source is in a pack.
        with open(at("loop.cugrt"), "w", encoding="utf-8") as file:
            file.write(LOOP)
        run("compile", "--arch", "compute_75,sm_90", at("loop.cugrt"), "-o", at("loop.pack"))
        for way in [[], ["--eager"]]:
            check("loop.pack", *way, want=[value + 16 for value in x])
        with open(at("loop.pack"), "rb") as file:
            assert b"__global__" not in file.read()

        # An ONNX file's weights go in, unless a file of them is given; a file beside the pack stays what it was.
        with open(at("o.onnx"), "wb") as file:
            file.write(onnx_model())
        run("import", at("o.onnx"), "-o", at("o.cugrt"))
        with open(at("o.pack.safetensors"), "w", encoding="utf-8") as file:
            file.write("the user's")
        made = {}
        for name, words in (("o.pack", []), ("given.pack", ["--weights", at("o.safetensors"), "--weights-inside"]),
                            ("beside.pack", ["--weights", at("o.safetensors")])):
            run("compile", "--arch", "compute_75", at("o.onnx"), "-o", at(name), *words)
            with open(at(name), "rb") as file:
                made[name] = file.read()
        with open(at("o.pack.safetensors"), encoding="utf-8") as file:
            assert file.read() == "the user's"
        assert made["o.pack"] == made["given.pack"], "weights of a file and of memory are not written alike"
        weights = json.loads(run("plan", at("beside.pack"), "--json", **bare).stdout)["weights"]
        assert weights["file"] == "o.safetensors", weights

        # Only machine code, which the emulated driver cannot run: what there is, is listed.
        run("compile", "--arch", "sm_87,sm_90", at("m.cugrt"), "-o", at("cubins.pack"))
        none = run("run", at("cubins.pack"), *inputs, status=1, **bare)
        assert "has code for sm_87, sm_90" in none.stderr, none.stderr

        with open(at("inside.pack"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        damaged = run("run", at("inside.pack"), *inputs, status=1, **bare)
        assert "(weights) at offset" in damaged.stderr, damaged.stderr
    print("packs run without a compiler, and wrong ones are refused")


if __name__ == "__main__":
    sys.exit(main())
