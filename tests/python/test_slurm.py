"""The job scripts of launch/slurm under a real Slurm on this machine (slurm_cluster.py)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rule_check import needed_build_folder
from slurm_cluster import missing_programs, slurm, wait_until

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "models"
LAUNCHERS = ("srun", "mpirun")
QUICK = [str(MODELS / "mlp.json"), "--mesh", "4", "--cluster", "h100", "--reproducible"]
# Some seconds, long enough to be disturbed; and minutes.
LONG = [str(MODELS / "mlp.json"), "--devices", "64", "--cluster", "h100", "--reproducible"]
ENDLESS = [str(MODELS / "transformer.json"), "--devices", "4096", "--cluster", "h100", "--reproducible"]
FINAL_STATES = {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL"}


class Cluster:
    """Submits from a folder and asks what became of it."""

    def __init__(self, environment: dict[str, str], program: Path) -> None:
        self.program = program
        self.environment = environment
        self.folder = Path()  # each test has its own

    def run(self, *command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return result

    def submit(self, *arguments: str, ranks: int = 2) -> Job:
        sizes = ("--ranks", str(ranks), "--threads", "1", "--time", "10")
        text = self.run(ROOT / "launch" / "submit", "--program", self.program, *sizes, *arguments).stdout
        found = dict(re.findall(r"^(job|log|plan) +(.*)$", text, re.M))
        return Job(self, found["job"], self.folder / found["log"], self.folder / found["plan"])

    def undisturbed(self, arguments: list[str]) -> bytes:
        """The plan that the search finds without Slurm."""
        plan = self.folder / "undisturbed.json"
        self.run(self.program, *arguments, "--quiet", "-o", plan)
        return plan.read_bytes()


class Job:
    def __init__(self, cluster: Cluster, number: str, log: Path, plan: Path) -> None:
        self.cluster = cluster
        self.number = number
        self.log = log
        self.plan = plan

    def show(self) -> dict[str, str]:
        text = self.cluster.run("scontrol", "show", "job", "--oneliner", self.number).stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait_for(self, *states: str, limit_s: float = 60) -> dict[str, str]:
        wait_until(lambda: self.show()["JobState"] in states, limit_s, self.text)
        return self.show()

    def end(self, limit_s: float = 60) -> dict[str, str]:
        return self.wait_for(*FINAL_STATES, limit_s=limit_s)

    def text(self) -> str:
        """What it has written so far."""
        return self.log.read_text() if self.log.exists() else ""

    def wait_until_it_searches(self) -> None:
        """Rank 0 takes signals by then."""
        wait_until(lambda: len(ranks_of(self.cluster.folder)) > 0, 20, self.text)
        time.sleep(2)

    def signal(self) -> None:
        """As Slurm does it when the time is nearly over."""
        self.cluster.run("scancel", "--batch", "--signal=USR1", self.number)


def ranks_of(folder: Path) -> list[int]:
    """Processes of autopar-search whose working folder this is."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().startswith("autopar-search") and (process / "cwd").resolve() == folder:
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    build = needed_build_folder()
    if (missing := missing_programs()) and "CI" not in os.environ:
        pytest.skip(f"{', '.join(missing)} not installed; launch/setup.sh --dev installs them")
    with slurm() as environment:
        # What launch/env.sh does for mpirun as root.
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        yield Cluster(environment | root, (build / "autopar-search").resolve())


@pytest.fixture
def cluster(shared_cluster: Cluster, tmp_path: Path) -> Cluster:
    shared_cluster.folder = tmp_path.resolve()
    return shared_cluster


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_job_ends_with_its_plan(cluster: Cluster, launcher: str) -> None:
    job = cluster.submit("--launcher", launcher, "--", *QUICK, "-o", "it's a plan.json", ranks=3)
    assert job.end()["ExitCode"] == "0:0", job.text()
    assert job.plan == cluster.folder / "it's a plan.json"
    assert job.plan.read_bytes() == cluster.undisturbed(QUICK)
    assert "3 ranks, 1 thread each" in job.text()


def test_a_start_without_launcher_is_one_rank(cluster: Cluster) -> None:
    """In a job script, and in a step of one process, as salloc's shell is one."""
    script = (
        f'#!/bin/bash\n"{cluster.program}" "$@" -o a.json && srun --mpi=none -n 1 "{cluster.program}" "$@" -o b.json'
    )
    (cluster.folder / "script").write_text(script)
    cluster.run("sbatch", "--wait", "--ntasks=2", "--output=log", "script", *QUICK)
    assert (cluster.folder / "log").read_text().count("(1 rank, ") == 2
    assert (cluster.folder / "a.json").read_bytes() == (cluster.folder / "b.json").read_bytes()


@pytest.mark.parametrize("mpi", ["none", "pmi2"])
def test_a_launcher_that_mpi_cannot_serve_is_refused(cluster: Cluster, mpi: str) -> None:
    command = (str(cluster.program), *QUICK, "-o", "plan.json")
    result = cluster.run("srun", f"--mpi={mpi}", "-n", "3", *command, check=False)
    assert result.returncode == 2
    (explained,) = [line for line in result.stderr.splitlines() if not line.startswith("srun: ")]
    assert re.match(rf"autopar-search: error: srun --mpi={mpi} started 3 processes, which .* cannot join", explained)
    assert "srun --mpi=pmix" in explained
    assert "mpirun" in explained
    assert not (cluster.folder / "plan.json").exists()


