"""Bars and curves of the report as SVG that takes its colours from the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from markupsafe import Markup

from ..plan import Plan
from ..summary import bytes_text, time_text
from .ranks import RankRow

BAR_WIDTH, BAR_HEIGHT = 1000, 26

# Class of the colour, what it is, how much, the same as text.
Part = tuple[str, str, int, str]


def time_bar(plan: Plan, communication: Sequence[Mapping[str, Any]]) -> Markup:
    """The step: compute, and what of the communication is waited for by mesh dim."""
    waited: dict[str, int] = {}
    for row in communication:
        waited[row["mesh_dims"]] = waited.get(row["mesh_dims"], 0) + row["time_ps"] - row["beside_compute_ps"]
    if (rest := plan.exposed_ps - sum(waited.values())) > 0:
        # The plan's sum and the simulator's timeline differ a little; without one, what windows did not hide.
        waited["what is not told apart"] = rest
    parts: list[Part] = [("compute", "compute", plan.compute_ps, time_text(plan.compute_ps))]
    for dims, time_ps in waited.items():
        kind = f"d{plan.mesh_dim_names.index(dims)}" if dims in plan.mesh_dim_names else "dims"
        parts.append((kind, f"waiting for {dims}", time_ps, time_text(time_ps)))
    return _bar("Predicted step time", parts, plan.cost_ps)


def memory_bar(plan: Plan) -> Markup:
    """The peak by kind, of the limit."""
    kinds = [(f"kind-{kind}", kind, held, bytes_text(held)) for kind, held in plan.peak.kinds.items()]
    free = plan.memory_limit_bytes - plan.peak.bytes
    return _bar("Memory at the peak", [*kinds, ("free", "free", free, bytes_text(free))], plan.memory_limit_bytes)


def _bar(title: str, parts: Sequence[Part], whole: int) -> Markup:
    """A bar with a legend below it, which has the figures as text."""
    boxes, left = [], 0.0
    shown = [part for part in parts if part[2] > 0]
    for kind, name, number, text in shown:
        width = BAR_WIDTH * number / max(1, whole)
        boxes.append(
            f'<rect class="{kind}" x="{left:.2f}" width="{width:.2f}" height="{BAR_HEIGHT}">'
            f"<title>{escape(name)}: {escape(text)} ({number / max(1, whole):.1%})</title></rect>"
        )
        left += width
    entries = "".join(
        f'<li><i class="swatch {kind}"></i>{escape(name)} <b>{escape(text)}</b> '
        f"<small>{number / max(1, whole):.1%}</small></li>"
        for kind, name, number, text in shown
    )
    described = ", ".join(f"{name} {text}" for _, name, _, text in shown)
    return Markup(
        f'<svg class="bar" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(title)}: {escape(described)}">{"".join(boxes)}</svg><ul class="legend">{entries}</ul>'
    )


# Class of the colour and what it is, by the column of times.csv.
WORK = {
    "read_s": ("dim5", "reading"),
    "price_s": ("dim2", "pricing"),
    "presolve_s": ("dim4", "presolve"),
    "bound_s": ("dim1", "bound"),
    "search_s": ("dim0", "search"),
    "wait_s": ("idle", "waiting"),
}
MOST_LABELLED = 48  # ranks


def ranks_chart(rows: Sequence[RankRow]) -> Markup:
    """A bar per rank: what it did all the time, and how many tasks."""
    height = 18 if len(rows) <= MOST_LABELLED else max(2, 900 // len(rows))
    longest = max((row.seconds for row in rows), default=0.0) or 1.0
    left, width = 130, 860
    parts = []
    for place, row in enumerate(rows):
        y, x = place * height, float(left)
        if len(rows) <= MOST_LABELLED:
            tasks = f"{row.tasks} task{'' if row.tasks == 1 else 's'}"
            parts.append(f'<text x="0" y="{y + 13}">rank {row.rank}, {tasks}</text>')
        for column, (kind, name) in WORK.items():
            box = width * row.times[column] / longest
            if box > 0.05:
                title = f"rank {row.rank}, {name}: {row.times[column]:.3g} s"
                parts.append(
                    f'<rect class="work-{kind}" x="{x:.1f}" y="{y + 1}" width="{box:.1f}" '
                    f'height="{max(1, height - 3)}"><title>{title}</title></rect>'
                )
            x += box
    legend = "".join(f'<li><i class="swatch work-{kind}"></i>{name}</li>' for kind, name in WORK.values())
    return Markup(
        f'<svg class="ranks" viewBox="0 0 {left + width + 10} {height * len(rows) + 2}" role="img" aria-label="What '
        f'each rank did">{"".join(parts)}</svg><ul class="legend">{legend}<li>the longest: {longest:.3g} s</li></ul>'
    )


def progress_chart(plan: Plan) -> Markup | None:
    """The best plan and the bound over the time of the search; None: the plan does not say."""
    points = plan.progress
    if len(points) < 2:
        return None
    last = max(seconds for seconds, _, _ in points) or 1.0
    costs = [value for _, *pair in points for value in pair if value]
    low, high = min(costs), max(costs)
    margin = max(1.0, 0.08 * (high - low))
    low_y, high_y = low - margin, high + margin
    width, height, left, bottom = 900, 220, 90, 30

    def x(seconds: float) -> float:
        return left + (width - left - 10) * seconds / last

    def y(cost: float) -> float:
        return 8 + (height - bottom - 8) * (high_y - cost) / (high_y - low_y)

    def line(kind: str, curve: Sequence[tuple[float, int]]) -> str:
        steps = f"M{x(curve[0][0]):.1f} {y(curve[0][1]):.1f}"
        steps += "".join(f"H{x(seconds):.1f}V{y(cost):.1f}" for seconds, cost in curve[1:])
        return f'<path class="{kind}" d="{steps}H{x(last):.1f}"/>'

    curves = [
        ("best", [(seconds, cost) for seconds, cost, _ in points if cost]),
        ("bound", [(seconds, bound) for seconds, _, bound in points if bound]),
    ]
    ticks = "".join(
        f'<line class="grid" x1="{left}" x2="{width - 10}" y1="{y(cost):.1f}" y2="{y(cost):.1f}"/>'
        f'<text x="{left - 8}" y="{y(cost) + 4:.1f}" text-anchor="end">{time_text(round(cost))}</text>'
        for cost in (low, (low + high) / 2, high)
    )
    times = "".join(
        f'<text x="{x(last * part):.1f}" y="{height - 8}" text-anchor="middle">{last * part:.3g} s</text>'
        for part in (0, 0.25, 0.5, 0.75, 1)
    )
    lines = "".join(line(kind, curve) for kind, curve in curves if curve)
    return Markup(
        f'<svg class="progress" viewBox="0 0 {width + 20} {height}" role="img" aria-label="Best plan and bound over '
        f'the seconds of the search">{ticks}{times}{lines}</svg><ul class="legend"><li><i class="swatch best"></i>best '
        'plan</li><li><i class="swatch bound"></i>bound: no plan is better</li></ul>'
    )
