#!/usr/bin/env python3
"""Writes letter_case.inc: how Python's str changes letters, by the Unicode version of the Python that runs it.

  make_letter_case.py > letter_case.inc
"""
import sys
import unicodedata

METHODS = {"Lower": str.lower, "Upper": str.upper, "Title": str.title}


def letters():
    return (code for code in range(0x80, 0x110000) if not 0xd800 <= code < 0xe000)


def runs(change):
    """First, last, step and difference of letters that change to one letter each."""
    found = []
    for code in letters():
        changed = change(chr(code))
        if len(changed) != 1 or changed == chr(code):
            continue
        by = ord(changed) - code
        run = found[-1] if found else None
        if run and run[3] == by and (code - run[1] == run[2] or run[0] == run[1] and code - run[1] <= 2):
            run[1:3] = code, code - run[1]
        else:
            found.append([code, code, 1, by])
    return found


def write(name, rows, width):
    print(f"constexpr {name} = {{")
    for i in range(0, len(rows), width):
        print("    " + ", ".join(rows[i:i + width]) + ",")
    print("};")


print(f"// Made by make_letter_case.py with Python {sys.version_info[0]}.{sys.version_info[1]}, of Unicode {unicodedata.unidata_version}.")
print("// First and last code point, the step between, and what is added.")
for name, change in METHODS.items():
    write(f"Run k{name}Runs[]", [f"{{0x{a:x}, 0x{b:x}, {step}, {by}}}" for a, b, step, by in runs(change)], 4)
print("// Letters that change to several.")
for name, change in METHODS.items():
    several = [(code, change(chr(code))) for code in letters() if len(change(chr(code))) > 1]
    write(f"Several k{name}Several[]",
          [f"{{0x{code:x}, {{{len(to)}, {{{', '.join(f'0x{ord(c):x}' for c in to)}}}}}}}" for code, to in several], 3)
