"""Nodes that need not run at their own turn: overlapped redistributions may want what they give earlier, or give what
they read later."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .again import is_view
from .errors import PlanError
from .model_file import refs_in
from .plan import Plan
from .random_numbers import is_random

Json = Mapping[str, Any]
CAST = "aten._to_copy.default"


def movable_ahead(document: Json) -> set[str]:
    """Nodes made of the model's tensors alone, such as casts of parameters, which can run at any time."""
    found = {entry["key"] for entry in document["inputs"] if entry["role"] in ("parameter", "buffer", "constant")}
    inputs = set(found)
    for node in document["nodes"]:
        args, kwargs = node["args"], node.get("kwargs", {})
        refs = {key for key, _ in refs_in([args, kwargs])}
        if refs and refs <= found and not is_random(node["op"], args, kwargs):
            found.add(node["key"])
    return found - inputs


def movable_back(document: Json) -> set[str]:
    """Views and casts in the backward that lead to gradients and to nothing else."""
    # What any other node reads of, or any other output.
    needed = {output["ref"] for output in document["outputs"] if output["role"] != "gradient"}
    found: set[str] = set()
    for node in reversed(document["nodes"]):
        is_pending = node["phase"] == "backward" and (node["op"] == CAST or is_view(node["op"]))
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
