"""GPT-2 (124 M parameters) without dropout; its output layer is tied to its embedding.

python -m autopar export examples/gpt2.py:gpt2 --mesh 8,4 --cluster h100
"""

from hugging_face import Example, causal_lm
from transformers import GPT2Config


def gpt2() -> Example:
    config = GPT2Config(
        vocab_size=50257,
        n_positions=1024,
        n_embd=768,
        n_layer=12,
        n_head=12,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        resid_pdrop=0.0,
    )
    return causal_lm(config, batch=4, sequence=1024)
