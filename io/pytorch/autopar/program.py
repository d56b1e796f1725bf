"""From the graph of a training step and a plan to what one device runs: two FX graphs, forward and backward, of plain
ATen ops on local tensors and functional collectives.

The graph is run once on fake tensors of local shapes, op by op as the plan says, while make_fx records it. What cannot
run is found there, by node, before any step is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.traceback import annotate, preserve_node_meta

from .collectives import Collectives
from .crossing import ValueId, last_readers_of, saved_values
from .errors import PlanError
from .fx_graphs import record, results_of, take_over_arguments
from .local_programs import AllReduce, Running, Site, find_op, run_local
from .model_file import refs_in
from .movable import check_starts, movable_ahead, movable_back
from .placements import Device
from .plan import PHASES, NodePlan, Placements, Plan, Redistribution
from .random_numbers import RandomNode, random_nodes, with_own_numbers
from .redistribute import NODE_TAG, TURN_TAG, Redistributor
from .regions import BACKWARD, CONSTRAIN, FORWARD, Region, RegionSite, bind_regions, region_shapes

RESHAPES = ("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")
Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """`forward` takes the local tensors of `inputs`, then one random generator state per `random_forward`; it gives
    what `forward_outputs` lists and then what the backward pass needs, which `backward` takes, with states and the
    tangents behind, as one list, which it empties; it gives `backward_outputs`.
    """

    forward: fx.GraphModule
    backward: fx.GraphModule
    inputs: Sequence[str]  # keys
    tangents: Sequence[str]
    random_forward: Sequence[RandomNode]
    random_backward: Sequence[RandomNode]
    forward_outputs: Sequence[Json]  # entries of the graph's outputs
    backward_outputs: Sequence[Json]
    overlaps: bool  # collectives stand where they are for the sake of what runs until they are waited for


class LocalStep:
    """What one device runs of `document`, the content of model.json, by `plan`, which must have been compared with it.
    `site` is where a region with this plan runs. Methods raise PlanError.
    """

    def __init__(
        self,
        document: Json,
        plan: Plan,
        device: Device,
        collectives: Collectives,
        device_type: str,
        regions: Mapping[str, Region],
        site: Callable[[NodePlan], RegionSite],
    ) -> None:
        self._plan = plan
        self._device = device
        self._collectives = collectives
        self._device_type = device_type
        self._regions = regions
        self._site = site
        self._document = document
        self._metas: dict[ValueId, Json] = {(entry["key"], 0): entry for entry in document["inputs"]}
        for node in document["nodes"]:
            self._metas |= {(node["key"], i): meta for i, meta in enumerate(node["outputs"]) if meta is not None}
        self._nodes: dict[str, Json] = {node["key"]: node for node in document["nodes"]}
        self._movable_ahead, self._movable_back = movable_ahead(document), movable_back(document)
        check_starts(plan, self._movable_back)
        shapes = {value: meta["shape"] for value, meta in self._metas.items()}
        self._moves = Redistributor(plan, device, collectives, shapes, self._make)
        # All of one phase:
        self._phase = "forward"
        self._ran: set[str] = set()
        self._put_off: dict[str, Json] = {}  # nodes that wait for what they read
        self._wanted: dict[str, list[int]] = {}  # of the graph's outputs those to be given yet, by the node that does
        self._late: set[str] = set()  # nodes that have run, of whose outputs some wait for their redistribution
        self._results: dict[int, Any] = {}  # what is given, by the index of the graph's output
        self._states: dict[str, Tensor] = {}  # of the random generator, by node

    def trace(self) -> Program:
        inputs = [entry["key"] for entry in self._document["inputs"] if entry["role"] != "tangent"]
        tangents = [entry["key"] for entry in self._document["inputs"] if entry["role"] == "tangent"]
        results: Sequence[Json] = self._document["outputs"]
        backward = [index for index, output in enumerate(results) if output["role"] == "gradient"]
        forward = [index for index in range(len(results)) if index not in backward]
        saved = saved_values(self._document, backward)
        random_forward, random_backward = (
            random_nodes([node for node in self._nodes.values() if node["phase"] == phase], self._plan, self._device)
            for phase in PHASES
        )

        def run_forward(values: list[Any], states: list[Tensor]) -> list[Any]:
            self._start("forward", [(key, 0) for key in inputs], values, random_forward, states)
            self._run_nodes(forward)
            kept = [self._keep_for_backward(value) for value in saved]
            return [self._results[index] for index in forward] + kept

        def run_backward(values: list[Any], states: list[Tensor], incoming: list[Tensor]) -> list[Any]:
            ids = [*saved, *((key, 0) for key in tangents)]
            self._start("backward", ids, [*values, *incoming], random_backward, states)
            self._run_nodes(backward)
            return [self._results[index] for index in backward]

        mode = FakeTensorMode(allow_non_fake_inputs=True)
        with mode, torch.no_grad(), preserve_node_meta():
            values = [self._fake((key, 0)) for key in inputs]
            state = torch.empty_like(torch.Generator(self._device_type).get_state())
            first = record(run_forward, values, [state] * len(random_forward))
            self._bind(first)
            incoming = [self._fake((key, 0)) for key in tangents]
            second = record(run_backward, results_of(first)[len(forward) :], [state] * len(random_backward), incoming)
            self._bind(second)
            take_over_arguments(second)
        return Program(
            forward=first,
            backward=second,
            inputs=inputs,
            tangents=tangents,
            random_forward=random_forward,
            random_backward=random_backward,
            forward_outputs=[results[index] for index in forward],
            backward_outputs=[results[index] for index in backward],
            overlaps=any(entry.overlap is not None for entry in self._plan.redistributions),
        )

    def _bind(self, graph_module: fx.GraphModule) -> None:
        site = {node["args"][1]: self._plan.nodes[key] for key, node in self._nodes.items() if node["op"] == FORWARD}
        wanted = {node["args"][2]: node["args"][3] for node in self._nodes.values() if node["op"] == BACKWARD}
        bind_regions(graph_module, self._regions, lambda name: self._site(site[name]), wanted)

    # ---- what crosses from forward to backward ----

    def _keep_for_backward(self, value: ValueId) -> Any:
        entry = self._moves.saved.get(value)
        return self._moves.copies(value)[self._placed(value)] if entry is None else self._moves.result(entry)

    def _save(self, node: Json, last_reader: Mapping[ValueId, str]) -> None:
        """What is saved of a value is made, unless it has been read, when nothing in the forward needs it any more."""
        for value, reader in last_reader.items():
            if reader == node["key"]:
                self._moves.result(self._moves.saved[value])

    # ---- values ----

    def _placed(self, value: ValueId) -> Placements:
        placements = self._plan.nodes[value[0]].outputs[value[1]]
        assert placements is not None
        return self._device.canonical(placements)

    def _given(self, value: ValueId) -> Placements:
        """As the phase finds it: as it was made or, in the backward, saved."""
        entry = self._moves.saved.get(value) if self._phase == "backward" else None
        return self._placed(value) if entry is None else self._device.canonical(entry.target)

    def _fake(self, value: ValueId) -> Any:
        meta = self._metas[value]
        local = self._device.local_shape(meta["shape"], self._placed(value))
        # In the order of the whole tensor's dims in memory, as local pieces of views have it.
        order = sorted(range(len(local)), key=lambda dim: meta["stride"][dim], reverse=True)
        back = sorted(range(len(local)), key=order.__getitem__)
        dense = torch.empty(
            [local[dim] for dim in order], dtype=getattr(torch, meta["dtype"]), device=self._device_type
        )
        return dense.permute(back)

    def _start(
        self,
        phase: str,
        ids: Sequence[ValueId],
        values: Sequence[Any],
        random: Sequence[RandomNode],
        states: Sequence[Tensor],
    ) -> None:
        self._phase = phase
        found = zip(ids, values, strict=True)
        self._moves.begin(phase, {value: (self._given(value), tensor) for value, tensor in found})
        self._ran, self._put_off, self._wanted, self._late, self._results = set(), {}, {}, set(), {}
        self._states = dict(zip((node.key for node in random), states, strict=True))

    def _read(self, value: ValueId, wanted: Placements, entry: Redistribution | None, place: str) -> Any:
        """Exactly as the plan says, also where there would be a shorter way: what runs is what was predicted."""
        made = self._given(value) if entry is None else self._device.canonical(entry.target)
        if made != wanted:
            raise self._error(
                f"{place} wants {value[0]} as ({', '.join(wanted)}), which comes as ({', '.join(made)}), "
                "and no redistribution says how"
            )
        return self._moves.copies(value)[wanted] if entry is None else self._moves.result(entry)

    def _output(self, index: int) -> Any:
        output = self._document["outputs"][index]
        wanted = self._device.canonical(self._plan.outputs[index].placements)
        return self._read(
            self._value_of(index), wanted, self._moves.of_output(index), f"output {index} ({output['role']})"
        )

    def _value_of(self, index: int) -> ValueId:
        output = self._document["outputs"][index]
        return output["ref"], output.get("output", 0)

    # ---- nodes ----

    def _run_nodes(self, wanted: Sequence[int]) -> None:
        """Gives the graph's outputs `wanted`. Each is redistributed as soon as it is made unless the plan says when,
        not at the end, where all gradients would live beside each other before they are cut."""
        self._wanted = {}
        for index in wanted:
            self._wanted.setdefault(self._value_of(index)[0], []).append(index)
        last_readers = last_readers_of(self._document, self._moves.saved) if self._phase == "forward" else {}
        for key, node in self._nodes.items():
            if node["phase"] != self._phase:
                continue
            with annotate({TURN_TAG: key}):
                self._moves.finish(key)
                self._catch_up()
                self._moves.start(key)
                self._take_turn(node)
                self._save(node, last_readers)
        self._moves.finish_all()
        self._catch_up()
        # Some are no node's of this phase.
        self._results |= {index: self._output(index) for indices in self._wanted.values() for index in indices}

    def _take_turn(self, node: Json) -> None:
        if node["key"] in self._ran:
            return
        if node["key"] in self._movable_back and self._comes_later(node):
            self._put_off[node["key"]] = node
            return
        self._run(node)
        self._catch_up()

    def _run(self, node: Json) -> None:
        self._ran.add(node["key"])
        try:
            args, kwargs, refs = self._arguments(node)
            with annotate({NODE_TAG: node["key"]}):
                self._keep(node, self._run_node(node, args, kwargs, refs))
        except PlanError:
            raise
        except Exception as error:
            raise self._error(f"{node['op']} cannot run on the local pieces: {error}", node["key"]) from error
        self._give_outputs(node["key"])

    def _give_outputs(self, key: str) -> None:
        """Those of the graph's outputs that a node gives, unless the plan redistributes them at a later turn."""
        late = []
        for index in self._wanted.pop(key, ()):
            if self._moves.comes_later(self._value_of(index), self._moves.of_output(index)):
                late.append(index)
            else:
                self._results[index] = self._output(index)
        if late:
            self._wanted[key] = late
            self._late.add(key)

    # ---- nodes out of turn ----

    def _comes_later(self, node: Json) -> bool:
        """Whether the plan gives something that the node reads at a later turn."""
        refs = refs_in([node["args"], node.get("kwargs", {})])
        return any(
            self._moves.comes_later(value, self._moves.of_input(node["key"], index)) for index, value in enumerate(refs)
        )

    def _catch_up(self) -> None:
        """With what was put off, as far as what it reads is there now."""
        for key, node in list(self._put_off.items()):
            if not self._comes_later(node):
                del self._put_off[key]
                self._run(node)
        for key in sorted(self._late):
            self._late.remove(key)
            self._give_outputs(key)

    def _make(self, value: ValueId) -> None:
        """Runs, before its turn or behind it, what can."""
        key = value[0]
        node = self._put_off.pop(key, None)
        if node is None and key in self._movable_ahead and key not in self._ran:
            node = self._nodes[key] if self._nodes[key]["phase"] == self._phase else None
        if node is not None:
            self._run(node)

    def _arguments(self, node: Json) -> tuple[list[Any], dict[str, Any], list[ValueId]]:
        """With local tensors, redistributed as the node wants them."""
        key = node["key"]
        choice = self._plan.nodes[key]
        refs: list[ValueId] = []

        def local(argument: Any) -> Any:
            if isinstance(argument, list):
                return [local(item) for item in argument]
            if not isinstance(argument, dict):
                return argument
            if "ref" in argument:
                value, index = (argument["ref"], argument.get("output", 0)), len(refs)
                refs.append(value)
                if index >= len(choice.inputs):
                    raise self._error(f"{len(choice.inputs)} inputs; the op has more", key)
                wanted = self._device.canonical(choice.inputs[index])
                return self._read(value, wanted, self._moves.of_input(key, index), f"input {index} of {key}")
            ((kind, name),) = argument.items()
            if kind == "float":
                return float(name)
            return torch.device(self._device_type) if kind == "device" else getattr(torch, name)

        args = [local(argument) for argument in node["args"]]
        return args, {name: local(argument) for name, argument in node.get("kwargs", {}).items()}, refs

    def _run_node(self, node: Json, args: list[Any], kwargs: dict[str, Any], refs: Sequence[ValueId]) -> list[Any]:
        key, op = node["key"], node["op"]
        choice = self._plan.nodes[key]
        if op == CONSTRAIN:
            return [args[0]]
        if op in (FORWARD, BACKWARD):
            return self._record_region(node, args)
        function = _reshape if op in RESHAPES else find_op(op)
        if key in self._states:
            function = with_own_numbers(self._states[key], function)
        site = Site(
            op=op,
            function=function,
            device=self._device,
            programs=choice.programs,
            shapes_in=[self._metas[value]["shape"] for value in refs],
            placed_in=[self._device.canonical(one) for one in choice.inputs],
            shapes_out=[[] if meta is None else meta["shape"] for meta in node["outputs"]],
            placed_out=[() if one is None else self._device.canonical(one) for one in choice.outputs],
        )
        return self._drive(run_local(site, args, kwargs))

    def _record_region(self, node: Json, args: list[Any]) -> list[Any]:
        """As one opaque op, which bind_regions replaces by the author's function."""
        made = [self._fake((node["key"], index)) for index in range(len(node["outputs"]))]
        if node["op"] == FORWARD:
            tensors, name = args
            with region_shapes(lambda *_: dict(enumerate(made[:-1]))):
                results: list[Any] = torch.ops.autopar.local_map(tensors, name)
                return results
        tape, grads, name, wanted = args
        with region_shapes(lambda *_: dict(zip(wanted, made, strict=True))):
            grads_made: list[Any] = torch.ops.autopar.local_map_backward(tape, grads, name, wanted)
            return grads_made

    def _drive(self, running: Running) -> list[Any]:
        answer: Tensor | None = None
        while True:
            try:
                asked: AllReduce = running.send(answer)  # type: ignore[arg-type]
            except StopIteration as stop:
                results: list[Any] = stop.value
                return results
            answer = self._collectives.all_reduce(asked.tensor, asked.reduce, (asked.mesh_dim,))

    def _keep(self, node: Json, results: Sequence[Any]) -> None:
        if len(results) != len(node["outputs"]):
            raise self._error(f"{len(results)} outputs, not {len(node['outputs'])}", node["key"])
        for index, (result, meta) in enumerate(zip(results, node["outputs"], strict=True)):
            if meta is None:
                continue
            value = (node["key"], index)
            placed = self._placed(value)
            wanted = self._device.local_shape(meta["shape"], placed)
            if list(result.shape) != wanted:
                raise self._error(
                    f"output {index} as ({', '.join(placed)}) has local shape {wanted}, but the op on its local inputs "
                    f"gives {list(result.shape)}",
                    node["key"],
                )
            self._moves.keep(value, placed, result)

    def _error(self, text: str, key: str | None = None) -> PlanError:
        return PlanError(f"{self._plan.source}: {f'nodes.{key}: ' if key else ''}{text}")


def _reshape(self: Tensor, **size: list[int]) -> Tensor:
    """For views, which the layout of local tensors may not allow."""
    (shape,) = size.values()
    return self.reshape(shape)
