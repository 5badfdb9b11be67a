#!/usr/bin/env bash
# MNN 3.6.1 (PyPI MNN, CPU): of ONNX files that its converter takes without a warning, Round takes halves away from zero
# (ONNX: to the even number), Mod of floats with fmod 1 has the sign of the divisor (ONNX: of the dividend), a Cast to
# bool keeps the whole part of a number, so that 0.5 is false and 2 stays 2 (ONNX: true where it is not 0), and Shrink
# gives 0 for all that lies below -lambd. Seen on 30 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install MNN==3.6.1 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cat >"$folder/seen.py" <<'P'
import os
import subprocess
import sys

import MNN.expr
import MNN.nn
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, TensorProto as T

KINDS = {"float32": (T.FLOAT, MNN.expr.float), "int32": (T.INT32, MNN.expr.int)}
FOLDER = sys.argv[1]


def compare(name, nodes, x, y_shape=None, y_kind=T.FLOAT, **constants):
    """Runs a model of x in both runtimes and prints the results."""
    kind, own = KINDS[str(x.dtype)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", y_kind, x.shape if y_shape is None else y_shape)],
        [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, f"{FOLDER}/m.onnx")
    right = onnxruntime.InferenceSession(f"{FOLDER}/m.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    subprocess.run([os.path.join(os.path.dirname(sys.executable), "mnnconvert"), "-f", "ONNX", "--bizCode", "x", "--modelFile",
                    f"{FOLDER}/m.onnx", "--MNNModel", f"{FOLDER}/m.mnn"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    module = MNN.nn.load_module_from_file(f"{FOLDER}/m.mnn", ["x"], ["y"])
    given = MNN.expr.const(x.flatten().tolist(), list(x.shape), MNN.expr.NCHW, own)
    made = np.array(module.forward([given])[0].read())
    for who, values in (("MNN", made), ("ONNX Runtime", right)):
        print(name, who, *(f"{float(v):g}" for v in np.ravel(values)[:right.size]), file=sys.stderr)


x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.4, -3.6], np.float32)
compare("Round", [helper.make_node("Round", ["x"], ["y"])], x)
compare("Mod", [helper.make_node("Mod", ["x", "d"], ["y"], fmod=1)], np.array([-7.5, 7.5, -7.5, 7.5], np.float32),
        d=np.array([3, 3, -3, -3], np.float32))
compare("Cast", [helper.make_node("Cast", ["x"], ["is"], to=T.BOOL), helper.make_node("Cast", ["is"], ["y"], to=T.FLOAT)],
        np.array([0.5, 0, -0.2, 2], np.float32))
compare("Shrink", [helper.make_node("Shrink", ["x"], ["y"], lambd=1.5, bias=0.5)], x)
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder" 2>&1 >/dev/null | grep -E ' (MNN|ONNX Runtime) ')
printf '%s\n' "$seen"
expected=$(cat <<'X'
Round MNN -3 -2 -1 1 2 3 3 -4
Round ONNX Runtime -2 -2 -0 0 2 2 3 -4
Mod MNN 1.5 1.5 -1.5 -1.5
Mod ONNX Runtime -1.5 1.5 -1.5 1.5
Cast MNN 0 0 0 2
Cast ONNX Runtime 1 0 1 1
Shrink MNN 0 0 0 0 0 2 2.9 0
Shrink ONNX Runtime -2 0 0 0 0 2 2.9 -3.1
X
)
[ "$seen" = "$expected" ]
