"""A torch.export.ExportedProgram as a cugrt.Module, by way of TVM's importer, which sees a graph that suits it.

The importer is given a program whose tensors are all inputs: what is a weight, a constant or state is settled here, so
that weights keep PyTorch's names and never pass through TVM.
"""

import functools
import operator
import types

import torch
import tvm
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, SymIntArgument, TensorArgument
from tvm import relax, tirx
from tvm.relax.frontend.torch import from_exported_program

from cugrt import Error

from . import torch_ops
from .dialect import VERSION, TensorType, TupleType, type_of
from .dims import refuse
from .reader import Reader
from .report import Report

# A constant of the graph with more elements is a weight.
SMALL = 64
TENSORS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
# Checks of sizes that are checked when a run begins, and of dtypes that are fixed.
CHECKS = {"_assert_scalar.default", "_assert_tensor_metadata.default", "sym_constrain_range_for_size.default"}
CHECKS |= {"sym_constrain_range.default", "_guards_fn"}
# What PyTorch's expressions of sizes are made of, by sympy's names; sizes are not negative.
ANALYZER = (tvm.arith if VERSION < (0, 27) else tvm.sym).Analyzer()
EXPRESSIONS = {"Add": operator.add, "Mul": operator.mul, "Max": tirx.max, "Min": tirx.min}
EXPRESSIONS |= dict.fromkeys(("FloorDiv", "CleanDiv"), tirx.floordiv)
EXPRESSIONS |= dict.fromkeys(("Mod", "PythonMod"), tirx.floormod)


def from_exported(program, target=None, *, bounds=None):
    """A :class:`cugrt.Module` of a ``torch.export.ExportedProgram``.

    Inputs keep the names and the order that the export gave them, results those of the dictionary that the model
    returns. Parameters and buffers become weights by PyTorch's names, which the module brings along: their memory is
    PyTorch's, and is read when the module is loaded. A buffer that the model changes is an input, and its new content
    one more result behind the others, both under its name.

    Dynamic dimensions are symbols under PyTorch's names (``s77``) within the ranges that the export found. ``bounds``:
    closer ones, ``{"s77": (1, 64)}``. ``target``: as of :func:`cugrt.from_relax`.

    Raises :class:`cugrt.Error` with the op and the line of the model where something is not taken.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise Error(f"from_exported takes a torch.export.ExportedProgram, not a {type(program).__name__}")
    prepared = Prepared(decomposed(program))
    converted = conversions(prepared)
    try:
        module = from_exported_program(
            prepared, run_ep_decomposition=False, custom_convert_map=converted, unwrap_unit_return_tuple=True
        )
    except Error:
        raise
    except Exception as error:
        raise refuse(f"TVM's importer of torch.export does not take this program: {str(error).strip()}") from error
    if prepared.small:
        module = relax.transform.BindParams("main", prepared.small)(module)
    module["main"] = module["main"].with_attr("num_input", len(prepared.inputs))
    made = Reader(module, prepared.weights, target, bounds or {}).read()
    made._results = prepared.result_names
    return made


def decomposed(program):
    """The program in ATen's core ops, without writes in place, but for the ops that are one op here."""
    table = torch.export.default_decompositions()
    for name in torch_ops.WHOLE:
        packet, _, overload = name.partition(".")
        table.pop(getattr(getattr(torch.ops.aten, packet), overload), None)
    return program.run_decompositions(table)


