"""Runs as job arrays of launch/submit, one array for each number of ranks."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from scaling_study import StudyError
from scaling_study.runs import LAUNCH, Run, Study, write_whole

FORGOTTEN = "FORGOTTEN"  # by Slurm, some minutes after the end
FINAL_STATES = set("BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT".split())


def collect(runs: list[Run]) -> list[Run]:
    """Takes in the runs whose jobs have ended. Returns those that had no job."""
    without_job = [run for run in runs if not (run.part / "job").is_file()]
    for run in runs:
        if run in without_job:
            continue
        job = ask((run.part / "job").read_text().strip())
        if (state := job.get("JobState", FORGOTTEN)) not in FINAL_STATES | {FORGOTTEN}:
            print(f"{run.folder.name}: {state.lower()}")
            continue
        # The times are written last, so that they tell, too.
        forgotten = "0:0" if (run.part / "log" / "times.csv").is_file() else "-1:0"
        code, signal = map(int, job.get("ExitCode", forgotten).split(":"))
        run.end({"exit_code": code or -signal, "wall_s": None, "load_before": None})
        print(f"{run.folder.name}: {'finished' if run.is_finished() else f'failed, see {run.failed}'}")
    return without_job


def ask(job: str) -> dict[str, str]:
    """What Slurm knows of the job; nothing if it has forgotten it."""
    result = subprocess.run(["scontrol", "show", "job", "--oneliner", job], capture_output=True, text=True)
    if result.returncode != 0 and "Invalid job id" not in result.stderr:
        raise StudyError(f"Slurm does not tell what became of job {job}: {result.stderr.strip()}; try again later")
    return dict(word.split("=", 1) for word in result.stdout.split() if "=" in word)


def submit(study: Study, runs: list[Run], options: list[str]) -> None:
    for ranks in sorted({run.ranks for run in runs}):
        array = [run for run in runs if run.ranks == ranks]
        for run in array:
            run.prepare()
        path = study.out / f"ranks-{ranks}.txt"
        write_whole(path, "".join(shlex.join(study.command(run)) + "\n" for run in array))
        job = submit_array(study, path, ranks, options)
        for line, run in enumerate(array, start=1):
            write_whole(run.part / "job", f"{job}_{line}\n")
        print(f"job {job}: {len(array)} runs on {ranks} ranks; call this again when they have ended")


def submit_array(study: Study, path: Path, ranks: int, options: list[str]) -> str:
    command = [str(LAUNCH / "submit"), "--ranks", str(ranks), "--threads", str(study.threads), "--array", str(path)]
    command += ["--program", study.program, f"--sbatch=--output={study.out.absolute()}/%x-%A_%a.log", *options]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise StudyError("launch/submit did not submit the runs; its message is above")
    return result.stdout.split()[1]
