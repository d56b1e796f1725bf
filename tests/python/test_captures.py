"""The rules know every op of the captured graphs that lie beside the repository, at their real sizes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from convert_capture import convert, read_capture
from rule_check import dump_rules, rules_of

CAPTURES = sorted((Path(__file__).parents[3] / "shared" / "graphs").glob("*.json.gz"))


@pytest.mark.skipif(not CAPTURES, reason="no captures beside the repository")
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.split(".")[0])
def test_every_op_has_a_rule(path: Path, tmp_path: Path) -> None:
    program = dump_rules()
    if program is None:
        pytest.skip("dump_rules is not built; AUTOPAR_BUILD_DIR can name the build folder")
    model = convert(read_capture(path))
    rules = rules_of(program, model, tmp_path)
    unknown = Counter(node["op"] for node, listed in zip(model["nodes"], rules, strict=True) if listed is None)
    assert not unknown
    # Layers must be cuttable: what can only be replicated is counting and sorting.
    uncut = {node["op"] for node, listed in zip(model["nodes"], rules, strict=True) if listed and len(listed) == 1}
    assert uncut <= {f"aten.{name}" for name in ("arange.default", "tril.default", "scalar_tensor.default")} | {
        "aten.sort.default",
        "aten.cumsum.default",
    }
