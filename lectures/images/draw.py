"""Draw the diagrams of the lectures: `python lectures/images/draw.py` writes the SVG files beside.

Each stands on a light card of its own, so that it reads the same on a light and a dark page.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

INK, SOFT, LINE, CARD = "#1f2933", "#5b6770", "#9aa5ae", "#fbfbf9"
BLUE, ORANGE, GREEN, RED, PINK, SKY, PLAIN = (
    "#cfe5f5", "#fbe3b0", "#bfe5d6", "#f6cdb4", "#f0d3e1", "#dcf0fb", "#ffffff"
)  # fmt: skip
COLOURS = ("#2A8FD0", "#E69F00", "#009E73", "#D55E00", "#CC79A7")


class Sheet:
    """A drawing of boxes, arrows and words; all lengths in pixels."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size = (width, height)
        self.title = title
        self.parts: list[str] = []

    def box(self, x, y, w, h, head="", lines=(), fill=PLAIN, edge=LINE, dashed=False):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="7" fill="{fill}" '
            f'stroke="{edge}"{dash}/>'
        )
        middle = not lines and h < 60
        if head:
            self.words(x + w / 2, y + (h / 2 + 5 if middle else 21), head, bold=True, at="middle")
        for i, line in enumerate(lines):
            top = y + (40 if head else 21) + 18 * i
            self.words(x + w / 2, top, line, size=12.5, at="middle", colour=SOFT)

    def words(self, x, y, text, size=14.0, bold=False, at="start", colour=INK, mono=False):
        weight = ' font-weight="600"' if bold else ""
        family = ' font-family="ui-monospace, DejaVu Sans Mono, monospace"' if mono else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{at}" '
            f'fill="{colour}"{weight}{family} xml:space="preserve">{escape(text)}</text>'
        )

    def arrow(self, x1, y1, x2, y2, text="", both=False):
        start = ' marker-start="url(#tip)"' if both else ""
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{SOFT}" stroke-width="1.6" '
            f'marker-end="url(#tip)"{start}/>'
        )
        if text:
            self.words((x1 + x2) / 2 + 6, (y1 + y2) / 2 - 5, text, size=12, colour=SOFT)

    def slot(self, x, y, w, h, text, colour):
        """A request in its place."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="3" fill="{colour}" '
            f'stroke="{INK}" stroke-width=".6"/>'
        )
        self.words(x + w / 2, y + h / 2 + 4.5, text, size=12, at="middle", colour="#111111")

    def empty(self, x, y, w, h):
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="3" fill="none" '
            f'stroke="{LINE}" stroke-dasharray="3 3"/>'
        )

    def svg(self) -> str:
        w, h = self.size
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" '
            f'height="{h}" role="img" font-family="system-ui, Segoe UI, Roboto, Helvetica, '
            f'Arial, DejaVu Sans, sans-serif">',
            f"<title>{escape(self.title)}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            f'markerHeight="8" orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" '
            f'fill="{SOFT}"/></marker></defs>',
            f'<rect width="{w}" height="{h}" rx="12" fill="{CARD}" stroke="#dddddd"/>',
            *self.parts,
            "</svg>\n",
        ])  # fmt: skip


def architecture() -> Sheet:
    s = Sheet(920, 560, "Triton's architecture: front ends, core, backends, model repository")
    for x, head, line in (
        (210, "HTTP", "KServe v2, :8000"),
        (390, "gRPC", "KServe v2, :8001"),
        (570, "in-process", "C API, no network"),
    ):
        s.box(x, 22, 150, 54, head, [line], BLUE)
        s.arrow(x + 75, 76, x + 75, 112, both=True)
    s.words(195, 55, "clients", at="end", colour=SOFT)
    s.box(190, 114, 550, 250, fill="#f1f4f6")
    s.words(206, 136, "Triton's core (TRITONSERVER API)", bold=True)
    s.box(206, 150, 150, 60, "Server", ["routing, log, trace"], PLAIN)
    s.box(366, 150, 170, 60, "Response cache", ["local, Redis"], PLAIN)
    s.box(546, 150, 178, 60, "Metrics", ["CPU, GPU, requests"], PLAIN)
    s.box(206, 224, 518, 128, fill=ORANGE)
    s.words(222, 245, "Scheduler: one a model", bold=True)
    for x, head, line in (
        (216, "default", "one by one"),
        (343, "dynamic", "stateless, batched"),
        (470, "sequence", "direct, oldest"),
        (597, "ensemble", "a graph of models"),
    ):
        s.box(x, 258, 119, 58, fill=PLAIN)
        s.words(x + 59.5, 281, head, size=13, bold=True, at="middle")
        s.words(x + 59.5, 301, line, size=12, at="middle", colour=SOFT)
    s.words(465, 340, "rate limiter: which instance may run now", 12.5, at="middle", colour=SOFT)
    s.arrow(465, 364, 465, 400, both=True)
    s.box(190, 402, 550, 136, fill="#f1f4f6")
    s.words(206, 424, "Backends (TRITONBACKEND API) run the instances of models", bold=True)
    names = ("python", "onnxruntime", "pytorch", "openvino", "tensorrt", "fil, dali, vllm …")
    for i, name in enumerate(names):
        s.box(202 + 88 * i, 438, 84, 40, fill=GREEN)
        s.words(244 + 88 * i, 463, name, 11 if i < 5 else 10, at="middle", mono=i < 5)
    for i, name in enumerate(("instance 0 · CPU", "instance 1 · CPU", "instance 0 · GPU 0")):
        s.box(230 + 160 * i, 490, 150, 34, fill=PLAIN, dashed=i == 2)
        s.words(305 + 160 * i, 512, name, 12.5, at="middle")
    s.box(
        16,
        170,
        150,
        104,
        "Model repository",
        ["disk, S3, GCS, Azure", "name/version/files", "config.pbtxt"],
        PINK,
    )
    s.box(16, 312, 150, 74, fill=PLAIN)
    s.words(91, 333, "Model repository", bold=True, at="middle")
    s.words(91, 351, "manager", bold=True, at="middle")
    s.words(91, 371, "none, poll, explicit", 12.5, at="middle", colour=SOFT)
    s.arrow(91, 274, 91, 310)
    s.arrow(166, 349, 190, 349, both=True)
    s.box(766, 150, 140, 62, "Prometheus", ["reads :8002/metrics"], SKY)
    s.arrow(766, 181, 726, 181)
    s.box(
        766,
        402,
        140,
        120,
        "Hardware",
        ["CPU cores (threads)", "RAM", "GPU and its memory", "disk"],
        SKY,
    )
    s.arrow(740, 462, 766, 462, both=True)
    s.words(91, 412, "repository agents", 12.5, at="middle", colour=SOFT)
    s.words(91, 429, "may change files on load", 11.5, at="middle", colour=SOFT)
    return s


def request() -> Sheet:
    s = Sheet(920, 300, "The way of a request through Triton, and the times that are counted")
    steps = (
        ("front end", "HTTP or gRPC", BLUE),
        ("core", "checks the tensors", "#f1f4f6"),
        ("queue", "of the scheduler", ORANGE),
        ("input", "tensors gathered", GREEN),
        ("infer", "the model runs", GREEN),
        ("output", "tensors scattered", GREEN),
        ("front end", "the answer", BLUE),
    )
    for i, (head, line, fill) in enumerate(steps):
        x = 22 + 127 * i
        s.box(x, 66, 112, 56, fill=fill)
        s.words(x + 56, 90, head, bold=True, at="middle")
        s.words(x + 56, 110, line, 11, at="middle", colour=SOFT)
        if i < 6:
            s.arrow(x + 112, 94, x + 126, 94)
    s.words(22, 38, "one request", bold=True)
    s.words(403, 38, "one execution: a batch of requests, on one instance", 13, colour=SOFT)
    s.parts.append(f'<path d="M403 48 v8 M403 48 H768 M768 48 v8" stroke="{SOFT}" fill="none"/>')
    spans = (
        (149, 768, 156, "request", "nv_inference_request_duration_us"),
        (276, 388, 196, "queue", ""),
        (403, 515, 196, "compute_input", ""),
        (530, 642, 196, "compute_infer", ""),
        (657, 768, 196, "compute_output", ""),
    )
    for left, right, y, name, metric in spans:
        s.parts.append(
            f'<path d="M{left} {y - 8} v16 M{left} {y} H{right} M{right} {y - 8} v16" '
            f'stroke="{COLOURS[0]}" stroke-width="1.6" fill="none"/>'
        )
        if metric:
            s.words((left + right) / 2, y - 9, f"{name}: {metric}", 12, at="middle", mono=True)
        else:
            s.words((left + right) / 2, y + 22, name, 12, at="middle", mono=True)
    s.words(
        460,
        256,
        "With a response cache the request may turn back in the core: a hit never waits",
        13,
        at="middle",
        colour=SOFT,
    )
    s.words(
        460,
        276,
        "and is never computed. An ensemble's request starts new ones here, one a step.",
        13,
        at="middle",
        colour=SOFT,
    )
    return s


def schedulers() -> Sheet:
    s = Sheet(920, 492, "What each scheduler of Triton does with the same requests")
    a, b, c, d, e = COLOURS

    def frame(x, y, head, line):
        s.box(x, y, 286, 222, fill=PLAIN)
        s.words(x + 14, y + 25, head, bold=True)
        s.words(x + 14, y + 45, line, 12, colour=SOFT)

    def batch(x, y, items):
        for i, (text, colour) in enumerate(items):
            if text:
                s.slot(x, y + 26 * i, 46, 24, text, colour)
            else:
                s.empty(x, y + 26 * i, 46, 24)

    frame(16, 16, "Default", "each request is an execution of its own")
    for i in range(4):
        s.slot(30 + 62 * i, 120, 46, 24, f"r{i + 1}", COLOURS[i])
    s.arrow(30, 176, 276, 176)
    s.words(276, 194, "time", 12, at="end", colour=SOFT)
    frame(317, 16, "Dynamic batcher", "who waits together is computed together")
    batch(335, 92, [("r1", a)])
    batch(415, 92, [("r2", b), ("r3", c), ("r4", d)])
    batch(495, 92, [("r5", e), ("r6", a)])
    s.arrow(331, 206, 577, 206)
    s.words(577, 224, "time", 12, at="end", colour=SOFT)
    frame(618, 16, "Ensemble", "each step is a request to another model")
    for i, name in enumerate(("tokenizer", "model", "labels")):
        s.box(632 + 93 * i, 120, 72, 40, fill=GREEN)
        s.words(668 + 93 * i, 145, name, 12, at="middle")
        if i < 2:
            s.arrow(704 + 93 * i, 140, 723 + 93 * i, 140)
    s.words(
        761, 196, "a graph without cycles; tensors stay in the server", 11, at="middle", colour=SOFT
    )
    frame(16, 254, "Sequence batcher, direct", "a sequence keeps its slot until it ends")
    for i in range(3):
        s.words(30, 331 + 26 * i, f"slot {i}", 11.5, colour=SOFT)
    for j, items in enumerate(
        (
            [("A1", a), ("B1", b), ("", "")],
            [("A2", a), ("B2", b), ("C1", c)],
            [("", ""), ("B3", b), ("C2", c)],
            [("D1", d), ("", ""), ("C3", c)],
        )
    ):
        batch(72 + 55 * j, 314, items)
    s.words(
        159, 418, "a slot may stay empty: READY tells the model", 11.5, at="middle", colour=SOFT
    )
    s.arrow(30, 442, 276, 442)
    s.words(276, 460, "time", 12, at="end", colour=SOFT)
    frame(317, 254, "Sequence batcher, oldest", "the oldest requests of distinct sequences")
    for j, items in enumerate(
        (
            [("A1", a), ("B1", b)],
            [("C1", c), ("A2", a)],
            [("B2", b), ("C2", c)],
            [("B3", b), ("D1", d)],
        )
    ):
        batch(345 + 60 * j, 314, items)
    s.words(
        460, 418, "no fixed slot: CORRID tells the model who it is", 11.5, at="middle", colour=SOFT
    )
    s.arrow(331, 442, 577, 442)
    s.words(577, 460, "time", 12, at="end", colour=SOFT)
    frame(618, 254, "Decoupled", "a model transaction policy")
    s.slot(640, 342, 46, 24, "r1", a)
    for i in range(3):
        s.slot(760 + 44 * i, 314 + 30 * i, 40, 24, f"1.{i + 1}", SKY)
        s.arrow(690, 354, 756 + 44 * i, 326 + 30 * i)
    s.words(761, 424, "none, one or many responses to a request;", 11.5, at="middle", colour=SOFT)
    s.words(761, 441, "the last one carries a final flag", 11.5, at="middle", colour=SOFT)
    return s


def repository() -> Sheet:
    s = Sheet(920, 330, "The layout of a model repository")
    tree = (
        ("model_repository/", "what --model-repository names"),
        ("└── text_recognition/", "a model: the folder's name is the model's name"),
        ("    ├── config.pbtxt", "the model configuration: inputs, outputs, batching, instances"),
        ("    ├── labels.txt", "what belongs to all versions"),
        ("    ├── conda_env.tar.gz", "an environment of its own (EXECUTION_ENV_PATH)"),
        ("    ├── 1/", "a version: a number, not 0"),
        ("    │   └── model.py", "the model's file; its name is the backend's choice"),
        ("    └── 2/", "the next version: version_policy says which are served"),
        ("        └── model.py", ""),
    )
    for i, (left, right) in enumerate(tree):
        y = 44 + 32 * i
        if i % 2:
            s.parts.append(f'<rect x="16" y="{y - 21}" width="888" height="31" fill="#f1f4f6"/>')
        s.words(32, y, left, 15, mono=True)
        s.words(390, y, right, 14, colour=SOFT)
    return s


if __name__ == "__main__":
    for sheet in (architecture, request, schedulers, repository):
        target = Path(__file__).with_name(f"{sheet.__name__}.svg")
        target.write_text(sheet().svg(), "utf-8")
