#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime): the sizes of a Resize with scales. ONNX has floor(size * scale), and scales
# are floats. ONNX Runtime multiplies in float, where the product can be rounded up to the next whole number: 10 by 0.7
# (as a float 0.699999988) is 6.99999988, as a float 7. onnx.shape_inference and ONNX's reference evaluator have 6, the
# floor of the exact product. So a runtime or a converter that plans from inferred shapes is one row short of ONNX
# Runtime, or of PyTorch, whose double scale of 0.7 gives 7 too. Of all sizes from 2 to 64 and scales in twentieths from
# 0.05 to 1.95 it is 71 of 2416 pairs. Seen on 1 December 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import fractions
import math

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper, shape_inference, TensorProto
from onnx.reference import ReferenceEvaluator

options = onnxruntime.SessionOptions()
options.log_severity_level = 4
count = 0
apart = []
for size in range(2, 65):
    for twentieths in range(1, 40):
        scale = np.float32(twentieths / 20)
        exact = math.floor(fractions.Fraction(float(scale)) * size)
        if exact == 0:
            continue
        x = np.zeros([1, 1, 1, size], np.float32)
        graph = helper.make_graph(
            [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")], "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.array([1, 1, 1, scale], np.float32), "scales")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        inferred = shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape.dim[3].dim_value
        reference = ReferenceEvaluator(model).run(None, {"x": x})[0].shape[3]
        assert inferred == reference == exact
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        got = session.run(None, {"x": x})[0].shape[3]
        count += 1
        if got != exact:
            apart.append((size, twentieths / 20, exact, got))
print(len(apart), "of", count, "differ; always one more:", all(got == exact + 1 for _, _, exact, got in apart))
for size, scale, exact, got in apart[:6]:
    print(size, "by", scale, "inferred", exact, "ONNX Runtime", got)
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
71 of 2416 differ; always one more: True
5 by 1.4 inferred 6 ONNX Runtime 7
5 by 1.8 inferred 8 ONNX Runtime 9
10 by 0.7 inferred 6 ONNX Runtime 7
10 by 0.9 inferred 8 ONNX Runtime 9
10 by 1.3 inferred 12 ONNX Runtime 13
10 by 1.4 inferred 13 ONNX Runtime 14
X
)
[ "$seen" = "$expected" ]
