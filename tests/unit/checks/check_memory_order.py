#!/usr/bin/env python3
"""Every file that shares memory without a lock stands in docs/memory_order.md, and no other.

  check_memory_order.py ROOT
"""
import os
import re
import subprocess
import sys

HOST = re.compile(r"\bstd::atomic|\batomic_ref\b|\bmemory_order_|\batomic_thread_fence\b")
DEVICE = re.compile(r"\.release\.|\.acquire\.|\.acq_rel\.|\.relaxed\.|__threadfence|\batomic[A-Z]\w+\(|"
                    r"\bvolatile (?!\()\w[\w ]*\*|\bvolatile\b[^;(]*\bword\b")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def shares(path, text):
    """Whether the file's code, without comments, has such an access."""
    code = COMMENT.sub("", text)
    return bool(DEVICE.search(code) if path.startswith("kernels/") else HOST.search(code))


def main():
    root = sys.argv[1]
    assert shares("src/a.h", "std::atomic<int> x;") and not shares("src/a.h", "// std::atomic<int> x;")
    assert shares("kernels/a.cu", 'asm("ld.acquire.gpu.u32")') and not shares("kernels/a.cu", 'asm volatile("bar;")')
    page = os.path.join(root, "docs", "memory_order.md")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    listed = subprocess.run(["git", "-C", root, "ls-files", "src", "jit", "kernels", "include"], capture_output=True, text=True,
                            check=False).stdout.split()
    files = listed or [os.path.relpath(os.path.join(folder, name), root) for top in ("src", "jit", "kernels", "include")
                       for folder, _, names in os.walk(os.path.join(root, top)) for name in names]
    named = {path for path in re.findall(r"`([\w/.-]+\.(?:h|cpp|cuh|cu|hpp))`", text)}
    problems, found = [], 0
    for path in files:
        if not path.endswith((".h", ".cpp", ".hpp", ".cuh", ".cu")) or not os.path.exists(os.path.join(root, path)):
            continue
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            if not shares(path, file.read()):
                if path in named:
                    problems.append(f"docs/memory_order.md names {path}, which shares nothing without a lock")
                continue
        found += 1
        if path not in named:
            problems.append(f"{path} shares memory without a lock and does not stand in docs/memory_order.md")
    print("\n".join([*problems, f"{found} files, {len(problems)} problems"]))
    return 1 if problems or found < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
