"""A mixture of experts whose tokens travel to their experts by all-to-all: a region of the author's own.

Routing and the shared expert are ordinary ops that autopar-search parallelises. The experts are a `local_map` region:
its author says how it may be placed along one mesh dim, and sends the tokens.

python -m autopar export examples/moe.py:moe_1b --mesh dp=8,ep=8 --cluster h100
"""

from __future__ import annotations

from typing import Any

import autopar
import torch
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_to_all_single, all_to_all_single_autograd
from torch.nn import functional

TOKENS, WEIGHTS, CHOICE, W_IN, W_OUT = range(5)  # arguments of the region

STRATEGIES = [
    # Expert parallel: tokens and experts are cut, tokens travel.
    autopar.Strategy(inputs=["S(0)"] * 5, outputs=["S(0)"], even=True),
    # Data parallel: tokens are cut, every device has all experts.
    autopar.Strategy(inputs=["S(0)", "S(0)", "S(0)", "R", "R"], outputs=["S(0)"]),
    # Tensor parallel: every expert is cut along its hidden dim.
    autopar.Strategy(inputs=["R", "R", "R", "S(2)", "S(1)"], outputs=["P(sum)"]),
    autopar.Strategy(inputs=["R"] * 5, outputs=["R"]),
]


def region_flops(tokens: Tensor, weights: Tensor, choice: Tensor, w_in: Tensor, w_out: Tensor) -> int:
    return 4 * choice.numel() * w_in.shape[1] * w_in.shape[2]


@autopar.local_map(strategies=STRATEGIES, outputs=lambda tokens, *_: torch.empty_like(tokens), flops=region_flops)
def experts(
    tokens: Tensor,  # [tokens, width]
    weights: Tensor,  # [tokens, k]
    choice: Tensor,  # [tokens, k]: numbers of experts
    w_in: Tensor,  # [experts, width, hidden]
    w_out: Tensor,  # [experts, hidden, width]
    site: autopar.RegionSite | None = None,
) -> Tensor:
    """Of each token, the weighted sum of what its experts make of it."""
    group = site.group(W_IN, 0) if site else None
    num_ranks = group.size() if group else 1
    num_local = w_in.shape[0]
    order = choice.flatten().argsort(stable=True)  # copies of tokens, by expert and so by rank
    source = order // choice.shape[1]
    rows = tokens[source]
    counts = choice.flatten().bincount(minlength=num_ranks * num_local)
    received = counts
    sent_splits = counts.view(num_ranks, num_local).sum(1).tolist()
    got_splits = sent_splits
    if group:
        received = all_to_all_single(counts, None, None, group)
        got_splits = received.view(num_ranks, num_local).sum(1).tolist()
        rows = all_to_all_single_autograd(rows, got_splits, sent_splits, group)
    # Rows have come rank by rank, each by expert.
    expert = torch.arange(num_local, device=tokens.device).repeat(num_ranks).repeat_interleave(received)
    by_expert = expert.argsort(stable=True)
    sizes = received.view(num_ranks, num_local).sum(0).tolist()
    parts = torch.split(rows[by_expert], sizes)
    made = torch.cat([functional.silu(part @ w_in[i]) @ w_out[i] for i, part in enumerate(parts)])
    rows = torch.zeros_like(made).index_copy(0, by_expert, made)
    if group:
        rows = all_to_all_single_autograd(rows, sent_splits, got_splits, group)
    scaled = rows * weights.flatten()[order].unsqueeze(1)
    return torch.zeros_like(tokens).index_add(0, source, scaled)


class MixtureOfExperts(nn.Module):
    def __init__(self, width: int, hidden: int, num_experts: int, top_k: int) -> None:
        super().__init__()
        self.top_k = top_k
        self.router = nn.Linear(width, num_experts, bias=False)
        self.w_in = nn.Parameter(torch.empty(num_experts, width, hidden))
        self.w_out = nn.Parameter(torch.empty(num_experts, hidden, width))
        self.shared = nn.Sequential(
            nn.Linear(width, hidden, bias=False), nn.SiLU(), nn.Linear(hidden, width, bias=False)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.w_in, self.w_out):
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        chances = self.router(tokens).softmax(-1)
        weights, choice = chances.topk(self.top_k)
        weights = weights / weights.sum(-1, keepdim=True)
        routed: Tensor = experts(tokens, weights, choice, self.w_in, self.w_out)
        out: Tensor = (routed + self.shared(tokens)).view(x.shape)
        return out


class Model(nn.Module):
    def __init__(self, vocab: int, width: int, hidden: int, num_experts: int, top_k: int, num_layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(num_layers))
        self.layers = nn.ModuleList(MixtureOfExperts(width, hidden, num_experts, top_k) for _ in range(num_layers))
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x))
        loss: Tensor = functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())
        return loss


def moe_tiny() -> tuple[nn.Module, tuple[Any, ...]]:
    """Small enough to run on a laptop."""
    torch.manual_seed(0)
    model = Model(vocab=64, width=16, hidden=32, num_experts=8, top_k=2, num_layers=2)
    tokens = torch.randint(64, (8, 6))
    return model, (tokens, tokens.roll(-1, 1))


def moe_1b() -> tuple[nn.Module, tuple[Any, ...]]:
    """64 experts in each of 16 layers; 8 of them per token."""
    with torch.device("meta"):
        model = Model(vocab=50304, width=2048, hidden=1024, num_experts=64, top_k=8, num_layers=16).bfloat16()
        tokens = torch.empty(64, 4096, dtype=torch.int64)
    return model, (tokens, tokens)
