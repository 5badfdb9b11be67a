#!/usr/bin/env bash
# ONNX Script 0.7.2 (PyPI onnxscript), which torch.onnx.export(dynamo=True) optimises with: a Conv and a
# BatchNormalization of bfloat16 become one Conv whose weight is float32, beside an input of bfloat16. The
# model was valid, and the rewritten one is not: ONNX's checker refuses it, and no runtime can load it. float16 and
# double keep their dtypes. So a network of such layers exported in bfloat16 (torchvision's resnet18) is a file that
# breaks the specification. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnxscript==0.7.2 onnx==1.23.2 onnx-ir==1.1.0 numpy==2.3.5 ml_dtypes==0.6.0
cat >"$folder/seen.py" <<'P'
import ml_dtypes
import numpy as np
import onnx
from onnx import helper, TensorProto as T
from onnxscript import rewriter

for dtype, numpy_dtype in ((T.FLOAT16, np.float16), (T.DOUBLE, np.float64), (T.BFLOAT16, ml_dtypes.bfloat16)):
    def constant(name, dims, value):
        return helper.make_tensor(name, dtype, dims, np.full(dims, value, numpy_dtype).tobytes(), raw=True)
    image = [1, 1, 2, 2]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]),
         helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["y"])], "g",
        [helper.make_tensor_value_info("x", dtype, image)], [helper.make_tensor_value_info("y", dtype, image)],
        [constant("w", [1, 1, 1, 1], 2), constant("scale", [1], 1), constant("bias", [1], 0),
         constant("mean", [1], 0), constant("variance", [1], 4)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    rewritten = rewriter.rewrite(model)
    try:
        onnx.checker.check_model(rewritten, full_check=True)
        said = "valid"
    except onnx.shape_inference.InferenceError:
        said = "refused"
    print(T.DataType.Name(dtype), [node.op_type for node in rewritten.graph.node],
          [T.DataType.Name(tensor.data_type) for tensor in rewritten.graph.initializer], said)
P
seen=$("$folder/venv/bin/python" "$folder/seen.py")
printf '%s\n' "$seen"
expected=$(cat <<'E'
FLOAT16 ['Conv'] ['FLOAT16'] valid
DOUBLE ['Conv'] ['DOUBLE'] valid
BFLOAT16 ['Conv'] ['FLOAT'] refused
E
)
[ "$seen" = "$expected" ]
