#!/usr/bin/env python3
"""Checks that an op's row cannot forget a fact: each field of a row is taken away in turn, and the compiler refuses it.

  check_op_rows.py ROOT COMPILER...
"""
import os
import re
import subprocess
import sys
import tempfile

TABLE, ROWS, OP = "src/ops/table/ops.cpp", "ops/sampling/sampling.def", "grid_sample"
FIELDS = ("takes", "gives", "rule", "fuse", "part", "zeros", "precision", "wide", "storage", "shapes", "images", "counts", "has")


def fields_of(row):
    """The row's fields behind the name, in order: split at commas outside of inner parentheses and texts."""
    inner, fields, depth, quoted = row[row.index("(") + 1:row.rindex(")")], [""], 0, False
    for letter in inner:
        quoted ^= letter == '"'
        depth += not quoted and ((letter == "(") - (letter == ")"))
        if letter == "," and depth == 0 and not quoted:
            fields.append("")
        else:
            fields[-1] += letter
    return [field.strip() for field in fields]


def compiles(root, compiler, text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, ROWS)
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([*compiler, "-std=c++20", "-fsyntax-only", "-I", folder, "-I", os.path.join(root, "src"),
                               os.path.join(root, TABLE)], capture_output=True, text=True)
    return done.returncode == 0


def main():
    root, compiler = sys.argv[1], sys.argv[2:]
    with open(os.path.join(root, "src", ROWS), encoding="utf-8") as file:
        text = file.read()
    row = re.search(rf"^CUGRT_OP\({OP},.*?\n(?=//|CUGRT_OP|\Z)", text, re.MULTILINE | re.DOTALL)[0].rstrip()
    name, *fields = fields_of(row)
    assert name == OP and tuple(field.split("(")[0] for field in fields) == FIELDS, fields
    assert compiles(root, compiler, text), "the rows as they are do not compile"
    taken = [field for i, field in enumerate(fields) if compiles(root, compiler, text.replace(
        row, f"CUGRT_OP({', '.join([name, *fields[:i], *fields[i + 1:]])})"))]
    print("\n".join([f"a row compiles without {field}" for field in taken] +
                    [f"{len(fields) - len(taken)} of {len(fields)} fields are asked for"]))
    return 1 if taken else 0


if __name__ == "__main__":
    sys.exit(main())
