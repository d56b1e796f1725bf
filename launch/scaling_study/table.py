"""What is kept of each run, as one row."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

from scaling_study import StudyError
from scaling_study.runs import Run, Study, write_whole

Row = dict[str, Any]


def read_csv(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; expected a table that autopar-search --log-dir wrote") from None


def write_csv(path: Path, rows: list[Row]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(
        text, fieldnames=list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n"
    )
    writer.writeheader()
    for row in rows:
        writer.writerow({key: f"{value:.6f}" if isinstance(value, float) else value for key, value in row.items()})
    write_whole(path, text.getvalue())


def write(study: Study) -> list[Row]:
    """DIR/runs.csv, of all runs that have ended."""
    rows = [
        row_of(study, run, folder)
        for run in study.runs()
        for folder in (run.folder, run.failed)
        if folder.is_dir() and not (folder == run.failed and run.is_finished())
    ]
    write_csv(study.out / "runs.csv", rows)
    return rows


def row_of(study: Study, run: Run, folder: Path) -> Row:
    result = json.loads((folder / "result.json").read_text())
    row: Row = {
        "kind": "weak" if study.weak else "strong",
        "work": run.work,
        "ranks": run.ranks,
        "threads": study.threads,
        "repeat": run.repeat,
        "status": "finished" if folder == run.folder else "failed",
        "exit_code": result["exit_code"],
        "folder": folder.name,
    }
    if folder == run.folder:
        row.update(measures(folder / "log", result))
        plan = (folder / "plan.json").read_bytes()
        row["cost"] = cost_of(json.loads(plan))
        row["plan_hash"] = hashlib.sha256(plan).hexdigest()[:16]
    return row


def measures(log: Path, result: dict[str, Any]) -> Row:
    ranks = [{key: float(value) for key, value in row.items()} for row in read_csv(log / "times.csv")]
    longest_s = max(rank["total_s"] for rank in ranks)
    row: Row = {
        # Of the launcher, too, where it was watched: Slurm's own waiting is not the search's.
        "wall_s": result["wall_s"] or longest_s,
        "wall_of": "launcher" if result["wall_s"] else "ranks",
        "load_before": result["load_before"],
    }
    for phase in [key for key in ranks[0] if key.endswith("_s")]:
        times = [rank[phase] for rank in ranks]
        row[phase.removesuffix("_s") + "_avg_s"] = sum(times) / len(times)
        row[phase.removesuffix("_s") + "_max_s"] = max(times)
    row["wait_share"] = row["wait_avg_s"] / row["total_avg_s"]
    busy = [0.0] * len(ranks)
    for task in read_csv(log / "tasks.csv"):
        busy[int(task["rank"])] += float(task["seconds"])
    row["task_imbalance"] = max(busy) * len(busy) / sum(busy) - 1 if sum(busy) > 0 else 0.0
    for count in ("tasks", "branch_nodes", "messages", "bytes"):
        row[count] = int(sum(rank[count] for rank in ranks))
    return row


def cost_of(plan: dict[str, Any]) -> int | None:
    """In the units of the plan; of a cost table's solution as well."""
    result = plan.get("result", plan)
    cost: int | None = result.get("cost_ps", result.get("cost"))
    return cost


def check_plans(rows: list[Row]) -> None:
    """The plan must not depend on ranks; else times of them cannot be compared, and the search has a fault."""
    first: dict[str, Row] = {}
    for row in rows:
        other = first.setdefault(row["work"], row)
        if row["plan_hash"] != other["plan_hash"]:
            raise StudyError(
                f"the plans of runs/{other['folder']} (cost {other['cost']}) and runs/{row['folder']} "
                f"(cost {row['cost']}) differ, and they must not; compare their plan.json, and please report it"
            )
