#!/usr/bin/env python3
"""Checks what the emulated driver takes as well-formed PTX: instructions that it must load and instructions
that it must refuse as CUDA_ERROR_INVALID_PTX, with the line in the log. Where ptxas is installed, it must
agree on each of them.

  check_forms.py EMULATOR_LIBRARY
"""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Registers: f f32, d f64, r 32 bits, rd 64 bits, h 16 bits, u u32, s s32, p predicate.
GOOD = """
add.u32 u, s, r;
add.f32 r, f, r;
add.f32 f, f, 0f3f800000;
add.rn.ftz.sat.f32 f, f, 1.0;
mov.b32 r, 0f3f800000;
mov.b32 f, r;
mov.f64 d, 0f3f800000;
mov.b64 rd, {r, f};
mov.b32 {h, h}, r;
mov.u16 h, %tid.x;
mov.u64 rd, %clock64;
mov.u64 rd, bytes;
mov.pred p, 1;
mul.wide.u16 r, h, h;
mul.wide.u32 rd, r, r;
mad.wide.u32 rd, r, r, rd;
shl.b64 rd, rd, r;
popc.b64 r, rd;
setp.eq.and.f32 p, f, f, p;
set.eq.f32.u32 f, r, r;
selp.f32 f, f, 1.0, p;
cvt.u32.u16 r, h;
cvt.u16.u32 r, r;
cvt.u8.u32 h, r;
cvt.u32.u64 r, rd;
cvt.rn.f32.s32 f, r;
cvt.rzi.s32.f32 r, f;
cvt.rzi.ftz.u64.f32 rd, f;
cvt.rn.f16.f32 h, f;
cvt.f32.f16 f, h;
cvt.f64.f32 d, f;
cvt.rn.f32.f64 f, d;
cvt.rni.f32.f32 f, f;
cvt.sat.f32.f32 f, f;
cvt.sat.u8.s32 r, r;
cvt.rn.f16x2.f32 r, f, f;
ld.global.u8 r, [rd];
ld.global.u8 rd, [rd];
ld.global.b32 f, [rd];
ld.global.f32 r, [rd];
ld.global.b16 r, [rd];
ld.volatile.global.u32 r, [rd];
ld.acquire.gpu.global.u32 r, [rd];
ld.global.nc.v4.f32 {f, f, f, f}, [rd];
st.global.u8 [rd], r;
st.global.f32 [rd], 1.0;
st.release.gpu.global.u32 [rd], r;
red.relaxed.gpu.global.add.u32 [rd], r;
atom.acquire.global.cas.b32 r, [rd], r, r;
atom.global.add.f32 f, [rd], 1.0;
shfl.sync.idx.b32 f, f, 0, 31, -1;
fma.rn.f32 f, f, f, f;
div.full.f32 f, f, f;
sqrt.approx.ftz.f32 f, f;
fence.acq_rel.gpu;
membar.gl;
activemask.b32 r;
nanosleep.u32 100;
prefetch.global.L2 [rd];
cp.async.cg.shared.global [r], [rd], 16;
cp.async.ca.shared.global [r], [rd], 8;
lop3.b32 r, r, r, r, 5;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f, f, f, f}, {r, r, r, r}, {r, r}, {f, f, f, f};
{ .reg .b32 %q<4>; .reg .b32 %q4; mov.b32 %q3, %q4; }
{ .reg .b32 r; mov.b32 r, 1; }
"""

