"""A plan as a tree of modules, in which repeated modules that do the same are one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .plan import Plan, Redistribution

NODE_KEY = re.compile(r"(.*)(/[fb]/[^/]+(?:/again)?)")


@dataclass(kw_only=True, slots=True)
class Leaf:
    """A parameter or a node; in a folded module that of all its members."""

    name: str  # behind the module's path: ".weight", "/f/mm"
    kind: str  # "parameter", "input" or "node"
    keys: list[str]  # by member; those of an outer module's first member first


@dataclass(kw_only=True, slots=True)
class Module:
    """A module, or several siblings with numbers for names that have the same content and the same plan."""

    names: list[str]  # of the members
    modules: list[Module] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.names[0] if len(self.names) == 1 else ranges([int(name) for name in self.names])

    def all_leaves(self) -> Iterable[Leaf]:
        yield from self.leaves
        for module in self.modules:
            yield from module.all_leaves()


def ranges(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 5] gives 0 to 2 with a dash, then 5."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


def module_tree(plan: Plan) -> Module:
    """The root has no name: a model's own name in the keys ("model") is a module of it."""
    root = Module(names=[""])
    by_path: dict[tuple[str, ...], Module] = {(): root}

    def module_of(path: tuple[str, ...]) -> Module:
        if path not in by_path:
            by_path[path] = Module(names=[path[-1]])
            module_of(path[:-1]).modules.append(by_path[path])
        return by_path[path]

    # Parameters first, as a module's row lists them; a tied one has one node and several names.
    for key in [*plan.parameters, *(key for key in plan.nodes if key not in plan.parameters)]:
        is_node = key not in plan.parameters and plan.nodes[key].phase is not None
        path, name = split_key(key, is_node)
        kind = "node" if is_node else "parameter" if key in plan.parameters else "input"
        module_of(tuple(path.split(".")) if path else ()).leaves.append(Leaf(name=name, kind=kind, keys=[key]))
    return _Folder(_facts(plan)).fold(root)[0]


def split_key(key: str, is_node: bool) -> tuple[str, str]:
    """Path of the module and what follows it: "a.0.b/f/mm" and "a.0.b.weight" are in the module "a.0.b"."""
    if not is_node:
        path, dot, name = key.rpartition(".")
        return path, dot + name
    # Names of modules may have slashes, too.
    if match := NODE_KEY.fullmatch(key):
        return match[1], match[2]
    path, slash, name = key.partition("/")
    return path, slash + name


def _facts(plan: Plan) -> dict[str, tuple[object, ...]]:
    """What has to be the same for two nodes to be one: all but names and memory."""
    facts: defaultdict[str, list[object]] = defaultdict(list)
    for key, placed in plan.parameters.items():
        facts[key].append(placed)
    for key, node in plan.nodes.items():
        facts[key] += [node.op, node.inputs, node.outputs, node.tensors, node.compute_ps, node.phase, node.programs]
        facts[key].append(key in plan.recompute)
    for entry in plan.redistributions:
        moved = _redistribution_facts(entry)
        facts[entry.value].append(("gives", *moved))
        for reader, place in entry.uses:
            facts[reader].append(("gets", place, *moved))
    return {key: tuple(listed) for key, listed in facts.items()}


def _redistribution_facts(entry: Redistribution) -> tuple[object, ...]:
    return (entry.output, entry.phase, entry.source, entry.target, entry.dtype, entry.steps, entry.is_saved,
            entry.overlap is not None, entry.pipelined_ps)  # fmt: skip


class _Folder:
    def __init__(self, facts: dict[str, tuple[object, ...]]) -> None:
        self._facts = facts
        self._ids: dict[tuple[object, ...], int] = {}  # of contents

    def fold(self, module: Module) -> tuple[Module, int]:
        """The module with its repeats folded, and a number that modules with the same content share."""
        groups: dict[tuple[object, ...], list[Module]] = {}
        content: list[object] = []
        for child in module.modules:
            folded, inside = self.fold(child)
            is_number = child.name.isdecimal()
            groups.setdefault((is_number, inside if is_number else child.name), []).append(folded)
            content.append((child.name, inside))
        module.modules = [_merge(group) for group in groups.values()]
        content += [(leaf.name, leaf.kind, self._facts.get(leaf.keys[0], ())) for leaf in module.leaves]
        return module, self._ids.setdefault(tuple(content), len(self._ids))


def _merge(group: Sequence[Module]) -> Module:
    """Modules that differ in names only; the order of their keys is that of the members."""
    if len(group) == 1:
        return group[0]
    merged = _merged_content(group)
    merged.names = [name for module in group for name in module.names]
    return merged


def _merged_content(group: Sequence[Module]) -> Module:
    """Named as the first is."""
    return Module(
        names=group[0].names,
        modules=[_merged_content(together) for together in zip(*(module.modules for module in group), strict=True)],
        leaves=[
            Leaf(name=together[0].name, kind=together[0].kind, keys=[key for leaf in together for key in leaf.keys])
            for together in zip(*(module.leaves for module in group), strict=True)
        ],
    )
