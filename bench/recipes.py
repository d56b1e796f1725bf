"""Compares the plan that the search finds with those of expert recipes (examples/recipes) under the same cost model.

bench/recipes.py MODEL.json.gz [--mesh dp=8,tp=4] [--cluster h100]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """Predictions for one step of one device."""

    step_ps: int
    compute_ps: int
    communication_ps: int
    parameter_bytes: int


def search(command: list[str], constraints: Path | None) -> Result | str:
    """The plan's totals, or why there is no plan."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        pins = ["--constraints", str(constraints)] if constraints else []
        run = subprocess.run([*command, *pins, "-q", "-o", str(plan)], capture_output=True, text=True, check=False)
        if not plan.exists():
            return run.stderr.strip().split(": ", maxsplit=3)[-1].replace("\n", " ") or f"exit code {run.returncode}"
        totals = json.loads(plan.read_text())["totals"]
    return Result(
        step_ps=totals["cost_ps"],
        compute_ps=totals["compute_ps"],
        communication_ps=totals["communication_ps"],
        parameter_bytes=totals["parameter_bytes"],
    )


def row(name: str, result: Result | str, free: Result, device_bytes: int) -> str:
    if isinstance(result, str):
        return f"| {name} | {result} | | | | |"
    times = (f"{ps / 1e9:.1f}" for ps in (result.step_ps, result.compute_ps, result.communication_ps))
    memory = f"{result.parameter_bytes / 2**30:.1f}" + (
        " (does not fit)" if result.parameter_bytes > device_bytes else ""
    )
    return f"| {name} | {' | '.join(times)} | {memory} | {result.step_ps / free.step_ps:.3f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares the search with expert recipes.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--mesh", default="dp=8,tp=4", help="the recipes speak of dims dp and tp")
    parser.add_argument("--cluster", default="h100", help="name of a file in costs/clusters")
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/autopar-search")
    options = parser.parse_args()
    command = [str(options.program), str(options.model), "--mesh", options.mesh, "--cluster", options.cluster]
    cluster = json.loads((ROOT / "costs/clusters" / f"{options.cluster}.json").read_text())
    device_bytes = cluster["device"]["memory"]["value"]

    free = search(command, None)
    if isinstance(free, str):
        print(f"no plan without a recipe: {free}", file=sys.stderr)
        return 1
    print(f"{options.model.name}, mesh {options.mesh}, {options.cluster}\n")
    print("| plan | step ms | compute ms | communication ms | memory GiB | step ÷ free search |")
    print("|-|-|-|-|-|-|")
    print(row("free search", free, free, device_bytes))
    for recipe in sorted((ROOT / "examples/recipes").glob("*.json")):
        print(row(recipe.stem, search(command, recipe), free, device_bytes), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
