"""Llama-3: grouped-query attention, 8 key-value heads for 32 query heads (64 in the 70B).

python -m autopar export examples/llama3.py:llama3_8b --mesh 8,4 --cluster h100
"""

from typing import Any

from hugging_face import Example, causal_lm
from transformers import LlamaConfig


def config(hidden_size: int, intermediate_size: int, num_hidden_layers: int, **more: Any) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=128256,
        hidden_size=hidden_size,
        intermediate_size=intermediate_size,
        num_hidden_layers=num_hidden_layers,
        num_key_value_heads=8,
        rms_norm_eps=1e-5,
        **more,
    )


def llama3_1b() -> Example:
    """The sizes of Llama-3.2 1B, which ties its output layer to its embedding."""
    small = config(2048, 8192, 16, num_attention_heads=32, max_position_embeddings=131072, tie_word_embeddings=True)
    return causal_lm(small, batch=4, sequence=2048)


def llama3_8b(batch: int = 16) -> Example:
    middle = config(4096, 14336, 32, num_attention_heads=32, max_position_embeddings=8192)
    return causal_lm(middle, batch=batch, sequence=8192)


def llama3_70b(batch: int = 64) -> Example:
    large = config(8192, 28672, 80, num_attention_heads=64, max_position_embeddings=8192)
    return causal_lm(large, batch=batch, sequence=8192)
