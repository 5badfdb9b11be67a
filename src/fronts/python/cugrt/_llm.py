"""Language models: text from GGUF files, one sequence or many at once."""
import collections
import json
import os
import threading
import typing
import weakref

from . import _native, _sources
from ._errors import Code, Error, called, path_of, string, whole, wrong
from ._stops import StopSearch

DEFAULT_CONTEXT = 2048
DRAFTS = ("none", "ngram")


def members(name, kind, value):
    """The value as a list; a text's characters are not meant, nor bytes' numbers."""
    try:
        return list(None if isinstance(value, (str, bytes, bytearray, memoryview)) else value)
    except TypeError:
        raise wrong(name, kind, value) from None


def json_of(name, value):
    """A conversation's part as JSON; "" of none."""
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Error(f"{name} are what JSON can hold: {error}") from None


def messages_of(messages):
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    fits = isinstance(messages, (list, tuple)) and all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in messages)
    if not fits or not all(isinstance(one.get("content"), (str, list, tuple)) or one.get("content") is None and len(one) > 1 + ("content" in one)
                           for one in messages):
        raise Error("messages is a text, or a list of dicts with a role and a content: a text, a list of parts, or none beside tool_calls")
    return messages


class Generation:
    """An answer as it comes: an iterator of pieces of text, each of whole characters.

    ``ids``: the tokens so far, one that ends the text among them. ``text``: all of it so far. ``stop``: None while it
    goes on, then ``"end"`` (the model ended it), ``"stop"`` (one of the caller's stop texts), ``"length"``
    (``max_tokens``), ``"context"`` (the caches are full), ``"closed"`` or ``"error"``: then ``error`` is the
    :class:`cugrt.Error`, which reading on raises. Closing it gives its place to another one.

    Where they were asked for, ``log_probabilities`` has one of each token of ``ids``, and ``likely`` of each a list of
    (token, log-probability), the most likely first: natural logarithms of the model's own probabilities, before
    temperature and choice.
    """

    prompt_ids: list[int]
    ids: list[int]
    text: str
    stop: str | None
    error: Error | None
    log_probabilities: list[float] | None
    likely: list[list[tuple[int, float]]] | None

    def __init__(self, llm: "LLM", prompt_ids: list[int], sequence: int | None, stops: StopSearch | None,
                 has_log_probabilities: bool, error: Error | None = None) -> None:
        self.prompt_ids, self.ids, self.text, self.stop, self.error = prompt_ids, [], "", "error" if error else None, error
        self.log_probabilities, self.likely = ([], []) if has_log_probabilities else (None, None)
        self._llm, self._sequence = llm, sequence
        self._stops, self._pieces = stops, collections.deque()

    def __iter__(self) -> "Generation":
        return self

    def __next__(self) -> str:
        while not self._pieces:
            if self.error is not None:
                raise self.error
            if self.stop is not None:
                raise StopIteration
            self._llm._advance(self)
        piece = self._pieces.popleft()
        self.text += piece
        return piece

    def read(self) -> str:
        """Waits for the end, and returns the whole text."""
        for _ in self:
            pass
        return self.text

    def close(self) -> None:
        """Ends the generation; what has not been read is dropped."""
        self._llm._end(self)
        self._pieces.clear()

    def __enter__(self) -> "Generation":
        return self

    def __exit__(self, kind: typing.Any, value: typing.Any, traceback: typing.Any) -> None:
        self.close()

    def __del__(self):
        if getattr(self, "stop", "never begun") is None:
            self.close()

    def _take(self, token, text, stop, log_probability, likely):
        """A token of this sequence; returns whether a stop text has ended it."""
        self.ids.append(token)
        if self.likely is not None:
            self.log_probabilities.append(log_probability)
            self.likely.append(likely)
        piece, is_stopped = self._stops.take(text, stop is not None)
        if piece:
            self._pieces.append(piece)
        self.stop = "stop" if is_stopped else stop
        return is_stopped


