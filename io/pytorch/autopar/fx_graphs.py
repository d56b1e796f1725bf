"""FX graphs that a program consists of: how they are recorded, and how they take their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.graph import _BoxedCodeGen


def record(function: Callable[..., list[Any]], *args: list[Any]) -> fx.GraphModule:
    """The graph of a call with these lists of fake tensors, as a function of all of them in a row."""
    sizes = [len(one) for one in args]

    def flat(*values: Any) -> list[Any]:
        remaining = iter(values)
        return function(*([next(remaining) for _ in range(size)] for size in sizes))

    return make_fx(flat)(*(value for one in args for value in one))


def results_of(graph_module: fx.GraphModule) -> list[Any]:
    """Fake tensors with the strides that the graph gives, each one of its own."""
    (nodes,) = graph_module.graph.output_node().args
    return [node.meta["val"].detach() for node in nodes]  # type: ignore[union-attr]


def take_over_arguments(graph_module: fx.GraphModule) -> None:
    """The graph takes its arguments as one list, which it empties, so that it can free each after its last use: a
    caller of arguments in a row holds them until it returns."""
    graph_module.graph.set_codegen(_BoxedCodeGen())
    graph_module.recompile()
    # For torch.compile, which can do so with lists of tensors only; what regions keep for their backward is none.
    if all(node.op != "call_module" for node in graph_module.graph.nodes):
        graph_module.meta["locals_to_steal"] = ["args_list"]
