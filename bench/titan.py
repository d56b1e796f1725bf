"""torchtitan's Llama 3 of December 2024 as its trainer runs it, for bench/steps.py; with Hugging Face's names.

Parameters are float32 and cast to bfloat16 before they are used, which FSDP does before it gathers them; so gradients
are float32 where they are reduced. Rotary embeddings are complex, keys and values are repeated for all query heads, and
the loss takes the logits in float32.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

VOCABULARY = 128256
HEAD = 128  # size of an attention head
KV_HEADS = 8
SEQUENCE = 8192


class Linear(nn.Linear):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype))


class Embedding(nn.Embedding):
    def forward(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, self.weight.to(torch.bfloat16))


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return wide.type_as(x) * self.weight.to(x.dtype)


def rotated(x: Tensor, rotation: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rotation).flatten(-2).type_as(x)


def repeated(x: Tensor, times: int) -> Tensor:
    return x[:, :, :, None].expand(-1, -1, -1, times, -1).flatten(2, 3)


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_proj = Linear(width, width)
        self.k_proj = Linear(width, KV_HEADS * HEAD)
        self.v_proj = Linear(width, KV_HEADS * HEAD)
        self.o_proj = Linear(width, width)

    def forward(self, x: Tensor, rotation: Tensor) -> Tensor:
        query, key, value = (layer(x).unflatten(-1, (-1, HEAD)) for layer in (self.q_proj, self.k_proj, self.v_proj))
        query, key = rotated(query, rotation), rotated(key, rotation)
        times = query.shape[2] // KV_HEADS
        key, value = repeated(key, times), repeated(value, times)
        heads = (heads.transpose(1, 2) for heads in (query, key, value))
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = Linear(width, inner)
        self.up_proj = Linear(width, inner)
        self.down_proj = Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(width)
        self.self_attn = Attention(width)
        self.post_attention_layernorm = RMSNorm(width)
        self.mlp = FeedForward(width, inner)

    def forward(self, x: Tensor, rotation: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rotation)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, width: int, inner: int, layers: int) -> None:
        super().__init__()
        self.embed_tokens = Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Layer(width, inner) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.register_buffer("rotation", torch.empty(SEQUENCE, 1, HEAD // 2, dtype=torch.complex64))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.rotation)
        return self.norm(x)


class Llama(nn.Module):
    def __init__(self, width: int, inner: int, layers: int) -> None:
        super().__init__()
        self.model = Decoder(width, inner, layers)
        self.lm_head = Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        logits = self.lm_head(self.model(tokens))
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))


def training_step(width: int, inner: int, layers: int, batch: int) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    with torch.device("meta"):
        tokens = torch.empty(batch, SEQUENCE, dtype=torch.int64)
        return Llama(width, inner, layers), (tokens, tokens.clone()), {}


def llama3_8b(batch: int) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    return training_step(4096, 14336, 32, batch)


def llama3_70b(batch: int) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    return training_step(8192, 28672, 80, batch)
