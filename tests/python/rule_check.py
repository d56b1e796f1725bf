"""Runs a strategy of the sharding rules on the pieces of small tensors and compares with the op on the whole ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from autopar.local_programs import Running, Site, run_local
from autopar.placements import Device
from op_cases import Call
from shards import Coordinate, Split, cut_on_mesh, equal, fits, join_on_mesh, local_shape, rounding
from torch import Tensor

torch.set_num_threads(1)  # the tensors are small
Side = list[Split]
Strategy = tuple[Side, Side, str]  # splits of inputs and outputs, name of the local program


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
    for kind in (torch.memory_format, torch.layout, torch.device):
        if isinstance(argument, kind):
            return {kind.__name__: str(argument).removeprefix("torch.")}
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
            | {"outputs": [output if output is None else meta(output) for output in one.run()]}
            | {"module": "", "phase": "forward"}
        )
    outputs = [{"ref": "0", "role": "output"}]
    head = {"format": "autopar-model", "version": 1, "name": "ops", "producer": "test", "graph_hash": "sha256:0"}
    return head | {"inputs": inputs, "nodes": nodes, "outputs": outputs}


def split(raw: list[Any]) -> Split:
    return Split(placement=raw[0], units=raw[1], even=raw[2])


def same_imports() -> dict[str, str]:
    """An environment in which another Python finds what this one does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def build_folder() -> Path | None:
    """The build folder that the environment names, or any."""
    if folder := os.environ.get("AUTOPAR_BUILD_DIR"):
        return Path(folder)
    built = sorted(Path(__file__).parents[2].glob("build/*/autopar-search"))
    return built[0].parent if built else None


def needed_build_folder() -> Path:
    """For tests, which are skipped where nothing is built."""
    folder = build_folder()
    if folder is None:
        pytest.skip("autopar-search is not built; AUTOPAR_BUILD_DIR can name the build folder")
    return folder


def dump_rules() -> str | None:
    """The program of tests/costs/dump_rules.cpp."""
    folder = build_folder()
    return str(folder / "tests" / "dump_rules") if folder else None


def rules_of(program: str, model: dict[str, Any], folder: Path) -> list[list[Strategy] | None]:
    """The strategies of each node of a model; None where an op has no rule."""
    path = folder / "model.json"
    path.write_text(json.dumps(model))
    lines = subprocess.run([program, path], check=True, capture_output=True, text=True).stdout.splitlines()
    found = [json.loads(line)["strategies"] for line in lines]

    def side(raw: list[Any]) -> Side:
        return [split(one) for one in raw]

    return [
        None if listed is None else [(side(ins), side(outs), name) for ins, outs, name in listed] for listed in found
    ]


def run_devices(running: dict[Coordinate, Running], mesh: Coordinate) -> dict[Coordinate, list[Any]]:
    """Runs the devices' programs side by side: all of them reach an all-reduce, or none does."""
    results: dict[Coordinate, list[Any]] = {}
    answers: dict[Coordinate, Tensor | None] = dict.fromkeys(running)
    while len(results) < len(running):
        asked = {}
        for device, program in running.items():
            try:
                asked[device] = program.send(answers[device])  # type: ignore[arg-type]
            except StopIteration as stop:
                results[device] = stop.value
        assert not asked or not results, "devices disagree on how many all-reduces there are"
        for device, one in asked.items():
            group = [
                asked[(*device[: one.mesh_dim], i, *device[one.mesh_dim + 1 :])] for i in range(mesh[one.mesh_dim])
            ]
            stack = torch.stack([other.tensor for other in group])
            answers[device] = stack.amax(0) if one.reduce == "max" else stack.sum(0)
    return results


def check(call: Call, expected: list[Tensor | None], strategies: tuple[Strategy, ...], mesh: Coordinate) -> bool:
    """Runs one strategy per mesh dim; False if the mesh does not allow them."""
    whole = tensors([call.args, call.kwargs])
    splits_in = [[strategy[0][i] for strategy in strategies] for i in range(len(whole))]
    splits_out = [[strategy[1][o] for strategy in strategies] for o in range(len(expected))]
    if not all(fits(tensor, splits, mesh) for tensor, splits in zip(whole, splits_in, strict=True)):
        return False
    if not all(out is None or fits(out, splits, mesh) for out, splits in zip(expected, splits_out, strict=True)):
        return False
    placed_in = [[one.placement for one in splits] for splits in splits_in]
    placed_out = [[one.placement for one in splits] for splits in splits_out]
    local_in = [cut_on_mesh(tensor, placed, mesh) for tensor, placed in zip(whole, placed_in, strict=True)]
    running = {}
    for device in product(*map(range, mesh)):
        args, kwargs = replace([call.args, call.kwargs], iter([pieces[device] for pieces in local_in]))
        site = Site(
            op=call.op,
            function=call.overload,
            device=Device(mesh=mesh, coordinate=device),
            programs=tuple(strategy[2] for strategy in strategies),
            shapes_in=[list(tensor.shape) for tensor in whole],
            placed_in=placed_in,
            shapes_out=[[] if out is None else list(out.shape) for out in expected],
            placed_out=placed_out,
        )
        running[device] = run_local(site, args, kwargs)
    results = run_devices(running, mesh)
    for o, (out, placed) in enumerate(zip(expected, placed_out, strict=True)):
        if out is None:
            continue
        pieces = {device: local[o] for device, local in results.items()}
        for device, local in pieces.items():
            assert list(local.shape) == local_shape(list(out.shape), placed, mesh, device), (placed_in, placed_out)
        if call.random or "empty" in call.op:
            continue  # no values to compare
        tolerance = rounding(whole, [out, *pieces.values()])
        assert equal(join_on_mesh(pieces, placed, mesh, tolerance), out, tolerance), (placed_in, placed_out, mesh)
    return True
