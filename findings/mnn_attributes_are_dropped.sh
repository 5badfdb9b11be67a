#!/usr/bin/env bash
# MNN 3.6.1 (PyPI MNN, CPU): its converter of ONNX files drops attributes without a warning. Updates of one place by
# ScatterElements with reduction "max" and ScatterND with "mul" replace what is there; ArgMax with select_last_index 1
# gives the first; a Conv with auto_pad SAME_LOWER is padded behind, not in front. ONNX Runtime 1.32.0 runs the same files.
# Seen on 30 November 2026; fails when that changes.
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


places = np.array([1, 1, 3], np.int64)
compare("ScatterElements", [helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="max")],
        np.zeros(4, np.float32), i=places, u=np.array([5, 2, -3], np.float32))
compare("ScatterND", [helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="mul")],
        np.full(4, 2, np.float32), i=places[:2].reshape(2, 1), u=np.array([5, 3], np.float32))
compare("ArgMax", [helper.make_node("ArgMax", ["x"], ["y"], axis=1, select_last_index=1)],
        np.array([[1, 3, 3, 2], [4, 4, 0, 1]], np.float32), [2, 1], T.INT64)
compare("Conv", [helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_LOWER")],
        np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2), w=np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 2, 2))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder" 2>&1 >/dev/null | grep -E ' (MNN|ONNX Runtime) ')
printf '%s\n' "$seen"
expected=$(cat <<'X'
ScatterElements MNN 0 2 0 -3
ScatterElements ONNX Runtime 0 5 0 0
ScatterND MNN 2 3 2 2
ScatterND ONNX Runtime 2 30 2 2
ArgMax MNN 1 0
ArgMax ONNX Runtime 2 1
Conv MNN 20 10 8 3
Conv ONNX Runtime 0 4 8 20
X
)
[ "$seen" = "$expected" ]
