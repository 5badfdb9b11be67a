"""Replicas under Ray Serve, on this machine alone: batches, OpenAI's API, deaths."""
import asyncio
import concurrent.futures
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import openai
import pytest
import ray
from ray import serve

import cugrt
from cugrt.serve import LLMDeployment, ModelDeployment
from cugrt.serve._llm import Engine, LLMEngine, Request
from cugrt.serve._model import Batcher, ModelReplica, batch_symbol, grouped
from conftest import CLASSIFY

# Nothing here is about time: what has not come by then never comes. Of Ray's own limits, the one of its proxy is five
# seconds, within which a busy machine does not even start it; who waits for it reads that it was cancelled.
PATIENCE_S = 600
os.environ.update({f"RAY_SERVE_PROXY_{check}_CHECK_TIMEOUT_S": str(PATIENCE_S) for check in ("READY", "HEALTH")})
PROMPTS = ["Hello", "He said", "a", "one, two, three, four, five"]


@pytest.fixture(scope="module")
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    for module in (ray.serve._private.api, ray.serve._private.client):  # a minute, which no variable makes longer
        assert module.HTTP_PROXY_TIMEOUT > 0
        module.HTTP_PROXY_TIMEOUT = PATIENCE_S
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"CUGRT_DRIVER": os.environ["CUGRT_DRIVER"]}})
    serve.start(http_options={"host": "127.0.0.1", "port": number})
    yield number
    serve.shutdown()
    ray.shutdown()


@pytest.fixture(scope="module")
def client(port, tiny_path):
    application = LLMDeployment.options(num_replicas=2).bind(str(tiny_path), places=4, max_queue=40, context=256)
    serve.run(application, name="llm", route_prefix="/")
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=PATIENCE_S)


def complete(client, prompt, tokens=6, **options):
    return client.completions.create(model="tiny", prompt=prompt, max_tokens=tokens, **{"temperature": 0, **options})


def engines():
    return [ray.get_actor(actor["name"], namespace=actor["namespace"]) for actor in ray.util.list_named_actors(all_namespaces=True)
            if "LLMEngine" in actor["name"]]


def empty_places():
    return [serve.get_deployment_handle("LLMEngine", "llm").info.remote().result() for _ in range(4)]


@pytest.mark.parametrize("name, wrong", [("path", None), ("path", 5), ("path", "a\0b"), ("places", "4"), ("places", 0), ("max_queue", None), ("max_queue", -1),
                                         ("max_tokens", 1.5), ("model_name", b"x")])
def test_a_deployment_s_wrong_arguments_are_named(name, wrong):
    with pytest.raises(cugrt.Error, match=f"^{name} is"):
        LLMDeployment.bind(**{"path": "model.gguf", name: wrong})


@pytest.mark.parametrize("name, wrong", [("path", None), ("max_batch", "8"), ("max_batch", 0), ("wait_s", "soon"), ("driver", 5)])
def test_a_replica_s_wrong_arguments_are_named(name, wrong):
    with pytest.raises(cugrt.Error, match=f"^{name} is" if name != "path" else "^a model is"):
        ModelReplica(**{"path": CLASSIFY.encode(), name: wrong})


def test_requests_are_joined_where_that_needs_no_padding(x, w):
    model = cugrt.load(CLASSIFY.encode(), weights={"w": w})
    assert batch_symbol(model) == "n"
    requests = [{"x": x[:2]}, {"x": x[2:3]}, {"x": x.astype("float64")}, {"x": x[3:]}, {"x": x[:1]}]
    assert grouped(requests, 8) == [[0, 1, 3], [4], [2]]
    results = Batcher(model, 8)(requests)
    for number in (0, 1, 3, 4):
        assert np.array_equal(results[number][0], np.maximum(requests[number]["x"] @ w, 0))
    assert isinstance(results[2], cugrt.Error) and "float64" in str(results[2])
    assert model.counters["runs"] == 2, "one for the three that were joined, one for the last"


