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
from torch._prims.rng_prims import run_with_rng_state
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.traceback import annotate, preserve_node_meta

from .collectives import Collectives
from .errors import PlanError
from .fx_graphs import record, results_of, take_over_arguments
from .local_programs import AllReduce, Running, Site, bind, find_op, run_local
from .model_file import refs_in
from .placements import Device, is_partial
from .plan import NodePlan, Placements, Plan, Redistribution
from .regions import BACKWARD, CONSTRAIN, FORWARD, Region, RegionBackward, RegionForward, RegionSite, region_shapes

# In the FX nodes' meta, keys of nodes: of the one that they are made for (of a redistribution, which gives the value),
# and of the one at whose turn they run, with the redistributions of its inputs before it and of what it gives behind.
NODE_TAG = "autopar_node"
TURN_TAG = "autopar_turn"
RESHAPES = ("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")
Json = Mapping[str, Any]
ValueId = tuple[str, int]  # key and output


@dataclass(frozen=True, kw_only=True, slots=True)
class RandomNode:
    """A node that draws random numbers. Devices with the same `stream` draw the same ones."""

    key: str
    stream: int


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
        self._phase_of = {node["key"]: node["phase"] for node in document["nodes"]}
        self._phase = "forward"
        # Of one phase: the copies of each value by placements.
        self._values: dict[ValueId, dict[Placements, Any]] = {}
        self._done: dict[int, Tensor] = {}  # of one phase: results of redistributions, by the id of the entry
        self._results: dict[int, Any] = {}  # of one phase: what it gives, by the index of the graph's output
        self._entries: dict[tuple[str, int], Redistribution] = {}
        self._entries_by_target: dict[tuple[ValueId, str, Placements], Redistribution] = {}
        self._output_entries: dict[int, Redistribution] = {}
        self._saved_entries: dict[ValueId, Redistribution] = {}
        for entry in plan.redistributions:
            if entry.is_saved:
                self._saved_entries[entry.value, entry.output] = entry
                continue
            self._entries |= dict.fromkeys(entry.uses, entry)
            self._output_entries |= dict.fromkeys(entry.graph_outputs, entry)
            target = self._canonical(entry.target)
            self._entries_by_target.setdefault(((entry.value, entry.output), entry.phase, target), entry)
        self._states: dict[str, Tensor] = {}  # of one phase: of the random generator, by node

    def trace(self) -> Program:
        inputs = [entry["key"] for entry in self._document["inputs"] if entry["role"] != "tangent"]
        tangents = [entry["key"] for entry in self._document["inputs"] if entry["role"] == "tangent"]
        results: Sequence[Json] = self._document["outputs"]
        backward = [index for index, output in enumerate(results) if output["role"] == "gradient"]
        forward = [index for index in range(len(results)) if index not in backward]
        saved = self._saved(backward)
        random_forward, random_backward = (self._random_nodes(phase) for phase in ("forward", "backward"))

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
            self._bind_regions(first)
            incoming = [self._fake((key, 0)) for key in tangents]
            second = record(run_backward, results_of(first)[len(forward) :], [state] * len(random_backward), incoming)
            self._bind_regions(second)
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
        )

    # ---- what crosses from forward to backward ----

    def _saved(self, backward: Sequence[int]) -> list[ValueId]:
        """What the backward pass reads of the forward pass and of the inputs, in a fixed order."""
        found: dict[ValueId, None] = {}
        tangents = {entry["key"] for entry in self._document["inputs"] if entry["role"] == "tangent"}

        def note(key: str, output: int) -> None:
            if self._phase_of.get(key, "forward") == "forward" and key not in tangents:
                found.setdefault((key, output))

        for node in self._document["nodes"]:
            if node["phase"] == "backward":
                for key, output in refs_in([node["args"], node.get("kwargs", {})]):
                    note(key, output)
        for index in backward:
            output = self._document["outputs"][index]
            note(output["ref"], output.get("output", 0))
        return list(found)

    def _keep_for_backward(self, value: ValueId) -> Any:
        entry = self._saved_entries.get(value)
        return self._values[value][self._placed(value)] if entry is None else self._redistribute(value, entry)

    def _save(self, node: Json, last_reader: Mapping[ValueId, str]) -> None:
        """What is saved of a value is made when nothing in the forward needs the value any more."""
        for value, reader in last_reader.items():
            if reader == node["key"]:
                self._redistribute(value, self._saved_entries[value])

    def _last_readers(self) -> dict[ValueId, str]:
        """Of values that are redistributed to be saved, the last node that makes or reads them in the forward."""
        last: dict[ValueId, str] = {}
        for node in self._document["nodes"]:
            if node["phase"] != "forward" or self._phase != "forward":
                continue
            made = [(node["key"], output) for output in range(len(node["outputs"]))]
            for value in [*made, *refs_in([node["args"], node.get("kwargs", {})])]:
                if value in self._saved_entries:
                    last[value] = node["key"]
        return last

    # ---- values ----

    def _canonical(self, placements: Sequence[str]) -> Placements:
        """On a mesh dim of one device all placements are the same."""
        return tuple("R" if size == 1 else one for one, size in zip(placements, self._device.mesh, strict=True))

    def _placed(self, value: ValueId) -> Placements:
        placements = self._plan.nodes[value[0]].outputs[value[1]]
        assert placements is not None
        return self._canonical(placements)

    def _given(self, value: ValueId) -> Placements:
        """As the phase finds it: as it was made or, in the backward, saved."""
        entry = self._saved_entries.get(value) if self._phase == "backward" else None
        return self._placed(value) if entry is None else self._canonical(entry.target)

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
        self._values = {value: {self._given(value): tensor} for value, tensor in zip(ids, values, strict=True)}
        self._done = {}
        self._results = {}
        self._states = dict(zip((node.key for node in random), states, strict=True))

    def _read(self, value: ValueId, wanted: Placements, entry: Redistribution | None, place: str) -> Any:
        """Exactly as the plan says, also where there would be a shorter way: what runs is what was predicted."""
        made = self._given(value) if entry is None else self._canonical(entry.target)
        if made != wanted:
            raise self._error(
                f"{place} wants {value[0]} as ({', '.join(wanted)}), which comes as ({', '.join(made)}), "
                "and no redistribution says how"
            )
        return self._values[value][wanted] if entry is None else self._redistribute(value, entry)

    def _redistribute(self, value: ValueId, entry: Redistribution) -> Tensor:
        if id(entry) in self._done:
            return self._done[id(entry)]
        source = self._canonical(entry.source)
        copies = self._values[value]
        if source not in copies:
            earlier = self._entries_by_target.get((value, entry.phase, source))
            if earlier is None or earlier is entry:
                raise self._error(f"redistribution of {value[0]} from ({', '.join(source)}): nothing gives that")
            self._redistribute(value, earlier)
        tensor, placed = copies[source], source
        shape = self._metas[value]["shape"]
        with annotate({NODE_TAG: value[0]}):
            for step in entry.steps:
                try:
                    tensor = self._collectives.run(step, tensor, shape, placed)
                    placed = self._canonical(step.to)
                    wanted = self._device.local_shape(shape, placed)
                except (AssertionError, IndexError, KeyError, RuntimeError, ValueError) as error:
                    raise self._error(
                        f"redistribution of {value[0]}: {step.kind} to ({', '.join(step.to)}) is impossible from "
                        f"({', '.join(placed)}): {error}"
                    ) from error
                if list(tensor.shape) != wanted:
                    raise self._error(
                        f"redistribution of {value[0]}: {step.kind} gives shape {list(tensor.shape)}, not {wanted}"
                    )
        if placed != self._canonical(entry.target):
            raise self._error(f"redistribution of {value[0]} ends at ({', '.join(placed)}), not where it says")
        copies.setdefault(placed, tensor)
        result: Tensor = tensor
        self._done[id(entry)] = result
        return result

    def _output(self, index: int) -> Any:
        output = self._document["outputs"][index]
        wanted = self._canonical(self._plan.outputs[index].placements)
        value = (output["ref"], output.get("output", 0))
        return self._read(value, wanted, self._output_entries.get(index), f"output {index} ({output['role']})")

    # ---- nodes ----

    def _run_nodes(self, wanted: Sequence[int]) -> None:
        """Gives the graph's outputs `wanted`. Each is redistributed as soon as it is made, not at the end, where all
        gradients would live beside each other before they are cut."""
        made_by: dict[str, list[int]] = {}
        for index in wanted:
            made_by.setdefault(self._document["outputs"][index]["ref"], []).append(index)
        last_readers = self._last_readers()
        for node in self._document["nodes"]:
            if node["phase"] != self._phase:
                continue
            with annotate({TURN_TAG: node["key"]}):
                try:
                    args, kwargs, refs = self._arguments(node)
                    with annotate({NODE_TAG: node["key"]}):
                        results = self._run_node(node, args, kwargs, refs)
                        self._keep(node, results)
                except PlanError:
                    raise
                except Exception as error:
                    raise self._error(f"{node['op']} cannot run on the local pieces: {error}", node["key"]) from error
                self._results |= {index: self._output(index) for index in made_by.pop(node["key"], ())}
                self._save(node, last_readers)
        # Some are no node's of this phase.
        self._results |= {index: self._output(index) for indices in made_by.values() for index in indices}

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
                wanted = self._canonical(choice.inputs[index])
                return self._read(value, wanted, self._entries.get((key, index)), f"input {index} of {key}")
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
            function = _with_own_numbers(self._states[key], function)
        site = Site(
            op=op,
            function=function,
            device=self._device,
            programs=choice.programs,
            shapes_in=[self._metas[value]["shape"] for value in refs],
            placed_in=[self._canonical(one) for one in choice.inputs],
            shapes_out=[[] if meta is None else meta["shape"] for meta in node["outputs"]],
            placed_out=[() if one is None else self._canonical(one) for one in choice.outputs],
        )
        return self._drive(run_local(site, args, kwargs))

    def _record_region(self, node: Json, args: list[Any]) -> list[Any]:
        """As one opaque op, which _bind_regions replaces by the author's function."""
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

    def _bind_regions(self, graph_module: fx.GraphModule) -> None:
        by_name = {node["args"][1]: node for node in self._document["nodes"] if node["op"] == FORWARD}
        wanted = {node["args"][2]: node["args"][3] for node in self._document["nodes"] if node["op"] == BACKWARD}
        for node in list(graph_module.graph.nodes):
            if node.target is torch.ops.autopar.local_map.default:
                tensors, name = node.args
                site = self._site(self._plan.nodes[by_name[name]["key"]])
                local = self._regions[name].local_map
                module: torch.nn.Module = RegionForward(local, site, wanted.get(name, ()))
                replaced: tuple[Any, ...] = (tensors,)
            elif node.target is torch.ops.autopar.local_map_backward.default:
                tape, grads, name, _ = node.args
                module, replaced = RegionBackward(), (tape, grads)
            else:
                continue
            target = name.replace(".", "_")
            graph_module.add_module(target, module)
            with graph_module.graph.inserting_before(node):
                call = graph_module.graph.call_module(target, replaced)
            call.meta = node.meta
            node.replace_all_uses_with(call)
            graph_module.graph.erase_node(node)
        graph_module.recompile()

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
            self._values[value] = {placed: result}

    # ---- random numbers ----

    def _stream(self, key: str) -> int:
        stream = 0
        for mesh_dim, (size, index) in enumerate(zip(self._device.mesh, self._device.coordinate, strict=True)):
            placed = [one[mesh_dim] for one in self._plan.nodes[key].outputs if one is not None]
            if any(is_partial(one) for one in placed):
                raise self._error("random numbers cannot be a pending sum", key)
            whole = all(one == "R" for one in placed)
            stream = stream * size + (0 if whole else index)
        return stream

    def _random_nodes(self, phase: str) -> list[RandomNode]:
        """Devices with different pieces of the output draw different numbers, those with the same piece the same."""
        return [
            RandomNode(key=node["key"], stream=self._stream(node["key"]))
            for node in self._document["nodes"]
            if node["phase"] == phase and is_random(node["op"], node["args"], node.get("kwargs", {}))
        ]

    def _error(self, text: str, key: str | None = None) -> PlanError:
        return PlanError(f"{self._plan.source}: {f'nodes.{key}: ' if key else ''}{text}")


def _reshape(self: Tensor, **size: list[int]) -> Tensor:
    """For views, which the layout of local tensors may not allow."""
    (shape,) = size.values()
    return self.reshape(shape)


def _with_own_numbers(state: Tensor, function: Any) -> Callable[..., Any]:
    def draw(**bound: Any) -> Any:
        # It looks for the device among what is given by position.
        names = [argument.name for argument in function._schema.arguments if not argument.kwarg_only]
        args = [bound.pop(name) for name in names]
        return run_with_rng_state(state, function, *args, **bound)

    return draw


def is_random(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    if op.startswith("autopar."):
        return False
    function = find_op(op)
    if torch.Tag.nondeterministic_seeded not in function.tags:
        return False
    return bool(bind(function._schema, args, dict(kwargs)).get("dropout_p", 1) != 0)
