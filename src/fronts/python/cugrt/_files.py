"""Files that are written whole or not at all, by the rules of write_file in src/base/file.h."""
import contextlib
import os
import secrets
import stat

from ._errors import Code, Error


class WholeFile:
    """A text file at ``path``, beside which it is written, under a name of its own, until :meth:`put` renames it.

    What was there before stays until then, and keeps its mode; a new file has what the umask leaves of 0666. A symbolic
    link to a file is followed. A folder that is missing, and anything there that is no regular file, is an error at once.
    """

    def __init__(self, path: str) -> None:
        self._path, self._target, self._mode = path, os.path.realpath(path), None
        try:
            if os.path.exists(self._target):
                mode = os.stat(self._target).st_mode
                if not stat.S_ISREG(mode):
                    raise Error(f"cannot write '{path}': not a regular file", Code.IO_ERROR, path)
                self._mode = stat.S_IMODE(mode) & 0o777
            folder, name = os.path.split(self._target)
            self._beside = os.path.join(folder, f"{name[:200]}.{secrets.token_hex(6)}")
            self._file = open(self._beside, "x", encoding="utf-8")
        except OSError as error:
            raise self._failure(error) from None

    def put(self, text: str) -> None:
        """Writes the text, and the file is there."""
        try:
            self._file.write(text)
            self._file.flush()
            if self._mode is not None:
                os.fchmod(self._file.fileno(), self._mode)
            self._file.close()
            os.rename(self._beside, self._target)
        except BaseException as error:
            self.drop()
            raise (self._failure(error) if isinstance(error, OSError) else error) from None

    def drop(self) -> None:
        """What was there before stays."""
        with contextlib.suppress(OSError):
            self._file.close()
        os.unlink(self._beside)

    def _failure(self, error):
        return Error(f"cannot write '{self._path}': {error.strerror}", Code.IO_ERROR, self._path)