def test_a_joined_run_that_fails_costs_the_others_nothing(w, x):
    model = cugrt.load(CLASSIFY.encode(), weights={"w": w})
    results = Batcher(model, 64)([{"x": x}, {"x": np.zeros((0, 6), "float32")}, {"x": np.zeros((40, 6), "float32")}, {"x": x[:1]}])
    assert [isinstance(result, cugrt.Error) for result in results] == [False, True, True, False]


def test_requests_that_cannot_be_compared_cost_the_others_nothing(w, x):
    """Arrays without a dimension, and names of which some are no text."""
    model = cugrt.load(CLASSIFY.encode(), weights={"w": w})
    scalar = {"x": np.array(1, "float32")}
    results = Batcher(model, 8)([{"x": x[:1]}, scalar, scalar, {"x": x[:1], 1: x[:1]}, {}, {"x": x[1:2]}])
    assert [isinstance(result, cugrt.Error) for result in results] == [False, True, True, True, True, False]


@pytest.mark.parametrize("bad", [{"x": np.zeros((1, 6), [("a", "i4")])}, {"x": np.zeros((1, 6), [("b", "f4")])}], ids=["ints", "floats"])
def test_what_numpy_cannot_join_costs_the_others_nothing(w, x, bad):
    """Structured arrays of one size look alike until NumPy joins them."""
    model = cugrt.load(CLASSIFY.encode(), weights={"w": w})
    results = Batcher(model, 8)([{"x": x[:1]}, bad, {"x": np.zeros((1, 6), [("c", "u4")])}, {"x": x[1:2]}])
    assert [isinstance(result, cugrt.Error) for result in results] == [False, True, True, False]


def test_an_exception_of_any_kind_is_its_request_s_own(w, x):
    model = cugrt.load(CLASSIFY.encode(), weights={"w": w})

    class Failing:
        inputs, outputs = model.inputs, model.outputs

        def run(self, arrays):
            if len(arrays["x"]) > 1 or arrays["x"][0, 0] == 7:
                raise MemoryError("no more")
            return model.run(arrays)

    results = Batcher(Failing(), 8)([{"x": x[:1]}, {"x": np.full((1, 6), 7, "float32")}, {"x": x[1:2]}])
    assert [type(result) for result in results] == [tuple, MemoryError, tuple]


def test_an_output_whose_rows_are_not_the_requests_is_not_divided():
    """It has as many rows as both requests together."""
    model = cugrt.load(b"cugrt 1\nfunc @main(%x: tensor<[n, 3], f32>, %k: tensor<[2], f32>) -> (tensor<[n, 3], f32>, tensor<[2], f32>)"
                       b" attributes {upper_bounds = {n = 8}, num_inputs = 1} {\n  %y = relu(%x)\n  %z = relu(%k)\n  return %y, %z\n}\n",
                       weights={"k": np.array([1, 2], "float32")})
    for y, z in Batcher(model, 8)([{"x": np.ones((1, 3), "float32")}] * 2):
        assert y.shape == (1, 3) and z.tolist() == [1, 2]


def test_a_model_without_a_common_first_symbol_is_not_joined():
    text = "cugrt 1\nfunc @main(%a: tensor<[n, n], f32>) -> (tensor<[n, n], f32>) attributes {upper_bounds = {n = 8}} {\n" \
           "  %r = relu(%a)\n  return %r\n}\n"
    assert batch_symbol(cugrt.load(text.encode())) is None


def test_rows_whose_number_the_data_decide_are_not_joined():
    text = "cugrt 1\nfunc @main(%x: tensor<[n, 2], f32>, %k: tensor<[1], i64>) -> (tensor<[n, 2], f32>, tensor<[1], i64>)" \
           " attributes {upper_bounds = {n = 8}, num_inputs = 1, counted_dims = [0[0] = 1]} {\n" \
           "  %y = relu(%x)\n  %c = neg(%k)\n  return %y, %c\n}\n"
    model = cugrt.load(text.encode(), weights={"k": np.array([-2], "int64")})
    assert model(x=np.ones((3, 2), "float32")).shape == (2, 2)
    assert batch_symbol(model) is None


