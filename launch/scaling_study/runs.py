"""What is run, each run in a folder of its own.

A folder runs/NAME is there whole or not at all: a run works in NAME.part, which becomes NAME when it has ended well,
else NAME.failed. That is all that a study knows of its past, so it can be stopped at any time and called again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaling_study import StudyError

LAUNCH = Path(__file__).resolve().parents[1]


def find_program(given: str | None) -> str:
    built = LAUNCH.parent / "build" / "release" / "autopar-search"
    path = shutil.which(given or (built if built.is_file() else "autopar-search"))
    if path is None:
        name = given or "autopar-search"
        raise StudyError(f"{name} is not there; build it with launch/build.sh, or give --program PATH")
    return os.path.abspath(path)


@dataclass(frozen=True)
class Run:
    folder: Path  # where it is when it has ended well
    ranks: int
    repeat: int
    work: str  # the value of the option that grows with the ranks; empty: the work is the same for all

    @property
    def part(self) -> Path:
        return self.folder.with_name(self.folder.name + ".part")

    @property
    def failed(self) -> Path:
        return self.folder.with_name(self.folder.name + ".failed")

    def is_finished(self) -> bool:
        return self.folder.is_dir()

    def prepare(self) -> None:
        shutil.rmtree(self.part, ignore_errors=True)
        self.part.mkdir(parents=True)

    def end(self, result: dict[str, Any]) -> None:
        """The result must name the exit code; without times of the ranks it is a failure, too."""
        is_good = result["exit_code"] == 0 and (self.part / "log" / "times.csv").is_file()
        (self.part / "result.json").write_text(json.dumps(result) + "\n")
        shutil.rmtree(self.failed, ignore_errors=True)
        self.part.rename(self.folder if is_good else self.failed)

    def start(self, study: Study) -> None:
        """Here, by mpirun."""
        self.prepare()
        command = [
            "mpirun",
            "-n",
            str(self.ranks),
            study.program,
            *study.command(self),
            "--threads",
            str(study.threads),
        ]
        print(f"{self.folder.name}: ", end="", flush=True)
        load = os.getloadavg()[0]
        begin = time.monotonic()
        with (self.part / "output").open("w") as output:
            code = wait_for(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output))
        wall_s = time.monotonic() - begin
        self.end({"exit_code": code, "wall_s": wall_s, "load_before": load})
        print(f"{wall_s:.2f} s" if self.is_finished() else f"failed with code {code}, see {self.failed / 'output'}")


@dataclass(frozen=True, kw_only=True)
class Study:
    out: Path
    arguments: list[str]  # of autopar-search
    ranks: list[int]
    repeats: int
    threads: int
    weak: tuple[str, list[str]] | None
    program: str
    is_slurm: bool = False

    def open(self) -> None:
        """Checks that the folder belongs to the same study, if it is there."""
        if not self.arguments or self.arguments[0].startswith("-"):
            raise StudyError("behind --: a model must come first, such as -- model.json.gz --devices 64 --cluster h100")
        if not Path(self.arguments[0]).is_file():
            raise StudyError(f"behind --: there is no file {self.arguments[0]}")
        own = {"-o", "--output", "--log-dir", "--threads", "--time-limit", "--resume"}
        if found := [word for word in self.arguments if word.split("=")[0] in own]:
            raise StudyError(
                f"behind --: {found[0]} does not go with a study, whose runs have files and threads of their own "
                "(--threads before the --) and search to the end; leave it out"
            )
        if self.weak and len(self.weak[1]) != len(self.ranks):
            raise StudyError(
                f"--weak {self.weak[0]} has {len(self.weak[1])} values for {len(self.ranks)} numbers of ranks; "
                "expected one for each"
            )
        # More ranks or repeats can join later.
        identity = {
            "arguments": self.arguments,
            "threads": self.threads,
            "weak": self.weak[0] if self.weak else None,
            "slurm": self.is_slurm,
        }
        path = self.out / "study.json"
        if path.exists():
            known = json.loads(path.read_text())
            if known != identity:
                raise StudyError(f"{path} is of another study: {known}, not {identity}; give another --out")
        else:
            self.out.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(identity, indent=1) + "\n")

    def runs(self) -> list[Run]:
        """Repeats outermost, so that load of the machine that comes and goes meets all numbers of ranks alike."""
        works = self.weak[1] if self.weak else [""] * len(self.ranks)
        found = []
        for repeat in range(1, self.repeats + 1):
            for ranks, work in zip(self.ranks, works, strict=True):
                size = f"{self.weak[0]}-{work.replace(',', 'x')}-" if self.weak else ""
                folder = (self.out / "runs" / f"{size}ranks-{ranks}-repeat-{repeat}").absolute()
                found.append(Run(folder, ranks, repeat, work))
        return found

    def command(self, run: Run) -> list[str]:
        """Arguments of autopar-search, but for the threads."""
        grown = [f"--{self.weak[0]}", run.work] if self.weak else []
        files = ["--log-dir", str(run.part / "log"), "-o", str(run.part / "plan.json")]
        return [*self.arguments, *grown, *files, "--reproducible", "--quiet"]

    def title(self) -> str:
        kind = f"Weak scaling ({self.weak[0]} grows)" if self.weak else "Strong scaling"
        words = " ".join([Path(self.arguments[0]).name, *self.arguments[1:]])
        return f"{kind}: {words}, {self.threads} thread{'s' * (self.threads > 1)} a rank"


def wait_for(process: subprocess.Popen[bytes]) -> int:
    """After Ctrl-C, too: mpirun gets it as well, and killed in the middle of ending its ranks it would leave some."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise


def write_whole(path: Path, text: str) -> None:
    """The whole file or nothing of it."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)
