"""A plan's modules as SVG: a row per module, parameter and main op, repeated layers folded, a box per mesh dim."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape

from .modules import Leaf, Module, module_tree
from .plan import Placements, Plan
from .summary import mesh_text, time_text

# By mesh dim: of Okabe and Ito's palette, which people with colour-blindness can tell apart.
DIM_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8C6D00", "#56B4E9")
HEAVY_OPS = ("mm", "attention", "convolution", "embedding")
ROW, INDENT, BOX, GAP, MARGIN = 22, 16, 52, 4, 12
# Of this picture alone: a notebook has others.
STYLE = (
    ".autopar{background:#fff}.autopar text{font:12px system-ui,sans-serif;fill:#20242a}.autopar .note{fill:#6a7280}"
    ".autopar .box{font:600 11px ui-monospace,monospace;text-anchor:middle}.autopar .module{font-weight:600}"
    "@media(prefers-color-scheme:dark){.autopar{background:#14171c}.autopar text{fill:#e6e9ee}"
    ".autopar .note{fill:#9aa3b2}}"
)
CHARACTER = 6.7  # width of one in the 12 px font, about


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    depth: int
    text: str
    note: str = ""
    before: Placements | None = None  # at rest, or what an op gets
    after: Placements | None = None  # what the op gives


def to_svg(plan: Plan) -> str:
    lines = _lines(plan, module_tree(plan), 0) or [_Line(depth=0, text="no parameters, and no op that multiplies")]
    dims = len(plan.mesh_shape)
    text_width = max(MARGIN + line.depth * INDENT + CHARACTER * len(line.text) for line in lines) + 20
    boxes = dims * (BOX + GAP)
    columns = (text_width, text_width + max(boxes, 90) + 30)
    width = columns[1] + boxes + MARGIN + CHARACTER * max(len(line.note) for line in lines)
    top = 60
    height = top + ROW * len(lines) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="autopar" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" role="img" aria-label="{escape(plan.model_name)}: placements">',
        f"<style>{STYLE}</style>",
        _text(MARGIN, 20, f"{plan.model_name} on {mesh_text(plan.mesh_shape, plan.mesh_dim_names)}", "module"),
        _text(columns[0], 36, "at rest, or gets", "note"),
        _text(columns[1], 36, "gives", "note"),
        *(
            f'<text x="{left + dim * (BOX + GAP) + BOX / 2:.0f}" y="51" class="box" style="fill:{_colour(dim)}">'
            f"{escape(name)}</text>"
            for left in columns
            for dim, name in enumerate(plan.mesh_dim_names)
        ),
    ]
    for place, line in enumerate(lines):
        y = top + ROW * place + 15
        parts.append(_text(MARGIN + line.depth * INDENT, y, line.text, "module" if line.before is None else ""))
        for x, placed in zip(columns, (line.before, line.after), strict=True):
            parts += _boxes(plan, placed, x, y) if placed else []
        parts.append(_text(columns[1] + boxes + 8, y, line.note, "note"))
    return "\n".join([*parts, "</svg>"])


def _lines(plan: Plan, module: Module, depth: int) -> list[_Line]:
    """Modules with nothing to show are left out."""
    lines = [line for leaf in module.leaves if (line := _leaf_line(plan, leaf, depth + 1))]
    for child in module.modules:
        lines += _lines(plan, child, depth + 1)
    if not lines or not module.name:
        return [replace(line, depth=line.depth - 1) for line in lines]
    repeats = f"  ×{len(module.names)}" if len(module.names) > 1 else ""
    return [_Line(depth=depth, text=module.name + repeats), *lines]


def _leaf_line(plan: Plan, leaf: Leaf, depth: int) -> _Line | None:
    """Parameters, and the ops of the forward that multiply matrices: they decide how the others lie."""
    key = leaf.keys[0]
    if leaf.kind == "parameter":
        return _Line(depth=depth, text=leaf.name.lstrip("."), before=plan.parameters[key])
    node = plan.nodes[key]
    if node.phase != "forward" or not node.inputs or not any(word in node.op for word in HEAVY_OPS):
        return None
    note = f"{time_text(node.compute_ps)} each" if len(leaf.keys) > 1 else time_text(node.compute_ps)
    name = leaf.name.rpartition("/")[2]
    return _Line(depth=depth, text=name, note=note, before=node.inputs[0], after=node.outputs[0])


def _boxes(plan: Plan, placed: Placements, x: float, y: float) -> list[str]:
    """A box per mesh dim in its colour: filled where the tensor is cut, dashed for pending sums, pale if replicated."""
    parts = []
    for dim, one in enumerate(placed):
        colour = _colour(dim)
        kind = one[0]
        look = {
            "R": f'fill="none" stroke="{colour}" stroke-opacity="0.35"',
            "S": f'fill="{colour}" stroke="{colour}"',
            "P": f'fill="none" stroke="{colour}" stroke-dasharray="3 2" stroke-width="1.5"',
        }[kind]
        left = x + dim * (BOX + GAP)
        title = f"{plan.mesh_dim_names[dim]}: {one}"
        parts.append(
            f'<rect x="{left:.0f}" y="{y - 13}" width="{BOX}" height="18" rx="4" {look}>'
            f"<title>{escape(title)}</title></rect>"
        )
        fill = "#fff" if kind == "S" else colour
        parts.append(f'<text class="box" x="{left + BOX / 2:.0f}" y="{y}" style="fill:{fill}">{escape(one)}</text>')
    return parts


def _colour(dim: int) -> str:
    return DIM_COLOURS[dim % len(DIM_COLOURS)]


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(text)}</text>' if text else ""
