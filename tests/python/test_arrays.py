"""Arrays: DLPack both ways, every dtype, lifetimes."""
import ctypes
import gc
import re

import numpy as np
import pytest

import cugrt
from conftest import ON_HOST

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


def copies(dtype):
    return cugrt.load(f"""cugrt 1
func @main(%x: tensor<[n, 3], {dtype}>) -> (tensor<[3, n], {dtype}>) attributes {{upper_bounds = {{n = 64}}}} {{
  %y = transpose(%x) {{axes = [1, 0]}}
  return %y
}}
""".encode())


@pytest.mark.parametrize("block, own", [(32, name) for name in ("q4_0", "q4_1", "q8_0", "q5_0", "q5_1", "iq4_nl")] +
                         [(256, name) for name in ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k")])
def test_block_formats_have_their_names(block, own):
    model = cugrt.load(f"""cugrt 1
func @main(%x: tensor<[2, {block}], f32>, %w: tensor<[4, {block}], {own}>) -> (tensor<[2, 4], f32>) {{
  %y = matmul_blocks(%x, %w)
  return %y
}}
""".encode())
    assert [spec.dtype for spec in model.inputs] == ["float32", own]


class OnlyDlpack:
    """As torch's CPU tensors: DLPack, no buffer."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("name, own", list(zip(DTYPES, ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64"])))
def test_every_dtype_goes_both_ways(name, own):
    x = (np.arange(12).reshape(4, 3) % 2 if name == "bool" else np.arange(12).reshape(4, 3)).astype(name)
    model = copies(own)
    for given in (x, OnlyDlpack(x), model.to_device(x)):
        device, = model.run({"x": given}, device=True)
        assert device.dtype == name and np.array_equal(model(x=given), x.T) and np.array_equal(device.numpy(), x.T)
        assert not ON_HOST or np.from_dlpack(device).dtype == x.dtype


def test_bfloat16_is_that_of_ml_dtypes():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.arange(12).reshape(4, 3).astype(bfloat16)
    y = copies("bf16")(x=x)
    assert y.dtype == bfloat16 and np.array_equal(y, x.T)


def test_device_arrays_share_their_memory_with_dlpack(classify, x):
    y, = classify.run({"x": x}, device=True)
    assert y.__dlpack_device__() == ((1, 0) if ON_HOST else (2, 0)), "the emulated device's memory is the host's"
    if not ON_HOST:
        return  # NumPy takes no array of a device
    first, second = np.from_dlpack(y), np.from_dlpack(y)
    assert first.__array_interface__["data"] == second.__array_interface__["data"]
    kept = first.copy()
    del y, second
    gc.collect()
    classify.run({"x": x + 1}, device=True)
    assert np.array_equal(first, kept), "memory lives as long as who shares it"


def test_results_of_earlier_calls_stay(classify, x):
    results = [classify.run({"x": x[:rows]}, device=True)[0] for rows in range(1, 9)]
    for rows, result in enumerate(results, 1):
        assert np.array_equal(result.numpy(), classify(x=x[:rows]))


def test_chains_on_the_device_need_no_wait(count):
    a = count.to_device(np.arange(100, dtype="float32"))
    for _ in range(10):
        a, _ = count.run({"a": a, "b": a}, function="pair", device=True)
    assert np.array_equal(np.asarray(a), np.arange(100, dtype="float32") * 1024)


def test_device_arrays_say_what_they_are(classify):
    a = classify.zeros((2, 3), "f16")
    assert (a.shape, a.dtype, a.nbytes, a.device) == ((2, 3), "float16", 12, "emulated:0" if ON_HOST else "cuda:0") and "float16[2, 3]" in repr(a)
    assert not a.numpy().any() and np.asarray(a, dtype="float64").dtype == np.float64
    with pytest.raises(ValueError, match="copied"):
        np.asarray(a, copy=False)
    with pytest.raises(BufferError, match="own device"):
        a.__dlpack__(dl_device=(2 if ON_HOST else 1, 0))
    with pytest.raises(cugrt.Error, match="too large|larger"):
        classify.zeros((1 << 50,), "f32")
    with pytest.raises(cugrt.Error, match="no dtype 'f99'"):
        classify.zeros((1,), "f99")


def test_read_only_inputs_and_empty_arrays_are_taken(count):
    a = np.arange(4, dtype="float32")
    a.flags.writeable = False
    assert np.array_equal(count.run({"a": a, "b": a}, function="pair")[0], 2 * a)
    empty = np.empty(0, "float32")
    assert count.run({"a": empty, "b": empty}, function="pair")[0].shape == (0,)


class Shared:
    """An owner of memory as DLPack's older and newer versions have them: it gives what `give` makes of the arguments."""

    def __init__(self, array, give):
        self.array, self.give = array, give

    def __dlpack__(self, **arguments):
        return self.give(self.array, **arguments)

    def __dlpack_device__(self):
        return 1, 0


def by_versions(array, stream=None, max_version=None, **further):
    return array.__dlpack__(max_version=max_version)


def without_versions(array, stream=None):
    return array.__dlpack__()


def flagged(flags, major=1):
    """A capsule of the newer form with these flags and this version, which NumPy does not say of its arrays itself."""
    def give(array, max_version=None):
        capsule = array.__dlpack__(max_version=max_version)
        point = ctypes.pythonapi.PyCapsule_GetPointer
        point.restype, point.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        at = point(capsule, b"dltensor_versioned")
        # struct { uint32_t major, minor; void *; void (*)(); uint64_t flags; DLTensor }
        ctypes.c_uint32.from_address(at).value = major
        ctypes.c_uint64.from_address(at + 24).value |= flags
        return capsule
    return give


class Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""
    _fields_ = [("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("index", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dtype", ctypes.c_uint32), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


def changed(give, change):
    """What `give` makes, with a tensor in it that is changed."""
    def made(array, **arguments):
        capsule = give(array, **arguments)
        name, point = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
        name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
        point.restype, point.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        newer = name(capsule) == b"dltensor_versioned"
        change(Tensor.from_address(point(capsule, name(capsule)) + (32 if newer else 0)))
        return capsule
    return made


@pytest.mark.parametrize("give", [by_versions, without_versions])
@pytest.mark.parametrize("field, value, message", [
    ("rank", -1, "has -1 dimensions; at most 8 are taken"),
    ("rank", 1 << 20, "has 1048576 dimensions; at most 8 are taken"),
    ("shape", None, "has dimensions without sizes"),
    ("data", None, "has elements and no address"),
    ("kind", 2, "is on a device of DLPack's kind 2, and its __dlpack_device__ says 1"),
])
def test_dlpack_tensors_that_cannot_be_are_refused(count, give, field, value, message):
    a = np.arange(4, dtype="float32")
    with pytest.raises(cugrt.Error, match=re.escape("input 'a' " + message)):
        count.run({"a": Shared(a, changed(give, lambda tensor: setattr(tensor, field, value))), "b": a}, function="pair")


def test_dlpack_tensors_have_no_negative_sizes(count):
    a = np.arange(4, dtype="float32")

    def negative(tensor):
        tensor.shape[0] = -4
    with pytest.raises(cugrt.Error, match="input 'a' has -4 elements in dimension 0"):
        count.run({"a": Shared(a, changed(by_versions, negative)), "b": a}, function="pair")


def test_an_interrupt_in_the_midst_of_dlpack_is_one(count):
    def interrupt(array, **arguments):
        raise KeyboardInterrupt
    a = np.arange(4, dtype="float32")
    with pytest.raises(KeyboardInterrupt):
        count.run({"a": Shared(a, interrupt), "b": a}, function="pair")


def test_read_only_memory_is_taken_through_dlpack_and_not_written(count):
    a = np.arange(4, dtype="float32")
    a.flags.writeable = False
    with pytest.raises(BufferError):
        a.__dlpack__()  # the older form cannot say that it is read-only
    shared = Shared(a, by_versions)
    assert np.array_equal(count.run({"a": shared, "b": shared}, function="pair")[0], 2 * a)
    with pytest.raises(cugrt.Error, match="input 'total' is read-only, and is to be written"):
        count.run({"x": a, "total": shared})
    with pytest.raises(cugrt.Error, match="output 'result0' is read-only, and is to be written"):
        count.run({"a": a, "b": a}, function="pair", out={"result0": shared})


def test_a_copy_that_dlpack_made_is_read_and_not_written(count):
    a = np.arange(4, dtype="float32")
    copied = Shared(a, flagged(2))
    assert np.array_equal(count.run({"a": copied, "b": a}, function="pair")[1], a * a)
    with pytest.raises(cugrt.Error, match="input 'total' is shared as a copy, and is to be written"):
        count.run({"x": a, "total": copied})


def test_owners_of_every_version_of_dlpack_are_understood(count):
    a = np.arange(4, dtype="float32")
    for give in (by_versions, without_versions, flagged(0)):
        shared = Shared(a, give)
        assert np.array_equal(count.run({"a": shared, "b": shared}, function="pair")[0], 2 * a)
    with pytest.raises(cugrt.Error, match="input 'a' is shared by DLPack 2, which is not known here"):
        count.run({"a": Shared(a, flagged(0, major=2)), "b": a}, function="pair")


@pytest.mark.parametrize("give", [by_versions, without_versions])
def test_arrays_without_elements_are_taken_through_dlpack(count, give):
    """Whatever their strides are, and if they have no address at all, as those of PyTorch."""
    empty = Shared(np.empty(0, "float32"), give)
    assert count.run({"a": empty, "b": empty}, function="pair")[0].shape == (0,)

    nowhere = Shared(np.empty(0, "float32"), changed(give, lambda tensor: setattr(tensor, "data", None)))
    assert count.run({"a": nowhere, "b": nowhere}, function="pair")[0].shape == (0,)
    model = cugrt.load(b"cugrt 1\nfunc @main(%x: tensor<[n, 3], f32>) -> (tensor<[n, 3], f32>)"
                       b" attributes {lower_bounds = {n = 0}, upper_bounds = {n = 8}} {\n  %y = relu(%x)\n  return %y\n}\n")
    turned = np.empty((3, 0), "float32").T
    strided = Shared(np.lib.stride_tricks.as_strided(turned, (0, 3), (4, 40)), give)
    for given in (Shared(turned, give), strided):
        assert model(x=given).shape == (0, 3)


def test_results_that_overlap_in_memory_are_refused(count):
    """On the host as on the device. Over an array that is only read a result may lie: that is copied before."""
    a, b = np.arange(1, 5, dtype="float32"), np.full(4, 3, "float32")
    room = np.zeros(9, "float32")
    pair = lambda first, second, **more: count.run({"a": a, "b": b}, function="pair", out={"result0": first, "result1": second}, **more)
    for first, second in ((room[:4], room[:4]), (room[:4], room[3:7]), (room[3:7], room[:4])):
        with pytest.raises(cugrt.Error, match="output 'result[01]' and output 'result[01]' overlap in memory"):
            pair(first, second)
        assert not room.any()
    pair(room[:4], room[4:8])
    assert np.array_equal(room, [*(a + b), *(a * b), 0])
    with pytest.raises(cugrt.Error, match="'total' and input 'twice' overlap in memory"):
        count.run({"x": a, "total": room[:4], "twice": room[2:6]})
    device = count.zeros((4,), "f32")
    with pytest.raises(cugrt.Error, match="overlap"):
        pair(device, device, device=True)
    if ON_HOST:  # a view of the device's memory as the host's
        with pytest.raises(cugrt.Error, match="overlap"):
            pair(np.from_dlpack(device), device)
    over = a.copy()
    assert count.run({"a": over, "b": b}, function="pair", out={"result0": over})[0] is over and np.array_equal(over, a + b)
