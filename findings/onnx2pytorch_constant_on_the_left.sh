#!/usr/bin/env bash
# onnx2pytorch 0.6.0 (PyPI onnx2pytorch): a MatMul or Gemm one of whose inputs is an initializer becomes
# torch.nn.Linear, whichever input it is. So W x, with the constant on the left, is computed as x W. With a square W
# that goes unnoticed but for the numbers; else the shapes do not fit. x W is right. ONNX's reference evaluator runs the
# models beside it. Seen on 1 December 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx2pytorch==0.6.0 onnx==1.23.2 numpy==2.3.5 torch==2.15.0
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper, TensorProto
from onnx.reference import ReferenceEvaluator
from onnx2pytorch import ConvertModel

x = np.array([[1, 2], [3, 4]], np.float32)
w = np.array([[0, -1], [1, 0]], np.float32)
for op in ("MatMul", "Gemm"):
    for inputs in (["x", "w"], ["w", "x"]):
        graph = helper.make_graph([helper.make_node(op, inputs, ["y"])], "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
                                  [numpy_helper.from_array(w, "w")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        by_definition = ReferenceEvaluator(model).run(None, {"x": x})[0]
        converted = ConvertModel(model)(torch.tensor(x)).detach().numpy()
        print(op, *inputs, "is", by_definition.tolist(), "converted", converted.tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
MatMul x w is [[2.0, -1.0], [4.0, -3.0]] converted [[2.0, -1.0], [4.0, -3.0]]
MatMul w x is [[-3.0, -4.0], [1.0, 2.0]] converted [[2.0, -1.0], [4.0, -3.0]]
Gemm x w is [[2.0, -1.0], [4.0, -3.0]] converted [[2.0, -1.0], [4.0, -3.0]]
Gemm w x is [[-3.0, -4.0], [1.0, 2.0]] converted [[2.0, -1.0], [4.0, -3.0]]
X
)
[ "$seen" = "$expected" ]
