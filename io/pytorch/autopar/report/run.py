"""Gathers what the page shows beyond the plan, from the programs that know it, and writes the page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import PlanError
from ..modules import Module, module_tree
from ..plan import Plan
from ..programs import explain, find_program, show
from ..read_plan import load_plan
from ..whole_file import write_whole
from . import report_html
from .ranks import read_ranks

Name = str | PathLike[str]
MOST_EXPLAINED = 24  # parameters; each takes some searches


def make_report(
    plan_path: Name,
    output: Name,
    model: Name | None = None,
    constraints: Name | None = None,
    log_dir: Name | None = None,
) -> list[str]:
    """Writes the page to `output`. Returns what is missing in it, and why, in sentences. Raises PlanError."""
    plan = load_plan(plan_path)
    ranks = [] if log_dir is None else read_ranks(log_dir)
    missing = []
    simulation, words, explained = None, None, None
    if find_program("autopar-plan"):
        simulation, words = plan.simulate(), show(plan)
        if model is not None:
            explained = _explained(plan, model, constraints)
    elif model is not None:
        raise PlanError("--model needs the program autopar-plan, which is not on the PATH, nor in AUTOPAR_BUILD_DIR")
    else:
        missing.append("the page has no timeline: autopar-plan is not on the PATH, nor in AUTOPAR_BUILD_DIR")
    html = report_html(plan, simulation, explained, words, ranks)
    try:
        write_whole(Path(output), html.encode())
    except OSError as error:
        raise PlanError(f"{output}: cannot be written: {error.strerror or error}") from error
    return missing


def _explained(plan: Plan, model: Name, constraints: Name | None) -> dict[str, Any]:
    """Of one parameter for all that are alike."""
    tensors = []
    names = list(_parameters(module_tree(plan)))[:MOST_EXPLAINED]
    for place, name in enumerate(names, 1):
        if sys.stderr.isatty():
            print(f"\rwhat else was possible: parameter {place} of {len(names)}", end="", file=sys.stderr, flush=True)
        tensors += explain(plan, name, model=model, constraints=constraints)["tensors"]
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return {"tensors": tensors}


def _parameters(module: Module) -> Iterator[str]:
    for leaf in module.leaves:
        if leaf.kind == "parameter":
            yield leaf.keys[0]
    for child in module.modules:
        yield from _parameters(child)
