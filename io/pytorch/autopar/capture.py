"""Captures a training step as one joint forward+backward ATen graph. All tensors are fake: no weights are in memory.

`aot_export_joint_with_descriptors` alone gives a tied parameter one input per name, and loses which module ran an op;
both are mended here.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
)
from torch.fx.traceback import annotate, preserve_node_meta
from torch.utils import _pytree as pytree

from .errors import ExportError
from .regions import Region, captured_regions

MODULE_TAG = "autopar_module"
# The captured module is the model's parent, as names of parameters need a module to hang on.
MODEL_PREFIX = "model."
DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)

Loss = Callable[[Any], torch.Tensor] | int | str


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture:
    graph_module: torch.fx.GraphModule
    input_names: Sequence[str]  # of the tensors among the arguments, in the order of their descriptors
    aliases: Mapping[str, Sequence[str]]  # first name of a tied parameter or buffer to its other ones
    constants: Set[str]  # names of tensors that are plain attributes of modules
    regions: Mapping[str, Region]  # calls of the author's own distributed regions, by name


def capture(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], loss: Loss | None, device: str | None = None
) -> Capture:
    """`device`: where the training step will run; None: where the tensors are, and the CPU for those on meta."""
    names, leaves, spec = flatten_arguments(model, args, kwargs)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    fakes = _Fakes(device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_training_defaults())
        constants = stack.enter_context(_fake_state(model, fakes))
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ExportError("no parameter of the model requires a gradient, so there is no training step to export")
        # Before the module paths, as it also clears the annotations that a failed capture leaves behind.
        stack.enter_context(preserve_node_meta())
        paths = stack.enter_context(_recorded_module_paths(model))
        stack.enter_context(_no_packed_sequences("position_ids" in kwargs))
        regions = stack.enter_context(captured_regions())
        step = _Step(model, leaves, spec, loss)
        try:
            joint = aot_export_joint_with_descriptors(stack, step, tuple(map(fakes.of, tensors)), decompositions={})
        except ExportError:
            raise
        except Exception as error:
            where = f" in module {paths[-1]!r}" if paths and paths[-1] else ""
            text = f"PyTorch cannot capture the model{where}: {type(error).__name__}: {error}{_why(error)}"
            raise ExportError(text) from error
        return Capture(
            graph_module=joint.graph_module,
            input_names=names,
            aliases=step.aliases,
            constants=constants,
            regions=regions,
        )


def _why(error: Exception) -> str:
    """What PyTorch's message leaves out."""
    if isinstance(error, DATA_DEPENDENT):  # a fake tensor has no values to look at
        return "; shapes or branches depend on the values of tensors"
    if isinstance(error, FakeTensorDeviceMismatchError) and "meta" in str(error):
        return "; a tensor on the meta device is neither argument, parameter, buffer nor attribute of a module"
    return ""


