"""The front of LLMDeployment: OpenAI's completions and chat completions over HTTP, with server-sent events."""
import asyncio
import json
import time
import uuid

import fastapi
from fastapi.responses import JSONResponse, StreamingResponse
from ray import serve
from ray.exceptions import RayError

app = fastapi.FastAPI()
TRIES = 3
ROLES = ("system", "developer", "user", "assistant", "tool")
# What a request may ask for at most; docs/serving.md has them all.
MOST_BYTES = 8 << 20  # of a body
MOST_PROMPTS = 64  # of a body: each is a sequence of its own
MOST_STOPS, LONGEST_STOP = 4, 1000  # stop texts, and characters of one
MOST_LIKELY = 20  # log-probabilities of a token
FINISH = {"end": "stop", "stop": "stop", "length": "length", "context": "length", "closed": "stop"}


class Refused(Exception):
    """An answer other than 200."""

    def __init__(self, message, code, parameter=None):
        super().__init__(message)
        self.code, self.parameter = code, parameter

    @property
    def body(self):
        kind = {429: "rate_limit_error", 400: "invalid_request_error", 413: "invalid_request_error"}.get(self.code, "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.parameter, "code": self.code}}

    def response(self):
        return JSONResponse(self.body, self.code, {"Retry-After": "1"} if self.code == 429 else None)


async def json_of(request):
    """The object that a request's body is; one that is too long is not read to its end."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            raise Refused(f"a body has at most {MOST_BYTES} bytes", 413)
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Refused("the body is no JSON object", 400)
    return body


def number(body, name, default, kind, low, high):
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool) or not low <= value <= high:
        raise Refused(f"{name} is a number from {low} to {high}", 400, name)
    return value


def options_of(body, max_tokens, default_tokens):
    """Of a request's body, the options of a generation. What would be ignored is refused."""
    for name in ("suffix", "echo", "logit_bias", "presence_penalty"):
        if body.get(name):
            raise Refused(f"{name} is not supported", 400, name)
    if number(body, "n", 1, int, 1, 1) != 1 or number(body, "best_of", 1, int, 1, 1) != 1:
        raise Refused("n is 1", 400, "n")
    stop = body.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or len(stop) > MOST_STOPS or not all(isinstance(one, str) and 0 < len(one) <= LONGEST_STOP for one in stop):
        raise Refused(f"stop is a text or up to {MOST_STOPS}, each of 1 to {LONGEST_STOP} characters", 400, "stop")
    asked = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    top_p = number(body, "top_p", 1.0, (int, float), 0, 1)
    return {"max_tokens": number(body, asked, min(default_tokens, max_tokens), int, 1, max_tokens),
            "temperature": float(number(body, "temperature", 1.0, (int, float), 0, 2)),
            "frequency_penalty": float(number(body, "frequency_penalty", 0.0, (int, float), -2, 2)),
            "top_p": 0.0 if top_p == 1 else float(top_p), "stop": stop,
            "seed": number(body, "seed", uuid.uuid4().int & 0x7fffffff, int, 0, 2 ** 63 - 1)}


def prompts_of(body):
    """The prompt, or several: texts or lists of token ids."""
    prompt = body.get("prompt")
    is_ids = lambda one: isinstance(one, list) and one and all(type(token) is int for token in one)
    prompts = [prompt] if isinstance(prompt, str) or is_ids(prompt) else prompt
    if not isinstance(prompts, list) or not prompts or not all(isinstance(one, str) and one or is_ids(one) for one in prompts):
        raise Refused("prompt is a text, a list of token ids, or a list of such; none is empty", 400, "prompt")
    if len(prompts) > MOST_PROMPTS:
        raise Refused(f"a body has at most {MOST_PROMPTS} prompts, not {len(prompts)}", 400, "prompt")
    return prompts


def calls_of(message):
    """A message's tool calls; arguments that are the text of a JSON object become it, as templates take them."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not all(isinstance(call, dict) and isinstance(call.get("function"), dict) for call in calls):
        raise Refused("tool_calls is a list of calls of functions", 400, "messages")
    plain = []
    for call in calls:
        function = dict(call["function"])
        try:
            arguments = json.loads(function["arguments"])
        except (KeyError, TypeError, ValueError, RecursionError):
            arguments = None
        if isinstance(arguments, dict):
            function["arguments"] = arguments
        plain.append({**call, "function": function})
    return plain


def messages_of(body):
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused("messages is a list", 400, "messages")
    plain = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
                                             for part in content):
            content = "".join(part["text"] for part in content)
        has_calls = isinstance(message, dict) and message.get("role") == "assistant" and message.get("tool_calls")
        if not (isinstance(content, str) or has_calls and content is None) or message.get("role") not in ROLES:
            raise Refused(f"a message has a role ({', '.join(ROLES)}) and a content of text", 400, "messages")
        kept = {name: message[name] for name in ("tool_call_id", "name", "reasoning_content") if message.get(name) is not None}
        plain.append({"role": message["role"], "content": content, **kept, **({"tool_calls": calls_of(message)} if has_calls else {})})
    return plain


def template_of(body):
    """What goes to the chat template beside the messages."""
    tools, choice, variables = body.get("tools"), body.get("tool_choice"), body.get("chat_template_kwargs")
    if not isinstance(tools, (list, type(None))) or not all(isinstance(tool, dict) for tool in tools or ()):
        raise Refused("tools is a list of objects", 400, "tools")
    if choice not in (None, "auto", "none"):
        raise Refused("tool_choice is auto or none", 400, "tool_choice")
    if not isinstance(variables, (dict, type(None))):
        raise Refused("chat_template_kwargs is an object", 400, "chat_template_kwargs")
    return {"tools": None if choice == "none" else tools or None, "chat_template_kwargs": variables}


def stream_of(body):
    """Whether the answer is streamed, and whether the usage ends it."""
    is_stream, options = body.get("stream"), body.get("stream_options")
    if not isinstance(is_stream, (bool, type(None))):
        raise Refused("stream is true or false", 400, "stream")
    if not isinstance(options, (dict, type(None))):
        raise Refused("stream_options is an object", 400, "stream_options")
    return is_stream, bool(options and options.get("include_usage"))


def shown(token_bytes):
    return token_bytes.decode("utf-8", "replace")


def event_line(value):
    return f"data: {json.dumps(value)}\n\n"


class Completions:
    """The forms of answers. ``choice``, and ``piece`` of a stream, are given an event's or an answer's text, why it
    ended, and its tokens' log-probabilities as :class:`Engine` tells them; ``offset`` is the length of text before."""
    kind, streamed, prefix = "text_completion", "text_completion", "cmpl-"

    def __init__(self, model_name):
        self.model_name, self.id, self.created = model_name, self.prefix + uuid.uuid4().hex, int(time.time())

    @staticmethod
    def wanted(body, max_tokens):
        options = options_of(body, max_tokens, 16)
        if body.get("tools"):
            raise Refused("tools is of chats", 400, "tools")
        if body.get("top_logprobs"):
            raise Refused("top_logprobs is of chats", 400, "top_logprobs")
        options["log_probabilities"] = number(body, "logprobs", None, int, 0, MOST_LIKELY)
        return [{"prompt": prompt, **options} for prompt in prompts_of(body)]

    def head(self, is_stream):
        return {"id": self.id, "object": self.streamed if is_stream else self.kind, "created": self.created, "model": self.model_name}

    @staticmethod
    def usage(prompt, answer):
        return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}

    def begin(self, index):
        return ()

    @staticmethod
    def log_probabilities(likely, offset):
        if not likely:
            return None
        offsets = [offset]
        for token, _, _ in likely:
            offsets.append(offsets[-1] + len(shown(token)))
        return {"tokens": [shown(token) for token, _, _ in likely], "token_logprobs": [value for _, value, _ in likely],
                "top_logprobs": [{shown(token): value for token, value in reversed(most)} for _, _, most in likely],
                "text_offset": offsets[:-1]}

    def choice(self, index, text, finish, likely, offset=0):
        return {"index": index, "text": text, "logprobs": self.log_probabilities(likely, offset), "finish_reason": finish}

    piece = choice


