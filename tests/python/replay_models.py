"""Training steps of small models of all kinds, for runs on a few processes: (model, args, kwargs) in float32.

One layer says all about a replay; some models have two for the sake of plans, which treat repeats as one.
Heads, hidden sizes and batches can be cut by 2, 4 and 8; vocabularies, intermediate sizes and sequences unevenly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from small_models import Case, Normed, Transformer
from torch import nn
from torch.nn import functional
from torch.utils import _pytree as pytree
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Mamba2Config,
    Mamba2ForCausalLM,
    MixtralConfig,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

BATCH, SEQUENCE, VOCABULARY, WIDTH = 8, 8, 50, 32


class Block(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.down(functional.gelu(self.up(self.norm(x))))
        return out


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(16, 44), Block(16, 44))

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(self.blocks(x), target)


def mlp() -> Case:
    return Mlp(), (torch.randn(BATCH, 5, 16), torch.randn(BATCH, 5, 16)), {}


def batch_norm() -> Case:
    """Its forward changes buffers."""
    return Normed(), ({"x": torch.randn(BATCH, 6), "y": torch.randn(BATCH, 5)},), {"power": 2}


def transformer() -> Case:
    """Fused projection of queries, keys and values; the tied output layer is a plain attribute."""
    tokens = torch.randint(VOCABULARY, (BATCH, SEQUENCE))
    return Transformer(num_layers=1), (tokens, tokens.roll(-1, 1)), {}


def llama(kv_heads: int = 4, tied: bool = False, layers: int = 1) -> Case:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=44,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=kv_heads,
        tie_word_embeddings=tied,
    )
    return LlamaForCausalLM(config), (), causal_batch()


def llama_tied() -> Case:
    """Its two heads of keys and values are fewer than the devices of some meshes."""
    return llama(kv_heads=2, tied=True, layers=2)


def gpt2() -> Case:
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=SEQUENCE,
        n_embd=WIDTH,
        n_layer=2,
        n_head=8,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        resid_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return GPT2LMHeadModel(config), (), causal_batch()


def mixtral() -> Case:
    config = MixtralConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=12,
        num_hidden_layers=1,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_local_experts=4,
        num_experts_per_tok=2,
    )
    # The grouped implementation is captured in bfloat16 only.
    return AutoModelForCausalLM.from_config(config, experts_implementation="batched_mm"), (), causal_batch()


def mamba2() -> Case:
    config = Mamba2Config(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=1,
        num_heads=8,
        head_dim=4,
        state_size=4,
        n_groups=2,
        chunk_size=4,
        tie_word_embeddings=False,
    )
    return Mamba2ForCausalLM(config), (), causal_batch()


def vit() -> Case:
    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=8,
        intermediate_size=44,
        image_size=8,
        patch_size=4,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    config.num_labels = 10
    images, labels = torch.randn(BATCH, 3, 8, 8), torch.randint(10, (BATCH,))
    return ViTForImageClassification(config), (), {"pixel_values": images, "labels": labels}


def t5() -> Case:
    """Encoder and decoder, each with a bias by relative position."""
    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=16,
        d_kv=2,
        d_ff=44,
        num_layers=1,
        num_heads=8,
        dropout_rate=0.0,
        relative_attention_num_buckets=8,
    )
    config.decoder_start_token_id = 0
    tokens, labels = torch.randint(VOCABULARY, (BATCH, SEQUENCE)), torch.randint(VOCABULARY, (BATCH, 6))
    return T5ForConditionalGeneration(config), (), {"input_ids": tokens, "labels": labels, "use_cache": False}


def causal_batch() -> dict[str, Any]:
    tokens = torch.randint(VOCABULARY, (BATCH, SEQUENCE))
    return {"input_ids": tokens, "labels": tokens.clone(), "use_cache": False}


FAMILIES: dict[str, Callable[[], Case]] = {
    one.__name__: one for one in (mlp, batch_norm, transformer, llama, llama_tied, gpt2, mixtral, mamba2, vit, t5)
}
# Of each precision the next better one, by which rounding is measured.
BETTER = {"float32": "float64", "bfloat16": "float32", "autocast": "float32"}


def run_under_autocast(model: nn.Module) -> None:
    """Weights stay in float32, matrix products are in bfloat16."""
    kind = type(model)

    @wraps(kind.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return kind.forward(self, *args, **kwargs)

    model.__class__ = type(kind.__name__, (kind,), {"forward": forward})


def make(family: str, precision: str) -> Case:
    """The same weights and batch in every process. Fresh models have small logits, gates that are all alike, norms of
    weight one and zero biases, which hide faults; so all weights are moved."""
    torch.manual_seed(0)
    model, args, kwargs = FAMILIES[family]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    if precision == "autocast":
        run_under_autocast(model)
        return model, args, kwargs
    dtype: torch.dtype = getattr(torch, precision)

    def converted(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    args, kwargs = pytree.tree_map_only(torch.Tensor, converted, (args, kwargs))
    return model.to(dtype), args, kwargs
