"""Examples of the package, as a user runs them."""
import os
import subprocess
import sys

import pytest

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
EDGE = 16**2 - 12**2  # two pixels around a square of sixteen


@pytest.mark.parametrize("script, said", [
    ("camera/camera.py", f"40 frames, found to 0 pixels, {EDGE} pixels drawn in the last\n"),
    ("packages/hello.py", "[ 1.  4.  9. 16.]\n"),
])
def test_an_example_says_what_it_says(script, said):
    done = subprocess.run([sys.executable, os.path.join(EXAMPLES, script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, said), done.stderr
