"""From one recorded run to a projection on other numbers of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaling_study import StudyError
from scaling_study.pool import Machine, Task, simulate
from scaling_study.table import read_csv


@dataclass(frozen=True)
class Record:
    name: str
    ranks: int
    total_s: float  # of rank 0
    serial_s: float  # of that, outside of rounds of tasks
    rounds: list[list[Task]]
    broadcast_bytes: float  # what rank 0 sent besides tasks, to each that it tells itself
    has_sizes: bool  # of messages

    @property
    def ranks_text(self) -> str:
        return f"{self.ranks} rank{'s' * (self.ranks > 1)}"

    @property
    def critical_path_s(self) -> float:
        """What no number of ranks can be quicker than: a round lasts as long as its longest task."""
        return self.serial_s + sum(max(task.seconds for task in tasks) for tasks in self.rounds)


def read_record(folder: Path) -> Record:
    try:
        ranks = [{key: float(value) for key, value in row.items()} for row in read_csv(folder / "times.csv")]
        lines = [
            (int(row["round"]), int(row["rank"]), float(row["start_s"]), task_of(row))
            for row in read_csv(folder / "tasks.csv")
        ]
        total_s, own_bytes = ranks[0]["total_s"], ranks[0]["bytes"]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StudyError(
            f"{folder}: its tables times.csv and tasks.csv cannot be read ({error!r}); expected what "
            "autopar-search --log-dir of this version wrote"
        ) from None
    if not lines:
        raise StudyError(f"{folder / 'tasks.csv'}: the run had no tasks to share; record a larger search")
    seconds_in_rounds = 0.0
    rounds: dict[int, list[Task]] = {}
    for number in sorted({line[0] for line in lines}):
        own = [line[1:] for line in lines if line[0] == number]
        rounds[number] = [task for _, _, task in own]
        seconds_in_rounds += length_of_round(own)
    remote = [task for tasks in rounds.values() for task in tasks if task.sent > 0]
    to_others = own_bytes - sum(task.sent for task in remote)
    hops = (len(ranks) - 1).bit_length()
    return Record(
        name=folder.parent.name + "/" + folder.name if folder.name == "log" else folder.name,
        ranks=len(ranks),
        total_s=total_s,
        serial_s=max(total_s - seconds_in_rounds, 0.0),
        rounds=[with_sizes(tasks, remote) for tasks in rounds.values()],
        broadcast_bytes=max(to_others / hops, 0.0) if hops else 0.0,
        has_sizes=bool(remote),
    )


def task_of(row: dict[str, str]) -> Task:
    return Task(float(row["seconds"]), float(row["bytes_sent"]), float(row["bytes_received"]))


def length_of_round(tasks: list[tuple[int, float, Task]]) -> float:
    """A task that was handed out early began when its rank had done the one before it."""
    ends: dict[int, float] = {}
    for rank, start_s, task in sorted(tasks, key=lambda line: line[1]):
        ends[rank] = max(ends.get(rank, 0.0), start_s) + task.seconds
    return max(ends.values()) - min(start_s for _, start_s, _ in tasks)


def with_sizes(tasks: list[Task], remote: list[Task]) -> list[Task]:
    """Rank 0's own tasks were no messages; on another rank they would be as large as others of their round."""
    known = [task for task in tasks if task.sent > 0] or remote
    if not known:
        return tasks
    sent = sum(task.sent for task in known) / len(known)
    received = sum(task.received for task in known) / len(known)
    return [task if task.sent > 0 else Task(task.seconds, sent, received) for task in tasks]


def project(record: Record, ranks: int, machine: Machine) -> dict[str, Any]:
    times = [simulate(tasks, ranks, machine) for tasks in record.rounds]
    rounds_s = sum(each.seconds for each in times)
    tasks_s = sum(task.seconds for tasks in record.rounds for task in tasks)
    # Before the search all ranks hear that there is one, and its files; after it rank 0 takes in what each did.
    last = (1 << (ranks - 1).bit_length()) - 1
    ends_s = 2 * machine.broadcast_s(last, 0) + machine.broadcast_s(last, record.broadcast_bytes)
    ends_s += (ranks - 1) * machine.handle_s(0)
    one_s = machine.start_s(1) + record.serial_s + tasks_s
    wall_s = machine.start_s(ranks) + record.serial_s + ends_s + rounds_s
    return {
        "kind": "projection",
        "from": record.name,
        "ranks": ranks,
        "wall_s": wall_s,
        "start_up_s": machine.start_s(ranks),
        "serial_s": record.serial_s,
        "begin_and_end_s": ends_s,
        "rounds_s": rounds_s,
        "critical_path_s": record.critical_path_s,
        "speed_up": one_s / wall_s,
        "most_speed_up": one_s / (machine.start_s(1) + record.critical_path_s),
        "efficiency": one_s / wall_s / ranks,
        "idle_share": 1 - (record.serial_s + tasks_s) / (ranks * (wall_s - machine.start_s(ranks))),
        "rank_0_message_share": sum(each.message_thread_s for each in times) / rounds_s,
        "messages": sum(each.messages for each in times),
    }


def summary(record: Record, rows: list[dict[str, Any]]) -> str:
    tasks = [task for tasks in record.rounds for task in tasks]
    lines = [
        f"{record.name}: a run on {record.ranks_text} of {record.total_s:.2f} s, "
        f"{len(tasks)} tasks in {len(record.rounds)} rounds, the longest {max(task.seconds for task in tasks):.2f} s",
        f"outside of rounds {record.serial_s:.2f} s; critical path {record.critical_path_s:.2f} s, "
        f"so that no number of ranks is more than {rows[0]['most_speed_up']:.2f} times as fast",
    ]
    if not record.has_sizes:
        lines.append("sizes of messages are not known: a run on one rank sends none, and they are taken as empty")
    lines.append("projection\n ranks    time  speed-up  efficiency  idle  rank 0's messages")
    for row in rows:
        lines.append(
            f"{row['ranks']:6} {row['wall_s']:6.2f} s {row['speed_up']:8.2f} {row['efficiency']:10.1%} "
            f"{row['idle_share']:6.1%} {row['rank_0_message_share']:10.2%}"
        )
    return "\n".join(lines)
