"""The ATen calls of a training step of small models of the usual families, with the tensors that they really got."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from autopar.local_programs import outputs
from op_cases import Call
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

# Sizes that 2 and 3 devices can share.
SIZES = {"hidden_size": 48, "intermediate_size": 36, "num_hidden_layers": 1, "vocab_size": 66}
HEADS = {"num_attention_heads": 12, "num_key_value_heads": 6, "head_dim": 4}
BATCH, LENGTH = 6, 12


class Recorder(TorchDispatchMode):
    """Keeps one call per op, shapes and literals; not those that write into their arguments."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: dict[str, Call] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves, layout = tree_flatten((args, kwargs))
        key = None
        if not func._schema.is_mutable and any(isinstance(leaf, Tensor) for leaf in leaves):
            seen = [(list(x.shape), x.stride(), x.dtype) if isinstance(x, Tensor) else x for x in leaves]
            key = f"{func} {seen} {layout}"
            if key not in self.calls:
                copy = tree_map_only(Tensor, lambda x: x.detach().clone(), (list(args), kwargs))
                self.calls[key] = Call(op=str(func), args=tuple(copy[0]), kwargs=copy[1])
        result = func(*args, **kwargs)
        # Ops that give numbers read by Python are no part of a captured graph.
        if key is not None and not all(isinstance(out, Tensor) or out is None for out in outputs(result)):
            self.calls.pop(key, None)
        return result


Step = tuple[nn.Module, dict[str, Any]]  # a model and the arguments of its call


def language_model(name: str, **config: Any) -> Callable[[], Step]:
    def step() -> Step:
        import transformers

        made = getattr(transformers, f"{name}Config")(**config)
        model = getattr(transformers, f"{name}{'LMHeadModel' if name == 'GPT2' else 'ForCausalLM'}")(made)
        # Grouped products of experts have no kernel for float64.
        model = model.float() if "num_experts_per_tok" in config else model.double()
        tokens = torch.randint(0, SIZES["vocab_size"], (BATCH, LENGTH))
        labels = tokens.clone()
        labels[0] = -100  # pieces of the batch count differently many rows
        return model, {"input_ids": tokens, "labels": labels, "use_cache": False}

    return step


def vision_model() -> Step:
    import transformers

    make_config: Any = transformers.ViTConfig
    config = make_config(**SIZES, num_attention_heads=6, image_size=12, patch_size=4, num_labels=6)
    model = transformers.ViTForImageClassification(config).double()
    pixels = torch.randn(BATCH, 3, 12, 12).double()
    return model, {"pixel_values": pixels, "labels": torch.randint(0, 6, (BATCH,))}


def convolutional_model() -> Step:
    model = nn.Sequential(
        nn.Conv2d(6, 12, 3, padding=1), nn.GroupNorm(6, 12), nn.SiLU(), nn.Conv2d(12, 12, 3, groups=12), nn.GELU()
    )
    return model.double(), {"input": torch.randn(BATCH, 6, 6, 6).double()}


MODELS: dict[str, Callable[[], Step]] = {
    "gpt2": language_model("GPT2", n_embd=48, n_layer=1, n_head=6, n_positions=12, vocab_size=66),
    "llama": language_model("Llama", **SIZES, **HEADS),
    "mixtral": language_model("Mixtral", **SIZES, **HEADS, num_local_experts=6, num_experts_per_tok=2),
    "qwen3moe": language_model(
        "Qwen3Moe", **SIZES, **HEADS, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24
    ),
    "mamba2": language_model(
        "Mamba2",
        hidden_size=48,
        num_hidden_layers=1,
        vocab_size=66,
        num_heads=12,
        head_dim=8,
        state_size=6,
        n_groups=6,
        chunk_size=6,
    ),
    "vit": vision_model,
    "convolutions": convolutional_model,
}


def recorded_calls(model: str) -> list[Call]:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    torch.manual_seed(2)
    module, arguments = MODELS[model]()
    module.train()
    with Recorder() as recorder:
        result = module(**arguments)
        (result.square().mean() if isinstance(result, Tensor) else result.loss).backward()
    return list(recorder.calls.values())
