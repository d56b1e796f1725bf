"""Compares the sharding rules with those that DTensor has for the same calls, on one mesh dim.

    python tests/python/dtensor_rules.py [part of an op's name]

Prints what DTensor lists and we do not: "lacking" if it holds by numbers, "DTensor only" if not or if it cannot be run
(placements of its own). It asks torch's internals (they need the package expecttest), so it is no test.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
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


def of_dtensor(call: Call, whole: list[Tensor], expected: list[Any]) -> set[Placed]:
    namespace, packet, variant = call.op.split(".")
    op = getattr(getattr(getattr(torch.ops, namespace), packet), variant)
    shapes = tuple(tuple(tensor.shape) for tensor in whole)
    shapes_out = tuple(tuple(out.shape) for out in expected)
    named = [(str(i), tensor) for i, tensor in enumerate(whole)]
    found: set[Placed] = _query_dtensor_rules(op, named, call.args, call.kwargs, shapes, shapes_out, 2, False)
    return found


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    calls = [one for one in [*all_calls(), *layer_calls()] if wanted in one.op and not one.random]
    program = dump_rules()
    assert program, "build dump_rules first"
    with tempfile.TemporaryDirectory() as folder:
        rules = rules_of(program, model_of(calls), Path(folder))
    counts: Counter[str] = Counter()
    for call, strategies in zip(calls, rules, strict=True):
        whole, expected = tensors([call.args, call.kwargs]), call.run()
        if any(out is None for out in expected) or tensors(call.kwargs):
            continue
        ours = {
            (tuple(one.placement for one in ins), tuple(one.placement for one in outs))
            for ins, outs, _ in strategies or []
        }
        try:
            theirs = of_dtensor(call, whole, expected)
        except Exception as error:  # its internals do not take every call
            counts[f"not asked: {type(error).__name__}"] += 1
            continue
        counts["asked"] += 1
        counts["DTensor's rules"] += len(theirs)
        counts["ours"] += len(ours)
        counts["only ours"] += len(ours - theirs)
        for placed, out in sorted(theirs - ours):
            kind = "DTensor only"
            if all(one.startswith(KNOWN) for one in (*placed, *out)):
                found = outcomes_apart(call, whole, expected, placed)
                if found and all(one in here for one, here in zip(out, found, strict=True)):
                    kind = "lacking"
            counts[kind] += 1
            shapes = " ".join(str(list(tensor.shape)) for tensor in whole)
            print(f"{kind}: {call.op} {shapes}: {','.join(placed)} -> {','.join(out)}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
