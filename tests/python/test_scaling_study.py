"""launch/scaling-study: the simulated task pool against cases by hand, studies with a stand-in for mpirun, a real one,
and one through Slurm."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from rule_check import needed_build_folder
from scaling_study import StudyError, plots
from scaling_study.__main__ import main
from scaling_study.pool import Machine, Task, simulate
from scaling_study.replay import project, read_record
from slurm_cluster import missing_programs, slurm, wait_until

pytest.importorskip("matplotlib")
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "launch" / "scaling-study"
MLP = ROOT / "tests" / "models" / "mlp.json"
# Messages that cost nothing; what is left are the pauses between two looks, some milliseconds a task.
FREE = Machine(latency_s=0, bandwidth=1e18, message_s=0, message_s_per_byte=0, start_up_s=0, start_up_s_per_rank=0)
PAUSES_S = 0.005


def seconds(tasks: list[float], ranks: int, machine: Machine = FREE) -> float:
    return simulate([Task(each) for each in tasks], ranks, machine).seconds


@pytest.mark.parametrize(
    ("tasks", "ranks", "expected"),
    [
        ([3.0], 1, 3),
        ([3.0], 2, 3),
        ([3.0], 64, 3),
        ([1.0] * 12, 1, 12),
        ([1.0] * 12, 2, 6),
        ([1.0] * 12, 3, 4),
        ([1.0] * 12, 12, 1),
        ([1.0] * 13, 12, 2),
        ([1.0] * 12, 1024, 1),
        ([5.0, 1, 1, 1, 1, 1], 2, 5),
        ([1.0, 1, 1, 1, 5], 2, 7),  # a long one last: 1, 1, then 5
        ([4.0, 3, 2, 1], 2, 5),
        # 8 are more than 3 for each of 2 ranks, but too long for a second one to wait behind another.
        ([4.0, 4, 1, 1, 1, 1, 1, 1], 2, 7),
        # The first is quick, so that rank 1 gets both of 4 s, and rank 0 does all others in the meantime.
        ([0.001, 0.01, 4, 4, 1, 1, 1, 1, 1, 1], 2, 8),
    ],
)
def test_rounds_by_hand(tasks: list[float], ranks: int, expected: float) -> None:
    slack = PAUSES_S * (len(tasks) + 1)
    assert expected <= seconds(tasks, ranks) <= expected + slack


def test_one_message_by_hand() -> None:
    """Of two equal tasks, one goes to rank 1."""
    machine = Machine(latency_s=0.25, bandwidth=100, message_s=0.01, message_s_per_byte=0.001)
    times = simulate([Task(1, 100, 50), Task(1, 100, 50)], 2, machine)
    # Rank 0 sends (0.11 s), the task travels (1.25 s), is done (1 s), comes back (0.75 s) and is taken in (0.06 s).
    # At the end rank 1 is told (0.01 s).
    assert times.seconds == pytest.approx(0.11 + 1.25 + 1 + 0.75 + 0.06 + 0.01, abs=PAUSES_S)
    assert times.message_thread_s == pytest.approx(0.11 + 0.06 + 0.01)
    assert times.messages == 3


def test_rank_0_is_the_bottleneck_if_messages_cost_more_than_tasks() -> None:
    machine = Machine(latency_s=0, message_s=0.001, message_s_per_byte=0)
    times = simulate([Task(0.001)] * 2000, 256, machine)
    # It hands out and takes in one message at a time.
    assert times.message_thread_s > 0.95 * times.seconds
    assert times.messages > 2 * 1900  # but for rank 0's own tasks, there and back
    assert times.seconds >= times.messages * 0.001 - 1e-6


def test_nothing_is_quicker_than_the_work_allows() -> None:
    generator = random.Random(7)
    for _ in range(30):
        tasks = sorted((generator.expovariate(1) + 0.01 for _ in range(generator.randint(1, 200))), reverse=True)
        before = float("inf")
        for ranks in (1, 2, 4, 16, 64, 256, 1024):
            now = seconds(tasks, ranks)
            assert now >= max(max(tasks), sum(tasks) / ranks) - 1e-9
            assert now <= sum(tasks) + PAUSES_S * len(tasks)
            # More ranks may be a little slower: which rank has an early task can be the wrong one.
            assert now <= before + max(tasks) + PAUSES_S * len(tasks)
            before = now
        assert seconds(tasks, 1024) <= max(tasks) * (1 + 1e-9) + PAUSES_S * 3
        slow = Machine(latency_s=0.01)
        assert seconds(tasks, 16, slow) >= seconds(tasks, 16) - PAUSES_S


def test_constants_are_those_of_the_pool() -> None:
    from scaling_study import pool

    source = (ROOT / "engine" / "pool.cpp").read_text()
    comm = (ROOT / "engine" / "comm.cpp").read_text()

    def constant(text: str, name: str) -> float:
        (value,) = re.findall(rf"\b{name}(?: = |\{{)([\d.]+)", text)
        return float(value)

    assert constant(source, "kManyTasks") == pool.MANY_TASKS
    assert constant(source, "kQuickTask") == pool.QUICK_TASK_S
    assert constant(source, "kCoordinatorPause") == pytest.approx(1e6 * pool.COORDINATOR_PAUSE_S)
    assert constant(source, "kShortestPause") == pytest.approx(1e6 * pool.SHORTEST_PAUSE_S)
    assert constant(source, "kLongestPause") == pytest.approx(1e6 * pool.LONGEST_PAUSE_S)
    assert constant(source, "kPauseShare") == pool.PAUSE_SHARE
    pause = constant(comm, "pause_")
    while pause < constant(comm, "kLongest"):
        pause *= 2
    assert pause == pytest.approx(1e6 * pool.IDLE_PAUSE_S)


TIMES = "rank,read_s,price_s,presolve_s,bound_s,search_s,wait_s,total_s,tasks,branch_nodes,messages,bytes\n"
TASKS = "round,task,rank,start_s,seconds,bytes_sent,bytes_received\n"


def record(folder: Path, ranks: list[str], tasks: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "times.csv").write_text(TIMES + "".join(line + "\n" for line in ranks))
    (folder / "tasks.csv").write_text(TASKS + "".join(line + "\n" for line in tasks))
    return folder


@pytest.fixture
def two_rounds(tmp_path: Path) -> Path:
    """On one rank: 1 s, a round of 4 + 2 + 2 s, 0.5 s, a round of 3 + 1 s, 0.5 s."""
    tasks = [f"0,a{i},0,{start},{length},0,0" for i, (start, length) in enumerate([(1, 4), (5, 2), (7, 2)])]
    tasks += ['1,"b, c",0,9.5,3,0,0', "1,d,0,12.5,1,0,0"]
    return record(tmp_path / "two", ["0,0,0,0,0,0,0,14,5,0,0,0"], tasks)


def test_a_projection_by_hand(two_rounds: Path) -> None:
    recorded = read_record(two_rounds)
    assert recorded.serial_s == pytest.approx(2)
    assert recorded.critical_path_s == pytest.approx(2 + 4 + 3)
    assert not recorded.has_sizes
    machine = Machine(**{**FREE.__dict__, "start_up_s": 1, "start_up_s_per_rank": 0.5, "ranks_per_node": 8})
    # A rank more takes half a second to start, up to 8 on a node.
    for ranks, expected in {1: 1 + 14, 2: 1.5 + 2 + 4 + 3, 8: 4.5 + 2 + 4 + 3, 1024: 4.5 + 2 + 4 + 3}.items():
        row = project(recorded, ranks, machine)
        assert row["wall_s"] == pytest.approx(expected, abs=0.1)
        assert row["speed_up"] == pytest.approx(15 / expected, rel=0.01)
        assert row["efficiency"] == pytest.approx(row["speed_up"] / ranks)
        assert row["most_speed_up"] == pytest.approx(15 / 10)


def test_tasks_that_waited_on_their_rank_do_not_count_twice(tmp_path: Path) -> None:
    """Rank 1 got two tasks at once; rank 0's own have no sizes, but would have."""
    tasks = ["0,a,1,1.0,2.0,100,40", "0,b,1,1.0,2.0,300,60", "0,c,0,1.0,4.5,0,0"]
    ranks = ["0,0,0,0,0,0,0,6,1,0,4,5400", "1,0,0,0,0,0,0,6,2,0,2,100"]
    recorded = read_record(record(tmp_path, ranks, tasks))
    assert recorded.serial_s == pytest.approx(6 - 4.5)
    assert recorded.rounds == [[Task(2, 100, 40), Task(2, 300, 60), Task(4.5, 200, 50)]]
    assert recorded.broadcast_bytes == 5000


