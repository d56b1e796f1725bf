"""Placements as text ("R", "S(0)", "P(sum)"), and what they make of a tensor's shape on one device.

Cuts are DTensor's: a shard on a mesh dim of n has pieces of ceil(size / n), the last ones shorter; where several mesh
dims cut one tensor dim, the first one cuts first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed.tensor.placement_types import Placement


def shard_dim(placement: str) -> int | None:
    return int(placement[2:-1]) if placement.startswith("S") else None


def is_partial(placement: str) -> bool:
    return placement.startswith("P")


def to_torch(placement: str) -> Placement:
    from torch.distributed.tensor.placement_types import Partial, Replicate, Shard

    dim = shard_dim(placement)
    if dim is not None:
        return Shard(dim)
    return Partial(placement[2:-1]) if is_partial(placement) else Replicate()


def to_text(placement: Placement) -> str:
    from torch.distributed.tensor.placement_types import Partial, Shard

    if isinstance(placement, Shard):
        return f"S({placement.dim})"
    return f"P({placement.reduce_op})" if isinstance(placement, Partial) else "R"


def piece_of(size: int, count: int, index: int) -> tuple[int, int]:
    """Where piece `index` of `count` begins, and its length."""
    length = -(-size // count)
    begin = min(index * length, size)
    return begin, min(length, size - begin)


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One device's place in the mesh."""

    mesh: tuple[int, ...]
    coordinate: tuple[int, ...]

    def canonical(self, placements: Sequence[str]) -> tuple[str, ...]:
        """On a mesh dim of one device all placements are the same."""
        return tuple("R" if size == 1 else one for one, size in zip(placements, self.mesh, strict=True))

    def piece(self, size: int, placements: Sequence[str], dim: int) -> tuple[int, int]:
        """Where this device's piece of tensor dim `dim` of `size` begins, and its length."""
        begin = 0
        for placement, count, index in zip(placements, self.mesh, self.coordinate, strict=True):
            if shard_dim(placement) == dim:
                first, size = piece_of(size, count, index)
                begin += first
        return begin, size

    def local_shape(self, shape: Sequence[int], placements: Sequence[str]) -> list[int]:
        return [self.piece(size, placements, dim)[1] for dim, size in enumerate(shape)]
