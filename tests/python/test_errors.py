"""Bad input ends in a sentence that names it."""
import pickle

import numpy as np
import pytest

import cugrt
from conftest import CLASSIFY

GOOD = np.zeros((2, 6), "float32")
HUGE = np.lib.stride_tricks.as_strided(GOOD, (1 << 40, 6), (0, 4))


class Claims:
    """An array on a CUDA device, by its own word."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        raise AssertionError("is refused before it is asked")


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
    ({"x": Claims()}, "input 'x' is on a CUDA device, and the model on the emulated driver"),
])
def test_a_wrong_argument_is_named(classify, arrays, said):
    with pytest.raises(cugrt.Error) as caught:
        classify(**arrays)
    assert said in str(caught.value)
    assert caught.value.code in (cugrt.Code.INVALID_ARGUMENT, cugrt.Code.OUT_OF_RANGE)
    assert np.array_equal(classify(x=GOOD), np.zeros((2, 4))), "the next call is right"


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


def test_functions_that_are_not_there_are_told(count):
    with pytest.raises(cugrt.Error, match="no function 'none'; it has 'main', 'pair'"):
        count.run({}, function="none")


def test_errors_are_pickled():
    error = pickle.loads(pickle.dumps(cugrt.Error("sentence", cugrt.Code.BUSY, "m.cugrt:1:2", "CUDA_ERROR_UNKNOWN")))
    assert (str(error), error.code, error.place, error.cuda_error) == ("sentence", 13, "m.cugrt:1:2", "CUDA_ERROR_UNKNOWN")
