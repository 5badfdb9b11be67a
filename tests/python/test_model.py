"""Models: what they take, give and tell."""
import builtins
import gc
import json
import os
import stat
import threading
import weakref

import numpy as np
import pytest

import cugrt
from conftest import CLASSIFY


def expected(x, w):
    return np.maximum(x @ w, 0)


def test_a_model_says_what_it_takes_and_gives(classify):
    assert classify.inputs == [("x", "float32", ("n", 6), "in")]
    assert classify.outputs == [("result0", "float32", ("n", 4), "out")]
    assert classify.functions == ["main"] and "float32" in repr(classify)


def test_results_of_several_shapes_are_right(classify, x, w):
    for rows in (8, 1, 3, 8):
        y = classify(x=x[:rows])
        assert y.dtype == np.float32 and np.array_equal(y, expected(x[:rows], w))


def test_a_model_is_loaded_from_a_path_with_weights_from_a_file(tmp_path, x, w):
    header = json.dumps({"w": {"dtype": "F32", "shape": [6, 4], "data_offsets": [0, w.nbytes]}}).encode()
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + w.tobytes())
    (tmp_path / "m.cugrt").write_text("// a comment\n" + CLASSIFY)
    model = cugrt.load(tmp_path / "m.cugrt", weights=tmp_path / "w.safetensors")
    assert np.array_equal(model(x=x), expected(x, w))


def test_a_pack_runs_from_a_path_and_from_bytes(tmp_path, x, w):
    (tmp_path / "m.cugrt").write_text(CLASSIFY)
    told = []
    cugrt.compile(tmp_path / "m.cugrt", tmp_path / "m.pack", ["compute_75"],
                  progress=lambda done, total, kernel, ms, cached: told.append((done, total)))
    assert told and told[-1][0] == told[-1][1]
    cugrt.compile(tmp_path / "m.cugrt", tmp_path / "named.pack", ["compute_75"], names=True, progress=False)
    named = (tmp_path / "named.pack").read_bytes()
    assert b'"names":{"ops":[' in named and b'"names"' not in (tmp_path / "m.pack").read_bytes()
    for source in (tmp_path / "m.pack", (tmp_path / "m.pack").read_bytes(), named):
        assert np.array_equal(cugrt.load(source, weights={"w": w})(x=x), expected(x, w))


def test_state_is_written_in_place(count):
    x = np.arange(10, dtype="float32")
    state = count.state(n=10)
    total = np.zeros(10, "float32")
    for run in (1, 2, 3):
        twice, = count.run({"x": x, **state})
        host, = count.run({"x": x, "total": total})
        assert np.array_equal(twice, 2 * run * x) and np.array_equal(host, twice)
    assert np.array_equal(state["total"].numpy(), 3 * x) and np.array_equal(total, 3 * x)


def test_several_results_are_a_tuple_in_order(count):
    a, b = np.arange(5, dtype="float32"), np.full(5, 3, "float32")
    total, product = count.run({"a": a, "b": b}, function="pair")
    assert np.array_equal(total, a + b) and np.array_equal(product, a * b)


def test_outputs_go_where_the_caller_says(classify, count, x, w):
    host = np.empty((8, 4), "float32")
    assert classify.run({"x": x}, out={"result0": host})[0] is host
    assert np.array_equal(host, expected(x, w))
    device = classify.zeros((8, 4), "float32")
    assert classify.run({"x": x}, out={"result0": device}, device=True)[0] is device
    assert np.array_equal(device.numpy(), expected(x, w))
    with pytest.raises(cugrt.Error, match="shape"):
        classify.run({"x": x}, out={"result0": np.empty((7, 4), "float32")})
    host.flags.writeable = False
    with pytest.raises(cugrt.Error, match="read-only"):
        classify.run({"x": x}, out={"result0": host})
    with pytest.raises(cugrt.Error, match="no output 'y'"):
        classify.run({"x": x}, out={"y": device})


