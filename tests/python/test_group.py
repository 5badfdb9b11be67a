"""Several models on one device."""
import threading

import numpy as np
import pytest

import cugrt


def perceptron(width, wide):
    return f"""cugrt 1
func @main(%x: tensor<[n, {width}], f32>, %u: tensor<[{width}, {wide}], f32>, %v: tensor<[{wide}, {width}], f32>)
    -> (tensor<[n, {width}], f32>)
    attributes {{num_inputs = 1, lower_bounds = {{n = 1}}, upper_bounds = {{n = 32}}}} {{
  %a = matmul(%x, %u)
  %b = relu(%a)
  %c = matmul(%b, %v)
  return %c
}}
""".encode()


class Net:
    """A model whose weights are small whole numbers: its sums are exact."""

    def __init__(self, width, wide, seed):
        rng = np.random.default_rng(seed)
        self.width, self.text = width, perceptron(width, wide)
        self.weights = {"u": rng.integers(-2, 3, (width, wide)).astype("f4"),
                        "v": rng.integers(-2, 3, (wide, width)).astype("f4")}

    def is_right(self, model, rows):
        x = (np.arange(rows * self.width).reshape(rows, self.width) % 7 - 3).astype("f4")
        return np.array_equal(model(x=x), np.maximum(x @ self.weights["u"], 0) @ self.weights["v"])


NETS = [Net(16, 64, 1), Net(24, 40, 2), Net(8, 160, 3)]


def test_models_of_one_word_share_an_arena():
    group = cugrt.Group()
    models = [group.load(net.text, weights=net.weights, exclusive="eyes") for net in NETS]
    wrong = []

    def work(thread):
        for i in range(12):
            k = (thread + i) % 3
            if not NETS[k].is_right(models[k], 1 + (5 * i + thread) % 32):
                wrong.append((thread, i))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    parts = [model.memory["arena"] for model in models]
    assert group.memory["arena"] == max(parts) < sum(parts)
    apart = cugrt.Group()
    alone = [apart.load(net.text, weights=net.weights) for net in NETS]
    assert apart.memory["arena"] == sum(parts) and all(model.resident for model in alone)


def test_weights_leave_and_return():
    net, group = NETS[0], cugrt.Group()
    model = group.load(net.text, weights=net.weights)
    for _ in range(3):
        assert net.is_right(model, 4)
    before, held = model.counters, group.memory
    model.evict()
    assert not model.resident and group.memory["weights"] == 0 and model.memory["weights"] == 0
    assert net.is_right(model, 4) and model.resident and group.memory == held
    assert model.counters["regions_built"] == before["regions_built"]
    model.close()
    with pytest.raises(cugrt.Error, match="closed"):
        model.evict()


def test_a_budget_is_an_error_with_numbers():
    net = NETS[0]
    with pytest.raises(cugrt.Error, match="budget of 1000 bytes") as told:
        cugrt.Group(budget=1000).load(net.text, weights=net.weights)
    assert told.value.code == cugrt.Code.OUT_OF_DEVICE_MEMORY
    group = cugrt.Group()
    model = group.load(net.text, weights=net.weights)
    assert net.is_right(model, 4)
    with pytest.raises(cugrt.Error, match="budget of 1000 bytes is less than"):
        group.set_budget(1000)
    group.set_budget(3 << 20)
    assert net.is_right(model, 4) and model.resident
    with pytest.raises(cugrt.Error, match="budget"):
        group.set_budget(0)
    group.set_budget(None)


def test_what_a_group_does_not_take_is_refused():
    net, group = NETS[0], cugrt.Group()
    for budget in (0, -1, "much"):
        with pytest.raises(cugrt.Error, match="budget"):
            cugrt.Group(budget=budget)
    for word in ("", 3):
        with pytest.raises(cugrt.Error, match="exclusive"):
            group.load(net.text, weights=net.weights, exclusive=word)
    with pytest.raises(cugrt.Error, match="sessions of a group"):
        cugrt.load(net.text, weights=net.weights).evict()
    with pytest.raises(cugrt.Error, match="wait"):
        group.load(net.text, weights=net.weights, wait="sleep")
    with pytest.raises(cugrt.Error, match="priority"):
        group.load(net.text, weights=net.weights, priority=-1)


@pytest.mark.parametrize("wait", ["spin", "yield", "block", None])
def test_a_sealed_model_runs_what_is_there(wait):
    net, group = NETS[0], cugrt.Group()
    model = group.load(net.text, weights=net.weights, priority=1, wait=wait)
    model.prepare(n=[1, 8, 32])  # of more than eight rows a product has another form
    model.seal()
    for rows in (1, 8, 3, 32, 8):
        assert net.is_right(model, rows)
    counters = model.counters
    assert counters["regions_built"] == 0 and counters["regions_prepared"] == 3 and counters["regions_patched"] > 0
    with pytest.raises(cugrt.Error, match="sealed"):
        model.prepare(n=5)
    for times in model.latency.values():
        assert times["count"] == 5 and times["p50"] <= times["p99"] <= times["p999"] <= times["max"]
    empty = group.load(net.text, weights=net.weights)
    empty.seal()
    with pytest.raises(cugrt.Error, match="n = 4"):
        empty(x=np.zeros((4, 16), "f4"))


def test_models_outside_of_groups_keep_no_times():
    with pytest.raises(cugrt.Error, match="measure_latency"):
        cugrt.load(NETS[0].text, weights=NETS[0].weights).latency


