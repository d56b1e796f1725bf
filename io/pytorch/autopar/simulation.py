"""A plan's timeline on one device, as the simulator runs it (docs/simulate.md)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .plan import Plan
from .programs import run_json

# Rows of the trace that the simulator writes.
ROWS = ("compute", "communication, waited for", "communication, ahead")
PS_PER_MICROSECOND = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    row: str  # one of ROWS
    label: str
    begin_ps: int
    end_ps: int
    nodes: tuple[str, ...]  # the node that computes, or the values that are on their way
    mesh_dims: tuple[str, ...]  # of communication


@dataclass(frozen=True, kw_only=True, slots=True)
class Simulation:
    step_ps: int
    compute_ps: int
    communication_ps: int
    exposed_ps: int
    busy_ps: Mapping[str, int]  # "compute", and by mesh dim
    events: tuple[Event, ...]
    memory: tuple[tuple[int, int], ...]  # (ps, bytes): from then on


def simulate(plan: Plan) -> Simulation:
    with tempfile.TemporaryDirectory(prefix="autopar-") as folder:
        trace = Path(folder) / "trace.json"
        summary = run_json(plan, "simulate", "--trace", str(trace))
        return parse_simulation(summary, json.loads(trace.read_text(encoding="utf-8")))


def parse_simulation(summary: Mapping[str, Any], trace: Mapping[str, Any]) -> Simulation:
    busy = summary["busy_ps"]
    events = trace["traceEvents"]
    return Simulation(
        step_ps=summary["step_ps"],
        compute_ps=summary["compute_ps"],
        communication_ps=summary["communication_ps"],
        exposed_ps=summary["exposed_ps"],
        busy_ps={"compute": busy["compute"], **busy["mesh_dims"]},
        events=tuple(_event(event) for event in events if event["ph"] == "X"),
        memory=tuple((_ps(event["ts"]), event["args"]["bytes"]) for event in events if event["ph"] == "C"),
    )


def _event(event: Mapping[str, Any]) -> Event:
    details = event["args"]
    begin = _ps(event["ts"])
    return Event(
        row=ROWS[event["tid"]],
        label=event["name"],
        begin_ps=begin,
        end_ps=begin + _ps(event["dur"]),
        nodes=tuple(details["values"]) if "values" in details else tuple(filter(None, [details.get("node")])),
        mesh_dims=tuple(details.get("mesh_dims", ())),
    )


def _ps(microseconds: float) -> int:
    return round(microseconds * PS_PER_MICROSECOND)
