"""The module that trains by a plan: parameters as DTensors under the model's own names, and two graphs that run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate

from .placements import Device, shard_dim, to_torch
from .plan import Placements
from .program import Program, RandomNode

MASK = 2**64 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A program with what surrounds it: where its inputs come from and what happens with its outputs."""

    program: Program
    mesh: DeviceMesh
    device: Device
    placements: Mapping[str, Placements]  # of every graph input
    gradients: Mapping[str, Placements]  # of the gradients that the program gives, by the graph input they are of
    loss: Placements
    constants: Mapping[str, Tensor]  # local
    names: Mapping[str, str]  # of the arguments among the graph inputs, by key


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, step: Step, states: tuple[list[Tensor], list[Tensor]], *values: Any) -> Any:
        program = step.program
        # The casts of mixed precision are in the graph.
        with torch.autocast(step.mesh.device_type, enabled=False):
            results = program.forward(*values, *states[0])
        count = len(program.forward_outputs)
        outputs, saved = tuple(results[:count]), results[count:]
        ctx.save_for_backward(*(value for value in saved if isinstance(value, Tensor)))
        ctx.others = [None if isinstance(value, Tensor) else value for value in saved]
        ctx.step, ctx.states = step, states[1]
        ctx.mark_non_differentiable(
            *(value for value, output in zip(outputs, program.forward_outputs, strict=True) if output["role"] != "loss")
        )
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        step: Step = ctx.step
        program = step.program
        tensors = iter(ctx.saved_tensors)
        saved = [next(tensors) if other is None else other for other in ctx.others]
        (loss,) = (i for i, output in enumerate(program.forward_outputs) if output["role"] == "loss")
        tangents = [place_whole(grads[loss], step.placements[key], step.device) for key in program.tangents]
        with torch.autocast(step.mesh.device_type, enabled=False):
            results = program.backward(*saved, *ctx.states, *tangents)
        made = {output["of"]: grad for output, grad in zip(program.backward_outputs, results, strict=True)}
        return None, None, *(made.get(key) for key in program.inputs)


def place_whole(tensor: Tensor, placements: Sequence[str], device: Device) -> Tensor:
    """The local tensor of one that every device has whole."""
    for mesh_dim, placement in enumerate(placements):
        dim = shard_dim(placement)
        count, index = device.mesh[mesh_dim], device.coordinate[mesh_dim]
        if dim is not None:
            size = tensor.shape[dim]
            length = -(-size // count)
            begin = min(index * length, size)
            tensor = tensor.narrow(dim, begin, min(length, size - begin))
        elif placement != "R" and count > 1 and index > 0:  # a pending sum
            tensor = torch.zeros_like(tensor)
    return tensor.contiguous()


class ParallelModule(nn.Module):
    """Calls as the model does and gives its loss: a scalar, the same on every rank.

    A plain tensor among the arguments is the whole one, the same on every rank; each rank takes its piece. A DTensor
    says itself what it is: `DTensor.from_local` makes one of the piece that a rank has loaded; `input_placements` tells
    which pieces the plan wants, so that nothing has to be moved.
    """

    def __init__(self, find_step: Callable[..., tuple[Step, dict[str, Any]]], seed: int) -> None:
        super().__init__()
        self._find_step = find_step
        self._sources: dict[str, tuple[nn.Module, str]] = {}
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Restarts the random numbers of dropout and the like. All ranks must give the same seed."""
        self._random = torch.Generator().manual_seed(seed)

    def add_tensor(self, name: str, tensor: Tensor, persistent: bool) -> None:
        """Under its fully qualified name; the modules on the way there are containers."""
        *path, last = name.split(".")
        holder: nn.Module = self
        for part in path:
            if part not in holder._modules:
                holder.add_module(part, nn.Module())
            holder = holder._modules[part]  # type: ignore[assignment]
        if isinstance(tensor, nn.Parameter):
            holder.register_parameter(last, tensor)
        else:
            holder.register_buffer(last, tensor, persistent=persistent)
        self._sources[name] = (holder, last)

    def input_placements(self, *args: Any, **kwargs: Any) -> dict[str, tuple[Any, ...]]:
        """DTensor placements that the plan gives the tensors among these arguments, by name."""
        step, _ = self._find_step(self.training, args, kwargs)
        return {name: tuple(map(to_torch, step.placements[key])) for key, name in step.names.items()}

    def graphs(self, *args: Any, **kwargs: Any) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
        """The forward and the backward graph that a call with these arguments runs."""
        step, _ = self._find_step(self.training, args, kwargs)
        return step.program.forward, step.program.backward

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        step, arguments = self._find_step(self.training, args, kwargs)
        values = [self._value(step, key, arguments) for key in step.program.inputs]
        outputs = _Run.apply(  # type: ignore[no-untyped-call]
            step, self._states(step), *values
        )
        loss: Tensor | None = None
        for output, value in zip(step.program.forward_outputs, outputs, strict=True):
            if output["role"] == "loss":
                loss = value
            else:
                holder, name = self._sources[output["of"]]
                with torch.no_grad():
                    getattr(holder, name).to_local().copy_(value)
        assert loss is not None
        if any(placement != "R" for placement in step.loss):
            return DTensor.from_local(loss, step.mesh, tuple(map(to_torch, step.loss)), run_check=False).full_tensor()
        return loss

    def _value(self, step: Step, key: str, arguments: Mapping[str, Any]) -> Tensor:
        if key in step.constants:
            return step.constants[key]
        placements = step.placements[key]
        if key in self._sources:
            holder, name = self._sources[key]
            local: Tensor = getattr(holder, name).to_local()
            return local
        tensor = arguments[step.names[key]]
        if isinstance(tensor, DTensor) or tensor.requires_grad:
            if not isinstance(tensor, DTensor):
                whole = (Replicate(),) * step.mesh.ndim
                tensor = DTensor.from_local(tensor.to(step.mesh.device_type), step.mesh, whole, run_check=False)
            placed = tensor.redistribute(step.mesh, tuple(map(to_torch, placements)))
            grads = step.gradients.get(key, placements)
            piece: Tensor = placed.to_local(grad_placements=tuple(map(to_torch, grads)))
            return piece
        return place_whole(tensor.to(step.mesh.device_type), placements, step.device)

    def _states(self, step: Step) -> tuple[list[Tensor], list[Tensor]]:
        """One random generator state for every node that draws, new in every call."""
        program = step.program
        if not program.random_forward and not program.random_backward:
            return [], []
        base = int(torch.randint(2**62, (), generator=self._random))
        device = step.mesh.device_type
        forward = [_state(base, 2 * i, node, device) for i, node in enumerate(program.random_forward)]
        return forward, [_state(base, 2 * i + 1, node, device) for i, node in enumerate(program.random_backward)]


def _state(base: int, index: int, node: RandomNode, device: str) -> Tensor:
    seed = _mix(_mix(_mix(base) ^ index) ^ node.stream)
    return torch.Generator(device).manual_seed(seed >> 1).get_state()


def _mix(value: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): seeds that are near become seeds that are not."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)
