"""Models: loading, reports, traces, packs."""
import itertools
import json
import numbers
import os
import typing

from . import _native, _sources
from ._builder import Module
from ._errors import Error, called, flag, path_of, string, table, whole, wrong
from ._files import WholeFile


class Spec(typing.NamedTuple):
    """An input or output of a model. Host scalars have the dtype ``int``, ``float`` or ``bool``, host
    lists of integers ``shape``, and no shape.

    ``shape`` holds numbers, and names or formulas of symbolic dimensions; ``"<= 4*n"`` where the data decide how many
    there are, up to that. ``access`` is ``in``, ``out``, or ``inout``
    of state, which is written in place.
    """
    name: str
    dtype: str
    shape: tuple[int | str, ...]
    access: str = "in"


class Trace:
    """What calls inside of a ``with`` did when, as a file of Chrome's trace format (Perfetto, chrome://tracing).

    They run in sessions of their own, whose first launches build their graphs and show that.
    """

    def __init__(self, model: "Model", path: typing.Any) -> None:
        self._model, self._path = model, path_of("path", path)

    def __enter__(self) -> "Trace":
        self._model._begin_trace()
        try:
            self._file = WholeFile(self._path)  # what cannot be written is told at once
        except BaseException:
            self._model._end_trace()
            raise
        return self

    def __exit__(self, kind: typing.Any, value: typing.Any, traceback: typing.Any) -> None:
        try:
            text = json.dumps(trace_events(self._model._end_trace(), self._model.device), indent=1)
        except BaseException:
            self._file.drop()
            raise
        self._file.put(text)


