"""The two streams and the memory of a step as SVG. One path per colour keeps ten thousand events cheap; the page's
script zooms by the viewBox and finds the event under the pointer in its own table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from ..plan import Plan
from ..simulation import ROWS, Event, Simulation

WIDTH = 1_000_000  # of the viewBox, the whole step: to what a nanosecond is of a second
TOPS = (4, 46, 88)  # by row
HEIGHT = 36  # of a row
MEMORY_HEIGHT = 160
HEAD_ROOM = 1.08  # above the peak


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    streams: str  # content of an SVG with the viewBox "0 0 WIDTH 128"
    memory: str  # of one with the viewBox "0 0 WIDTH 160"
    memory_top_bytes: int  # at the upper edge
    limit_y: float | None  # None: the limit is too far above the peak to be in the picture
    peak_x: float
    peak_y: float
    peak_ps: int
    backward_x: float


def timeline(plan: Plan, simulation: Simulation) -> Timeline:
    step = max(1, simulation.step_ps)
    boxes: defaultdict[str, list[str]] = defaultdict(list)
    for event in simulation.events:
        left, right = (time * WIDTH / step for time in (event.begin_ps, event.end_ps))
        if right > left:
            top = TOPS[ROWS.index(event.row)]
            boxes[event_class(plan, event)].append(
                f"M{left:.2f} {top}h{right - left:.2f}v{HEIGHT}h-{right - left:.2f}z"
            )
    peak_ps, peak_bytes = max(simulation.memory, key=lambda point: point[1], default=(0, 0))
    limit = plan.memory_limit_bytes
    shows_limit = limit < 3 * peak_bytes
    top_bytes = int(HEAD_ROOM * max(peak_bytes, limit if shows_limit else 0)) or 1

    def y(held: int) -> float:
        return MEMORY_HEIGHT * (1 - held / top_bytes)

    backward = min(
        (event.begin_ps for event in simulation.events if event_class(plan, event) == "backward"), default=step
    )
    return Timeline(
        streams="".join(f'<path class="{kind}" d="{"".join(paths)}"/>' for kind, paths in boxes.items()),
        memory=_memory_path(simulation, step, y),
        memory_top_bytes=top_bytes,
        limit_y=y(limit) if shows_limit else None,
        peak_x=peak_ps * WIDTH / step,
        peak_y=y(peak_bytes),
        peak_ps=peak_ps,
        backward_x=backward * WIDTH / step,
    )


def event_class(plan: Plan, event: Event) -> str:
    """The phase of compute, or the mesh dims of communication: "d0", or "dims" of several."""
    if event.row != ROWS[0]:
        return f"d{plan.mesh_dim_names.index(event.mesh_dims[0])}" if len(event.mesh_dims) == 1 else "dims"
    key = event.nodes[0] if event.nodes else None
    if key is None or key not in plan.nodes or (plan.nodes[key].phase is None):
        return "optimizer"
    if key.endswith("/again") and key.removesuffix("/again") in plan.recompute:
        return "again"
    return plan.nodes[key].phase or "optimizer"


def _memory_path(simulation: Simulation, step: int, y: Callable[[int], float]) -> str:
    line = "".join(f"H{time * WIDTH / step:.2f}V{y(held):.2f}" for time, held in simulation.memory)
    return f'<path class="memory" d="M0 {MEMORY_HEIGHT}{line}H{WIDTH}V{MEMORY_HEIGHT}z"/>'
