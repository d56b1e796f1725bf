"""What runs while a module trains by a plan: its collectives, and the memory of its parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import autopar
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.distributed_c10d import _resolve_process_group  # type: ignore[attr-defined]
from torch.utils._python_dispatch import TorchDispatchMode

# (kind, mesh dims, bytes of the larger side, dtype)
Collective = tuple[str, tuple[str, ...], int, str]
KINDS = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_to_all_single": "all_to_all",
}


class Recorder(TorchDispatchMode):
    """Counts the functional collectives that run inside it."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: Counter[Collective] = Counter()
        self._mesh = mesh

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if function.namespace == "_c10d_functional" and "wait" not in function._opname:
            kind, mesh_dims = KINDS[function._opname.removesuffix("_coalesced")], self._dims_of(args[-1])
            is_bucket = function._opname.endswith("_coalesced")
            for member in zip(args[0], result, strict=True) if is_bucket else [(args[0], result)]:
                size = max(tensor.numel() * tensor.element_size() for tensor in member)
                self.found[(kind, mesh_dims, size, str(member[1].dtype).removeprefix("torch."))] += 1
        return result

    def _dims_of(self, group_name: Any) -> tuple[str, ...]:
        """The mesh dims over which a group of this rank goes."""
        ranks = dist.get_process_group_ranks(_resolve_process_group(group_name))
        places = [(self._mesh.mesh == rank).nonzero()[0].tolist() for rank in ranks]
        assert self._mesh.mesh_dim_names is not None
        return tuple(
            name for dim, name in enumerate(self._mesh.mesh_dim_names) if len({place[dim] for place in places}) > 1
        )


def planned(plan: autopar.Plan, phase: str) -> Counter[Collective]:
    """The collectives that a plan lists for one phase."""
    names = plan.mesh_dim_names
    found: Counter[Collective] = Counter()

    def add(kind: str, mesh_dims: tuple[int, ...], size: int, dtype: str) -> None:
        # Bools travel as bytes.
        found[(kind, tuple(names[dim] for dim in mesh_dims), size, "uint8" if dtype == "bool" else dtype)] += 1

    for entry in plan.redistributions:
        for step in entry.steps:
            if entry.phase == phase and step.kind not in ("slice", "zero"):
                add(step.kind, step.mesh_dims, step.bytes, step.dtype)
    for key, node in plan.nodes.items():
        if ("backward" if "/b/" in key else "forward") == phase:
            for one in node.collectives:
                add("all_reduce", one.mesh_dims, one.bytes, one.dtype)
    return found


def bytes_of(tensors: list[Tensor]) -> int:
    """Of the distinct storages behind local tensors, as an allocator counts them."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


def tracked_bytes(parallel: torch.nn.Module, optimizer: torch.optim.Optimizer, args: Any) -> dict[str, int]:
    """What torch's memory tracker counts after a step, by kind."""
    from torch.distributed._tools.mem_tracker import MemTracker, _MemRefType

    tracker = MemTracker()
    tracker.track_external(parallel, optimizer)
    with tracker:
        parallel(*args).backward()
        optimizer.step()
        snapshot = tracker.get_tracker_snapshot("current")
    totals: Counter[str] = Counter()
    for kinds in snapshot.values():
        for kind in (_MemRefType.PARAM, _MemRefType.GRAD, _MemRefType.OPT):
            totals[kind.name] += kinds.get(kind, 0)
    return dict(totals)
