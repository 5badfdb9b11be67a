#!/usr/bin/env bash
# ONNX 1.23.2 (PyPI onnx): its reference evaluator takes sequence_lens of GRU, LSTM and RNN and does not read it. ONNX's
# text: the input says how long each sequence of the batch is. Of a batch of two with lengths 1 and 3 the first one's
# last state has to be the state of that sequence cut to one step; it is the state of all three. ONNX Runtime 1.32.0
# gives the state of one step. Seen on 27 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
from onnx import helper, numpy_helper, TensorProto
from onnx.reference import ReferenceEvaluator


def run(op, inputs, outputs=1, opset=21, absent=(), **attributes):
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    given = {n: x for n, x in zip(names, inputs) if n}
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **attributes)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for n, x in given.items()], [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return ReferenceEvaluator(model).run(None, given)


rng = np.random.default_rng(1)
x = rng.normal(size=(3, 2, 2)).astype(np.float32)
w, r = (rng.normal(size=(1, 4, 2)).astype(np.float32) for _ in range(2))
w, r = w[:, :2], r[:, :2]
lengths = np.array([1, 3], np.int32)
whole = run("RNN", [x, w, r], 2, hidden_size=2)[1]
with_lengths = run("RNN", [x, w, r, None, lengths], 2, hidden_size=2)[1]
one_step = np.tanh(x[0, 0] @ w[0].T)
print("lengths change something:", not np.array_equal(whole, with_lengths))
print("first sequence ends at its length:", np.allclose(with_lengths[0, 0], one_step, atol=1e-5))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
lengths change something: False
first sequence ends at its length: False
E
)
[ "$seen" = "$expected" ]
