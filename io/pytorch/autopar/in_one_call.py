"""parallelize(): export, search and apply in one call."""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from .capture import Loss
from .errors import ExportError, PlanError
from .exporter import make_model
from .materialise import Init
from .model_file import write_document
from .parallel import ParallelModule
from .read_plan import parse_plan
from .replay import apply

PLAN_WRITTEN = (0, 3)  # docs/exit-codes.md
LIMIT_REACHED = 3
# A search that is started by a rank of an MPI job is a job of its own.
LAUNCHERS = ("OMPI_", "PMI_", "PMIX_", "SLURM_PMI")


def parallelize(
    model: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    mesh_shape: Sequence[int] | Mapping[str, int],
    cluster: str | Mapping[str, Any],
    constraints: Mapping[str, Any] | None,
    loss: Loss | None,
    init: Init | None,
    search: Sequence[str],
    plan_path: str | PathLike[str] | None,
) -> ParallelModule:
    if not dist.is_initialized():
        raise PlanError("parallelize() needs a process group: call torch.distributed.init_process_group() first")
    device = _device_type()
    devices = math.prod(mesh_shape.values() if isinstance(mesh_shape, Mapping) else mesh_shape)
    if devices != dist.get_world_size():
        raise PlanError(
            f"mesh_shape {mesh_shape} has {devices} devices, the process group {dist.get_world_size()} ranks"
        )

    def find_plan() -> str:
        document = make_model(
            model, args, kwargs, name=None, loss=loss, mesh=mesh_shape, cluster=cluster, constraints=constraints,
            device=device,
        )  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="autopar-") as folder:
            path = Path(folder) / "model.json"
            write_document(document, path)
            output = Path(plan_path) if plan_path is not None else Path(folder) / "plan.json"
            _search([*search, str(path), "--output", str(output), "--quiet"])
            return output.read_text(encoding="utf-8")

    text = _on_rank_0(find_plan)
    plan = parse_plan(text, str(plan_path or "the plan"))
    mesh = init_device_mesh(device, plan.mesh_shape, mesh_dim_names=plan.mesh_dim_names)
    return apply(model, plan, mesh, args, kwargs, loss=loss, init=init)


def _device_type() -> str:
    backend = dist.get_backend()
    return "cuda" if backend == "nccl" or ("nccl" in backend and torch.cuda.is_available()) else "cpu"


def _on_rank_0(work: Callable[[], str]) -> str:
    """What the work gives on rank 0, on all ranks; if it fails there, all raise."""
    told: list[tuple[type[ValueError] | None, str]] = [(None, "")]
    failure: Exception | None = None
    if dist.get_rank() == 0:
        try:
            told = [(None, work())]
        except Exception as error:
            failure = error
            told = [(ExportError if isinstance(error, ExportError) else PlanError, str(error))]
    dist.broadcast_object_list(told, src=0)
    if failure is not None:
        raise failure
    kind, text = told[0]
    if kind is not None:
        raise kind(f"rank 0: {text}")
    return text


def _search(command: Sequence[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise PlanError(
            f"{command[0]} cannot be run: {error.strerror or error}; put autopar-search on the PATH or give its "
            "command as search="
        ) from error
    if done.returncode not in PLAN_WRITTEN:
        raise PlanError(f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stderr.strip()}")
    if done.returncode == LIMIT_REACHED:
        warnings.warn("the search reached its time limit: the plan is not proven to be the best", stacklevel=2)
