"""What a module that trains by a plan must do; test_apply.py runs this on four processes."""

from __future__ import annotations

import copy
import functools
import json
import os
import subprocess
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import autopar
import pytest
import torch
import torch.distributed as dist
from rule_check import build_folder
from small_models import Case, Transformer, loss_of, normed, transformer
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn import functional

# Sums in other orders: a few units in the last place of float32, of tensors whose elements are of about one size.
CLOSE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-6}


def search_command() -> list[str]:
    folder = build_folder()
    assert folder, "the program is not built"
    return [str(folder / "autopar-search")]


def mesh_of(**sizes: int) -> DeviceMesh:
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def make_plan(
    folder: Path,
    case: Case,
    mesh: DeviceMesh,
    *options: str,
    name: str = "plan",
    cluster: str = "cpu-gloo",
    **export: Any,
) -> Path:
    """The same file on all ranks; made by rank 0."""
    path = folder / f"{name}.plan.json"
    if dist.get_rank() == 0:
        model, args, kwargs = case
        source = folder / f"{name}.json"
        autopar.export(model, args, kwargs, path=source, **export)
        assert mesh.mesh_dim_names is not None
        dims = ",".join(f"{dim}={size}" for dim, size in zip(mesh.mesh_dim_names, mesh.mesh.shape, strict=True))
        command = [*search_command(), str(source), "--mesh", dims, "--cluster", cluster, "-q", "-o", str(path)]
        # Nothing hides here, and without that plans are proven the best.
        subprocess.run([*command, *options], check=True, timeout=100)
    dist.barrier()
    return path


def placed_as(tensor: Tensor) -> tuple[Any, ...]:
    assert isinstance(tensor, DTensor)
    return tuple(tensor.placements)


def dtype_of(grad: Tensor | None) -> torch.dtype:
    assert grad is not None
    return grad.dtype


def train(model: nn.Module, args: Sequence[Any], kwargs: dict[str, Any], steps: int = 2) -> list[Tensor]:
    # Adam would make noise of gradients that are zero but for rounding large.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model(*args, **kwargs))
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
    return losses


def same_gradients(parallel: nn.Module, model: nn.Module, **tolerance: float) -> None:
    wanted = {name: parameter.grad for name, parameter in model.named_parameters()}
    for name, parameter in parallel.named_parameters():
        if wanted[name] is not None:
            assert isinstance(parameter.grad, DTensor)
            torch.testing.assert_close(parameter.grad.full_tensor(), wanted[name], **(tolerance or CLOSE))


def trains_alike(plan: Path | autopar.Plan, mesh: DeviceMesh, case: Case, **tolerance: float) -> nn.Module:
    """The replay of the plan, once it has had the loss and the gradients of a copy of the model."""
    model, args, kwargs = case
    single = copy.deepcopy(model)
    parallel = autopar.apply(model, plan, mesh, args, kwargs)
    losses = [loss_of(each(*args, **kwargs)) for each in (single, parallel)]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(losses[1], losses[0], **(tolerance or CLOSE))
    same_gradients(parallel, single, **tolerance)
    return parallel


def refused(kind: type[Exception], text: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=text):
        call()


def check_values_on_meta_are_those_of_one_process(rank: int, folder: Path) -> None:
    torch.manual_seed(7)
    wanted = Transformer().state_dict()
    with torch.device("meta"):
        model = Transformer()
    tokens = torch.empty(4, 8, dtype=torch.int64, device="meta")
    mesh = mesh_of(dp=2, tp=2)
    plan = make_plan(folder, (model, (tokens, tokens), {}), mesh, "--random-plan", "3")
    torch.manual_seed(7 if rank == 0 else 100 + rank)  # ranks need not be seeded alike
    parallel = autopar.apply(model, plan, mesh)
    assert list(parallel.state_dict()) == list(wanted)
    for name, tensor in parallel.state_dict().items():
        assert isinstance(tensor, DTensor)
        assert torch.equal(tensor.full_tensor(), wanted[name]), name
    assert parallel.get_parameter("head.weight") is parallel.get_parameter("embedding.weight")
    placements = autopar.load_plan(plan).placements()
    assert all(placed_as(parameter) == placements[name] for name, parameter in parallel.named_parameters())


