"""report.html: a plan as one page that opens from disk (docs/report.md)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

from ..errors import PlanError
from ..plan import Plan
from ..simulation import Simulation
from ..summary import bytes_text, mesh_text, proof_text, time_text
from ..tables import communication_rows
from .alive import alive_at_peak
from .charts import memory_bar, progress_chart, ranks_chart, time_bar
from .facts import facts
from .ranks import RankRow
from .timeline import timeline


def report_html(
    plan: Plan,
    simulation: Simulation | None = None,
    explained: Any = None,
    words: Any = None,
    ranks: Sequence[RankRow] = (),
) -> str:
    """The page. `simulation`: for the timeline; `explained` and `words`: JSON of `autopar-plan explain` and `show`;
    `ranks`: what each did in the search.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise PlanError('reports need Jinja, which is not installed: pip install "autopar[report]"') from error
    environment = Environment(
        loader=PackageLoader("autopar.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "ensure_ascii": False}
    environment.filters |= {"time": time_text, "bytes": bytes_text, "share": lambda share: f"{100 * share:.1f}%"}
    communication = _communication(plan, words)
    page = environment.get_template("page.html")
    return page.render(
        plan=plan,
        mesh=mesh_text(plan.mesh_shape, plan.mesh_dim_names),
        mesh_text=mesh_text,
        proof=proof_text(plan),
        style=_part("page.css"),
        scripts=[_part("tree.js"), _part("timeline.js"), _part("page.js")],
        time_bar=time_bar(plan, communication),
        memory_bar=memory_bar(plan),
        progress=progress_chart(plan),
        ranks=ranks_chart(ranks) if ranks else None,
        communication=communication,
        is_simulated=words is not None,
        alive=alive_at_peak(plan),
        simulation=simulation,
        timeline=timeline(plan, simulation) if simulation else None,
        data=facts(plan, simulation, explained, words),
    )


def _communication(plan: Plan, words: Any) -> list[dict[str, Any]]:
    """As the simulator finds it, or as the plan alone tells, by which all that runs ahead is hidden."""
    if words is None:
        return communication_rows(plan)
    return [
        {**row, "mesh_dims": ", ".join(row["mesh_dims"]), "beside_compute_ps": row["time_ps"] - row["exposed_ps"]}
        for row in words["communication"]
    ]


def _part(name: str) -> str:
    """Of the page's own code, which is no text of the plan and needs no escapes."""
    return (resources.files(__package__) / name).read_text(encoding="utf-8")
