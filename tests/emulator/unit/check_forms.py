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

# Registers: f f32, d f64, r 32 bits, rd 64 bits, w 128 bits, h 16 bits, u u32, s s32, xx f16x2, p predicate.
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
mov.b64 rd, {f, 1.0};
mov.b32 r, {1.0, h};
mov.b64 rd, {r, 0f3f800000};
mov.b64 {r, _}, rd;
mov.b64 rd, {u, s};
mov.u32 r, xx;
mov.u16 h, %ctaid.x;
mov.u64 rd, %gridid;
lop3.b32 r, WARP_SZ, r, r, WARP_SZ;
add.u32 r, r, (WARP_SZ - 1) * 2;
ld.global.u32 r, [rd + WARP_SZ];
ld.global.v2.u32 {r, _}, [rd];
ld.local.u32 r, [4];
ld.global.L2::cache_hint.u32 r, [rd], rd;
ld.L1::evict_last.u32 r, [rd];
ld.const.u32 r, [table];
ld.u32 r, [bytes];
isspacep.shared p, r;
isspacep.param::entry p, rd;
cvta.global.u64 rd, bytes;
cvta.to.shared::cta.u64 rd, rd;
sad.u16 h, h, h, h;
sad.s64 rd, rd, rd, rd;
mad.hi.u16 h, h, h, h;
mad.hi.sat.s32 r, r, r, r;
mad.lo.cc.u32 r, r, r, r;
mad24.hi.u32 r, r, r, r;
min.u16x2 r, r, r;
max.relu.s16x2 xx, r, xx;
slct.b16.s32 h, h, h, r;
slct.ftz.f64.f32 d, d, d, f;
szext.wrap.s32 r, r, r;
fns.b32 r, r, r, r;
lop3.or.b32 r|p, r, r, r, 5, !p;
lop3.and.b32 _|p, r, r, r, 5, p;
setp.eq.s32 _|p, r, r;
setp.lt.f16x2 p|_, r, r;
set.lt.and.ftz.f16.f32 h, f, f, p;
match.all.sync.b32 _|p, r, -1;
shfl.sync.idx.b32 r|p, r, 0, 31, -1;
elect.sync _|p, -1;
barrier.cluster.arrive.relaxed.aligned;
barrier.cluster.wait.acquire;
mapa.shared::cluster.u32 r, r, 1;
mapa.u64 rd, rd, r;
getctarank.u64 r, rd;
ld.shared::cluster.v2.u32 {r, r}, [r];
atom.shared::cluster.add.u32 r, [r], r;
mov.pred p, %is_explicit_cluster;
mov.u32 r, %reserved_smem_offset_1;
mbarrier.init.shared.b64 [r], 3;
mbarrier.inval.b64 [rd];
mbarrier.arrive.shared.b64 rd, [r], 2;
mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [r], r;
mbarrier.arrive.noComplete.shared.b64 rd, [r], r;
mbarrier.arrive_drop.shared.b64 rd, [r];
mbarrier.test_wait.parity.shared.b64 p, [r], r;
mbarrier.try_wait.acquire.cta.shared::cta.b64 p, [r], rd, r;
mbarrier.pending_count.b64 r, rd;
cp.async.mbarrier.arrive.noinc.shared::cta.b64 [r];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r], [rd], 16, [r];
cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [rd], [r], r, rd;
cp.async.bulk.wait_group.read 1;
fence.proxy.async.shared::cta;
fence.mbarrier_init.release.cluster;
alloca.u64 rd, rd, 16;
stackrestore.u32 r;
mov.b128 w, {rd, rd};
mov.b128 {rd, rd}, w;
ld.global.b128 w, [rd];
atom.global.cas.b128 w, [rd], w, w;
redux.sync.add.s32 s, s, -1;
atom.global.add.u32 _, [rd], r;
bar.sync 0, WARP_SZ;
barrier.cta.red.popc.aligned.u32 r, 0, p;
bar.warp.sync -1;
cp.async.wait_group 1;
applypriority.global.L2::evict_normal [rd], 128;
discard.L2 [rd], 128;
discard.global.L2 [rd+128], 128;
max.s16x2.relu r, r, r;
min.s32.relu r, r, r;
pmevent.mask 3;
cvt.rn.bf16.f32 h, f;
cvt.rn.satfinite.e4m3x2.f32 h, f, f;
cvt.rna.tf32.f32 r, f;
cvt.u64.u32 rd, %tid.x;
ldmatrix.sync.aligned.m8n8.x2.shared.b16 {r, _}, [r];
stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [r], {r, f};
movmatrix.sync.aligned.m8n8.trans.b16 r, r;
mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {xx, xx}, {xx, xx, xx, xx}, {r, r}, {r, r};
wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {s, s, s, s, s, s, s, s}, {u, u}, {r, r}, {r, r, r, r, r, r, r, r};
"""

BAD = """
barrier.cluster.arrive.acquire;
barrier.cluster.wait.relaxed;
mapa.shared::cta.u32 r, r, 1;
mapa.u64 rd, r, r;
mapa.u32 r, r, f;
getctarank.u64 rd, rd;
mbarrier.init.shared.b32 [r], 3;
mbarrier.arrive.shared.b64 r, [r];
mbarrier.test_wait.shared.b64 p, [r], r;
mbarrier.test_wait.parity.shared.b64 r, [r], r;
cp.async.bulk.shared::cluster.global [r], [rd], 16, [r];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r], [rd], 20, [r];
cp.async.bulk.wait_group r;
alloca.b64 rd, rd;
alloca.u64 rd, rd, 3;
mov.b128 rd, rd;
mov.b128 w, {r, r};
mov.b128 {rd, rd}, {rd, rd};
add.u64 rd, rd, w;
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
{ .reg .bf16 q; }
{ .reg .u16x2 q; }
add.u32 r, [rd], r;
add.u32 r, r, !r;
add.u32 r, r|p, r;
add.u32 r|p, r, r;
add.u32 _, r, r;
add.f16x2 xx, s, xx;
add.u16x2 r, s, r;
add.u16x2 r, r, 1;
add.sat.cc.s32 r, r, r;
atom.shared.add.L2::cache_hint.u32 r, [r], r, rd;
mov.u32 r, {h, h};
mov.b64 rd, {f, u};
mov.b64 rd, {f, xx};
mov.b64 rd, {r, h};
mov.b64 rd, {1.0, 1.0};
mov.b32 r, {h, %tid.x};
mov.b64 {_, _}, rd;
mov.u16 h, %laneid;
mov.b64 rd, {r, !r};
madc.ftz.lo.u32 r, r, r, r;
mad.cc.lo.u32 r, r, r, r;
div.ftz.full.f32 f, f, f;
testp.ftz.finite.f32 p, f;
copysign.sat.f32 f, f, f;
slct.sat.b32.f32 r, r, r, f;
lop3.xor.b32 r|p, r, r, r, 5, p;
lop3.or.b32 r, r, r, r, 5, p;
bfe.u32 r, r, 256, r;
bfind.u32 xx, r;
shl.b32 r, r, xx;
bmsk.clamp.b32 r, f, r;
dp4a.u32.u32 xx, r, r, r;
set.eq.u16.u16 h, h, h;
set.eq.f16x2.f16 r, h, h;
setp.eq.f16 p|p, h, h;
ld.global.u32 r, [4];
ld.global.u32 r, [f];
ld.global.u32 r, [table];
ld.u32 r, [table];
ld.const.u32 r, [bytes];
ld.global.u32 _, [rd];
ld.global.u32 r|p, [rd];
ld.global.v2.u32 {r, rd}, [rd];
ld.global.v2.u32 {_, _}, [rd];
ld.global.L2::cache_hint.u32 r, [rd], r;
ld.shared.L1::evict_last.u32 r, [r];
ld.global.ca.L1::evict_last.u32 r, [rd];
ld.volatile.local.u32 r, [rd];
ld.weak.global.nc.u32 r, [rd];
st.global.u32 [rd], [rd];
st.global.L2::128B.u32 [rd], r;
st.volatile.local.u32 [rd], r;
prefetch.global.L1 rd;
prefetch.local.L1 [bytes];
prefetchu.L1 [4];
applypriority.L2::evict_last [rd], 128;
applypriority.L2::evict_normal [rd], 64;
discard.L2 [rd], 64;
discard.L1 [rd], 128;
discard.shared.L2 [rd], 128;
max.u16x2.relu r, r, r;
cvta.global.to.u64 rd, rd;
cvta.shared.u64 rd, bytes;
cvta.to.global.u64 rd, bytes;
isspacep.global.global p, rd;
isspacep.global p, xx;
cp.async.shared.global [r], [rd], 16;
cp.async.ca.global.shared [r], [rd], 16;
cp.ca.async.shared.global [r], [rd], 16;
cp.async.ca.shared.global [r], [rd], 16, 17;
fence.sc.gpu r;
membar.gl 1;
bar.sync r|p;
bar.sync WARP_SZ;
bar.arrive 1, 0;
bar.aligned.sync 0;
bar.warp r;
barrier.sync.cta 0;
bra.ftz end;
elect.sync r, -1;
elect.ftz.sync r|p, -1;
match.any.sync.b32 r|p, r, -1;
match.any.sync.b32 f, r, -1;
redux.sync.and.b32 f, r, -1;
shfl.sync.idx.b32 _, r, r, r, -1;
shfl.sync.idx.b32 r, r, r, r, f;
vote.sync.all.pred p|p, p, -1;
activemask.b32 _;
pmevent 16;
cvt.rzi.u16.bf16 r, h;
cvt.f32.bf16 rd, h;
cvt.u16.u64 h, %tid.x;
cvt.rn.f32.u32 f, %tid.x;
cvt.rna.tf32.f32 f, f;
cvt.rn.satfinite.e4m3x2.f16x2 h, u;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 r, [r];
stmatrix.sync.aligned.m8n8.x1.shared.b16 [r], {1};
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f, f, f, f}, {f, f, f, f}, {r, r}, {f, f, f, f};
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {f, f, f, f}, {r, r}, r, {f, f, f, f};
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f, f, f, s}, {r, r, r, r}, {r, r}, {f, f, f, f};
wmma.load.sync.a.aligned.row.m16n16k16.global.f16 {r, r, r, r, r, r, r, r}, [rd];
wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {f, f, f, f, f, f, f, f}, [rd];
"""

# Versions with the targets that they are the first to know.
TARGETS = """
6.3 sm_75
7.0 sm_80
7.1 sm_86
7.4 sm_87
7.8 sm_89 sm_90
8.0 sm_90a
8.6 sm_100 sm_100a
8.7 sm_120 sm_120a
8.8 sm_100f sm_103 sm_103a sm_103f sm_120f sm_121 sm_121a sm_121f
9.0 sm_110 sm_110a sm_110f
"""
VERSIONS = ("6.2 6.3 6.4 6.5 7.0 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 "
            "9.0").split()
NO_TARGETS = "sm_73 sm_75a sm_80f sm_85 sm_90f sm_91 sm_102 sm_122 sm_130".split()

HEAD = """.version 8.7
.target sm_90
.address_size 64
.global .b8 bytes[16];
.const .b8 table[16];
.visible .entry k() {
.reg .f32 f; .reg .f64 d; .reg .b32 r; .reg .b64 rd; .reg .b128 w; .reg .b16 h; .reg .u32 u; .reg .s32 s; .reg .f16x2 xx; .reg .pred p;
"""
LINE = HEAD.count("\n") + 1
INVALID_PTX = 218


def text_of(instruction):
    return HEAD + instruction + "\nend: ret;\n}\n"


def text_for(target, version):
    return f".version {version}\n.target {target}\n.address_size 64\n.entry k() {{ ret; }}\n"


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
    """The set of instructions that ptxas finds an error in. It stops at some, and goes on behind."""
    refused = set()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "all.ptx")
        while instructions:
            with open(path, "w", encoding="ascii") as file:
                file.write(text_of("\n".join(instructions)))
            done = subprocess.run([ptxas, "-arch=sm_90", "-o", os.devnull, path],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            lines = [int(line) - LINE for line in re.findall(r"line (\d+); (?:error|fatal)", done.stdout)]
            lines = [i for i in lines if 0 <= i < len(instructions)]
            refused |= {instructions[i] for i in lines}
            instructions = instructions[max(lines) + 1:] if lines else []
    return refused


def target_known_to_ptxas(ptxas, target, version):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "target.ptx")
        with open(path, "w", encoding="ascii") as file:
            file.write(text_for(target, version))
        arch = target if target[-1] in "af" else "sm_121"
        return subprocess.run([ptxas, f"-arch={arch}", "-o", os.devnull, path], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0


def target_problems(driver, ptxas):
    """Each target is refused by the last version before its own; later ones know it."""
    cases = [(target, words[0], True) for words in map(str.split, TARGETS.strip().splitlines())
             for target in words[1:]]
    cases += [(target, VERSIONS[VERSIONS.index(version) - 1], False) for target, version, _ in cases]
    cases += [(target, "9.0", False) for target in NO_TARGETS]
    problems = []
    for target, version, known in cases:
        result, log = driver.load(text_for(target, version))
        # One that is known may be newer than the emulated device.
        refused = result == INVALID_PTX and "line 2" in log and "version" in log
        if refused == known:
            problems.append(f"{target} of version {version} gives {result} {log}")
        if ptxas and target_known_to_ptxas(ptxas, target, version) != known:
            problems.append(f"ptxas has it otherwise: {target} of version {version}")
    return problems


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
    problems += target_problems(driver, find_ptxas())
    print("\n".join(problems))
    print(f"{len(good)} good and {len(bad)} bad instructions, {len(problems)} problems"
          + ("" if ptxas else "; ptxas is not installed"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
