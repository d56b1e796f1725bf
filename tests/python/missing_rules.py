"""Searches by brute force for one-mesh-dim strategies that hold but that the sharding rules do not list.

    python tests/python/missing_rules.py [part of an op's name]

Prints them; not a test, since some are of no use (an input that an op does not read may have any placement) and ops
with more than three tensors are only tried with one kind of placement at a time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
from layer_cases import layer_calls
from op_cases import Call, all_calls
from rule_check import dump_rules, model_of, replace, rules_of, tensors
from shards import cut, equal, join
from torch import Tensor

COUNTS = (2, 3)
MOST_TENSORS = 3


def choices(tensor: Tensor) -> list[str]:
    shards = [f"S({dim})" for dim in range(tensor.dim()) if tensor.shape[dim] >= max(COUNTS)]
    return ["R", *shards, *(["P(sum)"] if tensor.dtype.is_floating_point else [])]


def candidates(whole: list[Tensor]) -> Iterator[tuple[str, ...]]:
    options = [choices(tensor) for tensor in whole]
    if len(whole) <= MOST_TENSORS:
        yield from product(*options)
        return
    for kind in sorted({one for option in options for one in option} - {"R"}):
        yield from product(*[["R", kind] if kind in option else ["R"] for option in options])


def placements_of(pieces: list[Tensor], whole: Tensor) -> set[str]:
    """All placements that make these pieces the whole tensor."""
    found = set()
    for placement in ["R", *(f"S({dim})" for dim in range(whole.dim())), "P(sum)", "P(avg)", "P(max)", "P(min)"]:
        try:
            if equal(join(pieces, placement), whole):
                found.add(placement)
        except (AssertionError, RuntimeError):
            continue
    return found - ({"P(avg)", "P(max)", "P(min)"} if "R" in found else set())


def outcomes(call: Call, whole: list[Tensor], expected: list[Any], placed: tuple[str, ...]) -> list[set[str]] | None:
    """Per output, the placements that it has for every number of devices; None if the op fails on the pieces."""
    found: list[set[str]] | None = None
    for count in COUNTS:
        local = [cut(tensor, placement, count) for tensor, placement in zip(whole, placed, strict=True)]
        try:
            runs = [call.run(*replace([call.args, call.kwargs], iter([p[i] for p in local]))) for i in range(count)]
        except (RuntimeError, IndexError):
            return None
        here = [
            {"R"} if out is None else placements_of([run[o] for run in runs], out) for o, out in enumerate(expected)
        ]
        found = here if found is None else [a & b for a, b in zip(found, here, strict=True)]
    return found


def outcomes_apart(*search: Any) -> list[set[str]] | None:
    """outcomes(), in a process of its own: some kernels write anywhere when shapes do not match."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(write, repr(outcomes(*search)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return eval(text) if text else None


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    calls = [one for one in [*all_calls(), *layer_calls()] if wanted in one.op and not one.random]
    program = dump_rules()
    assert program, "build dump_rules first"
    with tempfile.TemporaryDirectory() as folder:
        rules = rules_of(program, model_of(calls), Path(folder))
    for call, strategies in zip(calls, rules, strict=True):
        whole = tensors([call.args, call.kwargs])
        expected = call.run()
        known = {
            (tuple(one.placement for one in ins), tuple(one.placement for one in outs))
            for ins, outs, _ in strategies or []
        }
        missing = []
        for placed in candidates(whole):
            found = outcomes_apart(call, whole, expected, placed)
            if found and all(found):
                missing += [f"{','.join(placed)} -> {','.join(out)}" for out in product(*map(sorted, found))
                            if (placed, out) not in known]  # fmt: skip
        if missing:
            shapes = " ".join(str(list(tensor.shape)) for tensor in whole)
            print(f"{call.op} {shapes}", *missing[:40], sep="\n    ", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
