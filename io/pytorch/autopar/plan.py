"""plan.json (docs/plan-json.md) as data. Needs no PyTorch; tables need pandas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from torch.distributed.tensor.placement_types import Placement

    from .simulation import Simulation

PLACEMENT = re.compile(r"R|S\((0|[1-9][0-9]*)\)|P\((sum|avg|max|min)\)")
LOCAL_STEPS = ("slice", "zero")
PHASES = ("forward", "backward")

Placements = tuple[str, ...]  # one per mesh dim: "R", "S(0)", "P(sum)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One collective over the flattened group of some mesh dims, or a local step."""

    kind: str
    mesh_dims: tuple[int, ...]
    to: Placements
    bytes: int
    dtype: str
    time_ps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """Between which nodes' turns the last collective of a redistribution is under way."""

    start: str
    finish: str | None  # None: the end of the phase


@dataclass(frozen=True, kw_only=True, slots=True)
class Redistribution:
    value: str
    output: int
    phase: str
    source: Placements
    target: Placements
    dtype: str
    steps: tuple[Step, ...]
    uses: tuple[tuple[str, int], ...]  # (key of the reader, its input)
    graph_outputs: tuple[int, ...]  # indices into the outputs of the graph
    is_saved: bool = False  # the backward starts from its result; it runs behind the value's last use, if not earlier
    overlap: Overlap | None = None  # None: it runs where its result is first read
    pipelined_ps: int = 0  # of its time, what hides in pieces beside matmuls

    @property
    def last_collective(self) -> int:
        """Its place among the steps; -1: all are local."""
        return max((index for index, step in enumerate(self.steps) if step.kind not in LOCAL_STEPS), default=-1)

    @property
    def time_ps(self) -> int:
        return sum(step.time_ps for step in self.steps)


@dataclass(frozen=True, kw_only=True, slots=True)
class Collective:
    """An all-reduce inside a local program (docs/local-programs.md)."""

    mesh_dims: tuple[int, ...]
    bytes: int
    dtype: str
    time_ps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePlan:
    op: str
    inputs: tuple[Placements, ...]
    outputs: tuple[Placements | None, ...]
    tensors: tuple[str | None, ...]  # dtype and whole shape of each output: "bfloat16[16,8192]"
    compute_ps: int
    memory_bytes: int | None = None  # held while it runs; None: a graph input
    programs: tuple[str, ...] = ()  # by mesh dim; "" is the plain op
    collectives: tuple[Collective, ...] = ()
    phase: str | None = None  # None: a graph input, or a plan of a program that did not write it
    reads: tuple[tuple[str, int], ...] = ()  # by input, the value: key of its node, and which of its outputs


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputPlan:
    value: str
    output: int
    role: str
    of: str | None
    placements: Placements


@dataclass(frozen=True, kw_only=True, slots=True)
class CommunicationTotal:
    """What one kind of collective over some mesh dims moves on one device in a step."""

    collective: str
    mesh_dims: tuple[int, ...]
    count: int
    bytes: int
    time_ps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Peak:
    """The highest memory of the step on one device, and what it is for."""

    bytes: int
    node: str | None  # None: when all have run
    kinds: Mapping[str, int]  # bytes by kind: parameters, optimizer, gradients, inputs, saved, temporary


