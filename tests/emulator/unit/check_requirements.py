#!/usr/bin/env python3
"""Checks the emulator's table of least targets and versions against ptxas, where that is installed.

  check_requirements.py UNIT_EMULATOR_EXEC

Each instruction below is assembled for sm_30 at PTX 4.0; ptxas names every feature that this lacks, and
the highest target and version of those are what the table must say. Every row of the table must be
among them.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77

# Registers: f f32, d f64, r 32 bits, rd 64 bits, w 128 bits, h 16 bits, p predicate.
INSTRUCTIONS = """
ld.global.nc.f32 f, [rd];
ldu.global.f32 f, [rd];
ld.global.relaxed.gpu.u32 r, [rd];
ld.relaxed.gpu.global.u32 r, [rd];
ld.acquire.gpu.global.u32 r, [rd];
ld.acquire.sys.global.u32 r, [rd];
ld.acquire.cta.global.u32 r, [rd];
ld.weak.global.u32 r, [rd];
ld.relaxed.cluster.global.u32 r, [rd];
st.relaxed.gpu.global.u32 [rd], r;
st.release.gpu.global.u32 [rd], r;
st.weak.global.u32 [rd], r;
ld.mmio.relaxed.sys.global.u32 r, [rd];
ld.global.L1::no_allocate.u32 r, [rd];
ld.global.L1::evict_last.u32 r, [rd];
ld.global.L2::64B.u32 r, [rd];
ld.global.L2::128B.u32 r, [rd];
ld.global.L2::256B.u32 r, [rd];
ld.global.L2::cache_hint.u32 r, [rd], rd;
st.global.L1::evict_last.u32 [rd], r;
st.global.L2::cache_hint.u32 [rd], r, rd;
ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {f, f, f, f}, [rd];
ld.shared::cta.u32 r, [rd];
ld.shared::cluster.u32 r, [rd];
st.shared::cta.u32 [rd], r;
st.shared::cluster.u32 [rd], r;
atom.global.gpu.add.u32 r, [rd], r;
atom.global.cta.add.u32 r, [rd], r;
atom.global.sys.add.u32 r, [rd], r;
atom.relaxed.global.add.u32 r, [rd], r;
atom.acquire.global.add.u32 r, [rd], r;
atom.acq_rel.gpu.global.add.u32 r, [rd], r;
atom.relaxed.cluster.global.add.u32 r, [rd], r;
red.global.add.u32 [rd], r;
red.global.gpu.add.u32 [rd], r;
red.relaxed.gpu.global.add.u32 [rd], r;
red.global.add.f64 [rd], d;
red.global.add.noftz.f16x2 [rd], r;
red.global.add.noftz.f16 [rd], h;
red.global.add.noftz.bf16 [rd], h;
red.global.add.noftz.bf16x2 [rd], r;
red.global.min.u64 [rd], rd;
red.global.and.b64 [rd], rd;
red.global.max.s64 [rd], rd;
atom.global.add.L2::cache_hint.u32 r, [rd], r, rd;
atom.global.add.u64 rd, [rd], rd;
atom.shared.add.u64 rd, [rd], rd;
atom.global.cas.b64 rd, [rd], rd, rd;
atom.global.exch.b64 rd, [rd], rd;
atom.global.add.f32 f, [rd], f;
cp.async.ca.shared.global [r], [rd], 16, 8;
cp.async.ca.shared.global [r], [rd], 16, r;
cp.async.ca.shared.global.L2::128B [r], [rd], 16;
cp.async.ca.shared.global.L2::64B [r], [rd], 16;
cp.async.ca.shared.global.L2::256B [r], [rd], 16;
cp.async.ca.shared.global.L2::cache_hint [r], [rd], 16, rd;
cp.async.cg.shared::cta.global [r], [rd], 16;
prefetch.global.L1 [rd];
prefetch.global.L2 [rd];
prefetch.global.L2::evict_last [rd];
prefetchu.L1 [rd];
applypriority.global.L2::evict_normal [rd], 128;
discard.global.L2 [rd], 128;
mov.b128 w, w;
ld.global.b128 w, [rd];
st.global.b128 [rd], w;
atom.global.exch.b128 w, [rd], w;
mapa.u64 rd, rd, r;
mapa.shared::cluster.u32 r, r, r;
getctarank.u64 r, rd;
barrier.cluster.arrive;
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait;
barrier.cluster.wait.acquire;
mbarrier.init.shared.b64 [r], r;
mbarrier.inval.shared::cta.b64 [r];
mbarrier.arrive.shared.b64 rd, [r];
mbarrier.arrive.release.cta.shared::cta.b64 rd, [r];
mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [r], r;
mbarrier.arrive.noComplete.shared.b64 rd, [r], r;
mbarrier.arrive_drop.shared.b64 rd, [r];
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [r], r;
mbarrier.arrive.expect_tx.shared.b64 rd, [r], r;
mbarrier.test_wait.shared.b64 p, [r], rd;
mbarrier.test_wait.parity.shared.b64 p, [r], r;
mbarrier.try_wait.shared.b64 p, [r], rd;
mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [r], r;
mbarrier.pending_count.b64 r, rd;
cp.async.mbarrier.arrive.shared.b64 [r];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [r], [rd], 16, [r];
cp.async.bulk.global.shared::cta.bulk_group [rd], [r], 16;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
cp.async.bulk.prefetch.L2.global [rd], 16;
fence.proxy.async;
fence.proxy.async.shared::cta;
fence.mbarrier_init.release.cluster;
fence.proxy.alias;
alloca.u64 rd, rd;
stacksave.u64 rd;
stackrestore.u64 rd;
membar.gl;
membar.cta;
membar.sys;
fence.acq_rel.gpu;
fence.acq_rel.sys;
fence.sc.gpu;
fence.acq_rel.cluster;
fence.sc.cluster;
fence.acquire.cluster;
bar.sync 0;
bar.arrive 1, 32;
bar.red.popc.u32 r, 1, p;
barrier.sync 0;
barrier.sync.aligned 0;
barrier.arrive 1, 32;
barrier.red.popc.u32 r, 1, p;
barrier.cta.sync 0;
barrier.cta.sync.aligned 0;
bar.cta.sync 0;
bar.cta.red.popc.u32 r, 1, p;
bar.warp.sync -1;
cvta.global.u64 rd, rd;
cvta.shared::cluster.u64 rd, rd;
cvta.shared::cta.u64 rd, rd;
isspacep.global p, rd;
isspacep.shared::cta p, rd;
isspacep.shared::cluster p, rd;
isspacep.const p, rd;
nanosleep.u32 r;
pmevent 1;
griddepcontrol.wait;
griddepcontrol.launch_dependents;
elect.sync r|p, -1;
setp.eq.f16 p, h, h;
setp.eq.bf16 p, h, h;
setp.eq.f16x2 p|p, r, r;
setp.eq.bf16x2 p|p, r, r;
set.eq.f16.f16 h, h, h;
set.eq.u32.f16 r, h, h;
set.eq.bf16.bf16 h, h, h;
set.eq.f16x2.f16x2 r, r, r;
set.eq.u32.bf16 r, h, h;
set.eq.f16.u32 h, r, r;
set.eq.bf16x2.bf16x2 r, r, r;
cvt.f32.f16 f, h;
cvt.rn.f16.f32 h, f;
cvt.rn.relu.f16.f32 h, f;
cvt.rn.relu.bf16.f32 h, f;
cvt.rna.tf32.f32 r, f;
cvt.rn.tf32.f32 r, f;
cvt.rn.relu.tf32.f32 r, f;
cvt.rz.tf32.f32 r, f;
cvt.rn.satfinite.e4m3x2.f32 h, f, f;
cvt.rn.satfinite.e5m2x2.f32 h, f, f;
cvt.rn.f16x2.e4m3x2 r, h;
cvt.rn.relu.f16x2.e4m3x2 r, h;
cvt.rn.f16x2.f32 r, f, f;
cvt.rn.bf16x2.f32 r, f, f;
cvt.f32.bf16 f, h;
cvt.ftz.f32.bf16 f, h;
cvt.f64.bf16 d, h;
cvt.rn.bf16.f16 h, h;
cvt.rn.bf16.f32 h, f;
min.f16 h, h, h;
min.bf16 h, h, h;
min.ftz.f16 h, h, h;
min.NaN.f16 h, h, h;
min.xorsign.abs.f16 h, h, h;
min.xorsign.abs.bf16 h, h, h;
min.NaN.f32 f, f, f;
min.xorsign.abs.f32 f, f, f;
min.f32 f, f, f, f;
min.f32 f, f, f;
max.f32 f, f, f, f;
min.NaN.f32 f, f, f, f;
min.u16x2 r, r, r;
min.s16x2 r, r, r;
min.relu.s16x2 r, r, r;
max.relu.s32 r, r, r;
add.u16x2 r, r, r;
add.f16 h, h, h;
add.rn.f16 h, h, h;
add.bf16 h, h, h;
sub.bf16x2 r, r, r;
mul.bf16 h, h, h;
mul.f16 h, h, h;
fma.rn.bf16 h, h, h, h;
fma.rn.relu.f16 h, h, h, h;
fma.rn.f32 f, f, f, f;
fma.rn.f64 d, d, d, d;
fma.rn.ftz.f32 f, f, f, f;
mad.rn.f32 f, f, f, f;
add.f32x2 rd, rd, rd;
add.rn.f32 f, f, f;
neg.f16 h, h;
neg.bf16 h, h;
neg.ftz.f16 h, h;
abs.f16 h, h;
abs.bf16 h, h;
tanh.approx.f32 f, f;
tanh.approx.f16 h, h;
tanh.approx.bf16 h, h;
ex2.approx.f16 h, h;
ex2.approx.ftz.bf16 h, h;
ex2.approx.f32 f, f;
ex2.approx.ftz.f32 f, f;
rcp.approx.ftz.f64 d, d;
rsqrt.approx.ftz.f64 d, d;
rsqrt.approx.f64 d, d;
rcp.rn.f32 f, f;
rcp.rn.f64 d, d;
sqrt.rn.f32 f, f;
div.rn.f32 f, f, f;
div.full.f32 f, f, f;
div.approx.f32 f, f, f;
testp.finite.f32 p, f;
copysign.f32 f, f, f;
bfe.u32 r, r, r, r;
bfi.b32 r, r, r, r, r;
bfind.u32 r, r;
brev.b32 r, r;
clz.b32 r, r;
popc.b32 r, r;
prmt.b32 r, r, r, r;
bmsk.clamp.b32 r, r, r;
szext.clamp.u32 r, r, r;
fns.b32 r, r, r, r;
lop3.b32 r, r, r, r, 1;
lop3.or.b32 r|p, r, r, r, 1, p;
shf.l.wrap.b32 r, r, r, r;
dp4a.u32.u32 r, r, r, r;
dp2a.lo.u32.u32 r, r, r, r;
sad.u32 r, r, r, r;
mad24.lo.u32 r, r, r, r;
add.cc.u32 r, r, r;
addc.u32 r, r, r;
sub.cc.u32 r, r, r;
mad.lo.cc.u32 r, r, r, r;
madc.lo.u32 r, r, r, r;
add.cc.u64 rd, rd, rd;
mad.lo.cc.u64 rd, rd, rd, rd;
cvta.param.u64 rd, rd;
isspacep.param p, rd;
isspacep.param::entry p, rd;
brx.idx r, ways;
madc.hi.u64 rd, rd, rd, rd;
shfl.sync.idx.b32 r, r, r, 31, -1;
vote.sync.all.pred p, p, -1;
match.any.sync.b32 r, r, -1;
redux.sync.add.u32 r, r, -1;
activemask.b32 r;
ld.global.v4.u64 {rd, rd, rd, rd}, [rd];
ld.global.v8.f32 {f, f, f, f, f, f, f, f}, [rd];
ld.volatile.global.u32 r, [rd];
ld.global.ca.u32 r, [rd];
ld.global.cv.u32 r, [rd];
st.global.wb.u32 [rd], r;
trap;
brkpt;
exit;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r}, [rd];
mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {r, r}, {r}, {r}, {r, r};
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f, f, f, f}, {r, r, r, r}, {r, r}, {f, f, f, f};
slct.b32.s32 r, r, r, r;
cnot.b32 r, r;
set.eq.u32.u32 r, r, r;
cvt.rm.bf16.f32 h, f;
cvt.rz.f16x2.f32 r, f, f;
cvt.rn.relu.bf16x2.f32 r, f, f;
cvt.rn.f16.bf16 h, h;
cvt.rz.relu.f16.f32 h, f;
cvt.rzi.bf16.bf16 h, h;
cvt.bf16.bf16 h, h;
cvt.rni.f16.f16 h, h;
ex2.approx.f16x2 r, r;
max.ftz.NaN.f16x2 r, r, r;
fma.rn.ftz.relu.f16 h, h, h, h;
fma.rn.ftz.f16 h, h, h, h;
mad.wide.u32 rd, r, r, rd;
atom.global.noftz.add.f16x2 r, [rd], r;
atom.cas.b16 h, [rd], h, h;
mul.rn.bf16 h, h, h;
add.rn.ftz.f32 f, f, f;
max.xorsign.abs.f16x2 r, r, r;
max.NaN.xorsign.abs.f32 f, f, f;
abs.ftz.f16 h, h;
abs.bf16x2 r, r;
neg.bf16x2 r, r;
tanh.approx.f16x2 r, r;
bar.red.and.pred p, 1, p;
barrier.cta.red.and.pred p, 1, p;
cp.async.wait_all;
cp.async.commit_group;
vote.sync.ballot.b32 r, p, -1;
match.all.sync.b32 r|p, r, -1;
set.eq.f32.u32 f, r, r;
setp.eq.and.f16 p, h, h, p;
ld.global.nc.L2::cache_hint.f32 f, [rd], rd;
ld.global.L1::evict_unchanged.u32 r, [rd];
ld.param::entry.u32 r, [rd];
ld.const.u32 r, [rd];
membar.proxy.alias;
ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {r}, [rd];
stmatrix.sync.aligned.m8n8.x1.shared.b16 [rd], {r};
stmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 [rd], {r, r};
movmatrix.sync.aligned.m8n8.trans.b16 r, r;
szext.wrap.s32 r, r, r;
mad24.hi.sat.s32 r, r, r, r;
max.relu.s16x2 r, r, r;
min.abs.f32 f, f, f, f;
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {f, f, f, f}, {r, r}, {r}, {f, f, f, f};
mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {f, f, f, f}, {r, r}, {r}, {f, f, f, f};
mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {f, f, f, f}, {r, r}, {r}, {f, f, f, f};
mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {r, r, r, r}, {r, r, r, r}, {r, r}, {r, r, r, r};
mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {f, f, f, f, f, f, f, f}, {r, r}, {r, r}, {f, f, f, f, f, f, f, f};
wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {r, r, r, r, r, r, r, r}, [rd];
wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {r, r}, [rd];
wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {r, r, r, r, r, r, r, r}, [rd];
wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {r, r, r, r}, [rd];
wmma.load.c.sync.aligned.row.m16n16k8.global.f32 {f, f, f, f, f, f, f, f}, [rd];
wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {f, f, f, f, f, f, f, f}, {r, r, r, r, r, r, r, r}, {r, r, r, r, r, r, r, r}, {f, f, f, f, f, f, f, f};
wmma.mma.sync.aligned.row.row.m16n16k8.f32.tf32.tf32.f32 {f, f, f, f, f, f, f, f}, {r, r, r, r}, {r, r, r, r}, {f, f, f, f, f, f, f, f};
"""

# Compared where ptxas knows the version that brought them.
NEWER = {"ld.volatile.local.u32 r, [rd];": 91, "st.local.volatile.u32 [rd], r;": 91}

DECLARATIONS = (".reg .f32 f; .reg .f64 d; .reg .b32 r; .reg .b64 rd; .reg .b128 w; .reg .b16 h; .reg .pred p;")


TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "src", "emulator", "decode",
                     "requirements.def")


def split(instruction):
    """Opcode and number of operands."""
    name, _, operands = instruction.rstrip(";").partition(" ")
    operands = re.sub(r"\{[^}]*\}", "v", operands)
    return name, operands.count(",") + 1 if operands else 0


def rows():
    """[(text, mnemonics, modifiers as a pattern, number of operands or None)] of the table."""
    found = []
    with open(TABLE, encoding="utf-8") as table:
        for line in table:
            match = re.match(r'NEEDS(?:_EITHER|_OPERANDS)?\("([^"]*)", (?:"([^"]*)"|(\d+))', line)
            if not match:
                continue
            parts = (match[2] or "").split()
            pattern = "".join(r"(?:\.[^.]+)*?\.(?:" + part.replace("*", "[^.]*") + ")" for part in parts)
            found.append((line.strip(), match[1].split(), pattern + r"(?:\..*)?$",
                          int(match[3]) if match[3] else None))
    return found


def rows_without_instruction(instructions):
    asked = [split(instruction) for instruction in instructions]
    return [text for text, mnemonics, pattern, count in rows()
            if not any(name.split(".")[0] in mnemonics and count in (None, operands)
                       and re.match(pattern, name[len(name.split(".")[0]):])
                       for name, operands in asked)]


def find_ptxas():
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    return shutil.which("ptxas") or shutil.which(os.path.join(home, "bin", "ptxas"))


def newest_version(ptxas, folder):
    """Of PTX, that ptxas takes: 90 is 9.0."""
    path = os.path.join(folder, "newest.ptx")
    with open(path, "w", encoding="ascii") as file:
        file.write(".version 99.9\n.target sm_90\n")
    done = subprocess.run([ptxas, "-arch=sm_90", "-o", os.devnull, path],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = re.search(r"current version is '(\d+)\.(\d)'", done.stdout)
    return int(found[1]) * 10 + int(found[2])


def messages(ptxas, instructions, target, version, folder):
    """[(index of the instruction, what ptxas says)]."""
    path = os.path.join(folder, "all.ptx")
    head = (f".version {version}\n.target {target}\n.address_size 64\n"
            f".entry k() {{ {DECLARATIONS}\nways: .branchtargets end;\n")
    with open(path, "w", encoding="ascii") as file:
        file.write(head + "\n".join(instructions) + "\nend: ret;\n}\n")
    done = subprocess.run([ptxas, "-arch=sm_100", "-o", os.devnull, path],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    first_line = head.count("\n") + 1
    found = re.findall(r"line (\d+); \w+\s*: (.*)", done.stdout)
    return [(int(line) - first_line, message) for line, message in found if int(line) >= first_line]


def asked_by_ptxas(ptxas, instructions, folder):
    """{index: (target, version)}."""
    needs = {}
    for index, message in messages(ptxas, instructions, "sm_30", "4.0", folder):
        target, version = needs.get(index, (0, 0))
        if found := re.search(r"\.version (\d+)\.(\d)", message):
            version = max(version, int(found[1]) * 10 + int(found[2]))
        elif found := re.search(r"requires \.target (?:sm_)?(\d+)", message):
            target = max(target, int(found[1]))
        needs[index] = (target, version)
    return needs


def asked_by_emulator(program, instructions, folder):
    """[(target, version)] as the table has them."""
    asked, answers = os.path.join(folder, "asked"), os.path.join(folder, "answers")
    with open(asked, "w", encoding="ascii") as file:
        for instruction in instructions:
            file.write("{} {}\n".format(*split(instruction)))
    subprocess.run([program, "[.requirements]"], check=True, stdout=subprocess.DEVNULL,
                   env=os.environ | {"CUGRT_TEST_OPCODES": asked, "CUGRT_TEST_ANSWERS": answers})
    result = []
    with open(answers, encoding="ascii") as lines:
        for line in lines:
            needs = line.partition(", and the module")[0]
            target = re.search(r"sm_(\d+)", needs)
            version = re.search(r"\.version (\d+)\.(\d)", needs)
            result.append((int(target[1]) if target else 0,
                           int(version[1]) * 10 + int(version[2]) if version else 0))
    return result


def main():
    ptxas = find_ptxas()
    if not ptxas:
        print("ptxas is not installed")
        return SKIPPED
    instructions = [line for line in INSTRUCTIONS.strip().splitlines() if line]
    unknown = []  # to this ptxas
    with tempfile.TemporaryDirectory() as folder:
        newest = newest_version(ptxas, folder)
        for instruction, version in NEWER.items():
            (instructions if version <= newest else unknown).append(instruction)
        needs = asked_by_ptxas(ptxas, instructions, folder)
        wrong = messages(ptxas, instructions, "sm_100", f"{newest // 10}.{newest % 10}", folder)
        table = asked_by_emulator(sys.argv[1], instructions + unknown, folder)
    problems = [f"ptxas refuses {instructions[i]}: {message}" for i, message in wrong]
    problems += [f"no instruction here is for {row}" for row in rows_without_instruction(instructions + unknown)]
    needs |= {len(instructions) + i: (0, NEWER[line]) for i, line in enumerate(unknown)}
    for index, instruction in enumerate(instructions + unknown):
        theirs = needs.get(index, (0, 0))
        if table[index] != theirs:
            problems.append(f"{instruction} needs {theirs} by ptxas and {table[index]} here")
    print("\n".join(problems))
    print(f"{len(instructions)} instructions compared, {len(problems)} differ")
    return 1 if problems or not needs else 0


if __name__ == "__main__":
    sys.exit(main())
