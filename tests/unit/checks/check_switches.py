#!/usr/bin/env python3
"""Checks that no switch over ops, dtypes or kinds of nodes has a default: what a new one means is asked where it is added.

  check_switches.py ROOT

A switch is one of those where a case is an op or a dtype of the tables, or a kind of NODE_KINDS; the compiler then asks
for the others.
"""
import glob
import os
import re
import sys

# What programs and plans are made of.
NODE_KINDS = ("BindingKind", "ItemKind", "StepKind", "OriginKind", "ArgumentKind", "BufferBase")


def names(root, pattern, macro):
    found = set()
    for path in glob.glob(os.path.join(root, "src", pattern), recursive=True):
        with open(path, encoding="utf-8") as file:
            found |= set(re.findall(rf"^{macro}\((\w+),", file.read(), re.MULTILINE))
    return found


def body_of(text, start):
    """What the braces behind `start` hold, without what inner switches hold."""
    at = text.index("{", start)
    depth, end = 0, at
    for end in range(at, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            break
    body = text[at + 1:end]
    inner = re.search(r"\bswitch \(", body)
    while inner:
        held = body_of(body, inner.start())[1]
        body = body[:inner.start()] + body[held:]
        inner = re.search(r"\bswitch \(", body)
    return body, end


def problems(text, ops, dtypes):
    """Lines at which such a switch begins."""
    text = re.sub(r"//[^\n]*", "", text)
    for switch in re.finditer(r"\bswitch \(", text):
        body = body_of(text, switch.start())[0]
        labels = re.findall(r"\bcase ((?:\w+::)*)(\w+):", body)
        used = re.findall(r"using enum (?:\w+::)*(\w+);", text[:switch.start()])[-1:]
        over = any(name in dtypes if "DType::" in scope else
                   scope.endswith(tuple(kind + "::" for kind in NODE_KINDS)) or not scope and used and used[0] in NODE_KINDS or
                   name in ops and (scope.endswith("Op::") or not scope and "ir::Op" in text)
                   for scope, name in labels)
        if over and re.search(r"\bdefault:", body):
            yield text.count("\n", 0, switch.start()) + 1


def main():
    root = sys.argv[1]
    ops, dtypes = names(root, "ops/*/*.def", "CUGRT_OP"), names(root, "base/type/dtypes.def", "CUGRT_DTYPE")
    assert len(ops) > 100 and len(dtypes) > 10, "the tables are not where they were"
    wrong = "switch (op) {\n case ir::Op::relu:\n return 1;\n default:\n return 2;\n}"
    assert list(problems(wrong, ops, dtypes)) == [1]
    assert not list(problems(wrong.replace("default", "case neg"), ops, dtypes))
    assert list(problems(wrong.replace("ir::Op::relu", "plan::StepKind::copy"), ops, dtypes)) == [1]
    found, read = [], 0
    for path in sorted(glob.glob(os.path.join(root, "src", "**", "*.cpp"), recursive=True) +
                       glob.glob(os.path.join(root, "src", "**", "*.h"), recursive=True)):
        if os.sep + "emulator" + os.sep in path:  # knows neither
            continue
        with open(path, encoding="utf-8") as file:
            found += [f"{os.path.relpath(path, root)}:{line}" for line in problems(file.read(), ops, dtypes)]
        read += 1
    print("\n".join([f"{place}: a switch over ops, dtypes or node kinds has a default" for place in found] +
                    [f"{read} files, {len(found)} switches with a default"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
