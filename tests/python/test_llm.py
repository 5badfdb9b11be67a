"""Language models: text as it comes, many at once, ends."""
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import adapters
import cugrt
from cugrt._stops import StopSearch

PROMPTS = ["Hello", "He said", "a", "one, two, three, four, five"]


def follow(tiny, answer, gap=1e-3):
    """Each token is the most likely one after those before it, or one as good within `gap`."""
    for token, logits in zip(answer.ids, tiny.logits(answer.prompt_ids + answer.ids[:-1], last=len(answer.ids)), strict=True):
        assert logits[token] >= max(logits) - gap


def test_an_answer_comes_in_pieces_and_follows_the_model(llm, tiny):
    answer = llm.generate("Hello", max_tokens=8)
    pieces = list(answer)
    assert "".join(pieces) == answer.text and answer.stop == "length" and len(answer.ids) == 8
    follow(tiny, answer)
    assert llm.tokenize("Hell") == [256, 257] and llm.generate([256, 257], max_tokens=1).prompt_ids == [256, 257]


def test_sequences_of_a_batch_give_what_each_gives_alone(llm, tiny):
    alone = [llm.generate(prompt, max_tokens=6).read() for prompt in PROMPTS]
    together = llm.batch(PROMPTS * 2, max_tokens=6)  # more than there are places
    assert [one.text for one in together] == alone * 2
    for one in together[:4]:
        follow(tiny, one)


def test_iterators_of_several_threads_share_steps(llm):
    alone = [llm.generate(prompt, max_tokens=6).read() for prompt in PROMPTS]
    got = [None] * 4

    def work(number):
        got[number] = "".join(llm.generate(PROMPTS[number], max_tokens=6))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert got == alone


def test_closing_an_iterator_frees_its_place(llm):
    answers = [llm.generate("He", max_tokens=200) for _ in range(4)]
    with pytest.raises(cugrt.Error) as caught:
        llm.generate("He")
    assert caught.value.code == cugrt.Code.BUSY
    answers[0].close()
    assert answers[0].stop == "closed" and list(answers[0]) == [] and llm.info["places_empty"] == 1
    answers.clear()
    assert llm.info["places_empty"] == 4


def test_a_stop_text_ends_the_answer_and_is_no_part_of_it(llm):
    whole = llm.generate("Hello", max_tokens=12).read()
    end = whole[4:6]
    answer = llm.generate("Hello", max_tokens=12, stop=["never", end])
    assert answer.read() == whole[:whole.find(end)] and answer.stop == "stop"
    assert llm.info["places_empty"] == 4


def test_a_stop_text_and_an_end_in_one_step_cost_nobody_anything(llm):
    """The step that takes in a prompt's last part tells of two tokens: the first is the stop text, the second the last."""
    first, other = llm.generate("Hello", max_tokens=1).read(), llm.generate("He said", max_tokens=8).read()
    assert first
    beside = llm.generate("He said", max_tokens=8)
    begun = next(beside)
    stopped = llm.generate("Hello", max_tokens=2, stop=first)
    assert stopped.read() == "" and stopped.stop == "stop" and len(stopped.ids) == 1
    assert begun + "".join(beside) == other, "no token of its neighbour is lost"
    for tokens in (1, 2, 3):
        assert [one.text for one in llm.batch(["Hello", "He said"], max_tokens=tokens, stop=first)] == \
            ["", llm.generate("He said", max_tokens=tokens, stop=first).read()]
    assert llm.info["places_empty"] == 4


def test_a_place_that_cannot_be_freed_fails_who_runs_and_the_model_goes_on(tiny_path):
    llm = cugrt.LLM(tiny_path, context=64, places=2)
    native, alone = llm._native, llm.generate("He", max_tokens=3).read()

    class Broken:
        def __getattr__(self, name):
            return getattr(native, name)

        def cancel(self, sequence):
            raise cugrt.Error("the device is lost", cugrt.Code.DEVICE_LOST)

    llm._native = Broken()
    leaving, staying = llm.generate("He", max_tokens=9), llm.generate("He", max_tokens=9)
    with pytest.raises(cugrt.Error, match="the device is lost"):
        leaving.close()
    assert staying.stop == "error" and staying.error.code == cugrt.Code.DEVICE_LOST
    llm._native = native
    assert llm.info["places_empty"] == 2 and llm.generate("He", max_tokens=3).read() == alone