def test_threads_have_sessions_of_their_own_over_one_copy_of_the_weights(x, w):
    model = cugrt.load(CLASSIFY.encode(), weights={"w": w})
    wrong, start = [], threading.Barrier(4)

    def work(rows):
        start.wait()
        for _ in range(20):
            if not np.array_equal(model(x=x[:rows]), expected(x[:rows], w)):
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (1, 3, 5, 8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong and model.counters["runs"] == 80 and model.counters["weight_bytes"] == w.nbytes


SPIN = """cugrt 1

kernel @spin {
  inline \"\"\"
extern "C" __global__ void spin(const int *turns, int *last) {
  int x = 1;
  for (int i = 0; i < turns[0]; ++i) x = x * 1103515245 + 12345;
  last[0] = x;
}
\"\"\"
  entry "spin"
  params (turns: in i32, last: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}

func @main(%turns: tensor<[1], i32>, %last: out tensor<[1], i32>) {
  launch @spin(%turns, %last)
  return
}
"""


def test_other_threads_run_while_a_call_works():
    """A call of some tenths of a second: another thread goes on meanwhile."""
    model, stop, turns = cugrt.load(SPIN.encode()), threading.Event(), [0]

    def turn():
        while not stop.wait(0.001):
            turns[0] += 1

    thread = threading.Thread(target=turn)
    thread.start()
    model(turns=np.array([10_000_000], "int32"))
    stop.set()
    thread.join()
    assert turns[0] > 3


def test_prepared_graphs_are_hit_by_the_first_call(w, x):
    model = cugrt.load(CLASSIFY.encode(), weights={"w": w})
    assert model.prepare(n=[1, 8])["built"] == 2
    model(x=x)
    assert model.counters["regions_built"] == 0 and model.counters["regions_prepared"] == 2


def test_the_plan_is_a_report(classify):
    assert "main" in classify.plan(n=8) and json.loads(classify.plan("json", n=8)) and "digraph" in classify.plan("dot")
    with pytest.raises(cugrt.Error, match="not 'pdf'"):
        classify.plan("pdf")


def test_symbols_may_have_any_name(w):
    model = cugrt.load(CLASSIFY.replace("[n,", "[low,").replace("{n =", "{low =").encode(), weights={"w": w})
    assert "low = 8" in model.plan(low=8)
    assert model.prepare(low=[1, 8])["built"] == 2


def test_a_trace_shows_calls_and_launches(classify, x, tmp_path):
    with classify.trace(tmp_path / "t.json"):
        classify(x=x)
        classify(x=x[:2])
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [e["args"]["kind"] for e in events if e.get("cat") == "region"][0] == "built"
    assert sum(e["name"] == "run main" for e in events) == 2
    assert np.array_equal(classify(x=x), classify(x=x))


def test_a_trace_that_cannot_be_written_is_told_when_it_begins(classify, x, tmp_path):
    with pytest.raises(cugrt.Error, match="cannot write '/no/where.json'"):
        with classify.trace("/no/where.json"):
            raise AssertionError("is not entered")
    for wrong in (None, 5, object(), "a\0b"):
        with pytest.raises(cugrt.Error, match="^path is a str"):
            with classify.trace(wrong):
                raise AssertionError("is not entered")
    with classify.trace(os.fsencode(tmp_path / "t.json")):
        classify(x=x)
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_a_trace_is_written_whole_or_leaves_what_was_there(classify, x, tmp_path, monkeypatch):
    """With the mode that the umask leaves, or that of the file that was there; a link's file is replaced, not the link."""
    path, link = tmp_path / "t.json", tmp_path / "link.json"
    umask = os.umask(0o027)
    try:
        with classify.trace(path):
            assert not path.exists()
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.write_text("before")
    path.chmod(0o604)
    link.symlink_to(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(cugrt.Error, match="cannot write '.*link.json': No space left on device"):
            with classify.trace(link):
                classify(x=x)
    assert path.read_text() == "before" and sorted(os.listdir(tmp_path)) == ["link.json", "t.json"]
    with classify.trace(link), pytest.raises(cugrt.Error):
        with classify.trace(path):  # one at a time
            pass
    assert json.loads(path.read_text())["traceEvents"] and link.is_symlink() and stat.S_IMODE(path.stat().st_mode) == 0o604
    assert sorted(os.listdir(tmp_path)) == ["link.json", "t.json"]
    with pytest.raises(cugrt.Error, match="not a regular file"):
        classify.trace(tmp_path).__enter__()


def test_a_trace_that_does_not_begin_leaves_nothing_on(classify, x, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", interrupted)
        with pytest.raises(KeyboardInterrupt):
            classify.trace(tmp_path / "t.json").__enter__()
    with classify.trace(tmp_path / "t.json"):
        classify(x=x)


def test_a_closed_model_says_so(w, x):
    with cugrt.load(CLASSIFY.encode(), weights={"w": w}) as model:
        model(x=x)
    assert model.closed and "closed" in repr(model)
    for call in (lambda: model(x=x), lambda: model.counters, lambda: model.prepare(n=1), lambda: model.plan(n=1), model.state):
        with pytest.raises(cugrt.Error, match="closed"):
            call()


def test_the_doctor_reports():
    assert "driver" in cugrt.doctor()


def test_weights_lie_in_the_arrays_as_long_as_the_model_is_there(x, w):
    given, new = w.copy(), -w
    alive = [weakref.ref(given), weakref.ref(new)]
    model = cugrt.load(CLASSIFY.encode(), weights={"w": given})
    del given
    assert alive[0]() is not None and np.array_equal(model(x=x), expected(x, w))
    model.update_weights({"w": new})
    del new
    model(x=x)
    assert [array() is not None for array in alive] == [False, True]
    del model
    gc.collect()
    assert alive[1]() is None
    given = w.copy()
    alive = weakref.ref(given)
    with pytest.raises(cugrt.Error, match="no tensor 'w'"):
        cugrt.load(CLASSIFY.encode(), weights={"v": given})
    del given
    gc.collect()
    assert alive() is None


def test_new_weights_take_effect_in_all_sessions_and_what_does_not_fit_changes_nothing(x, w):
    model = cugrt.load(CLASSIFY.encode(), weights={"w": w})
    entered = []
    threads = [threading.Thread(target=lambda: entered.append(np.array_equal(model(x=x), expected(x, w)))) for _ in range(4)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert entered == [True] * 4
    for _ in range(3):
        model(x=x)
    before, new = model.counters, w[::-1].copy()
    model.update_weights({"w": new})
    for _ in range(2):
        assert np.array_equal(model(x=x), expected(x, new))
    assert model.counters["regions_built"] == before["regions_built"]
    for wrong, match in (({"w": w[:3].copy()}, "%w"), ({"v": w}, "'v'"), ({"w": w.astype("float64")}, "%w"), (3, "weights is")):
        with pytest.raises(cugrt.Error, match=match):
            model.update_weights(wrong)
        assert np.array_equal(model(x=x), expected(x, new))
    model.close()
    with pytest.raises(cugrt.Error, match="closed"):
        model.update_weights({"w": w})


def test_new_weights_in_place_patch_nothing(x, w):
    model = cugrt.load(CLASSIFY.encode(), weights={"w": w})
    for _ in range(3):
        assert np.array_equal(model(x=x), expected(x, w))
    new, before = w[::-1].copy(), model.counters
    model.update_weights({"w": new}, in_place=True)
    assert np.array_equal(model(x=x), expected(x, new))
    assert all(model.counters[what] == before[what] for what in ("fields_patched", "regions_built", "eager_steps"))
    with pytest.raises(cugrt.Error, match="%w"):
        model.update_weights({"w": w[:3].copy()}, in_place=True)
    assert np.array_equal(model(x=x), expected(x, new))


def test_calls_beside_an_update_see_old_weights_or_new_ones(x, w):
    model, new = cugrt.load(CLASSIFY.encode(), weights={"w": w}), -w
    mixed = []

    def call():
        for _ in range(40):
            y = model(x=x)
            if not (np.array_equal(y, expected(x, w)) or np.array_equal(y, expected(x, new))):
                mixed.append(y)

    threads = [threading.Thread(target=call) for _ in range(3)]
    [thread.start() for thread in threads]
    for turn in range(10):
        model.update_weights({"w": (w, new)[turn % 2]})
    [thread.join() for thread in threads]
    assert not mixed and np.array_equal(model(x=x), expected(x, new))
