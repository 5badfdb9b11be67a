#!/usr/bin/env python3
"""Faults planted into the kernels of attention and of few rows: what the emulated driver's checks say of them.

  check_planted_faults.py CUGRT_TOOL KERNELS_FOLDER

A tile, or a slot of a ring, is read before its copies are waited for, or a barrier is missing between warps: both may
go well on a device for long. Each fault must be found in the kernel that has it, and nothing where there is none.
"""
import os
import subprocess
import sys
import tempfile
import unittest

KERNELS = os.path.abspath(sys.argv.pop())
TOOL = os.path.abspath(sys.argv.pop())
sys.path.insert(0, KERNELS)
import embed  # noqa: E402

STEP = """cugrt 1
func @main(%q: tensor<[2, 1, 8, 64], f16>, %k: tensor<[2, 700, 2, 64], f16>, %v: tensor<[2, 700, 2, 64], f16>)
    -> (tensor<[2, 1, 8, 64], f16>) {
  %y = attention(%q, %k, %v) {causal = true}
  return %y
}
"""
PROMPT = """cugrt 1
func @main(%q: tensor<[1, 130, 4, 64], f16>, %k: tensor<[1, 200, 2, 64], f16>, %v: tensor<[1, 200, 2, 64], f16>)
    -> (tensor<[1, 130, 4, 64], f16>) {
  %y = attention(%q, %k, %v) {causal = true}
  return %y
}
"""
# Rings of four slots, of which a warp fills more than one a second time.
FEW = """cugrt 1
func @main(%q: tensor<[1, 4096], DTYPE>, %k: tensor<[48, 4096], DTYPE>) -> (tensor<[1, 48], DTYPE>) {
  %y = matmul(%q, %k) {transpose_b = true}
  return %y
}
"""


class Planted(unittest.TestCase):
    def findings(self, module, source, fault=None, order="1"):
        """What the checks report when the module runs with the kernel's text, `fault` planted: a text and another."""
        made = subprocess.run([TOOL, "opt", "-", "--pass", "LegalizeOps"], input=module, capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        text = "\n".join(embed.expanded(os.path.join(KERNELS, self.FAMILY, source), set()))
        if fault:
            self.assertEqual(text.count(fault[0]), 1, fault[0])
            text = text.replace(*fault)
        named = f'  source "builtin:{source}"\n'
        self.assertIn(named, made.stdout)
        inline = made.stdout.replace(named, f'  inline """\n{text}\n  """\n')
        with tempfile.NamedTemporaryFile("w", suffix=".cugrt") as file:
            file.write(inline)
            file.flush()
            ran = subprocess.run([TOOL, "run", file.name, *[a for x in "qkv" if f"%{x}: " in module for a in ("--input", x + "=random")]],
                                 capture_output=True, text=True,
                                 env=dict(os.environ, CUGRT_DRIVER="emulated", CUGRT_EMU_REPORT="stderr",
                                          CUGRT_EMU_CHECK="race,bounds,uninitialized", CUGRT_EMU_ORDER=order))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return [line for line in ran.stderr.splitlines() if line.startswith("cugrt-emu: ")]

    def names(self, kernel, check, module, source, fault):
        found = self.findings(module, source, fault)
        named = [line for line in found if line.startswith(f"cugrt-emu: {check}:") and f"in kernel {kernel}," in line]
        self.assertTrue(named, found)


class AttentionFaults(Planted):
    FAMILY = "attention"

    def test_none(self):
        for order in "12":
            self.assertEqual(self.findings(STEP, "attention_grouped.cu", order=order), [])
            self.assertEqual(self.findings(PROMPT, "attention.cu", order=order), [])
        self.assertEqual(self.findings(STEP.replace("700", "90"), "attention_grouped.cu"), [])

    def test_step_reads_a_stage_too_early(self):
        self.names("attention_grouped", "uninitialized", STEP, "attention_grouped.cu",
                   ("wait_for_copies<STAGES - 2>();", "wait_for_copies<STAGES - 1>();"))

    def test_step_joins_warps_without_a_barrier(self):
        self.names("attention_grouped", "race", STEP, "attention_grouped.cu",
                   ("* kWarpBytes));\n    MEET();", "* kWarpBytes));"))

    def test_prompt_reads_keys_too_early(self):
        self.names("attention_mma", "uninitialized", PROMPT, "attention.cu",
                   ("wait_for_copies<1>();\n    __syncthreads(); // keys",
                    "wait_for_copies<2>();\n    __syncthreads(); // keys"))

    def test_prompt_reads_other_warps_values_without_a_barrier(self):
        self.names("attention_mma", "uninitialized", PROMPT, "attention.cu",
                   ("__syncthreads(); // values are there", ""))


class RingFaults(Planted):
    FAMILY = "linear"

    def test_none(self):
        for dtype in ("f16", "f32"):
            self.assertEqual(self.findings(FEW.replace("DTYPE", dtype), "matmul.cu"), [])

    def test_a_slot_is_read_too_early(self):
        for dtype in ("f16", "f32"):
            self.names("matmul_stream_1", "uninitialized", FEW.replace("DTYPE", dtype), "matmul.cu",
                       ("wait_for_copies<kSlots - 1>();", "wait_for_copies<kSlots>();"))

    def test_a_slot_is_read_too_early_when_it_is_used_again(self):
        for dtype in ("f16", "f32"):  # each slot's first unit is waited for
            self.names("matmul_stream_1", "uninitialized", FEW.replace("DTYPE", dtype), "matmul.cu",
                       ("wait_for_copies<kSlots - 1>();",
                        "if (left + 2 * kSlots > int(count) * own)\n  wait_for_copies<kSlots - 1>();"))


if __name__ == "__main__":
    unittest.main()
