#!/usr/bin/env python3
"""Drawn ONNX graphs whose dimensions are symbols, against ONNX Runtime.

  onnx_drawn.py RUNNER [--count N] [--seed S] [--keep FOLDER]

Takes a Python that has onnx and onnxruntime (python3 -m venv; pip install onnx onnxruntime). Each graph has one to
four nodes, and inputs of small dimensions, many of them 1, which have names of their own or share them. Nodes that
ONNX Runtime refuses are drawn again. RUNNER is run_onnx_nodes (a target of the build), which runs them all in one
process on the emulated driver and says which results differ and which graphs are not taken.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

OPSET = 21
FLOAT = onnx.TensorProto.FLOAT


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def model_of(nodes, inputs, dims, constants, outputs):
    """inputs, constants: {name: array}; dims: {name: dimensions as the file has them}; outputs: {name: array}."""
    def value(name, array, shape):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)

    graph = helper.make_graph(
        nodes, "g", [value(name, array, dims.get(name, array.shape)) for name, array in inputs.items()],
        [value(name, array, None) for name, array in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


class Graph:
    def __init__(self, rng):
        self.rng, self.nodes, self.inputs, self.dims, self.constants, self.values = rng, [], {}, {}, {}, {}
        self.count = 0

    def pick(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def drawn(self, shape, dtype="float32"):
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        if dtype == "int64":
            return self.rng.integers(-3, 4, shape)
        return (self.rng.integers(-16, 17, shape) / 4).astype(dtype)

    def input(self, dtype="float32", rank=None, shape=None):
        if shape is None:
            rank = int(self.rng.integers(1, 4)) if rank is None else rank
            shape = [self.pick(1, 1, 2, 3, 3, 4, 5) for _ in range(rank)]
        name = self.name()
        self.inputs[name] = self.values[name] = np.asarray(self.drawn(tuple(shape), dtype))
        shared = self.rng.random() < 0.3
        self.dims[name] = [f"n{size}" if shared and size > 1 else f"{name}_{i}" for i, size in enumerate(shape)]
        return name

    def constant(self, array):
        name = self.name()
        self.constants[name] = self.values[name] = np.asarray(array)
        return name

    def add(self, op, inputs, outputs=1, **attributes):
        """The names of the results, or None where ONNX Runtime refuses the node."""
        names = [self.name() for _ in range(outputs)]
        node = helper.make_node(op, inputs, names, **attributes)
        given = {name: self.values[name] for name in inputs if name}
        try:
            model = model_of([node], given, {}, {}, {name: np.zeros((), "float32") for name in names})
            del model.graph.output[:]
            model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
            results = session_of(model).run(None, given)
        except Exception:  # whatever ONNX Runtime raises
            return None
        if any(result.size > 2000 or result.ndim > 6 for result in results):
            return None
        self.nodes.append(node)
        self.values.update(zip(names, results))
        return names

    def value(self, dtype="float32", rank=None):
        """Of what there is, or a new input."""
        fitting = [name for name, value in self.values.items() if value.dtype == dtype and name not in self.constants
                   and (value.ndim == rank if rank is not None else value.ndim > 0)]
        if fitting and self.rng.random() < 0.6:
            return self.pick(*fitting)
        return self.input(dtype, rank)

    def beside(self, name):
        """An input that mostly broadcasts with it."""
        shape = [self.pick(1, size, size) for size in self.values[name].shape]
        shape = shape[int(self.rng.integers(len(shape) + 1)):] if self.rng.random() < 0.4 else shape
        if self.rng.random() < 0.3:
            shape = [self.pick(1, 2, 3) if size == 1 else size for size in shape]
        return self.input(str(self.values[name].dtype), shape=shape)

    def axis(self, name):
        rank = self.values[name].ndim
        return int(self.rng.integers(-rank, rank))

    def shape_of(self, name):
        made = self.add("Shape", [name])
        return made[0] if made else None


def elementwise(g):
    x, op = g.value(), g.pick("Add", "Sub", "Mul", "Max", "Min", "PRelu", "Sum", "Mean")
    other = g.beside(x)
    if op == "PRelu":  # ONNX stretches the slope alone, ONNX Runtime both
        slope = g.values[other].shape
        stretched = g.values[x].shape[-len(slope):] if slope else ()
        op = op if len(slope) == len(stretched) and all(a in (1, b) for a, b in zip(slope, stretched)) else "Add"
    return g.add(op, [x, other])


def compared(g):
    x = g.value()
    made = g.add(g.pick("Less", "Greater", "Equal", "LessOrEqual"), [x, g.beside(x)])
    return made and g.add("Where", [made[0], g.beside(x), g.beside(x)])


def integers(g):
    x = g.value("int64")
    return g.add(g.pick("Add", "Mul", "Sub", "Max", "Min"), [x, g.beside(x)])


def unary(g):
    return g.add(g.pick("Relu", "Neg", "Abs", "Exp", "Sigmoid", "Tanh", "Floor", "Round", "Erf", "Identity"), [g.value()])


def expand(g):
    x = g.value()
    shape = g.shape_of(g.beside(x)) if g.rng.random() < 0.7 else g.constant(np.array([g.pick(1, 2), *g.values[x].shape]))
    return g.add("Expand", [x, shape])


def matmul(g):
    x = g.value()
    shape = list(g.values[x].shape)
    if len(shape) < 2:
        other = [shape[-1], g.pick(1, 2, 4)]
    else:
        other = [g.pick(1, size) for size in shape[:-2]] + [shape[-1], g.pick(1, 2, 4)]
    return g.add("MatMul", [x, g.input(shape=other)])


def gemm(g):
    a = g.value(rank=2)
    rows, inner = g.values[a].shape
    columns = g.pick(1, 2, 4)
    return g.add("Gemm", [a, g.input(shape=[inner, columns]),
                          g.input(shape=g.pick([rows, columns], [1, columns], [rows, 1], [columns], [1]))])


def concat(g):
    x = g.value()
    axis = g.axis(x)
    shape = list(g.values[x].shape)
    shape[axis] = g.pick(1, 2, 3)
    return g.add("Concat", [x, g.input(shape=shape)], axis=axis)


def split(g):
    x = g.value()
    axis = g.axis(x)
    size = g.values[x].shape[axis]
    if g.rng.random() < 0.5:
        parts = int(g.rng.integers(1, 4))
        return g.add("Split", [x], parts, axis=axis, num_outputs=parts)
    first = int(g.rng.integers(0, size + 1))
    return g.add("Split", [x, g.constant(np.array([first, size - first]))], 2, axis=axis)


def slices(g):
    x = g.value()
    axis = g.axis(x)
    step = g.pick(1, 1, 2, -1)
    ends = g.pick(1, 2, 3, -1, -np.iinfo(np.int64).max, np.iinfo(np.int64).max, np.iinfo(np.int32).max)
    if step < 0 < 3 < ends:  # which ONNX Runtime takes for the front, and ONNX for the end
        ends = -ends
    return g.add("Slice", [x, g.constant(np.array([g.pick(0, 1, -1, -2, 5)])), g.constant(np.array([ends])),
                           g.constant(np.array([axis])), g.constant(np.array([step]))])


def gather(g):
    x = g.value()
    axis = g.axis(x)
    size = g.values[x].shape[axis]
    if size == 0:
        return None
    ids = g.rng.integers(-size, size, g.pick((), (2,), (2, 2)))
    return g.add("Gather", [x, g.constant(ids)], axis=axis)


def gather_elements(g):
    x = g.value()
    axis = g.axis(x)
    shape = list(g.values[x].shape)
    if shape[axis] == 0:
        return None
    size, shape[axis] = shape[axis], g.pick(1, 2, 3)
    name = g.input("int64", shape=shape)
    g.inputs[name] = g.values[name] = g.rng.integers(0, size, tuple(shape))
    return g.add("GatherElements", [x, name], axis=axis)


def transpose(g):
    x = g.value()
    return g.add("Transpose", [x], perm=[int(i) for i in g.rng.permutation(g.values[x].ndim)])


def reshape(g):
    x = g.value()
    shape = g.shape_of(x)
    rank = g.values[x].ndim
    kind = g.pick("flat", "same", "front")
    if kind == "flat":
        return g.add("Reshape", [x, g.constant(np.array([-1]))])
    if kind == "same":
        return g.add("Reshape", [x, g.constant(np.array([0] * (rank - 1) + [-1]))])
    first = g.add("Slice", [shape, g.constant(np.array([0])), g.constant(np.array([1]))])
    wanted = first and g.add("Concat", [first[0], g.constant(np.array([-1]))], axis=0)
    return wanted and g.add("Reshape", [x, wanted[0]])


def squeeze(g):
    x = g.value()
    if g.rng.random() < 0.5:
        return g.add("Unsqueeze", [x, g.constant(np.array([g.axis(x)]))])
    ones = [i for i, size in enumerate(g.values[x].shape) if size == 1]
    return g.add("Squeeze", [x, g.constant(np.array([g.pick(*ones)]))]) if ones else None


def reduce(g):
    x = g.value()
    op = g.pick("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                "ReduceLogSumExp", "ReduceProd")
    inputs = [x] if g.rng.random() < 0.3 else [x, g.constant(np.array([g.axis(x)]))]
    return g.add(op, inputs, keepdims=g.pick(0, 1), noop_with_empty_axes=g.pick(0, 1))


def shape_sums(g):
    """Arithmetic on a shape, made a value."""
    shape = g.shape_of(g.value())
    made = g.add(g.pick("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"), [shape], keepdims=g.pick(0, 1),
                 noop_with_empty_axes=g.pick(0, 1))
    made = made and g.add(g.pick("Add", "Sub", "Mul", "Div"), [made[0], g.constant(np.array([g.pick(1, 2, 3)]))])
    return made and g.add("Cast", [made[0]], to=FLOAT)


def softmax(g):
    x = g.value()
    return g.add(g.pick("Softmax", "LogSoftmax", "Hardmax"), [x], axis=g.axis(x))


def search(g):
    x = g.value()
    return g.add(g.pick("ArgMax", "ArgMin"), [x], axis=g.axis(x), keepdims=g.pick(0, 1), select_last_index=g.pick(0, 1))


def top_k(g):
    x = g.value()
    axis = g.axis(x)
    return g.add("TopK", [x, g.constant(np.array([g.pick(1, 1, 2)]))], 2, axis=axis, largest=g.pick(0, 1))


def cumulative(g):
    x = g.value()
    return g.add("CumSum", [x, g.constant(np.array(g.axis(x)))], exclusive=g.pick(0, 1), reverse=g.pick(0, 1))


def pad(g):
    x = g.value()
    pads = g.rng.integers(-1, 3, 2 * g.values[x].ndim)
    return g.add("Pad", [x, g.constant(pads)], mode=g.pick("constant", "edge", "reflect", "wrap"))


def tile(g):
    x = g.value()
    return g.add("Tile", [x, g.constant(g.rng.integers(1, 3, g.values[x].ndim))])


def clip(g):
    bounds = [g.constant(np.float32(g.pick(-2, -0.5, 1, np.nan))), g.constant(np.float32(g.pick(2, 0, -1, np.nan)))]
    return g.add("Clip", [g.value(), *bounds])


def ranges(g):
    shape = g.shape_of(g.value(rank=1))
    limit = shape and g.add("Squeeze", [shape, g.constant(np.array([0]))])
    made = limit and g.add("Range", [g.constant(np.array(0)), limit[0], g.constant(np.array(g.pick(1, 2)))])
    return made and g.add("Cast", [made[0]], to=FLOAT)


def filled(g):
    shape = g.shape_of(g.value())
    return shape and g.add("ConstantOfShape", [shape], value=numpy_helper.from_array(np.array([2.5], "float32")))


def norm(g):
    x = g.value()
    size = g.values[x].shape[-1]
    return g.add("LayerNormalization", [x, g.input(shape=[size]), g.input(shape=[size])], axis=-1)


def window(g):
    x = g.input(shape=[g.pick(1, 2), g.pick(1, 2), g.pick(3, 4, 5), g.pick(3, 4, 5)])
    common = {"kernel_shape": [g.pick(1, 2, 3)] * 2, "strides": [g.pick(1, 2)] * 2}
    if g.rng.random() < 0.3:
        common["auto_pad"] = g.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    else:
        common["pads"] = [g.pick(0, 1)] * 4
    op = g.pick("MaxPool", "AveragePool", "Conv")
    if op == "Conv":
        channels = g.values[x].shape[1]
        weights = g.constant(g.drawn((2, channels, *common["kernel_shape"])))
        return g.add(op, [x, weights], dilations=[g.pick(1, 2)] * 2 if "auto_pad" not in common else [1, 1], **common)
    return g.add(op, [x], ceil_mode=g.pick(0, 1), **common)


def resize(g):
    x = g.input(shape=[1, g.pick(1, 2), g.pick(2, 3, 5), g.pick(2, 3, 5)])
    mode = g.pick("nearest", "linear", "cubic")
    scales = np.array([1, 1, g.pick(0.5, 1, 2, 3), g.pick(0.5, 1, 2, 1.5)], "float32")
    transformation = g.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    return g.add("Resize", [x, "", g.constant(scales)], mode=mode, coordinate_transformation_mode=transformation)


def sampled(g):
    x = g.input(shape=[1, g.pick(1, 2), g.pick(2, 4), g.pick(2, 5)])
    grid = g.input(shape=[1, 2, 3, 2])
    g.inputs[grid] = g.values[grid] = (g.values[grid] / 2.9).astype("float32")
    return g.add("GridSample", [x, grid], mode=g.pick("linear", "nearest", "cubic"),
                 padding_mode=g.pick("zeros", "border", "reflection"), align_corners=g.pick(0, 1))


def triangle(g):
    x = g.value()
    return g.add("Trilu", [x, g.constant(np.array(g.pick(-1, 0, 1)))], upper=g.pick(0, 1)) if g.values[x].ndim > 1 else None


def one_hot(g):
    x = g.value("int64")
    return g.add("OneHot", [x, g.constant(np.array(4)), g.constant(np.array([0.5, 2], "float32"))], axis=g.pick(-1, 0))


def scatter(g):
    x = g.value()
    axis = g.axis(x)
    shape = list(g.values[x].shape)
    size, shape[axis] = shape[axis], 1
    if size == 0:
        return None
    ids = g.input("int64", shape=shape)
    g.inputs[ids] = g.values[ids] = g.rng.integers(0, size, tuple(shape))
    return g.add("ScatterElements", [x, ids, g.input(shape=shape)], axis=axis, reduction=g.pick("none", "add", "max"))


def einsum(g):
    x = g.value(rank=2)
    rows, inner = g.values[x].shape
    return g.add("Einsum", [x, g.input(shape=[g.pick(1, inner), g.pick(1, 3)])], equation=g.pick("ij,jk->ik", "ij,jk->ki", "ij,jk->i"))


def counted(g):
    made = g.add("NonZero", [g.value()])
    return made and g.add("Cast", [made[0]], to=FLOAT)


MAKERS = [elementwise, elementwise, elementwise, compared, integers, unary, expand, expand, matmul, gemm, concat, split,
          slices, gather, gather_elements, transpose, reshape, squeeze, reduce, shape_sums, softmax, search, top_k,
          cumulative, pad, tile, clip, ranges, filled, norm, window, resize, sampled, triangle, one_hot, scatter, einsum,
          counted]


def drawn_model(seed):
    """A model, its inputs and ONNX Runtime's results; None where those cannot be had."""
    g = Graph(np.random.default_rng(seed))
    made = None
    for _ in range(int(g.rng.integers(1, 4))):
        made = g.pick(*MAKERS)(g) or made
    if not made or not g.inputs:
        return None
    read = {name for node in g.nodes for name in node.input}
    ends = {name: g.values[name] for node in g.nodes for name in node.output if name not in read}
    inputs = {name: value for name, value in g.inputs.items() if name in read}
    if not inputs or not ends:
        return None
    model = model_of(g.nodes, inputs, g.dims, {n: v for n, v in g.constants.items() if n in read}, ends)
    try:
        return model, inputs, session_of(model).run(None, inputs)
    except Exception:  # whatever ONNX Runtime raises
        return None


def write(folder, model, inputs, results):
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for kind, arrays in (("input", inputs.values()), ("output", results)):
        for i, array in enumerate(arrays):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(np.asarray(array)).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runner")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", help="the folder that the models go to and stay in")
    given = parser.parse_args()
    os.environ.setdefault("CUGRT_DRIVER", "emulated")
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or temporary
        made, seed = 0, given.seed
        while made < given.count:
            drawn = drawn_model(seed)
            if drawn:
                write(os.path.join(folder, f"drawn_{seed:06}"), *drawn)
                made += 1
            seed += 1
        return subprocess.run([given.runner, folder], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
