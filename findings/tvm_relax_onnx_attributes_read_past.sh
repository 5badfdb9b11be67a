#!/usr/bin/env bash
# Apache TVM 0.27 (apache-tvm 0.27.0.post1 with apache-tvm-ffi 0.1.14.post0): its importer of ONNX for Relax takes
# BatchNormalization with training_mode 1 and Resize with antialias 1, and computes both without: the first with the
# given mean and variance instead of the batch's own, the second as a plain linear Resize. ONNX's text: Y is (X -
# current_mean) / sqrt(current_var + epsilon) in training mode; with antialias the filter is stretched by 1 / scale
# where the image shrinks. A half of 0, 1, 0, 0 is then 3/7, 1/7 by the triangle of width 4 (weights 1/4, 3/4, 3/4, 1/4,
# of which one lies outside and the others are normalised). No error tells. Seen on 27 November 2026; fails when that
# changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post0 onnx==1.23.2 \
  numpy==2.3.5 scipy==1.16.3
cat >"$folder/seen.py" <<'P'
import numpy as np
import tvm
from onnx import helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx


def run(op, x, constants=(), outputs=1, opset=18, **attributes):
    names = [f"c{i}" if c is not None else "" for i, c in enumerate(constants)]
    results = [f"y{i}" for i in range(outputs)]
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *names], results, **attributes)], "g",
        [helper.make_tensor_value_info("x", element, x.shape)],
        [helper.make_tensor_value_info(name, element, None) for name in results],
        [numpy_helper.from_array(c, n) for n, c in zip(names, constants) if n])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    module = from_onnx(model, opset=opset, keep_params_in_input=False)
    module = relax.transform.LegalizeOps()(relax.transform.DecomposeOpsForInference()(module))
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    y = machine["main"](tvm.runtime.tensor(x))
    return (y if outputs == 1 else y[0]).numpy()


x = np.array([[1], [3]], np.float32)
one = np.ones(1, np.float32)
y = run("BatchNormalization", x, [one, 0 * one, 0 * one, one], 3, training_mode=1)
print("BatchNormalization", y.round(3).ravel().tolist(), "by the text",
      ((x - x.mean()) / np.sqrt(x.var() + 1e-5)).round(3).ravel().tolist())
x = np.array([0, 1, 0, 0], np.float32).reshape(1, 1, 1, 4)
scales = np.array([1, 1, 1, 0.5], np.float32)
half = [run("Resize", x, [None, scales], mode="linear", antialias=antialias) for antialias in (0, 1)]
weights = [[(i, max(0, 1 - abs(i - (2 * at + 0.5)) / 2)) for i in range(4)] for at in range(2)]
right = [sum(w * x[0, 0, 0, i] for i, w in row) / sum(w for _, w in row) for row in weights]
print("Resize", *(y.round(4).ravel().tolist() for y in half), "by the text", [round(float(v), 4) for v in right])
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
BatchNormalization [1.0, 3.0] by the text [-1.0, 1.0]
Resize [0.5, 0.0] [0.5, 0.0] by the text [0.4286, 0.1429]
E
)
[ "$seen" = "$expected" ]
