"""What placements mean for the numbers: cuts tensors into the pieces of a mesh of devices and puts them together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise, product

import torch
from torch import Tensor

Coordinate = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    placement: str  # "R", "S(0)", "P(sum)"
    units: int
    even: bool

    @property
    def dim(self) -> int | None:
        return int(self.placement[2:-1]) if self.placement.startswith("S") else None


def piece_sizes(size: int, count: int) -> list[int]:
    """Sizes of torch.chunk's pieces, with the empty ones that it leaves out."""
    piece = -(-size // count)
    return [max(0, min(piece, size - i * piece)) for i in range(count)]


def shares(tensor: Tensor, count: int) -> list[Tensor]:
    """Random tensors that add up to this one."""
    if (tensor.dtype.is_floating_point and tensor.dtype.itemsize > 2) or tensor.dtype.is_complex:
        parts = [torch.randn(tensor.shape, dtype=tensor.dtype) for _ in range(count - 1)]
    else:
        parts = [torch.randint(-2, 3, tensor.shape).to(tensor.dtype) for _ in range(count - 1)]
    return [*parts, tensor - sum(parts)]


def cut(tensor: Tensor, placement: str, count: int) -> list[Tensor]:
    """The local tensors along one mesh dim. Pieces are dense and have the dims in the tensor's order."""
    if placement == "R":
        return [tensor] * count
    if placement == "P(sum)":
        return shares(tensor, count)
    dim = int(placement[2:-1])
    pieces = torch.split(tensor, piece_sizes(tensor.shape[dim], count), dim)
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    back = sorted(range(tensor.dim()), key=order.__getitem__)
    return [piece.permute(order).contiguous().permute(back) for piece in pieces]


def cut_on_mesh(tensor: Tensor, placements: list[str], mesh: Coordinate) -> dict[Coordinate, Tensor]:
    """The local tensor of every device; mesh dim 0 cuts first."""
    if not mesh:
        return {(): tensor}
    local: dict[Coordinate, Tensor] = {}
    for i, piece in enumerate(cut(tensor, placements[0], mesh[0])):
        for rest, inner in cut_on_mesh(piece, placements[1:], mesh[1:]).items():
            local[(i, *rest)] = inner
    return local


def rounding(computed_from: list[Tensor], results: list[Tensor]) -> float:
    """How far two results may differ: sums in another order round differently, relative to the largest summand."""
    single = any(tensor.dtype == torch.float32 for tensor in [*computed_from, *results])
    largest = 1.0
    for tensor in results:
        sizes = tensor.abs().double() if tensor.is_complex() else tensor.double().abs()
        finite = sizes[sizes.isfinite()]
        if finite.numel() > 0:
            largest = max(largest, float(finite.max()))
    return (1e-5 if single else 1e-9) * largest


def equal(left: Tensor, right: Tensor, tolerance: float = 1e-9) -> bool:
    """Up to rounding."""
    if left.shape != right.shape:
        return False
    if not left.dtype.is_complex:
        left, right = left.double(), right.double()
    return torch.allclose(left, right, rtol=0, atol=tolerance, equal_nan=True)


def join(pieces: list[Tensor], placement: str, tolerance: float = 1e-9) -> Tensor:
    """The tensor of which these are the local ones along one mesh dim."""
    if placement == "R":
        assert all(equal(a, b, tolerance) for a, b in pairwise(pieces)), "replicas differ"
        return pieces[0]
    if placement.startswith("S"):
        return torch.cat(pieces, int(placement[2:-1]))
    stack = torch.stack(pieces)
    if stack.dtype == torch.bfloat16:
        stack = stack.double()
    match placement:
        case "P(sum)":
            return stack.sum(0)
        case "P(avg)":
            return stack.mean(0)
        case "P(max)":
            return stack.amax(0)
        case "P(min)":
            return stack.amin(0)
    raise ValueError(placement)


def join_on_mesh(
    local: dict[Coordinate, Tensor], placements: list[str], mesh: Coordinate, tolerance: float = 1e-9
) -> Tensor:
    if not mesh:
        return local[()]
    pieces = []
    for i in range(mesh[0]):
        inner = {coordinate[1:]: piece for coordinate, piece in local.items() if coordinate[0] == i}
        pieces.append(join_on_mesh(inner, placements[1:], mesh[1:], tolerance))
    return join(pieces, placements[0], tolerance)


def local_shape(shape: list[int], placements: list[str], mesh: Coordinate, coordinate: Coordinate) -> list[int]:
    shape = list(shape)
    for placement, count, index in zip(placements, mesh, coordinate, strict=True):
        if placement.startswith("S"):
            dim = int(placement[2:-1])
            shape[dim] = piece_sizes(shape[dim], count)[index]
    return shape


def fits(tensor: Tensor, splits: list[Split], mesh: Coordinate) -> bool:
    """Whether the mesh leaves no device without a piece and keeps what the splits ask for (costs/strategy.h)."""
    placements = [split.placement for split in splits]
    for device in product(*map(range, mesh)) if tensor.numel() > 0 else ():
        if 0 in local_shape(list(tensor.shape), placements, mesh, device):
            return False
    for split in splits:
        if split.dim is None:
            continue
        count = math.prod(n for other, n in zip(splits, mesh, strict=True) if other.dim == split.dim)
        units = split.units or tensor.shape[split.dim]
        if units % count != 0 if split.even else units < count:
            return False
    return True
