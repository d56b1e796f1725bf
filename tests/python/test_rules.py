"""Every strategy that a sharding rule lists, run on its pieces, must give what the op gives on the whole tensors."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from op_cases import Call, all_calls, call, real, words
from shards import Split, cut_on_mesh, equal, fits, join_on_mesh, local_shape
from torch import Tensor

CALLS = all_calls()
MESHES = ((2,), (3,), (4,), (6,), (2, 2), (2, 3))
# Position of the argument that holds the output's sizes; the program that runs a plan makes them local.
SIZES = dict.fromkeys(words("zeros ones full empty.memory_format"), 0) | dict.fromkeys(
    words("view _unsafe_view reshape expand select_backward slice_backward new_zeros new_ones new_full new_empty"), 1
)


def tensors(argument: Any) -> list[Tensor]:
    if isinstance(argument, Tensor):
        return [argument]
    if isinstance(argument, dict):
        argument = argument.values()
    elif not isinstance(argument, (list, tuple)):
        return []
    return [tensor for item in argument for tensor in tensors(item)]


def replace(argument: Any, values: Any) -> Any:
    """The argument with its tensors taken from the iterator `values` instead."""
    if isinstance(argument, Tensor):
        return next(values)
    if isinstance(argument, dict):
        return {key: replace(item, values) for key, item in argument.items()}
    if isinstance(argument, (list, tuple)):
        return [replace(item, values) for item in argument]
    return argument


def meta(tensor: Tensor) -> dict[str, Any]:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"shape": list(tensor.shape), "stride": list(tensor.stride()), "dtype": dtype}


def literal(argument: Any, refs: Any) -> Any:
    """An argument as model.json writes it."""
    if isinstance(argument, Tensor):
        return {"ref": next(refs)}
    if isinstance(argument, (list, tuple)):
        return [literal(item, refs) for item in argument]
    if isinstance(argument, torch.dtype):
        return {"dtype": str(argument).removeprefix("torch.")}
    if isinstance(argument, float) and abs(argument) == float("inf"):
        return {"float": str(argument)}
    return argument


def model_of(calls: list[Call]) -> dict[str, Any]:
    inputs: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    for index, one in enumerate(calls):
        keys = []
        for tensor in tensors([one.args, one.kwargs]):
            keys.append(f"input.{len(inputs)}")
            inputs.append({"key": keys[-1], "role": "input", "name": keys[-1], **meta(tensor)})
        refs = iter(keys)
        args = [literal(argument, refs) for argument in one.args]
        kwargs = {key: literal(value, refs) for key, value in one.kwargs.items()}
        nodes.append(
            {"key": str(index), "op": one.op, "args": args, "kwargs": kwargs}
            | {"outputs": [meta(output) for output in one.run()], "module": "", "phase": "forward"}
        )
    outputs = [{"ref": "0", "role": "output"}]
    head = {"format": "autopar-model", "version": 1, "name": "ops", "producer": "test", "graph_hash": "sha256:0"}
    return head | {"inputs": inputs, "nodes": nodes, "outputs": outputs}


def split(raw: list[Any]) -> Split:
    return Split(placement=raw[0], units=raw[1], even=raw[2])


def dump_rules() -> str | None:
    """The program of tests/costs/dump_rules.cpp: named by the environment, or of any build preset."""
    built = sorted(Path(__file__).parents[2].glob("build/*/tests/dump_rules"))
    return os.environ.get("AUTOPAR_DUMP_RULES") or (str(built[0]) if built else None)


@pytest.fixture(scope="session")
def rules(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Per call, its strategies as (splits of inputs, splits of outputs)."""
    program = dump_rules()
    if program is None:
        pytest.skip("dump_rules is not built; AUTOPAR_DUMP_RULES can name it")
    path: Path = tmp_path_factory.mktemp("rules") / "model.json"
    path.write_text(json.dumps(model_of(CALLS)))
    lines = subprocess.run([program, path], check=True, capture_output=True, text=True).stdout.splitlines()
    found = [json.loads(line)["strategies"] for line in lines]
    return [[[[split(one) for one in side] for side in strategy] for strategy in listed] for listed in found]


