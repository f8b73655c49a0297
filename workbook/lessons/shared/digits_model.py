"""The digits: their pictures, the weights of a linear classifier, and requests to classifiers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import measure, zoo
from ...common.errors import WorkbookError
from ...measure import style
from ...server import Server

Array = npt.NDArray[np.float32]


def scores(server: Server, model: str, pictures: Any) -> Any:
    """Send pictures in one request over HTTP, and return their scores.

    Args:
        server: the server that has the model.
        model: its name.
        pictures: an array (n, 1, 8, 8) of values from 0 to 1.

    Returns:
        An array (n, 10).

    Raises:
        ServerError: the server refused the request.

    Example:
        digits_model.scores(lab, "digits", pictures[:8]).argmax(1)
    """
    entry = {"name": "image", "shape": list(pictures.shape), "datatype": "FP32"}
    body = {"inputs": [{**entry, "data": pictures.ravel().tolist()}]}
    answer = server.request("POST", f"/v2/models/{model}/infer", json=body)
    return np.array(answer["outputs"][0]["data"], np.float32).reshape(len(pictures), -1)


def save_weights(path: Path) -> None:
    """Train a linear classifier of the digits, and save it as one array of 65 rows, 10 columns.

    Row i has the weight of pixel i for each digit; the last row is added to every score.

    Args:
        path: the file, e.g. `models / "digits/1/weights.npy"`. Folders above it are made.

    Example:
        save_weights(models / "digits/1/weights.npy")
    """
    from sklearn.linear_model import LogisticRegression

    split = zoo.data.digit_rows()
    trained = LogisticRegression(max_iter=1000).fit(split.x_train, split.y_train)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.vstack([trained.coef_.T, trained.intercept_]).astype(np.float32))


def show_pictures(pictures: Any) -> style.Picture:
    """Draw digits side by side.

    Args:
        pictures: an array (n, 1, 8, 8) of values from 0 to 1.

    Returns:
        A figure, which shows itself as a cell's last expression.

    Example:
        show_pictures(zoo.data.digits().x_test[:4])
    """
    figure = style.Picture(0.9 * len(pictures), 0.9, f"{len(pictures)} handwritten digits")
    for axes, picture in zip(
        np.atleast_1d(figure.subplots(1, len(pictures))), pictures, strict=True
    ):
        axes.imshow(picture[0], cmap="gray_r", vmin=0, vmax=1)
        axes.axis("off")
    return figure


def pictures() -> Array:
    """Return all 1,797 pictures of digits, as FP32 between 0 and 1, shape (1797, 1, 8, 8).

    Example:
        batch = digits_model.pictures()[:64]
    """
    split = zoo.data.digits()
    return np.concatenate([split.x_test, split.x_train])


def answers(server: Server, model: str, pictures: Array) -> Array:
    """Send one request per picture, all at once, and return the scores of a digits model.

    Args:
        pictures: an array (n, 1, 8, 8).

    Raises:
        WorkbookError: the server answered one of them with an error.
    """
    tensor = server.config(model)["input"][0]["name"]
    plan = [
        measure.Request(f"r{i}", inputs={tensor: picture[None]})
        for i, picture in enumerate(pictures)
    ]
    found = measure.send(server, model, plan)
    if any(found["error"]):
        raise WorkbookError(max(found["error"]), where=model)
    return np.concatenate([next(iter(outputs.values())) for outputs in found["outputs"]])
