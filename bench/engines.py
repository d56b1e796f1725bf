"""Compares engines on cost tables in one run: seconds to the proven optimum, or cost and bound at the limit.

    bench/engines.py [PROBLEM.json.gz ...] [--limit 60]

Without problems: AutoParallel's tables and the small one of the IOPDDL contest in ../shared, and some of this project's
own models, exported by --export-problem. Needs launch/build.sh, `pip install highspy ortools` and `apt-get install
toulbar2`. Each engine gets the whole table as it is, on all cores it can use.
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import highspy
import numpy as np
from ortools.sat.python import cp_model

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
PROGRAM = Path(os.environ.get("AUTOPAR_BUILD_DIR", ROOT / "build" / "release")) / "autopar-search"
FORBIDDEN = 10**18  # docs/cost-tables.md
TABLES = [SHARED / "autoparallel" / f"{name}.json.gz" for name in ("block_1d8", "llama1b_2d8x4", "block_2d32x8")]
TABLES.append(SHARED / "iopddl" / "asplos-2025-iopddl-G.json.gz")
MODELS = [("gpt2", "8"), ("llama1b", "8"), ("mixtral", "8")]  # captures in ../shared/graphs, meshes


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What an engine found. `cost` and `bound` may be missing."""

    seconds: float
    is_proven: bool
    cost: float | None = None
    bound: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tables:
    """A problem as engines get it: edges between the same nodes added up, usage only where it can pass the limit."""

    costs: list[np.ndarray]  # per node
    edges: dict[tuple[int, int], np.ndarray]
    usages: list[np.ndarray]
    times: list[list[int]]  # per time at which the limit can be passed, the nodes that last then
    limit: int


def read_tables(path: Path) -> Tables:
    content = path.read_bytes()
    problem = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)["problem"]
    nodes = problem["nodes"]
    costs = [np.array(row, dtype=np.int64) for row in nodes["costs"]]
    usages = [np.array(row, dtype=np.int64) for row in nodes["usages"]]
    edges: dict[tuple[int, int], np.ndarray] = {}
    for (u, v), flat in zip(problem["edges"]["nodes"], problem["edges"]["costs"], strict=True):
        table = np.array(flat, dtype=np.int64).reshape(len(costs[u]), len(costs[v]))
        if u == v:
            costs[u] = costs[u] + np.diag(table)
            continue
        if (v, u) in edges:
            edges[v, u] = edges[v, u] + table.T
        else:
            edges[u, v] = edges.get((u, v), 0) + table
    limit = problem.get("usage_limit", FORBIDDEN)
    times = []
    for start in sorted({interval[0] for interval in nodes["intervals"]}):
        alive = [v for v, (first, last) in enumerate(nodes["intervals"]) if first <= start < last]
        if sum(int(usages[v].max()) for v in alive) > limit:
            times.append(alive)
    return Tables(costs=costs, edges=edges, usages=usages, times=times, limit=limit)


def solve_ours(path: Path, _: Tables, limit_s: float) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "solution.json"
        start = time.monotonic()
        command = [PROGRAM, path, "--time-limit", str(limit_s), "-q", "-o", out]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        seconds = time.monotonic() - start
        found = json.loads(out.read_text())
    return Outcome(seconds=seconds, is_proven=found["status"] == "optimal", cost=found["cost"], bound=found["bound"])


