"""Compares predicted training steps with those that torchtitan published, and with the best plans for them.

    .venv/bin/python bench/steps.py [--search] [--write]

With --search the second table is made too; with --write the tables go into docs/cost-models.md. The models are exported
once, to build/bench.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsdp2

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs/cost-models.md"
BEGIN, END = "<!-- bench/steps.py{} -->\n", "<!-- end -->\n"
SEQUENCE = 8192
PS_PER_S = 1e12

# What torchtitan runs again. Its selective mode keeps attention and every second matmul of a layer, beginning with the
# first (torchtitan/parallelisms/parallelize_llama.py of 2024).
SELECTIVE = [
    "*layernorm/f/*",
    "*_proj/f/_to_copy",
    *(f"*{name}_proj/f/mm" for name in ("k", "o", "up")),
    *(f"*self_attn/f/{op}*" for op in ("_to_copy", "mul", "clone")),
    "*mlp/f/*",
    "*.layers.*[0-9]/f/add",
]
# With tensor parallelism it keeps what is reduced and scattered behind the attention's last matmul, too; here the sum
# that this goes into, of the same size.
SELECTIVE_TP = [pattern for pattern in SELECTIVE if "o_proj" not in pattern and not pattern.endswith("/f/add")]
FULL = ["*.layers.*"]

FSDP = {
    "parameters": {"*": {"dp": "S(0)"}},
    "inputs": {"*": {"dp": "S(0)"}},
    "nodes": {
        # Cast, then gathered; summed up in float32.
        "*_proj/f/_to_copy": {"dp": "S(0)"},
        "*lm_head/f/_to_copy": {"dp": "S(0)"},
        "*embed_tokens/f/_to_copy": {"dp": "S(0)"},
        "*_proj/b/_to_copy": {"dp": "P(sum)"},
        "*lm_head/b/_to_copy": {"dp": "P(sum)"},
        "*embed_tokens/b/_to_copy": {"dp": "P(sum)"},
        "*_proj/f/t": {"dp": "R"},
        "*lm_head/f/t": {"dp": "R"},
        "*_proj/f/mm": {"dp": "S(0)"},
        "*lm_head/f/mm": {"dp": "S(0)"},
        "*embed_tokens/f/embedding": {"dp": "S(0)"},
        "*_proj/b/mm": {"dp": "P(sum)"},
        "*lm_head/b/mm": {"dp": "P(sum)"},
    },
}


def fsdp_tp() -> dict[str, Any]:
    """Megatron's tensor parallelism with sequence parallelism inside hosts, parameters cut across them."""
    recipe: dict[str, Any] = json.loads((ROOT / "examples/recipes/fsdp_tp_sp.json").read_text())
    # What q, k and v, or gate and up, give for their common input is added up before it is reduced.
    recipe["nodes"]["*_proj/b/add"] = {"dp": "S(0)", "tp": "P(sum)"}
    return {name: recipe[name] for name in ("parameters", "inputs", "nodes")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A published step: tokens per second of one GPU, and its peak memory in GiB."""

    model: str
    batch: int
    mesh: str
    recipe: str
    tokens: int
    gib: float | None
    pins: dict[str, Any] = field(default_factory=dict)
    recompute: list[str] = field(default_factory=list)
    compiled: Sequence[str] = ()
    foreach: bool = True
    cluster: str = "h100-96gb"
    pipelined: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """Of the mesh dims; 1 if there is none."""
        return {"dp": 1, "tp": 1} | {name: int(size) for name, size in (dim.split("=") for dim in self.mesh.split(","))}

    @property
    def devices(self) -> int:
        return self.sizes["dp"] * self.sizes["tp"]

    @property
    def name(self) -> str:
        device = self.cluster.partition("-")[0].upper()
        return f"{self.model.removeprefix('llama3_').upper()}, {self.devices} {device}, {self.recipe}"


# Each layer is compiled for itself; the loss was not in 2024. The optimizer was not fused then either.
LAYERS = ["model.layers.*"]
LAYERS_AND_LOSS = [*LAYERS, "/f/*", "/b/*"]

# torchtitan, benchmarks/llama3_h100_202412_torchtitan.md; the rows with TP: asyncTP_llama3_h100_2025-06_torchtitan.md;
# those of A100: docs/performance.md of 2024, which does not say whether they were compiled.
ROWS = [
    Row(
        model="llama3_8b", batch=16, mesh="dp=8", recipe="FSDP, selective, not compiled", tokens=5762, gib=82.4,
        pins=FSDP, recompute=SELECTIVE,
    ),
    Row(
        model="llama3_8b", batch=16, mesh="dp=8", recipe="FSDP, selective", tokens=6667, gib=77.0,
        pins=FSDP, recompute=SELECTIVE, compiled=LAYERS,
    ),
    Row(
        model="llama3_8b", batch=256, mesh="dp=128", recipe="FSDP, selective, not compiled", tokens=5605, gib=67.0,
        pins=FSDP, recompute=SELECTIVE,
    ),
    Row(
        model="llama3_8b", batch=256, mesh="dp=128", recipe="FSDP, selective", tokens=6514, gib=62.0,
        pins=FSDP, recompute=SELECTIVE, compiled=LAYERS,
    ),
    Row(
        model="llama3_8b", batch=96, mesh="dp=8,tp=8", recipe="FSDP × TP, selective", tokens=4378, gib=None,
        pins=fsdp_tp(), recompute=SELECTIVE_TP, compiled=LAYERS_AND_LOSS, foreach=False,
    ),
    Row(
        model="llama3_8b", batch=96, mesh="dp=8,tp=8", recipe="FSDP × async TP, selective", tokens=4809, gib=None,
        pins=fsdp_tp(), recompute=SELECTIVE_TP, compiled=LAYERS_AND_LOSS, foreach=False, pipelined=True,
    ),
    Row(
        model="llama3_70b", batch=512, mesh="dp=32,tp=8", recipe="FSDP × TP, full", tokens=597, gib=None,
        pins=fsdp_tp(), recompute=FULL, compiled=LAYERS_AND_LOSS, foreach=False,
    ),
    Row(
        model="llama3_70b", batch=512, mesh="dp=32,tp=8", recipe="FSDP × async TP, full", tokens=652, gib=None,
        pins=fsdp_tp(), recompute=FULL, compiled=LAYERS_AND_LOSS, foreach=False, pipelined=True,
    ),
    Row(
        model="llama3_8b", batch=64, mesh="dp=64", recipe="FSDP, selective, not compiled", tokens=2973, gib=None,
        pins=FSDP, recompute=SELECTIVE, cluster="a100",
    ),
    Row(
        model="llama3_70b", batch=64, mesh="dp=64", recipe="FSDP, full, not compiled", tokens=331, gib=None,
        pins=FSDP, recompute=FULL, cluster="a100",
    ),
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """Seconds of one step on one device; the optimizer's step is not in `compute_s`.

    `fsdp_s` and `tp_s` are all communication, `step_s` has what of it does not hide.
    """

    step_s: float
    compute_s: float
    tensor_core_s: float
    tp_s: float
    fsdp_s: float
    peak_gib: float


def exported(model: str, batch: int) -> Path:
    path = ROOT / "build/bench" / f"titan-{model}-{batch}.json.gz"
    if not path.exists():
        sys.path[:0] = [str(ROOT / "io/pytorch")]
        import autopar
        import titan

        path.parent.mkdir(parents=True, exist_ok=True)
        autopar.export(*getattr(titan, model)(batch), path=path, name=model)
    return path


def with_pipelines(cluster: dict[str, Any]) -> dict[str, Any]:
    """With async tensor parallelism, at what its structure allows."""
    share = {"value": 1, "unit": "1", "source": "n - 1 of n pieces travel while others are multiplied"}
    return cluster | {"device": cluster["device"] | {"matmul_overlap": share}}


def search(row: Row, program: Path, limit: int, pins: dict[str, Any]) -> Prediction | str:
    """What the model predicts for the best plan with these pins, or why there is none."""
    constraints = {
        "format": "autopar-constraints",
        "version": 1,
        "compiled": list(row.compiled),
        "memory_limit_bytes": limit,
        **pins,
    }
    with tempfile.TemporaryDirectory() as folder:
        pins_path, plan_path = Path(folder) / "pins.json", Path(folder) / "plan.json"
        pins_path.write_text(json.dumps(constraints))
        cluster = row.cluster
        if row.pipelined:
            cluster = str(Path(folder) / "cluster.json")
            Path(cluster).write_text(json.dumps(with_pipelines(fsdp2.read_cluster(row.cluster))))
        command = [str(program), str(exported(row.model, row.batch)), "--mesh", row.mesh, "--cluster", cluster]
        command += ["--constraints", str(pins_path), "-q", "-o", str(plan_path)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if not plan_path.exists():
            return run.stderr.strip().replace("\n", " ") or f"exit code {run.returncode}"
        return predicted(json.loads(plan_path.read_text()))


def of_recipe(row: Row, program: Path) -> Prediction | str:
    # What the recipe needs is the question, not what fits.
    return search(row, program, 1 << 50, {"recompute": row.recompute, **row.pins})


def predicted(plan: dict[str, Any]) -> Prediction:
    totals = plan["totals"]
    optimizer_ps = tensor_core_ps = 0
    for node in plan["nodes"].values():
        if node["op"] == "placeholder":
            optimizer_ps += node["compute_ps"]
        elif "mm.default" in node["op"] or "dot_product" in node["op"]:
            tensor_core_ps += node["compute_ps"]
    by_dims: dict[bool, int] = defaultdict(int)
    for entry in totals["communication"]:
        by_dims["tp" in entry["mesh_dims"]] += entry["time_ps"]
    return Prediction(
        step_s=totals["cost_ps"] / PS_PER_S,
        compute_s=(totals["compute_ps"] - optimizer_ps) / PS_PER_S,
        tensor_core_s=tensor_core_ps / PS_PER_S,
        tp_s=by_dims[True] / PS_PER_S,
        fsdp_s=by_dims[False] / PS_PER_S,
        peak_gib=totals["peak"]["bytes"] / 2**30,
    )


def runs_beside(row: Row, result: Prediction) -> fsdp2.Beside:
    keeps_unread = not row.compiled and row.recompute is not FULL
    return fsdp2.beside(
        exported(row.model, row.batch),
        row.sizes["dp"],
        row.sizes["tp"],
        fsdp2.read_cluster(row.cluster),
        foreach=row.foreach,
        tensor_core_s=result.tensor_core_s,
        unread_tokens=row.batch * SEQUENCE / row.devices if keeps_unread else 0,
    )


def line(row: Row, result: Prediction | str) -> str:
    if isinstance(result, str):
        return f"| {row.name} | {row.tokens} | {result} | | | | | | | | | | |"
    beside = runs_beside(row, result)
    tokens = row.batch * SEQUENCE / row.devices
    plan, told = tokens / result.step_s, tokens / (result.step_s + beside.seconds)
    gib = result.peak_gib + beside.gib
    speed = f"{row.tokens} | {plan:.0f} | {error(plan, row.tokens)} | {told:.0f} | {error(told, row.tokens)}"
    times = (f"{1e3 * s:.0f}" for s in (result.compute_s, result.tp_s, result.fsdp_s, beside.seconds))
    memory = f"{row.gib or '–'} | {result.peak_gib:.1f} | {gib:.1f} | {error(gib, row.gib)}"
    return f"| {row.name} | {speed} | {' | '.join(times)} | {memory} |"


def error(value: float, published: float | None) -> str:
    return f"{100 * (value / published - 1):+.0f}%" if published else ""


HEADER = """\
| step | tokens/s | plan | error | with beside | error | compute ms | TP ms | FSDP ms | beside ms \
| GiB | plan | with beside | error |
|-|-|-|-|-|-|-|-|-|-|-|-|-|-|
"""

# Left for what the peak of a plan does not have: up to 9 GiB beside, CUDA's context, the buffers of NCCL.
RESERVE_BYTES = 12 << 30

SEARCH_HEADER = """\
| step | recipe ms | GiB | search ms | GiB | recipe ÷ search |
|-|-|-|-|-|-|
"""


def search_line(row: Row, recipe: Prediction | str, program: Path) -> str:
    """The recipe against the best plan that fits; recomputation is free there."""
    limit = int(fsdp2.value(fsdp2.read_cluster(row.cluster)["device"]["memory"])) - RESERVE_BYTES
    best = search(row, program, limit, {})
    if isinstance(recipe, str) or isinstance(best, str):
        return f"| {row.name} | {' '.join(result for result in (recipe, best) if isinstance(result, str))} | | | | |"
    times = f"{1e3 * recipe.step_s:.0f} | {recipe.peak_gib:.1f} | {1e3 * best.step_s:.0f} | {best.peak_gib:.1f}"
    return f"| {row.name} | {times} | {recipe.step_s / best.step_s:.2f} |"


def write(table: str, which: str) -> None:
    text = DOCS.read_text()
    begin = BEGIN.format(which)
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(END)
    DOCS.write_text(before + begin + table + END + after)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares predicted training steps with published ones.")
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/autopar-search")
    parser.add_argument("--search", action="store_true", help="compare each recipe with the best plan, too")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/cost-models.md")
    options = parser.parse_args()
    table = HEADER
    print(table, end="")
    results = []
    for row in ROWS:
        results.append(of_recipe(row, options.program))
        table += line(row, results[-1]) + "\n"
        print(line(row, results[-1]), flush=True)
    if options.write:
        write(table, "")
    if options.search:
        table = SEARCH_HEADER
        print("\n" + table, end="")
        for row, result in zip(ROWS, results, strict=True):
            table += search_line(row, result, options.program) + "\n"
            print(table.splitlines()[-1], flush=True)
        if options.write:
            write(table, " --search")
    return 1 if any(isinstance(result, str) for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
