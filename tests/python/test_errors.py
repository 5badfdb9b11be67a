"""Bad input ends in a sentence that names it."""
import pickle

import numpy as np
import pytest

import cugrt
from conftest import CLASSIFY, ON_HOST
from test_onnx import linear

GOOD = np.zeros((2, 6), "float32")
HUGE = np.lib.stride_tricks.as_strided(GOOD, (1 << 40, 6), (0, 4))


class Claims:
    """An array on a CUDA device that no model is on, by its own word, or on whatever the test says."""

    def __init__(self, place=(2, 7)):
        self.place = place

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, **_):
        raise AssertionError("is refused before it is asked")


class Gives:
    """An array on the host whose capsule is what the test says."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule


@pytest.mark.parametrize("arrays, said", [
    ({}, "input 'x' is missing: float32[n, 6] is declared"),
    ({"y": GOOD}, "there is no input 'y'; there are 'x'"),
    ({"x": GOOD, "z": GOOD}, "there is no input 'z'"),
    ({"x": GOOD.astype("float64")}, "input 'x' is float64[2, 6] where float32[n, 6] is declared: another dtype"),
    ({"x": GOOD[0]}, "another number of dimensions"),
    ({"x": GOOD[:, :5].copy()}, "dimension 1 is 6"),
    ({"x": np.zeros((33, 6), "float32")}, "dimension 0 is at most 32"),
    ({"x": np.zeros((0, 6), "float32")}, "n"),
    ({"x": GOOD[::2, ::2]}, "input 'x' is not contiguous"),
    ({"x": np.asfortranarray(GOOD)}, "input 'x' is not contiguous"),
    ({"x": HUGE}, "input 'x' is not contiguous"),
    ({"x": np.zeros((2, 6), "complex64")}, "elements of format 'Zf'"),
    ({"x": [[1.0]]}, "input 'x' is of type list, which is no array"),
    ({"x": None}, "input 'x' is of type NoneType"),
    ({"x": Claims()}, "input 'x' is on " + ("a CUDA device, and the model on the emulated driver" if ON_HOST else "cuda:7, the model is on cuda:0")),
    ({"x": Gives(RuntimeError("no more"))}, "input 'x' cannot be shared by DLPack: no more"),
    ({"x": Gives(5)}, "input 'x' gives a DLPack capsule that is none"),
    ({"x": Claims(5)}, "input 'x' cannot be shared by DLPack: 'int' object"),
    ({"x": Claims(("a", 0))}, "input 'x' cannot be shared by DLPack: its __dlpack_device__ gives no pair of numbers"),
    ({"x": Claims((1 << 40, 0))}, "its __dlpack_device__ gives no pair of numbers"),
    ({"x\0": GOOD}, "there is no input 'x\\x00'; there are 'x'"),
    ({"\ud800": GOOD}, "there is no input '\\ud800'; there are 'x'"),
    ({"x": GOOD.astype(">f4")}, "elements of format '>f'"),
    ({"x": np.zeros((2, 6), object)}, "which no dtype here has"),
    ({"x": np.zeros((1,) * 9, "float32")}, "has 9 dimensions; at most 8 are taken"),
    ({"x": "text"}, "input 'x' is of type str, which is no array"),
    ({"x": b"bytes of it"}, "input 'x' is uint8[11] where float32[n, 6] is declared"),
])
def test_a_wrong_argument_is_named(classify, arrays, said):
    with pytest.raises(cugrt.Error) as caught:
        classify(**arrays)
    assert said in str(caught.value)
    assert caught.value.code in (cugrt.Code.INVALID_ARGUMENT, cugrt.Code.OUT_OF_RANGE)
    assert np.array_equal(classify(x=GOOD), np.zeros((2, 4))), "the next call is right"


@pytest.mark.parametrize("out, said", [
    ({"result0": np.zeros((2, 4), "float64")}, "output 'result0' is float64[2, 4] where float32[n, 4] is declared"),
    ({"result0": np.zeros(8, "float32")}, "another number of dimensions"),
    ({"result0": np.zeros((4, 2), "float32").T}, "output 'result0' is not contiguous"),
    ({"result0": np.broadcast_to(np.float32(0), (2, 4))}, "output 'result0' is not contiguous"),
    ({"result0": np.zeros((3, 4), "float32")}, "output 'result0' has shape [2, 4]; the array that was given for it has [3, 4]"),
    ({"result0": None}, "output 'result0' is of type NoneType"),
    ({"result1": np.zeros((2, 4), "float32")}, "there is no output 'result1'"),
    ({"result0": Claims(5)}, "output 'result0' cannot be shared by DLPack"),
    ({"\ud800": GOOD}, "there is no output '\\ud800'"),
    ([GOOD], "out is a dict of arrays by the outputs' names, not of type list"),
    (5, "out is a dict of arrays by the outputs' names, not of type int"),
])
def test_a_wrong_place_for_an_output_is_named(classify, out, said):
    with pytest.raises(cugrt.Error) as caught:
        classify.run({"x": GOOD}, out=out)
    assert said in str(caught.value)
    assert np.array_equal(classify(x=GOOD), np.zeros((2, 4))), "the next call is right"


def test_an_array_that_no_device_holds_is_told(tmp_path):
    """A terabyte that is contiguous, without a byte on the disk."""
    model = cugrt.load(b"cugrt 1\nfunc @main(%x: tensor<[n], u8>) -> (tensor<[n], u8>) {\n  %y = add(%x, %x)\n  return %y\n}\n")
    huge = np.memmap(tmp_path / "huge", "uint8", "w+", shape=(1 << 40,))
    with pytest.raises(cugrt.Error, match="larger than the device's memory") as caught:
        model(x=huge)
    assert caught.value.code == cugrt.Code.OUT_OF_DEVICE_MEMORY
    assert np.array_equal(model(x=np.full(3, 2, "uint8")), [4, 4, 4])


def test_names_that_are_no_names_are_told(classify):
    for arrays in ({1: GOOD}, {"x": GOOD, 1: GOOD}):
        with pytest.raises(cugrt.Error, match="there is no input '1'; there are 'x'"):
            classify.run(arrays)
    with pytest.raises(TypeError, match="by name"):
        classify(GOOD)


def test_state_that_cannot_be_written_is_refused(count):
    total = np.zeros(4, "float32")
    total.flags.writeable = False
    with pytest.raises(cugrt.Error, match="'total' is read-only, and is to be written"):
        count(x=np.zeros(4, "float32"), total=total)


def test_dimensions_that_disagree_are_told(count):
    with pytest.raises(cugrt.Error, match="n"):
        count.run({"a": np.zeros(4, "float32"), "b": np.zeros(5, "float32")}, function="pair")


def test_errors_in_text_have_a_place(tmp_path):
    (tmp_path / "bad.cugrt").write_text("cugrt 1\nfunc @main(%x: tensor<[n], f3>) { return }\n")
    with pytest.raises(cugrt.Error) as caught:
        cugrt.load(tmp_path / "bad.cugrt")
    assert caught.value.code == cugrt.Code.PARSE_ERROR and caught.value.place.endswith("bad.cugrt:2:28")


@pytest.mark.parametrize("source, said", [
    ("/nowhere/at/all.onnx", "cannot read '/nowhere/at/all.onnx'"),
    (b"nothing that is known", "none of a module's text, a pack, ONNX and GGUF"),
    (b"PK\x03\x04 and a model", "a zip archive, as torch.export saves programs: cugrt.from_exported takes"),
    (b'\n{"root_index": 1}', "JSON, as TVM saves Relax modules: cugrt.from_relax takes"),
    (b"", "none of"),
    (b"cugrtpak" + bytes(100), "bytes"),
    (b"cugrt 2\n", "version"),
])
def test_what_is_no_model_is_told(source, said):
    with pytest.raises(cugrt.Error, match=said):
        cugrt.load(source)


def test_wrong_arguments_of_loading_are_told(w):
    for arguments, said in (({"driver": "/no/driver.so"}, "driver"), ({"weights": {}}, "w"), ({"weights": "/no.file"}, "/no.file"),
                            ({"bounds": {"n": (1, 2)}}, "ONNX"), ({"options": {"no.such": 1}}, "no.such"),
                            ({"weights": {"w": w.astype("float64")}}, "w")):
        with pytest.raises(cugrt.Error, match=said):
            cugrt.load(CLASSIFY.encode(), **{"weights": {"w": w}, **arguments})


def test_an_exception_in_progress_ends_the_compilation(tmp_path):
    class Enough(Exception):
        pass

    def stop(*_):
        raise Enough

    with pytest.raises(Enough):
        cugrt.compile(CLASSIFY.encode(), tmp_path / "m.pack", ["compute_75"], progress=stop)


def test_values_of_another_type_or_size_are_named(classify, tiny_path, llm):
    for call, said in ((lambda: classify.plan(n="a"), "n is a whole number, not of type str"), (lambda: classify.plan(n=2 ** 80), "n is a whole number from"),
                       (lambda: classify.prepare(n="a"), "n is a whole number"), (lambda: classify.prepare(n=[1, 2 ** 80]), "n is a whole number from"),
                       (lambda: classify.prepare(n=1.5), "n is a whole number, not of type float"), (lambda: classify.state(n="a"), "n is"),
                       (lambda: classify.run([GOOD]), "arrays is a dict"), (lambda: classify.run(None), "arrays is a dict"),
                       (lambda: cugrt.load(CLASSIFY.encode(), device="a"), "device is"), (lambda: cugrt.LLM(tiny_path, device=2 ** 40), "device is"),
                       (lambda: classify.plan(5), "format is a str, not of type int"), (lambda: classify.prepare(5), "function is a str"),
                       (lambda: classify.inputs_of(5), "function is a str"), (lambda: classify.state(5), "function is a str"),
                       (lambda: classify.zeros("a", "f32"), "a dimension is a whole number"), (lambda: classify.zeros(2, 5), "dtype is a str"),
                       (lambda: cugrt.load(CLASSIFY.encode(), bounds={"n": 5}), "are of ONNX files"),
                       (lambda: cugrt.LLM(tiny_path, dtype=5), "dtype is a str"), (lambda: cugrt.LLM(tiny_path, cache=5), "cache is a str"),
                       (lambda: cugrt.load(5), "not of type int"),
                       (lambda: cugrt.LLM(5), "not of type int"), (lambda: cugrt.LLM(tiny_path, context="a"), "context is"),
                       (lambda: cugrt.LLM(tiny_path, context=2 ** 80), "context is"), (lambda: cugrt.LLM(tiny_path, places=0), "places is"),
                       (lambda: llm.token_bytes(10 ** 30), "token is"), (lambda: llm.batch(5), "prompts is")):
        with pytest.raises(cugrt.Error, match=said):
            call()
    assert classify.plan(n=np.int64(8)) == classify.plan(n=8)


WRONG_TYPES = (5.5, b"x", [object()], object())


@pytest.mark.parametrize("name", ["driver", "device", "weights", "options", "dims", "bounds", "bind", "preprocess", "progress"])
def test_wrong_types_of_loading_are_named(name):
    model = CLASSIFY.encode() if name in ("driver", "device", "weights", "options", "progress") else linear(np.zeros((6, 4), "float32"), np.zeros(4, "float32"))
    for wrong in WRONG_TYPES if name != "weights" else (5.5, [object()], object()):
        with pytest.raises(cugrt.Error, match=rf"^{name} is .*, not of type {type(wrong).__name__}$") as caught:
            cugrt.load(model, **{name: wrong})
        assert caught.value.code == cugrt.Code.INVALID_ARGUMENT
    for wrong in ({5: 1}, {"a\0": 1}, {"\ud800": 1}) if name not in ("driver", "device", "progress") else ():
        with pytest.raises(cugrt.Error, match=f"^a name in {name} is a str"):
            cugrt.load(model, **{name: wrong})


@pytest.mark.parametrize("arguments, said", [
    ({"options": {"a": None}}, "options of 'a' is a text or a number, not of type NoneType"), ({"options": {"a": "\0"}}, "options of 'a' is a str without"),
    ({"weights": {"w": object()}}, "weight 'w' is of type object"), ({"weights": {"w": Claims(5)}}, "weight 'w' cannot be shared by DLPack"),
    ({"weights": {"w": Claims((1,))}}, "weight 'w' cannot be shared by DLPack"), ({"weights": "a\0b"}, "weights is a str without NUL"),
    ({"driver": "emulated\0"}, "driver is a str without NUL"), ({"driver": "\ud800"}, "driver is a str without NUL characters and surrogates"),
    ({"dims": {"batch.size": None}}, "dims of 'batch.size'.* is a whole number"), ({"dims": {"batch.size": b"n"}}, "dims of 'batch.size'"),
    ({"bind": {"input:0": None}}, "bind of 'input:0' is a text or a number"), ({"bind": {"input:0": [[1]]}}, "bind of 'input:0' is a text or a number"),
    ({"bind": {"input:0": np.array(1)}}, "bind"), ({"preprocess": {"input:0": 5}}, "preprocess of 'input:0' is a str"),
])
def test_wrong_entries_of_loading_are_named(arguments, said):
    onnx = {"dims", "bind", "preprocess"} & set(arguments)
    with pytest.raises(cugrt.Error, match=said):
        cugrt.load(linear(np.zeros((6, 4), "float32"), np.zeros(4, "float32")) if onnx else CLASSIFY.encode(), **arguments)


def test_wrong_types_of_compiling_are_named_before_anything_is_written(tmp_path):
    def compile(output=tmp_path / "m.pack", architectures="compute_75", **more):
        cugrt.compile(CLASSIFY.encode(), output, architectures, **{"progress": False, **more})

    for name, wrong, said in [*((name, wrong, f"^{name} is") for name in ("driver", "options", "progress") for wrong in (5.5, b"x", object())),
                              *(("output", wrong, "^output is") for wrong in (None, 5, [], str(tmp_path / "a\0b"), "\ud800")),
                              *(("architectures", wrong, "^an architecture is") for wrong in (None, 5, [5], b"x", ["compute_75", None], ["compute_75\0"])),
                              *(("weights", wrong, "^weights is") for wrong in (5, {"w": GOOD}, "a\0b")),
                              *((name, wrong, f"^{name} is True or False") for name in ("weights_inside", "names") for wrong in (None, 5, "no"))]:
        with pytest.raises(cugrt.Error, match=said):
            compile(**{name: wrong})
    assert not list(tmp_path.iterdir())


def test_wrong_types_of_a_model_s_methods_are_named(classify, x, tmp_path):
    array = classify.zeros((2, 3), "f32")
    calls = [*((lambda wrong=wrong: classify.run({"x": x}, function=wrong), "^function is a str") for wrong in (*WRONG_TYPES, None, "\ud800")),
             *((lambda wrong=wrong: classify.run({"x": x}, device=wrong), "^device is True or False, not of type") for wrong in (*WRONG_TYPES, None, 1)),
             *((lambda wrong=wrong: classify.to_device(wrong), "^the array ") for wrong in (None, 5, object(), Claims(5))),
             *((lambda wrong=wrong: classify.zeros(2, wrong), "^dtype is a str") for wrong in (None, np.float32, "f32\0", "\ud800")),
             *((lambda wrong=wrong: classify.zeros(wrong, "f32"), "^a dimension is a whole number") for wrong in (None, object(), np.array(1.5), -1)),
             *((lambda wrong=wrong: array.__dlpack__(stream=wrong), "^stream is a whole number or None") for wrong in (*WRONG_TYPES, 1 << 70)),
             *((lambda wrong=wrong: array.__dlpack__(max_version=wrong), "^max_version is a pair") for wrong in (*WRONG_TYPES, 5, (1,))),
             *((lambda wrong=wrong: array.__dlpack__(dl_device=wrong), "^dl_device is a pair") for wrong in (*WRONG_TYPES, 5, (1,))),
             *((lambda wrong=wrong: array.__dlpack__(copy=wrong), "^copy is True, False or None") for wrong in WRONG_TYPES),
             *((lambda wrong=wrong: array.__array__(copy=wrong), "^copy is True, False or None") for wrong in WRONG_TYPES),
             *((lambda wrong=wrong: array.__array__(wrong), "^dtype is none that NumPy") for wrong in ("nonsense", 5)),
             *((lambda call=call: call(**{"n\0": 8}), "^a name in symbols is a str") for call in (classify.plan, classify.prepare, classify.state)),
             *((lambda wrong=wrong: cugrt.Model(wrong), "made by cugrt.load") for wrong in (5, {})), (lambda: classify.plan("\ud800"), "^format is"),
             (lambda: classify.inputs_of("\ud800"), "^function is"), (lambda: classify.prepare(n=np.array(1.5)), "^n is a whole number")]
    for number, (call, said) in enumerate(calls):
        with pytest.raises(cugrt.Error, match=said):
            call()
    assert classify.prepare(n=np.array(3))["regions"] == 1 and classify.zeros(np.array(3), "f32").shape == (3,)


def test_wrong_types_of_a_language_model_are_named(tiny_path, llm):
    for name in ("dtype", "cache", "context", "places", "pack", "driver", "device", "progress"):
        for wrong in WRONG_TYPES if name != "pack" else (5.5, None, "a\0b", object()):
            with pytest.raises(cugrt.Error, match=f"^{name} is"):
                cugrt.LLM(tiny_path, **{name: wrong})
    for wrong in (None, "a\0b", "\ud800"):
        with pytest.raises(cugrt.Error, match="^a model is a"):
            cugrt.LLM(wrong)
    for options, said in (({"stop": 0}, "stop is"), ({"log_probabilities": "a"}, "^log_probabilities is"), ({"log_probabilities": 1 << 70}, "^log_probabilities is"),
                          ({"max_tokens": b"x"}, "max_tokens"), ({"seed": 1.5}, "seed"), ({"min_p": None}, "min_p")):
        with pytest.raises(cugrt.Error, match=said):
            llm.generate("He", **options)


def test_a_source_of_another_type_is_named(tmp_path):
    for wrong in (None, 5, [], cugrt.Module, "a\0b", "\ud800"):
        with pytest.raises(cugrt.Error, match="^a model is a"):
            cugrt.load(wrong)
    with pytest.raises(cugrt.Error, match="GGUF file is loaded with"):
        cugrt.load(b"GGUF", weights=np.zeros(3))


def test_functions_that_are_not_there_are_told(count):
    with pytest.raises(cugrt.Error, match="no function 'none'; it has 'main', 'pair'"):
        count.run({}, function="none")


def test_errors_are_pickled():
    error = pickle.loads(pickle.dumps(cugrt.Error("sentence", cugrt.Code.BUSY, "m.cugrt:1:2", "CUDA_ERROR_UNKNOWN")))
    assert (str(error), error.code, error.place, error.cuda_error) == ("sentence", 13, "m.cugrt:1:2", "CUDA_ERROR_UNKNOWN")


def test_models_are_loaded_in_the_other_process(classify, llm):
    for model in (classify, llm):
        with pytest.raises(TypeError, match="load it in the other process"):
            pickle.dumps(model)
