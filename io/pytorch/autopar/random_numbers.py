"""Nodes that draw random numbers: devices with different pieces of the output draw different ones, those with the same
piece the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._prims.rng_prims import run_with_rng_state

from .errors import PlanError
from .local_programs import bind, find_op
from .placements import Device, is_partial
from .plan import Plan

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class RandomNode:
    """Devices with the same `stream` draw the same numbers."""

    key: str
    stream: int


def random_nodes(nodes: Sequence[Json], plan: Plan, device: Device) -> list[RandomNode]:
    return [
        RandomNode(key=node["key"], stream=_stream(node["key"], plan, device))
        for node in nodes
        if is_random(node["op"], node["args"], node.get("kwargs", {}))
    ]


def _stream(key: str, plan: Plan, device: Device) -> int:
    stream = 0
    for mesh_dim, (size, index) in enumerate(zip(device.mesh, device.coordinate, strict=True)):
        placed = [one[mesh_dim] for one in plan.nodes[key].outputs if one is not None]
        if any(is_partial(one) for one in placed):
            raise PlanError(f"{plan.source}: nodes.{key}: random numbers cannot be a pending sum")
        whole = all(one == "R" for one in placed)
        stream = stream * size + (0 if whole else index)
    return stream


def with_own_numbers(state: Tensor, function: Any) -> Callable[..., Any]:
    """`function`, an op, called by names only, as it runs with this state of the generator."""

    def draw(**bound: Any) -> Any:
        # It looks for the device among what is given by position.
        names = [argument.name for argument in function._schema.arguments if not argument.kwarg_only]
        args = [bound.pop(name) for name in names]
        return run_with_rng_state(state, function, *args, **bound)

    return draw


def is_random(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    if op.startswith("autopar."):
        return False
    function = find_op(op)
    if torch.Tag.nondeterministic_seeded not in function.tags:
        return False
    return bool(bind(function._schema, args, dict(kwargs)).get("dropout_p", 1) != 0)
