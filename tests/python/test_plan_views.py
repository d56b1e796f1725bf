"""What a Plan shows of itself: tables, the folded tree of modules, pictures, and what is held at the peak."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import autopar
import pytest
from autopar.modules import Module, module_tree, ranges
from autopar.plan import Plan
from autopar.read_plan import parse_plan
from autopar.report.alive import alive_at_peak
from autopar.summary import bytes_text, time_text
from autopar.tensors import num_bytes
from rule_check import build_folder, needed_build_folder
from test_plan import document

ROOT = Path(__file__).resolve().parents[2]
# What moves: activations, and parameters that are gathered with zeros written for pending sums.
SEARCHES = [("transformer", "dp=2,tp=2", "cpu-gloo"), ("mlp", "dp=4,tp=2", "h100")]


@pytest.fixture(scope="module", params=SEARCHES, ids=[name for name, *_ in SEARCHES])
def searched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model and its plan."""
    folder = needed_build_folder()
    name, mesh, cluster = request.param
    model = ROOT / "tests" / "models" / f"{name}.json"
    path = tmp_path_factory.mktemp("plan") / f"{name}.plan.json"
    options = ["--mesh", mesh, "--cluster", cluster, "-q", "-o", str(path)]
    subprocess.run([str(folder / "autopar-search"), str(model), *options], check=True)
    return model, path


@pytest.fixture(scope="module")
def plan_path(searched: tuple[Path, Path]) -> Path:
    return searched[1]


@pytest.fixture(scope="module")
def plan(plan_path: Path) -> Plan:
    return autopar.load_plan(plan_path)


def layered(change: dict[str, Any] | None = None) -> Plan:
    """Three layers of one relu each, the last with `change`."""
    text = document()
    relu = text["nodes"]["relu"]
    text["nodes"] = {f"layers.{layer}/f/relu": copy.deepcopy(relu) for layer in range(3)}
    text["nodes"]["layers.2/f/relu"] |= change or {}
    text["redistributions"] = []
    return parse_plan(json.dumps(text), "layered.json")


def names(module: Module) -> list[str]:
    return [child.name for child in module.modules]


def test_layers_that_do_the_same_are_one() -> None:
    (layers,) = module_tree(layered()).modules
    assert names(layers) == ["0–2"]
    assert layers.modules[0].leaves[0].keys == [f"layers.{layer}/f/relu" for layer in range(3)]


@pytest.mark.parametrize("change", [{"compute_ps": 7}, {"outputs": [["S(0)"]]}, {"tensors": ["float32[16]"]}])
def test_layers_that_differ_stand_alone(change: dict[str, Any]) -> None:
    (layers,) = module_tree(layered(change)).modules
    assert names(layers) == ["0–1", "2"]


def test_memory_alone_does_not_part_layers() -> None:
    """It rises from layer to layer."""
    (layers,) = module_tree(layered({"memory_bytes": 64})).modules
    assert names(layers) == ["0–2"]


def test_ranges() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == "0–2,5,7–8"


def test_tree_has_every_node_once(plan: Plan) -> None:
    keys = [key for leaf in module_tree(plan).all_leaves() for key in leaf.keys]
    assert sorted(keys) == sorted({*plan.nodes, *plan.parameters})


def test_tables(plan: Plan) -> None:
    pytest.importorskip("pandas")
    nodes = plan.nodes_table()
    assert list(nodes["node"]) == list(plan.nodes)
    assert nodes["compute_ps"].sum() == plan.compute_ps
    communication = plan.communication_table()
    assert communication["time_ps"].sum() == plan.communication_ps
    collectives = communication[communication["collective"] != "zero"]
    assert collectives["count"].sum() == sum(total.count for total in plan.communication)
    parameters = plan.parameters_table()
    assert list(parameters["parameter"]) == list(plan.parameters)
    assert parameters["bytes"].sum() == plan.peak.kinds["parameters"]
    assert plan.memory_table()["memory_bytes"].max() <= plan.peak.bytes
    moved = plan.redistributions_table()
    assert len(moved) >= len(plan.redistributions) > 0
    assert moved["time_ps"].sum() == sum(entry.time_ps for entry in plan.redistributions)


def test_tables_without_rows_have_columns() -> None:
    pytest.importorskip("pandas")
    text = document()
    text["redistributions"] = []
    still = parse_plan(json.dumps(text), "still.json")
    assert still.redistributions_table()["time_ps"].sum() == still.communication_table()["time_ps"].sum() == 0


def test_simulation(plan: Plan) -> None:
    simulation = plan.simulate()
    assert simulation.compute_ps == plan.compute_ps
    assert max(event.end_ps for event in simulation.events) <= simulation.step_ps
    assert max(held for _, held in simulation.memory) == plan.peak.bytes


def test_pictures_are_well_formed(plan: Plan) -> None:
    picture = ElementTree.fromstring(plan.to_svg())
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert any(text and text.startswith(f"{plan.model_name} on dp=") for text in texts)
    assert sum(text in ("R", "S(0)", "S(1)") for text in texts) > len(plan.mesh_shape)
    ElementTree.fromstring(f"<div>{plan._repr_html_()}</div>")


def test_names_are_text_in_pictures() -> None:
    named = document()
    named["parameters"] = {"relu.weight": ["R"]}
    text = json.dumps(named).replace('"relu', '"<script>alert(1)</script>').replace('"half"', '"<i>half"')
    hostile = parse_plan(text, "hostile.json")
    for drawn in (hostile.to_svg(), hostile._repr_html_()):
        assert "<script" not in drawn
        assert "<i>" not in drawn


