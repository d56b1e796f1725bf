"""The module that trains by a plan: parameters as DTensors under the model's own names, and two graphs that run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._inductor.config
from torch import Tensor, nn
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.utils import _pytree as pytree

from .placements import Device, is_partial, piece_of, shard_dim, to_torch
from .plan import Placements
from .program import Program
from .random_numbers import RandomNode

MASK = 2**64 - 1
Compiler = Callable[[Any], Any]  # of a graph module


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A program with what surrounds it: where its inputs come from and what happens with its outputs."""

    program: Program
    tangents: Sequence[Placements]
    mesh: DeviceMesh
    device: Device
    placements: Mapping[str, Placements]  # of every graph input
    gradients: Mapping[str, Placements]  # of the gradients that the program gives, by the graph input they are of
    loss: Placements
    constants: Mapping[str, Tensor]  # local, by key
    arguments: Mapping[str, tuple[int, str]]  # by key: which leaf of the call's arguments, and its name
    runs: dict[Any, type[torch.autograd.Function]] = field(default_factory=dict)  # by compiler

    def run(self, compiler: Compiler | None) -> type[torch.autograd.Function]:
        """The program as a differentiable function."""
        if compiler not in self.runs:
            if compiler is None:
                self.runs[compiler] = make_run(self, lambda graph: graph)
            else:
                self.runs[compiler] = make_run(self, keeping_order(compiler) if self.program.overlaps else compiler)
        return self.runs[compiler]


def keeping_order(compiler: Compiler) -> Compiler:
    """To save memory, Inductor moves collectives to where they are waited for, or waits to where they are issued."""

    def compile_graph(graph: Any) -> Any:
        compiled = compiler(graph)

        def run(*args: Any) -> Any:
            # The first call compiles.
            with torch._inductor.config.patch(reorder_for_peak_memory=False):
                return compiled(*args)

        return run

    return compile_graph


def make_run(step: Step, compiler: Compiler) -> type[torch.autograd.Function]:
    """A function of the forward graph's inputs and then the random states of the backward graph.

    The two graphs are compiled each for itself: what is kept from one to the other is the plan's choice, and ranks,
    whose pieces differ, must not choose differently what is computed again, collectives included.
    """
    program, device, device_type = step.program, step.device, step.mesh.device_type
    forward_graph, backward_graph = compiler(program.forward), compiler(program.backward)
    num_outputs = len(program.forward_outputs)
    roles = [output["role"] for output in program.forward_outputs]
    loss = roles.index("loss")
    num_forward = len(program.inputs) + len(program.random_forward)
    gradient_of = [output["of"] for output in program.backward_outputs]
    position = [gradient_of.index(key) if key in gradient_of else -1 for key in program.inputs]
    num_states = len(program.random_forward) + len(program.random_backward)

    class Run(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *values: Any) -> Any:
            # The casts of mixed precision are in the graph.
            with torch.autocast(device_type, enabled=False):
                results = forward_graph(*values[:num_forward])
            saved = results[num_outputs:]
            ctx.save_for_backward(*(value for value in saved if isinstance(value, Tensor)))
            ctx.others = [None if isinstance(value, Tensor) else value for value in saved]
            ctx.states = values[num_forward:]
            outputs = tuple(results[:num_outputs])
            ctx.mark_non_differentiable(*(outputs[i] for i in range(num_outputs) if i != loss))
            return outputs

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *grads: Any) -> Any:
            values = _take_saved(ctx)
            values += ctx.states
            values += [place_whole(grads[loss], placements, device) for placements in step.tangents]
            with torch.autocast(device_type, enabled=False):
                made = backward_graph(values)
            return (*(None if index < 0 else made[index] for index in position), *([None] * num_states))

    return Run


def _take_saved(ctx: Any) -> list[Any]:
    """Nothing else holds them any longer, unless the autograd graph is to be used again."""
    tensors = iter(ctx.saved_tensors)
    saved = [next(tensors) if other is None else other for other in ctx.others]
    ctx.maybe_clear_saved_tensors()
    if not torch._C._autograd._get_current_graph_task_keep_graph():
        ctx.others = ()
    return saved


def place_whole(tensor: Tensor, placements: Sequence[str], device: Device) -> Tensor:
    """The local tensor of one that every device has whole."""
    for placement, count, index in zip(placements, device.mesh, device.coordinate, strict=True):
        dim = shard_dim(placement)
        if dim is not None:
            tensor = tensor.narrow(dim, *piece_of(tensor.shape[dim], count, index))
        elif is_partial(placement) and index > 0:
            tensor = torch.zeros_like(tensor)
    return tensor.contiguous()


