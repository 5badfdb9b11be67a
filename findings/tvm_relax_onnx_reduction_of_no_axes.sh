#!/usr/bin/env bash
# Apache TVM 0.27 (apache-tvm 0.27.0.post1 with apache-tvm-ffi 0.1.14.post0): its importer of ONNX for Relax makes a
# reduction with noop_with_empty_axes 1 and no axes the input itself. ONNX's text (from onnx 1.17 on): the reduction is
# the identity then, but composite reductions still do the rest, so that ReduceLogSum is the logarithm and
# ReduceSumSquare the square; likewise ReduceL1 and ReduceL2 are the absolute value. No error tells. Seen on 27 November
# 2026; fails when that changes.
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


x = np.array([2, -3], np.float32)
print("ReduceL1", run("ReduceL1", x, noop_with_empty_axes=1).tolist(), "by the text", np.abs(x).tolist())
print("ReduceSumSquare", run("ReduceSumSquare", x, noop_with_empty_axes=1).tolist(), "by the text", (x * x).tolist())
x = np.array([1, 8], np.float32)
print("ReduceLogSum", run("ReduceLogSum", x, noop_with_empty_axes=1).tolist(),
      "by the text", [round(float(v), 4) for v in np.log(x)])
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
ReduceL1 [2.0, -3.0] by the text [2.0, 3.0]
ReduceSumSquare [2.0, -3.0] by the text [4.0, 9.0]
ReduceLogSum [1.0, 8.0] by the text [0.0, 2.0794]
E
)
[ "$seen" = "$expected" ]
