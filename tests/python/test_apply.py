"""A module that trains by a plan: everything in the modules below, on four processes."""

from __future__ import annotations

import apply_checks
import overlap_checks
import pytest
import region_checks
from ranks import checks_of, run_checks
from rule_check import needed_build_folder

MODULES = (apply_checks.__name__, region_checks.__name__, overlap_checks.__name__)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    needed_build_folder()
    return {module: run_checks(4, module, tmp_path_factory.mktemp(module)) for module in MODULES}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in MODULES for name in checks_of(module)])
def test(results: dict[str, dict[str, str]], module: str, name: str) -> None:
    assert not results[module][name], results[module][name]
