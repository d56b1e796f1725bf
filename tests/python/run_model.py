"""Runs a model.json op by op on real tensors: what it says must be all that is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def run_model(document: Mapping[str, Any], inputs: Mapping[str, torch.Tensor]) -> dict[tuple[str, str], torch.Tensor]:
    """`inputs` by key. The outputs by role and the key they are of ("" for the loss)."""
    values: dict[str, list[Any]] = {}
    for entry in document["inputs"]:
        values[entry["key"]] = [_checked(inputs[entry["key"]], entry)]
    for node in document["nodes"]:
        args = [_value(arg, values) for arg in node["args"]]
        result = _op(node["op"])(*args, **{name: _value(arg, values) for name, arg in node.get("kwargs", {}).items()})
        results = list(result) if isinstance(result, tuple | list) else [result]
        assert len(results) == len(node["outputs"]), node["key"]
        for found, wanted in zip(results, node["outputs"], strict=True):
            if wanted is not None:
                _checked(found, wanted)
        values[node["key"]] = results
    return {(out["role"], out.get("of", "")): _value(_ref(out), values) for out in document["outputs"]}


def _op(name: str) -> Any:
    namespace, op, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), op), overload)


def _ref(output: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in output.items() if key in ("ref", "output")}


def _checked(tensor: torch.Tensor, wanted: Mapping[str, Any]) -> torch.Tensor:
    assert list(tensor.shape) == wanted["shape"]
    assert str(tensor.dtype) == f"torch.{wanted['dtype']}"
    return tensor


def _value(argument: Any, values: Mapping[str, list[Any]]) -> Any:
    if isinstance(argument, list):
        return [_value(item, values) for item in argument]
    if not isinstance(argument, dict):
        return argument
    if "ref" in argument:
        return values[argument["ref"]][argument.get("output", 0)]
    ((kind, name),) = argument.items()
    if kind == "float":
        return float(name)
    return torch.device(name) if kind == "device" else getattr(torch, name)
