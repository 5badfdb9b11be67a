"""The one exception of the package."""
import enum
import operator
import os
import re


class Code(enum.IntEnum):
    """What kind of failure an :class:`Error` is; the numbers are those of the C ABI."""
    INVALID_ARGUMENT = 1
    PARSE_ERROR = 2
    VERIFY_ERROR = 3
    NOT_FOUND = 4
    UNSUPPORTED = 5
    OUT_OF_RANGE = 6
    OUT_OF_HOST_MEMORY = 7
    OUT_OF_DEVICE_MEMORY = 8
    IO_ERROR = 9
    COMPILE_ERROR = 10
    DRIVER_ERROR = 11
    DEVICE_LOST = 12
    BUSY = 13
    CANCELLED = 14
    INTERNAL = 15


class Error(Exception):
    """A failure. ``str(error)`` is a sentence, with the place and CUDA's name of the error where these are known.

    ``code``: a :class:`Code`. ``place``: file, line and column of the module, or what else it is about; ``""`` where
    it is nowhere. ``cuda_error``: as ``"CUDA_ERROR_OUT_OF_MEMORY"``; ``""`` when the driver is not the cause.
    """

    def __init__(self, message: str, code: int = Code.INVALID_ARGUMENT, place: str = "", cuda_error: str = "") -> None:
        super().__init__(message)
        self.code = Code(code)
        # Errors in text begin with their place: FILE:LINE:COLUMN: error: ...
        self.place = place or (message.partition(": error: ")[0] if ": error: " in message.partition("\n")[0] else "")
        self.cuda_error = cuda_error

    def __reduce__(self):
        return type(self), (str(self), int(self.code), self.place, self.cuda_error)


def wrong(name, kind, value):
    return Error(f"{name} is {kind}, not of type {type(value).__name__}")


def whole(name, value, low=-2 ** 63, high=2 ** 63 - 1):
    """The value as the native layer takes whole numbers; what is none, or beyond the limits, is an error."""
    try:
        value = int(operator.index(value))
    except TypeError:
        raise wrong(name, "a whole number", value) from None
    if not low <= value <= high:
        raise Error(f"{name} is a whole number from {low} to {high}", Code.OUT_OF_RANGE)
    return value


def string(name, value):
    """The value, which is a str that arrives whole in the native layer, or an error."""
    if not isinstance(value, str):
        raise wrong(name, "a str", value)
    if "\0" in value or not value.isascii() and re.search("[\ud800-\udfff]", value):
        raise Error(f"{name} is a str without NUL characters and surrogates")
    return value


def path_of(name, value, kind="a str or os.PathLike"):
    """The path as a str."""
    try:
        return string(name, os.fsdecode(value))
    except TypeError:
        raise wrong(name, kind, value) from None


def flag(name, value):
    """The value, which is True or False or an error."""
    if value is not True and value is not False:
        raise wrong(name, "True or False", value)
    return value


def called(name, value):
    """The value, which is a function, or None, or an error."""
    if value is not None and not callable(value):
        raise wrong(name, "a function", value)
    return value


def table(name, value, kind="a dict"):
    """The value, which is a dict by texts or an error; None is an empty one."""
    if not isinstance(value, (dict, type(None))):
        raise wrong(name, kind, value)
    for key in value or ():
        string(f"a name in {name}", key)
    return value or {}
