#!/usr/bin/env bash
# ONNX 1.23.2 (PyPI onnx) with ONNX Runtime 1.32.0: pooling with ceil_mode=1 whose last window would start in the
# padding on the right. Opset 22's text leaves such a window out, and all agree. The text of MaxPool and AveragePool up
# to opset 21 has the formula alone, which counts it, and so onnx.shape_inference does; ONNX Runtime and ONNX's own
# reference evaluator leave it out with every opset. So 5 numbers with a kernel and strides of 2 and pads of 1 are 4
# inferred and 3 computed, and what is built upon inferred shapes (buffers, folded Shape nodes) is wrong. A declared
# output of the computed shape is refused by the full check of onnx.checker. Seen on 1 December 2026; fails when that
# changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
import onnxruntime
from onnx import defs, helper, shape_inference, TensorProto
from onnx.reference import ReferenceEvaluator

options = onnxruntime.SessionOptions()
options.log_severity_level = 4
x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)


def model_of(op, opset, shape):
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], kernel_shape=[2], strides=[2], pads=[1, 1],
                                                ceil_mode=1)], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


for op in ("MaxPool", "AveragePool"):
    for opset in (12, 21, 22):
        model = model_of(op, opset, None)
        inferred = shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape.dim[2].dim_value
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        try:
            onnx.checker.check_model(model_of(op, opset, [1, 1, 3]), full_check=True)
            checked = "accepted"
        except shape_inference.InferenceError:
            checked = "refused"
        print(op, opset, "text" if "right padded region" in defs.get_schema(op, opset, "").doc else "no text",
              "inferred", inferred, "ONNX Runtime", session.run(None, {"x": x})[0].ravel().tolist(),
              "reference", ReferenceEvaluator(model).run(None, {"x": x})[0].ravel().tolist(), "three declared", checked)
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
MaxPool 12 no text inferred 4 ONNX Runtime [0.0, 2.0, 4.0] reference [0.0, 2.0, 4.0] three declared refused
MaxPool 21 no text inferred 4 ONNX Runtime [0.0, 2.0, 4.0] reference [0.0, 2.0, 4.0] three declared refused
MaxPool 22 text inferred 3 ONNX Runtime [0.0, 2.0, 4.0] reference [0.0, 2.0, 4.0] three declared accepted
AveragePool 12 no text inferred 4 ONNX Runtime [0.0, 1.5, 3.5] reference [0.0, 1.5, 3.5] three declared refused
AveragePool 21 no text inferred 4 ONNX Runtime [0.0, 1.5, 3.5] reference [0.0, 1.5, 3.5] three declared refused
AveragePool 22 text inferred 3 ONNX Runtime [0.0, 1.5, 3.5] reference [0.0, 1.5, 3.5] three declared accepted
X
)
[ "$seen" = "$expected" ]
