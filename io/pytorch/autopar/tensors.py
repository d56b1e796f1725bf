"""Tensors as plan.json writes them: "bfloat16[16,8192]"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import PlanError
from .placements import Device

TENSOR = re.compile(r"(\w+)\[([0-9,]*)\]")


def tensor_text(meta: Mapping[str, Any]) -> str:
    """Dtype and shape as "bfloat16[16,8192]"."""
    return f"{meta['dtype']}[{','.join(map(str, meta['shape']))}]"


def parse_tensor(text: str | None, place: str) -> tuple[str, list[int]]:
    """Dtype and shape of "bfloat16[16,8192]"."""
    match = TENSOR.fullmatch(text or "")
    if not match:
        raise PlanError(f"{place}: want a tensor such as bfloat16[16,8192], found {text!r}")
    return match[1], [int(size) for size in match[2].split(",") if size]


def num_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Of dtypes by their names in PyTorch: "bfloat16", "bool", "float8_e4m3fn", "complex64"."""
    bits = re.search(r"[0-9]+", dtype)
    return (max(8, int(bits[0])) // 8 if bits else 1) * math.prod(shape)


def local_tensor(text: str, placements: Sequence[str], mesh: Sequence[int], place: str) -> tuple[str, list[int]]:
    """Dtype and shape of the first device's piece, which is the largest."""
    dtype, shape = parse_tensor(text, place)
    first = Device(mesh=tuple(mesh), coordinate=(0,) * len(mesh))
    return dtype, first.local_shape(shape, placements)
