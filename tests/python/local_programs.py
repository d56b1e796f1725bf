"""What one device runs for a node of a plan: the plain op, with literals that are sizes made local, or a local program.

Programs are those of docs/local-programs.md. Both are generators: they yield what has to be all-reduced along a mesh
dim and get the result back, so that the caller decides how devices talk.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import torch
from op_cases import bind, overload
from shards import Coordinate, local_shape, piece_sizes
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class AllReduce:
    tensor: Tensor
    reduce: str  # "sum" or "max"
    mesh_dim: int


Running = Generator[AllReduce, Tensor, list[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """One node on one device. Shapes are those of whole tensors, placements and programs one per mesh dim."""

    op: str
    mesh: Coordinate
    device: Coordinate
    programs: tuple[str, ...]
    shapes_in: list[list[int]]
    placed_in: list[list[str]]
    shapes_out: list[list[int]]
    placed_out: list[list[str]]

    def mesh_dims(self, program: str) -> list[int]:
        return [dim for dim, name in enumerate(self.programs) if name == program]

    def rows_of_input(self, index: int, dim: int) -> tuple[int, int]:
        return piece(self.shapes_in[index][dim], self.placed_in[index], dim, self.mesh, self.device)

    def rows_of_output(self, index: int, dim: int) -> tuple[int, int]:
        return piece(self.shapes_out[index][dim], self.placed_out[index], dim, self.mesh, self.device)

    def shape_out(self, index: int) -> list[int]:
        return local_shape(self.shapes_out[index], self.placed_out[index], self.mesh, self.device)

    def num_shards_in(self, index: int, dim: int) -> int:
        count = 1
        for placement, size in zip(self.placed_in[index], self.mesh, strict=True):
            count *= size if placement == f"S({dim})" else 1
        return count


def piece(size: int, placements: list[str], dim: int, mesh: Coordinate, device: Coordinate) -> tuple[int, int]:
    """Where a device's piece of a tensor dim begins, and its length."""
    begin = 0
    for placement, count, index in zip(placements, mesh, device, strict=True):
        if placement == f"S({dim})":
            sizes = piece_sizes(size, count)
            begin += sum(sizes[:index])
            size = sizes[index]
    return begin, size


def schema(name: str) -> Any:
    namespace, packet, variant = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), variant)._schema


def outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


# ---- plain ops: literals that are sizes of a whole tensor ----


# Name of the argument that holds the sizes of output 0.
SIZES = dict.fromkeys(("zeros", "ones", "full", "rand", "randn", "new_zeros", "new_ones", "new_full"), "size")
SIZES |= dict.fromkeys(("empty.memory_format", "new_empty", "view", "_unsafe_view", "expand"), "size")
SIZES |= {"reshape": "shape", "select_backward": "input_sizes", "slice_backward": "input_sizes"}


def localise_args(site: Site, bound: dict[str, Any]) -> dict[str, Any]:
    """The arguments with sizes of whole tensors replaced by those of the local ones."""
    name = site.op.removeprefix("aten.").removesuffix(".default")
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
    return outputs(overload(site.op)(**localise_args(site, bound)))


# ---- programs ----


def all_reduce(tensor: Tensor, reduce: str, mesh_dims: list[int]) -> Generator[AllReduce, Tensor, Tensor]:
    for mesh_dim in mesh_dims:
        tensor = yield AllReduce(tensor=tensor, reduce=reduce, mesh_dim=mesh_dim)
    return tensor


