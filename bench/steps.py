"""Compares predicted training steps with those that torchtitan published.

    .venv/bin/python bench/steps.py [--write]

With --write the table goes into docs/cost-models.md. The models are exported once, to build/bench.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs/cost-models.md"
BEGIN, END = "<!-- bench/steps.py -->\n", "<!-- end -->\n"
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
    compiled: bool = True
    cluster: str = "h100-96gb"


# torchtitan, benchmarks/llama3_h100_202412_torchtitan.md; the rows with TP: asyncTP_llama3_h100_2025-06_torchtitan.md;
# those of A100: docs/performance.md of 2024, which does not say whether they were compiled.
ROWS = [
    Row(
        model="llama3_8b", batch=16, mesh="dp=8", recipe="FSDP, selective, not compiled", tokens=5762, gib=82.4,
        pins=FSDP, recompute=SELECTIVE, compiled=False,
    ),
    Row(
        model="llama3_8b", batch=16, mesh="dp=8", recipe="FSDP, selective", tokens=6667, gib=77.0,
        pins=FSDP, recompute=SELECTIVE,
    ),
    Row(
        model="llama3_8b", batch=256, mesh="dp=128", recipe="FSDP, selective, not compiled", tokens=5605, gib=67.0,
        pins=FSDP, recompute=SELECTIVE, compiled=False,
    ),
    Row(
        model="llama3_8b", batch=256, mesh="dp=128", recipe="FSDP, selective", tokens=6514, gib=62.0,
        pins=FSDP, recompute=SELECTIVE,
    ),
    Row(
        model="llama3_8b", batch=96, mesh="dp=8,tp=8", recipe="FSDP × TP, selective", tokens=4378, gib=None,
        pins=fsdp_tp(), recompute=SELECTIVE_TP,
    ),
    Row(
        model="llama3_70b", batch=512, mesh="dp=32,tp=8", recipe="FSDP × TP, full", tokens=597, gib=None,
        pins=fsdp_tp(), recompute=FULL,
    ),
    Row(
        model="llama3_8b", batch=64, mesh="dp=64", recipe="FSDP, selective, not compiled", tokens=2973, gib=None,
        pins=FSDP, recompute=SELECTIVE, compiled=False, cluster="a100",
    ),
    Row(
        model="llama3_70b", batch=64, mesh="dp=64", recipe="FSDP, full, not compiled", tokens=331, gib=None,
        pins=FSDP, recompute=FULL, compiled=False, cluster="a100",
    ),
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """Seconds of one step on one device; the optimizer's step is not in `compute_s`.

    `fsdp_s` and `tp_s` are all communication, `step_s` has what of it does not hide.
    """

    step_s: float
    compute_s: float
    optimizer_s: float
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


def search(row: Row, program: Path) -> Prediction | str:
    """What the model predicts for the row's recipe, or why there is no plan for it."""
    constraints = {
        "format": "autopar-constraints",
        "version": 1,
        "compiled": row.compiled,
        "recompute": row.recompute,
        # What the recipe needs is the question, not what fits.
        "memory_limit_bytes": 1 << 50,
        **row.pins,
    }
    with tempfile.TemporaryDirectory() as folder:
        pins, plan_path = Path(folder) / "pins.json", Path(folder) / "plan.json"
        pins.write_text(json.dumps(constraints))
        command = [str(program), str(exported(row.model, row.batch)), "--mesh", row.mesh, "--cluster", row.cluster]
        command += ["--overlap", "model", "--constraints", str(pins), "-q", "-o", str(plan_path)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if not plan_path.exists():
            return run.stderr.strip().replace("\n", " ") or f"exit code {run.returncode}"
        plan = json.loads(plan_path.read_text())
    return predicted(plan)


def predicted(plan: dict[str, Any]) -> Prediction:
    totals = plan["totals"]
    optimizer_ps = sum(node["compute_ps"] for node in plan["nodes"].values() if node["op"] == "placeholder")
    by_dims: dict[bool, int] = defaultdict(int)
    for entry in totals["communication"]:
        by_dims["tp" in entry["mesh_dims"]] += entry["time_ps"]
    return Prediction(
        step_s=totals["cost_ps"] / PS_PER_S,
        compute_s=(totals["compute_ps"] - optimizer_ps) / PS_PER_S,
        optimizer_s=optimizer_ps / PS_PER_S,
        tp_s=by_dims[True] / PS_PER_S,
        fsdp_s=by_dims[False] / PS_PER_S,
        peak_gib=totals["peak"]["bytes"] / 2**30,
    )


def num_devices(mesh: str) -> int:
    devices = 1
    for dim in mesh.split(","):
        devices *= int(dim.partition("=")[2])
    return devices


def line(row: Row, result: Prediction | str) -> str:
    device = row.cluster.partition("-")[0].upper()
    name = f"{row.model.removeprefix('llama3_').upper()}, {num_devices(row.mesh)} {device}, {row.recipe}"
    if isinstance(result, str):
        return f"| {name} | {row.tokens} | {result} | | | | | | | | |"
    tokens = row.batch * SEQUENCE / num_devices(row.mesh) / result.step_s
    times = (f"{1e3 * s:.0f}" for s in (result.compute_s, result.tp_s, result.fsdp_s, result.optimizer_s))
    memory = f"{row.gib or '–'} | {result.peak_gib:.1f} | {error(result.peak_gib, row.gib)}"
    return f"| {name} | {row.tokens} | {tokens:.0f} | {error(tokens, row.tokens)} | {' | '.join(times)} | {memory} |"


def error(value: float, published: float | None) -> str:
    return f"{100 * (value / published - 1):+.0f}%" if published else ""


HEADER = """\
| step | tokens/s | predicted | error | compute ms | TP ms | FSDP ms | optimizer ms | GiB | predicted | error |
|-|-|-|-|-|-|-|-|-|-|-|
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares predicted training steps with published ones.")
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/autopar-search")
    parser.add_argument("--write", action="store_true", help="put the table into docs/cost-models.md")
    options = parser.parse_args()
    table = HEADER
    print(table, end="")
    failed = False
    for row in ROWS:
        result = search(row, options.program)
        failed |= isinstance(result, str)
        table += line(row, result) + "\n"
        print(line(row, result), flush=True)
    if options.write:
        text = DOCS.read_text()
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        DOCS.write_text(before + BEGIN + table + END + after)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
