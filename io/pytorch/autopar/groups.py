"""The process groups of a mesh, and what its ranks tell each other before they train."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from .errors import PlanError
from .plan import Plan
from .regions import FORWARD

# The same mesh has the same groups, so that the same plan gives the same program.
_groups: WeakKeyDictionary[DeviceMesh, dict[tuple[tuple[int, ...], bool], dist.ProcessGroup]] = WeakKeyDictionary()


class Groups:
    """Process groups over any mesh dims of a mesh, flattened. Made when first asked for, which all ranks must do alike.

    What runs ahead has groups of its own: the collectives of one group run one after the other, and those that are
    waited for shall not stand behind it.

    Not the mesh's own flattened dims: where a mesh has such, DTensor (2.13) gathers S(0)S(0) in one step that puts
    uneven pieces in the wrong places.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        self._mesh = mesh
        self._made = _groups.setdefault(mesh, {})

    def __call__(self, mesh_dims: tuple[int, ...], *, ahead: bool = False) -> dist.ProcessGroup:
        if len(mesh_dims) == 1 and not ahead:
            return self._mesh.get_group(mesh_dims[0])
        if (mesh_dims, ahead) not in self._made:
            others = [dim for dim in range(self._mesh.ndim) if dim not in mesh_dims]
            ranks = self._mesh.mesh.permute(*others, *mesh_dims).flatten(len(others))
            own = self._mesh.get_coordinate()
            assert own is not None
            for dim in others:
                ranks = ranks[own[dim]]
            group: dist.ProcessGroup = dist.new_group(ranks.tolist(), use_local_synchronization=True)
            self._made[mesh_dims, ahead] = group
        return self._made[mesh_dims, ahead]

    def name(self, mesh_dims: tuple[int, ...], *, ahead: bool) -> str:
        return self(mesh_dims, ahead=ahead).group_name

    def agree(self, work: Callable[[], Any]) -> Any:
        """Does the work on every rank; if it fails on one, all raise, so that none waits for it for ever."""
        failure: Exception | None = None
        result: Any = None
        try:
            result = work()
        except Exception as error:
            failure = error
        text = None if failure is None else "".join(traceback.format_exception_only(failure)).strip()
        told: list[str | None] = [None] * self._mesh.size()
        dist.all_gather_object(told, text, group=self._whole())
        if failure is not None:
            raise failure
        for rank, other in enumerate(told):
            if other is not None:
                raise PlanError(f"rank {rank} of the mesh failed: {other}")
        return result

    def of_first(self, value: Any) -> Any:
        """What the first rank of the mesh gives, on all ranks."""
        told = [value]
        group = self._whole()
        dist.broadcast_object_list(told, src=dist.get_global_rank(group, 0), group=group)
        return told[0]

    def _whole(self) -> dist.ProcessGroup:
        return self(tuple(range(self._mesh.ndim)))


def groups_ahead(plan: Plan) -> list[tuple[int, ...]]:
    """Sets of mesh dims over which something runs ahead, in an order that all ranks share."""
    return sorted(
        {
            entry.steps[entry.last_collective].mesh_dims
            for entry in plan.redistributions
            if entry.overlap is not None and entry.last_collective >= 0
        }
    )


def groups_of(plan: Plan) -> list[tuple[int, ...]]:
    """Sets of mesh dims over which something is communicated, in an order that all ranks share."""
    found = {step.mesh_dims for entry in plan.redistributions for step in entry.steps}
    found |= {collective.mesh_dims for node in plan.nodes.values() for collective in node.collectives}
    for node in plan.nodes.values():
        if node.op == FORWARD:
            for placed in node.inputs:
                cuts = [
                    (dim, one) for dim, one in enumerate(placed) if one.startswith("S") and plan.mesh_shape[dim] > 1
                ]
                found |= {tuple(dim for dim, other in cuts if other == one) for _, one in cuts}
    return sorted(found)
