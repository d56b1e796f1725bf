"""The exports of the examples against captures of the same models that another exporter made."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import autopar
import jsonschema
import pytest
from convert_capture import convert, read_capture

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT.parent / "shared" / "graphs"
SCHEMA = json.loads((ROOT / "io/schema/model.schema.json").read_text())

pytestmark = pytest.mark.slow


def needed(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"no {path}")
    return path


def ops(document: dict[str, Any]) -> Counter[tuple[str, str, str]]:
    """How often each op occurs, by phase and with the tensors that it makes."""
    return Counter((node["phase"], node["op"], json.dumps(node["outputs"])) for node in document["nodes"])


@pytest.mark.parametrize(
    ("example", "capture", "tied"),
    [
        ("gpt2:gpt2", "gpt2", ["lm_head.weight"]),
        ("llama3:llama3_1b", "llama1b", ["lm_head.weight"]),
        ("llama3:llama3_8b", "llama8b", []),
        ("mixtral:mixtral", "mixtral", []),
        ("mamba2:mamba2", "mamba2", []),
        ("vit:vit", "vit", []),
    ],
)
def test_example_has_the_ops_of_its_capture(example: str, capture: str, tied: list[str]) -> None:
    pytest.importorskip("transformers")
    captured = convert(read_capture(needed(CAPTURES / f"{capture}.json.gz")))
    module, function = example.split(":")
    exported = autopar.export(*getattr(importlib.import_module(module), function)())
    jsonschema.validate(exported, SCHEMA)
    more, less = ops(exported) - ops(captured), ops(captured) - ops(exported)
    # The capture makes an input of each name of a tied parameter; the export adds the gradients up instead.
    assert [op for _, op, _ in more.elements()] == ["aten.add.Tensor"] * len(tied)
    assert not less
    aliases = [alias for entry in exported["inputs"] for alias in entry.get("aliases", [])]
    assert aliases == tied
    parameters = {entry["key"] for entry in exported["inputs"] if entry["role"] == "parameter"}
    gradients = [output["of"] for output in exported["outputs"] if output["role"] == "gradient"]
    assert len(gradients) == len(parameters)
    assert set(gradients) == parameters
    roles = [entry["role"] for entry in exported["inputs"] if entry["key"].startswith("input.")]
    assert roles == ["input", "target"]
    names = {entry["name"].removeprefix("m.") for entry in captured["inputs"] if entry["role"] == "parameter"}
    assert {entry["name"] for entry in exported["inputs"] if entry["role"] == "parameter"} == names - set(tied)


def test_a_large_model_takes_under_a_minute_and_a_gibibyte(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    code = (
        "import resource, sys; from autopar.__main__ import main; failed = main(sys.argv[1:]); "
        "used = resource.getrusage(resource.RUSAGE_SELF); "
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss); sys.exit(failed)"
    )
    command = ["export", str(ROOT / "examples/llama3.py:llama3_8b"), "-o", str(tmp_path / "model.json.gz")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "io/pytorch")}
    ran = subprocess.run(
        [sys.executable, "-c", code, *command], check=True, env=environment, capture_output=True, text=True
    )
    cpu_seconds, peak_kib = map(float, ran.stdout.splitlines()[-1].split())
    assert cpu_seconds < 60
    assert peak_kib < 2**20


@pytest.mark.parametrize("capture", sorted(path.name for path in CAPTURES.glob("*.json.gz")) or ["none.json.gz"])
def test_converted_captures_fit_the_schema(capture: str) -> None:
    jsonschema.validate(convert(read_capture(needed(CAPTURES / capture))), SCHEMA)
