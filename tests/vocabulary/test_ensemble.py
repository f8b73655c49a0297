"""`require.ensemble_equals_parts` on a real server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from grader.vocabulary import require, tolerance
from grader.vocabulary.probe import Probe
from tests.vocabulary.conftest import Put
from tests.vocabulary.expect import fails_with
from tests.vocabulary.python_models import config

pytestmark = [pytest.mark.server, pytest.mark.quick]

DELAY = "dynamic_batching { max_queue_delay_microseconds: 100000 }"
PART = config("x FP32 2", "y FP32 2", DELAY)


def ensemble(*steps: str, output: str = "score FP32 2") -> str:
    """The config of an ensemble; a step is `model version from to`."""
    name, kind, dims = output.split()
    lines = [
        'platform: "ensemble"',
        "max_batch_size: 8",
        'input { name: "raw" data_type: TYPE_FP32 dims: [ 2 ] }',
        f'output {{ name: "{name}" data_type: TYPE_{kind} dims: [ {dims} ] }}',
        "ensemble_scheduling {",
    ]
    for step in steps:
        model, version, source, target = step.split()
        lines.append(
            f'step {{ model_name: "{model}" model_version: {version} '
            f'input_map {{ key: "x" value: "{source}" }} '
            f'output_map {{ key: "y" value: "{target}" }} }}'
        )
    return "\n".join([*lines, "}"])


@pytest.fixture(scope="module")
def parts(probe: Probe) -> Probe:
    """The models that the ensembles are made of."""
    from tests.vocabulary.python_models import model

    models = {
        "plus": ("answer(y=x + 1)", PART, 1),
        "times": ("answer(y=x * self.version)", PART, 3),
        # It gives every request of a batch the first one's answer.
        "mixes": (
            "self.first = x if request is requests[0] else self.first\nanswer(y=self.first)",
            PART,
            1,
        ),
        "names": (
            "answer(y=np.array([[str(v).encode() for v in row] for row in x], object))",
            PART.replace('"y" data_type: TYPE_FP32', '"y" data_type: TYPE_STRING'),
            1,
        ),
        "counts": (
            "self.n = getattr(self, 'n', 0) + 1\n"
            "answer(y=np.array([[str(self.n + v).encode() for v in row] for row in x], object))",
            PART.replace('"y" data_type: TYPE_FP32', '"y" data_type: TYPE_STRING'),
            1,
        ),
    }
    for name, (body, stated, versions) in models.items():
        for version in range(1, versions + 1):
            folder = probe.server.repository / name / str(version)
            folder.mkdir(parents=True)
            (folder / "model.py").write_text(model(body)["1/model.py"])
        text = stated + ("version_policy { all { } }" if versions > 1 else "")
        (probe.server.repository / name / "config.pbtxt").write_text(text)
    return probe


REQUESTS = [{"raw": np.float32([[n, -n]])} for n in range(4)]


@pytest.mark.parametrize(
    ("name", "stated", "words"),
    [
        # The steps may be written in any order.
        ("right", ensemble("times -1 mid score", "plus -1 raw mid"), ()),
        (
            "right_names",
            ensemble("plus -1 raw mid", "names -1 mid word", output="word STRING 2"),
            (),
        ),
        (
            "old_version",
            ensemble("plus -1 raw mid", "times 1 mid score"),
            (
                "The values of score in answer 1 of 4 of old_version differ in 1 of 1 rows",
                "compared with what plus and times answer one after the other. Which version?",
            ),
        ),
        (
            "mixed",
            ensemble("plus -1 raw mid", "mixes -1 mid score"),
            ("The values of score in answer", "of mixed differ in 1 of 1 rows"),
        ),
        (
            "counted",
            ensemble("plus -1 raw mid", "counts -1 mid word", output="word STRING 2"),
            ("The values of word in answer 1 of 4 of counted differ.",),
        ),
        (
            "without_a_part",
            ensemble("times -1 raw score"),
            ("The steps of without_a_part are times; plus is not among them.",),
        ),
    ],
)
def test_ensembles(
    name: str,
    stated: str,
    words: tuple[str, ...],
    parts: Probe,
    write_model: Callable[..., Path],
) -> None:
    (write_model(name, stated) / "1").mkdir()

    def check() -> list[dict[str, np.ndarray]]:
        return require.ensemble_equals_parts(
            parts,
            name,
            REQUESTS,
            uses=("plus",),
            tolerance=tolerance.rounding(),
            help="Which version?",
        )

    if words:
        with fails_with(*words):
            check()
    elif name == "right":
        assert [answer["score"].tolist() for answer in check()] == [
            [[3 * (n + 1), 3 * (1 - n)]] for n in range(4)
        ]
    else:
        assert check()[1]["word"].tolist() == [[b"2.0", b"0.0"]]


def test_what_is_no_ensemble(put: Put, probe: Probe) -> None:
    put("alone", "answer(y=x)")
    with fails_with("alone, as the server parsed it, has no ensemble_scheduling", "platform"):
        require.ensemble_equals_parts(
            probe, "alone", [{"x": np.float32([[1, 2]])}], tolerance=tolerance.rounding()
        )