def solve_toulbar2(_: Path, tables: Tables, limit_s: float) -> Outcome:
    """Its knapsacks are over variables of two values: one more per strategy of a node whose usage counts, 1 if it is
    chosen. They say how much less than the most has to be used.
    """
    lines = []
    sizes = [len(costs) for costs in tables.costs]
    chosen: dict[tuple[int, int], int] = {}
    for v in sorted({v for alive in tables.times for v in alive}):
        for x in range(len(tables.costs[v])):
            chosen[v, x] = len(sizes)
            lines.append(f"2 {v} {len(sizes)} 0 {len(tables.costs[v])}")
            lines += [f"{y} {int(y != x)} {FORBIDDEN}" for y in range(len(tables.costs[v]))]
            sizes.append(2)
    for v, costs in enumerate(tables.costs):
        lines.append(f"1 {v} 0 {len(costs)}")
        lines += [f"{x} {cost}" for x, cost in enumerate(costs)]
    for (u, v), table in tables.edges.items():
        lines.append(f"2 {u} {v} 0 {table.size}")
        lines += [f"{x} {y} {table[x, y]}" for x in range(table.shape[0]) for y in range(table.shape[1])]
    for alive in tables.times:
        least = sum(int(tables.usages[v].max()) for v in alive) - tables.limit
        spare = [
            (chosen[v, x], int(tables.usages[v].max() - usage))
            for v in alive
            for x, usage in enumerate(tables.usages[v])
            if usage < tables.usages[v].max()
        ]
        scope = " ".join(str(variable) for variable, _ in spare)
        lines.append(f"{len(spare)} {scope} -1 knapsack {least} {' '.join(str(weight) for _, weight in spare)}")
    count = len(tables.costs) + len(tables.edges) + len(tables.times) + len(chosen)
    header = f"problem {len(sizes)} {max(sizes)} {count} {FORBIDDEN}"
    with tempfile.NamedTemporaryFile("w", suffix=".wcsp") as file:
        file.write("\n".join([header, " ".join(map(str, sizes)), *lines]) + "\n")
        file.flush()
        start = time.monotonic()
        done = subprocess.run(
            ["toulbar2", file.name, f"-timer={int(limit_s)}"], capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - start
    proven = re.search(r"Optimum: (\d+)", done.stdout)
    if proven:
        return Outcome(seconds=seconds, is_proven=True, cost=int(proven[1]), bound=int(proven[1]))
    costs_found = re.findall(r"New solution: (\d+)", done.stdout)
    bounds = re.findall(r"Optimality gap: \[(\d+)", done.stdout)
    return Outcome(
        seconds=seconds,
        is_proven=False,
        cost=int(costs_found[-1]) if costs_found else None,
        bound=int(bounds[-1]) if bounds else None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """The usual integer program: a variable per strategy, one per allowed pair of an edge whose margins they are."""

    costs: list[int]
    highest: list[int]  # of each variable: 1, or 0 where a strategy is forbidden
    num_integer: int
    rows: list[list[tuple[int, int]]]
    bounds: list[tuple[float, float]]  # of the rows


def integer_program(tables: Tables) -> Program:
    costs: list[int] = []
    highest: list[int] = []
    rows: list[list[tuple[int, int]]] = []
    bounds: list[tuple[float, float]] = []
    first = []
    for node in tables.costs:
        first.append(len(costs))
        costs += [int(cost) if cost < FORBIDDEN else 0 for cost in node]
        highest += [int(cost < FORBIDDEN) for cost in node]
        rows.append([(first[-1] + x, 1) for x in range(len(node))])
        bounds.append((1, 1))
    num_integer = len(costs)
    for (u, v), table in tables.edges.items():
        if not table.any():
            continue
        pairs = {}
        for x, y in np.argwhere(table < FORBIDDEN):
            pairs[int(x), int(y)] = len(costs)
            costs.append(int(table[x, y]))
            highest.append(1)
        for x in range(table.shape[0]):
            rows.append([(pair, 1) for (a, _), pair in pairs.items() if a == x] + [(first[u] + x, -1)])
            bounds.append((0, 0))
        for y in range(table.shape[1]):
            rows.append([(pair, 1) for (_, b), pair in pairs.items() if b == y] + [(first[v] + y, -1)])
            bounds.append((0, 0))
    for alive in tables.times:
        rows.append(
            [(first[v] + x, int(usage)) for v in alive for x, usage in enumerate(tables.usages[v]) if usage > 0]
        )
        bounds.append((-highspy.kHighsInf, float(tables.limit)))
    return Program(costs=costs, highest=highest, num_integer=num_integer, rows=rows, bounds=bounds)


def solve_highs(_: Path, tables: Tables, limit_s: float) -> Outcome:
    program = integer_program(tables)
    count = len(program.costs)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = count, len(program.rows)
    lp.col_cost_ = np.array(program.costs, dtype=float)
    lp.col_lower_, lp.col_upper_ = np.zeros(count), np.array(program.highest, dtype=float)
    lp.row_lower_ = np.array([low for low, _ in program.bounds])
    lp.row_upper_ = np.array([high for _, high in program.bounds])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.cumsum([0] + [len(row) for row in program.rows])
    lp.a_matrix_.index_ = np.array([column for row in program.rows for column, _ in row])
    lp.a_matrix_.value_ = np.array([value for row in program.rows for _, value in row], dtype=float)
    kinds = [highspy.HighsVarType.kInteger] * program.num_integer
    lp.integrality_ = kinds + [highspy.HighsVarType.kContinuous] * (count - program.num_integer)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("time_limit", limit_s)
    solver.setOptionValue("mip_rel_gap", 0.0)
    start = time.monotonic()
    solver.passModel(lp)
    solver.run()
    seconds = time.monotonic() - start
    info = solver.getInfo()
    is_proven = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    has_cost = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return Outcome(
        seconds=seconds,
        is_proven=is_proven,
        cost=info.objective_function_value if has_cost else None,
        bound=info.mip_dual_bound,
    )


def solve_cp_sat(_: Path, tables: Tables, limit_s: float) -> Outcome:
    program = integer_program(tables)
    model = cp_model.CpModel()
    variables = [model.new_int_var(0, high, "") for high in program.highest]
    for row, (low, high) in zip(program.rows, program.bounds, strict=True):
        total = cp_model.LinearExpr.weighted_sum([variables[column] for column, _ in row], [w for _, w in row])
        if low == high:
            model.add(total == int(low))
        else:
            model.add(total <= int(high))
    model.minimize(cp_model.LinearExpr.weighted_sum(variables, program.costs))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit_s
    solver.parameters.num_workers = os.cpu_count() or 1
    start = time.monotonic()
    status = solver.solve(model)
    seconds = time.monotonic() - start
    has_cost = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return Outcome(
        seconds=seconds,
        is_proven=status == cp_model.OPTIMAL,
        cost=solver.objective_value if has_cost else None,
        bound=solver.best_objective_bound if has_cost else None,
    )


ENGINES: dict[str, Callable[[Path, Tables, float], Outcome]] = {
    "autopar-search": solve_ours,
    "toulbar2": solve_toulbar2,
    "HiGHS": solve_highs,
    "CP-SAT": solve_cp_sat,
}


def export_models(folder: Path) -> list[Path]:
    exported = []
    for name, mesh in MODELS:
        model = folder / f"{name}.json.gz"
        convert = [ROOT / ".venv/bin/python", ROOT / "tests/python/convert_capture.py"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "io/pytorch")}
        subprocess.run([*convert, SHARED / "graphs" / model.name, model], check=True, env=environment)
        problem = folder / f"{name}-{mesh.replace(',', 'x')}.json"
        subprocess.run(
            [PROGRAM, model, "--mesh", mesh, "--cluster", "h100", "--export-problem", problem, "-q"], check=True
        )
        exported.append(problem)
    return exported


def cell(outcome: Outcome, ours: Outcome) -> str:
    if outcome.is_proven:
        return f"{outcome.seconds:.2f} s" + ("" if outcome is ours else f" ({outcome.seconds / ours.seconds:.2g}x)")
    if outcome.cost is None:
        return "nothing"
    relative = f"cost {outcome.cost / (ours.cost or 1):.4f}"
    if outcome.bound is None:
        return f"{relative}, no bound"
    return f"{relative}, gap {100 * (outcome.cost - outcome.bound) / max(outcome.cost, 1):.2g}%"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", type=Path)
    parser.add_argument("--limit", type=float, default=60, help="seconds per engine and problem")
    parsed = parser.parse_args(arguments)
    print(f"Seconds to the proof (times ours), or what is known after {parsed.limit:g} s: cost / ours and gap.\n")
    print(f"| | strategies | pairs | {' | '.join(ENGINES)} |\n|-|-|-|{'-|' * len(ENGINES)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for path in parsed.problems or TABLES + export_models(Path(folder)):
            tables = read_tables(path)
            outcomes = [solve(path, tables, parsed.limit) for solve in ENGINES.values()]
            sizes = [sum(map(len, tables.costs)), sum(table.size for table in tables.edges.values())]
            cells = [path.name.split(".")[0], *map(str, sizes), *(cell(outcome, outcomes[0]) for outcome in outcomes)]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
