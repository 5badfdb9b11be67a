"""Prints the commit that the tree is at, for `cugrt --version`: commit.py ROOT

An archive of git's has it in commit.txt (export-subst). Elsewhere git is asked, and only about a
repository whose root is ROOT: a tree inside somebody else's repository has no commit of its own.
"unknown" where neither knows; "-modified" behind it where tracked files differ from the commit.
"""
import os
import subprocess
import sys


def git(root, *arguments):
    """What git prints; None where there is no git, or it fails."""
    try:
        done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit(root):
    with open(os.path.join(root, "src", "fronts", "tools", "commit.txt"), encoding="utf-8") as file:
        archived = file.read().strip()
    if not archived.startswith("$"):
        return archived[:12]
    if git(root, "rev-parse", "--show-prefix") != "":  # no repository, or ROOT is not its root
        return "unknown"
    head = git(root, "rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    changed = git(root, "status", "--porcelain", "--untracked-files=no")
    return head + ("-modified" if changed else "")


if __name__ == "__main__":
    print(commit(sys.argv[1]))
