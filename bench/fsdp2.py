"""What torchtitan's runtime does and holds beside the ops of a step: FSDP2, its optimizer, NCCL, unequal devices.

Nothing here is fitted: sizes follow from the model and from what the named sources do.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LAYER = "model.layers."
GIB = 2**30

# Bytes that each element of a gathered buffer moves when it is copied out to its parameter, in bfloat16
# (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_all_gather_copy_out).
COPY_OUT_BYTES = 4
# Clipping reads each gradient for its norm, then reads and writes it; all in float32.
CLIP_BYTES = 12
# torch/optim/adamw.py, _multi_tensor_adamw, op by op in float32: weight decay 8, lerp 12, mul 8, addcmul 12, sqrt 8,
# div 8, add 8, addcdiv 16. The search prices one pass, 28.
FOREACH_BYTES = 80 - 28
# A channel of NCCL is a block of threads that has a multiprocessor to itself (NVIDIA/nccl, issue 1656). There are 24
# inside a node of 8 A100 or H100 (NVIDIA/nccl-tests, issue 100; NVIDIA/nccl, issue 1259), 16 across nodes with 8
# network ports (NVIDIA/nccl, issue 1453), so 2 per port.
CHANNELS_IN_NODE = 24
CHANNELS_PER_PORT = 2
# Devices of one node of 8 differ by 5% and more in what matmuls reach (stas00/ml-engineering, compute/accelerator,
# "Not all accelerators are created equal"): 2.85 standard deviations are between the best and the worst of 8.
SPREAD = 0.05 / 2.85


@dataclass(frozen=True, kw_only=True, slots=True)
class Elements:
    """How many values one device has of the parameters before FSDP cuts them: of a layer, of all that is in none."""

    layer: float
    root: float
    layers: int
    width: int

    @property
    def all(self) -> float:
        return self.layers * self.layer + self.root


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """Seconds of a step and GiB of one device."""

    seconds: float
    gib: float


def elements(model: Path, tensor_parallel: int) -> Elements:
    with gzip.open(model) as file:
        inputs = json.load(file)["inputs"]
    in_layers = root = width = 0
    layers = set()
    for tensor in inputs:
        if tensor["role"] != "parameter":
            continue
        size = 1
        for dim in tensor["shape"]:
            size *= dim
        if tensor["name"].startswith(LAYER):
            layers.add(tensor["name"].removeprefix(LAYER).partition(".")[0])
            in_layers += size
        else:
            root += size
            width = tensor["shape"][-1]
    return Elements(
        layer=in_layers / len(layers) / tensor_parallel, root=root / tensor_parallel, layers=len(layers), width=width
    )


def value(constant: Any) -> float:
    return float(constant["value"])


def slowest(devices: int) -> float:
    """By how much of its time the slowest of them is behind the average (expected maximum of a normal: Blom 1958)."""
    return SPREAD * NormalDist().inv_cdf((devices - 0.375) / (devices + 0.25))


def multiprocessors_s(parameters: Elements, dp: int, tp: int, cluster: dict[str, Any]) -> float:
    """What kernels lose while NCCL has multiprocessors, at the bandwidth of the narrowest port."""
    inside, across = cluster["links"]
    per_node = inside["group"] // tp
    bandwidth = value(inside["bandwidth"]) if per_node > 1 else float("inf")
    channels = CHANNELS_IN_NODE
    if dp > per_node:
        bandwidth = min(bandwidth, per_node * value(across["bandwidth"]))
        channels = CHANNELS_PER_PORT * per_node
    # Gathered in bfloat16 for the forward and the backward, reduced in float32.
    collectives_s = (2 + 2 + 4) * parameters.all * (dp - 1) / dp / bandwidth
    return collectives_s * channels / value(cluster["device"]["multiprocessors"])


def beside(
    model: Path, dp: int, tp: int, cluster: dict[str, Any], *, foreach: bool, tensor_core_s: float, unread_tokens: float
) -> Beside:
    """`tensor_core_s`: of matmuls and attention.

    `unread_tokens`: of how many tokens the output of each layer's last matmul is kept. Not compiled, torchtitan's
    selective checkpointing does so, though nothing reads it.
    """
    parameters = elements(model, tp)
    bandwidth = value(cluster["device"]["memory_bandwidth"])
    # The last layer and what is in none stay gathered from the forward to the backward.
    gathered = (2 * parameters.layers - 1) * parameters.layer + parameters.root
    optimizer_bytes = (CLIP_BYTES + (FOREACH_BYTES if foreach else 0)) * parameters.all / dp
    seconds = (COPY_OUT_BYTES * gathered + optimizer_bytes) / bandwidth
    seconds += multiprocessors_s(parameters, dp, tp, cluster) + slowest(dp * tp) * tensor_core_s
    stay_gathered = 2 * parameters.root  # the plan has the last layer, prefetched for its backward
    # Freed memory is used again on the same stream only, and what is reported is all that is reserved. FSDP2 has a
    # stream for what is gathered (the buffers of two groups at most, each with the device's own piece) and one for
    # what is reduced (gradients in float32).
    streams = 2 * (parameters.layer + parameters.root) * (1 + 1 / dp) + 4 * parameters.all / dp
    unread = 2 * unread_tokens * parameters.width * parameters.layers
    return Beside(seconds=seconds, gib=(stay_gathered + streams + unread) / GIB)


def read_cluster(name: str) -> dict[str, Any]:
    cluster: dict[str, Any] = json.loads((ROOT / f"costs/clusters/{name}.json").read_text())
    return cluster
