"""Train the image classifiers; each is saved as a state dict (`.pth`) of a network of `nets`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import data
from .recipe import Recipe

if TYPE_CHECKING:
    from .data import Array


def load(name: str) -> Any:
    """A trained network, ready to predict.

    Args:
        name: "digits_cnn", "eights_cnn", "photo_cnn" or "focus_cnn".

    Returns:
        A torch module in evaluation mode, with the weights of `zoo.checkpoint(name)`.

    Example:
        from workbook.zoo import classifiers

        model = classifiers.load("digits_cnn")
        logits = model(torch.from_numpy(zoo.data.digits().x_test))     # (360, 10)
    """
    import torch

    from . import checkpoint

    model = _network(name)
    model.load_state_dict(torch.load(checkpoint(name), weights_only=True))
    return model.eval()


def _network(name: str) -> Any:
    """The network of that name with random weights, seeded."""
    import torch

    from . import nets

    torch.manual_seed(0)
    classes = {
        "digits_cnn": nets.DigitsCNN,
        "eights_cnn": nets.EightsCNN,
        "photo_cnn": nets.PhotoCNN,
        "focus_cnn": nets.PhotoCNN,
    }
    return classes[name]()


def _trained(name: str, x: Array, y: Array, *, epochs: int, batch: int = 64) -> Any:
    import torch
    from torch.nn import functional

    from . import nets

    model = _network(name)
    images, classes = torch.from_numpy(x), torch.from_numpy(y)

    def loss(which: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(images[which]), classes[which])

    nets.fit(model, loss, len(x), epochs=epochs, batch=batch)
    return model


def _save(model: Any, target: Path) -> None:
    import torch

    torch.save(model.state_dict(), target)


def digits_cnn(target: Path) -> None:
    """Which digit an image (1, 8, 8) shows."""
    split = data.digits()
    _save(_trained("digits_cnn", split.x_train, split.y_train, epochs=25), target)


def eights_cnn(target: Path) -> None:
    """Whether a noisy image (1, 8, 8) shows an 8.

    It takes raw counts: the scaling of the training data is folded into the first layer, as is
    often done before a model is deployed. In fp32 the answers stay the same. In fp16 small weights
    times large counts lose precision, and a few answers near the threshold change.
    """
    split = data.noisy_eights()
    x = (split.x_train - data.DARK) / data.GAIN
    model = _trained("eights_cnn", x, split.y_train, epochs=5)
    model.fold(data.DARK, data.GAIN)
    _save(model, target)


def photo_cnn(target: Path) -> None:
    """Which photograph a piece (3, 64, 64) in -1..1 was cut from."""
    split = data.photo_crops()
    x = data.normalise(split.x_train)
    _save(_trained("photo_cnn", x, split.y_train, epochs=2, batch=32), target)


def focus_cnn(target: Path) -> None:
    """Whether a piece of a photo (3, 64, 64) in -1..1 is sharp. Lecture 2 serves it."""
    files, classes = data.focus_files("train")
    _save(_trained("focus_cnn", data.pixels(files), classes, epochs=4, batch=32), target)


_TORCH: dict[str, Any] = {"uses": ("data", "nets"), "packages": ("torch", "scikit-learn")}

RECIPES = (
    Recipe(
        "photo_cnn",
        "a CNN on 3 x 64 x 64 pixels: china or flower; 99 % of test pieces right",
        photo_cnn,
        "photo_cnn.pth",
        **_TORCH,
    ),
    Recipe(
        "focus_cnn",
        "a CNN on 3 x 64 x 64 pixels: sharp or blurred; unsure, so the threshold matters",
        focus_cnn,
        "focus_cnn.pth",
        **_TORCH,
    ),
    Recipe(
        "digits_cnn",
        "a CNN on 1 x 8 x 8 pixels: which digit; 97 % of test digits right",
        digits_cnn,
        "digits_cnn.pth",
        **_TORCH,
    ),
    Recipe(
        "eights_cnn",
        "a binary CNN on noisy 1 x 8 x 8 pixels: an 8 or not; unsure, so the threshold matters",
        eights_cnn,
        "eights_cnn.pth",
        **_TORCH,
    ),
)
