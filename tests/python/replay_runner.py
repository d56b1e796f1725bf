"""Trains small models by plans, on several processes, and compares with a single process."""

from __future__ import annotations

import gc
import json
import math
import multiprocessing
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import autopar
import replay_models
import torch
import torch.distributed as dist
from rule_check import same_imports
from small_models import loss_of
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

STEPS = 3
COLLECTIVE_TIMEOUT = timedelta(seconds=60)
CASE_SECONDS = 120
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
        loss = loss_of(model(*args, **kwargs))
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


# ---- one case ----


def run_rank(rank: int, size: int, case: Case, folder: Path) -> None:
    store = FileStore(str(folder / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=COLLECTIVE_TIMEOUT)
    try:
        outcome = compare(train(*replay(case)), read_record(case.reference))
    except Exception:
        write_outcomes([Outcome(failure=f"rank {rank}: {traceback.format_exc()}")], folder / str(rank))
        sys.exit(1)
    write_outcomes([outcome], folder / str(rank))
    # Slower ranks may still be reading from a connection that an exit would close.
    store.add("done", 1)
    while store.add("done", 0) < size:
        time.sleep(0.01)
    dist.destroy_process_group()


def replay(case: Case) -> tuple[nn.Module, Sequence[Any], Mapping[str, Any]]:
    """What a rank trains."""
    model, args, kwargs = replay_models.make(case.family, case.precision)
    plan = autopar.load_plan(case.plan)
    mesh = init_device_mesh("cpu", plan.mesh_shape, mesh_dim_names=plan.mesh_dim_names)
    return autopar.apply(model, plan, mesh, args, kwargs), args, kwargs


def run_case(case: Case) -> Outcome:
    """Ranks are forked, so that they need not load torch, and new for each case, so that one cannot harm the next. It
    ends when all have, or as soon as one has failed, for which the others may wait."""
    size = math.prod(autopar.load_plan(case.plan).mesh_shape)
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="replay-") as name:
        folder = Path(name)
        ranks = [fork.Process(target=run_rank, args=(rank, size, case, folder)) for rank in range(size)]
        for process in ranks:
            process.start()
        deadline = time.monotonic() + CASE_SECONDS
        running = ranks
        while running and not any(process.exitcode for process in ranks):
            if not wait([process.sentinel for process in running], deadline - time.monotonic()):
                break
            running = [process for process in ranks if process.is_alive()]
        ended = [process.exitcode for process in ranks]
        for process in ranks:
            process.kill()
            process.join()
        found = [one for rank in range(size) for one in read_outcomes(folder / str(rank))]
    if len(found) < size or any(outcome.failure for outcome in found):
        return Outcome(failure="\n".join([outcome.failure for outcome in found] + [f"exit codes: {ended}"]))
    worst = max(found, key=lambda one: max(one.gradient, one.state))
    return replace(worst, loss=max(one.loss for one in found))


# ---- many cases ----


def write_outcomes(outcomes: Sequence[Outcome], path: Path) -> None:
    path.write_text(json.dumps([asdict(one) for one in outcomes]))


def read_outcomes(path: Path) -> list[Outcome]:
    return [Outcome(**entry) for entry in json.loads(path.read_text())] if path.exists() else []


def run_cases(cases: Sequence[Case]) -> list[Outcome]:
    """In a process of its own, from which ranks can be forked."""
    with tempfile.TemporaryDirectory(prefix="replays-") as name:
        folder = Path(name)
        (folder / "cases").write_text(json.dumps([asdict(case) for case in cases]))
        subprocess.run([sys.executable, __file__, name], env=same_imports(), check=True)
        return read_outcomes(folder / "outcomes")


def warm_up() -> None:
    """Loads what all ranks would have to, and shares it with them. Not a replay: what torch remembers of meshes and
    groups must be the ranks' own."""
    autopar.export(*replay_models.make("mlp", "float32"))
    gc.collect()
    gc.freeze()
    gc.disable()


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    cases = [Case(**entry) for entry in json.loads((folder / "cases").read_text())]
    warm_up()
    outcomes = []
    for case in cases:
        outcome = run_case(case)
        # Gloo, of torch 2.13, rarely loses count of its buffers: a thread of one rank spins in a destructor for ever.
        # Programs that do not fit together fail again.
        if outcome.failure:
            print(f"again, because of this failure: {case}\n{outcome.failure}", file=sys.stderr)
            outcome = run_case(case)
        outcomes.append(outcome)
    write_outcomes(outcomes, folder / "outcomes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
