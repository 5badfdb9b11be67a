"""Groups: models that share one device's memory."""
import typing

from . import _native, _sources
from ._errors import Error, string, whole
from ._model import opened

WAITS = (None, "spin", "yield", "block")  # by cugrt_wait


class Group:
    """Models on one device: loaded with :meth:`load`, or :class:`cugrt.LLM`, with one budget of device memory.

    ``budget``: bytes of arenas, weights and results of all models together; None is no limit. Weights of models that
    are idle leave the device before it is an error, and come back with the next call. ``low_priority_ahead``: graphs of
    models of priority 0 that may be on their way to the device at a time, before a call of one waits; None is no limit.
    ``instance_budget``: bytes of graph instances of all models together; None: each has a budget of its own.
    ``driver``, ``device``: as of :func:`load`. Models may outlive the group.
    """

    def __init__(self, budget: int | None = None, *, low_priority_ahead: int | None = None,
                 instance_budget: int | None = None, driver: str | None = None,
                 device: int = 0) -> None:
        self._driver, self._device = driver, device
        if budget is not None and whole("budget", budget) < 1:
            raise Error("budget is a number of bytes, 1 or more, or None")
        self._shared = _native.SharedDevice("" if driver is None else string("driver", driver),
                                            whole("device", device, -2 ** 31, 2 ** 31 - 1), _sources.nvrtc(),
                                            0 if budget is None else whole("budget", budget),
                                            0 if low_priority_ahead is None
                                            else whole("low_priority_ahead", low_priority_ahead, 1, 1024),
                                            0 if instance_budget is None
                                            else whole("instance_budget", instance_budget, 1, 2 ** 63 - 1))

    def load(self, source: typing.Any, *, exclusive: str | None = None, priority: int = 0, wait: str | None = None,
             multiprocessors: int | None = None,
             deadline_us: int | None = None, missed: typing.Callable[[dict[str, int]], typing.Any] | None = None,
             weights: typing.Any = None,
             dims: dict[str, str | int] | None = None, bounds: dict[str, tuple[int, int]] | None = None,
             bind: dict[str, typing.Any] | None = None, preprocess: dict[str, str] | None = None,
             options: dict[str, str] | None = None,
             progress: typing.Callable[[int, int, str, float, int], typing.Any] | None = None) -> typing.Any:
        """Loads a model into the group: see :func:`load` for all arguments but these.

        ``exclusive``: a word. Models of one word never run at once: they share an arena as large as the largest one
        needs, and a call waits, on the device, until the last one of the word has ended.
        ``priority``: larger goes first on the device, as far as it tells them apart; 0 is what streams have. CUDA takes
        it as a hint, and interrupts no block that runs. A run on arrays of another framework has its stream's.
        ``wait``: how a call waits for the device: ``"spin"`` asks again and again, ``"yield"`` likewise, leaving the
        core to others in between, ``"block"`` sleeps; None is the driver's way.
        ``multiprocessors``: at least so many of the device's, for which its kernels are chosen and on which alone they
        run; the property of that name says how many the driver gave. Models of different numbers may have the same ones.
        None is all of them.
        ``deadline_us``: microseconds from when a call's run is queued until the device has ended it; ``latency`` then
        has ``whole`` and ``missed``. ``missed`` is called for each run that was late, with a dict of ``run``,
        ``begin_ns`` (of ``time.monotonic_ns``), ``took_ns`` and ``deadline_ns``: by the thread that next ends a call of
        the model, or asks for its latency; of more than 256 that wait, the oldest are told.
        """
        return opened(source, self, (exclusive, priority, wait, multiprocessors, deadline_us, missed), weights, self._driver, self._device, dims, bounds,
                      bind, preprocess, options, progress)

    def _place(self, exclusive, priority, wait, multiprocessors):
        """What a model's place in the group is, checked: the group, its word or "", priority, cugrt_wait, and how many
        multiprocessors, 0 for all."""
        if wait not in WAITS:
            raise Error("wait is 'spin', 'yield', 'block' or None")
        word = "" if exclusive is None else string("exclusive", exclusive)
        if exclusive is not None and not word:
            raise Error("exclusive is a word that is not empty, or None")
        return (self._shared, word, whole("priority", priority, 0, 2 ** 31 - 1), WAITS.index(wait),
                0 if multiprocessors is None else whole("multiprocessors", multiprocessors, 1, 2 ** 31 - 1))

    @staticmethod
    def _deadline(deadline_us, missed):
        """A model's deadline, 0 for none, and who is told, checked."""
        if missed is not None and (deadline_us is None or not callable(missed)):
            raise Error("missed is a function that goes with deadline_us, or None")
        return 0 if deadline_us is None else whole("deadline_us", deadline_us, 1, 3_600_000_000), missed

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of device memory of all models: a dict of ``arena``, ``weights``, ``results``, ``buffers`` (caches and
        state of language models), and ``device``, their sum.

        An arena that models share counts once.
        """
        return self._shared._memory()

    def set_budget(self, budget: int | None) -> None:
        """Another budget, as of the beginning: weights of idle models leave for a smaller one.

        Raises :class:`cugrt.Error` where it is less than what is held and cannot leave; then it stays.
        """
        if budget is not None and whole("budget", budget) < 1:
            raise Error("budget is a number of bytes, 1 or more, or None")
        self._shared._set_budget(budget or 0)

    def __reduce__(self):
        raise TypeError("a cugrt.Group is of one process: make one in the other process")
