"""autopar-search --pareto memory: plans that trade step time for memory."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rule_check import needed_build_folder

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "models"


def search(folder: Path, model: str, *options: str) -> subprocess.CompletedProcess[str]:
    build = needed_build_folder()
    program = str(build / "autopar-search")
    command = [
        program,
        str(MODELS / model),
        "--mesh",
        "4,2",
        "--cluster",
        "h100",
        "--overlap",
        "none",
        "--reproducible",
        *options,
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize("model", ["mlp.json", "normed.json"])
def test_each_plan_is_the_best_within_its_limit(tmp_path: Path, model: str) -> None:
    done = search(tmp_path, model, "--pareto", "memory", "-o", "plan.json")
    assert done.returncode == 0, done.stderr
    frontier = read(tmp_path / "plan.frontier.json")
    points = frontier["points"]
    assert len(points) > 2
    assert [point["plan"] for point in points] == ["plan.json", *(f"plan.{i}.json" for i in range(2, len(points) + 1))]
    for before, after in itertools.pairwise(points):
        assert after["peak_bytes"] < before["peak_bytes"]
        assert after["cost_ps"] > before["cost_ps"]
        assert after["bound_ps"] >= before["bound_ps"]
    for point in points:
        plan = read(tmp_path / point["plan"])
        assert plan["totals"]["peak"]["bytes"] == point["peak_bytes"] <= point["memory_limit_bytes"]
        assert plan["result"]["cost_ps"] == point["cost_ps"] >= point["bound_ps"]
        # A search of its own with that limit finds no better one.
        limit = {"format": "autopar-constraints", "version": 1, "memory_limit_bytes": point["memory_limit_bytes"]}
        (tmp_path / "limit.json").write_text(json.dumps(limit))
        assert search(tmp_path, model, "--constraints", "limit.json", "-o", "alone.json").returncode == 0
        alone = read(tmp_path / "alone.json")["result"]
        assert alone["cost_ps"] >= point["bound_ps"]
        assert point["cost_ps"] >= alone["bound_ps"]
    # And where it ended, one finds none.
    assert frontier["no_plan_within"]["status"] == "infeasible"
    least = {**limit, "memory_limit_bytes": frontier["no_plan_within"]["memory_limit_bytes"]}
    (tmp_path / "limit.json").write_text(json.dumps(least))
    assert search(tmp_path, model, "--constraints", "limit.json", "-o", "none.json").returncode == 4
    assert not (tmp_path / "none.json").exists()


def test_the_fastest_is_the_plan_without_the_option(tmp_path: Path) -> None:
    search(tmp_path, "mlp.json", "--pareto", "memory", "-o", "plan.json")
    search(tmp_path, "mlp.json", "-o", "alone.json")
    assert (tmp_path / "plan.json").read_bytes() == (tmp_path / "alone.json").read_bytes()


def test_what_it_does_not_go_with(tmp_path: Path) -> None:
    for options in (["--pareto", "time"], ["--pareto", "memory", "--random-plan", "1"]):
        done = search(tmp_path, "mlp.json", *options, "-o", "plan.json")
        assert done.returncode == 2
        assert "--pareto" in done.stderr
        assert list(tmp_path.iterdir()) == []
