"""Views that the backward pass makes again for itself.

Autograd saves what the backward pass reads, and often that is a view: a weight's transpose, one of three reshapes of
the same activation. In a plan that would be a tensor of its own, gathered, saved and freed as one. Made again from the
tensor that it is a view of, it costs nothing, and what is kept from forward to backward are tensors with storage of
their own: a gathered weight is not held by its transpose, and an activation that three ops read is kept once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .local_programs import find_op
from .model_file import refs_in

Json = dict[str, Any]
AGAIN = "/again"  # behind the key of the view
# Views that the schema calls new tensors.
UNMARKED_VIEWS = ("aten._unsafe_view.default", "aten.reshape.default")


def repeat_views(nodes: Sequence[Json]) -> list[Json]:
    """`nodes` of model.json with, before their first reader in the backward pass, the views that it reads."""
    views = {node["key"]: node for node in nodes if node["phase"] == "forward" and _is_view(node["op"])}
    result: list[Json] = []
    made: set[str] = set()

    def make(key: str) -> None:
        if key in made:
            return
        made.add(key)
        result.append({**repeated(views[key]), "key": key + AGAIN, "phase": "backward"})

    def repeated(node: Json) -> Json:
        for key, _ in refs_in([node["args"], node.get("kwargs", {})]):
            if key in views:
                make(key)
        return {part: _renamed(value) if part in ("args", "kwargs") else value for part, value in node.items()}

    def _renamed(value: Any) -> Any:
        if isinstance(value, list):
            return [_renamed(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {**value, "ref": value["ref"] + AGAIN} if value.get("ref") in views else value

    for node in nodes:
        result.append(repeated(node) if node["phase"] == "backward" else node)
    return result


def _is_view(op: str) -> bool:
    if op in UNMARKED_VIEWS:
        return True
    function = find_op(op) if op.startswith(("aten.", "prims.")) else None
    return isinstance(function, torch._ops.OpOverload) and function.is_view
