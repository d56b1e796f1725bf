"""A model's parameters and buffers as DTensors with a plan's placements."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import distribute_tensor

from .errors import PlanError
from .groups import Groups
from .placements import to_torch
from .plan import Plan

Init = Callable[[nn.Module], object]


def skeleton_of(model: nn.Module) -> nn.Module:
    """A copy without values of parameters and buffers; ties stay ties."""
    memo: dict[int, Tensor] = {}
    for parameter in model.parameters():
        memo[id(parameter)] = nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = buffer.detach().to("meta")
    return copy.deepcopy(model, memo)


def materialise(
    model: nn.Module, skeleton: nn.Module, plan: Plan, mesh: DeviceMesh, groups: Groups, init: Init | None
) -> dict[int, Tensor]:
    """The DTensor of every parameter and buffer, by the id of the tensor in `skeleton`. Tensors with values are taken
    from rank 0 of the mesh. Those on the meta device get theirs from their module's own initialisation, one module at
    a time, whole, from the same random numbers on every rank; each rank keeps its pieces.
    """
    made: dict[int, Tensor] = {}
    twins = dict(zip(model.modules(), skeleton.modules(), strict=True))
    names = {module: name for name, module in model.named_modules()}
    missing: list[tuple[str, nn.Module, nn.Module]] = []
    for module, twin in twins.items():
        prefix = f"{names[module]}." if names[module] else ""
        for holder, twin_holder in ((module._parameters, twin._parameters), (module._buffers, twin._buffers)):
            for name, tensor in holder.items():
                twin_tensor = twin_holder[name]
                if tensor is None or twin_tensor is None or id(twin_tensor) in made:
                    continue
                if tensor.device.type == "meta":
                    missing.append((names[module], module, twin))
                else:
                    made[id(twin_tensor)] = _distribute(tensor, prefix + name, plan, mesh, rank=0)
    if missing:
        _share_random_state(mesh, groups)
        _initialise(dict.fromkeys(missing), plan, mesh, init or _default_init(model), made)
    return made


def _distribute(tensor: Tensor, name: str, plan: Plan, mesh: DeviceMesh, rank: int | None) -> Tensor:
    # Buffers that no op reads are not in the plan.
    node = plan.nodes.get(name)
    placed = (node.outputs[0] if node else None) or ("R",) * mesh.ndim
    whole = tensor.detach().to(mesh.device_type)
    result = distribute_tensor(whole, mesh, list(map(to_torch, placed)), src_data_rank=rank)
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(result, requires_grad=tensor.requires_grad)
    return result


def _initialise(
    modules: Mapping[tuple[str, nn.Module, nn.Module], None],
    plan: Plan,
    mesh: DeviceMesh,
    init: Init,
    made: dict[int, Tensor],
) -> None:
    for path, module, twin in modules:
        prefix = f"{path}." if path else ""
        holders: tuple[dict[str, Any], ...] = (twin._parameters, twin._buffers)
        before = [dict(holder) for holder in holders]
        for holder in holders:
            for name, tensor in holder.items():
                if tensor is not None:
                    holder[name] = _empty_like(tensor, mesh.device_type)
        try:
            with torch.no_grad(), torch.device(mesh.device_type):
                init(twin)
        except NotImplementedError as error:
            raise PlanError(
                f"module {path!r} ({type(module).__name__}) has tensors on the meta device: {error}"
            ) from error
        for holder, old in zip(holders, before, strict=True):
            for name, tensor in old.items():
                whole = holder[name]
                if tensor is not None and whole is not None and id(tensor) not in made:
                    made[id(tensor)] = _distribute(whole, prefix + name, plan, mesh, rank=None)
            holder.clear()
            holder.update(old)


def _empty_like(tensor: Tensor, device: str) -> Tensor:
    whole = torch.empty_like(tensor, device=device)
    return nn.Parameter(whole, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else whole


def _share_random_state(mesh: DeviceMesh, groups: Groups) -> None:
    """All ranks of the mesh go on with the random numbers of its first one: they may have been seeded differently, and
    the pieces must be of the same numbers."""
    states = [torch.get_rng_state()]
    if mesh.device_type == "cuda":
        states.append(torch.cuda.get_rng_state())
    states = groups.of_first(states)
    torch.set_rng_state(states[0])
    if mesh.device_type == "cuda":
        torch.cuda.set_rng_state(states[1])


def _default_init(model: nn.Module) -> Init:
    own = getattr(model, "_init_weights", None)  # Hugging Face models initialise module by module

    def init(module: nn.Module) -> None:
        reset = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
        if callable(own):
            own(module)
        elif callable(reset):
            reset()
        else:
            raise NotImplementedError(
                "it has no reset_parameters(); pass init=, a function that initialises the module it is given"
            )

    return init
