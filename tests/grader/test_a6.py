"""Tests for a6__llm only. test_assignments.py has the tests for every assignment."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from grader import sandbox
from grader.assignments.a6__llm import (
    answers,
    drawing,
    engine,
    facts,
    knobs,
    loop,
    network,
    stopping,
    streaming,
)
from grader.assignments.a6__llm import checks as public
from grader.assignments.a6__llm import hidden as secret
from grader.assignments.a6__llm import step as a6_step
from grader.assignments.a6__llm.answers import Answer
from grader.authoring import mutants
from grader.sandbox.mounts import course
from grader.vocabulary import own
from grader.vocabulary.collect import noted
from grader.vocabulary.failure import Failure, NotAttempted
from grader.vocabulary.probe import Array, Counts, Stream
from workbook import assignments
from workbook.common.errors import WorkbookError
from workbook.zoo import small_llama

ASSIGNMENT = assignments.named("a6")
STUDENTS = (own.DEFAULT, "anna", "berta", "çetin")


@functools.cache  # two tests ask for the same answers
def likeliest(me: str, prompt: str, most: int) -> Answer:
    """The answer at temperature 0, computed with numpy."""
    ids, tokens, logs = facts.tokenizer().encode(prompt).ids, [], []
    while len(tokens) < most:
        scores = network.logits(me, [*ids, *tokens])[-1]
        token = int(scores.argmax())
        if token == small_llama.EOS:
            break
        tokens.append(token)
        logs.append(float(network.log_chances(scores)[token]))
    reason = "length" if len(tokens) == most else "stop"
    return Answer(facts.tokenizer().decode(tokens), tokens, logs, reason)


class RightModel:
    """A probe whose `chat` is the solution: its loop asks the network, computed with numpy.

    Args:
        me: the student's id.
        number: the seed for what the hidden checks draw.
        edits: replacements in the solution's writing.py.
    """

    def __init__(self, me: str, number: int = 7, *edits: tuple[str, str]) -> None:
        self.me, self.rng = me, np.random.default_rng(number)
        code = (ASSIGNMENT.source.parent / "solution/models/chat/1/writing.py").read_text("utf-8")
        for old, new in edits:
            assert old in code
            code = code.replace(old, new)
        self.writing: dict[str, Any] = {}
        exec(code, self.writing)

    def together(
        self, model: str, requests: list[dict[str, Array]], **_: Any
    ) -> list[dict[str, Array]]:
        assert model == facts.CHAT
        return [self.respond(inputs) for inputs in requests]

    def respond(self, inputs: dict[str, Array]) -> dict[str, Array]:
        pairs = zip(inputs["text_input"], inputs["sampling_parameters"], strict=True)
        rows = [self.answer(prompt.decode(), wanted.decode()) for (prompt,), (wanted,) in pairs]
        most = max(len(row.tokens) for row in rows)
        return {
            "text_output": np.array([[row.text.encode()] for row in rows], object),
            "finish_reason": np.array([[row.reason.encode()] for row in rows], object),
            "token_ids": padded([row.tokens for row in rows], most, facts.FILLED, np.int32),
            "logprobs": padded([row.logprobs for row in rows], most, 0, np.float32),
        }

    def answer(self, prompt: str, wanted: str) -> Any:
        settings = small_llama.settings()
        answer = self.writing["Answer"](prompt, wanted, facts.tokenizer(), settings)
        while not answer.reason:
            scores = network.logits(self.me, [*answer.prompt, *answer.tokens])[-1]
            answer.add(*answer.choose(scores.astype(np.float32)))
        return answer


def padded(rows: list[list[Any]], most: int, filling: int, kind: Any) -> Array:
    """A table of rows with different lengths, padded."""
    return np.array([[*row, *[filling] * (most - len(row))] for row in rows], kind)


#: Ids for which a right model once failed a6.sampling, and ids of other forms. Each takes ten
#: seconds: `make test` tries two of them, `make mutants` the others.
MANY = ("anna", "学生7")
MORE = ("maria", "ben", "s2026148", "s2026111", "i.petrov")


@pytest.mark.parametrize("me", [*MANY, *(pytest.param(me, marks=pytest.mark.long) for me in MORE)])
def test_a_right_model_passes(me: str) -> None:
    """What is asked and compared is drawn by the id: no false alarm, in public nor hidden checks.

    tests/grader/test_assignments.py asks the served solution, for fewer ids.
    """
    server: Any = RightModel(me)
    public.sampling(server, me, facts.CHAT)
    public.stops(server, me, facts.CHAT)
    secret.secret_sampling(server, me, facts.CHAT)
    secret.secret_stops(server, facts.CHAT)


def test_what_is_right_by_the_models_own_answers() -> None:
    """Stop texts of a model with wrong tokens are judged; one answer for all prompts is not."""
    me = "anna"
    server: Any = RightModel(me, 7, ("int(scores.argmax())", "int(scores.argsort()[-2])"))
    public.stops(server, me, facts.CHAT)
    secret.secret_stops(server, facts.CHAT)
    prompts = facts.own_prompts(me)
    wanted = {"temperature": 0, "max_tokens": 12}
    (answer,) = answers.ask(server, facts.CHAT, prompts[:1], wanted)
    with pytest.raises(Failure, match="is not the likeliest one"):
        answers.require_greedy(me, prompts[0], answer, 12, "it")
    assert streaming._is_of_chat(server, prompts[0], answer, wanted)
    assert not streaming._is_of_chat(server, prompts[1], answer, wanted)
    with pytest.raises(Failure, match="chat answers the same to 2 prompts"):
        answers.require_different(facts.CHAT, [answer, answer])


def test_the_end_of_text_among_the_tokens() -> None:
    """It is left out of the answer, and a6.greedy says so."""
    tokens, logs = np.array([5, small_llama.EOS]), np.array([-1.0, -2.0])
    text = facts.tokenizer().decode([5])
    answer = answers.make_answer(facts.CHAT, text, tokens, logs, "stop")
    assert (answer.tokens, answer.logprobs, answer.drawn) == ([5], [-1.0], [5, small_llama.EOS])
    with pytest.raises(Failure, match="token_ids holds the end of text"):
        answers.require_greedy("anna", "A list", answer, 12, "the answer")
    with pytest.raises(Failure, match="holds the end of text"):
        answers.make_answer(facts.CHAT, text, tokens[::-1], logs, "stop")


def test_mutants_are_many() -> None:
    assert len(mutants.load(ASSIGNMENT)) >= 40


def test_the_file_holds_a_llama() -> None:
    found = small_llama.read()
    settings = small_llama.settings()
    assert found.weights["model.embed_tokens.weight"].shape == (
        settings["vocab_size"],
        settings["hidden_size"],
    )
    assert {value.dtype for value in found.weights.values()} == {np.dtype(np.float32)}
    assert 0.8e6 < sum(value.size for value in found.weights.values()) < 1e6
    assert len(found.titles) == len({*found.titles}) > 100
    assert small_llama.FILE.stat().st_size < 1 << 20


def test_each_student_has_a_network_of_their_own() -> None:
    """An id in any case gives the same network; another id gives another one, and other prompts."""
    anna, berta = network.weights("anna"), network.weights("berta")
    assert network.weights(" Anna ") is anna
    assert facts.own_prompts("anna") != facts.own_prompts("berta")
    assert not np.array_equal(anna["model.norm.weight"], berta["model.norm.weight"])
    prompt = facts.question("Lambdas")
    ids = facts.tokenizer().encode(prompt).ids
    off = np.abs(network.logits("anna", ids)[-1] - network.logits("berta", ids)[-1]).max()
    assert off > 100 * network.tolerance().allowed
    for wrong in ("", "  ", 7, None, "x" * 201):
        with pytest.raises(Failure, match="no student's id"):
            facts.own_prompts(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("me", STUDENTS)
def test_the_tasks_hold_for_everybody(me: str) -> None:
    """Prompts differ in length; some answers end by themselves, others do not; texts can be cut."""
    prompts = facts.own_prompts(me)
    assert len({*prompts}) == 16
    sizes = [len(facts.tokenizer().encode(prompt).ids) for prompt in prompts]
    assert len({*sizes[:8]}) >= 3
    assert max(sizes) <= 40
    assert [len(facts.tokenizer().encode(one).ids) for one in facts.own_pair(me)] == [
        min(sizes),
        max(sizes),
    ]
    whole = [likeliest(me, prompt, 40) for prompt in prompts]
    assert sum(answer.reason == "stop" for answer in whole) >= 3
    assert sum(len(answer.text) >= 24 for answer in whole[:8]) >= 4
    for prompt, answer in zip(prompts, whole, strict=True):
        answers.require_greedy(me, prompt, answer, 40, "it")


def test_the_step_is_the_network(tmp_path: Path) -> None:
    """In ONNX Runtime, with padding and a cache; the tolerance is neither narrow nor wide."""
    me, allowed = "anna", network.tolerance().allowed
    a6_step.write(me, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    prompts = ["A list", facts.question("Comparisons"), 60 * "The class is a class. "]
    rows = [facts.tokenizer().encode(prompt).ids[:230] for prompt in prompts]
    prompts = [facts.tokenizer().decode(row, skip_special_tokens=False) for row in rows]
    rows = [facts.tokenizer().encode(prompt).ids for prompt in prompts]
    inputs = loop.first_step(prompts)
    scores, cache = session.run(["logits", "present"], inputs)
    mask = inputs["attention_mask"]
    for step in range(5):
        right = np.array([network.logits(me, row)[-1] for row in rows])
        off = np.abs(scores - right).max()
        assert off < allowed / 10, step
        rows = [[*row, int(best)] for row, best in zip(rows, right.argmax(axis=1), strict=True)]
        mask = np.pad(mask, ((0, 0), (0, 1)), constant_values=1)
        last = {
            "input_ids": np.array([row[-1:] for row in rows]),
            "position_ids": np.array([[len(row) - 1] for row in rows]),
            "attention_mask": mask,
            "past": cache,
        }
        scores, cache = session.run(["logits", "present"], last)
    seen = inputs["attention_mask"].copy()
    seen[0, -len(facts.tokenizer().encode("A list").ids) - 1] = 1  # one column of filling
    (changed,) = session.run(["logits"], {**inputs, "attention_mask": seen})
    (right,) = session.run(["logits"], inputs)
    assert np.abs(changed - right)[0].max() > 100 * allowed


def test_half_precision_is_seen() -> None:
    """Weights of 16 bits change scores by more than the tolerance."""
    me, tokens = "anna", facts.tokenizer().encode(facts.question("Comparisons")).ids
    exact = network.logits(me, tokens)
    w = network._exact(me)
    kept = dict(w)
    try:
        for name, value in w.items():
            w[name] = value.astype(np.float16).astype(np.float64)
        rounded = network._logits.__wrapped__(me, tuple(tokens))
    finally:
        w.update(kept)
    assert np.abs(rounded - exact).max() > 2 * network.tolerance().allowed


def test_frequencies_know_a_right_model_from_a_wrong_one() -> None:
    """200 right samples of four shapes give no false alarm; other probabilities are found."""
    random = np.random.default_rng(0)
    shapes = (
        np.array([0.5, 0.3, 0.2]),
        np.array([0.97, 0.02, 0.01]),
        random.dirichlet(np.full(40, 0.3)),
        random.dirichlet(np.full(1000, 0.05)),
    )
    for chances in shapes:
        for _ in range(50):
            tokens = random.choice(len(chances), drawing.DRAWS, p=chances)
            assert drawing.frequencies_agree(tokens, chances)
    chances = random.dirichlet(np.full(20, 1.0))
    hotter = chances**0.3 / (chances**0.3).sum()
    tokens = random.choice(len(chances), drawing.DRAWS, p=hotter)
    assert not drawing.frequencies_agree(tokens, chances)


def test_false_alarms_are_as_rare_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 5% in place of 1e-8, at most 5% of right samples fail: the tests are exact."""
    monkeypatch.setattr(drawing, "FALSE_ALARM", 0.05)
    random = np.random.default_rng(1)
    chances = np.array([0.6, 0.25, 0.14, 0.01])
    samples = [random.choice(4, 64, p=chances) for _ in range(1000)]
    assert sum(not drawing.frequencies_agree(tokens, chances) for tokens in samples) < 75


