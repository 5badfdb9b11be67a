#!/usr/bin/env python3
"""Checks what `cugrt --version` says, and where its commit comes from.

  check_version.py CUGRT ROOT

commit.py of ROOT is tried on trees made here: a repository, one with changes, an archive of it
without git, and a tree inside of somebody else's repository.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

TOOLS = os.path.join("src", "fronts", "tools")
WHO = ["-c", "user.name=a", "-c", "user.email=a@example.com"]


def run(*command, folder=None):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def make_repository(root, folder):
    """A repository with the files that the commit is found by; its only commit."""
    os.makedirs(os.path.join(folder, TOOLS))
    for name in (".gitattributes", os.path.join(TOOLS, "commit.txt")):
        shutil.copy(os.path.join(root, name), os.path.join(folder, name))
    run("git", "init", "-q", folder=folder)
    run("git", "add", ".", folder=folder)
    run("git", *WHO, "commit", "-qm", "all", folder=folder)
    return run("git", "rev-parse", "HEAD", folder=folder)


def main():
    cugrt, root = sys.argv[1:]
    script = os.path.join(root, TOOLS, "commit.py")
    with open(os.path.join(root, "meson.build"), encoding="utf-8") as file:
        version = re.search(r"^  version: '([\d.]+)'", file.read(), re.M).group(1)
    problems = []

    def expect(what, said, right):
        if said != right:
            problems.append(f"{what}: {said!r}, not {right!r}")

    said = run(cugrt, "--version")
    form = rf"cugrt {re.escape(version)} \(commit ([0-9a-f]{{12}}(-modified)?|unknown)\)"
    if not re.fullmatch(form, said):
        problems.append(f"cugrt --version says {said!r}")
    with tempfile.TemporaryDirectory() as work:
        tree = os.path.join(work, "tree")
        head = make_repository(root, tree)
        expect("a repository", run(sys.executable, script, tree), head[:12])
        archive = os.path.join(work, "archive")
        os.makedirs(archive)
        run("git", "archive", "-o", os.path.join(work, "all.tar"), "HEAD", folder=tree)
        run("tar", "xf", os.path.join(work, "all.tar"), "-C", archive)
        expect("an archive", run(sys.executable, script, archive), head[:12])
        inner = os.path.join(tree, "inner")
        os.makedirs(os.path.join(inner, TOOLS))
        shutil.copy(os.path.join(root, TOOLS, "commit.txt"), os.path.join(inner, TOOLS))
        expect("a tree in another repository", run(sys.executable, script, inner), "unknown")
        with open(os.path.join(tree, ".gitattributes"), "a", encoding="utf-8") as file:
            file.write("# changed\n")
        expect("a repository with changes", run(sys.executable, script, tree), head[:12] + "-modified")
    for problem in problems:
        print(problem)
    print(f"5 versions, {len(problems)} wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
