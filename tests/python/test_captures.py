"""The rules know every op of the captured graphs that lie beside the repository, at their real sizes."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rule_check import dump_rules, rules_of

CAPTURES = sorted((Path(__file__).parents[3] / "shared" / "graphs").glob("*.json.gz"))
DTYPES = {"bf16": "bfloat16", "f32": "float32", "i64": "int64", "i32": "int32", "b1": "bool", "u8": "uint8"}


def meta(raw: dict[str, Any] | None) -> dict[str, Any] | None:
    if raw is None:
        return None
    return {"shape": raw["shape"], "stride": raw["stride"], "dtype": DTYPES.get(raw["dtype"], raw["dtype"])}


def argument(raw: Any) -> Any:
    """Captures name tensors by number, {"r": node, "o": output}, and constants by kind."""
    if isinstance(raw, list):
        return [argument(item) for item in raw]
    if not isinstance(raw, dict):
        return raw
    if "r" in raw:
        return {"ref": str(raw["r"]), "output": raw.get("o", 0)}
    if "dtype" in raw:
        return {"dtype": DTYPES.get(raw["dtype"], raw["dtype"])}
    return {"float": raw["f"]} if "f" in raw else {"device": "cpu"}


def model_of(capture: dict[str, Any]) -> dict[str, Any]:
    inputs = [
        {"key": str(one["id"]), "role": "input", "name": str(one["id"]), **(meta(one) or {})}
        for one in capture["inputs"]
    ]
    nodes = [
        {"key": str(one["id"]), "op": one["op"], "args": argument(one["args"]), "module": "", "phase": "forward"}
        | {"kwargs": {name: argument(value) for name, value in one.get("kw", {}).items()}}
        | {"outputs": [meta(output) for output in one["outputs"]]}
        for one in capture["nodes"]
    ]
    outputs = [{"ref": inputs[0]["key"], "role": "output"}]
    head = {"format": "autopar-model", "version": 1, "name": "capture", "producer": "test", "graph_hash": "sha256:0"}
    return head | {"inputs": inputs, "nodes": nodes, "outputs": outputs}


@pytest.mark.skipif(not CAPTURES, reason="no captures beside the repository")
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.split(".")[0])
def test_every_op_has_a_rule(path: Path, tmp_path: Path) -> None:
    program = dump_rules()
    if program is None:
        pytest.skip("dump_rules is not built; AUTOPAR_BUILD_DIR can name the build folder")
    model = model_of(json.loads(gzip.decompress(path.read_bytes())))
    rules = rules_of(program, model, tmp_path)
    unknown = Counter(node["op"] for node, listed in zip(model["nodes"], rules, strict=True) if listed is None)
    assert not unknown
    # Layers must be cuttable: what can only be replicated is counting and sorting.
    uncut = {node["op"] for node, listed in zip(model["nodes"], rules, strict=True) if listed and len(listed) == 1}
    assert uncut <= {f"aten.{name}" for name in ("arange.default", "tril.default", "scalar_tensor.default")} | {
        "aten.sort.default",
        "aten.cumsum.default",
    }