class LLM:
    """A language model on a device.

    ``path``: a GGUF file, or its bytes. ``dtype``: of what is computed, ``"float32"``, ``"float16"`` or ``"bfloat16"``. ``cache``: of keys
    and values that are kept, one of these or ``"q8_0"``; as ``dtype`` unless given.
    ``context``: positions for prompt and answer, 2048 or what the model was trained for if that is less. ``places``:
    sequences at once, each with a context of its own. ``pack``: what the command ``cugrt compile`` made of the same file;
    no compiler is needed then, and dtypes, context, places, draft and room for adapters are those it was made with. ``draft``: ``"ngram"``, to be given
    several tokens a step where the text repeats what it has (the text stays the same), or ``"none"``. ``driver``, ``device``, ``progress``: as of :func:`cugrt.load`.
    ``group``: a :class:`cugrt.Group`, whose device it is on then and whose budget its memory counts in; ``exclusive``, ``priority``, ``wait``,
    ``multiprocessors``: as of :meth:`cugrt.Group.load`.
    ``lora_rank``: the largest rank of an adapter that :meth:`set_adapter` may be given; 0: there are none. ``lora_targets``: the modules
    that adapters may add to, as PEFT names them; the seven products of a layer unless given.

    Any thread may use it; sequences that run at the same time are computed together, a step for all.
    """

    def __init__(self, path: typing.Any, *, dtype: str = "float32", cache: str = "", context: int = 0, places: int = 1,
                 pack: str | os.PathLike[str] = "", driver: str | None = None, device: int = 0,
                 progress: typing.Callable[[int, int, str, float, int], typing.Any] | None = None,
                 group: typing.Any = None, exclusive: str | None = None, priority: int = 0,
                 wait: str | None = None, multiprocessors: int | None = None, draft: str = "none", lora_rank: int = 0,
                 lora_targets: typing.Iterable[str] = ()) -> None:
        self._lock = threading.RLock()
        self._running = weakref.WeakValueDictionary()  # who drops a generation ends it
        self._native, self._adapters, self._active = None, set(), None
        targets = ",".join(string("a target of lora_targets", one) for one in members("lora_targets", "a list of modules' names", lora_targets))
        source = _sources.Memory(path) if isinstance(path, (bytes, bytearray, memoryview)) else path
        path = path_of("a model", source, _sources.KIND)
        if not os.path.exists(path):
            raise Error(f"cannot read '{path}': there is no such file", Code.NOT_FOUND, path)
        context, places = whole("context", context, 0), whole("places", places, 1)
        if draft not in DRAFTS:
            raise Error(f"draft is none or ngram, not {draft!r}")
        if group is None and (exclusive is not None or priority or wait is not None or multiprocessors is not None):
            raise Error("exclusive, priority, wait and multiprocessors are of models in a group")
        if group is not None and not hasattr(group, "_place"):
            raise wrong("group", "a cugrt.Group", group)
        if group is not None and (driver is not None or device):
            raise Error("driver and device are the group's")
        shared, word, priority, way, part = \
            (None, "", 0, 0, 0) if group is None else group._place(exclusive, priority, wait, multiprocessors)
        context = context or min(DEFAULT_CONTEXT, _native.trained_context(path))
        self._native = _native.LanguageModel(path, "" if driver is None else string("driver", driver),
                                             whole("device", device, -2 ** 31, 2 ** 31 - 1),
                                             _sources.nvrtc(), string("dtype", dtype), string("cache", cache),
                                             context, places, path_of("pack", pack), called("progress", progress),
                                             shared, word, priority, way, part, draft == "ngram",
                                             whole("lora_rank", lora_rank, 0, 2 ** 31 - 1), targets)

    @property
    def info(self) -> dict[str, typing.Any]:
        """What it is: a dict of architecture, layers, vocabulary, context, places, bytes, counts of graphs."""
        with self._lock:
            return self._open.info()

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of device memory, as of :attr:`cugrt.Model.memory`, and ``caches``, which count in a group's ``buffers``."""
        with self._lock:
            return self._open.memory()

    @property
    def resident(self) -> bool:
        """Whether the weights are on the device: :meth:`evict`, or the budget of a group, sends them away."""
        return self._open.is_resident()

    def evict(self) -> None:
        """Frees what the weights of a model in a group have on the device, once its steps have ended: see :meth:`cugrt.Model.evict`.

        Caches stay: sequences go on, with the next step, which copies the weights back.
        """
        self._open.evict()

    def load_adapter(self, path: str | os.PathLike[str], adapter_name: str = "default") -> None:
        """Reads an adapter (LoRA) as PEFT writes it: a folder, or the file adapter_model.safetensors in it.

        It is checked against the model and kept under its name, which takes the place of one that is not set;
        :meth:`set_adapter` makes it count.
        """
        path, name = path_of("an adapter", path), self._adapter_name(adapter_name)
        with self._lock:
            self._open.load_adapter(path, name)
            self._adapters.add(name)

    def set_adapter(self, adapter_name: str | None, scale: float = 1.0) -> None:
        """What later answers are computed with: an adapter that was loaded, its products times ``scale``; None: the model as it is.

        Raises :class:`cugrt.Error`, BUSY while sequences run, and where the adapter does not fit ``lora_rank`` and
        ``lora_targets``; what was set stays then. A switch builds no graph after the first step with an adapter.
        """
        if isinstance(scale, bool) or not isinstance(scale, (int, float)):
            raise wrong("scale", "a number", scale)
        with self._lock:
            name = "" if adapter_name is None else self._known_adapter(adapter_name)
            self._open.set_adapter(name, float(scale))
            self._active = name or None

    def delete_adapter(self, adapter_name: str) -> None:
        """Forgets an adapter, and frees what the device has of it. Raises :class:`cugrt.Error`, BUSY of the one that is set."""
        with self._lock:
            name = self._known_adapter(adapter_name)
            self._open.delete_adapter(name)
            self._adapters.discard(name)

    @property
    def active_adapter(self) -> str | None:
        """The name of the adapter that is set."""
        return self._active

    def _adapter_name(self, name):
        if not string("adapter_name", name):
            raise Error("adapter_name is empty")
        return name

    def _known_adapter(self, name):
        if self._adapter_name(name) not in self._adapters:
            raise Error(f"no adapter '{name}' is loaded", Code.NOT_FOUND)
        return name

    def tokenize(self, text: str) -> list[int]:
        """The text's token ids."""
        try:
            return self._open.tokenize(text)
        except TypeError:
            raise Error("a text is a str that UTF-8 can hold, without surrogates") from None

    def token_bytes(self, token: int) -> bytes:
        """What a token stands for, which need not be whole characters; ``b""`` of what is no token."""
        return self._open.token_bytes(whole("token", token, -2 ** 31, 2 ** 31 - 1))

    def generate(self, prompt: str | list[int], *, max_tokens: int = 128, temperature: float = 0.0, top_k: int = 0,
                 top_p: float = 0.0, min_p: float = 0.0, repetition_penalty: float = 1.0, frequency_penalty: float = 0.0,
                 seed: int = 0, stop: str | list[str] | None = None, log_probabilities: int | None = None) -> Generation:
        """Goes on from a text, or a list of token ids: a :class:`Generation`.

        ``temperature`` 0 takes the most likely token each time; else one is drawn among the ``top_k`` most likely, the
        fewest of these that have ``top_p`` together, and those that have ``min_p`` of the most likely one's probability
        (0: no such limit). The same seed gives the same text. Of tokens that were given already, logits above 0 are
        divided by ``repetition_penalty`` and others multiplied, and ``frequency_penalty`` is subtracted as often.
        ``max_tokens`` 0: until it ends. ``stop``: a text or several that end the answer and are not part of it.
        ``log_probabilities``: a number of most likely tokens, 0 or more, that each token's log-probability is told with.

        Raises :class:`cugrt.Error`, BUSY where all places are taken.
        """
        return self._begin(self._ids(prompt), [], stop, log_probabilities, max_tokens=max_tokens, temperature=temperature,
                           top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty,
                           frequency_penalty=frequency_penalty, seed=seed)

    def apply_chat_template(self, messages: str | list[dict[str, typing.Any]], *, tools: list[dict[str, typing.Any]] | None = None,
                            documents: list[dict[str, typing.Any]] | None = None, add_generation_prompt: bool = False,
                            tokenize: bool = True, **chat_template_kwargs: typing.Any) -> list[int] | str:
        """What the model's chat template makes of a conversation: token ids, or the text where ``tokenize`` is false.

        The arguments are those of Hugging Face's method of this name; ``messages`` are those of :meth:`chat`, and further
        arguments are variables of the template. Names of control tokens in messages, tools and documents stay text.
        """
        ids, _, text = self._conversation(messages, tools, documents, chat_template_kwargs, add_generation_prompt)
        return ids if tokenize else text

    def chat(self, messages: str | list[dict[str, typing.Any]], *, tools: list[dict[str, typing.Any]] | None = None,
             documents: list[dict[str, typing.Any]] | None = None, chat_template_kwargs: dict[str, typing.Any] | None = None,
             max_tokens: int = 256, temperature: float = 0.0, top_k: int = 0,
             top_p: float = 0.0, min_p: float = 0.0, repetition_penalty: float = 1.0, frequency_penalty: float = 0.0,
             seed: int = 0, stop: str | list[str] | None = None, log_probabilities: int | None = None) -> Generation:
        """The answer in a conversation, by the model's chat template: a :class:`Generation`.

        ``messages``: a text of the user's, or a list of dicts as the template takes them: ``{"role": "system" | "user" |
        "assistant" | "tool", "content": text}``, and what else it knows (``tool_calls``, ``name``). ``tools``: JSON schemas of
        functions; the answer's text has calls as the model writes them. ``documents`` and ``chat_template_kwargs``, as
        ``{"enable_thinking": False}``, are for templates that know them. Other arguments are those of :meth:`generate`.

        Raises :class:`cugrt.Error` with the template's line where it refuses the conversation or cannot be run.
        """
        ids, ends = self._chat_ids(messages, tools, documents, chat_template_kwargs)
        return self._begin(ids, ends, stop, log_probabilities, max_tokens=max_tokens, temperature=temperature,
                           top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty,
                           frequency_penalty=frequency_penalty, seed=seed)

    def batch(self, prompts: typing.Iterable[str | list[int]], **options: typing.Any) -> list[Generation]:
        """Goes on from each of several prompts, as many at once as there are places: a list of :class:`Generation`.

        All have ended. ``options`` are those of :meth:`generate`. A prompt that cannot be taken costs the others nothing:
        its generation has ``stop`` ``"error"``, and raises its ``error`` when it is read.
        """
        prompts = members("prompts", "a list, each of it a text or a list of token ids", prompts)
        begun, waiting = [], collections.deque(prompts)
        self._open  # a closed model takes none
        try:
            while waiting or any(one.stop is None for one in begun):
                while waiting:
                    try:
                        begun.append(self.generate(waiting[0], **options))
                    except Error as error:
                        if error.code == Code.BUSY:
                            break
                        begun.append(Generation(self, [], None, None, False, error))
                    waiting.popleft()
                self.step()
        except BaseException:
            for one in begun:
                one.close()
            raise
        for one in begun:
            if one.error is None:
                one.read()
        return begun

    def step(self) -> int:
        """One step of all sequences that run. Iterating over a :class:`Generation` does it."""
        with self._lock:
            native = self._open
            try:
                events = native.step()
            except Error as error:
                self._fail(error)
                raise
            # A step can tell of several tokens of a sequence, its prompt's last, the next one, and drafts. What ends it
            # by itself may stand behind the token that completes a stop text.
            ended, stopped = {sequence for sequence, _, _, stop, _, _ in events if stop is not None}, []
            for sequence, token, text, stop, log_probability, likely in events:
                one = self._running.get(sequence)
                if one is None:
                    continue
                if one._take(token, text, stop, log_probability, likely) and sequence not in ended:
                    stopped.append(sequence)
                if one.stop is not None:
                    self._running.pop(sequence, None)
            for sequence in stopped:
                self._cancel(sequence)
            return len(events)

    def close(self) -> None:
        """Frees what it has on its device; generations that run end."""
        with self._lock:
            self._stop_all("closed")
            self._native = None

    def __reduce__(self):
        raise TypeError("a cugrt.LLM is of one process: load it in the other process")

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, kind: typing.Any, value: typing.Any, traceback: typing.Any) -> None:
        self.close()

    @property
    def _open(self):
        if self._native is None:
            raise Error("the language model is closed")
        return self._native

    def _ids(self, prompt):
        if isinstance(prompt, str):
            return self.tokenize(prompt)
        return members("a prompt", "a text or a list of token ids", prompt)

    def _chat_ids(self, messages, tools=None, documents=None, chat_template_kwargs=None):
        """The tokens of a conversation, and those that end its answer. Any thread may ask, while others step."""
        ids, end, _ = self._conversation(messages, tools, documents, chat_template_kwargs, True)
        return ids, [end] if end >= 0 else []

    def _conversation(self, messages, tools, documents, variables, add_generation_prompt):
        texts = [json_of(*one) for one in (("messages", messages_of(messages)), ("tools", tools), ("documents", documents),
                                           ("chat_template_kwargs", variables or None))]
        try:
            return self._open.tokenize_chat(*texts, bool(add_generation_prompt))
        except TypeError:
            raise Error("messages and what goes with them are of texts that UTF-8 can hold, without surrogates") from None

    def _begin(self, ids, ends, stop, log_probabilities, **numbers):
        stops = stop if isinstance(stop, StopSearch) else StopSearch(stop)
        asked = log_probabilities is not None
        likely = whole("log_probabilities", log_probabilities, 0, 2 ** 31) + 1 if asked else 0
        with self._lock:
            try:
                sequence = self._open.add(ids, ends, likely, **numbers)
            except TypeError:
                raise Error("tokens, max_tokens, top_k and seed are whole numbers, the last three not negative; "
                            "temperature, top_p, min_p and penalties are numbers") from None
            generation = self._running[sequence] = Generation(self, ids, sequence, stops, asked)
            return generation

    def _advance(self, generation):
        with self._lock:
            if generation.stop is None and not generation._pieces:
                self.step()

    def _end(self, generation):
        with self._lock:
            if generation.stop is None:
                generation.stop = "closed"
                self._running.pop(generation._sequence, None)
                if self._native is not None:
                    self._cancel(generation._sequence)

    def _cancel(self, sequence):
        try:
            self._native.cancel(sequence)
        except Error as error:
            self._fail(error)
            raise

    def _fail(self, error):
        """A step, or an end, that failed ends all sequences; the session is as new."""
        self._stop_all("error", error)
        self._native.clear()

    def _stop_all(self, stop, error=None):
        for one in list(self._running.values()):
            one.stop, one.error = stop, error
        self._running.clear()
