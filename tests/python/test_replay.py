"""Plans replayed on several processes give the losses, gradients and weights of a single process.

The programs are those of the build folder that AUTOPAR_BUILD_DIR names, or of any.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import autopar
import pytest
from replay_models import BETTER, FAMILIES, make
from replay_runner import Case, Outcome, compare, read_record, run_cases, single_process, write_record
from rule_check import needed_build_folder

ROOT = Path(__file__).resolve().parents[2]
# A replay sums in other orders than a single process, so both are about as far off the exact result, which is taken
# from a run in the next better precision. A wrong piece, a term lost or added twice is off by 1e-2 and more.
TIMES_ROUNDING = 8
EPSILON = {"float32": 2.0**-23, "bfloat16": 2.0**-7, "autocast": 2.0**-7}
RANDOM_MESHES = [(2,), (2, 2), (3,), (2,), (2,), (4,), (6,), (3, 2), (2, 2, 2), (2, 4)]
NUM_QUICK, NUM_SLOW = 3, 50
# Layer norms that run on whole tensors, as a plan without sequence parallelism has them: what is saved of those tensors
# can be cut.
WHOLE_NORMS = {"nodes": {"*/f/native_layer_norm": {"0": "R"}}}
NO_OPTIMIZER = {"optimizer": {"bytes_per_element": 0, "master_bytes_per_element": 0}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    family: str
    mesh: tuple[int, ...]
    seed: int | None = None  # of a random plan; None: the best plan
    precision: str = "float32"
    share: float | None = None  # of the memory that the best plan takes: the limit; without optimizer state
    whole_norms: bool = False

    def __str__(self) -> str:
        plan = "best" if self.seed is None else f"random{self.seed}"
        if self.share is not None:
            plan = f"within{self.share}{'-norms' if self.whole_norms else ''}"
        return "-".join([self.family, "x".join(map(str, self.mesh)), plan, self.precision])


Outcomes = dict[Replay, tuple[Outcome, Outcome]]  # and what rounding does to a single process


def best_plans(*, quick: bool) -> Iterator[Replay]:
    """Of all families on all meshes; the quick ones take the meshes in turn."""
    turns = [(2, 2, 2), (2, 2), (4, 2), (4,), (2,)]
    for index, family in enumerate(FAMILIES):
        for mesh in turns:
            if (mesh == turns[index % len(turns)]) == quick:
                yield Replay(family=family, mesh=mesh)


def random_plans(seeds: range) -> Iterator[Replay]:
    for family in FAMILIES:
        for seed in seeds:
            yield Replay(family=family, mesh=RANDOM_MESHES[seed % len(RANDOM_MESHES)], seed=seed)


def low_precision() -> Iterator[Replay]:
    """Sums over devices included. Not of models that a rounding error sends another way, as experts do."""
    for family in ("mlp", "llama"):
        for precision, seed in (("bfloat16", None), ("autocast", None), ("autocast", 0)):
            yield Replay(family=family, mesh=(2, 2), seed=seed, precision=precision)


def tight(family: str, mesh: tuple[int, ...], *shares: float, whole_norms: bool = False) -> list[Replay]:
    return [Replay(family=family, mesh=mesh, share=share, whole_norms=whole_norms) for share in shares]


# Limits within which plans run nodes again or cut what they save.
QUICK_TIGHT = [
    *tight("mlp", (2, 2), 0.75),
    *tight("transformer", (2, 2), 0.6, whole_norms=True),
    *tight("llama", (2,), 0.85),
    *tight("gpt2", (4,), 0.85),
    *tight("vit", (2,), 0.92, whole_norms=True),
    *tight("mamba2", (4,), 0.95),
]
SLOW_TIGHT = [
    *tight("mlp", (2,), 0.65),
    *tight("mlp", (4,), 0.5),
    *tight("mlp", (2,), 0.95, 0.8, whole_norms=True),
    *tight("mlp", (2, 2), 0.95, 0.8, whole_norms=True),
    *tight("transformer", (2,), 0.8),
    *tight("transformer", (4,), 0.65),
    *tight("transformer", (2,), 0.95, 0.8, 0.65, whole_norms=True),
    *tight("transformer", (2, 2), 0.95, 0.8, 0.65, whole_norms=True),
    *tight("gpt2", (2,), 0.8),
    *tight("gpt2", (2, 2), 0.65),
    *tight("gpt2", (4,), 0.8),
    *tight("vit", (2,), 0.95, whole_norms=True),
    *tight("vit", (2, 2), 0.95, 0.8, 0.65, whole_norms=True),
    *tight("mamba2", (2, 2), 0.8),
]
QUICK = [*best_plans(quick=True), *random_plans(range(NUM_QUICK)), *low_precision(), *QUICK_TIGHT]
SLOW = [*best_plans(quick=False), *random_plans(range(NUM_QUICK, NUM_SLOW)), *SLOW_TIGHT]


def cluster() -> dict[str, Any]:
    """Slow devices and links without latency: cutting pays for small tensors, where it never does in truth."""
    found: dict[str, Any] = json.loads((ROOT / "costs/clusters/cpu-gloo.json").read_text())
    device, (link,) = found["device"], found["links"]
    for constant in (*device["matmul_flops"].values(), device["vector_flops"], device["memory_bandwidth"]):
        constant["value"] = 1e9
    for constant in (device["launch"], link["base_latency"], link["hop_latency"]):
        constant["value"] = 0
    return {**found, "name": "cheap-links"}


def search_program() -> str:
    folder = needed_build_folder()
    return str(folder / "autopar-search")


class Bench:
    """Makes what replays need, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._search = search_program()
        self._rounding: dict[str, Outcome] = {}

    def case(self, replay: Replay) -> Case:
        exact = BETTER[replay.precision]
        record = self._folder / f"{replay.family}.{exact}.pt"
        if not record.exists():
            write_record(single_process(replay.family, exact), record)
        return Case(
            family=replay.family, precision=replay.precision, plan=str(self._plan(replay)), reference=str(record)
        )

    def rounding(self, case: Case) -> Outcome:
        """How far off a single process is."""
        key = f"{case.family}.{case.precision}"
        if key not in self._rounding:
            exact = read_record(case.reference)
            self._rounding[key] = compare(single_process(case.family, case.precision), exact)
        return self._rounding[key]

    def _plan(self, replay: Replay) -> Path:
        model = self._folder / f"{replay.family}.{replay.precision}.json"
        if not model.exists():
            autopar.export(*make(replay.family, replay.precision), path=model, cluster=cluster())
        options = [] if replay.seed is None else ["--random-plan", str(replay.seed)]
        if replay.share is None:
            return self._search_for(model, replay, str(replay), options)
        constraints = {**NO_OPTIMIZER, **(WHOLE_NORMS if replay.whole_norms else {})}
        # Under way at once takes memory, too, which could be saved without any of that.
        free = self._search_for(model, replay, f"{replay}.free", ["--overlap", "none"], constraints)
        constraints["memory_limit_bytes"] = int(replay.share * autopar.load_plan(free).peak.bytes)
        return self._search_for(model, replay, str(replay), ["--gap", "0.01"], constraints)

    def _search_for(
        self,
        model: Path,
        replay: Replay,
        name: str,
        options: Sequence[str],
        constraints: Mapping[str, Any] | None = None,
    ) -> Path:
        plan = self._folder / f"{name}.plan.json"
        if plan.exists():
            return plan
        command = [self._search, str(model), "--mesh", ",".join(map(str, replay.mesh)), "-o", str(plan), "-q"]
        command += options
        if constraints is not None:
            path = self._folder / f"{name}.constraints.json"
            path.write_text(json.dumps({"format": "autopar-constraints", "version": 1, **constraints}))
            command += ["--constraints", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return plan


def replays_in(items: Sequence[pytest.Item]) -> Iterator[Replay]:
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and isinstance(callspec.params.get("replay"), Replay):
            yield callspec.params["replay"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("replays"))


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, bench: Bench) -> Outcomes:
    """Of all replays that the chosen tests ask for, which run together."""
    replays = list(replays_in(request.session.items))
    cases = [bench.case(replay) for replay in replays]
    found = run_cases(cases)
    return {
        replay: (outcome, bench.rounding(case)) for replay, case, outcome in zip(replays, cases, found, strict=True)
    }


