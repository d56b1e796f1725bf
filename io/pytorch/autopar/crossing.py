"""What crosses from the forward pass to the backward pass of a graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .model_file import refs_in

Json = Mapping[str, Any]
ValueId = tuple[str, int]  # key and output


def saved_values(document: Json, outputs: Sequence[int]) -> list[ValueId]:
    """What the backward pass, which gives these of the graph's outputs, reads of the forward pass and of the inputs, in
    a fixed order."""
    others = {entry["key"] for entry in document["inputs"] if entry["role"] == "tangent"}
    backward = [node for node in document["nodes"] if node["phase"] == "backward"]
    others |= {node["key"] for node in backward}
    read = [value for node in backward for value in _refs(node)]
    given = [document["outputs"][index] for index in outputs]
    read += [(output["ref"], output.get("output", 0)) for output in given]
    return list(dict.fromkeys(value for value in read if value[0] not in others))


def last_readers_of(document: Json, values: Collection[ValueId]) -> dict[ValueId, str]:
    """The last node that makes or reads each of them in the forward."""
    last: dict[ValueId, str] = {}
    for node in document["nodes"]:
        if node["phase"] == "forward":
            made = [(node["key"], output) for output in range(len(node["outputs"]))]
            last |= {value: node["key"] for value in [*made, *_refs(node)] if value in values}
    return last


def _refs(node: Json) -> list[ValueId]:
    return list(refs_in([node["args"], node.get("kwargs", {})]))