class ParallelModule(nn.Module):
    """Calls as the model does and gives its loss: a scalar, the same on every rank.

    A plain tensor among the arguments is the whole one, the same on every rank; each rank takes its piece. A DTensor
    says itself what it is: `DTensor.from_local` makes one of the piece that a rank has loaded; `input_placements` tells
    which pieces the plan wants, so that nothing has to be moved.
    """

    def __init__(self, make_step: Callable[[bool, Sequence[Any], Mapping[str, Any]], Step], seed: int) -> None:
        super().__init__()
        self._make_step = make_step
        self._steps: dict[Any, Step] = {}
        self._compiler: Compiler | None = None
        self._compilers: dict[int, tuple[Any, Compiler]] = {}
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

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Makes the program for such arguments, which the first call does otherwise."""
        self._find_step(args, kwargs)

    def input_placements(self, *args: Any, **kwargs: Any) -> dict[str, tuple[Any, ...]]:
        """DTensor placements that the plan gives the tensors among these arguments, by name."""
        step, _ = self._find_step(args, kwargs)
        return {name: tuple(map(to_torch, step.placements[key])) for key, (_, name) in step.arguments.items()}

    def graphs(self, *args: Any, **kwargs: Any) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
        """The forward and the backward graph that a call with these arguments runs."""
        step, _ = self._find_step(args, kwargs)
        return step.program.forward, step.program.backward

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles the two graphs, with the arguments of torch.compile. `torch.compile(parallel)` does so too."""
        self._compiler = functools.partial(torch.compile, *args, **kwargs)

    @torch.compiler.disable(recursive=False)  # type: ignore[untyped-decorator]
    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        loss: Tensor = self._run(args, kwargs, self._compiler or self._active_compiler())
        return loss

    def _active_compiler(self) -> Compiler | None:
        """Compiles as the torch.compile does inside which this runs, if it does."""
        backend: Any = get_eval_frame_callback()
        if not callable(backend):
            return None
        while hasattr(backend, "_torchdynamo_orig_backend"):
            backend = backend._torchdynamo_orig_backend
        # Backends may be unhashable.
        _, compiler = self._compilers.setdefault(
            id(backend), (backend, functools.partial(torch.compile, backend=backend))
        )
        return compiler

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any], compiler: Compiler | None) -> Tensor:
        step, leaves = self._find_step(args, kwargs)
        values = [self._value(step, key, leaves) for key in step.program.inputs]
        outputs = step.run(compiler).apply(*values, *self._states(step))
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
            whole: Tensor = DTensor.from_local(
                loss, step.mesh, tuple(map(to_torch, step.loss)), run_check=False
            ).full_tensor()
            return whole
        return loss

    def _find_step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Step, list[Any]]:
        """The step for arguments like these, and their leaves."""
        leaves = pytree.tree_leaves((args, kwargs))
        key = (self.training, _signature(args), _signature(kwargs))
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = self._make_step(self.training, args, kwargs)
        return step, leaves

    def _value(self, step: Step, key: str, leaves: Sequence[Any]) -> Tensor:
        if key in step.constants:
            return step.constants[key]
        if key in self._sources:
            holder, name = self._sources[key]
            local: Tensor = getattr(holder, name).to_local()
            return local
        placements = step.placements[key]
        tensor = leaves[step.arguments[key][0]]
        if isinstance(tensor, DTensor) or tensor.requires_grad:
            if not isinstance(tensor, DTensor):
                whole = (Replicate(),) * step.mesh.ndim
                tensor = DTensor.from_local(tensor.to(step.mesh.device_type), step.mesh, whole, run_check=False)
            placed = tensor.redistribute(step.mesh, tuple(map(to_torch, placements)))
            grads = step.gradients.get(key, placements)
            piece: Tensor = placed.to_local(grad_placements=tuple(map(to_torch, grads)))
            return piece
        return place_whole(tensor.to(step.mesh.device_type), placements, step.device)

    def _states(self, step: Step) -> list[Tensor]:
        """One random generator state for every node that draws, new in every call."""
        nodes = [*step.program.random_forward, *step.program.random_backward]
        return _make_states(self._random, nodes, step.mesh.device_type) if nodes else []


def _make_states(random: torch.Generator, nodes: Sequence[RandomNode], device: str) -> list[Tensor]:
    base = int(torch.randint(2**62, (), generator=random))
    return [_state(base, index, node, device) for index, node in enumerate(nodes)]


def _signature(value: Any) -> Any:
    """What makes a call another program: nesting, shapes and dtypes, and all that is no tensor."""
    if isinstance(value, dict):
        return tuple((key, _signature(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(_signature(item) for item in value)
    if not isinstance(value, Tensor):
        return value
    kind = "dtensor" if isinstance(value, DTensor) else "tensor"
    return kind, tuple(value.shape), value.dtype, value.requires_grad


def _state(base: int, index: int, node: RandomNode, device: str) -> Tensor:
    seed = _mix(_mix(_mix(base) ^ index) ^ node.stream)
    return torch.Generator(device).manual_seed(seed >> 1).get_state()


def _mix(value: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): seeds that are near become seeds that are not."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)
