"""LLMDeployment: language models behind OpenAI's HTTP API, requests joining and leaving between steps.

Two Serve deployments stand behind it: the engine, whose replicas each have a model, and the front, which speaks HTTP
and holds no model. So a request outlives the replica that answered it.
"""
import asyncio
import collections
import concurrent.futures
import functools
import threading
import typing

from ray import serve
from ray.util import metrics

import cugrt
from cugrt._errors import path_of, string, whole
from cugrt._stops import StopSearch

TOKENIZING_THREADS = 4  # of a replica; a long prompt holds up no other one
LOST = (cugrt.Code.DRIVER_ERROR, cugrt.Code.DEVICE_LOST, cugrt.Code.INTERNAL)  # after these the next step fails too


def failed_with(error):
    """The event that ends a request which cannot begin."""
    is_known = isinstance(error, cugrt.Error)
    return {"error": str(error) if is_known else f"{type(error).__name__}: {error}", "code": 400 if is_known else 500}


class Request:
    """One sequence, from the engine's side; events go to the event loop that waits for them."""

    def __init__(self, loop):
        self._loop, self._events = loop, asyncio.Queue()
        self.begin = None  # once it is prepared: begins the generation
        self.generation, self.cancelled, self.seen = None, False, 0

    def send(self, **event):
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:  # its event loop is closed: nobody waits
            self.cancelled = True

    async def events(self):
        while True:
            event = await self._events.get()
            yield event
            if event.get("stop") or "error" in event:
                return


class Engine:
    """Steps a language model in a thread of its own, for as long as anything runs or waits.

    What a request costs beside its steps, its text's tokens above all, is done by other threads before it waits.
    """

    def __init__(self, llm, max_queue):
        info = llm.info
        self.llm, self.max_queue, self.places, self.context = llm, max_queue, info["places"], info["context"]
        # A token of a text that is in no vocabulary stands for a character, of up to 4 bytes.
        self.most_bytes = self.context * max(4, *(len(llm.token_bytes(token)) for token in range(info["vocabulary"])))
        self.preparing, self.waiting, self.running = 0, collections.deque(), []
        self.tokenizing = concurrent.futures.ThreadPoolExecutor(TOKENIZING_THREADS, "cugrt-tokenizing")
        self.changed, self.closed, self.failed, self.steps = threading.Condition(), False, False, 0
        self.thread = threading.Thread(target=self._work, name="cugrt-engine", daemon=True)
        self.thread.start()

    def submit(self, wanted, loop):
        """Takes a place, or a place in the queue; a full queue is an error of code BUSY.

        A text that cannot fit the context, whatever its tokens are, is refused before it is tokenized.
        """
        messages = wanted.get("messages") or ()
        texts = [(message["content"] or "").strip() for message in messages] or [wanted.get("prompt")]
        size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts if isinstance(text, str))
        if size > self.most_bytes:
            raise cugrt.Error(f"a prompt of {size} bytes does not fit the context; at most {self.most_bytes} can", cugrt.Code.OUT_OF_RANGE)
        if len(messages) > self.context:
            raise cugrt.Error(f"{len(messages)} messages do not fit a context of {self.context}", cugrt.Code.OUT_OF_RANGE)
        request = Request(loop)
        with self.changed:
            waiting = self.preparing + len(self.waiting)
            if waiting >= self.max_queue + self.places - len(self.running):
                raise cugrt.Error(f"{waiting} requests wait already", cugrt.Code.BUSY)
            self.preparing += 1
        self.tokenizing.submit(self._prepare, request, wanted)
        return request

    def _prepare(self, request, wanted):
        """In a thread of its own: the request waits from now on, or has ended."""
        failure = None
        try:
            request.begin = self._prepared(**wanted)
        except Exception as error:  # of this request alone: the others go on
            failure = failed_with(error)
        with self.changed:
            self.preparing -= 1
            if failure is None:
                self.waiting.append(request)
                self.changed.notify()
        if failure is not None:
            request.send(**failure)

    def _prepared(self, prompt=None, messages=None, tools=None, chat_template_kwargs=None, stop=None, log_probabilities=None, **numbers):
        ids, ends = (self.llm._ids(prompt), []) if messages is None else \
            self.llm._chat_ids(messages, tools, None, chat_template_kwargs)
        if len(ids) > self.context:
            raise cugrt.Error(f"a prompt of {len(ids)} tokens does not fit into a context of {self.context}", cugrt.Code.OUT_OF_RANGE)
        return functools.partial(self.llm._begin, ids, ends, StopSearch(stop), log_probabilities, **numbers)

    def cancel(self, request):
        with self.changed:
            request.cancelled = True
            self.changed.notify()

    def close(self):
        with self.changed:
            self.closed = True
            self.changed.notify()
        self.thread.join()
        self.tokenizing.shutdown(cancel_futures=True)
        self.llm.close()

    def _work(self):
        while True:
            with self.changed:
                while not (self.waiting or self.running or self.closed):
                    self.changed.wait()
                if self.closed:
                    return
                self._drop_cancelled()
                self._admit()
            if self.running:
                self._step()

    def _drop_cancelled(self):
        for request in [one for one in self.running if one.cancelled]:
            self.running.remove(request)
            try:
                request.generation.close()
            except Exception as error:
                self._fail(error)
        self.waiting = collections.deque(one for one in self.waiting if not one.cancelled)

    def _admit(self):
        while self.waiting and len(self.running) < self.places:
            request = self.waiting.popleft()
            try:
                request.generation = request.begin()
                self.running.append(request)
            except Exception as error:  # of this request alone: the others go on
                request.send(**failed_with(error))

    def _fail(self, error):
        """All that runs ends. The thread goes on, and the health check tells before anybody hears of an end."""
        ended, self.running = self.running, []
        for request in ended:
            try:
                request.generation.close()
            except Exception as further:
                error = further
        self.failed = not isinstance(error, cugrt.Error) or error.code in LOST
        self.steps += 1
        for request in ended:
            request.send(error=str(error), code=500)

    def _step(self):
        try:
            self.llm.step()
        except Exception as error:
            self._fail(error)
            return
        self.failed = False
        self.steps += 1
        for request in list(self.running):
            generation = request.generation
            text = "".join(generation._pieces)
            generation._pieces.clear()
            begin, request.seen = request.seen, len(generation.ids)
            ids = generation.ids[begin:]
            if generation.stop:  # its place is empty before anybody hears of the end
                self.running.remove(request)
            if text or ids or generation.stop:
                request.send(text=text, ids=ids, stop=generation.stop, prompt_tokens=len(generation.prompt_ids),
                             likely=self._likely(generation, begin))

    def _likely(self, generation, begin):
        """Of each token from `begin` on that is text: its bytes, log-probability, and those of the most likely ones."""
        if generation.likely is None:
            return []
        end = len(generation.ids) - (generation.stop == "end")
        told = lambda token, log_probability: (self.llm.token_bytes(token), log_probability)
        return [(*told(generation.ids[i], generation.log_probabilities[i]), [told(*one) for one in generation.likely[i]])
                for i in range(begin, end)]


