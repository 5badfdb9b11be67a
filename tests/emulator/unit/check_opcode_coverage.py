#!/usr/bin/env python3
"""Checks that every row of the emulator's opcode table is executed by a test.

  check_opcode_coverage.py TEST_EXECUTABLE...

Runs the executables with CUGRT_EMU_COVERAGE and prints, by mnemonic, how many rows they executed, and
the names of those that none did.
"""
import collections
import os
import subprocess
import sys
import tempfile


def main():
    executed, rows = set(), {}
    with tempfile.TemporaryDirectory() as folder:
        for program in sys.argv[1:]:
            file = os.path.join(folder, os.path.basename(program))
            result = subprocess.run([program], env=os.environ | {"CUGRT_EMU_COVERAGE": file},
                                    stdout=subprocess.PIPE, text=True)
            if result.returncode != 0:
                print(result.stdout)
                return f"{program} fails"
            with open(file, encoding="ascii") as lines:
                for line in lines:
                    names = line[2:].strip()
                    rows[names] = None
                    if line[0] == "+":
                        executed.add(names)
    by_mnemonic = collections.defaultdict(lambda: [0, 0])
    for names in rows:
        count = by_mnemonic[names.split()[0].split(".")[0]]
        count[0] += names in executed
        count[1] += 1
    print("\n".join(f"{mnemonic:16}{done:4} of {all_rows}"
                    for mnemonic, (done, all_rows) in sorted(by_mnemonic.items())))
    missing = [names for names in rows if names not in executed]
    print("\n".join(f"no test executes: {names}" for names in missing))
    print(f"{len(executed)} of {len(rows)} rows of the opcode table are executed by tests")
    return 1 if missing or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
