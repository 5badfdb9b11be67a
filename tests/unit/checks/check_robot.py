#!/usr/bin/env python3
"""examples/robot finds every board, reads the digits that the classifier reads, answers what the model answers alone,
and stays within its budget.

  check_robot.py ROBOT CUGRT EXAMPLES
"""
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "differential", "llm"))
import language_models  # noqa: E402

FRAMES, CLASSES, QUESTION = 40, 10, "Hello, I see"


def npy(path, letter):
    with open(path, "rb") as file:
        content = file.read()
    begin = 10 + struct.unpack_from("<H", content, 8)[0]
    return struct.unpack_from(f"<{(len(content) - begin) // 4}{letter}", content, begin)


def main():
    robot, cugrt, examples = sys.argv[1:]
    digits = os.path.join(examples, "digits")
    logits, labels = npy(os.path.join(digits, "heldout_logits.npy"), "f"), npy(os.path.join(digits, "heldout_labels.npy"), "i")
    rows = [logits[i * CLASSES :][:CLASSES] for i in range(FRAMES)]
    right = sum(row.index(max(row)) == label for row, label in zip(rows, labels))
    environment = {**os.environ, "CUGRT_DRIVER": "emulated"}

    def run(*command):
        return subprocess.run(command, capture_output=True, check=False, env=environment)

    problems = []
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "tiny.gguf")
        with open(model, "wb") as file:
            file.write(language_models.Model("llama", ["q8_0"], True, 1).bytes)
        alone = run(cugrt, "generate", model, "--prompt", QUESTION, "--max-tokens", "24", "--temperature", "0")
        if alone.returncode:
            sys.exit(f"cugrt generate: {alone.stderr}")
        parts = [robot, os.path.join(examples, "robot", "detect.cugrt"), digits, model, QUESTION]
        done = run(*parts)
        said = done.stdout.decode("utf-8", "replace").split("\n", 1)
        if done.returncode or said[0] != f"{FRAMES} frames, {FRAMES} boards found, {right} digits read":
            sys.exit(f"exit status {done.returncode}: {said}, not {right} digits; {done.stderr}")
        answer, memory = said[1].rsplit("device memory: ", 1)
        expected = QUESTION + alone.stdout.decode("utf-8", "replace").rstrip("\n")
        if answer.rstrip("\n") != expected.rstrip("\n"):
            problems.append(f"the answer is {answer!r}, alone it is {expected!r}")
        device, budget, arenas, weights, results, buffers = map(int, re.findall(r"\d+", memory))
        if device != arenas + weights + results + buffers or device > budget or not arenas or not weights:
            problems.append(f"memory does not add up: {memory}")
        small = run(*parts, str(weights // 2))
        if small.returncode != 1 or b"robot: " not in small.stderr or b"budget" not in small.stderr:
            problems.append(f"a small budget: exit status {small.returncode}, {small.stderr}")
    for problem in problems:
        print(problem)
    print(f"{FRAMES} frames beside an answer, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