class Prepared:
    """What the importer reads of a program. ``inputs``: names; ``weights``, ``small``: tensors by name."""

    def __init__(self, program):
        self.graph_module, self.graph = program.graph_module, program.graph
        self.range_constraints = program.range_constraints
        self.state_dict, self.constants, self.tensor_constants = {}, {}, {}
        self.inputs, self.weights, self.small, self.taken = [], {}, {}, set()
        for node in list(self.graph.nodes):
            if node.op == "call_function" and node.target.__name__ in CHECKS and not node.users:
                self.graph.erase_node(node)
        self.graph.eliminate_dead_code()
        signature = program.graph_signature
        states = {spec.target for spec in signature.output_specs if spec.kind is OutputKind.BUFFER_MUTATION}
        nodes = {node.name: node for node in self.graph.nodes if node.op == "placeholder"}
        specs = {"input": [], "state": [], "weight": []}
        self.check_inputs(signature, nodes)
        for spec in sorted(signature.input_specs, key=lambda one: one.kind in TENSORS):
            node = nodes[spec.arg.name]
            is_state = spec.kind is InputKind.BUFFER and spec.target in states
            if isinstance(spec.arg, ConstantArgument) or spec.kind in TENSORS and not node.users and not is_state:
                continue
            self.rename(node, spec.target if spec.kind in TENSORS else node.name)
            if spec.kind not in TENSORS:
                specs["input"].append(node)
            elif is_state:
                specs["state"].append(node)
            else:
                self.add_tensor(program, spec, node)
                specs["weight"].append(node)
        self.inputs = [node.name for node in specs["input"] + specs["state"]]
        self.order_results(program, nodes)
        ordered = [node for part in specs.values() for node in part]
        argument = lambda node: types.SimpleNamespace(name=node.name)  # noqa: E731
        self.graph_signature = types.SimpleNamespace(
            input_specs=[
                types.SimpleNamespace(kind=InputKind.USER_INPUT, arg=argument(node), target=node.target)
                for node in ordered
            ],
            output_specs=[types.SimpleNamespace(kind=OutputKind.USER_OUTPUT) for _ in self.result_names],
        )

    def check_inputs(self, signature, nodes):
        report = Report()
        for spec in signature.input_specs:
            if spec.kind not in TENSORS and spec.kind is not InputKind.USER_INPUT:
                report.add(f"input '{spec.arg.name}' is a {spec.kind.name.lower()}, which is not supported", "")
            elif isinstance(spec.arg, SymIntArgument):
                report.add(f"input '{spec.arg.name}' is a number that is not fixed, which is not supported", "")
            elif isinstance(spec.arg, TensorArgument) and spec.kind is InputKind.USER_INPUT:
                for dim in nodes[spec.arg.name].meta["val"].shape:
                    if isinstance(dim, torch.SymInt) and not is_linear(dim.node.expr):
                        report.add(f"input '{spec.arg.name}' has the dimension {dim}, which is not supported", "")
        report.check()

    def rename(self, node, wanted):
        """The importer names Relax's variables by nodes."""
        name, count = wanted, 0
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name)
        node.name = name

    def add_tensor(self, program, spec, node):
        tensors = program.state_dict if spec.target in program.state_dict else program.constants
        tensor = tensors[spec.target]
        tensor = tensor.detach()
        if tensor.layout != torch.strided:
            raise refuse(f"'{spec.target}' is a sparse tensor, which is not supported")
        tensor = tensor.cpu().contiguous()
        if spec.kind is InputKind.CONSTANT_TENSOR and tensor.numel() <= SMALL:
            self.small[node.name] = tvm.runtime.from_dlpack(tensor.clone())
        else:
            self.weights[node.name] = tensor

    def order_results(self, program, nodes):
        """PyTorch's results, then what has been written to buffers and inputs; numbers and None are left out."""
        output = next(node for node in self.graph.nodes if node.op == "output")
        names, kept, written = leaf_names(program.call_spec.out_spec), [], []
        for spec, value in zip(program.graph_signature.output_specs, output.args[0], strict=True):
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
                written.append((value, spec.target))
            elif spec.kind is not OutputKind.USER_OUTPUT:
                raise refuse(f"a result of the kind {spec.kind.name.lower()} is not supported")
            elif isinstance(value, torch.fx.Node):
                if not isinstance(value.meta.get("val"), torch.Tensor):
                    raise refuse(f"result {len(kept)} is a size, which is not supported; a tensor is")
                kept.append((value, names.pop(0)))
            else:
                names.pop(0)
        if not kept and not written:
            raise refuse("the program returns no tensor")
        output.args = (tuple(value for value, _ in kept + written),)
        named = [name or f"result{i}" for i, (_, name) in enumerate(kept)] + [name for _, name in written]
        self.result_names = named

    # What the importer asks a program for; all tensors are inputs to it.

    def named_buffers(self):
        return []

    def named_parameters(self):
        return []


def is_linear(expr):
    """A sum of symbols with whole factors, of which the importer makes an expression."""
    if expr.is_Add or expr.is_Mul:
        return all(map(is_linear, expr.args))
    return expr.is_Symbol or expr.is_Integer


def leaf_names(spec):
    """Of each leaf of a tree of results its path's keys, joined; "" where no dictionary is on the way."""
    children = list(spec.children() if callable(getattr(spec, "children", None)) else spec.children_specs)
    if spec.is_leaf():
        return [""]
    keys = list(spec.context) if spec.type is dict else None
    if spec.type is not None and spec.type not in (dict, tuple, list) and isinstance(spec.context, (list, tuple)):
        keys = list(spec.context[0]) if spec.context and isinstance(spec.context[0], (list, tuple)) else None
        keys = keys if keys and len(keys) == len(children) else None
    names = []
    for i, child in enumerate(children):
        inner = leaf_names(child)
        for j, name in enumerate(inner):
            own = str(keys[i]) if keys else ""
            if own and not name and len(inner) > 1:
                name = str(j)
            names.append("_".join(part for part in (own, name) if part))
    return names


