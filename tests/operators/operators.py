#!/usr/bin/env python3
"""The one-operator models of ONNX's own tests as an oracle for ops and their kernels.

  operators.py --runner PROGRAM [--show REASON]

Reads the models of Debian's libonnx-testdata, writes each as a function of our ops (onnx_ops.py), runs
all of them in one process on the emulated device and compares with the outputs that come with the
models. A model is a test when all its operators have a translation; why others have none is counted.
Exits with 77 where the models are not installed; `./dev test` installs them.
"""
import argparse
import collections
import glob
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from onnx_file import Model, Tensor, Unreadable  # noqa: E402
from onnx_ops import NO_OP, Call, Unsupported, Value, Writer, translate  # noqa: E402

MODELS = "/usr/share/libonnx-testdata/data/node"
LEAST_PASSED = 564  # a translation that stops working would otherwise go unnoticed
TIMEOUT_S = 240
# Largest errors, relative and absolute: of the models' arithmetic in f32, and of results' dtypes.
TOLERANCE = {"f32": (1e-4, 1e-5), "f64": (1e-4, 1e-5), "f16": (2e-3, 1e-3), "bf16": (1e-2, 1e-2)}


class Case:
    def __init__(self, folder):
        self.name = os.path.basename(folder)[len("test_"):]
        with open(os.path.join(folder, "model.onnx"), "rb") as file:
            self.model = Model(file.read())
        self.types = sorted({node.type for node in self.model.nodes})
        data = os.path.join(folder, "test_data_set_0")
        self.inputs = self.tensors(data, "input", self.model.input_types)
        self.wanted = self.tensors(data, "output", self.model.output_types)

    @staticmethod
    def tensors(folder, kind, types):
        paths = glob.glob(os.path.join(folder, f"{kind}_*.pb"))
        paths.sort(key=lambda path: int(path.rsplit("_", 1)[1][:-3]))
        tensors = []
        for path in paths:
            with open(path, "rb") as file:
                tensors.append(Tensor(file.read()))
        return [tensor.as_bf16() if dtype == "bf16" else tensor
                for tensor, dtype in zip(tensors, types)]

    def write(self):
        """The function's text and inputs."""
        model, writer = self.model, Writer()
        env = dict(model.constants)
        env.update(zip(model.inputs, self.inputs))
        for node in model.nodes:
            if node.type == "Constant":
                env[node.outputs[0]] = node.attributes.get("value") or self.constant(node)
                continue
            results = translate(Call(writer, node, env, model.opset))
            env.update(zip(node.outputs, results))
        results = [env[name] for name in model.outputs]
        if any(not isinstance(result, Value) for result in results):
            raise Unsupported("results that are known without running")
        return writer.text(results), writer.inputs

    @staticmethod
    def constant(node):
        for name, dtype in (("value_float", "f32"), ("value_int", "i64")):
            if name in node.attributes:
                return Tensor(dims=[], dtype=dtype, values=[node.attributes[name]])
        for name, dtype in (("value_floats", "f32"), ("value_ints", "i64")):
            if name in node.attributes:
                values = node.attributes[name]
                return Tensor(dims=[len(values)], dtype=dtype, values=values)
        raise Unsupported("constants of other kinds")


def numbers(values):
    return f"{len(values)} " + " ".join(repr(float(v)) if not isinstance(v, int) else str(int(v))
                                        for v in values)


def request(name, text, inputs):
    lines = [f"case {name}", f"text {len(text.encode())}\n{text}"]
    for tensor in inputs:
        lines.append(f"input {numbers(tensor.dims)} {numbers(tensor.values)}")
    return "\n".join(lines + ["run", ""])


def answers(output):
    """{name: error message or [(dims, values)]}"""
    found, name = {}, None
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        if word == "case":
            name = rest
            found[name] = []
        elif word == "error":
            found[name] = rest
        elif word == "result":
            words = rest.split()
            rank = int(words[0])
            found[name].append(([int(d) for d in words[1:1 + rank]],
                                [float(v) for v in words[2 + rank:]]))
    return found


def difference(got, wanted):
    """What differs, or None."""
    if isinstance(got, str):
        return got
    if len(got) != len(wanted):
        return f"{len(got)} results, not {len(wanted)}"
    for i, ((dims, values), tensor) in enumerate(zip(got, wanted)):
        if dims != tensor.dims:
            return f"result {i} has dimensions {dims}, not {tensor.dims}"
        relative, absolute = TOLERANCE.get(tensor.dtype, (0, 0))
        for at, (p, q) in enumerate(zip(values, map(float, tensor.values))):
            same = math.isnan(p) if math.isnan(q) else p == q
            if not same and not abs(p - q) <= absolute + relative * abs(q):
                return f"result {i}, element {at} is {p}, not {q}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runner", required=True)
    parser.add_argument("--show", help="lists the models that are left out for this reason")
    options, _ = parser.parse_known_args()
    folders = sorted(glob.glob(os.path.join(MODELS, "test_*")))
    if not folders:
        print(f"there are no models in {MODELS}: Debian's libonnx-testdata has them")
        return 77
    left_out, cases, requests = collections.defaultdict(list), {}, []
    for folder in folders:
        name = os.path.basename(folder)[len("test_"):]
        try:
            case = Case(folder)
            text, inputs = case.write()
        except (Unsupported, Unreadable) as why:
            reason = str(why)
            left_out[reason].append(name)
            continue
        cases[case.name] = (case, text)
        requests.append(request(case.name, text, inputs))
    done = subprocess.run([options.runner], input="".join(requests), stdout=subprocess.PIPE,
                          text=True, timeout=TIMEOUT_S, check=False)
    found = answers(done.stdout)
    failed = []
    for name, (case, text) in cases.items():
        what = difference(found.get(name, "it did not run"), case.wanted)
        if what:
            failed.append((name, what, text))
    passed = len(cases) - len(failed)
    for name, what, text in failed:
        print(f"failed: {name}")
        for line in [what] + text.splitlines():
            print(f"  {line}")
    if passed < LEAST_PASSED:
        failed.append(("as many models as before", "", ""))
        print("failed: as many models pass as before")
        print(f"  {passed}, not {LEAST_PASSED}")
    print()
    print(f"{passed} of {len(folders)} models pass; left out, by reason:")
    for reason, names in sorted(left_out.items(), key=lambda item: -len(item[1])):
        if not reason.startswith(NO_OP):
            print(f"  {len(names):4} {reason}")
    missing = {reason[len(NO_OP):]: len(names) for reason, names in left_out.items()
               if reason.startswith(NO_OP)}
    print(f"  {sum(missing.values()):4} no op of ours: " + ", ".join(
        f"{name} {count}" for name, count in sorted(missing.items(), key=lambda i: (-i[1], i[0]))))
    if options.show:
        print("  " + " ".join(left_out[options.show]))
    print(f"{passed} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
