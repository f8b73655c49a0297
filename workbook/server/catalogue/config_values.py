"""Look-ups for configs that the server's core refuses. config_values.toml has the messages."""

from __future__ import annotations

import re

from ..pbtxt import Message, Scalar
from . import config_schema
from .evidence import CONFIG, PLACES, Evidence, show
from .language_models import is_for_vllm
from .rules import Advice, Catalogue, Parts, listed, near

CORE: Catalogue[Evidence] = Catalogue("config_values", PLACES)

#: Triton's platforms → the backend that a platform stands for.
PLATFORMS = {
    "ensemble": "",
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorrt_plan": "tensorrt",
    "tensorflow_savedmodel": "tensorflow",
    "tensorflow_graphdef": "tensorflow",
}
#: Triton's backends → the file that a backend serves; "" if its name varies.
BACKENDS = {
    "python": "model.py",
    "onnxruntime": "model.onnx",
    "pytorch": "model.pt",
    "openvino": "model.xml",
    "tensorflow": "model.savedmodel",
    "fil": "",
    "dali": "model.dali",
    "vllm": "model.json",
    "tensorrt": "model.plan",
    "tensorrtllm": "",
}
#: Names that people know from other tools and write by mistake → the backend that they mean.
_BACKEND_WORDS = {
    "onnx": "onnxruntime",
    "ort": "onnxruntime",
    "torch": "pytorch",
    "libtorch": "pytorch",
    "torchscript": "pytorch",
    "openvino_ir": "openvino",
    "tf": "tensorflow",
    "savedmodel": "tensorflow",
    "xgboost": "fil",
    "lightgbm": "fil",
    "sklearn": "fil",
    "scikit-learn": "fil",
    "trt": "tensorrt",
    "tensorrt_llm": "tensorrtllm",
    "trtllm": "tensorrtllm",
}
#: The ending of a model's file → the backend that serves such files.
_ENDINGS = {
    ".py": "python",
    ".onnx": "onnxruntime",
    ".pt": "pytorch",
    ".xml": "openvino",
    ".plan": "tensorrt",
    ".savedmodel/": "tensorflow",
    ".dali": "dali",
    ".ubj": "fil",
    ".tl": "fil",
}

#: The platform that later releases of Triton have for AOTInductor's model.pt2 (backend pytorch).
_AOTI = "torch_aoti"
_AOTI_LATER = (
    f"This server has no {_AOTI}: later releases of Triton have it, for model.pt2. Its own "
    "PyTorch backend reads TorchScript only."
)
#: The advice for a file of torch.export or AOTInductor, which this server does not read.
AS_TORCHSCRIPT = (
    'Save the module as TorchScript, torch.jit.script(module.eval()).save("model.pt"), and write '
    'platform: "pytorch_libtorch"; or export the module as ONNX (torch.onnx.export), or load the '
    "file in a Python model."
)


def pt2(evidence: Evidence) -> Advice | None:
    """The advice for a model.pt2; None if the version's folder has none, or other files as well."""
    files = [f for f in evidence.files() if not f.startswith("__pycache__")]
    if len(files) != 1 or not files[0].endswith(".pt2"):
        return None
    return Advice(
        f"{evidence.version}/{files[0]} is a file of torch.export or AOTInductor, and the PyTorch "
        "backend of this server reads TorchScript only.",
        f"{evidence.version}/{files[0]}",
        AS_TORCHSCRIPT,
    )


def backend_near(name: str) -> str:
    """The backend that was most likely meant; "" if none has a similar name.

    backend_near("onnx")  # onnxruntime
    """
    lower = name.lower()
    known = _BACKEND_WORDS.get(lower) or PLATFORMS.get(near(lower, PLATFORMS, cutoff=0.9), "")
    return known or near(lower, BACKENDS, cutoff=0.7)


def backend_of(files: list[str]) -> str:
    """The backend for the first of these files that has a known ending; "" if none has."""
    return next((b for f in files for end, b in _ENDINGS.items() if f.endswith(end)), "")


def _lines(backend: str, platform: str = "") -> str:
    """The line of a config that names a backend: `backend: …`, or `platform: …` if that exists."""
    platform = platform or next((p for p, b in PLATFORMS.items() if b == backend), "")
    return (
        f'platform: "{platform}" or backend: "{backend}"' if platform else f'backend: "{backend}"'
    )