def check(call: Call, expected: list[Tensor], strategies: tuple[Any, ...], mesh: tuple[int, ...]) -> bool:
    """Runs one strategy per mesh dim; False if the mesh does not allow them."""
    whole = tensors([call.args, call.kwargs])
    splits_in = [[strategy[0][i] for strategy in strategies] for i in range(len(whole))]
    splits_out = [[strategy[1][o] for strategy in strategies] for o in range(len(expected))]
    if not all(fits(tensor, splits, mesh) for tensor, splits in zip(whole, splits_in, strict=True)):
        return False
    if not all(fits(tensor, splits, mesh) for tensor, splits in zip(expected, splits_out, strict=True)):
        return False
    placed_in = [[one.placement for one in splits] for splits in splits_in]
    placed_out = [[one.placement for one in splits] for splits in splits_out]
    local_in = [cut_on_mesh(tensor, placed, mesh) for tensor, placed in zip(whole, placed_in, strict=True)]
    local_out: list[dict[tuple[int, ...], Tensor]] = [{} for _ in expected]
    for device in product(*map(range, mesh)):
        args, kwargs = replace([call.args, call.kwargs], iter([pieces[device] for pieces in local_in]))
        position = SIZES.get(call.op.removeprefix("aten.").removesuffix(".default"))
        if position is not None:
            args[position] = local_shape(list(expected[0].shape), placed_out[0], mesh, device)
        results = call.run(args, kwargs)
        assert len(results) == len(expected)
        for result, pieces, whole_result, placed in zip(results, local_out, expected, placed_out, strict=True):
            assert list(result.shape) == local_shape(list(whole_result.shape), placed, mesh, device)
            pieces[device] = result
    if "empty" in call.op:
        return True  # no values to compare
    for pieces, whole_result, placed in zip(local_out, expected, placed_out, strict=True):
        assert equal(join_on_mesh(pieces, placed, mesh), whole_result), (placed_in, placed_out, mesh)
    return True


@pytest.mark.parametrize("index", range(len(CALLS)), ids=[one.op for one in CALLS])
def test_pieces_make_the_whole(rules: list[Any], index: int) -> None:
    call = CALLS[index]
    expected = call.run()
    for mesh in MESHES:
        ran = [check(call, expected, strategies, mesh) for strategies in product(rules[index], repeat=len(mesh))]
        assert ran[0], "the replicated strategy runs on every mesh"


# Two faults of other planners, as (op, inputs, outputs): the check must not let them pass.
@pytest.mark.parametrize(
    ("call", "inputs", "outputs"),
    [
        (call("view", real(12, 8), [16, 6]), ["S(1)"], ["S(0)"]),
        (call("view", real(12, 8), [16, 6]), ["S(1)"], ["S(1)"]),
        (call("add.Tensor", real(12, 6), 1.0), ["P(sum)"], ["P(sum)"]),
        (call("add.Tensor", real(12, 6), real(12, 6)), ["P(sum)", "R"], ["P(sum)"]),
        (call("gelu", real(12, 6)), ["P(sum)"], ["P(sum)"]),
        (call("sum.dim_IntList", real(12, 6), [0]), ["S(0)"], ["R"]),
        (call("triu", real(12, 12)), ["S(0)"], ["S(0)"]),
    ],
    ids=lambda value: value.op if isinstance(value, Call) else str(value),
)
def test_wrong_strategies_are_caught(call: Call, inputs: list[str], outputs: list[str]) -> None:
    sides = [[Split(placement=one, units=0, even=False) for one in side] for side in (inputs, outputs)]
    with pytest.raises((AssertionError, RuntimeError)):
        check(call, call.run(), (sides,), (2,))
