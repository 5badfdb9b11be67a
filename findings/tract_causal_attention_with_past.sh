#!/usr/bin/env bash
# tract 0.23.9 (PyPI tract): Attention of ONNX's opset 23 with is_causal and a past (past_key, past_value), as a decoder
# steps. ONNX's text concatenates the past before the keys and masks above the diagonal that begins behind the past: a
# query sees the whole past and, of the new keys, those up to its own place. tract begins the diagonal at the first key
# of all, so the first query of a step sees one past token alone, however long the past is. No error tells; without a
# past, or without is_causal, the results are right. ONNX Runtime 1.32.0 and the sum written out agree. With equal
# scores the result is the mean of the values seen. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install tract==0.23.9 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import sys

import numpy as np
import onnx
import onnxruntime
import tract
from onnx import helper, TensorProto as T


def tensor(values):  # one sequence, one head, a size of 1
    return np.array(values, np.float32).reshape(1, 1, len(values), 1)


past, new = [10, 20, 30, 40], [50, 60]
for causal in (0, 1):
    for before in ([], past):
        inputs = {"q": tensor([0] * len(new)), "k": tensor([0] * len(new)), "v": tensor(new)}
        names, results = ["q", "k", "v"], ["y"]
        if before:
            inputs |= {"pk": tensor([0] * len(before)), "pv": tensor(before)}
            names, results = names + ["", "pk", "pv"], ["y", "all_k", "all_v"]
        node = helper.make_node("Attention", names, results, is_causal=causal)
        values = before + new
        shapes = [[1, 1, len(new), 1]] + [[1, 1, len(values), 1]] * 2
        graph = helper.make_graph(
            [node], "g", [helper.make_tensor_value_info(n, T.FLOAT, v.shape) for n, v in inputs.items()],
            [helper.make_tensor_value_info(n, T.FLOAT, shape) for n, shape in zip(results, shapes)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, sys.argv[1])
        seen = [values[:len(before) + i + 1] if causal else values for i in range(len(new))]
        session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
        right = session.run(None, inputs)[0]
        runnable = tract.onnx().load(sys.argv[1]).into_model().into_runnable()
        got = runnable.run(list(inputs.values()))[0].to_numpy()
        for name, y in (("text", np.array([np.mean(v) for v in seen])), ("tract", got), ("ONNX Runtime", right)):
            print("causal", causal, "past", len(before), name, *(f"{v:.1f}" for v in y.ravel()))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder/model.onnx")
printf '%s\n' "$seen"
expected=$(cat <<'X'
causal 0 past 0 text 55.0 55.0
causal 0 past 0 tract 55.0 55.0
causal 0 past 0 ONNX Runtime 55.0 55.0
causal 0 past 4 text 35.0 35.0
causal 0 past 4 tract 35.0 35.0
causal 0 past 4 ONNX Runtime 35.0 35.0
causal 1 past 0 text 50.0 55.0
causal 1 past 0 tract 50.0 55.0
causal 1 past 0 ONNX Runtime 50.0 55.0
causal 1 past 4 text 30.0 35.0
causal 1 past 4 tract 10.0 15.0
causal 1 past 4 ONNX Runtime 30.0 35.0
X
)
[ "$seen" = "$expected" ]
