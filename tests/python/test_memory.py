"""What lives during a step is what must live: everything in memory_checks.py, on two and on four processes."""

from __future__ import annotations

from pathlib import Path

import memory_checks
import pytest
from ranks import run_checks
from rule_check import needed_build_folder


@pytest.mark.parametrize("size", [2, 4])
def test_memory(size: int, tmp_path: Path) -> None:
    needed_build_folder()
    for name, failure in run_checks(size, memory_checks.__name__, tmp_path).items():
        assert not failure, f"{name}: {failure}"
