#!/usr/bin/env bash
# Apache TVM 0.27 (apache-tvm 0.27.0.post1 with apache-tvm-ffi 0.1.14.post0): tvm.compile of a scheduled PrimFunc for CUDA
# depends on whether the function has a global symbol. relax.transform.LegalizeOps makes its PrimFuncs private; compiled by
# themselves, they reach the CUDA code generator with buffers as parameters, and it ends with an internal error about a
# type that has no C type, which names neither the function nor the missing symbol. With the attribute `global_symbol`
# the same functions compile. Seen on 27 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post0 numpy==2.3.5 scipy==1.16.3
cat >"$folder/seen.py" <<'P'
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R
from tvm.s_tir import dlight

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 64), "float32")) -> R.Tensor((8, 64), "float32"):
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y

target = tvm.target.Target({"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 1024, "thread_warp_size": 32,
                            "max_shared_memory_per_block": 49152})
with target:
    scheduled = dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(relax.transform.LegalizeOps()(Module))
prims = {var: f for var, f in scheduled.functions.items() if isinstance(f, tvm.tirx.PrimFunc)}
for symbols in (False, True):
    module = tvm.IRModule({v: f.with_attr("global_symbol", v.name_hint) if symbols else f for v, f in prims.items()})
    try:
        tvm.compile(module, tvm.target.Target(target, host="llvm"))
        print("with a global symbol: compiles" if symbols else "private: compiles")
    except Exception as error:
        what = "no C type" if "does not have a corresponding C Type" in str(error) else str(error)[:80]
        print(f"{'with a global symbol' if symbols else 'private'}: {what}")
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
[ "$seen" = $'private: no C type\nwith a global symbol: compiles' ]
