"""Ops with layouts: operands and results are transposed to those that the table's ops have, and back."""

import types

from tvm import relax

from .dialect import TensorType, type_of
from .dims import refuse, shape_of
from .ops import TABLE


class Attributes:
    """An op's attributes, with other layouts."""

    def __init__(self, attrs, layouts):
        self._attrs, self._layouts = attrs, layouts

    def __getattr__(self, name):
        return self._layouts[name] if name in self._layouts else getattr(self._attrs, name)


def axes_between(have, want):
    return [have.index(letter) for letter in want]


def permuted(t, axes):
    return TensorType([shape_of(t)[axis] for axis in axes], str(t.dtype))


def operand(f, e, have, want):
    """The expression, of layout `have`, as a variable of layout `want`."""
    if have == want:
        return e
    axes = axes_between(have, want)
    var = relax.Var("laid_out", permuted(type_of(e), axes))
    f.values[var] = f.op("transpose", f.value(e), axes=axes)
    return var


def laid_out(name, data, kernel=None):
    """Lets the op of that name, made for the layouts `data` and `kernel`, take any other order of their letters."""
    make, key = TABLE[name], "layout" if kernel is None else "data_layout"

    def made(f, e):
        a = e.attrs
        have = str(getattr(a, key)) or data
        out = str(getattr(a, "out_layout", "")) or have
        filters = kernel and (str(a.kernel_layout) or kernel)
        if (have, out, filters) == (data, data, kernel):
            return make(f, e)
        for layout, letters in ((have, data), (out, data), (filters, kernel)):
            if letters and sorted(layout) != sorted(letters):
                raise refuse(f"{name} of layout {layout} is not supported; orders of {letters} are")
        given = [operand(f, e.args[0], have, data), *e.args[1:]]
        if kernel:
            given[1] = operand(f, e.args[1], filters, kernel)
        t = permuted(type_of(e), axes_between(out, data))
        layouts = {key: data, "out_layout": data, "kernel_layout": kernel}
        call = types.SimpleNamespace(op=e.op, args=given, attrs=Attributes(a, layouts), ty=t, struct_info=t)
        result = make(f, call)
        return result if out == data else f.op("transpose", result, axes=axes_between(data, out))

    TABLE[name] = made


for rank in (1, 2, 3):
    space = "DHW"[3 - rank :]
    laid_out(f"nn.conv{rank}d", "NC" + space, "OI" + space)
    laid_out(f"nn.conv{rank}d_transpose", "NC" + space, "IO" + space)
    for kind in ("nn.max_pool", "nn.avg_pool", "nn.adaptive_avg_pool"):
        laid_out(f"{kind}{rank}d", "NC" + space)
for name, letters in (("resize2d", "NCHW"), ("resize3d", "NCDHW"), ("grid_sample", "NCHW")):
    laid_out("image." + name, letters)
