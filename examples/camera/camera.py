"""A camera's frames through one graph each, as camera.cpp has them: python camera.py [camera.cugrt]

With CUGRT_DRIVER=emulated in the environment on the CPU. The clip is synthesised: a bright square that wanders over
noise.
"""
import os
import sys

import numpy as np

import cugrt

ROWS, COLUMNS, SIDE, FRAMES = 96, 128, 16, 40


def place_of(frame):
    return 8 + 2 * frame % 64, 8 + 3 * frame % 96


def frame_of_clip(frame):
    pixels = np.random.default_rng(frame).integers(0, 64, (ROWS, COLUMNS, 3)).astype("uint8")
    y, x = place_of(frame)
    pixels[y : y + SIDE, x : x + SIDE] = 200
    return pixels


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    window = np.full((1, 1, SIDE, SIDE), 1 / SIDE**2, "float32")
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "camera.cugrt")
    model = cugrt.load(path, weights={"window": window})
    off = 0
    for frame in range(FRAMES):
        shown, *found = model(frame=frame_of_clip(frame))
        off = max(off, *(abs(int(have) - want) for have, want in zip(found, place_of(frame))))
    drawn = int((shown == [255, 0, 0]).all(axis=2).sum())
    print(f"{FRAMES} frames, found to {off} pixels, {drawn} pixels drawn in the last")


if __name__ == "__main__":
    main()
