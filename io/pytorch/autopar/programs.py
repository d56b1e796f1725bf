"""Runs the program autopar-plan, which knows more of a plan than its file says: it simulates and searches."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from .errors import PlanError
from .plan import Plan


def find_program(name: str) -> str | None:
    """The program in the build folder that the environment names, or on the PATH."""
    if folder := os.environ.get("AUTOPAR_BUILD_DIR"):
        built = Path(folder) / name
        return str(built) if os.access(built, os.X_OK) else None
    return shutil.which(name)


def plan_file(plan: Plan) -> Path:
    path = Path(plan.source)
    if not path.is_file():
        raise PlanError(f"{plan.source}: there is no such file any more; the program autopar-plan has to read it again")
    return path


def run_json(plan: Plan, command: str, *arguments: str) -> Any:
    """What `autopar-plan COMMAND PLAN … --json` prints."""
    program = find_program("autopar-plan")
    if program is None:
        raise _not_found()
    line = [program, command, str(plan_file(plan)), *arguments, "--json"]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    except OSError as error:
        raise PlanError(f"{program} cannot be run: {error.strerror or error}") from error
    if done.returncode != 0:
        message = done.stderr.strip() or done.stdout.strip()
        raise PlanError(f"{' '.join(line)} ended with exit code {done.returncode}: {message}")
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise PlanError(f"{' '.join(line)}: did not print JSON: {error}") from error


def show(plan: Plan) -> Any:
    return run_json(plan, "show")


def explain(
    plan: Plan,
    name: str,
    *,
    model: str | PathLike[str],
    want: str | None = None,
    constraints: str | PathLike[str] | None = None,
) -> Any:
    return run_json(plan, "explain", name, *_options(model=model, want=want, constraints=constraints))


def diff(plan: Plan, other: Plan) -> Any:
    return run_json(plan, "diff", str(plan_file(other)))


def what_if(
    plan: Plan,
    pins: Mapping[str, Any],
    *,
    model: str | PathLike[str],
    constraints: str | PathLike[str] | None = None,
    output: str | PathLike[str] | None = None,
) -> Any:
    with tempfile.TemporaryDirectory(prefix="autopar-") as folder:
        path = Path(folder) / "pins.json"
        path.write_text(json.dumps(pins), encoding="utf-8")
        return run_json(plan, "what-if", *_options(model=model, pins=path, constraints=constraints, output=output))


def _options(**given: str | PathLike[str] | None) -> list[str]:
    return [text for name, value in given.items() if value is not None for text in (f"--{name}", str(value))]


def _not_found() -> PlanError:
    where = os.environ.get("AUTOPAR_BUILD_DIR")
    return PlanError(
        f"there is no program autopar-plan {f'in AUTOPAR_BUILD_DIR={where}' if where else 'on the PATH'}; "
        "build it (launch/build.sh) and name its folder in AUTOPAR_BUILD_DIR or on the PATH"
    )
