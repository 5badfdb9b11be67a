#!/usr/bin/env python3
"""Checks that files named in comments and docs exist, and that lines of docs have at most 120 characters.

  check_paths.py [ROOT]

A file's name with a suffix of a source file, and a path of such (two names or more) whose first folder is one of ours,
must be the end of a tracked file's path. Others' headers, names of a kind (NAME.cu) and files of the reader's are known.
The changelog tells of what was, findings of others' files, and the client of the first release has its header.
"""
import os
import re
import subprocess
import sys

CODE = (".cpp", ".h", ".hpp", ".cu", ".cuh", ".def", ".c", ".py", ".inc", "meson.build")
WORD = re.compile(r"(?<![\w/.<-])((?:[\w-]+/)*[\w-]+\.(?:cpp|h|hpp|cu|cuh|def|c|py|inc|md))\b(?![.-]?\w)")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
COMMENTS = {True: re.compile(r"(?:^|\s)#(.*)"), False: re.compile(r"(?://|/\*|^\s*\*)(.*)")}  # of Python and Meson or not
FOREIGN = {"cugrt", "cuda"}  # folders of public headers: <cugrt/cugrt.h> is a name for users
FOREIGN_FILE = re.compile(r"(?:cuda\w*|mma|nvml|cupti_activity|sqlite3)\.h|\w*[A-Z]{2}\w*\.\w+|"
                          r"classify\.cpp|my_kernels\.cu|(?:linked_by_driver|program|model)\.py")
WIDTH = 120
UNREAD = ("CHANGELOG.md", "tests/unit/abi_v1/cugrt.h", "tests/unit/checks/check_paths.py")


def ends_of(files):
    """Every end of a tracked path, and the names of its folders."""
    ends, folders = set(), set()
    for file in files:
        parts = file.split("/")
        folders.update(parts[:-1])
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
    return ends, folders - FOREIGN


def stale_in(path, text, ends, folders):
    comment = COMMENTS[path.endswith((".py", "meson.build"))]
    for number, line in enumerate(text.splitlines(), 1):
        part = [line] if path.endswith(".md") else comment.findall(STRING.sub("", line))[:1]
        for word in WORD.findall(part[0]) if part else []:
            ours = word.split("/")[0] in folders if "/" in word else not FOREIGN_FILE.fullmatch(word)
            if ours and word not in ends:
                yield f"{path}:{number}: there is no {word}"


def wide_in(path, text):
    """Lines of a page that are too long; a row of a table cannot be broken."""
    for number, line in enumerate(text.splitlines(), 1):
        if path.endswith(".md") and len(line) > WIDTH and not line.startswith("|"):
            yield f"{path}:{number}: {len(line)} characters, at most {WIDTH}"


def check_the_check():
    ends, folders = ends_of(["src/plan/format/plan.h", "docs/ir.md"])
    for path, text in (("a.cpp", "x; // plan/lives.h"), ("a.md", "see `src/plan/plan.h`"), ("a.cpp", "// see lives.h."),
                       ("a.py", "x  # lives.py"), ("a.md", "`lives.cpp` does")):
        assert list(stale_in(path, text, ends, folders)), text
    for text in ("// plan/format/plan.h", "// format/plan.h", '#include "plan/gone.h"', "// other/gone.h", "x; y",
                 "// plan.h", "// <gone.h>", "// cuda.h", "// NAME.cu", '"gone.h"', "// a.h.in"):
        assert not list(stale_in("a.cpp", text, ends, folders)), text
    assert list(wide_in("a.md", "a" * 121)) and not list(wide_in("a.md", "a" * 120 + "\n|" + "a" * 120))


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
        if not path.endswith((".md", *CODE)) or not os.path.exists(os.path.join(root, path)):
            continue
        read += 1
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        found += wide_in(path, text)
        if path not in UNREAD and "findings" not in path.split("/"):
            found += stale_in(path, text, ends, folders)
    print("\n".join(found + [f"{read} files read, {len(found)} names of no file and lines that are too long"]))
    return 1 if found or not read else 0


if __name__ == "__main__":
    sys.exit(main())
