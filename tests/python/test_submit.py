"""launch/submit writes job scripts that start the search with exactly the arguments it was given; no Slurm needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUBMIT = Path(__file__).resolve().parents[2] / "launch" / "submit"
# Quotes, blanks, what a shell would run or expand, and an option's look.
NASTY = (
    "two words",
    "it's",
    'say "so"',
    "$(touch broken)",
    "`touch broken`",
    "a;touch broken",
    "back\\slash",
    "*",
    "-x",
)
# In the place of srun and mpirun: shows what it would have started.
STUB = '#!/bin/bash\nprintf \'%s\\0\' "$(basename "$0")" "$@" >started\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a model in it, and programs that only look like those that are started."""
    (tmp_path / "bin").mkdir()
    for name in ("srun", "mpirun", "autopar-search"):
        (tmp_path / "bin" / name).write_text(STUB)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    (tmp_path / "model.json").write_text("{}")
    return tmp_path


def submit(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{folder}/bin"}
    command = [str(SUBMIT), "--program", "autopar-search", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def script(folder: Path, *arguments: str) -> str:
    result = submit(folder, "--dry-run", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def started(folder: Path, script: str, task: str = "") -> list[str]:
    """What the script starts: the launcher and its arguments."""
    slurm = {"SLURM_NTASKS": "4", "SLURM_CPUS_PER_TASK": "2", "SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": task}
    environment = {**os.environ, **slurm, "PATH": f"{folder}/bin:/usr/bin:/bin"}
    subprocess.run(["bash", "-c", script], cwd=folder, env=environment, check=True, capture_output=True)
    return (folder / "started").read_text().split("\0")[:-1]


@pytest.mark.parametrize("kind", [(), ("--requeue",)])
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_arguments_arrive_as_they_are(folder: Path, kind: tuple[str, ...], launcher: str) -> None:
    text = script(folder, *kind, "--launcher", "mpirun", "--", "model.json", *NASTY)
    if launcher == "srun":  # which the stub cannot list
        text = text.replace("launcher=mpirun", "launcher=srun")
    start = {"srun": ["srun", "--mpi=pmix", "--cpus-per-task=2"], "mpirun": ["mpirun", "-n", "4"]}[launcher]
    program = [str(folder / "bin" / "autopar-search"), "model.json", *NASTY, "--threads", "2"]
    assert started(folder, text) == [*start, *program, *(["--resume"] if kind else [])]
    assert not (folder / "broken").exists()


def test_file_names_of_all_kinds(folder: Path) -> None:
    for name in ("a b'c\"$(touch broken)\nd.json", "*.json", "-o.json"):
        (folder / name).write_text("{}")
        path = str(folder / name)
        assert started(folder, script(folder, "--launcher", "mpirun", "--", path))[4] == path
        assert not (folder / "broken").exists()


def test_lines_of_a_study_arrive_as_words(folder: Path) -> None:
    lines = [
        "# a comment, it's skipped",
        "model.json -o one.json --mesh 4",
        "",
        "  # another",
        """\tmodel.json "two words" 'say "so"' "it's" '' -o  two.json""",
        r"""model.json "back\slash" back\ slash '$(touch broken)' $HOME `touch` # * -o three.json """,
    ]
    (folder / "study $(touch broken).txt").write_text("\n".join(lines))
    text = script(folder, "--launcher", "mpirun", "--array", "study $(touch broken).txt")
    assert "#SBATCH --array=1-3\n" in text
    words = [started(folder, text, str(task))[4:-2] for task in (1, 2, 3)]
    assert words == [
        ["model.json", "-o", "one.json", "--mesh", "4"],
        ["model.json", "two words", 'say "so"', "it's", "", "-o", "two.json"],
        [
            "model.json",
            "back\\slash",
            "back slash",
            "$(touch broken)",
            "$HOME",
            "`touch`",
            "#",
            "*",
            "-o",
            "three.json",
        ],
    ]
    assert not (folder / "broken").exists()


def test_options_go_to_sbatch(folder: Path) -> None:
    text = script(
        folder,
        *("--ranks", "64", "--threads", "8", "--time", "1-12:00:00", "--partition", "long", "--account", "a.b"),
        *("--sbatch=--mem-per-cpu=4G", "--sbatch=--signal=B:USR1@300", "--sbatch=--exclusive", "--", "model.json"),
    )
    options = [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]
    assert sorted(options) == sorted(
        [
            *("--ntasks=64", "--cpus-per-task=8", "--time=1-12:00:00", "--partition=long", "--account=a.b"),
            *("--mem-per-cpu=4G", "--signal=B:USR1@300", "--exclusive", "--job-name=model", "--output=%x-%j.log"),
        ]
    )
    # Slurm stops reading options at the first command.
    lines = [line for line in text.splitlines() if line]
    assert all(line.startswith("#") for line in lines[: lines.index("#SBATCH --exclusive")])


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ((), "behind --: a model is missing"),
        (("--", "--mesh", "4", "model.json"), "behind --: the model must come first, found --mesh"),
        (("--", "gone.json"), "behind --: there is no file gone.json"),
        (("--", "model.json", "--threads", "4"), "give --threads to submit"),
        (("--", "model.json", "--threads=4"), "give --threads to submit"),
        (("model.json",), "unrecognized arguments: model.json"),
        (("--rank", "4", "--", "model.json"), "unrecognized arguments: --rank"),
        (("--ranks", "0", "--", "model.json"), 'argument --ranks: "0" is not a number from 1 on'),
        (("--time", "2h", "--", "model.json"), 'argument --time: "2h" is not a time; expected 90 (minutes), 2:00:00'),
        (("--partition", "a\nb", "--", "model.json"), "is not a name"),
        (("--sbatch=--comment=a b", "--", "model.json"), "without blanks and quotes"),
        (("--requeue", "--array", "s.txt"), "not allowed with argument"),
        (("--array", "gone.txt"), "gone.txt: No such file or directory; --array wants a file"),
        (("--array", "model.json", "--", "model.json"), "with --array, the arguments stand in its file"),
        (("--program", "gone", "--", "model.json"), "gone is not there; build it with launch/build.sh"),
        (("--launcher", "srun", "--", "model.json"), '"srun --mpi=list" names no pmix'),
        (("--", "model.json"), "there is no sbatch here"),
    ],
)
def test_faults_are_told(folder: Path, arguments: tuple[str, ...], fault: str) -> None:
    result = submit(folder, *arguments)
    assert result.returncode == 2
    assert fault in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("# nothing\n\n", "s.txt: no line holds arguments of a search"),
        ("model.json 'a\n", "s.txt:1: no closing quotation"),
        ("# x\nmodel.json\n\nmodel.json --mesh 4\n", "s.txt:4: writes"),
        ("model.json --mesh 4 -o x\nmodel.json --output=./x\n", "s.txt:2: writes"),
        ("gone.json\n", "s.txt:1: there is no file gone.json"),
        ("model.json\r\n", "s.txt: its lines end as on Windows"),
    ],
)
def test_faults_of_a_study_are_told_by_their_line(folder: Path, text: str, fault: str) -> None:
    (folder / "s.txt").write_bytes(text.encode())
    result = submit(folder, "--dry-run", "--array", "s.txt")
    assert (result.returncode, result.stdout) == (2, "")
    assert fault in result.stderr