class ChatCompletions(Completions):
    kind, streamed, prefix = "chat.completion", "chat.completion.chunk", "chatcmpl-"

    @staticmethod
    def wanted(body, max_tokens):
        asked, most = body.get("logprobs"), number(body, "top_logprobs", 0, int, 0, MOST_LIKELY)
        if not isinstance(asked, (bool, type(None))) or most and not asked:
            raise Refused("logprobs is true or false, and true where there is top_logprobs", 400, "logprobs")
        return [{"messages": messages_of(body), **template_of(body), "log_probabilities": most if asked else None,
                 **options_of(body, max_tokens, 256)}]

    def begin(self, index):
        yield {"index": index, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}

    @staticmethod
    def log_probabilities(likely, offset):
        told = lambda token, value: {"token": shown(token), "logprob": value, "bytes": list(token)}
        return {"content": [{**told(token, value), "top_logprobs": [told(*one) for one in most]} for token, value, most in likely]} \
            if likely else None

    def choice(self, index, text, finish, likely, offset=0):
        return {"index": index, "message": {"role": "assistant", "content": text},
                "logprobs": self.log_probabilities(likely, offset), "finish_reason": finish}

    def piece(self, index, text, finish, likely, offset):
        return {"index": index, "delta": {"content": text} if text else {},
                "logprobs": self.log_probabilities(likely, offset), "finish_reason": finish}