def parts(text, sizes):
    """The text in pieces of these sizes, over and over."""
    begin, pieces = 0, []
    while begin < len(text):
        for size in sizes:
            pieces.append(text[begin:begin + size])
            begin += size
    return pieces


@pytest.mark.parametrize("sizes", [[1], [2, 1], [5, 0, 3]])
def test_what_may_become_a_stop_text_is_held_back_and_no_more(sizes):
    """Against Python's own search, over texts of two letters, in which stop texts overlap themselves and each other."""
    draw = np.random.default_rng(1)
    for _ in range(300):
        letters = lambda most: "".join(draw.choice(["a", "b"], draw.integers(1, most + 1)))
        text, stops = letters(24), [letters(6) for _ in range(draw.integers(1, 4))]
        search, so_far, given, is_found = StopSearch(stops), "", "", False
        for piece in parts(text, sizes):
            so_far += piece
            through, is_found = search.take(piece, False)
            given += through
            found = [at for at in map(so_far.find, stops) if at >= 0]
            assert is_found == bool(found)
            if is_found:
                assert given == so_far[:min(found)]
                break
            held = so_far[len(given):]
            assert so_far == given + held and held == max(
                (one[:size] for one in stops for size in range(len(one)) if so_far.endswith(one[:size])), key=len)
        if not is_found:
            assert given + search.take("", True)[0] == text


def test_the_search_for_stops_looks_at_each_letter_a_fixed_number_of_times():
    """Of a text that goes on to begin the stop text anew; a search that looks again would do so 2000 times a letter."""
    looks = 0

    class Letter(str):
        def __eq__(self, other):
            nonlocal looks
            looks += 1
            return str.__eq__(self, other)

        def __ne__(self, other):
            nonlocal looks
            looks += 1
            return str.__ne__(self, other)

        __hash__ = str.__hash__

    class Letters(str):
        def __iter__(self):
            return map(Letter, str.__iter__(self))

    search = StopSearch("a" * 2000 + "c")
    for _ in range(100):
        assert search.take(Letters("a" * 40 + "b"), False)[1] is False
    assert 100 * 41 <= looks <= 4 * 100 * 41
    search.take(Letters("a" * 2000), False)
    looks = 0
    for _ in range(100):
        search.take(Letters("a" * 40), False)
    assert 100 * 40 <= looks <= 4 * 100 * 40


def test_caches_of_a_dtype_of_their_own_hold_what_it_rounds_to(tiny, tiny_path):
    """By the logits of a model whose keys and values are rounded likewise."""
    answer = cugrt.LLM(tiny_path, cache="f16", context=64).generate("Hello, you", max_tokens=4, log_probabilities=0)
    answer.read()
    try:
        tiny.cache = "f16"
        follow(tiny, answer)
    finally:
        tiny.cache = None
    with pytest.raises(cugrt.Error, match="heads of a multiple of 32 elements"):
        cugrt.LLM(tiny_path, cache="q8_0")
    with pytest.raises(cugrt.Error, match="the cache's dtype is f32, f16, bf16 or q8_0"):
        cugrt.LLM(tiny_path, cache="int8")


def test_drafts_change_no_text_and_are_counted(llm, tiny_path):
    """A stop text may end a sequence amid the tokens that a step gives it."""
    drafting = cugrt.LLM(tiny_path, context=256, places=2, draft="ngram")
    prompts = [prompt + " ab ab ab ab ab" for prompt in PROMPTS]
    wanted = [one.text for one in llm.batch(prompts, max_tokens=40)]
    assert [one.text for one in drafting.batch(prompts, max_tokens=40)] == wanted
    info = drafting.info
    assert info["draft"] == "ngram" and info["accepted"] > 0
    assert info["verifications"] + info["accepted"] == 39 * len(prompts)
    assert llm.info["draft"] == "none" and llm.info["accepted"] == 0
    for prompt, text in zip(prompts, wanted):
        for end in range(3, 12, 2):
            stopped = drafting.generate(prompt, max_tokens=40, stop=text[end:end + 2])
            assert stopped.read() == text[:text.find(text[end:end + 2])]
    assert drafting.info["places_empty"] == 2
    with pytest.raises(cugrt.Error, match="draft"):
        cugrt.LLM(tiny_path, draft="model")


