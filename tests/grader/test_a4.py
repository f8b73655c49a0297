"""Tests for a4__production only. test_assignments.py has the tests for every assignment."""

from __future__ import annotations

import io
import itertools
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot
import numpy as np
import onnx
import pytest
import torch
from onnxconverter_common import float16

from grader.assignments.a4__production import checks, facts, files, hidden
from grader.assignments.a4__production import fp16 as a4_fp16
from grader.assignments.a4__production import network as a4_network
from grader.assignments.a4__production import serving as models
from grader.assignments.a4__production.network import Network
from grader.authoring import mutants
from grader.vocabulary import collect, onnx_file, require, state_dict, tensorrt_engine
from grader.vocabulary.failure import Failure, NotAttempted
from grader.vocabulary.probe import Probe
from grader.vocabulary.tolerance import Tolerance
from tests import sources
from tests.assignment_runs import as_the_students
from workbook import assignments
from workbook.common.errors import WorkbookError
from workbook.server import Triton
from workbook.zoo import engines, nets

pytestmark = pytest.mark.server

ASSIGNMENT = assignments.named("a4")
STUDENTS = ("self-study", "anna", "çetin")


@pytest.fixture(scope="module", autouse=True)
def notebooks_find_the_server(server: Triton) -> Iterator[None]:
    with as_the_students(server):
        yield


def file(value: Any, **how: Any) -> np.ndarray[Any, Any]:
    """The bytes that `torch.save` writes, in the form that a check takes."""
    target = io.BytesIO()
    torch.save(value, target, **how)
    return np.frombuffer(target.getvalue(), np.uint8)


def folded(me: str) -> tuple[facts.Camera, nets.EightsCNN]:
    camera, network = facts.own_camera(me), facts.trained(me)
    network.fold(camera.black, camera.gain)
    return camera, network


def test_mutants_are_many() -> None:
    assert len([one for one in mutants.load(ASSIGNMENT) if not one.right]) >= 20


def test_each_student_has_a_camera_of_their_own() -> None:
    """An id in any case gives the same camera; another id gives another one."""
    anna, berta = facts.own_camera("anna"), facts.own_camera("berta")
    assert facts.own_camera(" Anna ") is anna
    assert (anna.black, anna.gain) != (berta.black, berta.gain)
    assert anna.pictures.shape == (facts.PICTURES, 1, 8, 8)
    assert 0.08 < anna.is_eight.mean() < 0.12
    for wrong in ("", 7, None):
        with pytest.raises(Failure, match="no student's id"):
            facts.own_camera(wrong)  # type: ignore[arg-type]


def right_thresholds(camera: facts.Camera, scores: np.ndarray[Any, Any]) -> list[float]:
    """The thresholds that find the most eights with enough precision, one per interval."""
    order = np.argsort(-scores)
    hits = np.cumsum(camera.is_eight[order])
    enough = hits / np.arange(1, len(order) + 1) >= facts.PRECISION
    assert models.most_found(scores, camera.is_eight) == hits[enough].max()
    best = np.flatnonzero(enough & (hits == hits[enough].max()))
    return [float(scores[order[last : last + 2]].mean()) for last in best]


@pytest.mark.parametrize("me", STUDENTS)
def test_the_task_is_interesting_for_everybody(me: str) -> None:
    """fp16 changes verdicts, a threshold restores some and not all, and fp32 changes none."""
    camera, network = folded(me)
    known = models.known(me, file(network.state_dict()))
    scores = nets.predict(network, camera.pictures)[:, facts.EIGHT].astype(float)
    limits = right_thresholds(camera, scores)
    assert limits
    half = known.network.in_half(camera.pictures)[:, facts.EIGHT]
    allowed = facts.ALLOWED * facts.PICTURES / 1_000
    for limit in limits:
        changed = ((half > limit) != (scores > limit)).sum()
        assert changed > models.fewest(half, scores > limit) > allowed
    assert models.found_at(known.logits, camera.is_eight) > 1.3 * models.LEAST_FOUND


@pytest.mark.parametrize(
    ("least", "most", "words"),
    [
        (1e-4, 1e4, r"^All its numbers lie between 0.0001 and \d"),
        (1e-7, 1e-3, r"^It is another network, or from before you folded\."),
    ],
)
def test_weights_that_the_converter_has_cut_are_no_other_network(
    least: float, most: float, words: str
) -> None:
    """`min_positive_val` and `max_finite_val` change numbers; most numbers stay as they are."""
    _, folded_network = folded(STUDENTS[0])
    network = models.known(STUDENTS[0], file(folded_network.state_dict())).network
    held = [
        onnx_file.Numbers(
            "FLOAT16",
            np.copysign(np.clip(np.abs(tensor), least, most), tensor)
            .astype(np.float16)
            .astype(float),
        )
        for tensor in network.weights.values()
    ]
    with pytest.raises(Failure, match="does not hold") as caught:
        files.holds(held, "m/1/model.onnx", network, "FLOAT16", "")
    assert re.search(words, caught.value.help), caught.value.help