# Last in the file: what it uses is taken along as it is where the class is made.
@serve.deployment(max_ongoing_requests=1000)
@serve.ingress(app)
class OpenAIFront:
    def __init__(self, engine, model_name, max_tokens):
        self.engine = engine.options(stream=True, method_name="generate")
        self.model_name, self.max_tokens = model_name, max_tokens

    async def events(self, wanted):
        """A request's events, by another replica when one dies before any text came."""
        for attempt in range(TRIES):
            stream, begun = self.engine.remote(wanted), False
            try:
                async for event in stream:
                    if "error" in event:
                        raise Refused(event["error"], event["code"])
                    begun = begun or bool(event["text"] or event["likely"])
                    yield event
                return
            except RayError as error:
                if begun or attempt == TRIES - 1:
                    raise Refused(f"the replica that answered has died ({type(error).__name__})", 500) from None
                await asyncio.sleep(0.1 * 2 ** attempt)
            finally:
                stream.cancel()  # of no effect when it has ended

    @app.get("/v1/models")
    async def models(self):
        return {"object": "list", "data": [{"id": self.model_name, "object": "model", "created": 0, "owned_by": "cugrt"}]}

    @app.post("/v1/completions")
    async def completions(self, request: fastapi.Request):
        return await self.answer(request, Completions)

    @app.post("/v1/chat/completions")
    async def chat_completions(self, request: fastapi.Request):
        return await self.answer(request, ChatCompletions)

    async def answer(self, request, form):
        try:
            body = await json_of(request)
            is_stream, with_usage = stream_of(body)
            wanted = form.wanted(body, self.max_tokens)
            form = form(self.model_name)
            if is_stream:
                return await self.stream(wanted, form, with_usage)
            return await self.whole(wanted, form)
        except Refused as refused:
            return refused.response()

    async def whole(self, wanted, form):
        async def one(options):
            texts, ids, likely, stop, prompt = [], 0, [], None, 0
            async for event in self.events(options):
                texts.append(event["text"])
                likely += event["likely"]
                ids += len(event["ids"])
                stop, prompt = event["stop"], event["prompt_tokens"]
            return "".join(texts), ids, stop, prompt, likely

        tasks = [asyncio.ensure_future(one(options)) for options in wanted]
        try:
            answers = await asyncio.gather(*tasks)
        finally:
            [task.cancel() for task in tasks]
        usage = form.usage(sum(one[3] for one in answers), sum(one[1] for one in answers))
        return {**form.head(False), "usage": usage,
                "choices": [form.choice(index, one[0], FINISH[one[2]], one[4]) for index, one in enumerate(answers)]}

    async def stream(self, wanted, form, with_usage):
        """The first event is waited for, so that what is refused is answered with its own status."""
        queue, counts = asyncio.Queue(), [0, 0]

        async def one(index, options):
            seen, offset = False, 0
            try:
                async for event in self.events(options):
                    counts[0] += 0 if seen else event["prompt_tokens"]
                    counts[1] += len(event["ids"])
                    seen = True
                    if event["text"] or event["likely"] or event["stop"]:
                        await queue.put(form.piece(index, event["text"], FINISH[event["stop"]] if event["stop"] else None,
                                                   event["likely"], offset))
                        offset += sum(len(shown(token)) for token, _, _ in event["likely"])
                await queue.put(None)
            except Refused as refused:
                await queue.put(refused)
            except Exception as error:  # else nobody would hear of it
                await queue.put(Refused(f"{type(error).__name__}: {error}", 500))

        tasks = [asyncio.ensure_future(one(index, options)) for index, options in enumerate(wanted)]
        first = await queue.get()
        if isinstance(first, Refused):
            [task.cancel() for task in tasks]
            raise first

        async def lines():
            left, item = len(tasks), first
            try:
                for index in range(len(tasks)):
                    for chunk in form.begin(index):
                        yield event_line({**form.head(True), "choices": [chunk]})
                while True:
                    if isinstance(item, Refused):
                        yield event_line(item.body)
                        return
                    if item is None:
                        left -= 1
                        if not left:
                            break
                    else:
                        yield event_line({**form.head(True), "choices": [item]})
                    item = await queue.get()
                if with_usage:
                    yield event_line({**form.head(True), "choices": [], "usage": form.usage(*counts)})
                yield "data: [DONE]\n\n"
            finally:  # also when the client has gone
                [task.cancel() for task in tasks]

        return StreamingResponse(lines(), media_type="text/event-stream")
