"""Draw the diagrams of the lectures: `python lectures/images/draw.py` writes the SVG files.

Each diagram stands on a card of its own and has two palettes, a light and a dark one. A browser
takes the one that fits the page; a viewer that knows only one takes the light one. Both can be read
on any page. The text's contrast is tested (tests/lectures/test_images.py).

A diagram of one notebook is in the notebook's folder, one of several is in this folder. The start's
`architecture.svg` shows all of Triton. Those of lecture 1 are the same picture: the parts that the
notebook studies are coloured and have a thick frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

#: What is drawn → its colour on a light and on a dark card.
PALETTE = {
    "card": ("#f7f8f6", "#1d2328"),
    "plain": ("#ffffff", "#2b343b"),
    "ground": ("#eceff1", "#242c32"),
    "blue": ("#cfe5f5", "#1f4763"),
    "orange": ("#fbe3b0", "#5a4413"),
    "green": ("#bfe5d6", "#14503f"),
    "pink": ("#f0d3e1", "#5a3149"),
    "sky": ("#dcf0fb", "#204152"),
    "ink": ("#1f2933", "#eef2f4"),
    "soft": ("#4b5761", "#c3ccd3"),
    "line": ("#7c8892", "#84919b"),
    "mark": ("#b3470b", "#ffb454"),
}
TEXTS, GROUNDS = (
    ("ink", "soft"),
    ("card", "plain", "ground", "blue", "orange", "green", "pink", "sky"),
)
#: Requests: one colour where they are all alike, one colour per sequence where they are not.
REQUEST, REPLY, NAME = "#56B4E9", "#F0E442", "#111111"
SEQUENCES = {"A": "#2A8FD0", "B": "#E69F00", "C": "#00A67A", "D": "#D58BB4"}

#: The parts of the architecture that each notebook of lecture 1 studies.
STUDIED = {
    "01__first_model": ("clients", "http", "grpc", "repository", "python"),
    "02__inside_the_server": ("server", "cache", "agents", "limiter", "instances", "hardware"),
    "03__schedulers": ("default", "dynamic", "ensemble", "instances"),
    "04__sequences": ("sequence", "instances"),
    "05__dynamic_batcher": ("dynamic",),
    "06__queue_policies": ("dynamic",),
    "07__model_repository_manager": ("repository", "manager"),
    "08__metrics": ("metrics", "metrics_door", "prometheus"),
    "09__wire": ("clients", "http", "grpc"),
    "10__security": ("clients", "http", "grpc"),
    "11__generate": ("clients", "http", "openai"),
    "12__in_process": ("own",),
}


class Sheet:
    """A drawing of boxes, arrows and words; all lengths in pixels."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size = (width, height)
        self.title = title
        self.parts: list[str] = []

    def box(self, x, y, w, h, head="", lines=(), fill="plain", edge="line", dashed=False, thick=1):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="7" class="{fill} e-{edge}" '
            f'stroke-width="{thick}"{dash}/>'
        )
        middle = not lines and h < 60
        if head:
            self.words(x + w / 2, y + (h / 2 + 5 if middle else 21), head, bold=True, at="middle")
        for i, line in enumerate(lines):
            top = y + (40 if head else 21) + 18 * i
            self.words(x + w / 2, top, line, size=12.5, at="middle", colour="soft")

    def words(self, x, y, text, size=14.0, bold=False, at="start", colour="ink", mono=False):
        weight = ' font-weight="600"' if bold else ""
        family = ' font-family="ui-monospace, DejaVu Sans Mono, monospace"' if mono else ""
        paint = f'fill="{colour}"' if colour.startswith("#") else f'class="{colour}"'
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{at}" '
            f'{paint}{weight}{family} xml:space="preserve">{escape(text)}</text>'
        )

    def arrow(self, x1, y1, x2, y2, text="", both=False):
        start = ' marker-start="url(#tip)"' if both else ""
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="e-soft" stroke-width="1.6" '
            f'marker-end="url(#tip)"{start}/>'
        )
        if text:
            self.words((x1 + x2) / 2 + 6, (y1 + y2) / 2 - 5, text, size=12, colour="soft")

    def path(self, steps, edge="soft", width=1.4):
        self.parts.append(
            f'<path d="{steps}" class="e-{edge}" stroke-width="{width}" fill="none"/>'
        )

    def slot(self, x, y, w, h, text, colour):
        """A request in its place."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="3" fill="{colour}" '
            f'class="e-ink" stroke-width=".6"/>'
        )
        self.words(x + w / 2, y + h / 2 + 4.5, text, size=12, at="middle", colour=NAME)

    def empty(self, x, y, w, h):
        """A slot without a request."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="3" fill="none" '
            f'class="e-line" stroke-dasharray="4 3"/>'
        )

    def svg(self) -> str:
        w, h = self.size
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" '
            f'height="{h}" role="img" font-family="system-ui, Segoe UI, Roboto, Helvetica, '
            f'Arial, DejaVu Sans, sans-serif">',
            f"<title>{escape(self.title)}</title>",
            f"<style>{_rules(0)}",
            f"@media (prefers-color-scheme: dark) {{ {_rules(1)} }}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            'markerHeight="8" orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" '
            'class="soft"/></marker></defs>',
            f'<rect width="{w}" height="{h}" rx="12" class="card"/>',
            *self.parts,
            "</svg>\n",
        ])  # fmt: skip


