"""Faults that other planners have had, as small cases. (Those that show when a plan runs: region_checks.py and
apply_checks.py.)"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import autopar
import pytest
import torch
from op_cases import Call, call, real
from rule_check import build_folder, dump_rules, model_of, rules_of
from torch import Tensor, nn
from torch.nn import functional


class Program:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def search(
        self, document: dict[str, Any], mesh: str, constraints: dict[str, Any] | None = None, *options: str
    ) -> subprocess.CompletedProcess[str]:
        (self.folder / "model.json").write_text(json.dumps(document))
        build = build_folder()
        assert build is not None
        command = [str(build / "autopar-search"), str(self.folder / "model.json"), "--mesh", mesh, "--cluster", "h100"]
        if constraints is not None:
            text = json.dumps({"format": "autopar-constraints", "version": 1, **constraints})
            (self.folder / "constraints.json").write_text(text)
            command += ["--constraints", str(self.folder / "constraints.json")]
        return subprocess.run([*command, *options], capture_output=True, text=True, timeout=100, check=False)

    def plan(self, *args: Any) -> autopar.Plan:
        done = self.search(*args)
        assert done.returncode == 0, done.stderr
        return autopar.load_plan(self.folder / "model.plan.json")

    def rules(self, one: Call) -> list[tuple[list[str], list[str]]]:
        program = dump_rules()
        assert program is not None
        (listed,) = rules_of(program, model_of([one]), self.folder)
        assert listed is not None
        return [([split.placement for split in ins], [split.placement for split in outs]) for ins, outs, _ in listed]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    if build_folder() is None:
        pytest.skip("the programs are not built; AUTOPAR_BUILD_DIR can name the build folder")
    return Program(tmp_path)


class Mlp(nn.Module):
    """Its weights are float32; `autocast` multiplies in bfloat16."""

    def __init__(self, width: int = 64, hidden: int = 256, autocast: bool = False) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)
        self.autocast = autocast

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            out: Tensor = self.down(torch.relu(self.up(x)))
        return out.float().square().mean()


def local_sizes(plan: autopar.Plan) -> list[int]:
    """Of every dim of every tensor that is cut, the size of the last piece."""
    sizes = []
    for node in plan.nodes.values():
        for tensor, placed in zip(node.tensors, node.outputs, strict=True):
            if tensor is None or placed is None:
                continue
            shape = [int(size) for size in tensor[tensor.index("[") + 1 : -1].split(",") if size]
            for count, placement in zip(plan.mesh_shape, placed, strict=True):
                if placement.startswith("S"):
                    dim = int(placement[2:-1])
                    piece = -(-shape[dim] // count)
                    sizes.append(shape[dim] - (count - 1) * piece)
                    shape[dim] = piece
    return sizes


def test_no_device_is_left_without_a_piece(program: Program) -> None:
    """autoparallel#22: tensors of 32 rows were cut in 256."""
    document = autopar.export(Mlp(32, 64), (torch.ones(32, 32),))
    for seed in range(3):
        sizes = local_sizes(program.plan(document, "32,8", {}, "--random-plan", str(seed)))
        assert min(sizes) >= 1


def test_uneven_pieces_are_possible(program: Program) -> None:
    """autoparallel#427: a vocabulary of 50257 words could not be cut."""
    document = autopar.export(Mlp(50257, 10), (torch.empty(4, 50257, device="meta"),))
    pins = {"parameters": {"up.weight": ["S(1)"], "down.weight": ["S(0)"]}}
    plan = program.plan(document, "8", pins)
    assert plan.parameters["up.weight"] == ("S(1)",)
    pins = {"parameters": {"up.weight": ["S(0)"]}}  # 10 rows for 3 devices
    assert program.plan(document, "3", pins).parameters["up.weight"] == ("S(0)",)


def test_views_that_tear_pieces_apart_are_not_offered(program: Program) -> None:
    """pytorch#179502: [12, 8] cut along dim 1, viewed as [16, 6], silently became a cut along dim 0."""
    rules = program.rules(call("view", real(12, 8), [16, 6]))
    assert all(inputs != ["S(1)"] for inputs, _ in rules)


@pytest.mark.parametrize("op", ["add.Scalar", "sub.Scalar", "add.Tensor"])
def test_scalars_are_not_added_to_pending_sums(program: Program, op: str) -> None:
    """pytorch#163193: each rank added the scalar."""
    rules = program.rules(call(op, real(12, 8), 1.0))
    assert all(not placement.startswith("P") for inputs, _ in rules for placement in inputs)


