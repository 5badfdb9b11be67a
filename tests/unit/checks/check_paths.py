#!/usr/bin/env python3
"""Checks that files named in comments and docs exist.

  check_paths.py [ROOT]

A path-like word (two names or more, with a suffix of a source file) must be the end of a tracked file's path, where its
first folder is one of ours. The changelog tells of what was, and findings of others' files.
"""
import os
import re
import subprocess
import sys

CODE = (".cpp", ".h", ".hpp", ".cu", ".cuh", ".def", ".c", ".py", ".inc")
WORD = re.compile(r"(?<![\w/.<-])((?:[\w-]+/)+[\w-]+\.(?:cpp|h|hpp|cu|cuh|def|py|inc|md))\b")
COMMENT = re.compile(r"(?://|/\*|^\s*\*|#)(?!\s*include)(.*)")
FOREIGN = {"cugrt", "cuda"}  # folders of public headers: <cugrt/cugrt.h> is a name for users


def ends_of(files):
    """Every end of a tracked path, and the names of its folders."""
    ends, folders = set(), set()
    for file in files:
        parts = file.split("/")
        folders.update(parts[:-1])
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
    return ends, folders - FOREIGN


def stale_in(path, text, ends, folders):
    for number, line in enumerate(text.splitlines(), 1):
        part = [line] if path.endswith(".md") else COMMENT.findall(line)[:1]
        for word in WORD.findall(part[0]) if part else []:
            if word not in ends and word.split("/")[0] in folders:
                yield f"{path}:{number}: there is no {word}"


def check_the_check():
    ends, folders = ends_of(["src/plan/format/plan.h", "docs/ir.md"])
    assert list(stale_in("a.cpp", "x; // plan/lives.h", ends, folders))
    assert list(stale_in("a.md", "see `src/plan/plan.h`", ends, folders))
    for text in ("// plan/format/plan.h", "// format/plan.h", '#include "plan/gone.h"', "// other/gone.h", "x; y"):
        assert not list(stale_in("a.cpp", text, ends, folders)), text


def main():
    check_the_check()
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True)
    if listed.returncode != 0:
        print("no git checkout: which files are the project's is not known")
        return 77
    files = listed.stdout.splitlines()
    ends, folders = ends_of(files)
    found, read = [], 0
    for path in files:
        below = path.split("/")[0] in ("src", "jit", "kernels", "include")
        if not path.endswith(".md") and not (below and path.endswith(CODE)):
            continue
        if path == "CHANGELOG.md" or "findings" in path.split("/") or not os.path.exists(os.path.join(root, path)):
            continue
        read += 1
        with open(os.path.join(root, path), encoding="utf-8") as file:
            found += stale_in(path, file.read(), ends, folders)
    print("\n".join(found + [f"{read} files read, {len(found)} paths that do not exist"]))
    return 1 if found or not read else 0


if __name__ == "__main__":
    sys.exit(main())
