"""A plan as HTML for notebooks."""

from __future__ import annotations

from html import escape

from .picture import to_svg
from .plan import Plan
from .summary import bytes_text, mesh_text, proof_text, time_text
from .tables import communication_rows


def notebook_html(plan: Plan) -> str:
    facts = {
        "mesh": f"{mesh_text(plan.mesh_shape, plan.mesh_dim_names)} ({plan.cluster})",
        "predicted step": f"{time_text(plan.cost_ps)}, {proof_text(plan)}",
        "compute": time_text(plan.compute_ps),
        "waiting for communication": time_text(plan.exposed_ps),
        "memory at the peak": f"{bytes_text(plan.peak.bytes)} of {bytes_text(plan.memory_limit_bytes)}",
    }
    rows = [
        [row["mesh_dims"], row["collective"], row["phase"], str(row["count"]), bytes_text(row["bytes"]),
         time_text(row["time_ps"]), time_text(row["beside_compute_ps"])]
        for row in communication_rows(plan)
    ]  # fmt: skip
    head = ["mesh dims", "collective", "phase", "count", "bytes", "time", "beside compute"]
    return "\n".join(
        [
            f"<h4>{escape(plan.model_name)}</h4>",
            _table([[name, value] for name, value in facts.items()]),
            _table(rows, head),
            f"<details><summary>Modules and placements</summary>{to_svg(plan)}</details>",
        ]
    )


def _table(rows: list[list[str]], head: list[str] | None = None) -> str:
    top = f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>" if head else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{top}{body}</table>"
