"""Trains small models by plans on several processes, and compares with a single process.

As a program, `replay_runner.py SIZE FOLDER`, it runs one process group for many cases: starting one costs
more than most cases. Ranks are forked, so that torch is imported once.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import autopar
import replay_models
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

STEPS = 3
COLLECTIVE_TIMEOUT = timedelta(seconds=60)
Named = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    family: str
    precision: str
    plan: str  # path
    reference: str  # path of a Record


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What training has given; names are those of the model."""

    losses: list[float] = field(default_factory=list)
    gradients: list[Named] = field(default_factory=list)  # by step
    state: Named = field(default_factory=dict)  # parameters and buffers after the last step


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Of a case: what went wrong, or how far off it is: of losses the largest relative error, of the others the largest
    error of an element relative to the largest element of its tensor, and which tensor that is."""

    failure: str = ""
    loss: float = 0.0
    gradient: float = 0.0
    state: float = 0.0
    worst: str = ""


# ---- training ----


def train(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Record:
    """Under SGD parameters differ as gradients do. Adam divides by them, which makes noise of those near zero large."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    record = Record()
    for _ in range(STEPS):
        optimizer.zero_grad()
        output = model(*args, **kwargs)
        loss = output if isinstance(output, Tensor) else output["loss"] if isinstance(output, dict) else output.loss
        loss.backward()
        record.losses.append(loss.item())
        record.gradients.append(gradients(model))
        optimizer.step()
    record.state.update({name: tensor.detach().clone() for name, tensor in model.named_parameters()})
    record.state.update({name: tensor.clone() for name, tensor in model.named_buffers()})
    return record


def gradients(model: nn.Module) -> Named:
    found = {}
    for name, parameter in model.named_parameters():
        grad = parameter.grad
        if grad is not None:
            if isinstance(parameter, DTensor):
                assert isinstance(grad, DTensor)
                assert grad.placements == parameter.placements, name
            found[name] = grad.clone()
    return found


def single_process(family: str, precision: str) -> Record:
    return train(*replay_models.make(family, precision))


def write_record(record: Record, path: Path) -> None:
    torch.save(asdict(record), path)


def read_record(path: str) -> Record:
    return Record(**torch.load(path))


# ---- comparing ----


def compare(found: Record, wanted: Record) -> Outcome:
    losses = [abs(a - b) / abs(b) for a, b in zip(found.losses, wanted.losses, strict=True)]
    of_gradients: dict[str, float] = {}
    for step, (some, other) in enumerate(zip(found.gradients, wanted.gradients, strict=True)):
        of_gradients |= distances(some, other, f"gradient {step} of ")
    of_state = distances(found.state, wanted.state, "")
    every = of_gradients | of_state
    return Outcome(
        loss=max(losses),
        gradient=max(of_gradients.values()),
        state=max(of_state.values()),
        worst=max(every, key=every.__getitem__),
    )


def distances(found: Named, wanted: Named, prefix: str) -> dict[str, float]:
    """Largest error of an element, relative to the tensor's largest element. Some gradients are zero but for rounding
    (a bias on all keys changes no attention), so a tensor counts as at least a hundredth of the largest."""
    assert found.keys() == wanted.keys(), f"{prefix}: {sorted(found.keys() ^ wanted.keys())}"
    sizes = {name: tensor.abs().max().item() for name, tensor in wanted.items()}
    least = max(sizes.values()) / 100
    return {
        prefix + name: largest_error(found[name], tensor) / max(sizes[name], least) for name, tensor in wanted.items()
    }


def largest_error(found: Tensor, wanted: Tensor) -> float:
    """Of a DTensor that of the local piece, so that each rank checks what it holds."""
    assert found.shape == wanted.shape
    if isinstance(found, DTensor):
        assert not any(placement.is_partial() for placement in found.placements)
        shape, offset = compute_local_shape_and_global_offset(found.shape, found.device_mesh, found.placements)
        found = found.to_local()
        wanted = wanted[tuple(slice(begin, begin + size) for begin, size in zip(offset, shape, strict=True))]
        assert found.shape == wanted.shape
    error = (found.double() - wanted.double()).abs().amax().item() if wanted.numel() > 0 else 0.0
    return error if error == error else float("inf")  # NaN is as far off as can be


# ---- one rank ----


