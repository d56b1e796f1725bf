"""The memory of one training step by a plan: what lives while it runs, node by node, and what had to live.

Counted are the storages of tensors that a dispatch mode sees, as torch's MemTracker does: all that is an input or an
output of an op. What a kernel allocates for itself is not seen.
"""

from __future__ import annotations

import operator
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from autopar.parallel import ParallelModule, Step, place_whole
from autopar.placements import to_torch
from autopar.redistribute import NODE_TAG, TURN_TAG
from small_models import loss_of
from torch import Tensor, fx
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

WAIT = torch.ops._c10d_functional.wait_tensor.default
# Their kernels resize the tensor of all terms to the one of the sum, which keeps the memory.
KEEPS_TERMS = (torch.ops.aten.mse_loss.default, torch.ops.aten.smooth_l1_loss.default)
REDUCE_SCATTERS = (
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
    torch.ops._c10d_functional.reduce_scatter_tensor_coalesced.default,
)
ALL_REDUCES = (
    torch.ops._c10d_functional.all_reduce.default,
    torch.ops._c10d_functional.all_reduce_coalesced.default,
)
# Gloo's threads let go of a tensor once they get the interpreter's lock, which may be long after the wait.
GLOO_RELEASES_S = 0.002


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Bytes alive at one node of a graph: before it runs, and the most until the next one runs."""

    phase: str
    name: str  # of the FX node
    key: str  # of the node of the plan, if it is for one
    turn: str  # of the node of the plan at whose turn it runs, if at one
    before: int
    peak: int


class LiveBytes(TorchDispatchMode):
    """Sums up the storages that are alive, without keeping any."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0
        self.peak = 0
        self._known: dict[int, Any] = {}
        self._number = 0
        for tensor in tensors:
            self._see(tensor)

    def restart_peak(self) -> None:
        self.peak = self.total

    def _see(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        known = self._known.get(storage._cdata)
        if known is not None and known() is not None:
            return
        number, size = storage._cdata, storage.nbytes()

        def gone(_: Any) -> None:
            self.total -= size

        self._known[number] = weakref.ref(storage, gone)
        self.total += size
        self.peak = max(self.peak, self.total)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # its local ops come here by themselves
        result = function(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._see(tensor)
        if function is WAIT:
            time.sleep(GLOO_RELEASES_S)
        return result


@contextmanager
def probed(graphs: Mapping[str, fx.GraphModule], live: LiveBytes) -> Iterator[list[Reading]]:
    """Readings of every node that computes something, while the graphs run as they are: before each node stands a call
    that takes no tensors."""
    readings: list[Reading] = []
    running: list[tuple[str, fx.Node, int]] = []
    watched = {phase: [node for node in module.graph.nodes if is_run(node)] for phase, module in graphs.items()}

    def probe(phase: str, index: int) -> None:
        for of, node, before in running:
            readings.append(reading(of, node, before, live.peak))
        running.clear()
        live.restart_peak()
        if index < len(watched[phase]):
            running.append((phase, watched[phase][index], live.total))

    added: list[tuple[fx.GraphModule, fx.Node]] = []
    for phase, module in graphs.items():
        for index, node in enumerate([*watched[phase], module.graph.output_node()]):
            with module.graph.inserting_before(node):
                added.append((module, module.graph.call_function(probe, (phase, index))))
        module.recompile()
    try:
        yield readings
    finally:
        for module, node in added:
            module.graph.erase_node(node)
        for module in graphs.values():
            module.recompile()


def is_run(node: fx.Node) -> bool:
    """Waits make nothing; up to them a collective holds what it sends."""
    return node.op in ("call_function", "call_module") and node.target is not WAIT


def issued_for(wait: fx.Node) -> fx.Node:
    """The collective that a wait is for; a coalesced one gives a list."""
    (issued,) = wait.all_input_nodes
    return issued.all_input_nodes[0] if issued.target is operator.getitem else issued


def key_of(node: fx.Node, tag: str = NODE_TAG) -> str:
    key: str = node.meta.get("custom", {}).get(tag, "")
    return key


def reading(phase: str, node: fx.Node, before: int, peak: int) -> Reading:
    key, turn = key_of(node), key_of(node, TURN_TAG)
    return Reading(phase=phase, name=node.name, key=key, turn=turn, before=before, peak=peak)


# ---- what was measured ----


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    readings: Sequence[Reading]
    tracked: int  # the most bytes at once, by torch's MemTracker
    before: int  # of parameters, buffers, constants and the batch


def placed_batch(parallel: ParallelModule, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments as the pieces that the plan wants, so that no whole batch lives beside them."""
    step, leaves = parallel._find_step(args, kwargs)
    for key, (index, _) in step.arguments.items():
        whole = leaves[index]
        piece = place_whole(whole, step.placements[key], step.device).clone()
        placements = tuple(map(to_torch, step.placements[key]))
        leaves[index] = DTensor.from_local(
            piece, step.mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride()
        )
    placed: tuple[Any, Any] = pytree.tree_unflatten(leaves, pytree.tree_structure((args, kwargs)))
    return placed


def resident(parallel: ParallelModule, args: Any, kwargs: Any) -> list[Tensor]:
    """What lives for the whole step, as local tensors."""
    step, leaves = parallel._find_step(args, kwargs)
    held = [*parallel.parameters(), *parallel.buffers(), *leaves]
    local = [one.to_local() if isinstance(one, DTensor) else one for one in held if isinstance(one, Tensor)]
    return [*(one.detach() for one in local), *step.constants.values()]


def measure(parallel: ParallelModule, args: Any, kwargs: Any) -> Measured:
    """Of a step with these arguments, which should be those of placed_batch: the least of some runs, as gloo's threads
    hold tensors longer in some of them."""
    runs = [measure_once(parallel, args, kwargs) for _ in range(3)]
    return Measured(
        readings=[
            replace(each[0], before=min(one.before for one in each), peak=min(one.peak for one in each))
            for each in zip(*(run.readings for run in runs), strict=True)
        ],
        tracked=min(run.tracked for run in runs),
        before=runs[0].before,
    )


def measure_once(parallel: ParallelModule, args: Any, kwargs: Any) -> Measured:
    step, _ = parallel._find_step(args, kwargs)
    graphs = {"forward": step.program.forward, "backward": step.program.backward}
    parallel.zero_grad()
    alive = resident(parallel, args, kwargs)
    live, tracker = LiveBytes(alive), MemTracker()
    tracker.track_external(parallel, *alive)
    before = live.total
    with live, tracker, probed(graphs, live) as readings:
        loss_of(parallel(*args, **kwargs)).backward()
    (by_kind,) = tracker.get_tracker_snapshot("peak").values()
    return Measured(readings=readings, tracked=by_kind["Total"], before=before)


# ---- what had to live ----


class Lives:
    """From when to when storages live, as nodes are added in the order in which they run."""

    def __init__(self, copying: Sequence[Any]) -> None:
        """`copying`: collectives that do not hold what they send until they are waited for."""
        self._copying = copying
        self.sizes: dict[int, int] = {}
        self.nodes: list[tuple[str, fx.Node]] = []
        self._names: dict[int, int] = {}  # of storages that others stand for
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}

    def run(self, phase: str, module: fx.GraphModule, known: Mapping[int, int]) -> None:
        """`known`: what the storages of the graph's inputs are called; others of them are not counted."""
        self._names |= known
        outside = {one for node in module.graph.find_nodes(op="placeholder") for one in storages(node)}
        for node in module.graph.nodes:
            if node.target is WAIT:  # gives what it gets, though its fake kernel makes a tensor
                self._names |= self.same(node, *node.all_input_nodes)
                issued = issued_for(node)
                if issued.target not in self._copying:
                    for sent in issued.all_input_nodes:
                        self.keep(sent)
            elif is_run(node):
                for storage, size in storages(node).items():
                    if storage not in outside and storage not in self._names:
                        self._first.setdefault(storage, len(self.nodes))
                        self.sizes[storage] = size
                self.nodes.append((phase, node))
                for read in (node, *node.all_input_nodes):
                    self.keep(read)

    def same(self, copy: fx.Node, node: fx.Node) -> dict[int, int]:
        named = [self._names.get(storage, storage) for storage in storages(node)]
        return dict(zip(storages(copy), named, strict=True))

    def keep(self, node: fx.Node) -> None:
        """To the last of the nodes that were added."""
        for storage in storages(node):
            self._last[self._names.get(storage, storage)] = len(self.nodes) - 1

    def readings(self, resident_bytes: int) -> list[Reading]:
        made = [0] * len(self.nodes)
        freed = [0] * len(self.nodes)
        for storage, size in self.sizes.items():
            made[self._first[storage]] += size
            freed[self._last[storage]] += size
        alive, found = resident_bytes, []
        for (phase, node), new, old in zip(self.nodes, made, freed, strict=True):
            found.append(reading(phase, node, alive, alive + new))
            alive += new - old
        return found


def storages(node: fx.Node) -> dict[int, int]:
    """Sizes of the storages behind a node's value."""
    if node.target in KEEPS_TERMS:
        ((storage, _),) = of_value(node).items()
        return {storage: max(size for read in node.all_input_nodes for size in of_value(read).values())}
    return of_value(node)


def of_value(node: fx.Node) -> dict[int, int]:
    values = pytree.tree_leaves(node.meta.get("val"))
    found = [value.untyped_storage() for value in values if isinstance(value, Tensor)]
    return {storage._cdata: storage.nbytes() for storage in found}


def results_of(module: fx.GraphModule) -> list[fx.Node]:
    (nodes,) = module.graph.output_node().args
    assert isinstance(nodes, Sequence)
    return [node for node in nodes if isinstance(node, fx.Node)]


def ideal(step: Step, resident_bytes: int, backend: str = "gloo") -> list[Reading]:
    """What measure() reads if a storage lives from the node that makes it to the last one that reads it, through
    whatever view: what backward reads of forward until backward's last reader, gradients and the loss to the end."""
    # Gloo reduces in a copy, which is not seen.
    program, lives = step.program, Lives([*ALL_REDUCES, *(REDUCE_SCATTERS if backend == "gloo" else ())])
    lives.run("forward", program.forward, {})
    results = results_of(program.forward)
    num_outputs = len(program.forward_outputs)
    for node in results[:num_outputs]:
        lives.keep(node)
    known: dict[int, int] = {}
    for node, copy in zip(results[num_outputs:], program.backward.graph.find_nodes(op="placeholder"), strict=False):
        known |= lives.same(copy, node)
    lives.run("backward", program.backward, known)
    losses = [node for node, output in zip(results, program.forward_outputs, strict=False) if output["role"] == "loss"]
    for node in [*losses, *results_of(program.backward)]:
        lives.keep(node)
    return lives.readings(resident_bytes)
