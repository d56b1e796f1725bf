"""What autopar.export writes: enough to train from, reproducible, stable, and clear about what it cannot do."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import autopar
import jsonschema
import pytest
import torch
from autopar.__main__ import main
from autopar.model_file import graph_hash, write_document
from mlp import mlp
from run_model import run_model
from small_models import Case, Normed, Sum, Transformer, normed, small_mlp, transformer
from torch import nn
from torch.fx.traceback import get_current_meta

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "io/schema/model.schema.json").read_text())


def loss_of(output: Any) -> torch.Tensor:
    found = output["loss"] if isinstance(output, dict) else getattr(output, "loss", output)
    assert isinstance(found, torch.Tensor)
    return found


def leaves(args: Any) -> Iterator[torch.Tensor]:
    for arg in args.values() if isinstance(args, dict) else args:
        yield from [arg] if isinstance(arg, torch.Tensor) else leaves(arg)


@pytest.mark.parametrize("case", [transformer, normed, small_mlp])
def test_the_file_alone_gives_loss_gradients_and_new_buffers(case: Callable[[], Case]) -> None:
    model, args, kwargs = case()
    document = autopar.export(model, args, kwargs)
    jsonschema.validate(document, SCHEMA)
    state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    plain = iter(leaves(args))
    attributes = iter([model.scale, *model.offsets] if isinstance(model, Normed) else [])
    values = {}
    for entry in document["inputs"]:
        match entry["role"]:
            case "parameter" | "buffer":
                values[entry["key"]] = state[entry["name"]]
            case "tangent":
                values[entry["key"]] = torch.ones(())
            case "constant":
                values[entry["key"]] = next(attributes)
            case _:
                values[entry["key"]] = next(plain)
    found = run_model(document, values)

    loss = loss_of(model(*args, **kwargs))
    loss.backward()
    expected = {("loss", ""): loss.detach()}
    expected |= {("gradient", name): p.grad for name, p in model.named_parameters() if p.grad is not None}
    changed = {name for name, tensor in model.named_buffers() if not torch.equal(tensor, state[name])}
    expected |= {("mutation", name): model.get_buffer(name) for name in changed}
    assert found.keys() == expected.keys()
    for which, value in expected.items():
        torch.testing.assert_close(found[which], value, msg=str(which))


def test_model_and_arguments_are_as_before() -> None:
    model, args, _ = transformer()
    before = {name: (id(parameter), parameter.clone()) for name, parameter in model.named_parameters()}
    autopar.export(model, args)
    for name, parameter in model.named_parameters():
        assert id(parameter) == before[name][0]
        assert torch.equal(parameter, before[name][1])
    assert model.get_submodule("head").weight is model.get_submodule("embedding").weight
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.isfinite(loss_of(model(*args)))


def test_a_tied_parameter_is_one_input_with_one_gradient() -> None:
    document = autopar.export(*transformer())
    (embedding,) = [entry for entry in document["inputs"] if entry["shape"] == [50, 16]]
    assert embedding["key"] == "embedding.weight"
    assert embedding["aliases"] == ["head.weight"]
    gradients = [output["of"] for output in document["outputs"] if output["role"] == "gradient"]
    assert gradients.count("embedding.weight") == 1
    assert "head.weight" not in gradients


def test_roles_and_names_of_arguments() -> None:
    def named(document: dict[str, Any]) -> dict[str, str]:
        return {entry["key"]: entry["role"] for entry in document["inputs"] if entry["key"].startswith("input.")}

    assert named(autopar.export(*transformer())) == {"input.tokens": "input", "input.labels": "target"}
    assert named(autopar.export(*normed())) == {"input.batch.x": "input", "input.batch.y": "target"}


def test_backward_nodes_have_the_module_of_their_forward() -> None:
    nodes = autopar.export(*transformer())["nodes"]
    modules = {node["module"] for node in nodes if node["phase"] == "forward"}
    assert {node["module"] for node in nodes if node["phase"] == "backward"} <= modules
    forward = {node["seq"]: node["module"] for node in nodes if node["phase"] == "forward"}
    pairs = [(forward[node["seq"]], node["module"]) for node in nodes if node["phase"] == "backward" and "seq" in node]
    assert len(pairs) > 50
    assert all(one == other for one, other in pairs)
    # Sums of gradients run outside of any module, but each belongs to a layer.
    assert all(node["module"] for node in nodes if node["phase"] == "backward" and node["op"] == "aten.add.Tensor")


def test_a_change_elsewhere_leaves_keys_alone() -> None:
    short, long = (autopar.export(*transformer(num_layers)) for num_layers in (2, 3))

    def body(document: dict[str, Any]) -> dict[str, Any]:
        return {node["key"]: node["op"] for node in document["nodes"]}

    assert body(short).items() < body(long).items()
    assert all(key.startswith("layers.2") for key in body(long).keys() - body(short).keys())
    keys = [entry["key"] for entry in (*long["inputs"], *long["nodes"])]
    assert len(set(keys)) == len(keys)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("first.json.gz", "second.json.gz")]
    documents = [autopar.export(*transformer(), path=path) for path in paths]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert documents[0]["graph_hash"] == graph_hash(documents[0])
    assert graph_hash(autopar.export(*transformer(3))) != documents[0]["graph_hash"]
    # The bytes that `docs/model-json.md` says are hashed: the one model in the repository that was written by hand.
    tiny = json.loads((ROOT / "examples/tiny/model.json").read_text())
    assert graph_hash(tiny) == tiny["graph_hash"]


def test_models_on_the_meta_device_need_no_weights() -> None:
    model, args, _ = transformer()
    with torch.device("meta"):
        empty = Transformer()
    on_meta = autopar.export(empty, tuple(arg.to("meta") for arg in args))
    assert on_meta["graph_hash"] == autopar.export(model, args)["graph_hash"]


def test_mesh_cluster_and_constraints_are_written(tmp_path: Path) -> None:
    path = tmp_path / "mlp.json"
    constraints = {"parameters": {"blocks.*": ["R", "*"]}}
    autopar.export(*mlp(), path=path, name="two", mesh={"dp": 8, "tp": 4}, cluster="h100", constraints=constraints)
    document = json.loads(path.read_text())
    jsonschema.validate(document, SCHEMA)
    assert document["mesh"] == {"shape": [8, 4], "dim_names": ["dp", "tp"]}
    assert (document["name"], document["cluster"], document["constraints"]) == ("two", "h100", constraints)
    assert autopar.export(*mlp(), mesh=[8, 4])["mesh"] == {"shape": [8, 4]}


def test_loss_can_be_picked() -> None:
    model, args = nn.Linear(3, 3), (torch.randn(2, 3),)
    document = autopar.export(model, args, loss=lambda output: output.mean())
    assert document["nodes"][-1]["phase"] == "backward"
    assert [output["role"] for output in document["outputs"]] == ["loss", "gradient", "gradient"]


class DataDependent(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = super().forward(x).sum()
        return -out if out > 0 else out


class Positive(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = super().forward(x)
        return out[out > 0].sum()


X = torch.randn(2, 3)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: autopar.export(nn.Linear(3, 3), (X,)), "should be a scalar, but its shape is [2, 3]"),
        (lambda: autopar.export(nn.GRU(3, 3), (X,)), "no loss in the model's output, a tuple"),
        (lambda: autopar.export(Sum(), (X,)), "no parameter of the model requires a gradient"),
        (lambda: autopar.export(nn.Linear(3, 3), (X, X)), "the arguments do not fit Linear.forward: too many"),
        (lambda: autopar.export(nn.Sequential(DataDependent(3, 1)), (X,)), "in module '0': DataDependent"),
        (lambda: autopar.export(Positive(3, 1), (X,)), "shapes or branches depend on the values of tensors"),
        (lambda: autopar.export(nn.Linear(3, 1), (X.to_sparse(),)), "layout torch.sparse_coo"),
        (lambda: autopar.export(nn.Linear(3, 1), (X,), loss=lambda _: torch.ones(())), "does not depend on any"),
        (lambda: autopar.export(print, (X,)), "should be a torch.nn.Module"),  # type: ignore[arg-type]
        (lambda: autopar.export(nn.Linear(3, 1), X), "args should be a tuple"),  # type: ignore[arg-type]
        (lambda: autopar.export(nn.Linear(3, 1), (X,), mesh=(8, 0)), "mesh: want sizes of at least 1, got (8, 0)"),
        (lambda: autopar.export(nn.Linear(3, 1), (X,), path="/nowhere/model.json"), "there is no folder /nowhere"),
    ],
)
def test_faults_are_named(make: Callable[[], object], fault: str) -> None:
    with pytest.raises(autopar.ExportError) as error:
        make()
    assert fault in str(error.value)
    assert "custom" not in get_current_meta()


def test_a_failed_export_leaves_the_model_alone() -> None:
    model = nn.Sequential(DataDependent(3, 1))
    weight = model[0].weight
    with pytest.raises(autopar.ExportError):
        autopar.export(model, (X,))
    assert model[0].weight is weight
    assert model(X).dim() == 0
    assert not model[0]._forward_hooks
    # Sums of gradients of the next capture would get what is left behind in PyTorch.
    assert "custom" not in get_current_meta()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.json"
    path.write_text("old")

    def full(*_args: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(autopar.ExportError, match="No space left"):
        write_document(autopar.export(*small_mlp()), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.json.gz"
    example = str(ROOT / "examples/mlp.py")
    mesh = ["--mesh", "8,4", "--mesh-dims", "dp,tp", "--cluster", "h100"]
    assert main(["export", f"{example}:mlp", "-o", str(path), *mesh]) == 0
    document = json.loads(gzip.decompress(path.read_bytes()))
    jsonschema.validate(document, SCHEMA)
    assert (document["name"], document["mesh"]["dim_names"]) == ("mlp", ["dp", "tp"])
    assert "71 nodes, 8 parameters" in capsys.readouterr().out
    assert main(["export", "mlp:mlp", "-o", str(path), "--name", "again", "--mesh", "dp=8,tp=4"]) == 0
    again = json.loads(gzip.decompress(path.read_bytes()))
    assert (again["name"], again["graph_hash"], again["mesh"]) == ("again", document["graph_hash"], document["mesh"])


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["mlp"], "mlp: want MODULE:FUNCTION or FILE.py:FUNCTION"),
        (["mlp:nothing"], "mlp: has no function nothing"),
        (["no_such_module:f"], "no_such_module: cannot be loaded: No module named 'no_such_module'"),
        (["missing.py:f"], "missing.py: cannot be loaded: "),
        (["mlp:mlp", "--mesh", "eight"], "--mesh eight: want sizes such as 8,4"),
        (["mlp:mlp", "--mesh", "8,4", "--mesh-dims", "dp"], "--mesh 8,4: want one name for each of the 2 dims"),
        (["mlp:mlp", "--mesh-dims", "dp"], "--mesh-dims needs --mesh"),
        (["mlp:Block"], "mlp:Block: should return (model, args) or (model, args, kwargs)"),
    ],
)
def test_command_line_faults(arguments: list[str], fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", *arguments]) == 1
    assert capsys.readouterr().err.startswith(f"autopar: {fault}")


def test_import_needs_no_pytorch() -> None:
    code = "import sys, autopar, autopar.__main__; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "io/pytorch")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("case", [mlp, transformer, normed])
def test_exports_are_as_stored(case: Callable[[], Any]) -> None:
    """Keys and hashes hold across versions: plans and constraints refer to them. If a change is meant, write it anew by
    python -m autopar export tests/python/small_models.py:NAME -o tests/models/NAME.json (mlp: examples/mlp.py).
    """
    stored = json.loads((ROOT / f"tests/models/{case.__name__}.json").read_text())
    jsonschema.validate(stored, SCHEMA)
    assert stored["graph_hash"] == graph_hash(stored)
    exported = autopar.export(*case(), name=case.__name__)
    assert {**exported, "producer": ""} == {**stored, "producer": ""}
