"""Compares the sharding rules with those that DTensor has for the same calls, on one mesh dim.

    python tests/python/dtensor_rules.py [FILE]

Writes docs/dtensor-conformance.md, or the file; a minute. It asks torch's internals (they need the package expecttest).
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from layer_cases import layer_calls
from missing_rules import outcomes_apart
from op_cases import Call, all_calls
from rule_check import dump_rules, model_of, rules_of, tensors
from torch import Tensor
from torch.distributed.tensor._ops.strategy_validation import _query_dtensor_rules
from torch.testing._internal.distributed.fake_pg import FakeStore

Placed = tuple[tuple[str, ...], tuple[str, ...]]
KNOWN = ("R", "S(", "P(sum)", "P(avg)", "P(max)", "P(min)")
RARE = ("P(avg)", "P(max)", "P(min)")
DOCUMENT = Path(__file__).parents[2] / "docs" / "dtensor-conformance.md"
REASONS = {
    "own placement": "uses a placement that plans do not have (strided shards, masked sums)",
    "rare sum": "takes a pending average, maximum or minimum. Only reductions give one, and plans finish it right "
    "behind: for what follows it is no smaller than the finished tensor",
    "wrong": "does not give the op's result when it is run on pieces",
    "special": "holds for the numbers tried; the row says why it is not ours",
    "lacking": "holds, and is not among ours",
}
SPECIAL = {
    "aten._native_batch_norm_legit_no_training.default": "ours is the same with R for the empty outputs",
    "aten.amax.default": "of bools, which plans never have as pending sums",
    "aten.amin.default": "of bools, which plans never have as pending sums",
    "aten.nansum.default": "wrong where a summand is NaN, which the sum must not skip",
    "aten.native_batch_norm.default": "ours is the same with R for the empty outputs",
}


def of_dtensor(call: Call, whole: list[Tensor], expected: list[Any]) -> set[Placed]:
    namespace, packet, variant = call.op.split(".")
    op = getattr(getattr(getattr(torch.ops, namespace), packet), variant)
    shapes = tuple(tuple(tensor.shape) for tensor in whole)
    shapes_out = tuple(tuple(out.shape) for out in expected)
    named = [(str(i), tensor) for i, tensor in enumerate(whole)]
    found: set[Placed] = _query_dtensor_rules(op, named, call.args, call.kwargs, shapes, shapes_out, 2, False)
    return found


@dataclass(kw_only=True, slots=True)
class Row:
    """What was found for one op, over all its calls."""

    ours: int = 0
    theirs: int = 0
    both: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # why a rule of DTensor's is not ours
    examples: dict[str, str] = field(default_factory=dict)  # of each reason


def reason_of(
    call: Call, whole: list[Tensor], expected: list[Any], placed: tuple[str, ...], out: tuple[str, ...]
) -> str:
    if not all(one.startswith(KNOWN) for one in (*placed, *out)):
        return "own placement"
    if any(one.startswith(RARE) for one in placed):
        return "rare sum"
    found = outcomes_apart(call, whole, expected, placed)
    holds = found and all(one in here for one, here in zip(out, found, strict=True))
    if not holds:
        return "wrong"
    return "special" if call.op in SPECIAL else "lacking"


def compare(calls: list[Call], rules: list[Any]) -> tuple[dict[str, Row], list[str]]:
    """A row per op, and the ops that DTensor's internals could not be asked about."""
    rows: dict[str, Row] = {}
    not_asked: set[str] = set()
    for call, strategies in zip(calls, rules, strict=True):
        whole, expected = tensors([call.args, call.kwargs]), call.run()
        if any(out is None for out in expected) or tensors(call.kwargs):
            not_asked.add(call.op)
            continue
        ours = {
            (tuple(one.placement for one in ins), tuple(one.placement for one in outs))
            for ins, outs, _ in strategies or []
        }
        try:
            theirs = of_dtensor(call, whole, expected)
        except Exception:  # its internals do not take every call
            not_asked.add(call.op)
            continue
        row = rows.setdefault(call.op, Row())
        row.ours += len(ours)
        row.theirs += len(theirs)
        row.both += len(ours & theirs)
        for placed, out in sorted(theirs - ours):
            reason = reason_of(call, whole, expected, placed, out)
            row.reasons[reason] += 1
            shapes = " ".join(str(list(tensor.shape)) for tensor in whole)
            example = f"such as {shapes}: {', '.join(placed)} → {', '.join(out)}"
            row.examples.setdefault(reason, SPECIAL[call.op] if reason == "special" else example)
    return rows, sorted(not_asked - rows.keys())


def document(rows: dict[str, Row], not_asked: list[str]) -> str:
    total = Row()
    for row in rows.values():
        total.ours, total.theirs, total.both = total.ours + row.ours, total.theirs + row.theirs, total.both + row.both
        total.reasons += row.reasons
    silent = [op for op, row in rows.items() if row.theirs == 0]
    lines = [
        "# Sharding rules beside DTensor's",
        "",
        f"`tests/python/dtensor_rules.py` wrote this with torch {torch.__version__}: for small calls of every op, the",
        "one-mesh-dim rules of `costs/rules` and those that DTensor lists for the same call. All of ours hold: the",
        "tests run each on real pieces (`tests/python/test_rules.py`). A rule of DTensor's that is not ours is one of",
        "these:",
        "",
        "| reason | rules | meaning |",
        "|-|-|-|",
        *(f"| {name} | {total.reasons[name]} | {text} |" for name, text in REASONS.items()),
        "",
        f"{len(rows)} ops, {total.ours} rules of ours, {total.theirs} of DTensor's, {total.both} in both,",
        f"{total.ours - total.both} only ours. DTensor has no rule at all for {len(silent)} of the ops.",
        "",
        "| op | ours | DTensor | both | only ours | only DTensor, and why |",
        "|-|-|-|-|-|-|",
    ]
    for op, row in sorted(rows.items()):
        why = "; ".join(f"{count} {name} ({row.examples[name]})" for name, count in sorted(row.reasons.items()))
        name = op.removeprefix("aten.").removesuffix(".default")
        lines.append(f"| {name} | {row.ours} | {row.theirs} | {row.both} | {row.ours - row.both} | {why} |")
    asked = ", ".join(op.removeprefix("aten.").removesuffix(".default") for op in not_asked)
    lines += ["", f"DTensor's internals cannot be asked about these: {asked}.", ""]
    return "\n".join(lines)


def main() -> None:
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    torch.manual_seed(0)
    calls = [one for one in [*all_calls(), *layer_calls()] if not one.random]
    program = dump_rules()
    assert program, "build dump_rules first"
    with tempfile.TemporaryDirectory() as folder:
        rules = rules_of(program, model_of(calls), Path(folder))
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENT
    target.write_text(document(*compare(calls, rules)), encoding="utf-8")


if __name__ == "__main__":
    main()
