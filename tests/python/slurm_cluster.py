"""A real Slurm of one node on this machine: munged, slurmctld and slurmd, private to a folder, without systemd.

As a program, `slurm_cluster.py COMMAND…` runs a command with such a Slurm and ends with its exit code.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "squeue", "sinfo")
NUM_CPUS = 64  # that the node claims to have
STARTUP_S = 20
SHUTDOWN_S = 30

CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0,bf_interval=2
ReturnToService=2
JobRequeue=1
KillWait=10
MinJobAge=600
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={num_cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class SlurmError(RuntimeError):
    """Slurm did not start or stop; the message holds what its daemons said."""


def missing_programs() -> list[str]:
    """What a Slurm of one's own lacks here; root's daemons lie outside other users' PATH."""
    return [program for program in PROGRAMS if find(program) is None]


def find(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def slurm() -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands talk to the cluster. At the end all its jobs are cancelled."""
    # The sockets' paths must be short, and tests' own folders are long.
    folder = Path(tempfile.mkdtemp(prefix="slurm", dir="/tmp"))
    daemons: list[subprocess.Popen[bytes]] = []
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    try:
        write_config(folder)
        start_daemons(folder, daemons)
        wait_until(lambda: node_state(environment) == "idle", STARTUP_S, lambda: f"no idle node\n{logs(folder)}")
        yield environment
        cancel_jobs(environment, folder)
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            try:
                daemon.wait(SHUTDOWN_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(folder, ignore_errors=True)


def write_config(folder: Path) -> None:
    controller_port, node_port = free_ports(2)
    host = socket.gethostname().split(".")[0]
    config = CONFIG.format(
        host=host,
        user=getpass.getuser(),
        folder=folder,
        controller_port=controller_port,
        node_port=node_port,
        num_cpus=NUM_CPUS,
    )
    (folder / "slurm.conf").write_text(config)
    # Without control groups: containers have none that may be written.
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def start_daemons(folder: Path, daemons: list[subprocess.Popen[bytes]]) -> None:
    """In the foreground, as children: what is stopped at the end is certainly what was started here."""
    munge_files = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munge.pid", "seed-file": "munge.seed"}
    munged = ["munged", "--foreground", "--force", *(f"--{key}={folder / name}" for key, name in munge_files.items())]
    config = ["-D", "-f", str(folder / "slurm.conf")]
    for command in (munged, ["slurmctld", *config], ["slurmd", *config]):
        path = find(command[0])
        if path is None:
            raise SlurmError(f"{command[0]} is not installed; apt-get install slurm-wlm munge")
        with (folder / f"{command[0]}.log").open("wb") as log:
            # Of a session of its own, so that Ctrl-C in a terminal leaves it to cancel the jobs.
            daemons.append(
                subprocess.Popen(
                    [path, *command[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            )
        if command is munged:
            wait_until((folder / "munge.sock").exists, STARTUP_S, lambda: f"munged does not answer\n{logs(folder)}")


def node_state(environment: dict[str, str]) -> str:
    command = ["sinfo", "--noheader", "--format=%T"]
    return subprocess.run(command, capture_output=True, text=True, env=environment).stdout.strip()


def cancel_jobs(environment: dict[str, str], folder: Path) -> None:
    """And waits for their end: slurmd would leave their processes behind."""
    subprocess.run(["scancel", f"--user={os.getuid()}"], env=environment, check=True)
    command = ["squeue", "--noheader", "--states=all", "--format=%T"]
    final = {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}

    def all_ended() -> bool:
        return set(subprocess.run(command, capture_output=True, text=True, env=environment).stdout.split()) <= final

    wait_until(all_ended, SHUTDOWN_S, lambda: f"jobs that do not end\n{logs(folder)}")


def logs(folder: Path) -> str:
    return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-2000:]}" for log in sorted(folder.glob("*.log")))


def wait_until(is_done: Callable[[], bool], limit_s: float, complaint: Callable[[], str]) -> None:
    end = time.monotonic() + limit_s
    while not is_done():
        if time.monotonic() > end:
            raise SlurmError(f"after {limit_s} s: {complaint()}")
        time.sleep(0.05)


if __name__ == "__main__":
    with slurm() as environment:
        code = subprocess.run(sys.argv[1:], env=environment).returncode
    sys.exit(code)
