"""Small calls of the ops that the attention, convolution, embedding, indexing, loss, normalization, random, scan and
sort rules cover. Sizes as in op_cases.py; gradients get what their forward op saved."""

from __future__ import annotations

from typing import Any

import torch
from op_cases import Call, call, positive, real, truth, words
from torch import Tensor

IGNORED = -100


def below(limit: int, *shape: int) -> Tensor:
    return torch.randint(0, limit, shape)


def distinct(*shape: int) -> Tensor:
    """Values without ties."""
    return torch.randperm(torch.Size(shape).numel()).reshape(shape).double()


def attention() -> list[Call]:
    calls = []
    kernel = "_scaled_dot_product_flash_attention_for_cpu"
    cases: list[tuple[int, int, bool, Tensor | None]] = [
        (6, 6, True, None),
        (6, 6, False, None),
        (12, 6, True, None),
        (12, 4, False, None),
        (6, 3, False, real(12, 12)),
        (6, 6, False, real(4, 1, 12, 12)),
        (12, 6, False, real(1, 12, 12, 12)),
        (6, 6, False, real(4, 6, 1, 12)),
    ]
    for heads, key_heads, causal, mask in cases:
        q, k, v = real(4, heads, 12, 8), real(4, key_heads, 12, 8), real(4, key_heads, 12, 8)
        forward = call(kernel, q, k, v, 0.0, causal, attn_mask=mask)
        out, statistics = forward.run()
        gradients = call(
            f"{kernel}_backward", real(*out.shape), q, k, v, out, statistics, 0.0, causal, attn_mask=mask, scale=0.3
        )
        calls += [forward, gradients]
    return calls


def cuda_attention() -> list[Call]:
    calls = []
    for heads, causal, bias in (
        (6, True, None),
        (12, False, None),
        (6, False, real(4, 6, 12, 12)),
        (12, False, real(1, 12, 1, 12)),
        (6, False, real(12, 12)),
        (6, True, real(12, 1)),
    ):
        qkv = (real(4, heads, 12, 8), real(4, 6, 12, 8), real(4, 6, 12, 8))
        grad = real(4, heads, 12, 8)
        name = "_scaled_dot_product_efficient_attention"
        forward = call(name, *qkv, bias, True, 0.0, causal)
        saved: Any = forward.run()
        mask = [True, True, True, bias is not None]
        calls += [forward, call(f"{name}_backward", grad, *qkv, bias, *saved, 0.0, mask, causal)]
        calls.append(call(f"{name}_backward", grad, *qkv, bias, *saved, 0.0, [True, False, True, False], causal))
        name = "_scaled_dot_product_cudnn_attention"
        forward = call(name, *qkv, bias, True, 0.0, causal)
        out, statistics, *_, seed, offset, _ = forward.run()
        saved = (out, statistics, seed, offset, bias, None, None, 12, 12)
        calls += [forward, call(f"{name}_backward", grad, *qkv, *saved, 0.0, causal)]
        if bias is not None:
            continue
        name = "_scaled_dot_product_flash_attention"
        forward = call(name, *qkv, 0.0, causal)
        out, statistics, *_, seed, offset, _ = forward.run()
        saved = (out, statistics, None, None, 12, 12)
        calls += [forward, call(f"{name}_backward", grad, *qkv, *saved, 0.0, causal, seed, offset, scale=None)]
    return calls


def normalization() -> list[Call]:
    calls = []
    x, weight, bias = real(6, 12, 4), real(4), real(4)
    for shape, w, b in (([4], weight, bias), ([12, 4], real(12, 4), None), ([4], None, None)):
        forward = call("native_layer_norm", x, shape, w, b, 1e-5)
        _, mean, rstd = forward.run()
        backward = ("native_layer_norm_backward", real(6, 12, 4), x, shape, mean, rstd, w, b)
        calls += [forward, call(*backward, [True, w is not None, b is not None])]
        forward = call("_fused_rms_norm", x, shape, w, 1e-5)
        calls.append(forward)
        if w is not None:
            rstd = forward.run()[1]
            calls += [
                call("_fused_rms_norm_backward", real(6, 12, 4), x, shape, rstd, w, [True, given])
                for given in (True, False)
            ]
    for training in (True, False):
        x, weight, bias, mean, var = real(6, 12, 4), real(12), real(12), real(12), positive(12)
        # Running statistics are updated in place, so each run gets the op without them or in evaluation.
        running = (None, None) if training else (mean, var)
        forward = call("native_batch_norm", x, weight, bias, *running, training, 0.1, 1e-5)
        _, saved_mean, saved_rstd = forward.run()
        saved = (saved_mean, saved_rstd) if training else (None, None)
        calls += [
            forward,
            call("native_batch_norm_backward", real(6, 12, 4), x, weight, *running, *saved, training, 1e-5, [True] * 3),
        ]
        if training:
            calls += [
                call("_native_batch_norm_legit.no_stats", x, weight, bias, True, 0.1, 1e-5),
                call("_native_batch_norm_legit_functional", x, weight, bias, mean, var, True, 0.1, 1e-5),
            ]
        else:
            calls.append(call("_native_batch_norm_legit_no_training", x, weight, bias, mean, var, 0.1, 1e-5))
    for channels, groups, w in ((12, 6, real(12)), (12, 4, None)):
        x = real(6, channels, 2, 3)
        forward = call("native_group_norm", x, w, w, 6, channels, 6, groups, 1e-5)
        _, mean, rstd = forward.run()
        gradients = [True, w is not None, w is not None]
        sizes = (6, channels, 6, groups)
        grad = real(6, channels, 2, 3)
        calls += [forward, call("native_group_norm_backward", grad, x, mean, rstd, w, *sizes, gradients)]
    return calls