def embedding(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    begin, length = site.rows_of_input(0, 0)
    indices = bound["indices"] - begin
    foreign = (indices < 0) | (indices >= length)
    rows = overload(site.op)(bound["weight"], indices.masked_fill(foreign, 0))
    return [rows.masked_fill(foreign.unsqueeze(-1), 0)]


def embedding_backward(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    begin, length = site.rows_of_output(0, 0)
    indices = bound["indices"] - begin
    dropped = (indices < 0) | (indices >= length) | (bound["indices"] == bound["padding_idx"])
    # What falls outside goes to one more row behind.
    rows = overload(site.op)(
        bound["grad_output"], indices.masked_fill(dropped, length), length + 1, -1, bound["scale_grad_by_freq"]
    )
    return [rows[:length]]


def local_classes(bound: dict[str, Any], begin: int, length: int) -> dict[str, Any]:
    """Arguments of an nll_loss op for some of the classes: targets of others are ignored."""
    target = bound["target"] - begin
    foreign = (target < 0) | (target >= length) | (bound["target"] == bound["ignore_index"])
    weight = bound["weight"]
    return bound | {
        "target": target.masked_fill(foreign, -1),
        "ignore_index": -1,
        "weight": weight if weight is None else weight.narrow(0, begin, length),
    }


def nll_loss(site: Site, bound: dict[str, Any]) -> Running:
    class_dim = 1 if len(site.shapes_in[0]) > 1 else 0
    counted = bound["target"] != bound["ignore_index"]
    weights = counted.to(bound["self"].dtype)
    if bound["weight"] is not None:
        weights = weights * bound["weight"][bound["target"].masked_fill(~counted, 0)]
    total = yield from all_reduce(weights.sum(), "sum", site.mesh_dims("nll_loss_mean"))
    is_mean = bound["reduction"] == 1
    own = local_classes(bound, *site.rows_of_input(0, class_dim)) | {"reduction": 2 if is_mean else bound["reduction"]}
    loss, _ = overload(site.op)(**own)
    if bound["reduction"] == 0 and class_dim == 1:
        return [loss, torch.zeros_like(total)]  # torch counts a single row only
    return [loss / total if is_mean else loss, total]


def nll_loss_backward(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    class_dim = 1 if len(site.shapes_in[1]) > 1 else 0
    return [overload(site.op)(**local_classes(bound, *site.rows_of_input(1, class_dim)))]


def pair_loss_backward(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    summed = bound | {"reduction": 2, "grad_output": bound["grad_output"] / math.prod(site.shapes_in[1])}
    return [overload(site.op)(**summed)]


def softmax(site: Site, bound: dict[str, Any]) -> Running:
    logarithm = "log_softmax" in site.op
    mesh_dims = site.mesh_dims("log_softmax_sharded" if logarithm else "softmax_sharded")
    x, dim = bound["self"], bound["dim"]
    dtype = torch.float32 if bound["half_to_float"] else x.dtype
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    largest = yield from all_reduce(x.amax(dim, keepdim=True), "max", mesh_dims)
    shifted = x - largest
    total = yield from all_reduce(shifted.exp().sum(dim, keepdim=True), "sum", mesh_dims)
    return [(shifted - total.log() if logarithm else shifted.exp() / total).to(dtype)]


def softmax_backward(site: Site, bound: dict[str, Any]) -> Running:
    logarithm = "log_softmax" in site.op
    mesh_dims = site.mesh_dims("log_softmax_backward_sharded" if logarithm else "softmax_backward_sharded")
    grad, output = bound["grad_output"], bound["output"]
    if grad.dtype in (torch.float16, torch.bfloat16):
        grad, output = grad.float(), output.float()
    summand = grad if logarithm else grad * output
    total = yield from all_reduce(summand.sum(bound["dim"], keepdim=True), "sum", mesh_dims)
    result = grad - output.exp() * total if logarithm else (grad - total) * output
    return [result.to(bound["input_dtype"])]


def foreign_positions(bound: dict[str, Any], begin: int, length: int) -> tuple[Tensor, Tensor]:
    """The index counted from the local piece, 0 where it points to another one, and where that is."""
    index = bound["index"] - begin
    foreign = (index < 0) | (index >= length)
    return index.masked_fill(foreign, 0), foreign


def gather(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    index, foreign = foreign_positions(bound, *site.rows_of_input(0, bound["dim"] % len(site.shapes_in[0])))
    return [overload(site.op)(bound["self"], bound["dim"], index).masked_fill(foreign, 0)]


def scatter_add(site: Site, bound: dict[str, Any]) -> Running:
    yield from ()
    index, foreign = foreign_positions(bound, *site.rows_of_input(0, bound["dim"] % len(site.shapes_in[0])))
    source = bound["src"][tuple(slice(size) for size in index.shape)]  # what stands behind the index is not read
    return [overload(site.op)(bound["self"], bound["dim"], index, source.masked_fill(foreign, 0))]


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


def program_of(op: str, args: list[Any], kwargs: dict[str, Any], ins: list[str], outs: list[str]) -> str:
    """The program that runs along a mesh dim where inputs and outputs have these placements; "": the plain op. The
    arguments may be whole or local."""
    bound = bind(schema(op), args, kwargs)
    name = op.split(".")[1]
    backward = name.endswith(("_backward", "_backward_data"))
    program = {"_softmax_backward_data": "softmax_backward_sharded", "_softmax": "softmax_sharded"}
    program |= {"_log_softmax_backward_data": "log_softmax_backward_sharded", "_log_softmax": "log_softmax_sharded"}
    if name in program:
        rank = bound["output" if backward else "self"].dim()
        return program[name] if ins[0] == f"S({bound['dim'] % rank})" else ""
    if name.startswith(("nll_loss_", "nll_loss2d_")):
        scores = ins[1] if backward else ins[0]
        if scores == ("S(1)" if bound["self"].dim() > 1 else "S(0)"):
            return "nll_loss_backward_sharded" if backward else "nll_loss_sharded"
        return "nll_loss_mean" if not backward and bound["reduction"] == 1 and scores.startswith("S") else ""
    if name in ("mse_loss_backward", "huber_loss_backward", "smooth_l1_loss_backward"):
        return "pair_loss_backward_mean" if bound["reduction"] == 1 and ins[1].startswith("S") else ""
    if name in ("gather", "scatter_add"):
        along = f"S({bound['dim'] % bound['self'].dim()})"
        return f"{name}_masked" if ins[0] == along and ins[1] == "R" else ""
    if name == "embedding":
        return "embedding_masked" if ins[0] == "S(0)" else ""
    if name == "embedding_dense_backward":
        return "embedding_dense_backward_masked" if ins[0] == "R" and outs[0] == "S(0)" else ""
    grouped = name.startswith("native_group_norm") or (name.startswith("convolution") and bound["groups"] > 1)
    return f"{name}_local_groups" if grouped and ins[0] == "S(1)" else ""


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