@serve.deployment
class LLMEngine:
    """A replica with a language model. ``generate`` streams events: dicts of text, ids, likely, stop; or error and code."""

    def __init__(self, path, max_queue, load):
        self.engine = Engine(cugrt.LLM(path, **load), max_queue)
        self.checked_at = -1
        self.tokens = metrics.Counter("cugrt_llm_tokens", "Tokens given")
        self.requests = metrics.Counter("cugrt_llm_requests", "Requests taken")
        self.refused = metrics.Counter("cugrt_llm_refused_requests", "Requests refused: the queue was full")
        self.places = metrics.Gauge("cugrt_llm_running", "Sequences that run")
        self.queue = metrics.Gauge("cugrt_llm_waiting", "Requests that wait for a place")

    async def generate(self, wanted):
        loop = asyncio.get_running_loop()
        try:
            request = self.engine.submit(wanted, loop)
        except cugrt.Error as error:
            is_busy = error.code == cugrt.Code.BUSY
            if is_busy:
                self.refused.inc()
            yield {"error": str(error), "code": 429 if is_busy else 400}
            return
        self.requests.inc()
        try:
            async for event in request.events():
                if event.get("ids"):
                    self.tokens.inc(len(event["ids"]))
                self.places.set(len(self.engine.running))
                self.queue.set(len(self.engine.waiting))
                yield event
        finally:  # also when who asked has gone
            self.engine.cancel(request)

    async def info(self):
        return self.engine.llm.info

    async def check_health(self):
        """Steps have been made since the last check, or one is made, and the driver is not lost."""
        if not self.engine.thread.is_alive():
            raise RuntimeError("the engine's thread has ended")
        if self.engine.steps == self.checked_at:
            probe = None
            while self.engine.steps == self.checked_at:  # until Serve's patience ends; anybody's step will do
                if probe is None and not self.engine.running and not self.engine.waiting:
                    try:
                        probe = self.engine.submit({"prompt": [0], "max_tokens": 1}, asyncio.get_running_loop())
                    except cugrt.Error:  # all there is room for is being tokenized: some of that will step, or leave room
                        pass
                await asyncio.sleep(0.02)
            if probe is not None:
                self.engine.cancel(probe)
        self.checked_at = self.engine.steps
        if self.engine.failed:
            raise RuntimeError("the last step failed, and so would the next")


class LLMDeployment:
    """A language model behind OpenAI's API: ``serve.run(LLMDeployment.bind("model.gguf", places=16))``.

    ``bind(path, places=8, max_queue=32, max_tokens=1024, model_name=None, **load)``: ``path``, a GGUF file that every
    replica can read; ``places``, sequences that a replica computes at once; ``max_queue``, requests that wait for a
    place at a replica, further ones are answered with 429; ``max_tokens``, the longest answer that may be asked for;
    ``load``, further arguments of :class:`cugrt.LLM`. ``options(...)`` before it are those of a Serve deployment, for
    the replicas with the model: ``num_replicas``, ``ray_actor_options={"num_gpus": 0.5}``.

    Served are ``/v1/completions`` and ``/v1/chat/completions``, streamed on request, and ``/v1/models``. A request joins
    between two steps, and leaves when it ends or its client goes. When a replica dies, another one answers those of its
    requests of which no text was sent; the others end with an error event.
    """

    _options: dict[str, typing.Any] = {}

    @classmethod
    def options(cls, **options: typing.Any) -> "type[LLMDeployment]":
        return type(cls.__name__, (cls,), {"_options": {**cls._options, **options}, "__doc__": cls.__doc__})

    @classmethod
    def bind(cls, path: typing.Any, places: int = 8, max_queue: int = 32, max_tokens: int = 1024,
             model_name: str | None = None, **load: typing.Any) -> serve.Application:
        from ._openai import OpenAIFront
        path, places, max_queue = path_of("path", path), whole("places", places, 1), whole("max_queue", max_queue, 0)
        max_tokens = whole("max_tokens", max_tokens, 1)
        model_name = string("model_name", "" if model_name is None else model_name) or path.rsplit("/", 1)[-1]
        options = {"max_ongoing_requests": places + max_queue + 16, **cls._options}
        engine = LLMEngine.options(**options).bind(path, max_queue, {"places": places, **load})
        return OpenAIFront.bind(engine, model_name, max_tokens)
