"""Runs checks on several processes of one gloo group. As a program: `ranks.py SIZE MODULE FOLDER CHECKS…`.

Every function of the module that is called `check_...` is a check: it gets the rank and a folder of its own, in the
order in which they stand. A check that raises on any rank ends the run, as its ranks may be anywhere.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from rule_check import same_imports
from torch.distributed import FileStore  # type: ignore[attr-defined]
from torch.multiprocessing.spawn import start_processes

TIMEOUT = timedelta(seconds=60)
STANDSTILL_S = 150
Check = Callable[[int, Path], None]


def checks_of(module: str) -> dict[str, Check]:
    found = vars(importlib.import_module(module))
    return {name: function for name, function in found.items() if name.startswith("check_") and callable(function)}


def run_checks(size: int, module: str, folder: Path) -> dict[str, str]:
    """What went wrong, by check: nothing, or a traceback. Each goes on in a new group behind a check that failed; one
    that stands still is tried once more, as gloo's threads sometimes do not come to an end."""
    results: dict[str, str] = {}
    pending = list(checks_of(module))
    stood_still = ""
    for attempt in range(2 * len(pending)):
        if not pending:
            break
        own = folder / str(attempt)
        own.mkdir()
        run_group(size, module, pending, own)
        for name in list(pending):
            texts = [report.read_text() for report in own.glob(f"{name}.*")]
            failed = [text for text in texts if text]
            if not failed and len(texts) < size:
                if name == stood_still:
                    results[name] = f"stood still twice\n{(own / 'log').read_text()[-3000:]}"
                    pending.remove(name)
                stood_still = name
                break
            results[name] = failed[0] if failed else ""
            pending.remove(name)
            if failed:
                break
    return results


def run_group(size: int, module: str, names: Sequence[str], folder: Path) -> None:
    """Until all checks are done, one has failed, or nothing happens for a while."""
    command = [sys.executable, __file__, str(size), module, str(folder), *names]
    with (folder / "log").open("w") as log:
        group = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=same_imports())
        num_reports, since = 0, time.monotonic()
        while group.poll() is None and time.monotonic() - since < STANDSTILL_S:
            time.sleep(0.2)
            found = len(list(folder.glob("check_*.*")))
            if found != num_reports:
                num_reports, since = found, time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group.pid, signal.SIGKILL)
        group.wait()


def run_rank(rank: int, size: int, module: str, folder: Path, names: Sequence[str]) -> None:
    torch.set_num_threads(1)
    store = FileStore(str(folder / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    checks = checks_of(module)
    for name in names:
        own = folder / name.removeprefix("check_")
        own.mkdir(exist_ok=True)
        begin = time.monotonic()
        try:
            checks[name](rank, own)
        except Exception:
            (folder / f"{name}.{rank}").write_text(f"rank {rank}: {traceback.format_exc()}")
            sys.exit(1)
        (folder / f"{name}.{rank}").write_text("")
        if rank == 0:
            print(json.dumps({name: round(time.monotonic() - begin, 2)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    num_ranks, checked, where, *chosen = sys.argv[1:]
    importlib.import_module(checked)  # once, before the ranks are forked
    start_processes(
        run_rank, args=(int(num_ranks), checked, Path(where), chosen), nprocs=int(num_ranks), start_method="fork"
    )
