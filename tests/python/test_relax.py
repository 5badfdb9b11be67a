"""Relax modules that come in and go out. Expected results are NumPy's, or follow from the text.

What a case needs of TVM is made with its block builder, whose modules are those that the script's parser makes.
"""

import importlib.util
import re
import subprocess
import sys

import numpy as np
import pytest

import cugrt

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tvm") is None, reason="apache-tvm is not installed (the extra cugrt[relax])"
)


def tensors(given):
    from cugrt.relax.dialect import TensorType
    from tvm import relax

    return [relax.Var(f"a{i}", TensorType(x.shape, x.dtype.name)) for i, x in enumerate(given)]


def module_of(make, params, **attributes):
    """A module of one function, which returns what `make` makes of the parameters."""
    from tvm import relax

    builder = relax.BlockBuilder()
    with builder.function("main", params, attrs=attributes):
        with builder.dataflow():
            made = builder.emit_output(builder.normalize(make(*params)))
        builder.emit_func_output(made)
    return builder.get()


def run(module, *given):
    model = cugrt.load(module)
    names = [one.name for one in model.inputs]
    out = model(**dict(zip(names, given)))
    return out if isinstance(out, tuple) else (out,)


RANDOM = np.random.default_rng(7)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


X, Y, POSITIVE, CUBE = floats(4, 6), floats(4, 6), np.abs(floats(4, 6)) + 0.5, floats(2, 3, 4)
INTS, OTHER = np.array([[7, -7, 3], [-8, 9, 5]], "int32"), np.array([[2, 2, -2], [3, -4, 5]], "int32")
IMAGE, FILTER = floats(1, 4, 6, 6), floats(6, 2, 3, 3)
IDS = np.array([2, 0, 3], "int64")


def erf(x):
    import math

    return np.vectorize(math.erf)(x)


def scalar(value):
    """A number as an operand of an op."""
    from cugrt.relax.dialect import number
    from tvm import tirx

    return number(tirx.FloatImm("float32", value))


def softmax(x, axis=-1):
    made = np.exp(x - x.max(axis, keepdims=True))
    return made / made.sum(axis, keepdims=True)


def convolved(x, w, groups, stride, pad):
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    n, o, (h, v) = x.shape[0], w.shape[0], w.shape[2:]
    rows, columns = (x.shape[2] - h) // stride + 1, (x.shape[3] - v) // stride + 1
    made, c = np.zeros((n, o, rows, columns)), w.shape[1]
    for k in range(o):
        first = k // (o // groups) * c
        for i in range(rows):
            for j in range(columns):
                part = x[:, first : first + c, i * stride : i * stride + h, j * stride : j * stride + v]
                made[:, k, i, j] = (part * w[k]).sum((1, 2, 3))
    return made


def pooled(x, size, stride, kind):
    rows = (x.shape[2] - size) // stride + 1
    return np.stack(
        [
            np.stack(
                [
                    kind(x[:, :, i * stride : i * stride + size, j * stride : j * stride + size], axis=(2, 3))
                    for j in range(rows)
                ],
                -1,
            )
            for i in range(rows)
        ],
        -2,
    )


