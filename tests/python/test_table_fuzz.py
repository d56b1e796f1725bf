"""Cost tables that were changed at random: each is either solved as brute force solves it, or refused in one line that
names the file. What --check says of solutions with wrong numbers."""

from __future__ import annotations

import copy
import itertools
import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rule_check import build_folder

Json = Any
ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "io/schema/problem.schema.json").read_text())
FORBIDDEN = 10**18
OPTIMAL, BAD_INPUT, INFEASIBLE, WRONG = 0, 2, 4, 6


def table(rng: random.Random) -> Json:
    """As the contest's: uses at intervals, repeated lists, forbidden pairs, parallel edges, nodes with one strategy."""
    count = rng.randint(3, 6)
    sizes = [rng.choice([1, 2, 2, 3]) for _ in range(count)]
    pairs = [[v - 1, v] for v in range(1, count)]
    pairs += [[rng.randrange(count), rng.randrange(count)] for _ in range(rng.randint(0, 3))]

    def edge_cost() -> int:
        return FORBIDDEN if rng.random() < 0.1 else rng.randint(0, 50)

    starts = [rng.randint(0, 9) for _ in sizes]
    nodes = {
        "costs": [[rng.randint(0, 99) for _ in range(size)] for size in sizes],
        "usages": [[rng.randint(0, 20) for _ in range(size)] for size in sizes],
        "intervals": [[start, start + rng.randint(0, 6)] for start in starts],
    }
    edges = {"nodes": pairs, "costs": [[edge_cost() for _ in range(sizes[u] * sizes[v])] for u, v in pairs]}
    return {"problem": {"name": "fuzz", "nodes": nodes, "edges": edges, "usage_limit": rng.randint(15, 60)}}


def has_meaning(document: Json) -> bool:
    """Whether docs/cost-tables.md gives `document` a meaning."""
    try:
        jsonschema.validate(document, SCHEMA)
    except jsonschema.ValidationError:
        return False
    if has_fractions(document):
        return False
    problem = document["problem"]
    nodes, edges = problem["nodes"], problem["edges"]
    sizes = [len(costs) for costs in nodes["costs"]]
    ends = edges["nodes"]
    if [len(usages) for usages in nodes["usages"]] != sizes or len(nodes["intervals"]) != len(sizes):
        return False
    if any(start > end for start, end in nodes["intervals"]) or len(ends) != len(edges["costs"]):
        return False
    if any(node >= len(sizes) for pair in ends for node in pair):
        return False
    if any(len(costs) != sizes[u] * sizes[v] for (u, v), costs in zip(ends, edges["costs"], strict=True)):
        return False
    # A strategy of an edge to the node itself is a pair of it with itself.
    read = [costs[:: sizes[u] + 1] if u == v else costs for (u, v), costs in zip(ends, edges["costs"], strict=True)]
    largest = [max((cost for cost in costs if cost < FORBIDDEN), default=0) for costs in [*nodes["costs"], *read]]
    return sum(largest) < FORBIDDEN and sum(max(usages) for usages in nodes["usages"]) < FORBIDDEN


def has_fractions(value: Json) -> bool:
    """Those that a JSON Schema takes for whole numbers, such as 1.0, too."""
    if isinstance(value, dict):
        return any(has_fractions(item) for item in value.values())
    if isinstance(value, list):
        return any(has_fractions(item) for item in value)
    return isinstance(value, float)


def optimum(document: Json) -> int | None:
    problem = document["problem"]
    nodes, edges = problem["nodes"], problem["edges"]
    sizes = [len(costs) for costs in nodes["costs"]]
    limit = problem.get("usage_limit")
    times = {start for start, _ in nodes["intervals"]}
    best = None
    for choices in itertools.product(*(range(size) for size in sizes)):
        costs = [row[choice] for row, choice in zip(nodes["costs"], choices, strict=True)]
        costs += [
            row[choices[u] * sizes[v] + choices[v]] for (u, v), row in zip(edges["nodes"], edges["costs"], strict=True)
        ]
        uses = [row[choice] for row, choice in zip(nodes["usages"], choices, strict=True)]
        peak = max(
            (
                sum(use for use, (start, end) in zip(uses, nodes["intervals"], strict=True) if start <= time < end)
                for time in times
            ),
            default=0,
        )
        if max(costs, default=0) >= FORBIDDEN or (limit is not None and peak > limit):
            continue
        best = sum(costs) if best is None else min(best, sum(costs))
    return best


def places(value: Json) -> list[tuple[Json, Json]]:
    """Every container of the document with a key or index of it."""
    if not isinstance(value, dict | list):
        return []
    found: list[tuple[Json, Json]] = []
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        found += [(value, key), *places(value[key])]
    return found


def nested(depth: int) -> Json:
    value: Json = 7
    for _ in range(depth):
        value = [value]
    return value


# What a value is replaced by. Some are allowed in some places.
STRANGE: list[Json] = [
    0,
    1,
    3,
    47,
    10**17,
    10**18 - 1,
    10**18,
    2**31 - 1,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    10**30,
    -1,
    -(2**63),
]
STRANGE += [0.5, 1.0, 1e300, float("nan"), float("inf"), True, None, "", "7", [], {}, [[]], nested(20), nested(70)]
STRANGE += [nested(300)]


