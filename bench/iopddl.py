"""Measures searches of the IOPDDL contest's cost tables: cost and bound against the best published ones and against a
study's, time to 1% and 0.1% of the published cost and to the proof.

    bench/iopddl.py [A G M S ...] [--folder ../shared/iopddl] [--layouts 2x1 1x2] [--runs 3] [--times 1] [--write]

A layout is ranks x threads. `--times 10` gives ten times the contest's limits. `--write` puts the table into
docs/cost-tables.md. Needs launch/build.sh.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cost-tables.md"
MARK = "<!-- bench/iopddl.py -->\n"
COLUMNS = ["", "layout", "limit s", "cost", "÷ best published", "÷ study", "bound", "÷ best published", "÷ study"]
COLUMNS += ["gap", "s to 1%", "s to 0.1%", "s to proof"]
HEADER = f"| {' | '.join(COLUMNS)} |\n|{'-|' * len(COLUMNS)}\n"
# A one-thread prototype on these instances, written and run for this project before the engine was: best of 3 to 6 runs
# with settings changed by hand, bounds in floating point (cost, bound).
STUDY = {
    "A": (6548553650, 6519248224),
    "G": (217039, 217039),
    "M": (49925579439, 49899272496),
    "S": (1511278466, 1510634809),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """What is published of an instance."""

    limit_s: float
    cost: int
    bound: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    cost: int
    bound: int
    seconds_to: dict[float, float | None]  # of the published cost, from the start of the search
    seconds_to_proof: float | None


def read_references(folder: Path) -> dict[str, Reference]:
    found = {}
    with (folder / "reference.csv").open() as file:
        for row in csv.DictReader(file):
            costs = [row["best_contest_cost"], row["best_published_rerun_cost"]]
            found[row["instance"]] = Reference(
                limit_s=float(row["timeout_s"]),
                cost=min(int(cost) for cost in costs if cost),
                bound=int(row["best_published_lower_bound"]),
            )
    return found


def run_once(problem: Path, limit_s: float, layout: str, reference: Reference) -> Run:
    ranks, threads = layout.split("x")
    program = Path(os.environ.get("AUTOPAR_BUILD_DIR", ROOT / "build" / "release")) / "autopar-search"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "solution.json"
        command = [
            str(program),
            str(problem),
            "--time-limit",
            str(limit_s),
            "--threads",
            threads,
            "-q",
            "-o",
            str(path),
        ]
        if ranks != "1":
            command = ["mpirun", "-n", ranks, *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        check = subprocess.run([str(program), "--check", str(problem), str(path)], capture_output=True, check=False)
        if check.returncode != 0:
            raise SystemExit(f"{problem}: the solution is not valid: {check.stderr.decode()}")
        solution = json.loads(path.read_text())
    seconds_to = {}
    for share in (0.01, 0.001):
        near = [
            point["seconds"]
            for point in solution["timeline"]
            if point["cost"] is not None and point["cost"] <= (1 + share) * reference.cost
        ]
        seconds_to[share] = min(near, default=None)
    return Run(
        cost=solution["cost"],
        bound=solution["bound"],
        seconds_to=seconds_to,
        seconds_to_proof=solution["timeline"][-1]["seconds"] if solution["status"] == "optimal" else None,
    )


def row_of(instance: str, layout: str, limit_s: float, runs: list[Run], reference: Reference) -> str:
    """The median run by cost; times are medians too."""
    run = sorted(runs, key=lambda one: one.cost)[len(runs) // 2]
    study = STUDY.get(instance)

    def ratio(value: int, other: int) -> str:
        return f"{value / other:.6f}"

    def seconds(times: list[float | None]) -> str:
        reached = [time for time in times if time is not None]
        return f"{statistics.median(reached):.1f}" if len(reached) == len(times) else "–"

    cells = [
        instance,
        layout,
        f"{limit_s:g}",
        str(run.cost),
        ratio(run.cost, reference.cost),
        ratio(run.cost, study[0]) if study else "–",
        str(run.bound),
        ratio(run.bound, reference.bound),
        ratio(run.bound, study[1]) if study else "–",
        f"{100 * (run.cost - run.bound) / run.cost:.4f}%",
        seconds([one.seconds_to[0.01] for one in runs]),
        seconds([one.seconds_to[0.001] for one in runs]),
        seconds([one.seconds_to_proof for one in runs]),
    ]
    return f"| {' | '.join(cells)} |\n"


def write_table(table: str) -> None:
    before, _, after = PAGE.read_text().partition(MARK)
    rest = after[after.index("\n\n") :]
    PAGE.write_text(before + MARK + table.rstrip("\n") + rest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instances", nargs="*", default=["A", "G", "M", "S"])
    parser.add_argument("--folder", type=Path, default=ROOT.parent / "shared" / "iopddl")
    parser.add_argument("--layouts", nargs="+", default=["2x1", "1x2"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--times", type=float, default=1, help="the contest's limit times this")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    references = read_references(arguments.folder)
    table = HEADER
    print(HEADER, end="", flush=True)
    for instance in arguments.instances:
        reference = references[instance]
        problem = arguments.folder / f"asplos-2025-iopddl-{instance}.json.gz"
        for layout in arguments.layouts:
            limit_s = arguments.times * reference.limit_s
            runs = [run_once(problem, limit_s, layout, reference) for _ in range(arguments.runs)]
            table += row_of(instance, layout, limit_s, runs, reference)
            print(table.splitlines()[-1], flush=True)
    if arguments.write:
        write_table(table)


if __name__ == "__main__":
    main()