@pytest.mark.parametrize("me", STUDENTS)
def test_numpy_computes_what_torch_does(me: str) -> None:
    """Within a tolerance that is small beside what fp16 changes."""
    camera, network = folded(me)
    known = models.known(me, file(network.state_dict()))
    off = np.abs(nets.predict(network, camera.pictures) - known.logits).max()
    assert off < known.rounding.allowed < 2e-3
    change = np.abs(known.network.in_half(camera.pictures) - known.logits).mean()
    assert known.rounding.allowed < 0.05 * change


def test_networks_that_do_not_fit() -> None:
    """Not folded; folded for another camera; another network; no state dict."""
    _, network = folded("anna")
    for wrong, words in (
        (facts.trained("anna").state_dict(), "if it gets brightness"),
        (folded("berta")[1].state_dict(), "hardly any eights"),
        (nets.DigitsCNN().state_dict(), "head.weight in `pth` is float32 of shape"),
        (network, "it holds workbook.zoo.nets.EightsCNN"),
        (list(network.parameters()), "it holds a list"),
        ({"epoch": 1} | network.state_dict(), "holds epoch"),
        (network.half().state_dict(), "is float16"),
    ):
        with pytest.raises(Failure, match=words):
            models.finds_eights(models.read("anna", file(wrong)))


def test_what_does_not_look_at_a_picture_is_compared_with_nothing() -> None:
    """Of a network, a model, verdicts that are the same for all; a wrong network is compared."""
    empty = {name: 0 * tensor for name, tensor in folded("anna")[1].state_dict().items()}
    with pytest.raises(Failure, match="answers the same to every picture"):
        models.known("anna", file(empty))
    with pytest.raises(Failure, match="eights_fp16 answers the same to every picture"):
        models.looks("eights_fp16", np.zeros((3, 2)))
    known = models.known("anna", file(facts.trained("anna").state_dict()))
    with pytest.raises(Failure, match="logits_pth"):
        models.scores(known, "no logits")
    scores = models.scores(known, np.zeros(facts.PICTURES))
    assert 0 < models.verdicts(scores, float(np.median(scores))).sum() < facts.PICTURES
    for limit, least in ((scores.max(), 1), (scores.min() - 1, 1), (np.sort(scores)[-4], 4)):
        with pytest.raises(Failure, match="nearly all are the same"):
            models.verdicts(scores, float(limit), least)


