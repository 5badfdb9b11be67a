#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime, CPU): Range of float32 adds delta to the last value again and again, so that
# its error grows with the length. ONNX's text gives the loop: output[i] = start + (i * delta). Of 0 to 1000 by 0.1 the
# last value is 999.80292, nearly a whole step of 0.1 below 9999 times the float nearest to 0.1 (999.90002). NumPy's
# arange has 999.9. Positions made so drift against those that a model makes by multiplication. Seen on 27 November
# 2026; fails when that changes.
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


y = run("Range", [np.array(v, np.float32) for v in (0, 1000, 0.1)])
by_text = np.float32(0) + np.arange(len(y), dtype=np.float32) * np.float32(0.1)
print(len(y), "values, last", f"{y[-1]:.5f}", "by the text", f"{by_text[-1]:.5f}",
      "largest difference", f"{np.abs(y - by_text).max():.5f}")
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
10000 values, last 999.80292 by the text 999.90002 largest difference 0.09711
E
)
[ "$seen" = "$expected" ]
