"""Runs checks on several processes of one gloo group. As a program: `ranks.py SIZE MODULE FOLDER`.

Every function of the module that is called `check_...` is a check: it gets the rank and a folder of its own, in the
order in which they stand. A check that raises on any rank ends the run, as its ranks may be anywhere.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import FileStore  # type: ignore[attr-defined]
from torch.multiprocessing.spawn import start_processes

TIMEOUT = timedelta(seconds=60)
Check = Callable[[int, Path], None]


def checks_of(module: str) -> dict[str, Check]:
    found = vars(importlib.import_module(module))
    return {name: function for name, function in found.items() if name.startswith("check_") and callable(function)}


def run_checks(size: int, module: str, folder: Path, seconds: float = 400) -> dict[str, str]:
    """What went wrong, by check: nothing, or a traceback."""
    command = [sys.executable, __file__, str(size), module, str(folder)]
    found_as_here = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with (folder / "log").open("w") as log:
        group = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=found_as_here)
        try:
            group.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(group.pid, signal.SIGKILL)
            group.wait()
    results = {}
    for name in checks_of(module):
        reports = [folder / f"{name}.{rank}" for rank in range(size)]
        texts = [report.read_text() for report in reports if report.exists()]
        failed = [text for text in texts if text]
        if len(texts) < size and not failed:
            failed = [f"did not end on all ranks\n{(folder / 'log').read_text()[-3000:]}"]
        results[name] = failed[0] if failed else ""
    return results


def run_rank(rank: int, size: int, module: str, folder: Path) -> None:
    torch.set_num_threads(1)
    store = FileStore(str(folder / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    for name, check in checks_of(module).items():
        own = folder / name.removeprefix("check_")
        own.mkdir(exist_ok=True)
        begin = time.monotonic()
        try:
            check(rank, own)
        except Exception:
            (folder / f"{name}.{rank}").write_text(f"rank {rank}: {traceback.format_exc()}")
            sys.exit(1)
        (folder / f"{name}.{rank}").write_text("")
        if rank == 0:
            print(json.dumps({name: round(time.monotonic() - begin, 2)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    importlib.import_module(sys.argv[2])  # once, before the ranks are forked
    start_processes(
        run_rank, args=(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])), nprocs=int(sys.argv[1]), start_method="fork"
    )
