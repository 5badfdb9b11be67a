#!/usr/bin/env python3
"""`cugrt bench` and `cugrt trace` on a small model and the emulated driver: what they print and write.

  check_measuring.py TOOL
"""
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from check_voice import counting_model  # noqa: E402
from tensor_files import write_npy  # noqa: E402
from titled_tests import equal, run_tests, test  # noqa: E402

# Three launches, one after another, that are not fused: a product and two softmaxes.
MODULE = """cugrt 1

func @main(%x: tensor<[n, 16], f32>, %w: tensor<[16, 4], f32>) -> (tensor<[n, 4], f32>)
    attributes {num_inputs = 1, lower_bounds = {n = 1}, upper_bounds = {n = 64}} {
  %h = matmul(%x, %w)
  %r = softmax(%h) {axis = 0}
  %p = softmax(%r) {axis = -1}
  return %p
}
"""


class Tool:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder
        self.environment = {**os.environ, "CUGRT_DRIVER": "emulated"}

    def run(self, *arguments, status=0):
        done = subprocess.run([self.path, *arguments], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, check=False)
        assert done.returncode == status, f"exit {done.returncode}, not {status}: {done.stderr}"
        return done

    def rows(self, *arguments):
        return json.loads(self.run("bench", "model.cugrt", "--runs", "5", "--json", *arguments).stdout)

    def events(self, *arguments):
        self.run("trace", "model.cugrt", "-o", "trace.json", *arguments)
        with open(os.path.join(self.folder, "trace.json"), encoding="utf-8") as file:
            trace = json.load(file)
        assert trace["otherData"] == {"driver": "EMULATED", "launches_lost": 0}, trace["otherData"]
        return trace["traceEvents"]


def within(inner, outer):
    slack = 0.0011  # microseconds are written with three digits after the point
    return (inner["ts"] >= outer["ts"] - slack and
            inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + slack)


@test("bench prints a line for each value of a symbol, and that nothing about a GPU follows")
def _(tool):
    lines = tool.run("bench", "model.cugrt", "--set", "n=1,8,32", "--runs", "5").stdout.splitlines()
    assert lines[0].startswith("EMULATED, nothing about a GPU follows"), lines[0]
    equal([line.split()[0] for line in lines[2:]], ["n=1", "n=8", "n=32"])


@test("bench's rows have the graph's size, host times, and no device times without a device")
def _(tool):
    rows = tool.rows("--set", "n=1,8,32")
    equal([row["case"] for row in rows], ["n=1", "n=8", "n=32"])
    for row in rows:
        equal((row["driver"], row["first"], row["nodes"], row["edges"], row["runs"]), ("EMULATED", "built", 3, 2, 5))
        for way in ("graph", "eager"):
            assert 0 < row[f"{way}_us_q1"] <= row[f"{way}_us"] <= row[f"{way}_us_q3"], row
            equal(row[f"{way}_device_us"], None)
        assert row["not_measured"], row


@test("bench tells a first run that patched an instance from one that built one")
def _(tool):
    # A class may have four instances before a value must be used twice to earn one.
    rows = tool.rows("--set", "n=9,10,11,12,13,14") # all of one form of the product
    equal([row["first"] for row in rows], ["built"] * 4 + ["patched"] * 2)


@test("bench takes all combinations of several symbols, and refuses a value without a symbol")
def _(tool):
    with open(os.path.join(tool.folder, "two.cugrt"), "w", encoding="utf-8") as file:
        file.write(MODULE.replace("[n, 16]", "[n, m, 16]").replace("[n, 4]", "[n, m, 4]").replace(
            "{n = 1}", "{n = 1, m = 1}").replace("{n = 64}", "{n = 64, m = 64}"))
    done = tool.run("bench", "two.cugrt", "--json", "--runs", "1", "--set", "n=1,2", "--set", "m=3,4")
    equal([row["case"] for row in json.loads(done.stdout)], ["n=1, m=3", "n=1, m=4", "n=2, m=3", "n=2, m=4"])
    done = tool.run("bench", "model.cugrt", "--set", "5", status=1)
    assert "--set takes SYMBOL=N" in done.stderr, done.stderr


# A symbol that is a parameter itself, and another that follows from it.
COUNTED = """cugrt 1

func @main(%k: int<n>, %twice: int<2*n>, %x: tensor<[n, 4], f32>) -> (tensor<[n, 4], f32>)
    attributes {upper_bounds = {n = 64}} {
  %p = softmax(%x) {axis = -1}
  return %p
}
"""