def _write(evidence: Evidence, backend: str, lines: str, place: str = "") -> str:
    """The instruction to write these lines; for a folder of Python files, `backend: "python"`."""
    files = [f for f in evidence.files() if f != "__pycache__/"]
    if backend == "python" or not files or not all(f.endswith(".py") for f in files):
        return f"Write {lines}{place}."
    wanted = BACKENDS[backend]
    return (
        f'Write backend: "python": {evidence.version}/ holds {listed(files)}'
        f"{f', and no {wanted}' if wanted else ''}. "
        f"Write {lines} for {f'a {wanted}' if wanted else 'a model of that backend'}."
    )


#: Backends that NVIDIA's newer containers do not have → what to do.
_GONE = {
    "tensorflow": "NVIDIA's containers have it up to release 25.02. Leave the model out, or "
    "convert it, e.g. to ONNX.",
}


@CORE.look_up
def unknown_platform(evidence: Evidence, parts: Parts) -> Parts:
    """The platform or the backend that is meant."""
    name = parts["platform"]
    if name == _AOTI:
        return {"aoti": _AOTI_LATER, "todo": AS_TORCHSCRIPT}
    platform = near(name, PLATFORMS, cutoff=0.9)
    backend = PLATFORMS.get(platform, "") or backend_near(name)
    todo = f"Write backend: and one of {', '.join(BACKENDS)}."
    if platform and not backend:
        todo = f'Write platform: "{platform}".'
    elif backend:
        lines = _lines(backend, platform)
        todo = _write(evidence, backend, lines, " in place of the platform line")
    return {"backend": name if name in BACKENDS else "", "todo": todo}


@CORE.look_up
def unknown_backend(evidence: Evidence, parts: Parts) -> Parts:
    """The backend that is meant, or what to do where this server does not have it."""
    name = parts["backend"]
    if name == _AOTI:
        return {"aoti": _AOTI_LATER, "todo": AS_TORCHSCRIPT}
    if not name:
        return {"unnamed": "yes", "todo": 'Write e.g. backend: "python".'}
    if name in BACKENDS:
        serve = "Serve the model where it is installed (NVIDIA has several images), or convert it."
        return {"known": name, "todo": _GONE.get(name, serve)}
    platform, meant = near(name, PLATFORMS, cutoff=0.9), backend_near(name)
    if meant:
        lines = _lines(meant, platform) if platform else f'backend: "{meant}"'
        return {"platform": platform, "todo": _write(evidence, meant, lines)}
    if platform:
        return {"platform": platform, "todo": f'Write platform: "{platform}".'}
    return {"todo": f"Write one of {', '.join(BACKENDS)}."}


@CORE.look_up
def platform_and_backend(evidence: Evidence, parts: Parts) -> Parts:
    """Which of the two lines is wrong."""
    platform, backend = parts["platform"], parts["backend"]
    if platform == _AOTI:
        place = evidence.at("platform")
        return {"aoti": _AOTI_LATER, "place": place, "todo": AS_TORCHSCRIPT}
    other, meant = PLATFORMS.get(platform, ""), backend_of(evidence.files())
    wrong = "backend" if other and meant == other != backend else "platform"
    kept = f'platform: "{platform}"' if wrong == "backend" else f'backend: "{backend}"'
    return {"wrong": wrong, "kept": kept, "place": evidence.at(wrong)}


@CORE.look_up
def no_backend(evidence: Evidence, parts: Parts) -> Parts | Advice:
    """The backend of the files that are there."""
    if (newer := pt2(evidence)) is not None:
        return newer
    files = evidence.files()
    stray = [n for n in evidence.entries() if n.startswith("config") and n != CONFIG]
    has = bool(evidence.config_bytes.strip())
    return {
        "config": "yes" if has else "",
        "held": f"{evidence.version}/ holds {listed(files)}" if files else "there is no model file",
        "stray": stray[0] if stray and not has else "",
        "guess": backend_of(files) or ("vllm" if is_for_vllm(evidence) else ""),
    }


@CORE.look_up
def preferred_over_max(evidence: Evidence, parts: Parts) -> Parts | None:
    """The preferred size that is too large."""
    limit = int(evidence.value("max_batch_size", "0") or 0)
    for field in evidence.config.walk():
        value = field.value.text if isinstance(field.value, Scalar) else ""
        if field.name == "preferred_batch_size" and value.isdigit() and int(value) > limit:
            return {"size": value, "limit": str(limit), "place": show(field)}
    return None


