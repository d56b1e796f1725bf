"""The redistributions of a plan while a phase is traced: at once where their result is read, or started at one node's
turn and finished at a later one's, so that what is on the way hides behind the nodes between.

A start runs the steps up to the last collective, which is issued; the finish waits for it and runs the steps behind it.
What is started at one turn over the same group is issued in one call (a bucket).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.fx.traceback import annotate

from .collectives import Collectives, Transfer, wait
from .crossing import ValueId
from .errors import PlanError
from .placements import Device
from .plan import Placements, Plan, Redistribution, Step

# In the FX nodes' meta, keys of nodes: of the one that they are made for (of a redistribution, which gives the value;
# of a bucket, which gives the first one), and of the one at whose turn they run: what is finished and started there,
# redistributions of its inputs, itself, redistributions of what it gives.
NODE_TAG = "autopar_node"
TURN_TAG = "autopar_turn"


@dataclass(kw_only=True, slots=True)
class UnderWay:
    """A redistribution between its start and its finish."""

    entry: Redistribution
    last: int  # of its steps that are collectives
    placed: Placements  # before that step
    transfer: Transfer
    bucket: Sequence[UnderWay] = ()  # what was issued with it, itself included; empty: nothing yet
    moved: Tensor | None = None  # what comes; nothing is in it before it has been waited for
    has_come: bool = False


class Redistributor:
    """Has the values of one phase at a time, by placements. `shapes`: of whole tensors. `make` is asked for values that
    are not there yet and may be able to give them. Methods raise PlanError."""

    def __init__(
        self,
        plan: Plan,
        device: Device,
        collectives: Collectives,
        shapes: Mapping[ValueId, Sequence[int]],
        make: Callable[[ValueId], None],
    ) -> None:
        self._source = plan.source
        self._device = device
        self._collectives = collectives
        self._shapes = shapes
        self._make = make
        self._phase = "forward"
        self._values: dict[ValueId, dict[Placements, Any]] = {}  # the copies of each value
        self._done: dict[int, Tensor] = {}  # results, by the id of the entry
        self._under_way: dict[int, UnderWay] = {}  # by the id of the entry
        self._of_inputs: dict[tuple[str, int], Redistribution] = {}
        self._of_outputs: dict[int, Redistribution] = {}
        self._by_target: dict[tuple[ValueId, str, Placements], Redistribution] = {}
        self._starts: dict[str, list[Redistribution]] = {}  # by node
        self._finishes: dict[str, list[Redistribution]] = {}
        self.saved: dict[ValueId, Redistribution] = {}  # of what is kept for the backward
        for entry in plan.redistributions:
            if entry.is_saved:
                self.saved[entry.value, entry.output] = entry
            self._of_inputs |= dict.fromkeys(entry.uses, entry)
            self._of_outputs |= dict.fromkeys(entry.graph_outputs, entry)
            target = device.canonical(entry.target)
            self._by_target.setdefault(((entry.value, entry.output), entry.phase, target), entry)
            if entry.overlap is not None:
                self._starts.setdefault(entry.overlap.start, []).append(entry)
                if entry.overlap.finish is not None:
                    self._finishes.setdefault(entry.overlap.finish, []).append(entry)

    # ---- values ----

    def begin(self, phase: str, values: Mapping[ValueId, tuple[Placements, Any]]) -> None:
        """A phase, which finds these values."""
        self._phase = phase
        self._values = {value: {placed: tensor} for value, (placed, tensor) in values.items()}
        self._done = {}
        self._under_way = {}

    def keep(self, value: ValueId, placed: Placements, tensor: Any) -> None:
        self._values[value] = {placed: tensor}

    def copies(self, value: ValueId) -> dict[Placements, Any]:
        if value not in self._values:
            self._make(value)
        if value not in self._values:
            raise self._error(f"{value[0]} is wanted before it is made")
        return self._values[value]

    # ---- reading ----

    def of_input(self, key: str, index: int) -> Redistribution | None:
        return self._of_inputs.get((key, index))

    def of_output(self, index: int) -> Redistribution | None:
        """Of the graph's outputs."""
        return self._of_outputs.get(index)

    def comes_later(self, value: ValueId, entry: Redistribution | None) -> bool:
        """Whether the plan gives what is read of a value by `entry` (None: as it is made) at a later turn."""
        if value not in self._values:
            return True
        if entry is None or id(entry) in self._done:
            return False
        earlier = self._earlier(value, entry)
        return entry.overlap is not None or (earlier is not None and self.comes_later(value, earlier))

    def result(self, entry: Redistribution) -> Tensor:
        """At once, whenever the plan wants it."""
        if id(entry) not in self._done:
            if id(entry) not in self._under_way:
                self._prepare(entry)
            self._complete(entry)
        return self._done[id(entry)]

    # ---- turns ----

    def start(self, key: str) -> None:
        """What the plan starts at this node's turn and nothing has read yet."""
        due = self._starts.get(key, ())
        for entry in due:
            if id(entry) not in self._done and id(entry) not in self._under_way:
                try:
                    self._prepare(entry)
                except PlanError as error:
                    raise PlanError(f"{error} (at the start of its redistribution to {_text(entry.target)})") from error
        self._issue([self._under_way[id(entry)] for entry in due if id(entry) in self._under_way], ahead=True)

    def finish(self, key: str) -> None:
        """What the plan finishes at this node's turn at the latest."""
        for entry in self._finishes.get(key, ()):
            self._complete(entry)

    def finish_all(self) -> None:
        for one in list(self._under_way.values()):
            self._complete(one.entry)

    # ---- steps ----

    def _earlier(self, value: ValueId, entry: Redistribution) -> Redistribution | None:
        """The entry from whose result this one starts."""
        source = self._device.canonical(entry.source)
        return None if source in self._values[value] else self._by_target.get((value, entry.phase, source))

    def _prepare(self, entry: Redistribution) -> None:
        """Runs the steps before the last collective; all of them if there is none."""
        value = (entry.value, entry.output)
        copies, placed = self.copies(value), self._device.canonical(entry.source)
        if placed not in copies:
            earlier = self._earlier(value, entry)
            if earlier is None or earlier is entry:
                raise self._error(f"redistribution of {entry.value} from {_text(placed)}: nothing gives that")
            self.result(earlier)
        last = entry.last_collective
        with annotate({NODE_TAG: entry.value}):
            if last < 0:
                self._end(entry, *self._run(entry, entry.steps, copies[placed], placed))
                return
            tensor, placed = self._run(entry, entry.steps[:last], copies[placed], placed)
            with self._explained(entry, entry.steps[last], placed):
                transfer = self._collectives.prepare(entry.steps[last], tensor, self._shapes[value], placed)
        self._under_way[id(entry)] = UnderWay(entry=entry, last=last, placed=placed, transfer=transfer)

    def _issue(self, those: Sequence[UnderWay], *, ahead: bool) -> None:
        buckets: dict[tuple[Any, ...], list[UnderWay]] = {}
        for one in those:
            if not one.bucket:
                buckets.setdefault(one.transfer.bucket, []).append(one)
        for bucket in buckets.values():
            first = bucket[0]
            with (
                annotate({NODE_TAG: first.entry.value}),
                self._explained(first.entry, first.entry.steps[first.last], first.placed),
            ):
                moved = self._collectives.issue([one.transfer for one in bucket], ahead=ahead)
            for one, tensor in zip(bucket, moved, strict=True):
                one.bucket, one.moved = bucket, tensor

    def _complete(self, entry: Redistribution) -> None:
        """Of what has been read already there is nothing to do."""
        one = self._under_way.pop(id(entry), None)
        if one is None:
            return
        self._issue([one], ahead=False)
        self._wait(one.bucket)
        assert one.moved is not None
        step = entry.steps[one.last]
        with annotate({NODE_TAG: entry.value}):
            with self._explained(entry, step, one.placed):
                tensor = one.transfer.receive(one.moved)
            placed = self._check(entry, step, tensor)
            self._end(entry, *self._run(entry, entry.steps[one.last + 1 :], tensor, placed))

    def _wait(self, bucket: Sequence[UnderWay]) -> None:
        """For all: it comes at once, and process groups hold what a call sends and gives up to the last wait."""
        for one in bucket:
            if not one.has_come:
                assert one.moved is not None
                with annotate({NODE_TAG: one.entry.value}):
                    one.moved, one.has_come = wait(one.moved), True

    def _run(
        self, entry: Redistribution, steps: Sequence[Step], tensor: Tensor, placed: Placements
    ) -> tuple[Tensor, Placements]:
        """Exactly as the plan says, also where there would be a shorter way: what runs is what was predicted."""
        for step in steps:
            with self._explained(entry, step, placed):
                tensor = self._collectives.run(step, tensor, self._shapes[entry.value, entry.output], placed)
            placed = self._check(entry, step, tensor)
        return tensor, placed

    def _end(self, entry: Redistribution, tensor: Tensor, placed: Placements) -> None:
        if placed != self._device.canonical(entry.target):
            raise self._error(f"redistribution of {entry.value} ends at {_text(placed)}, not where it says")
        self._values[entry.value, entry.output].setdefault(placed, tensor)
        self._done[id(entry)] = tensor

    # ---- what can be wrong ----

    def _check(self, entry: Redistribution, step: Step, tensor: Tensor) -> Placements:
        """The placements after a step, which the tensor must have."""
        with self._explained(entry, step, step.to):
            wanted = self._device.local_shape(self._shapes[entry.value, entry.output], step.to)
        if list(tensor.shape) != wanted:
            raise self._error(
                f"redistribution of {entry.value}: {step.kind} gives shape {list(tensor.shape)}, not {wanted}"
            )
        return self._device.canonical(step.to)

    @contextmanager
    def _explained(self, entry: Redistribution, step: Step, placed: Placements) -> Iterator[None]:
        try:
            yield
        except (AssertionError, IndexError, KeyError, RuntimeError, ValueError) as error:
            raise self._error(
                f"redistribution of {entry.value}: {step.kind} to {_text(step.to)} is impossible from "
                f"{_text(placed)}: {error}"
            ) from error

    def _error(self, text: str) -> PlanError:
        return PlanError(f"{self._source}: {text}")


def _text(placements: Placements) -> str:
    return f"({', '.join(placements)})"
