"""kill -9 of any rank at any moment: the job ends by itself and says why, files are whole, and --resume goes on to the
plan of a search that nobody disturbed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from rule_check import needed_build_folder

ROOT = Path(__file__).resolve().parents[2]
RANKS = 3
PLAN, CHECKPOINT, PREVIOUS = "plan.json", "plan.json.checkpoint", "plan.json.checkpoint.previous"
# Some seconds, in which 30 meshes are searched.
MODEL = str(ROOT / "tests" / "models" / "mlp.json")
SEARCH = [MODEL, "--devices", "16", "--cluster", "h100", "--threads", "1", "--reproducible", "--quiet", "-o", PLAN]
OLD_PLAN = b'{"a plan": "of before"}'
END_LIMIT_S = 10
# Of a rank that dies within some 30 ms of its start, mpirun of Open MPI 4.1.4 sometimes ends all others and then waits
# for ever for a lock of its own, in PMIx_server_finalize (docs/checkpoints.md).
FIRST_S = 0.4
SEARCH_LIMIT_S = 120


@dataclass(frozen=True)
class Kill:
    """Of a rank: so long after its start, or, if a file is named, as soon as rank 0 writes it after that."""

    rank: int
    seconds: float = 0
    file: str = ""

    def is_due(self, elapsed_s: float, folder: Path) -> bool:
        return elapsed_s >= self.seconds and (not self.file or bool(half_written(folder, self.file)))


def half_written(folder: Path, file: str) -> list[str]:
    """The temporary files from which `file` is made (io/file.h)."""
    return [name for name in os.listdir(folder) if re.fullmatch(rf"\.{re.escape(file)}\.\d+\.\d+\.tmp", name)]


def ranks_in(folder: Path) -> dict[int, int]:
    """The process of each rank that works in this folder."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = (process / "comm").read_text().startswith("autopar-search")
            if is_ours and (process / "cwd").resolve() == folder:
                rank = re.search(r"\0OMPI_COMM_WORLD_RANK=(\d+)\0", (process / "environ").read_text())
                found[int(rank[1]) if rank else -1] = int(process.name)
        except OSError:  # it has ended meanwhile
            continue
    return found


