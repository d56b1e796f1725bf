"""Whether a plan belongs to a captured model. Messages name the first difference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from .errors import PlanError
from .placements import shard_dim
from .plan import Plan
from .tensors import parse_tensor, tensor_text

Json = Mapping[str, Any]


def check_mesh(plan: Plan, shape: Sequence[int], names: Sequence[str] | None) -> None:
    wanted = dict(zip(plan.mesh_dim_names, plan.mesh_shape, strict=True))
    if tuple(shape) != plan.mesh_shape:
        raise PlanError(f"{plan.source}: is for a mesh of {_mesh_text(wanted)}; this mesh has the shape {tuple(shape)}")
    if names is None or tuple(names) != plan.mesh_dim_names:
        called = "have no names (mesh_dim_names)" if names is None else f"are called {tuple(names)}"
        raise PlanError(f"{plan.source}: is for a mesh of {_mesh_text(wanted)}; the dims of this mesh {called}")


def _mesh_text(mesh: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in mesh.items())


def check_parameters(plan: Plan, tensors: Mapping[str, str]) -> None:
    """`tensors`: dtype and shape of every parameter by name, all names of tied ones."""
    for name, tensor in tensors.items():
        if name not in plan.parameters:
            raise PlanError(f"{plan.source}: the model's parameter {name} is not in the plan (model {plan.model_name})")
        node = plan.nodes.get(name)
        if node is not None and node.tensors[0] != tensor:
            raise PlanError(f"{plan.source}: parameter {name} is {node.tensors[0]} in the plan, {tensor} in the model")
    for name in plan.parameters:
        if name not in tensors:
            raise PlanError(f"{plan.source}: parameter {name} of the plan is not in the model")


def check_graph(document: Json, plan: Plan) -> None:
    """Raises PlanError unless the plan was made for this very graph."""
    difference = next(_differences(document, plan, sizes=True), None)
    if difference or document["graph_hash"] != plan.graph_hash:
        raise PlanError(
            f"{plan.source}: was made for another training step than this one of {document['name']}: "
            + (
                difference
                or "the ops and tensors are the same, but some literal argument (a dim, a probability, …) is not"
            )
        )


def check_other_sizes(document: Json, plan: Plan) -> None:
    """Raises PlanError unless the plan can run this graph, which differs from its own in sizes (of the batch, say):
    what it cuts in equal pieces must stay so, and no device may be left without a piece."""
    difference = next(_differences(document, plan, sizes=False), None)
    if difference:
        raise PlanError(f"{plan.source}: with these sizes the training step is another one: {difference}")
    shapes: dict[tuple[str, int], list[int]] = {(entry["key"], 0): entry["shape"] for entry in document["inputs"]}
    for node in document["nodes"]:
        shapes |= {(node["key"], i): meta["shape"] for i, meta in enumerate(node["outputs"]) if meta is not None}
    for entry in (*document["inputs"], *document["nodes"]):
        choice = plan.nodes[entry["key"]]
        for index, placed in enumerate(choice.outputs):
            if placed is not None:
                _check_cuts(plan, entry["key"], index, shapes[(entry["key"], index)], placed)
    for redistribution in plan.redistributions:
        value = (redistribution.value, redistribution.output)
        for step in redistribution.steps:
            _check_cuts(plan, *value, shapes[value], step.to)


def _check_cuts(plan: Plan, key: str, output: int, shape: Sequence[int], placed: Sequence[str]) -> None:
    _, before = parse_tensor(plan.nodes[key].tensors[output], f"{plan.source}: nodes.{key}.tensors[{output}]")
    for dim, (old, new) in enumerate(zip(before, shape, strict=True)):
        sizes = [size for size, one in zip(plan.mesh_shape, placed, strict=True) if shard_dim(one) == dim]
        count = 1
        left = new
        for size in sizes:
            count *= size
            pieces = -(-left // -(-left // size)) if left else 0
            if pieces < size:
                raise PlanError(
                    f"{plan.source}: nodes.{key}: dim {dim} of size {new} (planned: {old}) is cut in {count} pieces, "
                    "of which some would be empty; plan for this size"
                )
            left = -(-left // size)
        if old % count == 0 and new % count != 0:
            raise PlanError(
                f"{plan.source}: nodes.{key}: dim {dim} of size {new} (planned: {old}) is cut in {count} equal pieces, "
                "which this size does not allow; choose a multiple, or plan for this size"
            )


def _differences(document: Json, plan: Plan, *, sizes: bool) -> Iterator[str]:
    """Between the nodes of a graph and of a plan; sizes of dims count if `sizes`."""
    entries = [*document["inputs"], *document["nodes"]]
    for entry, key in zip_longest(entries, plan.nodes):
        if entry is None:
            yield f"the plan has {key}, which the model does not run"
            return
        if key != entry["key"]:
            planned = "nothing" if key is None else f"{key}"
            yield f"the model has {entry['key']} where the plan has {planned}"
            return
        choice = plan.nodes[key]
        op = entry.get("op", "placeholder")
        if op != choice.op:
            yield f"{key} is {op} in the model, {choice.op} in the plan"
        if choice.phase is not None and choice.phase != entry.get("phase"):
            yield f"{key} is of the {entry.get('phase', 'inputs')} in the model, of the {choice.phase} in the plan"
        found = [None if meta is None else tensor_text(meta) for meta in entry.get("outputs", [entry])]
        same = (lambda one: one) if sizes else _without_sizes
        if list(map(same, found)) != list(map(same, choice.tensors)):
            model, planned = (", ".join(map(str, side)) for side in (found, choice.tensors))
            yield f"{key} ({op}) gives {model} in the model, {planned} in the plan"
    if len(document["outputs"]) != len(plan.outputs):
        yield f"the model has {len(document['outputs'])} outputs, the plan {len(plan.outputs)}"


def _without_sizes(tensor: str | None) -> str | None:
    return None if tensor is None else re.sub(r"[0-9]+(?=[],])", "_", tensor)