@pytest.mark.parametrize("me", STUDENTS)
def test_each_wrong_way_to_draw_is_found(me: str) -> None:
    """With the prompt and the parameters that are chosen for a student, always."""
    prompt, temperature, top_p = drawing.choose_sample(me, facts.own_prompts(me))
    scores = drawing.next_scores(me, prompt)
    right = drawing.nucleus_chances(scores, temperature, top_p)
    inside = np.flatnonzero(right)
    inside = inside[np.argsort(-scores[inside])]
    assert 3 <= len(inside) <= 6
    assert right[inside].min() >= 0.05

    def spread(shares: Array) -> Array:
        table = np.zeros_like(right)
        table[inside] = shares / shares.sum()
        return table

    ends = np.zeros(len(inside))
    ends[[0, -1]] = 0.5
    random = np.random.default_rng(3)
    for wrong in (
        np.full(len(inside), 1 / len(inside)),
        right[inside][::-1],
        np.exp(network.log_chances(scores))[inside],
        ends,
    ):
        for _ in range(25):
            tokens = random.choice(len(right), drawing.DRAWS, p=spread(wrong))
            assert not drawing.frequencies_agree(tokens, right)


def test_another_model_than_the_one_meant() -> None:
    loop.require_named(facts.CHAT, facts.CHAT)
    loop.require_named(7, facts.CHAT)  # require.backend reports the mistake
    with pytest.raises(Failure, match="about the model chat; chat_stream was handed over"):
        loop.require_named(facts.STREAM, facts.CHAT)


