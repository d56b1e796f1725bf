"""Small calls of the ops that the matmul, pointwise, view, reduction, structural and creation rules cover.

Sizes are multiples of 6 or 12 where pieces shall be even for 2, 3 and 4 devices, and odd elsewhere. Values are small
integers where the dtype is short, so that sums in any order are exact.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from attention_kernels import FORMULAS
from autopar.local_programs import bind
from torch import Tensor
from torch._decomp import decomposition_table

INF = math.inf
RANDOM = "bernoulli native_dropout normal_functional rand rand_like randn randn_like uniform".split()
END = 2**63 - 1


def overload(name: str) -> Any:
    """The op "aten.mm.default", or what torch computes it by where it has no kernel on the CPU."""
    namespace, packet, variant = name.split(".")
    op = getattr(getattr(getattr(torch.ops, namespace), packet), variant)
    if formula := FORMULAS.get(packet):
        return lambda *args, **kwargs: formula(bind(op._schema, args, kwargs))
    return decomposition_table[op] if packet == "_fused_rms_norm_backward" else op


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    op: str  # overload, such as "aten.mm.default"
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def random(self) -> bool:
        """Whether the outputs are drawn anew on every run."""
        return self.op.split(".")[1] in RANDOM

    @property
    def overload(self) -> Any:
        return overload(self.op)

    def run(self, args: Any = None, kwargs: Any = None) -> list[Any]:
        """Outputs of the op on these arguments, or on others in their place."""
        out = self.overload(*(self.args if args is None else args), **(self.kwargs if kwargs is None else kwargs))
        return list(out) if isinstance(out, (tuple, list)) else [out]


def call(op: str, *args: Any, **kwargs: Any) -> Call:
    if op.count(".") == 0:
        op += ".default"
    return Call(op="aten." + op if op.count(".") == 1 else op, args=args, kwargs=kwargs)


def words(text: str) -> list[str]:
    return text.split()


def real(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def positive(*shape: int) -> Tensor:
    return torch.rand(shape, dtype=torch.float64) + 0.1


def cplx(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.complex128)


def whole(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(1, 9, shape, dtype=dtype)


def truth(*shape: int) -> Tensor:
    return torch.rand(shape) > 0.5


def short(*shape: int) -> Tensor:
    return torch.randint(-1, 2, shape).to(torch.bfloat16)


def byte(*shape: int) -> Tensor:
    return short(*shape).to(torch.float8_e4m3fn)


def matmul() -> list[Call]:
    offsets = torch.tensor([16, 16, 48, 96], dtype=torch.int32)
    one = torch.tensor(1.0)
    bf16 = torch.bfloat16
    return [
        call("mm", real(12, 6), real(6, 24)),
        call("mm", real(7, 5), real(5, 9)),
        call("addmm", real(24), real(12, 6), real(6, 24)),
        call("addmm", real(12, 24), real(12, 6), real(6, 24), beta=2.0, alpha=0.5),
        call("addmm", real(12, 1), real(12, 6), real(6, 24)),
        call("addmm", real(1), real(12, 6), real(6, 24)),
        call("bmm", real(6, 12, 6), real(6, 6, 24)),
        call("baddbmm", real(6, 1, 24), real(6, 12, 6), real(6, 6, 24)),
        call("baddbmm", real(12, 24), real(6, 12, 6), real(6, 6, 24)),
        call("mv", real(12, 6), real(6)),
        call("addmv", real(12), real(12, 6), real(6)),
        call("addmv", real(1), real(12, 6), real(6)),
        call("dot", real(12), real(12)),
        call("vdot", cplx(12), cplx(12)),
        call("linear", real(6, 12, 6), real(24, 6), real(24)),
        call("linear", real(12, 6), real(24, 6)),
        call("_grouped_mm", short(96, 48), short(4, 48, 96), offsets),
        call("_grouped_mm", short(48, 96), short(96, 48), offsets),
        call("_grouped_mm", short(4, 48, 96), short(96, 96), offsets),
        call("_grouped_mm", short(4, 48, 96), short(4, 96, 48)),
        call("_scaled_mm", byte(48, 96), byte(96, 96).t(), one, one, out_dtype=bf16),
        call(
            "_scaled_mm", byte(48, 96), byte(192, 96).t(), torch.ones(48, 1) * 2, torch.ones(1, 192) / 2, out_dtype=bf16
        ),
    ]


def casts_and_copies() -> list[Call]:
    x = real(12, 6)
    to_copy = [
        call("_to_copy", x, dtype=torch.float32),
        call("_to_copy", x, dtype=torch.int64),
        call("_to_copy", whole(12, 6), dtype=torch.float64),
        call("_to_copy", truth(12, 6), dtype=torch.float64),
        call("_to_copy", whole(12, 6), dtype=torch.int32),
        call("_to_copy", whole(12, 6), dtype=torch.bool),
        call("prims.convert_element_type.default", x, torch.float32),
        call("prims.convert_element_type.default", x, torch.int64),
    ]
    of_complex = [call(name, cplx(12, 6)) for name in ("conj_physical", "_conj", "real", "imag", "angle")]
    copies = [call("clone", x), call("copy", x, real(6)), call("copy", whole(12, 6), x)]
    value = torch.tensor(2.5, dtype=torch.float64)
    return [*to_copy, *of_complex, *copies, call("fill.Tensor", x, value), call("fill.Tensor", whole(12, 6), value)]


def arithmetic() -> list[Call]:
    x, y = real(12, 6), real(12, 6)
    calls = [call(f"{name}.Scalar", x, 2.0) for name in ("add", "sub", "mul", "div", "rsub")]
    for name in ("add", "sub", "mul", "div"):
        calls += [
            call(f"{name}.Tensor", real(6, 1, 6), real(12, 1)),
            call(f"{name}.Tensor", x, 3.0),
            call(f"{name}.Tensor", x, y),
        ]
    return [
        *calls,
        call("rsub.Tensor", x, y),
        call("add.Tensor", x, y, alpha=3),
        call("add.Tensor", whole(12, 6), whole(6)),
        call("mul.Tensor", whole(12, 6), x),
        call("mul.Tensor", truth(12, 6), x),
        call("mul.Tensor", truth(12, 6), truth(12, 6)),
        call("div.Tensor", whole(12, 6), whole(12, 6)),
        call("div.Scalar", whole(12, 6), 2),
        call("div.Tensor_mode", x, y, rounding_mode="floor"),
        call("div.Scalar_mode", x, 2.0, rounding_mode="trunc"),
        call("lerp.Scalar", x, y, 0.3),
        call("lerp.Tensor", x, y, real(6)),
        call("addcmul", x, y, real(6), value=2),
        call("addcdiv", x, y, positive(6), value=2),
        call("complex", x, y),
        call("polar", positive(12, 6), y),
        call("pow.Tensor_Scalar", x, 1.0),
        call("pow.Tensor_Scalar", x, 2),
        call("pow.Tensor_Tensor", positive(12, 6), y),
        call("pow.Scalar", 2.0, x),
    ]


def choices() -> list[Call]:
    x, y = real(12, 6), real(12, 6)
    scalar = torch.tensor(2.0, dtype=torch.float64)
    return [
        call("masked_fill.Scalar", x, truth(6), 0),
        call("masked_fill.Scalar", x, truth(12, 1), 0.0),
        call("masked_fill.Scalar", x, truth(12, 6), -INF),
        call("masked_fill.Scalar", x, truth(12, 6), 1.5),
        call("masked_fill.Tensor", x, truth(12, 6), scalar),
        call("where.self", truth(12, 6), x, y),
        call("where.self", truth(12, 1), x, scalar),
        call("where.ScalarOther", truth(12, 6), x, 0),
        call("where.ScalarOther", truth(12, 6), x, 1.0),
        call("where.ScalarSelf", truth(12, 6), 0.0, x),
        call("where.ScalarSelf", truth(12, 6), 2.0, x),
        call("where.Scalar", truth(12, 6), 2.0, 1.0),
    ]


def activation_gradients() -> list[Call]:
    x, y = real(12, 6), real(12, 6)
    names = ("gelu", "hardsigmoid", "hardswish", "mish", "sigmoid", "silu", "tanh")
    return [
        *(call(f"{name}_backward", x, y) for name in names),
        call("threshold_backward", x, y, 0),
        call("hardtanh_backward", x, y, -1, 1),
        call("elu_backward", x, 1.0, 1.0, 1.0, False, y),
        call("leaky_relu_backward", x, y, 0.1, False),
        call("softplus_backward", x, y, 1, 20),
        call("hardshrink_backward", x, y, 0.5),
        call("softshrink_backward", x, y, 0.5),
        call("logit_backward", x, torch.rand(12, 6, dtype=torch.float64)),
        call("log_sigmoid_backward", x, y, torch.exp(-y.abs())),
        call("_prelu_kernel_backward", x, y, real(1, 6)),
    ]


def functions() -> list[Call]:
    """Pointwise functions that are not linear."""
    of_any = words("""abs asinh atan bitwise_not:int ceil celu cos cosh deg2rad elu erf erfc exp exp2 expm1 floor frac
        gelu hardshrink hardsigmoid hardswish hardtanh isfinite isinf isnan isneginf isposinf leaky_relu
        log_sigmoid_forward logical_not mish nan_to_num neg positive rad2deg relu relu6 round selu sgn sigmoid sign
        signbit silu sin sinc sinh softplus softshrink square tan tanh trunc""")
    of_positive = words("""acosh digamma i0 lgamma log log10 log1p log2 reciprocal rsqrt special_entr special_erfcx
        special_i0e special_i1 special_i1e special_log_ndtr sqrt acos asin atanh erfinv logit special_ndtri""")
    binary = words("""atan2 bitwise_and.Tensor:int bitwise_left_shift.Tensor:int bitwise_or.Tensor:int
        bitwise_right_shift.Tensor:int bitwise_xor.Tensor:int clamp.Tensor clamp_max.Tensor clamp_min.Tensor
        copysign.Tensor eq.Tensor floor_divide fmax fmin fmod.Tensor gcd:int ge.Tensor gt.Tensor heaviside hypot lcm:int
        le.Tensor logaddexp logaddexp2 logical_and logical_or logical_xor lt.Tensor maximum minimum ne.Tensor nextafter
        remainder.Tensor xlogy.Tensor _prelu_kernel""")
    with_number = words("""bitwise_and.Scalar:int bitwise_left_shift.Tensor_Scalar:int bitwise_or.Scalar:int
        bitwise_right_shift.Tensor_Scalar:int bitwise_xor.Scalar:int clamp clamp_max clamp_min copysign.Scalar eq.Scalar
        floor_divide.Scalar fmod.Scalar ge.Scalar gt.Scalar le.Scalar lt.Scalar ne.Scalar remainder.Scalar
        xlogy.Scalar_Other""")

    def first(name: str) -> tuple[str, Tensor]:
        return name.removesuffix(":int"), whole(12, 6) if name.endswith(":int") else real(12, 6)

    def second(name: str) -> Tensor:
        return whole(6) if name.endswith(":int") else positive(6)

    return [
        *(call(*first(name)) for name in of_any),
        *(call(name, torch.rand(12, 6, dtype=torch.float64) * 0.8 + 0.1) for name in of_positive),
        *(call(*first(name), second(name)) for name in binary),
        *(call(*first(name), 2) for name in with_number),
        call("round.decimals", real(12, 6), decimals=1),
        call("polygamma", 1, positive(12, 6)),
        call("threshold", real(12, 6), 0.1, 0.0),
        call("remainder.Scalar_Tensor", 2.0, positive(12, 6)),
        call("xlogy.Scalar_Self", 2.0, positive(12, 6)),
    ]


def reshapes() -> list[Call]:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((12, 6, 4), (72, 4)),
        ((72, 4), (12, 6, 4)),
        ((12, 24), (12, 6, 4)),
        ((12, 6, 4), (12, 24)),
        ((12, 8), (16, 6)),
        ((24, 6), (6, 24)),
        ((1, 12, 1, 6), (12, 6, 1)),
        ((12, 6), (1, 12, 6)),
        ((36, 4), (6, 6, 4)),
        ((6, 6, 1, 6), (216,)),
        ((9, 4), (12, 3)),
        ((5, 4), (20,)),
        ((12,), (12,)),
        ((1,), ()),
        ((3, 4, 5, 6), (12, 30)),
        ((2, 6, 12, 2), (12, 24)),
        ((12, 6), (6, 2, 6)),
        ((2, 3, 4, 6), (4, 3, 2, 6)),
    ]
    return [
        *(call("view", real(*old), list(new)) for old, new in shapes),
        call("_unsafe_view", real(6, 12, 4), [6, 48]),
        call("reshape", real(6, 4, 6), [24, 6]),
        call("flatten.using_ints", real(6, 4, 6), 0, 1),
        call("view.dtype", real(12, 6), torch.int64),
        call("view.dtype", real(12, 6), torch.float32),
        call("view.dtype", real(12, 6).float(), torch.float64),
        call("view_as_real", cplx(12, 6)),
        call("view_as_complex", real(12, 6, 2)),
        call("as_strided", real(12, 6), [12, 6], [6, 1]),
    ]


def dims_moved() -> list[Call]:
    return [
        call("alias", real(12, 6)),
        call("detach", real(12, 6)),
        call("t", real(12, 6)),
        call("t", real(12)),
        call("transpose.int", real(12, 6, 4), 0, -1),
        call("permute", real(12, 6, 4), [2, 0, 1]),
        call("permute", real(12, 6, 4, 6), [0, -1, 1, -2]),
        *(call("unsqueeze", real(12, 6), dim) for dim in (0, -1, -3)),
        call("squeeze", real(12, 1, 6)),
        call("squeeze", real(4, 1, 6, 2)),
        call("squeeze.dim", real(12, 1, 6), 1),
        call("squeeze.dim", real(12, 1, 6), 0),
        call("squeeze.dims", real(12, 1, 6, 1), [1, -1]),
        call("squeeze.dims", real(12, 1, 4), [1, 2]),
        call("expand", real(12, 1), [6, 12, 6]),
        call("expand", real(12, 1), [6, -1, 6]),
        call("expand", real(12, 6), [12, 6]),
        call("expand", real(), [6, 4]),
        call("diagonal", real(12, 6, 6), 0, 1, 2),
        call("diagonal", real(6, 6, 12), 1, 0, 1),
        call("unfold", real(12, 6), 0, 3, 2),
        call("unfold", real(6, 12), -1, 3, 3),
    ]


def parts() -> list[Call]:
    x = real(12, 6)
    slices = [
        (1, 2, END),
        (1, 0, END),
        (0, -12, 12),
        (0, 0, END, 2),
        (0, 1, END, 2),
        (0, 0, -2, 3),
        (0, -11, 12, 2),
        (0, 1, 11, 3),
        (0, 2, END, 2),
        (-1, 0, -1),
        (),
        (0, None, 6),
    ]
    return [
        *(call("slice.Tensor", x, *arguments) for arguments in slices),
        call("slice_backward", real(12, 4), [12, 6], 1, 2, END, 1),
        call("slice_backward", x, [12, 6], 1, 0, END, 1),
        call("slice_backward", real(6, 6), [12, 6], 0, 1, 12, 2),
        call("slice_scatter", x, real(6, 6), 0, 0, 6),
        call("select.int", real(12, 6, 4), 1, 0),
        call("select.int", real(12, 6, 4), -1, -1),
        call("select_backward", real(12, 4), [12, 6, 4], 1, 0),
        call("select_backward", x, [12, 6, 4], -1, -1),
        call("select_scatter", real(12, 6, 4), real(12, 4), 1, 2),
        call("unbind.int", real(6, 2, 4), 1),
        call("unbind.int", real(3, 12, 4)),
        call("split.Tensor", x, 2, 1),
        call("split.Tensor", x, 5),
        call("split_with_sizes", x, [2, 4], -1),
    ]


def structural() -> list[Call]:
    x, y = real(12, 6), real(12, 6)
    pads: list[tuple[list[int], float]] = [
        ([0, 1], 0.0),
        ([0, 1], -100.0),
        ([-1, 0], 0.0),
        ([0, 0, 0, 0], 5.0),
        ([0, 0, 2, 1], 0.0),
        ([-1, -1], 3.0),
    ]
    return [
        call("cat", [x, real(12, 4)], -1),
        call("cat", [x, real(6, 6)]),
        *(call("stack", [x, y], dim) for dim in (1, 0, -1)),
        *(call("constant_pad_nd", x, pad, value) for pad, value in pads),
        call("reflection_pad1d", real(6, 4, 12), [1, 1]),
        call("reflection_pad2d", real(6, 4, 12, 12), [1, 1, 0, 0]),
        call("reflection_pad3d", real(4, 6, 6, 6), [1, 1, 0, 0, 2, 1]),
        call("replication_pad1d", real(6, 4, 12), [0, 1]),
        call("replication_pad2d", real(4, 12, 12), [1, 1, 2, 0]),
        call("replication_pad3d", real(2, 4, 6, 6, 6), [1, 1, 1, 1, 1, 1]),
        call("flip", real(12, 6, 4), [-2]),
        call("flip", x, [0, 1]),
        call("roll", x, [1], [0]),
        call("roll", x, [1]),
        *(call("repeat", x, repeats) for repeats in ([2, 1, 3], [1, 1])),
        call("repeat", real(12, 1), [1, 6]),
        call("tril", real(6, 12, 12)),
        call("triu", real(12, 12), 1),
        call("tril", truth(12, 12)),
        call("glu", real(12, 6, 8), 1),
        call("glu", x),
        call("glu_backward", real(12, 3), x, 1),
    ]


def reductions() -> list[Call]:
    x = real(12, 6, 4)
    counts = torch.randint(-2, 3, (12, 6))
    calls = [
        call("sum", x),
        *(call("sum.dim_IntList", x, dims) for dims in ([0, -1], None, [])),
        call("sum.dim_IntList", x, [1], True),
        call("sum", truth(12, 6)),
        call("sum", whole(12, 6)),
        call("sum.dim_IntList", x, [0], dtype=torch.int64),
        call("sum.dim_IntList", x, [0], False, dtype=torch.float32),
        call("nansum", x, [1]),
        call("mean", x),
        *(call("mean.dim", x, dims, True) for dims in ([-1], [0, 1], [])),
        call("prod", x),
        call("prod.dim_int", x, 1),
        call("logsumexp", x, [0, 1], True),
        call("median.dim", x, 1),
        call("count_nonzero", counts),
        call("count_nonzero.dim_IntList", counts, [1]),
    ]
    for name in ("max", "min"):
        calls += [call(name, x), call(f"{name}.dim", x, 1), call(f"{name}.dim", x, -1, True)]
        calls += [call(f"a{name}", x, [1]), call(f"a{name}", x), call(f"a{name}", truth(12, 6), [1])]
        calls += [call(f"arg{name}", x), call(f"arg{name}", x, 1), call(f"arg{name}", x, -1, True)]
    for name in ("any", "all"):
        flags = truth(12, 6, 2)
        calls += [call(name, flags), call(f"{name}.dim", flags, 1), call(f"{name}.dims", flags, [0, 1], True)]
    for name in ("var", "std", "var_mean", "std_mean"):
        calls += [call(f"{name}.correction", x, [1], correction=1, keepdim=True), call(f"{name}.correction", x)]
    for order in (2, 1, 0, INF, -INF, 3):
        calls += [call("linalg_vector_norm", x, order, [1], True), call("linalg_vector_norm", x, order)]
    return [*calls, call("var.dim", x, [1], True, True), call("std.dim", x, [1], True, True)]


def creation() -> list[Call]:
    x = real(12, 6)
    return [
        *(call(name, [12, 6]) for name in ("zeros", "ones", "empty.memory_format")),
        *(call("full", [12, 6], value) for value in (0, 2.0)),
        *(call("scalar_tensor", value) for value in (0.0, 1.0)),
        call("arange", 12),
        call("arange.start", 1, 13),
        call("eye", 12),
        call("linspace", 0.0, 1.0, 12),
        *(call(name, x) for name in ("zeros_like", "ones_like", "empty_like")),
        *(call(name, x, value) for name in ("full_like", "fill.Scalar") for value in (0.0, 3.0)),
        *(call(name, x, [6, 12]) for name in ("new_zeros", "new_ones", "new_empty")),
        *(call("new_full", x, [6], value) for value in (0.0, 1.0)),
    ]


def ruled_ops() -> set[str]:
    """The ops that stand in the tables of costs/rules."""
    files = (Path(__file__).parents[2] / "costs" / "rules").glob("*.cpp")
    return {op for file in files for op in re.findall(r'\{"(aten\.[^"]+)"', file.read_text())}


# Ops that do what another one does, whose cases they share. (All `…_copy` ops are such.)
TWINS = {
    "aten._conj_physical.default": "aten._conj.default",
    "aten._reshape_copy.default": "aten.reshape.default",
    "aten.true_divide.Tensor": "aten.div.Tensor",
    "aten.unsafe_split.Tensor": "aten.split.Tensor",
    "aten.unsafe_split_with_sizes.default": "aten.split_with_sizes.default",
}


def twins(calls: list[Call]) -> list[Call]:
    found = []
    known = {one.op for one in calls}
    for op in sorted(ruled_ops() - known):
        base = TWINS.get(op, op.replace("_copy", ""))
        found += [replace(one, op=op) for one in calls if one.op == base]
    return found


def rare() -> list[Call]:
    return [
        call("_int_mm", torch.randint(-9, 9, (24, 16)).to(torch.int8), torch.randint(-9, 9, (16, 24)).to(torch.int8)),
        call("_neg_view", real(12, 6)),
        call("_reshape_alias", real(12, 6), [6, 2, 6], [12, 6, 1]),
        call("arange.start_step", 2, 26, 2),
        call("contiguous", real(12, 6)),
        call("empty_permuted", [12, 6], [1, 0]),
        call("empty_strided", [12, 6], [6, 1]),
        call("eye.m", 12, 6),
        call("lift_fresh_copy", real(12, 6)),
        call("logspace", 0, 2, 12),
        call("new_empty_strided", real(12), [12, 6], [6, 1]),
        call("tril_indices", 6, 6),
        call("triu_indices", 6, 6),
    ]


def all_calls() -> list[Call]:
    torch.manual_seed(0)
    families = (matmul, casts_and_copies, arithmetic, choices, activation_gradients, functions, reshapes, dims_moved)
    calls = [one for family in (*families, parts, structural, reductions, creation, rare) for one in family()]
    return [*calls, *twins(calls)]