class Searches:
    """Searches in one folder after another, and what became of those that were killed."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program = program
        self.folder = folder
        self.counts: Counter[str] = Counter()
        self.losses: list[str] = []
        self.longest_end_s = 0.0
        begin = time.monotonic()
        self.undisturbed = self.search_to_the_end(self.new_folder(), RANKS)
        self.duration_s = time.monotonic() - begin

    def report(self) -> str:
        counts = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        return "\n".join(
            [
                f"{self.duration_s:.1f} s undisturbed; {counts}",
                f"longest time from a kill to the end of the job: {self.longest_end_s:.1f} s",
                f"{len(self.losses)} losses",
                *self.losses,
            ]
        )

    def try_kills(self, kills: list[Kill], interval_s: float, last_ranks: int) -> None:
        """One after the other, each in a search that goes on from what the one before it left; then a search to the
        end."""
        folder = self.new_folder()
        try:
            for kill in kills:
                self.kill_in_search(folder, kill, interval_s)
            assert self.search_to_the_end(folder, last_ranks) == self.undisturbed, "another plan"
        except (AssertionError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            self.losses.append(f"{folder}: {kills}, checkpoints every {interval_s} s, then {last_ranks} ranks: {error}")

    def new_folder(self) -> Path:
        folder = self.folder / str(len(os.listdir(self.folder)))
        folder.mkdir()
        (folder / PLAN).write_bytes(OLD_PLAN)
        return folder

    def start(self, folder: Path, ranks: int, *options: str) -> subprocess.Popen[str]:
        """mpirun itself, not a shell around it."""
        script = f'source "{ROOT}/launch/env.sh" && exec mpirun -n {ranks} "$@"'
        command = ["bash", "-c", script, "bash", str(self.program), *SEARCH, "--resume", *options]
        return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def search_to_the_end(self, folder: Path, ranks: int) -> bytes:
        had_checkpoint = has_checkpoint(folder)
        run = self.start(folder, ranks)
        said = said_until_end(run, SEARCH_LIMIT_S)
        assert run.returncode == 0, said
        assert ("going on from" if had_checkpoint else "there is no") in said, said
        assert "damaged" not in said, said
        assert os.listdir(folder) == [PLAN], f"left: {os.listdir(folder)}"
        return (folder / PLAN).read_bytes()

    def kill_in_search(self, folder: Path, kill: Kill, interval_s: float) -> None:
        run = self.start(folder, RANKS, "--checkpoint-interval", str(interval_s))
        begin = time.monotonic()
        process = None
        had_checkpoint = False
        while run.poll() is None:
            if process is None and kill.rank in (ranks := ranks_in(folder)):
                process = os.pidfd_open(ranks[kill.rank])
                begin = time.monotonic()
            had_checkpoint = has_checkpoint(folder)
            # At once, as a file is half written for a millisecond or so.
            if process is not None and kill.is_due(time.monotonic() - begin, folder):
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                break
        if process is not None:
            os.close(process)
        begin = time.monotonic()
        said = said_until_end(run, END_LIMIT_S)
        self.longest_end_s = max(self.longest_end_s, time.monotonic() - begin)

        assert not ranks_in(folder), "ranks are left"
        plan = (folder / PLAN).read_bytes()
        is_over = plan == self.undisturbed
        # It is the best so far if another rank than rank 0 was killed, as mpirun first sends SIGTERM to all.
        assert plan == OLD_PLAN or "mesh" in json.loads(plan)
        if run.returncode == 0:
            assert is_over, said
        else:
            assert "the job has been aborted" in said, said
        assert has_checkpoint(folder) or not had_checkpoint or is_over, "the checkpoint is lost"
        self.counts["kills"] += 1
        self.counts["of rank 0"] += kill.rank == 0
        self.counts["when the search was over"] += is_over
        # Not in its first moments, when mpirun does not know the rank yet.
        is_named = re.search(rf"process rank {kill.rank} .* exited on signal 9 \(Killed\)", said)
        self.counts["of which mpirun named the rank"] += bool(is_named)
        self.counts["with a checkpoint"] += has_checkpoint(folder)
        self.counts["with a file half written"] += bool(half_written(folder, PLAN) + half_written(folder, CHECKPOINT))


def has_checkpoint(folder: Path) -> bool:
    return (folder / CHECKPOINT).exists() or (folder / PREVIOUS).exists()


def said_until_end(run: subprocess.Popen[str], limit_s: float) -> str:
    """What it writes to stderr."""
    try:
        return run.communicate(timeout=limit_s)[1]
    except subprocess.TimeoutExpired:
        run.kill()
        raise


@pytest.fixture
def searches(tmp_path: Path) -> Searches:
    build = needed_build_folder()
    return Searches((build / "autopar-search").resolve(), tmp_path.resolve())


def test_some_kills(searches: Searches) -> None:
    duration_s = searches.duration_s
    searches.try_kills([Kill(rank=1, seconds=FIRST_S), Kill(rank=0, seconds=0.6 * duration_s)], 1, last_ranks=2)
    searches.try_kills([Kill(rank=0, file=CHECKPOINT), Kill(rank=2, seconds=0.4 * duration_s)], 0.1, last_ranks=1)
    searches.try_kills([Kill(rank=0, file=PLAN)], 1, last_ranks=3)
    assert not searches.losses, searches.report()
    assert searches.counts["with a checkpoint"] > 0, searches.report()
    assert searches.counts["of which mpirun named the rank"] > 0, searches.report()


@pytest.mark.slow
def test_kills_at_random(searches: Searches, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(7)
    while searches.counts["kills"] < 64 and len(searches.losses) < 5:
        kills = [
            Kill(
                rng.randrange(RANKS),
                rng.uniform(FIRST_S, searches.duration_s),
                rng.choice(["", "", "", CHECKPOINT, PLAN]),
            )
            for _ in range(rng.randint(1, 2))
        ]
        searches.try_kills(kills, rng.choice([0.1, 1]), rng.randint(1, RANKS))
    with capsys.disabled():
        print(f"\n{searches.report()}")
    assert not searches.losses