@pytest.mark.parametrize("count", [1, 17, small_llama.CONTEXT - 1, small_llama.CONTEXT])
def test_prompt_of(count: int) -> None:
    assert len(facts.tokenizer().encode(loop.prompt_of(count)).ids) == count


@pytest.mark.parametrize("me", STUDENTS)
def test_stop_texts_that_tell(me: str) -> None:
    """A stop text on the boundary of two tokens, and two that end at the same place, are found."""
    whole = [likeliest(me, prompt, stopping.MOST) for prompt in facts.own_prompts(me)[:8]]
    whole = [answer for answer in whole if len(answer.text) >= stopping.LEAST]
    random = np.random.default_rng(0)
    for answer in whole:
        begun = stopping.stream_stops(random, answer)[1].texts
        assert len(begun) == 2
        assert begun[1][2] == begun[0][0]
        stops = stopping.whole_stops(random, answer.text)
        later, first = stops[3].texts
        assert first.endswith(later)
        assert answer.text.find(later) == answer.text.find(first) + 1
        assert stopping.cut(answer, stops[5].texts) == answer
        assert answer.text.endswith(stops[5].texts[0][:-1])


class Counting:
    """A probe that counts steps; each reading adds the next number of steps."""

    def __init__(self, *more: int) -> None:
        self.more, self.count = [*more], 0

    def counts(self, model: str) -> Counts:
        self.count += self.more.pop(0) if self.more else 0
        return Counts(0, 0, self.count, self.count)


