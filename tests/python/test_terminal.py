"""What the search says on stderr while it runs: on a terminal, in a file, with --quiet, --verbose and NO_COLOR."""

from __future__ import annotations

import itertools
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from rule_check import needed_build_folder

ROOT = Path(__file__).resolve().parents[2]
MODEL = str(ROOT / "tests" / "models" / "transformer.json")
REWRITTEN = "\r\x1b[K"
ENOUGH_S = 120


def search(folder: Path, *options: str) -> list[str]:
    build = needed_build_folder()
    program = str(build / "autopar-search")
    return [program, MODEL, "--mesh", "4,2,2", "--cluster", "h100", *options, "-o", str(folder / "plan.json")]


def on_terminal(command: list[str], **environment: str) -> str:
    """Its stderr, which is a terminal; stdout is none."""
    reader, writer = pty.openpty()
    known = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=writer, env={**known, "TERM": "xterm", **environment}
    ) as process:
        os.close(writer)
        said = b""
        while True:
            try:
                piece = os.read(reader, 4096)
            except OSError:  # Linux: nobody has the other end open any more
                break
            if not piece:
                break
            said += piece
        process.wait(ENOUGH_S)
    os.close(reader)
    return said.decode()


def in_file(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=ENOUGH_S, check=True).stderr


def test_one_line_is_rewritten_on_a_terminal(tmp_path: Path) -> None:
    said = on_terminal(search(tmp_path))
    first, *lines = said.split(REWRITTEN)
    assert first == ""
    assert len(lines) > 1
    assert lines[-1] == "", "the line is taken away at the end"
    for line in lines[:-1]:
        assert re.match(r"\d+\.\d s  \S", line), line
        assert "\n" not in line
    assert any(re.search(r"step .*s, bound .*s, gap [\d.e+-]+%$", line) for line in lines)


def test_a_file_gets_no_rewritten_line(tmp_path: Path) -> None:
    assert in_file(search(tmp_path)) == ""  # a line every half minute, which this does not take


def test_verbose_has_a_line_for_what_is_new(tmp_path: Path) -> None:
    lines = in_file(search(tmp_path, "--verbose")).splitlines()
    assert len(lines) > 1
    for line in lines:
        assert re.match(r"autopar-search: info: \d+\.\d s  \S", line), line
    told = [line.split(" s  ", 1)[1] for line in lines]
    assert all(before != after for before, after in itertools.pairwise(told))


def test_quiet_says_nothing(tmp_path: Path) -> None:
    assert on_terminal(search(tmp_path, "--quiet")) == ""
    assert in_file(search(tmp_path, "--quiet")) == ""


@pytest.mark.parametrize(
    ("environment", "is_coloured"), [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)]
)
def test_colours_are_for_terminals_that_may_have_them(
    tmp_path: Path, environment: dict[str, str], is_coloured: bool
) -> None:
    command = [*search(tmp_path), "--no-such-option"]
    said = on_terminal(command, **environment)
    assert "error" in said
    assert ("\x1b[" in said) == is_coloured
    with (tmp_path / "said").open("w") as file:
        subprocess.run(command, stderr=file, timeout=ENOUGH_S, check=False)
    assert "\x1b[" not in (tmp_path / "said").read_text()