def test_a_deployed_model_takes_inputs_without_a_dimension(port, tmp_path, x):
    (tmp_path / "m.cugrt").write_text("cugrt 1\nfunc @main(%x: tensor<[n, 6], f32>, %k: tensor<[], f32>) -> (tensor<[n, 6], f32>)"
                                      " attributes {upper_bounds = {n = 8}} {\n  %y = mul(%x, %k)\n  return %y\n}\n")
    handle = serve.run(ModelDeployment.bind(str(tmp_path / "m.cugrt")), name="scaled", route_prefix="/scaled")
    assert np.array_equal(handle.remote({"x": x, "k": np.array(2, "float32")}).result(timeout_s=PATIENCE_S)[0], 2 * x)
    serve.delete("scaled")


def test_a_model_deployment_answers_and_names_what_is_wrong(port, tmp_path, w, x):
    (tmp_path / "m.cugrt").write_text(CLASSIFY)
    handle = serve.run(ModelDeployment.bind(str(tmp_path / "m.cugrt"), max_batch=16, weights={"w": w}), name="model", route_prefix="/model")
    answers = [handle.remote({"x": x[:rows]}) for rows in range(1, 9)]
    bad, ragged = handle.remote({"x": x.astype("int32")}), handle.remote({"x": [[1], [1, 2]]})
    for rows, answer in enumerate(answers, 1):
        assert np.array_equal(answer.result(timeout_s=PATIENCE_S)[0], np.maximum(x[:rows] @ w, 0))
    with pytest.raises(Exception, match="input 'x' is int32"):
        bad.result(timeout_s=PATIENCE_S)
    with pytest.raises(Exception, match="input 'x' cannot be read as an array"):
        ragged.result(timeout_s=PATIENCE_S)
    serve.delete("model")


def test_an_openai_client_streams_what_the_model_gives(client, llm):
    for prompt in PROMPTS:
        chunks = list(complete(client, prompt, stream=True))
        alone = llm.generate(prompt, max_tokens=6).read()
        assert "".join(chunk.choices[0].text for chunk in chunks) == alone
        assert chunks[-1].choices[0].finish_reason == "length" and complete(client, prompt).choices[0].text == alone
    answer = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], max_tokens=4, temperature=0)
    assert answer.choices[0].message.content == llm.chat("Hi", max_tokens=4).read() and answer.usage.completion_tokens == 4
    pieces = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], max_tokens=4, temperature=0,
                                            stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == answer.choices[0].message.content
    assert [model.id for model in client.models.list()] == ["tiny.gguf"]


def test_32_requests_at_once_get_what_each_gets_alone(client, llm):
    wanted = [(PROMPTS[i % 4] * (1 + i % 3), 1 + i % 11) for i in range(32)]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda one: complete(client, *one), wanted))
    for (prompt, tokens), answer in zip(wanted, answers):
        assert answer.choices[0].text == llm.generate(prompt, max_tokens=tokens).read()
        assert answer.usage.completion_tokens == tokens


def test_log_probabilities_are_told_on_request(client, llm):
    """Whole and streamed, of completions and chats; a stop text ends the answer, and not what is told of its tokens."""
    whole, alone = complete(client, "Hello", logprobs=2).choices[0], llm.generate("Hello", max_tokens=6, log_probabilities=2)
    text, tokens = alone.read(), [llm.token_bytes(token).decode("utf-8", "replace") for token in alone.ids]
    assert whole.text == text and whole.logprobs.tokens == tokens
    assert np.allclose(whole.logprobs.token_logprobs, alone.log_probabilities)
    assert whole.logprobs.text_offset == [len("".join(tokens[:i])) for i in range(6)]
    assert [len(most) for most in whole.logprobs.top_logprobs] == [len({llm.token_bytes(t) for t, _ in one}) for one in alone.likely]
    pieces = [chunk.choices[0].logprobs for chunk in complete(client, "Hello", logprobs=0, stream=True)]
    assert [token for piece in pieces if piece for token in piece.tokens] == tokens
    assert [at for piece in pieces if piece for at in piece.text_offset] == whole.logprobs.text_offset
    messages = [{"role": "user", "content": "Hi"}]
    answer = client.chat.completions.create(model="tiny", messages=messages, max_tokens=4, temperature=0, logprobs=True, top_logprobs=1)
    chat = llm.chat("Hi", max_tokens=4, log_probabilities=1)
    chat.read()
    content = answer.choices[0].logprobs.content
    assert [bytes(one.bytes) for one in content] == [llm.token_bytes(token) for token in chat.ids]
    assert [one.top_logprobs[0].logprob for one in content] == pytest.approx([likely[0][1] for likely in chat.likely])
    assert complete(client, "Hello").choices[0].logprobs is None


