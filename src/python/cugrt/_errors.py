"""The one exception of the package."""
import enum
import operator


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

    def __init__(self, message, code=Code.INVALID_ARGUMENT, place="", cuda_error=""):
        super().__init__(message)
        self.code = Code(code)
        # Errors in text begin with their place: FILE:LINE:COLUMN: error: ...
        self.place = place or (message.partition(": error: ")[0] if ": error: " in message.partition("\n")[0] else "")
        self.cuda_error = cuda_error

    def __reduce__(self):
        return type(self), (str(self), int(self.code), self.place, self.cuda_error)


def whole(name, value, low=-2 ** 63, high=2 ** 63 - 1):
    """The value as the native layer takes whole numbers; what is none, or beyond the limits, is an error."""
    try:
        value = operator.index(value)
    except TypeError:
        raise Error(f"{name} is a whole number, not of type {type(value).__name__}") from None
    if not low <= value <= high:
        raise Error(f"{name} is a whole number from {low} to {high}", Code.OUT_OF_RANGE)
    return value


def string(name, value):
    """The value, which is a str or an error."""
    if not isinstance(value, str):
        raise Error(f"{name} is a str, not of type {type(value).__name__}")
    return value