def test_held_at_the_peak_by_hand() -> None:
    """a = relu(x) is read by b = view(a) only, which c reads; d reads c alone: at d, what a gave is gone."""
    text = document()
    relu = {**text["nodes"]["relu"], "memory_bytes": 0}
    text["nodes"] = {
        "x": text["nodes"]["x"],
        "m.0/f/a": {**relu, "reads": ["x"]},
        "m.0/f/b": {**relu, "op": "aten.view.default", "reads": ["m.0/f/a"]},
        "m.0/f/c": {**relu, "reads": ["m.0/f/b"]},
        "m.0/f/d": {**relu, "reads": [["m.0/f/c", 0]]},
    }
    text["redistributions"] = []
    held = {}
    for peak in ("m.0/f/a", "m.0/f/c", "m.0/f/d"):
        text["totals"]["peak"]["node"] = peak
        rows = alive_at_peak(parse_plan(json.dumps(text), "hand.json"))
        assert rows is not None
        held[peak] = {row.pattern[-1]: row.bytes for row in rows}
    assert held == {"m.0/f/a": {"a": 32}, "m.0/f/c": {"a": 32, "c": 32}, "m.0/f/d": {"c": 32, "d": 32}}


def test_what_is_kept_in_pieces_is_held_in_pieces() -> None:
    """relu's result is cut for the backward, where relu/b gathers it."""
    text = document()
    for reader, read in (("relu", "x"), ("first", "x"), ("relu/b", "relu")):
        text["nodes"][reader]["reads"] = [read]
    held = {}
    for peak in ("relu", "first", "relu/b"):
        text["totals"]["peak"]["node"] = peak
        rows = alive_at_peak(parse_plan(json.dumps(text), "hand.json"))
        assert rows is not None
        held[peak] = {(row.pattern, row.first.what): row.bytes for row in rows}
    kept = {("relu", "slice"): 16}
    assert held == {
        "relu": {("relu", "result"): 32, **kept},
        "first": {("first", "result"): 32, **kept},
        "relu/b": {("relu/b", "result"): 32, ("relu", "all-gather"): 32, **kept},
    }


def test_held_at_the_peak_is_about_the_peak(plan: Plan) -> None:
    rows = alive_at_peak(plan)
    if rows is None:
        pytest.skip("a plan of an autopar-search that does not write what nodes read")
    all_the_time = sum(plan.peak.kinds[kind] for kind in ("parameters", "optimizer", "inputs"))
    assert sum(row.bytes for row in rows) + all_the_time == pytest.approx(plan.peak.bytes, rel=0.02)


def test_packed_plans_are_read(plan: Plan, plan_path: Path, tmp_path: Path) -> None:
    packed = tmp_path / "plan.json.gz"
    packed.write_bytes(gzip.compress(plan_path.read_bytes()))
    assert autopar.load_plan(packed).nodes == plan.nodes
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(autopar.PlanError, match=r"plan.json.gz: is no whole gzip file"):
        autopar.load_plan(packed)


def test_progress_is_read_and_checked() -> None:
    text = document()
    text["run"] = {"ranks": 1, "progress": [[0.5, None, 3], [1, 9, 4]]}
    read = parse_plan(json.dumps(text), "p.json")
    assert (read.run, read.progress) == ({"ranks": 1}, ((0.5, None, 3), (1, 9, 4)))
    text["run"]["progress"] = [[0.5, "9", 4]]
    with pytest.raises(autopar.PlanError, match=r"run.progress\[0\]: want"):
        parse_plan(json.dumps(text), "p.json")


def test_reads_are_checked() -> None:
    for wrong in (["x", "x"], [["x"]], [["x", "y"]], [1], "x"):
        text = document()
        text["nodes"]["relu"]["reads"] = wrong
        with pytest.raises(autopar.PlanError, match=r"p.json: nodes.relu.reads: want"):
            parse_plan(json.dumps(text), "p.json")


def test_figures_have_four_digits() -> None:
    assert [time_text(ps) for ps in (0, 999, 531869005385, 999960)] == ["0 ps", "999 ps", "531.9 ms", "1.000 µs"]
    assert [bytes_text(number) for number in (1023, 1024, 44631015944)] == ["1023 B", "1.000 KiB", "41.57 GiB"]
    sizes = [num_bytes(name, [3]) for name in ("bool", "bfloat16", "float8_e4m3fn", "complex64")]
    assert sizes == [3, 6, 3, 24]


def test_programs_that_are_missing_are_told(plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AUTOPAR_BUILD_DIR", str(tmp_path))
    with pytest.raises(autopar.PlanError, match="no program autopar-plan in AUTOPAR_BUILD_DIR"):
        plan.simulate()


def test_answers_of_the_program(plan: Plan, searched: tuple[Path, Path]) -> None:
    model, plan_path = searched
    folder = build_folder()
    if folder is None or not (folder / "autopar-plan").exists():
        pytest.skip("autopar-plan is not built")
    name = next(iter(plan.parameters))
    explained = plan.explain(name, model=model)
    assert [tensor["name"] for tensor in explained["tensors"]] == [name]
    same = plan.diff(autopar.load_plan(plan_path))
    assert same["a"]["cost_ps"] == same["b"]["cost_ps"] == plan.cost_ps
    pinned = plan.what_if({name: ["R", "R"]}, model=model)
    assert pinned["b"]["cost_ps"] >= plan.bound_ps
    with pytest.raises(autopar.PlanError, match="exit code 2"):
        plan.explain("nobody", model=model)
