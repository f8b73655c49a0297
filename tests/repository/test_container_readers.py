"""The containers of 24.10 and of 26.07 read every file that the course builds, and answer alike.

Each library is unpacked in the version of the release, in a temporary folder. Sources of the
versions:

- https://github.com/triton-inference-server/server/blob/r24.10/build.py (TRITON_VERSION_MAP), and
  the same file at r26.07: ONNX Runtime and OpenVINO;
- https://github.com/triton-inference-server/fil_backend/blob/r24.10/cmake/thirdparty/get_treelite.cmake,
  and the same file at r26.06 and main: Treelite;
- https://docs.nvidia.com/deeplearning/frameworks/tensorflow-release-notes/rel-24-10.html:
  TensorFlow 2.16.1, which the containers have up to 25.02.

Two formats are not read here. PyPI has PyTorch 2.5 only with CUDA (about 3 GB), so the version
number in the TorchScript file is compared. Only NVIDIA's own index has DALI 1.42.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import read_artefact

from tests import sources
from tests.wheels import unpack
from workbook import zoo
from workbook.common import paths
from workbook.zoo import classifiers, data
from workbook.zoo.demonstrations import LLAMAS, MODELS
from workbook.zoo.forests import save_xgboost

pytestmark = pytest.mark.timeout(1_200)  # in a fresh clone it trains the language model

#: The libraries of each release, and the SHA-256 of their wheels (for Python 3.11 and 3.12).
READERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "24.10": {
        "treelite==4.3.0": ("32e6c09796d11f0107adc35897d85f25c74ad2e53e0666df7fbbf57f1d545b1f",),
        "onnxruntime==1.19.2": (
            "a36511dc07c5c964b916697e42e366fa43c48cdb3d3503578d78cef30417cb84",
            "477b93df4db467e9cbf34051662a4b27c18e131fa1836e05974eae0d6e4cf29b",
        ),
        "openvino==2024.4.0": (
            "4bd3e21a70eff12166bae3b5ea824787b8c766f975f39e3f2d93729b47b74cb6",
            "d4cf229fb240b8af44d14686b5bdd94f9eabc70120b9808fc804252fac9ef615",
        ),
        "tensorflow-cpu==2.16.1": (
            "8fde4a1a1515f3099119c2d71e1653aa6e7ae81ec58b7cb045cab5e5bb147b8b",
            "aea6520308b1f15511e69bd40b52ba9478143e6e1e8e49d57cd36410321b7b6f",
        ),
    },
    "26.07": {
        "treelite==4.7.0": ("d616f1df2b8c7c6497cda2b8434fbcefe07fa897d269bdde3b48b11fd62393d9",),
        "onnxruntime==1.27.0": (
            "e4f7b0e90d2d212e2c2deaa6c8291616183ab815d3ec558ea12d3ac8b26d36f4",
            "7c65a7438632d55dfbc8a02ee60bd6cf7dd9d1ba05a43d4b851452f32338e194",
        ),
        "openvino==2026.2.0": (
            "90adabc9a46aaa5c052e8ac2bd10a017ff361ef5f68647d02f4ab8a5e54610e7",
            "c0b35490c2b7041d4a3855563bfec1843c508d235a9a287d8e0526330878fcba",
        ),
    },
}
#: Packages that TensorFlow 2.16 needs in an older version than the course has.
BESIDE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "tensorflow-cpu": {
        "ml-dtypes==0.3.2": (
            "2c34f2ba9660b21fe1034b608308a01be82bbef2a92fb8199f24dc6bad0d5226",
            "e8505946df1665db01332d885c2020b4cb9e84a8b1241eb4ba69d59591f65855",
        ),
        "protobuf==4.25.9": ("438c636de8fb706a0de94a12a268ef1ae8f5ba5ae655a7671fcda5968ba3c9be",),
    },
}
#: The reader of a file, by its ending. The others hold no model of a C++ backend.
BY_ENDING = {
    ".onnx": "onnxruntime",
    ".xml": "openvino",
    ".savedmodel": "tensorflow-cpu",
    ".json": "treelite",
    ".ubj": "treelite",
    ".txt": "treelite",
    ".tl": "treelite",
}


@dataclasses.dataclass(frozen=True)
class Artefact:
    """A model file, and inputs for it."""

    path: Path
    inputs: Mapping[str, Any]

    @property
    def reader(self) -> str:
        return BY_ENDING[self.path.suffix]


def inputs_of(model: str) -> dict[str, Any]:
    """Rows for a demonstration model."""
    if model.startswith("digits"):
        return {"image": data.digits().x_test[:5]}
    if model.startswith("forest"):
        split = data.digit_rows() if model == "forest_sklearn" else data.breast_cancer()
        return {"x": split.x_test[:20].astype(np.float32)}
    ones = np.ones((2, 64), np.int64)
    past = {"past": np.zeros((2, 12, 4, 0, 64), np.float32)} if model == "llama_onnx" else {}
    return {"input_ids": 5 * ones, "attention_mask": ones, **past}


def built() -> dict[str, Artefact]:
    """Every built file of the repository that a C++ backend serves, but model.pt and model.dali."""
    found = {}
    for model, files in (MODELS | LLAMAS).items():
        for file, source in files.items():
            name, _, within = source.partition("/")
            if Path(file).suffix in BY_ENDING and Path(file).name not in PYTHONS_OWN:
                path = zoo.checkpoint(name)
                found[f"{model}-{file[0]}"] = Artefact(path / within, inputs_of(model))
    return found


#: Read by a Python model, with what its own environment has.
PYTHONS_OWN = ("tokenizer.json", "config.json", "tokenizer_config.json")


def exporter() -> Any:
    """The function `export` that a4 gives to students."""
    import onnx
    import torch

    from workbook.common.errors import WorkbookError

    source = sources.read(paths.root() / "solutions" / "a4__production" / "a4.py")
    (cell,) = (cell for cell in source.cells if cell.id == "a4.exporter")
    names: dict[str, Any] = {"onnx": onnx, "torch": torch, "WorkbookError": WorkbookError}
    exec(cell.source, names)
    return names["export"]


def students(folder: Path) -> dict[str, Artefact]:
    """Files as the notebooks of a2 and a4 write them."""
    import lightgbm
    import torch
    import xgboost

    from grader.assignments.a2__forest.facts import RECIPE, RECIPE_LIGHTGBM, own_rows

    rows = own_rows("ada")
    given = rows.x_train, rows.y_train
    boosted = xgboost.XGBClassifier(**RECIPE).fit(*given)
    for ending in ("json", "ubj"):
        save_xgboost(boosted, folder / f"xgboost.{ending}")
    light = lightgbm.LGBMClassifier(**RECIPE_LIGHTGBM).fit(*given)
    light.booster_.save_model(folder / "model.txt")
    example = {"dynamic_shapes": ({0: torch.export.Dim("batch")},), "input_names": ["image"]}
    exporter()(classifiers.load("digits_cnn"), folder / "model.onnx", **example)
    inputs = {"model.onnx": {"image": data.digits().x_test[:5]}}
    return {
        f"student-{path.name}": Artefact(path, inputs.get(path.name, {"x": rows.x_test}))
        for path in folder.iterdir()
    }


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artefact]:
    return built() | students(tmp_path_factory.mktemp("students"))


@pytest.fixture
def thrown_away() -> Iterator[Path]:
    """A folder for a library: TensorFlow takes a gigabyte, and pytest would keep three of them."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def answers_of(
    requirement: str, hashes: tuple[str, ...], artefacts: Mapping[str, Artefact], folder: Path
) -> dict[str, Any]:
    """The answer of one version of a library for each file: an array, or its error as text."""
    library, jobs = folder / "library", folder / "jobs"
    jobs.mkdir()
    needed = {requirement: hashes, **BESIDE.get(requirement.partition("==")[0], {})}
    for i, (wheel, known) in enumerate(needed.items()):
        (folder / str(i)).mkdir()
        unpack(wheel, known, folder / str(i), library)
    for name, artefact in artefacts.items():
        (jobs / f"{name}.path").write_text(str(artefact.path))
        np.savez(jobs / f"{name}.npz", **artefact.inputs)
    command = [sys.executable, read_artefact.__file__, requirement, str(library), str(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return {
        name: np.load(answer)
        if (answer := jobs / f"{name}.answer.npy").exists()
        else (jobs / f"{name}.error").read_text()
        for name in artefacts
    }


@pytest.mark.server
@pytest.mark.parametrize(
    ("release", "requirement"),
    [(release, requirement) for release, needed in READERS.items() for requirement in needed],
)
def test_every_file_is_read_and_answers_alike(
    artefacts: dict[str, Artefact], thrown_away: Path, release: str, requirement: str
) -> None:
    reader = requirement.partition("==")[0]
    mine = {name: one for name, one in artefacts.items() if one.reader == reader}
    found = answers_of(requirement, READERS[release][requirement], mine, thrown_away)
    assert {name: answer for name, answer in found.items() if isinstance(answer, str)} == {}
    for name, artefact in mine.items():
        expected = read_artefact.READERS[reader](artefact.path, artefact.inputs)
        # Sums in another order; the second version of digits_onnx computes with 11 bits (fp16).
        bound = 5e-2 if name == "digits_onnx-2" else 1e-4
        np.testing.assert_allclose(found[name], expected, atol=bound, rtol=bound, err_msg=name)


@pytest.mark.server
def test_what_xgboost_writes_by_itself_is_refused_by_24_10(
    artefacts: dict[str, Artefact], thrown_away: Path
) -> None:
    """So the test above can fail, and `save_xgboost` is needed."""
    import xgboost

    split = data.breast_cancer()
    model = xgboost.XGBClassifier(n_estimators=3, base_score=0.5).fit(split.x_train, split.y_train)
    plain = {}
    for ending in ("json", "ubj"):
        model.save_model(thrown_away / f"plain.{ending}")
        plain[ending] = Artefact(thrown_away / f"plain.{ending}", {"x": split.x_test})
    needed = READERS["24.10"]["treelite==4.3.0"]
    found = answers_of("treelite==4.3.0", needed, plain, thrown_away)
    assert all(isinstance(answer, str) for answer in found.values()), found
    assert "Terminate parsing due to Handler error" in found["json"]


def test_all_kinds_of_built_files_have_a_reader_or_a_reason() -> None:
    # .bin belongs to .xml, .py to a Python model; "": Python's folders
    known = {*BY_ENDING, ".pt", ".dali", ".bin", ".py", ""}
    endings = {Path(f).suffix for files in (MODELS | LLAMAS).values() for f in files}
    assert endings - known - {".jinja"} == set()


@pytest.mark.server
@pytest.mark.parametrize("how", ["built", "script", "trace"])
def test_torchscript_files_have_a_version_that_pytorch_2_5_reads(how: str, tmp_path: Path) -> None:
    """It reads versions up to 10.

    Source: https://github.com/pytorch/pytorch/blob/v2.5.0/caffe2/serialize/versions.h
    """
    import torch

    path = zoo.checkpoint("digits_torchscript")
    if how != "built":  # as a3's notebook
        net, example = classifiers.load("digits_cnn"), (torch.zeros(2, 1, 8, 8),)
        made = torch.jit.script(net) if how == "script" else torch.jit.trace(net, example)
        path = tmp_path / "model.pt"
        made.save(path)
    with zipfile.ZipFile(path) as archive:
        (version,) = (name for name in archive.namelist() if name.endswith("/version"))
        assert 1 <= int(archive.read(version)) <= 10


def test_what_torch_exports_by_default_is_old_enough(tmp_path: Path) -> None:
    """Lectures show `torch.onnx.export` without an opset; ONNX Runtime 1.19 reads up to 21.

    Source: https://onnxruntime.ai/docs/reference/compatibility.html
    """
    import onnx
    import torch

    net, example = classifiers.load("digits_cnn"), (torch.zeros(2, 1, 8, 8),)
    for dynamo in (True, False):
        path = tmp_path / f"{dynamo}.onnx"
        torch.onnx.export(net, example, path, dynamo=dynamo, verbose=False)
        model = onnx.load(path)
        assert model.ir_version <= 10
        assert all(opset.version <= 21 for opset in model.opset_import)
