#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime, CPU): a Slice with a negative step and `ends` INT_MAX (of 32 or 64 bits) goes
# on to the front. ONNX's text: for negative stepping an end is clamped to [-1, dim - 1], so INT_MAX is the last
# element, and nothing lies between it and the start; it names INT_MIN for going to the front. Any other large end
# (2147483646) is clamped as the text says and yields nothing. Seen on 27 November 2026; fails when that changes.
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


x = np.arange(4, dtype=np.float32)
for end in (2**31 - 1, 2**63 - 1, 2**31 - 2, -2**31):
    ends = np.array([end], np.int64)
    print(end, run("Slice", [x, np.array([-1]), ends, np.array([0]), np.array([-1])]).tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
2147483647 [3.0, 2.0, 1.0, 0.0]
9223372036854775807 [3.0, 2.0, 1.0, 0.0]
2147483646 []
-2147483648 [3.0, 2.0, 1.0, 0.0]
E
)
[ "$seen" = "$expected" ]