def normed(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


# By name: how Relax makes it (of R, the script's module), the operands, and what NumPy gives.
CASES = {
    "exp": (lambda R, x: R.exp(x), [X], np.exp),
    "trunc": (lambda R, x: R.trunc(x), [X * 3], np.trunc),
    "round": (lambda R, x: R.round(x), [np.array([0.5, 1.5, -2.5, 2.6], "float32")], np.round),
    "isfinite": (lambda R, x: R.isfinite(x), [np.array([1, np.inf, np.nan, -np.inf], "float32")], np.isfinite),
    "erf": (lambda R, x: R.erf(x), [X], erf),
    "gelu": (lambda R, x: R.nn.gelu(x), [X], lambda x: x * (1 + erf(x / np.sqrt(2))) / 2),
    "gelu_tanh": (
        lambda R, x: R.nn.gelu_tanh(x),
        [X],
        lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    ),
    "selu": (
        lambda R, x: R.nn.selu(x),
        [X],
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
    ),
    "leakyrelu": (lambda R, x: R.nn.leakyrelu(x, 0.2), [X], lambda x: np.where(x > 0, x, 0.2 * x)),
    "softplus": (
        lambda R, x: R.nn.softplus(x, 2.0, 3.0),
        [X * 3],
        lambda x: np.where(2 * x > 3, x, np.log1p(np.exp(2 * x)) / 2),
    ),
    "prelu": (
        lambda R, x, s: R.nn.prelu(x, s, 1),
        [CUBE, np.array([0.1, 0.2, 0.3], "float32")],
        lambda x, s: np.where(x > 0, x, x * s[:, None]),
    ),
    "floor_divide": (lambda R, a, b: R.floor_divide(a, b), [INTS, OTHER], np.floor_divide),
    "floor_mod": (lambda R, a, b: R.floor_mod(a, b), [INTS, OTHER], np.mod),
    "mod": (lambda R, a, b: R.mod(a, b), [INTS, OTHER], np.fmod),
    "log_add_exp": (lambda R, a, b: R.log_add_exp(a, b), [X, Y], np.logaddexp),
    "power": (lambda R, a, b: R.power(a, b), [POSITIVE, Y], np.power),
    "number": (lambda R, x: R.add(x, R.const(2, "float32")), [X], lambda x: x + 2),
    "where": (lambda R, a, b: R.where(R.less(a, b), a, b), [X, Y], np.minimum),
    "astype": (lambda R, x: R.astype(x, "int32"), [X * 5], lambda x: x.astype("int32")),
    "clip": (lambda R, x: R.clip(x, -0.5, 0.25), [X], lambda x: np.clip(x, -0.5, 0.25)),
    "matmul": (lambda R, a, b: R.matmul(a, b), [CUBE, floats(4, 5)], np.matmul),
    "matmul of a vector": (lambda R, a, b: R.matmul(a, b), [floats(4), floats(2, 4, 5)], np.matmul),
    "matmul by a vector": (lambda R, a, b: R.matmul(a, b), [CUBE, floats(4)], np.matmul),
    "outer": (lambda R, a, b: R.outer(a, b), [floats(3), floats(5)], np.outer),
    "sum": (lambda R, x: R.sum(x, [0, -1], True), [CUBE], lambda x: x.sum((0, 2), keepdims=True)),
    "mean of all": (lambda R, x: R.mean(x), [CUBE], np.mean),
    "variance": (lambda R, x: R.variance(x, [1]), [CUBE], lambda x: x.var(1)),
    "std": (lambda R, x: R.std(x, [1], True), [CUBE], lambda x: x.std(1, keepdims=True)),
    "argmax": (lambda R, x: R.argmax(x, 1), [CUBE], lambda x: x.argmax(1)),
    "argmin of all": (lambda R, x: R.argmin(x), [CUBE], np.argmin),
    "cumsum": (lambda R, x: R.cumsum(x, 1), [CUBE], lambda x: x.cumsum(1)),
    "cumsum of all": (lambda R, x: R.cumsum(x, dtype="float64"), [CUBE], lambda x: x.astype("f8").cumsum()),
    "log_softmax": (lambda R, x: R.nn.log_softmax(x, 1), [CUBE], lambda x: np.log(softmax(x, 1))),
    "layer_norm over two": (
        lambda R, x, g, b: R.nn.layer_norm(x, g, b, [-2, -1]),
        [CUBE, floats(3, 4), floats(3, 4)],
        lambda x, g, b: normed(x, (1, 2)) * g + b,
    ),
    "rms_norm": (
        lambda R, x, g: R.nn.rms_norm(x, g, [-1]),
        [CUBE, floats(4)],
        lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g,
    ),
    "group_norm": (
        lambda R, x, g, b: R.nn.group_norm(x, g, b, 2, 1, [2, 3]),
        [IMAGE, floats(4), floats(4)],
        lambda x, g, b: normed(x.reshape(1, 2, -1), (2,)).reshape(x.shape) * g[:, None, None] + b[:, None, None],
    ),
    "instance_norm": (
        lambda R, x, g, b: R.nn.instance_norm(x, g, b, 1, [2, 3]),
        [IMAGE, floats(4), floats(4)],
        lambda x, g, b: normed(x, (2, 3)) * g[:, None, None] + b[:, None, None],
    ),
    "conv2d": (
        lambda R, x, w: R.nn.conv2d(x, w, 2, 1, groups=2),
        [IMAGE, FILTER],
        lambda x, w: convolved(x, w, 2, 2, 1),
    ),
    "max_pool2d": (lambda R, x: R.nn.max_pool2d(x, 3, 2), [IMAGE], lambda x: pooled(x, 3, 2, np.max)),
    "avg_pool2d": (lambda R, x: R.nn.avg_pool2d(x, 2, 2), [IMAGE], lambda x: pooled(x, 2, 2, np.mean)),
    "avg_pool1d": (lambda R, x: R.nn.avg_pool1d(x, 2, 2), [CUBE], lambda x: x.reshape(2, 3, 2, 2).mean(-1)),
    "adaptive_avg_pool2d": (
        lambda R, x: R.nn.adaptive_avg_pool2d(x, (3, 3)),
        [IMAGE],
        lambda x: pooled(x, 2, 2, np.mean),
    ),
    "permute_dims": (lambda R, x: R.permute_dims(x, [2, 0, 1]), [CUBE], lambda x: x.transpose(2, 0, 1)),
    "expand, squeeze": (lambda R, x: R.squeeze(R.expand_dims(x, [0, 2]), [0]), [X], lambda x: x[:, None]),
    "concat": (lambda R, a, b: R.concat([a, b], 1), [X, Y], lambda a, b: np.concatenate([a, b], 1)),
    "stack": (lambda R, a, b: R.stack([a, b], 1), [X, Y], lambda a, b: np.stack([a, b], 1)),
    "split": (lambda R, x: R.split(x, [2, 3], 1), [X], lambda x: np.split(x, [2, 3], 1)),
    "strided_slice": (
        lambda R, x: R.strided_slice(x, [1, 0], [-1, 1], [0, 4], [-2, 1]),
        [X],
        lambda x: x[1:4, -1:0:-2],
    ),
    "flip": (lambda R, x: R.flip(x, 1), [CUBE], lambda x: x[:, ::-1]),
    "repeat": (lambda R, x: R.repeat(x, 3, 1), [CUBE], lambda x: x.repeat(3, 1)),
    "tile": (lambda R, x: R.tile(x, (2, 1, 3)), [X], lambda x: np.tile(x, (2, 1, 3))),
    "take, clipped": (
        lambda R, x, i: R.take(x, i, 0, "clip"),
        [X, np.array([9, -3, 1], "int64")],
        lambda x, i: x[[3, 0, 1]],
    ),
    "take, wrapped": (
        lambda R, x, i: R.take(x, i, 0, "wrap"),
        [X, np.array([9, -3, 1], "int64")],
        lambda x, i: x[[1, 1, 1]],
    ),
    "gather_elements": (
        lambda R, x, i: R.gather_elements(x, i, 1),
        [X, np.array([[0, 5], [1, 1], [2, 0], [3, 4]], "int64")],
        lambda x, i: np.take_along_axis(x, i, 1),
    ),
    "gather_nd": (
        lambda R, x, i: R.gather_nd(x, i),
        [X, np.array([[0, 5], [3, 1]], "int64")],
        lambda x, i: x[i[:, 0], i[:, 1]],
    ),
    "scatter_nd": (
        lambda R, x, i, u: R.scatter_nd(x, i, u, "add"),
        [X, np.array([[1], [3]], "int64"), floats(2, 6)],
        lambda x, i, u: x + np.stack([0 * u[0], u[0], 0 * u[0], u[1]]),
    ),
    "index_tensor": (lambda R, x, i, j: R.index_tensor(x, [i, j]), [X, IDS, IDS + 1], lambda x, i, j: x[i, j]),
    "pad": (
        lambda R, x: R.nn.pad(x, [1, 2, 0, 3], pad_value=1.5),
        [X],
        lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=1.5),
    ),
    "one_hot": (
        lambda R, i: R.one_hot(i, scalar(2), scalar(-1), 5),
        [IDS],
        lambda i: np.where(np.arange(5) == i[:, None], 2.0, -1.0),
    ),
    "full_like": (lambda R, x: R.full_like(x, R.const(3, "float32")), [X], lambda x: np.full_like(x, 3)),
    "zeros": (lambda R, x: R.concat([x, R.zeros((2, 6), "float32")]), [X], lambda x: np.pad(x, ((0, 2), (0, 0)))),
    "arange": (lambda R, x: R.add(x, R.arange(1, 13, 2, "float32")), [X], lambda x: x + np.arange(1, 13, 2)),
    "triu": (lambda R, x: R.triu(x, 1), [X], lambda x: np.triu(x, 1)),
    "tril": (lambda R, x: R.tril(x, -1), [X], lambda x: np.tril(x, -1)),
    "topk": (lambda R, x: R.topk(x, 2, 1), [X], lambda x: (-np.sort(-x, 1)[:, :2], np.argsort(-x, 1)[:, :2])),
    "sort": (lambda R, x: R.sort(x, 1), [X], lambda x: np.sort(x, 1)),
    "argsort": (lambda R, x: R.argsort(x, 0, True), [X], lambda x: np.argsort(-x, 0)),
    "collapse_sum_to": (lambda R, x: R.collapse_sum_to(x, (3, 1)), [CUBE], lambda x: x.sum((0, 2)).reshape(3, 1)),
    "pixel_shuffle": (
        lambda R, x: R.nn.pixel_shuffle(x, 2),
        [IMAGE],
        lambda x: x.reshape(1, 1, 2, 2, 6, 6).transpose(0, 1, 4, 2, 5, 3).reshape(1, 1, 12, 12),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_op(name):
    from tvm.script import relax

    make, given, expected = CASES[name]
    module = module_of(lambda *params: make(relax, *params), tensors(given))
    wanted = expected(*given)
    wanted = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
    out = run(cugrt.from_relax(module), *given)
    assert len(out) == len(wanted)
    for a, b in zip(out, wanted):
        np.testing.assert_allclose(np.asarray(a), b, rtol=2e-5, atol=2e-5)
        assert np.asarray(a).shape == np.shape(b)


def parsed(text):
    """The module of a script, whose functions stand below `@I.ir_module class Module`, in the words of 0.27."""
    import tvm.script
    from tvm.script import ir, relax, tirx

    if tvm.__version__.startswith("0.25."):
        text = text.replace("ty_args=", "sinfo_args=").replace("out_ty=", "out_sinfo=").replace("R.Any", "R.Object")

    return tvm.script.from_source("@I.ir_module\nclass Module:\n" + text, {"I": ir, "R": relax, "T": tirx})


SYMBOLS = """
    @R.function
    def half(x: R.Tensor(("n", "m"), "float32")):
        y = R.multiply(x, R.const(0.5, "float32"))
        return (y, R.sum(x, axis=[0]))

    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), i: R.Tensor(("in_",), "int64"), w: R.Tensor((8, 3), "float32")):
        R.func_attr({"num_input": 2, "tir_var_upper_bound": {"n": 64}, "tir_var_lower_bound": {"n": 1}})
        n, k = T.int64(), T.int64()
        t = Module.half(x)
        a = t[0]
        b = R.matmul(R.take(a, i, axis=0), w)
        c = R.strided_slice(x, [0], [0], [T.min(n, 2)])
        d = R.match_cast(c, R.Tensor((k, 8), "float32"))
        return (b, (t[1], d))
"""


def test_symbols_tuples_calls():
    module = cugrt.from_relax(parsed(SYMBOLS))
    assert "upper_bounds = {n = 64, in_ = 4096}" in module.text and "lower_bounds = {n = 1}" in module.text
    assert "num_inputs = 2" in module.text and " match " in module.text
    w = floats(8, 3)
    model = cugrt.load(module, weights={"w": w})
    assert [one.name for one in model.inputs] == ["x", "i"]
    for n in (1, 5):
        x, i = floats(n, 8), np.array([0, n - 1, 0], "int64")
        b, total, d = model(x=x, i=i)
        np.testing.assert_allclose(b, (x / 2)[i] @ w, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(total, x.sum(0), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(d, x[:2])
    assert model.counters["regions_built"] and not model.counters["eager_steps"]


@pytest.mark.parametrize("least, first", [(1, 0), (3, 2)])
def test_slice_to_before_the_end(least, first):
    """The dimension of x[first : n - 1] has an if_then_else, since n - 1 may count from the end."""
    from cugrt.relax.dialect import TensorType
    from tvm import relax, tirx

    n = tirx.Var("n", "int64")
    x = relax.Var("x", TensorType((n, 4), "float32"))
    relax_module = module_of(lambda x: relax.op.strided_slice(x, axes=[0], begin=[first], end=[n - 1]), [x])
    assert "if_then_else" in relax_module.script()
    module = cugrt.from_relax(relax_module, bounds={"n": (least, 16)})
    for rows in (least, 5, 16):
        given = floats(rows, 4)
        np.testing.assert_array_equal(run(module, given)[0], given[first : rows - 1])


MATCHED = """
    @R.function
    def main(x: R.Tensor(dtype="float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(dtype="float32", ndim=2):
        n, m = T.int64(), T.int64()
        a = R.match_cast(x, R.Tensor((n, m), "float32"))
        b = R.exp(R.add(a, y))
        return R.negative(b)
"""


def test_a_match_says_a_parameters_shape():
    module = cugrt.from_relax(parsed(MATCHED))
    assert "%x: tensor<[n, m], f32>" in module.text
    for n, m in ((3, 5), (1, 2)):
        x, y = floats(n, m), floats(m)
        np.testing.assert_allclose(run(module, x, y)[0], -np.exp(x + y), rtol=1e-5)
    planned = cugrt.transform.StaticPlanBlockMemory()(lowered(parsed(MATCHED)))
    np.testing.assert_allclose(in_tvm(planned, x, y)[0], -np.exp(x + y), rtol=1e-5)


CHOICE = """
    @R.function
    def main(x: R.Tensor((4, 6), "float32"), yes: R.Tensor((), "bool")) -> R.Tensor((4, 6), "float32"):
        h = R.exp(x)
        if yes:
            g = R.negative(h)
            r = R.add(g, x)
        else:
            g = R.add(h, h)
            r = g
        s = R.multiply(r, h)
        return s
"""


def test_branch():
    model = cugrt.load(cugrt.from_relax(parsed(CHOICE)))
    h = np.exp(X)
    np.testing.assert_allclose(model(x=X, yes=np.array(True)), (X - h) * h, rtol=1e-5)
    np.testing.assert_allclose(model(x=X, yes=np.array(False)), 2 * h * h, rtol=1e-5)


DENSE = """
    @R.function
    def main(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 10), "float32")) -> R.Tensor(("n", 10), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            h = R.matmul(x, w)
            r = R.nn.relu(h)
            p = R.nn.softmax(r, axis=-1)
            R.output(p)
        return p
"""


@pytest.mark.parametrize("form", ["call_tir", "destination-passing", "planned"])
def test_prim_functions(form):
    import tvm
    from tvm import relax

    passes = [relax.transform.LegalizeOps()]
    if form != "call_tir":
        passes += [
            relax.transform.ToNonDataflow(),
            relax.transform.RemovePurityChecking(),
            relax.transform.CallTIRRewrite(),
        ]
    if form == "planned":
        passes += [relax.transform.StaticPlanBlockMemory()]
    source = parsed(DENSE.replace('{"num_input": 1}', '{"num_input": 1, "tir_var_upper_bound": {"n": 100}}'))
    module = cugrt.from_relax(tvm.ir.transform.Sequential(passes)(source), params={"w": (w := floats(64, 10))})
    assert "launch @matmul" in module.text and ("alloc_storage" in module.text) == (form == "planned")
    model = cugrt.load(module)
    for n in (3, 40):
        x = floats(n, 64)
        np.testing.assert_allclose(model(x=x), softmax(np.maximum(x @ w, 0)), rtol=1e-4, atol=1e-5)


def test_half_prim_functions():
    from tvm import relax

    source = parsed(
        DENSE.replace("float32", "float16").replace('{"num_input": 1}', '{"tir_var_upper_bound": {"n": 100}}')
    )
    module = cugrt.from_relax(relax.transform.LegalizeOps()(source))
    x, w = (floats(5, 64) / 4).astype("float16"), (floats(64, 10) / 4).astype("float16")
    wanted = softmax(np.maximum(x.astype("f4") @ w.astype("f4"), 0))
    np.testing.assert_allclose(run(module, x, w)[0].astype("f4"), wanted, atol=1e-2)


def test_numbers_of_the_toolkit():
    """TVM's source of isinf has a name that only the toolkit's headers define."""
    from tvm import relax

    x = np.array([1, np.inf, np.nan, -np.inf], "float32")
    module = module_of(lambda x: relax.op.isinf(x), tensors([x]))
    out = run(cugrt.from_relax(relax.transform.LegalizeOps()(module)), x)
    np.testing.assert_array_equal(out[0], np.isinf(x))


def test_sum_of_one_element():
    """Whose PrimFunc TVM's schedules make a wrong kernel of."""
    from tvm import relax

    module = module_of(lambda x, w: relax.op.nn.rms_norm(x, w, [-1]), tensors([floats(6, 1), floats(1)]))
    with pytest.raises(cugrt.Error, match="the PrimFunc 'rms_norm': it reduces over one element"):
        cugrt.from_relax(relax.transform.LegalizeOps()(module))
    assert isinstance(cugrt.from_relax(module), cugrt.Module)


def test_scalar_constants_have_no_dimension():
    from tvm import relax

    x = np.float32(3)
    module = module_of(lambda x: relax.op.add(x, relax.const(2, "float32")), tensors([np.array(x)]))
    assert "tensor<[], f32> = x" in cugrt.from_relax(module).text
    assert np.shape(run(cugrt.from_relax(module), np.array(x))[0]) == ()


LARGE = """
    @R.function(private=True)
    def more(x: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
        return R.add(x, R.const([1, 2, 3, 4, 5, 6], "float32"))

    @R.function
    def main(x: R.Tensor((4, 6), "float32"), yes: R.Tensor((), "bool")) -> R.Tensor((4, 6), "float32"):
        if yes:
            r = R.multiply(x, R.const([2, 3, 4, 5, 6, 7], "float32"))
        else:
            r = R.add(x, R.const([2], "float32"))
        s: R.Tensor((4, 6), "float32") = Module.more(r)
        return R.multiply(s, R.astype(R.const([1, 1, 1, 2, 2, 2], "float16"), "float32"))
"""


def test_large_constants_are_weights(monkeypatch):
    """None of them is in the text, but for those of functions that are called."""
    from cugrt.relax import function

    monkeypatch.setattr(function, "MOST_CONSTANT_BYTES", 8)
    module = cugrt.from_relax(parsed(LARGE))
    assert module.text.count('= x"') == 2 and "num_inputs = 2" in module.text
    model = cugrt.load(module)
    assert [one.name for one in model.inputs] == ["x", "yes"]
    for yes, changed in ((True, X * np.arange(2, 8)), (False, X + 2)):
        wanted = (changed + np.arange(1, 7)) * [1, 1, 1, 2, 2, 2]
        np.testing.assert_allclose(model(x=X, yes=np.array(yes)), wanted, rtol=1e-5)
    back = cugrt.to_relax(module)
    assert int(back["main"].attrs["num_input"]) == 2 and len(back["main"].params) == 4


REFUSED = {
    "packed": (
        """
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.call_pure_packed("who.knows", x, ty_args=R.Tensor((4,), "float32"))
        z = R.call_pure_packed("who.knows", y, ty_args=R.Tensor((4,), "float32"))
        return z
""",
        "'who.knows' is not supported: 2 times, at 'y' of 'main', 'z' of 'main'",
    ),
    "dtype": (
        """
    @R.function
    def main(x: R.Tensor((4,), "float8_e4m3fn")) -> R.Tensor((4,), "float8_e4m3fn"):
        return x
""",
        "parameter 'x' of function 'main' has dtype float8_e4m3fn",
    ),
    "circle": (
        """
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y: R.Tensor((4,), "float32") = Module.other(x)
        return y

    @R.function
    def other(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y: R.Tensor((4,), "float32") = Module.main(x)
        return y
""",
        "calls it again",
    ),
    "op": (
        """
    @R.function
    def main(x: R.Tensor((4, 4), "float32")):
        y = R.ccl.allreduce(x, "sum", True)
        z = R.ccl.broadcast_from_worker0(y)
        return z
""",
        "2 things are not supported\nop 'relax.ccl.allreduce' is not supported: 1 time, at 'y' of 'main'\nop 'relax.ccl.broadcast_from_worker0'",
    ),
    "shape": (
        """
    @R.function
    def main(x: R.Tensor(ndim=2, dtype="float32")):
        return x
""",
        "parameter 'x' of function 'main' has a shape that is not known",
    ),
}


LINE = re.compile(r" \(<str>:\d+\)")


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    text, said = REFUSED[name]
    with pytest.raises(cugrt.Error) as error:
        cugrt.from_relax(parsed(text))
    assert said in LINE.sub("", str(error.value))


def test_lines_of_the_script():
    """They stand in errors where TVM knows them, as 0.25 does not."""
    import tvm

    with pytest.raises(cugrt.Error) as error:
        cugrt.from_relax(parsed(REFUSED["packed"][0]))
    lines = [] if tvm.__version__.startswith("0.25.") else [" (<str>:6)", " (<str>:7)"]
    assert [found[0] for found in LINE.finditer(str(error.value))] == lines


SPANS = """
    @R.function
    def main(x: R.Tensor(("n", 6), "float32"), yes: R.Tensor((), "bool")) -> R.Tensor(("n", 6), "float32"):
        a = R.exp(x)
        if yes:
            s = R.sin(a)
            b = R.add(s, a)
        else:
            b = a
        c = R.nn.softmax(b)
        return c
"""


def test_lines_of_a_script_are_comments_of_the_text_and_come_back():
    import tvm

    source = parsed(SPANS)
    module = cugrt.from_relax(source)
    cugrt.load(module)  # to which they mean nothing
    again = cugrt.to_relax(module)
    assert cugrt.from_relax(again).text == module.text
    said = dict(re.findall(r"%\w+ = (exp|sin|softmax)\(.*  // <str>:(\d+:\d+)\n", module.text))
    spans = [
        {one.value.op.name: one.value.span for one in made["main"].body.blocks[0].bindings if hasattr(one.value, "op")}
        for made in (source, again)
    ]
    if tvm.__version__.startswith("0.25."):  # which knows none
        assert "//" not in module.text
        return
    places = [{op: (span.source_name.name, span.line, span.column) for op, span in of.items()} for of in spans]
    assert places[0] == places[1] and places[0]["relax.exp"][:2] == ("<str>", 6)
    lines = {op: place.split(":")[0] for op, place in said.items()}
    assert lines == {"exp": "6", "sin": "8", "softmax": "12"}


@pytest.mark.parametrize("shape, dtype", [((4, 7), "float32"), ((4, 6), "int32"), ((4, 6, 1), "float32")])
def test_wrong_type(shape, dtype):
    """A type that the op of the variable does not give: TVM checks none that a program writes."""
    import tvm
    from cugrt.relax.dialect import TensorType, type_of
    from tvm import relax

    x, y = relax.Var("x", TensorType((4, 6), "float32")), relax.Var("y", TensorType(shape, dtype))
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, relax.op.exp(x))])], y)
    function = relax.Function([x], body, type_of(y)).with_attr("global_symbol", "main")
    with pytest.raises(cugrt.Error) as error:
        cugrt.from_relax(tvm.IRModule({"main": function}))
    said = f"'y' of function 'main' is declared as {type_of(y)}, and 'relax.exp' gives {type_of(x)}"
    assert str(error.value) == said and error.value.code == cugrt.Code.VERIFY_ERROR


