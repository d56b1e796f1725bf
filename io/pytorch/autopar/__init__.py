"""autopar: from a PyTorch model to model.json, which autopar-search reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ExportError

if TYPE_CHECKING:
    import torch

__all__ = ["ExportError", "export"]
__version__ = "0.1.0"


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
) -> dict[str, Any]:
    """Captures one training step of `model` and returns the content of model.json; writes it if there is a `path`.

    The model and the arguments may be on the meta device; no weights are read. The loss is the output itself if that is
    a scalar, or the output's `loss`, or its only scalar; `loss` tells otherwise, as a name in the output, an index or a
    function of it. `mesh` holds sizes, or sizes by name: `(8, 4)` or `{"dp": 8, "tp": 4}`. `cluster` is a name or a
    description, `constraints` the content of a constraints file. Raises ExportError.
    """
    from .exporter import make_model

    # Bad paths are told before minutes of work.
    target = None if path is None else Path(path)
    if target is not None and not target.parent.is_dir():
        raise ExportError(f"{target}: there is no folder {target.parent}")
    document = make_model(
        model, args, kwargs or {}, name=name, loss=loss, mesh=mesh, cluster=cluster, constraints=constraints
    )
    if target is not None:
        from .model_file import write_document

        write_document(document, target)
    return document
