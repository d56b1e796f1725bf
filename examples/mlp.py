"""A plain PyTorch model: two blocks of two layers with residuals.

python -m autopar export examples/mlp.py:mlp --mesh 8,4 --cluster h100
"""

import torch
from torch import nn

BATCH, SEQUENCE, WIDTH = 4, 2048, 256


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.down(nn.functional.gelu(self.up(x)))
        return out


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(self.blocks(x), target)


def mlp() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    # The export needs shapes only, and on the meta device tensors have nothing else.
    with torch.device("meta"):
        x = torch.empty(BATCH, SEQUENCE, WIDTH, dtype=torch.bfloat16)
        return Mlp().to(torch.bfloat16), (x, x.clone())
