"""Plots as PNG and SVG."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study import StudyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, Any]
COLOUR, IDEAL = "tab:blue", "0.6"


def check_matplotlib() -> None:
    """At the beginning: after hours of runs it would be late to hear of it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise StudyError("matplotlib is not installed; run launch/setup.sh, or pip install matplotlib")


def plot_study(rows: list[Row], title: str, out: Path) -> None:
    """A dot for every run; lines join the quickest of each number of ranks."""
    ranks = sorted({row["ranks"] for row in rows})
    best = {n: min((row for row in rows if row["ranks"] == n), key=lambda row: float(row["wall_s"])) for n in ranks}
    is_weak = rows[0]["kind"] == "weak"
    one_s = best[ranks[0]]["wall_s"] * (1 if is_weak else ranks[0])

    def speed_up(row: Row) -> float:
        return float(one_s / row["wall_s"] * (row["ranks"] if is_weak else 1))

    panels: list[tuple[str, Callable[[Row], float]]] = [
        ("wall time, s", lambda row: row["wall_s"]),
        ("scaled speed-up" if is_weak else "speed-up", speed_up),
        ("parallel efficiency, %", lambda row: 100 * speed_up(row) / row["ranks"]),
        ("idle: share of the ranks' time, %", lambda row: 100 * row["wait_share"]),
        ("imbalance of tasks: most above average, %", lambda row: 100 * row["task_imbalance"]),
    ]
    figure, axes = new_figure(title, ranks, len(panels))
    for axis, (name, value) in zip(axes, panels, strict=True):
        draw(axis, ranks, [value(best[n]) for n in ranks], name)
        axis.scatter([row["ranks"] for row in rows], [value(row) for row in rows], s=14, color=COLOUR, alpha=0.5)
        axis.set_ylim(0, 1.08 * max([*map(value, rows), 1e-3]))
    draw_ideal(axes, ranks)
    axes[1].set_ylim(0, 1.08 * ranks[-1])
    save(figure, out / "study")


def plot_projection(rows: list[Row], source: str, out: Path) -> None:
    ranks = [row["ranks"] for row in rows]
    title = f"Projection, not measured: simulated from {source}"
    columns = [
        ("projected wall time, s", "wall_s", 1),
        ("projected speed-up", "speed_up", 1),
        ("projected parallel efficiency, %", "efficiency", 100),
        ("projected idle: share of the ranks' time, %", "idle_share", 100),
        ("projected load of rank 0's message thread, %", "rank_0_message_share", 100),
    ]
    figure, axes = new_figure(title, ranks, len(columns))
    for axis, (name, column, factor) in zip(axes, columns, strict=True):
        draw(axis, ranks, [factor * row[column] for row in rows], name)
    axes[0].plot(ranks, [row["critical_path_s"] for row in rows], ":", color="tab:red", label="critical path")
    axes[1].plot(ranks, [row["most_speed_up"] for row in rows], ":", color="tab:red", label="by the critical path")
    axes[0].legend()
    draw_ideal(axes, ranks)
    axes[1].set_ylim(top=1.3 * max(max(row["most_speed_up"] for row in rows), 1))
    save(figure, out / "projection")


def new_figure(title: str, ranks: Sequence[int], count: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    figure = Figure(figsize=(4.4 * 3, 4 * ((count + 2) // 3)), layout="constrained")
    figure.suptitle(title, wrap=True)
    axes = [figure.add_subplot((count + 2) // 3, 3, place + 1) for place in range(count)]
    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_locator(FixedLocator([*ranks]))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.tick_params(axis="x", rotation=60 if len(ranks) > 8 else 0)
        axis.set_xlabel("ranks")
        axis.grid(color="0.9")
    return figure, axes


def draw(axis: Axes, ranks: Sequence[int], values: Sequence[float], name: str) -> None:
    axis.plot(ranks, values, "o-", color=COLOUR, markersize=4)
    axis.set_title(name, fontsize=10)
    axis.set_ylim(bottom=0)


def draw_ideal(axes: Sequence[Axes], ranks: Sequence[int]) -> None:
    axes[1].plot(ranks, ranks, "--", color=IDEAL, label="ideal")
    axes[1].legend()
    axes[2].axhline(100, linestyle="--", color=IDEAL)


def save(figure: Figure, stem: Path) -> None:
    for ending in (".png", ".svg"):
        part = stem.with_name(f"{stem.name}.part{ending}")
        figure.savefig(part, dpi=120)
        part.replace(stem.with_name(stem.name + ending))