class Program:
    """Runs a program when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


def test_nothing_in_a_pth_file_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    weights = nets.EightsCNN().state_dict()
    for value in (Program(mark), {**weights, "head.bias": Program(mark)}, [Program(mark)]):
        with pytest.raises(Failure, match=r"posix\.system"):
            state_dict.read("pth", file(value), a4_network.SHAPES)
    assert not mark.exists()


def test_files_that_are_too_much() -> None:
    """Files that are compressed, huge by their strides, in the old format, cut off, or no file."""
    weights = nets.EightsCNN().state_dict()
    good = file(weights)
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good.tobytes())) as old, zipfile.ZipFile(packed, "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry), zipfile.ZIP_DEFLATED)
    huge = {**weights, "head.bias": torch.zeros(1).expand(10**9)}
    for value in (
        np.frombuffer(packed.getvalue(), np.uint8),
        file(huge),
        file(weights, _use_new_zipfile_serialization=False),
        good[:-100],
        np.zeros(0, np.uint8),
    ):
        with pytest.raises(Failure, match=r"not a file that torch\.save writes"):
            state_dict.read("pth", value, a4_network.SHAPES)
    for odd in ("text", [1, 2], np.zeros(4), np.zeros((2, 2), np.uint8)):
        with pytest.raises(Failure, match="not the content of a file"):
            state_dict.read("pth", odd, a4_network.SHAPES)
    found = state_dict.read("pth", good, a4_network.SHAPES)
    for name, tensor in weights.items():
        np.testing.assert_array_equal(found[name], tensor.numpy())


def test_the_fewest_differing_verdicts() -> None:
    """The same number as by trying every threshold, even if scores are equal."""
    random = np.random.default_rng(3)
    for _ in range(50):
        scores = random.integers(0, 9, size=30).astype(float)
        truth = random.random(30) < 0.4
        tried = [((scores > limit) != truth).sum() for limit in np.arange(-1, 10) + 0.5]
        assert models.fewest(scores, truth) == min(tried)


def test_a_threshold_for_probabilities() -> None:
    """It is recognized for the logistic function and softmax; a right one for logits is not."""
    camera, network = folded("anna")
    logits = nets.predict(network, camera.pictures).astype(float)
    scores = logits[:, facts.EIGHT]
    for some in (scores, scores - logits[:, 0]):
        (limit, *_) = right_thresholds(camera, some)
        probability = 1 / (1 + np.exp(-limit))
        assert models.is_probability(scores, logits, camera.is_eight, probability)
    for odd in (0.5, 0.0, 1.0, -3.0, 7.0):
        assert not models.is_probability(scores, logits, camera.is_eight, odd)


def test_fp16_without_a_gpu() -> None:
    """Operators are computed in the file's types; unneeded operators are not computed."""
    from onnx import TensorProto, helper

    pictures = np.full((2, 1, 8, 8), 13_001.0, np.float32)

    def file(*nodes: Any) -> Any:
        shapes = (("image", ["batch", 1, 8, 8]), ("logits", ["batch", 2]))
        image, logits = (
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes
        )
        ints = [
            helper.make_tensor(name, TensorProto.INT64, [len(value)], value)
            for name, value in (("start", [0]), ("end", [2]), ("axis", [1]), ("huge", [1 << 40]))
        ]
        graph = helper.make_graph(list(nodes), "file", [image], [logits], ints)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])

    def cast(to: int) -> Any:
        return helper.make_node("Cast", ["image"], ["cast"], to=to)

    rest = (
        helper.make_node("Flatten", ["cast"], ["rows"]),
        helper.make_node("Slice", ["rows", "start", "end", "axis"], ["two"]),
        helper.make_node("Cast", ["two"], ["logits"], to=TensorProto.FLOAT),
    )
    unused = helper.make_node("ConstantOfShape", ["huge"], ["much"])
    for to, expected in ((TensorProto.FLOAT, 13_001.0), (TensorProto.FLOAT16, 13_000.0)):
        found = a4_fp16.logits("m", file(unused, cast(to), *rest).SerializeToString(), pictures)
        np.testing.assert_array_equal(found, np.full((2, 2), expected))
    for odd, words in (
        (file(cast(TensorProto.INT64), *rest), "the operator Cast"),
        (file(helper.make_node("Size", ["image"], ["logits"])), "the operator Size"),
        (file(helper.make_node("Relu", ["image"], ["logits"])), "logits of the shape"),
        (file(helper.make_node("Relu", ["nothing"], ["logits"])), "cannot be computed in fp16"),
        (file(), "cannot be computed in fp16"),
        (file(*[cast(TensorProto.FLOAT)] * 101, *rest), "operators; at most 100 are computed here"),
    ):
        with pytest.raises(Failure, match=words) as error:
            a4_fp16.logits("m", odd.SerializeToString(), pictures)
        assert error.value.help


def test_the_content_of_no_file(tmp_path: Path) -> None:
    (tmp_path / "some.pth").write_bytes(b"ab")
    assert facts.content(tmp_path / "some.pth").tolist() == [97, 98]
    for missing in (tmp_path / "nothing.pth", tmp_path):
        with pytest.raises(WorkbookError, match="no file that can be read"):
            facts.content(missing)


def test_only_a_small_difference_is_explained_by_rounding() -> None:
    zeros, allowed = np.zeros((4, 2)), Tolerance(0.01, "numbers are rounded", far=10)
    require.close(zeros + 0.005, zeros, what="the logits", tolerance=allowed)
    for off, is_explained in ((0.05, True), (3.0, False)):
        with pytest.raises(Failure, match="differ in 4 of 4 rows, by up to") as error:
            require.close(zeros + np.array([0, off]), zeros, what="the logits", tolerance=allowed)
        assert ("numbers are rounded" in error.value.rationale) == is_explained


def test_words_for_a_count() -> None:
    assert [checks._many(count) for count in (0, 1, 2)] == ["0 pictures", "1 picture", "2 pictures"]


