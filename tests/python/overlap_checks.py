"""Redistributions run between the nodes where the plan starts and finishes them, and train as without overlap;
test_apply.py runs this."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import autopar
import torch
import torch.distributed as dist
from apply_checks import make_plan, mesh_of, refused, same_gradients, trains_alike
from autopar.plan import LOCAL_STEPS, PHASES, Redistribution
from autopar.redistribute import TURN_TAG
from executed import KINDS
from memory_curve import WAIT, issued_for, key_of
from region_checks import runs_what_is_listed
from replay_models import make
from small_models import Case, loss_of, transformer
from test_replay import cluster
from torch import fx
from torch._dynamo.backends.debugging import aot_eager
from torch.distributed.device_mesh import DeviceMesh

# Rows of the batch stay where they are and parameters come to them.
FSDP = {
    "inputs": {"*": {"dp": "S(0)"}},
    "parameters": {"*": {"dp": "S(0)"}},
    "nodes": {"*/f/native_layer_norm": {"dp": "S(0)"}, "*/f/addmm": {"dp": "S(0)"}},
}
Bucket = tuple[str, str, tuple[str, ...]]  # turn, op, values


def planned(folder: Path, case: Case, mesh: DeviceMesh, *options: str, constraints: Mapping[str, Any]) -> Path:
    costs = folder / "cheap-links.json"
    if dist.get_rank() == 0:
        costs.write_text(json.dumps(cluster()))
    return make_plan(folder, case, mesh, *options, cluster=str(costs), constraints=constraints)


def last_collective(entry: Redistribution) -> int:
    return max((index for index, step in enumerate(entry.steps) if step.kind not in LOCAL_STEPS), default=-1)


def planned_buckets(plan: autopar.Plan, phase: str) -> list[Bucket]:
    found: dict[Any, list[str]] = {}
    for number, entry in enumerate(plan.redistributions):
        last = last_collective(entry)
        if entry.overlap is None or entry.phase != phase or last < 0:
            continue
        step, before = entry.steps[last], entry.source if last == 0 else entry.steps[last - 1].to
        reduction = before[step.mesh_dims[0]] if "reduce" in step.kind else ""
        alone = number if step.kind == "all_to_all" else None
        found.setdefault((entry.overlap.start, step.kind, step.mesh_dims, step.dtype, reduction, alone), []).append(
            entry.value
        )
    return sorted((start, kind, tuple(sorted(values))) for (start, kind, *_), values in found.items())


def bucket_of(issued: fx.Node, waiting: list[fx.Node]) -> Bucket:
    kind = KINDS[name_of(issued).removesuffix("_coalesced")]
    return key_of(issued, TURN_TAG), kind, tuple(sorted(map(key_of, waiting)))


def name_of(node: fx.Node) -> str:
    name: str = getattr(node.target, "_opname", "")
    return name


def under_way(module: fx.GraphModule) -> Iterator[tuple[fx.Node, list[fx.Node]]]:
    """Collectives and what waits for them, at another turn."""
    waits: dict[fx.Node, list[fx.Node]] = {}
    for node in module.graph.nodes:
        if node.target is WAIT:
            waits.setdefault(issued_for(node), []).append(node)
    for issued, waiting in waits.items():
        if any(key_of(one, TURN_TAG) != key_of(issued, TURN_TAG) for one in waiting):
            yield issued, waiting


def runs_in_turn(plan: autopar.Plan, phase: str, module: fx.GraphModule) -> int:
    """How many nodes run while something is under way."""
    nodes = list(module.graph.nodes)
    at = {node: index for index, node in enumerate(nodes)}
    turns = {key: turn for turn, key in enumerate(plan.nodes)}
    own = [node for node in nodes if node.target is not WAIT and key_of(node) == key_of(node, TURN_TAG) != ""]
    finishes = {
        (entry.value, entry.overlap.start): turns.get(entry.overlap.finish or "", len(turns))
        for entry in plan.redistributions
        if entry.overlap
    }
    num_hiding = 0
    for issued, waiting in under_way(module):
        start = key_of(issued, TURN_TAG)
        # What comes in one call has come for all.
        end = min(finishes[key_of(one), start] for one in waiting)
        for one in waiting:
            assert turns.get(key_of(one, TURN_TAG), len(turns)) == end, one
            between = [node for node in own if turns[start] <= turns[key_of(node)] < end]
            assert all(at[issued] < at[node] < at[one] for node in between), issued
            num_hiding += len(between)
    return num_hiding


def fsdp_case() -> Case:
    model, _, _ = transformer()
    tokens = torch.randint(50, (4, 8))
    return model, (tokens, tokens.roll(-1, 1)), {}


def check_what_is_under_way_hides_behind_nodes(rank: int, folder: Path) -> None:
    _, args, kwargs = case = fsdp_case()
    mesh = mesh_of(dp=4)
    path = planned(folder, case, mesh, constraints=FSDP)
    plan = autopar.load_plan(path)
    parallel = trains_alike(path, mesh, case)
    runs_what_is_listed(parallel, plan, mesh, args)
    for phase, module in zip(PHASES, parallel.graphs(*args, **kwargs), strict=True):  # type: ignore[operator]
        buckets = sorted(bucket_of(issued, waiting) for issued, waiting in under_way(module))
        assert buckets == planned_buckets(plan, phase)
        assert any(len(values) > 1 for *_, values in buckets)
        assert runs_in_turn(plan, phase, module) > 0


def check_what_is_under_way_compiles(rank: int, folder: Path) -> None:
    """Of a random plan, in which much is read before the plan's finish. Inductor is told to keep the order."""
    model, args, kwargs = case = make("mlp", "float32")
    mesh = mesh_of(dp=2, tp=2)
    path = planned(folder, case, mesh, "--random-plan", "1", constraints={})
    parallel = autopar.apply(model, path, mesh, args, kwargs)
    runs_what_is_listed(parallel, autopar.load_plan(path), mesh, args)
    parallel.zero_grad()
    loss_of(model(*args)).backward()
    reorders = []

    def backend(graph: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        reorders.append(torch._inductor.config.reorder_for_peak_memory)
        return aot_eager(graph, inputs)

    torch.compile(parallel, backend=backend)(*args).backward()
    same_gradients(parallel, model)
    assert reorders == [False, False]
    assert torch._inductor.config.reorder_for_peak_memory


def check_impossible_starts_are_refused(rank: int, folder: Path) -> None:
    model, args, kwargs = case = fsdp_case()
    mesh = mesh_of(dp=4)
    good = json.loads(planned(folder, case, mesh, constraints=FSDP).read_text())
    listed = good["redistributions"]
    first = {phase: next(k for k, node in good["nodes"].items() if node.get("phase") == phase) for phase in PHASES}
    last = {
        phase: next(k for k in reversed(good["nodes"]) if good["nodes"][k].get("phase") == phase) for phase in PHASES
    }
    gather = next(i for i, one in enumerate(listed) if one["phase"] == "forward" and one.get("finish"))
    gradient = next(i for i, one in enumerate(listed) if "/b/" in one["value"] and "start" in one)

    def with_start(name: str, index: int, start: str) -> functools.partial[Any]:
        document = copy.deepcopy(good)
        document["redistributions"][index] |= {"start": start, "finish": None}
        path = folder / f"{name}.plan.json"
        if rank == 0:
            path.write_text(json.dumps(document))
        dist.barrier()
        return functools.partial(autopar.apply, model, path, mesh, args, kwargs)

    value = listed[gradient]["value"]
    refused(
        autopar.PlanError,
        rf"early.plan.json: {value} is wanted before it is made \(at the start of its redistribution",
        with_start("early", gradient, first["backward"]),
    )
    refused(
        autopar.PlanError,
        rf"late.plan.json: redistributions\[{gather}\].start: want no node behind .*, which reads its result",
        with_start("late", gather, last["forward"]),
    )
