"""ModelDeployment: a model in each replica, requests that wait at the same time in one run."""
import asyncio
import concurrent.futures
import re
import time
import typing

import numpy as np
from ray import serve
from ray.util import metrics

import cugrt
from cugrt._errors import whole, wrong


def batch_symbol(model):
    """The symbol that is the first dimension of every input, and no other one; None: runs are not joined.

    Rows whose number the data decide, or the symbol does not, cannot be told apart by request.
    """
    if any(isinstance(dim, str) and dim.startswith("<=") for spec in model.outputs for dim in spec.shape):
        return None
    firsts = {spec.shape[0] if spec.shape and spec.access == "in" else None for spec in model.inputs}
    symbol = firsts.pop() if len(firsts) == 1 else None
    if not isinstance(symbol, str) or not re.fullmatch(r"\w+", symbol):
        return None
    stands = lambda dims: symbol in re.findall(r"\w+", " ".join(map(str, dims)))
    return symbol if all(stands(spec.shape[:1]) for spec in model.outputs) and \
        not any(stands(spec.shape[1:]) for spec in model.inputs) else None


def grouped(requests, max_rows):
    """Numbers of the requests that can be joined: same names, dtypes and further dimensions, up to max_rows rows."""
    groups = {}
    for number, arrays in enumerate(requests):
        key = frozenset((name, array.dtype.str, array.shape[1:]) for name, array in arrays.items())
        rows = {array.shape[0] if array.ndim else 1 for array in arrays.values()}
        can_join = len(rows) == 1 and all(array.ndim for array in arrays.values())
        parts = groups.setdefault(key if can_join else (key, number), [])
        count = max(rows, default=0)
        if not parts or parts[-1][0] + count > max_rows:
            parts.append([0, []])
        parts[-1][0] += count
        parts[-1][1].append(number)
    return [numbers for parts in groups.values() for _, numbers in parts]


class Batcher:
    """Runs a list of requests: joined where that is possible, and one by one where a joined run fails."""

    def __init__(self, model, max_rows):
        self.model, self.max_rows = model, max_rows
        self.joins = batch_symbol(model) is not None

    def one(self, arrays):
        try:
            return self.model.run(arrays)
        except Exception as error:  # of this request alone
            return error

    def __call__(self, requests):
        results = [None] * len(requests)
        for numbers in grouped(requests, self.max_rows) if self.joins else [[n] for n in range(len(requests))]:
            for number, result in zip(numbers, self.joined([requests[n] for n in numbers])):
                results[number] = result
        return results

    def joined(self, requests):
        if len(requests) == 1:
            return [self.one(requests[0])]
        counts = [next(iter(arrays.values())).shape[0] for arrays in requests]
        try:
            outputs = self.model.run({name: np.concatenate([arrays[name] for arrays in requests]) for name in requests[0]})
        except Exception:  # also NumPy's, of arrays that it cannot join
            outputs = None
        if outputs is None or any(np.ndim(output) == 0 or len(output) != sum(counts) for output in outputs):
            return [self.one(arrays) for arrays in requests]  # the one that is wrong gets its error
        ends = np.cumsum(counts)[:-1]
        return list(zip(*(np.split(output, ends) for output in outputs)))


class ModelReplica:
    """A model behind a Serve handle: ``handle.remote({"x": x})`` gives a tuple of arrays, the outputs in order.

    ``path``: whatever :func:`cugrt.load` takes, a path that every replica can read. Requests that wait at the same time
    are joined along the first dimension, where that is a symbol of the model, up to ``max_batch`` rows, without any
    padding; they wait ``wait_s`` for each other at most. A request that is wrong fails alone. A replica has one
    session, and one copy of the weights a process; what part of a GPU it gets is Ray's ``num_gpus``. ``load``: further
    arguments of :func:`cugrt.load`.

    The health check runs the model, unless a request has done so since the last one. Metrics, for Ray to export:
    ``cugrt_requests``, ``cugrt_failed_requests``, ``cugrt_batch_rows``, ``cugrt_run_seconds``.
    """

    def __init__(self, path: typing.Any, max_batch: int = 32, wait_s: float = 0.002, **load: typing.Any) -> None:
        max_batch = whole("max_batch", max_batch, 1)
        if not isinstance(wait_s, (int, float)):
            raise wrong("wait_s", "a number of seconds", wait_s)
        self.model = cugrt.load(path, **load)
        self.batcher = Batcher(self.model, max_batch)
        self.worker = concurrent.futures.ThreadPoolExecutor(1)  # one session: runs follow each other
        self.ran_since_check = False
        self._run.set_max_batch_size(max_batch)
        self._run.set_batch_wait_timeout_s(wait_s)
        self.requests = metrics.Counter("cugrt_requests", "Requests answered")
        self.failed = metrics.Counter("cugrt_failed_requests", "Requests that failed")
        self.rows = metrics.Histogram("cugrt_batch_rows", "Requests of a joined run", boundaries=[1, 2, 4, 8, 16, 32, 64])
        self.seconds = metrics.Histogram("cugrt_run_seconds", "Time of a joined run", boundaries=[1e-4, 1e-3, 1e-2, 0.1, 1, 10])

    @serve.batch
    async def _run(self, requests):
        begin = time.monotonic()
        results = await asyncio.get_running_loop().run_in_executor(self.worker, self.batcher, requests)
        self.rows.observe(len(requests))
        self.seconds.observe(time.monotonic() - begin)
        self.ran_since_check = True
        return results

    async def __call__(self, arrays: dict[str, typing.Any]) -> tuple[typing.Any, ...]:
        self.requests.inc()
        if not isinstance(arrays, dict):
            self.failed.inc()
            raise cugrt.Error(f"a request is a dict of arrays, not of type {type(arrays).__name__}")
        try:
            result = await self._run({name: self.array(name, given) for name, given in arrays.items()})
            if isinstance(result, Exception):
                raise result
        except Exception:
            self.failed.inc()
            raise
        return result

    @staticmethod
    def array(name: str, given: typing.Any) -> np.ndarray:
        try:
            return np.asarray(given, order="C")
        except Exception as error:
            raise cugrt.Error(f"input '{name}' cannot be read as an array: {error}") from None

    async def check_health(self) -> None:
        if not self.ran_since_check:
            await asyncio.get_running_loop().run_in_executor(self.worker, self.probe)
        self.ran_since_check = False

    def probe(self) -> None:
        """The smallest run there is. Whether its zeros are good input is not what is asked here."""
        try:
            self.model.run({spec.name: 1 if spec.dtype in ("int", "float") else
                            np.zeros([dim if isinstance(dim, int) else 1 for dim in spec.shape], spec.dtype)
                            for spec in self.model.inputs})
        except cugrt.Error as error:
            if error.code in (cugrt.Code.DRIVER_ERROR, cugrt.Code.DEVICE_LOST, cugrt.Code.INTERNAL):
                raise


# No decorator: to type checkers the name would stay a class, without bind and options.
ModelDeployment: serve.Deployment = serve.deployment(name="ModelDeployment", max_ongoing_requests=64)(ModelReplica)
