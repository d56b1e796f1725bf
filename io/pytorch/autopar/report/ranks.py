"""What each rank of a search did, from the folder of `autopar-search --log-dir`."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ..errors import PlanError

TIMES = ("read_s", "price_s", "presolve_s", "bound_s", "search_s", "wait_s")


@dataclass(frozen=True, kw_only=True, slots=True)
class RankRow:
    rank: int
    tasks: int
    times: Mapping[str, float]  # seconds, by the columns TIMES

    @property
    def seconds(self) -> float:
        return sum(self.times.values())


def read_ranks(folder: str | PathLike[str]) -> list[RankRow]:
    path = Path(folder) / "times.csv"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [
                RankRow(
                    rank=int(row["rank"]), tasks=int(row["tasks"]), times={name: float(row[name]) for name in TIMES}
                )
                for row in csv.DictReader(file)
            ]
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise PlanError(f"{path}: want the table that autopar-search --log-dir writes: {error!r}") from error
