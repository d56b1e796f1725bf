"""What one device runs for a node of a plan: the plain op, with literals that are sizes made local, or a local program.

Programs are those of docs/local-programs.md. Both are generators: they yield what has to be all-reduced along a mesh
dim and get the result back, so that the caller decides how devices talk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .placements import Device


@dataclass(frozen=True, kw_only=True, slots=True)
class AllReduce:
    tensor: Tensor
    reduce: str  # "sum" or "max"
    mesh_dim: int


Running = Generator[AllReduce, Tensor, list[Any]]
HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """One node on one device. Shapes are those of whole tensors, placements and programs one per mesh dim."""

    op: str
    function: Callable[..., Any]  # runs the op
    device: Device
    programs: Sequence[str]
    shapes_in: Sequence[Sequence[int]]
    placed_in: Sequence[Sequence[str]]
    shapes_out: Sequence[Sequence[int]]
    placed_out: Sequence[Sequence[str]]

    def mesh_dims(self, program: str) -> list[int]:
        return [dim for dim, name in enumerate(self.programs) if name == program]

    def rows_of_input(self, index: int, dim: int) -> tuple[int, int]:
        """Where the device's piece of an input's dim begins, and its length."""
        return self.device.piece(self.shapes_in[index][dim], self.placed_in[index], dim)

    def rows_of_output(self, index: int, dim: int) -> tuple[int, int]:
        return self.device.piece(self.shapes_out[index][dim], self.placed_out[index], dim)

    def shape_out(self, index: int) -> list[int]:
        return self.device.local_shape(self.shapes_out[index], self.placed_out[index])

    def num_shards_in(self, index: int, dim: int) -> int:
        placed = zip(self.placed_in[index], self.device.mesh, strict=True)
        return math.prod(size for placement, size in placed if placement == f"S({dim})")


def schema(name: str) -> Any:
    return find_op(name)._schema


def find_op(name: str) -> Any:
    """The op "aten.mm.default"."""
    namespace, packet, variant = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), variant)


def bind(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name, defaults included."""
    bound = {}
    for position, argument in enumerate(schema.arguments):
        if position < len(args):
            bound[argument.name] = args[position]
        elif argument.name in kwargs:
            bound[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            bound[argument.name] = argument.default_value
    return bound


def outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


# ---- plain ops: literals that are sizes of a whole tensor ----


# Name of the argument that holds the sizes of output 0.
SIZES = dict.fromkeys(("zeros", "ones", "full", "rand", "randn", "new_zeros", "new_ones", "new_full"), "size")
SIZES |= dict.fromkeys(("empty.memory_format", "new_empty", "view", "_unsafe_view", "expand"), "size")
SIZES |= dict.fromkeys(("view_copy", "expand_copy", "_reshape_copy"), "size")
SIZES |= {"reshape": "shape", "select_backward": "input_sizes", "slice_backward": "input_sizes"}


def dense_strides(shape: list[int]) -> list[int]:
    return [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]


def localise_args(site: Site, bound: dict[str, Any]) -> dict[str, Any]:
    """The arguments with sizes of whole tensors replaced by those of the local ones."""
    name = site.op.removeprefix("aten.").removesuffix(".default")
    if name == "_reshape_alias":
        return {
            "self": bound["self"].contiguous(),
            "size": site.shape_out(0),
            "stride": dense_strides(site.shape_out(0)),
        }
    if name in SIZES:
        return bound | {SIZES[name]: site.shape_out(0)}
    if name == "convolution_backward" and bound["bias_sizes"]:
        return bound | {"bias_sizes": [bound["grad_output"].shape[1]]}
    if name in ("native_group_norm", "native_group_norm_backward"):
        batch, channels, *positions = bound["input"].shape
        return bound | {"N": batch, "C": channels, "HxW": int(torch.Size(positions).numel())}
    return bound


def plain(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    return outputs(site.function(**localise_args(site, bound)))


# ---- programs ----
# What they make themselves they change in place: logits and embeddings are large.


def all_reduce(tensor: Tensor, reduce: str, mesh_dims: list[int]) -> Generator[AllReduce, Tensor, Tensor]:
    for mesh_dim in mesh_dims:
        tensor = yield AllReduce(tensor=tensor, reduce=reduce, mesh_dim=mesh_dim)
    return tensor


def embedding(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    begin, length = site.rows_of_input(0, 0)
    indices = bound["indices"] - begin
    foreign = (indices < 0) | (indices >= length)
    rows = site.function(bound["weight"], indices.masked_fill_(foreign, 0))
    return [rows.masked_fill_(foreign.unsqueeze(-1), 0)]


def embedding_backward(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    begin, length = site.rows_of_output(0, 0)
    indices = bound["indices"] - begin
    dropped = (indices < 0) | (indices >= length) | (bound["indices"] == bound["padding_idx"])
    # What falls outside goes to one more row behind.
    rows = site.function(
        bound["grad_output"], indices.masked_fill_(dropped, length), length + 1, -1, bound["scale_grad_by_freq"]
    )
    return [rows[:length]]


def local_classes(bound: dict[str, Any], begin: int, length: int) -> dict[str, Any]:
    """Arguments of an nll_loss op for some of the classes: targets of others are ignored."""
    target = bound["target"] - begin
    foreign = (target < 0) | (target >= length) | (bound["target"] == bound["ignore_index"])
    weight = bound["weight"]
    return bound | {
        "target": target.masked_fill_(foreign, -1),
        "ignore_index": -1,
        "weight": weight if weight is None else weight.narrow(0, begin, length),
    }


def nll_loss(site: Site, bound: dict[str, Any]) -> Running:
    class_dim = 1 if len(site.shapes_in[0]) > 1 else 0
    counted = bound["target"] != bound["ignore_index"]
    dtype = bound["self"].dtype
    weights = counted.to(torch.float32 if dtype in HALVES else dtype)
    if bound["weight"] is not None:
        weights = weights * bound["weight"][bound["target"].masked_fill(~counted, 0)]
    total = yield from all_reduce(weights.sum(), "sum", site.mesh_dims("nll_loss_mean"))
    is_mean = bound["reduction"] == 1
    own = local_classes(bound, *site.rows_of_input(0, class_dim)) | {"reduction": 2 if is_mean else bound["reduction"]}
    loss, _ = site.function(**own)
    if bound["reduction"] == 0 and class_dim == 1:
        return [loss, torch.zeros_like(total, dtype=dtype)]  # torch counts a single row only
    return [(loss / total).to(dtype) if is_mean else loss, total.to(dtype)]


def nll_loss_backward(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    class_dim = 1 if len(site.shapes_in[1]) > 1 else 0
    return [site.function(**local_classes(bound, *site.rows_of_input(1, class_dim)))]


def pair_loss_backward(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    summed = bound | {"reduction": 2, "grad_output": bound["grad_output"] / math.prod(site.shapes_in[1])}
    return [site.function(**summed)]


def softmax(site: Site, bound: dict[str, Any]) -> Running:
    logarithm = "log_softmax" in site.op
    mesh_dims = site.mesh_dims("log_softmax_sharded" if logarithm else "softmax_sharded")
    x, dim = bound["self"], bound["dim"]
    dtype = torch.float32 if bound["half_to_float"] else x.dtype
    largest = x.amax(dim, keepdim=True)
    largest = yield from all_reduce(largest.float() if x.dtype in HALVES else largest, "max", mesh_dims)
    result = (x - largest).exp_()
    total = yield from all_reduce(result.sum(dim, keepdim=True), "sum", mesh_dims)
    if not logarithm:
        return [result.div_(total).to(dtype)]
    del result  # subtracted once more, as logits are large
    return [(x - largest).sub_(total.log()).to(dtype)]


def softmax_backward(site: Site, bound: dict[str, Any]) -> Running:
    logarithm = "log_softmax" in site.op
    mesh_dims = site.mesh_dims("log_softmax_backward_sharded" if logarithm else "softmax_backward_sharded")
    grad, output = bound["grad_output"], bound["output"]
    is_half = grad.dtype in HALVES
    if logarithm:
        summand = grad
    elif is_half:
        summand = grad.float().mul_(output)
    else:
        summand = grad * output
    total = summand.sum(bound["dim"], keepdim=True, dtype=torch.float32 if is_half else None)
    del summand
    total = yield from all_reduce(total, "sum", mesh_dims)
    if logarithm:
        result = output.float().exp_() if is_half else output.exp()
        result.mul_(-total).add_(grad)
    else:
        result = (grad - total).mul_(output)
    return [result.to(bound["input_dtype"])]


def foreign_positions(bound: dict[str, Any], begin: int, length: int) -> tuple[Tensor, Tensor]:
    """The index counted from the local piece, 0 where it points to another one, and where that is."""
    index = bound["index"] - begin
    foreign = (index < 0) | (index >= length)
    return index.masked_fill_(foreign, 0), foreign


def gather(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    index, foreign = foreign_positions(bound, *site.rows_of_input(0, bound["dim"] % len(site.shapes_in[0])))
    return [site.function(bound["self"], bound["dim"], index).masked_fill_(foreign, 0)]


def scatter_add(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    index, foreign = foreign_positions(bound, *site.rows_of_input(0, bound["dim"] % len(site.shapes_in[0])))
    source = bound["src"][tuple(slice(size) for size in index.shape)]  # what stands behind the index is not read
    return [site.function(bound["self"], bound["dim"], index, source.masked_fill(foreign, 0))]


def local_groups(site: Site, bound: dict[str, Any]) -> Running:
    backward = site.op.startswith(("aten.convolution_backward", "aten.native_group_norm_backward"))
    name = "group" if "group_norm" in site.op else "groups"
    shards = site.num_shards_in(1 if backward else 0, 1)
    return (yield from plain(site, bound | {name: bound[name] // shards}))


PROGRAMS = {
    "convolution_backward_local_groups": local_groups,
    "convolution_local_groups": local_groups,
    "embedding_dense_backward_masked": embedding_backward,
    "embedding_masked": embedding,
    "gather_masked": gather,
    "log_softmax_backward_sharded": softmax_backward,
    "log_softmax_sharded": softmax,
    "native_group_norm_backward_local_groups": local_groups,
    "native_group_norm_local_groups": local_groups,
    "nll_loss_backward_sharded": nll_loss_backward,
    "nll_loss_mean": nll_loss,
    "nll_loss_sharded": nll_loss,
    "pair_loss_backward_mean": pair_loss_backward,
    "scatter_add_masked": scatter_add,
    "softmax_backward_sharded": softmax_backward,
    "softmax_sharded": softmax,
}


def run_local(site: Site, args: list[Any], kwargs: dict[str, Any]) -> Running:
    """Outputs of the node on the local tensors `args` and `kwargs`."""
    bound = bind(schema(site.op), args, kwargs)
    # All programs of one op are one function, which asks the site along which mesh dims each of them runs.
    names = {name for name in site.programs if name}
    if not names:
        return (yield from plain(site, bound))
    functions = {PROGRAMS[name] for name in names}
    assert len(functions) == 1, f"programs that do not go together: {names}"
    return (yield from functions.pop()(site, bound))