def test_casts_carry_pending_sums(program: Program) -> None:
    """pytorch#183363: a cast could not, so sums were finished in bfloat16."""
    rules = program.rules(call("_to_copy", real(12, 8).bfloat16(), dtype=torch.float32))
    assert (["P(sum)"], ["P(sum)"]) in rules


def test_gradients_can_be_reduced_behind_the_cast(program: Program) -> None:
    """jax#27496, pytorch#190626: gradients were reduced in bfloat16, and some mesh dims forgot the dtype. A plan says
    the dtype of every collective, and pins on the cast say where to reduce."""
    document = autopar.export(Mlp(autocast=True), (torch.ones(512, 64),))
    casts = {out["ref"] for out in document["outputs"] if out.get("of") in ("up.weight", "down.weight")}
    assert len(casts) == 2
    assert all("_to_copy" in key for key in casts)
    pins = {"inputs": {"x": ["S(0)"]}, "nodes": {key: ["P(sum)"] for key in casts}}
    plan = program.plan(document, "8", pins)
    for key in casts:
        (entry,) = (one for one in plan.redistributions if one.value == key)
        assert {step.dtype for step in entry.steps if step.kind != "slice"} == {"float32"}
        assert plan.nodes[key].inputs == (("P(sum)",),)


class GroupedAttention(nn.Module):
    def __init__(self, kv_heads: int) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(64, 64), nn.Linear(64, 2 * 8 * kv_heads)
        self.kv_heads = kv_heads

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).unflatten(-1, (8, 8)).transpose(1, 2)
        k, v = (one.unflatten(-1, (self.kv_heads, 8)).transpose(1, 2) for one in self.kv(x).chunk(2, -1))
        k, v = (one.repeat_interleave(8 // self.kv_heads, 1) for one in (k, v))
        return functional.scaled_dot_product_attention(q, k, v).square().mean()


def test_fewer_kv_heads_than_devices(program: Program) -> None:
    """torchtitan#2574, transformers#48307: two key-value heads on eight devices failed in the middle of the forward."""
    document = autopar.export(GroupedAttention(2), (torch.ones(2, 16, 64),))
    attention = next(node["key"] for node in document["nodes"] if "attention" in node["op"])
    plan = program.plan(document, "8", {"nodes": {attention: ["S(1)"]}})  # query heads are cut
    assert min(local_sizes(plan)) >= 1


@torch.library.custom_op("autopar_tests::opaque", mutates_args=())
def opaque(x: Tensor) -> Tensor:
    return x.sin()


@opaque.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


opaque.register_autograd(lambda ctx, grad: grad)


class Opaque(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = torch.ops.autopar_tests.opaque(x * self.weight)
        return out.sum()


def test_unknown_ops_are_replicated_with_a_warning(program: Program) -> None:
    """autoparallel#456: an op without a strategy stopped the planner."""
    done = program.search(autopar.export(Opaque(), (torch.ones(16, 8),)), "8")
    assert done.returncode == 0
    assert "autopar_tests.opaque.default" in done.stderr
    plan = autopar.load_plan(program.folder / "model.plan.json")
    assert plan.nodes["/f/opaque"].outputs == (("R",),)


def test_conflicts_are_named(program: Program) -> None:
    """autoparallel#475: a replicated parameter and a tight budget were called infeasible, no more."""
    document = autopar.export(Mlp(), (torch.ones(8, 64),))
    pins = {"parameters": {"*": ["R"]}, "memory_limit_bytes": 100_000}
    done = program.search(document, "8", pins)
    assert done.returncode == 4
    assert "(100000 bytes)" in done.stderr
    assert "without the pin" in done.stderr
    assert 'parameters["*"]' in done.stderr


def test_flat_groups_gather_at_once(program: Program) -> None:
    """autoparallel#459: S(0)S(0) was gathered in two steps."""
    document = autopar.export(Mlp(), (torch.ones(8, 64),))
    pins = {"parameters": {"*": ["S(0)", "S(0)"]}, "nodes": {"*/f/t": ["R", "R"]}}
    plan = program.plan(document, "2,4", pins)
    gathers = [one for one in plan.redistributions if one.value == "up.weight" and one.phase == "forward"]
    assert gathers
    assert all([step.mesh_dims for step in one.steps] == [(0, 1)] for one in gathers)
