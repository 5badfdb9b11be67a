#!/usr/bin/env bash
# OpenVINO 2026.4.1 (PyPI openvino, CPU): its reader of ONNX takes a Resize with exclude_outside 1, with
# keep_aspect_ratio_policy, and computes it without: the cubic weights of places
# outside the image count (of their edge), where ONNX's text makes them 0 and the others one sum; and of an image
# of 2 x 4 asked to 6 x 6 it makes 6 x 6, where "not_larger" has 3 x 6 and "not_smaller" 6 x 12. No error tells. ONNX
# Runtime 1.32.0 runs the same files. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import sys

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import helper, TensorProto as T


def compare(name, node, inputs, results, constants=(), opset=18):
    """Runs a model of one node in both runtimes and prints the first elements."""
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", T.FLOAT, inputs.shape)],
        [helper.make_tensor_value_info(r, kind, shape) for r, kind, shape in results], list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, sys.argv[1])
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    compiled = openvino.Core().compile_model(sys.argv[1], "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    run = compiled([inputs])
    right = session.run(None, {"x": inputs})
    for who, ys in (("OpenVINO", [run[o] for o in compiled.outputs]), ("ONNX Runtime", right)):
        for (r, _, _), y in zip(results, ys):
            print(name, who, r, list(y.shape), *(f"{v:.3g}" for v in np.array(y).ravel()[:3]))


x = np.array([0, 1, 2, 4], np.float32).reshape(1, 1, 1, 4)
scales = helper.make_tensor("scales", T.FLOAT, [4], [1.0, 1.0, 1.0, 0.8])
for outside in (0, 1):
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="cubic", exclude_outside=outside)
    compare(f"exclude_outside {outside}", node, x, [("y", T.FLOAT, [1, 1, 1, 3])], [scales])
x = np.zeros([1, 1, 2, 4], np.float32)
sizes = helper.make_tensor("sizes", T.INT64, [2], [6, 6])
for policy, shape in (("stretch", [6, 6]), ("not_larger", [3, 6]), ("not_smaller", [6, 12])):
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], axes=[2, 3], keep_aspect_ratio_policy=policy)
    compare(policy, node, x, [("y", T.FLOAT, [1, 1] + shape)], [sizes])
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder/model.onnx")
printf '%s\n' "$seen"
expected=$(cat <<'X'
exclude_outside 0 OpenVINO y [1, 1, 1, 3] 0.0942 1.34 3.35
exclude_outside 0 ONNX Runtime y [1, 1, 1, 3] 0.0942 1.34 3.35
exclude_outside 1 OpenVINO y [1, 1, 1, 3] 0.0942 1.34 3.35
exclude_outside 1 ONNX Runtime y [1, 1, 1, 3] 0.0879 1.34 3.41
stretch OpenVINO y [1, 1, 6, 6] 0 0 0
stretch ONNX Runtime y [1, 1, 6, 6] 0 0 0
not_larger OpenVINO y [1, 1, 6, 6] 0 0 0
not_larger ONNX Runtime y [1, 1, 3, 6] 0 0 0
not_smaller OpenVINO y [1, 1, 6, 6] 0 0 0
not_smaller ONNX Runtime y [1, 1, 6, 12] 0 0 0
X
)
[ "$seen" = "$expected" ]