def _rules(which: int) -> str:
    """The CSS of a palette: 0 is the light one, 1 the dark one."""
    return " ".join(
        f".{name}{{fill:{pair[which]}}} .e-{name}{{stroke:{pair[which]}}}"
        for name, pair in PALETTE.items()
    )


def architecture(topic: str = "") -> Sheet:
    """The parts of Triton; those that the topic's notebook studies are marked."""
    about = f"; marked: {', '.join(STUDIED[topic])}" if topic else ""
    s = Sheet(920, 596, f"Triton: front ends, core, backends, model repository{about}")

    def part(name: str, x, y, w, h, head: str, lines: Sequence[str] = (), fill="plain", size=14.0):
        studied = name in STUDIED.get(topic, ())
        if topic and not studied:
            fill = "plain"
        if studied and fill == "plain":
            fill = "orange"
        s.box(x, y, w, h, fill=fill, edge="mark" if studied else "line", thick=3 if studied else 1)
        rows = [*head.split("|"), *lines]
        top = y + h / 2 - 9 * len(rows) + 14
        for i, row in enumerate(rows):
            bold = i <= head.count("|")
            s.words(
                x + w / 2, top + 18 * i, row, size if bold else 12, bold, "middle",
                "ink" if bold else "soft",
            )  # fmt: skip

    part("clients", 190, 16, 306, 46, "Clients", ["programs, browsers, curl"], "sky")
    part("prometheus", 504, 16, 116, 46, "Prometheus", ["reads metrics"], "sky")
    part("own", 632, 16, 138, 46, "Your program", ["C, C++, Java, Python"], "sky")
    s.box(190, 90, 430, 72, fill="ground")
    s.words(180, 127, "Front ends", bold=True, at="end")
    doors = (
        ("http", "HTTP", ":8000"), ("grpc", "gRPC", ":8001"), ("openai", "OpenAI", ":9000"),
        ("metrics_door", "metrics", ":8002"),
    )  # fmt: skip
    for i, (name, head, line) in enumerate(doors):
        part(name, 200 + 104 * i, 108, 98, 46, head, [line], "blue")
        s.arrow(249 + 104 * i, 64, 249 + 104 * i, 106, both=True)
    s.arrow(405, 164, 405, 182, both=True)
    s.arrow(701, 64, 701, 182, both=True)
    s.words(709, 120, "in-process,", 12, colour="soft")
    s.words(709, 136, "no network", 12, colour="soft")
    s.box(190, 184, 580, 246, fill="ground")
    s.words(204, 204, "Core (C API: TRITONSERVER_…)", bold=True)
    inside = (
        ("manager", "Repository|manager", "3 control modes"),
        ("agents", "Repository|agents", "act on loading"),
        ("server", "Server", "requests, logs"),
        ("cache", "Response|cache", "local, Redis"),
        ("metrics", "Metrics", "counts, times"),
    )
    for i, (name, head, line) in enumerate(inside):
        part(name, 200 + 113 * i, 214, 108, 66, head, [line], "plain", 13)
    s.box(200, 290, 560, 130, fill="plain" if topic else "orange")
    s.words(212, 310, "Scheduler: each model has one", bold=True)
    kinds = (
        ("default", "default", "if no other is set"), ("dynamic", "dynamic", "joins requests"),
        ("sequence", "sequence", "direct, oldest"), ("ensemble", "ensemble", "graph of models"),
    )  # fmt: skip
    for i, (name, head, line) in enumerate(kinds):
        part(name, 210 + 137 * i, 320, 129, 50, head, [line], "orange" if topic else "plain", 13)
    part(
        "limiter", 210, 378, 540, 32, "rate limiter: which instance may run now", (), "plain", 12.5
    )
    s.arrow(480, 432, 480, 448, both=True)
    s.box(190, 450, 580, 130, fill="ground")
    s.words(204, 470, "Backends (TRITONBACKEND_…) run the instances of models", bold=True)
    names = ("python", "onnxruntime", "pytorch", "openvino", "tensorrt", "fil, dali …")
    for i, name in enumerate(names):
        part(name, 200 + 94 * i, 480, 89, 38, name, (), "green", 11.5)
    for i, name in enumerate(("instance 0 on the CPU", "instance 1 on the CPU", "one on a GPU")):
        part(
            "instances", 200 + 188 * i, 528, 184, 40, name, (), "green" if topic else "plain", 12.5
        )
    part(
        "repository", 14, 200, 152, 96, "Model repository",
        ["disk, S3, GCS, Azure", "name/version/file", "config.pbtxt"], "pink",
    )  # fmt: skip
    s.arrow(166, 247, 198, 247)
    part(
        "hardware", 790, 450, 118, 118, "Hardware", ["CPU cores", "RAM", "GPU", "disk"], "sky"
    )  # fmt: skip
    s.arrow(770, 510, 788, 510, both=True)
    return s


