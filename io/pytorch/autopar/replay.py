"""apply(): a model and a plan become a module that trains by the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.utils import _pytree as pytree

from .again import repeat_nodes
from .capture import Capture, Loss, capture, flatten_arguments
from .collectives import Collectives
from .compare import check_graph, check_mesh, check_other_sizes, check_parameters
from .errors import PlanError
from .exporter import check_torch
from .groups import Groups, groups_ahead, groups_of
from .lowering import describe, lower
from .materialise import Init, materialise, skeleton_of
from .model_file import graph_hash
from .parallel import ParallelModule, Step, place_whole
from .placements import Device
from .plan import NodePlan, Plan
from .program import LocalStep
from .random_numbers import is_random
from .read_plan import load_plan
from .regions import RegionSite
from .tensors import parse_tensor, tensor_text


def apply(
    model: nn.Module,
    plan: Plan | str | PathLike[str],
    mesh: DeviceMesh,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Loss | None = None,
    init: Init | None = None,
) -> ParallelModule:
    check_torch()
    if not isinstance(plan, Plan):
        plan = load_plan(plan)
    shape = tuple(mesh.mesh.shape)
    check_mesh(plan, shape, mesh.mesh_dim_names)
    if mesh.get_coordinate() is None:
        raise PlanError(f"{plan.source}: rank {dist.get_rank()} is not in the mesh")
    names = dict(model.named_parameters(remove_duplicate=False))
    check_parameters(plan, {name: tensor_text(describe(tensor)) for name, tensor in names.items()})
    groups = Groups(mesh)
    for mesh_dims in groups_of(plan):
        groups(mesh_dims)
    for mesh_dims in groups_ahead(plan):
        groups(mesh_dims, ahead=True)
    skeleton = skeleton_of(model)
    skeleton.train(model.training)
    # Nothing is drawn, as initialisation shall be that of one process.
    seed = groups.of_first(torch.initial_seed() % 2**62)
    parallel = ParallelModule(StepMaker(skeleton, plan, mesh, groups, loss), seed)
    parallel.train(model.training)
    if args is not None:
        groups.agree(lambda: parallel.prepare(*args, **(kwargs or {})))
    made = groups.agree(lambda: materialise(model, skeleton, plan, mesh, groups, init))
    for path, module in skeleton.named_modules(remove_duplicate=False):
        for holder in (module._parameters, module._buffers):
            for name, tensor in holder.items():
                if tensor is not None:
                    full_name = f"{path}.{name}" if path else name
                    persistent = name not in module._non_persistent_buffers_set
                    parallel.add_tensor(full_name, made[id(tensor)], persistent)
    return parallel


class StepMaker:
    """Captures the model with given arguments, compares with the plan, and makes the program."""

    def __init__(self, skeleton: nn.Module, plan: Plan, mesh: DeviceMesh, groups: Groups, loss: Loss | None) -> None:
        self._skeleton = skeleton
        self._plan = plan
        self._mesh = mesh
        self._groups = groups
        self._loss = loss
        coordinate = mesh.get_coordinate()
        assert coordinate is not None
        self._device = Device(mesh=plan.mesh_shape, coordinate=tuple(coordinate))
        self._belongs = False
        self._training = skeleton.training

    def __call__(self, training: bool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Step:
        self._skeleton.train(training)
        names, leaves, spec = flatten_arguments(self._skeleton, args, kwargs)
        whole = [_meta(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        planned = self._planned(names, whole)
        own = all(a is b or (isinstance(a, Tensor) and a.shape == b.shape) for a, b in zip(whole, planned, strict=True))
        if own or not self._belongs:
            captured, document = self._capture(planned, spec)
            try:
                check_graph(document, self._plan)
            except PlanError as error:
                if training == self._training:
                    raise
                mode = "train()" if training else "eval()"
                raise PlanError(f"{error} (the module is now in {mode} mode, in which it was not planned)") from None
            self._belongs = True
        if not own:
            captured, document = self._capture(whole, spec)
            check_other_sizes(document, self._plan)
        positions = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        return self._step(captured, document, dict(zip(names, positions, strict=True)))

    def _planned(self, names: Sequence[str], leaves: Sequence[Any]) -> list[Any]:
        """The arguments with the sizes that the plan was made for."""
        remaining = iter(names)
        planned = []
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                key = f"input.{next(remaining)}"
                node = self._plan.nodes.get(key)
                if node is not None:
                    dtype, shape = parse_tensor(node.tensors[0], f"{self._plan.source}: nodes.{key}.tensors[0]")
                    if len(shape) == leaf.dim() and dtype == str(leaf.dtype).removeprefix("torch."):
                        leaf = torch.empty(shape, dtype=leaf.dtype, device="meta", requires_grad=leaf.requires_grad)
            planned.append(leaf)
        return planned

    def _capture(self, leaves: Sequence[Any], spec: pytree.TreeSpec) -> tuple[Capture, dict[str, Any]]:
        args, kwargs = pytree.tree_unflatten(list(leaves), spec)
        captured = capture(self._skeleton, args, kwargs, self._loss, self._mesh.device_type)
        document = lower(captured)
        nodes = repeat_nodes(document["nodes"], self._recomputed(document["nodes"]))
        name = type(self._skeleton).__name__
        return captured, {**document, "nodes": nodes, "name": name, "graph_hash": graph_hash(document)}

    def _recomputed(self, nodes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        forward = {node["key"]: node for node in nodes if node["phase"] == "forward"}
        for key in self._plan.recompute:
            node = forward.get(key)
            if node is not None and is_random(node["op"], node["args"], node.get("kwargs", {})):
                raise PlanError(f"{self._plan.source}: recompute: {key} ({node['op']}) would draw other numbers")
        return tuple(key for key in self._plan.recompute if key in forward)

    def _step(self, captured: Capture, document: Mapping[str, Any], positions: Mapping[str, int]) -> Step:
        plan = self._plan
        inputs = document["inputs"]
        placements = {entry["key"]: plan.nodes[entry["key"]].outputs[0] or () for entry in inputs}
        program = LocalStep(
            document,
            plan,
            self._device,
            Collectives(self._device, self._groups),
            self._mesh.device_type,
            captured.regions,
            self._site,
        ).trace()
        outputs = list(zip(document["outputs"], plan.outputs, strict=True))
        constants = {
            entry["key"]: place_whole(
                self._constant(captured, entry["name"]).to(self._mesh.device_type),
                placements[entry["key"]],
                self._device,
            )
            for entry in inputs
            if entry["role"] == "constant"
        }
        arguments = [entry for entry in inputs if entry["role"] in ("input", "target")]
        return Step(
            program=program,
            tangents=[placements[key] for key in program.tangents],
            mesh=self._mesh,
            device=self._device,
            placements=placements,
            gradients={entry["of"]: one.placements for entry, one in outputs if entry["role"] == "gradient"},
            loss=next(one.placements for entry, one in outputs if entry["role"] == "loss"),
            constants=constants,
            arguments={entry["key"]: (positions[entry["name"]], entry["name"]) for entry in arguments},
        )

    def _constant(self, captured: Capture, name: str) -> Tensor:
        if name not in captured.constants:
            value: Tensor = getattr(captured.graph_module, name)
            return value
        *path, last = name.split(".")
        value = getattr(self._skeleton.get_submodule(".".join(path)), last)
        if value.device.type == "meta":
            raise PlanError(f"the tensor {name} of the model is on the meta device; give it values before apply()")
        return value

    def _site(self, choice: NodePlan) -> RegionSite:
        return RegionSite(
            mesh=self._mesh,
            inputs=choice.inputs,
            outputs=tuple(one for one in choice.outputs[:-1] if one is not None),
            groups=self._groups,
        )


def _meta(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)
