"""What the examples of Hugging Face models share."""

from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig

Example = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def causal_lm(config: PretrainedConfig, batch: int, sequence: int) -> Example:
    """A language model in bfloat16 and a batch of tokens, both on the meta device: nothing is loaded or allocated."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        tokens = torch.empty(batch, sequence, dtype=torch.int64)
        # With labels the model computes the loss. A training step needs no cache of keys and values.
        return model, (), {"input_ids": tokens, "labels": tokens.clone(), "use_cache": False}