def test_wrong_result():
    """TVM takes any declared type of a result; the text's verifier does not."""
    import tvm
    from cugrt.relax.dialect import TensorType
    from tvm import relax

    x, y = (relax.Var(name, TensorType((4, 6), "float32")) for name in "xy")
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, relax.op.exp(x))])], y)
    function = relax.Function([x], body, TensorType((4, 7), "float32")).with_attr("global_symbol", "main")
    with pytest.raises(cugrt.Error) as error:
        cugrt.from_relax(tvm.IRModule({"main": function}))
    assert "function 'main': " in str(error.value) and "tensor<[4, 7], f32> is declared" in str(error.value)
    assert error.value.code == cugrt.Code.VERIFY_ERROR


def test_free_variable():
    import tvm
    from cugrt.relax.dialect import TensorType
    from tvm import relax

    x, y = (relax.Var(name, TensorType([4], "float32")) for name in "xy")
    function = relax.Function([x], relax.SeqExpr([], y), TensorType([4], "float32"), True)
    with pytest.raises(cugrt.Error, match="function 'main' uses the variable 'y', which nothing defines"):
        cugrt.from_relax(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}))


def wrong_modules():
    """By name: a module that TVM's classes make and nothing runs, and what is said of it."""
    import tvm
    from cugrt.relax.dialect import AnyType, TensorType, packed
    from tvm import relax, tirx

    four, n, other = TensorType((4,), "float32"), tirx.Var("n", "int64"), tvm.ir.GlobalVar("other")
    names = {name: relax.Var(name, four) for name in "pqxy"}
    p, q, x, y = names.values()
    sized, kept = relax.Var("y", TensorType((n,), "float32")), relax.Var("kv", AnyType())
    small = relax.Var("y", TensorType((4,), "float8_e4m3fn"))

    def module(value, params=(x,), made=y, **more):
        body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(made, value)])], made)
        result = relax.Function(list(params), body, made.ty if hasattr(made, "ty") else made.struct_info)
        for name, given in {"global_symbol": "main", **more}.items():
            result = result.with_attr(name, given)
        return tvm.IRModule({"main": result})

    def with_other(made):
        made[other] = relax.Function([p, q], relax.SeqExpr([], p), four).with_attr("global_symbol", "other")
        return made

    own = tvm.ir.GlobalVar("main")
    itself = tvm.IRModule({own: module(relax.Call(own, [x]))["main"]})
    inner = relax.Function([p], relax.SeqExpr([], p), four)
    packed_call = packed("vm.builtin.paged_attention_kv_cache_create", [x], four)
    return {
        "symbol": (module(relax.op.broadcast_to(x, (n,)), made=sized), "uses the symbol 'n', which no parameter"),
        "global": (module(relax.Call(other, [x])), "function 'main' calls 'other', which the module does not have"),
        "itself": (itself, "function 'main' calls 'main', which calls it again"),
        "arity": (with_other(module(relax.Call(other, [x]))), "'y' of function 'main': function @other takes 2 operands, not 1"),
        "inner": (module(inner), "a function within a function is not supported: 1 time, at 'y' of 'main'"),
        "dps": (module(relax.op.call_dps_packed("lib.f", [x], four)), "function 'lib.f' is not supported"),
        "cache": (module(packed_call), "'vm.builtin.paged_attention_kv_cache_create' is not supported"),
        "object": (module(relax.op.exp(x), [x, kept]), "parameter 'kv' of function 'main' is a"),
        "dtype": (module(relax.op.astype(x, "float8_e4m3fn"), made=small), "has dtype float8_e4m3fn"),
        "num_input": (module(relax.op.exp(x), num_input=2), "'main' has 1 parameters, and num_input is 2"),
        "empty": (tvm.IRModule({}), "the module has no Relax function"),
    }


