"""Plans with overlap, made of plans without: what a search could have written, by layer names alone."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from autopar.movable import movable_ahead, movable_back

Json = dict[str, Any]
LAYER = re.compile(r"(.*?\b[0-9]+)\b")
LOCAL = ("slice", "zero")


class Windows:
    """Of one phase: a window begins with the first node of a layer, or of a module outside all layers."""

    def __init__(self, nodes: Sequence[Mapping[str, Any]], phase: str) -> None:
        self.of: dict[str, int] = {}
        self.first: list[str] = []
        seen = set()
        for node in nodes:
            if node["phase"] == phase:
                module = re.split("/[fb]/", node["key"])[0]
                found = LAYER.match(module)
                label = found[1] if found else module
                if label not in seen:
                    seen.add(label)
                    self.first.append(node["key"])
                self.of[node["key"]] = len(self.first) - 1

    def begin(self, index: int) -> str | None:
        return self.first[index] if index < len(self.first) else None


def overlapped(plan: Json, model: Json) -> Json:
    """Gathers of parameters start one window ahead, reductions of gradients run in the window behind the one that makes
    the gradient. `model`: the document of the graph that runs."""
    plan = copy.deepcopy(plan)
    ahead, back = movable_ahead(model), movable_back(model)
    states = {entry["key"] for entry in model["inputs"] if entry["role"] in ("parameter", "buffer", "constant")}
    phases = {node["key"]: node["phase"] for node in model["nodes"]}
    for key, phase in phases.items():
        plan["nodes"][key]["phase"] = phase
    windows = {phase: Windows(model["nodes"], phase) for phase in ("forward", "backward")}
    order = {key: index for index, key in enumerate(phases)}
    for entry in plan["redistributions"]:
        value, here = entry["value"], windows[entry["phase"]]
        starts_elsewhere = entry["from"] != plan["nodes"][value]["outputs"][entry["output"]]
        moves = any(step["step"] not in LOCAL for step in entry["steps"])
        if starts_elsewhere or not moves or not entry["uses"] or "is_saved" in entry:
            continue
        readers = [use["node"] for use in entry["uses"] if "node" in use]
        if value in states or value in ahead:
            first = min(readers, key=order.__getitem__, default=None)
            if first is not None and here.of[first] > 0:
                entry |= {"start": here.first[here.of[first] - 1], "finish": first}
        elif phases.get(value) == "backward" and all(reader in back for reader in readers):
            made = here.of[value]
            if here.begin(made + 1) is not None:
                entry |= {"start": here.begin(made + 1), "finish": here.begin(made + 2)}
    return plan