def run_rank(rank: int, size: int, cases: Sequence[Case], folder: Path) -> None:
    """Writes the outcomes, one line each, until a case fails."""
    store = FileStore(str(folder / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=COLLECTIVE_TIMEOUT)
    meshes: dict[Any, DeviceMesh] = {}
    with (folder / f"outcomes.{rank}").open("w", buffering=1) as out:
        for case in cases:
            try:
                outcome = run_case(case, meshes)
            except Exception:
                out.write(json.dumps(asdict(Outcome(failure=f"rank {rank}: {traceback.format_exc()}"))) + "\n")
                sys.exit(1)
            out.write(json.dumps(asdict(outcome)) + "\n")
            gc.collect()
    dist.destroy_process_group()


def run_case(case: Case, meshes: dict[Any, DeviceMesh]) -> Outcome:
    model, args, kwargs = replay_models.make(case.family, case.precision)
    plan = autopar.load_plan(case.plan)
    key = (plan.mesh_shape, plan.mesh_dim_names)
    if key not in meshes:
        meshes[key] = init_device_mesh("cpu", plan.mesh_shape, mesh_dim_names=plan.mesh_dim_names)
    parallel = autopar.apply(model, plan, meshes[key], args, kwargs)
    return compare(train(parallel, args, kwargs), read_record(case.reference))


# ---- one process group ----


def run_group(size: int, cases: Sequence[Case], folder: Path) -> None:
    """Ends when all ranks have, or as soon as one has failed: the others may wait for it."""
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=run_rank, args=(rank, size, cases, folder)) for rank in range(size)]
    for process in ranks:
        process.start()
    while any(process.is_alive() for process in ranks) and not any(process.exitcode for process in ranks):
        wait([process.sentinel for process in ranks if process.is_alive()])
    for process in ranks:
        process.kill()
        process.join()


def read_outcomes(size: int, folder: Path, count: int) -> list[Outcome]:
    """Of each case that was run the worst of all ranks; the last one may be a failure."""
    ranks = []
    for rank in range(size):
        path = folder / f"outcomes.{rank}"
        lines = path.read_text().splitlines() if path.exists() else []
        ranks.append([Outcome(**json.loads(line)) for line in lines])
    outcomes = []
    for index in range(count):
        found = [rank[index] for rank in ranks if index < len(rank)]
        failures = [one.failure for one in found if one.failure]
        if failures or len(found) < size:
            outcomes.append(Outcome(failure=failures[0] if failures else "a rank ended without a word"))
            break
        worst = max(found, key=lambda one: max(one.gradient, one.state))
        outcomes.append(replace(worst, loss=max(one.loss for one in found)))
    return outcomes


# ---- many cases ----


def run_cases(size: int, cases: Sequence[Case]) -> list[Outcome]:
    """In new process groups of this size: after a case that fails, the rest has a group of its own."""
    outcomes: list[Outcome] = []
    retried = -1
    while len(outcomes) < len(cases):
        found = run_in_new_group(size, cases[len(outcomes) :])
        failing = len(outcomes) + len(found) - 1
        # Gloo, of torch 2.13, rarely loses count of its buffers: a thread of one rank then spins in a destructor for
        # ever. Programs that do not fit together hang again.
        if "imed out" in found[-1].failure and retried != failing:
            retried = failing
            found.pop()
        outcomes += found
    return outcomes


def run_in_new_group(size: int, cases: Sequence[Case]) -> list[Outcome]:
    """Of all cases, or up to the first that fails."""
    with tempfile.TemporaryDirectory(prefix="replay-") as name:
        folder = Path(name)
        (folder / "cases.json").write_text(json.dumps([asdict(case) for case in cases]))
        with (folder / "log").open("w") as log:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            group = subprocess.Popen(
                [sys.executable, __file__, str(size), name],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that its ranks can be ended with it
            )
            try:
                group.wait(timeout=120 + 60 * len(cases))
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(group.pid, signal.SIGKILL)
                group.wait()
        found = read_outcomes(size, folder, len(cases))
        if found[-1].failure:
            found[-1] = replace(found[-1], failure=f"{found[-1].failure}\n{(folder / 'log').read_text()[-4000:]}")
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    # Ranks inherit what a first capture loads, and collect what they make between cases only: both save time.
    autopar.export(*replay_models.make("mlp", "float32"))
    gc.collect()
    gc.freeze()
    gc.disable()
    where = Path(sys.argv[2])
    listed = [Case(**entry) for entry in json.loads((where / "cases.json").read_text())]
    run_group(int(sys.argv[1]), listed, where)
