"""A module that trains by a plan: everything in apply_checks.py, on four processes."""

from __future__ import annotations

import apply_checks
import pytest
from ranks import checks_of, run_checks
from rule_check import build_folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    if build_folder() is None:
        pytest.skip("autopar-search is not built; AUTOPAR_BUILD_DIR can name the build folder")
    return run_checks(4, apply_checks.__name__, tmp_path_factory.mktemp("apply"))


@pytest.mark.parametrize("name", checks_of(apply_checks.__name__))
def test(results: dict[str, str], name: str) -> None:
    assert not results[name], results[name]
