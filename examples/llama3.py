"""Llama-3: grouped-query attention, 8 key-value heads for 32 query heads.

python -m autopar export examples/llama3.py:llama3_8b --mesh 8,4 --cluster h100
"""

from hugging_face import Example, causal_lm
from transformers import LlamaConfig


def llama3_1b() -> Example:
    """The sizes of Llama-3.2 1B, which ties its output layer to its embedding."""
    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )
    return causal_lm(config, batch=4, sequence=2048)


def llama3_8b(batch: int = 16) -> Example:
    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
    )
    return causal_lm(config, batch=batch, sequence=8192)


def llama3_70b(batch: int = 64) -> Example:
    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
    )
    return causal_lm(config, batch=batch, sequence=8192)
