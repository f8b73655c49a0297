"""The networks of the zoo and their training loop. Imports torch: import this module late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import torch
from torch import nn

Array = npt.NDArray[Any]


class DigitsCNN(nn.Module):  # type: ignore[misc]
    """Images (n, 1, 8, 8) float32 in 0..1 → logits (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Linear(32 * 4 * 4, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits of each class."""
        return self.head(self.features(image).flatten(1))


class EightsCNN(nn.Module):  # type: ignore[misc]
    """Images (n, 1, 8, 8) float32, raw counts of a camera → logits (n, 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Linear(32 * 3 * 3, 2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits of each class."""
        return self.head(self.features(image).flatten(1))

    def fold(self, offset: float, scale: float) -> None:
        """Move the scaling `(image - offset) / scale` of the input into the first layer.

        The first convolution has no padding, so the answers stay the same up to rounding. With
        w' = w / scale and b' = b - offset · Σw', w' * x + b' equals w * (x - offset) / scale + b.
        """
        first = self.features[0]
        with torch.no_grad():
            first.weight /= scale
            first.bias -= offset * first.weight.sum((1, 2, 3))


class PhotoCNN(nn.Module):  # type: ignore[misc]
    """Photo pieces (n, 3, 64, 64) float32 in -1..1 → logits (n, 2).

    About 60 million multiplications per image: a batch of eight takes some 10 ms on one core.
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in ((3, 32), (32, 64), (64, 96), (96, 128)):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(128, 2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits of each class."""
        return self.head(self.features(image).mean((2, 3)))


def fit(
    model: nn.Module,
    loss: Callable[[torch.Tensor], torch.Tensor],
    examples: int,
    *,
    epochs: int,
    batch: int = 64,
    rate: float = 3e-3,
    decay: float = 1e-2,
) -> None:
    """Train with AdamW under a one-cycle learning rate, then switch to evaluation.

    Args:
        loss: from the indices of a batch's examples (an int64 tensor) to their mean loss.
        examples: how many examples there are.
        rate: the highest learning rate.
        decay: the weight decay.
    """
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    steps = epochs * (examples // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(examples)
        for start in range(0, examples - batch + 1, batch):
            optimizer.zero_grad()
            loss(order[start : start + batch]).backward()
            optimizer.step()
            schedule.step()
    model.eval()


def predict(model: nn.Module, x: Array, batch: int = 256) -> Array:
    """The model's logits for these examples, as float32."""
    with torch.inference_mode():
        parts = [model(torch.from_numpy(x[i : i + batch])) for i in range(0, len(x), batch)]
    return torch.cat(parts).numpy()  # type: ignore[no-any-return]