def test_models_on_a_part_of_the_device_share_arena_and_weights_with_others():
    group, net = cugrt.Group(instance_budget=1 << 20), NETS[0]
    whole = group.load(net.text, weights=net.weights, exclusive="eyes")
    held = group.memory["weights"]
    part = group.load(net.text, weights=net.weights, exclusive="eyes", multiprocessors=5)
    assert 5 <= part.multiprocessors <= 8 < whole.multiprocessors  # the driver's groups are of 8
    assert group.memory["weights"] == held
    x = part.to_device(np.ones((2, net.width), "f4"))  # memory of the device, for both
    assert np.array_equal(whole(x=x), part(x=x))
    for rows in (1, 7, 3, 32):
        assert net.is_right(part, rows) and net.is_right(whole, rows)
    for wrong in (0, -1, 100000, "all", 2.5):
        with pytest.raises(cugrt.Error, match="multiprocessors"):
            group.load(net.text, weights=net.weights, multiprocessors=wrong)


def test_a_language_model_stands_in_the_budget_and_its_weights_leave(tiny_path, llm):
    """Caches count, and a text goes on when its weights come back."""
    group = cugrt.Group()
    other = group.load(NETS[0].text, weights=NETS[0].weights)
    before = group.memory
    model = cugrt.LLM(tiny_path, context=256, places=4, group=group, priority=1, wait="block")
    caches = model.memory["caches"]
    # 2 layers of keys and values, by 4 places and 256 positions; state and samplers are beside them.
    assert caches == llm.info["cache_bytes"] and group.memory["buffers"] >= caches
    assert group.memory["device"] == sum(group.memory[what] for what in ("arena", "weights", "results", "buffers"))
    answer = model.generate("Hello", max_tokens=12)
    next(iter(answer))
    model.evict()
    assert not model.resident and group.memory["weights"] == before["weights"]
    expected = llm.generate("Hello", max_tokens=12)
    assert answer.read() == expected.read() and answer.ids == expected.ids and model.resident
    assert NETS[0].is_right(other, 3)
    # As what a group loads, too: with what a language model has unless it is asked for more.
    assert isinstance(group.load(tiny_path, exclusive="speech"), cugrt.LLM)
    part = cugrt.LLM(tiny_path, context=256, group=group, multiprocessors=8)
    assert part.generate("Hello", max_tokens=12).read() == expected.read()


def test_a_language_model_of_a_word_and_nets_take_turns(tiny_path, llm):
    group = cugrt.Group()
    nets = [group.load(net.text, weights=net.weights, exclusive="all") for net in NETS]
    model = cugrt.LLM(tiny_path, context=256, places=4, group=group, exclusive="all")
    wrong = []

    def work():
        wrong.extend(i for i in range(24) if not NETS[i % 3].is_right(nets[i % 3], 1 + i))

    thread = threading.Thread(target=work)
    thread.start()
    answer = model.generate("He said", max_tokens=16)
    text = answer.read()
    thread.join()
    assert not wrong and text == llm.generate("He said", max_tokens=16).read()
    assert group.memory["arena"] == max(one.memory["arena"] for one in [*nets, model])


def test_a_budget_too_small_for_a_language_model_is_an_error_with_figures(tiny_path, llm):
    needs = llm.info["weight_bytes"] + llm.info["cache_bytes"]
    group = cugrt.Group(budget=needs // 2)
    with pytest.raises(cugrt.Error, match=r"context of 256 positions does not fit: the device's group has \d+ bytes"):
        cugrt.LLM(tiny_path, context=256, places=4, group=group)
    assert group.memory["device"] == 0
    for wrong in ({"exclusive": "eyes"}, {"priority": 1}, {"wait": "block"}, {"multiprocessors": 8}):
        with pytest.raises(cugrt.Error, match="of models in a group"):
            cugrt.LLM(tiny_path, **wrong)
    with pytest.raises(cugrt.Error, match="group is a cugrt.Group, not of type str"):
        cugrt.LLM(tiny_path, group="eyes")


def test_late_runs_are_told():
    net, told = NETS[0], []
    group = cugrt.Group(low_priority_ahead=2)
    model = group.load(net.text, weights=net.weights, deadline_us=1, missed=told.append)
    for rows in (1, 5, 5, 7):
        assert net.is_right(model, rows)
    latency = model.latency  # tells of the last ones
    assert [run["run"] for run in told] == list(range(4))
    assert all(run["took_ns"] > run["deadline_ns"] == 1000 for run in told)
    assert latency["missed"] == latency["whole"]["count"] == 4
    assert latency["whole"]["max"] == max(run["took_ns"] for run in told) / 1e3
    kept = group.load(net.text, weights=net.weights, deadline_us=3_600_000_000, missed=told.append)
    assert net.is_right(kept, 3) and kept.latency["missed"] == 0 and len(told) == 4
    assert "missed" not in group.load(net.text, weights=net.weights).latency


@pytest.mark.parametrize("arguments", [{"missed": print}, {"deadline_us": 0}, {"deadline_us": 5, "missed": 1}])
def test_deadlines_that_make_no_sense_are_refused(arguments):
    with pytest.raises(cugrt.Error, match="missed|deadline_us"):
        cugrt.Group().load(NETS[0].text, weights=NETS[0].weights, **arguments)
