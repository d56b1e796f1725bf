"""Nodes of the forward pass that run again in the backward pass, so that what they give need not be kept until then.

Views always do. Autograd saves what the backward pass reads, and often that is a view: a weight's transpose, one of
three reshapes of the same activation. In a plan that would be a tensor of its own, gathered, saved and freed as one.
Made again from the tensor that it is a view of, it costs nothing, and what is kept from forward to backward are tensors
with storage of their own: a gathered weight is not held by its transpose, and an activation that three ops read is kept
once. Which other nodes run again is the plan's choice (recomputation, activation checkpointing).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from .local_programs import find_op
from .model_file import refs_in

Json = dict[str, Any]
AGAIN = "/again"  # behind the key of the node
# Views that the schema calls new tensors.
UNMARKED_VIEWS = ("aten._unsafe_view.default", "aten.reshape.default")


def repeat_views(nodes: Sequence[Json], outputs: Sequence[Json]) -> list[Json]:
    """`nodes` of model.json with the views again that the backward reads, without those that nothing reads any more."""
    views = {node["key"] for node in nodes if _is_forward_view(node)}
    result = repeat_nodes(nodes, views)
    read = {output["ref"] for output in outputs}
    kept: list[Json] = []
    for node in reversed(result):
        if node["key"] in views and node["key"] not in read:
            continue
        read |= {key for key, _ in _refs(node)}
        kept.append(node)
    return kept[::-1]


def repeat_nodes(nodes: Sequence[Json], which: Collection[str]) -> list[Json]:
    """`nodes` of model.json in which the backward reads nothing of the forward nodes `which`: each of them that it
    needs, by itself or for another one, runs again before its first reader there. Views between them run again too. The
    search does the same (partition/recompute.cpp).
    """
    return _Repeater(nodes, which).run()


class _Repeater:
    def __init__(self, nodes: Sequence[Json], which: Collection[str]) -> None:
        self._nodes = {node["key"]: node for node in nodes}
        self._which = which
        self._views = {node["key"] for node in nodes if _is_forward_view(node)}
        self._result: dict[str, Json] = {}

    def run(self) -> list[Json]:
        for key in self._nodes:
            self._keep(key)
        return list(self._result.values())

    def _keep(self, key: str) -> None:
        """Takes over a node, behind what runs again for it."""
        node = self._nodes[key]
        if key in self._result:
            return
        if node["phase"] == "backward":
            for source, _ in _refs(node):
                if source in self._which:
                    self._make(source)
                if source in self._nodes:
                    self._keep(source)  # a view that is taken over early may be of another one
            node = _reading(node, self._which)
        self._result[key] = node

    def _make(self, key: str) -> None:
        if key + AGAIN in self._result:
            return
        # A view may be there already, but too late.
        if key + AGAIN in self._nodes:
            self._keep(key + AGAIN)
            return
        node = self._nodes[key]
        wanted = {source for source, _ in _refs(node) if source in self._which or source in self._views}
        for source in sorted(wanted, key=[source for source, _ in _refs(node)].index):
            self._make(source)
        self._result[key + AGAIN] = {**_reading(node, wanted), "key": key + AGAIN, "phase": "backward"}


def _refs(node: Json) -> list[tuple[str, int]]:
    return list(refs_in([node["args"], node.get("kwargs", {})]))


def _reading(node: Json, again: Collection[str]) -> Json:
    """`node`, reading what runs again instead of the nodes `again`."""

    def renamed(value: Any) -> Any:
        if isinstance(value, list):
            return [renamed(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if value.get("ref") in again:
            return {**value, "ref": value["ref"] + AGAIN}
        return value if "ref" in value else {name: renamed(item) for name, item in value.items()}

    return {part: renamed(value) if part in ("args", "kwargs") else value for part, value in node.items()}


def _is_forward_view(node: Json) -> bool:
    return node["phase"] == "forward" and is_view(node["op"])


def is_view(op: str) -> bool:
    if op in UNMARKED_VIEWS:
        return True
    function = find_op(op) if op.startswith(("aten.", "prims.")) else None
    return isinstance(function, torch._ops.OpOverload) and function.is_view
