"""What TVM's versions call one thing, under 0.27's names. A version's number chooses, since names move between meanings.

0.25 has struct info for types, wraps the numbers among operands, and says buffers by a map beside a PrimFunc's
parameters; 0.26 is 0.27 but for constants and calls of kernels.
"""

import types

import tvm
import tvm_ffi
from tvm import relax, tirx

VERSION = tuple(map(int, tvm.__version__.split(".")[:2]))

if VERSION < (0, 26):
    TensorType, TupleType, ShapeType = relax.TensorStructInfo, relax.TupleStructInfo, relax.ShapeStructInfo
    AnyType, PrimType, Number = relax.ObjectStructInfo, relax.PrimStructInfo, tvm.ir.PrimExpr
    set_type = relax.expr._update_struct_info

    def type_of(e):
        return PrimType(e.dtype) if isinstance(e, Number) else e.struct_info

    def result_type(function):
        return function.ret_struct_info

    def name_of(var):
        return var.name if isinstance(var, tirx.Var) else var.name_hint

    def type_args(call):
        return call.sinfo_args

    def call(op, args, t, given=None):
        made = relax.Call(op, args, None, given)
        set_type(made, t)
        return made

    def bare(e):
        """A number among operands as the number that it is."""
        return e.value if isinstance(e, relax.PrimValue) else e

    def plain(call):
        """A call whose operands that are numbers are bare."""
        return types.SimpleNamespace(
            op=call.op,
            args=[bare(one) for one in call.args],
            attrs=call.attrs,
            sinfo_args=call.sinfo_args,
            struct_info=call.struct_info_,
            span=call.span,
        )

    def number(e):
        """A number as an operand."""
        return relax.PrimValue(e)

    def packed(name, args, t):
        """A call of a packed function without effects."""
        return relax.op.call_pure_packed(name, *args, sinfo_args=t)

else:
    TensorType, TupleType, ShapeType = relax.TensorType, relax.TupleType, relax.ShapeType
    AnyType, PrimType, Number = relax.AnyType, tvm.ir.PrimType, tvm.ir.Expr
    set_type = relax.expr._update_type

    def type_of(e):
        return e.ty

    def result_type(function):
        return function.ret_ty

    def name_of(var):
        return var.name

    def type_args(call):
        return call.ty_args

    def call(op, args, t, given=None):
        return tvm.ir.Call(op, args, None, given, None, t)

    def bare(e):
        return e

    def packed(name, args, t):
        return relax.op.call_pure_packed(name, *args, ty_args=t)

    number = plain = bare

if VERSION < (0, 27):
    Constant, StringImm = (relax.Constant, relax.DataTypeImm), relax.StringImm
    dtype_constant = relax.DataTypeImm

    def content(constant):
        return constant.data if isinstance(constant, relax.Constant) else constant.value

else:
    Constant, StringImm = tvm.ir.GenericConst, tvm.ir.StringImm

    def content(constant):
        return constant.value

    def dtype_constant(name):
        return tvm.ir.GenericConst(tvm.DataType(name), AnyType())


def is_typed(e):
    if VERSION < (0, 26):
        return e.struct_info_ is not None
    return e.ty is not None and not tvm.ir.Type.is_missing(e.ty)


def with_span(e, span):
    """A call as one of a script's file, line and column; what is none stays."""
    if not isinstance(e, relax.Call):
        return e
    file, line, column = span
    at = tvm.ir.Span(tvm.ir.SourceName(file), line, line, column, column)
    made = relax.Call(e.op, e.args, e.attrs, type_args(e), at)
    if is_typed(e):
        set_type(made, type_of(e))
    return made


# --- TIR ---


def buffer_type(buffer):
    """What has the dimensions, `shape`, and the dtype of a buffer."""
    return buffer if VERSION < (0, 26) else buffer.ty


def buffer_of(function, param):
    """The buffer that a PrimFunc's parameter is; None of a number."""
    if VERSION < (0, 26):
        return function.buffer_map.get(param)
    return param if getattr(param.ty, "shape", None) is not None else None


def pointer(buffer):
    """What stands for a buffer's memory: equal for two buffers of one."""
    return buffer.data if VERSION < (0, 26) else buffer


def declared_over(declaration):
    """The pointer that a declaration gives a buffer; of 0.25 the buffer has it itself."""
    return declaration.buffer.data if VERSION < (0, 26) else declaration.data


def scalar_dtype(var):
    return str(var.dtype if VERSION < (0, 26) else var.ty.dtype)


def is_pointer(e):
    if VERSION < (0, 26):
        return scalar_dtype(e) == "handle"
    is_data = type(e).__name__ == "Call" and getattr(e.op, "name", "") == "tirx.buffer_data"
    return is_data or "Pointer" in type(e.ty).__name__


def walk(node, visit):
    if VERSION < (0, 26):
        tirx.stmt_functor.post_order_visit(node, visit)
    else:
        tvm_ffi.structural_walk(node, visit)


def substitute(e, values):
    """An expression of sizes with variables' values in their places."""
    if not values:
        return e
    if VERSION < (0, 27):
        return tirx.stmt_functor.substitute(e, values)
    return tvm_ffi.structural_map(e, (tirx.Var, lambda v: values.get(v, v)))


def kernel_call(s, functions):
    """(name, arguments, axes of the launch) of a statement that launches one of `functions`; None of another."""
    called = s.value
    name = getattr(getattr(called, "op", None), "name", "")
    if VERSION < (0, 27) and name == "tirx.tvm_call_packed" and str(called.args[0].value) in functions:
        device = functions[str(called.args[0].value)]
        axes = device.attrs["tirx.kernel_launch_params"]
    elif name == "tirx.call_ffi_kernel":
        axes = called.attrs.launch_params
    else:
        return None
    return str(called.args[0].value), list(called.args)[1:], [str(axis) for axis in axes]