def write(tool, name, text):
    with open(os.path.join(tool.folder, name), "w", encoding="utf-8") as file:
        file.write(text)


@test("bench, trace and run give an integer parameter the value that its symbols have")
def _(tool):
    write(tool, "counted.cugrt", COUNTED)
    done = tool.run("bench", "counted.cugrt", "--json", "--runs", "1", "--set", "n=1,8")
    equal([row["case"] for row in json.loads(done.stdout)], ["n=1", "n=8"])
    done = tool.run("trace", "counted.cugrt", "--set", "n=5", "--repeat", "1", "-o", "-")
    assert '"n=5"' in done.stdout, done.stdout
    done = tool.run("run", "counted.cugrt", "--set", "n=3", "--input", "x=random")
    assert "[3, 4]" in done.stdout, done.stdout
    done = tool.run("run", "counted.cugrt", "--input", "k=6", "--input", "x=random")
    assert "[6, 4]" in done.stdout, done.stdout
    done = tool.run("bench", "counted.cugrt", "--runs", "1", status=1)
    for part in ("'k'", "int<n>", "--input k=NUMBER", "--set"):
        assert part in done.stderr, done.stderr


@test("a symbol that the function does not have, and an input that is no file, are errors that say so")
def _(tool):
    write(tool, "counted.cugrt", COUNTED)
    done = tool.run("run", "counted.cugrt", "--set", "q=3", "--input", "k=6", "--input", "x=random", status=1)
    assert "function 'main' has no symbol 'q'" in done.stderr, done.stderr
    done = tool.run("run", "counted.cugrt", "--input", "k=6", "--input", "x=/", status=1)
    assert "cannot read '/': not a regular file" in done.stderr, done.stderr
    done = tool.run("run", "counted.cugrt", "--input", "k=6", "--input", "x=none.npy", status=1)
    assert "cannot read 'none.npy': No such file" in done.stderr, done.stderr
    done = tool.run("run", "counted.cugrt", "--input", "k=6", "--input", "x=random", "--output", "counted.cugrt/out",
                    status=1)
    assert "error: cannot make the folder 'counted.cugrt/out': Not a directory" in done.stderr, done.stderr


SCALED = """cugrt 1

func @main(%x: tensor<[4], f32>, %k: int<k>, %f: float, %s: shape<[a, b]>) -> (tensor<[4], f32>) {
  %r = relu(%x)
  return %r
}
"""


@test("a number that its type does not hold is an error that names the input, the number and the range")
def _(tool):
    write(tool, "scaled.cugrt", SCALED)
    good = {"k": str(2 ** 63 - 1), "f": "1e308", "s": "3,4"}
    whole, real = f"i64: from {-2 ** 63} to {2 ** 63 - 1}", "f64: from -1.7976931348623157e+308 to 1.7976931348623157e+308"
    for name, text, number, held in (("k", str(2 ** 63), str(2 ** 63), whole), ("k", str(-2 ** 63 - 1), str(-2 ** 63 - 1), whole),
                                     ("s", f"3,{10 ** 30}", str(10 ** 30), whole), ("f", "1e309", "1e309", real)):
        inputs = [part for one, value in {**good, name: text}.items() for part in ("--input", f"{one}={value}")]
        done = tool.run("run", "scaled.cugrt", "--input", "x=random", *inputs, status=1)
        assert f"--input {name}: {number} does not fit its type, {held}\n" in done.stderr, done.stderr
    tool.run("run", "scaled.cugrt", "--input", "x=random", *(part for one, value in good.items() for part in ("--input", f"{one}={value}")))