def place_of(node):
    """The line of the model, of the node's stack trace."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    found = [line for line in lines if line.startswith("File ")]
    return found[-1].removeprefix("File ").replace('"', "") if found else f"'{node.name}'"


def called(target):
    return f"aten.{target.__name__}" if "aten" in str(getattr(target, "namespace", "aten")) else str(target)


def conversions(prepared):
    """What the importer calls for each op: ours or its own, with a look at the type of what comes out."""
    defaults, held = {}, []

    def own(node, importer):
        if not defaults:
            defaults.update(importer.create_convert_map())
        return defaults[node.target.__name__](node)

    def convert(node, importer=None):
        held.extend([importer] if importer is not None else [])
        importer = held[0]  # within branches the importer does not name itself
        name = node.target.__name__
        try:
            if name == "getitem":
                made = part_of(node, importer)
            elif is_size(node) and (sum_of := expression(node.meta["val"], importer)) is not None:
                made = sum_of
            elif name in torch_ops.TABLE and hasattr(node.target, "_schema"):
                n = torch_ops.Node(node, importer)
                made = torch_ops.TABLE[name](n, n.given())
            else:
                made = own(node, importer)
            return checked(node, made, importer)
        except Error as error:
            raise Error(f"{called(node.target)} at {place_of(node)}: {error}", error.code) from None
        except Exception as error:
            said = str(error).strip().splitlines()
            raise refuse(
                f"{called(node.target)} at {place_of(node)} is not taken by TVM's importer: "
                f"{type(error).__name__}: {said[0] if said else ''}"
            ) from error

    known = set(relax_importer().create_convert_map()) | set(torch_ops.TABLE)
    report, names = Report(), set()
    for module in prepared.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if node.op != "call_function":
                continue
            name = node.target.__name__
            names.add(name)
            if name in torch_ops.REFUSED:
                report.add(f"{called(node.target)} {torch_ops.REFUSED[name]}, which is not supported", place_of(node))
            elif name not in known and not is_size(node):
                report.add(f"{called(node.target)} is not supported", place_of(node))
    report.check()
    return dict.fromkeys(names, convert)


def is_size(node):
    """Whether the node is arithmetic of sizes, which only the newest importer has."""
    return node.target.__module__ == "_operator" and isinstance(node.meta.get("val"), torch.SymInt)


def relax_importer():
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    return ExportedProgramImporter()


def part_of(node, importer):
    x, at = importer.env[node.args[0]], node.args[1]
    if isinstance(x, relax.Tuple):
        x = list(x.fields)
    if isinstance(x, (list, tuple)):
        if at >= len(x):
            raise refuse(f"result {at} of {called(node.args[0].target)} is not supported")
        return x[at]
    if isinstance(type_of(x), TupleType):
        return importer.block_builder.emit(relax.TupleGetItem(x, at))
    if at:  # the importer makes the first result alone
        raise refuse(f"result {at} of {called(node.args[0].target)} is not supported")
    return x


def checked(node, made, importer):
    """The importer's result, whose type must be PyTorch's; where Relax has forgotten a size, a match says it again."""
    wanted = node.meta.get("val")
    if not isinstance(wanted, torch.Tensor) or not isinstance(made, relax.Expr):
        return made
    made = made if isinstance(made, relax.Var) else importer.block_builder.emit(made)
    have = type_of(made)
    if not isinstance(have, TensorType):
        return made
    dtype = torch_ops.DTYPES.get(wanted.dtype, str(wanted.dtype))
    dims = list(have.shape.values) if isinstance(have.shape, relax.ShapeExpr) else None
    wrong = [a for a, b in zip(map(torch_ops.size, dims or ()), wanted.shape) if isinstance(a, int) and a != b]
    fixed = all(isinstance(d, int) for d in wanted.shape)
    if str(have.dtype) != dtype or have.ndim != wanted.ndim or wrong and fixed:
        raise refuse(f"it becomes {have} where PyTorch has {dtype} {list(wanted.shape)}, which is not supported")
    if fixed and dims is not None:
        return made
    sizes = [expression(d, importer) for d in wanted.shape]
    if any(one is None for one in sizes) or dims is not None and all(map(ANALYZER.can_prove_equal, dims, sizes)):
        return made
    return importer.block_builder.match_cast(made, TensorType(sizes, dtype))


def expression(dim, importer):
    """A dimension of PyTorch's in Relax's symbols, or None where it has others."""
    if isinstance(dim, int):
        return tirx.IntImm("int64", dim)
    symbols = {}
    for node, value in importer.env.items():
        if node.op != "placeholder":
            continue
        for one, own in zip(node.meta["val"].shape, type_of(value).shape.values):
            if isinstance(one, torch.SymInt) and one.node.expr.is_Symbol:
                symbols.setdefault(str(one.node.expr), own)

    def made(e):
        if e.is_Integer:
            return tirx.IntImm("int64", int(e))
        if e.is_Symbol:
            return symbols[str(e)]
        kind, parts = type(e).__name__, [made(part) for part in e.args]
        return functools.reduce(EXPRESSIONS[kind], parts)

    try:
        return made(dim.node.expr)
    except KeyError:
        return None