def test_log_probabilities_are_those_of_the_logits(llm, tiny):
    """By the model's logits as NumPy computes them, whatever the temperature and penalties."""
    greedy = llm.generate("Hello", max_tokens=4, log_probabilities=3)
    drawn = llm.generate("Hello", max_tokens=4, log_probabilities=0, temperature=3, seed=1, frequency_penalty=1)
    for answer, most in ((greedy, 3), (drawn, 0)):
        answer.read()
        steps = np.array(tiny.logits(answer.prompt_ids + answer.ids[:-1], last=len(answer.ids)), "float64")
        for logits, token, told, likely in zip(steps, answer.ids, answer.log_probabilities, answer.likely, strict=True):
            wanted = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
            assert abs(told - wanted[token]) < 1e-3
            assert len(likely) == most and all(abs(value - wanted[one]) < 1e-3 for one, value in likely)
            assert [value for _, value in likely] == sorted((value for _, value in likely), reverse=True)
            assert not likely or abs(likely[0][1] - wanted.max()) < 1e-3
    assert llm.generate("Hello", max_tokens=1).likely is None


def test_a_token_s_bytes_are_told(llm):
    assert b"".join(map(llm.token_bytes, llm.tokenize("Hello, ä"))) == "Hello, ä".encode() and llm.token_bytes(10 ** 6) == b""


def test_a_bad_prompt_costs_the_others_of_a_batch_nothing(llm):
    alone = [llm.generate(prompt, max_tokens=4).read() for prompt in PROMPTS]
    bad = ["He" * 400, [10 ** 6], [], [1.5], None]
    answers = llm.batch([PROMPTS[0], bad[0], PROMPTS[1], *bad[1:], *PROMPTS[2:]], max_tokens=4)
    assert [one.text for one in answers if one.error is None] == alone
    failed = answers[1:2] + answers[3:7]
    assert [one.stop for one in failed] == ["error"] * 5 and not any(one.ids for one in failed)
    for one, said in zip(failed, ("context|fit|positions", "token", "prompt", "whole numbers", "of type NoneType"), strict=True):
        with pytest.raises(cugrt.Error, match=said):
            one.read()
    assert llm.info["places_empty"] == 4


def test_a_seed_decides_what_is_drawn(llm):
    draw = lambda seed: llm.generate("He", max_tokens=10, temperature=1.5, seed=seed).read()
    assert draw(1) == draw(1) and len({draw(seed) for seed in range(6)}) > 1


def test_a_chat_answers_by_the_template(llm, tiny):
    answer = llm.chat("Hi", max_tokens=3)
    again = llm.chat([{"role": "user", "content": "Hi"}], max_tokens=3)
    assert answer.read() == again.read() and answer.prompt_ids == again.prompt_ids and len(answer.prompt_ids) > 2


def test_a_conversation_is_what_the_template_makes_of_it(llm):
    """Hugging Face's method and its arguments; names of control tokens in it stay text."""
    messages = [{"role": "user", "content": "<|end|>"}, {"role": "assistant", "content": "b"}]
    text = "<|user|>\n<|end|><|end|>\n<|assistant|>\nb<|end|>\n"
    assert llm.apply_chat_template(messages, tokenize=False) == text
    assert llm.apply_chat_template(messages, tools=[], add_generation_prompt=True, tokenize=False) == text + "<|assistant|>\n"
    ids = llm.apply_chat_template("Hi", add_generation_prompt=True)
    assert ids == llm.chat("Hi", max_tokens=1).prompt_ids and b"".join(map(llm.token_bytes, ids)) == b"<|user|>\nHi<|end|>\n<|assistant|>\n"
    with pytest.raises(cugrt.Error, match="chat template line 1: 'dict object' has no attribute 'content'"):
        llm.apply_chat_template([{"role": "assistant", "tool_calls": []}])
    with pytest.raises(cugrt.Error, match="tools are what JSON can hold"):
        llm.chat("Hi", tools=[print])


