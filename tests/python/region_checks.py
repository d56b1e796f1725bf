"""What stays in the hands of a model's author: regions, inline constraints, rules; test_apply.py runs this."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import autopar
import moe
import torch
import torch.distributed as dist
from apply_checks import make_plan, mesh_of, refused, same_gradients, trains_alike
from executed import Recorder, planned, tracked_bytes
from small_models import loss_of, transformer
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_reduce
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.experimental import local_map


def check_experts_get_their_tokens_by_all_to_all(rank: int, folder: Path) -> None:
    model, args = moe.moe_tiny()
    mesh = mesh_of(dp=2, ep=2)
    key = "layers.0/f/local_map"
    pins: dict[str, dict[str, Any]] = {
        "expert parallel": {"nodes": {"layers.*/f/local_map": {"dp": "R", "ep": "S(0)"}}},
        "experts over all devices": {
            "nodes": {"layers.*/f/local_map": ["S(0)", "S(0)"]},
            "parameters": {"layers.*.w_*": ["S(0)", "S(0)"]},
        },
        "free": {},
    }
    for number, constraints in enumerate(pins.values()):
        file = folder / f"pins{number}.json"
        if rank == 0:
            file.write_text(json.dumps({"format": "autopar-constraints", "version": 1, **constraints}))
        seed = "--random-plan" if not constraints else "--constraints"
        plan = autopar.load_plan(
            make_plan(folder, (model, args, {}), mesh, seed, "11" if not constraints else str(file), name=f"p{number}")
        )
        assert plan.nodes[key].inputs[:3] == (plan.nodes[key].inputs[0],) * 3
        trains_alike(plan, mesh, (model, args, {}))
        # Forward and backward run in the same way.
        ours, theirs = (plan.nodes[f"layers.0/{phase}"] for phase in ("f/local_map", "b/local_map_backward"))
        assert theirs.inputs[1] == tuple("R" if one.startswith("P") else one for one in ours.outputs[0] or ())


def check_models_with_regions_compile(rank: int, folder: Path) -> None:
    model, args = moe.moe_tiny()
    mesh = mesh_of(dp=2, ep=2)
    single = copy.deepcopy(model)
    parallel = autopar.apply(model, make_plan(folder, (model, args, {}), mesh, "--random-plan", "11"), mesh, args)
    loss_of(single(*args)).backward()
    torch.compile(parallel, backend="aot_eager")(*args).backward()
    same_gradients(parallel, single)


def check_collectives_outside_of_regions_are_refused(rank: int, folder: Path) -> None:
    """As they are where torch's own local_map is called on plain tensors: it just calls its function then."""
    mesh = mesh_of(dp=4)

    class Communicates(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            summed = local_map(
                lambda one: all_reduce(one, "sum", mesh), [Replicate()], ([Partial()],), device_mesh=mesh
            )
            out: Tensor = summed(x * self.weight)
            return out.sum()

    refused(autopar.ExportError, "communicates by itself", lambda: autopar.export(Communicates(), (torch.ones(4),)))


def check_tokens_are_spread_unevenly(rank: int, folder: Path) -> None:
    """Else the checks above would not show that counts are exchanged."""
    model, (tokens, _) = moe.moe_tiny()
    router = model.get_submodule("layers.0.router")
    chances = router(model.get_submodule("embedding")(tokens)).flatten(0, 1)
    counts = chances.topk(2).indices.flatten().bincount(minlength=8)
    assert counts.max() > 2 * counts.min()


class Constrained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        hidden = autopar.constrain(self.up(x), {"tp": Shard(1)}, ["R", "S(0)"])
        out: Tensor = autopar.constrain(self.down(hidden), [Shard(0), None])
        return out.square().sum()


def check_inline_constraints(rank: int, folder: Path) -> None:
    model, x = Constrained(), torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    mesh = mesh_of(dp=2, tp=2)
    for seed in ("1", "2", "3"):
        plan = autopar.load_plan(make_plan(folder, (model, (x,), {}), mesh, "--random-plan", seed, name=f"p{seed}"))
        assert [(plan.nodes["/f/constrain"].outputs[0] or ())[1]] == ["S(1)"]
        assert (plan.nodes["/f/constrain.1"].outputs[0] or ())[0] == "S(0)"
        assert plan.nodes["/b/constrain"].outputs[0] == ("R", "S(0)")
        trains_alike(plan, mesh, (model, (x,), {}))
    refused(autopar.ExportError, "want a placement", lambda: autopar.export(Faulty(), (x,)))


class Faulty(Constrained):
    def forward(self, x: Tensor) -> Tensor:
        return autopar.constrain(self.up(x), ["Shard"]).sum()


@torch.library.custom_op("autopar_tests::scale_rows", mutates_args=())
def scale_rows(x: Tensor, scale: Tensor) -> Tensor:
    return x * scale.unsqueeze(1)


@scale_rows.register_fake
def _(x: Tensor, scale: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("autopar_tests::scale_rows_backward", mutates_args=())
def scale_rows_backward(grad: Tensor, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return grad * scale.unsqueeze(1), (grad * x).sum(1)


@scale_rows_backward.register_fake
def _(grad: Tensor, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(scale)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx: Any, grad: Tensor) -> Any:
    return torch.ops.autopar_tests.scale_rows_backward(grad, *ctx.saved_tensors)


scale_rows.register_autograd(_differentiate, setup_context=_keep)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.scale = nn.Linear(8, 12), nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = torch.ops.autopar_tests.scale_rows(self.layer(x), self.scale)
        return out.square().sum()


def check_rules_of_custom_ops(rank: int, folder: Path) -> None:
    model, x = Scaled(), torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    assert "strategies" not in node_of(autopar.export(model, (x,)), "scale_rows")
    rows = autopar.Strategy(inputs=[Shard(0), Shard(0)], outputs=[Shard(0)])

    @autopar.register_rule("autopar_tests.scale_rows.default")
    def forward_rule(x: Tensor, scale: Tensor) -> list[autopar.Strategy]:
        assert (x.shape, scale.shape) == ((6, 12), (6,))
        linear = autopar.Strategy(inputs=[Partial(), Replicate()], outputs=[Partial()])
        return [rows, autopar.Strategy(inputs=["S(1)", "R"], outputs=["S(1)"]), linear]

    @autopar.register_rule("autopar_tests.scale_rows_backward.default")
    def backward_rule(grad: Tensor, x: Tensor, scale: Tensor) -> list[autopar.Strategy]:
        return [
            autopar.Strategy(inputs=["S(0)", "S(0)", "S(0)"], outputs=["S(0)", "S(0)"]),
            autopar.Strategy(inputs=["S(1)", "S(1)", "R"], outputs=["S(1)", "P(sum)"]),
        ]

    mesh = mesh_of(dp=2, tp=2)
    chosen = set()
    for seed in range(6):
        path = make_plan(folder, (model, (x,), {}), mesh, "--random-plan", str(seed), name=f"p{seed}")
        plan = autopar.load_plan(path)
        chosen |= set(plan.nodes["/f/scale_rows"].inputs[0])
        trains_alike(plan, mesh, (model, (x,), {}))
    assert chosen > {"S(0)"}
    short = autopar.Strategy(inputs=["S(0)"], outputs=["S(0)"])
    autopar.register_rule("autopar_tests.scale_rows.default")(lambda x, scale: [short])
    refused(autopar.ExportError, "scale_rows.*has 1 inputs; want 2", lambda: autopar.export(model, (x,)))


def node_of(document: dict[str, Any], op: str) -> dict[str, Any]:
    return next(node for node in document["nodes"] if op in node["op"])


def runs_what_is_listed(parallel: nn.Module, plan: autopar.Plan, mesh: DeviceMesh, args: Any) -> None:
    with Recorder(mesh) as forward:
        loss = parallel(*args)
    with Recorder(mesh) as backward:
        loss.backward()
    if dist.get_rank() == 0:  # it holds the largest pieces, which the plan speaks of
        assert forward.found == planned(plan, "forward")
        assert backward.found == planned(plan, "backward")


def check_what_runs_is_what_was_predicted(rank: int, folder: Path) -> None:
    model, args, kwargs = transformer()  # 3 sequences, 50 words: pieces are uneven
    mesh = mesh_of(dp=2, tp=2)
    kinds = set()
    for seed in ("1", "2"):
        path = make_plan(folder, (model, args, kwargs), mesh, "--random-plan", seed, name=f"p{seed}")
        plan = autopar.load_plan(path)
        parallel = autopar.apply(model, plan, mesh, args, kwargs)
        runs_what_is_listed(parallel, plan, mesh, args)
        parallel.zero_grad(set_to_none=True)
        optimizer = torch.optim.AdamW(parallel.parameters())
        tracked = tracked_bytes(parallel, optimizer, args)
        if rank == 0:  # it holds the largest pieces, which the plan speaks of
            assert abs(sum(tracked.values()) - plan.parameter_bytes) < 0.01 * plan.parameter_bytes
        kinds |= {kind for phase in ("forward", "backward") for kind, *_ in planned(plan, phase)}
    assert kinds >= {"all_gather", "all_reduce", "reduce_scatter"}


def check_tied_parameters_stay_one(rank: int, folder: Path) -> None:
    """torchtitan#2252: an embedding and a head that share a weight were made separately."""
    model, args, kwargs = transformer()
    mesh = mesh_of(dp=2, tp=2)
    plan = make_plan(folder, (model, args, kwargs), mesh, "--random-plan", "8")
    parallel = trains_alike(plan, mesh, (model, args, kwargs))  # the gradient is the sum of both uses'
    assert parallel.get_parameter("head.weight") is parallel.get_parameter("embedding.weight")
    placed = autopar.load_plan(plan).placements()
    assert placed["head.weight"] == placed["embedding.weight"]


def check_accumulating_index_put(rank: int, folder: Path) -> None:
    """autoparallel#348: the target and the values of an index_put had placements that did not match."""

    class Scatter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6, generator=torch.Generator().manual_seed(0)))

        def forward(self, rows: Tensor) -> Tensor:
            target = torch.zeros(8, 6)
            out = target.index_put((rows,), self.weight, accumulate=True)
            return out.square().sum()

    model, rows = Scatter(), torch.tensor([1, 3, 3, 7])
    mesh = mesh_of(dp=2, tp=2)
    for seed in range(4):
        plan = make_plan(folder, (model, (rows,), {}), mesh, "--random-plan", str(seed), name=f"p{seed}")
        trains_alike(plan, mesh, (model, (rows,), {}))


def check_gradients_are_reduced_once(rank: int, folder: Path) -> None:
    """autoparallel#517: einsum, permute and a gradient that is a pending sum; it was reduced twice."""

    class Einsum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(0)))

        def forward(self, x: Tensor) -> Tensor:
            return torch.einsum("bsd,hed->bhse", x, self.weight).permute(0, 2, 1, 3).sin().sum()

    model, x = Einsum(), torch.randn(4, 4, 8, generator=torch.Generator().manual_seed(1))
    mesh = mesh_of(dp=2, cp=2)
    for seed in range(4):
        plan = make_plan(folder, (model, (x,), {}), mesh, "--random-plan", str(seed), name=f"p{seed}")
        trains_alike(plan, mesh, (model, (x,), {}))


def check_mesh_dims_of_one_device(rank: int, folder: Path) -> None:
    """pytorch#163742: meshes with a dim of size 1 had needless collectives, or failed."""
    model, args, kwargs = transformer()
    for number, mesh in enumerate((mesh_of(dp=4, tp=1), mesh_of(dp=1, tp=4), mesh_of(a=1, b=4, c=1))):
        path = make_plan(folder, (model, args, kwargs), mesh, "--random-plan", "1", name=f"p{number}")
        plan = autopar.load_plan(path)
        names = {name for name, size in zip(plan.mesh_dim_names, plan.mesh_shape, strict=True) if size > 1}
        assert all({plan.mesh_dim_names[dim] for dim in total.mesh_dims} <= names for total in plan.communication)
        trains_alike(plan, mesh, (model, args, kwargs))
    dist.barrier()
