"""What model authors keep in their own hands: regions that they parallelise themselves, and placements that they want.

In a plain run of the model both do nothing special. In a capture a region is one opaque op, with its backward as
another; replay runs the author's function on local tensors there.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor, fx, nn
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh
from torch.utils._python_dispatch import _disable_current_modes

from .errors import ExportError
from .placements import shard_dim
from .strategy import PlacementLike, Strategy, check_counts, placement_text

FORWARD = "autopar.local_map.default"
BACKWARD = "autopar.local_map_backward.default"
CONSTRAIN = "autopar.constrain.default"


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionSite:
    """Where a region runs: what its function gets as `site`, if it has such an argument."""

    mesh: DeviceMesh
    inputs: tuple[tuple[str, ...], ...]  # placements of each tensor, one per mesh dim
    outputs: tuple[tuple[str, ...], ...]
    groups: Callable[[tuple[int, ...]], ProcessGroup]

    def mesh_dims(self, tensor: int, dim: int) -> tuple[int, ...]:
        """Mesh dims that cut dim `dim` of input `tensor`."""
        return tuple(
            mesh_dim
            for mesh_dim, placement in enumerate(self.inputs[tensor])
            if shard_dim(placement) == dim and self.mesh.size(mesh_dim) > 1
        )

    def group(self, tensor: int, dim: int) -> ProcessGroup | None:
        """The devices that together hold input `tensor`, which is cut along `dim`, in the order of their pieces; None
        if it is not cut."""
        mesh_dims = self.mesh_dims(tensor, dim)
        return self.groups(mesh_dims) if mesh_dims else None


class LocalMap:
    """A function that its author parallelises: what `local_map` gives."""

    def __init__(
        self,
        function: Callable[..., Any],
        strategies: Sequence[Strategy],
        outputs: Callable[..., Any],
        flops: Callable[..., int] | None,
    ) -> None:
        if not strategies:
            raise ExportError(f"local_map of {_name(function)}: want at least one strategy")
        self.function = function
        self.strategies = tuple(strategies)
        self.outputs = outputs
        self.flops = flops
        self.__name__ = _name(function)
        self.wants_site = "site" in inspect.signature(function).parameters

    def __call__(self, *tensors: Tensor) -> Any:
        capturing = _capture.get()
        if capturing is None:
            return self.function(*tensors)
        return capturing.call(self, tensors)


@overload
def local_map(
    function: None = None,
    *,
    strategies: Sequence[Strategy],
    outputs: Callable[..., Any],
    flops: Callable[..., int] | None = None,
) -> Callable[[Callable[..., Any]], LocalMap]: ...


@overload
def local_map(
    function: Callable[..., Any],
    *,
    strategies: Sequence[Strategy],
    outputs: Callable[..., Any],
    flops: Callable[..., int] | None = None,
) -> LocalMap: ...


def local_map(
    function: Callable[..., Any] | None = None,
    *,
    strategies: Sequence[Strategy],
    outputs: Callable[..., Any],
    flops: Callable[..., int] | None = None,
) -> LocalMap | Callable[[Callable[..., Any]], LocalMap]:
    """Marks a function of tensors as a region whose parallelisation is its author's; also a decorator.

    `strategies`: how it may run along one mesh dim; each mesh dim gets one of them. Nothing else is possible: list the
    all-replicated one if it is valid. `outputs`: called with tensors of whole shapes on the meta device, gives tensors
    of the shapes and dtypes of the whole outputs (one or a tuple), such as `lambda x, weight: torch.empty_like(x)`.
    `flops`: called likewise, gives the floating point operations of the whole forward; backward counts twice that.

    The function gets local tensors. If it has a parameter `site`, it gets a RegionSite there (its default in a plain
    run), which has the process groups. It is differentiated by autograd: collectives inside must be differentiable,
    such as all_to_all_single_autograd of torch.distributed._functional_collectives.
    """
    if function is None:
        return lambda function: LocalMap(function, strategies, outputs, flops)
    return LocalMap(function, strategies, outputs, flops)


def constrain(
    tensor: Tensor,
    placements: Sequence[PlacementLike | None] | Mapping[str, PlacementLike],
    grad_placements: Sequence[PlacementLike | None] | Mapping[str, PlacementLike] | None = None,
) -> Tensor:
    """`tensor`, with the placements that the plan must give it here, and its gradient likewise. A list has one
    placement per mesh dim, None leaves it free; a mapping names mesh dims, the others are free."""
    if _capture.get() is None:
        return tensor
    grad = "" if grad_placements is None else json.dumps(_pins(grad_placements))
    result: Tensor = torch.ops.autopar.constrain(tensor, json.dumps(_pins(placements)), grad)
    return result


def _pins(placements: Sequence[PlacementLike | None] | Mapping[str, PlacementLike]) -> Any:
    if isinstance(placements, Mapping):
        return {name: placement_text(one) for name, one in placements.items()}
    return [None if one is None else placement_text(one) for one in placements]


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


# ---- capture ----


@dataclass(frozen=True, kw_only=True, slots=True)
class Region:
    """One call of a region in a captured model."""

    local_map: LocalMap
    inputs: tuple[Tensor, ...]  # on meta, of whole shapes
    outputs: tuple[Tensor, ...]
    flops: int | None


class Capturing:
    """Collects the regions of one capture, by a name for each call."""

    def __init__(self) -> None:
        self.regions: dict[str, Region] = {}

    def call(self, local: LocalMap, tensors: tuple[Tensor, ...]) -> Any:
        what = f"local_map of {local.__name__}"
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise ExportError(f"{what}: all arguments should be tensors; bind others to the function")
        name, number = local.__name__, 0
        while name in self.regions:
            number += 1
            name = f"{local.__name__}.{number}"
        # Not a part of what is captured.
        with _disable_current_modes(), torch.no_grad():
            inputs = tuple(torch.empty(one.shape, dtype=one.dtype, device="meta") for one in tensors)
            made = local.outputs(*inputs)
            flops = None if local.flops is None else int(local.flops(*inputs))
        outputs = tuple(made) if isinstance(made, tuple | list) else (made,)
        for strategy in local.strategies:
            check_counts(strategy, len(tensors), len(outputs), what)
        self.regions[name] = Region(local_map=local, inputs=inputs, outputs=outputs, flops=flops)
        *results, _tape = torch.ops.autopar.local_map(list(tensors), name)
        return results[0] if not isinstance(made, tuple | list) else tuple(results)

    def shapes(self, name: str, backward: bool) -> dict[int, Tensor]:
        region = self.regions[name]
        return dict(enumerate(region.inputs if backward else region.outputs))


Shapes = Callable[[str, bool], Mapping[int, Tensor]]
_capture: contextvars.ContextVar[Capturing | None] = contextvars.ContextVar("autopar_capture", default=None)
# Gives tensors like the outputs of a region, or like its inputs, for the fake ops.
_shapes: contextvars.ContextVar[Shapes] = contextvars.ContextVar("autopar_shapes")


@contextlib.contextmanager
def captured_regions() -> Iterator[dict[str, Region]]:
    capturing = Capturing()
    token = _capture.set(capturing)
    try:
        with region_shapes(capturing.shapes):
            yield capturing.regions
    finally:
        _capture.reset(token)


@contextlib.contextmanager
def region_shapes(shapes: Shapes) -> Iterator[None]:
    token = _shapes.set(shapes)
    try:
        yield
    finally:
        _shapes.reset(token)


# The ops exist to be recorded: they have fake kernels only. The last output of a region stands for what its function
# keeps for its backward.


@torch.library.custom_op("autopar::local_map", mutates_args=())
def _forward_op(tensors: list[Tensor], region: str) -> list[Tensor]:
    raise NotImplementedError("regions are recorded, not run")


@_forward_op.register_fake
def _(tensors: list[Tensor], region: str) -> list[Tensor]:
    tape = torch.empty(0, dtype=torch.uint8, device=tensors[0].device)
    return [*(_empty(one, tape.device) for one in _shapes.get()(region, False).values()), tape]


@torch.library.custom_op("autopar::local_map_backward", mutates_args=())
def _backward_op(tape: Tensor, grads: list[Tensor], region: str, wanted: list[int]) -> list[Tensor]:
    raise NotImplementedError("regions are recorded, not run")


@_backward_op.register_fake
def _(tape: Tensor, grads: list[Tensor], region: str, wanted: list[int]) -> list[Tensor]:
    inputs = _shapes.get()(region, True)
    return [_empty(inputs[index], tape.device) for index in wanted]


def _empty(like: Tensor, device: torch.device) -> Tensor:
    return torch.empty(like.shape, dtype=like.dtype, device=device)


def _setup(ctx: Any, inputs: tuple[list[Tensor], str], output: list[Tensor]) -> None:
    tensors, ctx.region = inputs
    ctx.wanted = [index for index, tensor in enumerate(tensors) if tensor.requires_grad]
    ctx.num_inputs = len(tensors)
    ctx.save_for_backward(output[-1])


def _differentiate(ctx: Any, grads: list[Tensor | None]) -> tuple[list[Tensor | None], None]:
    (tape,) = ctx.saved_tensors
    outputs = _shapes.get()(ctx.region, False).values()
    incoming = [
        torch.zeros(like.shape, dtype=like.dtype, device=tape.device) if grad is None else grad
        for like, grad in zip(outputs, grads, strict=False)
        if like.is_floating_point()
    ]
    made = iter(torch.ops.autopar.local_map_backward(tape, incoming, ctx.region, ctx.wanted))
    return [next(made) if index in ctx.wanted else None for index in range(ctx.num_inputs)], None


_forward_op.register_autograd(_differentiate, setup_context=_setup)


@torch.library.custom_op("autopar::constrain", mutates_args=())
def _constrain_op(tensor: Tensor, pins: str, grad_pins: str) -> Tensor:
    return tensor.clone()


@_constrain_op.register_fake
def _(tensor: Tensor, pins: str, grad_pins: str) -> Tensor:
    return torch.empty_like(tensor)


def _keep_pins(ctx: Any, inputs: tuple[Tensor, str, str], output: Tensor) -> None:
    ctx.grad_pins = inputs[2]


def _constrain_grad(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
    return (torch.ops.autopar.constrain(grad, ctx.grad_pins, "") if ctx.grad_pins else grad), None, None


_constrain_op.register_autograd(_constrain_grad, setup_context=_keep_pins)


# ---- replay ----


class Tape:
    """What a region's function keeps from its forward to its backward."""

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self.inputs = inputs
        self.outputs = outputs