WRONG = "symbol global itself arity inner dps cache object dtype num_input empty".split()


@pytest.mark.parametrize("name", WRONG)
def test_wrong_module(name):
    module, said = wrong_modules()[name]
    with pytest.raises(cugrt.Error) as error:
        cugrt.from_relax(module)
    assert said in str(error.value) and len(str(error.value)) < 400


@pytest.mark.parametrize(
    "tvm, ffi, said",
    [
        ("0.24.0", "0.1.12", "cugrt.relax works with apache-tvm 0.25, 0.26 and 0.27, and 0.24.0 is installed"),
        (
            "0.27.0.post1",
            "0.1.15.post2",
            "0.27.0.post1 works with apache-tvm-ffi 0.1.14, and 0.1.15.post2 is installed",
        ),
        ("0.26.0", "0.1.12", "0.26.0 works with apache-tvm-ffi 0.1.13 and 0.1.14, and 0.1.12 is installed"),
        ("0.25.0.post1", "0.1.12", None),
        ("0.26.0", "0.1.14.post0", None),
    ],
)
def test_versions(monkeypatch, tvm, ffi, said):
    import importlib.metadata

    import cugrt.relax

    installed = {"apache-tvm": tvm, "apache-tvm-ffi": ffi}
    monkeypatch.setattr(importlib.metadata, "version", installed.get)
    if said is None:
        cugrt.relax._check()
        return
    with pytest.raises(cugrt.Error) as error:
        cugrt.from_relax
    assert said in str(error.value) and error.value.code == cugrt.Code.UNSUPPORTED


