#!/usr/bin/env python3
"""Checks cugrt emulate as a user meets it.

  check_emulate.py CUGRT_TOOL

The programs that it runs are Python with ctypes: they know of CUDA's driver and of nothing else.
"""
import os
import signal
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.abspath(sys.argv.pop())

DRIVER = r"""
import ctypes, sys
driver = ctypes.CDLL("libcuda.so.1")
def check(result):
    if result:
        sys.exit(f"CUresult {result}")
check(driver.cuInit(0))
name = ctypes.create_string_buffer(99)
check(driver.cuDeviceGetName(name, 99, 0))
"""

LEAVES_THE_BLOCK = DRIVER + r"""
PTX = b'''.version 8.0
.target sm_80
.address_size 64
.visible .entry over(.param .u64 p) {
.reg .b64 %rd<3>;
ld.param.u64 %rd1, [p];
st.global.u64 [%rd1+4096], %rd1;
ret;
}
'''
context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
address = ctypes.c_uint64()
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(driver.cuCtxSetCurrent(context))
check(driver.cuModuleLoadData(ctypes.byref(module), PTX))
check(driver.cuModuleGetFunction(ctypes.byref(function), module, b"over"))
check(driver.cuMemAlloc_v2(ctypes.byref(address), 64))
params = (ctypes.c_void_p * 1)(ctypes.addressof(address))
check(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, params, None))
sys.exit(driver.cuCtxSynchronize() % 256)
"""


def machine_of(path):
    """The field of an ELF file that names the processor it is for."""
    with open(os.path.realpath(path), "rb") as file:
        return file.read(20)[18:]


# A build for another machine runs here by emulation; this Python cannot load its library.
loads_the_driver = unittest.skipIf(machine_of(TOOL) != machine_of(sys.executable),
                                   "the build is for another machine than this Python")


def emulate(*words, text=None, **variables):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("CUGRT_") and name != "LD_LIBRARY_PATH"}
    return subprocess.run([TOOL, "emulate", *words], env={**environment, **variables}, input=text,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                          check=False)


def python(program, *words, **variables):
    return emulate(sys.executable, "-c", program, *words, **variables)


class Emulate(unittest.TestCase):
    @loads_the_driver
    def test_the_program_finds_the_emulated_driver_as_libcuda(self):
        done = python(DRIVER + "print(name.value.decode())")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("EMULATED", done.stdout)

    @loads_the_driver
    def test_it_is_found_under_the_name_without_a_version_too(self):
        done = python(DRIVER.replace("libcuda.so.1", "libcuda.so") + "print(name.value.decode())")
        self.assertIn("EMULATED", done.stdout)

    @loads_the_driver
    def test_a_program_linked_with_the_drivers_file_starts(self):
        # The linker writes down the name that the library calls itself.
        done = python(DRIVER.replace("libcuda.so.1", "libcugrt-emu.so"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    @loads_the_driver
    def test_a_variable_that_makes_no_sense_is_told_on_stderr(self):
        done = python(DRIVER, CUGRT_EMU_DEVICE="sm_42")
        self.assertEqual((done.returncode, done.stderr.splitlines()[0]),
                         (1, "cugrt-emu: refused: CUGRT_EMU_DEVICE=sm_42 is not understood: give a "
                             "device profile such as sm_80 or sm_90"))

    def test_cugrt_itself_prints_no_report_and_gives_the_reason_in_its_error(self):
        done = subprocess.run([TOOL, "doctor"], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, check=False,
                              env={**os.environ, "CUGRT_DRIVER": "emulated",
                                   "CUGRT_EMU_DEVICE": "sm_42"})
        self.assertIn("CUGRT_EMU_DEVICE=sm_42 is not understood", done.stdout + done.stderr)
        self.assertNotIn("cugrt-emu:", done.stderr)

    def test_output_input_and_exit_status_are_the_programs_own(self):
        done = emulate("sh", "-c", "cat; echo seen; echo told >&2; exit 42", text="given ")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (42, "given seen\n", "told\n"))

    def test_a_signal_that_ends_the_program_is_seen(self):
        self.assertEqual(emulate("sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)

    def test_words_that_look_like_options_are_the_programs(self):
        words = ["run", "--help", "--", "-h", "", "a b"]
        for before in ([], ["--"]):
            done = emulate(*before, sys.executable, "-c", "import sys; print(sys.argv[1:])", *words)
            self.assertEqual((done.returncode, done.stdout), (0, f"{words}\n"))

    def test_what_was_on_the_loaders_path_stays_behind_the_driver(self):
        done = emulate("sh", "-c", "echo $LD_LIBRARY_PATH", LD_LIBRARY_PATH="/one:/two")
        self.assertRegex(done.stdout, r"/cugrt-emu:/one:/two\n$")

    def test_a_command_that_is_missing_is_127_and_one_that_cannot_run_is_126(self):
        missing = emulate("no-such-command-anywhere")
        self.assertEqual(missing.returncode, 127)
        self.assertIn("no-such-command-anywhere: no such command", missing.stderr)
        with tempfile.NamedTemporaryFile() as file:
            self.assertEqual(emulate(file.name).returncode, 126)

    def test_no_command_is_an_error_that_says_what_to_give(self):
        for words in ([], ["--"], [""]):
            done = emulate(*words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("emulate needs a command", done.stderr)

    def test_an_emulator_that_is_none_is_refused(self):
        done = emulate("true", CUGRT_EMULATOR="/nowhere/libx.so")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/libx.so", done.stderr)

    @loads_the_driver
    def test_an_access_out_of_bounds_is_told_on_stderr_and_in_the_programs_error(self):
        done = python(LEAVES_THE_BLOCK)
        self.assertEqual(done.returncode, 700 % 256)
        self.assertRegex(done.stderr, r"^cugrt-emu: fault: out-of-bounds 8-byte access to global "
                         r"address 0x[0-9a-f]+ in kernel over, block \(0, 0, 0\), thread \(0, 0, 0\), "
                         r"at ptx line 7\n$")

    @loads_the_driver
    def test_reports_go_where_the_environment_says(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "findings")
            done = python(LEAVES_THE_BLOCK, CUGRT_EMU_REPORT=path)
            self.assertEqual(done.stderr, "")
            with open(path) as file:
                self.assertIn("fault: out-of-bounds", file.read())


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    sys.stderr.flush()
    skipped = len(result.skipped)
    print(f"{result.testsRun - bad - skipped} passed, {bad} failed, {skipped} skipped")
    sys.exit(1 if bad else 0)
