#!/usr/bin/env bash
# tinygrad 0.14.0 (PyPI tinygrad): its reader of ONNX takes a constant of FLOAT16 or BFLOAT16 that is stored in
# int32_data for whole numbers: 1, 2 and 3 of FLOAT16 become 15360, 16384 and 16896. ONNX's text: int32_data holds the
# 16 bits of such a value, and onnx.helper.make_tensor stores them so. The same numbers in raw_data, or of FLOAT or
# DOUBLE, are right, and no warning tells. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install tinygrad==0.14.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5 ml_dtypes==0.6.0
cat >"$folder/seen.py" <<'P'
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import helper, TensorProto as T
from tinygrad.nn.onnx import OnnxRunner

values = [1, 2, 3]
for dtype, kind in ((T.FLOAT, np.float32), (T.DOUBLE, np.float64), (T.FLOAT16, np.float16),
                    (T.BFLOAT16, ml_dtypes.bfloat16)):
    raw = np.array(values, kind).tobytes()
    for constant in (helper.make_tensor("c", dtype, [3], values), helper.make_tensor("c", dtype, [3], raw, raw=True)):
        graph = helper.make_graph([helper.make_node("Cast", ["c"], ["y"], to=T.FLOAT)], "g", [],
                                  [helper.make_tensor_value_info("y", T.FLOAT, [3])], [constant])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, sys.argv[1])
        session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
        stored = [field.name for field, _ in constant.ListFields() if field.name.endswith("_data")]
        print(T.DataType.Name(dtype), *stored, "tinygrad", OnnxRunner(sys.argv[1])({})["y"].tolist(),
              "ONNX Runtime", session.run(None, {})[0].tolist())
P
export DEV=PYTHON XDG_CACHE_HOME="$folder/cache"
seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder/model.onnx")
printf '%s\n' "$seen"
expected=$(cat <<'X'
FLOAT float_data tinygrad [1.0, 2.0, 3.0] ONNX Runtime [1.0, 2.0, 3.0]
FLOAT raw_data tinygrad [1.0, 2.0, 3.0] ONNX Runtime [1.0, 2.0, 3.0]
DOUBLE double_data tinygrad [1.0, 2.0, 3.0] ONNX Runtime [1.0, 2.0, 3.0]
DOUBLE raw_data tinygrad [1.0, 2.0, 3.0] ONNX Runtime [1.0, 2.0, 3.0]
FLOAT16 int32_data tinygrad [15360.0, 16384.0, 16896.0] ONNX Runtime [1.0, 2.0, 3.0]
FLOAT16 raw_data tinygrad [1.0, 2.0, 3.0] ONNX Runtime [1.0, 2.0, 3.0]
BFLOAT16 int32_data tinygrad [16256.0, 16384.0, 16384.0] ONNX Runtime [1.0, 2.0, 3.0]
BFLOAT16 raw_data tinygrad [1.0, 2.0, 3.0] ONNX Runtime [1.0, 2.0, 3.0]
X
)
[ "$seen" = "$expected" ]
