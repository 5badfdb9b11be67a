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


def test_what_a_group_does_not_take_is_refused():
    net, group = NETS[0], cugrt.Group()
    for budget in (0, -1, "much"):
        with pytest.raises(cugrt.Error, match="budget"):
            cugrt.Group(budget=budget)
    for word in ("", 3):
        with pytest.raises(cugrt.Error, match="exclusive"):
            group.load(net.text, weights=net.weights, exclusive=word)
    with pytest.raises(cugrt.Error, match="into no group"):
        group.load(b"GGUF" + bytes(20))
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
    model.prepare(n=[1, 8])
    model.seal()
    for rows in (1, 8, 3, 32, 8):
        assert net.is_right(model, rows)
    counters = model.counters
    assert counters["regions_built"] == 0 and counters["regions_prepared"] == 2 and counters["regions_patched"] > 0
    with pytest.raises(cugrt.Error, match="sealed"):
        model.prepare(n=5)
    for times in model.latency.values():
        assert times["count"] == 5 and times["p50"] <= times["p99"] <= times["p99.9"] <= times["max"]
    empty = group.load(net.text, weights=net.weights)
    empty.seal()
    with pytest.raises(cugrt.Error, match="n = 4"):
        empty(x=np.zeros((4, 16), "f4"))


def test_models_outside_of_groups_keep_no_times():
    with pytest.raises(cugrt.Error, match="measure_latency"):
        cugrt.load(NETS[0].text, weights=NETS[0].weights).latency