def request() -> Sheet:
    s = Sheet(920, 300, "The way of a request through Triton, and the times that are counted")
    steps = (
        ("front end", "HTTP or gRPC", "blue"),
        ("core", "checks the tensors", "ground"),
        ("queue", "of the scheduler", "orange"),
        ("input", "tensors gathered", "green"),
        ("infer", "the model runs", "green"),
        ("output", "tensors split", "green"),
        ("front end", "sends the answer", "blue"),
    )
    for i, (head, line, fill) in enumerate(steps):
        x = 22 + 127 * i
        s.box(x, 66, 112, 56, fill=fill)
        s.words(x + 56, 90, head, bold=True, at="middle")
        s.words(x + 56, 110, line, 11.5, at="middle", colour="soft")
        if i < 6:
            s.arrow(x + 112, 94, x + 126, 94)
    s.words(22, 38, "one request", bold=True)
    s.words(403, 38, "one execution: one or more requests on one instance", 13, colour="soft")
    s.path("M403 48 v8 M403 48 H768 M768 48 v8")
    spans = (
        (149, 768, 156, "request: nv_inference_request_duration_us"),
        (276, 388, 196, "queue"),
        (403, 515, 196, "compute_input"),
        (530, 642, 196, "compute_infer"),
        (657, 768, 196, "compute_output"),
    )
    for left, right, y, name in spans:
        s.path(f"M{left} {y - 8} v16 M{left} {y} H{right} M{right} {y - 8} v16", "ink")
        below = -9 if y == 156 else 22
        s.words((left + right) / 2, y + below, name, 12, at="middle", mono=True)
    notes = (
        "With a response cache, the core looks the request up first. If its answer is there,",
        "the request does not wait and no model runs. An ensemble sends one request per step.",
    )
    for i, note in enumerate(notes):
        s.words(460, 256 + 20 * i, note, 13, at="middle", colour="soft")
    return s


