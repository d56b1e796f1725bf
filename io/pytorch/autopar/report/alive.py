"""The largest tensors on a device when memory is highest, as far as a plan tells: from what nodes read and when."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from ..plan import PHASES, Placements, Plan, Redistribution
from ..tensors import local_tensor, num_bytes

# They give other sights of what they read, and hold nothing.
VIEWS = re.compile(
    r"(aten|prims)\.(view|_unsafe_view|t|transpose|permute|expand|slice|select|unsqueeze|squeeze|alias|detach|"
    r"split|split_with_sizes|unbind|diagonal|as_strided|view_of|narrow|chunk|unfold)\..*"
)

NUMBER = re.compile(r"(^|\.)[0-9]+(?=\.|$)")

Value = tuple[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    key: str  # of the node that made it
    what: str  # "result", or how a redistribution made it
    phase: str  # in which it was made
    tensor: str  # dtype and shape of the piece on one device
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldAlike:
    """Tensors whose makers differ in the numbers of their layers only."""

    pattern: str  # with `*` for what differs
    first: Held
    count: int
    bytes: int  # of all


def alive_at_peak(plan: Plan) -> list[HeldAlike] | None:
    """What takes most first, without parameters, inputs and optimizer state; None: the plan does not name what nodes
    read, or the peak is at the end.
    """
    if plan.peak.node is None or not any(node.reads for node in plan.nodes.values()):
        return None
    alike: defaultdict[tuple[str, str, str, str], list[Held]] = defaultdict(list)
    for held in _Lives(plan).at_peak():
        alike[NUMBER.sub(r"\1*", held.key), held.what, held.phase, held.tensor].append(held)
    rows = [
        HeldAlike(
            pattern=pattern if len(together) > 1 else together[0].key,
            first=together[0],
            count=len(together),
            bytes=sum(held.bytes for held in together),
        )
        for (pattern, *_), together in alike.items()
    ]
    return sorted(rows, key=lambda row: -row.bytes)


class _Lives:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._turns = {key: turn for turn, key in enumerate(plan.nodes)}
        self._again = frozenset(plan.recompute)
        self._backward = min(
            (turn for key, turn in self._turns.items() if plan.nodes[key].phase == PHASES[1]), default=len(plan.nodes)
        )
        self._moved = {use: index for index, entry in enumerate(plan.redistributions) for use in entry.uses}
        self._by_value: defaultdict[Value, list[tuple[int, Redistribution]]] = defaultdict(list)
        for index, entry in enumerate(plan.redistributions):
            self._by_value[entry.value, entry.output].append((index, entry))
        # Readers by what they read: a value as it was made, or what a redistribution gives.
        self._of_value: defaultdict[Value, list[int]] = defaultdict(list)
        self._of_move: defaultdict[int, list[int]] = defaultdict(list)
        self._read()

    def _read(self) -> None:
        """From the last node to the first, so that what views are read by is known when they are met."""
        for key, node in reversed(list(self._plan.nodes.items())):
            turn = self._turns[key]
            ends = [turn]
            if self._is_view(key):
                ends += [last for output in range(len(node.outputs)) for last in self._ends((key, output))]
            for place, (read, output) in enumerate(node.reads):
                if node.phase == PHASES[1] and read in self._again and f"{read}/again" in self._turns:
                    read = f"{read}/again"
                moved = self._moved.get((key, place))
                if moved is None:
                    self._of_value[read, output] += ends
                else:
                    self._of_move[moved] += ends

    def _is_view(self, key: str) -> bool:
        return VIEWS.fullmatch(self._plan.nodes[key].op) is not None

    def _is_kept(self, value: Value) -> bool:
        return any(entry.is_saved for _, entry in self._by_value[value])

    def _ends(self, value: Value, in_forward: bool = False) -> list[int]:
        """When it is read: by nodes, and where it sets out as something else; in the forward, or at all."""
        turns = self._of_value[value] + [
            self._start(index, entry) for index, entry in self._by_value[value] if entry.uses or entry.overlap
        ]
        return [turn for turn in turns if turn < self._backward] if in_forward else turns

    def _start(self, index: int, entry: Redistribution) -> int:
        if entry.overlap is not None:
            return self._turns[entry.overlap.start]
        if entry.uses:
            return min(self._turns[reader] for reader, _ in entry.uses)
        value = (entry.value, entry.output)  # kept for the backward: behind the last use in the forward
        return max([self._turns[entry.value], *self._ends(value, in_forward=True)])

    def at_peak(self) -> list[Held]:
        assert self._plan.peak.node is not None
        peak = self._turns[self._plan.peak.node]
        return [held for held, begin, end in self._all() if begin <= peak <= end]

    def _all(self) -> Iterator[tuple[Held, int, int]]:
        plan = self._plan
        handed_out = {(output.value, output.output) for output in plan.outputs}
        for key, node in plan.nodes.items():
            # Placeholders are parameters and the batch, which are held all the time.
            if node.phase is None or self._is_view(key):
                continue
            for output, (text, placed) in enumerate(zip(node.tensors, node.outputs, strict=True)):
                if text is None or placed is None:
                    continue
                # The backward reads what is kept for it in other pieces, if something is.
                end = max([self._turns[key], *self._ends((key, output), self._is_kept((key, output)))])
                if (key, output) in handed_out:
                    end = len(plan.nodes)
                yield self._held(key, text, placed, "result", node.phase), self._turns[key], end
        for index, entry in enumerate(plan.redistributions):
            maker = plan.nodes.get(entry.value)
            text = maker.tensors[entry.output] if maker else None
            if text is None:
                continue
            begin = self._start(index, entry)
            end = max([begin, *self._of_move[index]])
            if entry.is_saved:
                end = max([end, *self._ends((entry.value, entry.output))])
            what = ", ".join(step.kind.replace("_", "-") for step in entry.steps)
            yield self._held(entry.value, text, entry.target, what, entry.phase), begin, end

    def _held(self, key: str, text: str, placed: Placements, what: str, phase: str) -> Held:
        dtype, shape = local_tensor(text, placed, self._plan.mesh_shape, f"{self._plan.source}: nodes.{key}")
        piece = f"{dtype}[{','.join(map(str, shape))}]"
        return Held(key=key, what=what, phase=phase, tensor=piece, bytes=num_bytes(dtype, shape))
