"""Small models with a training step each, as (model, args, kwargs)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def loss_of(output: Any) -> torch.Tensor:
    """Of a model's output, as a caller would take it."""
    if isinstance(output, torch.Tensor):
        return output
    loss: torch.Tensor = output["loss"] if isinstance(output, dict) else output.loss
    return loss


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, 4)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x))
        out: torch.Tensor = x + self.down(functional.silu(self.up(self.norm_2(x))))
        return out


class Transformer(nn.Module):
    """Its output layer is tied to its embedding."""

    def __init__(self, num_layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layers = nn.ModuleList(Layer(16) for _ in range(num_layers))
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(x)
        return {"logits": logits, "loss": functional.cross_entropy(logits.flatten(0, 1), labels.flatten())}


class Normed(nn.Module):
    """Changes its buffers as it runs, and has constants that are no buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5)
        self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)
        self.scale = torch.linspace(1, 2, 5)
        self.offsets = [torch.linspace(3, 4, 5)]

    def forward(self, batch: dict[str, torch.Tensor], *, power: int) -> SimpleNamespace:
        out = self.norm(self.layer(batch["x"]) + self.offsets[0]) * self.frozen * self.scale * self.offsets[0]
        return SimpleNamespace(loss=(out - batch["y"]).pow(power).mean())


def transformer(num_layers: int = 2) -> Case:
    torch.manual_seed(0)
    tokens = torch.randint(50, (3, 8))
    return Transformer(num_layers), (tokens, tokens.roll(-1, 1)), {}


def normed() -> Case:
    torch.manual_seed(0)
    return Normed(), ({"x": torch.randn(4, 6), "y": torch.randn(4, 5)},), {"power": 2}


def small_mlp() -> Case:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0), nn.Softmax(0))
    return nn.Sequential(layers, Sum()), (torch.randn(3, 4),), {}


class Sum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.square().sum()