def schedulers() -> Sheet:
    s = Sheet(920, 520, "What each scheduler of Triton does with the same requests")

    def frame(x, y, head, line):
        s.box(x, y, 286, 236, fill="plain")
        s.words(x + 14, y + 25, head, bold=True)
        s.words(x + 14, y + 45, line, 12, colour="soft")

    def time_axis(x, y):
        s.arrow(x, y, x + 258, y)
        s.words(x + 258, y + 17, "time", 12, at="end", colour="soft")

    def stack(x, y, names):
        for i, name in enumerate(names):
            s.slot(x, y + 26 * i, 46, 24, name, REQUEST)

    def slots(x, y, columns, count):
        """A batch per column: its requests, or a dashed slot where it has none."""
        for i in range(count):
            s.words(x, y + 17 + 26 * i, f"slot {i}", 11.5, colour="soft")
        for j, names in enumerate(columns):
            for i in range(count):
                place = (x + 46 + 53 * j, y + 26 * i, 46, 24)
                if i < len(names) and names[i]:
                    s.slot(*place, names[i], SEQUENCES[names[i][0]])
                elif i < len(names):
                    s.empty(*place)

    frame(16, 16, "Default", "each request is an execution of its own")
    for i in range(4):
        s.slot(30 + 62 * i, 120, 46, 24, f"r{i + 1}", REQUEST)
    time_axis(30, 206)
    frame(317, 16, "Dynamic batcher", "requests that wait together run together")
    stack(335, 92, ["r1"])
    stack(415, 92, ["r2", "r3", "r4"])
    stack(495, 92, ["r5", "r6"])
    time_axis(331, 206)
    frame(618, 16, "Ensemble", "each step is a request to another model")
    for i, name in enumerate(("tokenizer", "model", "labels")):
        s.box(632 + 93 * i, 110, 72, 40, fill="green")
        s.words(668 + 93 * i, 135, name, 12, at="middle")
        if i < 2:
            s.arrow(704 + 93 * i, 130, 723 + 93 * i, 130)
    s.words(761, 196, "a graph without cycles;", 12, at="middle", colour="soft")
    s.words(761, 214, "the tensors stay in the server", 12, at="middle", colour="soft")
    frame(16, 268, "Sequence batcher, direct", "a sequence keeps its slot until it ends")
    slots(30, 328, [["A1", "B1", "C1"], ["A2", "B2", "C2"], ["A3", "", "C3"], ["A4", "D1", ""]], 3)
    s.words(159, 426, "dashed: an empty slot, READY is false", 12, at="middle", colour="soft")
    time_axis(30, 458)
    frame(317, 268, "Sequence batcher, oldest", "the oldest requests of different sequences")
    slots(331, 328, [["A1", "B1", "C1"], ["A2", "B2", "C2"], ["A3", "C3"], ["A4", "D1"]], 3)
    s.words(460, 426, "no empty slot: C3 moves up to slot 1", 12, at="middle", colour="soft")
    time_axis(331, 458)
    frame(618, 268, "Decoupled", "a model transaction policy")
    s.slot(640, 366, 46, 24, "r1", REQUEST)
    for i in range(3):
        s.slot(760 + 44 * i, 338 + 30 * i, 40, 24, f"1.{i + 1}", REPLY)
        s.arrow(690, 378, 756 + 44 * i, 350 + 30 * i)
    s.words(761, 452, "a request may have none, one or many", 12, at="middle", colour="soft")
    s.words(761, 470, "responses; the last one says that it is", 12, at="middle", colour="soft")
    return s


def repository() -> Sheet:
    s = Sheet(920, 330, "The layout of a model repository")
    tree = (
        ("model_repository/", "what --model-repository names"),
        ("└── text_recognition/", "a model: the folder's name is the model's name"),
        ("    ├── config.pbtxt", "the model configuration: inputs, outputs, batching, instances"),
        ("    ├── labels.txt", "what belongs to all versions"),
        ("    ├── conda_env.tar.gz", "an environment of its own (EXECUTION_ENV_PATH)"),
        ("    ├── 1/", "a version: a number; names that begin with 0 are ignored"),
        ("    │   └── model.py", "the model's file; its name is the backend's choice"),
        ("    └── 2/", "the next version: version_policy says which are served"),
        ("        └── model.py", ""),
    )
    for i, (left, right) in enumerate(tree):
        y = 44 + 32 * i
        if i % 2:
            s.parts.append(f'<rect x="16" y="{y - 21}" width="888" height="31" class="ground"/>')
        s.words(32, y, left, 15, mono=True)
        s.words(390, y, right, 14, colour="soft")
    return s


def diagrams() -> dict[str, Sheet]:
    """Every diagram, by its file below `lectures/`."""
    first = "1_architecture"
    marked = {f"{first}/{name}/architecture.svg": architecture(name) for name in STUDIED}
    return {
        "00__start/architecture.svg": architecture(),
        **marked,
        f"{first}/04__sequences/schedulers.svg": schedulers(),
        f"{first}/08__metrics/request.svg": request(),
        "images/repository.svg": repository(),
    }


if __name__ == "__main__":
    for file, sheet in diagrams().items():
        (Path(__file__).parents[1] / file).write_text(sheet.svg(), "utf-8")
