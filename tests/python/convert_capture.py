"""Turns raw captures of joint graphs (graphs/*.json.gz of the data folder) into model.json.

python tests/python/convert_capture.py CAPTURE.json.gz MODEL.json.gz
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from autopar.again import repeat_views
from autopar.model_file import KeyMaker, make_document, write_document

DTYPES = {
    "b1": "bool",
    "u8": "uint8",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}
TARGET_INDEX = 1  # every captured model takes its inputs first and what the loss compares with second


def read_capture(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        raw: dict[str, Any] = json.load(file)
    return raw


def convert(raw: dict[str, Any]) -> dict[str, Any]:
    keys: dict[int, str] = {}
    inputs = [_input(entry, keys) for entry in raw["inputs"]]
    make_key = KeyMaker()
    nodes = [_node(entry, keys, make_key) for entry in raw["nodes"]]
    outputs = [_output(entry, keys) for entry in raw["outputs"] if entry["ref"] is not None]
    graph = {"inputs": inputs, "nodes": repeat_views(nodes, outputs), "outputs": outputs}
    return make_document(raw["meta"]["model"], f"raw capture, torch {raw['meta']['torch']}", graph, {})


def _input(entry: dict[str, Any], keys: dict[int, str]) -> dict[str, Any]:
    match entry["role"]:
        case "param" | "buffer":
            name = key = entry["fqn"]
            role = "parameter" if entry["role"] == "param" else "buffer"
        case "plain":
            name = f"args.{entry['idx']}"
            key, role = f"input.{name}", "target" if entry["idx"] == TARGET_INDEX else "input"
        case "tangent":
            key, role, name = "tangent.loss", "tangent", "loss"
        case other:
            raise ValueError(f"unknown role {other!r}")
    keys[entry["id"]] = key
    return {"key": key, "role": role, "name": name, **_tensor(entry)}


def _node(entry: dict[str, Any], keys: dict[int, str], make_key: KeyMaker) -> dict[str, Any]:
    module = entry.get("mod") or ""
    phase = "backward" if entry.get("ph") == "b" else "forward"
    key = keys[entry["id"]] = make_key.key(module, phase, entry["op"])
    node = {"key": key, "op": entry["op"], "args": [_argument(argument, keys) for argument in entry["args"]]}
    if entry.get("kw"):
        node["kwargs"] = {name: _argument(argument, keys) for name, argument in entry["kw"].items()}
    node["outputs"] = [None if output is None else _tensor(output) for output in entry["outputs"]]
    node |= {"module": module, "phase": phase}
    if entry.get("seq") is not None:
        node["seq"] = entry["seq"]
    return node


def _output(entry: dict[str, Any], keys: dict[int, str]) -> dict[str, Any]:
    output: dict[str, Any] = _argument(entry["ref"], keys)
    if entry["role"] == "grad":
        return {**output, "role": "gradient", "of": entry["of"]}
    return {**output, "role": "loss"}


def _tensor(entry: dict[str, Any]) -> dict[str, Any]:
    return {"shape": entry["shape"], "stride": entry["stride"], "dtype": _dtype(entry["dtype"])}


def _dtype(name: str) -> str:
    return DTYPES.get(name, name)


def _argument(argument: Any, keys: dict[int, str]) -> Any:
    match argument:
        case list():
            return [_argument(item, keys) for item in argument]
        case {"r": source}:
            output = argument.get("o", 0)
            return {"ref": keys[source], "output": output} if output else {"ref": keys[source]}
        case {"dtype": name}:
            return {"dtype": _dtype(name)}
        case {"f": number}:
            return {"float": number}
        case {"k": str(constant)} if "format" in constant:
            return {"memory_format": constant.removeprefix("torch.")}
        case {"k": str(constant)} if "strided" in constant:
            return {"layout": "strided"}
        case {"k": str(constant)}:
            return {"device": constant}
        case dict():
            raise ValueError(f"unknown argument {argument!r}")
    return argument


if __name__ == "__main__":
    write_document(convert(read_capture(Path(sys.argv[1]))), Path(sys.argv[2]))
