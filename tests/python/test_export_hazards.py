"""Where an export could go wrong in silence: lost gradients, switched-off autograd, files that the reader refuses."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import autopar
import pytest
import torch
from autopar.__main__ import main
from autopar.model_file import DTYPES, MAX_MESH_DIMS
from run_model import run_model
from small_models import Transformer, transformer
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

ROOT = Path(__file__).resolve().parents[2]
X = torch.arange(6.0).reshape(2, 3)


class Linear(nn.Module):
    """A linear layer and what `output` makes of it."""

    def __init__(self, output: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 3)
        self.more: Any = None
        self.output = output

    def forward(self, x: torch.Tensor) -> Any:
        return self.output(self, self.layer(x))


def total(_: Any, y: torch.Tensor) -> torch.Tensor:
    return y.sum()


def loss_and_gradients(model: nn.Module) -> dict[tuple[str, str], torch.Tensor]:
    document = autopar.export(model, (X,))
    values = {"tangent.loss": torch.ones(()), "input.x": X}
    return run_model(document, values | {name: p.detach() for name, p in model.named_parameters()})


@pytest.mark.parametrize(
    ("output", "loss"),
    [
        (lambda y: (y.mean(), y), None),
        (lambda y: (y.mean(), y), 0),
        (lambda y: (y.sum(), y.mean()), 1),
        (lambda y: {"y": y, "nll": y.mean()}, None),
        (lambda y: {"sum": y.sum(), "nll": y.mean()}, "nll"),
        (lambda y: {"sum": y.sum(), "loss": y.mean()}, None),
        (lambda y: SimpleNamespace(loss=y.mean(), sum=y.sum()), None),
        (lambda y: SimpleNamespace(nll=y.mean()), "nll"),
        (lambda y: y, lambda output: output.mean()),
    ],
)
def test_the_loss_is_found(output: Callable[[torch.Tensor], Any], loss: Any) -> None:
    document = autopar.export(Linear(lambda _, y: output(y)), (X,), loss=loss)
    roles = {key: [out for out in document["outputs"] if out["role"] == key] for key in ("loss", "gradient")}
    assert [out["ref"] for out in roles["loss"]] == ["/f/mean"]
    assert {out["of"] for out in roles["gradient"]} == {"layer.weight", "layer.bias"}


@pytest.mark.parametrize(
    ("loss", "fault"),
    [
        (None, "no loss in the model's output, a tuple"),
        (2, "loss=2: the model's output, a tuple, has no such part"),
        ("nll", "loss='nll': the model's output, a tuple, has no such part"),
    ],
)
def test_an_unclear_loss_is_refused(loss: Any, fault: str) -> None:
    with pytest.raises(autopar.ExportError, match=re.escape(fault)):
        autopar.export(Linear(lambda _, y: (y.sum(), y.mean())), (X,), loss=loss)


def test_a_parameter_that_is_also_an_attribute_keeps_its_whole_gradient() -> None:
    model = Linear(lambda self, y: (y @ self.tied).square().sum())
    model.__dict__["tied"] = model.layer.weight  # as code does that wants no second name in the state dict
    found = loss_and_gradients(model)
    assert model.__dict__["tied"] is model.layer.weight
    loss = model(X)
    loss.backward()
    assert found.keys() == {("loss", ""), ("gradient", "layer.weight"), ("gradient", "layer.bias")}
    torch.testing.assert_close(found["loss", ""], loss.detach())
    torch.testing.assert_close(found["gradient", "layer.weight"], model.layer.weight.grad)


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_in_lists_are_refused_as_their_gradients_would_be_lost(tied: bool) -> None:
    model = Linear(lambda self, y: (y @ self.more[0]).sum())
    model.more = [model.layer.weight if tied else nn.Parameter(torch.ones(3, 3))]
    with pytest.raises(autopar.ExportError, match="its gradient would be lost: register it"):
        autopar.export(model, (X,))


def test_a_meta_tensor_where_no_one_looks_is_named() -> None:
    model = Linear(lambda self, y: (y * self.more[0]).sum())
    model.more = [torch.ones(3, device="meta")]
    with pytest.raises(autopar.ExportError, match="meta device is neither argument, parameter, buffer nor attribute"):
        autopar.export(model, (X,))


@pytest.mark.parametrize("view", [lambda weight: weight, lambda weight: weight.view(())])
def test_a_loss_without_a_computation_is_refused(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    model = Linear(lambda self, _: view(self.more))
    model.more = nn.Parameter(torch.ones(()))
    with pytest.raises(autopar.ExportError, match="there is nothing to train"):
        autopar.export(model, (X,))


@pytest.mark.parametrize("surrounding", [torch.no_grad, torch.inference_mode])
def test_the_surroundings_do_not_matter(surrounding: Callable[[], Any]) -> None:
    model, args, _ = transformer()
    with surrounding():
        inside = autopar.export(model, args)
    assert inside["graph_hash"] == autopar.export(model, args)["graph_hash"]


def test_tensors_made_in_forward_are_where_the_model_is() -> None:
    model = Linear(lambda _, y: (y * torch.arange(3)).sum())
    with torch.device("meta"):
        document = autopar.export(model, (X,))
    (made,) = [node for node in document["nodes"] if node["op"].startswith("aten.arange")]
    assert made["kwargs"]["device"] == {"device": "cpu"}


def test_fake_models_are_exported() -> None:
    model, args, _ = transformer()
    with FakeTensorMode():
        fake, tokens = Transformer(), tuple(torch.empty(arg.shape, dtype=arg.dtype) for arg in args)
    assert autopar.export(fake, tokens)["graph_hash"] == autopar.export(model, args)["graph_hash"]


def test_one_tensor_may_be_two_arguments() -> None:
    model, (tokens, labels), _ = transformer()
    assert (
        autopar.export(model, (tokens, tokens))["graph_hash"] == autopar.export(model, (tokens, labels))["graph_hash"]
    )


def test_compiled_functions_are_captured_as_written() -> None:
    written = autopar.export(Linear(lambda _, y: y.relu().sum()), (X,))
    relu = torch.compile(torch.relu)
    compiled = Linear(lambda _, y: relu(y).sum())
    compiled.layer.compile()
    assert autopar.export(compiled, (X,))["graph_hash"] == written["graph_hash"]


def test_an_unrelated_module_leaves_keys_alone() -> None:
    def body(model: nn.Module) -> dict[str, Any]:
        tokens = transformer()[1]
        document = autopar.export(model, tokens)
        nodes = {node["key"]: (node["op"], node["args"], node["outputs"]) for node in document["nodes"]}
        return nodes | {entry["key"]: (entry["role"], entry["shape"]) for entry in document["inputs"]}

    class Before(Transformer):
        def __init__(self) -> None:
            super().__init__()
            self.prior = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 1))

        def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            prior = self.prior(torch.ones(4)).sum()
            return {"loss": super().forward(tokens, labels)["loss"] + prior}

    old, new = body(Transformer()), body(Before())
    changed = {key for key in old if old[key] != new[key]}
    assert not changed
    assert all(key.startswith(("prior", "/")) for key in new.keys() - old.keys())


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"mesh": [1] * 7}, "mesh: 7 dims; at most 6 are possible"),
        ({"mesh": {"d p": 2}}, "mesh: dim name 'd p'; want letters"),
        ({"mesh": {"2d": 2}}, "mesh: dim name '2d'; want letters"),
        ({"mesh": [True]}, "mesh: want sizes of at least 1"),
        ({"constraints": {"memory": float("nan")}}, "cluster and constraints should be what JSON can hold"),
        ({"cluster": {"links": {1, 2}}}, "cluster and constraints should be what JSON can hold"),
    ],
)
def test_what_the_reader_refuses_is_not_written(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(autopar.ExportError, match=re.escape(fault)):
        autopar.export(Linear(total), (X,), **options)


@pytest.mark.parametrize(
    "make",
    [lambda y: y * torch.zeros(3, dtype=torch.uint16).float(), lambda y: y + y.to(torch.float8_e4m3fnuz).float()],
)
def test_unknown_dtypes_are_refused(make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(autopar.ExportError, match=r"model\.json has no dtype "):
        autopar.export(Linear(lambda _, y: make(y).sum()), (X,))


def test_exporter_schema_and_reader_agree_on_limits() -> None:
    schema = json.loads((ROOT / "io/schema/model.schema.json").read_text())
    assert schema["$defs"]["dtype"]["enum"] == list(DTYPES)
    assert re.findall(r'DTypeFacts\{DType::\w+, "(\w+)"', (ROOT / "costs/dtype.cpp").read_text()) == list(DTYPES)
    assert schema["properties"]["mesh"]["properties"]["shape"]["maxItems"] == MAX_MESH_DIMS
    assert f"kMaxMeshDims = {MAX_MESH_DIMS};" in (ROOT / "costs/mesh.h").read_text()


@pytest.mark.parametrize("name", ["settings_of_a_model.py", "json.py"])
def test_a_file_may_have_dataclasses_and_the_name_of_a_package(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nimport torch\n"
        "@dataclass(kw_only=True)\nclass Config:\n    width: int = 3\n"
        "class Total(torch.nn.Linear):\n    def forward(self, x):\n        return super().forward(x).sum()\n"
        "def small():\n    return Total(Config().width, 1), (torch.ones(3),)\n"
    )
    before = sys.modules["json"]
    try:
        assert main(["export", f"{file}:small", "-o", str(tmp_path / "small.json")]) == 0
    finally:
        sys.path.remove(str(tmp_path))
    assert sys.modules["json"] is before
