"""A small Mamba-2: a state space model, computed by scans over chunks of the sequence.

python -m autopar export examples/mamba2.py:mamba2 --mesh 8,4 --cluster h100
"""

from hugging_face import Example, causal_lm
from transformers import Mamba2Config


def mamba2() -> Example:
    config = Mamba2Config(
        vocab_size=32000,
        hidden_size=1024,
        num_hidden_layers=4,
        num_heads=32,
        head_dim=64,
        state_size=64,
        n_groups=1,
        chunk_size=256,
        tie_word_embeddings=False,
    )
    return causal_lm(config, batch=4, sequence=2048)
