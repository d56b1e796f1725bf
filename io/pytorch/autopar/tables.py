"""A plan as rows; as data frames where pandas is installed. Times in picoseconds, bytes of one device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .errors import PlanError
from .modules import split_key
from .plan import LOCAL_STEPS, PHASES, Placements, Plan, Redistribution
from .tensors import local_tensor, num_bytes

if TYPE_CHECKING:
    import pandas as pd

    from .simulation import Simulation

Row = dict[str, Any]
COMMUNICATION_COLUMNS = ["mesh_dims", "collective", "phase", "count", "bytes", "time_ps", "beside_compute_ps"]
REDISTRIBUTION_COLUMNS = [
    *("redistribution", "value", "phase", "from", "to", "step"),
    *("mesh_dims", "dtype", "bytes", "time_ps", "runs_ahead", "readers"),
]


def nodes_table(plan: Plan) -> pd.DataFrame:
    return _frame(
        {
            "node": key,
            "module": split_key(key, node.phase is not None)[0],
            "op": node.op,
            "phase": node.phase,
            "runs_again": key in plan.recompute,
            **_by_dim(plan, next((placed for placed in node.outputs if placed is not None), None)),
            "tensor": next((text for text in node.tensors if text is not None), None),
            "compute_ps": node.compute_ps,
            "memory_bytes": node.memory_bytes,
        }
        for key, node in plan.nodes.items()
    )


def parameters_table(plan: Plan) -> pd.DataFrame:
    return _frame(parameter_rows(plan))


def communication_table(plan: Plan) -> pd.DataFrame:
    return _frame(communication_rows(plan), COMMUNICATION_COLUMNS)


def redistributions_table(plan: Plan) -> pd.DataFrame:
    return _frame(_redistribution_rows(plan), REDISTRIBUTION_COLUMNS)


def _redistribution_rows(plan: Plan) -> Iterator[Row]:
    for index, entry in enumerate(plan.redistributions):
        for place, step in enumerate(entry.steps):
            yield {
                "redistribution": index,
                "value": entry.value,
                "phase": entry.phase,
                "from": ", ".join(entry.source),
                "to": ", ".join(step.to),
                "step": step.kind,
                "mesh_dims": dims_text(plan, step.mesh_dims),
                "dtype": step.dtype,
                "bytes": step.bytes,
                "time_ps": step.time_ps,
                "runs_ahead": entry.overlap is not None and place == entry.last_collective,
                "readers": len(entry.uses) + len(entry.graph_outputs),
            }


def memory_table(plan: Plan, simulation: Simulation | None) -> pd.DataFrame:
    if simulation is not None:
        return _frame({"time_ps": time, "memory_bytes": held} for time, held in simulation.memory)
    return _frame(
        {"node": key, "memory_bytes": node.memory_bytes}
        for key, node in plan.nodes.items()
        if node.memory_bytes is not None
    )


def parameter_rows(plan: Plan) -> list[Row]:
    rows = []
    for name, placed in plan.parameters.items():
        node = plan.nodes.get(name)  # a tied parameter has a node under one of its names only
        tensor = node.tensors[0] if node else None
        held = None
        if tensor:
            held = num_bytes(*local_tensor(tensor, placed, plan.mesh_shape, f"{plan.source}: nodes.{name}"))
        rows.append({"parameter": name, **_by_dim(plan, placed), "tensor": tensor, "bytes": held})
    return rows


def communication_rows(plan: Plan) -> list[Row]:
    """By mesh dims, collective and phase: how often, what it moves, how long it takes, and how much of that is not
    waited for where it is read, as it runs ahead or in pieces beside matmuls. Zeros that are written take time, too.
    """
    rows: dict[tuple[tuple[int, ...], str, str], Row] = {}

    def add(dims: tuple[int, ...], kind: str, phase: str, moved: int, time_ps: int, beside_ps: int) -> None:
        row = rows.setdefault(
            (dims, kind, phase),
            {"mesh_dims": dims_text(plan, dims), "collective": kind, "phase": phase}
            | dict.fromkeys(("count", "bytes", "time_ps", "beside_compute_ps"), 0),
        )
        row["count"] += 1
        row["bytes"] += moved
        row["time_ps"] += time_ps
        row["beside_compute_ps"] += beside_ps

    for entry in plan.redistributions:
        for place, step in enumerate(entry.steps):
            if step.kind not in LOCAL_STEPS or step.time_ps > 0:
                add(step.mesh_dims, step.kind, entry.phase, step.bytes, step.time_ps, beside_ps(entry, place))
    for node in plan.nodes.values():
        for one in node.collectives:
            add(one.mesh_dims, "all_reduce", node.phase or PHASES[0], one.bytes, one.time_ps, 0)
    order = sorted(rows, key=lambda key: (len(key[0]), key[0], PHASES.index(key[2]), -rows[key]["time_ps"]))
    return [rows[key] for key in order]


def beside_ps(entry: Redistribution, place: int) -> int:
    """Of the time of the step at `place`, what runs beside compute."""
    if place != entry.last_collective:
        return 0
    return entry.steps[place].time_ps if entry.overlap is not None else entry.pipelined_ps


def dims_text(plan: Plan, dims: Iterable[int]) -> str:
    return ", ".join(plan.mesh_dim_names[dim] for dim in dims)


def _by_dim(plan: Plan, placed: Placements | None) -> Row:
    """A column per mesh dim."""
    return dict(zip(plan.mesh_dim_names, placed or (None,) * len(plan.mesh_shape), strict=True))


def _frame(rows: Iterable[Row], columns: list[str] | None = None) -> pd.DataFrame:
    """`columns`: where there may be no rows to name them."""
    try:
        import pandas as pd
    except ImportError as error:
        raise PlanError('tables need pandas, which is not installed: pip install "autopar[report]"') from error
    return pd.DataFrame(list(rows), columns=columns)