def change(document: Json, rng: random.Random) -> None:
    container, key = rng.choice(places(document))
    siblings = container if isinstance(container, list) else None
    ways = ["delete", "replace", "replace"] + (["duplicate", "swap", "append"] if siblings is not None else ["rename"])
    match rng.choice(ways):
        case "delete":
            del container[key]
        case "replace":
            container[key] = copy.deepcopy(rng.choice(STRANGE))
        case "duplicate":
            container.insert(key, copy.deepcopy(container[key]))
        case "swap":
            other = rng.randrange(len(container))
            container[key], container[other] = container[other], container[key]
        case "append":
            container.append(copy.deepcopy(rng.choice(STRANGE)))
        case "rename":
            container[f"{key}s"] = container.pop(key)


def damage(text: bytes, rng: random.Random) -> bytes:
    """One that no reader of JSON takes for the same document, or that leaves it as it is."""
    at = rng.randrange(len(text))
    ways: list[Callable[[], bytes]] = [
        lambda: text[:at],
        lambda: text[:at] + bytes([rng.randrange(256)]) + text[at:],
        lambda: text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :],
        lambda: text[:at] + text[min(len(text), at + rng.randint(1, 30)) :],
        lambda: b"\xef\xbb\xbf" + text,
        lambda: text + text,
        lambda: text.replace(b'"fuzz"', 100_000 * b"["),
        lambda: text.replace(b'"problem"', b'"problem": 1, "problem"', 1),
    ]
    return rng.choice(ways)()


class Fuzz:
    def __init__(self, folder: Path) -> None:
        build = build_folder()
        if build is None:
            pytest.skip("the programs are not built; AUTOPAR_BUILD_DIR can name the build folder")
        self.program = build / "autopar-search"
        self.problem = folder / "p.json"
        self.solution = folder / "s.json"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [str(self.program), *arguments]
        return subprocess.run(command, capture_output=True, timeout=60, check=False)

    def solve(self, text: bytes) -> subprocess.CompletedProcess[bytes]:
        self.problem.write_bytes(text)
        self.solution.unlink(missing_ok=True)
        return self.run(str(self.problem), "-q", "--threads", "1", "-o", str(self.solution))

    def check(self, solution: Json) -> subprocess.CompletedProcess[bytes]:
        changed = self.solution.with_name("changed.json")
        changed.write_text(json.dumps(solution))
        return self.run("--check", str(self.problem), str(changed))

    def expect_refused(self, done: subprocess.CompletedProcess[bytes]) -> None:
        assert done.returncode == BAD_INPUT, done
        assert done.stderr.startswith(f"autopar-search: error: {self.problem}: ".encode()), done.stderr
        assert done.stderr.count(b"\n") == 1, done.stderr
        assert done.stdout == b""
        assert not self.solution.exists()

    def expect_solved(self, done: subprocess.CompletedProcess[bytes], document: Json) -> None:
        best = optimum(document)
        if best is None:
            assert done.returncode == INFEASIBLE, done
            assert not self.solution.exists()
            return
        assert done.returncode == OPTIMAL, done
        solution = json.loads(self.solution.read_text())
        assert solution["cost"] == solution["bound"] == best
        assert self.check(solution).returncode == 0


def fuzz(folder: Path, count: int, seed: int) -> tuple[int, int]:
    """How many were solved and refused."""
    tool = Fuzz(folder)
    rng = random.Random(seed)
    solved = refused = 0
    for _ in range(count):
        document = table(rng)
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            change(document, rng)
            if not isinstance(document, dict) or not document:
                break
        text = json.dumps(document).encode()
        if not has_meaning(document):
            tool.expect_refused(tool.solve(text))
            refused += 1
            continue
        tool.expect_solved(tool.solve(text), document)
        solved += 1
        text = damage(text, rng)
        done = tool.solve(text)
        try:
            damaged = json.loads(text.decode("utf-8-sig"), object_pairs_hook=unique)
        except (ValueError, RecursionError):
            tool.expect_refused(done)
            continue
        if has_meaning(damaged):
            tool.expect_solved(done, damaged)
        else:
            tool.expect_refused(done)
    return solved, refused


def unique(pairs: list[tuple[str, Json]]) -> Json:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def test_changed_tables_are_solved_or_refused(tmp_path: Path) -> None:
    solved, refused = fuzz(tmp_path, 60, 1)
    assert min(solved, refused) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 14))
def test_many_changed_tables_are_solved_or_refused(tmp_path: Path, seed: int) -> None:
    solved, refused = fuzz(tmp_path, 1000, seed)
    assert min(solved, refused) >= 200


def test_a_check_finds_wrong_numbers(tmp_path: Path) -> None:
    tool = Fuzz(tmp_path)
    rng = random.Random(2)
    checked = 0
    while checked < 8:
        document = table(rng)
        if tool.solve(json.dumps(document).encode()).returncode != OPTIMAL:
            continue
        checked += 1
        solution = json.loads(tool.solution.read_text())
        assert tool.check(solution).returncode == 0
        cost = solution["cost"]
        for wrong in ({"cost": cost + 1}, {"cost": cost - 1}, {"cost": 2**62}, {"bound": cost + 1}, {"bound": 2**62}):
            done = tool.check({**solution, **wrong})
            assert done.returncode == WRONG, (wrong, done)
            assert str(cost).encode() in done.stderr
        assert tool.check({**solution, "bound": cost - 1}).returncode == 0
        choices = solution["choices"]
        for wrong_choices in (choices[:-1], [*choices, 0], [9, *choices[1:]], [-1, *choices[1:]], []):
            assert tool.check({**solution, "choices": wrong_choices}).returncode == WRONG
        for damaged in ({"cost": 0.5}, {"bound": None}, {"choices": 7}, {"extra": 1}, {"version": 2}):
            assert tool.check({**solution, **damaged}).returncode == BAD_INPUT
