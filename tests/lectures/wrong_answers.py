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
    Wrong(  # the config alone: its file was calibrated with other pixels
        "wrong.launch",
        _in_the_solution(
            "wrong.launch", "np.float32(PICTURES / 127.5 - 1)", "PICTURES.astype(np.float32)"
        ),
        "verdicts are not those of the network",
    ),
    Wrong(  # the type and the file; nobody joins requests
        "wrong.launch",
        _in_the_solution("wrong.launch", "dynamic_batching { }", ""),
        "computes each request alone",
    ),
    Wrong(  # errors are caught, but nothing bounds the requests
        "clients.own",
        _in_the_solution("clients.own", "Semaphore(16)", "Semaphore(160)"),
        "requests were at the server",
    ),
    Wrong(  # one after the other
        "clients.own",
        _in_the_solution("clients.own", "Semaphore(16)", "Semaphore(1)"),
        "requests were at the server",
    ),
    Wrong(  # a bound, but the error leaves its task
        "clients.own",
        _in_the_solution("clients.own", "return error", "raise"),
        "No answer arrived",
    ),
    Wrong(
        "accelerators.whole",
        _change("night", "gpu_execution", "cpu_execution"),
        "Its graph is in 8 parts",
    ),
    Wrong(  # the file alone: the list for GPUs is not read
        "accelerators.whole",
        _in_the_solution("accelerators.whole", '"cpu_execution"', '"gpu_execution"'),
        "names no openvino",
    ),
    Wrong(
        "fleet.healthy",  # a server that lives may lack the model
        _in_the_solution("fleet.healthy", "/v2/models/draw/ready", "/v2/health/live"),
        "failed, while the third server had no draw",
    ),
    Wrong(
        "fleet.healthy",  # the third server gets nothing, not even when it has the model again
        """
        import setup
        file = models / "Caddyfile"
        text = file.read_text().replace("{$TRITON_FLEET}", "{$TRITON_1} {$TRITON_2}")
        write(file, text.replace("health_uri", "# health_uri"))
        setup.reload(file)
        """,
        "it gets 0 of 40 requests",
    ),
    Wrong("cache.new_edition", 'lab.load("label")', "0 to 4 are spring"),
    Wrong(
        "cache.new_edition",
        _change("label", "response_cache { enable: true }", ""),
        "The cache of label is off",
    ),
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
    Wrong(
        "point_a.warmup",
        _in_the_solution("point_a.warmup", "count: 5", "count: 1"),
        "The model gets 1 request to warm up",
    ),
    Wrong(
        "precision.calibrated",
        _in_the_solution("precision.calibrated", ", nodes_to_exclude=[LAST]", ""),
        "verdicts are others",
    ),
    Wrong(
        "streams.kept",  # a sequence batcher, and the client still carries the state
        """
        file = models / "yours/config.pbtxt"
        write(file, file.read_text() + "sequence_batching { oldest { } }")
        lab.load("yours")
        """,
        "names no state",
    ),
    Wrong(
        "compile.warmup",
        _in_the_solution("compile.warmup", "(1, 2)", "(2, 3)"),
        "No warm-up has one picture",
    ),
    Wrong("policies.flooded", _change("flooded", "max_queue_size: 2", ""), "In a flood, requests"),
    Wrong(  # refused in a flood; on a busy machine on an ordinary day, or those served are late
        "policies.flooded", _change("flooded", "queue_size: 2", "queue_size: 12"), "requests"
    ),
    Wrong(
        "policies.flooded", _change("flooded", "queue_size: 2", "queue_size: 40"), "In a flood, req"
    ),
    Wrong("metrics.queue", _change("emil", "count: 1", "count: 4"), "spent in the queue"),
    Wrong("in_process.bridge", _threads(4), "executions; 60 are allowed"),
    Wrong(
        "batching.slow",  # each request gets as many rows as the first one has
        _in_the_solution("batching.slow", "np.cumsum([len(x) for x in rows])[:-1]", "len(rows)"),
        "A request ",
    ),
    Wrong(
        "batching.slow",  # the library is still called for each request
        _in_the_solution(
            "batching.slow",
            "y = library.double(np.concatenate(rows))",
            "y = np.concatenate([library.double(x) for x in rows])",
        ),
        "the library was called 1",
    ),
    Wrong(
        "tuning.device",  # all eight in one batch
        _change("device", "max_batch_size: 16", "max_batch_size: 8"),
        "times that of the given config",
    ),
    Wrong(
        # Eight in a batch take 260 ms with this delay, and four 180 ms: both are too slow. (With 20
        # ms it is right by chance: where two batches of four form, they stay apart.)
        "tuning.device",
        _change("device", "100000", "80000"),
        "times that of the given config",
    ),
    Wrong(
        "tuning.device",
        _change("device", "count: 2", "count: 8"),
        "computes two at a time",
    ),
    Wrong(
        "instances.nightly",  # one instance, and daily may still run beside it
        _change("nightly", "count: 4", "count: 1"),
        "An execution of nightly and one of daily ran at the same time",
    ),
    Wrong(
        "instances.nightly",  # one core: two of them run
        _in_the_solution("instances.nightly", "count: 2", "count: 1"),
        "ran at the same time",
    ),
    Wrong(
        "instances.nightly",  # each is alone, also those of daily
        r"""
        for name in ("daily", "nightly"):
            file = models / name / "config.pbtxt"
            limiter = '  rate_limiter { resources { name: "core" count: 2 } }\n}'
            kept = [line for line in file.read_text().splitlines() if "rate_limiter" not in line]
            write(file, "\n".join(kept).rstrip().removesuffix("}") + limiter)
            lab.load(name)
        """,
        "Executions of daily no longer run at the same time",
    ),
    Wrong(
        "serving.pause",  # the prompt waits until the other answer is complete
        _in_the_solution(
            "serving.pause", '"max_num_batched_tokens": 64, "max_num_seqs": 8', '"max_num_seqs": 1'
        ),
        "in one step, or waits",
    ),
    Wrong(
        "serving.pause",  # 50 steps
        _in_the_solution("serving.pause", "64", "8"),
        "waits for many small steps",
    ),
]

#: Right answers beside the tasks' own solutions, by task.
ALSO_RIGHT = {
    "clients.own": _in_the_solution("clients.own", "Semaphore(16)", "Semaphore(8)"),
    "wrong.launch": """
    shutil.copy(models / "compiled/1/model.onnx", models / "launch/1/model.onnx")
    file = models / "launch/config.pbtxt"
    write(file, file.read_text().replace("TYPE_INT8", "TYPE_FP32") + "dynamic_batching { }")
    lab.load("launch")
    """,
    "serving.pause": _in_the_solution("serving.pause", "64", "40"),
    "tuning.device": """
    file = models / "device/config.pbtxt"
    text = file.read_text().replace("max_batch_size: 16", "max_batch_size: 4")
    write(file, text.replace("100000", "5000"))
    lab.load("device")
    """,
    "schedulers.chain": _change(
        "single", "max_batch_size: 8", "max_batch_size: 8 dynamic_batching { }"
    ),
    "in_process.bridge": _threads(64),
    "instances.nightly": """
    file = models / "nightly/config.pbtxt"
    limited = 'count: 1 rate_limiter { resources { name: "core" count: 2 } }'
    write(file, file.read_text().replace("count: 4", limited))
    lab.load("nightly")
    """,
}
