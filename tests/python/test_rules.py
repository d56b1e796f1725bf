"""Every strategy that a sharding rule lists, run on its pieces, must give what the op gives on the whole tensors."""

from __future__ import annotations

from itertools import product
from typing import Any

import attention_kernels
import pytest
import torch
from layer_cases import layer_calls
from op_cases import Call, all_calls, call, real, ruled_ops
from rule_check import check, dump_rules, model_of, rules_of
from shards import Split, equal

CALLS = [*all_calls(), *layer_calls()]
MESHES = ((2,), (3,), (4,), (6,), (2, 2), (2, 3))


@pytest.fixture(scope="session")
def rules(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Per call, its strategies."""
    program = dump_rules()
    if program is None:
        pytest.skip("dump_rules is not built; AUTOPAR_BUILD_DIR can name the build folder")
    return rules_of(program, model_of(CALLS), tmp_path_factory.mktemp("rules"))


def test_every_ruled_op_has_cases() -> None:
    assert ruled_ops() - {one.op for one in CALLS} == set()


@pytest.mark.parametrize("index", range(len(CALLS)), ids=[one.op for one in CALLS])
def test_pieces_make_the_whole(rules: list[Any], index: int) -> None:
    call = CALLS[index]
    expected = call.run()
    for mesh in MESHES:
        ran = [check(call, expected, strategies, mesh) for strategies in product(rules[index], repeat=len(mesh))]
        assert ran[0], "the replicated strategy runs on every mesh"


@pytest.mark.parametrize("heads", [6, 12])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_formulas_are_torchs(heads: int, causal: bool) -> None:
    query, key, value = real(2, heads, 5, 8), real(2, 6, 5, 8), real(2, 6, 5, 8)
    kernel = "_scaled_dot_product_flash_attention_for_cpu"
    out, statistics = call(kernel, query, key, value, 0.0, causal).run()
    assert all(map(equal, attention_kernels.forward(query, key, value, None, causal, None), (out, statistics)))
    grad = real(2, heads, 5, 8)
    backward = call(f"{kernel}_backward", grad, query, key, value, out, statistics, 0.0, causal).run()
    formula = attention_kernels.backward(grad, query, key, value, None, out, statistics, causal, None)
    assert all(map(equal, formula[:3], backward))


QUERY, KEY = real(2, 6, 12, 8), real(2, 6, 12, 8)
TARGET = torch.tensor([-100] * 6 + [1] * 6)


# Faults that planners have had or could have, as (op, inputs, outputs): the check must not let them pass.
@pytest.mark.parametrize(
    ("call", "inputs", "outputs"),
    [
        (call("view", real(12, 8), [16, 6]), ["S(1)"], ["S(0)"]),
        (call("view", real(12, 8), [16, 6]), ["S(1)"], ["S(1)"]),
        (call("add.Tensor", real(12, 6), 1.0), ["P(sum)"], ["P(sum)"]),
        (call("add.Tensor", real(12, 6), real(12, 6)), ["P(sum)", "R"], ["P(sum)"]),
        (call("gelu", real(12, 6)), ["P(sum)"], ["P(sum)"]),
        (call("sum.dim_IntList", real(12, 6), [0]), ["S(0)"], ["R"]),
        (call("triu", real(12, 12)), ["S(0)"], ["S(0)"]),
        (call("_softmax", real(12, 6), 1, False), ["S(1)"], ["S(1)"]),
        (call("nll_loss_forward", real(12, 6), TARGET, None, 1, -100), ["S(0)", "S(0)"], ["P(avg)", "P(sum)"]),
        (call("embedding", real(12, 6), torch.arange(12)), ["S(0)", "R"], ["P(sum)"]),
        (call("cumsum", real(12, 6), 0), ["S(0)"], ["S(0)"]),
        (call("topk", real(12, 6), 3), ["S(1)"], ["S(1)", "S(1)"]),
        (call("gather", real(12, 6), 0, torch.zeros(6, 6).long()), ["S(1)", "R"], ["S(1)"]),
        (call("index_put", real(12, 6), [torch.arange(6)], real(6, 6), True), ["R", "S(0)", "S(0)"], ["P(sum)"]),
        (
            call("_scaled_dot_product_flash_attention_for_cpu", QUERY, KEY, KEY, 0.0, True),
            ["S(2)", "R", "R"],
            ["S(2)", "S(2)"],
        ),
        (
            call("_scaled_dot_product_flash_attention_for_cpu", QUERY, KEY, KEY, 0.0, False),
            ["R", "S(2)", "S(2)"],
            ["P(sum)", "R"],
        ),
    ],
    ids=lambda value: value.op if isinstance(value, Call) else str(value),
)
def test_wrong_strategies_are_caught(call: Call, inputs: list[str], outputs: list[str]) -> None:
    before, after = ([Split(placement=one, units=0, even=False) for one in side] for side in (inputs, outputs))
    with pytest.raises((AssertionError, IndexError, RuntimeError)):
        check(call, call.run(), ((before, after, ""),), (2,))