@contextlib.contextmanager
def _training_defaults() -> Iterator[None]:
    """What a training step needs, whatever the caller has switched on or off."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if torch.get_default_device().type == "meta":  # the model's tensors will be elsewhere, see _Fakes
            stack.enter_context(torch.device("cpu"))
        if (dynamo := sys.modules.get("torch._dynamo")) is not None:
            # What torch.compile makes of a function is kernels; the graph is made of the function itself.
            stack.enter_context(dynamo.config.patch(error_on_nested_fx_trace=False))
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def flatten_arguments(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[str], list[Any], pytree.TreeSpec]:
    """Names of the tensors among the arguments (by the parameters of `forward`), all leaves, and how they nest."""
    signature = inspect.signature(model.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ExportError(f"the arguments do not fit {type(model).__name__}.forward: {error}") from error
    named = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ][: len(args)]
    named += [f"args.{index}" for index in range(len(named), len(args))]
    pairs, spec = pytree.tree_flatten_with_path((tuple(args), dict(kwargs)))
    names = []
    for path, leaf in pairs:
        if isinstance(leaf, torch.Tensor):
            side, first, *rest = (_step_of(entry) for entry in path)
            names.append(".".join(str(step) for step in (named[first] if side == 0 else first, *rest)))
    return names, [leaf for _, leaf in pairs], spec


def _step_of(entry: Any) -> Any:
    """The index, key or attribute name that an entry of a pytree path stands for."""
    return next((getattr(entry, kind) for kind in ("idx", "key", "name") if hasattr(entry, kind)), entry)


class _Fakes:
    """Fake twins of tensors; the same tensor has the same twin, so that ties stay ties."""

    def __init__(self, device: str | None) -> None:
        self._device = device
        # Tensors in places where no one looks, such as lists, become constants.
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._twins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # holds the originals, or ids could recur

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        known = self._twins.get(id(tensor))
        if known is None:
            known = self._twins[id(tensor)] = (tensor, self._make(tensor))
        return known[1]

    def _make(self, tensor: torch.Tensor) -> torch.Tensor:
        if type(tensor) not in (torch.Tensor, nn.Parameter, nn.Buffer, FakeTensor):
            raise ExportError(f"tensors of type {type(tensor).__name__} cannot be exported, only plain ones")
        if tensor.layout != torch.strided:
            raise ExportError(f"tensors of layout {tensor.layout} cannot be exported, only strided ones")
        # On the meta device other kernels run than where the model will train.
        device = torch.device(self._device or ("cpu" if tensor.device.type == "meta" else tensor.device))
        with self._mode:
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
        if isinstance(tensor, nn.Parameter):
            return nn.Parameter(fake, requires_grad=tensor.requires_grad)
        return fake.requires_grad_(tensor.requires_grad)


@contextlib.contextmanager
def _fake_state(model: nn.Module, fakes: _Fakes) -> Iterator[set[str]]:
    """The model with fake parameters and buffers, and with tensor attributes as further buffers, whose names it yields;
    afterwards it has its own again. An attribute that is a parameter or buffer as well stays a second name of it."""
    undo: list[tuple[dict[str, Any], dict[str, Any]]] = []
    attributes = set()
    registered = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    try:
        for path, module in model.named_modules():
            holders: tuple[dict[str, Any], ...] = (module._parameters, module._buffers, module.__dict__)
            undo += [(holder, dict(holder)) for holder in holders]
            for holder in holders:
                for name, value in list(holder.items()):
                    if not isinstance(value, torch.Tensor):
                        continue
                    if holder is module.__dict__ and id(value) not in registered:
                        del holder[name]
                        attributes.add(f"{path}.{name}" if path else name)
                        module._buffers[name] = fakes.of(value)
                    else:
                        holder[name] = fakes.of(value)
        yield attributes
    finally:
        for holder, before in undo:
            holder.clear()
            holder.update(before)


@contextlib.contextmanager
def _recorded_module_paths(model: nn.Module) -> Iterator[list[str]]:
    """Marks every traced op with the path of its module. Yields the paths of the modules that run at the moment; after
    an error the last one is where it happened."""
    paths: list[str] = []
    scopes: list[contextlib.AbstractContextManager[None]] = []
    names = {module: name for name, module in model.named_modules()}

    def enter(module: nn.Module, _args: Any) -> None:
        paths.append(names[module])
        scopes.append(annotate({MODULE_TAG: names[module]}))
        scopes[-1].__enter__()

    def leave(module: nn.Module, _args: Any, _output: Any) -> None:
        # Modules inside may have been left by an exception that the model caught.
        while scopes:
            scopes.pop().__exit__(None, None, None)
            if paths.pop() == names[module]:
                return

    handles = [
        hook
        for module in names
        for hook in (module.register_forward_pre_hook(enter, prepend=True), module.register_forward_hook(leave))
    ]
    try:
        yield paths
    finally:
        while scopes:
            scopes.pop().__exit__(None, None, None)
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _no_packed_sequences(has_positions: bool) -> Iterator[None]:
    """Hugging Face models look at the positions for sequences packed into one row, and without values they must assume
    that there are some. Positions that the model counts itself hold none."""
    masking: Any = sys.modules.get("transformers.masking_utils")
    if masking is None or has_positions or not hasattr(masking, "find_packed_sequence_indices"):
        yield
        return
    original = masking.find_packed_sequence_indices
    masking.find_packed_sequence_indices = lambda *_args, **_kwargs: None
    try:
        yield
    finally:
        masking.find_packed_sequence_indices = original


class _Step(nn.Module):
    """From the tensors among the arguments to the loss."""

    def __init__(self, model: nn.Module, leaves: Sequence[Any], spec: pytree.TreeSpec, loss: Loss | None) -> None:
        super().__init__()
        self.model = model
        self._leaves = leaves
        self._spec = spec
        self._loss = loss
        self._ties: list[tuple[dict[str, Any], str, dict[str, Any], str]] = []
        self.aliases: dict[str, list[str]] = {}
        first: dict[torch.Tensor, tuple[str, dict[str, Any], str]] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            for holder in (module._parameters, module._buffers):
                for name, tensor in holder.items():
                    if tensor is None:
                        continue
                    full_name = f"{path}.{name}" if path else name
                    known = first.setdefault(tensor, (full_name, holder, name))
                    if known[0] != full_name:
                        self._ties.append((holder, name, *known[1:]))
                        self.aliases.setdefault(known[0], []).append(full_name)
        # Attributes that are left are second names, but not such as a state dict has.
        for module in model.modules():
            for name, value in module.__dict__.items():
                if isinstance(value, torch.Tensor):
                    self._ties.append((module.__dict__, name, *first[value][1:]))

    # The capture asks for all names of tied tensors and would make an input of each.
    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        kwargs["remove_duplicate"] = True
        return super().named_parameters(*args, **kwargs)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, torch.Tensor]]:
        kwargs["remove_duplicate"] = True
        return super().named_buffers(*args, **kwargs)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor]:
        before = [holder[name] for holder, name, _, _ in self._ties]
        for holder, name, first_holder, first_name in self._ties:
            holder[name] = first_holder[first_name]
        try:
            remaining = iter(tensors)
            leaves = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
            args, kwargs = pytree.tree_unflatten(leaves, self._spec)
            with annotate({MODULE_TAG: ""}):
                return (_loss_of(self.model(*args, **kwargs), self._loss),)
        finally:
            for (holder, name, _, _), tensor in zip(self._ties, before, strict=True):
                holder[name] = tensor


def _loss_of(output: Any, pick: Loss | None) -> torch.Tensor:
    found = _find_loss(output) if pick is None else _pick_loss(output, pick)
    if not isinstance(found, torch.Tensor):
        raise ExportError(
            f"no loss in the model's output, a {type(output).__name__}: it should be a scalar tensor, have one named "
            '"loss", or hold one scalar only; or say by loss= which: a name, an index or a function of the output'
        )
    if found.dim() != 0:
        raise ExportError(f"the loss should be a scalar, but its shape is {list(found.shape)}; reduce it, or use loss=")
    if not found.requires_grad:
        raise ExportError("the loss does not depend on any parameter that requires a gradient")
    return found


def _find_loss(output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return output
    named = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if named is not None:
        return named
    parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple | list) else ()
    scalars = [part for part in parts if isinstance(part, torch.Tensor) and part.dim() == 0]
    return scalars[0] if len(scalars) == 1 else None


def _pick_loss(output: Any, pick: Loss) -> Any:
    if callable(pick):
        return pick(output)
    try:
        return getattr(output, pick) if isinstance(pick, str) and not isinstance(output, Mapping) else output[pick]
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ExportError(f"loss={pick!r}: the model's output, a {type(output).__name__}, has no such part") from error