class Model(_native.Model):
    """A model on a device: see :func:`load`, which makes one.

    ``model(x=x)`` runs its main function and waits for it. Arrays are given by name: NumPy arrays or anything else with a
    buffer or ``__dlpack__``, contiguous and of the input's dtype and shape. It returns an array, or a tuple of several
    in the model's order, and raises a :class:`cugrt.Error` that names the input.

    Any number of threads may call it at once: as many sessions are open as calls ever ran at the same time, over one
    copy of the weights. The GIL is released while a call works.
    """

    _results: list[str] | None = None  # names that the module's importer gave

    def __init__(self, source: dict[str, typing.Any]) -> None:
        if not isinstance(source, Source):
            raise Error("a cugrt.Model is made by cugrt.load")
        super().__init__(source)

    @property
    def inputs(self) -> list[Spec]:
        """What ``model(...)`` takes: a list of :class:`Spec`."""
        return self.inputs_of("")

    @property
    def outputs(self) -> list[Spec]:
        """What ``model(...)`` gives, in order: a list of :class:`Spec`."""
        specs = self.outputs_of("")
        return [spec._replace(name=name) for spec, name in zip(specs, self._results)] if self._results else specs

    def inputs_of(self, function: str) -> list[Spec]:
        """The inputs of the function of that name."""
        return [Spec(*slot) for slot in self._inputs(string("function", function))]

    def outputs_of(self, function: str) -> list[Spec]:
        """The outputs of the function of that name: its results."""
        return [Spec(*slot) for slot in self._outputs(string("function", function))]

    @property
    def counters(self) -> dict[str, int]:
        """Totals over the model's sessions: a dict of runs, instances built, hit, patched and eager, bytes.

        Waits for calls that run in other threads.
        """
        return self._counters()

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of device memory: a dict of ``arena``, ``weights``, ``results``, ``instances`` (an estimate of the
        driver's), and ``device``, the sum of the first three.

        Of an arena that models share, what this one uses. Waits for calls that run in other threads.
        """
        return self._memory()

    @property
    def resident(self) -> bool:
        """Whether the weights are on the device: :meth:`evict`, or the budget of a :class:`Group`, sends them away."""
        self._check_open()
        return self._is_resident()

    def evict(self) -> None:
        """Frees what the weights of a model in a :class:`Group` have on the device, once calls that run have ended.

        The next call copies them back to the same addresses: no graph is built or patched.
        """
        self._check_open()
        self._evict()

    def seal(self) -> None:
        """From now on calls make no graph and allocate no device memory for them: what calls so far and
        :meth:`prepare` made is used and patched, and a call that needs more is an error that names its symbols.

        The model keeps as many sessions as calls ran at once before; one call more at a time is refused.
        """
        self._check_open()
        self._seal()

    @property
    def latency(self) -> dict[str, typing.Any]:
        """Times of a model in a :class:`Group`, in microseconds: ``host``, until a run is queued, and ``device``.

        Each is a dict of ``count``, ``p50``, ``p99``, ``p999`` and ``max``. Waits for calls that run in other threads.
        Of a model with a deadline also ``whole``, from the call of a run to its end, and ``missed``, a number of runs.
        """
        self._check_open()
        return self._latency()

    def plan(self, format: str = "text", **symbols: int) -> str:
        """A report of the plan: regions, graphs, storage and why, with sizes at the symbols' values (``n=8``).

        ``format``: ``"text"``, ``"json"``, ``"dot"`` or ``"svg"``; a pack has no drawing of storage.
        """
        self._check_open()
        return self._plan(string("format", format), valued(symbols))

    def prepare(self, function: str = "", **symbols: int | typing.Iterable[int]) -> dict[str, int]:
        """Builds graphs before the first run, for every combination of the symbols' values: ``prepare(n=[1, 8])``.

        Returns what came of it, summed: a dict of ``regions``, ``built``, ``present`` (were there), ``refused`` (did
        not fit), ``unknown`` (depend on a symbol that was not given) and ``built_bytes``.
        """
        string("function", function)
        lists = [[(name, whole(name, value)) for value in listed(values)]
                 for name, values in table("symbols", symbols).items()]
        total = {}
        for combination in itertools.product(*lists):
            for key, value in self._prepare(function, list(combination)).items():
                total[key] = total.get(key, 0) + value
        return total

    def update_weights(self, weights: typing.Any, *, in_place: bool = False) -> None:
        """Puts new weights in the place of those of the same names: a dict of arrays, or a path of a safetensors file.

        Calls that begin afterwards take them; one that runs in another thread ends with those it began with. Dtypes and
        shapes stay. Graphs are patched, not built again; old and new weights are held until the sessions' work has
        ended, which is waited for. What fails leaves all as it was.

        ``in_place``: they are written where the old ones are, so that no graph is patched and the device does not hold
        both. For a model that one thread calls at a time: where several sessions read the weights, it is refused.
        """
        self._check_open()
        self._update_weights(table("weights", weights) if isinstance(weights, (dict, type(None))) else
                             path_of("weights", weights, "a path or a dict of arrays"), bool(in_place))

    def state(self, function: str = "", **symbols: int) -> dict[str, _native.DeviceArray]:
        """Zeroed device arrays for the function's inout parameters, by name; for symbolic dimensions give values.

        They are handed to each run, which writes them in place: ``state = model.state(); model(x=x, **state)``.
        """
        self._check_open()
        string("function", function)
        values = valued(symbols)
        return {spec.name: self.zeros(self._dims(function, spec.name, values), spec.dtype)
                for spec in self.inputs_of(function) if spec.access == "inout"}

    def zeros(self, shape: int | typing.Iterable[int], dtype: str) -> _native.DeviceArray:
        """A :class:`cugrt.DeviceArray` of zeros on the model's device."""
        return self._zeros([whole("a dimension", dim, 0) for dim in listed(shape)], string("dtype", dtype))

    def trace(self, path: typing.Any) -> Trace:
        """``with model.trace("trace.json"): ...`` writes what calls did when: see :class:`Trace`."""
        return Trace(self, path)

    def __reduce__(self):
        raise TypeError("a cugrt.Model is of one process: load it in the other process")

    def _check_open(self):
        if self.closed:
            raise Error("the model is closed")

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, kind: typing.Any, value: typing.Any, traceback: typing.Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<cugrt.Model, closed>"
        text = ", ".join(f"{spec.name}: {spec.dtype}{list(spec.shape)}" for spec in self.inputs)
        return f"<cugrt.Model({text}) on {self.device}>"


def listed(value):
    """What is no list is one of itself."""
    try:
        return list(value)
    except TypeError:
        return [value]


def valued(symbols):
    return [(name, whole(name, value)) for name, value in table("symbols", symbols).items()]


def setting(what, value):
    """A text or number, as the native layer takes it."""
    if isinstance(value, str):
        return string(what, value)
    if not isinstance(value, numbers.Real):
        raise wrong(what, "a text or a number", value)
    return str(value).lower()


def settings(what, given, text):
    """NAME=VALUE of each of a dict."""
    return [key + "=" + text(f"{what} of '{key}'", value) for key, value in table(what, given).items()]


def any_given(*arguments):
    return any(bool(one) if isinstance(one, dict) else one is not None for one in arguments)


class Source(dict):
    """What _native makes a model of; see native/sources.cpp."""


def load(source: typing.Any, *, weights: typing.Any = None, driver: str | None = None, device: int = 0,
         dims: dict[str, str | int] | None = None, bounds: dict[str, tuple[int, int]] | None = None,
         bind: dict[str, typing.Any] | None = None, preprocess: dict[str, str] | None = None,
         options: dict[str, str] | None = None,
         progress: typing.Callable[[int, int, str, float, int], typing.Any] | None = None) -> typing.Any:
    """Loads a model and opens it on a device: a :class:`Model`; of a GGUF file a :class:`cugrt.LLM`.

    ``source``: a path, bytes, or a :class:`cugrt.Module`. Content decides what it is: a module's text, a pack, ONNX or
    GGUF. What is no pack is compiled, which needs the extra ``cugrt[compile]`` or a CUDA toolkit.

    ``weights``: a path of a safetensors file, or a dict of arrays, for text and for packs without weights; by default
    those that a :class:`cugrt.Module` brings along. The model reads arrays where they are, and keeps them as long as it
    is there: they are not written to meanwhile.
    ``driver``: ``"system"``, ``"emulated"``, or a library's path; by default as CUGRT_DRIVER says. ``device``: a number.
    ``options``: settings of passes, as ``{"mixed.dtype": "f16"}``.

    Of ONNX files: ``dims`` names or fixes dimensions, ``{"batch_size": "n", "width": 64}``; ``bounds`` limits symbols,
    ``{"n": (1, 64)}``; ``bind`` makes inputs constants, ``{"sr": 16000}``; ``preprocess`` makes images of frames of
    bytes inside the graph, ``{"images": "hwc,mean=0.5,std=0.5"}`` (formats and settings: docs/onnx.md, Frames).

    ``progress(done, total, kernel, milliseconds, cached)`` is called for each kernel; an exception in it, as Ctrl-C,
    ends the compilation.

    Raises :class:`cugrt.Error` with the place in the file.
    """
    return opened(source, None, (), weights, driver, device, dims, bounds, bind, preprocess, options,
                  progress)


def opened(source, group, place, weights, driver, device, dims, bounds, bind, preprocess, options, progress):
    """What load gives, and a group's load."""
    kind, name, folder, path, content = _sources.read(source)
    if kind == "gguf":
        from ._llm import LLM
        if any_given(weights, dims, bounds, bind, preprocess, options):
            raise Error("a GGUF file is loaded with driver, device and progress alone; cugrt.LLM takes more")
        if group is None:
            return LLM(path, driver=driver, device=device, progress=progress)
        exclusive, priority, wait, multiprocessors, deadline_us, missed = place
        if any_given(deadline_us, missed):
            raise Error("deadline_us and missed are of models, not of language models")
        return LLM(path, progress=progress, group=group, exclusive=exclusive, priority=priority, wait=wait,
                   multiprocessors=multiprocessors)
    results = None
    if isinstance(source, Module):
        weights, results = source._weights if weights is None else weights, source._results
    described = describe(kind, name, folder, path, content, weights, driver, device, dims, bounds, bind, preprocess,
                         options, progress)
    if group is not None:
        described.update(zip(("group", "exclusive", "priority", "wait", "multiprocessors"), group._place(*place[:4])))
        described.update(zip(("deadline_us", "missed"), group._deadline(*place[4:])))
    model = Model(described)
    model._results = results
    return model


def describe(kind, name, folder, path, content, weights, driver, device, dims, bounds, bind, preprocess, options,
             progress):
    """The Source that _native reads."""
    if kind != "onnx" and any_given(dims, bounds, bind, preprocess):
        raise Error("dims, bounds, bind and preprocess are of ONNX files")
    if kind == "pack" and any_given(options):
        raise Error("options are settings of passes; a pack is planned already")

    def limits(what, pair):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise Error(f"{what} are two whole numbers, (low, high)")
        return "..".join(str(whole("a bound" + what.removeprefix("bounds"), bound)) for bound in pair)

    def dim(what, value):
        return string(what, value) if isinstance(value, str) else str(whole(what + ", where it is no name,", value))

    def constants(what, value):
        value = value.tolist() if hasattr(value, "tolist") else value
        return string(what, value) if isinstance(value, str) else ",".join(setting(what, one) for one in listed(value))

    return Source({
        "kind": kind, "name": name, "folder": folder, "path": os.fspath(path), "content": content,
        "weights": weights if weights is None else table("weights", weights) if isinstance(weights, dict) else
        path_of("weights", weights, "a path or a dict of arrays"),
        "driver": "" if driver is None else string("driver", driver),
        "device": whole("device", device, -2 ** 31, 2 ** 31 - 1), "nvrtc": _sources.nvrtc(),
        "dims": settings("dims", dims, dim), "bounds": settings("bounds", bounds, limits),
        "bind": settings("bind", bind, constants), "preprocess": settings("preprocess", preprocess, string),
        "options": settings("options", options, setting), "progress": called("progress", progress),
        "group": None,
    })


def compile(source: typing.Any, output: str | os.PathLike[str], architectures: str | typing.Iterable[str], *,
            weights: str | os.PathLike[str] | None = None, weights_inside: bool = True, driver: str = "none",
            names: bool = False, dims: dict[str, str | int] | None = None, bounds: dict[str, tuple[int, int]] | None = None,
            bind: dict[str, typing.Any] | None = None, preprocess: dict[str, str] | None = None,
            options: dict[str, str] | None = None,
            progress: bool | typing.Callable[[int, int, str, float, int], typing.Any] = True) -> None:
    """Compiles a model for named architectures and writes a pack, which runs without a compiler.

    ``architectures``: one or a list of them, ``"sm_87"`` for machine code, ``"compute_75"`` for PTX. ``weights``: a safetensors file, inside of
    the pack, or with ``weights_inside=False`` beside it; the weights of an ONNX file, and those that a
    :class:`cugrt.Module` brings along, go in by themselves. ``names``: what ops and an ONNX file call the pack's steps
    goes in, at most 40 bytes a step, for the commands trace and bench.
    ``progress``: True shows a bar in a terminal or notebook; else False, or a function as of :func:`load`.
    Other arguments are those of :func:`load`. No GPU is needed.

    Raises :class:`cugrt.Error` with the place in the file.
    """
    from ._progress import Bar
    kind, name, folder, path, content = _sources.read(source)
    if kind not in ("text", "onnx", "linked"):
        raise Error(f"{name} is a {kind} file; a pack is made of a module's text or of ONNX, and by the command cugrt compile of GGUF")
    wanted = [architectures] if isinstance(architectures, str) else listed(architectures)
    given = (path_of("output", output), [string("an architecture", one) for one in wanted],
             "" if weights is None else path_of("weights", weights), flag("weights_inside", weights_inside), flag("names", names))
    bar = Bar() if progress is True else None
    brought = source._weights if weights is None and isinstance(source, Module) else None
    described = describe(kind, name, folder, path, content, brought, driver, 0, dims, bounds, bind, preprocess, options,
                         bar or (None if progress is False else progress))
    try:
        _native.write_pack(described, *given)
    finally:
        if bar:
            bar.close()


def link(parts: dict[str, typing.Any], connect: dict[str, str] | None = None) -> Module:
    """Several models as one, which runs as one graph over one plan of storage: a :class:`cugrt.Module`.

    ``parts``: sources by name, as :func:`load` takes them, but for packs and GGUF. ``connect``: inputs that are other
    parts' results, ``{"b.x": "a.result0"}``, by the names of the module or of its ONNX file. The linked module has the
    inputs that are left, ``a.x``, and the results that no input takes, in the parts' order. Symbols are named ``a.n``;
    those of connected dimensions become one. Weights that are equal byte for byte are kept once.

    Raises :class:`cugrt.Error` that names the input, where shapes do not join.
    """
    opened, files = [], []
    for part, source in table("parts", parts).items():
        kind, name, folder, path, content = _sources.read(source)
        if kind not in ("text", "onnx", "linked"):
            raise Error(f"part '{string('parts', part)}' is a {kind} file; modules of text and of ONNX are linked")
        files.append(path)  # a file of bytes is there as long as its path
        weights = source._weights if isinstance(source, Module) else None
        opened.append((string("parts", part), describe(kind, name, folder, path, content, weights, "none", 0, None, None,
                                                       None, None, None, None)))
    if not opened:
        raise Error("parts are one model or more, by name")
    linked = _native.link(opened, [(string("connect", to), string(f"connect of '{to}'", result))
                                   for to, result in table("connect", connect or {}).items()])
    module = Module.from_text(linked.text)
    module._linked = linked
    return module


def trace_events(sessions, device):
    """The sessions' calls and launches as Chrome's trace format has them; a thread is a session."""
    events, begins = [], [call[1] for calls, _ in sessions for call in calls]
    origin = min(begins, default=0)

    def add(name, category, thread, begin_ns, duration_ns, **arguments):
        events.append({"name": name, "cat": category, "ph": "X", "pid": 1, "tid": thread,
                       "ts": (begin_ns - origin) / 1e3, "dur": max(duration_ns, 0) / 1e3, "args": arguments})

    def name(what, thread, text):
        events.append({"name": what, "ph": "M", "pid": 1, "tid": thread, "args": {"name": text}})

    emulated = ", EMULATED" if device.startswith("emulated") else ""
    name("process_name", 1, f"cugrt on {device}{emulated}")
    for thread, (calls, launches) in enumerate(sessions, 1):
        name("thread_name", thread, f"session {thread}")
        for function, begin, queued, end in calls:
            add(f"run {function}", "run", thread, begin, queued - begin)
            add("wait", "run", thread, queued, end - queued)
        for launch in launches:
            category = "step" if launch["kind"] == "step" else "region"
            add(launch["name"], category, thread, launch["begin_ns"], launch["host_ns"],
                **{key: launch[key] for key in ("kind", "run", "key", "nodes", "fields_patched")})
            parts = (("build", launch["begin_ns"], launch["build_ns"]), ("patch", launch["begin_ns"], launch["patch_ns"]),
                     ("launch", launch["begin_ns"] + launch["host_ns"] - launch["launch_ns"], launch["launch_ns"]))
            for part, begin, duration in parts:
                if duration > 0 and category == "region":
                    add(part, "part", thread, begin, duration)
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"device": device}}
