"""From a captured FX graph to the parts of model.json: inputs, nodes and outputs."""

from __future__ import annotations

import json
import math
import operator
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd import descriptors as aot
from torch._ops import OpOverload

from .again import repeat_views
from .capture import MODEL_PREFIX, MODULE_TAG, Capture
from .errors import ExportError
from .model_file import DTYPES, KeyMaker, refs_in
from .regions import BACKWARD, CONSTRAIN, FORWARD
from .strategy import declared_strategies, has_rule

Json = dict[str, Any]
COLLECTIVES = ("_c10d_functional.", "_c10d_functional_autograd.", "c10d.", "_dtensor.")


def lower(capture: Capture) -> Json:
    """`inputs`, `nodes` and `outputs` of model.json, and the `constraints` that the model itself states."""
    return _Lowering(capture).run()


class _Lowering:
    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._graph = capture.graph_module.graph
        self._keys = KeyMaker()
        self._refs: dict[fx.Node, Json] = {}
        self._literals: dict[fx.Node, int | float | bool | None] = {}
        self._sequence: dict[int, int] = {}
        self._modules: dict[fx.Node, str] = {}
        self._inputs: list[Json] = []
        self._nodes: list[Json] = []
        self._pins: dict[str, Any] = {}

    def run(self) -> Json:
        outputs: list[Json] = []
        for node in self._graph.nodes:
            if node.op == "placeholder":
                self._add_placeholder(node)
            elif node.op == "get_attr":
                self._add_constant(node)
            elif node.op == "output":
                outputs = self._outputs(node)
            elif node.target is operator.getitem:
                self._fold_getitem(node)
            else:
                self._add_node(node)
        if not any(entry["role"] == "tangent" for entry in self._inputs):
            raise ExportError("the loss is a parameter or an argument, or a view of one, so there is nothing to train")
        _mark_targets(self._inputs, self._nodes)
        constraints = {"nodes": self._pins} if self._pins else {}
        nodes = repeat_views(self._nodes, outputs)
        return {"inputs": self._inputs, "nodes": nodes, "outputs": outputs, "constraints": constraints}

    def _add_input(self, node: fx.Node, key: str, role: str, name: str) -> None:
        self._refs[node] = {"ref": key}
        entry = {"key": key, "role": role, "name": name, **describe(node.meta["val"])}
        if name in self._capture.aliases and role in ("parameter", "buffer"):
            entry["aliases"] = list(self._capture.aliases[name])
        self._inputs.append(entry)

    def _add_placeholder(self, node: fx.Node) -> None:
        description = node.meta["desc"]
        self._add_input(node, *self._describe_input(description))

    def _describe_input(self, description: aot.AOTInput) -> tuple[str, str, str]:
        """Key, role and name."""
        match description:
            case aot.ParamAOTInput(target=target):
                name = target.removeprefix(MODEL_PREFIX)
                return name, "parameter", name
            case aot.BufferAOTInput(target=target):
                name = target.removeprefix(MODEL_PREFIX)
                if name in self._capture.constants:
                    return f"constant.{name}", "constant", name
                return name, "buffer", name
            case aot.PlainAOTInput(idx=index):
                name = self._capture.input_names[index]
                return f"input.{name}", "input", name
            case aot.TangentAOTInput(output=aot.PlainAOTOutput(idx=0)):
                return "tangent.loss", "tangent", "loss"
        raise ExportError(f"the captured graph has an input that model.json cannot describe: {description.expr()}")

    def _add_constant(self, node: fx.Node) -> None:
        name = str(node.target)
        value = getattr(self._capture.graph_module, name, None)
        if not isinstance(value, torch.Tensor):
            raise ExportError(
                f"the model uses a higher-order op (subgraph {name!r}), which model.json cannot describe; "
                "replace control flow and flex attention by plain ops"
            )
        if value.requires_grad:
            raise ExportError(
                f"the model reads a tensor of shape {list(value.shape)} that requires a gradient but is no parameter "
                "of a module, such as one in a list; its gradient would be lost: register it (nn.ParameterList)"
            )
        node.meta.setdefault("val", value)
        key = f"constant.{name}"
        # Unlike other inputs, a constant has a node wherever it is read.
        if any(entry["key"] == key for entry in self._inputs):
            self._refs[node] = {"ref": key}
        else:
            self._add_input(node, key, "constant", name)

    def _fold_getitem(self, node: fx.Node) -> None:
        source, index = node.args
        assert isinstance(source, fx.Node)
        assert isinstance(index, int)
        value = source.meta["val"][index]
        if source in self._modules:
            self._modules[node] = self._modules[source]
        if isinstance(value, torch.Tensor):
            ref = self._refs[source]
            self._refs[node] = {**ref, "output": index} if index else ref
        else:
            self._literals[node] = value

    def _add_node(self, node: fx.Node) -> None:
        if not isinstance(node.target, OpOverload):
            raise ExportError(f"the captured graph has a node that is no ATen op: {node.format_node()}")
        op = str(node.target)
        if op.startswith(COLLECTIVES):
            raise ExportError(
                f"the model communicates by itself ({op}), which a plan cannot know about; put what does so into a "
                "region (autopar.local_map)"
            )
        phase = "backward" if str(node.meta.get("partitioner_tag", "")).endswith("backward") else "forward"
        recorded = node.meta.get("custom", {}).get(MODULE_TAG)
        module = self._module_of_accumulation(node) if recorded is None else recorded
        self._modules[node] = module
        key = self._keys.key(module, phase, op)
        self._refs[node] = {"ref": key}
        try:
            entry: Json = {"key": key, "op": op, "args": [self._arg(arg) for arg in node.args]}
            if node.kwargs:
                entry["kwargs"] = {name: self._arg(arg) for name, arg in node.kwargs.items()}
            entry["outputs"] = [describe(value) if isinstance(value, torch.Tensor) else None for value in _values(node)]
            entry |= self._declared(node, op, entry)
        except ExportError as error:
            raise ExportError(f"{key} ({op}): {error}") from error
        entry |= {"module": module, "phase": phase}
        if recorded is not None and (sequence := node.meta.get("seq_nr", -1)) >= 0:
            # Autograd counts through the whole process, so the numbers themselves would differ from run to run.
            entry["seq"] = self._sequence.setdefault(sequence, len(self._sequence))
        self._nodes.append(entry)

    def _declared(self, node: fx.Node, op: str, entry: Json) -> Json:
        """What the model's author says about the node: strategies, costs, pins."""
        if op == CONSTRAIN:
            source, pins, _ = node.args
            assert isinstance(pins, str)
            entry["args"] = [self._arg(source)]
            self._pins[entry["key"]] = json.loads(pins)
            return {}
        if op == FORWARD:
            region = self._capture.regions[entry["args"][1]]
            strategies = [strategy.forward() for strategy in region.local_map.strategies]
            for strategy in strategies:
                strategy["outputs"].append("R")  # the tape
            return {"strategies": strategies, **({} if region.flops is None else {"flops": region.flops})}
        if op == BACKWARD:
            tape, _, name, wanted = entry["args"]
            region = self._capture.regions[name]
            outputs = [index for index, one in enumerate(region.outputs) if one.is_floating_point()]
            strategies = [strategy.backward(outputs, wanted) for strategy in region.local_map.strategies]
            for strategy in strategies:
                strategy["inputs"].insert(0, "R")
            flops = {} if region.flops is None else {"flops": 2 * region.flops}
            return {"strategies": strategies, "same_strategy_as": tape["ref"], **flops}
        if not has_rule(op):
            return {}
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
        num_inputs = sum(1 for _ in refs_in([entry["args"], entry.get("kwargs", {})]))
        return {"strategies": declared_strategies(op, args, kwargs, num_inputs, len(entry["outputs"]))}

    def _module_of_accumulation(self, node: fx.Node) -> str:
        """Autograd adds up the gradients of a value that several ops read outside of any module, when the last one
        arrives: that of the first reader, in whose module the sum is put.
        """
        # FX nodes compare by their order in the graph.
        known = [source for source in node.all_input_nodes if source in self._modules]
        return self._modules[max(known)] if known else ""

    def _arg(self, value: Any) -> Any:
        match value:
            case fx.Node():
                return self._literals[value] if value in self._literals else self._refs[value]
            case list() | tuple():
                return [self._arg(item) for item in value]
            case torch.dtype():
                return {"dtype": _dtype(value)}
            case torch.device():
                return {"device": str(value)}
            case torch.layout():
                return {"layout": _short(value)}
            case torch.memory_format():
                return {"memory_format": _short(value)}
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": str(value)}
        raise ExportError(f"model.json cannot describe an argument of type {type(value).__name__}: {value!r}")

    def _outputs(self, node: fx.Node) -> list[Json]:
        outputs: list[Json] = []
        values = node.args[0]
        assert isinstance(values, tuple | list)
        for value, description in zip(values, node.meta["desc"], strict=True):
            # None stands for the gradient of an input that needs none.
            if isinstance(value, fx.Node):
                outputs.append({**self._refs[value], **self._describe_output(description)})
        return outputs

    def _describe_output(self, description: aot.AOTOutput) -> Json:
        match description:
            case aot.PlainAOTOutput(idx=0):
                return {"role": "loss"}
            case aot.GradAOTOutput(grad_of=source):
                return {"role": "gradient", "of": self._describe_input(source)[0]}
            case aot.InputMutationAOTOutput(mutated_input=source):
                return {"role": "mutation", "of": self._describe_input(source)[0]}
        raise ExportError(f"the captured graph has an output that model.json cannot describe: {description.expr()}")