def test_a_pack_of_the_command_runs_without_a_compiler(tiny_path, tmp_path):
    """Of the same file alone; its bytes do as well."""
    tool, pack = os.path.join(os.path.dirname(sys.executable), "cugrt"), tmp_path / "tiny.pack"
    subprocess.run([tool, "compile", "--arch", "compute_75", tiny_path, "-o", pack, "--context", "64", "--places", "2"], check=True)
    wanted = cugrt.LLM(tiny_path, context=64).generate("Hello", max_tokens=6).read()
    code = "import sys, cugrt; llm = cugrt.LLM(open(sys.argv[1], 'rb').read(), pack=sys.argv[2]); " \
           "sys.stdout.buffer.write(repr((llm.info['places'], llm.info['context'], llm.generate('Hello', max_tokens=6).read())).encode())"
    done = subprocess.run([sys.executable, "-c", code, tiny_path, pack], check=True, capture_output=True,
                          env={**os.environ, "CUGRT_NVRTC": "/none", "XDG_CACHE_HOME": str(tmp_path)})
    assert eval(done.stdout) == (2, 64, wanted)
    with pytest.raises(cugrt.Error, match="does not begin as a pack"):
        cugrt.LLM(tiny_path, pack=tiny_path)


def test_text_that_utf_8_cannot_hold_is_refused(llm):
    for wrong in (lambda: llm.generate("\ud800"), lambda: llm.tokenize("a\udfff"), lambda: llm.chat("\ud800")):
        with pytest.raises(cugrt.Error, match="without surrogates"):
            wrong()


def test_nul_characters_arrive_whole(llm):
    assert b"".join(map(llm.token_bytes, llm.tokenize("a\0b"))) == b"a\0b" and llm.generate("a\0b", max_tokens=1).prompt_ids == llm.tokenize("a\0b")
    assert b"".join(map(llm.token_bytes, llm.chat("a\0b", max_tokens=1).prompt_ids)) == b"<|user|>\na\0b<|end|>\n<|assistant|>\n"


def test_bytes_are_no_prompt(llm):
    for wrong in (b"He", bytearray(b"He"), memoryview(b"He")):
        with pytest.raises(cugrt.Error, match="a prompt is a text or a list of token ids, not of type"):
            llm.generate(wrong)
        with pytest.raises(cugrt.Error, match="prompts is a list"):
            llm.batch(wrong)
        assert llm.batch([wrong, "He"], max_tokens=1)[0].stop == "error"


def test_a_closed_language_model_says_so(tiny_path):
    llm = cugrt.LLM(tiny_path, context=64)
    llm.close()
    llm.close()
    for call in (llm.step, lambda: llm.batch(["He"]), lambda: llm.batch([]), lambda: llm.generate("He"), lambda: llm.chat("He"), lambda: llm.info,
                 lambda: llm.tokenize("He"), lambda: llm.token_bytes(1)):
        with pytest.raises(cugrt.Error, match="closed"):
            call()


def test_a_model_in_memory_that_is_not_contiguous_is_loaded(tiny):
    spread = bytearray(2 * len(tiny.bytes))
    spread[::2] = tiny.bytes
    assert cugrt.LLM(memoryview(spread)[::2], context=64).info["context"] == 64


def test_load_knows_gguf(tiny_path):
    with cugrt.load(tiny_path) as model:
        assert isinstance(model, cugrt.LLM) and model.info["context"] == 300
        answer = model.generate("He", max_tokens=50)
        next(answer)
    assert answer.stop == "closed"
    with pytest.raises(cugrt.Error, match="closed"):
        model.generate("He")


