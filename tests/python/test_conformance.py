"""The table of rules beside DTensor's is what is true now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dtensor_rules
import pytest
from rule_check import build_folder, same_imports


@pytest.mark.slow
def test_the_table_is_up_to_date(tmp_path: Path) -> None:
    if build_folder() is None:
        pytest.skip("dump_rules is not built; AUTOPAR_BUILD_DIR can name the build folder")
    written = tmp_path / "table.md"
    subprocess.run([sys.executable, dtensor_rules.__file__, str(written)], check=True, timeout=900, env=same_imports())
    assert written.read_text() == dtensor_rules.DOCUMENT.read_text()
    assert "| lacking | 0 |" in written.read_text()