def test_several_prompts_are_answered_in_order(client, llm):
    answer = complete(client, PROMPTS[:2])
    assert [choice.text for choice in answer.choices] == [llm.generate(prompt, max_tokens=6).read() for prompt in PROMPTS[:2]]


@pytest.mark.parametrize("body, said", [
    ({"prompt": ""}, "prompt"), ({"prompt": "a", "tokens": 100000}, "max_tokens"), ({"prompt": "a", "temperature": -1}, "temperature"),
    ({"prompt": "a", "n": 2}, "n is"), ({"prompt": "a", "logprobs": 21}, "logprobs"), ({"prompt": "He" * 400}, "context|positions|fit"),
    ({"prompt": [10 ** 6]}, "token"), ({"prompt": "a", "stop": [""]}, "stop"), ({"prompt": [0] * 257}, "257 tokens does not fit"),
    ({"prompt": ["a"] * 65}, "at most 64 prompts, not 65"), ({"prompt": [[0]] * 65}, "at most 64 prompts, not 65"),
    ({"prompt": "a", "stop": ["b"] * 5}, "up to 4, each of 1 to 1000"), ({"prompt": "a", "stop": "b" * 1001}, "up to 4, each of 1 to 1000"),
])
def test_bad_requests_are_refused_with_400(client, body, said):
    with pytest.raises(openai.BadRequestError, match=said):
        complete(client, **body)
    with pytest.raises(openai.BadRequestError, match=said):
        complete(client, **body, stream=True)


