"""autopar: from a PyTorch model to model.json, which autopar-search reads, and from its plan.json to a module that
trains by it. Importing this needs no PyTorch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ExportError, PlanError
from .plan import Plan
from .read_plan import load_plan

if TYPE_CHECKING:
    import torch
    from torch.distributed.device_mesh import DeviceMesh

    from .materialise import Init
    from .parallel import ParallelModule
    from .regions import RegionSite, constrain, local_map
    from .strategy import Strategy, register_rule

__all__ = [
    "ExportError",
    "Plan",
    "PlanError",
    "RegionSite",
    "Strategy",
    "apply",
    "constrain",
    "export",
    "load_plan",
    "local_map",
    "parallelize",
    "register_rule",
]
__version__ = "0.1.0"


_NEED_TORCH = {
    "RegionSite": "regions",
    "Strategy": "strategy",
    "constrain": "regions",
    "local_map": "regions",
    "register_rule": "strategy",
}


def __getattr__(name: str) -> Any:
    """What needs PyTorch is imported when it is used."""
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_NEED_TORCH[name]}", __name__), name)


def export(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    path: str | PathLike[str] | None = None,
    name: str | None = None,
    loss: Callable[[Any], torch.Tensor] | int | str | None = None,
    mesh: Sequence[int] | Mapping[str, int] | None = None,
    cluster: str | Mapping[str, Any] | None = None,
    constraints: Mapping[str, Any] | None = None,
    device: str | None = None,
) -> dict[str, Any]:
    """Captures one training step of `model` and returns the content of model.json; writes it if there is a `path`.

    The model and the arguments may be on the meta device; no weights are read. The loss is the output itself if that is
    a scalar, or the output's `loss`, or its only scalar; `loss` tells otherwise, as a name in the output, an index or a
    function of it. `mesh` holds sizes, or sizes by name: `(8, 4)` or `{"dp": 8, "tp": 4}`. `cluster` is a name or a
    description, `constraints` the content of a constraints file. `device` is where the step will run, such as "cuda",
    whose kernels may be other ops; None: where the model is, and the CPU for a model on the meta device. Raises
    ExportError.
    """
    from .exporter import make_model

    # Bad paths are told before minutes of work.
    target = None if path is None else Path(path)
    if target is not None and not target.parent.is_dir():
        raise ExportError(f"{target}: there is no folder {target.parent}")
    document = make_model(
        model,
        args,
        kwargs or {},
        name=name,
        loss=loss,
        mesh=mesh,
        cluster=cluster,
        constraints=constraints,
        device=device,
    )
    if target is not None:
        from .model_file import write_document

        write_document(document, target)
    return document


def apply(
    model: torch.nn.Module,
    plan: Plan | str | PathLike[str],
    mesh: DeviceMesh,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Callable[[Any], torch.Tensor] | int | str | None = None,
    init: Init | None = None,
) -> ParallelModule:
    """The model as a module that trains by the plan: its parameters are DTensors under the same names, its forward
    takes what the model's does and gives the loss, and `loss.backward()` and any optimizer do the rest. What runs is
    plain ATen ops on local tensors and functional collectives.

    Call it on every rank of `mesh`, whose shape and dim names must be the plan's. `args` and `kwargs` are arguments of
    the model, of which only shapes and dtypes matter: with them, all that can be wrong is found here; without, at the
    first call. `loss` as in `export`. Parameters with values are those of rank 0. A model on the meta device gets its
    values module by module from its own `reset_parameters` (Hugging Face models: `_init_weights`), or from `init`, a
    function that initialises the module it is given; they are those of a single process with rank 0's random state.
    Raises PlanError, on all ranks, with the first difference if the plan belongs to another model or mesh.
    """
    from .replay import apply

    return apply(model, plan, mesh, args, kwargs, loss=loss, init=init)


def parallelize(
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    mesh_shape: Sequence[int] | Mapping[str, int],
    cluster: str | Mapping[str, Any],
    constraints: Mapping[str, Any] | None = None,
    loss: Callable[[Any], torch.Tensor] | int | str | None = None,
    init: Init | None = None,
    search: Sequence[str] = ("autopar-search",),
    plan_path: str | PathLike[str] | None = None,
) -> ParallelModule:
    """Captures the model, searches for the best plan and applies it. Call it on every rank of an initialised process
    group that has as many ranks as the mesh has devices; rank 0 searches, the others wait.

    `mesh_shape`, `cluster`, `constraints` and `loss` as in `export`, `init` as in `apply`. `search` is the command that
    searches, without the model, such as `["mpirun", "-n", "64", "autopar-search", "--time-limit", "60"]`. `plan_path`:
    where rank 0 keeps the plan. Raises ExportError or PlanError on all ranks.
    """
    from .in_one_call import parallelize

    return parallelize(
        model,
        args,
        kwargs or {},
        mesh_shape=mesh_shape,
        cluster=cluster,
        constraints=constraints,
        loss=loss,
        init=init,
        search=search,
        plan_path=plan_path,
    )
