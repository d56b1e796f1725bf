"""Puts a capture, a mesh, a cluster and constraints together to the content of model.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from . import __version__
from .capture import Loss, capture
from .errors import ExportError
from .lowering import lower
from .model_file import MAX_MESH_DIMS, make_document

WANTED_TORCH = "2.13."
DIM_NAME = re.compile(r"[A-Za-z_-][A-Za-z0-9_-]*")


def make_model(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    name: str | None,
    loss: Loss | None,
    mesh: Sequence[int] | Mapping[str, int] | None,
    cluster: str | Mapping[str, Any] | None,
    constraints: Mapping[str, Any] | None,
    device: str | None,
) -> dict[str, Any]:
    check_torch()
    if not isinstance(model, torch.nn.Module):
        raise ExportError(f"the model should be a torch.nn.Module; it is a {type(model).__name__}")
    if not isinstance(args, tuple | list):
        raise ExportError(f"args should be a tuple; it is a {type(args).__name__}")
    extras: dict[str, Any] = {}
    if mesh is not None:
        extras["mesh"] = _mesh(mesh)
    if cluster is not None:
        extras["cluster"] = cluster if isinstance(cluster, str) else dict(cluster)
    if constraints is not None:
        extras["constraints"] = dict(constraints)
    try:
        json.dumps(extras, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ExportError(f"cluster and constraints should be what JSON can hold: {error}") from error
    graph = lower(capture(model, args, kwargs, loss, device))
    if graph["constraints"]:
        extras["constraints"] = _merged(graph["constraints"], extras.get("constraints", {}))
    producer = f"autopar {__version__}, torch {torch.__version__}"
    return make_document(name or type(model).__name__, producer, graph, extras)


def check_torch() -> None:
    if not torch.__version__.startswith(WANTED_TORCH):
        raise ExportError(f"PyTorch {WANTED_TORCH}x is needed; this is {torch.__version__}")


def _merged(inline: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Constraints of the caller win over those that stand in the model."""
    return {**given, "nodes": {**inline["nodes"], **given.get("nodes", {})}}


def _mesh(mesh: Sequence[int] | Mapping[str, int]) -> dict[str, Any]:
    sizes = list(mesh.values() if isinstance(mesh, Mapping) else mesh)
    if not sizes or not all(type(size) is int and size >= 1 for size in sizes):
        raise ExportError(f"mesh: want sizes of at least 1, got {mesh!r}")
    if len(sizes) > MAX_MESH_DIMS:
        raise ExportError(f"mesh: {len(sizes)} dims; at most {MAX_MESH_DIMS} are possible")
    if not isinstance(mesh, Mapping):
        return {"shape": sizes}
    for dim in mesh:
        if not DIM_NAME.fullmatch(dim):
            raise ExportError(f"mesh: dim name {dim!r}; want letters, digits, _ and -, not beginning with a digit")
    return {"shape": sizes, "dim_names": list(mesh)}