@pytest.mark.parametrize(
    ("ranks", "tasks", "fault"),
    [
        (["0,0,0,0,0,0,0,1,0,0,0,0"], [], "the run had no tasks to share"),
        ([], ["0,a,0,1,1,0,0"], "cannot be read"),
        (["0,0,0,0,0,0,0,1,0,0,0,0"], ["0,a,0,1,x,0,0"], "could not convert string to float: 'x'"),
        (["0,0,0,0,0,0,0,1,0,0,0,0"], ["0,a"], "cannot be read"),
    ],
)
def test_a_broken_record_is_told(tmp_path: Path, ranks: list[str], tasks: list[str], fault: str) -> None:
    with pytest.raises(StudyError, match=fault):
        read_record(record(tmp_path, ranks, tasks))


def test_plots_of_weak_scaling(tmp_path: Path) -> None:
    rows = [
        {"kind": "weak", "ranks": ranks, "wall_s": 1 + repeat / 8, "wait_share": 0.1, "task_imbalance": 0.0}
        for ranks in (1, 2, 4, 64)
        for repeat in range(2)
    ]
    plots.plot_study(rows, "Weak scaling: some model", tmp_path)
    check_plots(tmp_path / "study", ["Weak scaling: some model", "scaled speed-up"])


def scaling_study(*arguments: str | Path, code: int = 0, env: dict[str, str] | None = None) -> str:
    """The script itself."""
    result = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, env=env)
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout + result.stderr


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def check_plots(stem: Path, words: list[str]) -> None:
    from matplotlib.image import imread

    pixels = imread(f"{stem}.png")
    assert min(pixels.shape[:2]) > 400
    assert pixels.std() > 0.01
    assert ElementTree.parse(f"{stem}.svg").getroot().tag.endswith("svg")
    # Text of an SVG is drawn as shapes, with what it says in a comment before each.
    text = Path(f"{stem}.svg").read_text()
    assert [word for word in words if word not in text] == []


