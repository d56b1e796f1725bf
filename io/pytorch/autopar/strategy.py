"""Strategies that model authors declare: for their own ops and for regions that they parallelise themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor.placement_types import Placement

from .errors import ExportError
from .placements import is_partial, to_text
from .plan import PLACEMENT

PlacementLike = str | Placement


@dataclass(frozen=True, kw_only=True, slots=True)
class Strategy:
    """A valid way to run an op or region on the devices along one mesh dim: if its tensor inputs have these placements,
    running it on the local pieces gives outputs with those. Placements are torch's or text: "R", "S(0)", "P(sum)".

    `even`: all pieces must have the same size. `mesh_dims`: names of the mesh dims along which it may be chosen; None:
    all. `input_grads` (regions only): placements of the gradients that the region's backward gives; the default is that
    of a region that does not communicate for them: S(d) for S(d), and R, unless some tensor is not R, then P(sum).
    """

    inputs: Sequence[PlacementLike]
    outputs: Sequence[PlacementLike]
    input_grads: Sequence[PlacementLike] | None = None
    even: bool = False
    mesh_dims: Sequence[str] | None = None

    def forward(self) -> dict[str, Any]:
        return self._entry(_texts(self.inputs), _texts(self.outputs))

    def backward(self, outputs: Sequence[int], inputs: Sequence[int]) -> dict[str, Any]:
        """Of the op that takes the gradients of these outputs and gives those of these inputs."""
        before, after = _texts(self.inputs), _texts(self.outputs)
        # A pending sum is the sum of what all devices hold, so each of these has the whole gradient.
        incoming = ["R" if is_partial(after[index]) else after[index] for index in outputs]
        if self.input_grads is not None:
            given = _texts(self.input_grads)
        else:
            moved = any(placement != "R" for placement in (*before, *after))
            given = ["P(sum)" if placement == "R" and moved else placement for placement in before]
        return self._entry(incoming, ["R" if is_partial(before[i]) else given[i] for i in inputs])

    def _entry(self, inputs: list[str], outputs: list[str]) -> dict[str, Any]:
        entry: dict[str, Any] = {"inputs": inputs, "outputs": outputs}
        if self.even:
            entry["even"] = True
        if self.mesh_dims is not None:
            entry["mesh_dims"] = list(self.mesh_dims)
        return entry


def placement_text(placement: PlacementLike) -> str:
    text = placement if isinstance(placement, str) else to_text(placement)
    if not PLACEMENT.fullmatch(text):
        raise ExportError(f"want a placement such as R, S(0) or P(sum), found {placement!r}")
    return text


def _texts(placements: Sequence[PlacementLike]) -> list[str]:
    return [placement_text(one) for one in placements]


Rule = Callable[..., Sequence[Strategy]]
_rules: dict[str, Rule] = {}


def register_rule(op: str | torch._ops.OpOverload) -> Callable[[Rule], Rule]:
    """Decorator: says how an op that autopar-search does not know can be sharded.

    The function is called, as the op is, with fake tensors of whole shapes, and gives strategies, one placement per
    tensor argument (lists flattened) and one per output. That all tensors are replicated is always possible and need
    not be listed. `op` is an overload or its name, such as "mylib.scale_rows.default"; its backward is an op of its
    own. The strategies travel in model.json.
    """
    name = str(op) if isinstance(op, torch._ops.OpOverload) else op
    if name.count(".") != 2:
        raise ExportError(f'{name}: want the name of an overload, such as "mylib.scale_rows.default"')

    def register(rule: Rule) -> Rule:
        _rules[name] = rule
        return rule

    return register


def has_rule(op: str) -> bool:
    return op in _rules


def declared_strategies(
    op: str, args: Sequence[Any], kwargs: Mapping[str, Any], num_inputs: int, num_outputs: int
) -> list[dict[str, Any]]:
    """What the rule registered for `op` gives on these arguments, the replicated strategy first."""
    replicated = Strategy(inputs=["R"] * num_inputs, outputs=["R"] * num_outputs).forward()
    entries = [replicated]
    for strategy in _rules[op](*args, **kwargs):
        check_counts(strategy, num_inputs, num_outputs, f"rule of {op}")
        entry = strategy.forward()
        if entry not in entries:
            entries.append(entry)
    return entries


def check_counts(strategy: Strategy, num_inputs: int, num_outputs: int, what: str) -> None:
    counts = [("inputs", strategy.inputs, num_inputs), ("outputs", strategy.outputs, num_outputs)]
    if strategy.input_grads is not None:
        counts.append(("input_grads", strategy.input_grads, num_inputs))
    for side, listed, wanted in counts:
        if len(listed) != wanted:
            raise ExportError(f"{what}: {strategy} has {len(listed)} {side}; want {wanted}")
