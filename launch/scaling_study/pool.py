"""The task pool of engine/pool.cpp as a discrete-event simulation: how long a round of tasks takes on many ranks."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

# As in engine/pool.cpp and engine/comm.cpp; tests/python/test_scaling_study.py compares them.
MANY_TASKS = 3
QUICK_TASK_S = 0.02
COORDINATOR_PAUSE_S = 200e-6
SHORTEST_PAUSE_S = 20e-6
LONGEST_PAUSE_S = 2000e-6
PAUSE_SHARE = 0.05
# A rank that waits for long looks for messages this rarely: 20 us, doubled until it is above 2 ms.
IDLE_PAUSE_S = 2560e-6
# Who looks every now and then hears of a thing half a pause late, on average.
MEAN = 0.5


@dataclass(frozen=True)
class Machine:
    """The defaults' sources are in docs/scaling.md."""

    latency_s: float = 30e-6
    bandwidth: float = 1.25e9  # bytes/s
    # Of rank 0's message thread, for each message that it sends or takes in.
    message_s: float = 8e-6
    message_s_per_byte: float = 3.2e-9
    start_up_s: float = 0.15
    start_up_s_per_rank: float = 0.056
    ranks_per_node: int = 64

    def start_s(self, ranks: int) -> float:
        """Nodes start at the same time, the ranks of one after each other."""
        return self.start_up_s + (min(ranks, self.ranks_per_node) - 1) * self.start_up_s_per_rank

    def travel_s(self, num_bytes: float) -> float:
        return self.latency_s + num_bytes / self.bandwidth

    def handle_s(self, num_bytes: float) -> float:
        return self.message_s + num_bytes * self.message_s_per_byte

    def broadcast_s(self, rank: int, num_bytes: float) -> float:
        """Until the rank has heard of it: one hop for each bit of its number that is set."""
        return rank.bit_count() * (self.handle_s(num_bytes) + self.travel_s(num_bytes) + MEAN * IDLE_PAUSE_S)


@dataclass(frozen=True)
class Task:
    seconds: float
    sent: float = 0.0  # bytes to the rank
    received: float = 0.0  # and back


@dataclass(frozen=True)
class RoundTimes:
    seconds: float  # from the first message to the last
    message_thread_s: float  # in which rank 0's was busy
    messages: int


class _Worker:
    """Another rank. Its tasks wait in the order in which they came."""

    def __init__(self, ready_s: float) -> None:
        self.idle_since_s = ready_s  # only while it is idle
        self.is_busy = False
        self.in_flight = 0  # tasks handed to it, as rank 0 counts them
        self.queue: deque[Task] = deque()


class _Round:
    OWN_DONE, RESULT, ARRIVAL, DONE = range(4)  # events; the first two are rank 0's

    def __init__(self, tasks: Sequence[Task], ranks: int, machine: Machine) -> None:
        self.queue = deque(tasks)
        self.open = len(tasks)
        self.many = MANY_TASKS * ranks
        self.done_tasks = 0
        self.done_s = 0.0
        self.machine = machine
        # They wait since the round before, and hear of this one by a broadcast.
        self.workers = [_Worker(machine.broadcast_s(rank, 0)) for rank in range(ranks)]
        self.own_is_busy = False
        self.now = 0.0  # of rank 0's message thread: until then it is busy
        self.busy_s = 0.0
        self.messages = 0
        self.events: list[tuple[float, int, int, int, Task]] = []
        self.num_events = 0

    def run(self) -> RoundTimes:
        for rank in range(1, len(self.workers)):
            self.hand_out(rank)
        self.begin_own()
        while self.open > 0:
            time, _, kind, rank, task = heapq.heappop(self.events)
            if kind == self.ARRIVAL:
                self.arrive(time, rank, task)
            elif kind == self.DONE:
                self.done(time, rank, task)
            else:
                # It sleeps between two looks if there is nothing to do.
                self.now = max(self.now, time + MEAN * COORDINATOR_PAUSE_S)
                self.done_tasks += 1
                self.done_s += task.seconds
                if kind == self.OWN_DONE:
                    self.own_is_busy = False
                else:
                    self.workers[rank].in_flight -= 1
                    self.hand_out(rank)
                    self.spend(task.received)
                self.open -= 1
                self.begin_own()
        for _ in self.workers[1:]:
            self.spend(0)  # the round is over
        return RoundTimes(self.now, self.busy_s, self.messages)

    def at(self, time: float, kind: int, rank: int, task: Task) -> None:
        heapq.heappush(self.events, (time, self.num_events, kind, rank, task))
        self.num_events += 1

    def spend(self, num_bytes: float) -> None:
        """Rank 0 sends or takes in a message."""
        cost = self.machine.handle_s(num_bytes)
        self.now += cost
        self.busy_s += cost
        self.messages += 1

    def hand_out(self, rank: int) -> None:
        worker = self.workers[rank]
        are_quick = self.done_tasks > 0 and self.done_s < QUICK_TASK_S * self.done_tasks
        while self.queue and worker.in_flight < (2 if are_quick and len(self.queue) > self.many else 1):
            task = self.queue.popleft()
            worker.in_flight += 1
            self.spend(task.sent)
            self.at(self.now + self.machine.travel_s(task.sent), self.ARRIVAL, rank, task)

    def begin_own(self) -> None:
        if not self.own_is_busy and self.queue:
            task = self.queue.popleft()
            self.own_is_busy = True
            self.at(self.now + task.seconds, self.OWN_DONE, 0, task)

    def arrive(self, time: float, rank: int, task: Task) -> None:
        worker = self.workers[rank]
        if worker.is_busy:
            worker.queue.append(task)
            return
        # Its pauses double while it waits.
        since = max(time - worker.idle_since_s, 0.0)
        begin = max(time + MEAN * min(since, IDLE_PAUSE_S), worker.idle_since_s)
        worker.is_busy = True
        self.at(begin + task.seconds, self.DONE, rank, task)

    def done(self, time: float, rank: int, task: Task) -> None:
        worker = self.workers[rank]
        pause = min(max(PAUSE_SHARE * task.seconds, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
        noticed = time + MEAN * pause
        self.at(noticed + self.machine.travel_s(task.received), self.RESULT, rank, task)
        worker.is_busy = bool(worker.queue)
        worker.idle_since_s = noticed
        if worker.queue:
            following = worker.queue.popleft()
            self.at(noticed + following.seconds, self.DONE, rank, following)


def simulate(tasks: Sequence[Task], ranks: int, machine: Machine) -> RoundTimes:
    """Tasks in the order in which they are handed out, the longest first."""
    if ranks == 1:
        return RoundTimes(sum(task.seconds for task in tasks), 0.0, 0)
    return _Round(tasks, ranks, machine).run()
