#!/usr/bin/env bash
# ONNX 1.23.2 (PyPI onnx) with ONNX Runtime 1.32.0: Cast of a float to INT4 or UINT4. ONNX's page on these types ("4
# bit integer types", Cast) has the nearest whole number, of two the even one: of 0.5, 1.5, 2.5, 1.7 that is 0, 2, 2,
# 2. ONNX Runtime rounds what lies in the middle away from zero, ONNX's reference evaluator cuts the fraction off, and
# the QuantizeLinear of both with a scale of 1 is as the page says. Seen on 28 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper, numpy_helper, TensorProto
from onnx.reference import ReferenceEvaluator

x = np.array([0.5, 1.5, 2.5, 1.7], np.float32)
for name in ("INT4", "UINT4"):
    to = getattr(TensorProto, name)
    quantize = [helper.make_node("QuantizeLinear", ["x", "one"], ["c"], output_dtype=to)]
    cast = [helper.make_node("Cast", ["x"], ["c"], to=to)]
    for op, nodes in (("Cast", cast), ("QuantizeLinear", quantize)):
        graph = helper.make_graph(
            nodes + [helper.make_node("Cast", ["c"], ["y"], to=TensorProto.INT32)], "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.INT32, x.shape)],
            [numpy_helper.from_array(np.float32(1), "one")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        print(name, op, session.run(None, {"x": x})[0].tolist(), "reference",
              ReferenceEvaluator(model).run(None, {"x": x})[0].tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
INT4 Cast [1, 2, 3, 2] reference [0, 1, 2, 1]
INT4 QuantizeLinear [0, 2, 2, 2] reference [0, 2, 2, 2]
UINT4 Cast [1, 2, 3, 2] reference [0, 1, 2, 1]
UINT4 QuantizeLinear [0, 2, 2, 2] reference [0, 2, 2, 2]
X
)
[ "$seen" = "$expected" ]