def test_steps_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check waits for an answer that will end; a loop that does not end gets a message."""
    monkeypatch.setattr(loop, "_IDLE", 0.35)
    loop.require_idle(Counting())  # type: ignore[arg-type]
    loop.require_idle(Counting(5, 5))  # type: ignore[arg-type]
    with pytest.raises(Failure, match="while this check asked for nothing") as error:
        loop.require_idle(Counting(*[5] * 50))  # type: ignore[arg-type]
    assert "workbook serve --detach" in error.value.help


def test_a_stream_that_goes_on() -> None:
    """If there are more responses than tokens, the message blames the loop, not the final flag."""
    part = {
        "text_output": np.array([b"x"], object),
        "token_ids": np.array([5], np.int32),
        "logprobs": np.array([-1], np.float32),
        "finish_reason": np.array([b""], object),
    }
    with pytest.raises(Failure, match="2000 responses came, and max_tokens was 24") as error:
        streaming._join("chat_stream", Stream((part,) * 2000, (0.0,) * 2000, None), 24)
    assert "workbook serve --detach" in error.value.help
    with pytest.raises(Failure, match="none said that it was the last") as error:
        streaming._join("chat_stream", Stream((part,) * 20, (0.0,) * 20, None), 24)
    two = {**part, "logprobs": np.array([-1, -2], np.float32)}
    with pytest.raises(Failure, match="holds 1 token_ids and 2 logprobs") as error:
        streaming._join("chat_stream", Stream((two,), (0.0,), 1.0), 24)
    assert "one logprob for each of its tokens" in error.value.help
    with pytest.raises(Failure, match="has no finish_reason"):
        streaming._join("chat_stream", Stream((part,) * 20, (0.0,) * 20, 1.0), 24)


def test_the_placeholder_is_not_wrong() -> None:
    with pytest.raises(NotAttempted, match="no value yet"):
        engine.require_texts("anna", facts.NOT_ATTEMPTED)


def test_the_nucleus() -> None:
    scores = np.log(np.array([0.15, 0.5, 0.05, 0.3]))
    for top_p, inside in ((0.4, [1]), (0.49, [1]), (0.6, [1, 3]), (0.9, [0, 1, 3]), (1, range(4))):
        found = drawing.nucleus_chances(scores, 1.0, top_p)
        assert set(np.flatnonzero(found)) == {*inside}, top_p
        assert found.sum() == pytest.approx(1)


def drawn(me: str, temperature: float, count: int) -> list[list[int]]:
    """Answers of a right model, to the student's first prompt."""
    random = np.random.default_rng(5)
    ids, found = facts.tokenizer().encode(facts.own_prompts(me)[0]).ids, []
    for _ in range(count):
        tokens: list[int] = []
        while len(tokens) < knobs.MOST:
            logs = network.log_chances(network.logits(me, [*ids, *tokens])[-1], temperature)
            token = int(random.choice(len(logs), p=np.exp(logs) / np.exp(logs).sum()))
            if token == small_llama.EOS:
                break
            tokens.append(token)
        found.append(tokens)
    return found


