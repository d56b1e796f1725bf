"""Reads plan.json, and checks what it reads: plans may be edited by hand."""

from __future__ import annotations

import gzip
import json
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

from .errors import PlanError
from .plan import (
    LOCAL_STEPS,
    PHASES,
    PLACEMENT,
    Collective,
    CommunicationTotal,
    MeshResult,
    NodePlan,
    OutputPlan,
    Overlap,
    Peak,
    Placements,
    Plan,
    Redistribution,
    Step,
)

FORMAT = "autopar-plan"
VERSION = 1
GZIP_MAGIC = b"\x1f\x8b"
STEPS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", *LOCAL_STEPS)
MEMORY_KINDS = ("parameters", "optimizer", "gradients", "inputs", "saved", "temporary")


def load_plan(path: str | PathLike[str]) -> Plan:
    """Reads a plan.json, or a plan.json.gz. Raises PlanError, which names the file and the place in it."""
    try:
        content = Path(path).read_bytes()
        if content.startswith(GZIP_MAGIC):
            content = gzip.decompress(content)
        return parse_plan(content.decode("utf-8"), str(path))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise PlanError(f"{path}: is no whole gzip file: {error}") from error
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{path}: is no text in UTF-8: {error}") from error


def parse_plan(text: str, source: str) -> Plan:
    """The plan in the text of a plan.json; messages call it `source`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{source}: is no JSON: {error}") from error
    reader = _Reader(source)
    plan = reader.plan(document)
    reader.check_overlaps(plan)
    return plan


class _Reader:
    """Checks what it reads: plans may be edited by hand."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._dims: tuple[str, ...] = ()

    def fail(self, place: str, text: str) -> PlanError:
        return PlanError(f"{self._path}: {place}: {text}")

    def get(self, holder: Any, place: str, key: str, kind: type | tuple[type, ...]) -> Any:
        """`holder[key]`, which must be of type `kind`."""
        if not isinstance(holder, dict):
            raise self.fail(place, f"want an object, found {_shown(holder)}")
        if key not in holder:
            raise self.fail(place, f'"{key}" is missing')
        value = holder[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise self.fail(f"{place}.{key}" if place else key, f"want {names}, found {_shown(value)}")
        return value

    def plan(self, root: Any) -> Plan:
        if not isinstance(root, dict) or root.get("format") != FORMAT:
            raise self.fail("format", f'is no plan: want "format": "{FORMAT}"')
        if root.get("version") != VERSION:
            raise self.fail("version", f"this program reads version {VERSION}, found {_shown(root.get('version'))}")
        mesh = self.get(root, "", "mesh", dict)
        shape = self.get(mesh, "mesh", "shape", list)
        self._dims = self.strings(mesh, "mesh", "dim_names")
        if not shape or not all(type(size) is int and size > 0 for size in shape) or len(shape) != len(self._dims):
            raise self.fail("mesh", f"want one positive size per dim name, found {_shown(mesh)}")
        model, result, totals = (self.get(root, "", key, dict) for key in ("model", "result", "totals"))
        parameters = self.get(root, "", "parameters", dict)
        redistributions = self.get(root, "", "redistributions", list)
        outputs = self.get(root, "", "outputs", list)
        return Plan(
            source=self._path,
            model_name=self.get(model, "model", "name", str),
            graph_hash=self.get(model, "model", "graph_hash", str),
            mesh_shape=tuple(shape),
            mesh_dim_names=self._dims,
            cluster=self.get(self.get(root, "", "cluster", dict), "cluster", "name", str),
            status=self.get(result, "result", "status", str),
            cost_ps=self.get(result, "result", "cost_ps", int),
            bound_ps=self.get(result, "result", "bound_ps", int),
            gap=float(self.get(result, "result", "gap", (int, float))),
            compute_ps=self.get(totals, "totals", "compute_ps", int),
            communication_ps=self.get(totals, "totals", "communication_ps", int),
            exposed_ps=self.get(totals, "totals", "exposed_ps", int),
            parameter_bytes=self.get(totals, "totals", "parameter_bytes", int),
            memory_limit_bytes=self.get(totals, "totals", "memory_limit_bytes", int),
            peak=self.peak(self.get(totals, "totals", "peak", dict)),
            parameters={name: self.placements(placed, f"parameters.{name}") for name, placed in parameters.items()},
            nodes={key: self.node(node, key) for key, node in self.get(root, "", "nodes", dict).items()},
            redistributions=[self.redistribution(one, index) for index, one in enumerate(redistributions)],
            outputs=[self.output(one, f"outputs[{index}]") for index, one in enumerate(outputs)],
            communication=[
                self.total(one, f"totals.communication[{i}]")
                for i, one in enumerate(self.get(totals, "totals", "communication", list))
            ],
            recompute=self.strings(root, "", "recompute"),
            meshes=tuple(
                self.mesh(one, f"meshes[{index}]")
                for index, one in enumerate(self.get(root, "", "meshes", list) if "meshes" in root else [])
            ),
            run=self.run(self.get(root, "", "run", dict)) if "run" in root else None,
            progress=self.progress(root["run"]) if "run" in root else (),
        )

    def peak(self, value: dict[str, Any]) -> Peak:
        place = "totals.peak"
        return Peak(
            bytes=self.get(value, place, "bytes", int),
            node=self.get(value, place, "node", (str, type(None))),
            kinds={kind: self.get(value, place, f"{kind}_bytes", int) for kind in MEMORY_KINDS},
        )

    def mesh(self, value: Any, place: str) -> MeshResult:
        mesh = self.get(value, place, "mesh", dict)

        def time(key: str) -> Any:
            return None if "left_out" in value else self.get(value, place, key, (int, type(None)))

        return MeshResult(
            shape=tuple(self.get(mesh, f"{place}.mesh", "shape", list)),
            dim_names=self.strings(mesh, f"{place}.mesh", "dim_names"),
            cost_ps=time("cost_ps"),
            bound_ps=time("bound_ps"),
            left_out=self.get(value, place, "left_out", str) if "left_out" in value else None,
        )

    def run(self, value: dict[str, Any]) -> dict[str, float]:
        return {key: self.get(value, "run", key, (int, float)) for key in value if key != "progress"}

    def progress(self, run: dict[str, Any]) -> tuple[tuple[float, int | None, int], ...]:
        points = self.get(run, "run", "progress", list) if "progress" in run else []
        for index, point in enumerate(points):
            kinds = ((int, float), (int, type(None)), (int,))
            if not isinstance(point, list) or len(point) != 3 or not all(map(isinstance, point, kinds)):
                raise self.fail(f"run.progress[{index}]", f"want [seconds, cost_ps, bound_ps], found {_shown(point)}")
        return tuple(map(tuple, points))

    def total(self, value: Any, place: str) -> CommunicationTotal:
        return CommunicationTotal(
            collective=self.get(value, place, "collective", str),
            mesh_dims=self.mesh_dims(value, place),
            count=self.get(value, place, "count", int),
            bytes=self.get(value, place, "bytes", int),
            time_ps=self.get(value, place, "time_ps", int),
        )

    def strings(self, holder: Any, place: str, key: str, *, nulls: bool = False) -> tuple[Any, ...]:
        listed = self.get(holder, place, key, list)
        if not all(isinstance(one, str) or (nulls and one is None) for one in listed):
            raise self.fail(f"{place}.{key}" if place else key, f"want a list of strings, found {_shown(listed)}")
        return tuple(listed)

    def placements(self, value: Any, place: str) -> Placements:
        if not isinstance(value, list) or len(value) != len(self._dims):
            raise self.fail(place, f"want {len(self._dims)} placements, one per mesh dim; found {_shown(value)}")
        for one in value:
            if not isinstance(one, str) or not PLACEMENT.fullmatch(one):
                raise self.fail(place, f"want placements such as R, S(0) or P(sum), found {_shown(one)}")
        return tuple(value)

    def mesh_dims(self, holder: Any, place: str) -> tuple[int, ...]:
        names = self.get(holder, place, "mesh_dims", list)
        unknown = [name for name in names if name not in self._dims]
        if unknown or not names:
            raise self.fail(f"{place}.mesh_dims", f"want names of mesh dims ({', '.join(self._dims)}), found {names}")
        return tuple(sorted(self._dims.index(name) for name in names))

    def node(self, node: Any, key: str) -> NodePlan:
        place = f"nodes.{key}"
        outputs = self.get(node, place, "outputs", list)
        tensors = self.strings(node, place, "tensors", nulls=True)
        if len(tensors) != len(outputs):
            raise self.fail(f"{place}.tensors", f"want one per output ({len(outputs)}), found {_shown(list(tensors))}")
        programs = self.strings(node, place, "programs") if "programs" in node else ()
        collectives = self.get(node, place, "collectives", list) if "collectives" in node else []
        if programs and len(programs) != len(self._dims):
            raise self.fail(f"{place}.programs", f"want one per mesh dim, found {_shown(programs)}")
        inputs = self.get(node, place, "inputs", list)
        phase = self.get(node, place, "phase", str) if "phase" in node else None
        if phase not in (None, *PHASES):
            raise self.fail(f"{place}.phase", f"want {' or '.join(PHASES)}, found {_shown(phase)}")
        return NodePlan(
            op=self.get(node, place, "op", str),
            inputs=tuple(self.placements(one, f"{place}.inputs[{i}]") for i, one in enumerate(inputs)),
            outputs=tuple(
                None if one is None else self.placements(one, f"{place}.outputs[{i}]") for i, one in enumerate(outputs)
            ),
            tensors=tensors,
            compute_ps=self.get(node, place, "compute_ps", int),
            memory_bytes=self.get(node, place, "memory_bytes", int) if "memory_bytes" in node else None,
            programs=programs,
            collectives=tuple(self.collective(one, f"{place}.collectives[{i}]") for i, one in enumerate(collectives)),
            phase=phase,
            reads=self.reads(node, place, len(inputs)) if "reads" in node else (),
        )

    def reads(self, node: Any, place: str, num_inputs: int) -> tuple[tuple[str, int], ...]:
        listed = self.get(node, place, "reads", list)
        values = [(one, 0) if isinstance(one, str) else tuple(one) if isinstance(one, list) else () for one in listed]
        if len(values) != num_inputs or not all(list(map(type, value)) == [str, int] for value in values):
            want = f"want a key, or a key and an output, for each of {num_inputs} inputs"
            raise self.fail(f"{place}.reads", f"{want}; found {_shown(listed)}")
        return tuple((key, output) for key, output in values)

    def collective(self, value: Any, place: str) -> Collective:
        if self.get(value, place, "step", str) != "all_reduce":
            raise self.fail(f"{place}.step", 'local programs know "all_reduce" only')
        return Collective(
            mesh_dims=self.mesh_dims(value, place),
            bytes=self.get(value, place, "bytes", int),
            dtype=self.get(value, place, "dtype", str),
            time_ps=self.get(value, place, "time_ps", int),
        )

    def redistribution(self, value: Any, index: int) -> Redistribution:
        place = f"redistributions[{index}]"
        dtype = self.get(value, place, "dtype", str)
        uses = []
        graph_outputs = []
        for i, use in enumerate(self.get(value, place, "uses", list)):
            if isinstance(use, dict) and "graph_output" in use:
                graph_outputs.append(self.get(use, f"{place}.uses[{i}]", "graph_output", int))
            else:
                node = self.get(use, f"{place}.uses[{i}]", "node", str)
                uses.append((node, self.get(use, f"{place}.uses[{i}]", "input", int)))
        steps = self.get(value, place, "steps", list)
        return Redistribution(
            value=self.get(value, place, "value", str),
            output=self.get(value, place, "output", int),
            phase=self.get(value, place, "phase", str),
            source=self.placements(self.get(value, place, "from", list), f"{place}.from"),
            target=self.placements(self.get(value, place, "to", list), f"{place}.to"),
            dtype=dtype,
            steps=tuple(self.step(one, f"{place}.steps[{i}]", dtype) for i, one in enumerate(steps)),
            uses=tuple(uses),
            graph_outputs=tuple(graph_outputs),
            is_saved=self.get(value, place, "is_saved", bool) if "is_saved" in value else False,
            overlap=self.overlap(value, place) if "start" in value or "finish" in value else None,
            pipelined_ps=self.get(value, place, "pipelined_ps", int) if "pipelined_ps" in value else 0,
        )

    def overlap(self, value: Any, place: str) -> Overlap:
        start = self.get(value, place, "start", str)
        if value.get("finish", "") is None:
            return Overlap(start=start, finish=None)
        return Overlap(start=start, finish=self.get(value, place, "finish", str))

    def check_overlaps(self, plan: Plan) -> None:
        """Nodes of one phase stand in the order in which they run."""
        turns = {key: turn for turn, key in enumerate(plan.nodes)}
        for index, entry in enumerate(plan.redistributions):
            if entry.overlap is None:
                continue
            place = f"redistributions[{index}]"
            start, finish = entry.overlap.start, entry.overlap.finish
            for name, key in (("start", start), ("finish", finish)):
                if key is not None and (key not in turns or plan.nodes[key].phase != entry.phase):
                    raise self.fail(f"{place}.{name}", f"want a node of the {entry.phase}, found {_shown(key)}")
            if finish is not None and turns[finish] <= turns[start]:
                raise self.fail(f"{place}.finish", f"want a node behind {start}, found {_shown(finish)}")

    def step(self, value: Any, place: str, dtype: str) -> Step:
        kind = self.get(value, place, "step", str)
        if kind not in STEPS:
            raise self.fail(f"{place}.step", f"want one of {', '.join(STEPS)}, found {_shown(kind)}")
        return Step(
            kind=kind,
            mesh_dims=self.mesh_dims(value, place),
            to=self.placements(self.get(value, place, "to", list), f"{place}.to"),
            bytes=self.get(value, place, "bytes", int),
            dtype=self.get(value, place, "dtype", str) if "dtype" in value else dtype,
            time_ps=self.get(value, place, "time_ps", int),
        )

    def output(self, value: Any, place: str) -> OutputPlan:
        return OutputPlan(
            value=self.get(value, place, "value", str),
            output=self.get(value, place, "output", int),
            role=self.get(value, place, "role", str),
            of=self.get(value, place, "of", str) if "of" in value else None,
            placements=self.placements(self.get(value, place, "placements", list), f"{place}.placements"),
        )


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
