#!/usr/bin/env python3
"""Writes categories.inc: ranges of code points that are letters and numbers, as Unicode 16 has them.

  pip install unicodedata2==16.0.0 && make_categories.py > categories.inc
"""
import unicodedata2

assert unicodedata2.unidata_version == "16.0.0"


def ranges(category):
    found = []
    for code in range(0x110000):
        if unicodedata2.category(chr(code))[0] != category:
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


print("// Made by make_categories.py from Unicode 16.0.0: first and last code point of each range.")
for name, category in (("kLetters", "L"), ("kNumbers", "N")):
    rows = [f"{{0x{a:x}, 0x{b:x}}}" for a, b in ranges(category)]
    print(f"constexpr Range {name}[] = {{")
    for i in range(0, len(rows), 6):
        print("    " + ", ".join(rows[i : i + 6]) + ",")
    print("};")
