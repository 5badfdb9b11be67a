#!/usr/bin/env python3
"""examples/camera finds the square of its clip in every frame, and draws an edge around it.

  check_camera.py CAMERA MODULE
"""
import os
import subprocess
import sys
import tempfile

# Where camera.cpp puts the square in the last of 40 frames; the edge is two pixels of sixteen.
Y, X, SIDE = 8 + 2 * 39 % 64, 8 + 3 * 39 % 96, 16
EDGE = SIDE**2 - (SIDE - 4) ** 2


def main():
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        picture = os.path.join(folder, "last.ppm")
        done = subprocess.run([*sys.argv[1:], picture], capture_output=True, text=True, check=False,
                              env={**os.environ, "CUGRT_DRIVER": "emulated"})
        want = f"40 frames, found to 0 pixels, {EDGE} pixels drawn in the last; graphs built 1, reused 39\n"
        if done.returncode or done.stdout != want:
            sys.exit(f"exit status {done.returncode}: {done.stdout!r}, not {want!r}; {done.stderr}")
        with open(picture, "rb") as file:
            assert [file.readline() for _ in range(3)] == [b"P6\n", b"128 96\n", b"255\n"]
            pixels = file.read()
    for y in range(96):
        for x in range(128):
            inside = Y <= y < Y + SIDE and X <= x < X + SIDE
            hole = Y + 2 <= y < Y + SIDE - 2 and X + 2 <= x < X + SIDE - 2
            pixel = pixels[(y * 128 + x) * 3 :][:3]
            right = pixel == b"\xff\0\0" if inside and not hole else pixel == b"\xc8" * 3 if inside else max(pixel) < 64
            if not right:
                problems.append(f"the pixel at row {y}, column {x} is {tuple(pixel)}")
    for problem in problems[:5]:
        print(problem)
    print(f"40 frames, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
