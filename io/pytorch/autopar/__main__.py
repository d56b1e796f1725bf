"""The command line: python -m autopar export MODULE:FUNCTION, and report PLAN."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import ExportError, PlanError, export


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ExportError, PlanError) as error:
        print(f"autopar: {error}", file=sys.stderr)
        return 1
    return 0


def _export(options: argparse.Namespace) -> None:
    function = load_function(options.function)
    made = function()
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise ExportError(f"{options.function}: should return (model, args) or (model, args, kwargs)")
    name = options.name or function.__name__
    path = Path(options.output or f"{name}.json.gz")
    mesh = _parse_mesh(options.mesh, options.mesh_dims)
    document = export(*made, path=path, name=name, mesh=mesh, cluster=options.cluster, device=options.device)
    parameters = sum(entry["role"] == "parameter" for entry in document["inputs"])
    print(f"{path}: {len(document['nodes'])} nodes, {parameters} parameters")


def _report(options: argparse.Namespace) -> None:
    from .report.run import make_report

    missing = make_report(options.plan, options.output, options.model, options.constraints, options.log_dir)
    for text in missing:
        print(f"autopar: {text}", file=sys.stderr)
    print(f"{options.output}: open it in a browser")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m autopar", description="Around autopar-search: models in, plans out."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("export", help="capture a training step and write model.json")
    command.add_argument(
        "function",
        metavar="WHERE:FUNCTION",
        help="function that returns (model, args) or (model, args, kwargs); WHERE is a module's name or a Python file",
    )
    command.add_argument("-o", "--output", metavar="FILE", help="default: FUNCTION.json.gz; gzipped if it ends in .gz")
    command.add_argument("--name", help="name of the model; default: the function's")
    command.add_argument("--mesh", metavar="SIZES", help="such as 8,4 or dp=8,tp=4")
    command.add_argument("--mesh-dims", metavar="NAMES", help="names of the mesh dims, such as dp,tp")
    command.add_argument("--device", metavar="TYPE", help="where the step will run, such as cuda; default: the model's")
    command.add_argument("--cluster", metavar="NAME", help="a description in costs/clusters, such as h100")
    command.set_defaults(run=_export)
    command = commands.add_parser("report", help="write a plan as one page to look at in a browser")
    command.add_argument("plan", metavar="PLAN", help="plan.json")
    command.add_argument("-o", "--output", metavar="FILE", default="report.html", help="default: report.html")
    command.add_argument(
        "--model", metavar="MODEL", help="model.json of the plan: the page also says what else was possible"
    )
    command.add_argument(
        "--constraints", metavar="FILE", help="the constraints file that it was searched under, if any"
    )
    command.add_argument("--log-dir", metavar="DIR", help="autopar-search's --log-dir: what each rank did")
    command.set_defaults(run=_report)
    return parser


def load_function(where: str) -> Callable[[], Any]:
    """`where` is `package.module:function` or `folder/file.py:function`."""
    place, _, name = where.rpartition(":")
    if not place or not name:
        raise ExportError(f"{where}: want MODULE:FUNCTION or FILE.py:FUNCTION")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(f"autopar_file_{Path(place).stem}", place)
            assert spec is not None
            assert spec.loader is not None
            # As if the file were run: it may import its neighbours.
            sys.path.insert(0, str(Path(place).resolve().parent))
            module = importlib.util.module_from_spec(spec)
            # Dataclasses look their module up there. A name of its own, as the file may be called like a package.
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, "")
            module = importlib.import_module(place)
    except (ImportError, OSError) as error:
        raise ExportError(f"{place}: cannot be loaded: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ExportError(f"{place}: has no function {name}")
    return function  # type: ignore[no-any-return]


def _parse_mesh(sizes: str | None, names: str | None) -> list[int] | dict[str, int] | None:
    if sizes is None:
        if names is not None:
            raise ExportError("--mesh-dims needs --mesh")
        return None
    parts = sizes.split(",")
    dims = [part.rpartition("=")[0] for part in parts] if "=" in sizes else names.split(",") if names else []
    try:
        shape = [int(part.rpartition("=")[2]) for part in parts]
    except ValueError:
        raise ExportError(f"--mesh {sizes}: want sizes such as 8,4 or dp=8,tp=4") from None
    if not dims:
        return shape
    if len(dims) != len(shape) or len(set(dims)) != len(dims) or not all(dims):
        raise ExportError(f"--mesh {sizes}: want one name for each of the {len(shape)} dims, all different")
    return dict(zip(dims, shape, strict=True))


if __name__ == "__main__":
    sys.exit(main())
