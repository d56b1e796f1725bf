"""The steps of a redistribution as functional collectives on one device's local tensors, at once or in three parts:
prepared, issued, and what comes waited for and received.

torch's collectives split and join along dim 0, so blocks are moved there and back. Pieces of unequal length are padded
to the longest, as DTensor does; costs/redistribute_hops.h prices the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from .placements import Device, is_partial, piece_of, shard_dim
from .plan import LOCAL_STEPS, Placements, Step

c10d = torch.ops._c10d_functional


class Groups(Protocol):
    """The name of the process group over some mesh dims, flattened; what runs ahead has one of its own."""

    def name(self, mesh_dims: tuple[int, ...], *, ahead: bool) -> str: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """A collective that can be issued: what is sent, padded and in the order that torch's ops want, and what makes the
    step's result of what comes. Those of one bucket can be issued in one call."""

    kind: str
    mesh_dims: tuple[int, ...]
    reduce: str  # "" if nothing is reduced
    sent: Tensor
    receive: Callable[[Tensor], Tensor]

    @property
    def bucket(self) -> tuple[Any, ...]:
        # There is no coalesced all-to-all.
        alone = id(self) if self.kind == "all_to_all" else None
        return self.kind, self.mesh_dims, self.reduce, self.sent.dtype, alone