def test_draws_of_another_temperature() -> None:
    """Answers fit the temperature at which they were drawn, and no other one."""
    me, random = "anna", np.random.default_rng(0)
    some = drawn(me, 1.0, 16)
    for temperature in (1.0, 0.5, 1.6):
        draws = knobs.Draws(facts.own_prompts(me)[0], [temperature], [some])
        if temperature == 1:
            knobs.require_drawn(me, draws, random)
            continue
        with pytest.raises(Failure, match="do not look as if they were drawn"):
            knobs.require_drawn(me, draws, random)
    same = knobs.Draws(facts.own_prompts(me)[0], [1.0], [some[:1] * 8])
    with pytest.raises(Failure, match="All 8 answers for temperature 1 are the same"):
        knobs.require_drawn(me, same, random)


def test_cut() -> None:
    """Stop texts are found wherever tokens end; the first position counts."""
    ids = facts.tokenizer().encode("The list is a list. The class").ids
    whole = Answer("The list is a list. The class", ids, [0.0] * len(ids), "length")
    for stops, text in (
        (["t. T"], "The list is a lis"),
        (["class", "list"], "The "),
        (["nothing"], whole.text),
    ):
        found = stopping.cut(whole, stops)
        assert found.text == text
        assert found.tokens == ids[: len(found.tokens)]
        if text != whole.text:
            assert any(stop in facts.tokenizer().decode(found.tokens) for stop in stops)
            assert not any(stop in facts.tokenizer().decode(found.tokens[:-1]) for stop in stops)