def test_import_is_light():
    code = "import sys, cugrt; assert not {'tvm', 'torch', 'cugrt.relax'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def in_tvm(module, *given):
    """What TVM's virtual machine gives, which is a CPU's."""
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    out = machine["main"](*[tvm.runtime.tensor(np.asarray(a)) for a in given])
    return [o.numpy() for o in (out if not hasattr(out, "numpy") else [out])]


@pytest.mark.parametrize("name", CASES)
def test_op_goes_out(name):
    from tvm.script import relax

    make, given, expected = CASES[name]
    module = cugrt.from_relax(module_of(lambda *params: make(relax, *params), tensors(given)))
    wanted = expected(*given)
    wanted = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
    for a, b in zip(in_tvm(cugrt.to_relax(module), *given), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


OUT = """cugrt 1
constant @two: tensor<[], f32> = [2]
private func @twice(%x: tensor<[n, m], f32>) -> (tensor<[n, m], f32>) {
  %c = constant @two
  %y = mul(%x, %c)
  return %y
}
func @main(%x: tensor<[n, 4], f32>, %yes: tensor<[], bool>) -> (tensor<[2*n, 4], f32>, tensor<[n], f32>)
    attributes {upper_bounds = {n = 8}} {
  %t = call @twice(%x)
  %b = if %yes using (%t, %x) -> (tensor<[n, 4], f32>) {
    %s = add(%t, %x)
    yield %s
  } else {
    yield %t
  }
  %c = concat(%b, %x) {axis = 0}
  %r = reduce_max(%b) {axes = [1]}
  return %c, %r
}
"""


def test_text_goes_out():
    module = cugrt.to_relax(cugrt.Module.from_text(OUT))
    assert dict(module["main"].attrs["tir_var_upper_bound"]) == {"n": 8}
    for yes, factor in ((True, 3), (False, 2)):
        x = X[:, :4].copy()
        out = in_tvm(module, x, np.array(yes))
        np.testing.assert_allclose(out[0], np.concatenate([factor * x, x]), rtol=1e-6)
        np.testing.assert_allclose(out[1], (factor * x).max(1), rtol=1e-6)


NOTHING = """cugrt 1
func @main(%x: tensor<[0, 4], f32>, %z: tensor<[n, 4], f32>) -> (tensor<[2, 0, 3], f32>, tensor<[2, n, 2], f32>)
    attributes {upper_bounds = {n = 8}} {
  %shape = shape [2, 0, 3]
  %y = reshape(%x, %shape)
  %w = reshape(%z) {shape = [2, -1, 2]}
  return %y, %w
}
"""


def test_sizes_of_zero_go_out():
    """TVM's reshape reads one as the size of its operand."""
    out = in_tvm(cugrt.to_relax(cugrt.Module.from_text(NOTHING)), X[:0, :4].copy(), X[:, :4].copy())
    assert [one.shape for one in out] == [(2, 0, 3), (2, 4, 2)]
    assert np.array_equal(out[1], X[:, :4].reshape(2, 4, 2))


def test_views_of_nothing_go_through_passes():
    """Of a module of kernels, whose views of whole tensors are reshapes there."""
    from cugrt.relax.dialect import TensorType
    from cugrt.relax.reader import Reader
    from cugrt.relax.writer import Writer
    from tvm import relax, tirx

    n = tirx.Var("n", "int64")
    x = relax.Var("x", TensorType((0, n), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.memory.view(x, [1, 0, n], "float32", 0)))
    reader = Reader(builder.get(), {}, None, {}, opaque=True)
    text = reader.read().text
    assert "view %x, 0 : tensor<[1, 0, n], f32>" in text
    assert Reader(Writer(text, reader).write(), {}, None, {}, opaque=True).read().text == text


def test_a_kernel_does_not_go_out():
    legal = cugrt.transform.LegalizeOps()(cugrt.Module.from_text(OUT))
    with pytest.raises(cugrt.Error, match="launches the kernel '.*', which Relax has no place for"):
        cugrt.to_relax(legal)


def lowered(module):
    """Calls in destination-passing form."""
    import tvm
    from tvm import relax

    return tvm.ir.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.ToNonDataflow(),
            relax.transform.RemovePurityChecking(),
            relax.transform.CallTIRRewrite(),
        ]
    )(module)


