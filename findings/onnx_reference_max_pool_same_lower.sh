#!/usr/bin/env bash
# ONNX's reference evaluator (PyPI onnx 1.23.2): MaxPool with auto_pad SAME_LOWER loses windows where strides are larger
# than the kernel. By ONNX's text the output is ceil(input / stride) with SAME_UPPER and SAME_LOWER alike: of 4 elements
# with stride 3 two, which SAME_UPPER has and ONNX Runtime 1.32.0 for both. No element is padded then, so the windows
# begin at 0 and 3. The evaluator has one window, of 1 and 2. Seen on 28 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator


def both(op, x, results=1, **attributes):
    """What the reference evaluator and ONNX Runtime make of one node."""
    names = [f"y{i}" for i in range(results)]
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], names, **attributes)], "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_empty_tensor_value_info(name) for name in names])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return ReferenceEvaluator(model).run(None, {"x": x}), session.run(None, {"x": x})


x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
for pad in ("SAME_UPPER", "SAME_LOWER"):
    (reference,), (runtime,) = both("MaxPool", x, kernel_shape=[2], strides=[3], auto_pad=pad)
    print(pad, "reference", reference.ravel().tolist(), "ONNX Runtime", runtime.ravel().tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
SAME_UPPER reference [1.0, 3.0] ONNX Runtime [1.0, 3.0]
SAME_LOWER reference [2.0] ONNX Runtime [0.0, 3.0]
E
)
[ "$seen" = "$expected" ]
