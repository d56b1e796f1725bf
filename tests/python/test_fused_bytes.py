"""The bytes per element that costs/fusion.h is tested with (fusion_test.cpp) are those of Inductor's own kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor import config
from torch._inductor.graph import GraphLowering

TOKENS, HIDDEN, VOCABULARY = 512, 1024, 8000
HALF, FLOAT = torch.bfloat16, torch.float32


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    in_float = x.float()
    return (in_float * torch.rsqrt(in_float.pow(2).mean(-1, keepdim=True) + 1e-6)).to(HALF) * weight


def rms_norm_backward(
    gradient: torch.Tensor, weight: torch.Tensor, x: torch.Tensor, scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    in_float = x.float()
    of_weight = (gradient * (in_float * scale).to(HALF)).sum(0)
    of_scaled = (gradient * weight).float()
    of_scale = (of_scaled * in_float).sum(-1, keepdim=True)
    return of_weight, (of_scaled * scale - of_scale * scale.pow(3) / HIDDEN * in_float).to(HALF)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(gate) * up


def swiglu_backward(
    gradient: torch.Tensor, activated: torch.Tensor, up: torch.Tensor, gate: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    of_gate: torch.Tensor = torch.ops.aten.silu_backward(gradient * up, gate)
    return gradient * activated, of_gate


def cross_entropy_backward(logs: torch.Tensor, target: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    total = torch.tensor(float(TOKENS))
    of_logs = torch.ops.aten.nll_loss_backward(gradient, logs, target, None, 1, -100, total)
    of_logits: torch.Tensor = torch.ops.aten._log_softmax_backward_data(of_logs, logs, 1, FLOAT)
    return of_logits.to(HALF)


def tensor(*shape: int, dtype: torch.dtype = HALF) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


WHOLE = (TOKENS, HIDDEN)
CASES: list[tuple[Callable[..., Any], tuple[torch.Tensor, ...], int]] = [
    (rms_norm, (tensor(*WHOLE), tensor(HIDDEN)), 4),
    # One kernel for the gradient of x, and one for the weight's, which sums in the other direction.
    (rms_norm_backward, (tensor(*WHOLE), tensor(HIDDEN), tensor(*WHOLE), tensor(TOKENS, 1, dtype=FLOAT)), 10),
    (swiglu, (tensor(*WHOLE), tensor(*WHOLE)), 6),
    (swiglu_backward, (tensor(*WHOLE), tensor(*WHOLE), tensor(*WHOLE), tensor(*WHOLE)), 12),
    (
        cross_entropy_backward,
        (tensor(TOKENS, VOCABULARY, dtype=FLOAT), torch.zeros(TOKENS, dtype=torch.int64), tensor(dtype=FLOAT)),
        6,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "arguments", "expected"), CASES, ids=[case[0].__name__ for case in CASES])
def test_inductor_moves_what_is_priced(
    function: Callable[..., Any],
    arguments: tuple[torch.Tensor, ...],
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = []
    codegen = GraphLowering.codegen

    def counting_codegen(graph: GraphLowering) -> Any:
        code = codegen(graph)
        counted.append(graph.count_bytes()[0])
        return code

    monkeypatch.setattr(GraphLowering, "codegen", counting_codegen)
    torch._dynamo.reset()
    with config.patch(force_disable_caches=True), torch.no_grad():
        torch.compile(function, fullgraph=True)(*arguments)
    assert len(counted) == 1
    assert counted[0] / arguments[0].numel() == pytest.approx(expected, rel=0.02)