class RegionForward(nn.Module):
    """Runs a region's function on local tensors; gives its outputs and a tape."""

    def __init__(self, local: LocalMap, site: RegionSite, wanted: Sequence[int]) -> None:
        """`wanted`: the inputs whose gradients the backward gives."""
        super().__init__()
        self._function = local.function
        self._extra = {"site": site} if local.wants_site else {}
        self._wanted = tuple(wanted)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, tensors: Sequence[Tensor]) -> list[Any]:
        inputs = [tensor.detach().requires_grad_(index in self._wanted) for index, tensor in enumerate(tensors)]
        with torch.enable_grad():
            made = self._function(*inputs, **self._extra)
        outputs = list(made) if isinstance(made, tuple | list) else [made]
        tape = Tape([inputs[index] for index in self._wanted], [one for one in outputs if one.is_floating_point()])
        return [*(one.detach() for one in outputs), tape]


class RegionBackward(nn.Module):
    """Differentiates what RegionForward ran."""

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, tape: Tape, grads: Sequence[Tensor]) -> list[Tensor]:
        reached = [(output, grad) for output, grad in zip(tape.outputs, grads, strict=True) if output.requires_grad]
        given: Sequence[Tensor | None] = [None] * len(tape.inputs)
        if reached:
            outputs, incoming = zip(*reached, strict=True)
            given = torch.autograd.grad(outputs, tape.inputs, incoming, allow_unused=True)
        return [
            torch.zeros_like(tensor) if grad is None else grad.contiguous()
            for tensor, grad in zip(tape.inputs, given, strict=True)
        ]


def bind_regions(
    graph_module: fx.GraphModule,
    regions: Mapping[str, Region],
    site: Callable[[str], RegionSite],
    wanted: Mapping[str, Sequence[int]],
) -> None:
    """Replaces the opaque ops in a graph by the authors' functions. By a region's name: where it runs, and of which
    inputs its backward gives gradients."""
    for node in list(graph_module.graph.nodes):
        if node.target is torch.ops.autopar.local_map.default:
            tensors, name = node.args
            module: torch.nn.Module = RegionForward(regions[name].local_map, site(name), wanted.get(name, ()))
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