def test_replay_writes_table_and_plots(two_rounds: Path, tmp_path: Path) -> None:
    text = scaling_study("replay", two_rounds, "--ranks", "1,2,64,1024", "--out", tmp_path / "out")
    assert "no number of ranks is more than 1.55 times as fast" in text  # (14 + 0.15) / (9 + 0.15)
    rows = table(tmp_path / "out" / "projection.csv")
    assert [row["ranks"] for row in rows] == ["1", "2", "64", "1024"]
    assert {row["kind"] for row in rows} == {"projection"}
    check_plots(tmp_path / "out" / "projection", ["Projection, not measured", "projected wall time, s"])


# In the place of mpirun: writes what a run would, and fails while a file `broken` is there.
MPIRUN = """\
#!/bin/bash
ranks=$2
while [[ $# -gt 1 ]]; do
  case $1 in
    -o) plan=$2 ;;
    --log-dir) log=$2 ;;
    --devices) devices=$2 ;;
  esac
  shift
done
here=$(dirname "$0")
echo "$ranks $devices" >>"$here/started"
[[ $ranks == 2 && -e $here/broken ]] && { echo "out of luck" >&2; exit 5; }
[[ $ranks == 4 && -e $here/odd ]] && devices=odd
mkdir -p "$log"
echo "{\\"result\\": {\\"cost_ps\\": 7}, \\"devices\\": \\"$devices\\"}" >"$plan"
{
  echo rank,read_s,price_s,presolve_s,bound_s,search_s,wait_s,total_s,tasks,branch_nodes,messages,bytes
  for ((rank = 0; rank < ranks; ++rank)); do echo "$rank,0,0,0,0,3,1,4,2,1,5,100"; done
} >"$log/times.csv"
{
  echo round,task,rank,start_s,seconds,bytes_sent,bytes_received
  echo 0,a,0,0,3,0,0
  echo 0,b,$((ranks - 1)),0,1,0,0
} >"$log/tasks.csv"
"""


