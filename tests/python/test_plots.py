"""Figures for papers show what the plans and the study say."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import autopar
import pytest
from autopar import plots
from autopar.plan import Plan
from autopar.read_plan import parse_plan
from autopar.simulation import Simulation
from test_plan import document

pytest.importorskip("matplotlib")
RUNS = "kind,ranks,status,wall_s\nstrong,1,finished,8\nstrong,2,finished,5\nstrong,2,finished,4\nstrong,4,failed,\n"


def plan(peak_gib: float = 1, cost_ms: float = 2) -> Plan:
    made = parse_plan(json.dumps(document()), "p.json")
    peak = dataclasses.replace(made.peak, bytes=int(peak_gib * 2**30))
    cost_ps = int(cost_ms * 1e9)
    return dataclasses.replace(made, peak=peak, cost_ps=cost_ps, compute_ps=cost_ps // 2, exposed_ps=cost_ps // 2)


def points(line: Any) -> list[tuple[float, float]]:
    return list(zip(*line.get_data(), strict=True))


def widths(figure: Any) -> list[float]:
    return [bar.get_width() for bar in figure.axes[0].patches]


def test_frontier_has_what_no_other_plan_beats() -> None:
    assert plots.unbeaten([(2, 5), (1, 9), (3, 5), (4, 1), (1, 8)]) == [(1, 8), (2, 5), (4, 1)]
    figure = plots.frontier({"a": plan(1, 9), "b": plan(2, 5), "worse": plan(3, 7)})
    line, beaten, best = figure.axes[0].lines
    assert points(line) == points(best) == [(1, 9), (2, 5)]
    assert points(beaten) == [(3, 7)]
    assert [text.get_text() for text in figure.axes[0].texts] == ["a", "b", "worse"]


def test_step_times_add_up() -> None:
    assert widths(plots.step_times({"a": plan(cost_ms=4)})) == [2, 2]
    with pytest.raises(autopar.PlanError, match="at least one plan"):
        plots.step_times({})


def test_communication_has_a_bar_per_collective() -> None:
    text = document()
    text["redistributions"][1]["steps"][0]["time_ps"] = 3_000_000_000
    assert widths(plots.communication(parse_plan(json.dumps(text), "p.json"))) == [3, 0]


def test_memory_is_the_simulations() -> None:
    simulation = Simulation(
        step_ps=10**9, compute_ps=0, communication_ps=0, exposed_ps=0, busy_ps={}, events=(), memory=((0, 2**30),)
    )
    assert points(plots.memory(plan(), simulation).axes[0].lines[0]) == [(0, 1)]


@pytest.mark.parametrize(("kind", "expected"), [("strong", [1, 2]), ("weak", [1, 4])])
def test_scaling_takes_the_quickest(tmp_path: Path, kind: str, expected: list[float]) -> None:
    (tmp_path / "runs.csv").write_text(RUNS.replace("strong", kind))
    figure = plots.scaling(tmp_path)
    best = next(line for line in figure.axes[0].lines if line.get_label() == "quickest run")
    assert [speed_up for _, speed_up in points(best)] == expected
    figure.savefig(tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_other_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(autopar.PlanError, match=r"runs.csv: cannot be read"):
        plots.scaling(tmp_path / "runs.csv")
    for text, expected in (("a,b\n1,2\n", "want the runs.csv"), ("kind,ranks,status,wall_s\n", "has finished")):
        (tmp_path / "runs.csv").write_text(text)
        with pytest.raises(autopar.PlanError, match=expected):
            plots.scaling(tmp_path)