BAD = """
add.f32 rd, f, f;
add.f32 u, f, f;
add.u32 f, r, r;
add.u32 rd, r, r;
add.u32 r, rd, r;
add.f16 h, r, h;
add.u16 r, h, h;
add.f32 f, f, 1;
add.f16 h, h, 1;
add.u32 r, r, bytes;
add.u32 r, %tid.x, r;
add.noftz.f16 h, h, h;
mul.wide.u32 rd, rd, r;
mad.lo.s32 rd, r, r, r;
mov.u32 rd, r;
mov.u32 f, r;
mov.f32 f, 1;
mov.u32 r, 1.0;
mov.b64 rd, {h, r};
mov.b32 {h, h}, rd;
mov.u64 rd, %tid.x;
mov.u32 r, %clock64;
mov.f16 h, h;
shl.b32 r, r, rd;
shr.b32 r, r, h;
popc.b64 rd, rd;
clz.b64 rd, rd;
bfind.u64 rd, rd;
setp.eq.ftz.s32 p, r, r;
setp.eq.f32 p, f, 0;
min.sat.f32 f, f, f;
neg.sat.f32 f, f;
cvt.u32.f32 r, f;
cvt.rn.u32.f32 r, f;
cvt.rni.f32.s32 f, r;
cvt.f32.s32 f, r;
cvt.f32.f64 f, d;
cvt.rn.f64.f32 d, f;
cvt.rzi.f32.f64 f, d;
cvt.f16.f32 h, f;
cvt.rn.f32.f32 f, f;
cvt.ftz.u32.u16 r, h;
cvt.sat.u32.u16 r, h;
ld.global.u32 f, [rd];
ld.global.u8 f, [rd];
ld.global.u32 h, [rd];
ld.global.f32 h, [rd];
ld.global.f16 h, [rd];
st.global.nc.u32 [rd], r;
st.global.f32 [rd], 5;
st.global.u32 [rd], 5.0;
st.acquire.gpu.global.u32 [rd], r;
ld.volatile.global.nc.u32 r, [rd];
ld.acquire.global.u32 r, [rd];
ld.relaxed.global.u32 r, [rd];
atom.local.add.u32 r, [rd], r;
red.global.exch.b32 [rd], r;
red.acquire.gpu.global.add.u32 [rd], r;
bar.sync rd;
exit.uni;
div.f32 f, f, f;
sqrt.f32 f, f;
rcp.f32 f, f;
fma.f32 f, f, f, f;
mad.f32 f, f, f, f;
lop3.b32 r, r, r, r, r;
membar;
fence;
fence.acq_rel;
nanosleep 100;
nanosleep.u32 rd;
activemask.u32 r;
prefetch.shared.L1 [r];
cp.async.cg.shared.global [r], [rd], 8;
mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 {f, f, f, f}, {r, r, r, r}, {r, r}, {f, f, f, f};
{ .reg .b32 %q<4>; .reg .b32 %q3; }
{ .reg .b32 %q3; .reg .b32 %q<4>; }
"""

HEAD = """.version 8.7
.target sm_90
.address_size 64
.global .b8 bytes[16];
.visible .entry k() {
.reg .f32 f; .reg .f64 d; .reg .b32 r; .reg .b64 rd; .reg .b16 h; .reg .u32 u; .reg .s32 s; .reg .pred p;
"""
LINE = HEAD.count("\n") + 1
INVALID_PTX = 218


def text_of(instruction):
    return HEAD + instruction + "\nret;\n}\n"


class Driver:
    def __init__(self, library):
        self.cuda = ctypes.CDLL(library)
        self.cuda.cuCtxCreate_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
        context = ctypes.c_void_p()
        assert self.cuda.cuInit(0) == 0 and self.cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0

    def load(self, text):
        """(result, what the log says)."""
        error_log, error_log_bytes = 5, 6  # CU_JIT_ERROR_LOG_BUFFER and its size
        log, module = ctypes.create_string_buffer(4096), ctypes.c_void_p()
        options = (ctypes.c_int * 2)(error_log, error_log_bytes)
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 4096)
        result = self.cuda.cuModuleLoadDataEx(ctypes.byref(module), text.encode(), 2, options, values)
        if result == 0:
            self.cuda.cuModuleUnload(module)
        return result, log.value.decode()


def find_ptxas():
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    return shutil.which("ptxas") or shutil.which(os.path.join(home, "bin", "ptxas"))


def refused_by_ptxas(ptxas, instructions):
    """The set of instructions that ptxas finds an error in."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "all.ptx")
        with open(path, "w", encoding="ascii") as file:
            file.write(text_of("\n".join(instructions)))
        done = subprocess.run([ptxas, "-arch=sm_90", "-o", os.devnull, path],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = {int(line) - LINE for line in re.findall(r"line (\d+); error", done.stdout)}
    return {instructions[i] for i in lines if 0 <= i < len(instructions)}


def main():
    driver = Driver(sys.argv[1])
    good, bad = GOOD.strip().splitlines(), BAD.strip().splitlines()
    problems = []
    for instruction in good:
        result, log = driver.load(text_of(instruction))
        if result:
            problems.append(f"{instruction} is refused: {result} {log}")
    for instruction in bad:
        result, log = driver.load(text_of(instruction))
        if result != INVALID_PTX or f"line {LINE}" not in log:
            problems.append(f"{instruction} gives {result} {log}")
    if ptxas := find_ptxas():
        refused = refused_by_ptxas(ptxas, good + bad)
        problems += [f"ptxas refuses {instruction}" for instruction in good if instruction in refused]
        problems += [f"ptxas takes {instruction}" for instruction in bad if instruction not in refused]
    print("\n".join(problems))
    print(f"{len(good)} good and {len(bad)} bad instructions, {len(problems)} problems"
          + ("" if ptxas else "; ptxas is not installed"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