def test_what_cannot_be_taken_is_told(llm, tiny, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(20))
    with pytest.raises(cugrt.Error, match=r"architecture 'll\\xffma'"):
        cugrt.LLM(tiny.bytes.replace(b"llama", b"ll\xffma"))
    for make, said in ((lambda: cugrt.LLM(tmp_path / "bad.gguf"), "bad.gguf"), (lambda: cugrt.LLM("/no/file.gguf"), "no such file"),
                       (lambda: llm.generate([]), "prompt"), (lambda: llm.generate([10 ** 6]), "token"),
                       (lambda: llm.generate("He" * 400), "context|fit|positions"),
                       (lambda: llm.generate("He", temperature=-1), "temperature"), (lambda: llm.generate("He", temperature="hot"), "numbers"),
                       (lambda: llm.generate("He", max_tokens=-1), "not negative"), (lambda: llm.generate(5), "of type int"),
                       (lambda: llm.generate("He", stop=[""]), "stop"), (lambda: llm.generate("He", stop=5), "stop"),
                       (lambda: llm.batch("He"), "prompts"), (lambda: llm.batch(5), "prompts"),
                       (lambda: llm.generate("He", min_p=2), "min_p"),
                       (lambda: llm.generate("He", log_probabilities=-1), "log_probabilities"), (lambda: llm.chat([{"role": "user"}]), "content"),
                       (lambda: llm.chat(5), "messages"), (lambda: llm.chat([{"role": "user", "content": 5}]), "content")):
        with pytest.raises(cugrt.Error, match=said):
            make()
    assert llm.generate("He", max_tokens=1).read() is not None


def test_adapters_are_loaded_set_and_deleted_by_name(tiny, tiny_path, tmp_path):
    for name, scale in (("a", 2.0), ("b", -1.0)):
        adapters.adapted(tiny, tmp_path / name, adapters.LAYER, {"lora_alpha": 3 * scale}, scale)
    merged = adapters.adapted(tiny, tmp_path / "a", adapters.LAYER, {"lora_alpha": 6}, 2.0)
    halved = adapters.adapted(tiny, tmp_path / "a", adapters.LAYER, {"lora_alpha": 6}, 2.0, times=0.5)
    with cugrt.LLM(tiny_path, context=256, lora_rank=3) as llm:
        def text():
            return llm.generate("Hello", max_tokens=8).read()
        without = text()
        llm.load_adapter(tmp_path / "a")
        llm.load_adapter(str(tmp_path / "b" / "adapter_model.safetensors"), "other")
        assert llm.active_adapter is None and text() == without and llm.info["lora_rank"] == 8
        for model, scale in ((merged, 1.0), (halved, 0.5)):
            llm.set_adapter("default", scale)
            answer = llm.generate("Hello", max_tokens=8)
            answer.read()
            follow(model, answer)
        assert llm.active_adapter == "default"
        llm.set_adapter("other")
        assert text() != without
        built = llm.info["instances_built"]
        llm.set_adapter("default")
        text()
        assert llm.info["instances_built"] == built

        def refusal(call, code):
            with pytest.raises(cugrt.Error) as caught:
                call()
            assert caught.value.code == code
            return str(caught.value)
        running = llm.generate("Hello", max_tokens=8)
        refusal(lambda: llm.set_adapter(None), cugrt.Code.BUSY)
        running.close()
        refusal(lambda: llm.delete_adapter("default"), cugrt.Code.BUSY)
        refusal(lambda: llm.load_adapter(tmp_path / "b"), cugrt.Code.BUSY)
        refusal(lambda: llm.load_adapter(tmp_path / "c", "c"), cugrt.Code.NOT_FOUND)
        assert refusal(lambda: llm.set_adapter("c"), cugrt.Code.NOT_FOUND) == "no adapter 'c' is loaded"
        for wrong in (lambda: llm.set_adapter(1), lambda: llm.set_adapter("other", "1"), lambda: llm.load_adapter(tmp_path, "")):
            refusal(wrong, cugrt.Code.INVALID_ARGUMENT)
        assert llm.active_adapter == "default"
        llm.set_adapter(None)
        assert llm.active_adapter is None and text() == without
        llm.delete_adapter("default")
        refusal(lambda: llm.set_adapter("default"), cugrt.Code.NOT_FOUND)
        llm.load_adapter(tmp_path / "a")
        llm.set_adapter("default")
        assert text() != without
    with pytest.raises(cugrt.Error, match="'v' is no target of adapters"):
        cugrt.LLM(tiny_path, context=256, lora_rank=3, lora_targets=["q_proj", "v"])
    with cugrt.LLM(tiny_path, context=256, lora_rank=3, lora_targets=["q_proj"]) as llm:
        llm.load_adapter(tmp_path / "a")
        with pytest.raises(cugrt.Error, match="which the session's lora_targets do not have"):
            llm.set_adapter("default")
        assert llm.active_adapter is None
