"""Nodes that need not run at their own turn: overlapped redistributions may want what they give earlier, or give what
they read later."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .again import is_view
from .errors import PlanError
from .model_file import refs_in
from .plan import Plan

Json = Mapping[str, Any]


def is_cast_or_view(op: str) -> bool:
    return op == "aten._to_copy.default" or is_view(op)


def movable_ahead(document: Json) -> set[str]:
    """Casts and views of the graph's inputs, such as parameters, which can run at any time."""
    inputs = {entry["key"] for entry in document["inputs"] if entry["role"] != "tangent"}
    found: set[str] = set()
    for node in document["nodes"]:
        refs = {key for key, _ in refs_in([node["args"], node.get("kwargs", {})])}
        if is_cast_or_view(node["op"]) and refs <= inputs | found:
            found.add(node["key"])
    return found


def movable_back(document: Json) -> set[str]:
    """Views and casts in the backward that lead to gradients and to nothing else."""
    # What any other node reads of, or any other output.
    needed = {output["ref"] for output in document["outputs"] if output["role"] != "gradient"}
    found: set[str] = set()
    for node in reversed(document["nodes"]):
        is_pending = node["phase"] == "backward" and is_cast_or_view(node["op"])
        if is_pending and node["key"] not in needed:
            found.add(node["key"])
        else:
            needed |= {key for key, _ in refs_in([node["args"], node.get("kwargs", {})])}
    return found


def check_starts(plan: Plan, back: Collection[str]) -> None:
    """Readers may stand before the start of what they read only if they can wait, as those of `back` can."""
    turns = {key: turn for turn, key in enumerate(plan.nodes)}
    for index, entry in enumerate(plan.redistributions):
        if entry.overlap is None:
            continue
        for reader, _ in entry.uses:
            if reader not in back and turns.get(reader, len(turns)) < turns[entry.overlap.start]:
                raise PlanError(
                    f"{plan.source}: redistributions[{index}].start: want no node behind {reader}, which reads its "
                    f"result; found {entry.overlap.start}"
                )