def test_what_is_missing_is_not_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vLLM the task counts as not attempted, and a message says how to install it."""
    monkeypatch.setattr(facts.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NotAttempted, match="make vllm"):
        engine.require_installed(facts.NOT_ATTEMPTED)


RATES = {name: [300.0, 310.0, 305.0] for name in engine.RATES}
RATES["chat_vllm"] = [900.0, 905.0, 901.0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"chat": [1.0, 2.0]}, "2 for chat, 3 for chat_stream"),
        ({"chat": [100.0, 110.0, 105.0]}, "chat_stream makes more"),
        ({"chat": [1.0, 2.0, 0.0]}, "no tokens per second"),
        ({"chat": [1e9, 2.0, 3.0]}, "no tokens per second"),
        ({"chat": [1e5, 1.1e5, 1.2e5]}, "no tokens per second"),
        ({"chat": [5.0, 5.0, 5.0]}, "same number"),
        ({"chat_vllm": [300.0, 301.0, 302.0]}, "eight clients"),
        ({"other": [1.0, 2.0, 3.0]}, "an entry that is not asked for: 'other'"),
    ],
)
def test_rates(change: dict[str, list[float]], words: str) -> None:
    if not words:
        engine.require_rates(RATES)
        return
    with pytest.raises(Failure, match=words):
        engine.require_rates({**RATES, **change})


def test_rates_of_another_form() -> None:
    with pytest.raises(Failure, match="is a list; a dict is wanted"):
        engine.require_rates([*RATES.values()])
    with pytest.raises(Failure, match='has no "chat_vllm, one client"'):
        engine.require_rates(
            {name: RATES[name] for name in RATES if name != "chat_vllm, one client"}
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"max_num_seqs": True}, "max_num_seqs in 1/model.json is 'True'"),
        ({"model": "checkpoint"}, "is not the checkpoint beside it"),
        ({"max_seqs": 8}, "which this task does not use"),
        ({"max_num_seqs": 4}, "max_num_seqs in 1/model.json is '4'"),
    ],
)
def test_arguments_of_the_engine(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    right = json.loads(
        (ASSIGNMENT.source.parent / "solution/models/chat_vllm/1/model.json").read_text("utf-8")
    )
    file = tmp_path / facts.VLLM / "1/model.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({**right, **change}))
    server: Any = SimpleNamespace(server=SimpleNamespace(repository=tmp_path))
    if not words:
        engine.require_arguments(server)
        return
    with pytest.raises(Failure, match=words):
        engine.require_arguments(server)


class Late:
    """A probe that gets no answer in time."""

    def together(self, model: str, requests: list[dict[str, Array]], **_: Any) -> Any:
        raise Failure(f"{model} did not answer within 20 s.")


def test_no_answer_in_time() -> None:
    """A late answer does not mean NaN: the machine may be busy, or the loop may be endless."""
    server: Any = Late()
    with pytest.raises(Failure, match=r"At temperature 0\.01: chat did not answer") as error:
        drawing.require_cold(server, "anna", facts.CHAT, facts.own_prompts("anna")[:2])
    assert "run this cell again" in error.value.help
    assert "NaN" not in error.value.help


def test_the_two_copies_of_writing(tmp_path: Path) -> None:
    """A passed check has a note if one of the two models was not deployed again."""
    server: Any = SimpleNamespace(server=SimpleNamespace(repository=tmp_path))
    for number, model in enumerate((facts.CHAT, facts.STREAM)):
        file = tmp_path / model / "1/writing.py"
        file.parent.mkdir(parents=True)
        file.write_text(f"x = {number}\n")
    with noted() as notes, streaming.compared_writing(server):
        pass
    assert "and a cell that deploys chat, too" in notes[0]
    file.write_text("x = 0\n")
    with noted() as notes, streaming.compared_writing(server):
        pass
    assert notes == []


def test_texts_of_the_engine() -> None:
    right = engine.greedy_texts("anna")
    engine.require_texts("anna", right)
    both = [p + t for p, t in zip(facts.own_prompts("anna"), right, strict=False)]
    with pytest.raises(Failure, match="begins with its prompt"):
        engine.require_texts("anna", both)
    with pytest.raises(Failure, match="1 of 8 texts"):
        engine.require_texts("anna", [*right[:-1], "other"])


@pytest.mark.server
def test_a_sandbox_shows_the_processors() -> None:
    """vLLM asks lscpu, and does not start where that fails."""
    bound, environment = course()
    outcome = sandbox.run(
        ["/usr/bin/lscpu", "--json", "--extended=CPU,CORE,NODE", "--online"],
        read_only=bound,
        environment=environment,
    )
    assert outcome.code == 0, outcome.stderr
    assert json.loads(outcome.stdout)["cpus"]


def test_what_is_fetched(tmp_path: Path) -> None:
    """All that the models need is fetched, but nothing into folders that a student writes in."""
    facts.fetch_network("anna", tmp_path)
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert found == {
        "llama_step/1/model.onnx",
        "chat/1/config.json",
        "chat/1/tokenizer.json",
        "chat_stream/1/config.json",
        "chat_stream/1/tokenizer.json",
        *(
            f"chat_vllm/1/checkpoint/{name}"
            for name in (
                "config.json",
                "model.safetensors",
                "tokenizer.json",
                "tokenizer_config.json",
            )
        ),
    }
    config = json.loads((tmp_path / "chat/1/config.json").read_text("utf-8"))
    assert config["max_position_embeddings"] == small_llama.CONTEXT


def test_a_copy_that_was_edited_is_kept(tmp_path: Path) -> None:
    """An edit of `chat` is copied; an edit of the copy is kept, and the message says what to do."""
    source, copy = (tmp_path / model / "1/writing.py" for model in (facts.CHAT, facts.STREAM))
    source.parent.mkdir(parents=True)
    copy.parent.mkdir(parents=True)
    for text in ("x = 1\n", "x = 2"):
        source.write_text(text)
        assert facts.copy_writing(tmp_path) == copy
        assert facts.without_note(copy.read_text()).strip() == text.strip()
    copy.write_text(copy.read_text().replace("2", "3"))
    with pytest.raises(WorkbookError, match="was edited since it was copied") as error:
        facts.copy_writing(tmp_path)
    assert f"Make the same change in {source}" in error.value.todo
    assert copy.read_text().startswith("x = 3")
    source.write_text("x = 3\n")
    facts.copy_writing(tmp_path)


def test_tokens_in_any_form() -> None:
    """Arrays and numpy's numbers are tokens; the padding is named."""
    me, some = "anna", drawn("anna", 1.0, 8)
    rows = [[np.int32(token) for token in tokens] for tokens in some]
    given = [some, rows, [np.array(tokens) for tokens in some], np.zeros((8, 5), np.int32) + 7]
    found = knobs.read(me, [0.1, 0.5, 1.0, 1.5], given)
    assert found.answers[1] == found.answers[2] == some
    with pytest.raises(Failure, match="holds -1") as error:
        knobs.read(me, [0.1, 0.5, 1.0, 1.5], [*given[:3], np.full((8, 5), -1)])
    assert "row[row >= 0]" in error.value.help