def limit_files():
    """Of the process that is about to be: no file of more than 16 bytes, and a write of more is an error like others."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))


@test("what cannot be written whole leaves what was there, and nothing beside it")
def _(tool):
    """By a limit of the files' size, as a full disk is one."""
    write(tool, "plain.cugrt", "cugrt 1\nfunc @main(%x: tensor<[8], f32>) -> (tensor<[8], f32>) {\n  %r = relu(%x)\n  return %r\n}\n")
    with open(os.path.join(tool.folder, "counting.onnx"), "wb") as file:
        file.write(counting_model())
    places = {"trace": "kept.json", "import": "kept.cugrt", "run": "result0.npy", "compile": "kept.pack"}
    commands = {"trace": ("plain.cugrt", "-o", places["trace"]), "import": ("counting.onnx", "-o", places["import"]),
                "run": ("plain.cugrt", "--input", "x=random", "--output", "."),
                "compile": ("plain.cugrt", "--arch", "compute_75", "-o", places["compile"])}
    for command, arguments in commands.items():
        path = os.path.join(tool.folder, places[command])
        write(tool, places[command], "before")
        os.chmod(path, 0o604)
        before = sorted(os.listdir(tool.folder))
        done = subprocess.run([tool.path, command, *arguments], cwd=tool.folder, env={**tool.environment, "CUGRT_CACHE": "off"},
                              capture_output=True, text=True, check=False, preexec_fn=limit_files)
        assert done.returncode == 1 and "cannot write '" in done.stderr and places[command] in done.stderr, (command, done.stderr)
        with open(path, encoding="utf-8") as file:
            equal(file.read(), "before")
        equal(sorted(os.listdir(tool.folder)), before)
        tool.run(command, *arguments)
        equal(os.stat(path).st_mode & 0o777, 0o604)
        assert os.path.getsize(path) > 16
        os.remove(path)


@test("an input that contradicts --set is an error that names both")
def _(tool):
    write(tool, "counted.cugrt", COUNTED)
    done = tool.run("bench", "counted.cugrt", "--runs", "1", "--input", "k=7", "--set", "n=1,8", status=1)
    for part in ("--set n=1", "--input k", "7"):
        assert part in done.stderr, done.stderr
    equal(done.stdout, "")
    done = tool.run("bench", "counted.cugrt", "--runs", "1", "--input", "twice=7", "--set", "n=8", status=1)
    for part in ("--input twice=7", "int<2*n>", "16"):
        assert part in done.stderr, done.stderr
    tool.run("bench", "counted.cugrt", "--runs", "1", "--input", "k=7", "--input", "twice=14", "--set", "n=7")
    write_npy(os.path.join(tool.folder, "x.npy"), "<f4", (5, 16), bytes(4 * 5 * 16))
    done = tool.run("bench", "model.cugrt", "--runs", "1", "--input", "x=x.npy", "--set", "n=1,8", status=1)
    for part in ("--set n=1", "--input x", "5"):
        assert part in done.stderr, done.stderr


@test("a symbol that is given twice, a value that is none and a time that is none are errors that name them")
def _(tool):
    for command in (("bench", "--runs", "1"), ("trace", "-o", "-"), ("run", "--input", "x=random"), ("plan",)):
        def refused(*arguments, status=1):
            return tool.run(command[0], "model.cugrt", *command[1:], *arguments, status=status).stderr
        for twice in (("--set", "n=1", "--set", "n=2"), ("--set", "n=1,n=2")):
            assert "symbol 'n' twice" in refused(*twice), (command, twice)
        for text in ("n=1,,2", "n=", "n=1,", "=3", "n=x"):
            assert f"not '{text}'" in refused("--set", text), (command, text)
    for text in ("nan", "-nan", "inf", "-inf", "-1", "0"):
        done = tool.run("bench", "model.cugrt", "--set", "n=1", f"--seconds={text}", status=2)
        assert "--seconds" in done.stderr and text in done.stderr, done.stderr
    write(tool, "counted.cugrt", COUNTED)
    done = tool.run("run", "counted.cugrt", "--input", "x=random", "--set", "n=2", "--prepare", "n=1,,2", status=1)
    assert "--prepare takes" in done.stderr and "'n=1,,2'" in done.stderr, done.stderr
    done = tool.run("bench", "model.cugrt", "--deadline", "1000", "--load", "model.cugrt", "--load-set", "n=x", status=1)
    equal(done.stderr,
          "cugrt: error: --load-set takes SYMBOL=N or SYMBOL=N,N,..., as in --load-set n=1,8, not 'n=x'\n")


