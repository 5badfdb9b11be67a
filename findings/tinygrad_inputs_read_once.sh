#!/usr/bin/env bash
# tinygrad 0.14.0 (PyPI tinygrad): OnnxRunner keeps what it read as a Python number when a model ran first, and has it
# for every later run: the bounds of Slice, K of TopK, the repeats of Tile and more (a table in its source). Where they
# are an input, or follow from one, the second call answers with those of the first, in the right dtype and without a
# warning. A comment in the source says that a number which changes will be wrong, and calls it rare. The model means
# them anew for each run, as ONNX Runtime 1.32.0 has them. No TinyJit is in use here. A window that moves over a signal
# stands still. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install tinygrad==0.14.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper, TensorProto as T
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

value, node = helper.make_tensor_value_info, helper.make_node
signal = np.arange(5, dtype=np.float32)
cases = {
    # A window of two that begins where the caller says.
    "Slice": ([node("Slice", ["x", "from", "to"], ["y"])], [value("from", T.INT64, [1]), value("to", T.INT64, [1])],
              [{"x": signal, "from": np.array([n]), "to": np.array([n + 2])} for n in range(3)]),
    # As many of the largest as elements are not 0 (none is below): the data says how many.
    "TopK": ([node("Sign", ["x"], ["sign"]), node("Cast", ["sign"], ["one"], to=T.INT64),
              node("ReduceSum", ["one"], ["k"], keepdims=1), node("TopK", ["x", "k"], ["y", "place"])], [],
             [{"x": np.array(x, np.float32)} for x in ([0, 9, 0, 8, 0], [1, 2, 3, 4, 0], [0, 0, 0, 0, 7])]),
}
for name, (nodes, more, calls) in cases.items():
    graph = helper.make_graph(nodes, "g", [value("x", T.FLOAT, [5])] + more, [value("y", T.FLOAT, ["n"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, sys.argv[1])
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    runner = OnnxRunner(sys.argv[1])
    for call in calls:
        given = {key: Tensor(number) for key, number in call.items()}
        fresh = OnnxRunner(sys.argv[1])
        print(name, "tinygrad", runner(given)["y"].tolist(), "a new runner", fresh(given)["y"].tolist(),
              "ONNX Runtime", session.run(None, call)[0].tolist())
P
export DEV=PYTHON XDG_CACHE_HOME="$folder/cache"
seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder/model.onnx")
printf '%s\n' "$seen"
expected=$(cat <<'X'
Slice tinygrad [0.0, 1.0] a new runner [0.0, 1.0] ONNX Runtime [0.0, 1.0]
Slice tinygrad [0.0, 1.0] a new runner [1.0, 2.0] ONNX Runtime [1.0, 2.0]
Slice tinygrad [0.0, 1.0] a new runner [2.0, 3.0] ONNX Runtime [2.0, 3.0]
TopK tinygrad [9.0, 8.0] a new runner [9.0, 8.0] ONNX Runtime [9.0, 8.0]
TopK tinygrad [4.0, 3.0] a new runner [4.0, 3.0, 2.0, 1.0] ONNX Runtime [4.0, 3.0, 2.0, 1.0]
TopK tinygrad [7.0, 0.0] a new runner [7.0] ONNX Runtime [7.0]
X
)
[ "$seen" = "$expected" ]
