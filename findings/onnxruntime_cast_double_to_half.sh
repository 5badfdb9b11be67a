#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime, CPU): Cast of DOUBLE to FLOAT16 or BFLOAT16 rounds twice, to float first. A
# double just above the middle between two halves becomes the lower one where float makes it the middle itself, and
# 65519.999999, which is nearer to 65504 than to anything beyond, becomes infinity, which ONNX's text has for what is
# out of range. NumPy and ONNX's reference evaluator round to FLOAT16 once; of BFLOAT16 the rule gives 1.0078125. Seen
# on 28 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper, TensorProto


def cast(x, to):
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["c"], to=to),
         helper.make_node("Cast", ["c"], ["y"], to=TensorProto.DOUBLE)], "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, x.shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0].tolist()


x = np.array([1 + 2**-11 + 2**-40, 65519.999999])
print("FLOAT16", cast(x, TensorProto.FLOAT16), "NumPy", x.astype(np.float16).astype(np.float64).tolist())
print("BFLOAT16", cast(np.array([1 + 2**-8 + 2**-40]), TensorProto.BFLOAT16), "by the rule", [1 + 2**-7])
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
FLOAT16 [1.0, inf] NumPy [1.0009765625, 65504.0]
BFLOAT16 [1.0] by the rule [1.0078125]
X
)
[ "$seen" = "$expected" ]