@test("trace has the steps of opening, every run, and each launch within its run")
def _(tool):
    events = tool.events("--set", "n=2,5", "--repeat", "3")
    spans = [event for event in events if event["ph"] == "X"]
    equal([span["name"] for span in spans if span["cat"] == "open"],
          ["load module", "open driver", "plan and compile", "open session"])
    runs = [span for span in spans if span["name"] == "run main"]
    equal([span["args"]["symbols"] for span in runs], ["n=2"] * 3 + ["n=5"] * 3)
    regions = [span for span in spans if span["cat"] == "region"]
    equal([span["args"]["kind"] for span in regions], ["built", "hit", "hit"] * 2)
    equal([span["args"]["key"] for span in regions], ["n=2"] * 3 + ["n=5"] * 3)
    equal({span["args"]["nodes"] for span in regions}, {3})
    for region, run in zip(regions, runs):
        assert within(region, run), (region, run)
    parts = [span for span in spans if span["cat"] == "part"]
    equal(sum(span["name"] == "build" for span in parts), 2)
    equal(sum(span["name"] == "launch" for span in parts), 6)
    for part in parts:
        assert any(within(part, region) for region in regions), part


@test("trace of single launches has each step on the host and, by events, on the device")
def _(tool):
    events = tool.events("--set", "n=2", "--repeat", "2", "--eager")
    steps = [event for event in events if event.get("cat") == "step"]
    device = [event for event in events if event.get("cat") == "device"]
    equal(len(steps), 6)
    equal([event["name"] for event in device], [event["name"] for event in steps])
    equal({event["args"]["kind"] for event in events if event.get("cat") == "region"}, {"eager"})
    for before, after in zip(device, device[1:]):
        assert before["ts"] + before["dur"] <= after["ts"] + 0.0011, (before, after)
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert "device, EMULATED" in names, names


@test("trace names the value that was padded to a bucket")
def _(tool):
    with open(os.path.join(tool.folder, "model.cugrt"), encoding="utf-8") as file:
        text = file.read()
    with open(os.path.join(tool.folder, "buckets.cugrt"), "w", encoding="utf-8") as file:
        # A softmax along n would count what is padded.
        text = text.replace("{axis = 0}", "{axis = -1}")
        file.write(text.replace("num_inputs = 1", "num_inputs = 1, buckets = {n = [8, 64]}"))
    done = tool.run("trace", "buckets.cugrt", "--set", "n=5,8", "--repeat", "1", "-o", "-")
    regions = [event for event in json.loads(done.stdout)["traceEvents"] if event.get("cat") == "region"]
    equal([region["args"]["key"] for region in regions], ["n_bucket=8 (padded from 5)", "n_bucket=8"])


@test("every command that plans takes the planning options")
def _(tool):
    with open(os.path.join(tool.folder, "wide.cugrt"), "w", encoding="utf-8") as file:
        file.write("""cugrt 1

func @main(%x: tensor<[8], f32>, %go: tensor<[1], i32>) -> (tensor<[8], f32>, tensor<[8], f32>, tensor<[8], f32>) {
  %a = relu(%x)
  %b = exp(%x)
  %c = if %go using (%x) -> (tensor<[8], f32>) {
    %n = neg(%x)
    yield %n
  } else {
    yield %x
  }
  return %a, %b, %c
}
""")

    def regions(*options):
        plan = json.loads(tool.run("plan", "wide.cugrt", "--json", *options).stdout)
        return plan["functions"][0]["regions"]

    # Of the branch's first body; and two kernels and the branch, one after another.
    equal([region["edges"] for region in regions()], [[[3, 4]]])
    equal(regions("--max-lanes", "1")[0]["edges"], [[0, 1], [1, 2], [3, 4]])
    assert len(regions("--host-control")) > 1
    equal(regions("--full-edges")[0]["nodes"], regions()[0]["nodes"])
    for command in (("run", "--input", "go=random", "--input", "x=random"), ("bench", "--runs", "1"),
                    ("trace", "--repeat", "1", "-o", "-")):
        tool.run(command[0], "wide.cugrt", *command[1:], "--max-lanes", "2", "--host-control", "--full-edges")
    done = tool.run("run", "wide.cugrt", "--max-lanes", "33", status=2)
    assert "--max-lanes" in done.stderr, done.stderr


@test("trace writes to standard output when asked, and tells a file that it cannot write")
def _(tool):
    done = tool.run("trace", "model.cugrt", "--set", "n=1", "--repeat", "1", "-o", "-")
    assert json.loads(done.stdout)["traceEvents"]
    done = tool.run("trace", "model.cugrt", "--set", "n=1", "-o", "no/such/folder/trace.json", status=1)
    assert "cannot write 'no/such/folder/trace.json': " in done.stderr, done.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "model.cugrt"), "w", encoding="utf-8") as file:
            file.write(MODULE)
        return run_tests(Tool(sys.argv[1], folder))


if __name__ == "__main__":
    sys.exit(main())
