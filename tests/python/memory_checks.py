"""A replay holds nothing longer than it must; test_memory.py runs this on two and on four processes."""

from __future__ import annotations

import json
from pathlib import Path

import autopar
import torch.distributed as dist
from apply_checks import make_plan, mesh_of
from memory_curve import ideal, measure, placed_batch
from replay_models import make
from test_replay import cluster
from torch.distributed.device_mesh import DeviceMesh

SCALARS = 16  # bytes: of the loss's gradient, which the autograd engine holds


def holds_nothing_too_long(folder: Path, family: str, mesh: DeviceMesh, *options: str) -> None:
    case = make(family, "float32")
    costs = folder / "cheap-links.json"
    costs.write_text(json.dumps(cluster()))
    plan = make_plan(folder, case, mesh, *options, name="-".join([family, *options]), cluster=str(costs))
    model, args, kwargs = case
    parallel = autopar.apply(model, plan, mesh, args, kwargs)
    args, kwargs = placed_batch(parallel, args, kwargs)
    measured = measure(parallel, args, kwargs)
    step, _ = parallel._find_step(args, kwargs)
    wanted = ideal(step, measured.before)
    least = max(reading.peak for reading in wanted)
    assert least <= measured.tracked <= 1.02 * least
    for found, right in zip(measured.readings, wanted, strict=True):
        assert (found.phase, found.name, found.key) == (right.phase, right.name, right.key)
        assert abs(found.before - right.before) <= SCALARS, found
        assert abs(found.peak - right.peak) <= SCALARS, found


def check_best_plans(rank: int, folder: Path) -> None:
    for family in ("mlp", "transformer", "llama"):
        holds_nothing_too_long(folder, family, mesh_of(dp=dist.get_world_size()))


def check_random_plans(rank: int, folder: Path) -> None:
    mesh = mesh_of(dp=2, tp=dist.get_world_size() // 2)
    for family, seed in (("mlp", "1"), ("transformer", "2"), ("llama_tied", "3")):
        holds_nothing_too_long(folder, family, mesh, "--random-plan", seed)
