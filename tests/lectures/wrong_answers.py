"""Answers to the lectures' tasks: ones that look right and are wrong, and other right ones.

`test_tasks.py` tries each wrong one once; `busy.py` tries both kinds often, on a busy machine.
"""

from __future__ import annotations

from typing import NamedTuple


class Wrong(NamedTuple):
    """An answer that looks right.

    Attributes:
        task: the task's id.
        code: Python, as in a task's solution.
        said: part of the task's message for it.
    """

    task: str
    code: str
    said: str


def _change(model: str, old: str, new: str) -> str:
    """Code that replaces a text in a model's config, and loads the model."""
    return f"""
    file = models / "{model}/config.pbtxt"
    assert {old!r} in file.read_text()
    write(file, file.read_text().replace({old!r}, {new!r}))
    lab.load("{model}")
    """


def _in_the_solution(task: str, old: str, new: str) -> str:
    """Code that applies a task's solution with one text in place of another."""
    return f"""
    from workbook.lessons import tasks
    text = tasks.find({task!r}).solution
    assert {old!r} in text
    exec(text.replace({old!r}, {new!r}))
    """


def _threads(count: int) -> str:
    """A bridge that sends each picture alone, from several threads."""
    return f'''
    write(server.folder / "bridge.py", """
    from concurrent.futures import ThreadPoolExecutor


    def bridge(inside, inbox, outbox):
        def answer(message):
            number, picture = message
            logits = inside.infer("digits_onnx", {{"image": picture[None]}})["logits"]
            outbox.put((number, int(logits.argmax())))

        with ThreadPoolExecutor({count}) as pool:
            list(pool.map(answer, iter(inbox.get, None)))
    """)
    '''


ALMOST = [
    Wrong(
        "python.verdict",
        _in_the_solution("python.verdict", "> self.thr", ">= self.thr"),
        "[[0.0, 0.5]] got ['sharp'], not ['blurred']",
    ),
    Wrong(
        "python.verdict",  # one number per row in place of one row per row
        _in_the_solution("python.verdict", "[:, None]", ""),
        "an answer of the shape [2], not [2, 1]",
    ),
    Wrong(
        "python.verdict",  # the exception is for all requests of the execution
        _in_the_solution(
            "python.verdict",
            'return pb_utils.InferenceResponse(error=pb_utils.TritonError("not a number"))',
            'raise pb_utils.TritonModelException("not a number")',
        ),
        "got the error: Failed to process",
    ),
    Wrong(
        "environments.strict",
        """
        import setup
        other = models / "other"
        setup.create(other)
        setup.install(other, setup.wheel(models, "2.0"))
        setup.share_packages(other)
        setup.use(models / "strict", str(other.resolve()))
        server.unload("strict")
        server.load("strict")
        """,
        "strict uses an environment outside of its folder",
    ),
    Wrong(
        "onnxruntime.frozen",
        """
        file = models / "frozen/config.pbtxt"
        write(file, file.read_text().replace("[ 1, 3, 64, 64 ]", "[ 3, 64, 64 ]"))
        try:
            server.load("frozen")
        except Exception as error:
            print(error)
        """,
        "where that is refused, the server goes on with the config before",
    ),
    Wrong("schedulers.chain", _change("joining", "count: 1", "count: 4"), "requests took"),
    Wrong(
        "batcher.crowded",
        _change("crowded", "  preferred_batch_size: [ 8 ]\n", ""),
        "A lone picture waited",
    ),
    Wrong(
        "batcher.crowded",
        """
        file = models / "crowded/config.pbtxt"
        batcher, rest = file.read_text().split("dynamic_batching {")
        write(file, batcher + rest.split("}", 1)[1])
        lab.load("crowded")
        """,
        "pictures per execution",
    ),
    Wrong("policies.flooded", _change("flooded", "max_queue_size: 2", ""), "In a flood, requests"),
    Wrong(
        "policies.flooded", _change("flooded", "queue_size: 2", "queue_size: 16"), "In a flood only"
    ),
    Wrong(
        "policies.flooded", _change("flooded", "queue_size: 2", "queue_size: 40"), "In a flood, req"
    ),
    Wrong("metrics.queue", _change("emil", "count: 1", "count: 4"), "spent in the queue"),
    Wrong("in_process.bridge", _threads(4), "executions; 60 are allowed"),
]

#: Right answers beside the tasks' own solutions, by task.
ALSO_RIGHT = {
    "schedulers.chain": _change(
        "single", "max_batch_size: 8", "max_batch_size: 8 dynamic_batching { }"
    ),
    "in_process.bridge": _threads(64),
}
