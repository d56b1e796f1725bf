"""A small Mixtral: a mixture of 8 experts, 2 for each token.

python -m autopar export examples/mixtral.py:mixtral --mesh 8,4 --cluster h100
"""

from hugging_face import Example, causal_lm
from transformers import MixtralConfig


def mixtral() -> Example:
    config = MixtralConfig(
        vocab_size=32000,
        hidden_size=1024,
        intermediate_size=3584,
        num_hidden_layers=4,
        num_attention_heads=16,
        num_key_value_heads=4,
        num_local_experts=8,
        num_experts_per_tok=2,
    )
    return causal_lm(config, batch=4, sequence=2048)