def _short(constant: Any) -> str:
    return str(constant).removeprefix("torch.")


def _dtype(dtype: torch.dtype) -> str:
    name = _short(dtype)
    if name not in DTYPES:
        raise ExportError(f"model.json has no dtype {name}, only {', '.join(DTYPES)}")
    return name


def _values(node: fx.Node) -> list[Any]:
    value = node.meta.get("val")
    if value is None:
        return []
    return list(value) if isinstance(value, tuple | list) else [value]


def describe(value: torch.Tensor) -> Json:
    """A tensor as model.json has it."""
    if not all(isinstance(size, int) for size in (*value.shape, *value.stride())):
        raise ExportError(
            f"the shape {list(value.shape)} depends on data or is dynamic; only fixed shapes are exported"
        )
    return {"shape": list(value.shape), "stride": list(value.stride()), "dtype": _dtype(value.dtype)}


def _mark_targets(inputs: list[Json], nodes: list[Json]) -> None:
    """An input that only the loss reads is a target: no parameter meets anything that was made from it."""
    made_from: dict[str, set[str]] = {}  # key of a value to the inputs that are in it
    states = {entry["key"] for entry in inputs if entry["role"] in ("parameter", "buffer", "constant")}
    candidates = {entry["key"] for entry in inputs if entry["role"] == "input"}
    read: set[str] = set()
    weights = set(states)  # states and what is made from them alone
    for node in nodes:
        if node["phase"] != "forward":
            continue
        refs = [key for key, _ in refs_in([node["args"], node.get("kwargs", {})])]
        sources = {source for ref in refs for source in made_from.get(ref, {ref} & candidates)}
        made_from[node["key"]] = sources
        read |= {source for source in sources if any(ref in candidates for ref in refs) or source in read}
        if sources and any(ref in weights for ref in refs):
            candidates -= sources
        elif refs and all(ref in weights for ref in refs):
            weights.add(node["key"])
    for entry in inputs:
        if entry["key"] in candidates & read:
            entry["role"] = "target"
