"""What the page's script knows of a plan: the tree of modules, and all that moves. Names are indices into tables, so
that a plan of 20,000 nodes stays small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ..modules import Leaf, Module, module_tree
from ..plan import LOCAL_STEPS, Plan, Redistribution
from ..simulation import ROWS, Simulation
from ..tables import beside_ps
from ..tensors import local_tensor, num_bytes

Json = dict[str, Any]
MOST_READERS = 8  # that are named of a redistribution


class _Table:
    """Numbers for things, in the order of their first use."""

    def __init__(self) -> None:
        self.rows: dict[Hashable, int] = {}

    def __getitem__(self, row: Hashable) -> int:
        return self.rows.setdefault(row, len(self.rows))

    def listed(self) -> list[Any]:
        return list(self.rows)


def facts(plan: Plan, simulation: Simulation | None, explained: Any, words: Any) -> Json:
    """`explained` and `words`: JSON of `autopar-plan explain` and of `show`; None: not known."""
    return _Facts(plan, explained, words).all(simulation)


class _Facts:
    def __init__(self, plan: Plan, explained: Any, words: Any) -> None:
        self._plan = plan
        self._keys, self._placed, self._texts = _Table(), _Table(), _Table()
        self._gives: defaultdict[str, list[int]] = defaultdict(list)
        self._gets: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for index, entry in enumerate(plan.redistributions):
            self._gives[entry.value].append(index)
            for reader, place in entry.uses:
                self._gets[reader].append((place, index))
        self._again = frozenset(plan.recompute)
        modules = words["modules"] if words else []
        self._words = {path: module["mesh_dims"] for module in modules for path in module["paths"]}
        self._explained: dict[str, Json] = {}
        for tensor in explained["tensors"] if explained else []:
            self._explained |= dict.fromkeys(tensor["nodes"], _explanation(tensor))
        self._moves: dict[int, Json] = {}  # by index of the redistribution

    def all(self, simulation: Simulation | None) -> Json:
        plan = self._plan
        tree = self._module(module_tree(plan), "")
        timeline = self._timeline(simulation) if simulation else None
        return {
            "dims": [list(dim) for dim in zip(plan.mesh_dim_names, plan.mesh_shape, strict=True)],
            "step_ps": plan.cost_ps,
            "tree": tree,
            "moves": self._moves,
            "timeline": timeline,
            # The tables come last: all that stands before has filled them.
            "keys": self._keys.listed(),
            "placed": self._placed.listed(),
            "texts": self._texts.listed(),
        }

    def _module(self, module: Module, path: str) -> Json:
        path = f"{path}.{module.names[0]}" if path else module.names[0]
        return {
            "name": module.name or self._plan.model_name,
            "times": len(module.names),
            "path": path,
            "words": self._words.get(path),
            "leaves": [self._leaf(leaf) for leaf in module.leaves],
            "modules": [self._module(child, path) for child in module.modules],
        }

    def _leaf(self, leaf: Leaf) -> Json:
        """Times and bytes of all members together; all else is the first's, from which the others do not differ."""
        plan, key = self._plan, leaf.keys[0]
        node = plan.nodes.get(key)
        entries = [plan.redistributions[index] for each in leaf.keys for index in self._gives[each]]
        hidden = sum(_hidden_ps(entry) for entry in entries)
        inside = sum(one.time_ps for each in leaf.keys if each in plan.nodes for one in plan.nodes[each].collectives)
        row: Json = {
            "name": leaf.name.lstrip("./"),
            "kind": leaf.kind,
            "keys": [self._keys[each] for each in leaf.keys],
            "compute": sum(plan.nodes[each].compute_ps for each in leaf.keys if each in plan.nodes),
            "waited": sum(entry.time_ps for entry in entries) - hidden + inside,
            "hidden": hidden,
        }
        if leaf.kind == "parameter":
            row["rest"] = self._placed[plan.parameters[key]]
            if node and node.tensors[0]:
                local = local_tensor(node.tensors[0], plan.parameters[key], plan.mesh_shape, f"nodes.{key}")
                row["bytes"] = num_bytes(*local) * len(leaf.keys)
        if node:
            row |= {
                "op": self._texts[node.op],
                "phase": node.phase,
                "inputs": [self._placed[placed] for placed in node.inputs],
                "outputs": [None if placed is None else self._placed[placed] for placed in node.outputs],
                "tensors": [None if text is None else self._texts[text] for text in node.tensors],
                "reads": [self._keys[read] for read, _ in node.reads],
                "gives": [self._move(index) for index in self._gives[key]],
                "gets": [[place, self._move(index)] for place, index in self._gets[key]],
            }
            if node.memory_bytes is not None:
                row["memory"] = max(plan.nodes[each].memory_bytes or 0 for each in leaf.keys)
            if any(node.programs):
                row["programs"] = list(node.programs)
        if key in self._again:
            row["again"] = True
        if key in self._explained:
            row["explained"] = self._explained[key]
        return row

    def _move(self, index: int) -> int:
        if index not in self._moves:
            entry = self._plan.redistributions[index]
            self._moves[index] = {
                "value": self._keys[entry.value],
                "phase": entry.phase,
                "from": self._placed[entry.source],
                "to": self._placed[entry.target],
                "dtype": entry.dtype,
                "steps": [
                    [step.kind, list(step.mesh_dims), step.bytes, step.time_ps, self._placed[step.to]]
                    for step in entry.steps
                ],
                "readers": [self._keys[reader] for reader, _ in entry.uses[:MOST_READERS]],
                "num_readers": len(entry.uses) + len(entry.graph_outputs),
                "hidden": _hidden_ps(entry),
                "ahead": entry.overlap is not None,
                "saved": entry.is_saved,
            }
        return index

    def _timeline(self, simulation: Simulation) -> Json:
        """Columns; times in nanoseconds of a device."""
        dims = {name: place for place, name in enumerate(self._plan.mesh_dim_names)}
        events = sorted(simulation.events, key=lambda event: (ROWS.index(event.row), event.begin_ps))
        return {
            "step": simulation.step_ps / 1000,
            "row": [ROWS.index(event.row) for event in events],
            "begin": [round(event.begin_ps / 1000, 1) for event in events],
            "end": [round(event.end_ps / 1000, 1) for event in events],
            "label": [self._texts[event.label] for event in events],
            "keys": [[self._keys[key] for key in event.nodes] for event in events],
            "dims": [[dims[name] for name in event.mesh_dims] for event in events],
            "memory_at": [round(time / 1000, 1) for time, _ in simulation.memory],
            "memory": [held for _, held in simulation.memory],
        }


def _hidden_ps(entry: Redistribution) -> int:
    return sum(beside_ps(entry, place) for place, step in enumerate(entry.steps) if step.kind not in LOCAL_STEPS)


def _explanation(tensor: Mapping[str, Any]) -> Json:
    """What the page shows of an answer of `autopar-plan explain`."""
    alternatives: Sequence[Mapping[str, Any]] = tensor["alternatives"]
    return {
        "alternatives": [
            {
                "placements": list(one["placements"].values()),
                "status": one["status"],
                **{key: one[key] for key in ("more_ps", "bound_ps", "why") if one.get(key) is not None},
            }
            for one in alternatives
        ],
        "blocked": [{key: one[key] for key in ("mesh_dim", "placement", "text")} for one in tensor["blocked"]],
    }