def test_tools_and_their_answers_go_to_the_template(client):
    """The tiny model's template writes contents alone; a call has none, and it refuses that by its line."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    ask = lambda messages, **more: client.chat.completions.create(model="tiny", messages=messages, max_tokens=1, temperature=0, **more)
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a", "content": "2"}]
    plain = ask([{key: one[key] for key in ("role", "content")} for one in said])
    assert ask(said, tools=tools, tool_choice="auto").usage.prompt_tokens == plain.usage.prompt_tokens
    with pytest.raises(openai.BadRequestError, match="chat template line 1: '.' does not go with values of types str and NoneType"):
        ask([said[0], {**said[1], "content": None}])
    for more in ({"tools": [5]}, {"tool_choice": "required"}, {"extra_body": {"chat_template_kwargs": 5}}):
        with pytest.raises(openai.BadRequestError, match="tools is|tool_choice is|chat_template_kwargs is"):
            ask(said[:1], **more)


@pytest.mark.parametrize("path, body, said", [
    ("completions", b"[" * 200000, "no JSON object"), ("completions", b"\xff{}", "no JSON object"), ("completions", b"[]", "no JSON object"),
    ("completions", b'{"prompt": "a", "stream": "no"}', "stream is"),
    ("completions", b'{"prompt": "a", "stream": true, "stream_options": "all"}', "stream_options"),
    ("completions", b'{"prompt": "\\ud800"}', "surrogates"), ("completions", b'{"prompt": [%d]}' % (10 ** 30), "whole numbers"),
    ("chat/completions", b'{"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}', "content of text"),
], ids=range(8))
def test_bodies_of_no_form_are_refused_with_400(client, path, body, said):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(f"{client.base_url}{path}", body, {"Content-Type": "application/json"}), timeout=PATIENCE_S)
    assert caught.value.code == 400 and said in json.load(caught.value)["error"]["message"]
    assert complete(client, "a", 1).choices[0].finish_reason == "length", "the next request is answered"


def test_a_cancelled_request_frees_its_place_within_two_steps(tiny_path, monkeypatch):
    """Steps are made as they are permitted, so that none is made unseen."""
    engine = Engine(cugrt.LLM(tiny_path, context=256, places=2), max_queue=8)
    step, permits, begun_at = engine.llm.step, threading.Semaphore(0), []

    def permitted_step():
        permits.acquire()
        return step()

    monkeypatch.setattr(engine.llm, "step", permitted_step)

    def is_queued(request):
        with engine.changed:
            return request.generation is not None or request in engine.waiting

    async def queued(request):  # it has been tokenized
        while not is_queued(request):
            await asyncio.sleep(0)

    async def begin(tokens):
        request = engine.submit({"prompt": "He", "max_tokens": tokens}, asyncio.get_running_loop())
        await queued(request)
        permits.release(3)  # the steps under way may be without it
        await anext(request.events())
        return request

    async def leave():
        await begin(240)
        leaving = await begin(240)
        waiting = engine.submit({"prompt": "a", "max_tokens": 1}, asyncio.get_running_loop())
        await queued(waiting)
        begin_waiting = waiting.begin
        waiting.begin = lambda: begun_at.append(engine.steps) or begin_waiting()
        with engine.changed:
            engine.cancel(leaving)
            left_at = engine.steps
        permits.release(1000)
        async for event in waiting.events():
            assert event["stop"] == "length"
        assert begun_at[0] - left_at <= 2 and leaving.generation.stop == "closed"

    try:
        asyncio.run(leave())  # one request runs on when its event loop ends, and is dropped
        for _ in range(2):
            assert asyncio.run(ask(engine, prompt="a"))[-1]["stop"] == "length"
        assert engine.llm.info["places_empty"] == 2
    finally:
        permits.release(1000)
        engine.close()


async def ask(engine, **wanted):
    request = engine.submit({"max_tokens": 1, **wanted}, asyncio.get_running_loop())
    return [event async for event in request.events()]


def test_what_cannot_begin_ends_its_request_and_not_the_engine(tiny_path, monkeypatch):
    """A prompt too long by its bytes is never tokenized; an exception of no known kind is told to who asked."""
    engine = Engine(cugrt.LLM(tiny_path, context=64, places=2), max_queue=8)
    prepared, seen, added = engine._prepared, [], engine.llm._begin

    def fail_at_b(prompt=None, **options):
        seen.append(prompt)
        return prepared(prompt, **options) if prompt != "b" else 1 / 0

    def fail_at_seed(*arguments, seed=0, **numbers):
        return added(*arguments, **numbers) if seed != 7 else 1 / 0

    monkeypatch.setattr(engine, "_prepared", fail_at_b)
    monkeypatch.setattr(engine.llm, "_begin", fail_at_seed)
    answer = lambda prompt, **more: asyncio.run(ask(engine, prompt=prompt, **more))
    try:
        longest = max(len(engine.llm.token_bytes(token)) for token in range(engine.llm.info["vocabulary"]))
        assert engine.most_bytes == 64 * max(4, longest)
        for failing in (answer("b"), answer("a", seed=7)):
            assert failing == [{"error": "ZeroDivisionError: division by zero", "code": 500}]
        assert answer("a")[-1]["stop"] == "length"
        assert answer("a", temperature=-1)[0]["code"] == 400 and answer("a", temperature="hot")[0]["code"] == 400
        assert answer([0] * 65)[0]["code"] == 400 and answer(["a"])[0]["code"] == 400
        at_limit = answer("a" * engine.most_bytes)
        assert at_limit[0]["code"] == 400 and len(seen) == 8, "it is tokenized"
        messages = [{"role": "user", "content": ""}] * 65
        for wanted in ({"prompt": "a" * (engine.most_bytes + 1)}, {"messages": [{"role": "user", "content": "é" * engine.most_bytes}]},
                       {"messages": messages}):
            with pytest.raises(cugrt.Error, match="not fit") as caught:
                engine.submit(wanted, None)
            assert caught.value.code == cugrt.Code.OUT_OF_RANGE
        assert len(seen) == 8 and engine.thread.is_alive() and engine.llm.info["places_empty"] == 2
    finally:
        engine.close()


def test_a_prompt_that_is_being_tokenized_holds_up_no_other_request(tiny_path, monkeypatch):
    """It counts as one that waits; when it is through, it has its turn."""
    engine = Engine(cugrt.LLM(tiny_path, context=64, places=1), max_queue=1)
    tokenize, go_on, threads = engine.llm._ids, threading.Event(), []

    def slow_at_b(prompt):
        threads.append(threading.current_thread())
        if prompt == "b":
            go_on.wait()
        return tokenize(prompt)

    monkeypatch.setattr(engine.llm, "_ids", slow_at_b)

    async def follow_each_other():
        slow = asyncio.ensure_future(ask(engine, prompt="b"))
        await asyncio.sleep(0)  # it has been submitted
        for _ in range(3):
            assert (await ask(engine, prompt="a"))[-1]["stop"] == "length" and not slow.done()
        assert engine.preparing == 1
        other = engine.submit({"prompt": "b", "max_tokens": 1}, asyncio.get_running_loop())
        with pytest.raises(cugrt.Error, match="2 requests wait already"):
            engine.submit({"prompt": "a"}, asyncio.get_running_loop())
        go_on.set()
        assert (await slow)[-1]["stop"] == "length"
        assert [event async for event in other.events()][-1]["stop"] == "length"

    try:
        asyncio.run(follow_each_other())
        assert engine.thread not in threads and engine.preparing == 0
    finally:
        go_on.set()
        engine.close()


def test_a_health_check_makes_a_step_where_nobody_else_does(tiny_path, monkeypatch):
    """All room is taken by a prompt that is being tokenized and then refused: no step is its own."""
    replica = LLMEngine.func_or_class(str(tiny_path), 0, {"places": 1, "context": 64})
    engine, go_on = replica.engine, threading.Event()

    tokenize = engine.llm._ids

    def refused_at_b(prompt):
        if prompt != "b":
            return tokenize(prompt)
        go_on.wait()
        raise cugrt.Error("no prompt")

    monkeypatch.setattr(engine.llm, "_ids", refused_at_b)

    async def check():
        await replica.check_health()  # the first one asks for nothing
        slow = engine.submit({"prompt": "b"}, asyncio.get_running_loop())
        checked = asyncio.ensure_future(replica.check_health())
        await asyncio.sleep(0)
        assert not checked.done()
        go_on.set()
        assert [event async for event in slow.events()] == [{"error": "no prompt", "code": 400}]
        await checked
        assert engine.steps == 1
        engine.failed = True
        engine.steps += 1
        with pytest.raises(RuntimeError, match="the last step failed"):
            await replica.check_health()

    try:
        asyncio.run(check())
    finally:
        go_on.set()
        engine.close()


def test_a_stop_text_that_ends_one_request_costs_the_others_nothing(tiny_path):
    """Where its first two tokens come in one step and the second is its last."""
    llm = cugrt.LLM(tiny_path, context=64, places=2)
    first, other = llm.generate("Hello", max_tokens=1).read(), llm.generate("He said", max_tokens=30).read()
    engine = Engine(llm, max_queue=8)

    async def together():
        text = lambda events: "".join(event["text"] for event in events)
        beside = asyncio.ensure_future(ask(engine, prompt="He said", max_tokens=30))
        for _ in range(3):
            stopped = await ask(engine, prompt="Hello", max_tokens=2, stop=[first])
            assert text(stopped) == "" and stopped[-1]["stop"] == "stop"
        assert text(await beside) == other

    try:
        asyncio.run(together())
        assert llm.info["places_empty"] == 2
    finally:
        engine.close()


@pytest.mark.parametrize("error, failed", [(MemoryError("no more"), True), (cugrt.Error("no more", cugrt.Code.DEVICE_LOST), True),
                                           (cugrt.Error("no more", cugrt.Code.OUT_OF_DEVICE_MEMORY), False)], ids=["host", "device", "room"])
def test_a_step_that_fails_ends_its_requests_and_not_the_engine(tiny_path, monkeypatch, error, failed):
    """Who hears of the end finds that the engine has said so already, and places that are empty."""
    engine = Engine(cugrt.LLM(tiny_path, context=64, places=2), max_queue=8)
    send, told = Request.send, []

    def note(request, **event):
        if "error" in event:
            told.append((engine.failed, engine.running, engine.llm.info["places_empty"]))
        send(request, **event)

    def fail():
        raise error

    monkeypatch.setattr(Request, "send", note)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(engine.llm, "step", fail)
            assert asyncio.run(ask(engine, prompt="a")) == [{"error": "no more", "code": 500}]
            assert told == [(failed, [], 2)] and engine.failed == failed
        assert asyncio.run(ask(engine, prompt="a"))[-1]["stop"] == "length" and not engine.failed
    finally:
        engine.close()


def test_a_place_that_cannot_be_freed_is_the_engine_s_failure(tiny_path, monkeypatch):
    """Another request leaves; who runs beside it is told, and the thread goes on."""
    engine = Engine(cugrt.LLM(tiny_path, context=256, places=2), max_queue=8)
    native = engine.llm._native

    class Broken:
        def __getattr__(self, name):
            return getattr(native, name)

        def cancel(self, sequence):
            raise cugrt.Error("the device is lost", cugrt.Code.DEVICE_LOST)

    async def leave():
        leaving = engine.submit({"prompt": "a", "max_tokens": 240}, asyncio.get_running_loop())
        staying = engine.submit({"prompt": "He", "max_tokens": 240}, asyncio.get_running_loop())
        await anext(leaving.events())
        await anext(staying.events())
        with engine.changed:
            engine.llm._native = Broken()
            engine.cancel(leaving)
        events = [event async for event in staying.events()]
        engine.llm._native = native
        return events[-1]

    try:
        assert asyncio.run(leave()) == {"error": "the device is lost", "code": 500} and engine.thread.is_alive()
        assert asyncio.run(ask(engine, prompt="a"))[-1]["stop"] == "length" and not engine.failed
        assert engine.llm.info["places_empty"] == 2
    finally:
        engine.close()


def test_a_body_beyond_the_limit_is_answered_with_413(client):
    for prompt, code in (("a" * (8 << 20), 413), ("a" * (1 << 20), 400)):
        with pytest.raises(openai.APIStatusError) as caught:
            complete(client, prompt)
        assert caught.value.status_code == code and "bytes" in str(caught.value)
    assert complete(client, "a", 1).choices[0].finish_reason == "length"


def test_a_client_that_leaves_frees_its_place(client):
    stream = complete(client, "He", tokens=240, stream=True)
    next(iter(stream))
    stream.close()
    deadline = time.monotonic() + PATIENCE_S
    while any(info["places_empty"] < 4 for info in empty_places()):
        assert time.monotonic() < deadline, "its place is taken still"
        time.sleep(0.2)


def test_a_full_queue_is_answered_with_429(port, tiny_path):
    application = LLMDeployment.bind(str(tiny_path), places=1, max_queue=1, context=256)
    serve.run(application, name="small", route_prefix="/small")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/small/v1", api_key="none", max_retries=0, timeout=PATIENCE_S)
    streams = [complete(client, "He", tokens=240, stream=True)]
    next(iter(streams[0]))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        outcomes = [pool.submit(complete, client, "a", 1) for _ in range(4)]
        refused = [future.exception() for future in outcomes]
    assert sum(isinstance(error, openai.RateLimitError) for error in refused) == 3 and refused.count(None) == 1
    serve.delete("small")


def test_a_replica_that_dies_costs_only_what_had_begun(client, llm):
    """Both replicas die while requests stream and wait; the next ones start up in their place."""
    begun = [complete(client, "He", tokens=240, stream=True) for _ in range(4)]
    for stream in begun:
        next(iter(stream))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(complete, client, "one, two, three", 4) for _ in range(8)]
        for victim in engines():
            ray.kill(victim)
        expected = llm.generate("one, two, three", max_tokens=4).read()
        assert [future.result().choices[0].text for future in waiting] == [expected] * 8
    ends = []
    for stream in begun:
        try:
            ends.append([chunk for chunk in stream][-1].choices[0].finish_reason)
        except openai.APIError as error:
            assert "died" in str(error)
            ends.append("error")
    assert ends == ["error"] * 4