def softmax() -> list[Call]:
    calls = []
    for dim in (-1, 1, 0):
        x, grad = real(6, 12, 7), real(6, 12, 7)
        for name in ("_softmax", "_log_softmax"):
            forward = call(name, x, dim, False)
            calls += [forward, call(f"{name}_backward_data", grad, forward.run()[0], dim, torch.float64)]
        calls.append(call("_safe_softmax", x, dim))
    return calls


def cross_entropy() -> list[Call]:
    calls = []
    shapes: list[tuple[int, ...]] = [(12, 6), (7,), (4, 6, 3, 6)]
    for shape in shapes:
        name = "nll_loss2d" if len(shape) == 4 else "nll_loss"
        classes = shape[1] if len(shape) > 1 else shape[0]
        target = below(classes, *(shape[:1] + shape[2:] if len(shape) > 1 else ()))
        if target.dim() > 0:
            target[0] = IGNORED  # unevenly spread over the pieces
            target[-1, ...] = classes - 1
        for weight in (None, positive(classes)):
            for reduction in (0, 1, 2):
                x = real(*shape)
                forward = call(f"{name}_forward", x, target, weight, reduction, IGNORED)
                loss, total = forward.run()
                backward = (f"{name}_backward", real(*loss.shape), x, target, weight, reduction, IGNORED, total)
                calls += [forward, call(*backward)]
    # An ignored class that is a class.
    x, target = real(12, 6), below(6, 12)
    forward = call("nll_loss_forward", x, target, None, 1, 2)
    calls += [forward, call("nll_loss_backward", real(), x, target, None, 1, 2, forward.run()[1])]
    for reduction in (0, 1, 2):
        x, y = real(12, 6), real(12, 6)
        grad = real(12, 6) if reduction == 0 else real()
        calls += [call("mse_loss", x, y, reduction), call("mse_loss_backward", grad, x, y, reduction)]
        for name in ("huber_loss", "smooth_l1_loss"):
            calls += [call(name, x, y, reduction, 0.5), call(f"{name}_backward", grad, x, y, reduction, 0.5)]
    return calls


def embedding() -> list[Call]:
    indices = below(13, 6, 4)
    calls = [
        call("embedding", real(13, 6), indices),
        call("embedding", real(12, 6), below(12, 12), 3),
        call("embedding", real(12, 7), torch.tensor(5)),
    ]
    for padding, scaled in ((-1, False), (3, False), (3, True)):
        calls.append(call("embedding_dense_backward", real(6, 4, 6), indices, 13, padding, scaled))
    return calls


def advanced_indexing() -> list[Call]:
    x = real(12, 6, 4)
    row, pair = below(12, 6), below(6, 12, 1)
    indices: list[list[Tensor | None]] = [
        [row],
        [None, below(6, 12)],
        [row, below(6, 6)],
        [below(12, 4, 6), below(6, 6)],
        [None, pair, below(4, 1, 6)],
        [row, None, below(4, 6)],
        [pair, None, below(4, 6)],
        [torch.tensor(3), None, below(4, 6)],
        [row, None, None],
    ]
    calls = []
    for index in indices:
        forward = call("index.Tensor", x, index)
        shape = list(forward.run()[0].shape)
        values = [real(*shape), real(), real(*[1, *shape[1:]])]
        calls += [forward, *(call("index_put", x, index, value, True) for value in values)]
    permutation = torch.randperm(12)[:6]
    calls += [
        call("_unsafe_index.Tensor", x, [row]),
        call("_unsafe_index_put", x, [row], real(6, 6, 4), True),
        call("index_put", x, [permutation], real(6, 6, 4)),
        call("index_put", x, [permutation, torch.randperm(6)], real(1, 4)),
        call("index_put", x, [None, torch.randperm(6)], real(12, 6, 1)),
        call("_index_put_impl", x, [permutation], real(6, 6, 4)),
        call("index.Tensor", x, [truth(12)]),
    ]
    return calls


