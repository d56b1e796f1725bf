"""The rules hold for what real models call: a training step is recorded and every distinct call is checked."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from recorded_calls import MODELS, recorded_calls
from rule_check import check, dump_rules, model_of, rules_of, tensors

pytest.importorskip("transformers")
MESHES = ((2,), (3,), (2, 2))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_rules_hold_for_all_calls_of_a_model(model: str, tmp_path: Path) -> None:
    program = dump_rules()
    if program is None:
        pytest.skip("dump_rules is not built; AUTOPAR_BUILD_DIR can name the build folder")
    calls = recorded_calls(model)
    faults = []
    for call, strategies in zip(calls, rules_of(program, model_of(calls), tmp_path), strict=True):
        if strategies is None:
            faults.append(f"no rule for {call.op}")
            continue
        expected = call.run()
        for mesh in MESHES:
            for choice in product(strategies, repeat=len(mesh)):
                try:
                    check(call, expected, choice, mesh)
                except (AssertionError, IndexError, RuntimeError) as error:
                    shapes = [list(tensor.shape) for tensor in tensors([call.args, call.kwargs])]
                    faults.append(f"{call.op} {shapes} on {mesh}: {error}")
    assert not faults, "\n".join(faults)