@pytest.mark.parametrize(
    ("held", "fails"),
    [
        ([("FLOAT16", 0.3)], True),
        ([("FLOAT16", 0.3), ("FLOAT", 7.0)], True),
        ([("FLOAT", 0.3)], False),
        ([("FLOAT16", 0.3), ("FLOAT", 0.3)], False),
        ([("FLOAT16", 7.0)], False),
        ([], False),
    ],
)
def test_a_threshold_rounded_to_fp16(
    held: list[tuple[str, float]], fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found in the file, unless the file holds the threshold itself as well."""
    types = {"FLOAT16": np.float16, "FLOAT": np.float32}
    found = [onnx_file.Numbers(type, np.array([types[type](n)], float)) for type, n in held]
    monkeypatch.setattr(onnx_file, "numbers", lambda *_: found)
    probe: Any = None
    files.compares_with(probe, "m", 0.5)  # fp16 represents this number exactly
    files.compares_with(probe, "m", 1e39)
    if not fails:
        files.compares_with(probe, "m", 0.3)
        return
    with pytest.raises(Failure, match=r"compares with 0\.3000488, and `chosen` is 0\.3:"):
        files.compares_with(probe, "m", 0.3)


def test_layers_in_half() -> None:
    """Weights in fp16 change the logits; intermediate results in fp16 change them again."""
    camera, network = folded("anna")
    exact = Network({name: t.numpy() for name, t in network.state_dict().items()})
    some = camera.pictures[:50]
    answers = [exact.logits(some), exact.in_half(some), exact.in_half(some, everything=True)]
    assert len({round(float(np.abs(one).sum()), 6) for one in answers}) == 3
    assert exact.logits(some[:0]).shape == (0, 2)


def test_without_a_gpu_there_is_no_engine(server: Triton) -> None:
    """Then TensorRT counts as not attempted, and never as passed."""
    probe = Probe(server)
    for value, words in ((facts.NOT_ATTEMPTED, []), (facts.ENGINE, ["no engine that runs"])):
        with collect.noted() as notes:
            assert not models.engine(probe, value)
        assert len(notes) == len(words)
        assert all(word in note for word, note in zip(words, notes, strict=True))
    for odd in ("", "eights_fp16", None, 3, ["eights_tensorrt"]):
        with pytest.raises(Failure, match="neither"):
            models.engine(probe, odd)
    probe.close()


def in_half(me: str, *, keep: bool = True) -> tuple[np.ndarray[Any, Any], onnx.ModelProto]:
    """The .pth file of a student's network, and its ONNX file in fp16."""
    network = folded(me)[1].eval()
    batch = ({0: torch.export.Dim("batch")},)
    names: dict[str, Any] = {"input_names": ["image"], "output_names": ["logits"]}
    made = torch.onnx.export(
        network, (torch.zeros(2, 1, 8, 8),), dynamic_shapes=batch, verbose=False, **names
    )
    assert made is not None
    model = made.model_proto
    del model.graph.value_info[:]
    half = float16.convert_float_to_float16(model, keep_io_types=keep)
    return file(network.state_dict()), half


def content(model: onnx.ModelProto) -> np.ndarray[Any, Any]:
    return np.frombuffer(model.SerializeToString(), np.uint8)


GOOD = engines.profile_of({"image": (1, 8, 8)}, (1, 100, 1000))


def test_an_engine_is_built_without_a_gpu(server: Triton) -> None:
    """TensorRT's own parser and builder say what is wrong with a file or a profile."""
    pth, model = in_half("anna")
    probe = Probe(server)

    def built(typed: Any, profile: Any) -> None:
        checks.built(probe, "anna", pth, typed, profile)

    right = content(model)
    with collect.noted() as notes:
        built(right, GOOD)
    assert "has built your engine" in notes[0]
    built(right, {"image": [list(shape) for shape in GOOD["image"]]})  # as JSON brings it
    with pytest.raises(NotAttempted):
        built(facts.NOT_ATTEMPTED, facts.NOT_ATTEMPTED)

    def batches(*counts: int) -> Any:
        return engines.profile_of({"image": (1, 8, 8)}, counts)  # type: ignore[arg-type]

    other = engines.profile_of({"image": (1, 9, 9)}, (1, 100, 1000))
    for profile, words in (
        (facts.NOT_ATTEMPTED, "should have one entry"),
        ({"picture": GOOD["image"]}, "it has picture"),
        ({"image": 3}, "three shapes"),
        ({"image": [[True, 1, 8, 8]] * 3}, "something else than sizes"),
        ({"image": [[2**40, 1, 8, 8]] * 3}, "something else than sizes"),
        ({"image": [[]] * 3}, "0 dimensions"),
        (batches(1, 8, 64), "takes 1 picture to 64 pictures"),
        (batches(2, 100, 1000), "takes 2 pictures to 1,000"),
        (batches(1, 2000, 1000), "MIN<=OPT<=MAX"),
        (other, "min=9"),
    ):
        with pytest.raises(Failure, match=words):
            built(right, profile)
    for typed, words in (
        (facts.NOT_ATTEMPTED, "not the content of a file"),
        (np.zeros(2 << 20, np.uint8), "at most 1.0 are read"),
        (np.frombuffer(b"vtrt" + bytes(5000), np.uint8), "no ONNX file"),
        (content(in_half("berta")[1]), "does not hold features.0"),
        (content(in_half("anna", keep=False)[1]), "has other inputs than"),
    ):
        with pytest.raises(Failure, match=words):
            built(typed, GOOD)
    last = next(node for node in model.graph.node if "logits" in node.output)
    last.output[0] = "before"
    model.graph.node.append(onnx.helper.make_node("Neg", ["before"], ["logits"]))
    built(content(model), GOOD)  # an engine of it can be built, and it is not the network
    with pytest.raises(Failure, match="computes other logits"):
        hidden.secret_logits_of_the_file(probe, "anna", pth, content(model))
    hidden.secret_logits_of_the_file(probe, "anna", pth, right)
    probe.close()


@pytest.mark.parametrize(
    ("operator", "inputs", "count", "words"),
    [("Add", 2, 3_000, "takes more than"), ("Sin", 1, 15_000, "ends the program|takes more")],
)
def test_a_file_that_the_builder_does_not_survive(
    server: Triton,
    operator: str,
    inputs: int,
    count: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A build without end, or a crash, costs this check only."""
    if operator == "Add":
        monkeypatch.setattr(tensorrt_engine, "SECONDS", 3)  # the other one crashes by itself
    pth, model = in_half("anna")
    last = next(node for node in model.graph.node if "logits" in node.output)
    last.output[0] = "chain0"
    names = [*(f"chain{number}" for number in range(count)), "logits"]
    for before, after in itertools.pairwise(names):
        model.graph.node.append(onnx.helper.make_node(operator, [before] * inputs, [after]))
    probe = Probe(server)
    with pytest.raises(Failure, match=words):
        checks.built(probe, "anna", pth, content(model), GOOD)
    probe.close()


PARTS: list[Any] = [
    ...,
    None,
    "text",
    [],
    [[1], [1, 2]],
    np.array([0.5], np.float32),
    np.zeros(6000),
    torch.zeros(6000, requires_grad=True),
    torch.zeros(6000, 1),
    0.5,
]


@pytest.mark.parametrize("value", PARTS, ids=repr)
def test_plots_of_part_answers(value: Any) -> None:
    """The cells that show what was found run whatever is there, and whatever is still to come."""
    cells = sources.read(ASSIGNMENT.source).cells
    space: dict[str, Any] = {}
    for cell in cells:
        given = ("a4.setup", "a4.numbers", "a4.rounded", "a4.network")
        if cell.id in given or cell.source.startswith("me = "):
            exec(compile(cell.source, cell.id, "exec"), space)
    random = np.random.default_rng(0)
    good = {
        "logits_pth": random.normal(size=6000).astype(np.float32),
        "logits_fp16": random.normal(size=6000).astype(np.float32),
        "threshold": 0.5,
    }
    plots = [
        cell
        for cell in cells
        if cell.type == "code" and not cell.kind and not cell.source.startswith("me = ")
    ]
    assert len(plots) == 4
    for name in good:
        for cell in plots:
            if name in cell.source:
                exec(compile(cell.source, "plot", "exec"), space | good | {name: value})
    matplotlib.pyplot.close("all")


def test_all_thresholds() -> None:
    """For tensors with a gradient and lists too; between equal scores there is no threshold."""
    (cell,) = (c for c in sources.read(ASSIGNMENT.source).cells if c.id == "a4.try")
    space: dict[str, Any] = {"np": np, "torch": torch, "logits_fp16": ...}
    space["logits_fp32"] = [3.0, 1.0, 2.0, 1.0]
    space["logits_pth"] = torch.tensor([3.0, 1.0, 2.0, 1.0], requires_grad=True)
    exec(compile(cell.source, cell.id, "exec"), space)
    for scores in (space["logits_pth"], space["logits_fp32"]):
        tried = space["try_all"](scores, np.array([True, True, False, False]))
        assert [one.tolist() for one in tried] == [[1.5, 2.5], [2, 1], [1, 1]]
    assert space["logits_fp16"] is ...  # no request was sent yet
