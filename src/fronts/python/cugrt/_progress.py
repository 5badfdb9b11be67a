"""A bar for compilation: in a terminal, or in a notebook."""
import sys


class Bar:
    """Called as a progress function; shows nothing where nobody looks on. On stderr."""

    WIDTH = 24

    def __init__(self, stream=None):
        self._stream = stream or sys.stderr
        self._shows = self._stream.isatty() or "ipykernel" in sys.modules
        self._length = 0

    def __call__(self, done, total, kernel, milliseconds, cached):
        if not self._shows or not total:
            return
        filled = self.WIDTH * done // total
        text = f"[{'#' * filled}{'.' * (self.WIDTH - filled)}] {done}/{total} {kernel} {milliseconds:.0f} ms, {cached} cached"
        self._stream.write("\r" + text.ljust(self._length))
        self._stream.flush()
        self._length = len(text)

    def close(self):
        if self._length:
            self._stream.write("\n")
