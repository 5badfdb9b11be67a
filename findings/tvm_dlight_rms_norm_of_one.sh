#!/usr/bin/env bash
# Apache TVM 0.27 (apache-tvm 0.27.0.post1 with apache-tvm-ffi 0.1.14.post0): Dlight's GPU rules schedule the PrimFunc that
# relax.transform.LegalizeOps makes of nn.rms_norm over a dimension of size 1 into a kernel that takes its own result for
# the sum of squares: the reduction is inlined into its consumer, and the root is of the result's buffer + x * x. So the
# numbers are wrong, and no error tells. Over a dimension of 64 the sum has a buffer of its own. Read in the scheduled
# functions; seen on 27 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post0 numpy==2.3.5 scipy==1.16.3
cat >"$folder/seen.py" <<'P'
import re
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R
from tvm.s_tir import dlight

def norm_over(last):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, last), "float32"), w: R.Tensor((last,), "float32")) -> R.Tensor((4, last), "float32"):
            with R.dataflow():
                y = R.nn.rms_norm(x, w, axes=[-1])
                R.output(y)
            return y
    return relax.transform.LegalizeOps()(Module)

rules = [dlight.gpu.Matmul(), dlight.gpu.GEMV(), dlight.gpu.Reduction(), dlight.gpu.GeneralReduction(), dlight.gpu.Fallback()]
target = tvm.target.Target({"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 1024, "thread_warp_size": 32,
                            "max_shared_memory_per_block": 49152})
for last in (1, 64):
    with target:
        scheduled = dlight.ApplyDefaultSchedule(*rules)(norm_over(last))
    text = next(f.script() for f in scheduled.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    result = re.search(r"def \w+\(x: .*, w: .*, (\w+): T.Buffer", text)[1]
    root = re.findall(r"T\.rsqrt\((\w+)\[", text)[-1]
    print(f"over {last}: the root is of {'the result' if root == result else 'a buffer of its own'}")
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
[ "$seen" = $'over 1: the root is of the result\nover 64: the root is of a buffer of its own' ]