def test_a_study(cluster: Cluster) -> None:
    model, *options = QUICK
    study = [[model, *options, "-o", f"plan {i}.json"] for i in range(3)]
    study[1][study[1].index("4")] = "2,2"
    lines = ["# mesh 4, 2,2 and again 4", *(" ".join(f"'{word}'" for word in words) for words in study)]
    (cluster.folder / "study.txt").write_text("\n".join(lines))
    job = cluster.submit("--array", "study.txt")

    def is_over() -> bool:
        return not cluster.run("squeue", "--noheader", "--job", job.number).stdout.strip()

    wait_until(is_over, 60, lambda: "the study does not end")
    plans = [(cluster.folder / f"plan {i}.json").read_bytes() for i in range(3)]
    assert plans[0] == plans[2] == cluster.undisturbed(QUICK)
    assert json.loads(plans[1])["mesh"]["shape"] == [2, 2]
    assert [job.log.with_name(job.log.name.replace("LINE", str(i))).exists() for i in (1, 2, 3)] == 3 * [True]


@pytest.mark.parametrize(
    ("launcher", "kind"),
    [
        ("srun", ["--requeue"]),
        ("mpirun", []),
        pytest.param("srun", [], marks=pytest.mark.slow),
        pytest.param("mpirun", ["--requeue"], marks=pytest.mark.slow),
    ],
)
def test_scancel_ends_all_and_leaves_nothing_half(cluster: Cluster, launcher: str, kind: list[str]) -> None:
    job = cluster.submit("--launcher", launcher, *kind, "--", *ENDLESS, "-o", "plan.json", ranks=3)
    job.wait_until_it_searches()
    assert len(ranks_of(cluster.folder)) == 3
    cluster.run("scancel", job.number)
    begin = time.monotonic()
    wait_until(lambda: not ranks_of(cluster.folder), 10, lambda: f"ranks are left\n{job.text()}")
    assert job.end()["JobState"] == "CANCELLED"
    assert time.monotonic() - begin < 10
    # It is not put back, though the program leaves like one that should be.
    time.sleep(1)
    assert job.show()["JobState"] == "CANCELLED"
    assert {file.name for file in cluster.folder.iterdir()} <= {job.log.name, "plan.json", "plan.json.checkpoint"}
    if job.plan.exists():
        json.loads(job.plan.read_text())


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_killed_rank_ends_the_job(cluster: Cluster, launcher: str) -> None:
    """More moments without Slurm: test_kills.py."""
    job = cluster.submit("--launcher", launcher, "--", *ENDLESS, "-o", "plan.json", ranks=3)
    job.wait_until_it_searches()
    os.kill(ranks_of(cluster.folder)[-1], signal.SIGKILL)
    wait_until(lambda: not ranks_of(cluster.folder), 10, lambda: f"ranks are left\n{job.text()}")
    assert job.end(limit_s=10)["JobState"] == "FAILED", job.text()
    assert re.search(r"task \d: Killed|rank \d .* signal 9 \(Killed\)", job.text()), job.text()


def go_on(job: Job) -> None:
    """Slurm lets a job that was put back wait for two minutes."""
    job.wait_for("PENDING")
    # Within the second in which it was put back, slurmd takes a start for one of the job that was revoked.
    time.sleep(2)
    job.cluster.run("scontrol", "update", f"JobId={job.number}", "StartTime=now")
    job.wait_for("RUNNING", *FINAL_STATES)


@pytest.mark.parametrize(("launcher", "times"), [("srun", 1), pytest.param("mpirun", 2, marks=pytest.mark.slow)])
def test_a_job_that_is_put_back_resumes_to_the_same_plan(cluster: Cluster, launcher: str, times: int) -> None:
    job = cluster.submit("--launcher", launcher, "--requeue", "--", *LONG, "-o", "plan.json")
    checkpoint = cluster.folder / "plan.json.checkpoint"
    for _ in range(times):
        job.wait_until_it_searches()
        job.signal()
        job.wait_for("PENDING")
        assert checkpoint.exists(), job.text()
        go_on(job)
    end = job.end()
    assert (end["JobState"], end["ExitCode"], end["Restarts"]) == ("COMPLETED", "0:0", str(times)), job.text()
    assert job.plan.read_bytes() == cluster.undisturbed(LONG)
    assert not checkpoint.exists()
    assert job.text().count(f" of job {job.number}, ") == times + 1
    assert job.text().count("going on from plan.json.checkpoint") == times


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_time_limit_of_a_job(cluster: Cluster, launcher: str) -> None:
    """Slurm's own signal before the end: the best plan is written; with --requeue the job is put back."""
    signal = ("--time", "1", "--sbatch=--signal=B:USR1@20", "--launcher", launcher)
    once = cluster.submit(*signal, "--", *ENDLESS, "-o", "once.json")
    again = cluster.submit(*signal, "--requeue", "--", *ENDLESS, "-o", "again.json")
    assert once.end(limit_s=90)["ExitCode"] == "75:0", once.text()
    assert (cluster.folder / "once.json.checkpoint").exists()
    assert again.wait_for("PENDING", *FINAL_STATES, limit_s=90)["Restarts"] == "1", again.text()
    assert (cluster.folder / "again.json.checkpoint").exists()