class Stub:
    """Studies in this process, without plots, which take a second each."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        (folder / "mpirun").write_text(MPIRUN)
        (folder / "mpirun").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setattr(plots, "plot_study", lambda *_: None)
        self.monkeypatch = monkeypatch
        self.capsys = capsys
        self.out = folder / "out"

    def study(self, *options: str, code: int = 0, arguments: tuple[str, ...] = ("--devices", "8")) -> str:
        command = [*options, "--out", str(self.out), "--program", "true", "--", str(MLP), *arguments]
        self.monkeypatch.setattr("sys.argv", ["scaling-study", *command])
        try:
            ended: int | str | None = main()
        except SystemExit as end:
            ended = end.code
        text = "".join(self.capsys.readouterr())
        assert ended == code, text
        return text

    def started(self) -> list[str]:
        """Ranks and devices of the runs since the last call."""
        path = self.folder / "started"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return lines

    def rows(self) -> list[dict[str, str]]:
        return table(self.out / "runs.csv")


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stub:
    return Stub(tmp_path, monkeypatch, capsys)


def test_a_study_goes_on_where_it_ended(stub: Stub) -> None:
    stub.study("--ranks", "1,2", "--repeats", "2")
    assert stub.started() == ["1 8", "2 8", "1 8", "2 8"]
    first = stub.rows()
    # As if it had been killed in a run: what that left counts for nothing.
    (stub.out / "runs" / "ranks-2-repeat-2").rename(stub.out / "runs" / "ranks-2-repeat-2.part")
    assert "4 of 4 runs are finished" in stub.study("--ranks", "1,2", "--repeats", "2")
    assert stub.started() == ["2 8"]
    assert [row["wall_s"] for row in stub.rows()[:3]] == [row["wall_s"] for row in first[:3]]
    stub.study("--ranks", "1,2,4", "--repeats", "2")
    assert stub.started() == ["4 8", "4 8"]


def test_the_row_of_a_run(stub: Stub) -> None:
    stub.study("--ranks", "4", "--repeats", "1", "--threads", "2")
    (row,) = stub.rows()
    expected = {"kind": "strong", "ranks": "4", "threads": "2", "status": "finished", "exit_code": "0", "cost": "7"}
    assert row.items() >= expected.items()
    assert (row["tasks"], row["messages"], row["bytes"]) == ("8", "20", "400")
    assert float(row["wait_share"]) == 0.25
    assert float(row["task_imbalance"]) == 2  # 3 s on rank 0, 1 s on average
    assert float(row["search_avg_s"]) == float(row["search_max_s"]) == 3


def test_weak_scaling_grows_the_work(stub: Stub) -> None:
    options = ("--ranks", "1,2,4", "--weak", "devices=8/16/4,4", "--repeats", "1")
    stub.study(*options, arguments=())
    assert stub.started() == ["1 8", "2 16", "4 4,4"]
    assert [(row["kind"], row["work"]) for row in stub.rows()] == [("weak", "8"), ("weak", "16"), ("weak", "4,4")]


def test_a_failed_run_is_told_and_tried_again(stub: Stub) -> None:
    (stub.folder / "broken").touch()
    text = stub.study("--ranks", "1,2", "--repeats", "1", code=1)
    assert "ranks-2-repeat-1: failed with code 5" in text
    assert [(row["status"], row["exit_code"]) for row in stub.rows()] == [("finished", "0"), ("failed", "5")]
    assert "out of luck" in (stub.out / "runs" / "ranks-2-repeat-1.failed" / "output").read_text()
    (stub.folder / "broken").unlink()
    stub.started()
    stub.study("--ranks", "1,2", "--repeats", "1")
    assert stub.started() == ["2 8"]
    assert [row["status"] for row in stub.rows()] == ["finished", "finished"]


def test_plans_that_differ_end_the_study(stub: Stub) -> None:
    (stub.folder / "odd").touch()
    text = stub.study("--ranks", "1,4", "--repeats", "1", code=2)
    assert "the plans of runs/ranks-1-repeat-1 (cost 7) and runs/ranks-4-repeat-1 (cost 7) differ" in text


@pytest.mark.parametrize(
    ("options", "arguments", "fault"),
    [
        (("--ranks", "2,1"), (), "does not grow"),
        (("--ranks", "0"), (), "not a number from 1 on"),
        (("--ranks", "1,2", "--weak", "devices=8"), (), "has 1 values for 2 numbers of ranks"),
        (("--ranks", "1", "--weak", "devices"), (), "expected an option with a value for every --ranks"),
        (("--ranks", "1"), ("-o", "x.json"), "-o does not go with a study"),
        (("--ranks", "1"), ("--time-limit=5",), "--time-limit=5 does not go with a study"),
    ],
)
def test_faults_are_told(stub: Stub, options: tuple[str, ...], arguments: tuple[str, ...], fault: str) -> None:
    assert fault in stub.study(*options, code=2, arguments=arguments)
    assert stub.started() == []


def test_another_study_in_the_folder_is_refused(stub: Stub) -> None:
    stub.study("--ranks", "1", "--repeats", "1")
    assert "is of another study" in stub.study("--ranks", "1", code=2, arguments=("--devices", "16"))


@pytest.fixture(scope="module")
def program() -> Path:
    build = needed_build_folder()
    return (build / "autopar-search").resolve()


QUICK: tuple[str, ...] = (str(MLP), "--devices", "8", "--cluster", "h100", "--overlap", "none")


def test_a_real_study_and_its_replay(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "it's out"
    scaling_study("--ranks", "1,2", "--repeats", "1", "--out", out, "--program", program, "--", *QUICK)
    check_plots(out / "study", ["Strong scaling: mlp.json", "imbalance of tasks"])
    one, two = table(out / "runs.csv")
    assert one["plan_hash"] == two["plan_hash"]
    assert (
        int(one["cost"])
        == json.loads((out / "runs" / "ranks-1-repeat-1" / "plan.json").read_text())["result"]["cost_ps"]
    )
    assert int(one["tasks"]) == int(two["tasks"]) > 0
    assert int(one["messages"]) == 0 < int(two["messages"])
    assert 0 < float(two["total_max_s"]) < float(two["wall_s"])
    scaling_study("replay", out / "runs" / "ranks-2-repeat-1" / "log", "--ranks", "1,2", "--out", tmp_path)
    projected: list[dict[str, Any]] = list(table(tmp_path / "projection.csv"))
    # Of the run that was recorded: what is simulated is about what was.
    rounds_and_serial = float(projected[1]["rounds_s"]) + float(projected[1]["serial_s"])
    assert rounds_and_serial == pytest.approx(float(two["total_max_s"]), rel=0.3, abs=0.1)


def test_a_study_by_slurm(program: Path, tmp_path: Path) -> None:
    if (missing := missing_programs()) and "CI" not in os.environ:
        pytest.skip(f"{', '.join(missing)} not installed; launch/setup.sh --dev installs them")
    options = ("--ranks", "1,2", "--repeats", "1", "--slurm", "--out", tmp_path / "out", "--program", program)
    bad = ("--ranks", "1", "--repeats", "1", "--slurm", "--out", tmp_path / "bad", "--program", program)
    with slurm() as environment:
        assert "0 of 2 runs are finished" in scaling_study(*options, "--", *QUICK, env=environment)
        scaling_study(*bad, "--", *QUICK, "--no-such-option", env=environment)

        def is_over() -> bool:
            queue = subprocess.run(["squeue", "--noheader"], env=environment, capture_output=True, text=True)
            return not queue.stdout.strip()

        wait_until(is_over, 60, lambda: "the study does not end")
        text = scaling_study(*options, "--", *QUICK, env=environment)
        assert "2 of 2 runs are finished" in text
        assert "job " not in text
        rows = table(tmp_path / "out" / "runs.csv")
        assert [(row["ranks"], row["wall_of"], row["exit_code"]) for row in rows] == [
            ("1", "ranks", "0"),
            ("2", "ranks", "0"),
        ]
        assert rows[0]["plan_hash"] == rows[1]["plan_hash"]
        assert "ranks-1-repeat-1: failed" in scaling_study(
            *bad, "--", *QUICK, "--no-such-option", code=1, env=environment
        )
        assert [row["exit_code"] for row in table(tmp_path / "bad" / "runs.csv")] == ["2"]