CHAIN = """
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")) -> R.Tensor(("n", 8), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(a)
            c = R.tanh(b)
            d = R.add(c, c)
            R.output(d)
        return d
"""


def test_passes_on_relax():
    import tvm
    import tvm_ffi
    from tvm import relax

    module = lowered(relax.transform.BindSymbolicVars({"n": 4})(parsed(CHAIN)))
    planned = cugrt.transform.StaticPlanBlockMemory()(module)
    # a, b and c: b may not lie where a does, and c may.
    script = planned.script()
    assert script.count("R.memory.alloc_storage(") == 2 and script.count("R.memory.alloc_tensor(") == 3
    rewrite = cugrt.transform.Sequential([cugrt.transform.RewriteCUDAGraph()])
    assert tvm_ffi.structural_equal(rewrite(planned), planned)
    with cugrt.transform.PassContext(config={"relax.backend.use_cuda_graph": True}, opt_level=3):
        made = rewrite(planned)
    names = sorted(var.name_hint for var in made.get_global_vars())
    assert {"cuda_graph_alloc", "main", "main_cuda_graph_capture"} <= set(names)
    main, capture = made["main"].script(), made["main_cuda_graph_capture"].script()
    # The launch that reads the input and the one that writes the result stay outside.
    assert main.count("cuda_graph.run_or_capture") == 1 and " tir_exp(" in main and " add(" in main
    assert " tir_negative(" in capture and " tir_tanh(" in capture and " add(" not in capture
    # TVM's regions come in as regions.
    with tvm.ir.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        theirs = relax.transform.RewriteCUDAGraph()(relax.transform.StaticPlanBlockMemory()(module))
    x = floats(4, 8)
    for one in (theirs, made):
        regions = cugrt.from_relax(one)
        assert "cuda_graph.run_or_capture" in regions.text and "cuda_graph.get_cached_alloc" in regions.text
        np.testing.assert_allclose(run(regions, x)[0], 2 * np.tanh(-np.exp(x)), rtol=1e-5, atol=1e-5)
    # What lowers them further lets go of names before what these stand for is used for the last time.
    lower = (relax.transform.LowerAllocTensor(), relax.transform.KillAfterLastUse(), relax.transform.LowerRuntimeBuiltin())
    for passes in (lower[:2], lower):
        one = cugrt.from_relax(tvm.ir.transform.Sequential(passes)(theirs))
        np.testing.assert_allclose(run(one, x)[0], 2 * np.tanh(-np.exp(x)), rtol=1e-5, atol=1e-5)
    # What stays without regions runs as it did.
    np.testing.assert_allclose(in_tvm(planned, x)[0], 2 * np.tanh(-np.exp(x)), rtol=1e-5, atol=1e-5)
    relax.analysis.well_formed(made)


def test_passes_on_a_module():
    module = cugrt.from_relax(parsed(CHAIN))
    fused = cugrt.transform.Sequential([cugrt.transform.FuseOps(), cugrt.transform.FuseTIR()])(module)
    assert fused.text.count("launch @") == 1
    planned = cugrt.transform.StaticPlanBlockMemory()(cugrt.transform.LegalizeOps()(module))
    assert "alloc_storage" in planned.text
    assert cugrt.transform.RewriteCUDAGraph()(planned) is planned
    assert "f16" in cugrt.transform.ToMixedPrecision()(cugrt.from_relax(parsed(DENSE))).text
    x = floats(3, 8)
    for one in (fused, planned):
        np.testing.assert_allclose(run(one, x)[0], 2 * np.tanh(-np.exp(x)), rtol=1e-5, atol=1e-5)
    with pytest.raises(cugrt.Error, match="StaticPlanBlockMemory takes a cugrt.Module or a tvm.IRModule, not a str"):
        cugrt.transform.StaticPlanBlockMemory()("module")
