"""model.json (docs/model-json.md): keys of nodes, the hash of a graph, writing. Needs no PyTorch."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import ExportError
from .whole_file import write_whole

FORMAT = "autopar-model"
VERSION = 1
DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"),
    *("float32", "float64", "complex64", "complex128"),
)
MAX_MESH_DIMS = 6


class KeyMaker:
    """Gives every node a key that changes elsewhere in the model leave alone."""

    def __init__(self) -> None:
        self._used: Counter[str] = Counter()

    def key(self, module: str, phase: str, op: str) -> str:
        """`op` is an overload's full name, such as `aten.mm.default`."""
        base = f"{module}/{phase[0]}/{op.split('.')[1]}"
        repeat = self._used[base]
        self._used[base] += 1
        return f"{base}.{repeat}" if repeat else base


def refs_in(value: Any) -> Iterator[tuple[str, int]]:
    """Key and output of every tensor in an argument, in order."""
    if isinstance(value, dict):
        if "ref" in value:
            yield value["ref"], value.get("output", 0)
        else:
            for item in value.values():
                yield from refs_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from refs_in(item)


def canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def graph_hash(graph: Mapping[str, Any]) -> str:
    content = {part: graph[part] for part in ("inputs", "nodes", "outputs")}
    return "sha256:" + hashlib.sha256(canonical_json(content).encode()).hexdigest()


def make_document(name: str, producer: str, graph: Mapping[str, Any], extras: Mapping[str, Any]) -> dict[str, Any]:
    """`extras`: `mesh`, `cluster` and `constraints`, as far as they are wanted."""
    head = {"format": FORMAT, "version": VERSION, "name": name, "producer": producer, "graph_hash": graph_hash(graph)}
    return {**head, **extras, "inputs": graph["inputs"], "nodes": graph["nodes"], "outputs": graph["outputs"]}


def to_text(document: Mapping[str, Any]) -> str:
    """JSON with every input, node and output on a line of its own, so that `diff` shows what differs."""
    parts = []
    for key, value in document.items():
        if key in ("inputs", "nodes", "outputs") and value:
            lines = ",\n".join(json.dumps(item, ensure_ascii=False, allow_nan=False) for item in value)
            text = f"[\n{lines}\n]"
        else:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        parts.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write_document(document: Mapping[str, Any], path: Path) -> None:
    """Writes the whole file or none; gzipped if the name ends in `.gz`. The same document gives the same bytes."""
    data = to_text(document).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, compresslevel=6, mtime=0)
    try:
        write_whole(path, data)
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error