def check_meta_without_initialisation_is_refused(rank: int, folder: Path) -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.weight).sum()

    with torch.device("meta"):
        model = nn.Sequential(Bare())
    mesh = mesh_of(dp=4)
    plan = make_plan(folder, (model, (torch.ones(4, 4),), {}), mesh)
    refused(autopar.PlanError, r"module '0' \(Bare\).*init=", lambda: autopar.apply(model, plan, mesh))

    def init(module: nn.Module) -> None:
        assert isinstance(module, Bare)
        nn.init.ones_(module.weight)

    parallel = autopar.apply(model, plan, mesh, init=init)
    assert parallel(torch.ones(4, 4)).item() == 64


def check_other_batches(rank: int, folder: Path) -> None:
    model, _, _ = transformer()
    tokens = torch.randint(50, (4, 8), generator=torch.Generator().manual_seed(0))
    (folder / "pins.json").write_text(
        '{"format": "autopar-constraints", "version": 1, "inputs": {"*": {"dp": "S(0)"}}, '
        '"nodes": {"layers.0/f/add": {"dp": "S(0)"}}}'
    )
    mesh = mesh_of(dp=2, tp=2)
    plan = make_plan(folder, (model, (tokens, tokens), {}), mesh, "--constraints", str(folder / "pins.json"))
    parallel = autopar.apply(model, plan, mesh)
    for batch in (4, 6, 2):  # what was planned for, more, and less
        some = torch.randint(50, (batch, 8), generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(parallel(some, some), model(some, some)["loss"], **CLOSE)
    refused(
        autopar.PlanError,
        r"dim 0 of size 3 \(planned: 4\) is cut in 2 equal pieces",
        lambda: parallel(tokens[:3], tokens[:3]),
    )
    refused(autopar.PlanError, "some would be empty", lambda: parallel(tokens[:1], tokens[:1]))
    refused(autopar.PlanError, "another training step", lambda: parallel(tokens.int(), tokens))


def check_plans_of_others_are_refused(rank: int, folder: Path) -> None:
    case = transformer()
    mesh = mesh_of(dp=2, tp=2)
    plan = make_plan(folder, case, mesh)
    model, args, kwargs = case

    def apply(other: nn.Module, on: DeviceMesh = mesh) -> Callable[[], Any]:
        return lambda: autopar.apply(other, plan, on, args, kwargs)

    refused(autopar.PlanError, r"mesh of dp=2, tp=2; this mesh has the shape \(4,\)", apply(model, mesh_of(dp=4)))
    refused(autopar.PlanError, "dims of this mesh are called", apply(model, mesh_of(tp=2, dp=2)))
    refused(autopar.PlanError, "layers.2.norm_1.weight is not in the plan", apply(Transformer(3)))
    refused(autopar.PlanError, "layers.1.* of the plan is not in the model", apply(Transformer(1)))
    wide = copy.deepcopy(model)
    wide.layers[0].up, wide.layers[0].down = nn.Linear(16, 48), nn.Linear(48, 16)  # type: ignore[union-attr,index]
    refused(autopar.PlanError, r"layers.0.up.weight is float32\[32,16\] in the plan, float32\[48,16\]", apply(wide))
    other = copy.deepcopy(model)
    other.layers[0].norm_1.eps = 0.1  # type: ignore[union-attr,index]
    refused(autopar.PlanError, "some literal argument", apply(other))
    other = copy.deepcopy(model)
    other.layers[0].norm_1 = nn.RMSNorm(16)  # type: ignore[union-attr,index]
    refused(autopar.PlanError, "layers.0.norm_1.bias of the plan is not in the model", apply(other))
    renamed = nn.ModuleDict({"model": model})
    refused(autopar.PlanError, "model.embedding.weight is not in the plan", apply(renamed))


def check_edited_plans_are_refused(rank: int, folder: Path) -> None:
    """Whatever is wrong, it is a PlanError that names the file."""
    case = transformer(1)
    model, args, _ = case
    mesh = mesh_of(dp=2, tp=2)
    plan = make_plan(folder, case, mesh, "--random-plan", "3")
    good = json.loads(plan.read_text())
    listed = good["redistributions"]
    moved = next(i for i, one in enumerate(listed) if len(one["steps"]) > 1 and "node" in str(one["uses"]))
    key = next(use["node"] for use in listed[moved]["uses"] if "node" in use)

    def edit(number: int, change: Callable[[dict[str, Any]], Any]) -> Path:
        edited = copy.deepcopy(good)
        change(edited)
        path = folder / f"edited{number}.plan.json"
        if rank == 0:
            path.write_text(json.dumps(edited))
        dist.barrier()
        return path

    changes: list[Callable[[dict[str, Any]], Any]] = [
        lambda d: d["redistributions"].pop(moved),
        lambda d: d["redistributions"][moved]["steps"].pop(),
        lambda d: d["redistributions"][moved]["steps"].reverse(),
        lambda d: d["redistributions"][moved]["steps"][0].update(step="all_to_all"),
        lambda d: d["nodes"][key].update(inputs=[]),
        lambda d: d["nodes"][key].update(
            outputs=[["S(0)", "S(0)"] if one else one for one in d["nodes"][key]["outputs"]]
        ),
        lambda d: d["nodes"].pop(key),
        lambda d: d["outputs"].pop(),
        lambda d: d["parameters"].pop("head.weight"),
        lambda d: d["model"].update(graph_hash="sha256:0"),
    ]
    for number, change in enumerate(changes):
        path = edit(number, change)
        apply = functools.partial(autopar.apply, model, path, mesh, args)
        refused(autopar.PlanError, f"edited{number}.plan.json", apply)


def check_one_failing_rank_ends_all(rank: int, folder: Path) -> None:
    model, args, kwargs = transformer()
    mesh = mesh_of(dp=4)
    plan = make_plan(folder, (model, args, kwargs), mesh)
    bad = (torch.zeros(3, 8),) * 2 if rank == 2 else args  # tokens that are no integers
    text = "Expected tensor for argument" if rank == 2 else "rank 2 of the mesh failed"
    refused(ValueError, text, lambda: autopar.apply(model, plan, mesh, bad, kwargs))


def check_checkpoints_load_onto_another_plan(rank: int, folder: Path) -> None:
    model, args, kwargs = transformer()
    first_mesh, second_mesh = mesh_of(dp=2, tp=2), mesh_of(dp=4)
    first_plan = make_plan(folder, (model, args, kwargs), first_mesh, "--random-plan", "1", name="first")
    second_plan = make_plan(folder, (model, args, kwargs), second_mesh, "--random-plan", "2", name="second")
    first = autopar.apply(model, first_plan, first_mesh, args, kwargs)
    one = torch.optim.AdamW(first.parameters(), lr=1e-2)

    def step(parallel: nn.Module, optimizer: torch.optim.Optimizer) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = parallel(*args, **kwargs)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step(first, one)
    state, optimizer_state = get_state_dict(first, one)
    save({"model": state, "optimizer": optimizer_state}, checkpoint_id=folder / "checkpoint")
    second = autopar.apply(Transformer(), second_plan, second_mesh, args, kwargs)
    two = torch.optim.AdamW(second.parameters(), lr=1e-2)
    state, optimizer_state = get_state_dict(second, two)
    loaded: dict[str, Any] = {"model": state, "optimizer": optimizer_state}
    load(loaded, checkpoint_id=folder / "checkpoint")
    set_state_dict(second, two, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    for _ in range(2):
        torch.testing.assert_close(step(second, two), step(first, one), **CLOSE)


def check_accumulation_and_clipping(rank: int, folder: Path) -> None:
    model, args, kwargs = transformer()
    mesh = mesh_of(dp=2, tp=2)
    plan = make_plan(folder, (model, args, kwargs), mesh, "--random-plan", "5")
    parallel = autopar.apply(model, plan, mesh, args, kwargs)
    other = tuple(argument.flip(0) for argument in args)
    norms = []
    for each in (model, parallel):
        for batch in (args, other):
            loss_of(each(*batch)).backward()
        norm = torch.nn.utils.clip_grad_norm_(each.parameters(), 0.1)
        norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    torch.testing.assert_close(norms[1], norms[0], **CLOSE)
    same_gradients(parallel, model)


class Mixed(nn.Module):
    """Master weights in float32, matrix products in bfloat16."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            loss: Tensor = self.inner(tokens, labels)["loss"]
        return loss


def check_mixed_precision(rank: int, folder: Path) -> None:
    inner, args, kwargs = transformer()
    mesh = mesh_of(dp=2, tp=2)
    # bfloat16 has 8 bits, and sums of pieces are rounded one by one; gradients stay in float32.
    loose: dict[str, Any] = {"rtol": 0.05, "atol": 0.02}
    for seed in (1, 2):
        case = (Mixed(inner), args, kwargs)
        plan = make_plan(folder, case, mesh, "--random-plan", str(seed), name=f"inside{seed}")
        parallel = trains_alike(plan, mesh, case, **loose)
        assert all(dtype_of(parameter.grad) == torch.float32 for parameter in parallel.parameters())
    # Around the step: the casts are in the plan, and are not done twice.
    outer = copy.deepcopy(inner)
    with torch.autocast("cpu", torch.bfloat16):
        plan = make_plan(folder, (outer, args, kwargs), mesh, "--random-plan", "3", name="around")
        parallel = autopar.apply(outer, plan, mesh, args, kwargs)
        losses = [loss_of(each(*args)) for each in (outer, parallel)]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(losses[1], losses[0], **loose)
    same_gradients(parallel, outer, **loose)


def check_compile(rank: int, folder: Path) -> None:
    model, args, kwargs = transformer(1)
    mesh = mesh_of(dp=2, tp=2)
    plan = make_plan(folder, (model, args, kwargs), mesh, "--random-plan", "4")
    parallel = autopar.apply(model, plan, mesh, args, kwargs)
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    loss_of(model(*args)).backward()
    for compiled in (torch.compile(parallel, backend=backend), torch.compile(parallel, backend="aot_eager")):
        parallel.zero_grad()
        compiled(*args).backward()
        same_gradients(parallel, model)
    parallel.compile(backend=backend)
    parallel.zero_grad()
    parallel(*args).backward()
    same_gradients(parallel, model)
    # Twice forward and backward, each in one graph.
    assert len(graphs) == 4
    assert "_c10d_functional" in graphs[0].code


def check_the_same_program_twice(rank: int, folder: Path) -> None:
    model, args, kwargs = transformer()
    mesh = mesh_of(dp=2, tp=2)
    plan = make_plan(folder, (model, args, kwargs), mesh, "--random-plan", "6")
    texts = []
    for _ in range(2):
        parallel = autopar.apply(model, plan, mesh, args, kwargs)
        texts.append([graph.code for graph in parallel.graphs(*args, **kwargs)])
    assert texts[0] == texts[1]
    assert "_c10d_functional" in texts[0][0]


def check_buffers_change_as_in_one_process(rank: int, folder: Path) -> None:
    mesh = mesh_of(dp=2, tp=2)
    model, args, kwargs = normed()
    for seed in (1, 2, 3):
        single = copy.deepcopy(model)
        plan = make_plan(folder, (model, args, kwargs), mesh, "--random-plan", str(seed), name=f"plan{seed}")
        parallel = autopar.apply(model, plan, mesh, args, kwargs)
        for ours, wanted in zip(train(parallel, args, kwargs), train(single, args, kwargs), strict=True):
            torch.testing.assert_close(ours, wanted, **CLOSE)
        for name, buffer in parallel.named_buffers():
            assert isinstance(buffer, DTensor)
            torch.testing.assert_close(buffer.full_tensor(), single.get_buffer(name), **CLOSE)


def check_inputs_may_be_dtensors_and_have_gradients(rank: int, folder: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    x = torch.randn(8, 6, requires_grad=True)
    mesh = mesh_of(dp=2, tp=2)

    def total(output: Tensor) -> Tensor:
        return output.square().mean()

    plan = make_plan(folder, (model, (x,), {}), mesh, "--random-plan", "1", loss=total)
    parallel = autopar.apply(model, plan, mesh, (x,), loss=total)
    wanted = torch.autograd.grad(total(model(x)), x)[0]
    torch.testing.assert_close(torch.autograd.grad(parallel(x), x)[0], wanted, **CLOSE)
    (placements,) = parallel.input_placements(x).values()
    for placed in (placements, (Shard(0), Replicate()), (Shard(1), Shard(0))):
        spread = distribute_tensor(x.detach(), mesh, placed).requires_grad_()
        grad = torch.autograd.grad(parallel(spread), spread)[0]
        assert isinstance(grad, DTensor)
        torch.testing.assert_close(grad.full_tensor(), wanted, **CLOSE)


def check_random_numbers(rank: int, folder: Path) -> None:
    """Of devices with the same piece they are the same, of others independent, in every call new."""

    class Drop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(64, 64))

        def forward(self, x: Tensor) -> Tensor:
            return functional.dropout(x * self.weight, 0.25).sum()

    model, x = Drop(), torch.ones(64, 64)
    mesh = mesh_of(dp=2, tp=2)
    for placed in (["S(0)", "S(1)"], ["S(0)", "R"], ["R", "R"], ["R", "S(1)"]):
        name = "_".join(placed)
        (folder / f"{name}.json").write_text(
            '{"format": "autopar-constraints", "version": 1, "nodes": {"*/native_dropout": ["'
            + '", "'.join(placed)
            + '"]}}'
        )
        plan = make_plan(
            folder, (model, (x,), {}), mesh, "--constraints", str(folder / f"{name}.json"), name=f"drop_{name}"
        )
        torch.manual_seed(rank)  # of no matter
        parallel = autopar.apply(model, plan, mesh, (x,))
        masks = []
        for _ in range(2):
            parallel.zero_grad()
            parallel(x).backward()
            grad = parallel.weight.grad
            assert isinstance(grad, DTensor)
            for mesh_dim, placement in enumerate(grad.placements):
                if placement == Replicate():  # replicas agree
                    told = [torch.empty_like(grad.to_local()) for _ in range(mesh.size(mesh_dim))]
                    dist.all_gather(told, grad.to_local().contiguous(), group=mesh.get_group(mesh_dim))
                    assert all(torch.equal(one, told[0]) for one in told)
            masks.append(grad.full_tensor() != 0)
        # 4096 draws: five standard deviations of the mean are 0.034; of two halves' agreement (0.625) 0.054.
        assert abs(masks[0].float().mean().item() - 0.75) < 0.034
        pairs = [(masks[0], masks[1]), (masks[0][:32], masks[0][32:]), (masks[0][:, :32], masks[0][:, 32:])]
        for some, other in pairs:
            assert abs((some == other).float().mean().item() - 0.625) < 0.054
        parallel.seed(5)
        first = parallel(x).item()
        parallel.seed(5)
        assert parallel(x).item() == first


def check_in_one_call(rank: int, folder: Path) -> None:
    model, args, kwargs = transformer()
    options: dict[str, Any] = {"mesh_shape": {"dp": 2, "tp": 2}, "cluster": "cpu-gloo", "search": search_command()}
    parallel = autopar.parallelize(model, args, kwargs, plan_path=folder / "kept.plan.json", **options)
    torch.testing.assert_close(parallel(*args), model(*args)["loss"], **CLOSE)
    dist.barrier()
    kept = autopar.load_plan(folder / "kept.plan.json")
    assert "dp=2, tp=2" in str(kept)
    refused(
        autopar.PlanError,
        "has 2 devices, the process group 4 ranks",
        lambda: autopar.parallelize(model, args, **(options | {"mesh_shape": (2,)})),
    )
    missing = {"search": ["no-such-program"]}
    refused(autopar.PlanError, "cannot be run", lambda: autopar.parallelize(model, args, **(options | missing)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        faulty = {"cluster": "no-such-cluster"}
        refused(autopar.PlanError, "exit code 2", lambda: autopar.parallelize(model, args, **(options | faulty)))
    assert "OMPI_COMM_WORLD_SIZE" not in os.environ
