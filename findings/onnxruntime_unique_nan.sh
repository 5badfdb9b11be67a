#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime, CPU): Unique loses numbers where a nan is among the elements. Of nan, 1, nan, 1
# it returns nan alone; of 3, nan, 1, 2, 1 it returns the numbers and no nan. ONNX's text: the first output has all
# unique values of the input, sorted by default. So 1 belongs to the first result, and some nan to the second; how many
# nans do is open. Seen on 27 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper, numpy_helper, TensorProto


def run(op, inputs, opset=21, **attributes):
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for n, x in zip(names, inputs)], [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, inputs)))[0]


for given in ([np.nan, 1, np.nan, 1], [3, np.nan, 1, 2, 1], [1, 1, np.nan]):
    x = np.array(given, np.float32)
    numbers = np.unique(x[~np.isnan(x)]).tolist()
    print(given, "->", run("Unique", [x]).tolist(), "numbers in it:", numbers)
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
[nan, 1, nan, 1] -> [nan] numbers in it: [1.0]
[3, nan, 1, 2, 1] -> [1.0, 2.0, 3.0] numbers in it: [1.0, 2.0, 3.0]
[1, 1, nan] -> [1.0] numbers in it: [1.0]
E
)
[ "$seen" = "$expected" ]
