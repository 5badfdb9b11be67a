#!/usr/bin/env bash
# onnx-graphsurgeon 0.6.1 (PyPI onnx-graphsurgeon, of TensorRT): fold_constants() folds a Shape whose input has a known
# shape, and overlooks start and end, which Shape has had since opset 15 and PyTorch's exporter writes for one size of a
# tensor. So all sizes stand where one was asked for: with Shape of [2, 3, 5], start=1, end=2, the constant is 2, 3, 5
# instead of 3, and a ConstantOfShape of it has three dimensions instead of one. ONNX Runtime 1.32.0 runs the models,
# its own optimisations off. Seen on 1 December 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx-graphsurgeon==0.6.1 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
import onnx_graphsurgeon
import onnxruntime
from onnx import helper, TensorProto
from onnx.helper import make_node

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 4
x = np.zeros([2, 3, 5], np.float32)
for part, sizes in (({}, x.shape), ({"start": 1}, [3, 5]), ({"end": -1}, [2, 3]), ({"start": 1, "end": 2}, [3])):
    graph = helper.make_graph(
        [make_node("Shape", ["x"], ["s"], **part), make_node("ConstantOfShape", ["s"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", "c"][:len(sizes)])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    folded = onnx_graphsurgeon.export_onnx(onnx_graphsurgeon.import_onnx(model).fold_constants().cleanup())
    folded.ir_version = 8
    for who, m in (("as it was", model), ("folded", folded)):
        session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        print(part, who, "the result has the shape", session.run(None, {"x": x})[0].shape)
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null | grep -v '^\[W\]')
printf '%s\n' "$seen"
expected=$(cat <<'X'
{} as it was the result has the shape (2, 3, 5)
{} folded the result has the shape (2, 3, 5)
{'start': 1} as it was the result has the shape (3, 5)
{'start': 1} folded the result has the shape (2, 3, 5)
{'end': -1} as it was the result has the shape (2, 3)
{'end': -1} folded the result has the shape (2, 3, 5)
{'start': 1, 'end': 2} as it was the result has the shape (3,)
{'start': 1, 'end': 2} folded the result has the shape (2, 3, 5)
X
)
[ "$seen" = "$expected" ]
