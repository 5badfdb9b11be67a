#!/usr/bin/env python3
"""Faults planted into a decode step of one launch: what the emulated driver and the runtime say of them.

  check_persistent_faults.py CUGRT_TOOL KERNELS_FOLDER

A word goes out without its step, a block waits for nobody where it must, a slot of a ring is read before its copy has
come, blocks that wait for one another are no cooperative launch: each may go well on a device for long. Each fault
must be found and named, and nothing where there is none.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

KERNELS = os.path.abspath(sys.argv.pop())
TOOL = os.path.abspath(sys.argv.pop())
sys.path.insert(0, KERNELS)
import embed  # noqa: E402

LAYERS, CAPACITY, AT, ROWS, HEAD = 1, 70, 65, 2, 32
SIZES = {"scale": [64], "headscale": [HEAD], "wq": [4 * HEAD, 64], "wk": [2 * HEAD, 64], "wv": [2 * HEAD, 64],
         "wo": [64, 4 * HEAD], "wg": [96, 64], "wu": [96, 64], "wd": [64, 96]}
CACHE = [1, CAPACITY, 2, HEAD]


def tensor(dims, dtype):
    return f"tensor<[{', '.join(map(str, dims))}], {dtype}>"


def decoder():
    """A step of two rows of one sequence in f16, whose heads are normed, with its inputs."""
    inputs = {"x": tensor([ROWS, 64], "f16"), **dict.fromkeys(("positions", "lengths", "rows"), tensor([ROWS], "i32"))}
    lines, x = [], "x"
    for i in range(LAYERS):
        inputs.update({f"{name}{i}": "inout " + tensor(CACHE, "f16") for name in ("keys", "values")})
        inputs.update({f"{name}{i}": tensor(dims, "f16") for name, dims in SIZES.items()})
        lines += [f"%h{i} = rms_norm(%{x}, %scale{i})"]
        lines += [f"%{side}{i} = matmul(%h{i}, %w{side}{i}) {{transpose_b = true}}" for side in "qkv"]
        for side, heads in (("q", 4), ("k", 2)):
            lines += [f"%{side}r{i} = reshape(%{side}{i}) {{shape = [{ROWS}, {heads}, {HEAD}]}}",
                      f"%{side}n{i} = rms_norm(%{side}r{i}, %headscale{i})",
                      f"%{side}t{i} = rotary(%{side}n{i}, %positions)",
                      f"%{side}s{i} = reshape(%{side}t{i}) {{shape = [{ROWS}, 1, {heads}, {HEAD}]}}"]
        lines += [f"%vs{i} = reshape(%v{i}) {{shape = [{ROWS}, 1, 2, {HEAD}]}}",
                  f"%kc{i} = cache_write(%keys{i}, %ks{i}, %rows, %positions, %lengths)",
                  f"%vc{i} = cache_write(%values{i}, %vs{i}, %rows, %positions, %lengths)",
                  f"%a{i} = attention(%qs{i}, %kc{i}, %vc{i}, %lengths, none, %rows) {{causal = true}}",
                  f"%as{i} = reshape(%a{i}) {{shape = [{ROWS}, {4 * HEAD}]}}",
                  f"%o{i} = matmul(%as{i}, %wo{i}) {{transpose_b = true}}",
                  f"%r{i} = add(%{x}, %o{i})",
                  f"%m{i} = rms_norm(%r{i}, %scale{i})",
                  f"%g{i} = matmul(%m{i}, %wg{i}) {{transpose_b = true}}",
                  f"%u{i} = matmul(%m{i}, %wu{i}) {{transpose_b = true}}",
                  f"%e{i} = silu(%g{i})",
                  f"%p{i} = mul(%e{i}, %u{i})",
                  f"%d{i} = matmul(%p{i}, %wd{i}) {{transpose_b = true}}",
                  f"%y{i} = add(%r{i}, %d{i})"]
        x = f"y{i}"
    text = (f"cugrt 1\nfunc @main({', '.join(f'%{name}: {kind}' for name, kind in inputs.items())}) -> "
            f"({tensor([ROWS, 64], 'f16')}) {{\n  " + "\n  ".join(lines) + f"\n  return %{x}\n}}\n")
    return text, list(inputs)


def write_wholes(path, values):
    """A .npy file of i32."""
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}i", *values))


class PersistentFaults(unittest.TestCase):
    def ran(self, fault=None, order="1"):
        """A run of the step; `fault`: a part of the kernel's text, and what stands there instead."""
        text, inputs = decoder()
        options = ("target.compute_capability=90", "target.multiprocessors=132")
        made = subprocess.run([TOOL, "opt", "-", *[a for x in options for a in ("--option", x)]], input=text,
                              capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        named = '#include "builtin:persistent.cuh"\n'
        self.assertEqual(made.stdout.count(named), 1)
        header = "\n".join(embed.expanded(os.path.join(KERNELS, "language", "persistent.cuh"), set()))
        module = made.stdout.replace(named, "#define MOST_TRIES 100000\n" + header + "\n")
        if fault:
            self.assertEqual(len(re.findall(fault[0], module)), 1, fault[0])
            module = re.sub(*fault, module)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "module.cugrt")
            with open(path, "w") as file:
                file.write(module)
            values = dict.fromkeys(inputs, "random")
            for name, wholes in (("positions", (AT, AT + 1)), ("lengths", (AT + 1, AT + 2)), ("rows", (0, 0))):
                values[name] = os.path.join(folder, name + ".npy")
                write_wholes(values[name], wholes)
            return subprocess.run([TOOL, "run", path, "--repeat", "2",
                                   *[a for x in values.items() for a in ("--input", "=".join(x))]],
                                  capture_output=True, text=True,
                                  env=dict(os.environ, CUGRT_DRIVER="emulated", CUGRT_EMU_REPORT="stderr",
                                           CUGRT_EMU_CHECK="race,bounds,uninitialized,polling", CUGRT_EMU_ORDER=order))

    def findings(self, ran):
        return [line for line in ran.stderr.splitlines() if line.startswith("cugrt-emu: ")]

    def test_none(self):
        for order in "12":
            ran = self.ran(order=order)
            self.assertEqual((ran.returncode, self.findings(ran)), (0, []), ran.stderr)

    def test_a_word_without_its_step(self):
        ran = self.ran((r"u64\(step\) << 32 \| bits", "u64(step - 1) << 32 | bits"))
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("gave up waiting", ran.stderr)

    def test_rows_of_a_cache_without_their_word(self):
        ran = self.ran((r"if \(thread == 0\)\n( *)asm volatile\(\"st\.release", r'if (false)\n\1asm volatile("st.release'))
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("gave up waiting", ran.stderr)

    def test_a_tile_of_a_cache_that_nobody_awaits(self):
        ran = self.ran((r"!is_of\(load_acquire\(words \+ i\), step\)", "false"))
        named = [line for line in self.findings(ran) if "race: " in line and "of the same cooperative grid" in line]
        self.assertTrue(named, ran.stderr)

    def test_a_normal_grid_that_polls(self):
        ran = self.ran((r"(?m)^(  launch \{.*) cooperative \}\n(?:  launch \{.*\}\n)+", r"\1 }\n"))
        of = "polling: kernel decode_persistent_f16, block "
        named = [line for line in self.findings(ran) if of in line and "waits for what is written" in line]
        self.assertTrue(named, ran.stderr)

    def test_a_slot_is_read_too_early(self):
        ran = self.ran((r"wait_for_copies<kSlots - 1>\(\);", "wait_for_copies<kSlots + 1>();"))
        named = [line for line in self.findings(ran) if "in kernel decode_persistent_f16," in line]
        self.assertTrue(named, ran.stderr)


if __name__ == "__main__":
    unittest.main()