@dataclass(frozen=True, kw_only=True, slots=True)
class MeshResult:
    """What a search over meshes found on one of them (docs/meshes.md)."""

    shape: tuple[int, ...]
    dim_names: tuple[str, ...]
    cost_ps: int | None  # None: no plan was found
    bound_ps: int | None  # None: there is no plan
    left_out: str | None  # why the mesh was not looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How one model's training step runs on a mesh. Print it for a summary; a notebook shows a picture too.

    `nodes_table()` and its kind need pandas; `simulate()`, `explain()`, `diff()` and `what_if()` run the program
    `autopar-plan`, which is looked for in the folder AUTOPAR_BUILD_DIR and on the PATH (docs/report.md).
    """

    source: str  # the file, for messages and for the programs that read it again
    model_name: str
    graph_hash: str
    mesh_shape: tuple[int, ...]
    mesh_dim_names: tuple[str, ...]
    cluster: str
    status: str
    cost_ps: int
    bound_ps: int
    gap: float
    compute_ps: int
    communication_ps: int
    exposed_ps: int
    parameter_bytes: int
    memory_limit_bytes: int
    peak: Peak
    parameters: Mapping[str, Placements]
    nodes: Mapping[str, NodePlan]
    redistributions: Sequence[Redistribution]
    outputs: Sequence[OutputPlan]
    communication: Sequence[CommunicationTotal]
    recompute: tuple[str, ...]  # keys of forward nodes that run again in the backward
    meshes: tuple[MeshResult, ...] = ()  # the best first; empty where the mesh was given
    run: Mapping[str, float] | None = None  # how it was found; None: written with --reproducible
    progress: tuple[tuple[float, int | None, int], ...] = ()  # of the search: (seconds, cost_ps, bound_ps)

    def placements(self) -> dict[str, tuple[Placement, ...]]:
        """DTensor placements at rest of every parameter by its fully qualified name, for use without the rest of the
        plan: `distribute_tensor`, `distribute_module`, `parallelize_module`. `parameters` has them as text.
        """
        from .placements import to_torch

        return {name: tuple(map(to_torch, placed)) for name, placed in self.parameters.items()}

    def summary(self) -> str:
        """The plan in some lines: time, memory, placements of the parameters, communication."""
        from .summary import summary

        return summary(self)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from .notebook import notebook_html

        return notebook_html(self)

    def to_svg(self) -> str:
        """A picture of the modules, repeated layers folded, with the placements of their parameters and results."""
        from .picture import to_svg

        return to_svg(self)

    def nodes_table(self) -> pd.DataFrame:
        """A row per node, in the order in which they run."""
        from .tables import nodes_table

        return nodes_table(self)

    def parameters_table(self) -> pd.DataFrame:
        """A row per parameter: placements at rest, whole shape, bytes on one device."""
        from .tables import parameters_table

        return parameters_table(self)

    def communication_table(self) -> pd.DataFrame:
        """A row per mesh dims, collective and phase."""
        from .tables import communication_table

        return communication_table(self)

    def redistributions_table(self) -> pd.DataFrame:
        """A row per step of every redistribution."""
        from .tables import redistributions_table

        return redistributions_table(self)

    def memory_table(self, simulation: Simulation | None = None) -> pd.DataFrame:
        """Memory on one device over the step: by node, and by time with a simulation."""
        from .tables import memory_table

        return memory_table(self, simulation)

    def simulate(self) -> Simulation:
        """The plan's timeline on one device, by the simulator (docs/simulate.md)."""
        from .simulation import simulate

        return simulate(self)

    def explain(
        self,
        name: str,
        *,
        model: str | PathLike[str],
        want: str | None = None,
        constraints: str | PathLike[str] | None = None,
    ) -> Any:
        """What was chosen for a parameter, node or module and what else was possible: the JSON of `autopar-plan
        explain`. `want`: placements to ask about, such as "S(0),R" or "tp=R". `model`: the model.json that the plan is
        of; `constraints`: the file that it was searched under, if any.
        """
        from .programs import explain

        return explain(self, name, model=model, want=want, constraints=constraints)

    def diff(self, other: Plan) -> Any:
        """What differs between this plan and another: the JSON of `autopar-plan diff`."""
        from .programs import diff

        return diff(self, other)

    def what_if(
        self,
        pins: Mapping[str, Any],
        *,
        model: str | PathLike[str],
        constraints: str | PathLike[str] | None = None,
        output: str | PathLike[str] | None = None,
    ) -> Any:
        """What the step would cost with pins, such as {"layers.*.mlp.w1": {"tp": "S(0)"}}: the JSON of `autopar-plan
        what-if`. `model` and `constraints` as in `explain`; `output`: where the other plan goes.
        """
        from .programs import what_if

        return what_if(self, pins, model=model, constraints=constraints, output=output)

    def report(
        self,
        path: str | PathLike[str] = "report.html",
        *,
        model: str | PathLike[str] | None = None,
        constraints: str | PathLike[str] | None = None,
        log_dir: str | PathLike[str] | None = None,
    ) -> None:
        """Writes the plan as one page to look at in a browser (docs/report.md). With `model` (and `constraints`, as in
        `explain`) it says what else was possible; `log_dir`: that of autopar-search, for what each rank did.
        """
        from .report.run import make_report

        make_report(self.source, path, model, constraints, log_dir)
