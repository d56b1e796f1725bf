"""Figures for papers by matplotlib. Each function returns a Figure of one column's width: `.savefig("figure.pdf")`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import PlanError
from .picture import DIM_COLOURS
from .plan import Plan
from .summary import mesh_text
from .tables import communication_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .simulation import Simulation

WIDTH, HEIGHT = 3.4, 2.5  # inches
GIB, MS = 2**30, 1e9
COMPUTE_COLOUR = "0.72"
STYLE: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
}


def frontier(plans: Mapping[str, Plan] | Sequence[Plan]) -> Figure:
    """Step time against memory at the peak, a point per plan; a line joins those that no other beats in both. Labels
    are the keys; of a list, there are none.
    """
    listed = list(plans.values()) if isinstance(plans, Mapping) else list(plans)
    _need(listed, "frontier")
    with _figure() as (figure, axis):
        points = [(plan.peak.bytes / GIB, plan.cost_ps / MS) for plan in listed]
        best = unbeaten(points)
        axis.step(*zip(*best, strict=True), where="post", color=DIM_COLOURS[0], linewidth=1)
        beaten = [point for point in points if point not in best]
        axis.plot([x for x, _ in beaten], [y for _, y in beaten], "o", color="0.6", markersize=3)
        axis.plot([x for x, _ in best], [y for _, y in best], "o", color=DIM_COLOURS[0], markersize=4)
        for name, (x, y) in zip(plans if isinstance(plans, Mapping) else (), points, strict=False):
            axis.annotate(name, (x, y), xytext=(4, 3), textcoords="offset points", fontsize=7)
        axis.set_xlabel("memory at the peak per device, GiB")
        axis.set_ylabel("predicted step, ms")
        return figure


def unbeaten(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other is better than in one coordinate and as good in the other, by the first."""
    best: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not best or point[1] < best[-1][1]:
            best.append(point)
    return best


def step_times(plans: Mapping[str, Plan]) -> Figure:
    """A bar per plan: compute, and what of the communication is waited for."""
    _need(plans, "step_times")
    with _figure() as (figure, axis):
        names = list(plans)
        compute = [plan.compute_ps / MS for plan in plans.values()]
        axis.barh(names, compute, color=COMPUTE_COLOUR, label="compute")
        waited = [plan.exposed_ps / MS for plan in plans.values()]
        axis.barh(names, waited, left=compute, color=DIM_COLOURS[1], label="waiting for communication")
        axis.invert_yaxis()
        axis.grid(False, axis="y")
        axis.set_xlabel("predicted step, ms")
        figure.legend(loc="outside upper center", ncols=2)
        return figure


def communication(plan: Plan) -> Figure:
    """A bar per mesh dims and collective: time, pale where it runs beside compute."""
    sums: dict[tuple[str, str], list[float]] = {}
    for row in communication_rows(plan):
        pair = sums.setdefault((row["mesh_dims"], row["collective"]), [0, 0])
        pair[0] += (row["time_ps"] - row["beside_compute_ps"]) / MS
        pair[1] += row["beside_compute_ps"] / MS
    with _figure() as (figure, axis):
        for (dims, kind), (waited, beside) in sums.items():
            name = f"{dims}: {kind.replace('_', '-')}"
            single = dims in plan.mesh_dim_names
            colour = DIM_COLOURS[plan.mesh_dim_names.index(dims) % len(DIM_COLOURS)] if single else "0.4"
            axis.barh(name, waited, color=colour)
            axis.barh(name, beside, left=waited, color=colour, alpha=0.35)
        axis.invert_yaxis()
        axis.grid(False, axis="y")
        axis.set_xlabel("time, ms (pale: beside compute)")
        axis.set_title(f"{plan.model_name}, {mesh_text(plan.mesh_shape, plan.mesh_dim_names)}", fontsize=8)
        return figure


def memory(plan: Plan, simulation: Simulation) -> Figure:
    """Memory on one device over the step, with the limit."""
    with _figure() as (figure, axis):
        times = [time / MS for time, _ in simulation.memory]
        held = [held / GIB for _, held in simulation.memory]
        axis.fill_between(times, held, step="post", color=DIM_COLOURS[0], alpha=0.3, linewidth=0)
        axis.step(times, held, where="post", color=DIM_COLOURS[0], linewidth=0.8)
        if plan.memory_limit_bytes < 3 * plan.peak.bytes:
            axis.axhline(plan.memory_limit_bytes / GIB, linestyle="--", color=DIM_COLOURS[1], linewidth=1)
        axis.set_ylim(bottom=0)
        axis.set_xlim(0, simulation.step_ps / MS)
        axis.set_xlabel("time, ms")
        axis.set_ylabel("memory per device, GiB")
        return figure


def scaling(study: str | PathLike[str]) -> Figure:
    """Speed-up of the search over ranks, from the runs.csv of launch/scaling-study: the quickest run of each number of
    ranks, all runs as dots. Of a weak study, where work grows with the ranks, the scaled speed-up.
    """
    path = Path(study) / "runs.csv" if Path(study).is_dir() else Path(study)
    runs, is_weak = _read_runs(path)
    least = min(ranks for ranks, _ in runs)
    one_s = min(seconds for ranks, seconds in runs if ranks == least) * (1 if is_weak else least)

    def speed_up(run: tuple[int, float]) -> float:
        return one_s / run[1] * (run[0] if is_weak else 1)

    ranks = sorted({ranks for ranks, _ in runs})
    best = [max(speed_up(run) for run in runs if run[0] == each) for each in ranks]
    with _figure() as (figure, axis):
        axis.plot(ranks, ranks, "--", color="0.6", linewidth=1, label="ideal")
        axis.plot([run[0] for run in runs], [*map(speed_up, runs)], "o", color=DIM_COLOURS[0], alpha=0.35, markersize=3)
        axis.plot(ranks, best, "o-", color=DIM_COLOURS[0], markersize=4, linewidth=1.2, label="quickest run")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        _plain_ticks(axis, ranks)
        axis.set_xlabel("ranks")
        axis.set_ylabel("scaled speed-up" if is_weak else "speed-up")
        axis.legend()
        return figure


def _read_runs(path: Path) -> tuple[list[tuple[int, float]], bool]:
    """(ranks, seconds) of the runs that have ended, and whether work grows with the ranks."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["status"] == "finished"]
        runs = [(int(row["ranks"]), float(row["wall_s"])) for row in rows]
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise PlanError(f"{path}: want the runs.csv of launch/scaling-study: {error!r}") from error
    if not runs:
        raise PlanError(f"{path}: no run in it has finished")
    return runs, rows[0]["kind"] == "weak"


def _plain_ticks(axis: Axes, ranks: Sequence[int]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.xaxis.set_major_locator(FixedLocator([*ranks]))
    axis.xaxis.set_minor_locator(NullLocator())
    for each in (axis.xaxis, axis.yaxis):
        each.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _need(plans: object, name: str) -> None:
    if not plans:
        raise PlanError(f"{name}: want at least one plan")


@contextmanager
def _figure() -> Iterator[tuple[Figure, Axes]]:
    """Without pyplot, so that a script needs no display and no figure stays open."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlanError('plots need matplotlib, which is not installed: pip install "autopar[report]"') from error
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        yield figure, figure.add_subplot()
