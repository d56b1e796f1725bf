"""A plan as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plan import Placements, Plan


def mesh_text(shape: Sequence[int], names: Sequence[str]) -> str:
    return ", ".join(f"{name}={size}" for name, size in zip(names, shape, strict=True))


def time_text(ps: int) -> str:
    """531869005385 gives "531.9 ms"."""
    return _scaled(ps, 1000, ("ps", "ns", "µs", "ms", "s"))


def bytes_text(number: int) -> str:
    return _scaled(number, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def _scaled(number: int, step: int, units: Sequence[str]) -> str:
    """Four digits in the first unit in which there are no more before the point."""
    if number == 0:
        return f"0 {units[0]}"
    value = float(number)
    for unit in units:
        # 999.96 would be rounded to a fifth digit.
        if abs(value) < step - 0.05 or unit == units[-1]:
            break
        value /= step
    digits = 0 if unit == units[0] else max(0, 4 - len(str(int(abs(value)))))
    return f"{value:.{digits}f} {unit}"


def proof_text(plan: Plan) -> str:
    return {
        "optimal": "proven optimal",
        "random": "a random plan",
        "limit_reached": f"stopped early, at most {plan.gap:.2%} above the optimum",
    }.get(plan.status, f"at most {plan.gap:.2%} above the optimum")


def summary(plan: Plan) -> str:
    lines = [
        f"{plan.model_name} on a mesh of {mesh_text(plan.mesh_shape, plan.mesh_dim_names)} ({plan.cluster})",
        f"predicted step {time_text(plan.cost_ps)}, {proof_text(plan)}: {time_text(plan.compute_ps)} compute, "
        f"{time_text(plan.exposed_ps)} waiting for communication",
        f"{bytes_text(plan.peak.bytes)} of {bytes_text(plan.memory_limit_bytes)} per device at the peak; "
        f"{bytes_text(plan.parameter_bytes)} for parameters, gradients and optimizer state",
        "parameters",
    ]
    for placed, names in fold_names(plan.parameters).items():
        lines.append(f"  ({', '.join(placed)})  {', '.join(names)}")
    lines.append("communication")
    for total in plan.communication:
        lines.append(
            f"  {total.collective} over {', '.join(plan.mesh_dim_names[dim] for dim in total.mesh_dims)}: "
            f"{total.count} times, {bytes_text(total.bytes)}, {time_text(total.time_ps)}"
        )
    return "\n".join(lines)


def fold_names(parameters: Mapping[str, Placements]) -> dict[Placements, list[str]]:
    """Names by placements; those that differ in numbers only are one, with `*` in the place of the number."""
    folded: dict[Placements, list[str]] = {}
    for name, placed in parameters.items():
        names = folded.setdefault(placed, [])
        pattern = re.sub(r"(^|\.)[0-9]+(?=\.|$)", r"\1*", name)
        if pattern not in names:
            names.append(pattern)
    return folded