@CORE.look_up
def sequence_state(evidence: Evidence, parts: Parts) -> Parts | None:
    """The server's sentence about the state; None for a config without one."""
    place = evidence.at("sequence_batching.state.initial_state", "sequence_batching.state")
    if place == CONFIG or "failed to open text file" in evidence.message:
        return None
    found = re.search(r"[^\n:;]*(?:initial_state|State input name)[^\n;]*", evidence.message)
    return {"place": place, "sentence": found[0].strip(" .") if found else parts["words"]}


@CORE.look_up
def override_field(evidence: Evidence, parts: Parts) -> Parts:
    """The field that is meant, or those that there are."""
    *section, name = parts["field"].rstrip(":").split(".")
    if section:
        known = config_schema.section_names(".".join(section))
        return {"name": name, "meant": near(name, known), "known": ", ".join(known)}
    known = config_schema.field_names("ModelConfig")
    meant = config_schema.field_near("ModelConfig", name)
    return {"name": name, "meant": meant, "known": ", ".join(known)}


@CORE.look_up
def override_value(evidence: Evidence, parts: Parts) -> Parts:
    """The value that is meant."""
    return {"meant": config_schema.enum_near(parts["field"], parts["value"])}


@CORE.look_up
def nameless(evidence: Evidence, parts: Parts) -> Parts:
    """The place of the tensor without a name."""
    sections = evidence.sections(parts["kind"])
    return {"place": next((show(f) for f, inner in sections if not inner.text("name")), CONFIG)}


@CORE.look_up
def instances(evidence: Evidence, parts: Parts) -> Parts:
    """What a backend runs on, and the GPUs that the server has."""
    names = (evidence.value("backend"), evidence.value("platform"))
    own = "Instances of OpenVINO models are KIND_CPU, also where there is a GPU."
    return {
        "openvino": own if names[0] == "openvino" else "",
        "engine": "yes" if any(name.startswith("tensorrt") for name in names) else "",
        "known": evidence.message.partition("are: ")[2].split("\n")[0].strip('; "'),
    }


@CORE.look_up
def warmup_file(evidence: Evidence, parts: Parts) -> Parts:
    """The place of the file's name in the config."""
    return {"place": evidence.at_value(parts["file"]) if parts["file"] else ""}


@CORE.look_up
def warmup_strings(evidence: Evidence, parts: Parts) -> Parts | None:
    """The file of a warm-up, and its dims; None where a request is meant."""
    given = parts.get("given", "")
    for _, warmup in evidence.sections("model_warmup"):
        entries = [f.value for f in warmup.all("inputs") if isinstance(f.value, Message)]
        values = [
            f.value for e in entries if e.text("key") == parts["input"] for f in e.all("value")
        ]
        for value in values:
            if isinstance(value, Message) and (file := value.text("input_data_file")):
                numbers = [field.value for field in value.all("dims")]
                return {
                    "file": file,
                    "place": f"warmup/{file} ({evidence.at_value(file)})",
                    "dims": ", ".join(d.text for d in numbers if isinstance(d, Scalar)),
                    "strings": f"{given} string{'' if given == '1' else 's'}" if given else "",
                }
    return None


@CORE.look_up
def warmup_input(evidence: Evidence, parts: Parts) -> Parts | None:
    """What the warm-up's inputs must be; None without a warm-up."""
    if not evidence.config.root.all("model_warmup"):
        return None
    if missing := parts.get("missing", "").strip("'"):
        paths = ("model_warmup.inputs.key", "model_warmup.inputs", "model_warmup")
        return {"lacks": missing, "place": evidence.at(*paths)}
    kind = "data_type" if "data-type is" in evidence.message else "dims"
    sizes = parts["wanted"].split(",")
    batched = evidence.value("max_batch_size", "0") != "0"
    return {
        "type": parts["wanted"].replace("BYTES", "STRING") if kind == "data_type" else "",
        "dims": ", ".join(sizes[1:] if batched else sizes),
        "place": evidence.at(f"model_warmup.inputs.value.{kind}", "model_warmup"),
    }