def check(outcome: Outcome, rounding: Outcome, precision: str) -> None:
    assert not outcome.failure, outcome.failure
    assert outcome.loss <= TIMES_ROUNDING * max(rounding.loss, EPSILON[precision])
    assert outcome.gradient <= TIMES_ROUNDING * rounding.gradient, outcome.worst
    assert outcome.state <= TIMES_ROUNDING * rounding.state, outcome.worst


@pytest.mark.parametrize("replay", QUICK, ids=str)
def test_replay(replay: Replay, outcomes: Outcomes) -> None:
    check(*outcomes[replay], replay.precision)


@pytest.mark.slow
@pytest.mark.parametrize("replay", SLOW, ids=str)
def test_more_replays(replay: Replay, outcomes: Outcomes) -> None:
    check(*outcomes[replay], replay.precision)


@pytest.mark.parametrize("replay", QUICK_TIGHT, ids=str)
def test_tight_plans_trade_time_for_memory(replay: Replay, bench: Bench) -> None:
    plan = autopar.load_plan(bench.case(replay).plan)
    assert plan.recompute or any(entry.is_saved for entry in plan.redistributions)


def test_wrong_plans_are_seen(bench: Bench) -> None:
    """Without its local program, each device would divide by the number of its own tokens."""
    replay = Replay(family="transformer", mesh=(2,))
    case = bench.case(replay)
    plan = Path(case.plan)
    document = json.loads(plan.read_text())
    (node,) = [node for node in document["nodes"].values() if node.get("programs") == ["nll_loss_mean"]]
    del node["programs"], node["collectives"]
    wrong = plan.with_name("wrong.plan.json")
    wrong.write_text(json.dumps(document))
    (outcome,) = run_cases([dataclasses.replace(case, plan=str(wrong))])
    assert not outcome.failure, outcome.failure
    with pytest.raises(AssertionError):
        check(outcome, bench.rounding(case), replay.precision)


def test_ranks_that_fail_end_the_others(bench: Bench) -> None:
    case = bench.case(Replay(family="mlp", mesh=(2,)))
    (outcome,) = run_cases([dataclasses.replace(case, family="gpt2")])
    assert "the model's parameter" in outcome.failure
