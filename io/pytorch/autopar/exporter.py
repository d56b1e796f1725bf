"""Puts a capture, a mesh, a cluster and constraints together to the content of model.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import __version__
from .capture import capture
from .errors import ExportError
from .lowering import lower
from .model_file import make_document

WANTED_TORCH = "2.13."


def make_model(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    name: str | None,
    loss: Callable[[Any], torch.Tensor] | None,
    mesh: Sequence[int] | Mapping[str, int] | None,
    cluster: str | Mapping[str, Any] | None,
    constraints: Mapping[str, Any] | None,
) -> dict[str, Any]:
    if not torch.__version__.startswith(WANTED_TORCH):
        raise ExportError(f"PyTorch {WANTED_TORCH}x is needed; this is {torch.__version__}")
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
    graph = lower(capture(model, args, kwargs, loss))
    producer = f"autopar {__version__}, torch {torch.__version__}"
    return make_document(name or type(model).__name__, producer, graph, extras)


def _mesh(mesh: Sequence[int] | Mapping[str, int]) -> dict[str, Any]:
    sizes = list(mesh.values() if isinstance(mesh, Mapping) else mesh)
    if not sizes or not all(isinstance(size, int) and size >= 1 for size in sizes):
        raise ExportError(f"mesh: want sizes of at least 1, got {mesh!r}")
    return {"shape": sizes, **({"dim_names": list(mesh)} if isinstance(mesh, Mapping) else {})}
