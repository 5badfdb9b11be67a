#!/usr/bin/env python3
"""Checks that docs/ops.md says what the rows of ops say; --write makes it so.

  check_op_table.py ROOT [--write]
"""
import glob
import os
import re
import sys

from check_op_rows import fields_of

HEAD = """# Ops by their rows

Made from the `.def` files of the families in `src/ops` by `tests/unit/checks/check_op_table.py ROOT --write`; a test
holds it. Ops of one family with equal facts share a line. Types of operands and results stand in [ir.md](ir.md); what
the columns' words mean stands at the enumerations in `src/ir/module/op.h`.

- **operands**: how many, and what they are where the row says it; those beyond the least may be absent,
  unless all are given.
- **attributes**: `name = default`; one of a list of words has the words behind it; `name` alone must be given.
- **fuses**: how FuseOps takes it. **part**: what it is in a generated kernel. **16 bits**: what ToMixedPrecision does,
  and which operands stay in f32. **zeros**: what it makes of zeros that a bucket adds. **storage**: whose bytes its
  results are. **images**: in which layouts LayOutImages has it take them, and how.
"""
COLUMNS = ("ops", "operands", "results", "attributes", "fuses", "part", "16 bits", "zeros", "storage", "images")


def inner(field):
    return field[field.index("(") + 1:field.rindex(")")].strip()


def attribute(text):
    kind = text.split("(")[0]
    name, *rest = [part.strip() for part in re.findall(r'"[^"]*"|[^,]+', inner(text))]
    name = name.strip('"')
    if kind.startswith("needs_"):
        return f"`{name}`"
    if kind == "integers":
        return f"`{name} = [{', '.join(rest)}]`"
    if kind == "word":
        return f"`{name} = {rest[0][1:-1]}` of {rest[1][1:-1]}"
    return f"`{name} = {rest[0].replace('kInfinity', 'inf')}`"


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        text = file.read().split("\n", 1)[1]  # behind the file's head
    lines = {}
    for said, row in re.findall(r"((?:^//[^\n]*\n)*)^(CUGRT_OP\(.*?\)\n)(?=//|CUGRT_OP|\Z)", text, re.MULTILINE | re.DOTALL):
        said = " ".join(line[2:].strip() for line in said.splitlines()).replace("|", "\\|")
        row = re.sub(r"\s+", " ", row).replace('" "', "")  # one text in two pieces
        name, takes, gives, _, fuse, part, zeros, precision, wide, storage, _, images, counts, has = fields_of(row)
        least, most, *_ = inner(takes).split(", ")
        attributes = [attribute(text) for text in fields_of(f"has(-, {inner(has)})")[1:] if text]
        count = least if least == most else f"{least} to {most}" + ", all given" * takes.startswith("takes_all")
        facts = (f"{count}: {said}" if said else count, inner(gives), "; ".join(attributes),
                 *(inner(field).replace("_", " ") for field in (fuse, part)),
                 inner(precision) + (f", but the {inner(wide)}" if inner(wide) != "none" else ""),
                 *(inner(field).replace("_", " ") for field in (zeros, storage, images)))
        lines.setdefault(facts, []).append(name)
    return lines


def page(root):
    out = [HEAD]
    for path in sorted(glob.glob(os.path.join(root, "src/ops/*/*.def"))):
        family = os.path.basename(os.path.dirname(path))
        if family != "table":
            out += [f"## {family}", "", f"| {' | '.join(COLUMNS)} |", "|" + " --- |" * len(COLUMNS)]
            out += [f"| `{' '.join(names)}` | {' | '.join(facts)} |".replace("|  |", "| |")
                    for facts, names in lines_of(path).items()]
            out.append("")
    with open(os.path.join(root, "src/fronts/onnx/same_ops.def"), encoding="utf-8") as file:
        pairs = re.findall(r"^CUGRT_SAME_OP\((\w+), (\w+), (\w+)\)", file.read(), re.MULTILINE)
    out += ["## Operators of ONNX that are one op", "", "| operators | of the domain |", "| --- | --- |"]
    for domain, mine in (("ai.onnx", False), ("com.microsoft", True)):
        if names := [f"{name} (`{op}`)" for name, op, importer in pairs if (importer == "microsoft") == mine]:
            out.append(f"| {', '.join(names)} | {domain} |")
    out.append("")
    return "\n".join(out)


def main():
    root = sys.argv[1]
    path, text = os.path.join(root, "docs/ops.md"), page(root)
    if "--write" in sys.argv:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    with open(path, encoding="utf-8") as file:
        same = file.read() == text
    print(f"docs/ops.md {'says' if same else 'does not say'} what the rows say")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
