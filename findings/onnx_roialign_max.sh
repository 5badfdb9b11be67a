#!/usr/bin/env bash
# ONNX 1.23.2 (PyPI onnx) with ONNX Runtime 1.32.0: RoiAlign of mode max is no maximum of samples. Both ONNX's reference
# evaluator and ONNX Runtime take, of each sample, the largest of its four neighbours times their weights, instead of
# the neighbours' sum, which is what mode avg averages. A sample of an image of one value is that value wherever it
# lies, and so is any maximum of such; of an image of 8 both give less, as low as 2 for a sample in the middle of four
# elements, where avg gives 8. ONNX Runtime says on stderr that this would be mended in version 1.13. Seen on 27
# November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper, numpy_helper, TensorProto
from onnx.reference import ReferenceEvaluator

x = np.full((1, 1, 4, 4), 8, np.float32)
for mode in ("avg", "max"):
    node = helper.make_node("RoiAlign", ["x", "rois", "batch"], ["y"], mode=mode, output_height=1, output_width=1,
                            sampling_ratio=1, coordinate_transformation_mode="half_pixel")
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 1])],
        [numpy_helper.from_array(np.array([[1, 1, 3, 3]], np.float32), "rois"),
         numpy_helper.from_array(np.array([0], np.int64), "batch")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    print(mode, "ONNX Runtime", session.run(None, {"x": x})[0].ravel().tolist(),
          "reference", ReferenceEvaluator(model).run(None, {"x": x})[0].ravel().tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
avg ONNX Runtime [8.0] reference [8.0]
max ONNX Runtime [2.0] reference [2.0]
E
)
[ "$seen" = "$expected" ]