class Collectives:
    """Runs on tensors with values, and on fake ones where a program is traced."""

    def __init__(self, device: Device, groups: Groups) -> None:
        self._device = device
        self._groups = groups

    def all_reduce(self, tensor: Tensor, reduce: str, mesh_dims: tuple[int, ...]) -> Tensor:
        """At once."""
        return tensor if self._count(mesh_dims) == 1 else self._at_once(self._all_reduce(tensor, reduce, mesh_dims))

    def run(self, step: Step, tensor: Tensor, shape: Sequence[int], source: Placements) -> Tensor:
        """At once. `tensor` is the local one of a tensor of whole shape `shape` with the placements `source`."""
        if step.kind not in LOCAL_STEPS:
            return self._at_once(self.prepare(step, tensor, shape, source))
        (mesh_dim,) = step.mesh_dims
        if step.kind == "slice":
            return self._slice(tensor, _cut(step.to[mesh_dim]), mesh_dim)
        return tensor if self._device.coordinate[mesh_dim] == 0 else torch.zeros_like(tensor)

    def prepare(self, step: Step, tensor: Tensor, shape: Sequence[int], source: Placements) -> Transfer:
        """For a step that is a collective; casts to the dtype on the wire and back."""
        dtype, wire = tensor.dtype, getattr(torch, step.dtype)
        transfer = self._collective(step, tensor.to(wire) if wire != dtype else tensor, shape, source)
        if wire == dtype:
            return transfer
        return replace(transfer, receive=lambda moved: transfer.receive(moved).to(dtype))

    def issue(self, transfers: Sequence[Transfer], *, ahead: bool) -> list[Tensor]:
        """What comes of transfers of one bucket, to be waited for; `ahead`: not at once."""
        kind, mesh_dims, reduce, *_ = transfers[0].bucket
        count, group = self._count(mesh_dims), self._groups.name(mesh_dims, ahead=ahead)
        # Process groups know no mean on every backend.
        known = "sum" if reduce == "avg" else reduce
        first, *others = sent = [one.sent for one in transfers]
        issued: list[Tensor]
        if kind == "all_to_all":
            sizes = [first.shape[0] // count] * count
            issued = [c10d.all_to_all_single(first, sizes, sizes, group)]
        elif kind == "all_gather":
            coalesced, single = c10d.all_gather_into_tensor_coalesced, c10d.all_gather_into_tensor
            issued = coalesced(sent, count, group) if others else [single(first, count, group)]
        elif kind == "reduce_scatter":
            coalesced, single = c10d.reduce_scatter_tensor_coalesced, c10d.reduce_scatter_tensor
            issued = coalesced(sent, known, count, group) if others else [single(first, known, count, group)]
        else:
            coalesced, single = c10d.all_reduce_coalesced, c10d.all_reduce
            issued = coalesced(sent, known, group) if others else [single(first, known, group)]
        return issued

    def _at_once(self, transfer: Transfer) -> Tensor:
        (pending,) = self.issue([transfer], ahead=False)
        return transfer.receive(wait(pending))

    def _collective(self, step: Step, tensor: Tensor, shape: Sequence[int], source: Placements) -> Transfer:
        first = step.mesh_dims[0]
        if step.kind == "all_reduce":
            return self._all_reduce(tensor, _reduction(source[first]), step.mesh_dims)
        if step.kind == "reduce_scatter":
            return self._reduce_scatter(tensor, _reduction(source[first]), shape, step)
        # Bools travel as bytes: not every backend has them.
        bits = tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor
        make = self._all_gather if step.kind == "all_gather" else self._all_to_all
        transfer = make(bits, shape, source, step)
        if tensor.dtype != torch.bool:
            return transfer
        return replace(transfer, receive=lambda moved: transfer.receive(moved).view(torch.bool))

    def _count(self, mesh_dims: tuple[int, ...]) -> int:
        return math.prod(self._device.mesh[dim] for dim in mesh_dims)

    def _slice(self, tensor: Tensor, dim: int, mesh_dim: int) -> Tensor:
        piece = piece_of(tensor.shape[dim], self._device.mesh[mesh_dim], self._device.coordinate[mesh_dim])
        # A view would keep the whole tensor alive.
        return tensor.narrow(dim, *piece).clone(memory_format=torch.contiguous_format)

    def _all_reduce(self, tensor: Tensor, reduce: str, mesh_dims: tuple[int, ...]) -> Transfer:
        count = self._count(mesh_dims)
        return Transfer(
            kind="all_reduce",
            mesh_dims=mesh_dims,
            reduce=reduce,
            sent=tensor.contiguous(),
            receive=lambda result: result / count if reduce == "avg" else result,
        )

    def _all_gather(self, tensor: Tensor, shape: Sequence[int], source: Placements, step: Step) -> Transfer:
        """Cuts of several mesh dims may be of several tensor dims; then, or nested, they are even."""
        after = self._device.local_shape(shape, step.to)
        if len(step.mesh_dims) == 1:
            dim = _cut(source[step.mesh_dims[0]])
            tensor = _pad(tensor, dim, -(-after[dim] // self._count(step.mesh_dims)))
        sizes = [self._device.mesh[dim] for dim in step.mesh_dims]
        cuts = [_cut(source[dim]) for dim in step.mesh_dims]
        blocks_shape = [*sizes, *tensor.shape]
        return Transfer(
            kind="all_gather",
            mesh_dims=step.mesh_dims,
            reduce="",
            sent=tensor.contiguous(),
            receive=lambda joined: _trim(_join_blocks(joined.view(blocks_shape), cuts), after),
        )

    def _reduce_scatter(self, tensor: Tensor, reduce: str, shape: Sequence[int], step: Step) -> Transfer:
        sizes = [self._device.mesh[dim] for dim in step.mesh_dims]
        cuts = [_cut(step.to[dim]) for dim in step.mesh_dims]
        count = self._count(step.mesh_dims)
        if len(sizes) == 1:
            tensor = _pad(tensor, cuts[0], -(-tensor.shape[cuts[0]] // count) * count)
        blocks = _split_blocks(tensor, sizes, cuts)
        flat = blocks.reshape(count * blocks.shape[len(sizes)], *blocks.shape[len(sizes) + 1 :])
        after = self._device.local_shape(shape, step.to)
        return Transfer(
            kind="reduce_scatter",
            mesh_dims=step.mesh_dims,
            reduce=reduce,
            sent=flat.contiguous(),
            receive=lambda own: _trim(own / count if reduce == "avg" else own, after),
        )

    def _all_to_all(self, tensor: Tensor, shape: Sequence[int], source: Placements, step: Step) -> Transfer:
        """From cuts of one tensor dim to cuts of another; on several mesh dims both are even."""
        old, new = _cut(source[step.mesh_dims[0]]), _cut(step.to[step.mesh_dims[0]])
        after = self._device.local_shape(shape, step.to)
        count = self._count(step.mesh_dims)
        tensor = _pad(tensor, old, -(-after[old] // count))
        tensor = _pad(tensor, new, -(-tensor.shape[new] // count) * count)
        blocks = _split_blocks(tensor, [count], [new]).contiguous()
        blocks_shape = list(blocks.shape)
        return Transfer(
            kind="all_to_all",
            mesh_dims=step.mesh_dims,
            reduce="",
            sent=blocks.view(count * blocks_shape[1], *blocks_shape[2:]) if blocks.dim() > 1 else blocks,
            receive=lambda moved: _trim(_join_blocks(moved.view(blocks_shape), [old]), after),
        )


def wait(pending: Tensor) -> Tensor:
    result: Tensor = c10d.wait_tensor(pending)
    return result


def _cut(placement: str) -> int:
    dim = shard_dim(placement)
    assert dim is not None, placement
    return dim


def _reduction(placement: str) -> str:
    assert is_partial(placement), placement
    return placement[2:-1]


def _pad(tensor: Tensor, dim: int, size: int) -> Tensor:
    missing = size - tensor.shape[dim]
    if missing == 0:
        return tensor
    return torch.constant_pad_nd(tensor, [0, 0] * (tensor.dim() - 1 - dim) + [0, missing])


def _trim(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    for dim, size in enumerate(shape):
        if tensor.shape[dim] != size:
            tensor = tensor.narrow(dim, 0, size)
    # Not a view into the padded buffer, unless it is the beginning of it.
    return tensor.contiguous()


def _split_blocks(tensor: Tensor, sizes: Sequence[int], cuts: Sequence[int]) -> Tensor:
    """Tensor dim `cuts[i]` cut in `sizes[i]` blocks, for all i; of one dim, the earlier cuts are the outer ones. Gives
    the block dims first."""
    shape: list[int] = []
    order: list[int] = []  # of the block dims
    rest: list[int] = []
    for dim, size in enumerate(tensor.shape):
        own = [i for i, cut in enumerate(cuts) if cut == dim]
        order += own
        shape += [sizes[i] for i in own]
        rest.append(len(shape))
        shape.append(size // math.prod(sizes[i] for i in own))
    block_dims = [position for position in range(len(shape)) if position not in rest]
    first = [block_dims[order.index(i)] for i in range(len(cuts))]
    return tensor.reshape(shape).permute([*first, *rest])


def _join_blocks(blocks: Tensor, cuts: Sequence[int]) -> Tensor:
    """The inverse of _split_blocks."""
    num_cuts = len(cuts)
    order: list[int] = []
    shape: list[int] = []
    for dim, size in enumerate(blocks.shape[num_cuts:]):
        own = [i for i, cut in enumerate(cuts) if cut == dim]
        order += [*own, num_cuts + dim]
        shape.append(size * math.prod(blocks.shape[i] for i in own))
    return blocks.permute(order).reshape(shape)