def indexing() -> list[Call]:
    x = real(12, 6, 4)
    order = torch.argsort(torch.rand(12, 6, 4), 0)  # no place is written twice
    return [
        *(call("index_select", x, dim, below(size, 6)) for dim, size in ((0, 12), (-1, 4))),
        call("gather", x, 0, below(12, 12, 6, 4)),
        call("gather", x, 1, below(6, 6, 12, 4)),
        call("gather", x, -1, below(4, 12, 6, 1)),
        call("scatter.src", x, 0, order, real(12, 6, 4)),
        call("scatter.src", x, 0, order[:6], real(12, 6, 4)),
        call("scatter.value", x, 0, order, 0.0),
        call("scatter.value", x, 0, order[:6], 2.0),
        call("scatter_add", x, 0, below(12, 12, 6, 4), real(12, 6, 4)),
        call("scatter_add", x, 1, below(6, 12, 12, 4), real(12, 12, 4)),
        call("scatter_add", x, 1, below(6, 6, 6, 4), real(12, 12, 4)),
        *(
            call("scatter_reduce.two", x, 0, below(12, 12, 6, 4), real(12, 6, 4), how, include_self=own)
            for how in ("sum", "amax", "mean", "prod")
            for own in (True, False)
        ),
        call("index_add", x, 0, below(12, 6), real(6, 6, 4), alpha=2),
        call("index_add", x, -1, below(4, 6), real(12, 6, 6)),
        call("index_copy", x, 0, torch.randperm(12)[:6], real(6, 6, 4)),
        call("index_fill.int_Scalar", x, 1, below(6, 2), 0.0),
        call("index_fill.int_Scalar", x, 1, below(6, 2), 1.0),
        call("select_scatter", x, real(12, 4), -2, 3),
        call("slice_scatter", x, real(12, 3, 4), 1, 0, 3),
        call("slice_scatter", x, real(6, 6, 4), 0, 0, None, 2),
        call("one_hot", below(6, 12, 6), 6),
        call("bucketize.Tensor", x, distinct(6).sort().values),
        call("searchsorted.Tensor", distinct(6).sort().values, x),
        call("searchsorted.Tensor", real(12, 6).sort().values, real(12, 6)),
    ]


def scans_and_sorts() -> list[Call]:
    x, ranks = positive(12, 6, 4), distinct(12, 6, 4)
    return [
        *(call(name, x, dim) for name in words("cumsum cumprod logcumsumexp cummax cummin") for dim in (0, -1)),
        call("cumsum", x, 1, dtype=torch.int64),
        call("cumsum", torch.tensor(1.0), 0),
        call("sort", ranks),
        call("sort", ranks, 0, True),
        call("sort.stable", ranks, stable=True, dim=1),
        call("argsort", ranks, 0),
        call("argsort.stable", ranks, stable=True, dim=1),
        call("topk", ranks, 3),
        call("topk", ranks, 6, 0),
        *(call("kthvalue", ranks, 2, dim, keep) for dim in (0, 1, -1) for keep in (True, False)),
        call("histc", x, 4, 0, 2),
        call("histc", x, 4),
    ]


def convolution() -> list[Call]:
    calls = []
    cases: list[tuple[tuple[int, ...], tuple[int, ...], bool, int]] = [
        ((6, 12, 9), (6, 12, 3), False, 1),
        ((4, 12, 9), (12, 1, 4), False, 12),
        ((4, 12, 6), (24, 2, 3), False, 6),
        ((4, 6, 8, 8), (12, 6, 4, 4), False, 1),
        ((4, 6, 5), (6, 12, 3), True, 1),
        ((4, 12, 5), (12, 2, 3), True, 6),
    ]
    for shape, kernel, transposed, groups in cases:
        positions = len(shape) - 2
        channels = kernel[1] * groups if transposed else kernel[0]
        x, weight = real(*shape), real(*kernel)
        stride = [4, 4] if positions == 2 else [1]
        rest: tuple[Any, ...] = (stride, [0] * positions, [1] * positions, transposed, [0] * positions, groups)
        forward = call("convolution", x, weight, real(channels), *rest)
        grad = real(*forward.run()[0].shape)
        backward = ("convolution_backward", grad, x, weight)
        calls += [
            forward,
            call("convolution", x, weight, None, *rest),
            call(*backward, [channels], *rest, [True, True, True]),
            call(*backward, [0], *rest, [False, True, False]),
        ]
    return calls


def random() -> list[Call]:
    x = real(12, 6)
    chances = torch.rand(12, 6, dtype=torch.float64)
    return [
        call("native_dropout", x, 0.5, True),
        call("native_dropout_backward", x, truth(12, 6), 2.0),
        call("bernoulli", chances),
        call("bernoulli.p", x, 0.5),
        *(call(name, x) for name in words("rand_like randn_like uniform normal_functional")),
        *(call(name, [12, 6]) for name in ("rand", "randn")),
    ]


def layer_calls() -> list[Call]:
    torch.manual_seed(1)
    layers = (attention, cuda_attention, normalization, softmax, cross_entropy, embedding, convolution)
    return [one for family in (*layers, advanced_indexing, indexing, scans_and_sorts, random) for one in family()]
