"""A vision transformer, ViT-B/16.

python -m autopar export examples/vit.py:vit --mesh 8,4 --cluster h100
"""

import torch
from hugging_face import Example
from transformers import AutoModelForImageClassification, ViTConfig


def vit() -> Example:
    config = ViTConfig(
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        image_size=224,
        patch_size=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    config.num_labels = 1000
    with torch.device("meta"):
        model = AutoModelForImageClassification.from_config(config, dtype=torch.bfloat16)
        images = torch.empty(4, 3, 224, 224, dtype=torch.bfloat16)
        labels = torch.empty(4, dtype=torch.int64)
    return model, (), {"pixel_values": images, "labels": labels}
