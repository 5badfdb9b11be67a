#!/usr/bin/env python3
"""Checks the table of the emulated driver's entry points, entry_points.def.

  check_entry_points.py SOURCE_ROOT

The table is what cuda.h declares, up to the version of the toolkit that is there; and every function that it
calls implemented is called by a test.
"""
import glob
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.abspath(sys.argv.pop())
DRIVER = os.path.join(ROOT, "src", "emulator", "driver")
TABLE = os.path.join(DRIVER, "entry_points.def")
# A row of the table: its kind, base name, symbol and version; PTSZ and PTDS add the form for the per-thread stream.
ROW = r"^(?:PTSZ\(|PTDS\()?(IMPLEMENTED|FORWARDED|MISSING)[(,] ?(\w+), (\w+), (\d+), \w+\)$"
VERSIONS = (13000, 13050)  # whose headers agree with their typedefs on what is how old
TESTS = ("tests/emulator/unit/driver/*.cpp", "tests/emulator/unit/driver/*.h",
         "tests/emulator/conformance/*.cpp", "tests/emulator/conformance/*.h")


def include_folder():
    finder = os.path.join(ROOT, "src", "device", "driver", "find_cuda.py")
    return subprocess.run([sys.executable, finder, "--driver"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class EntryPoints(unittest.TestCase):
    def test_the_table_has_what_cuda_h_declares(self):
        include = include_folder()
        version = int(re.search(r"#define CUDA_VERSION (\d+)", read(os.path.join(include, "cuda.h")))[1])
        if version not in VERSIONS:
            self.skipTest(f"cuda.h is of version {version}, the table is compared with {VERSIONS}")
        if not os.path.exists(os.path.join(include, "cudaTypedefs.h")):
            self.skipTest("beside cuda.h there are no headers of its typedefs")
        made = subprocess.run([sys.executable, os.path.join(DRIVER, "generate_entry_points.py"), include,
                               TABLE], stdout=subprocess.PIPE, text=True, check=True).stdout
        later = sum(int(row[3]) > version for row in re.findall(ROW, read(TABLE), re.M))
        self.assertEqual(later == 0, version == max(VERSIONS))
        kept = [line for line in read(TABLE).splitlines()
                if not (row := re.search(ROW, line)) or int(row[4]) <= version]
        self.assertEqual(made.splitlines(), kept)

    def test_every_function_that_is_implemented_is_called_by_a_test(self):
        text = "".join(read(path) for pattern in TESTS for path in glob.glob(os.path.join(ROOT, pattern)))
        words = set(re.findall(r"\bcu[A-Z]\w*", text))
        rows = [row[1:3] for row in re.findall(ROW, read(TABLE), re.M) if row[0] != "MISSING"]
        self.assertGreater(len(rows), 200)
        # cuda.h maps the base name to the newest ABI, which the conformance suite calls by it.
        missing = [symbol for base, symbol in rows if symbol not in words and base not in words]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
