#!/usr/bin/env python3
"""Runs `cugrt cache` on a cache that `cugrt run` has filled.

  check_cache_tool.py TOOL EMULATED_DRIVER
"""
import json
import os
import subprocess
import sys
import tempfile

MODULE = """cugrt 1
func @main(%x: tensor<[n, 4], f32>) -> (tensor<[n, 4], f32>) attributes {upper_bounds = {n = 8}} {
  %y = relu(%x)
  %z = softmax(%y)
  return %z
}
"""


def main():
    tool, emulator = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        cache, image = os.path.join(work, "cache"), os.path.join(work, "image")

        def run(*arguments, status=0, **environment):
            done = subprocess.run(
                [tool, *arguments], input=MODULE, text=True, capture_output=True, timeout=300,
                env={**os.environ, "CUGRT_CACHE": cache, "CUGRT_DRIVER": "emulated",
                     "CUGRT_EMULATOR": emulator, **environment})
            assert done.returncode == status, (arguments, done.returncode, done.stderr)
            return done

        def entries():
            return json.loads(run("cache", "list", "--json").stdout)["entries"]

        module = ["run", "-", "--input", "x=random", "--set", "n=2"]
        first = run(*module)
        assert "[2/2]" in first.stderr and "0 cached" in first.stderr, first.stderr
        listed = entries()
        assert len(listed) == 2 and all(row["valid"] for row in listed), listed
        assert {row["kind"] for row in listed} == {"ptx"}, listed
        assert "[" not in run(*module).stderr  # all cached: nothing is compiled, nothing is told

        assert run("cache", "export", image).stdout.startswith("copied 2 ")
        served = run(*module, CUGRT_CACHE="off", CUGRT_CACHE_READONLY=image)
        assert "[2/2]" in served.stderr  # off turns both off
        empty = os.path.join(work, "empty")
        served = run(*module, CUGRT_CACHE=empty, CUGRT_CACHE_READONLY=image)
        assert "[" not in served.stderr, served.stderr

        # Where the own folder cannot be made, that matters only when something is compiled.
        nowhere = os.path.join(cache, listed[0]["key"] + ".code", "below")
        served = run(*module, CUGRT_CACHE=nowhere, CUGRT_CACHE_READONLY=image)
        assert "[" not in served.stderr and "cannot be" not in served.stderr, served.stderr
        assert "compiled again in each process" in run(*module, CUGRT_CACHE=nowhere).stderr
        assert "'5Q'" in run(*module, CUGRT_CACHE_LIMIT="5Q").stderr

        blocker = os.path.join(cache, 64 * "0" + ".code")
        os.makedirs(os.path.join(blocker, "inner"))
        assert "1 broken" in run("cache", "verify", status=1).stdout
        refused = run("cache", "verify", "--remove", status=1)
        assert blocker + "': Directory not empty" in refused.stderr, refused.stderr
        os.rmdir(os.path.join(blocker, "inner"))
        assert "removed 1" in run("cache", "verify", "--remove").stderr
        assert not os.path.exists(blocker)

        path = os.path.join(cache, listed[0]["key"] + ".code")
        with open(path, "r+b") as file:
            file.truncate(100)
        assert "1 broken" in run("cache", "verify", status=1).stdout
        assert "removed 1" in run("cache", "verify", "--remove").stderr
        run("cache", "verify")
        assert len(entries()) == 1
        assert "1 cached" in run(*module).stderr  # the other one is compiled again
        assert run("cache", "prune", "--limit", "1G").stdout == "removed 0\n"
        assert run("cache", "prune").stdout == "removed 2\n"
        assert entries() == []
        run("cache", "prune", "--limit", "much", status=1)
        off = run("cache", "list", status=1, CUGRT_CACHE="off").stderr
        assert "off" in off, off
    print("list, verify, prune and export do what they say")


if __name__ == "__main__":
    sys.exit(main())
