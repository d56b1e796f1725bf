"""The CUDA kernels of scaled dot-product attention, by formula, for tests on the CPU. Dropout is not modelled; their
outputs that are no tensors are None, as in a model file."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

PREFIX = "_scaled_dot_product_"


def grouped(tensor: Tensor, heads: int) -> Tensor:
    """Keys or values, repeated for all query heads that share them."""
    return tensor.repeat_interleave(heads // tensor.shape[1], 1)


def ungrouped(gradient: Tensor, heads: int) -> Tensor:
    batch, all_heads, rows, width = gradient.shape
    return gradient.reshape(batch, heads, all_heads // heads, rows, width).sum(2)


def scores(query: Tensor, key: Tensor, bias: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    scale = scale or 1 / math.sqrt(query.shape[-1])
    result = query @ grouped(key, query.shape[1]).transpose(-1, -2) * scale
    if bias is not None:
        result = result + bias
    if causal:
        future = torch.ones(result.shape[-2:], dtype=torch.bool).triu(1)
        result = result.masked_fill(future, -math.inf)
    return result


def forward(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    weights = scores(query, key, bias, causal, scale)
    statistics = weights.logsumexp(-1)
    return (weights - statistics.unsqueeze(-1)).exp() @ grouped(value, query.shape[1]), statistics


def backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    out: Tensor,
    statistics: Tensor,
    causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """As in FlashAttention-2 (Dao 2023, algorithm 2), without tiles."""
    heads, key_heads = query.shape[1], key.shape[1]
    weights = (scores(query, key, bias, causal, scale) - statistics.unsqueeze(-1)).exp()
    of_weights = grad @ grouped(value, heads).transpose(-1, -2)
    of_scores = weights * (of_weights - (grad * out).sum(-1, keepdim=True))
    scale = scale or 1 / math.sqrt(query.shape[-1])
    of_bias = None
    if bias is not None:
        of_bias = of_scores.sum_to_size(bias.shape)
    return (
        of_scores @ grouped(key, heads) * scale,
        ungrouped(of_scores.transpose(-1, -2) @ query, key_heads) * scale,
        ungrouped(weights.transpose(-1, -2) @ grad, key_heads),
        of_bias,
    )


def seed() -> Tensor:
    return torch.zeros((), dtype=torch.int64)


def flash(a: dict[str, Any]) -> tuple[Any, ...]:
    out, statistics = forward(a["query"], a["key"], a["value"], None, a["is_causal"], a["scale"])
    return out, statistics, None, None, None, None, seed(), seed(), torch.zeros(0)


def efficient(a: dict[str, Any]) -> tuple[Any, ...]:
    out, statistics = forward(a["query"], a["key"], a["value"], a["attn_bias"], a["is_causal"], a["scale"])
    return out, statistics, seed(), seed()


def cudnn(a: dict[str, Any]) -> tuple[Any, ...]:
    out, statistics = forward(a["query"], a["key"], a["value"], a["attn_bias"], a["is_causal"], a["scale"])
    return out, statistics.unsqueeze(-1), None, None, None, None, seed(), seed(), torch.zeros(0)


def gradients(a: dict[str, Any]) -> tuple[Any, ...]:
    grad = a["grad_out"] if "grad_out" in a else a["grad_out_"]
    statistics = a["logsumexp"].reshape(a["query"].shape[:3])
    tensors = (grad, a["query"], a["key"], a["value"], a.get("attn_bias"), a["out"], statistics)
    found = backward(*tensors, a["is_causal"], a["scale"])
    if "grad_input_mask" not in a:
        return found[:3]
    return tuple(one if wanted else None for one, wanted in zip(found, a["grad_input_mask"], strict=True))


FORMULAS: dict[str, Callable[[dict[str, Any]], tuple[Any, ...]]] = {
    f"{PREFIX}cudnn_attention": cudnn,
    f"{PREFIX}cudnn_attention_backward": gradients,
    f"{PREFIX}efficient_attention": efficient,
    f"{PREFIX}efficient_attention_backward": gradients,
    f"{PREFIX}flash_attention": flash,
    f"{PREFIX}flash_attention_backward": gradients,
}
