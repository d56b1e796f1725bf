"""What a plan.json says is read as it is, and what is wrong in one is told by its place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from autopar.errors import PlanError
from autopar.plan import Overlap
from autopar.read_plan import parse_plan

Json = dict[str, Any]
SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "io/schema/plan.schema.json").read_text())


def document() -> Json:
    """y = relu(x), of which the forward saves a half and the backward gathers it; as the program would write it."""
    whole, half = ["R"], ["S(0)"]

    def node(op: str, inputs: list[Any], **more: Any) -> Json:
        return {"op": op, "inputs": inputs, "outputs": [whole], "tensors": ["float32[8]"], "compute_ps": 0, **more}

    def move(phase: str, source: Any, target: Any, step: str, uses: list[Json], **more: Any) -> Json:
        steps = [{"step": step, "mesh_dims": ["tp"], "to": target, "bytes": 0, "time_ps": 0}]
        value: Json = {"value": "relu", "output": 0, "phase": phase, "from": source, "to": target, "dtype": "float32"}
        return {**value, "steps": steps, **more, "uses": uses}

    parts = ("parameters", "optimizer", "gradients", "inputs", "saved", "temporary")
    peak = {"bytes": 48, "node": "relu", **{f"{part}_bytes": 8 for part in parts}}
    return {
        "format": "autopar-plan",
        "version": 1,
        "producer": "autopar-search 0.1.0",
        "model": {"name": "half", "graph_hash": "sha256:" + 64 * "0", "hash": "xxh3:" + 16 * "0"},
        "cluster": {"name": "c", "hash": "xxh3:" + 16 * "0"},
        "constraints_hash": None,
        "mesh": {"shape": [2], "dim_names": ["tp"]},
        "result": {"status": "optimal", "cost_ps": 0, "bound_ps": 0, "gap": 0},
        "totals": {
            **{
                "cost_ps": 0,
                "compute_ps": 0,
                "communication_ps": 0,
                "exposed_ps": 0,
                "parameter_bytes": 0,
                "memory_limit_bytes": 64,
            },
            "peak": peak,
            "communication": [],
        },
        "parameters": {},
        "nodes": {
            "x": node("placeholder", []),
            "relu": node("aten.relu.default", [whole], memory_bytes=48, phase="forward"),
            "first": node("aten.relu.default", [whole], memory_bytes=40, phase="backward"),
            "relu/b": node("aten.relu.default", [whole], memory_bytes=40, phase="backward"),
        },
        "recompute": [],
        "redistributions": [
            move("forward", whole, half, "slice", [], is_saved=True),
            move("backward", half, whole, "all_gather", [{"node": "relu/b", "input": 0}]),
        ],
        "outputs": [],
    }


def test_what_both_phases_read_is_saved_with_its_uses() -> None:
    text = document()
    text["redistributions"][0].update(uses=[{"node": "relu", "input": 0}], start="relu", finish=None)
    jsonschema.validate(text, SCHEMA)
    kept = parse_plan(json.dumps(text), "p.json").redistributions[0]
    assert (kept.is_saved, kept.uses, kept.overlap) == (True, (("relu", 0),), Overlap(start="relu", finish=None))


def test_what_is_saved_is_told_from_what_is_read() -> None:
    text = document()
    jsonschema.validate(text, SCHEMA)
    plan = parse_plan(json.dumps(text), "p.json")
    saved, gathered = plan.redistributions
    assert (saved.is_saved, saved.phase, saved.source, saved.target) == (True, "forward", ("R",), ("S(0)",))
    assert not saved.uses
    assert (gathered.is_saved, gathered.uses) == (False, (("relu/b", 0),))
    assert plan.peak.bytes == 48


def overlapped(**change: Any) -> Callable[[Json], Any]:
    def edit(document: Json) -> None:
        document["redistributions"][1].update({"start": "first", "finish": "relu/b"} | change)

    return edit


def test_starts_and_finishes_are_read() -> None:
    text = document()
    assert all(entry.overlap is None for entry in parse_plan(json.dumps(text), "p.json").redistributions)
    for finish in ("relu/b", None):
        overlapped(finish=finish)(text)
        text["redistributions"][1]["steps"][0]["startup_ps"] = 3
        jsonschema.validate(text, SCHEMA)
        plan = parse_plan(json.dumps(text), "p.json")
        assert plan.redistributions[1].overlap == Overlap(start="first", finish=finish)
        assert plan.nodes["first"].phase == "backward"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda d: d["redistributions"][0].update(is_saved=1), "redistributions[0].is_saved: want bool, found 1"),
        (
            lambda d: d["redistributions"][0].update(is_saved="yes"),
            'redistributions[0].is_saved: want bool, found "yes"',
        ),
        (lambda d: d["redistributions"][1].update(is_saved=None), "redistributions[1].is_saved: want bool, found null"),
        (lambda d: d["redistributions"][1].pop("from"), 'redistributions[1]: "from" is missing'),
        (lambda d: d["redistributions"][1].update(to=["S(x)"]), "redistributions[1].to: want placements such as"),
        (lambda d: d["redistributions"][1].update(start="first"), 'redistributions[1]: "finish" is missing'),
        (lambda d: d["redistributions"][1].update(finish=None), 'redistributions[1]: "start" is missing'),
        (overlapped(start=None), "redistributions[1].start: want str, found null"),
        (overlapped(finish=2), "redistributions[1].finish: want str, found 2"),
        (overlapped(start="x"), 'redistributions[1].start: want a node of the backward, found "x"'),
        (overlapped(start="relu"), 'redistributions[1].start: want a node of the backward, found "relu"'),
        (overlapped(finish="gone"), 'redistributions[1].finish: want a node of the backward, found "gone"'),
        (overlapped(finish="first"), 'redistributions[1].finish: want a node behind first, found "first"'),
        (lambda d: d["nodes"]["first"].update(phase="b"), 'nodes.first.phase: want forward or backward, found "b"'),
        (lambda d: d["totals"].pop("peak"), 'totals: "peak" is missing'),
        (lambda d: d["totals"]["peak"].update(bytes="48"), 'totals.peak.bytes: want int, found "48"'),
        (lambda d: d["totals"]["peak"].update(bytes=True), "totals.peak.bytes: want int, found true"),
    ],
)
def test_faults_are_told_by_their_place(change: Callable[[Json], Any], fault: str) -> None:
    faulty = copy.deepcopy(document())
    change(faulty)
    with pytest.raises(PlanError) as error:
        parse_plan(json.dumps(faulty), "p.json")
    assert str(error.value).startswith(f"p.json: {fault}")


@pytest.mark.parametrize("wrong", [1, "yes", None, False])
def test_the_schema_refuses_the_same(wrong: Any) -> None:
    faulty = document()
    faulty["redistributions"][0]["is_saved"] = wrong
    with pytest.raises(jsonschema.ValidationError) as error:
        jsonschema.validate(faulty, SCHEMA)
    assert list(error.value.absolute_path) == ["redistributions", 0, "is_saved"]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["redistributions"][1].update(start="first"),
        lambda d: d["redistributions"][1].update(finish=None),
    ],
)
def test_the_schema_wants_both_keys_or_none(change: Callable[[Json], Any]) -> None:
    faulty = document()
    change(faulty)
    with pytest.raises(jsonschema.ValidationError) as error:
        jsonschema.validate(faulty, SCHEMA)
    assert next(iter(error.value.absolute_path)) == "redistributions"
